import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { mailSite } from "../../mail/mail-body.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { maxNoteLength } from "./approval-card.tsx";
import { approvalRequestMail } from "./approval-mail.ts";

/** A workspace's latest request for approval. */
const approvalRequest = z.object({
  state: z.enum(["open", "withdrawn", "approved", "declined"]),
  /** The time also identifies the request when it is withdrawn or answered. */
  requestedAt: z.string(),
  requestedBy: z.string().nullable(),
  note: z.string().nullable(),
  answeredAt: z.string().nullable(),
  declineReason: z.string().nullable(),
});
const approvalState = z.object({ approved: z.boolean(), request: approvalRequest.nullable() });
/** Whether a workspace is approved to create keys, and its latest request for that approval. */
export type ApprovalState = z.infer<typeof approvalState>;

export const approvalAnswer = z.union([
  approvalState.extend({ outcome: z.literal("read") }),
  z.object({ outcome: z.literal("not_allowed") }),
]);

const noteSchema = z
  .string()
  // Forms send a line break as two characters, but a field's maximum length counts it as one.
  .transform((note) => note.replaceAll("\r\n", "\n").trim())
  .pipe(z.string().max(maxNoteLength, `Use at most ${maxNoteLength} characters`))
  .default("");

export const approvalFormSchema = z.discriminatedUnion("intent", [
  z.object({ intent: z.literal("request"), note: noteSchema }),
  z.object({ intent: z.literal("withdraw"), requestedAt: z.iso.datetime({ offset: true }) }),
]);
export type ApprovalForm = z.infer<typeof approvalFormSchema>;

/** Returns the state of a workspace's approval. @throws Response 403 FORBIDDEN, 503 UNAVAILABLE */
export function readApproval(context: AppLoadContext, member: StudioMember): Promise<ApprovalState> {
  return callApproval(context, { member, name: "read_key_approval" });
}

/**
 * Requests approval and emails the infrastructure admins, or withdraws the request. Idempotent.
 * @throws Response 403 FORBIDDEN, 503 UNAVAILABLE
 */
export function changeApprovalRequest(
  context: AppLoadContext,
  {
    form,
    member,
    requester,
    workspaceName,
  }: { form: ApprovalForm; member: StudioMember; requester: string; workspaceName: string },
): Promise<ApprovalState> {
  if (form.intent === "withdraw") {
    const args = { requested_at: form.requestedAt };
    return callApproval(context, { member, name: "withdraw_key_approval_request", args });
  }
  const { note } = form;
  const email = approvalRequestMail({ requester, workspaceName, note }, mailSite(context.env));
  return callApproval(context, { member, name: "request_key_approval", args: { note, email } });
}

async function callApproval(
  context: AppLoadContext,
  request: { member: StudioMember; name: string; args?: object },
): Promise<ApprovalState> {
  return approvalOf(context, await callAsMember(context, { ...request, schema: approvalAnswer }));
}

/** Returns the state in an answer. @throws Response 403 FORBIDDEN */
export function approvalOf(context: AppLoadContext, answer: z.output<typeof approvalAnswer>): ApprovalState {
  if (answer.outcome === "read") return answer;
  const detail = "Your role in this workspace doesn’t allow you to manage API keys.";
  throw problem("FORBIDDEN", { requestId: context.requestId, detail });
}
