-- Limits the calls and tokens a minute of a provider's credential, which all workspaces and processes share.

-- Takes provider calls from the buckets of their providers, in the order of the calls. A call is {"provider",
-- "input_bytes", "images", "audio_seconds", "output_tokens", "context_window", "wait_ms"}. Its tokens are its maximum
-- input plus its output limit, as OpenAI counts them (https://platform.openai.com/docs/guides/rate-limits). Returns for
-- each call {"taken", "wait_ms"}: the call was taken and may be made after wait_ms, which is at most the wait_ms that it
-- accepts; or it was not taken and fits after wait_ms, which is null if the call alone exceeds the limit.
-- Definer: gateway has no grant on any table.
create or replace function ai.take_provider_calls(calls jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- After a crash of Postgres, calls of its last moments may be missing in the buckets.
  perform set_config('synchronous_commit', 'off', true);
  return ai.take_calls(calls);
end
$$;

-- Takes provider calls like ai.take_provider_calls, at a given time in tests.
create or replace function ai.take_calls(calls jsonb, fixed_time timestamptz default null) returns jsonb
  language plpgsql volatile security invoker
  set plan_cache_mode = force_generic_plan
as $$
declare
  provider text;
  limits ai.provider_limits;
  started_at timestamptz;
  call record;
  -- In microseconds from started_at: when each bucket is full, and when the call fits into both.
  requests_full bigint;
  tokens_full bigint;
  fits bigint;
  is_taken boolean;
  has_taken boolean;
  answers jsonb[];
begin
  for provider in select distinct c ->> 'provider' from jsonb_array_elements(calls) as c order by 1 loop
    select * into limits from ai.provider_limits l where l.provider_id = provider for no key update;
    -- The time is read after the wait for the lock, so that calls don't count as earlier than they are.
    started_at := coalesce(fixed_time, clock_timestamp());
    requests_full := ai.microseconds_until(limits.requests_full_at, started_at);
    tokens_full := ai.microseconds_until(limits.tokens_full_at, started_at);
    has_taken := false;
    for call in
      select
        c.ordinality::integer as place, coalesce((c.value ->> 'wait_ms')::bigint, 0) as wait_ms,
        least(i.text_tokens, (c.value ->> 'context_window')::bigint) + i.image_tokens + i.audio_tokens
          + (c.value ->> 'output_tokens')::bigint as tokens
      from jsonb_array_elements(calls) with ordinality as c
      cross join lateral ai.input_tokens(
        (c.value ->> 'input_bytes')::bigint, (c.value ->> 'images')::bigint,
        coalesce((c.value ->> 'audio_seconds')::bigint, 0)
      ) as i
      where c.value ->> 'provider' = provider
      order by c.ordinality
    loop
      fits := greatest(
        0,
        requests_full + ai.refill_time(1 - ai.bucket_size(limits.requests_per_minute), limits.requests_per_minute),
        tokens_full + ai.refill_time(call.tokens - ai.bucket_size(limits.tokens_per_minute), limits.tokens_per_minute)
      );
      if call.tokens > limits.tokens_per_minute then
        fits := null;
      end if;
      is_taken := coalesce(fits / 1000 <= call.wait_ms, false);
      if is_taken then
        has_taken := true;
        requests_full := greatest(requests_full, fits) + ai.refill_time(1, limits.requests_per_minute);
        tokens_full := greatest(tokens_full, fits) + ai.refill_time(call.tokens, limits.tokens_per_minute);
      end if;
      answers[call.place] := jsonb_build_object('taken', is_taken, 'wait_ms', fits / 1000);
    end loop;
    if has_taken then
      update ai.provider_limits l
      set
        requests_full_at = coalesce(started_at + requests_full * interval '1 microsecond', l.requests_full_at),
        tokens_full_at = coalesce(started_at + tokens_full * interval '1 microsecond', l.tokens_full_at)
      where l.provider_id = provider;
    end if;
  end loop;
  return coalesce(to_jsonb(answers), '[]');
end
$$;

-- Returns the size of a limit's bucket: a tenth of the limit, at least 1. Null without a limit.
create or replace function ai.bucket_size(per_minute bigint) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select greatest(per_minute / 10, 1)
$$;

-- Returns the microseconds in which a limit's bucket refills by an amount, rounded up.
--
-- A call of n tokens at time a fits if the bucket has been full for the time in which it would refill by n minus its
-- size, which is negative for a small call. So n tokens are also taken from an empty bucket that is full n later:
-- full[i] = max(full[i-1], a[i]) + time(n[i]), and full[k-1] <= a[k] + time(size - n[k]). From call i to call k, the
-- first gives time(n[i] + … + n[k-1]) <= full[k-1] - a[i], and the second then time(n[i] + … + n[k] - size) <=
-- a[k] - a[i]. With a refill of limit + 1 - size in 61 seconds, all calls in less than 61 seconds have less than
-- limit + 1 tokens. The additional second allows for waits that are
-- rounded down to milliseconds, and for calls that reach the provider later than others.
create or replace function ai.refill_time(amount bigint, per_minute bigint) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select ceil(amount * 61000000.0 / (per_minute + 1 - greatest(per_minute / 10, 1)))::bigint
$$;

-- Returns the microseconds from one time to another. If the clock was set back, at most two minutes.
create or replace function ai.microseconds_until(until timestamptz, since timestamptz) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select least(extract(epoch from until - since), 120)::numeric * 1000000
$$;

-- Returns how much of a limit is left in its bucket now.
create or replace function ai.bucket_level(full_at timestamptz, per_minute bigint) returns bigint
  language sql stable strict security invoker
as $$
  select greatest(0, least(s.size, s.size - ceil(
    ai.microseconds_until(full_at, now())::numeric * (per_minute + 1 - s.size) / 61000000
  )))::bigint
  from (select ai.bucket_size(per_minute) as size) as s
$$;
