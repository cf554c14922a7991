import type { CsvColumn } from "../../http/csv.ts";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { Moment } from "../../ui/moment.tsx";
import { Credits } from "../../ui/money.tsx";
import type { LedgerEntry, CreditTotals as Totals } from "./usage.ts";

const kinds: Record<LedgerEntry["kind"], string> = {
  grant: "Grant",
  purchase: "Purchase",
  usage: "Run",
  adjustment: "Correction of a run",
  refund: "Refund",
};

/** Returns the name of an entry. Every entry that takes credits without a run is a deduction. */
function entryName({ kind, amount, runId }: LedgerEntry): string {
  return runId === null && amount.startsWith("-") ? "Deduction" : kinds[kind];
}

export const ledgerColumns: readonly CsvColumn<LedgerEntry>[] = [
  { name: "time", value: ({ createdAt }) => createdAt },
  { name: "kind", value: ({ kind }) => kind },
  { name: "payer", value: ({ payer }) => payer },
  { name: "credits", value: ({ amount }) => amount },
  { name: "balance_after", value: ({ balanceAfter }) => balanceAfter },
  { name: "run_id", value: ({ runId }) => runId },
  { name: "description", value: ({ description }) => description },
];

/** Lists every change of the balance in a range, newest first. A change caused by a run links to the run. */
export function Ledger({ entries, workspaceId }: { entries: LedgerEntry[]; workspaceId: string }) {
  const amountDecimals = columnDecimals(entries.map(({ amount }) => amount));
  const balanceDecimals = columnDecimals(entries.map(({ balanceAfter }) => balanceAfter));
  return (
    <DataTable
      caption="Ledger"
      columns={[
        {
          label: "Entry",
          cell: (entry) => (
            <>
              {entry.runId ? (
                <a className="link" href={`/workspaces/${workspaceId}/ai/runs/${entry.runId}`}>
                  {entryName(entry)}
                </a>
              ) : (
                entryName(entry)
              )}
              {entry.description ? <span className="block text-muted text-small">{entry.description}</span> : null}
            </>
          ),
        },
        { label: "When", cell: ({ createdAt }) => <Moment at={createdAt} /> },
        {
          label: "Credits",
          numeric: true,
          small: "aside",
          cell: ({ amount }) => <Credits amount={amount} decimals={amountDecimals} />,
        },
        {
          label: "Balance after",
          numeric: true,
          cell: ({ balanceAfter }) => <Credits amount={balanceAfter} decimals={balanceDecimals} />,
        },
      ]}
      rows={entries}
      rowKey={({ id }) => id}
      empty="No credits were added, deducted or used in this range."
    />
  );
}

/** Shows the credit totals of a range: credits used, credits added and credits not billed. */
export function CreditTotals({ totals, payer }: { totals: Totals; payer: "workspace" | "member" }) {
  const lines = [
    {
      label: "Billed for runs",
      amount: totals.runCredits,
      note: "Runs of all members and API keys of this workspace",
    },
    {
      label: "Adjustments",
      amount: totals.otherDeductions,
      note:
        payer === "member"
          ? "Deducted manually from your balance, or from the workspace’s if it has one"
          : "Deducted manually from the workspace’s balance, or from yours if you have one",
    },
    { label: "Total used", amount: totals.usedCredits, note: "Billed for runs, plus adjustments", strong: true },
    {
      label: "Added",
      amount: totals.addedCredits,
      note:
        payer === "member"
          ? "Granted, purchased or refunded, to your balance or, if the workspace has one, its balance"
          : "Granted, purchased or refunded",
    },
    {
      label: "Not billed",
      amount: totals.unmeteredCredits,
      note: "Requests by external apps, and failed requests without a token count",
    },
  ];
  const decimals = columnDecimals(lines.map(({ amount }) => amount));
  return (
    <dl>
      {lines.map(({ label, amount, note, strong }) => (
        <div
          key={label}
          className="grid grid-cols-[1fr_auto] items-baseline gap-x-6 border-line py-2.5 first:pt-0 last:pb-0 not-first:border-t"
        >
          <dt className={strong ? "font-semibold" : "font-medium"}>{label}</dt>
          <dd className={`text-right tabular-nums ${strong ? "font-semibold" : ""}`}>
            <Credits amount={amount} decimals={decimals} />
          </dd>
          <dd className="col-span-2 text-muted text-small">{note}</dd>
        </div>
      ))}
    </dl>
  );
}
