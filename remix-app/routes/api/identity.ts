import type { ActionFunctionArgs } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { unlinkIdentity } from "../../session/sign-in-methods.ts";
import { requireFreshUser } from "../../session/user.ts";

export const handle: RouteHandle = { methods: ["DELETE"] };

/** `DELETE /api/v1/users/me/identities/{id}`: unlinks an account. Returns 409 for the last usable way to sign in. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const id = z.uuid().safeParse(params.identityId);
  if (!id.success) throw problem("NOT_FOUND", { requestId: context.requestId });
  await unlinkIdentity(context, { user, id: id.data });
  return new Response(null, { status: 204 });
}
