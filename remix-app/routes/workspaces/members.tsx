import { type MetaFunction, useActionData, useLoaderData } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Notice } from "../../ui/notice.tsx";
import { WorkspacePage } from "../../ui/workspace-page.tsx";
import { listInvitations } from "../../workspaces/invitations.ts";
import { InvitationList, InviteForm } from "../../workspaces/invite-form.tsx";
import { applyMemberChange, memberChange } from "../../workspaces/member-changes.ts";
import { MemberList, Removal } from "../../workspaces/member-list.tsx";
import { listMembers, listRoles } from "../../workspaces/members.ts";
import { requireWorkspace } from "../../workspaces/permission.ts";
import { assignableRoles } from "../../workspaces/roles.ts";

export const handle: RouteHandle = { hydrate: true };

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `Members · ${data?.workspace.name ?? "Workspace"} · Gatehouse` },
];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const place = { workspaceId: workspace.id, requestId: context.requestId };
  const manages = workspace.permissions.includes("manage_members");
  const [members, roles, invitations] = await Promise.all([
    listMembers(user, place),
    listRoles(user, place),
    manages ? listInvitations(user, place) : [],
  ]);
  const { id, email, displayName } = user;
  const leaving = new URL(request.url).searchParams.get("remove");
  return {
    user: { id, email, displayName },
    workspace,
    manages,
    members,
    leaving: members.find(({ userId }) => userId === leaving) ?? null,
    assignable: manages ? assignableRoles(roles, workspace) : [],
    invitations,
    now: new Date().toISOString(),
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const form = Object.fromEntries(await readForm(request, context));
  const change = memberChange.safeParse(form);
  if (!change.success) {
    const aboutEmail = change.error.issues.some(({ path }) => path[0] === "email");
    if (!aboutEmail) throw problem("INVALID_REQUEST", { requestId: context.requestId });
    const failed = "Enter an email address, such as name@example.com";
    return data(
      { done: null, failed, aboutEmail: true, inviting: true, requestId: null, ...typedOf(form) },
      { status: 400 },
    );
  }
  const outcome = await applyMemberChange(context, { user, workspace, change: change.data });
  if (outcome.leftWorkspace) throw redirect("/workspaces");
  return data(
    {
      done: outcome.done,
      failed: outcome.failed,
      aboutEmail: outcome.aboutEmail,
      ...typedOf(outcome.failed ? form : {}),
      inviting: change.data.intent === "invite",
      requestId: outcome.status === 503 ? context.requestId : null,
    },
    { status: outcome.status },
  );
}

const typedOf = ({ email = "", roleId = "" }: Record<string, unknown>) => ({
  email: String(email),
  roleId: String(roleId),
});

export default function MembersPage() {
  const { user, workspace, manages, members, leaving, assignable, invitations, now } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const here = `/workspaces/${workspace.id}/members`;
  return (
    <WorkspacePage workspace={workspace}>
      {answer?.done ? <Notice tone="good">{answer.done}</Notice> : null}
      {answer?.failed && !answer.inviting ? <ErrorSummary id="members-error" form={answer.failed} /> : null}
      {leaving ? (
        <Removal member={leaving} self={leaving.userId === user.id} workspace={workspace.name} here={here} />
      ) : null}
      <Card title="Members" lead="Who belongs to this workspace, and what their role allows.">
        <MemberList members={members} me={user.id} manages={manages} assignable={assignable} action={here} now={now} />
      </Card>
      {manages ? (
        <Card title="Invite someone" lead="They get a mail with a link that works for a week.">
          <InviteForm
            roles={assignable}
            email={answer?.failed ? answer.email : ""}
            roleId={answer?.failed && answer.inviting ? answer.roleId : ""}
            failed={answer?.inviting ? answer.failed : null}
            requestId={answer?.requestId ?? null}
            aboutEmail={answer?.aboutEmail ?? false}
            action={here}
          />
          <InvitationList invitations={invitations} now={now} />
        </Card>
      ) : null}
    </WorkspacePage>
  );
}
