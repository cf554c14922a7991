import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { requireUser } from "../identity/user.ts";
import { AppPage } from "../ui/app-page.tsx";
import { Card } from "../ui/card.tsx";
import { WorkspaceList } from "../ui/workspace-list.tsx";
import { listWorkspaces } from "../workspaces/list-workspaces.ts";

export const meta: MetaFunction = () => [{ title: "Workspaces · Gatehouse" }];

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { email, displayName } = user;
  return { user: { email, displayName }, workspaces: await listWorkspaces(user, context) };
}

export default function WorkspacesPage() {
  const { user, workspaces } = useLoaderData<typeof loader>();
  return (
    <AppPage user={user} title="Workspaces">
      <Card title="Yours" lead="Your personal one comes first.">
        <WorkspaceList workspaces={workspaces} />
      </Card>
    </AppPage>
  );
}
