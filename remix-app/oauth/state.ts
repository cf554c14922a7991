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

function valuesOf(env: StateContext["env"], state: string): StateValues {
  const verifier = createHmac("sha256", derivedKey(env, "oauth code verifier")).update(state).digest("base64url");
  return {
    state,
    hash: createHash("sha256").update(state).digest("hex"),
    verifier,
    challenge: createHash("sha256").update(verifier).digest("base64url"),
  };
}

/** A visit to a provider, as the browser or phone that began it keeps it. */
interface KeptState {
  values: StateValues;
  payload: OAuthState;
}

/** Signs a state and its payload for ten minutes. */
export async function signState(
  env: StateContext["env"],
  { state, payload }: { state: string; payload: OAuthState },
): Promise<string> {
  const token = await new SignJWT({ ...payload, state })
    .setProtectedHeader({ alg: algorithm })
    .setAudience(oauthCallbackPath)
    .setIssuedAt()
    .setExpirationTime(`${cookies.oauthState.maxAgeSeconds}s`)
    .sign(derivedKey(env, "oauth state"));
  return `${state}.${token}`;
}

/** Returns what {@link signState} signed; null if it is not ours or has expired. */
export async function openState(env: StateContext["env"], signed: string): Promise<KeptState | null> {
  const [state = "", ...token] = signed.split(".");
  if (!stateForm.test(state)) return null;
  try {
    const verified = await jwtVerify(token.join("."), derivedKey(env, "oauth state"), {
      algorithms: [algorithm],
      audience: oauthCallbackPath,
      requiredClaims: ["exp", "iat"],
    });
    const { state: named, aud: _, iat: __, exp: ___, ...payload } = verified.payload;
    const parsed = oauthState.safeParse(payload);
    return named === state && parsed.success ? { values: valuesOf(env, state), payload: parsed.data } : null;
  } catch (error) {
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
}

/** Leaves the state with the browser, for the callback alone. */
export async function writeStateCookie(
  context: StateContext,
  beginning: { state: string; payload: OAuthState },
): Promise<void> {
  writeCookie(context, cookies.oauthState, { value: await signState(context.env, beginning) });
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
export async function readState(context: StateContext, given: string | null): Promise<KeptState | null> {
  const signed = readCookie(context, cookies.oauthState);
  const [state = ""] = signed.split(".");
  return sameText(state, given ?? "") ? openState(context.env, signed) : null;
}

function sameText(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
