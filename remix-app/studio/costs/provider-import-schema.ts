import { z } from "zod";
import { amountText } from "../../ui/format-amount.ts";

const count = z.number().int();
const window = { from: z.string(), to: z.string() };

/** A cost file that was imported. */
export const importedFile = z.object({
  id: z.uuid(),
  file: z.string(),
  format: z.string(),
  /** The zone of the provider's days, which are stored at midnight UTC. */
  timeZone: z.string(),
  /** USD for one unit of each other currency, as `name` entered them. */
  rates: z.record(z.string(), z.string()),
  by: z.enum(["person", "operator"]),
  /** Null for the operator's command and for deleted accounts. */
  name: z.string().nullable(),
  importedAt: z.string(),
});

const costRecord = z.object({
  id: z.uuid(),
  appId: z.uuid(),
  appName: z.string().nullable(),
  provider: z.string(),
  accountId: z.string().nullable(),
  externalRunId: z.string(),
  granularity: z.enum(["run", "account_day"]),
  service: z.string().nullable(),
  amountUsd: amountText,
  occurredAt: z.string(),
  observedAt: z.string(),
  recordedAt: z.string(),
  /** How many observations have been written into it. */
  revision: count,
  /** Whether it counts in totals. A run does not when its account's day is known, nor a service when the day has a total. */
  counted: z.boolean(),
  /** Which account day stands for one that does not count, by its externalRunId. */
  replacedBy: z.string().nullable(),
  /** The runs, and a day total's services, that an account day replaces. */
  replaces: z.object({ records: count, amountUsd: amountText }).nullable(),
  /** The amounts before conversion; null where all were USD. */
  original: z.array(z.object({ currency: z.string(), amount: amountText })).nullable(),
  /** The file that it comes from; null for the API. */
  import: importedFile.nullable(),
});
export type CostRecord = z.output<typeof costRecord>;

export const listedCosts = z.object({
  outcome: z.literal("listed"),
  ...window,
  totals: z.object({ amountUsd: amountText, records: count, replacedRecords: count, replacedUsd: amountText }),
  records: z.array(costRecord),
});

/** The same without totals, as a file reads them. */
export const listedCostRecords = listedCosts.pick({ outcome: true, records: true });

export const invoiceRecord = z.object({
  id: z.uuid(),
  appId: z.uuid(),
  appName: z.string().nullable(),
  provider: z.string(),
  accountId: z.string().nullable(),
  reference: z.string(),
  /** The amount of a credit note is positive, and is subtracted. */
  kind: z.enum(["invoice", "credit_note"]),
  /** The reference that this one corrects, and the one that corrects this one. A replaced invoice does not count. */
  replaces: z.string().nullable(),
  replacedBy: z.string().nullable(),
  amountUsd: amountText,
  issuedOn: z.string(),
  periodStart: z.string().nullable(),
  periodEnd: z.string().nullable(),
  reviewedAt: z.string(),
  recordedAt: z.string(),
});

export type InvoiceRecord = z.output<typeof invoiceRecord>;

/** The share of a month, where the list is of one; negative for a credit note. */
const invoiceShare = invoiceRecord.extend({
  inMonth: z.object({ amountUsd: amountText, firstDay: z.string(), lastDay: z.string() }),
});
export type InvoiceShare = z.output<typeof invoiceShare>;

export const listedInvoices = z.object({
  outcome: z.literal("listed"),
  totals: z.object({
    /** Of those that count; for a month, the shares of its days. */
    amountUsd: amountText,
    records: count,
    replacedRecords: count,
  }),
  records: z.array(invoiceRecord),
});

/** The same of a month, without totals, as a file reads them. */
export const listedInvoiceShares = z.object({ outcome: z.literal("listed"), records: z.array(invoiceShare) });

export const reconciledMonth = z.object({
  month: z.string(),
  provider: z.string(),
  /** Null where the workspace hides what providers charge. */
  meteredUsd: amountText.nullable(),
  importedUsd: amountText,
  invoicedUsd: amountText,
  importedDifferenceUsd: amountText.nullable(),
  invoicedDifferenceUsd: amountText,
  runs: count,
  /** Of those that count. */
  importedRecords: count,
  invoices: count,
  accounts: z.array(
    z.object({
      accountId: z.string().nullable(),
      /** Null, too, where not all runs of the provider's month name an account. */
      meteredUsd: amountText.nullable(),
      importedUsd: amountText,
      invoicedUsd: amountText,
      importedDifferenceUsd: amountText.nullable(),
      invoicedDifferenceUsd: amountText,
      /** Null where not all runs of the provider's month name an account. */
      runs: count.nullable(),
      importedRecords: count,
      invoices: count,
    }),
  ),
});
export type ReconciledMonth = z.output<typeof reconciledMonth>;

const spelledTwice = { provider: z.string(), spellings: z.array(z.string()), accountId: z.string().nullable() };
/** Records that differ only in the spelling of their provider's name; one of them counts. */
export const clash = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("cost"), ...spelledTwice, externalRunId: z.string() }),
  z.object({ kind: z.literal("invoice"), ...spelledTwice, reference: z.string() }),
]);
export type Clash = z.output<typeof clash>;

export const listedReconciliation = z.object({
  outcome: z.literal("listed"),
  ...window,
  clashes: z.array(clash),
  totals: z.object({
    meteredUsd: amountText.nullable(),
    importedUsd: amountText,
    invoicedUsd: amountText,
    records: count,
  }),
  records: z.array(reconciledMonth),
});

export const listedComparison = z.object({
  outcome: z.literal("listed"),
  totals: z.object({ meteredUsd: amountText.nullable(), importedUsd: amountText, providers: count }),
  records: z.array(z.object({ provider: z.string(), meteredUsd: amountText.nullable(), importedUsd: amountText })),
});

const nextCursor = z.string().nullable();

/** The same as the API answers them, page by page. */
export const costPage = listedCosts.omit({ outcome: true }).extend({ nextCursor });
export const invoicePage = listedInvoices.omit({ outcome: true }).extend({ nextCursor });
export const reconciliationPage = listedReconciliation.omit({ outcome: true }).extend({ nextCursor });
