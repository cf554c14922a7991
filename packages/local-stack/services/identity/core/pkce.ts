import { createHash, timingSafeEqual } from "node:crypto";
import { one, type Sql } from "../db.ts";
import type { Deps } from "./deps.ts";
import { AuthError, invalid } from "./errors.ts";
import type { AuthMethod } from "./sessions.ts";

/** The format of a code challenge (RFC 7636 section 4.2). */
const challengeForm = /^[A-Za-z0-9._~-]{43,128}$/;

export type Challenge = { challenge: string; method: "s256" | "plain" };

export type FlowState = {
  id: string;
  user_id: string | null;
  auth_code: string | null;
  code_challenge_method: Challenge["method"] | null;
  code_challenge: string | null;
  provider_type: string;
  provider_access_token: string | null;
  provider_refresh_token: string | null;
  created_at: Date;
  authentication_method: AuthMethod;
  auth_code_issued_at: Date | null;
  referrer: string | null;
  invite_token: string | null;
  oauth_client_state_id: string | null;
  linking_target_id: string | null;
  email_optional: boolean;
};

/**
 * Parses the two PKCE parameters.
 * @returns undefined if both are missing
 * @throws AuthError 400 validation_failed
 */
export function parseChallenge(challenge: string, method: string): Challenge | undefined {
  if (!challenge !== !method) throw invalid("PKCE flow requires code_challenge_method and code_challenge");
  if (!challenge) return undefined;
  if (challenge.length < 43 || challenge.length > 128) {
    throw invalid("code challenge has to be between 43 and 128 characters");
  }
  if (!challengeForm.test(challenge)) {
    throw invalid("code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes");
  }
  const lowered = method.toLowerCase();
  if (lowered !== "s256" && lowered !== "plain") throw invalid("Invalid code_challenge_method");
  return { challenge, method: lowered };
}

export type NewFlow = {
  providerType: string;
  method: AuthMethod;
  challenge?: Challenge | undefined;
  userId?: string;
  referrer?: string;
  inviteToken?: string;
  clientStateId?: string;
  linkingTargetId?: string;
  emailOptional?: boolean;
};

/** Records a flow that a client has started. If the flow has a PKCE challenge, also creates its authorization code. */
export async function insertFlow(sql: Sql, deps: Deps, flow: NewFlow): Promise<string> {
  const id = deps.random.uuid();
  await sql.query(
    `insert into auth.flow_state (id, user_id, auth_code, code_challenge_method, code_challenge, provider_type,
       provider_access_token, provider_refresh_token, created_at, updated_at, authentication_method, referrer,
       oauth_client_state_id, linking_target_id, email_optional, invite_token)
     values ($1, $2, $3, $4, $5, $6, '', '', $7, $7, $8, $9, $10, $11, $12, $13)`,
    [
      id,
      flow.userId ?? null,
      flow.challenge ? deps.random.uuid() : null,
      flow.challenge?.method ?? null,
      flow.challenge?.challenge ?? null,
      flow.providerType,
      deps.clock(),
      flow.method,
      flow.referrer ?? null,
      flow.clientStateId ?? null,
      flow.linkingTargetId ?? null,
      flow.emailOptional ?? false,
      flow.inviteToken ?? null,
    ],
  );
  return id;
}

/**
 * Returns whether a flow has expired. A flow's lifetime begins when the flow starts, or for a magic link when the link
 * is clicked.
 */
export function isFlowExpired(flow: FlowState, { clock, config }: Deps): boolean {
  const start =
    flow.authentication_method === "magiclink" ? (flow.auth_code_issued_at ?? flow.created_at) : flow.created_at;
  return clock().getTime() > start.getTime() + config.GOTRUE_EXTERNAL_FLOW_STATE_EXPIRY_DURATION;
}

/**
 * Returns the authorization code of the user's latest PKCE flow with this sign-in method, and records the time of
 * issue.
 * @throws AuthError 400 flow_state_not_found
 */
export async function issueAuthCode(
  sql: Sql,
  { deps, userId, method }: { deps: Deps; userId: string; method: AuthMethod },
): Promise<string> {
  const flow = await one<FlowState>(
    sql,
    `select * from auth.flow_state where user_id = $1 and authentication_method = $2
     order by created_at desc, id desc limit 1`,
    [userId, method],
  );
  if (!flow?.auth_code) {
    throw new AuthError(
      400,
      "flow_state_not_found",
      "No associated flow state found. No valid flow state found for user.",
    );
  }
  await sql.query("update auth.flow_state set auth_code_issued_at = $2, updated_at = $2 where id = $1", [
    flow.id,
    deps.clock(),
  ]);
  return flow.auth_code;
}

/** @throws AuthError 400 bad_code_verifier unless the verifier matches the flow's challenge, RFC 7636 section 4.6 */
export function requireVerifier(flow: FlowState, verifier: string): void {
  const derived =
    flow.code_challenge_method === "plain" ? verifier : createHash("sha256").update(verifier).digest("base64url");
  const [expected, actual] = [Buffer.from(flow.code_challenge ?? ""), Buffer.from(derived)];
  if (expected.length === 0 || expected.length !== actual.length || !timingSafeEqual(expected, actual)) {
    throw new AuthError(400, "bad_code_verifier", "code challenge does not match previously saved code verifier");
  }
}
