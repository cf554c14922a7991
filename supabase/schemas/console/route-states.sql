-- Lists the states of routes for the console.

-- Returns { routes, count }: the enabled routes of enabled models by provider and its name of the model, those in trouble
-- first and those without recent calls last, at most max_rows, and how many there are. A route is { provider,
-- providerModel, models (display names), endpoint, state, since, skippedUntil, failure, status, failedAt, answeredAt }.
-- endpoint is null if the gateway has not reported the route. Reads no runs, of which there may be many in an hour.
-- Definer: ai.route_state is not granted to the service role.
create or replace function private.list_route_states(max_rows integer default 25) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with routes as (
    select
      r.provider_id, r.provider_model, (array_agg(distinct m.display_name order by m.display_name))[:3] as models
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id, r.provider_model
  ), states as (
    select r.*, h, coalesce(private.shown_route_state(h, now()), 'quiet') as state
    from routes r
    left join ai.route_health h on h.provider_id = r.provider_id and h.provider_model = r.provider_model
  ), listed as (
    select s.*, row_number() over (
      order by array_position(array['skipped', 'failing', 'working', 'quiet'], s.state),
        (now() - (s.h).failed_at < interval '1 hour') is not true, s.provider_id, s.provider_model, (s.h).endpoint
    ) as place
    from states s
    order by place
    limit max_rows
  )
  select jsonb_build_object(
    'count', (select count(*) from states),
    'routes', coalesce(jsonb_agg(jsonb_build_object(
      'provider', l.provider_id,
      'providerModel', l.provider_model,
      'models', l.models,
      'endpoint', (l.h).endpoint,
      'state', l.state,
      'since', case when l.state in ('skipped', 'failing') then coalesce((l.h).failing_since, (l.h).failed_at) end,
      'skippedUntil', case when l.state = 'skipped' then (l.h).skipped_until end,
      'failure', (l.h).failure,
      'status', (l.h).status,
      'failedAt', (l.h).failed_at,
      'answeredAt', (l.h).answered_at
    ) order by l.place), '[]')
  )
  from listed l
$$;
