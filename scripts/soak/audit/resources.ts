import { partOf } from "../faults/spans.ts";
import type { ConnectionSample, Sample } from "../samples.ts";
import { type Verdict, verdict } from "./verdict.ts";

/**
 * Maximum memory in megabytes (docs/capacity.md). Hosted functions are killed at 256 MB, and the other services must
 * fit a small server.
 */
export const mostRssMb: Record<string, number> = { functions: 200, web: 512, identity: 512, gateway: 512, notes: 512 };
/**
 * The share of a process's lifetime that counts as warm-up, in which a process grows until its heap is large enough.
 */
const warmUpPart = 1 / 3;
/** The shortest time over which growth can be judged. */
const shortestMs = 4 * 60_000;
/** How much a process may grow while it is watched after its warm-up. */
export const mostGrowthMb = 25;
/**
 * How much higher the peak may be in the last third of a process's lifetime than before. A heap's peaks vary even if
 * the heap doesn't grow.
 */
const mostPeakMb = 10;
/** How many connections a role may hold: the sum of its pools. */
export const mostConnections: Record<string, number> = { gateway: 80, authenticator: 30, supabase_auth_admin: 15 };
const mostFilesMore = 60;

/** Checks that no process exceeds its memory limit or grows. */
export function judgeMemory(samples: readonly Sample[]): Verdict {
  const failures: string[] = [];
  const figures: string[] = [];
  for (const [service, all] of Map.groupBy(samples, ({ service }) => service)) {
    const peak = Math.max(...all.map(({ rssMb }) => rssMb));
    const limit = mostRssMb[partOf(service)] ?? Number.POSITIVE_INFINITY;
    if (peak > limit) failures.push(`${service} had ${peak.toFixed(0)} MB, ${limit} are allowed`);
    const growths = [...Map.groupBy(all, ({ pid }) => pid).values()].flatMap((process) => growthOf(process) ?? []);
    const growth = growths.length > 0 ? Math.max(...growths) : undefined;
    if (growth !== undefined && growth > mostGrowthMb) {
      failures.push(`${service} grew by ${growth.toFixed(0)} MB, ${mostGrowthMb} are allowed`);
    }
    figures.push(`${service} ≤ ${peak.toFixed(0)} MB${growth === undefined ? "" : ` (${signed(growth)})`}`);
  }
  return verdict("memory flat", { figures: figures.join(", "), failures });
}

const signed = (mb: number) => `${mb >= 0 ? "+" : ""}${mb.toFixed(0)} MB`;

/**
 * Returns the memory growth of one process after its warm-up, by linear regression, or undefined if the samples after
 * the warm-up cover too little time. Counts growth only if the peak rises too, because memory that rises at the end may
 * only be waiting for garbage collection.
 */
export function growthOf(samples: readonly Sample[]): number | undefined {
  const [first, last] = [samples[0]?.at ?? 0, samples.at(-1)?.at ?? 0];
  const warm = samples.filter(({ at }) => at - first >= (last - first) * warmUpPart);
  const lastsMs = (warm.at(-1)?.at ?? 0) - (warm[0]?.at ?? 0);
  if (lastsMs < shortestMs) return undefined;
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [atMean, mbMean] = [mean(warm.map(({ at }) => at)), mean(warm.map(({ rssMb }) => rssMb))];
  const covariance = warm.reduce((sum, { at, rssMb }) => sum + (at - atMean) * (rssMb - mbMean), 0);
  const variance = warm.reduce((sum, { at }) => sum + (at - atMean) ** 2, 0);
  const growth = (covariance / variance) * lastsMs;
  const lastThird = last - (last - first) / 3;
  const peak = (part: readonly Sample[]) => Math.max(...part.map(({ rssMb }) => rssMb));
  const higher = peak(samples.filter(({ at }) => at >= lastThird)) - peak(samples.filter(({ at }) => at < lastThird));
  return higher > mostPeakMb ? growth : Math.min(growth, 0);
}

/**
 * Checks that no role holds more connections than its pools, that no connection stays idle in a transaction, and that
 * no process leaks files.
 */
export function judgeConnections({
  connections,
  samples,
  atRest,
}: {
  connections: readonly ConnectionSample[];
  samples: readonly Sample[];
  /** Samples taken after traffic has ended. */
  atRest: readonly ConnectionSample[];
}): Verdict {
  const failures: string[] = [];
  const figures: string[] = [];
  for (const [role, all] of Map.groupBy(connections, ({ role }) => role)) {
    const peak = Math.max(...all.map(({ connections: count }) => count));
    const limit = mostConnections[role];
    if (limit === undefined) continue;
    figures.push(`${role} ≤ ${peak}`);
    if (peak > limit) failures.push(`${role} held ${peak} connections, its pools have ${limit}`);
  }
  for (const { role, idleInTransaction } of atRest) {
    if (idleInTransaction > 0) failures.push(`${idleInTransaction} connections of ${role} are left in a transaction`);
  }
  for (const [service, all] of Map.groupBy(samples, ({ service }) => service)) {
    const [first, last] = [Math.max(...all.slice(0, 15).map(({ files }) => files)), all.at(-1)?.files ?? 0];
    if (last > first + mostFilesMore)
      failures.push(`${service} holds ${last} files and sockets, after ${first} at its start`);
  }
  return verdict("connections not leaking", { figures: figures.join(", "), failures });
}
