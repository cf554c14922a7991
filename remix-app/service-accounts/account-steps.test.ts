import { expect, test } from "vitest";
import { accountSteps, confirmStep, stepFor } from "./account-steps.ts";

const names = Object.keys(accountSteps) as (keyof typeof accountSteps)[];

test("of all changes to a service account, only revoking has to be typed", () => {
  const typed = names.filter((step) => confirmStep(step, { name: "Nightly import" }) !== null);
  expect(typed).toEqual(["revoke"]);
  expect(confirmStep("revoke", { name: "Nightly import" })?.text).toBe("Nightly import");
});

test.each(names)("the page %s says in whole sentences what will happen", (step) => {
  for (const effect of accountSteps[step].effects({ name: "Nightly import" })) expect(effect).toMatch(/^[A-Z].*\.$/);
});

test.each([
  ["edit", "active", true, "edit"],
  ["edit", "expired", true, "edit"],
  ["edit", "revoked", true, null],
  ["enable", "active", true, null],
  ["enable", "disabled", false, "enable"],
  ["disable", "active", true, "disable"],
  ["disable", "disabled", false, null],
  ["revoke", "revoked", false, null],
  ["toString", "active", true, null],
  [undefined, "active", true, null],
] as const)("the step %s of a service account that is %s and enabled: %s is %s", (name, state, enabled, step) => {
  expect(stepFor(name, { state, enabled })).toBe(step);
});
