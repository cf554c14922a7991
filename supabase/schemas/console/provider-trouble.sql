-- Says which providers have an outage or failing routes now, and what callers get.

-- Returns ai.route_state, but failing for a skipped route if no enabled model has another route: the gateway then calls it
-- during a cooldown, too.
create or replace function private.shown_route_state(health ai.route_health, at timestamptz) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when s.state = 'skipped' and not exists (
      select
      from ai.model_routes r
      join ai.models m on m.id = r.model_id and m.enabled
      join ai.model_routes other on other.model_id = r.model_id and other.enabled and other.position <> r.position
      where r.enabled and r.provider_id = (health).provider_id and r.provider_model = (health).provider_model
    ) then 'failing'
    else s.state
  end
  from (select ai.route_state(health, at) as state) as s
$$;

-- Returns the routes of enabled models that are failing or skipped at a time, with their state.
create or replace function private.list_troubled_routes(at timestamptz)
  returns table (provider_id text, state text, since timestamptz, health ai.route_health)
  language sql stable security invoker set search_path = ''
as $$
  select h.provider_id, s.state, coalesce(h.failing_since, h.failed_at, h.reported_at), h
  from ai.route_health h
  cross join lateral (select private.shown_route_state(h, at) as state) as s
  where s.state in ('failing', 'skipped')
    and exists (
      select from ai.model_routes r
      join ai.models m on m.id = r.model_id and m.enabled
      where r.enabled and r.provider_id = h.provider_id and r.provider_model = h.provider_model
    )
$$;

-- Returns the providers that have an open outage or troubled routes at a time, and since when.
create or replace function private.list_troubled_providers(at timestamptz)
  returns table (provider_id text, outage_since timestamptz, since timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select t.provider_id, min(t.outage_since), least(min(t.outage_since), min(t.since))
  from (
    select o.provider_id, o.began_at as outage_since, o.began_at as since
    from ai.provider_outages o
    where o.ended_at is null
    union all
    select r.provider_id, null, r.since
    from private.list_troubled_routes(at) r
  ) as t
  group by t.provider_id
$$;

-- Returns how many providers have an outage or a troubled route now.
-- Definer: ai.route_state is not granted to the service role.
create or replace function private.count_provider_trouble() returns integer
  language sql stable security definer set search_path = ''
as $$
  select count(*)::integer from private.list_troubled_providers(now())
$$;

-- Returns the providers that have an outage or a troubled route now, outages first, at most ten: [{ providerId,
-- outageSince, routes: [{ model (the provider's name), endpoint, state (failing or skipped), since, skippedUntil,
-- failure, status }] (at most 20), callers: { calls, answeredElsewhere, failed: [{ status, code, calls }] } }]. callers
-- counts the calls that failed at the provider since its trouble began, at most an hour ago, by what their callers got.
-- Definer: functions that read runs are not granted to the service role.
create or replace function private.read_provider_trouble() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'providerId', p.provider_id,
    'outageSince', p.outage_since,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'model', (r.health).provider_model,
        'endpoint', (r.health).endpoint,
        'state', r.state,
        'since', r.since,
        'skippedUntil', case when r.state = 'skipped' then (r.health).skipped_until end,
        'failure', (r.health).failure,
        'status', (r.health).status
      ) order by r.since, (r.health).provider_model, (r.health).endpoint), '[]')
      from (
        select * from private.list_troubled_routes(now()) t
        where t.provider_id = p.provider_id
        order by t.since, (t.health).provider_model, (t.health).endpoint
        limit 20
      ) as r
    ),
    'callers', private.count_failed_callers(p.provider_id, greatest(p.since, now() - interval '1 hour'))
  ) order by p.outage_since, p.since, p.provider_id), '[]')
  from (
    select * from private.list_troubled_providers(now()) t order by t.outage_since, t.since, t.provider_id limit 10
  ) as p
$$;

-- Returns what callers got whose calls failed at a provider since a time, from its last 2,000 failed attempts: { calls,
-- answeredElsewhere, failed: [{ status, code, calls }] }.
create or replace function private.count_failed_callers(of_provider text, since timestamptz) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with attempts as (
    -- Uses the index by route.
    select a.run_created_at, a.run_id
    from (
      select distinct r.model_id, r.provider_model from ai.model_routes r where r.provider_id = of_provider
    ) as r
    cross join lateral (
      select f.run_created_at, f.run_id
      from ai.failed_attempts f
      where f.model_id = r.model_id and f.provider_id = of_provider and f.provider_model = r.provider_model
        and f.at >= since
      order by f.at desc
      limit 2000
    ) as a
    limit 2000
  ), calls as (
    select r.status, r.http_status, coalesce(r.error_code, r.status) as code
    from (select distinct a.run_created_at, a.run_id from attempts a) as a
    join ai.runs r on r.created_at = a.run_created_at and r.id = a.run_id
  )
  select jsonb_build_object(
    'calls', (select count(*) from calls),
    'answeredElsewhere', (select count(*) from calls c where c.status = 'succeeded'),
    'failed', (
      select coalesce(jsonb_agg(jsonb_build_object('status', f.http_status, 'code', f.code, 'calls', f.calls)
        order by f.calls desc, f.code), '[]')
      from (
        select c.http_status, c.code, count(*) as calls
        from calls c
        where c.status <> 'succeeded'
        group by c.http_status, c.code
      ) as f
    )
  )
$$;
