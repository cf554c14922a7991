import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { describeDisconnection } from "../../apps/app-rights.ts";
import { disconnectApp, listConnectedApps, wasConnected } from "../../apps/connected-apps.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { requireFreshUser } from "../../session/user.ts";
import { connectedAppsPath } from "../../settings/paths.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Disconnect an app");

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const { appName = "" } = params;
  const app = (await listConnectedApps(context, user)).find(({ name }) => name === appName);
  if (!app) {
    if (!(await wasConnected(context, { user, appName }))) throw problem("NOT_FOUND", { requestId: context.requestId });
    // The app was disconnected after the page with this link was loaded.
    leaveNotice(context, { card: "apps", done: "over" });
    throw redirect(connectedAppsPath);
  }
  return { app };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  await readForm(request, context);
  const done = await disconnectApp(context, { user, appName: params.appName ?? "" });
  if (done === "not_found") throw problem("NOT_FOUND", { requestId: context.requestId });
  leaveNotice(context, { card: "apps", done });
  throw redirect(connectedAppsPath, 303);
}

export default function DisconnectAppPage() {
  const { app } = useLoaderData<typeof loader>();
  return (
    <Page title={`Disconnect ${app.displayName}?`} lead={app.origins.join(", ")}>
      <Card title="What happens" lead={describeDisconnection(app)}>
        <AccountForm className="flex flex-wrap gap-3">
          <Button variant="danger">Disconnect</Button>
          <ButtonLink href={connectedAppsPath}>Cancel</ButtonLink>
        </AccountForm>
      </Card>
    </Page>
  );
}
