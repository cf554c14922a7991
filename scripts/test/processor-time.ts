/** Returns the processor time that this thread needs for `work`, in milliseconds. */
export function cpuMs(work: () => void): number {
  const started = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(started);
  return (user + system) / 1_000;
}

/** The processor time for which limits are set: that of `JSON.parse` for 8 MiB of numbers. */
const referenceMs = 24;

function measureReference(): number {
  const text = `[${"1539,".repeat(1_677_721)}1]`;
  return Math.min(...Array.from({ length: 5 }, () => cpuMs(() => JSON.parse(text))));
}

/**
 * How many times slower this machine is than the one that limits of processor time are set for, at least 1. Tests
 * multiply such limits by it, so that they find slow code rather than a slow machine.
 */
export const slowness = Math.max(1, measureReference() / referenceMs);
