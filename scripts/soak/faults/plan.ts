import type { Random } from "../random.ts";

/** Faults that kill a process, which the stack then restarts. Memory can't be judged across a restart. */
const restarts = [
  "functions SIGKILL",
  "functions SIGTERM",
  "identity SIGKILL",
  "identity SIGTERM",
  "web SIGKILL",
  "web SIGTERM",
  "gateway SIGKILL",
] as const;
/** More process kills, for a stack with several servers. */
const scaledRestarts = [
  "web-2 SIGKILL",
  "web-2 SIGTERM",
  "functions-2 SIGKILL",
  "functions-2 SIGTERM",
  "functions-3 SIGKILL",
  "functions-3 SIGTERM",
  "pgbouncer SIGKILL",
  "pgbouncer SIGTERM",
] as const;
/** Losses of the primary, for a stack with a standby. */
const primaryLosses = ["postgres switchover", "postgres crash", "postgres node crash"] as const;
const others = [
  "postgres SIGKILL",
  "postgres SIGINT",
  "provider 500",
  "provider hang",
  "provider reset",
  "provider cut",
  "slow disk",
  "network delay",
] as const;

export type FaultKind = (typeof restarts | typeof scaledRestarts | typeof primaryLosses | typeof others)[number];

export type PlannedFault = { kind: FaultKind; atMs: number; forMs: number };

/**
 * A plan of less than a minute. Kills the functions, and then the web server that runs sweeps, early enough that a
 * sweep closes the open runs before traffic ends. The stack recovers fully between two faults.
 */
const quickPlan: [FaultKind, number, number][] = [
  ["functions SIGKILL", 3, 0],
  ["provider 500", 8, 3],
  ["web SIGTERM", 17, 0],
  ["postgres SIGKILL", 22, 0],
  ["slow disk", 28, 3],
  ["identity SIGTERM", 34, 0],
  ["network delay", 39, 3],
  ["provider cut", 44, 2],
];

const firstMs = 15_000;
/**
 * Minimum and maximum time between two faults. With several servers, the pauses are shorter, since there are more
 * processes to kill.
 */
const pauseMs = [14_000, 26_000] as const;
const scaledPauseMs = [10_000, 18_000] as const;
/** The time between two losses of the primary, in which the old one becomes the standby. */
const betweenLossesMs = 50_000;
/** No fault starts in this last part of the traffic, so that the consequences of the last fault still show. */
const quietEndMs = 20_000;

function serviceOf(kind: FaultKind | undefined): string | undefined {
  return kind?.split(" ")[0];
}

/**
 * Returns the faults with their times in milliseconds from the start of traffic. The same seed returns the same plan.
 */
export function planFaults({
  quick,
  scale,
  switchPrimary,
  trafficMs,
  random,
}: {
  quick: boolean;
  scale: boolean;
  switchPrimary: boolean;
  trafficMs: number;
  random: Random;
}): PlannedFault[] {
  if (quick) return quickPlan.map(([kind, at, seconds]) => ({ kind, atMs: at * 1_000, forMs: seconds * 1_000 }));
  if (switchPrimary) {
    const count = Math.floor((trafficMs - firstMs - quietEndMs) / betweenLossesMs) + 1;
    return Array.from({ length: count }, (_, n) => ({
      kind: primaryLosses[n % primaryLosses.length] ?? primaryLosses[0],
      atMs: firstMs + n * betweenLossesMs,
      forMs: 0,
    }));
  }
  const planned: PlannedFault[] = [];
  let round: FaultKind[] = [];
  let atMs = firstMs;
  while (atMs < trafficMs - quietEndMs) {
    // Does not restart the measured services in the middle half of the run, so that their memory growth can be judged.
    // Runs with several servers restart services throughout.
    const isMiddle = !scale && atMs > trafficMs * 0.25 && atMs < trafficMs * 0.75;
    round = round.filter((kind) => !isMiddle || !(restarts as readonly FaultKind[]).includes(kind));
    if (round.length === 0)
      round = random.shuffled(isMiddle ? others : [...restarts, ...others, ...(scale ? scaledRestarts : [])]);
    // Spreads out restarts of the same service, because the stack gives up on a service that dies too often.
    const at = Math.max(
      0,
      round.findLastIndex((kind) => serviceOf(kind) !== serviceOf(planned.at(-1)?.kind)),
    );
    const [kind] = round.splice(at, 1) as [FaultKind];
    const lasts = kind.startsWith("provider") || kind === "slow disk" || kind === "network delay";
    const forMs = lasts ? Math.round(random.between(4_000, 12_000)) : 0;
    planned.push({ kind, atMs: Math.round(atMs), forMs });
    const [leastMs, mostMs] = scale ? scaledPauseMs : pauseMs;
    atMs += forMs + random.between(leastMs, mostMs);
  }
  return planned;
}
