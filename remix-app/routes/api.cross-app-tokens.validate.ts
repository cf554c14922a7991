import type { ActionFunctionArgs } from "@remix-run/server-runtime";
import { z } from "zod";
import { readJson } from "../http/json-body.ts";
import type { RouteHandle } from "../http/route-table.ts";
import { requireAppClient } from "../satellites/app-client.ts";
import { openAppSessions, previewHandoff, proveHandoff } from "../satellites/handoff.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "basic" };

const schema = z.strictObject({
  token: z.string().max(8192),
  /** Only tells whom the token would sign in, for "Continue as …"; redeems nothing. */
  preview: z.boolean().default(false),
});

/** `POST /api/v1/auth/cross-app-tokens/validate` (api.md): an app's server redeems a token, or is told null. */
export async function action({ request, context }: ActionFunctionArgs) {
  const client = requireAppClient(request, context);
  const { token, preview } = await readJson(request, { schema, requestId: context.requestId });
  const handoff = await proveHandoff(context, { client, token });
  if (!handoff) return Response.json(null);
  if (preview) return Response.json(await previewHandoff(context, handoff));
  return Response.json(await openAppSessions(context, { client, handoff }));
}
