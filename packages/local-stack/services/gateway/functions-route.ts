import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import type { KeyRing } from "./api-keys.ts";
import { forward, forwardedHeaders } from "./forward.ts";
import type { NodeBindings } from "./node-bindings.ts";
import { unavailable } from "./refusals.ts";

/**
 * Serves `/functions/v1/<name>/*`. Checks neither keys nor tokens and adds no CORS headers, since both are up to the
 * function (`verify_jwt = false`).
 */
export function functionsRoute({ origin, keys }: { origin: string; keys: KeyRing }) {
  return (c: Context<NodeBindings>) => {
    const headers = forwardedHeaders(c.env.incoming);
    if (keys.identify(String(headers.apikey ?? "")) !== "secret") delete headers["sb-forwarded-for"];
    forward(c.env.incoming, c.env.outgoing, {
      origin,
      path: c.env.incoming.url ?? "",
      headers,
      unreachable: unavailable("functions"),
    });
    return RESPONSE_ALREADY_SENT;
  };
}
