import { z } from "zod";
import { amountText } from "../../ui/format-amount.ts";

const countSchema = z.number().int();
const windowFields = { from: z.string(), to: z.string() };

export const importedFile = z.object({
  id: z.uuid(),
  file: z.string(),
  format: z.string(),
  /** The time zone of the provider's billing days. Each day is stored as midnight UTC. */
  timeZone: z.string(),
  /** Exchange rates as entered for the import: USD per unit of each currency other than USD. */
  rates: z.record(z.string(), z.string()),
  by: z.enum(["person", "operator"]),
  /** Null if an operator's command imported the file, or if the person's account was deleted. */
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
  /** How often this record has been written. */
  revision: countSchema,
  /**
   * Whether totals include the record. A daily cost replaces the runs of its account and day. A daily cost without a
   * service also replaces that day's costs per service.
   */
  counted: z.boolean(),
  /** The externalRunId of the daily total that replaces this record, or null if the record counts. */
  replacedBy: z.string().nullable(),
  /**
   * The number and amount of the records that this daily total replaces: the day's runs and, if the total names no
   * service, also the day's totals per service.
   */
  replaces: z.object({ records: countSchema, amountUsd: amountText }).nullable(),
  /** The amounts before conversion; null if all were USD. */
  original: z.array(z.object({ currency: z.string(), amount: amountText })).nullable(),
  /** The file that the record comes from; null for records sent through the API. */
  import: importedFile.nullable(),
});
export type CostRecord = z.output<typeof costRecord>;

export const listedCosts = z.object({
  outcome: z.literal("listed"),
  ...windowFields,
  totals: z.object({
    amountUsd: amountText,
    records: countSchema,
    replacedRecords: countSchema,
    replacedUsd: amountText,
  }),
  records: z.array(costRecord),
});

/** Cost records without totals, for CSV files. */
export const listedCostRecords = listedCosts.pick({ outcome: true, records: true });

/** The services of imported daily totals, for FOCUS files. A record's amounts add up to its total. */
export const listedCostServices = z.object({
  outcome: z.literal("listed"),
  records: z.array(
    z.object({
      id: z.uuid(),
      services: z.array(
        z.object({
          /** Null for lines that name no service. */
          service: z.string().nullable(),
          /** The FOCUS category that the file states; null if it states none. */
          category: z.string().nullable(),
          amountUsd: amountText,
        }),
      ),
    }),
  ),
});
export type CostServices = z.output<typeof listedCostServices>["records"][number]["services"];

export const invoiceRecord = z.object({
  id: z.uuid(),
  appId: z.uuid(),
  appName: z.string().nullable(),
  provider: z.string(),
  accountId: z.string().nullable(),
  reference: z.string(),
  /** A credit note's amount is positive and is subtracted. */
  kind: z.enum(["invoice", "credit_note"]),
  /**
   * The references of the invoice that this invoice corrects (`replaces`) and of the invoice that corrects it
   * (`replacedBy`). An invoice with `replacedBy` does not count.
   */
  replaces: z.string().nullable(),
  replacedBy: z.string().nullable(),
  /** The amount that counts: the net amount in USD. */
  amountUsd: amountText,
  /** The amounts on the invoice, in its currency. Null if only the USD amount was recorded. */
  currency: z.string().nullable(),
  /** USD for one unit of the currency. */
  exchangeRate: amountText.nullable(),
  netAmount: amountText.nullable(),
  taxAmount: amountText.nullable(),
  totalAmount: amountText.nullable(),
  /** The attached original document, if any. */
  document: z
    .object({ fileName: z.string(), sizeBytes: countSchema, sha256: z.string(), attachedAt: z.string() })
    .nullable(),
  issuedOn: z.string(),
  periodStart: z.string().nullable(),
  periodEnd: z.string().nullable(),
  reviewedAt: z.string(),
  recordedAt: z.string(),
});

export type InvoiceRecord = z.output<typeof invoiceRecord>;

/**
 * An invoice, with the part of it that falls in the listed month. The part's amounts are negative for a credit note.
 * Those in the invoice's currency are null if it has none.
 */
const invoiceShare = invoiceRecord.extend({
  inMonth: z.object({
    amountUsd: amountText,
    netAmount: amountText.nullable(),
    taxAmount: amountText.nullable(),
    firstDay: z.string(),
    lastDay: z.string(),
  }),
});
export type InvoiceShare = z.output<typeof invoiceShare>;

export const listedInvoices = z.object({
  outcome: z.literal("listed"),
  totals: z.object({
    /**
     * The total of all invoices that have not been replaced. If a month is requested, includes only the parts that fall
     * in the month.
     */
    amountUsd: amountText,
    records: countSchema,
    replacedRecords: countSchema,
  }),
  records: z.array(invoiceRecord),
});

/** Invoices for a CSV file, each with the part that falls in the month. Has no totals. */
export const listedInvoiceShares = z.object({ outcome: z.literal("listed"), records: z.array(invoiceShare) });

const enteredInvoice = invoiceRecord.extend({
  /** Null once the person or app is deleted. */
  recordedBy: z.string().nullable(),
  /** Null in a workspace's book, where no reason is asked. */
  reason: z.string().nullable(),
});
export type EnteredInvoice = z.output<typeof enteredInvoice>;

/** Invoices without totals, for CSV files. */
export const listedEnteredInvoices = z.object({ outcome: z.literal("listed"), records: z.array(enteredInvoice) });

export const reconciledMonth = z.object({
  month: z.string(),
  provider: z.string(),
  /** Null if the workspace hides provider costs. */
  meteredUsd: amountText.nullable(),
  importedUsd: amountText,
  invoicedUsd: amountText,
  importedDifferenceUsd: amountText.nullable(),
  invoicedDifferenceUsd: amountText,
  runs: countSchema,
  /** The number of imported records included in `importedUsd`. */
  importedRecords: countSchema,
  invoices: countSchema,
  accounts: z.array(
    z.object({
      accountId: z.string().nullable(),
      /** Null if the workspace hides provider costs, or if runs with a cost in the month name no account. */
      meteredUsd: amountText.nullable(),
      importedUsd: amountText,
      invoicedUsd: amountText,
      importedDifferenceUsd: amountText.nullable(),
      invoicedDifferenceUsd: amountText,
      /** Null if runs with a cost in the month name no account. */
      runs: countSchema.nullable(),
      importedRecords: countSchema,
      invoices: countSchema,
    }),
  ),
});
export type ReconciledMonth = z.output<typeof reconciledMonth>;

const spelledTwice = { provider: z.string(), spellings: z.array(z.string()), accountId: z.string().nullable() };
/** Records that differ only in the spelling of their provider's name. Only one of the records counts in totals. */
const clash = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("cost"), ...spelledTwice, externalRunId: z.string() }),
  z.object({ kind: z.literal("invoice"), ...spelledTwice, reference: z.string() }),
]);
export type Clash = z.output<typeof clash>;

export const listedReconciliation = z.object({
  outcome: z.literal("listed"),
  ...windowFields,
  clashes: z.array(clash),
  totals: z.object({
    meteredUsd: amountText.nullable(),
    importedUsd: amountText,
    invoicedUsd: amountText,
    records: countSchema,
  }),
  records: z.array(reconciledMonth),
});

export const listedComparison = z.object({
  outcome: z.literal("listed"),
  totals: z.object({
    meteredUsd: amountText.nullable(),
    importedUsd: amountText,
    importedRecords: countSchema,
    providers: countSchema,
  }),
  records: z.array(
    z.object({
      provider: z.string(),
      meteredUsd: amountText.nullable(),
      importedUsd: amountText,
      importedRecords: countSchema,
    }),
  ),
});

const nextCursor = z.string().nullable();

/** Pages of cost records, invoices and reconciled months in the API's format, each with the next page's cursor. */
export const costPage = listedCosts.omit({ outcome: true }).extend({ nextCursor });
export const invoicePage = listedInvoices.omit({ outcome: true }).extend({ nextCursor });
export const reconciliationPage = listedReconciliation.omit({ outcome: true }).extend({ nextCursor });
