import { readCredential } from "../_gateway/credentials.ts";
import type { Gateway } from "../_gateway/gateway.ts";
import { createGateway, type Handler } from "../_gateway/http.ts";
import { readLabels } from "../_gateway/labels.ts";

/** `/v1/models` and `/v1/models/{id}`: what the credential may use at this moment. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createGateway(
    [
      { path: /^\/models$/, method: "GET", handle: listModels(gateway) },
      { path: /^\/models\/(?<model>.+)$/, method: "GET", handle: listModels(gateway) },
    ],
    gateway.report,
  );
}

function listModels({ database, providers }: Gateway): Handler {
  return async ({ request, params }) => {
    const credential = await readCredential(request);
    const { workspace } = readLabels(request);
    const text = await database.listModels({
      credential,
      workspace,
      model: params.model,
      providers: [...providers.keys()],
    });
    return new Response(text, { headers: { "content-type": "application/json" } });
  };
}
