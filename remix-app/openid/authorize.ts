import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { detour } from "../http/redirect-target.ts";
import { requireAllowance } from "../satellites/app-client.ts";
import { appsUnavailable, callAppFunction, refusalOf } from "../satellites/app-database.ts";
import { hashOf, newOpaqueToken } from "../satellites/tokens.ts";
import { claimsFor } from "../session/approval-proof.ts";
import { demandedSince, demandSignIn, forgetSignInDemand } from "../session/sign-in-demand.ts";
import { getUser, requireUser, type User } from "../session/user.ts";
import {
  type AnswerTarget,
  type AuthorizationError,
  type AuthorizationRequest,
  authorizationPath,
  codeAddress,
  errorAddress,
  readAnswerTarget,
  readAuthorizationRequest,
} from "./authorization-request.ts";
import { type DocumentFault, isDocumentUrl, saveClientDocument } from "./client-document.ts";
import { verifyOwnJwt } from "./signing-keys.ts";
import { tokenPrefixes } from "./token-response.ts";

/** Maximum length of a path that people can return to (redirectTarget). */
const maxPathLength = 2_048;

const openedAuthorization = z
  .object({
    client: z.object({
      name: z.string(),
      displayName: z.string(),
      enabled: z.boolean(),
      registration: z.enum(["operator", "document", "dynamic"]),
      isStale: z.boolean(),
    }),
    resource: z.object({ displayName: z.string(), url: z.string() }).nullable(),
    redirectAllowed: z.boolean(),
    scopes: z.array(z.string()),
    session: z.object({ authTime: z.number().int().nullable(), consented: z.boolean() }).nullable(),
  })
  .nullable();

/** A request whose client has registered its redirect URI. */
export interface OpenAuthorization {
  target: AnswerTarget;
  /** The path that leads back to this request. */
  page: string;
  displayName: string;
  /** How the client was registered. Only an operator's clients are known to be what their name says. */
  registration: "operator" | "document" | "dynamic";
  /** The app that the tokens are for; null if they are for the platform. */
  resource: { displayName: string; url: string } | null;
  /** The requested scopes that the client is registered for. */
  scopes: string[];
  /** Null if no code could be issued to the session. */
  session: { authTime: number | null; consented: boolean } | null;
  asked: AuthorizationRequest | AuthorizationError;
}

/** The reasons to show an error page instead of redirecting to the client. */
export type AuthorizationFault = "unreadable" | "unknown_client" | "client_disabled" | "redirect_uri" | DocumentFault;

/**
 * Reads an authorization request and looks up its client. Checks first that the client has registered the redirect URI,
 * so that nothing is sent to an unknown address.
 * @throws Response 403 FORBIDDEN for a caller with a bearer token; 503 AUTH_UNAVAILABLE
 */
export async function openAuthorization(
  context: AppLoadContext,
  request: Request,
): Promise<OpenAuthorization | { fault: AuthorizationFault; displayName?: string }> {
  const { auth } = context.session;
  if (request.headers.has("authorization")) {
    throw problem("FORBIDDEN", { requestId: context.requestId, detail: "Open this page in a browser." });
  }
  const { searchParams } = new URL(request.url);
  const target = readAnswerTarget(searchParams);
  if (!target) return { fault: "unreadable" };
  const page = authorizationPath(searchParams, { resumed: true });
  const asked: AuthorizationRequest | AuthorizationError =
    page.length > maxPathLength
      ? { error: "invalid_request", description: "The authorization request is too long" }
      : readAuthorizationRequest(searchParams);
  const open = () =>
    callAppFunction(context, {
      name: "open_openid_authorization",
      args: {
        client_id: target.clientId,
        redirect_uri: target.redirectUri,
        scopes: "scopes" in asked ? asked.scopes : [],
        claims: auth.status === "authenticated" ? claimsFor(context, auth.claims) : null,
        resource: "resource" in asked ? asked.resource : null,
      },
      schema: openedAuthorization,
    });
  let opened = await open();
  if (isDocumentUrl(target.clientId, context) && (!opened || opened.client.isStale)) {
    // Only for a person who is signed in, so that nobody else can make us fetch documents.
    const user = await requireUser(context, new Request(new URL(page, context.origin), { headers: request.headers }));
    const fault = await saveClientDocument(context, { url: target.clientId, user });
    if (fault) return { fault };
    opened = await open();
  }
  if (!opened) return { fault: "unknown_client" };
  const { client, redirectAllowed, resource, scopes, session } = opened;
  const { displayName, registration } = client;
  if (!redirectAllowed) return { fault: "redirect_uri", displayName };
  if (!client.enabled) return { fault: "client_disabled", displayName };
  return { target, page, displayName, registration, resource, scopes, session, asked: withTarget(asked, opened) };
}

/** Returns the request, or the error for a client that may not have tokens for the requested resource. */
function withTarget(
  asked: AuthorizationRequest | AuthorizationError,
  { client, resource }: NonNullable<z.output<typeof openedAuthorization>>,
): AuthorizationRequest | AuthorizationError {
  if ("error" in asked || resource !== null) return asked;
  if (asked.resource !== null) {
    return { error: "invalid_target", description: "No app is registered with this resource URL" };
  }
  return client.registration === "operator"
    ? asked
    : { error: "invalid_target", description: "resource is required: name the URL of the app to call" };
}

/** A request that is ready for its user's decision. */
export interface Decision {
  user: User;
  asked: AuthorizationRequest;
  /** A sign-in must be at or after this time, in seconds since 1970; null if any sign-in will do. */
  since: number | null;
  /** Whether to ask the user for consent. */
  asks: boolean;
}

/**
 * Checks what the request and the person's account require before the person can decide.
 * @returns the URL of the answer if there is nothing to decide
 * @throws Response a redirect to sign-in, the second step, the step-up or the accounts page, if one of them is required
 * first. The page then leads back to this request.
 */
export async function prepareDecision(
  context: AppLoadContext,
  { request, opened }: { request: Request; opened: OpenAuthorization },
): Promise<Decision | { location: string }> {
  const { page, session, asked, scopes, target } = opened;
  const answer = (error: AuthorizationError) => ({
    location: errorAddress(target, { error, issuer: context.env.BASE_URL }),
  });
  if ("error" in asked) return answer(asked);
  if (scopes.length === 0) {
    return answer({ error: "invalid_scope", description: "The client is not registered for any of these scopes" });
  }
  const hinted = asked.idTokenHint === null ? null : await verifyOwnJwt(context, asked.idTokenHint, { typ: "JWT" });
  if (asked.idTokenHint !== null && !hinted) {
    return answer({ error: "invalid_request", description: "id_token_hint is not an ID token of this issuer" });
  }
  const current = await getUser(context);
  const isOther = Boolean(current && hinted && hinted.sub !== current.id);
  const demand = signInDemand(context, { asked, page, session });
  if (asked.prompt.has("none")) {
    if (!current || isOther || demand.isOpen) return answer(loginRequired);
    if (!current.mfa.satisfied || current.mustReplacePassword || !session) return answer(interactionRequired);
    if (!session.consented) return answer(consentRequired);
  }
  if (demand.isNew) demandSignIn(context, { page, since: demand.since });
  const here = new Request(new URL(page, context.origin), { headers: request.headers });
  const user = await requireUser(context, here);
  if (isOther) {
    if (!context.session.accounts.some(({ id }) => id === hinted?.sub)) return answer(loginRequired);
    throw redirect(detour("/accounts", page), 303);
  }
  if (demand.isOpen) throw redirect(detour("/step-up", page), 303);
  const asks = asked.prompt.has("consent") || asked.prompt.has("select_account") || !session?.consented;
  return { user, asked, since: demand.since, asks };
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
function signInDemand(
  context: AppLoadContext,
  { asked, page, session }: { asked: AuthorizationRequest } & Pick<OpenAuthorization, "page" | "session">,
): SignInDemand {
  const now = Math.floor(Date.now() / 1_000);
  const authTime = session?.authTime ?? null;
  const earliest = asked.maxAge === null ? null : now - asked.maxAge;
  const isTooOld = earliest !== null && (authTime === null || authTime < earliest);
  if (!asked.prompt.has("login") && !isTooOld) return { since: earliest, isOpen: false, isNew: false };
  const known = asked.prompt.has("none") ? null : demandedSince(context, page);
  const since = known ?? Math.max(now, (authTime ?? 0) + 1);
  return { since, isOpen: authTime === null || authTime < since, isNew: known === null };
}

const loginRequired: AuthorizationError = { error: "login_required", description: "The person has to sign in" };
const interactionRequired: AuthorizationError = {
  error: "interaction_required",
  description: "The person’s account demands another step",
};
const consentRequired: AuthorizationError = { error: "consent_required", description: "The person has to consent" };

/** Returns the URL that tells the client that the person cancelled. */
export function denialAddress({ target }: OpenAuthorization, { env }: AppLoadContext): string {
  const error = { error: "access_denied", description: "The person cancelled" } as const;
  return errorAddress(target, { error, issuer: env.BASE_URL });
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
  { opened, decision, consents }: { opened: OpenAuthorization; decision: Decision; consents: boolean },
): Promise<string> {
  const { target, page, scopes } = opened;
  const { asked, since, user } = decision;
  const { auth } = context.session;
  if (auth.status !== "authenticated") throw redirect(page, 303);
  await requireAllowance(context, { action: "handoff", userId: user.id });
  const code = newOpaqueToken(tokenPrefixes.code);
  const answer = await callAppFunction(context, {
    name: "issue_authorization_code",
    args: {
      claims: claimsFor(context, auth.claims),
      client_id: target.clientId,
      redirect_uri: target.redirectUri,
      scopes,
      nonce: asked.nonce,
      code_challenge: asked.codeChallenge,
      code_hash: hashOf(code),
      consents,
      authenticated_since: since,
      resource: asked.resource,
    },
    schema: z.union([
      refusalOf(
        "client",
        "unauthenticated",
        "mfa_required",
        "unavailable",
        "login_required",
        "consent_required",
        "scope",
      ),
      z.object({ scopes: z.array(z.string()) }),
    ]),
  });
  if ("refused" in answer) throw answer.refused === "unavailable" ? appsUnavailable(context) : redirect(page, 303);
  if (demandedSince(context, page) !== null) forgetSignInDemand(context);
  return codeAddress(target, { code, issuer: context.env.BASE_URL });
}
