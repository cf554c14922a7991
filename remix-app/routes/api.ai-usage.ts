import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { exactAmounts } from "../studio/exact-amounts.ts";
import { readUsage, usageDimensions } from "../studio/usage.ts";
import { readWindowQuery } from "../studio/window-query.ts";
import { requireWorkspacePermission } from "../workspaces/permission.ts";

const dimensions = z.array(z.enum(usageDimensions)).min(1);

/** `GET /api/v1/workspaces/{wsId}/ai/usage?from&to` (api.md); `groupBy` names other dimensions, with commas between. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspacePermission(context, {
    request,
    workspaceId: params.workspaceId,
    permission: "use_ai_studio",
  });
  const reader = { kind: "member", userId: user.id, workspaceId: workspace.id } as const;
  const query = readWindowQuery(request, context);
  const asked = new URL(request.url).searchParams.get("groupBy") ?? "day,model,feature,executionMode";
  const groupBy = dimensions.safeParse(asked.split(","));
  if (!groupBy.success) {
    const detail = `groupBy takes any of ${usageDimensions.join(", ")}.`;
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
  }
  const usage = await readUsage(context, { reader, query, groupBy: groupBy.data });
  return Response.json(exactAmounts({ currency: "USD", workspaceId: workspace.id, ...usage }));
}
