import { cors } from "hono/cors";
import type { Config } from "../config/config.ts";

/** As Supabase Auth: any origin; what a client may read of an error lies in an exposed header. */
export function corsHeaders(config: Config) {
  return cors({
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
}
