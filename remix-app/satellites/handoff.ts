import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logWarning } from "#shared/log.ts";
import { type AppClient, type AppKeys, refuseApp, requireAllowedAttempt, requireAppKeys } from "../apps/app-client.ts";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import type { KeyRing } from "../crypto/derived-key.ts";
import { problem } from "../http/problem.ts";
import { buildDatabaseClaims } from "../session/approval-proof.ts";
import type { User } from "../session/user.ts";
import type { HandoffPreview, HandoffSessions, IssuedSession } from "./app-calls.ts";
import { issueSessionToken, sessionSummary, signToken, verifyToken } from "./tokens.ts";

/**
 * Mints a cross-app token for the signed-in user. Stores the token's hash with a signature of the facts that the
 * session has proven.
 * @param user the result of requireUser for this request, whose verified claims name the session
 * @throws Response 404 NOT_FOUND for an unknown or disabled target; 401, 403 or 503 if the session is no longer
 * sufficient
 */
export async function mintCrossAppToken(
  context: AppLoadContext,
  { user, targetApp, expirySeconds }: { user: User; targetApp: string; expirySeconds: number },
): Promise<IssuedSession> {
  const { requestId, session } = context;
  if (session.auth.status !== "authenticated") throw problem("UNAUTHENTICATED", { requestId });
  const keys = await requireAppKeys(context);
  await requireAllowedAttempt(context, { action: "handoff", userId: user.id });
  const facts = await callAppFunction(context, {
    name: "required_mfa_proof",
    args: {
      claims: buildDatabaseClaims(context, session.auth.claims),
      target_app: targetApp,
      lifetime_seconds: expirySeconds,
    },
    schema: z.union([createRefusalSchema("unauthenticated", "mfa_required", "unavailable", "not_found"), handoffFacts]),
  });
  const noApp = () => problem("NOT_FOUND", { requestId, detail: "This app doesn’t exist, or it’s turned off." });
  if ("refused" in facts) {
    switch (facts.refused) {
      case "not_found":
        throw noApp();
      case "mfa_required":
        throw problem("MFA_REQUIRED", { requestId });
      case "unavailable":
        throw appsUnavailable(context);
      case "unauthenticated":
        throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
    }
  }
  const token = newOpaqueToken("xat_");
  const isStored = await callAppFunction(context, {
    name: "mint_cross_app_token",
    args: { token_hash: hashToBytea(token), facts, proof: await signProof(facts, keys.proof) },
    schema: z.boolean(),
  });
  if (!isStored) throw noApp();
  return { token, expiresAt: new Date(facts.expiresAt).toISOString() };
}

/** Revokes every outstanding cross-app token of a user. @returns how many there were */
export function revokeCrossAppTokens(context: AppLoadContext, { id }: User): Promise<number> {
  return callAppFunction(context, {
    name: "revoke_cross_app_tokens",
    args: { user_id: id },
    schema: z.number().int(),
  });
}

const appAnswer = z.object({
  app: z.object({ id: z.uuid(), name: z.string(), scopes: z.array(z.string()) }),
  proof: z.string().nullable(),
});

/** A token with a valid proof, and the facts that the proof states. */
export interface VerifiedHandoff {
  keys: AppKeys;
  app: z.infer<typeof appAnswer>["app"];
  tokenHash: string;
  proof: string;
  facts: HandoffFacts;
}

/**
 * Reads the proof stored with a token and verifies its signature. This first half of a redemption changes nothing.
 * @returns null for a token that the app cannot redeem
 * @throws Response 401 if the app's credentials are invalid
 */
export async function verifyHandoff(
  context: AppLoadContext,
  { client, token }: { client: AppClient; token: string },
): Promise<VerifiedHandoff | null> {
  const keys = await requireAppKeys(context);
  const tokenHash = hashToBytea(token);
  const answer = await callAppFunction(context, {
    name: "cross_app_token_proof",
    args: { ...client.credentials, token_hash: tokenHash },
    schema: z.union([createRefusalSchema("unauthenticated"), appAnswer]),
  });
  if ("refused" in answer) throw await refuseApp(context);
  const { app, proof } = answer;
  if (proof === null) return null;
  const facts = await readProof(proof, { keys: keys.proof, appId: app.id });
  if (facts) return { keys, app, tokenHash, proof, facts };
  logWarning(`a cross-app token of ${app.name} has a proof that is not ours`, { requestId: context.requestId });
  return null;
}

/**
 * Completes a redemption that {@link verifyHandoff} began: uses up the token and opens the app's sessions. Checks the
 * proof against the current policy.
 * @returns null if another call was first, or if the proof no longer holds
 */
export async function openAppSessions(
  context: AppLoadContext,
  { client, handoff }: { client: AppClient; handoff: VerifiedHandoff },
): Promise<HandoffSessions | null> {
  const { keys, tokenHash, proof, facts } = handoff;
  const [appPart, centralPart] = [newOpaqueToken(""), newOpaqueToken("")];
  const answer = await callAppFunction(context, {
    name: "redeem_cross_app_token",
    args: {
      ...client.credentials,
      token_hash: tokenHash,
      proof,
      facts,
      app_hash: hashToBytea(appPart),
      central_hash: hashToBytea(centralPart),
    },
    schema: z.union([
      createRefusalSchema("unauthenticated", "token", "unavailable"),
      z.object({ app: sessionSummary, central: sessionSummary.optional() }),
    ]),
  });
  if ("refused" in answer) {
    if (answer.refused === "unauthenticated") throw await refuseApp(context);
    if (answer.refused === "unavailable") throw appsUnavailable(context);
    return null;
  }
  const signing = { keys: keys.session, issuer: context.env.BASE_URL, app: client.name };
  const [appSession, centralSession] = await Promise.all([
    issueSessionToken(answer.app, { ...signing, jti: appPart }),
    answer.central && issueSessionToken(answer.central, { ...signing, jti: centralPart }),
  ]);
  return { userId: facts.user, sid: answer.app.handoff, appSession, ...(centralSession ? { centralSession } : {}) };
}

/**
 * Returns the person that a token would sign in, for "Continue as …". The app gets name and email only with the
 * `profile` scope. Redeems nothing.
 */
export async function previewHandoff(
  context: AppLoadContext,
  { app, facts }: VerifiedHandoff,
): Promise<HandoffPreview> {
  if (!app.scopes.includes("profile")) return { userId: facts.user, name: null, email: null };
  const profile = await callAppFunction(context, {
    name: "preview_handoff",
    args: { user_id: facts.user },
    schema: z.object({ name: z.string().nullable(), email: z.string().nullable() }),
  });
  return { userId: facts.user, ...profile };
}

const unixSecondsSchema = z.number().int().nonnegative();

/** What a session has proved at the time of the handoff, as returned by private.required_mfa_proof. */
export const handoffFacts = z.object({
  user: z.uuid(),
  target: z.string(),
  targetId: z.uuid(),
  session: z.uuid(),
  factor: z.uuid().nullable(),
  secondFactorAt: unixSecondsSchema.nullable(),
  primaryAt: unixSecondsSchema.nullable(),
  generation: unixSecondsSchema.nullable(),
  validUntil: z.string().nullable(),
  issuedAt: z.string(),
  expiresAt: z.string(),
});

export type HandoffFacts = z.infer<typeof handoffFacts>;

const proofTokenType = "mfa-proof+jwt";

/** Signs a handoff's facts as a proof of required MFA for one user and one target. */
function signProof(facts: HandoffFacts, keys: KeyRing): Promise<string> {
  return signToken(facts, { type: proofTokenType, keys });
}

/**
 * Returns the facts from a handoff proof, or null if we did not sign the proof for this app. Does not check whether the
 * facts still hold.
 */
async function readProof(
  proof: string,
  { keys, appId }: { keys: KeyRing; appId: string },
): Promise<HandoffFacts | null> {
  const facts = handoffFacts.safeParse(await verifyToken(proof, { type: proofTokenType, keys }));
  return facts.success && facts.data.targetId === appId ? facts.data : null;
}
