-- Functions of the gateway.

-- schemas/gateway/money.sql

create or replace function ai.credits_per_usd(markup numeric) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select 10000 * markup
$$;
comment on function ai.credits_per_usd(numeric) is '1 credit is USD 0.0001 before the plan''s markup.';

create or replace function ai.usd_to_credits(amount_usd numeric, markup numeric) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select round(amount_usd * ai.credits_per_usd(markup), 8)
$$;
comment on function ai.usd_to_credits(numeric, numeric) is 'Returns an amount in credits, for reservations and estimates.';

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
  'Returns the account of a payer and opens it with the plan''s initial credits if there is none. Concurrent callers get the same one.';

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
  'Rejects an account with two owners or none, and the deletion of one that has ledger entries.';

create or replace trigger has_one_owner after insert or update of workspace_id, user_id on ai.credit_accounts
  for each row when (num_nonnulls(new.workspace_id, new.user_id) <> 1) execute function ai.reject_credit_account_change();
comment on trigger has_one_owner on ai.credit_accounts is 'Does not run for updates of balance or reservation.';
create or replace trigger reject_credit_account_change before delete on ai.credit_accounts
  for each row execute function ai.reject_credit_account_change();
comment on trigger reject_credit_account_change on ai.credit_accounts is
  'Replaces the foreign key of the ledger, which would cost every settlement a lookup.';

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
comment on function ai.reject_incomplete_ledger_entry() is 'Rejects an entry that names a run by half of its key.';

create or replace trigger reject_incomplete_ledger_entry after insert on ai.credit_ledger
  for each row when (new.run_id is null or new.run_created_at is null) execute function ai.reject_incomplete_ledger_entry();
comment on trigger reject_incomplete_ledger_entry on ai.credit_ledger is
  'Replaces a check constraint; entries of settlements never meet its condition.';

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
comment on function ai.reject_ledger_change() is 'Rejects changes of ledger entries. Correct a wrong entry with another entry.';

create or replace trigger reject_ledger_change before update or delete on ai.credit_ledger
  for each row execute function ai.reject_ledger_change();
comment on trigger reject_ledger_change on ai.credit_ledger is 'The ledger is append-only, also for its owner.';

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
  'Returns a UUID version 7 for a run that begins now, with a random part that the gateway chose: it finds the run again '
  'when the answer of ai.begin_run is lost. Milliseconds have eleven hexadecimal digits until the year 2527.';

create or replace function ai.create_run_partitions(months_ahead integer default 3) returns integer
  language plpgsql
  volatile
  security invoker
  -- Months are UTC months, whatever the caller's time zone.
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
      -- A run is written when it begins and when it ends. With room on the page the second write is a heap-only update.
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
  'Creates the monthly partitions of ai.runs that are missing, months_ahead included, protected as ai.runs is. Returns their number.';

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
  -- Defined by 20260923130000_required_account_mfa.sql, which protects the partitions that exist when it is applied.
  if to_regprocedure('private.protect_table(regclass)') is not null then
    execute format('select private.protect_table(%L::regclass)', target);
  end if;
end
$$;
comment on function ai.protect_partition(regclass) is
  'Gives a partition the row-level security, policies and grants that it does not inherit.';

create or replace function ai.reject_incomplete_settlement() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.status <> 'running' or new.settled_at is not null then
    raise exception 'a run ends with settled_at and usage_source: use ai.settle_runs'
      using errcode = 'check_violation';
  end if;
  return null;
end
$$;
comment on function ai.reject_incomplete_settlement() is
  'Rejects a run that ends without a settlement: its reservation would never be released.';

create or replace trigger reject_incomplete_settlement after update of status on ai.runs
  for each row when (new.settled_at is null or new.usage_source is null) execute function ai.reject_incomplete_settlement();
comment on trigger reject_incomplete_settlement on ai.runs is 'Runs of a settlement never meet its condition.';

-- schemas/gateway/callers.sql

create or replace function ai.find_caller(request ai.run_request) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  credential ai.credential := request.credential;
  caller ai.caller;
begin
  case credential.source
    when 'key' then
      caller := ai.key_caller(decode(credential.hash, 'hex'), request.address);
    when 'app_token', 'session' then
      caller := ai.user_caller(credential, request.workspace);
    else
      return null;
  end case;
  if caller.refused is null then
    if request.workspace is null then
      if caller.source = 'app_token' then
        caller.refused := 'workspace_header_required';
      end if;
    elsif request.workspace <> caller.workspace_id::text then
      caller.refused := 'workspace_mismatch';
    end if;
  end if;
  return caller;
end
$$;
comment on function ai.find_caller(ai.run_request) is
  'Returns who makes a call and, in refused, why they may not; nulls when the credential is unknown, revoked, expired or of '
  'a deleted workspace. Keys and tokens come as the SHA-256 of their text, sessions as claims that the gateway has verified.';

create or replace function ai.call_refusal(caller ai.caller, kind text default null) returns jsonb
  language plpgsql
  immutable
  security invoker
as $$
begin
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  elsif caller.refused is not null then
    return ai.refusal(caller.refused);
  elsif kind is not null and (
    caller.source = 'app_token' and kind = 'speech' and not 'tts:use' = any (caller.scopes)
    or caller.payer = 'member' and not caller.actor_is_member
  ) then
    return ai.refusal('insufficient_scope');
  end if;
  return null;
end
$$;
comment on function ai.call_refusal(ai.caller, text) is
  'Returns why a caller may make no call, or none of a kind where that is given; null where they may.';

create or replace function ai.principal_id(caller ai.caller) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select coalesce((caller).lineage_id, (caller).app_id, (caller).actor_id)
$$;
comment on function ai.principal_id(ai.caller) is 'Returns whose idempotency keys a call uses: a key''s lineage, an app or a person.';

create or replace function ai.payer_id(caller ai.caller) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select case
    when (caller).app_id is not null then null
    when (caller).payer = 'member' then (caller).actor_id
    else (caller).workspace_id
  end
$$;
comment on function ai.payer_id(ai.caller) is
  'Returns whose credit account pays for a caller; null for calls of a registered app, by its tokens or by keys bound to '
  'it, which pay no credits.';

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

create or replace function ai.user_caller(credential ai.credential, workspace text) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
begin
  if credential.source = 'app_token' then
    select t.refused, t.workspace_id, t.user_id, t.app_id, t.scopes
    into caller.refused, caller.workspace_id, caller.actor_id, caller.app_id, caller.scopes
    from ai.find_app_token(decode(credential.hash, 'hex')) t
    where t.refused is distinct from 'invalid_api_key';
  else
    caller.workspace_id := workspace::uuid;
    select s.user_id, s.refused into caller.actor_id, caller.refused
    from ai.session_caller(credential.claims, caller.workspace_id) s;
  end if;
  if caller.actor_id is null then
    return null;
  end if;

  caller.source := credential.source;
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
comment on function ai.user_caller(ai.credential, text) is
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

create or replace function ai.is_key_use_due(caller ai.caller) returns boolean
  language sql
  stable
  security invoker
as $$
  select (caller).key_id is not null and coalesce((caller).last_used_at < now() - interval '1 minute', true)
$$;
comment on function ai.is_key_use_due(ai.caller) is
  'Whether keys.last_used_at of a caller''s key is written: once a minute.';

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

create or replace function ai.find_offer(request ai.run_request, caller ai.caller, previous ai.priced_call) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  model ai.models;
  offer ai.route_offer;
  most ai.token_use := ai.maximum_use(request);
begin
  if request.model is null then
    select m.id into request.model from ai.models m where m.kind = request.kind and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  where m.id = request.model and m.kind = request.kind;
  if not found then
    offer.refusal := ai.refusal('model_not_found');
    return offer;
  end if;
  if request.voice is not null and not coalesce(request.voice = any (model.voices), false) then
    offer.refusal := ai.refusal('invalid_request', '{"param": "voice"}');
    return offer;
  end if;
  if model.kind = 'speech' then
    most.output := least(most.output, model.output_limit);
  end if;

  offer.model_id := model.id;
  offer.voice := coalesce(request.voice, model.voices[1]);
  offer.routes := case
    when model.id = (previous.offer).model_id and request.providers = (previous.request).providers then (previous.offer).routes
    else ai.priced_routes(model.id, request.providers)
  end;
  offer.context_window := model.context_window;
  offer.reserved_tokens := most.text + most.image + most.audio + most.output;
  offer.maximum_cost_usd := ai.maximum_cost_usd(offer.routes, most, request.service_tier, model.kind = 'speech');
  offer.refusal := case
    when offer.routes is null then ai.refusal('service_unavailable')
    when (most.audio > 0 or request.audio) and jsonb_path_exists(offer.routes, '$[*].prices[*] ? (!exists (@.audio_input))')
      then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when not ai.is_tier_priced(offer.routes, request.service_tier)
      then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
    when offer.maximum_cost_usd is null then ai.refusal('service_unavailable')
  end;
  return offer;
end
$$;
comment on function ai.find_offer(ai.run_request, ai.caller, ai.priced_call) is
  'Returns the model of a call with its routes, prices and maximum cost for a caller; or, in refusal, why there is none. '
  'Calls of a batch for one model read its routes once.';

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
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
      || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
      order by r.position
    )
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.service_tier <> 'default', t.service_tier, t.min_input_tokens) as tiers
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

create or replace function ai.maximum_use(request ai.run_request) returns ai.token_use
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select row(
    ((request).input_bytes + 2) / 3, 1500 * coalesce((request).images, 0), 50 * coalesce((request).audio_seconds, 0),
    (request).output_limit * coalesce((request).choices, 1)
  )::ai.token_use
$$;
comment on function ai.maximum_use(ai.run_request) is
  'Returns the most tokens of a call: a third of its bytes without media, 1,500 an image, 50 a second of audio (Gemini counts '
  '32, OpenAI 10), and the output limit of each choice.';

create or replace function ai.maximum_cost_usd(routes jsonb, most ai.token_use, service_tier text, speech boolean default false)
  returns numeric
  language plpgsql
  immutable
  security invoker
as $$
begin
  return (
    select max(
      (
        most.text * greatest(
          (tier ->> 'input')::numeric, (tier ->> 'cache_write')::numeric, (tier ->> 'cache_write_1h')::numeric
        )
        + most.image * greatest((tier ->> 'input')::numeric, (tier ->> 'image_input')::numeric)
        + most.audio * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
        + most.output * coalesce(case when speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
      * greatest(1, (route -> 'tier_multipliers' ->> maximum_cost_usd.service_tier)::numeric)
      + coalesce((tier ->> 'request_fee')::numeric, 0)
    )
    from jsonb_array_elements(routes) as route
    cross join jsonb_array_elements(route -> 'prices') as tier
    where (tier ->> 'min_input_tokens')::bigint <= most.text + most.image + most.audio
      and coalesce(tier ->> 'service_tier', 'default') in ('default', maximum_cost_usd.service_tier)
  );
end
$$;
comment on function ai.maximum_cost_usd is
  'Returns the maximum cost of a provider call: the whole output, nothing cached, all of it written to a cache where that '
  'has a price, one fee, at any route and any tier that the input may reach.';

create or replace function ai.is_tier_priced(routes jsonb, service_tier text) returns boolean
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select coalesce(service_tier, 'auto') in ('auto', 'default') or not exists (
    select from jsonb_array_elements(routes) as route
    where not coalesce(route -> 'tier_multipliers' ? service_tier, false)
      and not jsonb_path_exists(
        route, '$.prices[*] ? (@.service_tier == $tier)', jsonb_build_object('tier', service_tier)
      )
  )
$$;
comment on function ai.is_tier_priced(jsonb, text) is 'Returns whether every route has a price for a service tier that a call names.';

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

create or replace trigger reject_price_change before update on ai.model_prices
  for each row execute function ai.reject_price_change();

-- schemas/gateway/limits.sql

create or replace function ai.lock_rows(locks ai.lock_list) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  if locks.idempotency_keys is not null then
    perform pg_advisory_xact_lock(k.key) from (select distinct u.key from unnest(locks.idempotency_keys) as u (key) order by 1) as k;
    -- The row of an idempotency key refers to the workspace, which the deletion of an account locks before its keys.
    perform from public.workspaces s where s.id = any (locks.workspaces) order by s.id for key share;
  end if;
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.rate_windows is not null then
    -- Opens missing windows and past ones. The conflict locks a window also where it is current.
    insert into ai.rate_windows as w (scope, subject_id, window_start, requests, tokens)
    select distinct s.scope, s.subject_id, date_trunc('minute', now()), 0, 0 from unnest(locks.rate_windows) as s order by 1, 2
    on conflict (subject_id, scope) do update
    set window_start = excluded.window_start, requests = 0, tokens = 0
    where w.window_start < excluded.window_start;
  end if;
  if locks.budgets is not null then
    perform from ai.budgets b
    where (b.scope, b.subject_id, b.workspace_id) in (
      select s.scope, s.subject_id, s.workspace_id from unnest(locks.budgets) as s
    )
    order by b.scope, b.subject_id, b.workspace_id
    for no key update;
  end if;
  if locks.accounts is not null then
    perform from ai.credit_accounts a where a.id = any (locks.accounts) order by a.id for no key update;
  end if;
end
$$;
comment on function ai.lock_rows(ai.lock_list) is
  'Locks what admissions, extensions and settlements change, in the one order that they share: idempotency keys, keys, rate '
  'windows, budgets, balances; each kind sorted. Runs are locked before, and new accounts are opened before.';

create or replace function ai.collect_locks(calls ai.priced_call[]) returns ai.lock_list
  language plpgsql
  stable
  security invoker
as $$
declare
  call ai.priced_call;
  caller ai.caller;
  scope text;
  locks ai.lock_list;
begin
  foreach call in array calls loop
    continue when call.refusal is not null;
    caller := call.caller;
    if (call.request).idempotency_key is not null then
      locks.idempotency_keys := locks.idempotency_keys || hashtextextended(
        concat_ws(' ', caller.workspace_id, ai.principal_id(caller), (call.request).idempotency_key), 0
      );
      locks.workspaces := locks.workspaces || caller.workspace_id;
    end if;
    if ai.is_key_use_due(caller) then
      locks.keys := locks.keys || caller.key_id;
    end if;
    if num_nonnulls(caller.key_requests_per_minute, caller.key_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('key', caller.lineage_id, null)::ai.limit_subject;
    end if;
    if num_nonnulls(caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('workspace', caller.workspace_id, null)::ai.limit_subject;
    end if;
    if caller.budgets is not null then
      foreach scope in array caller.budgets loop
        locks.budgets := locks.budgets || row(
          scope, ai.budget_subject(scope, caller.lineage_id, caller.app_id, caller.workspace_id), caller.workspace_id
        )::ai.limit_subject;
      end loop;
    end if;
    if call.account_id is not null then
      locks.accounts := locks.accounts || call.account_id;
    end if;
  end loop;
  return locks;
end
$$;
comment on function ai.collect_locks(ai.priced_call[]) is 'Returns the rows that calls need, as far as they are not refused.';

create or replace function ai.consume_rate_limit(
  scope text, subject uuid, request_limit integer, token_limit bigint, tokens bigint, requests integer default 1
) returns ai.rate_window_use
  language plpgsql
  volatile
  security invoker
as $$
declare
  used ai.rate_window_use;
begin
  if request_limit is null and token_limit is null then
    used.admitted := true;
    return used;
  end if;
  update ai.rate_windows w
  set requests = w.requests + consume_rate_limit.requests, tokens = w.tokens + consume_rate_limit.tokens
  where w.scope = consume_rate_limit.scope
    and w.subject_id = subject
    and (request_limit is null or w.requests + consume_rate_limit.requests <= request_limit)
    and (token_limit is null or w.tokens + consume_rate_limit.tokens <= token_limit)
  returning true, w.window_start, w.requests, w.tokens into used;
  if not found then
    select null, w.window_start, w.requests, w.tokens into used
    from ai.rate_windows w
    where w.scope = consume_rate_limit.scope and w.subject_id = subject;
    used.admitted := false;
  end if;
  return used;
end
$$;
comment on function ai.consume_rate_limit is
  'Counts a request and its reserved tokens in the subject''s rate window, unless that would exceed a limit. The window is '
  'locked and current (ai.lock_rows). An extension counts no second request.';

create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[]) returns text
  language sql
  stable
  security invoker
  parallel safe
as $$
  select format('{"minute":%s,"counts":%s}', coalesce(to_json(minute), 'null'), array_to_json(counts))
$$;
comment on function ai.rate_limit_headers(timestamptz, bigint[]) is
  'Returns the limits of a call as JSON: when the rate window began, then limit and count of the key''s requests, its '
  'tokens, the workspace''s requests and its tokens; null where there is no limit.';

create or replace function ai.reserve_limits(
  caller ai.caller, tokens bigint, requests integer, amount_usd numeric, account uuid, credits numeric
) returns ai.reservation
  language plpgsql
  volatile
  security invoker
as $$
declare
  scope text;
  held ai.reservation;
begin
  held.budget_scopes := '{}';
  foreach scope in array array['key', 'app', 'workspace'] loop
    if scope = 'workspace' then
      held.workspace_window := ai.consume_rate_limit(
        'workspace', caller.workspace_id, caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute, tokens,
        requests
      );
      if not (held.workspace_window).admitted then
        held.refused := 'rate_limit_exceeded';
        exit;
      end if;
    end if;
    continue when caller.budgets is null or not scope = any (caller.budgets);
    if not ai.reserve_budget(
      scope, ai.budget_subject(scope, caller.lineage_id, caller.app_id, caller.workspace_id), caller.workspace_id, amount_usd
    ) then
      held.refused := 'budget_exceeded';
      exit;
    end if;
    held.budget_scopes := held.budget_scopes || scope;
  end loop;
  if held.refused is null and (account is not null or credits > 0) then
    update ai.credit_accounts a set reserved = a.reserved + credits
    where a.id = account and a.balance - a.reserved >= credits;
    if not found then
      held.refused := 'insufficient_credits';
    end if;
  end if;
  if held.refused is not null and held.budget_scopes <> '{}' then
    update ai.budgets b set reserved_usd = greatest(b.reserved_usd - amount_usd, 0)
    where b.workspace_id = caller.workspace_id
      and b.scope = any (held.budget_scopes)
      and b.subject_id = ai.budget_subject(b.scope, caller.lineage_id, caller.app_id, caller.workspace_id);
  end if;
  return held;
end
$$;
comment on function ai.reserve_limits(ai.caller, bigint, integer, numeric, uuid, numeric) is
  'Reserves a provider call in the budgets, the workspace''s rate window and the balance, or says in refused which of them '
  'has no room and reserves none of the amounts. The rows are locked.';

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
      -- A budget of 0 refuses free calls, too.
      or b.limit_usd > 0
        and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
    );
  if found then
    return true;
  end if;
  -- Of many concurrent refusals the first writes it.
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

create or replace function ai.call_limits(caller ai.caller, key_window ai.rate_window_use, workspace_window ai.rate_window_use)
  returns text
  language sql
  stable
  security invoker
as $$
  select ai.rate_limit_headers(coalesce((key_window).started_at, (workspace_window).started_at), array[
    (caller).key_requests_per_minute, (key_window).requests,
    (caller).key_tokens_per_minute, (key_window).tokens,
    (caller).workspace_requests_per_minute, (workspace_window).requests,
    (caller).workspace_tokens_per_minute, (workspace_window).tokens
  ])
$$;
comment on function ai.call_limits(ai.caller, ai.rate_window_use, ai.rate_window_use) is
  'Returns the limits of a caller and what is counted of them, as ai.rate_limit_headers does.';

create or replace function ai.limit_refusal(code text, limits text) returns jsonb
  language sql
  stable
  security invoker
as $$
  select ai.refusal(code, case when code = 'rate_limit_exceeded' then jsonb_build_object('limits', limits::json, 'at', now()) end)
$$;
comment on function ai.limit_refusal(text, text) is 'Returns a refusal by a limit, with the rate limits where one of them refused.';

-- schemas/gateway/admission.sql

-- Definer: gateway holds no grant on any table. It trusts no id in the call: who calls comes from the credential.
create or replace function ai.begin_run(call jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- Rows are found by key, whatever the statistics were when a plan was made. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_material = off
  set jit = off
  -- For each lock; exceeds_caller_timeout looks at all of them together.
  set lock_timeout = '1s'
as $$
begin
  return (ai.begin_calls(jsonb_build_array(call)))[1];
end
$$;
comment on function ai.begin_run(jsonb) is
  'Decides about a call and, if it may go on, reserves its maximum cost and opens its run. Returns the run with its '
  'routes and prices, or {refused: code, …}, as the text of JSON.';

-- Definer: as begin_run.
create or replace function ai.begin_runs(calls jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_material = off
  set jit = off
  -- Whoever holds a lock longer delays its own calls alone: the others are sent again, each by itself.
  set lock_timeout = '100ms'
as $$
begin
  if jsonb_path_exists(calls, '$[*].idempotency_key') then
    raise exception 'a call with an idempotency key may wait for another, and is sent alone' using errcode = 'feature_not_supported';
  end if;
  return '[' || array_to_string(ai.begin_calls(calls), ',') || ']';
end
$$;
comment on function ai.begin_runs(jsonb) is
  'Decides about several calls, each for itself, and returns begin_run''s answers in their order, as a JSON array. All or '
  'none: where it raises, nothing is reserved and no run is open.';

create or replace function ai.begin_calls(calls jsonb) returns text[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  answers text[];
begin
  -- Held until the transaction ends: ai.release_orphaned_runs tries it to see whether a run may still begin.
  for place in 0..jsonb_array_length(calls) - 1 loop
    perform pg_advisory_xact_lock(hashtextextended(calls -> place ->> 'run_id_suffix', 1));
  end loop;
  answers := ai.admit_calls(calls);
  if ai.exceeds_caller_timeout() then
    raise exception 'too late for a run to begin' using errcode = 'query_canceled';
  end if;
  return answers;
end
$$;
comment on function ai.begin_calls(jsonb) is 'Admits calls, unless that took so long that their caller is gone.';

create or replace function ai.admit_calls(calls jsonb) returns text[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  previous ai.priced_call;
  priced ai.priced_call[] := '{}';
  answers text[] := '{}';
begin
  for place in 1..jsonb_array_length(calls) loop
    previous := ai.price_call(jsonb_populate_record(null::ai.run_request, calls -> place - 1), previous);
    priced[place] := previous;
  end loop;
  priced := ai.open_missing_accounts(priced);
  perform ai.lock_rows(ai.collect_locks(priced));
  for place in 1..cardinality(priced) loop
    answers[place] := ai.admit_call(priced[place]);
  end loop;
  return answers;
end
$$;
comment on function ai.admit_calls(jsonb) is
  'Finds who makes each call and what it may cost, locks what all of them need, and then admits one after another.';

create or replace function ai.price_call(request ai.run_request, previous ai.priced_call) returns ai.priced_call
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller := ai.find_caller(request);
  offer ai.route_offer;
  refusal jsonb := ai.call_refusal(caller, request.kind);
  account uuid;
begin
  if refusal is null and caller.plan_id is null then
    refusal := ai.refusal('service_unavailable');
  end if;
  if refusal is null then
    offer := ai.find_offer(request, caller, previous);
    refusal := offer.refusal;
  end if;
  if refusal is null then
    select a.id into account
    from ai.credit_accounts a
    where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller);
  end if;
  return row(refusal, request, caller, offer, account)::ai.priced_call;
end
$$;
comment on function ai.price_call(ai.run_request, ai.priced_call) is
  'Returns a call with its caller, model, maximum cost and paying account, or why it is refused. Locks nothing.';

create or replace function ai.open_missing_accounts(calls ai.priced_call[]) returns ai.priced_call[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  call ai.priced_call;
  owners uuid[] := '{}';
  owner_id uuid;
begin
  foreach call in array calls loop
    if call.refusal is null and call.account_id is null then
      owners := array_remove(owners || ai.payer_id(call.caller), null);
    end if;
  end loop;
  if owners = '{}' then
    return calls;
  end if;
  -- In order, so that two batches cannot wait for each other.
  foreach owner_id in array array(select distinct o from unnest(owners) as o order by o) loop
    for place in 1..cardinality(calls) loop
      call := calls[place];
      continue when call.refusal is not null or ai.payer_id(call.caller) is distinct from owner_id;
      call.account_id := ai.open_credit_account((call.caller).payer, owner_id, (call.caller).initial_credits);
      calls[place] := call;
    end loop;
  end loop;
  return calls;
end
$$;
comment on function ai.open_missing_accounts(ai.priced_call[]) is
  'Opens the account of each payer that has none, with the plan''s initial credits.';

create or replace function ai.admit_call(priced ai.priced_call) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  request ai.run_request := priced.request;
  caller ai.caller := priced.caller;
  offer ai.route_offer := priced.offer;
  principal uuid := ai.principal_id(caller);
  exempt boolean := ai.payer_id(caller) is null;
  maximum_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  earlier ai.idempotency_keys;
  run_id uuid;
begin
  if priced.refusal is not null then
    return priced.refusal;
  end if;
  if not exempt then
    maximum_credits := ai.usd_to_credits(offer.maximum_cost_usd, caller.markup);
  end if;
  if ai.is_key_use_due(caller) then
    perform ai.record_key_use(caller);
  end if;

  key_window := ai.consume_rate_limit(
    'key', principal, caller.key_requests_per_minute, caller.key_tokens_per_minute, offer.reserved_tokens
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', ai.call_limits(caller, key_window, null));
  end if;
  if request.idempotency_key is not null then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = request.idempotency_key
      and i.expires_at > now();
    if found then
      return ai.idempotent_refusal(earlier, decode(request.fingerprint, 'hex'));
    end if;
  end if;
  held := ai.reserve_limits(
    caller, offer.reserved_tokens, 1, offer.maximum_cost_usd, priced.account_id, maximum_credits
  );
  if held.refused is not null then
    return ai.limit_refusal(held.refused, ai.call_limits(caller, key_window, held.workspace_window));
  end if;

  run_id := case
    when request.run_id_suffix is null then ai.run_id(now())
    else ai.new_run_id(request.run_id_suffix)
  end;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes
  )
  values (
    run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, request.feature, request.request_id,
    request.entity_id, request.idempotency_key, coalesce(request.streamed, false), offer.model_id, offer.routes,
    caller.markup, exempt, priced.account_id, offer.maximum_cost_usd, maximum_credits, held.budget_scopes
  );
  if request.idempotency_key is not null then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (caller.workspace_id, principal, request.idempotency_key, decode(request.fingerprint, 'hex'), now(), run_id)
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;

  -- As text: building JSON from values looks up how each type is written.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,"credits_per_usd":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","cost_visible":%s,"capture":%s,"limits":%s}',
    run_id,
    to_json(now()),
    caller.workspace_id,
    to_json(offer.model_id),
    coalesce(to_json(offer.context_window), 'null'),
    coalesce(to_json(offer.voice), 'null'),
    offer.routes,
    ai.credits_per_usd(caller.markup),
    exempt::text,
    offer.maximum_cost_usd,
    maximum_credits,
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.call_limits(caller, key_window, held.workspace_window)
  );
end
$$;
comment on function ai.admit_call(ai.priced_call) is
  'Admits one call, whose rows are locked: reserves its maximum cost, opens its run and answers as ai.begin_run does. '
  'Trusts the caller: granted to nobody.';

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
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  most ai.token_use := ai.maximum_use(request);
  tokens bigint := most.text + most.image + most.audio + most.output;
  run ai.runs;
  caller ai.caller;
  key_is_over boolean;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  locks ai.lock_list;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.revoked_at is not null or k.expires_at <= now(), k.tokens_per_minute, least(p.tokens_per_minute, w.tokens_per_minute)
  into key_is_over, caller.key_tokens_per_minute, caller.workspace_tokens_per_minute
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_over then
    return ai.refusal('invalid_api_key');
  end if;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.workspace_id := run.workspace_id;
  caller.budgets := run.budget_scopes;

  step_usd := ai.maximum_cost_usd(run.routes, most, request.service_tier);
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  perform ai.lock_rows(ai.collect_locks(array[row(null, request, caller, null, run.account_id)::ai.priced_call]));
  key_window := ai.consume_rate_limit('key', caller.lineage_id, null, caller.key_tokens_per_minute, tokens, 0);
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', ai.rate_limit_headers(
      key_window.started_at, array[null, null, caller.key_tokens_per_minute, key_window.tokens, null, null, null, null]
    ));
  end if;
  held := ai.reserve_limits(caller, tokens, 0, step_usd, run.account_id, total_credits - run.reserved_credits);
  if held.refused is not null then
    return ai.limit_refusal(held.refused, ai.rate_limit_headers(
      (held.workspace_window).started_at,
      array[null, null, null, null, null, null, caller.workspace_tokens_per_minute, (held.workspace_window).tokens]
    ));
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
  return ai.settle_outcomes(runs);
end
$$;
comment on function ai.settle_runs(jsonb) is
  'Settles a batch of runs at their actual cost. Reporting a run again changes nothing, unless the sweep had estimated it: '
  'then the actual cost posts one adjusting entry.';

create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
  -- As in begin_run.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set jit = off
as $$
declare
  reports ai.run_report[] := ai.lock_outcomes(outcomes);
  report ai.run_report;
  ended jsonb := '[]';
begin
  begin
    return ai.settle_batch(reports, idle_since);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  foreach report in array reports loop
    begin
      ended := ended || ai.settle_batch(array[report], idle_since);
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', (report.run).id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return ended;
end
$$;
comment on function ai.settle_outcomes(jsonb, timestamptz) is
  'Settles a batch, or each of its runs by itself where the batch cannot be booked: a bad run stays open, is logged and '
  'does not block the others. Lock timeouts are raised, so that the batch is sent again. Returns the runs that changed.';

create or replace function ai.lock_outcomes(outcomes jsonb) returns ai.run_report[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  reports ai.run_report[] := ai.lock_runs(outcomes);
  report ai.run_report;
  run ai.runs;
  scope text;
  locks ai.lock_list;
begin
  foreach report in array reports loop
    run := report.run;
    foreach scope in array run.budget_scopes loop
      locks.budgets := locks.budgets || row(
        scope, ai.budget_subject(scope, run.key_lineage_id, run.app_id, run.workspace_id), run.workspace_id
      )::ai.limit_subject;
    end loop;
    if run.account_id is not null then
      locks.accounts := locks.accounts || run.account_id;
    end if;
  end loop;
  perform ai.lock_rows(locks);
  return reports;
end
$$;
comment on function ai.lock_outcomes(jsonb) is 'Locks the runs of outcomes, then their budgets and balances.';

create or replace function ai.lock_runs(reports jsonb) returns ai.run_report[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  moments timestamptz[];
  ids uuid[];
  told jsonb[];
  first_begun timestamptz;
  last_begun timestamptz;
  locked ai.run_report[];
begin
  select array_agg(n.created_at), array_agg(n.id), array_agg(n.report), min(n.created_at), max(n.created_at)
  into moments, ids, told, first_begun, last_begun
  from (
    select
      e.value as report,
      case when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') then (e.value ->> 'created_at')::timestamptz end
        as created_at,
      case when pg_input_is_valid(e.value ->> 'id', 'uuid') then (e.value ->> 'id')::uuid end as id
    from jsonb_array_elements(reports) as e
  ) as n;
  select array_agg(row(l.run, l.report)::ai.run_report) into locked
  from (
    select r as run, n.report
    from unnest(moments, ids, told) as n (created_at, id, report)
    -- The range keeps partitions of other months closed.
    join ai.runs r
      on r.created_at = n.created_at and r.id = n.id and r.created_at >= first_begun and r.created_at <= last_begun
    order by r.account_id, r.id
    for update of r
  ) as l;
  return coalesce(locked, '{}');
end
$$;
comment on function ai.lock_runs(jsonb) is
  'Locks the runs of some reports by account and id, and returns each report with its run. Skips unknown runs.';

create or replace function ai.settle_batch(reports ai.run_report[], idle_since timestamptz) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  report ai.run_report;
  closed_run ai.closed_run;
  closed ai.closed_run[] := '{}';
  last_id uuid;
  first_begun timestamptz;
  last_begun timestamptz;
  have_keys boolean := false;
  have_budgets boolean := false;
  ended jsonb := '[]';
begin
  foreach report in array reports loop
    closed_run := ai.compute_settlement(jsonb_populate_record(null::ai.run_outcome, report.outcome), report.run, idle_since);
    -- A run may be reported twice in one batch.
    continue when closed_run.kind is null or (report.run).id = last_id;
    last_id := (report.run).id;
    closed := closed || closed_run;
    first_begun := least(first_begun, (report.run).created_at);
    last_begun := greatest(last_begun, (report.run).created_at);
    have_keys := have_keys or (report.run).idempotency_key is not null;
    have_budgets := have_budgets or (report.run).budget_scopes <> '{}';
    ended := ended || jsonb_build_object(
      'id', last_id, 'kind', closed_run.kind, 'billed_credits', (closed_run.run).billed_credits::text
    );
  end loop;
  if last_id is null then
    return ended;
  end if;

  if have_budgets then
    perform ai.settle_budgets(closed);
  end if;
  perform ai.settle_credits(closed);
  update ai.runs r
  set
    status = (c.run).status,
    http_status = (c.run).http_status,
    error_code = (c.run).error_code,
    usage_source = (c.run).usage_source,
    route = (c.run).route,
    input_tokens = (c.run).input_tokens,
    cached_input_tokens = (c.run).cached_input_tokens,
    audio_input_tokens = (c.run).audio_input_tokens,
    output_tokens = (c.run).output_tokens,
    reasoning_tokens = (c.run).reasoning_tokens,
    audio_output_tokens = (c.run).audio_output_tokens,
    cache_write_tokens = (c.run).cache_write_tokens,
    cache_write_1h_tokens = (c.run).cache_write_1h_tokens,
    image_input_tokens = (c.run).image_input_tokens,
    fee_requests = (c.run).fee_requests,
    served_tier = (c.run).served_tier,
    marks = (c.run).marks,
    billing_name = (c.run).billing_name,
    billing_account = (c.run).billing_account,
    cost_usd = (c.run).cost_usd,
    billed_credits = (c.run).billed_credits,
    unmetered_credits = (c.run).unmetered_credits,
    first_byte_ms = (c.run).first_byte_ms,
    latency_ms = (c.run).latency_ms,
    steps = (c.run).steps,
    touched_at = now(),
    settled_at = now(),
    swept = idle_since is not null
  from unnest(closed) as c
  where r.created_at = (c.run).created_at and r.id = (c.run).id
    and r.created_at >= first_begun and r.created_at <= last_begun;
  if have_keys then
    perform ai.complete_idempotency_keys(closed);
  end if;
  return ended;
end
$$;
comment on function ai.settle_batch(ai.run_report[], timestamptz) is
  'Closes and books runs that are locked. Returns those that it changed.';

create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.runs, idle_since timestamptz) returns ai.closed_run
  language plpgsql
  stable
  security invoker
as $$
declare
  open boolean := run.status = 'running';
  before ai.runs := run;
  cost_usd numeric(24, 12) := coalesce(outcome.cost_usd, 0);
  credits numeric(24, 8) := coalesce(outcome.credits, 0);
  billed_credits numeric(24, 8) := case when run.exempt then 0 else credits end;
begin
  -- Open runs; and those that the sweep closed, when the provider's own counts arrive later.
  if open then
    if run.touched_at >= idle_since then
      return null;
    end if;
  elsif idle_since is not null or not run.swept
    or outcome.usage_source is null or outcome.usage_source not in ('provider', 'provider_partial')
  then
    return null;
  end if;

  if outcome.estimated and not open then
    return null;
  end if;
  if outcome.usage_source is null or outcome.status = 'running'
    or outcome.usage_source <> 'unavailable' and (outcome.cost_usd is null or outcome.credits is null)
    or least(
    outcome.cost_usd, outcome.credits, outcome.input_tokens, outcome.cached_input_tokens, outcome.audio_input_tokens,
    outcome.output_tokens, outcome.reasoning_tokens, outcome.audio_output_tokens,
    outcome.cache_write_tokens, outcome.cache_write_1h_tokens, outcome.image_input_tokens, outcome.fee_requests
  ) < 0 then
    raise exception 'a run ends with a status, a usage source, a cost and counts of at least 0' using errcode = 'check_violation';
  end if;

  run.status := outcome.status;
  run.http_status := outcome.http_status;
  run.error_code := outcome.error_code;
  run.usage_source := outcome.usage_source;
  run.route := coalesce(outcome.route, run.route);
  run.input_tokens := coalesce(outcome.input_tokens, 0);
  run.cached_input_tokens := coalesce(outcome.cached_input_tokens, 0);
  run.audio_input_tokens := coalesce(outcome.audio_input_tokens, 0);
  run.output_tokens := coalesce(outcome.output_tokens, 0);
  run.reasoning_tokens := coalesce(outcome.reasoning_tokens, 0);
  run.audio_output_tokens := coalesce(outcome.audio_output_tokens, 0);
  run.cache_write_tokens := coalesce(outcome.cache_write_tokens, 0);
  run.cache_write_1h_tokens := coalesce(outcome.cache_write_1h_tokens, 0);
  run.image_input_tokens := coalesce(outcome.image_input_tokens, 0);
  run.fee_requests := coalesce(outcome.fee_requests, 0);
  run.served_tier := outcome.served_tier;
  run.marks := coalesce(outcome.marks, '{}');
  run.billing_name := outcome.billing_name;
  run.billing_account := outcome.billing_account;
  run.cost_usd := cost_usd;
  run.billed_credits := billed_credits;
  run.unmetered_credits := case
    -- Closed without any count: the reservation is shown, not charged.
    when idle_since is not null and outcome.usage_source = 'unavailable' then ai.usd_to_credits(run.reserved_usd, run.markup)
    when run.exempt then credits
    else 0
  end;
  run.first_byte_ms := coalesce(outcome.first_byte_ms, run.first_byte_ms);
  run.latency_ms := outcome.latency_ms;
  run.steps := outcome.steps;
  if open then
    return row(
      run, 'usage', billed_credits, run.reserved_credits, cost_usd, run.reserved_usd, coalesce(outcome.key_unused, false)
    )::ai.closed_run;
  end if;
  return row(
    run, 'adjustment', billed_credits - before.billed_credits, 0, cost_usd - before.cost_usd, 0, coalesce(outcome.key_unused, false)
  )::ai.closed_run;
end
$$;
comment on function ai.compute_settlement(ai.run_outcome, ai.runs, timestamptz) is
  'Returns a run, which is locked, as its outcome closes it, and what becomes due; null where it stays as it is. With '
  'idle_since, only an open run that nobody has touched since then is closed.';

create or replace function ai.settle_budgets(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  update ai.budgets b
  set
    -- A budget that was deleted and set again holds no reservation of earlier runs.
    reserved_usd = greatest(b.reserved_usd - due.released, 0),
    spent_usd = b.spent_usd + due.spent
  from (
    select
      x.scope, x.subject_id, x.workspace_id, sum(c.usd_released) as released,
      -- A run counts in the month in which it began.
      coalesce(sum(c.cost_due_usd) filter (where (c.run).created_at >= x.period_start::timestamp at time zone 'UTC'), 0) as spent
    from unnest(closed) c
    cross join unnest((c.run).budget_scopes) as t (scope)
    join ai.budgets x
      on x.scope = t.scope
      and x.workspace_id = (c.run).workspace_id
      and x.subject_id = ai.budget_subject(t.scope, (c.run).key_lineage_id, (c.run).app_id, (c.run).workspace_id)
    group by x.scope, x.subject_id, x.workspace_id
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;
comment on function ai.settle_budgets(ai.closed_run[]) is
  'Adds the cost of closed runs to their budgets and releases their reservations. The budgets are locked.';

create or replace function ai.settle_credits(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  with due as (
    select (c.run).account_id as id, sum(c.credits_due) as credits, sum(c.credits_released) as released
    from unnest(closed) as c
    group by 1
  ), paid as (
    update ai.credit_accounts a
    set balance = a.balance - due.credits, reserved = a.reserved - due.released
    from due
    where a.id = due.id
    returning a.id, a.balance
  )
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
  select
    (c.run).account_id, c.kind, -c.credits_due,
    p.balance + coalesce(sum(c.credits_due) over later, 0),
    (c.run).created_at, (c.run).id
  from unnest(closed) as c
  left join paid p on p.id = (c.run).account_id
  where c.credits_due <> 0
  window later as (
    partition by (c.run).account_id order by (c.run).id desc rows between unbounded preceding and 1 preceding
  )
  order by (c.run).account_id, (c.run).id;
end
$$;
comment on function ai.settle_credits(ai.closed_run[]) is
  'Charges closed runs to their accounts, releases their reservations and writes one ledger entry a run. The accounts are '
  'locked.';

create or replace function ai.complete_idempotency_keys(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.idempotency_keys i
  where i.run_id in (select (c.run).id from unnest(closed) as c where (c.run).idempotency_key is not null)
  order by i.run_id
  for update;
  -- Released only where no provider was called.
  delete from ai.idempotency_keys i using unnest(closed) as c where c.key_unused and i.run_id = (c.run).id;
  update ai.idempotency_keys i set state = 'finished' from unnest(closed) as c where i.run_id = (c.run).id;
end
$$;
comment on function ai.complete_idempotency_keys(ai.closed_run[]) is
  'Finishes the idempotency keys of closed runs. Their rows are locked last, as in ai.admit_call.';

-- schemas/gateway/sweep.sql

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.heartbeat_runs(runs jsonb) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  perform ai.lock_runs(runs);
  update ai.runs r
  set
    touched_at = now(),
    route = coalesce(o.route, r.route),
    input_tokens = greatest(r.input_tokens, o.input_tokens),
    output_tokens = greatest(r.output_tokens, o.output_tokens),
    -- As the sweep charges it. A cost that fits no column would keep the other runs of the batch from being touched.
    cost_so_far_usd = greatest(r.cost_so_far_usd, least(coalesce(o.cost_usd, 0), r.reserved_usd))
  from jsonb_to_recordset(runs) as o (
    created_at timestamptz, id uuid, route smallint, input_tokens bigint, output_tokens bigint, cost_usd numeric
  )
  where r.created_at = o.created_at and r.id = o.id and r.status = 'running';
end
$$;
comment on function ai.heartbeat_runs(jsonb) is 'Records that runs are still alive, and their counts and cost so far.';

-- Definer: the server's service role holds no grant to write runs or balances.
create or replace function ai.sweep_runs() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- A partition may be empty when a plan is made and large when it is used. Runs are found by key, one by one.
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
    'route', r.route,
    'estimated', true,
    'input_tokens', r.input_tokens,
    'output_tokens', r.output_tokens,
    'cost_usd', least(r.cost_so_far_usd, r.reserved_usd),
    'credits', ai.usd_to_credits(least(r.cost_so_far_usd, r.reserved_usd), r.markup)
  ))
  into abandoned
  from (
    -- At random: runs that cannot be booked stay open, and would block the others if the oldest came first.
    select r.*
    from ai.long_running_runs l
    join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    where r.status = 'running' and r.touched_at < cutoff
    order by random()
    limit 500
  ) as r;
  if abandoned is not null then
    ended := jsonb_array_length(ai.settle_outcomes(abandoned, cutoff));
  end if;
  -- Last, because calls wait for this lock until the transaction ends.
  if to_regclass(format('ai.runs_%s', to_char(now() at time zone 'UTC' + interval '2 months', 'YYYY_MM'))) is null then
    perform ai.create_run_partitions();
  end if;
  return ended;
end
$$;
comment on function ai.sweep_runs() is
  'Closes runs without a heartbeat for 45 seconds, because their function died: at their cost so far, at most what was '
  'reserved, or as unavailable at 0. Also creates partitions. Returns the number of closed runs; 0 while another sweep runs.';

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
  -- The clock may have been set back.
  progress.seen_until := least(progress.seen_until, cutoff);
  progress.sure_until := least(progress.sure_until, cutoff);
  -- The second condition holds after a restore into another cluster.
  if pg_snapshot_xmin(snapshot) >= progress.marked_xid or pg_snapshot_xmax(snapshot) < progress.marked_xid then
    if progress.marked_at <= now() then
      -- An admission that takes longer than 1.2 seconds is rolled back.
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
  -- Every earlier run has been read twice.
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
  'Records in ai.long_running_runs the open runs that began since the last sweep and before the cutoff. Each run is read '
  'once, and again after transactions of its time have ended. Stops after two seconds; the next sweep goes on.';

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
  'Records the open runs that began between two moments, at most one minute of them. Returns the moment it reached.';

-- Definer: as begin_run. A run is named by the suffix of its id, which the gateway chose.
create or replace function ai.release_orphaned_runs(lost jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- Runs are found by created_at, however few there were when the plan was made.
  set enable_seqscan = off
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  if jsonb_typeof(lost -> 'tails') is distinct from 'array' or (lost ->> 'asked_ms_ago')::integer is null then
    raise exception 'orphaned runs are {"tails": [text], "asked_ms_ago": integer}' using errcode = 'invalid_parameter_value';
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
    'latency_ms', floor(extract(epoch from clock_timestamp() - r.created_at) * 1000),
    'steps', '[]'::jsonb,
    'key_unused', true
  )) into outcomes
  from ai.runs r
  where r.status = 'running'
    -- 15 seconds more, for the time that this call took to arrive.
    and r.created_at > now() - interval '15 seconds' - (lost ->> 'asked_ms_ago')::integer * interval '1 millisecond'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.settle_outcomes(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;
comment on function ai.release_orphaned_runs(jsonb) is
  'Releases runs whose admission answer was lost: their callers got 503 and no provider was called, so they end at no cost '
  'and their idempotency keys are free again. Takes {"tails": [text], "asked_ms_ago": integer}, the latter of the oldest. '
  'Returns the tails whose admission is still under way.';

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
  -- Rows that are in use stay.
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
  'Deletes up to at_most expired idempotency keys and as many rate windows older than an hour. Returns their number; 0 '
  'while another deletion runs.';

-- schemas/gateway/credential-reads.sql

-- Definer: as begin_run.
create or replace function ai.check_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
  refusal jsonb := ai.call_refusal(caller, call ->> 'kind');
begin
  if refusal is not null then
    return refusal;
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
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(request);
  refusal jsonb := ai.call_refusal(caller);
  listed jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  select coalesce(jsonb_agg(ai.model_listing(m, p.routes) order by ai.model_order(m)), '[]') into listed
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  cross join lateral (
    select ai.priced_routes(m.id, request.providers) as routes
  ) p
  where p.routes is not null and (request.model is null or m.id = request.model);
  if request.model is null then
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
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
  refusal jsonb := ai.call_refusal(caller);
  exempt boolean;
  cost_visible boolean;
begin
  if refusal is not null then
    return refusal;
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
    -- An app does not pay, and the holder of a key may not be the member who does.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller)
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
  'Returns a credential''s kind, limits, budgets, cost of this month and what is left; or {refused: code}.';

create or replace function ai.remaining_rate(scope text, subject uuid, request_limit integer, token_limit bigint) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'scope', remaining_rate.scope,
    'requestsPerMinute', request_limit,
    -- greatest() ignores nulls.
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
  'Returns what ai.consume_rate_limit still admits in this rate window; null without a limit.';

create or replace function ai.utc_text(moment timestamptz) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;
comment on function ai.utc_text(timestamptz) is 'Returns a moment as RFC 3339 in UTC with milliseconds.';

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
  'Returns the monthly budgets that apply to a caller, narrowest first. Amounts are left out where the workspace hides '
  'provider costs.';

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
  'Returns what a caller''s runs of this UTC month cost, including rotated keys of its lineage and open runs. A run counts '
  'in the month in which it began.';

create or replace function ai.key_cost_since(caller ai.caller, month timestamptz)
  returns table (requests numeric, cost_usd numeric, billed_credits numeric, unmetered_credits numeric)
  language plpgsql
  -- Stable: all its statements share one snapshot, so each run counts once.
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
  'Returns what a key''s lineage used since the start of a UTC day: daily sums where they are up to date, runs otherwise.';

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
  'Returns what a person used in a workspace, directly or through one app. Reads the runs, because daily sums have no user.';
