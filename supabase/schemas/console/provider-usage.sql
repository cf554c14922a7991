-- Lists each provider's calls, failures and costs across all workspaces.

-- Until 0.6.0, for servers of 0.4.0: returns the providers that have enabled routes or recent calls: [{ provider, routes,
-- answeredLastHour (runs), lastAnswerAt, failedLastHour (attempts), failures }]. failures has one row for each class of
-- failure in the last 24 hours, latest first: [{ failure, failed, lastAt }].
-- Definer: functions that read runs are not granted to the service role.
create or replace function private.list_provider_health() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with failures as (
    select
      f.provider_id, f.failure, count(*) as failed, max(f.at) as last_at,
      count(*) filter (where f.at > now() - interval '1 hour') as last_hour
    from ai.failed_attempts f
    where f.at > now() - interval '24 hours'
    group by f.provider_id, f.failure
  ), answers as (
    -- Uses the primary key of runs, which begins with their time.
    select ai.run_provider(r.routes, r.route) as provider_id, count(*) as answered, max(r.created_at) as last_at
    from ai.runs r
    where r.created_at > now() - interval '1 hour' and r.status = 'succeeded'
    group by 1
  ), routes as (
    select r.provider_id, count(*) as routes
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.id,
    'routes', coalesce(r.routes, 0),
    'answeredLastHour', coalesce(a.answered, 0),
    'lastAnswerAt', a.last_at,
    'failedLastHour', coalesce((select sum(f.last_hour) from failures f where f.provider_id = p.id), 0),
    'failures', (
      select coalesce(jsonb_agg(jsonb_build_object('failure', f.failure, 'failed', f.failed, 'lastAt', f.last_at)
        order by f.last_at desc, f.failure), '[]')
      from failures f
      where f.provider_id = p.id
    )
  ) order by p.id), '[]')
  from (
    select provider_id from routes union select provider_id from failures union select provider_id from answers
  ) as p (id)
  left join routes r on r.provider_id = p.id
  left join answers a on a.provider_id = p.id
  where p.id is not null
$$;

-- Until 0.6.0, for servers of 0.4.0: returns the routes that runs of the last 15 minutes skipped during a cooldown or
-- without room in the provider's limits, latest first: [{ model, displayName, provider, providerModel, skipped (number of
-- times), lastAt }].
create or replace function private.list_skipped_routes(max_rows integer default 50) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', s.model_id,
    'displayName', s.display_name,
    'provider', s.provider,
    'providerModel', s.provider_model,
    'skipped', s.skipped,
    'lastAt', s.last_at
  ) order by s.last_at desc, s.model_id, s.provider, s.provider_model), '[]')
  from (
    select r.model_id, max(m.display_name) as display_name, a.provider, a.model as provider_model, count(*) as skipped,
      max(r.created_at) as last_at
    from ai.runs r
    cross join lateral jsonb_to_recordset(r.attempts) as a (provider text, model text, failure text)
    left join ai.models m on m.id = r.model_id
    -- Runs store skipped attempts only when they end, so the window is longer than the longest cooldown (five minutes).
    where r.created_at > now() - interval '15 minutes' and r.attempts @> '[{"failure": "skipped"}]' and a.failure = 'skipped'
    group by r.model_id, a.provider, a.model
    order by last_at desc
    limit max_rows
  ) s
$$;

-- Returns the usage of each provider and billing account in all workspaces between two UTC days, inclusive, highest
-- cost first: [{ provider, billingName, billingAccount, requests, failed, inputTokens, outputTokens, costUsd }].
-- Definer: functions that read runs are not granted to the service role.
create or replace function private.list_provider_usage(first_day date, last_day date) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', t.provider_id,
    'billingName', t.billing_name,
    'billingAccount', t.billing_account,
    'requests', t.requests,
    'failed', t.failed,
    'inputTokens', t.input_tokens,
    'outputTokens', t.output_tokens,
    'costUsd', trim_scale(t.cost_usd)::text
  ) order by t.cost_usd desc, t.provider_id, t.billing_name, t.billing_account), '[]')
  from ai.platform_usage(first_day, last_day) t
$$;
