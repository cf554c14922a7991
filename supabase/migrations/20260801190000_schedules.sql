-- Recurring jobs, where pg_cron is installed. Elsewhere an operator's scheduler calls these functions.

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('clear-expired-attempts', '*/5 * * * *', 'select private.delete_expired_attempts()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('sweep-oauth-attempts', '* * * * *', 'select private.sweep_oauth_attempts()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('sweep-app-credentials', '*/10 * * * *', 'select private.sweep_app_credentials()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-sweep-runs', '15 seconds', 'select ai.sweep_runs()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-forget-expired', '*/5 * * * *', 'select ai.delete_expired()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-sweep-content', '* * * * *', 'select ai.delete_expired_content()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('sweep-account-devices', '17 * * * *', 'select private.sweep_account_devices()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('sweep-login-challenges', '*/10 * * * *', 'select private.sweep_login_challenges()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('sweep-recoveries', '17 * * * *', 'select private.sweep_recoveries()');
  end if;
end
$$;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-roll-up-usage', '* * * * *', 'select ai.roll_up_usage()');
  end if;
end
$$;
