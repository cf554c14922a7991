import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";

/** Answers every URL without a route, and shows the server's own refusals as pages. */
export function loader({ context }: LoaderFunctionArgs) {
  throw context.refusal ?? problem("NOT_FOUND", { requestId: context.requestId });
}

export default function NotFoundPage() {
  return null;
}
