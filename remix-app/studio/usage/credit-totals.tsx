import { formatExactCredits } from "../../ui/format-amount.ts";
import type { CreditAccount, CreditsElsewhere, CreditTotals } from "./usage.ts";

type Payer = CreditAccount["payer"];
type Line = { label: string; amount: string; note?: string; strong?: boolean };

/** Shows how a balance changed in a range. The lines add up, so amounts are exact. */
export function BalanceChanges({ payer, changes }: Pick<CreditAccount, "payer" | "changes">) {
  const { opening, added, deducted, runs, otherRuns, closing } = changes;
  return (
    <AmountLines
      lines={[
        { label: "Opening balance", amount: opening },
        { label: "Added", amount: added, note: "Granted, purchased or refunded" },
        ...(deducted === "0"
          ? []
          : [{ label: "Deducted", amount: negate(deducted), note: "Adjustments without a run" }]),
        { label: payer === "member" ? "Your runs in this workspace" : "Runs", amount: negate(runs) },
        ...(otherRuns === "0"
          ? []
          : [{ label: "Runs in your other workspaces", amount: negate(otherRuns), note: "They share your balance" }]),
        { label: "Closing balance", amount: closing, strong: true },
      ]}
    />
  );
}

/** Shows what a workspace used in a range, by who paid for it. The lines add up, so amounts are exact. */
export function CreditsUsed({
  totals: { runCredits, otherDeductions, usedCredits, unmeteredCredits },
  elsewhere,
  accounts,
  payer,
}: {
  totals: CreditTotals;
  elsewhere: CreditsElsewhere;
  accounts: readonly Pick<CreditAccount, "payer" | "changes">[];
  payer: Payer;
}) {
  const paid = accounts
    .filter((account) => account.changes.runs !== "0")
    .map((account) => ({
      label: account.payer === "member" ? "Paid from your balance" : "Paid from the workspace’s balance",
      amount: account.changes.runs,
    }));
  return (
    <AmountLines
      lines={[
        ...(elsewhere.credits === "0" ? (paid.length > 1 ? paid : []) : [...paid, elsewhereLine(elsewhere, payer)]),
        {
          label: "Billed for runs",
          amount: runCredits,
          note: "Runs of all members and API keys of this workspace that began in this range",
        },
        ...(otherDeductions === "0"
          ? []
          : [{ label: "Adjustments", amount: otherDeductions, note: "Deducted without a run" }]),
        { label: "Total used", amount: usedCredits, strong: true },
        {
          label: "Not billed",
          amount: unmeteredCredits,
          note: "Requests by external apps, and failed requests without a token count",
        },
      ]}
    />
  );
}

/** Returns the line for what none of the balances on the page paid. */
function elsewhereLine({ credits: amount, membersPaid }: CreditsElsewhere, payer: Payer): Line {
  const timing = "runs that began in this range and were charged after it, less earlier runs that were charged in it";
  if (!membersPaid) return { label: "Charged outside this range", amount, note: `These are ${timing}` };
  return payer === "member"
    ? { label: "Paid by other members", amount, note: `From their own balances. Includes ${timing}` }
    : { label: "Paid from members’ own balances", amount, note: `Under an earlier plan. Includes ${timing}` };
}

/** Lists exact amounts with the same number of decimals. */
export function AmountLines({ lines }: { lines: readonly Line[] }) {
  const decimals = exactDecimals(lines.map(({ amount }) => amount));
  return (
    <dl>
      {lines.map(({ label, amount, note, strong }) => (
        <div
          key={label}
          className="grid grid-cols-[1fr_auto] items-baseline gap-x-6 border-line py-2.5 first:pt-0 last:pb-0 not-first:border-t"
        >
          <dt className={strong ? "font-semibold" : "font-medium"}>{label}</dt>
          <dd className={`text-right tabular-nums ${strong ? "font-semibold" : ""}`}>{exactText(amount, decimals)}</dd>
          {note ? <dd className="col-span-2 text-muted text-small">{note}</dd> : null}
        </div>
      ))}
    </dl>
  );
}

/** Returns the number of decimals that shows all amounts exactly. @param amounts exact decimal strings */
export function exactDecimals(amounts: readonly string[]): number {
  return Math.max(2, ...amounts.map((amount) => amount.split(".")[1]?.length ?? 0));
}

function exactText(amount: string, decimals: number): string {
  const [whole = "", fraction = ""] = amount.split(".");
  return formatExactCredits(`${whole}.${fraction.padEnd(decimals, "0")}`);
}

/** Returns an amount with the opposite sign. @param amount exact decimal string */
export function negate(amount: string): string {
  if (amount === "0") return amount;
  return amount.startsWith("-") ? amount.slice(1) : `-${amount}`;
}
