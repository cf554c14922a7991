import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card, Panel } from "../../ui/card.tsx";
import { Page } from "../../ui/page.tsx";
import { listMembers, listRoles } from "../../workspaces/members.ts";
import { requirePermission } from "../../workspaces/permission.ts";
import { applyRoleChange, nameFault, parseRoleChange, readRoleForm } from "../../workspaces/role-changes.ts";
import { RoleForm } from "../../workspaces/role-form.tsx";
import { canEditRole, roleLabel } from "../../workspaces/roles.ts";

export const meta = pageTitle<typeof loader>(
  (data) => `${data ? roleLabel(data.role.name) : "Role"} · ${data?.workspace.name ?? "Workspace"}`,
);

const maxListedMembers = 20;

/** Returns a role that the caller may change. @throws Response 404 if this workspace has no such role */
async function requireRole(
  context: AppLoadContext,
  { request, params }: Pick<LoaderFunctionArgs, "request" | "params">,
) {
  const permission = "manage_members";
  const { user, workspace } = await requirePermission(context, { request, params, permission });
  const { requestId } = context;
  const roles = await listRoles(user, { workspaceId: workspace.id, requestId });
  const role = roles.find(({ id }) => id === params.roleId);
  if (!role) throw problem("NOT_FOUND", { requestId });
  if (!canEditRole(role, workspace)) {
    throw problem("FORBIDDEN", {
      requestId,
      detail: "This role has permissions you don’t have, so you can’t change it.",
    });
  }
  return { user, workspace, role };
}

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace, role } = await requireRole(context, { request, params });
  const query = { workspaceId: workspace.id, requestId: context.requestId, roleId: role.id, limit: maxListedMembers };
  const { members, nextCursor } = await listMembers(user, query);
  return { workspace, role, names: members.map(({ name }) => name), more: nextCursor !== null };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace, role } = await requireRole(context, { request, params });
  const { requestId } = context;
  const form = await readForm(request, context);
  const change = parseRoleChange(form);
  const typed = readRoleForm(form);
  if (!change.success) {
    const failed = nameFault(change.error);
    if (failed === null) throw problem("INVALID_REQUEST", { requestId });
    return data({ failed, inUse: null, ...typed }, { status: 400 });
  }
  const { intent } = change.data;
  if (intent === "create") throw problem("INVALID_REQUEST", { requestId });
  const options = { workspaceId: workspace.id, roleId: role.id, change: change.data, requestId };
  const failed = await applyRoleChange(user, options);
  if (!failed) {
    throw redirect(`/workspaces/${workspace.id}/roles?done=${intent === "save" ? "saved" : "deleted"}`, 303);
  }
  const place = intent === "save" ? { failed, inUse: null } : { failed: null, inUse: failed };
  const shown = intent === "save" ? typed : { ...role, memberBudgetUsd: role.member_budget_usd };
  return data({ ...shown, ...place }, { status: 409 });
}

export default function RolePage() {
  const { workspace, role, names, more } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const holders = `${names.join(", ")}${more ? " and others" : ""}`;
  return (
    <Page title={`Role “${roleLabel(role.name)}”`} lead={holders ? `Assigned to: ${holders}.` : "Not assigned yet."}>
      <Panel>
        <RoleForm
          intent="save"
          grantable={workspace.permissions}
          name={answer?.name ?? role.name}
          permissions={answer?.permissions ?? role.permissions}
          memberBudgetUsd={answer ? answer.memberBudgetUsd : role.member_budget_usd}
          failed={answer?.failed ?? null}
        />
      </Panel>
      <Card
        title="Delete role"
        lead={
          answer?.inUse ??
          (names.length > 0
            ? "Someone still has this role. Give them another role first."
            : "Pending invitations with this role will stop working.")
        }
      >
        {names.length > 0 ? (
          <ButtonLink href={`/workspaces/${workspace.id}/members`}>Go to members</ButtonLink>
        ) : (
          <AccountForm>
            <input type="hidden" name="intent" value="delete" />
            <Button variant="danger">Delete role</Button>
          </AccountForm>
        )}
      </Card>
    </Page>
  );
}
