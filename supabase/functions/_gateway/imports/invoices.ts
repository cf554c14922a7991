import { type InvoiceReceipt, type ProviderInvoice, providerInvoice } from "../../_shared/provider-records.ts";
import type { Caller, GatewayDatabase } from "../database/database.ts";
import { refuseBody } from "../http/parse-body.ts";
import { requireOutcome } from "./serve-import.ts";

/**
 * Parses a reviewed invoice.
 * @throws GatewayError that names the invalid field
 */
export function readInvoice(value: unknown): ProviderInvoice {
  const parsed = providerInvoice.safeParse(value);
  if (!parsed.success) throw refuseBody(parsed.error);
  return parsed.data;
}

/**
 * Stores an invoice. Idempotent for the same invoice.
 * @throws GatewayError if the database refuses it
 */
export async function storeInvoice(
  database: GatewayDatabase,
  { caller, invoice: { record, receipt } }: { caller: Caller; invoice: ProviderInvoice },
): Promise<InvoiceReceipt> {
  requireOutcome(await database.importInvoice({ ...caller, record }));
  return { accepted: true, reference: record.reference, ...receipt };
}
