import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { bearerToken, openidBearerToken } from "../http/authorization.ts";
import { problem } from "../http/problem.ts";
import { requireUser, type User } from "../session/user.ts";
import { requireAppKeys } from "./app-client.ts";
import { appsUnavailable, callAppFunction, refusalOf } from "./app-database.ts";
import { hashOf, isSessionToken, readSessionToken } from "./tokens.ts";

/**
 * The central session of a satellite, or an OpenID client's access token, by the hash that functions of the database
 * take. It is not a user's session.
 */
export interface AppCaller {
  kind: "app";
  tokenHash: string;
}

/** Who calls a route of the central API that takes app sessions: the signed-in user, or a satellite for one. */
export type Caller = { kind: "user"; user: User } | AppCaller;

/**
 * The caller of a route that an app session may use. The two credentials are told apart by what the bearer says it is,
 * and each is judged as that alone: a bad app session is never tried as anything else, nor are cookies looked at.
 * Everywhere else requireUser is asked, which knows no app session.
 * @throws Response 401 for an app session that we did not sign; as requireUser for everything else
 */
export async function requireCaller(context: AppLoadContext, request: Request): Promise<Caller> {
  const authorization = request.headers.get("authorization");
  const accessToken = openidBearerToken(authorization);
  if (accessToken !== null) return { kind: "app", tokenHash: hashOf(accessToken) };
  const token = bearerToken(authorization);
  if (token === null || !isSessionToken(token)) return { kind: "user", user: await requireUser(context, request) };
  const keys = await requireAppKeys(context);
  const jti = await readSessionToken(token, keys.session);
  if (jti === null) throw sessionOver(context);
  return { kind: "app", tokenHash: hashOf(jti) };
}

const anyId = z.uuid();
const noWorkspace = "00000000-0000-0000-0000-000000000000";

/**
 * The workspace that an address names, as functions for app sessions take it: what is no id is one that nobody has, since
 * the session is judged before the address.
 */
export function askedWorkspace(id: string | undefined): string {
  return anyId.safeParse(id).data ?? noWorkspace;
}

const refusals = refusalOf(
  "unauthenticated",
  "mfa_required",
  "unavailable",
  "insufficient_scope",
  "not_found",
  "forbidden",
);

/**
 * Does something with data as the person behind an app session. Each function derives person, app, scopes and MFA from
 * the token's hash by itself, in the same statement.
 * @param name of a function of supabase/schemas/apps/app-session-access.sql
 * @throws Response what the function refuses, as a problem
 */
export async function callAsApp<Schema extends z.ZodType>(
  context: AppLoadContext,
  {
    caller,
    name,
    args = {},
    schema,
  }: { caller: AppCaller; name: string; args?: Record<string, unknown>; schema: Schema },
): Promise<z.output<Schema>> {
  const answer = await callAppFunction(context, {
    name,
    args: { token_hash: caller.tokenHash, ...args },
    schema: z.union([refusals, schema]),
  });
  const refusal = refusals.safeParse(answer);
  if (!refusal.success) return answer as z.output<Schema>;
  const { requestId } = context;
  switch (refusal.data.refused) {
    case "unauthenticated":
      throw sessionOver(context);
    case "mfa_required":
      throw problem("MFA_REQUIRED", { requestId });
    case "unavailable":
      throw appsUnavailable(context);
    case "insufficient_scope":
      throw problem("FORBIDDEN", { requestId, detail: "The app's registration does not carry the scope for this." });
    case "not_found":
      throw problem("NOT_FOUND", { requestId });
    case "forbidden":
      throw problem("FORBIDDEN", { requestId, detail: "This person's role in the workspace does not allow this." });
  }
}

function sessionOver({ requestId }: { requestId: string }): Response {
  const detail = "This app session or access token has ended. Send the person to sign in again.";
  return problem("UNAUTHENTICATED", {
    requestId,
    detail,
    headers: { "WWW-Authenticate": 'Bearer error="invalid_token"' },
  });
}
