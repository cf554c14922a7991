import type { LoaderFunctionArgs } from "@remix-run/node";
import { documentResponse } from "../../http/json-document.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { metadataDocument } from "../../openid/discovery.ts";

export const handle: RouteHandle = { authorization: "client", isDocument: true };

/** `GET /.well-known/openid-configuration` and `GET /.well-known/oauth-authorization-server` (RFC 8414). */
export function loader({ request, context: { env } }: LoaderFunctionArgs) {
  return documentResponse(metadataDocument(env), request);
}
