import { createBag } from "../../_shared/bag.ts";
import type { Run } from "../database/database.ts";

/** The token counts of the current provider call so far. */
export type CurrentCounts = { route?: number; input_tokens: number; output_tokens: number };

/** A run's entry in the argument of `ai.heartbeat_runs`. */
type CurrentUse = CurrentCounts & { cost_usd: string };

/** Interval of the heartbeats for open runs. The sweeper closes runs without a heartbeat for 45 s. */
export const heartbeatIntervalMs = 15_000;

export type OpenRuns = ReturnType<typeof createOpenRuns>;

/** Tracks this isolate's open runs and sends one heartbeat for all of them at each interval. */
export function createOpenRuns(options: {
  heartbeat: (counts: readonly object[]) => Promise<void>;
  waitUntil: (work: Promise<unknown>) => void;
}) {
  const open = createBag<{ run: Run; read: () => CurrentUse }>();
  let timer: ReturnType<typeof setInterval> | undefined;

  function tick(): void {
    if (open.size === 0) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    const counts = open.items().map(({ run, read }) => ({ created_at: run.created_at, id: run.run_id, ...read() }));
    // A failed heartbeat is ignored, because the next one replaces it.
    options.waitUntil(options.heartbeat(counts).catch(() => {}));
  }

  return {
    /**
     * Sends heartbeats with the run's usage and cost until the returned function is called. The sweeper leaves runs with
     * heartbeats open.
     */
    track(run: Run, read: () => CurrentUse): () => void {
      const entry = open.add({ run, read });
      timer ??= setInterval(tick, heartbeatIntervalMs);
      // The next tick stops the timer if no run is open. Stopping the timer here would start and stop one for each
      // sporadic call.
      return () => open.remove(entry);
    },
  };
}
