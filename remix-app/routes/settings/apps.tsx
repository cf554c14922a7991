import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { listConnectedApps } from "../../satellites/connected-apps.ts";
import { requireUser } from "../../session/user.ts";
import { ConnectedAppCard } from "../../settings/connected-apps-card.tsx";
import { takeNotice } from "../../settings/settings-notice.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { CardNotice } from "../../ui/notice.tsx";
import { SettingsPage } from "../../ui/settings-page.tsx";

export const meta: MetaFunction = () => [{ title: "Connected apps · Gatehouse" }];

const words = {
  disconnected: "The app is disconnected. What it held of your account no longer works.",
  over: "That app was disconnected already.",
};

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const apps = await listConnectedApps(context, user);
  return { apps, notice: takeNotice(context, request) };
}

export default function ConnectedAppsPage() {
  const { apps, notice } = useLoaderData<typeof loader>();
  return (
    <SettingsPage
      title="Connected apps"
      lead="Apps that you signed in to with this account, and what they may do. Disconnect what you no longer use."
    >
      <CardNotice notice={notice} card="apps" words={words} />
      {apps.length > 0 ? (
        <div className="wrap-anywhere space-y-6">
          {apps.map((app) => (
            <ConnectedAppCard key={app.name} app={app} />
          ))}
        </div>
      ) : (
        <Card
          title="No connected apps"
          lead="No app has access to your account. Apps that you sign in to with it are listed here."
        />
      )}
      <ButtonLink href="/settings/security#apps">Back to security</ButtonLink>
    </SettingsPage>
  );
}
