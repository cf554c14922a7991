import { Link } from "@remix-run/react";
import type { CsvColumn } from "../../http/csv.ts";
import { DataTable } from "../../ui/data-table.tsx";
import { Moment } from "../../ui/moment.tsx";
import { Credits } from "../../ui/money.tsx";
import type { LedgerEntry } from "./usage.ts";

const kinds: Record<LedgerEntry["kind"], string> = {
  grant: "Grant",
  purchase: "Purchase",
  usage: "Run",
  adjustment: "Correction of a run",
  refund: "Refund",
};

/** What an entry is called; whatever takes credits away without a run is a deduction. */
function entryName({ kind, amount, runId }: LedgerEntry): string {
  return runId === null && amount.startsWith("-") ? "Deduction" : kinds[kind];
}

/** The columns of the ledger's file. */
export const ledgerColumns: readonly CsvColumn<LedgerEntry>[] = [
  { name: "time", value: ({ createdAt }) => createdAt },
  { name: "kind", value: ({ kind }) => kind },
  { name: "payer", value: ({ payer }) => payer },
  { name: "credits", value: ({ amount }) => amount },
  { name: "balance_after", value: ({ balanceAfter }) => balanceAfter },
  { name: "run_id", value: ({ runId }) => runId },
  { name: "description", value: ({ description }) => description },
];

/** Every change of the balance in a range, the newest first, each with the run that it paid for. */
export function Ledger({ entries, workspaceId, now }: { entries: LedgerEntry[]; workspaceId: string; now: string }) {
  return (
    <DataTable
      caption="Ledger"
      columns={[
        {
          label: "What",
          cell: (entry) => (
            <>
              {entry.runId ? (
                <Link className="link" to={`/workspaces/${workspaceId}/ai/runs/${entry.runId}`}>
                  {entryName(entry)}
                </Link>
              ) : (
                entryName(entry)
              )}
              {entry.description ? <span className="block text-muted text-small">{entry.description}</span> : null}
            </>
          ),
        },
        { label: "When", cell: ({ createdAt }) => <Moment at={createdAt} now={now} /> },
        { label: "Credits", numeric: true, small: "aside", cell: ({ amount }) => <Credits amount={amount} /> },
        {
          label: "Balance after",
          numeric: true,
          cell: ({ balanceAfter }) => <Credits amount={balanceAfter} />,
        },
      ]}
      rows={entries}
      rowKey={({ id }) => id}
      empty="Nothing was added, deducted or used in this time. Credits are deducted as calls are charged."
    />
  );
}
