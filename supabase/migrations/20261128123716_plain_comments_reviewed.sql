-- Generated from supabase/schemas by npm run db:migration.

-- Definer: no role, not even the service role, may change a bucket except through begin and complete.
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

-- Definer: no role, not even the service role, may change a bucket except through begin and complete.
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

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
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

-- Definer: these are Supabase Auth's tables, which the service role cannot write.
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

-- Definer: uses ungranted functions, the identity backend's tables and the registry.
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

-- Definer: the role that writes the registry need not have access to the gateway's tables.
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

-- The API does not check whether the account requires MFA, and cannot in the same transaction.
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

-- Definer: functions about runs are not granted to the service role.
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
  -- Without recent statistics the planner expects one record, and would compare every day with every record.
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
        -- The records that an account day replaces in totals: runs, its own earlier states, and a day total's services.
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
    -- The account day that replaces this record, by the rule of ai.provider_costs_in_totals.
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

-- Definer for the same reason as begin_run.
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

-- Definer for the same reason as begin_run.
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
  -- For the same reason as in begin_run.
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

-- Definer for the same reason as begin_run. A run is identified by the suffix of its id, which the gateway chose.
create or replace function ai.release_orphaned_runs(lost jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- Runs are found by created_at, regardless of how few there were when the plan was made.
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

-- Definer: the policy is in the identity backend's table, which the service role cannot write. The actor's id comes
-- from a session that our server verified, since only our server has the service role. Our server also checks
-- REQUIRED_MFA_POLICY_ENABLED before it calls. The database does not know this switch, and enforcement ignores it.
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

-- Definer: applies the required-MFA rule to the requesting session.
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

-- Definer for the same reason as open_openid_authorization.
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

-- Definer: reads in the identity backend's tables what the session has proved.
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

-- Definer: the functions for client secrets and proofs are not granted to any role.
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

-- Definer: the functions for client secrets and proofs are not granted to any role.
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

-- Definer for the same reason as redeem_authorization_code.
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
  -- Fixes every setting that changes how Postgres prints a definition.
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

-- Definer for the same reason as take_additions.
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

-- In PL/pgSQL, because it plans only the expressions it reaches, and nearly every request presents the current secret.
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

-- Definer: the service role may not lock the identity backend's tables.
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

-- Our servers create new devices with this function. Servers of 0.1.0 also add accounts to known devices with it.
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

-- Definer: identities are in Supabase Auth's tables. Supabase Auth's own call would refuse if one identity remains with
-- a password or a passkey, would allow it if what remains does not work, and would give the account another identity's
-- address. Another way to sign in could also be removed between our count and its deletion.
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

-- Definer for the same reason as complete_oauth_attempt.
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

-- Definer: passkeys are in Supabase Auth's tables, which the service role cannot read. The backend's own call could
-- leave an account without a way to sign in. Another way could also be removed between our count and its deletion.
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

-- Definer for the same reason as private.list_agents.
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

-- Definer for the same reason as private.list_agents.
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

-- Definer: the service role cannot write alerts, or read the identity backend's addresses.
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

-- Definer: the service role cannot write alerts or read the identity backend's addresses.
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

-- Definer for the same reason as ai.read_usage.
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

-- Definer for the same reason as ai.read_usage.
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

-- Definer for the same reason as ai.issue_key.
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

-- Like ai.sum_usage, this is inlined into its callers' plans.
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

-- Like ai.sum_usage, this is inlined into its callers' plans.
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

-- Definer for the same reason as ai.read_workspace_policy; and the service role cannot write budgets.
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

-- Definer: two roles change in one statement, which the policies would check one by one.
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

comment on function ai.account_workspaces(ai.platform_part[], text) is
  'Returns the workspaces whose runs name an account, or all for null, at most 100: [{ workspaceId, name, meteredUsd, '
  'daysWithoutRuns }]. daysWithoutRuns are the days whose bill is above what was metered; the workspaces with the most'
  ' come first.';

comment on function ai.agent_key_status(uuid) is
  'Returns whether the keys of a connection work: good; over (the connection was revoked, its login has ended, or its '
  'member has left or lost the permission); mfa_required or unavailable as in private.proof_status.';

comment on function ai.agent_login_end(uuid) is
  'Returns until when a login may have keys, or null if it no longer may. Does not check the login''s MFA proof.';

comment on function ai.agent_name(text) is 'Returns a coding agent''s display name.';

comment on function ai.agent_of_key(ai.keys) is
  'Returns the coding agent that renews a key: { tool, host, endsAt }. endsAt is when the agent''s login ends, or null'
  ' if it has ended. Returns null for other keys.';

comment on function ai.answer_agent_access(uuid, uuid, uuid, timestamptz, text) is
  'Approves or declines the open request that a member made at requested_at, or withdraws an approval, which ends the '
  'keys of that member''s agents. Outcomes: done, answered (another manager answered first, or a later request '
  'replaced this one), not_allowed.';

comment on function ai.app_caller(jsonb) is
  'Returns the caller of a registered app, derived only from the credential: an app''s token, or a key bound to the '
  'app together with the named workspace. refused is the reason for a refusal. Not granted to any role.';

comment on function ai.book_clashes(uuid, timestamptz, timestamptz) is
  'Returns records of a window that were stored under several spellings of their provider, at most 100: [{ kind: cost '
  'or invoice, provider, spellings, accountId, externalRunId or reference }]. The cost that was observed last and the '
  'invoice that was recorded first count.';

comment on function ai.budget_recipients(text, uuid) is
  'Returns who is warned about a budget: owners, members with manage_ai_policy and, for a key''s budget, members with '
  'manage_ai_keys.';

comment on function ai.budget_refuses_calls(ai.budgets) is
  'Returns whether a budget is effectively used up: a call of this UTC month did not fit, and at least 80 percent of '
  'the limit is spent or held. Below 80 percent, the refused call was simply too large, and other calls may still fit.';

comment on function ai.budget_subjects(uuid, boolean) is
  'Returns everything in a workspace that can have a budget: the workspace itself, its external apps, key lineages and'
  ' members, and labels with a budget or a live key. live: whether the subject can still make calls; since: when it '
  'was created, which never changes.';

comment on function ai.budget_summary(ai.budgets, boolean) is
  'Returns a budget''s limit and its spend in the current UTC month, as exact text. The spend is null if members '
  'can''t see provider cost.';

comment on function ai.budget_threshold(ai.budgets) is
  'Returns the highest of 50, 80 and 100 percent that a budget''s spend has reached, compared exactly, or 0. Also '
  'returns 100 if the budget refuses calls, because their maximum cost no longer fits shortly before everything is '
  'spent.';

comment on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) is
  'Sets one monthly budget, or removes it with null. Requires manage_ai_policy or, for a key, manage_ai_keys. The '
  'scope label takes the label''s text and derives the subject from it. read_limit_usd is the limit that the member '
  'saw: if it differs now, nothing changes. Outcomes: changed, unchanged, changed_meanwhile (with limitUsd), '
  'not_allowed, not_found. Each change is logged.';

comment on function ai.check_credential(jsonb) is
  'Checks the credential of a call whose body is invalid or large, so that a caller without one, or without the right '
  'to make calls of a given kind, is refused before anything about the body is reported. Returns whose credential it '
  'is, or {refused: code}.';

comment on function ai.cost_comparison_page(uuid, timestamptz, timestamptz, text, text, integer) is
  'Returns a page of the providers of a range by name, or one of them, with the metered and imported cost of each, and'
  ' totals of all. Leaves out providers without any amounts; meteredUsd is null if the workspace hides it.';

comment on function ai.create_key is
  'Stores a new key and returns its id. The caller generated the text and shows it once; only its lookup part and '
  'SHA-256 are passed here. No API role may call this function, because it does not check whether the caller may '
  'create a key.';

comment on function ai.credit_accounts_of(uuid, uuid) is
  'Returns the accounts that a member can see in a workspace: the workspace''s account and, in a free workspace, the '
  'member''s own.';

comment on function ai.credit_level(ai.credit_accounts, numeric) is
  'Returns empty if nothing is left, or if a call was refused in the last hour while less than the threshold (1,000 if'
  ' the threshold is 0) was available. Above the threshold, only a very large call is refused. Returns low if the '
  'balance is below the threshold.';

comment on function ai.delete_expired_content(integer) is
  'Deletes content past its retention under the current policy, content of closed workspaces, and idempotency keys '
  'older than 24 hours, up to a limit of each. Returns the number of runs whose content it deleted. Only one caller '
  'sweeps at a time; others return 0.';

comment on function ai.end_connection(uuid, uuid) is
  'Revokes a connection and its keys. If the actor is not the connection''s member, also withdraws the member''s '
  'approval. Returns false if the connection was already revoked.';

comment on function ai.find_agent_login(bytea) is
  'Returns the member and the login of an access token with the scope studio:keys, or the refusal of '
  'private.find_app_caller.';

comment on function ai.find_cost(uuid, uuid, text, text, text) is
  'Returns the record of a provider''s normalized name, account and run. If older rows differ only in the provider''s '
  'case, returns the one that was observed last. No search path is set, so that Postgres can inline it.';

comment on function ai.find_replacement(uuid, uuid, jsonb) is
  'Returns the invoice that already replaces the one that a record would replace, or nulls.';

comment on function ai.find_run(uuid) is 'Returns a run by its id alone, or nulls if it does not exist.';

comment on function ai.has_too_many_keys(uuid) is
  'Returns whether a workspace has reached its limit of 200 live keys. Only the latest key of a coding agent counts.';

comment on function ai.idempotent_refusal(ai.idempotency_keys, bytea) is
  'Returns why a call with a known idempotency key is refused, so that it never causes a second provider call or '
  'charge. Includes the answer if it was stored.';

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'Compares an invoice with what was metered for its provider, without other accounts'' runs, and imported for its '
  'account in its days (ai.invoice_days). Includes the other invoices of its account that count in these days, and the'
  ' difference between the sum of the invoices and the import. A replaced invoice does not count. Null for more than '
  '366 days. Not granted to any role.';

comment on function ai.invoice_matches(ai.invoice_book_entries, jsonb) is
  'Returns whether an invoice matches a filter. The filter may have provider, accountId (null selects invoices without'
  ' an account) and month (YYYY-MM, which the invoice''s days must overlap).';

comment on function ai.is_estimated(ai.usage_source, boolean) is
  'Returns whether a run''s usage was estimated in part or in full, but not by the sweep.';

comment on function ai.key_caller(bytea, inet) is
  'Returns the owner and limits of the key with the given SHA-256 of its text; nulls when it is unknown, revoked, '
  'expired, of a deleted workspace, or of a coding agent whose connection or login has ended. A key that is bound to '
  'an app has the gateway scopes of the app''s registration. Nearly every call runs this.';

comment on function ai.key_issue_permission(uuid, uuid, boolean) is
  'Returns allowed; not_allowed (the member has neither manage_ai_keys nor, for an agent, an approved request); or '
  'not_approved (no platform admin has approved the workspace).';

comment on function ai.key_summaries(uuid, ai.keys[]) is 'Returns the details of a workspace''s keys, newest first.';

comment on function ai.key_summary(ai.keys, numeric) is
  'Returns the details of a key without its secret, which is stored only as a hash. Amounts are exact text. Spend is '
  'for the current UTC month and includes the keys that this one replaced. For an agent''s key, the last use is that '
  'of any of the agent''s keys.';

comment on function ai.label_usage_between(uuid, timestamptz, timestamptz) is
  'Returns the same as ai.usage_between, by label.';

comment on function ai.latency_mark(integer) is
  'Returns a run as a number with twelve digits for each bucket and a 1 in the run''s own, so that the sum of such '
  'numbers is a histogram. Adding numbers is what Postgres does fastest. Null without a duration.';

comment on function ai.latency_quantiles(numeric) is
  'Returns the durations in ms that 50% and 95% of runs did not exceed, from a sum of ai.latency_mark. Each value is '
  'in the same bucket as the exact one, so it differs by at most the bucket''s width, 19%. Null without a run.';

comment on function ai.list_agent_access(uuid, uuid) is
  'Returns the members of a workspace who requested to connect coding agents or were approved, if the caller has '
  'manage_ai_keys: { outcome: listed, members: [{ userId, name, state: open | approved, tool, host, requestedAt, '
  'answeredAt }] } with open requests first, or { outcome: not_allowed }.';

comment on function ai.live_usage_ranges(uuid, timestamptz, timestamptz, boolean) is
  'Returns the parts of a window that are read from runs: days that are not sealed, changed since they were sealed, or'
  ' are only partly in the window. For members and labels, also returns days whose sums don''t include these yet.';

comment on function ai.lock_policy(uuid) is
  'Serializes changes of a workspace''s policy and budgets, so that each change is compared with the state that it '
  'replaces, and logged with it. Gateway calls don''t wait for these changes.';

comment on function ai.lock_rows(ai.lock_list) is
  'Locks the rows that admissions, extensions and settlements change. All of them use this order: idempotency keys, '
  'keys, rate windows, budgets, balances. Rows of one kind are sorted, so budgets of apps precede those of keys, '
  'labels, members and workspaces. Callers lock runs and open new accounts before they call this.';

comment on function ai.may_connect_agents(uuid, uuid) is
  'Returns whether a member''s coding agents may have keys for a workspace. Called when a key is created and on each '
  'call with it.';

comment on function ai.may_email_admins(uuid, ai.key_approval_requests) is
  'Returns whether a new request is emailed to infrastructure admins: not if it repeats a withdrawn request, and at '
  'most five times per member in 24 hours. The queue lists every request.';

comment on function ai.metered_costs(uuid, timestamptz, timestamptz) is
  'Returns the metered cost of a book''s runs, in parts that callers sum. A workspace''s book has its own runs, and '
  'the platform''s book has the runs of all workspaces. The platform''s window consists of whole days and counts for '
  'its first month. Runs count for ai.billing_provider and the account that they name, if any.';

comment on function ai.paying_plans(uuid[], uuid[]) is
  'Returns the plan under which each workspace or member pays; no row if no plan charges the account. For a member who'
  ' pays in several workspaces, returns the plan with the most initial credits.';

comment on function ai.platform_month_parts(date, date, text) is
  'Returns the parts of a provider''s figures for a month, in all workspaces and the platform''s book. Not granted to '
  'any role.';

comment on function ai.platform_usage(date, date, text) is
  'Returns the usage of all workspaces between two UTC days, inclusive, by provider and billing account. For a single '
  'provider (ai.billing_provider), also groups by workspace and day, and includes all runs closed by the sweep, which '
  'have no billing provider. workspace_id and day are null otherwise. Not granted to any role.';

comment on function ai.queue_budget_alert_mails(jsonb, text, text) is
  'Queues the emails about a crossing, one per recipient, and marks the crossing as emailed in the same statement, so '
  'that concurrent callers queue them only once. Returns the number of emails; 0 if they were already queued or the '
  'crossing no longer applies.';

comment on function ai.queue_credit_alert_mails(jsonb, text, text) is
  'Queues an email about a crossing to each recipient and marks the crossing in the same statement, so that concurrent'
  ' callers queue the emails only once. Returns the number of emails; 0 if they are already queued or credits were '
  'added since the sweep.';

comment on function ai.read_budgets(uuid, uuid, text[], integer, text[]) is
  'Returns a page of a workspace''s budgets and what they have used in the current UTC month, for a member with '
  'use_ai_studio: { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. '
  'Budgets of keys require manage_ai_keys or manage_ai_policy. Budgets are sorted by scope; labels by their text, the '
  'others by when their subject was created. after is the position of the last budget on the previous page. Amounts '
  'are exact text, null without a limit or if hidden. usedUp: everything is spent, or calls are refused according to '
  'ai.budget_refuses_calls. enforced: whether the budget can refuse calls.';

comment on function ai.read_credit_notice(uuid, uuid) is
  'Returns { level, available } if the balance for a member''s calls in a workspace is low or empty. Returns null '
  'otherwise, or without use_ai_studio.';

comment on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer, boolean) is
  'Returns the credits that a member with use_ai_studio can see: the balances, a page of the ledger, and the credits '
  'used in the window, by default the last 30 days. Used credits are those billed for runs and those deducted without '
  'a run. An export, which is read page by page, requests neither totals nor balances.';

comment on function ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer) is
  'Returns what a workspace used in a range, for a member with use_ai_studio: totals, totals of the previous range, '
  'and rows by day, model, feature, key, app, member or label. Rows are sorted by size, days newest first. The key of '
  'a row is, for days, the number of days since the start of the range; for keys, the lineage; for labels, empty for '
  'runs without a label and * for the remaining labels. With rows by model, series contains the daily usage of the six'
  ' largest models and of all others together (null). Credits deducted without a run are separate, by day in '
  'deductions.';

comment on function ai.rebuild_changed_usage_days(integer) is
  'Summarizes days again whose runs changed afterwards, up to a limit. Returns the number of summarized days.';

comment on function ai.reconciled_window(timestamptz, timestamptz) is
  'Returns the ai.usage_window of a comparison. By default it begins at the start of the month eleven months before '
  'the one in which it ends.';

comment on function ai.record_budget_alerts() is
  'Records the highest threshold that each budget has newly crossed. Reads ai.budgets without a lock. A threshold is '
  'crossed once a month, and again if the limit was raised in between so that the spend fell below it.';

comment on function ai.record_credit_alerts() is
  'Records the level that each balance has reached. Reads ai.credit_accounts without a lock. A level is recorded again'
  ' only after credits are added, or after the plan''s threshold falls below the balance.';

comment on function ai.refused_replacement(uuid, uuid, jsonb) is
  'Returns why a record cannot replace the invoice that it names: { param, message }, or null if it can. Not granted '
  'to any role.';

comment on function ai.request_agent_access(uuid, uuid, text, text, jsonb) is
  'Opens a member''s request for access, unless one is open or approved. Queues one email { subject, text } for each '
  'of up to 20 key managers, but none within 24 hours of the last emails about the same member.';

comment on function ai.reserved_tokens(ai.run_request, ai.token_use, bigint) is
  'Returns the tokens that a call counts in rate windows until it is settled: its input and its output limit. If the '
  'caller stated no output limit, 500 tokens per choice count, as far as the token limit has room for them.';

comment on function ai.reset_budget_alert(text, uuid, uuid) is
  'Rearms the thresholds above the current spend after a budget is raised. The sweep also notices a raise, but not if '
  'the thresholds are crossed again before it runs.';

comment on function ai.reset_credit_alert(ai.credit_accounts) is
  'Rearms the warnings for the levels that a top-up has raised the balance above.';

comment on function ai.retained_content(uuid, uuid) is
  'Returns a run''s content and when it will be deleted, as long as the workspace''s current policy keeps it, even if '
  'no sweep has run since. Not granted to any role.';

comment on function ai.return_tokens(text, uuid, ai.rate_window_use, bigint) is
  'Removes a call''s tokens from a rate window after another limit refused the call. The request stays counted.';

comment on function ai.revoke_key(uuid, uuid, uuid) is
  'Revokes a key or, for a coding agent''s key, the agent''s connection. Idempotent. Requires manage_ai_keys, but no '
  'approval. Outcomes: revoked, not_allowed, not_found.';

comment on function ai.revoke_keys_of_connection() is
  'Revokes the keys of a connection that is deleted with its member''s account, and removes the computer''s name from '
  'them.';

comment on function ai.rotate_key(uuid, uuid, uuid, integer, text, text) is
  'Replaces a key with a new one. The new key keeps every limit, binding and spent amount, which belong to the '
  'lineage. The old key works until the overlap ends. Outcomes: issued (with key), not_allowed, not_approved, '
  'not_found, not_active, agent_key (a coding agent renews it).';

comment on function ai.route_provider(jsonb, smallint) is
  'Returns the provider of the route at a position, in any order of the list, or the provider of the first route if '
  'there is none at that position.';

comment on function ai.run_detail(ai.runs, boolean) is
  'Returns { run, steps, attempts, ledger, answeredBy }: a run''s summary, its steps, its requests to providers, its '
  'ledger entries as credits charged, and the route that answered with its prices at that time. attempts and '
  'answeredBy are null if provider cost is hidden.';

comment on function ai.run_provider(jsonb, smallint) is 'Returns the provider of a run''s charged route.';

comment on function ai.runs_may_exist_before(uuid, jsonb, timestamptz) is
  'Returns the time, at most the given one, before which a workspace may have runs that match the filter of '
  'ai.list_runs, according to the daily sums. Null if there are none.';

comment on function ai.seal_completed_usage_days(integer) is
  'Summarizes finished days in order, up to a limit. Returns the number of summarized days.';

comment on function ai.set_budget(text, uuid, uuid, numeric, text) is
  'Sets the monthly budget of a workspace, or of an app, key lineage, member or label in it; null removes the budget. '
  'A new budget begins with the cost of the month''s settled runs. Runs in progress at that time count in no budget. '
  'Callers hold ai.lock_policy.';

comment on function ai.settle_rate_windows(ai.closed_run[], bigint[]) is
  'Adjusts the counts of closed runs in the rate windows that hold their tokens. The windows are locked and current, '
  'or later. The changes are in the order of the runs, null for a run whose windows are past.';

comment on function ai.store_key(uuid, uuid, jsonb, text, text, uuid, uuid) is
  'Stores a new key that ai.key_issue_permission allows, and logs it unless it continues a lineage. connection_id is '
  'the coding agent''s connection, if the key is for one.';

comment on function ai.sweep_budget_alerts(integer) is
  'Records which thresholds budgets have crossed, and returns the crossings that are not emailed yet, oldest first. '
  'One sweep runs at a time; a concurrent one returns an empty list. refusing: calls are refused although not '
  'everything is spent. The amounts spent, held and left are null if the workspace hides provider cost.';

comment on function ai.unlinked_deductions_by_day(uuid, uuid, timestamptz, timestamptz) is
  'Returns credits that were deducted without a run, as positive numbers. Credits billed for a run are stored in the '
  'run.';

comment on function ai.usage_by_key(uuid, timestamptz, timestamptz, text, integer, boolean) is
  'Returns a range''s sums and quantiles by ai.usage_key, or by label. The row with a null key covers the whole range.'
  ' Amounts in sums are exact text. Labels have no quantiles.';

comment on function ai.usage_key(ai.usage_daily, text, date, integer) is
  'Returns the key under which a part of usage is listed. A day''s key is its offset from the start of the range, so '
  'that two ranges can be compared. Several days may share a key.';

comment on function ai.withdraw_key_approval_request(uuid, uuid, timestamptz) is
  'Withdraws the open request that was made at requested_at. Changes nothing if it was answered or replaced. Returns '
  'ai.key_approval_state or { outcome: not_allowed }.';

comment on function private.account_sessions(uuid, uuid, jsonb, integer) is
  'Returns a page of an account''s current sessions: the given one first, then the most recently refreshed. before is '
  '{ createdAt, id }, with the refreshed_at and the id of the last session on the previous page. Without page_size, '
  'returns all of them.';

comment on function private.address_network(inet) is
  'Returns the network that counts as one visitor: an IPv4 address, or the /64 of an IPv6 address, as assigned to a '
  'household or server.';

comment on function private.app_was_ever_connected(uuid, text) is
  'Returns whether an app holds or held a person''s credentials. If private.connected_apps does not list the app, it '
  'holds none any more.';

comment on function private.attempt_buckets(text, text, cidr) is
  'Returns the buckets that an attempt takes from. Leaves out buckets of an account or address that the attempt does '
  'not have.';

comment on function private.attempt_pair(text, cidr) is
  'Returns the digest that counts attempts on one account from one address. The account is `email:…` in lower case, or'
  ' `user:…` with its id.';

comment on function private.claim_mfa_code(text, uuid) is
  'Claims a code, named by the hex of its HMAC, for one verification. Returns true to only one caller.';

comment on function private.claim_qr_challenge(jsonb) is
  'Claims an approved challenge for the session that requested it: { id, secretHash, claims } → claimed for only one '
  'caller, who has 30 s to complete it, and otherwise the challenge''s public state, mfa_required or not_found. '
  'Rejects the challenge permanently if the approver has signed out or no longer satisfies the account''s policy.';

comment on function private.complete_qr_challenge(jsonb) is
  'Completes a claim with the session that was minted for it: { id, claims, mintedSessionId } → consumed, expired or '
  'rejected. A consumed challenge gives the session the approver''s sign-in time. Otherwise the session must not reach'
  ' the browser.';

comment on function private.confirm_access(uuid, uuid, jsonb, text[]) is
  'Removes the ways that the owner chose from the list of private.account_access, signs out the sessions that depend '
  'on them, and confirms the rest, in one transaction. removals: { listedAt, listed: [key], remove: [key], sessions: '
  '[key] }, where listedAt, listed and sessions (all in the list) are as the owner saw them. In remove, other_sessions'
  ' means the sessions that existed at that time but were not listed. Returns { outcome: confirmed, removed: [way], '
  'endedSessions: [{ id, device, userAgent }] }, or an outcome that changed nothing: last_method if no usable way to '
  'sign in would remain, last_of_required if the account must have an authenticator, insufficient_aal if the session '
  'has yet to prove one, not_found. The calling session stays.';

comment on function private.connect_agent(bytea, uuid, text, text, jsonb) is
  'Connects a coding agent to a workspace: { state: connected, connection }. A repeated call returns the same '
  'connection. If the member needs an approval, opens a request with an email to key managers instead: { state: '
  'requested }. Refusals: { refused: … | not_found | forbidden (no use_ai_studio) }.';

comment on function private.connected_apps(uuid) is
  'Returns the apps that hold a person''s live credentials or consent: [{name, displayName, origins, session, login, '
  'consent, tokens}]. session summarizes the app sessions, login the OpenID Connect logins, and each entry of tokens '
  'the tokens for one workspace: {scopes, connectedAt, renewedAt, endsAt}, with the scopes now in force. An entry of '
  'tokens also has workspace, which is null if the gateway refuses the token. consent is {scopes, grantedAt}. session,'
  ' login and consent may be null.';

comment on function private.consume_cross_app_token(bytea, uuid, uuid, text) is
  'Redeems a token in one statement: one of many concurrent callers gets the id, and the others get null. The proof '
  'must be exactly the text that was checked. For definers; not granted to any role.';

comment on function private.decide_qr_challenge(jsonb) is
  'Approves or rejects a QR challenge on behalf of a phone: { id, secretHash, claims, approve, device } → approved, '
  'rejected, not_found, forbidden (not the requesting account, or the requesting session itself), mfa_required, '
  'expired or conflict (decided already).';

comment on function private.disconnect_agent(bytea, uuid, uuid) is
  'Revokes a connection of the token''s login, and the connection''s keys. Returns {} or { refused: … | not_found }. '
  'Idempotent.';

comment on function private.end_mfa_recovery(uuid, boolean) is
  'Ends a recovery that begin_mfa_recovery began. If no factor is left, completes it and opens the account again, '
  'unless the account was marked again since. Otherwise the recovery can be resumed immediately, while the account '
  'stays closed. Returns true if it is completed.';

comment on function private.find_accounts_matching(text, integer) is
  'Returns accounts whose email or name contains a text, by email. One or two characters have no trigram, so a search '
  'for a rare character reads all rows.';

comment on function private.guard_email() is
  'Refuses to change an account''s email to the address of an unconfirmed identity, or to null if the identity has no '
  'address: password-reset emails would no longer reach the owner. Also refuses an address that no provider has '
  'verified: it may be another person''s, who could confirm it later.';

comment on function private.is_announced(uuid, text) is 'Consumes an announcement. Returns whether there was one.';

comment on function private.is_vault_entry_usable(private.account_vault_entries) is
  'Returns whether an account can be switched to without a new sign-in, as far as the database knows. An entry expires'
  ' after 30 days without use.';

comment on function private.is_workspace_member(uuid, uuid) is
  'Returns whether a user is a member of a workspace. For definers that have derived the user from a credential. Not '
  'granted to any role, because it trusts the given id.';

comment on function private.issue_agent_key(bytea, uuid, uuid, text, text) is
  'Creates the next key of a connection, which works for 8 hours or until its login ends. The previous key works for '
  '15 more minutes. Outcomes: issued (with expiresAt), revoked, not_allowed, not_approved, too_many (20 live keys of '
  'the connection, or 200 of the workspace). Or { refused: … | not_found }.';

comment on function private.list_agents(bytea, uuid) is
  'Returns the connections of a login in a workspace, and whether its member may create more: { access: approved | '
  'open | declined | withdrawn | none, connections }, or { refused: … | not_found }.';

comment on function private.mail_wait(text, text, uuid) is
  'Returns how much longer an account''s newest email of a kind is protected from being replaced; null if the '
  'protection has ended, or the account has no email of that kind. Emails requested directly from the identity backend'
  ' count too.';

comment on function private.my_assignable_role_ids() is
  'Returns the roles that the caller may assign and withdraw. Roles that allow more than the caller''s own are '
  'excluded, to prevent self-promotion. Owner roles are included only if the caller is an owner who proved their '
  'identity within ten minutes.';

comment on function private.my_workspace_permissions() is 'Returns the caller''s permissions in each workspace.';

comment on function private.password_verification_attempt(jsonb) is
  'Hook of the identity backend: { metadata, user_id, valid }. Admits attempts on our own routes, which were counted '
  'already. Limits direct attempts per account, and per account and address.';

comment on function private.read_qr_request(jsonb) is
  'Returns a QR challenge for the phone to show before its owner decides: { id, secretHash, userId, sessionId } → { '
  'outcome: known, id, status, createdAt, expiresAt, metadata }, or outcome not_found (id or secret wrong) or '
  'forbidden (not the requesting account, or the requesting session itself).';

comment on function private.record_account_change() is
  'Records a new password, a change of email, a ban and its end. A change of email is announced to both addresses.';

comment on function private.record_app_change(private.apps, text, text, uuid) is
  'Adds one line to the audit log about an app. Without an actor, the command line made the change.';

comment on function private.recovery_actor_refusal(jsonb, text) is
  'Returns why the actor may not change the recovery of an email: forbidden, oneself, or null. A refusal is recorded. '
  'For definers; not granted to any role.';

comment on function private.recovery_overview(text) is
  'Returns what the console shows about an email: { email, account, overrides, events, codes, counters }. counters are'
  ' the partly used limits that count by email only. Never includes a link or a code.';

comment on function private.release_qr_challenge(uuid) is
  'Resets a claimed challenge to approved. Only for the caller that claimed it, and only if no session was minted.';

comment on function private.release_recovery_credential(uuid) is
  'Releases a consumption, by the request that holds it, if it certainly created no session. A credential that was '
  'used before stays limited to its browser.';

comment on function private.replace_invitation() is
  'Replaces an open invitation of the same workspace and email with the new one, if the inviter could withdraw the old'
  ' one. If the old one is younger than private.mail_pause(), its link stays valid and the new invitation fails with '
  '23505.';

comment on function private.required_mfa_proof(jsonb, text, integer) is
  'Returns what the session of verified claims has proved, for the web server to sign: {user, target, session, factor,'
  ' secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt}, with seconds since 1970 and times, or '
  '{refused: unauthenticated | mfa_required | unavailable | not_found}. validUntil is when the contribution of a '
  'mobile approval expires.';

comment on function private.rotate_app_secret is
  'Gives an app a new secret; the earlier ones expire after the overlap. Returns when they expire, or null if the app '
  'doesn''t exist.';

comment on function private.session_used_method(uuid, text) is
  'Returns whether a session signed in with the given method of Supabase Auth. For definers; not granted to a role.';

comment on function private.sign_in_account(jsonb) is
  'Adds a fresh sign-in to a browser''s accounts, or replaces the session of the same account, which ends. The account'
  ' becomes the active one, and the device gets a new secret: { deviceId, secret, nextHash, secondNextHash (hex), '
  'userId, sessionId, sealed, keyId, tag, inPlaceOf }; without secret the device is created. Returns { status: kept | '
  'unknown | full | over, successor }: successor is which of the secrets after the presented one is valid. over: '
  'inPlaceOf names the session that the new one continues, and the browser has signed out of it or has another one '
  'now. A session that continues another leaves active the account that the browser has switched to since.';

comment on function private.sweep_account_devices() is
  'Ends sessions unused in a browser''s vault for 30 days and sign-ins that the browser never presented. Removes '
  'accounts from a vault after 90 days, and deletes devices that have expired or hold no account. Returns the number '
  'of deleted devices.';

comment on function private.user_has_workspace_permission(uuid, uuid, public.workspace_permission) is
  'Returns whether a user has a permission in a workspace. For definers that have derived the user from a credential. '
  'Not granted to any role, because it trusts the given id.';

comment on function public.accept_workspace_invitation(text) is
  'Accepts an open invitation to the caller''s own confirmed email, only once, and returns the workspace''s id. Raises'
  ' PT404 for every other token.';

comment on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) is
  'Returns a page of a workspace''s members, owners first, then by name. A search matches part of the name or of a '
  'visible email. A role or an id restricts the list further. after: is_owner, sorts_as and user_id of the last member'
  ' on the previous page.';

comment on function public.workspace_invitation(text) is
  'Returns an invitation''s details to the holder of its token (hex of its SHA-256), or null: { workspaceId, '
  'workspaceName, role, email, invitedBy, expiresAt, state: open | accepted | expired | withdrawn, forYou }.';
