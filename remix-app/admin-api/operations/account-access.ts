import { randomUUID } from "node:crypto";
import { z } from "zod";
import { removalMail } from "../../admin/account-changes.ts";
import { invitationSchema } from "../../admin/account-invitations.ts";
import { accountInvitationMail } from "../../admin/account-mail.ts";
import { readSignUpMode, signUpModeSchema } from "../../admin/platform-settings.ts";
import { mailSite } from "../../mail/mail-body.ts";
import { emailSchema } from "../../session/credentials.ts";
import { byCreation, changeBody, defineChange, defineList, defineRead, reasonOnly } from "../define.ts";
import { requireAccount } from "./accounts.ts";

const dayMs = 24 * 60 * 60 * 1_000;

export const accountAccessReads = {
  listAccountInvitations: defineList({
    summary: "List the invitations to create an account",
    description: "Newest first.",
    field: "invitations",
    rows: invitationSchema,
    name: "private.list_account_invitations",
    order: byCreation,
    args: ({ after }) => ({ before: after }),
  }),
  getSettings: defineRead({
    summary: "Get the platform’s settings",
    description: "signUp says who may create an account: everyone, or only invited people.",
    answer: z.object({ signUp: signUpModeSchema }),
    read: async ({ context }) => ({ signUp: await readSignUpMode(context) }),
  }),
};

export const accountAccessChanges = {
  banAccount: defineChange({
    summary: "Ban an account",
    description:
      "Ends everything that acts for it, and emails the reason to its owner. Without days, the ban lasts until it is lifted.",
    body: changeBody.extend({ days: z.number().int().min(1).max(365).nullable().default(null) }),
    example: { days: 30, reason: "Abuse, ticket 4711" },
    change: ({ uuid }, { days }) => ({
      subject: uuid("userId"),
      until: days === null ? null : new Date(Date.now() + days * dayMs).toISOString(),
    }),
  }),
  unbanAccount: defineChange({
    summary: "Lift the ban of an account",
    description: "Emails the reason to its owner. Sessions and apps stay signed out.",
    ...reasonOnly,
    change: ({ uuid }) => ({ subject: uuid("userId") }),
  }),
  scheduleAccountDeletion: defineChange({
    summary: "Ban an account, and delete it after some days",
    description: "Emails the reason and the time to its owner. Until then, the deletion can be canceled.",
    body: changeBody.extend({ days: z.number().int().min(1).max(30).default(7) }),
    example: { days: 7, reason: "Requested by mail, ticket 4711" },
    change: async (call, { days }) => {
      const account = await requireAccount(call);
      return { subject: account.id, days, mail: removalMail(call.context, account) };
    },
  }),
  cancelAccountDeletion: defineChange({
    summary: "Keep an account whose deletion is scheduled",
    description: "Lifts its ban, unless it was banned before.",
    ...reasonOnly,
    change: ({ uuid }) => ({ subject: uuid("userId") }),
  }),
  inviteAccount: defineChange({
    summary: "Invite a person to create an account",
    description: "The invitation is valid for 14 days, and is emailed if the server sends emails.",
    body: changeBody.extend({ email: emailSchema }),
    example: { email: "ada@example.com", reason: "New colleague" },
    change({ context: { env } }, values) {
      const [id, email] = [randomUUID(), values.email.toLowerCase()];
      const { subject, text } = accountInvitationMail({ to: email, id }, mailSite(env));
      return { id, email, mail: env.SMTP_URL ? { subject, body: text } : null };
    },
  }),
  revokeAccountInvitation: defineChange({
    summary: "Revoke an invitation",
    description: "An account that it created stays.",
    ...reasonOnly,
    change: ({ uuid }) => ({ invitation: uuid("invitationId") }),
  }),
  changeSettings: defineChange({
    summary: "Change who may create an account",
    description: "seen is the setting that you read.",
    body: changeBody.extend({ signUp: signUpModeSchema, seen: signUpModeSchema }),
    example: { signUp: "invitation", seen: "open", reason: "Beta phase" },
    change: (_, { signUp, seen }) => ({ signUp, seen }),
  }),
};
