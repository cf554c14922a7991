-- Deletes expired rows in batches.

-- Deletes the oldest rows whose time is more than an age ago, at most max_rows, and returns their number. Skips rows
-- that other transactions have locked, and leaves them to the next call.
create or replace function private.delete_expired_rows(relation regclass, time_column name, age interval, max_rows integer)
  returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted integer;
begin
  execute format(
    'delete from %1$s where ctid = any (array(
      select o.ctid from %1$s o where o.%2$I < now() - $1 order by o.%2$I limit $2 for update skip locked
    ))',
    relation, time_column
  ) using age, max_rows;
  get diagnostics deleted = row_count;
  return deleted;
end
$$;
