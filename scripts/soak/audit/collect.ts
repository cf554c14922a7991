import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { grantedCredits, type Tenant, type World } from "../world.ts";
import type { BookFact, BudgetFact, RunFact, Totals } from "./facts.ts";
import type { KeptRecord } from "./imports.ts";

/** Runs one statement on the soak's database, on its own connection. */
export async function query<Row extends pg.QueryResultRow>(
  world: World,
  { sql, values }: { sql: string; values: unknown[] },
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: world.stack.supabase.dbUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(sql, values)).rows;
  } finally {
    await client.end();
  }
}

const tenantsOf = ({ payer, partner }: World) => [payer, partner];
const idsOf = (world: World) => tenantsOf(world).map(({ workspaceId }) => workspaceId);

/** Waits for the last settlement, and for the sweeper if something was killed. @returns how many runs are still open */
export async function waitUntilSettled(world: World, { limitMs }: { limitMs: number }): Promise<number> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const [row] = await query<{ open: number }>(world, {
      sql: "select count(*)::int as open from ai.runs where workspace_id = any ($1) and status = 'running'",
      values: [idsOf(world)],
    });
    if (row?.open === 0 || Date.now() > deadline) return row?.open ?? 0;
    await sleep(500);
  }
}

export async function readRuns(world: World): Promise<RunFact[]> {
  const names = new Map(tenantsOf(world).map(({ workspaceId, name }) => [workspaceId, name]));
  const rows = await query<Record<string, never> & { workspace: string }>(world, {
    sql: `select r.id, r.workspace_id as workspace, r.request_id as "requestId", r.idempotency_key as "idempotencyKey", r.status,
        r.usage_source as "usageSource", r.error_code as "errorCode", r.swept, r.exempt,
        (extract(epoch from r.created_at) * 1000)::float8 as "createdAt",
        (extract(epoch from r.settled_at) * 1000)::float8 as "settledAt",
        r.input_tokens::int as "inputTokens", r.cached_input_tokens::int as "cachedInputTokens",
        r.output_tokens::int as "outputTokens", r.reasoning_tokens::int as "reasoningTokens",
        r.cost_usd::text as "costUsd", r.billed_credits::text as "billedCredits",
        r.reserved_usd::text as "reservedUsd", ai.credits_per_usd(r.markup)::text as "creditsPerUsd",
        coalesce(
          (select e.value -> 'prices' from jsonb_array_elements(r.routes) as e where (e.value ->> 'position')::int = r.route),
          r.routes -> 0 -> 'prices'
        ) as prices,
        coalesce(l.charged, 0)::text as charged, coalesce(l.entries, 0)::int as entries
      from ai.runs r
      left join (
        select run_id, -sum(amount) as charged, count(*) as entries from ai.credit_ledger where run_id is not null group by run_id
      ) as l on l.run_id = r.id
      where r.workspace_id = any ($1)`,
    values: [idsOf(world)],
  });
  return rows.map(
    ({ workspace, ...run }) => ({ ...run, tenant: names.get(workspace) ?? workspace }) as unknown as RunFact,
  );
}

export async function readBooks(world: World): Promise<BookFact[]> {
  return Promise.all(
    tenantsOf(world).map(async ({ name, workspaceId }) => {
      const [row] = await query<Omit<BookFact, "tenant" | "granted">>(world, {
        sql: `select a.balance::text, a.reserved::text,
            (select coalesce(sum(l.amount), 0)::text from ai.credit_ledger l where l.account_id = a.id) as ledger,
            (select coalesce(sum(r.billed_credits), 0)::text from ai.runs r where r.workspace_id = $1) as billed,
            (select count(*)::int from ai.runs r where r.workspace_id = $1 and r.status = 'running') as "openRuns"
          from ai.credit_accounts a where a.workspace_id = $1`,
        values: [workspaceId],
      });
      if (!row) throw new Error(`${name} has no credit account`);
      return { tenant: name, granted: grantedCredits, ...row };
    }),
  );
}

/** Returns the budgets of the payer's key, and its envelopes. */
export function readBudgets(world: World): Promise<BudgetFact[]> {
  return query<BudgetFact>(world, {
    sql: `select concat_ws(' ', b.scope || '/' || b.period, nullif(e.label, '')) as name, b.limit_usd::text as "limitUsd",
        b.spent_usd::text as "spentUsd", b.reserved_usd::text as "reservedUsd", b.max_calls::int as "maxCalls",
        b.calls::int as calls, r.runs, r."costUsd", r."overrunUsd"
      from ai.budgets b
      left join ai.envelopes e on e.id = b.subject_id
      cross join lateral (
        select count(*)::int as runs, coalesce(sum(r.cost_usd), 0)::text as "costUsd",
          coalesce(sum(case when l.entries > 1 then r.cost_usd else greatest(r.cost_usd - r.reserved_usd, 0) end), 0)::text as "overrunUsd"
        from ai.runs r
        cross join lateral (select count(*) as entries from ai.credit_ledger l where l.run_id = r.id) as l
        where r.workspace_id = b.workspace_id and r.created_at >= b.starts_at
          and case b.scope when 'envelope' then r.envelope_id else r.key_lineage_id end = b.subject_id
          and ai.budget_entry(b.scope, b.period) = any (r.budget_scopes)
      ) as r
      where b.workspace_id = $1 and b.scope in ('key', 'envelope')`,
    values: [world.payer.workspaceId],
  });
}

/** Returns the totals of a workspace's runs, computed in SQL only. */
async function totalsOf(world: World, { workspaceId }: Tenant): Promise<Totals> {
  const [row] = await query<Totals>(world, {
    sql: `select count(*)::int as requests, coalesce(sum(cost_usd), 0)::text as "costUsd",
        coalesce(sum(billed_credits), 0)::text as "billedCredits"
      from ai.runs where workspace_id = $1`,
    values: [workspaceId],
  });
  if (!row) throw new Error("no totals");
  return row;
}

/**
 * Returns what `/v1/usage` reports for the partner's workspace and `/v1/key` for the payer's key, each with the totals
 * of the workspace's runs.
 */
export async function readReports(world: World): Promise<{ where: string; said: Totals; runs: Totals }[]> {
  const ask = async (path: string, { key, workspaceId }: Tenant) => {
    const response = await fetch(`${world.stack.ai}/v1${path}`, {
      headers: { authorization: `Bearer ${key}`, "x-platform-workspace-id": workspaceId },
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${path} was answered ${response.status}: ${text}`);
    return text;
  };
  const usage = await ask("/usage", world.partner);
  const key = await ask("/key", world.payer);
  const spent = key.slice(key.indexOf('"spent"'));
  return [
    {
      where: "/v1/usage",
      said: {
        requests: Number(sumOf(usage, "requests")),
        costUsd: sumOf(usage, "amountUsd"),
        billedCredits: sumOf(usage, "billedCredits"),
      },
      runs: await totalsOf(world, world.partner),
    },
    {
      where: "/v1/key",
      said: {
        requests: Number(firstOf(spent, "requests")),
        costUsd: firstOf(spent, "costUsd"),
        billedCredits: firstOf(spent, "billedCredits"),
      },
      runs: await totalsOf(world, world.payer),
    },
  ];
}

const amountsOf = (json: string, name: string) =>
  [...json.matchAll(new RegExp(`"${name}":\\s*(-?[\\d.]+)`, "g"))].map(([, digits = "0"]) => digits);
const firstOf = (json: string, name: string) => amountsOf(json, name)[0] ?? "0";

/** Sums the amounts of one JSON member exactly, to 12 decimals. */
function sumOf(json: string, name: string): string {
  const scale = 12;
  const units = amountsOf(json, name).reduce((sum, digits) => {
    const [whole = "0", decimals = ""] = digits.split(".");
    return sum + BigInt(whole + decimals.padEnd(scale, "0").slice(0, scale));
  }, 0n);
  const text = units.toString().padStart(scale + 1, "0");
  return `${text.slice(0, -scale)}.${text.slice(-scale)}`;
}

export async function readImports(world: World): Promise<{ keptCosts: KeptRecord[]; keptInvoices: KeptRecord[] }> {
  const values = [world.partner.workspaceId];
  return {
    keptCosts: await query<KeptRecord>(world, {
      sql: `select external_run_id as id, amount_usd::text as "amountUsd" from ai.external_provider_costs where workspace_id = $1`,
      values,
    }),
    keptInvoices: await query<KeptRecord>(world, {
      sql: `select reference as id, amount_usd::text as "amountUsd" from ai.external_provider_invoices where workspace_id = $1`,
      values,
    }),
  };
}
