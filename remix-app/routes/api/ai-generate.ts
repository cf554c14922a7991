import type { ActionFunctionArgs } from "@remix-run/node";
import { forwardGenerate } from "../../gateway/forward-generate.ts";
import type { RouteHandle } from "../../http/route-table.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "gateway" };

/** `POST /api/ai/generate`: the legacy adapter at its original URL. New code calls the gateway. */
export function action({ request, context }: ActionFunctionArgs) {
  return forwardGenerate(context, request);
}
