import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "../schedule/schedule.ts";

/** Its limits are days. */
const sweepIntervalMs = 60 * 60_000;

/** Ends sessions that lie idle in browsers' vaults, and forgets what nobody came back to. */
export function sweepDevices(env: Env): ScheduledTask {
  return {
    name: "sweep-account-devices",
    intervalMs: sweepIntervalMs,
    async run(signal) {
      const { error } = await createServiceClient(env)
        .schema("private")
        .rpc("sweep_account_devices")
        .abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
