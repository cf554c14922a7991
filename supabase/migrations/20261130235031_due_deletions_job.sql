-- Separate, after the functions: the job calls one of them.
set lock_timeout = '500ms';

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('delete-due-accounts', '* * * * *', 'select private.delete_due_accounts()');
  end if;
end
$$;
reset all;
