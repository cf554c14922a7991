-- What recovery leaves behind and nobody needs any more. Overrides and events stay: they are the record of who was
-- helped, by whom and why.

create function private.sweep_recoveries() returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_recoveries', 0)) then
    return 0;
  end if;
  -- A day, so that the page can still say of a link that it is too old, and the log why.
  delete from private.recovery_credentials c where c.expires_at < now() - interval '1 day';
  get diagnostics batch = row_count;
  swept := swept + batch;
  -- No guess counts after 24 hours, and no lock lasts longer.
  delete from private.recovery_code_guesses g
  where coalesce(g.last_wrong_at < now() - interval '24 hours', true)
    and coalesce(g.locked_until <= now(), true)
    and not exists (select from private.recovery_credentials c where c.email = g.email and c.expires_at > now());
  get diagnostics batch = row_count;
  swept := swept + batch;
  delete from private.mint_leases l where l.expires_at < now();
  get diagnostics batch = row_count;
  return swept + batch;
end
$$;
comment on function private.sweep_recoveries() is
  'Removes credentials a day after their end, guesses that count no more and leases that ran out; says how many rows.';
revoke execute on function private.sweep_recoveries() from public, anon, authenticated;
grant execute on function private.sweep_recoveries() to service_role;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('sweep-recoveries', '17 * * * *', 'select private.sweep_recoveries()');
  end if;
end
$$;
