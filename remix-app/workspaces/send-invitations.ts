import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { type AdmittedAttempt, formatWait, guardAttempt } from "../abuse/attempts.ts";
import { mailSite } from "../mail/mail-body.ts";
import { emailSchema } from "../session/credentials.ts";
import type { User } from "../session/user.ts";
import { workspaceProblem } from "./failures.ts";
import { invitationLink, sendInvitation } from "./invitation-mail.ts";
import { createInvitation } from "./invitations.ts";
import type { WorkspaceAccess } from "./permission.ts";

/** The maximum number of addresses in a form: as many invitations as a person may send in a row. */
export const maxInvited = 10;

/** The addresses of a form, separated by spaces, commas, semicolons or line breaks. */
export const emailList = z
  .string()
  .transform((text) => [
    ...new Set(
      text
        .toLowerCase()
        .split(/[\s,;]+/)
        .filter(Boolean),
    ),
  ])
  .superRefine((emails, { addIssue }) => {
    const wrong = emails.filter((email) => !emailSchema.safeParse(email).success);
    const message =
      emails.length > maxInvited
        ? `Enter at most ${maxInvited} addresses at once.`
        : emails.length > 1 && wrong.length > 0
          ? `Correct or remove what isn’t an email address: ${wrong.join(", ")}`
          : "Enter an email address, such as name@example.com.";
    if (emails.length === 0 || emails.length > maxInvited || wrong.length > 0) addIssue({ code: "custom", message });
  });

/** What became of one address. */
export interface InvitationOutcome {
  email: string;
  /** The link that the email contains, if the invitation exists. It is in no other answer. */
  link: string | null;
  failure: { message: string; status: 403 | 409 | 429 | 503; aboutEmail: boolean } | null;
}

const pendingInvitationMessage =
  "There’s already a pending invitation for this email. Withdraw it, or send another in a few minutes.";
const notCreatedMessage = "We couldn’t create this invitation. Try again in a moment.";

/**
 * Invites people with one role, and emails them the links. An open invitation for the same email is replaced, and its
 * link stops working.
 * @throws Response with a problem if the caller is not allowed to invite, or the database does not answer, unless other
 * invitations already exist, whose links only this answer has
 */
export async function sendInvitations(
  context: AppLoadContext,
  options: { user: User; workspace: WorkspaceAccess; emails: readonly string[]; roleId: string },
): Promise<InvitationOutcome[]> {
  const { user, workspace, emails, roleId } = options;
  const created: CreatedInvitation[] = [];
  // One after the other, so that a limit that is reached refuses the last addresses.
  for (const email of emails) {
    const hasCreated = created.some((one) => "token" in one);
    const isDown = created.some((one) => "failure" in one && one.failure.status === 503);
    created.push(
      hasCreated && isDown
        ? refuse(email, notCreatedMessage, 503)
        : await create(context, { user, workspaceId: workspace.id, email, roleId, hasCreated }),
    );
  }
  return Promise.all(
    created.map(async (one) => {
      if ("failure" in one) return { ...one, link: null };
      const { email, token, attempt } = one;
      const sent = await sendInvitation(context, { to: email, inviter: user, workspace, token });
      await attempt.settle(sent ? "succeeded" : "void");
      const message = `We couldn’t send the email to ${email}. Try again in a moment, or copy the link.`;
      return {
        email,
        link: invitationLink(mailSite(context.env).origin, token),
        failure: sent ? null : { message, status: 503 as const, aboutEmail: false },
      };
    }),
  );
}

type CreatedInvitation =
  | { email: string; token: string; attempt: AdmittedAttempt }
  | { email: string; failure: NonNullable<InvitationOutcome["failure"]> };

async function create(
  context: AppLoadContext,
  {
    user,
    workspaceId,
    email,
    roleId,
    hasCreated,
  }: { user: User; workspaceId: string; email: string; roleId: string; hasCreated: boolean },
): Promise<CreatedInvitation> {
  // Counts this email toward the limits of the caller's IP address and of the recipient. The database limits the inviter.
  const attempt = await guardAttempt(context, { action: "mail", email });
  if (!attempt.admitted) return refuse(email, attempt.message, attempt.status);
  const created = await createInvitation(user, { workspaceId, email, roleId });
  if ("token" in created) return { email, token: created.token, attempt };
  await attempt.settle("void");
  const { code, details } = created.error;
  if (code === "23505") return { email, failure: { message: pendingInvitationMessage, status: 409, aboutEmail: true } };
  if (code === "PT409") {
    return refuse(email, "There are too many pending invitations. Withdraw one you don’t need first.");
  }
  if (code !== "PT429") {
    const answer = workspaceProblem(created.error, context);
    if (hasCreated) return refuse(email, notCreatedMessage, 503);
    throw answer;
  }
  const seconds = Number(details);
  context.retryAfter(seconds);
  const wait = formatWait(seconds);
  return refuse(email, `You’ve sent too many invitations. You can send the next one in ${wait}.`, 429);
}

function refuse(
  email: string,
  message: string,
  status: NonNullable<InvitationOutcome["failure"]>["status"] = 409,
): CreatedInvitation {
  return { email, failure: { message, status, aboutEmail: false } };
}
