import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { OAuthProvider } from "../config/oauth-providers.ts";
import type { StoredSession } from "../session/cookies.ts";
import { authCallTimeoutMs, identityHeaders } from "../session/request-session.ts";
import { createFetchWithTimeout } from "../supabase/backend-fetch.ts";

/** `refused`: the backend refused; `unavailable`: it did not answer. */
export type BackendFailure = { status: "refused"; code: string } | { status: "unavailable" };

export interface ProviderVisit {
  provider: OAuthProvider;
  /** Where the backend sends the browser afterwards. */
  redirectTo: string;
  /** RFC 7636 §4.2, S256. */
  challenge: string;
  parameters?: Record<string, string> | undefined;
  /** The access token of the account to link the identity to; absent for a sign-in. */
  linkTo?: string;
}

const linkAnswer = z.object({ url: z.url() });
const errorAnswer = z.object({ code: z.string() });
const tokenAnswer = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1),
  expires_in: z.number(),
  expires_at: z.number(),
});

/**
 * Starts a flow at the identity backend. The server makes this call instead of the browser, so that a refusal becomes
 * one of our pages, and the provider's URL is known before the browser goes there.
 * @returns the provider's URL
 */
export async function requestProviderUrl(
  context: AppLoadContext,
  visit: ProviderVisit,
): Promise<{ status: "ready"; url: string } | BackendFailure> {
  const { provider, redirectTo, challenge, parameters = {}, linkTo } = visit;
  const query = new URLSearchParams({
    ...parameters,
    provider: provider.name,
    redirect_to: redirectTo,
    code_challenge: challenge,
    code_challenge_method: "s256",
    ...(provider.scopes ? { scopes: provider.scopes } : {}),
    ...(linkTo ? { skip_http_redirect: "true" } : {}),
  });
  const path = linkTo ? "user/identities/authorize" : "authorize";
  const response = await callBackend(context, `${path}?${query}`, linkTo ? { headers: bearer(linkTo) } : {});
  if (response === null || response.status >= 500) return { status: "unavailable" };
  const location = response.headers.get("location");
  if (location) return { status: "ready", url: location };
  const body: unknown = await response.json().catch(() => null);
  const link = linkAnswer.safeParse(body);
  return link.success ? { status: "ready", url: link.data.url } : parseRefusal(body);
}

/** Exchanges the code of a flow for its session, which doesn't belong to any browser yet. */
export async function exchangeCode(
  context: AppLoadContext,
  { code, verifier }: { code: string; verifier: string },
): Promise<{ status: "signed_in"; session: StoredSession } | BackendFailure> {
  const response = await callBackend(context, "token?grant_type=pkce", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ auth_code: code, code_verifier: verifier }),
  });
  if (response === null || response.status >= 500) return { status: "unavailable" };
  const body: unknown = await response.json().catch(() => null);
  const tokens = tokenAnswer.safeParse(body);
  return tokens.success
    ? { status: "signed_in", session: { ...tokens.data, token_type: "bearer" } }
    : parseRefusal(body);
}

function parseRefusal(body: unknown): BackendFailure {
  const error = errorAnswer.safeParse(body);
  return { status: "refused", code: error.success ? error.data.code : "unknown" };
}

const bearer = (accessToken: string) => ({ Authorization: `Bearer ${accessToken}` });

const fetchIdentity = /* @__PURE__ */ createFetchWithTimeout(authCallTimeoutMs);

/** @returns null if the backend did not answer */
async function callBackend(
  { env, clientAddress }: AppLoadContext,
  path: string,
  init: { method?: string; headers?: Record<string, string>; body?: string },
): Promise<Response | null> {
  try {
    return await fetchIdentity(`${env.SUPABASE_URL}/auth/v1/${path}`, {
      ...init,
      headers: { ...identityHeaders(env, clientAddress), "X-Supabase-Api-Version": "2024-01-01", ...init.headers },
    });
  } catch {
    return null;
  }
}
