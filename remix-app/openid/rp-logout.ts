import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callAppFunction } from "../apps/app-database.ts";
import { problem } from "../http/problem.ts";
import { revokeSession, signOutAccount } from "../session/sign-out.ts";
import type { User } from "../session/user.ts";
import { verifyOwnJwt } from "./signing-keys.ts";

const parameters = ["id_token_hint", "client_id", "post_logout_redirect_uri", "state"] as const;
const maxPathLength = 2_048;

/** Returns the path of a sign-out request, with only the parameters that we support. */
export function logoutPath(query: URLSearchParams): string {
  const supported = parameters.flatMap((name) => query.getAll(name).map((value) => [name, value]));
  return `/oauth/logout${supported.length > 0 ? `?${new URLSearchParams(supported)}` : ""}`;
}

const hintClaims = z.looseObject({ aud: z.string(), sub: z.uuid(), sid: z.uuid() });
const logoutAnswer = z
  .object({ displayName: z.string(), redirectAllowed: z.boolean(), ofSession: z.boolean() })
  .nullable();

/** A client's request to sign a person out (OpenID Connect RP-Initiated Logout 1.0 section 2). */
export interface LogoutRequest {
  /** The client's name, or null if the request names no client. */
  displayName: string | null;
  /** The login that the ID token belongs to. */
  login: { sid: string; userId: string } | null;
  /** Where to go afterwards: a registered URL with the client's state. Null for our own page. */
  address: string | null;
  /** Whether the ID token belongs to a login from this browser's session, so that no confirmation is needed. */
  isProven: boolean;
}

/**
 * Reads a sign-out request.
 * @returns null if it contradicts itself, or if its redirect URI is not registered
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function readLogoutRequest(context: AppLoadContext, request: Request): Promise<LogoutRequest | null> {
  const { searchParams } = new URL(request.url);
  const isRepeated = parameters.some((name) => searchParams.getAll(name).length > 1);
  if (isRepeated || logoutPath(searchParams).length > maxPathLength || /\0/.test([...searchParams].join("")))
    return null;
  const [hint, clientId, redirectUri, state] = parameters.map((name) => searchParams.get(name) || null);
  // An expired ID token still identifies its login (section 4).
  const claims = hint ? hintClaims.safeParse(await verifyOwnJwt(context, hint, { typ: "JWT" })).data : undefined;
  if ((hint && !claims) || (claims && clientId && claims.aud !== clientId)) return null;
  const namedClientId = clientId ?? claims?.aud;
  if (!namedClientId) return redirectUri ? null : { displayName: null, login: null, address: null, isProven: false };
  const { auth } = context.session;
  const answer = await callAppFunction(context, {
    name: "read_openid_logout",
    args: {
      client_id: namedClientId,
      post_logout_redirect_uri: redirectUri,
      sid: claims?.sid ?? null,
      session_id: auth.status === "authenticated" ? auth.claims.session_id : null,
    },
    schema: logoutAnswer,
  });
  if (!answer || (redirectUri && !answer.redirectAllowed)) return null;
  return {
    displayName: answer.displayName,
    login: claims ? { sid: claims.sid, userId: claims.sub } : null,
    address: redirectUri ? appendState(redirectUri, state) : null,
    isProven: answer.ofSession,
  };
}

function appendState(address: string, state: string | null | undefined): string {
  if (!state) return address;
  return `${address}${address.includes("?") ? "&" : "?"}${new URLSearchParams({ state })}`;
}

/**
 * Signs this browser out of its active account, and ends the ID token's login if it belongs to that account.
 * @throws Response 503 AUTH_UNAVAILABLE if the session may still be active
 */
export async function signOutForClient(
  context: AppLoadContext,
  { user, login }: { user: Pick<User, "id">; login: LogoutRequest["login"] },
): Promise<void> {
  if (login?.userId === user.id) {
    await callAppFunction(context, {
      name: "end_openid_login",
      args: { user_id: user.id, sid: login.sid },
      schema: z.boolean(),
    });
  }
  const { status } = await signOutAccount(context, user.id);
  if (status === "signed_out") return;
  if (status === "unavailable" || !(await revokeSession(context))) {
    throw problem("AUTH_UNAVAILABLE", { requestId: context.requestId });
  }
  context.session.clear();
}
