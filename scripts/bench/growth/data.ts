import type pg from "pg";
import { insertRuns } from "../../load/insert-runs.ts";
import { createLoadTenant, type LoadTenant } from "../../load/load-tenant.ts";

/** The number of runs and the number of accounts. Each measured list grows with either runs or accounts. */
export type Size = { runs: number; accounts: number };

/** The workspace and owner that are measured, with a key and an app that have no runs. */
export type GrowthTenant = LoadTenant & { idleKeyId: string; idleAppId: string };

const days = 365;
const runsPerBatch = 20_000;
const accountsPerBatch = 2_000;
const domain = "growth.test";

type Progress = { show: (what: string) => void; signal: AbortSignal };

/**
 * Grows a database to the given size, including its monthly partitions, daily totals and statistics.
 * @throws the signal's reason once the signal has aborted; the next call continues the growth
 */
export async function grow(
  client: pg.Client,
  { size, show, signal }: Progress & { size: Size },
): Promise<GrowthTenant> {
  await createPastPartitions(client);
  const tenant = await growthTenant(client);
  await fill(client, { tenant, size, show, signal });
  show("sums of days");
  while ((await count(client, "select ai.roll_up_usage(31) as count")) > 0) signal.throwIfAborted();
  show("vacuum");
  await client.query("vacuum (analyze, skip_locked)");
  return tenant;
}

/**
 * Adds the missing rows for a size, in batches. Each account gets one run in its personal workspace. All other runs
 * belong to the tenant's workspace.
 * @throws the signal's reason once the signal has aborted
 */
export async function fill(
  client: pg.Client,
  { tenant, size, show, signal }: Progress & { tenant: GrowthTenant; size: Size },
): Promise<void> {
  for (let have = await count(client, countAccounts); have < size.accounts; have += accountsPerBatch) {
    signal.throwIfAborted();
    show(`${have.toLocaleString("en")} of ${size.accounts.toLocaleString("en")} accounts`);
    await insertAccounts(client, { after: have, most: Math.min(accountsPerBatch, size.accounts - have) });
  }
  const runs = size.runs - size.accounts;
  for (let have = await count(client, countRuns, [tenant.workspaceId]); have < runs; have += runsPerBatch) {
    signal.throwIfAborted();
    show(`${have.toLocaleString("en")} of ${runs.toLocaleString("en")} runs`);
    await insertRuns(client, tenant, { runs: Math.min(runsPerBatch, runs - have), days });
  }
  show("sessions, members, costs and logs");
  await client.query(insertSessions, [tenant.ownerId, Math.ceil(size.accounts / 100)]);
  await client.query(insertMembers, [tenant.workspaceId, Math.ceil(size.accounts / 200), domain]);
  await client.query(insertCosts, [tenant.workspaceId, tenant.appId, Math.round(size.runs / 20), days]);
  await client.query(insertRefusedCalls, [tenant.workspaceId, tenant.ownerId, tenant.keyId, Math.round(size.runs / 4)]);
  await client.query(insertAuditLog, [Math.round(size.accounts / 10), days]);
  await client.query(insertPlans, [Math.round(size.accounts / 10)]);
}

async function insertAccounts(client: pg.Client, { after, most }: { after: number; most: number }): Promise<void> {
  const { rows } = await client.query<{ id: string }>(insertUsers, [after, most, domain]);
  const ids = rows.map(({ id }) => id);
  await client.query(insertSignIns, [ids]);
  await client.query(insertOwnRuns, [ids, days]);
}

async function count(client: pg.Client, sql: string, values: unknown[] = []): Promise<number> {
  const { rows } = await client.query<{ count: number }>(sql, values);
  return rows[0]?.count ?? 0;
}

const countAccounts = `select count(*)::integer as count from auth.users where email like '%@${domain}'`;
const countRuns = "select count(*)::integer as count from ai.runs where workspace_id = $1";

/** Creates the monthly partitions of `ai.runs` that are missing for the past twelve months. */
async function createPastPartitions(client: pg.Client): Promise<void> {
  await client.query(`
    set timezone = 'UTC';
    do $do$
    declare
      month timestamptz;
    begin
      for month in select generate_series(date_trunc('month', now()) - interval '12 months', now(), '1 month') loop
        continue when to_regclass(format('ai.runs_%s', to_char(month, 'YYYY_MM'))) is not null;
        execute format(
          'create table ai.runs_%s partition of ai.runs for values from (%L) to (%L) with (fillfactor = 45)',
          to_char(month, 'YYYY_MM'), month, month + interval '1 month'
        );
        perform ai.protect_partition(format('ai.runs_%s', to_char(month, 'YYYY_MM'))::regclass);
      end loop;
    end
    $do$;
    reset timezone`);
}

/** Returns the measured tenant. Creates the tenant if the database is empty. */
export async function growthTenant(client: pg.Client): Promise<GrowthTenant> {
  const { rows } = await client.query<GrowthTenant>(readTenant);
  if (rows[0]) return rows[0];
  const tenant = await createLoadTenant(client);
  await client.query("select ai.create_key($1, $2, 'Idle', 'idleidleidle', sha256('idle'))", [
    tenant.workspaceId,
    tenant.ownerId,
  ]);
  await client.query(
    `select private.register_app(
       app_name => 'growth-idle', display_name => 'Idle', kind => 'external', origins => '{}',
       scopes => '{ai:use}', secret_hash => sha256('idle'), reason => 'Growth'
     )`,
  );
  return growthTenant(client);
}

const readTenant = `
  select w.id as "workspaceId", w.created_by as "ownerId", k.external_app_id as "appId", k.id as "keyId", '' as key,
    i.id as "idleKeyId", a.id as "idleAppId"
  from public.workspaces w
  join ai.keys k on k.workspace_id = w.id and k.name = 'Load'
  join ai.keys i on i.workspace_id = w.id and i.name = 'Idle'
  join private.apps a on a.name = 'growth-idle'
  where w.name = 'Load'`;

// Inserts users the way the identity backend does. Triggers create the profile, workspace and roles.
const insertUsers = `
  insert into auth.users (
    id, instance_id, aud, role, email, email_confirmed_at, raw_app_meta_data, raw_user_meta_data, created_at, updated_at
  )
  select
    gen_random_uuid(), '00000000-0000-0000-0000-000000000000', 'authenticated', 'authenticated',
    format('person-%s@%s', number, $3::text), now(), '{}', jsonb_build_object('full_name', format('Person %s', number)),
    now(), now()
  from (select $1::integer + n as number from generate_series(1, $2::integer) n) as numbers
  returning id`;

const insertSignIns = `
  insert into public.security_events (user_id, kind, method, ip, device)
  select id, 'sign_in', 'password', '2001:db8::1', 'Chrome on macOS' from unnest($1::uuid[]) id`;

const insertOwnRuns = `
  insert into ai.runs (
    id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, model_id, routes,
    route, markup, status, http_status, usage_source, input_tokens, output_tokens, cost_usd, reserved_usd,
    reserved_credits, latency_ms, settled_at
  )
  select
    ai.run_id(moment), moment, p.workspace_id, p.user_id, 'session', 'interactive', 'chat', gen_random_uuid()::text,
    'demo-chat', '[{"position": 1, "provider": "demo", "model": "demo", "prices": []}]', 1, 1, 'succeeded', 200,
    'provider', 100, 100, 0.0001, 0, 0, 500, moment
  from (
    select w.id as workspace_id, u.id as user_id, now() - random() * $2::integer * interval '24 hours' as moment
    from unnest($1::uuid[]) as u (id)
    join public.workspaces w on w.personal_user_id = u.id
  ) as p`;

const insertMembers = `
  insert into public.workspace_members (workspace_id, user_id, role_id)
  select $1, u.id, r.id
  from auth.users u
  join public.workspace_roles r on r.workspace_id = $1 and r.name = 'member'
  where u.email like '%@' || $3
  order by u.created_at, u.id
  limit greatest(0, $2::integer - (select count(*) from public.workspace_members m where m.workspace_id = $1))
  on conflict do nothing`;

const insertPlans = `
  insert into ai.plans (id, name, payer)
  select format('growth_%s', n), 'Growth', case n % 2 when 0 then 'workspace' else 'member' end
  from generate_series(1, $1::integer) n
  on conflict do nothing`;

const insertSessions = `
  with missing as (
    select n from generate_series(1, $2::integer - (select count(*)::integer from auth.sessions where user_id = $1)) n
  ), made as (
    insert into auth.sessions (id, user_id, aal, created_at, refreshed_at, ip, user_agent)
    select gen_random_uuid(), $1, 'aal1', now() - n * interval '1 hour', now() - n * interval '30 minutes', '2001:db8::1', 'node'
    from missing
    returning id, created_at
  )
  insert into public.security_events (user_id, kind, method, session_id, ip, user_agent, device, created_at)
  select $1, 'sign_in', 'password', m.id, '2001:db8::1', 'Mozilla/5.0', 'Chrome on macOS', m.created_at
  from made m`;

const insertCosts = `
  insert into ai.external_provider_costs (
    workspace_id, app_id, provider, account_id, external_run_id, amount_usd, occurred_at, observed_at, recorded_at
  )
  select
    $1, $2, 'openai', 'account', 'run-' || n, 0.01, moment, moment, moment
  from (
    select n, now() - random() * $4::integer * interval '24 hours' as moment
    from generate_series(1 + (select count(*) from ai.external_provider_costs where workspace_id = $1), $3::integer) n
  ) as r`;

const insertRefusedCalls = `
  insert into ai.refused_calls (
    id, created_at, workspace_id, actor_id, key_id, credential_source, feature, request_id, model_id, endpoint,
    http_status, error_code, details
  )
  select
    ai.run_id(moment), moment, $1, $2, $3, 'key', 'chat', 'refused-' || n, 'demo-chat', '/v1/chat/completions', 402,
    'budget_exceeded', '{}'
  from (
    select n, now() - random() * interval '7 days' as moment
    from generate_series(1 + (select count(*) from ai.refused_calls where workspace_id = $1), $4::integer) n
  ) as r`;

const insertAuditLog = `
  insert into private.admin_audit_log (action, target, reason, created_at)
  select 'growth.entry', 'target ' || n, 'Growth', now() - random() * $2::integer * interval '24 hours'
  from generate_series(1 + (select count(*) from private.admin_audit_log where action = 'growth.entry'), $1::integer) n`;
