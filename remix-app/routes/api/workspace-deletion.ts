import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { requireFreshUser } from "../../session/user.ts";
import { deleteWorkspace } from "../../workspaces/create-workspace.ts";
import { workspaceProblem } from "../../workspaces/failures.ts";
import { requirePermission } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { methods: ["DELETE"] };

/** `DELETE /api/workspaces/{wsId}`: requires a full session, by cookie or bearer token. Refuses app sessions. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, workspace } = await requirePermission(context, {
    request,
    params,
    permission: "manage_workspace_settings",
  });
  await requireFreshUser(context, request);
  const error = await deleteWorkspace(user, workspace.id);
  if (error) throw workspaceProblem(error, context);
  return new Response(null, { status: 204 });
}
