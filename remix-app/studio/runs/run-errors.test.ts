import { expect, test } from "vitest";
import { errorCodes } from "../../../supabase/functions/_gateway/http/errors.ts";
import { adviseOnError, errorCodesWithHelp } from "./run-errors.ts";

const reader = { workspacePath: "/workspaces/1", canManageKeys: true };
/** The code of runs that the sweep closed. Clients never get it. */
const sweptCode = "abandoned";

test("each error code of the gateway has one sentence and one action, and no other code has", () => {
  expect(errorCodesWithHelp.toSorted()).toEqual([...errorCodes, sweptCode].toSorted());
  for (const code of errorCodesWithHelp) {
    for (const refused of [false, true]) {
      const { sentence, action } = adviseOnError(code, { ...reader, refused });
      expect(sentence, code).toMatch(/^[A-Z].*\.$/);
      expect(action.label, code).toMatch(/^[A-Z].*[^.]$/);
      expect(action.href, code).toMatch(/^\/workspaces\/1\/(?:ai\/)?[a-z]+$|^\/docs\/errors#/);
    }
  }
});

test.each([
  ["rate_limit_exceeded", false, "The model’s provider was at its rate limit.", "/workspaces/1/ai/playground"],
  [
    "rate_limit_exceeded",
    true,
    "A rate limit of the key, the workspace or the plan was reached.",
    "/workspaces/1/ai/keys",
  ],
  ["budget_exceeded", true, "A budget doesn’t cover what this request may cost.", "/workspaces/1/ai/budgets"],
  [
    "envelope_exhausted",
    false,
    "The task’s limit was used up, or the task was stopped, while the run was in progress.",
    "/workspaces/1/ai/envelopes",
  ],
  ["a_later_code", true, "The request failed.", "/docs/errors#a_later_code"],
])("advises on %s, refused before a run began: %s", (code, refused, sentence, href) => {
  expect(adviseOnError(code, { ...reader, refused })).toMatchObject({ sentence, action: { href } });
});

test("does not send people to the API keys who may not open them", () => {
  const { action } = adviseOnError("rate_limit_exceeded", { ...reader, canManageKeys: false, refused: true });
  expect(action.href).toBe("/docs/errors#rate_limit_exceeded");
});
