-- Service accounts: which of them may act, and how other tables refer to them.

-- Returns a service account that is in force, as at most one row, so that a query can join it. One of a deleted
-- workspace is not. Sets no search_path, so Postgres can inline the function.
create or replace function private.live_service_accounts(account_id uuid) returns setof private.service_accounts
  language sql stable security invoker
as $$
  select s.*
  from private.service_accounts s
  where s.id = account_id
    and s.enabled
    and s.revoked_at is null
    and s.expires_at > now()
    and (
      s.workspace_id is null
      or exists (select from public.workspaces w where w.id = s.workspace_id and w.deleted_at is null)
    )
$$;

-- Returns whether a service account has a right in a workspace: it belongs to the workspace, is in force, and has the
-- permission among its scopes. A token may have fewer scopes, which only the server's routes know.
create or replace function private.service_account_has_permission(
  account_id uuid, workspace_id uuid, permission public.workspace_permission
) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from private.live_service_accounts(account_id) s
    where s.workspace_id = service_account_has_permission.workspace_id and permission::text = any (s.scopes)
  )
$$;

-- Returns the id of an actor that is a person, or null for a service account. Columns that refer to accounts hold null
-- if a service account acted.
create or replace function private.person_or_null(actor_id uuid) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select case when not exists (select from private.service_accounts s where s.id = actor_id) then actor_id end
$$;

-- Returns the id of an actor that is a service account, or null for a person.
create or replace function private.service_account_or_null(actor_id uuid) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select s.id from private.service_accounts s where s.id = actor_id
$$;

-- Returns how a service account is shown where the names of people are: its name alone could be a person's. Null without
-- a name.
create or replace function private.service_account_label(name text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select 'Service account ' || name
$$;

-- Returns the display name of a person, or the label of a service account. Null if the actor is null or was deleted.
create or replace function private.actor_name(actor_id uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (select p.display_name from public.profiles p where p.id = actor_id),
    (select private.service_account_label(s.name) from private.service_accounts s where s.id = actor_id)
  )
$$;

-- Returns the people who may hold a secret of a service account: who created it, and who added its working credentials.
create or replace function private.service_account_holders(account private.service_accounts) returns setof uuid
  language sql stable security invoker set search_path = ''
as $$
  select (account).created_by where (account).created_by is not null
  union
  select c.created_by
  from private.service_account_credentials c
  where c.service_account_id = (account).id and c.created_by is not null
    and (c.expires_at is null or c.expires_at > now())
$$;
