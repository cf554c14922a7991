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

-- Returns whether a change in the console may be made. The change names either actor, an infrastructure admin, or
-- serviceAccount, a service account of the platform with the scope, and serviceAccountScopes, the scopes of its token.
-- Changes that only a person may make ask private.is_infrastructure_admin instead.
create or replace function private.may_change_console(change jsonb, scope text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select case num_nonnulls(change ->> 'actor', change ->> 'serviceAccount')
    when 1 then private.is_infrastructure_admin((change ->> 'actor')::uuid)
      or coalesce(change -> 'serviceAccountScopes' ? scope, false)
        and private.service_account_may((change ->> 'serviceAccount')::uuid, scope)
    else false
  end
$$;

-- Returns whether a service account of the platform is in force and has the scope.
create or replace function private.service_account_may(account_id uuid, scope text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from private.live_service_accounts(account_id) s
    where s.workspace_id is null and scope = any (s.scopes)
  )
$$;

-- Returns whether a person must not gain from a change: its actor, or, if a service account makes it, the person who is
-- responsible for the service account, and everyone who added a credential of it, because they may hold the secret.
create or replace function private.is_responsible(change jsonb, person uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(person = (change ->> 'actor')::uuid, false)
    or exists (
      select
      from private.service_accounts s
      where s.id = (change ->> 'serviceAccount')::uuid
        and (s.created_by = person or exists (
          select
          from private.service_account_credentials c
          where c.service_account_id = s.id and c.created_by = person
        ))
    )
$$;
