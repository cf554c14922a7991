-- Records what the gateway's processes report about the health of their routes.

-- Stores reports of a process: [{ provider, model, endpoint, answered_ms_ago, failing_ms_ago, failed_ms_ago, failures,
-- failure, status, cooldown_ms }]. A report has at most one entry for a route. failures counts those since the process's
-- last answer that it has not reported before, the first of which was failing_ms_ago. cooldown_ms is what is left of a
-- cooldown or, without failing_ms_ago, would be left of one that an answer ended. The members are ages and durations,
-- because clocks differ; an age may be that of a route without calls for months. Entries that no row can hold are left
-- out, so that they don't stop the others.
-- Definer: gateway has no grant on any table.
create or replace function ai.report_routes(reports jsonb) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- After a crash of Postgres, reports of its last moments may be missing. The next ones follow within seconds.
  perform set_config('synchronous_commit', 'off', true);
  insert into ai.route_health as h (
    provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status, failed_at, answered_at,
    skipped_until
  )
  select distinct on (r.provider, r.model, r.endpoint)
    r.provider, r.model, r.endpoint, ai.reported_moment(r.failing_ms_ago),
    case when r.failing_ms_ago is null then 0 else least(greatest(r.failures, 0), 1000000) end, r.failure, r.status,
    ai.reported_moment(r.failed_ms_ago), ai.reported_moment(r.answered_ms_ago),
    case when r.cooldown_ms is not null then now() + least(greatest(r.cooldown_ms, 0), 3600000) * interval '1 millisecond' end
  from jsonb_to_recordset(reports) as r (
    provider text, model text, endpoint text, answered_ms_ago double precision, failing_ms_ago double precision,
    failed_ms_ago double precision, failures integer, failure text, status smallint, cooldown_ms double precision
  )
  where char_length(r.model) <= 512
  -- The order in which all processes lock the rows.
  order by 1, 2, 3
  on conflict (provider_id, provider_model, endpoint) do update
  set (
    failing_since, failures_in_row, failure, status, failed_at, answered_at, skipped_until, reported_at
  ) = (
    select
      m.failing_since, m.failures_in_row, m.failure, m.status, m.failed_at, m.answered_at, m.skipped_until, m.reported_at
    from ai.merge_route_health(h, excluded) as m
  );
end
$$;

-- Returns the time that was age_ms milliseconds ago, within a year, because clocks may be wrong. Null for null.
create or replace function ai.reported_moment(age_ms double precision) returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select now() - least(greatest(age_ms, 0), 31622400000) * interval '1 millisecond' where age_ms is not null
$$;

-- Returns the health of a route from what is stored and a report. Reports of several processes come in any order, so a
-- time never moves back: the latest answer ends the failures before it, those after it count together, and a cooldown
-- holds until the latest end that a process stated. An answer ends only the cooldown of its own process, which is known
-- by its end, within the seconds that a report may take.
create or replace function ai.merge_route_health(stored ai.route_health, report ai.route_health) returns ai.route_health
  language plpgsql immutable security invoker set search_path = ''
as $$
declare
  merged ai.route_health := stored;
  part ai.route_health;
begin
  merged.reported_at := greatest(stored.reported_at, report.reported_at);
  merged.answered_at := greatest(stored.answered_at, report.answered_at);
  if report.failing_since is not null then
    merged.skipped_until := greatest(stored.skipped_until, report.skipped_until);
  elsif stored.skipped_until - report.skipped_until between interval '-5 seconds' and interval '5 seconds' then
    merged.skipped_until := least(stored.skipped_until, report.answered_at);
  end if;
  if report.failed_at >= stored.failed_at or stored.failed_at is null then
    merged.failed_at := report.failed_at;
    merged.failure := report.failure;
    merged.status := report.status;
  end if;
  merged.failing_since := null;
  merged.failures_in_row := 0;
  foreach part in array array[stored, report] loop
    continue when part.failing_since is null or part.failed_at <= merged.answered_at;
    if part.failing_since <= merged.answered_at then
      -- Another process was answered between these failures. Only the last one is known to be later.
      part.failing_since := part.failed_at;
      part.failures_in_row := least(part.failures_in_row, 1);
    end if;
    merged.failing_since := least(merged.failing_since, part.failing_since);
    merged.failures_in_row := least(merged.failures_in_row + part.failures_in_row, 1000000);
  end loop;
  if merged.failing_since is not null then
    -- A report that was sent again counts no failures.
    merged.failures_in_row := greatest(merged.failures_in_row, 1);
  end if;
  return merged;
end
$$;

-- Returns the state of a route at a time: skipped during a cooldown; failing if its last three calls, or a call that
-- began a cooldown, failed; working if it answered within an hour; otherwise quiet. Calls of more than an hour ago say
-- nothing about now.
create or replace function ai.route_state(h ai.route_health, at timestamptz) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when h.skipped_until > at then 'skipped'
    when at - h.failed_at < interval '1 hour' and (h.failures_in_row >= 3 or h.skipped_until >= h.failing_since)
      then 'failing'
    when at - h.answered_at < interval '1 hour' then 'working'
    else 'quiet'
  end
$$;
