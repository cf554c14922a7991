import { addAmounts } from "../../studio/costs/rounding-note.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, formatCount } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import type { FigureDifference } from "./statement.ts";

type Row = FigureDifference & { accountId?: string | null };

/** The maximum number of rows with accounts, so that the page stays small. */
const maxAccountRows = 60;

/** Shows figures by provider and, if the rows have them and they are not too many, accounts. */
export function FiguresTable({ caption, rows, empty }: { caption: string; rows: readonly Row[]; empty: string }) {
  if (rows.length <= maxAccountRows) return <Figures caption={caption} rows={rows} empty={empty} />;
  return (
    <>
      <Figures caption={caption} rows={sumByProvider(rows)} empty={empty} />
      <p className="mt-3 text-muted text-small">
        Each line is the sum of a provider’s accounts. {formatCount(rows.length)} lines by account are in the CSV.
      </p>
    </>
  );
}

function sumByProvider(rows: readonly Row[]): Row[] {
  return [...Map.groupBy(rows, ({ provider }) => provider)].map(([provider, own]) => ({
    provider,
    meteredUsd: own.map(({ meteredUsd }) => meteredUsd).reduce(addAmounts, "0"),
    importedUsd: own.map(({ importedUsd }) => importedUsd).reduce(addAmounts, "0"),
    invoicedUsd: own.map(({ invoicedUsd }) => invoicedUsd).reduce(addAmounts, "0"),
    runs: own.reduce((sum, { runs }) => sum + runs, 0),
    importedRecords: own.reduce((sum, { importedRecords }) => sum + importedRecords, 0),
    invoices: own.reduce((sum, { invoices }) => sum + invoices, 0),
  }));
}

function Figures({ caption, rows, empty }: { caption: string; rows: readonly Row[]; empty: string }) {
  const decimals = columnDecimals(rows.flatMap((row) => [row.meteredUsd, row.importedUsd, row.invoicedUsd]));
  return (
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
        { label: "Metered", numeric: true, cell: (row) => <Usd amount={row.meteredUsd} decimals={decimals} /> },
        { label: "Imported", numeric: true, cell: (row) => <Usd amount={row.importedUsd} decimals={decimals} /> },
        { label: "Invoiced", numeric: true, cell: (row) => <Usd amount={row.invoicedUsd} decimals={decimals} /> },
        { label: "Runs", numeric: true, cell: ({ runs }) => formatCount(runs) },
        { label: "Records", numeric: true, cell: ({ importedRecords }) => formatCount(importedRecords) },
        { label: "Invoices", numeric: true, cell: ({ invoices }) => formatCount(invoices) },
      ]}
      rows={rows}
      rowKey={({ provider, accountId }) => `${provider} ${accountId ?? ""}`}
      empty={<p>{empty}</p>}
      from="lg"
    />
  );
}
