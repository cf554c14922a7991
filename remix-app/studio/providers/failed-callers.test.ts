import { describe, expect, test } from "vitest";
import { describeCallers, type FailedCallers } from "./failed-callers.ts";

describe("the words for what callers got", () => {
  test.for([
    [
      { calls: 412, answeredElsewhere: 398, failed: [{ status: 503, code: "upstream_error", calls: 14 }] },
      "412 calls: 398 answered by another route, 14 got 503 upstream_error",
    ],
    [{ calls: 1, answeredElsewhere: 1, failed: [] }, "1 call: 1 answered by another route"],
    [
      { calls: 2, answeredElsewhere: 0, failed: [{ status: null, code: "cancelled", calls: 2 }] },
      "2 calls: 2 got cancelled",
    ],
    [{ calls: 0, answeredElsewhere: 0, failed: [] }, "No ended call has failed there since then."],
  ])("%o is “%s”", ([callers, words]) => {
    expect(describeCallers(callers as FailedCallers)).toBe(words);
  });
});
