import { eventLabel } from "../activity/event-kinds.ts";
import type { ActivityEvent } from "../activity/list-events.ts";
import { detailText, methodLabel } from "../activity/method-label.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { DotSeparated } from "../ui/facts.tsx";
import { RelativeTime } from "../ui/moment.tsx";

/** Lists account events: what happened, by which method, when and where. */
export function ActivityList({ events }: { events: readonly ActivityEvent[] }) {
  return (
    <ul className="divide-y divide-line">
      {events.map(({ id, kind, method, createdAt, device, place, ip, details }) => (
        <li key={id} className="flex flex-wrap justify-between gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0">
          <div className="min-w-0">
            <p className="font-medium">{eventLabel(kind)}</p>
            <p className="text-muted">
              <DotSeparated facts={[method && methodLabel(method), ...textsOf(details)]} />
            </p>
          </div>
          <div className="min-w-0 text-muted sm:text-right">
            <p>
              <RelativeTime at={createdAt} />
            </p>
            <p>
              <DotSeparated facts={[device, place, ip]} />
            </p>
          </div>
        </li>
      ))}
    </ul>
  );
}

function textsOf(details: Record<string, unknown>): string[] {
  return Object.entries(details).flatMap(([name, value]) =>
    typeof value !== "string" ? [] : [detailText(name, value)],
  );
}

/** Shows the newest entries of the account's log. */
export function RecentActivityCard({ events }: { events: readonly ActivityEvent[] }) {
  return (
    <Card
      id="activity"
      title="Recent activity"
      lead="Recent sign-ins and security changes. Check for anything you don’t recognize."
      action={events.length > 0 ? <ButtonLink href="/settings/security/activity">View all activity</ButtonLink> : null}
    >
      {events.length > 0 ? (
        <ActivityList events={events} />
      ) : (
        <p className="text-muted">No activity yet. Your next sign-in will appear here.</p>
      )}
    </Card>
  );
}
