import type { AppLoadContext } from "@remix-run/node";
import {
  buildPage,
  parseCursor,
  readCursor,
  readKeyCursor,
  writeCursor,
  writeKeyCursor,
} from "../../http/list-page.ts";
import type { WindowQuery } from "../range.ts";
import { readStudio, type StudioMember, type StudioReader } from "../studio-reader.ts";
import type { ImportFilter } from "./import-filter.ts";
import {
  type CostRecord,
  type CostServices,
  type InvoiceRecord,
  listedCostRecords,
  listedCostServices,
  listedCosts,
  listedEnteredInvoices,
  listedInvoiceShares,
  listedInvoices,
  listedReconciliation,
  type ReconciledMonth,
} from "./provider-import-schema.ts";

type CostQuery = { reader: StudioReader; query: WindowQuery; filter?: ImportFilter };
type InvoiceQuery = { reader: StudioReader; query: Pick<WindowQuery, "limit" | "cursor">; filter?: ImportFilter };

/**
 * Lists a book's imported costs in a range, newest first, with totals of the whole range. In the totals, an account's
 * imported daily total replaces the runs of that day. Defaults to the last 30 days.
 * @throws Response 400, 403, 503 like {@link readStudio}
 */
export async function listProviderCosts(context: AppLoadContext, { reader, query, filter }: CostQuery) {
  const args = costArgs(context, { query, filter });
  const { outcome: _, ...page } = await readStudio(context, {
    reader,
    name: "list_provider_costs",
    args,
    schema: listedCosts,
  });
  return { ...page, ...buildPage(page.records, { limit: query.limit, cursorOf: cursorOfCost }) };
}

/**
 * Returns a page of {@link listProviderCosts} without the totals, because a file of many pages would recalculate them
 * for each page.
 * @throws Response like {@link listProviderCosts}
 */
export async function listCostRecords(context: AppLoadContext, { reader, query, filter }: CostQuery) {
  const args = { ...costArgs(context, { query, filter }), with_totals: false };
  const { records } = await readStudio(context, {
    reader,
    name: "list_provider_costs",
    args,
    schema: listedCostRecords,
  });
  return buildPage(records, { limit: query.limit, cursorOf: cursorOfCost });
}

/**
 * Returns the services of imported daily totals, by the ids of their records. Totals without services are missing.
 * @throws Response like {@link listProviderCosts}
 */
export async function listCostServices(
  context: AppLoadContext,
  { reader, costIds }: { reader: StudioMember; costIds: readonly string[] },
): Promise<Map<string, CostServices>> {
  const { records } = await readStudio(context, {
    reader,
    name: "list_cost_services",
    args: { cost_ids: costIds },
    schema: listedCostServices,
  });
  return new Map(records.map(({ id, services }) => [id, services]));
}

function costArgs(
  context: AppLoadContext,
  { query, filter }: Pick<CostQuery, "query"> & { filter: CostQuery["filter"] },
) {
  return { given_from: query.from ?? null, given_to: query.to ?? null, ...listArgs(context, { query, filter }) };
}

function listArgs(
  { requestId }: AppLoadContext,
  { query: { limit, cursor }, filter = {} }: Pick<InvoiceQuery, "query"> & { filter: InvoiceQuery["filter"] },
) {
  return { before: parseCursor(cursor, { read: readCursor, requestId }), page_size: limit + 1, filter };
}

const cursorOfCost = ({ occurredAt, id }: CostRecord) => writeCursor({ createdAt: occurredAt, id });

/**
 * Lists a book's invoices, the most recently issued first, with the total of all of them.
 * @throws Response like {@link listProviderCosts}
 */
export async function listProviderInvoices(context: AppLoadContext, { reader, query, filter }: InvoiceQuery) {
  const args = listArgs(context, { query, filter });
  const { outcome: _, ...page } = await readStudio(context, {
    reader,
    name: "list_provider_invoices",
    args,
    schema: listedInvoices,
  });
  return { ...page, ...buildPage(page.records, { limit: query.limit, cursorOf: cursorOfInvoice }) };
}

/**
 * Returns a page of {@link listProviderInvoices} for a file, with who recorded each invoice and why.
 * @throws Response like {@link listProviderCosts}
 */
export async function listEnteredInvoices(context: AppLoadContext, { reader, query, filter }: InvoiceQuery) {
  const args = listArgs(context, { query, filter });
  const { records } = await readStudio(context, {
    reader,
    name: "list_provider_invoices",
    args,
    schema: listedEnteredInvoices,
  });
  return buildPage(records, { limit: query.limit, cursorOf: cursorOfInvoice });
}

const cursorOfInvoice = ({ issuedOn, id }: InvoiceRecord) => writeCursor({ createdAt: `${issuedOn}T00:00:00Z`, id });

/**
 * Returns a page of the invoices that have days in a month, each with its share.
 * @throws Response like {@link listProviderCosts}
 */
export async function listInvoiceShares(
  context: AppLoadContext,
  { reader, query, month }: Pick<InvoiceQuery, "reader" | "query"> & { month: string },
) {
  const args = listArgs(context, { query, filter: { month } });
  const { records } = await readStudio(context, {
    reader,
    name: "list_provider_invoices",
    args,
    schema: listedInvoiceShares,
  });
  return buildPage(records, { limit: query.limit, cursorOf: cursorOfInvoice });
}

/**
 * Compares a book's metered, imported and invoiced costs for each month and provider, in total and by account. Defaults
 * to the last twelve months, including the current one.
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
      after: parseCursor(cursor, { read: parseMonthCursor, requestId: context.requestId }),
      page_size: limit + 1,
    },
    schema: listedReconciliation,
  });
  const cursorOf = ({ month, provider }: ReconciledMonth) => writeKeyCursor([month, provider]);
  return { ...page, ...buildPage(page.records, { limit, cursorOf }) };
}

function parseMonthCursor(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 2 });
  return /^(?!0000)\d{4}-(0[1-9]|1[0-2])$/.test(position?.[0] ?? "") ? position : null;
}
