import type { LoaderFunctionArgs } from "@remix-run/node";
import { problem } from "../http/problem.ts";

/**
 * Responds to every URL without a route with 404. If the server has already refused the request, shows that refusal as
 * a page.
 */
export function loader({ context }: LoaderFunctionArgs) {
  throw context.refusal ?? problem("NOT_FOUND", { requestId: context.requestId });
}

export default function NotFoundPage() {
  return null;
}
