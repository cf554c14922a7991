import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { axisMarks, labelledIndexes } from "./axis-marks.ts";

describe("axisMarks", () => {
  it.each([
    [100, [0, 50, 100]],
    [101, [0, 50, 100, 150]],
    [0.0042, [0, 0.002, 0.004, 0.006]],
    [0, [0, 0.5, 1]],
    [8, [0, 2, 4, 6, 8]],
    [1_234_567, [0, 500_000, 1_000_000, 1_500_000]],
  ])("axis marks reach at least %s in round steps", (largest, marks) => {
    expect(axisMarks(largest)).toEqual(marks);
  });

  it.each([
    [0, [0, 1]],
    [1, [0, 1]],
    [3, [0, 1, 2, 3]],
    [10, [0, 5, 10]],
  ])("axis marks for counts up to %s are whole numbers", (largest, marks) => {
    expect(axisMarks(largest, { whole: true })).toEqual(marks);
  });

  it("axis marks are at most five, in steps of 1, 2 or 5, and end less than a step above the largest value", () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-12, max: 1e15, noNaN: true }), (largest) => {
        const marks = axisMarks(largest);
        const [step = 0, last = 0] = [marks[1], marks.at(-1)];
        expect(marks.length).toBeLessThanOrEqual(5);
        expect(["1", "2", "5"]).toContain(step.toExponential().split("e")[0]);
        expect(last).toBeGreaterThanOrEqual(largest * (1 - 1e-8));
        expect(last - step).toBeLessThan(largest);
      }),
    );
  });
});

describe("labelledIndexes", () => {
  it("labelledIndexes returns the first index, the last one, and some in between", () => {
    expect(labelledIndexes(30)).toEqual([0, 7, 15, 22, 29]);
    expect(labelledIndexes(3)).toEqual([0, 1, 2]);
    expect(labelledIndexes(0)).toEqual([]);
  });
});
