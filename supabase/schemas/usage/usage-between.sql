-- Reads usage in a window: the sums of whole days up to the mark (rollups.sql), and the changes and runs since.

-- Returns a workspace's usage in a half-open window, in rows that callers group. Reads the sums of days that are in the
-- window up to the mark, the changes since, and runs for the rest. One statement reads all of them, so that each run
-- counts exactly once. Changes can make a group's requests 0; callers leave such groups out. by_member is for callers that group by actor_id: days whose sums lack actor_id are then read
-- from runs.
-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.usage_between(
  workspace uuid, window_from timestamptz, window_to timestamptz, by_member boolean default false
)
  returns setof ai.usage_daily
  language sql stable security invoker
as $$
  with summed as materialized (
    select * from ai.summed_range(window_from, window_to, by_member)
  )
  select u.*
  from summed s
  join ai.usage_daily u on u.workspace_id = workspace and u.day >= s.first_day and u.day < s.end_day
  -- Repeats the range, so that every plan of the join can use the index.
  where u.day >= (window_from at time zone 'UTC')::date and u.day <= (window_to at time zone 'UTC')::date
  union all
  select u.*
  from summed s
  join ai.usage_changes c
    on c.workspace_id = workspace and c.run_created_at >= s.first_moment and c.run_created_at < s.end_moment
  cross join lateral ai.changed_usage(c) u
  union all
  select u.*
  from summed s
  cross join lateral (values (window_from, s.first_moment), (s.end_moment, window_to)) as r (first_moment, end_moment)
  cross join lateral ai.sum_usage(workspace, r.first_moment, r.end_moment) u
$$;

-- Returns a workspace's usage by label in a half-open window, from the same sources as ai.usage_between. On a day with
-- a row *, changes and runs with a label that has no row count as *.
-- This function has no SET clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.label_usage_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.usage_labels_daily
  language sql stable security invoker
as $$
  with summed as materialized (
    select * from ai.summed_range(window_from, window_to, true)
  )
  select u.*
  from summed s
  join ai.usage_labels_daily u on u.workspace_id = workspace and u.day >= s.first_day and u.day < s.end_day
  -- Repeats the range, so that every plan of the join can use the index.
  where u.day >= (window_from at time zone 'UTC')::date and u.day <= (window_to at time zone 'UTC')::date
  union all
  select
    p.workspace_id, p.day,
    case
      when exists (
        select from ai.usage_labels_daily l where l.workspace_id = workspace and l.day = p.day and l.label = '*'
      ) and not exists (
        select from ai.usage_labels_daily l where l.workspace_id = workspace and l.day = p.day and l.label = p.label
      ) then '*'
      else p.label
    end,
    p.requests, p.failed, p.input_tokens, p.output_tokens, p.cost_usd, p.billed_credits, p.unmetered_credits,
    p.latency_ms, p.timed
  from (
    select u.*
    from summed s
    join ai.usage_changes c
      on c.workspace_id = workspace and c.run_created_at >= s.first_moment and c.run_created_at < s.end_moment
    cross join lateral ai.changed_label_usage(c) u
    union all
    select u.*
    from summed s
    cross join lateral (values (window_from, s.first_moment), (s.end_moment, window_to)) as r (first_moment, end_moment)
    cross join lateral ai.sum_labels(workspace, r.first_moment, r.end_moment) u
  ) p
$$;

-- Returns the part of a window that is read from sums: from first_moment to end_moment, and the days of these sums from
-- first_day to before end_day. Days that are only partly in the window are read from runs, except that the sums of the
-- mark's day end at the mark. If detailed, days whose sums lack members and labels are read from runs too. Returns an
-- empty range at the window's end if no sums can be used.
-- This function has no SET clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.summed_range(window_from timestamptz, window_to timestamptz, detailed boolean)
  returns table (first_moment timestamptz, end_moment timestamptz, first_day date, end_day date)
  language sql stable security invoker
as $$
  select
    r.first_moment, r.end_moment, (r.first_moment at time zone 'UTC')::date,
    case
      when r.first_moment < r.end_moment then ((r.end_moment - interval '1 microsecond') at time zone 'UTC')::date + 1
      else '-infinity'
    end
  from (
    select
      case when b.first_moment < b.end_moment then b.first_moment else window_to end as first_moment,
      case when b.first_moment < b.end_moment then b.end_moment else window_to end as end_moment
    from (
      select
        greatest(
          date_trunc('day', window_from + interval '23:59:59.999999', 'UTC'),
          case when detailed then (select p.detailed_from::timestamp at time zone 'UTC' from ai.usage_progress p) end
        ) as first_moment,
        case when window_to < m.mark then date_trunc('day', window_to, 'UTC') else m.mark end as end_moment
      from (select ai.usage_mark() as mark offset 0) m
    ) b
  ) r
$$;

-- Returns the requested half-open window. It ends now if no end is given. fault describes why the window is invalid, or
-- is null.
create or replace function ai.usage_window(
  given_from timestamptz, given_to timestamptz, default_days integer, most_days integer default 365,
  out window_from timestamptz, out window_to timestamptz, out fault text
)
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  -- An interval of hours always has the same length. The length of a day depends on daylight saving in the session's
  -- time zone.
  window_to := coalesce(given_to, date_trunc('milliseconds', now()));
  window_from := coalesce(given_from, window_to - default_days * interval '24 hours');
  fault := case
    when window_from >= window_to then 'from must be before to.'
    when window_to - window_from > most_days * interval '24 hours' then format('The window may have %s days at most.', most_days)
  end;
end
$$;

-- Returns whether an app has any run in a workspace before the given time.
create or replace function ai.has_usage_before(workspace uuid, app uuid, moment timestamptz) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select
    exists (
      select from ai.usage_daily u
      where u.workspace_id = workspace and u.app_id = app and u.day < (moment at time zone 'UTC')::date
    )
    or exists (
      select from ai.usage_changes c
      where c.workspace_id = workspace and c.app_id = app and c.run_created_at < moment and c.requests > 0
    )
    or exists (
      select
      from ai.usage_between(workspace, least(ai.usage_mark(), date_trunc('day', moment, 'UTC')), moment) as u
      where u.app_id = app
    )
$$;
