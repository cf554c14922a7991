import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { requireAppKeys } from "../apps/app-client.ts";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { hashToBytea } from "../apps/opaque-tokens.ts";
import { bearerToken, openidBearerToken } from "../http/authorization.ts";
import { problem } from "../http/problem.ts";
import { requireUser, type User } from "../session/user.ts";
import { isSessionToken, readSessionToken } from "./tokens.ts";

/**
 * A satellite with an app session, or an OpenID client with an access token. Database functions identify the caller by
 * the token's hash. The caller has no user session.
 */
export interface AppCaller {
  kind: "app";
  tokenHash: string;
}

/**
 * The caller of a central API route that accepts app sessions: the signed-in user, or a satellite on a person's behalf.
 */
export type Caller = { kind: "user"; user: User } | AppCaller;

/**
 * Returns the caller of a route that accepts app sessions. The form of the bearer token decides how the token is
 * checked. A request with an invalid app session is refused, even if it also has valid cookies. All other routes use
 * requireUser, which accepts no app session.
 * @throws Response 401 for an app session that we did not sign; otherwise like requireUser
 */
export async function requireCaller(context: AppLoadContext, request: Request): Promise<Caller> {
  const authorization = request.headers.get("authorization");
  const accessToken = openidBearerToken(authorization);
  if (accessToken !== null) return { kind: "app", tokenHash: hashToBytea(accessToken) };
  const token = bearerToken(authorization);
  if (token === null || !isSessionToken(token)) return { kind: "user", user: await requireUser(context, request) };
  const keys = await requireAppKeys(context);
  const jti = await readSessionToken(token, keys.session);
  if (jti === null) throw sessionExpired(context);
  return { kind: "app", tokenHash: hashToBytea(jti) };
}

const uuidSchema = z.uuid();
const unknownWorkspaceId = "00000000-0000-0000-0000-000000000000";

/**
 * Returns the workspace id from the URL, for a database function that takes an app session. Replaces a malformed id
 * with an id that does not exist, so that the database function checks the session first.
 */
export function workspaceIdOrUnknown(id: string | undefined): string {
  return uuidSchema.safeParse(id).data ?? unknownWorkspaceId;
}

const refusalAnswer = createRefusalSchema(
  "unauthenticated",
  "mfa_required",
  "unavailable",
  "insufficient_scope",
  "not_found",
  "forbidden",
);

/**
 * Calls a database function as the person behind an app session. Each function derives person, app, scopes and MFA from
 * the token's hash in the same statement.
 * @param options.name a function that takes the token's hash, such as those in
 * supabase/schemas/satellites/app-session-access.sql
 * @throws Response the function's refusal, as a problem
 */
export async function callAsApp<Schema extends z.ZodType>(
  context: AppLoadContext,
  {
    caller,
    area,
    name,
    args = {},
    schema,
  }: { caller: AppCaller; area?: "ai"; name: string; args?: Record<string, unknown>; schema: Schema },
): Promise<z.output<Schema>> {
  const answer = await callAppFunction(context, {
    area,
    name,
    args: { token_hash: caller.tokenHash, ...args },
    schema: z.union([refusalAnswer, schema]),
  });
  const refusal = refusalAnswer.safeParse(answer);
  if (!refusal.success) return answer as z.output<Schema>;
  const { requestId } = context;
  switch (refusal.data.refused) {
    case "unauthenticated":
      throw sessionExpired(context);
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

function sessionExpired({ requestId }: { requestId: string }): Response {
  const detail = "This app session or access token has ended. Send the person to sign in again.";
  return problem("UNAUTHENTICATED", {
    requestId,
    detail,
    headers: { "WWW-Authenticate": 'Bearer error="invalid_token"' },
  });
}
