import type { IDToken } from "oauth4webapi";
import { z } from "zod";
import type { ProviderConfig } from "../../config/providers.ts";
import { flag, onlyEmail, type Profile, text } from "./profile.ts";
import type { OpenIdProvider } from "./provider.ts";

/** Trusts tokens of one issuer. */
const only = (issuer: string) => () => ({ issuer, keysAt: issuer });

const googleClaims = z.looseObject({ name: text, picture: text, email: text, email_verified: flag, hd: text });

/** Configures Google. Unlike Supabase Auth, also supports another issuer at a configured URL. */
export function google({ url }: ProviderConfig): OpenIdProvider {
  const issuer = url || "https://accounts.google.com";
  return {
    kind: "openid",
    issuer,
    trust: only(issuer),
    scopes: ["email", "profile"],
    readProfile(token) {
      const { name, picture, email, email_verified: verified, hd } = googleClaims.parse(token);
      return {
        subject: token.sub,
        emails: onlyEmail(email, verified),
        claims: {
          iss: token.iss,
          name,
          full_name: name,
          picture,
          avatar_url: picture,
          provider_id: token.sub,
          ...(hd ? { custom_claims: { hd } } : {}),
        },
      };
    },
  };
}

const appleIssuers = ["https://appleid.apple.com", "https://account.apple.com"] as const;
/** Apple also sends flags as strings. */
const appleFlag = z.union([z.boolean(), z.stringbool({ truthy: ["true", "1"], falsy: ["false", "0"] })]);
const appleClaims = z.looseObject({
  email: text,
  auth_time: z.number().nullish(),
  is_private_email: appleFlag.nullish(),
  transfer_sub: text,
});

/**
 * Configures Apple, which posts its response and verifies all emails. Unlike Supabase Auth, this function also supports
 * another issuer at a configured URL.
 */
export function apple({ url }: ProviderConfig): OpenIdProvider {
  const [issuer, other] = url ? [url, url] : appleIssuers;
  return {
    kind: "openid",
    issuer,
    trust: (tokenIssuer) => ({ issuer: tokenIssuer === other ? other : issuer, keysAt: issuer }),
    scopes: ["email", "name"],
    parameters: { response_mode: "form_post" },
    clientAuthentication: "client_secret_post",
    readProfile(token) {
      const { email, auth_time, is_private_email, transfer_sub } = appleClaims.parse(token);
      const custom = Object.entries({ auth_time, is_private_email, transfer_sub: transfer_sub || undefined }).filter(
        ([, value]) => value !== undefined && value !== null,
      );
      return {
        subject: token.sub,
        emails: [{ email, verified: true, primary: true }],
        claims: {
          iss: token.iss,
          provider_id: token.sub,
          ...(custom.length > 0 ? { custom_claims: Object.fromEntries(custom) } : {}),
        },
      };
    },
  };
}

const tenantIssuer = /^https:\/\/(login[.]microsoftonline[.]com|[a-z0-9-]+[.]ciamlogin[.]com)\/[^/]+\/v2[.]0\/?$/;
const microsoftIssuer = /^https:\/\/login[.]microsoftonline[.]com\/[^/]+\/v2[.]0\/?$/;
const anyTenant = /\/(common|organizations)\/v2[.]0$/;

/** Configures Microsoft, or a compatible server at the configured URL. */
export function azure({ url }: ProviderConfig): OpenIdProvider {
  const base = url || "https://login.microsoftonline.com/common";
  const tenant = `${base}/v2.0`;
  const isOneTenant = url !== "" && tenantIssuer.test(tenant) && !anyTenant.test(tenant);
  return {
    kind: "openid",
    issuer: tenant,
    endpoints: {
      authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
      token_endpoint: `${base}/oauth2/v2.0/token`,
    },
    /**
     * If the URL names a single tenant, trusts only that tenant's issuer. Otherwise trusts the issuer that the token
     * claims, because every tenant has its own issuer.
     */
    trust: (tokenIssuer) => (isOneTenant ? only(tenant)() : only(tokenIssuer)()),
    scopes: ["openid"],
    readProfile: (token) => (microsoftIssuer.test(token.iss) ? readMicrosoft(token) : readStandard(token)),
  };
}

const microsoftClaims = z.looseObject({
  name: text,
  email: text,
  preferred_username: text,
  xms_edov: z.unknown().optional(),
});
const protocolClaims = [
  "aud",
  "iss",
  "iat",
  "nbf",
  "exp",
  "c_hash",
  "at_hash",
  "aio",
  "nonce",
  "rh",
  "uti",
  "jti",
  "ver",
];

/** Treats the email as verified unless xms_edov is present and not true. The claim's value can have several types. */
function readMicrosoft(token: IDToken): Profile {
  const { name, email, preferred_username, xms_edov: edov } = microsoftClaims.parse(token);
  const { sub, name: _name, preferred_username: _username, ...rest } = token;
  const custom = Object.entries(rest).filter(([claim]) => !protocolClaims.includes(claim));
  const verified = edov === undefined || edov === null || edov === true || edov === "1" || edov === "true";
  return {
    subject: sub,
    emails: onlyEmail(email, verified),
    claims: {
      iss: token.iss,
      full_name: name,
      preferred_username,
      provider_id: sub,
      custom_claims: Object.fromEntries(custom),
    },
  };
}

const linkedinClaims = z.looseObject({
  email: text,
  email_verified: z.union([flag, z.stringbool({ truthy: ["true"], falsy: ["false"] })]),
  given_name: text,
  family_name: text,
  locale: z.unknown().optional(),
  picture: text,
});

/**
 * Configures LinkedIn, or another server that has LinkedIn's endpoint paths below the configured URL. Unlike Supabase
 * Auth, also uses this URL as the issuer.
 */
export function linkedinOidc({ url }: ProviderConfig): OpenIdProvider {
  const issuer = url || "https://www.linkedin.com/oauth";
  const api = url || "https://api.linkedin.com";
  return {
    kind: "openid",
    issuer,
    endpoints: {
      authorization_endpoint: `${api}/oauth/v2/authorization`,
      token_endpoint: `${api}/oauth/v2/accessToken`,
    },
    trust: only(issuer),
    scopes: ["openid", "email", "profile"],
    clientAuthentication: "client_secret_post",
    readProfile(token) {
      const claims = linkedinClaims.parse(token);
      return {
        subject: token.sub,
        emails: onlyEmail(claims.email, claims.email_verified),
        claims: {
          iss: token.iss,
          name: `${claims.given_name} ${claims.family_name}`.trim(),
          given_name: claims.given_name,
          family_name: claims.family_name,
          locale: claims.locale,
          picture: claims.picture,
          provider_id: token.sub,
        },
      };
    },
  };
}

/**
 * Configures an OpenID provider whose issuer is the configured URL. Supabase Auth supports such providers only through
 * its admin API.
 */
export function openId({ url }: ProviderConfig): OpenIdProvider {
  return {
    kind: "openid",
    issuer: url,
    trust: only(url),
    scopes: ["openid", "email", "profile"],
    readProfile: readStandard,
  };
}

const standardClaims = z.looseObject({ email: text, email_verified: flag });
/** Claims that an identity stores unchanged: OpenID Connect Core sections 2 and 5.1, and Supabase Auth's own. */
const copiedClaims = [
  ...["iss", "exp", "iat", "name", "family_name", "given_name", "middle_name", "nickname", "preferred_username"],
  ...["profile", "picture", "website", "gender", "birthdate", "zoneinfo", "locale", "phone", "custom_claims"],
  ...["full_name", "avatar_url", "slug", "provider_id", "user_name"],
];

/** Reads a profile from the standard claims (OpenID Connect Core section 5.1). */
function readStandard(token: IDToken): Profile {
  const { email, email_verified: verified } = standardClaims.parse(token);
  return {
    subject: token.sub,
    emails: onlyEmail(email, verified),
    claims: {
      ...Object.fromEntries(Object.entries(token).filter(([claim]) => copiedClaims.includes(claim))),
      aud: [token.aud].flat(),
    },
  };
}
