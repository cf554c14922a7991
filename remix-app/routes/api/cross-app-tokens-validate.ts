import type { ActionFunctionArgs } from "@remix-run/node";
import { readAppRequest, requireAppClient } from "../../apps/app-client.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { validateRequest } from "../../satellites/app-calls.ts";
import { openAppSessions, previewHandoff, verifyHandoff } from "../../satellites/handoff.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "basic" };

/** `POST /api/v1/auth/cross-app-tokens/validate`: redeems a token for an app's server, or returns null. */
export async function action({ request, context }: ActionFunctionArgs) {
  const client = requireAppClient(request, context);
  const { token, preview } = await readAppRequest(request, { context, client, schema: validateRequest });
  const handoff = await verifyHandoff(context, { client, token });
  if (!handoff) return Response.json(null);
  if (preview) return Response.json(await previewHandoff(context, handoff));
  return Response.json(await openAppSessions(context, { client, handoff }));
}
