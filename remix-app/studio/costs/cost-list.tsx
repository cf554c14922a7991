import type { ReactNode } from "react";
import type { DataColumn } from "../../ui/data-table.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { DotSeparated } from "../../ui/facts.tsx";
import { columnDecimals, countOf, formatMoney } from "../../ui/format-amount.ts";
import { RelativeTime, UtcDay } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import { isAutomatic, ratesText } from "./cost-import/import-facts.ts";
import { originalText } from "./import-files.ts";
import type { CostRecord } from "./provider-import-schema.ts";

/** Lists imported cost records and shows whether each one counts or has been replaced. */
export function CostList({
  records,
  imports,
  empty,
}: {
  records: readonly CostRecord[];
  /** The base path of links to imported files. */
  imports: string;
  empty: ReactNode;
}) {
  const decimals = columnDecimals(records.map(({ amountUsd }) => amountUsd));
  const columns: [DataColumn<CostRecord>, ...DataColumn<CostRecord>[]] = [
    {
      label: "Record",
      cell: ({ externalRunId, provider, service, appName, occurredAt, granularity, import: file }) => (
        <>
          <span className="break-all font-medium">{externalRunId}</span>
          <span className="block text-muted text-small">
            <DotSeparated facts={[provider, service, appName]} /> ·{" "}
            {granularity === "account_day" ? <UtcDay at={occurredAt} /> : <RelativeTime at={occurredAt} />}
          </span>
          {file ? <ImportedFile file={file} imports={imports} /> : null}
        </>
      ),
    },
    { label: "Account", cell: ({ accountId }) => <span className="wrap-anywhere">{accountId ?? "None"}</span> },
    {
      label: "Kind",
      cell: ({ granularity }) => (
        <span className="whitespace-nowrap">{granularity === "account_day" ? "Daily total" : "Run"}</span>
      ),
    },
    { label: "Status", cell: (record) => <RecordStatus record={record} /> },
    {
      label: "Amount",
      numeric: true,
      small: "aside",
      cell: ({ amountUsd, counted, original }) => (
        <>
          {counted ? (
            <Usd amount={amountUsd} decimals={decimals} />
          ) : (
            <del className="text-muted">
              <Usd amount={amountUsd} decimals={decimals} />
            </del>
          )}
          {original ? (
            <span className="block text-muted text-small" title={original.map(originalText).join(" + ")}>
              {original.map(formatMoney).join(" + ")}
            </span>
          ) : null}
        </>
      ),
    },
  ];
  return (
    <DataTable caption="Imported cost records" columns={columns} rows={records} rowKey={({ id }) => id} empty={empty} />
  );
}

function ImportedFile({ file, imports }: { file: NonNullable<CostRecord["import"]>; imports: string }) {
  const rates = ratesText(file.rates);
  const who = isAutomatic(file)
    ? "the system"
    : file.by === "operator"
      ? "the operator"
      : (file.name ?? "a deleted account");
  return (
    <span className="block text-muted text-small">
      From{" "}
      <a className="link break-all" href={`${imports}/${file.id}`}>
        {file.file}
      </a>
      , imported by <bdi>{who}</bdi> <RelativeTime at={file.importedAt} />
      {rates ? ` at ${rates}` : null}
    </span>
  );
}

function RecordStatus({ record }: { record: CostRecord }) {
  const { counted, replacedBy, replaces, revision, observedAt } = record;
  return (
    <>
      {counted ? "Counted" : <span className="break-all">Replaced by {replacedBy}</span>}
      {replaces && replaces.records > 0 ? (
        <span className="text-muted">
          , replaces {countOf(replaces.records, "run")} (
          <Usd amount={replaces.amountUsd} />
          {replaces.records === 1 ? ")" : " in total)"}
        </span>
      ) : null}
      {revision > 1 ? (
        <span className="text-muted text-small sm:block">
          {" "}
          corrected {revision === 2 ? "once" : `${revision - 1} times`}, as of <RelativeTime at={observedAt} />
        </span>
      ) : null}
    </>
  );
}
