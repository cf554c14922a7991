import { z } from "zod";
import { add, formatDecimal, multiply, parseDecimal, roundHalfEven } from "./decimal.ts";
import { JsonNumber } from "./exact-json.ts";
import { isoCurrencies } from "./iso-currencies.ts";
import { externalIdMessage, externalIdPattern, labelPattern } from "./labels.ts";
import { roundUsdAmount, type UsdAmount } from "./usd-amount.ts";
import { utcDay, utcTime } from "./utc-time.ts";

const label = z.string().regex(labelPattern, { error: "This takes 1 to 128 of A-Z a-z 0-9 . _ : -" });
const externalId = z.string().regex(externalIdPattern, { error: externalIdMessage });

/** The rule for amounts, as a message for users. */
const amountRule = "An amount is a number of 0 or more, with at most 12 digits before the decimal point.";

const amount = z.instanceof(JsonNumber, { error: amountRule }).transform(({ text }, context) => {
  const read = roundUsdAmount(text);
  if (read !== null) return read;
  context.addIssue({ code: "custom", message: amountRule });
  return z.NEVER;
});

/** The rule for amounts and rates that are never rounded, as a message for users. */
const exactRule = "This is a number of 0 or more, with at most 12 digits before and 12 after the decimal point.";

const exactAmount = z.instanceof(JsonNumber, { error: exactRule }).transform(({ text }, context) => {
  const read = roundUsdAmount(text);
  if (read && !read.isRounded) return read.amount;
  context.addIssue({ code: "custom", message: exactRule });
  return z.NEVER;
});

/** States the recorded amount of a record whose amount was rounded. Part of its receipt. */
export const rounding = z.object({ roundedAmountUsd: z.instanceof(JsonNumber).optional() });

/** The response to an invoice. */
export const invoiceReceipt = rounding.extend({ accepted: z.literal(true), reference: z.string() });
export type InvoiceReceipt = z.output<typeof invoiceReceipt>;

/** Returns a record as it is stored, and what its receipt adds about its amount. */
function withRounding<Fields extends { amountUsd: UsdAmount }>({
  amountUsd: { amount, isRounded },
  ...fields
}: Fields) {
  const receipt: z.output<typeof rounding> = isRounded ? { roundedAmountUsd: new JsonNumber(amount) } : {};
  return { record: { ...fields, amountUsd: amount }, receipt };
}
const usd = z.literal("USD", { error: "Amounts are in USD." }).optional();
const midnight = /T00:00:00(\.0+)?Z$/;

/** A cost reported by a provider (docs/costs.md, Importing). The body must have been parsed with parseExactJson. */
export const providerCost = z
  .strictObject({
    provider: label,
    externalRunId: externalId,
    amountUsd: amount,
    occurredAt: utcTime,
    observedAt: utcTime,
    service: externalId.optional(),
    accountId: externalId.optional(),
    granularity: z.enum(["run", "account_day"]).optional(),
    currency: usd,
  })
  .refine(({ granularity, accountId }) => granularity !== "account_day" || accountId !== undefined, {
    path: ["accountId"],
    error: "A record of granularity account_day names its account.",
  })
  .refine(({ granularity, occurredAt }) => granularity !== "account_day" || midnight.test(occurredAt), {
    path: ["occurredAt"],
    error: "A record of granularity account_day is of midnight in UTC.",
  })
  .transform(withRounding);

/** Maximum number of records in a batch. */
const maxBatchRecords = 100;

/** A batch of independent records. An error in one record does not affect the others. */
export const providerCostBatch = z.strictObject({
  records: z.array(z.unknown()).min(1).max(maxBatchRecords),
});

const currencyRule = "This takes the ISO 4217 code of a currency, such as EUR.";

const invoiceFields = z.strictObject({
  provider: label,
  reference: externalId,
  /** A credit note has a positive amount, which is subtracted. */
  kind: z.enum(["invoice", "credit_note"]).optional(),
  /** The reference of the earlier invoice that this invoice corrects. */
  replaces: externalId.optional(),
  issuedOn: utcDay,
  reviewedAt: utcTime,
  amountUsd: amount,
  accountId: externalId.optional(),
  /** The ISO 4217 code of the invoice's currency. */
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, { error: currencyRule })
    .refine((code) => isoCurrencies.includes(code), { error: currencyRule })
    .optional(),
  /** USD for one unit of the currency. */
  exchangeRate: exactAmount.refine((rate) => rate !== "0", { error: "A rate is above 0." }).optional(),
  /** The amounts on the invoice, in its currency. The net amount and the tax add up to the total. */
  netAmount: exactAmount.optional(),
  taxAmount: exactAmount.optional(),
  totalAmount: exactAmount.optional(),
  periodStart: utcDay.optional(),
  periodEnd: utcDay.optional(),
});
type InvoiceFields = z.output<typeof invoiceFields>;
type Period = Pick<InvoiceFields, "periodStart" | "periodEnd">;

function endsAfterStart({ periodStart, periodEnd }: Period): boolean {
  return periodStart === undefined || periodEnd === undefined || periodStart <= periodEnd;
}
const periodRule = { path: ["periodEnd"], error: "The period ends before it starts." };

/**
 * Returns the USD for a net amount: the amount times the rate, rounded half to even to 12 decimals.
 * @param options exact decimals
 */
export function convertNetAmount({ netAmount, exchangeRate }: { netAmount: string; exchangeRate: string }): string {
  return formatDecimal(roundHalfEven(multiply(parseDecimal(netAmount), parseDecimal(exchangeRate)), 12));
}

type InvoiceAmounts = Pick<
  InvoiceFields,
  "amountUsd" | "currency" | "exchangeRate" | "netAmount" | "taxAmount" | "totalAmount"
>;

type AmountFault = { field: keyof InvoiceAmounts; message: string };

/**
 * Returns what is incomplete or contradictory in an invoice's amounts, or null. An invoice in USD may state only
 * amountUsd.
 */
function findAmountFault(invoice: InvoiceAmounts): AmountFault | null {
  const { amountUsd, currency = "USD", netAmount, taxAmount, totalAmount } = invoice;
  const isUsd = currency === "USD";
  if (isUsd && invoice.exchangeRate !== undefined && invoice.exchangeRate !== "1") {
    return { field: "exchangeRate", message: "The rate of USD is 1." };
  }
  if (!isUsd && invoice.exchangeRate === undefined) {
    const message = `An invoice in ${currency} states its rate: the USD for one ${currency}.`;
    return { field: "exchangeRate", message };
  }
  if (isUsd && [netAmount, taxAmount, totalAmount].every((amount) => amount === undefined)) return null;
  const together = "State netAmount, taxAmount and totalAmount together.";
  if (netAmount === undefined) return { field: "netAmount", message: together };
  if (taxAmount === undefined) return { field: "taxAmount", message: together };
  if (totalAmount === undefined) return { field: "totalAmount", message: together };
  if (formatDecimal(add(parseDecimal(netAmount), parseDecimal(taxAmount))) !== totalAmount) {
    return { field: "totalAmount", message: "The net amount and the tax add up to the total." };
  }
  const expected = convertNetAmount({ netAmount, exchangeRate: invoice.exchangeRate ?? "1" });
  if (amountUsd.amount === expected) return null;
  const message = `amountUsd is netAmount × exchangeRate, rounded half to even to 12 decimals: ${expected}.`;
  return { field: "amountUsd", message };
}

function checkAmounts(invoice: InvoiceAmounts, context: z.RefinementCtx): void {
  const fault = findAmountFault(invoice);
  if (fault) context.addIssue({ code: "custom", path: [fault.field], message: fault.message });
}

/** A reviewed invoice (docs/costs.md, Importing). The body must have been parsed with parseExactJson. */
export const providerInvoice = invoiceFields
  .refine(endsAfterStart, periodRule)
  .superRefine(checkAmounts)
  .transform(withRounding);

const invoiceOfApp = invoiceFields.extend({ appId: z.uuid({ error: "This names no app." }) });

/** A reviewed invoice that a member enters in the console for one of the workspace's apps. */
export const enteredInvoice = invoiceOfApp
  .refine(endsAfterStart, periodRule)
  .superRefine(checkAmounts)
  .transform(withRounding);

/** An entered invoice before a member has reviewed it. */
export const draftedInvoice = invoiceOfApp
  .omit({ reviewedAt: true })
  .refine(endsAfterStart, periodRule)
  .superRefine(checkAmounts)
  .transform(withRounding);

export type ProviderCost = z.output<typeof providerCost>;
export type ProviderInvoice = z.output<typeof providerInvoice>;
