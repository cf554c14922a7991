-- Lists, adds and removes infrastructure admins. Only the operator's command line can do this.

-- Grants or withdraws access to the console. Returns changed, unchanged or no_account. Only the operator's command line
-- calls this function, so admins cannot create other admins. Writes each change to the audit log without an actor.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.set_infrastructure_admin(account_email text, admin boolean, reason text) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
begin
  select * into account
  from auth.users u
  where lower(u.email) = lower(account_email) and u.deleted_at is null and not u.is_sso_user;
  if not found then
    return 'no_account';
  end if;
  if admin then
    insert into private.infrastructure_admins (user_id, reason) values (account.id, set_infrastructure_admin.reason)
    on conflict do nothing;
  else
    delete from private.infrastructure_admins a where a.user_id = account.id;
  end if;
  if not found then
    return 'unchanged';
  end if;
  insert into private.admin_audit_log (action, target_user_id, target, reason)
  values (
    case when admin then 'admin.grant' else 'admin.revoke' end, account.id, account.email,
    set_infrastructure_admin.reason
  );
  return 'changed';
end
$$;

-- Returns all infrastructure admins: [{ email, reason, createdAt, hasAuthenticator }]. An admin without an
-- authenticator cannot use the console.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_infrastructure_admins() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'email', u.email,
    'reason', a.reason,
    'createdAt', a.created_at,
    'hasAuthenticator', exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified')
  ) order by u.email), '[]')
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
$$;
