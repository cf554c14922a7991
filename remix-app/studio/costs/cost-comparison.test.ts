import { expect, test } from "vitest";
import { withDifference } from "./cost-comparison.ts";

test.each([
  ["0.3", "0.300000000001", "0.000000000001", "0.000000000333"],
  ["2", "0", "-2", "-100"],
  ["0", "0.3", "0.3", null],
  [null, "0.3", null, null],
])(
  "a metered cost of %s and an imported cost of %s differ by %s, or by %s percent",
  (meteredUsd, importedUsd, differenceUsd, differencePercent) => {
    const amounts = { meteredUsd, importedUsd };
    expect(withDifference(amounts)).toEqual({ ...amounts, differenceUsd, differencePercent });
  },
);

test("a metered cost has no difference from costs that were not imported", () => {
  const amounts = { meteredUsd: "2", importedUsd: "0" };
  const nothing = { ...amounts, differenceUsd: null, differencePercent: null };
  expect(withDifference(amounts, { isCompared: false })).toEqual(nothing);
});
