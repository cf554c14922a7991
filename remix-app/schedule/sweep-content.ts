import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "./schedule.ts";

/** As often as pg_cron would. */
const sweepIntervalMs = 60_000;

/** Deletes what was said in the gateway's runs once the days that a workspace keeps it are over, for databases without pg_cron. */
export function sweepContent(env: Env): ScheduledTask {
  return {
    name: "sweep-content",
    intervalMs: sweepIntervalMs,
    async run(signal) {
      const { error } = await createServiceClient(env).schema("ai").rpc("sweep_content").abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
