import type { AppLoadContext } from "@remix-run/server-runtime";
import { readKeyCursor, writeKeyCursor } from "../../http/key-cursor.ts";
import { readCursor, writeCursor } from "../../http/position-cursor.ts";
import { problem } from "../../http/problem.ts";
import { type MemberReader, readStudio, type StudioReader } from "../studio-reader.ts";
import type { WindowQuery } from "../window-query.ts";
import {
  type CostRecord,
  listedCostRecords,
  listedCosts,
  listedInvoices,
  listedReconciliation,
} from "./provider-import-schema.ts";

/** A cursor's position. @throws Response 400 INVALID_REQUEST for one that is none of ours */
export function positionOf<Position>(
  cursor: string | undefined,
  { read, requestId }: { read: (cursor: string) => Position | null; requestId: string },
): Position | null {
  const position = cursor === undefined ? null : read(cursor);
  if (cursor === undefined || position !== null) return position;
  throw problem("INVALID_REQUEST", { requestId, detail: "The cursor is none of ours." });
}

/** What a member narrows imports to; an account of null is that of records which name none. */
export interface ImportFilter {
  provider?: string;
  accountId?: string | null;
}

/**
 * Imported costs of a range, the newest first, with totals of all of it, in which an account's day stands for the runs
 * that it covers. By default the last 30 days.
 * @throws Response 400, 403, 503 as {@link readStudio}
 */
export async function listProviderCosts(
  context: AppLoadContext,
  {
    reader,
    query: { from, to, limit, cursor },
    filter,
  }: { reader: StudioReader; query: WindowQuery; filter?: ImportFilter },
) {
  const { outcome: _, ...page } = await readStudio(context, {
    reader,
    name: "list_provider_costs",
    args: costArgs(context, { query: { from, to, limit, cursor }, filter }),
    schema: listedCosts,
  });
  return { ...page, ...costsWithin(page.records, limit) };
}

/**
 * A page of {@link listProviderCosts} without its totals, which would be reckoned anew for every page of a file.
 * @throws Response as {@link listProviderCosts}
 */
export async function listCostRecords(
  context: AppLoadContext,
  { reader, query, filter }: { reader: MemberReader; query: WindowQuery; filter: ImportFilter },
) {
  const { records } = await readStudio(context, {
    reader,
    name: "list_provider_costs",
    args: { ...costArgs(context, { query, filter }), with_totals: false },
    schema: listedCostRecords,
  });
  return costsWithin(records, query.limit);
}

function costArgs(
  { requestId }: AppLoadContext,
  { query: { from, to, limit, cursor }, filter }: { query: WindowQuery; filter: ImportFilter | undefined },
) {
  return {
    given_from: from ?? null,
    given_to: to ?? null,
    before: positionOf(cursor, { read: readCursor, requestId }),
    page_size: limit + 1,
    ...(filter ? { filter } : {}),
  };
}

/** Of one record more than were asked for. */
function costsWithin(read: CostRecord[], limit: number) {
  const records = read.slice(0, limit);
  const last = read.length > limit ? records.at(-1) : undefined;
  return { records, nextCursor: last ? writeCursor({ createdAt: last.occurredAt, id: last.id }) : null };
}

/**
 * A workspace's invoices, the latest issued first, with the total of all of them.
 * @throws Response as {@link listProviderCosts}
 */
export async function listProviderInvoices(
  context: AppLoadContext,
  {
    reader,
    query: { limit, cursor },
    filter,
  }: { reader: StudioReader; query: Pick<WindowQuery, "limit" | "cursor">; filter?: ImportFilter & { month?: string } },
) {
  const { outcome: _, ...page } = await readStudio(context, {
    reader,
    name: "list_provider_invoices",
    args: {
      before: positionOf(cursor, { read: readCursor, requestId: context.requestId }),
      page_size: limit + 1,
      ...(filter ? { filter } : {}),
    },
    schema: listedInvoices,
  });
  const records = page.records.slice(0, limit);
  const last = page.records.length > limit ? records.at(-1) : undefined;
  const nextCursor = last ? writeCursor({ createdAt: `${last.issuedOn}T00:00:00Z`, id: last.id }) : null;
  return { ...page, records, nextCursor };
}

/**
 * What was metered, imported and invoiced, side by side by month and provider, and within these by account. By default
 * the last 365 days.
 * @throws Response as {@link listProviderCosts}
 */
export async function reconcileCosts(
  context: AppLoadContext,
  { reader, query: { from, to, limit, cursor } }: { reader: StudioReader; query: WindowQuery },
) {
  const { outcome: _, ...page } = await readStudio(context, {
    reader,
    name: "reconcile_costs",
    args: {
      given_from: from ?? null,
      given_to: to ?? null,
      after: positionOf(cursor, { read: readMonth, requestId: context.requestId }),
      page_size: limit + 1,
    },
    schema: listedReconciliation,
  });
  const records = page.records.slice(0, limit);
  const last = page.records.length > limit ? records.at(-1) : undefined;
  return { ...page, records, nextCursor: last ? writeKeyCursor([last.month, last.provider]) : null };
}

function readMonth(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 2 });
  return /^(?!0000)\d{4}-(0[1-9]|1[0-2])$/.test(position?.[0] ?? "") ? position : null;
}
