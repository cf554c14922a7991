import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { join } from "../../supabase/tests/database.ts";
import { createGatewayTenant, type GatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { formatDay } from "../http/date-text.ts";
import { formatExactUsd } from "../ui/format-amount.ts";

const model = `test/providers-${randomUUID().slice(0, 8)}`;
const requestId = `providers-${randomUUID()}`;
let tenant: GatewayTenant;
let admin: ConsoleAdmin;
let owner: Person;
let runId: string;

const attempts = [
  {
    route: 1,
    provider: "openai",
    model: "gpt-upstream",
    status: 401,
    failure: "unauthorized",
    upstream_request_id: "req_rejected",
    latency_ms: 81,
  },
  { route: 2, provider: "demo", model: "x", status: 200, upstream_request_id: "req_answered", latency_ms: 640 },
];
const routes = attempts.map(({ route, provider, model: providerModel }) => ({
  position: route,
  provider,
  model: providerModel,
  prices: [{ min_input_tokens: 0, input: "2.500000", output: "8.000000" }],
}));

beforeAll(async () => {
  [tenant, admin, owner] = await Promise.all([createGatewayTenant(), createConsoleAdmin(), createPerson()]);
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: owner.id, role: "owner" });
  await query("insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', 'Two routes', 'test')", [
    model,
  ]);
  await query(
    `insert into ai.model_routes (model_id, position, provider_id, provider_model)
     values ($1, 1, 'openai', 'gpt-upstream'), ($1, 2, 'demo', 'x')`,
    [model],
  );
  const [run] = await query<{ id: string }>(
    `insert into ai.runs (
       id, workspace_id, key_id, credential_source, execution_mode, feature, request_id, model_id, routes, markup, reserved_usd,
       reserved_credits, exempt
     )
     select ai.run_id(now()), k.workspace_id, k.id, 'key', 'background', 'chat', $2, $3, $4, 1, 0, 0, true
     from ai.keys k where k.workspace_id = $1 limit 1
     returning id`,
    [tenant.workspaceId, requestId, model, JSON.stringify(routes)],
  );
  runId = run?.id ?? "";
  await query(
    `select ai.settle_runs(jsonb_build_array(jsonb_build_object('created_at', created_at, 'id', id) || $2::jsonb))
     from ai.runs where id = $1`,
    [
      runId,
      JSON.stringify({
        status: "succeeded",
        http_status: 200,
        usage_source: "provider",
        route: 2,
        input_tokens: 13,
        output_tokens: 7,
        cost_usd: "0.0000885",
        credits: "0.885",
        served_tier: "priority",
        latency_ms: 721,
        steps: [],
        attempts,
      }),
    ],
  );
});
afterAll(async () => {
  await query("delete from ai.models where id = $1", [model]);
  await Promise.all([admin, owner].map(deletePerson));
  await tenant.close();
});

const showCost = (visible: boolean) =>
  query(
    `insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, $2)
     on conflict (workspace_id) do update set provider_cost_visible = $2`,
    [tenant.workspaceId, visible],
  );
const facts = [
  "1. openai",
  "401 – key rejected",
  "req_rejected",
  "2. demo",
  "200 – answered",
  "req_answered",
  "priority",
  "$2.50 per million",
  "$8.00 per million",
];

test("members see a run's requests to providers only if the workspace shows provider cost", async () => {
  const browser = await enter(owner);
  const page = `/workspaces/${tenant.workspaceId}/ai/runs/${runId}`;
  await showCost(true);
  const shown = (await browser.get(page)).words;
  for (const fact of facts) expect(shown).toContain(fact);
  const api = JSON.parse((await browser.get(`/api/v1${page}`)).text);
  expect(api).toMatchObject({
    servedTier: "priority",
    unitPrices: [{ minInputTokens: 0, inputUsd: 2.5, outputUsd: 8 }],
    attempts: [
      { route: 1, status: 401, failure: "unauthorized", upstreamRequestId: "req_rejected", mayHaveCharged: false },
      { route: 2, status: 200, failure: null, upstreamRequestId: "req_answered" },
    ],
  });
  await showCost(false);
  const hidden = await browser.get(page);
  for (const fact of facts) expect(hidden.text).not.toContain(fact);
  expect(hidden.text).not.toMatch(/openai|gpt-upstream/);
  expect(hidden.words).toContain(api.keyName);
  expect(JSON.parse((await browser.get(`/api/v1${page}`)).text)).toMatchObject({
    keyName: api.keyName,
    servedTier: null,
    unitPrices: null,
    attempts: null,
  });
});

test("if a workspace hides the details of its runs from members, only admins see them", async () => {
  await showCost(false);
  const page = `/admin/runs/${runId}`;
  const { words } = await admin.browser.get(page);
  for (const fact of [...facts, tenant.workspaceId, requestId, "$0.0000885"]) expect(words).toContain(fact);
  const stranger = await enter(owner);
  expect((await stranger.get(page)).status).toBe(403);
  expect((await stranger.get("/admin/providers")).status).toBe(403);
  for (const unknown of [randomUUID(), "no-id"]) {
    expect((await admin.browser.get(`/admin/runs/${unknown}`)).status).toBe(404);
  }
});

test("shows the state of each route that was reported, and counts others", async () => {
  const states = async () => (await admin.browser.get("/admin/providers")).words;
  // The first of those in trouble, because other tests leave more than the page lists.
  const provider = `a0_${randomUUID().slice(0, 8)}`;
  await query("insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 4, $2, 'm')", [
    model,
    provider,
  ]);
  const idle = await states();
  expect(idle).not.toContain(`${provider}, m Two routes`);
  expect(idle).toMatch(/No recent calls on \d+ (other )?routes?\.|Shows 25 of \d+ routes, those in trouble first\./);
  await query(
    `insert into ai.route_health (
       provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status, failed_at, skipped_until
     ) values ($1, 'm', 'responses', now(), 1, 'payment_required', 402, now(), now() + interval '1 hour')`,
    [provider],
  );
  const skipped = await states();
  expect(skipped).toMatch(new RegExp(`${provider}, m .{0,100}Skipped until .{0,14}\\d\\d:\\d\\d:\\d\\d UTC`));
  expect(skipped).toContain("Top up its account or raise its spend limit.");
  await query("update ai.route_health set skipped_until = now() where provider_id = $1", [provider]);
  expect(await states()).toMatch(new RegExp(`${provider}, m .{0,100}Failing since`));
  await query("delete from ai.route_health where provider_id = $1", [provider]);
  await query("delete from ai.model_routes where model_id = $1 and provider_id = $2", [model, provider]);
});

test("an admin can find a run by its id or its request id", async () => {
  for (const term of [runId, requestId]) {
    const { location } = await admin.browser.get(`/admin/providers?${new URLSearchParams({ q: term })}`);
    expect(location).toBe(`/admin/runs/${runId}`);
  }
  expect((await admin.browser.get("/admin/providers?q=nothing")).words).toContain("No run matches.");
});

test("shows each provider's usage in the console, and exports exactly the same figures", async () => {
  const { words, text } = await admin.browser.get("/admin/providers?range=7d");
  const day = new Date().toISOString().slice(0, 10);
  expect(words).toContain(`to ${formatDay(day)} (UTC)`);
  const [, href = ""] = /href="(\/admin\/providers\.csv[^"]*)"/.exec(text) ?? [];
  // Other tests' runs may end between the two reads.
  await expect
    .poll(async () => {
      const page = await admin.browser.get("/admin/providers?range=7d");
      const file = await admin.browser.get(href.replaceAll("&amp;", "&"));
      const [head, ...lines] = file.text.trim().split("\r\n");
      expect(head).toBe("provider,billing_name,billing_account,requests,failed,input_tokens,output_tokens,cost_usd");
      const exact = lines
        .find((line) => line.startsWith("demo,,,"))
        ?.split(",")
        .at(-1);
      return exact !== undefined && page.text.includes(formatExactUsd(exact));
    })
    .toBe(true);
  expect((await admin.browser.get("/admin/providers.csv?from=nonsense&to=2026-01-01")).status).toBe(400);
  expect((await (await enter(owner)).get("/admin/providers.csv")).status).toBe(403);
});

/** Returns the URL of the page that follows the last of these pages. */
const nextPage = (pages: { text: string }[]) => /href="([^"]+)"[^>]*>Next page/.exec(pages.at(-1)?.text ?? "")?.[1];

test("the console shows which route failed and why, and that calls to a model without a price get 404", async () => {
  const pages = [await admin.browser.get("/admin/providers")];
  for (let next = nextPage(pages); next; next = nextPage(pages)) pages.push(await admin.browser.get(next));
  const words = pages.map((page) => page.words).join(" ");
  const text = pages.map((page) => page.text).join(" ");
  expect(words).toContain("1. openai, gpt-upstream");
  expect(words).toMatch(/401 – key rejected.*UTC.*Provider request ID req_rejected/s);
  expect(text).toContain(`/admin/runs/${runId}`);
  expect(words).toContain("No price: callers get 404");
  const { words: models } = await admin.browser.get(`/admin/models?q=${model.slice(5)}`);
  expect(models).toContain("No price");
  await query("update ai.model_routes set enabled = false where model_id = $1", [model]);
  expect((await admin.browser.get(`/admin/models?q=${model.slice(5)}`)).words).toContain("No route");
});

test("an admin limits a provider, sees what is available of the limits, and removes them again", async () => {
  const provider = `limited_${randomUUID().slice(0, 8)}`;
  const path = `/admin/providers/${provider}`;
  expect((await admin.browser.get(path)).status).toBe(404);
  await query("insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 3, $2, 'm')", [
    model,
    provider,
  ]);
  expect((await admin.browser.get(path)).words).toContain("Requests available No limit");
  const seen = async () => /name="seen" value="(\w+)"/.exec((await admin.browser.get(path)).text)?.[1] ?? "";
  const change = { reason: "Their tier 2", requestsPerMinute: "5000", tokensPerMinute: "" };
  const save = async (more: Record<string, string> = {}) =>
    admin.browser.post(path, { ...change, seen: await seen(), ...more });

  for (const [more, words] of [
    [{ requestsPerMinute: "0" }, "Enter a whole number from 1"],
    [{ tokensPerMinute: "100000000001" }, "Enter a whole number from 1 to 100,000,000,000"],
    [{ reason: "" }, "Enter a reason"],
  ] as const) {
    const refused = await save(more);
    expect([refused.status, refused.words]).toEqual([400, expect.stringContaining(words)]);
  }
  const first = await seen();
  expect((await save()).location).toBe("/admin/providers?done#limits");
  const late = await save({ seen: first });
  expect([late.status, late.words]).toEqual([409, expect.stringContaining("changed it on")]);
  expect((await admin.browser.get("/admin/providers")).words).toContain(
    `${provider} Requests per minute 5,000 Tokens per minute No limit Requests available now 500 of 500`,
  );
  await query("update ai.provider_limits set requests_full_at = now() + interval '2 seconds' where provider_id = $1", [
    provider,
  ]);
  expect((await admin.browser.get(path)).words).toMatch(/Requests available 3\d\d of 500/);

  expect((await save({ requestsPerMinute: "" })).status).toBe(303);
  expect(await query("select from ai.provider_limits where provider_id = $1", [provider])).toEqual([]);
  const entries = await query(
    "select before, after from private.admin_audit_log where target = $1 and action = 'provider.limit' order by created_at",
    [`provider ${provider}`],
  );
  const none = { requests_per_minute: null, tokens_per_minute: null };
  expect(entries).toEqual([
    { before: none, after: { ...none, requests_per_minute: 5_000 } },
    { before: { ...none, requests_per_minute: 5_000 }, after: none },
  ]);
  const stranger = await enter(owner);
  expect((await stranger.get(path)).status).toBe(403);
  expect((await stranger.post(path, change)).status).toBe(403);
});
