import type { LoaderFunctionArgs } from "@remix-run/node";
import { problem } from "../../http/problem.ts";
import { readWindowQuery } from "../../studio/range.ts";
import { readUsage, usageDimensions, usageQuery } from "../../studio/usage/usage.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/usage?from&to&groupBy`. `groupBy` takes dimensions, separated by commas. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission: "use_ai_studio" });
  const query = readWindowQuery(request, context);
  const groupByParameter = new URL(request.url).searchParams.get("groupBy") ?? undefined;
  const groupBy = usageQuery.shape.groupBy.safeParse(groupByParameter);
  if (!groupBy.success) {
    const detail = `groupBy takes any of ${usageDimensions.join(", ")}. label can only be combined with day.`;
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
  }
  const usage = await readUsage(context, { reader: member, query, groupBy: groupBy.data });
  return Response.json(convertAmountsToJsonNumbers({ currency: "USD", workspaceId: member.workspaceId, ...usage }));
}
