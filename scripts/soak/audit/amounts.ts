import { type Verdict, verdict } from "./verdict.ts";

/** A kind of fact: how many were collected, and the minimum for the shortest run. */
export type Amount = { what: string; count: number; least: number; grows: boolean };

/** The traffic duration that `least` refers to, for facts that grow with time. */
export const leastOfMs = 50_000;

/**
 * Checks that there are enough facts of each kind, since a check without facts finds nothing. The minimum is a fifth to
 * a tenth of what a quick run produces on two busy cores.
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
