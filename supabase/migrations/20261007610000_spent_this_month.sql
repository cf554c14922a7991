-- What GET /v1/key tells of the month. A key may have made hundreds of thousands of calls since it began: those of days
-- that are over are read from their sums.

create function ai.key_spent_since(caller ai.caller, month timestamptz)
  returns table (requests numeric, cost_usd numeric, billed_credits numeric, unmetered_credits numeric)
  language plpgsql
  -- Stable, so that all statements in it see one moment, and each run counts once.
  stable
  security invoker
  set search_path = ''
as $$
declare
  sealed_before date := (select s.before from ai.usage_sealed s);
  first_day date := (month at time zone 'UTC')::date;
  live_from timestamptz := greatest(month, sealed_before::timestamp at time zone 'UTC');
  changed_days date[] := array(
    select distinct c.day from ai.usage_changes c
    where c.workspace_id = caller.workspace_id and c.day >= first_day and c.day < sealed_before
  );
begin
  return query
  select sum(p.requests), sum(p.cost_usd), sum(p.billed_credits), sum(p.unmetered_credits)
  from (
    select u.requests::numeric, u.cost_usd, u.billed_credits, u.unmetered_credits
    from ai.usage_daily u
    where u.workspace_id = caller.workspace_id
      and u.day >= first_day
      and u.day < sealed_before
      and u.key_lineage_id = caller.lineage_id
      and not u.day = any (changed_days)
    union all
    select 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from ai.runs r
    where r.workspace_id = caller.workspace_id and r.created_at >= live_from and r.key_lineage_id = caller.lineage_id
    union all
    select 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from unnest(changed_days) as d (day)
    cross join lateral (
      select x.*
      from ai.runs x
      where x.workspace_id = caller.workspace_id
        and x.created_at >= d.day::timestamp at time zone 'UTC'
        and x.created_at < (d.day + 1)::timestamp at time zone 'UTC'
        and x.key_lineage_id = caller.lineage_id
      offset 0
    ) as r
  ) as p;
end
$$;
comment on function ai.key_spent_since(ai.caller, timestamptz) is
  'What a key''s lineage used from the beginning of a UTC day on: sums where a day is over and unchanged, the rest from the '
  'runs themselves.';
revoke execute on function ai.key_spent_since(ai.caller, timestamptz) from public, anon, authenticated;

create function ai.person_spent_since(caller ai.caller, month timestamptz)
  returns table (requests numeric, cost_usd numeric, billed_credits numeric, unmetered_credits numeric)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*)::numeric, sum(r.cost_usd), sum(r.billed_credits), sum(r.unmetered_credits)
  from ai.runs r
  where r.actor_id = (caller).actor_id
    and r.credential_source <> 'key'
    and r.created_at >= month
    and r.credential_source = (caller).source
    and r.workspace_id = (caller).workspace_id
    and r.app_id is not distinct from (caller).app_id
$$;
comment on function ai.person_spent_since(ai.caller, timestamptz) is
  'What a person used in a workspace by themselves, or through one app. Sums know no persons; the index of a person''s '
  'runs does.';
revoke execute on function ai.person_spent_since(ai.caller, timestamptz) from public, anon, authenticated;

create function ai.spent_this_month(caller ai.caller, cost_visible boolean) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  month timestamptz := date_trunc('month', now(), 'UTC');
  spent record;
begin
  if caller.source = 'key' then
    select * into spent from ai.key_spent_since(caller, month);
  else
    select * into spent from ai.person_spent_since(caller, month);
  end if;
  return jsonb_build_object(
    'since', ai.utc_text(month),
    'requests', coalesce(spent.requests, 0),
    'costUsd', case when cost_visible then trim_scale(coalesce(spent.cost_usd, 0)) end,
    'billedCredits', trim_scale(coalesce(spent.billed_credits, 0)),
    'unmeteredCredits', trim_scale(coalesce(spent.unmetered_credits, 0))
  );
end
$$;
comment on function ai.spent_this_month(ai.caller, boolean) is
  'What a caller''s runs of this UTC month cost, rotated keys of its lineage and calls still open included. A run counts '
  'in the month that it began in, as budgets have it.';
revoke execute on function ai.spent_this_month(ai.caller, boolean) from public, anon, authenticated;
