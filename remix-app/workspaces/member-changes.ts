import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { formatWait, guardAttempt } from "../abuse/attempts.ts";
import { problem } from "../http/problem.ts";
import { emailSchema } from "../session/credentials.ts";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { sendInvitation } from "./invitation-mail.ts";
import { createInvitation, withdrawInvitation } from "./invitations.ts";
import { changeRole, listRoles, removeMember } from "./members.ts";
import type { WorkspaceAccess } from "./permission.ts";
import { assignableRoles } from "./roles.ts";

export const memberChange = z.discriminatedUnion("intent", [
  z.object({ intent: z.literal("invite"), email: emailSchema, roleId: z.uuid() }),
  z.object({ intent: z.literal("withdraw"), invitationId: z.uuid() }),
  z.object({ intent: z.literal("change_role"), userId: z.uuid(), roleId: z.uuid() }),
  z.object({ intent: z.literal("remove"), userId: z.uuid(), keyIds: z.array(z.uuid()) }),
]);

export interface MemberOutcome {
  done: string | null;
  failed: string | null;
  /** Whether the given email is the cause of the failure. */
  aboutEmail: boolean;
  status: 200 | 403 | 409 | 429 | 503;
  /** True once the caller is no longer a member. */
  leftWorkspace: boolean;
}

const pendingInvitationMessage =
  "There’s already a pending invitation for this email. Withdraw it, or send another in a few minutes.";

const createSuccess = (message: string): MemberOutcome => ({
  done: message,
  failed: null,
  aboutEmail: false,
  status: 200,
  leftWorkspace: false,
});
const createFailure = (message: string, status: MemberOutcome["status"] = 409): MemberOutcome => ({
  done: null,
  failed: message,
  aboutEmail: false,
  status,
  leftWorkspace: false,
});

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

  if ("roleId" in change) {
    const given = assignableRoles(await listRoles(user, { workspaceId, requestId }), workspace);
    if (!given.some(({ id }) => id === change.roleId)) {
      throw problem("FORBIDDEN", { requestId, detail: "You can’t assign this role. Choose another one." });
    }
  }

  switch (change.intent) {
    case "invite": {
      // Counts this email toward the limits of the caller's IP address and of the recipient. The database limits the
      // inviter.
      const attempt = await guardAttempt(context, { action: "mail", email: change.email });
      if (!attempt.admitted) return createFailure(attempt.message, attempt.status);
      const created = await createInvitation(user, { workspaceId, email: change.email, roleId: change.roleId });
      if ("error" in created) {
        await attempt.settle("void");
        if (created.error.code === "23505") return { ...createFailure(pendingInvitationMessage), aboutEmail: true };
        if (created.error.code === "PT409")
          return createFailure("There are too many pending invitations. Withdraw one you don’t need first.");
        if (created.error.code === "PT429") {
          const seconds = Number(created.error.details);
          context.retryAfter(seconds);
          return createFailure(
            `You’ve sent too many invitations. You can send the next one in ${formatWait(seconds)}.`,
            429,
          );
        }
        throw refused(created.error);
      }
      const sent = await sendInvitation(context, { to: change.email, inviter: user, workspace, token: created.token });
      await attempt.settle(sent ? "succeeded" : "void");
      if (!sent) return createFailure(`We couldn’t send the email to ${change.email}. Try again in a moment.`, 503);
      return createSuccess(`We sent an invitation to ${change.email}.`);
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
