-- Lists, grants and withdraws the roles of the console. Only the operator's command line can do this.

-- Gives an account a role in the console, admin or finance, instead of any role that it has. Without a role, withdraws
-- the account's access. Returns changed, unchanged, no_account or deletion_scheduled (the account's deletion must be
-- canceled first). Only the operator's command line calls this function, so admins cannot create other admins. Writes
-- each change to the audit log without an actor.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.set_console_role(account_email text, role text, reason text) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  old_role text;
begin
  if role not in ('admin', 'finance') then
    raise exception 'unknown role %', role using errcode = 'invalid_parameter_value';
  end if;
  select * into account
  from auth.users u
  where lower(u.email) = lower(account_email) and u.deleted_at is null and not u.is_sso_user
  -- Otherwise, a deletion could be scheduled meanwhile.
  for no key update;
  if not found then
    return 'no_account';
  end if;
  -- One change at a time, so that an account never has two roles.
  perform pg_advisory_xact_lock(hashtextextended('console role ' || account.id, 0));
  old_role := private.console_role(account.id);
  if old_role is not distinct from role then
    return 'unchanged';
  end if;
  if role is not null and exists (select from private.account_deletions d where d.user_id = account.id) then
    return 'deletion_scheduled';
  end if;
  delete from private.infrastructure_admins a where a.user_id = account.id;
  delete from private.finance_people f where f.user_id = account.id;
  if role = 'admin' then
    insert into private.infrastructure_admins (user_id, reason) values (account.id, set_console_role.reason);
  elsif role = 'finance' then
    insert into private.finance_people (user_id, reason) values (account.id, set_console_role.reason);
  end if;
  insert into private.admin_audit_log (action, target_user_id, target, reason, created_at)
  select c.action, account.id, account.email, set_console_role.reason, clock_timestamp()
  from (values (1, old_role || '.revoke'), (2, role || '.grant')) as c (place, action)
  where c.action is not null
  order by c.place;
  return 'changed';
end
$$;

-- Returns everybody with a role in the console, by email: [{ email, role, reason, createdAt, hasAuthenticator }].
-- Without an authenticator, the console cannot be used.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_console_people() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'email', u.email,
    'role', p.role,
    'reason', p.reason,
    'createdAt', p.created_at,
    'hasAuthenticator', exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified')
  ) order by u.email), '[]')
  from (
    select a.user_id, 'admin' as role, a.reason, a.created_at from private.infrastructure_admins a
    union all
    select f.user_id, 'finance', f.reason, f.created_at from private.finance_people f
  ) p
  join auth.users u on u.id = p.user_id
$$;

-- Returns the platform's service accounts, by name, that a person may still use although their role was withdrawn: those
-- in force that they created, or that have a working credential which they added: [{ id, name }].
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.service_accounts_of_person(account_email text) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object('id', s.id, 'name', s.name) order by s.name, s.id), '[]')
  from private.service_accounts s
  where s.workspace_id is null and s.revoked_at is null and s.expires_at > now()
    and exists (
      select
      from private.service_account_holders(s) h
      join auth.users u on u.id = h
      where lower(u.email) = lower(account_email) and not u.is_sso_user
    )
$$;

-- Grants the role admin, or withdraws any role. Until 0.5.0: the command line of release 0.3.0 calls it.
create or replace function private.set_infrastructure_admin(account_email text, admin boolean, reason text) returns text
  language sql volatile security invoker set search_path = ''
as $$
  select private.set_console_role(account_email, case when admin then 'admin' end, reason)
$$;

-- Returns the infrastructure admins as list_console_people does. Until 0.5.0: the command line and the doctor of release
-- 0.3.0 call it.
create or replace function private.list_infrastructure_admins() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(p order by p ->> 'email'), '[]')
  from jsonb_array_elements(private.list_console_people()) as p
  where p ->> 'role' = 'admin'
$$;
