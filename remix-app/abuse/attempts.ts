import type { AppLoadContext } from "@remix-run/server-runtime";
import type { AuthError } from "@supabase/supabase-js";
import { z } from "zod";
import { type ProblemCode, problem } from "../http/problem.ts";
import { generalFailure } from "../supabase/auth-errors.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { hasBotChallenge } from "./bot-challenge.ts";

/**
 * What is tried; the numbers for each are in `private.attempt_limits()` (supabase/schemas/abuse/limits.sql).
 * `password`: a sign-in by password, or a check of one. `code`: TOTP, one-time and recovery codes, links from mails.
 * `sign_in_code`: a code that was mailed to sign in with.
 * `mail`: resend, reset, invitation. `passkey`: sign-in by passkey. `oauth`: a visit to a provider. `credential`: a
 * signed-in user's changes that hash a password or send a mail. `user_code`: the code of a device that asks to sign in.
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
 * What became of it. `succeeded`: given back, and this account's failures from this address are forgotten. `failed`: the
 * credential was wrong. `void`: nothing was tried, as where the backend did not answer or the challenge was refused.
 */
export type AttemptOutcome = "succeeded" | "failed" | "void";

/** A mail with a link of the identity backend, which replaces the link in the last one of its kind. */
export type LinkMail = "sign_up_mail" | "confirmation_mail" | "recovery_mail" | "email_change_mail";

export interface AttemptOptions {
  action: AttemptAction;
  /** The mail that the attempt sends, where it sends one with a link. */
  mail?: LinkMail;
  /** As typed. Whether there is such an account makes no difference. */
  email?: string;
  /** The mailed code that is tried, so that concurrent requests with one code start one session. */
  code?: string;
  /** In the place of `email` where the session names the account. */
  userId?: string;
  /**
   * The posted field `botChallengeField` where the identity backend protects this call (sign-in, sign-up, resend,
   * reset, passkey options); left out elsewhere.
   */
  botChallenge?: FormDataEntryValue | null;
  /**
   * Tells whether a recovery override lets the email past its own limits; those of the address hold. Asked only of who
   * got past the checks of program and bot challenge.
   */
  isOverridden?: () => Promise<boolean>;
}

export interface AdmittedAttempt {
  admitted: true;
  /** Whether it was let past the email's own limits. */
  overridden: boolean;
  /** Whether the code was tried before: do not try it again, and answer as if it was wrong. */
  repeated: boolean;
  /** For the options of the call to the identity backend; empty where no bot challenge is configured. */
  challenge: { captchaToken?: string };
  /**
   * Not null where the last mail of the kind must not be replaced yet, and for how long: send nothing, and answer as if
   * it was sent. Only the signed-in owner of the account may learn of it.
   */
  mailWaitSeconds: number | null;
  /** How long the link in a mail is safe from being replaced, as in "in the last 3 minutes". */
  mailPause: string;
  /** To be called once, before answering. An attempt that is never settled stays counted. It never throws. */
  settle(outcome: AttemptOutcome): Promise<void>;
}

export interface RefusedAttempt {
  admitted: false;
  code: Extract<ProblemCode, "RATE_LIMITED" | "BOT_CHALLENGE_REQUIRED" | "FORBIDDEN" | "AUTH_UNAVAILABLE">;
  status: 403 | 429 | 503;
  /** For people: what happened and how long to wait. */
  message: string;
}

/** How long an attempt takes longer where a bot challenge is due and none is configured. */
const slowedAttemptMs = 2_000;
const retryAfterOutageSeconds = 5;

const answer = z.discriminatedUnion("allowed", [
  z.object({
    allowed: z.literal(true),
    attemptId: z.uuid(),
    needsBotChallenge: z.boolean(),
    repeated: z.boolean().default(false),
    // Absent where the database is older than this server.
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
 * Asks whether an attempt at a credential may be made, and counts it. Nothing may be tried before, nor after a refusal.
 * Where it cannot be counted it is refused with 503: an outage gives nobody a free attempt. `Retry-After` is set here.
 */
export async function guardAttempt(
  context: AppLoadContext,
  options: AttemptOptions,
): Promise<AdmittedAttempt | RefusedAttempt> {
  const { env, clientAddress, userAgent } = context;
  const { action, mail, email, code, userId, botChallenge, isOverridden } = options;
  if (isSuspiciousUserAgent(userAgent)) return refused("FORBIDDEN", 403, suspiciousProgram);
  const challenged = botChallenge !== undefined && hasBotChallenge(env);
  const captchaToken = challenged && typeof botChallenge === "string" ? botChallenge.trim() : "";
  if (challenged && captchaToken === "") return refused("BOT_CHALLENGE_REQUIRED", 403, challengeMissing);

  const overridden = (await isOverridden?.()) ?? false;
  const database = createServiceClient(env).schema("private");
  const { data, error } = await database.rpc("begin_attempt", {
    attempt: { action, mail, address: clientAddress, email, code, userId, challenged, overridden },
  });
  const begun = answer.safeParse(data);
  if (!begun.success) {
    console.error(`error request=${context.requestId} no attempt can be counted: ${error?.code ?? "answer"}`);
    context.retryAfter(retryAfterOutageSeconds);
    return refused("AUTH_UNAVAILABLE", 503, unavailable);
  }
  if (!begun.data.allowed) {
    const { reason, retryAfterSeconds } = begun.data;
    context.retryAfter(retryAfterSeconds);
    return refused("RATE_LIMITED", 429, `${tooMany[reason]} Try again in ${waitInWords(retryAfterSeconds)}.`);
  }
  const { attemptId, needsBotChallenge, repeated, mailWaitSeconds, mailPauseSeconds } = begun.data;
  if (needsBotChallenge) await new Promise((resolve) => setTimeout(resolve, slowedAttemptMs));
  return {
    admitted: true,
    overridden,
    repeated,
    challenge: captchaToken ? { captchaToken } : {},
    mailWaitSeconds,
    mailPause: mailPauseSeconds ? waitInWords(mailPauseSeconds) : "few minutes",
    async settle(outcome) {
      const { error } = await database.rpc("complete_attempt", { attempt_id: attemptId, outcome });
      if (error) console.error(`warning request=${context.requestId} an attempt stays counted: ${error.code}`);
    },
  };
}

/**
 * As {@link guardAttempt}, for APIs and for pages without a form to show again.
 * @throws Response the refusal, as a problem
 */
export async function requireAttempt(context: AppLoadContext, options: AttemptOptions): Promise<AdmittedAttempt> {
  const attempt = await guardAttempt(context, options);
  if (attempt.admitted) return attempt;
  throw problem(attempt.code, { requestId: context.requestId, detail: attempt.message });
}

/** What the identity backend's answer to an attempt says of it. */
export function outcomeOf(error: AuthError | null): AttemptOutcome {
  // That an address is not confirmed is said only to who knows the password.
  if (!error || error.code === "email_not_confirmed") return "succeeded";
  return generalFailure(error) ? "void" : "failed";
}

function refused(code: RefusedAttempt["code"], status: RefusedAttempt["status"], message: string): RefusedAttempt {
  return { admitted: false, code, status, message };
}

const tooMany = {
  limited: "Too many attempts.",
  blocked: "Too many failed attempts from your network.",
};
const challengeMissing =
  "We couldn’t verify that you’re human. Make sure JavaScript is on, wait for the check to finish, then try again.";
const unavailable = "We can’t check sign-ins right now. Try again in a moment.";
const suspiciousProgram =
  "This request doesn’t look like it came from a web browser. Use an up-to-date browser, and turn off extensions that hide which browser you use.";

/**
 * Attack tools, by their default user agents. A tool that hides its name passes: this only keeps the noise of default
 * runs out of the limits, and does not defend by itself.
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
  // Finders of hidden paths.
  "dirbuster",
  "gobuster",
  "feroxbuster",
  "ffuf",
  "wfuzz",
  // Scanners of whole networks.
  "masscan",
  "zgrab",
  "nmap scripting engine",
  // Guessers of passwords.
  "(hydra)",
  "patator",
  "openbullet",
  "sentry mba",
];

/** Whether a credential may not be tried by this program: it has no name, or that of an attack tool. */
export function isSuspiciousUserAgent(userAgent: string): boolean {
  const name = userAgent.trim().toLowerCase();
  return name === "" || attackTools.some((tool) => name.includes(tool));
}

const minute = 60;
const hour = 60 * minute;

/** A wait as people say it: `12 seconds`, `3 minutes`, `2 hours`. Never shorter than it is. */
export function waitInWords(seconds: number): string {
  if (seconds <= 90) return count(Math.max(1, Math.ceil(seconds)), "second");
  if (seconds <= 90 * minute) return count(Math.ceil(seconds / minute), "minute");
  return count(Math.ceil(seconds / hour), "hour");
}

function count(amount: number, unit: string): string {
  return `${amount} ${unit}${amount === 1 ? "" : "s"}`;
}
