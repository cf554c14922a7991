/** A counter of events in windows of a fixed length. It is kept in memory, since it limits only this process. */
export type RateWindow = { take: () => boolean };

/**
 * Creates a counter that allows at most `events` per window. A window starts with its first event and lasts `perMs`.
 */
export function rateWindow({ events, perMs }: { events: number; perMs: number }, clock: () => Date): RateWindow {
  let windowEndMs = 0;
  let remaining = 0;
  return {
    take() {
      const nowMs = clock().getTime();
      if (nowMs >= windowEndMs) {
        windowEndMs = nowMs + perMs;
        remaining = events;
      }
      if (remaining < 1) return false;
      remaining -= 1;
      return true;
    },
  };
}

export type TokenBuckets = { take: (key: string) => boolean };

/**
 * Keeps one token bucket per key. A bucket holds `burst` tokens and is refilled by `perSecond`. Full buckets are
 * dropped.
 */
export function tokenBuckets(
  { burst, perSecond }: { burst: number; perSecond: number },
  clock: () => Date,
): TokenBuckets {
  const buckets = new Map<string, { level: number; atMs: number }>();
  const fillMs = (burst / perSecond) * 1_000;
  return {
    take(key) {
      const atMs = clock().getTime();
      if (buckets.size > 10_000) {
        for (const [other, bucket] of buckets) if (atMs - bucket.atMs > fillMs) buckets.delete(other);
      }
      const bucket = buckets.get(key) ?? { level: burst, atMs };
      const level = Math.min(burst, bucket.level + ((atMs - bucket.atMs) / 1_000) * perSecond);
      buckets.set(key, { level: level >= 1 ? level - 1 : level, atMs });
      return level >= 1;
    },
  };
}
