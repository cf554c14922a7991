import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { readPageQuery } from "../../http/list-page.ts";
import { requireUser } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { WorkspaceList } from "../../ui/workspace-list.tsx";
import { createWorkspace, workspaceNameSchema } from "../../workspaces/create-workspace.ts";
import { isConflict, workspaceProblem } from "../../workspaces/failures.ts";
import { listWorkspaces } from "../../workspaces/list-workspaces.ts";

export const meta = pageTitle("Workspaces");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { requestId } = context;
  return listWorkspaces(user, { ...readPageQuery(request, context), requestId });
}

export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireUser(context, request);
  const given = String((await readForm(request, context)).get("name") ?? "");
  const name = workspaceNameSchema.safeParse(given);
  if (!name.success) return data({ given, message: name.error.issues[0]?.message ?? "" }, { status: 400 });
  const created = await createWorkspace(user, name.data);
  if ("id" in created) throw redirect(`/workspaces/${created.id}`);
  if (!isConflict(created.error)) throw workspaceProblem(created.error, context);
  return data({ given, message: "You’ve created as many workspaces as you can. Delete one first." }, { status: 409 });
}

export default function WorkspacesPage() {
  const { workspaces, nextCursor } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  return (
    <Page title="Workspaces">
      <Card title="Your workspaces">
        <WorkspaceList workspaces={workspaces} />
        <PageNav label="Pages of workspaces" nextCursor={nextCursor} />
      </Card>
      <Card title="New workspace" lead="Each workspace has its own API keys, credits and usage.">
        <AccountForm noValidate className="max-w-108 space-y-4">
          <ErrorSummary id="new-workspace-error" fields={{ name: failed?.message }} />
          <Field
            name="name"
            label="Name"
            required
            maxLength={80}
            defaultValue={failed?.given}
            error={failed?.message}
          />
          <Button>Create workspace</Button>
        </AccountForm>
      </Card>
    </Page>
  );
}
