import { DataTable } from "../ui/data-table.tsx";
import { columnDecimals } from "../ui/format-amount.ts";
import { ExactTime } from "../ui/moment.tsx";
import { Credits } from "../ui/money.tsx";
import type { CreditAccount } from "./credits.ts";

type Entry = CreditAccount["entries"][number];

const kinds: Record<Entry["kind"], string> = {
  grant: "Grant",
  purchase: "Purchase",
  usage: "Run",
  adjustment: "Correction of a run",
  refund: "Refund",
};

/** Shows a page of an account's ledger, including runs in all workspaces. */
export function CreditLedger({ entries }: { entries: readonly Entry[] }) {
  const amountDecimals = columnDecimals(entries.map(({ amount }) => amount));
  const balanceDecimals = columnDecimals(entries.map(({ balanceAfter }) => balanceAfter));
  return (
    <DataTable
      caption="Ledger"
      rows={entries}
      rowKey={({ id }) => id}
      empty="No entries yet. Grants, withdrawals and charged requests appear here."
      columns={[
        {
          label: "What",
          cell: ({ kind, amount, runId, description, reference }) => (
            <>
              {runId ? (
                <a className="link" href={`/admin/runs/${runId}`}>
                  {kinds[kind]}
                </a>
              ) : amount.startsWith("-") ? (
                "Withdrawal"
              ) : (
                kinds[kind]
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
    />
  );
}
