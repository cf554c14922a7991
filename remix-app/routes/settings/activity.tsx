import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
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
  const page = await listEvents(user, { limit, cursor, requestId: context.requestId });
  return { ...page, first: cursor === undefined };
}

export default function ActivityPage() {
  const { events, nextCursor, first } = useLoaderData<typeof loader>();
  return (
    <Page title="Activity">
      <Card title={first ? "Sign-ins and security changes" : "Older sign-ins and security changes"}>
        {events.length > 0 ? <ActivityList events={events} /> : <p className="text-muted">No more activity.</p>}
      </Card>
      <nav aria-label="Pages" className="flex flex-wrap gap-3">
        {first ? null : <ButtonLink href="/settings/security/activity">Newest</ButtonLink>}
        {nextCursor ? (
          <ButtonLink href={`/settings/security/activity?${new URLSearchParams({ cursor: nextCursor })}`}>
            Older
          </ButtonLink>
        ) : null}
        <ButtonLink href="/settings/security#activity">Back to security</ButtonLink>
      </nav>
    </Page>
  );
}
