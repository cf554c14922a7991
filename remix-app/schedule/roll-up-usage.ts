import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "./schedule.ts";

/** As often as pg_cron would. */
const rollUpIntervalMs = 60_000;
/** Days summed in one call, so that it stays short of the Data API's time limit. */
const daysAtOnce = 7;

/**
 * Sums the runs of days that are over, for databases without pg_cron. The usage report is right without it, and slower.
 * Where another server or pg_cron is at it, the database answers at once that there is nothing to do.
 */
export function rollUpUsage(env: Env): ScheduledTask {
  return {
    name: "roll-up-usage",
    intervalMs: rollUpIntervalMs,
    async run(signal) {
      const { error } = await createServiceClient(env)
        .schema("ai")
        .rpc("roll_up_usage", { max_days: daysAtOnce })
        .abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
