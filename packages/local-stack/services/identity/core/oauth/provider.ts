import type { AuthorizationServer, IDToken } from "oauth4webapi";
import type { z } from "zod";
import type { Profile } from "./profile.ts";

type Common = {
  /** Scopes that are always requested. */
  scopes: string[];
  /** Parameters that are always sent in the authorization request. If there are any, a client cannot add its own. */
  parameters?: Record<string, string>;
  /** How the client authenticates (RFC 6749 section 2.3.1). HTTP Basic by default. */
  clientAuthentication?: "client_secret_post";
};

/**
 * Calls a provider's API with the user's token. Both functions throw if the provider refuses the call or its response
 * has an unexpected format.
 */
export type ProviderApi = {
  /** Fetches the UserInfo endpoint (OpenID Connect Core section 5.3). */
  userinfo: <Schema extends z.ZodType>(schema: Schema) => Promise<z.output<Schema>>;
  get: <Schema extends z.ZodType>(url: string, schema: Schema) => Promise<z.output<Schema>>;
};

/** A provider whose API identifies the user. */
export type ApiProvider = Common & {
  kind: "api";
  server: AuthorizationServer;
  fetchProfile: (api: ProviderApi) => Promise<Profile>;
};

/** A provider whose ID token identifies the user. */
export type OpenIdProvider = Common & {
  kind: "openid";
  /** The issuer used for discovery. */
  issuer: string;
  /** Endpoints known without discovery. */
  endpoints?: { authorization_endpoint: string; token_endpoint: string };
  /**
   * Returns the issuer that an ID token must have, and the issuer at which to discover the signing keys.
   * @param claimed the issuer that the token claims
   * @throws Error for an untrusted issuer
   */
  trust: (claimed: string) => { issuer: string; keysAt: string };
  readProfile: (claims: IDToken) => Profile;
};

export type Provider = ApiProvider | OpenIdProvider;
