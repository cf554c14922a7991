import type { ActionFunctionArgs } from "@remix-run/node";
import { recordEvent } from "../../activity/record-event.ts";
import { readJson } from "../../http/json-body.ts";
import { answerApproval } from "../../mfa/mobile-approval/answer-approval.ts";
import { requireLocalAuthentication } from "../../session/challenge.ts";
import { approvalDecision } from "../../session/challenge-operations.ts";
import { requirePhone } from "../../session/user.ts";

/** `POST /api/v1/auth/mfa/mobile/challenges/{id}/approve`: records an approval by a phone at AAL2. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, claims } = await requirePhone(context, request);
  const { requestId } = context;
  const { decision, pairCode, device } = await readJson(request, { schema: approvalDecision, requestId });
  const approve = decision === "approve";
  if (approve) requireLocalAuthentication(context, device);
  const answer = { challengeId: params.id ?? "", approve, pairCode, claims, device };
  const status = await answerApproval(context, answer);
  const kind = approve ? "mfa_approved" : "mfa_rejected";
  await recordEvent(context, { userId: user.id, kind, details: { device: device.name } });
  return Response.json({ status });
}
