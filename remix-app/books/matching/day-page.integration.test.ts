import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../../scripts/test/console-admin.ts";
import { vaultSettings } from "../../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";
import { type Browser, openBrowser } from "../../testing/browser.ts";
import { startReportServer } from "../../testing/cost-report-server.ts";
import { openAiHourPage } from "../../testing/usage-pages.ts";
import { startWeb, type WebProcess } from "../../testing/web-process.ts";

/** A day that no other test uses, and the page about it. */
const day = `2013-${String(1 + Math.floor(Math.random() * 12)).padStart(2, "0")}-${10 + Math.floor(Math.random() * 18)}`;
const page = `/admin/books/${day.slice(0, 7)}/openai/${day}`;
const keyId = `key_${randomUUID()}`;
let server: Awaited<ReturnType<typeof startReportServer>>;
let web: WebProcess;
let finance: ConsoleAdmin;
let stranger: Person;
let tenant: GatewayTenant;
let browser: Browser;
let runIds: Record<"before" | "first" | "second" | "after", string>;

beforeAll(async () => {
  server = await startReportServer();
  const { supabase } = readStack();
  [web, finance, stranger, tenant] = await Promise.all([
    startWeb(supabase.url, {
      env: {
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        ...vaultSettings(),
        OPENAI_ADMIN_KEY: "sk-admin-secret",
        OPENAI_BASE_URL: server.baseUrl,
      },
    }),
    createConsoleAdmin({ role: "finance" }),
    createPerson(),
    createGatewayTenant(),
  ]);
  browser = openBrowser(web.base, { cookie: finance.browser.cookie() });
  const call = async (at: string, model = "gpt-4o") => {
    const id = randomUUID();
    await query(
      `insert into ai.runs (
         id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
         markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, settled_at, input_tokens, output_tokens
       )
       values ($1, $2, $3, 'key', 'interactive', 'chat', $1::uuid::text, 'ours', $4, 1, 1, 'succeeded', 'provider',
         0.25, 0, 0, now(), 1000, 50)`,
      [id, `${day}T${at}Z`, tenant.workspaceId, JSON.stringify([{ position: 1, provider: "openai", model }])],
    );
    return id;
  };
  runIds = {
    before: await call("13:59:59"),
    first: await call("14:00:00"),
    second: await call("14:59:59"),
    after: await call("15:00:00"),
  };
  await call("14:30:00", "gpt-4o-mini");
}, 60_000);
afterAll(async () => {
  server.close();
  await web.stop();
  await query("delete from ai.usage_days where provider = 'openai' and day = $1", [day]);
  await query("delete from ai.gateway_provider_keys where key_id = $1", [keyId]);
  await query("delete from ai.runs where workspace_id = $1", [tenant.workspaceId]);
  await Promise.all([finance, stranger].map(deletePerson));
  await tenant.close();
});

const used = (model: string, requests: number, { key = keyId, output_tokens = 50 * requests } = {}) => ({
  ...{ object: "organization.usage.completions.result", api_key_id: key, model, num_model_requests: requests },
  ...{ input_tokens: 1_000 * requests, input_cached_tokens: 0, output_tokens },
});
const hours = {
  13: [used("gpt-4o-2024-08-06", 1)],
  14: [
    used("gpt-4o-2024-08-06", 2, { output_tokens: 900 }),
    used("gpt-4o-mini-2024-07-18", 1),
    used("gpt-4o-mini-2024-07-18", 3, { key: "key_of_others" }),
    used("gpt-9", 1),
  ],
  15: [used("gpt-4o-2024-08-06", 1)],
};

test("a finance person asks OpenAI, and finds exactly the calls of the hour that differs", async () => {
  const before = await browser.get(page);
  expect([before.status, server.requests]).toEqual([200, []]);
  expect(before.words).toContain("OpenAI hasn’t been asked about this day.");

  server.answers = [openAiHourPage(day, hours, { to: 20 })];
  const failed = await browser.post(page, {});
  expect(failed.status).toBe(503);
  expect(failed.words).toContain("OpenAI answered 20 of the day’s 24 hours. Ask again later. Nothing was changed.");
  expect((await browser.get(page)).words).toContain("OpenAI hasn’t been asked about this day.");

  server.answers = [openAiHourPage(day, hours), openAiHourPage(day, {})];
  const done = await browser.post(page, {});
  expect([done.status, done.location?.endsWith(page)]).toEqual([303, true]);
  const marked = await browser.post(page, { keyId, marked: "true" });
  expect(marked.status).toBe(303);

  const { text, words } = await browser.get(page);
  expect(words).toContain("14:00–15:00 UTC gpt-4o");
  expect(words).not.toMatch(/13:00–14:00 UTC|15:00–16:00 UTC/);
  expect(words).toContain("+800");
  const listed = Object.entries(runIds).flatMap(([name, id]) => (text.includes(id) ? [name] : []));
  expect(listed).toEqual(["first", "second"]);
  expect(words).toContain("Models without calls");
  expect(words).toContain("key_of_others Input tokens 3,000 Output tokens 150 Use Not through the gateway");
  const all = await browser.get(`${page}?show=all`);
  expect(all.words).toMatch(/13:00–14:00 UTC gpt-4o .* 14:00–15:00 UTC gpt-4o-mini .* 15:00–16:00 UTC gpt-4o/);
  const after = await browser.get(`${page}?show=all&hour=15&model=gpt-4o`);
  expect(Object.entries(runIds).flatMap(([name, id]) => (after.text.includes(id) ? [name] : []))).toEqual(["after"]);
  expect((await browser.get(`${page}?skip=50`)).words).not.toMatch(/51 to/);
  const file = await browser.get(`${page}/hours.csv`);
  expect(file.text.split("\r\n")[1]).toMatch(new RegExp(`^${day}T13:00:00.000Z,gpt-4o,1,1,1,1000,1000,0,0,0,0,50,50,`));
});

test("a day with 2,000 calls, 30 keys and models without calls stays below 100 KB", async () => {
  await query(
    `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, settled_at, input_tokens, output_tokens
     )
     select gen_random_uuid(), $1::timestamptz + interval '43 seconds' * case when n < 100 then 0 else n end, $2, 'key', 'interactive', 'chat', 'many', 'ours',
       jsonb_build_array(jsonb_build_object('position', 1, 'provider', 'openai', 'model', 'gpt-5-' || case when n < 100 then 0 else n % 5 end)), 1, 1,
       'succeeded', 'provider', 0.25, 0, 0, now(), 1000, 50
     from generate_series(0, 1999) n`,
    [`${day}T00:00:00Z`, tenant.workspaceId],
  );
  await query(
    `insert into ai.usage_hours (
       provider, day, hour, key_id, model, requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens
     )
     select 'openai', $1::date, $1::timestamptz + n * interval '1 hour', 'key_' || repeat('x', 24) || k,
       case when m < 5 then 'gpt-5-' || m || '-2025-08-07' else 'text-embedding-3-large-' || m end, 1234, 1234567, 1000000, 12345, 98765
     from generate_series(0, 23) n, generate_series(1, 30) k, generate_series(0, 6) m`,
    [`${day}T00:00:00Z`],
  );
  const { text, words } = await browser.get(page);
  expect(words).toMatch(/The first 15 of 1\d\d lines are shown\..* 1 to 50 of .* The first 15 of \d+ keys are shown\./);
  expect(text.length).toBeLessThan(100_000);
});

test("others can neither open the page nor ask", async () => {
  const visitor = openBrowser(web.base, { cookie: (await enter(stranger)).cookie() });
  server.requests = [];
  const statuses = [(await visitor.get(page)).status, (await visitor.post(page, {})).status];
  expect([statuses, server.requests]).toEqual([[403, 403], []]);
});

test.each([
  ["a provider whose days can’t be compared", page.replace("openai", "gcp")],
  ["a day of another month", page.replace(day.slice(0, 7), "2014-01")],
  ["no day", page.replace(/\d\d$/, "31x")],
])("answers 404 for %s", async (_, path) => {
  expect((await browser.get(path)).status).toBe(404);
});
