-- Costs as providers report them, sent by registered external apps. They are evidence beside the metering: no import
-- ever changes a run or the ledger.

create table ai.external_provider_costs (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null,
  app_id uuid not null,
  provider text not null check (provider ~ '^[A-Za-z0-9._:-]{1,128}$'),
  account_id text check (account_id ~ '^[A-Za-z0-9._:-]{1,128}$'),
  external_run_id text not null check (external_run_id ~ '^[A-Za-z0-9._:-]{1,128}$'),
  granularity text not null default 'run' check (granularity in ('run', 'account_day')),
  service text check (service ~ '^[A-Za-z0-9._:-]{1,128}$'),
  amount_usd numeric(24, 12) not null check (amount_usd >= 0),
  occurred_at timestamptz not null,
  observed_at timestamptz not null,
  recorded_at timestamptz not null default now(),
  revision integer not null default 1,
  unique nulls not distinct (workspace_id, app_id, provider, account_id, external_run_id),
  check (occurred_at <= observed_at),
  check (observed_at <= recorded_at + interval '60 seconds'),
  check (granularity = 'run' or account_id is not null),
  check (granularity = 'run' or occurred_at = date_trunc('day', occurred_at, 'UTC'))
);
comment on table ai.external_provider_costs is
  'One record per workspace, app, provider, account and run. Retries reuse external_run_id; a newer observation '
  'corrects. Kept for good, so nothing refers to workspace or app by a foreign key.';
comment on column ai.external_provider_costs.account_id is 'Null is one account of its own, for providers without accounts.';
comment on column ai.external_provider_costs.granularity is
  'account_day: a day''s total of an account, which replaces that day''s runs in totals and leaves them for audit.';
comment on column ai.external_provider_costs.revision is 'How many observations have been written into it.';
create index external_provider_costs_workspace_id_occurred_at_idx
  on ai.external_provider_costs (workspace_id, occurred_at desc, id);
create index external_provider_costs_account_day_idx
  on ai.external_provider_costs (workspace_id, app_id, provider, account_id, occurred_at)
  where granularity = 'account_day';

alter table ai.external_provider_costs enable row level security;
revoke all on ai.external_provider_costs from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.external_provider_costs from service_role;

create function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  written integer;
  stored ai.external_provider_costs;
begin
  if occurred > observed then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'occurredAt', 'message', 'occurredAt must not be later than observedAt.'
    );
  end if;
  if observed > now() + interval '60 seconds' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'observedAt', 'message', 'observedAt must not be in the future.'
    );
  end if;

  -- Of concurrent imports each waits for the one before, and compares with what that one left.
  insert into ai.external_provider_costs as c (
    workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at, observed_at
  )
  values (
    workspace, app, record ->> 'provider', record ->> 'accountId', record ->> 'externalRunId',
    coalesce(record ->> 'granularity', 'run'), record ->> 'service', amount, occurred, observed
  )
  on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
  set
    granularity = excluded.granularity,
    service = excluded.service,
    amount_usd = excluded.amount_usd,
    occurred_at = excluded.occurred_at,
    observed_at = excluded.observed_at,
    recorded_at = now(),
    revision = c.revision + 1
  where c.observed_at < excluded.observed_at
  returning c.revision into written;
  if found then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored
  from ai.external_provider_costs c
  where c.workspace_id = workspace
    and c.app_id = app
    and c.provider = record ->> 'provider'
    and c.account_id is not distinct from record ->> 'accountId'
    and c.external_run_id = record ->> 'externalRunId';
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif stored.amount_usd = amount then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
end
$$;
comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Writes one reported cost, or says why not: { outcome: stored, corrected, unchanged or stale } or { refused }. A newer '
  'observation corrects; one of the same time with another amount is a conflict. Workspace and app come from the '
  'caller''s credential; the record''s shape was checked before. Granted to nobody.';
revoke execute on function ai.store_provider_cost(uuid, uuid, jsonb) from public, anon, authenticated;
