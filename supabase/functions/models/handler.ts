import { readCredential } from "../_gateway/credentials.ts";
import { GatewayError } from "../_gateway/errors.ts";
import type { Gateway } from "../_gateway/gateway.ts";
import { createGateway, type Handler } from "../_gateway/http.ts";
import { readLabels } from "../_gateway/labels.ts";

/** What the catalogue can have for an id at all: no text beyond reaches the database. */
const possibleId = /^[A-Za-z0-9._:/-]{1,128}$/;

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
    if (params.model !== undefined && !possibleId.test(params.model)) {
      await database.checkCredential({ credential, workspace });
      throw new GatewayError("model_not_found");
    }
    const text = await database.listModels({
      credential,
      workspace,
      model: params.model,
      providers: [...providers.keys()],
    });
    return new Response(text, { headers: { "content-type": "application/json" } });
  };
}
