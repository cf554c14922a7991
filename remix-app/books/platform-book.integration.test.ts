import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { addRun, dayOf } from "../../supabase/tests/finance/platform-book-fixtures.ts";
import { createGatewayTenant, type GatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { formatDay } from "../http/date-text.ts";
import { shiftMonth } from "../studio/costs/month.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { formOf } from "../testing/form.ts";

const month = shiftMonth(new Date().toISOString().slice(0, 7), -1);
const [first, last] = [dayOf(month, 1), dayOf(month, lengthOf(month))];
const mark = randomUUID().slice(0, 8);
const reason = "The bill of the month";
let admin: ConsoleAdmin;
let stranger: Person;
let tenants: GatewayTenant[];

beforeAll(async () => {
  [admin, stranger, ...tenants] = await Promise.all([
    createConsoleAdmin(),
    createPerson(),
    createGatewayTenant(),
    createGatewayTenant(),
    createGatewayTenant(),
  ]);
  for (const [at, { workspaceId }] of tenants.entries()) {
    await query("update public.workspaces set name = $2 where id = $1", [workspaceId, nameOf(at)]);
  }
}, 60_000);
afterAll(async () => {
  await Promise.all([admin, stranger].map(deletePerson));
  await Promise.all(tenants.map((tenant) => tenant.close()));
});

function lengthOf(of: string): number {
  const [year = 0, number = 1] = of.split("-").map(Number);
  return new Date(Date.UTC(year, number, 0)).getUTCDate();
}

function nameOf(at: number): string {
  return ["Harbour", "Lighthouse", "Meridian"][at] ?? "";
}

/** Adds one run for each cost, on the given day of the month. `tenant` is an index into `tenants`. */
async function meter(provider: string, account: string, costs: [tenant: number, day: number, costUsd: string][]) {
  for (const [at, day, costUsd] of costs) {
    const { db, workspaceId } = tenants[at] as GatewayTenant;
    await addRun(db, { workspaceId, day: dayOf(month, day), costUsd, billedBy: provider, account });
  }
}

/** Imports a file on the import page: uploads it, names the provider and confirms the preview. */
async function importFile(
  { name, text }: { name: string; text: string },
  { provider, fields = {} }: { provider: string; fields?: Record<string, string> },
) {
  const page = "/admin/books/import";
  const upload = new FormData();
  upload.set("upload", new File([text], name));
  const uploaded = await admin.browser.post(page, upload);
  expect(uploaded.status).toBe(200);
  const named = { ...formOf(uploaded.text, page).fields, provider, ...fields };
  const previewed = await admin.browser.post(page, { ...named, step: "preview" });
  expect(previewed.status).toBe(200);
  const confirmed = { ...formOf(previewed.text, page).fields, reason, step: "import" };
  return { previewed, confirmed, done: await admin.browser.post(page, confirmed) };
}

type Invoice = { provider: string; accountId: string; reference: string; netAmount: string } & Record<string, string>;

/** Enters an invoice and confirms its review. */
async function enterInvoice(invoice: Invoice) {
  const page = "/admin/books/invoices/new";
  const typed = { kind: "invoice", issuedOn: last, periodStart: first, periodEnd: last, ...invoice };
  const reviewed = await admin.browser.post(page, typed);
  const { fields } = formOf(reviewed.text, page);
  const confirmed = { ...fields, reason };
  return { reviewed, confirmed, done: await admin.browser.post(page, confirmed) };
}

/** Returns the books' line about a provider, as text. */
async function lineOf(provider: string): Promise<string> {
  const { words } = await admin.browser.get(`/admin/books?month=${month}`);
  const [, line = ""] = words.split(new RegExp(`(?=${provider})`));
  return line;
}

const openAiCosts = (days: [day: number, value: string, project: string][]) => ({
  name: "openai-costs.json",
  text: JSON.stringify({
    object: "page",
    data: days.map(([day, value, project]) => ({
      object: "bucket",
      start_time: Date.parse(`${dayOf(month, day)}T00:00:00Z`) / 1_000,
      end_time: Date.parse(`${dayOf(month, day)}T00:00:00Z`) / 1_000 + 86_400,
      results: [
        {
          object: "organization.costs.result",
          amount: { value: Number(value), currency: "usd" },
          line_item: "gpt-5",
          project_id: project,
        },
      ],
    })),
    has_more: false,
    next_page: null,
  }),
});

const anthropicCosts = (days: [day: number, cents: string, workspace: string][]) => ({
  name: "cost-report.json",
  text: JSON.stringify({
    data: days.map(([day, amount, workspace_id]) => ({
      starting_at: `${dayOf(month, day)}T00:00:00Z`,
      ending_at: new Date(Date.parse(`${dayOf(month, day)}T00:00:00Z`) + 86_400_000).toISOString(),
      results: [{ currency: "USD", amount, workspace_id, description: "Claude usage", cost_type: "tokens" }],
    })),
    has_more: false,
    next_page: null,
  }),
});

const awsCosts = (days: [day: number, amount: string, currency?: string][]) => ({
  name: "cur.csv",
  text: [
    "lineItem/UsageAccountId,lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/ProductCode,lineItem/UnblendedCost,lineItem/CurrencyCode",
    ...days.map(
      ([day, amount, currency = "USD"]) =>
        `123456789012,Usage,${dayOf(month, day)}T00:00:00Z,${dayOf(month, day)}T01:00:00Z,AmazonBedrock,${amount},${currency}`,
    ),
    "",
  ].join("\n"),
});

describe("a month of three providers' bills, imported from files", () => {
  const [openai, anthropic, aws] = ["openai", "anthropic", "aws"].map((name) => `${name}-${mark}`) as [
    string,
    string,
    string,
  ];

  test("a month's costs agree with a corrected invoice", async () => {
    await meter(openai, "proj_1", [
      [0, 3, "40"],
      [1, 4, "30.000000000001"],
      [2, 5, "30"],
    ]);
    const { previewed, done } = await importFile(
      openAiCosts([
        [3, "40", "proj_1"],
        [4, "30.000000000001", "proj_1"],
        [5, "35", "proj_1"],
      ]),
      { provider: openai },
    );
    expect(previewed.words).toContain("Adds the totals of 3 days.");
    expect(done.status).toBe(303);
    const receipt = await admin.browser.get(done.location ?? "");
    expect(receipt.words).toContain("Costs imported.");
    expect(receipt.words).toContain("openai-costs.json");
    // A later file corrects one day and nothing else.
    const corrected = await importFile(openAiCosts([[5, "30", "proj_1"]]), { provider: openai });
    expect(corrected.previewed.words).toContain("Corrects 1 day.");
    expect(corrected.done.status).toBe(303);
    await enterInvoice({ provider: openai, accountId: "proj_1", reference: "INV-1", netAmount: "110" });
    expect(await lineOf(openai)).toContain("Invoice differs");
    const { done: replaced } = await enterInvoice({
      provider: openai,
      accountId: "proj_1",
      reference: "INV-1-R1",
      replaces: "INV-1",
      netAmount: "100.000000000001",
    });
    expect(replaced.status).toBe(303);
    expect(await lineOf(openai)).toMatch(/Matches Nothing to do/);
    const list = await admin.browser.get(`/admin/books/invoices?provider=${openai}`);
    expect(list.words).toContain("replaced by INV-1-R1, doesn’t count");
    const again = { provider: openai, accountId: "proj_1", reference: "INV-1-R2", replaces: "INV-1", netAmount: "9" };
    const second = await enterInvoice(again);
    expect(second.done.status).toBe(400);
    expect(second.done.text).toMatch(/id="replaces-error"/);
  });

  test("a month's costs agree with an invoice reduced by a credit note", async () => {
    await meter(anthropic, "wrkspc_1", [
      [0, 10, "20"],
      [1, 11, "22.5"],
    ]);
    const { done } = await importFile(
      anthropicCosts([
        [10, "2000", "wrkspc_1"],
        [11, "2250", "wrkspc_1"],
      ]),
      { provider: anthropic },
    );
    expect(done.status).toBe(303);
    await enterInvoice({ provider: anthropic, accountId: "wrkspc_1", reference: "A-1", netAmount: "50" });
    const credit = { provider: anthropic, accountId: "wrkspc_1", reference: "A-2", netAmount: "7.5" };
    const { reviewed } = await enterInvoice({ ...credit, kind: "credit_note" });
    expect(reviewed.words).toContain("−$7.50");
    expect(await lineOf(anthropic)).toMatch(/Matches Nothing to do/);
  });

  test("costs agree with one invoice for three months, and with an invoice in another currency at the entered rate", async () => {
    const start = shiftMonth(month, -2);
    const days = [0, 1, 2].reduce((sum, months) => sum + lengthOf(shiftMonth(start, months)), 0);
    // The month costs one dollar for each of its days.
    await meter(aws, "123456789012", [[2, 1, String(lengthOf(month))]]);
    const { previewed, done } = await importFile(awsCosts([[1, String(lengthOf(month) / 2), "EUR"]]), {
      provider: aws,
      fields: { rate_EUR: "2" },
    });
    expect(previewed.words).toContain("EUR");
    expect(done.status).toBe(303);
    expect((await admin.browser.get(done.location ?? "")).words).toContain("1 EUR = $2.00");
    const quarter = { provider: aws, accountId: "123456789012", reference: "Q 3/2026", netAmount: String(days) };
    const { done: recorded } = await enterInvoice({ ...quarter, periodStart: `${start}-01` });
    expect(recorded.status).toBe(303);
    expect(await lineOf(aws)).toMatch(/Matches Nothing to do/);
  });

  test("the CSV files of a month contain the exact figures of the page", async () => {
    const lines = async (path: string) => (await admin.browser.get(path)).text.trim().split("\r\n");
    const of = (rows: string[]) => rows.filter((row) => row.includes(openai));
    const books = of(await lines(`/admin/books.csv?month=${month}`));
    expect(books).toHaveLength(2);
    expect(books[0]).toContain("100.000000000001");
    const costs = await lines(`/admin/books/costs.csv?month=${month}&provider=${openai}`);
    expect(costs).toHaveLength(4);
    expect(costs[0]).not.toContain("app");
    const invoices = await lines(`/admin/books/invoices.csv?provider=${openai}`);
    expect(invoices).toHaveLength(3);
    const [head = "", ...charges] = await lines(`/admin/books.focus.csv?month=${month}`);
    expect(head).toMatch(/^BilledCost,BillingAccountId,/);
    // One line for each of the three days of costs, and one for the invoice that replaced an earlier invoice.
    expect(of(charges)).toHaveLength(4);
    const workspaces = await lines(`/admin/books/${month}/${openai}/workspaces.csv`);
    const days = await lines(`/admin/books/${month}/${openai}/days.csv`);
    expect(days.find((row) => row.startsWith(dayOf(month, 4)))).toBe(
      `${dayOf(month, 4)},proj_1,30.000000000001,30.000000000001,0`,
    );
    expect(workspaces.slice(1).map((row) => row.split(",")[1])).toEqual(
      expect.arrayContaining(["Harbour", "Meridian"]),
    );
  });

  test("records each change to the books in the audit log", async () => {
    const log = await query(
      "select action, target, reason from private.admin_audit_log where actor_id = $1 and target = $2 order by created_at",
      [admin.id, `costs ${openai}`],
    );
    expect(log).toEqual([
      { action: "costs.import", target: `costs ${openai}`, reason },
      { action: "costs.import", target: `costs ${openai}`, reason },
    ]);
    const page = await admin.browser.get("/admin/audit?action=books.");
    expect(page.words).toContain("Recorded an invoice");
  });
});

describe("a provider whose invoice exceeds the metered cost of the month", () => {
  test("the books name the workspace that imported costs for a day on which it had no runs", async () => {
    const provider = `gap-${mark}`;
    await meter(provider, "proj_7", [
      [0, 3, "40"],
      [1, 4, "30"],
      [2, 5, "20"],
    ]);
    // Meridian's own import shows a charge on a day without runs.
    for (const [day, amount] of [
      [5, "20"],
      [12, "10"],
    ] as const) {
      await query(
        `insert into ai.external_provider_costs (
           workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
         )
         values ($1, $2, $3, 'proj_7', $4, 'account_day', $5, $6::timestamp at time zone 'UTC', now())`,
        [tenants[2]?.workspaceId, randomUUID(), provider, randomUUID(), amount, dayOf(month, day)],
      );
    }
    await importFile(
      openAiCosts([
        [3, "40", "proj_7"],
        [4, "30", "proj_7"],
        [5, "20", "proj_7"],
        [12, "10", "proj_7"],
      ]),
      { provider },
    );
    await enterInvoice({ provider, accountId: "proj_7", reference: "ONE-FOR-ALL", netAmount: "100" });
    expect(await lineOf(provider)).toContain("Metering differs");
    const { words, status } = await admin.browser.get(`/admin/books/${month}/${provider}`);
    expect(status).toBe(200);
    const [, causes = ""] = words.split("Likely causes");
    expect(causes).toMatch(
      new RegExp(
        `^.{0,200}On ${formatDay(dayOf(month, 12))}, the costs Meridian imported were \\$10.00 more than its runs cost`,
      ),
    );
    // The workspace's own costs don't count as the platform's.
    expect(words).toContain("$100.00");
    expect(words).not.toContain("$130.00");
  });

  test("without workspace imports, the books name the workspace that had no runs on the day when the provider charged more than was metered", async () => {
    const provider = `quiet-${mark}`;
    await meter(provider, "proj_8", [
      [0, 3, "40"],
      [0, 12, "5"],
      [1, 3, "30"],
    ]);
    await importFile(
      openAiCosts([
        [3, "70", "proj_8"],
        [12, "15", "proj_8"],
      ]),
      { provider },
    );
    await enterInvoice({ provider, accountId: "proj_8", reference: "Q-1", netAmount: "85" });
    const { words } = await admin.browser.get(`/admin/books/${month}/${provider}`);
    expect(words).toContain("The provider charged account proj_8 $10.00 more than was metered.");
    expect(words).toContain(`Lighthouse has no runs on ${formatDay(dayOf(month, 12))}`);
  });
});

describe("refused, concurrent and repeated changes to the books", () => {
  const provider = `guard-${mark}`;

  test("refuses a change to the books without a reason", async () => {
    const { confirmed, done } = await importFile(openAiCosts([[3, "1", "proj_1"]]), {
      provider,
    });
    expect(done.status).toBe(303);
    const newer = await importFile(openAiCosts([[3, "2", "proj_1"]]), { provider, fields: {} });
    expect(newer.done.status).toBe(303);
    for (const reason of ["", " "]) {
      const refused = await admin.browser.post("/admin/books/import", { ...confirmed, reason });
      expect(refused.status).toBe(400);
      expect([...refused.text.matchAll(/id="(\w+)-error" class/g)].map(([, name]) => name)).toEqual(["reason"]);
    }
    const invoice = { provider, accountId: "proj_1", reference: "G-1", netAmount: "1" };
    const { confirmed: entry } = await enterInvoice(invoice);
    const unexplained = { ...entry, reference: "G-9", reason: "" };
    expect((await admin.browser.post("/admin/books/invoices/new", unexplained)).status).toBe(400);
    const kept = await query("select reference from ai.external_provider_invoices where provider = $1", [provider]);
    expect(kept).toEqual([{ reference: "G-1" }]);
  });

  test("answers 409 and changes nothing if the books changed after the preview", async () => {
    const page = "/admin/books/import";
    const upload = new FormData();
    upload.set("upload", new File([openAiCosts([[4, "1", "proj_1"]]).text], "a.json"));
    const { fields } = formOf((await admin.browser.post(page, upload)).text, page);
    const { text } = await admin.browser.post(page, { ...fields, provider, step: "preview" });
    const stale = { ...formOf(text, page).fields, reason, step: "import" };
    await importFile(openAiCosts([[4, "5", "proj_1"]]), { provider });
    const late = await admin.browser.post(page, stale);
    expect(late.status).toBe(409);
    expect(late.words).toContain("nothing was imported");
    const [row] = await query<{ amount: string }>(
      "select trim_scale(amount_usd)::text as amount from ai.external_provider_costs where provider = $1 and occurred_at = $2",
      [provider, `${dayOf(month, 4)}T00:00:00Z`],
    );
    expect(row?.amount).toBe("5");
  });

  test("applies a change to the books only once when two admins confirm it concurrently", async () => {
    const page = "/admin/books/import";
    const upload = new FormData();
    upload.set("upload", new File([openAiCosts([[6, "1", "proj_1"]]).text], "a.json"));
    const { fields } = formOf((await admin.browser.post(page, upload)).text, page);
    const { text } = await admin.browser.post(page, { ...fields, provider, step: "preview" });
    const confirmed = { ...formOf(text, page).fields, reason, step: "import" };
    const answers = await callAtOnce(() => admin.browser.post(page, confirmed), { times: 6 });
    // The other requests find that the books changed, that nothing is left to import, or that two of the admin's files
    // are being read already.
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1);
    expect(answers.every(({ status }) => [200, 303, 409, 429].includes(status))).toBe(true);
    const rows = await query(
      `select from ai.external_provider_costs c join ai.cost_imports i on i.id = c.import_id
       where c.provider = $1 and c.occurred_at = $2 and c.revision = 1`,
      [provider, `${dayOf(month, 6)}T00:00:00Z`],
    );
    expect(rows).toHaveLength(1);
  });

  test("records an invoice only once if it is sent twice, and returns the same receipt", async () => {
    const invoice = { provider, accountId: "proj_1", reference: "G-2", netAmount: "1" };
    const { confirmed, done } = await enterInvoice(invoice);
    const again = await admin.browser.post("/admin/books/invoices/new", confirmed);
    expect([again.status, again.location]).toEqual([303, done.location]);
    const conflict = await admin.browser.post("/admin/books/invoices/new", { ...confirmed, netAmount: "2" });
    expect(conflict.status).toBe(409);
    const receipt = await admin.browser.get(done.location ?? "");
    expect(receipt.words).toContain(admin.email);
    expect(receipt.words).not.toContain("App ");
  });
});

test("only infrastructure admins can open the books", async () => {
  const browser = await enter(stranger);
  const pages = [
    "",
    ".csv",
    ".focus.csv",
    "/import",
    "/costs",
    "/costs.csv",
    "/invoices",
    "/invoices.csv",
    "/invoices/new",
  ];
  for (const page of [
    ...pages,
    `/${month}/openai`,
    `/${month}/openai/workspaces.csv`,
    `/${month}/openai/days.csv`,
    `/imports/${randomUUID()}`,
  ]) {
    expect([page, (await browser.get(`/admin/books${page}`)).status]).toEqual([page, 403]);
  }
});

test("answers 404 for a books path without a valid month or record, and 400 for an invalid month in the query", async () => {
  for (const page of ["/2026-13/openai", `/${month}/unknown-${mark}`, "/invoices/none", `/imports/${randomUUID()}`]) {
    expect([page, (await admin.browser.get(`/admin/books${page}`)).status]).toEqual([page, 404]);
  }
  const other = await admin.browser.get("/admin/books?month=never");
  expect([other.status, other.words.includes("The month in the URL isn’t valid.")]).toEqual([400, true]);
  expect((await admin.browser.get("/admin/books.csv?month=never")).status).toBe(400);
});

test("the preview of a file with two accounts counts days once", async () => {
  const costs = openAiCosts([
    [3, "1", "proj_1"],
    [3, "2", "proj_2"],
  ]);
  const { previewed } = await importFile(costs, { provider: `two-${mark}` });
  expect(previewed.words).toContain("1 day in 2 accounts.");
  expect(previewed.words).toContain("Adds 2 daily totals.");
});
