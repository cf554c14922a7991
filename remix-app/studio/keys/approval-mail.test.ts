import { describe, expect, test } from "vitest";
import { mailBody } from "../../mail/mail-body.ts";
import { approvalAnswerMail, approvalRequestMail } from "./approval-mail.ts";

const origin = "https://gatehouse.example";
const site = { origin, product: "Gatehouse", accent: "#035e63" };
const asked = { requester: "ann@x.example", workspaceName: "Night shift", note: "" };
const answered = { workspaceId: "w-1", workspaceName: "Night shift", declineReason: null };

describe("the email about a request for approval", () => {
  test("an approval email names the workspace, links to the approval queue, and states the purpose if there is one", () => {
    const { text } = approvalRequestMail({ ...asked, note: "Nightly\n\nsummaries" }, site);
    expect(text).toContain("Workspace: Night shift");
    expect(text).toContain("Purpose: Nightly summaries");
    expect(text).toContain(`${origin}/admin/approvals`);
    expect(approvalRequestMail(asked, site).text).not.toContain("For:");
  });

  test("an approval email does not link URLs in the member's note", () => {
    const mail = approvalRequestMail(
      { ...asked, workspaceName: "https://evil.example/a", note: "see evil.example\nhttps://gatehouse.example/x" },
      site,
    );
    const links = mailBody(mail, site).html.match(/href="[^"]*"/g);
    expect(links).toEqual([`href="${origin}/admin/approvals"`]);
  });

  test("an approval email with the longest name and note stays within the outbox's size limits", () => {
    const { subject, text } = approvalRequestMail(
      { requester: "e".repeat(320), workspaceName: "w".repeat(320), note: "n.".repeat(250) },
      site,
    );
    expect(subject.length).toBeLessThanOrEqual(200);
    expect(text.length).toBeLessThanOrEqual(20_000);
  });
});

describe("the email about an answer to an approval request", () => {
  test("the email about an answer to an approval request links to the keys if the request was approved", () => {
    const { subject, text } = approvalAnswerMail(answered, site);
    expect(subject).toBe("Your workspace can create API keys");
    expect(text).toContain(`Create API key:\n${origin}/workspaces/w-1/ai/keys`);
    expect(text).not.toContain("Reason");
  });

  test("the email about an answer to an approval request gives the reason if the request was declined", () => {
    const { subject, text } = approvalAnswerMail({ ...answered, declineReason: "Which team?" }, site);
    expect(subject).toBe("The request for API keys was declined");
    expect(text).toContain("Reason: Which team?");
  });
});
