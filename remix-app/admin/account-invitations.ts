import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, parseCursor, readCursor, writeCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { mailSite } from "../mail/mail-body.ts";
import { emailSchema } from "../session/credentials.ts";
import { callFunction } from "../supabase/data-api.ts";
import { accountInvitationMail } from "./account-mail.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

export const invitationSchema = z.object({
  id: z.uuid(),
  email: z.string(),
  reason: z.string(),
  /** The admin's email or the service account's name; null if either was deleted. */
  invitedBy: z.string().nullable(),
  createdAt: z.string(),
  expiresAt: z.string(),
  state: z.enum(["open", "accepted", "revoked", "expired"]),
  /** The account that has confirmed the email. */
  userId: z.uuid().nullable(),
});
export type AccountInvitation = z.infer<typeof invitationSchema>;

/** The form that invites a person. */
export const newInvitationSchema = reasonedChangeSchema.extend({
  email: emailSchema.transform((email) => email.toLowerCase()),
});

const invitationsPerPage = 50;

/**
 * Returns a page of the console's invitations, newest first.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listAccountInvitations(
  context: AppLoadContext,
  { cursor }: { cursor: string | null },
): Promise<{ invitations: AccountInvitation[]; nextCursor: string | null }> {
  const before = parseCursor(cursor, { read: readCursor, requestId: context.requestId });
  const args = { before, page_size: invitationsPerPage + 1 };
  const schema = z.array(invitationSchema);
  const found = await callFunction(context, { name: "private.list_account_invitations", args, schema });
  const { records: invitations, nextCursor } = buildPage(found, { limit: invitationsPerPage, cursorOf: writeCursor });
  return { invitations, nextCursor };
}

/** Returns an invitation. @throws Response 404 for an unknown id, 503 UNAVAILABLE */
export async function requireAccountInvitation(
  context: AppLoadContext,
  invitationId: string | null | undefined,
): Promise<AccountInvitation> {
  const id = z.uuid().safeParse(invitationId);
  const args = { invitation_id: id.data };
  const schema = invitationSchema.nullable();
  const found = id.success
    ? await callFunction(context, { name: "private.read_account_invitation", args, schema })
    : null;
  if (found) return found;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This invitation doesn’t exist." });
}

/**
 * Invites a person to create an account, and emails them the link. Without a mail server, the admin passes it on.
 * @param options.id a new id for the invitation
 */
export function inviteAccount(
  context: AppLoadContext,
  { admin, ...change }: z.output<typeof newInvitationSchema> & { admin: InfrastructureAdmin; id: string },
): Promise<ConsoleChange> {
  const { env } = context;
  const { subject, text } = accountInvitationMail({ to: change.email, id: change.id }, mailSite(env));
  const mail = env.SMTP_URL ? { subject, body: text } : null;
  const refusals = {
    has_account: { status: 409, message: "This email already has an account.", field: "email" },
    invited: {
      status: 409,
      message: "This email is already invited. To send another email, revoke that invitation first.",
      field: "email",
    },
  } as const;
  return applyConsoleChange(context, { admin, name: "invite_account", change: { ...change, mail }, refusals });
}

/** Revokes an open invitation. An account that it created stays. */
export function revokeAccountInvitation(
  context: AppLoadContext,
  { admin, ...change }: { admin: InfrastructureAdmin; invitation: string; reason: string },
): Promise<ConsoleChange> {
  const refusals = {
    not_found: { status: 404, message: "This invitation doesn’t exist." },
    expired: { status: 409, message: "This invitation has already expired. Nothing was changed." },
  } as const;
  return applyConsoleChange(context, { admin, name: "revoke_account_invitation", change, refusals });
}
