import { monthText } from "../../../remix-app/http/date-text.ts";
import { shiftMonth } from "../../../remix-app/studio/costs/month.ts";
import { arrive, press, refuse, type Scene, statesOf } from "../define-states.ts";
import type { World } from "../world.ts";

/** A month without the runs that the other pages show. */
const month = shiftMonth(new Date().toISOString().slice(0, 7), -3);
const filled = new WeakMap<World, Promise<void>>();
const account = "proj_fRzv81xK2m";

/** Returns the address of a books page, after adding a month of data for three providers. */
const ofBooks =
  (path: string) =>
  async ({ world }: Scene): Promise<string> => {
    const filling = filled.get(world) ?? fillBooks(world);
    filled.set(world, filling);
    await filling;
    return `/admin/books${path}`;
  };

async function fillBooks({ query, busy, people }: World): Promise<void> {
  const [known] = await query("select from ai.external_provider_invoices where reference = 'INV-0081-R1'");
  if (known) return;
  const workspaceOf = async (name: string) => {
    const sql = "insert into public.workspaces (name, plan_id, created_by) values ($1, 'team', $2) returning id";
    return (await query<{ id: string }>(sql, [name, people.user.id]))[0]?.id ?? "";
  };
  const [harbour, meridian] = [await workspaceOf("Harbour Analytics"), await workspaceOf("Meridian Translations")];
  /** Adds a run on each day of a range within the month. */
  const meter = (
    provider: string,
    costs: { workspace: string; account: string; usd: string; days: [number, number] },
  ) =>
    query(
      `insert into ai.runs (
         id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
         markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, billing_name, billing_account, settled_at
       )
       select gen_random_uuid(), ($1::date + d - 1 + time '12:00') at time zone 'UTC', $2, 'key', 'interactive', 'chat',
         gen_random_uuid()::text, 'model', jsonb_build_array(jsonb_build_object('position', 1, 'provider', $3::text)), 1,
         1, 'succeeded', case when d % 9 = 0 then 'estimated_partial' else 'provider' end, $4, 0, 0, $3, $5, now()
       from generate_series($6::integer, $7::integer) d`,
      [`${month}-01`, costs.workspace, provider, costs.usd, costs.account, ...costs.days],
    );
  const bill = (provider: string, costs: { account: string; usd: string; days: [number, number] }) =>
    query(
      `insert into ai.external_provider_costs (
         workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
       )
       select ai.platform_book(), ai.platform_book(), $1, $2, $1 || '-costs:' || $2 || ':' || ($3::date + d - 1), 'account_day', $4,
         ($3::date + d - 1)::timestamp at time zone 'UTC', now()
       from generate_series($5::integer, $6::integer) d`,
      [provider, costs.account, `${month}-01`, costs.usd, ...costs.days],
    );
  const invoice = (provider: string, values: { account: string; usd: string } & Record<string, string>) =>
    query(
      `insert into ai.external_provider_invoices (
         workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start,
         period_end, reviewed_at
       )
       values (ai.platform_book(), ai.platform_book(), $1, $2, $3, $4, $5, $6, $7, $8, $9, now())`,
      [
        provider,
        values.account,
        values.reference,
        values.kind ?? "invoice",
        values.replaces ?? null,
        values.usd,
        `${month}-28`,
        `${month}-01`,
        `${month}-28`,
      ],
    );
  await meter("openai", { workspace: busy, account, usd: "14.7421", days: [1, 28] });
  await meter("openai", { workspace: harbour, account, usd: "6.5", days: [1, 28] });
  await meter("openai", { workspace: meridian, account, usd: "3.25", days: [1, 11] });
  await bill("openai", { account, usd: "24.4921", days: [1, 28] });
  await invoice("openai", { account, usd: "712.5", reference: "INV-0081" });
  await invoice("openai", { account, usd: "685.7788", reference: "INV-0081-R1", replaces: "INV-0081" });
  await query(
    `insert into ai.external_provider_costs (
       workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
     )
     select $1, gen_random_uuid(), 'openai', $2, 'day ' || d, 'account_day', 3.25,
       ($3::date + d - 1)::timestamp at time zone 'UTC', now()
     from generate_series(1, 28) d`,
    [meridian, account, `${month}-01`],
  );
  const claude = { account: "wrkspc_01JwQvzr7rXLA5AGx3HKfFUJ", days: [1, 28] as [number, number] };
  await meter("anthropic", { workspace: harbour, usd: "4.1", ...claude });
  await bill("anthropic", { usd: "4.1", ...claude });
  await invoice("anthropic", { account: claude.account, usd: "120", reference: "A-2231" });
  await invoice("anthropic", { account: claude.account, usd: "5.2", reference: "A-2250", kind: "credit_note" });
  const bedrock = { account: "123456789012", days: [1, 28] as [number, number] };
  await meter("aws", { workspace: busy, usd: "1.03", ...bedrock });
  await bill("aws", { usd: "1.031", ...bedrock });
  // Charged without any run.
  await bill("gcp", { account: "01A2B3-C4D5E6", usd: "0.82", days: [1, 28] });
}

const costFile = {
  name: "openai-costs.json",
  mimeType: "application/json",
  buffer: Buffer.from(
    JSON.stringify({
      data: Array.from({ length: 14 }, (_, at) => {
        const start_time = Date.parse(`${month}-01T00:00:00Z`) / 1_000 + (at + 10) * 86_400;
        const result = (line_item: string, value: number, currency = "usd") => ({
          amount: { value, currency },
          line_item,
          project_id: account,
        });
        const results = [result("gpt-5, input", 11.2), result("gpt-5, output", 13.9), result("Storage", 0.5)];
        return { start_time, end_time: start_time + 86_400, results };
      }),
    }),
  ),
};

async function upload({ page }: Scene): Promise<void> {
  await page.getByLabel("Cost file").setInputFiles(costFile);
  await press(page, "Review file");
  await arrive(page, "Review the costs");
}

async function importCosts(scene: Scene, provider: string): Promise<void> {
  const { page } = scene;
  await upload(scene);
  await page.getByLabel("Provider", { exact: true }).fill(provider);
  await press(page, "Update preview");
  await page.getByLabel("Reason").fill("The bill of the month");
  await press(page, "Import costs");
}

/** Fills in a new invoice and opens its review. */
async function reviewInvoice({ page }: Scene, changes: Record<string, string> = {}): Promise<void> {
  const reference = `INV-${crypto.randomUUID().slice(0, 8)}`;
  const typed = { provider: "mistral", accountId: "org-4", reference, netAmount: "1204.5", ...changes };
  for (const [name, text] of Object.entries(typed)) await page.locator(`[name=${name}]`).fill(text);
  await page.locator("[name=issuedOn]").fill(`${month}-28`);
  await page.locator("[name=periodStart]").fill(`${month}-01`);
  await press(page, "Review invoice");
}

/**
 * Returns the address of the statement of a month that ended `monthsAgo` months ago, after closing it. A cost arrives
 * after the close.
 */
const statementOf =
  (monthsAgo: number, { reopened = false } = {}) =>
  async ({ world: { query, people } }: Scene): Promise<string> => {
    const closed = shiftMonth(new Date().toISOString().slice(0, 7), -monthsAgo);
    const addCost = (day: number, usd: string) =>
      query(
        `insert into ai.external_provider_costs (
           workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
         )
         values (ai.platform_book(), ai.platform_book(), 'mistral', 'org-4', $1, 'account_day', $2, $3, now())
         on conflict do nothing`,
        [`mistral:${closed}:${day}`, usd, `${closed}-0${day}T00:00:00Z`],
      );
    const find = () =>
      query<{ id: string }>("select id from ai.book_statements where month = $1 order by version limit 1", [
        `${closed}-01`,
      ]);
    if ((await find()).length === 0) {
      await addCost(2, "1204.5");
      const exception = {
        ...{ provider: "mistral", kind: "invoice_missing", reason: "The invoice is not issued yet" },
        ...{ meteredUsd: "0", importedUsd: "1204.5", invoicedUsd: "0", amountUsd: "1204.5" },
      };
      await query(
        `select ai.close_month($1, ai.platform_book(), $2, c.list ->> 'state', $3, '{"reason": "Closed the month"}')
         from (select ai.read_close_checklist($1, ai.platform_book(), $2) as list) c`,
        [people.admin.id, closed, JSON.stringify([exception])],
      );
      await addCost(3, "18.25");
      if (reopened) {
        await query(
          `select ai.reopen_month($1, ai.platform_book(), s.id, '{"reason": "The invoice has arrived"}')
           from ai.book_statements s where s.month = $2`,
          [people.admin.id, `${closed}-01`],
        );
      }
    }
    return `/admin/books/statements/${(await find())[0]?.id}`;
  };

/** The console's pages about the platform's books. */
export const bookStates = statesOf("Console", [
  ["Books", "books/reconciliation", "admin", ofBooks(`?month=${month}`)],
  ["Books, as a finance person", "books/reconciliation", "finance", ofBooks(`?month=${month}`)],
  ["Books, needs action", "books/reconciliation", "admin", ofBooks(`?month=${month}&show=action`)],
  ["Books, an empty month", "books/reconciliation", "admin", "/admin/books?month=2020-01"],
  ["Books, no such month", "books/reconciliation", "admin", "/admin/books?month=last", 400],
  ["The checklist of a statement", "books/close", "admin", ofBooks(`/close?month=${month}`)],
  [
    "The checklist of a statement, reasons missing",
    "books/close",
    "admin",
    ofBooks(`/close?month=${month}`),
    ({ page }) => refuse(page, `Close ${monthText(month)}`),
  ],
  [
    "The checklist of a statement, month in progress",
    "books/close",
    "admin",
    `/admin/books/close?month=${new Date().toISOString().slice(0, 7)}`,
  ],
  ["A statement, with costs after the close", "books/statement", "admin", statementOf(7)],
  ["A statement, reopened", "books/statement", "admin", statementOf(8, { reopened: true })],
  [
    "A statement, reason missing",
    "books/statement",
    "admin",
    statementOf(7),
    ({ page }) => refuse(page, `Reopen ${monthText(shiftMonth(month, -4))}`),
  ],
  ["A provider's month that differs", "books/provider", "admin", ofBooks(`/${month}/openai`)],
  ["A provider's month that is not metered", "books/provider", "admin", ofBooks(`/${month}/gcp`)],
  ["A provider's month that agrees", "books/provider", "admin", ofBooks(`/${month}/anthropic`)],
  ["Costs of the platform", "books/costs", "admin", ofBooks(`/costs?month=${month}`)],
  ["Costs of the platform, none", "books/costs", "admin", "/admin/books/costs?month=2020-01"],
  ["Import costs", "books/cost-import", "admin", "/admin/books/import"],
  [
    "Import costs, not a cost file",
    "books/cost-import",
    "admin",
    "/admin/books/import",
    async ({ page }) => {
      const buffer = Buffer.from("name,email\nAda,ada@example.com\n");
      await page.getByLabel("Cost file").setInputFiles({ name: "people.csv", mimeType: "text/csv", buffer });
      await refuse(page, "Review file");
    },
  ],
  ["Import costs, review", "books/cost-import", "admin", ofBooks("/import"), upload],
  [
    "Import costs, without a reason",
    "books/cost-import",
    "admin",
    ofBooks("/import"),
    async (scene) => {
      await upload(scene);
      await refuse(scene.page, "Import costs");
    },
  ],
  [
    "Import costs, receipt",
    "books/cost-receipt",
    "admin",
    "/admin/books/import",
    async (scene) => {
      await importCosts(scene, `openai.${crypto.randomUUID().slice(0, 8)}`);
      await scene.page.getByText("Costs imported.").waitFor();
    },
  ],
  ["Invoices of the platform", "books/invoices", "admin", ofBooks("/invoices")],
  ["Invoices of the platform, none", "books/invoices", "admin", "/admin/books/invoices?provider=unknown"],
  ["Enter an invoice of the platform", "books/invoices-new", "admin", "/admin/books/invoices/new"],
  [
    "Enter an invoice of the platform, refused",
    "books/invoices-new",
    "admin",
    "/admin/books/invoices/new",
    ({ page }) => refuse(page, "Review invoice"),
  ],
  [
    "Enter an invoice of the platform, review",
    "books/invoices-new",
    "admin",
    "/admin/books/invoices/new",
    async (scene) => {
      await reviewInvoice(scene);
      await arrive(scene.page, "Review the invoice");
    },
  ],
  [
    "Enter an invoice of the platform, conflict",
    "books/invoices-new",
    "admin",
    ofBooks("/invoices/new"),
    async (scene) => {
      await reviewInvoice(scene, { provider: "openai", accountId: account, reference: "INV-0081" });
      await scene.page.getByText(/^Invoice INV-0081 is already recorded/).waitFor();
    },
  ],
  [
    "An invoice of the platform, recorded",
    "books/invoice",
    "admin",
    "/admin/books/invoices/new",
    async (scene) => {
      await reviewInvoice(scene);
      await scene.page.getByLabel("Reason").fill("The bill of the month");
      await press(scene.page, "Record invoice");
      await scene.page.getByText("Invoice recorded. This is its receipt.").waitFor();
    },
  ],
]);
