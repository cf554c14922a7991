import { monitorEventLoopDelay } from "node:perf_hooks";

/** The longest delay of a server's event loop since the last question, in milliseconds. */
export type LoopDelay = {
  /** As `monitorEventLoopDelay` reports it. Includes the time in which other processes had the processor. */
  delayMs: number;
  /** The processor time of the event loop's thread between two turns. */
  heldMs: number;
};

/** Preloaded into a server under test (`--import`). Answers each message with the {@link LoopDelay} of its own loop. */
const resolutionMs = 5;
const delay = monitorEventLoopDelay({ resolution: resolutionMs });
delay.enable();
let heldMs = 0;
let before = process.threadCpuUsage();
setInterval(() => {
  const { user, system } = process.threadCpuUsage(before);
  before = process.threadCpuUsage();
  heldMs = Math.max(heldMs, (user + system) / 1_000);
}, resolutionMs).unref();

process.on("message", () => {
  process.send?.({ delayMs: Math.max(0, delay.max / 1e6 - resolutionMs), heldMs } satisfies LoopDelay);
  delay.reset();
  heldMs = 0;
});
