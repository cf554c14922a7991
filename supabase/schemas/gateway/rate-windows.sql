-- Limits of requests and tokens per minute: what is left of them, and how refusals and headers state them.

-- Returns the subject of the rate window of a model in a workspace.
create or replace function ai.model_window_id(workspace uuid, model text) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select ai.label_id(workspace::text || '/' || replace(model, '\', '\\'))
$$;

-- Returns whether a rate window has room for a call. Extending a run's reservation adds tokens but no request.
create or replace function ai.fits_window(
  counted ai.rate_windows, requests integer, tokens bigint, request_limit integer, token_limit bigint
) returns boolean
  language sql immutable security invoker
as $$
  select coalesce(
    (request_limit is null or requests = 0 or (counted).requests + requests <= request_limit)
    and (token_limit is null or (counted).tokens + tokens <= token_limit)
    and (counted).subject_id is not null,
    false
  )
$$;

-- Returns a rate limit as a refusal states it: the limit of requests if that one is reached, otherwise that of tokens.
create or replace function ai.window_limit(
  scope text, counted ai.rate_windows, requests integer, tokens bigint, request_limit integer, token_limit bigint
) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'rate', 'scope', scope, 'unit', l.unit, 'window', 'minute',
    'resets_at', ai.utc_text(w.resets_at),
    'reset_seconds', greatest(ceil(extract(epoch from w.resets_at - now())), 1),
    'limit', l.maximum, 'used', l.used, 'remaining', greatest(l.maximum - l.used, 0)
  )
  from (select coalesce((counted).window_start, date_trunc('minute', now())) + interval '1 minute' as resets_at) as w
  cross join lateral (
    select 'requests' as unit, request_limit::bigint as maximum, coalesce((counted).requests, 0)::bigint as used
    where request_limit is not null and requests > 0 and (counted).requests + requests > request_limit
    union all
    select 'tokens', token_limit, coalesce((counted).tokens, 0) where token_limit is not null
    limit 1
  ) as l
$$;

-- Returns the tokens that a call adds to its rate windows until it is settled: its maximum input plus its output limit.
-- Without a stated output limit, the output is at most 500 tokens per choice and no more than fits in the token limit.
create or replace function ai.reserved_tokens(
  input_tokens bigint, output_limit bigint, choices bigint, output_limit_assumed boolean, token_limit bigint
) returns bigint
  language sql immutable security invoker parallel safe
as $$
  select case
    when output_limit_assumed is not true then input_tokens + output_limit * coalesce(choices, 1)
    else greatest(input_tokens, least(input_tokens + least(output_limit, 500) * coalesce(choices, 1), token_limit))
  end
$$;

-- Returns the refusal of a call whose token count exceeds the per-minute limit of its key, its workspace or its model in
-- the workspace. The call would not fit in any later minute either.
create or replace function ai.token_limit_refusal(
  caller ai.caller, model_limit bigint, input_tokens bigint, tokens bigint
) returns jsonb
  language sql stable security invoker parallel safe
as $$
  select ai.refusal('invalid_request', jsonb_build_object('token_limit', jsonb_build_object(
    'scope', l.scope, 'limit', l.maximum, 'input', input_tokens, 'counted', tokens
  )))
  from (
    values ('key', (caller).key_tokens_per_minute, 1), ('model', model_limit, 2), ('workspace', (caller).workspace_tokens_per_minute, 3)
  ) as l (scope, maximum, place)
  order by l.maximum nulls last, l.place
  limit 1
$$;

-- Returns the limits of a call as JSON text: {"minute", "counts", "model"}. minute is the start of the rate window. counts
-- is a flat list of four pairs, each a limit and a count: the key's requests, the key's tokens, the workspace's requests
-- and the workspace's tokens. model has the two pairs of the call's model, if it has limits. A limit is null if there is
-- none.
create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[], model_counts bigint[]) returns text
  language sql stable security invoker parallel safe
as $$
  select format('{"minute":%s,"counts":%s', coalesce(to_json(minute), 'null'), array_to_json(counts))
    || coalesce(',"model":' || array_to_json(model_counts), '') || '}'
$$;
