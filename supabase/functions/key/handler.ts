import { readOrAuthenticate } from "../_gateway/admission/credentials.ts";
import { readCaller, readLabels } from "../_gateway/admission/labels.ts";
import type { Gateway } from "../_gateway/calls/gateway.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";

/** Handles `GET /v1/key`, which describes the credential, its limits, its spend and the remaining amounts. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter([{ path: /^\/key$/, method: "GET", handle: describeCredential(gateway) }], gateway);
}

function describeCredential(gateway: Gateway): Handler {
  const { database } = gateway;
  return async ({ request }) => {
    const caller = await readCaller(gateway, request);
    await readOrAuthenticate(
      () => database.checkCredential(caller),
      () => readLabels(request),
    );
    const text = await database.describeCredential(caller);
    return new Response(text, { headers: { "content-type": "application/json" } });
  };
}
