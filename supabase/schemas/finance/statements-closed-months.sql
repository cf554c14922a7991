-- Finds the closed months that a person's change would affect. A closed month has a statement that was not reopened.

-- Returns the closed months of a book (YYYY-MM) that have at least one of the days.
create or replace function ai.closed_months(book uuid, first_day date, last_day date) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select to_char(s.month, 'YYYY-MM')
    from ai.book_statements s
    where s.book_id = book
      and s.reopened_at is null
      and s.month <= last_day
      and s.month >= date_trunc('month', first_day::timestamp)::date
    order by s.month
  )
$$;

-- Returns the closed months in which a cost file would add, correct or clear a day. Not granted to any role.
create or replace function ai.months_closed_to_file(book uuid, days ai.cost_file_day[]) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select to_char(s.month, 'YYYY-MM')
    from ai.book_statements s
    where s.book_id = book
      and s.reopened_at is null
      and exists (
        select from unnest(days) d
        where d.change not in ('unchanged', 'remaining') and date_trunc('month', d.day::timestamp)::date = s.month
      )
    order by s.month
  )
$$;

-- Keeps a book's months from being closed until the transaction ends, so that a person's change and a close exclude
-- each other. The caller checks afterwards, in another statement, whether a month is closed. Not granted to any role.
create or replace function ai.hold_open_months(book uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock_shared(hashtextextended('ai.book_statements ' || book, 0))
$$;

-- Waits for changes of a book by people and for other closes of its months, and excludes them until the transaction
-- ends. Not granted to any role.
create or replace function ai.lock_months(book uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('ai.book_statements ' || book, 0))
$$;

-- Rejects every change of a statement except its reopening, which happens once.
create or replace function ai.reject_statement_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' then
    if old.reopened_at is null
      and new.reopened_at is not null
      and to_jsonb(new) - '{reopened_by,reopened_at,reopen_reason}'::text[]
        = to_jsonb(old) - '{reopened_by,reopened_at,reopen_reason}'::text[] then
      return new;
    end if;
  end if;
  raise exception 'a statement is immutable' using errcode = 'restrict_violation';
end
$$;

-- Applies to every role, including the table's owner.
create or replace trigger reject_statement_change before update or delete on ai.book_statements
  for each row execute function ai.reject_statement_change();
-- Rejects TRUNCATE for every role, including the table's owner.
create or replace trigger reject_statement_truncate before truncate on ai.book_statements
  for each statement execute function ai.reject_statement_change();
