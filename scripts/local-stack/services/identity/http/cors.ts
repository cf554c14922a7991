import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import type { Config } from "../config/config.ts";
import type { Env } from "./context.ts";

/** As Supabase Auth: any origin; what a client may read of an error lies in an exposed header. */
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
    exposeHeaders: ["X-Total-Count", "Link", "X-Supabase-Api-Version"],
    credentials: true,
  });
  // OPTIONS is no preflight unless it asks for a method.
  return (c, next) =>
    c.req.method === "OPTIONS" && !c.req.header("access-control-request-method") ? next() : answer(c, next);
}
