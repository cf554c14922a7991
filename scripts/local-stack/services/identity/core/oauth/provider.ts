import type { AuthorizationServer, IDToken } from "oauth4webapi";
import type { z } from "zod";
import type { Profile } from "./profile.ts";

type Common = {
  /** Scopes that are always asked for. */
  scopes: string[];
  /** Parameters of the authorization request that are always sent; where there are any, a client adds none. */
  parameters?: Record<string, string>;
  /** RFC 6749 section 2.3.1; with HTTP Basic where nothing else is said. */
  clientAuthentication?: "client_secret_post";
};

/** What a provider's API is asked with the user's token. Both throw when it refuses or answers in another shape. */
export type ProviderApi = {
  /** OpenID Connect Core section 5.3. */
  userinfo: <Schema extends z.ZodType>(schema: Schema) => Promise<z.output<Schema>>;
  get: <Schema extends z.ZodType>(url: string, schema: Schema) => Promise<z.output<Schema>>;
};

/** A provider whose API says who someone is. */
export type ApiProvider = Common & {
  kind: "api";
  server: AuthorizationServer;
  fetchProfile: (api: ProviderApi) => Promise<Profile>;
};

/** A provider whose ID token says who someone is. */
export type OpenIdProvider = Common & {
  kind: "openid";
  /** Where it is discovered. */
  issuer: string;
  /** Endpoints that are known without discovery. */
  endpoints?: { authorization_endpoint: string; token_endpoint: string };
  /**
   * Which issuer an ID token must be of, given the one that it claims, and where that one's keys are discovered.
   * @throws Error for one that is not to be believed
   */
  trust: (claimed: string) => { issuer: string; keysAt: string };
  readProfile: (claims: IDToken) => Profile;
};

export type Provider = ApiProvider | OpenIdProvider;
