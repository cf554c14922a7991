import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, type SignedInBrowser, signIn } from "../../../../scripts/test/people.ts";
import { join } from "../../../../supabase/tests/database.ts";
import { type AppTenant, createAppTenant } from "../../../../supabase/tests/gateway/app-tenant.ts";
import { maxFileMiB } from "./import-choices.ts";

let tenant: AppTenant;
let member: SignedInBrowser;
let viewer: SignedInBrowser;
let page: string;

beforeAll(async () => {
  const [own, one, two] = await Promise.all([createAppTenant(), createPerson(), createPerson()]);
  tenant = own;
  page = `/workspaces/${tenant.workspaceId}/ai/costs/import`;
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: one.id, role: "member" });
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: two.id, role: "viewer" });
  [member, viewer] = await Promise.all([signIn(one), signIn(two)]);
});
afterAll(() => tenant.close());

/** Lines of a FOCUS 1.0 file: day, service, amount, currency, account. */
type Line = [day: string, service: string, amount: string, currency?: string, account?: string];
const focus = (lines: Line[]) =>
  [
    "BilledCost,BillingAccountId,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ProviderName,ServiceName,SubAccountId",
    ...lines.map(
      ([day, service, amount, currency = "USD", account = "acct-1"]) =>
        `${amount},payer,${currency},Usage,${day}T00:00:00Z,${day}T23:59:59Z,Mistral,${service},${account}`,
    ),
  ].join("\n");
const upload = (text: string | Uint8Array<ArrayBuffer>, name = "october.csv", appId = tenant.appId) => {
  const form = new FormData();
  form.set("appId", appId);
  form.set("upload", new Blob([text]), name);
  return form;
};
const unescaped = (text: string) => text.replaceAll("&quot;", '"').replaceAll("&#x27;", "'").replaceAll("&amp;", "&");
/** Returns the review form's fields with the given changes. A null removes the field. */
const reviewed = (html: string, step: "preview" | "import", changes: Record<string, string | null> = {}) => {
  const form = new FormData();
  for (const [input] of html.matchAll(/<input [^>]*>/g)) {
    const name = /name="([^"]*)"/.exec(input)?.[1];
    if (!name || name === "upload" || (input.includes('type="checkbox"') && !/ checked/.test(input))) continue;
    form.set(name, unescaped(/ value="([^"]*)"/.exec(input)?.[1] ?? ""));
  }
  form.set("step", step);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) form.delete(name);
    else form.set(name, value);
  }
  return form;
};
const stored = (account = "acct-1") =>
  tenant.db.query<{ day: string; amount: string; provider: string; original: unknown }>(
    `select to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD') as day, trim_scale(amount_usd)::text as amount, provider,
       original
     from ai.external_provider_costs where workspace_id = $1 and account_id = $2 order by occurred_at`,
    [tenant.workspaceId, account],
  );

describe("importing a cost file", () => {
  test("a cost file is previewed, imported once with a receipt, and leaves nothing to import the second time", async () => {
    const bill = focus([
      ["2026-10-01", "Tokens", "10.000000000001"],
      ["2026-10-01", "Refunds", "-12.5"],
      ["2026-10-02", "Tokens", "3"],
    ]);
    const review = await member.post(page, upload(bill));
    expect(review.status).toBe(200);
    expect(review.words).toContain("1 Oct 2026 to 2 Oct 2026");
    expect(review.words).toContain("Adds the totals of 2 days.");
    expect(await stored()).toEqual([]);

    const imported = await member.post(page, reviewed(review.text, "import"));
    expect(imported.status).toBe(303);
    expect(await stored()).toEqual([
      { day: "2026-10-01", amount: "-2.499999999999", provider: "mistral", original: null },
      { day: "2026-10-02", amount: "3", provider: "mistral", original: null },
    ]);
    const receipt = await member.get(imported.location ?? "");
    expect(receipt.words).toContain("Costs imported.");
    expect(receipt.words).toContain("$0.500000000001");
    expect(receipt.words).toContain("Reconcile October 2026");

    const again = await member.post(page, upload(bill));
    expect(again.words).toContain("Everything in this file has been imported already.");
    expect(again.words).not.toContain("Import costs Cancel");
    // The page was opened before the import.
    const late = await member.post(page, reviewed(review.text, "import"));
    expect(late.status).toBe(200);
    expect(late.words).toContain("Everything in this file has been imported already.");
    const imports = await tenant.db.query("select from ai.cost_imports where workspace_id = $1", [tenant.workspaceId]);
    expect(imports).toHaveLength(1);
    const log = await tenant.db.query("select action from public.workspace_audit_log where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    expect(log.map(({ action }) => action)).toContain("provider_costs.imported");
  });

  test("importing a corrected cost file shows the old and new amounts of the corrected days", async () => {
    const days = (amount: string) => focus([["2026-09-01", "Tokens", amount, "USD", "acct-2"]]);
    const import_ = async (text: string) => {
      const review = await member.post(page, upload(text));
      return { review, answer: await member.post(page, reviewed(review.text, "import")) };
    };
    await import_(days("1"));
    const { review, answer } = await import_(days("1.5"));
    expect(review.words).toMatch(/1 Sep 2026 acct-2/);
    expect(review.words).toMatch(/\$1\.00.*\$1\.50/);
    expect(answer.status).toBe(303);
    expect(await stored("acct-2")).toMatchObject([{ amount: "1.5" }]);
    // The same file was imported after this review was rendered.
    const late = await member.post(page, reviewed(review.text, "import"));
    expect(late.words).toContain("Everything in this file has been imported already.");
    const before = await member.post(page, upload(days("2")));
    await import_(days("3"));
    const changed = await member.post(page, reviewed(before.text, "import"));
    expect(changed.status).toBe(409);
    expect(changed.words).toContain("nothing was imported");
    expect(await stored("acct-2")).toMatchObject([{ amount: "3" }]);
  });

  test("a later cost file can reset to 0 the days that an earlier file assigned to the wrong account", async () => {
    const line = (account: string) => focus([["2026-07-01", "Tokens", "4", "USD", account]]);
    const wrong = await member.post(page, upload(line("acct-wrong")));
    expect(wrong.words).not.toContain("other day");
    await member.post(page, reviewed(wrong.text, "import"));
    const right = await member.post(page, upload(line("acct-right")));
    expect(right.words).toContain("Set 1 other day to 0 Earlier imports have $4");
    const edited = await member.post(page, reviewed(right.text, "import", { clear: "1" }));
    expect(edited.status).toBe(409);
    expect(edited.words).toContain("Sets 1 day missing from this file to $0.00, previously $4.00");
    expect(await stored("acct-right")).toEqual([]);
    expect((await member.post(page, reviewed(edited.text, "import"))).status).toBe(303);
    expect(await stored("acct-wrong")).toMatchObject([{ amount: "0" }]);
    expect(await stored("acct-right")).toMatchObject([{ amount: "4" }]);
  });

  test("importing a cost file in another currency requires a rate, stores the original amount and names the importer", async () => {
    const review = await member.post(page, upload(focus([["2026-10-03", "Tokens", "10", "EUR", "acct-eur"]])));
    expect(review.status).toBe(200);
    expect(review.words).toContain("Enter a rate for EUR");
    expect(review.text).not.toContain('aria-invalid="true"');
    for (const rate of ["", "1,08", "0"]) {
      const refused = await member.post(page, reviewed(review.text, "preview", { rate_EUR: rate }));
      expect([refused.status, refused.text.includes('id="rate_EUR-error"')]).toEqual([400, true]);
    }
    const unseen = await member.post(page, reviewed(review.text, "import", { rate_EUR: "1.08" }));
    expect(unseen.status).toBe(409);
    expect(unseen.words).toContain("You changed something after the preview");
    expect(await stored("acct-eur")).toEqual([]);
    const preview = await member.post(page, reviewed(review.text, "preview", { rate_EUR: "1.08" }));
    expect(preview.words).toContain("$10.80");
    const imported = await member.post(page, reviewed(preview.text, "import"));
    expect(await stored("acct-eur")).toMatchObject([{ amount: "10.8", original: [{ currency: "EUR", amount: "10" }] }]);
    const receipt = await member.get(imported.location ?? "");
    expect(receipt.words).toContain("1 EUR = $1.08");
    const [person] = await tenant.db.query<{ name: string }>(
      "select display_name as name from public.profiles where id = $1",
      [(await member.session()).user.id],
    );
    expect(receipt.words).toMatch(new RegExp(`Imported by\\s*${person?.name}`));
  });

  test("an import can be limited to some services of a cost file, and its provider can be renamed", async () => {
    const bill = focus([
      ["2026-10-04", "Storage", "90", "USD", "acct-3"],
      ["2026-10-04", "Models", "7", "USD", "acct-3"],
    ]);
    const review = await member.post(page, upload(bill));
    expect(review.words).toMatch(/Storage.*\$90\.00.*Models.*\$7\.00/);
    const changes = { service_0: null, provider: "La-Plateforme" };
    const preview = await member.post(page, reviewed(review.text, "preview", changes));
    await member.post(page, reviewed(preview.text, "import"));
    expect(await stored("acct-3")).toMatchObject([{ amount: "7", provider: "la-plateforme" }]);
    const none = await member.post(page, reviewed(review.text, "preview", { service_0: null, service_1: null }));
    expect([none.status, none.words.includes("Choose at least one service")]).toEqual([400, true]);
  });

  test("an unreadable cost file is rejected with advice next to the file's field", async () => {
    const wrong = await member.post(page, upload("name,amount\nx,1\n", "wrong.csv"));
    expect([wrong.status, wrong.text.includes('id="upload-error"')]).toEqual([400, true]);
    const empty = await member.post(page, upload("", "empty.csv"));
    expect([empty.status, empty.words.includes("Choose a cost file.")]).toEqual([400, true]);
    const large = new Uint8Array(maxFileMiB * 1024 * 1024 + 1);
    const refused = await member.post(page, upload(large, "large.csv"));
    expect([refused.status, refused.words.includes("is larger than 8 MiB")]).toEqual([400, true]);
    const most = await member.post(page, upload(large.subarray(1), "most.csv"));
    expect([most.status, most.words.includes("is larger than 8 MiB")]).toEqual([400, false]);
    const foreign = await member.post(page, upload(focus([["2026-10-01", "x", "1"]]), "a.csv", crypto.randomUUID()));
    expect([foreign.status, foreign.text.includes('id="appId-error"')]).toEqual([400, true]);
    const lost = await member.post(page, { appId: tenant.appId, draft: "nonsense", step: "import" });
    expect([lost.status, lost.words.includes("Upload the file again")]).toEqual([400, true]);
  });
});

test("importing costs requires only the studio's permission, and receipts are private to the workspace", async () => {
  const bill = focus([["2026-08-01", "Tokens", "1", "USD", "acct-4"]]);
  const review = await member.post(page, upload(bill));
  expect((await viewer.get(page)).status).toBe(403);
  expect((await viewer.post(page, upload(bill))).status).toBe(403);
  expect((await viewer.post(page, reviewed(review.text, "import", { pageAccount: null }))).status).toBe(403);
  expect(await stored("acct-4")).toEqual([]);
  const { location } = await member.post(page, reviewed(review.text, "import"));
  const receipt = (location ?? "").split("?")[0] ?? "";
  expect((await viewer.get(receipt)).status).toBe(403);
  const other = await createAppTenant();
  await join(other.db, { workspaceId: other.workspaceId, userId: (await member.session()).user.id, role: "member" });
  expect((await member.get(receipt.replace(tenant.workspaceId, other.workspaceId))).status).toBe(404);
  expect((await member.get(`${receipt.slice(0, -1)}x`)).status).toBe(404);
  await other.close();
});

test("a month's FOCUS file adds up to the invoiced and imported amounts", async () => {
  const base = `/workspaces/${tenant.workspaceId}/ai`;
  const review = await member.post(page, upload(focus([["2026-05-07", "Tokens", "30.1", "USD", "acct-5"]]), "may.csv"));
  await member.post(page, reviewed(review.text, "import"));
  const record = async (invoice: Record<string, string>) => {
    const record = {
      provider: "mistral",
      accountId: "acct-5",
      issuedOn: "2026-07-01",
      reviewedAt: "2026-07-02T00:00:00Z",
      ...invoice,
    };
    await tenant.db.query("select ai.store_provider_invoice($1, $2, $3)", [tenant.workspaceId, tenant.appId, record]);
  };
  // The first invoice covers a quarter of 91 days, 31 of which are in May. The third corrects the second, and a credit
  // note follows.
  await record({ reference: "Q2", amountUsd: "91", periodStart: "2026-04-01", periodEnd: "2026-06-30" });
  await record({ reference: "M1", amountUsd: "5", periodStart: "2026-05-01", periodEnd: "2026-05-31" });
  await record({
    reference: "M1-R",
    replaces: "M1",
    amountUsd: "4",
    periodStart: "2026-05-01",
    periodEnd: "2026-05-31",
  });
  await record({
    reference: "CN",
    kind: "credit_note",
    amountUsd: "1.5",
    periodStart: "2026-05-01",
    periodEnd: "2026-05-31",
  });
  const file = await member.get(`${base}/reconciliation.focus.csv?month=2026-05`);
  expect(file.headers.get("content-disposition")).toBe('attachment; filename="focus-2026-05.csv"');
  const [header = "", ...lines] = file.text.trim().split("\r\n");
  const names = header.split(",");
  const rows = lines.map((line) => Object.fromEntries(line.split(",").map((field, n) => [names[n], field])));
  expect(
    rows.map((row) => [row.ChargeCategory, row.InvoiceId, row.BilledCost, row.EffectiveCost, row.ChargePeriodEnd]),
  ).toEqual(
    expect.arrayContaining([
      ["Usage", "", "0", "30.1", "2026-05-08T00:00:00Z"],
      ["Purchase", "Q2", "31", "0", "2026-06-01T00:00:00Z"],
      ["Purchase", "M1-R", "4", "0", "2026-06-01T00:00:00Z"],
      ["Credit", "CN", "-1.5", "0", "2026-06-01T00:00:00Z"],
    ]),
  );
  expect(rows).toHaveLength(4);
  const month = await member.get(`${base}/reconciliation.csv?month=2026-05`);
  expect(month.text).toContain("2026-05,mistral,all,,0,30.1,1,33.5,3,");
  expect((await viewer.get(`${base}/reconciliation.focus.csv?month=2026-05`)).status).toBe(403);
  expect((await member.get(`${base}/reconciliation.focus.csv?month=2026-5`)).status).toBe(400);
});

test("a FOCUS file has a line for each service of an imported bill, which add up to the imported totals", async () => {
  const bill = [
    "BilledCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ProviderName,ServiceName,ServiceCategory,SubAccountId",
    "1.25,USD,Usage,2026-04-03T00:00:00Z,2026-04-04T00:00:00Z,Mistral,Object Storage,Storage,focus-1",
    "2.5,USD,Usage,2026-04-03T00:00:00Z,2026-04-04T00:00:00Z,Mistral,Inference,AI and Machine Learning,focus-1",
    "-0.75,USD,Credit,2026-04-03T00:00:00Z,2026-04-04T00:00:00Z,Mistral,,Other,focus-1",
    "4,USD,Usage,2026-04-04T00:00:00Z,2026-04-05T00:00:00Z,Mistral,Inference,AI and Machine Learning,focus-1",
  ].join("\n");
  const review = await member.post(page, upload(bill, "april.csv"));
  const imported = await member.post(page, reviewed(review.text, "import"));
  const receipt = await member.get(imported.location ?? "");
  expect(receipt.words).toContain("By service");
  expect(receipt.words).toMatch(/Inference Share 92\.9% .*\$6\.50/);
  const base = page.replace("/costs/import", "");
  const file = await member.get(`${base}/reconciliation.focus.csv?month=2026-04`);
  const [header = "", ...lines] = file.text.trim().split("\r\n");
  const names = header.split(",");
  const rows = lines.map((line) => Object.fromEntries(line.split(",").map((field, n) => [names[n], field])));
  const own = rows.filter(({ BillingAccountId }) => BillingAccountId === "focus-1");
  expect(
    own
      .map((row) => [row.ChargePeriodStart, row.ServiceName, row.ServiceCategory, row.EffectiveCost, row.BilledCost])
      .toSorted(),
  ).toEqual([
    ["2026-04-03T00:00:00Z", "Inference", "AI and Machine Learning", "2.5", "0"],
    ["2026-04-03T00:00:00Z", "Object Storage", "Storage", "1.25", "0"],
    ["2026-04-03T00:00:00Z", "mistral", "AI and Machine Learning", "-0.75", "0"],
    ["2026-04-04T00:00:00Z", "Inference", "AI and Machine Learning", "4", "0"],
  ]);
});
