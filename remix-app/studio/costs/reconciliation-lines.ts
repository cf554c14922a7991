import type { AppLoadContext } from "@remix-run/node";
import { addAmounts } from "#shared/decimal.ts";
import { eachPage, paginateInMemory, recordsPerRead } from "../../http/list-page.ts";
import type { StudioMember } from "../studio-reader.ts";
import { reconcileCosts } from "./book.ts";
import type { LineFilter } from "./line-filter.ts";
import { monthWindow } from "./month.ts";
import { cellsOf, isActionNeeded, type ReconciledCell } from "./reconciliation.ts";

type MonthQuery = { reader: StudioMember; month: string; filter: LineFilter };

/**
 * Returns the lines of a page of providers in a month's reconciliation, with the totals of all pages.
 * @throws Response like reconcileCosts
 */
export async function listReconciledLines(
  context: AppLoadContext,
  { filter, cursor, limit, ...options }: MonthQuery & { cursor: string | undefined; limit: number },
) {
  if (filter === "action") return listLinesNeedingAction(context, { ...options, cursor, limit });
  const { reader, month } = options;
  const page = await reconcileCosts(context, { reader, query: { ...monthWindow(month), limit, cursor } });
  const cells = page.records.flatMap((record) => cellsOf(record, { today: today() }));
  const { totals, clashes, nextCursor } = page;
  return { cells, totals, clashes, nextCursor, providers: page.records.length };
}

/** Filters in memory, because the states of lines are derived here and not in the database. */
async function listLinesNeedingAction(
  context: AppLoadContext,
  {
    reader,
    month,
    cursor = null,
    limit,
  }: Omit<MonthQuery, "filter"> & { cursor: string | undefined | null; limit: number },
) {
  const listed: ReconciledCell[][] = [];
  const read = (position: string | undefined) =>
    reconcileCosts(context, { reader, query: { ...monthWindow(month), limit: recordsPerRead, cursor: position } });
  const first = await read(undefined);
  for await (const records of eachPage((position) => (position ? read(position) : Promise.resolve(first)))) {
    listed.push(...records.map((record) => cellsOf(record, { today: today() })).filter(hasAction));
  }
  const idOf = ([whole]: ReconciledCell[]) => whole?.provider ?? "";
  const { records, nextCursor } = paginateInMemory(listed, { limit, cursor, idOf, requestId: context.requestId });
  const wholes = listed.flatMap((cells) => cells.slice(0, 1));
  const sumOf = (amounts: readonly string[]) => amounts.reduce(addAmounts, "0");
  const isHidden = first.totals.meteredUsd === null;
  const totals = {
    meteredUsd: isHidden ? null : sumOf(wholes.map(({ meteredUsd }) => meteredUsd ?? "0")),
    importedUsd: sumOf(wholes.map(({ importedUsd }) => importedUsd)),
    invoicedUsd: sumOf(wholes.map(({ invoicedUsd }) => invoicedUsd)),
    records: listed.length,
  };
  return { cells: records.flat(), totals, clashes: first.clashes, nextCursor, providers: records.length };
}

/** Yields all lines of a month's reconciliation, page by page. */
export async function* eachReconciledLine(
  context: AppLoadContext,
  { reader, month, filter }: MonthQuery,
): AsyncGenerator<ReconciledCell[], void> {
  const pages = eachPage((cursor) =>
    reconcileCosts(context, { reader, query: { ...monthWindow(month), limit: recordsPerRead, cursor } }),
  );
  for await (const records of pages) {
    const lines = records.map((record) => cellsOf(record, { today: today() }));
    yield (filter === "all" ? lines : lines.filter(hasAction)).flat();
  }
}

function hasAction(cells: readonly ReconciledCell[]): boolean {
  return cells.some(isActionNeeded);
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}
