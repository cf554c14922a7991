import { expect, test } from "vitest";
import { type Check, features } from "./checks.ts";
import { failedFeatures, type Row, renderTable, whatBroke } from "./table.ts";

const passing: Check[] = features.map((feature) => ({ name: feature, feature, ok: true }));
const row = (name: string, more: Partial<Row> = {}): Row => ({ name, version: "1.0.0", checks: passing, ...more });
const failing = (feature?: Check["feature"]): Check[] => [
  ...passing,
  { name: "fails", ok: false, ...(feature && { feature }) },
];

test("the compatibility table has a row per client and a column per feature", () => {
  const table = renderTable([
    row("good"),
    row("bad", { checks: failing("tools") }),
    row("partial", { checks: passing.slice(1, 3), lacks: ["plain", "structured"] }),
    row("absent", { checks: [], skipped: "go is not installed" }),
  ]);
  expect(table.split("\n").map((line) => line.split(/ {2,}/))).toEqual([
    ["client", "version", "plain", "stream", "tools", "structured"],
    ["good", "1.0.0", "passed", "passed", "passed", "passed"],
    ["bad", "1.0.0", "passed", "passed", "failed", "passed"],
    ["partial", "1.0.0", "skipped", "passed", "passed", "skipped"],
    ["absent", "1.0.0", "skipped", "skipped", "skipped", "skipped"],
    [""],
    ["absent was skipped: go is not installed"],
    ["10 passed, 1 failed, 1 skipped"],
  ]);
});

test("a failure that belongs to no single feature fails all features of its client", () => {
  expect(failedFeatures(row("crashes", { checks: failing() }))).toEqual(features);
});

test("reports a feature as broken only if it passed with the pinned version", () => {
  const newest = row("client", { version: "2.0.0", checks: [...failing("tools"), ...failing("stream")] });
  expect(whatBroke(newest, row("client", { checks: failing("stream") }))).toEqual(["client 1.0.0 → 2.0.0: tools"]);
  expect(whatBroke(newest, newest)).toEqual([]);
});
