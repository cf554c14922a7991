import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { axisMarks, labelledIndexes } from "./column-chart.tsx";

describe("axisMarks", () => {
  it.each([
    [100, [0, 25, 50, 75, 100]],
    [101, [0, 50, 100, 150, 200]],
    [0.0042, [0, 0.002, 0.004, 0.006, 0.008]],
    [0, [0, 1, 2, 3, 4]],
    [1_234_567, [0, 500_000, 1_000_000, 1_500_000, 2_000_000]],
  ])("axis marks reach at least %s in round steps", (largest, marks) => {
    expect(axisMarks(largest)).toEqual(marks);
  });

  it("axis marks for counts are whole numbers", () => {
    expect(axisMarks(1, { whole: true })).toEqual([0, 1, 2, 3, 4]);
    expect(axisMarks(10, { whole: true }).every(Number.isInteger)).toBe(true);
  });

  it("axis marks cover the largest value, but not much more than twice that value", () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-12, max: 1e15, noNaN: true }), (largest) => {
        const last = axisMarks(largest).at(-1) ?? 0;
        expect(last).toBeGreaterThanOrEqual(largest * (1 - 1e-8));
        expect(last).toBeLessThanOrEqual(largest * 2.01);
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
