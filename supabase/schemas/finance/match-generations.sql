-- Compares the runs of a UTC day with what OpenRouter charged for each of their calls. OpenRouter identifies a call by
-- its generation id, which the gateway stores as the attempt's upstream_request_id.

-- Returns the calls of a day's ended runs that OpenRouter may have charged. generation_id is null if the gateway received
-- none. metered_usd is the run's cost in the books of OpenRouter: 0 if the run is billed by another provider. Not granted
-- to any role.
create or replace function ai.generation_calls(of_day date) returns table (
  run_id uuid, created_at timestamptz, workspace_id uuid, model_id text, metered_usd numeric, generation_id text
)
  language sql stable security invoker set search_path = ''
as $$
  with ended as not materialized (
    select r.id, r.created_at, r.workspace_id, r.model_id, r.cost_usd, r.swept, r.attempts, p.id as provider_id,
      ai.billing_provider(r.billing_name, p.id) = 'openrouter' as is_billed
    from ai.runs r
    cross join lateral (select ai.run_provider(r.routes, r.route) as id) p
    where r.created_at >= of_day::timestamp at time zone 'UTC'
      and r.created_at < (of_day + 1)::timestamp at time zone 'UTC'
      and r.status <> 'running'
  ), providers as (
    select e.provider_id as id from ended e where e.is_billed
    union
    -- The provider of failed attempts, if no run of the day ended with it.
    select 'openrouter' where not exists (select from ended e where e.provider_id = 'openrouter')
  )
  select distinct on (e.created_at, e.id, coalesce(i.generation_id, a.place::text))
    e.id, e.created_at, e.workspace_id, e.model_id, case when e.is_billed then e.cost_usd else 0 end, i.generation_id
  from ended e
  left join lateral rows from (jsonb_to_recordset(e.attempts) as (
    provider text, failure text, upstream_request_id text, may_have_charged boolean
  )) with ordinality as a (provider, failure, upstream_request_id, may_have_charged, place)
    on a.provider in (select p.id from providers p) and a.failure is distinct from 'skipped'
  cross join lateral (
    select case when a.upstream_request_id ~ '^gen-.' then a.upstream_request_id end as generation_id
  ) i
  where i.generation_id is not null
    or a.provider is not null and (
      a.failure is null or a.may_have_charged or a.failure in ('cancelled', 'timeout', 'connection_lost')
    )
    or a.provider is null and e.is_billed and e.cost_usd > 0
    -- Runs that the sweep closed state no billing name.
    or a.provider is null and e.swept and e.provider_id in (select p.id from providers p)
$$;

-- Returns a day's runs at OpenRouter with what OpenRouter answered about their calls. A run with several calls is
-- compared as a whole, because its cost is. state is pending (not all calls have an answer), unnamed (a call has no
-- generation id), unknown (OpenRouter doesn't know a call), differs or equal. Not granted to any role.
create or replace function ai.compare_generations(of_day date) returns table (
  run_id uuid, created_at timestamptz, workspace_id uuid, model_id text, metered_usd numeric, charged_usd numeric,
  own_key_usd numeric, calls bigint, unnamed bigint, pending bigint, unknown bigint, state text
)
  language sql stable security invoker set search_path = ''
as $$
  select s.*, case
    when s.pending > 0 then 'pending'
    when s.unnamed > 0 then 'unnamed'
    -- Runs are stored with 12 decimals.
    when abs(s.charged_usd - s.metered_usd) < 0.000000000001 then 'equal'
    when s.unknown > 0 then 'unknown'
    else 'differs'
  end
  from (
    select c.run_id, c.created_at, c.workspace_id, c.model_id, c.metered_usd,
      coalesce(sum(g.cost_usd), 0) as charged_usd, sum(g.own_key_usd) as own_key_usd, count(*) as calls,
      count(*) filter (where c.generation_id is null) as unnamed,
      count(*) filter (where c.generation_id is not null and g.run_id is null) as pending,
      count(*) filter (where g.run_id is not null and g.cost_usd is null) as unknown
    from ai.generation_calls(of_day) c
    left join ai.generation_costs g on g.run_id = c.run_id and g.generation_id = c.generation_id
    group by c.run_id, c.created_at, c.workspace_id, c.model_id, c.metered_usd
  ) s
$$;

-- Returns the calls of a day to ask OpenRouter about, those never asked first: { outcome: listed, calls: [{ runId,
-- generationId }], remaining } or ai.statement_refusal. These are calls without a known cost or, with asked_before, all
-- calls without an answer since then. remaining is how many the limit leaves out.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_unmatched_generations(
  member_id uuid, workspace uuid, of_day date, asked_before timestamptz, max_calls integer
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.statement_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'listed',
      'calls', coalesce(jsonb_agg(jsonb_build_object('runId', c.run_id, 'generationId', c.generation_id) order by c.place)
        filter (where c.place <= max_calls), '[]'),
      'remaining', count(*) filter (where c.place > max_calls)
    )
    from (
      select c.run_id, c.generation_id,
        row_number() over (order by g.observed_at nulls first, c.created_at, c.generation_id) as place
      from ai.generation_calls(of_day) c
      left join ai.generation_costs g on g.run_id = c.run_id and g.generation_id = c.generation_id
      where c.generation_id is not null
        and (g.observed_at is null or case when asked_before is null then g.cost_usd is null else g.observed_at < asked_before end)
    ) c
  ))
$$;

-- Stores OpenRouter's answers about calls: [{ runId, generationId, costUsd (null: not known), ownKeyUsd }]. A cost stays
-- if OpenRouter no longer knows the call. The change is { reason, requestId, ip }, which the audit log records. Returns {
-- outcome: stored } or ai.statement_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.store_generation_costs(
  member_id uuid, workspace uuid, of_day date, answers jsonb, change jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
begin
  if refusal is not null then
    return refusal;
  end if;
  insert into ai.generation_costs as g (run_id, generation_id, cost_usd, own_key_usd, observed_at)
  select a."runId", a."generationId", a."costUsd", a."ownKeyUsd", clock_timestamp()
  from jsonb_to_recordset(answers) as a ("runId" uuid, "generationId" text, "costUsd" numeric, "ownKeyUsd" numeric)
  -- Concurrent calls lock the rows in the same order.
  order by a."runId", a."generationId"
  on conflict (run_id, generation_id) do update set
    cost_usd = coalesce(excluded.cost_usd, g.cost_usd),
    own_key_usd = case when excluded.cost_usd is null then g.own_key_usd else excluded.own_key_usd end,
    observed_at = excluded.observed_at;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'costs.request_generations',
      'target', 'costs openrouter ' || of_day,
      'after', jsonb_build_object('calls', jsonb_array_length(answers))
    )
  );
  return '{"outcome": "stored"}';
end
$$;

-- Compares a day's runs with OpenRouter's answers: { outcome: compared, asOf, states: [{ state, runs, calls, named,
-- pending, unknown, meteredUsd, chargedUsd, ownKeyUsd }], runs: [{ runId, createdAt, workspaceId, workspaceName (null
-- once deleted), modelId, state, calls, meteredUsd, chargedUsd, differenceUsd, ownKeyUsd }], total } or
-- ai.statement_refusal. runs is a part of the total runs that are neither equal nor pending, the largest difference first
-- within a state. ownKeyUsd is null without calls that another provider charged.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_generation_costs(
  member_id uuid, workspace uuid, of_day date, max_runs integer, skipped_runs integer default 0
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
begin
  if refusal is not null then
    return refusal;
  end if;
  return (
    with compared as materialized (
      select * from ai.compare_generations(of_day)
    ), page as (
      select c.*, array_position(array['differs', 'unknown', 'unnamed'], c.state) as rank
      from compared c
      where c.state in ('differs', 'unknown', 'unnamed')
      order by rank, abs(c.charged_usd - c.metered_usd) desc, c.run_id
      limit max_runs offset skipped_runs
    )
    select jsonb_build_object(
      'outcome', 'compared',
      'asOf', now(),
      'total', (select count(*) from compared c where c.state in ('differs', 'unknown', 'unnamed')),
      'states', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'state', s.state,
          'runs', s.runs,
          'calls', s.calls,
          'named', s.calls - s.unnamed,
          'pending', s.pending,
          'unknown', s.unknown,
          'meteredUsd', trim_scale(s.metered_usd)::text,
          'chargedUsd', trim_scale(s.charged_usd)::text,
          'ownKeyUsd', trim_scale(s.own_key_usd)::text
        ) order by array_position(array['differs', 'unknown', 'unnamed', 'pending', 'equal'], s.state)), '[]')
        from (
          select c.state, count(*) as runs, sum(c.calls) as calls, sum(c.unnamed) as unnamed, sum(c.pending) as pending,
            sum(c.unknown) as unknown, sum(c.metered_usd) as metered_usd, sum(c.charged_usd) as charged_usd,
            sum(c.own_key_usd) as own_key_usd
          from compared c
          group by c.state
        ) s
      ),
      'runs', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'runId', p.run_id,
          'createdAt', p.created_at,
          'workspaceId', p.workspace_id,
          'workspaceName', w.name,
          'modelId', p.model_id,
          'state', p.state,
          'calls', p.calls,
          'meteredUsd', trim_scale(p.metered_usd)::text,
          'chargedUsd', trim_scale(p.charged_usd)::text,
          'differenceUsd', trim_scale(p.charged_usd - p.metered_usd)::text,
          'ownKeyUsd', trim_scale(p.own_key_usd)::text
        ) order by p.rank, abs(p.charged_usd - p.metered_usd) desc, p.run_id), '[]')
        from page p
        left join public.workspaces w on w.id = p.workspace_id
      )
    )
  );
end
$$;
