import type { RouteConfigEntry } from "@remix-run/route-config";
import routes from "../../remix-app/routes.ts";

/** The app's routes, without the frames around pages. */
export const urlRoutes: readonly RouteConfigEntry[] = routes.flatMap(withoutFrames);

function withoutFrames(entry: RouteConfigEntry): RouteConfigEntry[] {
  return entry.children ? entry.children.flatMap(withoutFrames) : [entry];
}

/** The routes that a session may open before it proves its second factor, with a note on what each route allows. */
export const openRoutes: Readonly<Record<string, string>> = {
  mfa: "the challenge itself",
  "mfa/app": "the challenge itself, on a phone",
  "api/v1/auth/mfa/mobile/challenges": "the challenge itself, on a phone",
  "api/v1/auth/mfa/mobile/challenges/:id": "the challenge itself, on a phone",
  "api/v1/auth/qr-login/challenges/:id": "the state of its own request; consuming one requires more",
  "qr/open": "the same for everyone",
  "mfa/recovery": "recovery for people who lost the app",
  accounts: "to use another account, or to sign out",
  "api/v1/auth/accounts": "the accounts in this browser, for any active account",
  "api/v1/auth/accounts/current": "a note of the browser's own, where it was; it opens nothing",
  "api/v1/auth/accounts/switch": "to use another account",
  "api/v1/auth/accounts/logout": "signing out",
  "api/v1/auth/accounts/logout-all": "signing out",
  "api/v1/auth/accounts/:accountId": "signing out",
  "add-account": "to use another account",
  "add-account/new": "to use another account",
  "add-account/code": "to use another account",
  login: "to use another account",
  "login/code": "to use another account",
  "login/passkey": "to use another account",
  "login/passkey/options": "to use another account",
  "auth/oauth/:provider": "to use another account",
  "auth/callback": "its code is the credential",
  logout: "signing out",
  signup: "to use another account",
  "signup/check-mail": "asks for a mail, and knows no session",
  "forgot-password": "asks for a mail, and knows no session",
  "auth/confirm": "its link is the credential",
  "auth/recovery": "its link or code is the credential",
  theme: "appearance",
  "api/v1/auth/cross-app-tokens/validate": "an app's own credential",
  "api/v1/auth/app-sessions/introspect": "an app's own credential",
  "api/v1/auth/app-sessions/refresh": "an app's own credential",
  "api/v1/auth/app-sessions/revoke": "an app's own credential",
  "api/v1/auth/app-token/exchange": "an app's own credential",
  "api/v1/schedule": "a scheduler's own credential",
  "api/ai/generate": "the gateway's own credentials; no cookie counts",
  "api/v1/workspaces/:workspaceId/ai/agents": "a login's own token; no cookie counts",
  "api/v1/workspaces/:workspaceId/ai/agents/:connectionId": "a login's own token; no cookie counts",
  "api/v1/workspaces/:workspaceId/ai/agents/:connectionId/keys": "a login's own token; no cookie counts",
  ".well-known/passkey-endpoints": "the same for everyone",
  docs: "the same for everyone",
  "docs/:guide": "the same for everyone",
  "docs/decisions/:guide": "the same for everyone",
  "docs/api": "the same for everyone",
  "docs/api/platform.json": "the same for everyone",
  "docs/api/gateway.json": "the same for everyone",
  "docs/api/:area/:tag": "the same for everyone",
  "oauth/authorize": "refuses a request without a client; a whole one leads to the challenge",
  "oauth/authorize/decision": "leads back to the request",
  "oauth/register": "anybody may register a client",
  "oauth/par": "a client's own credential",
  "oauth/token": "a client's own credential",
  "oauth/introspect": "a client's own credential",
  "oauth/revoke": "a client's own credential",
  "oauth/device_authorization": "a client's own credential",
  "oauth/userinfo": "a client's own token; no cookie counts",
  "oauth/logout": "signing out",
  "oauth/logout/confirm": "signing out",
  ".well-known/openid-configuration": "the same for everyone",
  ".well-known/oauth-authorization-server": "the same for everyone",
  ".well-known/jwks.json": "the same for everyone",
  "api/v1/auth/session": "says that a second step is due",
  "*": "nothing is there",
};

/** Every route of the app's table, with an example path. */
export const everyRoute: readonly { route: string; path: string }[] = urlRoutes.map(({ index, path = "" }) => {
  const route = index ? "" : path;
  return { route, path: `/${route.replace(":provider", "github").replaceAll(/:\w+/g, () => crypto.randomUUID())}` };
});

/**
 * Returns whether a route responds to problems with JSON: the API, and the route to which our own scripts post a
 * passkey.
 */
export function answersJson(path: string): boolean {
  return path.startsWith("/api/") || path === "/step-up/passkey";
}
