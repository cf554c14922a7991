import { expect, test } from "vitest";
import { groupDaysByModel } from "./model-chart.tsx";
import type { OverviewRow, UsageOfModel } from "./overview.ts";

const used = (day: number, model: string | null, amountUsd: string): UsageOfModel => ({
  day,
  model,
  requests: 1,
  failed: 0,
  tokens: 7,
  amountUsd,
  billedCredits: "0",
});
const rows = ["large", "small", "unused"].map((key) => ({ key }) as OverviewRow);
const range = { from: "2026-03-01T00:00:00.000Z", to: "2026-03-09T00:00:00.000Z" };

test("the model chart has each day of the range, with the largest model first and all other models combined last", () => {
  const series = [used(0, "large", "2.000000000001"), used(0, null, "0.5"), used(7, "small", "1")];
  const { names, days } = groupDaysByModel({ series, rows, daysEach: 1 }, { range, metric: "spend" });
  expect(names).toEqual(["large", "small", "Other models"]);
  expect(days).toHaveLength(8);
  expect(days[0]).toEqual({ day: "2026-03-01", amounts: ["2.000000000001", "0", "0.5"] });
  expect(days[7]).toEqual({ day: "2026-03-08", amounts: ["0", "1", "0"] });
});

test("the model chart can have a column for each week, and the end of the range may cut off the last week", () => {
  const { names, days } = groupDaysByModel(
    { series: [used(7, "small", "1")], rows, daysEach: 7 },
    { range, metric: "tokens" },
  );
  expect(names).toEqual(["small"]);
  expect(days).toEqual([
    { day: "2026-03-01", amounts: ["0"] },
    { day: "2026-03-08", amounts: ["7"] },
  ]);
});
