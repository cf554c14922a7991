import type { Gateway } from "../_gateway/calls/gateway.ts";
import { bodyLimits } from "../_gateway/http/body.ts";
import { parseRecord } from "../_gateway/http/parse-body.ts";
import { createRouter } from "../_gateway/http/router.ts";
import { readCosts, storeCost, storeCosts } from "../_gateway/imports/costs.ts";
import { serveImport } from "../_gateway/imports/serve-import.ts";
import { providerCost } from "../_shared/provider-records.ts";

/** Handles `POST /v1/provider-costs` and `/v1/provider-costs/batch` (docs/costs.md, Importing). */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  const { database } = gateway;
  const one = serveImport(gateway, {
    limitBytes: bodyLimits.import,
    read: (value) => parseRecord(providerCost, value),
    store: ({ caller, imported }) => storeCost(database, { caller, cost: imported }),
  });
  const batch = serveImport(gateway, {
    limitBytes: bodyLimits.batch,
    read: readCosts,
    store: ({ caller, imported, requestId }) => storeCosts(database, { caller, records: imported, requestId }),
  });
  return createRouter(
    [
      { path: /^\/provider-costs$/, method: "POST", handle: one },
      { path: /^\/provider-costs\/batch$/, method: "POST", handle: batch },
    ],
    gateway,
  );
}
