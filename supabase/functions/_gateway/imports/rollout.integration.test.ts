import { afterAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { createDatabase } from "../database.ts";

/** A database of the same cluster to which no migration was applied. */
const url = new URL(readStack().gatewayDbUrl);
url.pathname = "/template1";
const database = createDatabase({ url: url.href, connections: 1 });
afterAll(() => database.close());

const caller = { credential: { source: "key", hash: "00" }, workspace: crypto.randomUUID() } as const;

describe("before the migrations are applied", () => {
  test.for([
    ["a cost", () => database.importCosts({ ...caller, records: [{}] })],
    ["an invoice", () => database.importInvoice({ ...caller, record: {} })],
    ["the usage report", () => database.reportUsage(caller)],
    ["a body that is none", () => database.checkAppCaller(caller)],
  ] as const)("%s is 503, for the client to try again", async ([, ask]) => {
    await expect(ask()).rejects.toMatchObject({ status: 503, code: "service_unavailable" });
  });
});
