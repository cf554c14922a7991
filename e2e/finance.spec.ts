import type { Page } from "playwright/test";
import { createApp } from "../scripts/test/apps.ts";
import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

/** A response of OpenAI's costs API with one bucket per day and a refund on the second day. */
const openAiCosts = JSON.stringify({
  object: "page",
  has_more: false,
  next_page: null,
  data: [
    ["2026-10-05", [42.2]],
    ["2026-10-06", [20, -2.1]],
  ].map(([day, amounts]) => ({
    object: "bucket",
    start_time: Date.parse(`${day}`) / 1000,
    end_time: Date.parse(`${day}`) / 1000 + 86_400,
    results: (amounts as number[]).map((value) => ({
      object: "organization.costs.result",
      amount: { value, currency: "usd" },
      line_item: "gpt-5, input",
      project_id: "proj_1",
    })),
  })),
});
/** Anthropic's cost report, with amounts in cents, as strings. */
const anthropicCosts = JSON.stringify({
  has_more: false,
  next_page: null,
  data: [
    {
      starting_at: "2026-10-07T00:00:00Z",
      ending_at: "2026-10-08T00:00:00Z",
      results: [{ amount: "3300.0000000001", currency: "USD", description: "Tokens", workspace_id: "wrkspc_1" }],
    },
  ],
});
/** A Google Cloud export with days in Pacific time, amounts in euros, and a service that the gateway does not use. */
const googleCosts = [
  "billing_account_id,service.description,usage_start_time,project.id,cost,currency,credits",
  '01A-02B,Vertex AI,2026-10-08 07:00:00 UTC,ai-prod,80,EUR,"[{""name"":""Discount"",""amount"":-2.5}]"',
  "01A-02B,Cloud Storage,2026-10-08 07:00:00 UTC,ai-prod,12,EUR,[]",
].join("\n");

/**
 * Links an app to the person's own workspace, with gateway usage that matches what the three providers charge for
 * October.
 */
async function createBooks({ email }: Person): Promise<string> {
  const [found] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  const workspaceId = found?.id ?? "";
  await createApp({
    kind: "external",
    scopes: ["workspace:session", "ai:use"],
    workspaceId,
    displayName: "Ledger",
  });
  await query(
    `insert into ai.usage_daily (
       workspace_id, day, provider_id, model_id, feature, execution_mode, requests, failed, input_tokens, output_tokens,
       cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks, first_token_marks
     )
     select $1, '2026-10-08', p.id, 'chat', 'chat', 'interactive', 5, 0, 900, 100, p.cost, 0, 0, 0, 0, 0, 0
     from (values ('openai', 60.1), ('anthropic', 33.000000000001), ('gcp', 93)) as p (id, cost)`,
    [workspaceId],
  );
  return `/workspaces/${workspaceId}/ai`;
}

async function review(page: Page, { name, text }: { name: string; text: string }): Promise<void> {
  await page.getByLabel("Cost file").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await page.getByRole("button", { name: "Review file" }).click();
  await expect(page.getByRole("heading", { name: "Review the costs" })).toBeVisible();
}

async function importCosts(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Import costs" }).click();
  await expect(page.getByText("Costs imported.")).toBeVisible();
}

async function enterInvoice(page: Page, fields: Record<string, string>): Promise<void> {
  for (const [label, value] of Object.entries(fields)) {
    const field = page.getByLabel(label, { exact: true });
    if (label === "Kind") await field.selectOption(value);
    else await field.fill(value);
  }
  await page.getByRole("button", { name: "Review invoice" }).click();
  await page.getByRole("button", { name: /^Record (invoice|credit note)$/ }).click();
  await expect(page.getByText(/^(Invoice|Credit note) recorded\./)).toBeVisible();
}

test("on a small screen, a finance admin imports the bills of three providers, corrects an invoice and reconciles October", async ({
  page,
  member,
}) => {
  test.setTimeout(120_000);
  await page.setViewportSize({ width: 320, height: 900 });
  const base = await createBooks(member);
  const rowOf = (provider: string) =>
    page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: new RegExp(`^${provider}`) }) });
  const toOctober = async () => {
    await page.goto(`${base}/reconciliation`);
    await page.getByLabel("Month (UTC)").selectOption("2026-10");
    await page.getByRole("button", { name: "Show" }).click();
    await expect(page.getByRole("heading", { name: "October 2026" })).toBeVisible();
  };

  await enter(page, member, base);
  await toOctober();
  for (const provider of ["openai", "anthropic", "gcp"]) {
    await expect(rowOf(provider)).toContainText("Nothing reported");
  }

  await rowOf("openai").getByRole("link", { name: "Import costs" }).click();
  await expectWellMade(page);
  await review(page, { name: "openai.json", text: openAiCosts });
  await expect(page.getByText("Adds the totals of 2 days.")).toBeVisible();
  await importCosts(page);
  await expectWellMade(page);
  await page.getByRole("link", { name: "Reconcile October 2026" }).click();
  await expect(rowOf("openai")).toContainText("Invoice missing");

  await rowOf("anthropic").getByRole("link", { name: "Import costs" }).click();
  await review(page, { name: "anthropic.json", text: anthropicCosts });
  await importCosts(page);

  await page.getByRole("link", { name: "Import another file" }).click();
  await review(page, { name: "google.csv", text: googleCosts });
  await expect(page.getByText("Enter a rate for EUR")).toBeVisible();
  await page.getByLabel("US dollars for 1 EUR").fill("1,2");
  await page.getByLabel("Cloud Storage").uncheck();
  await page.getByRole("button", { name: "Update preview" }).click();
  await expect(page.getByRole("alert")).toContainText("Enter the rate with a decimal point");
  await page.getByLabel("US dollars for 1 EUR").fill("1.2");
  await page.getByRole("button", { name: "Update preview" }).click();
  await expect(page.getByText("$93.00").first()).toBeVisible();
  await importCosts(page);
  await expect(page.getByText("1 EUR = $1.20")).toBeVisible();

  // OpenAI's invoice omitted the refund and is corrected.
  await toOctober();
  await rowOf("openai").getByRole("link", { name: "Enter invoice" }).first().click();
  const ofProject = { Account: "proj_1", "Issued on": "2026-11-01" };
  await enterInvoice(page, { ...ofProject, Reference: "OA-10", "Amount in US dollars": "62.2" });
  await toOctober();
  await expect(rowOf("openai")).toContainText("Invoice differs");
  await expect(rowOf("openai").locator('[title="$2.10"]').filter({ visible: true })).toBeVisible();
  await rowOf("openai").getByRole("link", { name: "Invoices" }).first().click();
  await page.getByRole("link", { name: "OA-10" }).click();
  await page.getByRole("link", { name: "Enter correction" }).click();
  await expect(page.getByLabel("Replaces", { exact: true })).toHaveValue("OA-10");
  await enterInvoice(page, {
    "Issued on": "2026-11-01",
    Reference: "OA-10-R1",
    "Amount in US dollars": "60.1",
  });

  // A credit note reduces Anthropic's invoice.
  await page.goto(`${base}/invoices/new?provider=anthropic&accountId=wrkspc_1&periodStart=2026-10-01`);
  await enterInvoice(page, { Reference: "AN-10", "Amount in US dollars": "35", "Issued on": "2026-11-02" });
  await page.getByRole("link", { name: "Enter credit note" }).click();
  await enterInvoice(page, {
    Reference: "AN-10-CN",
    "Amount in US dollars": "2",
    "Issued on": "2026-11-03",
  });

  // Google Cloud was prepaid for a quarter of 92 days, 31 of them in October.
  await page.goto(`${base}/invoices/new?provider=gcp&accountId=ai-prod`);
  await enterInvoice(page, {
    Reference: "GC-Q4",
    "Amount in US dollars": "276",
    "Issued on": "2026-10-01",
    "Period’s first day": "2026-10-01",
    "Period’s last day": "2026-12-31",
  });

  await toOctober();
  await expect(rowOf("openai")).toContainText("Matches");
  await expect(rowOf("gcp")).toContainText("Matches");
  // A difference of 10⁻¹⁰ cents remains.
  await expect(rowOf("anthropic")).toContainText("Matches (rounding)");
  await expect(rowOf("anthropic").locator('[title="−$0.000000000001"]').filter({ visible: true })).toBeVisible();

  for (const [label, name] of [
    ["Download CSV", "reconciliation-2026-10.csv"],
    ["Download FOCUS", "focus-2026-10.csv"],
  ] as const) {
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: label, exact: true }).click(),
    ]);
    expect(file.suggestedFilename()).toBe(name);
  }
});
