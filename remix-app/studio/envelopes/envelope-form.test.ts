import { describe, expect, test } from "vitest";
import { proposeRaises } from "./envelope-fields.ts";
import { readLimitForm, readNewForm } from "./envelope-form.ts";
import type { Envelope } from "./envelope-schema.ts";

const current = {
  limitUsd: "5",
  spentUsd: "4.9",
  calls: 200,
  remainingCalls: 57,
  endsAt: "2026-11-30T12:00:31.123456Z",
} as Envelope;
const amountFault = "Enter an amount in dollars, such as 5 or 12.50";

describe("the form that changes a task limit", () => {
  test.each([
    [
      { limitUsd: "$10.50", calls: "1,000" },
      { limitUsd: "10.5", calls: 1000 },
    ],
    [
      { limitUsd: "0", calls: "" },
      { limitUsd: "0", calls: null },
    ],
    [{ limitUsd: "10" }, { limitUsd: "10" }],
    // The field has no seconds, so the same minute is not a change.
    [{ endsAt: "2026-11-30T12:00" }, {}],
    [{ endsAt: "2026-11-30T12:01" }, { endsAt: "2026-11-30T12:01:00Z" }],
    [{ endsAt: "2026-11-30T12:01:05" }, { endsAt: "2026-11-30T12:01:05Z" }],
  ])("reads %j as %j", (typed, changes) => {
    expect(readLimitForm(typed, current)).toEqual({ changes });
  });

  test.each([
    [{ limitUsd: "a lot" }, { limitUsd: amountFault }],
    [{ limitUsd: "-1" }, { limitUsd: amountFault }],
    [{ calls: "0" }, { calls: "Enter a whole number of at least 1, or leave it empty" }],
    [
      { calls: "1.5", limitUsd: "" },
      { limitUsd: amountFault, calls: expect.any(String) },
    ],
    [{ endsAt: "tomorrow" }, { endsAt: "Choose a time in UTC" }],
    [{ endsAt: "" }, { endsAt: "Choose a time in UTC" }],
  ])("refuses %j", (typed, errors) => {
    expect(readLimitForm(typed, current)).toEqual({ errors });
  });
});

describe("the form of a new task limit", () => {
  test("leaves out empty fields", () => {
    const typed = { keyId: "", label: " ", limitUsd: "5", calls: "", endsAt: "" };
    expect(readNewForm(typed)).toEqual({ opening: { limitUsd: "5", calls: null } });
  });

  test("refuses a limit of 0, and labels that requests can't have", () => {
    expect(readNewForm({ label: "release notes", limitUsd: "0" })).toEqual({
      errors: { label: expect.any(String), limitUsd: amountFault },
    });
  });
});

describe("proposed raises", () => {
  test.each([
    ["twice and four times the limit", {}, ["limitUsd 10", "limitUsd 20"]],
    [
      "exact amounts",
      { limitUsd: "0.000000000001", spentUsd: null },
      ["limitUsd 0.000000000002", "limitUsd 0.000000000004"],
    ],
    ["more than was spent", { limitUsd: "1" }, ["limitUsd 9.8", "limitUsd 19.6"]],
    ["requests, if those are used up", { remainingCalls: 0 }, ["calls 400", "calls 800"]],
    ["nothing, if the limit and the spend are 0", { limitUsd: "0", spentUsd: "0" }, []],
  ])("are %s", (_, changes, expected) => {
    expect(proposeRaises({ ...current, ...changes }).map(({ name, value }) => `${name} ${value}`)).toEqual(expected);
  });
});
