import type { Gateway } from "../_gateway/calls/gateway.ts";
import { bodyLimits } from "../_gateway/http/body.ts";
import { parseRecord } from "../_gateway/http/parse-body.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { storeInvoice } from "../_gateway/imports/invoices.ts";
import { serveImport } from "../_gateway/imports/serve-import.ts";
import { providerInvoice } from "../_shared/provider-records.ts";

/** Handles `POST /v1/provider-invoices` (docs/costs.md, Importing). */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  const handle = serveImport(gateway, {
    limitBytes: bodyLimits.import,
    read: (value) => parseRecord(providerInvoice, value),
    store: ({ caller, imported }) => storeInvoice(gateway.database, { caller, invoice: imported }),
  });
  return createRouter([{ path: /^\/provider-invoices$/, method: "POST", handle }], gateway);
}
