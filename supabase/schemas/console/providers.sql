-- What the console shows about the routes of models.

create or replace function private.list_provider_routes() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'provider', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'hasPrice', exists (
          select from ai.model_prices p
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.valid @> now()
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
  ) order by ai.model_order(m)), '[]')
  from ai.models m
  where m.enabled
$$;
comment on function private.list_provider_routes() is
  'Returns each enabled model with its routes in order: whether they have a current price, and what failed in the last seven days.';
