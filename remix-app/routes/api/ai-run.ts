import type { LoaderFunctionArgs } from "@remix-run/node";
import { runDetailBody } from "../../studio/runs/run-body.ts";
import { readRun } from "../../studio/runs/runs.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/runs/{id}`: returns one run with its steps and requests to providers. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission: "use_ai_studio" });
  const found = await readRun(context, { ...member, runId: params.runId ?? "" });
  return Response.json(runDetailBody(found));
}
