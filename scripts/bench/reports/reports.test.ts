import { expect, test } from "vitest";
import { verdictOf } from "../report/rows.ts";
import { reportRows } from "./reports.ts";

const verdicts = (runs: number, ms: number) =>
  reportRows({
    runs,
    days: 365,
    usage: { tookMs: [ms], rows: 1, bytes: 1 },
    overview: { inAllMs: [ms], cpuMs: [], ownMs: [1], identityCalls: 0, dataCalls: 1 },
  }).map(verdictOf);

test("reports are judged over a million runs, and over fewer only where they are too slow already", () => {
  expect(verdicts(1_000_000, 300)).toEqual(["met", "met"]);
  expect(verdicts(999_999, 300)).toEqual(["not measured", "not measured"]);
  expect(verdicts(999_999, 301)).toEqual(["missed", "missed"]);
});
