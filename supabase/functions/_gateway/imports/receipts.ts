import { z } from "zod";
import { errorSchema } from "../http/error-schema.ts";

/** What imports answer. */
export const costReceipt = z.object({
  accepted: z.literal(true),
  externalRunId: z.string(),
  outcome: z.enum(["stored", "corrected", "unchanged", "stale"]),
});
export type CostReceipt = z.output<typeof costReceipt>;

/** One outcome or error for each record, in their order. */
export const costReceipts = z.object({
  results: z.array(
    z.union([costReceipt, errorSchema.extend({ accepted: z.literal(false), externalRunId: z.string().optional() })]),
  ),
});

export const invoiceReceipt = z.object({ accepted: z.literal(true), reference: z.string() });
export type InvoiceReceipt = z.output<typeof invoiceReceipt>;
