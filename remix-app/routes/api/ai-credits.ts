import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { readWindowQuery } from "../../studio/range.ts";
import { readCredits } from "../../studio/usage/usage.ts";
import { exactAmounts } from "../../ui/format-amount.ts";
import { requireWorkspacePermission } from "../../workspaces/permission.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/credits`: balances, the ledger, and what was used. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspacePermission(context, {
    request,
    workspaceId: params.workspaceId,
    permission: "use_ai_studio",
  });
  const reader = { kind: "member", userId: user.id, workspaceId: workspace.id } as const;
  const query = readWindowQuery(request, context);
  return Response.json(exactAmounts({ workspaceId: workspace.id, ...(await readCredits(context, { reader, query })) }));
}
