import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { type EventGroup, eventGroups, isEventGroup } from "../../activity/event-kinds.ts";
import { listEvents } from "../../activity/list-events.ts";
import { readPageQuery } from "../../http/list-page.ts";
import { requireUser } from "../../session/user.ts";
import { ActivityList } from "../../settings/activity-list.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Activity");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { cursor, limit } = readPageQuery(request, context);
  const given = new URL(request.url).searchParams.get("show");
  const group = isEventGroup(given) ? given : null;
  const page = await listEvents(user, { limit, cursor, group, requestId: context.requestId });
  return { ...page, group, first: cursor === undefined };
}

const groups = Object.entries(eventGroups) as [EventGroup, { label: string }][];

function pathOf(query: { show: EventGroup | null; cursor?: string }): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []));
  return `/settings/security/activity${given.length > 0 ? `?${new URLSearchParams(given)}` : ""}`;
}

export default function ActivityPage() {
  const { events, nextCursor, group, first } = useLoaderData<typeof loader>();
  const title = group ? eventGroups[group].label : "Sign-ins, connections and security changes";
  return (
    <Page title="Activity">
      <nav aria-label="Filter" className="flex flex-wrap gap-2">
        {[[null, { label: "All" }] as const, ...groups].map(([show, { label }]) => (
          <ButtonLink
            key={label}
            href={pathOf({ show })}
            variant={show === group ? "secondary" : "quiet"}
            aria-current={show === group ? "page" : undefined}
          >
            {label}
          </ButtonLink>
        ))}
      </nav>
      <Card title={first ? title : `Older: ${title.charAt(0).toLowerCase()}${title.slice(1)}`}>
        {events.length > 0 ? (
          <ActivityList events={events} />
        ) : (
          <p className="text-muted">
            {first && group ? "Nothing here yet. Choose All to see everything." : "No more activity."}
          </p>
        )}
      </Card>
      <nav aria-label="Pages" className="flex flex-wrap gap-3">
        {first ? null : <ButtonLink href={pathOf({ show: group })}>Newest</ButtonLink>}
        {nextCursor ? <ButtonLink href={pathOf({ show: group, cursor: nextCursor })}>Older</ButtonLink> : null}
        <ButtonLink href="/settings/security#activity">Back to security</ButtonLink>
      </nav>
    </Page>
  );
}
