-- Dimensions of usage sums: a run's provider, the histogram bucket of its duration, and whether it is an estimate.

create or replace function ai.run_provider(routes jsonb, route smallint) returns text
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Routes are listed in order. Without a subselect, the function is inlined into its caller's plan, which is ten times
  -- as fast.
  select case
    when (routes -> (route - 1) ->> 'position')::smallint = route then routes -> (route - 1) ->> 'provider'
    else ai.route_provider(routes, route)
  end
$$;
comment on function ai.run_provider(jsonb, smallint) is 'Returns the provider of a run''s charged route.';

create or replace function ai.route_provider(routes jsonb, route smallint) returns text
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select coalesce(
    (select r ->> 'provider' from jsonb_array_elements(routes) as r where (r ->> 'position')::smallint = route limit 1),
    routes -> 0 ->> 'provider'
  )
$$;
comment on function ai.route_provider(jsonb, smallint) is
  'Returns the provider of the route at a position, in any order of the list, or the provider of the first route if '
  'there is none at that position.';

create or replace function ai.latency_bucket(ms integer) returns integer
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Slightly increased, so that powers of two begin their bucket regardless of the logarithm's last digit.
  select case
    when ms < 1 then 0
    when ms >= 1 then least(1 + floor(4 * ln(ms::double precision) / ln(2::double precision) + 1e-9), 80)
  end::integer
$$;
comment on function ai.latency_bucket(integer) is
  'Returns the bucket of a duration: bucket n, from 1 to 80, contains 2^((n - 1) / 4) to 2^(n / 4) ms, which is 19% '
  'wide; bucket 0 contains durations below 1 ms, the last one also those above 17 minutes.';

create or replace function ai.latency_mark(ms integer) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Concatenates text only: || with a number is not immutable, so Postgres would not inline the function.
  select ('1e' || (12 * ai.latency_bucket(ms))::text)::numeric
$$;
comment on function ai.latency_mark(integer) is
  'Returns a run as a number with twelve digits for each bucket and a 1 in the run''s own, so that the sum of such '
  'numbers is a histogram. Adding numbers is what Postgres does fastest. Null without a duration.';

create or replace function ai.is_estimated(usage_source ai.usage_source, swept boolean) returns boolean
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select usage_source in ('provider_partial', 'estimated_partial') and not swept
$$;
comment on function ai.is_estimated(ai.usage_source, boolean) is
  'Returns whether a run''s usage was estimated in part or in full, but not by the sweep.';
