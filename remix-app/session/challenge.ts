import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { deviceName } from "../activity/device-name.ts";
import type { CookieDefinition } from "../http/cookie-table.ts";
import { type CookieContext, readCookie, writeCookie } from "../http/cookies.ts";
import { type ProblemCode, problem } from "../http/problem.ts";
import { isReadable } from "../http/readable.ts";
import { callFunction } from "../supabase/data-api.ts";
import type { User } from "./user.ts";

/**
 * The kinds of challenges. A session handoff expires after two minutes, and the approval of a second factor after five.
 */
export type ChallengeKind = "qr" | "mfa_mobile";

/** A challenge's id, and the secret that proves access to it. */
export interface ChallengeKey {
  id: string;
  secret: string;
}

/** A challenge's public status. `consumed` ends a handoff, `bound` and `locked` end an approval. */
const statusSchema = z.enum(["created", "approved", "consumed", "bound", "rejected", "locked", "expired"]);
export type ChallengeStatus = z.infer<typeof statusSchema>;

const timeSchema = z.coerce.date().transform((date) => date.toISOString());
const readResult = z.discriminatedUnion("outcome", [
  z.object({
    outcome: z.literal("known"),
    status: statusSchema,
    expiresAt: timeSchema,
    validUntil: timeSchema.nullable(),
    mintedSessionId: z.uuid().nullable(),
  }),
  z.object({ outcome: z.enum(["not_found", "forbidden"]) }),
]);

export interface ChallengeProgress {
  status: ChallengeStatus;
  /** An RFC 3339 timestamp. */
  expiresAt: string;
  /** When an approval with the status `bound` expires. */
  validUntil: string | null;
  /** The session that a completed handoff created. */
  mintedSessionId: string | null;
}

/** Returns whether a text has the form of a challenge id. Other texts never reach the database. */
export function isChallengeId(id: string): boolean {
  return z.uuid().safeParse(id).success;
}

/** Returns a secret's hash as a bytea for the Data API. Secrets of 256 random bits need no slow hash. */
export function secretHashOf(secret: string): string {
  return `\\x${createHash("sha256").update(secret).digest("hex")}`;
}

/**
 * Reads a challenge, for the session that began it or for the session that it created. Changes nothing.
 * @returns the refusal if the id or secret is unknown, or if the challenge belongs to another session
 * @throws Response 503 UNAVAILABLE
 */
export async function readChallenge(
  context: AppLoadContext,
  { kind, key, sessionId }: { kind: ChallengeKind; key: ChallengeKey; sessionId: string },
): Promise<ChallengeProgress | "not_found" | "forbidden"> {
  if (!isChallengeId(key.id)) return "not_found";
  const args = { challenge: { id: key.id, kind, secretHash: secretHashOf(key.secret), sessionId } };
  const call = { name: "private.read_login_challenge", args, schema: readResult } as const;
  const read = await callFunction(context, call);
  if (read.outcome !== "known") return read.outcome;
  const { outcome: _, ...progress } = read;
  return progress;
}

/**
 * Like {@link readChallenge}, for APIs.
 * @throws Response 404 if the id or secret is wrong, 403 if the challenge belongs to another session, 503
 */
export async function requireChallenge(
  context: AppLoadContext,
  options: Parameters<typeof readChallenge>[1],
): Promise<ChallengeProgress> {
  const progress = await readChallenge(context, options);
  if (typeof progress === "string") throw createRefusalResponse(progress, context);
  return progress;
}

/** Logs a call that the database did not answer as expected. Returns 503 UNAVAILABLE. */
export function reportFailedCall(
  { requestId }: Pick<AppLoadContext, "requestId">,
  { call, error }: { call: string; error: { code: string } | null },
): Response {
  logError(`${call}: ${error?.code || "answer"}`, { requestId });
  return problem("UNAVAILABLE", { requestId });
}

/** Why a phone's answer or a browser's poll was refused. */
export type ChallengeRefusal = "not_found" | "forbidden" | "mfa_required" | "expired" | "conflict";

const refusalProblems: Record<ChallengeRefusal, { code: ProblemCode; detail: string }> = {
  not_found: { code: "NOT_FOUND", detail: "This request doesn’t exist. It may be mistyped or expired." },
  forbidden: { code: "FORBIDDEN", detail: "You can’t answer this request from this device." },
  mfa_required: { code: "MFA_REQUIRED", detail: "Verify your second factor on this device first." },
  expired: { code: "GONE", detail: "This request has expired. Request a new one." },
  conflict: { code: "CONFLICT", detail: "This request was already answered, or is locked." },
};

export function createRefusalResponse(
  refusal: ChallengeRefusal,
  { requestId }: Pick<AppLoadContext, "requestId">,
): Response {
  const { code, detail } = refusalProblems[refusal];
  return problem(code, { requestId, detail });
}

const cookiePartPattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Stores in a cookie the challenge that a page waits for, with the other data that the page shows. */
export function writeChallengeCookie(
  context: CookieContext,
  cookie: CookieDefinition,
  { key, shown = "" }: { key: ChallengeKey; shown?: string },
): void {
  writeCookie(context, cookie, { value: [key.id, key.secret, ...(shown ? [shown] : [])].join(".") });
}

/** Reads the challenge that the browser's cookie names. The database checks whose challenge it is. */
export function readChallengeCookie(
  context: CookieContext,
  cookie: CookieDefinition,
): (ChallengeKey & { shown: string }) | null {
  const [id, secret, shown = "", ...more] = readCookie(context, cookie).split(".");
  if (!id || !secret || more.length > 0) return null;
  return [id, secret, shown || "-"].every((text) => cookiePartPattern.test(text)) ? { id, secret, shown } : null;
}

/** A new challenge with its secret. The browser that begins the challenge receives the secret only once. */
export interface NewChallenge {
  id: string;
  secret: string;
  /** An RFC 3339 timestamp. */
  expiresAt: string;
}

const secretBytes = 32;
const beginResult = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("begun"), expiresAt: z.coerce.date() }),
  z.object({ outcome: z.literal("limited"), retryAfterSeconds: z.number().int().positive() }),
]);

/**
 * Begins a challenge for this request's session. An earlier challenge of the same kind expires.
 * @param options.pairCodeHash returns a hash of the challenge's id and the code that a phone must enter
 * @throws Response 429 RATE_LIMITED after 20 of a kind in 15 minutes, 503 UNAVAILABLE if it cannot be stored
 */
export async function beginChallenge(
  context: AppLoadContext,
  { kind, user, pairCodeHash }: { kind: ChallengeKind; user: User; pairCodeHash?: (id: string) => string },
): Promise<NewChallenge> {
  const { requestId, clientAddress, userAgent } = context;
  const id = randomUUID();
  const secret = randomBytes(secretBytes).toString("base64url");
  const challenge = {
    id,
    kind,
    userId: user.id,
    sessionId: user.sessionId,
    secretHash: secretHashOf(secret),
    pairCodeHash: pairCodeHash?.(id),
    metadata: { device: deviceName(userAgent), address: clientAddress },
  };
  const call = { name: "private.begin_login_challenge", args: { challenge }, schema: beginResult } as const;
  const result = await callFunction(context, call);
  if (result.outcome === "begun") return { id, secret, expiresAt: result.expiresAt.toISOString() };
  const detail = "You’ve requested too many codes. Wait a few minutes, then try again.";
  const headers = { "Retry-After": String(result.retryAfterSeconds) };
  throw problem("RATE_LIMITED", { requestId, detail, headers });
}

const singleLineSchema = z.string().refine(isReadable);

/** A phone's description of itself, sent with its answer. */
export const approvingDevice = z.object({
  name: singleLineSchema.trim().min(1).max(100),
  platform: z.enum(["ios", "android"]),
  appLock: z.boolean().optional(),
  localAuthentication: singleLineSchema.max(32).nullish(),
});

const localAuthentications: readonly unknown[] = ["biometric", "passcode"];

/**
 * Rejects a phone's approval unless the app reports an app lock and a local confirmation by fingerprint, face or
 * passcode (docs/mobile.md). The server cannot verify the report.
 * @throws Response 403 FORBIDDEN
 */
export function requireLocalAuthentication(
  { requestId }: Pick<AppLoadContext, "requestId">,
  { appLock, localAuthentication }: z.infer<typeof approvingDevice>,
): void {
  if (appLock !== true) {
    throw problem("FORBIDDEN", { requestId, detail: "Turn on the app lock, then approve again." });
  }
  if (localAuthentications.includes(localAuthentication)) return;
  const detail = "Confirm with your fingerprint, face or passcode on the phone, then approve again.";
  throw problem("FORBIDDEN", { requestId, detail });
}
