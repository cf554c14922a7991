import type { LoaderFunctionArgs } from "@remix-run/node";
import { readWindowQuery } from "../../studio/range.ts";
import { readCredits } from "../../studio/usage/usage.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/credits`: returns balances, the ledger and the usage. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission: "use_ai_studio" });
  const query = readWindowQuery(request, context);
  return Response.json(
    convertAmountsToJsonNumbers({
      workspaceId: member.workspaceId,
      ...(await readCredits(context, { reader: member, query })),
    }),
  );
}
