import type { AppLoadContext } from "@remix-run/node";
import { recordEvent } from "../activity/record-event.ts";
import { findProvider, type OAuthProviderName, providerLabel, tenantIssuer } from "../config/oauth-providers.ts";
import { completeSignIn } from "../session/complete-sign-in.ts";
import { readSignUp } from "../session/sign-up.ts";
import { getUser, type User } from "../session/user.ts";
import { completeAttempt, inspectAttempt } from "./attempts.ts";
import { exchangeCode } from "./backend.ts";
import { isRefusedAccount, type OAuthFailure, parseBackendFailure } from "./failures.ts";
import { decideVisit } from "./judge-oauth.ts";
import { clearStateCookie, type OAuthState, openState, readState, type StateValues } from "./state.ts";

/** The result of a visit to a provider. */
export type OAuthOutcome =
  /**
   * The visit to the provider did not start in this browser, or has already ended or expired. The returned code is not
   * used.
   */
  | { status: "foreign" }
  /** Another user is signed in to this browser. They must agree before the new account replaces theirs. */
  | { status: "ask"; payload: OAuthState; email: string | null; visitor: User }
  | { status: "signed_in"; response: Response }
  | { status: "linked"; payload: Extract<OAuthState, { purpose: "link" }> }
  | { status: "failed"; payload: OAuthState; failure: OAuthFailure; visitor: User | null };

export interface OAuthReturn {
  /** The query with which the identity backend sent the browser back. */
  query: URLSearchParams;
  /** Whether the signed-in user has agreed that another account replaces theirs. */
  agreed: boolean;
}

/**
 * Completes a visit to a provider. Checks the state, the attempt and the flow before using the code.
 * @throws Response 503 AUTH_UNAVAILABLE if these checks could not be completed; the request can be retried
 */
export async function endOAuth(context: AppLoadContext, { query, agreed }: OAuthReturn): Promise<OAuthOutcome> {
  const start = await readState(context, query.get("state"));
  if (!start) return { status: "foreign" };
  return endVisit(context, { ...start, query, agreed, visitor: await getUser(context) });
}

/**
 * Ends a link that a phone started. Works like endOAuth, but takes the state from the app instead of from a cookie.
 * @returns why the link failed, or null if it succeeded
 * @throws Response like endOAuth
 */
export async function endPhoneLink(
  context: AppLoadContext,
  { user, provider, state, code }: { user: User; provider: OAuthProviderName; state: string; code: string },
): Promise<OAuthFailure | null> {
  const start = await openState(context.env, state);
  if (start?.payload.purpose !== "link" || start.payload.provider !== provider) return "expired";
  const query = new URLSearchParams({ code });
  const outcome = await endVisit(context, { ...start, query, agreed: false, visitor: user });
  if (outcome.status === "linked") return null;
  return outcome.status === "failed" ? outcome.failure : "failed";
}

interface Visit extends OAuthReturn {
  values: StateValues;
  payload: OAuthState;
  visitor: User | null;
}

async function endVisit(
  context: AppLoadContext,
  { values, payload, query, agreed, visitor }: Visit,
): Promise<OAuthOutcome> {
  const fail = (failure: OAuthFailure): OAuthOutcome => ({ status: "failed", payload, failure, visitor });
  const code = query.get("code");
  if (!code || !findProvider(context.env, payload.provider)) {
    await completeVisit(context, { values, code, verdict: "refuse" });
    return fail((await isUninvited(context, query)) ? "uninvited" : parseBackendFailure(query));
  }
  const flow = await inspectAttempt(context, { values, code });
  const judgement = decideVisit({
    payload,
    flow,
    visitor,
    agreed,
    tenantIssuer: payload.provider === "azure" ? await tenantIssuer(context.env) : null,
  });
  if (judgement.verdict === "ask" && visitor) return { status: "ask", payload, email: judgement.email, visitor };
  const verdict = judgement.verdict === "ask" ? "refuse" : judgement.verdict;
  const isSettled = await completeVisit(context, { values, code, verdict });
  if (judgement.verdict === "refuse") return fail(judgement.failure);
  if (!isSettled) return fail("expired");
  if (payload.purpose !== "link") return finishSignIn(context, { values, payload, code, fail });
  // Linking doesn't exchange the code for a session, so the user keeps the current session.
  const details = {
    provider: providerLabel(payload.provider),
    ...(flow?.identity.email ? { email: flow.identity.email } : {}),
  };
  await recordEvent(context, { userId: payload.userId, kind: "identity_linked", details });
  return { status: "linked", payload };
}

/** Returns whether the visitor has no account, and may not create one because sign-up is by invitation. */
async function isUninvited(context: AppLoadContext, query: URLSearchParams): Promise<boolean> {
  return isRefusedAccount(query) && !(await readSignUp(context)).open;
}

/** Ends the attempt in the database, and clears its state in the browser. */
async function completeVisit(
  context: AppLoadContext,
  options: Parameters<typeof completeAttempt>[1],
): Promise<boolean> {
  const isSettled = await completeAttempt(context, options);
  clearStateCookie(context);
  return isSettled;
}

interface SignInVisit {
  values: StateValues;
  payload: OAuthState;
  code: string;
  fail: (failure: OAuthFailure) => OAuthOutcome;
}

async function finishSignIn(
  context: AppLoadContext,
  { values, payload, code, fail }: SignInVisit,
): Promise<OAuthOutcome> {
  const answer = await exchangeCode(context, { code, verifier: values.verifier });
  if (answer.status === "unavailable") return fail("unavailable");
  if (answer.status === "refused") return fail(parseBackendFailure(new URLSearchParams({ error_code: answer.code })));
  const response = await completeSignIn(context, {
    session: answer.session,
    method: `oauth:${payload.provider}`,
    destination: payload.returnTo,
  });
  return { status: "signed_in", response };
}
