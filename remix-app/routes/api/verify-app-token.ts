import type { ActionFunctionArgs } from "@remix-run/server-runtime";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { verifyRequest } from "../../satellites/app-calls.ts";
import { finishSignIn } from "../../satellites/own/app-user.ts";

export const handle: RouteHandle = { side: "satellite", methods: ["POST"] };

/** `POST /api/auth/verify-app-token` on a satellite: redeems a token and keeps what it opens in cookies. */
export async function action({ request, context }: ActionFunctionArgs) {
  const { requestId } = context;
  const signedIn = await finishSignIn(context, await readJson(request, { schema: verifyRequest, requestId }));
  if (signedIn) return Response.json(signedIn);
  const detail = "This sign-in was already used, has expired, or was started in another browser. Sign in again.";
  throw problem("UNAUTHENTICATED", { requestId, detail });
}
