import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { type AppClient, type AppKeys, refuseApp, requireAppKeys } from "../apps/app-client.ts";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { deriveSuccessor, hashToBytea, refreshWithKeyRing } from "../apps/opaque-tokens.ts";
import { problem } from "../http/problem.ts";
import type { Introspection, IssuedSession } from "./app-calls.ts";
import { issueSessionToken, readSessionToken, sessionSummary } from "./tokens.ts";

/** A token and the app that presents it. */
export type TokenOfApp = { client: AppClient; token: string };

/**
 * Returns the hash under which the database stores a token. For a text that we never signed, returns a hash that
 * matches no token, so that the database call still verifies the app's credentials.
 */
export async function sessionHash(token: string, keys: AppKeys): Promise<string> {
  const jti = await readSessionToken(token, keys.session);
  return hashToBytea(jti ?? `not ours: ${token}`);
}

const introspectionAnswer = z.union([
  createRefusalSchema("unauthenticated", "unavailable"),
  z.object({ active: z.literal(false) }),
  z.object({
    active: z.literal(true),
    session: sessionSummary,
    scopes: z.array(z.string()),
    profile: z
      .object({ name: z.string().nullable(), email: z.string().nullable(), picture: z.string().nullable() })
      .nullable(),
  }),
]);

const toUnixSeconds = (time: string) => Math.floor(Date.parse(time) / 1000);

/**
 * Returns a session's current state to its own app (RFC 7662 §2.2). For another app's session or an ended session,
 * returns only `{ active: false }`.
 * @throws Response 401 if the app's credentials are invalid; 503 if the account's policy cannot be read
 */
export async function introspectAppSession(
  context: AppLoadContext,
  { client, token }: TokenOfApp,
): Promise<Introspection> {
  const keys = await requireAppKeys(context);
  const answer = await callAppFunction(context, {
    name: "introspect_app_session",
    args: { ...client.credentials, token_hash: await sessionHash(token, keys) },
    schema: introspectionAnswer,
  });
  if ("refused" in answer) {
    throw answer.refused === "unavailable" ? appsUnavailable(context) : await refuseApp(context);
  }
  if (!answer.active) return { active: false };
  const { session, scopes, profile } = answer;
  return {
    active: true,
    token_type: "app_session",
    client_id: client.name,
    iss: context.env.BASE_URL,
    aud: session.audience === "central" ? context.env.BASE_URL : client.name,
    sub: session.user,
    sid: session.handoff,
    scope: scopes.join(" "),
    iat: toUnixSeconds(session.issuedAt),
    exp: toUnixSeconds(session.expiresAt),
    ...(profile ?? {}),
  };
}

/**
 * Replaces a session's token. The old token expires after 30 s. Until then, refreshing it returns the same new token.
 * @throws Response 401 REAUTH_REQUIRED if the session has ended; 401 UNAUTHENTICATED if the app's credentials are
 * invalid
 */
export async function refreshAppSession(
  context: AppLoadContext,
  { client, token }: TokenOfApp,
): Promise<IssuedSession> {
  const keys = await requireAppKeys(context);
  const jti = await readSessionToken(token, keys.session);
  const { answer, next } = await refreshWithKeyRing(keys.successor, async (key) => {
    const next = deriveSuccessor(jti ?? token, { key, part: "session" }).toString("base64url");
    const answer = await callAppFunction(context, {
      name: "refresh_app_session",
      args: {
        ...client.credentials,
        token_hash: await sessionHash(token, keys),
        successor_hash: hashToBytea(next),
      },
      schema: z.union([createRefusalSchema("unauthenticated", "token", "unavailable"), sessionSummary]),
    });
    return { answer, next };
  });
  if (!("refused" in answer)) {
    const signing = { keys: keys.session, issuer: context.env.BASE_URL, app: client.name, jti: next };
    return issueSessionToken(answer, signing);
  }
  if (answer.refused === "unauthenticated") throw await refuseApp(context);
  if (answer.refused === "unavailable") throw appsUnavailable(context);
  throw reauthRequired(context);
}

/** Answers that the person has to sign in again, because the app's session or token is no longer valid. */
export function reauthRequired({ requestId }: { requestId: string }): Response {
  const detail = "What the app holds of this person has ended. Send them to sign in again.";
  return problem("REAUTH_REQUIRED", { requestId, detail, members: { requiresReauth: true } });
}
