import type { Gateway } from "../_gateway/gateway.ts";
import { bodyLimits } from "../_gateway/http/body.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { readInvoice, storeInvoice } from "../_gateway/imports/invoices.ts";
import { serveImport } from "../_gateway/imports/serve-import.ts";

/** Handles `POST /v1/provider-invoices` (docs/costs.md, Importing). */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  const handle = serveImport(gateway, {
    limitBytes: bodyLimits.import,
    read: readInvoice,
    store: ({ caller, imported }) => storeInvoice(gateway.database, { caller, invoice: imported }),
  });
  return createRouter([{ path: /^\/provider-invoices$/, method: "POST", handle }], gateway);
}
