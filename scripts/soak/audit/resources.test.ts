import { describe, expect, test } from "vitest";
import type { ConnectionSample, Sample } from "../samples.ts";
import { growthOf, judgeConnections, judgeMemory, mostConnections, mostGrowthMb, mostRssMb } from "./resources.ts";

/** Returns the samples of a process over ten minutes, one every two seconds. */
function process(
  rssMb: (minute: number) => number,
  { pid = 1, files = () => 20 }: { pid?: number; files?: (n: number) => number } = {},
) {
  return Array.from({ length: 300 }, (_, n): Sample => {
    return { at: n * 2_000, service: "functions", pid, rssMb: rssMb(n / 30), files: files(n) };
  });
}

describe("Memory", () => {
  test("memory that fluctuates around a constant level passes", () => {
    expect(judgeMemory(process((minute) => 120 + 20 * Math.sin(minute * 40))).ok).toBe(true);
  });

  test("reports memory that grows steadily, even far below the limit", () => {
    // The check ignores the first third of the ten minutes as warm-up.
    const growing = (mb: number) => judgeMemory(process((minute) => 80 + (minute * mb * 3) / 20)).ok;
    expect(growing(mostGrowthMb - 1)).toBe(true);
    expect(growing(mostGrowthMb + 1)).toBe(false);
    expect(growing(-50)).toBe(true);
  });

  test("memory that is rarely garbage-collected does not count as growth, wherever its sawtooth curve begins and ends", () => {
    for (const phase of [0, 0.25, 0.5, 0.75]) {
      expect(judgeMemory(process((minute) => 100 + 80 * ((minute / 7 + phase) % 1))).ok).toBe(true);
    }
    // The same sawtooth, but its lowest points rise.
    expect(judgeMemory(process((minute) => 60 + 80 * ((minute / 2.5) % 1) + minute * 6)).ok).toBe(false);
  });

  test("memory allocated once, in the first third of the run, does not count as growth", () => {
    expect(judgeMemory(process((minute) => (minute < 3 ? 60 : 150))).ok).toBe(true);
  });

  test("reports memory above the limit even if only briefly", () => {
    const limit = mostRssMb.functions ?? 0;
    expect(judgeMemory(process((minute) => (minute === 5 ? limit : 100))).ok).toBe(true);
    expect(judgeMemory(process((minute) => (minute === 5 ? limit + 1 : 100))).ok).toBe(false);
  });

  test("memory is judged per process, and short-lived processes are ignored", () => {
    expect(judgeMemory([...process(() => 80), ...process(() => 150, { pid: 2 })]).ok).toBe(true);
    expect(growthOf(process((minute) => 80 + minute).slice(0, 170))).toBeUndefined();
  });
});

describe("Connections", () => {
  const rest: ConnectionSample = { at: 0, role: "gateway", connections: 8, idleInTransaction: 0 };
  const judged = (peak: number, { atRest = rest, samples = [] as Sample[] } = {}) =>
    judgeConnections({ connections: [{ ...rest, connections: peak }], samples, atRest: [atRest] }).ok;

  test("the audit fails if a role has more connections than its pools allow", () => {
    expect(judged(mostConnections.gateway ?? 0)).toBe(true);
    expect(judged((mostConnections.gateway ?? 0) + 1)).toBe(false);
  });

  test("reports connections left in a transaction", () => {
    expect(judged(8, { atRest: { ...rest, idleInTransaction: 1 } })).toBe(false);
  });

  test("fails if a process keeps opening files without closing them", () => {
    expect(judged(8, { samples: process(() => 80, { files: (n) => 20 + (n % 40) }) })).toBe(true);
    expect(judged(8, { samples: process(() => 80, { files: (n) => 20 + n }) })).toBe(false);
  });
});
