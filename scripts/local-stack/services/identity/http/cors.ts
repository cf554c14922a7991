import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import type { Config } from "../config/config.ts";
import type { Env } from "./context.ts";

const exposed = ["X-Total-Count", "Link", "X-Supabase-Api-Version"];

/** What an answer to a plain request carries, for routes that answer before the middleware. */
export const openToAnyOrigin = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Allow-Credentials": "true",
  "Access-Control-Expose-Headers": exposed.join(","),
};

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
    exposeHeaders: exposed,
    credentials: true,
  });
  // OPTIONS is no preflight unless it asks for a method.
  return (c, next) =>
    c.req.method === "OPTIONS" && !c.req.header("access-control-request-method") ? next() : answer(c, next);
}
