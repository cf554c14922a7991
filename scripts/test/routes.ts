import routes from "../../remix-app/routes.ts";

/** What a session that has yet to prove its second factor may open, and what it gets there. */
export const openRoutes: Readonly<Record<string, string>> = {
  mfa: "the challenge itself",
  "mfa/app": "the challenge itself, on a phone",
  "api/v1/auth/mfa/mobile/challenges": "the challenge itself, on a phone",
  "api/v1/auth/mfa/mobile/challenges/:id": "the challenge itself, on a phone",
  "api/v1/auth/qr-login/challenges/:id": "how a request of its own stands; to consume one is more",
  "qr/open": "the same for everyone",
  "mfa/recovery": "the way out for who lost the app",
  accounts: "to be somebody else, or to leave",
  "api/v1/auth/accounts": "what this browser holds, whoever is active",
  "api/v1/auth/accounts/current": "a note of the browser's own, where it was; it opens nothing",
  "api/v1/auth/accounts/switch": "to be somebody else",
  "api/v1/auth/accounts/logout": "the way out",
  "api/v1/auth/accounts/logout-all": "the way out",
  "api/v1/auth/accounts/:accountId": "the way out",
  "add-account": "to be somebody else",
  "add-account/new": "to be somebody else",
  "add-account/code": "to be somebody else",
  login: "to be somebody else",
  "login/code": "to be somebody else",
  "login/passkey": "to be somebody else",
  "login/passkey/options": "to be somebody else",
  "auth/oauth/:provider": "to be somebody else",
  "auth/callback": "its code is the credential",
  logout: "the way out",
  signup: "to be somebody else",
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
  "api/ai/generate": "the gateway's own credentials; no cookie counts",
  "api/v1/workspaces/:workspaceId/ai/agents": "a login's own token; no cookie counts",
  "api/v1/workspaces/:workspaceId/ai/agents/:connectionId": "a login's own token; no cookie counts",
  "api/v1/workspaces/:workspaceId/ai/agents/:connectionId/keys": "a login's own token; no cookie counts",
  ".well-known/passkey-endpoints": "the same for everyone",
  "docs/api": "the same for everyone",
  "docs/api/platform.json": "the same for everyone",
  "docs/api/gateway.json": "the same for everyone",
  "docs/api/:area/:tag": "the same for everyone",
  "oauth/authorize": "refuses a request without a client; a whole one leads to the challenge",
  "oauth/authorize/decision": "leads back to the request",
  "oauth/token": "a client's own credential",
  "oauth/introspect": "a client's own credential",
  "oauth/revoke": "a client's own credential",
  "oauth/device_authorization": "a client's own credential",
  "oauth/userinfo": "a client's own token; no cookie counts",
  "oauth/logout": "the way out",
  "oauth/logout/confirm": "the way out",
  ".well-known/openid-configuration": "the same for everyone",
  ".well-known/oauth-authorization-server": "the same for everyone",
  ".well-known/jwks.json": "the same for everyone",
  "api/v1/auth/session": "says that a second step is due",
  "*": "nothing is there",
};

/** Every route of the app's table, with an address of it. */
export const everyRoute: readonly { route: string; path: string }[] = routes.map(({ index, path = "" }) => {
  const route = index ? "" : path;
  return { route, path: `/${route.replace(":provider", "github").replaceAll(/:\w+/g, () => crypto.randomUUID())}` };
});

/** Whether a route answers problems as JSON: the API, and what our own scripts post a passkey to. */
export function answersJson(path: string): boolean {
  return path.startsWith("/api/") || path === "/step-up/passkey";
}
