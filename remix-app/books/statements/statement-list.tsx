import { monthText } from "../../http/date-text.ts";
import { DataTable } from "../../ui/data-table.tsx";
import { formatCount } from "../../ui/format-amount.ts";
import { ExactTime } from "../../ui/moment.tsx";
import { statementPath } from "./paths.ts";
import type { StatementSummary } from "./statement.ts";

/** Lists the statements of closed months, with the versions that were reopened. */
export function StatementList({ statements }: { statements: readonly StatementSummary[] }) {
  return (
    <DataTable
      caption="Statements"
      columns={[
        {
          label: "Month",
          cell: ({ id, month, version }) => (
            <>
              <a className="link whitespace-nowrap font-medium" href={statementPath(id)}>
                {monthText(month)}
              </a>
              {version > 1 ? <span className="block text-muted text-small">Version {version}</span> : null}
            </>
          ),
        },
        {
          label: "Status",
          small: "aside",
          cell: ({ reopened }) => (reopened ? "Reopened" : "Closed"),
        },
        { label: "Closed", cell: ({ closedAt }) => <ExactTime at={closedAt} /> },
        { label: "By", cell: ({ closedBy }) => <bdi className="wrap-anywhere">{closedBy ?? "A deleted account"}</bdi> },
        { label: "Exceptions", numeric: true, cell: ({ exceptions }) => formatCount(exceptions) },
      ]}
      rows={statements}
      rowKey={({ id }) => id}
      empty={<p>No month was closed yet. Choose a month that has ended, then close it to keep its figures.</p>}
    />
  );
}
