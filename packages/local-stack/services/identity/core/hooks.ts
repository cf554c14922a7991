import { one, transaction } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { AuthError, unexpected } from "./errors.ts";
import { endSessions } from "./sessions.ts";

const hookTimeoutMs = 2_000;

type Answer = {
  decision?: string;
  message?: string;
  should_logout_user?: boolean;
  error?: { http_code?: number; message?: string };
};

/**
 * Calls the Postgres function that a `pg-functions://postgres/<schema>/<function>` URL names, with one jsonb argument.
 * @throws AuthError with the function's own status and message if it returns an error
 */
async function callHook(
  deps: Deps,
  { uri, name, payload, caller }: { uri: string; name: string; payload: object; caller: Caller },
): Promise<Answer> {
  const [, schema, routine] = /^pg-functions:\/\/[^/]*\/([A-Za-z_]\w{0,62})\/([A-Za-z_]\w{0,62})$/.exec(uri) ?? [];
  if (!schema || !routine) throw unexpected(`Hook ${name} has no pg-functions address`);
  const metadata = {
    uuid: deps.random.uuid(),
    time: deps.clock(),
    name,
    ...(caller.ip ? { ip_address: caller.ip } : {}),
  };
  const row = await transaction(deps.db, async (tx) => {
    await tx.query(`set local statement_timeout = ${hookTimeoutMs}`);
    return one<{ answer: Answer | null }>(tx, `select "${schema}"."${routine}"($1::jsonb) as answer`, [
      JSON.stringify({ metadata, ...payload }),
    ]);
  }).catch((error: unknown) => {
    throw unexpected(`Error running hook ${name}`, error);
  });
  const answer = row?.answer ?? {};
  if (answer.error?.message) {
    const status = answer.error.http_code || 500;
    throw new AuthError(status, status === 500 ? "unexpected_failure" : "unknown", answer.error.message);
  }
  return answer;
}

/**
 * Reports a password attempt to the configured function.
 * @throws AuthError 400 invalid_credentials if the function rejects the attempt
 */
export async function passwordHook(
  deps: Deps,
  { userId, valid, caller }: { userId: string; valid: boolean; caller: Caller },
): Promise<void> {
  const { config } = deps;
  if (!config.GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_ENABLED) return;
  const answer = await callHook(deps, {
    uri: config.GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_URI,
    name: "password-verification",
    payload: { user_id: userId, valid },
    caller,
  });
  if (answer.decision !== "reject") return;
  if (answer.should_logout_user) await endSessions(deps.db, { userId });
  throw new AuthError(
    400,
    "invalid_credentials",
    answer.message || "Further password verification attempts will be rejected.",
  );
}

/**
 * Reports a second-factor attempt to the configured function. A rejection ends all of the user's sessions.
 * @throws AuthError 403 mfa_verification_rejected
 */
export async function mfaHook(
  deps: Deps,
  attempt: { userId: string; factorId: string; factorType: string; valid: boolean; caller: Caller },
): Promise<void> {
  const { config } = deps;
  if (!config.GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_ENABLED) return;
  const answer = await callHook(deps, {
    uri: config.GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_URI,
    name: "mfa-verification",
    payload: {
      user_id: attempt.userId,
      factor_id: attempt.factorId,
      factor_type: attempt.factorType,
      valid: attempt.valid,
    },
    caller: attempt.caller,
  });
  if (answer.decision !== "reject") return;
  await endSessions(deps.db, { userId: attempt.userId });
  throw new AuthError(
    403,
    "mfa_verification_rejected",
    answer.message || "Further MFA verification attempts will be rejected.",
  );
}
