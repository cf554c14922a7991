import type { AppLoadContext } from "@remix-run/node";
import { pageOf, positionOf, readCursor, readKeyCursor, writeCursor, writeKeyCursor } from "../../http/list-page.ts";
import type { WindowQuery } from "../range.ts";
import { type MemberReader, readStudio, type StudioReader } from "../studio-reader.ts";
import {
  type CostRecord,
  type InvoiceRecord,
  listedCostRecords,
  listedCosts,
  listedInvoiceShares,
  listedInvoices,
  listedReconciliation,
  type ReconciledMonth,
} from "./provider-import-schema.ts";

/** Selects imports by provider and account. A null accountId selects records without an account. */
export interface ImportFilter {
  provider?: string;
  accountId?: string | null;
}

/**
 * Lists imported costs in a range, newest first, with totals of the whole range. In the totals, an account's imported
 * daily total replaces the runs of that day. Defaults to the last 30 days.
 * @throws Response 400, 403, 503 like {@link readStudio}
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
  return { ...page, ...pageOf(page.records, { limit, cursorOf: cursorOfCost }) };
}

/**
 * Returns a page of {@link listProviderCosts} without the totals, because a file of many pages would recalculate them
 * for each page.
 * @throws Response like {@link listProviderCosts}
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
  return pageOf(records, { limit: query.limit, cursorOf: cursorOfCost });
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

/** Returns the cursor of the page that starts after a cost record. */
export const cursorOfCost = ({ occurredAt, id }: CostRecord) => writeCursor({ createdAt: occurredAt, id });

/**
 * Lists a workspace's invoices, the most recently issued first, with the total of all of them.
 * @throws Response like {@link listProviderCosts}
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
  return { ...page, ...pageOf(page.records, { limit, cursorOf: cursorOfInvoice }) };
}

/** Returns the cursor after an invoice. */
export const cursorOfInvoice = ({ issuedOn, id }: InvoiceRecord) =>
  writeCursor({ createdAt: `${issuedOn}T00:00:00Z`, id });

/**
 * Returns a page of the invoices that have days in a month, each with its share.
 * @throws Response like {@link listProviderCosts}
 */
export async function listInvoiceShares(
  context: AppLoadContext,
  { reader, month, limit, cursor }: { reader: MemberReader; month: string; limit: number; cursor: string | undefined },
) {
  const { records } = await readStudio(context, {
    reader,
    name: "list_provider_invoices",
    args: {
      before: positionOf(cursor, { read: readCursor, requestId: context.requestId }),
      page_size: limit + 1,
      filter: { month },
    },
    schema: listedInvoiceShares,
  });
  return pageOf(records, { limit, cursorOf: cursorOfInvoice });
}

/**
 * Compares metered, imported and invoiced costs for each month and provider, in total and by account. Defaults to the
 * last twelve months, including the current one.
 * @throws Response like {@link listProviderCosts}
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
  const cursorOf = ({ month, provider }: ReconciledMonth) => writeKeyCursor([month, provider]);
  return { ...page, ...pageOf(page.records, { limit, cursorOf }) };
}

function readMonth(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 2 });
  return /^(?!0000)\d{4}-(0[1-9]|1[0-2])$/.test(position?.[0] ?? "") ? position : null;
}
