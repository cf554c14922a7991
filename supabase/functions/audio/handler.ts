import type { Gateway } from "../_gateway/calls/gateway.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { serveSurface } from "../_gateway/serve-surface.ts";
import { speechSurface } from "../_gateway/speech/surface.ts";

/** Handles `/v1/audio/*`. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter(
    [{ path: /^\/audio\/speech$/, method: "POST", handle: serveSurface(gateway, speechSurface) }],
    gateway,
  );
}
