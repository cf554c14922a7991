-- Functions of accounts: sign-in, sessions, MFA, recovery.

-- schemas/shared/updated-at.sql

create or replace function private.set_updated_at() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  new.updated_at := pg_catalog.now();
  return new;
end
$$;
comment on function private.set_updated_at() is
  'Keeps updated_at true whoever writes, so that callers need no grant on that column.';

-- schemas/auth-schema.sql

-- Every access token carries its user's metadata, which users write themselves: anybody who signs up with somebody's
-- address, before any confirmation. A token that is larger than this makes it fits no cookie of ours (6 KiB), and
-- requests with it are refused by most servers.
create or replace function private.limit_user_metadata() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'user metadata is larger than 2400 bytes' using errcode = 'check_violation';
end
$$;
comment on function private.limit_user_metadata() is
  'Refuses metadata that would make the user''s tokens too large for a browser''s cookies.';

create or replace function private.serialize_account_deletions() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  return null;
end
$$;
comment on function private.serialize_account_deletions() is
  'Two accounts may be named in each other''s rows, in workspaces that one of them has left, too: the second''s end waits '
  'for the first''s, before it holds any row that somebody else could wait for.';

create or replace function private.write_required_mfa_policy(account auth.users, changes jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  known jsonb := account.raw_app_meta_data -> 'platform_required_mfa';
  readable boolean := private.required_mfa_state(account.raw_app_meta_data) <> 'malformed';
  -- By the clock and not by the transaction's beginning: this one may have waited for the one before.
  second bigint := floor(extract(epoch from clock_timestamp()));
  written jsonb;
begin
  written := jsonb_build_object(
    'version', 1,
    -- Of a policy that nobody can read it is not known whether it was required, so it is.
    'required', case when readable then coalesce(known -> 'required', 'false') else 'true' end,
    'boundary', greatest(
      case when private.is_integer(known -> 'boundary') then (known -> 'boundary')::bigint end,
      second
    ),
    'primaryBoundary', case
      when private.is_integer(known -> 'primaryBoundary') then known -> 'primaryBoundary'
      else 'null'
    end,
    'recovery', case when readable then coalesce(known -> 'recovery', '"none"') else '"none"' end,
    'generation', coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) + 1
  );
  if changes ? 'signInAgain' then
    written := written || jsonb_build_object(
      'primaryBoundary', greatest((written ->> 'primaryBoundary')::bigint, second)
    );
  end if;
  written := written || (changes - 'signInAgain');

  perform set_config('gatehouse.required_mfa_writer', 'on', true);
  update auth.users u
  set raw_app_meta_data =
    coalesce(u.raw_app_meta_data, '{}') || jsonb_build_object('platform_required_mfa', written)
  where u.id = account.id;
  perform set_config('gatehouse.required_mfa_writer', 'off', true);
  return written;
end
$$;
comment on function private.write_required_mfa_policy(auth.users, jsonb) is
  'Writes an account''s policy and returns it: changes (required, recovery, signInAgain) over what stands, a generation '
  'further, at the boundary of this second, which only moves forward; signInAgain moves the boundary of primary methods '
  'too. For definers that hold the account''s row for update; granted to nobody.';

-- The API cannot check for remaining workspaces and delete the user in one transaction.
create or replace function private.delete_auth_user(subject_id uuid) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with deleted as (
    delete from auth.users u where u.id = subject_id returning u.id
  )
  select exists (select from deleted)
$$;
comment on function private.delete_auth_user(uuid) is
  'Deletes a user. False if there is none.';

-- Auth creates the user before our server can refuse the sign-up, and the API cannot delete only an unused user.
create or replace function private.delete_unused_auth_user(subject_id uuid, created_since timestamptz) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with deleted as (
    delete from auth.users u
    where u.id = subject_id and u.created_at >= created_since and u.last_sign_in_at is null
    returning u.id
  )
  select exists (select from deleted)
$$;
comment on function private.delete_unused_auth_user(uuid, timestamptz) is
  'Deletes a user created at or after a time that has never signed in. False if there is none.';

-- The API has no call to cancel a PKCE flow whose code was issued.
create or replace function private.delete_auth_flow(flow_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from auth.flow_state f where f.id = flow_id
$$;
comment on function private.delete_auth_flow(uuid) is
  'Deletes a PKCE flow, so that its code cannot be exchanged.';

-- Definer: the API signs a user out by an access token of that user. Refresh tokens and AMR claims are deleted with
-- the row.
create or replace function private.end_account_session(subject_id uuid, target_id uuid) returns boolean
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with ended as (
    delete from auth.sessions s where s.id = target_id and s.user_id = subject_id returning s.id
  )
  select exists (select from ended)
$$;
comment on function private.end_account_session(uuid, uuid) is
  'Ends one session of an account: true for the one caller who did. False where it was over, or is another account''s.';

-- The API signs a user out by an access token of that user, which our server does not have here.
create or replace function private.delete_auth_sessions(subject_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from auth.sessions s where s.user_id = subject_id
$$;
comment on function private.delete_auth_sessions(uuid) is
  'Ends every session of a user. Refresh tokens and AMR claims are deleted with the rows.';

-- The API always dates a minted session now.
create or replace function private.set_session_sign_in_time(target_id uuid, signed_in_at timestamptz) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update auth.mfa_amr_claims a set created_at = signed_in_at, updated_at = signed_in_at where a.session_id = target_id;
  -- Auth reads the session row, not its AMR claims, before it accepts a new password.
  update auth.sessions s set created_at = least(s.created_at, signed_in_at) where s.id = target_id
$$;
comment on function private.set_session_sign_in_time(uuid, timestamptz) is
  'Dates a minted session by the sign-in it was derived from. Tokens issued for it from now on carry that time.';

-- Auth notes a link that the admin API generates as a mail that was sent, and the API cannot undo that.
create or replace function private.clear_recovery_sent_at(subject_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update auth.users u set recovery_sent_at = null where u.id = subject_id and u.recovery_token = ''
$$;
comment on function private.clear_recovery_sent_at(uuid) is
  'Forgets when the last recovery link was generated, once it is used, so that it does not delay the next reset mail.';

-- The API has no call to add an email identity to an existing user.
create or replace function private.add_email_identity(account auth.users) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
  values (
    account.id::text,
    account.id,
    jsonb_build_object('sub', account.id, 'email', account.email, 'email_verified', true, 'phone_verified', false),
    'email',
    now(),
    now(),
    now()
  )
$$;
comment on function private.add_email_identity(auth.users) is
  'Gives a user the email identity that Auth creates at a sign-up by email.';

create or replace function private.remove_identity(target_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  owner_id uuid;
begin
  delete from auth.identities i where i.id = target_id returning i.user_id into owner_id;
  update auth.users u
  set raw_app_meta_data = coalesce(u.raw_app_meta_data, '{}') || (
        select jsonb_strip_nulls(jsonb_build_object(
          'provider', (array_agg(p.provider order by p.since))[1],
          'providers', coalesce(jsonb_agg(p.provider order by p.since), '[]')
        ))
        from (
          select i.provider, min(i.created_at) as since
          from auth.identities i where i.user_id = owner_id group by i.provider
        ) p
      ),
      updated_at = now()
  where u.id = owner_id;
end
$$;
comment on function private.remove_identity(uuid) is
  'Takes an identity off its account, with what application metadata says of it. For definers of this schema alone.';

-- The API does not check that another way to sign in remains, and cannot in the same transaction.
create or replace function private.delete_auth_passkey(passkey_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from auth.webauthn_credentials c where c.id = passkey_id
$$;
comment on function private.delete_auth_passkey(uuid) is
  'Deletes a passkey.';

-- The API does not check whether the account requires MFA, and cannot in the same transaction.
create or replace function private.delete_auth_factor(subject_id uuid, target_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- As Auth does: sessions that were raised by the factor go back to AAL1.
  delete from auth.mfa_amr_claims a
  where a.authentication_method = 'totp'
    and a.session_id in (select s.id from auth.sessions s where s.user_id = subject_id and s.factor_id = target_id);
  update auth.sessions s set aal = 'aal1', factor_id = null, updated_at = now()
  where s.user_id = subject_id and s.factor_id = target_id;
  delete from auth.mfa_factors f where f.id = target_id
$$;
comment on function private.delete_auth_factor(uuid, uuid) is
  'Deletes a TOTP factor.';

-- Definer: the API has no call to cancel a change. These are the columns that Supabase Auth clears when one is complete.
create or replace function private.cancel_email_change(subject_id uuid) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  update auth.users u
  set email_change = '',
      email_change_token_current = '',
      email_change_token_new = '',
      email_change_confirm_status = 0,
      updated_at = now()
  where u.id = subject_id and coalesce(u.email_change, '') <> '';
  if not found then
    return false;
  end if;
  delete from auth.one_time_tokens t
  where t.user_id = subject_id
    and t.token_type::text in ('email_change_token_current', 'email_change_token_new');
  return true;
end
$$;
comment on function private.cancel_email_change(uuid) is
  'Takes a pending change of address back: neither mail''s link works from now on. True for the one caller who did.';

-- schemas/accounts/new-account.sql

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
  values (left(name, 60) || '''s workspace', new.id, new.id);
  return null;
end
$$;
comment on function private.create_profile_and_workspace() is
  'Profile and personal free workspace, made with the user and undone with it when the sign-up fails.';

create or replace function private.default_display_name(metadata jsonb, email text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select name
  from (
    values
      (1, metadata ->> 'display_name'),
      (2, metadata ->> 'full_name'),
      (3, metadata ->> 'name'),
      (4, split_part(email, '@', 1)),
      (5, 'New user')
  ) as candidate (rank, raw)
  cross join lateral left(btrim(
    regexp_replace(raw, '[[:cntrl:]\u0080-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]+', ' ', 'g')
  ), 80) as name
  where name ~ '[^[:space:]\u00a0\u00ad\u115f\u1160\u200c\u200d\u2800\u3164\uffa0]'
  order by rank
  limit 1
$$;
comment on function private.default_display_name(jsonb, text) is
  'A name to show for someone who has chosen none yet. What users send of themselves is text, never trusted further.';

-- schemas/accounts/security-log.sql

-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  recorded public.security_events;
  owner_email text;
  first_sign_in boolean;
  known_place boolean;
begin
  select u.email into owner_email from auth.users u where u.id = (event ->> 'userId')::uuid and u.deleted_at is null;
  if not found then
    return null;
  end if;

  if event ->> 'kind' = 'sign_in' then
    select
      count(*) = 0,
      coalesce(bool_or(
        private.truncate_address(s.ip) is not distinct from private.truncate_address((event ->> 'ip')::inet)
        and s.device is not distinct from event ->> 'device'
      ), false)
    into first_sign_in, known_place
    from public.security_events s
    where s.user_id = (event ->> 'userId')::uuid and s.kind = 'sign_in';
  end if;

  insert into public.security_events (user_id, kind, method, session_id, ip, user_agent, device, details)
  values (
    (event ->> 'userId')::uuid,
    event ->> 'kind',
    event ->> 'method',
    (event ->> 'sessionId')::uuid,
    (event ->> 'ip')::inet,
    event ->> 'userAgent',
    event ->> 'device',
    coalesce(event -> 'details', '{}')
  )
  returning * into recorded;

  return jsonb_build_object(
    'id', recorded.id,
    'createdAt', recorded.created_at,
    'email', nullif(owner_email, ''),
    'newPlace', coalesce(not first_sign_in and not known_place, false)
  );
end
$$;
comment on function private.record_security_event(jsonb) is
  'Adds to an account''s log: { userId, kind, method, sessionId, ip, userAgent, device, details } → { id, createdAt, '
  'email, newPlace }, or null where there is no such account. newPlace: a sign-in with a device and address that no '
  'earlier one of this account had; never the first one.';

create or replace function private.truncate_address(address inet) returns inet
  language sql
  immutable
  security invoker
as $$
  -- A home or a phone changes the last half of its IPv6 address as it likes.
  select case when family(address) = 6 then network(set_masklen(address, 64))::inet else address end
$$;
comment on function private.truncate_address(inet) is
  'What stays of an address that one place keeps: IPv4 whole, IPv6 its /64.';

create or replace function private.notify_owner(event jsonb, mail jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  owner_email text := private.record_security_event(event) ->> 'email';
  kept_id uuid;
begin
  if owner_email is not null and jsonb_typeof(mail) = 'object' then
    insert into private.outgoing_mails (recipient, subject, body)
    values (owner_email, mail ->> 'subject', mail ->> 'body')
    returning id into kept_id;
  end if;
  return jsonb_build_object('mailId', kept_id, 'recipient', owner_email);
end
$$;
comment on function private.notify_owner(jsonb, jsonb) is
  'Adds to an account''s log (private.record_security_event) and keeps the mail { subject, body } that tells its owner, '
  'where there is one: { mailId, recipient }. For functions that change credentials, in their transaction: whoever loses '
  'their answer has told the owner all the same. The one who gets it tries the mail at once.';

-- schemas/accounts/outgoing-mails.sql

create or replace function private.claim_outgoing_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, attempts smallint)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with forgotten as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  )
  update private.outgoing_mails m
  -- 4 minutes, 16, 64, 256, then twice a day: the last attempt comes after some three days.
  set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
  where m.id in (
    select due.id
    from private.outgoing_mails due
    where due.next_attempt_at <= now() and due.attempts < 12 and due.created_at >= now() - interval '7 days'
    order by due.next_attempt_at
    limit max_mails
    for update skip locked
  )
  returning m.id, m.recipient, m.subject, m.body, m.attempts
$$;
comment on function private.claim_outgoing_mails(integer) is
  'Takes mails whose next attempt is due, each for one caller. After twelve attempts a mail is left as a record, for a week.';

-- schemas/accounts/email-change.sql

-- Definer: accounts are the identity backend's, which the service role cannot read.
create or replace function private.pending_email_change(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'email', u.email,
    'newEmail', u.email_change,
    'sentAt', u.email_change_sent_at,
    'agreed', case
      when u.email_change_confirm_status = 0 then null
      when u.email_change_token_current = '' then 'current'
      else 'new'
    end
  )
  from auth.users u
  where u.id = subject_id
    and coalesce(u.email_change, '') <> ''
    -- Another password voids the links, and leaves the rest.
    and exists (
      select from auth.one_time_tokens t
      where t.user_id = u.id
        and t.token_type::text in ('email_change_token_current', 'email_change_token_new')
    )
$$;
comment on function private.pending_email_change(uuid) is
  'The change of address that an account waits for: { email, newEmail, sentAt, agreed }, or null. agreed is the mailbox '
  'that has confirmed already: current, new, or null.';

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_change_of_link(token_hash text) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.pending_email_change(t.user_id) || jsonb_build_object(
    'userId', t.user_id,
    'mailbox', case t.token_type::text when 'email_change_token_current' then 'current' else 'new' end
  )
  from auth.one_time_tokens t
  where t.token_hash = email_change_of_link.token_hash
    and t.token_type::text in ('email_change_token_current', 'email_change_token_new')
$$;
comment on function private.email_change_of_link(text) is
  'The change that a link from a mail confirms, with the account''s userId and the mailbox that the link was sent to; '
  'null where the link is used, replaced or none of ours. The link was mailed to one of the two addresses.';

-- schemas/accounts/export.sql

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_proper(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'account', jsonb_build_object(
      'id', u.id,
      'email', u.email,
      'newEmail', nullif(u.email_change, ''),
      'phone', nullif(u.phone, ''),
      'createdAt', u.created_at,
      'emailConfirmedAt', u.email_confirmed_at,
      'lastSignInAt', u.last_sign_in_at,
      'bannedUntil', u.banned_until,
      'hasPassword', coalesce(u.encrypted_password, '') <> '',
      'userMetadata', u.raw_user_meta_data,
      'appMetadata', u.raw_app_meta_data
    ),
    'profile', (
      select jsonb_build_object('displayName', p.display_name, 'avatarUrl', p.avatar_url, 'createdAt', p.created_at)
      from public.profiles p where p.id = u.id
    ),
    'linkedAccounts', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
      ) order by i.created_at), '[]')
      from auth.identities i where i.user_id = u.id
    ),
    'authenticators', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
      ) order by f.created_at), '[]')
      from auth.mfa_factors f where f.user_id = u.id
    ),
    'recoveryCodes', (
      select coalesce(jsonb_agg(
        jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at) order by c.created_at, c.id
      ), '[]')
      from private.mfa_recovery_codes c where c.user_id = u.id
    ),
    'passkeys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id, 'name', c.friendly_name, 'createdAt', c.created_at, 'lastUsedAt', c.last_used_at
      ) order by c.created_at), '[]')
      from auth.webauthn_credentials c where c.user_id = u.id
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      ) order by s.created_at), '[]')
      from auth.sessions s where s.user_id = u.id
    ),
    'securityEvents', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent, 'details', e.details,
        'createdAt', e.created_at
      ) order by e.created_at), '[]')
      from public.security_events e where e.user_id = u.id
    ),
    'approvals', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      ) order by c.created_at), '[]')
      from private.login_challenges c where c.user_id = u.id
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from u.id,
        'joinedAt', m.created_at
      ) order by m.created_at), '[]')
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = u.id
    ),
    'invitations', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'workspaceId', n.workspace_id, 'email', n.email, 'sentByYou', n.invited_by is not distinct from u.id,
        'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      ) order by n.created_at), '[]')
      from public.workspace_invitations n
      where n.invited_by = u.id or n.accepted_by = u.id or n.email = lower(u.email)
    ),
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      ) order by k.created_at), '[]')
      from ai.keys k where k.created_by = u.id
    ),
    'credits', (
      select jsonb_build_object(
        'balance', a.balance::text,
        'ledger', (
          select coalesce(jsonb_agg(jsonb_build_object(
            'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
            'description', l.description, 'createdAt', l.created_at
          ) order by l.id), '[]')
          from ai.credit_ledger l where l.account_id = a.id
        )
      )
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
$$;
comment on function private.export_account_proper(uuid) is 'The account''s part of private.export_account.';

-- Definer: its first part is granted to nobody.
create or replace function private.export_account(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id) || jsonb_build_object(
    'appHandoffs', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      ) order by t.created_at), '[]')
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id
    ),
    'appSessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at, 'expiresAt', s.expires_at,
        'revokedAt', s.revoked_at
      ) order by s.created_at, s.audience), '[]')
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id
    ),
    'appTokens', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      ) order by t.created_at), '[]')
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id
    )
  )
$$;
comment on function private.export_account(uuid) is
  'Everything held about an account but its AI runs, without secrets, hashes or codes; null where there is no account.';

create or replace function private.export_account_runs(subject_id uuid, before jsonb default null, page_size integer default 500)
  returns setof jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', r.id, 'createdAt', r.created_at, 'workspaceId', r.workspace_id, 'appId', r.app_id, 'model', r.model_id,
    'feature', r.feature, 'requestId', r.request_id, 'status', r.status, 'inputTokens', r.input_tokens,
    'outputTokens', r.output_tokens, 'billedCredits', r.billed_credits::text,
    'costUsd', case when coalesce(p.provider_cost_visible, true) then r.cost_usd::text end
  )
  from ai.runs r
  left join ai.workspace_policies p on p.workspace_id = r.workspace_id
  where r.actor_id = subject_id
    and r.credential_source <> 'key'
    and (
      before is null
      or (r.created_at, r.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
    )
  order by r.created_at desc, r.id desc
  limit page_size
$$;
comment on function private.export_account_runs(uuid, jsonb, integer) is
  'The AI runs that a person made themselves, newest first, without prompts and answers. costUsd is null where the '
  'workspace''s policy hides what providers charge. before is the last row of the page before.';

-- schemas/accounts/deletion.sql

-- Definer: the service role may not delete from the identity backend's tables, and the check and the deletion must be
-- one transaction, which the backend's own API cannot give.
create or replace function private.delete_account(subject_id uuid, request_id text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  blockers jsonb;
begin
  -- As the deletion itself will, by private.serialize_account_deletions: before any row.
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  -- The account before all that hangs on it, as whoever changes its sessions, or what apps hold of it.
  perform from auth.users u where u.id = subject_id for update;
  -- Memberships and invitations before their workspaces, as who leaves, is given another role or accepts has them locked.
  perform from public.workspace_members m where m.user_id = subject_id order by m.workspace_id for update;
  perform
  from public.workspace_invitations i
  where subject_id in (i.invited_by, i.accepted_by)
  order by i.id
  for update;
  -- Nobody joins or leaves these workspaces between the question and the deletion.
  perform
  from public.workspaces w
  where w.id in (select m.workspace_id from public.workspace_members m where m.user_id = subject_id)
  order by w.id
  for update;

  select jsonb_agg(jsonb_build_object('workspaceId', b.workspace_id, 'name', b.name, 'members', b.members))
  into blockers
  from private.list_account_deletion_blockers(subject_id) b;
  if blockers is not null then
    return jsonb_build_object('deleted', false, 'blockers', blockers);
  end if;

  if not private.delete_auth_user(subject_id) then
    return jsonb_build_object('deleted', false, 'blockers', '[]'::jsonb);
  end if;
  insert into private.admin_audit_log (action, target, reason, request_id)
  values ('account.deleted', subject_id::text, 'Deleted by its owner', delete_account.request_id);
  return jsonb_build_object('deleted', true, 'blockers', '[]'::jsonb);
end
$$;
comment on function private.delete_account(uuid, text) is
  'Ends an account with everything that hangs on it, unless a workspace would be left without an owner: '
  '{ deleted, blockers: [{ workspaceId, name, members }] }. Runs, ledger, costs and invoices stay, by its id alone.';

create or replace function private.list_account_deletion_blockers(subject_id uuid)
  returns table (workspace_id uuid, name text, members integer)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name, (select count(*)::integer from public.workspace_members m where m.workspace_id = w.id)
  from public.workspace_members mine
  join public.workspace_roles r on r.id = mine.role_id and r.is_owner
  join public.workspaces w on w.id = mine.workspace_id and w.deleted_at is null
  where mine.user_id = subject_id
    and exists (
      select from public.workspace_members other
      where other.workspace_id = w.id and other.user_id <> subject_id
    )
    and not exists (
      select
      from public.workspace_members other
      join public.workspace_roles other_role on other_role.id = other.role_id
      where other.workspace_id = w.id and other.user_id <> subject_id and other_role.is_owner
    )
  order by w.name, w.id
$$;
comment on function private.list_account_deletion_blockers(uuid) is
  'Workspaces that others are in and that this account alone owns: each needs another owner before the account may go.';

-- schemas/sign-in/methods.sql

-- Definer: passwords, passkeys and identities are the identity backend's, which the service role cannot read.
create or replace function private.list_sign_in_methods(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'password', coalesce(u.encrypted_password, '') <> '' and u.email_confirmed_at is not null,
    'passkeys', (select count(*) from auth.webauthn_credentials c where c.user_id = u.id),
    'identities', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', i.id,
        'provider', i.provider,
        'email', i.email,
        'createdAt', i.created_at,
        'lastSignInAt', i.last_sign_in_at
      ) order by i.created_at, i.id), '[]')
      from auth.identities i
      where i.user_id = u.id
        and not exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
    )
  )
  from auth.users u
  where u.id = subject_id
$$;
comment on function private.list_sign_in_methods(uuid) is
  'How an account can be signed in to: { password, passkeys, identities: [{ id, provider, email, createdAt, '
  'lastSignInAt }] }, or null where there is no such account. Identities that nobody has confirmed are left out.';

-- Definer: identities are in Supabase Auth's tables. Its own call would refuse where one identity is left beside a
-- password or a passkey, allow where what is left does not work, and give the account another identity's address; and
-- between a count of ours and its deletion another one could be taken away.
create or replace function private.unlink_identity(subject_id uuid, target_id uuid, usable_providers text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target record;
  methods jsonb;
  remaining bigint;
begin
  -- One at a time for each account: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id for update;
  methods := private.list_sign_in_methods(subject_id);
  select m.id, m.provider, m.email
  into target
  from jsonb_to_recordset(methods -> 'identities') as m (id uuid, provider text, email text)
  where m.id = target_id;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if target.provider in ('email', 'phone') then
    return jsonb_build_object('outcome', 'not_unlinkable');
  end if;

  select (methods -> 'password' = 'true'::jsonb)::integer + (methods ->> 'passkeys')::bigint + count(*)
  into remaining
  from jsonb_to_recordset(methods -> 'identities') as m (id uuid, provider text)
  where m.id <> target.id and m.provider = any (usable_providers);
  if remaining = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;

  -- Else the backend gives the account another identity's address some day, or none.
  if account.email_confirmed_at is not null and not exists (
    select from auth.identities i where i.user_id = subject_id and i.provider = 'email'
  ) then
    perform private.add_email_identity(account);
  end if;
  perform private.remove_identity(target.id);
  return jsonb_build_object('outcome', 'unlinked', 'provider', target.provider, 'email', target.email);
end
$$;
comment on function private.unlink_identity(uuid, uuid, text[]) is
  'Takes an identity off an account: { outcome: unlinked, provider, email }, or outcome last_method where no way to '
  'sign in would be left, not_unlinkable for the email and phone of the account itself, not_found.';

-- schemas/sign-in/passkeys.sql

-- Definer: the identity backend's tables are not the service role's to read.
create or replace function private.list_passkeys(user_id uuid)
  returns table (id uuid, credential_id text, name text, created_at timestamptz, last_used_at timestamptz)
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select c.id, encode(c.credential_id, 'hex'), c.friendly_name, c.created_at, c.last_used_at
  from auth.webauthn_credentials c
  where c.user_id = list_passkeys.user_id
  order by c.created_at, c.id
$$;
comment on function private.list_passkeys(uuid) is
  'An account''s passkeys, oldest first, each with its credential id in hexadecimal. For our server, which knows the '
  'account from its session.';

-- Definer: the identity backend's tables are not the service role's to read.
create or replace function private.passkey_exists(credential_id text) returns boolean
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select exists (
    select from auth.webauthn_credentials c where c.credential_id = decode(passkey_exists.credential_id, 'hex')
  )
$$;
comment on function private.passkey_exists(text) is
  'Whether any account has this passkey, by its credential id in hexadecimal. The identity backend does not tell an '
  'unknown passkey from a wrong signature, and a browser that is told the wrong one deletes a passkey that works.';

-- Definer: passkeys are the identity backend's, which the service role cannot read. The backend's own call would leave
-- an account without any way in; and between a count of ours and its deletion another way could be taken away.
create or replace function private.delete_passkey(subject_id uuid, actor_session_id uuid, target_id uuid, usable_providers text[])
  returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  methods jsonb;
  remaining bigint;
begin
  -- One at a time for each account, as private.unlink_identity: the next one counts what this one left.
  perform from auth.users u where u.id = subject_id for update;
  if not exists (
    select from auth.webauthn_credentials c where c.id = target_id and c.user_id = subject_id
  ) then
    return 'not_found';
  end if;
  -- The backend's own rule: who has an authenticator has used it in this session.
  if exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) and not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return 'insufficient_aal';
  end if;

  methods := private.list_sign_in_methods(subject_id);
  select (methods -> 'password' = 'true'::jsonb)::integer + (methods ->> 'passkeys')::bigint - 1 + count(*)
  into remaining
  from jsonb_to_recordset(methods -> 'identities') as m (provider text)
  where m.provider = any (usable_providers);
  if remaining = 0 then
    return 'last_method';
  end if;
  perform private.delete_auth_passkey(target_id);
  return 'deleted';
end
$$;
comment on function private.delete_passkey(uuid, uuid, uuid, text[]) is
  'Takes a passkey from its account: deleted, or last_method where no way to sign in would be left, insufficient_aal '
  'where the session has yet to prove the account''s authenticator, not_found.';

-- schemas/sign-in/oauth.sql

create or replace function private.begin_oauth_attempt(attempt jsonb) returns timestamptz
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.oauth_attempts (state_hash, purpose, provider, user_id, session_id)
  values (
    decode(attempt ->> 'stateHash', 'hex'),
    attempt ->> 'purpose',
    attempt ->> 'provider',
    (attempt ->> 'userId')::uuid,
    (attempt ->> 'sessionId')::uuid
  )
  returning expires_at
$$;
comment on function private.begin_oauth_attempt(jsonb) is
  'Begins a visit to a provider: { stateHash (hex), purpose, provider, userId, sessionId }. Answers when it expires.';

-- Definer: flows and identities are the identity backend's, which the service role cannot read.
create or replace function private.inspect_oauth_attempt(attempt_hash text, code text, challenge text) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'flow', (
      select jsonb_build_object(
        'userId', u.id,
        'email', u.email,
        'closed', u.deleted_at is not null or coalesce(u.banned_until > now(), false),
        'linkedTo', f.linking_target_id,
        'identity', jsonb_build_object(
          'email', i.email,
          'issuer', i.identity_data ->> 'iss',
          'confirmed', not exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
        )
      )
      from auth.flow_state f
      join auth.users u on u.id = f.user_id
      -- The backend wrote the flow's end and its identity in one transaction: that names the very identity.
      join auth.identities i on i.user_id = f.user_id and i.provider = f.provider_type and i.xmin = f.xmin
      where f.auth_code = inspect_oauth_attempt.code
        and f.code_challenge = inspect_oauth_attempt.challenge
        and f.provider_type = a.provider
    )
  )
  from private.oauth_attempts a
  where a.state_hash = decode(attempt_hash, 'hex') and a.used_at is null and a.expires_at > now()
$$;
comment on function private.inspect_oauth_attempt(text, text, text) is
  'What came of a visit, before anything is done with it: { flow: { userId, email, closed, linkedTo, identity: { email, '
  'issuer, confirmed } } }; flow is null where the code is not good for it. Null once the attempt is used or too old.';

-- Definer: undoes what the identity backend did, which the service role may not.
create or replace function private.complete_oauth_attempt(attempt_hash text, code text, challenge text, verdict text) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  attempt private.oauth_attempts;
  flow record;
  identity record;
begin
  update private.oauth_attempts a
  set used_at = now()
  where a.state_hash = decode(attempt_hash, 'hex')
    and a.used_at is null
    and a.expires_at > now()
    and verdict = any (case a.purpose when 'link' then array['link', 'refuse'] else array['sign_in', 'refuse'] end)
  returning a.* into attempt;
  if not found then
    return false;
  end if;
  if verdict = 'sign_in' then
    return true;
  end if;

  select f.id, f.xmin as written_by, f.user_id, f.linking_target_id, f.provider_type, f.created_at
  into flow
  from auth.flow_state f
  where f.auth_code = code and f.code_challenge = challenge and f.provider_type = attempt.provider
  for update;
  if not found then
    return verdict = 'refuse';
  end if;
  select i.id, i.created_at >= flow.created_at or exists (
           select from private.unconfirmed_identities n where n.identity_id = i.id
         ) as may_go
  into identity
  from auth.identities i
  where i.user_id = flow.user_id and i.provider = flow.provider_type and i.xmin = flow.written_by;

  -- The code is good for nothing any more: a link needs no session, and what is refused gets none.
  perform private.delete_auth_flow(flow.id);

  if verdict = 'link' then
    if identity.id is null or flow.linking_target_id is distinct from attempt.user_id then
      return false;
    end if;
    delete from private.unconfirmed_identities n where n.identity_id = identity.id;
    return true;
  end if;

  if not private.delete_unused_auth_user(flow.user_id, flow.created_at) and identity.may_go then
    perform private.remove_identity(identity.id);
  end if;
  return true;
end
$$;
comment on function private.complete_oauth_attempt(text, text, text, text) is
  'Ends an attempt, once: true for the one caller who did. sign_in leaves the code to be exchanged; link confirms the '
  'identity and voids the code; refuse voids it, and takes away the account or the identity that it had just made.';

-- Definer: the identity backend inserts, and has no rights in private.
create or replace function private.record_unconfirmed_identity() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account record;
begin
  if new.provider in ('email', 'phone') or new.provider like 'sso:%' then
    return null;
  end if;
  select u.last_sign_in_at, u.email_confirmed_at, lower(u.email) as email
  into account
  from auth.users u
  where u.id = new.user_id;
  -- Who links has signed in; an account that nobody has signed in to is being made, or waits for its owner.
  if account.last_sign_in_at is null then
    return null;
  end if;
  if new.identity_data -> 'email_verified' = 'true'::jsonb and (
    (account.email_confirmed_at is not null and account.email = new.email)
    or exists (
      select from auth.identities i
      where i.user_id = new.user_id
        and i.id <> new.id
        and i.email = new.email
        and i.identity_data -> 'email_verified' = 'true'::jsonb
        and not exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
    )
  ) then
    return null;
  end if;
  insert into private.unconfirmed_identities (identity_id) values (new.id);
  return null;
end
$$;
comment on function private.record_unconfirmed_identity() is
  'Marks an identity that was added to an account in use, unless the account owns its verified address already: that '
  'is the rule by which the backend itself links on a sign-in.';

-- Definer: as complete_oauth_attempt.
create or replace function private.sweep_oauth_attempts() returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  delete from private.oauth_attempts a where a.expires_at < now();
  -- One step beyond the attempt's own lifetime, so that no link under way loses what it waits for.
  perform private.remove_identity(n.identity_id)
  from private.unconfirmed_identities n
  where n.created_at < now() - interval '15 minutes';
end
$$;
comment on function private.sweep_oauth_attempts() is
  'Forgets attempts that have expired, and takes off identities whose link nobody came back to finish.';

-- schemas/sign-in/login-challenges.sql

create or replace function private.begin_login_challenge(challenge jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  asked_kind constant text := challenge ->> 'kind';
  owner_id constant uuid := (challenge ->> 'userId')::uuid;
  asking_session_id constant uuid := (challenge ->> 'sessionId')::uuid;
  opens_at timestamptz;
  ends_at timestamptz;
begin
  -- One at a time for each account, so that the limit counts what is there.
  perform pg_advisory_xact_lock(hashtextextended('private.begin_login_challenge ' || owner_id, 0));
  select min(r.created_at) + interval '15 minutes'
  into opens_at
  from (
    select c.created_at
    from private.login_challenges c
    where c.user_id = owner_id
      and c.kind = asked_kind
      and c.created_at > now() - interval '15 minutes'
    order by c.created_at desc
    limit 20
  ) r
  having count(*) = 20;
  if found then
    return jsonb_build_object(
      'outcome', 'limited',
      'retryAfterSeconds', greatest(1, ceil(extract(epoch from opens_at - now())))::integer
    );
  end if;

  -- A browser waits for one answer of a kind: the one that it asked for last.
  update private.login_challenges c
  set expires_at = greatest(now(), c.created_at + interval '1 microsecond')
  where c.user_id = owner_id
    and c.session_id = asking_session_id
    and c.kind = asked_kind
    and c.status in ('created', 'approved')
    and c.expires_at > now();

  insert into private.login_challenges as c
    (id, kind, user_id, session_id, secret_hash, pair_code_hash, request_metadata, expires_at)
  values (
    (challenge ->> 'id')::uuid,
    asked_kind,
    owner_id,
    asking_session_id,
    (challenge ->> 'secretHash')::bytea,
    (challenge ->> 'pairCodeHash')::bytea,
    challenge -> 'metadata',
    now() + case asked_kind when 'qr' then interval '2 minutes' else interval '5 minutes' end
  )
  returning c.expires_at into ends_at;
  return jsonb_build_object('outcome', 'begun', 'expiresAt', ends_at);
end
$$;
comment on function private.begin_login_challenge(jsonb) is
  'Begins a challenge: { id, kind, userId, sessionId, secretHash, pairCodeHash?, metadata }. Answers { outcome: begun, '
  'expiresAt }, or { outcome: limited, retryAfterSeconds } after 20 of a kind in 15 minutes. What the same session '
  'waited for before expires.';

create or replace function private.login_challenge_state(challenge private.login_challenges) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when challenge.status in ('consumed', 'bound', 'rejected', 'locked') then challenge.status
    -- Whoever claimed it is about to answer; one that never will leaves nothing to wait for.
    when challenge.status = 'consuming'
      then case when challenge.lease_expires_at > now() then 'approved' else 'expired' end
    when challenge.expires_at <= now() then 'expired'
    else challenge.status
  end
$$;
comment on function private.login_challenge_state(private.login_challenges) is
  'How a challenge looks from outside: created, approved, consumed, bound, rejected, locked or expired.';

create or replace function private.read_login_challenge(challenge jsonb) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce((
    select case
      when c.session_id <> (challenge ->> 'sessionId')::uuid then jsonb_build_object('outcome', 'forbidden')
      else jsonb_build_object(
        'outcome', 'known',
        'status', private.login_challenge_state(c),
        'expiresAt', c.expires_at,
        'validUntil', c.valid_until
      )
    end
    from private.login_challenges c
    where c.id = case when pg_input_is_valid(challenge ->> 'id', 'uuid') then (challenge ->> 'id')::uuid end
      and c.kind = challenge ->> 'kind'
      and c.secret_hash = (challenge ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;
comment on function private.read_login_challenge(jsonb) is
  'How a challenge stands, to the session that began it: { id, kind, secretHash, sessionId } → { outcome: known, status, '
  'expiresAt, validUntil }, or outcome not_found (id or secret wrong) or forbidden (another session''s).';

create or replace function private.mfa_claims(claims jsonb) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'sub', claims -> 'sub', 'session_id', claims -> 'session_id', 'aal', claims -> 'aal', 'amr', claims -> 'amr'
  )
$$;
comment on function private.mfa_claims(jsonb) is
  'The claims that the rule of required MFA reads, and nothing else of a token: what a challenge keeps of its approver.';

create or replace function private.sweep_login_challenges() returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer;
begin
  -- One sweeper at a time; the others find nothing to do.
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_login_challenges', 0)) then
    return 0;
  end if;
  delete from private.login_challenges c
  where c.expires_at < now() - interval '1 hour' and (c.valid_until is null or c.valid_until < now());
  get diagnostics swept = row_count;
  return swept;
end
$$;
comment on function private.sweep_login_challenges() is
  'Forgets challenges an hour after their end, and bound approvals once they are no longer valid; returns how many.';

-- schemas/sign-in/qr-handoff.sql

-- Definer: asks the identity backend's tables whether the approver's session satisfies its account.
create or replace function private.decide_qr_challenge(decision jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  claims constant jsonb := private.mfa_claims(decision -> 'claims');
  approved constant boolean := (decision ->> 'approve')::boolean;
  challenge private.login_challenges;
  state text;
begin
  select c.* into challenge
  from private.login_challenges c
  where c.id = private.uuid_or_null(decision ->> 'id')
    and c.kind = 'qr'
    and c.secret_hash = (decision ->> 'secretHash')::bytea
  for update;
  if not found then
    return 'not_found';
  end if;
  if challenge.user_id <> (claims ->> 'sub')::uuid or challenge.session_id = (claims ->> 'session_id')::uuid then
    return 'forbidden';
  end if;
  if not private.session_satisfies_mfa(claims) then
    return 'mfa_required';
  end if;
  state := private.login_challenge_state(challenge);
  if state <> 'created' then
    return case state when 'expired' then 'expired' else 'conflict' end;
  end if;

  update private.login_challenges c
  set status = case when approved then 'approved' else 'rejected' end,
      approved_at = case when approved then now() end,
      approver_session_id = (claims ->> 'session_id')::uuid,
      approval_metadata = jsonb_build_object('device', decision -> 'device', 'claims', claims)
  where c.id = challenge.id;
  return case when approved then 'approved' else 'rejected' end;
end
$$;
comment on function private.decide_qr_challenge(jsonb) is
  'The phone''s answer: { id, secretHash, claims, approve, device } → approved, rejected, not_found, forbidden (not the '
  'account that asked, or the very session that did), mfa_required, expired or conflict (it was answered already).';

-- Definer: as decide_qr_challenge.
create or replace function private.claim_qr_challenge(claim jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  claims constant jsonb := claim -> 'claims';
  challenge private.login_challenges;
begin
  select c.* into challenge
  from private.login_challenges c
  where c.id = private.uuid_or_null(claim ->> 'id')
    and c.kind = 'qr'
    and c.secret_hash = (claim ->> 'secretHash')::bytea
    and c.session_id = (claims ->> 'session_id')::uuid
    and c.user_id = (claims ->> 'sub')::uuid
  for update;
  if not found then
    return 'not_found';
  end if;
  if challenge.status <> 'approved' or challenge.expires_at <= now() then
    return private.login_challenge_state(challenge);
  end if;
  if not private.session_satisfies_mfa(claims) then
    return 'mfa_required';
  end if;
  if not private.session_satisfies_mfa(challenge.approval_metadata -> 'claims') then
    update private.login_challenges c set status = 'rejected' where c.id = challenge.id;
    return 'rejected';
  end if;
  update private.login_challenges c
  set status = 'consuming', lease_expires_at = now() + interval '30 seconds'
  where c.id = challenge.id;
  return 'claimed';
end
$$;
comment on function private.claim_qr_challenge(jsonb) is
  'Claims an approved challenge for its asking session: { id, secretHash, claims } → claimed for one caller, who has 30 '
  's, else the state as others see it, mfa_required or not_found. Rejected for good where the approver has been signed '
  'out or no longer satisfies the account.';

create or replace function private.release_qr_challenge(challenge_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update private.login_challenges c
  set status = 'approved', lease_expires_at = null
  where c.id = challenge_id and c.kind = 'qr' and c.status = 'consuming'
$$;
comment on function private.release_qr_challenge(uuid) is
  'Back to approved, by who claimed it and knows that nothing was minted.';

-- Definer: sessions and their proofs are the identity backend's, which the service role cannot write.
create or replace function private.complete_qr_challenge(completion jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  minted constant uuid := (completion ->> 'mintedSessionId')::uuid;
  challenge private.login_challenges;
  approver jsonb;
  signed_in_at timestamptz;
begin
  perform private.lock_accounts(array(
    select c.user_id from private.login_challenges c where c.id = (completion ->> 'id')::uuid
  ));
  select c.* into challenge
  from private.login_challenges c
  where c.id = (completion ->> 'id')::uuid and c.kind = 'qr' and c.status = 'consuming' and c.lease_expires_at > now()
  for update;
  if not found then
    return 'expired';
  end if;
  approver := challenge.approval_metadata -> 'claims';
  if not (
    private.session_satisfies_mfa(completion -> 'claims')
    and (completion -> 'claims' ->> 'session_id')::uuid = challenge.session_id
    and private.session_satisfies_mfa(approver)
    and exists (select from auth.sessions s where s.id = minted and s.user_id = challenge.user_id)
  ) then
    update private.login_challenges c set status = 'rejected' where c.id = challenge.id;
    return 'rejected';
  end if;

  -- Nobody has signed in here: the session is as old as the approver's own sign-in, for boundaries and for step-up, in
  -- every token that the backend issues for it from now on.
  signed_in_at := to_timestamp(coalesce(private.latest_amr_second(approver -> 'amr', private.primary_methods()), 0));
  perform private.set_session_sign_in_time(minted, signed_in_at);
  update private.login_challenges c set status = 'consumed', consumed_at = now() where c.id = challenge.id;
  return 'consumed';
end
$$;
comment on function private.complete_qr_challenge(jsonb) is
  'Ends a claim with the session that was minted for it: { id, claims, mintedSessionId } → consumed, and the session has '
  'the approver''s sign-in time; else expired or rejected, and the session must not reach the browser.';

-- schemas/sign-in/mint-leases.sql

-- Definer: accounts and their emails are the identity backend's, which the service role cannot read.
create or replace function private.take_mint_lease(subject_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account_email text;
  taken uuid;
begin
  select coalesce(u.email, '') into account_email from auth.users u where u.id = subject_id and u.deleted_at is null;
  if not found then
    return jsonb_build_object('outcome', 'no_account');
  end if;
  if account_email = '' then
    return jsonb_build_object('outcome', 'no_email');
  end if;
  insert into private.mint_leases as l (user_id, expires_at)
  values (subject_id, now() + interval '20 seconds')
  on conflict (user_id) do update
    set lease_id = excluded.lease_id, expires_at = excluded.expires_at
    where l.expires_at <= now()
  returning l.lease_id into taken;
  if taken is null then
    return jsonb_build_object('outcome', 'busy');
  end if;
  return jsonb_build_object('outcome', 'taken', 'leaseId', taken, 'email', account_email);
end
$$;
comment on function private.take_mint_lease(uuid) is
  '{ outcome: taken, leaseId, email } to one caller at a time, who holds it for 20 s, longer than link and verification '
  'may take together; or outcome busy, no_account, no_email. The email is the account''s own, so that no unknown one '
  'reaches the generation of a link, which would make an account of it.';

-- Definer: the service role cannot change accounts of the identity backend.
create or replace function private.release_mint_lease(lease_id uuid) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with released as (
    delete from private.mint_leases l where l.lease_id = release_mint_lease.lease_id returning l.user_id
  )
  select private.clear_recovery_sent_at(r.user_id) from released r
$$;
comment on function private.release_mint_lease(uuid) is
  'Gives a lease back; one that expired and is another''s now stays. The backend notes a generated link as a mail that '
  'was sent. That is undone once the link is used, so that it does not hold up the next reset mail.';

-- schemas/abuse/limits.sql

-- Every number of the abuse controls, and its reason. `address`: whoever comes from there. `pair`: one account from one
-- address. `account`: one account from anywhere. What happens when a bucket is empty:
--   refuse      429, with the time until the next attempt
--   challenge   a bot challenge is due; without one the attempt is slowed down, never refused
--   refuse_new  429, unless the attempt carries a bot challenge or the address is proven for this account
--   wait        no mail is sent, and the answer is the same
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
comment on function private.attempt_limits() is 'The limits on attempts: attempts per window, and what then.';

create or replace function private.attempt_digest(kind text, subject text) returns bytea
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select extensions.hmac(convert_to(kind || ':' || subject, 'UTF8'), s.secret, 'sha256') from private.attempt_secrets s
$$;
comment on function private.attempt_digest(text, text) is 'The keyed digest under which something is counted.';

create or replace function private.attempt_buckets(of_action text, account text, network cidr)
  returns table (scope text, subject bytea, step interval, per interval, when_empty text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    l.scope,
    private.attempt_digest(
      l.action || '/' || l.scope,
      case
        when l.scope = 'address' then network::text
        when l.scope = 'pair' then network::text || ' ' || account
        else account
      end
    ),
    l.per / l.attempts,
    l.per,
    l.when_empty
  from private.attempt_limits() l
  where l.action = of_action
    and (l.scope = 'address' or account is not null)
    and (l.scope not in ('address', 'pair') or network is not null)
$$;
comment on function private.attempt_buckets(text, text, cidr) is
  'The buckets that an attempt takes from. Those that lack their account or address are left out.';

create or replace function private.consume_attempt(bucket bytea, of_action text, of_scope text, step interval, per interval)
  returns interval
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  wait interval;
begin
  -- One statement: whoever comes at the same moment waits for this row, and then sees what was taken.
  insert into private.rate_limits as r (subject, action, scope, full_at)
  values (bucket, of_action, of_scope, now() + step)
  on conflict (subject) do update
    set full_at = greatest(r.full_at, now()) + step
    where greatest(r.full_at, now()) + step <= now() + per;
  if found then
    return null;
  end if;
  -- The row stays locked, though nothing was taken.
  select r.full_at + step - per - now() into strict wait from private.rate_limits r where r.subject = bucket;
  return wait;
end
$$;
comment on function private.consume_attempt(bytea, text, text, interval, interval) is
  'Takes one attempt from a bucket: null, or how long until there is one. An empty bucket is left as it was.';

create or replace function private.refund_attempts(buckets bytea[]) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform from private.rate_limits r where r.subject = any (buckets) order by r.subject for update;
  update private.rate_limits r
  set full_at = r.full_at - l.per / l.attempts
  from private.attempt_limits() l
  where r.subject = any (buckets) and l.action = r.action and l.scope = r.scope;
end
$$;
comment on function private.refund_attempts(bytea[]) is 'Puts one attempt back into each bucket.';

create or replace function private.is_bucket_empty(bucket bytea, step interval, per interval) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select from private.rate_limits r where r.subject = bucket and r.full_at + step > now() + per
  )
$$;
comment on function private.is_bucket_empty(bytea, interval, interval) is
  'Whether nothing could be taken from a bucket at this moment.';

create or replace function private.attempt_pair(account text, network cidr) returns bytea
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.attempt_digest('pair', network::text || ' ' || account)
$$;
comment on function private.attempt_pair(text, cidr) is
  'One account from one address, as a digest. The account is `email:…` in lower case, or `user:…` with its id.';

create or replace function private.address_network(address inet) returns cidr
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case
    when family(address) = 4 then network(set_masklen(address, 32))
    when address << inet '::ffff:0.0.0.0/96'
      then network(set_masklen(inet '0.0.0.0' + (set_masklen(address, 128) - inet '::ffff:0.0.0.0'), 32))
    else network(set_masklen(address, 64))
  end
$$;
comment on function private.address_network(inet) is
  'What counts as one visitor: an IPv4 address, or the /64 of an IPv6 one, which is what one household or server gets.';

create or replace function private.block_duration(level integer) returns interval
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case level
    when 1 then interval '15 minutes'
    when 2 then interval '1 hour'
    when 3 then interval '6 hours'
    else interval '24 hours'
  end
$$;
comment on function private.block_duration(integer) is
  'How long an address is blocked: long enough to make guessing pointless, short enough for whoever gets it next.';

create or replace function private.count_failure(of_action text, network cidr) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  bucket record;
  next_level integer;
begin
  select * into strict bucket from private.attempt_buckets('failure', null, network);
  if private.consume_attempt(bucket.subject, 'failure', bucket.scope, bucket.step, bucket.per) is null then
    return;
  end if;
  -- The row is ours until the end: of those who fail at the same moment one blocks, and the others begin to count anew.
  delete from private.rate_limits r where r.subject = bucket.subject;
  select coalesce(max(b.level), 0) + 1 into next_level
  from private.address_blocks b
  where b.address = network and b.lifted_at is null and b.blocked_until > now() - interval '7 days';
  insert into private.address_blocks (address, action, level, blocked_until)
  values (network, of_action, next_level, now() + private.block_duration(next_level));
end
$$;
comment on function private.count_failure(text, cidr) is
  'Counts a failure against an address, and blocks it where there were too many: longer each time within a week.';

-- schemas/abuse/attempts.sql

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create or replace function private.begin_attempt(attempt jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  of_action text := attempt ->> 'action';
  network cidr := private.address_network((attempt ->> 'address')::inet);
  account text := case
    when attempt ->> 'email' is not null then 'email:' || lower(attempt ->> 'email')
    when attempt ->> 'userId' is not null then 'user:' || (attempt ->> 'userId')::uuid
  end;
  challenged boolean := coalesce((attempt ->> 'challenged')::boolean, false);
  overridden boolean := coalesce((attempt ->> 'overridden')::boolean, false);
  mail text := attempt ->> 'mail';
  mail_wait interval;
  account_pair bytea := private.attempt_pair(account, network);
  blocked_for interval;
  proven boolean;
  bucket record;
  wait interval;
  longest interval;
  charged bytea[] := '{}';
  challenge_due boolean := false;
  new_id uuid;
begin
  if of_action is null or of_action not in (
    'password', 'code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff'
  ) then
    raise exception 'there is no such action' using errcode = 'invalid_parameter_value';
  end if;
  if mail not in ('sign_up_mail', 'confirmation_mail', 'recovery_mail', 'email_change_mail') then
    raise exception 'there is no such mail' using errcode = 'invalid_parameter_value';
  end if;
  if network is null then
    raise exception 'an attempt comes from an address' using errcode = 'null_value_not_allowed';
  end if;
  select max(b.blocked_until) - now() into blocked_for
  from private.address_blocks b
  where b.address = network and b.blocked_until > now() and b.lifted_at is null;
  if blocked_for is not null then
    return private.attempt_refusal('blocked', blocked_for);
  end if;

  proven := exists (select from private.verified_addresses p where p.pair = account_pair and p.verified_until > now());
  if mail is not null then
    mail_wait := private.mail_wait(mail, lower(attempt ->> 'email'), (attempt ->> 'userId')::uuid);
  end if;
  -- In one order for everybody, so that no two wait for each other.
  for bucket in
    select of_action as action, b.*
    from private.attempt_buckets(of_action, account, network) b
    where not overridden or b.scope = 'address'
    union all
    select 'override_password', b.*
    from private.attempt_buckets('override_password', account, network) b
    where overridden
    union all
    select mail, b.*
    from private.attempt_buckets(mail, account, null) b
    where mail_wait is null
    order by subject
  loop
    continue when bucket.when_empty = 'challenge' and proven;
    continue when bucket.when_empty = 'refuse_new' and (proven or challenged);
    wait := private.consume_attempt(bucket.subject, bucket.action, bucket.scope, bucket.step, bucket.per);
    if wait is null then
      charged := charged || bucket.subject;
    elsif bucket.when_empty = 'challenge' then
      challenge_due := not challenged;
    elsif bucket.when_empty = 'wait' then
      mail_wait := wait;
    else
      longest := greatest(longest, wait);
    end if;
  end loop;
  if longest is not null then
    perform private.refund_attempts(charged);
    perform private.count_failure(of_action, network);
    return private.attempt_refusal('limited', longest);
  end if;

  insert into private.open_attempts (action, address, pair, charged, password_checks)
  values (
    of_action, network, account_pair, charged,
    -- Under an override the sign-in is made again once what blocked it is lifted.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;
comment on function private.begin_attempt(jsonb) is
  'Counts an attempt before it is made: { action, address, email | userId, challenged, overridden, mail } gives { '
  'allowed, attemptId, needsBotChallenge, mailWaitSeconds, mailPauseSeconds } or { allowed: false, reason: limited | '
  'blocked, retryAfterSeconds }. Whoever gets no answer must not try. challenged: the attempt carries a bot challenge''s '
  'token, which the identity backend checks first. overridden: a recovery override lets the email past its own limits, '
  'to those of override_password; those of the address hold. mail: the kind of mail that the attempt sends. Where '
  'mailWaitSeconds is not null, it must not be sent: another one is on its way, or its link is too young to be replaced.';

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create or replace function private.complete_attempt(attempt_id uuid, outcome text) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  settled private.open_attempts;
begin
  if outcome is null or outcome not in ('succeeded', 'failed', 'void') then
    raise exception 'an attempt is succeeded, failed or void' using errcode = 'invalid_parameter_value';
  end if;
  -- Who deletes the row settles: once, however many try.
  delete from private.open_attempts o where o.id = attempt_id and o.expires_at > now() returning * into settled;
  if not found then
    return false;
  end if;
  if outcome = 'void' then
    perform private.refund_attempts(settled.charged);
  elsif outcome = 'failed' then
    perform private.count_failure(settled.action, settled.address);
  elsif settled.action in ('password', 'code', 'passkey') then
    -- One each, and not the address's whole count: who has an account would else guess at others between sign-ins.
    perform private.refund_attempts(settled.charged);
    delete from private.rate_limits r where r.subject = any (settled.charged) and r.scope = 'pair';
    if settled.pair is not null then
      perform private.record_verified_address(settled.pair);
    end if;
  end if;
  return true;
end
$$;
comment on function private.complete_attempt(uuid, text) is
  'Says what became of an attempt. succeeded: it is given back, and the account''s failures from this address are '
  'forgotten; what costs a mail or a hash stays counted. failed: it counts against the address. void: it was never '
  'made, and is given back. False where it was settled already or is too old.';

create or replace function private.attempt_refusal(reason text, wait interval) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'allowed', false,
    'reason', reason,
    'retryAfterSeconds', greatest(1, ceil(extract(epoch from wait)))::integer
  )
$$;
comment on function private.attempt_refusal(text, interval) is 'How begin_attempt says no, and for how many seconds.';

create or replace function private.mail_pause() returns interval
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select interval '3 minutes'
$$;
comment on function private.mail_pause() is
  'How long the link in a mail is safe from being replaced by that of another mail of its kind: long enough to receive, '
  'open and use it. The same as max_frequency in supabase/config.toml.';

create or replace function private.mail_wait(kind text, of_email text, of_user uuid) returns interval
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select sent.at + private.mail_pause() - now()
  from auth.users u
  cross join lateral (
    select case kind
      when 'recovery_mail' then u.recovery_sent_at
      when 'email_change_mail' then u.email_change_sent_at
      else u.confirmation_sent_at
    end as at
  ) sent
  where (u.email = of_email and not u.is_sso_user or u.id = of_user) and sent.at > now() - private.mail_pause()
$$;
comment on function private.mail_wait(text, text, uuid) is
  'How long an account''s newest mail of a kind is safe from another one; null where it is older than that, or there is '
  'none. Mails that were asked for at the identity backend itself count too.';

create or replace function private.record_verified_address(proven bytea) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.verified_addresses as p (pair, verified_until) values (proven, now() + interval '30 days')
  on conflict (pair) do update set verified_until = excluded.verified_until
$$;
comment on function private.record_verified_address(bytea) is
  'Remembers for 30 days that an account was entered from an address.';

create or replace function private.delete_expired_attempts() returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  cleared integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.delete_expired_attempts', 0)) then
    return 0;
  end if;
  delete from private.rate_limits r where r.full_at < now();
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.open_attempts o where o.expires_at < now();
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.verified_addresses p where p.verified_until < now();
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  -- Kept a month, for whoever asks why they could not get in.
  delete from private.address_blocks b where b.blocked_until < now() - interval '30 days';
  get diagnostics batch = row_count;
  return cleared + batch;
end
$$;
comment on function private.delete_expired_attempts() is
  'Removes what has passed: full buckets, old attempts, and blocks a month after their end. One at a time; others get 0.';

-- schemas/abuse/auth-hooks.sql

-- Definer: the identity backend's role may call the hook, and read nothing of ours.
create or replace function private.password_verification_attempt(event jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account text := (
    select coalesce('email:' || lower(nullif(u.email, '')), 'user:' || u.id::text)
    from auth.users u where u.id = (event ->> 'user_id')::uuid
  );
  network cidr := private.hook_network(event);
  event_pair bytea := private.attempt_pair(account, network);
  valid boolean := (event ->> 'valid')::boolean;
  proven boolean;
  bucket record;
  refused boolean := false;
begin
  if account is null or valid is null then
    raise exception 'the hook needs user_id and valid' using errcode = 'invalid_parameter_value';
  end if;
  -- An attempt at our own routes was counted before it was made, and passes whatever others do here. One check each.
  update private.open_attempts o
  set password_checks = o.password_checks - 1
  where o.id = (
    select a.id from private.open_attempts a
    where a.pair = event_pair and a.password_checks > 0 and a.expires_at > now()
    order by a.expires_at
    limit 1
    for update skip locked
  );
  if found then
    return '{"decision": "continue"}';
  end if;

  if exists (
    select from private.address_blocks b
    where b.address = network and b.blocked_until > now() and b.lifted_at is null
  ) then
    return private.hook_rejection();
  end if;
  proven := exists (select from private.verified_addresses p where p.pair = event_pair and p.verified_until > now());
  for bucket in select * from private.attempt_buckets('direct_password', account, network) b order by b.subject loop
    continue when bucket.when_empty = 'refuse_new' and proven;
    -- A right password from an empty bucket is refused too: else guessing would go on, and only success would tell.
    if valid then
      refused := private.is_bucket_empty(bucket.subject, bucket.step, bucket.per);
    else
      refused := private.consume_attempt(
        bucket.subject, 'direct_password', bucket.scope, bucket.step, bucket.per
      ) is not null;
    end if;
    exit when refused;
  end loop;
  if refused then
    return private.hook_rejection();
  end if;
  if valid and event_pair is not null then
    perform private.record_verified_address(event_pair);
  end if;
  return '{"decision": "continue"}';
end
$$;
comment on function private.password_verification_attempt(jsonb) is
  'Hook of the identity backend: { metadata, user_id, valid }. Lets attempts of our own routes on, which were counted '
  'already, and limits those that come past us by account and by account and address.';

-- Definer: Supabase Auth's role may call the hook, and can read nothing of ours.
create or replace function private.mfa_verification_attempt(event jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account text := 'user:' || (event ->> 'user_id')::uuid;
  valid boolean := (event ->> 'valid')::boolean;
  bucket record;
begin
  if account is null or valid is null then
    raise exception 'the hook needs user_id and valid' using errcode = 'invalid_parameter_value';
  end if;
  select * into strict bucket from private.attempt_buckets('direct_code', account, null);
  if valid then
    if private.is_bucket_empty(bucket.subject, bucket.step, bucket.per) then
      return private.hook_rejection();
    end if;
  elsif private.consume_attempt(bucket.subject, 'direct_code', bucket.scope, bucket.step, bucket.per) is not null then
    return private.hook_rejection();
  end if;
  return '{"decision": "continue"}';
end
$$;
comment on function private.mfa_verification_attempt(jsonb) is
  'Hook of the identity backend: { metadata, user_id, factor_id, factor_type, valid }. A rejection ends all sessions of '
  'the user, so it comes under attack only: after ten failures in 15 minutes, wherever they were made.';

create or replace function private.hook_network(event jsonb) returns cidr
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when pg_input_is_valid(event #>> '{metadata,ip_address}', 'inet')
      then private.address_network((event #>> '{metadata,ip_address}')::inet)
  end
$$;
comment on function private.hook_network(jsonb) is
  'Whose attempt a hook is told of; null where the backend names no address.';

create or replace function private.hook_rejection() returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select '{"decision": "reject", "message": "Too many attempts. Wait a few minutes, then try again."}'::jsonb
$$;
comment on function private.hook_rejection() is 'How a hook refuses.';

-- schemas/sessions/session-state.sql

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
comment on function public.session_state() is
  'What must be fresh on every request, in one statement: { alive, sessionId, notAfter, aal, hasVerifiedFactor, '
  'infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned, deleted }, '
  'policy: { state, required, satisfied, byApproval } }, or { alive: false } once the session is over. '
  'state is optional, required, recovery_in_progress or malformed. byApproval: a mobile approval satisfies it and the '
  'session''s own proofs would not, so that a browser has to bring the approval''s cookie as well.';

-- Definer: as session_state, and the device is server-owned. It answers about the caller's own token, and about the
-- device whose 256-bit secret the caller shows.
create or replace function public.device_session_state(device_id uuid, device_secret text) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return public.session_state() || jsonb_build_object(
    'device', private.device_state(device_session_state.device_id, device_session_state.device_secret)
  );
end
$$;
comment on function public.device_session_state(uuid, text) is
  'session_state, and what the browser''s device says of who is active in it: all that must be fresh on a request, in '
  'one statement.';

-- Definer: as account_required_mfa_satisfied.
create or replace function private.session_is_fresh() returns boolean
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  current_second bigint := floor(extract(epoch from now()))::bigint;
begin
  return coalesce((
    select private.has_amr_between(
      auth.jwt() -> 'amr',
      case when f.has_verified_factor then private.second_factor_methods() else private.primary_methods() end,
      current_second - 601,
      -- Its clock may be a little ahead of ours.
      current_second + 60
    )
    from private.session_facts(auth.jwt()) f
  ), false);
end
$$;
comment on function private.session_is_fresh() is
  'Whether the caller proved who they are within ten minutes, by the second factor where one is enrolled, else by a '
  'sign-in: the step-up of the pages, for what may be changed without them.';

-- schemas/sessions/account-sessions.sql

-- Definer: sessions are the identity backend's, which the service role cannot read.
create or replace function private.account_sessions(subject_id uuid)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    method text,
    aal text
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- Its refreshes, once an hour or so, and what its owner did with it.
    greatest(s.created_at, s.refreshed_at at time zone 'UTC', e.last_event_at),
    host(s.ip),
    -- A sign-in by our pages reaches the backend through our server, which names itself there.
    coalesce(e.user_agent, s.user_agent),
    e.device,
    e.method,
    s.aal::text
  from auth.sessions s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  where s.user_id = subject_id and (s.not_after is null or s.not_after > now())
  order by 3 desc, s.id
$$;
comment on function private.account_sessions(uuid) is
  'The sessions of an account that are not over, the one seen last first.';

-- schemas/sessions/devices.sql

-- Definer: emails are the identity backend's.
create or replace function private.device_state(device_id uuid, secret text) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return (
    select jsonb_build_object(
      'secret', standing,
      'arrived', d.previous_hash is null or d.previous_until is not null,
      'old', d.rotated_at < now() - interval '30 days',
      'active', (
        select jsonb_build_object('userId', e.user_id, 'sessionId', e.session_id, 'tag', e.token_tag)
        from private.account_vault_entries e
        where e.device_id = d.id and e.user_id = d.active_user_id and e.session_id = d.active_session_id
          and private.is_vault_entry_usable(e)
      ),
      'accounts', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', e.user_id,
            'email', u.email,
            'displayName', p.display_name,
            'avatarUrl', p.avatar_url,
            -- Nobody may be active: a null here would be neither.
            'active', coalesce(usable and e.user_id = d.active_user_id and e.session_id = d.active_session_id, false),
            'requiresReauth', not usable,
            'lastRoute', e.last_route,
            'lastActiveAt', e.last_active_at,
            'addedAt', e.added_at
          )
          order by (usable and e.user_id = d.active_user_id) desc nulls last, e.last_active_at desc, e.user_id
        )
        from private.account_vault_entries e
        join auth.users u on u.id = e.user_id
        left join public.profiles p on p.id = e.user_id
        cross join lateral private.is_vault_entry_usable(e) as usable
        where e.device_id = d.id
      ), '[]')
    )
    from private.account_devices d
    cross join lateral private.device_secret_status(d, device_state.secret) as standing
    where d.id = device_state.device_id and standing in ('current', 'previous')
  );
end
$$;
comment on function private.device_state(uuid, text) is
  'What a browser holds, to who shows its secret: { secret: current | previous, arrived, old, active: { userId, sessionId, '
  'tag } | null, accounts }. Null for an unknown device.';

create or replace function private.secret_hash(secret text) returns bytea
  language sql
  immutable
  security invoker
as $$
  select sha256(convert_to(secret, 'UTF8'))
$$;
comment on function private.secret_hash(text) is 'Of 256 random bits, which need no slow hash.';

create or replace function private.device_secret_status(device private.account_devices, secret text) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when device.expires_at <= now() then 'unknown'
    when device.secret_hash = private.secret_hash(secret) then 'current'
    when device.previous_hash = private.secret_hash(secret)
      and (device.previous_until is null or device.previous_until > now())
      then case device.previous_for when 'anything' then 'previous' else 'spent' end
    else 'unknown'
  end
$$;
comment on function private.device_secret_status(private.account_devices, text) is
  'What a secret is to a device: current; previous, good for anything until the current one has arrived; spent, good '
  'for the same sign-in sent twice alone; or unknown.';

-- Definer: whether a session lives is for the identity backend's tables to say. In PL/pgSQL, as what asks it on every
-- request: a function in SQL is planned anew by each statement that calls it.
create or replace function private.is_vault_entry_usable(entry private.account_vault_entries) returns boolean
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return entry.sealed is not null
    and entry.last_active_at > now() - interval '30 days'
    and exists (
      select
      from auth.sessions s
      join auth.users u on u.id = s.user_id
      where s.id = entry.session_id
        and s.user_id = entry.user_id
        and (s.not_after is null or s.not_after > now())
        and u.deleted_at is null
        and coalesce(u.banned_until <= now(), true)
    );
end
$$;
comment on function private.is_vault_entry_usable(private.account_vault_entries) is
  'Whether an account can be switched to without a new sign-in, as far as the database knows. 30 days without use end it.';

-- Definer: the identity backend's tables are not the service role's to lock.
create or replace function private.lock_accounts(user_ids uuid[]) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  perform from auth.users u where u.id = any (user_ids) order by u.id for key share;
end
$$;
comment on function private.lock_accounts(uuid[]) is
  'Before a browser''s row or a challenge, by whoever goes on to the sessions of its accounts: an account''s end has the '
  'account first.';

-- Definer: locks accounts, whose rows are Supabase Auth's.
create or replace function private.sweep_account_devices() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  idle record;
  swept integer;
begin
  -- One sweeper at a time; the others find nothing to do.
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_account_devices', 0)) then
    return 0;
  end if;
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.last_active_at <= now() - interval '30 days'
  ));
  for idle in
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.sealed is not null and e.last_active_at <= now() - interval '30 days'
    returning e.user_id, e.session_id
  loop
    perform private.end_account_session(idle.user_id, idle.session_id);
  end loop;
  delete from private.account_vault_entries e where e.last_active_at <= now() - interval '90 days';
  delete from private.account_devices d
  where d.expires_at <= now()
    or (
      d.last_seen_at < now() - interval '1 day'
      and not exists (select from private.account_vault_entries e where e.device_id = d.id)
    );
  get diagnostics swept = row_count;
  return swept;
end
$$;
comment on function private.sweep_account_devices() is
  'Ends sessions that lay in a browser''s vault for 30 days without use, forgets accounts after 90, and devices that '
  'have expired or hold none. Answers how many devices went.';

-- schemas/sessions/vault.sql

create or replace function private.open_account_device(device_id uuid, secret text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select state.device || jsonb_build_object(
    'vault', (
      select jsonb_build_object(
        'userId', e.user_id, 'sessionId', e.session_id, 'sealed', e.sealed, 'keyId', e.key_id, 'tag', e.token_tag
      )
      from private.account_vault_entries e
      where e.device_id = open_account_device.device_id
        and e.user_id = (state.device #>> '{active,userId}')::uuid
        and e.sealed is not null
    )
  )
  from (select private.device_state(open_account_device.device_id, open_account_device.secret)) as state (device)
$$;
comment on function private.open_account_device(uuid, text) is
  'device_state with the active account''s sealed session. Null for an unknown device.';

create or replace function private.confirm_device_secret(device_id uuid, secret text) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update private.account_devices d
  set previous_until = now() + interval '30 seconds'
  where d.id = confirm_device_secret.device_id
    and d.secret_hash = private.secret_hash(confirm_device_secret.secret)
    and d.previous_hash is not null
    and d.previous_until is null
$$;
comment on function private.confirm_device_secret(uuid, text) is
  'The browser has shown its new secret: the one before dies, after a moment for requests that were under way.';

-- Definer: the replaced session is the identity backend's, which ends one by deleting its row.
create or replace function private.sign_in_account(sign_in jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  standing text;
  subject_id uuid := (sign_in ->> 'userId')::uuid;
  replaced_id uuid;
  successor smallint := 1;
  stays_active boolean;
begin
  perform private.lock_accounts(array[subject_id]);
  if sign_in ->> 'secret' is null then
    insert into private.account_devices (id, secret_hash)
    values ((sign_in ->> 'deviceId')::uuid, decode(sign_in ->> 'nextHash', 'hex'))
    returning * into device;
  else
    select d.* into device from private.account_devices d where d.id = (sign_in ->> 'deviceId')::uuid for update;
    if not found then
      return jsonb_build_object('status', 'unknown');
    end if;
    standing := private.device_secret_status(device, sign_in ->> 'secret');
    if standing = 'unknown' or (standing = 'spent' and device.active_user_id is distinct from subject_id) then
      return jsonb_build_object('status', 'unknown');
    end if;
  end if;

  select e.session_id into replaced_id
  from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = subject_id;
  if not found and (select count(*) from private.account_vault_entries e where e.device_id = device.id) >= 10 then
    return jsonb_build_object('status', 'full');
  end if;
  -- The session that is there may be this very one, where the answer before was lost.
  if sign_in ->> 'inPlaceOf' is not null
    and replaced_id is distinct from (sign_in ->> 'inPlaceOf')::uuid
    and replaced_id is distinct from (sign_in ->> 'sessionId')::uuid then
    return jsonb_build_object('status', 'over');
  end if;

  insert into private.account_vault_entries as e (device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    device.id, subject_id, (sign_in ->> 'sessionId')::uuid,
    sign_in ->> 'sealed', sign_in ->> 'keyId', sign_in ->> 'tag'
  )
  on conflict (device_id, user_id) do update
    set session_id = excluded.session_id, sealed = excluded.sealed, key_id = excluded.key_id,
        token_tag = excluded.token_tag, last_active_at = now();
  if replaced_id <> (sign_in ->> 'sessionId')::uuid then
    perform private.end_account_session(subject_id, replaced_id);
  end if;

  if standing = 'previous' then
    successor := 2;
  end if;
  -- Nobody has signed in anew: whom the browser has switched to since stays.
  stays_active := sign_in ->> 'inPlaceOf' is not null and coalesce(device.active_user_id <> subject_id, false);
  update private.account_devices d
  set secret_hash = case
        when standing = 'current' then decode(sign_in ->> 'nextHash', 'hex')
        when standing = 'previous' then decode(sign_in ->> 'secondNextHash', 'hex')
        else d.secret_hash
      end,
      -- What was known before the sign-in opens nothing after it.
      previous_hash = case when standing in ('current', 'previous') then d.secret_hash else d.previous_hash end,
      previous_for = case when standing in ('current', 'previous') then 'sign_in' else d.previous_for end,
      previous_until = case
        when standing in ('current', 'previous') then now() + interval '60 seconds' else d.previous_until
      end,
      rotated_at = case when standing in ('current', 'previous') then now() else d.rotated_at end,
      active_user_id = case when stays_active then d.active_user_id else subject_id end,
      active_session_id = case when stays_active then d.active_session_id else (sign_in ->> 'sessionId')::uuid end,
      -- A switch that began before does not activate over it.
      lease_id = null,
      lease_expires_at = null,
      last_seen_at = now(),
      expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept', 'successor', successor);
end
$$;
comment on function private.sign_in_account(jsonb) is
  'Adds a fresh sign-in to a browser''s accounts, or puts it in the place of the same account''s session, which ends; '
  'it is the active one then, and the device''s secret another: { deviceId, secret, nextHash, secondNextHash (hex), '
  'userId, sessionId, sealed, keyId, tag, inPlaceOf }; without secret the device is made. Answers { status: kept | '
  'unknown | full | over, successor }: which of the secrets after the shown one holds. over: inPlaceOf names the session '
  'that the new one continues, and the browser has signed out of it or has another one by now. A session that continues '
  'another leaves active whomever the browser has switched to since.';

create or replace function private.store_account_session(entry jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  held private.account_vault_entries;
begin
  -- The device first, as everything here that takes both.
  perform from private.account_devices d where d.id = (entry ->> 'deviceId')::uuid for update;
  select e.* into held
  from private.account_vault_entries e
  where e.device_id = (entry ->> 'deviceId')::uuid and e.user_id = (entry ->> 'userId')::uuid
  for update;
  if not found then
    return jsonb_build_object('kept', false, 'current', null);
  end if;
  if held.session_id <> (entry ->> 'sessionId')::uuid
    or held.token_tag is distinct from entry ->> 'expectedTag' then
    return jsonb_build_object('kept', false, 'current', jsonb_build_object(
      'userId', held.user_id, 'sessionId', held.session_id, 'sealed', held.sealed, 'keyId', held.key_id,
      'tag', held.token_tag
    ));
  end if;
  update private.account_vault_entries e
  set sealed = coalesce(entry ->> 'sealed', e.sealed),
      key_id = coalesce(entry ->> 'keyId', e.key_id),
      token_tag = coalesce(entry ->> 'tag', e.token_tag),
      last_route = coalesce(entry ->> 'lastRoute', e.last_route),
      last_active_at = now()
  where e.device_id = held.device_id and e.user_id = held.user_id;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = held.device_id;
  return jsonb_build_object('kept', true);
end
$$;
comment on function private.store_account_session(jsonb) is
  'Puts an account''s rotated session in place of the one it came from: { deviceId, userId, sessionId, expectedTag, '
  'sealed, keyId, tag, lastRoute }. Where another rotation came first that one is answered instead, to be adopted: '
  '{ kept: false, current }. Without sealed, only its use is noted.';

-- Definer: the session is the identity backend's, which ends one by deleting its row.
create or replace function private.discard_account_session(device_id uuid, user_id uuid, expected_tag text, listed boolean)
  returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  ended_id uuid;
begin
  perform private.lock_accounts(array[discard_account_session.user_id]);
  if listed then
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.device_id = discard_account_session.device_id
      and e.user_id = discard_account_session.user_id
      and e.token_tag = expected_tag
    returning e.session_id into ended_id;
  else
    delete from private.account_vault_entries e
    where e.device_id = discard_account_session.device_id
      and e.user_id = discard_account_session.user_id
      and e.token_tag is not distinct from expected_tag
    returning e.session_id into ended_id;
  end if;
  -- Nobody holds its tokens any more.
  perform private.end_account_session(discard_account_session.user_id, ended_id);
  return ended_id is not null;
end
$$;
comment on function private.discard_account_session(uuid, uuid, text, boolean) is
  'An account''s session is over, or its row cannot be opened. listed: the account stays, to be signed in to again. '
  'False where another rotation came first.';

-- schemas/sessions/switch-and-sign-out.sql

create or replace function private.begin_account_switch(device_id uuid, secret text, target_id uuid, lease uuid) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  device private.account_devices;
  target private.account_vault_entries;
  usable boolean;
begin
  select d.* into device from private.account_devices d where d.id = begin_account_switch.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  select e.* into target
  from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  usable := private.is_vault_entry_usable(target);
  if usable and device.active_user_id = target.user_id and device.active_session_id = target.session_id then
    return jsonb_build_object('status', 'active', 'lastRoute', target.last_route);
  end if;
  if device.lease_id is not null and device.lease_id <> lease and device.lease_expires_at > now() then
    return jsonb_build_object('status', 'busy');
  end if;
  update private.account_devices d
  set lease_id = lease, lease_expires_at = now() + interval '10 seconds'
  where d.id = device.id;
  return jsonb_build_object(
    'status', 'begun',
    'usable', usable,
    'lastRoute', target.last_route,
    'target', jsonb_build_object(
      'userId', target.user_id, 'sessionId', target.session_id, 'sealed', target.sealed, 'keyId', target.key_id,
      'tag', target.token_tag
    )
  );
end
$$;
comment on function private.begin_account_switch(uuid, text, uuid, uuid) is
  'Takes the device''s lease for 10 s. status: unknown (device), no_account, active (nothing to do), busy, begun.';

create or replace function private.activate_account(switch jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  device private.account_devices;
  kept jsonb;
  standing text;
  rotates boolean;
begin
  perform private.lock_accounts(array[(switch ->> 'userId')::uuid]);
  select d.* into device from private.account_devices d where d.id = (switch ->> 'deviceId')::uuid for update;
  if not found or device.lease_id is distinct from (switch ->> 'leaseId')::uuid then
    return jsonb_build_object('status', 'lost');
  end if;
  kept := private.store_account_session(switch);
  if not (kept ->> 'kept')::boolean then
    return jsonb_build_object('status', 'changed', 'current', kept -> 'current');
  end if;
  standing := private.device_secret_status(device, switch ->> 'secret');
  -- Not again while the secret before is still good: of answers that overtake each other, whichever comes last leaves
  -- the browser with one of the two.
  rotates := standing = 'current' and (
    device.previous_hash is null
    or device.previous_for = 'sign_in'
    or coalesce(device.previous_until <= now(), false)
  );
  update private.account_devices d
  set active_user_id = (switch ->> 'userId')::uuid,
      active_session_id = (switch ->> 'sessionId')::uuid,
      secret_hash = case when rotates then decode(switch ->> 'nextHash', 'hex') else d.secret_hash end,
      previous_hash = case when rotates then d.secret_hash else d.previous_hash end,
      previous_for = case when rotates then 'anything' else d.previous_for end,
      previous_until = case when rotates then null else d.previous_until end,
      rotated_at = case when rotates then now() else d.rotated_at end,
      lease_id = null,
      lease_expires_at = null
  where d.id = device.id;
  return jsonb_build_object('status', 'activated', 'rotated', rotates or standing = 'previous');
end
$$;
comment on function private.activate_account(jsonb) is
  'The last step of a switch: the target''s rotated session is kept, as store_account_session does, and the account is '
  'the active one, in one transaction: { leaseId, secret, nextHash (hex) } and the entry. status: activated (rotated: '
  'the secret after the shown one holds), changed (another rotation came first: current), lost (another holds the lease).';

create or replace function private.end_account_switch(device_id uuid, lease uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update private.account_devices d
  set lease_id = null, lease_expires_at = null
  where d.id = end_account_switch.device_id and d.lease_id = lease
$$;
comment on function private.end_account_switch(uuid, uuid) is 'Gives back the lease of a switch that came to nothing.';

-- Definer: the identity backend ends a session by deleting its row, and so does this: in one transaction with the entry,
-- whether the backend answers or not.
create or replace function private.sign_out_account(device_id uuid, secret text, target_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  ended_id uuid;
begin
  perform private.lock_accounts(array[target_id]);
  select d.* into device from private.account_devices d where d.id = sign_out_account.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  delete from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id
  returning e.session_id into ended_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  perform private.end_account_session(target_id, ended_id);
  update private.account_devices d
  set active_user_id = null, active_session_id = null
  where d.id = device.id and d.active_user_id = target_id;
  return jsonb_build_object(
    'status', 'signed_out',
    'sessionId', ended_id,
    'wasActive', device.active_user_id is not distinct from target_id,
    'next', coalesce((
      select jsonb_agg(e.user_id order by e.last_active_at desc, e.user_id)
      from private.account_vault_entries e
      where e.device_id = device.id and private.is_vault_entry_usable(e)
    ), '[]')
  );
end
$$;
comment on function private.sign_out_account(uuid, text, uuid) is
  'Takes one account off a browser and ends its session there. next: who may be active after it, the last used first.';

-- Definer: Supabase Auth has no call that ends these sessions in the transaction that removes their entries.
create or replace function private.sign_out_device(device_id uuid, secret text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  ended jsonb;
begin
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.device_id = sign_out_device.device_id
  ));
  select d.* into device from private.account_devices d where d.id = sign_out_device.device_id for update;
  -- Signing out is good for the spent secret, too: whoever shows it held the browser a moment ago.
  if not found or private.device_secret_status(device, secret) = 'unknown' then
    return null;
  end if;
  with gone as (
    delete from private.account_vault_entries e where e.device_id = device.id returning e.user_id, e.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  into ended
  from gone g
  where private.end_account_session(g.user_id, g.session_id);
  delete from private.account_devices d where d.id = device.id;
  return ended;
end
$$;
comment on function private.sign_out_device(uuid, text) is
  'Signs a browser out of all its accounts: every session of theirs ends, and the device with them. Answers those that '
  'were not over before: [{ userId, sessionId }]; null for an unknown device.';

-- schemas/mfa/rule.sql

create or replace function private.session_satisfies_mfa(claims jsonb) returns boolean
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  -- No row (session over, account gone) leaves null, which is no.
  return coalesce((
    select not f.banned
      and not f.deleted
      and private.satisfies_required_mfa(
        f.app_metadata,
        claims,
        f.has_verified_factor,
        f.session_factor_verified,
        f.approval_second,
        floor(extract(epoch from now()))::bigint
      )
    from private.session_facts(claims) f
  ), false);
end
$$;
comment on function private.session_satisfies_mfa(jsonb) is
  'For definers that hold verified claims. Granted to nobody: it trusts the claims it is given.';

create or replace function private.uuid_or_null(value text) returns uuid
  language sql
  immutable
  security invoker
as $$
  select case when pg_input_is_valid(value, 'uuid') then value::uuid end
$$;
comment on function private.uuid_or_null(text) is 'A claim that is no uuid matches no row, rather than raising.';

create or replace function private.session_facts(claims jsonb)
  returns table (
    user_id uuid,
    session_id uuid,
    not_after timestamptz,
    email text,
    banned boolean,
    deleted boolean,
    app_metadata jsonb,
    has_verified_factor boolean,
    session_factor_verified boolean,
    session_factor_id uuid,
    approval_second bigint,
    approval_factor_id uuid,
    approval_valid_until timestamptz
  )
  language sql
  stable
  security invoker
as $$
  select
    u.id,
    s.id,
    s.not_after,
    u.email::text,
    coalesce(u.banned_until > now(), false),
    u.deleted_at is not null,
    u.raw_app_meta_data,
    exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
    exists (
      select from auth.mfa_factors f where f.id = s.factor_id and f.user_id = u.id and f.status = 'verified'
    ),
    s.factor_id,
    floor(extract(epoch from a.second_factor_at))::bigint,
    a.approver_factor_id,
    a.valid_until
  from auth.sessions s
  join auth.users u on u.id = s.user_id
  left join lateral (
    select c.second_factor_at, c.approver_factor_id, c.valid_until
    from private.login_challenges c
    join auth.mfa_factors f on f.id = c.approver_factor_id
    where c.bound_session_id = s.id
      and c.user_id = u.id
      and c.kind = 'mfa_mobile'
      and c.status = 'bound'
      and c.valid_until > now()
      and f.user_id = u.id
      and f.status = 'verified'
    order by c.second_factor_at desc
    limit 1
  ) a on true
  where s.id = private.uuid_or_null(claims ->> 'session_id')
    and u.id = private.uuid_or_null(claims ->> 'sub')
    and (s.not_after is null or s.not_after > now())
$$;
comment on function private.session_facts(jsonb) is
  'What the database knows of a token''s session at this moment: no row where it has ended or is another user''s.';

create or replace function private.satisfies_required_mfa(
  app_metadata jsonb,
  claims jsonb,
  has_verified_factor boolean,
  session_factor_verified boolean,
  approval_second bigint,
  current_second bigint
) returns boolean
  language plpgsql
  immutable
  security invoker
  set search_path = ''
as $$
declare
  state text := private.required_mfa_state(app_metadata);
  policy jsonb := app_metadata -> 'platform_required_mfa';
  -- Without a required policy any proof counts that is not from the future.
  boundary bigint := -1;
  second_factor boolean;
begin
  if state in ('malformed', 'recovery_in_progress') then
    return false;
  end if;
  if state = 'optional' and not has_verified_factor then
    return true;
  end if;
  if state = 'required' then
    boundary := (policy -> 'boundary')::bigint;
  end if;

  second_factor :=
    session_factor_verified
    and claims ->> 'aal' = 'aal2'
    and private.has_amr_between(claims -> 'amr', private.second_factor_methods(), boundary, current_second);
  if second_factor is not true
    and (approval_second > boundary and approval_second <= current_second) is not true then
    return false;
  end if;

  if state = 'required' and private.is_integer(policy -> 'primaryBoundary') then
    return private.has_amr_between(
      claims -> 'amr',
      private.primary_methods(),
      (policy -> 'primaryBoundary')::bigint,
      current_second
    );
  end if;
  return true;
end
$$;
comment on function private.satisfies_required_mfa(jsonb, jsonb, boolean, boolean, bigint, bigint) is
  'The rule itself, on facts alone, so that vectors can drive it. approval_second is null without a bound approval.';

create or replace function private.required_mfa_state(app_metadata jsonb) returns text
  language plpgsql
  immutable
  security invoker
  set search_path = ''
as $$
declare
  policy jsonb := app_metadata -> 'platform_required_mfa';
begin
  if policy is null then
    return 'optional';
  end if;

  if (
    jsonb_typeof(policy) = 'object'
    and policy -> 'version' = '1'
    and jsonb_typeof(policy -> 'required') = 'boolean'
    and private.is_integer(policy -> 'boundary')
    and (
      coalesce(policy -> 'primaryBoundary', 'null') = 'null'
      or private.is_integer(policy -> 'primaryBoundary')
    )
    and policy ->> 'recovery' in ('none', 'in_progress')
    and private.is_integer(policy -> 'generation')
  ) is not true then
    return 'malformed';
  end if;

  if policy ->> 'recovery' = 'in_progress' then
    return 'recovery_in_progress';
  end if;
  return case when (policy -> 'required')::boolean then 'required' else 'optional' end;
end
$$;
comment on function private.required_mfa_state(jsonb) is
  'optional, required, recovery_in_progress or malformed. The last two close the account whatever a session can show.';

create or replace function private.is_integer(value jsonb) returns boolean
  language sql
  immutable
  security invoker
as $$
  -- Up to the largest integer that JavaScript holds exactly, since both languages must read the same number.
  select case
    when jsonb_typeof(value) = 'number'
      then value::numeric between 0 and 9007199254740991 and value::numeric = trunc(value::numeric)
    else false
  end
$$;
comment on function private.is_integer(jsonb) is 'Checked before each cast, so that bad metadata cannot raise.';

create or replace function private.required_mfa_generation(app_metadata jsonb) returns bigint
  language sql
  immutable
  security invoker
as $$
  select case
    when private.is_integer(app_metadata -> 'platform_required_mfa' -> 'generation')
      then (app_metadata -> 'platform_required_mfa' -> 'generation')::bigint
  end
$$;
comment on function private.required_mfa_generation(jsonb) is 'Which policy is in force; null before the first.';

create or replace function private.has_amr_between(amr jsonb, methods text[], after_second bigint, until_second bigint)
  returns boolean
  language sql
  immutable
  security invoker
as $$
  select exists (
    select
    from jsonb_array_elements(case when jsonb_typeof(amr) = 'array' then amr else '[]' end) as entry
    where entry ->> 'method' = any (methods)
      and case
        when private.is_integer(entry -> 'timestamp')
          then (entry -> 'timestamp')::numeric > after_second and (entry -> 'timestamp')::numeric <= until_second
        else false
      end
  )
$$;
comment on function private.has_amr_between(jsonb, text[], bigint, bigint) is
  'Whether one of the methods was used after the first second and not after the last (RFC 8176 entries with a time).';

create or replace function private.latest_amr_second(amr jsonb, methods text[]) returns bigint
  language sql
  immutable
  security invoker
as $$
  select max((entry ->> 'timestamp')::bigint)
  from jsonb_array_elements(case when jsonb_typeof(amr) = 'array' then amr else '[]' end) as entry
  where entry ->> 'method' = any (methods) and private.is_integer(entry -> 'timestamp')
$$;
comment on function private.latest_amr_second(jsonb, text[]) is 'When one of the methods was last used; null where never.';

create or replace function private.second_factor_methods() returns text[]
  language sql
  immutable
  security invoker
as $$
  select array['totp', 'mfa/phone', 'mfa/webauthn']
$$;
comment on function private.second_factor_methods() is 'The methods of an amr entry that prove a second factor.';

create or replace function private.primary_methods() returns text[]
  language sql
  immutable
  security invoker
as $$
  select array[
    'password', 'oauth', 'otp', 'magiclink', 'recovery', 'invite', 'passkey', 'sso/saml', 'web3', 'email/signup',
    'email_change'
  ]
$$;
comment on function private.primary_methods() is 'The methods of an amr entry by which someone signs in.';

-- schemas/mfa/enforcement.sql

-- Definer: asks the identity backend's tables, which the caller must not read, about the caller's own token alone.
create or replace function private.account_required_mfa_satisfied() returns boolean
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return private.session_satisfies_mfa(auth.jwt());
end
$$;
comment on function private.account_required_mfa_satisfied() is
  'The probe of every account_required_mfa policy. Without usage on private only policies run it.';

create or replace function private.protect_table(target regclass) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  execute format('alter table %s enable row level security', target);
  if exists (select from pg_catalog.pg_policy where polrelid = target and polname = 'account_required_mfa') then
    execute format('drop policy account_required_mfa on %s', target);
  end if;
  -- A sub-select, so that the probe runs once a statement and not once a row.
  execute format(
    'create policy account_required_mfa on %s as restrictive for all to authenticated '
    'using ((select private.account_required_mfa_satisfied())) '
    'with check ((select private.account_required_mfa_satisfied()))',
    target
  );
end
$$;
comment on function private.protect_table(regclass) is
  'Row-level security and the restrictive policy for one table. Whoever makes a table or partition later calls it.';

-- schemas/mfa/authenticators.sql

-- Definer: authenticators are the identity backend's, which the service role cannot read.
create or replace function private.account_authenticators(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', f.id,
    'name', f.friendly_name,
    'verified', f.status = 'verified',
    'createdAt', f.created_at,
    'lastUsedAt', f.last_challenged_at
  ) order by f.last_challenged_at desc nulls last, f.created_at, f.id), '[]')
  from auth.mfa_factors f
  where f.user_id = subject_id and f.factor_type = 'totp'
$$;
comment on function private.account_authenticators(uuid) is
  'The authenticator apps of an account, the one that was used last first: [{ id, name, verified, createdAt, '
  'lastUsedAt }]; those whose enrollment was never finished too. No secret of them.';

-- Definer: factors and sessions are the identity backend's, which the service role cannot write.
create or replace function private.delete_authenticator(
  subject_id uuid,
  actor_session_id uuid,
  target_id uuid,
  event jsonb,
  mail jsonb
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target auth.mfa_factors;
  last boolean;
begin
  -- One at a time for each account, as every change of its policy: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The backend's own rule: who has an authenticator has used it in this session.
  if not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;
  last := not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.id <> target_id and f.status = 'verified'
  );
  if last and private.required_mfa_state(account.raw_app_meta_data) <> 'optional' then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  perform private.delete_auth_factor(subject_id, target_id);
  if last then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  return jsonb_build_object('outcome', 'deleted') || private.notify_owner(event, mail);
end
$$;
comment on function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb) is
  'Takes an authenticator app from its account, and with the last one the recovery codes, which have nothing left to '
  'recover, and tells the owner (private.notify_owner): { outcome: deleted, mailId, recipient }, or outcome '
  'last_of_required where the account must have one, insufficient_aal where the session has yet to prove one, not_found.';

create or replace function private.claim_mfa_code(code_hash text, session_id uuid) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  delete from private.used_mfa_codes u
  where u.code_hash in (
    select e.code_hash from private.used_mfa_codes e where e.expires_at <= now() limit 100 for update skip locked
  );
  insert into private.used_mfa_codes as u (code_hash, session_id)
  values (decode(claim_mfa_code.code_hash, 'hex'), claim_mfa_code.session_id)
  on conflict on constraint used_mfa_codes_pkey do update
  set session_id = excluded.session_id, retry_allowed = false, expires_at = excluded.expires_at
  where u.expires_at <= now() or (u.retry_allowed and u.session_id = excluded.session_id);
  return found;
end
$$;
comment on function private.claim_mfa_code(text, uuid) is
  'Claims a code, named by the hex of its HMAC, for one verification: true to one of any number of callers.';

create or replace function private.release_mfa_code(code_hash text, session_id uuid, verified boolean) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if verified is null then
    update private.used_mfa_codes u
    set retry_allowed = true
    where u.code_hash = decode(release_mfa_code.code_hash, 'hex') and u.session_id = release_mfa_code.session_id;
  elsif not verified then
    -- One that was wrong was not used: it may be good half a minute later.
    delete from private.used_mfa_codes u
    where u.code_hash = decode(release_mfa_code.code_hash, 'hex') and u.session_id = release_mfa_code.session_id;
  end if;
end
$$;
comment on function private.release_mfa_code(text, uuid, boolean) is
  'Gives a claim back that came to nothing: false where the code was wrong, null where the backend did not answer.';

-- schemas/mfa/recovery-codes.sql

create or replace function private.replace_mfa_recovery_codes(subject_id uuid, code_hashes text[]) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- Two replacements at once would leave both sets.
  perform pg_advisory_xact_lock(hashtextextended('private.mfa_recovery_codes ' || subject_id, 0));
  delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  insert into private.mfa_recovery_codes (user_id, code_hash)
  select subject_id, decode(hash, 'hex') from unnest(code_hashes) as hash;
end
$$;
comment on function private.replace_mfa_recovery_codes(uuid, text[]) is
  'Puts new codes, named by the hex of their hashes, in the place of all that a user had. An empty list removes them.';

create or replace function private.mfa_recovery_state(subject_id uuid, current_session_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'left', count(*) filter (where c.used_at is null),
    'createdAt', max(c.created_at),
    'unfinished', coalesce(
      bool_or(
        c.session_id = current_session_id and c.completed_at is null and c.used_at > now() - interval '24 hours'
      ),
      false
    )
  )
  from private.mfa_recovery_codes c
  where c.user_id = subject_id
$$;
comment on function private.mfa_recovery_state(uuid, uuid) is
  '{ left, createdAt, unfinished }: how many codes a user has left, since when, and whether the session used one whose '
  'work is not done.';

-- Definer: the policy is in the identity backend's table, which the service role may not write.
create or replace function private.begin_mfa_recovery(subject_id uuid, current_session_id uuid, code_hash text default null)
  returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  begun uuid;
begin
  -- First the account, as every change of a policy does, so that no two wait for each other.
  select * into account from auth.users u where u.id = subject_id for update;
  -- A policy that nobody can read is an admin's to mend.
  if not found or private.required_mfa_state(account.raw_app_meta_data) = 'malformed' then
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = coalesce(c.used_at, now()),
      session_id = current_session_id,
      lease_expires_at = now() + interval '30 seconds'
  where c.user_id = subject_id
    and c.completed_at is null
    and (c.used_at is null or c.used_at > now() - interval '24 hours')
    and (c.lease_expires_at is null or c.lease_expires_at <= now())
    and c.id = (
      select d.id
      from private.mfa_recovery_codes d
      where d.user_id = subject_id
        and d.completed_at is null
        and case
          when begin_mfa_recovery.code_hash is null then d.used_at is not null and d.session_id = current_session_id
          else d.code_hash = decode(begin_mfa_recovery.code_hash, 'hex')
        end
      order by d.used_at desc nulls last
      limit 1
    )
  returning c.id into begun;
  if begun is not null then
    -- No signInAgain: this session signed in to use the code, and every other one is ended.
    update private.mfa_recovery_codes c
    set generation = (private.write_required_mfa_policy(account, '{"recovery": "in_progress"}') ->> 'generation')::bigint
    where c.id = begun;
  end if;
  return begun;
end
$$;
comment on function private.begin_mfa_recovery(uuid, uuid, text) is
  'Uses a code, or takes up again what failed half-way: by the same code, or without one by the session that used it. '
  'Answers its id to one caller at a time, who holds it for 30 s; null to all others. It advances the boundary and marks '
  'the recovery in the account''s policy, which closes the account until end_mfa_recovery.';

-- Definer: the policy is in Supabase Auth's table, which the service role cannot write.
create or replace function private.end_mfa_recovery(code_id uuid, completed boolean) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  used private.mfa_recovery_codes;
  done boolean;
begin
  select u.* into account
  from auth.users u
  where u.id = (select c.user_id from private.mfa_recovery_codes c where c.id = code_id)
  for update;
  select * into used
  from private.mfa_recovery_codes c
  where c.id = code_id and c.used_at is not null and c.completed_at is null
  for update;
  if not found then
    return false;
  end if;
  done := completed and not exists (select from auth.mfa_factors f where f.user_id = account.id);
  update private.mfa_recovery_codes c
  set lease_expires_at = null, completed_at = case when done then now() end
  where c.id = code_id;
  if done and used.generation = private.required_mfa_generation(account.raw_app_meta_data) then
    perform private.write_required_mfa_policy(account, '{"recovery": "none"}');
  end if;
  return done;
end
$$;
comment on function private.end_mfa_recovery(uuid, boolean) is
  'Ends what begin_mfa_recovery began: for good where no factor is left, which opens the account again unless somebody '
  'marked it since; else so that it can be taken up again at once, and the account stays closed. True where it is done.';

-- schemas/mfa/mobile-approval.sql

-- Definer: factors and sessions are the identity backend's, which the service role cannot read.
create or replace function private.session_second_factor(claims jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'factorId', f.session_factor_id,
    'second', private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
  )
  from private.session_facts(claims) f
  where f.session_factor_verified
    and not f.banned
    and not f.deleted
    -- Its own proofs alone: an approval is not passed on.
    and private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, true, null, floor(extract(epoch from now()))::bigint
    )
    and claims ->> 'aal' = 'aal2'
    and private.latest_amr_second(claims -> 'amr', private.second_factor_methods()) <= extract(epoch from now())
$$;
comment on function private.session_second_factor(jsonb) is
  'The factor by which a session is at AAL2 itself, and when it proved it: { factorId, second }; null for any other.';

-- Definer: as session_second_factor.
create or replace function private.pending_mobile_approvals(claims jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.session_second_factor(claims) is null then jsonb_build_object('outcome', 'mfa_required')
    else jsonb_build_object(
      'outcome', 'listed',
      'approvals', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', c.id, 'createdAt', c.created_at, 'expiresAt', c.expires_at, 'metadata', c.request_metadata
          )
          order by c.created_at desc
        )
        from private.login_challenges c
        join auth.sessions s on s.id = c.session_id
        where c.user_id = private.uuid_or_null(claims ->> 'sub')
          and c.session_id <> private.uuid_or_null(claims ->> 'session_id')
          and c.kind = 'mfa_mobile'
          and c.status = 'created'
          and c.expires_at > now()
      ), '[]')
    )
  end
$$;
comment on function private.pending_mobile_approvals(jsonb) is
  'What waits for a phone at AAL2: { outcome: listed, approvals: [{ id, createdAt, expiresAt, metadata }] }, or outcome '
  'mfa_required. Never the pair code, of which only a hash is kept.';

-- Definer: as session_second_factor.
create or replace function private.decide_mobile_approval(decision jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  claims constant jsonb := decision -> 'claims';
  approved constant boolean := (decision ->> 'approve')::boolean;
  proof constant jsonb := private.session_second_factor(claims);
  challenge private.login_challenges;
  state text;
begin
  if proof is null then
    return jsonb_build_object('outcome', 'mfa_required');
  end if;
  select c.* into challenge
  from private.login_challenges c
  where c.id = private.uuid_or_null(decision ->> 'id')
    and c.kind = 'mfa_mobile'
    and c.user_id = (claims ->> 'sub')::uuid
  for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if challenge.session_id = (claims ->> 'session_id')::uuid then
    return jsonb_build_object('outcome', 'forbidden');
  end if;
  state := private.login_challenge_state(challenge);
  if state <> 'created' then
    return jsonb_build_object('outcome', case state when 'expired' then 'expired' else 'conflict' end);
  end if;

  if approved and challenge.pair_code_hash is distinct from (decision ->> 'pairCodeHash')::bytea then
    update private.login_challenges c
    set failed_attempts = c.failed_attempts + 1,
        status = case when c.failed_attempts + 1 >= 5 then 'locked' else c.status end
    where c.id = challenge.id;
    return jsonb_build_object('outcome', 'wrong_code', 'attemptsLeft', 4 - challenge.failed_attempts);
  end if;

  update private.login_challenges c
  set status = case when approved then 'approved' else 'rejected' end,
      approved_at = case when approved then now() end,
      approver_session_id = (claims ->> 'session_id')::uuid,
      approver_factor_id = (proof ->> 'factorId')::uuid,
      second_factor_at = to_timestamp((proof ->> 'second')::float8),
      approval_metadata = jsonb_build_object('device', decision -> 'device')
  where c.id = challenge.id;
  return jsonb_build_object('outcome', case when approved then 'approved' else 'rejected' end);
end
$$;
comment on function private.decide_mobile_approval(jsonb) is
  'The phone''s answer: { id, claims, approve, pairCodeHash?, device } → { outcome: approved, rejected, wrong_code with '
  'attemptsLeft, mfa_required, not_found, forbidden (the very session that asked), expired or conflict }.';

-- Definer: asks the rule of required MFA about the asking session.
create or replace function private.bind_mobile_approval(binding jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  claims constant jsonb := binding -> 'claims';
  challenge private.login_challenges;
begin
  update private.login_challenges c
  set status = 'bound',
      bound_session_id = c.session_id,
      bound_at = now(),
      valid_until = now() + interval '12 hours',
      approval_metadata = c.approval_metadata || jsonb_build_object('sessionId', c.session_id)
  where c.id = private.uuid_or_null(binding ->> 'id')
    and c.kind = 'mfa_mobile'
    and c.secret_hash = (binding ->> 'secretHash')::bytea
    and c.session_id = (claims ->> 'session_id')::uuid
    and c.user_id = (claims ->> 'sub')::uuid
    and c.status = 'approved'
    and c.expires_at > now()
  returning c.* into challenge;
  if not found then
    return null;
  end if;
  -- As where its factor was removed since, or the account demands a newer proof.
  if not private.session_satisfies_mfa(claims) then
    update private.login_challenges c
    set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null
    where c.id = challenge.id
    returning c.* into challenge;
  end if;
  return jsonb_build_object('status', challenge.status, 'validUntil', challenge.valid_until);
end
$$;
comment on function private.bind_mobile_approval(jsonb) is
  'Binds an approved challenge to the session that asked, for 12 hours: { id, secretHash, claims } → { status: bound, '
  'validUntil }, or status rejected where it would not help. Null where it is not approved, or was bound before.';

-- schemas/recovery/overrides.sql

-- Definer: asks recovery_actor_refusal, which is granted to nobody.
create or replace function private.create_recovery_override(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  for_email text := lower(trim(request ->> 'email'));
  lifetime interval := make_interval(secs => coalesce((request ->> 'lifetimeSeconds')::bigint, 7 * 86400));
  refused text := private.recovery_actor_refusal(request, for_email);
  made private.recovery_overrides;
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  if lifetime <= interval '0' or lifetime > interval '30 days' then
    return jsonb_build_object('refused', 'lifetime');
  end if;
  -- One at a time for each email.
  perform pg_advisory_xact_lock(hashtextextended('private.recovery_overrides ' || for_email, 0));
  if exists (select from private.active_recovery_override(for_email)) then
    return jsonb_build_object('refused', 'active');
  end if;
  insert into private.recovery_overrides (email, reason, normal_login, recovery_email, created_by, expires_at)
  values (
    for_email, request ->> 'reason', (request ->> 'normalLogin')::boolean, (request ->> 'recoveryEmail')::boolean,
    (request ->> 'actor')::uuid, now() + lifetime
  )
  returning * into made;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'create', 'outcome', 'created', 'email', for_email, 'overrideId', made.id)
  );
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, after, request_id, ip)
  values (
    made.created_by, 'recovery.create', (select u.id from auth.users u where lower(u.email) = for_email limit 1),
    for_email, made.reason, to_jsonb(made), request ->> 'requestId', (request ->> 'ip')::inet
  );
  return jsonb_build_object('overrideId', made.id, 'expiresAt', made.expires_at);
end
$$;
comment on function private.create_recovery_override(jsonb) is
  '{ actor, email, reason, normalLogin, recoveryEmail, lifetimeSeconds = 7 days, ip, userAgent, requestId } → '
  '{ overrideId, expiresAt } or { refused: forbidden | oneself | lifetime | active }.';

-- Definer: asks recovery_actor_refusal, which is granted to nobody.
create or replace function private.revoke_recovery_override(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  known private.recovery_overrides;
  ended private.recovery_overrides;
  refused text;
begin
  select * into known from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid;
  refused := private.recovery_actor_refusal(request, known.email);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  update private.recovery_overrides o
  set revoked_at = now(), revoked_by = (request ->> 'actor')::uuid
  where o.id = known.id and o.revoked_at is null and o.expires_at > now()
  returning * into ended;
  if known.id is null then
    return '{"refused": "not_found"}';
  end if;
  if ended.id is null then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', 'inactive', 'email', known.email)
    );
    return '{"refused": "inactive"}';
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'revoke', 'outcome', 'revoked', 'email', ended.email)
  );
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, before, after, request_id, ip)
  values (
    ended.revoked_by, 'recovery.revoke', (select u.id from auth.users u where lower(u.email) = ended.email limit 1),
    ended.email, request ->> 'reason', to_jsonb(known), to_jsonb(ended), request ->> 'requestId',
    (request ->> 'ip')::inet
  );
  return '{}';
end
$$;
comment on function private.revoke_recovery_override(jsonb) is
  '{ actor, overrideId, reason, ip, userAgent, requestId } → {} or { refused: forbidden | oneself | not_found | inactive }. '
  'What was sent under it is worth nothing from then on.';

create or replace function private.active_recovery_override(of_email text) returns setof private.recovery_overrides
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select o.*
  from private.recovery_overrides o
  where o.email = lower(of_email) and o.revoked_at is null and o.expires_at > now()
  order by o.created_at desc
  limit 1
$$;
comment on function private.active_recovery_override(text) is 'The override of an email at this moment, if there is one.';

-- Definer: emails and admins' own addresses are the identity backend's, which the service role cannot read.
create or replace function private.recovery_actor_refusal(request jsonb, of_email text) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (request ->> 'actor')::uuid;
  refused text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    refused := 'forbidden';
  elsif exists (select from auth.users u where u.id = actor and lower(u.email) = lower(of_email)) then
    refused := 'oneself';
  else
    return null;
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'reject', 'outcome', refused, 'email', of_email)
  );
  return refused;
end
$$;
comment on function private.recovery_actor_refusal(jsonb, text) is
  'Why the actor may not do this to that email: forbidden, oneself, or null; a refusal is recorded. For the functions '
  'below; granted to nobody.';

create or replace function private.record_recovery_event(event jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.recovery_events (
    kind, outcome, email, override_id, credential_id, user_id, actor_id, ip, user_agent, request_id
  )
  values (
    event ->> 'kind', event ->> 'outcome', lower(event ->> 'email'), (event ->> 'overrideId')::uuid,
    (event ->> 'credentialId')::uuid, (event ->> 'userId')::uuid, (event ->> 'actor')::uuid,
    (event ->> 'ip')::inet, event ->> 'userAgent', event ->> 'requestId'
  )
$$;
comment on function private.record_recovery_event(jsonb) is
  '{ kind, outcome, email, overrideId, credentialId, userId, actor, ip, userAgent, requestId }, the last eight if known.';

create or replace function private.sweep_recoveries() returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_recoveries', 0)) then
    return 0;
  end if;
  -- A day, so that the page can still say of a link that it is too old, and the log why.
  delete from private.recovery_credentials c where c.expires_at < now() - interval '1 day';
  get diagnostics batch = row_count;
  swept := swept + batch;
  -- No guess counts after 24 hours, and no lock lasts longer.
  delete from private.recovery_code_guesses g
  where coalesce(g.last_wrong_at < now() - interval '24 hours', true)
    and coalesce(g.locked_until <= now(), true)
    and not exists (select from private.recovery_credentials c where c.email = g.email and c.expires_at > now());
  get diagnostics batch = row_count;
  swept := swept + batch;
  delete from private.mint_leases l where l.expires_at < now();
  get diagnostics batch = row_count;
  return swept + batch;
end
$$;
comment on function private.sweep_recoveries() is
  'Removes credentials a day after their end, guesses that count no more and leases that ran out; says how many rows.';

-- schemas/recovery/credentials.sql

-- Definer: asks recovery_actor_refusal, which is granted to nobody.
create or replace function private.issue_recovery_credential(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  override private.recovery_overrides;
  issued private.recovery_credentials;
  refused text;
  wait interval;
begin
  select * into override from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid for update;
  refused := coalesce(
    private.recovery_actor_refusal(request, override.email),
    case
      when override.id is null then 'not_found'
      when override.revoked_at is not null or override.expires_at <= now() then 'inactive'
      when not override.recovery_email then 'switched_off'
    end
  );
  if refused is null then
    select max(c.created_at) + private.mail_pause() - now() into wait
    from private.recovery_credentials c
    where c.override_id = override.id and c.consumed_at is null and c.superseded_at is null
      and c.created_at > now() - private.mail_pause();
    if wait is not null then
      return jsonb_build_object(
        'refused', 'just_sent', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer
      );
    end if;
  end if;
  if refused in ('inactive', 'switched_off') then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', refused, 'email', override.email)
    );
  end if;
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  -- Used ones too: one that is given back must not come back beside this one.
  update private.recovery_credentials c
  set superseded_at = now()
  where c.email = override.email and c.superseded_at is null;
  insert into private.recovery_credentials (override_id, email, token_hash, code_salt, code_hash)
  values (
    override.id, override.email, decode(request ->> 'tokenHash', 'hex'), decode(request ->> 'codeSalt', 'hex'),
    decode(request ->> 'codeHash', 'hex')
  )
  returning * into issued;
  perform private.record_recovery_event(request || jsonb_build_object(
    'kind', 'send', 'outcome', 'issued', 'email', override.email, 'credentialId', issued.id
  ));
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, after, request_id, ip)
  values (
    (request ->> 'actor')::uuid, 'recovery.send',
    (select u.id from auth.users u where lower(u.email) = override.email limit 1), override.email,
    request ->> 'reason', jsonb_build_object('overrideId', override.id, 'expiresAt', issued.expires_at),
    request ->> 'requestId', (request ->> 'ip')::inet
  );
  return jsonb_build_object('credentialId', issued.id, 'email', issued.email, 'expiresAt', issued.expires_at);
end
$$;
comment on function private.issue_recovery_credential(jsonb) is
  '{ actor, overrideId, reason, tokenHash, codeSalt, codeHash in hex, ip, userAgent, requestId } → { credentialId, email, '
  'expiresAt } or { refused: forbidden | oneself | not_found | inactive | switched_off }, or { refused: just_sent, '
  'retryAfterSeconds } while the last one is too young to be replaced. Earlier ones of the email end.';

create or replace function private.invalidate_recovery_credential(credential_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with voided as (
    update private.recovery_credentials c
    set superseded_at = now()
    where c.id = invalidate_recovery_credential.credential_id and c.consumed_at is null and c.superseded_at is null
    returning c.*
  )
  select private.record_recovery_event(jsonb_build_object(
    'kind', 'send', 'outcome', 'failed', 'email', v.email, 'overrideId', v.override_id, 'credentialId', v.id
  ))
  from voided v
$$;
comment on function private.invalidate_recovery_credential(uuid) is 'Ends one whose mail did not go out.';

create or replace function private.find_recovery_link_email(token_hash bytea) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c.email
  from private.recovery_credentials c
  join private.recovery_overrides o on o.id = c.override_id
  where c.token_hash = find_recovery_link_email.token_hash
    and c.consumed_at is null
    and c.superseded_at is null
    and c.expires_at > now()
    and o.revoked_at is null
    and o.expires_at > now()
    and o.recovery_email
$$;
comment on function private.find_recovery_link_email(bytea) is
  'Whom a link would sign in, for the page that asks first; null where it is worth nothing. It changes nothing.';

-- Definer: the key of the made-up salts is granted to nobody.
create or replace function private.recovery_code_salt(of_email text) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select encode(coalesce(
    (
      select c.code_salt
      from private.recovery_credentials c
      where c.email = lower(of_email) and c.consumed_at is null and c.superseded_at is null and c.expires_at > now()
      order by c.created_at desc
      limit 1
    ),
    substr(private.attempt_digest('recovery code salt', lower(of_email)), 1, 16)
  ), 'hex')
$$;
comment on function private.recovery_code_salt(text) is
  'The salt under which a code of an email is hashed before it is tried, in hex; made up where there is none to try, so '
  'that the answer is one.';

-- Definer: accounts and their policies are the identity backend's, which the service role can neither read nor write.
create or replace function private.consume_recovery_credential(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  credential private.recovery_credentials;
  found_id uuid;
  of_email text;
  verdict text;
  account auth.users;
  written jsonb;
begin
  select c.id, c.email into found_id, of_email
  from private.recovery_credentials c
  where case
    when request ? 'tokenHash' then c.token_hash = decode(request ->> 'tokenHash', 'hex')
    else c.email = lower(request ->> 'email')
  end
  order by c.consumed_at is null and c.superseded_at is null desc, c.created_at desc
  limit 1;
  if found then
    -- The email first, then the credential, by link and by code, so that no two wait for each other.
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  verdict := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  if verdict <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', verdict, 'email', of_email, 'overrideId', credential.override_id,
      'credentialId', credential.id
    ));
    return '{"outcome": "rejected"}';
  end if;

  update private.recovery_credentials c set consumed_at = now() where c.id = credential.id;
  -- A link proves the mailbox, and does not open what guesses at the codes have locked.
  delete from private.recovery_code_guesses g
  where g.email = of_email and (g.locked_until is null or g.locked_until <= now());
  select * into account
  from auth.users u
  where lower(u.email) = of_email and u.deleted_at is null and not u.is_sso_user
  for update;
  perform private.record_recovery_event((request - 'email') || jsonb_build_object(
    'kind', 'consume', 'outcome', case when request ? 'tokenHash' then 'by_link' else 'by_code' end,
    'email', of_email, 'overrideId', credential.override_id, 'credentialId', credential.id, 'userId', account.id
  ));
  -- Whoever comes back proves everything anew. A policy that nobody can read is an admin's to mend.
  if account.id is not null and private.required_mfa_state(account.raw_app_meta_data) <> 'malformed' then
    written := private.write_required_mfa_policy(account, '{"signInAgain": true}');
  end if;
  return jsonb_build_object(
    'outcome', 'consumed',
    'credentialId', credential.id,
    'overrideId', credential.override_id,
    'email', of_email,
    'userId', account.id,
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'waitMs', coalesce(greatest(
      0, ceil(((written ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
end
$$;
comment on function private.consume_recovery_credential(jsonb) is
  '{ tokenHash } or { email, codeHash }, in hex, with ip, userAgent, requestId → { outcome: consumed, credentialId, '
  'overrideId, email, userId or null, banned, confirmed, waitMs } to one of many callers, { outcome: rejected } to all '
  'others, whatever the reason, which is recorded. The account''s boundaries move to this second; a session that counts '
  'is minted after waitMs.';

create or replace function private.check_recovery_credential(credential private.recovery_credentials, code_hash bytea)
  returns text
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  guesses private.recovery_code_guesses;
  wrong_now integer;
  override private.recovery_overrides;
begin
  if credential.id is null then
    return 'unknown';
  end if;
  if credential.consumed_at is not null then
    return 'used';
  end if;
  if credential.superseded_at is not null then
    return 'superseded';
  end if;
  if credential.expires_at <= now() then
    return 'expired';
  end if;
  select * into override from private.recovery_overrides o where o.id = credential.override_id;
  if override.revoked_at is not null or override.expires_at <= now() then
    return 'inactive';
  end if;
  if not override.recovery_email then
    return 'switched_off';
  end if;
  -- Its maker may have come by the email since.
  if exists (select from auth.users u where u.id = override.created_by and lower(u.email) = override.email) then
    return 'oneself';
  end if;
  if code_hash is null then
    return 'good';
  end if;

  select * into strict guesses from private.recovery_code_guesses g where g.email = credential.email;
  if guesses.locked_until > now() then
    return 'locked';
  end if;
  if code_hash = credential.code_hash then
    return 'good';
  end if;
  wrong_now := case when guesses.last_wrong_at > now() - interval '24 hours' then guesses.wrong % 5 else 0 end + 1;
  update private.recovery_code_guesses g
  set wrong = wrong_now,
      last_wrong_at = now(),
      locked_until = case when wrong_now = 5 then now() + interval '24 hours' end
  where g.email = credential.email;
  return 'wrong_code';
end
$$;
comment on function private.check_recovery_credential(private.recovery_credentials, bytea) is
  'good, or why not; a wrong code counts, and the fifth within 24 hours locks the codes of that email for 24 hours. The '
  'caller holds the email''s row of guesses and the credential''s. For definers; granted to nobody.';

create or replace function private.release_recovery_credential(credential_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update private.recovery_credentials c
  set consumed_at = null
  where c.id = release_recovery_credential.credential_id and c.consumed_at > now() - interval '2 minutes'
$$;
comment on function private.release_recovery_credential(uuid) is
  'Gives a consumption back to its mail, by the request that has it, where surely no session came of it.';

-- schemas/recovery/override-login.sql

-- Definer: accounts' emails are the identity backend's, which the service role cannot read.
create or replace function private.active_login_override(of_email text) returns uuid
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select o.id
  from private.active_recovery_override(of_email) o
  -- Never of oneself, though its maker may have come by the email since.
  where o.normal_login
    and not exists (select from auth.users u where u.id = o.created_by and lower(u.email) = o.email)
$$;
comment on function private.active_login_override(text) is 'The override under which an email may sign in now; null without one.';

-- Definer: password hashes are the identity backend's, which the service role cannot read; nobody learns one here.
create or replace function private.verify_override_password(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  of_email text := lower(request ->> 'email');
  override private.recovery_overrides;
  account auth.users;
  hash text;
  bucket record;
  outcome text;
begin
  select o.* into override from private.active_recovery_override(of_email) o where o.normal_login;
  if not found then
    return '{"outcome": "none"}';
  end if;
  select * into strict bucket from private.attempt_buckets('override_password', 'email:' || of_email, null);
  select * into account
  from auth.users u
  where lower(u.email) = of_email and u.deleted_at is null and not u.is_sso_user;
  -- One algorithm by three names; pgcrypto knows the oldest.
  hash := regexp_replace(account.encrypted_password, '^\$2[by]\$', '$2a$');
  outcome := case
    when override.created_by = account.id then 'oneself'
    when private.consume_attempt(
      bucket.subject, 'override_password', bucket.scope, bucket.step, bucket.per
    ) is not null then 'limited'
    when coalesce(hash, '') !~ '^\$2a\$' then 'wrong'
    when extensions.crypt(request ->> 'password', hash) is distinct from hash then 'wrong'
    -- Anybody may sign up with an address that an admin vouched for before: their password proves no mailbox.
    when account.email_confirmed_at is null and (account.created_at < override.created_at) is not true then 'unconfirmed'
    else 'proven'
  end;
  perform private.record_recovery_event((request - 'password') || jsonb_build_object(
    'kind', case outcome when 'proven' then 'login_bypass' else 'reject' end,
    'outcome', case outcome when 'proven' then 'password_proven' else 'login_' || outcome end,
    'email', of_email, 'overrideId', override.id, 'userId', account.id
  ));
  if outcome <> 'proven' then
    return jsonb_build_object('outcome', outcome);
  end if;
  return jsonb_build_object(
    'outcome', 'proven',
    'overrideId', override.id,
    'userId', account.id,
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null
  );
end
$$;
comment on function private.verify_override_password(jsonb) is
  '{ email, password, ip, userAgent, requestId } → { outcome: proven, overrideId, userId, banned, confirmed }, or '
  'outcome none (no override with normal login), wrong, limited, oneself or unconfirmed (the account is younger than '
  'the override, and nobody proved its email). All but none are recorded, without the password.';

-- Definer: accounts are the identity backend's, and the counters' key is granted to nobody.
create or replace function private.recovery_overview(of_email text) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'email', lower(of_email),
    'account', (
      select jsonb_build_object(
        'id', u.id,
        'bannedUntil', case when u.banned_until > now() then u.banned_until end,
        'confirmedAt', u.email_confirmed_at,
        'hasPassword', coalesce(u.encrypted_password, '') <> '',
        'lastSignInAt', u.last_sign_in_at
      )
      from auth.users u
      where lower(u.email) = lower(of_email) and u.deleted_at is null and not u.is_sso_user
    ),
    'overrides', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', o.id,
        'reason', o.reason,
        'normalLogin', o.normal_login,
        'recoveryEmail', o.recovery_email,
        'createdBy', (select u.email from auth.users u where u.id = o.created_by),
        'createdAt', o.created_at,
        'expiresAt', o.expires_at,
        'revokedAt', o.revoked_at,
        'active', o.revoked_at is null and o.expires_at > now()
      ) order by o.created_at desc), '[]')
      from (
        select * from private.recovery_overrides r where r.email = lower(of_email) order by r.created_at desc limit 20
      ) o
    ),
    'events', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', e.id,
        'kind', e.kind,
        'outcome', e.outcome,
        'actor', (select u.email from auth.users u where u.id = e.actor_id),
        'ip', host(e.ip),
        'createdAt', e.created_at
      ) order by e.created_at desc, e.id), '[]')
      from (
        select * from private.recovery_events v where v.email = lower(of_email) order by v.created_at desc limit 50
      ) e
    ),
    'codes', (
      select jsonb_build_object('wrong', g.wrong, 'lockedUntil', case when g.locked_until > now() then g.locked_until end)
      from private.recovery_code_guesses g
      where g.email = lower(of_email)
    ),
    'counters', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'action', l.action,
        'scope', l.scope,
        'used', ceil(extract(epoch from r.full_at - now()) / extract(epoch from b.step)),
        'attempts', l.attempts,
        'perSeconds', extract(epoch from l.per)::integer,
        'whenEmpty', l.when_empty,
        'fullAt', r.full_at
      ) order by l.action, l.scope), '[]')
      from private.attempt_limits() l
      cross join lateral private.attempt_buckets(l.action, 'email:' || lower(of_email), null) b
      join private.rate_limits r on r.subject = b.subject and r.full_at > now()
      where b.scope = l.scope and l.when_empty <> 'wait'
    )
  )
$$;
comment on function private.recovery_overview(text) is
  'What the console shows of an email: { email, account, overrides, events, codes, counters }, the counters being those '
  'limits by email alone of which something is used. Never a link or a code.';
