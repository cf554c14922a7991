-- The windows in which budgets count: local days, weeks and months of a time zone, or all time.

-- Returns the window of a period that contains the given time. Weeks begin on Monday. Periods without windows (total,
-- concurrent) last from -infinity to infinity.
create or replace function ai.budget_window(
  period text, time_zone text, at timestamptz, out starts_at timestamptz, out ends_at timestamptz
)
  language plpgsql stable security invoker
as $$
declare
  first_day date;
begin
  if period not in ('day', 'week', 'month') then
    starts_at := '-infinity';
    ends_at := 'infinity';
    return;
  end if;
  time_zone := ai.known_time_zone(time_zone);
  first_day := date_trunc(period, at at time zone time_zone)::date;
  starts_at := ai.start_of_day(first_day, time_zone);
  ends_at := ai.start_of_day((first_day + ('1 ' || period)::interval)::date, time_zone);
end
$$;

-- Returns a time zone, or UTC if Postgres doesn't know it. Systems differ in the names that they have, so an upgrade or a
-- restore elsewhere can lose one, and one budget's zone must not fail the calls of a batch.
create or replace function ai.known_time_zone(time_zone text) returns text
  language plpgsql stable security invoker
as $$
begin
  perform now() at time zone time_zone;
  return time_zone;
exception when invalid_parameter_value then
  return 'UTC';
end
$$;

-- Returns the first instant of a local day. If clocks skip midnight, the day begins when they are changed. If midnight
-- occurs twice, the day begins at the first one.
create or replace function ai.start_of_day(day date, time_zone text) returns timestamptz
  language sql stable security invoker
as $$
  select coalesce(
    (
      -- Midnight by the offsets that apply half a day before and after. Two of them are midnight if it occurs twice.
      select min(c.at)
      from (values (n.noon_before), (n.noon)) as o (reference)
      cross join lateral (
        select (day::timestamp - ((o.reference at time zone time_zone) - (o.reference at time zone 'UTC'))) at time zone 'UTC' as at
      ) as c
      where c.at at time zone time_zone = day::timestamp
    ),
    -- A skipped midnight is read with the offset before the change.
    day::timestamp at time zone time_zone
  )
  from (
    select
      (day::timestamp - interval '12 hours') at time zone time_zone as noon_before,
      (day::timestamp + interval '12 hours') at time zone time_zone as noon
  ) as n
$$;

-- Returns a budget as it counts at the given time: in a window that begins after the budget's, nothing is spent. An
-- envelope ends at ends_at and has no other window. Until 0.5.0: a budget without starts_at has not changed since 0.3.0,
-- and its window is the UTC month of period_start.
create or replace function ai.current_budget(budget ai.budgets, at timestamptz) returns ai.budgets
  language plpgsql stable security invoker
as $$
begin
  if budget.starts_at is null then
    budget.starts_at := budget.period_start::timestamp at time zone 'UTC';
    budget.ends_at := (budget.period_start + interval '1 month') at time zone 'UTC';
  end if;
  if at >= budget.ends_at and budget.scope <> 'envelope' then
    select w.starts_at, w.ends_at into budget.starts_at, budget.ends_at
    from ai.budget_window(budget.period, budget.time_zone, at) as w;
    budget.spent_usd := 0;
  end if;
  return budget;
end
$$;

-- Returns the entry of a budget in a run's list of budgets.
create or replace function ai.budget_entry(scope text, period text) returns text
  language sql immutable security invoker parallel safe
as $$
  select case period when 'month' then scope else scope || '/' || period end
$$;

-- Returns the period of an entry in a run's list of budgets.
create or replace function ai.entry_period(entry text) returns text
  language sql immutable security invoker parallel safe
as $$
  select case when entry like '%/%' then split_part(entry, '/', 2) else 'month' end
$$;
