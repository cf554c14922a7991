import { readCaller, readLabels } from "../_gateway/admission/labels.ts";
import { readOrAuthenticate } from "../_gateway/admission/read-or-authenticate.ts";
import type { Gateway } from "../_gateway/gateway.ts";
import { GatewayError } from "../_gateway/http/errors.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";

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
    const text = await database.listModels({
      ...caller,
      model: params.model,
      providers: [...providers.keys()],
    });
    return new Response(text, { headers: { "content-type": "application/json" } });
  };
}
