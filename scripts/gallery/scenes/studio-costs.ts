import { press, refuse, type Scene, statesOf, whose } from "../define-states.ts";
import { busy, empty } from "./studio.ts";

const january = "?from=2026-01-01&to=2026-01-31";

/** Uploads a bill covering two days and several services. */
async function reviewCosts({ page }: Scene, currency: "USD" | "EUR"): Promise<void> {
  const line = (day: string, service: string, amount: string) =>
    `${amount},payer-1,${currency},Usage,${day}T00:00:00Z,${day}T23:00:00Z,Mistral,${service},team-research`;
  const text = [
    "BilledCost,BillingAccountId,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ProviderName,ServiceName,SubAccountId",
    line("2026-01-20", "Mistral Large", "41.25"),
    line("2026-01-20", "Mistral OCR", "3.5"),
    line("2026-01-20", "Credits", "-5"),
    line("2026-01-21", "Mistral Large", "38.071250000001"),
    "",
  ].join("\n");
  const file = { name: "mistral-january.csv", mimeType: "text/csv", buffer: Buffer.from(text) };
  await page.getByLabel("Cost file").setInputFiles(file);
  await press(page, "Review file");
  await page.getByRole("heading", { name: "Review the costs" }).waitFor();
}

/** Creates a guest's workspace with an app whose older records spell a provider in two ways. */
async function withClashes(scene: Scene): Promise<string> {
  const { world } = scene;
  const workspaceId = await world.ownWorkspace(whose(scene));
  const app = await world.createApp({
    kind: "external",
    scopes: ["workspace:session", "ai:use"],
    workspaceId,
    displayName: "Ledger Sync",
  });
  await world.query(
    `insert into ai.external_provider_costs (
       workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
     )
     select $1, $2, p, 'proj_1', 'openai-costs:proj_1:2026-01-20', 'account_day', 12.5, '2026-01-20T00:00:00Z',
       '2026-02-01T00:00:00Z'
     from unnest(array['OpenAI', 'openai']) p`,
    [workspaceId, app.id],
  );
  await world.query(
    `insert into ai.external_provider_invoices (
       workspace_id, app_id, provider, account_id, reference, amount_usd, issued_on, reviewed_at, period_start, period_end
     )
     select $1, $2, p, 'proj_1', 'INV-2026-01', 12.5, '2026-02-01', '2026-02-02T00:00:00Z', '2026-01-01', '2026-01-31'
     from unnest(array['OpenAI', 'openai']) p`,
    [workspaceId, app.id],
  );
  return `/workspaces/${workspaceId}/ai/reconciliation?month=2026-01`;
}

/** The references of invoices with these amounts. The last one is recorded, so it is new in each run. */
const references: Record<string, string> = {
  "0.4": "INV-2026-0917",
  "1204.5": `INV-${crypto.randomUUID().slice(0, 8)}`,
};

async function enterInvoice({ page }: Scene, amount: string): Promise<void> {
  await page.getByLabel("Provider").fill("openai");
  await page.getByLabel("Account", { exact: true }).fill("proj_1");
  await page.getByLabel("Reference").fill(references[amount] ?? "INV-2026-0918");
  await page.getByLabel("Net amount").fill(amount);
  await page.getByLabel("Issued on").fill("2026-02-01");
  await page.getByLabel("Period’s first day").fill("2026-01-01");
  await page.getByLabel("Period’s last day").fill("2026-01-31");
  await press(page, "Review invoice");
}

async function enterEuroInvoice(scene: Scene, amount: string): Promise<void> {
  const { page } = scene;
  await page.getByLabel("Currency").selectOption("EUR");
  await page.getByLabel("Tax").fill("190");
  await page.getByLabel("Exchange rate").fill("1.0825");
  await enterInvoice(scene, amount);
}

/** The pages for imported provider costs, invoices and reconciliation. */
export const costStates = statesOf("AI studio", [
  ["Costs", "books/costs", "user", busy("/costs", january)],
  ["Costs, none imported", "books/costs", "guest", empty("/costs")],
  ["Import costs", "books/cost-import", "user", busy("/costs/import")],
  ["Import costs, no app", "books/cost-import", "guest", empty("/costs/import")],
  [
    "Import costs, file refused",
    "books/cost-import",
    "user",
    busy("/costs/import"),
    async ({ page }) => {
      const buffer = Buffer.from("date,model,tokens\n2026-01-20,gpt-5,1200\n");
      await page.getByLabel("Cost file").setInputFiles({ name: "tokens.csv", mimeType: "text/csv", buffer });
      await refuse(page, "Review file");
    },
  ],
  ["Import costs, review", "books/cost-import", "user", busy("/costs/import"), (scene) => reviewCosts(scene, "USD")],
  [
    "Import costs, rate missing",
    "books/cost-import",
    "user",
    busy("/costs/import"),
    (scene) => reviewCosts(scene, "EUR"),
  ],
  [
    "Import costs, rate refused",
    "books/cost-import",
    "user",
    busy("/costs/import"),
    async (scene) => {
      await reviewCosts(scene, "EUR");
      await scene.page.getByLabel("US dollars for 1 EUR").fill("1,08");
      await refuse(scene.page, "Update preview");
    },
  ],
  [
    "A cost import, its receipt",
    "books/cost-receipt",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/costs/imports/${world.importId}?imported`,
  ],
  ["Invoices", "books/invoices", "user", busy("/invoices")],
  ["Invoices, none yet", "books/invoices", "guest", empty("/invoices")],
  ["New invoice", "books/invoices-new", "user", busy("/invoices/new")],
  ["New invoice, no app", "books/invoices-new", "guest", empty("/invoices/new")],
  [
    "New invoice, refused",
    "books/invoices-new",
    "user",
    busy("/invoices/new"),
    async ({ page }) => {
      await page.getByLabel("Net amount").fill("1,5");
      await refuse(page, "Review invoice");
    },
  ],
  [
    "New invoice, review",
    "books/invoices-new",
    "user",
    busy("/invoices/new"),
    async (scene) => {
      await enterInvoice(scene, "0.300000000002");
      await scene.page.getByRole("button", { name: "Record invoice" }).waitFor();
    },
  ],
  [
    "New invoice, review in euros",
    "books/invoices-new",
    "user",
    busy("/invoices/new"),
    async (scene) => {
      await enterEuroInvoice(scene, "1000");
      await scene.page.getByRole("button", { name: "Record invoice" }).waitFor();
    },
  ],
  [
    "An invoice in euros, with its document",
    "books/invoice",
    "user",
    busy("/invoices/new"),
    async (scene) => {
      const { page } = scene;
      await enterEuroInvoice(scene, "1204.5");
      const buffer = Buffer.from("%PDF-1.7");
      await page
        .getByLabel("Original document")
        .setInputFiles({ name: "INV-7.pdf", mimeType: "application/pdf", buffer });
      await press(page, "Record invoice");
      await page.getByText("Invoice recorded. This is its receipt.").waitFor();
    },
  ],
  [
    "New invoice, recorded otherwise",
    "books/invoices-new",
    "user",
    busy("/invoices/new"),
    async (scene) => {
      await enterInvoice(scene, "0.4");
      await scene.page.getByRole("alert").first().waitFor();
    },
  ],
  ["An invoice", "books/invoice", "user", ({ world }) => `/workspaces/${world.busy}/ai/invoices/${world.invoiceId}`],
  [
    "An invoice, its receipt",
    "books/invoice",
    "user",
    ({ world }) => `/workspaces/${world.busy}/ai/invoices/${world.invoiceId}?recorded`,
  ],
  ["Reconciliation", "books/reconciliation", "user", busy("/reconciliation", "?month=2026-01")],
  ["Reconciliation, unknown month", "books/reconciliation", "user", busy("/reconciliation", "?month=2026-13"), 400],
  ["Reconciliation, two spellings", "books/reconciliation", "guest", withClashes],
  ["Reconciliation, nothing to compare", "books/reconciliation", "guest", empty("/reconciliation")],
]);
