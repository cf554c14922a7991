import { Hono } from "hono";
import type { Deps } from "../core/deps.ts";
import { AuthError, OAuthError } from "../core/errors.ts";
import { beginAuthorization } from "../core/oauth/authorize.ts";
import { completeFlow, requireFlow } from "../core/oauth/callback.ts";
import { unlinkIdentity } from "../core/oauth/link-identity.ts";
import type { FlowState } from "../core/pkce.ts";
import { withQuery } from "../core/redirect-url.ts";
import { requireUser } from "../http/bearer.ts";
import { readForm } from "../http/body.ts";
import { callerOf } from "../http/client-address.ts";
import { type Env, type Request, requestAudience } from "../http/context.ts";
import { asAuthError } from "../http/error-response.ts";
import { oauthErrorQuery, oauthErrorTarget } from "../http/redirect-outcome.ts";
import { redirect, redirectTarget } from "../http/redirect-to.ts";
import { announce, fragmentUrl } from "../http/signed-in.ts";

/** @throws AuthError 404 manual_linking_disabled */
export function requireManualLinking({ config }: Deps): void {
  if (config.GOTRUE_SECURITY_MANUAL_LINKING_ENABLED) return;
  throw new AuthError(404, "manual_linking_disabled", "Manual linking is disabled");
}

/** Serves sign-in with external providers, and links and unlinks a user's identities at these providers. */
export function oauthRoutes(deps: Deps): Hono<Env> {
  const begin = (c: Request, linkTo?: string) =>
    beginAuthorization(deps, {
      redirectTo: redirectTarget(c, deps),
      query: c.req.query(),
      ...(linkTo ? { linkTo } : {}),
    });
  return new Hono<Env>()
    .get("/authorize", async (c) => redirect(c, await begin(c), 302))
    .get("/callback", async (c) => callback(c, deps, c.req.query()))
    .post("/callback", async (c) => callback(c, deps, { ...c.req.query(), ...(await readForm(c)) }))
    .get("/user/identities/authorize", async (c) => {
      const { user } = await requireUser(c, deps);
      requireManualLinking(deps);
      const url = await begin(c, user.id);
      return c.req.query("skip_http_redirect") === "true" ? c.json({ url }) : redirect(c, url, 302);
    })
    .delete("/user/identities/:identityId", async (c) => {
      const { user } = await requireUser(c, deps);
      requireManualLinking(deps);
      await unlinkIdentity(deps, { user, identityId: c.req.param("identityId") });
      return c.json({});
    });
}

async function callback(c: Request, deps: Deps, answer: Record<string, string>): Promise<Response> {
  let flow: FlowState;
  try {
    flow = await requireFlow(deps, answer.state ?? "");
  } catch (error) {
    // The flow is unknown, so the browser is redirected to the site.
    const authError = asAuthError(error, c, deps.log);
    return redirect(c, withQuery(deps.config.GOTRUE_SITE_URL, oauthErrorQuery(authError)), 303);
  }
  const { GOTRUE_EXTERNAL_REDIRECT_URL, GOTRUE_SITE_URL } = deps.config;
  const target = GOTRUE_EXTERNAL_REDIRECT_URL || flow.referrer || GOTRUE_SITE_URL;
  try {
    const outcome = await completeFlow(deps, {
      flow,
      answer,
      aud: requestAudience(c, deps),
      redirectTo: target,
      caller: callerOf(c, deps),
    });
    if (outcome.kind === "code") return redirect(c, withQuery(target, { code: outcome.code }), 302);
    const { signedIn, tokens } = outcome;
    announce(c, signedIn);
    const extra = {
      provider_token: tokens.accessToken,
      ...(tokens.refreshToken ? { provider_refresh_token: tokens.refreshToken } : {}),
    };
    return redirect(c, fragmentUrl(target, signedIn, extra), 302);
  } catch (error) {
    const authError = error instanceof OAuthError ? error : asAuthError(error, c, deps.log);
    return redirect(c, oauthErrorTarget(target, authError), 302);
  }
}
