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
  limitUsd: "10.1",
  spentUsd: "8.080000000001",
};
const mail = (changes: Partial<BudgetAlert>) =>
  budgetAlertMail({ ...alert, ...changes }, { origin: "https://example.test" });

test("it says which budget, exactly what is spent, what follows, and where to change it", () => {
  expect(mail({})).toEqual({
    subject: "80% of the monthly budget of the workspace Acme is spent",
    text: `At least 80% of the monthly budget of the workspace Acme is spent.

Workspace: Acme
Budget: $10.1 for November 2026
Spent: $8.080000000001

Calls go on. One whose dearest possible cost is more than what is left is refused, until the budget starts anew on 1 December 2026, 00:00 UTC, or is raised.

See and change budgets: https://example.test/workspaces/w/ai/budgets

You get this as an owner of the workspace, or because your role manages its AI policy.`,
  });
});

test("a budget that is used up says that calls are refused", () => {
  const { subject, text } = mail({ threshold: 100, scope: "key", subject: "Nightly" });
  expect(subject).toBe("100% of the monthly budget of the key Nightly is spent");
  expect(text).toContain("The monthly budget of the key Nightly is spent.");
  expect(text).toContain("Its calls are refused until the budget starts anew on 1 December 2026, 00:00 UTC");
});

test("what the workspace hides is not told", () => {
  expect(mail({ spentUsd: null }).text).not.toContain("Spent:");
});

test("no name adds a line, and the longest fits a subject", () => {
  const { subject, text } = mail({ scope: "app", subject: "A\r\nBcc: x@y.z\u0000\u2028B", workspace: "One\n\nTwo" });
  expect(subject).toBe("80% of the monthly budget of the app A Bcc: x@y.z B is spent");
  expect(text).toContain("Workspace: One Two\n");
  expect(mail({ scope: "key", threshold: 100, subject: "x".repeat(100) }).subject.length).toBeLessThanOrEqual(200);
});
