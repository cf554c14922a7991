import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData, useLocation } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { buildSearch, searchTerm } from "../../http/search-params.ts";
import type { User } from "../../session/user.ts";
import { listKeysOfCreator } from "../../studio/keys/keys-of-creator.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card, Panel } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { SearchForm } from "../../ui/search-form.tsx";
import { listInvitations } from "../../workspaces/invitations.ts";
import { InvitationList, InvitedPeople, InviteForm, invitedFragment } from "../../workspaces/invite-form.tsx";
import { applyMemberChange, memberChange } from "../../workspaces/member-changes.ts";
import { MemberList, RoleChange } from "../../workspaces/member-list.tsx";
import { getMember, listMembers, listRoles } from "../../workspaces/members.ts";
import { requireWorkspace } from "../../workspaces/permission.ts";
import { Removal } from "../../workspaces/removal.tsx";
import { assignableRoles, offersFinancePreset } from "../../workspaces/roles.ts";

export const meta = pageTitle<typeof loader>((data) => `Members · ${data?.workspace.name ?? "Workspace"}`);

/** The query parameters that select the visible part of the lists. */
const listParams = ["q", "cursor", "invitations"];
const membersShown = 15;
const invitationsShown = 10;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const { requestId } = context;
  const place = { workspaceId: workspace.id, requestId };
  const manages = workspace.permissions.includes("manage_members");
  const { searchParams } = new URL(request.url);
  const search = searchTerm(request);
  const [page, roles, invitations, leaving, changing] = await Promise.all([
    listMembers(user, { ...place, limit: membersShown, cursor: searchParams.get("cursor"), search }),
    listRoles(user, place),
    manages
      ? listInvitations(user, { ...place, limit: invitationsShown, cursor: searchParams.get("invitations") })
      : { invitations: [], nextCursor: null },
    getMember(user, { ...place, userId: searchParams.get("remove") }),
    getMember(user, { ...place, userId: searchParams.get("change") }),
  ]);
  const left = leaving && (await listKeysAndInvitations(context, { user, place, userId: leaving.userId, manages }));
  const { id, email, displayName } = user;
  const assignable = manages ? assignableRoles(roles, workspace) : [];
  return {
    user: { id, email, displayName },
    workspace,
    manages,
    page,
    search,
    leaving,
    left,
    changing: changing && assignable.some((role) => role.id === changing.roleId) ? changing : null,
    assignable,
    offersPreset: offersFinancePreset(roles, workspace),
    invitations,
  };
}

/** Returns what a person who leaves the workspace gave to others: API keys, and invitations that only managers see. */
async function listKeysAndInvitations(
  context: AppLoadContext,
  {
    user,
    place,
    userId,
    manages,
  }: { user: User; place: { workspaceId: string; requestId: string }; userId: string; manages: boolean },
) {
  const { workspaceId } = place;
  const mayRead = manages || userId === user.id;
  const [keys, sent] = await Promise.all([
    mayRead ? listKeysOfCreator(context, { userId: user.id, workspaceId, creatorId: userId }) : { count: 0, keys: [] },
    manages
      ? listInvitations(user, { ...place, limit: invitationsShown, cursor: null, invitedBy: userId })
      : { invitations: [], nextCursor: null },
  ]);
  return { keys, invitations: sent.invitations, moreInvitations: sent.nextCursor !== null };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace } = await requireWorkspace(context, { request, params });
  const fields = await readForm(request, context);
  const form = Object.fromEntries(fields);
  const keyIds = [...fields].flatMap(([name, id]) => (/^revoke_\d+$/.test(name) ? [id] : []));
  const change = memberChange.safeParse({ ...form, keyIds });
  if (!change.success) {
    const fault = change.error.issues.find(({ path }) => path[0] === "email");
    if (!fault) throw problem("INVALID_REQUEST", { requestId: context.requestId });
    const answer = { done: null, failed: fault.message, aboutEmail: true, inviting: true, invited: [] };
    return data({ ...answer, emails: String(form.email ?? ""), roleId: String(form.roleId ?? "") }, { status: 400 });
  }
  const outcome = await applyMemberChange(context, { user, workspace, change: change.data });
  if (outcome.leftWorkspace) throw redirect("/workspaces");
  const { done, failed, aboutEmail, invited } = outcome;
  const inviting = change.data.intent === "invite";
  const emails = inviting ? invited.flatMap(({ email, failure }) => (failure ? email : [])).join("\n") : "";
  return data(
    { done, failed, aboutEmail, inviting, invited, emails, roleId: String(form.roleId ?? "") },
    { status: outcome.status },
  );
}

export default function MembersPage() {
  const { user, workspace, manages, page, search, leaving, left, changing, assignable, offersPreset, invitations } =
    useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const location = useLocation().search;
  const ask = (question: Record<string, string>) => buildSearch(location, { keep: listParams, add: question });
  const here = `/workspaces/${workspace.id}/members${ask({})}`;
  const isWhole = page.nextCursor === null && !new URLSearchParams(location).has("cursor");
  return (
    <Page title="Members" lead="People in this workspace and their roles.">
      {answer?.done ? <Notice tone="good">{answer.done}</Notice> : null}
      {answer?.failed && !answer.inviting ? <ErrorSummary id="members-error" form={answer.failed} /> : null}
      {answer?.invited.some(({ link }) => link !== null) || (answer?.invited.length ?? 0) > 1 ? (
        <InvitedPeople invited={answer?.invited ?? []} />
      ) : null}
      {leaving && left ? (
        <Removal member={leaving} self={leaving.userId === user.id} workspace={workspace} {...left} here={here} />
      ) : null}
      {changing ? <RoleChange member={changing} assignable={assignable} here={here} /> : null}
      <Panel>
        {isWhole && !search ? null : (
          <div className="mb-4">
            <SearchForm label="Find a member" term={search} />
          </div>
        )}
        <MemberList
          members={page.members}
          me={user.id}
          manages={manages}
          assignable={assignable}
          here={here}
          ask={ask}
        />
        <PageNav label="Pages of members" nextCursor={page.nextCursor} keep={["q", "invitations"]} />
      </Panel>
      {manages ? (
        <Card id="invitations" title="Invite people" lead="We’ll email each of them a link that expires in 7 days.">
          <InviteForm
            roles={assignable}
            emails={answer?.emails ?? ""}
            roleId={answer?.failed && answer.inviting ? answer.roleId : ""}
            failed={answer?.inviting ? answer.failed : null}
            aboutEmail={answer?.aboutEmail ?? false}
            action={`${here}#${invitedFragment}`}
            presetLink={offersPreset ? `/workspaces/${workspace.id}/roles#finance` : null}
          />
          <InvitationList invitations={invitations.invitations} here={here} />
          <PageNav
            label="Pages of invitations"
            nextCursor={invitations.nextCursor}
            param="invitations"
            keep={["q", "cursor"]}
            card="invitations"
          />
        </Card>
      ) : null}
    </Page>
  );
}
