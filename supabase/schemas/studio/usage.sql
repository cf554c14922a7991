-- Shows a workspace's usage to its members.

-- Returns a workspace's usage for a member with use_ai_studio: a page of rows, the totals of the whole window, and the
-- credits deducted without a run. Rows are grouped by any of day, model, feature, executionMode, provider, key (its
-- lineage), app and member. Alternatively they are grouped by label, or by label and day. provider is null if the
-- workspace hides provider cost. refused counts the refused calls of all days that overlap the window; it is null in
-- rows by label. The default window is the last 30 days. after is the position of the last row on the previous page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  return (
    with parts as materialized (
      select
        u.day, u.model_id, u.feature, u.execution_mode, u.provider_id, u.key_lineage_id, u.app_id, u.actor_id,
        u.requests, u.failed, u.input_tokens, u.output_tokens, u.cost_usd, u.billed_credits, u.unmetered_credits,
        u.latency_ms, u.timed, 0 as refused
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to, by_member) u
      union all
      select
        r.day, coalesce(r.model_id, ''), coalesce(r.feature, ''), r.execution_mode, null, r.key_lineage_id, r.app_id,
        r.actor_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, r.refused
      from ai.refused_between(workspace, report_window.window_from, report_window.window_to) r
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) and visible then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- A key has an eighth part only when grouping by member or label.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed,
        sum(u.refused) as refused
      from parts u
      where not by_label
      group by 1
      having sum(u.requests) > 0 or sum(u.refused) > 0
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed), null
      from ai.label_usage_between(workspace, report_window.window_from, report_window.window_to) l
      where by_label
      group by 1
      having sum(l.requests) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'refused', coalesce(sum(u.refused), 0),
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'refused', p.refused,
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
            'memberId', case when by_member then nullif(p.key[8], '') end,
            'memberName', case when by_member then ai.member_label(workspace, nullif(p.key[8], '')::uuid) end,
            'label', case when by_label then nullif(p.key[8], '') end,
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

-- Returns the display name of a workspace's member. Returns Former member if the person is no longer a member, or null
-- if the id is null.
create or replace function ai.member_label(workspace uuid, member uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (
      select coalesce(p.display_name, 'Unknown')
      from public.workspace_members m
      left join public.profiles p on p.id = m.user_id
      where m.workspace_id = workspace and m.user_id = member
    ),
    'Former member'
  )
  where member is not null
$$;

-- Formats sums of usage for display. amountUsd is null if the workspace hides provider cost.
create or replace function ai.usage_sums(
  requests numeric, failed numeric, input_tokens numeric, output_tokens numeric, cost_usd numeric,
  billed_credits numeric, unmetered_credits numeric, latency_ms numeric, timed numeric
) returns jsonb
  language sql immutable security invoker set search_path = ''
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
