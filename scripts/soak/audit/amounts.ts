import { type Verdict, verdict } from "./verdict.ts";

/** A kind of fact: how many were collected, and how many are needed to judge a run. */
export type Amount = { what: string; count: number; least: number; grows: boolean };

/**
 * The traffic duration for which `least` is stated. For facts that grow with time, the minimum is scaled to the actual
 * duration.
 */
export const leastOfMs = 50_000;

/**
 * Checks that the run produced enough data of each kind to judge, because a check without data finds nothing. The
 * minimum is a fifth to a tenth of what a quick run produces on two busy cores.
 */
export function judgeAmounts(amounts: readonly Amount[], trafficMs: number): Verdict {
  const failures: string[] = [];
  for (const { what, count, least, grows } of amounts) {
    const needed = grows ? Math.max(1, Math.floor((least * trafficMs) / leastOfMs)) : least;
    if (count < needed) failures.push(`${count} ${what}, at least ${needed} are needed to judge`);
  }
  return verdict("there was enough to judge", {
    figures: amounts.map(({ what, count }) => `${count} ${what}`).join(", "),
    failures,
  });
}
