import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import type { Env } from "../config/env.server.ts";
import { problem } from "../http/problem.ts";
import { buildDatabaseClaims } from "../session/approval-proof.ts";
import {
  beginChallenge,
  type ChallengeKey,
  createRefusalResponse,
  isChallengeId,
  type NewChallenge,
  reportFailedCall,
  secretHashOf,
} from "../session/challenge.ts";
import type { StoredSession } from "../session/cookies.ts";
import { mintSession } from "../session/mint-session.ts";
import { discardSession } from "../session/request-session.ts";
import type { User } from "../session/user.ts";
import { callFunction, createServiceClient } from "../supabase/data-api.ts";

const noEmailMessage = "This account has no email, so a phone can’t sign it in to a browser.";

/**
 * Asks the account's phones to approve a fresh session for a browser that is already signed in.
 * @throws Response 409 CONFLICT if the account has no email, which is required to mint a session; 429, 503
 */
export async function beginHandoff(context: AppLoadContext, user: User): Promise<NewChallenge> {
  if (user.email !== "") return beginChallenge(context, { kind: "qr", user });
  throw problem("CONFLICT", { requestId: context.requestId, detail: noEmailMessage });
}

/** The page that opens if a browser, rather than the app, follows the link. */
const linkPath = "/qr/open";

/**
 * Returns the text of the QR code: a link with the secret in its fragment, which browsers never send. Its origin is
 * always the platform's own, because apps refuse every other origin.
 */
export function challengeLink({ id, secret }: ChallengeKey, { env }: { env: Pick<Env, "BASE_URL"> }): string {
  return `${env.BASE_URL}${linkPath}#${id}.${secret}`;
}

const decisionOutcomeSchema = z.enum([
  "approved",
  "rejected",
  "not_found",
  "forbidden",
  "mfa_required",
  "expired",
  "conflict",
]);

export interface ChallengeDecision {
  key: ChallengeKey;
  approve: boolean;
  /** Claims of the phone's session. */
  claims: Claims;
  /** The phone's description of itself, shown to the account's owner. */
  device?: object;
}

/**
 * Records a phone's answer to a QR challenge. Only the first answer counts.
 * @throws Response 403, 404, 409, 410 as described in docs/mobile.md, 503 UNAVAILABLE
 */
export async function decideChallenge(
  context: AppLoadContext,
  { key, approve, claims, device = {} }: ChallengeDecision,
): Promise<"approved" | "rejected"> {
  if (!isChallengeId(key.id)) throw createRefusalResponse("not_found", context);
  const decision = {
    id: key.id,
    secretHash: secretHashOf(key.secret),
    claims: buildDatabaseClaims(context, claims),
    approve,
    device,
  };
  const call = { name: "private.decide_qr_challenge", args: { decision }, schema: decisionOutcomeSchema } as const;
  const answer = await callFunction(context, call);
  if (answer === "approved" || answer === "rejected") return answer;
  throw createRefusalResponse(answer, context);
}

const challengeStatusSchema = z.enum(["created", "approved", "consumed", "rejected", "expired"]);
const claimAnswer = z.enum(["claimed", "mfa_required", "not_found", ...challengeStatusSchema.options]);
const completionAnswer = z.enum(["consumed", "rejected", "expired"]);

/**
 * The result of a poll by the requesting session. The poll that consumes the challenge gets the fresh session. All
 * other polls get only a status.
 */
export type ConsumptionResult =
  | { status: "consumed"; session: StoredSession }
  | { status: z.infer<typeof challengeStatusSchema>; session: null };

/**
 * Consumes an approved challenge and returns a new session for the caller to put into the browser. Only one of several
 * concurrent callers succeeds. The session has the approver's sign-in time. Checks before and after minting that the
 * session that created the challenge and the session that approved it satisfy the account's policy. If minting fails,
 * the next poll can consume the challenge. If it is unknown whether minting succeeded, the challenge cannot be used
 * again.
 * @param options.claims of the requesting session, which is active
 * @throws Response 403 MFA_REQUIRED, 404, 409 CONFLICT for an account without an email, 503
 */
export async function consumeChallenge(
  context: AppLoadContext,
  { key, claims }: { key: ChallengeKey; claims: Claims },
): Promise<ConsumptionResult> {
  const { env, requestId } = context;
  const database = createServiceClient(env).schema("private");
  const claim = { id: key.id, secretHash: secretHashOf(key.secret), claims: buildDatabaseClaims(context, claims) };
  const args = { claim };
  const outcome = await callFunction(context, { name: "private.claim_qr_challenge", args, schema: claimAnswer });
  if (outcome === "mfa_required" || outcome === "not_found") throw createRefusalResponse(outcome, context);
  if (outcome !== "claimed") return { status: outcome, session: null };

  const minted = await mintSession(context, { userId: claims.sub });
  if (minted.status !== "minted") {
    if (minted.status === "unknown") throw problem("AUTH_UNAVAILABLE", { requestId });
    await database.rpc("release_qr_challenge", { challenge_id: key.id });
    if (minted.status === "busy") return { status: "approved", session: null };
    throw createMintProblem(minted.status, requestId);
  }

  const completion = {
    id: key.id,
    claims: buildDatabaseClaims(context, claims),
    mintedSessionId: minted.claims.session_id,
  };
  const { data: answer, error: failed } = await database.rpc("complete_qr_challenge", { completion });
  const end = completionAnswer.safeParse(answer);
  if (failed || !end.success || end.data !== "consumed") {
    await discardSession(context, minted.session);
    if (failed || !end.success) throw reportFailedCall(context, { call: "complete_qr_challenge", error: failed });
    return { status: end.data, session: null };
  }
  return { status: "consumed", session: await renewMintedSession(context, minted.session) };
}

/**
 * Refreshes the minted session, so that its token carries the approver's sign-in time. The first token carries the time
 * of minting and is discarded.
 */
async function renewMintedSession(context: AppLoadContext, minted: StoredSession): Promise<StoredSession> {
  // Does not use the backend's own client, which retries for half a minute.
  const renewed = await context.session.refresh(minted.refresh_token);
  if (renewed.status === "refreshed") return renewed.session;
  await discardSession(context, minted);
  throw problem("AUTH_UNAVAILABLE", { requestId: context.requestId });
}

function createMintProblem(status: "no_email" | "no_account" | "refused" | "unavailable", requestId: string): Response {
  if (status === "unavailable") return problem("AUTH_UNAVAILABLE", { requestId });
  const detail = status === "no_email" ? noEmailMessage : "We can’t create a session for this account right now.";
  return problem("CONFLICT", { requestId, detail });
}
