import type { AppLoadContext } from "@remix-run/node";
import { type CsvColumn, createCsvResponse } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import type { StudioMember } from "../studio-reader.ts";
import { listCostRecords, listEnteredInvoices } from "./book.ts";
import { cellColumns, costColumns, invoiceColumns } from "./import-files.ts";
import type { ImportFilter } from "./import-filter.ts";
import type { LineFilter } from "./line-filter.ts";
import { platformBookId } from "./platform-book.ts";
import { eachReconciledLine } from "./reconciliation-lines.ts";

/** The reader of a book, and the name of the file without its extension. */
type FileOf = { reader: StudioMember; name: string };

const limit = recordsPerRead;

/** Returns a file of the book's costs in a range. */
export function costFile(
  context: AppLoadContext,
  { reader, name, range: { from, to }, filter }: FileOf & { range: { from: string; to: string }; filter: ImportFilter },
): Promise<Response> {
  const pages = eachPage((cursor) => listCostRecords(context, { reader, query: { from, to, limit, cursor }, filter }));
  return createCsvResponse(selectBookColumns(reader, costColumns), { name, pages });
}

/** Returns a file of the book's invoices. */
export function invoiceFile(
  context: AppLoadContext,
  { reader, name, filter }: FileOf & { filter: ImportFilter },
): Promise<Response> {
  const pages = eachPage((cursor) => listEnteredInvoices(context, { reader, query: { limit, cursor }, filter }));
  return createCsvResponse(selectBookColumns(reader, invoiceColumns), { name, pages });
}

/** Returns a file of the lines of a month's reconciliation. */
export function reconciliationFile(
  context: AppLoadContext,
  { name, ...query }: FileOf & { month: string; filter: LineFilter },
): Promise<Response> {
  return createCsvResponse(cellColumns, { name, pages: eachReconciledLine(context, query) });
}

/** Leaves out the app's columns of the platform's records, which belong to no app. */
function selectBookColumns<Row>(
  { workspaceId }: StudioMember,
  columns: readonly CsvColumn<Row>[],
): readonly CsvColumn<Row>[] {
  return workspaceId === platformBookId ? columns.filter(({ name }) => name !== "app" && name !== "app_id") : columns;
}
