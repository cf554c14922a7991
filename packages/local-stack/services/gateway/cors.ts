import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { MiddlewareHandler } from "hono";

const methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
const preflightMaxAgeSeconds = "86400";
const allowedHeaders = [
  "accept",
  "accept-profile",
  "apikey",
  "authorization",
  "content-profile",
  "content-type",
  "prefer",
  "range",
  "range-unit",
  "x-client-info",
  "x-supabase-api-version",
];

/** The response headers that browser code may read: GoTrue's for Auth, and PostgREST's for the Data API. */
export const exposedHeaders = {
  auth: "X-Total-Count, Link, X-Supabase-Api-Version",
  rest: "Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Preference-Applied, Range-Unit",
};

/** Lets pages of any origin call the API, since it takes its credentials from headers and never from cookies. */
export function crossOrigin(exposed: string): MiddlewareHandler {
  return async (c, next) => {
    if (c.req.method === "OPTIONS" && c.req.header("access-control-request-method")) {
      const requestedHeaders = (c.req.header("access-control-request-headers") ?? "").toLowerCase().split(/\s*,\s*/);
      const allowed = new Set([...allowedHeaders, ...requestedHeaders.filter((name) => /^[a-z0-9-]+$/.test(name))]);
      return c.body(null, 204, {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": methods,
        "access-control-allow-headers": [...allowed].join(", "),
        "access-control-max-age": preflightMaxAgeSeconds,
        vary: "Access-Control-Request-Headers",
      });
    }
    await next();
    if (c.res === RESPONSE_ALREADY_SENT) return;
    for (const [name, value] of Object.entries(crossOriginHeaders(exposed))) c.res.headers.set(name, value);
  };
}

/** Returns the CORS headers of `crossOrigin` for a response that does not pass through the router. */
export function crossOriginHeaders(exposed: string): Record<string, string> {
  return { "access-control-allow-origin": "*", "access-control-expose-headers": exposed };
}
