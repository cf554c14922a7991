import type { Gateway } from "../_gateway/calls/gateway.ts";
import { generateSurface } from "../_gateway/generate/surface.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { serveSurface } from "../_gateway/serve-surface.ts";

/** When this endpoint was deprecated (RFC 9745). */
const deprecation = "@1767225600";
/** The successor of this endpoint (RFC 8288). */
const successor = '</functions/v1/chat/completions>; rel="successor-version"';

/** Handles `/generate`, to which the web server forwards `/api/ai/generate`. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  const serve = createRouter(
    [{ path: /^\/generate$/, method: "POST", handle: serveSurface(gateway, generateSurface) }],
    gateway,
  );
  return async (request) => {
    const response = await serve(request);
    response.headers.set("deprecation", deprecation);
    response.headers.set("link", successor);
    return response;
  };
}
