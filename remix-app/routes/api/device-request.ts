import type { LoaderFunctionArgs } from "@remix-run/node";
import { requireDeviceAuthorization } from "../../openid/device/device-authorization.ts";
import type { DeviceRequest } from "../../openid/device/device-operations.ts";
import { formatUserCode } from "../../openid/device/user-code.ts";
import { requirePhone } from "../../session/user.ts";

/** `GET /api/v1/auth/device-authorizations/{userCode}`: returns what a phone shows before its user decides. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user } = await requirePhone(context, request);
  const found = await requireDeviceAuthorization(context, { user, typed: params.userCode ?? "" });
  const { userCode, state, ...facts } = found;
  return Response.json({ ...facts, userCode: formatUserCode(userCode), status: state } satisfies DeviceRequest);
}
