import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { formatWait } from "../abuse/attempts.ts";
import { problem } from "../http/problem.ts";
import { mailSite } from "../mail/mail-body.ts";
import { deliverMail } from "../mail/transport.ts";
import { newCredential } from "../recovery/credential.ts";
import { recoveryMail } from "../recovery/recovery-mail.ts";
import { emailSchema } from "../session/credentials.ts";
import { callFunction } from "../supabase/data-api.ts";
import {
  type ConsoleChange,
  type ConsoleRefusal,
  callConsole,
  reasonSchema,
  unavailable,
  unknownRefusal,
} from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const daySeconds = 24 * 60 * 60;
/**
 * The lifetime of a recovery override in days (docs/admin-guide.md, Recovery override): the default and the maximum.
 */
export const defaultLifetimeDays = 7;
const maxLifetimeDays = 30;

/** The form that creates an override. */
export const overrideSchema = z.object({
  email: emailSchema.transform((email) => email.toLowerCase()),
  reason: reasonSchema,
  normalLogin: z.boolean(),
  recoveryEmail: z.boolean(),
  /** An override that is valid until first used expires after 30 days, and has no `lifetimeDays`. */
  validity: z.enum(["days", "first_use"], { error: "Choose how long the override is valid" }).default("days"),
  lifetimeDays: z.coerce
    .number("Enter a number of days")
    .int("Enter a whole number of days")
    .min(1, "Enter at least 1 day")
    .max(maxLifetimeDays, `Enter at most ${maxLifetimeDays} days`)
    .default(defaultLifetimeDays),
});

const lockSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ban"), until: z.string() }),
  /** Wrong codes from recovery emails. */
  z.object({ kind: z.literal("codes"), until: z.string().nullable(), wrong: z.number() }),
  /** A block of a network from which the account was used lately. */
  z.object({ kind: z.literal("block"), until: z.string(), blockId: z.uuid(), address: z.string() }),
  /** A limit on attempts that is partly or fully used. */
  z.object({
    kind: z.literal("limit"),
    until: z.string().nullable(),
    action: z.string(),
    scope: z.string(),
    used: z.number(),
    attempts: z.number(),
    perSeconds: z.number(),
    whenEmpty: z.string(),
  }),
]);
/** What limits sign-ins with an email. `until` is when the next attempt is possible; null if it is possible now. */
export type RecoveryLock = z.infer<typeof lockSchema>;

export const overviewSchema = z.object({
  email: z.string(),
  account: z
    .object({
      id: z.uuid(),
      bannedUntil: z.string().nullable(),
      confirmedAt: z.string().nullable(),
      hasPassword: z.boolean(),
      lastSignInAt: z.string().nullable(),
    })
    .nullable(),
  overrides: z.array(
    z.object({
      id: z.uuid(),
      reason: z.string(),
      normalLogin: z.boolean(),
      recoveryEmail: z.boolean(),
      /** Whether the override ends when it is used. */
      singleUse: z.boolean(),
      createdBy: z.string().nullable(),
      createdAt: z.string(),
      expiresAt: z.string(),
      revokedAt: z.string().nullable(),
      usedAt: z.string().nullable(),
      active: z.boolean(),
    }),
  ),
  events: z.array(
    z.object({
      id: z.uuid(),
      kind: z.string(),
      outcome: z.string(),
      actor: z.string().nullable(),
      ip: z.string().nullable(),
      createdAt: z.string(),
    }),
  ),
  /** What limits sign-ins, beginning with what locks them. */
  locks: z.array(lockSchema),
});

/** What the console shows about an email, which may have no account. */
export type RecoveryOverview = z.infer<typeof overviewSchema>;

/**
 * Looks up an email: its account, overrides and their events, and what limits sign-ins with it.
 * @throws Response 503 UNAVAILABLE
 */
export async function findRecovery(context: AppLoadContext, email: string): Promise<RecoveryOverview> {
  const args = { of_email: email };
  return callFunction(context, { name: "private.recovery_overview", args, schema: overviewSchema });
}

/**
 * Overrides the blocks on an email for some days, or until the override is first used. If the email has no account, a
 * recovery with this override creates one.
 */
export async function createOverride(
  context: AppLoadContext,
  { admin, validity, lifetimeDays, ...values }: z.output<typeof overrideSchema> & { admin: InfrastructureAdmin },
): Promise<ConsoleChange> {
  if (!values.normalLogin && !values.recoveryEmail) return refusals.nothing_on;
  const lifetime = validity === "first_use" ? { singleUse: true } : { lifetimeSeconds: lifetimeDays * daySeconds };
  const request = { ...values, ...lifetime };
  const { refusal } = await submitRequest(context, { name: "create_recovery_override", request, admin });
  return refusal ?? { outcome: "changed" };
}

/**
 * Sends the recovery email of an override and invalidates earlier ones. A recent email can't be replaced for a few
 * minutes. The admin sees neither the link nor the code.
 */
export async function sendRecovery(
  context: AppLoadContext,
  { admin, overrideId, reason }: { admin: InfrastructureAdmin; overrideId: string; reason: string },
): Promise<ConsoleChange> {
  const { env } = context;
  const { token, code, stored } = newCredential(env);
  const request = { overrideId, reason, ...stored };
  const { answer, refusal } = await submitRequest(context, { name: "issue_recovery_credential", request, admin });
  if (refusal) return refusal;
  const justSent = justSentSchema.safeParse(answer);
  if (justSent.success) {
    const wait = formatWait(justSent.data.retryAfterSeconds);
    return refuse(409, `A recovery email was sent a moment ago and still works. You can send another in ${wait}.`);
  }
  const { email: to, credentialId } = issuedSchema.parse(answer);
  const mail = recoveryMail({ to, token, code }, mailSite(env));
  const failure = await deliverMail(env, { mail });
  if (failure === null) return { outcome: "changed" };
  logError(`a recovery mail was not sent: ${failure}`, { requestId: context.requestId });
  const { error } = await callConsole(context, {
    name: "invalidate_recovery_credential",
    args: { credential_id: credentialId },
  });
  return error ? refusals.uncertain_mail : refusals.mail;
}

/** Revokes an override and every link and code that was sent under it. */
export async function revokeOverride(
  context: AppLoadContext,
  { admin, overrideId, reason }: { admin: InfrastructureAdmin; overrideId: string; reason: string },
): Promise<ConsoleChange> {
  const request = { overrideId, reason };
  const { refusal } = await submitRequest(context, { name: "revoke_recovery_override", request, admin });
  return refusal ?? { outcome: "changed" };
}

const issuedSchema = z.object({ email: z.string(), credentialId: z.uuid() });
const refusedSchema = z.object({ refused: z.string() });
const justSent = "just_sent";
const justSentSchema = z.object({ refused: z.literal(justSent), retryAfterSeconds: z.number() });

async function submitRequest(
  context: AppLoadContext,
  { name, request, admin }: { name: string; request: Record<string, unknown>; admin: InfrastructureAdmin },
): Promise<{ answer: unknown; refusal: ConsoleRefusal | null }> {
  const { clientAddress: ip, userAgent, requestId } = context;
  const { data, error } = await callConsole(context, {
    name,
    args: { request: { ...request, actor: admin.id, ip, userAgent, requestId } },
  });
  if (error) return { answer: data, refusal: unavailable };
  const reason = refusedSchema.safeParse(data).data?.refused;
  if (reason === undefined || reason === justSent) return { answer: data, refusal: null };
  const known: Record<string, ConsoleRefusal> = refusals;
  return { answer: data, refusal: known[reason] ?? unknownRefusal };
}

const refusals = {
  forbidden: refuse(403, "The console is for infrastructure admins."),
  oneself: refuse(403, "You can’t recover your own account here. Ask another admin."),
  lifetime: refuse(400, `An override lasts at most ${maxLifetimeDays} days.`),
  active: refuse(409, "This email already has an active override. Revoke it before you create another."),
  not_found: refuse(404, "This override doesn’t exist."),
  inactive: refuse(409, "This override is no longer active: it was revoked, was used or has expired."),
  switched_off: refuse(409, "This override doesn’t allow recovery emails."),
  nothing_on: refuse(400, "Allow password sign-in, the recovery email, or both."),
  mail: refuse(503, "We couldn’t send the email, so its link and code don’t work. Try again in a moment."),
  uncertain_mail: refuse(
    503,
    "We couldn’t send the email, but its link and code may work for 15 minutes. To stop them now, revoke the override.",
  ),
} as const;

function refuse<Status extends 400 | 403 | 404 | 409 | 503>(status: Status, message: string) {
  return { outcome: "refused", status, message } as const;
}

/** Returns the email in a recovery page's URL, or null if the URL has no valid email. */
export function readRecoveryEmail(request: Request): string | null {
  const email = emailSchema.safeParse(new URL(request.url).searchParams.get("email") ?? "");
  return email.success ? email.data.toLowerCase() : null;
}

/** Reads the email that a recovery page is about. @throws Response 404 if there is none */
export function requireRecoveryEmail(context: AppLoadContext, request: Request): string {
  const email = readRecoveryEmail(request);
  if (email === null) throw problem("NOT_FOUND", { requestId: context.requestId });
  return email;
}

/** Returns why this admin cannot act on an email, or null. */
export function getRecoveryRestriction({ email: own }: InfrastructureAdmin, email: string): string | null {
  return own.toLowerCase() === email ? "You can’t recover your own account here. Ask another admin." : null;
}
