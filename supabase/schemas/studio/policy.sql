-- A workspace's AI policy: models, limits and content retention. ai.begin_runs reads the policy on each call.

-- Returns a workspace's policy for a member with use_ai_studio: { outcome: read, policy } or { outcome: not_allowed }.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_workspace_policy(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object('outcome', 'read', 'policy', ai.workspace_policy_summary(workspace));
end
$$;

-- Changes the given fields of a workspace's policy, for a member with manage_ai_policy: allowedModels, deniedModels,
-- allowedRegions, requestsPerMinute, tokensPerMinute, modelLimits [{ model, requestsPerMinute, tokensPerMinute }],
-- providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, appBudgets [{ appId, monthlyBudgetUsd }].
-- null removes a limit. readAt is the updatedAt of the
-- policy that the member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy),
-- changed_meanwhile (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are
-- already in one of the lists are never unknown. Each change adds an entry to the workspace's audit log.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return ai.set_workspace_policy(member_id, workspace, changes);
end
$$;

-- Changes a workspace's policy like ai.change_workspace_policy, without its check of permissions, for a member, an admin
-- or a service account.
create or replace function ai.set_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels')
    || ai.limited_models(before -> 'modelLimits');
  foreach param in array array['allowedModels', 'deniedModels', 'modelLimits'] loop
    unknown := ai.unknown_models(array(
      select n.name
      from unnest(
        case param when 'modelLimits' then ai.limited_models(changes -> param) else ai.text_list(changes -> param) end
      ) with ordinality as n (name, place)
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
    allowed_regions = case
      when changes ? 'allowedRegions' then ai.text_list(changes -> 'allowedRegions') else p.allowed_regions
    end,
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    model_limits = case when changes ? 'modelLimits' then ai.model_limits(changes -> 'modelLimits') else p.model_limits end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = private.person_or_null(member_id),
    service_account_id = private.service_account_or_null(member_id)
  where p.workspace_id = workspace;
  -- Locks apps before the workspace, which is the common lock order.
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

-- Returns a workspace's policy as its members see it, or the defaults if the workspace has not set a policy.
create or replace function ai.workspace_policy_summary(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'allowedModels', to_jsonb(p.allowed_models),
    'deniedModels', coalesce(to_jsonb(p.denied_models), '[]'),
    'allowedRegions', to_jsonb(p.allowed_regions),
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'modelLimits', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('model', l.key, 'requestsPerMinute', l.value -> 'requests', 'tokensPerMinute', l.value -> 'tokens')
          order by l.key
        ),
        '[]'
      )
      from jsonb_each(p.model_limits) as l
    ),
    'providerCostVisible', coalesce(p.provider_cost_visible, true),
    'contentCapture', coalesce(p.content_capture, false),
    'contentRetentionDays', coalesce(p.content_retention_days, 30),
    'budget', (
      select ai.budget_summary(b, ai.cost_visible(w.id)) from ai.budgets b
      where b.scope = 'workspace' and b.subject_id = w.id and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
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
      where b.scope = 'app' and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
    ),
    'updatedAt', p.updated_at,
    'updatedBy', private.actor_name(coalesce(p.updated_by, p.service_account_id))
  )
  from (select workspace as id) w
  left join ai.workspace_policies p on p.workspace_id = w.id
$$;

-- Returns limits of models, such as [{"model": "gpt-5", "requestsPerMinute": 10, "tokensPerMinute": null}], as a policy
-- stores them, or null if there are none.
create or replace function ai.model_limits(limits jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_object_agg(l ->> 'model', jsonb_strip_nulls(jsonb_build_object(
    'requests', l -> 'requestsPerMinute', 'tokens', l -> 'tokensPerMinute'
  )))
  from jsonb_array_elements(limits) as l
$$;

-- Returns the models of a list of limits, in their order.
create or replace function ai.limited_models(limits jsonb) returns text[]
  language sql immutable security invoker set search_path = ''
as $$
  select array(select l.value ->> 'model' from jsonb_array_elements(limits) with ordinality as l order by l.ordinality)
$$;

-- Returns what a member with use_ai_studio or manage_ai_keys can choose from in a workspace's policy and keys: the
-- catalogue's models and the plan's rate limits. granted is true for a model that the plan or the workspace's own grant
-- allows. permitted is true for a model that the workspace's policy allows.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_policy_options(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
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
