import type { LoaderFunctionArgs } from "@remix-run/node";
import { directAdditionsOf } from "../../session/direct-additions.ts";
import { requireUser } from "../../session/user.ts";

/** `GET /api/v1/users/me/additions`: what an app may add to the account at the identity backend. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  return Response.json(directAdditionsOf(await requireUser(context, request), context.env));
}
