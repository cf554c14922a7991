import { type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { readForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { requireAppUser } from "../../satellites/own/app-user.ts";
import { readOwnWorkspace, renameOwnWorkspace } from "../../satellites/own/workspaces.ts";
import { Button } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";

export const handle: RouteHandle = { side: "satellite" };

export const meta: MetaFunction<typeof loader> = ({ data }) => [{ title: data?.workspace.name ?? "Workspace" }];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { id: person } = await requireAppUser(context, request);
  const workspace = await readOwnWorkspace(context, { request, id: params.workspaceId });
  return { person, workspace, renamed: new URL(request.url).searchParams.has("renamed") };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const user = await requireAppUser(context, request);
  const form = await readForm(request, context);
  const name = String(form.get("name") ?? "");
  const id = params.workspaceId;
  // In another tab somebody else has signed in since.
  if (form.has("person") && form.get("person") !== user.id) {
    const error = `You’re signed in as ${user.email ?? user.name ?? "somebody else"} now. Nothing was changed. Save again to continue as this account.`;
    return data({ name, error }, { status: 409 });
  }
  if (await renameOwnWorkspace(context, { request, id, name })) throw redirect(`/w/${id}?renamed`, 303);
  return data({ name, error: "Enter a name of 1 to 80 characters." }, { status: 400 });
}

export default function SatelliteWorkspacePage() {
  const { person, workspace, renamed } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  return (
    <EntryPage title={workspace.name} lead={`Your role here: ${workspace.role}`} themeSwitch={false}>
      {renamed && !answer ? <Notice tone="good">Name changed, here and on the platform.</Notice> : null}
      <ErrorSummary id="rename-error" fields={{ name: answer?.error }} />
      {workspace.permissions.includes("manage_workspace_settings") ? (
        <form method="post" action={`/w/${workspace.id}`} noValidate data-once className="space-y-4">
          <input type="hidden" name="person" value={person} />
          <Field
            name="name"
            label="Name"
            required
            maxLength={80}
            defaultValue={answer?.name ?? workspace.name}
            error={answer?.error}
          />
          <Button>Save name</Button>
        </form>
      ) : (
        <p className="text-muted">Your role doesn’t allow you to change the name.</p>
      )}
      <p>
        <a className="link" href="/">
          All workspaces
        </a>
      </p>
    </EntryPage>
  );
}
