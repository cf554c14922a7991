-- Separate: every call reads this table and these types, and three functions build the types by position.
set lock_timeout = '500ms';

alter table ai.workspace_policies
  add column model_limits jsonb check (jsonb_typeof(model_limits) = 'object' and model_limits <> '{}');
comment on column ai.workspace_policies.model_limits is
  'Limits by model id, such as {"gpt-5": {"requests": 10, "tokens": 1000}} for each minute. Null: none.';

alter domain ai.rate_scope drop constraint rate_scope_check;
alter domain ai.rate_scope add constraint rate_scope_check check (value in ('key', 'app', 'user', 'workspace', 'model')) not valid;

alter type ai.run_request
  add attribute envelope jsonb,
  add attribute stoppable_providers text[];
alter type ai.caller add attribute model_limits jsonb;
alter type ai.claim
  add attribute model_requests_per_minute integer,
  add attribute model_tokens_per_minute bigint,
  add attribute envelope_id uuid,
  add attribute envelope jsonb,
  add attribute expected_output bigint,
  add attribute expected_usd numeric(24, 12),
  add attribute expected_scopes text[];
alter type ai.settlement
  add attribute envelope_id uuid,
  add attribute feature text,
  add attribute expected_usd numeric,
  add attribute expected_scopes text[];

-- The functions as they are until the file of functions, with the new values.

create or replace function ai.find_callers(calls jsonb, people ai.caller[])
  returns table (place bigint, request ai.run_request, caller ai.caller)
  language sql stable security invoker
as $$
  with requests as materialized (
    select e.place, r as request, k.key
    from jsonb_array_elements(calls) with ordinality as e (call, place)
    cross join lateral jsonb_populate_record(null::ai.run_request, e.call) as r
    left join lateral (
      select k
      from ai.keys k
      where (r.credential).source = 'key'
        and k.secret_hash = decode((r.credential).hash, 'hex')
        and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > now())
      offset 0
    ) as k (key) on true
  )
  select r.place, r.request, c.caller
  from requests r
  left join lateral (
    select row(
      i.source,
      coalesce(i.refused, case
        when (r.request).workspace is null then case i.source when 'app_token' then 'workspace_header_required' end
        when (r.request).workspace <> i.workspace_id::text then 'workspace_mismatch'
      end),
      (i.key).id, (i.key).lineage_id, i.workspace_id, i.actor_id, i.app_id, i.scopes,
      (i.key).allowed_models, (i.key).requests_per_minute, (i.key).tokens_per_minute, (i.key).last_used_at,
      (p.plan).id, (p.plan).payer, (p.plan).markup, (p.plan).initial_credits,
      least((p.plan).requests_per_minute, (w.policy).requests_per_minute),
      least((p.plan).tokens_per_minute, (w.policy).tokens_per_minute),
      (w.policy).allowed_models, (w.policy).denied_models, coalesce((w.policy).provider_cost_visible, true),
      coalesce((w.policy).content_capture, false),
      case (p.plan).payer when 'member' then
        exists (select from public.workspace_members m where m.user_id = i.actor_id and m.workspace_id = i.workspace_id)
      end,
      -- Most workspaces have no budget.
      case when (select true from ai.budgets b where b.workspace_id = i.workspace_id limit 1)
        then '{key,app,member,label,workspace}'::text[]
      end,
      (i.key).entity_id, (i.key).name, (i.key).is_strict, (w.policy).allowed_regions, null
    )::ai.caller as caller
    from (
      select
        'key' as source,
        coalesce(
          case a.status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end,
          -- Without an address, a key with an address list is refused.
          case when not coalesce(
            (r.request).address <<= any ((r.key).allowed_addresses), (r.key).allowed_addresses is null
          ) then 'insufficient_scope' end,
          b.refused
        ) as refused,
        (r.key).workspace_id, (r.key).created_by as actor_id, (r.key).external_app_id as app_id, b.scopes, r.key
      from (select) as one
      left join lateral (
        select f.refused, private.gateway_scopes(a) as scopes
        from private.apps a
        cross join lateral private.gateway_refusal(
          a, (r.key).workspace_id, private.gateway_scopes(a) || array['ai:use']
        ) f
        where a.id = (r.key).external_app_id
        offset 0
      ) as b on true
      cross join lateral (
        select case when (r.key).connection_id is not null then
          -- Runs once for all the calls, and only if a key among them belongs to an agent.
          (select ai.agent_key_statuses(array_agg(distinct (k.key).connection_id)) from requests k)
            ->> (r.key).connection_id::text
        end as status
        offset 0
      ) as a
      where (r.key).id is not null and a.status is distinct from 'over'
      union all
      select
        ((r.request).credential).source, u.refused, u.workspace_id, u.actor_id, u.app_id, u.scopes, null::ai.keys
      from (select (people[r.place]).* offset 0) as u
      where ((r.request).credential).source in ('app_token', 'session') and u.actor_id is not null
    ) as i
    -- The offsets keep lookups by key, even if the statistics are wrong.
    left join lateral (
      select s.id, s.plan_id from public.workspaces s where s.id = i.workspace_id and s.deleted_at is null offset 0
    ) as s on true
    left join lateral (select p as plan from ai.plans p where p.id = s.plan_id offset 0) as p on true
    left join lateral (
      select w as policy from ai.workspace_policies w where w.workspace_id = i.workspace_id offset 0
    ) as w on true
    where s.id is not null or i.source = 'session'
  ) as c on true
$$;

create or replace function ai.price_calls(calls jsonb) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  people ai.caller[] := ai.user_callers(calls);
begin
  return (
    -- Each subquery with `offset 0` computes its columns once, for all the expressions that read them.
    with requests as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        least((c.caller).key_tokens_per_minute, (c.caller).workspace_tokens_per_minute) as token_limit,
        case
          when (c.caller).allowed_regions is null then (c.request).providers
          else ai.providers_in_regions((c.request).providers, (c.request).regions, (c.caller).allowed_regions)
        end as providers
      from ai.find_callers(calls, people) c
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, d.regions, p.routes
      from (select distinct r.model_id, r.providers, (r.request).regions from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers, d.regions) as p
    )
    select coalesce(array_agg(row(
      ai.price_refusal(r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens),
      r.request, r.caller, coalesce((r.caller).entity_id, (r.request).entity_id, (r.request).session_label),
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd, case when (r.request).is_free is not true then (r.caller).budgets end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null, null, null, null, null, null, null, null
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
  outcome ai.run_outcome;
  first_begun timestamptz;
  last_begun timestamptz;
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
  foreach outcome in array parsed loop
    first_begun := least(first_begun, outcome.created_at);
    last_begun := greatest(last_begun, outcome.created_at);
  end loop;

  select
    array_agg(s.due) filter (where s.is_valid) as due,
    array_agg(s.outcome) filter (where s.is_valid) as outcomes,
    array_agg(s.id) filter (where not s.is_valid) as invalid_ids,
    bool_or(s.budget_scopes <> '{}') as has_budgets,
    array_agg(row('workspace', s.workspace_id, null)::ai.limit_subject) filter (where s.window_start is not null)
      || array_agg(row('key', s.key_lineage_id, null)::ai.limit_subject)
        filter (where s.window_start is not null and s.key_lineage_id is not null) as rate_windows,
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
        jsonb_build_object('id', r.id, 'kind', k.kind, 'billed_credits', b.billed_credits::text), null, null,
        null, null
      )::ai.settlement as due,
      r.outcome,
      r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.budget_scopes, r.window_start,
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
        n.outcome
      from (
        select p.place, parsed[p.place] as outcome from generate_subscripts(parsed, 1) as p (place) offset 0
      ) as n
      -- The range lets the planner skip partitions of other months.
      join ai.runs r
        on r.created_at = (n.outcome).created_at and r.id = (n.outcome).id and r.created_at >= first_begun and r.created_at <= last_begun
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
      t.scope, ai.budget_subject(t.scope, d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id), d.workspace_id
    )::ai.limit_subject)
    into locks.budgets
    from unnest(due) as d cross join unnest(d.budget_scopes) as t (scope);
  end if;
  -- An assignment, because `perform` would be one more statement.
  locked := ai.lock_rows(locks);

  begin
    return ai.book_settlements(due, outcomes_due, first_begun, last_begun, idle_since is not null);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for place in 1..cardinality(due) loop
    -- A run changes only once, even if it is reported several times.
    continue when outcomes_due[place].id = last_changed;
    begin
      changed := changed || ai.book_settlements(
        due[place:place], outcomes_due[place:place], first_begun, last_begun, idle_since is not null
      );
      last_changed := outcomes_due[place].id;
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcomes_due[place].id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return changed;
end
$$;
