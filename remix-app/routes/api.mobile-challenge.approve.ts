import type { ActionFunctionArgs } from "@remix-run/server-runtime";
import { z } from "zod";
import { recordEvent } from "../activity/record-event.ts";
import { readJson } from "../http/json-body.ts";
import { approvingDevice, requireLocalAuthentication } from "../login-challenges/approving-device.ts";
import { requirePhone } from "../login-challenges/parties.ts";
import { answerApproval } from "../mfa/mobile-approval/answer-approval.ts";

const pairCode = z.string().regex(/^\d{6}$/);
const schema = z.discriminatedUnion("decision", [
  z.strictObject({ decision: z.literal("approve"), pairCode, device: approvingDevice }),
  z.strictObject({
    decision: z.literal("reject"),
    pairCode: pairCode.or(z.literal("")).default(""),
    device: approvingDevice,
  }),
]);

/**
 * `POST /api/v1/auth/mfa/mobile/challenges/{id}/approve` (api.md): the phone's answer, at AAL2. Who rejects needs no
 * code: the page that shows it may be an attacker's.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, claims } = await requirePhone(context, request);
  const { decision, pairCode, device } = await readJson(request, { schema, requestId: context.requestId });
  const approve = decision === "approve";
  if (approve) requireLocalAuthentication(context, device);
  const answer = { challengeId: params.id ?? "", approve, pairCode, claims, device };
  const status = await answerApproval(context, answer);
  const kind = approve ? "mfa_approved" : "mfa_rejected";
  await recordEvent(context, { userId: user.id, kind, details: { device: device.name } });
  return Response.json({ status });
}
