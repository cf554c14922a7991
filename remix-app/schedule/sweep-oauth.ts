import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "./schedule.ts";

/** As often as pg_cron would. */
const sweepIntervalMs = 60_000;

/** Forgets visits to providers that are over, and takes off identities whose link nobody came back to finish. */
export function sweepOAuth(env: Env): ScheduledTask {
  return {
    name: "sweep-oauth-attempts",
    intervalMs: sweepIntervalMs,
    async run(signal) {
      const { error } = await createServiceClient(env)
        .schema("private")
        .rpc("sweep_oauth_attempts")
        .abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
