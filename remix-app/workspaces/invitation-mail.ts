import type { AppLoadContext } from "@remix-run/node";
import { logWarning } from "#shared/log.ts";
import { quoteText } from "../mail/inert-text.ts";
import { type Mail, type MailSite, mailSite } from "../mail/mail-body.ts";
import { type MailParts, mailText } from "../mail/mail-text.ts";
import { deliverMail } from "../mail/transport.ts";
import type { User } from "../session/user.ts";
import type { WorkspaceAccess } from "./permission.ts";

interface Invitation {
  to: string;
  inviter: Pick<User, "email" | "displayName">;
  workspace: Pick<WorkspaceAccess, "name">;
  token: string;
}

/** Returns the link with which the invited person accepts. */
export function invitationLink(origin: string, token: string): string {
  return `${origin}/invitation?${new URLSearchParams({ token })}`;
}

/**
 * Returns the email that invites a person. Its link leads to a page that shows the offer before anything is accepted.
 */
export function invitationMail(
  { to, inviter, workspace, token }: Invitation,
  { origin, product }: Pick<MailSite, "origin" | "product">,
): Mail {
  const email = quoteText(inviter.email);
  const name = inviter.displayName === null ? email : `${quoteText(inviter.displayName)} (${email})`;
  const parts: MailParts = {
    news: [
      `${name} invited you to join the workspace “${quoteText(workspace.name)}” on ${product}.`,
      "You’ll see your role before you accept.",
    ],
    action: { label: "View invitation", url: invitationLink(origin, token) },
    more: ["This invitation expires in 7 days and only works for this email address."],
    footer: [
      `You’re getting this email because a member of a workspace on ${product} invited this address.`,
      "If you don’t know who invited you, ignore this email. Nothing happens until you accept.",
    ],
  };
  return { to, subject: `You’re invited to a workspace on ${product}`, text: mailText(parts) };
}

/**
 * Sends an invitation immediately. The email queue would store the invitation's secret token.
 * @returns false if the email could not be sent; the failure is logged
 */
export async function sendInvitation({ env, requestId }: AppLoadContext, invitation: Invitation): Promise<boolean> {
  const failure = await deliverMail(env, { mail: invitationMail(invitation, mailSite(env)) });
  if (failure !== null) logWarning(`an invitation was not sent: ${failure}`, { requestId });
  return failure === null;
}
