import type { ActionFunctionArgs } from "@remix-run/node";
import { decideDeviceAuthorization, requireDeviceAuthorization } from "../../openid/device/device-authorization.ts";
import { requirePhone } from "../../session/user.ts";

/**
 * `POST /api/v1/auth/device-authorizations/{userCode}/deny`: denies the request, without an entry in the activity log.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user } = await requirePhone(context, request);
  const found = await requireDeviceAuthorization(context, { user, typed: params.userCode ?? "" });
  return Response.json({ status: await decideDeviceAuthorization(context, { user, request: found, approve: false }) });
}
