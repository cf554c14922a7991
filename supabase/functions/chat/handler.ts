import { chatCompletions } from "../_gateway/chat-completions.ts";
import type { Gateway } from "../_gateway/gateway.ts";
import { createGateway } from "../_gateway/http.ts";

/** `/v1/chat/*`. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createGateway(
    [{ path: /^\/chat\/completions$/, method: "POST", handle: chatCompletions(gateway) }],
    gateway.report,
  );
}
