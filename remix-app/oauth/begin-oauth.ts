import type { AppLoadContext } from "@remix-run/node";
import { logError } from "#shared/log.ts";
import { requireAttempt } from "../abuse/attempts.ts";
import { findProvider, isTenantAddress, type OAuthProvider, providerOrigins } from "../config/oauth-providers.ts";
import { problem } from "../http/problem.ts";
import type { User } from "../session/user.ts";
import { beginAttempt } from "./attempts.ts";
import { requestProviderUrl } from "./backend.ts";
import {
  createState,
  type OAuthState,
  oauthCallbackPath,
  type StateValues,
  signState,
  writeStateCookie,
} from "./state.ts";

export interface OAuthStart {
  provider: OAuthProvider;
  /** Where to go afterwards: a path on our origin, sanitised by the caller. */
  returnTo: string;
}

/**
 * Returns the provider with this name.
 * @throws Response 404 NOT_FOUND if it is not enabled
 */
export function requireProvider({ env, requestId }: AppLoadContext, name: string | undefined): OAuthProvider {
  const provider = findProvider(env, name);
  if (provider) return provider;
  throw problem("NOT_FOUND", { requestId, detail: "You can’t sign in with this provider here." });
}

/** Allows the page's forms to lead to the enabled providers. */
export function allowProviderPages(context: AppLoadContext): void {
  for (const origin of providerOrigins(context.env)) context.allowFormTarget(origin);
}

/**
 * Starts a sign-in with a provider for this browser. If a user is signed in, the provider only confirms the user's
 * identity, and the sign-in never switches to another account. If no user is signed in and `adding` is true, the
 * provider lets the user choose an account.
 * @returns the provider's URL
 * @throws Response 403, 429 or 503, as a problem
 */
export function beginSignIn(
  context: AppLoadContext,
  { provider, returnTo, user, adding }: OAuthStart & { user: User | null; adding: boolean },
) {
  const { name } = provider;
  return beginVisit(context, {
    provider,
    payload: user
      ? { purpose: "reauthenticate", provider: name, returnTo, userId: user.id, sessionId: user.sessionId }
      : { purpose: "sign_in", provider: name, returnTo },
    parameters: user ? provider.proveAgain : adding ? provider.chooseAccount : undefined,
  });
}

/**
 * Starts to link a provider account to the signed-in user's account, in this session's browser.
 * @returns the provider's URL
 * @throws Response 429 or 503, as a problem
 */
export function beginLink(context: AppLoadContext, { provider, returnTo, user }: OAuthStart & { user: User }) {
  return beginVisit(context, buildLinkStart(context, { provider, returnTo, user }));
}

/**
 * Starts to link a provider's account to the user's account, for an app on a phone. The phone's browser has none of our
 * cookies, so the state is returned to the app. A person lured to the provider's URL cannot finish the link without the
 * state.
 * @param options.returnTo the app's URL that receives the code. The identity backend's list must contain the URL. If it
 * is absent or is a URL of ours, our callback receives the code.
 * @returns the provider's URL, and the state
 * @throws Response 429 or 503, as a problem
 */
export async function beginPhoneLink(
  context: AppLoadContext,
  { provider, returnTo, user }: { provider: OAuthProvider; returnTo: string | undefined; user: User },
): Promise<{ url: string; state: string }> {
  const target = URL.parse(returnTo ?? "");
  const isOwn = target === null || target.origin === context.origin;
  const redirectTo = isOwn ? `${context.origin}${oauthCallbackPath}` : target.href;
  const beginning = buildLinkStart(context, { provider, returnTo: "/", user });
  const { url, values } = await openVisit(context, beginning, () => redirectTo);
  return { url, state: await signState(context.env, { state: values.state, payload: beginning.payload }) };
}

function buildLinkStart(
  context: AppLoadContext,
  { provider, returnTo, user }: OAuthStart & { user: User },
): VisitStart {
  const { auth } = context.session;
  if (auth.status !== "authenticated") throw problem("UNAUTHENTICATED", { requestId: context.requestId });
  const { id: userId, sessionId } = user;
  return {
    provider,
    payload: { purpose: "link", provider: provider.name, returnTo, userId, sessionId },
    parameters: provider.chooseAccount,
    linkTo: auth.accessToken,
  };
}

interface VisitStart {
  provider: OAuthProvider;
  payload: OAuthState;
  parameters: Record<string, string> | undefined;
  linkTo?: string;
}

/**
 * Starts a visit to a provider, which will redirect this browser back to us. Stores the state of the visit in a cookie.
 */
async function beginVisit(context: AppLoadContext, beginning: VisitStart): Promise<string> {
  const back = ({ state }: StateValues) => `${context.origin}${oauthCallbackPath}?${new URLSearchParams({ state })}`;
  const { url, values } = await openVisit(context, beginning, back);
  await writeStateCookie(context, { state: values.state, payload: beginning.payload });
  return url;
}

async function openVisit(
  context: AppLoadContext,
  { provider, payload, ...visit }: VisitStart,
  redirectTo: (values: StateValues) => string,
): Promise<{ url: string; values: StateValues }> {
  await requireAttempt(context, { action: "oauth" });
  const values = createState(context.env);
  await beginAttempt(context, { values, payload });
  const answer = await requestProviderUrl(context, {
    ...visit,
    provider,
    redirectTo: redirectTo(values),
    challenge: values.challenge,
  });
  if (answer.status !== "ready") {
    if (answer.status === "refused")
      logMisconfiguration(context, `begins no sign-in with ${provider.name}: ${answer.code}`);
    throw unavailable(context);
  }
  await requireKnownProviderUrl(context, { provider, url: answer.url });
  return { url: answer.url, values };
}

/** Requires that the identity backend redirects to a known origin. For Microsoft, also requires our own tenant. */
async function requireKnownProviderUrl(
  context: AppLoadContext,
  { provider, url }: { provider: OAuthProvider; url: string },
) {
  const { env } = context;
  if (provider.name === "azure" && !(await isTenantAddress(url, env))) {
    logMisconfiguration(
      context,
      "leads to another tenant at Microsoft than MICROSOFT_TENANT: set its provider's URL to it",
    );
    throw unavailable(context);
  }
  const { origin } = new URL(url);
  if (!providerOrigins(env).includes(origin)) {
    logMisconfiguration(
      context,
      `leads to ${origin} for ${provider.name}: name that in OAUTH_FORM_TARGETS if it is right`,
    );
    throw unavailable(context);
  }
}

function logMisconfiguration({ requestId }: AppLoadContext, what: string): void {
  logError(`the identity backend ${what}`, { requestId });
}

function unavailable({ requestId }: AppLoadContext): Response {
  const detail = "We can’t start this right now. Try again in a moment, or sign in another way.";
  return problem("AUTH_UNAVAILABLE", { requestId, detail });
}
