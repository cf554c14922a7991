-- Generated from supabase/schemas by npm run db:migration.

-- Unused since 0.1.0: only another function called it.
drop function private.clear_recovery_sent_at(uuid);

-- Every number of the abuse controls, and its reason. `address`: whoever comes from there. `pair`: one account from one
-- address. `account`: one account from anywhere. What happens when a bucket is empty:
--   refuse      429, with the time until the next attempt
--   challenge   a bot challenge is due; without one the attempt is slowed down, never refused
--   refuse_new  429, unless the attempt carries a bot challenge or the address is proven for this account
--   wait        no mail is sent, and the answer is the same
--   repeat      the same code was tried before: it is not tried again, and the answer is that of a wrong one
create or replace function private.attempt_limits()
  returns table (action text, scope text, attempts integer, per interval, when_empty text)
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  values
    -- An office behind one address signs in within minutes, some with typing errors; what succeeds is given back.
    ('password', 'address', 60, interval '10 minutes', 'refuse'),
    -- More than anybody needs to remember which password it was; 40 an hour at most afterwards.
    ('password', 'pair', 10, interval '15 minutes', 'refuse'),
    -- Many addresses at one account are an attack. The owner, who may come from anywhere, must still get in.
    ('password', 'account', 20, interval '1 hour', 'challenge'),
    -- Without a bot challenge something has to end it: NIST SP 800-63B allows 100 failures in a row.
    ('password', 'account_cap', 100, interval '1 hour', 'refuse_new'),

    ('code', 'address', 60, interval '10 minutes', 'refuse'),
    -- A code of six digits, of which three are right at any time: five guesses, then twenty an hour.
    ('code', 'pair', 5, interval '15 minutes', 'refuse'),
    -- Who is asked for a code knew the password. Stays below the backend's hook, whose refusal ends all sessions.
    ('code', 'account', 8, interval '15 minutes', 'refuse'),

    -- Mailed sign-in codes. Anybody can ask for one, so strangers must not be able to lock the owner out. The identity
    -- backend checks no bot challenge with a code, so nothing could let the owner past a cap for the account. It needs
    -- none: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    -- One code of one account. The identity backend would start a session for each concurrent request with it.
    ('redemption', 'account', 1, interval '1 hour', 'repeat'),

    -- Mails cost reputation. A class of thirty signs up in one lesson.
    ('mail', 'address', 30, interval '1 hour', 'refuse'),
    ('mail', 'pair', 5, interval '15 minutes', 'refuse'),
    ('mail', 'account', 10, interval '1 hour', 'challenge'),
    -- Nobody's mailbox is to be filled by others.
    ('mail', 'account_cap', 30, interval '1 hour', 'refuse_new'),
    ('sign_up', 'address', 30, interval '1 hour', 'refuse'),
    ('sign_up', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_up', 'account', 10, interval '1 hour', 'challenge'),
    ('sign_up', 'account_cap', 30, interval '1 hour', 'refuse_new'),

    -- One at a time of each kind: the identity backend notes a mail when its mail server has taken it, and a second
    -- request within those seconds would replace the link in the first mail.
    ('sign_up_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('confirmation_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('recovery_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('email_change_mail', 'account', 1, interval '30 seconds', 'wait'),

    -- Of one inviter, whatever the workspace: a team in one go, and never a mailing to strangers.
    ('invitation', 'account', 10, interval '10 minutes', 'refuse'),
    ('invitation', 'account_cap', 50, interval '1 day', 'refuse'),

    -- Nothing to guess here; this spares the identity backend.
    ('passkey', 'address', 60, interval '10 minutes', 'refuse'),
    -- Visits to providers, counted where they begin: none is given back when somebody returns.
    ('oauth', 'address', 120, interval '10 minutes', 'refuse'),
    -- Changes by somebody who is signed in: each hashes a password or sends a mail.
    ('credential', 'address', 60, interval '10 minutes', 'refuse'),
    ('credential', 'pair', 20, interval '1 hour', 'refuse'),

    -- Under a recovery override these hold in the place of the password's own by email: for the owner afresh, and for
    -- those who guess as before.
    ('override_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('override_password', 'account', 100, interval '1 hour', 'refuse'),

    -- Nobody guesses a secret of 256 bits: this spares the database. Only wrong ones count.
    ('app_secret', 'address', 60, interval '10 minutes', 'refuse'),
    -- Signing in to apps; each is a row that lives for a day.
    ('handoff', 'account', 120, interval '10 minutes', 'refuse'),

    -- At the identity backend itself, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this is empty: only under attack (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts that came in spite of a refusal: then the address is blocked.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.guard_email() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if new.deleted_at is null and exists (
    select from auth.identities i
    where i.user_id = new.id
      and coalesce(i.email, '') = lower(coalesce(new.email, ''))
      and (
        private.is_unconfirmed_identity(i.id)
        or (i.email <> '' and i.identity_data -> 'email_verified' is distinct from 'true'::jsonb)
      )
  ) and not exists (
    select from auth.identities i
    where i.user_id = new.id
      and i.email = lower(new.email)
      and (
        -- An address that both mailboxes or an administrator agreed to is the email identity's first.
        i.provider = 'email'
        or (i.identity_data -> 'email_verified' = 'true'::jsonb and not private.is_unconfirmed_identity(i.id))
      )
  ) then
    raise exception 'an unconfirmed identity cannot give its address to the account'
      using errcode = 'insufficient_privilege';
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
    -- In use before it got this email, which the same transaction confirms as a change.
    and not exists (
      select from public.security_events e
      where e.user_id = account.id and e.kind = 'email_changed' and e.created_at = now()
    )
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
  -- A new account's password may be its owner's. One that has signed in was somebody else's.
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

create or replace function private.account_of_link(token_hash text, link_type text) returns setof auth.users
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select u.*
  from auth.one_time_tokens t
  join auth.users u on u.id = t.user_id and u.deleted_at is null
  where t.token_hash = account_of_link.token_hash
    and t.token_type::text = case account_of_link.link_type
      when 'signup' then 'confirmation_token'
      when 'invite' then 'confirmation_token'
      when 'recovery' then 'recovery_token'
    end
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_of_link(token_hash text, link_type text) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select u.email from private.account_of_link(email_of_link.token_hash, email_of_link.link_type) u
$$;

-- Definer: as email_of_link.
create or replace function private.remove_unproven_password(token_hash text, link_type text) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  select private.remove_password(u.id)
  from private.account_of_link(remove_unproven_password.token_hash, remove_unproven_password.link_type) u
  where u.email_confirmed_at is null
    and u.encrypted_password <> ''
    -- Auth refuses older links (otp_expiry), so they confirm nothing.
    and case remove_unproven_password.link_type when 'recovery' then u.recovery_sent_at else u.confirmation_sent_at end
      > now() - interval '1 hour'
$$;

create or replace function private.forget_used_recovery() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  new.recovery_sent_at := null;
  return new;
end
$$;

-- Definer: the service role cannot change accounts of the identity backend.
create or replace function private.release_mint_lease(lease_id uuid) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  delete from private.mint_leases l where l.lease_id = release_mint_lease.lease_id
$$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Auth notes when it sent the newest reset link or sign-in code, and mails no other for minutes, also once it was used.
create or replace trigger forget_used_recovery before update of recovery_token on auth.users
  for each row when (old.recovery_token <> '' and new.recovery_token = '')
  execute function private.forget_used_recovery();
  end if;
end
$guard$;

comment on function private.guard_email() is
  'Refuses a change of an account''s email to the address of an unconfirmed identity, or to none where that has none: '
  'mails that reset the password would no longer reach the owner. Also refuses an address that no provider has verified: '
  'it may be somebody else''s, who would confirm it later.';

comment on function private.release_mint_lease(uuid) is
  'Gives a lease back; one that expired and is another''s now stays.';

comment on function private.start_over() is
  'Gives an account at the first confirmation of its email what a new account has, and removes what was added before: '
  'profile, sessions, passkeys, authenticators, identities that prove nothing, a pending change of email, app sessions, '
  'workspaces and keys; also the password if it was used.';

comment on function private.account_of_link(text, text) is
  'The account that a mailed link signs in to; no row for a used one. For definers; not granted to a role.';

comment on function private.forget_used_recovery() is
  'Lets Auth send the next reset link or sign-in code at once, after the last one was used or voided. Links that our server '
  'generates and uses delay no mail either.';

comment on function private.remove_unproven_password(text, text) is
  'Removes the password of an unconfirmed account before a mailed link confirms it: whoever signed up with the email could '
  'sign in the moment it is confirmed.';

grant execute on function private.remove_unproven_password(text, text) to service_role;
