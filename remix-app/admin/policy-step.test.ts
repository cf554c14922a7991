import { describe, expect, test } from "vitest";
import { listAvailableSteps } from "./policy-step.ts";

const free = { policy: null, reset: null };

describe("the console's MFA actions for an account", () => {
  test.each([
    ["optional", ["require", "reset"]],
    ["required", ["make-optional", "reset"]],
    ["malformed", ["require", "reset"]],
    ["recovery_in_progress", ["reset"]],
  ] as const)("offers the MFA actions that fit an account's policy state: %s", (state, steps) => {
    expect(listAvailableSteps({ state, locks: free })).toEqual(steps);
  });

  test("offers only an authenticator reset while policy changes are switched off", () => {
    expect(listAvailableSteps({ state: "optional", locks: { policy: "Switched off", reset: null } })).toEqual([
      "reset",
    ]);
  });

  test("offers no MFA actions for the admin's own account, or if the database doesn't enforce the policy", () => {
    const locks = { policy: "Oneself", reset: "Oneself" };
    expect(listAvailableSteps({ state: "required", locks })).toEqual([]);
    expect(listAvailableSteps({ state: "recovery_in_progress", locks })).toEqual([]);
  });
});
