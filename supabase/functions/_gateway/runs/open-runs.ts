import { createBag } from "../../_shared/bag.ts";
import type { Run } from "../database.ts";

/** Counts of the provider call under way. */
export type CountsSoFar = { route?: number; input_tokens: number; output_tokens: number };

/** What `ai.heartbeat_runs` is told of a run. */
type UseSoFar = CountsSoFar & { cost_usd: string };

/** Long calls say every 15 s that they live; the sweeper closes what is silent for 45 s. */
const touchIntervalMs = 15_000;

export type OpenRuns = {
  /** Keeps a run from the sweeper, telling its usage and cost, until the returned function is called. */
  track: (run: Run, use: () => UseSoFar) => () => void;
};

/** The runs that this isolate has open. While there are any, they are touched together. */
export function createOpenRuns(options: {
  touch: (counts: readonly object[]) => Promise<void>;
  waitUntil: (work: Promise<unknown>) => void;
}): OpenRuns {
  const open = createBag<{ run: Run; read: () => UseSoFar }>();
  let timer: ReturnType<typeof setInterval> | undefined;

  function tick(): void {
    if (open.size === 0) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    const counts = open.items().map(({ run, read }) => ({ created_at: run.created_at, id: run.run_id, ...read() }));
    // A touch that fails is made up for by the next one.
    options.waitUntil(options.touch(counts).catch(() => {}));
  }

  return {
    track(run, read) {
      const entry = open.add({ run, read });
      timer ??= setInterval(tick, touchIntervalMs);
      // The timer goes on for the next run: calls that come alone would each start and stop one.
      return () => open.remove(entry);
    },
  };
}
