import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import type { Config } from "../config/config.ts";
import type { Env } from "./context.ts";

const exposed = ["X-Total-Count", "Link", "X-Supabase-Api-Version"];

/** The CORS headers of a response that is not a preflight. For routes that respond before the CORS middleware runs. */
export const openToAnyOrigin = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Allow-Credentials": "true",
  "Access-Control-Expose-Headers": exposed.join(","),
};

/**
 * Adds CORS headers like Supabase Auth's: any origin, and the exposed headers that clients need to interpret errors.
 */
export function corsHeaders(config: Config): MiddlewareHandler<Env> {
  const answer = cors({
    origin: "*",
    allowMethods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    allowHeaders: [
      "Accept",
      "Authorization",
      "Content-Type",
      "X-Client-IP",
      "X-Client-Info",
      "X-JWT-AUD",
      "x-use-cookie",
      "X-Supabase-Api-Version",
      ...config.GOTRUE_CORS_ALLOWED_HEADERS,
    ],
    exposeHeaders: exposed,
    credentials: true,
  });
  // OPTIONS is a preflight only if it asks for a method.
  return (c, next) =>
    c.req.method === "OPTIONS" && !c.req.header("access-control-request-method") ? next() : answer(c, next);
}
