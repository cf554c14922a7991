import type { AppLoadContext } from "@remix-run/server-runtime";
import { asShown } from "../http/as-shown.ts";
import type { User } from "../identity/user.ts";
import { deliverMail } from "../mail/transport.ts";
import type { WorkspaceAccess } from "./permission.ts";

/**
 * Sends an invitation: a mail of ours, whose link leads to a page that shows the offer before anything is accepted. Its
 * token is a secret, so the mail is sent now or not at all.
 * @returns false where it could not be sent; that is logged
 */
export async function sendInvitation(
  { env, origin, requestId }: AppLoadContext,
  options: { to: string; inviter: User; workspace: WorkspaceAccess; token: string },
): Promise<boolean> {
  const { to, inviter, workspace, token } = options;
  const name = asShown(inviter.displayName ?? inviter.email);
  const named = asShown(workspace.name);
  const text = [
    `${name} (${inviter.email}) invites you to the workspace “${named}” on Gatehouse.`,
    `See what it offers, and accept it, here:\n${origin}/invitation?${new URLSearchParams({ token })}`,
    "The link works for a week, for this email address. If you do not know them, ignore this mail: nothing happens.",
  ].join("\n\n");
  const failure = await deliverMail(env, { mail: { to, subject: `Join ${named} on Gatehouse`, text } });
  if (failure !== null) console.error(`warning request=${requestId} an invitation was not sent: ${failure}`);
  return failure === null;
}
