-- Admitting the plain calls of a batch: in sets, and only where limits, budgets and balances have room for all that come
-- before. The rows that they need are locked by then.

create function ai.plain_calls_over_budget(plain ai.plain_call[]) returns integer[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
  places integer[];
begin
  select array_agg(b.place) into places
  from (
    select
      c.place, x.limit_usd,
      x.reserved_usd + case when x.period_start < month then 0 else x.spent_usd end
        + sum(c.dearest_usd) over (partition by x.scope, x.subject_id, x.workspace_id order by c.place) as used_usd,
      x.scope is null as gone
    from unnest(plain) as c
    cross join unnest(c.budgets) as t (scope)
    left join ai.budgets x
      on x.scope = t.scope
      and x.subject_id = ai.budget_subject(t.scope, c.lineage_id, null, c.workspace_id)
      and x.workspace_id = c.workspace_id
  ) as b
  where b.gone or b.used_usd > b.limit_usd or b.limit_usd = 0;
  return coalesce(places, '{}');
end
$$;
comment on function ai.plain_calls_over_budget(ai.plain_call[]) is
  'The places of calls that some budget has no room for after those before them. Budgets are locked.';
revoke execute on function ai.plain_calls_over_budget(ai.plain_call[]) from public, anon, authenticated;

create function ai.hold_budgets(plain ai.plain_call[], admitted integer[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  update ai.budgets b
  set
    reserved_usd = b.reserved_usd + due.usd,
    spent_usd = case when b.period_start < month then 0 else b.spent_usd end,
    period_start = greatest(b.period_start, month)
  from (
    select
      t.scope, ai.budget_subject(t.scope, c.lineage_id, null, c.workspace_id) as subject_id, c.workspace_id,
      sum(c.dearest_usd) as usd
    from unnest(plain) as c
    cross join unnest(c.budgets) as t (scope)
    where c.place = any (admitted)
    group by 1, 2, 3
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;
comment on function ai.hold_budgets(ai.plain_call[], integer[]) is
  'Holds what admitted calls can get of their budgets, as ai.reserve_budget does for one.';
revoke execute on function ai.hold_budgets(ai.plain_call[], integer[]) from public, anon, authenticated;

create type ai.held_calls as (credits numeric(24, 8)[], limits json[]);
comment on type ai.held_calls is
  'What is held of the balances for each of some calls, and what is left of its minutes; null for those that there was no '
  'room for.';

create function ai.hold_minutes_and_credits(plain ai.plain_call[], over_budget integer[]) returns ai.held_calls
  language plpgsql
  volatile
  security invoker
as $$
declare
  minute timestamptz := date_trunc('minute', now());
  held ai.held_calls;
begin
  -- What a call finds is what those before it leave, whether or not they are admitted: none is admitted here that would
  -- not be after them, one by one; and those that are left to that find what they would have found before the others.
  with priced as materialized (
    select
      c.ordinality as at, c.place, c.lineage_id, c.workspace_id, c.account_id, c.tokens,
      c.key_requests, c.key_tokens, c.workspace_requests, c.workspace_tokens,
      ai.usd_to_credits(c.dearest_usd, c.markup)::numeric(24, 8) as credits
    from unnest(plain) with ordinality as c
    where not c.place = any (over_budget) and c.dearest_usd is not null
  ), asked as (
    select
      c.*,
      c.key_requests - count(*) over of_key
        - case when k.window_start < minute then 0 else k.requests end as key_requests_left,
      c.key_tokens - sum(c.tokens) over of_key
        - case when k.window_start < minute then 0 else k.tokens end as key_tokens_left,
      k.window_start as key_minute,
      c.workspace_requests - count(*) over of_workspace
        - case when w.window_start < minute then 0 else w.requests end as workspace_requests_left,
      c.workspace_tokens - sum(c.tokens) over of_workspace
        - case when w.window_start < minute then 0 else w.tokens end as workspace_tokens_left,
      w.window_start as workspace_minute,
      a.balance - a.reserved - sum(c.credits) over of_account as credits_left
    from priced c
    left join ai.rate_windows k
      on k.scope = 'key' and k.subject_id = c.lineage_id and num_nonnulls(c.key_requests, c.key_tokens) > 0
    left join ai.rate_windows w
      on w.scope = 'workspace' and w.subject_id = c.workspace_id
      and num_nonnulls(c.workspace_requests, c.workspace_tokens) > 0
    join ai.credit_accounts a on a.id = c.account_id
    window
      of_key as (partition by c.lineage_id order by c.place rows unbounded preceding),
      of_workspace as (partition by c.workspace_id order by c.place rows unbounded preceding),
      of_account as (partition by c.account_id order by c.place rows unbounded preceding)
  ), fitting as materialized (
    select *
    from asked c
    where c.credits_left >= 0
      -- A minute that is limited is there; what has no limit has nothing left of it, and needs nothing.
      and (c.key_minute is not null or num_nonnulls(c.key_requests, c.key_tokens) = 0)
      and (c.workspace_minute is not null or num_nonnulls(c.workspace_requests, c.workspace_tokens) = 0)
      and least(c.key_requests_left, c.key_tokens_left, c.workspace_requests_left, c.workspace_tokens_left, 0) >= 0
  ), minutes as (
    update ai.rate_windows w
    set
      requests = case when w.window_start < minute then 0 else w.requests end + due.requests,
      tokens = case when w.window_start < minute then 0 else w.tokens end + due.tokens,
      window_start = greatest(w.window_start, minute)
    from (
      select 'key' as scope, c.lineage_id as subject_id, count(*) as requests, sum(c.tokens) as tokens
      from fitting c
      where c.key_minute is not null
      group by c.lineage_id
      union all
      select 'workspace', c.workspace_id, count(*), sum(c.tokens)
      from fitting c
      where c.workspace_minute is not null
      group by c.workspace_id
    ) as due
    where w.scope = due.scope and w.subject_id = due.subject_id
  ), accounts as (
    update ai.credit_accounts a set reserved = a.reserved + due.credits
    from (select c.account_id, sum(c.credits) as credits from fitting c group by c.account_id) as due
    where a.id = due.account_id
  )
  select
    array_agg(c.credits order by p.at),
    array_agg(
      -- Whichever has less left of a kind speaks for it, as in ai.told_limits.
      json_strip_nulls(json_build_object(
        'limit_requests', case
          when c.key_requests_left <= c.workspace_requests_left or c.workspace_requests is null then c.key_requests
          else c.workspace_requests
        end,
        'remaining_requests', least(c.key_requests_left, c.workspace_requests_left),
        'limit_tokens', case
          when c.key_tokens_left <= c.workspace_tokens_left or c.workspace_tokens is null then c.key_tokens
          else c.workspace_tokens
        end,
        'remaining_tokens', least(c.key_tokens_left, c.workspace_tokens_left),
        'reset_seconds', case when num_nonnulls(c.key_minute, c.workspace_minute) > 0 then
          ceil(extract(epoch from
            greatest(coalesce(c.key_minute, c.workspace_minute), minute) + interval '1 minute' - now()
          ))
        end
      ))
      order by p.at
    )
  into held
  from generate_subscripts(plain, 1) as p (at)
  left join fitting c on c.at = p.at;
  return held;
end
$$;
comment on function ai.hold_minutes_and_credits(ai.plain_call[], integer[]) is
  'Counts those calls in their minutes and holds their credits that all of these have room for, as ai.take_rate and '
  'ai.reserve_credits do for one. The rows are locked.';
revoke execute on function ai.hold_minutes_and_credits(ai.plain_call[], integer[]) from public, anon, authenticated;

create function ai.open_plain_runs(plain ai.plain_call[], held ai.held_calls, out places integer[], out answers json[])
  language plpgsql
  volatile
  security invoker
as $$
begin
  with begun as (
    insert into ai.runs (
      id, workspace_id, actor_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, streamed, model_id, routes, markup, account_id, reserved_usd, reserved_credits, budget_scopes
    )
    select
      c.run_id, c.workspace_id, c.actor_id, c.key_id, c.lineage_id, 'key', 'background', c.feature, c.request_id,
      c.entity_id, c.streamed, c.model_id, c.routes, c.markup, c.account_id, c.dearest_usd, held.credits[c.ordinality],
      coalesce(c.budgets, '{}')
    from unnest(plain) with ordinality as c
    where held.credits[c.ordinality] is not null
  )
  select
    array_agg(c.place),
    array_agg(json_build_object(
      'run_id', c.run_id,
      'created_at', now(),
      'workspace_id', c.workspace_id,
      'model', c.model_id,
      'voice', null,
      'routes', c.routes,
      'markup', c.markup::text,
      'exempt', false,
      'reserved_usd', c.dearest_usd::text,
      'reserved_credits', held.credits[c.ordinality]::text,
      'cost_visible', c.cost_visible,
      'capture', c.capture,
      'limits', held.limits[c.ordinality]
    ))
  into places, answers
  from unnest(plain) with ordinality as c
  where held.credits[c.ordinality] is not null;
end
$$;
comment on function ai.open_plain_runs(ai.plain_call[], ai.held_calls) is
  'Opens the runs of calls for which everything is held, and answers as ai.admit does, each at its place.';
revoke execute on function ai.open_plain_runs(ai.plain_call[], ai.held_calls) from public, anon, authenticated;

create function ai.admit_plain_calls(
  plain ai.plain_call[], has_budgets boolean, out places integer[], out answers json[]
)
  language plpgsql
  volatile
  security invoker
as $$
declare
  over_budget integer[] := '{}';
  held ai.held_calls;
  opened record;
begin
  if has_budgets then
    over_budget := ai.plain_calls_over_budget(plain);
  end if;
  held := ai.hold_minutes_and_credits(plain, over_budget);
  opened := ai.open_plain_runs(plain, held);
  places := opened.places;
  answers := opened.answers;
  if has_budgets and places is not null then
    perform ai.hold_budgets(plain, places);
  end if;
end
$$;
comment on function ai.admit_plain_calls(ai.plain_call[], boolean) is
  'Admits those of some plain calls that all limits, budgets and balances have room for: reserves, opens their runs and '
  'answers as ai.admit does, each at its place. The rows that they need are locked. The others are for ai.admit to decide.';
revoke execute on function ai.admit_plain_calls(ai.plain_call[], boolean) from public, anon, authenticated;
