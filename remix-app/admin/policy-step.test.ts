import { describe, expect, test } from "vitest";
import { openSteps } from "./policy-step.ts";

const free = { policy: null, reset: null };

describe("what the console offers for an account", () => {
  test.each([
    ["optional", ["require", "reset"]],
    ["required", ["make-optional", "reset"]],
    ["malformed", ["require", "reset"]],
    ["recovery_in_progress", ["reset"]],
  ] as const)("where its policy is %s", (state, steps) => {
    expect(openSteps({ state, locks: free })).toEqual(steps);
  });

  test("is a reset alone where changes of the policy are switched off", () => {
    expect(openSteps({ state: "optional", locks: { policy: "Switched off", reset: null } })).toEqual(["reset"]);
  });

  test("is nothing on oneself, or where the database does not enforce the policy", () => {
    const locks = { policy: "Oneself", reset: "Oneself" };
    expect(openSteps({ state: "required", locks })).toEqual([]);
    expect(openSteps({ state: "recovery_in_progress", locks })).toEqual([]);
  });
});
