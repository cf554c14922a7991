-- Generated from supabase/schemas by npm run db:migration.

-- Definer: every role, even the service role, may change buckets only through begin_attempt and complete_attempt.
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
  repeated boolean := false;
  new_id uuid;
begin
  if of_action is null or of_action not in (
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff',
    'user_code'
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
    continue when bucket.when_empty = 'challenge' and proven;
    continue when bucket.when_empty = 'refuse_new' and (proven or challenged);
    wait := private.consume_attempt(bucket.subject, bucket.action, bucket.scope, bucket.step, bucket.per);
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
    -- With an override, the sign-in is tried again after the block is lifted.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'repeated', repeated,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;

-- Definer: every role, even the service role, may change buckets only through begin_attempt and complete_attempt.
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
  -- Only the caller that deletes the row settles the attempt, so it is settled only once.
  delete from private.open_attempts o where o.id = attempt_id and o.expires_at > now() returning * into settled;
  if not found then
    return false;
  end if;
  if outcome = 'void' then
    perform private.refund_attempts(settled.charged);
  elsif outcome = 'failed' then
    perform private.count_failure(settled.action, settled.address);
  elsif settled.action in ('password', 'code', 'sign_in_code', 'passkey') then
    -- Refunds one attempt per bucket, not the address's whole count: otherwise an account holder could guess at other
    -- accounts between their own sign-ins.
    perform private.refund_attempts(settled.charged);
    delete from private.rate_limits r where r.subject = any (settled.charged) and r.scope = 'pair';
    if settled.pair is not null then
      perform private.record_verified_address(settled.pair);
    end if;
  end if;
  return true;
end
$$;

-- Definer: the identity backend's role may call the hook, but may not read our tables.
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
  -- An attempt on our own routes was counted before it was made, so it passes regardless of direct attempts. Each check
  -- uses up one that the attempt allows.
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

-- Every number of the abuse controls, with its reason. `address`: all attempts from one address. `pair`: one account
-- from one address. `account`: one account from any address. What happens when a bucket is empty:
-- - refuse: 429, with the time until the next attempt
-- - challenge: requires a bot challenge; without one the attempt is slowed down, never refused
-- - refuse_new: 429, unless the attempt carries a bot challenge or the address is verified for this account
-- - wait: sends no email, but gives the same answer
-- - repeat: does not try a code a second time, and answers as for a wrong code
create or replace function private.attempt_limits()
  returns table (action text, scope text, attempts integer, per interval, when_empty text)
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  values
    -- Enough for an office behind one address to sign in within minutes, including typing errors. Successes are
    -- refunded.
    ('password', 'address', 60, interval '10 minutes', 'refuse'),
    -- Enough to try the passwords that a person may have chosen. Afterwards the bucket refills by 40 an hour.
    ('password', 'pair', 10, interval '15 minutes', 'refuse'),
    -- Attempts on one account from many addresses are an attack. The owner must still be able to sign in from anywhere.
    ('password', 'account', 20, interval '1 hour', 'challenge'),
    -- A limit for attempts without a bot challenge: NIST SP 800-63B allows 100 failures in a row.
    ('password', 'account_cap', 100, interval '1 hour', 'refuse_new'),

    ('code', 'address', 60, interval '10 minutes', 'refuse'),
    -- A six-digit code, of which three are valid at any time: five guesses, then twenty an hour.
    ('code', 'pair', 5, interval '15 minutes', 'refuse'),
    -- Only a person who knows the password is asked for a code. Stays below the limit of the backend's hook, whose
    -- refusal ends all sessions.
    ('code', 'account', 8, interval '15 minutes', 'refuse'),

    -- Mailed sign-in codes. Anyone can request one, so strangers must not be able to lock the owner out. The identity
    -- backend checks no bot challenge with a code, so nothing could let the owner past a cap for the account. No cap is
    -- needed: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    -- One attempt per code and account, because the identity backend would start a session for each concurrent request
    -- with it.
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

    -- One at a time of each kind: the identity backend records an email once its mail server has accepted it, and a
    -- second request within those seconds would replace the link in the first email.
    ('sign_up_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('confirmation_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('recovery_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('email_change_mail', 'account', 1, interval '30 seconds', 'wait'),

    -- Per inviter, across workspaces: enough for a team, but not for bulk email to strangers.
    ('invitation', 'account', 10, interval '10 minutes', 'refuse'),
    ('invitation', 'account_cap', 50, interval '1 day', 'refuse'),

    -- Nothing to guess here; this limits the load on the identity backend.
    ('passkey', 'address', 60, interval '10 minutes', 'refuse'),
    -- Visits to providers, counted when they begin and never refunded.
    ('oauth', 'address', 120, interval '10 minutes', 'refuse'),
    -- Changes by a signed-in person: each hashes a password or sends an email.
    ('credential', 'address', 60, interval '10 minutes', 'refuse'),
    ('credential', 'pair', 20, interval '1 hour', 'refuse'),

    -- Under a recovery override these replace the password's limits per email. The owner starts with full buckets, and
    -- guessing stays limited.
    ('override_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('override_password', 'account', 100, interval '1 hour', 'refuse'),

    -- A 256-bit secret can't be guessed; this limits the load on the database. Only wrong ones count.
    ('app_secret', 'address', 60, interval '10 minutes', 'refuse'),
    -- Sign-ins to apps. Each adds a row that is kept for a day.
    ('handoff', 'account', 120, interval '10 minutes', 'refuse'),

    -- A device's requests for a user code (RFC 8628). Each adds a row that is kept for a day.
    ('device_authorization', 'address', 60, interval '10 minutes', 'refuse'),
    -- User codes have 34 bits and live for 10 minutes (RFC 8628 section 5.1). A correct code is refunded.
    ('user_code', 'address', 30, interval '10 minutes', 'refuse'),
    ('user_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Direct calls to the identity backend, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this bucket is empty, which must happen only under attack
    -- (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts made despite a refusal. The address is blocked when this bucket is empty.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

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
  -- One statement: a concurrent caller waits for this row, and then sees what was taken.
  insert into private.rate_limits as r (subject, action, scope, full_at)
  values (bucket, of_action, of_scope, now() + step)
  on conflict (subject) do update
    set full_at = greatest(r.full_at, now()) + step
    where greatest(r.full_at, now()) + step <= now() + per;
  if found then
    return null;
  end if;
  -- The row is locked although nothing was taken, so its time is current.
  select r.full_at + step - per - now() into strict wait from private.rate_limits r where r.subject = bucket;
  return wait;
end
$$;

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, most_sessions integer default null
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since,
      private.list_sign_in_methods(u.id) as methods
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- A session that began by mail ignores confirmations by other sessions: a person who knew only the password could
    -- have confirmed their own additions.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      1 as position,
      'password' as kind,
      null::text as id,
      null::text as name,
      null::text as user_agent,
      null::text as provider,
      coalesce(e.created_at, a.created_at) as added_at,
      (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) as last_used_at,
      e.id as event_id
    from account a
    left join lateral (
      select v.id, v.created_at
      from public.security_events v
      where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
      order by v.created_at desc, v.id
      limit 1
    ) e on true
    where a.methods -> 'password' = 'true'::jsonb

    union all
    select
      2, 'identity', i.id::text, i.email, null, i.provider,
      -- Supabase Auth creates a new account and its first identity in one call, but reads the clock twice.
      case when i."createdAt" < a.created_at + interval '500 milliseconds' then a.created_at else i."createdAt" end,
      i."lastSignInAt",
      private.addition_event(a.id, i.id, 'identity_linked')
    from account a
    cross join lateral jsonb_to_recordset(a.methods -> 'identities') as i (
      id uuid, provider text, email text, "createdAt" timestamptz, "lastSignInAt" timestamptz
    )
    where i.provider not in ('email', 'phone')

    union all
    select
      3, 'passkey', p.id::text, nullif(p.name, ''), null, p.aaguid::text, p.created_at, p.last_used_at,
      private.addition_event(a.id, p.id, 'passkey_added')
    from account a
    cross join lateral private.list_passkeys(a.id) p

    union all
    select
      4, 'authenticator', f.id::text, nullif(f.friendly_name, ''), null, null, f.created_at, f.last_challenged_at,
      private.addition_event(a.id, f.id, 'authenticator_added')
    from account a
    join auth.mfa_factors f on f.user_id = a.id and f.status = 'verified'

    union all
    select
      5, 'session', s.id::text, s.device, s.user_agent, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => most_sessions) s

    union all
    -- A reconnected app is as new as its newest credential.
    select
      6, 'app', p.name, p.display_name, null, null, max(h.connected_at), max(h.renewed_at),
      (array_agg(private.sign_in_event(a.id, h.session_id) order by h.connected_at desc))[1]
    from account a
    cross join lateral (
      select s.app_id, s.created_at as connected_at, s.issued_at as renewed_at, (s.proof).session_id
      from private.app_sessions s
      where s.user_id = a.id
        and s.revoked_at is null
        and s.expires_at > now()
        and s.ends_at > now()
        and private.proof_status(s.proof) <> 'over'
      union all
      select t.app_id, t.handed_over_at, t.created_at, (t.proof).session_id
      from ai.app_tokens t
      where t.user_id = a.id
        and t.revoked_at is null
        and case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end > now()
        and private.proof_status(t.proof) <> 'over'
    ) h
    join private.apps p on p.id = h.app_id
    group by p.name, p.display_name
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', concat_ws(':', w.kind, w.id),
        'kind', w.kind,
        'id', w.id,
        'name', w.name,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then s.ip else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null
      ) order by w.position, d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- The row may be older than the addition: an authenticator's row dates from the start of enrolment, a link's from
      -- the visit to the provider, and a copied session's from the original sign-in.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
      left join lateral (select host(l.ip) as ip from auth.sessions l where w.kind = 'session' and l.id::text = w.id) s
        on true
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, most_sessions),
        'isNew', exists (
          select
          from auth.sessions l
          where l.user_id = a.id and l.created_at > a.since and (l.not_after is null or l.not_after > now())
            and l.id::text not in (select w.id from ways w where w.kind = 'session')
        )
      )
      from private.count_account_sessions(a.id, most_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.confirm_access(
  subject_id uuid,
  actor_session_id uuid,
  removals jsonb,
  usable_providers text[]
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  access jsonb;
  removed jsonb;
  passwords boolean;
  identities uuid[];
  passkeys uuid[];
  authenticators uuid[];
  methods_removed boolean;
  kept uuid[];
  ended jsonb;
begin
  -- Serializes changes to an account's credentials, so that each one sees the result of the one before.
  select u.* into account from auth.users u where u.id = subject_id and u.deleted_at is null for no key update;
  if not found or not exists (select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id) then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if not private.may_change_access(subject_id, actor_session_id) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;

  access := private.account_access(subject_id, actor_session_id);
  -- Keys of other accounts, and of deleted entries, match nothing.
  select
    coalesce(jsonb_agg(w), '[]'),
    coalesce(bool_or(w ->> 'kind' = 'password'), false),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'identity'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'passkey'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'authenticator'), '{}'),
    coalesce(bool_or(w ->> 'kind' in ('password', 'identity', 'passkey')), false)
  into removed, passwords, identities, passkeys, authenticators, methods_removed
  from jsonb_array_elements(access -> 'ways') as w
  where w ->> 'key' <> 'session:' || actor_session_id
    and (
      removals -> 'remove' ? (w ->> 'key')
      or removals -> 'remove' ? 'other_sessions'
        and w ->> 'kind' = 'session'
        and (w ->> 'addedAt')::timestamptz <= (removals ->> 'listedAt')::timestamptz
        and not coalesce(removals -> 'sessions' ? (w ->> 'key'), false)
    );

  select coalesce(array_agg((w ->> 'id')::uuid), '{}')
  into kept
  from jsonb_array_elements(access -> 'ways') as w
  where (w ->> 'unconfirmed')::boolean
    and removals -> 'listed' ? (w ->> 'key')
    and not removals -> 'remove' ? (w ->> 'key');

  if methods_removed
    and private.count_sign_in_methods(
      subject_id, usable_providers, without => identities || passkeys, without_password => passwords, confirming => kept
    ) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;
  if authenticators <> '{}'
    and private.required_mfa_state(account.raw_app_meta_data) <> 'optional'
    and not exists (
      select from auth.mfa_factors f
      where f.user_id = subject_id and f.status = 'verified' and f.id <> all (authenticators)
    ) then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  ended := private.end_dependent_sessions(subject_id, actor_session_id, removed);
  if identities <> '{}' then
    perform private.keep_email_identity(account);
    perform private.remove_identity(i.id) from unnest(identities) as i (id);
  end if;
  perform private.delete_auth_passkey(p.id) from unnest(passkeys) as p (id);
  perform private.delete_auth_factor(subject_id, f.id) from unnest(authenticators) as f (id);
  if authenticators <> '{}' and not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  if passwords then
    perform private.remove_password(subject_id);
  end if;
  perform private.end_app_of_account(subject_id, a.id)
  from private.apps a
  where a.name in (select w ->> 'id' from jsonb_array_elements(removed) as w where w ->> 'kind' = 'app');
  -- Triggers record the removed identities, passkeys and authenticators.
  perform private.add_account_event(
    subject_id, 'app_disconnected', session_id => actor_session_id, details => jsonb_build_object('app', w -> 'name')
  )
  from jsonb_array_elements(removed) as w
  where w ->> 'kind' = 'app';
  if passwords then
    perform private.add_account_event(subject_id, 'password_removed', session_id => actor_session_id);
  end if;
  if ended <> '[]' then
    perform private.add_account_event(subject_id, 'session_revoked', session_id => actor_session_id);
  end if;

  -- Confirms the list as of the time at which the owner saw it, so that later additions are still new next time.
  insert into private.access_confirmations as c (user_id, confirmed_at, confirmed_by_mail_at)
  select subject_id, l.seen_at, case when private.began_by_mail(subject_id, actor_session_id) then l.seen_at end
  from (select least((removals ->> 'listedAt')::timestamptz, now()) as seen_at) l
  on conflict (user_id) do update
  set confirmed_at = greatest(c.confirmed_at, excluded.confirmed_at),
      confirmed_by_mail_at = greatest(c.confirmed_by_mail_at, excluded.confirmed_by_mail_at);
  perform private.add_account_event(subject_id, 'access_confirmed', session_id => actor_session_id);
  delete from private.unconfirmed_additions n where n.user_id = subject_id and n.target_id = any (kept);
  return jsonb_build_object('outcome', 'confirmed', 'removed', removed, 'endedSessions', ended);
end
$$;

create or replace function private.queue_event_mail(event public.security_events, recipient text) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.outgoing_mails (recipient, event_id, next_attempt_at)
  -- Gives our server the time to describe its own change.
  select queue_event_mail.recipient, (event).id, now() + interval '15 seconds'
  where char_length(queue_event_mail.recipient) between 3 and 320
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_unconfirmed_identity() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account record;
  is_own_address boolean;
begin
  if new.provider in ('email', 'phone') or new.provider like 'sso:%' then
    return null;
  end if;
  select u.last_sign_in_at, u.email_confirmed_at, lower(u.email) as email
  into account
  from auth.users u
  where u.id = new.user_id;
  -- Linking requires a sign-in. An account without one is being created, or has no owner yet.
  if account.last_sign_in_at is null then
    return null;
  end if;
  -- The backend applies the same rule when it links at a sign-in.
  is_own_address := new.identity_data -> 'email_verified' = 'true'::jsonb and (
    (account.email_confirmed_at is not null and account.email = new.email)
    or exists (
      select from auth.identities i
      where i.user_id = new.user_id
        and i.id <> new.id
        and i.email = new.email
        and i.identity_data -> 'email_verified' = 'true'::jsonb
        and not private.is_unconfirmed_identity(i.id)
    )
  );
  if is_own_address is not true then
    -- private.complete_oauth_attempt confirms and records a link that our pages began, in the account's own browser.
    if exists (
      select from private.oauth_attempts a
      where a.user_id = new.user_id and a.purpose = 'link' and a.provider = new.provider
        and a.used_at is null and a.expires_at > now()
    ) then
      insert into private.unconfirmed_identities (identity_id) values (new.id);
      return null;
    end if;
    perform private.guard_addition(new.user_id);
  end if;
  perform private.record_addition(
    new.user_id, 'identity', new.id, is_own_address is true,
    jsonb_build_object('provider', new.provider, 'email', new.email)
  );
  return null;
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_removal() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  removed jsonb := to_jsonb(old);
  is_pending boolean := tg_table_name = 'identities'
    and exists (select from private.unconfirmed_identities n where n.identity_id = old.id);
begin
  delete from private.unconfirmed_additions a where a.target_id = old.id;
  -- A cascade runs inside a trigger; an account without a confirmed address is being cleaned up, and has no owner yet.
  if pg_trigger_depth() > 1 or is_pending or not exists (
    select from auth.users u
    where u.id = old.user_id and (u.email_confirmed_at < now() or u.last_sign_in_at is not null)
  ) then
    return old;
  end if;
  if tg_table_name = 'mfa_factors' then
    -- A recovery removes all authenticators, and has its own event.
    if removed ->> 'status' = 'verified' and not exists (
      select from auth.users u
      where u.id = old.user_id and private.required_mfa_state(u.raw_app_meta_data) = 'recovery_in_progress'
    ) then
      perform private.add_account_event(
        old.user_id, 'authenticator_removed', old.id,
        details => jsonb_strip_nulls(jsonb_build_object('name', left(removed ->> 'friendly_name', 120)))
      );
    end if;
  elsif tg_table_name = 'webauthn_credentials' then
    perform private.add_account_event(
      old.user_id, 'passkey_removed', old.id,
      details => jsonb_strip_nulls(jsonb_build_object('passkey', left(removed ->> 'friendly_name', 120)))
    );
  elsif removed ->> 'provider' not in ('email', 'phone')
    -- A refused sign-in's additions are removed together with their events.
    and current_setting('gatehouse.takes_back', true) is distinct from 'on' then
    perform private.add_account_event(
      old.user_id, 'identity_unlinked', old.id,
      details => jsonb_strip_nulls(jsonb_build_object('provider', removed ->> 'provider', 'email', removed ->> 'email'))
    );
  end if;
  return old;
exception when others then
  raise warning 'a removal was not recorded: % %', sqlstate, sqlerrm;
  return old;
end
$$;

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
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
    -- A new password deletes the links, but leaves the account's columns for the change.
    and exists (
      select from auth.one_time_tokens t
      where t.user_id = u.id
        and t.token_type::text in ('email_change_token_current', 'email_change_token_new')
    )
$$;

create or replace function private.may_be_unproven(account auth.users) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(account.email, '') <> ''
    -- Excludes accounts created and confirmed in one transaction, by an administrator or by a provider that has
    -- verified the email.
    and not exists (select from public.profiles p where p.id = account.id and p.created_at = now())
    -- Excludes accounts created by an administrator's invitation. Auth reads its clock twice in that call.
    and (account.invited_at < account.created_at + interval '500 milliseconds') is not true
    -- Excludes accounts in use before they got this email, which the same transaction confirms as a change.
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
  -- A new account's password may be its owner's. If the account was signed in to before, the password is another
  -- person's.
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

-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  subject uuid := (event ->> 'userId')::uuid;
  session uuid := (event ->> 'sessionId')::uuid;
  owner_email text;
  recorded public.security_events;
begin
  select u.email into owner_email from auth.users u where u.id = subject and u.deleted_at is null;
  if not found then
    return null;
  end if;

  -- A trigger may have recorded the change already; then this adds where our server received the request.
  update public.security_events s
  set kind = event ->> 'kind',
      method = coalesce(event ->> 'method', s.method),
      session_id = coalesce(session, s.session_id),
      ip = (event ->> 'ip')::inet,
      user_agent = event ->> 'userAgent',
      device = event ->> 'device',
      place = event ->> 'place',
      details = s.details || coalesce(event -> 'details', '{}')
  where s.id = (
    select e.id
    from public.security_events e
    where e.user_id = subject
      and e.created_at > now() - interval '2 minutes'
      and e.device is null
      and case event ->> 'kind'
        when 'sign_in' then e.kind = 'sign_in' and e.session_id = session
        -- The backend records a recovery as a sign-in.
        when 'account_recovered' then e.kind = 'sign_in' and e.session_id = session
        when 'sign_out' then e.kind = 'sign_out' and e.session_id = session
        else e.kind = event ->> 'kind'
      end
    order by e.created_at desc, e.id
    limit 1
    for update
  )
  returning s.* into recorded;
  if not found then
    insert into public.security_events (user_id, kind, method, session_id, ip, user_agent, device, place, details)
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'ip')::inet,
      event ->> 'userAgent',
      event ->> 'device',
      event ->> 'place',
      coalesce(event -> 'details', '{}')
    )
    returning * into recorded;
  end if;

  if recorded.kind = 'sign_in' and (
    not private.is_new_place(recorded)
    -- The email about the recovery covers this sign-in.
    or exists (
      select from public.security_events r where r.session_id = recorded.session_id and r.kind = 'account_recovered'
    )
  ) then
    delete from private.outgoing_mails m where m.event_id = recorded.id;
  elsif (recorded.kind = 'sign_in' or private.is_told_by_mail(recorded.kind))
    and not exists (select from private.outgoing_mails m where m.event_id = recorded.id) then
    perform private.queue_event_mail(recorded, owner_email);
  end if;

  -- The event is complete, so its emails can be sent.
  update private.outgoing_mails m set next_attempt_at = now() where m.event_id = recorded.id and m.attempts = 1;

  return jsonb_build_object(
    'id', recorded.id,
    'createdAt', recorded.created_at,
    -- Servers of release 0.1.0 send their own email to this address.
    'email', null,
    'newPlace', false
  );
end
$$;

-- Definer: see list_workspaces_by_app_session.
create or replace function private.rename_workspace_by_app_session(token_hash bytea, workspace_id uuid, name text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller private.app_caller := private.find_renaming_caller(token_hash, rename_workspace_by_app_session.workspace_id);
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Names the actor for the workspace's own log, which can't see the token's user here.
  perform set_config('gatehouse.actor_id', caller.user_id::text, true);
  update public.workspaces w
  set name = rename_workspace_by_app_session.name
  where w.id = rename_workspace_by_app_session.workspace_id and w.deleted_at is null;
  return coalesce(
    (
      select jsonb_build_object('workspace', w.workspace)
      from private.user_workspaces(caller.user_id) w
      where w.id = rename_workspace_by_app_session.workspace_id
    ),
    jsonb_build_object('refused', 'not_found')
  );
end
$$;

-- Definer: see exchange_cross_app_token.
create or replace function private.refresh_app_token(
  app_name text,
  secret_hash bytea,
  refresh_hash bytea,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  next ai.app_tokens;
  standing text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(t.user_id)
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash and t.app_id = app.id;
  select * into token
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash
    and t.app_id = app.id
    and t.revoked_at is null
    and t.refresh_expires_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Reuse after the grace period means that a party other than the app has the token (RFC 9700 §4.14.2).
    update ai.app_tokens t set revoked_at = now() where t.family_id = token.family_id and t.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(token.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if token.workspace_id <> refresh_app_token.workspace_id
    or not private.app_can_act_in_workspace(app, token.workspace_id)
    or not private.is_workspace_member(token.user_id, token.workspace_id) then
    return jsonb_build_object('refused', 'workspace');
  end if;
  next := token;
  next.scopes := coalesce(
    refresh_app_token.scopes,
    array(select unnest(token.scopes) intersect select unnest(private.gateway_scopes(app)) order by 1)
  );
  if not next.scopes <@ token.scopes or not next.scopes <@ private.gateway_scopes(app) or cardinality(next.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;

  if token.refreshed_at is not null then
    -- A second caller within the grace period gets the same pair as the first.
    return coalesce(
      (
        select jsonb_build_object(
          'user', t.user_id, 'workspace', t.workspace_id, 'scopes', t.scopes, 'expiresAt', t.expires_at
        )
        from ai.app_tokens t
        where t.token_hash = access_hash and t.refresh_hash = successor_hash and t.revoked_at is null
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update ai.app_tokens t set refreshed_at = now() where t.id = token.id;
  next.lookup := access_lookup;
  next.token_hash := access_hash;
  next.refresh_hash := successor_hash;
  return private.issue_app_token(next);
end
$$;

-- Definer: uses functions that are not granted to any role, the identity backend's tables and the registry.
create or replace function private.connected_apps(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with sessions as (
    select
      s.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(s.created_at),
        'renewedAt', max(s.issued_at),
        'endsAt', max(s.ends_at)
      ) as held
    from private.app_sessions s
    left join lateral unnest(private.effective_scopes(s)) as g (scope) on true
    where s.user_id = subject_id
      and s.revoked_at is null
      and s.expires_at > now()
      and s.ends_at > now()
      and private.proof_status(s.proof) <> 'over'
    group by s.app_id
  ),
  tokens as (
    select
      t.app_id,
      t.workspace_id,
      jsonb_build_object(
        'workspace', max(w.name),
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(t.handed_over_at),
        'renewedAt', max(t.created_at),
        'endsAt', max(e.ends_at)
      ) as held
    from ai.app_tokens t
    join private.apps a on a.id = t.app_id
    -- Until its refresh token is used, a token ends when the refresh token does. Afterwards its successor is listed
    -- instead.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- A token that the gateway refuses allows nothing. A person who left a workspace must not see its name.
    left join public.workspaces w on w.id = t.workspace_id
      and private.app_can_act_in_workspace(a, w.id)
      and private.is_workspace_member(subject_id, w.id)
    left join lateral unnest(t.scopes) as g (scope) on w.id is not null and g.scope = any (private.gateway_scopes(a))
    where t.user_id = subject_id
      and t.revoked_at is null
      and e.ends_at > now()
      and private.proof_status(t.proof) <> 'over'
    group by t.app_id, t.workspace_id
  ),
  logins as (
    select
      l.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(l.created_at),
        'renewedAt', max(coalesce(t.created_at, l.created_at)),
        'endsAt', max(l.ends_at)
      ) as held
    from private.openid_grants l
    left join private.openid_tokens t on t.grant_id = l.id
    left join lateral unnest(private.openid_scopes(l.app_id, l.scopes)) as g (scope) on true
    where l.user_id = subject_id
      and l.revoked_at is null
      and l.ends_at > now()
      and private.proof_status(l.proof) <> 'over'
    group by l.app_id
  ),
  consents as (
    select
      c.app_id,
      jsonb_build_object('scopes', private.openid_scopes(c.app_id, c.scopes), 'grantedAt', c.granted_at) as held
    from private.openid_consents c
    join private.apps a on a.id = c.app_id and a.enabled
    where c.user_id = subject_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'name', a.name,
    'displayName', a.display_name,
    'origins', (
      select coalesce(jsonb_agg(o.origin order by o.origin), '[]') from private.app_origins o where o.app_id = a.id
    ),
    'session', s.held,
    'login', l.held,
    'consent', c.held,
    'tokens', (
      select coalesce(jsonb_agg(t.held order by t.held ->> 'workspace', t.workspace_id), '[]')
      from tokens t
      where t.app_id = a.id
    )
  ) order by lower(a.display_name), a.name), '[]')
  from private.apps a
  left join sessions s on s.app_id = a.id
  left join logins l on l.app_id = a.id
  left join consents c on c.app_id = a.id
  where coalesce(s.app_id, l.app_id, c.app_id) is not null or exists (select from tokens t where t.app_id = a.id)
$$;

create or replace function private.mint_cross_app_token(token_hash bytea, facts jsonb, proof text) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with target as (
    -- Locks the app. Disabling it either waits and then ends this token with the others, or goes first, and then this
    -- token is not stored.
    select a.id
    from private.apps a
    where a.id = (facts ->> 'targetId')::uuid and a.kind <> 'openid' and a.enabled
    for share
  ),
  minted as (
    insert into private.cross_app_tokens (token_hash, user_id, app_id, proof, created_at, expires_at)
    select
      mint_cross_app_token.token_hash,
      (facts ->> 'user')::uuid,
      t.id,
      mint_cross_app_token.proof,
      (facts ->> 'issuedAt')::timestamptz,
      (facts ->> 'expiresAt')::timestamptz
    from target t
    returning id
  )
  select exists (select from minted)
$$;

create or replace function private.consume_cross_app_token(token_hash bytea, app_id uuid, user_id uuid, proof text) returns uuid
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- Locks the account before the token, like a deletion of the account. The rows stored next would lock the account
  -- too.
  select from auth.users u where u.id = consume_cross_app_token.user_id for key share;
  update private.cross_app_tokens t
  set redeemed_at = now()
  where t.token_hash = consume_cross_app_token.token_hash
    and t.app_id = consume_cross_app_token.app_id
    and t.user_id = consume_cross_app_token.user_id
    and t.proof = consume_cross_app_token.proof
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now()
  returning t.id
$$;

create or replace function private.end_app_of_account(subject_id uuid, ended_app_id uuid) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  part integer;
  ended integer := 0;
begin
  perform private.lock_app_credentials(subject_id);
  -- Updates rows in the order in which they are derived, so that this waits for a redemption in progress and then finds
  -- its result. A redemption may have begun just before its token expired, so recently expired tokens are included.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.app_id = ended_app_id
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id and s.app_id = ended_app_id and s.revoked_at is null and s.ends_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and t.app_id = ended_app_id and t.revoked_at is null and t.refresh_expires_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  update private.authorization_codes c
  set revoked_at = now()
  where c.user_id = subject_id
    and c.app_id = ended_app_id
    and c.redeemed_at is null
    and c.revoked_at is null
    and c.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.device_authorizations d
  where d.user_id = subject_id
    and d.app_id = ended_app_id
    and d.redeemed_at is null
    and d.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  update private.openid_grants g
  set revoked_at = now()
  where g.user_id = subject_id and g.app_id = ended_app_id and g.revoked_at is null and g.ends_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.openid_consents c where c.user_id = subject_id and c.app_id = ended_app_id;
  get diagnostics part = row_count;
  return ended + part;
end
$$;

-- Definer: roles that write the registry need no access to the gateway's tables.
create or replace function private.revoke_app_credentials() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- Locks all users of the app first, in one order, as private.lock_app_credentials does for one user. So a concurrent
  -- refresh or disconnection waits before either side holds a row that the other needs.
  perform
  from auth.users u
  where u.id in (
    select t.user_id from private.cross_app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select s.user_id from private.app_sessions s where s.app_id = new.id and s.revoked_at is null
    union
    select t.user_id from ai.app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select c.user_id from private.authorization_codes c where c.app_id = new.id and c.revoked_at is null
    union
    select d.user_id from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null
    union
    select g.user_id from private.openid_grants g where g.app_id = new.id and g.revoked_at is null
  )
  order by u.id
  for no key update;
  -- Updates rows in the order in which they are derived, so that this waits for a redemption in progress and then sees
  -- what the redemption created.
  update private.cross_app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.app_id = new.id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.authorization_codes c set revoked_at = now() where c.app_id = new.id and c.revoked_at is null;
  delete from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null;
  update private.openid_grants g set revoked_at = now() where g.app_id = new.id and g.revoked_at is null;
  return null;
end
$$;

create or replace function private.sweep_app_credentials(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer := 0;
  part integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- Disabling an app and closing an account lock these rows in another order, so locked ones are left to the next
  -- sweep.
  delete from private.cross_app_tokens t
  where t.id = any (array(
    select o.id from private.cross_app_tokens o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.app_sessions s
  where s.id = any (array(
    select o.id from private.app_sessions o
    where o.ends_at < now() - interval '1 day' order by o.ends_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  -- A used refresh token is kept until it would have expired, so that its reuse is detected.
  delete from ai.app_tokens t
  where t.id = any (array(
    select o.id from ai.app_tokens o
    where o.refresh_expires_at < now() - interval '1 day' order by o.refresh_expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.authorization_codes c
  where c.id = any (array(
    select o.id from private.authorization_codes o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.device_authorizations d
  where d.id = any (array(
    select o.id from private.device_authorizations o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  -- Deletes a grant only with its tokens, because a used refresh token is kept so that its reuse is detected.
  delete from private.openid_grants g
  where g.id = any (array(
    select o.id from private.openid_grants o
    where o.ends_at < now() - interval '1 day' order by o.ends_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  return swept + part;
end
$$;

create or replace function private.session_proof(claims jsonb)
  returns table (refused text, proof private.mfa_proof, valid_until timestamptz)
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  facts record;
  -- The session's own second factor, and whether the one of its bound approval is later.
  own_second bigint;
  by_approval boolean;
begin
  select * into facts from private.session_facts(claims);
  if not found or facts.banned or facts.deleted then
    refused := 'unauthenticated';
  elsif private.required_mfa_state(facts.app_metadata) = 'malformed' then
    refused := 'unavailable';
  elsif not private.satisfies_required_mfa(
    facts.app_metadata, claims, facts.has_verified_factor, facts.session_factor_verified, facts.approval_second,
    floor(extract(epoch from now()))::bigint
  ) then
    refused := 'mfa_required';
  else
    own_second := case
      when facts.session_factor_verified and claims ->> 'aal' = 'aal2'
        then private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
    end;
    by_approval := coalesce(facts.approval_second > own_second, facts.approval_second is not null);
    proof := row(
      facts.user_id,
      facts.session_id,
      case when by_approval then facts.approval_factor_id when own_second is not null then facts.session_factor_id end,
      case when by_approval then facts.approval_second else own_second end,
      private.latest_amr_second(claims -> 'amr', private.primary_methods()),
      private.required_mfa_generation(facts.app_metadata)
    )::private.mfa_proof;
    valid_until := case when by_approval then facts.approval_valid_until end;
  end if;
  return next;
end
$$;

create or replace function private.proof_status(proof private.mfa_proof) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  account record;
begin
  select
    u.raw_app_meta_data as app_metadata,
    coalesce(u.banned_until > now(), false) or u.deleted_at is not null as closed,
    exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified') as has_verified_factor,
    exists (
      select from auth.mfa_factors f where f.id = proof.factor_id and f.user_id = u.id and f.status = 'verified'
    ) as factor_verified,
    proof.session_id is null or exists (
      select
      from auth.sessions s
      where s.id = proof.session_id and s.user_id = u.id and (s.not_after is null or s.not_after > now())
    ) as session_alive
  into account
  from auth.users u
  where u.id = proof.user_id;

  if not found or account.closed or not account.session_alive then
    return 'over';
  end if;
  if private.required_mfa_state(account.app_metadata) = 'malformed' then
    return 'unavailable';
  end if;
  -- Every policy change moves its boundary, and earlier proofs don't count. A proof is tied to its factor even if the
  -- account no longer requires one.
  if proof.generation is distinct from private.required_mfa_generation(account.app_metadata)
    or (proof.factor_id is not null and not account.factor_verified) then
    return 'over';
  end if;
  -- For the rule, the proof is a second factor proved elsewhere, like a bound approval. The rule needs the time of the
  -- sign-in, but accepts any primary method's name.
  if not private.satisfies_required_mfa(
    account.app_metadata,
    jsonb_build_object('amr', jsonb_build_array(
      jsonb_build_object('method', 'password', 'timestamp', proof.primary_second)
    )),
    account.has_verified_factor,
    false,
    case when account.factor_verified then proof.second_factor_second end,
    floor(extract(epoch from now()))::bigint
  ) then
    return 'mfa_required';
  end if;
  return 'good';
end
$$;

create or replace function private.rotate_app_secret(
  app_name text,
  secret_hash bytea,
  overlap_seconds integer,
  reason text,
  actor uuid default null
) returns timestamptz
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  ends_at timestamptz := now() + make_interval(secs => overlap_seconds);
begin
  if overlap_seconds is null or overlap_seconds not between 0 and 86400 then
    raise exception 'the overlap is 0 to 86400 seconds' using errcode = 'check_violation';
  end if;
  -- Locked, so that two concurrent rotations leave one current secret.
  select * into app from private.apps a where a.name = app_name for no key update;
  if not found then
    return null;
  end if;
  if exists (select from private.openid_clients c where c.app_id = app.id and c.is_public) then
    raise exception 'a public client has no secret' using errcode = 'check_violation';
  end if;
  delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
  -- Never extends the life of a secret.
  update private.app_secrets s set expires_at = least(s.expires_at, ends_at) where s.app_id = app.id;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, rotate_app_secret.secret_hash);
  perform private.record_app_change(app, 'app.rotate_secret', reason, actor);
  return ends_at;
end
$$;

create or replace function private.write_required_mfa_policy(account auth.users, changes jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  known jsonb := account.raw_app_meta_data -> 'platform_required_mfa';
  readable boolean := private.required_mfa_state(account.raw_app_meta_data) <> 'malformed';
  -- Uses the clock rather than the transaction's start, since this transaction may have waited for an earlier one.
  second bigint := floor(extract(epoch from clock_timestamp()));
  written jsonb;
begin
  written := jsonb_build_object(
    'version', 1,
    -- If a policy can't be read, it may have been required, so it is treated as required.
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

-- The API can't check in the same transaction whether the account requires MFA.
create or replace function private.delete_auth_factor(subject_id uuid, target_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- Sessions that the factor raised return to AAL1, as in Auth.
  delete from auth.mfa_amr_claims a
  where a.authentication_method = 'totp'
    and a.session_id in (select s.id from auth.sessions s where s.user_id = subject_id and s.factor_id = target_id);
  update auth.sessions s set aal = 'aal1', factor_id = null, updated_at = now()
  where s.user_id = subject_id and s.factor_id = target_id;
  delete from auth.mfa_factors f where f.id = target_id
$$;

create or replace function private.find_accounts_exactly(term text) returns setof uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.id from auth.users a where a.id = private.uuid_or_null(term) and a.deleted_at is null
  union
  -- The backend stores each address only once and in lower case, except for those from single sign-on.
  select a.id from auth.users a where a.email = lower(term) and not a.is_sso_user and a.deleted_at is null
  union
  -- The backend's own index of all addresses begins with the instance, of which there is one.
  select a.id
  from auth.users a
  where a.instance_id = '00000000-0000-0000-0000-000000000000' and lower(a.email) = lower(term) and a.is_sso_user
    and a.deleted_at is null
$$;

create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  known jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: an admin who saw another state of the app must decide again.
  known := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if known ->> 'version' is distinct from change ->> 'version' then
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
        -- Servers of 0.1.0 send no logoutUrl.
        backchannel_logout_uri = case
          when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
        end
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
    'before', known - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

create or replace function private.list_catalogue_models(
  term text default '', only_id text default null, after text[] default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'studioDefault', m.studio_default,
    'sortsAs', m.sorts_as,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- Computed as for calls, but as if every provider were connected.
    'hasPrice', ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) is not null,
    'hasGrant', exists (
      select
      from ai.model_grants g
      left join public.workspaces w on w.id = g.workspace_id
      where g.model_id = m.id and (g.plan_id is not null or w.deleted_at is null)
    ),
    -- In the order in which calls try them: open routes first.
    'providers', (
      select coalesce(jsonb_agg(p.provider_id order by p.is_shut, p.position), '[]')
      from (
        select distinct on (r.provider_id) r.provider_id, not r.enabled as is_shut, r.position
        from ai.model_routes r
        where r.model_id = m.id
        order by r.provider_id, r.enabled desc, r.position
      ) as p
    ),
    'prices', (
      select coalesce(jsonb_agg(private.describe_price(p)
        order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id and (page_size is null or p.valid @> now())
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where (only_id is null or l.id = only_id)
      and (position(lower(term) in lower(l.id)) > 0 or position(lower(term) in lower(l.display_name)) > 0)
      and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  made ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
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
  -- Runs keep the prices they were charged at.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- The admin decided based on the prices they saw, of all service tiers. A price other than the newest may have been
  -- cancelled since, so their number is compared too.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier)
    or (change ->> 'seen')::integer <> (
      select count(*)
      from ai.model_prices p
      where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier
    ) then
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
  returning * into made;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(made)
  ));
  return jsonb_build_object('from', lower(made.valid), 'until', upper(made.valid));
end
$$;

-- Definer: functions that read runs are not granted to the service role.
create or replace function private.list_provider_health() returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with failures as (
    select
      f.provider_id, f.failure, count(*) as failed, max(f.at) as last_at,
      count(*) filter (where f.at > now() - interval '1 hour') as last_hour
    from ai.failed_attempts f
    where f.at > now() - interval '24 hours'
    group by f.provider_id, f.failure
  ), answers as (
    -- Uses the primary key of runs, which begins with their time.
    select ai.run_provider(r.routes, r.route) as provider_id, count(*) as answered, max(r.created_at) as last_at
    from ai.runs r
    where r.created_at > now() - interval '1 hour' and r.status = 'succeeded'
    group by 1
  ), routes as (
    select r.provider_id, count(*) as routes
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.id,
    'routes', coalesce(r.routes, 0),
    'answeredLastHour', coalesce(a.answered, 0),
    'lastAnswerAt', a.last_at,
    'failedLastHour', coalesce((select sum(f.last_hour) from failures f where f.provider_id = p.id), 0),
    'failures', (
      select coalesce(jsonb_agg(jsonb_build_object('failure', f.failure, 'failed', f.failed, 'lastAt', f.last_at)
        order by f.last_at desc, f.failure), '[]')
      from failures f
      where f.provider_id = p.id
    )
  ) order by p.id), '[]')
  from (
    select provider_id from routes union select provider_id from failures union select provider_id from answers
  ) as p (id)
  left join routes r on r.provider_id = p.id
  left join answers a on a.provider_id = p.id
  where p.id is not null
$$;

create or replace function ai.cost_document_fault(document jsonb) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  zone text := document ->> 'timeZone';
  found_fault record;
begin
  if coalesce(document ->> 'provider', '') !~ '^[A-Za-z0-9._:-]{1,128}$' then
    return ai.cost_fault('provider', 'A provider''s name takes 1 to 128 of A-Z a-z 0-9 . _ : -');
  elsif coalesce(char_length(document ->> 'format'), 0) not between 1 and 64 or document ->> 'format' ~ '[[:cntrl:]]' then
    return ai.cost_fault('format', 'The format is missing.');
  elsif coalesce(char_length(document ->> 'fileName'), 0) not between 1 and 255
    or document ->> 'fileName' ~ '[[:cntrl:]]' then
    return ai.cost_fault('fileName', 'A file''s name has 1 to 255 characters.');
  elsif coalesce(document ->> 'sha256', '') !~ '^[0-9a-f]{64}$' then
    return ai.cost_fault('sha256', 'The file''s SHA-256 is missing.');
  elsif jsonb_typeof(coalesce(document -> 'rates', '{}')) <> 'object' then
    return ai.cost_fault('rates', 'Rates name a currency each.');
  elsif jsonb_typeof(coalesce(document -> 'clear', 'false')) <> 'boolean' then
    return ai.cost_fault('clear', 'clear is true or false.');
  end if;
  -- IANA names, such as America/Los_Angeles. Postgres also accepts offsets, which have no summer time.
  begin
    if coalesce(zone, '') !~ '^[A-Za-z]+([/_+-][A-Za-z0-9_+-]+)*$' or char_length(zone) > 64 or now() at time zone zone is null then
      return ai.cost_fault('timeZone', 'The time zone of the provider''s days has a name such as America/Los_Angeles.');
    end if;
  exception
    when invalid_parameter_value then
      return ai.cost_fault('timeZone', format('%s is not a known time zone.', zone));
  end;
  select r.key into found_fault
  from jsonb_each(coalesce(document -> 'rates', '{}')) r
  where r.key !~ '^[A-Z]{3}$'
    or r.key = 'USD'
    or jsonb_typeof(r.value) <> 'string'
    or r.value #>> '{}' !~ '^[0-9]{1,12}(\.[0-9]{1,12})?$'
    or r.value #>> '{}' ~ '^[0.]+$'
  limit 1;
  if found then
    return ai.cost_fault(
      'rates', format('The rate of %s is the USD for one unit: above 0, with at most 12 decimals.', found_fault.key)
    );
  end if;
  if jsonb_typeof(document -> 'days') is distinct from 'array'
    or jsonb_array_length(document -> 'days') not between 1 and 20000 then
    return ai.cost_fault('days', 'A file has 1 to 20,000 days of accounts.');
  end if;
  select d.value as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where not coalesce(
    ai.is_external_id(d.value ->> 'accountId')
      and d.value ->> 'day' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'
      and pg_input_is_valid(d.value ->> 'day', 'date')
      and jsonb_typeof(d.value -> 'amounts') = 'array'
      and jsonb_array_length(case jsonb_typeof(d.value -> 'amounts') when 'array' then d.value -> 'amounts' else '[]' end) > 0,
    false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an account''s day: %s', left(found_fault.day::text, 200)));
  end if;
  select d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where (d.value ->> 'day')::date > (now() at time zone 'UTC')::date
  limit 1;
  if found then
    return ai.cost_fault('days', format('%s has not begun in UTC. Import the file without it.', found_fault.day));
  end if;
  select a.value as amount, d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where not coalesce(
    a.value ->> 'currency' ~ '^[A-Z]{3}$' and a.value ->> 'amount' ~ '^-?[0-9]{1,15}(\.[0-9]{1,40})?$', false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an amount of %s: %s', found_fault.day, left(found_fault.amount::text, 200)));
  end if;
  select a.value ->> 'currency' as currency into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where a.value ->> 'currency' <> 'USD' and not coalesce(document -> 'rates' ? (a.value ->> 'currency'), false)
  limit 1;
  if found then
    return ai.cost_fault('rates', format('The file has amounts in %1$s: enter the USD for one %1$s.', found_fault.currency));
  end if;
  -- Amounts must fit the column.
  select a.day into found_fault
  from ai.cost_document_amounts(document) a
  group by a.account_id, a.day
  having abs(round(sum(a.amount * a.rate), 12)) >= 1e12
  limit 1;
  if found then
    return ai.cost_fault('days', format('The amount of %s is too large.', found_fault.day));
  end if;
  return null;
end
$$;

create or replace function ai.compare_cost_file(book uuid, app uuid, document jsonb) returns ai.cost_file_day[]
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- Without recent statistics the planner expects one record, and would use a nested loop that compares every day with
  -- every record.
  set enable_nestloop = off
  set jit = off
as $$
declare
  name text := ai.provider_name(document ->> 'provider');
begin
  return (
    with amounts as (
      select a.account_id, a.day, a.currency, a.rate, sum(a.amount) as amount
      from ai.cost_document_amounts(document) a
      group by a.account_id, a.day, a.currency, a.rate
    ), totals as materialized (
      select
        a.account_id, a.day, ai.account_day_run_id(name, a.account_id, a.day) as external_run_id,
        round(sum(a.amount * a.rate), 12) as amount_usd,
        case when bool_or(a.currency <> 'USD') then jsonb_agg(
          jsonb_build_object('currency', a.currency, 'amount', trim_scale(a.amount)::text) order by a.currency collate "C"
        ) end as original
      from amounts a
      group by a.account_id, a.day
    ), stored as (
      -- The same rule as ai.find_cost.
      select distinct on (e.account_id, e.external_run_id) e.*
      from ai.cost_book_entries e
      where e.book_id = book
        and e.app_id = app
        and e.provider = name
        and e.external_run_id = any (array(select t.external_run_id from totals t))
      order by e.account_id, e.external_run_id, e.observed_at desc, e.id desc
    ), counted as (
      select distinct on (d.account_id, d.occurred_at)
        d.id, d.account_id, d.occurred_at, d.observed_at, d.external_run_id, d.amount_usd, d.revision, d.import_id
      from ai.cost_book_entries d
      where d.book_id = book
        and d.app_id = app
        and d.provider = name
        and d.granularity = 'account_day'
        and d.service is null
        and d.occurred_at >= (select min(t.day) from totals t)::timestamp at time zone 'UTC'
        and d.occurred_at <= (select max(t.day) from totals t)::timestamp at time zone 'UTC'
      order by d.account_id, d.occurred_at, d.observed_at desc, d.id desc
    ), lacking as (
      -- Days of this period that other files stated and this file lacks, because it has a wrong account or leaves out
      -- services.
      select c.*, (c.occurred_at at time zone 'UTC')::date as day
      from counted c
      where c.import_id is not null
        and c.amount_usd <> 0
        and (c.account_id, c.occurred_at) not in (select t.account_id, t.day::timestamp at time zone 'UTC' from totals t)
    ), compared as (
      select
        row(
          t.account_id, t.day, t.external_run_id, t.amount_usd, t.original, s.id, s.amount_usd, s.revision,
          greatest(s.observed_at, c.observed_at),
          case
            when s.id is null then 'added'
            -- An unchanged record must count, and have the same values.
            when s.id = c.id and s.amount_usd = t.amount_usd and s.original is not distinct from t.original then 'unchanged'
            else 'corrected'
          end
        )::ai.cost_file_day as item
      from totals t
      left join stored s on s.account_id = t.account_id and s.external_run_id = t.external_run_id
      left join counted c
        on c.account_id = t.account_id and c.occurred_at = t.day::timestamp at time zone 'UTC'
      union all
      select
        row(
          l.account_id, l.day, l.external_run_id, 0, null, l.id, l.amount_usd, l.revision, l.observed_at,
          case document ->> 'clear' when 'true' then 'cleared' else 'remaining' end
        )::ai.cost_file_day
      from lacking l
    )
    select array_agg(o.item order by (o.item).account_id collate "C", (o.item).day) from compared o
  );
end
$$;

create or replace function ai.provider_costs_in_totals(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.cost_book_entries, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with superseded as materialized (
    select e.id
    from ai.cost_book_entries e
    cross join lateral ai.find_cost(e.book_id, e.app_id, e.provider, e.account_id, e.external_run_id) f
    where
      -- Evaluated once per query, on an index that holds only such rows. Only workspaces have such rows.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and e.book_id = book
      and e.occurred_at >= date_trunc('day', window_from, 'UTC')
      and e.occurred_at < window_to
      and f.id <> e.id
  ), days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- The latest record of a service counts; a day's total replaces its services.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 and (
        d.service is null
        or not bool_or(d.service is null) over (partition by d.app_id, d.provider, d.account_id, d.occurred_at)
      ) as counted
    from ai.cost_book_entries d
    where d.granularity = 'account_day'
      and d.book_id = book
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
      and d.id not in (select s.id from superseded s)
  )
  -- Subqueries instead of joins: they are hashed, even if the planner expects few rows of a book that has just grown.
  select c, c.id not in (select s.id from superseded s) and case c.granularity
    when 'run' then not coalesce(
      (c.app_id, c.provider, c.account_id, date_trunc('day', c.occurred_at, 'UTC'))
        in (select d.app_id, d.provider, d.account_id, d.occurred_at from days d),
      false
    )
    else c.id in (select d.id from days d where d.counted)
  end
  from ai.cost_book_entries c
  where c.book_id = book and c.occurred_at >= window_from and c.occurred_at < window_to
$$;

create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  kind text := coalesce(record ->> 'granularity', 'run');
  written integer;
  stored ai.cost_book_entries;
begin
  if occurred > observed then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'occurredAt', 'message', 'occurredAt must not be later than observedAt.'
    );
  end if;
  if observed > now() + interval '60 seconds' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'observedAt', 'message', 'observedAt must not be in the future.'
    );
  end if;

  select * into stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  -- Each concurrent import waits for the one before, and compares with its result.
  if stored.spelling <> name then
    update ai.external_provider_costs c
    set
      granularity = kind, service = record ->> 'service', amount_usd = amount, occurred_at = occurred,
      observed_at = observed, recorded_at = now(), revision = c.revision + 1, import_id = null, original = null
    where c.id = stored.id and c.observed_at < observed
    returning c.revision into written;
  else
    insert into ai.external_provider_costs as c (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at,
      observed_at
    )
    values (
      workspace, app, name, record ->> 'accountId', record ->> 'externalRunId', kind, record ->> 'service', amount,
      occurred, observed
    )
    on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
    set
      granularity = excluded.granularity,
      service = excluded.service,
      amount_usd = excluded.amount_usd,
      occurred_at = excluded.occurred_at,
      observed_at = excluded.observed_at,
      recorded_at = now(),
      revision = c.revision + 1,
      import_id = null,
      original = null
    where c.observed_at < excluded.observed_at
    returning c.revision into written;
  end if;
  if written is not null then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif (stored.amount_usd, stored.occurred_at, stored.granularity) = (amount, occurred, kind)
    and stored.service is not distinct from record ->> 'service' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
end
$$;

create or replace function ai.platform_causes(parts ai.platform_part[]) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with totals as (
    select
      coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.imported) filter (where p.kind = 'booked'), 0) as imported,
      coalesce(sum(p.invoiced) filter (where p.kind = 'booked'), 0) as invoiced,
      count(p.imported) filter (where p.kind = 'booked') > 0 as has_costs,
      count(p.invoiced) filter (where p.kind = 'booked') > 0 as has_invoices,
      -- Runs and records without an account may belong to any account, so accounts are not compared.
      coalesce(bool_or(p.account_id is null and (p.metered <> 0 or (p.kind = 'booked' and p.imported <> 0))), false) as pooled
    from unnest(parts) p
  ), days as (
    select case when not t.pooled then p.account_id end as account_id, p.day, coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.runs), 0) as runs, coalesce(sum(p.imported), 0) as imported, count(p.imported) as records
    from unnest(parts) p
    cross join totals t
    where t.has_costs and p.kind in ('metered', 'booked') and (p.imported is not null or p.runs > 0)
    group by 1, 2
  ), accounts as (
    select d.account_id, sum(d.metered) as metered, sum(d.imported) as imported, sum(d.runs) as runs, sum(d.records) as records
    from days d
    group by d.account_id
  ), spaces as (
    -- The cost of a workspace's runs according to its own book: its imports or, without any, its invoices.
    select p.workspace_id, coalesce(sum(p.imported), sum(p.invoiced)) - coalesce(sum(p.metered), 0) as amount,
      sum(p.estimated_runs) as estimated_runs, sum(p.closed_runs) as closed_runs
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.workspace_id
  ), differing as (
    select t.*, case when t.has_costs then t.imported when t.has_invoices then t.invoiced end - t.metered as amount
    from totals t
  ), causes as (
    select 1 as rank, 'workspace_costs_above_metered' as kind, s.workspace_id, null::text as account_id, s.amount,
      jsonb_build_object('days', (
        select coalesce(jsonb_agg(jsonb_build_object('day', o.day, 'amountUsd', trim_scale(o.amount)::text) order by o.day), '[]')
        from (
          select p.day, coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) as amount
          from unnest(parts) p
          where p.workspace_id = s.workspace_id and p.invoiced is null
          group by p.day
          having count(p.imported) > 0 and abs(coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0)) >= 0.005
        ) o
      )) as details
    from (select * from spaces o where o.amount >= 0.005 order by o.amount desc limit 20) s
    union all
    select 2, 'account_not_metered', null, a.account_id, a.imported, '{}'
    from (select * from accounts o where o.runs = 0 and abs(o.imported) >= 0.005 order by abs(o.imported) desc limit 20) a
    union all
    select 3, 'days_not_metered', null, d.account_id, sum(d.imported), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.runs = 0 and abs(d.imported) >= 0.005 and a.runs > 0
    group by d.account_id
    union all
    select 4, 'days_not_imported', null, d.account_id, -sum(d.metered), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.records = 0 and d.metered >= 0.005 and a.records > 0
    group by d.account_id
    union all
    select 5, 'account_not_imported', null, a.account_id, -a.metered, '{}'
    from (select * from accounts o where o.records = 0 and o.metered >= 0.005 order by o.metered desc limit 20) a
    union all
    select 6, 'account_differs', null, a.account_id, a.imported - a.metered, '{}'
    from (
      select * from accounts o
      where o.records > 0 and o.runs > 0 and abs(o.imported - o.metered) >= 0.005
      order by abs(o.imported - o.metered) desc limit 20
    ) a
    union all
    select 7, 'workspace_runs_closed', s.workspace_id, null, null, jsonb_build_object('runs', s.closed_runs)
    from (select * from spaces o where o.closed_runs > 0 order by o.closed_runs desc limit 20) s
    union all
    select 8, 'workspace_runs_estimated', s.workspace_id, null, null, jsonb_build_object('runs', s.estimated_runs)
    from (select * from spaces o where o.estimated_runs > 0 order by o.estimated_runs desc limit 20) s
  ), rest as (
    select case
      when d.has_costs then d.invoiced - d.imported
      else d.amount - coalesce((select sum(c.amount) from causes c where c.kind = 'workspace_costs_above_metered'), 0)
    end as amount
    from differing d
    where d.has_invoices
  ), listed as (
    select c.*
    from causes c
    cross join differing d
    where abs(d.amount) >= 0.005 or exists (select from causes o where o.rank between 2 and 6)
    union all
    select 9, 'invoice_share', null, null, r.amount, '{}'
    from rest r
    where abs(r.amount) >= 0.005
  )
  select coalesce(jsonb_agg(
    jsonb_build_object('kind', l.kind, 'amountUsd', trim_scale(l.amount)::text)
      || case when l.workspace_id is not null then jsonb_build_object('workspaceId', l.workspace_id, 'name', w.name) else '{}' end
      || case when l.rank between 2 and 6 then jsonb_build_object('accountId', l.account_id) else '{}' end
      || case when l.rank in (5, 6) then jsonb_build_object('workspaces', ai.account_workspaces(parts, l.account_id)) else '{}' end
      || l.details
    -- Causes that would explain the difference come first.
    order by coalesce(sign(l.amount) = sign(d.amount) and l.rank < 9, false) desc, l.rank, abs(l.amount) desc nulls last,
      (l.details ->> 'runs')::numeric desc, l.workspace_id, l.account_id collate "C"
  ), '[]')
  from listed l
  cross join differing d
  left join public.workspaces w on w.id = l.workspace_id
$$;

create or replace function ai.platform_workspaces(parts ai.platform_part[]) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- Window functions instead of joins, because Postgres can't estimate the number of parts.
  with sums as (
    select p.kind, p.workspace_id, p.account_id, coalesce(sum(p.metered), 0) as metered, coalesce(sum(p.runs), 0) as runs,
      coalesce(sum(p.estimated_runs), 0) as estimated_runs, coalesce(sum(p.closed_runs), 0) as closed_runs,
      sum(p.imported) as imported, coalesce(sum(p.invoiced), 0) as invoiced
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.kind, p.workspace_id, p.account_id
  ), placed as (
    select s.*,
      bool_or(s.kind = 'metered') over (partition by s.workspace_id, s.account_id) as is_named,
      bool_or(s.kind = 'metered' and s.account_id is null) over (partition by s.workspace_id) as has_unnamed
    from sums s
  ), figures as (
    select p.workspace_id,
      -- A workspace's records of accounts that none of its runs name are compared with its runs that name no account.
      case when p.is_named or not p.has_unnamed then p.account_id end as account_id,
      sum(p.metered) as metered, sum(p.runs) as runs, sum(p.estimated_runs) as estimated_runs,
      sum(p.closed_runs) as closed_runs, sum(p.imported) as imported, sum(p.invoiced) as invoiced
    from placed p
    group by 1, 2
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'workspaceId', f.workspace_id,
    'name', w.name,
    'accountId', f.account_id,
    'meteredUsd', trim_scale(f.metered)::text,
    'runs', f.runs,
    'estimatedRuns', f.estimated_runs,
    'closedRuns', f.closed_runs,
    'importedUsd', trim_scale(coalesce(f.imported, 0))::text,
    'invoicedUsd', trim_scale(f.invoiced)::text,
    'differenceUsd', trim_scale(f.imported - f.metered)::text
  ) order by abs(f.imported - f.metered) desc nulls last, f.metered desc, f.workspace_id, f.account_id collate "C"), '[]')
  from figures f
  left join public.workspaces w on w.id = f.workspace_id
$$;

create or replace function ai.provider_cost_records(
  workspace uuid, window_from timestamptz, window_to timestamptz, before jsonb, page_size integer, filter jsonb
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- A generic plan would read the whole range for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_provider text := ai.provider_name(filter ->> 'provider');
  of_account text := filter ->> 'accountId';
  any_account boolean := not filter ? 'accountId';
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    with page as materialized (
      select *
      from ai.cost_book_entries c
      where c.book_id = workspace
        and c.occurred_at >= window_from
        and c.occurred_at < window_to
        and c.occurred_at <= last_at
        and (c.occurred_at, c.id) < (last_at, last_id)
        and (of_provider is null or c.provider = of_provider)
        and (any_account or c.account_id is not distinct from of_account)
      order by c.occurred_at desc, c.id desc
      limit page_size
    )
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'id', p.id,
        'appId', p.app_id,
        'appName', a.display_name,
        'provider', p.provider,
        'accountId', p.account_id,
        'externalRunId', p.external_run_id,
        'granularity', p.granularity,
        'service', p.service,
        'amountUsd', trim_scale(p.amount_usd)::text,
        'occurredAt', ai.utc_text_microseconds(p.occurred_at),
        'observedAt', ai.utc_text_microseconds(p.observed_at),
        'recordedAt', ai.utc_text_microseconds(p.recorded_at),
        'revision', p.revision,
        'counted', replaced.by_run_id is null,
        'replacedBy', replaced.by_run_id,
        -- The records that a daily total replaces in totals: runs, its own earlier states, and a day total's services.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.cost_book_entries c
          where c.book_id = p.book_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and c.id <> p.id
            and (c.granularity = 'run' or p.service is null or c.service = p.service)
            and c.app_id = p.app_id
            and c.provider = p.provider
            and c.account_id = p.account_id
        ) end,
        'original', p.original,
        'import', case when p.import_id is not null then ai.cost_import_summary(p.import_id) end
      )
      order by p.occurred_at desc, p.id desc
    ), '[]')
    from page p
    left join private.apps a on a.id = p.app_id
    -- The daily total that counts instead of this record, by the rule of ai.provider_costs_in_totals.
    left join lateral (
      select d.external_run_id as by_run_id
      from ai.cost_book_entries d
      where d.granularity = 'account_day'
        and d.book_id = p.book_id
        and d.app_id = p.app_id
        and d.provider = p.provider
        and d.account_id = p.account_id
        and d.occurred_at = date_trunc('day', p.occurred_at, 'UTC')
        and (
          p.granularity = 'run'
          or (d.service is null and p.service is not null)
          or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
        )
        and not ai.is_superseded_cost(d)
      order by d.service is null desc, d.observed_at desc, d.id desc
      limit 1
    ) as day on true
    -- The same record under another spelling of the provider also replaces it.
    cross join lateral (
      select case when ai.is_superseded_cost(p) then p.external_run_id else day.by_run_id end as by_run_id
    ) as replaced
  );
end
$$;

create or replace function ai.invoice_replacement(invoice ai.invoice_book_entries) returns text
  language sql
  stable
  security invoker
as $$
  select r.reference
  from ai.invoice_book_entries r
  where r.book_id = (invoice).book_id
    and r.app_id = (invoice).app_id
    and r.provider = (invoice).provider
    and r.account_id is not distinct from (invoice).account_id
    and (
      r.replaces = (invoice).reference
      -- The invoice was recorded twice, under two spellings of the provider. The first record counts.
      or (r.reference = (invoice).reference and (r.recorded_at, r.id) < ((invoice).recorded_at, (invoice).id))
    )
  order by r.replaces is not distinct from (invoice).reference desc, r.recorded_at, r.id
  limit 1
$$;

create or replace function ai.reconciliation_page(
  book uuid, given_from timestamptz, given_to timestamptz, after text[], page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(book);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(book, asked.window_from, asked.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (
          where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account and p.account_id is not null)
        ), '[]') as accounts
      from (
        -- A single run without an account makes the metered cost of the month's accounts unknown, unless the run cost
        -- nothing. Failed calls and calls closed by the sweep often name no account.
        select *, coalesce(
          bool_and(q.account_id is not null) filter (where q.metered <> 0) over (partition by q.month, q.provider),
          bool_and(q.account_id is not null) filter (where q.runs > 0) over (partition by q.month, q.provider)
        ) as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'clashes', ai.book_clashes(book, asked.window_from, asked.window_to),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;

create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, person_id uuid) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  fault jsonb := ai.cost_document_fault(document);
  days ai.cost_file_day[];
  item ai.cost_file_day;
  answer jsonb;
  new_id uuid := gen_random_uuid();
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  if state <> ai.cost_file_state(book, app, document, days) then
    return '{"outcome": "changed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'imported',
    'importId', case when bool_or(d.change not in ('unchanged', 'remaining')) then new_id end,
    'added', count(*) filter (where d.change = 'added'),
    'corrected', count(*) filter (where d.change = 'corrected'),
    'cleared', count(*) filter (where d.change = 'cleared'),
    'unchanged', count(*) filter (where d.change = 'unchanged')
  ) into answer
  from unnest(days) d;
  if answer ->> 'importId' is null then
    return answer;
  end if;
  insert into ai.cost_imports (
    id, workspace_id, app_id, provider, format, file_name, file_sha256, time_zone, rates, imported_by
  )
  values (
    new_id, nullif(book, ai.platform_book()), nullif(app, ai.platform_book()), ai.provider_name(document ->> 'provider'),
    document ->> 'format', document ->> 'fileName', decode(document ->> 'sha256', 'hex'), document ->> 'timeZone',
    coalesce(document -> 'rates', '{}'), person_id
  );
  -- Uses the order of ai.import_provider_costs, so that imports can't deadlock.
  for item in
    select d.*
    from unnest(days) d
    where d.change not in ('unchanged', 'remaining')
    order by d.account_id collate "C", d.external_run_id collate "C"
  loop
    perform ai.write_cost_file_day(book, app, new_id, item);
  end loop;
  if book <> ai.platform_book() then
    perform private.log_workspace_change(
      book, 'provider_costs.imported', new_id,
      concat_ws(' ', ai.provider_name(document ->> 'provider'), document ->> 'fileName'),
      ai.cost_import_details(new_id) || jsonb_build_object(
        'appId', app, 'days', (select count(*) from unnest(days) d where d.change <> 'remaining'),
        'totalUsd', (select trim_scale(sum(d.amount_usd))::text from unnest(days) d)
      )
    );
  end if;
  return answer;
exception
  -- A concurrent import wrote one of the days, so nothing of this one is kept.
  when serialization_failure then
    return '{"outcome": "changed"}';
end
$$;

create or replace function ai.open_missing_accounts(calls ai.priced_call[]) returns ai.priced_call[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  call ai.priced_call;
  owners uuid[] := '{}';
  owner_id uuid;
begin
  foreach call in array calls loop
    if call.refusal is null and call.account_id is null then
      owners := array_remove(owners || ai.payer_id(call.caller), null);
    end if;
  end loop;
  if owners = '{}' then
    return calls;
  end if;
  -- Opens accounts in order, so that two batches can't deadlock.
  foreach owner_id in array array(select distinct o from unnest(owners) as o order by o) loop
    for place in 1..cardinality(calls) loop
      call := calls[place];
      continue when call.refusal is not null or ai.payer_id(call.caller) is distinct from owner_id;
      call.account_id := ai.open_credit_account((call.caller).payer, owner_id, (call.caller).initial_credits);
      calls[place] := call;
    end loop;
  end loop;
  return calls;
end
$$;

-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(request);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  -- The JSON as text, because a jsonb would be slow to build from all models.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- One pass over all models: calling a function for each would take most of the time for a large catalogue.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', jsonb_agg(ai.listed_price(p.as_offered) order by p.sorts_as nulls first, p.min_input_tokens)
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_prices(request.providers) p
    where request.model is null or p.model_id = request.model
    group by p.model_id, p.place, p.provider_id, p.provider_model, p.tier_multipliers
  ),
  served as (
    select r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers
    from routes r
    group by r.model_id
  ),
  paths as (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case when shows_prices then jsonb_build_object('routes', s.routes) else jsonb '{}' end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found');
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
  refusal jsonb := ai.call_refusal(caller);
  exempt boolean;
  cost_visible boolean;
begin
  if refusal is not null then
    return refusal;
  end if;
  exempt := caller.app_id is not null;
  cost_visible := exempt or caller.cost_visible;

  return jsonb_build_object(
    'source', caller.source,
    'workspaceId', caller.workspace_id,
    'userId', case when caller.source <> 'key' then caller.actor_id end,
    'key', (
      select jsonb_build_object(
        'id', k.id,
        'name', k.name,
        'prefix', 'ttr_ai_' || k.lookup,
        'environment', k.environment,
        'createdAt', ai.utc_text(k.created_at),
        'replaced', k.replaced_by is not null,
        'allowedModels', k.allowed_models,
        'allowedAddresses', k.allowed_addresses,
        'strict', k.is_strict,
        'entityId', k.entity_id
      )
      from ai.keys k where k.id = caller.key_id
    ),
    'app', (
      select jsonb_build_object('id', a.id, 'name', a.name, 'displayName', a.display_name)
      from private.apps a where a.id = caller.app_id
    ),
    'scopes', caller.scopes,
    'expiresAt', ai.utc_text(coalesce(
      (select k.expires_at from ai.keys k where k.id = caller.key_id),
      (
        select t.expires_at from ai.app_tokens t
        where caller.source = 'app_token' and t.token_hash = decode(call -> 'credential' ->> 'hash', 'hex')
      )
    )),
    'exempt', exempt,
    'limits', (
      select coalesce(jsonb_agg(l.value), '[]')
      from jsonb_array_elements(jsonb_build_array(
        ai.remaining_rate('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.remaining_rate(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- An app pays no credits, and the holder of a key may not be the member who pays.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller)
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;

-- Definer: gateway has no grant on any table. A run is identified by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- A generic plan fits every call.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  most ai.token_use := ai.maximum_use(request);
  run ai.runs;
  caller ai.caller;
  key_is_over boolean;
  refused text;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  used_tokens bigint;
  step_tokens bigint;
  token_limit bigint;
  tokens bigint;
  minute timestamptz;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.entity_id, k.revoked_at is not null or k.expires_at <= now(), k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute)
  into
    caller.entity_id, key_is_over, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_over then
    return ai.refusal('invalid_api_key');
  end if;
  if run.app_id is not null then
    select private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) into refused
    from private.apps a
    where a.id = run.app_id;
    if not found or refused is not null then
      return ai.refusal(coalesce(refused, 'app_not_allowed'));
    end if;
  end if;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  caller.budgets := run.budget_scopes;
  request.entity_id := run.entity_id;

  step_usd := ai.maximum_cost_usd(run.routes, most, request.service_tier);
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  token_limit := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    step_tokens := ai.reserved_tokens(request, most, token_limit);
    if step_tokens > token_limit then
      return ai.token_limit_refusal(caller, most, step_tokens);
    end if;
  end if;

  perform ai.lock_rows(ai.collect_locks(array[row(null, request, caller, null, run.account_id)::ai.priced_call]));
  if token_limit is not null then
    minute := greatest(
      (ai.current_window('key', caller.lineage_id)).started_at, (ai.current_window('workspace', caller.workspace_id)).started_at
    );
    -- Earlier steps count the tokens that they used. In a new minute neither they nor the settlement count.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    tokens := step_tokens + used_tokens - case when run.tokens_reserved_at = minute then run.reserved_tokens else used_tokens end;
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute, tokens, 0
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  held := ai.reserve_limits(caller, run.entity_id, tokens, 0, step_usd, run.account_id, total_credits - run.reserved_credits);
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, tokens);
    return ai.limit_refusal(held.refused, caller);
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + step_tokens, r.reserved_tokens),
    tokens_reserved_at = coalesce(minute, r.tokens_reserved_at),
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;

create or replace function ai.reserve_budget(
  scope text, subject uuid, workspace uuid, amount_usd numeric, enforced boolean
) returns boolean
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  update ai.budgets b
  set
    reserved_usd = b.reserved_usd + amount_usd,
    spent_usd = case when b.period_start < month then 0 else b.spent_usd end,
    period_start = greatest(b.period_start, month)
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and (
      not enforced
      or b.limit_usd is null
      -- A budget of 0 refuses free calls too.
      or b.limit_usd > 0
        and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
    );
  if found then
    return true;
  end if;
  -- Only the first of many concurrent refusals writes its time.
  update ai.budgets b set refused_at = now()
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end > b.limit_usd
    and (
      b.refused_at is null
      or b.refused_at < greatest(now() - interval '1 minute', month::timestamp at time zone 'UTC')
    );
  return false;
end
$$;

create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.runs, idle_since timestamptz) returns ai.closed_run
  language plpgsql
  stable
  security invoker
as $$
declare
  open boolean := run.status = 'running';
  before ai.runs := run;
  cost_usd numeric(24, 12) := coalesce(outcome.cost_usd, 0);
  credits numeric(24, 8) := coalesce(outcome.credits, 0);
  billed_credits numeric(24, 8) := case when run.exempt then 0 else credits end;
begin
  -- Changes open runs, and runs that the sweep closed before the provider's own counts arrived.
  if open then
    if run.touched_at >= idle_since then
      return null;
    end if;
  elsif idle_since is not null or not run.swept
    or outcome.usage_source is null or outcome.usage_source not in ('provider', 'provider_partial')
  then
    return null;
  end if;

  if outcome.estimated and not open then
    return null;
  end if;
  if outcome.usage_source is null or outcome.status = 'running'
    or outcome.usage_source <> 'unavailable' and (outcome.cost_usd is null or outcome.credits is null)
    or least(
    outcome.cost_usd, outcome.credits, outcome.input_tokens, outcome.cached_input_tokens, outcome.audio_input_tokens,
    outcome.output_tokens, outcome.reasoning_tokens, outcome.audio_output_tokens,
    outcome.cache_write_tokens, outcome.cache_write_1h_tokens, outcome.image_input_tokens, outcome.fee_requests
  ) < 0 then
    raise exception 'a run ends with a status, a usage source, a cost and counts of at least 0' using errcode = 'check_violation';
  end if;

  run.status := outcome.status;
  run.http_status := outcome.http_status;
  run.error_code := outcome.error_code;
  run.usage_source := outcome.usage_source;
  run.route := coalesce(outcome.route, run.route);
  run.input_tokens := coalesce(outcome.input_tokens, 0);
  run.cached_input_tokens := coalesce(outcome.cached_input_tokens, 0);
  run.audio_input_tokens := coalesce(outcome.audio_input_tokens, 0);
  run.output_tokens := coalesce(outcome.output_tokens, 0);
  run.reasoning_tokens := coalesce(outcome.reasoning_tokens, 0);
  run.audio_output_tokens := coalesce(outcome.audio_output_tokens, 0);
  run.cache_write_tokens := coalesce(outcome.cache_write_tokens, 0);
  run.cache_write_1h_tokens := coalesce(outcome.cache_write_1h_tokens, 0);
  run.image_input_tokens := coalesce(outcome.image_input_tokens, 0);
  run.fee_requests := coalesce(outcome.fee_requests, 0);
  run.served_tier := outcome.served_tier;
  run.marks := coalesce(outcome.marks, '{}');
  run.billing_name := outcome.billing_name;
  run.billing_account := outcome.billing_account;
  run.cost_usd := cost_usd;
  run.billed_credits := billed_credits;
  run.unmetered_credits := case
    -- Closed without any count: the reservation is shown, but not charged.
    when idle_since is not null and outcome.usage_source = 'unavailable' then ai.usd_to_credits(run.reserved_usd, run.markup)
    when run.exempt then credits
    else 0
  end;
  run.first_byte_ms := coalesce(outcome.first_byte_ms, run.first_byte_ms);
  run.latency_ms := outcome.latency_ms;
  run.steps := outcome.steps;
  run.attempts := outcome.attempts;
  if open then
    return row(
      run, 'usage', billed_credits, run.reserved_credits, cost_usd, run.reserved_usd, coalesce(outcome.key_unused, false)
    )::ai.closed_run;
  end if;
  return row(
    run, 'adjustment', billed_credits - before.billed_credits, 0, cost_usd - before.cost_usd, 0, coalesce(outcome.key_unused, false)
  )::ai.closed_run;
end
$$;

-- Definer: gateway has no grant on any table. Callers identify a run by the suffix of its id, which the gateway chose.
create or replace function ai.release_orphaned_runs(lost jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- Forces a search by created_at through an index, even if the table was small when the plan was made.
  set enable_seqscan = off
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  if jsonb_typeof(lost -> 'tails') is distinct from 'array' or (lost ->> 'asked_ms_ago')::integer is null then
    raise exception 'orphaned runs are {"tails": [text], "asked_ms_ago": integer}' using errcode = 'invalid_parameter_value';
  end if;
  for tail in select t.value from jsonb_array_elements_text(lost -> 'tails') as t order by t.value loop
    if pg_try_advisory_xact_lock(hashtextextended(tail, 1)) then
      decided := array_append(decided, tail);
    else
      under_way := array_append(under_way, tail);
    end if;
  end loop;
  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 503,
    'error_code', 'service_unavailable',
    'usage_source', 'unavailable',
    'latency_ms', floor(extract(epoch from clock_timestamp() - r.created_at) * 1000),
    'steps', '[]'::jsonb,
    'key_unused', true
  )) into outcomes
  from ai.runs r
  where r.status = 'running'
    -- Adds 15 seconds for the time that this call took to arrive.
    and r.created_at > now() - interval '15 seconds' - (lost ->> 'asked_ms_ago')::integer * interval '1 millisecond'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.settle_outcomes(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;

-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.delete_authenticator(
  subject_id uuid,
  actor_session_id uuid,
  target_id uuid,
  event jsonb,
  mail jsonb default null
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
  -- Serialized per account, like every change of its policy, so that each change sees the result of the one before.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The backend has the same rule: an account's authenticator must have been used in this session.
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
  -- Servers of release 0.1.0 pass the email's text, and read its id.
  perform private.record_security_event(event);
  return '{"outcome": "deleted", "mailId": null, "recipient": null}';
end
$$;

-- Definer: the policy is in Supabase Auth's table, which the service role cannot write. The actor's id can be trusted:
-- only our server has the service role, and it takes the id from a verified session. Our server also checks
-- REQUIRED_MFA_POLICY_ENABLED before it calls this function. The database does not know this setting and enforces
-- policies regardless of it.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  written jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = subject then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if public.required_mfa_enforcement_version() <> 1 then
    return jsonb_build_object('refused', 'not_enforced');
  end if;
  select * into account from auth.users u where u.id = subject and u.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  state := private.required_mfa_state(account.raw_app_meta_data);
  -- Compare and swap: an admin who saw another policy than this one must decide again.
  if (change ->> 'generation')::bigint
    is distinct from coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) then
    return jsonb_build_object('refused', 'conflict');
  end if;

  if step in ('require', 'make_optional') then
    if state = 'recovery_in_progress' then
      return jsonb_build_object('refused', 'in_progress');
    end if;
    if (state = 'required') = (step = 'require') and state <> 'malformed' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    changes := jsonb_build_object('required', step = 'require');
  elsif step = 'begin_reset' then
    changes := '{"recovery": "in_progress", "signInAgain": true}';
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.delete_auth_sessions(subject);
    -- A recovery code of the person locked out here must not end the reset, even if it is half-used.
    delete from private.mfa_recovery_codes c where c.user_id = subject;
  elsif step = 'finish_reset' then
    if state <> 'recovery_in_progress' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    if exists (select from auth.mfa_factors f where f.user_id = subject) then
      return jsonb_build_object('refused', 'factors_left');
    end if;
    changes := '{"recovery": "none"}';
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  written := private.write_required_mfa_policy(account, changes);
  insert into private.admin_audit_log (
    actor_id, action, target_user_id, target, reason, before, after, request_id, ip
  )
  values (
    actor, 'required_mfa.' || step, subject, account.email, change ->> 'reason',
    account.raw_app_meta_data -> 'platform_required_mfa', written, change ->> 'requestId', (change ->> 'ip')::inet
  );
  perform private.add_account_event(subject, told)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, told)
  where e.of_step = step;
  return jsonb_build_object('policy', written);
end
$$;

-- Definer: checks the requesting session against Supabase Auth's tables, which the service role cannot read.
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
      proof_key = (binding ->> 'proofKey')::bytea,
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
  -- The session's factor may have been removed since, or the account may require a newer proof.
  if not private.session_satisfies_mfa(claims) then
    update private.login_challenges c
    set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
    where c.id = challenge.id
    returning c.* into challenge;
  end if;
  return jsonb_build_object('status', challenge.status, 'validUntil', challenge.valid_until);
end
$$;

-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot read.
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
    -- Counts only the session's own proofs: an approval can't be passed on.
    and private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, true, null, floor(extract(epoch from now()))::bigint
    )
    and claims ->> 'aal' = 'aal2'
    and private.latest_amr_second(claims -> 'amr', private.second_factor_methods()) <= extract(epoch from now())
$$;

-- Definer: the service role can neither read Supabase Auth's tables nor apply the rule of required MFA.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  authentication private.openid_authentication;
  granted text[];
begin
  -- Locks the app, so that disabling it either waits for this code and revokes it, or goes first. Apps are locked
  -- before accounts.
  select * into app
  from private.apps a
  where a.name = issue_authorization_code.client_id and a.kind = 'openid' and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(issue_authorization_code.claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  -- A session that may only replace its password gets nothing else.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, proved.proof, proved.valid_until is not null
  );
  if authenticated_since is not null
    and (extract(epoch from authentication.auth_time) >= authenticated_since) is not true then
    return jsonb_build_object('refused', 'login_required');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, scopes)
    values ((proved.proof).user_id, app.id, granted)
    on conflict (user_id, app_id) do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
  elsif not private.has_openid_consent(
    (proved.proof).user_id, client, granted, issue_authorization_code.redirect_uri
  ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, (proved.proof).user_id, proved.proof, proved.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

-- Definer: reads the proofs of the session from Supabase Auth's tables.
create or replace function private.decide_device_authorization(
  user_code text,
  claims jsonb,
  approve boolean,
  event jsonb default null
) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  proved record;
  request private.device_authorizations;
  state text;
begin
  -- Takes the lock before it reads anything, so that a new password either waits for this approval and revokes it, or
  -- goes first.
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(decide_device_authorization.claims);
  if proved.refused is not null then
    return proved.refused;
  end if;
  -- A session that may only replace its password approves nothing.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
    return 'unauthenticated';
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.user_code = decide_device_authorization.user_code
  for no key update;
  if not found then
    return 'not_found';
  end if;
  state := private.device_authorization_state(request);
  if state <> 'pending' then
    return case state when 'expired' then 'expired' else 'conflict' end;
  end if;
  if not approve then
    update private.device_authorizations d set denied_at = now() where d.id = request.id;
    return 'denied';
  end if;
  update private.device_authorizations d
  set approved_at = now(),
      user_id = (proved.proof).user_id,
      -- The login survives the sign-out of the browser or phone that approves it.
      proof = row(
        (proved.proof).user_id,
        null,
        (proved.proof).factor_id,
        (proved.proof).second_factor_second,
        (proved.proof).primary_second,
        (proved.proof).generation
      )::private.mfa_proof,
      valid_until = proved.valid_until,
      authentication = private.openid_authentication_of(
        decide_device_authorization.claims, proved.proof, proved.valid_until is not null
      )
  where d.id = request.id;
  perform private.record_security_event(event || jsonb_build_object('userId', (proved.proof).user_id));
  return 'approved';
end
$$;

-- Definer: calls functions for client secrets and proofs, which are not granted to any role.
create or replace function private.redeem_device_code(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  request private.device_authorizations;
  login private.openid_grants;
  locked_user uuid;
  standing text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_device_code.client_id, redeem_device_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select d.user_id into locked_user
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  -- Disabling the client either waits for these tokens and revokes them, or goes first. Apps are locked before
  -- accounts.
  perform from private.apps a where a.id = client.id for share;
  if locked_user is not null then
    perform private.lock_app_credentials(locked_user);
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id
  for no key update;
  if not found or request.redeemed_at is not null then
    return jsonb_build_object('refused', 'token');
  end if;
  if not private.allows_device_grant(client.id) then
    return jsonb_build_object('refused', 'unauthorized_client');
  end if;
  if request.denied_at is not null then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  if request.expires_at <= now() then
    return jsonb_build_object('refused', 'expired_token');
  end if;
  if request.polled_at + make_interval(secs => request.interval_seconds) > now() then
    update private.device_authorizations d
    set polled_at = now(), interval_seconds = least(60, d.interval_seconds + 5)
    where d.id = request.id;
    return jsonb_build_object('refused', 'slow_down');
  end if;
  update private.device_authorizations d set polled_at = now() where d.id = request.id;
  -- The request was approved after the account was looked up, so the account is not locked yet. The next poll redeems
  -- it.
  if request.approved_at is null or locked_user is null then
    return jsonb_build_object('refused', 'authorization_pending');
  end if;

  perform private.hold_proof(request.proof);
  standing := private.proof_status(request.proof);
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or request.valid_until <= now() then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  update private.device_authorizations d set redeemed_at = now() where d.id = request.id;
  login.source_id := request.id;
  login.app_id := request.app_id;
  login.user_id := request.user_id;
  login.proof := request.proof;
  login.authentication := request.authentication;
  login.scopes := request.scopes;
  login.ends_at := request.valid_until;
  return private.issue_openid_tokens(login, redeem_device_code.access_hash, redeem_device_code.refresh_hash);
end
$$;

-- Definer: calls functions for client secrets and proofs, which are not granted to any role.
create or replace function private.redeem_authorization_code(
  client_id text,
  secret_hash bytea,
  code_hash bytea,
  redirect_uri text,
  code_challenge text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  code private.authorization_codes;
  login private.openid_grants;
  standing text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_authorization_code.client_id, redeem_authorization_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(c.user_id)
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id;
  select * into code
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id
  for update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if code.redeemed_at is not null then
    -- RFC 6749 section 4.1.2: a second use means that a party other than the client has the code.
    update private.openid_grants g set revoked_at = now() where g.source_id = code.id and g.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  if code.revoked_at is not null
    or code.expires_at <= now()
    or code.valid_until <= now()
    or code.redirect_uri <> coalesce(redeem_authorization_code.redirect_uri, '')
    or code.code_challenge <> coalesce(redeem_authorization_code.code_challenge, '') then
    return jsonb_build_object('refused', 'token');
  end if;
  perform private.hold_proof(code.proof);
  standing := private.proof_status(code.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  update private.authorization_codes c set redeemed_at = now() where c.id = code.id;
  login.source_id := code.id;
  login.app_id := code.app_id;
  login.user_id := code.user_id;
  login.proof := code.proof;
  login.authentication := code.authentication;
  login.scopes := code.scopes;
  login.nonce := code.nonce;
  login.ends_at := code.valid_until;
  return private.issue_openid_tokens(login, redeem_authorization_code.access_hash, redeem_authorization_code.refresh_hash);
end
$$;

-- Definer: calls functions for client secrets and proofs, which are not granted to any role.
create or replace function private.refresh_openid_tokens(
  client_id text,
  secret_hash bytea,
  refresh_hash bytea,
  scopes text[],
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  login private.openid_grants;
  token private.openid_tokens;
  granted text[];
  standing text;
begin
  select a.id into client
  from private.authenticate_openid_client(refresh_openid_tokens.client_id, refresh_openid_tokens.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where t.refresh_hash = refresh_openid_tokens.refresh_hash and g.app_id = client.id;
  select t.* into token from private.openid_tokens t where t.refresh_hash = refresh_openid_tokens.refresh_hash for update;
  select g.* into login
  from private.openid_grants g
  where g.id = token.grant_id and g.app_id = client.id and g.revoked_at is null and g.ends_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Reuse after the grace period means that a party other than the client has the token (RFC 9700 section 4.14.2).
    update private.openid_grants g set revoked_at = now() where g.id = login.id;
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(login.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  granted := private.openid_scopes(client.id, login.scopes);
  if not coalesce(refresh_openid_tokens.scopes, granted) <@ granted or cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if token.refreshed_at is not null then
    -- A concurrent caller within the grace period receives the same successor.
    return coalesce(
      (
        select private.describe_openid_tokens(login, t)
        from private.openid_tokens t
        where t.access_hash = refresh_openid_tokens.access_hash and t.refresh_hash = successor_hash
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update private.openid_tokens t set refreshed_at = now() where t.id = token.id;
  return private.add_openid_tokens(
    login, coalesce(refresh_openid_tokens.scopes, granted), refresh_openid_tokens.access_hash, successor_hash
  );
end
$$;

create or replace function private.describe_objects() returns jsonb
  language sql
  stable
  security invoker
  -- These settings change how Postgres prints a definition, so each has a fixed value.
  set search_path = ''
  set quote_all_identifiers = off
  set timezone = 'UTC'
  set datestyle = 'ISO'
  set intervalstyle = 'postgres'
  set extra_float_digits = 1
as $$
  with schemas as (
    select n.oid, n.nspname as name, n.nspowner, n.nspacl
    from pg_namespace n where n.nspname in ('public', 'private', 'ai')
  ), of_extensions as (
    select d.classid, d.objid from pg_depend d where d.deptype = 'e'
  ), functions as (
    select p.oid, p.proowner, p.proacl, format(
        '%s %I.%I(%s)',
        case p.prokind when 'p' then 'procedure' else 'function' end, s.name, p.proname, oidvectortypes(p.proargtypes)
      ) as name
    from pg_proc p join schemas s on s.oid = p.pronamespace
    -- Hosted Supabase can keep an event trigger's function in public, to enable row-level security on new tables.
    where p.prokind <> 'a' and p.prorettype <> 'event_trigger'::regtype
      and not exists (select from of_extensions e where e.classid = 'pg_proc'::regclass and e.objid = p.oid)
  ), relations as (
    select c.oid, c.relkind, c.relispartition, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity,
      c.relpersistence, c.reloptions, s.oid as schema_oid, format('%I.%I', s.name, c.relname) as name
    from pg_class c join schemas s on s.oid = c.relnamespace
    where not exists (select from of_extensions e where e.classid = 'pg_class'::regclass and e.objid = c.oid)
  ), tables as (
    select r.* from relations r where r.relkind in ('r', 'p', 'f') and not r.relispartition
  ), policies as (
    select y.polrelid, format('policy %I on ', y.polname) as name, concat_ws(
        ' ', y.polpermissive, y.polcmd,
        (select string_agg(case g when 0 then 'public' else pg_get_userbyid(g) end, ',' order by g::regrole::text)
          from unnest(y.polroles) g),
        pg_get_expr(y.polqual, y.polrelid), 'check', pg_get_expr(y.polwithcheck, y.polrelid)
      ) as definition
    from pg_policy y
  ), privileges as (
    select f.name as target, a.privilege_type as privilege, null as attribute, a.grantee, a.is_grantable, f.proowner as owner
    from functions f, aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a
    union all
    select case r.relkind when 'S' then 'sequence ' else 'table ' end || r.name, a.privilege_type, null, a.grantee,
      a.is_grantable, r.relowner
    from relations r,
      aclexplode(coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's' else 'r' end::"char", r.relowner))) a
    where r.relkind in ('r', 'p', 'f', 'v', 'm', 'S')
    union all
    select 'table ' || r.name, a.privilege_type, t.attname, a.grantee, a.is_grantable, r.relowner
    from relations r join pg_attribute t on t.attrelid = r.oid and not t.attisdropped, aclexplode(t.attacl) a
    union all
    -- Hosted Supabase manages the schema public.
    select format('schema %I', s.name), a.privilege_type, null, a.grantee, a.is_grantable, s.nspowner
    from schemas s, aclexplode(coalesce(s.nspacl, acldefault('n', s.nspowner))) a
    where s.name <> 'public'
  ), grants as (
    select p.target, case p.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(p.grantee)) end as grantee,
      string_agg(
        lower(p.privilege) || coalesce(' (' || quote_ident(p.attribute) || ')', '') || case when p.is_grantable then '*' else '' end,
        ',' order by lower(p.privilege), p.attribute
      ) as list
    from (select distinct target, privilege, attribute, grantee, is_grantable, owner from privileges) p
    where p.grantee <> p.owner
      -- The administrators of a project. Matched by name, since a restored database can have another owner.
      and (p.grantee = 0 or pg_get_userbyid(p.grantee) not in ('postgres', 'supabase_admin', 'dashboard_user'))
    group by 1, 2
  ), definitions as (
    -- Removes comments and whitespace, except in strings and between two words.
    select f.name, regexp_replace(
        regexp_replace(
          pg_get_functiondef(f.oid),
          '(''(?:[^'']|'''')*'')|(?:\s|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/)+', e'\\1\x01', 'g'
        ), '(?<!\w)\x01|\x01(?!\w)', '', 'g'
      ) as definition
    from functions f
    union all
    select 'view ' || r.name, concat_ws(
        e'\n',
        (select string_agg(o, ',' order by o) from unnest(r.reloptions) o),
        (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
          from pg_attribute a where a.attrelid = r.oid and a.attnum > 0),
        pg_get_viewdef(r.oid)
      )
    from relations r where r.relkind in ('v', 'm')
    union all
    select format('trigger %I on %I.%I', t.tgname, n.nspname, c.relname), concat_ws(' ', t.tgenabled, pg_get_triggerdef(t.oid))
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_proc p on p.oid = t.tgfoid
    where not t.tgisinternal and t.tgparentid = 0
      and (n.oid in (select s.oid from schemas s) or p.pronamespace in (select s.oid from schemas s))
    union all
    select 'table ' || t.name, concat_ws(' ', t.relkind, t.relpersistence, pg_get_partkeydef(t.oid)) from tables t
    union all
    select 'row-level security on ' || t.name, t.relforcerowsecurity::text from tables t where t.relrowsecurity
    union all
    select format('column %s.%I', t.name, a.attname), concat_ws(
        ' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
        (select l.collname from pg_collation l where l.oid = a.attcollation), pg_get_expr(d.adbin, d.adrelid)
      )
    from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all
    select format('constraint %I on %s', k.conname, coalesce(t.name, k.contypid::regtype::text)),
      pg_get_constraintdef(k.oid)
    from pg_constraint k left join tables t on t.oid = k.conrelid
    where k.connamespace in (select s.oid from schemas s) and (t.oid is not null or k.contypid <> 0)
      -- Not-null constraints are reported with their columns, and Postgres adds a foreign key's constraints for each
      -- partition.
      and k.contype not in ('t', 'n') and k.conparentid = 0
    union all
    select 'unique index ' || r.name, pg_get_indexdef(i.indexrelid) || ' ' || i.indisvalid
    from tables t join pg_index i on i.indrelid = t.oid and i.indisunique join relations r on r.oid = i.indexrelid
    where not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = t.oid)
    union all
    select y.name || t.name, y.definition from policies y join tables t on t.oid = y.polrelid
    union all
    select 'type ' || format_type(y.oid, null), concat_ws(
        ' ', y.typtype, y.typnotnull, y.typdefault, format_type(nullif(y.typbasetype, 0), y.typtypmod),
        (select string_agg(quote_literal(e.enumlabel), ',' order by e.enumsortorder) from pg_enum e where e.enumtypid = y.oid),
        (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
          from pg_attribute a where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped)
      )
    from pg_type y join schemas s on s.oid = y.typnamespace left join relations r on r.oid = y.typrelid
    where (y.typtype in ('e', 'd') or r.relkind = 'c')
      and not exists (select from of_extensions e where e.classid = 'pg_type'::regclass and e.objid = y.oid)
    union all
    -- Their number and names depend on the date, and all of them are protected in the same way.
    select 'partitions of ' || p.name, string_agg(distinct p.protection, e'\n' order by p.protection)
    from (
      select parent.name, concat_ws(
          e'\n', r.relrowsecurity,
          (select string_agg(y.name || y.definition, e'\n' order by y.name) from policies y where y.polrelid = r.oid),
          (select string_agg(g.grantee || ' ' || g.list, e'\n' order by g.grantee) from grants g where g.target = 'table ' || r.name)
        ) as protection
      from relations r join pg_inherits h on h.inhrelid = r.oid join relations parent on parent.oid = h.inhparent
      where r.relispartition and r.relkind in ('r', 'p')
    ) p
    group by p.name
  )
  select jsonb_object_agg(d.name, left(encode(sha256(convert_to(d.definition, 'UTF8')), 'hex'), 16))
    || (
      select jsonb_object_agg(format('grants to %s on %s', g.grantee, g.target), g.list)
      from grants g
      where not exists (select from relations r where r.relispartition and g.target = 'table ' || r.name)
    )
  from definitions d
$$;

-- Definer: calls recovery_actor_refusal, which is not granted to any role.
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
  -- Supersedes used credentials too: a released one must not become valid alongside the new one.
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
  -- The override's creator may have taken over the email since.
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

-- Definer: account emails are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.active_login_override(of_email text) returns uuid
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select o.id
  from private.active_recovery_override(of_email) o
  -- Never for the override's own creator, who may have taken over the email since.
  where o.normal_login
    and not exists (select from auth.users u where u.id = o.created_by and lower(u.email) = o.email)
$$;

-- Definer: password hashes are in Supabase Auth's tables, which the service role cannot read. No hash is returned.
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
  -- Three prefixes name the same algorithm, and pgcrypto supports only the oldest.
  hash := regexp_replace(account.encrypted_password, '^\$2[by]\$', '$2a$');
  outcome := case
    when override.created_by = account.id then 'oneself'
    when private.consume_attempt(
      bucket.subject, 'override_password', bucket.scope, bucket.step, bucket.per
    ) is not null then 'limited'
    when coalesce(hash, '') !~ '^\$2a\$' then 'wrong'
    when extensions.crypt(request ->> 'password', hash) is distinct from hash then 'wrong'
    -- Anyone may have signed up with an address that an admin had already approved, so their password does not prove
    -- the mailbox.
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

create or replace function private.sweep_recoveries(at_most integer default 1000) returns integer
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
  -- Kept for a day, so that the page can explain that a link has expired, and the log can name the email.
  delete from private.recovery_credentials c
  where c.id = any (array(
    select o.id from private.recovery_credentials o
    where o.expires_at < now() - interval '1 day' limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  swept := swept + batch;
  -- Guesses don't count after 24 hours, and locks don't last longer.
  delete from private.recovery_code_guesses g
  where g.email = any (array(
    select o.email
    from private.recovery_code_guesses o
    where coalesce(o.last_wrong_at < now() - interval '24 hours', true)
      and coalesce(o.locked_until <= now(), true)
      and not exists (select from private.recovery_credentials c where c.email = o.email and c.expires_at > now())
    limit at_most
    for update skip locked
  ));
  get diagnostics batch = row_count;
  swept := swept + batch;
  delete from private.mint_leases l
  where l.user_id = any (array(
    select o.user_id from private.mint_leases o where o.expires_at < now() limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  return swept + batch;
end
$$;

-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_sessions(
  subject_id uuid, first_session_id uuid default null, before jsonb default null, page_size integer default null
)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    place text,
    method text,
    aal text,
    refreshed_at timestamptz
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- The session's last refresh, about once an hour, or its owner's last activity in it.
    greatest(s.refreshed, e.last_event_at),
    host(s.ip),
    -- A sign-in by our pages reaches the backend through our server, whose own user agent is recorded there.
    coalesce(e.user_agent, s.user_agent),
    e.device,
    e.place,
    e.method,
    s.aal::text,
    s.refreshed
  from (
    select l.*, r.refreshed
    from auth.sessions l
    cross join lateral (select greatest(l.created_at, l.refreshed_at at time zone 'UTC') as refreshed) r
    where l.user_id = subject_id
      and (l.not_after is null or l.not_after > now())
      and (
        before is null
        or l.id is distinct from first_session_id
          and (r.refreshed, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, r.refreshed desc, l.id desc
    limit page_size
  ) s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.place order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as place,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  order by s.id is not distinct from first_session_id desc, s.refreshed desc, s.id desc
$$;

create or replace function private.add_account(addition jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (addition ->> 'userId')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (addition ->> 'deviceId')::uuid for update;
  -- Accepts a spent secret too: another tab may have added an account while this request was in flight.
  if not found or private.device_secret_status(device, addition ->> 'secret') = 'unknown' then
    return jsonb_build_object('status', 'unknown');
  end if;
  if (
    select count(*)
    from (
      select e.user_id from private.account_vault_entries e where e.device_id = device.id
      union
      select a.user_id
      from private.account_additions a
      where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    ) held
    where held.user_id <> subject_id
  ) >= 10 then
    return jsonb_build_object('status', 'full');
  end if;
  insert into private.account_additions (secret_hash, device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    decode(addition ->> 'secretHash', 'hex'), device.id, subject_id, (addition ->> 'sessionId')::uuid,
    addition ->> 'sealed', addition ->> 'keyId', addition ->> 'tag'
  )
  on conflict (secret_hash) do nothing;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;

-- Definer: the replaced session is in Supabase Auth's tables, and is ended by deleting its row.
create or replace function private.take_additions(device_id uuid, secret text, added text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  addition record;
  shown text;
  held text := secret;
  standing text;
  replaced_id uuid;
  joined uuid[] := '{}';
  newest_session_id uuid;
begin
  perform private.lock_accounts(array(
    select a.user_id
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = take_additions.device_id and a.taken_from is null
  ));
  select d.* into device from private.account_devices d where d.id = take_additions.device_id for update;
  if not found then
    return jsonb_build_object('status', 'unknown');
  end if;

  -- Earlier requests may have taken some of these sign-ins, and their responses may be lost or still in flight.
  loop
    select s.secret into shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = device.id and a.taken_from = private.secret_hash(held)
    limit 1;
    exit when not found;
    held := private.secret_after_addition(held, shown);
  end loop;
  standing := private.device_secret_status(device, held);
  if standing <> 'current' then
    return jsonb_build_object('status', standing, 'secret', held);
  end if;

  for addition in
    select a.*, s.secret as shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    join auth.sessions live on live.id = a.session_id and live.user_id = a.user_id
    where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    order by a.created_at, a.secret_hash
  loop
    select e.session_id into replaced_id
    from private.account_vault_entries e
    where e.device_id = device.id and e.user_id = addition.user_id;
    insert into private.account_vault_entries as e (device_id, user_id, session_id, sealed, key_id, token_tag)
    values (
      device.id, addition.user_id, addition.session_id, addition.sealed, addition.key_id, addition.token_tag
    )
    on conflict on constraint account_vault_entries_pkey do update
      set session_id = excluded.session_id, sealed = excluded.sealed, key_id = excluded.key_id,
          token_tag = excluded.token_tag, last_active_at = now();
    if replaced_id <> addition.session_id then
      perform private.end_account_session(addition.user_id, replaced_id);
    end if;
    -- Keeps the row for as long as the accounts can be used without another sign-in.
    update private.account_additions a
    set taken_from = private.secret_hash(held), user_id = null, sealed = null, key_id = null, token_tag = null,
        expires_at = now() + interval '30 days'
    where a.secret_hash = addition.secret_hash;
    held := private.secret_after_addition(held, addition.shown);
    joined := joined || addition.user_id;
    newest_session_id := addition.session_id;
  end loop;

  if cardinality(joined) > 0 then
    perform private.end_additions(device.id, joined);
    update private.account_devices d
    set secret_hash = private.secret_hash(held),
        -- The previous secret gives access to nothing from now on.
        previous_hash = d.secret_hash,
        previous_for = 'sign_in',
        previous_until = now() + interval '60 seconds',
        rotated_at = now(),
        active_user_id = joined[cardinality(joined)],
        active_session_id = newest_session_id,
        -- A switch that began before this must not replace the active account.
        lease_id = null,
        lease_expires_at = null,
        last_seen_at = now(),
        expires_at = now() + interval '90 days'
    where d.id = device.id;
  end if;
  return jsonb_build_object('status', 'current', 'secret', held);
end
$$;

-- Definer: the replaced session is in Supabase Auth's tables, and is ended by deleting its row.
create or replace function private.continue_account_session(continuation jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (continuation ->> 'userId')::uuid;
  made_id constant uuid := (continuation ->> 'sessionId')::uuid;
  replaced_id constant uuid := (continuation ->> 'inPlaceOf')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (continuation ->> 'deviceId')::uuid for update;
  if not found or private.device_secret_status(device, continuation ->> 'secret') not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  update private.account_vault_entries e
  set session_id = made_id, sealed = continuation ->> 'sealed', key_id = continuation ->> 'keyId',
      token_tag = continuation ->> 'tag', last_active_at = now()
  where e.device_id = device.id and e.user_id = subject_id
    -- The new session exists already if the answer to the same call was lost.
    and e.session_id in (replaced_id, made_id);
  if not found then
    return jsonb_build_object('status', 'over');
  end if;
  perform private.end_account_session(subject_id, replaced_id);
  update private.account_devices d
  set active_session_id = case when d.active_user_id = subject_id then made_id else d.active_session_id end,
      last_seen_at = now(),
      expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;

-- Written in PL/pgSQL, which plans only the expressions that it reaches. Nearly every request presents the current
-- secret.
create or replace function private.device_secret_status(device private.account_devices, secret text) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  if device.expires_at <= now() then
    return 'unknown';
  end if;
  if device.secret_hash = private.secret_hash(secret) then
    return 'current';
  end if;
  if device.previous_hash = private.secret_hash(secret)
    and (device.previous_until is null or device.previous_until > now()) then
    return case device.previous_for when 'anything' then 'previous' else 'spent' end;
  end if;
  -- Other accounts may have joined, or the browser may have switched, since this secret was spent.
  if exists (
    select
    from private.account_additions a
    where a.device_id = device.id
      and a.taken_from = private.secret_hash(secret)
      and a.expires_at > now() + interval '30 days' - interval '60 seconds'
  ) then
    return 'spent';
  end if;
  return 'unknown';
end
$$;

-- Definer: the service role cannot lock rows of Supabase Auth's tables.
create or replace function private.lock_accounts(user_ids uuid[]) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- The same lock as in private.lock_app_credentials. "for update" would deadlock: Supabase Auth's sign-out locks a
  -- session, and then its event's foreign key locks the account for key share.
  perform from auth.users u where u.id = any (user_ids) order by u.id for no key update;
end
$$;

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
  -- Does not rotate again while the previous secret is still valid: if responses overtake each other, the last to
  -- arrive leaves the browser with one of the two.
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

-- Our servers use this function to register new devices. Servers of release 0.1.0 also use it to add accounts to known
-- devices.
--
-- Definer: the replaced session is in Supabase Auth's tables, and is ended by deleting its row.
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
  -- The stored session may already be the new one, if the previous response was lost.
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
  -- This is not a new sign-in, so the account that the browser has switched to since stays active.
  stays_active := sign_in ->> 'inPlaceOf' is not null and coalesce(device.active_user_id <> subject_id, false);
  update private.account_devices d
  set secret_hash = case
        when standing = 'current' then decode(sign_in ->> 'nextHash', 'hex')
        when standing = 'previous' then decode(sign_in ->> 'secondNextHash', 'hex')
        else d.secret_hash
      end,
      -- Secrets from before the sign-in give access to nothing after it.
      previous_hash = case when standing in ('current', 'previous') then d.secret_hash else d.previous_hash end,
      previous_for = case when standing in ('current', 'previous') then 'sign_in' else d.previous_for end,
      previous_until = case
        when standing in ('current', 'previous') then now() + interval '60 seconds' else d.previous_until
      end,
      rotated_at = case when standing in ('current', 'previous') then now() else d.rotated_at end,
      active_user_id = case when stays_active then d.active_user_id else subject_id end,
      active_session_id = case when stays_active then d.active_session_id else (sign_in ->> 'sessionId')::uuid end,
      -- A switch that began before this sign-in must not replace the active account.
      lease_id = null,
      lease_expires_at = null,
      last_seen_at = now(),
      expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept', 'successor', successor);
end
$$;

create or replace function private.store_account_session(entry jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  held private.account_vault_entries;
begin
  -- Locks the device before its entry, like every function here that locks both.
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

-- Definer: the session is in Supabase Auth's tables, and is ended by deleting its row.
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
  -- The session's tokens are not held anywhere any more.
  perform private.end_account_session(discard_account_session.user_id, ended_id);
  return ended_id is not null;
end
$$;

-- Definer: identities are in Supabase Auth's tables. Supabase Auth's own endpoint is not used. It refuses to remove the
-- last identity even if a password or a passkey remains, does not check whether the remaining identity is usable, and
-- replaces the account's email with another identity's. Another way to sign in could also be removed between our count
-- and the endpoint's deletion.
create or replace function private.unlink_identity(subject_id uuid, target_id uuid, usable_providers text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target record;
begin
  -- Serialized per account, so that each change sees the result of the one before.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select m.id, m.provider, m.email
  into target
  from jsonb_to_recordset(private.list_sign_in_methods(subject_id) -> 'identities') as m (
    id uuid, provider text, email text
  )
  where m.id = target_id;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if target.provider in ('email', 'phone') then
    return jsonb_build_object('outcome', 'not_unlinkable');
  end if;
  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target.id]) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;

  perform private.keep_email_identity(account);
  perform private.remove_identity(target.id);
  return jsonb_build_object('outcome', 'unlinked', 'provider', target.provider, 'email', target.email);
end
$$;

-- Definer: removes identities from Supabase Auth's tables, which the service role cannot write.
create or replace function private.sweep_oauth_attempts(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  swept integer;
  removed integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_oauth_attempts', 0)) then
    return 0;
  end if;
  delete from private.oauth_attempts a
  where a.state_hash = any (array(
    select o.state_hash from private.oauth_attempts o
    where o.expires_at < now() order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics swept = row_count;
  -- Waits a little longer than an attempt's lifetime, so that a link in progress keeps its identity.
  perform private.remove_identity(n.identity_id)
  from (
    select o.identity_id from private.unconfirmed_identities o
    where o.created_at < now() - interval '15 minutes' order by o.created_at limit at_most
  ) as n;
  get diagnostics removed = row_count;
  return swept + removed;
end
$$;

-- Definer: passkeys are in Supabase Auth's tables, which the service role cannot read. Supabase Auth's own endpoint
-- could leave an account without a way to sign in. Another way to sign in could also be removed between our count and
-- the endpoint's deletion.
create or replace function private.delete_passkey(subject_id uuid, actor_session_id uuid, target_id uuid, usable_providers text[])
  returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- Serialized per account, like private.unlink_identity, so that each change sees the result of the one before.
  perform from auth.users u where u.id = subject_id for update;
  if not exists (
    select from auth.webauthn_credentials c where c.id = target_id and c.user_id = subject_id
  ) then
    return 'not_found';
  end if;
  -- The backend has the same rule: an account's authenticator must have been used in this session.
  if exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) and not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return 'insufficient_aal';
  end if;

  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target_id]) = 0 then
    return 'last_method';
  end if;
  perform private.delete_auth_passkey(target_id);
  return 'deleted';
end
$$;

-- Definer: sessions and their proofs are in Supabase Auth's tables, which the service role cannot write.
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

  -- Dates the session to the approver's own sign-in, because it is not a new sign-in for boundaries and step-up. Every
  -- token that the backend issues for the session contains this time.
  signed_in_at := to_timestamp(coalesce(private.latest_amr_second(approver -> 'amr', private.primary_methods()), 0));
  perform private.set_session_sign_in_time(minted, signed_in_at);
  update private.login_challenges c
  set status = 'consumed',
      consumed_at = now(),
      approval_metadata = c.approval_metadata || jsonb_build_object('mintedSessionId', minted)
  where c.id = challenge.id;
  return 'consumed';
end
$$;

-- Definer: the service role has no grant to answer requests.
create or replace function ai.answer_agent_access(
  member_id uuid, workspace uuid, requester_id uuid, requested_at timestamptz, answer text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  answered ai.agent_access;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Locks the workspace first, because deleting an account locks its workspaces before these rows.
  perform from public.workspaces w where w.id = workspace for key share;
  update ai.agent_access a
  set
    state = case answer when 'approve' then 'approved' when 'decline' then 'declined' else 'withdrawn' end,
    answered_at = now(),
    answered_by = member_id
  where a.workspace_id = workspace
    and a.user_id = requester_id
    and a.requested_at = answer_agent_access.requested_at
    and a.state = case when answer in ('approve', 'decline') then 'open' else 'approved' end
  returning * into answered;
  if not found then
    return jsonb_build_object('outcome', 'answered');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'agent_access.' || answered.state, requester_id,
    (select p.display_name from public.profiles p where p.id = requester_id)
  );
  return jsonb_build_object('outcome', 'done');
end
$$;

-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.connect_agent(
  token_hash bytea, workspace_id uuid, tool text, host text, email jsonb
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Serializes a member's calls, so that a second call finds the connection of the first.
  perform private.lock_app_credentials(caller.user_id);
  perform
  from private.user_workspaces(caller.user_id) u
  join public.workspaces w on w.id = u.id
  where w.id = connect_agent.workspace_id
  for key share of w;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not ai.may_connect_agents(caller.user_id, connect_agent.workspace_id) then
    if not private.user_has_workspace_permission(caller.user_id, connect_agent.workspace_id, 'use_ai_studio') then
      return jsonb_build_object('refused', 'forbidden');
    end if;
    return jsonb_build_object('state', ai.request_agent_access(
      caller.user_id, connect_agent.workspace_id, connect_agent.tool, connect_agent.host, connect_agent.email
    ));
  end if;
  -- A new login of the same member, agent and host continues the connection of a login that has ended.
  update ai.agent_connections c
  set login_id = caller.login_id
  where c.id = (
    select o.id
    from ai.agent_connections o
    where o.workspace_id = connect_agent.workspace_id
      and o.user_id = caller.user_id
      and o.tool = connect_agent.tool
      and o.revoked_at is null
      and (o.login_id = caller.login_id or (o.host = connect_agent.host and ai.agent_login_end(o.login_id) is null))
    order by o.login_id is not distinct from caller.login_id desc, o.created_at desc
    limit 1
  )
  returning * into connection;
  if not found then
    insert into ai.agent_connections as c (workspace_id, user_id, login_id, tool, host)
    values (
      connect_agent.workspace_id, caller.user_id, caller.login_id, connect_agent.tool, connect_agent.host
    )
    returning c.* into connection;
  end if;
  return jsonb_build_object('state', 'connected', 'connection', ai.describe_connection(connection));
end
$$;

-- Definer: reads memberships and writes keys, but only for the token's user.
create or replace function private.issue_agent_key(
  token_hash bytea, workspace_id uuid, connection_id uuid, lookup text, secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  verdict text;
  previous ai.keys;
  made ai.keys;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = issue_agent_key.workspace_id and w.deleted_at is null for key share;
  -- Locks the connection, so that a concurrent revocation either comes first or revokes this key too.
  select * into connection
  from ai.agent_connections c
  where c.id = issue_agent_key.connection_id
    and c.workspace_id = issue_agent_key.workspace_id
    and c.login_id = caller.login_id
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if connection.revoked_at is not null then
    return jsonb_build_object('outcome', 'revoked');
  end if;
  verdict := ai.key_issue_permission(caller.user_id, connection.workspace_id, for_agent => true);
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  select * into previous
  from ai.keys k
  where k.connection_id = connection.id and k.replaced_by is null;
  -- Counts replaced keys that still work, so that a loop of renewals ends here.
  if (select count(*) >= 20 from ai.keys k where k.connection_id = connection.id and k.expires_at > now())
    or (previous.id is null and ai.has_too_many_keys(connection.workspace_id)) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  made := ai.store_key(
    caller.user_id, connection.workspace_id,
    jsonb_build_object(
      'name', ai.agent_name(connection.tool) || ' on ' || connection.host,
      'expiresAt', least(now() + interval '8 hours', caller.ends_at)
    ),
    issue_agent_key.lookup, issue_agent_key.secret_hash, lineage => previous.lineage_id, connection_id => connection.id
  );
  -- Programs that have already read the old key can use it for another 15 minutes.
  update ai.keys k
  set replaced_by = made.id, expires_at = least(k.expires_at, now() + interval '15 minutes')
  where k.id = previous.id;
  return jsonb_build_object('outcome', 'issued', 'expiresAt', made.expires_at);
end
$$;

create or replace function ai.end_connection(connection_id uuid, actor uuid) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  ended ai.agent_connections;
  key ai.keys;
begin
  -- Locks in the same order as private.issue_agent_key: the workspace, the connection, its keys.
  perform
  from public.workspaces w
  where w.id = (select c.workspace_id from ai.agent_connections c where c.id = end_connection.connection_id)
  for key share;
  update ai.agent_connections c
  set revoked_at = now()
  where c.id = end_connection.connection_id and c.revoked_at is null
  returning * into ended;
  if not found then
    return false;
  end if;
  update ai.keys k set revoked_at = now() where k.connection_id = ended.id and k.revoked_at is null;
  select * into key from ai.keys k where k.connection_id = ended.id and k.replaced_by is null;
  if found then
    perform set_config('gatehouse.actor_id', actor::text, true);
    perform private.log_workspace_change(ended.workspace_id, 'key.revoked', key.id, key.name);
  end if;
  -- A revocation by a key manager also withdraws the member's approval. A member who disconnects their own agent keeps
  -- it.
  update ai.agent_access a
  set state = 'withdrawn', answered_at = now(), answered_by = actor
  where a.workspace_id = ended.workspace_id
    and a.user_id = ended.user_id
    and a.state = 'approved'
    and actor <> ended.user_id;
  return true;
end
$$;

-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- Runs one sweep at a time. Each sweep reads the budgets after the previous one has finished, so that it sees limits
  -- that were raised meanwhile.
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_budget_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'scope', a.scope,
        'subjectId', a.subject_id,
        'subject', ai.budget_name(a.scope, a.subject_id, a.workspace_id),
        'workspaceId', a.workspace_id,
        'workspace', w.name,
        'month', a.month,
        'endsAt', ai.utc_text((a.month + interval '1 month') at time zone 'UTC'),
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      )
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id
    ), '[]')
    from (
      select * from ai.budget_alerts p where p.posted_at is null order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
  );
end
$$;

-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_budget_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with posted as (
    update ai.budget_alerts a
    set posted_at = now()
    where a.scope = alert ->> 'scope'
      and a.subject_id = (alert ->> 'subjectId')::uuid
      and a.workspace_id = (alert ->> 'workspaceId')::uuid
      and a.month = (alert ->> 'month')::date
      and a.threshold = (alert ->> 'threshold')::smallint
      and a.limit_usd = (alert ->> 'limitUsd')::numeric
      and a.posted_at is null
    returning a.scope, a.workspace_id
  ), kept as (
    -- No caller sends this email directly, so it is due immediately.
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_budget_alert_mails.subject, queue_budget_alert_mails.body, now()
    from posted p
    cross join lateral ai.budget_recipients(p.scope, p.workspace_id) as r (email)
    returning id
  )
  select count(*)::integer from kept
$$;

create or replace function ai.record_budget_alerts() returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into ai.budget_alerts as a (scope, subject_id, workspace_id, month, limit_usd, spent_usd, reserved_usd, threshold)
  select b.scope, b.subject_id, b.workspace_id, b.period_start, b.limit_usd, b.spent_usd, b.reserved_usd, x.threshold
  from ai.budgets b
  join public.workspaces w on w.id = b.workspace_id and w.deleted_at is null
  cross join lateral (select ai.budget_threshold(b) as threshold) as x
  left join ai.budget_alerts k
    on k.scope = b.scope and k.subject_id = b.subject_id and k.workspace_id = b.workspace_id
  -- A budget of zero blocks all calls on purpose, so it needs no warning.
  where b.limit_usd > 0
    and (b.spent_usd * 2 >= b.limit_usd or b.refused_at >= date_trunc('month', now(), 'UTC') or k.threshold > 0)
    -- A month can still be warned about in the hour after its end, unless a call of the next month has already reset
    -- the row.
    and b.period_start >= date_trunc('month', (now() - interval '1 hour') at time zone 'UTC')::date
    and case
      when k.month = b.period_start then x.threshold > k.threshold or b.limit_usd <> k.limit_usd
      else x.threshold > 0
    end
  on conflict (scope, subject_id, workspace_id) do update
  set
    month = excluded.month,
    limit_usd = excluded.limit_usd,
    spent_usd = excluded.spent_usd,
    reserved_usd = excluded.reserved_usd,
    threshold = case
      when a.month < excluded.month or a.limit_usd < excluded.limit_usd then excluded.threshold
      else greatest(a.threshold, excluded.threshold)
    end,
    crossed_at = case when a.month < excluded.month or a.threshold < excluded.threshold then now() else a.crossed_at end,
    posted_at = case
      when a.month < excluded.month or a.threshold < excluded.threshold then null
      -- Marks the pending warning as emailed, because it no longer applies.
      when a.limit_usd < excluded.limit_usd and a.threshold > excluded.threshold then coalesce(a.posted_at, now())
      else a.posted_at
    end
  where a.month < excluded.month
    or (a.month = excluded.month and (a.threshold < excluded.threshold or a.limit_usd <> excluded.limit_usd))
$$;

create or replace function ai.budget_refuses_calls(budget ai.budgets) returns boolean
  language sql
  stable
  security invoker
  parallel safe
as $$
  select coalesce(
    budget.refused_at >= date_trunc('month', now(), 'UTC')
      -- Until the first call of the month is admitted, the amount held belongs to the previous month and will be
      -- released.
      and budget.period_start = date_trunc('month', now() at time zone 'UTC')::date
      and budget.limit_usd > 0
      and (budget.spent_usd + budget.reserved_usd) * 5 >= budget.limit_usd * 4,
    false
  )
$$;

create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null
) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  if limit_usd is null then
    update ai.budgets b set limit_usd = null
    where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    -- After a raise, a call that was refused before may fit.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if found then
    perform ai.reset_budget_alert(set_budget.scope, subject, workspace);
    return;
  end if;
  insert into ai.budgets as b (scope, subject_id, workspace_id, label, limit_usd, period_start, spent_usd)
  select
    set_budget.scope, subject, workspace, set_budget.label, set_budget.limit_usd, month,
    coalesce(sum(r.cost_usd), 0)
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= month::timestamp at time zone 'UTC'
    and case set_budget.scope
      when 'workspace' then true
      when 'app' then r.app_id = subject
      when 'member' then r.actor_id = subject
      when 'label' then r.entity_id = set_budget.label
      else r.key_lineage_id = subject
    end;
end
$$;

-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_credit_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with posted as (
    update ai.credit_alerts k
    set
      posted_at = now(),
      -- Computes the level again, because credits may have been added since the sweep.
      level = least(k.level, ai.credit_level(a, k.threshold))
    from ai.credit_accounts a
    where a.id = k.account_id
      and k.account_id = (alert ->> 'accountId')::uuid
      and k.level = (alert ->> 'level')::ai.credit_level
      and k.crossed_at = (alert ->> 'crossedAt')::timestamptz
      and k.posted_at is null
    returning a.workspace_id, a.user_id, k.level
  ), kept as (
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_credit_alert_mails.subject, queue_credit_alert_mails.body, now()
    from posted p
    cross join lateral ai.credit_recipients(p.workspace_id, p.user_id) as r (email)
    where p.level = (alert ->> 'level')::ai.credit_level
    returning id
  )
  select count(*)::integer from kept
$$;

-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credit_notice(member_id uuid, workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object('level', x.level, 'available', trim_scale(greatest((o.a).balance - (o.a).reserved, 0))::text)
  from public.workspaces w
  join ai.plans p on p.id = w.plan_id
  cross join lateral (
    select a from ai.credit_accounts a
    where case p.payer when 'workspace' then a.workspace_id = w.id else a.user_id = member_id end
    union all
    -- The account does not exist before its first call, so this shows the initial credits.
    select jsonb_populate_record(null::ai.credit_accounts, jsonb_build_object('balance', p.initial_credits, 'reserved', 0))
    where not exists (
      select from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = case p.payer when 'workspace' then w.id else member_id end
    )
  ) o
  cross join lateral (
    select ai.credit_level(
      o.a,
      case p.payer
        when 'member' then (select ai.low_credits(m) from ai.paying_plan('member', member_id) as m)
        else ai.low_credits(p)
      end
    ) as level
  ) x
  where w.id = workspace and w.deleted_at is null and x.level > 'funded'
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;

-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50, with_totals boolean default true
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  last_id bigint := coalesce(before_id, 9223372036854775807);
  listed jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(asked.window_from),
    'to', ai.utc_text_microseconds(asked.window_to),
    'entries', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id::text,
          'createdAt', ai.utc_text_microseconds(p.created_at),
          'payer', p.payer,
          'kind', p.kind,
          'amount', trim_scale(p.amount)::text,
          'balanceAfter', trim_scale(p.balance_after)::text,
          'runId', p.run_id,
          'description', p.description
        )
        order by p.id desc
      ), '[]')
      from (
        select case when a.workspace_id is null then 'member' else 'workspace' end as payer, e.*
        from ai.credit_accounts_of(member_id, workspace) a
        cross join lateral (
          select *
          from ai.credit_ledger l
          where l.account_id = a.id
            and l.created_at >= asked.window_from
            and l.created_at < asked.window_to
            and l.id < last_id
            -- A member's balance pays in all of their free workspaces, but only runs of this workspace are listed here.
            and (
              a.workspace_id is not null
              or l.run_id is null
              or exists (
                select from ai.runs r
                where r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = workspace
              )
            )
          order by l.id desc
          limit page_size
        ) as e
        order by e.id desc
        limit page_size
      ) p
    )
  );
  if not with_totals then
    return listed;
  end if;
  return listed || (
    with accounts as materialized (
      select a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered
      from ai.usage_between(workspace, asked.window_from, asked.window_to) u
    ), others as (
      select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits
    )
    select jsonb_build_object(
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'totals', (
        select jsonb_build_object(
          'runCredits', trim_scale(r.billed)::text,
          'otherDeductions', trim_scale(o.credits)::text,
          'usedCredits', trim_scale(r.billed + o.credits)::text,
          'unmeteredCredits', trim_scale(r.unmetered)::text,
          'addedCredits', trim_scale((
            select coalesce(sum(l.amount), 0)
            from accounts a
            join ai.credit_ledger l on l.account_id = a.id
            where l.run_id is null and l.amount > 0
              and l.created_at >= asked.window_from and l.created_at < asked.window_to
          ))::text
        )
        from runs r cross join others o
      )
    )
  );
end
$$;

-- Definer: the service role cannot write requests or read Supabase Auth's email addresses.
create or replace function ai.request_key_approval(member_id uuid, workspace uuid, note text, email jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  known ai.key_approval_requests;
  emails_admins boolean;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Serializes a member's requests, because each counts the emails of earlier ones.
  perform pg_advisory_xact_lock(hashtextextended('ai.request_key_approval ' || member_id, 0));
  -- Approving and declining lock the workspace too.
  perform from public.workspaces w where w.id = workspace and w.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select * into known from ai.key_approval_requests q where q.workspace_id = workspace;
  if known.state = 'open' or exists (select from ai.key_approvals a where a.workspace_id = workspace) then
    return ai.key_approval_state(workspace);
  end if;
  emails_admins := ai.may_email_admins(member_id, known);
  insert into ai.key_approval_requests as q (workspace_id, requested_by, note, admins_emailed_at, admins_emailed_for)
  values (
    workspace, member_id, nullif(btrim(request_key_approval.note), ''),
    case when emails_admins then now() else known.admins_emailed_at end,
    case when emails_admins then member_id else known.admins_emailed_for end
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

create or replace function ai.has_too_many_keys(workspace uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*) >= 200
  from ai.keys k
  where k.workspace_id = workspace
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())
    -- Replaced keys of agents don't count. Otherwise renewals by one member's agent could use up the workspace's limit.
    and (k.connection_id is null or k.replaced_by is null)
$$;

create or replace function ai.key_issue_permission(member_id uuid, workspace uuid, for_agent boolean default false)
  returns text
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    and not (for_agent and ai.may_connect_agents(member_id, workspace)) then
    return 'not_allowed';
  end if;
  -- Locks the approval until the key is stored, so that it can't be withdrawn in between.
  perform from ai.key_approvals a where a.workspace_id = workspace for key share;
  return case when found then 'allowed' else 'not_approved' end;
end
$$;

-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys(member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', ai.key_summaries(workspace, array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        -- Lists only the latest key of a coding agent's connection.
        and (k.connection_id is null or k.replaced_by is null)
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Definer: the service role cannot write keys, so every key passes these checks.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- Serializes rotations of a key, so that the second finds it replaced.
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
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key's creator pays, and the key stops working once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into made;
  update ai.keys k
  set
    replaced_by = made.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', made.id, made.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[made]) -> 0);
end
$$;

-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer, cost_visible boolean
) returns table (key text, sums jsonb, cost_usd numeric, billed_credits numeric, requests numeric)
  language sql
  stable
  security invoker
as $$
  select
    g.key,
    ai.usage_sums(
      g.requests, g.failed, g.input_tokens, g.output_tokens, case when cost_visible then coalesce(g.cost_usd, 0) end,
      g.billed_credits, g.unmetered_credits, g.latency_ms, g.timed
    ) || jsonb_build_object(
      'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
    ),
    g.cost_usd, g.billed_credits, g.requests
  from (
    -- The row with a null key covers the whole range.
    select
      u.key, sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
      sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
      sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed,
      sum(u.latency_marks) as latency_marks, sum(u.first_token_marks) as first_token_marks
    from (
      select ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.*
      from ai.usage_between(workspace, window_from, window_to, grouped_by = 'member') p
    ) u
    group by grouping sets ((u.key), ())
  ) g
  cross join lateral ai.latency_quantiles(g.latency_marks) as l
  cross join lateral ai.latency_quantiles(g.first_token_marks) as f
  -- For labels, only the row of the whole range is taken from here.
  where g.key is null or grouped_by <> 'label'
  union all
  select
    b.label,
    ai.usage_sums(
      sum(b.requests), sum(b.failed), sum(b.input_tokens), sum(b.output_tokens), case when cost_visible then sum(b.cost_usd) end,
      sum(b.billed_credits), sum(b.unmetered_credits), sum(b.latency_ms), sum(b.timed)
    ) || '{"latencyP50Ms": null, "latencyP95Ms": null, "firstTokenP50Ms": null, "firstTokenP95Ms": null}',
    sum(b.cost_usd), sum(b.billed_credits), sum(b.requests)
  from ai.label_usage_between(workspace, window_from, window_to) b
  where grouped_by = 'label'
  group by b.label
$$;

-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.latency_quantiles(marks numeric) returns table (p50 integer, p95 integer)
  language sql
  immutable
  security invoker
  parallel safe
as $$
  with d as materialized (
    -- A byte at a position can be read directly, while a character of a text is found only by counting.
    select lpad(marks::text, 12 * 81, '0')::bytea as digits
  )
  select
    max(round(b.low + (b.high - b.low) * (0.5 * b.total - b.before) / b.runs))
      filter (where b.before < 0.5 * b.total and b.before + b.runs >= 0.5 * b.total)::integer,
    max(round(b.low + (b.high - b.low) * (0.95 * b.total - b.before) / b.runs))
      filter (where b.before < 0.95 * b.total and b.before + b.runs >= 0.95 * b.total)::integer
  from (
    select
      c.runs,
      case c.bucket when 0 then 0 else 2 ^ ((c.bucket - 1) / 4.0::double precision) end as low,
      2 ^ (c.bucket / 4.0::double precision) as high,
      (sum(c.runs) over (order by c.bucket) - c.runs)::double precision as before,
      (sum(c.runs) over ())::double precision as total
    from (
      select n as bucket, encode(substr(d.digits, 12 * (80 - n) + 1, 12), 'escape')::bigint as runs
      from d
      cross join generate_series(0, 80) as n
    ) c
    where c.runs > 0
  ) b
$$;

-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels');
  foreach param in array array['allowedModels', 'deniedModels'] loop
    unknown := ai.unknown_models(array(
      select n.name from unnest(ai.text_list(changes -> param)) with ordinality as n (name, place)
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
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
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

create or replace function ai.retained_content(workspace uuid, run_id uuid) returns table (content ai.run_content, deleted_from timestamptz)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c, c.run_created_at + make_interval(days => w.content_retention_days)
  from (
    -- The id is a UUIDv7, which contains the time of its creation.
    select to_timestamp(('x' || substr(replace(retained_content.run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
      as moment
  ) as begun
  join ai.run_content c on c.run_created_at >= begun.moment - interval '1 second'
    and c.run_created_at < begun.moment + interval '1 second'
  join ai.workspace_policies w on w.workspace_id = c.workspace_id and w.content_capture
  where c.workspace_id = workspace
    and c.run_id = retained_content.run_id
    and c.run_created_at >= now() - make_interval(days => w.content_retention_days)
$$;

create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select r
  from ai.runs r,
    -- The id is a UUIDv7, which contains the time of its creation and so determines the partition.
    to_timestamp(('x' || substr(replace(run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) as begun
  where r.id = run_id and r.created_at >= begun - interval '1 second' and r.created_at < begun + interval '1 second'
$$;

-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_runs(
  member_id uuid,
  workspace uuid,
  filter jsonb default '{}',
  before jsonb default null,
  page_size integer default 50,
  scan_limit integer default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A generic plan would use no index and read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  -- Compares created_at separately, because the row comparison (created_at, id) < (last_at, last_id) would prune no
  -- partition.
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_app uuid := (filter ->> 'appId')::uuid;
  of_member uuid := (filter ->> 'memberId')::uuid;
  of_provider text := filter ->> 'provider';
  of_entity text := filter ->> 'entityId';
  of_request text := filter ->> 'requestId';
  unknown_name text;
  scanned_to record;
  older_than timestamptz;
  found_runs jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  unknown_name := ai.unknown_run_filter(workspace, filter);
  -- Other unknown names are not an error: a deleted app or account can still have runs.
  if unknown_name in ('provider', 'keyId') then
    return jsonb_build_object('outcome', 'listed', 'runs', '[]'::jsonb, 'unknown', unknown_name);
  end if;
  -- A request id has an index. The other filters have none, because every call would pay for it.
  if of_request is not null
    or num_nonnulls(of_model, of_feature, of_status, of_key, of_app, of_member, of_provider, of_entity) = 0
  then
    scan_limit := null;
  end if;
  select coalesce(jsonb_agg(
    -- Calls ai.run_pricing_facts here and not in ai.run_summary, which would plan it again for each run.
    ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible) order by r.created_at desc, r.id desc
  ), '[]') into found_runs
  from (
    select *
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      limit scan_limit
    ) as scanned
    where (of_model is null or scanned.model_id = of_model)
      and (of_feature is null or scanned.feature = of_feature)
      and (of_status is null or scanned.status = of_status)
      and (of_key is null or scanned.key_id = of_key)
      and (of_app is null or scanned.app_id = of_app)
      and (of_member is null or scanned.actor_id = of_member)
      and (of_provider is null or ai.run_provider(scanned.routes, scanned.route) = of_provider)
      and (of_entity is null or scanned.entity_id = of_entity)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  ) r;
  if scan_limit is null or jsonb_array_length(found_runs) >= page_size then
    return jsonb_build_object(
      'outcome', 'listed',
      'runs', found_runs,
      'unknown', case when before is null and found_runs = '[]' then unknown_name end
    );
  end if;
  select r.created_at, r.id into scanned_to
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= starts_at
    and r.created_at < ends_at
    and not (r.created_at = last_at and r.id >= last_id)
  order by r.created_at desc, r.id desc
  offset scan_limit - 1
  limit 1;
  older_than := ai.runs_may_exist_before(workspace, filter, scanned_to.created_at);
  return jsonb_build_object(
    'outcome', 'listed',
    'runs', found_runs,
    'unknown', case when before is null and found_runs = '[]' and older_than is null then unknown_name end,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;

create or replace function ai.runs_may_exist_before(workspace uuid, filter jsonb, moment timestamptz) returns timestamptz
  language plpgsql
  stable
  security invoker
  set search_path = ''
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_day date := (moment at time zone 'UTC')::date;
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_app uuid := (filter ->> 'appId')::uuid;
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_lineage uuid := (select k.lineage_id from ai.keys k where k.id = of_key);
  of_provider text := filter ->> 'provider';
  day date;
begin
  -- Daily sums don't count open runs separately, and don't include today.
  if moment is null or of_status = 'running' or last_day >= (select s.before from ai.usage_sealed_days s) then
    return moment;
  end if;
  select greatest(
    (
      select u.day
      from ai.usage_daily u
      where u.workspace_id = workspace
        and u.day <= last_day
        and (of_model is null or u.model_id = of_model)
        and (of_feature is null or u.feature = of_feature)
        and (of_app is null or u.app_id = of_app)
        and (of_key is null or u.key_lineage_id = of_lineage)
        and (of_provider is null or u.provider_id = of_provider)
        and (of_status is null or case of_status when 'failed' then u.failed > 0 else u.requests > u.failed end)
      order by u.day desc
      limit 1
    ),
    -- Days that changed since they were summed.
    (select max(c.day) from ai.usage_changed_days c where c.workspace_id = workspace and c.day <= last_day)
  ) into day;
  if day is null or day < (starts_at at time zone 'UTC')::date then
    return null;
  end if;
  return least(moment, (day + 1)::timestamp at time zone 'UTC');
end
$$;

-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.usage_between(workspace, asked.window_from, asked.window_to, by_member)
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) and visible then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- Servers of the previous release expect a position of seven parts, so the eighth is added only if needed.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed
      from parts u
      where not by_label
      group by 1
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed)
      from ai.label_usage_between(workspace, asked.window_from, asked.window_to) l
      where by_label
      group by 1
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.utc_text_microseconds(asked.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'day', nullif(p.key[1], ''),
            'model', nullif(p.key[2], ''),
            'feature', nullif(p.key[3], ''),
            'executionMode', nullif(p.key[4], ''),
            'provider', nullif(p.key[5], ''),
            'keyId', nullif(p.key[6], ''),
            'keyName', (
              select k.name from ai.keys k
              where k.lineage_id = nullif(p.key[6], '')::uuid and k.workspace_id = workspace
              order by k.created_at desc limit 1
            ),
            'appId', nullif(p.key[7], ''),
            'appName', ai.app_label(nullif(p.key[7], '')::uuid),
            'memberId', case when by_member then nullif(p.key[8], '') end,
            'memberName', case when by_member then ai.member_label(workspace, nullif(p.key[8], '')::uuid) end,
            'label', case when by_label then nullif(p.key[8], '') end,
            'position', p.key
          )
          order by p.key collate "C"
        ), '[]')
        from (
          select * from grouped g
          where after is null or g.key collate "C" > after collate "C"
          order by g.key collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

create or replace function ai.seal_completed_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  -- By then, all calls of yesterday have committed: the gateway's statements take at most 10 seconds.
  last_end date := ((now() - interval '15 minutes') at time zone 'UTC')::date;
  next_day date;
  sealed integer := 0;
begin
  select s.before into next_day from ai.usage_sealed_days s;
  while next_day < last_end and sealed < max_days loop
    perform ai.rebuild_usage_day(next_day, ai.workspaces_used_on(next_day));
    next_day := next_day + 1;
    sealed := sealed + 1;
  end loop;
  if sealed > 0 then
    update ai.usage_sealed_days s
    set before = next_day, detailed_from = coalesce(s.detailed_from, next_day - sealed)
    where s.singleton;
  end if;
  return sealed;
end
$$;

create or replace function ai.rebuild_changed_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  changed record;
  summed integer := 0;
begin
  for changed in
    select c.day, array_agg(distinct c.workspace_id) as workspaces, array_agg(c.id) as ids
    from ai.usage_changed_days c
    group by c.day
    order by c.day
    limit max_days
  loop
    -- A change that commits after this statement leaves a new mark, which is not deleted.
    delete from ai.usage_changed_days c where c.id = any (changed.ids);
    continue when changed.day >= (select s.before from ai.usage_sealed_days s);
    perform ai.rebuild_usage_day(changed.day, changed.workspaces);
    summed := summed + 1;
  end loop;
  return summed;
end
$$;

-- Definer: changes two roles together, while the policies would check each change separately.
create or replace function public.transfer_workspace_ownership(workspace_id uuid, new_owner_id uuid) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
#variable_conflict use_column
declare
  owner_role uuid;
  admin_role uuid;
begin
  if not private.account_required_mfa_satisfied()
    or (transfer_workspace_ownership.workspace_id in (select private.my_owned_workspace_ids())) is not true then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if not private.session_is_fresh() then
    raise exception 'prove again who you are' using errcode = 'PT403';
  end if;
  if new_owner_id = auth.uid() then
    raise exception 'they own it already' using errcode = 'PT409';
  end if;
  -- Members are locked before their workspace, as they are when a member leaves.
  perform from public.workspace_members m
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id in (auth.uid(), new_owner_id)
  order by m.user_id
  for update;
  perform from public.workspaces w where w.id = transfer_workspace_ownership.workspace_id for no key update;
  -- Checked again under the lock, since another transfer may have been first.
  if transfer_workspace_ownership.workspace_id not in (select private.my_owned_workspace_ids()) then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  select r.id into owner_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and r.is_owner;
  -- Chooses the role with the most permissions, except owner roles.
  select r.id into admin_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and not r.is_owner
  order by cardinality(r.permissions) desc, r.name = 'admin' desc, r.name
  limit 1;

  update public.workspace_members m set role_id = owner_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = new_owner_id;
  if not found then
    raise exception 'the new owner is not a member' using errcode = 'PT404';
  end if;
  update public.workspace_members m set role_id = admin_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = auth.uid() and admin_role is not null;
end
$$;

comment on function ai.account_day_run_id(text, text, date) is
  'Returns the external run id of an account''s daily total. The commands that import from providers'' APIs use the '
  'same format. A long account id is hashed, because an external id has at most 256 characters.';

comment on function ai.account_workspaces(ai.platform_part[], text) is
  'Returns the workspaces that have runs with the given account, at most 100. For a null account, returns workspaces '
  'with any runs: [{ workspaceId, name, meteredUsd, daysWithoutRuns }]. daysWithoutRuns has the days on which the '
  'account''s bill exceeds its metered cost and the workspace has no such run. The workspaces with the most of these '
  'days come first.';

comment on function ai.add_invoice(uuid, uuid, jsonb) is
  'Adds an invoice to a book. Returns the invoice''s id, or null if another invoice already has one of its unique '
  'keys.';

comment on function ai.admit_call(ai.priced_call) is
  'Admits or refuses one call. The caller of this function has locked the rows that the call needs. Reserves the '
  'call''s maximum cost, opens its run and returns the result of ai.begin_run. Not granted to any role, because it '
  'trusts its caller.';

comment on function ai.admit_calls(jsonb) is
  'Finds the caller and the maximum cost of each call, locks the rows that all the calls need, and then admits the '
  'calls one after another.';

comment on function ai.agent_key_status(uuid) is
  'Returns whether a connection''s keys work: good, over, mfa_required or unavailable. over: the connection was '
  'revoked, its login or MFA proof is no longer valid, or its member has left or lost the permission. mfa_required and'
  ' unavailable are described at private.proof_status.';

comment on function ai.agent_login_end(uuid) is
  'Returns the time at which a login ends, or null if the login has ended or may no longer have keys. Does not check '
  'the login''s MFA proof.';

comment on function ai.agent_name(text) is 'Returns a coding agent''s display name.';

comment on function ai.agent_of_key(ai.keys) is
  'Returns the coding agent that renews a key: { tool, host, endsAt }. endsAt is the time at which the agent''s login '
  'ends, or null if the login has already ended. Returns null if no agent renews the key.';

comment on function ai.answer_agent_access(uuid, uuid, uuid, timestamptz, text) is
  'Approves or declines the open request that a member made at requested_at, or withdraws an approval, which revokes '
  'the keys of that member''s agents. Outcomes: done, answered, not_allowed. answered: another manager answered first,'
  ' or the member has made a later request.';

comment on function ai.app_caller(jsonb) is
  'Returns the caller of a request by a registered app. The credential must be an app''s token or a key that is bound '
  'to an app, and the request must name the workspace. The app is derived only from the credential. refused is the '
  'reason why the call is refused, or null. Not granted to any role.';

comment on function ai.app_label(uuid) is 'Returns an app''s display name; null if the app was deleted.';

comment on function ai.begin_calls(jsonb) is 'Admits calls with ai.admit_calls. Raises query_canceled if that took so long that the gateway no longer waits for the'
  ' result.';

comment on function ai.begin_run(jsonb) is
  'Admits or refuses a call. Reserves the maximum cost of an admitted call and opens its run. Returns the run with its'
  ' routes and prices, or {refused: code, …}, as JSON text.';

comment on function ai.begin_runs(jsonb) is
  'Admits or refuses several calls independently. Returns a JSON array with the result of begin_run for each call, in '
  'the order of the calls. Atomic: if the function raises an error, it reserves nothing and opens no run.';

comment on function ai.billing_provider(text, text) is
  'Returns the normalized provider name under which a run is compared with imported costs and invoices. Uses the '
  'run''s billing name, or the provider''s id if the run has no billing name.';

comment on function ai.book_clashes(uuid, timestamptz, timestamptz) is
  'Returns records of a window that were stored under several spellings of a provider''s name, at most 100: [{ kind: '
  'cost or invoice, provider, spellings, accountId, externalRunId or reference }]. Of such costs the last observed '
  'counts, and of such invoices the first recorded.';

comment on function ai.booked_costs(uuid, timestamptz, timestamptz) is
  'Returns the imported and invoiced costs that count in a book. An imported cost is one row with its UTC day. An '
  'invoice is spread over its days (ai.invoice_days) and is one row for each month, with the first day of the month. '
  'Replaced invoices do not count.';

comment on function ai.budget_name(text, uuid, uuid) is 'Returns the name of the key, app, member, label or workspace that a budget limits.';

comment on function ai.budget_recipients(text, uuid) is
  'Returns the email addresses that receive warnings about a budget: owners, members with manage_ai_policy and, for a '
  'key''s budget, members with manage_ai_keys.';

comment on function ai.budget_refuses_calls(ai.budgets) is
  'Returns whether a budget is effectively used up. This is the case if the budget refused a call in this UTC month, '
  'and at least 80 percent of the limit is spent or reserved. Below 80 percent, the refused call was simply too large,'
  ' and other calls may still fit.';

comment on function ai.budget_scopes(ai.caller, text) is
  'Returns the scopes of the budgets in which a call with the given label counts, or null. Looks up each budget by its'
  ' key, because a workspace may have budgets for many members and labels.';

comment on function ai.budget_subject(text, uuid, uuid, uuid, uuid, text) is 'Returns the id of the key lineage, app, member, label or workspace that a budget of the given scope limits for a run.';

comment on function ai.budget_subjects(uuid, boolean) is
  'Returns everything in a workspace that can have a budget: the workspace itself, its external apps, key lineages and'
  ' members, and labels that have a budget or a live key. live: the subject can still make calls. since: when the '
  'subject was created.';

comment on function ai.budget_summary(ai.budgets, boolean) is
  'Returns a budget''s limit and its spend in the current UTC month, as exact text. The spend is null if the workspace'
  ' hides provider cost.';

comment on function ai.budget_threshold(ai.budgets) is
  'Returns the highest of 50, 80 and 100 percent that a budget''s spend has reached, or 0. Percentages are not '
  'rounded. Also returns 100 if the budget refuses calls, because the maximum cost of a call can exceed the remainder '
  'before everything is spent.';

comment on function ai.call_limits(ai.caller, ai.rate_window_use, ai.rate_window_use) is
  'Returns a caller''s limits and current counts in the format of ai.rate_limit_headers.';

comment on function ai.call_refusal(ai.caller, text) is
  'Returns why a caller may not make any call or, if a kind is given, a call of that kind. Returns null if the caller '
  'may.';

comment on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) is
  'Sets one monthly budget; null removes it. Requires manage_ai_policy or, for a key''s budget, manage_ai_keys. For '
  'the scope label, takes the label''s text and derives the subject from it. read_limit_usd is the limit that the '
  'member saw. If the limit has changed since, nothing is changed. Outcomes: changed, unchanged, changed_meanwhile '
  '(with limitUsd), not_allowed, not_found. Logs each change.';

comment on function ai.change_credits(uuid, numeric, text, text) is
  'Adds credits to an account, or withdraws credits if the amount is negative. Returns { outcome, balance, amount, '
  'available }. The outcome is changed, repeated (the reference was already used for this amount), reference_used (the'
  ' reference was used for another amount) or insufficient (the amount exceeds the balance less reservations). Two '
  'references are the same if they differ only in spaces or Unicode composition. Case matters. Concurrent changes of '
  'an account wait for each other.';

comment on function ai.change_workspace_policy(uuid, uuid, jsonb) is
  'Changes the given fields of a workspace''s policy, for a member with manage_ai_policy: allowedModels, deniedModels,'
  ' requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, '
  'appBudgets [{ appId, monthlyBudgetUsd }]. null removes a limit. readAt is the updatedAt of the policy that the '
  'member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy), changed_meanwhile'
  ' (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are already in '
  'either list are never unknown. Logs each change in the workspace.';

comment on function ai.check_app_caller(jsonb) is
  'Checks whether a credential may import costs and read usage. Used if the request body is invalid. Returns { '
  'workspace_id } or { refused }.';

comment on function ai.check_credential(jsonb) is
  'Checks the credential of a call with an invalid or large body. A caller without a valid credential, or without '
  'permission for this kind of call, is refused before any error in the body is reported. Returns the credential''s '
  'owner or {refused: code}.';

comment on function ai.collect_locks(ai.priced_call[]) is 'Returns the rows that must be locked for calls. Refused calls need none.';

comment on function ai.compare_cost_file(uuid, uuid, jsonb) is
  'Compares the daily totals of a valid document, by account and day, with the stored records that they correct. Also '
  'returns the days between the document''s first and last day that earlier files had and that are missing from the '
  'document. These are remaining, or cleared if the document''s clear is true. Not granted to any role.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.compare_costs(uuid, uuid, timestamptz, timestamptz, text, text, integer)') is not null then
    comment on function ai.compare_costs(uuid, uuid, timestamptz, timestamptz, text, text, integer) is
      'Returns ai.cost_comparison_page if the member has the permission use_ai_studio, otherwise { outcome: not_allowed }.';
  end if;
end
$guard$;

comment on function ai.complete_idempotency_keys(ai.closed_run[]) is
  'Marks the idempotency keys of closed runs as finished, or frees a key if no provider was called for its run. Locks '
  'the keys after all other rows, in the same order as ai.admit_call.';

comment on function ai.compute_settlement(ai.run_outcome, ai.runs, timestamptz) is
  'Returns a locked run in its closed state, with the amounts due; null if the outcome does not change the run. If '
  'idle_since is given, closes only an open run without a heartbeat since then.';

comment on function ai.consume_rate_limit is
  'Counts a request and its reserved tokens in a rate window, unless that would exceed a limit. The caller has locked '
  'the window and made it current with ai.lock_rows. An extension adds tokens but does not count as another request.';

comment on function ai.cost_clashes(uuid) is
  'Returns the costs of a book that are stored under several spellings of one provider''s name. The last observed of '
  'them counts. Not granted to any role.';

comment on function ai.cost_comparison_page(uuid, timestamptz, timestamptz, text, text, integer) is
  'Returns a page of providers by name, or only one provider, each with its metered and imported cost in a range, and '
  'the totals of all providers. Leaves out providers without metered or imported cost. meteredUsd is null if the '
  'workspace hides provider cost.';

comment on function ai.cost_document_amounts(jsonb) is
  'Returns the amounts of a valid document, each with the exchange rate from its currency to USD. Not granted to any '
  'role.';

comment on function ai.cost_document_fault(jsonb) is
  'Returns the first error in a document as { outcome: invalid, param, message }, or null if the document is valid. '
  'Not granted to any role.';

comment on function ai.cost_file_state(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns a hash of a comparison. The hash changes if the file, the records that it corrects or the records that it '
  'replaces change. Not granted to any role.';

comment on function ai.cost_import_details(uuid) is 'Returns details of an import for the activity log and the audit log. Not granted to any role.';

comment on function ai.cost_import_receipt(uuid, uuid) is
  'Returns an import of a book: { outcome: read, provider, sha256, appName, import, current } or { outcome: not_found '
  '}. current summarizes the daily totals that the import wrote and that were not corrected later. Not granted to any '
  'role.';

comment on function ai.cost_import_refusal(uuid, uuid, uuid) is
  'Returns why a member may not import costs for an app in a workspace: { outcome: not_allowed } or { outcome: '
  'app_not_linked }. Returns null if the member may. Not granted to any role.';

comment on function ai.cost_import_summary(uuid) is
  'Returns the file with which a record was imported, the exchange rates and who entered them. by is person or '
  'operator. name is null for the operator and for a deleted account. Not granted to any role.';

comment on function ai.cost_this_month(ai.caller, boolean) is
  'Returns the cost of a caller''s runs in the current UTC month. Includes the runs of earlier keys of the same '
  'lineage, and open runs. A run counts in the month in which it began.';

comment on function ai.cost_visible(uuid) is 'Returns whether a workspace''s members can see provider cost. The default is true.';

comment on function ai.costs_replaced_by_file(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns how many records no longer count after the import of a file because its daily totals replace them, and '
  'their sum: { records, amountUsd }. Not granted to any role.';

comment on function ai.create_key is
  'Stores a new key and returns its id. The caller has generated the key''s text and shows it once, and passes only '
  'the lookup part and the SHA-256 hash. Not granted to any API role, because this function does not check whether the'
  ' caller may create a key.';

comment on function ai.create_run_partitions(integer) is
  'Creates the missing monthly partitions of ai.runs, up to months_ahead months from now. Protects each partition in '
  'the same way as ai.runs. Returns the number of partitions created.';

comment on function ai.credit_accounts_of(uuid, uuid) is
  'Returns the credit accounts that a member can see in a workspace: the workspace''s account and, in a free '
  'workspace, the member''s own account.';

comment on function ai.credit_level(ai.credit_accounts, numeric) is
  'Returns empty, low or funded. empty: the balance is used up, or a call was refused in the last hour and less than '
  'the threshold is available (1,000 if the threshold is 0). If more is available, the refused call was simply very '
  'large. low: the balance is below the threshold.';

comment on function ai.credit_recipients(uuid, uuid) is
  'Returns the email addresses that receive warnings about a balance. If the workspace pays, these are its owners and '
  'its members with manage_ai_policy; otherwise the member who pays.';

comment on function ai.current_window(text, uuid) is 'Returns the counts of a rate window, or nulls if there is none. The caller has locked the window.';

comment on function ai.delete_expired(integer) is
  'Deletes expired idempotency keys, rate windows older than an hour, and failed attempts older than seven days, up to'
  ' at_most of each. Returns the total number of deleted rows; 0 while another deletion is running.';

comment on function ai.delete_expired_content(integer) is
  'Deletes content past its retention under the current policy, content of workspaces that are closed or no longer '
  'capture content, and idempotency keys older than 24 hours. The limit applies separately to runs and to idempotency '
  'keys. Returns for how many runs it deleted content. Only one caller runs at a time; others return 0.';

comment on function ai.describe_connection(ai.agent_connections) is
  'Returns a connection''s details for its member: { id, tool, host, createdAt, state: connected | revoked, '
  'keyExpiresAt }.';

comment on function ai.describe_cost_file(uuid, uuid, jsonb) is
  'Returns what an import of a cost file would change: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay, '
  'days, accounts, added, unchanged, corrected, replaced, remaining, cleared, state } or { outcome: invalid, param, '
  'message }. days is the number of daily totals in the file. corrected.list has the first 100 corrected totals. '
  'remaining and cleared count imported days that are missing from the file. Not granted to any role.';

comment on function ai.describe_credential(jsonb) is
  'Returns a credential''s kind, limits, budgets, cost in this month and remaining amounts, or {refused: code}.';

comment on function ai.describe_run_content(uuid, uuid, uuid) is
  'Returns whether a run''s content is stored, but none of its text, for a member with manage_ai_policy. Returns { '
  'outcome: kept, deletedFrom } or { outcome: none | not_allowed }.';

comment on function ai.detail_older_usage_days(integer) is
  'Summarizes sealed days again if their sums lack details (members, labels, estimated and closed runs), newest first,'
  ' at most max_days. Returns the number of summarized days.';

comment on function ai.end_connection(uuid, uuid) is
  'Revokes a connection and its keys. If the actor is another person than the connection''s member, also withdraws the'
  ' member''s approval. Returns false if the connection was already revoked.';

comment on function ai.exceeds_caller_timeout() is
  'Returns whether a statement has waited so long in total that the gateway is about to time out. The gateway waits '
  'for 1.5 s.';

comment on function ai.extend_run(jsonb) is
  'Reserves the maximum cost of another provider call of an open run. Requires that the run''s key and its app''s '
  'registration are still valid and that rate limits, budgets and balance have room. Returns everything that is '
  'reserved for the run, or {refused: code, …}.';

comment on function ai.find_agent_login(bytea) is
  'Returns the member and the login to which an access token with the scope studio:keys belongs, or the reason for '
  'which private.find_app_caller refuses the token.';

comment on function ai.find_app_token(bytea) is
  'Finds a ttr_app_ token by its SHA-256. Returns its person and workspace, the scopes that both the token and the '
  'app''s registration currently have, and the gateway''s error code if the gateway refuses the token. Returns no row '
  'if the token is unknown, expired or revoked. For definers; not granted to any role.';

comment on function ai.find_caller(ai.run_request) is
  'Returns the caller of a request. If the caller may not make calls, refused has the reason. Returns nulls if the '
  'credential is unknown, revoked, expired or belongs to a deleted workspace. A key or token is given as the SHA-256 '
  'of its text, and a session as claims that the gateway has verified.';

comment on function ai.find_cost(uuid, uuid, text, text, text) is
  'Returns the cost with the given normalized provider name, account and external run id. If several rows differ only '
  'in the case of the provider''s name, returns the last observed. Sets no search_path, so Postgres can inline the '
  'function.';

comment on function ai.find_invoice(uuid, uuid, jsonb, text) is
  'Returns the invoice with the given reference and the record''s provider and account, or nulls. If there are '
  'several, returns the first recorded.';

comment on function ai.find_long_running_runs(timestamptz) is
  'Records in ai.long_running_runs the open runs that began between the last sweep and the cutoff. Reads each period '
  'again after all transactions from that period have ended. Stops after two seconds, and the next sweep continues '
  'from there.';

comment on function ai.find_offer(ai.run_request, ai.caller, ai.priced_call) is
  'Returns the requested model with its routes, prices, output limit and maximum cost, or a refusal. If the caller '
  'stated no output limit, the limit is the lower of the model''s limit (2,048 if unknown) and the room left in the '
  'context window. Calls of a batch for the same model and providers read the routes only once.';

comment on function ai.find_replacement(uuid, uuid, jsonb) is
  'Returns the stored invoice that replaces the same invoice as a record would, or nulls.';

comment on function ai.find_run(uuid) is 'Returns the run with this id, in any workspace. Returns a row of nulls if the run does not exist.';

comment on function ai.further_fees_usd(jsonb, bigint) is
  'Returns the additional fees of a call that may make several requests with a fee. ai.maximum_cost_usd already '
  'includes the first fee.';

comment on function ai.grant_credits(text, uuid, numeric, text, text) is
  'Adds credits to the balance of a workspace or member (payer as in ai.plans) and returns the balance. A negative '
  'amount withdraws credits, and raises an error if less is available. If a reference is given, a repeated call '
  'changes nothing, and a call with a different amount raises an error. Without a reference, every call changes the '
  'balance. Only operators can run it, because no API role is granted it.';

comment on function ai.has_too_many_keys(uuid) is
  'Returns whether a workspace has reached its limit of 200 live keys. For a coding agent, counts only the latest key '
  'of each connection.';

comment on function ai.has_usage_before(uuid, uuid, timestamptz) is
  'Returns whether an app has any run in a workspace before the given time.';

comment on function ai.heartbeat_runs(jsonb) is 'Records a heartbeat of each open run, with its token counts and its cost so far.';

comment on function ai.idempotent_refusal(ai.idempotency_keys, bytea) is
  'Returns the refusal of a call with an idempotency key that was already used, so the call never causes a second '
  'provider call or charge. The refusal includes the first call''s answer if it was stored.';

comment on function ai.import_cost_file(uuid, uuid, uuid, jsonb, text) is
  'Stores a cost file for a member and returns the result of ai.store_cost_file. Returns { outcome: not_allowed } if '
  'the member lacks the permission use_ai_studio, or { outcome: app_not_linked } if the app is not linked to the '
  'workspace.';

comment on function ai.import_provider_costs(jsonb) is
  'Stores the records of a call, each independently of the others. Returns { results }, which has a result of '
  'ai.store_provider_cost for each record in the order of the call, or { refused } if the credential does not allow '
  'imports.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.import_provider_invoice(jsonb)') is not null then
    comment on function ai.import_provider_invoice(jsonb) is
      'Stores the invoice of a call. Returns the result of ai.store_provider_invoice, or { refused } if the credential '
      'does not allow imports.';
  end if;
end
$guard$;

comment on function ai.invoice_amount(ai.invoice_book_entries, daterange) is
  'Returns the amount in USD that an invoice adds to totals, for all of its days or only for those within a range. The'
  ' amount of a credit note is negative.';

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'Compares an invoice with the metered and imported cost of its provider during its days (ai.invoice_days). The '
  'imported cost is the cost of the invoice''s account. The metered cost leaves out runs that name another account. '
  'Also returns the sum of the other invoices of the account in these days, and the difference between all these '
  'invoices and the imported cost. Replaced invoices do not count. Returns null if the days are more than 366. Not '
  'granted to any role.';

comment on function ai.invoice_differences(ai.invoice_book_entries, jsonb) is
  'Returns the fields in which a record differs from the stored invoice with the same key. Returns none for an '
  'identical retry.';

comment on function ai.invoice_matches(ai.invoice_book_entries, jsonb) is
  'Returns whether an invoice matches a filter. The filter may have provider, accountId and month (YYYY-MM). A null '
  'accountId selects invoices without an account. A month selects invoices with days in that month (ai.invoice_days).';

comment on function ai.invoice_of(jsonb) is 'Returns a record in the form in which it is stored, with defaults and a normalized provider name.';

comment on function ai.invoice_recorder(ai.invoice_book_entries) is
  'Returns who recorded an invoice, according to the workspace''s activity log or the console''s audit log: { by: '
  'person | app, name }. If the invoice was sent with a key, the app recorded it. An admin is named by email address. '
  'name is null once the person or app is deleted.';

comment on function ai.invoice_replacement(ai.invoice_book_entries) is
  'Returns null if an invoice counts in totals. Otherwise returns the reference of the invoice that counts in its '
  'place. This is the invoice that replaces it, or the same invoice recorded earlier under another spelling of the '
  'provider''s name.';

comment on function ai.invoice_review(uuid, uuid, jsonb) is
  'Compares an invoice with a book before a person stores it permanently. Returns { outcome: reviewed, reviewedAt, '
  'appName, kept, differs, comparison }, { outcome: not_issued_yet } or { outcome: cannot_replace, param, message }. '
  'kept is the stored invoice with the same key, if any. differs lists the fields in which kept is different, except '
  'for the time of the review. comparison is ai.invoice_comparison. Writes nothing. Not granted to any role.';

comment on function ai.invoice_share(ai.invoice_book_entries, text) is
  'Returns the amount of an invoice for its days in a month (YYYY-MM), and the first and last of these days: { '
  'inMonth: { amountUsd, firstDay, lastDay } }. The invoice''s days must overlap the month. The amount of a credit '
  'note is negative. Returns null if the month is null. Not granted to any role.';

comment on function ai.invoice_summary(ai.invoice_book_entries) is
  'Returns an invoice for readers of its book. In the platform''s book, appId is ai.platform_book() and appName is '
  'null.';

comment on function ai.is_estimated(ai.usage_source, boolean) is
  'Returns whether at least a part of a run''s usage was estimated. Returns false for runs that the sweep closed.';

comment on function ai.is_external_id(text) is
  'Returns whether a text is a valid external id of an account, service, run or reference: 1 to 256 characters, '
  'without control characters and without white space at either end.';

comment on function ai.is_key_use_due(ai.caller) is
  'Returns whether a key''s last_used_at is due for an update. It is updated at most once a minute.';

comment on function ai.is_label_enforced(text, uuid) is
  'Returns whether any live key has the label. A label''s budget can refuse only calls with such a key.';

comment on function ai.is_superseded_cost(ai.cost_book_entries) is
  'Returns whether the same cost was observed later under another spelling of the provider''s name.';

comment on function ai.is_tier_priced(jsonb, text) is 'Returns whether every route has a price for the requested service tier. Always true for auto and default.';

comment on function ai.issue_key(uuid, uuid, jsonb, text, text) is
  'Stores a new key. The caller has generated the key''s text and shows it once, and passes only the lookup part and '
  'the SHA-256 hash in hexadecimal. Outcomes: issued (with key), not_allowed, not_approved, app_not_linked, '
  'unknown_models (with param and models), too_many. too_many: the workspace has 200 live keys.';

comment on function ai.key_approval_state(uuid) is
  'Returns whether a workspace is approved, and its latest request. Returns { outcome: read, approved, request: { '
  'state: open | withdrawn | approved | declined, requestedAt, requestedBy, note, answeredAt, declineReason } }, where'
  ' request is null if there is none.';

comment on function ai.key_caller(bytea, inet) is
  'Returns the owner and limits of a key, given the SHA-256 of its text. Returns nulls if the key is unknown, revoked '
  'or expired, if its workspace is deleted, or if it belongs to a coding agent and the agent''s connection or login '
  'has ended. A key that is bound to an app has the gateway scopes of the app''s registration. Must be fast, because '
  'nearly every call runs it.';

comment on function ai.key_cost_since(uuid, uuid[], timestamptz) is
  'Returns the cost of each key lineage since the start of a UTC day. Reads daily sums if they are up to date, '
  'otherwise the runs. Returns no row for a lineage without runs.';

comment on function ai.key_issue_permission(uuid, uuid, boolean) is
  'Returns allowed, not_allowed or not_approved. not_allowed: the member lacks manage_ai_keys and, if the key is for '
  'an agent, has no approved request either. not_approved: no platform admin has approved the workspace.';

comment on function ai.key_summaries(uuid, ai.keys[]) is 'Returns the details of a workspace''s keys, newest first.';

comment on function ai.key_summary(ai.keys, numeric) is
  'Returns a key''s details without its secret, which is stored only as a hash. Amounts are exact text. Spend is for '
  'the current UTC month and includes the keys that this key replaced. For an agent''s key, the last use is the latest'
  ' use of any key of the agent.';

comment on function ai.label_id(text) is
  'Returns the id that represents a label in budgets: a UUID version 8 (RFC 9562, 5.8) made from the label''s SHA-256.'
  ' Callers choose labels, so they must not be able to find a collision. A label cannot contain a backslash, which the'
  ' cast to bytea would read as an escape.';

comment on function ai.label_usage_between(uuid, timestamptz, timestamptz) is
  'Returns a workspace''s usage by label in a half-open window, from the same sources as ai.usage_between.';

comment on function ai.latency_bucket(integer) is
  'Returns the histogram bucket of a duration. Bucket 0 is for durations below 1 ms. Bucket n, from 1 to 80, is for '
  'durations from 2^((n - 1) / 4) to 2^(n / 4) ms, which is 19% wide. Bucket 80 also includes longer durations, above '
  '17 minutes.';

comment on function ai.latency_mark(integer) is
  'Encodes a run''s duration as a number that has twelve digits for each bucket and a 1 in the run''s bucket. The sum '
  'of these numbers is a histogram. Adding numbers is the fastest aggregation in Postgres. Returns null if the run has'
  ' no duration.';

comment on function ai.latency_quantiles(numeric) is
  'Returns the durations in ms that 50% and 95% of runs did not exceed, computed from a sum of ai.latency_mark. Each '
  'result is in the same bucket as the exact value, so its error is at most the width of a bucket, 19%. Returns nulls '
  'if marks includes no run.';

comment on function ai.limit_refusal(text, ai.caller) is
  'Returns the refusal of a call by a rate limit, budget or balance, with all the rate limits of the caller and their '
  'current counts.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.linked_apps(uuid)') is not null then
    comment on function ai.linked_apps(uuid) is
      'Returns the enabled external apps that are linked to a workspace. The workspace may have costs and invoices for '
      'these apps. Not granted to any role.';
  end if;
end
$guard$;

comment on function ai.list_agent_access(uuid, uuid) is
  'Returns the members of a workspace who have an open or approved request to connect coding agents, open requests '
  'first. Requires manage_ai_keys. Returns { outcome: listed, members: [{ userId, name, state: open | approved, tool, '
  'host, requestedAt, answeredAt }] } or { outcome: not_allowed }.';

comment on function ai.list_keys(uuid, uuid, jsonb, integer) is
  'Returns a page of a workspace''s keys, newest first, for a member with manage_ai_keys. Returns { outcome: listed, '
  'approval, keys } or { outcome: not_allowed }. before is { createdAt, id } of the last key on the previous page. '
  'Keys are listed even if the workspace is not approved.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.list_linked_apps(uuid, uuid)') is not null then
    comment on function ai.list_linked_apps(uuid, uuid) is
      'Returns { outcome: listed, apps } with ai.linked_apps if the member has the permission use_ai_studio, otherwise { '
      'outcome: not_allowed }.';
  end if;
end
$guard$;

comment on function ai.list_models(jsonb) is
  'Returns the models that a credential may use now, in OpenAI''s format and in the order of ai.model_order, or '
  '{refused: code}. A model is left out if no provider can serve it or its calls have no price. If the call has model,'
  ' returns only that model. If the call has paths, [{ path, kind, providers }], returns the list as text and adds '
  'endpoints. endpoints has, for each model, the paths of the model''s kind that at least one of its providers serves.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean)') is not null then
    comment on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean) is
      'Returns ai.provider_costs_page if the member has the permission use_ai_studio, otherwise { outcome: not_allowed }. '
      'An export reads all pages and does not request totals.';
  end if;
end
$guard$;

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb)') is not null then
    comment on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb) is
      'Returns ai.provider_invoices_page if the member has the permission use_ai_studio, otherwise { outcome: not_allowed '
      '}. The filter is described at ai.invoice_matches.';
  end if;
end
$guard$;

comment on function ai.list_run_filters(uuid, uuid) is
  'Returns values by which a workspace''s runs can be filtered, at most 100 of each kind, for a member with '
  'use_ai_studio. Returns { outcome: listed, keys (newest first), apps, members, providers } or { outcome: not_allowed'
  ' }. providers is null if the workspace hides providers.';

comment on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) is
  'Returns a page of a workspace''s runs, newest first, for a member with use_ai_studio: { outcome: listed, runs, '
  'unknown, continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature, '
  'status, keyId, appId, memberId, provider, entityId, requestId. unknown names a filter with a value that does not '
  'exist. With scan_limit, a filter without an index examines at most that many runs. In this case continueBefore is '
  'the position to continue from, or null if no older run can match.';

comment on function ai.listed_price(jsonb) is
  'Converts a price from ai.price_tier to the form shown in the list of models. Amounts are numbers in full precision,'
  ' and each field name contains the unit.';

comment on function ai.live_usage_ranges(uuid, timestamptz, timestamptz, boolean) is
  'Returns the parts of a window that must be read from runs: days that are not sealed, days that changed after they '
  'were sealed, and days that are only partly in the window. If detailed, also returns days with sums that lack '
  'members and labels.';

comment on function ai.lock_outcomes(jsonb) is 'Locks the reported runs, then their rate windows, budgets and balances. Returns each report with its run.';

comment on function ai.lock_policy(uuid) is
  'Serializes changes to a workspace''s policy and budgets, so that each change is compared with, and logged with, the'
  ' state that it replaces. Gateway calls don''t wait for this lock.';

comment on function ai.lock_rows(ai.lock_list) is
  'Locks the rows that admissions, extensions and settlements change. All of them use this order: idempotency keys, '
  'keys, rate windows, budgets, balances. Rows of one kind are sorted, so budgets of apps are locked before budgets of'
  ' keys, labels, members and workspaces. Callers of this function first lock runs and open new accounts.';

comment on function ai.lock_runs(jsonb) is
  'Locks the reported runs in order of account and id, and returns each report with its run. Skips unknown runs.';

comment on function ai.low_credits(ai.plans) is
  'Returns the balance below which a plan''s payers are warned. The default is a tenth of the plan''s initial credits,'
  ' or 10,000 if the plan has no initial credits.';

comment on function ai.maximum_cost_usd is
  'Returns the highest cost that a provider call can have, over all routes and all price tiers that the input can '
  'reach. Assumes the whole output limit, no cached input, the higher of the input and cache-write prices, and one '
  'request fee.';

comment on function ai.maximum_use(ai.run_request) is
  'Returns the maximum number of tokens of a call: one for every three bytes of input (media excluded), 1,500 per '
  'image, 50 per second of audio (Gemini counts 32, OpenAI 10), and the output limit for each choice.';

comment on function ai.may_connect_agents(uuid, uuid) is
  'Returns whether a member''s coding agents may have keys for a workspace. Called when a key is created and on each '
  'request with the key.';

comment on function ai.may_email_admins(uuid, ai.key_approval_requests) is
  'Returns whether infrastructure admins receive an email about a new request. They receive none if the previous '
  'request was withdrawn and emailed in the last 24 hours, or after five emailed requests by the same member in 24 '
  'hours. The admins'' queue lists every request.';

comment on function ai.member_label(uuid, uuid) is
  'Returns the display name of a workspace''s member. Returns Former member if the person is no longer a member, or '
  'null if the id is null.';

comment on function ai.metered_costs(uuid, timestamptz, timestamptz) is
  'Returns the metered cost of a book''s runs, in parts that callers sum. A workspace''s book has the runs of the '
  'workspace, and the platform''s book has the runs of all workspaces. The platform''s window consists of whole days, '
  'and its cost counts in the first month of the window. Each part names the provider (ai.billing_provider) and, if '
  'the runs name one, the billing account.';

comment on function ai.model_order(ai.models) is
  'Returns the sort key for every list of models. Models are sorted by kind and then by name, with the default model '
  'of each kind first.';

comment on function ai.model_usage_by_day(uuid, timestamptz, timestamptz, integer, text[]) is
  'Returns the daily usage of the given models and, with model null, of all other models together. day is the number '
  'of days since the start of the range.';

comment on function ai.month_days(text) is 'Returns the days of a month (YYYY-MM), or null if the month is null.';

comment on function ai.new_run_id(text) is
  'Returns a UUID version 7 for a run that begins now. The gateway chooses the random part, so that it can find the '
  'run if the response from ai.begin_run is lost. The time in milliseconds has eleven hexadecimal digits until the '
  'year 2527.';

comment on function ai.open_credit_account(text, uuid, numeric) is
  'Returns a payer''s credit account. Opens the account with the plan''s initial credits if there is none. Concurrent '
  'callers get the same account.';

comment on function ai.open_missing_accounts(ai.priced_call[]) is
  'Opens a credit account, with the plan''s initial credits, for each payer without an account.';

comment on function ai.open_prices(text[]) is
  'Returns the current prices of all enabled routes to the given providers, each with its route. Omits routes without '
  'a default-tier price. Callers sort the prices of a route by sorts_as with nulls (the default tier) first, then by '
  'min_input_tokens.';

comment on function ai.operator_import_refusal(uuid, uuid) is
  'Returns null if the app may act in the workspace, or if workspace and app are both null. Otherwise returns { '
  'outcome: app_not_linked }. Not granted to any role.';

comment on function ai.payer_id(ai.caller) is
  'Returns the id of the workspace or member that pays credits for a caller. Returns null for calls of a registered '
  'app, which pay no credits. An app calls with its tokens or with keys that are bound to it.';

comment on function ai.paying_plan(text, uuid) is 'Returns the plan under which one workspace or member pays, if any.';

comment on function ai.paying_plans(uuid[], uuid[]) is
  'Returns the plan under which each workspace or member pays. Returns no row for a workspace or member that no plan '
  'charges. For a member who pays in several workspaces, returns the plan with the most initial credits.';

comment on function ai.plan_has_payers(ai.plans) is 'Returns whether a credit account pays for a plan. If so, the plan''s payer cannot change.';

comment on function ai.platform_book() is
  'Returns the nil UUID, which is the book_id and app_id of the platform''s records. Sets no search_path, so Postgres '
  'can inline the function.';

comment on function ai.platform_causes(ai.platform_part[]) is
  'Returns likely causes if a provider''s bill differs from the metered cost, the likeliest first: [{ kind, amountUsd,'
  ' … }]. Returns the 20 largest causes of each kind. amountUsd is the billed less the metered cost, or null if '
  'unknown. The kinds are workspace_costs_above_metered { workspaceId, name, days: [{ day, amountUsd }] }, '
  'account_not_metered { accountId }, days_not_metered and days_not_imported { accountId, days }, account_not_imported'
  ' and account_differs { accountId, workspaces (ai.account_workspaces) }, workspace_runs_closed and '
  'workspace_runs_estimated { workspaceId, name, runs }, and invoice_share (the invoiced cost that other causes do not'
  ' explain). If a run or record names no account, all accounts are compared as one and accountId is null.';

comment on function ai.platform_month_parts(date, date, text) is
  'Returns the parts that add up to a provider''s figures for a month, from all workspaces and from the platform''s '
  'book. Not granted to any role.';

comment on function ai.platform_usage(date, date, text) is
  'Returns the usage of all workspaces from one UTC day to another, inclusive, by provider and billing account. If '
  'of_provider is given (a result of ai.billing_provider), returns only that provider''s usage, also grouped by '
  'workspace and day. In this case, also includes all runs closed by the sweep, because they have no billing provider.'
  ' Without of_provider, workspace_id and day are null. Not granted to any role.';

comment on function ai.platform_workspaces(ai.platform_part[]) is
  'Returns a provider''s figures for a month by workspace and by the account that the runs name, the largest '
  'difference first: [{ workspaceId, name (null once deleted), accountId (null for runs that name no account), '
  'meteredUsd, runs, estimatedRuns, closedRuns, importedUsd, invoicedUsd, differenceUsd }]. importedUsd and '
  'invoicedUsd are from the workspace''s own book. differenceUsd is the imported less the metered cost, or null if the'
  ' workspace has no imports.';

comment on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) is
  'Returns ai.describe_cost_file. Returns { outcome: not_allowed } if the member lacks the permission use_ai_studio, '
  'or { outcome: app_not_linked } if the app is not linked to the workspace.';

comment on function ai.price_call(ai.run_request, ai.priced_call) is
  'Returns a call with its caller, label, model, maximum cost and paying account, or with the reason why it is '
  'refused. Locks nothing.';

comment on function ai.price_tier is 'Returns a price in the form in which runs store it: exact decimals as text, without null values.';

comment on function ai.priced_routes(text, text[]) is
  'Returns a model''s routes in order, with their current prices. Omits routes without a price and routes to providers'
  ' that are not listed. Null if no route is left.';

comment on function ai.principal_id(ai.caller) is 'Returns the id of the owner of a call''s idempotency keys: a key''s lineage, an app or a person.';

comment on function ai.protect_partition(regclass) is
  'Gives a partition of ai.runs the row-level security, policies and grants that partitions do not inherit.';

comment on function ai.provider_cost_records(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'Returns a page of imported costs of a half-open range, newest first, with their amounts before currency conversion '
  'and their files. replacedBy is the run id of the daily total that counts in place of a record. replaces is the '
  'number and amount of the records that a daily total replaces. The filter may have provider and accountId. A null '
  'accountId selects costs without an account.';

comment on function ai.provider_cost_totals(uuid, timestamptz, timestamptz, jsonb) is
  'Returns the total of the imported costs in a half-open range, and of the records that do not count because a daily '
  'total replaces them.';

comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Returns a book''s imported costs of a half-open range, each with whether it counts in totals. A run does not count '
  'if there is a daily record of its account for that day. That daily record may begin before the range, so adjacent '
  'ranges add up. A daily record of a service does not count if the account has a total for that day. Of rows that '
  'differ only in the case of the provider''s name, the last observed counts.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean)') is not null then
    comment on function ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean) is
      'Returns a page of ai.provider_cost_records with the totals of the whole range, unless the caller requests no '
      'totals. The default range is the last 30 days. Returns { outcome: listed, … } or { outcome: bad_window, fault }. '
      'Not granted to any role.';
  end if;
end
$guard$;

comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'Returns a page of a book''s invoices, latest issued first, and the total of the invoices that count. If the filter '
  'has a month, each invoice also has its share of that month (ai.invoice_share), and the total is the sum of these '
  'shares. Not granted to any role.';

comment on function ai.provider_name(text) is
  'Returns a provider''s name in the form in which names are stored and compared. Older rows still have the case in '
  'which the name was sent. Sets no search_path, so Postgres can inline the function and use the indexes on '
  'lower(provider).';

comment on function ai.queue_budget_alert_mails(jsonb, text, text) is
  'Queues one email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so '
  'that concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or '
  'the crossing no longer applies.';

comment on function ai.queue_credit_alert_mails(jsonb, text, text) is
  'Queues an email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so '
  'that concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or '
  'credits were added since the sweep.';

comment on function ai.rate_limit_headers(timestamptz, bigint[]) is
  'Returns the limits of a call as JSON text: {"minute", "counts"}. minute is the start of the rate window. counts has'
  ' the limit and the count of the key''s requests, the key''s tokens, the workspace''s requests and the workspace''s '
  'tokens, in this order. A limit is null if there is none.';

comment on function ai.read_budgets(uuid, uuid, text[], integer, text[]) is
  'Returns a page of a workspace''s budgets and their use in the current UTC month, for a member with use_ai_studio. '
  'Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes '
  'budgets of keys only with manage_ai_keys or manage_ai_policy. Sorts budgets by scope, labels by their text, and '
  'other subjects by when they were created. after is the position of the last budget on the previous page. Amounts '
  'are exact text, or null if the budget has no limit or provider cost is hidden. usedUp: everything is spent, or '
  'ai.budget_refuses_calls is true. enforced: the budget can refuse calls.';

comment on function ai.read_cost_import(uuid, uuid, uuid) is
  'Returns ai.cost_import_receipt if the member has the permission use_ai_studio, otherwise { outcome: not_allowed }.';

comment on function ai.read_credit_notice(uuid, uuid) is
  'Returns { level, available } if the balance that pays for a member''s calls in a workspace is low or empty. Returns'
  ' null otherwise, or if the member lacks use_ai_studio.';

comment on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer, boolean) is
  'Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and the credits used '
  'in the window. The default window is the last 30 days. Used credits are credits billed for runs and credits '
  'deducted without a run. With with_totals = false, returns only the page, for an export that reads page by page.';

comment on function ai.read_invoice(uuid, uuid) is
  'Returns one invoice of a book with ai.invoice_recorder and ai.invoice_comparison: { outcome: read, invoice, '
  'recorded, comparison } or { outcome: not_found }. Not granted to any role.';

comment on function ai.read_key(uuid, uuid, uuid) is
  'Returns one key of a workspace in the format of ai.list_keys, for a member with manage_ai_keys. approved: the '
  'workspace may rotate the key. Returns { outcome: read, approved, key } or { outcome: not_allowed | not_found }.';

comment on function ai.read_key_approval(uuid, uuid) is
  'Returns ai.key_approval_state (whether the workspace is approved, and its latest request) for a member with '
  'manage_ai_keys, or { outcome: not_allowed }.';

comment on function ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer) is
  'Returns a workspace''s usage in a range, for a member with use_ai_studio: totals, the totals of the previous range,'
  ' and rows by day, model, feature, key, app, member or label. Rows are sorted by amount, the largest first; days are'
  ' sorted newest first. The key of a row depends on the dimension. For days, it is the number of days since the start'
  ' of the range. For keys, it is the lineage. For labels, it is empty for runs without a label and * for the '
  'remaining labels. If rows are by model, series contains the daily usage of the six largest models and, with model '
  'null, of all other models together. deductions contains the credits deducted without a run, by day.';

comment on function ai.read_policy_options(uuid, uuid) is
  'Returns the choices for a workspace''s policy and keys, for a member with use_ai_studio or manage_ai_keys: the '
  'catalogue''s models and the plan''s rate limits. granted: the plan or the workspace''s own grant allows the model. '
  'permitted: the workspace''s policy allows the model.';

comment on function ai.read_provider_invoice(uuid, uuid, uuid) is
  'Returns ai.read_invoice if the member has the permission use_ai_studio, otherwise { outcome: not_allowed }.';

comment on function ai.read_run(uuid, uuid, uuid) is
  'Returns a run for a member with use_ai_studio: { outcome: read } merged with the fields of ai.run_detail, or { '
  'outcome: not_found | not_allowed }.';

comment on function ai.read_run_content(uuid, uuid, uuid) is
  'Returns a run''s content to a member with manage_ai_policy, and logs in the workspace that the member read it. '
  'Returns { outcome: opened, deletedFrom, prompt, tools, answer } or { outcome: none | not_allowed }.';

comment on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) is
  'Returns a workspace''s usage for a member with use_ai_studio: a page of rows, the totals of the whole window, and '
  'the credits deducted without a run. Rows are grouped by any of day, model, feature, executionMode, provider, key '
  '(its lineage), app and member. Alternatively they are grouped by label, or by label and day. provider is null if '
  'the workspace hides provider cost. The default window is the last 30 days. after is the position of the last row on'
  ' the previous page.';

comment on function ai.rebuild_changed_usage_days(integer) is
  'Summarizes days again if their runs changed after they were sealed, at most max_days. Returns the number of '
  'summarized days.';

comment on function ai.rebuild_usage_day(date, uuid[]) is 'Replaces the sums of a day for the given workspaces.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer)') is not null then
    comment on function ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer) is
      'Returns ai.reconciliation_page if the member has the permission use_ai_studio, otherwise { outcome: not_allowed }.';
  end if;
end
$guard$;

comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Returns the metered, imported and invoiced cost of a book by month, provider and account. Sums the rows of '
  'ai.metered_costs and ai.booked_costs.';

comment on function ai.reconciled_window(timestamptz, timestamptz) is
  'Returns ai.usage_window for a comparison of costs. By default, the window starts with the first day of a month, '
  'eleven months before the month in which the window ends.';

comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'Returns a page of months and providers, the latest month first, in the window of ai.reconciled_window. Each row has'
  ' the provider''s accounts and two differences: imported less metered, and invoiced less imported. meteredUsd is '
  'null if the workspace hides provider cost. For an account it is also null if a run of the month and provider has a '
  'cost and names no account. If the workspace hides provider cost, only providers with imports or invoices are '
  'listed. clashes is ai.book_clashes.';

comment on function ai.record_budget_alerts() is
  'Records each budget''s highest threshold that was crossed since the last sweep. Reads ai.budgets without a lock. A '
  'threshold is recorded once a month, and again only if a raised limit puts the spend below that threshold in '
  'between.';

comment on function ai.record_credit_alerts() is
  'Records the level (low or empty) that each balance has reached. Reads ai.credit_accounts without a lock. Records '
  'the same level again only after credits were added, or after the plan''s threshold fell below the balance.';

comment on function ai.record_invoice_activity(uuid, uuid, uuid, jsonb) is
  'Logs an invoice for the workspace''s owners. A person reviewed the amount, even if an app sent the invoice.';

comment on function ai.record_key_use(ai.caller) is
  'Updates a key''s last_used_at, at most once a minute, for requests that do not open a run.';

comment on function ai.record_long_running_runs(timestamptz, timestamptz) is
  'Records the open runs that began between two times, but covers at most one minute after the first run. Returns the '
  'time up to which it has read.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.record_provider_invoice(uuid, uuid, uuid, jsonb)') is not null then
    comment on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb) is
      'Stores an invoice that a member enters for an app. Returns the result of ai.store_provider_invoice or { refused: '
      'not_allowed (the member lacks the permission use_ai_studio) | app_not_linked (to the workspace) }.';
  end if;
end
$guard$;

comment on function ai.record_usage_change() is
  'Marks a finished day as changed if one of its runs changes. Today''s runs need no mark, because they are not '
  'summarized yet. Most calls therefore write no mark.';

comment on function ai.refusal(text, jsonb) is 'Returns a refusal with a code from the gateway''s closed list of errors.';

comment on function ai.refused_replacement(uuid, uuid, jsonb) is
  'Returns why a record cannot replace the invoice that it names in replaces: { param, message }. Returns null if it '
  'can. Not granted to any role.';

comment on function ai.reject_cost_import_change() is 'Rejects changes, because ai.cost_imports is append-only.';

comment on function ai.reject_credit_account_change() is
  'Rejects an account that does not have exactly one owner, and the deletion of an account with ledger entries.';

comment on function ai.reject_incomplete_ledger_entry() is 'Rejects a ledger entry with only one of the two columns of a run''s key, and a usage or adjustment entry without a '
  'run.';

comment on function ai.reject_incomplete_settlement() is
  'Rejects a change that ends a run without a settlement. The run''s reservation would never be released.';

comment on function ai.reject_invoice_change() is 'Rejects every change of a stored invoice. A record with different content is a conflict and never a correction.';

comment on function ai.reject_ledger_change() is 'Rejects changes of ledger entries. To correct a wrong entry, add another entry.';

comment on function ai.reject_price_change() is 'Rejects every change to a price, except a change to the end of its validity while that end is not in the past. Runs '
  'may have been charged this price.';

comment on function ai.release_orphaned_runs(jsonb) is
  'Releases runs if the response to their admission was lost. The callers got 503 and no provider was called, so the '
  'runs end at no cost and their idempotency keys are free again. Takes {"tails": [text], "asked_ms_ago": integer}. '
  'tails are suffixes of run ids, and asked_ms_ago is the age of the oldest request. Returns the tails for which '
  'admission is still in progress.';

comment on function ai.remaining_budgets(ai.caller, boolean) is
  'Returns the monthly budgets that can refuse a caller''s calls, narrowest first. Leaves out the amounts if the '
  'workspace hides provider cost.';

comment on function ai.remaining_rate(text, uuid, integer, bigint) is
  'Returns what ai.consume_rate_limit would still admit in the current rate window, or null if neither requests nor '
  'tokens are limited.';

comment on function ai.replaced_already(jsonb, ai.invoice_book_entries) is
  'Returns the error for a record that would replace an already replaced invoice: { param, message }. Not granted to '
  'any role.';

comment on function ai.report_usage(jsonb) is
  'Returns the usage report of the calling app for a window of at most 365 days, or { refused }. Amounts are exact '
  'decimals. notes_use: the request counts as a use of the key.';

comment on function ai.request_agent_access(uuid, uuid, text, text, jsonb) is
  'Opens a member''s request to connect coding agents, unless a request is already open or approved. Queues one email '
  '{ subject, text } for each of up to 20 members with manage_ai_keys, but at most once in 24 hours for the same '
  'requester.';

comment on function ai.request_key_approval(uuid, uuid, text, jsonb) is
  'Requests approval for a workspace on behalf of a member with manage_ai_keys. Queues one email { subject, text } for'
  ' each infrastructure admin. Changes nothing if a request is open or the workspace is approved. Returns '
  'ai.key_approval_state or { outcome: not_allowed }.';

comment on function ai.reserve_budget(text, uuid, uuid, numeric, boolean) is
  'Reserves an amount in a monthly budget and returns true. Returns false if the budget is enforced and the amount '
  'would exceed the limit or the limit is 0. Also writes the time of the refusal to the budget, for the first refusal '
  'of a month and then at most once a minute.';

comment on function ai.reserve_limits(ai.caller, text, bigint, integer, numeric, uuid, numeric) is
  'Reserves a provider call in the budgets, the workspace''s rate window and the balance. If one of them has no room, '
  'returns the reason in refused and reserves nothing. The caller has locked the rows.';

comment on function ai.reserved_tokens(ai.run_request, ai.token_use, bigint) is
  'Returns the tokens that a call counts in rate windows until it is settled. This is the sum of its input and its '
  'output limit. If the caller stated no output limit, up to 500 output tokens per choice count, but only as many as '
  'fit in the token limit.';

comment on function ai.reset_budget_alert(text, uuid, uuid) is
  'Rearms the thresholds above the current spend after a budget is raised, so that crossing them again sends a new '
  'warning. The sweep also detects a raise, but not if the thresholds are crossed again before the sweep runs.';

comment on function ai.reset_credit_alert(ai.credit_accounts) is
  'Rearms the warnings for levels that no longer apply after a top-up.';

comment on function ai.retained_content(uuid, uuid) is
  'Returns a run''s content and the time of its deletion, but only if the workspace''s current policy still keeps the '
  'content. The result does not depend on when the sweep last ran. Not granted to any role.';

comment on function ai.return_tokens(text, uuid, ai.rate_window_use, bigint) is
  'Removes a call''s tokens from a rate window if another limit then refuses the call. The request stays counted.';

comment on function ai.review_provider_invoice(uuid, uuid, uuid, jsonb) is
  'Returns ai.invoice_review. Returns { outcome: not_allowed } if the member lacks the permission use_ai_studio, or { '
  'outcome: app_not_linked } if the app is not linked to the workspace.';

comment on function ai.revoke_key(uuid, uuid, uuid) is
  'Revokes a key. For a coding agent''s key, revokes the agent''s connection. Idempotent. Requires manage_ai_keys, but'
  ' the workspace need not be approved. Outcomes: revoked, not_allowed, not_found.';

comment on function ai.revoke_keys_of_connection() is
  'Revokes the keys of a connection that is deleted together with its member''s account, and removes the name of the '
  'computer from these keys.';

comment on function ai.roll_up_usage(integer) is
  'Updates ai.usage_daily and ai.usage_labels_daily. Summarizes at most max_days each of new days, changed days and '
  'days without details. Only one caller runs at a time; others return 0. Returns the number of days that were '
  'summarized.';

comment on function ai.rotate_key(uuid, uuid, uuid, integer, text, text) is
  'Replaces a key with a new one. The new key keeps all limits and bindings. It also keeps the amount spent, which is '
  'counted for the whole lineage. The old key works until the overlap ends. Outcomes: issued (with key), not_allowed, '
  'not_approved, not_found, not_active, agent_key. agent_key: only the coding agent can renew this key.';

comment on function ai.route_provider(jsonb, smallint) is
  'Returns the provider of the route with the given position. Returns the first route''s provider if no route has this'
  ' position. The list may be in any order.';

comment on function ai.run_detail(ai.runs, boolean) is
  'Returns the details of a run: { run, steps, attempts, ledger, answeredBy }. run is the summary. attempts are the '
  'requests to providers. ledger contains the ledger entries, with charged credits as positive amounts. answeredBy is '
  'the route that answered, with its prices at that time. attempts and answeredBy are null if provider cost is hidden.';

comment on function ai.run_id(timestamptz) is 'Returns a UUID version 7 (RFC 9562 section 5.7) for the given time, in milliseconds.';

comment on function ai.run_pricing_facts(ai.runs, boolean) is
  'Returns { priced }, the facts from which the web server explains a run''s cost: whether credits were due and, if '
  'provider cost is visible, the markup, the prices of the charged routes, and the requests to providers.';

comment on function ai.run_provider(jsonb, smallint) is 'Returns the provider of the route for which a run is charged.';

comment on function ai.run_summary(ai.runs, boolean) is
  'Returns a run''s summary for its workspace''s members. servedTier, provider and costUsd are null if the policy '
  'hides provider cost.';

comment on function ai.runs_may_exist_before(uuid, jsonb, timestamptz) is
  'Checks in the daily sums whether a workspace may have older runs that match the filter of ai.list_runs. Returns the'
  ' time before which such runs may exist, at most the given time, or null if the workspace has none.';

comment on function ai.seal_completed_usage_days(integer) is
  'Summarizes finished days that are not sealed yet, in order, at most max_days. Returns the number of summarized '
  'days.';

comment on function ai.session_caller(jsonb, uuid) is
  'Returns the person of a session and, if the gateway refuses the person''s calls, the reason. Takes the session''s '
  'verified claims. Returns nulls once the session has ended or the account is suspended or deleted. Not granted to '
  'any role, because it trusts the claims.';

comment on function ai.set_budget(text, uuid, uuid, numeric, text) is
  'Sets the monthly budget of a workspace, or of one of its apps, key lineages, members or labels; null removes the '
  'budget. A new budget starts with the cost of this month''s settled runs. Runs that are in progress when the budget '
  'is created are not counted in it. Callers must hold ai.lock_policy.';

comment on function ai.settle_batch(ai.run_report[], timestamptz) is
  'Closes and charges runs that the caller has locked. Returns the runs that changed.';

comment on function ai.settle_budgets(ai.closed_run[]) is
  'Adds the cost of closed runs to their budgets and releases their reservations. The caller must have locked the '
  'budgets.';

comment on function ai.settle_credits(ai.closed_run[]) is
  'Charges closed runs to their accounts, releases their reservations and writes one ledger entry per charged run. The'
  ' caller must have locked the accounts.';

comment on function ai.settle_outcomes(jsonb, timestamptz) is
  'Settles a batch of runs and returns the runs that changed. If the batch cannot be settled, settles each run '
  'separately, so that one bad run does not block the others. A bad run stays open and is logged. Lock timeouts are '
  'raised, so that the caller sends the batch again.';

comment on function ai.settle_rate_windows(ai.closed_run[], bigint[]) is
  'Adjusts the token counts of rate windows after runs are closed. token_changes has one number for each run, in the '
  'same order, or null if the run''s windows are past. The caller has locked the windows. A window that began after '
  'the run''s tokens were reserved is not changed.';

comment on function ai.settle_runs(jsonb) is
  'Settles a batch of runs at their actual cost. Reporting a run again has no effect, unless the sweep had closed the '
  'run at an estimate. In that case, one ledger entry corrects the charge to the actual cost.';

comment on function ai.store_cost_file(uuid, uuid, jsonb, text, uuid) is
  'Stores all days of a cost file or none. Returns { outcome: imported, importId, added, corrected, cleared, unchanged'
  ' }, { outcome: changed } or { outcome: invalid, param, message }. importId is null if no day changes. The outcome '
  'is changed if the given state (ai.cost_file_state) is no longer current, or if a concurrent import wrote one of the'
  ' same days. Not granted to any role.';

comment on function ai.store_key(uuid, uuid, jsonb, text, text, uuid, uuid) is
  'Stores a new key, which ai.key_issue_permission must have allowed. Logs the key unless it continues a lineage. '
  'connection_id is the coding agent''s connection if the key belongs to an agent.';

comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Stores one reported cost. Returns { outcome: stored | corrected | unchanged | stale } or { refused }. A record with'
  ' a newer observation time corrects the stored record. A record with the same observation time and different content'
  ' is refused as a conflict. A row in which only the case of the provider''s name differs is the same record. The '
  'caller derives workspace and app from the credential and has validated the record. Not granted to any role.';

comment on function ai.store_provider_invoice(uuid, uuid, jsonb) is
  'Stores a reviewed invoice in a book. Returns { outcome: stored | unchanged, id } or { refused }. If the stored '
  'invoice with the same key has different content, returns { refused: invoice_conflict, id, differs }: the id of the '
  'stored invoice and the fields that differ. The caller has derived the book and the app and validated the record. '
  'Not granted to any role.';

comment on function ai.store_run_content(jsonb) is
  'Stores a run''s content {created_at, id, prompt?, tools?, answer?} if the workspace''s policy captures content. '
  'Keeps parts that are already stored and adds missing ones.';

comment on function ai.sum_labels(uuid, timestamptz, timestamptz) is
  'Returns sums of a workspace''s runs in a half-open range by day and label (X-Platform-Entity-Id), in the format of '
  'ai.usage_labels_daily. For each day, returns the 10,000 most expensive labels and one sum for all others.';

comment on function ai.sum_usage(uuid, timestamptz, timestamptz) is
  'Returns sums of a workspace''s runs in a half-open range, in the format of ai.usage_daily. Includes runs in '
  'progress.';

comment on function ai.sweep_budget_alerts(integer) is
  'Records which thresholds budgets have crossed. Returns the crossings that are not emailed yet, oldest first. Only '
  'one sweep runs at a time; a concurrent sweep returns an empty list. refusing: the budget refuses calls although it '
  'is not fully spent. spentUsd, reservedUsd and leftUsd are null if the workspace hides provider cost.';

comment on function ai.sweep_credit_alerts(integer) is
  'Records balances that became low or empty. Returns those for which no emails are queued yet, oldest first. Only one'
  ' sweep runs at a time; a concurrent sweep returns an empty list.';

comment on function ai.sweep_runs() is
  'Closes runs without a heartbeat for 45 seconds, because their function must have died. Charges the cost so far, up '
  'to the reserved amount, or 0 if no usage was reported. Also creates the next partitions. Returns the number of '
  'closed runs; 0 while another sweep is running.';

comment on function ai.text_list(jsonb) is 'Returns the elements of a JSON array as texts, or null if the value is not an array.';

comment on function ai.token_limit_refusal(ai.caller, ai.token_use, bigint) is
  'Returns the refusal of a call that counts more tokens than a key or workspace may use in a whole minute. No later '
  'minute would have room for the call.';

comment on function ai.unknown_models(text[]) is
  'Returns the names that match no model id in the catalogue; null if every name matches. Disabled models count as '
  'matches. Ids are compared exactly, the same as for calls. Use it to check a list of models before saving the list.';

comment on function ai.unknown_run_filter(uuid, jsonb) is
  'Returns the name of the first filter of ai.list_runs with a value that does not exist, or null if all values exist.'
  ' Treats every provider as unknown if the workspace hides providers. Treats former members and apps of the workspace'
  ' as known, because they can have runs.';

comment on function ai.unlinked_deductions(uuid, uuid, timestamptz, timestamptz) is 'Returns the sum of ai.unlinked_deductions_by_day over the window.';

comment on function ai.unlinked_deductions_by_day(uuid, uuid, timestamptz, timestamptz) is
  'Returns the credits that were deducted without a run, by UTC day, as positive numbers. Credits that were billed for'
  ' a run are stored in that run instead.';

comment on function ai.usable_models(uuid, text, text[], text[], text[]) is
  'Returns the models that are enabled in the catalogue and in the Studio defaults, allowed by the workspace''s policy'
  ' and by the key, and granted to the plan or to the workspace.';

comment on function ai.usage_between(uuid, timestamptz, timestamptz, boolean) is
  'Returns a workspace''s usage in a half-open window, in rows that callers group. Reads daily sums for sealed, '
  'unchanged days that are completely in the window, and runs for the rest. A single statement counts each run exactly'
  ' once. by_member: callers group by actor_id, so days without actor_id in their sums are read from runs.';

comment on function ai.usage_by_key(uuid, timestamptz, timestamptz, text, integer, boolean) is
  'Returns a range''s sums and latency quantiles, grouped by ai.usage_key or by label. The row with a null key covers '
  'the whole range. Amounts in sums are exact text. Rows of labels have no quantiles.';

comment on function ai.usage_key(ai.usage_daily, text, date, integer) is
  'Returns the key of the row in which a daily sum is counted. For days, the key is the number of days since the start'
  ' of the range, so that two ranges can be compared. Several days share a key if days_each is more than 1.';

comment on function ai.usage_sums(numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric) is
  'Formats sums of usage for display. amountUsd is null if the workspace hides provider cost.';

comment on function ai.usage_window(timestamptz, timestamptz, integer, integer) is
  'Returns the requested half-open window. It ends now if no end is given. fault describes why the window is invalid, '
  'or is null.';

comment on function ai.usd_to_credits(numeric, numeric) is 'Converts USD to credits, for reservations and estimates.';

comment on function ai.user_caller(ai.credential, text) is
  'Returns the person and limits that belong to an app''s token or to the claims of a session. Returns nulls if the '
  'token or claims are not valid.';

comment on function ai.user_cost_since(ai.caller, timestamptz) is
  'Returns a person''s cost in a workspace, either of direct calls or of calls through one app. Reads the runs, '
  'because daily sums have no user.';

comment on function ai.utc_text_microseconds(timestamptz) is
  'Formats a time like ai.utc_text, but with microseconds if they are not zero.';

comment on function ai.withdraw_key_approval_request(uuid, uuid, timestamptz) is
  'Withdraws the open request that was made at requested_at. Changes nothing if that request was answered or replaced.'
  ' Returns ai.key_approval_state or { outcome: not_allowed }.';

comment on function ai.workspace_policy_summary(uuid) is
  'Returns a workspace''s policy as its members see it, or the defaults if the workspace has not set a policy.';

comment on function ai.workspaces_used_on(date) is 'Returns the workspaces that have runs on a UTC day.';

comment on function ai.workspaces_with_books() is 'Returns the workspaces that have imported costs or invoices in their own books.';

comment on function ai.write_cost_file_day(uuid, uuid, uuid, ai.cost_file_day) is
  'Writes one day of a cost file. Raises serialization_failure if the day''s stored record changed after the '
  'comparison. Not granted to any role.';

comment on function private.access_state(uuid, uuid) is
  'Returns { confirmedAt, unconfirmed: [id] }. confirmedAt is when the owner last confirmed the list of '
  'private.account_access, which returns the same time. unconfirmed contains the ids of the unconfirmed additions.';

comment on function private.account_access(uuid, uuid, integer) is
  'Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent, '
  'provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }], otherSessions: { key, count, '
  'isNew } }. Returns null if the account doesn''t exist. ways contains the most_sessions sessions that were refreshed'
  ' last, including the calling session. otherSessions counts the remaining sessions, up to 1,001. kind is password, '
  'identity, passkey, authenticator, session or app. isNew is true if the entry was added after the owner last '
  'confirmed the list or, without a confirmation, after the account was created. In a session that began with a '
  'password reset or recovery, only confirmations by such sessions count. device and address are null if no event '
  'records where the entry was added.';

comment on function private.account_authenticators(uuid) is
  'Returns the authenticator apps of an account, most recently used first: [{ id, name, verified, createdAt, '
  'lastUsedAt }]. Includes apps with unfinished enrollment. Contains no secrets.';

comment on function private.account_of_link(text, text) is
  'Returns the account that a mailed link signs in to; no row if the link was used. For definers; not granted to any '
  'role.';

comment on function private.account_overview(uuid) is
  'Returns an account for the console: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt, '
  'bannedUntil, infrastructureAdmin, methods, factors, sessions, sessionCount }; null if the account doesn''t exist. '
  'methods comes from private.list_sign_in_methods. sessions contains the 50 sessions that were refreshed last, and '
  'sessionCount counts up to 1,001. Contains no secret.';

comment on function private.account_required_mfa_satisfied() is
  'Returns whether the caller''s session satisfies required MFA. Every account_required_mfa policy calls this '
  'function. Callers cannot call it directly, because they have no usage on schema private.';

comment on function private.account_sessions(uuid, uuid, jsonb, integer) is
  'Returns a page of an account''s current sessions. The session first_session_id comes first, then the most recently '
  'refreshed. before is { createdAt, id }: the refreshed_at and the id of the last session on the previous page. '
  'Without page_size, returns all sessions.';

comment on function private.account_timeline(uuid, jsonb, integer) is
  'Returns a page of what an account''s owner did and what admins did to the account, newest first: [{ id, source: '
  'event | audit, kind, method, device, ip, reason, actorEmail, requestId, createdAt }]. before is { createdAt, id } '
  'of the last entry on the previous page.';

comment on function private.acting_user_id() is
  'Returns the user who makes the changes in this transaction: the token''s user or, if a function derived the user '
  'from another credential, the user in the setting gatehouse.actor_id.';

comment on function private.activate_account(jsonb) is
  'Completes a switch in one transaction: stores the account''s rotated session with store_account_session and makes '
  'the account active. Takes { leaseId, secret, nextHash (hex) } and the fields of the entry. Returns { status: '
  'activated, rotated }, { status: changed, current } if another rotation came first, or { status: lost } if the '
  'switch no longer holds the lease. rotated is true if the secret after the presented one is now valid.';

comment on function private.active_login_override(text) is 'Returns the override that currently allows an email to sign in; null if there is none.';

comment on function private.active_recovery_override(text) is 'Returns the current override of an email; no row if there is none.';

comment on function private.add_account(jsonb) is
  'Stores a sign-in for 15 minutes, until the browser presents its secret. Takes { deviceId, secret, secretHash (hex),'
  ' userId, sessionId, sealed, keyId, tag }. Returns { status: kept | unknown (the device is unknown) | full }. '
  'Idempotent.';

comment on function private.add_account_event(uuid, text, uuid, uuid, jsonb) is
  'Adds an event to an account''s activity, queues the email about the event, and returns the event''s id. Returns '
  'null if the account doesn''t exist. For definers that change an account in the same transaction.';

comment on function private.add_app(jsonb) is
  'Registers an app with its first secret. The change is { actor, name, displayName, kind, origins, scopes, logoutUrl,'
  ' secretHash (the text of a bytea), reason, requestId, ip }. Returns {} or { refused: forbidden | taken (the name or'
  ' an origin) | invalid }.';

comment on function private.add_email_identity(auth.users) is
  'Gives a user the same email identity that Auth creates at a sign-up by email.';

comment on function private.add_model_price(jsonb) is
  'Adds a price, which begins immediately unless from has a later time. The new price ends the previous price, and '
  'ends when the next price begins. The change is { actor, model, providerId, serviceTier, minInputTokens, latest (id '
  'of the newest price that the admin saw, or null), seen (number of prices that the admin saw), from, inputUsd, '
  'cachedInputUsd, cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd, '
  'requestFeeUsd, reason, requestId, ip }. Returns { from, until } or { refused: forbidden | not_found | no_route | '
  'past | taken | conflict (with last) }.';

comment on function private.add_next_signing_key(text, jsonb, text, text) is
  'Publishes the next key, which begins to sign tomorrow. The previous key retires 31 days after that, so that the ID '
  'token of a live login can always be verified at sign-out. Returns false if no key is due.';

comment on function private.add_openid_client(jsonb) is
  'Registers an OpenID client. Takes { actor, name, displayName, isPublic, scopes, redirectUris, '
  'postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, secretHash, reason, requestId, ip }. secretHash is the text '
  'of a bytea, or null for a public client. Returns {} or { refused: forbidden | taken | invalid }.';

comment on function private.add_openid_tokens(private.openid_grants, text[], bytea, bytea) is
  'Issues the next tokens of a login and returns their description from private.describe_openid_tokens. For definers; '
  'not granted to any role.';

comment on function private.add_proposed_prices(jsonb) is
  'Adds all of the given prices with private.add_model_price, or none of them. The change is { actor, from, prices: [{'
  ' model, providerId, serviceTier, minInputTokens, latest, inputUsd, … }], reason, requestId, ip }. Returns {} or { '
  'refused, model }. refused is too_many (there must be 1 to 500 prices), scheduled (a later price already exists for '
  'the same model, provider, service tier and input size) or a refusal of private.add_model_price.';

comment on function private.addition_event(uuid, uuid, text) is
  'Returns the id of the event that recorded the addition of an identity, passkey or authenticator; null if there is '
  'none. For definers; not granted to any role.';

comment on function private.address_network(inet) is
  'Returns the network that counts as one visitor: a single IPv4 address, or the /64 network of an IPv6 address. A '
  'household or server is usually assigned a /64.';

comment on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) is
  'Lets the same browser use a credential again, in case the response is lost (private.is_recovery_open_to). Call it '
  'after a recovery has created its session. Until this call, concurrent callers are refused.';

comment on function private.allows_device_grant(uuid) is
  'Returns whether an app is an enabled OpenID client that is currently registered for the device grant. For definers;'
  ' not granted to any role.';

comment on function private.announce_addition(uuid, text) is
  'Announces for one minute that an authenticator or passkey will be added to an account. target is the '
  'authenticator''s id, or the passkey''s credential id in hexadecimal. Call this after step-up, before the backend '
  'makes the addition.';

comment on function private.answer_approval_request(jsonb, uuid) is
  'Closes a workspace''s open request and queues an email to the workspace''s owners and to the requester. Does '
  'nothing if the workspace has no open request.';

comment on function private.app_session_summary(private.app_sessions) is 'Returns the facts about a session that the web server signs into the session''s token.';

comment on function private.app_version(text) is 'Returns the version of an app, which is the id of its last entry in the audit log.';

comment on function private.app_was_ever_connected(uuid, text) is
  'Returns whether an app holds or ever held a person''s credentials. If private.connected_apps does not list the app,'
  ' all of these credentials have ended.';

comment on function private.approval_refusal(jsonb, public.workspaces) is
  'Returns why an admin must not approve or decline a workspace''s keys. Returns null if the admin may.';

comment on function private.apps_ever_connected(uuid) is
  'Returns the apps that hold or held a person''s credentials. Ended credentials count until they are deleted. For '
  'definers; not granted to any role.';

comment on function private.attempt_buckets(text, text, cidr) is
  'Returns the buckets from which an attempt takes. Omits the buckets per account or per address if the attempt has no'
  ' account or no address.';

comment on function private.attempt_digest(text, text) is 'Returns the keyed digest of a subject, such as an account or an address, by which attempts are counted.';

comment on function private.attempt_limits() is 'Returns the limits on attempts: how many attempts are allowed per window, and what happens when none is left.';

comment on function private.attempt_pair(text, cidr) is
  'Returns the digest by which attempts on one account from one address are counted. The account is `email:` followed '
  'by the email in lower case, or `user:` followed by the id.';

comment on function private.attempt_refusal(text, interval) is 'Returns begin_attempt''s answer for a refused attempt: { allowed: false, reason, retryAfterSeconds }.';

comment on function private.authenticate_app(text, bytea) is
  'Returns the enabled app with this name and a secret with this SHA-256. Returns no row if the name is unknown, the '
  'secret is wrong or expired, or the app is disabled; the caller can''t distinguish these cases. Excludes OpenID '
  'clients. For definers; not granted to any role.';

comment on function private.authenticate_openid_client(text, bytea) is
  'Returns the enabled OpenID client for a client id and the SHA-256 of its secret. A public client has no secret. '
  'Returns no row if the client is unknown or disabled, or if the secret is wrong or expired. For definers; not '
  'granted to any role.';

comment on function private.began_by_mail(uuid, uuid) is
  'Returns whether a session began with a password reset or recovery, which proves access to the account''s mailbox. '
  'For definers; not granted to any role.';

comment on function private.begin_account_switch(uuid, text, uuid, uuid) is
  'Begins a switch to another account and takes the device''s lease for 10 s. Returns status: unknown (the device is '
  'unknown), no_account, active (the account is already active), busy (another switch holds the lease) or begun.';

comment on function private.begin_attempt(jsonb) is
  'Counts an attempt before it is made. Takes { action, address, email | userId, challenged, overridden, mail, code }.'
  ' Returns { allowed, attemptId, needsBotChallenge, repeated, mailWaitSeconds, mailPauseSeconds } or { allowed: '
  'false, reason: limited | blocked, retryAfterSeconds }. A caller that receives no answer must not make the attempt. '
  'challenged is true if the attempt carries a bot challenge''s token, which the identity backend checks first. '
  'overridden is true under a recovery override: the limits of override_password replace the email''s own limits, but '
  'the address''s limits still apply. mail is the kind of email that the attempt sends. If mailWaitSeconds is not '
  'null, the email must not be sent, because another email of its kind is being sent or has a link that is too recent '
  'to be replaced. code is the mailed code that is tried; only its digest is stored. If repeated is true, the code was'
  ' tried before and must not be tried again.';

comment on function private.begin_device_authorization(text, bytea, bytea, text[], text[], inet, text, text) is
  'Stores a device''s request under the first of the given user codes that is not in use. Returns {userCode, '
  'expiresInSeconds, intervalSeconds} or {refused: unauthenticated | unauthorized_client | scope (no requested scope '
  'is registered) | limited (with retryAfterSeconds) | unavailable (all given codes are in use)}.';

comment on function private.begin_login_challenge(jsonb) is
  'Begins a challenge { id, kind, userId, sessionId, secretHash, pairCodeHash?, metadata }. Returns { outcome: begun, '
  'expiresAt }, or { outcome: limited, retryAfterSeconds } if the account began 20 challenges of this kind in the last'
  ' 15 minutes. Expires the session''s earlier challenges of the same kind.';

comment on function private.begin_mfa_recovery(uuid, uuid, text) is
  'Uses a code, or resumes a recovery that failed midway. To resume, pass the same code, or no code from the session '
  'that used it. Returns the code''s id to one caller, who holds the code for 30 s; null to all others. Marks the '
  'recovery in the account''s policy, which closes the account until end_mfa_recovery is called, and advances the '
  'policy''s boundary. Ends all other sessions, all app sessions and all app tokens.';

comment on function private.begin_oauth_attempt(jsonb) is
  'Begins an attempt to sign in with a provider or to link one: { stateHash (hex), purpose, provider, userId, '
  'sessionId }. Returns when the attempt expires.';

comment on function private.bind_mobile_approval(jsonb) is
  'Binds an approved challenge to the requesting session for 12 hours. Takes { id, secretHash, claims, proofKey }; the'
  ' claims include a proof made with proofKey. Returns { status: bound, validUntil }, or { status: rejected } if the '
  'session would still not satisfy required MFA. Returns null if the challenge is not approved or is already bound.';

comment on function private.block_duration(integer) is
  'Returns how long an address is blocked at a level. A block is long enough to make guessing pointless, and short '
  'enough for the next user of the address.';

comment on function private.caller_claims() is
  'Returns the claims of a Data API caller, plus the proof of a mobile approval that our server sends as a header.';

comment on function private.can_read_console(jsonb) is
  'Returns whether a session still belongs to an infrastructure admin and has passed a second factor. Takes the '
  'session''s verified claims. Does not check how long ago the second factor was passed, because each change checks '
  'that before it begins. Not granted to any role, because it trusts the claims.';

comment on function private.can_rename_by_app_session(bytea, uuid) is
  'Checks whether private.rename_workspace_by_app_session would be refused, before the new name is known. Returns {} '
  'or {refused}.';

comment on function private.cancel_email_change(uuid) is
  'Cancels a pending email change, so that the links in both emails stop working. Returns true for the one caller that'
  ' cancelled it.';

comment on function private.cancel_model_price(jsonb) is
  'Cancels a price that begins in more than a minute. The previous price then stays in force until the next price '
  'begins. The change is { actor, model, price, previous (id of the previous price that the admin saw, or null), until'
  ' (the end of the price that the admin saw), reason, requestId, ip }. Returns {} or { refused: forbidden | not_found'
  ' | started | conflict (with last) }.';

comment on function private.change_app(jsonb) is
  'Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The '
  'step edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has '
  'secretHash (the text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client '
  'allows only enable, disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (with last) | '
  'taken (an origin) | invalid | no_workspace }.';

comment on function private.change_credits(jsonb) is
  'Grants credits to a workspace or member, or withdraws credits. A grant first opens a missing account with the '
  'plan''s initial credits. The change is { actor, payer, ownerId, step: grant | withdraw, amount, reference, '
  'description (shown to members in the ledger), reason, requestId, ip }. Returns {}, { repeated: true } if the '
  'reference was already used for this amount, or { refused: forbidden | invalid | not_found | oneself | '
  'reference_used (for another amount) | insufficient (less is available) }.';

comment on function private.change_model_route(jsonb) is
  'Adds, edits, moves or removes a route. The other routes keep their order. Positions count from 1. The change is { '
  'actor, model, version (private.model_version), place (the route''s current position, or null to add a route), '
  'route, reason, requestId, ip }. route is null to remove the route, otherwise { position, providerId, providerModel,'
  ' enabled, trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds '
  '}. Does not change the provider''s prices. Returns {} or { refused: forbidden | not_found | route_taken | invalid |'
  ' conflict (with last) }.';

comment on function private.change_openid_client(jsonb) is
  'Changes the given fields of an OpenID client. Takes { actor, name, version, displayName, scopes, redirectUris, '
  'postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, reason, requestId, ip }. Returns {} or { refused: forbidden |'
  ' not_found | conflict | invalid }. If version is given and the client has changed since that version, refuses with '
  'conflict and returns the last change as last.';

comment on function private.change_required_mfa(jsonb) is
  'Changes an account''s policy for an admin; no other function does. Takes { actor, subject, step, generation, '
  'reason, requestId, ip } and returns { policy } or { refused: forbidden | oneself | not_enforced | not_found | '
  'conflict | in_progress | unchanged | factors_left }. step is require, make_optional, begin_reset or finish_reset. '
  'begin_reset closes the account. finish_reset opens it again, but only after all authenticators are deleted. '
  'generation is the policy generation that the admin saw, 0 if there was none. Each step adds an entry to the audit '
  'log. Each step except begin_reset also adds an event, which is emailed to the owner.';

comment on function private.check_recovery_credential(private.recovery_credentials, bytea) is
  'Returns good, or the reason for the refusal. Counts a wrong code. The fifth wrong code within 24 hours locks the '
  'email''s codes for 24 hours. The caller must hold the locks on the email''s guesses and on the credential. For '
  'definers; not granted to any role.';

comment on function private.claim_due_mails(integer) is
  'Claims the emails that are due for an attempt, so that no other caller sends them. Returns the text of each email, '
  'or the event from which the caller writes the text. After twelve attempts, an email is kept as a record for a week.';

comment on function private.claim_logout_notices(integer) is
  'Claims the notices that are due, each for only one caller. An attempt is repeated after 5 seconds, then 30 seconds,'
  ' 2 minutes and 10 minutes, and then every hour. The first attempt on a notice older than one day is the last.';

comment on function private.claim_mfa_code(text, uuid) is
  'Claims a code for one verification. The code is given as the hex of its HMAC. Returns true to only one caller.';

comment on function private.claim_outgoing_mails(integer) is
  'Claims the emails that are due for an attempt, so that no other caller sends them. After twelve attempts, an email '
  'is kept as a record for a week.';

comment on function private.claim_qr_challenge(jsonb) is
  'Claims an approved challenge for the session that requested it: { id, secretHash, claims }. Returns claimed to only'
  ' one caller, which must complete the challenge within 30 s. Otherwise returns the challenge''s public state, '
  'mfa_required or not_found. Rejects the challenge permanently if the approver has signed out or no longer satisfies '
  'the account''s policy.';

comment on function private.clear_unproven_metadata() is
  'Marks the first confirmation of an email, and removes metadata that the email''s owner did not write.';

comment on function private.close_orphaned_workspaces() is
  'Closes the workspaces in which no other member remains when a person''s account is deleted, so that their keys stop'
  ' working. Also closes the person''s personal workspace unless another member owns it, and removes its name.';

comment on function private.complete_attempt(uuid, text) is
  'Records the outcome of an attempt: succeeded, failed or void. A successful sign-in is refunded, and the account''s '
  'failures from this address are deleted. Successful attempts that cost an email or a hash stay counted. A failed '
  'attempt counts against the address. A void attempt was not made and is refunded. Returns false if the outcome was '
  'already recorded or the attempt is too old.';

comment on function private.complete_oauth_attempt(text, text, text, text) is
  'Completes an attempt with a verdict. Returns true to only one caller. sign_in keeps the code valid, so that it can '
  'be exchanged. link confirms the identity and voids the code. refuse voids the code, and removes the account or the '
  'identity that the attempt created.';

comment on function private.complete_qr_challenge(jsonb) is
  'Completes a claim with the session that was minted for it: { id, claims, mintedSessionId }. Returns consumed, '
  'expired or rejected. If consumed, the session has the approver''s sign-in time. Otherwise the session must not be '
  'sent to the browser.';

comment on function private.confirm_access(uuid, uuid, jsonb, text[]) is
  'Removes the entries that the owner chose from the list of private.account_access, ends the sessions that depend on '
  'these entries, and confirms the rest of the list, in one transaction. removals is { listedAt, listed: [key], '
  'remove: [key], sessions: [key] }. listed contains the keys that the owner saw at listedAt, and sessions the keys of'
  ' the listed sessions. In remove, other_sessions means the sessions that existed at listedAt but were not listed. '
  'Returns { outcome: confirmed, removed: [way], endedSessions: [{ id, device, userAgent }] }. Every other outcome '
  'changes nothing: last_method (no usable way to sign in would remain), last_of_required (the account must have an '
  'authenticator), insufficient_aal (the session has yet to prove an authenticator) or not_found. Never ends the '
  'calling session.';

comment on function private.confirm_device_secret(uuid, text) is
  'Records that the browser has presented its new secret. The previous secret expires 30 seconds later, so that '
  'requests in flight still succeed.';

comment on function private.connect_agent(bytea, uuid, text, text, jsonb) is
  'Connects a coding agent to a workspace. Returns { state: connected, connection }; a repeated call returns the same '
  'connection. If the member needs an approval, opens a request, queues emails to members with manage_ai_keys, and '
  'returns { state: requested }. Refusals are { refused: … | not_found | forbidden }. forbidden: the member lacks '
  'use_ai_studio.';

comment on function private.connected_apps(uuid) is
  'Returns the apps that hold a person''s live credentials or consent: [{name, displayName, origins, session, login, '
  'consent, tokens}]. session summarizes the app sessions, login summarizes the OpenID Connect logins, and each entry '
  'of tokens summarizes the tokens for one workspace. A summary is {scopes, connectedAt, renewedAt, endsAt}, with the '
  'scopes that are currently in force. An entry of tokens also has workspace, which is the name, or null if the '
  'gateway refuses the tokens. consent is {scopes, grantedAt}. session, login and consent may be null.';

comment on function private.consume_attempt(bytea, text, text, interval, interval) is
  'Takes one attempt from a bucket and returns null. If the bucket is empty, leaves it unchanged and returns the time '
  'until an attempt is available.';

comment on function private.consume_cross_app_token(bytea, uuid, uuid, text) is
  'Redeems a handoff token in one statement. Of many concurrent callers, one gets the token''s id, and the others get '
  'null. proof must be exactly the text that was checked. For definers; not granted to any role.';

comment on function private.consume_recovery_credential(jsonb) is
  'Consumes a credential. Takes { tokenHash } or { email, codeHash }, with browserHash, ip, userAgent and requestId; '
  'hashes are in hex. Returns { outcome: consumed, credentialId, overrideId, email, userId or null, banned, confirmed,'
  ' replacedPassword, waitMs } to only one of many callers, and { outcome: rejected } to all others. The reason for a '
  'rejection is recorded but not returned. replacedPassword is true if an earlier use replaced the password. Ends '
  'every session, app session and app token of the account, and moves the boundaries of its policy to the current '
  'second. A new session is accepted only if it is created after waitMs.';

comment on function private.containing(text) is 'Returns a pattern for `like` that matches lower-case text containing the term. Escapes special characters in the '
  'term.';

comment on function private.continue_account_session(jsonb) is
  'Replaces an account''s session with one that continues it without another sign-in, for example after a QR handoff. '
  'Takes { deviceId, secret, userId, sessionId, sealed, keyId, tag, inPlaceOf }. Returns { status: kept | unknown | '
  'over }. unknown means that the device is unknown. over means that the browser has signed out of the continued '
  'session or has another one. The device''s secret does not change, so a browser that lost the response still gets '
  'the session from the vault.';

comment on function private.count_account_sessions(uuid, integer) is
  'Returns the number of an account''s current sessions, up to the limit `most`.';

comment on function private.count_approval_requests(integer) is 'Counts open requests, but stops at a maximum.';

comment on function private.count_failure(text, cidr) is
  'Counts a failure against an address. Blocks the address after too many failures. Each further block within a week '
  'lasts longer.';

comment on function private.count_sign_in_methods(uuid, text[], uuid[], boolean, uuid[]) is
  'Returns how many usable ways to sign in an account would have without the given identities, passkeys and password. '
  'Counts unconfirmed identities only if they are being confirmed. For definers; not granted to a role.';

comment on function private.create_profile_and_workspace() is
  'Creates a profile and a personal workspace on the free plan in the transaction that creates the user. A failed '
  'sign-up rolls back all of them.';

comment on function private.create_recovery_override(jsonb) is
  'Creates an override. Takes { actor, email, reason, normalLogin, recoveryEmail, lifetimeSeconds, ip, userAgent, '
  'requestId }. lifetimeSeconds is 7 days by default. Returns { overrideId, expiresAt } or { refused: forbidden | '
  'oneself | lifetime | active }.';

comment on function private.create_workspace_defaults() is
  'Creates the roles of a new workspace and makes its founder the owner, in the same statement that creates the '
  'workspace.';

comment on function private.cross_app_token_proof(text, bytea, bytea) is
  'Performs the first half of a redemption, which changes nothing. Returns {app, proof}, where proof is the stored '
  'proof for the web server to check, or null if the token is not valid for the app. Returns {refused: '
  'unauthenticated} if the app did not authenticate.';

comment on function private.current_signing_key() is 'Returns the kid of the key that signs now; null if no key exists yet.';

comment on function private.decide_device_authorization(text, jsonb, boolean, jsonb) is
  'Records a person''s decision about a device''s request. Returns approved, denied, not_found, expired, conflict '
  '(already decided), unauthenticated, mfa_required or unavailable. An approval also adds an event to the person''s '
  'activity. Callers must first check that the session is fresh.';

comment on function private.decide_mobile_approval(jsonb) is
  'Lets a phone approve or reject a browser''s request. Takes { id, claims, approve, pairCodeHash?, device }. Returns '
  '{ outcome: approved | rejected | wrong_code (with attemptsLeft) | mfa_required | not_found | forbidden (called by '
  'the requesting session itself) | expired | conflict }.';

comment on function private.decide_qr_challenge(jsonb) is
  'Approves or rejects a QR challenge on behalf of a phone: { id, secretHash, claims, approve, device }. Returns '
  'approved, rejected, not_found, forbidden, mfa_required, expired or conflict. forbidden: the phone uses another '
  'account, or the session that requested the handoff. conflict: the challenge was already decided.';

comment on function private.decline_key_approval(jsonb) is
  'Declines a workspace''s open request. The change is { actor, workspace, requestedAt, reason, email, requestId, ip '
  '}. The workspace''s members see the reason. Returns {} or { refused: forbidden | not_found | oneself (the actor''s '
  'personal workspace) | request_gone }.';

comment on function private.default_display_name(jsonb, text) is
  'Returns a display name for a person who has not chosen one. Treats data that users send about themselves as plain '
  'text.';

comment on function private.delete_account(uuid, text) is
  'Deletes an account with its dependent rows, unless a workspace would be left without an owner. Returns { deleted, '
  'blockers: [{ workspaceId, name, members }] }. Runs, ledger entries, costs and invoices remain, but contain only the'
  ' account''s id.';

comment on function private.delete_auth_user(uuid) is
  'Deletes a user. Returns false if the user doesn''t exist.';

comment on function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb) is
  'Removes an authenticator app from an account and notifies the owner (private.record_security_event). If no '
  'authenticator is left, also deletes the account''s recovery codes. Returns { outcome: deleted | last_of_required '
  '(the account must keep one) | insufficient_aal (the session is not at AAL2) | not_found }.';

comment on function private.delete_expired_attempts(integer) is
  'Deletes up to at_most rows of each kind: full buckets, expired attempts, expired verified addresses, and blocks '
  'that ended a month ago. Returns how many rows it deleted; 0 while another deletion runs.';

comment on function private.delete_model(jsonb) is
  'Deletes a model that was never enabled, with its routes, prices and grants. The change is { actor, model, version, '
  'reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | used | conflict (with last) }.';

comment on function private.delete_passkey(uuid, uuid, uuid, text[]) is
  'Removes a passkey from an account. Returns deleted, last_method, insufficient_aal or not_found. last_method: no way'
  ' to sign in would remain. insufficient_aal: the account has an authenticator that the session has not used yet.';

comment on function private.delete_retired_signing_keys() is 'Deletes the keys that are no longer published. Returns the number of deleted keys.';

comment on function private.delete_unused_auth_user(uuid, timestamptz) is
  'Deletes a user who has never signed in and was created at created_since or later. Returns false if no such user '
  'exists.';

comment on function private.describe_app(uuid) is
  'Returns an app for display, without secret hashes. secrets has only the secrets that still work, and workspaces has'
  ' the first 50.';

comment on function private.describe_auth_triggers() is
  'Returns the tables of the schema auth and every trigger on them, including triggers that are not ours, with the '
  'function that each trigger runs.';

comment on function private.describe_database() is
  'Returns the facts that the doctor and the hosted start compare with the release: the version of Postgres '
  '(server_version_num), the versions of the recorded migrations, private.describe_objects() and '
  'private.describe_auth_triggers().';

comment on function private.describe_objects() is
  'Returns our objects by name, each with a hash of its definition. For grants, lists the privileges; an asterisk '
  'marks a grant option.';

comment on function private.describe_openid_client(uuid) is
  'Returns an OpenID client for display, with its valid secrets but without their hashes.';

comment on function private.describe_openid_tokens(private.openid_grants, private.openid_tokens) is
  'Returns the contents of a token response and its ID token: {sid, sub, clientId, scopes, authTime, acr, amr, '
  'issuedAt, expiresAt, refreshable}. Times are in seconds since 1970.';

comment on function private.describe_price(ai.model_prices) is
  'Returns a price for the console. Amounts are text, so no digit is lost.';

comment on function private.device_authorization_state(private.device_authorizations) is
  'Returns the state of a request for display: pending, approved, denied or expired. If the client is disabled, its '
  'pending requests are shown as expired.';

comment on function private.device_secret_status(private.account_devices, text) is
  'Returns the status of a device secret: current, previous, spent or unknown. A previous secret is valid for '
  'everything until the browser presents the current one. A secret is spent for a minute after an account was added. A'
  ' spent secret gives no access, but requests in flight may use it to add another account or to sign the browser out.';

comment on function private.device_state(uuid, text) is
  'Returns the accounts of a browser that presents a valid device secret: { secret: current | previous, arrived, old, '
  'active: { userId, sessionId, tag } | null, accounts }. arrived is true if the browser has presented its current '
  'secret. old is true if the secret was rotated more than 30 days ago. Returns null for an unknown device.';

comment on function private.discard_account_session(uuid, uuid, text, boolean) is
  'Discards an account''s session that has ended or cannot be decrypted. If listed is true, the account stays in the '
  'list and requires a new sign-in. Returns false if another rotation came first.';

comment on function private.discard_session(uuid, uuid) is
  'Ends a session that our server created but gave to no browser, for example to check a password. Also removes the '
  'session''s sign-in from the account''s activity. Returns true if the session existed.';

comment on function private.disconnect_agent(bytea, uuid, uuid) is
  'Revokes a connection of the token''s login, and the connection''s keys. Returns {} or { refused: … | not_found }. '
  'Idempotent.';

comment on function private.disconnect_app(uuid, text, jsonb) is
  'Ends all of a person''s credentials at an app, including outstanding handoffs, and adds the event to the account''s'
  ' log (private.record_security_event). Returns disconnected, over or not_found. over means that no credential was '
  'left to end. not_found means that the app never held a credential of this person, or is not an app.';

comment on function private.effective_scopes(private.app_sessions) is
  'Returns the scopes that were granted to a session and are still registered for its app. Scopes that are registered '
  'later are not included, and scopes that are removed are lost immediately.';

comment on function private.email_change_of_link(text) is
  'Returns the email change that a mailed link confirms, with the account''s userId and the mailbox (current or new) '
  'that received the link. Returns null if the link is used, replaced or unknown.';

comment on function private.email_of_link(text, text) is
  'Returns the email of the account that a mailed link signs in to, or null. link_type is signup, invite or recovery. '
  'Does not use up the link or check its age.';

comment on function private.end_account_session(uuid, uuid) is
  'Ends one session of an account. Returns true for the one caller that ended it. Returns false if the session had '
  'already ended or belongs to another account.';

comment on function private.end_account_switch(uuid, uuid) is 'Releases the device''s lease after a switch that was not completed.';

comment on function private.end_additions(uuid, uuid[]) is
  'Ends the sign-ins of the given accounts that a browser has not presented yet; null means all accounts. The caller '
  'must have locked the accounts. Returns the sessions that were still alive: [{ userId, sessionId }].';

comment on function private.end_all_access(uuid) is
  'Ends every session of an account and revokes its app sessions and app tokens. Returns how many sessions ended. For '
  'definers; not granted to any role.';

comment on function private.end_app_of_account(uuid, uuid) is
  'Revokes everything that one app holds for a user: sessions, tokens, OpenID logins, the consent, and handoffs, codes'
  ' and approvals that are not redeemed yet. Returns how many it revoked. For definers; not granted to any role.';

comment on function private.end_apps_of_account(uuid) is
  'Revokes everything that apps hold for a user: sessions, tokens, OpenID logins, and handoffs, codes and approvals '
  'that are not redeemed yet. Consents remain. For definers; not granted to any role.';

comment on function private.end_dependent_sessions(uuid, uuid, jsonb) is
  'Ends the sessions that the owner removed from the list of private.account_access, and the sessions that signed in '
  'with a removed method. Returns [{ id, device, userAgent }] of the ended sessions. For definers; not granted to any '
  'role.';

comment on function private.end_mfa_recovery(uuid, boolean) is
  'Ends a recovery after begin_mfa_recovery. If completed is true and the account has no factor left, completes the '
  'recovery and opens the account again, unless its policy has changed since. Otherwise the account stays closed, and '
  'the recovery can be resumed immediately. Returns whether the recovery is completed.';

comment on function private.end_openid_login(uuid, uuid) is
  'Ends a person''s login at an OpenID client. Returns false if the login has already ended or belongs to another '
  'person.';

comment on function private.end_other_sessions(uuid, uuid) is
  'Ends every session of an account except the calling one, records the event, and notifies the owner. Returns how '
  'many sessions ended. Concurrent calls record only one event.';

comment on function private.end_password_replacements() is
  'Lifts the restriction set by private.require_password_replacement when the password changes.';

comment on function private.exchange_cross_app_token is
  'Redeems a handoff token once for an access token and a refresh token. Returns {user, workspace, scopes, expiresAt} '
  'or {refused: unauthenticated | token | scope | workspace | unavailable}. A refusal does not use up the token.';

comment on function private.explain_platform_month(date, text) is
  'Explains a provider''s figures for a month in the platform''s book: { outcome: explained, month, provider, '
  'workspaces (ai.platform_workspaces), days: [{ day, accountId, meteredUsd, importedUsd }], causes '
  '(ai.platform_causes) }.';

comment on function private.export_account(uuid, boolean) is
  'Returns everything stored about an account except its AI runs, without secrets, hashes or codes; null if the '
  'account doesn''t exist. If with_parts is false, the lists that private.export_account_part returns are empty.';

comment on function private.export_account_part(uuid, text, jsonb, integer) is
  'Returns a page of one list of private.export_account, oldest record first. part names the list: sessions, '
  'securityEvents, approvals, workspaces, invitations, keys, appHandoffs, appSessions, appTokens, openidLogins, '
  'openidCodes, deviceLogins, openidConsents or ledger (of credits). after is the last record of the previous page. If'
  ' page_size is null, returns all records.';

comment on function private.export_account_proper(uuid, boolean) is
  'Returns the credits and the members of private.export_account that do not grow with use.';

comment on function private.export_account_runs(uuid, jsonb, integer) is
  'Returns a page of the AI runs that a person made themselves, newest first, without prompts and answers. costUsd is '
  'null if the workspace''s policy hides provider costs. before is the last run of the previous page.';

comment on function private.export_whole_part(uuid, text, boolean) is
  'Returns all records of one list of an export, or [] if they are not requested. For definers; not granted to any '
  'role.';

comment on function private.find_accounts_exactly(text) is
  'Returns the accounts with the given id or full email, found by index. Several accounts may have the same email, '
  'because single sign-on creates separate accounts.';

comment on function private.find_accounts_matching(text, integer) is
  'Returns the accounts with a text in their email or name, sorted by email. A term of one or two characters has no '
  'trigram, so a search for a rare character reads all rows.';

comment on function private.find_app_by_origin(text) is
  'Returns the app that has exactly this origin, with the app''s scopes; null if there is none. Includes disabled '
  'apps, so that the page can explain why the sign-in fails.';

comment on function private.find_app_caller(bytea, text) is
  'Returns the caller for the token of a central session or the access token of an OpenID client. refused is '
  'unauthenticated, mfa_required, unavailable, insufficient_scope or null. For definers; not granted to any role.';

comment on function private.find_recovery_link_email(bytea, bytea) is
  'Returns the email address that a link would sign in, for the confirmation page. Returns null if the link does not '
  'work in this browser. Does not use up the link.';

comment on function private.find_renaming_caller(bytea, uuid) is
  'Returns the same caller as private.find_app_caller, and checks that the caller may rename the workspace. refused '
  'may also be not_found or forbidden. For definers; not granted to any role.';

comment on function private.find_runs(text) is
  'Returns the run with the given id, and the newest 20 runs of the last 31 days with the given request id.';

comment on function private.forget_used_recovery() is
  'Lets Auth send the next reset link or sign-in code as soon as the previous one was used or voided. Links that our '
  'server generates and uses don''t delay emails either.';

comment on function private.gateway_refusal(private.apps, uuid, text[]) is
  'Returns why the gateway refuses an app''s requests in a workspace with a token or a bound key of the given scopes; '
  'null if it accepts them. For definers; not granted to any role.';

comment on function private.granted_workspaces(text, integer) is
  'Returns the workspaces that were granted a model separately from their plan. They are sorted by name, and most '
  'limits their number.';

comment on function private.guard_addition(uuid, uuid) is
  'Rejects an addition that our server did not announce if the account already has a verified factor.';

comment on function private.guard_email() is
  'Rejects a change of an account''s email to the address of an unconfirmed identity, or to null if that identity has '
  'no address, because password-reset emails would no longer reach the owner. Also rejects an address that no provider'
  ' has verified, because another person may own the address and confirm it later.';

comment on function private.handoff_proof(jsonb) is 'Converts a handoff''s signed facts to the form in which the handoff''s credentials store them.';

comment on function private.has_amr_between(jsonb, text[], bigint, bigint) is
  'Returns whether the amr claim (RFC 8176) contains one of the methods with a time after after_second and at or '
  'before until_second.';

comment on function private.has_openid_consent(uuid, private.openid_clients, text[], text) is
  'Returns whether a person has already consented to all these scopes for the client. Always false if the client is '
  'public and the redirect URI leads to a program on the person''s own device.';

comment on function private.has_unique_items(public.workspace_permission[]) is
  'Returns whether a list of permissions is one-dimensional and contains neither duplicates nor nulls.';

comment on function private.hold_proof(private.mfa_proof) is
  'Locks the account, session and factor of a proof. Call it before private.proof_status when opening a login. A '
  'concurrent sign-out or removal of the factor then waits until the login exists, and queues a notice for the login. '
  'For definers; not granted to any role.';

comment on function private.hook_network(jsonb) is
  'Returns the network of the address in a hook''s event; null if the backend passes no valid address.';

comment on function private.hook_rejection() is 'Returns the answer with which a hook rejects an attempt.';

comment on function private.import_costs_as_operator(uuid, uuid, jsonb, text) is
  'Stores a cost file for the operator''s command line. Returns the result of ai.store_cost_file or { outcome: '
  'app_not_linked }. If workspace and app are null, uses the platform''s book and adds a line without an actor to the '
  'audit log.';

comment on function private.import_platform_costs(jsonb) is
  'Stores a cost file in the platform''s book for an infrastructure admin, and adds a line to the audit log. The '
  'change is { actor, reason, requestId, ip, document, state }. Returns the result of ai.store_cost_file. If the '
  'import is refused, the result also has refused: forbidden | conflict (with last) | invalid.';

comment on function private.inspect_oauth_attempt(text, text, text) is
  'Returns the result of an attempt, before the server acts on the result: { flow: { userId, email, closed, linkedTo, '
  'identity: { email, issuer, confirmed } } }. flow is null if the code does not belong to the attempt. Returns null '
  'if the attempt was used or has expired.';

comment on function private.introspect_app_session(text, bytea, bytea) is
  'Returns the current state of a session to the session''s own app: {active: true, session, scopes, endsAt, profile} '
  'or {active: false}, or {refused: unauthenticated | unavailable}.';

comment on function private.introspect_openid_token(text, bytea, bytea) is
  'Returns the current state of a token to the confidential client that it was issued to (RFC 7662). Returns {active, '
  'isAccess, sub, sid, scopes, issuedAt, expiresAt}, {active: false} or {refused: unauthenticated | unavailable}.';

comment on function private.invalidate_recovery_credential(uuid) is 'Voids a credential because its email was not sent.';

comment on function private.is_announced(uuid, text) is 'Uses up the announcement of an addition. Returns whether there was an announcement.';

comment on function private.is_approval_proven(private.login_challenges, text) is
  'Returns whether a proof shows that our server saw the approval''s cookie within the last minute. The proof is '
  '"<second>.<HMAC-SHA-256 in hex>". The HMAC is computed with the approval''s key over "<session id> <second>".';

comment on function private.is_integer(jsonb) is 'Returns whether a value is a non-negative integer. Call it before each cast, so that malformed metadata cannot raise '
  'an error.';

comment on function private.is_loopback_redirect(text) is 'Returns whether a redirect URI is a loopback address, which leads to the browser''s own device.';

comment on function private.is_new_password(text, text) is
  'Returns true if a stored hash was replaced because a new password was set, and false if the same hash was only '
  'encrypted.';

comment on function private.is_new_place(public.security_events) is
  'Returns whether a sign-in is the account''s first from this network with this program. Returns false for the very '
  'first sign-in of an account.';

comment on function private.is_openid_redirect_uri(private.openid_clients, text) is
  'Returns whether a redirect URI is exactly one of the client''s registered URIs. A public client may use any port on'
  ' a loopback address (RFC 8252 section 7.3).';

comment on function private.is_proof_intact(private.mfa_proof) is
  'Returns whether the account, session and factor of a proof still exist and the account''s policy has not changed. '
  'If something has changed, that change has already queued the notice. For definers; not granted to any role.';

comment on function private.is_proven_identity(auth.identities, auth.users) is
  'Returns whether an identity has the account''s email and its provider has verified that email.';

comment on function private.is_recovery_open_to(private.recovery_credentials, bytea) is
  'Returns whether a browser can use a recovery credential. Any browser can use it the first time. After that, only '
  'the same browser can use it again, until that browser presents its new session or the session ends.';

comment on function private.is_told_by_mail(text) is
  'Returns whether the owner is emailed about events of this kind. Excludes sign-ins, which are emailed only if they '
  'come from a new location.';

comment on function private.is_unconfirmed_identity(uuid) is
  'Returns whether an identity is unconfirmed. A link that our pages began is confirmed when it completes. A link made'
  ' directly at the backend is confirmed when the owner keeps it.';

comment on function private.is_vault_entry_usable(private.account_vault_entries) is
  'Returns whether a browser can switch to an account without a new sign-in, as far as the database knows. An entry '
  'expires after 30 days without use.';

comment on function private.is_workspace_member(uuid, uuid) is
  'Returns whether a user is a member of a workspace. For definers that have derived the user from a credential. Not '
  'granted to any role, because it does not check that the id is the caller''s.';

comment on function private.issue_agent_key(bytea, uuid, uuid, text, text) is
  'Creates the next key of a connection, which works for at most 8 hours and not longer than the connection''s login. '
  'The previous key works for at most 15 more minutes. Outcomes: issued (with expiresAt), revoked, not_allowed, '
  'not_approved, too_many. too_many: the connection has 20 live keys, or the workspace has 200. Refusals are { '
  'refused: … | not_found }.';

comment on function private.issue_app_token(ai.app_tokens) is
  'Stores the next access and refresh token of a family, and sets their expiry. For definers; not granted to any role.';

comment on function private.issue_authorization_code(jsonb, text, text, text[], text, text, bytea, boolean, bigint) is
  'Issues an authorization code, valid for 60 seconds, to the session with these verified claims. Returns {scopes} or '
  '{refused: client | unauthenticated | mfa_required | unavailable | login_required | consent_required | scope}. If '
  'consents is true, the person has just agreed, and the consent is stored. If authenticated_since is given, an '
  'authentication before that second is refused with login_required.';

comment on function private.issue_openid_tokens(private.openid_grants, bytea, bytea) is
  'Opens a login and issues its first tokens. If login.ends_at is null, the login lasts 30 days. login.id and '
  'login.created_at are ignored. Returns the same result as private.add_openid_tokens, with the nonce added. For '
  'definers; not granted to any role.';

comment on function private.issue_recovery_credential(jsonb) is
  'Issues a recovery credential under an override. Takes { actor, overrideId, reason, tokenHash, codeSalt, codeHash, '
  'ip, userAgent, requestId }; the hashes and the salt are in hex. Returns { credentialId, email, expiresAt } or { '
  'refused: forbidden | oneself | not_found | inactive | switched_off }. Returns { refused: just_sent, '
  'retryAfterSeconds } if the previous credential is too recent to be replaced. Voids the earlier credentials for the '
  'same email.';

comment on function private.keep_email_identity(auth.users) is
  'Adds an identity for the account''s own email, if it has none, before another identity is removed. Otherwise '
  'Supabase Auth would replace the account''s email with that of a remaining identity. For definers; not granted to a '
  'role.';

comment on function private.keep_own_claims() is
  'Removes metadata that was sent at the sign-up from an email identity. Otherwise the metadata would survive the '
  'first confirmation.';

comment on function private.last_admin_action(text) is
  'Returns the last admin who changed a target, and the time of the change: { actorEmail, at }. If a change is refused'
  ' as a conflict, the result names the admin who made the earlier change.';

comment on function private.latest_amr_second(jsonb, text[]) is 'Returns the last second at which one of the methods was used; null if none was used.';

comment on function private.latest_price(text, text, integer) is
  'Returns the id of the newest price, in any service tier, that a provider charges for a model once the input reaches'
  ' a number of tokens; null if there is none. A request to add a price names the newest price that the admin saw, so '
  'a concurrent change is detected.';

comment on function private.lift_address_block(jsonb) is
  'Lifts an address block. Takes { actor, block, reason, requestId, ip }. Returns {} or { refused: forbidden | '
  'not_found | conflict | expired }. A conflict means that the block was already lifted, and also returns last. Rate '
  'limits still apply, and a lifted block does not lengthen the next one.';

comment on function private.limit_inviter() is
  'Limits the invitations that a person sends in all workspaces together. Raises PT429 if there are more than '
  'private.attempt_limits() allows; the error''s detail is the number of seconds until the next invitation is allowed.';

comment on function private.limit_workspace_invitations() is
  'Raises PT409 if a workspace has more than 500 invitations that were not accepted.';

comment on function private.limit_workspace_roles() is 'Raises PT409 if a workspace has more than 100 roles.';

comment on function private.linked_workspaces(uuid, text[], integer) is
  'Returns a page of the workspaces that an app is linked to, sorted by name. after is the name and id of the last '
  'workspace on the previous page.';

comment on function private.list_account_deletion_blockers(uuid) is
  'Returns the workspaces that have other members but no other owner than this account. Each workspace needs another '
  'owner before the account may be deleted.';

comment on function private.list_accounts(jsonb, integer) is
  'Returns a page of all accounts, newest first, including deleted ones, as [private.describe_account]. before is { '
  'createdAt, id } of the last account on the previous page.';

comment on function private.list_address_blocks(inet, uuid, integer) is
  'Returns address blocks in the format of private.describe_address_block. For an address, returns all blocks of its '
  'network in the last 30 days. For an account, returns the active blocks of its recent networks. Otherwise returns '
  'all active blocks.';

comment on function private.list_agents(bytea, uuid) is
  'Returns a login''s connections in a workspace, and whether its member may create more. Returns { access: approved |'
  ' open | declined | withdrawn | none, connections } or { refused: … | not_found }.';

comment on function private.list_approval_requests(jsonb, integer) is
  'Returns a page of open requests, oldest first: [{ id (of the workspace), name, plan, owners, createdAt, '
  'requestedBy, note }]. The argument after is { createdAt, id } of the last request on the previous page.';

comment on function private.list_apps(text, text, integer) is
  'Returns a page of the registry, sorted by name. Each app includes its first 50 linked workspaces, but no secret '
  'hashes. term is a part of the name or display name. after is the last name of the previous page. If page_size is '
  'null, returns all apps. Excludes OpenID clients, which private.list_openid_clients lists.';

comment on function private.list_catalogue_models(text, text, text[], integer) is
  'Returns a page of the models that have the term in their id or name, or only one model by its id. Each model has '
  'its providers, in the order in which calls try them, and its prices. A page has only the current prices, and a '
  'single model has all of its prices. Amounts are text, so no digit is lost. The argument after is sortsAs of the '
  'last model on the previous page. Without page_size, returns all models.';

comment on function private.list_failing_models(integer) is
  'Returns the enabled models with the most failed attempts on their routes in the last hour: [{ displayName, failed '
  '}].';

comment on function private.list_infrastructure_admins() is
  'Returns all infrastructure admins: [{ email, reason, createdAt, hasAuthenticator }]. An admin without an '
  'authenticator cannot use the console.';

comment on function private.list_openid_clients(text, text, integer) is
  'Returns a page of OpenID clients, sorted by name. term filters by a part of the name or display name. after is the '
  'last name on the previous page. Without page_size, returns all clients.';

comment on function private.list_passkeys(uuid) is
  'Returns an account''s passkeys, oldest first. Each has its credential id in hexadecimal, its provider''s AAGUID '
  'and, if known, the browser and system from which it was added. Only for our server, which takes the account from '
  'the session.';

comment on function private.list_plans(text) is
  'Returns plans, each with the number of its workspaces and of its granted models. Amounts are text. Every change of '
  'a plan changes its version.';

comment on function private.list_platform_costs(date, jsonb, jsonb, integer) is
  'Returns ai.provider_costs_page of the platform''s book for the month that contains the given date.';

comment on function private.list_platform_invoices(jsonb, integer, jsonb) is
  'Returns ai.provider_invoices_page for the platform''s book.';

comment on function private.list_provider_health() is
  'Returns the providers that have enabled routes or recent calls: [{ provider, routes, answeredLastHour (runs), '
  'lastAnswerAt, failedLastHour (attempts), failures }]. failures has one row for each class of failure in the last 24'
  ' hours, latest first: [{ failure, failed, lastAt }].';

comment on function private.list_provider_routes(text[], integer) is
  'Returns a page of the enabled models, each with its routes in order. hasPrice is whether a route has the price that'
  ' calls need (ai.open_prices). failedLastHour and lastFailure describe failed attempts, which are kept for seven '
  'days. The argument after is sortsAs of the last model on the previous page. Without page_size, returns all models.';

comment on function private.list_provider_usage(date, date) is
  'Returns the usage of each provider and billing account in all workspaces between two UTC days, inclusive, highest '
  'cost first: [{ provider, billingName, billingAccount, requests, failed, inputTokens, outputTokens, costUsd }].';

comment on function private.list_route_prices() is
  'Returns the routes of all models with their prices: [{ model, displayName, providerId, providerModel, prices }]. '
  'Each price is private.describe_price with latest (private.latest_price). For each service tier and input size, '
  'prices has only the current price. Without a current price, it has the next one, and otherwise the last one.';

comment on function private.list_sign_in_methods(uuid) is
  'Returns an account''s ways to sign in: { password, passkeys, identities: [{ id, provider, email, createdAt, '
  'lastSignInAt, unconfirmed }] }, or null if the account does not exist. unconfirmed: the identity was added by a '
  'direct call to Supabase Auth, so our pages don''t accept it for sign-in. Excludes identities that our pages are '
  'still linking.';

comment on function private.list_skipped_routes(integer) is
  'Returns the routes that runs of the last 15 minutes skipped during a cooldown, latest first: [{ model, displayName,'
  ' provider, providerModel, skipped (number of times), lastAt }]. Derived from runs, because only the memory of the '
  'gateway''s functions holds the cooldowns.';

comment on function private.list_workspaces_by_app_session(bytea, text[], integer) is
  'Returns {workspaces: […]} or {refused}. The list is a page of the workspaces of the session''s user, in the format '
  'of public.list_workspaces. If page_size is null, the list contains all of them.';

comment on function private.live_app_session(bytea) is
  'Returns the session for a token''s hash. Also accepts the previous token within its grace period. Does not check '
  'whether the proof is still valid. For definers; not granted to any role.';

comment on function private.live_openid_token(bytea) is
  'Returns a valid access token with its login and the scopes that the client''s registration still allows. Does not '
  'check the login''s proof. For definers; not granted to any role.';

comment on function private.lock_accounts(uuid[]) is
  'Locks accounts, so that changes to the same account run one after another. Lock accounts before their browsers, '
  'challenges and sessions.';

comment on function private.lock_app_credentials(uuid) is
  'Locks a person''s account, so that refreshes and revocations of the person''s app credentials wait for each other. '
  'Must be called before any of these credentials is read. Otherwise the successor from a refresh in progress would '
  'survive the revocation of its token. For definers; not granted to any role.';

comment on function private.lock_approvable_workspace(jsonb) is 'Locks the workspace that a change names, and returns it. Returns null if there is none.';

comment on function private.lock_open_request(jsonb, uuid) is
  'Locks the workspace''s open request that the admin saw, which requestedAt identifies. Returns false if that request'
  ' is no longer open.';

comment on function private.log_workspace_change(uuid, text, uuid, text, jsonb) is 'Adds an entry to a workspace''s audit log.';

comment on function private.log_workspace_row() is 'Logs a change to a row that belongs to a workspace.';

comment on function private.mail_pause() is
  'Returns how long the link in an email is protected from being replaced by a newer email of the same kind. The time '
  'is long enough to receive the email, open it and use the link. Must equal max_frequency in supabase/config.toml.';

comment on function private.mail_wait(text, text, uuid) is
  'Returns how much longer the link in an account''s newest email of a kind is protected from being replaced. Returns '
  'null if the protection has ended or the account has no email of that kind. Includes emails requested directly from '
  'the identity backend.';

comment on function private.may_be_unproven(auth.users) is
  'Returns whether an account may have been created by a person other than the email''s owner. Used when the email is '
  'confirmed.';

comment on function private.may_change_access(uuid, uuid) is
  'Returns whether a session has proved enough to remove entries from the list of private.account_access. For '
  'definers; not granted to any role.';

comment on function private.may_change_apps(jsonb) is
  'Returns whether a change to an app is allowed. Its actor must be an infrastructure admin, or null for the command '
  'line.';

comment on function private.may_review_authenticators(uuid, uuid) is
  'Returns whether a session may keep or remove authenticators without proving one. True if no authenticator is '
  'required, all of the account''s authenticators are unconfirmed additions, and the session began with a password '
  'reset or recovery in the last ten minutes. Without this exception, an attacker who knew the password could lock the'
  ' owner out by enrolling an authenticator.';

comment on function private.mfa_claims(jsonb) is
  'Returns only the token claims that the required-MFA rule reads. A challenge stores these claims of its approver.';

comment on function private.mfa_recovery_state(uuid, uuid) is
  'Returns { left, createdAt, unfinished }: the number of unused codes of a user, when the codes were created, and '
  'whether the session has used a code without completing the recovery.';

comment on function private.mfa_verification_attempt(jsonb) is
  'Hook that the identity backend calls after each check of a second factor, with { metadata, user_id, factor_id, '
  'factor_type, valid }. A rejection ends all of the user''s sessions, so the hook rejects only under attack: after '
  'ten failures in 15 minutes, from any addresses.';

comment on function private.mint_cross_app_token(bytea, jsonb, text) is
  'Stores a handoff token for the facts of private.required_mfa_proof, with the web server''s signature over them. '
  'Returns false if the app has been disabled since the facts were read.';

comment on function private.model_version(text) is
  'Returns a digest of a model''s settings and routes. A request to change the model names the version that the admin '
  'saw, so a concurrent change is detected.';

comment on function private.move_workspace(jsonb) is
  'Moves a workspace to another plan. Each credit account keeps its balance, and calls in progress are charged to the '
  'account with which they began. The change is { actor, workspace, seen (the plan that the admin saw), plan, reason, '
  'requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself (the actor''s personal workspace) | '
  'no_plan (the plan is unknown, or is already the workspace''s plan) | conflict (with last) }.';

comment on function private.my_assignable_role_ids() is
  'Returns the ids of the roles that the caller may assign to members and withdraw from them. Excludes roles with '
  'permissions that the caller''s role lacks, to prevent self-promotion. Includes the owner role only if the caller is'
  ' an owner who proved their identity in the last ten minutes.';

comment on function private.my_coworker_ids() is 'Returns the ids of the people who share a workspace with the caller.';

comment on function private.my_owned_workspace_ids() is 'Returns the ids of the workspaces that the caller owns.';

comment on function private.my_workspace_ids() is
  'Returns the ids of the caller''s workspaces, except deleted ones.';

comment on function private.my_workspace_ids_with_permission(public.workspace_permission) is
  'Returns the ids of the workspaces in which the caller''s role has the given permission.';

comment on function private.my_workspace_permissions() is 'Returns the caller''s permissions in each workspace.';

comment on function private.open_account_device(uuid, text) is
  'Returns the result of device_state, with the active account''s encrypted session added. Returns null for an unknown'
  ' device.';

comment on function private.open_openid_authorization(text, text, text[], jsonb) is
  'Describes an authorization request without changing anything. Returns {client: {name, displayName, enabled}, '
  'redirectAllowed, scopes, session: {authTime, consented} | null}, or null for an unknown client. session is null '
  'without claims, or if a code would be refused to the claims'' session.';

comment on function private.openid_authentication_of(jsonb, private.mfa_proof, boolean) is
  'Returns the claims auth_time, acr and amr (RFC 8176) of a session. auth_time is the time of the latest sign-in or '
  'second factor. by_approval is true if the second factor was proved on a phone.';

comment on function private.openid_scopes(uuid, text[]) is
  'Returns the requested scopes that are registered for an OpenID client. Drops all others.';

comment on function private.passkey_exists(text) is
  'Returns whether any account has a passkey with this credential id (hexadecimal). Supabase Auth gives the same '
  'answer for an unknown passkey and for a wrong signature. A browser that is wrongly informed that a passkey is '
  'unknown deletes a working passkey.';

comment on function private.password_verification_attempt(jsonb) is
  'Hook that the identity backend calls after each password check, with { metadata, user_id, valid }. Admits attempts '
  'on our own routes, which were already counted. Limits direct attempts per account, and per account and address.';

comment on function private.pending_email_change(uuid) is
  'Returns an account''s pending email change, { email, newEmail, sentAt, agreed }, or null. agreed is the mailbox '
  'that has already confirmed the change: current, new, or null.';

comment on function private.pending_mobile_approvals(jsonb) is
  'Returns { outcome: listed, approvals: [{ id, createdAt, expiresAt, metadata }] } with the account''s requests that '
  'wait for approval, or { outcome: mfa_required } if the phone''s session is not at AAL2. Never includes the pair '
  'code, which is stored only as a hash.';

comment on function private.personal_workspace_name(text) is
  'Returns the initial name of a personal workspace. Its owner can change the name. For definers; not granted to any '
  'role.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.preserve_required_mfa_policy()') is not null then
    comment on function private.preserve_required_mfa_policy() is
      'Preserves the stored MFA policy when the identity backend writes back metadata. The backend reads the metadata '
      'without a lock, so a sign-in could otherwise undo a policy change. Only private.write_required_mfa_policy may '
      'change the policy; it sets gatehouse.required_mfa_writer in its transaction.';
  end if;
end
$guard$;

comment on function private.preview_costs_as_operator(uuid, uuid, jsonb) is
  'Returns ai.describe_cost_file for the operator''s command line, or { outcome: app_not_linked }. Uses the '
  'platform''s book if workspace and app are null.';

comment on function private.preview_handoff(uuid) is
  'Returns the name and email that "Continue as …" shows before a token is redeemed. The web server takes the user '
  'from a proof that it has checked.';

comment on function private.preview_platform_costs(jsonb) is 'Returns ai.describe_cost_file for the platform''s book, for the console.';

comment on function private.primary_methods() is 'Returns the amr methods that sign a person in.';

comment on function private.proof_status(private.mfa_proof) is
  'Returns good, over, mfa_required or unavailable. over means that the session or account ended, the policy changed, '
  'or the factor was removed. unavailable means that the policy can''t be read. For definers; not granted to any role.';

comment on function private.protect_table(regclass) is
  'Enables row-level security on a table and adds the restrictive policy. Call it for each table or partition that is '
  'created later.';

comment on function private.proven_metadata(auth.users) is
  'Returns the metadata for a newly confirmed account: the data of a provider that verified the email, and the members'
  ' that Auth writes itself.';

comment on function private.queue_event_mail(public.security_events, text) is
  'Queues the email to an account''s owner about an event. Does nothing if the owner has no email address.';

comment on function private.queue_logouts(uuid, uuid, uuid) is
  'Queues a notice for each live login of an account. If a session or factor is given, includes only logins that '
  'depend on it. Call it before the change that ends the logins. For definers; not granted to any role.';

comment on function private.queue_logouts_before_change() is
  'Queues notices for the logins that a change to a session, a factor or an account is about to end.';

comment on function private.queue_revoked_login() is
  'Queues a notice for a revoked login. The trigger''s argument names the column that contains the login''s sid.';

comment on function private.read_address_block(uuid) is 'Returns a block in the format of private.describe_address_block; null if the block doesn''t exist.';

comment on function private.read_app(text, text[], integer) is
  'Returns private.describe_app of an app with a page of its workspaces (private.linked_workspaces) and its version. '
  'The version is the id of the app''s last line in the audit log.';

comment on function private.read_console_workspace(uuid) is
  'Returns a workspace for the console, with its name, plan, owners, members, balance, keys and key approval. Returns '
  'null for an unknown workspace.';

comment on function private.read_credit_account(text, uuid, bigint, integer) is
  'Returns the credit account of a workspace or member with a page of its ledger, newest first: { payer, id, name, '
  'personalUserId, plan, account, entries }. Returns null for an unknown owner. plan is null if no plan currently '
  'charges the account, and account is null if it is not open yet.';

comment on function private.read_device_authorization(text, uuid) is
  'Returns a device''s request for a page or a phone: {userCode, state: pending | approved | denied | expired, app, '
  'scopes, userAgent, address, place, createdAt, expiresAt}. Returns null for an unknown code. Callers must limit the '
  'number of guesses.';

comment on function private.read_login_challenge(jsonb) is
  'Returns the state of the challenge { id, kind, secretHash, sessionId } to the session that began the challenge or '
  'to the session that was minted for it. Returns { outcome: known, status, expiresAt, validUntil, mintedSessionId }, '
  '{ outcome: not_found } for a wrong id or secret, or { outcome: forbidden } for any other session.';

comment on function private.read_model(text) is
  'Returns private.list_catalogue_models of one model with its version (private.model_version), settings, routes in '
  'order, plans and workspaces. plans has all plans, whether each is granted the model, and the number of its '
  'workspaces, counted up to 1,001. workspaces has the first 100 workspaces that were granted the model separately '
  'from their plan.';

comment on function private.read_openid_client(text) is
  'Returns an OpenID client with its version, or null. A request to change a client names the version that its author '
  'saw, so that a concurrent change is detected.';

comment on function private.read_openid_logout(text, text, uuid, uuid) is
  'Describes a sign-out that a client requests. Returns {displayName, redirectAllowed, ofSession}, or null for an '
  'unknown client. ofSession is true if the login of the ID token began in the given session.';

comment on function private.read_openid_userinfo(bytea) is
  'Returns the claims about a person that an access token allows its holder to read (OpenID Connect Core 1.0 section '
  '5.3), or {refused: token | scope | unavailable}.';

comment on function private.read_platform_cost_import(uuid) is
  'Returns ai.cost_import_receipt for the platform''s book, for the console.';

comment on function private.read_platform_invoice(uuid) is 'Returns ai.read_invoice for the platform''s book.';

comment on function private.read_qr_request(jsonb) is
  'Returns a QR challenge { id, secretHash, userId, sessionId } for display on the phone before the user decides. '
  'Returns { outcome: known, id, status, createdAt, expiresAt, metadata }, { outcome: not_found } for a wrong id or '
  'secret, or { outcome: forbidden } if the phone uses another account or the session that requested the handoff.';

comment on function private.read_run(uuid) is
  'Returns ai.run_detail of a run in any workspace, with the workspace, the member''s email address and the billing '
  'account. Includes what the workspace hides from its members. Returns null if the run does not exist.';

comment on function private.read_signing_keys() is
  'Returns the published keys, newest first: [{kid, publicJwk, sealedPrivateJwk, sealingKeyId, signs}]. signs is true '
  'for at most one key.';

comment on function private.read_workspace_by_app_session(bytea, uuid) is
  'Returns {workspace} or {refused}. refused is not_found if the session''s user is not a member of the workspace; '
  'otherwise it comes from private.find_app_caller.';

comment on function private.reconcile_platform(date) is
  'Returns ai.reconciliation_page of the platform''s book for the month that contains the given date: { outcome: '
  'listed, month, totals, clashes, records }.';

comment on function private.record_account_change() is
  'Records a new password, a requested or completed change of email, a ban, and the end of a ban. A completed change '
  'of email is announced to both addresses.';

comment on function private.record_addition(uuid, text, uuid, boolean, jsonb) is
  'Records an added identity, passkey or authenticator. Marks the addition as unconfirmed if our server did not '
  'announce it.';

comment on function private.record_admin_action(jsonb, jsonb) is
  'Adds one line to the audit log in the transaction of the change. The argument change has actor, reason, requestId '
  'and ip; act has action, targetUserId, target, before and after.';

comment on function private.record_app_change(private.apps, text, text, uuid) is
  'Adds an entry about an app to the audit log. If actor is null, the change was made from the command line.';

comment on function private.record_authenticator_added() is 'Records a newly verified factor. Rejects an unannounced factor if the account already has another one.';

comment on function private.record_passkey_added() is 'Records a newly registered passkey. Rejects an unannounced passkey if the account has a verified factor.';

comment on function private.record_platform_invoice(jsonb) is
  'Stores an invoice that a provider issued to the platform. The change is { actor, record, reason, requestId, ip }. '
  'Returns the result of ai.store_provider_invoice or { refused: forbidden }.';

comment on function private.record_recovery_event(jsonb) is
  'Records an event: { kind, outcome, email, overrideId, credentialId, userId, actor, ip, userAgent, requestId }. Only'
  ' kind and outcome are required.';

comment on function private.record_security_event(jsonb) is
  'Adds an event to an account''s activity, or completes an event that a trigger added. Takes { userId, kind, method, '
  'sessionId, ip, userAgent, device, place, details }. Returns { id, createdAt }, or null if the account doesn''t '
  'exist. Makes the emails about the event due.';

comment on function private.record_sign_in() is
  'Records a new session as a sign-in. Queues an email to the owner if the sign-in comes from a new location.';

comment on function private.record_sign_outs() is
  'Records sign-outs at the backend. Adds one event per account and statement.';

comment on function private.record_unconfirmed_identity() is
  'Records an identity that was added to an account in use. An identity with the account''s own verified address is '
  'confirmed, because the backend linked it at a sign-in. Any other identity that our pages did not link is rejected '
  'if the account has a verified factor.';

comment on function private.record_verified_address(bytea) is
  'Records that an account signed in from an address. The record is valid for 30 days.';

comment on function private.recovery_actor_refusal(jsonb, text) is
  'Returns the reason why the actor may not change the recovery of an email: forbidden or oneself. Returns null if the'
  ' change is allowed. Records a refusal. For definers; not granted to any role.';

comment on function private.recovery_code_salt(text, bytea) is
  'Returns the salt, in hex, for hashing a code that was entered for an email. If the email has no valid code, returns'
  ' a made-up salt, so that the responses are indistinguishable.';

comment on function private.recovery_overview(text) is
  'Returns what the console shows about an email: { email, account, overrides, events, codes, counters }. counters are'
  ' the partly used rate limits that apply to the email only. Never includes a link or a code.';

comment on function private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea) is
  'Redeems an authorization code only once. Returns the same result as private.issue_openid_tokens, or {refused: '
  'unauthenticated | token | unavailable}. code_challenge is the hash of the code verifier. A second use is refused '
  'and revokes the login that the first use opened.';

comment on function private.redeem_cross_app_token is
  'Redeems a handoff token once and opens its sessions. Returns {app, central?}, each {id, handoff, audience, user, '
  'factor, issuedAt, expiresAt}, or {refused: unauthenticated | token | unavailable}. facts is the content of the '
  'proof. The web server has checked the proof''s signature.';

comment on function private.redeem_device_code(text, bytea, bytea, bytea, bytea) is
  'Handles a device''s poll. Redeems an approved request only once and returns the same result as '
  'private.issue_openid_tokens. Otherwise returns {refused: authorization_pending | slow_down (the interval has grown '
  'by 5 s) | access_denied | expired_token | token (the code is unknown, already redeemed or another client''s) | '
  'unauthenticated | unauthorized_client | unavailable}.';

comment on function private.refresh_app_session(text, bytea, bytea, bytea) is
  'Replaces a session''s token with its successor. Returns {id, handoff, audience, user, factor, issuedAt, expiresAt} '
  'or {refused: unauthenticated | token | unavailable}. Within 30 s, repeated use returns the same result. The web '
  'server derives the successor from the token with a key, so all callers pass the same successor.';

comment on function private.refresh_app_token is
  'Exchanges a refresh token for the next token pair. Returns {user, workspace, scopes, expiresAt} or {refused: '
  'unauthenticated | token | scope | workspace | unavailable}. Within 30 s, repeated use returns the same result; '
  'later reuse revokes the token family. The web server derives the next pair from the token with a key, so all '
  'callers pass the same pair.';

comment on function private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea) is
  'Exchanges a refresh token for the next tokens. Returns the same result as private.add_openid_tokens, or {refused: '
  'unauthenticated | token | scope | unavailable}. Within 30 seconds, repeated use returns the same result; later '
  'reuse revokes the login. scopes may limit the new access token to some of the login''s scopes. The web server '
  'derives the next refresh token from the current one with a key.';

comment on function private.register_app is
  'Registers an app with its origins and first secret. Does not check permissions, because its callers do: the console'
  ' and the command line, which run on our server.';

comment on function private.release_mfa_code(text, uuid, boolean) is
  'Releases the claim on a code that was not successfully verified. Pass false for verified if the code was wrong, so '
  'that it can be claimed again. Pass null if Supabase Auth did not respond, so that only the same session can claim '
  'it again.';

comment on function private.release_mint_lease(uuid) is
  'Releases a lease. Does nothing if the lease has expired and another caller has taken a new one.';

comment on function private.release_qr_challenge(uuid) is
  'Resets a claimed challenge to approved. Only the caller that claimed the challenge may call this, and only if no '
  'session was minted.';

comment on function private.release_recovery_credential(uuid) is
  'Makes a consumed credential usable again. Only the request that consumed the credential may call this, and only if '
  'it certainly created no session. A credential that was used before stays limited to its browser.';

comment on function private.remove_identity(uuid) is
  'Removes an identity from its account, and its provider from the account''s application metadata. For definers of '
  'this schema only.';

comment on function private.remove_password(uuid) is
  'Removes a user''s password. Supabase Auth itself stores an empty hash for a user without a password.';

comment on function private.remove_unproven_password(text, text) is
  'Removes the password of an unconfirmed account before a mailed link confirms the account. Otherwise the person who '
  'signed up with the email could sign in as soon as the email''s owner confirms it.';

comment on function private.rename_workspace_by_app_session(bytea, uuid, text) is
  'Renames a workspace if the session''s user may manage its settings. Returns {workspace} with the new name, or '
  '{refused}. refused is not_found, forbidden, or comes from private.find_app_caller.';

comment on function private.replace_invitation() is
  'Replaces an open invitation to the same workspace and email with the new one, if the inviter could withdraw the '
  'open invitation. If the open invitation is younger than private.mail_pause(), its link stays valid and the new '
  'invitation fails with 23505.';

comment on function private.replace_mfa_recovery_codes(uuid, text[]) is
  'Replaces all recovery codes of a user. The new codes are given as hex hashes. An empty list deletes all codes.';

comment on function private.replace_signing_key(text, jsonb, text, text, text) is
  'Adds a key that signs from now on: the first key or, if `replaces` is given, the replacement for that key, which '
  'cannot be decrypted. Earlier keys stay published for one day. Returns false if another caller has added a key '
  'first.';

comment on function private.replace_workspaces(uuid) is
  'Closes the workspaces that have no other owner, removes the account from all other workspaces, revokes the keys '
  'that it created, and creates a new personal workspace. Does nothing if the account has only its personal workspace '
  'and never used it. For definers; not granted to any role.';

comment on function private.require_password_replacement(uuid, uuid) is
  'Restricts a session, so that it can only replace its account''s password until the password changes. Also deletes '
  'the rows of ended sessions.';

comment on function private.require_workspace_owner() is
  'Raises PT409 if the last owner leaves or loses the owner role. The Data API returns this error as 409.';

comment on function private.required_mfa_generation(jsonb) is 'Returns the generation of the account''s current policy; null before the first policy.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.required_mfa_of(uuid)') is not null then
    comment on function private.required_mfa_of(uuid) is
      'Returns what the console shows about an account before an admin changes its policy: { id, email, state, policy, '
      'generation, authenticators, enforced, lastChange: { action, actorEmail, at } }. Returns null for an unknown '
      'account.';
  end if;
end
$guard$;

comment on function private.required_mfa_proof(jsonb, text, integer) is
  'Returns what a session has proved, given the session''s verified claims, for the web server to sign. Returns {user,'
  ' target, targetId, session, factor, secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt} or '
  '{refused: unauthenticated | mfa_required | unavailable | not_found}. secondFactorAt and primaryAt are in seconds '
  'since 1970; validUntil, issuedAt and expiresAt are timestamps. If the proof depends on a mobile approval, '
  'validUntil is when the approval expires; otherwise it is null.';

comment on function private.required_mfa_state(jsonb) is
  'Returns the state of an account''s policy: optional, required, recovery_in_progress or malformed. In the last two '
  'states, every session is refused.';

comment on function private.reseal_signing_key(text, text, text, text) is
  'Replaces the encrypted form of a private key with one that is encrypted by the current secret. Returns false if '
  'another caller has already replaced it.';

comment on function private.review_platform_invoice(jsonb) is 'Returns ai.invoice_review for the platform''s book.';

comment on function private.revoke_app_credential(text, bytea, bytea) is
  'Revokes an app session, or an access or refresh token for the gateway, with everything from the same handoff. Does '
  'nothing if the token does not belong to the app (RFC 7009). Returns false if the app did not authenticate.';

comment on function private.revoke_app_credentials() is
  'Revokes all credentials of an app permanently. Enabling the app again does not restore them.';

comment on function private.revoke_cross_app_tokens(uuid) is
  'Revokes all outstanding handoff tokens of a user. Returns how many it revoked. The web server takes the user from '
  'verified claims.';

comment on function private.revoke_openid_token(text, bytea, bytea) is
  'Revokes an access token or, if given a refresh token, the whole login (RFC 7009). Does nothing for another '
  'client''s token. Returns false if the client did not authenticate.';

comment on function private.revoke_recovery_override(jsonb) is
  'Revokes an override. Takes { actor, overrideId, reason, ip, userAgent, requestId }. Returns {} or { refused: '
  'forbidden | oneself | not_found | inactive }. Every link and code that was sent under the override becomes invalid.';

comment on function private.revoke_user_app_credentials() is
  'Revokes all app credentials of a user permanently. Lifting a ban does not restore them.';

comment on function private.rotate_app_secret is
  'Gives an app a new secret. The earlier secrets expire after the overlap. Returns the time when they expire, or null'
  ' if the app doesn''t exist.';

comment on function private.satisfies_required_mfa(jsonb, jsonb, boolean, boolean, bigint, bigint) is
  'Returns whether the given facts satisfy required MFA. Reads no tables, so that test vectors can run it. '
  'approval_second is null if no approval is bound to the session.';

comment on function private.save_model(jsonb) is
  'Edits a model, or adds a disabled model if version is null. The change is { actor, model, version '
  '(private.model_version), displayName, ownedBy, studioDefault, contextWindow, outputLimit, voices, reason, '
  'requestId, ip }. A new model also has kind. An edit also has isDefault and defaultOfKind, the id of the default '
  'model that it replaces, or null. Returns {} or { refused: forbidden | not_found | id_taken | invalid | '
  'default_changed | conflict (with last) }.';

comment on function private.save_plan(jsonb) is
  'Adds or edits a plan. The change is { actor, plan, seen (the version that the admin saw, or null to add a plan), '
  'name, payer, markup, initialCredits, lowCredits, requestsPerMinute, tokensPerMinute, reason, requestId, ip }. Runs '
  'in progress keep the markup with which they began. Returns {} or { refused: forbidden | not_found | taken | '
  'payer_fixed (a credit account already pays for the plan) | conflict (with last) }.';

comment on function private.search_accounts(text, integer) is
  'Returns the accounts with the given id or full email. If there are none, returns the accounts with the text in '
  'their email or name. The result is [private.describe_account].';

comment on function private.search_audit_log(jsonb, jsonb, jsonb, integer) is
  'Returns a page of the audit log, newest first. The reader is a token''s verified claims; returns null if the reader'
  ' may no longer read the log. The filters are action (a prefix of the action), actor (part of an email address), '
  'target (part of an email address or name, or a user''s id), from and to (exclusive). The argument before is { '
  'createdAt, id } of the last line on the previous page.';

comment on function private.search_workspaces(text, integer) is
  'Finds workspaces by id, or by a member''s full email address or id. If nothing matches, finds them by part of the '
  'name. An empty term finds the workspaces that may create keys. Returns [{ id, name, plan, personalUserId, owners, '
  'members, liveKeys, approvedAt, approvedBy, request }]. request is the open request, { requestedAt, requestedBy, '
  'note }, or null.';

comment on function private.second_factor_methods() is 'Returns the amr methods that prove a second factor.';

comment on function private.secret_after_addition(text, text) is
  'Returns the device secret that applies after an account is added. It is derived from the previous device secret and'
  ' the sign-in''s secret, so an attacker who plants only one of them cannot compute it.';

comment on function private.secret_hash(text) is 'Returns the SHA-256 of a secret. Secrets have 256 random bits, so no slow hash is needed.';

comment on function private.serialize_account_deletions() is
  'Makes account deletions wait for each other before they lock any row. Otherwise they could deadlock, because two '
  'accounts may be named in each other''s rows, even in workspaces that one of them has left.';

comment on function private.session_facts(jsonb) is
  'Returns the current facts about a token''s session. Returns no row if the session has ended or belongs to another '
  'user. Includes a mobile approval only if the claims prove that the browser holds the approval''s cookie.';

comment on function private.session_is_fresh() is
  'Returns whether the caller proved their identity within the last ten minutes: with the second factor if one is '
  'enrolled, otherwise by a sign-in. Our pages have the same step-up rule. This function applies it to changes that '
  'can be made without our pages.';

comment on function private.session_proof(jsonb) is
  'Returns one row with what a session has proved, given the session''s verified claims. refused is unauthenticated, '
  'mfa_required, unavailable or null. If the proof depends on a mobile approval, valid_until is when the approval '
  'expires; otherwise it is null. For definers; not granted to any role.';

comment on function private.session_satisfies_mfa(jsonb) is
  'Returns whether the session with these verified claims satisfies required MFA. Not granted to any role, because it '
  'trusts the claims.';

comment on function private.session_second_factor(jsonb) is
  'Returns { factorId, second } if the session is at AAL2 by its own second factor: the factor, and the second at '
  'which it was proved. Null for any other session.';

comment on function private.session_used_method(uuid, text) is
  'Returns whether a session signed in with the given method of Supabase Auth. For definers; not granted to any role.';

comment on function private.set_app_logout_url(text, text, text, uuid) is
  'Sets the URL that is called when a login at an app has ended. Works for every kind of app. Null turns these calls '
  'off. Returns false for an unknown app.';

comment on function private.set_infrastructure_admin(text, boolean, text) is
  'Grants or withdraws access to the console. Returns changed, unchanged or no_account. Only the operator''s command '
  'line calls this function, so admins cannot create other admins. Writes each change to the audit log without an '
  'actor.';

comment on function private.set_key_approval(jsonb) is
  'Allows a workspace to create keys, or withdraws the approval. The change is { actor, workspace, approved, reason, '
  'requestedAt, email: { subject, text }, requestId, ip }. An approval also closes an open request and sends the '
  'email. Existing keys keep working after a withdrawal. Returns {} or { refused: forbidden | not_found | oneself (the'
  ' actor''s personal workspace) | conflict (nothing to change, with last) | request_gone (no open request has this '
  'requestedAt) }.';

comment on function private.set_model_enabled(jsonb) is
  'Enables a model for callers with a plan that grants it, or disables it for all callers. The change is { actor, '
  'model, enabled, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict (nothing to '
  'change, with last) }.';

comment on function private.set_model_grant(jsonb) is
  'Grants a model to a plan or to one workspace, or withdraws the grant. The change is { actor, model, plan or '
  'workspace, granted, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | no_grantee | oneself '
  '(the actor''s personal workspace) | conflict (nothing to change, with last) }.';

comment on function private.set_session_sign_in_time(uuid, timestamptz) is
  'Sets the time of a minted session to the time of the sign-in from which it was derived. Tokens that are issued for '
  'the session afterwards carry that time.';

comment on function private.sign_account_out(jsonb) is
  'Signs an account out of every device and app and notifies the account''s owner. Takes { actor, subject, reason, '
  'requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself }. Idempotent.';

comment on function private.sign_in_account(jsonb) is
  'Adds a sign-in to a browser''s accounts. If the browser already has the account, replaces its session and ends the '
  'old one. The account becomes active, and the device gets a new secret. Takes { deviceId, secret, nextHash, '
  'secondNextHash (hex), userId, sessionId, sealed, keyId, tag, inPlaceOf }. Without secret, creates the device. '
  'Returns { status: kept | unknown | full | over, successor }. successor is 1 if the next secret after the presented '
  'one is now valid, 2 if the second next is. If inPlaceOf is given, the new session continues that session, and an '
  'account that the browser has switched to since stays active. over means that the browser has signed out of that '
  'session or has another one.';

comment on function private.sign_in_event(uuid, uuid) is
  'Returns the id of the event that recorded the sign-in of a session; null if there is none. For definers; not '
  'granted to any role.';

comment on function private.sign_out_account(uuid, text, uuid) is
  'Signs one account out of a browser and ends its session there. The result''s next lists the accounts that can '
  'become active, last used first.';

comment on function private.sign_out_device(uuid, text) is
  'Signs a browser out of all its accounts: ends all their sessions and deletes the device. Returns the sessions that '
  'were still alive: [{ userId, sessionId }]. Returns null for an unknown device.';

comment on function private.sign_out_everywhere(uuid, uuid) is
  'Signs an account out of every device and app, records the event, and notifies the owner. Returns how many sessions '
  'ended. Concurrent calls record only one event.';

comment on function private.sign_out_scope(text) is
  'Returns the scope of a sign-out (local, others or global), derived from the statement with which Supabase Auth ends'
  ' sessions. Returns null for every other statement, such as a cleanup or one that ends sessions below an assurance '
  'level.';

comment on function private.signing_key_is_due() is
  'Returns whether to publish the next key, which is due 89 days after the newest key has begun to sign. False if no '
  'key exists yet.';

comment on function private.start_over() is
  'Resets an account to the state of a new account when its email is confirmed for the first time. Removes the '
  'sessions, passkeys, authenticators, unproven identities, pending email change, app sessions and keys that were '
  'added before. Resets the profile and replaces used workspaces. Also removes the password if the account was signed '
  'in to before.';

comment on function private.store_account_session(jsonb) is
  'Replaces an account''s stored session with its rotated session. Takes { deviceId, userId, sessionId, expectedTag, '
  'sealed, keyId, tag, lastRoute }. Without sealed, records only that the session was used. Returns { kept: true }, or'
  ' { kept: false, current } if another rotation came first. The caller then adopts current.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.studio_refusal(bytea, uuid)') is not null then
    comment on function private.studio_refusal(bytea, uuid) is
      'Returns why a satellite''s session may not read a workspace''s AI Studio. Returns null if it may. For definers; not'
      ' granted to any role.';
  end if;
end
$guard$;

comment on function private.sweep_account_devices() is
  'Ends sessions that a browser has not used for 30 days, and sign-ins that the browser never presented. Removes '
  'accounts from a vault after 90 days. Deletes devices that have expired or hold no account. Returns the number of '
  'deleted devices.';

comment on function private.sweep_app_credentials(integer) is
  'Deletes app credentials a day after they end, up to at_most of each kind. Returns how many it deleted; 0 while '
  'another sweep runs.';

comment on function private.sweep_login_challenges(integer) is
  'Deletes up to at_most challenges that expired more than an hour ago. Keeps bound approvals until they are no longer'
  ' valid. Returns the number of deleted challenges; 0 while another sweep runs.';

comment on function private.sweep_oauth_attempts(integer) is
  'Deletes up to at_most expired attempts, and up to at_most identities that were never confirmed by completing a '
  'link. Returns the number of deleted rows; 0 while another sweep runs.';

comment on function private.sweep_recoveries(integer) is
  'Deletes credentials that expired more than a day ago, guesses that no longer count, and expired leases, up to '
  'at_most of each. Returns the total number of deleted rows; 0 while another sweep is running.';

comment on function private.take_additions(uuid, text, text[]) is
  'Adds the sign-ins with the presented secrets to a browser''s accounts. The newest becomes the active account. If '
  'the browser already had the account, the replaced session ends. Returns { status, secret }: the device secret '
  'derived from the presented secrets, and its status for the device (private.device_secret_status). Adds accounts '
  'only if the status is current. Idempotent: a repeated call returns the same result.';

comment on function private.take_mint_lease(uuid) is
  'Takes the account''s lease for minting a session. Returns { outcome: taken, leaseId, email } to only one caller at '
  'a time, or { outcome: busy | no_account | no_email }. A lease lasts 20 s, which is longer than generating and '
  'verifying a link can take. The caller must use the returned email, because generating a link for an unknown address'
  ' would create an account.';

comment on function private.unlink_identity(uuid, uuid, text[]) is
  'Removes an identity from an account. Returns { outcome: unlinked, provider, email } or { outcome: last_method | '
  'not_unlinkable | not_found }. last_method: no way to sign in would remain. not_unlinkable: the identity is the '
  'account''s own email or phone.';

comment on function private.user_has_workspace_permission(uuid, uuid, public.workspace_permission) is
  'Returns whether a user has a permission in a workspace. For definers that have derived the user from a credential. '
  'Not granted to any role, because it does not check that the id is the caller''s.';

comment on function private.user_workspaces(uuid) is
  'Returns a user''s workspaces. For definers that have derived the user from a credential. Not granted to any role, '
  'because it does not verify the user id.';

comment on function private.uuid_or_null(text) is 'Converts a claim to a UUID. Returns null for any other text, which then matches no row instead of raising an error.';

comment on function private.verify_override_password(jsonb) is
  'Verifies a password under an override. Takes { email, password, ip, userAgent, requestId }. Returns { outcome: '
  'proven, overrideId, userId, banned, confirmed } or { outcome: none (no override with normal login) | wrong | '
  'limited | oneself | unconfirmed }. unconfirmed means that the account is newer than the override and its email was '
  'never confirmed. Records every outcome except none, without the password.';

comment on function private.was_never_enabled(ai.models) is
  'Returns whether a model was added in the console and never enabled. Such a model was never used by a run.';

comment on function private.withdraw_logout(uuid) is
  'Removes the notices about a login. Called after the app has acknowledged a notice, refused it permanently, or ended'
  ' the login itself.';

comment on function private.write_required_mfa_policy(auth.users, jsonb) is
  'Writes an account''s MFA policy and returns it. Applies changes (required, recovery, signInAgain), increments the '
  'generation, and moves the boundary forward to the current second. signInAgain also moves the boundary of primary '
  'methods. For definers that hold the account''s row for update; not granted to any role.';

comment on function public.accept_workspace_invitation(text) is
  'Accepts an open invitation that was sent to the caller''s confirmed email. Returns the workspace''s id. An '
  'invitation can be accepted only once. Raises PT404 for any other token.';

comment on function public.count_role_members(uuid) is
  'Returns the number of members for each role of a workspace. Stops counting at 1,001.';

comment on function public.create_workspace(text) is
  'Creates a workspace with the caller as owner and returns its id. Raises PT409 if the caller has created 20 '
  'workspaces that are not deleted, or 23514 if the name does not have 1 to 80 characters.';

comment on function public.delete_workspace(uuid) is
  'Closes a workspace for all its members. Its keys stop working and it can no longer be read. Runs, ledger entries '
  'and invoices are kept. Raises PT404 if the caller is not a member, or PT403 if the caller lacks '
  'manage_workspace_settings or has not proved their identity in the last ten minutes.';

comment on function public.device_session_state(uuid, text) is
  'Returns the result of session_state and the active account of the browser''s device, read in one statement.';

comment on function public.list_member_emails(uuid) is
  'Returns the email addresses of a workspace''s members that the caller may see: only the caller''s own or, if the '
  'caller manages members, all.';

comment on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) is
  'Returns a page of a workspace''s members: owners first, then by name. The search text matches part of the name or '
  'of a visible email. A role or user id restricts the list further. after contains is_owner, sorts_as and user_id of '
  'the last member on the previous page.';

comment on function public.list_workspaces(text[], integer) is
  'Returns a page of the caller''s workspaces: the personal workspace first, then the others by name. after contains '
  'personal, name and id of the last workspace on the previous page.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('public.required_mfa_enforcement_version()') is not null then
    comment on function public.required_mfa_enforcement_version() is
      'Returns 1 if the trigger, the probe, their privileges and the policy on every table are in place; otherwise 0. '
      'Accounts'' MFA policies can be changed only while it returns 1.';
  end if;
end
$guard$;

comment on function public.session_state() is
  'Returns the facts that must be current on every request, read in one statement: { alive, sessionId, notAfter, aal, '
  'hasVerifiedFactor, mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned, '
  'deleted }, policy: { state, required, satisfied, byApproval } }. Returns { alive: false } if the session has ended.'
  ' policy.state is optional, required, recovery_in_progress or malformed. policy.byApproval is true if the session '
  'satisfies the policy only because of a mobile approval. For an approval by release 0.1.0, the server must also '
  'check the cookie.';

comment on function public.transfer_workspace_ownership(uuid, uuid) is
  'Makes another member the owner, and gives the caller the role with the most permissions below owner. Raises PT403 '
  'if the caller does not own the workspace or has not proved their identity in the last ten minutes, PT404 if the new'
  ' owner is not a member, or PT409 if the new owner is the caller.';

comment on function public.workspace_invitation(text) is
  'Returns the details of the invitation with this token, or null if there is none. token_hash is the token''s SHA-256'
  ' in hexadecimal. Returns { workspaceId, workspaceName, role, email, invitedBy, expiresAt, state: open | accepted | '
  'expired | withdrawn, forYou }.';

comment on view ai.cost_book_entries is
  'Imported costs of all books. provider is the normalized name, and spelling is the stored name.';

comment on view ai.invoice_book_entries is
  'Reviewed invoices of all books. provider is the normalized name, and spelling is the stored name.';
