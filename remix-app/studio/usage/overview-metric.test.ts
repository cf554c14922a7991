import { describe, expect, it } from "vitest";
import { metricsShown, metricViews, readMetric } from "./overview-metric.ts";

const read = (search: string, costVisible = true) => readMetric(new URLSearchParams(search), { costVisible });

describe("the overview's metric", () => {
  it("the overview's metric defaults to spend, or to credits if spend is hidden", () => {
    expect([read(""), read("?show=nonsense"), read("?show=tokens")]).toEqual(["spend", "spend", "tokens"]);
    expect([read("", false), read("?show=spend", false)]).toEqual(["credits", "credits"]);
    expect(metricsShown({ costVisible: false })).not.toContain("spend");
  });

  it("the overview's metric has short axis labels, also for small amounts", () => {
    const { mark } = metricViews.spend;
    expect([0, 25, 2_500].map((value) => mark(value, 10_000))).toEqual(["$0", "$25", "$2.5K"]);
    expect([0, 0.5, 1, 2].map((value) => mark(value, 2))).toEqual(["$0.00", "$0.50", "$1.00", "$2.00"]);
    expect([0, 0.000005, 0.00001].map((value) => mark(value, 0.00001))).toEqual([
      "$0.000000",
      "$0.000005",
      "$0.000010",
    ]);
  });
});
