import { expect, test } from "vitest";
import { formatDateTime } from "../../http/date-text.ts";
import { type BudgetAlert, budgetAlertMail } from "./budget-alert-mail.ts";

const alert = {
  scope: "workspace",
  period: "month",
  timeZone: "UTC",
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
} satisfies BudgetAlert;
const site = { origin: "https://example.test", product: "Gatehouse" };
const mail = (changes: Partial<Exclude<BudgetAlert, { scope: "envelope" }>>) =>
  budgetAlertMail({ ...alert, ...changes }, site);

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

test.for([
  ["day", "2026-11-30", "2026-11-30T23:00:00.000Z", "daily", "$10.10 today, 30 Nov 2026 (Europe/Berlin)"],
  ["week", "2026-11-30", "2026-12-06T23:00:00.000Z", "weekly", "$10.10 this week, from 30 Nov 2026 (Europe/Berlin)"],
  ["month", "2026-11-01", "2026-11-30T23:00:00.000Z", "monthly", "$10.10 for November 2026 (Europe/Berlin)"],
  ["total", "-infinity", null, "total", "$10.10 in total"],
] as const)("the alert for a budget of period %s names its window", ([period, month, endsAt, name, words]) => {
  const { subject, text } = mail({ period, month, endsAt, timeZone: "Europe/Berlin", threshold: 65 });
  expect(subject).toBe(`The ${name} budget of a workspace is 65% used`);
  expect(text).toContain(`At least 65% of the ${name} budget of the workspace Acme is used.`);
  expect(text).toContain(`Budget: ${words}\n`);
  const reset = endsAt === null ? "" : `the budget resets on ${formatDateTime(endsAt)} or `;
  expect(text).toContain(`if its maximum cost exceeds what’s left, until ${reset}someone raises it.`);
});

test("the alert for an envelope says which task is waiting, at which limit, and where to raise it", () => {
  const envelope = {
    ...alert,
    scope: "envelope",
    subjectId: "e",
    subject: "ticket-4711",
    owner: "Nightly",
    period: "total",
    threshold: 100,
    refusing: true,
    limitUsd: "5",
    spentUsd: "4.9",
    reservedUsd: "0",
    leftUsd: "0.1",
    maxCalls: 200,
    calls: 61,
  } as const;
  expect(budgetAlertMail(envelope, site)).toEqual({
    subject: "A task is waiting for a decision: its limit of $5.00 is used up",
    text: `A task of “Nightly” is waiting for a decision: its limit of $5.00 is used up.

Workspace: Acme
Label: ticket-4711
Limit: $5.00, 200 requests
Spent: $4.90
Left: $0.10
Requests: 61

Raise the limit or stop the task:
https://example.test/workspaces/w/ai/envelopes/e

Requests that no longer fit are refused with 402 envelope_exhausted until you raise the limit.

--${" "}
You’re getting this email because the task is yours or uses your key, or because you manage the workspace’s keys or AI policy.`,
  });
  const hidden = { spentUsd: null, reservedUsd: null, leftUsd: null };
  const { subject, text } = budgetAlertMail(
    { ...envelope, ...hidden, subject: "Nightly", calls: 200, owner: "A\nhttps://evil.example" },
    site,
  );
  expect(subject).toBe("A task is waiting for a decision: its limit of 200 requests is used up");
  expect(text).toContain("A task of “A https:\u200A/\u200A/evil.\u200Aexample” is waiting");
  expect(text).not.toMatch(/Spent|Left/);
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
