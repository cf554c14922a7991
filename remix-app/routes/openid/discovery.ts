import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { cacheable, providerMetadata } from "../../openid/discovery.ts";

export const handle: RouteHandle = { authorization: "client" };

/** `GET /.well-known/openid-configuration` and `GET /.well-known/oauth-authorization-server` (RFC 8414). */
export function loader({ context: { env } }: LoaderFunctionArgs) {
  return Response.json(providerMetadata(env.BASE_URL), { headers: cacheable });
}
