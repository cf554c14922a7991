import type { CsvColumn } from "../../http/csv.ts";
import type { AccountFigures, Statement, StatementException } from "./statement.ts";

type Row = Partial<AccountFigures> & { row: "figures" | "exception" } & Partial<
    Pick<StatementException, "kind" | "amountUsd" | "reason">
  >;

export const statementColumns: readonly CsvColumn<Row>[] = [
  { name: "row", value: ({ row }) => row },
  { name: "provider", value: ({ provider }) => provider },
  { name: "account_id", value: ({ accountId }) => accountId },
  { name: "metered_usd", value: ({ meteredUsd }) => meteredUsd },
  { name: "imported_usd", value: ({ importedUsd }) => importedUsd },
  { name: "invoiced_usd", value: ({ invoicedUsd }) => invoicedUsd },
  { name: "runs", value: ({ runs }) => runs },
  { name: "imported_records", value: ({ importedRecords }) => importedRecords },
  { name: "invoices", value: ({ invoices }) => invoices },
  { name: "open_point", value: ({ kind }) => kind },
  { name: "open_usd", value: ({ amountUsd }) => amountUsd },
  { name: "reason", value: ({ reason }) => reason },
];

/** Returns the rows of a statement's CSV: its figures, then its exceptions. */
export function statementRows({ figures, exceptions }: Statement): Row[] {
  return [
    ...figures.map((figure) => ({ ...figure, row: "figures" as const })),
    ...exceptions.map((exception) => ({ ...exception, row: "exception" as const })),
  ];
}

/** The fields of a record's line, in their order. */
const recordFields = ["kind", "firstDay", "lastDay", "provider", "account", "record", "service", "runs", "amountUsd"];

/** Returns a statement's JSON document, with the lines whose SHA-256 it states. */
export function statementDocument({ statement, figures, exceptions, records }: Statement): object {
  const { exceptions: _, ...facts } = statement;
  return { ...facts, figures, exceptions, recordFields, records: (records ?? "").split("\n").slice(0, -1) };
}

/** Returns the name of a statement's file, without its extension. */
export function statementFileName({ statement: { month, version } }: Statement): string {
  return `statement-${month}-v${version}`;
}
