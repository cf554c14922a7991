import { expect, test } from "vitest";
import { type DifferenceCause, describeDifferenceCause, differenceCauseSchema, workspacesOf } from "./causes.ts";

const orbit = { workspaceId: "0b4c7b0e-9d6b-4f2e-8a3c-2f6a5f3f4c11", name: "Orbit" };
const lumen = { workspaceId: "1c4c7b0e-9d6b-4f2e-8a3c-2f6a5f3f4c12", name: "Lumen" };
const days = (count: number) => Array.from({ length: count }, (_, at) => `2026-10-${String(at + 1).padStart(2, "0")}`);
const using = [
  { ...lumen, meteredUsd: "20", daysWithoutRuns: ["2026-10-12"] },
  { ...orbit, meteredUsd: "30", daysWithoutRuns: [] },
];

const cases: [DifferenceCause, what: string, next: string][] = [
  [
    {
      kind: "workspace_costs_above_metered",
      amountUsd: "5.25",
      ...lumen,
      days: [{ day: "2026-10-12", amountUsd: "5.25" }],
    },
    "On 12 Oct 2026, the costs Lumen imported were $5.25 more than its runs cost.",
    "bypass the gateway",
  ],
  [
    { kind: "workspace_runs_estimated", amountUsd: null, ...orbit, runs: 1 },
    "1 run of Orbit has an estimated cost",
    "provider’s usage page",
  ],
  [
    { kind: "workspace_runs_closed", amountUsd: null, ...orbit, name: null, runs: 1_200 },
    `1,200 runs of Deleted workspace ${orbit.workspaceId} ended without a result`,
    "may have charged",
  ],
  [
    { kind: "provider_not_metered", amountUsd: "7" },
    "charged $7.00 this month, and no workspace had a run with it",
    "AI_PROVIDER_<ID>_BILLING_NAME",
  ],
  [
    { kind: "account_not_metered", amountUsd: "7", accountId: "proj_9" },
    "charged $7.00 to account proj_9, which no workspace’s runs name",
    "AI_PROVIDER_<ID>_ACCOUNT",
  ],
  [
    { kind: "account_not_imported", amountUsd: "-7", accountId: "proj_1", workspaces: using },
    "Runs on account proj_1 cost $7.00, and none of it was imported",
    "Import this account’s costs",
  ],
  [
    { kind: "account_differs", amountUsd: "5", accountId: "proj_1", workspaces: using },
    "The provider charged account proj_1 $5.00 more than was metered. Used by Lumen and Orbit.",
    "Lumen has no runs on 12 Oct 2026",
  ],
  [
    { kind: "account_differs", amountUsd: "-5", accountId: null, workspaces: using },
    "The provider charged all its accounts together $5.00 less than was metered.",
    "Compare the days below",
  ],
  [
    { kind: "days_not_metered", amountUsd: "3", accountId: "proj_1", days: days(1) },
    "charged $3.00 to account proj_1 on 1 Oct 2026, without any run",
    "bypass the gateway",
  ],
  [
    { kind: "days_not_imported", amountUsd: "-3", accountId: "proj_1", days: days(8) },
    "cost $3.00 from 1 Oct 2026 to 8 Oct 2026, and nothing was imported for those days",
    "Import a file that includes those days",
  ],
  [{ kind: "invoice_share", amountUsd: "-1.50" }, "The invoices are $1.50 less", "tax, fees or discounts"],
];
test.each(cases.map(([cause, what, next]) => ({ cause, what, next })))(
  "explains the cause $cause.kind of a difference between metered and charged costs",
  ({ cause, what, next }) => {
    const words = describeDifferenceCause(differenceCauseSchema.parse(cause));
    expect(words.what).toContain(what);
    expect(words.next).toContain(next);
  },
);

test.each([
  [["2026-10-31"], "on 31 Oct 2026,"],
  [["2026-10-01", "2026-10-03", "2026-10-04"], "on 1 Oct 2026 and from 3 Oct 2026 to 4 Oct 2026,"],
  [["2026-10-30", "2026-10-31"], "from 30 Oct 2026 to 31 Oct 2026,"],
  [["2026-10-01", "2026-10-03", "2026-10-05", "2026-10-07"], "on 1 Oct 2026, 3 Oct 2026, 5 Oct 2026 and 7 Oct 2026,"],
  [
    ["2026-10-01", "2026-10-03", "2026-10-05", "2026-10-07", "2026-10-09", "2026-10-10"],
    "on 1 Oct 2026, 3 Oct 2026, 5 Oct 2026, 7 Oct 2026 and 2 other days,",
  ],
])("groups consecutive days and names at most four dates or ranges: %j", (list, text) => {
  expect(
    describeDifferenceCause({ kind: "days_not_metered", amountUsd: "1", accountId: "a", days: list }).what,
  ).toContain(text);
});

test("names at most three workspaces for a likely cause of a cost difference, and counts the others", () => {
  const five = Array.from({ length: 5 }, (_, at) => ({
    ...orbit,
    name: `W${at}`,
    meteredUsd: "1",
    daysWithoutRuns: [],
  }));
  const { what } = describeDifferenceCause({
    kind: "account_differs",
    amountUsd: "1",
    accountId: "a",
    workspaces: five,
  });
  expect(what).toContain("Used by W0, W1, W2 and 2 other workspaces.");
});

test("links to the workspaces that a likely cause names", () => {
  const cause: DifferenceCause = { kind: "account_differs", amountUsd: "5", accountId: "proj_1", workspaces: using };
  expect(workspacesOf(cause).map(({ name }) => name)).toEqual(["Lumen", "Orbit"]);
  expect(workspacesOf({ kind: "invoice_share", amountUsd: "1" })).toEqual([]);
});
