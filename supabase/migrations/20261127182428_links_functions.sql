-- Generated from supabase/schemas by npm run db:migration.

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.clear_unproven_metadata() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if old.email_confirmed_at is null and new.email_confirmed_at is not null and private.may_be_unproven(new) then
    perform set_config('gatehouse.first_confirmation', new.id::text, true);
  end if;
  -- Auth writes the metadata that it read before, in later statements of the transaction too.
  if current_setting('gatehouse.first_confirmation', true) = new.id::text then
    new.raw_user_meta_data := private.proven_metadata(new);
  end if;
  return new;
end
$$;

create or replace function private.may_be_unproven(account auth.users) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(account.email, '') <> ''
    -- Created and confirmed at once, by an administrator or by a provider that has verified the email.
    and not exists (select from public.profiles p where p.id = account.id and p.created_at = now())
    -- Created by an administrator's invitation. Auth reads its clock twice in that call.
    and (account.invited_at < account.created_at + interval '500 milliseconds') is not true
    -- In use before it got this email, which was confirmed as a change.
    and not exists (
      select from public.security_events e where e.user_id = account.id and e.kind = 'email_changed'
    )
$$;

create or replace function private.is_proven_identity(identity auth.identities, account auth.users) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select identity.provider <> 'email'
    and identity.identity_data -> 'email_verified' = 'true'::jsonb
    and lower(identity.identity_data ->> 'email') = lower(account.email)
$$;

create or replace function private.own_claims(data jsonb) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_object_agg(m.key, m.value), '{}')
  from jsonb_each(case when jsonb_typeof(data) = 'object' then data else '{}' end) m
  where m.key in ('sub', 'email', 'email_verified', 'phone_verified')
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.keep_own_claims() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  new.identity_data := private.own_claims(new.identity_data);
  return new;
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.start_over() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  shown_name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  if current_setting('gatehouse.first_confirmation', true) is distinct from new.id::text then
    return null;
  end if;

  delete from auth.sessions s where s.user_id = new.id;
  delete from auth.mfa_factors f where f.user_id = new.id;
  delete from auth.webauthn_credentials c where c.user_id = new.id;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = new.id and i.provider <> 'email' and not private.is_proven_identity(i, new);
  if found then
    perform private.keep_email_identity(new);
  end if;
  delete from private.unconfirmed_additions a where a.user_id = new.id;
  delete from private.mfa_recovery_codes c where c.user_id = new.id;
  delete from private.account_vault_entries v where v.user_id = new.id;
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

create or replace function private.replace_workspaces(subject_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  left_behind uuid[];
begin
  -- A workspace that is as it was made can stay.
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
  -- Rows are locked in the order of private.delete_account.
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

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_of_link(token_hash text, link_type text) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select u.email
  from auth.one_time_tokens t
  join auth.users u on u.id = t.user_id and u.deleted_at is null
  where t.token_hash = email_of_link.token_hash
    and t.token_type::text = case email_of_link.link_type
      when 'signup' then 'confirmation_token'
      when 'invite' then 'confirmation_token'
      when 'recovery' then 'recovery_token'
    end
$$;

-- Definer: the identity backend inserts users, and holds no grant on profiles or workspaces.
create or replace function private.create_profile_and_workspace() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  insert into public.profiles (id, display_name, avatar_url)
  values (new.id, name, case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end);

  insert into public.workspaces (name, personal_user_id, created_by)
  values (private.personal_workspace_name(name), new.id, new.id);
  return null;
end
$$;

create or replace function private.personal_workspace_name(display_name text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select left(display_name, 60) || '''s workspace'
$$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Anybody can sign up with anybody's email, also without our server.
create or replace trigger clear_unproven_metadata before update of email_confirmed_at, raw_user_meta_data on auth.users
  for each row
  when (
    (old.email_confirmed_at is null and new.email_confirmed_at is not null)
    or current_setting('gatehouse.first_confirmation', true) = new.id::text
  )
  execute function private.clear_unproven_metadata();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
create or replace trigger start_over after update of email_confirmed_at on auth.users
  for each row when (old.email_confirmed_at is null and new.email_confirmed_at is not null)
  execute function private.start_over();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.identities') is not null then
create or replace trigger keep_own_claims before insert or update of identity_data on auth.identities
  for each row when (new.provider = 'email')
  execute function private.keep_own_claims();
  end if;
end
$guard$;

-- Definer: sessions are Supabase Auth's, which the service role cannot read.
create or replace function private.require_password_replacement(subject_id uuid, target_id uuid) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  delete from private.password_replacements r
  where not exists (select from auth.sessions s where s.id = r.session_id);
  insert into private.password_replacements (session_id, user_id)
  select s.id, s.user_id
  from auth.sessions s
  where s.id = target_id and s.user_id = subject_id
  on conflict (session_id) do nothing
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.end_password_replacements() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if private.is_new_password(old.encrypted_password, new.encrypted_password) then
    delete from private.password_replacements r where r.user_id = new.id;
  end if;
  return null;
end
$$;

-- Definer: a session that has yet to prove its second factor, or whose account is closed, must still be told so, and
-- the identity backend's tables are not the caller's to read. It answers about the caller's own token alone.
create or replace function public.session_state() returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  claims jsonb := auth.jwt();
begin
  return coalesce((
    select jsonb_build_object(
      'alive', true,
      'sessionId', f.session_id,
      'notAfter', f.not_after,
      'aal', claims ->> 'aal',
      'user', jsonb_build_object(
        'id', f.user_id,
        'email', f.email,
        'displayName', p.display_name,
        'avatarUrl', p.avatar_url,
        'banned', f.banned,
        'deleted', f.deleted
      ),
      'hasVerifiedFactor', f.has_verified_factor,
      'policy', jsonb_build_object(
        'state', m.state,
        'required', m.state <> 'optional',
        'satisfied', not f.banned and not f.deleted and v.satisfied,
        'byApproval', v.satisfied and not v.alone
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral (
      select
        private.satisfies_required_mfa(
          f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second, s.now
        ),
        private.satisfies_required_mfa(
          f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, null, s.now
        )
      from (select floor(extract(epoch from now()))::bigint) as s (now)
    ) as v (satisfied, alone)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

create or replace function private.proven_metadata(account auth.users) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
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

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- The password changes through the API as well.
create or replace trigger end_password_replacements after update of encrypted_password on auth.users
  for each row when (old.encrypted_password is distinct from new.encrypted_password)
  execute function private.end_password_replacements();
  end if;
end
$guard$;

comment on function public.session_state() is
  'What must be fresh on every request, in one statement: { alive, sessionId, notAfter, aal, hasVerifiedFactor, '
  'mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned, deleted }, '
  'policy: { state, required, satisfied, byApproval } }, or { alive: false } once the session is over. '
  'state is optional, required, recovery_in_progress or malformed. byApproval: a mobile approval satisfies it and the '
  'session''s own proofs would not, so that a browser has to bring the approval''s cookie as well.';

comment on function private.clear_unproven_metadata() is
  'Begins the first confirmation of an email, and removes metadata that its owner did not write.';

comment on function private.email_of_link(text, text) is
  'The email of the account that a mailed link signs in to, or null. link_type: signup, invite or recovery. Does not use '
  'the link up, and does not check its age.';

comment on function private.end_password_replacements() is
  'Lifts the restriction of private.require_password_replacement once the password is another one.';

comment on function private.is_proven_identity(auth.identities, auth.users) is
  'Whether a provider has verified that the identity has the account''s email.';

comment on function private.keep_own_claims() is
  'Leaves out of an email identity what the sign-up sent as metadata: it would outlive the first confirmation.';

comment on function private.may_be_unproven(auth.users) is
  'Whether somebody other than the owner of its email may have made an account that was not confirmed yet.';

comment on function private.own_claims(jsonb) is
  'The members that Supabase Auth itself writes into metadata and into email identities.';

comment on function private.personal_workspace_name(text) is
  'What a personal workspace is called until its owner renames it. For definers; not granted to a role.';

comment on function private.proven_metadata(auth.users) is
  'Metadata of an account that was just confirmed: what a provider that verified the email says, and Auth''s own members.';

comment on function private.replace_workspaces(uuid) is
  'Closes the workspaces that an account alone owns, takes it out of the others, revokes the keys that it made, and gives it '
  'a new personal workspace; does nothing while its only workspace is as it was made. For definers; not granted to a role.';

comment on function private.require_password_replacement(uuid, uuid) is
  'Restricts a session to the replacement of its account''s password, until that is changed. Also '
  'removes the rows of sessions that have ended.';

comment on function private.start_over() is
  'Gives an account at the first confirmation of its email what a new account has, and removes what was added before: '
  'profile, sessions, passkeys, authenticators, identities that prove nothing, app sessions, workspaces and keys.';

grant execute on function private.email_of_link(text, text) to service_role;

grant execute on function private.require_password_replacement(uuid, uuid) to service_role;
