import { Hono } from "hono";
import type { DataApi } from "../data-api/data-api.ts";
import { createKeyRing } from "./api-keys.ts";
import { authRoute } from "./auth-route.ts";
import type { GatewayConfig } from "./config.ts";
import { crossOrigin, exposedHeaders } from "./cors.ts";
import { functionsRoute } from "./functions-route.ts";
import type { NodeBindings } from "./node-bindings.ts";
import { noRoute } from "./refusals.ts";
import { restRoute } from "./rest-route.ts";
import type { TokenVerifier } from "./user-tokens.ts";

export type GatewayParts = { config: GatewayConfig; dataApi: DataApi; verify: TokenVerifier };

/**
 * Creates the single entry point of the local project, in front of Auth, the Data API and the functions, as on
 * Supabase.
 */
export function createGateway({ config, dataApi, verify }: GatewayParts): Hono<NodeBindings> {
  const keys = createKeyRing(config.keys);
  return new Hono<NodeBindings>()
    .get("/health", (c) => c.json({ name: "gateway", status: "ok" }))
    .use("/auth/v1/*", crossOrigin(exposedHeaders.auth))
    .use("/rest/v1/*", crossOrigin(exposedHeaders.rest))
    .all("/auth/v1/*", authRoute({ origin: config.identityUrl, keys, roleTokens: config.roleTokens }))
    .all("/rest/v1/*", restRoute({ dataApi, keys, verify }))
    .all("/functions/v1/:name/*", functionsRoute({ origin: config.functionsUrl, keys }))
    .all("/functions/v1/:name", functionsRoute({ origin: config.functionsUrl, keys }))
    .notFound((c) => c.json(noRoute.body, noRoute.status))
    .onError((error, c) => {
      console.error(error);
      return c.json({ message: "An unexpected error occurred" }, 500);
    });
}
