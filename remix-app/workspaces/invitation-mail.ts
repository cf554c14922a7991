import type { AppLoadContext } from "@remix-run/server-runtime";
import { quoted } from "../mail/inert-text.ts";
import type { Mail } from "../mail/mail-body.ts";
import { deliverMail } from "../mail/transport.ts";
import type { User } from "../session/user.ts";
import type { WorkspaceAccess } from "./permission.ts";

interface Invitation {
  to: string;
  inviter: Pick<User, "email" | "displayName">;
  workspace: Pick<WorkspaceAccess, "name">;
  token: string;
}

/** The mail that invites somebody. Its link leads to a page that shows the offer before anything is accepted. */
export function invitationMail({ to, inviter, workspace, token }: Invitation, { origin }: { origin: string }): Mail {
  const name = quoted(inviter.displayName ?? inviter.email);
  const text = [
    `${name} (${quoted(inviter.email)}) invites you to the workspace “${quoted(workspace.name)}” on Gatehouse.`,
    `See what it offers, and accept it, here:\n${origin}/invitation?${new URLSearchParams({ token })}`,
    "The link works for a week, for this email address. If you do not know them, ignore this mail: nothing happens.",
  ].join("\n\n");
  return { to, subject: "You are invited to a workspace", text };
}

/**
 * Sends an invitation. Its token is a secret, so the mail is sent now or not at all.
 * @returns false where it could not be sent; that is logged
 */
export async function sendInvitation({ env, requestId }: AppLoadContext, invitation: Invitation): Promise<boolean> {
  const failure = await deliverMail(env, { mail: invitationMail(invitation, { origin: env.BASE_URL }) });
  if (failure !== null) console.error(`warning request=${requestId} an invitation was not sent: ${failure}`);
  return failure === null;
}
