import { expect, test } from "vitest";
import { type Attention, countSections, type Overview } from "./overview.ts";
import { attentionCards } from "./overview-cards.tsx";
import { budgetWords, deletionWords, importerWords, mailWords, restWords } from "./overview-words.ts";

test.each([
  [10, null],
  [11, "The 10 oldest of 11."],
  [1_000, "The 10 oldest of 1,000."],
  [1_001, "The 10 oldest of 1,000+."],
])("of %i rows, a card says: %s", (count, words) => {
  expect(restWords(count, "oldest")).toBe(words);
});

test.each([
  ["key", "CI", "month", "50", "Monthly budget of key CI: $50.00"],
  ["label", "nightly", "day", "0.0001", "Daily budget of label nightly: $0.0001"],
  ["workspace", "Acme", "total", "1200.5", "Total budget of the workspace: $1,200.50"],
  ["member", null, "week", "5", "Weekly budget of member that was deleted: $5.00"],
] as const)("names the budget of a %s", (scope, name, period, limitUsd, words) => {
  const ids = { workspaceId: "", workspace: "", subjectId: "" };
  expect(budgetWords({ ...ids, scope, name, period, limitUsd })).toBe(words);
});

test.each([
  [1, "The key was refused (401).", 0, "The key was refused (401)."],
  [3, "Timeout.", 0, "Timeout. 3 attempts failed."],
  [1, null, 0, "The last attempt failed."],
  [0, "The day is not complete yet.", 1, "1 day not imported: import them from a file."],
  [2, "Timeout.", 40, "Timeout. 2 attempts failed. 40 days not imported: import them from a file."],
])("says what is wrong with an importer (%i failures, %s, %i days)", (failures, lastError, missedDays, words) => {
  expect(importerWords({ failures, lastError, missedDays })).toBe(words);
});

test.each([
  [0, 0, []],
  [1, 0, ["1 email could not be sent in twelve attempts."]],
  [0, 1, ["1 email has been due for more than 15 minutes."]],
  [
    1_001,
    2,
    ["1,000+ emails could not be sent in twelve attempts.", "2 emails have been due for more than 15 minutes."],
  ],
])("says which emails were not sent (%i failed, %i waiting)", (failed, waiting, words) => {
  expect(mailWords({ failed, waiting })).toEqual(words);
});

test.each([
  [0, [], "The account is not deleted yet. Check the logs of the database."],
  [1, ["Orbit"], "Without another owner: Orbit."],
  [4, ["A", "B", "C"], "Without another owner: A, B, C and 1 more workspace."],
])("says why a due deletion was not made (%i workspaces)", (blockers, workspaces, words) => {
  expect(deletionWords({ blockers, workspaces })).toBe(words);
});

const kinds = [
  ...["approvals", "budgets", "credits", "months", "importers"],
  ...["mails", "jobs", "recoveries", "deletions", "machines", "providers"],
] as const;
const attentionWith = (counts: Partial<Record<string, number>>) =>
  Object.fromEntries(kinds.map((kind) => [kind, { count: counts[kind] ?? 0, since: null }])) as Attention;

test("the menu counts what each section decides about, and adds up the books", () => {
  expect(countSections(attentionWith({ approvals: 3, months: 2, importers: 1, budgets: 9 }))).toEqual({
    "/admin/accounts": 0,
    "/admin/approvals": 3,
    "/admin/recovery": 0,
    "/admin/providers": 0,
    "/admin/service-accounts": 0,
    "/admin/books": 3,
  });
});

test("the overview has a card for each kind that needs somebody, and none otherwise", () => {
  const nothing: Overview = {
    attention: attentionWith({}),
    ...{ providers: [], approvals: [], budgets: [], credits: [], months: [], importers: [], jobs: [], recoveries: [] },
    deletions: [],
    machines: [],
    mails: { failed: 0, waiting: 0 },
    today: { calls: 0, failed: 0, refused: 0, costUsd: "0" },
    usual: null,
  };
  expect(attentionCards(nothing, {})).toEqual([]);
  const all = attentionWith(Object.fromEntries(kinds.map((kind) => [kind, 1])));
  expect(attentionCards({ ...nothing, attention: all }, {}).map(({ kind }) => kind)).toEqual([
    ...["jobs", "mails", "approvals", "recoveries", "deletions", "machines", "credits", "budgets", "months"],
    "importers",
  ]);
});
