import { decodeJwt } from "jose";
import * as oauth from "oauth4webapi";
import { z } from "zod";
import type { ProviderConfig } from "../../config/providers.ts";
import type { Deps } from "../deps.ts";
import { verifyIdToken } from "./id-token.ts";
import type { Profile, ProviderTokens } from "./profile.ts";
import type { ApiProvider, Provider, ProviderApi } from "./provider.ts";
import { requestOptions } from "./request-options.ts";
import type { ConfiguredProvider } from "./require-provider.ts";

type Parts = Pick<Deps, "clock" | "discover">;

/** The provider's response in a callback. */
export type Answer = { code: string; state: string; issuer?: string | undefined };

export type Redeemed = { tokens: ProviderTokens; profile: Profile };

/** Thrown if a provider does not accept a code. */
export class ExchangeError extends Error {}

/**
 * Redeems a code at the provider (RFC 6749 section 4.1.3) and identifies the user.
 * @throws ExchangeError if the provider does not accept the code; Error if its response cannot be trusted
 */
export async function redeemCode(deps: Parts, configured: ConfiguredProvider, answer: Answer): Promise<Redeemed> {
  const { provider, config } = configured;
  const client = clientOf(deps, config);
  if (provider.kind === "api") {
    const response = await exchange(provider.server, { provider, config, client, answer });
    // The provider's API identifies the user. An additional ID token, from any issuer, is ignored.
    const tokens = await oauth.processGenericTokenEndpointResponse(
      provider.server,
      client,
      await withoutIdToken(response),
    );
    return { tokens: readTokens(tokens), profile: await provider.fetchProfile(apiOf(provider, { client, tokens })) };
  }
  const server = await authorizationServer(deps, provider);
  const response = await exchange(server, { provider, config, client, answer });
  const { issuer, keysAt } = provider.trust(await claimedIssuer(response.clone()));
  const { server: keysServer, keys } = await deps.discover(keysAt);
  const verifier = { ...keysServer, issuer };
  const tokens = await oauth.processGenericTokenEndpointResponse(verifier, client, response);
  const claims = await verifyIdToken(verifier, { response, tokens, keys });
  return { tokens: readTokens(tokens), profile: provider.readProfile(claims) };
}

/** Returns a provider's endpoints. Uses discovery if the endpoints are not configured. */
export async function authorizationServer(
  { discover }: Pick<Parts, "discover">,
  provider: Provider,
): Promise<oauth.AuthorizationServer> {
  if (provider.kind === "api") return provider.server;
  if (provider.endpoints) return { issuer: provider.issuer, ...provider.endpoints };
  return (await discover(provider.issuer)).server;
}

/** The library reads the time itself, so this server's clock is passed as a skew. */
function clientOf({ clock }: Parts, { clientId }: ProviderConfig): oauth.Client {
  return { client_id: clientId, [oauth.clockSkew]: Math.round((clock().getTime() - Date.now()) / 1_000) };
}

type Exchange = {
  provider: Provider;
  config: ProviderConfig;
  client: oauth.Client;
  answer: Answer;
};

/**
 * Requests tokens from a provider.
 * @throws ExchangeError unless the provider accepts the code and returns an access token
 */
async function exchange(
  server: oauth.AuthorizationServer,
  { provider, config, client, answer }: Exchange,
): Promise<Response> {
  try {
    const authenticate =
      provider.clientAuthentication === "client_secret_post" ? oauth.ClientSecretPost : oauth.ClientSecretBasic;
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      authenticate(config.secret),
      oauth.validateAuthResponse(server, client, callbackParameters(provider, answer), answer.state),
      config.redirectUri,
      oauth.nopkce,
      requestOptions(server.token_endpoint ?? ""),
    );
    if (!response.ok) throw new Error(`The provider's token endpoint answered ${response.status}`);
    // Some providers answer 200 even if they refuse the code, so check for the access token itself.
    if (!(await bodyOf(response.clone())).access_token) throw new Error("The provider sent no access token");
    return response;
  } catch (cause) {
    throw new ExchangeError("The provider does not take the code", { cause });
  }
}

/** RFC 9207: an issuer in the response must be the requested provider's issuer, if we know that issuer. */
function callbackParameters(provider: Provider, { code, state, issuer }: Answer): URLSearchParams {
  const known = provider.kind === "openid" && !provider.endpoints;
  return new URLSearchParams({ code, state, ...(known && issuer ? { iss: issuer } : {}) });
}

async function bodyOf(response: Response): Promise<Record<string, unknown>> {
  return z.record(z.string(), z.unknown()).parse(await response.json());
}

async function withoutIdToken(response: Response): Promise<Response> {
  const { id_token: _, ...rest } = await bodyOf(response);
  return Response.json(rest);
}

async function claimedIssuer(response: Response): Promise<string> {
  const { id_token: idToken } = await bodyOf(response);
  if (typeof idToken !== "string") throw new Error("The provider sent no ID token");
  return decodeJwt(idToken).iss ?? "";
}

function readTokens(tokens: oauth.TokenEndpointResponse): ProviderTokens {
  return { accessToken: tokens.access_token, refreshToken: tokens.refresh_token ?? "" };
}

function apiOf(
  { server }: ApiProvider,
  { client, tokens }: { client: oauth.Client; tokens: oauth.TokenEndpointResponse },
): ProviderApi {
  return {
    async userinfo(schema) {
      const options = requestOptions(server.userinfo_endpoint ?? "");
      const response = await oauth.userInfoRequest(server, client, tokens.access_token, options);
      return schema.parse(await oauth.processUserInfoResponse(server, client, oauth.skipSubjectCheck, response));
    },
    async get(url, schema) {
      const headers = new Headers({ Accept: "application/json" });
      const target = new URL(url);
      const options = requestOptions(url);
      const { access_token: token } = tokens;
      const response = await oauth.protectedResourceRequest(token, "GET", target, headers, null, options);
      if (!response.ok) throw new Error(`${target.pathname} of the provider answered ${response.status}`);
      return schema.parse(await response.json());
    },
  };
}
