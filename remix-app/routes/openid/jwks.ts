import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { cacheable } from "../../openid/discovery.ts";
import { publicKeys } from "../../openid/signing-keys.ts";

export const handle: RouteHandle = { authorization: "client" };

/** `GET /.well-known/jwks.json`: the keys that verify ID tokens and logout tokens (RFC 7517). */
export async function loader({ context }: LoaderFunctionArgs) {
  return Response.json({ keys: await publicKeys(context) }, { headers: cacheable });
}
