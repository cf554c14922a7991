-- Lists and changes plans in the console, and moves workspaces to other plans.

-- Returns plans, each with the number of its workspaces and of its granted models. payerFixed of a single plan
-- says whether a credit account pays for it, so that its payer cannot change; in the list of all plans it is false.
-- Amounts are text. Every change of a plan changes its version.
create or replace function private.list_plans(only_id text default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', p.id,
    'name', p.name,
    'payer', p.payer,
    'markup', trim_scale(p.markup)::text,
    'initialCredits', trim_scale(p.initial_credits)::text,
    'lowCredits', trim_scale(p.low_credits)::text,
    'warnsBelow', trim_scale(ai.low_credits(p))::text,
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'workspaces', coalesce(u.workspaces, 0),
    'models', (select count(*) from ai.model_grants g where g.plan_id = p.id),
    'payerFixed', only_id is not null and (
      p.payer = 'workspace' and exists (
        select
        from public.workspaces w
        join ai.credit_accounts a on a.workspace_id = w.id
        where w.plan_id = p.id and w.deleted_at is null
      )
      or p.payer = 'member' and exists (
        select
        from public.workspaces w
        join public.workspace_members m on m.workspace_id = w.id
        join ai.credit_accounts a on a.user_id = m.user_id
        where w.plan_id = p.id and w.deleted_at is null
      )
    ),
    'version', md5(p::text)
  ) order by p.id), '[]')
  from ai.plans p
  left join (
    select w.plan_id, count(*) as workspaces
    from public.workspaces w
    where w.deleted_at is null and (only_id is null or w.plan_id = only_id)
    group by w.plan_id
  ) u on u.plan_id = p.id
  where only_id is null or p.id = only_id
$$;

-- Adds or edits a plan. The change is { actor, plan, seen (the version that the admin saw, or null to add a plan),
-- name, payer, markup, initialCredits, lowCredits, requestsPerMinute, tokensPerMinute, reason, requestId, ip }. Runs in
-- progress keep the markup with which they began. Returns {} or { refused: forbidden | not_found | taken | payer_fixed
-- (a credit account already pays for the plan) | conflict (with last) }.
create or replace function private.save_plan(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  plan_id text := change ->> 'plan';
  old_plan ai.plans;
  saved ai.plans;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'seen' is null then
    insert into ai.plans (id, name, payer) values (plan_id, change ->> 'name', change ->> 'payer') on conflict do nothing;
    if not found then
      return jsonb_build_object('refused', 'taken');
    end if;
  end if;
  select * into old_plan from ai.plans p where p.id = plan_id for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if md5(old_plan::text) <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('plan ' || plan_id));
  end if;
  if old_plan.payer <> change ->> 'payer' and (private.list_plans(plan_id) #>> '{0,payerFixed}')::boolean then
    return jsonb_build_object('refused', 'payer_fixed');
  end if;
  update ai.plans p
  set
    name = change ->> 'name',
    payer = change ->> 'payer',
    markup = (change ->> 'markup')::numeric,
    initial_credits = (change ->> 'initialCredits')::numeric,
    low_credits = (change ->> 'lowCredits')::numeric,
    requests_per_minute = (change ->> 'requestsPerMinute')::integer,
    tokens_per_minute = (change ->> 'tokensPerMinute')::bigint
  where p.id = plan_id
  returning * into saved;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when change ->> 'seen' is null then 'plan.add' else 'plan.edit' end,
    'target', 'plan ' || plan_id,
    'targetName', saved.name,
    'before', case when change ->> 'seen' is not null then to_jsonb(old_plan) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;
-- Returns a workspace for the console, with its name, plan, owners, members, balance, this month's usage (UTC), keys and
-- key approval. Returns null for an unknown workspace.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.read_console_workspace(workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'id', w.id,
    'name', w.name,
    'createdAt', w.created_at,
    'personalUserId', w.personal_user_id,
    'planId', w.plan_id,
    'plan', (select private.list_plans(w.plan_id) -> 0),
    'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
    'owners', (
      select coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'email', u.email) order by u.email), '[]')
      from public.workspace_members m
      join auth.users u on u.id = m.user_id
      where m.workspace_id = w.id
        -- Looks the owners up by role, instead of reading all members.
        and m.role_id = (select r.id from public.workspace_roles r where r.workspace_id = w.id and r.is_owner)
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text
      )
      from ai.credit_accounts a
      where a.workspace_id = w.id
    ),
    'thisMonth', (
      select jsonb_build_object(
        'requests', coalesce(sum(u.requests), 0),
        'failed', coalesce(sum(u.failed), 0),
        'costUsd', trim_scale(coalesce(sum(u.cost_usd), 0))::text,
        'billedCredits', trim_scale(coalesce(sum(u.billed_credits), 0))::text
      )
      -- Ends tomorrow, so that runs that begin now count.
      from ai.usage_between(w.id, date_trunc('month', now(), 'UTC'), now() + interval '24 hours') u
    ),
    'approvedAt', k.approved_at,
    'approvedBy', (select u.email from auth.users u where u.id = k.approved_by),
    'liveKeys', (
      select count(*) from ai.keys l
      where l.workspace_id = w.id and l.revoked_at is null and (l.expires_at is null or l.expires_at > now())
    )
  )
  from public.workspaces w
  left join ai.key_approvals k on k.workspace_id = w.id
  where w.id = workspace and w.deleted_at is null
$$;

-- Moves a workspace to another plan. Each credit account keeps its balance, and calls in progress are charged to the
-- account with which they began. The change is { actor, workspace, seen (the plan that the admin saw), plan, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself (the actor's personal workspace) | no_plan
-- (the plan is unknown, or is already the workspace's plan) | conflict (another admin changed the plan; last is
-- private.last_admin_action) }.
create or replace function private.move_workspace(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  workspace public.workspaces;
  target text;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.is_responsible(change, workspace.personal_user_id) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  target := 'workspace ' || workspace.id;
  if workspace.plan_id <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  -- Locks the new plan, so that the plan's payer does not change before the workspace moves.
  perform from ai.plans p where p.id = change ->> 'plan' and p.id <> workspace.plan_id for share;
  if not found then
    return jsonb_build_object('refused', 'no_plan');
  end if;
  update public.workspaces w set plan_id = change ->> 'plan' where w.id = workspace.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'plan.move_workspace',
    'target', target,
    'targetName', case when workspace.personal_user_id is null then workspace.name end,
    'before', jsonb_build_object('plan', workspace.plan_id),
    'after', jsonb_build_object('plan', change ->> 'plan')
  ));
  return '{}';
end
$$;
