-- Separate: comes before the files that change types and functions, and locks no table.

-- A call of 0.1.0 that runs while a file commits may fail, since its function then finds changed or dropped types and
-- functions. Postgres has rolled back what it did, so each function that answers a call repeats itself once. The file of
-- functions replaces these.
create procedure pg_temp.repeat_calls(names text[])
  language plpgsql
as $$
declare
  entry pg_proc;
begin
  for entry in
    select p.* from pg_proc p
    where p.oid = any (select format('ai.%I(jsonb)', name)::regprocedure from unnest(names) as name)
  loop
    execute format('alter function ai.%I(jsonb) rename to %I', entry.proname, entry.proname || '_0_1');
    execute format('revoke all on function ai.%I(jsonb) from gateway', entry.proname || '_0_1');
    execute format(
      $create$
        create function ai.%1$I(%2$I jsonb) returns %3$s
          language plpgsql
          volatile
          security definer
          set search_path = ''
        as $body$
        begin
          return ai.%4$I($1);
        exception when syntax_error_or_access_rule_violation or feature_not_supported or internal_error then
          if to_regprocedure('ai.%4$I(jsonb)') is null then
            return ai.%1$I($1);
          end if;
          return ai.%4$I($1);
        end
        $body$
      $create$,
      entry.proname, entry.proargnames[1], entry.prorettype::regtype, entry.proname || '_0_1'
    );
    execute format('grant execute on function ai.%I(jsonb) to gateway', entry.proname);
  end loop;
end
$$;
call pg_temp.repeat_calls(array[
  'begin_run', 'begin_runs', 'extend_run', 'settle_runs', 'release_orphaned_runs', 'check_credential', 'list_models',
  'describe_credential', 'check_app_caller', 'report_usage', 'import_provider_costs', 'import_provider_invoice'
]);
