import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { revokeKey } from "../../studio/keys/keys.ts";
import { requirePermission } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { methods: ["DELETE"] };

/** `DELETE /api/v1/workspaces/{wsId}/ai/keys/{id}`: revokes a key. Needs no approval. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "manage_ai_keys" });
  await revokeKey(context, { ...member, keyId: params.keyId ?? "" });
  return new Response(null, { status: 204 });
}
