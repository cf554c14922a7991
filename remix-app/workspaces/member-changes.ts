import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { readInvitation, withdrawInvitation } from "./invitations.ts";
import { changeRole, listRoles, removeMember } from "./members.ts";
import type { WorkspaceAccess } from "./permission.ts";
import { assignableRoles } from "./roles.ts";
import { emailList, type InvitationOutcome, sendInvitations } from "./send-invitations.ts";

export const memberChange = z.discriminatedUnion("intent", [
  z.object({ intent: z.literal("invite"), email: emailList, roleId: z.uuid() }),
  z.object({ intent: z.literal("resend"), invitationId: z.uuid() }),
  z.object({ intent: z.literal("withdraw"), invitationId: z.uuid() }),
  z.object({ intent: z.literal("change_role"), userId: z.uuid(), roleId: z.uuid() }),
  z.object({ intent: z.literal("remove"), userId: z.uuid(), keyIds: z.array(z.uuid()) }),
]);

export interface MemberOutcome {
  done: string | null;
  failed: string | null;
  /** Whether the given email is the cause of the failure. */
  aboutEmail: boolean;
  /** What became of each invited address. */
  invited: InvitationOutcome[];
  status: 200 | 403 | 409 | 429 | 503;
  /** True once the caller is no longer a member. */
  leftWorkspace: boolean;
}

const createSuccess = (message: string): MemberOutcome => ({
  done: message,
  failed: null,
  aboutEmail: false,
  invited: [],
  status: 200,
  leftWorkspace: false,
});
const createFailure = (message: string, status: MemberOutcome["status"] = 409): MemberOutcome => ({
  done: null,
  failed: message,
  aboutEmail: false,
  invited: [],
  status,
  leftWorkspace: false,
});

/** Sums up what became of the invited addresses. The page lists each of them. */
function summarize(invited: InvitationOutcome[]): MemberOutcome {
  const failures = invited.flatMap(({ failure }) => failure ?? []);
  const [only, sent] = [invited[0], invited.length - failures.length];
  const [first] = failures;
  if (first) {
    const message =
      invited.length === 1
        ? first.message
        : `We sent ${sent} of ${invited.length} invitations. The reasons are listed with the addresses.`;
    const aboutEmail = failures.every((failure) => failure.aboutEmail);
    return { ...createFailure(message, first.status), aboutEmail, invited };
  }
  return {
    ...createSuccess(
      invited.length === 1 ? `We sent an invitation to ${only?.email}.` : `We sent ${invited.length} invitations.`,
    ),
    invited,
  };
}

/**
 * Makes one change to a workspace's members. The database decides whether the caller is allowed to make it.
 * @throws Response with a problem if the caller is not allowed to make the change, or the database does not answer
 */
export async function applyMemberChange(
  context: AppLoadContext,
  options: { user: User; workspace: WorkspaceAccess; change: z.infer<typeof memberChange> },
): Promise<MemberOutcome> {
  const { user, workspace, change } = options;
  const { requestId } = context;
  const workspaceId = workspace.id;

  function refused(error: { code: string }): Response {
    return "message" in error
      ? workspaceProblem(error as Parameters<typeof workspaceProblem>[0], { requestId })
      : problem("NOT_FOUND", { requestId, detail: "They’re no longer a member. Reload the page." });
  }

  async function requireAssignable(roleId: string): Promise<void> {
    const given = assignableRoles(await listRoles(user, { workspaceId, requestId }), workspace);
    if (given.some(({ id }) => id === roleId)) return;
    throw problem("FORBIDDEN", { requestId, detail: "You can’t assign this role. Choose another one." });
  }

  if ("roleId" in change) await requireAssignable(change.roleId);

  switch (change.intent) {
    case "invite":
      return summarize(
        await sendInvitations(context, { user, workspace, emails: change.email, roleId: change.roleId }),
      );
    case "resend": {
      const found = await readInvitation(user, { workspaceId, invitationId: change.invitationId, requestId });
      if (!found) return createFailure("This invitation was already accepted or withdrawn.");
      await requireAssignable(found.roleId);
      const outcomes = await sendInvitations(context, { user, workspace, emails: [found.email], roleId: found.roleId });
      return { ...summarize(outcomes), aboutEmail: false };
    }
    case "withdraw": {
      const error = await withdrawInvitation(user, { workspaceId, invitationId: change.invitationId });
      if (error?.code === "PT404") return createFailure("This invitation was already accepted or withdrawn.");
      if (error) throw refused(error);
      return createSuccess("Invitation withdrawn.");
    }
    case "change_role": {
      const error = await changeRole(user, { workspaceId, userId: change.userId, roleId: change.roleId });
      if (error?.code === "PT409")
        return createFailure("A workspace needs an owner. Transfer ownership in Settings first.");
      if (error) throw refused(error);
      return createSuccess("Role changed.");
    }
    case "remove": {
      const error = await removeMember(user, { workspaceId, userId: change.userId, keyIds: change.keyIds });
      if (error?.code === "PT409")
        return createFailure("A workspace needs an owner. Transfer ownership in Settings first.");
      if (error) throw refused(error);
      return { ...createSuccess("Member removed."), leftWorkspace: change.userId === user.id };
    }
  }
}
