import type { AppLoadContext } from "@remix-run/node";
import type { AuthError } from "@supabase/supabase-js";
import { z } from "zod";
import { logError, logWarning } from "#shared/log.ts";
import { type ProblemCode, problem } from "../http/problem.ts";
import type { AttemptResult } from "../monitoring/web-metrics.ts";
import { mapGeneralError } from "../supabase/auth-errors.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { hasBotChallenge } from "./bot-challenge.ts";

/**
 * The kind of attempt. `private.attempt_limits()` (supabase/schemas/abuse/limits.sql) holds the limits of each.
 * - `password`: a sign-in by password, or a check of a password.
 * - `code`: TOTP, one-time and recovery codes, links from emails.
 * - `sign_in_code`: a code that was emailed to sign in with.
 * - `mail`: resend, reset, invitation.
 * - `passkey`: sign-in by passkey.
 * - `oauth`: a visit to a provider.
 * - `credential`: a signed-in user's changes that hash a password or send an email.
 * - `user_code`: the code of a device that asks to sign in.
 */
export type AttemptAction =
  | "password"
  | "code"
  | "sign_in_code"
  | "mail"
  | "sign_up"
  | "passkey"
  | "oauth"
  | "credential"
  | "user_code";

/**
 * The result of an attempt.
 * - `succeeded`: the attempt no longer counts, and this account's failures from this address are forgotten.
 * - `failed`: the credential was wrong.
 * - `void`: nothing was tried, for example because the backend did not answer or the challenge was refused.
 */
export type AttemptOutcome = "succeeded" | "failed" | "void";

/**
 * An email with a link, sent by the identity backend. The new link replaces the link in the previous email of the same
 * kind.
 */
export type LinkMail = "sign_up_mail" | "confirmation_mail" | "recovery_mail" | "email_change_mail";

export interface AttemptOptions {
  action: AttemptAction;
  /** The kind of link email that the attempt sends, if any. */
  mail?: LinkMail;
  /** The email as typed, whether or not it has an account. */
  email?: string;
  /**
   * The emailed code. Of concurrent attempts with the same code, all but the first are `repeated`, so that only one
   * session starts.
   */
  code?: string;
  /** Replaces `email` if the session identifies the account. */
  userId?: string;
  /**
   * The session that enters a code of its account's second factor. A block of the address does not stop an
   * infrastructure admin whose session proved that factor before.
   */
  sessionId?: string;
  /**
   * The posted field `botChallengeField` if the identity backend protects this call (sign-in, sign-up, resend, reset,
   * passkey options); omitted otherwise.
   */
  botChallenge?: FormDataEntryValue | null;
  /** Whether a recovery override may lift the email's own limits. The IP address's limits apply in any case. */
  allowOverride?: boolean;
}

export interface AdmittedAttempt {
  admitted: true;
  /** For a database function that completes the attempt itself, in place of `settle`. */
  id: string;
  /** The recovery override that lifted the email's own limits, or null. */
  overrideId: string | null;
  /** Whether the code was tried before. If so, don't try it again, and answer as if it was wrong. */
  repeated: boolean;
  /** Options for the call to the identity backend; empty if no bot challenge is configured. */
  challenge: { captchaToken?: string };
  /**
   * Seconds until a new email may replace the last email of this kind, or null if a new email may be sent now. Until
   * then, send nothing and answer as if an email was sent. Show the wait only to the signed-in owner of the account.
   */
  mailWaitSeconds: number | null;
  /** How long a newer email cannot replace the link in an email, in words, such as "3 minutes". */
  mailPause: string;
  /** Call it once, before answering. An attempt that is never settled stays counted. Never throws. */
  settle(outcome: AttemptOutcome): Promise<void>;
}

export interface RefusedAttempt {
  admitted: false;
  code: Extract<ProblemCode, "RATE_LIMITED" | "BOT_CHALLENGE_REQUIRED" | "FORBIDDEN" | "AUTH_UNAVAILABLE">;
  status: 403 | 429 | 503;
  /** User-facing text: what happened and how long to wait. */
  message: string;
}

/** Delay added to an attempt if a bot challenge is due but none is configured. */
const slowdownMs = 2_000;

const beginResponse = z.discriminatedUnion("allowed", [
  z.object({
    allowed: z.literal(true),
    attemptId: z.uuid(),
    needsBotChallenge: z.boolean(),
    repeated: z.boolean().default(false),
    // Absent if the database is older than this server.
    overrideId: z.uuid().nullable().default(null),
    mailWaitSeconds: z.number().int().nullable().default(null),
    mailPauseSeconds: z.number().int().optional(),
  }),
  z.object({
    allowed: z.literal(false),
    reason: z.enum(["limited", "blocked"]),
    retryAfterSeconds: z.number().int().positive(),
  }),
]);

/**
 * Counts an attempt at a credential and returns whether it may proceed. Call it before trying anything, and try nothing
 * after a refusal. Refuses with 503 if the attempt can't be counted, so that an outage gives no free attempts. Sets
 * `Retry-After`.
 */
export async function guardAttempt(
  context: AppLoadContext,
  options: AttemptOptions,
): Promise<AdmittedAttempt | RefusedAttempt> {
  const { env, clientAddress, userAgent } = context;
  const { action, mail, email, code, userId, sessionId, botChallenge, allowOverride = false } = options;
  const count = (result: AttemptResult) => context.countAttempt?.({ action, result });
  if (isSuspiciousUserAgent(userAgent)) {
    count("suspicious");
    return buildRefusedAttempt("FORBIDDEN", 403, suspiciousClientMessage);
  }
  const challenged = botChallenge !== undefined && hasBotChallenge(env);
  const captchaToken = challenged && typeof botChallenge === "string" ? botChallenge.trim() : "";
  if (challenged && captchaToken === "") {
    count("unchallenged");
    return buildRefusedAttempt("BOT_CHALLENGE_REQUIRED", 403, missingChallenge);
  }

  const database = createServiceClient(env).schema("private");
  const { data, error } = await database.rpc("begin_attempt", {
    attempt: { action, mail, address: clientAddress, email, code, userId, sessionId, challenged, allowOverride },
  });
  const response = beginResponse.safeParse(data);
  if (!response.success) {
    logError(`no attempt can be counted: ${error?.code ?? "answer"}`, { requestId: context.requestId });
    count("unavailable");
    return buildRefusedAttempt("AUTH_UNAVAILABLE", 503, unavailable);
  }
  if (!response.data.allowed) {
    const { reason, retryAfterSeconds } = response.data;
    count(reason);
    context.retryAfter(retryAfterSeconds);
    return buildRefusedAttempt(
      "RATE_LIMITED",
      429,
      `${rateLimitMessages[reason]} Try again in ${formatWait(retryAfterSeconds)}.`,
    );
  }
  const { attemptId, needsBotChallenge, overrideId, repeated, mailWaitSeconds, mailPauseSeconds } = response.data;
  if (needsBotChallenge) await new Promise((resolve) => setTimeout(resolve, slowdownMs));
  return {
    admitted: true,
    id: attemptId,
    overrideId,
    repeated,
    challenge: captchaToken ? { captchaToken } : {},
    mailWaitSeconds,
    mailPause: mailPauseSeconds ? formatWait(mailPauseSeconds) : "few minutes",
    async settle(outcome) {
      count(outcome);
      const { error } = await database.rpc("complete_attempt", { attempt_id: attemptId, outcome });
      if (error) logWarning(`an attempt stays counted: ${error.code}`, { requestId: context.requestId });
    },
  };
}

/**
 * Like {@link guardAttempt}, for APIs and for pages without a form to show again.
 * @throws Response the refusal, as a problem
 */
export async function requireAttempt(context: AppLoadContext, options: AttemptOptions): Promise<AdmittedAttempt> {
  const attempt = await guardAttempt(context, options);
  if (attempt.admitted) return attempt;
  throw problem(attempt.code, { requestId: context.requestId, detail: attempt.message });
}

/** Maps the identity backend's answer to the outcome of an attempt. */
export function getAttemptOutcome(error: AuthError | null): AttemptOutcome {
  // The backend reports an unconfirmed address only if the password was correct.
  if (!error || error.code === "email_not_confirmed") return "succeeded";
  return mapGeneralError(error) ? "void" : "failed";
}

function buildRefusedAttempt(
  code: RefusedAttempt["code"],
  status: RefusedAttempt["status"],
  message: string,
): RefusedAttempt {
  return { admitted: false, code, status, message };
}

const rateLimitMessages = {
  limited: "Too many attempts.",
  blocked: "Too many failed attempts from your network.",
};
const missingChallenge =
  "We couldn’t verify that you’re human. Make sure JavaScript is on, wait for the check to finish, then try again.";
const unavailable = "Something went wrong on our side. Try again in a moment.";
const suspiciousClientMessage =
  "This request doesn’t look like it came from a web browser. Use an up-to-date browser, and turn off extensions that hide which browser you use.";

/**
 * Attack tools, by their default user agents. This blocks only tools that keep their default configuration. It is not a
 * defense, because a tool can change its user agent.
 */
const attackTools = [
  // SQL injection.
  "sqlmap",
  "havij",
  // Vulnerability scanners.
  "nikto",
  "nuclei",
  "wpscan",
  "acunetix",
  "nessus",
  "openvas",
  "w3af",
  "arachni",
  "jaeles",
  // Path scanners.
  "dirbuster",
  "gobuster",
  "feroxbuster",
  "ffuf",
  "wfuzz",
  // Network scanners.
  "masscan",
  "zgrab",
  "nmap scripting engine",
  // Password guessers.
  "(hydra)",
  "patator",
  "openbullet",
  "sentry mba",
];

/** Returns whether a user agent is empty or belongs to an attack tool. Attempts by such clients are refused. */
export function isSuspiciousUserAgent(userAgent: string): boolean {
  const name = userAgent.trim().toLowerCase();
  return name === "" || attackTools.some((tool) => name.includes(tool));
}

const secondsPerMinute = 60;
const secondsPerHour = 60 * secondsPerMinute;

/** Formats a wait for people: `12 seconds`, `3 minutes`, `2 hours`. Rounds up. */
export function formatWait(seconds: number): string {
  if (seconds <= 90) return formatQuantity(Math.max(1, Math.ceil(seconds)), "second");
  if (seconds <= 90 * secondsPerMinute) return formatQuantity(Math.ceil(seconds / secondsPerMinute), "minute");
  return formatQuantity(Math.ceil(seconds / secondsPerHour), "hour");
}

function formatQuantity(amount: number, unit: string): string {
  return `${amount} ${unit}${amount === 1 ? "" : "s"}`;
}
