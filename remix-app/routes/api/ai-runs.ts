import type { LoaderFunctionArgs } from "@remix-run/node";
import { readPageQuery } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { formatRun } from "../../studio/runs/run-body.ts";
import { runQuery } from "../../studio/runs/run-schema.ts";
import { listRuns } from "../../studio/runs/runs.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/runs?…`: lists runs by range and filters, newest or largest first. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission: "use_ai_studio" });
  const page = readPageQuery(request, context);
  const query = runQuery.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (!query.success) {
    const detail = `${String(query.error.issues[0]?.path[0])}: This value is not valid.`;
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
  }
  const { sort, limit: _, cursor: __, ...filter } = query.data;
  const { runs, nextCursor } = await listRuns(context, { ...member, filter, sort, ...page });
  return Response.json({ runs: runs.map(formatRun), nextCursor });
}
