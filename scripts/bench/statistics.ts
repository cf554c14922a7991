/** Returns the smallest value that `share` of the sample does not exceed. */
export function quantile(sample: readonly number[], share: number): number {
  const sorted = [...sample].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** The quantiles that make up a latency curve. */
export const curveShares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1] as const;

/**
 * Returns the quantiles of a sample at `curveShares`, or an empty list for an empty sample.
 * @param failed number of failed requests, each counted with infinite latency
 */
export function quantilesOf(sample: readonly number[], failed = 0): number[] {
  const all = [...sample, ...new Array<number>(failed).fill(Number.POSITIVE_INFINITY)];
  return all.length === 0 ? [] : curveShares.map((share) => quantile(all, share));
}

/** Returns the median. It is the lower of the two middle values for an even count, and NaN for an empty sample. */
export const median = (sample: readonly number[]): number => quantile(sample, 0.5);

/** Returns the ratio of two figures in each round that both have. */
export function ratios(ours: readonly number[], theirs: readonly number[]): number[] {
  return ours.map((figure, round) => figure / (theirs[round] ?? Number.NaN)).filter((ratio) => !Number.isNaN(ratio));
}

/** Formats a sample as `median (lowest–highest)`. */
export function spread(sample: readonly number[], digits: number): string {
  const [low, middle, high] = [0, 0.5, 1].map((share) => quantile(sample, share).toFixed(digits));
  return `${middle} (${low}–${high})`;
}

/** Keeps `concurrency` calls of `work` running for `durationMs`, and waits for the last one. */
export async function saturate(options: {
  concurrency: number;
  durationMs: number;
  work: () => Promise<unknown>;
}): Promise<{ perSecond: number; latenciesMs: number[] }> {
  const { concurrency, durationMs, work } = options;
  const latenciesMs: number[] = [];
  const begun = performance.now();
  async function worker(): Promise<void> {
    while (performance.now() - begun < durationMs) {
      const before = performance.now();
      await work();
      latenciesMs.push(performance.now() - before);
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker));
  return { perSecond: latenciesMs.length / ((performance.now() - begun) / 1_000), latenciesMs };
}

/** The ratio of all calls that `timeEach` makes, including the warm-up, to the calls that it measures. */
export const warmUpFactor = 1.25;

/** Returns how long each of `count` sequential calls of `work` takes, after a warm-up. */
export async function timeEach(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const warmUp = Math.ceil(count * (warmUpFactor - 1));
  const latenciesMs: number[] = [];
  for (let call = 0; call < warmUp + count; call += 1) {
    const before = performance.now();
    await work();
    if (call >= warmUp) latenciesMs.push(performance.now() - before);
  }
  return latenciesMs;
}
