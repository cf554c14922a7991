import type { CsvColumn } from "../../http/csv.ts";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { ExactTime } from "../../ui/moment.tsx";
import { Credits } from "../../ui/money.tsx";
import type { LedgerEntry } from "./usage.ts";

const entryKindLabels: Record<LedgerEntry["kind"], string> = {
  grant: "Grant",
  purchase: "Purchase",
  usage: "Run",
  adjustment: "Correction of a run",
  refund: "Refund",
};

/** A row of the ledger's CSV file: an entry, or a line that explains the balance. */
export type LedgerRow = Omit<LedgerEntry, "id" | "kind" | "amount" | "balanceAfter"> & {
  kind: LedgerEntry["kind"] | "opening_balance" | "other_workspaces" | "closing_balance";
  amount: string | null;
  balanceAfter: string | null;
};

export const ledgerColumns: readonly CsvColumn<LedgerRow>[] = [
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
