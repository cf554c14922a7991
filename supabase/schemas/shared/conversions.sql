-- Converts claims and times.

-- Converts a claim to a UUID. Returns null for a claim that is not a UUID, so that it matches no row and raises no
-- error.
create or replace function private.uuid_or_null(value text) returns uuid
  -- Stable like pg_input_is_valid, so that Postgres can inline it.
  language sql stable security invoker
as $$
  -- The cast is outside, because a planner that knows the value evaluates casts within branches before the condition.
  select (case when pg_input_is_valid(value, 'uuid') then value end)::uuid
$$;

-- Returns a time as RFC 3339 in UTC with milliseconds. Has no settings of its own, so Postgres inlines it.
create or replace function ai.utc_text(moment timestamptz) returns text
  language sql stable security invoker
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
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
