import { expect, test } from "vitest";
import { answerJitterMs, answerStepMs, startEvenTiming } from "./even-answers.ts";

/** Returns the time in milliseconds after which an answer is sent if its work took `workMs`. */
async function answeredAfter(workMs: number, random = 0): Promise<number> {
  let clockMs = 1_000;
  const answer = startEvenTiming({
    now: () => clockMs,
    sleep: async (ms) => {
      expect(ms).toBeGreaterThanOrEqual(0);
      clockMs += ms;
    },
    random: () => random,
  });
  clockMs += workMs;
  await answer();
  return clockMs - 1_000;
}

test.each([0, 5, 73, 208, 395, answerStepMs - 1, answerStepMs])(
  "a response that takes %d ms of work is sent at the end of the first time step",
  async (ms) => {
    expect(await answeredAfter(ms)).toBe(answerStepMs);
  },
);

test.each([answerStepMs + 1, 2 * answerStepMs])(
  "a response that takes %d ms of work is sent at the end of the second time step",
  async (ms) => {
    expect(await answeredAfter(ms)).toBe(2 * answerStepMs);
  },
);

test("the jitter is added to the response time, and stays below its bound", async () => {
  expect(await answeredAfter(10, 0.5)).toBe(answerStepMs + answerJitterMs / 2);
  expect(await answeredAfter(10, 0.999)).toBeLessThan(answerStepMs + answerJitterMs);
});
