import type { Gateway } from "../_gateway/calls/gateway.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { responsesSurface } from "../_gateway/responses/surface.ts";
import { serveSurface } from "../_gateway/serve-surface.ts";

/** Handles `/v1/responses`. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter(
    [{ path: /^\/responses$/, method: "POST", handle: serveSurface(gateway, responsesSurface) }],
    gateway,
  );
}
