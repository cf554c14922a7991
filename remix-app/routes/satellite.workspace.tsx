import { type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { readForm } from "../http/form.ts";
import type { RouteHandle } from "../http/route-table.ts";
import { requireAppUser } from "../satellites/own/app-user.ts";
import { readOwnWorkspace, renameOwnWorkspace } from "../satellites/own/workspaces.ts";
import { Button } from "../ui/button.tsx";
import { EntryPage } from "../ui/entry-page.tsx";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { Field } from "../ui/field.tsx";
import { Notice } from "../ui/notice.tsx";

export const handle: RouteHandle = { side: "satellite", hydrate: false };

export const meta: MetaFunction<typeof loader> = ({ data }) => [{ title: data?.workspace.name ?? "Workspace" }];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireAppUser(context, request);
  const workspace = await readOwnWorkspace(context, { request, id: params.workspaceId });
  return { workspace, renamed: new URL(request.url).searchParams.has("renamed") };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  await requireAppUser(context, request);
  const name = String((await readForm(request, context)).get("name") ?? "");
  const id = params.workspaceId;
  if (await renameOwnWorkspace(context, { request, id, name })) throw redirect(`/w/${id}?renamed`, 303);
  return data({ name, error: "Enter a name of 1 to 80 characters." }, { status: 400 });
}

export default function SatelliteWorkspacePage() {
  const { workspace, renamed } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const errors = answer ? [answer.error] : undefined;
  return (
    <EntryPage title={workspace.name} lead={`Your role here: ${workspace.role}`} themeSwitch={false}>
      {renamed && !answer ? <Notice tone="good">The name is changed, here and on the platform.</Notice> : null}
      <ErrorSummary
        id="rename-error"
        form={undefined}
        fields={answer ? [{ fieldId: "name", message: answer.error }] : []}
      />
      {workspace.permissions.includes("manage_workspace_settings") ? (
        <form method="post" action={`/w/${workspace.id}`} noValidate data-once className="space-y-4">
          <Field
            id="name"
            name="name"
            label="Name"
            required
            maxLength={80}
            defaultValue={answer?.name ?? workspace.name}
            errorId="name-error"
            errors={errors}
          />
          <Button>Save name</Button>
        </form>
      ) : (
        <p className="text-muted">Your role does not allow changing the name.</p>
      )}
      <p>
        <a className="link" href="/">
          All workspaces
        </a>
      </p>
    </EntryPage>
  );
}
