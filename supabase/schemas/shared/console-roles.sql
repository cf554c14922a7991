-- The roles of the console. Every function that acts for a person of the console asks these functions, which read the
-- current rows.

-- Returns whether an account is an infrastructure admin, who may use the whole console. Sets no search_path, so Postgres
-- can inline the function.
create or replace function private.is_infrastructure_admin(account_id uuid) returns boolean
  language sql stable security invoker
as $$
  select exists (select from private.infrastructure_admins a where a.user_id = account_id)
$$;

-- Returns an account's role in the console: admin, finance or null. The role finance opens only the platform's books.
-- Sets no search_path, so Postgres can inline the function.
create or replace function private.console_role(account_id uuid) returns text
  language sql stable security invoker
as $$
  select case
    when private.is_infrastructure_admin(account_id) then 'admin'
    when exists (select from private.finance_people f where f.user_id = account_id) then 'finance'
  end
$$;
