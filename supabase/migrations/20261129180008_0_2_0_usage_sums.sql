-- Starts the sums of runs, with the new functions. Until then, reports read all runs.
set lock_timeout = '500ms';

select ai.roll_up_usage(0);

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-roll-up-usage', '15 seconds', 'select ai.roll_up_usage()');
  end if;
end
$$;
