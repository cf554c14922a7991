import type { ReactNode } from "react";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { Dash, Incomparable, Missing, RoundedDifference } from "./difference-text.tsx";
import { linesOf, nextStep, type ReconciledCell, type ReconciledLine, stateTexts } from "./reconciliation.ts";
import type { ShownSum } from "./rounding-note.tsx";

const tones = { good: "text-good", warn: "text-warn", neutral: "text-muted" } as const;

/** A link in a reconciliation line, for example to its costs. */
export interface CellLink {
  label: string;
  to: string;
}

/** Shows a month's metered, imported and invoiced costs by provider and account, with a status that says what to do. */
export function ReconciliationTable({
  cells,
  linksOf,
  providerTo,
  empty,
}: {
  cells: readonly ReconciledCell[];
  /** @param only the account, if the line has a single account; otherwise null */
  linksOf: (cell: ReconciledCell, only: string | null) => readonly CellLink[];
  /** Returns the URL of a provider's page for this month. Absent in books without such pages. */
  providerTo?: ((cell: ReconciledCell) => string) | undefined;
  empty: ReactNode;
}) {
  const decimals = amountDecimals(cells);
  const isHidden = cells.some(({ account, meteredUsd }) => account.of === "all" && meteredUsd === null);
  const columns: [DataColumn<ReconciledLine>, ...DataColumn<ReconciledLine>[]] = [
    { label: "Provider", cell: (line) => <Name line={line} to={providerTo?.(line.cell)} /> },
    {
      label: "Metered",
      numeric: true,
      cell: ({ cell: { meteredUsd } }) =>
        meteredUsd === null && !isHidden ? <Unknown /> : <Usd amount={meteredUsd} decimals={decimals.meteredUsd} />,
    },
    {
      label: "Imported",
      numeric: true,
      cell: ({ cell: { importedRecords, importedUsd } }) =>
        importedRecords > 0 ? <Usd amount={importedUsd} decimals={decimals.importedUsd} /> : <Missing />,
    },
    {
      label: "Imported − metered",
      numeric: true,
      cell: ({ cell: { importedDifferenceUsd, importedDifferencePercent } }) =>
        importedDifferenceUsd === null ? (
          <Incomparable />
        ) : (
          <RoundedDifference usd={importedDifferenceUsd} percent={importedDifferencePercent} decimals={2} />
        ),
    },
    {
      label: "Invoiced",
      numeric: true,
      cell: ({ cell: { invoices, invoicedUsd } }) =>
        invoices > 0 ? <Usd amount={invoicedUsd} decimals={decimals.invoicedUsd} /> : <Missing />,
    },
    {
      label: "Invoiced − imported",
      numeric: true,
      cell: ({ cell: { invoicedDifferenceUsd, invoicedDifferencePercent } }) =>
        invoicedDifferenceUsd === null ? (
          <Incomparable />
        ) : (
          <RoundedDifference usd={invoicedDifferenceUsd} percent={invoicedDifferencePercent} decimals={2} />
        ),
    },
    { label: "Status", cell: (line) => <Status line={line} links={linksOf(line.cell, line.only)} /> },
  ];
  return (
    <DataTable
      caption="Metered, imported and invoiced by provider and account"
      columns={columns}
      from="lg"
      rows={linesOf(cells)}
      rowKey={({ cell: { provider, account } }) =>
        [provider, account.of, account.of === "one" ? (account.id ?? "") : ""].join(" ")
      }
      empty={empty}
    />
  );
}

function Name({ line: { cell, only }, to }: { line: ReconciledLine; to: string | undefined }) {
  const { provider, account } = cell;
  if (account.of === "one") {
    return <span className="block pl-4">{account.id === null ? "Without an account" : `Account ${account.id}`}</span>;
  }
  return (
    <>
      {to ? (
        <a className="link font-medium" href={to}>
          {provider}
        </a>
      ) : (
        <span className="font-medium">{provider}</span>
      )}
      {only === null ? null : <span className="block text-muted text-small">Account {only}</span>}
    </>
  );
}

/** The amounts that the table shows as columns with a total. */
const summedAmounts = [
  ["meteredUsd", "Metered"],
  ["importedUsd", "Imported"],
  ["invoicedUsd", "Invoiced"],
] as const;

/** Returns the number of decimals of each column of amounts. */
export function amountDecimals(cells: readonly ReconciledCell[]): Record<(typeof summedAmounts)[number][0], number> {
  return {
    meteredUsd: columnDecimals(cells.map(({ meteredUsd }) => meteredUsd)),
    importedUsd: columnDecimals(cells.map(({ importedUsd }) => importedUsd)),
    invoicedUsd: columnDecimals(cells.map(({ invoicedUsd }) => invoicedUsd)),
  };
}

/** Returns the sums that the table shows: the total of all providers, if given, and each provider's accounts. */
export function shownSums(
  cells: readonly ReconciledCell[],
  totals?: Record<(typeof summedAmounts)[number][0], string | null>,
): ShownSum[] {
  const decimals = amountDecimals(cells);
  const wholes = cells.filter(({ account }) => account.of === "all");
  return summedAmounts.flatMap(([name, label]) => {
    const sumOf = (sum: Omit<ShownSum, "decimals">) => ({ ...sum, decimals: decimals[name] });
    const accountsOf = (whole: ReconciledCell) =>
      cells.filter((cell) => cell.account.of === "one" && cell.provider === whole.provider).map((cell) => cell[name]);
    return [
      ...(totals ? [sumOf({ label, rows: wholes.map((whole) => whole[name]), total: totals[name] })] : []),
      ...wholes.map((whole) =>
        sumOf({ label: `${label} by account of ${whole.provider}`, rows: accountsOf(whole), total: whole[name] }),
      ),
    ];
  });
}

function Unknown() {
  return <Dash title="Not all runs of this month name a provider account" text="unknown by account" />;
}

function Status({ line: { cell }, links }: { line: ReconciledLine; links: readonly CellLink[] }) {
  const { provider, account, state, repeats } = cell;
  const { name, tone } = stateTexts[state];
  const of = account.of === "one" ? `${provider} ${account.id ?? "without an account"}` : provider;
  return (
    <span className="max-w-72 whitespace-normal @[58rem]:block">
      <span className={`font-medium ${tones[tone]}`}>{name}</span>
      {repeats ? null : <span className="block text-muted text-small">{nextStep(cell)}</span>}
      {links.length > 0 ? (
        <span className="flex flex-wrap gap-x-3 text-small">
          {links.map(({ label, to }) => (
            <a key={label} className="link py-0.75" href={to}>
              {label}
              <span className="sr-only"> of {of}</span>
            </a>
          ))}
        </span>
      ) : null}
    </span>
  );
}
