import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { cacheable, providerMetadata } from "../../openid/discovery.ts";

export const handle: RouteHandle = { authorization: "client" };

/** `GET /.well-known/openid-configuration` and `GET /.well-known/oauth-authorization-server` (RFC 8414). */
export function loader({ context: { env } }: LoaderFunctionArgs) {
  const metadata = providerMetadata(env.BASE_URL, { allowsRegistration: env.OAUTH_CLIENT_REGISTRATION });
  return Response.json(metadata, { headers: cacheable });
}
