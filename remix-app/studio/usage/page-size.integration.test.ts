import { afterAll, beforeAll, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../../scripts/test/people.ts";
import { join } from "../../../supabase/tests/database.ts";
import { createTenant, type Tenant } from "../../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { overviewDimensions } from "./overview-metric.ts";

const maxPageBytes = 100_000;
const { db, close } = openPool(1);
let tenant: Tenant;
let person: Person;
let browser: SignedInBrowser;

/** Inserts runs of seven models with long names on each of 200 days, and a deduction without a run on each day. */
beforeAll(async () => {
  tenant = await createTenant(db, { credits: "1000000000" });
  person = await createPerson();
  await join(db, { workspaceId: tenant.workspaceId, userId: person.id, role: "owner" });
  browser = await enter(person);
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
       model_id, actor_id, entity_id, routes, route, markup, status, usage_source, input_tokens, output_tokens, cost_usd,
       billed_credits, account_id, reserved_usd, reserved_credits, latency_ms, settled_at
     )
     select
       ai.run_id(m.moment), m.moment, $1, gen_random_uuid(), $2, $2, 'key', 'background', rpad('feature-' || n || '-', 64, 'x'),
       'test', rpad('model-' || n % 7 || '-', 64, 'x'), gen_random_uuid(), rpad('customer-' || n || '-', 128, 'x'),
       '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1,
       case when n % 3 = 0 then 'failed' else 'succeeded' end, 'provider', 1234567 + n, 2345678 + n,
       12345.678901234567 + n, 123456.12345678 + n, a.id, 0, 0, 12345 + n, m.moment
     from generate_series(0, 200 * 7 - 1) n
     cross join lateral (select now() - n / 7 * interval '24 hours' as moment) m
     join ai.credit_accounts a on a.workspace_id = $1`,
    [tenant.workspaceId, tenant.keyId],
  );
  await db.query(
    `insert into ai.credit_ledger (account_id, kind, amount, balance_after, created_at)
     select a.id, 'refund', -1234.12345678 - n, 0, now() - n * interval '24 hours'
     from ai.credit_accounts a, generate_series(0, 199) n where a.workspace_id = $1`,
    [tenant.workspaceId],
  );
});
afterAll(async () => {
  await deletePerson(person);
  await close();
});

const lastDays = (days: number) => {
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  return `from=${day(days - 1)}&to=${day(0)}`;
};

test.each(overviewDimensions)("the overview grouped by %s stays under 100 KB", async (by) => {
  for (const range of ["range=90d", lastDays(92), lastDays(93), "range=365d"]) {
    for (const show of ["spend", "tokens"]) {
      const { status, text } = await browser.get(`/workspaces/${tenant.workspaceId}/ai?${range}&by=${by}&show=${show}`);
      expect({ range, show, status }).toEqual({ range, show, status: 200 });
      expect(Buffer.byteLength(text), `${range} ${show}`).toBeLessThan(maxPageBytes);
    }
  }
});

test("the workspace's Overview stays under 60 KB", async () => {
  const { status, text } = await browser.get(`/workspaces/${tenant.workspaceId}`);
  expect(status).toBe(200);
  expect(Buffer.byteLength(text)).toBeLessThan(60 * 1024);
});

test("the usage overview states how many days its table leaves out, and its CSV file contains all days", async () => {
  const page = await browser.get(`/workspaces/${tenant.workspaceId}/ai?range=90d`);
  expect(page.words).toContain("52 more days are in the chart above");
  const file = await browser.get(`/workspaces/${tenant.workspaceId}/ai/usage.csv?range=90d`);
  expect(file.text.trimEnd().split("\r\n")).toHaveLength(91);
});

/** Inserts a daily and a monthly budget for each of 25 labels, with the alerts about them. */
beforeAll(async () => {
  await db.query(
    `insert into ai.budgets (
       scope, subject_id, workspace_id, label, period, time_zone, limit_usd, spent_usd, reserved_usd, starts_at, ends_at
     )
     select
       'label', ai.label_id(l.label), $1, l.label, p.period, 'America/Argentina/Buenos_Aires', 123456.123456789012,
       123456.789012345678, 1234.123456789012, now() - interval '1 hour', now() + interval '12 hours'
     from generate_series(1, 25) n
     cross join lateral (select rpad('customer-' || n || '-', 40, 'x') as label) l
     cross join unnest('{day,month}'::text[]) as p (period)`,
    [tenant.workspaceId],
  );
  await db.query(
    `insert into ai.budget_alerts (
       scope, subject_id, workspace_id, period, month, limit_usd, spent_usd, threshold, posted_at
     )
     select b.scope, b.subject_id, b.workspace_id, b.period, b.starts_at::date, b.limit_usd, b.spent_usd, 100, now()
     from ai.budgets b
     where b.workspace_id = $1 and b.scope = 'label'
     on conflict do nothing`,
    [tenant.workspaceId],
  );
});

test.each(["/runs", "/runs?range=all&status=failed", "/credits?range=365d", "/costs", "/keys", "/budgets"])(
  "the page %s stays under 100 KB",
  async (page) => {
    const { status, text } = await browser.get(`/workspaces/${tenant.workspaceId}/ai${page}`);
    expect(status).toBe(200);
    expect(Buffer.byteLength(text)).toBeLessThan(maxPageBytes);
  },
);
