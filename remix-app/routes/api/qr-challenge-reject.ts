import type { ActionFunctionArgs } from "@remix-run/node";
import { recordEvent } from "../../activity/record-event.ts";
import { readJson } from "../../http/json-body.ts";
import { decideChallenge } from "../../qr-login/handoff.ts";
import { handoffRejection } from "../../session/challenge-operations.ts";
import { requirePhone } from "../../session/user.ts";

/** `POST /api/v1/auth/qr-login/challenges/{id}/reject`: a phone of the requesting account rejects the challenge. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, claims } = await requirePhone(context, request);
  const { secret } = await readJson(request, { schema: handoffRejection, requestId: context.requestId });
  const status = await decideChallenge(context, { key: { id: params.id ?? "", secret }, approve: false, claims });
  await recordEvent(context, { userId: user.id, kind: "qr_rejected" });
  return Response.json({ status });
}
