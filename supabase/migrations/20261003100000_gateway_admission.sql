-- What ai.begin_run asks: who is calling, what they may use at what price, and whether limits, budgets and balance
-- allow it. None of it decides alone, so none of it is granted to anyone.

create function ai.refusal(code text, details jsonb default '{}') returns jsonb
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select jsonb_build_object('refused', code) || coalesce(details, '{}')
$$;
comment on function ai.refusal(text, jsonb) is 'A refusal by its code in the gateway''s closed list of errors.';
revoke execute on function ai.refusal(text, jsonb) from public, anon, authenticated;

create function ai.budget_subject(scope text, lineage uuid, app uuid, workspace uuid) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select case scope when 'key' then lineage when 'app' then app else workspace end
$$;
comment on function ai.budget_subject(text, uuid, uuid, uuid) is 'Whose budget a scope means for one run.';
revoke execute on function ai.budget_subject(text, uuid, uuid, uuid) from public, anon, authenticated;

create type ai.caller as (
  source text,
  refused text,
  key_id uuid,
  lineage_id uuid,
  workspace_id uuid,
  actor_id uuid,
  app_id uuid,
  scopes text[],
  key_models text[],
  key_requests_per_minute integer,
  key_tokens_per_minute bigint,
  last_used_at timestamptz,
  plan_id text,
  payer text,
  markup numeric(9, 6),
  initial_credits numeric(24, 8),
  workspace_requests_per_minute integer,
  workspace_tokens_per_minute bigint,
  workspace_models text[],
  denied_models text[],
  cost_visible boolean,
  capture boolean,
  actor_is_member boolean,
  budgets text[]
);
comment on type ai.caller is
  'Who calls, by their credential alone: a key, an app''s token for a person, or a person''s own session; and what plan '
  'and policy of the workspace say together. refused says why it is good for nothing here. Of a key, actor_is_member is '
  'asked where members pay for themselves.';

create function ai.session_caller(claims jsonb, workspace uuid, out user_id uuid, out refused text)
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
revoke execute on function ai.session_caller(jsonb, uuid) from public, anon, authenticated;

create function ai.budgets_of(workspace uuid, lineage uuid, app uuid) returns text[]
  language plpgsql
  stable
  security invoker
as $$
begin
  return array(
    select b.scope
    from ai.budgets b
    where b.workspace_id = workspace and b.subject_id = ai.budget_subject(b.scope, lineage, app, workspace)
  );
end
$$;
comment on function ai.budgets_of(uuid, uuid, uuid) is 'The scopes of the budgets that hold for a key''s lineage, an app and a workspace.';
revoke execute on function ai.budgets_of(uuid, uuid, uuid) from public, anon, authenticated;

create function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
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
    budgets := ai.budgets_of(key.workspace_id, key.lineage_id, key.external_app_id);
  end if;
  if num_nonnulls(key.allowed_addresses, key.external_app_id) > 0 then
    refused := case
      -- No address told, no address allowed.
      when key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false)
        then 'insufficient_scope'
      -- A bound key stands for its app.
      when key.external_app_id is not null and not ai.app_may_act_in(key.external_app_id, key.workspace_id)
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
revoke execute on function ai.key_caller(bytea, inet) from public, anon, authenticated;

create function ai.person_caller(call jsonb) returns ai.caller
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
    from ai.app_token_of(decode(call -> 'credential' ->> 'hash', 'hex')) t
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
  caller.actor_is_member := private.is_member(caller.actor_id, caller.workspace_id);
  caller.budgets := ai.budgets_of(caller.workspace_id, null, caller.app_id);
  return caller;
end
$$;
comment on function ai.person_caller(jsonb) is
  'For whom an app''s token or a session''s claims speak, and what holds for them; nulls where they are good for nobody.';
revoke execute on function ai.person_caller(jsonb) from public, anon, authenticated;

create function ai.credential_of(call jsonb) returns ai.caller
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
      caller := ai.person_caller(call);
    else
      return null;
  end case;
  if caller.refused is null then
    if call ->> 'workspace' <> caller.workspace_id::text then
      caller.refused := 'workspace_mismatch';
    elsif caller.source = 'app_token' then
      if call ->> 'workspace' is null then
        caller.refused := 'workspace_header_required';
      end if;
    end if;
  end if;
  return caller;
end
$$;
comment on function ai.credential_of(jsonb) is
  'Who makes a call, and why they may not; nulls when the credential is unknown, revoked, expired or of a deleted '
  'workspace. Keys and tokens come as the SHA-256 of their text, sessions as claims that the gateway has verified.';
revoke execute on function ai.credential_of(jsonb) from public, anon, authenticated;

create function ai.usable_models(workspace uuid, plan text, workspace_models text[], denied_models text[], key_models text[])
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
revoke execute on function ai.usable_models(uuid, text, text[], text[], text[]) from public, anon, authenticated;

create function ai.priced_routes(model text, providers text[]) returns jsonb
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
  'A model''s routes in order with the prices of now, as far as they have one and lead to a provider of the list. Null when none does.';
revoke execute on function ai.priced_routes(text, text[]) from public, anon, authenticated;

create function ai.offers(
  model text, providers jsonb, input_tokens bigint, output_tokens bigint, audio boolean, speech boolean
)
  returns table (routes jsonb, dearest_usd numeric, hears boolean)
  language sql
  stable
  security invoker
as $$
  select
    jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      order by r.position
    ),
    max(p.dearest_usd),
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
      ) filter (where t.min_input_tokens <= input_tokens) as dearest_usd,
      bool_and(t.audio_input_usd_per_million is not null) as hears
    from ai.model_prices t
    where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
  ) as p
  where r.model_id = model and r.enabled and p.tiers is not null and providers ? r.provider_id
$$;
comment on function ai.offers(text, jsonb, bigint, bigint, boolean, boolean) is
  'One row: a model''s routes as ai.priced_routes has them, the dearest that a call can get there as ai.dearest_usd has it, '
  'and whether all of them take audio. Nulls where there is no route with a price.';
revoke execute on function ai.offers(text, jsonb, bigint, bigint, boolean, boolean) from public, anon, authenticated;

create function ai.reserved_input_tokens(call jsonb) returns bigint
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ((call ->> 'input_bytes')::bigint + 2) / 3 + 1500 * coalesce((call ->> 'images')::bigint, 0)
$$;
comment on function ai.reserved_input_tokens(jsonb) is 'What a call''s input may count at most: a third of its bytes, and 1,500 an image.';
revoke execute on function ai.reserved_input_tokens(jsonb) from public, anon, authenticated;

create function ai.dearest_usd(
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
comment on function ai.dearest_usd is
  'The dearest that a provider call can get: the whole output, nothing cached, at any route, at any tier that the input may '
  'reach; with audio in the input, or with nothing but audio in the output.';
revoke execute on function ai.dearest_usd from public, anon, authenticated;

create type ai.minute as (admitted boolean, started_at timestamptz, requests_left bigint, tokens_left bigint);
comment on type ai.minute is
  'Whether a subject''s minute had room for a call, and what it has left of what is limited; null for what is not.';

create function ai.full_minute(scope text, subject uuid, request_limit integer, token_limit bigint) returns ai.minute
  language sql
  stable
  security invoker
as $$
  select row(
    false,
    -- greatest() takes no notice of nulls.
    greatest(w.window_start, m.minute),
    case when request_limit is not null then greatest(request_limit - coalesce(w.requests, 0), 0) end,
    case when token_limit is not null then greatest(token_limit - coalesce(w.tokens, 0), 0) end
  )::ai.minute
  from (select date_trunc('minute', now()) as minute) as m
  left join ai.rate_windows w
    on w.scope = full_minute.scope and w.subject_id = subject and w.window_start >= m.minute
$$;
comment on function ai.full_minute(text, uuid, integer, bigint) is
  'What is left of a minute that has no room for a call: a refusal also where the minute was cleared away just now.';
revoke execute on function ai.full_minute(text, uuid, integer, bigint) from public, anon, authenticated;

create function ai.take_rate(
  scope text, subject uuid, request_limit integer, token_limit bigint, tokens bigint, requests integer default 1
) returns ai.minute
  language plpgsql
  volatile
  security invoker
as $$
declare
  current_minute timestamptz := date_trunc('minute', now());
  request_room integer;
  token_room bigint;
  taken ai.minute;
begin
  if request_limit is null and token_limit is null then
    taken.admitted := true;
    return taken;
  end if;

  -- Nearly always the minute is under way and has room, which fewer operators say: each costs at every statement.
  request_room := coalesce(request_limit, 2147483647) - take_rate.requests;
  token_room := coalesce(token_limit, 9223372036854775807) - take_rate.tokens;
  update ai.rate_windows w
  set requests = w.requests + take_rate.requests, tokens = w.tokens + take_rate.tokens
  where w.scope = take_rate.scope
    and w.subject_id = subject
    and w.window_start >= current_minute
    and w.requests <= request_room
    and w.tokens <= token_room
  returning true, w.window_start, request_limit - w.requests, token_limit - w.tokens into taken;
  if found then
    return taken;
  end if;

  for attempt in 1..2 loop
    -- A caller that waited for the lock may be of an earlier minute than the row: it counts in the row's.
    update ai.rate_windows w
    set
      requests = case when w.window_start < current_minute then 0 else w.requests end + take_rate.requests,
      tokens = case when w.window_start < current_minute then 0 else w.tokens end + take_rate.tokens,
      window_start = greatest(w.window_start, current_minute)
    where w.scope = take_rate.scope
      and w.subject_id = subject
      and (
        request_limit is null
        or case when w.window_start < current_minute then 0 else w.requests end + take_rate.requests <= request_limit
      )
      and (
        token_limit is null
        or case when w.window_start < current_minute then 0 else w.tokens end + take_rate.tokens <= token_limit
      )
    returning true, w.window_start, request_limit - w.requests, token_limit - w.tokens into taken;
    if found then
      return taken;
    end if;
    exit when attempt = 2;
    -- No room, or no row: of many first calls at once one makes it, and all of them find room in it.
    insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
    values (take_rate.scope, subject, current_minute, 0, 0)
    on conflict do nothing;
  end loop;

  return ai.full_minute(take_rate.scope, subject, request_limit, token_limit);
end
$$;
comment on function ai.take_rate is
  'Counts a request and its reserved tokens in the subject''s current minute, unless either limit would be passed. A '
  'request that goes on counts no second time.';
revoke execute on function ai.take_rate from public, anon, authenticated;

create function ai.told_limits(
  key_requests integer, key_tokens bigint, of_key ai.minute,
  workspace_requests integer, workspace_tokens bigint, of_workspace ai.minute
) returns json
  language sql
  stable
  security invoker
  parallel safe
as $$
  -- Whichever has less left of a kind speaks for it.
  select json_strip_nulls(json_build_object(
    'limit_requests', case
      when (of_key).requests_left <= (of_workspace).requests_left or (of_workspace).requests_left is null then key_requests
      else workspace_requests
    end,
    'remaining_requests', least((of_key).requests_left, (of_workspace).requests_left),
    'limit_tokens', case
      when (of_key).tokens_left <= (of_workspace).tokens_left or (of_workspace).tokens_left is null then key_tokens
      else workspace_tokens
    end,
    'remaining_tokens', least((of_key).tokens_left, (of_workspace).tokens_left),
    -- No minute is told of that is over.
    'reset_seconds', ceil(date_part('epoch', coalesce((of_key).started_at, (of_workspace).started_at) - now()) + 60)
  ))
$$;
comment on function ai.told_limits is 'What the rate headers tell of the minutes of a key and of a workspace, as far as they are limited.';
revoke execute on function ai.told_limits from public, anon, authenticated;

create function ai.reserve_budget(scope text, subject uuid, workspace uuid, amount_usd numeric) returns boolean
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
      or b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
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
  'Holds an amount of a monthly budget, unless that would pass its limit. A refusal is noted in the budget: the first '
  'of a month, and then at most one a minute.';
revoke execute on function ai.reserve_budget(text, uuid, uuid, numeric) from public, anon, authenticated;

create function ai.release_budgets(scopes text[], lineage uuid, app uuid, workspace uuid, amount_usd numeric) returns void
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
revoke execute on function ai.release_budgets(text[], uuid, uuid, uuid, numeric) from public, anon, authenticated;

create function ai.reserve_credits(payer text, owner_id uuid, initial_credits numeric, credits numeric) returns uuid
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
revoke execute on function ai.reserve_credits(text, uuid, numeric, numeric) from public, anon, authenticated;

create function ai.idempotent_refusal(earlier ai.idempotency_keys, fingerprint bytea) returns jsonb
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
revoke execute on function ai.idempotent_refusal(ai.idempotency_keys, bytea) from public, anon, authenticated;
