-- Separate, after the functions: the job calls one of them.
set lock_timeout = '500ms';

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('record-provider-outages', '15 seconds', 'select ai.record_provider_outages()');
  end if;
end
$$;
reset all;
