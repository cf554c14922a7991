import { type Verdict, verdict } from "./verdict.ts";

/** What a judge was given to judge, how much of it there was, and how much there is at least in the shortest run. */
export type Amount = { what: string; count: number; least: number; grows: boolean };

/** The shortest traffic, which what grows with time is at least of. */
export const leastOfMs = 50_000;

/**
 * Of every kind of fact there was enough: a judge of nothing finds nothing. The least is a fifth to a tenth of what a quick run
 * sees on two busy cores.
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
