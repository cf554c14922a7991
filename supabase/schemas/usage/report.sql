-- GET /v1/usage: returns the usage and cost of an app's runs in a window, in one statement.

-- Returns the usage report of the calling app for a window of at most 365 days, or { refused }. Amounts are exact
-- decimals. notes_use: the request counts as a use of the key.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.report_usage(call jsonb) returns json
  language plpgsql volatile security definer set search_path = ''
  -- Days of the report are UTC days.
  set timezone = 'UTC'
  -- Sorts a year's groups in memory, and plans the query only once per connection.
  set work_mem = '32MB' set plan_cache_mode = force_generic_plan
as $$
declare
  caller ai.caller := ai.app_caller(call);
  asked record := ai.usage_window((call ->> 'from')::timestamptz, (call ->> 'to')::timestamptz, 365);
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  if asked.fault is not null then
    return ai.refusal('invalid_request', jsonb_build_object('param', 'from', 'message', asked.fault));
  end if;
  if (call -> 'notes_use')::boolean then
    perform ai.record_key_use(array[caller.key_id]);
  end if;
  return (
    select json_build_object(
      'currency', 'USD',
      'source', 'platform_ai_metering',
      'workspaceId', caller.workspace_id,
      'appId', caller.app_id,
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'previous', case when ai.has_usage_before(caller.workspace_id, caller.app_id, asked.window_from) then json_build_object(
        'from', ai.utc_text_microseconds(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.utc_text_microseconds(asked.window_from)
      ) end,
      'rows', coalesce(json_agg(d), '[]')
    )
    from (
      select
        u.day,
        u.model_id as model,
        u.feature,
        u.execution_mode as "executionMode",
        trim_scale(sum(u.cost_usd)) as "amountUsd",
        sum(u.requests) as requests,
        sum(u.failed) as failed,
        sum(u.input_tokens) as "inputTokens",
        sum(u.output_tokens) as "outputTokens",
        trim_scale(sum(u.billed_credits)) as "billedCredits",
        trim_scale(sum(u.unmetered_credits)) as "unmeteredCredits"
      from ai.usage_between(caller.workspace_id, asked.window_from, asked.window_to) u
      where u.app_id = caller.app_id
      group by u.day, u.model_id, u.feature, u.execution_mode
      having sum(u.requests) > 0
      order by u.day, u.model_id collate "C", u.feature collate "C", u.execution_mode collate "C"
    ) as d
  );
end
$$;

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

-- Returns the time up to which runs are summed. The stored mark cannot be used if the clock was set back beyond it,
-- because runs before it may have changed without a record; returns the start of yesterday then. Returns -infinity if
-- no sums exist.
create or replace function ai.usage_mark() returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select case
    when p.summed_until > statement_timestamp() - interval '30 seconds'
      then date_trunc('day', statement_timestamp() - interval '24 hours', 'UTC')
    else coalesce(p.summed_until, '-infinity')
  end
  from (select) as always
  left join ai.usage_progress p on true
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

-- Returns the caller of a request that a registered app sends. The credential must be an app's token or a key that is
-- bound to an app, and the request must name the workspace. The app is derived only from the credential. refused is the
-- reason why the call is refused, or null. Not granted to any role.
create or replace function ai.app_caller(call jsonb) returns ai.caller
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
begin
  if caller.source is null then
    caller.refused := 'invalid_api_key';
  elsif caller.source = 'session' or caller.app_id is null then
    caller.refused := 'credential_not_bound';
  elsif caller.refused is null and call ->> 'workspace' is null then
    caller.refused := 'workspace_header_required';
  end if;
  return caller;
end
$$;

-- Checks whether a credential may import costs and read usage. Used if the request body is invalid. Returns {
-- workspace_id } or { refused }.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.check_app_caller(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;

-- Formats a time like ai.utc_text, but with microseconds if they are not zero.
-- Has no settings of its own, so Postgres inlines it into the plans of queries that return thousands of rows.
create or replace function ai.utc_text_microseconds(moment timestamptz) returns text
  language sql stable security invoker
as $$
  select to_char(
    moment at time zone 'UTC',
    case
      when date_trunc('milliseconds', moment) = moment then 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
      else 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
    end
  )
$$;
