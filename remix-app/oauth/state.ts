import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { AppLoadContext } from "@remix-run/server-runtime";
import { errors, jwtVerify, SignJWT } from "jose";
import { z } from "zod";
import { oauthProviderNames } from "../config/oauth-providers.ts";
import { cookies } from "../http/cookie-table.ts";
import { clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { derivedKey } from "../keys/derived-key.ts";

/** Where the identity backend sends browsers back to. The cookie goes nowhere else. */
export const oauthCallbackPath = cookies.oauthState.path;

const common = { provider: z.enum(oauthProviderNames), returnTo: z.string().max(2_048) };
const bound = { ...common, userId: z.uuid(), sessionId: z.uuid() };

/**
 * What crosses the visit to a provider. A sign-in is bound to this browser alone; a link, and a fresh proof by somebody
 * who is signed in, to the account and its session too.
 */
const oauthState = z.discriminatedUnion("purpose", [
  z.strictObject({ purpose: z.literal("sign_in"), ...common }),
  z.strictObject({ purpose: z.literal("reauthenticate"), ...bound }),
  z.strictObject({ purpose: z.literal("link"), ...bound }),
]);

export type OAuthState = z.infer<typeof oauthState>;

type StateContext = Pick<AppLoadContext, "env" | "jar" | "origin">;

const algorithm = "HS256";
const stateBytes = 32;
const stateForm = /^[A-Za-z0-9_-]{43}$/;

/** A state parameter (RFC 6749 §10.12), and what hangs on it. */
export interface StateValues {
  /** Random; in the address and in the cookie. */
  state: string;
  /** By this the database knows the attempt. */
  hash: string;
  /** RFC 7636 §4.1. Follows from the state under a key of ours, so that it is nowhere but on our servers. */
  verifier: string;
  /** RFC 7636 §4.2. */
  challenge: string;
}

/** A new state for a visit to a provider, from 256 random bits of its own. */
export function createState(env: StateContext["env"]): StateValues {
  return valuesOf(env, randomBytes(stateBytes).toString("base64url"));
}

/** Returns what hangs on a state that a phone sends back; null if it cannot be one of ours. */
export function stateValues(env: StateContext["env"], state: string): StateValues | null {
  return stateForm.test(state) ? valuesOf(env, state) : null;
}

function valuesOf(env: StateContext["env"], state: string): StateValues {
  const verifier = createHmac("sha256", derivedKey(env, "oauth code verifier")).update(state).digest("base64url");
  return {
    state,
    hash: createHash("sha256").update(state).digest("hex"),
    verifier,
    challenge: createHash("sha256").update(verifier).digest("base64url"),
  };
}

/** Leaves the state with the browser: for ten minutes, for the callback alone, signed. */
export async function writeStateCookie(
  context: StateContext,
  { state, payload }: { state: string; payload: OAuthState },
): Promise<void> {
  const token = await new SignJWT({ ...payload, state })
    .setProtectedHeader({ alg: algorithm })
    .setAudience(oauthCallbackPath)
    .setIssuedAt()
    .setExpirationTime(`${cookies.oauthState.maxAgeSeconds}s`)
    .sign(derivedKey(context.env, "oauth state"));
  writeCookie(context, cookies.oauthState, { value: `${state}.${token}` });
}

/** Takes the state from the browser. */
export function clearStateCookie(context: StateContext): void {
  clearCookie(context, cookies.oauthState);
}

/**
 * The state that this browser set out with. The cookie and the query must match before the signature is looked at.
 * @param given the query's `state`
 * @returns null where the visit did not begin in this browser, or too long ago
 */
export async function readState(
  context: StateContext,
  given: string | null,
): Promise<{ values: StateValues; payload: OAuthState } | null> {
  const { env } = context;
  const [state = "", ...token] = readCookie(context, cookies.oauthState).split(".");
  if (!stateForm.test(state) || !sameText(state, given ?? "")) return null;
  try {
    const verified = await jwtVerify(token.join("."), derivedKey(env, "oauth state"), {
      algorithms: [algorithm],
      audience: oauthCallbackPath,
      requiredClaims: ["exp", "iat"],
    });
    const { state: signed, aud: _, iat: __, exp: ___, ...payload } = verified.payload;
    const parsed = oauthState.safeParse(payload);
    return signed === state && parsed.success ? { values: valuesOf(env, state), payload: parsed.data } : null;
  } catch (error) {
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
}

function sameText(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
