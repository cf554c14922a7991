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
      order by u.day, u.model_id collate "C", u.feature collate "C", u.execution_mode collate "C"
    ) as d
  );
end
$$;

-- Returns a workspace's usage in a half-open window, in rows that callers group. Reads daily sums for sealed, unchanged
-- days that are completely in the window, and runs for the rest. One statement reads both, so that each run counts
-- exactly once. by_member is for callers that group by actor_id: days whose sums lack actor_id are then read from runs.
-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.usage_between(
  workspace uuid, window_from timestamptz, window_to timestamptz, by_member boolean default false
)
  returns setof ai.usage_daily
  language sql stable security invoker
as $$
  with live as materialized (
    select * from ai.live_usage_ranges(workspace, window_from, window_to, by_member)
  )
  select u.*
  from ai.usage_daily u
  where u.workspace_id = workspace
    and u.day >= (window_from at time zone 'UTC')::date
    and u.day < (window_to at time zone 'UTC')::date
    and not exists (select from live l where u.day between l.first_day and l.last_day)
  union all
  select s.*
  from live l
  cross join lateral ai.sum_usage(workspace, l.first_moment, l.end_moment) as s
$$;

-- Returns a workspace's usage by label in a half-open window, from the same sources as ai.usage_between.
-- This function has no SET clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.label_usage_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.usage_labels_daily
  language sql stable security invoker
as $$
  with live as materialized (
    select * from ai.live_usage_ranges(workspace, window_from, window_to, true)
  )
  select u.*
  from ai.usage_labels_daily u
  where u.workspace_id = workspace
    and u.day >= (window_from at time zone 'UTC')::date
    and u.day < (window_to at time zone 'UTC')::date
    and not exists (select from live l where u.day between l.first_day and l.last_day)
  union all
  select s.*
  from live l
  cross join lateral ai.sum_labels(workspace, l.first_moment, l.end_moment) as s
$$;

-- Returns the parts of a window that must be read from runs: days that are not sealed, days that changed after they
-- were sealed, and days that are only partly in the window. If detailed, also returns days whose stored sums lack
-- members and labels.
-- This function has no SET clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.live_usage_ranges(
  workspace uuid, window_from timestamptz, window_to timestamptz, detailed boolean
) returns table (first_moment timestamptz, end_moment timestamptz, first_day date, last_day date)
  language sql stable security invoker
as $$
  with bounds as (
    select
      s.before,
      case when detailed then least(s.detailed_from, s.before) else '-infinity' end as sums_from,
      (window_from at time zone 'UTC')::date as first_day,
      (window_to at time zone 'UTC')::date as last_day
    from ai.usage_sealed_days s
  ), days as (
    select c.day
    from bounds b
    join ai.usage_changed_days c on c.workspace_id = workspace and c.day between b.first_day and b.last_day
    where c.day >= b.sums_from and c.day < b.before
    union
    -- Days that are only partly in the window.
    select e.day
    from bounds b
    cross join lateral (values (b.first_day, window_from), (b.last_day, window_to)) as e (day, edge)
    where e.day >= b.sums_from and e.day < b.before and e.edge <> e.day::timestamp at time zone 'UTC'
  ), ranges as (
    select d.day::timestamp at time zone 'UTC' as first_moment, (d.day + 1)::timestamp at time zone 'UTC' as end_moment
    from days d
    union all
    select '-infinity', b.sums_from::timestamp at time zone 'UTC' from bounds b
    union all
    select b.before::timestamp at time zone 'UTC', 'infinity' from bounds b
  )
  select
    c.first_moment, c.end_moment, (c.first_moment at time zone 'UTC')::date,
    ((c.end_moment - interval '1 microsecond') at time zone 'UTC')::date
  from ranges r
  cross join lateral (
    select greatest(window_from, r.first_moment) as first_moment, least(window_to, r.end_moment) as end_moment
  ) c
  where c.first_moment < c.end_moment
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
      select
      from ai.usage_sealed_days s
      cross join lateral (
        select least(
          s.before,
          (moment at time zone 'UTC')::date,
          (select min(c.day) from ai.usage_changed_days c where c.workspace_id = workspace)
        )::timestamp at time zone 'UTC' as live_from
      ) as l
      cross join lateral ai.usage_between(workspace, l.live_from, moment) as u
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
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
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
