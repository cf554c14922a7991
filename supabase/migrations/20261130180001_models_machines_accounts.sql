-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

drop function ai.plan_has_payers(ai.plans);

drop function ai.read_budgets(uuid, uuid, text[], integer, text[], boolean);

drop function private.consume_attempt(bytea, text, text, interval, interval);

drop function private.responsible_person(jsonb);

drop function private.search_audit_log(jsonb, jsonb, jsonb, integer);

-- Counts an attempt before it is made. Takes { action, address, email | userId, sessionId, challenged, allowOverride,
-- mail, code }. Returns { allowed, attemptId, needsBotChallenge, overrideId, repeated, mailWaitSeconds,
-- mailPauseSeconds } or { allowed: false, reason: limited | blocked, retryAfterSeconds }. A caller that receives no
-- answer must not make the attempt. challenged is true if the attempt carries a bot challenge's token, which the
-- identity backend checks first. allowOverride is true if the email's recovery override applies: the limits of
-- override_password then replace the email's own limits, but the address's limits still apply. overrideId is that
-- override, or null. mail is the kind of email that the attempt sends. If mailWaitSeconds is not null, the email must
-- not be sent, because another email of its kind is being sent or has a link that is too recent to be replaced. code is
-- the mailed code that is tried; only its digest is stored. If repeated is true, the code was tried before and must not
-- be tried again. sessionId is the session that enters a code of a second factor.
-- Definer: every role, even the service role, may change buckets only through begin_attempt and complete_attempt.
create or replace function private.begin_attempt(attempt jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  of_action text := attempt ->> 'action';
  network cidr := private.address_network((attempt ->> 'address')::inet);
  account text := case
    when attempt ->> 'email' is not null then 'email:' || lower(attempt ->> 'email')
    when attempt ->> 'userId' is not null then 'user:' || (attempt ->> 'userId')::uuid
  end;
  challenged boolean := coalesce((attempt ->> 'challenged')::boolean, false);
  override_id uuid;
  overridden boolean;
  mail text := attempt ->> 'mail';
  mail_wait interval;
  account_pair bytea := private.attempt_pair(account, network);
  of_account bytea := private.account_digest(account);
  confirming boolean := private.is_admin_confirming(attempt);
  blocked_for interval;
  proven boolean;
  bucket record;
  wait interval;
  longest interval;
  charged bytea[] := '{}';
  challenge_due boolean := false;
  repeated boolean := false;
  new_id uuid;
begin
  if of_action is null or of_action not in (
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff',
    'user_code', 'client_registration', 'client_document'
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
  if blocked_for is not null and not confirming then
    return private.attempt_refusal('blocked', blocked_for);
  end if;

  if (attempt ->> 'allowOverride')::boolean then
    override_id := private.active_login_override(attempt ->> 'email');
  end if;
  overridden := override_id is not null;
  proven := exists (select from private.verified_addresses p where p.pair = account_pair and p.verified_until > now());
  if mail is not null then
    mail_wait := private.mail_wait(mail, lower(attempt ->> 'email'), (attempt ->> 'userId')::uuid);
  end if;
  -- All callers take buckets in the same order, which prevents deadlocks.
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
    union all
    select 'redemption', b.*
    from private.attempt_buckets('redemption', account || ' ' || (attempt ->> 'code'), null) b
    order by subject
  loop
    continue when bucket.scope = 'address' and confirming;
    continue when bucket.when_empty = 'challenge' and proven;
    continue when bucket.when_empty = 'refuse_new' and (proven or challenged);
    wait := private.consume_attempt(
      bucket.subject, bucket.action, bucket.scope, bucket.step, bucket.per,
      case when bucket.scope <> 'address' then of_account end
    );
    if wait is null then
      charged := charged || bucket.subject;
    elsif bucket.when_empty = 'challenge' then
      challenge_due := not challenged;
    elsif bucket.when_empty = 'wait' then
      mail_wait := wait;
    elsif bucket.when_empty = 'repeat' then
      repeated := true;
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
    -- Under a recovery override, the server may lift a block and then check the password a second time.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'overrideId', override_id,
    'repeated', repeated,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;

-- Returns whether an infrastructure admin confirms the second factor in a session that has proved it before. Blocks and
-- limits of the address don't stop that, or others on the admin's network could keep the console closed, where blocks
-- are lifted. The account's limits apply, and a wrong code counts against the address.
create or replace function private.is_admin_confirming(attempt jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select attempt ->> 'action' = 'code' and exists (
    select
    from auth.sessions s
    where s.id = private.uuid_or_null(attempt ->> 'sessionId') and s.user_id = private.uuid_or_null(attempt ->> 'userId')
      and s.aal = 'aal2' and (s.not_after is null or s.not_after > now()) and private.is_infrastructure_admin(s.user_id)
  )
$$;

-- Deletes up to at_most rows of each kind: full buckets, expired attempts, expired verified addresses, expired review
-- drafts, idempotency keys of the admin API after a day, and blocks that ended a month ago. Returns how many rows it
-- deleted; 0 while another deletion runs.
create or replace function private.delete_expired_attempts(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  cleared integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.delete_expired_attempts', 0)) then
    return 0;
  end if;
  -- Skips rows locked by an attempt; the next run deletes them.
  cleared := cleared + private.delete_expired_rows('private.rate_limits', 'full_at', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.open_attempts', 'expires_at', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.verified_addresses', 'verified_until', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.review_drafts', 'expires_at', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.idempotency_keys', 'created_at', '24 hours', at_most);
  -- Ended blocks are kept for a month, to explain to people why they could not sign in.
  return cleared + private.delete_expired_rows('private.address_blocks', 'blocked_until', '30 days', at_most);
end
$$;

-- Hook that the identity backend calls after each password check, with { metadata, user_id, valid }. Admits attempts on
-- our own routes, which were already counted. Limits direct attempts per account, and per account and address.
-- Definer: the identity backend's role may call the hook, but may not read our tables.
create or replace function private.password_verification_attempt(event jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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
  -- An attempt on our own routes was already counted when it began, so the limits on direct attempts do not apply to
  -- it. Each attempt allows a fixed number of password checks.
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
    -- A correct password is refused too if the bucket is empty. Otherwise guessing could continue until it succeeds.
    if valid then
      refused := private.is_bucket_empty(bucket.subject, bucket.step, bucket.per);
    else
      refused := private.consume_attempt(
        bucket.subject, 'direct_password', bucket.scope, bucket.step, bucket.per, private.account_digest(account)
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

-- Hook that the identity backend calls after each check of a second factor, with { metadata, user_id, factor_id,
-- factor_type, valid }. A rejection ends all of the user's sessions, so the hook rejects only after ten failures of the
-- user's account in 15 minutes, counted across all addresses. For an addition that the database would refuse, returns an
-- error instead, which Supabase Auth passes on with its status and without ending a session
-- (internal/hooks/hookserrors of github.com/supabase/auth).
-- Definer: Supabase Auth's role may call the hook, but may not read our tables.
create or replace function private.mfa_verification_attempt(event jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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
  elsif private.consume_attempt(
    bucket.subject, 'direct_code', bucket.scope, bucket.step, bucket.per, private.account_digest(account)
  ) is not null then
    return private.hook_rejection();
  end if;
  if valid and private.is_refused_authenticator((event ->> 'user_id')::uuid, (event ->> 'factor_id')::uuid) then
    return jsonb_build_object('error', jsonb_build_object(
      'http_code', 403, 'message', 'This account accepts additions only on its security page.'
    ));
  end if;
  return '{"decision": "continue"}';
end
$$;

-- Returns whether an override is in force: neither revoked nor expired, nor used if it ends with its first use.
create or replace function private.is_override_active(override private.recovery_overrides) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select override.revoked_at is null and override.expires_at > now()
    and not (override.single_use and override.used_at is not null)
$$;

-- Returns the current override of an email; no row if there is none.
create or replace function private.active_recovery_override(of_email text) returns setof private.recovery_overrides
  language sql stable security invoker set search_path = ''
as $$
  select o.*
  from private.recovery_overrides o
  where o.email = lower(of_email) and private.is_override_active(o)
  order by o.created_at desc
  limit 1
$$;

-- Returns the limits on attempts: how many attempts are allowed per window, and what happens when none is left.
-- Every number of the abuse controls, with its reason. `address`: all attempts from one address. `pair`: one account
-- from one address. `account`: one account from any address. What happens when a bucket is empty:
-- - refuse: 429, with the time until the next attempt
-- - challenge: requires a bot challenge; without one the attempt is slowed down, never refused
-- - refuse_new: 429, unless the attempt carries a bot challenge or the address is verified for this account
-- - wait: sends no email, but gives the same answer
-- - repeat: does not try a code a second time, and answers as for a wrong code
create or replace function private.attempt_limits()
  returns table (action text, scope text, attempts integer, per interval, when_empty text)
  language sql immutable security invoker set search_path = ''
as $$
  values
    -- Enough for an office behind one address to sign in within minutes, including typing errors. Successes are
    -- refunded.
    ('password', 'address', 60, interval '10 minutes', 'refuse'),
    -- Ten attempts let a person try every password that they may have chosen. The bucket then refills at 40 an hour.
    ('password', 'pair', 10, interval '15 minutes', 'refuse'),
    -- Slows attacks on one account from many addresses. A challenge still lets the owner sign in from anywhere.
    ('password', 'account', 20, interval '1 hour', 'challenge'),
    -- Beyond this limit, an attempt needs a bot challenge, or an address that the account recently signed in from. NIST
    -- SP 800-63B allows 100 failures in a row.
    ('password', 'account_cap', 100, interval '1 hour', 'refuse_new'),

    ('code', 'address', 60, interval '10 minutes', 'refuse'),
    -- A code has six digits, and three codes are valid at any time. Allows five guesses, then twenty an hour.
    ('code', 'pair', 5, interval '15 minutes', 'refuse'),
    -- Only a person who knows the password is asked for a code. The limit is lower than the limit of the backend's
    -- hook, because a rejection by the hook ends all of the user's sessions.
    ('code', 'account', 8, interval '15 minutes', 'refuse'),

    -- Mailed sign-in codes. They have no account_cap, because strangers could use it to lock the owner out. No cap is
    -- needed: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    -- One attempt per code and account. Otherwise the identity backend would start a session for each concurrent
    -- request that uses the same code.
    ('redemption', 'account', 1, interval '1 hour', 'repeat'),

    -- Every email affects our reputation as a sender. The limit lets a class of thirty sign up in one lesson.
    ('mail', 'address', 30, interval '1 hour', 'refuse'),
    ('mail', 'pair', 5, interval '15 minutes', 'refuse'),
    ('mail', 'account', 10, interval '1 hour', 'challenge'),
    -- Strangers must not be able to flood a mailbox.
    ('mail', 'account_cap', 30, interval '1 hour', 'refuse_new'),
    ('sign_up', 'address', 30, interval '1 hour', 'refuse'),
    ('sign_up', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_up', 'account', 10, interval '1 hour', 'challenge'),
    ('sign_up', 'account_cap', 30, interval '1 hour', 'refuse_new'),

    -- Allows one email of each kind at a time. The identity backend records an email only after its mail server has
    -- accepted it, which can take seconds. A second request during that time would replace the link in the first email.
    ('sign_up_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('confirmation_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('recovery_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('email_change_mail', 'account', 1, interval '30 seconds', 'wait'),

    -- Per inviter, across workspaces: enough for a team, but not for bulk email to strangers.
    ('invitation', 'account', 10, interval '10 minutes', 'refuse'),
    ('invitation', 'account_cap', 50, interval '1 day', 'refuse'),

    -- Passkeys can't be guessed. This limits the load on the identity backend.
    ('passkey', 'address', 60, interval '10 minutes', 'refuse'),
    -- Every visit to an OAuth provider counts when it begins, even if the sign-in then succeeds.
    ('oauth', 'address', 120, interval '10 minutes', 'refuse'),
    -- A signed-in person's changes of password or email address. Each hashes a password or sends an email.
    ('credential', 'address', 60, interval '10 minutes', 'refuse'),
    ('credential', 'pair', 20, interval '1 hour', 'refuse'),

    -- Under a recovery override, these limits replace the limits on passwords per email. Guesses made before the
    -- override do not count, but later guesses stay limited.
    ('override_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('override_password', 'account', 100, interval '1 hour', 'refuse'),

    -- Wrong app secrets. A 256-bit secret can't be guessed, so this only limits the load on the database.
    ('app_secret', 'address', 60, interval '10 minutes', 'refuse'),
    -- Sign-ins to apps. Each adds a row that is kept for a day.
    ('handoff', 'account', 120, interval '10 minutes', 'refuse'),

    -- Clients that register themselves, and metadata documents that we fetch for a signed-in person. Each adds rows.
    ('client_registration', 'address', 20, interval '1 hour', 'refuse'),
    ('client_document', 'address', 60, interval '10 minutes', 'refuse'),
    ('client_document', 'account', 30, interval '10 minutes', 'refuse'),
    -- Authorization requests that are kept for ten minutes: from browsers and public clients by address, enough for an
    -- office whose people all sign in; pushed by a client with a secret by client, ten a second.
    ('authorization_request', 'address', 300, interval '10 minutes', 'refuse'),
    ('authorization_request', 'account', 6000, interval '10 minutes', 'refuse'),

    -- A device's requests for a user code (RFC 8628). Each adds a row that is kept for a day.
    ('device_authorization', 'address', 60, interval '10 minutes', 'refuse'),
    -- User codes have 34 bits and live for 10 minutes (RFC 8628 section 5.1). A correct code does not use up an
    -- attempt.
    ('user_code', 'address', 30, interval '10 minutes', 'refuse'),
    ('user_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- A service account's requests to the admin API: ten a second, so that a loop in a script doesn't slow the platform.
    ('admin_api', 'account', 600, interval '1 minute', 'refuse'),

    -- Direct calls to the identity backend, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this bucket is empty, which must happen only under attack
    -- (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts made despite a refusal. The address is blocked when this bucket is empty.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

-- Takes one attempt from a bucket and returns null. If the bucket is empty, leaves it unchanged and returns the time
-- until an attempt is available. of_account is the digest of the account that the bucket counts
-- (private.account_digest), by which the console finds what locks an account.
create or replace function private.consume_attempt(
  bucket bytea, of_action text, of_scope text, step interval, per interval, of_account bytea default null
)
  returns interval
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  wait interval;
begin
  -- Uses one statement, so that a concurrent caller waits for the row and then sees the updated full_at.
  insert into private.rate_limits as r (subject, action, scope, full_at, account)
  values (bucket, of_action, of_scope, now() + step, of_account)
  on conflict (subject) do update
    set full_at = greatest(r.full_at, now()) + step, account = excluded.account
    where greatest(r.full_at, now()) + step <= now() + per;
  if found then
    return null;
  end if;
  -- The statement above locks the row even if it takes nothing, so full_at is current.
  select r.full_at + step - per - now() into strict wait from private.rate_limits r where r.subject = bucket;
  return wait;
end
$$;

-- Returns the digest by which an account's buckets of all actions and addresses are found. The account is named as for
-- private.attempt_pair.
create or replace function private.account_digest(account text) returns bytea
  language sql stable security invoker set search_path = ''
as $$
  select private.attempt_digest('account', account)
$$;

-- Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent,
-- provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed, proven }], otherSessions: { key,
-- count, isNew }, serviceAccounts: [{ id, name, workspaceId, workspace, addedAt, lastUsedAt, endsAt }] }. Returns null if
-- the account doesn't exist. The entries come from private.account_credentials; an app and a device's login have one
-- entry each. ways contains at most max_sessions sessions: the calling session, then the most recently refreshed.
-- otherSessions counts the remaining sessions, up to 1,001. kind is password, identity,
-- passkey, authenticator, recovery_codes, recovery_mail, session, phone_approval, app, device or agent. isNew is true
-- if the entry was added after the owner last confirmed the list or, without a confirmation, after the account was
-- created. In a session that began with a password reset or recovery, only confirmations by such sessions count. proven
-- is true for the authenticator whose code the calling session entered, which shows that the caller has that app.
-- device and address are null if no event records where the entry was added. serviceAccounts has those that the owner is
-- responsible for and that work; they are revoked on pages of their own.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, max_sessions integer default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- A session that began with a password reset or recovery counts only confirmations by such sessions. An intruder
    -- who knew the password could have confirmed their own additions in any other session.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      c.listed_as as key,
      split_part(c.listed_as, ':', 1) as kind,
      nullif(split_part(c.listed_as, ':', 2), '') as id,
      -- A client may act for the account at several resources.
      string_agg(distinct c.name, ', ') as name,
      null::text as user_agent,
      null::text as address,
      max(c.provider) as provider,
      -- An app that was connected several times counts as added at its latest connection.
      max(case
        -- Supabase Auth creates a new account and its first identity in one call, but reads the clock twice.
        when c.kind = 'identity' and c.added_at < a.created_at + interval '500 milliseconds' then a.created_at
        else c.added_at
      end) as added_at,
      max(case when c.kind = 'password' then (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) else c.last_used_at end) as last_used_at,
      (array_agg(case
        when c.kind = 'password' then (
          select v.id
          from public.security_events v
          where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
          order by v.created_at desc, v.id
          limit 1
        )
        when c.kind = 'identity' then private.addition_event(a.id, c.id, 'identity_linked')
        when c.kind = 'passkey' then private.addition_event(a.id, c.id, 'passkey_added')
        when c.kind = 'authenticator' then private.addition_event(a.id, c.id, 'authenticator_added')
        when c.kind = 'device_request' then private.addition_event(a.id, c.id, 'device_approved')
        when c.session_id is null then private.addition_event(a.id, c.source_id, 'device_approved')
        else private.sign_in_event(a.id, c.session_id)
      end order by c.added_at desc, c.id))[1] as event_id
    from account a
    join private.account_credentials c on c.user_id = a.id
    where c.kind not in ('session', 'service_account')
      and c.is_live
      and (c.kind <> 'identity' or c.provider not in ('email', 'phone'))
      -- An approval of the calling session is part of that session.
      and (c.kind <> 'phone_approval' or c.session_id is distinct from actor_session_id)
    group by c.listed_as

    union all
    select
      'session:' || s.id, 'session', s.id::text, s.device, s.user_agent, s.ip, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => max_sessions) s
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', w.key,
        'kind', w.kind,
        'id', w.id,
        'name', case w.kind
          when 'device' then w.name || coalesce(' (' || (e.details ->> 'requester') || ')', '')
          else w.name
        end,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then w.address else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null,
        'proven', w.kind = 'authenticator' and exists (
          select
          from auth.sessions s
          where s.id = actor_session_id and s.user_id = a.id and s.aal = 'aal2' and s.factor_id::text = w.id
        )
      ) order by array_position(array[
        'password', 'identity', 'passkey', 'authenticator', 'recovery_codes', 'recovery_mail', 'session',
        'phone_approval', 'app', 'device', 'agent'
      ], w.kind), d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- The row may be older than the addition: an authenticator's row dates from the start of enrolment, a link's from
      -- the visit to the provider, and a copied session's from the original sign-in.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, max_sessions),
        'isNew', exists (
          select
          from private.account_credentials c
          where c.user_id = a.id and c.kind = 'session' and c.is_live and c.added_at > a.since
            and c.listed_as not in (select w.key from ways w)
        )
      )
      from private.count_account_sessions(a.id, max_sessions + 1001) as c (sessions)
    ),
    'serviceAccounts', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id,
        'name', c.name,
        'workspaceId', w.id,
        'workspace', w.name,
        'addedAt', c.added_at,
        'lastUsedAt', c.last_used_at,
        'endsAt', c.ends_at
      ) order by c.added_at, c.id), '[]')
      from private.account_credentials c
      left join public.workspaces w on w.id = (c.record ->> 'workspaceId')::uuid
      where c.user_id = a.id and c.kind = 'service_account' and c.is_live and w.deleted_at is null
    )
  )
  from account a
$$;

-- Returns { confirmedAt, unconfirmed: [id], others }. confirmedAt is when the owner last confirmed the list that
-- private.account_access returns. unconfirmed contains the ids of the unconfirmed additions. others is the number of
-- apps, devices and agents that act for the account and don't end with the given session.
-- Definer: row-level security hides the account's confirmations and unconfirmed additions.
create or replace function private.access_state(subject_id uuid, actor_session_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'confirmedAt', (
      select case when private.began_by_mail(subject_id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
      from private.access_confirmations c
      where c.user_id = subject_id
    ),
    'unconfirmed', (
      select coalesce(jsonb_agg(n.target_id order by n.created_at, n.target_id), '[]')
      from private.unconfirmed_additions n
      where n.user_id = subject_id
    ),
    'others', (
      select count(distinct c.listed_as)
      from private.account_credentials c
      where c.user_id = subject_id
        and c.kind not in ('session', 'service_account')
        and not c.is_method
        and c.session_id is distinct from actor_session_id
        and c.is_live
    )
  )
$$;

create or replace view private.account_credentials with (security_invoker = true) as
select
  c.*,
  c.kind || ':' || c.id as key,
  c.is_active
    and coalesce(c.ends_at > now(), true)
    and (c.proof is not distinct from null or private.proof_status(c.proof) <> 'over') as is_live
from (
  select a.* from private.auth_credentials() a

  union all
  select
    c.user_id, 'recovery_code', c.id, 'recovery_codes', true, null, null, null, null, null, null, c.created_at,
    c.created_at, c.used_at, null,
    c.completed_at is null and coalesce(c.used_at > now() - interval '24 hours', true),
    jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at)
  from private.mfa_recovery_codes c

  union all
  select
    t.user_id, 'app_handoff', t.id, 'app:' || a.name, false, a.id, null, null, null, a.display_name, null,
    t.created_at, t.created_at, null, t.expires_at, t.redeemed_at is null and t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
    )
  from private.cross_app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    s.user_id, 'app_session', s.id, 'app:' || a.name, false, a.id, s.handoff_id, (s.proof).session_id, s.proof,
    a.display_name, null, s.created_at, s.created_at, s.issued_at, least(s.expires_at, s.ends_at),
    s.revoked_at is null,
    jsonb_build_object(
      'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
      'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
    )
  from private.app_sessions s
  join private.apps a on a.id = s.app_id

  union all
  select
    t.user_id, 'app_token', t.id, 'app:' || a.name, false, a.id, t.family_id, (t.proof).session_id, t.proof,
    a.display_name, null, t.created_at, t.handed_over_at, t.created_at,
    case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end, t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
      'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
    )
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    c.user_id, 'openid_code', c.id, 'app:' || a.name, false, a.id, null, (c.proof).session_id, c.proof,
    a.display_name || coalesce(' for ' || r.display_name, ''), null, c.created_at, c.created_at, null, c.expires_at,
    c.redeemed_at is null and c.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'app', a.name, 'resource', r.resource_url, 'scopes', c.scopes, 'createdAt', c.created_at,
      'redeemedAt', c.redeemed_at, 'revokedAt', c.revoked_at
    )
  from private.authorization_codes c
  join private.apps a on a.id = c.app_id
  left join private.apps r on r.id = c.resource_id

  union all
  select
    d.user_id, 'device_request', d.id, 'device:' || d.id, false, a.id, null, null, d.proof, a.display_name, null,
    d.created_at, coalesce(d.approved_at, d.created_at), null, least(d.expires_at, d.valid_until),
    d.approved_at is not null and d.redeemed_at is null,
    jsonb_build_object(
      'id', d.id, 'app', a.name, 'scopes', d.scopes, 'ip', host(d.ip), 'userAgent', d.user_agent, 'place', d.place,
      'createdAt', d.created_at, 'approvedAt', d.approved_at, 'deniedAt', d.denied_at, 'redeemedAt', d.redeemed_at
    )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id

  union all
  -- Only the login of a device has no session.
  select
    g.user_id, 'openid_login', g.id,
    case when (g.proof).session_id is null then 'device:' || g.source_id else 'app:' || a.name end,
    false, a.id, g.source_id, (g.proof).session_id, g.proof,
    a.display_name || coalesce(' for ' || r.display_name, ''), null, g.created_at, g.created_at,
    (select max(t.created_at) from private.openid_tokens t where t.grant_id = g.id), g.ends_at, g.revoked_at is null,
    jsonb_build_object(
      'id', g.id, 'app', a.name, 'resource', r.resource_url, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
      'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
      'revokedAt', g.revoked_at
    )
  from private.openid_grants g
  join private.apps a on a.id = g.app_id
  left join private.apps r on r.id = g.resource_id

  union all
  select
    c.user_id, 'agent_connection', c.id, 'agent:' || c.id, false, null, c.login_id, (g.proof).session_id, g.proof,
    ai.agent_name(c.tool) || ' on ' || c.host, null, c.created_at, c.created_at,
    (select max(k.last_used_at) from ai.keys k where k.connection_id = c.id), g.ends_at,
    c.revoked_at is null and g.id is not null and g.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'workspaceId', c.workspace_id, 'tool', c.tool, 'host', c.host, 'createdAt', c.created_at,
      'revokedAt', c.revoked_at
    )
  from ai.agent_connections c
  left join private.openid_grants g on g.id = c.login_id

  union all
  -- Listed for the person who is responsible for it. Nothing that ends an account's access ends it, like a workspace's
  -- keys, because it is not the person's: production must not stop when somebody signs out.
  select
    s.created_by, 'service_account', s.id, 'service_account:' || s.id, false, null, null, null, null, s.name, null,
    s.created_at, s.created_at, s.last_used_at, s.expires_at, s.enabled and s.revoked_at is null,
    jsonb_build_object(
      'id', s.id, 'workspaceId', s.workspace_id, 'name', s.name, 'scopes', s.scopes, 'createdAt', s.created_at,
      'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
    )
  from private.service_accounts s
  where s.created_by is not null
) as c;

-- Deletes an account at its owner's request. Returns what private.end_account returns.
-- Definer: the service role may not delete from the identity backend's tables.
create or replace function private.delete_account(subject_id uuid, request_id text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  answer jsonb := private.end_account(subject_id);
begin
  insert into private.admin_audit_log (action, target, reason, request_id)
  select 'account.deleted', subject_id::text, 'Deleted by its owner', delete_account.request_id
  where (answer ->> 'deleted')::boolean;
  return answer;
end
$$;

-- Deletes an account with its dependent rows, unless a workspace would be left without an owner. Returns { deleted,
-- blockers: [{ workspaceId, name, members }] }. Runs, ledger entries, costs and invoices remain. They identify the
-- account only by its id. The check and the deletion must share one transaction, which the identity backend's own API
-- can't offer. For definers; not granted to any role.
create or replace function private.end_account(subject_id uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  blockers jsonb;
begin
  -- Takes this lock before any row lock, as private.serialize_account_deletions does for every deletion.
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  -- Locks the account before its dependent rows. Changes to its sessions or app credentials take these locks in the
  -- same order.
  perform from auth.users u where u.id = subject_id for update;
  -- Locks memberships and invitations before their workspaces, in the same order as leaving a workspace, changing a
  -- role and accepting an invitation.
  perform from public.workspace_members m where m.user_id = subject_id order by m.workspace_id for update;
  perform
  from public.workspace_invitations i
  where subject_id in (i.invited_by, i.accepted_by)
  order by i.id
  for update;
  -- Prevents joining and leaving these workspaces between the check and the deletion.
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
  return jsonb_build_object('deleted', true, 'blockers', '[]'::jsonb);
end
$$;

-- Returns everything stored about an account except its AI runs, without secrets, hashes or codes. Returns null if the
-- account doesn't exist. If with_parts is false, the lists that private.export_account_part can return are empty.
-- Definer: the functions that it calls are not granted to any role.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens', 'openidLogins', 'openidCodes', 'deviceLogins', 'openidConsents', 'agentConnections', 'agentAccess',
      'serviceAccounts'
    ]) as p (part)
  )
$$;

-- Returns the fields of private.export_account whose size does not grow with use, and the credits with their ledger.
-- Definer: the service role may not read the identity backend's tables.
create or replace function private.export_account_proper(subject_id uuid, with_parts boolean) returns jsonb
  language sql stable security definer set search_path = ''
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
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'credits', (
      select jsonb_build_object('balance', a.balance::text, 'ledger', private.export_whole_part(u.id, 'ledger', with_parts))
      from ai.credit_accounts a where a.user_id = u.id
    )
  ) || (
    -- Reads the view once for all kinds, because planning it takes far longer than reading it.
    select jsonb_object_agg(l.list, coalesce(r.records, '[]'))
    from (
      values ('linkedAccounts', 'identity'), ('authenticators', 'authenticator'), ('recoveryCodes', 'recovery_code'),
        ('passkeys', 'passkey')
    ) as l (list, kind)
    left join (
      select c.kind, jsonb_agg(c.record order by c.created_at, c.id) as records
      from private.account_credentials c
      where c.user_id = subject_id and c.kind in ('identity', 'authenticator', 'recovery_code', 'passkey')
      group by c.kind
    ) r using (kind)
  )
  from auth.users u
  where u.id = subject_id
$$;

-- Returns a page of one list of private.export_account, oldest record first. part names the list: sessions,
-- securityEvents, approvals, workspaces, invitations, keys, appHandoffs, appSessions, appTokens, openidLogins,
-- openidCodes, deviceLogins, openidConsents, agentConnections, agentAccess, serviceAccounts or ledger (of credits). after
-- is the last record of the previous page. If page_size is null, returns all records. Credentials come from
-- private.account_credentials.
-- Definer: the service role may not read the identity backend's tables.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  credential_kind text := case part
    when 'sessions' then 'session'
    when 'approvals' then 'phone_approval'
    when 'appHandoffs' then 'app_handoff'
    when 'appSessions' then 'app_session'
    when 'appTokens' then 'app_token'
    when 'openidLogins' then 'openid_login'
    when 'openidCodes' then 'openid_code'
    when 'deviceLogins' then 'device_request'
    when 'agentConnections' then 'agent_connection'
    when 'serviceAccounts' then 'service_account'
  end;
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if credential_kind is not null then
    return query
      select c.record
      from private.account_credentials c
      where c.user_id = subject_id
        and c.kind = credential_kind
        and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'place', e.place, 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'openidConsents' then
    return query
      select jsonb_build_object(
        'id', c.id, 'app', a.name, 'resource', r.resource_url, 'scopes', c.scopes, 'createdAt', c.granted_at
      )
      from private.openid_consents c
      join private.apps a on a.id = c.app_id
      left join private.apps r on r.id = c.resource_id
      where c.user_id = subject_id and (c.granted_at, c.id) > (last_at, last_id)
      order by c.granted_at, c.id
      limit page_size;
  elsif part = 'agentAccess' then
    return query
      select jsonb_build_object(
        'id', a.workspace_id, 'state', a.state, 'tool', a.tool, 'host', a.host, 'createdAt', a.requested_at,
        'answeredAt', a.answered_at
      )
      from ai.agent_access a
      where a.user_id = subject_id and (a.requested_at, a.workspace_id) > (last_at, last_id)
      order by a.requested_at, a.workspace_id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

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

-- Returns whether the owner is emailed about events of this kind. Excludes sign-ins, which are emailed only if they
-- come from a new location.
create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'deletion_canceled', 'deletion_requested',
    'device_approved', 'email_changed', 'identity_linked', 'identity_unlinked', 'mfa_made_optional', 'mfa_required',
    'other_sessions_revoked', 'passkey_added', 'passkey_removed', 'password_added', 'password_changed',
    'password_removed', 'recovery_code_sign_in', 'recovery_code_used', 'recovery_codes_created', 'session_revoked',
    'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

-- Records a new password, a requested or completed change of email, a ban, and the end of a ban. A completed change of
-- email is announced to both addresses. Skips a ban that private.write_ban changes.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_account_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  event_id uuid;
begin
  -- Before its address is confirmed, an account has no owner; a deleted account has none any more.
  if new.deleted_at is not null or old.email_confirmed_at is null and old.last_sign_in_at is null then
    return null;
  end if;

  if coalesce(new.encrypted_password, '') <> '' and private.is_new_password(old.encrypted_password, new.encrypted_password) then
    perform private.add_account_event(
      new.id, case when coalesce(old.encrypted_password, '') = '' then 'password_added' else 'password_changed' end
    );
  end if;

  if coalesce(new.email_change, '') not in ('', coalesce(old.email_change, '')) then
    perform private.add_account_event(
      new.id, 'email_change_requested', details => jsonb_build_object('to', new.email_change)
    );
  end if;
  if lower(coalesce(new.email, '')) <> lower(coalesce(old.email, '')) then
    event_id := private.add_account_event(
      new.id, 'email_changed', details => jsonb_strip_nulls(jsonb_build_object(
        'from', nullif(old.email, ''), 'to', nullif(new.email, '')
      ))
    );
    perform private.queue_event_mail(e, old.email) from public.security_events e where e.id = event_id;
    -- An invitation admits one account, not one after each change of email.
    update private.account_invitations i
    set revoked_at = now()
    where i.email = lower(old.email) and i.revoked_at is null;
  end if;

  if current_setting('gatehouse.ban_writer', true) = 'on' then
    return null;
  elsif (old.banned_until > now()) is not true and new.banned_until > now() then
    -- An account that is created banned, such as an imported one, was never in use: its owner needs no mail.
    if not exists (select from public.profiles p where p.id = new.id and p.created_at = now()) then
      perform private.add_account_event(new.id, 'account_banned');
    end if;
  elsif old.banned_until > now() and (new.banned_until > now()) is not true then
    perform private.add_account_event(new.id, 'account_unbanned');
  end if;
  return null;
exception when others then
  raise warning 'an account''s change was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Deletes app credentials a day after they end, expired authorization requests, expired tokens and assertions of service
-- accounts, and clients that registered themselves once they expire, up to at_most of each kind. Returns how many it
-- deleted; 0 while another sweep runs.
create or replace function private.sweep_app_credentials(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted_count integer := 0;
  part integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- Disabling an app and closing an account lock these rows in another order, so locked ones are left to the next
  -- sweep.
  deleted_count := deleted_count + private.delete_expired_rows('private.cross_app_tokens', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.app_sessions', 'ends_at', '1 day', at_most);
  -- A used refresh token is kept until it would have expired, so that its reuse is detected.
  deleted_count := deleted_count + private.delete_expired_rows('ai.app_tokens', 'refresh_expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.authorization_requests', 'expires_at', '0', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.authorization_codes', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.device_authorizations', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.service_tokens', 'expires_at', '0', at_most);
  -- The hour covers servers whose clocks are behind: one could accept the assertion again.
  deleted_count := deleted_count + private.delete_expired_rows('private.used_assertions', 'expires_at', '1 hour', at_most);
  -- A disabled client is kept, so that it can't register again.
  delete from private.apps a
  where a.id in (
    select c.app_id
    from private.openid_clients c
    join private.apps o on o.id = c.app_id and o.enabled
    where c.expires_at < now()
    order by c.expires_at
    limit at_most
    for update of o skip locked
  );
  get diagnostics part = row_count;
  deleted_count := deleted_count + part;
  -- Tokens are deleted together with their grant. Until then, used refresh tokens are kept so that their reuse is
  -- detected.
  return deleted_count + private.delete_expired_rows('private.openid_grants', 'ends_at', '1 day', at_most);
end
$$;

-- Returns an account for the console: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt,
-- bannedUntil, deletion, consoleRole, methods, factors, sessions, sessionCount, others }; null if the account doesn't
-- exist. deletion is { dueAt, reason, blockers } if its deletion is scheduled. methods comes from
-- private.list_sign_in_methods. sessions contains the 50 sessions that were refreshed last, and sessionCount counts up to
-- 1,001. others contains apps, devices, agents and everything else that acts for the account, as private.account_access
-- lists it. Contains no secret. Until 0.5.0: servers of release 0.3.0 require infrastructureAdmin.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'id', u.id,
    'email', u.email,
    'displayName', (select p.display_name from public.profiles p where p.id = u.id),
    'singleSignOn', u.is_sso_user,
    'createdAt', u.created_at,
    'confirmedAt', u.email_confirmed_at,
    'lastSignInAt', u.last_sign_in_at,
    'bannedUntil', case when u.banned_until > now() then u.banned_until end,
    'deletion', (
      select jsonb_build_object('dueAt', d.due_at, 'reason', d.reason, 'blockers', coalesce(d.last_blockers, '[]'))
      from private.account_deletions d
      where d.user_id = u.id
    ),
    'consoleRole', private.console_role(u.id),
    'infrastructureAdmin', private.is_infrastructure_admin(u.id),
    'methods', private.list_sign_in_methods(u.id),
    'factors', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id,
        'name', c.name,
        'type', c.record -> 'type',
        'verified', c.is_active,
        'createdAt', c.created_at,
        'lastUsedAt', c.last_used_at
      ) order by c.created_at, c.id), '[]')
      from private.account_credentials c
      where c.user_id = u.id and c.kind = 'authenticator'
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id,
        'createdAt', s.created_at,
        'lastSeenAt', s.last_seen_at,
        'ip', s.ip,
        'device', s.device,
        'userAgent', s.user_agent,
        'method', s.method,
        'aal', s.aal
      ) order by s.last_seen_at desc, s.id), '[]')
      from private.account_sessions(u.id, page_size => 50) s
    ),
    'sessionCount', private.count_account_sessions(u.id),
    'others', (
      select coalesce(jsonb_agg(w order by w ->> 'addedAt' desc, w ->> 'key'), '[]')
      from jsonb_array_elements(private.account_access(u.id, null, 0) -> 'ways') as w
      where w ->> 'kind' not in ('password', 'identity', 'passkey', 'authenticator')
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

-- Signs an account out of every device and app and notifies the account's owner. Takes { actor or serviceAccount,
-- subject, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself | protected (a service
-- account changes no account with a role in the console) }. Idempotent.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  sessions bigint;
  ended_count integer;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  sessions := private.count_account_sessions(account.id);
  ended_count := private.end_all_access(account.id);
  perform private.add_account_event(account.id, 'signed_out_by_admin') where ended_count > 0;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.sign_out',
    'targetUserId', account.id,
    'target', account.email,
    'before', jsonb_build_object('sessions', sessions),
    'after', jsonb_build_object('sessions', 0)
  ));
  return '{}';
end
$$;

-- Returns a page of what an account's owner did and what admins did to the account, newest first: [{ id, source: event
-- | audit, kind, method, device, ip, reason, actorEmail, requestId, createdAt }]. before is { createdAt, id } of the
-- last entry on the previous page.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_timeline(subject_id uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the account's entire history.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', t.id,
      'source', t.source,
      'kind', t.kind,
      'method', t.method,
      'device', t.device,
      'ip', host(t.ip),
      'reason', t.reason,
      'actorEmail', coalesce(
        (select a.email from auth.users a where a.id = t.actor_id),
        private.service_account_label(t.service_account_name)
      ),
      'requestId', t.request_id,
      'createdAt', t.created_at
    ) order by t.created_at desc, t.id desc), '[]')
    from (
      (
        select e.id, 'event' as source, e.kind, e.method, e.device, e.ip, null as reason, null::uuid as actor_id,
          null as service_account_name, null as request_id, e.created_at
        from public.security_events e
        where e.user_id = subject_id and (e.created_at, e.id) < (last_at, last_id)
        order by e.created_at desc, e.id desc
        limit page_size
      )
      union all
      (
        select l.id, 'audit', l.action, null, null, l.ip, l.reason, l.actor_id, l.service_account_name, l.request_id,
          l.created_at
        from private.admin_audit_log l
        where l.target_user_id = subject_id and (l.created_at, l.id) < (last_at, last_id)
        order by l.created_at desc, l.id desc
        limit page_size
      )
      order by created_at desc, id desc
      limit page_size
    ) t
  );
end
$$;

-- Lifts an address block. Takes { actor, block, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found
-- | conflict | expired }. If the block was already lifted, returns { refused: conflict, last: { actorEmail, at } },
-- where last describes the latest change that an admin made to the address. Rate limits still apply, and a lifted block
-- does not lengthen the next one.
create or replace function private.lift_address_block(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  block private.address_blocks;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into block from private.address_blocks b where b.id = (change ->> 'block')::uuid for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if block.lifted_at is not null then
    return jsonb_build_object(
      'refused', 'conflict', 'last', private.last_admin_action(format('address %s', block.address::inet))
    );
  end if;
  if block.blocked_until <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  perform private.end_address_block(block, change);
  return '{}';
end
$$;

-- Lifts all blocks of an address's network, or of an account's recent networks. Returns these networks, or null if the
-- account doesn't exist. Only the operator's command line calls this function, for admins whose address is blocked.
-- Writes the audit log without an actor.
-- Definer: accounts and sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.unblock_address(
  reason text, of_address inet default null, account_email text default null
)
  returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account_id uuid;
  networks cidr[];
  block private.address_blocks;
  lifted inet[] := '{}';
begin
  if num_nonnulls(of_address, account_email) <> 1 or coalesce(trim(reason), '') = '' then
    raise exception 'name an address or an account, and a reason' using errcode = 'invalid_parameter_value';
  end if;
  if of_address is not null then
    networks := array[private.address_network(of_address)];
  else
    select u.id into account_id
    from auth.users u
    where lower(u.email) = lower(account_email) and u.deleted_at is null and not u.is_sso_user;
    if not found then
      return null;
    end if;
    networks := private.recent_networks(account_id);
  end if;
  -- A block that another caller lifts meanwhile no longer matches once its row is locked.
  for block in
    select b.*
    from private.address_blocks b
    where b.address = any (networks) and b.lifted_at is null and b.blocked_until > now()
    order by b.id
    for update
  loop
    perform private.end_address_block(block, jsonb_build_object('reason', reason));
    lifted := lifted || block.address::inet;
  end loop;
  return (select coalesce(jsonb_agg(distinct l.address), '[]') from unnest(lifted) as l (address));
end
$$;

-- Ends a block that is in force, and writes the audit log. The caller has locked the block.
create or replace function private.end_address_block(block private.address_blocks, change jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.address_blocks b
  set lifted_at = now(), lifted_by = (change ->> 'actor')::uuid, lift_reason = change ->> 'reason'
  where b.id = block.id;
  select private.record_admin_action(change, jsonb_build_object(
    'action', 'address_block.lift',
    'target', format('address %s', block.address::inet),
    'before', jsonb_build_object('blockedUntil', block.blocked_until, 'level', block.level),
    'after', jsonb_build_object('blockedUntil', null)
  ));
$$;

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

-- Registers an app with its first secret, or without one. The change is { actor, name, displayName, kind, origins,
-- scopes, logoutUrl, secretHash (the text of a bytea, or null), reason, requestId, ip }. Returns {} or { refused:
-- forbidden | taken (the name or an origin) | invalid }.
create or replace function private.add_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  if not private.may_change_console(change, 'admin:apps:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'kind' = 'openid' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', change ->> 'kind',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.app_origins (origin, app_id)
    select o, app.id from jsonb_array_elements_text(change -> 'origins') as o;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  insert into private.app_secrets (app_id, secret_hash)
  select app.id, (change ->> 'secretHash')::bytea where change ->> 'secretHash' is not null;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'targetName', app.display_name,
    'after', private.describe_app(app.id)
  ));
  return '{}';
end
$$;

-- Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The step
-- edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has secretHash (the
-- text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client allows only enable,
-- disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is outdated; last is
-- private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace | oneself (the link of
-- the actor's personal workspace) }.
create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  old_app jsonb;
begin
  if not private.may_change_console(change, 'admin:apps:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: an admin who saw another state of the app must decide again.
  old_app := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if old_app ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if app.kind = 'openid' and step not in ('enable', 'disable', 'rotate') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes')),
        backchannel_logout_uri = change ->> 'logoutUrl'
      where a.id = app.id;
      delete from private.app_origins o
      where o.app_id = app.id and o.origin not in (select jsonb_array_elements_text(change -> 'origins'));
      insert into private.app_origins (origin, app_id)
      select n, app.id from jsonb_array_elements_text(change -> 'origins') as n
      where not exists (select from private.app_origins o where o.app_id = app.id and o.origin = n);
    exception
      when unique_violation then
        return jsonb_build_object('refused', 'taken');
      when check_violation then
        return jsonb_build_object('refused', 'invalid');
    end;
  elsif step in ('enable', 'disable') then
    update private.apps a set enabled = step = 'enable' where a.id = app.id;
  elsif step = 'link' then
    if app.kind <> 'external' or not exists (
      select from public.workspaces w where w.id = linked and w.deleted_at is null
    ) then
      return jsonb_build_object('refused', 'no_workspace');
    end if;
    -- What a linked app uses costs the workspace no credits.
    if exists (
      select from public.workspaces w where w.id = linked and private.is_responsible(change, w.personal_user_id)
    ) then
      return jsonb_build_object('refused', 'oneself');
    end if;
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, linked, (change ->> 'actor')::uuid)
    on conflict do nothing;
  elsif step = 'unlink' then
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = linked;
  elsif step = 'rotate' then
    if overlap is null or overlap not between interval '0' and interval '24 hours'
      or exists (select from private.openid_clients c where c.app_id = app.id and c.is_public)
    then
      return jsonb_build_object('refused', 'invalid');
    end if;
    delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
    -- Never extends the life of a secret.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'targetName', app.display_name,
    'before', old_app - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

-- Returns recoveries that are begun and not finished, the oldest first: resets of authenticators, which keep an account
-- closed until an admin finishes them, and active overrides that have not been used. ends_at is an override's. Reads the
-- log of the last 90 days, and only the accounts that it names. Not granted to any role.
create or replace function private.unfinished_recoveries(max_rows integer)
  returns table (kind text, user_id uuid, email text, since timestamptz, ends_at timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select 'reset', l.user_id, a.email, l.since, null::timestamptz
  from (
    select g.target_user_id as user_id, max(g.created_at) as since
    from private.admin_audit_log g
    where g.created_at > now() - interval '90 days' and g.action = 'required_mfa.begin_reset'
    group by g.target_user_id
  ) l
  cross join lateral (
    select u.email::text
    from auth.users u
    where u.id = l.user_id and u.deleted_at is null
      and private.required_mfa_state(u.raw_app_meta_data) = 'recovery_in_progress'
    -- Otherwise, Postgres could read all accounts.
    offset 0
  ) a
  union all
  select 'override', null, o.email, o.created_at, o.expires_at
  from private.recovery_overrides o
  where o.revoked_at is null and o.expires_at > now() and o.used_at is null
  order by 4, 3
  limit max_rows
$$;

-- Returns a page of the audit log, newest first. The reader is a token's verified claims, or {} for a service account.
-- Returns null if the reader or service account may no longer read the log. The filters are action (exact, or a prefix
-- that ends with a dot), actor (part of an email address or a service account's label), target (part of an email
-- address, name or other target, or a user's id), from and to (exclusive). The argument before is { createdAt, id } of the last line on the previous page.
-- before and after of a line have numbers as exact text. targetKind and targetId are kind and id of
-- private.audit_target.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_audit_log(
  reader jsonb,
  filters jsonb,
  before jsonb default null,
  page_size integer default 50,
  service_account uuid default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the whole log for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_action text := filters ->> 'action';
  of_actor text := lower(filters ->> 'actor');
  of_target text := lower(filters ->> 'target');
  named_targets text[];
  starts_at timestamptz := coalesce((filters ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filters ->> 'to')::timestamptz, 'infinity');
  last_at timestamptz := coalesce((search_audit_log.before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((search_audit_log.before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if not (
    service_account is null and private.can_read_console(reader)
    or private.service_account_may(service_account, 'admin:audit:read')
  ) then
    return null;
  end if;
  if of_target is not null then
    named_targets := private.targets_named(of_target);
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', l.id,
      'actorEmail', coalesce(l.actor_email, private.service_account_label(l.service_account_name)),
      'serviceAccountId', l.service_account_id,
      'action', l.action,
      'targetUserId', l.target_user_id,
      'target', l.target,
      'targetName', coalesce(l.target_name, t.name),
      'targetKind', t.kind,
      'targetId', t.id,
      'reason', l.reason,
      'before', private.with_exact_numbers(l.before),
      'after', private.with_exact_numbers(l.after),
      'requestId', l.request_id,
      'ip', host(l.ip),
      'createdAt', l.created_at
    ) order by l.created_at desc, l.id desc), '[]')
    from (
      select a.*, u.email as actor_email
      from private.admin_audit_log a
      left join auth.users u on u.id = a.actor_id
      where a.created_at >= starts_at
        and a.created_at < ends_at
        and (a.created_at, a.id) < (last_at, last_id)
        and (of_action is null or a.action = of_action or of_action like '%.' and starts_with(a.action, of_action))
        and (
          of_actor is null
          or position(of_actor in lower(coalesce(u.email, private.service_account_label(a.service_account_name)))) > 0
        )
        and (
          of_target is null
          or position(of_target in lower(concat_ws(' ', a.target, a.target_name))) > 0
          or a.target_user_id::text = of_target
          or a.target = any (named_targets)
        )
      order by a.created_at desc, a.id desc
      limit page_size
    ) l
    left join lateral private.audit_target(l.target) t on true
  );
end
$$;

-- Returns what the console shows of a target now: the kind of page that it has, with the id in the page's address, and
-- its current name, for entries that keep none. Returns no row if it is deleted or has no page. Has no settings of its
-- own, so Postgres inlines it.
create or replace function private.audit_target(target text) returns table (kind text, id text, name text)
  language sql stable security invoker
as $$
  select f.kind, p.id, f.name
  from (
    select m[1] as kind, m[2] as id
    from regexp_match(
      target,
      '^((?:document of )?platform invoice|platform month|workspace|member|app|model|plan|provider|address|service account) (.+)$'
    ) m
  ) p
  cross join lateral (
    select 'workspace', w.name::text
    from public.workspaces w
    where p.kind = 'workspace' and w.id = private.uuid_or_null(p.id) and w.deleted_at is null
    union all
    select 'member', u.email::text
    from auth.users u
    where p.kind = 'member' and u.id = private.uuid_or_null(p.id) and u.deleted_at is null
    union all
    select case a.kind when 'openid' then 'openid_client' else 'app' end, a.display_name
    from private.apps a
    where p.kind = 'app' and a.name = p.id
    union all
    select 'model', m.display_name from ai.models m where p.kind = 'model' and m.id = p.id
    union all
    select 'plan', l.name from ai.plans l where p.kind = 'plan' and l.id = p.id
    union all
    select 'service_account', s.name
    from private.service_accounts s
    where p.kind = 'service account' and s.id = private.uuid_or_null(p.id)
    union all
    select 'platform_invoice', concat_ws(' ', i.provider, i.reference)
    from ai.invoice_book_entries i
    where p.kind like '%platform invoice' and i.id = private.uuid_or_null(p.id)
    union all
    select replace(p.kind, ' ', '_'), null where p.kind in ('provider', 'address', 'platform month')
  ) f (kind, name)
$$;

-- Locks the account that a change is about, and returns it. Its id is null if the account doesn't exist. Locks its
-- recovery overrides first, as a recovery does. For definers; not granted to any role.
create or replace function private.lock_account(subject_id uuid) returns auth.users
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account auth.users;
begin
  perform
  from private.recovery_overrides o
  where o.email = (select lower(u.email) from auth.users u where u.id = subject_id) and o.revoked_at is null
  order by o.id
  for no key update;
  select * into account from auth.users u where u.id = subject_id and u.deleted_at is null for no key update;
  return account;
end
$$;

-- Bans an account and ends everything that acts for it. Revokes its recovery overrides, which would lift the ban: an
-- admin who wants to let the person back in creates a new one. For definers; not granted to any role.
create or replace function private.end_account_access(change jsonb, account auth.users, until timestamptz) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.write_ban(account.id, until);
  perform private.end_all_access(account.id);
  update private.recovery_overrides o
  set revoked_at = now(), revoked_by = (change ->> 'actor')::uuid
  where o.email = lower(account.email) and o.revoked_at is null and o.expires_at > now();
end
$$;

-- Returns how the audit log names an account: its email, or its id if it has none. Not granted to any role.
create or replace function private.account_target(account auth.users) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(nullif(account.email, ''), account.id::text)
$$;

-- Returns the refusal of a change that was made meanwhile. last is private.last_admin_action. Not granted to any role.
create or replace function private.account_conflict(account auth.users) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(private.account_target(account)))
$$;

-- Adds an event about an admin's act with the act's reason, which queues the email to the owner. Adds nothing for an
-- account that was never in use, because it has no owner yet. For definers; not granted to any role.
create or replace function private.notify_owner(account auth.users, kind text, details jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select private.add_account_event(account.id, notify_owner.kind, details => jsonb_strip_nulls(notify_owner.details))
  where account.email_confirmed_at is not null or account.last_sign_in_at is not null
$$;

-- The end of a ban without an end: Supabase Auth compares times, and has no other way. Not granted to any role.
create or replace function private.permanent_ban_end() returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select now() + interval '100 years'
$$;

-- Bans an account until a time or, if until is null, until an admin lifts the ban. Ends every session and app, and emails
-- the reason to the owner. Takes { actor or serviceAccount, subject, until, reason, requestId, ip }. Returns {} or
-- { refused: forbidden | not_found | oneself | protected | until (in the past, or more than a year away) }. If the account is
-- banned already, returns private.account_conflict. If its deletion is scheduled, the ban lasts until then, and beyond
-- until the given time if the account is kept.
-- Definer: the service role cannot write Supabase Auth's users and sessions.
create or replace function private.ban_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  ends_at timestamptz := (change ->> 'until')::timestamptz;
  sessions bigint;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is null and (ends_at <= now() or ends_at > now() + interval '366 days') then
    refusal := 'until';
  end if;
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  if account.banned_until > now() then
    return private.account_conflict(account);
  end if;
  sessions := private.count_account_sessions(account.id);
  update private.account_deletions d
  set banned_until_before = coalesce(ends_at, private.permanent_ban_end())
  where d.user_id = account.id;
  perform private.end_account_access(
    change, account, case when found then private.permanent_ban_end() else coalesce(ends_at, private.permanent_ban_end()) end
  );
  perform private.notify_owner(
    account, 'account_banned', jsonb_build_object('reason', change ->> 'reason', 'until', ends_at)
  );
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.ban',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('banned', false, 'sessions', sessions),
    'after', jsonb_build_object('banned', true, 'bannedUntil', ends_at, 'sessions', 0)
  ));
  return '{}';
end
$$;

-- Lifts the ban of an account, and emails the reason to the owner. Sessions and apps stay ended. Takes { actor or
-- serviceAccount, subject, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself | protected
-- | deletion (the account will be deleted: keep it instead) }. If it is not banned, returns private.account_conflict.
-- Definer: the service role cannot write Supabase Auth's users.
create or replace function private.unban_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is null and exists (select from private.account_deletions d where d.user_id = account.id) then
    refusal := 'deletion';
  end if;
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  if (account.banned_until > now()) is not true then
    return private.account_conflict(account);
  end if;
  perform private.write_ban(account.id, null);
  perform private.notify_owner(account, 'account_unbanned', jsonb_build_object('reason', change ->> 'reason'));
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.unban',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('banned', true, 'bannedUntil', account.banned_until),
    'after', jsonb_build_object('banned', false)
  ));
  return '{}';
end
$$;

-- Calls a change of the console, unless its caller already made it with the same idempotency key. The change has the
-- fields of the function that name names, an actor or a service account, idempotencyKey and requestHash (the text of a
-- bytea). Returns the function's answer. A repeated request gets the first answer, with { repeated: true }. Returns {
-- refused: key_reused } if the key belongs to another request, and { refused: forbidden } unless exactly one caller is
-- named, who may use the console now. A refused change stores nothing, so that a corrected request can use the same key.
create or replace function private.change_once(name text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  caller uuid := coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid;
  request_key text := change ->> 'idempotencyKey';
  hash bytea := (change ->> 'requestHash')::bytea;
  earlier private.idempotency_keys;
  answer jsonb;
begin
  -- A concurrent request with the same key waits for the first one.
  perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'private.change_once', caller, request_key), 0));
  -- The change asks for its scope. Some changes without a caller are the command line's, which has no keys.
  if num_nonnulls(change ->> 'actor', change ->> 'serviceAccount') <> 1
    or not private.is_infrastructure_admin((change ->> 'actor')::uuid)
    and not exists (
      select
      from private.live_service_accounts((change ->> 'serviceAccount')::uuid) s
      where s.workspace_id is null
    ) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into earlier from private.idempotency_keys k where k.caller_id = caller and k.key = request_key;
  if found then
    return case
      when earlier.request_hash = hash then earlier.answer || jsonb_build_object('repeated', true)
      else jsonb_build_object('refused', 'key_reused')
    end;
  end if;
  answer := private.make_console_change(name, change);
  if not answer ? 'refused' then
    insert into private.idempotency_keys (caller_id, key, request_hash, answer)
    values (caller, request_key, hash, answer);
  end if;
  return answer;
end
$$;

-- Calls the change of the console that has this name, and returns its answer; null for another name.
create or replace function private.make_console_change(name text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  return case name
    when 'add_app' then private.add_app(change)
    when 'add_model_price' then private.add_model_price(change)
    when 'add_openid_client' then private.add_openid_client(change)
    when 'add_proposed_prices' then private.add_proposed_prices(change)
    when 'ban_account' then private.ban_account(change)
    when 'cancel_account_deletion' then private.cancel_account_deletion(change)
    when 'cancel_model_price' then private.cancel_model_price(change)
    when 'change_app' then private.change_app(change)
    when 'change_credits' then private.change_credits(change)
    when 'change_model_route' then private.change_model_route(change)
    when 'change_openid_client' then private.change_openid_client(change)
    when 'decline_key_approval' then private.decline_key_approval(change)
    when 'delete_model' then private.delete_model(change)
    when 'invite_account' then private.invite_account(change)
    when 'lift_address_block' then private.lift_address_block(change)
    when 'move_workspace' then private.move_workspace(change)
    when 'request_account_deletion' then private.request_account_deletion(change)
    when 'revoke_account_invitation' then private.revoke_account_invitation(change)
    when 'save_model' then private.save_model(change)
    when 'save_model_setup' then private.save_model_setup(change)
    when 'save_plan' then private.save_plan(change)
    when 'save_provider_limit' then private.save_provider_limit(change)
    when 'set_key_approval' then private.set_key_approval(change)
    when 'set_model_enabled' then private.set_model_enabled(change)
    when 'set_model_grant' then private.set_model_grant(change)
    when 'set_sign_up' then private.set_sign_up(change)
    when 'set_workspace_budget' then private.set_workspace_budget(change)
    when 'set_workspace_policy' then private.set_workspace_policy(change)
    when 'sign_account_out' then private.sign_account_out(change)
    when 'unban_account' then private.unban_account(change)
  end;
end
$$;

-- Grants credits to a workspace or member, or withdraws credits. A grant first opens a missing account with the plan's
-- initial credits. The change is { actor, payer, ownerId, step: grant | withdraw, amount, reference, description (shown
-- to members in the ledger), reason, requestId, ip }. Returns {}, { repeated: true } if the reference was already used
-- for this amount, or { refused: forbidden | invalid | not_found | oneself | reference_used (for another amount) |
-- insufficient (less is available) }.
-- Definer: the service role cannot change balances.
create or replace function private.change_credits(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  payer text := change ->> 'payer';
  owner_id uuid := (change ->> 'ownerId')::uuid;
  amount numeric := (change ->> 'amount')::numeric;
  direction integer := case change ->> 'step' when 'grant' then 1 when 'withdraw' then -1 end;
  personal uuid;
  account uuid;
  changed jsonb;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if direction is null or amount is null or amount <= 0 or coalesce(change ->> 'reference', '') = '' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  if payer = 'workspace' then
    select w.personal_user_id into personal from public.workspaces w where w.id = owner_id and w.deleted_at is null;
  else
    select u.id into personal from auth.users u where u.id = owner_id and u.deleted_at is null and payer = 'member';
  end if;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.is_responsible(change, personal) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if direction < 0 then
    select a.id into account from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = owner_id;
    if not found then
      return jsonb_build_object('refused', 'insufficient');
    end if;
  else
    account := ai.open_credit_account(payer, owner_id, coalesce((
      select p.initial_credits from ai.paying_plan(payer, owner_id) p
    ), 0));
  end if;
  changed := ai.change_credits(account, direction * amount, change ->> 'description', change ->> 'reference');
  if changed ->> 'outcome' = 'repeated' then
    return jsonb_build_object('repeated', true);
  elsif changed ->> 'outcome' <> 'changed' then
    return jsonb_build_object('refused', changed ->> 'outcome');
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when direction > 0 then 'credits.grant' else 'credits.withdraw' end,
    'target', payer || ' ' || owner_id,
    -- Never an email or a personal workspace, because the entry outlives the account.
    'targetName', (select w.name from public.workspaces w where w.id = owner_id and personal is null),
    'before', jsonb_build_object('balance', trim_scale((changed ->> 'balance')::numeric - direction * amount)::text),
    'after', jsonb_build_object(
      'balance', trim_scale((changed ->> 'balance')::numeric)::text, 'credits', trim_scale(direction * amount)::text,
      'reference', change ->> 'reference', 'description', change ->> 'description'
    )
  ));
  return '{}';
end
$$;

-- Bans an account, and schedules its deletion. Emails the owner the reason and the time. Takes { actor or
-- serviceAccount, subject, days (1 to 30, 7 by default), mail: { subject, body }, reason, requestId, ip }. mail is sent
-- once the account is deleted; null without a mail server. Returns {} or { refused: forbidden | not_found | oneself |
-- protected | days }. If the deletion is scheduled already, returns private.account_conflict.
-- Definer: the service role cannot write Supabase Auth's users and sessions, or deletions.
create or replace function private.request_account_deletion(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  days integer := coalesce((change ->> 'days')::integer, 7);
  due timestamptz := now() + days * interval '1 day';
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is null and days not between 1 and 30 then
    refusal := 'days';
  end if;
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  if exists (select from private.account_deletions d where d.user_id = account.id) then
    return private.account_conflict(account);
  end if;
  insert into private.account_deletions (
    user_id, requested_by, service_account_id, reason, request_id, due_at, banned_until_before, mail_subject, mail_body
  )
  values (
    account.id, (change ->> 'actor')::uuid, (change ->> 'serviceAccount')::uuid, change ->> 'reason',
    change ->> 'requestId', due, case when account.banned_until > now() then account.banned_until end,
    change -> 'mail' ->> 'subject', change -> 'mail' ->> 'body'
  );
  perform private.end_account_access(change, account, private.permanent_ban_end());
  perform private.notify_owner(
    account, 'deletion_requested', jsonb_build_object('reason', change ->> 'reason', 'deletion', due)
  );
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.request_deletion',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('deletion', null),
    'after', jsonb_build_object('deletion', due)
  ));
  return '{}';
end
$$;

-- Keeps an account whose deletion is scheduled: lifts its ban, or restores the ban that it had before. Emails the reason
-- to the owner. Takes { actor or serviceAccount, subject, reason, requestId, ip }. Returns {} or { refused: forbidden |
-- not_found | oneself | protected }. If no deletion is scheduled, returns private.account_conflict.
-- Definer: the service role cannot write Supabase Auth's users, or deletions.
create or replace function private.cancel_account_deletion(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  deletion private.account_deletions;
  old_ban timestamptz;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  delete from private.account_deletions d where d.user_id = account.id returning * into deletion;
  if not found then
    return private.account_conflict(account);
  end if;
  old_ban := case when deletion.banned_until_before > now() then deletion.banned_until_before end;
  perform private.write_ban(account.id, old_ban);
  perform private.notify_owner(account, 'deletion_canceled', jsonb_build_object('reason', change ->> 'reason'));
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.cancel_deletion',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('deletion', deletion.due_at),
    'after', jsonb_build_object('deletion', null, 'banned', old_ban is not null)
  ));
  return '{}';
end
$$;

-- Deletes the account whose scheduled deletion has waited longest since its time, or since its last attempt. Returns the
-- number of deleted accounts: 1, or 0 if none is due, if a workspace would be left without an owner, if the deletion
-- failed, if the account has a role in the console, or while another call is running. Deletes only one account, so that
-- its locks are held briefly. Also ends the invitation of its email, so that the account cannot come back by it.
-- Definer: the service role may not delete from the identity backend's tables.
create or replace function private.delete_due_accounts() returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  due_id uuid;
  deletion private.account_deletions;
  account auth.users;
  answer jsonb;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.delete_due_accounts', 0)) then
    return 0;
  end if;
  select d.user_id into due_id
  from private.account_deletions d
  where d.due_at <= now()
  order by coalesce(d.checked_at, d.due_at), d.user_id
  limit 1;
  if not found then
    return 0;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  select * into account from auth.users u where u.id = due_id for update;
  -- Reads it again, because the account may have been kept meanwhile.
  select * into deletion from private.account_deletions d where d.user_id = due_id and d.due_at <= now() for update;
  if not found then
    return 0;
  end if;
  if private.console_role(due_id) is not null then
    update private.account_deletions d set checked_at = now() where d.user_id = due_id;
    return 0;
  end if;
  begin
    answer := private.end_account(due_id);
  exception when others then
    raise warning 'the account % was not deleted: % %', due_id, sqlstate, sqlerrm;
    answer := jsonb_build_object('deleted', false);
  end;
  if not (answer ->> 'deleted')::boolean then
    update private.account_deletions d
    set checked_at = now(), last_blockers = answer -> 'blockers'
    where d.user_id = due_id;
    return 0;
  end if;
  update private.account_invitations i
  set revoked_at = now()
  where i.email = lower(account.email) and i.revoked_at is null;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select account.email, deletion.mail_subject, deletion.mail_body, now()
  where deletion.mail_subject is not null and char_length(account.email) between 3 and 320
    and (account.email_confirmed_at is not null or account.last_sign_in_at is not null);
  perform private.record_admin_action(
    jsonb_build_object(
      'actor', deletion.requested_by,
      'serviceAccount', deletion.service_account_id,
      'reason', deletion.reason,
      'requestId', deletion.request_id
    ),
    jsonb_build_object('action', 'account.delete', 'target', due_id)
  );
  return 1;
end
$$;

-- Returns the accounts whose deletion is due and was refused because a workspace would be left without an owner, or has
-- not been made for an hour. The earliest comes first. Not granted to any role.
create or replace function private.blocked_deletions(max_rows integer)
  returns table (user_id uuid, email text, due_at timestamptz, blockers jsonb)
  language sql stable security invoker set search_path = ''
as $$
  select d.user_id, u.email::text, d.due_at, coalesce(d.last_blockers, '[]')
  from private.account_deletions d
  join auth.users u on u.id = d.user_id
  where d.due_at <= now() and (d.last_blockers is not null or d.due_at <= now() - interval '1 hour')
  order by d.due_at, d.user_id
  limit max_rows
$$;

-- Invites an email for 14 days, and queues the email with the link. Takes { actor or serviceAccount, id, email, mail:
-- { subject, body }, reason, requestId, ip }. id is a new id, which the email links to. mail is null without a mail
-- server. Returns {} or { refused: forbidden | has_account | invited (there is an open invitation) }.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read, and it cannot write invitations.
create or replace function private.invite_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  invited text := lower(change ->> 'email');
  invitation private.account_invitations;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if private.confirmed_account(invited) is not null then
    return jsonb_build_object('refused', 'has_account');
  end if;
  perform private.end_expired_invitation(invited);
  delete from private.account_invitations i where i.email = invited and i.imported;
  insert into private.account_invitations (id, email, invited_by, service_account_id, reason)
  values (
    (change ->> 'id')::uuid, invited, (change ->> 'actor')::uuid, (change ->> 'serviceAccount')::uuid,
    change ->> 'reason'
  )
  on conflict (email) where revoked_at is null do nothing
  returning * into invitation;
  if not found then
    return jsonb_build_object('refused', 'invited');
  end if;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select invited, change -> 'mail' ->> 'subject', change -> 'mail' ->> 'body', now()
  where change -> 'mail' ->> 'subject' is not null;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account_invitation.add',
    'target', invited,
    'after', jsonb_build_object('expiresAt', invitation.expires_at)
  ));
  return '{}';
end
$$;

-- Revokes an open invitation. Takes { actor or serviceAccount, invitation, reason, requestId, ip }. Returns {} or
-- { refused: forbidden | not_found | expired }, or { refused: conflict, last } if it was revoked already. An account that
-- was created by it stays.
-- Definer: the service role cannot write invitations.
create or replace function private.revoke_account_invitation(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  invitation private.account_invitations;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into invitation
  from private.account_invitations i
  where i.id = (change ->> 'invitation')::uuid and not i.imported
  for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if invitation.expires_at <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  if invitation.revoked_at is not null then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(invitation.email));
  end if;
  update private.account_invitations i set revoked_at = now() where i.id = invitation.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account_invitation.revoke',
    'target', invitation.email,
    'before', jsonb_build_object('expiresAt', invitation.expires_at),
    'after', jsonb_build_object('expiresAt', null)
  ));
  return '{}';
end
$$;

-- Returns the account that has confirmed an email, or null. Single sign-on accounts are not considered, because they do
-- not sign up. For definers; not granted to any role.
create or replace function private.confirmed_account(of_email text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select u.id
  from auth.users u
  where u.email = of_email and not u.is_sso_user and u.deleted_at is null and u.email_confirmed_at is not null
  limit 1
$$;

-- Returns a page of the console's invitations, newest first, in the format of private.describe_invitation. before is {
-- createdAt, id } of the last invitation on the previous page.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_account_invitations(before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read all invitations.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(private.describe_invitation(l) order by l.created_at desc, l.id desc), '[]')
    from (
      select *
      from private.account_invitations i
      where not i.imported and (i.created_at, i.id) < (last_at, last_id)
      order by i.created_at desc, i.id desc
      limit page_size
    ) l
  );
end
$$;

-- Grants a model to a plan or to one workspace, or withdraws the grant. The change is { actor, model, plan or
-- workspace, granted, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | no_grantee | oneself
-- (the actor's personal workspace) | conflict (nothing to change, with last) }.
create or replace function private.set_model_grant(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  plan text := change ->> 'plan';
  workspace uuid := (change ->> 'workspace')::uuid;
  grants boolean := (change ->> 'granted')::boolean;
  grantee jsonb := jsonb_strip_nulls(jsonb_build_object('plan', plan, 'workspace', workspace));
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if exists (select from public.workspaces w where w.id = workspace and private.is_responsible(change, w.personal_user_id)) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if num_nonnulls(plan, workspace) <> 1
    or plan is not null and not exists (select from ai.plans p where p.id = plan)
    or workspace is not null and not exists (select from public.workspaces w where w.id = workspace and w.deleted_at is null)
  then
    return jsonb_build_object('refused', 'no_grantee');
  end if;
  if grants then
    insert into ai.model_grants (model_id, plan_id, workspace_id) values (model.id, plan, workspace) on conflict do nothing;
  else
    delete from ai.model_grants g
    where g.model_id = model.id and (g.plan_id, g.workspace_id) is not distinct from (plan, workspace);
  end if;
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when grants then 'model.grant' else 'model.withdraw' end,
    'target', 'model ' || model.id,
    'targetName', model.display_name,
    'before', grantee || jsonb_build_object('granted', not grants),
    'after', grantee || jsonb_build_object('granted', grants)
  ));
  return '{}';
end
$$;

-- Returns the columns of a route, without its model and position, from the fields of private.change_model_route.
create or replace function private.route_columns(fields jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'provider_id', fields -> 'providerId',
    'provider_model', fields -> 'providerModel',
    'enabled', fields -> 'enabled',
    'trusts_stated_cost', fields -> 'trustsStatedCost',
    'tier_multipliers', (
      select coalesce(jsonb_object_agg(t.key, t.value::numeric), '{}')
      from jsonb_each_text(fields -> 'tierMultipliers') as t
    ),
    'first_byte_seconds', fields -> 'firstByteSeconds',
    'idle_seconds', fields -> 'idleSeconds',
    'total_seconds', fields -> 'totalSeconds'
  )
$$;

-- Adds, edits, moves or removes a route. The other routes keep their order. Positions count from 1. The change is {
-- actor, model, version (private.model_version), place (the route's current position, or null to add a route), route,
-- reason, requestId, ip }. route is null to remove the route, otherwise { position, providerId, providerModel, enabled,
-- trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds }. Does not
-- change the provider's prices. Returns {} or { refused: forbidden | not_found | route_taken | invalid }, or { refused:
-- conflict, last (private.last_admin_action) }.
create or replace function private.change_model_route(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  place integer := (change ->> 'place')::integer;
  fields jsonb := nullif(change -> 'route', 'null');
  before jsonb;
  other_routes jsonb;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  select to_jsonb(r) into before from ai.model_routes r where r.model_id = model.id and r.position = place;
  if (place is not null and before is null) or (place is null and fields is null) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select coalesce(jsonb_agg(to_jsonb(r) order by r.position), '[]') into other_routes
  from ai.model_routes r
  where r.model_id = model.id and r.position is distinct from place;
  if jsonb_path_exists(
    other_routes, '$[*] ? (@.provider_id == $provider && @.provider_model == $model)',
    jsonb_build_object('provider', fields -> 'providerId', 'model', fields -> 'providerModel')
  ) then
    return jsonb_build_object('refused', 'route_taken');
  end if;

  begin
    delete from ai.model_routes r where r.model_id = model.id;
    insert into ai.model_routes
    select new_route.*
    from (
      select o.route, row_number() over (order by o.at) as position
      from (
        -- Inserts the route before the other route that holds the requested position.
        select l.route, 2 * l.number as at from jsonb_array_elements(other_routes) with ordinality as l (route, number)
        union all
        select private.route_columns(fields), 2 * (fields ->> 'position')::integer - 1 where fields is not null
      ) as o
    ) as n
    cross join jsonb_populate_record(
      null::ai.model_routes, n.route || jsonb_build_object('model_id', model.id, 'position', n.position)
    ) as new_route;
  exception
    when check_violation or not_null_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when before is null then 'model.add_route' when fields is null then 'model.remove_route' else 'model.edit_route' end,
    'target', 'model ' || model.id,
    'targetName', model.display_name,
    'before', before,
    'after', (
      select to_jsonb(r)
      from ai.model_routes r
      where r.model_id = model.id and r.provider_id = fields ->> 'providerId' and r.provider_model = fields ->> 'providerModel'
    )
  ));
  return '{}';
end
$$;

-- Saves all of a model's differences, or none of them. The change is { actor or serviceAccount, model, version (null
-- for a new model, otherwise the private.model_version that the admin saw), kind (of a new model), the settings of
-- private.save_model with isDefault and defaultOfKind, routes, prices, plans, seenPlans, enabled, reason, requestId, ip
-- }. Routes, prices, plans and enabled stay as they are if they are missing or null:
-- - routes: all routes in the order in which calls try them, each with the fields of private.change_model_route except
--   position. A provider and its name of the model identify a route.
-- - prices: prices for private.add_model_price that begin now. Adds those whose amounts differ from the amounts in
--   force. Removes none.
-- - plans: all plans that are granted the model. seenPlans has those that the admin saw. Grants to single workspaces
--   stay as they are.
-- Returns {} or { refused, part, last }. refused is too_many (at most 100 routes, 100 prices and 1,000 plans) or a
-- refusal of a single function. part is settings, routes, routes.<index>, prices, prices.<index>, plans, plans.<id> or
-- enabled. forbidden and not_found have no part.
create or replace function private.save_model_setup(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  -- Merged last into each change, so that no route or price replaces these.
  author jsonb := jsonb_build_object(
    'actor', change -> 'actor', 'serviceAccount', change -> 'serviceAccount',
    'serviceAccountScopes', change -> 'serviceAccountScopes', 'model', change -> 'model',
    'reason', change -> 'reason', 'requestId', change -> 'requestId', 'ip', change -> 'ip'
  );
  routes jsonb := nullif(change -> 'routes', 'null');
  prices jsonb := nullif(change -> 'prices', 'null');
  plans jsonb := nullif(change -> 'plans', 'null');
  is_enabled boolean;
  answer jsonb;
  refusal text;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  answer := case
    when jsonb_array_length(routes) > 100 then jsonb_build_object('refused', 'too_many', 'part', 'routes')
    when jsonb_array_length(prices) > 100 then jsonb_build_object('refused', 'too_many', 'part', 'prices')
    when jsonb_array_length(plans) > 1000 then jsonb_build_object('refused', 'too_many', 'part', 'plans')
    else private.apply_model_settings(change, author)
  end;
  if routes is not null and not answer ? 'refused' then
    answer := private.apply_model_routes(routes, author);
  end if;
  if prices is not null and not answer ? 'refused' then
    answer := private.apply_model_prices(prices, author);
  end if;
  if plans is not null and not answer ? 'refused' then
    answer := private.apply_model_plans(change, author);
  end if;
  select m.enabled into is_enabled from ai.models m where m.id = change ->> 'model';
  if (change ->> 'enabled')::boolean <> is_enabled and not answer ? 'refused' then
    answer := private.set_model_enabled(author || jsonb_build_object('enabled', change -> 'enabled'))
      || jsonb_build_object('part', 'enabled');
  end if;
  if answer ? 'refused' then
    -- Undoes what the earlier parts saved.
    raise exception using errcode = 'GHP01', message = 'refused', detail = answer::text;
  end if;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics refusal = pg_exception_detail;
    -- The changes of this setup are undone by now, so the last one is somebody else's.
    return refusal::jsonb || case
      when refusal::jsonb ? 'last'
        then jsonb_build_object('last', private.last_admin_action('model ' || (change ->> 'model')))
      else '{}'
    end;
end
$$;

-- Locks a model and saves the settings of a setup that differ from the model's, or adds the model. Returns {} or
-- { refused, part, last }.
create or replace function private.apply_model_settings(setup jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := setup ->> 'model';
  names text[] := array[
    'displayName', 'ownedBy', 'studioDefault', 'contextWindow', 'outputLimit', 'defaultOutputLimit', 'voices',
    'isDefault'
  ];
  -- Without nulls, so that a missing setting is the same as null. Without voices, the list is empty.
  settings jsonb := jsonb_build_object('voices', '[]'::jsonb) || jsonb_strip_nulls(setup);
  saved_settings jsonb;
  answer jsonb := '{}';
begin
  if not settings ? 'version' then
    answer := private.save_model(settings || author);
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'settings');
    end if;
  else
    perform from ai.models m where m.id = model for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model) <> settings ->> 'version' then
      return jsonb_build_object(
        'refused', 'conflict', 'part', 'settings', 'last', private.last_admin_action('model ' || model)
      );
    end if;
  end if;
  -- A new model has all its settings by now, except that it is not yet the default of its kind.
  saved_settings := jsonb_strip_nulls(private.read_model(model));
  if exists (
    select from unnest(names) as n (name) where saved_settings -> n.name is distinct from settings -> n.name
  ) then
    answer := private.save_model(settings || author || jsonb_build_object('version', private.model_version(model)));
  end if;
  return case when answer ? 'refused' then answer || jsonb_build_object('part', 'settings') else '{}' end;
end
$$;

-- Removes, adds, edits and moves routes until a model has exactly the given ones. Returns {} or
-- { refused, part, last }.
create or replace function private.apply_model_routes(routes jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := author ->> 'model';
  wanted jsonb;
  nth bigint;
  place integer;
  saved_route jsonb;
  answer jsonb;
begin
  -- Begins with the last route, because the routes after a removed one move up.
  for place in
    select r.position
    from ai.model_routes r
    where r.model_id = model and not exists (
      select
      from jsonb_array_elements(routes) as w
      where w.value ->> 'providerId' = r.provider_id and w.value ->> 'providerModel' = r.provider_model
    )
    order by r.position desc
  loop
    answer := private.change_model_route(
      author || jsonb_build_object('version', private.model_version(model), 'place', place, 'route', null)
    );
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'routes');
    end if;
  end loop;
  -- Invariant: the first nth - 1 routes are those of the list.
  for wanted, nth in select w.value, w.ordinality from jsonb_array_elements(routes) with ordinality as w loop
    select r.position, to_jsonb(r) - array['model_id', 'position'] into place, saved_route
    from ai.model_routes r
    where r.model_id = model and r.provider_id = wanted ->> 'providerId'
      and r.provider_model = wanted ->> 'providerModel'
    order by r.position
    limit 1;
    if place < nth then
      answer := jsonb_build_object('refused', 'route_taken');
    elsif place = nth and saved_route = private.route_columns(wanted) then
      answer := '{}';
    else
      answer := private.change_model_route(author || jsonb_build_object(
        'version', private.model_version(model), 'place', place, 'route', wanted || jsonb_build_object('position', nth)
      ));
    end if;
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'routes.' || (nth - 1));
    end if;
  end loop;
  return '{}';
end
$$;

-- Adds the prices whose amounts differ from those in force. Returns {} or { refused, part, last }.
create or replace function private.apply_model_prices(prices jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := author ->> 'model';
  wanted jsonb;
  nth bigint;
  tier integer;
  -- The provider and input size of a price. All service tiers of a scope share their newest price.
  scope text;
  basis jsonb;
  -- By scope, the newest price and the number of prices that the admin saw.
  seen jsonb := '{}';
  answer jsonb;
begin
  for wanted, nth in select w.value, w.ordinality from jsonb_array_elements(prices) with ordinality as w loop
    tier := coalesce((wanted ->> 'minInputTokens')::integer, 0);
    continue when exists (
      select
      from ai.model_prices p
      where p.model_id = model and p.provider_id = wanted ->> 'providerId' and p.min_input_tokens = tier
        and p.service_tier = coalesce(wanted ->> 'serviceTier', 'default') and p.valid @> now()
        and (
          p.input_usd_per_million, p.cached_input_usd_per_million, p.cache_write_usd_per_million,
          p.cache_write_1h_usd_per_million, p.output_usd_per_million, p.audio_input_usd_per_million,
          p.audio_output_usd_per_million, p.image_input_usd_per_million, p.request_fee_usd
        ) is not distinct from (
          (wanted ->> 'inputUsd')::numeric, (wanted ->> 'cachedInputUsd')::numeric,
          (wanted ->> 'cacheWriteUsd')::numeric, (wanted ->> 'cacheWrite1hUsd')::numeric,
          (wanted ->> 'outputUsd')::numeric, (wanted ->> 'audioInputUsd')::numeric,
          (wanted ->> 'audioOutputUsd')::numeric, (wanted ->> 'imageInputUsd')::numeric,
          (wanted ->> 'requestFeeUsd')::numeric
        )
    );
    scope := jsonb_build_array(wanted -> 'providerId', tier)::text;
    basis := jsonb_build_array(wanted ->> 'latest', wanted ->> 'seen');
    if not seen ? scope then
      seen := seen || jsonb_build_object(scope, basis);
      answer := private.add_model_price((wanted - 'from') || author);
    elsif seen -> scope <> basis then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model));
    else
      -- The first price of the scope has changed both.
      answer := private.add_model_price((wanted - array['from', 'seen']) || author || jsonb_build_object(
        'latest', private.latest_price(model, wanted ->> 'providerId', tier)
      ));
    end if;
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'prices.' || (nth - 1));
    end if;
  end loop;
  return '{}';
end
$$;

-- Grants a model to exactly the plans of a setup, unless the granted plans have changed since the admin saw them.
-- Returns {} or { refused, part, last }.
create or replace function private.apply_model_plans(setup jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := author ->> 'model';
  granted text[] := array(
    select g.plan_id from ai.model_grants g where g.model_id = model and g.plan_id is not null order by g.plan_id
  );
  wanted text[] := array(
    select distinct p.value from jsonb_array_elements_text(setup -> 'plans') as p order by p.value
  );
  seen text[] := array(
    select distinct p.value
    from jsonb_array_elements_text(coalesce(nullif(setup -> 'seenPlans', 'null'), '[]')) as p
    order by p.value
  );
  plan text;
  is_wanted boolean;
  answer jsonb;
begin
  if wanted = granted then
    return '{}';
  end if;
  if seen <> granted then
    return jsonb_build_object(
      'refused', 'conflict', 'part', 'plans', 'last', private.last_admin_action('model ' || model)
    );
  end if;
  for plan, is_wanted in
    select p.id, p.id = any (wanted)
    from unnest(wanted || granted) as p (id)
    group by p.id
    having (p.id = any (wanted)) <> (p.id = any (granted))
    order by p.id
  loop
    answer := private.set_model_grant(author || jsonb_build_object('plan', plan, 'granted', is_wanted));
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'plans.' || plan);
    end if;
  end loop;
  return '{}';
end
$$;

-- Returns one model: its fields from private.list_catalogue_models, and its version (private.model_version), settings,
-- routes in order, plans and workspaces. plans has all plans, whether each is granted the model, and the number of its
-- workspaces. workspaces has the first 100 workspaces that were granted the model separately from their plan.
create or replace function private.read_model(model text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select (private.list_catalogue_models(only_id => m.id) -> 0) || jsonb_build_object(
    'version', private.model_version(m.id),
    'contextWindow', m.context_window,
    'outputLimit', m.output_limit,
    'defaultOutputLimit', m.default_output_limit,
    'voices', coalesce(to_jsonb(m.voices), '[]'),
    'isDefault', m.is_default,
    'defaultOfKind', (select d.id from ai.models d where d.kind = m.kind and d.is_default),
    'canDelete', private.was_never_enabled(m),
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'providerId', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'trustsStatedCost', r.trusts_stated_cost,
        'tierMultipliers', (
          select coalesce(jsonb_object_agg(t.key, t.value), '{}') from jsonb_each_text(r.tier_multipliers) as t
        ),
        'firstByteSeconds', r.first_byte_seconds,
        'idleSeconds', r.idle_seconds,
        'totalSeconds', r.total_seconds
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    ),
    'plans', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'name', p.name,
        'granted', exists (select from ai.model_grants g where g.model_id = m.id and g.plan_id = p.id),
        'workspaces', coalesce(u.workspaces, 0)
      ) order by p.name, p.id), '[]')
      from ai.plans p
      left join (
        select w.plan_id, count(*) as workspaces from public.workspaces w where w.deleted_at is null group by w.plan_id
      ) u on u.plan_id = p.id
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name) order by w.name, w.id), '[]')
      from private.granted_workspaces(m.id) w
    )
  )
  from ai.models m
  where m.id = model
$$;

-- Returns plans, each with the number of its workspaces and of its granted models. payerFixed of a single plan
-- says whether a credit account pays for it, so that its payer cannot change; in the list of all plans it is false.
-- Amounts are text. Every change of a plan changes its version.
create or replace function private.list_plans(only_id text default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', p.id,
    'name', p.name,
    'payer', p.payer,
    'markup', trim_scale(p.markup)::text,
    'initialCredits', trim_scale(p.initial_credits)::text,
    'lowCredits', trim_scale(p.low_credits)::text,
    'warnsBelow', trim_scale(ai.low_credits(p))::text,
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'workspaces', coalesce(u.workspaces, 0),
    'models', (select count(*) from ai.model_grants g where g.plan_id = p.id),
    'payerFixed', only_id is not null and (
      p.payer = 'workspace' and exists (
        select
        from public.workspaces w
        join ai.credit_accounts a on a.workspace_id = w.id
        where w.plan_id = p.id and w.deleted_at is null
      )
      or p.payer = 'member' and exists (
        select
        from public.workspaces w
        join public.workspace_members m on m.workspace_id = w.id
        join ai.credit_accounts a on a.user_id = m.user_id
        where w.plan_id = p.id and w.deleted_at is null
      )
    ),
    'version', md5(p::text)
  ) order by p.id), '[]')
  from ai.plans p
  left join (
    select w.plan_id, count(*) as workspaces
    from public.workspaces w
    where w.deleted_at is null and (only_id is null or w.plan_id = only_id)
    group by w.plan_id
  ) u on u.plan_id = p.id
  where only_id is null or p.id = only_id
$$;

-- Adds or edits a plan. The change is { actor, plan, seen (the version that the admin saw, or null to add a plan),
-- name, payer, markup, initialCredits, lowCredits, requestsPerMinute, tokensPerMinute, reason, requestId, ip }. Runs in
-- progress keep the markup with which they began. Returns {} or { refused: forbidden | not_found | taken | payer_fixed
-- (a credit account already pays for the plan) | conflict (with last) }.
create or replace function private.save_plan(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  plan_id text := change ->> 'plan';
  old_plan ai.plans;
  saved ai.plans;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'seen' is null then
    insert into ai.plans (id, name, payer) values (plan_id, change ->> 'name', change ->> 'payer') on conflict do nothing;
    if not found then
      return jsonb_build_object('refused', 'taken');
    end if;
  end if;
  select * into old_plan from ai.plans p where p.id = plan_id for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if md5(old_plan::text) <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('plan ' || plan_id));
  end if;
  if old_plan.payer <> change ->> 'payer' and (private.list_plans(plan_id) #>> '{0,payerFixed}')::boolean then
    return jsonb_build_object('refused', 'payer_fixed');
  end if;
  update ai.plans p
  set
    name = change ->> 'name',
    payer = change ->> 'payer',
    markup = (change ->> 'markup')::numeric,
    initial_credits = (change ->> 'initialCredits')::numeric,
    low_credits = (change ->> 'lowCredits')::numeric,
    requests_per_minute = (change ->> 'requestsPerMinute')::integer,
    tokens_per_minute = (change ->> 'tokensPerMinute')::bigint
  where p.id = plan_id
  returning * into saved;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when change ->> 'seen' is null then 'plan.add' else 'plan.edit' end,
    'target', 'plan ' || plan_id,
    'targetName', saved.name,
    'before', case when change ->> 'seen' is not null then to_jsonb(old_plan) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;

-- Moves a workspace to another plan. Each credit account keeps its balance, and calls in progress are charged to the
-- account with which they began. The change is { actor, workspace, seen (the plan that the admin saw), plan, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself (the actor's personal workspace) | no_plan
-- (the plan is unknown, or is already the workspace's plan) | conflict (another admin changed the plan; last is
-- private.last_admin_action) }.
create or replace function private.move_workspace(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  workspace public.workspaces;
  target text;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.is_responsible(change, workspace.personal_user_id) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  target := 'workspace ' || workspace.id;
  if workspace.plan_id <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  -- Locks the new plan, so that the plan's payer does not change before the workspace moves.
  perform from ai.plans p where p.id = change ->> 'plan' and p.id <> workspace.plan_id for share;
  if not found then
    return jsonb_build_object('refused', 'no_plan');
  end if;
  update public.workspaces w set plan_id = change ->> 'plan' where w.id = workspace.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'plan.move_workspace',
    'target', target,
    'targetName', case when workspace.personal_user_id is null then workspace.name end,
    'before', jsonb_build_object('plan', workspace.plan_id),
    'after', jsonb_build_object('plan', change ->> 'plan')
  ));
  return '{}';
end
$$;

-- Returns a workspace in the form of platform.yaml, with its budgets that belong to no person or key.
create or replace function private.export_workspace(workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', workspace.id,
    'planId', workspace.plan_id,
    'policy', ai.workspace_policy_summary(workspace.id) - '{budget,appBudgets,updatedAt,updatedBy}'::text[],
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object('scope', b.scope, 'subject', coalesce(b.label, a.name), 'period', b.period)
          || ai.budget_settings(b)
        order by b.scope, coalesce(b.label, a.name), b.period
      ), '[]')
      from ai.budgets b
      left join private.apps a on b.scope = 'app' and a.id = b.subject_id
      where b.workspace_id = workspace.id and num_nonnulls(b.limit_usd, b.max_calls) > 0
        and (b.scope in ('workspace', 'label') or a.id is not null)
    )
  )
$$;

-- Formats a time in UTC to the second, like 2027-01-01T00:00:00Z.
create or replace function private.utc_second(moment timestamptz) returns text
  language sql stable security invoker set search_path = ''
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;

-- Adds all of the given prices with private.add_model_price, or none of them. The change is { actor, from, prices: [{
-- model, providerId, serviceTier, minInputTokens, latest, inputUsd, … }], reason, requestId, ip }. Returns {} or {
-- refused, model }. refused is too_many (there must be 1 to 500 prices), scheduled (a later price already exists for
-- the same model, provider, service tier and input size) or a refusal of private.add_model_price.
create or replace function private.add_proposed_prices(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  proposed jsonb;
  scope text;
  -- The newest price that the admin saw, by model, provider and number of input tokens.
  seen jsonb := '{}';
  newest text;
  answer jsonb;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if coalesce(jsonb_array_length(change -> 'prices'), 0) not between 1 and 500 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  -- Models are locked in one order, so that two admins cannot deadlock.
  perform from ai.models m
  where m.id in (select p.value ->> 'model' from jsonb_array_elements(change -> 'prices') as p)
  order by m.id
  for update;
  for proposed in select p.value from jsonb_array_elements(change -> 'prices') as p loop
    scope := jsonb_build_array(proposed -> 'model', proposed -> 'providerId', proposed -> 'minInputTokens')::text;
    newest := private.latest_price(
      proposed ->> 'model', proposed ->> 'providerId', (proposed ->> 'minInputTokens')::integer
    );
    -- The first price of a scope must have been based on the newest price in the price book. Adding that first price
    -- changes the newest price, so every later price of the scope must have the same `latest` as the first.
    if proposed ->> 'latest' is distinct from (case when seen ? scope then seen ->> scope else newest end) then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || (proposed ->> 'model')));
    elsif exists (
      select from ai.model_prices p
      where p.model_id = proposed ->> 'model' and p.provider_id = proposed ->> 'providerId'
        and p.service_tier = proposed ->> 'serviceTier' and p.min_input_tokens = (proposed ->> 'minInputTokens')::integer
        and lower(p.valid) > now()
    ) then
      answer := jsonb_build_object('refused', 'scheduled');
    else
      seen := seen || jsonb_build_object(scope, proposed -> 'latest');
      answer := private.add_model_price(proposed || (change - 'prices') || jsonb_build_object('latest', newest));
    end if;
    if answer ? 'refused' then
      raise exception using errcode = 'GHP01', message = 'refused', detail = (
        answer || jsonb_build_object('model', proposed -> 'model')
      )::text;
    end if;
  end loop;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics scope = pg_exception_detail;
    return scope::jsonb;
end
$$;

-- Adds a price, which begins immediately unless from has a later time. The new price ends the previous price, and ends
-- when the next price begins. The change is { actor, model, providerId, serviceTier, minInputTokens, latest (id of the
-- newest price that the admin saw, or null), seen (number of prices that the admin saw), from, inputUsd,
-- cachedInputUsd, cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd,
-- requestFeeUsd, reason, requestId, ip }. Returns { from, until } or { refused: forbidden | not_found | no_route | past
-- | taken | conflict (with last) }.
create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  new_price ai.model_prices;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- Serializes price changes of a model.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- A price can't start in the past, because runs keep the prices they were charged at.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- Refuses the change if prices of any service tier have changed since the admin saw them. Also compares the number of
  -- prices, because cancelling an older price leaves the newest one the same, and the price to replace, because a
  -- scheduled price may have taken effect.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier)
    or (change ->> 'seen')::integer <> (
      select count(*)
      from ai.model_prices p
      where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier
    )
    or (change ? 'replaces' and change ->> 'replaces' is distinct from old.id::text) then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if lower(old.valid) = starts then
    return jsonb_build_object('refused', 'taken');
  end if;
  select min(lower(p.valid)) into ends
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and lower(p.valid) > starts;
  if old.id is not null then
    update ai.model_prices p set valid = tstzrange(lower(old.valid), starts) where p.id = old.id;
  end if;
  insert into ai.model_prices (
    model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million, cached_input_usd_per_million,
    cache_write_usd_per_million, cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million,
    audio_output_usd_per_million, image_input_usd_per_million, request_fee_usd
  )
  values (
    model.id, change ->> 'providerId', served, tier, tstzrange(starts, ends), (change ->> 'inputUsd')::numeric,
    (change ->> 'cachedInputUsd')::numeric, (change ->> 'cacheWriteUsd')::numeric, (change ->> 'cacheWrite1hUsd')::numeric,
    (change ->> 'outputUsd')::numeric, (change ->> 'audioInputUsd')::numeric, (change ->> 'audioOutputUsd')::numeric,
    (change ->> 'imageInputUsd')::numeric, (change ->> 'requestFeeUsd')::numeric
  )
  returning * into new_price;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'targetName', model.display_name,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(new_price)
  ));
  return jsonb_build_object('from', lower(new_price.valid), 'until', upper(new_price.valid));
end
$$;

-- Records a test call to a provider, which costs money. Takes { actor or serviceAccount, provider, model, result
-- (answered, or why not), requestId, ip }. The caller has checked who may test.
-- Definer: the service role cannot read service accounts.
create or replace function private.record_provider_test(test jsonb) returns void
  language sql volatile security definer set search_path = ''
as $$
  select private.record_admin_action(
    test || '{"reason": "Route test"}',
    jsonb_build_object(
      'action', 'provider.test',
      'target', 'provider ' || (test ->> 'provider'),
      'after', jsonb_build_object('model', test ->> 'model', 'result', test ->> 'result')
    )
  )
$$;

-- Returns { signUp: open | invitation, updatedAt }.
create or replace function private.read_platform_settings() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('signUp', s.sign_up, 'updatedAt', s.updated_at) from private.platform_settings s
$$;

-- Opens sign-up to everyone, or closes it to people without an invitation. Takes { actor or serviceAccount, signUp (open
-- | invitation), seen (the setting that the caller saw), reason, requestId, ip }. Returns {} or { refused: forbidden }, or
-- { refused: conflict, last } if the setting is no longer what the caller saw. Existing accounts are not affected.
-- Definer: the service role cannot write settings.
create or replace function private.set_sign_up(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  update private.platform_settings s
  set sign_up = change ->> 'signUp', updated_at = now()
  where s.sign_up = change ->> 'seen' and s.sign_up <> change ->> 'signUp';
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('sign-up'));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'settings.sign_up',
    'target', 'sign-up',
    'before', jsonb_build_object('signUp', change ->> 'seen'),
    'after', jsonb_build_object('signUp', change ->> 'signUp')
  ));
  return '{}';
end
$$;

-- Changes the given fields of a workspace's AI policy. The change is { actor or serviceAccount, workspace, seen (the
-- updatedAt of the policy that the caller saw, or null), policy (fields of ai.change_workspace_policy), reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | unknown_models | invalid } or { refused: conflict,
-- last }.
-- Definer: the service role may not change policies.
create or replace function private.set_workspace_policy(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace public.workspaces;
  runtime_fields text[] := '{budget,appBudgets,updatedAt,updatedBy}';
  old_policy jsonb;
  result jsonb;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  old_policy := ai.workspace_policy_summary(workspace.id);
  result := ai.set_workspace_policy(
    coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid, workspace.id,
    change -> 'policy' || jsonb_build_object('readAt', change -> 'seen')
  );
  if result ->> 'outcome' = 'changed' then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'workspace.policy',
      'target', 'workspace ' || workspace.id,
      'targetName', case when workspace.personal_user_id is null then workspace.name end,
      'before', old_policy - runtime_fields,
      'after', (result -> 'policy') - runtime_fields
    ));
  end if;
  return private.answer_setting(workspace.id, result ->> 'outcome');
end
$$;

-- Sets or removes a budget of a workspace, or of an app or label in it. The change is { actor or serviceAccount,
-- workspace, scope (workspace, app or label), subject (the app's name, the label or null), period, budget (like
-- ai.budget_settings, or null to remove it), seen (the budget that the caller saw, or null), reason, requestId, ip }.
-- Budgets of members and keys belong to people: the workspace's own managers set them. Returns {} or { refused:
-- forbidden | not_found | invalid } or { refused: conflict, last }.
-- Definer: the service role may not change budgets.
create or replace function private.set_workspace_budget(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace public.workspaces;
  scope text := change ->> 'scope';
  identity jsonb := jsonb_build_object('scope', scope, 'subject', change -> 'subject', 'period', change -> 'period');
  budget jsonb := nullif(change -> 'budget', 'null');
  seen jsonb := nullif(change -> 'seen', 'null');
  result jsonb;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null;
  if not found or scope not in ('workspace', 'app', 'label') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  result := ai.replace_budget(
    coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid, workspace.id, scope,
    case scope
      when 'workspace' then workspace.id
      when 'app' then (select a.id from private.apps a where a.name = change ->> 'subject')
    end,
    budget ->> 'limitUsd', seen ->> 'limitUsd', case scope when 'label' then change ->> 'subject' end,
    change ->> 'period', budget ->> 'timeZone',
    array(select jsonb_array_elements_text(budget -> 'thresholds')::smallint), (budget ->> 'maxCalls')::bigint,
    seen ->> 'timeZone', array(select jsonb_array_elements_text(seen -> 'thresholds')::smallint),
    (seen ->> 'maxCalls')::bigint, (budget ->> 'reservesExpected')::boolean, (seen ->> 'reservesExpected')::boolean
  );
  if result ->> 'outcome' = 'changed' then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'workspace.budget',
      'target', 'workspace ' || workspace.id,
      'targetName', case when workspace.personal_user_id is null then workspace.name end,
      'before', identity || coalesce(seen, '{}'),
      'after', identity || coalesce(budget, '{"limitUsd": null}')
    ));
  end if;
  return private.answer_setting(workspace.id, result ->> 'outcome');
end
$$;

-- Returns the console's answer for the outcome that a member would get.
create or replace function private.answer_setting(workspace_id uuid, outcome text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when outcome in ('changed', 'unchanged') then '{}'
    when outcome = 'changed_meanwhile' then jsonb_build_object(
      'refused', 'conflict', 'last', private.last_admin_action('workspace ' || workspace_id)
    )
    when outcome in ('not_found', 'unknown_models') then jsonb_build_object('refused', outcome)
    else jsonb_build_object('refused', 'invalid')
  end
$$;

-- Opens an envelope for a person or service account, for the calls of a key's lineage or for a person's own. Without a
-- label, it holds all calls of the principal. Takes the place of an envelope that has ended. Returns { outcome: opened |
-- exists | too_many, id }. Callers have checked what the person or service account may do.
create or replace function ai.open_envelope(
  workspace uuid, principal uuid, label text, envelope jsonb, opened_by uuid, key_lineage uuid default null,
  owner uuid default null, ends_at timestamptz default null
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
#variable_conflict use_column
declare
  existing ai.envelopes;
  opened ai.envelopes;
  new_label text := coalesce(open_envelope.label, '');
  person uuid := private.person_or_null(open_envelope.opened_by);
begin
  -- Serializes people who open one for the same principal. A call that opens the same one waits at the unique key.
  perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'ai.open_envelope', workspace, principal), 0));
  select * into existing
  from ai.envelopes e
  where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null
  for update;
  if found then
    perform from ai.budgets b
    where b.scope = 'envelope' and b.subject_id = existing.id and b.workspace_id = workspace and b.ends_at > now();
    if found then
      return jsonb_build_object('outcome', 'exists', 'id', existing.id);
    end if;
    update ai.envelopes e set superseded_at = now() where e.id = existing.id;
  end if;
  if ai.open_envelope_count(workspace, principal) >= 1000 then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  insert into ai.envelopes (
    workspace_id, principal_id, label, holds_all, key_lineage_id, actor_id, opened_usd, opened_calls, ttl_seconds,
    opened_by, service_account_id
  )
  values (
    workspace, principal, new_label, new_label = '', key_lineage, coalesce(owner, person),
    (envelope ->> 'usd')::numeric, (envelope ->> 'calls')::bigint, (envelope ->> 'ttl_seconds')::integer, person,
    private.service_account_or_null(open_envelope.opened_by)
  )
  on conflict do nothing
  returning * into opened;
  if not found then
    -- A call has opened it since it was read.
    select * into existing
    from ai.envelopes e
    where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null;
    return jsonb_build_object('outcome', 'exists', 'id', existing.id);
  end if;
  insert into ai.budgets (scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at, thresholds)
  values (
    'envelope', opened.id, workspace, 'total', opened.opened_usd, opened.opened_calls, '-infinity',
    coalesce(
      open_envelope.ends_at,
      opened.opened_at + coalesce(opened.ttl_seconds * interval '1 second', interval '30 days')
    ),
    '{100}'
  );
  return jsonb_build_object('outcome', 'opened', 'id', opened.id);
end
$$;

-- Returns why a person, a service account or a satellite's session may not use a book, or null if they may. A
-- workspace's book is for members with the permission use_ai_studio. The platform's is for the console's roles admin and
-- finance, and for service accounts of the platform with the scope admin:books: { outcome: not_allowed }. A session opens
-- only workspaces' books: { refused } (private.studio_refusal). Not granted to any role.
create or replace function ai.book_refusal(member_id uuid, book uuid, token_hash bytea default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when token_hash is not null then (
      select jsonb_build_object('refused', s.reason)
      from private.studio_refusal(token_hash, book) as s (reason)
      where s.reason is not null
    )
    when book = ai.platform_book() and (
      private.console_role(member_id) in ('admin', 'finance') or private.service_account_may(member_id, 'admin:books')
    ) then null
    when private.user_has_workspace_permission(member_id, book, 'use_ai_studio') then null
    else '{"outcome": "not_allowed"}'::jsonb
  end
$$;

-- Approves or declines the open request that a member made at requested_at, or withdraws an approval, which revokes the
-- keys of that member's agents. Outcomes: done, answered, not_allowed. answered: another manager answered first, or the
-- member has made a later request.
-- Definer: the service role can't update access requests.
create or replace function ai.answer_agent_access(
  member_id uuid, workspace uuid, requester_id uuid, requested_at timestamptz, answer text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  new_access ai.agent_access;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Locks the workspace first, because deleting an account locks its workspaces before these rows.
  perform from public.workspaces w where w.id = workspace for key share;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.agent_access a
  set
    state = case answer when 'approve' then 'approved' when 'decline' then 'declined' else 'withdrawn' end,
    answered_at = now(),
    answered_by = private.person_or_null(member_id)
  where a.workspace_id = workspace
    and a.user_id = requester_id
    and a.requested_at = answer_agent_access.requested_at
    and a.state = case when answer in ('approve', 'decline') then 'open' else 'approved' end
  returning * into new_access;
  if not found then
    return jsonb_build_object('outcome', 'answered');
  end if;
  perform private.log_workspace_change(
    workspace, 'agent_access.' || new_access.state, requester_id,
    (select p.display_name from public.profiles p where p.id = requester_id)
  );
  return jsonb_build_object('outcome', 'done');
end
$$;

-- Ends the envelope of a connection that has ended, so that it is not listed as open.
create or replace function ai.end_connection_envelope(connection ai.agent_connections, actor uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  envelope constant ai.envelopes := ai.lineage_envelope(ai.connection_lineage(connection), connection.workspace_id);
begin
  -- In the order of ai.change_envelope. A call that waits for the lock compares with its own now(), which is earlier.
  update ai.budgets b
  set ends_at = least(b.ends_at, now() - interval '1 minute')
  where b.scope = 'envelope' and b.subject_id = envelope.id and b.workspace_id = envelope.workspace_id
    and b.period = 'total';
  update ai.envelopes e
  set ended_at = now(), ended_by = private.person_or_null(actor)
  where e.id = envelope.id and e.ended_at is null;
end
$$;

-- Stores a new key. The caller must have checked ai.key_issue_permission. Logs only the creation of the first key of a
-- lineage. connection_id is the coding agent's connection if the key belongs to an
-- agent.
create or replace function ai.store_key(
  member_id uuid,
  workspace uuid,
  key jsonb,
  lookup text,
  secret_hash text,
  lineage uuid default null,
  connection_id uuid default null
) returns ai.keys
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  new_key ai.keys;
begin
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id, connection_id,
    service_account_id
  )
  select
    id, coalesce(lineage, id), workspace, private.person_or_null(member_id), key ->> 'name',
    coalesce(key ->> 'environment', 'production'),
    store_key.lookup, decode(store_key.secret_hash, 'hex'), (key ->> 'externalAppId')::uuid,
    ai.text_list(key -> 'allowedModels'), ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId', store_key.connection_id,
    private.service_account_or_null(member_id)
  from (select gen_random_uuid() as id) as made_id
  returning * into new_key;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', new_key.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  if lineage is null
    or lineage = store_key.connection_id
    and not exists (select from ai.keys k where k.connection_id = lineage and k.id <> new_key.id) then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.created', new_key.id, new_key.name);
  end if;
  return new_key;
end
$$;

-- Adds the credential of a change, which has either secretHash (the text of a bytea) or publicJwk, and returns its id.
-- A public key has a kid. If the service account has no responsible person, the actor becomes it. Raises
-- check_violation or unique_violation.
create or replace function private.add_service_credential(account_id uuid, change jsonb) returns uuid
  language sql volatile security invoker set search_path = ''
as $$
  update private.service_accounts s
  set created_by = (change ->> 'actor')::uuid
  where s.id = account_id and s.created_by is null;
  insert into private.service_account_credentials (service_account_id, secret_hash, public_jwk, kid, created_by)
  values (
    account_id, (change ->> 'secretHash')::bytea, nullif(change -> 'publicJwk', 'null'), change -> 'publicJwk' ->> 'kid',
    (change ->> 'actor')::uuid
  )
  returning id
$$;

-- Returns a credential for the log, without the secret.
create or replace function private.service_credential_facts(credential private.service_account_credentials)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'kind', case when (credential).public_jwk is null then 'secret' else 'key' end, 'kid', (credential).kid
  ))
$$;

-- Gives a service account a new secret. The change also has secretHash and overlapSeconds, 0 to 86400: the earlier
-- secrets work that much longer, but not longer than before. Without an overlap, tokens of the earlier secrets end at
-- once. Returns { endsAt }, when the earlier secrets end, null if there were none, or { refused: forbidden | not_found
-- | invalid | too_many }.
-- Definer: the service role cannot write credentials, so every change passes these checks.
create or replace function private.rotate_service_secret(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  replaced integer;
begin
  if not private.may_change_service_account(change, coalesce(account.scopes, '{}')) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if account.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if overlap is null or overlap not between interval '0' and interval '24 hours' or change ->> 'secretHash' is null then
    return jsonb_build_object('refused', 'invalid');
  end if;
  if private.live_credential_count(account.id, with_secrets => overlap > interval '0') >= 5 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  begin
    delete from private.service_account_credentials c where c.service_account_id = account.id and c.expires_at <= now();
    if overlap = interval '0' then
      delete from private.service_account_credentials c
      where c.service_account_id = account.id and c.secret_hash is not null;
    else
      update private.service_account_credentials c
      set expires_at = least(c.expires_at, now() + overlap)
      where c.service_account_id = account.id and c.secret_hash is not null;
    end if;
    get diagnostics replaced = row_count;
    perform private.add_service_credential(account.id, change - 'publicJwk');
  exception
    when check_violation or unique_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'rotate_secret', 'after', jsonb_build_object('overlapSeconds', extract(epoch from overlap)::integer)
  ));
  return jsonb_build_object('endsAt', case when replaced > 0 then now() + overlap end);
end
$$;

-- Adds a public key to a service account. The change also has publicJwk. Keys have no overlap: add the new key, then
-- remove the old one. Returns { credential }, its id, or { refused: forbidden | not_found | invalid | taken (the kid)
-- | too_many }.
-- Definer: the service role cannot write credentials, so every change passes these checks.
create or replace function private.add_service_key(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
  credential_id uuid;
begin
  if not private.may_change_service_account(change, coalesce(account.scopes, '{}')) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if account.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.live_credential_count(account.id, with_secrets => true) >= 5 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  begin
    credential_id := private.add_service_credential(account.id, change - 'secretHash');
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'add_key', 'after', jsonb_build_object('kind', 'key', 'kid', change -> 'publicJwk' -> 'kid')
  ));
  return jsonb_build_object('credential', credential_id);
end
$$;

-- Removes a secret or key, and with it the tokens that it obtained. The change also has credential, an id. Members
-- with manage_members may remove all of the workspace, because removing gives no rights. Returns {} or { refused:
-- forbidden | not_found }.
-- Definer: the service role cannot write credentials, so every change passes these checks.
create or replace function private.remove_service_credential(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
  removed private.service_account_credentials;
begin
  if not private.may_change_service_account(change, '{}') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  delete from private.service_account_credentials c
  where c.id = (change ->> 'credential')::uuid and c.service_account_id = account.id
  returning * into removed;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'remove_credential', 'before', private.service_credential_facts(removed)
  ));
  return '{}';
end
$$;

-- Returns how many credentials of a service account work, with or without its secrets.
create or replace function private.live_credential_count(account_id uuid, with_secrets boolean) returns bigint
  language sql stable security invoker set search_path = ''
as $$
  select count(*)
  from private.service_account_credentials c
  where c.service_account_id = account_id
    and (c.expires_at is null or c.expires_at > now())
    and (with_secrets or c.public_jwk is not null)
$$;

-- Returns what can be edited of a service account.
create or replace function private.service_account_settings(account private.service_accounts) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'name', (account).name,
    'scopes', (account).scopes,
    'allowedAddresses', to_jsonb((account).allowed_addresses),
    'enabled', (account).enabled,
    'expiresAt', ai.utc_text_microseconds((account).expires_at)
  )
$$;

-- Returns a text that differs after each edit of a service account, so that an edit of an older state can be refused.
create or replace function private.service_account_version(account private.service_accounts) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(private.service_account_settings(account)::text)
$$;

-- Returns the id by which a service account requests tokens.
create or replace function private.service_account_client_id(account_id uuid) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select 'svc_' || account_id::text
$$;

-- Returns the service account with a client id, or null for any other text.
create or replace function private.service_account_of_client(client_id text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select private.uuid_or_null(substring(client_id from '^svc_([0-9a-f-]{36})$'))
$$;

-- Records a change of a service account, of the platform in the console's log, and of a workspace in the workspace's.
-- The act is { action, before, after }, where action is add, edit, enable, disable, rotate_secret, add_key,
-- remove_credential or revoke.
create or replace function private.record_service_account_change(
  change jsonb, account private.service_accounts, act jsonb
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  action constant text := act ->> 'action';
begin
  if account.workspace_id is null then
    perform private.record_admin_action(change, act || jsonb_build_object(
      'action', 'service_account.' || action, 'target', 'service account ' || account.id, 'targetName', account.name
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', change ->> 'actor', true);
  perform private.log_workspace_change(
    account.workspace_id,
    'service_account.' || case action
      when 'add' then 'created'
      when 'rotate_secret' then 'secret_rotated'
      when 'add_key' then 'key_added'
      when 'remove_credential' then 'credential_removed'
      when 'revoke' then 'revoked'
      else 'changed'
    end,
    account.id, account.name, act - 'action'
  );
end
$$;

-- Creates or edits a service account. The change is { actor, workspace (null for the platform), account (null to
-- create), name, scopes, allowedAddresses, expiresAt (within 366 days), enabled, reason, requestId, ip } and, to
-- create, either secretHash (the text of a bytea) or publicJwk, or, to edit, version (from
-- private.read_service_account). Disabling ends the tokens. If the service account has no responsible person, the
-- actor becomes it. Returns { id, clientId } or { refused: forbidden | not_found | conflict (the version is outdated;
-- last is private.last_admin_action for the platform) | taken (the name) | invalid | too_many (the platform or the
-- workspace has 100) }.
-- Definer: the service role cannot write service accounts, so every change passes these checks.
create or replace function private.save_service_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  is_new constant boolean := change ->> 'account' is null;
  owner constant uuid := (change ->> 'workspace')::uuid;
  new_scopes constant text[] := array(
    select distinct e.scope from jsonb_array_elements_text(change -> 'scopes') as e (scope) order by e.scope
  );
  end_time constant timestamptz := (change ->> 'expiresAt')::timestamptz;
  old private.service_accounts;
  saved private.service_accounts;
begin
  if not is_new then
    old := private.lock_service_account(change);
  end if;
  -- The scopes that it has count too: otherwise a member could edit a service account that may do more than the member.
  if not private.may_change_service_account(change, new_scopes || coalesce(old.scopes, '{}')) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if not is_new and old.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not is_new and private.service_account_version(old) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', case
      when owner is null then private.last_admin_action('service account ' || old.id)
    end);
  end if;
  if end_time is null
    or end_time is distinct from old.expires_at and (end_time <= now() or end_time > now() + interval '366 days') then
    return jsonb_build_object('refused', 'invalid');
  end if;
  begin
    if is_new then
      -- Serializes creations, so that the maximum holds.
      perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'private.save_service_account', owner), 0));
      if private.service_account_count(owner) >= 100 then
        return jsonb_build_object('refused', 'too_many');
      end if;
      insert into private.service_accounts (
        workspace_id, name, scopes, allowed_addresses, enabled, expires_at, created_by
      )
      values (
        owner, change ->> 'name', new_scopes, private.address_list(change -> 'allowedAddresses'),
        (change ->> 'enabled')::boolean, end_time, (change ->> 'actor')::uuid
      )
      returning * into saved;
      perform private.add_service_credential(saved.id, change);
    else
      update private.service_accounts s
      set
        name = change ->> 'name',
        scopes = new_scopes,
        allowed_addresses = private.address_list(change -> 'allowedAddresses'),
        enabled = (change ->> 'enabled')::boolean,
        expires_at = end_time,
        created_by = coalesce(s.created_by, (change ->> 'actor')::uuid)
      where s.id = old.id
      returning * into saved;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation or not_null_violation or invalid_text_representation then
      return jsonb_build_object('refused', 'invalid');
  end;
  if not saved.enabled then
    delete from private.service_tokens t where t.service_account_id = saved.id;
  end if;
  if private.service_account_version(saved) is distinct from private.service_account_version(old) then
    perform private.record_service_account_change(change, saved, jsonb_build_object(
      'action', case
        when is_new then 'add'
        when old.enabled and not saved.enabled then 'disable'
        when saved.enabled and not old.enabled then 'enable'
        else 'edit'
      end,
      'after', private.service_account_settings(saved)
    ) || case
      when is_new then '{}' else jsonb_build_object('before', private.service_account_settings(old))
    end);
  end if;
  return jsonb_build_object('id', saved.id, 'clientId', private.service_account_client_id(saved.id));
end
$$;

-- Revokes a service account for good, with its credentials and tokens. The change is { actor, workspace (null for the
-- platform), account, reason, requestId, ip }. A member with manage_members may revoke any of the workspace. Returns
-- {} or { refused: forbidden | not_found }.
-- Definer: the service role cannot write service accounts, so every change passes these checks.
create or replace function private.revoke_service_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
begin
  if not private.may_change_service_account(change, '{}') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if account.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  update private.service_accounts s set revoked_at = now() where s.id = account.id;
  -- Their tokens go with them.
  delete from private.service_account_credentials c where c.service_account_id = account.id;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'revoke', 'before', private.service_account_settings(account)
  ));
  return '{}';
end
$$;

-- Returns how many service accounts of a workspace, or of the platform if it is null, are not revoked.
create or replace function private.service_account_count(workspace uuid) returns bigint
  language sql stable security invoker set search_path = ''
as $$
  select count(*)
  from private.service_accounts s
  where s.workspace_id is not distinct from workspace and s.revoked_at is null
$$;

-- Returns a JSON array of addresses and networks. Raises invalid_text_representation if one is neither.
create or replace function private.address_list(addresses jsonb) returns cidr[]
  language sql immutable security invoker set search_path = ''
as $$
  select array(select e.address::cidr from jsonb_array_elements_text(addresses) as e (address))
$$;

-- Returns whether a member may give a workspace's service accounts these scopes, and manage those that have them: with
-- manage_members, and only scopes that the member has too. Otherwise a member could act through a service account that
-- may do more.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function private.may_manage_service_accounts(member_id uuid, workspace uuid, scopes text[])
  returns boolean
  language sql stable security definer set search_path = ''
as $$
  select exists (
    select
    from private.memberships_with_permission(member_id, workspace, 'manage_members') m
    join public.workspace_roles r on r.id = m.role_id
    where r.is_owner or may_manage_service_accounts.scopes <@ r.permissions::text[]
  )
$$;

-- Returns whether a change of service accounts may be made. Only people manage service accounts: those of a workspace
-- its members, and those of the platform an infrastructure admin, or the command line, which names no actor.
create or replace function private.may_change_service_account(change jsonb, scopes text[]) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select case
    when change ->> 'serviceAccount' is not null then false
    when change ->> 'workspace' is not null then private.may_manage_service_accounts(
      (change ->> 'actor')::uuid, (change ->> 'workspace')::uuid, may_change_service_account.scopes
    )
    when change ->> 'actor' is not null then private.is_infrastructure_admin((change ->> 'actor')::uuid)
    else true
  end
$$;

-- Locks and returns the service account that a change names, or nulls if it has been revoked or belongs to another
-- workspace. Locks the actor first, as the end of an account does.
create or replace function private.lock_service_account(change jsonb) returns private.service_accounts
  language sql volatile security invoker set search_path = ''
as $$
  select from auth.users u where u.id = (change ->> 'actor')::uuid for key share;
  select s
  from private.service_accounts s
  where s.id = (change ->> 'account')::uuid
    and s.workspace_id is not distinct from (change ->> 'workspace')::uuid
    and s.revoked_at is null
  for no key update
$$;

-- Authenticates a service account with a secret, or with an assertion that the server has verified with one of
-- private.service_account_keys. The request is { clientId, address } and either secretHash (the text of a bytea), or
-- credentialId, jti and assertionExpiresAt, the time after which the server refuses the assertion. refusal is null, or
-- unknown, address or replayed, which is for logs only. Changes of the service account wait until the caller commits, so
-- that they also end the token that the caller stores.
create or replace function private.authenticate_service_account(
  request jsonb,
  out account private.service_accounts,
  out credential private.service_account_credentials,
  out refusal text
)
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account_id constant uuid := private.service_account_of_client(request ->> 'clientId');
begin
  -- Only a credential of the service account takes the lock, because a change waits for it.
  if not exists (
    select
    from private.service_account_credentials c
    where c.service_account_id = account_id
      and case
        when request ? 'jti' then c.public_jwk is not null and c.id = (request ->> 'credentialId')::uuid
        else c.secret_hash = (request ->> 'secretHash')::bytea
      end
  ) then
    refusal := 'unknown';
    return;
  end if;
  -- The lock of private.lock_service_account, for which both wait in turn.
  perform from private.service_accounts s where s.id = account_id for no key update;
  select s.* into account from private.live_service_accounts(account_id) s;
  select c.* into credential
  from private.service_account_credentials c
  where c.service_account_id = account.id
    and (c.expires_at is null or c.expires_at > now())
    and case
      when request ? 'jti' then c.public_jwk is not null and c.id = (request ->> 'credentialId')::uuid
      else c.secret_hash = (request ->> 'secretHash')::bytea
    end;
  if not found then
    refusal := 'unknown';
  elsif not private.is_allowed_address(account, (request ->> 'address')::inet) then
    refusal := 'address';
  elsif request ? 'jti' then
    insert into private.used_assertions (service_account_id, jti, expires_at)
    values (account.id, request ->> 'jti', (request ->> 'assertionExpiresAt')::timestamptz)
    on conflict do nothing;
    if not found then
      refusal := 'replayed';
    end if;
  end if;
end
$$;

-- Stores a token of at most 15 minutes. The request is that of private.authenticate_service_account and tokenHash (the
-- text of a bytea) and scopes, null for all that the service account has. Returns { outcome: issued, id, name,
-- workspaceId, scopes, expiresIn (seconds) }, { outcome: invalid_scope }, or { outcome: invalid_client, reason: unknown
-- | address | replayed }, where the reason is not for the client.
-- Definer: the service role cannot write service accounts.
create or replace function private.issue_service_token(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  lifetime constant interval := interval '15 minutes';
  client record;
  account private.service_accounts;
  credential private.service_account_credentials;
  granted text[];
  ends_at timestamptz;
begin
  select a.* into client from private.authenticate_service_account(request) a;
  if client.refusal is not null then
    return jsonb_build_object('outcome', 'invalid_client', 'reason', client.refusal);
  end if;
  account := client.account;
  credential := client.credential;
  granted := account.scopes;
  if request ->> 'scopes' is not null then
    granted := array(
      select distinct e.scope from jsonb_array_elements_text(request -> 'scopes') as e (scope) order by e.scope
    );
  end if;
  if granted = '{}' or not granted <@ account.scopes then
    return jsonb_build_object('outcome', 'invalid_scope');
  end if;
  ends_at := least(now() + lifetime, account.expires_at, credential.expires_at);
  insert into private.service_tokens (token_hash, service_account_id, credential_id, scopes, expires_at)
  values ((request ->> 'tokenHash')::bytea, account.id, credential.id, granted, ends_at);
  perform private.note_service_account_use(account, (request ->> 'address')::inet);
  update private.service_account_credentials c
  set last_used_at = now()
  where c.id = (
    select o.id
    from private.service_account_credentials o
    where o.id = credential.id and coalesce(o.last_used_at < now() - interval '1 minute', true)
    for no key update skip locked
  );
  return jsonb_build_object(
    'outcome', 'issued',
    'id', account.id,
    'name', account.name,
    'workspaceId', account.workspace_id,
    'scopes', to_jsonb(granted),
    'expiresIn', ceil(extract(epoch from ends_at - now()))::integer
  );
end
$$;

-- Revokes a token (RFC 7009). The request is that of private.authenticate_service_account and tokenHash (the text of a
-- bytea). Does nothing for another service account's token. Returns whether the client authenticated.
-- Definer: the functions for credentials of service accounts are not granted to any role.
create or replace function private.revoke_service_token(request jsonb) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
begin
  select (a.account).id, a.refusal into client from private.authenticate_service_account(request) a;
  if client.refusal is not null then
    return false;
  end if;
  delete from private.service_tokens t
  where t.token_hash = (request ->> 'tokenHash')::bytea and t.service_account_id = client.id;
  return true;
end
$$;

-- Returns the service account that a token belongs to, { id, name, workspaceId, scopes }, or null if the token, its
-- credential or the service account is not in force, or may not be used from the address. scopes are those of the token
-- that the service account still has. Records the use at most once a minute.
-- Definer: the service role cannot write service accounts.
create or replace function private.read_service_caller(token_hash bytea, address inet) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts;
  current_scopes text[];
  token private.service_tokens;
begin
  select t.* into token
  from private.service_tokens t
  join private.service_account_credentials c on c.id = t.credential_id
  where t.token_hash = read_service_caller.token_hash
    and t.expires_at > now()
    and (c.expires_at is null or c.expires_at > now());
  if not found then
    return null;
  end if;
  select s.* into account from private.live_service_accounts(token.service_account_id) s;
  if not found or not private.is_allowed_address(account, read_service_caller.address) then
    return null;
  end if;
  current_scopes := array(select s from unnest(token.scopes) as s where s = any (account.scopes) order by s);
  perform private.note_service_account_use(account, read_service_caller.address);
  return jsonb_build_object(
    'id', account.id, 'name', account.name, 'workspaceId', account.workspace_id, 'scopes', to_jsonb(current_scopes)
  );
end
$$;

-- Returns whether a service account may be used from an address. Without an address, one with an address list is
-- refused.
create or replace function private.is_allowed_address(account private.service_accounts, address inet) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select cardinality((account).allowed_addresses) = 0
    or coalesce(is_allowed_address.address <<= any ((account).allowed_addresses), false)
$$;

-- Records the last use of a service account, at most once a minute. Skips a locked row, so that concurrent requests
-- don't wait for each other.
create or replace function private.note_service_account_use(account private.service_accounts, address inet) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.service_accounts s
  set last_used_at = now(), last_used_ip = note_service_account_use.address
  where s.id = (
    select o.id
    from private.service_accounts o
    where o.id = (account).id and coalesce(o.last_used_at < now() - interval '1 minute', true)
    for no key update skip locked
  )
$$;

-- Registers an OpenID client. Takes { actor, name, displayName, isPublic, scopes, redirectUris, postLogoutRedirectUris,
-- logoutUrl, allowsDeviceGrant, requiresPkce, claimsInIdToken, groupsWorkspaceId, secretHash, reason, requestId, ip }.
-- secretHash is the text of a bytea, or null for a client without a secret, such as a public client. Returns {} or {
-- refused: forbidden | taken | invalid }.
create or replace function private.add_openid_client(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  is_public boolean := (change ->> 'isPublic')::boolean;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if is_public and change ->> 'secretHash' is not null then
    raise exception 'a public client has no secret' using errcode = 'check_violation';
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', 'openid',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.openid_clients (
      app_id, is_public, redirect_uris, post_logout_redirect_uris, allows_device_grant, requires_pkce,
      claims_in_id_token, groups_workspace_id
    )
    values (
      app.id, is_public, array(select jsonb_array_elements_text(change -> 'redirectUris')),
      array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris')),
      (change ->> 'allowsDeviceGrant')::boolean,
      coalesce((change ->> 'requiresPkce')::boolean, true),
      coalesce((change ->> 'claimsInIdToken')::boolean, false),
      (change ->> 'groupsWorkspaceId')::uuid
    );
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation or foreign_key_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  insert into private.app_secrets (app_id, secret_hash)
  select app.id, (change ->> 'secretHash')::bytea where change ->> 'secretHash' is not null;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'targetName', app.display_name,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

-- Issues a recovery credential under an override. Takes { actor, overrideId, reason, tokenHash, codeSalt, codeHash, ip,
-- userAgent, requestId }; the hashes and the salt are in hex. Returns { credentialId, email, expiresAt } or { refused:
-- forbidden | oneself | not_found | inactive | switched_off }. Returns { refused: just_sent, retryAfterSeconds } if the
-- previous credential is too recent to be replaced. Voids the earlier credentials for the same email.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.issue_recovery_credential(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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
      when not private.is_override_active(override) then 'inactive'
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
  -- Supersedes used credentials too. Otherwise release_recovery_credential could make an old credential valid alongside
  -- the new one.
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
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.send',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = override.email limit 1),
    'target', override.email,
    'after', jsonb_build_object('overrideId', override.id, 'expiresAt', issued.expires_at)
  ));
  return jsonb_build_object('credentialId', issued.id, 'email', issued.email, 'expiresAt', issued.expires_at);
end
$$;

-- Returns the email address that a link would sign in, for the confirmation page. Returns null if the link does not
-- work in this browser. Does not use up the link.
create or replace function private.find_recovery_link_email(token_hash bytea, browser_hash bytea default null)
  returns text
  language sql stable security invoker set search_path = ''
as $$
  select c.email
  from private.recovery_credentials c
  join private.recovery_overrides o on o.id = c.override_id
  where c.token_hash = find_recovery_link_email.token_hash
    and private.is_recovery_open_to(c, browser_hash)
    and c.superseded_at is null
    and c.expires_at > now()
    and o.revoked_at is null
    and o.expires_at > now()
    and o.recovery_email
    -- The browser that has used up the override with this link can open the link again.
    and (private.is_override_active(o) or c.repeatable_by is not null)
$$;

-- Consumes a credential. Takes { tokenHash } or { email, codeHash }, with browserHash, ip, userAgent and requestId;
-- hashes are in hex. Of many concurrent calls, only one returns { outcome: consumed, credentialId, overrideId, email,
-- userId or null, banned, confirmed, replacedPassword, waitMs }. All others return { outcome: rejected }. The reason
-- for a rejection is recorded but not returned. replacedPassword is true if an earlier use replaced the password. Ends
-- every session, app session and app token of the account. The account's MFA policy then accepts a new session only if
-- it is created after waitMs.
-- Definer: accounts and their policies are in Supabase Auth's tables, which the service role can neither read nor
-- write.
create or replace function private.consume_recovery_credential(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  credential private.recovery_credentials;
  found_id uuid;
  of_email text;
  of_override uuid;
  check_result text;
  account auth.users;
  new_policy jsonb;
begin
  select c.id, c.email, c.override_id into found_id, of_email, of_override
  from private.recovery_credentials c
  where case
    when request ? 'tokenHash' then c.token_hash = decode(request ->> 'tokenHash', 'hex')
    else c.email = lower(request ->> 'email')
  end
  order by c.consumed_at is null and c.superseded_at is null desc, c.created_at desc
  limit 1;
  if found then
    -- All requests lock the override first, as issue_recovery_credential does, then the email, then the credential, so
    -- that concurrent requests cannot deadlock.
    perform from private.recovery_overrides o where o.id = of_override for no key update;
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  credential.consumed_at := case
    when not private.is_recovery_open_to(credential, decode(request ->> 'browserHash', 'hex'))
      then coalesce(credential.consumed_at, now())
  end;
  check_result := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  -- A browser that repeats its use has used the override already.
  if check_result = 'good' and credential.repeatable_by is null then
    check_result := case when private.mark_override_used(credential.override_id) then 'good' else 'override_used' end;
  end if;
  if check_result <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', check_result, 'email', of_email, 'overrideId', credential.override_id,
      'credentialId', credential.id
    ));
    return '{"outcome": "rejected"}';
  end if;

  update private.recovery_credentials c set consumed_at = now(), repeatable_session_id = null where c.id = credential.id;
  -- A link proves access to the mailbox, but does not lift a lock caused by wrong codes.
  delete from private.recovery_code_guesses g
  where g.email = of_email and (g.locked_until is null or g.locked_until <= now());
  select * into account
  from auth.users u
  where lower(u.email) = of_email and u.deleted_at is null and not u.is_sso_user
  for no key update;
  perform private.record_recovery_event((request - 'email') || jsonb_build_object(
    'kind', 'consume', 'outcome', case when request ? 'tokenHash' then 'by_link' else 'by_code' end,
    'email', of_email, 'overrideId', credential.override_id, 'credentialId', credential.id, 'userId', account.id
  ));
  perform private.end_all_access(account.id);
  -- Invalidates all earlier proofs of identity, so that the person must sign in again. Skips an unreadable policy,
  -- which an admin must repair.
  if account.id is not null and private.required_mfa_state(account.raw_app_meta_data) <> 'malformed' then
    new_policy := private.write_required_mfa_policy(account, '{"signInAgain": true}');
  end if;
  return jsonb_build_object(
    'outcome', 'consumed',
    'credentialId', credential.id,
    'overrideId', credential.override_id,
    'email', of_email,
    'userId', account.id,
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'replacedPassword', credential.replaced_password,
    'waitMs', coalesce(greatest(
      0, ceil(((new_policy ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
end
$$;

-- Makes a consumed credential usable again. Only the request that consumed the credential may call this, and only if
-- that request is certain to have created no session. After an earlier use, only the same browser can use the
-- credential. If that request was the first use of the override, the override counts as unused again.
create or replace function private.release_recovery_credential(credential_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  -- The override is locked first, as in consume_recovery_credential.
  update private.recovery_overrides o
  set used_at = null
  from private.recovery_credentials c
  where c.id = release_recovery_credential.credential_id and c.consumed_at > now() - interval '2 minutes'
    and c.repeatable_by is null and o.id = c.override_id and o.used_at = c.consumed_at;
  update private.recovery_credentials c
  set consumed_at = null
  where c.id = release_recovery_credential.credential_id and c.consumed_at > now() - interval '2 minutes'
$$;

-- Verifies a password under an override. Takes { email, password, ip, userAgent, requestId }. Returns { outcome:
-- proven, overrideId, userId, banned, confirmed } or { outcome: none | wrong | limited | oneself | unconfirmed }. none
-- means that no active override allows normal login, or that a concurrent caller has used it up. oneself means that the
-- account created the override. unconfirmed means that the account is newer than the override and its email was never
-- confirmed. Records every outcome except none, without the password.
-- Definer: password hashes are in Supabase Auth's tables, which the service role cannot read. No hash is returned.
create or replace function private.verify_override_password(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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
  -- Three prefixes name the same algorithm, and pgcrypto supports only the oldest.
  hash := regexp_replace(account.encrypted_password, '^\$2[by]\$', '$2a$');
  outcome := case
    when override.created_by = account.id then 'oneself'
    when private.consume_attempt(
      bucket.subject, 'override_password', bucket.scope, bucket.step, bucket.per,
      private.account_digest('email:' || of_email)
    ) is not null then 'limited'
    when coalesce(hash, '') !~ '^\$2a\$' then 'wrong'
    when extensions.crypt(request ->> 'password', hash) is distinct from hash then 'wrong'
    -- Anyone could have signed up with an email that an admin had already approved, so the account's password does not
    -- prove that its owner controls the mailbox.
    when account.email_confirmed_at is null and (account.created_at < override.created_at) is not true then 'unconfirmed'
    else 'proven'
  end;
  if outcome = 'proven' then
    if not private.mark_override_used(override.id) then
      return '{"outcome": "none"}';
    end if;
  end if;
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

-- Creates an override. Takes { actor, email, reason, normalLogin, recoveryEmail, singleUse, lifetimeSeconds, ip,
-- userAgent, requestId }. singleUse is true if the override ends when it is used. lifetimeSeconds is 7 days by default,
-- or 30 days if singleUse is true. Returns { overrideId, expiresAt } or { refused: forbidden | oneself | lifetime |
-- active }.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.create_recovery_override(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  for_email text := lower(trim(request ->> 'email'));
  for_one_use boolean := coalesce((request ->> 'singleUse')::boolean, false);
  lifetime interval := coalesce(
    make_interval(secs => (request ->> 'lifetimeSeconds')::bigint),
    case when for_one_use then interval '30 days' else interval '7 days' end
  );
  refused text := private.recovery_actor_refusal(request, for_email);
  new_override private.recovery_overrides;
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  if lifetime <= interval '0' or lifetime > interval '30 days' then
    return jsonb_build_object('refused', 'lifetime');
  end if;
  -- Concurrent calls for the same email run one after another.
  perform pg_advisory_xact_lock(hashtextextended('private.recovery_overrides ' || for_email, 0));
  if exists (select from private.active_recovery_override(for_email)) then
    return jsonb_build_object('refused', 'active');
  end if;
  insert into private.recovery_overrides (
    email, reason, normal_login, recovery_email, single_use, created_by, expires_at
  )
  values (
    for_email, request ->> 'reason', (request ->> 'normalLogin')::boolean, (request ->> 'recoveryEmail')::boolean,
    for_one_use, (request ->> 'actor')::uuid, now() + lifetime
  )
  returning * into new_override;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'create', 'outcome', 'created', 'email', for_email, 'overrideId', new_override.id)
  );
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.create',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = for_email limit 1),
    'target', for_email,
    'after', to_jsonb(new_override)
  ));
  return jsonb_build_object('overrideId', new_override.id, 'expiresAt', new_override.expires_at);
end
$$;

-- Marks an override as used when it is first used. Returns whether the caller may use it: of concurrent callers, one may
-- use an override that ends with its first use.
create or replace function private.mark_override_used(override_id uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  update private.recovery_overrides o
  set used_at = now()
  where o.id = mark_override_used.override_id and o.used_at is null;
  return found or exists (
    select from private.recovery_overrides o where o.id = mark_override_used.override_id and not o.single_use
  );
end
$$;

-- Records an event: { kind, outcome, email, overrideId, credentialId, userId, actor, ip, userAgent, requestId }. Only
-- kind and outcome are required. A sign-in for which the override lifted limits is a use of it.
create or replace function private.record_recovery_event(event jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select private.mark_override_used((event ->> 'overrideId')::uuid)
  where event ->> 'kind' = 'login_bypass' and event ->> 'outcome' = 'signed_in';
  insert into private.recovery_events (
    kind, outcome, email, override_id, credential_id, user_id, actor_id, ip, user_agent, request_id
  )
  values (
    event ->> 'kind', event ->> 'outcome', lower(event ->> 'email'), (event ->> 'overrideId')::uuid,
    (event ->> 'credentialId')::uuid, (event ->> 'userId')::uuid, (event ->> 'actor')::uuid,
    (event ->> 'ip')::inet, event ->> 'userAgent', event ->> 'requestId'
  )
$$;

-- Returns what limits sign-ins with an email and its account: [{ kind, until }, …]. until is when the next attempt is
-- possible; null if it is possible now. What locks comes first. kind is
-- - ban: the account is banned
-- - codes, with { wrong }: wrong codes of recovery emails
-- - block, with { blockId, address }: one of the account's recent networks is blocked
-- - limit, with { action, scope, used, attempts, perSeconds, whenEmpty }: a limit of private.attempt_limits() that is
--   partly or fully used. A limit that asks for a bot challenge never locks, nor does one that an override lifts. A
--   limit for each address appears for each address that it locks, or else for the one that has used most of it,
--   without the address, which is not stored.
-- Not granted to any role.
create or replace function private.list_recovery_locks(of_email text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with account as (
    select u.id, u.banned_until
    from auth.users u
    where lower(u.email) = lower(of_email) and u.deleted_at is null and not u.is_sso_user
  ),
  limits as (
    select
      l.*,
      l.per / l.attempts as step,
      r.full_at,
      l.when_empty in ('refuse', 'refuse_new') and r.full_at + l.per / l.attempts > now() + l.per
        and not (o.is_lifting and l.action in ('password', 'sign_in_code')) as is_locked,
      row_number() over (partition by l.action, l.scope order by r.full_at desc) as place
    from private.rate_limits r
    join private.attempt_limits() l on l.action = r.action and l.scope = r.scope
    cross join (select private.active_login_override(of_email) is not null as is_lifting) o
    where r.account = any (array(
        select private.account_digest(n.account)
        from (
          select 'email:' || lower(of_email) as account
          union all
          select 'user:' || a.id from account a
        ) n
      ))
      and r.full_at > now() and l.when_empty not in ('wait', 'repeat')
  ),
  locks (place, lock, until) as (
    select 1, jsonb_build_object('kind', 'ban'), a.banned_until
    from account a
    where a.banned_until > now()
    union all
    select
      2, jsonb_build_object('kind', 'codes', 'wrong', g.wrong),
      case when g.locked_until > now() then g.locked_until end
    from private.recovery_code_guesses g
    where g.email = lower(of_email)
      and (g.locked_until > now() or g.wrong > 0 and g.last_wrong_at > now() - interval '24 hours')
    union all
    select
      3, jsonb_build_object('kind', 'block', 'blockId', b.id, 'address', b.address::inet), b.blocked_until
    from account a
    join private.address_blocks b on b.address = any (private.recent_networks(a.id))
    where b.blocked_until > now() and b.lifted_at is null
    union all
    select
      4,
      jsonb_build_object(
        'kind', 'limit',
        'action', l.action,
        'scope', l.scope,
        'used', ceil(extract(epoch from l.full_at - now()) / extract(epoch from l.step)),
        'attempts', l.attempts,
        'perSeconds', extract(epoch from l.per)::integer,
        'whenEmpty', l.when_empty
      ),
      case when l.is_locked then l.full_at + l.step - l.per end
    from limits l
    where l.is_locked or l.place = 1
  )
  select coalesce(
    jsonb_agg(
      k.lock || jsonb_build_object('until', k.until)
      order by k.until is null, k.place, k.until desc, k.lock ->> 'action', k.lock ->> 'scope'
    ),
    '[]'
  )
  from (select * from locks l order by l.until is null, l.place, l.until desc limit 50) k
$$;

-- Returns why an entry's session has ended: the kind of the first event since the browser last used it that ended every
-- other session or this one. Without such an event, session_revoked if a session of the account was revoked, which may
-- have been this one, or idle after 30 days without use. Returns null if the reason is unknown. Only for a browser that
-- presented its device's secret.
create or replace function private.session_end_reason(entry private.account_vault_entries) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (
      select v.kind
      from public.security_events v
      where v.user_id = entry.user_id
        and v.created_at >= entry.last_active_at
        and case v.kind
          when 'sign_out' then v.session_id = entry.session_id
          -- The session in which a change was made stays signed in.
          when 'all_sessions_revoked' then true
          else v.session_id is distinct from entry.session_id
            and v.kind in (
              'session_revoked', 'other_sessions_revoked', 'signed_out_by_admin', 'authenticators_reset',
              'account_banned', 'deletion_requested', 'password_changed', 'password_added', 'recovery_code_used',
              'account_recovered'
            )
        end
      order by v.kind = 'session_revoked', v.created_at, v.id
      limit 1
    ),
    case when entry.last_active_at <= now() - interval '30 days' then 'idle' end
  )
$$;

-- Adds one line to the audit log in the transaction of the change. Arguments: change { actor or serviceAccount, reason,
-- requestId, ip } and act { action, targetUserId, target, targetName, before, after }. targetName is kept after the
-- target is deleted, so it must not name a personal workspace. The service account's name is kept as well. Functions of
-- the books name a service account as actor, like a member.
create or replace function private.record_admin_action(change jsonb, act jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.admin_audit_log (
    actor_id, service_account_id, service_account_name, action, target_user_id, target, target_name, reason, before, after,
    request_id, ip
  )
  select
    case when s.id is null then c.id end, s.id, s.name, act ->> 'action', (act ->> 'targetUserId')::uuid,
    act ->> 'target', left(act ->> 'targetName', 320), change ->> 'reason', nullif(act -> 'before', 'null'),
    nullif(act -> 'after', 'null'), change ->> 'requestId', (change ->> 'ip')::inet
  from (values (coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid)) as c (id)
  left join private.service_accounts s on s.id = c.id
$$;

-- Bans an account until a time, or lifts its ban if the time is null. Skips the event that every other change of a ban
-- adds (private.record_account_change), because the caller adds one with the reason. The caller must hold the account's
-- row for update.
-- The API cannot change a ban and write the audit log in one transaction.
create or replace function private.write_ban(subject_id uuid, until timestamptz) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform set_config('gatehouse.ban_writer', 'on', true);
  update auth.users u set banned_until = write_ban.until, updated_at = now() where u.id = subject_id;
  perform set_config('gatehouse.ban_writer', 'off', true);
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

-- Sets one budget; null removes it. A budget of period concurrent has max_calls instead of an amount. Requires
-- manage_ai_policy or, for a key's budget, manage_ai_keys. For the scope label, takes the label's text and derives the
-- subject from it. time_zone, thresholds and reserves_expected stay the same if they are null. The arguments that begin
-- with read are what the member saw; read_time_zone, read_thresholds and read_reserves_expected are compared only if
-- given. If one of them has changed since, nothing is changed. Outcomes: changed, unchanged, changed_meanwhile (with the
-- current settings), invalid (with param and message), not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null,
  period text default 'month', time_zone text default null, thresholds smallint[] default null,
  max_calls bigint default null, read_time_zone text default null, read_thresholds smallint[] default null,
  read_max_calls bigint default null, reserves_expected boolean default null,
  read_reserves_expected boolean default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return ai.replace_budget(
    member_id, workspace, scope, subject, limit_usd, read_limit_usd, label, period, time_zone, thresholds, max_calls,
    read_time_zone, read_thresholds, read_max_calls, reserves_expected, read_reserves_expected
  );
end
$$;

-- Sets a budget like ai.change_budget, without its check of permissions, for a member, an admin or a service account.
create or replace function ai.replace_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text, period text,
  time_zone text, thresholds smallint[], max_calls bigint, read_time_zone text, read_thresholds smallint[],
  read_max_calls bigint, reserves_expected boolean, read_reserves_expected boolean
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  new_limit numeric := replace_budget.limit_usd::numeric;
  fault record;
  old ai.budgets;
  current ai.budgets;
  differences jsonb;
begin
  fault := ai.budget_fault(scope, period, time_zone, thresholds, new_limit, max_calls, reserves_expected);
  if fault.param is not null then
    return jsonb_build_object('outcome', 'invalid', 'param', fault.param, 'message', fault.message);
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = replace_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  old := ai.find_budget(scope, subject, workspace, period);
  if old.limit_usd is distinct from read_limit_usd::numeric
    or old.max_calls is distinct from read_max_calls
    or old.time_zone <> read_time_zone
    or old.thresholds <> ai.sorted_thresholds(read_thresholds)
    or old.reserves_expected <> read_reserves_expected then
    return jsonb_build_object('outcome', 'changed_meanwhile') || ai.budget_settings(old);
  end if;
  perform ai.set_budget(
    scope, subject, workspace, new_limit, label, period, time_zone, thresholds, max_calls, reserves_expected
  );
  current := ai.find_budget(scope, subject, workspace, period);
  select coalesce(jsonb_object_agg(n.key, jsonb_build_object('before', o.value, 'after', n.value)), '{}') into differences
  from jsonb_each(ai.budget_settings(current)) n
  join jsonb_each(ai.budget_settings(old)) o using (key)
  where n.value <> o.value and (current.scope is not null or n.key in ('limitUsd', 'maxCalls'));
  if differences = '{}' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object(
      'scope', scope, 'before', trim_scale(old.limit_usd)::text, 'after', trim_scale(current.limit_usd)::text
    ) || case when period <> 'month' then jsonb_build_object('period', period) else '{}' end || differences - 'limitUsd'
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

-- Returns a page of a workspace's budgets and their use in their current windows, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy, and only if include_keys. Sorts budgets by scope, labels by their text, other
-- subjects by when they were created, and budgets of a subject by their period. A subject without a budget appears once,
-- as a monthly budget without a limit. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. startsAt and endsAt are null for budgets without
-- windows. maxCalls and calls are the maximum and the number of concurrent calls. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Until 0.5.0, for servers of 0.3.0: month and endsAt of the answer are those of the UTC month, and without all_periods,
-- only monthly budgets are returned.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[], page_size integer, scopes text[], all_periods boolean default false,
  include_keys boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := include_keys and (
    private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
  );
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'period', p.period,
          'timeZone', coalesce((p.budget).time_zone, 'UTC'),
          'startsAt', case when isfinite(p.starts_at) then ai.utc_text(p.starts_at) end,
          'endsAt', case when isfinite(p.ends_at) then ai.utc_text(p.ends_at) end,
          'thresholds', coalesce((p.budget).thresholds, '{50,80,100}'),
          'reservesExpected', coalesce((p.budget).reserves_expected, false),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            -- greatest(null, 0) is 0, so a missing limit needs its own case.
            when visible and (p.budget).limit_usd is not null then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'maxCalls', (p.budget).max_calls,
          'calls', case when p.period = 'concurrent' then (p.budget).calls end,
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.period = p.period and a.month = (p.starts_at at time zone ai.known_time_zone((p.budget).time_zone))::date
              and a.threshold > 0 and a.posted_at is not null and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select
          s.*, b as budget, x.period, c.spent_usd as spent, o.position,
          case when b.scope is null then this_month at time zone 'UTC' else c.starts_at end as starts_at,
          case when b.scope is null then (this_month + interval '1 month') at time zone 'UTC' else c.ends_at end as ends_at
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace
            and num_nonnulls(b.limit_usd, b.max_calls) > 0 and (all_periods or b.period = 'month')
        cross join lateral ai.current_budget(b, now()) as c
        cross join lateral (select coalesce(b.period, 'month') as period) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] || case
            when all_periods then array[array_position(array['day', 'week', 'month', 'total', 'concurrent'], x.period)::text]
          end as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or c.spent_usd > 0)
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns one envelope with its history: { outcome: read, costVisible, envelope, history }, not_allowed, or not_found,
-- which includes envelopes of other members that this member may not see.
-- Definer: as ai.list_envelopes.
create or replace function ai.read_envelope(member_id uuid, workspace uuid, envelope_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  details jsonb;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select ai.envelope_details(e, b, visible) into details
  from ai.envelopes e
  join ai.budgets b
    on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id and b.period = 'total'
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'costVisible', visible,
    'envelope', details,
    'history', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', l.id,
        'actorId', l.actor_id,
        'actor', private.actor_name(l.actor_id),
        'action', l.action,
        'subjectId', l.subject_id,
        'subject', l.subject,
        'details', l.details,
        'at', ai.utc_text(l.created_at)
      ) order by l.id desc), '[]')
      from (
        select l.*
        from public.workspace_audit_log l
        where l.workspace_id = workspace and l.subject_id = envelope_id and l.action like 'envelope.%'
        order by l.id desc
        limit 50
      ) as l
    )
  );
end
$$;

-- Changes one envelope. changes may have limitUsd, calls and endsAt, or ended: true, which ends the envelope for good. A
-- later endsAt resumes an expired one. Raising an amount or extending the end requires a recent proof of identity
-- (is_fresh). read_version is the version that the member saw; ending ignores it. Outcomes: changed, unchanged,
-- changed_meanwhile and ended (all with the envelope), step_up_required, bad_end, not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes envelopes, which the service role can't do itself.
create or replace function ai.change_envelope(
  member_id uuid, workspace uuid, envelope_id uuid, changes jsonb, read_version text, is_fresh boolean
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  ends boolean := coalesce((changes ->> 'ended')::boolean, false);
  envelope ai.envelopes;
  old_budget ai.budgets;
  new_budget ai.budgets;
  raises boolean;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform from ai.envelopes e
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The order of ai.lock_rows holds: one budget, then the envelope, which calls and ai.open_envelope don't lock before a
  -- budget.
  select * into old_budget
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  for no key update;
  select * into envelope from ai.envelopes e where e.id = envelope_id for no key update;
  if old_budget.subject_id is null or envelope.id is null then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if envelope.ended_at is not null or envelope.superseded_at is not null then
    return jsonb_build_object(
      'outcome', case when ends and envelope.ended_at is not null then 'unchanged' else 'ended' end,
      'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  if not ends and read_version is distinct from ai.envelope_version(envelope, old_budget) then
    return jsonb_build_object(
      'outcome', 'changed_meanwhile', 'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  new_budget := old_budget;
  if ends then
    -- A call that waits for the lock compares with its own now(), which is earlier.
    new_budget.ends_at := least(old_budget.ends_at, now() - interval '1 minute');
  else
    if changes ? 'limitUsd' then
      new_budget.limit_usd := (changes ->> 'limitUsd')::numeric;
    end if;
    if changes ? 'calls' then
      new_budget.max_calls := (changes ->> 'calls')::bigint;
    end if;
    if changes ? 'endsAt' then
      new_budget.ends_at := (changes ->> 'endsAt')::timestamptz;
    end if;
    if new_budget = old_budget then
      return jsonb_build_object('outcome', 'unchanged', 'envelope', ai.envelope_details(envelope, old_budget, visible));
    end if;
    if new_budget.ends_at <> old_budget.ends_at and not ai.is_envelope_end(new_budget.ends_at) then
      return jsonb_build_object('outcome', 'bad_end');
    end if;
  end if;
  raises := new_budget.limit_usd > old_budget.limit_usd
    or (new_budget.max_calls is null and old_budget.max_calls is not null)
    or coalesce(new_budget.max_calls > old_budget.max_calls, false)
    or new_budget.ends_at > old_budget.ends_at;
  if raises and not is_fresh then
    return jsonb_build_object('outcome', 'step_up_required');
  end if;
  update ai.budgets b
  set
    limit_usd = new_budget.limit_usd,
    max_calls = new_budget.max_calls,
    ends_at = new_budget.ends_at,
    -- The refused call may now fit.
    refused_at = case when not raises then b.refused_at end
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  returning * into new_budget;
  if ends then
    update ai.envelopes e set ended_at = now(), ended_by = private.person_or_null(member_id) where e.id = envelope_id
    returning * into envelope;
  elsif raises then
    perform ai.reset_budget_alert('envelope', envelope_id, workspace, 'total');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, case when ends then 'envelope.ended' else 'envelope.changed' end, envelope_id, ai.envelope_name(envelope),
    case
      when ends then '{}'
      else jsonb_build_object('before', ai.envelope_limits(old_budget), 'after', ai.envelope_limits(new_budget))
    end
  );
  return jsonb_build_object('outcome', 'changed', 'envelope', ai.envelope_details(envelope, new_budget, visible));
end
$$;

-- Opens an envelope for a key's calls or, without a key, for the member's own calls. limits has limitUsd and optionally
-- calls and endsAt. Without a label, it holds every call of the key or member. Replaces an ended or expired one. The
-- caller must have checked that the proof of identity is recent. Outcomes: opened and exists (both with the envelope),
-- too_many, bad_end, bad_label, not_active, not_allowed, not_found. Logs the opening.
-- Definer: as ai.change_envelope.
create or replace function ai.open_envelope_for_member(
  member_id uuid, workspace uuid, key_id uuid, label text, limits jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  end_time timestamptz := (limits ->> 'endsAt')::timestamptz;
  key ai.keys;
  opening jsonb;
  envelope ai.envelopes;
  budget ai.budgets;
begin
  -- A service account makes no calls of its own.
  if access is null or key_id is null and (
    not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
    or private.person_or_null(member_id) is null
  ) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if key_id is not null then
    select * into key
    from ai.keys k
    where k.id = key_id and k.workspace_id = workspace and (access = 'all' or k.created_by = member_id);
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
    if not exists (select from ai.keys k where k.lineage_id = key.lineage_id and ai.has_calling_key(k)) then
      return jsonb_build_object('outcome', 'not_active');
    end if;
    -- Every call of the key has the key's label, so an envelope with another one would hold nothing.
    if key.entity_id is not null and label not in ('', key.entity_id) then
      return jsonb_build_object('outcome', 'bad_label');
    end if;
  end if;
  if not coalesce(ai.is_envelope_end(end_time), true) then
    return jsonb_build_object('outcome', 'bad_end');
  end if;
  opening := ai.open_envelope(
    workspace, coalesce(key.lineage_id, member_id), label,
    jsonb_build_object('usd', limits ->> 'limitUsd', 'calls', limits -> 'calls'),
    opened_by => member_id, key_lineage => key.lineage_id, owner => key.created_by, ends_at => end_time
  );
  if opening ->> 'outcome' = 'too_many' then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  select * into envelope from ai.envelopes e where e.id = (opening ->> 'id')::uuid;
  select * into budget from ai.budgets b where b.scope = 'envelope' and b.subject_id = envelope.id;
  if opening ->> 'outcome' = 'opened' then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(
      workspace, 'envelope.opened', envelope.id, ai.envelope_name(envelope),
      jsonb_build_object('after', ai.envelope_limits(budget))
    );
  end if;
  return jsonb_build_object(
    'outcome', opening ->> 'outcome', 'envelope', ai.envelope_details(envelope, budget, visible)
  );
end
$$;

-- Returns an envelope for members. Amounts are exact text. What was spent is null if the workspace hides provider cost.
-- waiting: a call was refused since the limits were last raised.
create or replace function ai.envelope_details(envelope ai.envelopes, budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.envelope_limits(budget) || jsonb_build_object(
    'id', (envelope).id,
    'version', ai.envelope_version(envelope, budget),
    'state', s.state,
    'waiting', s.state = 'open' and (budget).refused_at is not null,
    'principal', ai.principal_of_envelope(envelope),
    'keyId', (
      select k.id from ai.keys k
      where k.lineage_id = (envelope).key_lineage_id and k.workspace_id = (envelope).workspace_id
      order by k.created_at desc, k.id desc limit 1
    ),
    'owner', (select p.display_name from public.profiles p where p.id = (envelope).actor_id),
    'label', (envelope).label,
    'holdsAll', (envelope).holds_all,
    'openedUsd', trim_scale((envelope).opened_usd)::text,
    'openedCalls', (envelope).opened_calls,
    'openedAt', ai.utc_text_microseconds((envelope).opened_at),
    'openedBy', private.actor_name(coalesce((envelope).opened_by, (envelope).service_account_id)),
    'endedAt', ai.utc_text((envelope).ended_at),
    'endedBy', (select p.display_name from public.profiles p where p.id = (envelope).ended_by),
    'replaced', (envelope).superseded_at is not null,
    'lastRefusedAt', ai.utc_text((budget).refused_at),
    'usedCalls', (budget).calls,
    'remainingCalls', greatest((budget).max_calls - (budget).calls, case when (budget).max_calls is not null then 0 end),
    'spentUsd', case when cost_visible then trim_scale((budget).spent_usd)::text end,
    'reservedUsd', case when cost_visible then trim_scale((budget).reserved_usd)::text end,
    'remainingUsd', case
      when cost_visible then trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))::text
    end
  )
  from (select ai.envelope_state(envelope, budget) as state) as s
$$;

-- Requests approval for a workspace on behalf of a person with manage_ai_keys. Queues one email { subject, text } for
-- each infrastructure admin. Changes nothing if a request is open or the workspace is approved. Returns
-- ai.key_approval_state or { outcome: not_allowed }.
-- Definer: the service role cannot write requests or read Supabase Auth's email addresses.
create or replace function ai.request_key_approval(member_id uuid, workspace uuid, note text, email jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  old_request ai.key_approval_requests;
  emails_admins boolean;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.person_or_null(member_id) is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Serializes a member's requests, because the limit on emails counts the member's earlier requests.
  perform pg_advisory_xact_lock(hashtextextended('ai.request_key_approval ' || member_id, 0));
  -- Approving and declining lock the workspace too.
  perform from public.workspaces w where w.id = workspace and w.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select * into old_request from ai.key_approval_requests q where q.workspace_id = workspace;
  if old_request.state = 'open' or exists (select from ai.key_approvals a where a.workspace_id = workspace) then
    return ai.key_approval_state(workspace);
  end if;
  emails_admins := ai.may_email_admins(member_id, old_request);
  insert into ai.key_approval_requests as q (workspace_id, requested_by, note, admins_emailed_at, admins_emailed_for)
  values (
    workspace, member_id, nullif(btrim(request_key_approval.note), ''),
    case when emails_admins then now() else old_request.admins_emailed_at end,
    case when emails_admins then member_id else old_request.admins_emailed_for end
  )
  on conflict (workspace_id) do update
  set
    requested_by = excluded.requested_by,
    requested_at = excluded.requested_at,
    note = excluded.note,
    state = 'open',
    answered_at = null,
    decline_reason = null,
    admins_emailed_at = excluded.admins_emailed_at,
    admins_emailed_for = excluded.admins_emailed_for;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_key_approval.email ->> 'subject', request_key_approval.email ->> 'text', now()
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
  where emails_admins and ai.can_be_emailed(u);
  return ai.key_approval_state(workspace);
end
$$;

-- Returns a key's details without its secret, which is stored only as a hash. Amounts are exact text. spentThisMonthUsd is
-- for the current UTC month. budget is the key's monthly budget. Spend includes the keys that this key replaced. A replaced key has no spend of its own, so that a sum
-- over keys counts each amount once. For an agent's key, the last use is the latest use of any key of the agent.
create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.key_settings(key) || jsonb_build_object(
    'id', (key).id,
    'lineageId', (key).lineage_id,
    'version', ai.key_version(key),
    'prefix', 'ttr_ai_' || (key).lookup,
    'createdAt', (key).created_at,
    'createdBy', private.actor_name(coalesce((key).created_by, (key).service_account_id)),
    'lastUsedAt', case
      when (key).connection_id is null then (key).last_used_at
      else (select max(k.last_used_at) from ai.keys k where k.connection_id = (key).connection_id)
    end,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).connection_id is not null
        then case when ai.agent_of_key(key) ->> 'status' = 'good' then 'active' else 'expired' end
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'entityId', (key).entity_id,
    'spentThisMonthUsd', case
      when (key).replaced_by is null and ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text
    end,
    'agent', ai.agent_of_key(key),
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select ai.budget_summary(b, (key).replaced_by is null and ai.cost_visible(b.workspace_id))
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.period = 'month' and b.limit_usd is not null
    )
  )
$$;

-- Stores a new key. The caller has generated the key's text and shows it once, and passes only the lookup part and the
-- SHA-256 hash in hexadecimal. Outcomes: issued (with key), not_allowed, not_approved, no_payer, app_not_linked,
-- unknown_models (with param and models), too_many. too_many: the workspace has 200 live keys. no_payer: the caller is a
-- service account, and members pay for their own keys.
-- Definer: the service role cannot write keys, so every key passes these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  unknown text[] := ai.unknown_models(ai.text_list(key -> 'allowedModels'));
  new_key ai.keys;
begin
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  if ai.key_has_no_payer(member_id, workspace) then
    return jsonb_build_object('outcome', 'no_payer');
  end if;
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if ai.has_too_many_keys(workspace) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  new_key := ai.store_key(member_id, workspace, key, issue_key.lookup, issue_key.secret_hash);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(new_key, 0));
end
$$;

-- Replaces a key with a new one. The new key keeps all limits and bindings. The spend of both keys is counted together.
-- The old key works until the overlap ends. Outcomes: issued (with key), not_allowed, not_approved, no_payer, not_found,
-- not_active, agent_key. agent_key: only the coding agent can renew this key. no_payer: as in ai.issue_key, because a
-- service account would get the text of a key whose calls a member pays for.
-- Definer: the service role cannot write keys, so every key passes these checks.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  new_key ai.keys;
  creator uuid;
begin
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- Makes a concurrent rotation of the key wait. The later rotation then finds the key replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.connection_id is not null then
    return jsonb_build_object('outcome', 'agent_key');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  -- Keeps the key's creator, because calls in a free workspace are charged to the creator's credits. If the creator has
  -- left, their key would not work in a free workspace, so the caller becomes its creator.
  creator := case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end;
  if ai.key_has_no_payer(member_id, workspace) or ai.key_has_no_payer(creator, workspace) then
    return jsonb_build_object('outcome', 'no_payer');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, service_account_id, name, environment, lookup, secret_hash, external_app_id,
    allowed_models, allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace, private.person_or_null(creator), private.service_account_or_null(creator), old.name,
    old.environment, rotate_key.lookup, decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models,
    old.allowed_addresses, old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into new_key;
  update ai.keys k
  set
    replaced_by = new_key.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', new_key.id, new_key.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[new_key]) -> 0);
end
$$;

-- Revokes a key. For a coding agent's key, revokes the agent's connection. Idempotent. Requires manage_ai_keys, but the
-- workspace need not be approved. Outcomes: revoked, not_allowed, not_found.
-- Definer: the service role cannot write keys, so every revocation passes these checks.
create or replace function ai.revoke_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  revoked_key ai.keys;
  agent uuid;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select k.connection_id into agent from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  if agent is not null then
    -- A key manager who revokes another member's agent also withdraws that member's approval.
    if ai.end_connection(agent, member_id) then
      update ai.agent_access a
      set state = 'withdrawn', answered_at = now(), answered_by = private.person_or_null(member_id)
      from ai.agent_connections c
      where c.id = agent
        and c.user_id <> member_id
        and a.workspace_id = c.workspace_id
        and a.user_id = c.user_id
        and a.state = 'approved';
    end if;
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.keys k set revoked_at = now()
  where k.id = revoke_key.key_id and k.workspace_id = workspace and k.revoked_at is null
  returning * into revoked_key;
  if found then
    perform private.log_workspace_change(workspace, 'key.revoked', revoked_key.id, revoked_key.name);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  return jsonb_build_object('outcome', case when found then 'revoked' else 'not_found' end);
end
$$;

-- Changes the given fields of a workspace's policy, for a member with manage_ai_policy: allowedModels, deniedModels,
-- allowedRegions, requestsPerMinute, tokensPerMinute, modelLimits [{ model, requestsPerMinute, tokensPerMinute }],
-- providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, appBudgets [{ appId, monthlyBudgetUsd }].
-- null removes a limit. readAt is the updatedAt of the
-- policy that the member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy),
-- changed_meanwhile (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are
-- already in one of the lists are never unknown. Each change adds an entry to the workspace's audit log.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return ai.set_workspace_policy(member_id, workspace, changes);
end
$$;

-- Changes a workspace's policy like ai.change_workspace_policy, without its check of permissions, for a member, an admin
-- or a service account.
create or replace function ai.set_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels')
    || ai.limited_models(before -> 'modelLimits');
  foreach param in array array['allowedModels', 'deniedModels', 'modelLimits'] loop
    unknown := ai.unknown_models(array(
      select n.name
      from unnest(
        case param when 'modelLimits' then ai.limited_models(changes -> param) else ai.text_list(changes -> param) end
      ) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    allowed_regions = case
      when changes ? 'allowedRegions' then ai.text_list(changes -> 'allowedRegions') else p.allowed_regions
    end,
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    model_limits = case when changes ? 'modelLimits' then ai.model_limits(changes -> 'modelLimits') else p.model_limits end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = private.person_or_null(member_id),
    service_account_id = private.service_account_or_null(member_id)
  where p.workspace_id = workspace;
  -- Locks apps before the workspace, which is the common lock order.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

-- Returns a workspace's policy as its members see it, or the defaults if the workspace has not set a policy.
create or replace function ai.workspace_policy_summary(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'allowedModels', to_jsonb(p.allowed_models),
    'deniedModels', coalesce(to_jsonb(p.denied_models), '[]'),
    'allowedRegions', to_jsonb(p.allowed_regions),
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'modelLimits', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('model', l.key, 'requestsPerMinute', l.value -> 'requests', 'tokensPerMinute', l.value -> 'tokens')
          order by l.key
        ),
        '[]'
      )
      from jsonb_each(p.model_limits) as l
    ),
    'providerCostVisible', coalesce(p.provider_cost_visible, true),
    'contentCapture', coalesce(p.content_capture, false),
    'contentRetentionDays', coalesce(p.content_retention_days, 30),
    'budget', (
      select ai.budget_summary(b, ai.cost_visible(w.id)) from ai.budgets b
      where b.scope = 'workspace' and b.subject_id = w.id and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
    ),
    'appBudgets', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('appId', a.id, 'app', a.display_name) || ai.budget_summary(b, ai.cost_visible(w.id))
          order by a.display_name, a.id
        ),
        '[]'
      )
      from ai.budgets b
      join private.apps a on a.id = b.subject_id
      where b.scope = 'app' and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
    ),
    'updatedAt', p.updated_at,
    'updatedBy', private.actor_name(coalesce(p.updated_by, p.service_account_id))
  )
  from (select workspace as id) w
  left join ai.workspace_policies p on p.workspace_id = w.id
$$;

-- Returns whether a user or a service account of the workspace has a permission in it. For definers that have derived the
-- id from a credential. Not granted to any role, because it does not check that the id is the caller's. The functions
-- below are only for people: sessions, apps and coding agents act for members.
create or replace function private.user_has_workspace_permission(
  user_id uuid,
  workspace_id uuid,
  permission public.workspace_permission
) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select from private.memberships_with_permission(
      user_has_workspace_permission.user_id, user_has_workspace_permission.workspace_id, permission
    )
  ) or private.service_account_has_permission(
    user_has_workspace_permission.user_id, user_has_workspace_permission.workspace_id, permission
  )
$$;

-- Counts a service account's request to the admin API. Returns null, or the seconds until the next one if the limit is
-- reached. A request over the limit doesn't count.
-- Definer: every role, even the service role, may change buckets only through functions.
create or replace function private.count_admin_request(service_account uuid) returns integer
  language sql volatile security definer set search_path = ''
as $$
  select ceil(extract(epoch from private.consume_attempt(b.subject, 'admin_api', b.scope, b.step, b.per)))::integer
  from private.attempt_buckets('admin_api', 'service account:' || service_account, null) b
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

-- Returns why an admin must not approve or decline a workspace's keys. Returns null if the admin may.
create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when not private.may_change_console(change, 'admin:approvals:write') then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when private.is_responsible(change, (workspace).personal_user_id) then jsonb_build_object('refused', 'oneself')
  end
$$;

-- Returns the platform's service accounts that expire within 14 days or expired in the last seven, or that are in force
-- although a person who created them, or added a credential that works, no longer has a role in the console. The
-- earliest expiry comes first. Not granted to any role.
create or replace function private.service_accounts_to_review(max_rows integer)
  returns table (id uuid, name text, expires_at timestamptz, creator_left boolean)
  language sql stable security invoker set search_path = ''
as $$
  select r.*
  from (
    select s.id, s.name, s.expires_at, exists (
        select from private.service_account_holders(s) h where private.console_role(h) is null
      ) as creator_left
    from private.service_accounts s
    where s.workspace_id is null and s.enabled and s.revoked_at is null and s.expires_at > now() - interval '7 days'
  ) r
  where r.expires_at < now() + interval '14 days' or r.creator_left
  order by r.expires_at, r.id
  limit max_rows
$$;

-- Returns how many rows of each kind need a person, up to 1,001, and since when: { approvals, months, importers,
-- recoveries, deletions, machines, providers }, each { count, since }, and also { budgets, credits, mails, jobs } unless
-- in_menu is set, since the menu has no section for them. since is the earliest time or day, or null if it is unknown. cost_providers are the
-- providers whose costs are imported automatically.
-- Definer: functions that read budgets, runs, books and accounts are not granted to the service role.
create or replace function private.read_attention(cost_providers text[], in_menu boolean default false) returns jsonb
  language sql stable security definer set search_path = '' set jit = off
as $$
  select jsonb_build_object(
    'approvals', (
      select jsonb_build_object('count', private.count_approval_requests(), 'since', (
        select q.requested_at
        from ai.key_approval_requests q
        join public.workspaces w on w.id = q.workspace_id and w.deleted_at is null
        where q.state = 'open'
        order by q.requested_at
        limit 1
      ))
    ),
    'months', (
      select jsonb_build_object('count', count(*), 'since', min(m)) from private.unreconciled_months() m
    ),
    'importers', (
      select jsonb_build_object('count', count(*), 'since', null) from private.failing_importers(cost_providers)
    ),
    'recoveries', (
      select jsonb_build_object('count', count(*), 'since', min(r.since)) from private.unfinished_recoveries(1001) r
    ),
    'deletions', (
      select jsonb_build_object('count', count(*), 'since', min(d.due_at)) from private.blocked_deletions(1001) d
    ),
    'machines', (
      select jsonb_build_object('count', count(*), 'since', min(s.expires_at))
      from private.service_accounts_to_review(1001) s
    ),
    'providers', (
      select jsonb_build_object('count', private.count_provider_trouble(), 'since', min(t.since))
      from private.list_troubled_providers(now()) t
    )
  ) || case when in_menu then '{}' else jsonb_build_object(
    'budgets', (
      select jsonb_build_object('count', count(*), 'since', min(b.refused_at)) from private.used_up_budgets(1001) b
    ),
    'credits', (
      select jsonb_build_object('count', count(*), 'since', min(a.refused_at)) from private.used_up_credits(1001) a
    ),
    'mails', (
      select jsonb_build_object('count', count(*), 'since', min(o.created_at))
      from (
        select m.created_at
        from private.outgoing_mails m
        where m.attempts >= 12 or m.next_attempt_at < now() - interval '15 minutes'
        order by m.created_at
        limit 1001
      ) o
    ),
    'jobs', (select jsonb_build_object('count', count(*), 'since', min(j.since)) from private.late_jobs() j)
  ) end
$$;

-- Returns what the console's overview shows: { attention, providers, approvals, budgets, credits, months, importers,
-- mails, jobs, recoveries, deletions, machines, today, usual }. attention is private.read_attention, providers is
-- private.read_provider_trouble, usual is private.read_usual_day, and the lists have at most 10 rows. mails is { failed,
-- waiting }, each up to 1,001. today is { calls, failed, refused, costUsd } since midnight (UTC), as on the page about
-- providers.
-- Definer: functions that read budgets, runs, books and accounts are not granted to the service role.
create or replace function private.read_overview(cost_providers text[]) returns jsonb
  language sql stable security definer set search_path = '' set jit = off
as $$
  select jsonb_build_object(
    'attention', private.read_attention(cost_providers),
    'providers', private.read_provider_trouble(),
    'approvals', private.list_approval_requests(null, 10),
    'budgets', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'workspaceId', b.workspace_id,
        'workspace', w.name,
        'scope', b.scope,
        'subjectId', b.subject_id,
        'name', ai.budget_name(b.scope, b.subject_id, b.workspace_id),
        'period', b.period,
        'limitUsd', trim_scale(b.limit_usd)::text,
        'refusedAt', b.refused_at
      ) order by b.refused_at desc, b.subject_id, b.period), '[]')
      from private.used_up_budgets(10) b
      join public.workspaces w on w.id = b.workspace_id
    ),
    'credits', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'payer', case when a.workspace_id is null then 'member' else 'workspace' end,
        'ownerId', coalesce(a.workspace_id, a.user_id),
        'name', coalesce(
          (select w.name::text from public.workspaces w where w.id = a.workspace_id),
          (select u.email::text from auth.users u where u.id = a.user_id)
        ),
        'available', trim_scale(a.balance - a.reserved)::text,
        'refusedAt', a.refused_at
      ) order by a.refused_at desc, a.id), '[]')
      from private.used_up_credits(10) a
    ),
    'months', (
      select coalesce(jsonb_agg(to_char(m.day, 'YYYY-MM') order by m.day), '[]')
      from (select d as day from private.unreconciled_months() d limit 10) m
    ),
    'importers', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'failures', i.failures, 'lastError', i.last_error,
        'lastCompleteDay', i.last_complete_day, 'missedDays', i.missed_days
      )), '[]')
      from (select * from private.failing_importers(cost_providers) limit 10) i
    ),
    'mails', jsonb_build_object(
      'failed', (
        select count(*) from (select from private.outgoing_mails m where m.attempts >= 12 limit 1001) f
      ),
      'waiting', (
        select count(*) from (
          select from private.outgoing_mails m
          where m.attempts < 12 and m.next_attempt_at < now() - interval '15 minutes'
          limit 1001
        ) f
      )
    ),
    'jobs', (select coalesce(jsonb_agg(jsonb_build_object('job', j.job, 'since', j.since)), '[]') from private.late_jobs() j),
    'recoveries', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', r.kind, 'userId', r.user_id, 'email', r.email, 'since', r.since, 'endsAt', r.ends_at
      ) order by r.since, r.email), '[]')
      from private.unfinished_recoveries(10) r
    ),
    'deletions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'userId', d.user_id, 'email', d.email, 'dueAt', d.due_at,
        'workspaces', jsonb_path_query_array(d.blockers, '$[0 to 2].name'),
        'blockers', jsonb_array_length(d.blockers)
      ) order by d.due_at, d.user_id), '[]')
      from private.blocked_deletions(10) d
    ),
    'machines', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id, 'name', s.name, 'expiresAt', s.expires_at, 'creatorLeft', s.creator_left
      ) order by s.expires_at, s.id), '[]')
      from private.service_accounts_to_review(10) s
    ),
    'today', (
      select jsonb_build_object(
        'calls', coalesce(sum(t.requests), 0),
        'failed', coalesce(sum(t.failed), 0),
        'refused', private.refused_calls_of(d.day),
        'costUsd', trim_scale(coalesce(sum(t.cost_usd), 0))::text
      )
      from (select (now() at time zone 'UTC')::date as day) d
      left join lateral ai.platform_usage(d.day, d.day) t on true
      group by d.day
    ),
    'usual', private.read_usual_day()
  )
$$;

-- Returns why a change may not end the access of an account, or null: not_found, oneself (a person who is responsible
-- for the change), or protected (a service account changes no account with a role in the console). For definers; not
-- granted to any role.
create or replace function private.account_refusal(change jsonb, account auth.users) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when private.is_responsible(change, (change ->> 'subject')::uuid) then 'oneself'
    when account.id is null then 'not_found'
    when change ->> 'serviceAccount' is not null and private.console_role(account.id) is not null then 'protected'
  end
$$;

-- Returns an invitation for the console: { id, email, reason, invitedBy, createdAt, expiresAt, state: open | accepted |
-- revoked | expired, userId }. It is accepted once an account has confirmed the email; userId is that account.
create or replace function private.describe_invitation(invitation private.account_invitations) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', invitation.id,
    'email', invitation.email,
    'reason', invitation.reason,
    'invitedBy', coalesce(
      (select u.email::text from auth.users u where u.id = invitation.invited_by),
      (select private.service_account_label(s.name) from private.service_accounts s where s.id = invitation.service_account_id)
    ),
    'createdAt', invitation.created_at,
    'expiresAt', invitation.expires_at,
    'state', case
      when invitation.revoked_at < invitation.expires_at then 'revoked'
      when a.id is not null then 'accepted'
      when invitation.expires_at <= now() then 'expired'
      else 'open'
    end,
    'userId', a.id
  )
  from (select private.confirmed_account(invitation.email)) as a (id)
$$;

-- Returns a model in the form of platform.yaml, with its prices in force, which have no from, and later ones.
create or replace function private.export_model(model ai.models) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', model.id,
    'kind', model.kind,
    'displayName', model.display_name,
    'ownedBy', model.owned_by,
    'enabled', model.enabled,
    'isDefault', model.is_default,
    'studioDefault', model.studio_default,
    'contextWindow', model.context_window,
    'outputLimit', model.output_limit,
    'defaultOutputLimit', model.default_output_limit,
    'voices', coalesce(to_jsonb(model.voices), '[]'),
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'providerId', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'trustsStatedCost', r.trusts_stated_cost,
        'tierMultipliers', (
          select coalesce(jsonb_object_agg(t.key, t.value), '{}') from jsonb_each_text(r.tier_multipliers) as t
        ),
        'firstByteSeconds', r.first_byte_seconds,
        'idleSeconds', r.idle_seconds,
        'totalSeconds', r.total_seconds
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = model.id
    ),
    'prices', (
      select coalesce(jsonb_agg(
        private.describe_price(p) - '{id,until,current}'::text[]
          || jsonb_build_object('from', case when lower(p.valid) > now() then private.utc_second(lower(p.valid)) end)
        order by p.id
      ), '[]')
      from ai.model_prices p
      where p.model_id = model.id and (upper_inf(p.valid) or upper(p.valid) > now())
    ),
    'grants', jsonb_build_object(
      'plans', (
        select coalesce(jsonb_agg(g.plan_id order by g.plan_id), '[]')
        from ai.model_grants g
        where g.model_id = model.id and g.plan_id is not null
      ),
      'workspaces', (
        select coalesce(jsonb_agg(w.id order by w.id), '[]')
        from ai.model_grants g
        join public.workspaces w on w.id = g.workspace_id and w.deleted_at is null
        where g.model_id = model.id
      )
    )
  )
$$;

-- Returns who recorded an invoice, according to the workspace's activity log or the console's audit log: { by: person |
-- app, name }. If the invoice was sent with a key, the app recorded it. An admin is named by email address. name is
-- null once the person or app is deleted.
create or replace function ai.invoice_recorder(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (invoice).book_id = ai.platform_book()
      then jsonb_build_object('by', 'person', 'name', private.last_admin_action('platform invoice ' || (invoice).id) ->> 'actorEmail')
    else (
      select jsonb_build_object(
        'by', case when l.actor_id is null then 'app' else 'person' end,
        'name', case
          when l.actor_id is null then ai.app_label((invoice).app_id)
          else private.actor_name(l.actor_id)
        end
      )
      from public.workspace_audit_log l
      where l.action = 'provider_invoice.recorded'
        and l.subject_id = (invoice).id
        and l.workspace_id = (invoice).book_id
    )
  end
$$;

-- Returns the file that a record was imported with, the file's exchange rates, and who imported the file. by is person
-- or operator. name is null for the operator and for a deleted account. Not granted to any role.
create or replace function ai.cost_import_summary(of_import_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', i.id,
    'file', i.file_name,
    'format', i.format,
    'timeZone', i.time_zone,
    'rates', i.rates,
    'by', case when i.imported_by is null then 'operator' else 'person' end,
    'name', private.actor_name(i.imported_by),
    'importedAt', ai.utc_text_microseconds(i.imported_at)
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

-- Returns the email address of the person, or the label of the service account, that closed or reopened a month. Null
-- once it is deleted. Not granted to any role.
create or replace function ai.closer_name(caller_id uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (select u.email from auth.users u where u.id = caller_id),
    (select private.service_account_label(s.name) from private.service_accounts s where s.id = caller_id)
  )
$$;

-- Returns what lists show of a statement. Names are email addresses or those of service accounts, and null once these
-- are deleted. Not granted to any role.
create or replace function ai.statement_summary(stored ai.book_statements) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (stored).id,
    'month', to_char((stored).month, 'YYYY-MM'),
    'version', (stored).version,
    'closedBy', ai.closer_name((stored).closed_by),
    'closedAt', ai.utc_text_microseconds((stored).closed_at),
    'sha256', encode((stored).sha256, 'hex'),
    'exceptions', jsonb_array_length((stored).exceptions),
    'reopened', case when (stored).reopened_at is not null then jsonb_build_object(
      'by', ai.closer_name((stored).reopened_by),
      'at', ai.utc_text_microseconds((stored).reopened_at),
      'reason', (stored).reopen_reason
    ) end
  )
$$;

-- Returns whether a key's calls would have no payer: a service account creates it, and members pay on the workspace's
-- plan.
create or replace function ai.key_has_no_payer(creator_id uuid, workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.service_account_or_null(creator_id) is not null and exists (
    select
    from public.workspaces w
    join ai.plans p on p.id = w.plan_id
    where w.id = workspace and p.payer = 'member'
  )
$$;

-- Returns the name under which a responsible person is shown: an email address for the platform, a display name for a
-- workspace.
create or replace function private.responsible_person_name(account private.service_accounts, person uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (account).workspace_id is null then (select u.email from auth.users u where u.id = person)
    else private.actor_name(person)
  end
$$;

-- Returns a service account for display: its settings and { id, clientId, workspaceId, state: active | disabled |
-- expired | revoked, createdAt, createdBy, revokedAt, lastUsedAt, lastUsedIp, credentials: [{ id, kind: secret | key,
-- kid, algorithm, createdAt, createdBy, expiresAt, lastUsedAt }], version }. credentials has only those that work.
-- createdBy is the person who is responsible for it, or who added the credential: an email address for the platform, a
-- display name for a workspace.
create or replace function private.describe_service_account(account_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select private.service_account_settings(s) || jsonb_build_object(
    'id', s.id,
    'clientId', private.service_account_client_id(s.id),
    'workspaceId', s.workspace_id,
    'state', case
      when s.revoked_at is not null then 'revoked'
      when not s.enabled then 'disabled'
      when s.expires_at <= now() then 'expired'
      else 'active'
    end,
    'createdAt', s.created_at,
    'createdBy', private.responsible_person_name(s, s.created_by),
    'revokedAt', s.revoked_at,
    'lastUsedAt', s.last_used_at,
    'lastUsedIp', host(s.last_used_ip),
    'credentials', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', c.id,
        'kind', case when c.public_jwk is null then 'secret' else 'key' end,
        'kid', c.kid,
        'algorithm', c.public_jwk -> 'alg',
        'createdAt', c.created_at,
        'createdBy', private.responsible_person_name(s, c.created_by),
        'expiresAt', c.expires_at,
        'lastUsedAt', c.last_used_at
      ) order by c.created_at desc, c.id)
      from private.service_account_credentials c
      where c.service_account_id = s.id and (c.expires_at is null or c.expires_at > now())
    ), '[]'),
    'version', private.service_account_version(s)
  )
  from private.service_accounts s
  where s.id = account_id
$$;

-- Returns a page of the service accounts of a workspace, or of the platform if workspace is null, sorted by name. after
-- is the name and id of the last one on the previous page. Includes revoked ones. Does not check permissions, because
-- its callers, our pages and API, do.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_service_accounts(
  workspace uuid, after text[] default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(private.describe_service_account(p.id) order by p.name, p.id), '[]')
  from (
    select l.id, l.name
    from (
      select s.id, s.name from private.service_accounts s where s.workspace_id = workspace
      union all
      select s.id, s.name from private.service_accounts s where workspace is null and s.workspace_id is null
    ) l
    where after is null or (l.name, l.id) > (after[1], after[2]::uuid)
    order by l.name, l.id
    limit page_size
  ) p
$$;

-- Returns a service account of a workspace, or of the platform if workspace is null, as
-- private.describe_service_account does, or null. Does not check permissions, like private.list_service_accounts.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.read_service_account(workspace uuid, account_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.describe_service_account(s.id)
  from private.service_accounts s
  where s.id = account_id and s.workspace_id is not distinct from workspace
$$;

-- Returns the public keys that verify the assertions of a service account that is in force: [{ credentialId, jwk }].
-- The caller has only an unverified client id, so the answer must not depend on anything else.
create or replace function private.service_account_keys(client_id text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object('credentialId', c.id, 'jwk', c.public_jwk) order by c.created_at desc, c.id
  ), '[]')
  from private.live_service_accounts(private.service_account_of_client(service_account_keys.client_id)) s
  join private.service_account_credentials c on c.service_account_id = s.id
  where c.public_jwk is not null and (c.expires_at is null or c.expires_at > now())
$$;

-- Returns what the console shows about an email: { email, account, overrides, events, locks, codes, counters }. locks is
-- private.list_recovery_locks. Never includes a link or a code. Until 0.6.0, for servers of 0.4.0: codes, and counters,
-- which are the partly used rate limits that apply to the email only.
-- Definer: accounts are in Supabase Auth's tables, and no role may read the key that hashes emails for the rate limits.
create or replace function private.recovery_overview(of_email text) returns jsonb
  language sql stable security definer set search_path = ''
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
        'singleUse', o.single_use,
        'createdBy', (select u.email from auth.users u where u.id = o.created_by),
        'createdAt', o.created_at,
        'expiresAt', o.expires_at,
        'revokedAt', o.revoked_at,
        'usedAt', o.used_at,
        'active', private.is_override_active(o)
      ) order by o.created_at desc), '[]')
      from (
        select * from private.recovery_overrides r where r.email = lower(of_email) order by r.created_at desc limit 20
      ) o
    ),
    'locks', private.list_recovery_locks(of_email),
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

-- Returns who last changed a target, and the time of the change: { actorEmail (or a service account's label), at }. If
-- a change is refused as a conflict, the result names who made the earlier change.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.last_admin_action(of_target text) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'actorEmail', coalesce(
      (select u.email from auth.users u where u.id = l.actor_id),
      private.service_account_label(l.service_account_name)
    ),
    'at', l.created_at
  )
  from private.admin_audit_log l
  where l.target = of_target
  order by l.created_at desc, l.id desc
  limit 1
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

-- Returns an invitation in the format of private.describe_invitation; null if it doesn't exist.
-- Definer: see private.list_account_invitations.
create or replace function private.read_account_invitation(invitation_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.describe_invitation(i)
  from private.account_invitations i
  where i.id = invitation_id and not i.imported
$$;

-- Returns the platform's configuration: { at (the time in UTC to the second), platform (in the form of platform.yaml,
-- with all defaults), targets, deletableModels }. targets has, by target of the audit log, the version that a change
-- names, and last, the last entry: { by, at, serviceAccountId }. The version of a workspace is that of its policy. prices
-- of a model is the id of its newest price, the number of its prices, and the ids of those in force. workspaces has
-- those with another plan than free, a policy or a budget, and workspace_ids. Budgets of keys and members, history, secrets and balances are not configuration.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.export_platform(workspace_ids uuid[] default '{}') returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with configured as materialized (
    select w as workspace, w.id
    from public.workspaces w
    where w.deleted_at is null and (w.plan_id <> 'free' or w.id in (
      select unnest(workspace_ids)
      union
      select p.workspace_id from ai.workspace_policies p
      union
      select b.workspace_id
      from ai.budgets b
      where b.scope in ('workspace', 'app', 'label') and num_nonnulls(b.limit_usd, b.max_calls) > 0
    ))
  )
  select jsonb_build_object(
    'at', private.utc_second(now()),
    'platform', jsonb_build_object(
      'apiVersion', 'gatehouse/v1',
      'signUp', private.read_platform_settings() ->> 'signUp',
      'plans', (
        select coalesce(jsonb_agg(p - '{warnsBelow,workspaces,models,payerFixed,version}'::text[]), '[]')
        from jsonb_array_elements(private.list_plans()) p
      ),
      'models', (select coalesce(jsonb_agg(private.export_model(m) order by m.id), '[]') from ai.models m),
      'providerLimits', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'providerId', l.provider_id,
          'requestsPerMinute', l.requests_per_minute,
          'tokensPerMinute', l.tokens_per_minute
        ) order by l.provider_id), '[]')
        from ai.provider_limits l
      ),
      'apps', (
        select coalesce(jsonb_agg(
          private.describe_app(a.id) - '{id,resourceUrl,secrets,createdAt}'::text[]
            || jsonb_build_object('workspaces', (
              select coalesce(jsonb_agg(w.id order by w.id), '[]')
              from private.app_workspaces l
              join public.workspaces w on w.id = l.workspace_id and w.deleted_at is null
              where l.app_id = a.id
            ))
          order by a.name
        ), '[]')
        from private.apps a
        where a.kind <> 'openid'
      ),
      'openidClients', (
        select coalesce(jsonb_agg(
          private.describe_openid_client(a.id) - '{id,registration,metadataUrl,secrets,createdAt}'::text[]
          order by a.name
        ), '[]')
        from private.apps a
        join private.openid_clients c on c.app_id = a.id and c.registration = 'operator'
      ),
      'workspaces', (
        select coalesce(jsonb_agg(private.export_workspace(c.workspace) order by c.id), '[]') from configured c
      )
    ),
    'targets', (
      select jsonb_object_agg(t.target, jsonb_build_object(
        'version', t.version,
        'prices', t.prices,
        'last', (
          select jsonb_build_object(
            'by', coalesce(
              (select u.email from auth.users u where u.id = l.actor_id),
              private.service_account_label(l.service_account_name)
            ),
            'at', private.utc_second(l.created_at),
            'serviceAccountId', l.service_account_id
          )
          from private.admin_audit_log l
          where l.target = t.target
          order by l.created_at desc, l.id desc
          limit 1
        )
      ))
      from (
        select 'sign-up' as target, null as version, null as prices
        union all
        select 'plan ' || p.id, md5(p::text), null from ai.plans p
        union all
        select 'model ' || m.id, private.model_version(m.id), (
          select concat_ws(
            ' ', coalesce(max(p.id), 0), count(*), string_agg(p.id::text, ' ' order by p.id) filter (where p.valid @> now())
          )
          from ai.model_prices p
          where p.model_id = m.id
        )
        from ai.models m
        union all
        select 'provider ' || r.provider_id, private.provider_limit_version(l), null
        from (select provider_id from ai.model_routes union select provider_id from ai.provider_limits) r
        left join ai.provider_limits l using (provider_id)
        union all
        select 'app ' || a.name, private.app_version(a.name)::text, null
        from private.apps a
        where not exists (
          select from private.openid_clients c where c.app_id = a.id and c.registration <> 'operator'
        )
        union all
        select 'workspace ' || c.id, (
          select ai.utc_text_microseconds(p.updated_at) from ai.workspace_policies p where p.workspace_id = c.id
        ), null
        from configured c
      ) t
    ),
    'deletableModels', (
      select coalesce(jsonb_agg(m.id order by m.id), '[]') from ai.models m where private.was_never_enabled(m)
    )
  )
$$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Accounts are also created by identity providers and by direct calls of Auth, which our server does not see.
create or replace trigger refuse_uninvited before insert on auth.users
  for each row execute function private.refuse_uninvited();
  end if;
end
$guard$;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[], boolean, boolean) to service_role;

grant execute on function private.add_service_key(jsonb) to service_role;

grant execute on function private.admit_imported_account(text) to service_role;

grant execute on function private.apply_model_plans(jsonb, jsonb) to service_role;

grant execute on function private.apply_model_prices(jsonb, jsonb) to service_role;

grant execute on function private.apply_model_routes(jsonb, jsonb) to service_role;

grant execute on function private.apply_model_settings(jsonb, jsonb) to service_role;

grant execute on function private.ban_account(jsonb) to service_role;

grant execute on function private.cancel_account_deletion(jsonb) to service_role;

grant execute on function private.change_once(text, jsonb) to service_role;

grant execute on function private.count_admin_request(uuid) to service_role;

grant execute on function private.delete_due_accounts() to service_role;

grant execute on function private.end_address_block(private.address_blocks, jsonb) to service_role;

grant execute on function private.export_platform(uuid[]) to service_role;

grant execute on function private.invite_account(jsonb) to service_role;

grant execute on function private.is_override_active(private.recovery_overrides) to service_role;

grant execute on function private.is_responsible(jsonb, uuid) to service_role;

grant execute on function private.issue_service_token(jsonb) to service_role;

grant execute on function private.list_account_invitations(jsonb, integer) to service_role;

grant execute on function private.list_service_accounts(uuid, text[], integer) to service_role;

grant execute on function private.live_service_accounts(uuid) to service_role;

grant execute on function private.make_console_change(text, jsonb) to service_role;

grant execute on function private.mark_override_used(uuid) to service_role;

grant execute on function private.may_manage_service_accounts(uuid, uuid, text[]) to service_role;

grant execute on function private.read_account_invitation(uuid) to service_role;

grant execute on function private.read_platform_settings() to service_role;

grant execute on function private.read_service_account(uuid, uuid) to service_role;

grant execute on function private.read_service_caller(bytea, inet) to service_role;

grant execute on function private.read_sign_up(uuid, text) to service_role;

grant execute on function private.record_provider_test(jsonb) to service_role;

grant execute on function private.remove_service_credential(jsonb) to service_role;

grant execute on function private.request_account_deletion(jsonb) to service_role;

grant execute on function private.revoke_account_invitation(jsonb) to service_role;

grant execute on function private.revoke_service_account(jsonb) to service_role;

grant execute on function private.revoke_service_token(jsonb) to service_role;

grant execute on function private.rotate_service_secret(jsonb) to service_role;

grant execute on function private.route_columns(jsonb) to service_role;

grant execute on function private.save_model_setup(jsonb) to service_role;

grant execute on function private.save_service_account(jsonb) to service_role;

grant execute on function private.search_audit_log(jsonb, jsonb, jsonb, integer, uuid) to service_role;

grant execute on function private.service_account_keys(text) to service_role;

grant execute on function private.service_account_of_client(text) to service_role;

grant execute on function private.service_accounts_of_person(text) to service_role;

grant execute on function private.set_sign_up(jsonb) to service_role;

grant execute on function private.set_workspace_budget(jsonb) to service_role;

grant execute on function private.set_workspace_policy(jsonb) to service_role;

grant execute on function private.unban_account(jsonb) to service_role;

grant execute on function private.unblock_address(text, inet, text) to service_role;

notify pgrst, 'reload schema';
