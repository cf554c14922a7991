-- Lists model routes and their failed attempts for the console.

-- Returns a page of the enabled models, each with its routes in order. hasPrice is whether a route has the price that
-- calls need (ai.open_routes). failedLastHour and lastFailure describe failed attempts, which are kept for seven days.
-- For the next page, pass the sortsAs of the last model as after. Without page_size, returns all models.
create or replace function private.list_provider_routes(after text[] default null, page_size integer default null)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'sortsAs', m.sorts_as,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'provider', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'hasPrice', exists (
          select from ai.model_prices p
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.service_tier = 'default'
            and p.valid @> now()
        ),
        'failedLastHour', (
          select count(*)
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
            and f.at > now() - interval '1 hour'
        ),
        'lastFailure', (
          select jsonb_build_object(
            'at', f.at,
            'failure', f.failure,
            'status', f.status,
            'upstreamRequestId', f.upstream_request_id,
            'runId', f.run_id
          )
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
          order by f.at desc, f.id desc
          limit 1
        )
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where l.enabled and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

-- Returns the enabled models with the most failed attempts on their routes in the last hour: [{ displayName, failed }].
create or replace function private.list_failing_models(max_rows integer default 20) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object('displayName', f.display_name, 'failed', f.failed)
    order by f.failed desc, f.display_name), '[]')
  from (
    select m.display_name, count(*) as failed
    from ai.failed_attempts a
    join ai.model_routes r using (model_id, provider_id, provider_model)
    join ai.models m on m.id = a.model_id
    where a.at > now() - interval '1 hour' and m.enabled
    group by m.id, m.display_name
    order by failed desc, m.display_name
    limit max_rows
  ) f
$$;
