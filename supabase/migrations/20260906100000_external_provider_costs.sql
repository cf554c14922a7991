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

-- schemas/finance/import-costs.sql

-- Definer: as check_app_caller.
create or replace function ai.import_provider_costs(call jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  item record;
  results jsonb[] := '{}';
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  perform ai.record_key_use(caller);
  -- In one order whoever calls, so that batches cannot lock each other out.
  for item in
    select r.value as record, r.ordinality::integer as place
    from jsonb_array_elements(call -> 'records') with ordinality as r
    order by
      r.value ->> 'provider' collate "C", r.value ->> 'accountId' collate "C", r.value ->> 'externalRunId' collate "C",
      r.ordinality
  loop
    results[item.place] := ai.store_provider_cost(caller.workspace_id, caller.app_id, item.record);
  end loop;
  return jsonb_build_object('results', to_jsonb(results));
end
$$;
comment on function ai.import_provider_costs(jsonb) is
  'Stores the records of a call, each for itself: { results } in their order, as ai.store_provider_cost answers, or '
  '{ refused } where the credential is not good for it.';

create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
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

-- schemas/finance/provider-costs.sql

create or replace function ai.provider_costs_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, before jsonb, page_size integer,
  filter jsonb default '{}', with_totals boolean default true
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  listed jsonb;
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(asked.window_from),
    'to', ai.utc_text_microseconds(asked.window_to),
    'records', ai.provider_cost_records(workspace, asked.window_from, asked.window_to, before, page_size, filter)
  );
  if not with_totals then
    return listed;
  end if;
  return listed || jsonb_build_object(
    'totals', ai.provider_cost_totals(workspace, asked.window_from, asked.window_to, filter)
  );
end
$$;
comment on function ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean) is
  'A page of ai.provider_cost_records, by default of the last 30 days, and unless told otherwise the totals of the whole '
  'range. { outcome: listed, … } or { outcome: bad_window, fault }. Granted to nobody.';

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_provider_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before jsonb default null, page_size integer default 50, filter jsonb default '{}', with_totals boolean default true
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.provider_costs_page(workspace, given_from, given_to, before, page_size, filter, with_totals)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean) is
  'ai.provider_costs_page for a member with use_ai_studio, else { outcome: not_allowed }. A file, which is read page by '
  'page, asks for no totals.';

-- Definer: reads for the user of the credential alone.
create or replace function private.list_provider_costs_by_app_session(
  token_hash bytea, workspace_id uuid, given_from timestamptz default null, given_to timestamptz default null,
  before jsonb default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  refused text := private.studio_refusal(token_hash, workspace_id);
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  return ai.provider_costs_page(workspace_id, given_from, given_to, before, page_size);
end
$$;
comment on function private.list_provider_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, jsonb, integer) is
  'ai.provider_costs_page for the session''s user, or {refused}.';

create or replace function private.studio_refusal(token_hash bytea, workspace_id uuid) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'studio:read');
begin
  return case
    when caller.refused is not null then caller.refused
    when not private.is_workspace_member(caller.user_id, studio_refusal.workspace_id) then 'not_found'
    when not private.user_has_workspace_permission(caller.user_id, studio_refusal.workspace_id, 'use_ai_studio') then 'forbidden'
  end;
end
$$;
comment on function private.studio_refusal(bytea, uuid) is
  'Why a satellite''s session may not read a workspace''s studio; null where it may. For definers; granted to nobody.';

create or replace function ai.provider_cost_records(
  workspace uuid, window_from timestamptz, window_to timestamptz, before jsonb, page_size integer, filter jsonb
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with page as materialized (
    select *
    from ai.external_provider_costs c
    where c.workspace_id = workspace
      and c.occurred_at >= window_from
      and c.occurred_at < window_to
      and (filter ->> 'provider' is null or c.provider = filter ->> 'provider')
      and (not filter ? 'accountId' or c.account_id is not distinct from filter ->> 'accountId')
      and (before is null or (c.occurred_at, c.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid))
    order by c.occurred_at desc, c.id desc
    limit page_size
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', p.id,
      'appId', p.app_id,
      'appName', a.display_name,
      'provider', p.provider,
      'accountId', p.account_id,
      'externalRunId', p.external_run_id,
      'granularity', p.granularity,
      'service', p.service,
      'amountUsd', trim_scale(p.amount_usd)::text,
      'occurredAt', ai.utc_text_microseconds(p.occurred_at),
      'observedAt', ai.utc_text_microseconds(p.observed_at),
      'recordedAt', ai.utc_text_microseconds(p.recorded_at),
      'revision', p.revision,
      'counted', replaced.by_run_id is null,
      'replacedBy', replaced.by_run_id,
      -- For how many runs an account day stands, and what these come to.
      'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
        select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
        from ai.external_provider_costs c
        where c.workspace_id = p.workspace_id
          and c.occurred_at >= p.occurred_at
          and c.occurred_at < p.occurred_at + interval '24 hours'
          and c.granularity = 'run'
          and c.app_id = p.app_id
          and c.provider = p.provider
          and c.account_id = p.account_id
      ) end
    )
    order by p.occurred_at desc, p.id desc
  ), '[]')
  from page p
  left join private.apps a on a.id = p.app_id
  -- The account day that stands for it, by the rule of ai.provider_costs_in_totals.
  left join lateral (
    select d.external_run_id as by_run_id
    from ai.external_provider_costs d
    where d.granularity = 'account_day'
      and d.workspace_id = p.workspace_id
      and d.app_id = p.app_id
      and d.provider = p.provider
      and d.account_id = p.account_id
      and d.occurred_at = date_trunc('day', p.occurred_at, 'UTC')
      and (
        p.granularity = 'run'
        or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
      )
    order by d.observed_at desc, d.id desc
    limit 1
  ) as replaced on true
$$;
comment on function ai.provider_cost_records(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'A page of imported costs of a half-open range, newest first, each with the account day that stands for it or the runs '
  'that it stands for. filter names any of provider and accountId, where a null names those without an account.';

create or replace function ai.provider_costs_in_totals(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.external_provider_costs, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- A day of an account has one total of a service, whatever it was called by.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 as latest
    from ai.external_provider_costs d
    where d.granularity = 'account_day'
      and d.workspace_id = workspace
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
  ), covered as materialized (
    select distinct d.app_id, d.provider, d.account_id, d.occurred_at from days d
  )
  select c, case c.granularity when 'run' then v.app_id is null else d.latest end
  from ai.external_provider_costs c
  left join covered v on v.app_id = c.app_id
    and v.provider = c.provider
    and v.account_id = c.account_id
    and v.occurred_at = date_trunc('day', c.occurred_at, 'UTC')
  left join days d on d.id = c.id
  where c.workspace_id = workspace and c.occurred_at >= window_from and c.occurred_at < window_to
$$;
comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Imported costs of a half-open range, and whether each counts in totals: a run does not where its account''s day is '
  'known, within the range or not, so that adjacent ranges add up.';

create or replace function ai.provider_cost_totals(workspace uuid, window_from timestamptz, window_to timestamptz, filter jsonb)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where t.counted), 0))::text,
    'records', count(*),
    'replacedRecords', count(*) filter (where not t.counted),
    'replacedUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where not t.counted), 0))::text
  )
  from ai.provider_costs_in_totals(workspace, window_from, window_to) t
  where (filter ->> 'provider' is null or (t.cost).provider = filter ->> 'provider')
    and (not filter ? 'accountId' or (t.cost).account_id is not distinct from filter ->> 'accountId')
$$;
comment on function ai.provider_cost_totals(uuid, timestamptz, timestamptz, jsonb) is
  'What imported costs of a half-open range come to; account days stand for the runs that they cover.';

-- finance/
grant execute on function
  ai.import_provider_costs(jsonb)
to gateway;

revoke insert, update, delete on ai.external_provider_costs from service_role;

-- finance/
grant execute on function
  ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean),
  private.list_provider_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, jsonb, integer)
to service_role;
