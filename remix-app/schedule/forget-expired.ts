import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "./schedule.ts";

/** As often as pg_cron would. What has expired is good for nothing before it is cleared away, too. */
const intervalMs = 5 * 60_000;

/** Clears away the gateway's expired idempotency keys and the minutes of subjects that call no more. */
export function forgetExpired(env: Env): ScheduledTask {
  return {
    name: "forget-expired-gateway-state",
    intervalMs,
    async run(signal) {
      const { error } = await createServiceClient(env).schema("ai").rpc("forget_expired").abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
