import type { ActivityEvent } from "../activity/list-events.ts";
import { buttonClass } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { ActivityList } from "./activity-list.tsx";

/** The newest lines of the account's log. */
export function RecentActivityCard({ events }: { events: readonly ActivityEvent[] }) {
  return (
    <Card
      id="activity"
      title="Recent activity"
      lead="Sign-ins and changes to your account. Look for what was not you."
      action={
        events.length > 0 ? (
          <a href="/settings/security/activity" className={buttonClass("secondary")}>
            See all
          </a>
        ) : null
      }
    >
      {events.length > 0 ? (
        <ActivityList events={events} />
      ) : (
        <p className="text-muted">Nothing yet. Your next sign-in will be the first entry.</p>
      )}
    </Card>
  );
}
