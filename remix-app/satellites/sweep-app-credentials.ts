import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "../schedule/schedule.ts";

const intervalMs = 10 * 60_000;
const timeoutMs = 10_000;

/** Clears away what apps held, a day after its end. The database lets one server do it at a time. */
export function sweepAppCredentials(env: Env): ScheduledTask {
  const apps = createServiceClient(env).schema("private");
  return {
    name: "sweep-app-credentials",
    intervalMs,
    async run(signal) {
      const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
      const { error } = await apps.rpc("sweep_app_credentials").abortSignal(within);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
