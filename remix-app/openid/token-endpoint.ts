import { createHash } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { requireAppKeys } from "../apps/app-client.ts";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { deriveSuccessor, hashToBytea, refreshWithKeyRing } from "../apps/opaque-tokens.ts";
import { canonicalResource } from "./authorization-request.ts";
import { type ClientRequest, identifyClient, readClientForm, refuseClient } from "./client-auth.ts";
import { answerClientCredentials } from "./client-credentials.ts";
import { redeemDeviceCode } from "./device/redeem-device-code.ts";
import { oauthError } from "./oauth-error.ts";
import { scopesIn } from "./requested-scopes.ts";
import { openSigner, type Signer } from "./signing-keys.ts";
import {
  hashesOf,
  type IssuedTokens,
  issuedTokens,
  newTokenPair,
  type TokenPair,
  tokenPrefixes,
  tokenResponse,
} from "./token-response.ts";

const tokenAnswer = z.union([
  createRefusalSchema("unauthenticated", "token", "target", "scope", "unavailable"),
  issuedTokens,
]);
type TokenAnswer = z.output<typeof tokenAnswer>;

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";

/**
 * Answers `POST /oauth/token` (RFC 6749 section 3.2).
 * @throws Response an OAuth error; 503 if the database does not answer
 */
export async function answerTokenRequest(context: AppLoadContext, request: Request): Promise<Response> {
  const form = await readClientForm(request, context);
  const authorization = request.headers.get("authorization");
  if (form.get("grant_type") === "client_credentials") {
    return answerClientCredentials(context, { form, authorization });
  }
  const clientRequest = identifyClient(form, { authorization, context });
  switch (form.get("grant_type")) {
    case "authorization_code":
      return redeemCode(context, clientRequest);
    case "refresh_token":
      return refreshTokens(context, clientRequest);
    case deviceGrant:
      return redeemDeviceCode(context, {
        client: clientRequest.client,
        deviceCode: requireParameter(clientRequest.form, "device_code"),
      });
    case undefined:
      throw oauthError("invalid_request", { description: "grant_type is required" });
    default:
      throw oauthError("unsupported_grant_type", { description: "This grant_type is not supported" });
  }
}

async function redeemCode(context: AppLoadContext, { client, form }: ClientRequest): Promise<Response> {
  const [code, redirectUri] = [requireParameter(form, "code"), requireParameter(form, "redirect_uri")];
  // Whether the verifier may be missing is decided by the code, which may have been issued without a challenge.
  const verifier = form.get("code_verifier") ?? null;
  // RFC 7636 section 4.1.
  if (verifier !== null && !/^[A-Za-z0-9._~-]{43,128}$/.test(verifier)) {
    throw oauthError("invalid_request", { description: "code_verifier must have 43 to 128 unreserved characters" });
  }
  const resource = resourceIn(form);
  const pair = newTokenPair();
  const sign = await openSigner(context);
  const answer = await callAppFunction(context, {
    name: "redeem_authorization_code",
    args: {
      client_id: client.id,
      secret_hash: client.secretHash,
      code_hash: hashToBytea(code),
      redirect_uri: redirectUri,
      code_challenge: verifier && createHash("sha256").update(verifier).digest("base64url"),
      ...hashesOf(pair),
      resource,
    },
    schema: tokenAnswer,
  });
  return issueTokens(context, { client, answer, pair, sign });
}

async function refreshTokens(context: AppLoadContext, { client, form }: ClientRequest): Promise<Response> {
  const refreshToken = requireParameter(form, "refresh_token");
  const [scopes, resource] = [scopesIn(form), resourceIn(form)];
  const { successor } = await requireAppKeys(context);
  const sign = await openSigner(context);
  const { answer, pair } = await refreshWithKeyRing(successor, async (key) => {
    const derive = (part: string) => deriveSuccessor(refreshToken, { key, part }).toString("base64url");
    const pair: TokenPair = {
      accessToken: tokenPrefixes.access + derive("openid access"),
      refreshToken: tokenPrefixes.refresh + derive("openid refresh"),
    };
    const { access_hash, refresh_hash: successor_hash } = hashesOf(pair);
    const answer = await callAppFunction(context, {
      name: "refresh_openid_tokens",
      args: {
        client_id: client.id,
        secret_hash: client.secretHash,
        refresh_hash: hashToBytea(refreshToken),
        scopes,
        access_hash,
        successor_hash,
        resource,
      },
      schema: tokenAnswer,
    });
    return { answer, pair };
  });
  return issueTokens(context, { client, answer, pair, sign });
}

async function issueTokens(
  context: AppLoadContext,
  {
    client,
    answer,
    pair,
    sign,
  }: Pick<ClientRequest, "client"> & { answer: TokenAnswer; pair: TokenPair; sign: Signer },
): Promise<Response> {
  if (!("refused" in answer)) return tokenResponse(context, { issued: answer satisfies IssuedTokens, pair, sign });
  switch (answer.refused) {
    case "unauthenticated":
      throw await refuseClient(context, client);
    case "unavailable":
      throw appsUnavailable(context);
    case "scope":
      throw oauthError("invalid_scope", { description: "The login does not have these scopes" });
    case "target":
      throw invalidTarget();
    case "token":
      throw oauthError("invalid_grant", { description: "The code or token is invalid, used, expired or revoked" });
  }
}

/** Returns the resource that the tokens are requested for, in its canonical form; null if none is named. */
function resourceIn(form: ReadonlyMap<string, string>): string | null {
  const resourceParameter = form.get("resource");
  if (resourceParameter === undefined) return null;
  const resource = canonicalResource(resourceParameter);
  if (resource === null) throw invalidTarget();
  return resource;
}

function invalidTarget(): Response {
  return oauthError("invalid_target", { description: "The login is not for this resource" });
}

function requireParameter(form: ReadonlyMap<string, string>, name: string): string {
  const value = form.get(name);
  if (value) return value;
  throw oauthError("invalid_request", { description: `${name} is required` });
}
