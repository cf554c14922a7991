import { createClient } from "@supabase/supabase-js";
import type { ScheduledTask } from "./schedule.ts";

/** As often as pg_cron would; a run counts as abandoned after 45 s without a word. */
const sweepIntervalMs = 15_000;
const sweepTimeoutMs = 10_000;

/**
 * Closes the gateway's abandoned runs even while nobody calls it, for databases without pg_cron. Where another server
 * or pg_cron is at it, the database answers at once that there is nothing to do.
 */
export function sweepRuns({ supabaseUrl, secretKey }: { supabaseUrl: string; secretKey: string }): ScheduledTask {
  const supabase = createClient(supabaseUrl, secretKey, { auth: { persistSession: false, autoRefreshToken: false } });
  return {
    name: "sweep-runs",
    intervalMs: sweepIntervalMs,
    async run(signal) {
      const within = AbortSignal.any([signal, AbortSignal.timeout(sweepTimeoutMs)]);
      const { error } = await supabase.schema("ai").rpc("sweep_runs").abortSignal(within);
      if (error) throw new Error(`${error.code} ${error.message}`);
    },
  };
}
