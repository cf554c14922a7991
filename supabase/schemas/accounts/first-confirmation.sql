-- Anyone can sign up with anyone's email. When the email's owner first confirms it, the account starts over: everything
-- that was set or added before is removed.

-- When an account's email is first confirmed, removes metadata that the owner of the email did not write.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.clear_unproven_metadata() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if old.email_confirmed_at is null and new.email_confirmed_at is not null and private.may_be_unproven(new) then
    perform set_config('gatehouse.first_confirmation', new.id::text, true);
  end if;
  -- Supabase Auth may write back metadata that it read before the confirmation. The trigger therefore removes this
  -- metadata in every update of the account in this transaction.
  if current_setting('gatehouse.first_confirmation', true) = new.id::text then
    new.raw_user_meta_data := private.proven_metadata(new);
  end if;
  return new;
end
$$;

-- Returns whether an account may have been created by a person other than the email's owner. Used when the email is
-- confirmed.
create or replace function private.may_be_unproven(account auth.users) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(account.email, '') <> ''
    -- Excludes accounts created and confirmed in one transaction, by an administrator or by a provider that has
    -- verified the email.
    and not exists (select from public.profiles p where p.id = account.id and p.created_at = now())
    -- Excludes accounts created by an administrator's invitation. Auth sets the two times separately, so they may
    -- differ slightly.
    and (account.invited_at < account.created_at + interval '500 milliseconds') is not true
    -- Excludes accounts whose email was changed in this transaction, because they were in use before they got this
    -- email.
    and not exists (
      select from public.security_events e
      where e.user_id = account.id and e.kind = 'email_changed' and e.created_at = now()
    )
$$;

-- Returns whether an identity has the account's email and its provider has verified that email.
create or replace function private.is_proven_identity(identity auth.identities, account auth.users) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select identity.provider <> 'email'
    and identity.identity_data -> 'email_verified' = 'true'::jsonb
    and lower(identity.identity_data ->> 'email') = lower(account.email)
$$;

-- Returns the metadata for a newly confirmed account: the data of an identity whose provider verified the email, and
-- the fields that Supabase Auth writes itself.
create or replace function private.proven_metadata(account auth.users) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (
      select i.identity_data
      from auth.identities i
      where i.user_id = account.id and private.is_proven_identity(i, account)
      order by i.created_at desc
      limit 1
    ),
    '{}'
  ) || private.own_claims(account.raw_user_meta_data)
$$;

-- Returns the fields that Supabase Auth itself writes into metadata and into email identities.
create or replace function private.own_claims(data jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(jsonb_object_agg(m.key, m.value), '{}')
  from jsonb_each(case when jsonb_typeof(data) = 'object' then data else '{}' end) m
  where m.key in ('sub', 'email', 'email_verified', 'phone_verified')
$$;

-- Removes the sign-up's metadata from an email identity, so that the metadata does not survive the first confirmation.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.keep_own_claims() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  new.identity_data := private.own_claims(new.identity_data);
  return new;
end
$$;

-- Resets an account to the state of a new account when its email is confirmed for the first time. Removes everything
-- that was added earlier: sessions, passkeys, authenticators, unproven identities, a pending email change, app sessions
-- and keys. Resets the profile and replaces used workspaces. Removes the password only if someone had signed in to the
-- account before the confirmation.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.start_over() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  shown_name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  if current_setting('gatehouse.first_confirmation', true) is distinct from new.id::text then
    return null;
  end if;

  perform private.delete_auth_sessions(new.id);
  perform private.delete_auth_factor(new.id, f.id) from auth.mfa_factors f where f.user_id = new.id;
  perform private.delete_auth_passkey(c.id) from auth.webauthn_credentials c where c.user_id = new.id;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = new.id and i.provider <> 'email' and not private.is_proven_identity(i, new);
  if found then
    perform private.keep_email_identity(new);
  end if;
  delete from private.unconfirmed_additions a where a.user_id = new.id;
  delete from private.mfa_recovery_codes c where c.user_id = new.id;
  delete from private.account_vault_entries v where v.user_id = new.id;
  perform private.cancel_email_change(new.id);
  -- Removes the password if someone signed in before the confirmation, because the password may be another person's.
  -- Otherwise, keeps the password, because the owner may have chosen it.
  if old.last_sign_in_at is not null then
    perform private.remove_password(new.id);
  end if;
  perform private.end_apps_of_account(new.id);
  perform private.replace_workspaces(new.id);

  update public.profiles p
  set display_name = shown_name,
      avatar_url = case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end
  where p.id = new.id;
  update public.workspaces w
  set name = private.personal_workspace_name(shown_name)
  where w.personal_user_id = new.id;
  return null;
end
$$;

-- Closes the workspaces that have no other owner, removes the account from all other workspaces, revokes the keys that
-- it created, and creates a new personal workspace. Does nothing if the account has only its personal workspace and
-- never used it. For definers; not granted to any role.
create or replace function private.replace_workspaces(subject_id uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  left_behind uuid[];
begin
  -- Keeps the personal workspace if the account was never used and has no other workspace.
  if not exists (select from public.security_events e where e.user_id = subject_id)
    and not exists (select from ai.keys k where k.created_by = subject_id)
    and not exists (select from public.workspace_invitations i where i.invited_by = subject_id)
    and not exists (
      select
      from public.workspaces w
      where w.personal_user_id is distinct from subject_id
        and (
          w.created_by = subject_id
          or w.id in (select m.workspace_id from public.workspace_members m where m.user_id = subject_id)
        )
    ) then
    return;
  end if;
  -- Locks rows in the same order as private.delete_account.
  perform from public.workspace_members m where m.user_id = subject_id order by m.workspace_id for update;
  delete from public.workspace_invitations i where i.invited_by = subject_id and i.accepted_at is null;
  select coalesce(array_agg(w.id order by w.id), '{}')
  into left_behind
  from public.workspaces w
  join public.workspace_members m on m.workspace_id = w.id and m.user_id = subject_id
  where w.deleted_at is null and not exists (
    select
    from public.workspace_members other
    join public.workspace_roles r on r.id = other.role_id and r.is_owner
    where other.workspace_id = w.id and other.user_id <> subject_id
  );
  delete from public.workspace_invitations i where i.workspace_id = any (left_behind) and i.accepted_at is null;
  update public.workspaces w
  set deleted_at = now(), personal_user_id = null, name = 'Deleted workspace'
  where w.id = any (left_behind);
  update ai.keys k
  set revoked_at = now()
  where (k.workspace_id = any (left_behind) or k.created_by = subject_id) and k.revoked_at is null;
  delete from public.workspace_members m where m.user_id = subject_id;
  insert into public.workspaces (name, personal_user_id, created_by)
  values (private.personal_workspace_name('New user'), subject_id, subject_id);
end
$$;
