import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { readClientRequest } from "../../openid/client-auth.ts";
import { beginDeviceAuthorization } from "../../openid/device/begin-device-authorization.ts";
import { handleClientRequest } from "../../openid/oauth-error.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/device_authorization` (RFC 8628 section 3.1). */
export async function action({ request, context }: ActionFunctionArgs) {
  return handleClientRequest(context, async () =>
    beginDeviceAuthorization(context, await readClientRequest(request, context)),
  );
}
