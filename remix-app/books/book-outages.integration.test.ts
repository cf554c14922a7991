import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { join } from "../../supabase/tests/database.ts";
import { type AppTenant, createAppTenant } from "../../supabase/tests/gateway/app-tenant.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { formOf } from "../testing/form.ts";
import { startWatchedWeb, type WatchedWeb } from "../testing/watched-web.ts";

let admin: ConsoleAdmin;
let person: Person;
let tenant: AppTenant;
let web: WatchedWeb;

interface UsedBook {
  browser: Browser;
  costImport: string;
  newInvoice: string;
  /** The fields with which every form of the book begins. */
  own: Record<string, string>;
}
const books = {} as Record<"workspace" | "platform", UsedBook>;

beforeAll(async () => {
  [admin, person, tenant, web] = await Promise.all([
    createConsoleAdmin(),
    createPerson(),
    createAppTenant(),
    startWatchedWeb(readStack().supabase, vaultSettings()),
  ]);
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: person.id, role: "member" });
  const open = (cookie: string) => openBrowser(web.base, { cookie });
  const studio = `/workspaces/${tenant.workspaceId}/ai`;
  books.workspace = {
    browser: open((await enter(person)).cookie()),
    costImport: `${studio}/costs/import`,
    newInvoice: `${studio}/invoices/new`,
    own: { appId: tenant.appId },
  };
  books.platform = {
    browser: open(admin.browser.cookie()),
    costImport: "/admin/books/import",
    newInvoice: "/admin/books/invoices/new",
    own: {},
  };
}, 60_000);
beforeEach(() => web.trouble({}));
afterAll(async () => {
  await web.stop();
  await Promise.all([admin, person].map(deletePerson));
  await tenant.close();
});

const plain = "Try again in a moment.";
const costsUnknown = "Upload the file again to see whether its costs were stored.";
const invoiceUnknown = "the invoice may have been recorded. Record it again to find out.";

describe.each(["workspace", "platform"] as const)("while the database does not answer, the %s’s book", (name) => {
  const provider = `outage-${name}-${crypto.randomUUID().slice(0, 8)}`;
  const stored = async () =>
    (await query("select from ai.external_provider_costs where provider = $1", [provider])).length;
  const recorded = async () =>
    (await query("select from ai.external_provider_invoices where provider = $1", [provider])).length;

  async function previewImport() {
    const { browser, costImport, own } = books[name];
    const upload = new FormData();
    for (const [field, value] of Object.entries(own)) upload.set(field, value);
    const line = `1,payer,USD,Usage,2026-03-01T00:00:00Z,2026-03-01T23:59:59Z,${provider},Tokens,acct-1`;
    const header =
      "BilledCost,BillingAccountId,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ProviderName,ServiceName,SubAccountId";
    upload.set("upload", new File([`${header}\n${line}`], "march.csv"));
    const { text, status } = await browser.post(costImport, upload);
    expect(status).toBe(200);
    const { fields } = formOf(text, costImport);
    return { ...fields, reason: "The bill of March", step: "import" };
  }

  test("says that costs may be stored only if the import itself got no answer", async () => {
    const { browser, costImport } = books[name];
    const confirmed = await previewImport();
    const edited = { ...confirmed, provider: `${provider}-b` };
    for (const [unreachable, form] of [
      ["/rpc/read_review_draft", confirmed],
      ["/rpc/preview_cost_import", edited],
    ] as const) {
      await web.trouble({ unreachable });
      const { status, words } = await browser.post(costImport, form);
      expect([unreachable, status, words.includes(costsUnknown), words.includes(plain)]).toEqual([
        unreachable,
        503,
        false,
        true,
      ]);
    }
    expect(await stored()).toBe(0);
    await web.trouble({ losesAnswer: "/rpc/import_cost_file" });
    const lost = await browser.post(costImport, confirmed);
    expect([lost.status, lost.words.includes(costsUnknown)]).toEqual([503, true]);
    expect(await stored()).toBe(1);
  });

  test("says that an invoice may be recorded only if recording it got no answer, and then shows what was recorded", async () => {
    const { browser, newInvoice, own } = books[name];
    const typed = { ...own, kind: "invoice", provider, netAmount: "1", issuedOn: "2026-03-31" };
    await web.trouble({ unreachable: "/rpc/review_provider_invoice" });
    const unseen = await browser.post(newInvoice, { ...typed, reference: "O-1", step: "review" });
    expect([unseen.status, unseen.words.includes(invoiceUnknown)]).toEqual([503, false]);

    await web.trouble({});
    const { fields } = formOf((await browser.post(newInvoice, { ...typed, reference: "O-1" })).text, newInvoice);
    const confirmed = { ...fields, reason: "The bill of March", step: "record" };
    await web.trouble({ unreachable: "_provider_invoice" });
    const unknown = await browser.post(newInvoice, confirmed);
    expect([unknown.status, unknown.words.includes(invoiceUnknown)]).toEqual([503, true]);
    await web.trouble({ unreachable: "/rpc/record_provider_invoice" });
    const again = await browser.post(newInvoice, confirmed);
    expect([again.status, again.words.includes(invoiceUnknown)]).toEqual([503, true]);
    expect(formOf(again.text, newInvoice).fields.reference).toBe("O-1");
    expect(await recorded()).toBe(0);

    await web.trouble({ losesAnswer: "/rpc/record_provider_invoice" });
    const found = await browser.post(newInvoice, confirmed);
    expect([found.status, found.location?.endsWith("?recorded")]).toEqual([303, true]);
    expect(await recorded()).toBe(1);
  });

  test("does not say that an invoice may be recorded if it is already recorded with other values", async () => {
    const { browser, newInvoice, own } = books[name];
    const typed = { ...own, kind: "invoice", provider, netAmount: "1", issuedOn: "2026-03-31", reference: "O-2" };
    const { fields } = formOf((await browser.post(newInvoice, typed)).text, newInvoice);
    const confirmed = { ...fields, reason: "The bill of March", step: "record" };
    expect((await browser.post(newInvoice, confirmed)).status).toBe(303);
    await web.trouble({ unreachable: "/rpc/read_provider_invoice" });
    const { status, words } = await browser.post(newInvoice, { ...confirmed, netAmount: "2" });
    expect([status, words.includes(invoiceUnknown)]).toEqual([503, false]);
  });
});
