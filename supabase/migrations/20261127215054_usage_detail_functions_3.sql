-- Generated from supabase/schemas by npm run db:migration.

create or replace function ai.latency_mark(ms integer) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Text with text: with a number, || is not immutable, and the function would not be part of its callers' plans.
  select ('1e' || (12 * ai.latency_bucket(ms))::text)::numeric
$$;
