import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { startSignIn } from "../../satellites/own/app-user.ts";

export const handle: RouteHandle = { side: "satellite" };

/** Sends the browser to the platform's sign-in. */
export function loader({ request, context }: LoaderFunctionArgs) {
  throw startSignIn(context, new URL(request.url).searchParams.get("returnTo"));
}
