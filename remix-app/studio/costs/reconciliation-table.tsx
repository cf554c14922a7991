import { Link } from "@remix-run/react";
import type { ReactNode } from "react";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { DifferenceText } from "./difference-text.tsx";
import { type ReconciledCell, stateWords } from "./reconciliation.ts";

const tones = { good: "text-good", warn: "text-warn", neutral: "text-muted" } as const;

/** Where a line leads, such as its costs. */
export interface CellLink {
  label: string;
  to: string;
}

/** A month's metered, imported and invoiced cost by provider and account, with a status that says what to do. */
export function ReconciliationTable({
  cells,
  linksOf,
  providerTo,
  empty,
}: {
  cells: readonly ReconciledCell[];
  linksOf: (cell: ReconciledCell) => readonly CellLink[];
  /** The page about a provider's month, if there is one. */
  providerTo?: (cell: ReconciledCell) => string;
  empty: ReactNode;
}) {
  const decimals = {
    metered: columnDecimals(cells.map(({ meteredUsd }) => meteredUsd)),
    imported: columnDecimals(cells.map(({ importedUsd }) => importedUsd)),
    lessMetered: columnDecimals(cells.map(({ importedDifferenceUsd }) => importedDifferenceUsd)),
    invoiced: columnDecimals(cells.map(({ invoicedUsd }) => invoicedUsd)),
    lessImported: columnDecimals(cells.map(({ invoicedDifferenceUsd }) => invoicedDifferenceUsd)),
  };
  const columns: [DataColumn<ReconciledCell>, ...DataColumn<ReconciledCell>[]] = [
    { label: "Provider", cell: (cell) => <Name cell={cell} to={providerTo?.(cell)} /> },
    {
      label: "Metered",
      numeric: true,
      cell: ({ account, meteredUsd }) =>
        account.of === "one" && meteredUsd === null ? (
          <Unknown />
        ) : (
          <Usd amount={meteredUsd} decimals={decimals.metered} />
        ),
    },
    {
      label: "Imported",
      numeric: true,
      cell: ({ importedUsd }) => <Usd amount={importedUsd} decimals={decimals.imported} />,
    },
    {
      label: "Difference",
      fullLabel: "Imported − metered",
      numeric: true,
      cell: ({ account, importedDifferenceUsd, importedDifferencePercent }) =>
        account.of === "one" && importedDifferenceUsd === null ? (
          <Unknown />
        ) : (
          <DifferenceText
            usd={importedDifferenceUsd}
            percent={importedDifferencePercent}
            decimals={decimals.lessMetered}
          />
        ),
    },
    {
      label: "Invoiced",
      numeric: true,
      cell: ({ invoicedUsd }) => <Usd amount={invoicedUsd} decimals={decimals.invoiced} />,
    },
    {
      label: "Difference",
      fullLabel: "Invoiced − imported",
      numeric: true,
      cell: ({ invoicedDifferenceUsd, invoicedDifferencePercent }) => (
        <DifferenceText
          usd={invoicedDifferenceUsd}
          percent={invoicedDifferencePercent}
          decimals={decimals.lessImported}
        />
      ),
    },
    { label: "Status", cell: (cell) => <Status cell={cell} links={linksOf(cell)} /> },
  ];
  return (
    <DataTable
      caption="Metered, imported and invoiced by provider and account"
      columns={columns}
      from="lg"
      rows={cells}
      rowKey={({ provider, account }) =>
        [provider, account.of, account.of === "one" ? (account.id ?? "") : ""].join(" ")
      }
      empty={empty}
    />
  );
}

function Name({ cell: { provider, account }, to }: { cell: ReconciledCell; to: string | undefined }) {
  if (account.of === "one") {
    return <span className="block pl-4">{account.id === null ? "Without an account" : `Account ${account.id}`}</span>;
  }
  return to ? (
    <Link className="link font-medium" to={to}>
      {provider}
    </Link>
  ) : (
    <span className="font-medium">{provider}</span>
  );
}

function Unknown() {
  return (
    <span className="text-muted" title="Not all runs of this month name a provider account">
      <span aria-hidden="true">–</span>
      <span className="sr-only">not known by account</span>
    </span>
  );
}

function Status({ cell, links }: { cell: ReconciledCell; links: readonly CellLink[] }) {
  const { provider, account, state, repeats } = cell;
  const { name, tone, next } = stateWords[state];
  const of = account.of === "one" ? `${provider} ${account.id ?? "without an account"}` : provider;
  return (
    <span className="inline-block max-w-72 whitespace-normal align-top">
      <span className={`font-medium ${tones[tone]}`}>{name}</span>
      {repeats ? null : <span className="block text-muted text-small">{next}</span>}
      {links.length > 0 ? (
        <span className="flex flex-wrap gap-x-3 text-small">
          {links.map(({ label, to }) => (
            <Link key={label} className="link py-0.75" to={to}>
              {label}
              <span className="sr-only"> of {of}</span>
            </Link>
          ))}
        </span>
      ) : null}
    </span>
  );
}
