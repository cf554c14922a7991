import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createConsoleAdmin } from "../../../scripts/test/console-admin.ts";
import { mailEnv } from "../../../scripts/test/mail-env.ts";
import { createPerson, deletePerson } from "../../../scripts/test/people.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { platformBookId } from "../../studio/costs/platform-book.ts";
import { openAiPage, startReportServer } from "../../testing/cost-report-server.ts";
import { readCostImporters, requestCostImport } from "./cost-importers.ts";
import type { CostProvider } from "./cost-provider.ts";
import { importReport } from "./import-report.ts";
import { openAi } from "./openai.ts";
import { addDays, incompleteDay } from "./read-report.ts";

const { db, close } = openPool(1);
let server: Awaited<ReturnType<typeof startReportServer>>;
/** A provider of each test's own, with OpenAI's format. The first import has five days. */
let provider: CostProvider;
const today = incompleteDay(new Date());
const ago = (days: number) => addDays(today, -days);
beforeAll(async () => {
  server = await startReportServer();
});
afterAll(async () => {
  server.close();
  await close();
});
beforeEach(() => {
  provider = { ...openAi, id: `openai.${randomUUID().slice(0, 8)}`, firstDays: 5 };
  server.requests = [];
  server.date = new Date(Date.parse(today) + 12 * 3_600_000);
});

/** Sets the server's report: the amounts of yesterday, of the day before, and so on. Earlier days have no costs. */
function report(amounts: string[], { to = 1 } = {}): void {
  const days = Array.from({ length: 60 }, (_, n) => 60 - n).filter((n) => n >= to);
  server.answers = [openAiPage(days.map((n) => [ago(n), amounts[n - 1] ?? ""]))];
}

/** Runs an import as one of several servers. Without `isDue`, only if an attempt is due. */
async function runImport({ isDue = true } = {}): Promise<void> {
  if (isDue) await db.query("update ai.cost_importers set next_attempt_at = now() where provider = $1", [provider.id]);
  const source = { provider, key: "sk-admin-secret", baseUrl: server.baseUrl };
  const context = { env: { ...mailEnv }, signal: new AbortController().signal, pageTimeoutMs: 1_000 };
  await importReport(source, context);
}

const stored = async () => {
  const rows = await db.query<{ day: string; account: string; usd: string; revision: number; id: string }>(
    `select (occurred_at at time zone 'UTC')::date::text as day, account_id as account, trim_scale(amount_usd)::text as usd,
       revision, external_run_id as id
     from ai.external_provider_costs where workspace_id = $1 and provider = $2 and service is null
     order by account_id, occurred_at`,
    [platformBookId, provider.id],
  );
  return rows.map(({ day, account, usd, revision, id }) => {
    expect(id).toBe(`${provider.id}-costs:${account}:${day}`);
    return `${account} ${day}: ${usd} (${revision})`;
  });
};
const state = async () => {
  const rows = await db.query(
    `select last_complete_day::text as day, failures, last_error as error, lease,
       round(extract(epoch from next_attempt_at - now()) / 60)::integer as minutes
     from ai.cost_importers where provider = $1`,
    [provider.id],
  );
  return rows[0];
};

test("of many servers that import at once, one imports each day once, as the system", async () => {
  report(["1", "2.5,0.13080438340307526", "", "4", "5"]);
  await Promise.all(Array.from({ length: 12 }, () => runImport({ isDue: false })));
  expect(await stored()).toEqual([
    `proj_1 ${ago(5)}: 5 (1)`,
    `proj_1 ${ago(4)}: 4 (1)`,
    `proj_1 ${ago(2)}: 2.630804383403 (1)`,
    `proj_1 ${ago(1)}: 1 (1)`,
  ]);
  expect(server.requests).toHaveLength(1);
  expect(await state()).toEqual({ day: ago(1), failures: 0, error: null, lease: null, minutes: 360 });
  const audit = await db.query(
    "select actor_id, action, request_id, after ->> 'added' as added from private.admin_audit_log where target = $1",
    [`costs ${provider.id}`],
  );
  expect(audit).toEqual([{ actor_id: null, action: "costs.import_automatically", request_id: null, added: "4" }]);
  await runImport();
  expect(await stored()).toEqual(expect.arrayContaining([`proj_1 ${ago(1)}: 1 (1)`]));
  expect(
    await db.query("select from private.admin_audit_log where target = $1", [`costs ${provider.id}`]),
  ).toHaveLength(1);
});

test("servers that take turns leave no gap and import no day twice", async () => {
  report(["1", "2", "3", "4", "5"], { to: 4 });
  for (const to of [4, 3, 2, 1]) {
    report(["1", "2", "3", "4", "5"], { to });
    await Promise.all([runImport(), runImport()]);
    expect(await state()).toMatchObject({ day: ago(to), lease: null });
  }
  expect(await stored()).toEqual([5, 4, 3, 2, 1].map((n) => `proj_1 ${ago(n)}: ${n} (1)`));
});

test("corrects the last seven days, and sets a day that no longer has a cost to 0", async () => {
  provider = { ...provider, firstDays: 9 };
  report(["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
  await runImport({ isDue: false });
  // A file with the same account, and one whose account the report doesn't know.
  const file = {
    provider: provider.id,
    format: "openai-costs",
    fileName: "costs.json",
    sha256: "ab".repeat(32),
    timeZone: "UTC",
    days: [
      { accountId: "proj_1", day: ago(2), amounts: [{ currency: "USD", amount: "20" }] },
      { accountId: "proj_1", day: ago(3), amounts: [{ currency: "USD", amount: "30" }] },
      { accountId: "Project One", day: ago(3), amounts: [{ currency: "USD", amount: "3" }] },
    ],
  };
  await db.query("select private.import_costs_as_operator(null, null, $1)", [JSON.stringify(file)]);
  report(["", "2", "", "4", "5", "6", "7", "80", "90"]);
  await runImport();
  expect(await stored()).toEqual([
    `Project One ${ago(3)}: 3 (1)`,
    ...[9, 8, 7, 6, 5, 4].map((n) => `proj_1 ${ago(n)}: ${n} (1)`),
    `proj_1 ${ago(3)}: 0 (3)`,
    `proj_1 ${ago(2)}: 2 (3)`,
    `proj_1 ${ago(1)}: 0 (2)`,
  ]);
  report(["1"]);
  await runImport();
  expect((await stored()).at(-1)).toBe(`proj_1 ${ago(1)}: 1 (3)`);
});

test("sets days to 0 if the provider reports no cost at all any more", async () => {
  report(["1", "2"]);
  await runImport({ isDue: false });
  report([]);
  await runImport();
  expect(await stored()).toEqual([`proj_1 ${ago(2)}: 0 (2)`, `proj_1 ${ago(1)}: 0 (2)`]);
  expect(await state()).toMatchObject({ day: ago(1), failures: 0, error: null });
});

test("a late day waits for an hour, and counts as no failure", async () => {
  report(["1", "2", "3"], { to: 2 });
  await runImport({ isDue: false });
  const error = `OpenAI has not answered ${ago(1)} yet. It is asked again in an hour.`;
  expect(await state()).toEqual({ day: ago(2), failures: 0, error, lease: null, minutes: 60 });
  server.date = new Date(Date.parse(ago(1)) + 3_600_000);
  report(["1", "2", "3"]);
  await runImport();
  expect(await state()).toMatchObject({ day: ago(2), error });
});

test("failures keep the last complete day, and wait longer each time", async () => {
  report(["1", "2"]);
  await runImport({ isDue: false });
  const before = await stored();
  server.answers = [{ status: 503 }];
  for (const [n, minutes] of [1, 2, 4, 8].entries()) {
    await runImport();
    expect(await state()).toMatchObject({ day: ago(1), failures: n + 1, minutes, lease: null });
  }
  await runImport({ isDue: false });
  expect(server.requests).toHaveLength(5);
  await db.query("update ai.cost_importers set failures = 1000 where provider = $1", [provider.id]);
  await runImport();
  expect(await state()).toMatchObject({ failures: 1001, minutes: 360 });
  server.answers = [{ status: 429, headers: { "retry-after": "36000" } }];
  await runImport();
  expect(await state()).toMatchObject({
    failures: 1002,
    minutes: 600,
    error: expect.stringContaining("(429, request req_1)"),
  });
  server.answers = [openAiPage([[ago(1), "1e99"]])];
  await runImport();
  expect((await state())?.error).not.toBeNull();
  expect(await stored()).toEqual(before);
  report(["1", "2"]);
  await runImport();
  expect(await state()).toMatchObject({ day: ago(1), failures: 0, error: null });
});

test("an amount that can't be stored, and a report that a server no longer holds, change nothing", async () => {
  report(["999999999999999", "2"]);
  await runImport({ isDue: false });
  expect(await state()).toMatchObject({
    day: null,
    error: "OpenAI states costs that can’t be stored. Import them from a file.",
  });
  const claim = async () => {
    await db.query("update ai.cost_importers set next_attempt_at = now() where provider = $1", [provider.id]);
    const [row] = await db.query<{ claim: { lease: string } | null }>("select private.claim_cost_import($1) as claim", [
      provider.id,
    ]);
    return row?.claim?.lease;
  };
  const crashed = await claim();
  expect(await claim()).toBeUndefined();
  await db.query("update ai.cost_importers set leased_until = now() where provider = $1", [provider.id]);
  report(["1"]);
  await runImport();
  const document = JSON.stringify({ format: `${provider.id}-api`, days: [] });
  expect(
    await db.query("select private.store_imported_costs($1, $2, $3, $3, $4) ->> 'outcome' as outcome", [
      provider.id,
      crashed,
      ago(1),
      document,
    ]),
  ).toEqual([{ outcome: "lost" }]);
  await db.query("select private.finish_cost_import($1, $2, 'late')", [provider.id, crashed]);
  expect(await state()).toMatchObject({ day: ago(1), failures: 0, error: null });
  expect(await stored()).toEqual([`proj_1 ${ago(1)}: 1 (1)`]);
});

/** Returns the days that the console shows as missed. */
async function missedDays() {
  const [row] = await db.query<{ missed: unknown }>(
    "select s -> 'missed' as missed from jsonb_array_elements(private.read_cost_importers()) s where s ->> 'provider' = $1",
    [provider.id],
  );
  return row?.missed;
}

/** Lets the importer miss the days after a day. */
async function missDaysAfter(day: string) {
  await db.query("update ai.cost_importers set last_complete_day = $2 where provider = $1", [provider.id, day]);
  await runImport();
}

test("continues after days that the provider no longer reports, and names them until a file has them", async () => {
  provider = { ...provider, maxDays: 3 };
  report(["1"]);
  await runImport({ isDue: false });
  await missDaysAfter(ago(6));
  expect(await missedDays()).toEqual([{ from: ago(5), to: ago(4) }]);
  // A second gap does not hide the first.
  await missDaysAfter(ago(9));
  await missDaysAfter(ago(5));
  expect(await missedDays()).toEqual([{ from: ago(8), to: ago(4) }]);
  const days = [7, 6, 4].map((n) => ({ accountId: "a", day: ago(n), amounts: [{ currency: "USD", amount: "1" }] }));
  const file = {
    provider: provider.id,
    format: "focus",
    fileName: "focus.csv",
    sha256: "ab".repeat(32),
    timeZone: "UTC",
    days,
  };
  await db.query("select private.import_costs_as_operator(null, null, $1)", [JSON.stringify(file)]);
  expect(await missedDays()).toEqual([
    { from: ago(8), to: ago(8) },
    { from: ago(5), to: ago(5) },
  ]);
});

test("an admin confirms that missed days had no costs, which the audit log records; others may not", async () => {
  provider = { ...provider, maxDays: 3 };
  report(["1"]);
  await runImport({ isDue: false });
  await missDaysAfter(ago(9));
  const [admin, stranger] = await Promise.all([createConsoleAdmin(), createPerson()]);
  const confirm = async (actor: string) => {
    const change = {
      provider: provider.id,
      actor,
      lastDay: ago(6),
      reason: "test",
      requestId: "request-1",
      ip: "192.0.2.1",
    };
    const sql = "select private.confirm_missed_days($1) as answer";
    return (await db.query<{ answer: unknown }>(sql, [JSON.stringify(change)]))[0]?.answer;
  };
  expect(await confirm(stranger.id)).toEqual({ refused: "forbidden" });
  expect(await missedDays()).toEqual([{ from: ago(8), to: ago(4) }]);
  // A later day, which was not shown, stays.
  expect(await confirm(admin.id)).toEqual({});
  expect(await confirm(admin.id)).toEqual({});
  expect(await missedDays()).toEqual([{ from: ago(5), to: ago(4) }]);
  const log = await db.query(
    "select actor_id from private.admin_audit_log where target = $1 and action = 'costs.confirm_missed_days'",
    [`costs ${provider.id}`],
  );
  expect(log).toEqual([{ actor_id: admin.id }]);
  await Promise.all([admin, stranger].map(deletePerson));
});

test("an admin makes the next attempt due, which the audit log records; others may not", async () => {
  report(["1"]);
  await runImport({ isDue: false });
  const [admin, stranger] = await Promise.all([createConsoleAdmin(), createPerson()]);
  const request = async (actor: string) => {
    const change = { provider: provider.id, actor, reason: "Import now", requestId: "request-1", ip: "192.0.2.1" };
    const [row] = await db.query<{ answer: unknown }>("select private.request_cost_import($1) as answer", [
      JSON.stringify(change),
    ]);
    return row?.answer;
  };
  expect(await request(stranger.id)).toEqual({ refused: "forbidden" });
  expect(await state()).toMatchObject({ minutes: 360 });
  expect(await request(admin.id)).toEqual({});
  expect(await state()).toMatchObject({ minutes: 0 });
  const audit = await db.query(
    "select actor_id, request_id from private.admin_audit_log where target = $1 and action = 'costs.request_import'",
    [`costs ${provider.id}`],
  );
  expect(audit).toEqual([{ actor_id: admin.id, request_id: "request-1" }]);
  await runImport({ isDue: false });
  expect(await state()).toMatchObject({ minutes: 360 });
  // A request during an attempt is due after it.
  await db.query("update ai.cost_importers set next_attempt_at = now() where provider = $1", [provider.id]);
  const [claimed] = await db.query<{ lease: string }>("select private.claim_cost_import($1) ->> 'lease' as lease", [
    provider.id,
  ]);
  await request(admin.id);
  await db.query("select private.finish_cost_import($1, $2)", [provider.id, claimed?.lease]);
  expect(await state()).toMatchObject({ lease: null, minutes: 0 });
  await Promise.all([admin, stranger].map(deletePerson));
});

test("the page offers imports from providers whose key is set, and names the setting of the others", async () => {
  const admin = await createConsoleAdmin();
  const { words } = await admin.browser.get("/admin/books");
  expect(words).toContain("Automatic imports");
  expect(words).toContain("Not configured. Set ANTHROPIC_ADMIN_KEY on the web servers.");
  const refused = await admin.browser.post("/admin/books/automatic-imports", { provider: "anthropic" });
  expect(refused.status).toBe(400);
  const context = {
    env: { ...mailEnv, OPENAI_ADMIN_KEY: "sk-admin-secret" },
    requestId: "request-2",
    clientAddress: "192.0.2.1",
  };
  await requestCostImport(context, { provider: "openai", actor: admin.id });
  const importers = await readCostImporters(context);
  expect(importers.map(({ provider: id, isConfigured }) => [id, isConfigured])).toEqual([
    ["openai", true],
    ["anthropic", false],
    ["openrouter", false],
  ]);
  expect(JSON.stringify(importers)).not.toContain("secret");
  // An attempt that no server begins is late after a quarter of an hour.
  for (const [minutes, isOverdue] of [
    [14, false],
    [16, true],
  ] as const) {
    await db.query(
      `update ai.cost_importers set next_attempt_at = now() - interval '1 minute' * $1::integer, lease = null,
         leased_until = null
       where provider = 'openai'`,
      [minutes],
    );
    expect((await readCostImporters(context))[0]?.state).toMatchObject({ isOverdue });
  }
  await deletePerson(admin);
});
