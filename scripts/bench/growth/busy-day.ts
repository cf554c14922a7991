import type pg from "pg";
import { insertRuns } from "../../load/insert-runs.ts";
import { createLoadTenant } from "../../load/load-tenant.ts";
import { markdownTable } from "../report/tables.ts";
import { type GrowthRow, judgeGrowth } from "./growth.ts";
import { timeOperation } from "./measure.ts";
import { reports } from "./operations.ts";

const runsPerBatch = 20_000;
const dayMs = 86_400_000;
/** The most that a report may take at the end of a busy day. */
const maxMs = 100;
const labels = ["some", "each"] as const;

/** The times of reports in workspaces with the given numbers of runs today, in ascending order. */
export type BusyDayMeasurements = { runs: readonly number[]; rows: GrowthRow[] };

/**
 * Measures the reports of workspaces that are busy today: with up to 2,000 labels, and with a label for each call. The
 * runs are spread over the part of the UTC day that has passed.
 * @throws the signal's reason once the signal has aborted
 */
export async function measureBusyDay(options: {
  client: pg.Client;
  runs: readonly number[];
  show: (what: string) => void;
  signal: AbortSignal;
}): Promise<BusyDayMeasurements> {
  const { client, runs, show, signal } = options;
  const rows = new Map<string, GrowthRow>();
  for (const label of labels) {
    for (const count of runs) {
      const tenant = await createLoadTenant(client);
      await client.query("update public.workspaces set name = 'Busy day' where id = $1", [tenant.workspaceId]);
      for (let done = 0; done < count; done += runsPerBatch) {
        signal.throwIfAborted();
        show(`${done.toLocaleString("en")} of ${count.toLocaleString("en")} runs of today`);
        const days = (Date.now() % dayMs) / dayMs;
        await insertRuns(client, tenant, { runs: Math.min(runsPerBatch, count - done), days, label });
        await client.query("select ai.roll_up_usage()");
      }
      await sumAll(client, signal);
      const { rows: keys } = await client.query<{ hash: string }>(
        "select encode(k.secret_hash, 'hex') as hash from ai.keys k where k.id = $1",
        [tenant.keyId],
      );
      for (const operation of reports(tenant, keys[0]?.hash ?? "")) {
        signal.throwIfAborted();
        const what = label === "each" ? `${operation.what}, a label for each call` : operation.what;
        const row = rows.get(what) ?? { what, bound: operation.bound, tookMs: [], bytes: [] };
        rows.set(what, { ...row, tookMs: [...row.tookMs, await timeOperation(client, operation)] });
      }
    }
  }
  return { runs, rows: [...rows.values()] };
}

/** Rolls up until all runs that are older than the roll-up's fence are summed. */
async function sumAll(client: pg.Client, signal: AbortSignal): Promise<void> {
  for (let left = 1; left > 0; ) {
    signal.throwIfAborted();
    const { rows } = await client.query<{ left: number }>(
      `select ai.roll_up_usage() + (select count(*) from ai.usage_changes c, ai.usage_progress p
         where c.run_created_at < p.summed_until)::integer as left`,
    );
    left = rows[0]?.left ?? 0;
  }
  await client.query("vacuum analyze ai.runs");
  await client.query("vacuum analyze ai.usage_daily");
  await client.query("vacuum analyze ai.usage_labels_daily");
}

export function busyDayTable({ runs, rows }: BusyDayMeasurements): string {
  const lines = rows.map(({ what, bound, tookMs }) => {
    const { ratio, verdict } = judgeGrowth({ bound, tookMs });
    const last = tookMs.at(-1) ?? Number.NaN;
    return [what, ...tookMs.map((ms) => ms.toFixed(1)), ratio.toFixed(1), last <= maxMs ? verdict : "missed"];
  });
  const head = ["report, p50 in ms", ...runs.map((count) => `${count.toLocaleString("en")} runs today`), "ratio", ""];
  return `Reports of a busy day, at most 1.5 times as long and ${maxMs} ms:\n\n${markdownTable(head, lines)}`;
}
