import type { Gateway } from "../_gateway/gateway.ts";
import { generateSurface } from "../_gateway/generate/surface.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { serveSurface } from "../_gateway/serve-surface.ts";

/** RFC 9745 and RFC 8288: since when this endpoint is deprecated, and what takes its place. */
const deprecation = {
  deprecation: "@1767225600",
  link: '</v1/chat/completions>; rel="successor-version"',
} as const;

/** `/api/ai/generate`, as the gateway in front maps it. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  const serve = createRouter(
    [{ path: /^\/generate$/, method: "POST", handle: serveSurface(gateway, generateSurface) }],
    gateway,
  );
  return async (request) => {
    const response = await serve(request);
    for (const [name, value] of Object.entries(deprecation)) response.headers.set(name, value);
    return response;
  };
}
