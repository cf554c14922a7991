import type { Gateway } from "../_gateway/calls/gateway.ts";
import { embeddingsSurface } from "../_gateway/embeddings/surface.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { serveSurface } from "../_gateway/serve-surface.ts";

/** Handles `/v1/embeddings`. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter(
    [{ path: /^\/embeddings$/, method: "POST", handle: serveSurface(gateway, embeddingsSurface) }],
    gateway,
  );
}
