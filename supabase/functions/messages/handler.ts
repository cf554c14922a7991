import type { Gateway } from "../_gateway/calls/gateway.ts";
import { anthropicErrors } from "../_gateway/http/anthropic-errors.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { countTokensSurface, messagesSurface } from "../_gateway/messages/surface.ts";
import { serveSurface } from "../_gateway/serve-surface.ts";

/** Handles `/v1/messages` and `/v1/messages/count_tokens`. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter(
    [
      { path: /^\/messages$/, method: "POST", handle: serveSurface(gateway, messagesSurface) },
      { path: /^\/messages\/count_tokens$/, method: "POST", handle: serveSurface(gateway, countTokensSurface) },
    ],
    gateway,
    anthropicErrors,
  );
}
