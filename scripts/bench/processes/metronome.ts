import { parentPort, workerData } from "node:worker_threads";

/**
 * Beats each so many milliseconds, in a thread that does nothing else: it waits by the system's own clock, to within a
 * tenth of a millisecond, where a timer of an event loop is up to one and a half late.
 */
const { everyMs, beats, startsAt } = workerData as { everyMs: number; beats: number; startsAt: bigint };
const never = new Int32Array(new SharedArrayBuffer(4));
const sinceStartMs = () => Number(process.hrtime.bigint() - startsAt) / 1e6;

for (let beat = 0; beat < beats; beat += 1) {
  const waitMs = beat * everyMs - sinceStartMs();
  if (waitMs > 0) Atomics.wait(never, 0, 0, waitMs);
  parentPort?.postMessage(beat);
}
