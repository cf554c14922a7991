import type { ActionFunctionArgs } from "@remix-run/node";
import { recordEvent } from "../../activity/record-event.ts";
import { readJson } from "../../http/json-body.ts";
import { decideChallenge } from "../../qr-login/handoff.ts";
import { requireLocalAuthentication } from "../../session/challenge.ts";
import { handoffApproval } from "../../session/challenge-operations.ts";
import { requirePhone } from "../../session/user.ts";

/**
 * `POST /api/v1/auth/qr-login/challenges/{id}/approve`: lets a phone approve a QR challenge of the account that the
 * phone is signed in to.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, claims } = await requirePhone(context, request);
  const { requestId } = context;
  const { secret, device } = await readJson(request, { schema: handoffApproval, requestId });
  requireLocalAuthentication(context, device);
  const key = { id: params.id ?? "", secret };
  const status = await decideChallenge(context, { key, approve: true, claims, device });
  await recordEvent(context, { userId: user.id, kind: "qr_approved", details: { device: device.name } });
  return Response.json({ status });
}
