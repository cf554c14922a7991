import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, type SignedInBrowser, signIn } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { join } from "../../../supabase/tests/database.ts";
import { type AppTenant, createAppTenant } from "../../../supabase/tests/gateway/app-tenant.ts";
import { formatExactDateTime } from "../../http/date-text.ts";
import { callAtOnce } from "../../testing/at-once.ts";
import { openPlainTab } from "../../testing/plain-tab.ts";

let tenant: AppTenant;
let member: SignedInBrowser;
let viewer: SignedInBrowser;
let stranger: SignedInBrowser;
let base: string;

beforeAll(async () => {
  const [own, ...people] = await Promise.all([createAppTenant(), createPerson(), createPerson(), createPerson()]);
  tenant = own;
  base = `/workspaces/${tenant.workspaceId}/ai`;
  const [one, two] = people;
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: one?.id ?? "", role: "member" });
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: two?.id ?? "", role: "viewer" });
  [member, viewer, stranger] = (await Promise.all(people.map((person) => signIn(person)))) as [
    SignedInBrowser,
    SignedInBrowser,
    SignedInBrowser,
  ];
});
afterAll(() => tenant.close());

const range = "?from=2026-01-01&to=2026-01-31";
const costOf = (changes: object) => ({
  provider: "openai",
  externalRunId: `run-${randomUUID()}`,
  accountId: "acct-1",
  amountUsd: 0.1,
  occurredAt: "2026-01-20T10:00:00Z",
  observedAt: "2026-02-02T00:00:00Z",
  ...changes,
});
const invoiceOf = (changes: Record<string, string> = {}) => ({
  appId: tenant.appId,
  provider: "openai",
  accountId: "acct-1",
  reference: `INV-${randomUUID()}`,
  netAmount: "30.000000000001",
  issuedOn: "2026-02-01",
  periodStart: "2026-01-01",
  periodEnd: "2026-01-31",
  ...changes,
});
const enter = (fields: Record<string, string>, step: string) =>
  member.post(`${base}/invoices/new`, { ...fields, step });
const reviewTimeOf = (html: string) => /name="reviewedAt" value="([^"]+)"/.exec(html)?.[1] ?? "";
const kept = (reference: string) =>
  tenant.db.query<{ id: string; amount: string }>(
    "select id, amount_usd::text as amount from ai.external_provider_invoices where workspace_id = $1 and reference = $2",
    [tenant.workspaceId, reference],
  );

test("before the first import, the cost pages say what they are for and how to begin", async () => {
  const pages = await Promise.all(["costs", "invoices", "reconciliation"].map((page) => member.get(`${base}/${page}`)));
  expect(pages.map(({ status }) => status)).toEqual([200, 200, 200]);
  const [costs, invoices, reconciliation] = pages.map(({ words }) => words);
  expect(costs).toContain("Import a provider’s bill from a file");
  expect(costs).toContain("export FOCUS as CSV");
  expect(costs).toContain(`X-Platform-Workspace-Id: ${tenant.workspaceId}`);
  expect(invoices).toContain("No invoices yet. When a provider’s invoice arrives");
  expect(reconciliation).toContain("Nothing was metered, imported or invoiced");
});

describe("recording an invoice", () => {
  test("an invoice is recorded once, exactly as reviewed, and repeated requests get the same receipt", async () => {
    const invoice = invoiceOf();
    const review = await enter(invoice, "review");
    expect(review.status).toBe(200);
    expect(review.words).toContain("$30.000000000001");
    expect(review.words).toContain("1 Jan 2026 to 31 Jan 2026");
    expect(review.words).toContain("It can’t be changed or deleted afterward.");
    expect(await kept(invoice.reference)).toEqual([]);
    const reviewedAt = reviewTimeOf(review.text);
    const recorded = await enter({ ...invoice, reviewedAt }, "record");
    expect(recorded.status).toBe(303);
    const [row] = await kept(invoice.reference);
    expect(row?.amount).toBe("30.000000000001");
    expect(recorded.location).toBe(`${base}/invoices/${row?.id}?recorded`);
    // A reload, a resubmission and another review of a recorded invoice return the same receipt.
    expect((await enter({ ...invoice, reviewedAt }, "record")).location).toBe(recorded.location);
    const later = "2026-02-03T00:00:00Z";
    expect((await enter({ ...invoice, reviewedAt: later }, "record")).location).toBe(recorded.location);
    expect((await enter({ ...invoice, netAmount: "30.0000000000010" }, "review")).location).toBe(recorded.location);
    const receipt = await member.get(recorded.location ?? "");
    expect(receipt.words).toContain("Invoice recorded. This is its receipt.");
    expect(receipt.words).toContain(formatExactDateTime(reviewedAt));
    const [person] = await tenant.db.query<{ name: string }>(
      "select display_name as name from public.profiles where id = $1",
      [(await member.session()).user.id],
    );
    expect(receipt.words).toMatch(new RegExp(`Recorded by\\s*${person?.name}`));
    expect(await kept(invoice.reference)).toHaveLength(1);
    const log = await tenant.db.query(
      "select action from public.workspace_audit_log where workspace_id = $1 and subject_id = $2",
      [tenant.workspaceId, row?.id],
    );
    expect(log).toEqual([{ action: "provider_invoice.recorded" }]);
  });

  test("without JavaScript, an invoice is reviewed, refused for its amount, edited and recorded under another reference", async () => {
    const invoice = invoiceOf();
    await enter({ ...invoice, reviewedAt: "2026-02-02T00:00:00Z" }, "record");
    const tab = openPlainTab(readStack().base, member);
    await tab.open(`${base}/invoices/new?${new URLSearchParams({ ...invoice, netAmount: "0.4" })}`);
    await tab.press("Review invoice");
    expect(tab.alert()).toContain("is already recorded, but the amount differs");
    await tab.press("Edit what I entered");
    tab.fill("Reference", `${invoice.reference}.corrected`);
    await tab.press("Review invoice");
    await tab.press("Edit");
    await tab.press("Review invoice");
    await tab.press("Record invoice");
    expect(tab.heading()).toBe(`Invoice ${invoice.reference}.corrected`);
    await tab.follow("Enter correction");
    expect(tab.valueOf("Replaces")).toBe(`${invoice.reference}.corrected`);
    expect(tab.valueOf("Account")).toBe("acct-1");
  });

  test("an invoice submitted concurrently with different review times is recorded once, and all requests get its receipt", async () => {
    const invoice = invoiceOf();
    const answers = await callAtOnce(async (nth) => {
      const entry = { ...invoice, reviewedAt: `2026-02-02T00:00:00.${String(nth).padStart(6, "0")}Z` };
      const answer = await enter(entry, "record");
      // Requests refused because of the load are retried, which must not change the result.
      return answer.status === 503 ? enter(entry, "record") : answer;
    });
    const [row, ...others] = await kept(invoice.reference);
    expect(others).toEqual([]);
    const receipts = answers.map(({ status, location }) => `${status} ${location}`);
    expect(new Set(receipts)).toEqual(new Set([`303 ${base}/invoices/${row?.id}?recorded`]));
  });

  test("an invoice that differs from the recorded one is refused with the differing fields, and nothing is recorded", async () => {
    const invoice = invoiceOf();
    const reviewedAt = "2026-02-02T00:00:00Z";
    await enter({ ...invoice, reviewedAt }, "record");
    for (const [change, words] of [
      [{ netAmount: "30.000000000002" }, "the amount"],
      [{ issuedOn: "2026-02-02" }, "the day of issue"],
      [{ periodEnd: "" }, "the period’s last day"],
    ] as const) {
      for (const step of ["review", "record"]) {
        const refused = await enter({ ...invoice, ...change, reviewedAt }, step);
        expect(refused.status).toBe(409);
        expect(refused.words).toContain(`is already recorded, but ${words} differs.`);
        expect(refused.words).toContain("What to do");
      }
    }
    expect(await kept(invoice.reference)).toMatchObject([{ amount: "30.000000000001" }]);
    // The same reference for another account is another invoice.
    expect((await enter({ ...invoice, accountId: "acct-2", reviewedAt }, "record")).status).toBe(303);
  });

  test("the invoice form shows errors next to invalid fields, keeps the typed values and rejects a future issue date", async () => {
    const wrong = await enter({ ...invoiceOf(), netAmount: "1,5", provider: "" }, "review");
    expect(wrong.status).toBe(400);
    expect(wrong.text).toMatch(/id="netAmount-error"[^>]*>Enter the amount with a decimal point/);
    expect(wrong.text).toMatch(/id="provider-error"[^>]*>Enter the provider/);
    expect(wrong.text).toContain('value="1,5"');
    const dayOf = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
    expect((await enter(invoiceOf({ issuedOn: dayOf(0) }), "review")).status).toBe(200);
    const early = await enter(invoiceOf({ issuedOn: dayOf(1) }), "review");
    expect([early.status, early.text.includes('id="issuedOn-error"')]).toEqual([400, true]);
    const foreign = await enter(invoiceOf({ appId: randomUUID() }), "review");
    expect([foreign.status, foreign.text.includes('id="appId-error"')]).toEqual([400, true]);
    // If the time of the review is in the future or invalid, the page asks for another review and records nothing.
    for (const reviewedAt of ["2126-01-01T00:00:00Z", "2026-01-31T23:59:59.999999Z", "now", ""]) {
      const invoice = invoiceOf();
      const again = await enter({ ...invoice, reviewedAt }, "record");
      expect([again.status, reviewTimeOf(again.text).slice(0, 4)]).toEqual([200, dayOf(0).slice(0, 4)]);
      expect(await kept(invoice.reference)).toEqual([]);
    }
    const edited = await enter(invoiceOf({ reference: "EDIT-1" }), "edit");
    expect([edited.status, edited.text.includes('value="EDIT-1"')]).toEqual([200, true]);
  });
});

test("the costs page shows which record replaces which, and its CSV file has each record with exact amounts", async () => {
  const records = [
    costOf({ externalRunId: "first", occurredAt: "2026-01-20T00:00:00Z" }),
    costOf({ externalRunId: "last", occurredAt: "2026-01-20T23:59:59.999999Z", amountUsd: 0.2 }),
    costOf({ externalRunId: "next", occurredAt: "2026-01-21T00:00:00Z", amountUsd: 0.000000000001 }),
    costOf({
      externalRunId: "day-20",
      granularity: "account_day",
      occurredAt: "2026-01-20T00:00:00Z",
      amountUsd: 29.5,
    }),
    costOf({ externalRunId: "=HYPERLINK".slice(1), accountId: undefined, provider: "other", amountUsd: 7 }),
  ];
  const { body } = await tenant.send("/provider-costs/batch", { body: { records } });
  expect((body.results as { outcome: string }[]).every(({ outcome }) => outcome === "stored")).toBe(true);

  const page = await member.get(`${base}/costs${range}`);
  expect(page.words).toContain("Replaced by day-20");
  expect(page.words).toContain("replaces 2 runs (");
  expect(page.words).toContain("$36.500000000001");
  const only = await member.get(`${base}/costs${range}&provider=openai&account=acct-1`);
  expect(only.words).toContain("Only costs of openai, account acct-1.");
  expect(only.words).toContain("$29.500000000001");
  expect((await member.get(`${base}/costs${range}&provider=a/b`)).status).toBe(400);

  const file = await member.get(`${base}/costs.csv${range}&account=acct-1`);
  const [header, ...lines] = file.text.trim().split("\r\n");
  const columns = (header ?? "").split(",");
  const table = lines.map((line) => Object.fromEntries(line.split(",").map((field, n) => [columns[n], field])));
  expect(table.map((line) => [line.external_run_id, line.amount_usd, line.counted, line.replaced_by])).toEqual(
    expect.arrayContaining([
      ["next", "0.000000000001", "true", ""],
      ["last", "0.2", "false", "day-20"],
      ["day-20", "29.5", "true", ""],
      ["first", "0.1", "false", "day-20"],
    ]),
  );
  expect(table).toHaveLength(4);
  expect(table.find((line) => line.external_run_id === "day-20")).toMatchObject({
    replaces_records: "2",
    replaces_usd: "0.3",
  });
});

test("the costs page compares 50 providers at a time, but its total covers all providers", async () => {
  const february = "?from=2026-02-01&to=2026-02-28";
  const records = Array.from({ length: 51 }, (_, n) =>
    costOf({
      provider: `p${String(n).padStart(2, "0")}`,
      occurredAt: "2026-02-10T00:00:00Z",
      observedAt: "2026-03-01T00:00:00Z",
      amountUsd: 1,
    }),
  );
  for (const part of [records.slice(0, 50), records.slice(50)])
    await tenant.send("/provider-costs/batch", { body: { records: part } });
  const compared = (words: string) =>
    words.split("Imported and metered costs by provider")[1]?.split("Records")[0] ?? "";
  const linkOf = (html: string, words: string) =>
    new RegExp(`href="([^"]*)"[^>]*>${words}<`).exec(html)?.[1]?.replaceAll("&amp;", "&") ?? "";
  const nextOf = (html: string, list: string) =>
    linkOf(new RegExp(`<nav aria-label="Pages of ${list}".*?</nav>`, "s").exec(html)?.[0] ?? "", "Next page");
  const first = await member.get(`${base}/costs${february}`);
  expect(compared(first.words).match(/p\d\d/g)).toHaveLength(50);
  expect(first.words).toContain("$51.00");
  const second = await member.get(nextOf(first.text, "providers"));
  expect(compared(second.words).match(/p\d\d/g)).toEqual(["p50"]);
  expect(second.words).toContain("$51.00");
  // Each of the two lists has its own paging.
  const older = await member.get(nextOf(second.text, "records"));
  expect(compared(older.words).match(/p\d\d/g)).toEqual(["p50"]);
  expect(nextOf(older.text, "records")).toBe("");
  expect((await member.get(`${base}/costs${february}&providers=odd`)).status).toBe(400);
  // The complete file lists all providers. The file for a single provider lists what the page shows.
  const linked = linkOf(second.text, "Download CSV<span[^>]*> of the comparison");
  const lines = (await member.get(linked)).text.trim().split("\r\n");
  expect(lines[0]).toBe("provider,metered_usd,imported_usd,imported_less_metered_usd,imported_less_metered_percent");
  expect(lines.slice(1)).toEqual(records.map(({ provider }) => `${provider},0,1,1,`));
  const one = await member.get(`${base}/costs-by-provider.csv${february}&provider=p07`);
  expect(one.text.trim().split("\r\n").slice(1)).toEqual(["p07,0,1,1,"]);
});

test("the reconciliation page says what is missing or differs and where to look, and its CSV file has exact amounts", async () => {
  const page = await member.get(`${base}/reconciliation?month=2026-01`);
  expect(page.words).toContain("January 2026");
  // No run was metered, so every line is about that first.
  expect(page.words).toContain("Not metered No run was metered for these charges.");
  expect(page.words).toContain("The invoice differs from the imported costs.");
  expect(page.text).toContain(`${base}/costs?from=2026-01-01&amp;to=2026-01-31&amp;provider=openai&amp;account=acct-1`);
  expect(page.text).toContain(`${base}/invoices?month=2026-01&amp;provider=openai&amp;account=acct-1`);
  const { text } = await member.get(`${base}/reconciliation.csv?month=2026-01`);
  const [{ invoiced = "" } = {}] = await tenant.db.query<{ invoiced: string }>(
    `select trim_scale(sum(amount_usd))::text as invoiced from ai.external_provider_invoices
     where workspace_id = $1 and account_id = 'acct-1' and provider = 'openai'`,
    [tenant.workspaceId],
  );
  expect(text).toContain(`2026-01,openai,one,acct-1,0,29.500000000001,2,${invoiced},`);
  const month = await member.get(`${base}/invoices.csv?month=2026-01&account=acct-2`);
  expect(month.text.trim().split("\r\n")).toHaveLength(2);
  expect((await member.get(`${base}/invoices.csv?month=2026-02`)).text.trim().split("\r\n")).toHaveLength(1);
});

test("the cost pages require only the studio's permission, and invoices of another workspace are not found", async () => {
  const [invoice] = await tenant.db.query<{ id: string }>(
    "select id from ai.external_provider_invoices where workspace_id = $1 limit 1",
    [tenant.workspaceId],
  );
  const other = await createAppTenant();
  await join(other.db, { workspaceId: other.workspaceId, userId: (await member.session()).user.id, role: "member" });
  expect((await member.get(`/workspaces/${other.workspaceId}/ai/invoices/${invoice?.id}`)).status).toBe(404);
  await other.close();
  for (const path of [
    "costs",
    "costs.csv",
    "costs-by-provider.csv",
    "invoices",
    "invoices.csv",
    "invoices/new",
    `invoices/${invoice?.id}`,
    "reconciliation",
    "reconciliation.csv",
  ]) {
    expect([path, (await member.get(`${base}/${path}`)).status]).toEqual([path, 200]);
    expect([path, (await viewer.get(`${base}/${path}`)).status]).toEqual([path, 403]);
    expect([path, (await stranger.get(`${base}/${path}`)).status]).toEqual([path, 404]);
  }
  const entry = { ...invoiceOf(), reviewedAt: "2026-02-02T00:00:00Z", step: "record" };
  expect((await viewer.post(`${base}/invoices/new`, entry)).status).toBe(403);
  expect((await stranger.post(`${base}/invoices/new`, entry)).status).toBe(404);
  expect(await kept(entry.reference)).toEqual([]);
  // Only the form that attaches a document is accepted.
  for (const [method, status] of [
    ["POST", 415],
    ["PUT", 405],
    ["PATCH", 405],
    ["DELETE", 405],
  ] as const) {
    expect((await member.sendJson(method, `${base}/invoices/${invoice?.id}`, {})).status).toBe(status);
  }
});
