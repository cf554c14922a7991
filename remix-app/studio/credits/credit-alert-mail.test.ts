import { expect, test } from "vitest";
import { type CreditAlert, creditAlertMail } from "./credit-alert-mail.ts";

const alert: CreditAlert = {
  accountId: "a3bb189e-8bf9-3888-9912-ace4e6543002",
  payer: "workspace",
  workspaceId: "0b4c7b0e-9d6b-4f2e-8a3c-2f6a5f3f4c11",
  workspace: "Orbit",
  level: "low",
  crossedAt: "2026-11-27T10:00:00.000000Z",
  balance: "99.00000001",
  reserved: "0",
  available: "99.00000001",
  threshold: "100",
};
const site = { origin: "https://gatehouse.example", product: "Gatehouse" };

test("an email about low credits names the workspace, threshold and balance, and links to the workspace's credits page", () => {
  const { subject, text } = creditAlertMail(alert, site);
  expect(subject).toBe("A workspace is low on credits");
  expect(text).toBe(
    [
      "The workspace Orbit has fewer than 100 credits left.",
      "Balance: 99.00 credits",
      `View credits:\n${site.origin}/workspaces/${alert.workspaceId}/ai/credits`,
      "Once the credits are used up, requests are refused with 402 insufficient_credits. Ask an administrator of Gatehouse to add credits.",
      "-- \nYou’re getting this email because you own the workspace, or your role manages its AI policy.",
    ].join("\n\n"),
  );
});

test("an email about used-up credits states the credits that requests in progress have reserved, if any", () => {
  const empty = { ...alert, level: "empty", reserved: "98", available: "1.00000001" } as const;
  const { subject, text } = creditAlertMail(empty, site);
  expect(subject).toBe("A workspace is out of credits");
  expect(text).toContain("Held by requests in progress: 98.00 credits\nAvailable: 1.00 credits");
  expect(text).toContain("are refused with 402 insufficient_credits");
});

test("a credit warning to a member who pays is about the member's account and does not name the workspace", () => {
  expect(creditAlertMail({ ...alert, payer: "member" }, site).subject).toBe("You’re low on credits");
  const { subject, text } = creditAlertMail({ ...alert, payer: "member", level: "empty" }, site);
  expect(subject).toBe("You’re out of credits");
  expect(text).toContain("Your account is out of credits.");
  expect(text).not.toContain("Orbit");
});
