import { describe, expect, it } from "vitest";
import { metricsShown, metricViews, readMetric } from "./overview-metric.ts";

const read = (search: string, costVisible = true) => readMetric(new URLSearchParams(search), { costVisible });

describe("the overview's metric", () => {
  it("defaults to spend, or to credits if spend is hidden", () => {
    expect([read(""), read("?show=nonsense"), read("?show=tokens")]).toEqual(["spend", "spend", "tokens"]);
    expect([read("", false), read("?show=spend", false)]).toEqual(["credits", "credits"]);
    expect(metricsShown({ costVisible: false })).not.toContain("spend");
  });

  it("has short axis labels, also for small amounts", () => {
    const { mark } = metricViews.spend;
    expect([0, 0.25, 0.0000075, 1, 2_500].map(mark)).toEqual(["$0", "$0.25", "$0.0000075", "$1", "$2.5K"]);
  });
});
