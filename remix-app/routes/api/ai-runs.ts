import type { LoaderFunctionArgs } from "@remix-run/node";
import { readPageQuery } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { runFilter } from "../../studio/runs/run-schema.ts";
import { formatRun, listRuns } from "../../studio/runs/runs.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/runs?…`: lists runs by range and filters. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const page = readPageQuery(request, context);
  const filter = runFilter.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (!filter.success) {
    const detail = `${String(filter.error.issues[0]?.path[0])}: This value is not valid.`;
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
  }
  const query = { ...member, filter: filter.data, ...page };
  const { runs, nextCursor } = await listRuns(context, query);
  return Response.json({ runs: runs.map(formatRun), nextCursor });
}
