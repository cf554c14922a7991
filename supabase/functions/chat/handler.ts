import type { Gateway } from "../_gateway/calls/gateway.ts";
import { chatSurface } from "../_gateway/chat/surface.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { serveSurface } from "../_gateway/serve-surface.ts";

/** Handles `/v1/chat/*`. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter(
    [{ path: /^\/chat\/completions$/, method: "POST", handle: serveSurface(gateway, chatSurface) }],
    gateway,
  );
}
