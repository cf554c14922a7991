import { expect, test } from "vitest";
import { isPermanentBan } from "./account-access-card.tsx";
import { accountChangeSchema } from "./account-changes.ts";
import { listAccountSteps, parseAccountStep } from "./account-steps.ts";

const deletion = { dueAt: "2026-12-07T09:05:31Z", reason: "Left", blockers: [] };

test.each([
  [{ bannedUntil: null, deletion: null }, ["ban", "delete", "sign-out"]],
  [{ bannedUntil: "2126-12-07T09:05:31Z", deletion: null }, ["unban", "delete", "sign-out"]],
  [{ bannedUntil: "2126-12-07T09:05:31Z", deletion }, ["keep", "sign-out"]],
  [{ bannedUntil: null, deletion }, ["ban", "keep", "sign-out"]],
])("of an account with %j, these steps are possible: %j", (account, steps) => {
  expect(listAccountSteps(account)).toEqual(steps);
});

test("parses only known steps", () => {
  expect(["ban", "toString", "", null, undefined].map(parseAccountStep)).toEqual(["ban", null, null, null, null]);
});

test.each([
  ["ban", "", null],
  ["ban", "1", 1],
  ["ban", "365", 365],
  ["ban", "0", undefined],
  ["ban", "366", undefined],
  ["ban", "1.5", undefined],
  ["ban", "soon", undefined],
  ["delete", "1", 1],
  ["delete", "30", 30],
  ["delete", "31", undefined],
  ["delete", "", undefined],
] as const)("the form of %s reads %j days as %j", (step, days, parsed) => {
  expect(accountChangeSchema(step).safeParse({ reason: "r", days }).data?.days).toBe(parsed);
});

test("a deletion waits seven days by default", () => {
  expect(accountChangeSchema("delete").parse({ reason: "r" }).days).toBe(7);
});

test("a ban of decades lasts until it is lifted", () => {
  expect(["2126-11-30T00:00:00Z", "infinity"].map(isPermanentBan)).toEqual([true, true]);
  expect(isPermanentBan("2027-11-30T00:00:00Z")).toBe(false);
});
