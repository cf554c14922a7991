import type pg from "pg";
import type { Progress } from "../progress.ts";
import { markdownTable } from "../report/tables.ts";
import { cleanUps, timeCleanUp } from "./clean-ups.ts";
import { type GrowthTenant, grow, type Size } from "./data.ts";
import { timeOperation } from "./measure.ts";
import { type Bound, operations } from "./operations.ts";
import type { PageTimes } from "./pages.ts";

/** The smallest size, called 1 ×. The other sizes are multiples of this size. */
const smallest: Size = { runs: 20_000, accounts: 2_000 };
const expiredRows = 100;

/** An operation's times in ms and, for a page, its response sizes in bytes, one of each per database size. */
export type GrowthRow = { what: string; bound: Bound; tookMs: number[]; bytes: number[] };
export type GrowthMeasurements = { factors: readonly number[]; rows: GrowthRow[] };

type Given = {
  client: pg.Client;
  factors: readonly number[];
  /** The measurements of an earlier run on the same database. */
  measured: GrowthMeasurements;
  save: (measured: GrowthMeasurements) => Promise<void>;
  progress: Progress;
  signal: AbortSignal;
  /** Times the pages and API calls of the tenant's owner. */
  timePages: (tenant: GrowthTenant) => Promise<PageTimes>;
};

/** Grows the database from one size to the next and measures each operation at every size not yet measured. */
export async function measureGrowth(given: Given): Promise<GrowthMeasurements> {
  const { client, factors, measured, save, progress, signal, timePages } = given;
  let all = measured;
  for (const factor of factors.filter((wanted) => !measured.factors.includes(wanted))) {
    const rows = new Map(all.rows.map((row) => [row.what, row]));
    const add = (what: string, { bound, ms, bytes }: { bound: Bound; ms: number; bytes?: number }) => {
      const row = rows.get(what) ?? { what, bound, tookMs: [], bytes: [] };
      const grown = bytes === undefined ? row.bytes : [...row.bytes, bytes];
      rows.set(what, { ...row, bound, tookMs: [...row.tookMs, ms], bytes: grown });
    };
    progress.begin(`${factor} ×: rows`);
    const size = { runs: smallest.runs * factor, accounts: smallest.accounts * factor };
    const tenant = await grow(client, { size, show: progress.show, signal });
    progress.begin(`${factor} ×: operations`);
    for (const operation of operations(tenant)) {
      signal.throwIfAborted();
      progress.show(operation.what);
      add(operation.what, { bound: operation.bound, ms: await timeOperation(client, operation) });
    }
    for (const cleanUp of cleanUps) {
      const ms = await timeCleanUp(client, { cleanUp, rows: expiredRows * factor });
      add(cleanUp.what, { bound: { linear: "up to the 1,000 rows of a batch" }, ms });
    }
    progress.begin(`${factor} ×: pages`);
    for (const { what, bound, ms, bytes } of await timePages(tenant)) add(what, { bound, ms, bytes });
    all = { factors: [...all.factors, factor], rows: [...rows.values()] };
    await save(all);
  }
  return all;
}

const most = { constant: 1.5, logarithmic: 3 } as const;
/** Below this difference, a ratio depends more on the machine than on the operation. */
const noiseMs = 2;

/** Returns how many times longer an operation took at the largest size, and whether its bound allows that. */
export function judgeGrowth({ bound, tookMs }: Pick<GrowthRow, "bound" | "tookMs">): {
  ratio: number;
  verdict: string;
} {
  const [first = Number.NaN, last = Number.NaN] = [tookMs[0], tookMs.at(-1)];
  const ratio = last / first;
  if (typeof bound === "object" && "linear" in bound) return { ratio, verdict: "" };
  if (typeof bound === "object") return { ratio, verdict: last <= bound.maxMs ? "met" : "missed" };
  return { ratio, verdict: ratio <= most[bound] || last - first <= noiseMs ? "met" : "missed" };
}

function boundText(bound: Bound): string {
  if (typeof bound === "string") return `${bound}, ≤ ${most[bound]}`;
  return "linear" in bound ? `linear: ${bound.linear}` : `≤ ${bound.maxMs} ms`;
}

export function growthTable({ factors, rows }: GrowthMeasurements): string {
  const lines = rows.map((row) => {
    const { ratio, verdict } = judgeGrowth(row);
    const kilobytes = row.bytes.length > 0 ? row.bytes.map((bytes) => Math.ceil(bytes / 1_000)).join(", ") : "";
    return [
      row.what,
      ...row.tookMs.map((ms) => ms.toFixed(1)),
      ratio.toFixed(1),
      boundText(row.bound),
      verdict,
      kilobytes,
    ];
  });
  const head = ["operation, p50 in ms", ...factors.map((factor) => `${factor} ×`), "ratio", "bound", "", "KB"];
  return markdownTable(head, lines);
}
