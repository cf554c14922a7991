import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError, logWarning } from "#shared/log.ts";
import { guardAttempt } from "../abuse/attempts.ts";
import { recordEvent } from "../activity/record-event.ts";
import type { StoredSession } from "../session/cookies.ts";
import { startEvenTiming } from "../session/even-answers.ts";
import { mintSession } from "../session/mint-session.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { codeHash, tokenHash } from "./credential.ts";
import { invalidLinkMessage } from "./invalid-link.ts";
import { createRecoveredAccount, liftBlocks } from "./login-override.ts";
import { recoveryBrowserHash } from "./recovery-browser.ts";

/** The credential that proves a recovery. */
export type Proof = { token: string } | { email: string; code: string };

/** The result of a recovery. A failure has a message and a status. */
export type AccountRecovery =
  | {
      outcome: "recovered";
      /** A new session at AAL1, for `completeSignIn`. */
      session: StoredSession;
      /** Whether the account existed before the recovery. */
      accountExisted: boolean;
      passwordReplaced: boolean;
    }
  | { outcome: "failed"; status: 400 | 403 | 410 | 429 | 503; message: string };

const consumedSchema = z.object({
  outcome: z.literal("consumed"),
  credentialId: z.uuid(),
  overrideId: z.uuid(),
  email: z.string(),
  userId: z.uuid().nullable(),
  banned: z.boolean(),
  confirmed: z.boolean(),
  /** Whether an earlier use of the credential already replaced the password. */
  replacedPassword: z.boolean(),
  waitMs: z.number(),
});
const answer = z.discriminatedUnion("outcome", [consumedSchema, z.object({ outcome: z.literal("rejected") })]);

/**
 * Starts a session for a person with the credential from a recovery email. Consuming the credential ends every other
 * session, app session and app token of the account. A ban is lifted, an unconfirmed email is confirmed, and a missing
 * account is created. If the response is lost, the same browser can use the credential again. Errors do not reveal
 * whether the email, the link or the code was wrong, used or expired.
 */
export async function recoverAccount(context: AppLoadContext, proof: Proof): Promise<AccountRecovery> {
  const byLink = "token" in proof;
  const waitForDueTime = startEvenTiming();
  // Attempts with a link are not limited per email, because links are too long to guess.
  const attempt = await guardAttempt(context, { action: "code", ...(byLink ? {} : { email: proof.email }) });
  if (!attempt.admitted) return failWith(attempt.status, attempt.message);
  const result = await consumeCredential(context, proof);
  await attempt.settle(result === null ? "void" : result.outcome === "consumed" ? "succeeded" : "failed");
  if (result === null) return failWith(503, unavailableMessage);
  if (result.outcome === "rejected") {
    await waitForDueTime();
    return byLink ? failWith(410, invalidLinkMessage) : failWith(400, wrongCodeMessage);
  }
  return signInRecovered(context, result, byLink ? "link" : "code");
}

async function consumeCredential(context: AppLoadContext, proof: Proof): Promise<z.infer<typeof answer> | null> {
  const { env, clientAddress, userAgent, requestId } = context;
  const database = createServiceClient(env).schema("private");
  const browserHash = recoveryBrowserHash(context);
  const about = { ip: clientAddress, userAgent, requestId, browserHash: browserHash?.slice(2) ?? null };
  let request: Record<string, string | null>;
  if ("token" in proof) request = { ...about, tokenHash: tokenHash(env, proof.token) };
  else {
    const { email, code } = proof;
    const { data: salt, error } = await database.rpc("recovery_code_salt", {
      of_email: email,
      browser_hash: browserHash,
    });
    if (error || typeof salt !== "string") return null;
    request = { ...about, email, codeHash: codeHash(env, { code, salt }) };
  }
  const { data, error } = await database.rpc("consume_recovery_credential", { request });
  const parsed = answer.safeParse(data);
  if (!error && parsed.success) return parsed.data;
  logError(`a recovery cannot be used: ${error?.code ?? "answer"}`, { requestId });
  return null;
}

async function signInRecovered(
  context: AppLoadContext,
  {
    credentialId,
    overrideId,
    email,
    banned,
    confirmed,
    replacedPassword,
    waitMs,
    ...consumption
  }: z.infer<typeof consumedSchema>,
  method: "link" | "code",
): Promise<AccountRecovery> {
  const userId = consumption.userId ?? (await createRecoveredAccount(context, { email, overrideId }));
  const account = { email, overrideId, banned, confirmed, proof: "mailbox" } as const;
  const open = !consumption.userId || (await liftBlocks(context, { ...account, userId: consumption.userId }));
  // Waits, because the account's MFA policy rejects a session that is created before `waitMs` has passed.
  await new Promise((resolve) => setTimeout(resolve, waitMs));
  const minted = userId && open ? await mintSession(context, { userId }) : null;
  if (minted?.status === "minted") {
    const sessionId = minted.claims.session_id;
    await recordEvent(context, { userId: minted.claims.sub, kind: "account_recovered", method, sessionId });
    const accountExisted = consumption.userId !== null;
    const passwordReplaced = replacedPassword || (accountExisted && !confirmed);
    await allowRepeat(context, { credentialId, sessionId, passwordReplaced });
    return { outcome: "recovered", session: minted.session, accountExisted, passwordReplaced };
  }
  if (minted?.status !== "unknown") {
    const { error } = await createServiceClient(context.env)
      .schema("private")
      .rpc("release_recovery_credential", { credential_id: credentialId });
    if (!error) return failWith(503, unavailableMessage);
  }
  logError("a recovery was used and no session came of it", { requestId: context.requestId });
  return failWith(503, credentialUsedMessage);
}

/** Lets this browser use the credential again until it has received the response. */
async function allowRepeat(
  context: AppLoadContext,
  { credentialId, sessionId, passwordReplaced }: { credentialId: string; sessionId: string; passwordReplaced: boolean },
): Promise<void> {
  const browserHash = recoveryBrowserHash(context);
  if (browserHash === null) return;
  const { error } = await createServiceClient(context.env).schema("private").rpc("allow_recovery_repeat", {
    credential_id: credentialId,
    browser_hash: browserHash,
    session_id: sessionId,
    replaced_password: passwordReplaced,
  });
  if (error) logWarning(`a recovery cannot be repeated: ${error.code}`, { requestId: context.requestId });
}

const wrongCodeMessage =
  "That email and code don’t match. Check both. Codes expire after 15 minutes. After several wrong codes, only the link in the email we sent you works.";
const unavailableMessage = "We couldn’t sign you in right now. Your link and code still work. Try again in a moment.";
const credentialUsedMessage =
  "We couldn’t sign you in, and your link may no longer work. Ask your administrator for a new email.";

function failWith(status: 400 | 403 | 410 | 429 | 503, message: string): AccountRecovery {
  return { outcome: "failed", status, message };
}
