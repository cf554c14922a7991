import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readBlocks } from "../../../scripts/docs/blocks.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../../scripts/test/people.ts";
import { monthText } from "../../http/date-text.ts";
import { shiftMonth } from "../../studio/costs/month.ts";
import { formOf } from "../../testing/form.ts";

const provider = `s-${randomUUID().slice(0, 8)}`;
let admin: ConsoleAdmin;
let stranger: Person;
/** A month that no other test closes, because statements can't be deleted. */
let month: string;
let closePage: string;

beforeAll(async () => {
  [admin, stranger] = await Promise.all([createConsoleAdmin(), createPerson()]);
  month = await freeMonth("2013-01-01", "2018-12-01");
  closePage = `/admin/books/close?month=${month}`;
  await addCost("02", "12.345678901234");
});
afterAll(() => Promise.all([admin, stranger].map(deletePerson)));

/** Returns a month that is not closed. */
async function freeMonth(first: string, last: string): Promise<string> {
  const [free] = await query<{ month: string }>(
    `select to_char(m, 'YYYY-MM') as month from generate_series($1::timestamp, $2, '1 month') m
     where not exists (select from ai.book_statements s where s.month = m) order by random() limit 1`,
    [first, last],
  );
  return free?.month ?? "";
}

async function addCost(day: string, amountUsd: string) {
  await query(
    `insert into ai.external_provider_costs (
       workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
     )
     values (ai.platform_book(), ai.platform_book(), $1, 'acct ü', $2, 'account_day', $3, $4::timestamp at time zone 'UTC', now())`,
    [provider, randomUUID(), amountUsd, `${month}-${day}`],
  );
}

/** Opens the checklist and closes the month with a reason for each open point. */
async function closeMonth(reason: string) {
  const { fields } = formOf((await admin.browser.get(closePage)).text, closePage);
  const reasons = Object.keys(fields).filter((name) => name.startsWith("reason_"));
  return admin.browser.post(closePage, { ...fields, ...Object.fromEntries(reasons.map((name) => [name, reason])) });
}

async function enterInvoice(reference: string) {
  const page = "/admin/books/invoices/new";
  const invoice = {
    kind: "invoice",
    provider,
    accountId: "acct ü",
    reference,
    netAmount: "5",
    issuedOn: `${month}-20`,
  };
  const reviewed = await admin.browser.post(page, invoice);
  if (reviewed.status !== 200) return reviewed;
  const { fields } = formOf(reviewed.text, page);
  return admin.browser.post(page, { ...fields, reason: "The bill" });
}

function uploadFile() {
  const upload = new FormData();
  const text = `{"object":"page","data":[{"object":"bucket","start_time":${Date.parse(`${month}-05`) / 1000},"end_time":${Date.parse(`${month}-06`) / 1000},"results":[{"object":"organization.costs.result","amount":{"value":"1","currency":"usd"},"line_item":"gpt-5","project_id":"proj_1"}]}],"has_more":false,"next_page":null}`;
  upload.set("upload", new File([text], "costs.json"));
  return admin.browser.post("/admin/books/import", upload);
}

/** Runs the script of the documentation on a statement's JSON. @returns its exit code and output */
async function verify(json: string): Promise<{ code: number; output: string }> {
  const { blocks } = readBlocks("costs.md", await readFile("docs/costs.md", "utf8"));
  const script = blocks.find(({ text }) => text.includes("verify-statement.mjs"))?.text ?? "";
  const folder = await mkdtemp(path.join(tmpdir(), "statement-"));
  try {
    await writeFile(path.join(folder, "verify-statement.mjs"), script);
    await writeFile(path.join(folder, "statement.json"), json);
    const run = promisify(execFile)(process.execPath, ["verify-statement.mjs", "statement.json"], { cwd: folder });
    return await run.then(
      ({ stdout }) => ({ code: 0, output: stdout.trim() }),
      ({ code, stdout }) => ({ code, output: String(stdout).trim() }),
    );
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("only those who may use the books close a month or read a statement", async () => {
  const browser = await enter(stranger);
  for (const page of [closePage, `/admin/books/statements/${randomUUID()}`]) {
    expect((await browser.get(page)).status).toBe(403);
  }
  expect((await admin.browser.get(`/admin/books/statements/${randomUUID()}`)).status).toBe(404);
  expect((await admin.browser.get("/admin/books/statements/x")).status).toBe(404);
});

test("the current month can't be closed", async () => {
  const current = new Date().toISOString().slice(0, 7);
  const page = `/admin/books/close?month=${current}`;
  expect((await admin.browser.get(page)).words).toContain("hasn’t ended");
  expect((await admin.browser.post(page, { state: "" })).status).toBe(400);
});

test("a month is closed, refuses changes, shows what came later, and is reopened and closed again", async () => {
  const shown = await admin.browser.get(closePage);
  expect(shown.words).toContain("Invoice missing");
  const missing = await admin.browser.post(closePage, formOf(shown.text, closePage).fields);
  expect(missing.status).toBe(400);
  expect(missing.words).toContain("Enter a reason");

  await addCost("03", "1");
  const stale = await admin.browser.post(closePage, {
    ...formOf(shown.text, closePage).fields,
    reason_0: "Not issued yet",
  });
  expect(stale.status).toBe(409);
  expect(stale.words).toContain("records changed after you opened this page");
  expect(stale.text).toContain('value="Not issued yet"');

  const closed = await closeMonth("Agreed with finance");
  expect(closed.status).toBe(303);
  const page = closed.location ?? "";
  // A second click leads to the same statement.
  expect((await admin.browser.get(closePage)).location).toBe(page);
  const statement = await admin.browser.get(page);
  for (const text of [
    `Statement of ${monthText(month)}`,
    admin.email,
    provider,
    "Agreed with finance",
    "the same as at the close",
  ]) {
    expect(statement.words).toContain(text);
  }
  expect((await admin.browser.get("/admin/books")).text).toContain(page);

  const { text: json } = await admin.browser.get(`${page}/statement.json`);
  expect(await verify(json)).toEqual({ code: 0, output: "The records match the statement." });
  expect(await verify(json.replace("12.345678901234", "12.345678901235"))).toMatchObject({ code: 1 });
  const { text: csv } = await admin.browser.get(`${page}/statement.csv`);
  expect(csv).toContain(`figures,${provider},acct ü,0,13.345678901234,0,0,2,0,,,`);
  expect(csv).toContain(
    `exception,${provider},,0,13.345678901234,0,,,,invoice_missing,13.345678901234,Agreed with finance`,
  );

  const refused = await enterInvoice("INV-1");
  expect(refused.status).toBe(409);
  expect(refused.words).toContain(`${monthText(month)} is closed. Reopen it`);
  expect(refused.text).toContain('value="INV-1"');
  const uploaded = await uploadFile();
  const { fields } = formOf(uploaded.text, "/admin/books/import");
  const confirmed = { ...fields, reason: "The bill", step: "import" };
  for (const answer of [uploaded, await admin.browser.post("/admin/books/import", confirmed)]) {
    expect(answer.status).toBe(409);
    expect(answer.words).toContain(`${monthText(month)} is closed. Reopen it`);
  }

  await addCost("04", "0.5");
  const later = await admin.browser.get(page);
  expect(later.words).toMatch(/After the close .*since the close/);
  expect(later.words).toContain("$0.50");

  expect((await admin.browser.post(page, { reason: "" })).status).toBe(400);
  expect((await admin.browser.post(page, { reason: "An invoice was found" })).status).toBe(303);
  expect((await admin.browser.get(page)).words).toContain("An invoice was found");
  expect((await admin.browser.get(closePage)).text).toContain('value="Agreed with finance"');
  expect((await enterInvoice("INV-1")).status).toBe(303);
  const again = await closeMonth("Tax");
  expect(again.status).toBe(303);
  expect((await admin.browser.get(again.location ?? "")).words).toMatch(/Version 2/);
  const log = await query("select action, reason from private.admin_audit_log where target = $1 order by created_at", [
    `platform month ${month}`,
  ]);
  expect(log.map(({ action }) => action)).toEqual(["books.close_month", "books.reopen_month", "books.close_month"]);
  expect(log[1]?.reason).toBe("An invoice was found");
  // The next month is still open.
  expect((await admin.browser.get(`/admin/books/close?month=${shiftMonth(month, 1)}`)).status).toBe(200);
});

test("a month with 220 open points is closed with a reason for each kind, on pages of less than 100 kB", async () => {
  const many = await freeMonth("2019-01-01", "2020-12-01");
  const [costs, invoices] = ["external_provider_costs", "external_provider_invoices"];
  const names = "select $1 || '-' || n as provider from generate_series(1, 110) n";
  await query(
    `insert into ai.${costs} (
       workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
     )
     select ai.platform_book(), ai.platform_book(), p.provider, 'a', p.provider, 'account_day', 2, $2::timestamp at time zone 'UTC', now()
     from (${names}) p`,
    [provider, `${many}-01`],
  );
  await query(
    `insert into ai.${invoices} (
       workspace_id, app_id, provider, account_id, reference, kind, amount_usd, issued_on, reviewed_at
     )
     select ai.platform_book(), ai.platform_book(), p.provider, 'a', p.provider, 'invoice', 3, $2, now()
     from (${names}) p`,
    [provider, `${many}-01`],
  );
  const page = `/admin/books/close?month=${many}`;
  const shown = await admin.browser.get(page);
  expect(shown.text.length).toBeLessThan(100_000);
  expect(shown.words).toMatch(/110 providers ?: Not metered .*110 providers ?: Invoice differs/);
  const { fields } = formOf(shown.text, page);
  const missing = await admin.browser.post(page, { ...fields, reason_0: "Used elsewhere" });
  expect([missing.status, missing.words]).toEqual([400, expect.stringContaining("Enter a reason for Invoice differs")]);
  const closed = await admin.browser.post(page, { ...fields, reason_0: "Used elsewhere", reason_1: "Fees" });
  expect(closed.status).toBe(303);
  const statement = await admin.browser.get(closed.location ?? "");
  expect(statement.text.length).toBeLessThan(100_000);
  for (const text of ["110 providers", "$220.00", "$110.00", "220 exceptions by provider", "Fees"]) {
    expect(statement.words).toContain(text);
  }
  const { text: csv } = await admin.browser.get(`${closed.location}/statement.csv`);
  expect(csv).toContain(`exception,${provider}-110,,0,2,3,,,,invoice_differs,1,Fees`);
  expect(csv.match(/^exception,/gm)).toHaveLength(220);
});

test("statements are listed page by page, and a month that is on a later page is closed", async () => {
  const listed = new Set<string>();
  const read = async (path: string) => {
    const { text } = await admin.browser.get(path);
    for (const [, id = ""] of text.matchAll(/books\/statements\/([\w-]+)"/g)) listed.add(id);
    return /\?[^"]*statements=[^"#]*#closed-months/.exec(text)?.[0]?.replaceAll("&amp;", "&");
  };
  // Other tests reopen January 2000.
  await query(
    `insert into ai.book_statements (book_id, month, version, closed_by, figures, exceptions, records, sha256)
     select ai.platform_book(), m, 1, $1, '[]', '[]', '', sha256('')
     from generate_series('2000-01-01'::timestamp, '2001-02-01', '1 month') m
     on conflict do nothing`,
    [admin.id],
  );
  const all = await query<{ id: string }>("select id from ai.book_statements", []);
  expect(all.length).toBeGreaterThan(12);
  let next = await read("/admin/books?month=2000-02");
  expect((await admin.browser.get("/admin/books?month=2000-02")).text).toMatch(/close\?month=2000-02"[^>]*>Statement</);
  for (let pages = 1; next !== undefined && pages < 60; pages += 1) next = await read(`/admin/books${next}`);
  expect([...listed]).toEqual(expect.arrayContaining(all.map(({ id }) => id)));
});
