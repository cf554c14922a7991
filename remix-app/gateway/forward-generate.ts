import type { AppLoadContext } from "@remix-run/node";
import { readLimitedBody } from "../http/body-limit.ts";
import { callGateway, headersForClient } from "./call-gateway.ts";
import { refuseForGateway, successorLink } from "./gateway-refusal.ts";

/**
 * Request headers that are passed on to the gateway. Cookies and headers that browsers and proxies add are left out.
 */
const forwardedHeaders = [
  "authorization",
  "content-type",
  "idempotency-key",
  "x-platform-workspace-id",
  "x-platform-operation",
  "x-platform-entity-id",
  "x-platform-envelope",
];

/**
 * Forwards a call of the legacy `POST /api/ai/generate` to the gateway function of that name, and returns its answer.
 * The gateway checks the credential; session cookies are ignored.
 */
export async function forwardGenerate(
  context: Pick<AppLoadContext, "env" | "requestId" | "clientAddress">,
  request: Request,
): Promise<Response> {
  const { env, requestId } = context;
  const aiUrl = env.AI_URL;
  const sentRequestId = request.headers.get("x-request-id");
  if (sentRequestId !== null && sentRequestId !== requestId) {
    const message = "The header x-request-id is malformed.";
    return refuseForGateway("invalid_request", { requestId, aiUrl, param: "x-request-id", message });
  }
  const gatewayHeaders = new Headers();
  for (const name of forwardedHeaders) {
    const value = request.headers.get(name);
    if (value !== null) gatewayHeaders.set(name, value);
  }
  const body = await readLimitedBody(request);
  if (body === null) {
    return refuseForGateway("payload_too_large", { requestId, aiUrl, headers: { connection: "close" } });
  }
  const { signal } = request;
  const answer = await callGateway(context, {
    method: "POST",
    path: "/generate",
    headers: gatewayHeaders,
    body,
    signal,
  });
  // An answer that isn't from the function itself has another format, and only shows that the function was not reached.
  if (!answer?.headers.has("deprecation")) {
    await answer?.body?.cancel();
    return refuseForGateway("service_unavailable", { requestId, aiUrl });
  }
  const headers = headersForClient(answer);
  headers.set("link", successorLink(aiUrl));
  return new Response(answer.body, { status: answer.status, headers });
}
