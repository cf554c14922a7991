import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { currentRouteRequest } from "../../session/account-operations.ts";
import { accountProblem, explainMissingDevice, parseLastRoute } from "../../session/switch-account.ts";
import { computeSessionTag, VaultUnavailable } from "../../session/vault.ts";

export const handle: RouteHandle = { methods: ["PATCH"] };

/**
 * `PATCH /api/v1/auth/accounts/current`: saves which page the active account is on, so that a later switch returns
 * there.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const { requestId, session } = context;
  const { auth, device, vault, stored: live } = session;
  if (auth.status === "unavailable") throw accountProblem("unavailable", context);
  if (!device) throw accountProblem(explainMissingDevice(context), context);
  if (auth.status !== "authenticated" || !live) throw accountProblem("no_device", context);
  const { route } = await readJson(request, { schema: currentRouteRequest, requestId });
  const currentRoute = parseLastRoute(route, context);
  if (currentRoute === null) {
    throw problem("INVALID_REQUEST", {
      requestId,
      detail: "This page can’t be kept as an account’s current page.",
      members: { param: "route" },
    });
  }
  const { sub: userId, session_id: sessionId } = auth.claims;
  const entry = { userId, sessionId, tag: computeSessionTag(live, vault.keys) };
  await vault.keep({ device: device.device, entry, lastRoute: currentRoute }).catch((error: unknown) => {
    throw error instanceof VaultUnavailable ? accountProblem("unavailable", context) : error;
  });
  return new Response(null, { status: 204 });
}
