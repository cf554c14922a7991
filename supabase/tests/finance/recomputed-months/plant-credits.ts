import { randomUUID } from "node:crypto";
import { firstOf, lastOf, lengthOf, plusDays } from "./calendar.ts";
import type { Random } from "./random.ts";

/** The balances: of the workspace, and of its two members. */
export type Payer = "workspace" | "ann" | "bob";
type Member = "ann" | "bob";

export interface CreditRun {
  id: string;
  /** Whether it was made in Ann's other workspace, in which members always pay. */
  isElsewhere: boolean;
  member: Member;
  model: string;
  /** Milliseconds since 1970. */
  at: number;
  /** What it was billed, after a correction. */
  billed: bigint;
  unmetered: bigint;
  payer: Payer;
}
/** A change of a balance. */
export interface Entry {
  payer: Payer;
  kind: "grant" | "purchase" | "refund" | "usage" | "adjustment";
  amount: bigint;
  at: number;
  run: CreditRun | null;
  description: string | null;
}
export interface Ledger {
  runs: CreditRun[];
  /** In the order in which they are booked. */
  entries: Entry[];
  changedAt: number;
}

const minute = 60_000;
const start = (day: string) => Date.parse(`${day}T00:00:00Z`);

/** Plants three months of credits of a workspace whose plan makes members pay instead, or no longer, in the second. */
export function plantCredits(
  random: Random,
  {
    payers,
    months,
  }: { payers: readonly ["members" | "workspace", "members" | "workspace"]; months: readonly string[] },
): Ledger {
  const { chance, integer, pick } = random;
  const credits = (most = 8) => random.amount(pick([0, 2, most]));
  const [before, , after] = [firstOf(months[0] ?? ""), months[1], plusDays(lastOf(months[2] ?? ""), 1)];
  const [from, to] = [start(before), start(after)];
  const changedAt = start(firstOf(months[1] ?? "")) + (8 + integer(12)) * 1_440 * minute + integer(1_440) * minute;
  const payerAt = (at: number) => payers[at < changedAt ? 0 : 1];
  const ledger: Ledger = { runs: [], entries: [], changedAt };
  const add = (entry: Omit<Entry, "run" | "description"> & Partial<Entry>) =>
    ledger.entries.push({ run: null, description: null, ...entry });

  // A balance begins with the first request that it pays, or earlier.
  for (const payer of ["workspace", "ann", "bob"] as const) {
    const isLater = payer === "workspace" && payers[0] !== "workspace";
    const at = isLater ? changedAt : from - (1 + integer(20)) * 1_440 * minute;
    add({ payer, kind: "grant", amount: 100_000n * 10n ** 12n, at, description: "Initial credits of the plan" });
    for (let left = 8; left > 0; left -= 1) {
      // The last two are in the month of the change.
      const soon = changedAt + (1 + integer(5 * 1_440)) * minute;
      const moment = left > 2 ? at + integer((to + 5 * 1_440 * minute - at) / minute) * minute : soon;
      const isDeducted = left > 2 ? chance(0.3) : left === 1;
      const kind = pick(isDeducted ? (["grant", "refund"] as const) : (["grant", "purchase", "refund"] as const));
      const description = chance(0.5) ? `Change ${left}` : null;
      add({ payer, kind, amount: isDeducted ? -credits() : credits() * 10n, at: moment, description });
    }
  }

  let count = 0;
  const addRun = (at: number, waitMs: number) => {
    count += 1;
    const isElsewhere = count % 5 === 0;
    const member = isElsewhere ? "ann" : pick(["ann", "bob"] as const);
    const payer: Payer = isElsewhere || payerAt(at) === "members" ? member : "workspace";
    const run = { id: randomUUID(), isElsewhere, member, model: pick(["model-a", "model-b"]), at, payer };
    if (count % 7 === 0) {
      ledger.runs.push({ ...run, billed: 0n, unmetered: credits() });
      return;
    }
    const used = credits();
    const corrected = count % 3 === 0 ? (chance(0.5) ? credits(2) : -credits(2)) : 0n;
    const billed = { ...run, billed: used - corrected, unmetered: 0n };
    ledger.runs.push(billed);
    add({ payer, kind: "usage", amount: -used, at: at + waitMs, run: billed });
    if (corrected === 0n) return;
    const correctedAt = at + waitMs + (1 + integer(4 * 1_440)) * minute;
    add({ payer, kind: "adjustment", amount: corrected, at: correctedAt, run: billed });
  };
  for (const month of months) {
    for (let left = 30; left > 0; left -= 1) {
      addRun(start(firstOf(month)) + integer(lengthOf(month) * 1_440) * minute + integer(60_000), integer(90_000));
    }
    // Begin in this month, and are charged in the next.
    for (const seconds of [1, 20]) addRun(start(plusDays(lastOf(month), 1)) - seconds * 1_000, 60_000);
  }
  ledger.entries.sort((one, other) => one.at - other.at);
  return ledger;
}
