-- A customer's statement: the credits of a workspace in one UTC month, from its opening to its closing balance.

-- Returns the statement of a month (YYYY-MM), for members who may see credits: { outcome: listed, month, from, to,
-- workspace, accounts, paidByMembers }. A month in progress ends now. accounts are those of ai.credit_accounts_of, each
-- with its opening balance, additions, deductions, use by model and member, corrections of runs, use in the payer's
-- other workspaces and closing balance. unexplained is what these lines leave open, which is 0 unless the ledger is
-- damaged. paidByMembers are credits that runs of this workspace took from other balances, for example before its plan
-- changed. Returns { outcome: bad_window, fault } for a month that has not begun.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credit_statement(member_id uuid, workspace uuid, of_month text) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  window_from timestamptz := (of_month || '-01')::date;
  month_end timestamptz := (of_month || '-01')::date + interval '1 month';
  window_to timestamptz := least(month_end, now());
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  elsif window_from >= now() then
    return jsonb_build_object('outcome', 'bad_window', 'fault', 'The month has not begun.');
  end if;
  return (
    with shown as materialized (
      select a.id, a.workspace_id, ai.last_entry_before(a.id, window_from) as first_id,
        ai.last_entry_before(a.id, window_to) as last_id
      from ai.credit_accounts_of(member_id, workspace) a
    ), entries as materialized (
      select l.*, r.workspace_id as run_workspace, r.model_id, r.actor_id
      from shown a
      join ai.credit_ledger l on l.account_id = a.id and l.id > a.first_id and l.id <= a.last_id
      left join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    ), sums as (
      -- Reads the balances from the ledger, as ai.balance_changes does, so that a missing entry is noticed.
      select
        a.id,
        coalesce((
          select l.balance_after from ai.credit_ledger l where l.account_id = a.id and l.id = a.first_id
        ), 0) as opening,
        coalesce((
          select l.balance_after from ai.credit_ledger l where l.account_id = a.id and l.id = a.last_id
        ), 0) as closing,
        coalesce(sum(e.amount) filter (where e.run_id is null), 0) as changed,
        -coalesce(sum(e.amount) filter (
          where e.kind = 'usage' and e.run_id is not null and coalesce(e.run_workspace, workspace) = workspace
        ), 0) as used,
        coalesce(sum(e.amount) filter (
          where e.kind <> 'usage' and e.run_id is not null and coalesce(e.run_workspace, workspace) = workspace
        ), 0) as corrected,
        -coalesce(sum(e.amount) filter (where e.run_id is not null and e.run_workspace <> workspace), 0) as elsewhere
      from shown a
      left join entries e on e.account_id = a.id
      group by a.id, a.first_id, a.last_id
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'month', of_month,
      'from', ai.utc_text_microseconds(window_from),
      'to', ai.utc_text_microseconds(window_to),
      'isEnded', month_end <= now(),
      'workspace', (select jsonb_build_object('id', w.id, 'name', w.name) from public.workspaces w where w.id = workspace),
      'paidByMembers', (
        select trim_scale(coalesce(sum(r.billed_credits), 0))::text
        from ai.runs r
        where r.workspace_id = workspace
          and r.created_at >= window_from
          and r.created_at < window_to
          and r.billed_credits <> 0
          and r.account_id not in (select a.id from shown a)
      ),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', case when a.workspace_id is null then 'member' else 'workspace' end,
            'opening', trim_scale(s.opening)::text,
            'added', (
              select trim_scale(coalesce(sum(e.amount), 0))::text
              from entries e
              where e.account_id = a.id and e.run_id is null and e.amount > 0
            ),
            'deducted', (
              select trim_scale(coalesce(-sum(e.amount), 0))::text
              from entries e
              where e.account_id = a.id and e.run_id is null and e.amount < 0
            ),
            'used', trim_scale(s.used)::text,
            'corrected', trim_scale(s.corrected)::text,
            'usedElsewhere', trim_scale(s.elsewhere)::text,
            'unexplained', trim_scale(
              s.closing - s.opening - s.changed + s.used - s.corrected + s.elsewhere
            )::text,
            'closing', trim_scale(s.closing)::text,
            'changes', ai.credit_statement_changes(a.id, a.first_id, a.last_id),
            'use', (
              select coalesce(jsonb_agg(
                jsonb_build_object(
                  'model', u.model_id, 'memberId', u.actor_id, 'member', u.name, 'requests', u.requests,
                  'credits', trim_scale(u.credits)::text
                )
                order by u.credits desc, u.model_id collate "C", u.actor_id
              ), '[]')
              from (
                select e.model_id, e.actor_id, ai.member_label(workspace, e.actor_id) as name, count(*) as requests,
                  -sum(e.amount) as credits
                from entries e
                where e.account_id = a.id and e.kind = 'usage' and e.run_id is not null
                  and coalesce(e.run_workspace, workspace) = workspace
                group by e.model_id, e.actor_id
              ) u
            )
          )
          order by a.workspace_id is null
        ), '[]')
        from shown a
        join sums s on s.id = a.id
      )
    )
  );
end
$$;

-- Returns the additions to an account and the deductions from it without a run, from after first_id to last_id, oldest
-- first, each with its description and reference. Not granted to any role.
create or replace function ai.credit_statement_changes(account uuid, first_id bigint, last_id bigint) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', l.id::text, 'at', ai.utc_text_microseconds(l.created_at), 'kind', l.kind,
      'credits', trim_scale(l.amount)::text, 'description', l.description, 'reference', r.reference
    )
    order by l.id
  ), '[]')
  from ai.credit_ledger l
  left join ai.credit_references r on r.account_id = l.account_id and r.entry_id = l.id
  where l.account_id = account and l.run_id is null and l.id > first_id and l.id <= last_id
$$;
