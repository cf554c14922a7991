import type { ActionFunctionArgs } from "@remix-run/node";
import { z } from "zod";
import type { RouteHandle } from "../../http/route-table.ts";
import { signOutAccount } from "../../session/sign-out.ts";
import { accountProblem, explainMissingDevice } from "../../session/switch-account.ts";

export const handle: RouteHandle = { methods: ["DELETE"] };

/** `DELETE /api/v1/auth/accounts/{id}`: removes an account from this browser and ends its session. */
export async function action({ params, context }: ActionFunctionArgs) {
  if (!context.session.device) throw accountProblem(explainMissingDevice(context), context);
  const accountId = z.uuid().safeParse(params.accountId);
  if (!accountId.success) throw accountProblem("no_account", context);
  const { status, ...answer } = await signOutAccount(context, accountId.data);
  if (status !== "signed_out") throw accountProblem(status, context);
  return Response.json(answer);
}
