import type { LoaderFunctionArgs } from "@remix-run/node";
import { servedDocument } from "../../api-reference/documents.ts";
import { documentResponse } from "../../http/json-document.ts";
import type { RouteHandle } from "../../http/route-table.ts";

export const handle: RouteHandle = { isDocument: true };

/** `GET /docs/api/platform.json`: the OpenAPI document of the platform, with this server's URL for it. */
export function loader({ request, context }: LoaderFunctionArgs) {
  return documentResponse(servedDocument("platform", context), request);
}
