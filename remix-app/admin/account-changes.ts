import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { formatDateTime } from "../http/date-text.ts";
import { mailSite } from "../mail/mail-body.ts";
import { accountRemovedMail } from "./account-mail.ts";
import { type AccountStep, defaultDeletionDays } from "./account-steps.ts";
import type { Account } from "./accounts.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import { formatQuantity } from "./labels.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const dayMs = 24 * 60 * 60 * 1_000;
const maxBanDays = 365;
const maxDeletionDays = 30;

const daysUpTo = (max: number) =>
  z.coerce
    .number("Enter a number of days")
    .int("Enter a whole number of days")
    .min(1, "Enter at least 1 day")
    .max(max, `Enter at most ${max} days`);

/** Reads an empty field as absent. */
const emptyToNull = (value: unknown) => (value === "" || value === undefined ? null : value);

const schemas = {
  /** Without days, the ban lasts until it is lifted. */
  ban: reasonedChangeSchema.extend({ days: z.preprocess(emptyToNull, daysUpTo(maxBanDays).nullable()) }),
  delete: reasonedChangeSchema.extend({ days: daysUpTo(maxDeletionDays).default(defaultDeletionDays) }),
};

type AccountChange = { reason: string; days?: number | null };

/** Returns the schema of a step's form. */
export function accountChangeSchema(step: AccountStep): z.ZodType<AccountChange> {
  return step === "ban" || step === "delete" ? schemas[step] : reasonedChangeSchema;
}

/** Tells admins where to sign themselves out. */
const ownSignOutMessage = "Sign yourself out everywhere under Security in your settings.";

/** Returns why an admin can't take a step on their own account. */
export function ownAccountMessage(step: AccountStep): string {
  return step === "sign-out" ? ownSignOutMessage : "Another admin has to do this for your own account.";
}

/** Takes a step on an account. Its owner gets an email with the reason, except about a sign-out. */
export function applyAccountStep(
  context: AppLoadContext,
  {
    admin,
    step,
    account,
    change: { reason, days = null },
  }: { admin: InfrastructureAdmin; step: AccountStep; account: Account; change: AccountChange },
): Promise<ConsoleChange> {
  const refusals = {
    oneself: { status: 403, message: ownAccountMessage(step) },
    not_found: { status: 404, message: "This account doesn’t exist." },
    deletion: { status: 409, message: "This account’s deletion is scheduled. Keep the account instead." },
  } as const;
  const apply = (name: string, more: Record<string, unknown> = {}) =>
    applyConsoleChange(context, { admin, name, change: { subject: account.id, reason, ...more }, refusals });
  switch (step) {
    case "ban":
      return apply("ban_account", { until: days === null ? null : new Date(Date.now() + days * dayMs).toISOString() });
    case "unban":
      return apply("unban_account");
    case "delete":
      return apply("request_account_deletion", { days, mail: removalMail(context, account) });
    case "keep":
      return apply("cancel_account_deletion");
    case "sign-out":
      return apply("sign_account_out");
  }
}

/** Returns the email that is sent once the account is deleted; null if it can't be sent. */
export function removalMail(
  { env }: Pick<AppLoadContext, "env">,
  { email }: Pick<Account, "email">,
): { subject: string; body: string } | null {
  if (!env.SMTP_URL || email === null) return null;
  const { subject, text } = accountRemovedMail({ to: email }, mailSite(env));
  return { subject, body: text };
}

/** Describes what a step will do to an account. @param options.blockers workspaces that have no other owner */
const serviceAccountsStay =
  "Service accounts whose secret the person knows keep working. Rotate or revoke them on their own pages.";

export function describeAccountEffects(
  step: AccountStep,
  { account, blockers }: { account: Account; blockers: readonly string[] },
): string[] {
  const name = account.email ?? account.id;
  const sessions = formatQuantity(account.sessionCount, "session");
  const reasonMailed = "We’ll email the reason to the owner.";
  const ends = `Everything that acts for the account ends immediately: apps, devices, coding agents and ${sessions}.`;
  switch (step) {
    case "ban":
      return [
        `Once you confirm, ${name} can’t sign in.`,
        ends,
        "Workspace API keys keep working, and memberships stay.",
        serviceAccountsStay,
        reasonMailed,
      ];
    case "unban":
      return [
        `Once you confirm, ${name} can sign in again.`,
        "Sessions, apps and devices stay signed out.",
        reasonMailed,
      ];
    case "delete":
      return [
        `Once you confirm, ${name} is banned. After the waiting time, the account and its data are deleted for good.`,
        ends,
        serviceAccountsStay,
        "Until then, any admin can keep the account, which lifts the ban.",
        ...(blockers.length > 0
          ? [`The account stays until these workspaces have another owner: ${blockers.join(", ")}.`]
          : []),
        "Workspaces without other members are deleted with it. Runs, ledger entries and invoices stay.",
        "We’ll email the owner the reason and the time, and again once the account is deleted.",
      ];
    case "keep":
      return [
        account.deletion
          ? `Once you confirm, ${name} isn’t deleted on ${formatDateTime(account.deletion.dueAt)}.`
          : `Once you confirm, ${name} isn’t deleted.`,
        "They can sign in again, unless they were banned before.",
        reasonMailed,
      ];
    case "sign-out":
      return [
        `${name} is signed out of every browser and device (${sessions} now) immediately.`,
        "App sessions, gateway tokens and sign-ins in progress also end.",
        "Workspace API keys keep working. The person can sign in again as before.",
        "If any session ends, the owner gets an email.",
      ];
  }
}
