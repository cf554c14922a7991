/** Returns the processor time that this thread needs for `work`, in milliseconds. */
export function cpuMs(work: () => void): number {
  const started = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(started);
  return (user + system) / 1_000;
}

/** The processor time for which limits are set: that of `JSON.parse` for 8 MiB of numbers. */
const referenceMs = 24;

/**
 * Returns how many times slower this machine is now than the one that limits of processor time are set for, at least 1.
 * Tests compare what exceeds such a limit with it, so that they find slow code rather than a slow machine. Measure it
 * right after the work: other processes slow a machine for a while only.
 */
export function measureSlowness(): number {
  const text = `[${"1539,".repeat(1_677_721)}1]`;
  return Math.max(1, Math.min(...Array.from({ length: 5 }, () => cpuMs(() => JSON.parse(text)))) / referenceMs);
}
