-- Generated from supabase/schemas by npm run db:migration.

create or replace function private.gateway_refusal(app private.apps, workspace_id uuid, scopes text[]) returns text
  language plpgsql
  stable
  security invoker
as $$
begin
  return case
    when not private.app_can_act_in_workspace(app, gateway_refusal.workspace_id) then 'app_not_allowed'
    when not scopes @> array['workspace:session', 'ai:use'] then 'insufficient_scope'
  end;
end
$$;

create or replace function ai.find_app_token(token_hash bytea)
  returns table (
    token_id uuid,
    app_id uuid,
    user_id uuid,
    workspace_id uuid,
    scopes text[],
    refused text
  )
  language sql
  stable
  security invoker
as $$
  select
    t.id, t.app_id, t.user_id, t.workspace_id, s.in_force,
    case
      when p.standing = 'unavailable' then 'AUTH_UNAVAILABLE'
      when p.standing = 'mfa_required' then 'MFA_REQUIRED'
      when p.standing <> 'good' then 'invalid_api_key'
      when not private.is_workspace_member(t.user_id, t.workspace_id) then 'app_not_allowed'
      else private.gateway_refusal(a, t.workspace_id, s.in_force)
    end
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id
  cross join lateral private.proof_status(t.proof) as p (standing)
  cross join lateral (
    select array(select unnest(t.scopes) intersect select unnest(private.gateway_scopes(a)) order by 1) as in_force
  ) as s
  where t.token_hash = find_app_token.token_hash
    and t.revoked_at is null
    and t.expires_at > now()
$$;

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
    caller.app_id is not null and kind = 'speech' and not 'tts:use' = any (caller.scopes)
    or caller.payer = 'member' and not caller.actor_is_member
  ) then
    return ai.refusal('insufficient_scope');
  end if;
  return null;
end
$$;

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
  app private.apps;
  scopes text[];
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
  -- No address told, no address allowed.
  if key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false) then
    refused := 'insufficient_scope';
  end if;
  if key.external_app_id is not null then
    select a.* into app from private.apps a where a.id = key.external_app_id;
    scopes := private.gateway_scopes(app);
    refused := coalesce(refused, private.gateway_refusal(app, key.workspace_id, scopes));
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, scopes,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, budgets
  )::ai.caller;
end
$$;

create or replace function ai.unknown_models(names text[]) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select nullif(array(
    select n.name
    from unnest(names) with ordinality as n (name, place)
    where not exists (select from ai.models m where m.id = n.name)
    order by n.place
  ), '{}')
$$;

-- Definer: the service role writes no keys, so that none is made past these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  allowed text[] := ai.text_list(key -> 'allowedModels');
  unknown text[] := ai.unknown_models(allowed);
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if (
    select count(*) >= 200 from ai.keys k
    where k.workspace_id = workspace and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
  ) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict
  )
  select
    id, id, workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'), issue_key.lookup,
    decode(issue_key.secret_hash, 'hex'), app, allowed, ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false)
  from (select gen_random_uuid() as id) as made_id
  returning * into made;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', made.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  perform private.log_workspace_change(workspace, 'key.created', made.id, made.name);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made));
end
$$;

create or replace function ai.text_list(list jsonb) returns text[]
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case when jsonb_typeof(list) = 'array' then array(select jsonb_array_elements_text(list)) end
$$;

create or replace function ai.create_key(
  workspace_id uuid,
  created_by uuid,
  name text,
  lookup text,
  secret_hash bytea,
  environment text default 'production',
  allowed_models text[] default null,
  requests_per_minute integer default null,
  tokens_per_minute bigint default null,
  monthly_budget_usd numeric default null,
  expires_at timestamptz default null
) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
#variable_conflict use_column
declare
  key_id uuid := gen_random_uuid();
begin
  perform from ai.key_approvals a where a.workspace_id = create_key.workspace_id;
  if not found then
    raise exception 'the workspace has no approval to create keys' using errcode = 'insufficient_privilege';
  end if;
  if ai.unknown_models(allowed_models) is not null then
    raise exception 'unknown models: %', array_to_string(ai.unknown_models(allowed_models), ', ')
      using errcode = 'invalid_parameter_value';
  end if;

  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, environment, allowed_models,
    requests_per_minute, tokens_per_minute, expires_at
  )
  values (
    key_id, key_id, create_key.workspace_id, create_key.created_by, create_key.name, create_key.lookup,
    create_key.secret_hash, create_key.environment, create_key.allowed_models, create_key.requests_per_minute,
    create_key.tokens_per_minute, create_key.expires_at
  );

  if monthly_budget_usd is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', key_id, create_key.workspace_id, monthly_budget_usd);
  end if;
  return key_id;
end
$$;

-- Definer: as ai.read_workspace_policy; and the service role writes no budgets.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names in the policy already stay, even when their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels');
  foreach param in array array['allowedModels', 'deniedModels'] loop
    unknown := ai.unknown_models(array(
      select n.name from unnest(ai.text_list(changes -> param)) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
  where p.workspace_id = workspace;
  -- Apps before the workspace: the order of the locks.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

comment on function ai.change_workspace_policy(uuid, uuid, jsonb) is
  'Changes what it names of a workspace''s rules, for a member with manage_ai_policy: allowedModels, deniedModels, '
  'requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, '
  'appBudgets [{ appId, monthlyBudgetUsd }]; null takes a limit away. readAt is the updatedAt of the rules that the '
  'member had before them: where they are others by now, nothing changes. Outcomes: changed and changed_meanwhile (with '
  'policy), not_allowed, app_not_linked, unknown_models (with param and models: names in neither list before). Each change '
  'is a line of the workspace''s log.';

comment on function ai.issue_key(uuid, uuid, jsonb, text, text) is
  'Stores a new key, whose text the caller made and shows once: lookup part and hex of its SHA-256 come here. Outcomes: '
  'issued (with key), not_allowed, not_approved, app_not_linked, unknown_models (with param and models), too_many (200 '
  'live keys in a workspace).';

comment on function ai.key_caller(bytea, inet) is
  'Returns whose key it is by the SHA-256 of its text, and its limits; nulls when it is unknown, revoked, expired or of a '
  'deleted workspace. A key that is bound to an app has the gateway scopes of the app''s registration. Nearly every call '
  'asks it.';

comment on function ai.text_list(jsonb) is 'Returns the texts of a JSON array; null for anything else.';

comment on function ai.unknown_models(text[]) is
  'Returns the names that are not ids of models in the catalogue, enabled or not; null if all are. Ids are compared exactly, '
  'as in calls. Lists of models are checked with it before they are saved.';

comment on function private.gateway_refusal(private.apps, uuid, text[]) is
  'Returns why the gateway refuses an app, by a token or a bound key with these scopes, in a workspace; null if it does '
  'not. For definers; granted to nobody.';
