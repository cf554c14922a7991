-- Functions of the studio and of usage reports.

-- schemas/studio/keys.sql

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
    'keys', (
      select coalesce(jsonb_agg(ai.key_summary(k) order by k.created_at desc, k.id desc), '[]')
      from (
        select *
        from ai.keys k
        where k.workspace_id = workspace
          and (
            before is null
            or (k.created_at, k.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
          )
        order by k.created_at desc, k.id desc
        limit page_size
      ) k
    )
  );
end
$$;
comment on function ai.list_keys(uuid, uuid, jsonb, integer) is
  'A page of a workspace''s keys, newest first, for a member with manage_ai_keys: { outcome: listed, approval, keys } or '
  '{ outcome: not_allowed }. before is { createdAt, id } of the last key of the page before. Listing needs no approval.';

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
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
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
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at
  )
  select
    id, id, workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'), issue_key.lookup,
    decode(issue_key.secret_hash, 'hex'), app,
    case when jsonb_typeof(key -> 'allowedModels') = 'array'
      then array(select jsonb_array_elements_text(key -> 'allowedModels')) end,
    case when jsonb_typeof(key -> 'allowedAddresses') = 'array'
      then array(select address::cidr from jsonb_array_elements_text(key -> 'allowedAddresses') as address) end,
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz
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
comment on function ai.issue_key(uuid, uuid, jsonb, text, text) is
  'Stores a new key, whose text the caller made and shows once: lookup part and hex of its SHA-256 come here. Outcomes: '
  'issued (with key), not_allowed, not_approved, app_not_linked, too_many (200 live ones a workspace).';

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
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at
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
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made));
end
$$;
comment on function ai.rotate_key(uuid, uuid, uuid, integer, text, text) is
  'Puts a new key in another''s place with every limit, binding and spent amount, which belong to the lineage; the old '
  'one lives on for the overlap. Outcomes: issued (with key), not_allowed, not_approved, not_found, not_active.';

-- Definer: as ai.issue_key.
create or replace function ai.revoke_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  ended ai.keys;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.keys k set revoked_at = now()
  where k.id = revoke_key.key_id and k.workspace_id = workspace and k.revoked_at is null
  returning * into ended;
  if found then
    perform private.log_workspace_change(workspace, 'key.revoked', ended.id, ended.name);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  return jsonb_build_object('outcome', case when found then 'revoked' else 'not_found' end);
end
$$;
comment on function ai.revoke_key(uuid, uuid, uuid) is
  'Ends a key at once; asked again it changes nothing. Needs manage_ai_keys and no approval. Outcomes: revoked, '
  'not_allowed, not_found.';

create or replace function ai.key_issue_permission(member_id uuid, workspace uuid) returns text
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return 'not_allowed';
  end if;
  -- Held until the key is stored: an approval taken away at the same moment comes before or after it, not between.
  perform from ai.key_approvals a where a.workspace_id = workspace for key share;
  return case when found then 'allowed' else 'not_approved' end;
end
$$;
comment on function ai.key_issue_permission(uuid, uuid) is
  'allowed, not_allowed (no manage_ai_keys) or not_approved (no standing approval of a platform admin).';

create or replace function ai.cost_visible(workspace uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce((select p.provider_cost_visible from ai.workspace_policies p where p.workspace_id = workspace), true)
$$;
comment on function ai.cost_visible(uuid) is 'Whether a workspace''s members are shown what providers charge; by default yes.';

create or replace function ai.key_summary(key ai.keys) returns jsonb
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
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
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
comment on function ai.key_summary(ai.keys) is
  'What may be shown of a key: never its secret, of which only a hash is kept. Amounts are exact texts; spent is of the '
  'current UTC month.';

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
comment on function ai.create_key is
  'Stores a new key and returns its id. The caller made the text and shows it once: only its lookup part and SHA-256 '
  'come here. Whether this caller may create one was decided before, so no role of the API may run it.';

-- schemas/studio/policy.sql

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_workspace_policy(member_id uuid, workspace uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object('outcome', 'read', 'policy', ai.workspace_policy_summary(workspace));
end
$$;
comment on function ai.read_workspace_policy(uuid, uuid) is
  'The rules of a workspace for a member with use_ai_studio: { outcome: read, policy } or { outcome: not_allowed }.';

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
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when not changes ? 'allowedModels' then p.allowed_models
      when jsonb_typeof(changes -> 'allowedModels') = 'array'
        then array(select jsonb_array_elements_text(changes -> 'allowedModels'))
    end,
    denied_models = case
      when changes ? 'deniedModels' then array(select jsonb_array_elements_text(changes -> 'deniedModels'))
      else p.denied_models
    end,
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
  'policy), not_allowed, app_not_linked. Each change is a line of the workspace''s log.';

-- schemas/studio/budgets.sql

create or replace function ai.budget_summary(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'spentUsd', case
      when not cost_visible then null
      when (budget).period_start = date_trunc('month', now() at time zone 'UTC')::date
        then trim_scale((budget).spent_usd)::text
      else '0'
    end
  )
$$;
comment on function ai.budget_summary(ai.budgets, boolean) is
  'Limit and what was spent in the current UTC month, as exact texts; the latter only where members are shown what '
  'providers charge.';

-- schemas/studio/policy.sql

create or replace function ai.workspace_policy_summary(workspace uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'allowedModels', to_jsonb(p.allowed_models),
    'deniedModels', coalesce(to_jsonb(p.denied_models), '[]'),
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'providerCostVisible', coalesce(p.provider_cost_visible, true),
    'contentCapture', coalesce(p.content_capture, false),
    'contentRetentionDays', coalesce(p.content_retention_days, 30),
    'budget', (
      select ai.budget_summary(b, ai.cost_visible(w.id)) from ai.budgets b
      where b.scope = 'workspace' and b.subject_id = w.id and b.workspace_id = w.id and b.limit_usd is not null
    ),
    'appBudgets', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('appId', a.id, 'app', a.display_name) || ai.budget_summary(b, ai.cost_visible(w.id))
          order by a.display_name, a.id
        ),
        '[]'
      )
      from ai.budgets b
      join private.apps a on a.id = b.subject_id
      where b.scope = 'app' and b.workspace_id = w.id and b.limit_usd is not null
    ),
    'updatedAt', p.updated_at,
    'updatedBy', (select u.display_name from public.profiles u where u.id = p.updated_by)
  )
  from (select workspace as id) w
  left join ai.workspace_policies p on p.workspace_id = w.id
$$;
comment on function ai.workspace_policy_summary(uuid) is
  'A workspace''s rules as its members see them; those of a workspace that has set none are the defaults.';

-- Definer: as ai.read_budgets.
create or replace function ai.read_policy_options(member_id uuid, workspace uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
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
              )
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
    where w.id = workspace
  );
end
$$;
comment on function ai.read_policy_options(uuid, uuid) is
  'What a workspace''s policy can choose from, for a member with use_ai_studio: the models of the catalogue, which of '
  'them its plan or a root grant allows, and the plan''s rate limits.';

create or replace function ai.lock_policy(workspace uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('ai.lock_policy ' || workspace, 0))
$$;
comment on function ai.lock_policy(uuid) is
  'One change of a workspace''s rules or budgets at a time, so that each finds what it was told of, and the log tells it '
  'from that. No call of the gateway waits for it.';

-- schemas/studio/budgets.sql

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy');
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', p.name,
          'live', p.live,
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            when visible then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.month = this_month::date and a.threshold > 0 and a.posted_at is not null
              and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select s.*, b as budget, x.spent, n.name, o.position
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace and b.limit_usd is not null
        cross join lateral (select case when b.period_start < this_month::date then 0 else b.spent_usd end as spent) as x
        cross join lateral (select ai.budget_name(s.scope, s.subject_id, workspace) as name) as n
        -- Of what nobody can change, so that each has its place in the list for good.
        cross join lateral (
          select array[
            case s.scope when 'workspace' then '1' when 'app' then '2' else '3' end,
            coalesce(to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] as position
        ) as o
        where (s.live or (b.limit_usd is not null and x.spent > 0))
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;
comment on function ai.read_budgets(uuid, uuid, text[], integer) is
  'A page of a workspace''s budgets and what they have used in the current UTC month, for a member with use_ai_studio: '
  '{ outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Those of keys are for '
  'members with manage_ai_keys or manage_ai_policy. They are ordered by scope and by when their subjects were made; '
  'after is the position of the last one of the page before. Amounts are exact texts, null where there is no limit or it '
  'is hidden. usedUp: all of it is spent, or calls are refused for it as ai.budget_refuses_calls has it.';

-- Definer: as ai.read_budgets; and the service role writes no budgets.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  standing numeric;
  wanted numeric := change_budget.limit_usd::numeric;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  select b.limit_usd into standing
  from ai.budgets b
  where b.scope = change_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if standing is distinct from read_limit_usd::numeric then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'limitUsd', trim_scale(standing)::text);
  end if;
  if wanted is not distinct from standing then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform ai.set_budget(scope, subject, workspace, wanted);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object('scope', scope, 'before', trim_scale(standing)::text, 'after', trim_scale(wanted)::text)
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;
comment on function ai.change_budget(uuid, uuid, text, uuid, text, text) is
  'Sets one monthly budget, or takes it away with null: with manage_ai_policy, that of a key with manage_ai_keys. '
  'read_limit_usd is the limit that the member had before them: where it is another by now, nothing changes. Outcomes: '
  'changed, unchanged, changed_meanwhile (with limitUsd), not_allowed, not_found. Each change is a line of the log.';

create or replace function ai.set_budget(scope text, subject uuid, workspace uuid, limit_usd numeric) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  if limit_usd is null then
    update ai.budgets b set limit_usd = null
    where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    -- What did not fit before a raise may fit now.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if found then
    perform ai.reset_budget_alert(set_budget.scope, subject, workspace);
    return;
  end if;
  insert into ai.budgets as b (scope, subject_id, workspace_id, limit_usd, period_start, spent_usd)
  select
    set_budget.scope, subject, workspace, set_budget.limit_usd, month,
    coalesce(sum(r.cost_usd), 0)
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= month::timestamp at time zone 'UTC'
    and case set_budget.scope
      when 'workspace' then true
      when 'app' then r.app_id = subject
      else r.key_lineage_id = subject
    end;
end
$$;
comment on function ai.set_budget(text, uuid, uuid, numeric) is
  'Sets the monthly budget of a workspace, of an app in it or of a key''s lineage; null takes it away. A first one begins '
  'with what the month''s settled runs have cost; runs that are under way at that moment are in no budget. Callers hold '
  'ai.lock_policy.';

create or replace function ai.budget_subjects(workspace uuid, with_keys boolean)
  returns table (scope text, subject_id uuid, live boolean, since timestamptz)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select 'workspace', workspace, true, null::timestamptz
  union all
  select 'app', s.app_id, ai.app_can_act_in_workspace(s.app_id, workspace), (
    select a.created_at from private.apps a where a.id = s.app_id
  )
  from (
    select l.app_id from private.app_workspaces l join private.apps a on a.id = l.app_id and a.kind = 'external'
    where l.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'app' and b.limit_usd is not null
  ) as s (app_id)
  union all
  select 'key', k.lineage_id, bool_or(k.revoked_at is null and (k.expires_at is null or k.expires_at > now())),
    min(k.created_at)
  from ai.keys k
  where with_keys and k.workspace_id = workspace
  group by k.lineage_id
$$;
comment on function ai.budget_subjects(uuid, boolean) is
  'What can have a budget in a workspace: itself, its external apps, and its keys, rotated ones being one. live: whether '
  'it can call still; since: when it was made, which never changes.';

-- schemas/studio/budget-alerts.sql

-- Definer: the service role writes no alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- One at a time, and each reads the budgets after the one before it is through: a limit that was just raised is seen.
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_budget_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'scope', a.scope,
        'subjectId', a.subject_id,
        'subject', ai.budget_name(a.scope, a.subject_id, a.workspace_id),
        'workspaceId', a.workspace_id,
        'workspace', w.name,
        'month', a.month,
        'endsAt', ai.utc_text((a.month + interval '1 month') at time zone 'UTC'),
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      )
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id
    ), '[]')
    from (
      select * from ai.budget_alerts p where p.posted_at is null order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
  );
end
$$;
comment on function ai.sweep_budget_alerts(integer) is
  'Notes what budgets have crossed and returns the crossings that no mail has been written about, oldest first. One '
  'sweeper at a time; others get none. refusing: not all is spent, but calls are refused. What was spent, is held and is '
  'left is null where the workspace hides what providers charge.';

create or replace function ai.budget_recipients(scope text, workspace uuid) returns setof text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select u.email
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id and w.deleted_at is null
  join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id
  join auth.users u on u.id = m.user_id
  where m.workspace_id = workspace
    and (
      r.is_owner
      or 'manage_ai_policy' = any (r.permissions)
      or (budget_recipients.scope = 'key' and 'manage_ai_keys' = any (r.permissions))
    )
    and char_length(u.email) between 3 and 320
    and u.deleted_at is null
    and (u.banned_until is null or u.banned_until <= now())
$$;
comment on function ai.budget_recipients(text, uuid) is
  'Who is warned about a budget: those who can do something about it. Owners and members with manage_ai_policy, and for a '
  'key''s budget members with manage_ai_keys.';

-- Definer: the service role writes no alerts, and cannot read the identity backend's addresses.
create or replace function ai.queue_budget_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with posted as (
    update ai.budget_alerts a
    set posted_at = now()
    where a.scope = alert ->> 'scope'
      and a.subject_id = (alert ->> 'subjectId')::uuid
      and a.workspace_id = (alert ->> 'workspaceId')::uuid
      and a.month = (alert ->> 'month')::date
      and a.threshold = (alert ->> 'threshold')::smallint
      and a.limit_usd = (alert ->> 'limitUsd')::numeric
      and a.posted_at is null
    returning a.scope, a.workspace_id
  ), kept as (
    -- Nobody is at it yet, so it is due at once.
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_budget_alert_mails.subject, queue_budget_alert_mails.body, now()
    from posted p
    cross join lateral ai.budget_recipients(p.scope, p.workspace_id) as r (email)
    returning id
  )
  select count(*)::integer from kept
$$;
comment on function ai.queue_budget_alert_mails(jsonb, text, text) is
  'Keeps the mails about a crossing for sending, one for each who is warned, and marks it as told, in one statement: of '
  'many callers one does. Returns how many mails; 0 where it was told already or is true no longer.';

create or replace function ai.budget_refuses_calls(budget ai.budgets) returns boolean
  language sql
  stable
  security invoker
  parallel safe
as $$
  select coalesce(
    budget.refused_at >= date_trunc('month', now(), 'UTC')
      -- Until a call of the month was admitted, what is held is of the month before, and comes back.
      and budget.period_start = date_trunc('month', now() at time zone 'UTC')::date
      and budget.limit_usd > 0
      and (budget.spent_usd + budget.reserved_usd) * 5 >= budget.limit_usd * 4,
    false
  )
$$;
comment on function ai.budget_refuses_calls(ai.budgets) is
  'Whether a budget is as good as used up: a call of this UTC month did not fit what was left of it, and at least 80 '
  'percent of it is spent or held. Below that a refused call was too large rather than the budget used up: one absurdly '
  'large request to a fresh budget says nothing about others.';

create or replace function ai.budget_threshold(budget ai.budgets) returns smallint
  language sql
  stable
  security invoker
  parallel safe
as $$
  select case
    when budget.spent_usd >= budget.limit_usd or ai.budget_refuses_calls(budget) then 100
    when budget.spent_usd * 5 >= budget.limit_usd * 4 then 80
    when budget.spent_usd * 2 >= budget.limit_usd then 50
    else 0
  end::smallint
$$;
comment on function ai.budget_threshold(ai.budgets) is
  'The highest of 50, 80 and 100 percent of its limit that a budget has spent, exactly; 0 below them. 100 also where it '
  'refuses calls: their maximum cost no longer fits shortly before all is spent.';

create or replace function ai.record_budget_alerts() returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into ai.budget_alerts as a (scope, subject_id, workspace_id, month, limit_usd, spent_usd, reserved_usd, threshold)
  select b.scope, b.subject_id, b.workspace_id, b.period_start, b.limit_usd, b.spent_usd, b.reserved_usd, x.threshold
  from ai.budgets b
  join public.workspaces w on w.id = b.workspace_id and w.deleted_at is null
  cross join lateral (select ai.budget_threshold(b) as threshold) as x
  left join ai.budget_alerts k
    on k.scope = b.scope and k.subject_id = b.subject_id and k.workspace_id = b.workspace_id
  -- A budget of nothing is a closed door, of which nobody needs to be warned.
  where b.limit_usd > 0
    and (b.spent_usd * 2 >= b.limit_usd or b.refused_at >= date_trunc('month', now(), 'UTC') or k.threshold > 0)
    -- For an hour after its end a month can still be told of, where no call has begun the next one in its row.
    and b.period_start >= date_trunc('month', (now() - interval '1 hour') at time zone 'UTC')::date
    and case
      when k.month = b.period_start then x.threshold > k.threshold or b.limit_usd <> k.limit_usd
      else x.threshold > 0
    end
  on conflict (scope, subject_id, workspace_id) do update
  set
    month = excluded.month,
    limit_usd = excluded.limit_usd,
    spent_usd = excluded.spent_usd,
    reserved_usd = excluded.reserved_usd,
    threshold = case
      when a.month < excluded.month or a.limit_usd < excluded.limit_usd then excluded.threshold
      else greatest(a.threshold, excluded.threshold)
    end,
    crossed_at = case when a.month < excluded.month or a.threshold < excluded.threshold then now() else a.crossed_at end,
    posted_at = case
      when a.month < excluded.month or a.threshold < excluded.threshold then null
      -- What was about to be told is true no longer.
      when a.limit_usd < excluded.limit_usd and a.threshold > excluded.threshold then coalesce(a.posted_at, now())
      else a.posted_at
    end
  where a.month < excluded.month
    or (a.month = excluded.month and (a.threshold < excluded.threshold or a.limit_usd <> excluded.limit_usd))
$$;
comment on function ai.record_budget_alerts() is
  'Notes the thresholds that budgets have crossed since the last time: the highest of each budget. Reads ai.budgets '
  'without a lock. A threshold is crossed once a month, and anew where the limit has been raised above it in between.';

create or replace function ai.reset_budget_alert(scope text, subject uuid, workspace uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update ai.budget_alerts a
  set
    limit_usd = b.limit_usd,
    spent_usd = b.spent_usd,
    reserved_usd = b.reserved_usd,
    threshold = x.threshold,
    posted_at = case when x.threshold < a.threshold then coalesce(a.posted_at, now()) else a.posted_at end
  from ai.budgets b
  cross join lateral (select ai.budget_threshold(b) as threshold) as x
  where a.scope = reset_budget_alert.scope and a.subject_id = subject and a.workspace_id = workspace
    and b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id
    and b.period_start = a.month
    and b.limit_usd > a.limit_usd
    and x.threshold <= a.threshold
$$;
comment on function ai.reset_budget_alert(text, uuid, uuid) is
  'After a budget was raised: thresholds above what is spent of the new limit can be crossed anew. Without it the sweep '
  'would find out by itself, unless they were crossed again before it came by.';

create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case scope
    when 'key' then (
      select k.name from ai.keys k
      where k.lineage_id = subject and k.workspace_id = workspace
      order by k.created_at desc limit 1
    )
    when 'app' then ai.app_label(subject)
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;
comment on function ai.budget_name(text, uuid, uuid) is 'What a budget''s subject is called: its key, app or workspace.';

-- schemas/studio/runs.sql

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_runs(
  member_id uuid,
  workspace uuid,
  filter jsonb default '{}',
  before jsonb default null,
  page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'runs', (
      select coalesce(jsonb_agg(ai.run_summary(r, visible) order by r.created_at desc, r.id desc), '[]')
      from (
        select *
        from ai.runs r
        where r.workspace_id = workspace
          and (filter ->> 'from' is null or r.created_at >= (filter ->> 'from')::timestamptz)
          and (filter ->> 'to' is null or r.created_at < (filter ->> 'to')::timestamptz)
          and (filter ->> 'model' is null or r.model_id = filter ->> 'model')
          and (filter ->> 'feature' is null or r.feature = filter ->> 'feature')
          and (filter ->> 'status' is null or r.status = filter ->> 'status')
          and (filter ->> 'keyId' is null or r.key_id = (filter ->> 'keyId')::uuid)
          and (filter ->> 'appId' is null or r.app_id = (filter ->> 'appId')::uuid)
          and (filter ->> 'requestId' is null or r.request_id = filter ->> 'requestId')
          and (
            before is null
            or (r.created_at, r.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
          )
        order by r.created_at desc, r.id desc
        limit page_size
      ) r
    )
  );
end
$$;
comment on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer) is
  'A page of a workspace''s runs, newest first, for a member with use_ai_studio: { outcome: listed, runs } or '
  '{ outcome: not_allowed }. filter names any of from, to (half-open), model, feature, status, keyId, appId, requestId.';

-- Definer: as ai.list_runs.
create or replace function ai.read_run(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  -- The id is a UUID version 7 of its creation, so that it names its partition.
  begun timestamptz := to_timestamp(('x' || substr(replace(run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0);
  found_run ai.runs;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select * into found_run
  from ai.runs r
  where r.id = read_run.run_id
    and r.workspace_id = workspace
    and r.created_at >= begun - interval '1 second' and r.created_at < begun + interval '1 second';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'run', ai.run_summary(found_run, ai.cost_visible(workspace)),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'step', s.step, 'type', s.type, 'name', s.name, 'status', s.status, 'latencyMs', s.latency_ms
      ) order by s.step), '[]')
      from jsonb_to_recordset(found_run.steps) as s (step smallint, type text, name text, status text, latency_ms integer)
    )
  );
end
$$;
comment on function ai.read_run(uuid, uuid, uuid) is
  'One run with its steps, for a member with use_ai_studio: { outcome: read, run, steps }, not_found or not_allowed.';

create or replace function ai.run_summary(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (run).id,
    'requestId', (run).request_id,
    'createdAt', (run).created_at,
    'settledAt', (run).settled_at,
    'model', (run).model_id,
    'feature', (run).feature,
    'entityId', (run).entity_id,
    'credentialSource', (run).credential_source,
    'executionMode', (run).execution_mode,
    'keyId', (run).key_id,
    'appId', (run).app_id,
    'userId', case when (run).credential_source <> 'key' then (run).actor_id end,
    'streamed', (run).streamed,
    'status', (run).status,
    'httpStatus', (run).http_status,
    'errorCode', (run).error_code,
    'usageSource', (run).usage_source,
    'inputTokens', (run).input_tokens,
    'cachedInputTokens', (run).cached_input_tokens,
    'outputTokens', (run).output_tokens,
    'reasoningTokens', (run).reasoning_tokens,
    'audioInputTokens', (run).audio_input_tokens,
    'audioOutputTokens', (run).audio_output_tokens,
    'cacheWriteTokens', (run).cache_write_tokens + (run).cache_write_1h_tokens,
    'imageInputTokens', (run).image_input_tokens,
    'feeRequests', (run).fee_requests,
    'servedTier', (run).served_tier,
    'marks', (run).marks,
    'billedCredits', trim_scale((run).billed_credits)::text,
    'unmeteredCredits', trim_scale((run).unmetered_credits)::text,
    'costUsd', case when cost_visible then trim_scale((run).cost_usd)::text end,
    'firstByteMs', (run).first_byte_ms,
    'latencyMs', (run).latency_ms
  )
$$;
comment on function ai.run_summary(ai.runs, boolean) is
  'A run for its workspace''s members. costUsd is null where the workspace''s policy hides what providers charge.';

-- schemas/studio/run-content.sql

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.store_run_content(content jsonb) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  insert into ai.run_content as c (run_created_at, run_id, workspace_id, prompt, tools, answer)
  select r.created_at, r.id, r.workspace_id, content ->> 'prompt', content ->> 'tools', content ->> 'answer'
  from ai.runs r
  join public.workspaces s on s.id = r.workspace_id and s.deleted_at is null
  -- Asked of this moment: whoever has just switched it off means what is under way, too.
  join ai.workspace_policies w on w.workspace_id = r.workspace_id and w.content_capture
  where r.created_at = (content ->> 'created_at')::timestamptz and r.id = (content ->> 'id')::uuid
  on conflict (run_created_at, run_id) do update
  set
    prompt = coalesce(c.prompt, excluded.prompt),
    tools = coalesce(c.tools, excluded.tools),
    answer = coalesce(c.answer, excluded.answer)
$$;
comment on function ai.store_run_content(jsonb) is
  'Keeps what was said in a run, {created_at, id, prompt?, tools?, answer?}, where its workspace''s policy captures content. '
  'What is there already stays; what is not is added.';

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.describe_run_content(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return '{"outcome": "not_allowed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'kept',
    'deletedFrom', ai.utc_text_microseconds(r.deleted_from)
  )
  into answer
  from ai.retained_content(workspace, describe_run_content.run_id) r;
  return coalesce(answer, '{"outcome": "none"}');
end
$$;
comment on function ai.describe_run_content(uuid, uuid, uuid) is
  'Whether what was said in a run is kept, for a member with manage_ai_policy, without a word of it: '
  '{ outcome: kept, deletedFrom }, none or not_allowed.';

-- Definer: as ai.describe_run_content; and it writes the log.
create or replace function ai.read_run_content(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return '{"outcome": "not_allowed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'opened',
    'deletedFrom', ai.utc_text_microseconds(r.deleted_from),
    'prompt', (r.content).prompt,
    'tools', (r.content).tools,
    'answer', (r.content).answer
  )
  into answer
  from ai.retained_content(workspace, read_run_content.run_id) r;
  if answer is null then
    return '{"outcome": "none"}';
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(workspace, 'run_content.read', read_run_content.run_id, read_run_content.run_id::text);
  return answer;
end
$$;
comment on function ai.read_run_content(uuid, uuid, uuid) is
  'What was said in a run, for a member with manage_ai_policy, and a line of the workspace''s log that they read it: '
  '{ outcome: opened, deletedFrom, prompt, tools, answer }, none or not_allowed.';

create or replace function ai.retained_content(workspace uuid, run_id uuid) returns table (content ai.run_content, deleted_from timestamptz)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c, c.run_created_at + make_interval(days => w.content_retention_days)
  from (
    -- The id is a UUID version 7 of its creation.
    select to_timestamp(('x' || substr(replace(retained_content.run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
      as moment
  ) as begun
  join ai.run_content c on c.run_created_at >= begun.moment - interval '1 second'
    and c.run_created_at < begun.moment + interval '1 second'
  join ai.workspace_policies w on w.workspace_id = c.workspace_id and w.content_capture
  where c.workspace_id = workspace
    and c.run_id = retained_content.run_id
    and c.run_created_at >= now() - make_interval(days => w.content_retention_days)
$$;
comment on function ai.retained_content(uuid, uuid) is
  'A run''s content as long as the workspace''s policy of this moment keeps it, swept or not, and from when on it is '
  'deleted. Granted to nobody.';

-- Definer: the server's service role deletes nothing by itself.
create or replace function ai.delete_expired_content(most integer default 5000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  swept integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired_content', 0)) then
    return 0;
  end if;
  with recursive owners as (
    (select c.workspace_id from ai.run_content c order by c.workspace_id limit 1)
    union all
    select (
      select c.workspace_id from ai.run_content c where c.workspace_id > o.workspace_id order by c.workspace_id limit 1
    )
    from owners o
    where o.workspace_id is not null
  ), over as (
    select c.run_created_at, c.run_id
    from owners o
    left join public.workspaces s on s.id = o.workspace_id and s.deleted_at is null
    left join ai.workspace_policies w on w.workspace_id = s.id and w.content_capture
    cross join lateral (
      select c.run_created_at, c.run_id
      from ai.run_content c
      where c.workspace_id = o.workspace_id
        -- A workspace that is closed keeps nothing, nor does one without a policy that would.
        and c.run_created_at < coalesce(now() - make_interval(days => w.content_retention_days), 'infinity')
      order by c.run_created_at
      limit most
    ) as c
    limit most
  )
  delete from ai.run_content c
  using over o
  where c.run_created_at = o.run_created_at and c.run_id = o.run_id;
  get diagnostics swept = row_count;
  delete from ai.idempotency_keys i
  where (i.workspace_id, i.principal_id, i.key) in (
    select o.workspace_id, o.principal_id, o.key
    from ai.idempotency_keys o
    where o.expires_at < now()
    order by o.expires_at
    limit most
    for update skip locked
  );
  return swept;
end
$$;
comment on function ai.delete_expired_content(integer) is
  'Deletes content whose days are over, by the policy of this moment, or whose workspace is closed, and idempotency keys '
  'past their 24 hours: so many of each at a time. Returns how many runs'' content it deleted. One sweeper at a time; '
  'others return 0.';

-- schemas/studio/overview.sql

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_overview(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, grouped_by text default 'day', days_each integer default 1, max_rows integer default 500
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
  -- Planned once a connection.
  set plan_cache_mode = force_generic_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  fault text := coalesce(
    (ai.usage_window(range_from, range_to, 30)).fault, (ai.usage_window(previous_from, previous_to, 30)).fault
  );
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', fault);
  end if;
  return (
    with current as materialized (
      select * from ai.usage_by_key(workspace, range_from, range_to, grouped_by, days_each, visible)
    ), previous as materialized (
      select * from ai.usage_by_key(workspace, previous_from, previous_to, grouped_by, days_each, visible)
    ), deducted as materialized (
      select ((d.day - range_from::date) / days_each * days_each)::text as key, d.credits
      from ai.unlinked_deductions_by_day(member_id, workspace, range_from, range_to) d
    ), listed as (
      select coalesce(c.key, p.key) as key, c.sums, p.sums as previous_sums, c.cost_usd, c.billed_credits, c.requests
      from (select * from current where key is not null) c
      full join (select * from previous where key is not null) p on p.key = c.key
    ), shown as (
      select l.*, row_number() over (
        order by
          case when grouped_by = 'day' then l.key::integer end desc,
          case when visible then l.cost_usd else l.billed_credits end desc nulls last,
          l.requests desc nulls last,
          l.key collate "C"
      ) as place
      from listed l
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'everUsed', exists (select from ai.runs r where r.workspace_id = workspace),
      'totals', t.sums || jsonb_build_object(
        'otherDeductions', trim_scale(o.credits)::text,
        'usedCredits', trim_scale(o.credits + coalesce(t.billed_credits, 0))::text
      ),
      'previous', b.sums || jsonb_build_object(
        'usedCredits', trim_scale(
          ai.unlinked_deductions(member_id, workspace, previous_from, previous_to) + coalesce(b.billed_credits, 0)
        )::text
      ),
      'rows', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'key', s.key,
            'name', case grouped_by
              when 'key' then (
                select k.name from ai.keys k
                where k.lineage_id = nullif(s.key, '')::uuid and k.workspace_id = workspace
                order by k.created_at desc limit 1
              )
              when 'app' then ai.app_label(nullif(s.key, '')::uuid)
            end,
            'now', s.sums,
            'before', s.previous_sums
          )
          order by s.place
        ), '[]')
        from shown s
        where s.place <= max_rows
      ),
      'leftOut', (select count(*) from shown s where s.place > max_rows),
      'deductions', (
        select coalesce(jsonb_object_agg(x.key, trim_scale(x.credits)::text), '{}')
        from (select d.key, sum(d.credits) as credits from deducted d group by d.key) x
      )
    )
    from (select * from current where key is null) t
    cross join (select * from previous where key is null) b
    cross join (select coalesce(sum(d.credits), 0) as credits from deducted d) o
  );
end
$$;
comment on function ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer) is
  'What a workspace used in a range, for a member with use_ai_studio: totals, those of the previous range, and rows by '
  'day (key: how many days of the range come before), model, feature, key (its lineage) or app, the largest first, '
  'days the newest first. Credits deducted without a run stand beside them, by day in deductions.';

-- schemas/studio/usage.sql

create or replace function ai.usage_sums(
  requests numeric, failed numeric, input_tokens numeric, output_tokens numeric, cost_usd numeric,
  billed_credits numeric, unmetered_credits numeric, latency_ms numeric, timed numeric
) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'requests', coalesce(requests, 0),
    'failed', coalesce(failed, 0),
    'inputTokens', coalesce(input_tokens, 0),
    'outputTokens', coalesce(output_tokens, 0),
    'amountUsd', trim_scale(cost_usd)::text,
    'billedCredits', trim_scale(coalesce(billed_credits, 0))::text,
    'unmeteredCredits', trim_scale(coalesce(unmetered_credits, 0))::text,
    'averageLatencyMs', round(latency_ms / nullif(timed, 0))
  )
$$;
comment on function ai.usage_sums(numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric) is
  'Sums of usage as people read them; amountUsd is null where the workspace hides what providers charge.';

-- schemas/studio/overview.sql

create or replace function ai.usage_key(part ai.usage_daily, grouped_by text, first_day date, days_each integer) returns text
  language sql
  immutable
  security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then (part).model_id
    when 'feature' then (part).feature
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
  end
$$;
comment on function ai.usage_key(ai.usage_daily, text, date, integer) is
  'What a part of usage is listed under. Days are told by how many of their range come before them, so that two ranges can '
  'be laid over each other; some may be taken together.';

-- schemas/usage/dimensions.sql

create or replace function ai.route_provider(routes jsonb, route smallint) returns text
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select coalesce(
    (select r ->> 'provider' from jsonb_array_elements(routes) as r where (r ->> 'position')::smallint = route limit 1),
    routes -> 0 ->> 'provider'
  )
$$;
comment on function ai.route_provider(jsonb, smallint) is
  'The provider of the route at a position, else the first, wherever it is listed.';

create or replace function ai.run_provider(routes jsonb, route smallint) returns text
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Routes are listed in order. A function without a subselect is part of its caller's plan, which is ten times as fast.
  select case
    when (routes -> (route - 1) ->> 'position')::smallint = route then routes -> (route - 1) ->> 'provider'
    else ai.route_provider(routes, route)
  end
$$;
comment on function ai.run_provider(jsonb, smallint) is 'Returns the provider that a run is charged at.';

create or replace function ai.latency_bucket(ms integer) returns integer
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- A hair over, so that powers of two begin their bucket whatever the logarithm's last digit.
  select case
    when ms < 1 then 0
    when ms >= 1 then least(1 + floor(4 * ln(ms::double precision) / ln(2::double precision) + 1e-9), 80)
  end::integer
$$;
comment on function ai.latency_bucket(integer) is
  'The bucket of a duration: bucket n, from 1 to 80, holds 2^((n - 1) / 4) to 2^(n / 4) ms, which is 19 % wide; bucket 0 '
  'what is shorter than 1 ms, the last also what is longer than 17 minutes.';

create or replace function ai.latency_mark(ms integer) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ('1e' || 12 * ai.latency_bucket(ms))::numeric
$$;
comment on function ai.latency_mark(integer) is
  'One run in its bucket, as a number with twelve digits for each: sums of marks are histograms, and adding numbers is '
  'what Postgres does fastest. Null without a duration.';

-- schemas/usage/rollups.sql

-- Without settings of its own, so that its callers' plans take it in: their conditions reach the runs.
create or replace function ai.sum_usage(workspace uuid, first_moment timestamptz, end_moment timestamptz) returns setof ai.usage_daily
  language sql
  stable
  security invoker
as $$
  select
    r.workspace_id, (r.created_at at time zone 'UTC')::date, r.app_id, r.key_lineage_id, ai.run_provider(r.routes, r.route),
    r.model_id, r.feature, r.execution_mode,
    count(*), count(*) filter (where r.status = 'failed'), sum(r.input_tokens)::bigint, sum(r.output_tokens)::bigint,
    sum(r.cost_usd), sum(r.billed_credits), sum(r.unmetered_credits),
    coalesce(sum(r.latency_ms), 0)::bigint, count(r.latency_ms),
    coalesce(sum(ai.latency_mark(r.latency_ms)), 0),
    coalesce(sum(ai.latency_mark(case when r.streamed then r.first_byte_ms end)), 0),
    r.billing_name, r.billing_account
  from ai.runs r
  where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
  group by 1, 2, 3, 4, 5, 6, 7, 8, r.billing_name, r.billing_account
$$;
comment on function ai.sum_usage(uuid, timestamptz, timestamptz) is
  'A workspace''s runs of a half-open range, open ones included, summed as ai.usage_daily has them.';

-- schemas/usage/report.sql

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.usage_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.usage_daily
  language sql
  stable
  security invoker
as $$
  with bounds as (
    select
      s.before,
      s.before::timestamp at time zone 'UTC' as live_from,
      (window_from at time zone 'UTC')::date as first_day,
      (window_to at time zone 'UTC')::date as last_day
    from ai.usage_sealed_days s
  ), live_days as (
    select c.day
    from bounds b
    join ai.usage_changed_days c on c.workspace_id = workspace and c.day between b.first_day and b.last_day and c.day < b.before
    union
    -- Days that the window cuts.
    select e.day
    from bounds b
    cross join lateral (values (b.first_day, window_from), (b.last_day, window_to)) as e (day, edge)
    where e.day < b.before and e.edge <> e.day::timestamp at time zone 'UTC'
  ), live_ranges as (
    select
      greatest(window_from, d.day::timestamp at time zone 'UTC') as first_moment,
      least(window_to, (d.day + 1)::timestamp at time zone 'UTC') as end_moment
    from live_days d
    union all
    select greatest(window_from, b.live_from), window_to from bounds b where window_to > b.live_from
  )
  select u.*
  from ai.usage_daily u
  where u.workspace_id = workspace
    and u.day >= (window_from at time zone 'UTC')::date
    and u.day < (select least(b.last_day, b.before) from bounds b)
    and u.day not in (select d.day from live_days d)
  union all
  select s.*
  from live_ranges r
  cross join lateral ai.sum_usage(workspace, r.first_moment, r.end_moment) as s
$$;
comment on function ai.usage_between(uuid, timestamptz, timestamptz) is
  'A workspace''s usage of a half-open window, in parts that callers group: sums where a day is wholly in it, over and '
  'unchanged, the rest from the runs themselves. One statement sees each run once.';

-- schemas/studio/overview.sql

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.latency_quantiles(marks numeric) returns table (p50 integer, p95 integer)
  language sql
  immutable
  security invoker
  parallel safe
as $$
  with d as materialized (
    -- Bytes: finding the nth character of a text means counting them.
    select lpad(marks::text, 12 * 81, '0')::bytea as digits
  )
  select
    max(round(b.low + (b.high - b.low) * (0.5 * b.total - b.before) / b.runs))
      filter (where b.before < 0.5 * b.total and b.before + b.runs >= 0.5 * b.total)::integer,
    max(round(b.low + (b.high - b.low) * (0.95 * b.total - b.before) / b.runs))
      filter (where b.before < 0.95 * b.total and b.before + b.runs >= 0.95 * b.total)::integer
  from (
    select
      c.runs,
      case c.bucket when 0 then 0 else 2 ^ ((c.bucket - 1) / 4.0::double precision) end as low,
      2 ^ (c.bucket / 4.0::double precision) as high,
      (sum(c.runs) over (order by c.bucket) - c.runs)::double precision as before,
      (sum(c.runs) over ())::double precision as total
    from (
      select n as bucket, encode(substr(d.digits, 12 * (80 - n) + 1, 12), 'escape')::bigint as runs
      from d
      cross join generate_series(0, 80) as n
    ) c
    where c.runs > 0
  ) b
$$;
comment on function ai.latency_quantiles(numeric) is
  'The durations in ms that a half and 95 % of runs did not exceed, from a sum of ai.latency_mark. Each lies in the bucket '
  'that the exact one lies in, and so is off by that bucket''s width, 19 %, at most. Null without a run.';

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer, cost_visible boolean
) returns table (key text, sums jsonb, cost_usd numeric, billed_credits numeric, requests numeric)
  language sql
  stable
  security invoker
as $$
  select
    g.key,
    ai.usage_sums(
      g.requests, g.failed, g.input_tokens, g.output_tokens, case when cost_visible then coalesce(g.cost_usd, 0) end,
      g.billed_credits, g.unmetered_credits, g.latency_ms, g.timed
    ) || jsonb_build_object(
      'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
    ),
    g.cost_usd, g.billed_credits, g.requests
  from (
    -- The row without a key is all of it.
    select
      u.key, sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
      sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
      sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed,
      sum(u.latency_marks) as latency_marks, sum(u.first_token_marks) as first_token_marks
    from (
      select ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.*
      from ai.usage_between(workspace, window_from, window_to) p
    ) u
    group by grouping sets ((u.key), ())
  ) g
  cross join lateral ai.latency_quantiles(g.latency_marks) as l
  cross join lateral ai.latency_quantiles(g.first_token_marks) as f
$$;
comment on function ai.usage_by_key(uuid, timestamptz, timestamptz, text, integer, boolean) is
  'A range''s sums and quantiles by ai.usage_key, and of all of it where key is null. Amounts are exact texts in sums.';

-- schemas/studio/usage.sql

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.usage_between(workspace, asked.window_from, asked.window_to)
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        ] as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed
      from parts u
      group by 1
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.utc_text_microseconds(asked.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'day', nullif(p.key[1], ''),
            'model', nullif(p.key[2], ''),
            'feature', nullif(p.key[3], ''),
            'executionMode', nullif(p.key[4], ''),
            'provider', nullif(p.key[5], ''),
            'keyId', nullif(p.key[6], ''),
            'keyName', (
              select k.name from ai.keys k
              where k.lineage_id = nullif(p.key[6], '')::uuid and k.workspace_id = workspace
              order by k.created_at desc limit 1
            ),
            'appId', nullif(p.key[7], ''),
            'appName', ai.app_label(nullif(p.key[7], '')::uuid),
            'position', p.key
          )
          order by p.key collate "C"
        ), '[]')
        from (
          select * from grouped g
          where after is null or g.key collate "C" > after collate "C"
          order by g.key collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;
comment on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) is
  'A workspace''s usage for a member with use_ai_studio, grouped by any of day, model, feature, executionMode, provider, '
  'key (its lineage) and app: a page of rows, with totals of the whole window and credits deducted without a run beside '
  'them. By default the last 30 days. after is the position of the last row of the page before.';

-- schemas/studio/credits.sql

-- Definer: as ai.read_usage.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with accounts as materialized (
      select a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered
      from ai.usage_between(workspace, asked.window_from, asked.window_to) u
    ), others as (
      select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'totals', (
        select jsonb_build_object(
          'runCredits', trim_scale(r.billed)::text,
          'otherDeductions', trim_scale(o.credits)::text,
          'usedCredits', trim_scale(r.billed + o.credits)::text,
          'unmeteredCredits', trim_scale(r.unmetered)::text,
          'addedCredits', trim_scale((
            select coalesce(sum(l.amount), 0)
            from accounts a
            join ai.credit_ledger l on l.account_id = a.id
            where l.run_id is null and l.amount > 0
              and l.created_at >= asked.window_from and l.created_at < asked.window_to
          ))::text
        )
        from runs r cross join others o
      ),
      'entries', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'id', p.id::text,
            'createdAt', ai.utc_text_microseconds(p.created_at),
            'payer', p.payer,
            'kind', p.kind,
            'amount', trim_scale(p.amount)::text,
            'balanceAfter', trim_scale(p.balance_after)::text,
            'runId', p.run_id,
            'description', p.description
          )
          order by p.id desc
        ), '[]')
        from (
          select a.payer, e.*
          from accounts a
          cross join lateral (
            select *
            from ai.credit_ledger l
            where l.account_id = a.id
              and l.created_at >= asked.window_from
              and l.created_at < asked.window_to
              and (before_id is null or l.id < before_id)
              -- A member's balance pays in each of their free workspaces: only this one's runs belong here.
              and (
                a.payer = 'workspace'
                or l.run_id is null
                or exists (
                  select from ai.runs r
                  where r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = workspace
                )
              )
            order by l.id desc
            limit page_size
          ) as e
          order by e.id desc
          limit page_size
        ) p
      )
    )
  );
end
$$;
comment on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer) is
  'What a member with use_ai_studio reads of credits: balances, a page of the ledger, and what was used in the window, '
  'which is what runs were billed and what was deducted without one. By default the last 30 days.';

create or replace function ai.credit_accounts_of(member_id uuid, workspace uuid) returns setof ai.credit_accounts
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.*
  from public.workspaces w
  join ai.plans p on p.id = w.plan_id
  join ai.credit_accounts a on a.workspace_id = w.id or (p.payer = 'member' and a.user_id = member_id)
  where w.id = workspace
$$;
comment on function ai.credit_accounts_of(uuid, uuid) is
  'The accounts that a member sees in a workspace: its own, and theirs where it is free.';

create or replace function ai.unlinked_deductions_by_day(
  member_id uuid, workspace uuid, window_from timestamptz, window_to timestamptz
) returns table (day date, credits numeric)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select (l.created_at at time zone 'UTC')::date, -sum(l.amount)
  from ai.credit_accounts_of(member_id, workspace) a
  join ai.credit_ledger l on l.account_id = a.id
  where l.run_id is null and l.amount < 0 and l.created_at >= window_from and l.created_at < window_to
  group by 1
$$;
comment on function ai.unlinked_deductions_by_day(uuid, uuid, timestamptz, timestamptz) is
  'Credits that were deducted without a run, as positive numbers. What a run was billed is in the run.';

create or replace function ai.unlinked_deductions(member_id uuid, workspace uuid, window_from timestamptz, window_to timestamptz)
  returns numeric
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(sum(d.credits), 0) from ai.unlinked_deductions_by_day(member_id, workspace, window_from, window_to) d
$$;
comment on function ai.unlinked_deductions(uuid, uuid, timestamptz, timestamptz) is 'All of ai.unlinked_deductions_by_day.';

-- schemas/usage/rollups.sql

-- Definer: the server's service role holds no grant to write sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  return ai.seal_completed_usage_days(max_days) + ai.rebuild_changed_usage_days(max_days);
end
$$;
comment on function ai.roll_up_usage(integer) is
  'Keeps ai.usage_daily: at most so many new days and so many changed ones at a time, one caller at a time. Returns how '
  'many days it summed; 0 where there is nothing to do.';

create or replace function ai.seal_completed_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  -- A call of yesterday has long committed: the gateway's statements take 10 seconds at most.
  last_end date := ((now() - interval '15 minutes') at time zone 'UTC')::date;
  next_day date;
  sealed integer := 0;
begin
  select s.before into next_day from ai.usage_sealed_days s;
  while next_day < last_end and sealed < max_days loop
    perform ai.rebuild_usage_day(next_day, array(
      select distinct r.workspace_id
      from ai.runs r
      where r.created_at >= next_day::timestamp at time zone 'UTC'
        and r.created_at < (next_day + 1)::timestamp at time zone 'UTC'
    ));
    next_day := next_day + 1;
    sealed := sealed + 1;
  end loop;
  if sealed > 0 then
    update ai.usage_sealed_days s set before = next_day where s.singleton;
  end if;
  return sealed;
end
$$;
comment on function ai.seal_completed_usage_days(integer) is
  'Sums the days that are over, in their order, at most so many. Returns how many.';

create or replace function ai.rebuild_changed_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  changed record;
  summed integer := 0;
begin
  for changed in
    select c.day, array_agg(distinct c.workspace_id) as workspaces, array_agg(c.id) as ids
    from ai.usage_changed_days c
    group by c.day
    order by c.day
    limit max_days
  loop
    -- What commits from here on leaves a mark that this does not take away.
    delete from ai.usage_changed_days c where c.id = any (changed.ids);
    continue when changed.day >= (select s.before from ai.usage_sealed_days s);
    perform ai.rebuild_usage_day(changed.day, changed.workspaces);
    summed := summed + 1;
  end loop;
  return summed;
end
$$;
comment on function ai.rebuild_changed_usage_days(integer) is
  'Sums days anew whose runs changed after all, at most so many. Returns how many.';

create or replace function ai.rebuild_usage_day(day date, workspaces uuid[]) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from ai.usage_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_daily
  select s.*
  from unnest(workspaces) as w (id)
  cross join lateral ai.sum_usage(
    w.id, rebuild_usage_day.day::timestamp at time zone 'UTC', (rebuild_usage_day.day + 1)::timestamp at time zone 'UTC'
  ) as s
$$;
comment on function ai.rebuild_usage_day(date, uuid[]) is 'Puts a day''s sums of some workspaces in place of what was there.';

-- Definer: whoever settles a run holds no grant on the queue.
create or replace function ai.record_usage_change() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  run ai.runs := case when tg_op = 'DELETE' then old else new end;
begin
  if run.created_at < date_trunc('day', now(), 'UTC') then
    insert into ai.usage_changed_days (workspace_id, day)
    values (run.workspace_id, (run.created_at at time zone 'UTC')::date);
  end if;
  return null;
end
$$;
comment on function ai.record_usage_change() is
  'Runs of today are read live and need no mark, so that calls pay nothing for this.';

-- schemas/usage/report.sql

-- Definer: gateway holds no grant on any table. It trusts no id in the call: who calls comes from the credential.
create or replace function ai.report_usage(call jsonb) returns json
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- Days of an interval are UTC's.
  set timezone = 'UTC'
  -- A year's groups are sorted in memory, and planned once a connection.
  set work_mem = '32MB'
  set plan_cache_mode = force_generic_plan
as $$
declare
  caller ai.caller := ai.app_caller(call);
  asked record := ai.usage_window((call ->> 'from')::timestamptz, (call ->> 'to')::timestamptz, 365);
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  if asked.fault is not null then
    return ai.refusal('invalid_request', jsonb_build_object('param', 'from', 'message', asked.fault));
  end if;
  if (call -> 'notes_use')::boolean then
    perform ai.record_key_use(caller);
  end if;
  return (
    select json_build_object(
      'currency', 'USD',
      'source', 'platform_ai_metering',
      'workspaceId', caller.workspace_id,
      'appId', caller.app_id,
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'previous', case when ai.has_usage_before(caller.workspace_id, caller.app_id, asked.window_from) then json_build_object(
        'from', ai.utc_text_microseconds(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.utc_text_microseconds(asked.window_from)
      ) end,
      'rows', coalesce(json_agg(d), '[]')
    )
    from (
      select
        u.day,
        u.model_id as model,
        u.feature,
        u.execution_mode as "executionMode",
        trim_scale(sum(u.cost_usd)) as "amountUsd",
        sum(u.requests) as requests,
        sum(u.failed) as failed,
        sum(u.input_tokens) as "inputTokens",
        sum(u.output_tokens) as "outputTokens",
        trim_scale(sum(u.billed_credits)) as "billedCredits",
        trim_scale(sum(u.unmetered_credits)) as "unmeteredCredits"
      from ai.usage_between(caller.workspace_id, asked.window_from, asked.window_to) u
      where u.app_id = caller.app_id
      group by u.day, u.model_id, u.feature, u.execution_mode
      order by u.day, u.model_id collate "C", u.feature collate "C", u.execution_mode collate "C"
    ) as d
  );
end
$$;
comment on function ai.report_usage(jsonb) is
  'The usage report of the app that calls, for a window of at most 365 days; or { refused }. Amounts are exact decimals. '
  'notes_use: whether asking counts as a use of the key.';

create or replace function ai.usage_window(
  given_from timestamptz, given_to timestamptz, default_days integer, most_days integer default 365,
  out window_from timestamptz, out window_to timestamptz, out fault text
)
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  -- 24 hours a day, whatever the session's zone makes of days.
  window_to := coalesce(given_to, date_trunc('milliseconds', now()));
  window_from := coalesce(given_from, window_to - default_days * interval '24 hours');
  fault := case
    when window_from >= window_to then 'from must be before to.'
    when window_to - window_from > most_days * interval '24 hours' then format('The window may have %s days at most.', most_days)
  end;
end
$$;
comment on function ai.usage_window(timestamptz, timestamptz, integer, integer) is
  'The half-open window that is asked for, up to now where no end is given; fault says what is wrong with it.';

create or replace function ai.has_usage_before(workspace uuid, app uuid, moment timestamptz) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    exists (
      select from ai.usage_daily u
      where u.workspace_id = workspace and u.app_id = app and u.day < (moment at time zone 'UTC')::date
    )
    or exists (
      select
      from ai.usage_sealed_days s
      cross join lateral (
        select least(
          s.before,
          (moment at time zone 'UTC')::date,
          (select min(c.day) from ai.usage_changed_days c where c.workspace_id = workspace)
        )::timestamp at time zone 'UTC' as live_from
      ) as l
      cross join lateral ai.usage_between(workspace, l.live_from, moment) as u
      where u.app_id = app
    )
$$;
comment on function ai.has_usage_before(uuid, uuid, timestamptz) is
  'Whether an app has any run in a workspace before a moment.';

create or replace function ai.app_caller(call jsonb) returns ai.caller
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
begin
  if caller.source is null then
    caller.refused := 'invalid_api_key';
  elsif caller.source = 'session' or caller.app_id is null then
    caller.refused := 'credential_not_bound';
  elsif caller.refused is null and call ->> 'workspace' is null then
    caller.refused := 'workspace_header_required';
  end if;
  return caller;
end
$$;
comment on function ai.app_caller(jsonb) is
  'Who calls for a registered app, by the credential alone: an app''s token or a key bound to it, with the workspace '
  'named. refused says why not. Granted to nobody.';

-- Definer: gateway holds no grant on any table. It trusts no id in the call: who calls comes from the credential.
create or replace function ai.check_app_caller(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;
comment on function ai.check_app_caller(jsonb) is
  'For a call whose body is none: whether its credential may import and read usage at all. { workspace_id } or { refused }.';

-- Without settings of its own, so that lists of thousands take it into their plans.
create or replace function ai.utc_text_microseconds(moment timestamptz) returns text
  language sql
  stable
  security invoker
as $$
  select to_char(
    moment at time zone 'UTC',
    case
      when date_trunc('milliseconds', moment) = moment then 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
      else 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
    end
  )
$$;
comment on function ai.utc_text_microseconds(timestamptz) is
  'A moment as ai.utc_text writes it, with its microseconds where it has some.';
