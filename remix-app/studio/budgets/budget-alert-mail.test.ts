import { expect, test } from "vitest";
import { type BudgetAlert, budgetAlertMail } from "./budget-alert-mail.ts";

const alert: BudgetAlert = {
  scope: "workspace",
  subjectId: "w",
  subject: "Acme",
  workspaceId: "w",
  workspace: "Acme",
  month: "2026-11-01",
  endsAt: "2026-12-01T00:00:00.000Z",
  threshold: 80,
  enforced: true,
  limitUsd: "10.1",
  refusing: false,
  spentUsd: "8.080000000001",
  reservedUsd: "0.5",
  leftUsd: "1.519999999999",
};
const mail = (changes: Partial<BudgetAlert>) =>
  budgetAlertMail({ ...alert, ...changes }, { origin: "https://example.test", product: "Gatehouse" });

test("a budget alert names the budget, the exact spend, the consequence and where to change it", () => {
  expect(mail({})).toEqual({
    subject: "The monthly budget of a workspace is 80% used",
    text: `At least 80% of the monthly budget of the workspace Acme is used.

Workspace: Acme
Budget: $10.10 for November 2026
Spent: $8.08

View budgets:
https://example.test/workspaces/w/ai/budgets

A request is refused with 402 budget_exceeded if its maximum cost exceeds what’s left, until the budget resets on 1 Dec 2026, 00:00 UTC or someone raises it.

--${" "}
You’re getting this email because you own the workspace, or your role manages its AI policy.`,
  });
});

test("the alert for a used-up budget says that requests are refused", () => {
  const { subject, text } = mail({ threshold: 100, scope: "key", subject: "Nightly" });
  expect(subject).toBe("The monthly budget of a key is 100% used");
  expect(text).toContain("The monthly budget of the key Nightly is used up.");
  expect(text).toContain(
    "Its requests are refused with 402 budget_exceeded until the budget resets on 1 Dec 2026, 00:00 UTC",
  );
});

test("the alert for a budget with too little left says that requests are refused, and exactly how much is left", () => {
  expect(mail({ threshold: 100, refusing: true })).toEqual({
    subject: "Requests are refused: too little is left of a workspace’s monthly budget",
    text: `Requests are being refused because too little is left of the monthly budget of the workspace Acme.

Workspace: Acme
Budget: $10.10 for November 2026
Spent: $8.08
Held by requests in progress: $0.50
Left: $1.52

View budgets:
https://example.test/workspaces/w/ai/budgets

A request is refused with 402 budget_exceeded if its maximum cost exceeds what’s left, until the budget resets on 1 Dec 2026, 00:00 UTC or someone raises it.

--${" "}
You’re getting this email because you own the workspace, or your role manages its AI policy.`,
  });
  expect(mail({ threshold: 100, refusing: true, reservedUsd: "0" }).text).not.toContain("Held");
});

test("the alert for a member’s budget names the member", () => {
  const { subject, text } = mail({ scope: "member", subject: "Ada" });
  expect(subject).toBe("The monthly budget of a member is 80% used");
  expect(text).toContain("At least 80% of the monthly budget of the member Ada is used.");
});

test("the alert for a label’s budget names the label and says which requests the budget refuses", () => {
  const { subject, text } = mail({ scope: "label", subject: "customer:7", threshold: 100 });
  expect(subject).toBe("The monthly budget of a label is 100% used");
  expect(text).toContain("The monthly budget of the label customer:\u200A7 is used up.");
  expect(text).toContain("Requests by keys with this label are refused with 402 budget_exceeded until");
});

test("if no key carries the label of a budget, the budget’s alert says that requests aren’t refused", () => {
  const { text } = mail({ scope: "label", subject: "customer:7", threshold: 100, enforced: false });
  expect(text).toContain("Requests aren’t refused: no key carries this label, so its budget only warns.");
});

test("a budget alert leaves out hidden figures", () => {
  const hidden = { spentUsd: null, reservedUsd: null, leftUsd: null };
  expect(mail(hidden).text).not.toContain("Spent:");
  const refusing = mail({ ...hidden, threshold: 100, refusing: true });
  expect(refusing.text).not.toMatch(/Spent|Held|Left/);
  expect(refusing.text).toContain("Requests are being refused");
});

test("names in a budget alert cannot add lines or links, and do not appear in the email's subject", () => {
  const { subject, text } = mail({
    scope: "app",
    subject: "A\r\nBcc: x@y.z\u0000\u2028B",
    workspace: "One\n\nhttps://evil.example",
  });
  expect(subject).toBe("The monthly budget of an app is 80% used");
  expect(text).toContain("of the app A Bcc: x@\u200Ay.\u200Az B is used.");
  expect(text).toContain("Workspace: One https:\u200A/\u200A/evil.\u200Aexample\n");
});
