import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { rotationSchema } from "../../studio/keys/key-schema.ts";
import { rotateKey } from "../../studio/keys/keys.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

/** `POST /api/v1/workspaces/{wsId}/ai/keys/{id}/rotate`. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const permission = "manage_ai_keys";
  const { member } = await requireWorkspaceCaller(context, { request, params, permission, fresh: true });
  const { overlapSeconds } = await readJson(request, { schema: rotationSchema, requestId: context.requestId });
  const manager = { ...member, keyId: params.keyId ?? "" };
  return Response.json(convertAmountsToJsonNumbers(await rotateKey(context, { ...manager, overlapSeconds })), {
    status: 201,
  });
}
