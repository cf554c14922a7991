import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { requireCaller } from "../../satellites/app-caller.ts";
import {
  readApiWorkspace,
  renameApiWorkspace,
  requireRenaming,
  workspaceChange,
} from "../../workspaces/workspace-api.ts";

export const handle: RouteHandle = { methods: ["GET", "HEAD", "PATCH"] };

/** `GET /api/v1/workspaces/{wsId}`. Accepts app sessions. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const caller = await requireCaller(context, request);
  return Response.json(await readApiWorkspace(context, { caller, workspaceId: params.workspaceId }));
}

/** `PATCH /api/v1/workspaces/{wsId}`. Accepts app sessions. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspaceId } = params;
  const caller = await requireCaller(context, request);
  await requireRenaming(context, { caller, workspaceId });
  const { name } = await readJson(request, { schema: workspaceChange, requestId: context.requestId });
  return Response.json(await renameApiWorkspace(context, { caller, workspaceId, name }));
}
