-- Changes the AI settings of workspaces for the platform, by the rules for their members. Each change is in the
-- console's log and in the workspace's.

-- Changes the given fields of a workspace's AI policy. The change is { actor or serviceAccount, workspace, seen (the
-- updatedAt of the policy that the caller saw, or null), policy (fields of ai.change_workspace_policy), reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | unknown_models | invalid } or { refused: conflict,
-- last }.
-- Definer: the service role may not change policies.
create or replace function private.set_workspace_policy(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace public.workspaces;
  runtime_fields text[] := '{budget,appBudgets,updatedAt,updatedBy}';
  old_policy jsonb;
  result jsonb;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  old_policy := ai.workspace_policy_summary(workspace.id);
  result := ai.set_workspace_policy(
    coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid, workspace.id,
    change -> 'policy' || jsonb_build_object('readAt', change -> 'seen')
  );
  if result ->> 'outcome' = 'changed' then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'workspace.policy',
      'target', 'workspace ' || workspace.id,
      'targetName', case when workspace.personal_user_id is null then workspace.name end,
      'before', old_policy - runtime_fields,
      'after', (result -> 'policy') - runtime_fields
    ));
  end if;
  return private.answer_setting(workspace.id, result ->> 'outcome');
end
$$;

-- Sets or removes a budget of a workspace, or of an app or label in it. The change is { actor or serviceAccount,
-- workspace, scope (workspace, app or label), subject (the app's name, the label or null), period, budget (like
-- ai.budget_settings, or null to remove it), seen (the budget that the caller saw, or null), reason, requestId, ip }.
-- Budgets of members and keys belong to people: the workspace's own managers set them. Returns {} or { refused:
-- forbidden | not_found | invalid } or { refused: conflict, last }.
-- Definer: the service role may not change budgets.
create or replace function private.set_workspace_budget(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace public.workspaces;
  scope text := change ->> 'scope';
  identity jsonb := jsonb_build_object('scope', scope, 'subject', change -> 'subject', 'period', change -> 'period');
  budget jsonb := nullif(change -> 'budget', 'null');
  seen jsonb := nullif(change -> 'seen', 'null');
  result jsonb;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null;
  if not found or scope not in ('workspace', 'app', 'label') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  result := ai.replace_budget(
    coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid, workspace.id, scope,
    case scope
      when 'workspace' then workspace.id
      when 'app' then (select a.id from private.apps a where a.name = change ->> 'subject')
    end,
    budget ->> 'limitUsd', seen ->> 'limitUsd', case scope when 'label' then change ->> 'subject' end,
    change ->> 'period', budget ->> 'timeZone',
    array(select jsonb_array_elements_text(budget -> 'thresholds')::smallint), (budget ->> 'maxCalls')::bigint,
    seen ->> 'timeZone', array(select jsonb_array_elements_text(seen -> 'thresholds')::smallint),
    (seen ->> 'maxCalls')::bigint, (budget ->> 'reservesExpected')::boolean, (seen ->> 'reservesExpected')::boolean
  );
  if result ->> 'outcome' = 'changed' then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'workspace.budget',
      'target', 'workspace ' || workspace.id,
      'targetName', case when workspace.personal_user_id is null then workspace.name end,
      'before', identity || coalesce(seen, '{}'),
      'after', identity || coalesce(budget, '{"limitUsd": null}')
    ));
  end if;
  return private.answer_setting(workspace.id, result ->> 'outcome');
end
$$;

-- Returns the console's answer for the outcome that a member would get.
create or replace function private.answer_setting(workspace_id uuid, outcome text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when outcome in ('changed', 'unchanged') then '{}'
    when outcome = 'changed_meanwhile' then jsonb_build_object(
      'refused', 'conflict', 'last', private.last_admin_action('workspace ' || workspace_id)
    )
    when outcome in ('not_found', 'unknown_models') then jsonb_build_object('refused', outcome)
    else jsonb_build_object('refused', 'invalid')
  end
$$;
