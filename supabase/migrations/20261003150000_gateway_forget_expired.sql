-- Clearing away what the gateway needs for a while only: idempotency keys that have expired, and the minutes of subjects
-- that call no more. Runs, ledger, costs and invoices are kept for good.

-- Definer: the server's service role holds no grant to write these tables.
create function ai.forget_expired(at_most integer default 10000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  keys integer;
  windows integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.forget_expired', 0)) then
    return 0;
  end if;
  -- Whoever uses a row at this moment keeps it.
  delete from ai.idempotency_keys i
  using (
    select e.workspace_id, e.principal_id, e.key
    from ai.idempotency_keys e
    where e.expires_at <= now()
    order by e.expires_at
    limit at_most
    for update skip locked
  ) as expired
  where i.workspace_id = expired.workspace_id and i.principal_id = expired.principal_id and i.key = expired.key;
  get diagnostics keys = row_count;

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;
  return keys + windows;
end
$$;
comment on function ai.forget_expired(integer) is
  'Deletes idempotency keys past their 24 hours and rate windows of an hour ago and more, so many of each at most. '
  'Returns how many. One at a time; others return 0.';
revoke execute on function ai.forget_expired(integer) from public, anon, authenticated;
grant execute on function ai.forget_expired(integer) to service_role;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-forget-expired', '*/5 * * * *', 'select ai.forget_expired()');
  end if;
end
$$;
