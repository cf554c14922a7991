import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { mintRequest } from "../../satellites/app-calls.ts";
import { mintCrossAppToken, revokeCrossAppTokens } from "../../satellites/handoff.ts";
import { requireUser } from "../../session/user.ts";

export const handle: RouteHandle = { methods: ["POST", "DELETE"] };

const appName = /^[a-z][a-z0-9-]{1,39}$/;

/**
 * `POST /api/v1/auth/cross-app-tokens` mints a token. `DELETE` on the same URL revokes all outstanding tokens. Both
 * require a full session.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireUser(context, request);
  if (request.method === "DELETE") return Response.json({ revoked: await revokeCrossAppTokens(context, user) });
  const { requestId } = context;
  const { targetApp, expirySeconds } = await readJson(request, { schema: mintRequest, requestId });
  if (!appName.test(targetApp)) throw problem("NOT_FOUND", { requestId, detail: "This app doesn’t exist." });
  return Response.json(await mintCrossAppToken(context, { user, targetApp, expirySeconds }), { status: 201 });
}
