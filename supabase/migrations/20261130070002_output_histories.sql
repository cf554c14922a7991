-- Separate: every call reads these types, and two functions build them by position.
set lock_timeout = '500ms';

create table ai.output_histories (
  workspace_id uuid not null,
  model_id text not null,
  feature text not null,
  outputs bigint[] not null,
  updated_at timestamptz not null default now(),
  primary key (workspace_id, model_id, feature)
) with (fillfactor = 50);
comment on table ai.output_histories is
  'The output tokens of the last 100 runs of a model and feature in a workspace that has a budget with reserves_expected. '
  'No foreign keys, because settlements would wait for changes of workspaces and models.';
create index output_histories_updated_at_idx on ai.output_histories (updated_at);
select private.protect_table('ai.output_histories');
revoke insert, update, delete, truncate on ai.output_histories from service_role;

alter type ai.run_request add attribute stoppable_providers text[];
alter type ai.claim
  add attribute expected_output bigint,
  add attribute expected_usd numeric(24, 12),
  add attribute expected_scopes text[];
alter type ai.settlement
  add attribute feature text,
  add attribute expected_usd numeric,
  add attribute expected_scopes text[];

-- The functions as they are until the file of functions, with the new values.

create or replace function ai.price_calls(calls jsonb) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  people ai.caller[] := ai.user_callers(calls);
begin
  return (
    -- Each subquery with `offset 0` computes its columns once, for all the expressions that read them.
    with named as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        case
          when (c.caller).allowed_regions is null then (c.request).providers
          else ai.providers_in_regions((c.request).providers, (c.request).regions, (c.caller).allowed_regions)
        end as providers
      from ai.find_callers(calls, people) c
    ),
    requests as materialized (
      select
        n.*, l.model_requests, l.model_tokens,
        least((n.caller).key_tokens_per_minute, l.model_tokens, (n.caller).workspace_tokens_per_minute) as token_limit,
        coalesce((n.caller).entity_id, (n.request).entity_id, (n.request).session_label) as label
      from named n
      -- Most workspaces have no limits by model.
      cross join lateral (
        select
          ((n.caller).model_limits -> n.model_id ->> 'requests')::integer as model_requests,
          ((n.caller).model_limits -> n.model_id ->> 'tokens')::bigint as model_tokens
        offset 0
      ) as l
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, d.regions, p.routes
      from (select distinct r.model_id, r.providers, (r.request).regions from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers, d.regions) as p
    )
    select coalesce(array_agg(row(
      coalesce(
        ai.price_refusal(
          r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens, r.model_tokens
        ),
        case when (e.envelope).id is not null then ai.named_envelope_refusal(r.request, e.envelope) end
      ),
      r.request, r.caller, r.label,
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd,
      case
        when (r.request).is_free then null
        when (e.envelope).id is not null then '{envelope/*}'::text[] || (r.caller).budgets
        else (r.caller).budgets
      end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null, r.model_requests, r.model_tokens, (e.envelope).id,
      case when (e.envelope).id is not null then
        jsonb_build_object('id', (e.envelope).id, 'label', (e.envelope).label)
      end, null, null, null
    )::ai.claim order by r.place), '{}')
    from requests r
    left join lateral (
      select m as model
      from ai.usable_models(
        (r.caller).workspace_id, (r.caller).plan_id, (r.caller).workspace_models, (r.caller).denied_models,
        (r.caller).key_models
      ) m
      where m.id = r.model_id and m.kind = (r.request).kind
      offset 0
    ) as m on true
    left join offers o on o.model_id = (m.model).id and o.providers = r.providers
      and o.regions is not distinct from (r.request).regions
    cross join lateral (
      select
        i.image_tokens, i.audio_tokens,
        -- No reading exceeds the context window.
        least(i.text_tokens, (m.model).context_window * (r.request).input_reads) as text_tokens,
        least(
          case when (r.request).output_limit_assumed then
            coalesce((m.model).default_output_limit, (r.request).output_limit)
          else (r.request).output_limit end,
          (m.model).output_limit,
          case when (r.request).output_limit_assumed then ai.assumed_output_limit(
            m.model, least((r.request).expected_tokens, i.text_tokens + i.image_tokens + i.audio_tokens)
          ) end
        ) as output_limit
      from ai.input_tokens((r.request).input_bytes, (r.request).images, (r.request).audio_seconds) as i
      offset 0
    ) as u
    cross join lateral (
      select case when (r.request).is_free then 0 else x.usd end::numeric(24, 12) as usd
      from ai.maximum_cost(
        o.routes, u.text_tokens, u.image_tokens, u.audio_tokens, u.output_limit * coalesce((r.request).choices, 1),
        (r.request).hour_writes, (r.request).service_tier, (r.request).fee_requests, (r.request).kind = 'speech'
      ) as x
      offset 0
    ) as x
    cross join lateral (
      select
        i.input_tokens,
        case when r.token_limit is not null then ai.reserved_tokens(
          i.input_tokens, u.output_limit, (r.request).choices, (r.request).output_limit_assumed, r.token_limit
        ) end as reserved_tokens
      from (
        -- Token limits count one reading, of average size: few calls use a server tool as often as they may.
        select u.text_tokens / coalesce((r.request).input_reads, 1) + u.image_tokens / coalesce((r.request).input_reads, 1)
          + u.audio_tokens as input_tokens
      ) as i
      offset 0
    ) as t
    left join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = ai.payer_id(r.caller) offset 0
    ) as a on true
    -- An envelope has a budget, so a workspace without budgets has no envelope.
    left join lateral (
      select e as envelope
      from ai.find_envelope(
        (r.caller).workspace_id, ai.envelope_principal(r.caller), r.label, (r.request).envelope is not null
      ) e
      where (r.caller).budgets is not null and (r.request).is_free is not true
      offset 0
    ) as e on true
  );
end
$$;

create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
  -- Forces plans that find rows by key, regardless of the table statistics. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  parsed ai.run_outcome[];
  due ai.settlement[];
  outcomes_due ai.run_outcome[];
  batch record;
  locks ai.lock_list;
  locked record;
  changed jsonb := '[]';
  last_changed uuid;
begin
  -- Validating each report first would parse it twice.
  begin
    parsed := array(select jsonb_populate_record(null::ai.run_outcome, e.value) from jsonb_array_elements(outcomes) as e);
  exception when data_exception or integrity_constraint_violation then
    -- Of a report that can't be parsed, only the run that it names is read.
    parsed := array(
      select jsonb_populate_record(null::ai.run_outcome, case
        when jsonb_typeof(e.value) = 'object' and jsonb_populate_record_valid(null::ai.run_outcome, e.value) then e.value
        when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') and pg_input_is_valid(e.value ->> 'id', 'uuid')
          then jsonb_build_object('created_at', e.value -> 'created_at', 'id', e.value -> 'id')
      end)
      from jsonb_array_elements(outcomes) as e
    );
  end;

  select
    array_agg(s.due) filter (where s.is_valid) as due,
    array_agg(s.outcome) filter (where s.is_valid) as outcomes,
    array_agg(s.id) filter (where not s.is_valid) as invalid_ids,
    bool_or(s.budget_scopes <> '{}') as has_budgets,
    array_agg(row('workspace', s.workspace_id, null)::ai.limit_subject) filter (where s.window_start is not null)
      || array_agg(row('key', s.key_lineage_id, null)::ai.limit_subject)
        filter (where s.window_start is not null and s.key_lineage_id is not null)
      || array_agg(row('model', ai.model_window_id(s.workspace_id, s.model_id), null)::ai.limit_subject)
        filter (where s.window_start is not null and s.has_model_limit) as rate_windows,
    array_agg(s.account_id) filter (where s.account_id is not null) as accounts
  into batch
  from (
    select
      row(
        r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, r.budget_scopes, r.request_id,
        r.model_id, r.has_key, k.kind, b.billed_credits - k.billed_credits, k.reserved_credits, b.cost_usd - k.cost_usd,
        k.reserved_usd,
        case
          -- The sweep closes the run without known usage, so its reservation is shown but not charged.
          when idle_since is not null and o.usage_source = 'unavailable' then ai.usd_to_credits(r.reserved_usd, r.markup)
          when r.exempt then b.credits
          else 0
        end,
        b.billed_credits, r.window_start, r.counted_tokens,
        jsonb_build_object('id', r.id, 'kind', k.kind, 'billed_credits', b.billed_credits::text), r.envelope_id, null,
        null, null
      )::ai.settlement as due,
      r.outcome,
      r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.budget_scopes, r.window_start, r.model_id,
      case when r.window_start is not null then exists (
        select from ai.workspace_policies p where p.workspace_id = r.workspace_id and p.model_limits ? r.model_id
      ) end as has_model_limit,
      (o.usage_source is not null and o.status <> 'running'
        and (o.usage_source = 'unavailable' or num_nulls(o.cost_usd, o.credits) = 0)
        and least(o.cost_usd, o.credits, 0) >= 0 and greatest(o.cost_usd, o.credits, 0) < 'Infinity'
        and least(
          o.input_tokens, o.cached_input_tokens, o.audio_input_tokens, o.output_tokens, o.reasoning_tokens,
          o.audio_output_tokens, o.cache_write_tokens, o.cache_write_1h_tokens, o.image_input_tokens, o.fee_requests, 0
        ) >= 0) is true as is_valid
    from (
      select
        r.created_at, r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id,
        r.budget_scopes, r.request_id, r.model_id, r.idempotency_key is not null as has_key, r.status = 'running' as is_open,
        r.swept, r.touched_at, r.exempt, r.markup, r.reserved_credits, r.reserved_usd, r.billed_credits, r.cost_usd,
        case when r.tokens_reserved_at >= date_trunc('minute', now()) then r.tokens_reserved_at end as window_start,
        case r.status when 'running' then r.reserved_tokens else r.input_tokens + r.output_tokens end as counted_tokens,
        r.envelope_id, n.outcome
      from (
        select p.place, parsed[p.place] as outcome from generate_subscripts(parsed, 1) as p (place) offset 0
      ) as n
      -- Without a range of created_at, with which Postgres would read all the runs between the oldest and the newest.
      join ai.runs r
        on r.created_at = (n.outcome).created_at and r.id = (n.outcome).id
      order by r.account_id, r.id, n.place
      for update of r
    ) as r
    cross join lateral (select (r.outcome).*) as o
    cross join lateral (
      select
        case when r.is_open then 'usage' else 'adjustment' end as kind,
        case when r.is_open then 0 else r.billed_credits end as billed_credits,
        case when r.is_open then 0 else r.cost_usd end as cost_usd,
        case when r.is_open then r.reserved_credits else 0 end as reserved_credits,
        case when r.is_open then r.reserved_usd else 0 end as reserved_usd
    ) as k
    cross join lateral (
      select
        round(coalesce(o.cost_usd, 0), 12) as cost_usd, round(coalesce(o.credits, 0), 8) as credits,
        round(case when r.exempt then 0 else coalesce(o.credits, 0) end, 8) as billed_credits
    ) as b
    -- A run can change if it is open, or if the sweep closed it before the provider's token counts arrived.
    where case
      when r.is_open then (r.touched_at >= idle_since) is not true
      else idle_since is null and r.swept and o.usage_source in ('provider', 'provider_partial') and o.estimated is not true
    end
  ) as s;
  if batch.invalid_ids is not null then
    raise warning 'run % cannot be booked: a run ends with a status, a usage source, a cost and counts of at least 0',
      array_to_string(batch.invalid_ids, ', ') using errcode = 'check_violation';
  end if;
  if batch.due is null then
    return '[]';
  end if;
  due := batch.due;
  outcomes_due := batch.outcomes;
  locks.rate_windows := batch.rate_windows;
  locks.accounts := batch.accounts;
  if batch.has_budgets then
    select array_agg(row(
      split_part(t.entry, '/', 1),
      ai.budget_subject(split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id),
      d.workspace_id
    )::ai.limit_subject)
    into locks.budgets
    from unnest(due) as d
    cross join unnest(d.budget_scopes) as t (entry);
  end if;
  -- An assignment, because `perform` would be one more statement.
  locked := ai.lock_rows(locks);

  begin
    return ai.book_settlements(due, outcomes_due, idle_since is not null);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for place in 1..cardinality(due) loop
    -- A run changes only once, even if it is reported several times.
    continue when outcomes_due[place].id = last_changed;
    begin
      changed := changed || ai.book_settlements(
        due[place:place], outcomes_due[place:place], idle_since is not null
      );
      last_changed := outcomes_due[place].id;
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcomes_due[place].id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return changed;
end
$$;
