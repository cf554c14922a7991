import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { errors, jwtVerify, SignJWT } from "jose";
import { z } from "zod";
import { oauthProviderNames } from "../config/oauth-providers.ts";
import { deriveServerKey } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import { clearCookie, readCookie, writeCookie } from "../http/cookies.ts";

/** The path to which the identity backend redirects browsers. It is also the path of the state cookie. */
export const oauthCallbackPath = cookies.oauthState.path;

const visitFields = { provider: z.enum(oauthProviderNames), returnTo: z.string().max(2_048) };
const sessionFields = { ...visitFields, userId: z.uuid(), sessionId: z.uuid() };

/**
 * The data kept during a visit to a provider. For a sign-in, it is bound only to this browser. For a link or a
 * reauthentication, it is also bound to the signed-in account and its session.
 */
const oauthState = z.discriminatedUnion("purpose", [
  z.strictObject({ purpose: z.literal("sign_in"), ...visitFields }),
  z.strictObject({ purpose: z.literal("reauthenticate"), ...sessionFields }),
  z.strictObject({ purpose: z.literal("link"), ...sessionFields }),
]);

export type OAuthState = z.infer<typeof oauthState>;

type StateContext = Pick<AppLoadContext, "env" | "jar" | "origin">;

const algorithm = "HS256";
const stateBytes = 32;
const stateForm = /^[A-Za-z0-9_-]{43}$/;

/** A state parameter (RFC 6749 §10.12), and the values derived from it. */
export interface StateValues {
  /** A random value that both the URL and the cookie carry. */
  state: string;
  /** Identifies the attempt in the database. */
  hash: string;
  /**
   * The code verifier (RFC 7636 §4.1). It is derived from the state with one of our keys, so it never leaves our
   * servers.
   */
  verifier: string;
  /** The code challenge (RFC 7636 §4.2). */
  challenge: string;
}

/** Creates a state for a visit to a provider, from 256 random bits. */
export function createState(env: StateContext["env"]): StateValues {
  return deriveStateValues(env, randomBytes(stateBytes).toString("base64url"));
}

function deriveStateValues(env: StateContext["env"], state: string): StateValues {
  const verifier = createHmac("sha256", deriveServerKey(env, "oauth code verifier")).update(state).digest("base64url");
  return {
    state,
    hash: createHash("sha256").update(state).digest("hex"),
    verifier,
    challenge: createHash("sha256").update(verifier).digest("base64url"),
  };
}

/** The state and payload that a browser or phone keeps while its user visits a provider. */
interface VisitState {
  values: StateValues;
  payload: OAuthState;
}

/** Signs a state and its payload. The signature expires after ten minutes. */
export async function signState(
  env: StateContext["env"],
  { state, payload }: { state: string; payload: OAuthState },
): Promise<string> {
  const token = await new SignJWT({ ...payload, state })
    .setProtectedHeader({ alg: algorithm })
    .setAudience(oauthCallbackPath)
    .setIssuedAt()
    .setExpirationTime(`${cookies.oauthState.maxAgeSeconds}s`)
    .sign(deriveServerKey(env, "oauth state"));
  return `${state}.${token}`;
}

/** Returns the state and payload that {@link signState} signed, or null if they are not ours or have expired. */
export async function openState(env: StateContext["env"], signed: string): Promise<VisitState | null> {
  const [state = "", ...token] = signed.split(".");
  if (!stateForm.test(state)) return null;
  try {
    const verified = await jwtVerify(token.join("."), deriveServerKey(env, "oauth state"), {
      algorithms: [algorithm],
      audience: oauthCallbackPath,
      requiredClaims: ["exp", "iat"],
    });
    const { state: signedState, aud: _, iat: __, exp: ___, ...payload } = verified.payload;
    const parsed = oauthState.safeParse(payload);
    return signedState === state && parsed.success
      ? { values: deriveStateValues(env, state), payload: parsed.data }
      : null;
  } catch (error) {
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
}

/** Sets the state cookie, which the browser sends only to the callback. */
export async function writeStateCookie(
  context: StateContext,
  beginning: { state: string; payload: OAuthState },
): Promise<void> {
  writeCookie(context, cookies.oauthState, { value: await signState(context.env, beginning) });
}

/** Clears the state cookie. */
export function clearStateCookie(context: StateContext): void {
  clearCookie(context, cookies.oauthState);
}

/**
 * Returns the state that this browser started with. The cookie and the query must match before the signature is
 * checked.
 * @param queryState the query's `state`
 * @returns null if the visit did not start in this browser, or started too long ago
 */
export async function readState(context: StateContext, queryState: string | null): Promise<VisitState | null> {
  const signed = readCookie(context, cookies.oauthState);
  const [state = ""] = signed.split(".");
  return sameText(state, queryState ?? "") ? openState(context.env, signed) : null;
}

function sameText(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
