import { RoundingNote } from "../../studio/costs/rounding-note.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, formatCount } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { sumByProvider, sumFigures } from "./figures.ts";
import type { ProviderFigures } from "./statement.ts";

type Row = ProviderFigures & { accountId?: string | null };

const amounts = [
  { name: "meteredUsd", records: "runs", label: "Metered" },
  { name: "importedUsd", records: "importedRecords", label: "Imported" },
  { name: "invoicedUsd", records: "invoices", label: "Invoiced" },
] as const;

/** The maximum number of rows, so that the page stays small. */
const maxRows = 20;

/** Shows figures by provider and, if the rows have them, accounts. Too many rows are summed. */
export function FiguresTable({ caption, rows, empty }: { caption: string; rows: readonly Row[]; empty: string }) {
  if (rows.length <= maxRows) return <Figures caption={caption} rows={rows} empty={empty} />;
  const providers = sumByProvider(rows);
  const isListed = providers.length <= maxRows;
  return (
    <>
      <Figures
        caption={caption}
        rows={isListed ? providers : [sumFigures(`${formatCount(providers.length)} providers`, rows)]}
        empty={empty}
      />
      <p className="mt-3 text-muted text-small">
        {isListed ? "Each line is the sum of a provider’s accounts." : "The line is the sum of all providers."}{" "}
        {formatCount(rows.length)} lines by account are in the CSV.
      </p>
    </>
  );
}

function Figures({ caption, rows, empty }: { caption: string; rows: readonly Row[]; empty: string }) {
  const total: Row = sumFigures("Total", rows);
  const decimals = columnDecimals([...rows, total].flatMap((row) => amounts.map(({ name }) => row[name])));
  return (
    <>
      <DataTable
        caption={caption}
        columns={[
          {
            label: "Provider",
            cell: ({ provider, accountId }) => (
              <>
                <span className="break-all font-medium">{provider}</span>
                {accountId === undefined ? null : (
                  <span className="wrap-anywhere block text-muted text-small">{accountId ?? "No account"}</span>
                )}
              </>
            ),
          },
          ...amounts.map(({ name, records, label }) => ({
            label,
            numeric: true,
            // Nothing was imported or invoiced, unlike a sum of 0. No runs cost 0.
            cell: (row: Row) =>
              name !== "meteredUsd" && row[records] === 0 && Number(row[name]) === 0 ? (
                "–"
              ) : (
                <Usd amount={row[name]} decimals={decimals} />
              ),
          })),
          { label: "Runs", numeric: true, cell: ({ runs }) => formatCount(runs) },
          { label: "Records", numeric: true, cell: ({ importedRecords }) => formatCount(importedRecords) },
          { label: "Invoices", numeric: true, cell: ({ invoices }) => formatCount(invoices) },
        ]}
        rows={rows.length > 1 ? [...rows, total] : rows}
        rowKey={({ provider, accountId }) => `${provider} ${accountId ?? ""}`}
        empty={<p>{empty}</p>}
        from="lg"
      />
      <RoundingNote
        sums={amounts.map(({ name, label }) => {
          return { label, rows: rows.map((row) => row[name]), total: total[name], decimals };
        })}
      />
    </>
  );
}
