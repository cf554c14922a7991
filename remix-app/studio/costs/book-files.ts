import type { AppLoadContext } from "@remix-run/node";
import { type CsvColumn, createCsvResponse } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import type { StudioMember } from "../studio-reader.ts";
import { listCostRecords, listProviderInvoices, reconcileCosts } from "./book.ts";
import { cellColumns, costColumns, invoiceColumns } from "./import-files.ts";
import type { ImportFilter } from "./import-filter.ts";
import { monthWindow } from "./month.ts";
import { platformBookId } from "./platform-book.ts";
import { cellsOf } from "./reconciliation.ts";

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
  const pages = eachPage((cursor) => listProviderInvoices(context, { reader, query: { limit, cursor }, filter }));
  return createCsvResponse(selectBookColumns(reader, invoiceColumns), { name, pages });
}

/** Returns a file of all lines of a month's reconciliation. */
export function reconciliationFile(
  context: AppLoadContext,
  { reader, name, month }: FileOf & { month: string },
): Promise<Response> {
  const today = new Date().toISOString().slice(0, 10);
  const pages = eachPage(async (cursor) => {
    const query = { ...monthWindow(month), limit, cursor };
    const { records, nextCursor } = await reconcileCosts(context, { reader, query });
    return { records: records.flatMap((record) => cellsOf(record, { today })), nextCursor };
  });
  return createCsvResponse(cellColumns, { name, pages });
}

/** Leaves out the app's columns of the platform's records, which belong to no app. */
function selectBookColumns<Row>(
  { workspaceId }: StudioMember,
  columns: readonly CsvColumn<Row>[],
): readonly CsvColumn<Row>[] {
  return workspaceId === platformBookId ? columns.filter(({ name }) => name !== "app" && name !== "app_id") : columns;
}
