import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "../schedule/schedule.ts";

/** As often as pg_cron does, where it is present. */
const clearIntervalMs = 5 * 60_000;

/** Removes attempts and blocks that have passed, for databases without pg_cron. One server at a time does it. */
export function clearAttempts(env: Env): ScheduledTask {
  return {
    name: "clear-attempts",
    intervalMs: clearIntervalMs,
    async run(signal) {
      const { error } = await createServiceClient(env)
        .schema("private")
        .rpc("clear_expired_attempts")
        .abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
