-- Budgets of a workspace and of its apps, keys, members and labels. A change takes effect with the next call.

-- Returns a page of a workspace's budgets and their use in the current UTC month, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy. Sorts budgets by scope, labels by their text, and other
-- subjects by when they were created. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[], page_size integer, scopes text[]
) returns jsonb
  language plpgsql stable security definer set search_path = ''
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
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            -- greatest(null, 0) is 0, so a missing limit needs its own case.
            when visible and (p.budget).limit_usd is not null then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
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
        select s.*, b as budget, x.spent, o.position
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace and b.limit_usd is not null
        cross join lateral (select case when b.period_start < this_month::date then 0 else b.spent_usd end as spent) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or (b.limit_usd is not null and x.spent > 0))
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Sets one monthly budget; null removes it. Requires manage_ai_policy or, for a key's budget, manage_ai_keys. For the
-- scope label, takes the label's text and derives the subject from it. read_limit_usd is the limit that the member saw.
-- If the limit has changed since, nothing is changed. Outcomes: changed, unchanged, changed_meanwhile (with limitUsd),
-- not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  old_limit numeric;
  new_limit numeric := change_budget.limit_usd::numeric;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  select b.limit_usd into old_limit
  from ai.budgets b
  where b.scope = change_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if old_limit is distinct from read_limit_usd::numeric then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'limitUsd', trim_scale(old_limit)::text);
  end if;
  if new_limit is not distinct from old_limit then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform ai.set_budget(scope, subject, workspace, new_limit, label);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object('scope', scope, 'before', trim_scale(old_limit)::text, 'after', trim_scale(new_limit)::text)
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

-- Sets the monthly budget of a workspace, or of one of its apps, key lineages, members or labels; null removes the
-- budget. A new budget starts with the cost of this month's settled runs. Runs that are in progress when the budget is
-- created are not counted in it. Callers must hold ai.lock_policy.
create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null
) returns void
  language plpgsql volatile security invoker set search_path = ''
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
    -- Raising the limit clears the refusal, because the refused call may now fit.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if found then
    perform ai.reset_budget_alert(set_budget.scope, subject, workspace);
    return;
  end if;
  insert into ai.budgets as b (scope, subject_id, workspace_id, label, limit_usd, period_start, spent_usd)
  select
    set_budget.scope, subject, workspace, set_budget.label, set_budget.limit_usd, month,
    case
      -- Sums may count a label as one of many (*).
      when set_budget.scope = 'label' then (
        select coalesce(sum(r.cost_usd), 0)
        from ai.runs r
        where r.workspace_id = workspace and r.entity_id = set_budget.label
          and r.created_at >= month::timestamp at time zone 'UTC'
      )
      else (
        select coalesce(sum(u.cost_usd), 0)
        from ai.usage_between(workspace, month::timestamp at time zone 'UTC', 'infinity', set_budget.scope = 'member') u
        where case set_budget.scope
          when 'workspace' then true
          when 'app' then u.app_id = subject
          when 'member' then u.actor_id = subject
          else u.key_lineage_id = subject
        end
      )
    end;
end
$$;

-- Returns everything in a workspace that can have a budget: the workspace itself, its external apps, key lineages and
-- members, and labels that have a budget or a live key. live: the subject can still make calls. since: when the subject
-- was created.
create or replace function ai.budget_subjects(workspace uuid, with_keys boolean)
  returns table (scope text, subject_id uuid, live boolean, since timestamptz, label text)
  language sql stable security invoker set search_path = ''
as $$
  select 'workspace', workspace, true, null::timestamptz, null::text
  union all
  select 'app', s.app_id, ai.app_can_act_in_workspace(s.app_id, workspace), (
    select a.created_at from private.apps a where a.id = s.app_id
  ), null
  from (
    select l.app_id from private.app_workspaces l join private.apps a on a.id = l.app_id and a.kind = 'external'
    where l.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'app' and b.limit_usd is not null
  ) as s (app_id)
  union all
  select 'key', k.lineage_id, bool_or(k.revoked_at is null and (k.expires_at is null or k.expires_at > now())),
    min(k.created_at), null
  from ai.keys k
  where with_keys and k.workspace_id = workspace
  group by k.lineage_id
  union all
  select 'member', s.user_id, private.is_workspace_member(s.user_id, workspace), (
    select p.created_at from public.profiles p where p.id = s.user_id
  ), null
  from (
    select m.user_id from public.workspace_members m where m.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'member' and b.limit_usd is not null
  ) as s (user_id)
  union all
  select 'label', ai.label_id(s.label), true, null, s.label
  from (
    select k.entity_id from ai.keys k
    where k.workspace_id = workspace and k.entity_id is not null and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
    union
    select b.label from ai.budgets b where b.workspace_id = workspace and b.scope = 'label' and b.limit_usd is not null
  ) as s (label)
$$;

-- Returns a budget's limit and its spend in the current UTC month, as exact text. The spend is null if the workspace
-- hides provider cost.
create or replace function ai.budget_summary(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
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

-- Serializes changes to a workspace's policy and budgets, so that each change is compared with, and logged with, the
-- state that it replaces. Gateway calls don't wait for this lock.
create or replace function ai.lock_policy(workspace uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('ai.lock_policy ' || workspace, 0))
$$;
