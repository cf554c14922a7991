import type { ActionFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { decideDeviceAuthorization, requireDeviceAuthorization } from "../../openid/device/device-authorization.ts";
import { deviceApproval } from "../../openid/device/device-operations.ts";
import { requireLocalAuthentication } from "../../session/challenge.ts";
import { requireFreshPhone } from "../../session/user.ts";

/**
 * `POST /api/v1/auth/device-authorizations/{userCode}/approve`: a phone approves the device's request, by the same
 * rules as a QR handoff. It must have signed in recently, because the device's login outlives the phone's session.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const user = await requireFreshPhone(context, request);
  const { device } = await readJson(request, { schema: deviceApproval, requestId: context.requestId });
  requireLocalAuthentication(context, device);
  const found = await requireDeviceAuthorization(context, { user, typed: params.userCode ?? "" });
  return Response.json({ status: await decideDeviceAuthorization(context, { user, request: found, approve: true }) });
}
