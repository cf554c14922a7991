import { readOrAuthenticate } from "../_gateway/admission/credentials.ts";
import { listProvidersWithEndpoint, listRegions } from "../_gateway/admission/endpoints.ts";
import { readCaller, readLabels } from "../_gateway/admission/labels.ts";
import type { Gateway } from "../_gateway/calls/gateway.ts";
import type { ModelKind } from "../_gateway/database/database.ts";
import { usesAnthropicApi } from "../_gateway/http/anthropic-errors.ts";
import { GatewayError } from "../_gateway/http/errors.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";
import type { Endpoint } from "../_gateway/providers/kinds/kind.ts";
import { anthropicListing } from "./anthropic-listing.ts";
import { describeModels } from "./model-listing.ts";

/** The format of every model id. Other texts never reach the database. */
const possibleId = /^[A-Za-z0-9._:/-]{1,128}$/;

/** Handles `/v1/models` and `/v1/models/{id}`, which list what the credential may use at this moment. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter(
    [
      { path: /^\/models$/, method: "GET", handle: listModels(gateway) },
      { path: /^\/models\/(?<model>.+)$/, method: "GET", handle: listModels(gateway) },
    ],
    gateway,
  );
}

function listModels(gateway: Gateway): Handler {
  const { database, providers } = gateway;
  return async ({ request, params }) => {
    const isAnthropic = usesAnthropicApi(request);
    const caller = await readCaller(gateway, request, isAnthropic ? "x-api-key" : undefined);
    await readOrAuthenticate(
      () => database.checkCredential(caller),
      () => {
        readLabels(request);
        if (params.model !== undefined && !possibleId.test(params.model)) throw new GatewayError("model_not_found");
      },
    );
    const answer = await database.listModels({
      ...caller,
      model: params.model,
      providers: [...providers.keys()],
      regions: listRegions(providers),
      paths: paths.map(({ path, kind, endpoint }) => ({
        path,
        kind,
        providers: listProvidersWithEndpoint(providers, endpoint),
      })),
    });
    if (isAnthropic) return Response.json(anthropicListing(answer));
    return new Response(describeModels(answer), { headers: { "content-type": "application/json" } });
  };
}

/** The model kind and provider endpoint that each path requires. */
const paths = [
  { path: "/v1/chat/completions", kind: "chat", endpoint: "chat" },
  { path: "/v1/responses", kind: "chat", endpoint: "responses" },
  { path: "/v1/messages", kind: "chat", endpoint: "messages" },
  { path: "/v1/embeddings", kind: "embedding", endpoint: "embeddings" },
  { path: "/v1/audio/speech", kind: "speech", endpoint: "speech" },
] as const satisfies { path: string; kind: ModelKind; endpoint: Endpoint }[];
