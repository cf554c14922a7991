import { quoted } from "../../mail/inert-text.ts";
import type { Mail } from "../../mail/mail-body.ts";

/** The email to infrastructure admins about a new request for approval. */
export function approvalRequestMail(
  { requester, workspaceName, note }: { requester: string; workspaceName: string; note: string },
  { origin }: { origin: string },
): Omit<Mail, "to"> {
  return {
    subject: "A workspace requests approval for API keys",
    text: [
      "A member of a workspace requests approval to create API keys.",
      [
        `Workspace: ${quoted(workspaceName)}`,
        `Requested by: ${quoted(requester)}`,
        ...(note ? [`For: ${quoted(note)}`] : []),
      ].join("\n"),
      `Approve or decline it: ${origin}/admin/approvals`,
      "You get this because you are an infrastructure admin of this service.",
    ].join("\n\n"),
  };
}

/** The email to a workspace's owners and the requester about the answer. */
export function approvalAnswerMail(
  answer: { workspaceId: string; workspaceName: string; declineReason: string | null },
  { origin }: { origin: string },
): Omit<Mail, "to"> {
  const { workspaceId, workspaceName, declineReason } = answer;
  const keys = `${origin}/workspaces/${workspaceId}/ai/keys`;
  const why = "You get this because you own the workspace or requested the approval.";
  if (declineReason === null) {
    return {
      subject: "Your workspace can create API keys",
      text: [
        `An administrator of this service approved API keys for the workspace ${quoted(workspaceName)}.`,
        `Create a key: ${keys}`,
        why,
      ].join("\n\n"),
    };
  }
  return {
    subject: "The request for API keys was declined",
    text: [
      `An administrator of this service declined API keys for the workspace ${quoted(workspaceName)}.`,
      `Reason: ${quoted(declineReason)}`,
      `See the answer or request approval again: ${keys}`,
      why,
    ].join("\n\n"),
  };
}
