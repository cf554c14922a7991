-- What members read of their workspace's usage and credits: settled runs beside what was deducted by other means, so
-- that nothing is counted twice. In a free workspace the signed-in member's own balance is the one that pays.

create function ai.credit_accounts_of(member_id uuid, workspace uuid) returns setof ai.credit_accounts
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
revoke execute on function ai.credit_accounts_of(uuid, uuid) from public, anon, authenticated;

create function ai.unlinked_deductions_by_day(
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
revoke execute on function ai.unlinked_deductions_by_day(uuid, uuid, timestamptz, timestamptz) from public, anon, authenticated;

create function ai.unlinked_deductions(member_id uuid, workspace uuid, window_from timestamptz, window_to timestamptz)
  returns numeric
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(sum(d.credits), 0) from ai.unlinked_deductions_by_day(member_id, workspace, window_from, window_to) d
$$;
comment on function ai.unlinked_deductions(uuid, uuid, timestamptz, timestamptz) is 'All of ai.unlinked_deductions_by_day.';
revoke execute on function ai.unlinked_deductions(uuid, uuid, timestamptz, timestamptz) from public, anon, authenticated;

create function ai.usage_sums(
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
revoke execute on function ai.usage_sums(numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric)
  from public, anon, authenticated;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create function ai.read_usage(
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
      'from', ai.exact_text(asked.window_from),
      'to', ai.exact_text(asked.window_to),
      'previous', jsonb_build_object(
        'from', ai.exact_text(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.exact_text(asked.window_from)
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
revoke execute on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) from public, anon, authenticated;
grant execute on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) to service_role;

-- Definer: as ai.read_usage.
create function ai.read_credits(
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
      'from', ai.exact_text(asked.window_from),
      'to', ai.exact_text(asked.window_to),
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
            'createdAt', ai.exact_text(p.created_at),
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
revoke execute on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer) from public, anon, authenticated;
grant execute on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer) to service_role;
create index credit_ledger_unlinked_idx on ai.credit_ledger (account_id, created_at) where run_id is null;
