-- Generated from supabase/schemas by npm run db:migration.

drop function ai.key_cost_since(ai.caller, timestamp with time zone);

drop function ai.key_summary(ai.keys);

drop function private.list_apps();

create or replace function private.export_whole_part(subject_id uuid, part text, wanted boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(r.record order by r.place), '[]')
  from private.export_account_part(subject_id, part, page_size => null) with ordinality as r (record, place)
  where wanted
$$;

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if part = 'sessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      )
      from auth.sessions s
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'approvals' then
    return query
      select jsonb_build_object(
        'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      )
      from private.login_challenges c
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'appHandoffs' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      )
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'appSessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
        'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
      )
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'appTokens' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      )
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

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

create or replace function private.list_apps(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', a.id,
      'name', a.name,
      'displayName', a.display_name,
      'kind', a.kind,
      'enabled', a.enabled,
      'scopes', a.scopes,
      'origins', coalesce((select jsonb_agg(o.origin order by o.origin) from private.app_origins o where o.app_id = a.id), '[]'),
      'workspaces', coalesce((
        select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id) l
      ), '[]'),
      'secrets', (
        select count(*) from private.app_secrets s where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
      ),
      'createdAt', a.created_at
    )
    order by a.name
  ), '[]')
  from (
    select l.*
    from private.apps l
    where (strpos(l.name, lower(term)) > 0 or strpos(lower(l.display_name), lower(term)) > 0)
      and (after is null or l.name > after)
    order by l.name
    limit page_size
  ) as a
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
    select * into spent from ai.key_cost_since(caller.workspace_id, array[caller.lineage_id], month);
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

create or replace function ai.key_cost_since(workspace uuid, lineages uuid[], month timestamptz)
  returns table (lineage_id uuid, requests numeric, cost_usd numeric, billed_credits numeric, unmetered_credits numeric)
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
    where c.workspace_id = workspace and c.day >= first_day and c.day < sealed_before
  );
begin
  return query
  select p.key_lineage_id, sum(p.requests), sum(p.cost_usd), sum(p.billed_credits), sum(p.unmetered_credits)
  from (
    select u.key_lineage_id, u.requests::numeric, u.cost_usd, u.billed_credits, u.unmetered_credits
    from ai.usage_daily u
    where u.workspace_id = workspace
      and u.day >= first_day
      and u.day < sealed_before
      and u.key_lineage_id = any (lineages)
      and not u.day = any (changed_days)
    union all
    select r.key_lineage_id, 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from ai.runs r
    where r.workspace_id = workspace and r.created_at >= live_from and r.key_lineage_id = any (lineages)
    union all
    select r.key_lineage_id, 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from unnest(changed_days) as d (day)
    cross join lateral (
      select x.*
      from ai.runs x
      where x.workspace_id = workspace
        and x.created_at >= d.day::timestamp at time zone 'UTC'
        and x.created_at < (d.day + 1)::timestamp at time zone 'UTC'
        and x.key_lineage_id = any (lineages)
      offset 0
    ) as r
  ) as p
  group by p.key_lineage_id;
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

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_keys(member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', ai.key_summaries(workspace, array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Definer: as ai.list_keys.
create or replace function ai.read_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  found_keys ai.keys[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  found_keys := array(select k from ai.keys k where k.id = read_key.key_id and k.workspace_id = workspace);
  if found_keys = '{}' then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'key', ai.key_summaries(workspace, found_keys) -> 0
  );
end
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
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made, 0));
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

-- Definer: as ai.issue_key.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  -- The new key will refer to the workspace, and an account's deletion locks that before its keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- One rotation of a key at a time; the second finds it replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict
  )
  returning * into made;
  update ai.keys k
  set
    replaced_by = made.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', made.id, made.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[made]) -> 0);
end
$$;

create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (key).id,
    'name', (key).name,
    'prefix', 'ttr_ai_' || (key).lookup,
    'environment', (key).environment,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', (key).last_used_at,
    'expiresAt', (key).expires_at,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
    'spentThisMonthUsd', case when ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text end,
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when not ai.cost_visible(b.workspace_id) then null
          when b.period_start = date_trunc('month', now() at time zone 'UTC')::date then trim_scale(b.spent_usd)::text
          else '0'
        end
      )
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.limit_usd is not null
    )
  )
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

-- Definer: as ai.read_budgets.
create or replace function ai.read_policy_options(member_id uuid, workspace uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
    and not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return (
    select jsonb_build_object(
      'outcome', 'read',
      'plan', p.name,
      'requestsPerMinute', p.requests_per_minute,
      'tokensPerMinute', p.tokens_per_minute,
      'models', (
        select coalesce(
          jsonb_agg(
            jsonb_build_object(
              'id', m.id, 'name', m.display_name, 'kind', m.kind,
              'granted', exists (
                select from ai.model_grants g
                where g.model_id = m.id and (g.plan_id = w.plan_id or g.workspace_id = w.id)
              ),
              'permitted', coalesce(m.id = any (r.allowed_models), true) and not m.id = any (coalesce(r.denied_models, '{}'))
            )
            order by ai.model_order(m)
          ),
          '[]'
        )
        from ai.models m
        where m.enabled and m.studio_default
      )
    )
    from public.workspaces w
    left join ai.plans p on p.id = w.plan_id
    left join ai.workspace_policies r on r.workspace_id = w.id
    where w.id = workspace
  );
end
$$;

-- Definer: its parts are granted to nobody.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens'
    ]) as p (part)
  )
$$;

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_proper(subject_id uuid, with_parts boolean) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'account', jsonb_build_object(
      'id', u.id,
      'email', u.email,
      'newEmail', nullif(u.email_change, ''),
      'phone', nullif(u.phone, ''),
      'createdAt', u.created_at,
      'emailConfirmedAt', u.email_confirmed_at,
      'lastSignInAt', u.last_sign_in_at,
      'bannedUntil', u.banned_until,
      'hasPassword', coalesce(u.encrypted_password, '') <> '',
      'userMetadata', u.raw_user_meta_data,
      'appMetadata', u.raw_app_meta_data
    ),
    'profile', (
      select jsonb_build_object('displayName', p.display_name, 'avatarUrl', p.avatar_url, 'createdAt', p.created_at)
      from public.profiles p where p.id = u.id
    ),
    'linkedAccounts', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
      ) order by i.created_at), '[]')
      from auth.identities i where i.user_id = u.id
    ),
    'authenticators', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
      ) order by f.created_at), '[]')
      from auth.mfa_factors f where f.user_id = u.id
    ),
    'recoveryCodes', (
      select coalesce(jsonb_agg(
        jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at) order by c.created_at, c.id
      ), '[]')
      from private.mfa_recovery_codes c where c.user_id = u.id
    ),
    'passkeys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id, 'name', c.friendly_name, 'createdAt', c.created_at, 'lastUsedAt', c.last_used_at
      ) order by c.created_at), '[]')
      from auth.webauthn_credentials c where c.user_id = u.id
    ),
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'credits', (
      select jsonb_build_object('balance', a.balance::text, 'ledger', private.export_whole_part(u.id, 'ledger', with_parts))
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

create or replace function ai.key_summaries(workspace uuid, listed ai.keys[]) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(ai.key_summary(k, c.cost_usd) order by k.created_at desc, k.id desc), '[]')
  from unnest(listed) as k
  left join ai.key_cost_since(
    workspace, array(select l.lineage_id from unnest(listed) as l), date_trunc('month', now(), 'UTC')
  ) c on c.lineage_id = k.lineage_id
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

comment on function ai.read_policy_options(uuid, uuid) is
  'Returns what the lists of a workspace''s policy and keys can choose from, for a member with use_ai_studio or '
  'manage_ai_keys: the models of the catalogue, whether the plan or a root grant allows them (granted) and the policy '
  '(permitted), and the plan''s rate limits.';

comment on function private.export_account(uuid, boolean) is
  'Returns everything held about an account but its AI runs, without secrets, hashes or codes; null without an account. '
  'Without parts, the lists of private.export_account_part are empty.';

comment on function private.export_account_part(uuid, text, jsonb, integer) is
  'Returns a page of a list of private.export_account, oldest first: sessions, securityEvents, approvals, workspaces, '
  'invitations, keys, appHandoffs, appSessions, appTokens or ledger (of credits). after is the last record of the page '
  'before; all records without page_size.';

comment on function private.export_account_proper(uuid, boolean) is
  'Returns the part of private.export_account that does not grow with use, and the credits.';

comment on function ai.key_cost_since(uuid, uuid[], timestamptz) is
  'Returns what each of the lineages used since the start of a UTC day: daily sums where they are up to date, runs '
  'otherwise. A lineage without runs has no row.';

comment on function ai.key_summaries(uuid, ai.keys[]) is 'Returns what may be shown of keys of one workspace, newest first.';

comment on function ai.key_summary(ai.keys, numeric) is
  'Returns what may be shown of a key: never its secret, of which only a hash is kept. Amounts are exact texts; what was '
  'spent is of the current UTC month, by the key and those that it replaced.';

comment on function ai.read_key(uuid, uuid, uuid) is
  'Returns one key of a workspace as ai.list_keys has it, for a member with manage_ai_keys, and whether the workspace may '
  'rotate it: { outcome: read, approved, key }, or outcome not_allowed or not_found.';

comment on function ai.text_list(jsonb) is 'Returns the texts of a JSON array; null for anything else.';

comment on function ai.unknown_models(text[]) is
  'Returns the names that are not ids of models in the catalogue, enabled or not; null if all are. Ids are compared exactly, '
  'as in calls. Lists of models are checked with it before they are saved.';

comment on function private.export_whole_part(uuid, text, boolean) is
  'Returns all records of a part of an export, or none unless wanted. For definers; granted to nobody.';

comment on function private.gateway_refusal(private.apps, uuid, text[]) is
  'Returns why the gateway refuses an app, by a token or a bound key with these scopes, in a workspace; null if it does '
  'not. For definers; granted to nobody.';

comment on function private.list_apps(text, text, integer) is
  'Returns a page of the registry by name, with the first 50 linked workspaces of each app and no hash of any secret. term '
  'is a part of the name or display name, after the name of the last app of the page before; all apps without page_size.';

grant execute on function ai.key_summary(ai.keys, numeric) to service_role;

grant execute on function ai.read_key(uuid, uuid, uuid) to service_role;

grant execute on function private.list_apps(text, text, integer) to service_role;
