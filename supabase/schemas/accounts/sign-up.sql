-- Who may create an account. A trigger asks before every insert, so sign-ups by our pages, by identity providers, by
-- single sign-on and by direct calls of Supabase Auth have the same answer.

-- Returns whether everyone may create an account.
create or replace function private.is_sign_up_open() returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce((select s.sign_up = 'open' from private.platform_settings s), true)
$$;

-- Returns whether an email may create an account: if sign-up is open, if the console or a workspace has invited it, or if
-- it has an active recovery override that can create the account. A recovery uses its override up before it creates the
-- account, so a single-use one counts for 15 minutes longer. An account without an email needs open sign-up.
create or replace function private.sign_up_is_allowed(email text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.is_sign_up_open()
    or exists (
      select
      from private.account_invitations i
      where i.email = lower(sign_up_is_allowed.email) and i.revoked_at is null and i.expires_at > now()
    )
    or exists (
      select
      from public.workspace_invitations i
      join public.workspaces w on w.id = i.workspace_id and w.deleted_at is null
      where i.email = lower(sign_up_is_allowed.email) and i.accepted_at is null and i.expires_at > now()
        -- Otherwise a banned person could come back by an invitation of their own.
        and not exists (select from auth.users u where u.id = i.invited_by and u.banned_until > now())
    )
    or exists (
      select
      from private.recovery_overrides o
      where o.email = lower(sign_up_is_allowed.email) and o.recovery_email and o.revoked_at is null
        and o.expires_at > now()
        and (not o.single_use or o.used_at is null or o.used_at > now() - interval '15 minutes')
    )
$$;

-- Refuses an account whose email may not sign up. Supabase Auth then answers 500 and creates nothing.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.refuse_uninvited() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.sign_up_is_allowed(new.email) then
    raise exception 'sign-up is by invitation' using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;

-- Returns what the sign-up page shows: { open, email }. email is that of the open invitation with this id or, for a
-- workspace, with this hash of its token (SHA-256 in hexadecimal); null if there is none.
-- Definer: the service role may not read workspaces' invitations by their token.
create or replace function private.read_sign_up(invitation_id uuid default null, workspace_token_hash text default null)
  returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'open', private.is_sign_up_open(),
    'email', coalesce(
      (
        select i.email
        from private.account_invitations i
        where i.id = invitation_id and i.revoked_at is null and i.expires_at > now()
      ),
      (
        select i.email
        from public.workspace_invitations i
        join public.workspaces w on w.id = i.workspace_id and w.deleted_at is null
        where i.accepted_at is null and i.expires_at > now()
          and i.token_hash = case
            when workspace_token_hash ~ '^[0-9a-f]{64}$' then decode(workspace_token_hash, 'hex')
          end
      )
    )
  )
$$;

-- Marks the open invitation of an email as ended if it has expired, so that the email can be invited again. For definers;
-- not granted to any role.
create or replace function private.end_expired_invitation(of_email text) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.account_invitations i
  set revoked_at = now()
  where i.email = of_email and i.revoked_at is null and i.expires_at <= now()
$$;

-- Lets an import of users create the account of an email for an hour, even while sign-up is by invitation. Only the
-- operator's command line calls it. Does nothing if the email may sign up already.
-- Definer: the service role cannot write invitations.
create or replace function private.admit_imported_account(account_email text) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if private.sign_up_is_allowed(account_email) then
    return;
  end if;
  delete from private.account_invitations i
  where i.id = any (array(
    select e.id from private.account_invitations e
    where e.imported and e.expires_at < now()
    limit 100
    for update skip locked
  ));
  perform private.end_expired_invitation(lower(account_email));
  insert into private.account_invitations (email, reason, imported, expires_at)
  values (lower(account_email), 'Imported by the operator', true, now() + interval '1 hour')
  on conflict (email) where revoked_at is null do nothing;
end
$$;
