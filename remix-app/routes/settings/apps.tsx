import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { listConnectedApps } from "../../apps/connected-apps.ts";
import { paginateInMemory } from "../../http/list-page.ts";
import { requireUser } from "../../session/user.ts";
import { ConnectedAppCard } from "../../settings/connected-apps-card.tsx";
import { takeNotice } from "../../settings/settings-notice.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { CardNotice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Connected apps");

const disconnectMessages = {
  disconnected: "App disconnected. It no longer has access to your account.",
  over: "That app was already disconnected.",
};

const appsShown = 10;

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { records: apps, nextCursor } = paginateInMemory(await listConnectedApps(context, user), {
    limit: appsShown,
    cursor: new URL(request.url).searchParams.get("cursor"),
    idOf: ({ name }) => name,
    requestId: context.requestId,
  });
  return { apps, nextCursor, notice: takeNotice(context, request) };
}

export default function ConnectedAppsPage() {
  const { apps, nextCursor, notice } = useLoaderData<typeof loader>();
  return (
    <Page
      title="Connected apps"
      lead="Apps you’ve signed in to with this account, and what they can do. Disconnect any you no longer use."
    >
      <CardNotice notice={notice} card="apps" words={disconnectMessages} />
      {apps.length > 0 ? (
        <div className="wrap-anywhere space-y-6">
          {apps.map((app) => (
            <ConnectedAppCard key={app.name} app={app} />
          ))}
        </div>
      ) : (
        <Card title="No connected apps" lead="Apps you sign in to with this account will appear here." />
      )}
      <PageNav label="Pages of apps" nextCursor={nextCursor} />
      <ButtonLink href="/settings/security#apps">Back to security</ButtonLink>
    </Page>
  );
}
