import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card, Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { listCountedRoles } from "../../workspaces/members.ts";
import { requirePermission, requireWorkspace } from "../../workspaces/permission.ts";
import { applyRoleChange, nameFault, parseRoleChange, readRoleForm } from "../../workspaces/role-changes.ts";
import { FinancePresetForm, RoleForm, RoleList } from "../../workspaces/role-form.tsx";
import { canEditRole, offersFinancePreset } from "../../workspaces/roles.ts";

export const meta = pageTitle<typeof loader>((data) => `Roles · ${data?.workspace.name ?? "Workspace"}`);

const notices: Record<string, string> = {
  created: "Role created. Assign it on the Members page.",
  saved: "Role updated for everyone who has it.",
  deleted: "Role deleted.",
};

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const place = { workspaceId: workspace.id, requestId: context.requestId };
  const roles = await listCountedRoles(user, place);
  return {
    workspace,
    done: notices[new URL(request.url).searchParams.get("done") ?? ""] ?? null,
    offersPreset: offersFinancePreset(roles, workspace),
    roles: roles.map((role) => ({ ...role, editable: canEditRole(role, workspace) })),
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const permission = "manage_members";
  const { user, workspace } = await requirePermission(context, { request, params, permission });
  const { requestId } = context;
  const form = await readForm(request, context);
  const change = parseRoleChange(form);
  const fault = change.success ? null : nameFault(change.error);
  if (change.success ? change.data.intent !== "create" : fault === null) {
    throw problem("INVALID_REQUEST", { requestId });
  }
  const failed = change.success
    ? await applyRoleChange(user, { workspaceId: workspace.id, change: change.data, requestId })
    : fault;
  if (!failed) throw redirect(`/workspaces/${workspace.id}/roles?done=created`, 303);
  return data({ failed, ...readRoleForm(form) }, { status: change.success ? 409 : 400 });
}

export default function RolesPage() {
  const { workspace, done, offersPreset, roles } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  return (
    <Page title="Roles" lead="Roles decide what people can do in this workspace.">
      {done && !answer ? <Notice tone="good">{done}</Notice> : null}
      <Panel>
        <RoleList roles={roles} path={`/workspaces/${workspace.id}/roles`} />
      </Panel>
      {offersPreset ? (
        <Card
          id="finance"
          title="Finance"
          lead="A ready-made role for someone who only needs costs, usage and invoices. They start with a monthly budget of $0, so they call no models."
          action={<FinancePresetForm />}
        />
      ) : null}
      {workspace.permissions.includes("manage_members") ? (
        <Card title="New role" lead="Choose what people with this role can do.">
          <RoleForm
            intent="create"
            grantable={workspace.permissions}
            name={answer?.name ?? ""}
            permissions={answer?.permissions ?? []}
            memberBudgetUsd={answer?.memberBudgetUsd ?? null}
            failed={answer?.failed ?? null}
          />
        </Card>
      ) : null}
    </Page>
  );
}
