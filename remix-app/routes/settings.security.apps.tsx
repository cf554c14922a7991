import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../http/route-table.ts";
import { requireUser } from "../identity/user.ts";
import { listConnectedApps } from "../satellites/connected-apps.ts";
import { ConnectedAppCard } from "../settings/connected-app-card.tsx";
import { takeNotice } from "../settings/settings-notice.ts";
import { buttonClass } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { CardNotice } from "../ui/card-notice.tsx";
import { SettingsPage } from "../ui/settings-page.tsx";

export const handle: RouteHandle = { hydrate: false };

export const meta: MetaFunction = () => [{ title: "Connected apps · Gatehouse" }];

const words = {
  disconnected: "The app is disconnected. Nothing that it held of your account works any more.",
  over: "That app was disconnected already.",
};

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { email, displayName } = user;
  const apps = await listConnectedApps(context, user);
  return { user: { email, displayName }, apps, notice: takeNotice(context) };
}

export default function ConnectedAppsPage() {
  const { user, apps, notice } = useLoaderData<typeof loader>();
  return (
    <SettingsPage
      user={user}
      title="Connected apps"
      lead="Apps that you signed in to with this account, and what they may do. Disconnect what you no longer use."
    >
      <CardNotice notice={notice} card="apps" words={words} />
      {apps.map((app) => (
        <ConnectedAppCard key={app.name} app={app} />
      ))}
      {apps.length === 0 ? (
        <Card
          title="No connected apps"
          lead="No app holds anything of your account. One that you continue to with it is listed here until it ends."
        />
      ) : null}
      <a href="/settings/security#apps" className={buttonClass("secondary")}>
        Back to security
      </a>
    </SettingsPage>
  );
}
