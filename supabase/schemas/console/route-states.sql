-- Lists the states of routes for the console.

-- Returns { routes, count }: the enabled routes of enabled models by provider and its name of the model, those in trouble
-- first and those without calls last, at most max_rows, and how many there are. A route is { provider, providerModel, models (display names), endpoint,
-- state, since, skippedUntil, failure, status, failedAt, answeredAt, answeredLastHour, failedLastHour }. endpoint is null
-- if the gateway has not reported the route. Until 0.6.0, because gateways of 0.4.0 don't report: answeredLastHour and
-- failedLastHour count ended runs and their failed attempts, only for quiet routes.
-- Definer: functions that read runs are not granted to the service role.
create or replace function private.list_route_states(max_rows integer default 25) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with routes as (
    select
      r.provider_id, r.provider_model, array_agg(distinct m.id) as model_ids,
      (array_agg(distinct m.display_name order by m.display_name))[:3] as models
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id, r.provider_model
  ), states as (
    select r.*, h, coalesce(private.shown_route_state(h, now()), 'quiet') as state
    from routes r
    left join ai.route_health h on h.provider_id = r.provider_id and h.provider_model = r.provider_model
  ), answers as (
    -- Uses the primary key of runs, which begins with their time. Reads nothing if no route is quiet.
    select ai.run_provider(r.routes, r.route) as provider_id, r.model_id, count(*) as answered
    from ai.runs r
    where r.created_at > now() - interval '1 hour' and r.status = 'succeeded'
      and exists (select from states s where s.state = 'quiet')
    group by 1, 2
  ), counted as (
    select
      s.*,
      case when s.state = 'quiet' then (
        select coalesce(sum(a.answered), 0)
        from answers a
        where a.provider_id = s.provider_id and a.model_id = any (s.model_ids)
      ) end as answered,
      case when s.state = 'quiet' then (
        select count(*)
        from ai.failed_attempts f
        where f.model_id = any (s.model_ids) and f.provider_id = s.provider_id and f.provider_model = s.provider_model
          and f.at > now() - interval '1 hour'
      ) end as failed
    from states s
  ), listed as (
    select c.*, row_number() over (
      order by array_position(array['skipped', 'failing', 'working', 'quiet'], c.state),
        c.answered + c.failed = 0 and (now() - (c.h).failed_at < interval '1 hour') is not true,
        c.provider_id, c.provider_model, (c.h).endpoint
    ) as place
    from counted c
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
      'answeredAt', (l.h).answered_at,
      'answeredLastHour', l.answered,
      'failedLastHour', l.failed
    ) order by l.place), '[]')
  )
  from listed l
$$;
