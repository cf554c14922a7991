-- Compares what a provider counted by hour, key and model with the calls of that hour, to find the calls behind a
-- difference in the platform's book.

-- Replaces the hours of a provider's UTC day. hours are [{ hour, keyId, model, requests, inputTokens, cachedInputTokens,
-- cacheWriteTokens, outputTokens }], of which those of the same hour, key and model are added up. The change is { actor,
-- reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.store_usage_hours(of_provider text, of_day date, hours jsonb, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  -- Locks the day, so that concurrent answers replace each other.
  insert into ai.usage_days (provider, day) values (of_provider, of_day)
  on conflict (provider, day) do update set observed_at = now();
  delete from ai.usage_hours h where h.provider = of_provider and h.day = of_day;
  insert into ai.usage_hours (
    provider, day, hour, key_id, model, requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens
  )
  select of_provider, of_day, h."hour", h."keyId", h."model", sum(h."requests"), sum(h."inputTokens"),
    sum(h."cachedInputTokens"), sum(h."cacheWriteTokens"), sum(h."outputTokens")
  from jsonb_to_recordset(hours) as h (
    "hour" timestamptz, "keyId" text, "model" text, "requests" bigint, "inputTokens" bigint, "cachedInputTokens" bigint,
    "cacheWriteTokens" bigint, "outputTokens" bigint
  )
  group by h."hour", h."keyId", h."model";
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.fetch_usage_hours', 'target', format('usage %s %s', of_provider, of_day)
  ));
  return '{}';
end
$$;

-- Marks a provider's API key as used only by this gateway, or removes the mark, and records it in the audit log. The
-- change is { actor, reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.mark_gateway_key(of_provider text, of_key text, marked boolean, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  if marked then
    insert into ai.gateway_provider_keys (provider, key_id) values (of_provider, of_key) on conflict do nothing;
  else
    delete from ai.gateway_provider_keys k where k.provider = of_provider and k.key_id = of_key;
  end if;
  if found then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', case when marked then 'costs.mark_gateway_key' else 'costs.unmark_gateway_key' end,
      'target', format('provider key %s %s', of_provider, of_key)
    ));
  end if;
  return '{}';
end
$$;

-- Returns the calls that the gateway made to a provider (a result of ai.billing_provider) in runs that began in a range,
-- one row for each run and provider model. requests are those whose tokens are counted. note is closed, estimated,
-- uncounted if a failed request may have been charged without counts, or null. Not granted to any role.
create or replace function ai.provider_calls(of_provider text, range_start timestamptz, range_end timestamptz)
  returns table (
    run_id uuid, created_at timestamptz, workspace_id uuid, model text, cost_usd numeric, note text, requests bigint,
    input_tokens bigint, cached_input_tokens bigint, cache_write_tokens bigint, output_tokens bigint
  )
  language sql stable security invoker set search_path = ''
as $$
  with found_runs as materialized (
    select r.id, r.created_at, r.workspace_id, r.cost_usd, r.billing_name, r.swept, r.usage_source, r.input_tokens,
      r.cached_input_tokens, r.cache_write_tokens + r.cache_write_1h_tokens as cache_write_tokens, r.output_tokens,
      ai.run_provider(r.routes, r.route) as provider_id,
      coalesce(
        case when (r.routes -> (r.route - 1) ->> 'position')::smallint = r.route then r.routes -> (r.route - 1) ->> 'model' end,
        jsonb_path_query_first(
          r.routes, '$[*] ? (@.position == $position).model', jsonb_build_object('position', coalesce(r.route, 1))
        ) #>> '{}',
        r.model_id
      ) as model,
      r.input_tokens + r.output_tokens > 0
        or coalesce(r.attempts @? '$[*] ? (@.status == 200 && !exists(@.failure))', false) as is_counted,
      coalesce(r.attempts @? '$[*].charged', false) as is_split,
      -- Most runs need no attempts, which are large.
      case when r.attempts @? '$[*] ? (exists(@.charged) || exists(@.may_have_charged))' then r.attempts end as attempts
    from ai.runs r
    where r.created_at >= range_start and r.created_at < range_end
  ), provider_ids as (
    -- Runs that the sweep closed, and requests before the last one, state no billing name.
    select of_provider as id
    union
    select r.provider_id
    from found_runs r
    where r.billing_name is not null and ai.provider_name(r.billing_name) = of_provider
  ), counted as (
    select r.id, r.provider_id, r.model, 1 as requests, r.input_tokens, r.cached_input_tokens, r.cache_write_tokens,
      r.output_tokens, false as is_uncounted
    from found_runs r
    where not r.is_split and r.is_counted
    union all
    select r.id, a.provider, a.model, case when a.charged is null then 0 else 1 end,
      coalesce((a.charged ->> 'input_tokens')::bigint, 0), coalesce((a.charged ->> 'cached_input_tokens')::bigint, 0),
      coalesce((a.charged ->> 'cache_write_tokens')::bigint, 0) + coalesce((a.charged ->> 'cache_write_1h_tokens')::bigint, 0),
      coalesce((a.charged ->> 'output_tokens')::bigint, 0), a.charged is null
    from found_runs r
    cross join lateral rows from (
      jsonb_to_recordset(r.attempts) as (provider text, model text, charged jsonb, may_have_charged boolean)
    ) with ordinality as a (provider, model, charged, may_have_charged, place)
    where a.charged is not null
      or a.may_have_charged
        and (a.place < jsonb_array_length(r.attempts) or not r.is_split and r.input_tokens + r.output_tokens = 0)
  )
  select r.id, r.created_at, r.workspace_id, c.model, r.cost_usd,
    case
      when r.swept then 'closed'
      when ai.is_estimated(r.usage_source, r.swept) then 'estimated'
      when bool_or(c.is_uncounted) then 'uncounted'
    end,
    sum(c.requests)::bigint, sum(c.input_tokens)::bigint, sum(c.cached_input_tokens)::bigint,
    sum(c.cache_write_tokens)::bigint, sum(c.output_tokens)::bigint
  from found_runs r
  join counted c on c.id = r.id
  where case
    when r.billing_name is not null and c.provider_id = r.provider_id then ai.provider_name(r.billing_name) = of_provider
    else c.provider_id in (select p.id from provider_ids p)
  end
  group by r.id, r.created_at, r.workspace_id, c.model, r.cost_usd, r.swept, r.usage_source
$$;

-- Returns the name of ours under which a provider's model was called: the same name, otherwise the longest one that the
-- provider's name continues with a date, with or without -latest. Returns null if there is none. Not granted to any role.
create or replace function ai.match_model(name text, names text[]) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select n.name
  from (select o as name, regexp_replace(o, '-latest$', '') as base from unnest(names) o) n
  where n.name = match_model.name
    or starts_with(match_model.name, n.base || '-')
      and substr(match_model.name, length(n.base) + 2) ~ '^(\d{4}|\d{8}|\d{4}-\d{2}-\d{2})$'
  order by n.name = match_model.name desc, length(n.base) desc, length(n.name)
  limit 1
$$;

-- Compares a provider's UTC day by hour and model: { observedAt, keys: [{ keyId, isMarked, isCounted,
-- inputTokens, outputTokens }], lines: [{ hour, model, isKnown, differs, calls, stated, metered, keys }], calls: { hour, model, total,
-- records } }, or { refused: forbidden }. observedAt is null if the provider was not asked. If keys are marked, stated is
-- the sum of marked keys only. isKnown says whether a call of the day used the model. calls lists at most page_size calls
-- of a line: the given one, otherwise the differing line with calls and the largest difference.
-- Definer: the service role cannot check who may use a book.
create or replace function private.compare_usage_hours(
  actor uuid, of_provider text, of_day date, of_hour timestamptz default null, of_model text default null,
  skip integer default 0, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- Days are in UTC.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
declare
  answer jsonb;
begin
  if ai.book_refusal(actor, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  with calls as materialized (
    select date_trunc('hour', c.created_at) as hour, c.*
    from ai.provider_calls(of_provider, of_day::timestamptz, (of_day + 1)::timestamptz) c
  ), known as materialized (
    select array(select distinct c.model from calls c) as names
  ), models as materialized (
    select h.model, ai.match_model(h.model, k.names) as own_model
    from (select distinct h.model from ai.usage_hours h where h.provider = of_provider and h.day = of_day) h
    cross join known k
  ), aliases as materialized (
    -- Our names whose calls the provider counts under a dated name that belongs to another name of ours.
    select a.name, max(m.own_model collate "C") as model
    from known k
    cross join unnest(k.names) as a (name)
    join models m on m.own_model is not null and ai.match_model(m.model, array[a.name]) is not null
    where not exists (select from models o where o.own_model = a.name)
    group by a.name
  ), matched as materialized (
    select h.*, o.own_model, m.key_id is not null as is_marked,
      m.key_id is not null or not exists (select from ai.gateway_provider_keys g where g.provider = of_provider) as is_counted
    from ai.usage_hours h
    join models o on o.model = h.model
    left join ai.gateway_provider_keys m on m.provider = h.provider and m.key_id = h.key_id
    where h.provider = of_provider and h.day = of_day
  ), stated as (
    select s.hour, coalesce(s.own_model, s.model) as model, bool_or(s.is_counted) as is_counted,
      ai.usage_counts(
        sum(s.requests) filter (where s.is_counted), sum(s.input_tokens) filter (where s.is_counted),
        sum(s.cached_input_tokens) filter (where s.is_counted), sum(s.cache_write_tokens) filter (where s.is_counted),
        sum(s.output_tokens) filter (where s.is_counted)
      ) as counts,
      jsonb_agg(jsonb_build_object(
        'keyId', s.key_id, 'model', s.model, 'isCounted', s.is_counted, 'requests', s.requests,
        'inputTokens', s.input_tokens, 'outputTokens', s.output_tokens
      ) order by s.input_tokens + s.output_tokens desc, s.key_id collate "C", s.model collate "C") as keys
    from matched s
    group by 1, 2
  ), metered as (
    select c.hour, coalesce(a.model, c.model) as model, count(*) as calls, ai.usage_counts(
      sum(c.requests), sum(c.input_tokens), sum(c.cached_input_tokens), sum(c.cache_write_tokens), sum(c.output_tokens)
    ) as counts
    from calls c
    left join aliases a on a.name = c.model
    group by 1, 2
  ), lines as materialized (
    select hour, model, coalesce(m.calls, 0) as calls, model = any (k.names) as is_known, coalesce(s.keys, '[]') as keys,
      coalesce(s.counts, e.counts || '{"requests": null}') as stated, coalesce(m.counts, e.counts) as metered
    from stated s
    full join metered m using (hour, model)
    cross join known k
    cross join (select ai.usage_counts(0, 0, 0, 0, 0) as counts) e
  ), compared as materialized (
    -- Requests are compared only if the provider states them.
    select l.*, l.stated is distinct from case
        when l.stated -> 'requests' = 'null' then l.metered || '{"requests": null}' else l.metered
      end as differs,
      abs((l.stated ->> 'inputTokens')::bigint - (l.metered ->> 'inputTokens')::bigint)
        + abs((l.stated ->> 'outputTokens')::bigint - (l.metered ->> 'outputTokens')::bigint) as difference
    from lines l
  ), chosen as materialized (
    select c.hour, c.model, c.calls
    from compared c
    where case when of_hour is null then c.differs and c.calls > 0 else c.hour = of_hour and c.model = of_model end
    order by c.difference desc, c.hour, c.model collate "C"
    limit 1
  )
  select jsonb_build_object(
    'observedAt', (select d.observed_at from ai.usage_days d where d.provider = of_provider and d.day = of_day),
    'keys', (
      -- Marked keys are listed first and even if they were not used on the day, so that the mark can be removed.
      select coalesce(jsonb_agg(k.key order by k.is_marked desc, k.tokens desc, k.key_id collate "C"), '[]')
      from (
        select u.key_id, bool_or(u.is_marked) as is_marked,
          coalesce(sum(m.input_tokens + m.output_tokens), 0) as tokens, jsonb_build_object(
          'keyId', u.key_id, 'isMarked', bool_or(u.is_marked), 'isCounted', coalesce(bool_or(m.is_counted), true),
          'inputTokens', coalesce(sum(m.input_tokens), 0), 'outputTokens', coalesce(sum(m.output_tokens), 0)
        ) as key
        from (
          select x.key_id, x.is_marked from matched x
          union
          select g.key_id, true from ai.gateway_provider_keys g where g.provider = of_provider
        ) u
        left join matched m on m.key_id is not distinct from u.key_id
        group by u.key_id
      ) k
    ),
    'lines', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'hour', ai.utc_text_microseconds(c.hour), 'model', c.model, 'isKnown', c.is_known, 'differs', c.differs,
        'calls', c.calls, 'stated', c.stated, 'metered', c.metered, 'keys', c.keys
      ) order by c.hour, c.model collate "C"), '[]')
      from compared c
    ),
    'calls', (
      select jsonb_build_object('hour', ai.utc_text_microseconds(h.hour), 'model', h.model, 'total', h.calls, 'records', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'runId', c.run_id, 'createdAt', ai.utc_text_microseconds(c.created_at), 'workspaceId', c.workspace_id,
          'workspaceName', w.name, 'requests', c.requests, 'inputTokens', c.input_tokens,
          'cachedInputTokens', c.cached_input_tokens, 'outputTokens', c.output_tokens,
          'costUsd', trim_scale(c.cost_usd)::text, 'note', c.note
        ) order by c.created_at, c.run_id), '[]')
        from (
          select o.* from calls o
          left join aliases a on a.name = o.model
          where o.hour = h.hour and coalesce(a.model, o.model) = h.model
          order by o.created_at, o.run_id
          limit page_size offset skip
        ) c
        left join public.workspaces w on w.id = c.workspace_id
      ))
      from chosen h
    )
  ) into answer;
  return answer;
end
$$;

-- Returns the counts of an hour as JSON. Missing token counts are 0. Not granted to any role.
create or replace function ai.usage_counts(
  requests numeric, input_tokens numeric, cached_input_tokens numeric, cache_write_tokens numeric, output_tokens numeric
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'requests', requests, 'inputTokens', coalesce(input_tokens, 0), 'cachedInputTokens', coalesce(cached_input_tokens, 0),
    'cacheWriteTokens', coalesce(cache_write_tokens, 0), 'outputTokens', coalesce(output_tokens, 0)
  )
$$;
