import { parentPort, workerData } from "node:worker_threads";

/**
 * Ticks at a fixed interval, in a thread that does nothing else. Waiting on the system clock is accurate to a tenth of
 * a millisecond, while an event loop's timer can be 1.5 ms late.
 */
const { everyMs, beats, startsAt } = workerData as { everyMs: number; beats: number; startsAt: bigint };
const never = new Int32Array(new SharedArrayBuffer(4));
const sinceStartMs = () => Number(process.hrtime.bigint() - startsAt) / 1e6;

for (let beat = 0; beat < beats; beat += 1) {
  const waitMs = beat * everyMs - sinceStartMs();
  if (waitMs > 0) Atomics.wait(never, 0, 0, waitMs);
  parentPort?.postMessage(beat);
}
