import type { InvoiceReceipt, ProviderInvoice } from "../../_shared/provider-records.ts";
import type { Caller, GatewayDatabase } from "../database/database.ts";
import { requireOutcome } from "./serve-import.ts";

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
