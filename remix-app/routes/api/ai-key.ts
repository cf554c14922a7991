import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { parseBudgets } from "../../studio/budgets/budget-amount.ts";
import { keyChangeSchema } from "../../studio/keys/key-schema.ts";
import { changeKey, revokeKey } from "../../studio/keys/keys.ts";
import { unknownModelsProblem } from "../../studio/unknown-models.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

export const handle: RouteHandle = { methods: ["PATCH", "DELETE"] };

/**
 * `PATCH /api/v1/workspaces/{wsId}/ai/keys/{id}`: changes a key. `DELETE` on the same URL: revokes it, without an
 * approval or a fresh sign-in.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const isChange = request.method === "PATCH";
  const permission = "manage_ai_keys";
  const { member } = await requireWorkspaceCaller(context, { request, params, permission, fresh: isChange });
  const keyId = params.keyId ?? "";
  if (isChange) {
    const { requestId } = context;
    const { version = null, ...changes } = await readJson(request, {
      schema: keyChangeSchema,
      requestId,
      parse: parseBudgets,
    });
    const changed = await changeKey(context, { ...member, keyId, changes, version });
    switch (changed.outcome) {
      case "changed":
        return Response.json(convertAmountsToJsonNumbers({ key: changed.key }));
      case "unknown_models":
        throw unknownModelsProblem(changed, context);
      case "not_approved":
        throw problem("FORBIDDEN", {
          requestId,
          detail: "The key would allow more than before, which needs the workspace’s approval to create API keys.",
        });
      case "changed_meanwhile":
        throw problem("CONFLICT", {
          requestId,
          detail: "The key has changed since that version. Read it again, and send its current version.",
        });
    }
  }
  await revokeKey(context, { ...member, keyId });
  return new Response(null, { status: 204 });
}
