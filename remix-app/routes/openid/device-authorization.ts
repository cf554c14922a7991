import type { ActionFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { readClientRequest } from "../../openid/client-auth.ts";
import { beginDeviceAuthorization } from "../../openid/device/begin-device-authorization.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/device_authorization` (RFC 8628 section 3.1). */
export async function action({ request, context }: ActionFunctionArgs) {
  return beginDeviceAuthorization(context, await readClientRequest(request, context));
}
