import type { ActionFunctionArgs } from "@remix-run/server-runtime";
import { z } from "zod";
import { recordEvent } from "../activity/record-event.ts";
import { readJson } from "../http/json-body.ts";
import { requirePhone } from "../login-challenges/parties.ts";
import { decideChallenge } from "../qr-login/decide.ts";

const schema = z.strictObject({ secret: z.string().min(1).max(128) });

/** `POST /api/v1/auth/qr-login/challenges/{id}/reject` (api.md): the phone of the account that asked. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, claims } = await requirePhone(context, request);
  const { secret } = await readJson(request, { schema, requestId: context.requestId });
  const status = await decideChallenge(context, { key: { id: params.id ?? "", secret }, approve: false, claims });
  await recordEvent(context, { userId: user.id, kind: "qr_rejected" });
  return Response.json({ status });
}
