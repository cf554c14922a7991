import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AppTenant, createAppTenant } from "../../tests/gateway/app-tenant.ts";
import { createGatewayTenant } from "../../tests/gateway/tenant.ts";

let tenant: AppTenant;
beforeAll(async () => {
  tenant = await createAppTenant();
});
afterAll(() => tenant.close());

const invoiceOf = (changes: object = {}) => ({
  provider: "openai",
  reference: `INV-${randomUUID()}`,
  issuedOn: "2026-01-31",
  reviewedAt: "2026-02-01T09:00:00Z",
  amountUsd: 12.5,
  ...changes,
});
const post = (body: unknown) => tenant.send("/provider-invoices", { body });
const kept = (reference: string) =>
  tenant.db.query("select * from ai.external_provider_invoices where workspace_id = $1 and reference = $2", [
    tenant.workspaceId,
    reference,
  ]);

describe("POST /v1/provider-invoices", () => {
  test("stores an invoice with its app, records it in the audit log, and creates no run or charge", async () => {
    const before = await tenant.books();
    const invoice = invoiceOf({ accountId: "acct-1", periodStart: "2026-01-01", periodEnd: "2026-01-31" });
    const { status, body } = await post(invoice);
    expect([status, body]).toEqual([200, { accepted: true, reference: invoice.reference }]);
    expect(await kept(invoice.reference)).toMatchObject([{ app_id: tenant.appId, account_id: "acct-1" }]);
    const log = await tenant.db.query(
      "select action, subject, details from public.workspace_audit_log where workspace_id = $1 and subject = $2",
      [tenant.workspaceId, `openai ${invoice.reference}`],
    );
    expect(log).toMatchObject([
      { action: "provider_invoice.recorded", details: { appId: tenant.appId, amountUsd: "12.5" } },
    ]);
    expect(await tenant.books()).toEqual(before);
    expect(await tenant.db.query("select from ai.runs where workspace_id = $1", [tenant.workspaceId])).toEqual([]);
  });

  test("concurrent identical retries store one invoice; a changed version is refused as a conflict", async () => {
    const invoice = invoiceOf({ periodStart: "2026-01-01", periodEnd: "2026-01-31" });
    const retries = await Promise.all(Array.from({ length: 50 }, () => post(invoice)));
    expect(new Set(retries.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(await kept(invoice.reference)).toHaveLength(1);
    for (const other of [
      { amountUsd: 12.500000000001 },
      { issuedOn: "2026-01-30" },
      { reviewedAt: "2026-02-01T09:00:00.000001Z" },
      { periodStart: "2026-01-02" },
      { periodEnd: undefined },
    ]) {
      const { status, body } = await post({ ...invoice, ...other });
      expect([status, body.error.code]).toEqual([409, "invoice_conflict"]);
    }
    // The same reference in another account is a different invoice.
    expect((await post({ ...invoice, accountId: "other", amountUsd: 1 })).status).toBe(200);
  });

  test("rounds an amount of more than 12 decimals, states it, and keeps it for a repeated call", async () => {
    const json = JSON.stringify(invoiceOf({ amountUsd: 77 })).replace(":77", ":0.0000000000025");
    const { reference } = JSON.parse(json);
    for (let sent = 0; sent < 2; sent++) {
      const { text } = await post(json);
      expect(text).toBe(`{"accepted":true,"reference":"${reference}","roundedAmountUsd":0.000000000002}`);
    }
    const rounded = json.replace(":0.0000000000025", ":0.000000000002");
    expect((await post(rounded)).body).toEqual({ accepted: true, reference });
  });

  test("an invoice can be replaced only once; a credit note is accepted as a separate document", async () => {
    const first = invoiceOf();
    await post(first);
    const second = invoiceOf({ replaces: first.reference, amountUsd: 8 });
    expect((await post(second)).status).toBe(200);
    const { status, body } = await post(invoiceOf({ replaces: first.reference }));
    expect([status, body.error.code, body.error.param]).toEqual([409, "invoice_conflict", "replaces"]);
    expect(body.error.message).toContain(`${first.reference} is already replaced by ${second.reference}.`);
    expect((await post(invoiceOf({ kind: "credit_note" }))).status).toBe(200);
    expect(await kept(second.reference)).toMatchObject([{ replaces: first.reference, kind: "invoice" }]);
  });

  const at = (seconds: number) => new Date(Date.now() + seconds * 1_000).toISOString();
  const yesterday = at(-86_400).slice(0, 10);
  test.for([
    ["reviewedAt", { reviewedAt: "2026-01-31T00:00:00Z" }, { reviewedAt: "2026-01-30T23:59:59.999999Z" }],
    ["reviewedAt", { issuedOn: yesterday, reviewedAt: at(-1) }, { issuedOn: yesterday, reviewedAt: at(60) }],
    ["amountUsd", { amountUsd: 0 }, { amountUsd: -0.000000000001 }],
    ["amountUsd", { amountUsd: 1 }, { amountUsd: "1" }],
    ["reference", { reference: `${"x".repeat(220)}${randomUUID()}` }, { reference: "x".repeat(257) }],
    ["reference", { reference: `EUINDE26/№ 7 ${randomUUID()}` }, { reference: "a b " }],
    ["accountId", { accountId: "0X0X0X / Sales" }, { accountId: "a\tb" }],
    ["issuedOn", { issuedOn: "2024-02-29" }, { issuedOn: "2025-02-29" }],
    [
      "periodEnd",
      { periodStart: "2026-01-01", periodEnd: "2026-01-01" },
      { periodStart: "2026-01-02", periodEnd: "2026-01-01" },
    ],
    ["currency", { currency: "USD" }, { currency: "usd" }],
    ["kind", { kind: "credit_note" }, { kind: "refund" }],
    ["replaces", {}, { replaces: "not-recorded" }],
    ["note", {}, { note: "unknown field" }],
    ["workspaceId", {}, { workspaceId: randomUUID() }],
    ["appId", {}, { appId: randomUUID() }],
  ] as [string, object, object][])("invoice field %s: accepts %j and refuses %j", async ([param, inside, outside]) => {
    expect((await post(invoiceOf(inside))).status).toBe(200);
    const { status, body } = await post(invoiceOf(outside));
    expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_request", param]);
  });

  test("accepts an invoice of 8,192 bytes and refuses 8,193", async () => {
    const of = (bytes: number) => {
      const json = JSON.stringify(invoiceOf());
      return json.replace(/}$/, `${" ".repeat(bytes - json.length)}}`);
    };
    expect((await post(of(8_192))).status).toBe(200);
    expect((await post(of(8_193))).status).toBe(413);
  });

  test("refuses a key without an app, and a header for another workspace, before reading the body", async () => {
    const unbound = await createGatewayTenant();
    const refused = await tenant.send("/provider-invoices", { body: "{", key: unbound.key });
    expect([refused.status, refused.body.error.code]).toEqual([403, "credential_not_bound"]);
    const headers = { "x-platform-workspace-id": unbound.workspaceId };
    const mismatch = await tenant.send("/provider-invoices", { body: "{", headers });
    expect([mismatch.status, mismatch.body.error.code]).toEqual([403, "workspace_mismatch"]);
    await unbound.close();
  });
});
