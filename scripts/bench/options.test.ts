import { expect, test } from "vitest";
import { parts, planOf, readOptions } from "./options.ts";

test("without options all parts run, at length and without peers", () => {
  expect(readOptions([])).toEqual({ quick: false, peers: false, help: false, parts: new Set(parts) });
});

test("one part can run alone, and only one that there is", () => {
  expect(readOptions(["--only", "web", "--quick"])).toMatchObject({ quick: true, parts: new Set(["web"]) });
  expect(() => readOptions(["--only", "everything"])).toThrow("gateway, reports, web");
  expect(() => readOptions(["--fast"])).toThrow("--fast");
});

test("both plans are bounded, and their loads fit in", () => {
  for (const [quick, limitMs] of [
    [false, 590_000],
    [true, 86_000],
  ] as const) {
    const plan = planOf({ quick });
    const oneStreamMs = 2_000;
    const streamsMs = plan.streams.count * plan.streams.staggerMs + oneStreamMs;
    const firstWarmUpMs = 2 * (plan.firstWarmUpMs * 1.25 + oneStreamMs);
    const roundMs =
      3 * (plan.warmUpMs + plan.openLoop.durationMs) +
      (3 * plan.closedLoop.connections.length + 1) * (plan.warmUpMs + plan.closedLoop.durationMs) +
      3 * streamsMs;
    expect(plan.limitMs).toBe(limitMs);
    expect(firstWarmUpMs + plan.rounds * roundMs).toBeLessThan(limitMs * 0.6);
  }
});
