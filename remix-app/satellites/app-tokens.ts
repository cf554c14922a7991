import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { createAiCredential } from "#shared/ai-key.ts";
import { type AppClient, refuseApp, requireAppKeys } from "../apps/app-client.ts";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { deriveSuccessor, hashToBytea, newOpaqueToken, refreshWithKeyRing } from "../apps/opaque-tokens.ts";
import { problem } from "../http/problem.ts";
import type { ExchangeRequest, IssuedAppToken } from "./app-calls.ts";
import { reauthRequired, sessionHash, type TokenOfApp } from "./app-sessions.ts";
import { verifyHandoff } from "./handoff.ts";

const refreshPrefix = "ttr_ref_";
const accessPrefix = "ttr_app_";
const tokenAnswer = z.union([
  createRefusalSchema("unauthenticated", "token", "scope", "workspace", "unavailable"),
  z.object({ user: z.uuid(), workspace: z.uuid(), scopes: z.array(z.string()), expiresAt: z.string() }),
]);

/** Returns whether a text has the form of a gateway access token or its refresh token. */
function isAppToken(text: string): boolean {
  return text.startsWith(accessPrefix) || text.startsWith(refreshPrefix);
}

/** The plain tokens of the next pair. The database gets only their hashes. */
interface Pair {
  access: { text: string; lookup: string };
  refreshToken: string;
}

/** Issues an access token to an external app. The token opens the gateway for one person in one workspace. */
export function exchangeAppToken(
  context: AppLoadContext,
  { client, request }: { client: AppClient; request: ExchangeRequest },
): Promise<IssuedAppToken> {
  return "token" in request
    ? redeemCrossAppToken(context, { client, request })
    : redeemRefreshToken(context, { client, request });
}

async function redeemCrossAppToken(
  context: AppLoadContext,
  { client, request }: { client: AppClient; request: Extract<ExchangeRequest, { token: string }> },
): Promise<IssuedAppToken> {
  const handoff = await verifyHandoff(context, { client, token: request.token });
  if (!handoff) throw reauthRequired(context);
  const pair: Pair = { access: await createAiCredential("app_token"), refreshToken: newOpaqueToken(refreshPrefix) };
  const answer = await callAppFunction(context, {
    name: "exchange_cross_app_token",
    args: {
      ...client.credentials,
      token_hash: handoff.tokenHash,
      proof: handoff.proof,
      facts: handoff.facts,
      workspace_id: request.workspaceId,
      scopes: request.scopes ?? null,
      access_lookup: pair.access.lookup,
      access_hash: hashToBytea(pair.access.text),
      refresh_hash: hashToBytea(pair.refreshToken),
    },
    schema: tokenAnswer,
  });
  return toIssuedToken(context, { answer, pair });
}

async function redeemRefreshToken(
  context: AppLoadContext,
  { client, request }: { client: AppClient; request: Extract<ExchangeRequest, { refreshToken: string }> },
): Promise<IssuedAppToken> {
  const { successor } = await requireAppKeys(context);
  const { refreshToken } = request;
  const refreshed = await refreshWithKeyRing(successor, async (key) => {
    const derive = (part: string) => deriveSuccessor(refreshToken, { key, part });
    const pair: Pair = {
      access: await createAiCredential("app_token", (length) => derive(`access ${length}`).subarray(0, length)),
      refreshToken: refreshPrefix + derive("refresh").toString("base64url"),
    };
    const answer = await callAppFunction(context, {
      name: "refresh_app_token",
      args: {
        ...client.credentials,
        refresh_hash: hashToBytea(refreshToken),
        workspace_id: request.workspaceId,
        scopes: request.scopes ?? null,
        access_lookup: pair.access.lookup,
        access_hash: hashToBytea(pair.access.text),
        successor_hash: hashToBytea(pair.refreshToken),
      },
      schema: tokenAnswer,
    });
    return { answer, pair };
  });
  return toIssuedToken(context, refreshed);
}

async function toIssuedToken(
  context: AppLoadContext,
  { answer, pair }: { answer: z.infer<typeof tokenAnswer>; pair: Pair },
): Promise<IssuedAppToken> {
  if (!("refused" in answer)) {
    return {
      userId: answer.user,
      accessToken: pair.access.text,
      expiresAt: new Date(answer.expiresAt).toISOString(),
      refreshToken: pair.refreshToken,
      scopes: answer.scopes,
      workspaceId: answer.workspace,
    };
  }
  const { requestId } = context;
  switch (answer.refused) {
    case "unauthenticated":
      throw await refuseApp(context);
    case "unavailable":
      throw appsUnavailable(context);
    case "token":
      throw reauthRequired(context);
    case "scope":
      throw problem("INVALID_REQUEST", {
        requestId,
        detail: "The app's registration, or the token before, does not carry these scopes.",
        members: { param: "scopes" },
      });
    case "workspace":
      throw problem("FORBIDDEN", {
        requestId,
        detail: "The app is not linked to this workspace, or the person does not belong to it.",
      });
  }
}

/**
 * Revokes an app session or a gateway token, and all other credentials that the app received through the same handoff.
 * An invalid token is not an error (RFC 7009).
 * @throws Response 401 if the app's credentials are invalid
 */
export async function revokeAppCredential(context: AppLoadContext, { client, token }: TokenOfApp): Promise<void> {
  const isAuthenticated = await callAppFunction(context, {
    name: "revoke_app_credential",
    args: {
      ...client.credentials,
      token_hash: isAppToken(token) ? hashToBytea(token) : await sessionHash(token, await requireAppKeys(context)),
    },
    schema: z.boolean(),
  });
  if (!isAuthenticated) throw await refuseApp(context);
}
