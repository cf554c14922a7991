import { afterAll, beforeAll, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../../scripts/test/people.ts";
import { join } from "../../../supabase/tests/database.ts";
import {
  begin,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  settle,
  type Tenant,
} from "../../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { formatDay } from "../../http/date-text.ts";
import { formatExactUsd } from "../../ui/format-amount.ts";
import { type OverviewDimension, overviewDimensions } from "./overview-metric.ts";

const { db, close } = openPool(1);
let tenant: Tenant;
let person: Person;
let browser: SignedInBrowser;
const former = "00000000-0000-4000-8000-00000000000a";

beforeAll(async () => {
  tenant = await createTenant(db, { credits: "1000000" });
  person = await createPerson();
  await join(db, { workspaceId: tenant.workspaceId, userId: person.id, role: "member" });
  browser = await enter(person);
  await insertRuns();
});
afterAll(async () => {
  await deletePerson(person);
  await close();
});

/** Inserts settled runs of today and the six days before, with amounts of many digits. */
async function insertRuns(): Promise<void> {
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
       model_id, actor_id, entity_id, routes, route, markup, status, usage_source, input_tokens, output_tokens, cost_usd,
       billed_credits, account_id, reserved_usd, reserved_credits, latency_ms, settled_at
     )
     select
       ai.run_id(m.moment), m.moment, $1, case when n % 5 = 0 then $5::uuid end, $2, $2, 'key', 'background',
       (array['chat', 'Summaries'])[1 + n % 2], 'test', 'model-' || n % 8, (array[$3::uuid, $4::uuid, null])[1 + n % 3],
       (array['customer-1', 'customer:2', null, 'a.b_c'])[1 + n % 4],
       '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1,
       case when n % 11 = 0 then 'failed' else 'succeeded' end, 'provider', n, 2 * n, n * 0.012345678901,
       n * 1.00000007, a.id, 0, 0, n, m.moment
     from generate_series(1, 120) n
     cross join lateral (select least(now(), date_trunc('day', now(), 'UTC') - n % 7 * interval '24 hours' + n * interval '1 s') as moment) m
     join ai.credit_accounts a on a.workspace_id = $1`,
    [tenant.workspaceId, tenant.keyId, tenant.ownerId, former, crypto.randomUUID()],
  );
}

type Figures = Record<string, { cost: string; credits: string; requests: string }>;

const columns: Record<OverviewDimension, string> = {
  day: "(created_at at time zone 'UTC')::date::text",
  model: "model_id",
  feature: "feature",
  key: "key_lineage_id::text",
  app: "coalesce(app_id::text, '')",
  member: "coalesce(actor_id::text, '')",
  label: "coalesce(entity_id, '')",
};
const members = { key: "keyId", app: "appId", member: "memberId" } as const;

/** Sums the stored runs, as the reference for all other figures. */
async function ofRuns(by: OverviewDimension): Promise<Figures> {
  const rows = await db.query<{ key: string; cost: string; credits: string; requests: string }>(
    `select ${columns[by]} as key, trim_scale(sum(cost_usd))::text as cost, trim_scale(sum(billed_credits))::text as credits,
       count(*)::text as requests
     from ai.runs
     where workspace_id = $1 and created_at >= date_trunc('day', now(), 'UTC') - 6 * interval '24 hours'
     group by 1`,
    [tenant.workspaceId],
  );
  return Object.fromEntries(rows.map(({ key, ...figures }) => [key, figures]));
}

const at = (page: string) => `/workspaces/${tenant.workspaceId}/ai${page}`;

async function ofFile(by: OverviewDimension): Promise<{ figures: Figures; names: Record<string, string> }> {
  const { text } = await browser.get(at(`/usage.csv?range=7d&by=${by}`));
  const [head = "", ...lines] = text.trimEnd().split("\r\n");
  const heads = head.split(",");
  const rows = lines.map((line) => Object.fromEntries(line.split(",").map((value, index) => [heads[index], value])));
  const keyOf = (row: Record<string, string>) =>
    (by in members ? row[`${by}_id`] : row[by] === `No ${by}` ? "" : row[by]) ?? "";
  const figuresOf = (row: Record<string, string>) => ({
    cost: row.cost_usd ?? "",
    credits: row.billed_credits ?? "",
    requests: row.requests ?? "",
  });
  return {
    figures: Object.fromEntries(rows.map((row) => [keyOf(row), figuresOf(row)])),
    names: Object.fromEntries(rows.map((row) => [keyOf(row), row[by] ?? ""])),
  };
}

async function ofApi(by: OverviewDimension): Promise<Figures> {
  const from = new Date(Date.now() - 6 * 86_400_000).toISOString().slice(0, 10);
  const { text } = await browser.get(`/api/v1${at(`/usage?from=${from}&groupBy=${by}&limit=100`)}`);
  // Replaces each number with its source text, so that no digit is lost.
  const exact = (_: string, value: unknown, { source }: { source?: string } = {}) =>
    typeof value === "number" ? source : value;
  const { rows } = JSON.parse(text, exact) as { rows: Record<string, string | null>[] };
  const name = by in members ? members[by as keyof typeof members] : by;
  return Object.fromEntries(
    rows.map((row) => [
      row[name] ?? "",
      { cost: row.amountUsd ?? "", credits: row.billedCredits ?? "", requests: row.requests ?? "" },
    ]),
  );
}

/** Returns the cells of each row of the page's tables, as read by assistive technology, with exact amounts. */
async function ofPage(by: OverviewDimension): Promise<string[][]> {
  const { text } = await browser.get(at(`?range=7d&by=${by}`));
  const shown = text.replaceAll(/<span aria-hidden="true" class="amount"[^>]*>[^<]*<\/span>/g, "");
  const rows = shown.match(/<tr\b.*?<\/tr>/gs) ?? [];
  return rows.map((row) =>
    (row.match(/<t[dh]\b.*?<\/t[dh]>/gs) ?? []).map((cell) => cell.replaceAll(/<[^>]*>/g, " ").trim()),
  );
}

async function expectEqualFigures(): Promise<void> {
  for (const by of overviewDimensions) {
    const runs = await ofRuns(by);
    const { figures, names } = await ofFile(by);
    expect({ by, file: figures }).toEqual({ by, file: runs });
    expect({ by, api: await ofApi(by) }).toEqual({ by, api: runs });
    const rows = await ofPage(by);
    for (const [key, { cost, credits, requests }] of Object.entries(runs)) {
      const name = names[key] ?? "";
      const shown = rows.some(
        (cells) =>
          cells[0]?.startsWith(by === "day" ? formatDay(name) : name) &&
          [formatExactUsd(cost), credits, requests].every((figure) =>
            cells.some((cell) => cell.split(/\s+/).includes(figure)),
          ),
      );
      expect({ by, name, shown }).toEqual({ by, name, shown: true });
    }
  }
}

test("a usage page, its file, the API and the runs have exactly the same figures before rollup, after rollup, and after later changes", async () => {
  await expectEqualFigures();
  await db.query("select ai.roll_up_usage(1000)");
  await expectEqualFigures();
  // Settles a run after its day was sealed, and deletes other runs.
  const begun = await begin(db, chatCall(tenant, { entity_id: "late" }));
  const [late] = await db.query<OpenedRun>(
    `update ai.runs set created_at = created_at - interval '48 hours' where id = $1
     returning id as run_id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at`,
    [begun.run_id],
  );
  await settle(db, [outcome({ ...begun, ...late })]);
  await db.query(
    "delete from ai.runs where workspace_id = $1 and model_id = 'model-3' and created_at < now() - interval '72 hours'",
    [tenant.workspaceId],
  );
  await expectEqualFigures();
  await db.query("select ai.roll_up_usage(1000)");
  await expectEqualFigures();
}, 60_000);
