import { expect, test } from "vitest";
import { judgeBotChallenge, judgeSkew } from "./project-checks.ts";

test.each([
  [4_999, "ok"],
  [-4_999, "ok"],
  [5_000, "warn"],
  [-29_999, "warn"],
  [30_000, "fail"],
  [-30_000, "fail"],
])("a clock that is %d ms off: %s", (skewMs, level) => {
  expect(judgeSkew(skewMs).level).toBe(level);
});

test.each([
  [true, true, "ok"],
  [true, false, "fail"],
  [false, true, "fail"],
  [false, false, "warn"],
])("a bot challenge here %s, there %s: %s", (here, there, level) => {
  expect(judgeBotChallenge({ here, there }).level).toBe(level);
});
