import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { type SwitchResponse, switchRequest } from "../../session/account-operations.ts";
import {
  accountProblem,
  chooseEntryPath,
  explainMissingDevice,
  parseLastRoute,
  switchAccount,
} from "../../session/switch-account.ts";

/** `POST /api/v1/auth/accounts/switch`: makes another of this browser's accounts the active one. */
export async function action({ request, context }: ActionFunctionArgs) {
  const { requestId, session } = context;
  if (!session.device) throw accountProblem(explainMissingDevice(context), context);
  const { accountId, targetRoute, currentRoute } = await readJson(request, { schema: switchRequest, requestId });
  const outcome = await switchAccount(context, { accountId, leaving: parseLastRoute(currentRoute, context) });
  if (outcome.status !== "switched") throw accountProblem(outcome.status, context);
  const redirectTo = chooseEntryPath({ targetRoute, lastRoute: outcome.lastRoute, context });
  return Response.json({ accountId, redirectTo } satisfies SwitchResponse);
}
