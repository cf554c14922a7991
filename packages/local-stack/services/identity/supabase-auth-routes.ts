/** The Supabase Auth version whose API this server implements and whose routes are listed here. */
export const supabaseAuthVersion = "v2.196.0";

/**
 * - `reads`: only reads
 * - `changes`: changes an account, or prepares a change, such as by sending a challenge; accepts the publishable key or
 * a user's own token
 * - `admin`: requires an administrator's token
 * - `setting`: names the setting that enables the route; the stack leaves this setting off
 */
type RouteClass = "reads" | "changes" | "admin" | { setting: `GOTRUE_${string}` };

const saml = { setting: "GOTRUE_SAML_ENABLED" } as const;
const oauthServer = { setting: "GOTRUE_OAUTH_SERVER_ENABLED" } as const;
const scim = { setting: "GOTRUE_EXPERIMENTAL_SCIM_ENABLED" } as const;

/** Every route in `internal/api/api.go` of `supabaseAuthVersion`. `/token` has one entry for each grant. */
export const supabaseAuthRoutes: Record<string, RouteClass> = {
  "GET /health": "reads",
  "GET /settings": "reads",
  "GET /.well-known/jwks.json": "reads",
  "GET /.well-known/openid-configuration": "reads",
  "GET /.well-known/oauth-authorization-server": oauthServer,

  "POST /signup": "changes",
  "POST /token?grant_type=password": "changes",
  "POST /token?grant_type=refresh_token": "changes",
  "POST /token?grant_type=pkce": "changes",
  "POST /token?grant_type=id_token": "changes",
  "POST /token?grant_type=web3": { setting: "GOTRUE_EXTERNAL_WEB3_ETHEREUM_ENABLED" },
  "POST /otp": "changes",
  "POST /magiclink": "changes",
  "POST /recover": "changes",
  "POST /resend": "changes",
  "GET /reauthenticate": "changes",
  "GET /verify": "changes",
  "POST /verify": "changes",
  "POST /logout": "changes",

  "GET /authorize": "changes",
  "GET /callback": "changes",
  "POST /callback": "changes",

  "GET /user": "reads",
  "PUT /user": "changes",
  "GET /user/identities/authorize": "changes",
  "DELETE /user/identities/:id": "changes",
  "GET /user/oauth/grants": oauthServer,
  "DELETE /user/oauth/grants": oauthServer,

  "POST /factors": "changes",
  "POST /factors/:id/challenge": "changes",
  "POST /factors/:id/verify": "changes",
  "DELETE /factors/:id": "changes",

  "POST /passkeys/authentication/options": "changes",
  "POST /passkeys/authentication/verify": "changes",
  "POST /passkeys/registration/options": "changes",
  "POST /passkeys/registration/verify": "changes",
  "GET /passkeys": "reads",
  "PATCH /passkeys/:id": "changes",
  "DELETE /passkeys/:id": "changes",

  "POST /sso": saml,
  "GET /sso/saml/metadata": saml,
  "POST /sso/saml/acs": saml,

  "POST /oauth/clients/register": oauthServer,
  "POST /oauth/token": oauthServer,
  "GET /oauth/userinfo": oauthServer,
  "GET /oauth/authorize": oauthServer,
  "GET /oauth/authorizations/:id": oauthServer,
  "POST /oauth/authorizations/:id/consent": oauthServer,

  "GET /scim/v2/ServiceProviderConfig": scim,
  "GET /scim/v2/ResourceTypes": scim,
  "GET /scim/v2/Schemas": scim,

  "POST /invite": "admin",
  "GET /admin/audit": "admin",
  "GET /admin/users": "admin",
  "POST /admin/users": "admin",
  "GET /admin/users/:id": "admin",
  "PUT /admin/users/:id": "admin",
  "DELETE /admin/users/:id": "admin",
  "GET /admin/users/:id/factors": "admin",
  "PUT /admin/users/:id/factors/:id": "admin",
  "DELETE /admin/users/:id/factors/:id": "admin",
  "GET /admin/users/:id/passkeys": "admin",
  "DELETE /admin/users/:id/passkeys/:id": "admin",
  "POST /admin/generate_link": "admin",
  "GET /admin/sso/providers": "admin",
  "POST /admin/sso/providers": "admin",
  "GET /admin/sso/providers/:id": "admin",
  "PUT /admin/sso/providers/:id": "admin",
  "DELETE /admin/sso/providers/:id": "admin",
  "GET /admin/oauth/clients": "admin",
  "POST /admin/oauth/clients": "admin",
  "GET /admin/oauth/clients/:id": "admin",
  "PUT /admin/oauth/clients/:id": "admin",
  "DELETE /admin/oauth/clients/:id": "admin",
  "POST /admin/oauth/clients/:id/regenerate_secret": "admin",
  "GET /admin/custom-providers": "admin",
  "POST /admin/custom-providers": "admin",
  "GET /admin/custom-providers/:id": "admin",
  "PUT /admin/custom-providers/:id": "admin",
  "DELETE /admin/custom-providers/:id": "admin",
};
