-- Lists model routes and their failed attempts, and changes the limits of providers, for the console.

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

-- Until 0.6.0, for servers of 0.4.0: returns the enabled models with the most failed attempts on their routes in the
-- last hour: [{ displayName, failed }].
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

-- Returns the providers that have a route or a limit, each with its limits, what is left in their buckets now and the
-- buckets' sizes. Every change of the limits changes the version.
create or replace function private.list_provider_limits(only_id text default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.provider_id,
    'requestsPerMinute', l.requests_per_minute,
    'tokensPerMinute', l.tokens_per_minute,
    'requests', case when l.requests_per_minute is not null then jsonb_build_object(
      'size', ai.bucket_size(l.requests_per_minute), 'left', ai.bucket_level(l.requests_full_at, l.requests_per_minute)
    ) end,
    'tokens', case when l.tokens_per_minute is not null then jsonb_build_object(
      'size', ai.bucket_size(l.tokens_per_minute), 'left', ai.bucket_level(l.tokens_full_at, l.tokens_per_minute)
    ) end,
    'version', private.provider_limit_version(l)
  ) order by p.provider_id), '[]')
  from (
    select r.provider_id from ai.model_routes r where only_id is null or r.provider_id = only_id
    union
    select o.provider_id from ai.provider_limits o where only_id is null or o.provider_id = only_id
  ) as p
  left join ai.provider_limits l using (provider_id)
$$;

-- Returns a text that differs after each change of a provider's limits, so that a change made from an older state can be
-- refused.
create or replace function private.provider_limit_version(limits ai.provider_limits) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(concat_ws(' ', coalesce((limits).requests_per_minute, 0), coalesce((limits).tokens_per_minute, 0)))
$$;

-- Sets or removes a provider's limits. The change is { actor, provider, seen (the version that the admin saw),
-- requestsPerMinute, tokensPerMinute, reason, requestId, ip }; null removes a limit. What was taken of a limit stays
-- taken. Returns {} or { refused: forbidden | not_found | conflict (with last) }.
create or replace function private.save_provider_limit(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  provider text := change ->> 'provider';
  requests integer := (change ->> 'requestsPerMinute')::integer;
  tokens bigint := (change ->> 'tokensPerMinute')::bigint;
  before ai.provider_limits;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- One change at a time, because the row may not exist yet.
  perform pg_advisory_xact_lock(hashtextextended('provider limit ' || provider, 0));
  if jsonb_array_length(private.list_provider_limits(provider)) = 0 then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into before from ai.provider_limits l where l.provider_id = provider;
  if private.provider_limit_version(before) is distinct from change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('provider ' || provider));
  end if;
  if num_nonnulls(requests, tokens) = 0 then
    delete from ai.provider_limits l where l.provider_id = provider;
  else
    insert into ai.provider_limits as l (provider_id, requests_per_minute, tokens_per_minute)
    values (provider, requests, tokens)
    on conflict (provider_id) do update
    set requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'provider.limit',
    'target', 'provider ' || provider,
    'before', jsonb_build_object(
      'requests_per_minute', before.requests_per_minute, 'tokens_per_minute', before.tokens_per_minute
    ),
    'after', jsonb_build_object('requests_per_minute', requests, 'tokens_per_minute', tokens)
  ));
  return '{}';
end
$$;

-- Records a test call to a provider, which costs money. Takes { actor or serviceAccount, provider, model, result
-- (answered, or why not), requestId, ip }. The caller has checked who may test.
-- Definer: the service role cannot read service accounts.
create or replace function private.record_provider_test(test jsonb) returns void
  language sql volatile security definer set search_path = ''
as $$
  select private.record_admin_action(
    test || '{"reason": "Route test"}',
    jsonb_build_object(
      'action', 'provider.test',
      'target', 'provider ' || (test ->> 'provider'),
      'after', jsonb_build_object('model', test ->> 'model', 'result', test ->> 'result')
    )
  )
$$;
