import { z } from "zod";
import { readOrAuthenticate } from "../_gateway/admission/credentials.ts";
import { providersWith } from "../_gateway/admission/endpoints.ts";
import { readCaller, readLabels } from "../_gateway/admission/labels.ts";
import type { Caller, ModelKind } from "../_gateway/database.ts";
import type { Gateway } from "../_gateway/gateway.ts";
import { GatewayError } from "../_gateway/http/errors.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";
import type { Endpoint } from "../_gateway/providers/kinds/kind.ts";

/** What the catalogue can have for an id at all: no text beyond reaches the database. */
const possibleId = /^[A-Za-z0-9._:/-]{1,128}$/;

/** `/v1/models` and `/v1/models/{id}`: what the credential may use at this moment. */
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
    const caller = await readCaller(gateway, request);
    await readOrAuthenticate(
      () => database.checkCredential(caller),
      () => {
        readLabels(request);
        if (params.model !== undefined && !possibleId.test(params.model)) throw new GatewayError("model_not_found");
      },
    );
    const call = { ...caller, model: params.model };
    const text = await database.listModels({ ...call, providers: [...providers.keys()] });
    const endpoints = await endpointsOf(gateway, { call, text });
    return new Response(withEndpoints(text, endpoints), { headers: { "content-type": "application/json" } });
  };
}

/** Which paths need what of a model and its providers. */
const paths = [
  { path: "/v1/chat/completions", kind: "chat", endpoint: "chat" },
  { path: "/v1/responses", kind: "chat", endpoint: "responses" },
  { path: "/v1/embeddings", kind: "embedding", endpoint: "embeddings" },
  { path: "/v1/audio/speech", kind: "speech", endpoint: "speech" },
] as const satisfies { path: string; kind: ModelKind; endpoint: Endpoint }[];

const listed = z.object({ id: z.string(), platform: z.object({ kind: z.string() }) });
const listing = z.union([
  listed.transform((one) => [one]),
  z.object({ data: z.array(listed) }).transform((all) => all.data),
]);
type Listed = z.output<typeof listing>;

/** The paths that serve each model of a listing: those for whose providers alone it is listed too. */
async function endpointsOf(
  { database, providers }: Gateway,
  { call, text }: { call: Caller & { model?: string }; text: string },
): Promise<Map<string, string[]>> {
  const all = listing.parse(JSON.parse(text));
  const byPath = await Promise.all(
    paths.map(async ({ path, kind, endpoint }) => {
      const serving = providersWith(providers, endpoint);
      const models = serving.length === providers.size ? all : await listedFor({ ...call, providers: serving });
      return models.filter(({ platform }) => platform.kind === kind).map(({ id }) => ({ id, path }));
    }),
  );
  const endpoints = new Map<string, string[]>();
  for (const { id, path } of byPath.flat()) endpoints.set(id, [...(endpoints.get(id) ?? []), path]);
  return endpoints;

  async function listedFor(request: Parameters<typeof database.listModels>[0]): Promise<Listed> {
    if (request.providers.length === 0 || all.length === 0) return [];
    try {
      return listing.parse(JSON.parse(await database.listModels(request)));
    } catch (error) {
      if (error instanceof GatewayError && error.code === "model_not_found") return [];
      throw error;
    }
  }
}

/** Adds the paths to a listing's text, in which prices keep all their digits. A quote within a string is escaped there. */
function withEndpoints(text: string, endpoints: ReadonlyMap<string, string[]>): string {
  return text.replace(
    /"id": "([^"]+)".*?"platform": \{/gs,
    (model, id) => `${model}"endpoints": ${JSON.stringify(endpoints.get(id) ?? [])}, `,
  );
}
