import { randomBytes } from "node:crypto";
import * as oauth from "oauth4webapi";
import { hashToBytea } from "../../remix-app/apps/opaque-tokens.ts";
import type { Browser } from "../../remix-app/testing/browser.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { query } from "./people.ts";
import { readStack } from "./stack.ts";

const { base } = readStack();

/** A registered OpenID client. A public client has no secret. */
export interface TestClient {
  id: string;
  client: oauth.Client;
  auth: oauth.ClientAuth;
  secret: string | null;
  redirectUri: string;
}

export const server: oauth.AuthorizationServer = {
  issuer: base,
  authorization_endpoint: `${base}/oauth/authorize`,
  pushed_authorization_request_endpoint: `${base}/oauth/par`,
  token_endpoint: `${base}/oauth/token`,
  userinfo_endpoint: `${base}/oauth/userinfo`,
  introspection_endpoint: `${base}/oauth/introspect`,
  revocation_endpoint: `${base}/oauth/revoke`,
  jwks_uri: `${base}/.well-known/jwks.json`,
  authorization_response_iss_parameter_supported: true,
};

/** Options for requests of a client on loopback, from an address that no other test uses. */
export const loopback = {
  [oauth.allowInsecureRequests]: true,
  headers: { "x-forwarded-for": newAddress() },
} as const;

/** Registers a new OpenID client for a test. */
export async function createOpenidClient({
  displayName = "Charts",
  scopes = ["profile"],
  isPublic = false,
  redirectUris = ["https://client.example/callback"],
  postLogoutRedirectUris = [] as string[],
  requiresPkce = true,
  claimsInIdToken = false,
} = {}): Promise<TestClient> {
  const name = `client-${randomBytes(8).toString("hex")}`;
  const secret = isPublic ? null : randomBytes(32).toString("base64url");
  await query(
    `with app as (
       insert into private.apps (name, display_name, kind, scopes) values ($1, $7, 'openid', $2) returning id
     ), client as (
       insert into private.openid_clients (
         app_id, is_public, redirect_uris, post_logout_redirect_uris, requires_pkce, claims_in_id_token
       )
       select id, $3, $4, $5, $8, $9 from app
     )
     insert into private.app_secrets (app_id, secret_hash) select id, $6::bytea from app where $6 is not null`,
    [
      ...[name, scopes, isPublic, redirectUris, postLogoutRedirectUris, secret && hashToBytea(secret), displayName],
      ...[requiresPkce, claimsInIdToken],
    ],
  );
  return {
    id: name,
    client: { client_id: name },
    auth: secret === null ? oauth.None() : oauth.ClientSecretBasic(secret),
    secret,
    redirectUri: redirectUris[0] ?? "",
  };
}

/** An authorization request, and the values that its client needs to check the response. */
export interface Asked {
  client: TestClient;
  path: string;
  verifier: string;
  state: string;
  nonce: string;
}

/** Prepares an authorization request. @param given parameters to add or replace; undefined removes one */
export async function ask(
  client: TestClient,
  given: Readonly<Record<string, string | undefined>> = {},
): Promise<Asked> {
  const [verifier, state, nonce] = [
    oauth.generateRandomCodeVerifier(),
    oauth.generateRandomState(),
    oauth.generateRandomNonce(),
  ];
  const parameters: Record<string, string | undefined> = {
    client_id: client.id,
    redirect_uri: client.redirectUri,
    response_type: "code",
    scope: "openid",
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    ...given,
  };
  const known = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return { client, verifier, state, nonce, path: `/oauth/authorize?${new URLSearchParams(known)}` };
}

type Answer = Awaited<ReturnType<Browser["get"]>>;

/** Returns the URL to which an authorization response redirects, with a Location header or a meta refresh. */
export function leadsTo({ location, text }: Pick<Answer, "location" | "text">): URL | null {
  const refresh = /http-equiv="refresh" content="0;url=([^"]+)"/i.exec(text)?.[1]?.replaceAll("&amp;", "&");
  const address = location ?? refresh;
  return address ? new URL(address, base) : null;
}

/** Returns the URL and the account of a consent page's form. */
export function decisionForm(text: string): { action: string; accountId: string } | null {
  const form = /<form[^>]*action="([^"]*\/oauth\/authorize\/decision[^"]*)".*?name="accountId" value="([^"]+)"/s.exec(
    text,
  );
  return form ? { action: (form[1] ?? "").replaceAll("&amp;", "&"), accountId: form[2] ?? "" } : null;
}

/** Completes an authorization by consenting. @returns the client's redirect URL */
export async function consent(browser: Browser, { path }: Pick<Asked, "path">): Promise<URL> {
  const page = await browser.get(path);
  const form = decisionForm(page.text);
  const address = leadsTo(form ? await browser.post(form.action, { accountId: form.accountId }) : page);
  if (!address) throw new Error(`the authorization answered ${page.status}: ${page.words}`);
  return address;
}

/** Checks the state and issuer of an authorization response, as the client does. @returns the response's parameters */
export function answerAt(asked: Asked, address: URL): URLSearchParams {
  return oauth.validateAuthResponse(server, asked.client.client, address, asked.state);
}

export function redeem(
  asked: Asked,
  { address, verifier = asked.verifier }: { address: URL; verifier?: string | typeof oauth.nopkce },
) {
  const { client, auth, redirectUri } = asked.client;
  return oauth.authorizationCodeGrantRequest(
    server,
    client,
    auth,
    answerAt(asked, address),
    redirectUri,
    verifier,
    loopback,
  );
}

/** Signs in at a client by consenting, and redeems the code. */
export async function signInAt(
  browser: Browser,
  client: TestClient,
  given: Readonly<Record<string, string | undefined>> = {},
): Promise<{ asked: Asked; tokens: oauth.TokenEndpointResponse; claims: oauth.IDToken | undefined }> {
  const asked = await ask(client, given);
  const response = await redeem(asked, { address: await consent(browser, asked) });
  const tokens = await oauth.processAuthorizationCodeResponse(server, client.client, response, {
    expectedNonce: "nonce" in given ? (given.nonce ?? oauth.expectNoNonce) : asked.nonce,
  });
  return { asked, tokens, claims: oauth.getValidatedIdTokenClaims(tokens) };
}

/** Refreshes tokens. @returns the unread response */
export function refresh({ client, auth }: TestClient, token: string | undefined, scope?: string): Promise<Response> {
  const options = scope === undefined ? loopback : { ...loopback, additionalParameters: { scope } };
  return oauth.refreshTokenGrantRequest(server, client, auth, token ?? "", options);
}

/** Returns the claims for an access token, or the status of the refusal. */
export async function userinfo({ client }: TestClient, token: string): Promise<Record<string, unknown> | number> {
  const response = await oauth.userInfoRequest(server, client, token, loopback);
  return response.ok ? response.json() : response.status;
}
