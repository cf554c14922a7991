import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { documentOf, originOf } from "../../api-reference/documents.ts";
import type { RouteHandle } from "../../http/route-table.ts";

export const handle: RouteHandle = { methods: ["GET", "HEAD"] };

/** `GET /docs/api/{platform|gateway}.json`: the OpenAPI document of an area, with this server's URL for it. */
export function loader({ request, context }: LoaderFunctionArgs) {
  const area = new URL(request.url).pathname.endsWith("/gateway.json") ? "gateway" : "platform";
  return Response.json({ ...documentOf(area), servers: [{ url: originOf(area, context) }] });
}
