import { sum, text } from "./decimals.ts";
import type { CreditRun, Entry, Ledger, Payer } from "./plant-credits.ts";

/** A half-open window, in milliseconds since 1970. */
export type Window = { from: number; to: number };

const isWithin = ({ from, to }: Window, { at }: { at: number }) => at >= from && at < to;
const total = (entries: readonly Entry[]) => sum(entries.map(({ amount }) => amount));

/** Returns the entries of a balance in a window, and its balances at both ends. */
export function entriesOf({ entries }: Ledger, { payer, window }: { payer: Payer; window: Window }) {
  const own = entries.filter((entry) => entry.payer === payer);
  const within = own.filter((entry) => isWithin(window, entry));
  const opening = total(own.filter(({ at }) => at < window.from));
  return { within, opening, closing: opening + total(within) };
}

/** Computes how a balance changes in a window. Amounts are signed. */
export function changesOf(ledger: Ledger, at: { payer: Payer; window: Window }) {
  const { within, opening, closing } = entriesOf(ledger, at);
  const of = (matches: (entry: Entry, run: CreditRun | null) => boolean) =>
    total(within.filter((entry) => matches(entry, entry.run)));
  return {
    opening,
    added: of(({ amount }, run) => run === null && amount > 0n),
    deducted: of(({ amount }, run) => run === null && amount < 0n),
    used: of(({ kind }, run) => run !== null && !run.isElsewhere && kind === "usage"),
    corrected: of(({ kind }, run) => run !== null && !run.isElsewhere && kind === "adjustment"),
    elsewhere: of((_, run) => run?.isElsewhere === true),
    closing,
  };
}

/** Computes what a workspace used in a window, and how much of it other balances than those shown paid. */
export function usedIn(ledger: Ledger, { shown, window }: { shown: readonly Payer[]; window: Window }) {
  const runs = ledger.runs.filter((run) => !run.isElsewhere && isWithin(window, run));
  const changes = shown.map((payer) => changesOf(ledger, { payer, window }));
  const billed = sum(runs.map((run) => run.billed));
  const paid = changes.map(({ used, corrected }) => -used - corrected);
  const deducted = -sum(changes.map((change) => change.deducted));
  return {
    billed,
    paid,
    elsewhere: billed - sum(paid),
    deducted,
    used: billed + deducted,
    added: sum(changes.map((change) => change.added)),
    unmetered: sum(runs.map((run) => run.unmetered)),
    byOthers: sum(runs.filter(({ payer }) => !shown.includes(payer)).map((run) => run.billed)),
  };
}

/** Computes what a balance paid in a window by model and member: "model member requests credits". */
export function listUse(ledger: Ledger, at: { payer: Payer; window: Window }): string[] {
  const { within } = entriesOf(ledger, at);
  const used = within.filter(({ kind, run }) => kind === "usage" && run?.isElsewhere === false);
  const groups = Map.groupBy(used, ({ run }) => `${run?.model} ${run?.member}`);
  return [...groups].map(([name, entries]) => `${name} ${entries.length} ${text(-total(entries))}`).sort();
}
