import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "../schedule/schedule.ts";

/** As often as pg_cron would. */
const sweepIntervalMs = 60 * 60 * 1000;

/** Removes what recovery mails and minted sessions leave behind. */
export function sweepRecoveries(env: Env): ScheduledTask {
  return {
    name: "sweep-recoveries",
    intervalMs: sweepIntervalMs,
    async run(signal) {
      const { error } = await createServiceClient(env).schema("private").rpc("sweep_recoveries").abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
