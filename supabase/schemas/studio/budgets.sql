-- Budgets of a workspace and of its apps, keys, members and labels. A change takes effect with the next call.

-- Returns a page of a workspace's budgets and their use in their current windows, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy, and only if include_keys. Sorts budgets by scope, labels by their text, other
-- subjects by when they were created, and budgets of a subject by their period. A subject without a budget appears once,
-- as a monthly budget without a limit. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. startsAt and endsAt are null for budgets without
-- windows. maxCalls and calls are the maximum and the number of concurrent calls. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Until 0.5.0, for servers of 0.3.0: month and endsAt of the answer are those of the UTC month, and without all_periods,
-- only monthly budgets are returned.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[], page_size integer, scopes text[], all_periods boolean default false,
  include_keys boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := include_keys and (
    private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
  );
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
          'period', p.period,
          'timeZone', coalesce((p.budget).time_zone, 'UTC'),
          'startsAt', case when isfinite(p.starts_at) then ai.utc_text(p.starts_at) end,
          'endsAt', case when isfinite(p.ends_at) then ai.utc_text(p.ends_at) end,
          'thresholds', coalesce((p.budget).thresholds, '{50,80,100}'),
          'reservesExpected', coalesce((p.budget).reserves_expected, false),
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
          'maxCalls', (p.budget).max_calls,
          'calls', case when p.period = 'concurrent' then (p.budget).calls end,
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.period = p.period and a.month = (p.starts_at at time zone ai.known_time_zone((p.budget).time_zone))::date
              and a.threshold > 0 and a.posted_at is not null and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select
          s.*, b as budget, x.period, c.spent_usd as spent, o.position,
          case when b.scope is null then this_month at time zone 'UTC' else c.starts_at end as starts_at,
          case when b.scope is null then (this_month + interval '1 month') at time zone 'UTC' else c.ends_at end as ends_at
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace
            and num_nonnulls(b.limit_usd, b.max_calls) > 0 and (all_periods or b.period = 'month')
        cross join lateral ai.current_budget(b, now()) as c
        cross join lateral (select coalesce(b.period, 'month') as period) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] || case
            when all_periods then array[array_position(array['day', 'week', 'month', 'total', 'concurrent'], x.period)::text]
          end as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or c.spent_usd > 0)
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
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

-- Returns a budget's limit and its spend in the current window, as exact text. The spend is null if the workspace hides
-- provider cost.
create or replace function ai.budget_summary(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'spentUsd', case when cost_visible then trim_scale(c.spent_usd)::text end
  )
  from ai.current_budget(budget, now()) c
$$;
