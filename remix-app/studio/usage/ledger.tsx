import type { CsvColumn } from "../../http/csv.ts";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { ExactTime } from "../../ui/moment.tsx";
import { Credits } from "../../ui/money.tsx";
import type { LedgerEntry, CreditTotals as Totals } from "./usage.ts";

const entryKindLabels: Record<LedgerEntry["kind"], string> = {
  grant: "Grant",
  purchase: "Purchase",
  usage: "Run",
  adjustment: "Correction of a run",
  refund: "Refund",
};

export const ledgerColumns: readonly CsvColumn<LedgerEntry>[] = [
  { name: "time", value: ({ createdAt }) => createdAt },
  { name: "kind", value: ({ kind }) => kind },
  { name: "payer", value: ({ payer }) => payer },
  { name: "credits", value: ({ amount }) => amount },
  { name: "balance_after", value: ({ balanceAfter }) => balanceAfter },
  { name: "run_id", value: ({ runId }) => runId },
  { name: "description", value: ({ description }) => description },
];

type TableEntry = Omit<LedgerEntry, "payer"> & { reference?: string | null };

/**
 * Lists changes of a balance, newest first. A change caused by a run links to the run.
 * @param props.runs the path that contains the pages of runs
 * @param props.deduction the name of an entry that takes credits without a run
 */
export function LedgerTable({
  entries,
  runs,
  deduction,
  empty,
}: {
  entries: readonly TableEntry[];
  runs: string;
  deduction: string;
  empty: string;
}) {
  const amountDecimals = columnDecimals(entries.map(({ amount }) => amount));
  const balanceDecimals = columnDecimals(entries.map(({ balanceAfter }) => balanceAfter));
  return (
    <DataTable
      caption="Ledger"
      columns={[
        {
          label: "Entry",
          cell: ({ kind, amount, runId, description, reference }) => (
            <>
              {runId ? (
                <a className="link" href={`${runs}/${runId}`}>
                  {entryKindLabels[kind]}
                </a>
              ) : amount.startsWith("-") ? (
                deduction
              ) : (
                entryKindLabels[kind]
              )}
              {description ? <span className="block text-muted text-small">{description}</span> : null}
              {reference ? <span className="block break-all font-mono text-muted text-small">{reference}</span> : null}
            </>
          ),
        },
        { label: "When", cell: ({ createdAt }) => <ExactTime at={createdAt} /> },
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
      empty={empty}
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
