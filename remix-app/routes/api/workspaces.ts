import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { requireCaller } from "../../satellites/app-caller.ts";
import { listApiWorkspaces } from "../../workspaces/workspace-api.ts";

/** `GET /api/v1/workspaces`: those of the signed-in user, or of the person behind an app session. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const caller = await requireCaller(context, request);
  return Response.json({ workspaces: await listApiWorkspaces(context, caller) });
}
