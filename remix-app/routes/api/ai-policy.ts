import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { parseBudgets } from "../../studio/budgets/budget-amount.ts";
import { changeAiPolicy, policyChange, readAiPolicy } from "../../studio/policy/ai-policy.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

export const handle: RouteHandle = { methods: ["GET", "HEAD", "PATCH"] };

/** `GET /api/v1/workspaces/{wsId}/ai/policy`: returns the workspace's policy and the spend of its budgets. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission: "use_ai_studio" });
  return Response.json(convertAmountsToJsonNumbers(await readAiPolicy(context, member)));
}

/** `PATCH` on the same URL: changes the given fields and returns the resulting policy. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission: "manage_ai_policy" });
  const { requestId } = context;
  const changes = await readJson(request, { schema: policyChange, requestId, parse: parseBudgets });
  const changed = await changeAiPolicy(context, { ...member, changes });
  return Response.json(convertAmountsToJsonNumbers(changed));
}
