import { z } from "zod";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { providerInvoice } from "#shared/provider-records.ts";
import { utcDay } from "#shared/utc-time.ts";
import { reasonSchema } from "../../admin/console-change.ts";
import {
  confirmMissedDays,
  importerState,
  readCostImporters,
  requestCostImport,
} from "../../books/importer/cost-importers.ts";
import { costProviders } from "../../books/importer/cost-sources.ts";
import { pageQuery } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { listProviderCosts, listProviderInvoices, reconcileCosts } from "../../studio/costs/book.ts";
import { importReceipt } from "../../studio/costs/cost-import/import-answers.ts";
import { requireImport } from "../../studio/costs/cost-import/import-book.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { platformBookId } from "../../studio/costs/platform-book.ts";
import { listedCosts, listedInvoices, listedReconciliation } from "../../studio/costs/provider-import-schema.ts";
import { readInvoiceAnswer, requireInvoice } from "../../studio/invoices/invoice-entry.ts";
import { recordInvoice } from "../../studio/invoices/record-invoice.ts";
import { windowQuery } from "../../studio/range.ts";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { type AdminCall, defineAct, defineRead, recordedChange } from "../define.ts";

/** Returns the caller with the platform’s book. The database checks both. */
export function bookMember({ caller }: AdminCall): StudioMember {
  return { userId: caller.id, workspaceId: platformBookId };
}

const nextCursor = z.string().nullable();
const filterFields = { provider: z.string().optional(), account: z.string().optional() };

export const bookReads = {
  reconcileBooks: defineRead({
    summary: "Compare metered, imported and invoiced costs by month and provider",
    description: "By default the last twelve months, including the current one.",
    query: windowQuery,
    answer: listedReconciliation.omit({ outcome: true }).extend({ nextCursor }),
    read: (call, { from, to, limit, cursor }) =>
      reconcileCosts(call.context, { reader: bookMember(call), query: { from, to, limit, cursor } }),
  }),
  listBookCosts: defineRead({
    summary: "List the imported costs of the platform’s book",
    description: "Newest first, by default of the last 30 days. totals are of the whole range.",
    query: windowQuery.extend(filterFields),
    answer: listedCosts.omit({ outcome: true }).extend({ nextCursor }),
    read: (call, { from, to, limit, cursor }) =>
      listProviderCosts(call.context, {
        reader: bookMember(call),
        query: { from, to, limit, cursor },
        filter: readImportFilter(call.url, call.context),
      }),
  }),
  getCostImport: defineRead({
    summary: "Get an imported cost file",
    description: "Files are imported on the console’s page, by the command line, or automatically.",
    answer: importReceipt.omit({ outcome: true }),
    async read(call) {
      const receipt = await requireImport(call.context, { member: bookMember(call), importId: call.uuid("importId") });
      const { outcome: _, ...read } = receipt;
      return read;
    },
  }),
  listCostImporters: defineRead({
    summary: "List the automatic imports of costs",
    answer: z.object({
      importers: z.array(
        z.object({
          provider: z.string(),
          name: z.string(),
          keySetting: z.string(),
          isConfigured: z.boolean(),
          state: importerState.extend({ isOverdue: z.boolean() }).nullable(),
        }),
      ),
    }),
    read: async ({ context }) => ({ importers: await readCostImporters(context) }),
  }),
  listBookInvoices: defineRead({
    summary: "List the invoices of the platform’s book",
    description: "The most recently issued first.",
    query: pageQuery.extend({ ...filterFields, month: z.string().optional() }),
    answer: listedInvoices.omit({ outcome: true }).extend({ nextCursor }),
    read: (call, { limit, cursor }) =>
      listProviderInvoices(call.context, {
        reader: bookMember(call),
        query: { limit, cursor },
        filter: readImportFilter(call.url, call.context),
      }),
  }),
  getBookInvoice: defineRead({
    summary: "Get an invoice of the platform’s book",
    description: "With who recorded it, and what it is compared with. Its document is on the console’s page.",
    answer: readInvoiceAnswer.omit({ outcome: true }),
    read: (call) => requireInvoice(call.context, { member: bookMember(call), invoiceId: call.uuid("invoiceId") }),
  }),
};

export const bookActs = {
  requestCostImport: defineAct({
    summary: "Request an automatic import of a provider’s costs",
    description: "A web server begins it within a minute.",
    body: z.strictObject({}),
    example: {},
    async act({ context, caller, param }) {
      await requestCostImport(context, { provider: param("provider"), actor: caller.id });
      return { outcome: "changed" };
    },
  }),
  confirmMissedDays: defineAct({
    summary: "Confirm that days that an automatic import missed had no costs",
    description: "Up to and including lastDay.",
    body: z.strictObject({ lastDay: utcDay }),
    example: { lastDay: "2026-11-30" },
    async act({ context, caller, param }, { lastDay }) {
      const provider = costProviders.find(({ id }) => id === param("provider"))?.id;
      if (provider === undefined) throw problem("NOT_FOUND", { requestId: context.requestId });
      await confirmMissedDays(context, { provider, actor: caller.id, lastDay });
      return { outcome: "changed" };
    },
  }),
  recordBookInvoice: defineAct({
    summary: "Record a reviewed invoice in the platform’s book",
    description: "Amounts are JSON numbers. A recorded invoice never changes; the same invoice again changes nothing.",
    body: z.strictObject({ invoice: providerInvoice, reason: reasonSchema }),
    example: {
      invoice: {
        provider: "openai",
        reference: "INV-2026-10",
        issuedOn: "2026-11-01",
        reviewedAt: "2026-11-02T09:00:00Z",
        periodStart: "2026-10-01",
        periodEnd: "2026-10-31",
        amountUsd: new JsonNumber("1234.56"),
      },
      reason: "Checked against the usage page",
    },
    parse: parseExactJson,
    async act(call, { invoice, reason }) {
      const record = { ...invoice.record, appId: platformBookId };
      await recordInvoice(call.context, {
        member: bookMember(call),
        invoice: { ...invoice, record },
        change: recordedChange(call, reason),
      });
      return { outcome: "changed" };
    },
  }),
};
