import type { Gateway } from "../_gateway/calls/gateway.ts";
import { bodyLimits } from "../_gateway/http/body.ts";
import { GatewayError } from "../_gateway/http/errors.ts";
import { parseBody } from "../_gateway/http/parse-body.ts";
import { parseJson } from "../_gateway/http/parse-json.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";
import { type RouteTestAnswer, routeTestRequest } from "../_shared/provider-setup.ts";
import { describeProviders } from "./provider-listing.ts";
import { testRoute } from "./route-test.ts";

/**
 * Handles `GET /v1/providers` and `POST /v1/providers/test` of our own web server. No caller's credential may use them:
 * a test call costs the operator money, and the list names the operator's accounts.
 */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter(
    [
      { path: /^\/providers$/, method: "GET", handle: onlyForWebServer(gateway, listProviders(gateway)) },
      { path: /^\/providers\/test$/, method: "POST", handle: onlyForWebServer(gateway, answerTest(gateway)) },
    ],
    gateway,
  );
}

/**
 * Refuses all requests without one of the project's secret keys, before anything else of them is read. Hosted functions
 * get the keys in the header `apikey` too (https://supabase.com/docs/guides/functions/auth-headers).
 */
function onlyForWebServer({ isWebServer }: Pick<Gateway, "isWebServer">, handle: Handler): Handler {
  return async (call) => {
    if (!isWebServer(call.request)) throw new GatewayError("invalid_api_key");
    return handle(call);
  };
}

function listProviders({ providers }: Gateway): Handler {
  return async () => Response.json(describeProviders(providers));
}

function answerTest(gateway: Gateway): Handler {
  return async ({ request, requestId }) => {
    const { readBody } = gateway;
    // The request belongs to no workspace.
    const body = await readBody(request, { limitBytes: bodyLimits.import, check: async () => "" });
    try {
      const test = parseBody(routeTestRequest, parseJson(request, body.bytes));
      const answer: RouteTestAnswer = await testRoute(gateway, { ...test, requestId, signal: request.signal });
      return Response.json(answer);
    } finally {
      body.release();
    }
  };
}
