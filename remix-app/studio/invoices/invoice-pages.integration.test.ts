import { createHash, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createConsoleAdmin } from "../../../scripts/test/console-admin.ts";
import { createPerson, type SignedInBrowser, signIn } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { join } from "../../../supabase/tests/database.ts";
import { type AppTenant, createAppTenant } from "../../../supabase/tests/gateway/app-tenant.ts";
import { openPlainTab } from "../../testing/plain-tab.ts";

let tenant: AppTenant;
let other: AppTenant;
let member: SignedInBrowser;
let viewer: SignedInBrowser;
let stranger: SignedInBrowser;
let memberId: string;
let base: string;

beforeAll(async () => {
  const [one, two, three] = await Promise.all([createPerson(), createPerson(), createPerson()]);
  [tenant, other] = await Promise.all([createAppTenant(), createAppTenant()]);
  base = `/workspaces/${tenant.workspaceId}/ai`;
  memberId = one.id;
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: memberId, role: "member" });
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: two.id, role: "viewer" });
  await join(other.db, { workspaceId: other.workspaceId, userId: three.id, role: "member" });
  [member, viewer, stranger] = await Promise.all([signIn(one), signIn(two), signIn(three)]);
});
afterAll(() => Promise.all([tenant.close(), other.close()]));

const invoiceOf = (changes: Record<string, string> = {}) => ({
  appId: tenant.appId,
  provider: "mistral",
  accountId: "acct-1",
  reference: `INV-${randomUUID()}`,
  currency: "EUR",
  netAmount: "1000",
  taxAmount: "190",
  issuedOn: "2026-02-01",
  periodStart: "2026-01-01",
  periodEnd: "2026-01-31",
  ...changes,
});

async function importRate(rate: string): Promise<void> {
  const document = {
    provider: "mistral",
    format: "focus",
    fileName: "january.csv",
    sha256: "0".repeat(64),
    timeZone: "UTC",
    rates: { EUR: rate },
    days: [{ accountId: "acct-1", day: "2026-01-15", amounts: [{ currency: "EUR", amount: "1000" }] }],
  };
  const change = { actor: memberId };
  await tenant.db.query("select ai.store_cost_file($1, $2, $3, null, $4)", [
    tenant.workspaceId,
    tenant.appId,
    document,
    change,
  ]);
}

test("without JavaScript, an invoice in euros takes the rate of the imported costs, and its receipt, lists and files state both amounts", async () => {
  const tab = openPlainTab(readStack().base, member);
  const invoice = invoiceOf({ currency: "EUR" });
  const { currency, ...typed } = invoice;
  await tab.open(`${base}/invoices/new?${new URLSearchParams(typed)}`);
  tab.fill("Currency", currency);
  await tab.press("Review invoice");
  expect(tab.errorOf("Exchange rate")).toContain("have no rate for this period");

  await importRate("1.08");
  await tab.press("Review invoice");
  expect(tab.words()).toContain("Exchange rate 1 EUR = 1.08 USD");
  expect(tab.words()).toMatch(/Rate of the imported costs The same: .+ entered 1\.08 for january\.csv/);
  expect(tab.words()).toContain("Total 1,190.00 EUR");
  await tab.press("Edit");
  expect(tab.valueOf("Exchange rate")).toBe("1.08");
  // The shown rate is for euros.
  tab.fill("Currency", "GBP");
  await tab.press("Review invoice");
  expect(tab.errorOf("Exchange rate")).toContain("Enter the US dollars for one GBP");
  expect(tab.valueOf("Exchange rate")).toBe("");
  tab.fill("Currency", "EUR");
  await tab.press("Review invoice");
  expect(tab.words()).toContain("Exchange rate 1 EUR = 1.08 USD");
  await tab.press("Edit");
  tab.fill("Exchange rate", "1.0825");
  tab.fill("Total", "1190.5");
  await tab.press("Review invoice");
  expect(tab.errorOf("Total")).toContain("add up to 1190, not to 1190.5");
  tab.fill("Total", "1190.00");
  await tab.press("Review invoice");
  expect(tab.words()).toMatch(/Rate of the imported costs Different: .+ entered 1\.08/);
  await tab.press("Record invoice");
  expect(tab.words()).toContain("Net amount in US dollars $1,082.50");
  expect(tab.words()).toContain("Net amount 1,000.00 EUR Tax 190.00 EUR Total 1,190.00 EUR");
  // The comparison is by net amount: 1,082.50 invoiced less 1,080 imported.
  expect(tab.words()).toContain("$2.50");

  const credit = await member.get(`${base}/invoices/new?currency=EUR&exchangeRate=1.0825`);
  expect(credit.text).toMatch(/name="exchangeRate"[^>]* value="1.0825"/);
  const list = await member.get(`${base}/invoices`);
  expect(list.words).toContain("1,190.00 EUR with tax");
  const csv = await member.get(`${base}/invoices.csv`);
  expect(csv.text).toContain("amount_usd,currency,exchange_rate,net_amount,tax_amount,total_amount,");
  expect(csv.text).toContain(",1082.5,EUR,1.0825,1000,190,1190,");
  const api = await member.get(`/api/v1${base}/provider-invoices`);
  expect(JSON.parse(api.text).records).toMatchObject([
    { amountUsd: 1082.5, currency: "EUR", exchangeRate: 1.0825, netAmount: 1000, taxAmount: 190, totalAmount: 1190 },
  ]);
  const focus = await member.get(`${base}/reconciliation.focus.csv?month=2026-01`);
  const [header = "", ...lines] = focus.text.trim().split("\r\n");
  const rows = lines.map((line) =>
    Object.fromEntries(line.split(",").map((field, n) => [header.split(",")[n], field])),
  );
  // FOCUS 1.2: BilledCost is in BillingCurrency, which is the invoice's; taxes have ChargeCategory Tax.
  expect(
    rows
      .filter((row) => row.InvoiceId === invoice.reference)
      .map((row) => [row.ChargeCategory, row.BilledCost, row.BillingCurrency, row.x_InvoicedUsd, row.x_ExchangeRate]),
  ).toEqual([
    ["Purchase", "1000", "EUR", "1082.5", "1.0825"],
    ["Tax", "190", "EUR", "0", "1.0825"],
  ]);
});

test("the API takes an invoice in its currency once, and refuses other amounts with 409 and wrong ones with 400", async () => {
  const path = `/api/v1${base}/provider-invoices`;
  const { netAmount: _, taxAmount: __, ...fields } = invoiceOf();
  const amounts = { amountUsd: 1080, exchangeRate: 1.08, netAmount: 1000, taxAmount: 190, totalAmount: 1190 };
  const body = { ...fields, ...amounts, reviewedAt: "2026-02-02T00:00:00Z" };
  const post = (changes: object = {}) => member.postJson(path, { ...body, ...changes });
  expect((await post()).status).toBe(200);
  expect((await post()).status).toBe(200);
  expect((await post({ taxAmount: 191, totalAmount: 1191 })).status).toBe(409);
  expect((await post({ totalAmount: 1191 })).status).toBe(400);
  expect((await post({ vat: 190 })).status).toBe(400);
});

describe("an invoice's original document", () => {
  const pdf = Buffer.from("%PDF-1.7\n%âãÏÓ\n%%EOF\n", "latin1");
  const record = async () => {
    const invoice = invoiceOf({ exchangeRate: "1.08" });
    const recorded = await member.post(`${base}/invoices/new`, { ...invoice, reviewedAt: "2026-02-02T00:00:00Z" });
    expect(recorded.status).toBe(303);
    return { invoice, path: new URL(recorded.location ?? "", "http://a").pathname };
  };
  /** Downloads bytes, which a browser's text would decode. */
  const download = (path: string) =>
    fetch(new URL(path, readStack().base), { headers: { cookie: member.cookie() }, redirect: "manual" });
  const upload = (
    content: Uint8Array<ArrayBuffer> | string,
    name = "bill.pdf",
    fields: Record<string, string> = {},
  ) => {
    const form = new FormData();
    for (const [field, value] of Object.entries(fields)) form.set(field, value);
    form.set("document", new Blob([content], { type: "application/pdf" }), name);
    return form;
  };

  test("a document is attached on the receipt, shown with its hash, and served only as a download", async () => {
    const { path } = await record();
    expect((await member.get(`${path}/document`)).status).toBe(404);
    const attached = await member.post(path, upload(pdf, 'März "7".html\r\n.pdf'));
    expect([attached.status, attached.location]).toEqual([303, `${path}?attached`]);
    const receipt = await member.get(`${path}?attached`);
    expect(receipt.words).toContain("Document attached.");
    expect(receipt.words).toContain(`SHA-256 ${createHash("sha256").update(pdf).digest("hex")}`);
    const file = await download(`${path}/document`);
    expect(file.status).toBe(200);
    expect(Buffer.from(await file.arrayBuffer())).toEqual(pdf);
    expect(Object.fromEntries(file.headers)).toMatchObject({
      "content-type": "application/pdf",
      "content-disposition": `attachment; filename="M-rz -7-.html.pdf"; filename*=UTF-8''M%C3%A4rz%20-7-.html.pdf`,
      "content-security-policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "cache-control": "private, no-store",
    });
    const replaced = await member.post(path, upload("%PDF-2.0"));
    expect([replaced.status, replaced.words.includes("Another document is already attached.")]).toEqual([400, true]);
    expect(Buffer.from(await (await download(`${path}/document`)).arrayBuffer())).toEqual(pdf);
  });

  test("a document is attached with the invoice, or the review is shown again and nothing is recorded", async () => {
    const fields = { ...invoiceOf({ exchangeRate: "1.08" }), reviewedAt: "2026-02-02T00:00:00Z", step: "record" };
    const wrong = await member.post(`${base}/invoices/new`, upload("<!doctype html>", "bill.pdf", fields));
    expect([wrong.status, wrong.text.includes('id="document-error"')]).toEqual([400, true]);
    const sql = "select from ai.external_provider_invoices where reference = $1";
    expect(await tenant.db.query(sql, [fields.reference])).toEqual([]);
    const recorded = await member.post(`${base}/invoices/new`, upload(pdf, "bill.pdf", fields));
    expect([recorded.status, recorded.location?.endsWith("?recorded")]).toEqual([303, true]);
    expect((await member.get(recorded.location ?? "")).words).toContain("File bill.pdf");
    const again = await member.post(`${base}/invoices/new`, upload("%PDF-2.0", "other.pdf", fields));
    expect(again.location).toBe(`${recorded.location}&unattached`);
    expect((await member.get(again.location ?? "")).words).toMatch(/wasn’t attached, because .* File bill.pdf/);
  });

  test.for([
    ["HTML named .pdf", "<script>alert(1)</script>", "isn’t a PDF"],
    ["5 MiB and one byte", `%PDF-${" ".repeat(5 * 1024 * 1024 - 4)}`, "larger than 5 MiB"],
    ["an empty file", "", "The file is empty"],
  ] as const)("%s is refused and not stored", async ([, content, message]) => {
    const { path } = await record();
    const refused = await member.post(path, upload(content));
    expect([refused.status, refused.words.includes(message)]).toEqual([400, true]);
    expect((await member.get(`${path}/document`)).status).toBe(404);
  });

  test("a document of 5 MiB is stored and downloaded", async () => {
    const { path } = await record();
    expect((await member.post(path, upload(`%PDF-${" ".repeat(5 * 1024 * 1024 - 5)}`))).status).toBe(303);
    expect((await (await download(`${path}/document`)).arrayBuffer()).byteLength).toBe(5 * 1024 * 1024);
  });

  test("people who cannot read the book cannot read or attach a document, not even by another workspace's address", async () => {
    const { path } = await record();
    expect((await member.post(path, upload(pdf))).status).toBe(303);
    const elsewhere = path.replace(tenant.workspaceId, other.workspaceId);
    for (const [browser, at, status] of [
      [viewer, path, 403],
      [stranger, path, 404],
      [stranger, elsewhere, 404],
    ] as const) {
      expect((await browser.get(`${at}/document`)).status).toBe(status);
      expect((await browser.post(at, upload(pdf))).status).toBe(status);
    }
  });

  test("attaching a document to the platform's invoice needs a reason, which the audit log has", async () => {
    const admin = await createConsoleAdmin();
    const invoice = { provider: "mistral", reference: `INV-${randomUUID()}`, amountUsd: "1", issuedOn: "2026-02-01" };
    const [row] = await tenant.db.query<{ answer: { id: string } }>(
      "select ai.store_provider_invoice(ai.platform_book(), ai.platform_book(), $1) as answer",
      [{ ...invoice, reviewedAt: "2026-02-02T00:00:00Z" }],
    );
    const path = `/admin/books/invoices/${row?.answer.id}`;
    const refused = await admin.browser.post(path, upload(pdf));
    expect([refused.status, refused.text.includes('id="reason-error"')]).toEqual([400, true]);
    const attached = await admin.browser.post(path, upload(pdf, "bill.pdf", { reason: "The bill" }));
    expect(attached.status).toBe(303);
    const log = await tenant.db.query("select action, reason from private.admin_audit_log where target = $1", [
      `document of platform invoice ${row?.answer.id}`,
    ]);
    expect(log).toEqual([{ action: "books.attach_document", reason: "The bill" }]);
    expect((await admin.browser.get(`${path}/document`)).status).toBe(200);
    expect((await member.get(`${path}/document`)).status).toBe(403);
  });
});
