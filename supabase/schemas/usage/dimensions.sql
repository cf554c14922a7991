-- Values by which usage is summed: a run's provider, the histogram bucket of its duration, and whether its usage is
-- estimated.

-- Returns the provider of the route for which a run is charged.
create or replace function ai.run_provider(routes jsonb, route smallint) returns text
  language sql immutable security invoker parallel safe
as $$
  -- Routes are usually listed by position, so the lookup by index comes first. The fallback needs a subselect and is a
  -- separate function, so that Postgres can inline this function. Inlining makes it ten times as fast.
  select case
    when (routes -> (route - 1) ->> 'position')::smallint = route then routes -> (route - 1) ->> 'provider'
    else ai.route_provider(routes, route)
  end
$$;

-- Returns the provider of the route with the given position. Returns the first route's provider if no route has this
-- position. The list may be in any order.
create or replace function ai.route_provider(routes jsonb, route smallint) returns text
  language sql immutable security invoker parallel safe
as $$
  select coalesce(
    (select r ->> 'provider' from jsonb_array_elements(routes) as r where (r ->> 'position')::smallint = route limit 1),
    routes -> 0 ->> 'provider'
  )
$$;

-- Returns the histogram bucket of a duration. Bucket 0 is for durations below 1 ms. Bucket n, from 1 to 80, is for
-- durations from 2^((n - 1) / 4) to 2^(n / 4) ms, so its upper bound is 19% above its lower bound. Bucket 80 also
-- includes longer durations, above 17 minutes.
create or replace function ai.latency_bucket(ms integer) returns integer
  language sql immutable security invoker parallel safe
as $$
  -- Adds 1e-9, so that rounding in ln cannot move a power of two into the bucket below.
  select case
    when ms < 1 then 0
    when ms >= 1 then least(1 + floor(4 * ln(ms::double precision) / ln(2::double precision) + 1e-9), 80)
  end::integer
$$;

-- Encodes a run's duration as a number that has twelve digits for each bucket and a 1 in the run's bucket. The sum of
-- these numbers is a histogram. Adding numbers is the fastest aggregation in Postgres. Returns null if the run has no
-- duration.
create or replace function ai.latency_mark(ms integer) returns numeric
  language sql immutable security invoker parallel safe
as $$
  -- Concatenates text only: || with a number is not immutable, so Postgres would not inline the function.
  select ('1e' || (12 * ai.latency_bucket(ms))::text)::numeric
$$;

-- Returns whether at least a part of a run's usage was estimated. Returns false for runs that the sweep closed.
create or replace function ai.is_estimated(usage_source ai.usage_source, swept boolean) returns boolean
  language sql immutable security invoker parallel safe
as $$
  select usage_source in ('provider_partial', 'estimated_partial') and not swept
$$;
