import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { readPageQuery } from "../../http/list-page.ts";
import { parseBudgets } from "../../studio/budgets/budget-amount.ts";
import { newKeySchema } from "../../studio/keys/key-schema.ts";
import { createKey, listKeys } from "../../studio/keys/keys.ts";
import { unknownModelsProblem } from "../../studio/unknown-models.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

const permission = "manage_ai_keys";

/** `GET /api/v1/workspaces/{wsId}/ai/keys`: lists a page of keys, without their secrets. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission });
  const page = readPageQuery(request, context);
  return Response.json(convertAmountsToJsonNumbers(await listKeys(context, { ...member, ...page })));
}

/** `POST` on the same URL: creates a key. Only this response ever contains its secret. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requireWorkspaceCaller(context, { request, params, permission, fresh: true });
  const { requestId } = context;
  const key = await readJson(request, { schema: newKeySchema, requestId, parse: parseBudgets });
  const made = await createKey(context, { ...member, key });
  if ("models" in made) throw unknownModelsProblem(made, context);
  return Response.json(convertAmountsToJsonNumbers(made), { status: 201 });
}
