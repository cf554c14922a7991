-- Functions of the gateway.

-- schemas/gateway/money.sql

create or replace function ai.tokens_cost_usd(
  prices jsonb, input numeric, cached_input numeric, audio_input numeric, output numeric, audio_output numeric
) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
as $$
declare
  cached numeric := least(cached_input, input);
  heard numeric := least(audio_input, input - cached);
  spoken numeric := least(audio_output, output);
  tier jsonb := prices -> 0;
begin
  -- Tiers stand in ascending order.
  for place in 1..jsonb_array_length(prices) - 1 loop
    exit when (prices -> place ->> 'min_input_tokens')::numeric > input;
    tier := prices -> place;
  end loop;
  return (
    (input - cached - heard) * (tier ->> 'input')::numeric
    + cached * coalesce(tier ->> 'cached_input', tier ->> 'input')::numeric
    + heard * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
    + (output - spoken) * (tier ->> 'output')::numeric
    + spoken * coalesce(tier ->> 'audio_output', tier ->> 'output')::numeric
  ) * 0.000001;
end
$$;
comment on function ai.tokens_cost_usd(jsonb, numeric, numeric, numeric, numeric, numeric) is
  'What tokens cost at a route''s prices (tiers, USD per million tokens): exact, with at most twelve decimals. Cached '
  'and audio tokens are parts of the input, reasoning and audio tokens parts of the output, as OpenAI counts them.';

create or replace function ai.usage_cost_usd(prices jsonb, usage jsonb) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ai.tokens_cost_usd(
    prices,
    coalesce((usage ->> 'input_tokens')::numeric, 0),
    coalesce((usage ->> 'cached_input_tokens')::numeric, 0),
    coalesce((usage ->> 'audio_input_tokens')::numeric, 0),
    coalesce((usage ->> 'output_tokens')::numeric, 0),
    coalesce((usage ->> 'audio_output_tokens')::numeric, 0)
  )
$$;
comment on function ai.usage_cost_usd(jsonb, jsonb) is 'As ai.tokens_cost_usd, of usage as a provider call is told with it.';

create or replace function ai.round_half_even(amount numeric, scale integer) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
as $$
declare
  rounded numeric := round(amount, scale);
  shifted numeric;
begin
  if rounded = amount then
    return rounded;
  end if;
  shifted := amount * ('1e' || scale)::numeric;
  -- round() goes away from zero at a tie; only a tie over an even digit differs.
  if abs(shifted - trunc(shifted)) = 0.5 and mod(trunc(shifted), 2) = 0 then
    return trunc(amount, scale);
  end if;
  return rounded;
end
$$;
comment on function ai.round_half_even(numeric, integer) is
  'Rounds to scale decimals, ties to the even digit (IEEE 754 roundTiesToEven), exactly.';

create or replace function ai.usd_to_credits(amount_usd numeric, markup numeric) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ai.round_half_even(amount_usd * 10000 * markup, 8)
$$;
comment on function ai.usd_to_credits(numeric, numeric) is '1 credit is USD 0.0001 before the plan''s markup.';

-- schemas/gateway/credits.sql

create or replace function ai.open_credit_account(payer text, owner_id uuid, initial_credits numeric) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  account_id uuid;
begin
  insert into ai.credit_accounts (workspace_id, user_id, balance)
  values (
    case payer when 'workspace' then owner_id end,
    case payer when 'member' then owner_id end,
    initial_credits
  )
  on conflict do nothing
  returning id into account_id;

  if account_id is null then
    select a.id into account_id
    from ai.credit_accounts a
    where case payer when 'workspace' then a.workspace_id = owner_id else a.user_id = owner_id end;
  elsif initial_credits > 0 then
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
    values (account_id, 'grant', initial_credits, initial_credits, 'Initial credits of the plan');
  end if;
  return account_id;
end
$$;
comment on function ai.open_credit_account(text, uuid, numeric) is
  'The account of a payer, opened with its plan''s credits where there was none. Of many concurrent callers one opens it.';

create or replace function ai.grant_credits(payer text, owner_id uuid, amount numeric, description text) returns numeric
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  account uuid := ai.open_credit_account(payer, owner_id, 0);
  new_balance numeric;
begin
  update ai.credit_accounts a set balance = a.balance + amount where a.id = account returning a.balance into new_balance;
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
  values (account, 'grant', amount, new_balance, grant_credits.description);
  return new_balance;
end
$$;
comment on function ai.grant_credits(text, uuid, numeric, text) is
  'Adds credits to the balance of a workspace or a member (payer as in ai.plans) and returns the new balance. For the '
  'operator: no role of the API may run it.';

create or replace function ai.reject_credit_account_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if tg_op <> 'DELETE' then
    raise exception 'an account is a workspace''s or a person''s' using errcode = 'check_violation';
  end if;
  if exists (select from ai.credit_ledger l where l.account_id = old.id) then
    raise exception 'an account with entries in the ledger stays' using errcode = 'restrict_violation';
  end if;
  return old;
end
$$;
comment on function ai.reject_credit_account_change() is
  'Says no to what no account may be, and to losing one that has been booked on.';

create or replace function ai.reject_incomplete_ledger_entry() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if num_nulls(new.run_id, new.run_created_at) = 1 or new.kind in ('usage', 'adjustment') then
    raise exception 'an entry is of a run, or of none and neither usage nor adjustment' using errcode = 'check_violation';
  end if;
  return null;
end
$$;
comment on function ai.reject_incomplete_ledger_entry() is 'Says no to an entry that is only half a run''s.';

create or replace function ai.reject_ledger_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'the ledger is append-only' using errcode = 'restrict_violation';
end
$$;
comment on function ai.reject_ledger_change() is 'A wrong entry is righted by another entry.';

-- schemas/gateway/runs.sql

create or replace function ai.run_id(moment timestamptz) returns uuid
  language sql
  volatile
  security invoker
  parallel safe
as $$
  select encode(
    set_byte(
      overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send(floor(extract(epoch from moment) * 1000)::bigint) from 3)
        from 1 for 6
      ),
      6,
      112 + floor(random() * 16)::integer
    ),
    'hex'
  )::uuid
$$;
comment on function ai.run_id(timestamptz) is 'A UUID version 7 (RFC 9562, 5.7) of a moment, in milliseconds.';

create or replace function ai.new_run_id(run_id_suffix text) returns uuid
  language sql
  volatile
  security invoker
as $$
  select ('0' || to_hex(floor(extract(epoch from now()) * 1000)::bigint) || '7000' || run_id_suffix)::uuid
$$;
comment on function ai.new_run_id(text) is
  'The id of a run that begins now, as ai.run_id makes them, but that its random part is the end alone, which the gateway '
  'chooses: by it it finds the run of a begin whose answer never came. In few functions, since each is made ready anew for '
  'every call; milliseconds have eleven digits until the year 2527.';

create or replace function ai.create_run_partitions(months_ahead integer default 3) returns integer
  language plpgsql
  volatile
  security invoker
  -- The months' edges are UTC's, whatever the caller's time zone.
  set timezone = 'UTC'
  set search_path = ''
as $$
declare
  first_day timestamptz;
  partition text;
  created integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('ai.create_run_partitions', 0));
  for first_day in
    select generate_series(date_trunc('month', now()), date_trunc('month', now()) + months_ahead * interval '1 month', '1 month')
  loop
    partition := format('ai.runs_%s', to_char(first_day, 'YYYY_MM'));
    continue when to_regclass(partition) is not null;
    if exists (select from ai.runs_default r where r.created_at >= first_day and r.created_at < first_day + interval '1 month') then
      raise warning 'the default partition of ai.runs already holds runs of %, which stay there', to_char(first_day, 'YYYY-MM');
      continue;
    end if;
    execute format(
      -- A run is written twice, when it begins and when it ends: with room for that beside it, and as long as no index has
      -- what its end changes, its index entries stay as they are.
      'create table %s partition of ai.runs for values from (%L) to (%L) with (fillfactor = 45)',
      partition, first_day, first_day + interval '1 month'
    );
    perform ai.protect_partition(partition::regclass);
    created := created + 1;
  end loop;
  return created;
end
$$;
comment on function ai.create_run_partitions(integer) is
  'Makes the monthly partitions of ai.runs up to so many months ahead, each closed like its parent. Returns how many '
  'it made.';

create or replace function ai.protect_partition(target regclass) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  execute format('alter table %s enable row level security', target);
  execute format('revoke all on %s from public, anon, authenticated', target);
  execute format('revoke insert, update, delete, truncate on %s from service_role', target);
  -- Comes with 20260923130000_required_account_mfa.sql, which protects by itself what was made before it.
  if to_regprocedure('private.protect_table(regclass)') is not null then
    execute format('select private.protect_table(%L::regclass)', target);
  end if;
end
$$;
comment on function ai.protect_partition(regclass) is
  'A partition inherits neither row-level security nor policies nor grants: it gets them here.';

create or replace function ai.reject_incomplete_settlement() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.status <> 'running' or new.settled_at is not null then
    raise exception 'a run ends with its moment and the source of its counts, as ai.settle_runs ends it'
      using errcode = 'check_violation';
  end if;
  return null;
end
$$;
comment on function ai.reject_incomplete_settlement() is
  'Says no to a run that ends without what it was charged by: what is held for it would be held for good.';

-- schemas/gateway/callers.sql

create or replace function ai.find_caller(call jsonb) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
begin
  case call -> 'credential' ->> 'source'
    when 'key' then
      caller := ai.key_caller(decode(call -> 'credential' ->> 'hash', 'hex'), (call ->> 'address')::inet);
    when 'app_token', 'session' then
      caller := ai.user_caller(call);
    else
      return null;
  end case;
  if caller.refused is null then
    -- Within each other: what is not come to is not made ready.
    if call ->> 'workspace' is null then
      if caller.source = 'app_token' then
        caller.refused := 'workspace_header_required';
      end if;
    elsif call ->> 'workspace' <> caller.workspace_id::text then
      caller.refused := 'workspace_mismatch';
    end if;
  end if;
  return caller;
end
$$;
comment on function ai.find_caller(jsonb) is
  'Who makes a call, and why they may not; nulls when the credential is unknown, revoked, expired or of a deleted '
  'workspace. Keys and tokens come as the SHA-256 of their text, sessions as claims that the gateway has verified.';

create or replace function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  key ai.keys;
  plan_id text;
  plan ai.plans;
  policy ai.workspace_policies;
  is_member boolean;
  budgets text[];
  refused text;
begin
  -- One row of one table by its key each: a join of them takes longer to start than all of these to run.
  select k.* into key
  from ai.keys k
  where k.secret_hash = key_caller.secret_hash
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
  if not found then
    return null;
  end if;
  select s.plan_id into plan_id from public.workspaces s where s.id = key.workspace_id and s.deleted_at is null;
  if not found then
    return null;
  end if;
  select p.* into plan from ai.plans p where p.id = plan_id;
  select w.* into policy from ai.workspace_policies w where w.workspace_id = key.workspace_id;
  if plan.payer = 'member' then
    perform from public.workspace_members m where m.workspace_id = key.workspace_id and m.user_id = key.created_by;
    is_member := found;
  end if;
  -- Few workspaces have any.
  perform from ai.budgets b where b.workspace_id = key.workspace_id;
  if found then
    budgets := ai.budget_scopes(key.workspace_id, key.lineage_id, key.external_app_id);
  end if;
  if key.allowed_addresses is not null or key.external_app_id is not null then
    refused := case
      -- No address told, no address allowed.
      when key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false)
        then 'insufficient_scope'
      -- A bound key stands for its app.
      when key.external_app_id is not null and not ai.app_can_act_in_workspace(key.external_app_id, key.workspace_id)
        then 'app_not_allowed'
    end;
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, null,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, budgets
  )::ai.caller;
end
$$;
comment on function ai.key_caller(bytea, inet) is
  'Whose key it is by the SHA-256 of its text, and what holds for it; nulls where it is unknown, revoked, expired or of a '
  'deleted workspace. It is what nearly every call asks.';

create or replace function ai.user_caller(call jsonb) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
begin
  if call -> 'credential' ->> 'source' = 'app_token' then
    select t.refused, t.workspace_id, t.user_id, t.app_id, t.scopes
    into caller.refused, caller.workspace_id, caller.actor_id, caller.app_id, caller.scopes
    from ai.find_app_token(decode(call -> 'credential' ->> 'hash', 'hex')) t
    where t.refused is distinct from 'invalid_api_key';
  else
    caller.workspace_id := (call ->> 'workspace')::uuid;
    select s.user_id, s.refused into caller.actor_id, caller.refused
    from ai.session_caller(call -> 'credential' -> 'claims', caller.workspace_id) s;
  end if;
  if caller.actor_id is null then
    return null;
  end if;

  caller.source := call -> 'credential' ->> 'source';
  select
    p.id, p.payer, p.markup, p.initial_credits,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
    w.allowed_models, w.denied_models, coalesce(w.provider_cost_visible, true), coalesce(w.content_capture, false)
  into
    caller.plan_id, caller.payer, caller.markup, caller.initial_credits,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.workspace_models, caller.denied_models, caller.cost_visible, caller.capture
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  where s.id = caller.workspace_id and s.deleted_at is null;
  if not found then
    return case caller.source when 'session' then caller end;
  end if;
  caller.actor_is_member := private.is_workspace_member(caller.actor_id, caller.workspace_id);
  caller.budgets := ai.budget_scopes(caller.workspace_id, null, caller.app_id);
  return caller;
end
$$;
comment on function ai.user_caller(jsonb) is
  'For whom an app''s token or a session''s claims speak, and what holds for them; nulls where they are good for nobody.';

create or replace function ai.session_caller(claims jsonb, workspace uuid, out user_id uuid, out refused text)
  language plpgsql
  stable
  security invoker
as $$
begin
  select
    f.user_id,
    case
      when private.required_mfa_state(f.app_metadata) = 'malformed' then 'AUTH_UNAVAILABLE'
      when not private.session_satisfies_mfa(claims) then 'MFA_REQUIRED'
      when workspace is null then 'workspace_header_required'
      when not private.user_has_workspace_permission(f.user_id, workspace, 'use_ai_studio') then 'insufficient_scope'
    end
  into session_caller.user_id, session_caller.refused
  from private.session_facts(claims) f
  where not f.banned and not f.deleted;
end
$$;
comment on function ai.session_caller(jsonb, uuid) is
  'Whom a session''s verified claims stand for, and why the gateway refuses them; nulls once session or account are over. '
  'Trusts the claims: granted to nobody.';

create or replace function ai.budget_scopes(workspace uuid, lineage uuid, app uuid) returns text[]
  language plpgsql
  stable
  security invoker
as $$
begin
  return nullif(array(
    select b.scope
    from ai.budgets b
    where b.workspace_id = workspace and b.subject_id = ai.budget_subject(b.scope, lineage, app, workspace)
  ), '{}');
end
$$;
comment on function ai.budget_scopes(uuid, uuid, uuid) is 'The scopes of the budgets that hold for a key''s lineage, an app and a workspace; null for none.';

create or replace function ai.budget_subject(scope text, lineage uuid, app uuid, workspace uuid) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select case scope when 'key' then lineage when 'app' then app else workspace end
$$;
comment on function ai.budget_subject(text, uuid, uuid, uuid) is 'Whose budget a scope means for one run.';

create or replace function ai.record_key_use(caller ai.caller) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update ai.keys k set last_used_at = now()
  where k.id = (caller).key_id and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
$$;
comment on function ai.record_key_use(ai.caller) is
  'Keeps keys.last_used_at within a minute of the truth for calls that are no runs.';

create or replace function ai.refusal(code text, details jsonb default '{}') returns jsonb
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select jsonb_build_object('refused', code) || coalesce(details, '{}')
$$;
comment on function ai.refusal(text, jsonb) is 'A refusal by its code in the gateway''s closed list of errors.';

-- schemas/gateway/offers.sql

create or replace function ai.offer_for(call jsonb, caller ai.caller, input_tokens bigint, output_tokens bigint) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  offer ai.model_offers;
  offered ai.route_offer;
begin
  select o.* into offer
  from ai.model_offers o
  where o.model_id = call ->> 'model' and o.valid_from <= now() and o.valid_until > now();
  -- Text in and text out, by lists that all say yes: as nearly all calls are.
  if offer.kind = call ->> 'kind'
    and offer.kind <> 'speech'
    and caller.plan_id = any (offer.plans)
    and call ->> 'voice' is null
    and (call ->> 'audio')::boolean is not true
    and (caller.workspace_models is null or offer.model_id = any (caller.workspace_models))
    and (caller.denied_models is null or not offer.model_id = any (caller.denied_models))
    and (caller.key_models is null or offer.model_id = any (caller.key_models))
    and call -> 'providers' @> offer.providers
  then
    if cardinality(offer.input_usd) = 1 and offer.min_input_tokens[1] = 0 then
      -- As ai.offer_maximum_cost_usd has it, of the one price that nearly all models have.
      offered.maximum_cost_usd := (input_tokens * offer.input_usd[1] + output_tokens * offer.output_usd[1]) * 0.000001;
    else
      offered.maximum_cost_usd := ai.offer_maximum_cost_usd(offer, input_tokens, output_tokens);
    end if;
    if offered.maximum_cost_usd is not null then
      offered.model_id := offer.model_id;
      offered.routes := offer.routes;
      return offered;
    end if;
  end if;
  return ai.offer_from_catalogue(call, caller, input_tokens, output_tokens);
end
$$;
comment on function ai.offer_for(jsonb, ai.caller, bigint, bigint) is
  'What a caller gets the model of a call for: by what is prepared, and by the catalogue where that does not plainly '
  'say yes.';

create or replace function ai.offer_from_catalogue(call jsonb, caller ai.caller, input_tokens bigint, output_tokens bigint) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  wanted text := call ->> 'model';
  audio boolean := coalesce((call ->> 'audio')::boolean, false);
  model ai.models;
  offer record;
  offered ai.route_offer;
begin
  if wanted is null then
    select m.id into wanted from ai.models m where m.kind = call ->> 'kind' and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  where m.id = wanted and m.kind = call ->> 'kind';
  if not found then
    offered.refusal := ai.refusal('model_not_found');
    return offered;
  end if;
  if call ->> 'voice' is not null and not coalesce(call ->> 'voice' = any (model.voices), false) then
    offered.refusal := ai.refusal('invalid_request', '{"param": "voice"}');
    return offered;
  end if;
  if model.kind = 'speech' then
    output_tokens := least(output_tokens, model.output_limit);
  end if;

  select o.* into offer
  from ai.offers(wanted, call -> 'providers', input_tokens, output_tokens, audio, model.kind = 'speech') o;
  offered.refusal := case
    when offer.routes is null then ai.refusal('service_unavailable')
    when audio and not offer.hears then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when offer.maximum_cost_usd is null then ai.refusal('service_unavailable')
  end;
  offered.model_id := model.id;
  offered.voice := coalesce(call ->> 'voice', model.voices[1]);
  offered.routes := offer.routes;
  offered.output_tokens := output_tokens;
  offered.maximum_cost_usd := offer.maximum_cost_usd;
  return offered;
end
$$;
comment on function ai.offer_from_catalogue(jsonb, ai.caller, bigint, bigint) is
  'What a caller gets a model for, of whatever kind, by the catalogue itself; and the one that says why they get none.';

create or replace function ai.offers(
  model text, providers jsonb, input_tokens bigint, output_tokens bigint, audio boolean, speech boolean
)
  returns table (routes jsonb, maximum_cost_usd numeric, hears boolean)
  language sql
  stable
  security invoker
as $$
  select
    jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      order by r.position
    ),
    max(p.maximum_cost_usd),
    bool_and(p.hears)
  from ai.model_routes r
  cross join lateral (
    select
      jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers,
      max(
        (
          input_tokens * greatest(t.input_usd_per_million, case when audio then t.audio_input_usd_per_million end)
          + output_tokens
            * coalesce(case when speech then t.audio_output_usd_per_million end, t.output_usd_per_million)
        ) * 0.000001
      ) filter (where t.min_input_tokens <= input_tokens) as maximum_cost_usd,
      bool_and(t.audio_input_usd_per_million is not null) as hears
    from ai.model_prices t
    where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
  ) as p
  where r.model_id = model and r.enabled and p.tiers is not null and providers ? r.provider_id
$$;
comment on function ai.offers(text, jsonb, bigint, bigint, boolean, boolean) is
  'One row: a model''s routes as ai.priced_routes has them, the maximum cost of a call there as '
  'ai.maximum_cost_usd has it, and whether all of them take audio. Nulls where there is no route with a price.';

create or replace function ai.usable_models(workspace uuid, plan text, workspace_models text[], denied_models text[], key_models text[])
  returns setof ai.models
  language sql
  stable
  security invoker
as $$
  select m.*
  from ai.models m
  where m.enabled
    and m.studio_default
    and (workspace_models is null or m.id = any (workspace_models))
    and not m.id = any (coalesce(denied_models, '{}'))
    and (key_models is null or m.id = any (key_models))
    and exists (
      select from ai.model_grants g where g.model_id = m.id and (g.plan_id = plan or g.workspace_id = workspace)
    )
$$;
comment on function ai.usable_models(uuid, text, text[], text[], text[]) is
  'The intersection of enabled catalogue, Studio defaults, workspace policy, plan or root grants, and the key''s list.';

create or replace function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      order by r.position
    )
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers
      from ai.model_prices t
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
    ) as p
    where r.model_id = model and r.enabled and p.tiers is not null and r.provider_id = any (providers)
  );
end
$$;
comment on function ai.priced_routes(text, text[]) is
  'A model''s routes in order with the prices of now, as far as they have one and lead to a provider of the list. Null '
  'when none does.';

create or replace function ai.reserved_input_tokens(call jsonb) returns bigint
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ((call ->> 'input_bytes')::bigint + 2) / 3 + 1500 * coalesce((call ->> 'images')::bigint, 0)
$$;
comment on function ai.reserved_input_tokens(jsonb) is
  'What a call''s input may count at most: a third of its bytes, and 1,500 an image.';

create or replace function ai.maximum_cost_usd(
  routes jsonb, input_tokens bigint, output_tokens bigint, audio boolean, speech boolean default false
) returns numeric
  language plpgsql
  immutable
  security invoker
  set search_path = ''
as $$
begin
  return (
    select max(
      (
        input_tokens * greatest((tier ->> 'input')::numeric, (tier ->> 'audio_input')::numeric * audio::integer)
        + output_tokens * coalesce(case when speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
    )
    from jsonb_array_elements(routes) as route
    cross join jsonb_array_elements(route -> 'prices') as tier
    where (tier ->> 'min_input_tokens')::bigint <= input_tokens
  );
end
$$;
comment on function ai.maximum_cost_usd is
  'The maximum cost of a provider call: the whole output, nothing cached, at any route, at any tier that the input may '
  'reach; with audio in the input, or with nothing but audio in the output.';

create or replace function ai.offer_maximum_cost_usd(offer ai.model_offers, input_tokens bigint, output_tokens bigint) returns numeric
  language plpgsql
  immutable
  security invoker
as $$
declare
  maximum numeric;
begin
  for tier in 1..cardinality(offer.min_input_tokens) loop
    if offer.min_input_tokens[tier] <= input_tokens then
      maximum := greatest(
        maximum, (input_tokens * offer.input_usd[tier] + output_tokens * offer.output_usd[tier]) * 0.000001
      );
    end if;
  end loop;
  return maximum;
end
$$;
comment on function ai.offer_maximum_cost_usd(ai.model_offers, bigint, bigint) is
  'The maximum cost of a text call, as ai.maximum_cost_usd computes it.';

-- schemas/gateway/prepare-offers.sql

create or replace function ai.refresh_offers(model text) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- Changes of one model wait for each other, and each then sees what was changed before it.
  perform from ai.models m where m.id = refresh_offers.model for no key update;
  delete from ai.model_offers o where o.model_id = refresh_offers.model;
  insert into ai.model_offers (
    model_id, valid_from, valid_until, kind, plans, providers, routes, min_input_tokens, input_usd, output_usd
  )
  select
    m.id, period.valid_from, period.valid_until, m.kind,
    array(select g.plan_id from ai.model_grants g where g.model_id = m.id and g.plan_id is not null),
    offered.providers, offered.routes, priced.min_input_tokens, priced.input_usd, priced.output_usd
  from ai.models m
  cross join (
    select edge.at as valid_from, lead(edge.at, 1, 'infinity') over (order by edge.at) as valid_until
    from (
      select lower(p.valid) from ai.model_prices p where p.model_id = refresh_offers.model
      union
      select upper(p.valid) from ai.model_prices p where p.model_id = refresh_offers.model
    ) as edge (at)
    where edge.at < 'infinity'
  ) as period
  cross join lateral (
    select
      jsonb_agg(distinct r.provider_id) as providers,
      jsonb_agg(
        jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
        order by r.position
      ) as routes
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers
      from ai.model_prices t
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> period.valid_from
    ) as p
    where r.model_id = m.id and r.enabled and p.tiers is not null
  ) as offered
  cross join lateral (
    select
      array_agg(t.min_input_tokens) as min_input_tokens,
      array_agg(t.input_usd_per_million) as input_usd,
      array_agg(t.output_usd_per_million) as output_usd
    from ai.model_routes r
    join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> period.valid_from
    where r.model_id = m.id and r.enabled
  ) as priced
  where m.id = refresh_offers.model
    and m.enabled
    and m.studio_default
    and period.valid_until > now()
    and offered.routes is not null;
end
$$;
comment on function ai.refresh_offers(text) is
  'Puts a model''s offers together anew: of now, and of each moment to come at which a price begins or ends.';

-- Definer: whoever may change the catalogue writes no offers.
create or replace function ai.refresh_changed_offers() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if tg_table_name = 'models' then
    perform ai.refresh_offers(new.id);
    return null;
  end if;
  if tg_op <> 'INSERT' then
    perform ai.refresh_offers(old.model_id);
  end if;
  if tg_op = 'INSERT' or (tg_op = 'UPDATE' and new.model_id <> old.model_id) then
    perform ai.refresh_offers(new.model_id);
  end if;
  return null;
end
$$;
comment on function ai.refresh_changed_offers() is
  'Keeps ai.model_offers true to the catalogue within the transaction that changes it.';

create or replace function ai.reject_price_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.valid is distinct from old.valid
    and (lower(new.valid) is distinct from lower(old.valid) or (upper(old.valid) is not null and upper(old.valid) <= now())) then
    raise exception 'a price''s past cannot be rewritten' using errcode = 'restrict_violation';
  end if;
  -- What is generated is not there yet.
  if (to_jsonb(new) - array['valid', 'as_offered']) is distinct from (to_jsonb(old) - array['valid', 'as_offered']) then
    raise exception 'a price never changes: close its range and add a new one' using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;
comment on function ai.reject_price_change() is 'Keeps the price book true to what runs were charged at.';

-- schemas/gateway/limits.sql

create or replace function ai.consume_rate_limit(
  scope text, subject uuid, request_limit integer, token_limit bigint, tokens bigint, requests integer default 1
) returns ai.rate_window_use
  language plpgsql
  volatile
  security invoker
as $$
declare
  current_minute timestamptz := date_trunc('minute', now());
  taken ai.rate_window_use;
begin
  if request_limit is null and token_limit is null then
    taken.admitted := true;
    return taken;
  end if;

  for attempt in 1..2 loop
    -- A caller that waited for the lock may be of an earlier minute than the row: it counts in the row's.
    update ai.rate_windows w
    set
      requests = case when w.window_start < current_minute then 0 else w.requests end + consume_rate_limit.requests,
      tokens = case when w.window_start < current_minute then 0 else w.tokens end + consume_rate_limit.tokens,
      window_start = greatest(w.window_start, current_minute)
    where w.scope = consume_rate_limit.scope
      and w.subject_id = subject
      and (
        request_limit is null
        or case when w.window_start < current_minute then 0 else w.requests end + consume_rate_limit.requests <= request_limit
      )
      and (
        token_limit is null
        or case when w.window_start < current_minute then 0 else w.tokens end + consume_rate_limit.tokens <= token_limit
      )
    returning true, w.window_start, w.requests, w.tokens into taken;
    if found then
      return taken;
    end if;
    exit when attempt = 2;
    -- No room, or no row: of many first calls at once one makes it, and all of them find room in it.
    insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
    values (consume_rate_limit.scope, subject, current_minute, 0, 0)
    on conflict do nothing;
  end loop;

  return ai.exhausted_rate_window(consume_rate_limit.scope, subject);
end
$$;
comment on function ai.consume_rate_limit is
  'Counts a request and its reserved tokens in the subject''s current minute, unless either limit would be passed. A '
  'request that goes on counts no second time.';

create or replace function ai.exhausted_rate_window(scope text, subject uuid) returns ai.rate_window_use
  language sql
  stable
  security invoker
as $$
  select row(
    false,
    -- greatest() takes no notice of nulls.
    greatest(w.window_start, m.minute),
    coalesce(w.requests, 0),
    coalesce(w.tokens, 0)
  )::ai.rate_window_use
  from (select date_trunc('minute', now()) as minute) as m
  left join ai.rate_windows w
    on w.scope = exhausted_rate_window.scope and w.subject_id = subject and w.window_start >= m.minute
$$;
comment on function ai.exhausted_rate_window(text, uuid) is
  'What is counted in a minute that has no room for a call: a refusal also where the minute was cleared away just now.';

create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[]) returns text
  language sql
  stable
  security invoker
  parallel safe
as $$
  select format('{"minute":%s,"counts":%s}', coalesce(to_json(minute), 'null'), array_to_json(counts))
$$;
comment on function ai.rate_limit_headers(timestamptz, bigint[]) is
  'What a call is told of its limits, as JSON: when the minute began, and of the key''s requests, its tokens, the '
  'workspace''s requests and its tokens the limit and what is counted of it; null for what is not limited. In numbers, '
  'which the gateway puts into words: here each comparison is made ready anew for every call.';

create or replace function ai.reserve_budget(scope text, subject uuid, workspace uuid, amount_usd numeric) returns boolean
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  update ai.budgets b
  set
    reserved_usd = b.reserved_usd + amount_usd,
    spent_usd = case when b.period_start < month then 0 else b.spent_usd end,
    period_start = greatest(b.period_start, month)
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and (
      b.limit_usd is null
      -- A budget of nothing is a closed door, for what costs nothing too.
      or b.limit_usd > 0
        and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
    );
  if found then
    return true;
  end if;
  -- The row that the reservation would have locked, at its place in the order of the locks. Of many that are refused at
  -- once the first notes it; one that only would have been refused before a raise does not.
  update ai.budgets b set refused_at = now()
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end > b.limit_usd
    and (
      b.refused_at is null
      or b.refused_at < greatest(now() - interval '1 minute', month::timestamp at time zone 'UTC')
    );
  return false;
end
$$;
comment on function ai.reserve_budget(text, uuid, uuid, numeric) is
  'Holds an amount of a monthly budget, unless that would pass its limit, or that is 0. A refusal is noted in the budget: '
  'the first of a month, and then at most one a minute.';

create or replace function ai.release_budgets(scopes text[], lineage uuid, app uuid, workspace uuid, amount_usd numeric) returns void
  language sql
  volatile
  security invoker
as $$
  update ai.budgets b set reserved_usd = greatest(b.reserved_usd - amount_usd, 0)
  where b.workspace_id = workspace
    and b.scope = any (scopes)
    and b.subject_id = ai.budget_subject(b.scope, lineage, app, workspace)
$$;
comment on function ai.release_budgets(text[], uuid, uuid, uuid, numeric) is
  'Gives back what budgets hold for a call that is refused after all.';

create or replace function ai.reserve_credits(payer text, owner_id uuid, initial_credits numeric, credits numeric) returns uuid
  language plpgsql
  volatile
  security invoker
as $$
declare
  account uuid;
begin
  for attempt in 1..2 loop
    if payer = 'workspace' then
      update ai.credit_accounts a set reserved = a.reserved + credits
      where a.workspace_id = owner_id and a.balance - a.reserved >= credits
      returning a.id into account;
    else
      update ai.credit_accounts a set reserved = a.reserved + credits
      where a.user_id = owner_id and a.balance - a.reserved >= credits
      returning a.id into account;
    end if;
    exit when account is not null or attempt = 2;
    -- Not enough, or no account: of many first calls at once one opens it, and all of them try it.
    perform ai.open_credit_account(payer, owner_id, initial_credits);
  end loop;
  return account;
end
$$;
comment on function ai.reserve_credits(text, uuid, numeric, numeric) is
  'Holds credits of the payer''s account and returns it; null where the balance does not cover them. Who never paid '
  'before gets an account with the plan''s credits first.';

create or replace function ai.idempotent_refusal(earlier ai.idempotency_keys, fingerprint bytea) returns jsonb
  language sql
  stable
  security invoker
as $$
  select case
    when earlier.fingerprint <> fingerprint then ai.refusal('idempotency_key_reused')
    when earlier.state = 'running' then ai.refusal('request_in_progress')
    else ai.refusal('idempotency_key_used', (
      select jsonb_build_object(
        'run_id', r.id,
        'usage_source', r.usage_source,
        'usage', jsonb_build_object('input_tokens', r.input_tokens, 'output_tokens', r.output_tokens)
      ) || case when c.answer is null then '{}' else jsonb_build_object('answer', c.answer) end
      from ai.runs r
      left join ai.run_content c on c.run_created_at = r.created_at and c.run_id = r.id
      where r.created_at = earlier.run_created_at and r.id = earlier.run_id
    ))
  end
$$;
comment on function ai.idempotent_refusal(ai.idempotency_keys, bytea) is
  'Why a call whose idempotency key is known goes nowhere: never a second provider call, never a second charge. With the '
  'answer, where that was kept.';

-- schemas/gateway/admission.sql

-- Definer: gateway holds no grant on any table. It trusts no id in the call: who calls comes from the credential.
create or replace function ai.begin_run(call jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- The plans do not depend on the call, and making them would cost more than running them.
  set plan_cache_mode = force_generic_plan
  -- Nor on how few rows there were when they were made: rows are found by key here.
  set enable_seqscan = off
  -- A plan that has to read a table after all looks so expensive that JIT would compile it, at every call.
  set jit = off
  -- For each lock; exceeds_caller_timeout looks at all of them together.
  set lock_timeout = '1s'
as $$
declare
  noted boolean;
  answer text;
begin
  -- For release_orphaned_runs, until it is known whether a run begins. Before any other lock; nobody waits for it. Assigned,
  -- since what is performed is a statement.
  noted := pg_advisory_xact_lock(hashtextextended(call ->> 'run_id_suffix', 1)) is not null;
  answer := ai.admit_call(call, ai.find_caller(call));
  if ai.exceeds_caller_timeout() then
    raise exception 'too late for a run to begin' using errcode = 'query_canceled';
  end if;
  return answer;
end
$$;
comment on function ai.begin_run(jsonb) is
  'Decides about a call and, if it may go on, reserves its maximum cost and opens its run. Returns the run with its '
  'routes and prices, or {refused: code, …}, as the text of JSON.';

create or replace function ai.admit_call(call jsonb, caller ai.caller) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  principal uuid;
  exempt boolean;
  this_minute timestamptz := date_trunc('minute', now());
  input_tokens bigint;
  output_tokens bigint;
  reserved_tokens bigint;
  offer ai.route_offer;
  maximum_credits numeric(24, 8) := 0;
  has_idempotency_key boolean := call ->> 'idempotency_key' is not null;
  of_key ai.rate_window_use;
  of_workspace ai.rate_window_use;
  earlier ai.idempotency_keys;
  held text[] := '{}';
  account uuid;
  new_run_id uuid;
begin
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  principal := coalesce(caller.lineage_id, caller.app_id, caller.actor_id);
  -- Whoever calls as a registered app pays no credits: its tokens, and keys that are bound to it.
  exempt := caller.app_id is not null;
  -- Within each other, here and below: what is not come to is not made ready.
  if caller.source = 'app_token' then
    if call ->> 'kind' = 'speech' and not 'tts:use' = any (caller.scopes) then
      return ai.refusal('insufficient_scope');
    end if;
  end if;
  if caller.plan_id is null then
    return ai.refusal('service_unavailable');
  end if;
  if caller.payer = 'member' and not caller.actor_is_member then
    return ai.refusal('insufficient_scope');
  end if;

  input_tokens := ai.reserved_input_tokens(call);
  output_tokens := (call ->> 'output_limit')::bigint * coalesce((call ->> 'choices')::bigint, 1);
  offer := ai.offer_for(call, caller, input_tokens, output_tokens);
  if offer.refusal is not null then
    return offer.refusal;
  end if;
  reserved_tokens := input_tokens + coalesce(offer.output_tokens, output_tokens);
  if not exempt then
    maximum_credits := ai.usd_to_credits(offer.maximum_cost_usd, caller.markup);
  end if;

  if has_idempotency_key then
    perform pg_advisory_xact_lock(
      hashtextextended(concat_ws(' ', caller.workspace_id, principal, call ->> 'idempotency_key'), 0)
    );
    -- The row of the idempotency key will refer to the workspace, and an account's deletion locks that before its keys.
    perform from public.workspaces s where s.id = caller.workspace_id for key share;
  end if;

  if caller.last_used_at is null or caller.last_used_at < now() - interval '1 minute' then
    update ai.keys k set last_used_at = now()
    where k.id = caller.key_id and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute');
  end if;
  -- Nearly always a minute is under way and has room, which is asked in place, as is an account with credits below: to
  -- call a function that does takes a fifth as long again.
  if caller.key_requests_per_minute is not null or caller.key_tokens_per_minute is not null then
    update ai.rate_windows w
    set requests = w.requests + 1, tokens = w.tokens + reserved_tokens
    where w.scope = 'key'
      and w.subject_id = principal
      and w.window_start >= this_minute
      and w.requests < coalesce(caller.key_requests_per_minute, 2147483647)
      and w.tokens <= coalesce(caller.key_tokens_per_minute, 9223372036854775807) - reserved_tokens
    returning true, w.window_start, w.requests, w.tokens into of_key;
    if not found then
      of_key := ai.consume_rate_limit(
        'key', principal, caller.key_requests_per_minute, caller.key_tokens_per_minute, reserved_tokens
      );
      if not of_key.admitted then
        return ai.release_and_refuse('rate_limit_exceeded', caller, of_key, null, held, null);
      end if;
    end if;
  end if;

  if has_idempotency_key then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = call ->> 'idempotency_key'
      and i.expires_at > now();
    if found then
      return ai.idempotent_refusal(earlier, decode(call ->> 'fingerprint', 'hex'));
    end if;
  end if;

  -- key, app, workspace: the order of the locks.
  if caller.budgets is not null then
    if 'key' = any (caller.budgets) then
      if not ai.reserve_budget('key', caller.lineage_id, caller.workspace_id, offer.maximum_cost_usd) then
        return ai.release_and_refuse('budget_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
      held := held || 'key'::text;
    end if;
    if 'app' = any (caller.budgets) then
      if not ai.reserve_budget('app', caller.app_id, caller.workspace_id, offer.maximum_cost_usd) then
        return ai.release_and_refuse('budget_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
      held := held || 'app'::text;
    end if;
  end if;
  if caller.workspace_requests_per_minute is not null or caller.workspace_tokens_per_minute is not null then
    update ai.rate_windows w
    set requests = w.requests + 1, tokens = w.tokens + reserved_tokens
    where w.scope = 'workspace'
      and w.subject_id = caller.workspace_id
      and w.window_start >= this_minute
      and w.requests < coalesce(caller.workspace_requests_per_minute, 2147483647)
      and w.tokens <= coalesce(caller.workspace_tokens_per_minute, 9223372036854775807) - reserved_tokens
    returning true, w.window_start, w.requests, w.tokens into of_workspace;
    if not found then
      of_workspace := ai.consume_rate_limit(
        'workspace', caller.workspace_id, caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
        reserved_tokens
      );
      if not of_workspace.admitted then
        return ai.release_and_refuse('rate_limit_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
    end if;
  end if;
  if caller.budgets is not null then
    if 'workspace' = any (caller.budgets) then
      if not ai.reserve_budget('workspace', caller.workspace_id, caller.workspace_id, offer.maximum_cost_usd) then
        return ai.release_and_refuse('budget_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
      held := held || 'workspace'::text;
    end if;
  end if;
  if not exempt then
    if caller.payer = 'workspace' then
      update ai.credit_accounts a set reserved = a.reserved + maximum_credits
      where a.workspace_id = caller.workspace_id and a.balance - a.reserved >= maximum_credits
      returning a.id into account;
    end if;
    if account is null then
      account := ai.reserve_credits(
        caller.payer, case caller.payer when 'member' then caller.actor_id else caller.workspace_id end,
        caller.initial_credits, maximum_credits
      );
      if account is null then
        return ai.release_and_refuse('insufficient_credits', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
    end if;
  end if;

  if call ? 'run_id_suffix' then
    new_run_id := ai.new_run_id(call ->> 'run_id_suffix');
  else
    new_run_id := ai.run_id(now());
  end if;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes
  )
  values (
    new_run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, call ->> 'feature', call ->> 'request_id',
    call ->> 'entity_id', call ->> 'idempotency_key', coalesce((call ->> 'streamed')::boolean, false), offer.model_id,
    offer.routes, caller.markup, exempt, account, offer.maximum_cost_usd, maximum_credits, held
  );
  if has_idempotency_key then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (
      caller.workspace_id, principal, call ->> 'idempotency_key', decode(call ->> 'fingerprint', 'hex'), now(), new_run_id
    )
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = now(), run_id = new_run_id,
      expires_at = excluded.expires_at;
  end if;

  -- As ai.open_batch_runs answers. Text, put together: json_build_object looks up anew how each value and name is told,
  -- and what is said to be JSON is read once more.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"voice":%s,"routes":%s,"markup":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","cost_visible":%s,"capture":%s,"limits":%s}',
    new_run_id,
    to_json(now()),
    caller.workspace_id,
    to_json(offer.model_id),
    coalesce(to_json(offer.voice), 'null'),
    offer.routes,
    caller.markup,
    exempt::text,
    offer.maximum_cost_usd,
    maximum_credits,
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.rate_limit_headers(coalesce(of_key.started_at, of_workspace.started_at), array[
      caller.key_requests_per_minute, of_key.requests,
      caller.key_tokens_per_minute, of_key.tokens,
      caller.workspace_requests_per_minute, of_workspace.requests,
      caller.workspace_tokens_per_minute, of_workspace.tokens
    ])
  );
end
$$;
comment on function ai.admit_call(jsonb, ai.caller) is
  'Decides about a call of a caller who was just found, and answers as ai.begin_run does. For definers; '
  'trusts the caller: granted to nobody. Made of statements on one table by its key: what starts one of many joins '
  'would cost more than what it does.';

create or replace function ai.release_and_refuse(
  refused text, caller ai.caller, of_key ai.rate_window_use, of_workspace ai.rate_window_use, held text[], amount_usd numeric
) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
begin
  if held <> '{}' then
    perform ai.release_budgets(held, caller.lineage_id, caller.app_id, caller.workspace_id, amount_usd);
  end if;
  return ai.refusal(refused, case when refused = 'rate_limit_exceeded' then jsonb_build_object(
    'limits', ai.rate_limit_headers(coalesce(of_key.started_at, of_workspace.started_at), array[
      caller.key_requests_per_minute, of_key.requests,
      caller.key_tokens_per_minute, of_key.tokens,
      caller.workspace_requests_per_minute, of_workspace.requests,
      caller.workspace_tokens_per_minute, of_workspace.tokens
    ])::json,
    'at', now()
  ) end);
end
$$;
comment on function ai.release_and_refuse(text, ai.caller, ai.rate_window_use, ai.rate_window_use, text[], numeric) is
  'Refuses a call after it was counted, and gives back what budgets hold for it.';

create or replace function ai.exceeds_caller_timeout() returns boolean
  language sql
  volatile
  security invoker
as $$
  select clock_timestamp() - statement_timestamp() > interval '1.2 seconds'
$$;
comment on function ai.exceeds_caller_timeout() is
  'Whether a statement has waited, for whatever and however often, until its caller is about to be turned away (the '
  'gateway waits for 1.5 s).';

-- schemas/gateway/batch-admission.sql

-- Definer: as begin_run.
create or replace function ai.begin_runs(calls jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
  set plan_cache_mode = force_generic_plan
  -- Rows are found by key here, however few there were when the plan was made.
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  -- Nor the rows of all callers kept, and gone through once for each call.
  set enable_material = off
  set jit = off
  -- Whoever holds a lock longer holds up its own calls alone: the others are asked about again, each by itself.
  set lock_timeout = '100ms'
as $$
declare
  answers text;
begin
  if jsonb_path_exists(calls, '$[*].idempotency_key') then
    raise exception 'a call with an idempotency key waits for its like, and is asked about alone' using errcode = 'feature_not_supported';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(c.run_id_suffix, 1)) from jsonb_to_recordset(calls) as c (run_id_suffix text);
  answers := ai.admit_batch(calls);
  if ai.exceeds_caller_timeout() then
    raise exception 'too late for runs to begin' using errcode = 'query_canceled';
  end if;
  return answers;
end
$$;
comment on function ai.begin_runs(jsonb) is
  'Decides about several calls at once, each for itself, and returns begin_run''s answers in their order, as a JSON array. '
  'All or none: where it raises, nothing was held and nothing begun.';

create or replace function ai.admit_batch(calls jsonb) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  plain ai.batch_calls;
  locks ai.lock_list;
  locked ai.locked_rows;
  admitted record;
  answers text[] := array_fill(null::text, array[jsonb_array_length(calls)]);
  callers ai.caller[] := '{}';
begin
  -- To start statements of many joins takes longer than to ask about two calls one by one.
  if cardinality(answers) > 2 then
    plain := ai.find_batch_calls(calls);
    locks := plain.locks;
  end if;
  if cardinality(plain.places) is distinct from cardinality(answers) then
    for place in 1..cardinality(answers) loop
      continue when place = any (plain.places);
      callers[place] := ai.find_caller(calls -> place - 1);
    end loop;
    locks := ai.collect_locks(locks, callers);
  end if;
  locked := ai.lock_rows(locks);
  if locked.payers_found < cardinality(locks.payers) then
    perform ai.open_credit_accounts(callers);
  end if;
  if plain.places is not null then
    perform ai.record_keys_use((plain.locks).keys);
    admitted := ai.admit_batch_calls(plain.calls, locked, (plain.locks).budget_workspaces is not null);
    for at in 1..coalesce(cardinality(admitted.places), 0) loop
      answers[admitted.places[at]] := admitted.answers[at];
    end loop;
  end if;
  -- Each for itself: what was not plain, and what there is no room for.
  for place in 1..cardinality(answers) loop
    if answers[place] is null then
      answers[place] := ai.admit_call(
        calls -> place - 1, coalesce(callers[place], ai.find_caller(calls -> place - 1))
      );
    end if;
  end loop;
  return '[' || array_to_string(answers, ',') || ']';
end
$$;
comment on function ai.admit_batch(jsonb) is
  'Decides about calls as ai.begin_runs says, waiting for locks as long as it takes.';

create or replace function ai.open_credit_accounts(callers ai.caller[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  payer record;
begin
  for payer in
    select distinct
      c.payer as kind,
      case c.payer when 'member' then c.actor_id else c.workspace_id end as id,
      c.initial_credits
    from unnest(callers) as c
    where c.source is not null
      and c.refused is null
      and c.app_id is null
      and (c.payer = 'workspace' or c.actor_is_member)
    order by 2
  loop
    perform ai.open_credit_account(payer.kind, payer.id, payer.initial_credits);
  end loop;
end
$$;
comment on function ai.open_credit_accounts(ai.caller[]) is
  'Opens the accounts of callers that have none, in order, after those are locked that are there.';

create or replace function ai.record_keys_use(keys uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  if keys is not null then
    update ai.keys k set last_used_at = now()
    where k.id = any (keys) and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute');
  end if;
end
$$;
comment on function ai.record_keys_use(uuid[]) is 'Notes, to a minute, that keys are in use. They are locked.';

-- Definer: as begin_run. A run is named by the end of its id, which the gateway chose.
create or replace function ai.release_orphaned_runs(lost jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- Runs are found by when they began, however few there were when the plan was made.
  set enable_seqscan = off
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  if jsonb_typeof(lost -> 'tails') is distinct from 'array' or (lost ->> 'asked_ms_ago')::integer is null then
    raise exception 'lost begins are {"tails": [text], "asked_ms_ago": integer}' using errcode = 'invalid_parameter_value';
  end if;
  for tail in select t.value from jsonb_array_elements_text(lost -> 'tails') as t order by t.value loop
    if pg_try_advisory_xact_lock(hashtextextended(tail, 1)) then
      decided := array_append(decided, tail);
    else
      under_way := array_append(under_way, tail);
    end if;
  end loop;
  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 503,
    'error_code', 'service_unavailable',
    'usage_source', 'unavailable',
    'calls', '[]'::jsonb,
    'latency_ms', floor(extract(epoch from clock_timestamp() - r.created_at) * 1000),
    'steps', '[]'::jsonb,
    'key_unused', true
  )) into outcomes
  from ai.runs r
  where r.status = 'running'
    -- And more, for as long as this call may have been on its way.
    and r.created_at > now() - interval '15 seconds' - (lost ->> 'asked_ms_ago')::integer * interval '1 millisecond'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.settle_batch_or_each(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;
comment on function ai.release_orphaned_runs(jsonb) is
  'For begins whose answer never came: whoever asked was turned away and no provider was called, so that a run that did '
  'begin ends at nothing, and its idempotency key is free. {"tails": [text], "asked_ms_ago": integer}, by the one that was '
  'asked first: all runs since then are looked through. Returns those about which nothing is decided yet.';

-- schemas/gateway/batch-locks.sql

create or replace function ai.collect_locks(locks ai.lock_list, callers ai.caller[]) returns ai.lock_list
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
  payer uuid;
begin
  foreach caller in array callers loop
    continue when caller.source is null or caller.refused is not null or caller.plan_id is null;
    if caller.key_id is not null and (caller.last_used_at is null or caller.last_used_at < now() - interval '1 minute') then
      locks.keys := array_append(locks.keys, caller.key_id);
    end if;
    -- Minutes and payers each once, as they are counted.
    if num_nonnulls(caller.key_requests_per_minute, caller.key_tokens_per_minute) > 0
      and array_position(locks.key_minutes, caller.lineage_id) is null
    then
      locks.key_minutes := array_append(locks.key_minutes, caller.lineage_id);
    end if;
    if num_nonnulls(caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute) > 0
      and array_position(locks.workspace_minutes, caller.workspace_id) is null
    then
      locks.workspace_minutes := array_append(locks.workspace_minutes, caller.workspace_id);
    end if;
    if caller.budgets <> '{}' then
      if 'key' = any (caller.budgets) then
        locks.key_budgets := array_append(locks.key_budgets, caller.lineage_id);
      end if;
      if 'app' = any (caller.budgets) then
        locks.app_budgets := array_append(locks.app_budgets, caller.app_id);
      end if;
      if 'workspace' = any (caller.budgets) then
        locks.workspace_budgets := array_append(locks.workspace_budgets, caller.workspace_id);
      end if;
      locks.budget_workspaces := array_append(locks.budget_workspaces, caller.workspace_id);
    end if;
    if caller.app_id is null and (caller.payer = 'workspace' or caller.actor_is_member) then
      payer := case caller.payer when 'member' then caller.actor_id else caller.workspace_id end;
      if array_position(locks.payers, payer) is null then
        locks.payers := array_append(locks.payers, payer);
      end if;
    end if;
  end loop;
  return locks;
end
$$;
comment on function ai.collect_locks(ai.lock_list, ai.caller[]) is
  'Adds to a list of locks what calls of these callers need.';

create or replace function ai.lock_rows(locks ai.lock_list) returns ai.locked_rows
  language plpgsql
  volatile
  security invoker
as $$
declare
  minutes uuid[] := locks.key_minutes || locks.workspace_minutes;
  scopes text[] := array_fill('key'::text, array[coalesce(cardinality(locks.key_minutes), 0)])
    || array_fill('workspace'::text, array[coalesce(cardinality(locks.workspace_minutes), 0)]);
  this_minute timestamptz := date_trunc('minute', now());
  there bigint := 0;
  accounts uuid[] := locks.accounts;
  locked ai.locked_rows;
begin
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.budget_workspaces is null and minutes is not null then
    -- One by one, here and below: for what is "= any" of a list, Postgres may look at all entries of an index between
    -- those listed, and for a join at the whole index, where it believes that there are few.
    select count(*) into there
    from unnest(scopes, minutes) as s (scope, subject_id)
    cross join lateral (
      select from ai.rate_windows w where w.scope = s.scope and w.subject_id = s.subject_id limit 1
    ) as w;
  end if;
  -- Nearly always all of them are there, and nothing is to be locked between those of keys and those of workspaces.
  if there is distinct from cardinality(minutes) then
    if locks.key_minutes is not null then
      perform ai.lock_rate_windows('key', locks.key_minutes);
    end if;
    if locks.key_budgets is not null then
      perform ai.lock_budgets('key', locks.key_budgets, locks.budget_workspaces);
    end if;
    if locks.app_budgets is not null then
      perform ai.lock_budgets('app', locks.app_budgets, locks.budget_workspaces);
    end if;
    if locks.workspace_minutes is not null then
      perform ai.lock_rate_windows('workspace', locks.workspace_minutes);
    end if;
    if locks.workspace_budgets is not null then
      perform ai.lock_budgets('workspace', locks.workspace_budgets, locks.budget_workspaces);
    end if;
  end if;
  if minutes is not null then
    select
      array_agg(s.scope), array_agg(s.subject_id), array_agg(greatest(w.window_start, this_minute)),
      array_agg(case when w.window_start < this_minute then 0 else w.requests end),
      array_agg(case when w.window_start < this_minute then 0 else w.tokens end)
    into
      locked.minute_scopes, locked.minute_subjects, locked.minute_starts, locked.minute_requests, locked.minute_tokens
    from (select m.scope, m.subject_id from unnest(scopes, minutes) as m (scope, subject_id) order by 1, 2) as s
    cross join lateral (
      select m.window_start, m.requests, m.tokens
      from ai.rate_windows m
      where m.scope = s.scope and m.subject_id = s.subject_id
      for no key update
    ) as w;
  end if;
  if locks.payers is not null then
    select accounts || array_agg(a.id), count(*) into accounts, locked.payers_found
    from unnest(locks.payers) as p (id)
    cross join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = p.id limit 1
    ) as a;
  end if;
  select array_agg(s.id), array_agg(a.credits_left)
  into locked.accounts, locked.credits_left
  from (select distinct a.id from unnest(accounts) as a (id) order by a.id) as s
  cross join lateral (
    select b.balance - b.reserved as credits_left from ai.credit_accounts b where b.id = s.id for no key update
  ) as a;
  return locked;
end
$$;
comment on function ai.lock_rows(ai.lock_list) is
  'Takes the locks of several calls before the first of them is decided about, in the order that begin_run and '
  'settle_runs keep, so that batches, single calls and settlements cannot lock each other out. Returns minutes and '
  'balances as they are then.';

create or replace function ai.lock_rate_windows(window_scope text, subjects uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  there bigint;
begin
  select count(*) into there from ai.rate_windows w where w.scope = window_scope and w.subject_id = any (subjects);
  if there < cardinality(subjects) then
    insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
    select distinct window_scope, s, date_trunc('minute', now()), 0, 0 from unnest(subjects) as s order by s
    on conflict do nothing;
  end if;
  -- After it: what others made in the meantime is there now, and locked by nobody.
  perform from ai.rate_windows w
  where w.scope = window_scope and w.subject_id = any (subjects)
  order by w.subject_id
  for no key update;
end
$$;
comment on function ai.lock_rate_windows(text, uuid[]) is
  'Locks the minutes of some subjects in order, and makes those that are not there before it holds any.';

create or replace function ai.lock_budgets(budget_scope text, subjects uuid[], workspaces uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.budgets b
  where b.scope = budget_scope and b.subject_id = any (subjects) and b.workspace_id = any (workspaces)
  order by b.subject_id, b.workspace_id
  for no key update;
end
$$;
comment on function ai.lock_budgets(text, uuid[], uuid[]) is 'Locks budgets of one scope in order.';

-- schemas/gateway/plain-calls.sql

create or replace function ai.find_batch_calls(calls jsonb) returns ai.batch_calls
  language plpgsql
  volatile
  security invoker
as $$
declare
  plain ai.batch_calls;
  id_head text := left(ai.run_id(now())::text, 19);
begin
  -- One level of joins, and no subselect: what starts a statement costs more here than what it does.
  select
    array_agg(row(
      c.ordinality, (id_head || coalesce(c.run_id_suffix, right(gen_random_uuid()::text, 17)))::uuid,
      c.request_id, c.feature, c.entity_id, coalesce(c.streamed, false),
      k.workspace_id, k.created_by, k.id, k.lineage_id, k.last_used_at,
      k.requests_per_minute, k.tokens_per_minute,
      least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
      held.budgets, a.id, p.markup, coalesce(w.provider_cost_visible, true), coalesce(w.content_capture, false),
      o.model_id, o.routes, t.input + t.output, ai.offer_maximum_cost_usd(o, t.input, t.output)
    )::ai.batch_call order by c.ordinality),
    array_agg(c.ordinality),
    row(
      array_agg(k.id) filter (where k.last_used_at is null or k.last_used_at < now() - interval '1 minute'),
      array_agg(distinct k.lineage_id) filter (where num_nonnulls(k.requests_per_minute, k.tokens_per_minute) > 0),
      array_agg(k.lineage_id) filter (where 'key' = any (held.budgets)),
      null,
      array_agg(distinct k.workspace_id) filter (
        where num_nonnulls(p.requests_per_minute, w.requests_per_minute, p.tokens_per_minute, w.tokens_per_minute) > 0
      ),
      array_agg(k.workspace_id) filter (where 'workspace' = any (held.budgets)),
      array_agg(k.workspace_id) filter (where held.budgets is not null),
      array_agg(a.id),
      null
    )::ai.lock_list
  into plain
  from rows from (
    jsonb_to_recordset(calls) as (
      credential jsonb, address inet, workspace text, request_id text, feature text, entity_id text, run_id_suffix text,
      idempotency_key text, kind text, streamed boolean, model text, voice text, providers jsonb, input_bytes bigint,
      images bigint, audio boolean, output_limit bigint, choices bigint
    )
  ) with ordinality as c
  -- As ai.key_caller finds them.
  join ai.keys k on k.secret_hash = decode(c.credential ->> 'hash', 'hex')
  join public.workspaces s on s.id = k.workspace_id
  join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = k.workspace_id
  join ai.credit_accounts a
    on coalesce(a.workspace_id, a.user_id) = case p.payer when 'workspace' then k.workspace_id else k.created_by end
  -- As ai.usable_models and ai.offers find them.
  join ai.model_offers o on o.model_id = c.model and o.valid_from <= now() and o.valid_until > now()
  cross join lateral (
    select
      (c.input_bytes + 2) / 3 + 1500 * coalesce(c.images, 0) as input,
      c.output_limit * coalesce(c.choices, 1) as output
  ) as t
  cross join lateral (
    select array_agg(b.scope order by b.scope) as budgets
    from ai.budgets b
    where b.workspace_id = k.workspace_id
      and b.subject_id = case b.scope when 'key' then k.lineage_id when 'workspace' then k.workspace_id end
  ) as held
  where c.credential ->> 'source' = 'key'
    and c.idempotency_key is null
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())
    and k.external_app_id is null
    and (k.allowed_addresses is null or c.address <<= any (k.allowed_addresses))
    and (c.workspace is null or c.workspace = k.workspace_id::text)
    and s.deleted_at is null
    and (p.payer = 'workspace' or ai.is_paying_member(k.created_by, k.workspace_id))
    and o.kind = c.kind
    and o.kind <> 'speech'
    and p.id = any (o.plans)
    and c.voice is null
    and not coalesce(c.audio, false)
    and (w.allowed_models is null or o.model_id = any (w.allowed_models))
    and not o.model_id = any (coalesce(w.denied_models, '{}'))
    and (k.allowed_models is null or o.model_id = any (k.allowed_models))
    and c.providers @> o.providers;
  return plain;
end
$$;
comment on function ai.find_batch_calls(jsonb) is
  'The calls of a batch that may go on, as far as their keys, policies and models are concerned, and that are plain enough '
  'for ai.admit_batch_calls. Says nothing about the others.';

create or replace function ai.is_paying_member(member uuid, workspace uuid) returns boolean
  language plpgsql
  stable
  security invoker
as $$
begin
  perform from public.workspace_members m where m.workspace_id = workspace and m.user_id = member;
  return found;
end
$$;
comment on function ai.is_paying_member(uuid, uuid) is
  'Whether somebody who pays for themselves is of the workspace. Apart from the query that asks, which is only for some.';

create or replace function ai.admit_batch_calls(
  plain ai.batch_call[], locked ai.locked_rows, has_budgets boolean, out places integer[], out answers text[]
)
  language plpgsql
  volatile
  security invoker
as $$
declare
  over_budget integer[] := '{}';
  held ai.reserved_calls;
  opened record;
begin
  if has_budgets then
    over_budget := ai.batch_calls_over_budget(plain);
  end if;
  held := ai.reserve_rates_and_credits(plain, over_budget, locked);
  opened := ai.open_batch_runs(plain, held);
  places := opened.places;
  answers := opened.answers;
  if has_budgets and places is not null then
    perform ai.reserve_budgets(plain, places);
  end if;
end
$$;
comment on function ai.admit_batch_calls(ai.batch_call[], ai.locked_rows, boolean) is
  'Admits those of some plain calls that all limits, budgets and balances have room for: reserves, opens their runs '
  'and answers as ai.admit_call does, each at its place. The rows that they need are locked. The others are for '
  'ai.admit_call to decide.';

create or replace function ai.batch_calls_over_budget(plain ai.batch_call[]) returns integer[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
  places integer[];
begin
  select array_agg(b.place) into places
  from (
    select
      c.place, x.limit_usd,
      x.reserved_usd + case when x.period_start < month then 0 else x.spent_usd end
        + sum(c.maximum_cost_usd) over (partition by x.scope, x.subject_id, x.workspace_id order by c.place) as used_usd,
      x.scope is null as gone
    from unnest(plain) as c
    cross join unnest(c.budgets) as t (scope)
    left join ai.budgets x
      on x.scope = t.scope
      and x.subject_id = ai.budget_subject(t.scope, c.lineage_id, null, c.workspace_id)
      and x.workspace_id = c.workspace_id
  ) as b
  where b.gone or b.used_usd > b.limit_usd or b.limit_usd = 0;
  return coalesce(places, '{}');
end
$$;
comment on function ai.batch_calls_over_budget(ai.batch_call[]) is
  'The places of calls that some budget has no room for after those before them. Budgets are locked.';

-- schemas/gateway/admit-plain-calls.sql

create or replace function ai.reserve_rates_and_credits(plain ai.batch_call[], over_budget integer[], locked ai.locked_rows)
  returns ai.reserved_calls
  language plpgsql
  volatile
  security invoker
as $$
declare
  this_minute timestamptz := date_trunc('minute', now());
  minutes integer := coalesce(cardinality(locked.minute_subjects), 0);
  accounts integer := coalesce(cardinality(locked.accounts), 0);
  -- What those before a call have used and left, whether or not they are admitted, and what is due for those that are.
  used_requests bigint[] := locked.minute_requests;
  used_tokens bigint[] := locked.minute_tokens;
  credits_left numeric[] := locked.credits_left;
  due_requests bigint[] := array_fill(0::bigint, array[minutes]);
  reserved_tokens bigint[] := due_requests;
  due_credits numeric[] := array_fill(0::numeric, array[accounts]);
  call ai.batch_call;
  at integer := 0;
  of_key integer;
  of_workspace integer;
  of_account integer;
  credits numeric(24, 8);
  minute timestamptz;
  fits boolean;
  held ai.reserved_calls;
  held_credits numeric(24, 8)[] := array_fill(null::numeric, array[cardinality(plain)]);
  held_limits text[] := array_fill(null::text, array[cardinality(plain)]);
begin
  -- A loop, since windows and groups of so few rows take longer to start than all that they count. What a call finds is
  -- what those before it leave, whether or not they are admitted: none is admitted here that would not be after them, one
  -- by one; and those that are left to that find what they would have found before the others.
  foreach call in array plain loop
    at := at + 1;
    continue when call.maximum_cost_usd is null or call.place = any (over_budget);
    credits := ai.usd_to_credits(call.maximum_cost_usd, call.markup);
    of_account := array_position(locked.accounts, call.account_id);
    fits := of_account is not null;
    if fits then
      credits_left[of_account] := credits_left[of_account] - credits;
      fits := credits_left[of_account] >= 0;
    end if;
    minute := null;
    of_key := null;
    if call.key_requests is not null or call.key_tokens is not null then
      -- Of keys first, as they are locked. A minute that is limited is there.
      of_key := array_position(locked.minute_subjects, call.lineage_id);
      if of_key is null then
        fits := false;
      else
        used_requests[of_key] := used_requests[of_key] + 1;
        used_tokens[of_key] := used_tokens[of_key] + call.tokens;
        fits := fits and least(call.key_requests - used_requests[of_key], call.key_tokens - used_tokens[of_key]) >= 0;
        minute := locked.minute_starts[of_key];
      end if;
    end if;
    of_workspace := null;
    if call.workspace_requests is not null or call.workspace_tokens is not null then
      of_workspace := array_position(locked.minute_subjects, call.workspace_id);
      if of_workspace is null then
        fits := false;
      else
        used_requests[of_workspace] := used_requests[of_workspace] + 1;
        used_tokens[of_workspace] := used_tokens[of_workspace] + call.tokens;
        fits := fits and least(
          call.workspace_requests - used_requests[of_workspace], call.workspace_tokens - used_tokens[of_workspace]
        ) >= 0;
        minute := coalesce(minute, locked.minute_starts[of_workspace]);
      end if;
    end if;
    continue when not fits;
    due_credits[of_account] := due_credits[of_account] + credits;
    if of_key is not null then
      due_requests[of_key] := due_requests[of_key] + 1;
      reserved_tokens[of_key] := reserved_tokens[of_key] + call.tokens;
    end if;
    if of_workspace is not null then
      due_requests[of_workspace] := due_requests[of_workspace] + 1;
      reserved_tokens[of_workspace] := reserved_tokens[of_workspace] + call.tokens;
    end if;
    held_credits[at] := credits;
    held_limits[at] := ai.rate_limit_headers(minute, array[
      call.key_requests, used_requests[of_key],
      call.key_tokens, used_tokens[of_key],
      call.workspace_requests, used_requests[of_workspace],
      call.workspace_tokens, used_tokens[of_workspace]
    ]);
  end loop;
  if minutes > 0 then
    update ai.rate_windows w
    set
      requests = case when w.window_start < this_minute then 0 else w.requests end + due.requests,
      tokens = case when w.window_start < this_minute then 0 else w.tokens end + due.tokens,
      window_start = greatest(w.window_start, this_minute)
    from unnest(locked.minute_scopes, locked.minute_subjects, due_requests, reserved_tokens)
      as due (scope, subject_id, requests, tokens)
    where w.scope = due.scope and w.subject_id = due.subject_id and due.requests > 0;
  end if;
  update ai.credit_accounts a
  set reserved = a.reserved + due.credits
  from unnest(locked.accounts, due_credits) as due (id, credits)
  where a.id = due.id and due.credits <> 0;
  held.credits := held_credits;
  held.limits := held_limits;
  return held;
end
$$;
comment on function ai.reserve_rates_and_credits(ai.batch_call[], integer[], ai.locked_rows) is
  'Counts those calls in their minutes and holds their credits that all of these have room for, as '
  'ai.consume_rate_limit and ai.reserve_credits do for one, by what the rows held when they were locked.';

create or replace function ai.reserve_budgets(plain ai.batch_call[], admitted integer[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  update ai.budgets b
  set
    reserved_usd = b.reserved_usd + due.usd,
    spent_usd = case when b.period_start < month then 0 else b.spent_usd end,
    period_start = greatest(b.period_start, month)
  from (
    select
      t.scope, ai.budget_subject(t.scope, c.lineage_id, null, c.workspace_id) as subject_id, c.workspace_id,
      sum(c.maximum_cost_usd) as usd
    from unnest(plain) as c
    cross join unnest(c.budgets) as t (scope)
    where c.place = any (admitted)
    group by 1, 2, 3
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;
comment on function ai.reserve_budgets(ai.batch_call[], integer[]) is
  'Holds what admitted calls can get of their budgets, as ai.reserve_budget does for one.';

create or replace function ai.open_batch_runs(plain ai.batch_call[], held ai.reserved_calls, out places integer[], out answers text[])
  language plpgsql
  volatile
  security invoker
as $$
declare
  moment text := to_json(now());
begin
  with begun as (
    insert into ai.runs (
      id, workspace_id, actor_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, streamed, model_id, routes, markup, account_id, reserved_usd, reserved_credits, budget_scopes
    )
    select
      c.run_id, c.workspace_id, c.actor_id, c.key_id, c.lineage_id, 'key', 'background', c.feature, c.request_id,
      c.entity_id, c.streamed, c.model_id, c.routes, c.markup, c.account_id, c.maximum_cost_usd, held.credits[c.ordinality],
      coalesce(c.budgets, '{}')
    from unnest(plain) with ordinality as c
    where held.credits[c.ordinality] is not null
  )
  select
    array_agg(c.place),
    -- Text put together: each value of an object that is built is looked up in the catalogue anew, for how it is told.
    array_agg(concat(
      '{"run_id":"', c.run_id,
      '","created_at":', moment,
      ',"workspace_id":"', c.workspace_id,
      '","model":', to_json(c.model_id),
      ',"voice":null,"routes":', c.routes,
      ',"markup":"', c.markup,
      '","exempt":false,"reserved_usd":"', c.maximum_cost_usd,
      '","reserved_credits":"', held.credits[c.ordinality],
      '","cost_visible":', c.cost_visible::text,
      ',"capture":', c.capture::text,
      ',"limits":', held.limits[c.ordinality],
      '}'
    ))
  into places, answers
  from unnest(plain) with ordinality as c
  where held.credits[c.ordinality] is not null;
end
$$;
comment on function ai.open_batch_runs(ai.batch_call[], ai.reserved_calls) is
  'Opens the runs of calls for which everything is held, and answers as ai.admit_call does, in JSON, each at its place.';

-- schemas/gateway/extension.sql

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- As in begin_run.
  set plan_cache_mode = force_generic_plan
as $$
declare
  run ai.runs;
  input_tokens bigint := ai.reserved_input_tokens(step);
  output_tokens bigint := (step ->> 'output_limit')::bigint;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8);
  bounds record;
  rate ai.rate_window_use;
  scope text;
  held text[] := '{}';
  refused text;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.revoked_at is not null or k.expires_at <= now() as key_is_over,
    k.tokens_per_minute as key_tokens,
    least(p.tokens_per_minute, w.tokens_per_minute) as workspace_tokens
  into bounds
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or bounds.key_is_over then
    return ai.refusal('invalid_api_key');
  end if;

  step_usd := ai.maximum_cost_usd(run.routes, input_tokens, output_tokens, coalesce((step ->> 'audio')::boolean, false));
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  total_credits := case when run.exempt then 0 else ai.usd_to_credits(run.reserved_usd + step_usd, run.markup) end;

  rate := ai.consume_rate_limit('key', run.key_lineage_id, null, bounds.key_tokens, input_tokens + output_tokens, 0);
  if not rate.admitted then
    return ai.refusal('rate_limit_exceeded', jsonb_build_object(
      'limits', ai.rate_limit_headers(
        rate.started_at, array[null, null, bounds.key_tokens, rate.tokens, null, null, null, null]
      )::json,
      'at', now()
    ));
  end if;

  -- key, app, workspace: the order of the locks, as in begin_run.
  foreach scope in array array['key', 'app', 'workspace'] loop
    if scope = 'workspace' then
      rate := ai.consume_rate_limit('workspace', run.workspace_id, null, bounds.workspace_tokens, input_tokens + output_tokens, 0);
      if not rate.admitted then
        refused := 'rate_limit_exceeded';
        exit;
      end if;
    end if;
    continue when not scope = any (run.budget_scopes);
    if not ai.reserve_budget(
      scope, ai.budget_subject(scope, run.key_lineage_id, run.app_id, run.workspace_id), run.workspace_id, step_usd
    ) then
      refused := 'budget_exceeded';
      exit;
    end if;
    held := held || scope;
  end loop;
  if refused is null and not run.exempt then
    update ai.credit_accounts a set reserved = a.reserved + total_credits - run.reserved_credits
    where a.id = run.account_id and a.balance - a.reserved >= total_credits - run.reserved_credits;
    refused := case when not found then 'insufficient_credits' end;
  end if;
  if refused is not null then
    perform ai.release_budgets(held, run.key_lineage_id, run.app_id, run.workspace_id, step_usd);
    return ai.refusal(
      refused,
      case when refused = 'rate_limit_exceeded' then jsonb_build_object(
        'limits', ai.rate_limit_headers(
          rate.started_at, array[null, null, null, null, null, null, bounds.workspace_tokens, rate.tokens]
        )::json,
        'at', now()
      ) end
    );
  end if;

  update ai.runs r
  set reserved_usd = r.reserved_usd + step_usd, reserved_credits = total_credits, touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;
comment on function ai.extend_run(jsonb) is
  'Reserves the maximum cost of another provider call of an open run, where limits, budgets and balance allow it and its key '
  'is still good. Returns what the run then holds, or {refused: code, …}.';

-- schemas/gateway/settlement.sql

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.settle_runs(runs jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  return ai.settle_batch_or_each(runs);
end
$$;
comment on function ai.settle_runs(jsonb) is
  'Settles a batch of runs at true cost. Saying it again changes nothing; saying the truth of a run that the sweeper '
  'had to guess posts one adjusting entry.';

create or replace function ai.settle_batch_or_each(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
  -- As in begin_run. Rows are found by key here, however few there were when the plan was made.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set jit = off
as $$
declare
  outcome jsonb;
  ended jsonb := '[]';
begin
  begin
    return ai.settle_batch(ai.parse_outcomes(outcomes), idle_since);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  perform ai.lock_settlement_rows(outcomes);
  for outcome in select o.value from jsonb_array_elements(outcomes) as o order by o.value ->> 'id' loop
    begin
      ended := ended || ai.settle_batch(ai.parse_outcomes(jsonb_build_array(outcome)), idle_since);
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcome ->> 'id', sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return ended;
end
$$;
comment on function ai.settle_batch_or_each(jsonb, timestamptz) is
  'Ends a batch; where it cannot be booked, each of its runs alone, so that one such run, of whatever tenant, holds up no '
  'other. It stays open and is named in the log. What may pass by itself (locks, time limits) is raised, for the batch to be said again.';

create or replace function ai.settle_batch(outcomes ai.run_outcome[], idle_since timestamptz default null) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  batch ai.closed_batch;
begin
  if cardinality(outcomes) = 1 then
    return ai.settle_run(outcomes[1], idle_since);
  end if;
  batch := ai.compute_settlements(outcomes, idle_since);
  if batch.ended is null then
    return '[]';
  end if;
  if batch.have_budgets then
    perform ai.settle_budgets(batch.runs);
  end if;
  perform ai.write_settlements(batch, ai.settle_credits(batch), idle_since is not null);
  if batch.have_keys then
    perform ai.complete_idempotency_keys(batch.runs);
  end if;
  return to_jsonb(batch.ended);
end
$$;
comment on function ai.settle_batch(ai.run_outcome[], timestamptz) is
  'Locks, closes and books a batch. Returns the runs that it changed, and not those that had ended before.';

create or replace function ai.settle_run(outcome ai.run_outcome, idle_since timestamptz) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  run ai.settlement;
  closed ai.closed_run;
  balance numeric;
begin
  select
    r.created_at, r.id, r.workspace_id, r.app_id, r.key_lineage_id, r.idempotency_key is not null, r.routes, r.route,
    r.markup, r.status, r.cost_usd, r.billed_credits, r.exempt, r.account_id, r.reserved_usd, r.reserved_credits,
    r.budget_scopes, r.first_byte_ms, r.touched_at, r.swept
  into run
  from ai.runs r
  where r.created_at = outcome.created_at and r.id = outcome.id
  for update;
  if not found then
    return '[]';
  end if;
  closed := ai.compute_settlement(outcome, run, idle_since);
  if closed.id is null then
    return '[]';
  end if;
  if closed.budget_scopes <> '{}' then
    perform ai.settle_budgets(array[closed]);
  end if;
  update ai.credit_accounts a
  set balance = a.balance - closed.credits_due, reserved = a.reserved - closed.credits_released
  where a.id = closed.account_id
  returning a.balance into balance;
  update ai.runs r
  set
    status = closed.status,
    http_status = closed.http_status,
    error_code = closed.error_code,
    usage_source = closed.usage_source,
    route = closed.route,
    input_tokens = closed.input_tokens,
    cached_input_tokens = closed.cached_input_tokens,
    audio_input_tokens = closed.audio_input_tokens,
    output_tokens = closed.output_tokens,
    reasoning_tokens = closed.reasoning_tokens,
    audio_output_tokens = closed.audio_output_tokens,
    cost_usd = closed.cost_usd,
    billed_credits = closed.billed_credits,
    unmetered_credits = closed.unmetered_credits,
    first_byte_ms = closed.first_byte_ms,
    latency_ms = closed.latency_ms,
    steps = closed.steps,
    touched_at = now(),
    settled_at = now(),
    swept = idle_since is not null
  where r.created_at = closed.created_at and r.id = closed.id;
  if closed.credits_due <> 0 then
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
    values (closed.account_id, closed.kind, -closed.credits_due, balance, closed.created_at, closed.id);
  end if;
  if closed.has_key then
    perform ai.complete_idempotency_keys(array[closed]);
  end if;
  return jsonb_build_array(ai.settlement_summary(closed));
end
$$;
comment on function ai.settle_run(ai.run_outcome, timestamptz) is
  'As ai.settle_batch, for one that comes alone, as most do that are not under load: by rows of one table each, since the '
  'statements of a batch take longer to start.';

create or replace function ai.parse_outcomes(outcomes jsonb) returns ai.run_outcome[]
  language plpgsql
  stable
  security invoker
as $$
declare
  parsed ai.run_outcome[];
begin
  if jsonb_array_length(outcomes) = 1 then
    return array[jsonb_populate_record(null::ai.run_outcome, outcomes -> 0)];
  end if;
  select array_agg(o) into parsed from jsonb_populate_recordset(null::ai.run_outcome, outcomes) as o;
  return parsed;
end
$$;
comment on function ai.parse_outcomes(jsonb) is 'Outcomes as they are told.';

create or replace function ai.lock_settlement_rows(outcomes jsonb) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  runs ai.runs[];
begin
  select array_agg(l.run) into runs
  from (
    select r as run
    from jsonb_array_elements(outcomes) as o
    -- One of them may be why the batch cannot be booked.
    join ai.runs r
      on r.created_at = case
        when pg_input_is_valid(o ->> 'created_at', 'timestamptz') then (o ->> 'created_at')::timestamptz
      end
      and r.id = case when pg_input_is_valid(o ->> 'id', 'uuid') then (o ->> 'id')::uuid end
    order by r.account_id, r.id
    for update of r
  ) as l;
  perform from ai.budgets b
  where (b.scope, b.subject_id, b.workspace_id) in (
    select t.scope, ai.budget_subject(t.scope, r.key_lineage_id, r.app_id, r.workspace_id), r.workspace_id
    from unnest(runs) r
    cross join unnest(r.budget_scopes) as t (scope)
  )
  order by case b.scope when 'key' then 1 when 'app' then 2 else 3 end, b.subject_id, b.workspace_id
  for update;
  perform from ai.credit_accounts a
  where a.id in (select r.account_id from unnest(runs) as r)
  order by a.id
  for no key update;
end
$$;
comment on function ai.lock_settlement_rows(jsonb) is
  'Takes all locks of a batch that is to be ended run by run, in the order in which a batch takes them: one by one, each '
  'run would be locked by whoever has balances of runs before it.';

-- schemas/gateway/compute-settlement.sql

create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.settlement, idle_since timestamptz) returns ai.closed_run
  language plpgsql
  stable
  security invoker
as $$
declare
  open boolean := run.status = 'running';
  used record;
  cost_usd numeric;
  credits numeric(24, 8);
  credits_due numeric(24, 8);
begin
  -- Open runs; and those the sweeper closed, if this is the provider's own word come late.
  if open then
    if run.touched_at >= idle_since then
      return null;
    end if;
  elsif idle_since is not null or not run.swept
    or outcome.usage_source is null or outcome.usage_source not in ('provider', 'provider_partial')
  then
    return null;
  end if;

  if outcome.calls is not null then
    used := ai.sum_calls(outcome.calls, run.routes);
    outcome.route := coalesce(used.last_route, outcome.route);
    outcome.input_tokens := used.input_tokens;
    outcome.cached_input_tokens := used.cached_input_tokens;
    outcome.audio_input_tokens := used.audio_input_tokens;
    outcome.output_tokens := used.output_tokens;
    outcome.reasoning_tokens := used.reasoning_tokens;
    outcome.audio_output_tokens := used.audio_output_tokens;
    outcome.estimated := used.guessed;
    cost_usd := used.known_usd;
    -- The truth is charged whole; a guess within what is left of the reservation.
    if used.guessed then
      cost_usd := cost_usd + least(used.guessed_usd, greatest(run.reserved_usd - cost_usd, 0));
    end if;
  else
    if coalesce(outcome.cached_input_tokens, outcome.audio_input_tokens, outcome.audio_output_tokens) is null
      and jsonb_array_length(run.routes) = 1 and jsonb_array_length(run.routes #> '{0,prices}') = 1
    then
      -- As ai.usage_cost_usd has it.
      cost_usd := (
        coalesce(outcome.input_tokens, 0) * (run.routes #>> '{0,prices,0,input}')::numeric
          + coalesce(outcome.output_tokens, 0) * (run.routes #>> '{0,prices,0,output}')::numeric
      ) * 0.000001;
    else
      cost_usd := ai.tokens_cost_usd(
        ai.route_prices(run.routes, coalesce(outcome.route, run.route)), coalesce(outcome.input_tokens, 0),
        coalesce(outcome.cached_input_tokens, 0), coalesce(outcome.audio_input_tokens, 0), coalesce(outcome.output_tokens, 0),
        coalesce(outcome.audio_output_tokens, 0)
      );
    end if;
    if outcome.estimated then
      cost_usd := least(cost_usd, run.reserved_usd);
    end if;
  end if;
  if outcome.estimated and not open then
    return null;
  end if;
  if outcome.usage_source is null or outcome.status = 'running' or least(
    outcome.input_tokens, outcome.cached_input_tokens, outcome.audio_input_tokens,
    outcome.output_tokens, outcome.reasoning_tokens, outcome.audio_output_tokens
  ) < 0 then
    raise exception 'a run ends with a status, and with counts from somewhere' using errcode = 'check_violation';
  end if;
  credits := ai.usd_to_credits(cost_usd, run.markup);
  credits_due := case when run.exempt then 0 else credits end - case when open then 0 else run.billed_credits end;
  return row(
    run.created_at, run.id, run.workspace_id, run.app_id, run.key_lineage_id, run.account_id, 1,
    run.budget_scopes, case when open then 'usage' else 'adjustment' end,
    credits_due, credits_due, case when open then run.reserved_credits else 0 end,
    cost_usd - case when open then 0 else run.cost_usd end, case when open then run.reserved_usd else 0 end,
    run.has_key, coalesce(outcome.key_unused, false),
    outcome.status, outcome.http_status, outcome.error_code, outcome.usage_source, coalesce(outcome.route, run.route),
    coalesce(outcome.input_tokens, 0), coalesce(outcome.cached_input_tokens, 0), coalesce(outcome.audio_input_tokens, 0),
    coalesce(outcome.output_tokens, 0), coalesce(outcome.reasoning_tokens, 0), coalesce(outcome.audio_output_tokens, 0),
    cost_usd, case when run.exempt then 0 else credits end,
    case
      -- Closed without any count: what it may have cost is shown, not charged.
      when idle_since is not null and outcome.usage_source = 'unavailable'
        then ai.usd_to_credits(run.reserved_usd, run.markup)
      when run.exempt then credits
      else 0
    end,
    coalesce(outcome.first_byte_ms, run.first_byte_ms), outcome.latency_ms, outcome.steps
  )::ai.closed_run;
end
$$;
comment on function ai.compute_settlement(ai.run_outcome, ai.settlement, timestamptz) is
  'What closing a run, which is locked, comes to; null where it stays as it is. With idle_since it is the sweeper, '
  'and closes only what nobody has touched since then.';

create or replace function ai.sum_calls(
  calls jsonb,
  routes jsonb,
  out known_usd numeric,
  out guessed_usd numeric,
  out guessed boolean,
  out last_route smallint,
  out input_tokens bigint,
  out cached_input_tokens bigint,
  out audio_input_tokens bigint,
  out output_tokens bigint,
  out reasoning_tokens bigint,
  out audio_output_tokens bigint
)
  language plpgsql
  immutable
  security invoker
as $$
declare
  one_call jsonb;
  usage jsonb;
  cost numeric;
begin
  known_usd := 0;
  guessed_usd := 0;
  guessed := false;
  input_tokens := 0;
  cached_input_tokens := 0;
  audio_input_tokens := 0;
  output_tokens := 0;
  reasoning_tokens := 0;
  audio_output_tokens := 0;
  -- No statement in here: each would cost more than all the rest of it.
  for at in 0..jsonb_array_length(calls) - 1 loop
    one_call := calls -> at;
    usage := coalesce(one_call -> 'usage', '{}');
    last_route := (one_call ->> 'route')::smallint;
    cost := ai.usage_cost_usd(ai.route_prices(routes, last_route), usage);
    if (one_call ->> 'estimated')::boolean then
      guessed := true;
      guessed_usd := guessed_usd + cost;
    else
      known_usd := known_usd + cost;
    end if;
    input_tokens := input_tokens + coalesce((usage ->> 'input_tokens')::bigint, 0);
    cached_input_tokens := cached_input_tokens + coalesce((usage ->> 'cached_input_tokens')::bigint, 0);
    audio_input_tokens := audio_input_tokens + coalesce((usage ->> 'audio_input_tokens')::bigint, 0);
    output_tokens := output_tokens + coalesce((usage ->> 'output_tokens')::bigint, 0);
    reasoning_tokens := reasoning_tokens + coalesce((usage ->> 'reasoning_tokens')::bigint, 0);
    audio_output_tokens := audio_output_tokens + coalesce((usage ->> 'audio_output_tokens')::bigint, 0);
  end loop;
end
$$;
comment on function ai.sum_calls(jsonb, jsonb) is
  'What the provider calls of a run used and cost together, at the prices of its routes: what is known, and what is guessed.';

create or replace function ai.route_prices(routes jsonb, route smallint) returns jsonb
  language plpgsql
  immutable
  security invoker
as $$
declare
  prices jsonb := routes -> 0 -> 'prices';
begin
  for other in 1..jsonb_array_length(routes) - 1 loop
    if (routes -> other ->> 'position')::smallint = route then
      prices := routes -> other -> 'prices';
    end if;
  end loop;
  return prices;
end
$$;
comment on function ai.route_prices(jsonb, smallint) is
  'The prices of a route: each call is charged by its own tier, one whose route is not known by that of the first.';

create or replace function ai.settlement_summary(run ai.closed_run) returns jsonb
  language sql
  stable
  security invoker
as $$
  select jsonb_build_object('id', (run).id, 'kind', (run).kind, 'billed_credits', (run).billed_credits::text)
$$;
comment on function ai.settlement_summary(ai.closed_run) is 'What is told of a run that was closed.';

-- schemas/gateway/book-settlement.sql

create or replace function ai.compute_settlements(outcomes ai.run_outcome[], idle_since timestamptz) returns ai.closed_batch
  language plpgsql
  volatile
  security invoker
as $$
declare
  pair record;
  run ai.closed_run;
  batch ai.closed_batch;
  closed ai.closed_run[] := '{}';
  ended jsonb[];
  accounts uuid[] := '{}';
  due numeric[] := '{}';
  released numeric[] := '{}';
  count integer := 0;
  place integer := 0;
  last_id uuid;
  first_begun timestamptz;
  last_begun timestamptz;
begin
  -- The months that they began in, so that no other partition is opened.
  select min(o.created_at), max(o.created_at) into first_begun, last_begun from unnest(outcomes) as o;
  for pair in
    select
      o as outcome,
      row(
        r.created_at, r.id, r.workspace_id, r.app_id, r.key_lineage_id, r.idempotency_key is not null, r.routes, r.route,
        r.markup, r.status, r.cost_usd, r.billed_credits, r.exempt, r.account_id, r.reserved_usd, r.reserved_credits,
        r.budget_scopes, r.first_byte_ms, r.touched_at, r.swept
      )::ai.settlement as run
    from unnest(outcomes) as o
    join ai.runs r
      on r.created_at = o.created_at and r.id = o.id and r.created_at >= first_begun and r.created_at <= last_begun
    order by r.account_id, r.id
    for update of r
  loop
    run := ai.compute_settlement(pair.outcome, pair.run, idle_since);
    -- Said twice in one batch: once is enough.
    continue when run.id is null or run.id = last_id;
    last_id := run.id;
    if place = 0 or run.account_id is distinct from accounts[place] then
      place := place + 1;
      accounts[place] := run.account_id;
      due[place] := run.credits_due;
      released[place] := run.credits_released;
    else
      due[place] := due[place] + run.credits_due;
      released[place] := released[place] + run.credits_released;
    end if;
    run.account_place := place;
    run.credits_so_far := due[place];
    if run.has_key then
      batch.have_keys := true;
    end if;
    if run.budget_scopes <> '{}' then
      batch.have_budgets := true;
    end if;
    count := count + 1;
    closed[count] := run;
    ended[count] := ai.settlement_summary(run);
  end loop;
  batch.runs := closed;
  batch.ended := ended;
  batch.accounts := accounts;
  batch.credits_due := due;
  batch.credits_released := released;
  batch.first_begun := first_begun;
  batch.last_begun := last_begun;
  return batch;
end
$$;
comment on function ai.compute_settlements(ai.run_outcome[], timestamptz) is
  'Locks the runs of outcomes, and says what closing each of them comes to, as ai.compute_settlement does.';

create or replace function ai.settle_budgets(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.budgets b
  where (b.scope, b.subject_id, b.workspace_id) in (
    select t.scope, ai.budget_subject(t.scope, c.key_lineage_id, c.app_id, c.workspace_id), c.workspace_id
    from unnest(closed) c
    cross join unnest(c.budget_scopes) as t (scope)
  )
  order by case b.scope when 'key' then 1 when 'app' then 2 else 3 end, b.subject_id, b.workspace_id
  for update;
  update ai.budgets b
  set
    -- A budget that was taken away and set anew holds nothing of the runs from before.
    reserved_usd = greatest(b.reserved_usd - due.released, 0),
    spent_usd = b.spent_usd + due.spent
  from (
    select
      x.scope, x.subject_id, x.workspace_id, sum(c.usd_released) as released,
      -- A run counts in the month that it began in.
      coalesce(sum(c.cost_due_usd) filter (where c.created_at >= x.period_start::timestamp at time zone 'UTC'), 0) as spent
    from unnest(closed) c
    cross join unnest(c.budget_scopes) as t (scope)
    join ai.budgets x
      on x.scope = t.scope
      and x.workspace_id = c.workspace_id
      and x.subject_id = ai.budget_subject(t.scope, c.key_lineage_id, c.app_id, c.workspace_id)
    group by x.scope, x.subject_id, x.workspace_id
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;
comment on function ai.settle_budgets(ai.closed_run[]) is
  'Books closed runs in their budgets, and gives back what those held for them.';

create or replace function ai.settle_credits(batch ai.closed_batch) returns numeric[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  account record;
  balances numeric[];
begin
  -- As it is where one workspace has all of the load.
  if cardinality(batch.accounts) = 1 then
    update ai.credit_accounts a
    set balance = a.balance - batch.credits_due[1], reserved = a.reserved - batch.credits_released[1]
    where a.id = batch.accounts[1]
    returning array[a.balance + batch.credits_due[1]] into balances;
  else
    for account in
      update ai.credit_accounts a
      set balance = a.balance - due.credits, reserved = a.reserved - due.released
      from (
        select x.id, d.credits, d.released, d.place
        from unnest(batch.accounts, batch.credits_due, batch.credits_released)
          with ordinality as d (id, credits, released, place)
        join ai.credit_accounts x on x.id = d.id
        order by x.id
        for update of x
      ) as due
      where a.id = due.id
      returning due.place, a.balance + due.credits as balance
    loop
      balances[account.place] := account.balance;
    end loop;
  end if;
  return balances;
end
$$;
comment on function ai.settle_credits(ai.closed_batch) is
  'Takes what closed runs cost from their accounts and gives back what those held for them. Returns their balances before '
  'it. Budgets come before: the order of the locks.';

create or replace function ai.write_settlements(batch ai.closed_batch, balances numeric[], by_sweeper boolean) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  with closed as (
    update ai.runs r
    set
      status = c.status,
      http_status = c.http_status,
      error_code = c.error_code,
      usage_source = c.usage_source,
      route = c.route,
      input_tokens = c.input_tokens,
      cached_input_tokens = c.cached_input_tokens,
      audio_input_tokens = c.audio_input_tokens,
      output_tokens = c.output_tokens,
      reasoning_tokens = c.reasoning_tokens,
      audio_output_tokens = c.audio_output_tokens,
      cost_usd = c.cost_usd,
      billed_credits = c.billed_credits,
      unmetered_credits = c.unmetered_credits,
      first_byte_ms = c.first_byte_ms,
      latency_ms = c.latency_ms,
      steps = c.steps,
      touched_at = now(),
      settled_at = now(),
      swept = by_sweeper
    from unnest(batch.runs) as c
    where r.created_at = c.created_at and r.id = c.id
      and r.created_at >= batch.first_begun and r.created_at <= batch.last_begun
    returning r.account_id, c.kind, c.credits_due, c.credits_so_far, c.account_place, r.created_at, r.id
  )
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
  select c.account_id, c.kind, -c.credits_due, balances[c.account_place] - c.credits_so_far, c.created_at, c.id
  from closed c
  where c.credits_due <> 0
  order by c.account_place, c.id;
end
$$;
comment on function ai.write_settlements(ai.closed_batch, numeric[], boolean) is
  'Writes how runs ended into them, which are locked, and one ledger entry each.';

create or replace function ai.complete_idempotency_keys(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.idempotency_keys i
  where i.run_id in (select c.id from unnest(closed) as c where c.has_key)
  order by i.run_id
  for update;
  -- Free again only where the provider surely did nothing.
  delete from ai.idempotency_keys i using unnest(closed) as c where c.frees_key and i.run_id = c.id;
  update ai.idempotency_keys i set state = 'finished' from unnest(closed) as c where i.run_id = c.id;
end
$$;
comment on function ai.complete_idempotency_keys(ai.closed_run[]) is
  'Ends the idempotency keys of closed runs. Last, as in begin_run, which has its own when it has the balance.';

-- schemas/gateway/sweep.sql

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.heartbeat_runs(runs jsonb) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  perform from ai.runs r
  join jsonb_to_recordset(runs) as o (created_at timestamptz, id uuid) on r.created_at = o.created_at and r.id = o.id
  -- As settlements lock several.
  order by r.account_id, r.id
  for update of r;
  update ai.runs r
  set
    touched_at = now(),
    route = coalesce(o.route, r.route),
    input_tokens = greatest(r.input_tokens, o.input_tokens),
    output_tokens = greatest(r.output_tokens, o.output_tokens)
  from jsonb_to_recordset(runs) as o (
    created_at timestamptz, id uuid, route smallint, input_tokens bigint, output_tokens bigint
  )
  where r.created_at = o.created_at and r.id = o.id and r.status = 'running';
end
$$;
comment on function ai.heartbeat_runs(jsonb) is 'Says that runs are still alive, and their counts so far.';

-- Definer: the server's service role holds no grant to write runs or balances.
create or replace function ai.sweep_runs() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- A month's runs may be none when a plan is made, and thousands a second when it is used: it is made each time, and of
  -- statements that have a parameter, as those without are planned once. Runs are found by their key, one by one.
  set plan_cache_mode = force_custom_plan
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set jit = off
as $$
declare
  cutoff timestamptz := now() - interval '45 seconds';
  abandoned jsonb;
  ended integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_runs', 0)) then
    return 0;
  end if;
  delete from ai.long_running_runs l
  where l.run_created_at <= cutoff and not exists (
    select from ai.runs r where r.created_at = l.run_created_at and r.id = l.run_id and r.status = 'running'
  );
  perform ai.find_long_running_runs(cutoff);

  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 500,
    'error_code', 'abandoned',
    'usage_source', case when r.input_tokens + r.output_tokens > 0 then 'estimated_partial' else 'unavailable' end,
    'calls', case when r.input_tokens + r.output_tokens > 0 then jsonb_build_array(jsonb_build_object(
      'route', r.route,
      'estimated', true,
      'usage', jsonb_build_object('input_tokens', r.input_tokens, 'output_tokens', r.output_tokens)
    )) end
  ))
  into abandoned
  from (
    -- Drawn, and not the oldest first: those that cannot be booked stay open, and would hold up all others.
    select r.*
    from ai.long_running_runs l
    join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    where r.status = 'running' and r.touched_at < cutoff
    order by random()
    limit 500
  ) as r;
  if abandoned is not null then
    ended := jsonb_array_length(ai.settle_batch_or_each(abandoned, cutoff));
  end if;
  -- Last, since it keeps calls waiting until it is committed.
  if to_regclass(format('ai.runs_%s', to_char(now() at time zone 'UTC' + interval '2 months', 'YYYY_MM'))) is null then
    perform ai.create_run_partitions();
  end if;
  return ended;
end
$$;
comment on function ai.sweep_runs() is
  'Closes runs that nobody has touched for 45 seconds, because their function died: at their last counts, at most what '
  'was reserved, or unavailable at 0. Also keeps partitions ahead. One sweeper at a time; others return 0.';

create or replace function ai.find_long_running_runs(cutoff timestamptz) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  stop_at timestamptz := clock_timestamp() + interval '2 seconds';
  snapshot pg_snapshot := pg_current_snapshot();
  progress ai.sweep_progress;
  seen_before timestamptz;
  whole_until timestamptz := '-infinity';
begin
  select * into strict progress from ai.sweep_progress;
  -- Where the clock was set back, what began since then is later than the cutoff.
  progress.seen_until := least(progress.seen_until, cutoff);
  progress.sure_until := least(progress.sure_until, cutoff);
  -- Or that transaction is of another cluster, out of whose copy this one was made.
  if pg_snapshot_xmin(snapshot) >= progress.marked_xid or pg_snapshot_xmax(snapshot) < progress.marked_xid then
    if progress.marked_at <= now() then
      -- A begin that takes 1.2 seconds undoes itself; one that does not has had its transaction's number by then.
      whole_until := progress.marked_at - interval '5 seconds';
    end if;
    progress.marked_at := now();
    progress.marked_xid := pg_current_xact_id();
  end if;

  seen_before := progress.seen_until;
  while progress.seen_until < cutoff and clock_timestamp() < stop_at loop
    progress.seen_until := ai.record_long_running_runs(progress.seen_until, cutoff);
  end loop;
  whole_until := least(whole_until, progress.seen_until);
  -- None from before are left to be looked through once more.
  if progress.sure_until = seen_before then
    progress.sure_until := greatest(progress.sure_until, whole_until);
  end if;
  while progress.sure_until < whole_until and clock_timestamp() < stop_at loop
    progress.sure_until := ai.record_long_running_runs(progress.sure_until, whole_until);
  end loop;

  update ai.sweep_progress p
  set
    seen_until = progress.seen_until,
    sure_until = progress.sure_until,
    marked_at = progress.marked_at,
    marked_xid = progress.marked_xid
  where p.singleton;
end
$$;
comment on function ai.find_long_running_runs(timestamptz) is
  'Notes in ai.long_running_runs the open ones of the runs that began since it last looked and until the cutoff: each '
  'run is read once, and once more where a transaction of its time was still under way. What would take longer than '
  'two seconds is left to the next visits, so that no time limit can undo all of it, and all again.';

create or replace function ai.record_long_running_runs(seen_until timestamptz, cutoff timestamptz) returns timestamptz
  language plpgsql
  volatile
  security invoker
as $$
declare
  next_begun timestamptz;
  until timestamptz;
begin
  select r.created_at into next_begun
  from ai.runs r
  where r.created_at > seen_until and r.created_at <= cutoff
  order by r.created_at
  limit 1;
  until := least(next_begun + interval '1 minute', cutoff);
  insert into ai.long_running_runs (run_created_at, run_id)
  select r.created_at, r.id
  from ai.runs r
  where r.created_at > seen_until and r.created_at <= until and r.status = 'running'
  on conflict do nothing;
  return until;
end
$$;
comment on function ai.record_long_running_runs(timestamptz, timestamptz) is
  'Notes the open ones of the runs that began between two moments, or in the first minute of these in which there are any. '
  'Returns the moment that it came to.';

-- Definer: the server's service role holds no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 10000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  keys integer;
  windows integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  -- Whoever uses a row at this moment keeps it.
  delete from ai.idempotency_keys i
  using (
    select e.workspace_id, e.principal_id, e.key
    from ai.idempotency_keys e
    where e.expires_at <= now()
    order by e.expires_at
    limit at_most
    for update skip locked
  ) as expired
  where i.workspace_id = expired.workspace_id and i.principal_id = expired.principal_id and i.key = expired.key;
  get diagnostics keys = row_count;

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;
  return keys + windows;
end
$$;
comment on function ai.delete_expired(integer) is
  'Deletes idempotency keys past their 24 hours and rate windows of an hour ago and more, so many of each at most. '
  'Returns how many. One at a time; others return 0.';

-- schemas/gateway/credential-reads.sql

-- Definer: as begin_run.
create or replace function ai.check_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
begin
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  -- As ai.admit_call has it of a call.
  if call ? 'kind' and (
    caller.source = 'app_token' and call ->> 'kind' = 'speech' and not 'tts:use' = any (caller.scopes)
    or caller.payer = 'member' and not caller.actor_is_member
  ) then
    return ai.refusal('insufficient_scope');
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;
comment on function ai.check_credential(jsonb) is
  'For a call whose body is no good, or large: whoever has no credential, or may not make calls of that kind where one is '
  'named, is told that, and nothing of the body. Returns whose it is, or {refused: code}.';

-- Definer: as begin_run.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller;
  listed jsonb;
begin
  caller := ai.find_caller(call);
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  select coalesce(jsonb_agg(ai.model_listing(m, p.routes) order by ai.model_order(m)), '[]') into listed
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  cross join lateral (
    select ai.priced_routes(m.id, array(select jsonb_array_elements_text(call -> 'providers'))) as routes
  ) p
  where p.routes is not null and (call ->> 'model' is null or m.id = call ->> 'model');
  if call ->> 'model' is null then
    return jsonb_build_object('object', 'list', 'data', listed);
  end if;
  return coalesce(listed -> 0, ai.refusal('model_not_found'));
end
$$;
comment on function ai.list_models(jsonb) is
  'The models that a credential may use and that can be reached and charged now, as OpenAI lists them, in the order of '
  'ai.model_order; with model in the call that one alone; or {refused: code}.';

create or replace function ai.model_listing(model ai.models, routes jsonb) returns jsonb
  language sql
  immutable
  security invoker
as $$
  select jsonb_build_object(
    'id', model.id,
    'object', 'model',
    'created', floor(extract(epoch from model.created_at)),
    'owned_by', model.owned_by,
    'platform', jsonb_build_object(
      'name', model.display_name,
      'kind', model.kind,
      'context_window', model.context_window,
      'output_limit', model.output_limit,
      -- Of the first route, which is the one usually charged; numbers with all their digits.
      'prices', (
        select jsonb_agg(
          jsonb_build_object('min_input_tokens', tier -> 'min_input_tokens') || (
            select jsonb_object_agg(p.key || '_usd_per_million', trim_scale(p.value::numeric))
            from jsonb_each_text(tier - 'min_input_tokens') p
          )
        )
        from jsonb_array_elements(routes -> 0 -> 'prices') tier
      )
    ) || jsonb_strip_nulls(jsonb_build_object('voices', model.voices, 'default', nullif(model.is_default, false)))
  )
$$;
comment on function ai.model_listing(ai.models, jsonb) is 'A model as OpenAI lists it, and what it is and costs here.';

create or replace function ai.model_order(model ai.models) returns text[]
  language sql
  immutable
  security invoker
as $$
  -- The names of the kinds happen to sort well: chat, embedding, speech.
  select array[model.kind, case when model.is_default then '' else lower(model.display_name) end, model.id]
$$;
comment on function ai.model_order(ai.models) is
  'Sorts every list of models: by kind, the default of each kind first, then by name.';

-- schemas/gateway/describe-credential.sql

-- Definer: as begin_run.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller;
  exempt boolean;
  cost_visible boolean;
begin
  caller := ai.find_caller(call);
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  exempt := caller.app_id is not null;
  cost_visible := exempt or caller.cost_visible;

  return jsonb_build_object(
    'source', caller.source,
    'workspaceId', caller.workspace_id,
    'userId', case when caller.source <> 'key' then caller.actor_id end,
    'key', (
      select jsonb_build_object(
        'id', k.id,
        'name', k.name,
        'prefix', 'ttr_ai_' || k.lookup,
        'environment', k.environment,
        'createdAt', ai.utc_text(k.created_at),
        'replaced', k.replaced_by is not null,
        'allowedModels', k.allowed_models,
        'allowedAddresses', k.allowed_addresses
      )
      from ai.keys k where k.id = caller.key_id
    ),
    'app', (
      select jsonb_build_object('id', a.id, 'name', a.name, 'displayName', a.display_name)
      from private.apps a where a.id = caller.app_id
    ),
    'scopes', caller.scopes,
    'expiresAt', ai.utc_text(coalesce(
      (select k.expires_at from ai.keys k where k.id = caller.key_id),
      (
        select t.expires_at from ai.app_tokens t
        where caller.source = 'app_token' and t.token_hash = decode(call -> 'credential' ->> 'hash', 'hex')
      )
    )),
    'exempt', exempt,
    'limits', (
      select coalesce(jsonb_agg(l.value), '[]')
      from jsonb_array_elements(jsonb_build_array(
        ai.remaining_rate('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.remaining_rate(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- What an app's calls do not pay of is no business of theirs, and a key's holder need not be the member who pays.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where case caller.payer
              when 'workspace' then a.workspace_id = caller.workspace_id
              else a.user_id = caller.actor_id
            end
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;
comment on function ai.describe_credential(jsonb) is
  'What a credential is, its limits, budgets, what its calls of this month cost and what is left; or {refused: code}. '
  'Never its text, of which only a hash is kept.';

create or replace function ai.remaining_rate(scope text, subject uuid, request_limit integer, token_limit bigint) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'scope', remaining_rate.scope,
    'requestsPerMinute', request_limit,
    -- greatest() takes no notice of nulls.
    'remainingRequests', case when request_limit is not null then greatest(request_limit - coalesce(w.requests, 0), 0) end,
    'tokensPerMinute', token_limit,
    'remainingTokens', case when token_limit is not null then greatest(token_limit - coalesce(w.tokens, 0), 0) end,
    'resetSeconds', greatest(ceil(extract(epoch from date_trunc('minute', now()) + interval '1 minute' - now())), 1)
  )
  from (select date_trunc('minute', now()) as minute) as m
  left join ai.rate_windows w
    on w.scope = remaining_rate.scope and w.subject_id = subject and w.window_start >= m.minute
  where request_limit is not null or token_limit is not null
$$;
comment on function ai.remaining_rate(text, uuid, integer, bigint) is
  'What ai.consume_rate_limit would still admit in this minute; null where there is no limit.';

create or replace function ai.utc_text(moment timestamptz) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;
comment on function ai.utc_text(timestamptz) is 'A moment as the gateway writes it: RFC 3339, UTC, milliseconds.';

create or replace function ai.remaining_budgets(caller ai.caller, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'limitUsd', trim_scale(b.limit_usd),
        'spentUsd', case when cost_visible then trim_scale(x.spent) end,
        'reservedUsd', case when cost_visible then trim_scale(b.reserved_usd) end,
        'remainingUsd', case when cost_visible then trim_scale(greatest(b.limit_usd - x.spent - b.reserved_usd, 0)) end,
        'resetsAt', ai.utc_text((m.month + interval '1 month') at time zone 'UTC')
      )
      order by case b.scope when 'key' then 1 when 'app' then 2 else 3 end
    ),
    '[]'
  )
  from (select date_trunc('month', now() at time zone 'UTC') as month) as m
  join ai.budgets b
    on b.workspace_id = (caller).workspace_id
    and b.limit_usd is not null
    and b.scope = any ((caller).budgets)
    and b.subject_id = ai.budget_subject(b.scope, (caller).lineage_id, (caller).app_id, (caller).workspace_id)
  cross join lateral (select case when b.period_start < m.month then 0 else b.spent_usd end as spent) as x
$$;
comment on function ai.remaining_budgets(ai.caller, boolean) is
  'The monthly budgets that hold for a caller, narrowest first. Where the workspace hides what providers charge, what was '
  'spent and what is left would tell it.';

create or replace function ai.cost_this_month(caller ai.caller, cost_visible boolean) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  month timestamptz := date_trunc('month', now(), 'UTC');
  spent record;
begin
  if caller.source = 'key' then
    select * into spent from ai.key_cost_since(caller, month);
  else
    select * into spent from ai.user_cost_since(caller, month);
  end if;
  return jsonb_build_object(
    'since', ai.utc_text(month),
    'requests', coalesce(spent.requests, 0),
    'costUsd', case when cost_visible then trim_scale(coalesce(spent.cost_usd, 0)) end,
    'billedCredits', trim_scale(coalesce(spent.billed_credits, 0)),
    'unmeteredCredits', trim_scale(coalesce(spent.unmetered_credits, 0))
  );
end
$$;
comment on function ai.cost_this_month(ai.caller, boolean) is
  'What a caller''s runs of this UTC month cost, rotated keys of its lineage and calls still open included. A run counts '
  'in the month that it began in, as budgets have it.';

create or replace function ai.key_cost_since(caller ai.caller, month timestamptz)
  returns table (requests numeric, cost_usd numeric, billed_credits numeric, unmetered_credits numeric)
  language plpgsql
  -- Stable, so that all statements in it see one moment, and each run counts once.
  stable
  security invoker
  set search_path = ''
as $$
declare
  sealed_before date := (select s.before from ai.usage_sealed_days s);
  first_day date := (month at time zone 'UTC')::date;
  live_from timestamptz := greatest(month, sealed_before::timestamp at time zone 'UTC');
  changed_days date[] := array(
    select distinct c.day from ai.usage_changed_days c
    where c.workspace_id = caller.workspace_id and c.day >= first_day and c.day < sealed_before
  );
begin
  return query
  select sum(p.requests), sum(p.cost_usd), sum(p.billed_credits), sum(p.unmetered_credits)
  from (
    select u.requests::numeric, u.cost_usd, u.billed_credits, u.unmetered_credits
    from ai.usage_daily u
    where u.workspace_id = caller.workspace_id
      and u.day >= first_day
      and u.day < sealed_before
      and u.key_lineage_id = caller.lineage_id
      and not u.day = any (changed_days)
    union all
    select 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from ai.runs r
    where r.workspace_id = caller.workspace_id and r.created_at >= live_from and r.key_lineage_id = caller.lineage_id
    union all
    select 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from unnest(changed_days) as d (day)
    cross join lateral (
      select x.*
      from ai.runs x
      where x.workspace_id = caller.workspace_id
        and x.created_at >= d.day::timestamp at time zone 'UTC'
        and x.created_at < (d.day + 1)::timestamp at time zone 'UTC'
        and x.key_lineage_id = caller.lineage_id
      offset 0
    ) as r
  ) as p;
end
$$;
comment on function ai.key_cost_since(ai.caller, timestamptz) is
  'What a key''s lineage used from the beginning of a UTC day on: sums where a day is over and unchanged, the rest from the '
  'runs themselves.';

create or replace function ai.user_cost_since(caller ai.caller, month timestamptz)
  returns table (requests numeric, cost_usd numeric, billed_credits numeric, unmetered_credits numeric)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*)::numeric, sum(r.cost_usd), sum(r.billed_credits), sum(r.unmetered_credits)
  from ai.runs r
  where r.actor_id = (caller).actor_id
    and r.credential_source <> 'key'
    and r.created_at >= month
    and r.credential_source = (caller).source
    and r.workspace_id = (caller).workspace_id
    and r.app_id is not distinct from (caller).app_id
$$;
comment on function ai.user_cost_since(ai.caller, timestamptz) is
  'What a person used in a workspace by themselves, or through one app. Sums know no persons; the index of a person''s '
  'runs does.';
