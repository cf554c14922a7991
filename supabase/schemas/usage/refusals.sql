-- Reads the sums of refused calls, which are kept by UTC day.

-- Returns a workspace's refused calls on all days that overlap a half-open window.
-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.refused_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.refused_daily
  language sql stable security invoker
as $$
  select r.*
  from ai.refused_daily r
  where r.workspace_id = workspace
    and r.day >= (window_from at time zone 'UTC')::date
    and r.day <= ((window_to - interval '1 microsecond') at time zone 'UTC')::date
$$;
