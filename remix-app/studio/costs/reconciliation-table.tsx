import { Link } from "@remix-run/react";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { DifferenceText } from "./difference-text.tsx";
import { writeImportFilter } from "./import-filter.ts";
import { daysOfMonth, type ReconciledCell, stateWords } from "./reconciliation.ts";

const monthName = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });
const tones = { good: "text-good", warn: "text-warn", neutral: "text-muted" } as const;

/** What was metered, imported and invoiced side by side, with what is missing or differs, and where to look. */
export function ReconciliationTable({ cells, base }: { cells: readonly ReconciledCell[]; base: string }) {
  const decimals = {
    metered: columnDecimals(cells.map(({ meteredUsd }) => meteredUsd)),
    imported: columnDecimals(cells.map(({ importedUsd }) => importedUsd)),
    lessMetered: columnDecimals(cells.map(({ importedDifferenceUsd }) => importedDifferenceUsd)),
    invoiced: columnDecimals(cells.map(({ invoicedUsd }) => invoicedUsd)),
    lessImported: columnDecimals(cells.map(({ invoicedDifferenceUsd }) => invoicedDifferenceUsd)),
  };
  const columns: [DataColumn<ReconciledCell>, ...DataColumn<ReconciledCell>[]] = [
    {
      label: "Month and provider",
      cell: (cell) => (
        <div className={cell.account.of === "one" ? "pl-4" : "font-medium"}>
          {cell.account.of === "all" ? monthName.format(Date.parse(`${cell.month}-01`)) : null}
          <span className="block break-all">
            {cell.account.of === "all"
              ? cell.provider
              : cell.account.id === null
                ? "Without an account"
                : `Account ${cell.account.id}`}
          </span>
        </div>
      ),
    },
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
      label: "Less metered",
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
      label: "Less imported",
      numeric: true,
      cell: ({ invoicedDifferenceUsd, invoicedDifferencePercent }) => (
        <DifferenceText
          usd={invoicedDifferenceUsd}
          percent={invoicedDifferencePercent}
          decimals={decimals.lessImported}
        />
      ),
    },
    { label: "State", cell: (cell) => <State cell={cell} base={base} /> },
  ];
  return (
    <DataTable
      caption="Metered, imported and invoiced by month, provider and account"
      columns={columns}
      from="lg"
      rows={cells}
      rowKey={({ month, provider, account }) =>
        [month, provider, account.of, account.of === "one" ? (account.id ?? "") : ""].join(" ")
      }
      empty={
        <p>
          Nothing was metered, imported or invoiced in these months. Once it is, each month is listed with what differs.
          Begin with a{" "}
          <Link className="link" to={`${base}/keys`}>
            key
          </Link>{" "}
          for calls, or{" "}
          <Link className="link" to={`${base}/costs`}>
            import costs
          </Link>
          .
        </p>
      }
    />
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

function State({ cell, base }: { cell: ReconciledCell; base: string }) {
  const { name, tone, next } = stateWords[cell.state];
  const { month, provider, account } = cell;
  const { first, last } = daysOfMonth(month);
  const filter = writeImportFilter({ provider, ...(account.of === "one" ? { accountId: account.id } : {}) });
  const of = `${provider} ${account.of === "one" ? (account.id ?? "without an account") : ""} ${month}`;
  const links = [
    { show: cell.importedRecords > 0, label: "Costs", to: `/costs?${search({ from: first, to: last, ...filter })}` },
    { show: cell.invoices > 0, label: "Invoices", to: `/invoices?${search({ month, ...filter })}` },
    {
      show: cell.invoices === 0 && cell.state === "invoice_missing",
      label: "Enter invoice",
      to: `/invoices/new?${search({
        provider,
        accountId: account.of === "one" ? (account.id ?? "") : "",
        periodStart: first,
        periodEnd: last,
      })}`,
    },
  ].filter(({ show }) => show);
  return (
    <span className="inline-block max-w-64 whitespace-normal align-top">
      <span className={`font-medium ${tones[tone]}`}>{name}</span>
      {tone === "warn" && !cell.repeats ? <span className="block text-muted text-small">{next}</span> : null}
      {links.length > 0 ? (
        <span className="flex flex-wrap gap-x-3 text-small">
          {links.map(({ label, to }) => (
            <Link key={label} className="link py-0.75" to={`${base}${to}`}>
              {label}
              <span className="sr-only"> of {of}</span>
            </Link>
          ))}
        </span>
      ) : null}
    </span>
  );
}

function search(parameters: Record<string, string>): URLSearchParams {
  return new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
}
