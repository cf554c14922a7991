import { eventLabel } from "../activity/event-kinds.ts";
import type { ActivityEvent } from "../activity/list-events.ts";
import { methodLabel } from "../activity/method-label.ts";
import { Dotted } from "../ui/dotted.tsx";
import { RelativeTime } from "../ui/relative-time.tsx";

/** What happened to an account: what, by which method, when and where. */
export function ActivityList({ events }: { events: readonly ActivityEvent[] }) {
  return (
    <ul className="divide-y divide-line">
      {events.map(({ id, kind, method, createdAt, device, ip, details }) => (
        <li key={id} className="flex flex-wrap justify-between gap-x-6 gap-y-0.5 py-2.5 first:pt-0 last:pb-0">
          <div className="min-w-0">
            <p className="font-medium">{eventLabel(kind)}</p>
            <p className="text-muted">
              <Dotted facts={[method && methodLabel(method), ...textsOf(details)]} />
            </p>
          </div>
          <div className="min-w-0 text-muted sm:text-right">
            <p>
              <RelativeTime at={createdAt} />
            </p>
            <p>
              <Dotted facts={[device, ip]} />
            </p>
          </div>
        </li>
      ))}
    </ul>
  );
}

function textsOf(details: Record<string, unknown>): string[] {
  return Object.values(details).filter((value) => typeof value === "string");
}
