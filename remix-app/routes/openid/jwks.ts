import type { LoaderFunctionArgs } from "@remix-run/node";
import { documentResponse } from "../../http/json-document.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { publicKeySet } from "../../openid/signing-keys.ts";

export const handle: RouteHandle = { authorization: "client", isDocument: true };

/** `GET /.well-known/jwks.json`: the keys that verify ID tokens and logout tokens (RFC 7517). */
export async function loader({ request, context }: LoaderFunctionArgs) {
  return documentResponse(await publicKeySet(context), request);
}
