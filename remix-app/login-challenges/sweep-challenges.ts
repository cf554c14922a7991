import type { Env } from "../env.server.ts";
import { createServiceClient } from "../identity/service-client.ts";
import type { ScheduledTask } from "../schedule/schedule.ts";

const intervalMs = 10 * 60_000;
const timeoutMs = 10_000;

/** Forgets challenges that are over, and approvals that are no longer valid. The database lets one server do it. */
export function sweepChallenges(env: Env): ScheduledTask {
  const database = createServiceClient(env).schema("private");
  return {
    name: "sweep-login-challenges",
    intervalMs,
    async run(signal) {
      const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
      const { error } = await database.rpc("sweep_login_challenges").abortSignal(within);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
