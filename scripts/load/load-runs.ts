import type pg from "pg";
import { insertRuns } from "./insert-runs.ts";
import type { LoadTenant } from "./load-tenant.ts";

const chunk = 20_000;

/**
 * Fills a workspace with runs of the last `days` days, computes daily totals, and vacuums and analyzes the tables.
 * @param options.price as in {@link insertRuns}
 * @param options.onRuns receives the number of runs so far, after each part
 * @param options.goOn whether there is time for another part; defaults to always
 * @returns the number of runs inserted
 */
export async function loadRuns(
  client: pg.Client,
  options: {
    tenant: LoadTenant;
    runs: number;
    days: number;
    price?: number;
    onRuns?: (done: number) => void;
    onDays?: (done: number) => void;
    goOn?: () => boolean;
  },
): Promise<number> {
  const { tenant, runs, days, price, onRuns, onDays, goOn = () => true } = options;
  let done = 0;
  while (done < runs && (done === 0 || goOn())) {
    const part = Math.min(chunk, runs - done);
    await insertRuns(client, tenant, { runs: part, days, price });
    done += part;
    onRuns?.(done);
  }
  let summed = 0;
  for (let more = 1; more > 0; summed += more) {
    onDays?.(Math.min(summed, days - 1));
    const { rows } = await client.query<{ days: number }>("select ai.roll_up_usage(31) as days");
    more = rows[0]?.days ?? 0;
  }
  onDays?.(days);
  await client.query("vacuum analyze ai.runs");
  await client.query("vacuum analyze ai.usage_daily");
  await client.query("vacuum analyze ai.usage_changes");
  return done;
}
