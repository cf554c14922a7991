-- A workspace's own rules for its AI: models, limits, budgets, what is kept. Our server calls these for a member whose
-- session it has verified; what the member may do is asked here all the same. ai.begin_run reads the rules on each call,
-- so that a change holds from the next one on.

create function ai.budget_summary(budget ai.budgets, cost_visible boolean) returns jsonb
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
revoke execute on function ai.budget_summary(ai.budgets, boolean) from public, anon, authenticated;

create function ai.workspace_policy_summary(workspace uuid) returns jsonb
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
revoke execute on function ai.workspace_policy_summary(uuid) from public, anon, authenticated;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create function ai.read_workspace_policy(member_id uuid, workspace uuid) returns jsonb
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
revoke execute on function ai.read_workspace_policy(uuid, uuid) from public, anon, authenticated;
grant execute on function ai.read_workspace_policy(uuid, uuid) to service_role;

create function ai.lock_policy(workspace uuid) returns void
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
revoke execute on function ai.lock_policy(uuid) from public, anon, authenticated;

-- Definer: as ai.read_workspace_policy; and the service role writes no budgets.
create function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
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
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_may_act_in((app ->> 'appId')::uuid, workspace) then
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
revoke execute on function ai.change_workspace_policy(uuid, uuid, jsonb) from public, anon, authenticated;
grant execute on function ai.change_workspace_policy(uuid, uuid, jsonb) to service_role;
