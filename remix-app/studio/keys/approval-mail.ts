import { quoteText } from "../../mail/inert-text.ts";
import type { Mail, MailSite } from "../../mail/mail-body.ts";
import { type MailParts, mailText } from "../../mail/mail-text.ts";

type Site = Pick<MailSite, "origin" | "product">;

/** Returns the email to infrastructure admins about a new request for approval. */
export function approvalRequestMail(
  { requester, workspaceName, note }: { requester: string; workspaceName: string; note: string },
  { origin, product }: Site,
): Omit<Mail, "to"> {
  const parts: MailParts = {
    news: [`A member of a workspace on ${product} requests approval to create API keys.`],
    facts: [
      ["Workspace", quoteText(workspaceName)],
      ["Requested by", quoteText(requester)],
      ...(note ? [["Purpose", quoteText(note)] as const] : []),
    ],
    action: { label: "Review request", url: `${origin}/admin/approvals` },
    footer: [`You’re getting this email because you’re an administrator of ${product}.`],
  };
  return { subject: "A workspace requests approval for API keys", text: mailText(parts) };
}

/** Returns the email that tells a workspace's owners and the requester whether API keys were approved. */
export function approvalAnswerMail(
  answer: { workspaceId: string; workspaceName: string; declineReason: string | null },
  { origin, product }: Site,
): Omit<Mail, "to"> {
  const { workspaceId, workspaceName, declineReason } = answer;
  const url = `${origin}/workspaces/${workspaceId}/ai/keys`;
  const name = quoteText(workspaceName);
  const footer = ["You’re getting this email because you own the workspace or requested the approval."];
  if (declineReason === null) {
    const news = [`An administrator of ${product} approved API keys for the workspace ${name}.`];
    const text = mailText({ news, action: { label: "Create API key", url }, footer });
    return { subject: "Your workspace can create API keys", text };
  }
  const parts: MailParts = {
    news: [`An administrator of ${product} declined the API key request of the workspace ${name}.`],
    facts: [["Reason", quoteText(declineReason)]],
    action: { label: "View request", url },
    more: ["You can request approval again."],
    footer,
  };
  return { subject: "The request for API keys was declined", text: mailText(parts) };
}
