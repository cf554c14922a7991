import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import { z } from "zod";
import type { ProviderConfig } from "../../config/providers.ts";
import { fetchResource } from "./exchange.ts";
import type { Profile, Provider } from "./profile.ts";

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

const oidcUser = z.looseObject({ sub: z.string().min(1), name: text, email: text, email_verified: flag });

/** The wire shapes that a local provider can be put behind. Others of Supabase Auth's are not built. */
export const providers = { keycloak, github, azure } satisfies Record<string, (config: ProviderConfig) => Provider>;

/** Any OpenID provider whose endpoints lie where Keycloak has them below the configured URL. */
function keycloak({ url }: ProviderConfig): Provider {
  const endpoint = (name: string) => `${url}/protocol/openid-connect/${name}`;
  return {
    authorizationUrl: endpoint("auth"),
    tokenUrl: endpoint("token"),
    scopes: ["profile", "email"],
    async fetchProfile({ accessToken }): Promise<Profile> {
      const user = await fetchResource(endpoint("userinfo"), { accessToken, schema: oidcUser });
      const { sub, name, email, email_verified: verified, ...custom_claims } = user;
      return {
        subject: sub,
        emails: email ? [{ email, verified, primary: true }] : [],
        claims: { iss: url, name, full_name: name, provider_id: sub, custom_claims },
      };
    },
  };
}

const githubUser = z.looseObject({ id: z.number(), login: text, name: text, avatar_url: text });
const githubEmails = z.array(z.looseObject({ email: text, verified: flag, primary: flag }));

/** GitHub, or a server with its API below the configured URL. */
function github({ url }: ProviderConfig): Provider {
  const site = url || "https://github.com";
  const api = url ? `${url}/api/v3` : "https://api.github.com";
  return {
    authorizationUrl: `${site}/login/oauth/authorize`,
    tokenUrl: `${site}/login/oauth/access_token`,
    scopes: ["user:email"],
    async fetchProfile({ accessToken }): Promise<Profile> {
      const user = await fetchResource(`${api}/user`, { accessToken, schema: githubUser });
      const emails = await fetchResource(`${api}/user/emails`, { accessToken, schema: githubEmails });
      const subject = String(user.id);
      return {
        subject,
        emails: emails.filter(({ email }) => email !== ""),
        claims: {
          iss: api,
          name: user.name,
          full_name: user.name,
          preferred_username: user.login,
          user_name: user.login,
          avatar_url: user.avatar_url,
          provider_id: subject,
        },
      };
    },
  };
}

const discovery = z.looseObject({ issuer: z.string(), jwks_uri: z.url() });
const azureIssuer = /^https:\/\/login[.]microsoftonline[.]com\/[^/]+\/v2[.]0\/?$/;
const azureClaims = z.looseObject({
  sub: z.string().min(1),
  iss: z.string(),
  name: text,
  email: text,
  preferred_username: text,
  email_verified: flag,
  xms_edov: z.unknown().optional(),
});

/** Microsoft, or a server of its shape below the configured URL: who it is stands in the ID token. */
function azure({ url, clientId }: ProviderConfig): Provider {
  const base = url || "https://login.microsoftonline.com/common";
  const tenant = `${base}/v2.0`;
  const isTenant = azureIssuer.test(tenant) && !/\/(common|organizations)\/v2[.]0$/.test(tenant);
  return {
    authorizationUrl: `${base}/oauth2/v2.0/authorize`,
    tokenUrl: `${base}/oauth2/v2.0/token`,
    scopes: ["openid"],
    async fetchProfile({ idToken }): Promise<Profile> {
      const issuer = decodeJwt(idToken).iss ?? "";
      if (isTenant && issuer !== tenant) throw new Error(`The ID token is of issuer ${issuer}, not of ${tenant}`);
      const configuration = await fetchResource(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, {
        accessToken: "",
        schema: discovery,
      });
      const keys = createRemoteJWKSet(new URL(configuration.jwks_uri));
      const { payload } = await jwtVerify(idToken, keys, { issuer, audience: clientId });
      const claims = azureClaims.parse(payload);
      return {
        subject: claims.sub,
        emails: claims.email ? [{ email: claims.email, verified: isVerified(claims), primary: true }] : [],
        claims: {
          iss: claims.iss,
          full_name: claims.name,
          preferred_username: claims.preferred_username,
          provider_id: claims.sub,
        },
      };
    },
  };
}

/** Microsoft's own tokens call an address unverified by xms_edov alone; those of others say it as OpenID does. */
function isVerified({ iss, xms_edov: edov, email_verified }: z.output<typeof azureClaims>): boolean {
  if (!azureIssuer.test(iss)) return email_verified;
  return edov === undefined || ["true", "1", "t"].includes(String(edov).toLowerCase());
}
