import { type AppLoadContext, redirect } from "@remix-run/node";
import { z } from "zod";
import { requireAllowedAttempt } from "../apps/app-client.ts";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import { addReturnUrl } from "../http/redirect-target.ts";
import { buildDatabaseClaims } from "../session/approval-proof.ts";
import { demandSignIn, forgetSignInDemand, readSignInDemand } from "../session/sign-in-demand.ts";
import { getUser, requireUser, type User } from "../session/user.ts";
import {
  type AuthorizationError,
  type AuthorizationRequest,
  buildCodeResponseUrl,
  buildErrorResponseUrl,
  storedRequestPath,
} from "./authorization-request.ts";
import { type OpenAuthorization, resumePath } from "./open-authorization.ts";
import { verifyOwnJwt } from "./signing-keys.ts";
import { endStoredRequest, requestHashOf } from "./stored-request.ts";
import { tokenPrefixes } from "./token-response.ts";

/** A request that is ready for its user's decision. */
export interface PendingDecision {
  user: User;
  authorizationRequest: AuthorizationRequest;
  /** A sign-in must be at or after this time, in seconds since 1970; null if any sign-in will do. */
  since: number | null;
  /** The page on which the person decides; null if there is nothing to ask. */
  page: string | null;
}

/**
 * Checks what the request and the person's account require before the person can decide.
 * @returns the URL of the answer if there is nothing to decide
 * @throws Response a redirect to sign-in, the second step, the step-up or the accounts page, if one of them is required
 * first. The page then leads back to this request.
 */
export async function prepareDecision(
  context: AppLoadContext,
  { request, authorization }: { request: Request; authorization: OpenAuthorization },
): Promise<PendingDecision | { location: string }> {
  const { session, authorizationRequest, scopes } = authorization;
  const answer = async (error: AuthorizationError) => ({
    location: await refuseAuthorization(context, { authorization, error }),
  });
  if ("error" in authorizationRequest) return answer(authorizationRequest);
  if (scopes.length === 0) {
    return answer({ error: "invalid_scope", description: "The client is not registered for any of these scopes" });
  }
  const hint =
    authorizationRequest.idTokenHint === null
      ? null
      : await verifyOwnJwt(context, authorizationRequest.idTokenHint, { typ: "JWT" });
  if (authorizationRequest.idTokenHint !== null && !hint) {
    return answer({ error: "invalid_request", description: "id_token_hint is not an ID token of this issuer" });
  }
  const subjects = [hint?.sub, authorizationRequest.claims.subject].filter((subject) => typeof subject === "string");
  const current = await getUser(context);
  const isOtherAccount = Boolean(current) && subjects.some((subject) => subject !== current?.id);
  const demand = getSignInDemand(context, { authorizationRequest, authorization });
  if (authorizationRequest.prompt.has("none")) {
    if (!current || isOtherAccount || demand.isOpen) return answer(loginRequired);
    if (!current.mfa.satisfied || current.mustReplacePassword || !session) return answer(interactionRequired);
    if (session.acr === null) return answer(unmetRequirements);
    if (!session.consented) return answer(consentRequired);
  }
  const needsConsent =
    authorizationRequest.prompt.has("consent") ||
    authorizationRequest.prompt.has("select_account") ||
    !session?.consented;
  const isReady = current?.mfa.satisfied && !current.mustReplacePassword && !isOtherAccount && !demand.isOpen;
  if (isReady && session?.acr === null) return answer(unmetRequirements);
  if (isReady && !needsConsent) return { user: current, authorizationRequest, since: demand.since, page: null };
  const page = await resumePath(context, { authorization });
  if (demand.isNew) demandSignIn(context, { page, since: demand.since });
  const pageRequest = new Request(new URL(page, context.origin), { headers: request.headers });
  const user = await requireUser(context, pageRequest);
  if (isOtherAccount) {
    const isSignedInHere = subjects.every((subject) => context.session.accounts.some(({ id }) => id === subject));
    if (!isSignedInHere) return answer(loginRequired);
    throw redirect(addReturnUrl("/accounts", page), 303);
  }
  if (demand.isOpen) throw redirect(addReturnUrl("/step-up", page), 303);
  return { user, authorizationRequest, since: demand.since, page };
}

type SignInDemand =
  /**
   * `isOpen`: the person has not signed in at or after `since`. `isNew`: this browser has no record yet that a sign-in
   * is required.
   */
  { since: number; isOpen: boolean; isNew: boolean } | { since: number | null; isOpen: false; isNew: false };

/**
 * Returns whether `prompt=login` and `max_age` require a new sign-in, and the earliest time at which a sign-in counts.
 */
function getSignInDemand(
  context: AppLoadContext,
  {
    authorizationRequest,
    authorization,
  }: { authorizationRequest: AuthorizationRequest; authorization: OpenAuthorization },
): SignInDemand {
  const { session, target, requestUri } = authorization;
  const now = Math.floor(Date.now() / 1_000);
  const authTime = session?.authTime ?? null;
  const earliest = authorizationRequest.maxAge === null ? null : now - authorizationRequest.maxAge;
  const isTooOld = earliest !== null && (authTime === null || authTime < earliest);
  if (!authorizationRequest.prompt.has("login") && !isTooOld) return { since: earliest, isOpen: false, isNew: false };
  // A request that is not stored yet has been on no page, so nothing was required for it.
  const recordedSince =
    authorizationRequest.prompt.has("none") || requestUri === null
      ? null
      : readSignInDemand(context, storedRequestPath({ clientId: target.clientId, requestUri }, { resumed: true }));
  const since = recordedSince ?? Math.max(now, (authTime ?? 0) + 1);
  return { since, isOpen: authTime === null || authTime < since, isNew: recordedSince === null };
}

const loginRequired: AuthorizationError = { error: "login_required", description: "The person has to sign in" };
const interactionRequired: AuthorizationError = {
  error: "interaction_required",
  description: "The person’s account demands another step",
};
const consentRequired: AuthorizationError = { error: "consent_required", description: "The person has to consent" };
/** OpenID Connect Core Error Code unmet_authentication_requirements 1.0 section 3. */
const unmetRequirements: AuthorizationError = {
  error: "unmet_authentication_requirements",
  description: "The person’s account can’t meet the essential acr",
};

/** Returns the URL that answers a request with an error. Ends the request if it is stored. */
export async function refuseAuthorization(
  context: AppLoadContext,
  { authorization, error }: { authorization: OpenAuthorization; error: AuthorizationError },
): Promise<string> {
  const { target, requestUri } = authorization;
  if (requestUri !== null) await endStoredRequest(context, requestUri);
  return buildErrorResponseUrl(target, { error, issuer: context.env.BASE_URL });
}

/** Returns the URL that tells the client that the person cancelled. */
export function denyAuthorization(context: AppLoadContext, authorization: OpenAuthorization): Promise<string> {
  return refuseAuthorization(context, {
    authorization,
    error: { error: "access_denied", description: "The person cancelled" },
  });
}

/**
 * Issues an authorization code. The database checks the request again first.
 * @param options.consents whether the person has just agreed. If false, they must have agreed before.
 * @returns the URL that delivers the code to the client
 * @throws Response a redirect to the request's page if the database no longer accepts the request
 * @throws Response 429 RATE_LIMITED; 503 AUTH_UNAVAILABLE
 */
export async function issueCode(
  context: AppLoadContext,
  {
    authorization,
    decision,
    consents,
  }: { authorization: OpenAuthorization; decision: PendingDecision; consents: boolean },
): Promise<string> {
  const { target, scopes, requestUri } = authorization;
  const { authorizationRequest, since, user } = decision;
  const { auth } = context.session;
  if (auth.status !== "authenticated") throw redirect(await resumePath(context, { authorization }), 303);
  await requireAllowedAttempt(context, { action: "handoff", userId: user.id });
  const code = newOpaqueToken(tokenPrefixes.code);
  const answer = await callAppFunction(context, {
    name: "issue_authorization_code",
    args: {
      claims: buildDatabaseClaims(context, auth.claims),
      client_id: target.clientId,
      redirect_uri: target.redirectUri,
      scopes,
      nonce: authorizationRequest.nonce,
      code_challenge: authorizationRequest.codeChallenge,
      code_hash: hashToBytea(code),
      consents,
      authenticated_since: since,
      essential_acr: authorizationRequest.claims.essentialAcr,
      id_token_claims: authorizationRequest.claims.idToken,
      userinfo_claims: authorizationRequest.claims.userinfo,
      request_hash: requestUri && requestHashOf(requestUri),
      resource: authorizationRequest.resource,
    },
    schema: z.union([
      createRefusalSchema(
        "client",
        "unauthenticated",
        "mfa_required",
        "unavailable",
        "login_required",
        "acr",
        "consent_required",
        "scope",
        "request",
      ),
      z.object({ scopes: z.array(z.string()) }),
    ]),
  });
  if ("refused" in answer) {
    if (answer.refused === "unavailable") throw appsUnavailable(context);
    if (answer.refused === "acr") return refuseAuthorization(context, { authorization, error: unmetRequirements });
    throw redirect(await resumePath(context, { authorization }), 303);
  }
  if (decision.page !== null && readSignInDemand(context, decision.page) !== null) forgetSignInDemand(context);
  return buildCodeResponseUrl(target, { code, issuer: context.env.BASE_URL });
}
