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
  -- In the same order for all callers, so that no two deadlock.
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
    -- Under an override the sign-in is tried again once the block is lifted.
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
  -- The caller that deletes the row settles the attempt, so it is settled once.
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

create or replace function private.delete_expired_attempts(at_most integer default 1000) returns integer
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
  -- Skips rows locked by an attempt; the next run deletes them.
  delete from private.rate_limits r
  where r.subject = any (array(
    select o.subject from private.rate_limits o where o.full_at < now() order by o.full_at limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.open_attempts a
  where a.id = any (array(
    select o.id from private.open_attempts o
    where o.expires_at < now() order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.verified_addresses p
  where p.pair = any (array(
    select o.pair from private.verified_addresses o
    where o.verified_until < now() order by o.verified_until limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  -- Kept for a month, to explain to people why they could not sign in.
  delete from private.address_blocks b
  where b.id = any (array(
    select o.id from private.address_blocks o
    where o.blocked_until < now() - interval '30 days' order by o.blocked_until limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  return cleared + batch;
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
  -- An attempt on our own routes was counted before it was made, and passes regardless of direct attempts. One check
  -- each.
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
    -- A right password is refused too if the bucket is empty: otherwise guessing could continue until it succeeds.
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
-- - wait: no email is sent, and the answer is the same
-- - repeat: the same code was tried before, so it is not tried again, and the answer is that for a wrong code
create or replace function private.attempt_limits()
  returns table (action text, scope text, attempts integer, per interval, when_empty text)
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  values
    -- An office behind one address signs in within minutes, with some typing errors; successes are refunded.
    ('password', 'address', 60, interval '10 minutes', 'refuse'),
    -- More than anyone needs to remember which password it was; afterwards 40 an hour at most.
    ('password', 'pair', 10, interval '15 minutes', 'refuse'),
    -- Many addresses at one account are an attack. The owner, who may come from anywhere, must still get in.
    ('password', 'account', 20, interval '1 hour', 'challenge'),
    -- A limit for attempts without a bot challenge: NIST SP 800-63B allows 100 failures in a row.
    ('password', 'account_cap', 100, interval '1 hour', 'refuse_new'),

    ('code', 'address', 60, interval '10 minutes', 'refuse'),
    -- A six-digit code, of which three are valid at any time: five guesses, then twenty an hour.
    ('code', 'pair', 5, interval '15 minutes', 'refuse'),
    -- A person asked for a code knew the password. Stays below the limit of the backend's hook, whose refusal ends all
    -- sessions.
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

    -- Emails cost reputation. A class of thirty signs up in one lesson.
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

    -- Under a recovery override these replace the password's own limits by email: with full buckets for the owner, and
    -- still limited for guessing.
    ('override_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('override_password', 'account', 100, interval '1 hour', 'refuse'),

    -- A 256-bit secret can't be guessed; this limits the load on the database. Only wrong ones count.
    ('app_secret', 'address', 60, interval '10 minutes', 'refuse'),
    -- Signing in to apps; each is a row kept for a day.
    ('handoff', 'account', 120, interval '10 minutes', 'refuse'),

    -- Requests of devices for a user code (RFC 8628); each is a row kept for a day.
    ('device_authorization', 'address', 60, interval '10 minutes', 'refuse'),
    -- User codes have 34 bits and live for 10 minutes (RFC 8628 section 5.1). A right one is refunded.
    ('user_code', 'address', 30, interval '10 minutes', 'refuse'),
    ('user_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Direct calls to the identity backend, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this is empty: only under attack (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts made despite a refusal. The address is blocked when it is empty.
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
  -- The row stays locked even though nothing was taken.
  select r.full_at + step - per - now() into strict wait from private.rate_limits r where r.subject = bucket;
  return wait;
end
$$;

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
  -- The row is locked until commit: one of several concurrent failures blocks, and the others start a new count.
  delete from private.rate_limits r where r.subject = bucket.subject;
  select coalesce(max(b.level), 0) + 1 into next_level
  from private.address_blocks b
  where b.address = network and b.lifted_at is null and b.blocked_until > now() - interval '7 days';
  insert into private.address_blocks (address, action, level, blocked_until)
  values (network, of_action, next_level, now() + private.block_duration(next_level));
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
    -- A person who knew only the password could have confirmed their own additions.
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
      -- The row may be older: an authenticator's dates from the start of enrolment, a link's from the visit to the
      -- provider, and a copied session's from the original sign-in.
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
  -- Serializes changes to an account's credentials, so that the next one counts what this one left.
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

  -- As of when the owner saw the list: later additions will still be new next time.
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

create or replace function private.may_change_access(subject_id uuid, actor_session_id uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- Supabase Auth has the same rule: an account's authenticator must be proved in the session.
  select not exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
    or exists (
      select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
    )
    or private.may_review_authenticators(subject_id, actor_session_id)
$$;

create or replace function private.end_dependent_sessions(subject_id uuid, kept_session_id uuid, removed jsonb)
  returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  ended jsonb;
  others_left boolean;
begin
  -- Supabase Auth does not record which passkey or provider account a session signed in with, so all sessions of that
  -- method are signed out.
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', s.id, 'device', e.device, 'userAgent', s.user_agent
  )), '[]')
  into ended
  from auth.sessions s
  left join public.security_events e on e.id = private.sign_in_event(subject_id, s.id)
  where s.user_id = subject_id
    and s.id <> kept_session_id
    and exists (
      select
      from jsonb_array_elements(removed) as w
      where case w ->> 'kind'
        when 'session' then w ->> 'id' = s.id::text
        when 'authenticator' then w ->> 'id' = s.factor_id::text
        -- Our pages record the provider; other sign-ins are recorded as oauth.
        when 'identity' then private.session_used_method(s.id, 'oauth')
          and coalesce(e.method not like 'oauth:%' or e.method = 'oauth:' || (w ->> 'provider'), true)
        when 'passkey' then private.session_used_method(s.id, 'passkey')
        when 'password' then private.session_used_method(s.id, 'password')
        else false
      end
    );
  perform private.end_account_session(subject_id, (x ->> 'id')::uuid) from jsonb_array_elements(ended) as x;
  return ended;
end
$$;

create or replace function private.queue_event_mail(event public.security_events, recipient text) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.outgoing_mails (recipient, event_id, next_attempt_at)
  -- Our server describes its own changes within this time.
  select queue_event_mail.recipient, (event).id, now() + interval '15 seconds'
  where char_length(queue_event_mail.recipient) between 3 and 320
$$;

create or replace function private.is_new_place(event public.security_events) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*) > 0 and not coalesce(bool_or(
    private.truncate_address(s.ip) is not distinct from private.truncate_address((event).ip)
    -- Without version numbers, so that an update is not a new location.
    and regexp_replace(coalesce(s.user_agent, ''), '[0-9._]+', '', 'g')
      = regexp_replace(coalesce((event).user_agent, ''), '[0-9._]+', '', 'g')
  ), false)
  from public.security_events s
  where s.user_id = (event).user_id and s.kind = 'sign_in' and s.id <> (event).id
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_sign_outs() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  scope text := private.sign_out_scope(current_query());
  account record;
begin
  -- A cascade runs inside a trigger. Our own functions write their events themselves.
  if pg_trigger_depth() > 1 or scope is null then
    return null;
  end if;
  for account in
    select e.user_id, (array_agg(e.id))[1] as session_id
    from ended e
    -- The change that ended the sessions, such as a new password, already has an event.
    where not exists (
      select from public.security_events s
      where s.user_id = e.user_id and s.created_at = now() and s.kind <> 'sign_in'
    )
    group by e.user_id
  loop
    case scope
      when 'local' then
        perform private.add_account_event(account.user_id, 'sign_out', session_id => account.session_id);
      when 'others' then
        perform private.add_account_event(account.user_id, 'other_sessions_revoked');
      else
        perform private.add_account_event(account.user_id, 'all_sessions_revoked');
    end case;
  end loop;
  return null;
exception when others then
  raise warning 'a sign-out was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_account_change() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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
  end if;

  if (old.banned_until > now()) is not true and new.banned_until > now() then
    perform private.add_account_event(new.id, 'account_banned');
  elsif old.banned_until > now() and (new.banned_until > now()) is not true then
    perform private.add_account_event(new.id, 'account_unbanned');
  end if;
  return null;
exception when others then
  raise warning 'an account''s change was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
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
    -- Our own link: private.complete_oauth_attempt confirms and records it, in the account's own browser.
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
        -- An address that both mailboxes or an administrator confirmed is set on the email identity first.
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
    -- A recovery removes all of them, and has its own event.
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
    -- What a refused sign-in added is removed together with its event.
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

-- Definer: the service role may not delete from the identity backend's tables. The check and the deletion must share
-- one transaction, which the backend's own API can't offer.
create or replace function private.delete_account(subject_id uuid, request_id text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  blockers jsonb;
begin
  -- The deletion itself takes this lock in private.serialize_account_deletions, before any row.
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  -- Locks the account before its dependent rows, like changes to its sessions or app credentials.
  perform from auth.users u where u.id = subject_id for update;
  -- Locks memberships and invitations before their workspaces, like leaving, changing a role and accepting.
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
  insert into private.admin_audit_log (action, target, reason, request_id)
  values ('account.deleted', subject_id::text, 'Deleted by its owner', delete_account.request_id);
  return jsonb_build_object('deleted', true, 'blockers', '[]'::jsonb);
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
    -- A new password voids the links, but leaves the rest.
    and exists (
      select from auth.one_time_tokens t
      where t.user_id = u.id
        and t.token_type::text in ('email_change_token_current', 'email_change_token_new')
    )
$$;

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
    -- Prunes partitions, which a row comparison does not.
    and r.created_at <= coalesce((before ->> 'createdAt')::timestamptz, 'infinity')
    and (r.created_at, r.id) < (
      coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
      coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )
  order by r.created_at desc, r.id desc
  limit page_size
$$;

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
  -- Auth writes the metadata that it read earlier, also in later statements of the transaction.
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
    -- Created and confirmed in one transaction, by an administrator or by a provider that has verified the email.
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
  -- A new account's password may be its owner's. After a sign-in, the password was another person's.
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

create or replace function private.replace_workspaces(subject_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  left_behind uuid[];
begin
  -- An unused workspace can stay.
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

create or replace function private.claim_due_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, event jsonb, attempts smallint)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with forgotten as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  ), claimed as (
    update private.outgoing_mails m
    -- After 4 minutes, 16, 64 and 256, then twice a day: the last attempt is about three days later.
    set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
    -- An array is read once. A join could run the limited query more than once.
    where m.id = any (array(
      select due.id
      from private.outgoing_mails due
      join (
        select w.id, row_number() over (partition by w.recipient order by w.next_attempt_at) as turn
        from private.outgoing_mails w
        where w.next_attempt_at <= now() and w.attempts < 12 and w.created_at >= now() - interval '7 days'
      ) waiting on waiting.id = due.id
      -- Checked again, since another caller may have claimed it in between.
      where due.next_attempt_at <= now()
      -- Alternates between recipients, so that many emails to one don't delay the others.
      order by waiting.turn, due.next_attempt_at
      limit max_mails
      for update of due skip locked
    ))
    returning m.*
  )
  select c.id, c.recipient, c.subject, c.body,
    case when e.id is not null then jsonb_build_object(
      'kind', e.kind,
      'method', e.method,
      'ip', host(e.ip),
      'userAgent', e.user_agent,
      'device', e.device,
      'details', e.details,
      'createdAt', e.created_at,
      'unconfirmed', exists (select from private.unconfirmed_additions a where a.target_id = e.target_id)
    ) end,
    c.attempts
  from claimed c
  left join public.security_events e on e.id = c.event_id
$$;

-- Unused since 0.2.0. Servers of release 0.1.0 only support emails with a text.
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
  -- After 4 minutes, 16, 64 and 256, then twice a day: the last attempt is about three days later.
  set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
  where m.id = any (array(
    select due.id
    from private.outgoing_mails due
    where due.event_id is null and due.next_attempt_at <= now() and due.attempts < 12 and due.created_at >= now() - interval '7 days'
    order by due.next_attempt_at
    limit max_mails
    for update skip locked
  ))
  returning m.id, m.recipient, m.subject, m.body, m.attempts
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
    -- The email about the recovery covers it.
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

create or replace function private.truncate_address(address inet) returns inet
  language sql
  immutable
  security invoker
as $$
  -- A home or a phone changes the last half of its IPv6 address freely.
  select case when family(address) = 6 then network(set_masklen(address, 64))::inet else address end
$$;

-- Definer: as list_workspaces_by_app_session.
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
  -- For the workspace's own log, which can't see the token's user here.
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

-- Definer: the functions for proofs, app secrets and consumption are not granted to any role.
create or replace function private.redeem_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  app_hash bytea,
  central_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  standing text;
  handoff uuid;
  session_end timestamptz := least(now() + interval '30 days', (facts ->> 'validUntil')::timestamptz);
  opened jsonb;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.hold_proof(private.handoff_proof(facts));
  standing := private.proof_status(private.handoff_proof(facts));
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or session_end <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  handoff := private.consume_cross_app_token(
    redeem_cross_app_token.token_hash, app.id, (facts ->> 'user')::uuid, redeem_cross_app_token.proof
  );
  if handoff is null then
    return jsonb_build_object('refused', 'token');
  end if;

  with sessions as (
    insert into private.app_sessions as s (
      handoff_id, app_id, audience, scopes, proof, user_id, token_hash, expires_at, ends_at
    )
    select
      handoff, app.id, o.audience, app.scopes, private.handoff_proof(facts), (facts ->> 'user')::uuid, o.hash,
      least(now() + interval '8 hours', session_end), session_end
    from (values ('app', app_hash), ('central', central_hash)) as o (audience, hash)
    -- The central API is only for apps with a scope for it.
    where o.audience = 'app' or app.scopes && array['workspaces:read', 'workspaces:write', 'studio:read']
    returning s.audience, private.app_session_summary(s) as summary
  )
  select jsonb_object_agg(s.audience, s.summary) into opened from sessions s;
  return opened;
end
$$;

-- Definer: as introspect_app_session.
create or replace function private.refresh_app_session(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  standing text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select s.* into session
  from private.live_app_session(refresh_app_session.token_hash) l
  join private.app_sessions s on s.id = l.id
  where s.app_id = app.id
  for no key update of s;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(session.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;

  update private.app_sessions s
  set
    previous_hash = refresh_app_session.token_hash,
    previous_valid_until = least(now() + interval '30 seconds', s.expires_at),
    token_hash = successor_hash,
    issued_at = now(),
    expires_at = least(now() + interval '8 hours', s.ends_at)
  where s.id = session.id
    and s.token_hash = refresh_app_session.token_hash
    and s.expires_at > now()
    and s.revoked_at is null
  returning * into session;
  if not found then
    -- A second caller with the same token, within the grace period, gets the same successor.
    select s.* into session
    from private.app_sessions s
    where s.previous_hash = refresh_app_session.token_hash
      and s.previous_valid_until > now()
      and s.token_hash = successor_hash
      and s.app_id = app.id
      and s.revoked_at is null;
    if not found then
      return jsonb_build_object('refused', 'token');
    end if;
  end if;
  return private.app_session_summary(session);
end
$$;

-- Definer: the functions for proofs, app secrets and consumption are not granted to any role.
create or replace function private.exchange_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  standing text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  token.user_id := (facts ->> 'user')::uuid;
  token.valid_until := (facts ->> 'validUntil')::timestamptz;
  standing := private.proof_status(private.handoff_proof(facts));
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or token.valid_until <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  token.scopes := coalesce(exchange_cross_app_token.scopes, private.gateway_scopes(app));
  if not token.scopes <@ private.gateway_scopes(app) or cardinality(token.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  -- Checked before the token is consumed, so that a refusal leaves it valid.
  if not private.app_can_act_in_workspace(app, exchange_cross_app_token.workspace_id)
    or not private.is_workspace_member(token.user_id, exchange_cross_app_token.workspace_id) then
    return jsonb_build_object('refused', 'workspace');
  end if;

  token.family_id := private.consume_cross_app_token(
    exchange_cross_app_token.token_hash, app.id, token.user_id, exchange_cross_app_token.proof
  );
  if token.family_id is null then
    return jsonb_build_object('refused', 'token');
  end if;
  token.app_id := app.id;
  token.workspace_id := exchange_cross_app_token.workspace_id;
  -- These tokens survive sign-out, so their proof names no session.
  token.proof := private.handoff_proof(facts - 'session');
  token.lookup := access_lookup;
  token.token_hash := access_hash;
  token.refresh_hash := exchange_cross_app_token.refresh_hash;
  return private.issue_app_token(token);
end
$$;

-- Definer: as exchange_cross_app_token.
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
    -- Reused after its grace period: one of the two users is not the app (RFC 9700 §4.14.2).
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
    -- Until its refresh token is used, the token ends with it; from then on its successor has a line of its own.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- If the gateway refuses the token, it allows nothing; and a person who left a workspace must not see its name.
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
    -- Locked: disabling the app either waits and then ends this token with the others, or goes first, and then this
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
  -- Locks the account first, as the rows stored next for it would: deleting the account also reaches these rows before
  -- it needs this token.
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

-- Definer: authenticate_app is not granted to a role.
create or replace function private.revoke_app_credential(app_name text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  held record;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return false;
  end if;
  -- The person and the handoff of a credential never change.
  select h.user_id, h.handoff_id into held
  from (
    select s.user_id, s.handoff_id
    from private.app_sessions s
    where s.app_id = app.id
      and (s.token_hash = revoke_app_credential.token_hash or s.previous_hash = revoke_app_credential.token_hash)
    union all
    select t.user_id, t.family_id
    from ai.app_tokens t
    where t.app_id = app.id
      and (t.token_hash = revoke_app_credential.token_hash or t.refresh_hash = revoke_app_credential.token_hash)
  ) as h;
  if found then
    perform private.lock_app_credentials(held.user_id);
    update private.app_sessions s
    set revoked_at = now()
    where s.handoff_id = held.handoff_id and s.app_id = app.id and s.revoked_at is null;
    update ai.app_tokens t
    set revoked_at = now()
    where t.family_id = held.handoff_id and t.app_id = app.id and t.revoked_at is null;
    perform private.withdraw_logout(held.handoff_id);
  end if;
  return true;
end
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
  -- In the order in which they are derived, so that this waits for a redemption in progress and then finds its result.
  -- Includes one that began just before its token expired, or renewed it.
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
  -- Locks all of its people first, in one order, as private.lock_app_credentials does for one: concurrent refreshes and
  -- disconnections are serialized with this before either side holds a row that the other needs.
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
  -- In the order in which they are derived: this waits for a redemption in progress, and then sees what it created.
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
  -- Deleted with their tokens: a used refresh token is kept as long, so that its reuse is detected.
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
  -- The later second factor: of the session itself, or of the approval bound to it.
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
  -- For the rule it is a second factor proved elsewhere, like a bound approval. The rule needs the time of the sign-in,
  -- but accepts any primary method's name.
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

create or replace function private.lock_app_credentials(user_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- The same lock as an update of the account, so that this and a new password wait for each other.
  perform from auth.users u where u.id = lock_app_credentials.user_id for no key update;
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
  -- Never later than its existing expiry.
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
  -- Uses the clock rather than the transaction's start, since this one may have waited for an earlier one.
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
  -- As in Auth: sessions raised by the factor return to AAL1.
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
  -- The backend stores addresses in lower case, each once, except for those from single sign-on.
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
        -- Servers of 0.1.0 send none.
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
    -- Never later than its existing expiry.
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

create or replace function private.lock_approvable_workspace(change jsonb) returns public.workspaces
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- Locked until commit, so that the second of two concurrent decisions sees the first.
  select * from public.workspaces w where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null for no key update
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
    -- As for calls, but as if every provider were connected.
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
  -- The admin decided based on the prices they saw, of all service tiers. One that is not the newest may since have
  -- been cancelled.
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

create or replace function private.cancel_model_price(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  price ai.model_prices;
  old ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into price from ai.model_prices p where p.id = (change ->> 'price')::bigint and p.model_id = model.id;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = price.provider_id and p.service_tier = price.service_tier
    and p.min_input_tokens = price.min_input_tokens and upper(p.valid) = lower(price.valid);
  -- The admin decided based on the prices before and after it.
  if price.id is null or old.id::text is distinct from change ->> 'previous'
    or upper(price.valid) is distinct from (change ->> 'until')::timestamptz then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  -- No call may be charged this price before this commits. now() is older than the wait for the lock.
  if lower_inf(price.valid) or lower(price.valid) <= clock_timestamp() + interval '1 minute' then
    return jsonb_build_object('refused', 'started');
  end if;
  delete from ai.model_prices p where p.id = price.id;
  update ai.model_prices p set valid = tstzrange(lower(old.valid), upper(price.valid)) where p.id = old.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.cancel_price',
    'target', 'model ' || model.id,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;

create or replace function private.list_skipped_routes(most integer default 50) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', s.model_id,
    'displayName', s.display_name,
    'provider', s.provider,
    'providerModel', s.provider_model,
    'skipped', s.skipped,
    'lastAt', s.last_at
  ) order by s.last_at desc, s.model_id, s.provider, s.provider_model), '[]')
  from (
    select r.model_id, max(m.display_name) as display_name, a.provider, a.model as provider_model, count(*) as skipped,
      max(r.created_at) as last_at
    from ai.runs r
    cross join lateral jsonb_to_recordset(r.attempts) as a (provider text, model text, failure text)
    left join ai.models m on m.id = r.model_id
    -- A cooldown lasts at most five minutes, and its skipped attempts are stored when a run ends.
    where r.created_at > now() - interval '15 minutes' and r.attempts @> '[{"failure": "skipped"}]' and a.failure = 'skipped'
    group by r.model_id, a.provider, a.model
    order by last_at desc
    limit most
  ) s
$$;

create or replace function ai.book_clashes(book uuid, window_from timestamptz, window_to timestamptz) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with asked as (
    select daterange(
      (window_from at time zone 'UTC')::date, ((window_to - interval '1 microsecond') at time zone 'UTC')::date, '[]'
    ) as days
  ), clashes as (
    select 'cost' as kind, c.provider, c.spellings, c.account_id, c.external_run_id as name
    from asked a
    cross join ai.cost_clashes(book) c
    where
      -- Evaluated once per query, on an index that holds only such rows. If there are none, no record is read.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and daterange(c.from_day, c.to_day, '[]') && a.days
    union all
    select 'invoice', i.provider, array_agg(i.spelling order by i.spelling collate "C"), i.account_id, i.reference
    from ai.invoice_book_entries i
    cross join asked a
    where i.book_id = book
    group by i.app_id, i.provider, i.account_id, i.reference, a.days
    having count(*) > 1 and bool_or(ai.invoice_days(i.period_start, i.period_end, i.issued_on) && a.days)
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'kind', c.kind,
      'provider', c.provider,
      'spellings', c.spellings,
      'accountId', c.account_id,
      case c.kind when 'cost' then 'externalRunId' else 'reference' end, c.name
    )
    order by c.kind, c.provider collate "C", c.account_id collate "C", c.name collate "C"
  ), '[]')
  from (select * from clashes limit 100) c
$$;

create or replace function ai.cost_clashes(book uuid) returns table (
  provider text, spellings text[], account_id text, external_run_id text, from_day date, to_day date
)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c.provider, array_agg(c.spelling order by c.spelling collate "C"), c.account_id, c.external_run_id,
    (min(c.occurred_at) at time zone 'UTC')::date, (max(c.occurred_at) at time zone 'UTC')::date
  from ai.cost_book_entries c
  where c.book_id = book and exists (
    -- Only workspaces have such rows, and the partial index contains nothing else.
    select
    from ai.external_provider_costs o
    where o.workspace_id = book
      and o.app_id = c.app_id
      and o.external_run_id = c.external_run_id
      and o.provider <> lower(o.provider)
      and ai.provider_name(o.provider) = c.provider
      and o.account_id is not distinct from c.account_id
  )
  group by c.app_id, c.provider, c.account_id, c.external_run_id
  having count(*) > 1
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
  -- The range of the column.
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
      -- What files stated for this period and this one does not: a wrong account, or services that it leaves out.
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
            -- It must count, and have the same values.
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
      -- Evaluated once per query, on an index that holds only such rows. Only workspaces have any.
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

create or replace function ai.is_superseded_cost(entry ai.cost_book_entries) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- The partial index contains only rows whose providers are not normalized. Without one, no other row can be the same
  -- record.
  select exists (
    select
    from ai.external_provider_costs o
    where o.workspace_id = (entry).book_id
      and o.app_id = (entry).app_id
      and o.external_run_id = (entry).external_run_id
      and o.provider <> lower(o.provider)
  ) and exists (
    select
    from ai.find_cost((entry).book_id, (entry).app_id, (entry).provider, (entry).account_id, (entry).external_run_id) f
    where f.id <> (entry).id
  )
$$;

create or replace function ai.invoice_comparison(book uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  of_provider text := ai.provider_name(record ->> 'provider');
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Longer than any report, so a comparison would be meaningless.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
    and (c.cost).provider = of_provider
    and (c.cost).account_id is not distinct from record ->> 'accountId';
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.provider = of_provider
    and i.account_id is not distinct from record ->> 'accountId'
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- Excludes the replaced invoice: references are unique within an app.
    and (i.app_id, i.reference) is distinct from (
      coalesce((record ->> 'appId')::uuid, ai.platform_book()), record ->> 'replaces'
    )
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(book) then (
      select trim_scale(coalesce(sum(m.metered), 0))::text
      from ai.metered_costs(book, window_from, window_to) m
      where m.provider = of_provider and coalesce(m.account_id = record ->> 'accountId', true)
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
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
  -- Concurrent imports each wait for the one before, and compare with its result.
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

create or replace function ai.store_provider_invoice(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  refused jsonb := ai.refused_replacement(book, app, record);
  stored ai.invoice_book_entries;
  stored_id uuid;
  differing text[];
begin
  if reviewed > now() then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'reviewedAt must not be in the future.'
    );
  end if;
  if reviewed < issued::timestamp at time zone 'UTC' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'An invoice is reviewed after it was issued.'
    );
  end if;

  if refused is not null then
    return jsonb_build_object('refused', 'invalid_request') || refused;
  end if;

  -- The unique keys don't cover rows under an older spelling of the provider.
  stored := ai.find_invoice(book, app, record, record ->> 'reference');
  if stored.id is null then
    stored := ai.find_replacement(book, app, record);
  end if;
  if stored.id is null then
    stored_id := ai.add_invoice(book, app, record);
    if stored_id is not null then
      return jsonb_build_object('outcome', 'stored', 'id', stored_id);
    end if;
    -- A concurrent call recorded this reference, or another replacement.
    stored := ai.find_invoice(book, app, record, record ->> 'reference');
    if stored.id is null then
      stored := ai.find_replacement(book, app, record);
    end if;
  end if;

  if stored.reference <> record ->> 'reference' then
    return jsonb_build_object(
      'refused', 'invoice_conflict', 'id', stored.id, 'differs', '["replaces"]'::jsonb
    ) || ai.replaced_already(record, stored);
  end if;
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;

create or replace function ai.add_invoice(book uuid, app uuid, record jsonb) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  added uuid;
begin
  -- Inserts nothing if this reference is recorded, or the invoice to replace is already replaced.
  if book = ai.platform_book() then
    insert into ai.platform_provider_invoices (
      provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end, reviewed_at
    )
    select r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start, r.period_end,
      r.reviewed_at
    from ai.invoice_of(record) r
    on conflict do nothing
    returning id into added;
  else
    insert into ai.external_provider_invoices (
      workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
      reviewed_at
    )
    select book, app, r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start,
      r.period_end, r.reviewed_at
    from ai.invoice_of(record) r
    on conflict do nothing
    returning id into added;
  end if;
  return added;
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
    -- What its own book says its runs cost: its imports or, without any, its invoices.
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
    -- First what would explain the difference.
    order by coalesce(sign(l.amount) = sign(d.amount) and l.rank < 9, false) desc, l.rank, abs(l.amount) desc nulls last,
      (l.details ->> 'runs')::numeric desc, l.workspace_id, l.account_id collate "C"
  ), '[]')
  from listed l
  cross join differing d
  left join public.workspaces w on w.id = l.workspace_id
$$;

create or replace function ai.platform_month_parts(first_day date, end_day date, of_provider text)
  returns setof ai.platform_part
  language sql
  stable
  security invoker
  set search_path = ''
  set timezone = 'UTC'
as $$
  with usage as materialized (
    select u.*, ai.billing_provider(u.billing_name, u.provider_id) as billed_by
    from ai.platform_usage(first_day, end_day - 1, of_provider) u
  )
  select 'metered', u.workspace_id, u.day, u.billing_account,
    coalesce(sum(u.cost_usd) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.requests) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.estimated_runs) filter (where u.billed_by = of_provider), 0),
    sum(u.closed_runs), null::numeric, null::numeric
  from usage u
  -- Runs closed by the sweep name no billing provider, so they count for the billing provider that other runs with
  -- their provider id name.
  where u.billed_by = of_provider
    or (u.billing_name is null and u.provider_id in (select b.provider_id from usage b where b.billed_by = of_provider))
  group by u.workspace_id, u.day, u.billing_account
  union all
  select 'booked', null, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.booked_costs(ai.platform_book(), first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
  union all
  select 'own', w.id, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.workspaces_with_books() as w (id)
  cross join lateral ai.booked_costs(w.id, first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
$$;

create or replace function ai.workspaces_with_books() returns setof uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- One index step per workspace, because reading all records would slow down as they grow.
  with recursive with_costs (id) as (
    (select c.workspace_id from ai.external_provider_costs c order by c.workspace_id limit 1)
    union all
    select (
      select c.workspace_id from ai.external_provider_costs c where c.workspace_id > w.id order by c.workspace_id limit 1
    )
    from with_costs w
    where w.id is not null
  ), with_invoices (id) as (
    (select i.workspace_id from ai.external_provider_invoices i order by i.workspace_id limit 1)
    union all
    select (
      select i.workspace_id from ai.external_provider_invoices i where i.workspace_id > w.id order by i.workspace_id limit 1
    )
    from with_invoices w
    where w.id is not null
  )
  select id from with_costs where id is not null
  union
  select id from with_invoices where id is not null
$$;

create or replace function ai.platform_workspaces(parts ai.platform_part[]) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- Windows instead of joins, because Postgres can't estimate the number of parts.
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
      -- Its own records of accounts that none of its runs name are compared with its runs that name none.
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
  -- A plan for every filter and position would read the whole range for each page.
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
    -- The account day that replaces it, by the rule of ai.provider_costs_in_totals.
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
    -- Or the same record under another spelling of the provider.
    cross join lateral (
      select case when ai.is_superseded_cost(p) then p.external_run_id else day.by_run_id end as by_run_id
    ) as replaced
  );
end
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
        -- With one run without an account, the metered cost of the month's accounts is unknown, unless the run cost
        -- nothing: failed calls and those closed by the sweep often name none.
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

create or replace function ai.reconciled_window(
  given_from timestamptz, given_to timestamptz, out window_from timestamptz, out window_to timestamptz, out fault text
)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- Twelve months may include a leap day. A partial month would miss its invoice, so the default range starts at the
  -- beginning of a month.
  select w.window_from, w.window_to, w.fault
  from ai.usage_window(
    coalesce(
      given_from,
      (
        date_trunc(
          'month',
          (coalesce(given_to, now()) - 366 * interval '24 hours') at time zone 'UTC' - interval '1 microsecond'
        ) + interval '1 month'
      ) at time zone 'UTC'
    ),
    given_to, 365, 366
  ) w
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
  -- In the order of ai.import_provider_costs, so that imports can't deadlock.
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
  -- In order, so that two batches can't deadlock.
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

create or replace function ai.admit_call(priced ai.priced_call) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  request ai.run_request := priced.request;
  caller ai.caller := priced.caller;
  offer ai.route_offer := priced.offer;
  principal uuid := ai.principal_id(caller);
  exempt boolean := ai.payer_id(caller) is null;
  maximum_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  earlier ai.idempotency_keys;
  run_id uuid;
begin
  if priced.refusal is not null then
    return priced.refusal;
  end if;
  if not exempt then
    maximum_credits := ai.usd_to_credits(offer.maximum_cost_usd, caller.markup);
  end if;
  if ai.is_key_use_due(caller) then
    perform ai.record_key_use(caller);
  end if;

  if request.idempotency_key is not null then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = request.idempotency_key
      and i.expires_at > now();
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    case when earlier.key is null then offer.reserved_tokens else 0 end
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  if earlier.key is not null then
    return ai.idempotent_refusal(earlier, decode(request.fingerprint, 'hex'));
  end if;
  held := ai.reserve_limits(
    caller, request.entity_id, offer.reserved_tokens, 1, offer.maximum_cost_usd, priced.account_id, maximum_credits
  );
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, offer.reserved_tokens);
    return ai.limit_refusal(held.refused, caller);
  end if;

  run_id := case
    when request.run_id_suffix is null then ai.run_id(now())
    else ai.new_run_id(request.run_id_suffix)
  end;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes,
    reserved_tokens, tokens_reserved_at
  )
  values (
    run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, request.feature, request.request_id,
    request.entity_id, request.idempotency_key, coalesce(request.streamed, false), offer.model_id, offer.routes,
    caller.markup, exempt, priced.account_id, offer.maximum_cost_usd, maximum_credits, held.budget_scopes,
    offer.reserved_tokens,
    case when offer.reserved_tokens is not null then greatest(key_window.started_at, (held.workspace_window).started_at) end
  );
  if request.idempotency_key is not null then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (caller.workspace_id, principal, request.idempotency_key, decode(request.fingerprint, 'hex'), now(), run_id)
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;

  -- As text, because building JSON from values looks up how each type is written.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,"credits_per_usd":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s}',
    run_id,
    to_json(now()),
    caller.workspace_id,
    to_json(offer.model_id),
    coalesce(to_json(offer.context_window), 'null'),
    coalesce(to_json(offer.voice), 'null'),
    offer.routes,
    ai.credits_per_usd(caller.markup),
    exempt::text,
    offer.maximum_cost_usd,
    maximum_credits,
    coalesce(offer.reserved_tokens::text, 'null'),
    coalesce(offer.output_limit::text, 'null'),
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.call_limits(caller, key_window, held.workspace_window),
    coalesce(to_json(caller.key_name), 'null'),
    coalesce(caller.is_strict, false)::text
  );
end
$$;

create or replace function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  key ai.keys;
  plan_id text;
  plan ai.plans;
  policy ai.workspace_policies;
  is_member boolean;
  app private.apps;
  scopes text[];
  refused text;
  agent_status text;
begin
  -- Looks up each row of one table by its key: a join takes longer to start than all of these to run.
  select k.* into key
  from ai.keys k
  where k.secret_hash = key_caller.secret_hash
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
  if not found then
    return null;
  end if;
  select s.plan_id into plan_id from public.workspaces s where s.id = key.workspace_id and s.deleted_at is null;
  if not found then
    return null;
  end if;
  if key.connection_id is not null then
    agent_status := ai.agent_key_status(key.connection_id);
    if agent_status = 'over' then
      return null;
    end if;
    refused := case agent_status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end;
  end if;
  select p.* into plan from ai.plans p where p.id = plan_id;
  select w.* into policy from ai.workspace_policies w where w.workspace_id = key.workspace_id;
  if plan.payer = 'member' then
    perform from public.workspace_members m where m.workspace_id = key.workspace_id and m.user_id = key.created_by;
    is_member := found;
  end if;
  -- Without an address, a key with an address list is refused.
  if key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false) then
    refused := coalesce(refused, 'insufficient_scope');
  end if;
  if key.external_app_id is not null then
    select a.* into app from private.apps a where a.id = key.external_app_id;
    scopes := private.gateway_scopes(app);
    refused := coalesce(refused, private.gateway_refusal(app, key.workspace_id, scopes));
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, scopes,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, null, key.entity_id, key.name, key.is_strict
  )::ai.caller;
end
$$;

-- Definer: as begin_run.
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
  -- The text of a jsonb, which would be slow to build from all models.
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

create or replace function ai.change_credits(account uuid, amount numeric, description text, reference text) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  held ai.credit_accounts;
  used numeric;
  entry bigint;
begin
  if amount is null or amount = 'NaN' or amount <> round(amount, 8) then
    raise exception 'credits are a number with at most 8 decimals' using errcode = 'check_violation';
  end if;
  -- People can't distinguish composed from decomposed letters, or one kind of space from another.
  reference := btrim(regexp_replace(
    normalize(reference), '[\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+', ' ', 'g'
  ));
  -- Serializes changes of one account, so that only the first one with a reference is made.
  select * into held from ai.credit_accounts a where a.id = account for no key update;
  select r.amount into used
  from ai.credit_references r
  where r.account_id = account and r.reference = change_credits.reference;
  if found then
    return jsonb_build_object(
      'outcome', case when used = amount then 'repeated' else 'reference_used' end,
      'amount', trim_scale(used)::text,
      'balance', held.balance::text
    );
  end if;
  if amount < 0 and held.balance - held.reserved + amount < 0 then
    return jsonb_build_object('outcome', 'insufficient', 'available', trim_scale(held.balance - held.reserved)::text);
  end if;
  update ai.credit_accounts a
  set balance = a.balance + amount, refused_at = case when amount > 0 then null else a.refused_at end
  where a.id = account
  returning * into held;
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
  values (account, 'grant', amount, held.balance, change_credits.description)
  returning id into entry;
  if reference is not null then
    insert into ai.credit_references (account_id, reference, amount, entry_id)
    values (account, change_credits.reference, amount, entry);
  end if;
  if amount > 0 then
    perform ai.reset_credit_alert(held);
  end if;
  return jsonb_build_object('outcome', 'changed', 'balance', held.balance::text);
end
$$;

-- Definer: gateway has no grant on any table. A run is named by the id that begin_run returned.
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
    -- Earlier steps count what they used. In a new minute they count nothing, and neither does settlement.
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

create or replace function ai.lock_rows(locks ai.lock_list) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  if locks.idempotency_keys is not null then
    perform pg_advisory_xact_lock(k.key) from (select distinct u.key from unnest(locks.idempotency_keys) as u (key) order by 1) as k;
    -- An idempotency key's row refers to the workspace, which an account deletion locks before its keys.
    perform from public.workspaces s where s.id = any (locks.workspaces) order by s.id for key share;
  end if;
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.rate_windows is not null then
    -- Opens missing and past windows. The conflict locks a current window too.
    insert into ai.rate_windows as w (scope, subject_id, window_start, requests, tokens)
    select distinct s.scope, s.subject_id, date_trunc('minute', now()), 0, 0 from unnest(locks.rate_windows) as s order by 1, 2
    on conflict (subject_id, scope) do update
    set window_start = excluded.window_start, requests = 0, tokens = 0
    where w.window_start < excluded.window_start;
  end if;
  if locks.budgets is not null then
    perform from ai.budgets b
    where (b.scope, b.subject_id, b.workspace_id) in (
      select s.scope, s.subject_id, s.workspace_id from unnest(locks.budgets) as s
    )
    order by b.scope, b.subject_id, b.workspace_id
    for no key update;
  end if;
  if locks.accounts is not null then
    perform from ai.credit_accounts a where a.id = any (locks.accounts) order by a.id for no key update;
  end if;
end
$$;

create or replace function ai.reserve_limits(
  caller ai.caller, label text, tokens bigint, requests integer, amount_usd numeric, account uuid, credits numeric
) returns ai.reservation
  language plpgsql
  volatile
  security invoker
as $$
declare
  scope text;
  held ai.reservation;
begin
  held.budget_scopes := '{}';
  foreach scope in array array['key', 'app', 'member', 'label', 'workspace'] loop
    if scope = 'workspace' then
      held.workspace_window := ai.consume_rate_limit(
        'workspace', caller.workspace_id, caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute, tokens,
        requests
      );
      if not (held.workspace_window).admitted then
        held.refused := 'rate_limit_exceeded';
        exit;
      end if;
    end if;
    continue when caller.budgets is null or not scope = any (caller.budgets);
    if not ai.reserve_budget(
      scope,
      ai.budget_subject(scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, label),
      caller.workspace_id,
      amount_usd,
      -- A label from the caller only annotates the call. Only a key's own label can refuse it.
      scope <> 'label' or caller.entity_id is not null
    ) then
      held.refused := 'budget_exceeded';
      exit;
    end if;
    held.budget_scopes := held.budget_scopes || scope;
  end loop;
  if held.refused is null and (account is not null or credits > 0) then
    update ai.credit_accounts a set reserved = a.reserved + credits
    where a.id = account and a.balance - a.reserved >= credits;
    if not found then
      held.refused := 'insufficient_credits';
      -- At most one refusal per minute is written.
      update ai.credit_accounts a set refused_at = now()
      where a.id = account and (a.refused_at is null or a.refused_at < now() - interval '1 minute');
    end if;
  end if;
  if held.refused is not null then
    perform ai.return_tokens('workspace', caller.workspace_id, held.workspace_window, tokens);
  end if;
  if held.refused is not null and held.budget_scopes <> '{}' then
    update ai.budgets b set reserved_usd = greatest(b.reserved_usd - amount_usd, 0)
    from unnest(held.budget_scopes) as s (scope)
    where b.scope = s.scope
      and b.subject_id = ai.budget_subject(
        s.scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, reserve_limits.label
      )
      and b.workspace_id = caller.workspace_id;
  end if;
  return held;
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
  -- The first of many concurrent refusals writes it.
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

create or replace function ai.open_prices(providers text[]) returns table (
  model_id text, place smallint, provider_id text, provider_model text, tier_multipliers jsonb,
  trusts_stated_cost boolean, first_byte_seconds smallint, idle_seconds smallint, total_seconds smallint,
  sorts_as text, min_input_tokens integer, as_offered jsonb
)
  language sql
  stable
  security invoker
as $$
  select
    r.model_id, r.position, r.provider_id, r.provider_model, r.tier_multipliers,
    r.trusts_stated_cost, r.first_byte_seconds, r.idle_seconds, r.total_seconds,
    nullif(t.service_tier, 'default'), t.min_input_tokens, t.as_offered
  from ai.model_routes r
  join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id
  where r.enabled and r.provider_id = any (providers) and t.valid @> now()
    -- Settlement charges a service tier without its own price at the default tier's.
    and exists (
      select
      from ai.model_prices b
      where b.model_id = r.model_id and b.provider_id = r.provider_id and b.service_tier = 'default' and b.valid @> now()
    )
$$;

create or replace function ai.reject_price_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.valid is distinct from old.valid
    and (lower(new.valid) is distinct from lower(old.valid) or (upper(old.valid) is not null and upper(old.valid) <= now())) then
    raise exception 'a price''s past cannot be rewritten' using errcode = 'restrict_violation';
  end if;
  -- Generated columns are not computed yet.
  if (to_jsonb(new) - array['valid', 'as_offered']) is distinct from (to_jsonb(old) - array['valid', 'as_offered']) then
    raise exception 'a price never changes: close its range and add a new one' using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;

create or replace function ai.create_run_partitions(months_ahead integer default 3) returns integer
  language plpgsql
  volatile
  security invoker
  -- Months are UTC months, regardless of the caller's time zone.
  set timezone = 'UTC'
  set search_path = ''
as $$
declare
  first_day timestamptz;
  partition text;
  created integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('ai.create_run_partitions', 0));
  for first_day in
    select generate_series(date_trunc('month', now()), date_trunc('month', now()) + months_ahead * interval '1 month', '1 month')
  loop
    partition := format('ai.runs_%s', to_char(first_day, 'YYYY_MM'));
    continue when to_regclass(partition) is not null;
    if exists (select from ai.runs_default r where r.created_at >= first_day and r.created_at < first_day + interval '1 month') then
      raise warning 'the default partition of ai.runs already holds runs of %, which stay there', to_char(first_day, 'YYYY-MM');
      continue;
    end if;
    execute format(
      -- A run is written when it begins and when it ends. Free space on the page makes the second write a heap-only
      -- update.
      'create table %s partition of ai.runs for values from (%L) to (%L) with (fillfactor = 45)',
      partition, first_day, first_day + interval '1 month'
    );
    perform ai.protect_partition(partition::regclass);
    created := created + 1;
  end loop;
  return created;
end
$$;

create or replace function ai.lock_runs(reports jsonb) returns ai.run_report[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  moments timestamptz[];
  ids uuid[];
  told jsonb[];
  first_begun timestamptz;
  last_begun timestamptz;
  locked ai.run_report[];
begin
  select array_agg(n.created_at), array_agg(n.id), array_agg(n.report), min(n.created_at), max(n.created_at)
  into moments, ids, told, first_begun, last_begun
  from (
    select
      e.value as report,
      case when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') then (e.value ->> 'created_at')::timestamptz end
        as created_at,
      case when pg_input_is_valid(e.value ->> 'id', 'uuid') then (e.value ->> 'id')::uuid end as id
    from jsonb_array_elements(reports) as e
  ) as n;
  select array_agg(row(l.run, l.report)::ai.run_report) into locked
  from (
    select r as run, n.report
    from unnest(moments, ids, told) as n (created_at, id, report)
    -- The range lets the planner skip partitions of other months.
    join ai.runs r
      on r.created_at = n.created_at and r.id = n.id and r.created_at >= first_begun and r.created_at <= last_begun
    order by r.account_id, r.id
    for update of r
  ) as l;
  return coalesce(locked, '{}');
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
  -- Open runs; and those that the sweep closed, when the provider's own counts arrive later.
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

create or replace function ai.record_failed_attempts(closed ai.closed_run[]) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into ai.failed_attempts (
    run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
    upstream_request_id
  )
  select
    (c.run).created_at, (c.run).id, (c.run).request_id, (c.run).workspace_id, (c.run).model_id, a.provider, a.model, a.route,
    a.status, a.failure, a.upstream_request_id
  from unnest(closed) as c
  cross join lateral jsonb_to_recordset((c.run).attempts) as a (
    route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
  )
  -- A skipped route was not called, and a client that disconnected is not a failure of the provider.
  where a.failure not in ('skipped', 'cancelled')
$$;

create or replace function ai.complete_idempotency_keys(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.idempotency_keys i
  where i.run_id in (select (c.run).id from unnest(closed) as c where (c.run).idempotency_key is not null)
  order by i.run_id
  for update;
  -- Released only if no provider was called.
  delete from ai.idempotency_keys i using unnest(closed) as c where c.key_unused and i.run_id = (c.run).id;
  update ai.idempotency_keys i set state = 'finished' from unnest(closed) as c where i.run_id = (c.run).id;
end
$$;

-- Definer: gateway has no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.heartbeat_runs(runs jsonb) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  perform ai.lock_runs(runs);
  update ai.runs r
  set
    touched_at = now(),
    route = coalesce(o.route, r.route),
    input_tokens = greatest(r.input_tokens, o.input_tokens),
    output_tokens = greatest(r.output_tokens, o.output_tokens),
    -- The amount that the sweep would charge. A cost too large for the column would prevent the batch's other runs from
    -- being touched.
    cost_so_far_usd = greatest(r.cost_so_far_usd, least(coalesce(o.cost_usd, 0), r.reserved_usd))
  from jsonb_to_recordset(runs) as o (
    created_at timestamptz, id uuid, route smallint, input_tokens bigint, output_tokens bigint, cost_usd numeric
  )
  where r.created_at = o.created_at and r.id = o.id and r.status = 'running';
end
$$;

-- Definer: the server's service role has no grant to write runs or balances.
create or replace function ai.sweep_runs() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- A partition may be empty when a plan is made and large when it is used. Runs are found by key, one by one.
  set plan_cache_mode = force_custom_plan
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set jit = off
as $$
declare
  cutoff timestamptz := now() - interval '45 seconds';
  abandoned jsonb;
  ended integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_runs', 0)) then
    return 0;
  end if;
  delete from ai.long_running_runs l
  where l.run_created_at <= cutoff and not exists (
    select from ai.runs r where r.created_at = l.run_created_at and r.id = l.run_id and r.status = 'running'
  );
  perform ai.find_long_running_runs(cutoff);

  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 500,
    'error_code', 'abandoned',
    'usage_source', case when r.input_tokens + r.output_tokens > 0 then 'estimated_partial' else 'unavailable' end,
    'route', r.route,
    'estimated', true,
    'input_tokens', r.input_tokens,
    'output_tokens', r.output_tokens,
    'cost_usd', least(r.cost_so_far_usd, r.reserved_usd),
    'credits', ai.usd_to_credits(least(r.cost_so_far_usd, r.reserved_usd), r.markup)
  ))
  into abandoned
  from (
    -- In random order: runs that cannot be booked stay open, and would block the others if the oldest came first.
    select r.*
    from ai.long_running_runs l
    join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    where r.status = 'running' and r.touched_at < cutoff
    order by random()
    limit 500
  ) as r;
  if abandoned is not null then
    ended := jsonb_array_length(ai.settle_outcomes(abandoned, cutoff));
  end if;
  -- Last, because calls wait for this lock until the transaction ends.
  if to_regclass(format('ai.runs_%s', to_char(now() at time zone 'UTC' + interval '2 months', 'YYYY_MM'))) is null then
    perform ai.create_run_partitions();
  end if;
  return ended;
end
$$;

-- Definer: the server's service role has no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  -- Skips rows that are in use.
  delete from ai.idempotency_keys i
  using (
    select e.workspace_id, e.principal_id, e.key
    from ai.idempotency_keys e
    where e.expires_at <= now()
    order by e.expires_at
    limit at_most
    for update skip locked
  ) as expired
  where i.workspace_id = expired.workspace_id and i.principal_id = expired.principal_id and i.key = expired.key;
  get diagnostics keys = row_count;

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;

  delete from ai.failed_attempts f
  using (
    select o.id
    from ai.failed_attempts o
    where o.at < now() - interval '7 days'
    order by o.at
    limit at_most
    for update skip locked
  ) as old
  where f.id = old.id;
  get diagnostics attempts = row_count;
  return keys + windows + attempts;
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
  -- Serialized per account, like every change of its policy, so that the next one counts what this one left.
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
    -- A wrong code was not used: it may be valid half a minute later.
    delete from private.used_mfa_codes u
    where u.code_hash = decode(release_mfa_code.code_hash, 'hex') and u.session_id = release_mfa_code.session_id;
  end if;
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
    -- And no recovery code of the person locked out here, half-used or not, may end the reset.
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
  -- A subselect, so that the probe runs once per statement and not once per row.
  execute format(
    'create policy account_required_mfa on %s as restrictive for all to authenticated '
    'using ((select private.account_required_mfa_satisfied())) '
    'with check ((select private.account_required_mfa_satisfied()))',
    target
  );
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
  -- For example if its factor was removed since, or the account requires a newer proof.
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
    -- Only its own proofs: an approval can't be passed on.
    and private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, true, null, floor(extract(epoch from now()))::bigint
    )
    and claims ->> 'aal' = 'aal2'
    and private.latest_amr_second(claims -> 'amr', private.second_factor_methods()) <= extract(epoch from now())
$$;

create or replace function private.replace_mfa_recovery_codes(subject_id uuid, code_hashes text[]) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- Two concurrent replacements would leave both sets.
  perform pg_advisory_xact_lock(hashtextextended('private.mfa_recovery_codes ' || subject_id, 0));
  delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  insert into private.mfa_recovery_codes (user_id, code_hash)
  select subject_id, decode(hash, 'hex') from unnest(code_hashes) as hash;
end
$$;

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
  -- Locks the account first, like every policy change, so that no two deadlock.
  select * into account from auth.users u where u.id = subject_id for no key update;
  -- An unreadable policy must be repaired by an admin.
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
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.end_account_session(subject_id, s.id)
    from auth.sessions s
    where s.user_id = subject_id and s.id <> current_session_id;
    perform private.end_apps_of_account(subject_id);
    -- No signInAgain: this session signed in to use the code, and every other one is ended.
    update private.mfa_recovery_codes c
    set generation = (private.write_required_mfa_policy(account, '{"recovery": "in_progress"}') ->> 'generation')::bigint
    where c.id = begun;
  end if;
  return begun;
end
$$;

create or replace function private.session_satisfies_mfa(claims jsonb) returns boolean
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  -- No row (session ended, account deleted) yields null, which counts as false.
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

create or replace function private.is_approval_proven(approval private.login_challenges, proof text) returns boolean
  language sql
  stable
  security invoker
as $$
  select case
    -- Release 0.1.0 binds approvals without a key. Its servers check the cookie themselves.
    when (approval).proof_key is null then true
    when proof ~ '^[0-9]{10}[.][0-9a-f]{64}$' then
      left(proof, 10)::bigint
        between floor(extract(epoch from now()))::bigint - 60 and floor(extract(epoch from now()))::bigint + 60
      -- Hashes are compared, so that the timing reveals nothing about the expected value.
      and sha256(decode(right(proof, 64), 'hex')) = sha256(extensions.hmac(
        convert_to((approval).bound_session_id || ' ' || left(proof, 10), 'UTF8'), (approval).proof_key, 'sha256'
      ))
    else false
  end
$$;

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
  -- Without a required policy, any proof counts that is not in the future.
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

create or replace function private.is_integer(value jsonb) returns boolean
  language sql
  immutable
  security invoker
as $$
  -- Up to the largest integer that JavaScript represents exactly, since both languages must read the same number.
  select case
    when jsonb_typeof(value) = 'number'
      then value::numeric between 0 and 9007199254740991 and value::numeric = trunc(value::numeric)
    else false
  end
$$;

-- Definer: reads the identity backend's tables and applies the required-MFA rule, which the service role may not.
create or replace function private.open_openid_authorization(
  client_id text, redirect_uri text, scopes text[], claims jsonb default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  granted text[];
begin
  select * into app from private.apps a where a.name = open_openid_authorization.client_id and a.kind = 'openid';
  if not found then
    return null;
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  granted := private.openid_scopes(app.id, open_openid_authorization.scopes);
  -- Null claims belong to no session.
  select * into proved from private.session_proof(coalesce(open_openid_authorization.claims, '{}'));
  return jsonb_build_object(
    'client', jsonb_build_object('name', app.name, 'displayName', app.display_name, 'enabled', app.enabled),
    'redirectAllowed', private.is_openid_redirect_uri(client, open_openid_authorization.redirect_uri),
    'scopes', to_jsonb(granted),
    'session', case when proved.refused is null then jsonb_build_object(
      'authTime', floor(extract(epoch from (
        private.openid_authentication_of(open_openid_authorization.claims, proved.proof, proved.valid_until is not null)
      ).auth_time))::bigint,
      'consented', private.has_openid_consent(
        (proved.proof).user_id, client, granted, open_openid_authorization.redirect_uri
      )
    ) end
  );
end
$$;

-- Definer: as open_openid_authorization.
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
  -- Locked, so that disabling the app waits for this code and revokes it, or this waits for it. Apps are locked before
  -- accounts.
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

create or replace function private.has_openid_consent(
  user_id uuid, client private.openid_clients, scopes text[], redirect_uri text
) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select not (
      -- Another program on the same computer can impersonate the client (RFC 8252 section 8.6).
      client.is_public
      and (has_openid_consent.redirect_uri !~ '^https?://' or private.is_loopback_redirect(has_openid_consent.redirect_uri))
    )
    and exists (
      select
      from private.openid_consents c
      where c.user_id = has_openid_consent.user_id
        and c.app_id = client.app_id
        and c.scopes @> has_openid_consent.scopes
    )
$$;

-- Definer: the functions for client registrations are not granted to any role.
create or replace function private.read_device_authorization(user_code text, reader_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'userCode', d.user_code,
    -- Another person's decision is not shown.
    'state', case when d.user_id <> reader_id then 'expired' else private.device_authorization_state(d) end,
    'app', jsonb_build_object('name', a.name, 'displayName', a.display_name),
    'scopes', to_jsonb(d.scopes),
    'userAgent', coalesce(d.user_agent, ''),
    'address', host(d.ip),
    'place', d.place ->> 'name',
    'createdAt', d.created_at,
    'expiresAt', d.expires_at
  )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id
  where d.user_code = read_device_authorization.user_code
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
  -- Taken before anything is read, so that a new password waits for this approval and revokes it, or this waits for it.
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
  -- Disabling the client waits for these tokens and revokes them, or this waits for it. Apps are locked before
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
  -- Approved after the account was looked up, so the account is not locked yet: the next poll redeems it.
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

create or replace function private.claim_logout_notices(max_notices integer)
  returns table (id uuid, app text, uri text, user_id uuid, sid uuid, attempts smallint, is_last boolean)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with unneeded as (
    delete from private.logout_notices n
    using private.apps a
    where n.next_attempt_at <= now()
      and a.id = n.app_id
      and (
        a.backchannel_logout_uri is null
        or exists (select from private.logout_notices o where o.sid = n.sid and o.id < n.id)
      )
  ), claimed as (
    update private.logout_notices n
    set
      attempts = n.attempts + 1,
      next_attempt_at = now() + case n.attempts
        when 0 then interval '5 seconds'
        when 1 then interval '30 seconds'
        when 2 then interval '2 minutes'
        when 3 then interval '10 minutes'
        else interval '1 hour'
      end
    -- An array is read once. A join could run the limited query more than once.
    where n.id = any (array(
      select due.id
      from private.logout_notices due
      join (
        select w.id, row_number() over (partition by w.app_id order by w.next_attempt_at) as turn
        from private.logout_notices w
        join private.apps a on a.id = w.app_id and a.backchannel_logout_uri is not null
        where w.next_attempt_at <= now()
          and not exists (select from private.logout_notices o where o.sid = w.sid and o.id < w.id)
      ) waiting on waiting.id = due.id
      -- Checked again, since another caller may have claimed it in between.
      where due.next_attempt_at <= now()
      -- Alternates between apps, so that one that does not answer can't delay the notices of others.
      order by waiting.turn, due.next_attempt_at
      limit max_notices
      for update of due skip locked
    ))
    returning n.*
  )
  select
    c.id, a.name, a.backchannel_logout_uri, c.user_id, c.sid, c.attempts, c.created_at <= now() - interval '1 day'
  from claimed c
  join private.apps a on a.id = c.app_id
$$;

create or replace function private.replace_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text, replaces text default null
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  from_time timestamptz;
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if private.current_signing_key() is distinct from replaces then
    return false;
  end if;
  from_time := clock_timestamp();
  -- A key that has yet to sign could replace this one, and may not be readable either.
  delete from private.signing_keys k where k.signs_from > from_time;
  -- Servers that do not share a secret replace each other's keys, so the published set is limited.
  delete from private.signing_keys k
  where k.kid not in (select n.kid from private.signing_keys n order by n.signs_from desc limit 5);
  update private.signing_keys k
  set retires_at = from_time + interval '1 day'
  where k.retires_at is null or k.retires_at > from_time + interval '1 day';
  insert into private.signing_keys (kid, public_jwk, sealed_private_jwk, sealing_key_id, created_at, signs_from)
  values (
    replace_signing_key.kid, replace_signing_key.public_jwk, replace_signing_key.sealed_private_jwk,
    replace_signing_key.sealing_key_id, from_time, from_time
  );
  return true;
end
$$;

create or replace function private.add_openid_tokens(
  login private.openid_grants, scopes text[], access_hash bytea, refresh_hash bytea
) returns jsonb
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.openid_tokens as t (grant_id, scopes, access_hash, access_expires_at, refresh_hash)
  values (
    login.id,
    add_openid_tokens.scopes,
    add_openid_tokens.access_hash,
    least(now() + interval '1 hour', login.ends_at),
    -- The only scope that allows a refresh token (OpenID Connect Core 1.0 section 11).
    case when 'offline_access' = any (login.scopes) then add_openid_tokens.refresh_hash end
  )
  returning private.describe_openid_tokens(login, t)
$$;

-- Definer: as redeem_authorization_code.
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
    -- Reused after its grace period: one of the two users is not the client (RFC 9700 section 4.14.2).
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
  -- Every setting that changes how Postgres prints a definition.
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
    -- Without comments and without whitespace, except in strings and between two words.
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
  -- Used ones too: a released one must not become valid alongside this one.
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

-- Definer: accounts and their policies are in Supabase Auth's tables, which the service role can neither read nor
-- write.
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
    -- Locks the email first, then the credential, for links and for codes, so that no two deadlock.
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  credential.consumed_at := case
    when not private.is_recovery_open_to(credential, decode(request ->> 'browserHash', 'hex'))
      then coalesce(credential.consumed_at, now())
  end;
  verdict := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  if verdict <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', verdict, 'email', of_email, 'overrideId', credential.override_id,
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
  -- A person who recovers must prove everything again. An unreadable policy must be repaired by an admin.
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
    'replacedPassword', credential.replaced_password,
    'waitMs', coalesce(greatest(
      0, ceil(((written ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
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
  -- Its creator may have taken over the email since.
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
  -- Never for its own creator, who may have taken over the email since.
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
  -- Three names for one algorithm; pgcrypto knows the oldest.
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

-- Definer: calls recovery_actor_refusal, which is not granted to any role.
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
  -- Serialized per email.
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
  -- For a day the page can explain that a link has expired, and the log can name the email.
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
    -- Its refreshes, about once an hour, and its owner's activity in it.
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
  -- A spent secret too: another tab may have added an account while this request was in flight.
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

  -- Earlier requests may have taken some of these, and their responses may be lost or still in flight.
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
    -- For as long as the accounts can be used without another sign-in.
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
        -- A switch that began earlier must not activate over it.
        lease_id = null,
        lease_expires_at = null,
        last_seen_at = now(),
        expires_at = now() + interval '90 days'
    where d.id = device.id;
  end if;
  return jsonb_build_object('status', 'current', 'secret', held);
end
$$;

-- Definer: as take_additions.
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
    -- The new one exists already if the answer to the same call was lost.
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

-- Definer: emails are in Supabase Auth's tables.
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
            -- No account may be active, so null is coalesced to false.
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

-- Definer: locks accounts, whose rows are in Supabase Auth's tables.
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
  -- One sweeper at a time; others do nothing.
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_account_devices', 0)) then
    return 0;
  end if;
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.last_active_at <= now() - interval '30 days'
    union
    select a.user_id from private.account_additions a where a.expires_at <= now()
  ));
  for idle in
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.sealed is not null and e.last_active_at <= now() - interval '30 days'
    returning e.user_id, e.session_id
  loop
    perform private.end_account_session(idle.user_id, idle.session_id);
  end loop;
  for idle in
    delete from private.account_additions a where a.expires_at <= now() returning a.user_id, a.session_id, a.taken_from
  loop
    if idle.taken_from is null then
      perform private.end_account_session(idle.user_id, idle.session_id);
    end if;
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

-- Definer: for the same reason as account_required_mfa_satisfied.
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
      -- The backend's clock may be slightly ahead of ours.
      current_second + 60
    )
    from private.session_facts(auth.jwt()) f
  ), false);
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
  -- Not again while the previous secret is still valid: if responses overtake each other, the last to arrive leaves the
  -- browser with one of the two.
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
    union
    select a.user_id from private.account_additions a where a.device_id = sign_out_device.device_id
  ));
  select d.* into device from private.account_devices d where d.id = sign_out_device.device_id for update;
  -- Signing out accepts the spent secret too, because its holder was using the browser a moment ago.
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
  ended := ended || private.end_additions(device.id, null);
  delete from private.account_devices d where d.id = device.id;
  return ended;
end
$$;

-- Our servers create new devices with it. Servers of 0.1.0 also add accounts to known devices with it.
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
  -- The session there may be this very one, if the previous response was lost.
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
      -- A switch that began earlier must not activate over it.
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
  -- The device is locked first, as in every function here that locks both.
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
  -- Its tokens are not held anywhere any more.
  perform private.end_account_session(discard_account_session.user_id, ended_id);
  return ended_id is not null;
end
$$;

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
  -- Serialized per account, so that concurrent callers can't exceed the limit.
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

  -- A browser waits for one answer of each kind: for its latest request.
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

create or replace function private.login_challenge_state(challenge private.login_challenges) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when challenge.status in ('consumed', 'bound', 'rejected', 'locked') then challenge.status
    -- The caller that claimed it is about to answer; once its lease has expired, there is nothing to wait for.
    when challenge.status = 'consuming'
      then case when challenge.lease_expires_at > now() then 'approved' else 'expired' end
    when challenge.expires_at <= now() then 'expired'
    else challenge.status
  end
$$;

-- Definer: identities are in Supabase Auth's tables. Its own call would refuse if one identity remains with a password
-- or a passkey, would allow it if what remains does not work, and would give the account another identity's address;
-- and another way could be removed between our count and its deletion.
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
  -- Serialized per account, so that the next one counts what this one left.
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

-- Definer: flows and identities are in Supabase Auth's tables, which the service role cannot read.
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
          'confirmed', not private.is_unconfirmed_identity(i.id)
        )
      )
      from auth.flow_state f
      join auth.users u on u.id = f.user_id
      -- The backend completed the flow and wrote its identity in one transaction, so xmin finds that very identity.
      join auth.identities i on i.user_id = f.user_id and i.provider = f.provider_type and i.xmin = f.xmin
      where f.auth_code = inspect_oauth_attempt.code
        and f.code_challenge = inspect_oauth_attempt.challenge
        and f.provider_type = a.provider
    )
  )
  from private.oauth_attempts a
  where a.state_hash = decode(attempt_hash, 'hex') and a.used_at is null and a.expires_at > now()
$$;

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
  select i.id, i.provider, i.email,
    -- A direct call may have linked it since the flow began; that stays on record.
    i.created_at >= flow.created_at
      and not exists (select from private.unconfirmed_additions a where a.target_id = i.id) as is_new,
    i.created_at >= flow.created_at or private.is_unconfirmed_identity(i.id) as may_go
  into identity
  from auth.identities i
  where i.user_id = flow.user_id and i.provider = flow.provider_type and i.xmin = flow.written_by;

  -- The code becomes void: a link needs no session, and a refused sign-in gets none.
  perform private.delete_auth_flow(flow.id);

  if verdict = 'link' then
    if identity.id is null or flow.linking_target_id is distinct from attempt.user_id then
      return false;
    end if;
    delete from private.unconfirmed_identities n where n.identity_id = identity.id;
    if found then
      perform private.record_addition(
        attempt.user_id, 'identity', identity.id, true,
        jsonb_build_object('provider', identity.provider, 'email', identity.email)
      );
    end if;
    return true;
  end if;

  if not private.delete_unused_auth_user(flow.user_id, flow.created_at) and identity.may_go then
    delete from public.security_events e
    where e.target_id = identity.id and e.created_at >= flow.created_at and identity.is_new;
    perform set_config('gatehouse.takes_back', case when identity.is_new then 'on' else 'off' end, true);
    perform private.remove_identity(identity.id);
    perform set_config('gatehouse.takes_back', 'off', true);
  end if;
  return true;
end
$$;

-- Definer: as complete_oauth_attempt.
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
  -- A little longer than an attempt's lifetime, so that a link in progress keeps its identity.
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
-- leave an account without a way to sign in; and another way could be removed between our count and its deletion.
create or replace function private.delete_passkey(subject_id uuid, actor_session_id uuid, target_id uuid, usable_providers text[])
  returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- Serialized per account, like private.unlink_identity, so that the next one counts what this one left.
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

  -- This is not a new sign-in: the session is as old as the approver's own sign-in, for boundaries and for step-up, in
  -- every token that the backend issues for it from now on.
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

-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- One sweep at a time, and each reads the budgets after the previous one has finished, so that it sees a limit just
  -- raised.
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
    -- No attempt is in progress, so it is due immediately.
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
    -- For an hour after its end, a month can still be warned about, if no call has begun the next one in its row.
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
      -- The warning about to be sent no longer applies.
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
      -- Until a call of the month was admitted, the amount held is the previous month's, and will be released.
      and budget.period_start = date_trunc('month', now() at time zone 'UTC')::date
      and budget.limit_usd > 0
      and (budget.spent_usd + budget.reserved_usd) * 5 >= budget.limit_usd * 4,
    false
  )
$$;

-- Definer: as ai.issue_key.
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
  -- The new key will refer to the workspace, which an account deletion locks before its keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- One rotation of a key at a time; the second finds it replaced.
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
    -- The row without a key has the whole range.
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
  -- By label, only the sums of the whole range.
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
    -- As bytes, because finding the nth character of a text means counting them.
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

-- Definer: for the same reason as ai.read_workspace_policy; and the service role cannot write budgets.
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
  -- Apps before the workspace, in lock order.
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

-- Definer: gateway has no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.store_run_content(content jsonb) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  insert into ai.run_content as c (run_created_at, run_id, workspace_id, prompt, tools, answer)
  select r.created_at, r.id, r.workspace_id, content ->> 'prompt', content ->> 'tools', content ->> 'answer'
  from ai.runs r
  join public.workspaces s on s.id = r.workspace_id and s.deleted_at is null
  -- Checks the current policy: switching capture off applies to runs in progress too.
  join ai.workspace_policies w on w.workspace_id = r.workspace_id and w.content_capture
  where r.created_at = (content ->> 'created_at')::timestamptz and r.id = (content ->> 'id')::uuid
  on conflict (run_created_at, run_id) do update
  set
    prompt = coalesce(c.prompt, excluded.prompt),
    tools = coalesce(c.tools, excluded.tools),
    answer = coalesce(c.answer, excluded.answer)
$$;

-- Definer: the server's service role cannot delete these rows itself.
create or replace function ai.delete_expired_content(most integer default 1000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  swept integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired_content', 0)) then
    return 0;
  end if;
  with recursive owners as (
    (select c.workspace_id from ai.run_content c order by c.workspace_id limit 1)
    union all
    select (
      select c.workspace_id from ai.run_content c where c.workspace_id > o.workspace_id order by c.workspace_id limit 1
    )
    from owners o
    where o.workspace_id is not null
  ), over as (
    select c.run_created_at, c.run_id
    from owners o
    left join public.workspaces s on s.id = o.workspace_id and s.deleted_at is null
    left join ai.workspace_policies w on w.workspace_id = s.id and w.content_capture
    cross join lateral (
      select c.run_created_at, c.run_id
      from ai.run_content c
      where c.workspace_id = o.workspace_id
        -- Content of a closed workspace, or of one without a capturing policy, is not kept.
        and c.run_created_at < coalesce(now() - make_interval(days => w.content_retention_days), 'infinity')
      order by c.run_created_at
      limit most
    ) as c
    limit most
  )
  delete from ai.run_content c
  using over o
  where c.run_created_at = o.run_created_at and c.run_id = o.run_id;
  get diagnostics swept = row_count;
  delete from ai.idempotency_keys i
  where (i.workspace_id, i.principal_id, i.key) in (
    select o.workspace_id, o.principal_id, o.key
    from ai.idempotency_keys o
    where o.expires_at < now()
    order by o.expires_at
    limit most
    for update skip locked
  );
  return swept;
end
$$;

create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select r
  from ai.runs r,
    -- The id is a UUID version 7 of its creation, so it determines the partition.
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
  -- A plan for every filter would use no index and read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  -- A row comparison, (created_at, id) < (last_at, last_id), would prune no partition.
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
  -- A deleted app or account can still have runs.
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
    -- Not in ai.run_summary, which would plan it again for each run.
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
  -- Sums do not count open runs separately, and today has none.
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

create or replace function ai.run_provider(routes jsonb, route smallint) returns text
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Routes are listed in order. Without a subselect, the function is inlined into its caller's plan, which is ten times
  -- as fast.
  select case
    when (routes -> (route - 1) ->> 'position')::smallint = route then routes -> (route - 1) ->> 'provider'
    else ai.route_provider(routes, route)
  end
$$;

create or replace function ai.latency_bucket(ms integer) returns integer
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Slightly increased, so that powers of two begin their bucket regardless of the logarithm's last digit.
  select case
    when ms < 1 then 0
    when ms >= 1 then least(1 + floor(4 * ln(ms::double precision) / ln(2::double precision) + 1e-9), 80)
  end::integer
$$;

create or replace function ai.platform_usage(first_day date, last_day date, of_provider text default null)
  returns table (
    workspace_id uuid, day date, provider_id text, billing_name text, billing_account text, requests numeric, failed numeric,
    input_tokens numeric, output_tokens numeric, cost_usd numeric, estimated_runs numeric, closed_runs numeric
  )
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- Days are in UTC. A generic plan would read all sums.
  set timezone = 'UTC'
  set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  live_from date := (select s.before from ai.usage_sealed_days s);
  sums_from date := case
    when detailed then (select least(s.detailed_from, s.before) from ai.usage_sealed_days s) else '-infinity'
  end;
  live_start timestamptz := greatest(first_day, live_from);
  summed_start timestamptz := least(last_day + 1, sums_from);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
  changed_days date[] := array(
    select distinct c.day
    from ai.usage_changed_days c
    where c.day between first_day and last_day and c.day >= sums_from and c.day < live_from
  );
begin
  return query
    with changed as (
      select distinct c.workspace_id, c.day
      from ai.usage_changed_days c
      where c.day = any (changed_days)
    ), parts as (
      -- Each part is grouped separately: with few groups, Postgres hashes instead of sorting.
      select case when detailed then u.workspace_id end as workspace_id, case when detailed then u.day end as day,
        u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd,
        sum(u.estimated_runs) as estimated_runs, sum(u.closed_runs) as closed_runs
      from ai.usage_daily u
      where u.day between greatest(first_day, sums_from) and least(last_day, live_from - 1) and u.day <> all (changed_days)
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then u.workspace_id end, case when detailed then u.day end, u.provider_id, u.billing_name,
        u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd),
        sum(u.estimated_runs), sum(u.closed_runs)
      from ai.usage_daily u
      where u.day = any (changed_days) and (u.workspace_id, u.day) not in (select c.workspace_id, c.day from changed c)
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then s.workspace_id end, case when detailed then s.day end, s.provider_id, s.billing_name,
        s.billing_account, sum(s.requests), sum(s.failed), sum(s.input_tokens), sum(s.output_tokens), sum(s.cost_usd),
        sum(s.estimated_runs), sum(s.closed_runs)
      from changed c
      cross join lateral ai.sum_usage(c.workspace_id, c.day::timestamptz, (c.day + 1)::timestamptz) as s
      where not detailed or s.closed_runs > 0 or ai.billing_provider(s.billing_name, s.provider_id) = of_provider
      group by 1, 2, s.provider_id, s.billing_name, s.billing_account
      union all
      select case when detailed then r.workspace_id end, case when detailed then r.created_at::date end,
        ai.run_provider(r.routes, r.route), r.billing_name, r.billing_account, count(*),
        count(*) filter (where r.status = 'failed'), sum(r.input_tokens), sum(r.output_tokens), sum(r.cost_usd),
        count(*) filter (where ai.is_estimated(r.usage_source, r.swept)), count(*) filter (where r.swept)
      from (
        select * from ai.runs l where l.created_at >= live_start and l.created_at < range_end
        union all
        select * from ai.runs o where o.created_at >= range_start and o.created_at < summed_start
      ) as r
      where not detailed or r.swept or ai.billing_provider(r.billing_name, ai.run_provider(r.routes, r.route)) = of_provider
      group by 1, 2, 3, r.billing_name, r.billing_account
    )
    select p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account, sum(p.requests), sum(p.failed),
      sum(p.input_tokens), sum(p.output_tokens), sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from parts p
    group by p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account;
end
$$;

-- Like ai.sum_usage, this is inlined into its callers' plans.
create or replace function ai.live_usage_ranges(
  workspace uuid, window_from timestamptz, window_to timestamptz, detailed boolean
) returns table (first_moment timestamptz, end_moment timestamptz, first_day date, last_day date)
  language sql
  stable
  security invoker
as $$
  with bounds as (
    select
      s.before,
      case when detailed then least(s.detailed_from, s.before) else '-infinity' end as sums_from,
      (window_from at time zone 'UTC')::date as first_day,
      (window_to at time zone 'UTC')::date as last_day
    from ai.usage_sealed_days s
  ), days as (
    select c.day
    from bounds b
    join ai.usage_changed_days c on c.workspace_id = workspace and c.day between b.first_day and b.last_day
    where c.day >= b.sums_from and c.day < b.before
    union
    -- Days that are only partly in the window.
    select e.day
    from bounds b
    cross join lateral (values (b.first_day, window_from), (b.last_day, window_to)) as e (day, edge)
    where e.day >= b.sums_from and e.day < b.before and e.edge <> e.day::timestamp at time zone 'UTC'
  ), ranges as (
    select d.day::timestamp at time zone 'UTC' as first_moment, (d.day + 1)::timestamp at time zone 'UTC' as end_moment
    from days d
    union all
    select '-infinity', b.sums_from::timestamp at time zone 'UTC' from bounds b
    union all
    select b.before::timestamp at time zone 'UTC', 'infinity' from bounds b
  )
  select
    c.first_moment, c.end_moment, (c.first_moment at time zone 'UTC')::date,
    ((c.end_moment - interval '1 microsecond') at time zone 'UTC')::date
  from ranges r
  cross join lateral (
    select greatest(window_from, r.first_moment) as first_moment, least(window_to, r.end_moment) as end_moment
  ) c
  where c.first_moment < c.end_moment
$$;

create or replace function ai.usage_window(
  given_from timestamptz, given_to timestamptz, default_days integer, most_days integer default 365,
  out window_from timestamptz, out window_to timestamptz, out fault text
)
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  -- 24 hours a day, regardless of daylight saving in the session's time zone.
  window_to := coalesce(given_to, date_trunc('milliseconds', now()));
  window_from := coalesce(given_from, window_to - default_days * interval '24 hours');
  fault := case
    when window_from >= window_to then 'from must be before to.'
    when window_to - window_from > most_days * interval '24 hours' then format('The window may have %s days at most.', most_days)
  end;
end
$$;

create or replace function ai.seal_completed_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  -- A call of yesterday has long committed: the gateway's statements take at most 10 seconds.
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
    -- Changes that commit from here on leave a mark that this does not delete.
    delete from ai.usage_changed_days c where c.id = any (changed.ids);
    continue when changed.day >= (select s.before from ai.usage_sealed_days s);
    perform ai.rebuild_usage_day(changed.day, changed.workspaces);
    summed := summed + 1;
  end loop;
  return summed;
end
$$;

-- Definer: users have no grant to insert workspaces, because they may not choose the other columns.
create or replace function public.create_workspace(name text) returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  founder uuid := auth.uid();
  created uuid;
begin
  if founder is null or not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  -- Serialized per person, so that concurrent callers can't exceed the limit.
  perform pg_advisory_xact_lock(hashtextextended('create_workspace ' || founder::text, 0));
  if (
    select count(*) >= 20
    from public.workspaces w
    where w.created_by = founder and w.deleted_at is null
  ) then
    raise exception 'too many workspaces' using errcode = 'PT409';
  end if;
  insert into public.workspaces (name, created_by) values (btrim(create_workspace.name), founder)
  returning id into created;
  return created;
end
$$;

-- Definer: an invited person has no grant to write memberships.
create or replace function public.accept_workspace_invitation(token_hash text) returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  joined public.workspace_invitations;
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  update public.workspace_invitations i
  set accepted_at = now(), accepted_by = auth.uid()
  from auth.users u, public.workspaces w
  where i.token_hash = case
      when accept_workspace_invitation.token_hash ~ '^[0-9a-f]{64}$'
        then decode(accept_workspace_invitation.token_hash, 'hex')
    end
    and i.accepted_at is null
    and i.expires_at > now()
    and u.id = auth.uid()
    and lower(u.email) = i.email
    and u.email_confirmed_at is not null
    and w.id = i.workspace_id
    and w.deleted_at is null
  returning i.* into joined;
  if not found then
    raise exception 'no open invitation of this account' using errcode = 'PT404';
  end if;
  -- An existing member keeps their role.
  insert into public.workspace_members (workspace_id, user_id, role_id)
  values (joined.workspace_id, auth.uid(), joined.role_id)
  on conflict do nothing;
  return joined.workspace_id;
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
  -- The role that allows the most, apart from owner roles.
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

-- Definer: members have no grant on deleted_at or on keys.
create or replace function public.delete_workspace(workspace_id uuid) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
#variable_conflict use_column
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if (delete_workspace.workspace_id in (select private.my_workspace_ids())) is not true then
    raise exception 'no such workspace' using errcode = 'PT404';
  end if;
  if delete_workspace.workspace_id not in (select private.my_workspace_ids_with_permission('manage_workspace_settings')) then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if not private.session_is_fresh() then
    raise exception 'prove again who you are' using errcode = 'PT403';
  end if;
  -- Invitations are locked before their workspace, as they are by an acceptance or by the deletion of the sender's
  -- account.
  delete from public.workspace_invitations i
  where i.workspace_id = delete_workspace.workspace_id and i.accepted_at is null;
  update public.workspaces w set deleted_at = now()
  where w.id = delete_workspace.workspace_id and w.deleted_at is null;
  update ai.keys k set revoked_at = now()
  where k.workspace_id = delete_workspace.workspace_id and k.revoked_at is null;
end
$$;

-- Definer: must count owners, and lock the workspace, regardless of what the caller may see.
create or replace function private.require_workspace_owner() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not (select r.is_owner from public.workspace_roles r where r.id = old.role_id) then
    return null;
  end if;

  -- Serialized, since otherwise two owners could leave concurrently and leave no owner.
  perform from public.workspaces w where w.id = old.workspace_id and w.deleted_at is null for no key update;
  if not found then
    return null;
  end if;

  -- A person whose account is deleted leaves in any case.
  if not exists (select from public.profiles p where p.id = old.user_id) then
    return null;
  end if;

  if not exists (
    select
    from public.workspace_members m
    join public.workspace_roles r on r.id = m.role_id
    where m.workspace_id = old.workspace_id and r.is_owner
  ) then
    raise exception 'a workspace needs an owner' using errcode = 'PT409';
  end if;
  return null;
end
$$;

-- Definer: the identity backend deletes users, and has no grant on workspaces.
create or replace function private.close_orphaned_workspaces() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- Serialized, since otherwise the last two members could each assume that the other stays. Memberships are locked
  -- before workspaces, as they are when a member leaves.
  perform from public.workspace_members m where m.user_id = old.id order by m.workspace_id for update;
  perform
  from public.workspaces w
  where w.deleted_at is null
    and w.id in (select m.workspace_id from public.workspace_members m where m.user_id = old.id)
  order by w.id
  for no key update;
  update public.workspaces w
  set
    deleted_at = pg_catalog.now(),
    name = case when w.personal_user_id = old.id then 'Deleted workspace' else w.name end
  where w.deleted_at is null
    and w.id in (select m.workspace_id from public.workspace_members m where m.user_id = old.id)
    and not exists (
      select
      from public.workspace_members m
      join public.workspace_roles r on r.id = m.role_id
      where m.workspace_id = w.id
        and m.user_id <> old.id
        -- A personal workspace stays only if another member owns it too.
        and (r.is_owner or w.personal_user_id is distinct from old.id)
    );
  return old;
end
$$;

comment on function ai.account_workspaces(ai.platform_part[], text) is
  'Returns the workspaces whose runs name an account, or all for null, at most 100: [{ workspaceId, name, meteredUsd, '
  'daysWithoutRuns }], first those without runs on most of the days whose bill is above what was metered.';

comment on function ai.admit_call(ai.priced_call) is
  'Admits one call whose rows are locked: reserves its maximum cost, opens its run and answers as ai.begin_run does. '
  'Not granted to any role, because it trusts its caller.';

comment on function ai.admit_calls(jsonb) is
  'Finds the caller and the maximum cost of each call, locks what all of them need, and then admits them one after '
  'another.';

comment on function ai.app_caller(jsonb) is
  'Returns who calls for a registered app, by the credential only: an app''s token or a key bound to it, with the '
  'workspace named. refused has the reason if it is refused. Not granted to any role.';

comment on function ai.app_can_act_in_workspace(uuid, uuid) is
  'Returns whether a key bound to the app may be used in the workspace now: the app is registered, external, enabled '
  'and linked. For definers; not granted to any role.';

comment on function ai.app_label(uuid) is 'Returns an app''s display name; null once it is deleted.';

comment on function ai.begin_calls(jsonb) is 'Admits calls, unless that took so long that their caller has given up.';

comment on function ai.begin_run(jsonb) is
  'Decides about a call and, if it is admitted, reserves its maximum cost and opens its run. Returns the run with its '
  'routes and prices, or {refused: code, …}, as JSON text.';

comment on function ai.begin_runs(jsonb) is
  'Decides about several calls, each separately, and returns begin_run''s answers in their order, as a JSON array. '
  'Atomic: if it raises, nothing is reserved and no run is open.';

comment on function ai.billing_provider(text, text) is
  'Returns the provider''s name in imported costs and invoices: the billing name of the runs, or else the provider''s '
  'id, normalized.';

comment on function ai.book_clashes(uuid, timestamptz, timestamptz) is
  'Returns records of a window that were stored under several spellings of their provider, at most 100: [{ kind: cost '
  'or invoice, provider, spellings, accountId, externalRunId or reference }]. For costs the last observed counts, for '
  'invoices the first recorded.';

comment on function ai.booked_costs(uuid, timestamptz, timestamptz) is
  'Returns the imported and invoiced cost that counts in a book: a row for each cost with its UTC day, and for each '
  'invoice and month with the first day of the month. An invoice is spread over its days (ai.invoice_days), and a '
  'replaced one does not count.';

comment on function ai.budget_recipients(text, uuid) is
  'Returns who is warned about a budget: those who can change it. Owners and members with manage_ai_policy, and for a '
  'key''s budget members with manage_ai_keys.';

comment on function ai.budget_refuses_calls(ai.budgets) is
  'Returns whether a budget is effectively used up: a call of this UTC month did not fit, and at least 80 percent of '
  'it is spent or held. Below that, the refused call was simply too large: one absurdly large request to a fresh '
  'budget indicates nothing about others.';

comment on function ai.budget_summary(ai.budgets, boolean) is
  'Returns the limit and the amount spent in the current UTC month, as exact text; the latter only if members can see '
  'provider cost.';

comment on function ai.budget_threshold(ai.budgets) is
  'Returns the highest of 50, 80 and 100 percent of its limit that a budget has spent, exactly; 0 below them. Also 100'
  ' if it refuses calls: their maximum cost no longer fits shortly before all is spent.';

comment on function ai.call_limits(ai.caller, ai.rate_window_use, ai.rate_window_use) is
  'Returns a caller''s limits and current counts in the form of ai.rate_limit_headers.';

comment on function ai.call_refusal(ai.caller, text) is
  'Returns why a caller may make no call, or none of a given kind; null if they may.';

comment on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) is
  'Sets one monthly budget, or removes it with null. Requires manage_ai_policy, for a key manage_ai_keys. Scope label '
  'takes the label itself and derives its subject. read_limit_usd is the limit that the member saw: if it differs now,'
  ' nothing changes. Outcomes: changed, unchanged, changed_meanwhile (with limitUsd), not_allowed, not_found. Each '
  'change is logged.';

comment on function ai.change_credits(uuid, numeric, text, text) is
  'Grants credits to an account, or withdraws them: { outcome: changed | repeated (the reference was used for this '
  'amount) | reference_used (for another amount) | insufficient (more than the balance less reservations), balance, '
  'amount, available }. Serialized per account. References that differ only in spaces or Unicode composition are the '
  'same; case matters.';

comment on function ai.change_workspace_policy(uuid, uuid, jsonb) is
  'Changes the given fields of a workspace''s policy, for a member with manage_ai_policy: allowedModels, deniedModels,'
  ' requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, '
  'appBudgets [{ appId, monthlyBudgetUsd }]; null removes a limit. readAt is the updatedAt of the policy that the '
  'member saw: if it differs now, nothing changes. Outcomes: changed and changed_meanwhile (with policy), not_allowed,'
  ' app_not_linked, unknown_models (with param and models: names in neither list before). Each change is logged in the'
  ' workspace.';

comment on function ai.check_app_caller(jsonb) is
  'Checks, for a call with an invalid body, whether its credential may import costs and read usage at all. Returns { '
  'workspace_id } or { refused }.';

comment on function ai.check_credential(jsonb) is
  'Checks the credential of a call whose body is invalid or large, so that a caller without one, or without the right '
  'to make calls of a given kind, is refused before anything about the body is reported. Returns whose it is, or '
  '{refused: code}.';

comment on function ai.collect_locks(ai.priced_call[]) is 'Returns the rows that calls need, except for refused calls.';

comment on function ai.compare_cost_file(uuid, uuid, jsonb) is
  'Returns the account days of a valid document, by account and day, with the records they correct; and the days '
  'between its first and its last that other files stated and this one lacks: remaining, or cleared if the document '
  'has clear. Not granted to any role.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.compare_costs(uuid, uuid, timestamptz, timestamptz, text, text, integer)') is not null then
    comment on function ai.compare_costs(uuid, uuid, timestamptz, timestamptz, text, text, integer) is
      'Returns ai.cost_comparison_page for a member with use_ai_studio, otherwise { outcome: not_allowed }.';
  end if;
end
$guard$;

comment on function ai.compute_settlement(ai.run_outcome, ai.runs, timestamptz) is
  'Returns a locked run as its outcome closes it, and the amounts due; null if it does not change. With idle_since, '
  'closes only an open run that has not been touched since then.';

comment on function ai.cost_comparison_page(uuid, timestamptz, timestamptz, text, text, integer) is
  'Returns a page of the providers of a range by name, or one of them, with what was metered and imported of each, and'
  ' totals of all. Leaves out providers without any amounts; meteredUsd is null if the workspace hides it.';

comment on function ai.cost_file_state(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns a hash of a comparison, which changes with the file, the records it corrects and those it replaces. Not '
  'granted to any role.';

comment on function ai.cost_import_details(uuid) is 'Returns an import for the logs. Not granted to any role.';

comment on function ai.cost_import_receipt(uuid, uuid) is
  'Returns an import of a book, and the account days that it wrote and that have not been corrected since: { outcome: '
  'read, provider, sha256, appName, import, current } or { outcome: not_found }. Not granted to any role.';

comment on function ai.cost_visible(uuid) is 'Returns whether a workspace''s members can see provider cost; by default yes.';

comment on function ai.create_run_partitions(integer) is
  'Creates the missing monthly partitions of ai.runs, up to months_ahead, protected like ai.runs. Returns their '
  'number.';

comment on function ai.credit_accounts_of(uuid, uuid) is
  'Returns the accounts that a member can see in a workspace: its own, and the member''s if it is free.';

comment on function ai.credit_level(ai.credit_accounts, numeric) is
  'Returns empty if nothing is left, or if less than the threshold (1,000 if that is 0) is available and a call was '
  'refused in the last hour. Above the threshold, only a very large call is refused. Returns low if the balance is '
  'below the threshold.';

comment on function ai.credits_per_usd(numeric) is 'Returns credits per USD. 1 credit is USD 0.0001 before the plan''s markup.';

comment on function ai.current_window(text, uuid) is 'Returns the counts of a rate window; nulls without one. The window is locked.';

comment on function ai.delete_expired_content(integer) is
  'Deletes content past its retention under the current policy, or of closed workspaces, and idempotency keys older '
  'than 24 hours, up to a limit of each. Returns how many runs'' content it deleted. One sweeper at a time; others '
  'return 0.';

comment on function ai.describe_run_content(uuid, uuid, uuid) is
  'Returns whether a run''s content is stored, for a member with manage_ai_policy, without any of its text: { outcome:'
  ' kept, deletedFrom }, none or not_allowed.';

comment on function ai.detail_older_usage_days(integer) is
  'Summarizes sealed days again that have no details (members, labels, estimated and closed runs) yet, newest first, '
  'at most max_days. Returns their number.';

comment on function ai.exceeds_caller_timeout() is
  'Returns whether a statement has waited so long, in total, that its caller is about to time out (the gateway waits '
  'for 1.5 s).';

comment on function ai.extend_run(jsonb) is
  'Reserves the maximum cost of another provider call of an open run, if limits, budgets and balance allow it and its '
  'key and its app''s registration are still valid. Returns what the run then holds, or {refused: code, …}.';

comment on function ai.find_app_token(bytea) is
  'Returns the person and workspace of a ttr_app_ token by its SHA-256, with the scopes that both token and '
  'registration have now, and the gateway''s error code if it refuses the token; no row if it is unknown, expired or '
  'revoked. For definers; not granted to any role.';

comment on function ai.find_caller(ai.run_request) is
  'Returns who makes a call and, in refused, why they may not; nulls if the credential is unknown, revoked, expired or'
  ' of a deleted workspace. Keys and tokens are passed as the SHA-256 of their text, sessions as claims that the '
  'gateway has verified.';

comment on function ai.find_cost(uuid, uuid, text, text, text) is
  'Returns the record of a provider''s normalized name, account and run: of older rows whose providers differ only in '
  'case, the last observed. No search path is set, so that Postgres can inline it.';

comment on function ai.find_long_running_runs(timestamptz) is
  'Records in ai.long_running_runs the open runs that began since the last sweep and before the cutoff. Each run is '
  'read once, and again after transactions of its time have ended. Stops after two seconds; the next sweep continues.';

comment on function ai.find_offer(ai.run_request, ai.caller, ai.priced_call) is
  'Returns the model of a call with its routes, prices, output limit and maximum cost for a caller; or, in refusal, '
  'why there is none. An output limit that the caller did not state is lowered to the model''s and to the room left in'
  ' the context window; to 2,048 if the model''s is unknown. Calls of a batch for one model read its routes once.';

comment on function ai.find_run(uuid) is 'Returns a run by its id only; nulls if there is none.';

comment on function ai.grant_credits(text, uuid, numeric, text, text) is
  'Adds credits to the balance of a workspace or a member (payer as in ai.plans) and returns the balance; a negative '
  'amount withdraws at most what is available. With a reference, the call is idempotent, and a different amount is an '
  'error. Without one, every call grants. For operators: no API role may run it.';

comment on function ai.has_usage_before(uuid, uuid, timestamptz) is
  'Returns whether an app has any run in a workspace before a given time.';

comment on function ai.idempotent_refusal(ai.idempotency_keys, bytea) is
  'Returns why a call with a known idempotency key is refused: never a second provider call, never a second charge. '
  'Includes the answer if it was stored.';

comment on function ai.import_cost_file(uuid, uuid, uuid, jsonb, text) is
  'Returns ai.store_cost_file for a member with use_ai_studio, { outcome: not_allowed } or { outcome: app_not_linked '
  '}.';

comment on function ai.import_provider_costs(jsonb) is
  'Stores the records of a call, each separately: { results } in their order, as ai.store_provider_cost answers, or { '
  'refused } if the credential does not allow it.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.import_provider_invoice(jsonb)') is not null then
    comment on function ai.import_provider_invoice(jsonb) is
      'Stores the invoice of a call, and answers as ai.store_provider_invoice does, or { refused } if the credential does '
      'not allow it.';
  end if;
end
$guard$;

comment on function ai.invoice_amount(ai.invoice_book_entries, daterange) is
  'Returns what an invoice adds to totals in USD, in full or for some of its days; negative for a credit note.';

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'Returns what was metered for an invoice''s provider, without other accounts'' runs, and imported for its account in'
  ' its days (ai.invoice_days), the other invoices of its account that count in these days, and the difference between'
  ' all of them and the import; a replaced invoice does not count. Null for more than 366 days. Not granted to any '
  'role.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.invoice_days(date, date, date)') is not null then
    comment on function ai.invoice_days(date, date, date) is
      'Returns the days of an invoice: its period; if one end is missing, to the end of the other''s month; without a '
      'period, the month in which it was issued.';
  end if;
end
$guard$;

comment on function ai.invoice_differences(ai.invoice_book_entries, jsonb) is
  'Returns the fields in which a record with the same key differs from a stored invoice; none for an identical retry.';

comment on function ai.invoice_matches(ai.invoice_book_entries, jsonb) is
  'Returns whether an invoice matches a filter: any of provider, accountId, where null selects those without an '
  'account, and month, YYYY-MM, which its days must overlap.';

comment on function ai.invoice_of(jsonb) is 'Returns a record as it is stored: with defaults, and with the provider''s name normalized.';

comment on function ai.invoice_recorder(ai.invoice_book_entries) is
  'Returns who recorded an invoice, according to the workspace''s or the console''s log: { by: person | app, name }. '
  'For a key it is the app that sent the invoice, not a person; an admin is named by email address. The name is null '
  'once the person or app is deleted.';

comment on function ai.invoice_review(uuid, uuid, jsonb) is
  'Returns what a person sees of an invoice before it is stored permanently: the time of the review, an already stored'
  ' invoice with the same key and the fields in which it differs apart from its review, and ai.invoice_comparison. { '
  'outcome: reviewed, … }, not_issued_yet or { outcome: cannot_replace, param, message }. Writes nothing. Not granted '
  'to any role.';

comment on function ai.invoice_share(ai.invoice_book_entries, text) is
  'Returns the amount and the days of an invoice within a month, YYYY-MM, that its days overlap: { inMonth: { '
  'amountUsd, firstDay, lastDay } }; the amount of a credit note is negative. Null without a month. Not granted to any'
  ' role.';

comment on function ai.invoice_summary(ai.invoice_book_entries) is
  'Returns an invoice for the readers of its book. In the platform''s, appId is ai.platform_book() and appName null.';

comment on function ai.is_estimated(ai.usage_source, boolean) is
  'Returns whether a run''s usage was estimated in part or in full, other than by the sweep.';

comment on function ai.is_external_id(text) is
  'Returns whether a text may be an account, service, run or reference as a provider writes it: 1 to 256 characters, '
  'no control characters, no white space at either end.';

comment on function ai.is_key_use_due(ai.caller) is
  'Returns whether to update keys.last_used_at of a caller''s key, which is done once a minute.';

comment on function ai.is_superseded_cost(ai.cost_book_entries) is
  'Returns whether the same record was observed later under another spelling of its provider.';

comment on function ai.issue_key(uuid, uuid, jsonb, text, text) is
  'Stores a new key. The caller generated its text, shows it once, and passes only its lookup part and the hex of its '
  'SHA-256. Outcomes: issued (with key), not_allowed, not_approved, app_not_linked, unknown_models (with param and '
  'models), too_many (200 live keys in a workspace).';

comment on function ai.key_cost_since(uuid, uuid[], timestamptz) is
  'Returns what each lineage used since the start of a UTC day, from daily sums if they are up to date, otherwise from'
  ' runs. A lineage without runs has no row.';

comment on function ai.key_summary(ai.keys, numeric) is
  'Returns what may be shown of a key, never its secret, which is stored only as a hash. Amounts are exact text. '
  'Spending is for the current UTC month, including the keys that it replaced.';

comment on function ai.latency_bucket(integer) is
  'Returns the bucket of a duration: bucket n, from 1 to 80, contains 2^((n - 1) / 4) to 2^(n / 4) ms, which is 19% '
  'wide; bucket 0 contains durations below 1 ms, the last one also those above 17 minutes.';

comment on function ai.latency_mark(integer) is
  'Returns one run in its bucket, as a number with twelve digits per bucket: sums of marks are histograms, and adding '
  'numbers is what Postgres does fastest. Null without a duration.';

comment on function ai.latency_quantiles(numeric) is
  'Returns the durations in ms that 50% and 95% of runs did not exceed, from a sum of ai.latency_mark. Each is in the '
  'same bucket as the exact one, so it differs by at most that bucket''s width, 19%. Null without a run.';

comment on function ai.limit_refusal(text, ai.caller) is
  'Returns a refusal by a limit, budget or balance, with all of the caller''s rate limits and their counts.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.linked_apps(uuid)') is not null then
    comment on function ai.linked_apps(uuid) is
      'Returns the enabled external apps linked to a workspace, for which it may have costs and invoices. Not granted to '
      'any role.';
  end if;
end
$guard$;

comment on function ai.list_keys(uuid, uuid, jsonb, integer) is
  'Returns a page of a workspace''s keys, newest first, for a member with manage_ai_keys: { outcome: listed, approval,'
  ' keys } or { outcome: not_allowed }. before is { createdAt, id } of the last key on the previous page. Listing '
  'needs no approval.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.list_linked_apps(uuid, uuid)') is not null then
    comment on function ai.list_linked_apps(uuid, uuid) is
      'Returns ai.linked_apps for a member with use_ai_studio: { outcome: listed, apps } or { outcome: not_allowed }.';
  end if;
end
$guard$;

comment on function ai.list_models(jsonb) is
  'Returns the models that a credential may use and that can be reached and charged now, as OpenAI lists them, in the '
  'order of ai.model_order; with model in the call, only that one; or {refused: code}. With paths in the call, [{ '
  'path, kind, providers }], the listing is text, and endpoints has the paths that serve each of its models: those of '
  'its kind that one of its providers serves.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean)') is not null then
    comment on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean) is
      'Returns ai.provider_costs_page for a member with use_ai_studio, otherwise { outcome: not_allowed }. An export, '
      'which is read page by page, requests no totals.';
  end if;
end
$guard$;

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb)') is not null then
    comment on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb) is
      'Returns ai.provider_invoices_page for a member with use_ai_studio, otherwise { outcome: not_allowed }. filter as in'
      ' ai.invoice_matches.';
  end if;
end
$guard$;

comment on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) is
  'Returns a page of a workspace''s runs, newest first, for a member with use_ai_studio: { outcome: listed, runs, '
  'continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature, status, '
  'keyId, appId, memberId, provider, entityId, requestId; unknown names a filter whose value does not exist. With '
  'scan_limit, a filter without an index examines that many runs; continueBefore is then the position to continue '
  'from, and null if no older run can match.';

comment on function ai.listed_price(jsonb) is
  'Returns a price of ai.price_tier for the list of models: numbers with all their digits, and their unit in the name.';

comment on function ai.lock_policy(uuid) is
  'Serializes changes of a workspace''s policy and budgets, so that each is compared with, and logged against, the '
  'state it replaces. Gateway calls don''t wait for it.';

comment on function ai.lock_rows(ai.lock_list) is
  'Locks what admissions, extensions and settlements change, in the one order that they share: idempotency keys, keys,'
  ' rate windows, budgets, balances; each kind sorted, so budgets of apps, keys, labels, members and workspaces. Runs '
  'are locked first, and new accounts are opened first.';

comment on function ai.maximum_cost_usd is
  'Returns the maximum cost of a provider call: the whole output, nothing cached, all input written to a cache if that'
  ' has a price, one fee, at any route and any tier that the input may reach.';

comment on function ai.maximum_use(ai.run_request) is
  'Returns the maximum number of tokens of a call: a third of its bytes without media, 1,500 per image, 50 per second '
  'of audio (Gemini counts 32, OpenAI 10), and the output limit of each choice.';

comment on function ai.metered_costs(uuid, timestamptz, timestamptz) is
  'Returns what the runs of a book cost, in parts that callers sum: a workspace''s own, or all workspaces'' for the '
  'platform''s, whose window consists of whole days and counts for its first month. Runs count for ai.billing_provider'
  ' and the account that they name, if any.';

comment on function ai.model_order(ai.models) is
  'Returns the sort key of every list of models: by kind, the default of each kind first, then by name.';

comment on function ai.new_run_id(text) is
  'Returns a UUID version 7 for a run that begins now, with a random part chosen by the gateway, which uses it to find'
  ' the run if the answer of ai.begin_run is lost. Milliseconds have eleven hexadecimal digits until the year 2527.';

comment on function ai.open_credit_account(text, uuid, numeric) is
  'Returns a payer''s account, and opens it with the plan''s initial credits if there is none. Concurrent callers get '
  'the same one.';

comment on function ai.open_missing_accounts(ai.priced_call[]) is
  'Opens an account with the plan''s initial credits for each payer that has none.';

comment on function ai.open_prices(text[]) is
  'Returns the current prices of the routes to listed providers, each with its route. A route without a default-tier '
  'price has none. Within a route, prices are sorted by sorts_as, the default tier''s first, and min_input_tokens.';

comment on function ai.operator_import_refusal(uuid, uuid) is
  'Returns { outcome: app_not_linked } unless the app may act in the workspace, or both are null. Not granted to any '
  'role.';

comment on function ai.paying_plans(uuid[], uuid[]) is
  'Returns the plans that workspaces and members pay for; no row if none charges the account. For a member who pays in'
  ' several workspaces, the plan with the most initial credits.';

comment on function ai.platform_causes(ai.platform_part[]) is
  'Returns why a provider''s bill differs from what was metered, the likeliest first: [{ kind, amountUsd, … }], the 20'
  ' largest of each kind. amountUsd is billed less metered, null if unknown. Kinds: workspace_costs_above_metered { '
  'workspaceId, name, days: [{ day, amountUsd }] }, account_not_metered { accountId }, days_not_metered and '
  'days_not_imported { accountId, days }, account_not_imported and account_differs { accountId, workspaces '
  '(ai.account_workspaces) }, workspace_runs_closed and workspace_runs_estimated { workspaceId, name, runs }, '
  'invoice_share (what the invoice has beyond that). accountId is null if accounts are compared together because runs '
  'or records name none.';

comment on function ai.platform_month_parts(date, date, text) is
  'Returns what makes up a provider''s figures of a month, in all workspaces and the platform''s book. Not granted to '
  'any role.';

comment on function ai.platform_usage(date, date, text) is
  'Returns the usage of all workspaces between two UTC days, inclusive, by provider and billing account. For a single '
  'provider (ai.billing_provider), also by workspace and day, with all runs closed by the sweep, which name no billing'
  ' provider. workspace_id and day are null otherwise. Not granted to any role.';

comment on function ai.platform_workspaces(ai.platform_part[]) is
  'Returns the workspaces behind a provider''s month, by account of their runs, the largest difference first: [{ '
  'workspaceId, name (null once deleted), accountId (null: the runs name none), meteredUsd, runs, estimatedRuns, '
  'closedRuns, importedUsd, invoicedUsd, differenceUsd }]. Imported and invoiced are the workspace''s own records; '
  'differenceUsd is imported less metered, null without own imports.';

comment on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) is
  'Returns ai.describe_cost_file for a member with use_ai_studio, { outcome: not_allowed } or { outcome: '
  'app_not_linked }.';

comment on function ai.price_tier is 'Returns a price as runs store it: exact decimals as text, without null values.';

comment on function ai.priced_routes(text, text[]) is
  'Returns a model''s routes in order with the current prices, if they have one and lead to a listed provider. Null if'
  ' none does.';

comment on function ai.provider_cost_records(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'Returns a page of imported costs of a half-open range, newest first, each with the account day that replaces it or '
  'the records that it replaces, its amounts before conversion, and its file. filter may have provider and accountId, '
  'where null selects those without an account.';

comment on function ai.provider_cost_totals(uuid, timestamptz, timestamptz, jsonb) is
  'Returns the total of imported costs in a half-open range; account days replace the runs that they cover.';

comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Returns a book''s imported costs of a half-open range, and whether each counts in totals. A run does not count if '
  'its account''s day is known, within the range or not, so that adjacent ranges add up. A service''s day does not '
  'count if the account''s day has a total. Of older rows that differ only in the case of the provider, the last '
  'observed counts.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean)') is not null then
    comment on function ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer, jsonb, boolean) is
      'Returns a page of ai.provider_cost_records, by default of the last 30 days, and by default the totals of the whole '
      'range. { outcome: listed, … } or { outcome: bad_window, fault }. Not granted to any role.';
  end if;
end
$guard$;

comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'Returns a page of a book''s invoices, latest issued first, and the total of those that count. With a month in the '
  'filter, the total is of the shares in that month, and each invoice has its own (ai.invoice_share). Not granted to '
  'any role.';

comment on function ai.provider_name(text) is
  'Returns the name under which a provider is stored and compared. Older rows keep the case in which they were sent. '
  'No search path is set, so that Postgres can inline it and use the indexes on lower(provider).';

comment on function ai.queue_budget_alert_mails(jsonb, text, text) is
  'Queues the emails about a crossing, one per recipient, and marks it as emailed, in one statement, so that only one '
  'of many callers does. Returns the number of emails; 0 if it was emailed already or no longer applies.';

comment on function ai.rate_limit_headers(timestamptz, bigint[]) is
  'Returns the limits of a call as JSON: the start of the rate window, then limit and count of the key''s requests, '
  'its tokens, the workspace''s requests and its tokens; null without a limit.';

comment on function ai.read_budgets(uuid, uuid, text[], integer, text[]) is
  'Returns a page of a workspace''s budgets and what they have used in the current UTC month, for a member with '
  'use_ai_studio: { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. '
  'Those of keys are for members with manage_ai_keys or manage_ai_policy. Ordered by scope, then labels by text and '
  'others by the creation of their subject; after is the position of the last one on the previous page. Amounts are '
  'exact text, null without a limit or if hidden. usedUp: all of it is spent, or it refuses calls according to '
  'ai.budget_refuses_calls. enforced: whether it can refuse calls.';

comment on function ai.read_cost_import(uuid, uuid, uuid) is
  'Returns ai.cost_import_receipt for a member with use_ai_studio, otherwise { outcome: not_allowed }.';

comment on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer, boolean) is
  'Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and what was used in '
  'the window, which is what runs were billed and what was deducted without one. By default the last 30 days. An '
  'export, which is read page by page, requests no totals and no balances.';

comment on function ai.read_invoice(uuid, uuid) is
  'Returns one invoice of a book, with ai.invoice_recorder and ai.invoice_comparison: { outcome: read, invoice, '
  'recorded, comparison } or not_found. Not granted to any role.';

comment on function ai.read_key(uuid, uuid, uuid) is
  'Returns one key of a workspace as ai.list_keys does, for a member with manage_ai_keys, and whether the workspace '
  'may rotate it: { outcome: read, approved, key }, or outcome not_allowed or not_found.';

comment on function ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer) is
  'Returns what a workspace used in a range, for a member with use_ai_studio: totals, those of the previous range, and'
  ' rows by day (key: the number of days since the start of the range), model, feature, key (its lineage), app, member'
  ' or label (empty: none, *: the others), largest first, days newest first. series: by model, daily usage of the six '
  'largest and of all others together (null). Credits deducted without a run are separate, by day in deductions.';

comment on function ai.read_provider_invoice(uuid, uuid, uuid) is
  'Returns ai.read_invoice for a member with use_ai_studio, otherwise { outcome: not_allowed }.';

comment on function ai.read_run_content(uuid, uuid, uuid) is
  'Returns a run''s content, for a member with manage_ai_policy, and logs in the workspace that they read it: { '
  'outcome: opened, deletedFrom, prompt, tools, answer }, none or not_allowed.';

comment on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) is
  'Returns a workspace''s usage for a member with use_ai_studio, grouped by any of day, model, feature, executionMode,'
  ' provider, key (its lineage), app and member, or by label, alone or with day: a page of rows, totals of the whole '
  'window, and credits deducted without a run. provider is null if the workspace hides provider cost. By default the '
  'last 30 days. after is the position of the last row on the previous page.';

comment on function ai.read_workspace_policy(uuid, uuid) is
  'Returns a workspace''s policy for a member with use_ai_studio: { outcome: read, policy } or { outcome: not_allowed '
  '}.';

comment on function ai.rebuild_changed_usage_days(integer) is
  'Summarizes days again whose runs changed afterwards, up to a limit. Returns how many.';

comment on function ai.rebuild_usage_day(date, uuid[]) is 'Replaces a day''s sums of some workspaces.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer)') is not null then
    comment on function ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer) is
      'Returns ai.reconciliation_page for a member with use_ai_studio, otherwise { outcome: not_allowed }.';
  end if;
end
$guard$;

comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Returns the metered, imported and invoiced cost of a book by month, provider and account, from ai.metered_costs and'
  ' ai.booked_costs.';

comment on function ai.reconciled_window(timestamptz, timestamptz) is
  'Returns ai.usage_window of what is compared: by default the twelve months up to and including the one in which it '
  'ends, from the start of the first.';

comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'Returns a page of months and providers, the latest month first, each with its accounts and differences: imported '
  'less metered, and invoiced less imported. The window is that of ai.reconciled_window. meteredUsd is null if the '
  'workspace hides it, and for accounts unless all runs of the month and provider with a cost name theirs. If it is '
  'hidden, only providers with imports or invoices are listed. clashes as in ai.book_clashes.';

comment on function ai.record_budget_alerts() is
  'Records the highest threshold that each budget has crossed since the last time. Reads ai.budgets without a lock. A '
  'threshold is crossed once a month, and again if the limit has been raised above it in between.';

comment on function ai.record_invoice_activity(uuid, uuid, uuid, jsonb) is
  'Logs an invoice for the workspace''s owners, because it is a person''s statement about money, even if an app sent '
  'it.';

comment on function ai.record_key_use(ai.caller) is
  'Keeps keys.last_used_at accurate to a minute for requests that are not runs.';

comment on function ai.record_long_running_runs(timestamptz, timestamptz) is
  'Records the open runs that began between two times, at most one minute of them. Returns the time it reached.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('ai.record_provider_invoice(uuid, uuid, uuid, jsonb)') is not null then
    comment on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb) is
      'Stores an invoice that a member with use_ai_studio enters for an app linked to the workspace. Answers as '
      'ai.store_provider_invoice does, or { refused: not_allowed or app_not_linked }.';
  end if;
end
$guard$;

comment on function ai.record_usage_change() is
  'Marks a finished day whose run changed. Today''s runs are read live and need no mark, so calls pay nothing for '
  'this.';

comment on function ai.refusal(text, jsonb) is 'Returns a refusal with its code from the gateway''s closed list of errors.';

comment on function ai.refused_replacement(uuid, uuid, jsonb) is
  'Returns why a record cannot replace what it names: { param, message }, or null if it can. Not granted to any role.';

comment on function ai.reject_incomplete_ledger_entry() is 'Rejects an entry that has only half of a run''s key.';

comment on function ai.reject_invoice_change() is 'Rejects changes: a different state of an invoice is a conflict, never a correction.';

comment on function ai.reject_price_change() is 'Keeps the price book consistent with what runs were charged.';

comment on function ai.release_orphaned_runs(jsonb) is
  'Releases runs whose admission answer was lost: their callers got 503 and no provider was called, so they end at no '
  'cost and their idempotency keys are free again. Takes {"tails": [text], "asked_ms_ago": integer}, the latter for '
  'the oldest. Returns the tails whose admission is still in progress.';

comment on function ai.remaining_budgets(ai.caller, boolean) is
  'Returns the monthly budgets that can refuse a caller, narrowest first. Leaves out amounts if the workspace hides '
  'provider cost.';

comment on function ai.replaced_already(jsonb, ai.invoice_book_entries) is
  'Returns why a record cannot replace an invoice that already has a replacement: { param, message }. Not granted to '
  'any role.';

comment on function ai.report_usage(jsonb) is
  'Returns the usage report of the calling app, for a window of at most 365 days; or { refused }. Amounts are exact '
  'decimals. notes_use: whether the request counts as a use of the key.';

comment on function ai.reserve_budget(text, uuid, uuid, numeric, boolean) is
  'Reserves an amount in a monthly budget. If the budget is enforced, refuses when that would exceed the limit or the '
  'limit is 0. Writes the time of a refusal to the budget: the first of a month, then at most one per minute.';

comment on function ai.reserve_limits(ai.caller, text, bigint, integer, numeric, uuid, numeric) is
  'Reserves a provider call in the budgets, the workspace''s rate window and the balance; or returns in refused which '
  'of them has no room, and reserves nothing. The rows are locked.';

comment on function ai.reserved_tokens(ai.run_request, ai.token_use, bigint) is
  'Returns what a call counts in rate windows until it is settled: its input and its output limit; if the caller '
  'stated no output limit, 500 tokens per choice, as far as the token limit has room for them.';

comment on function ai.reset_budget_alert(text, uuid, uuid) is
  'Called after a budget was raised: rearms thresholds above the current spend. Without this the sweep would notice by'
  ' itself, unless they were crossed again before it ran.';

comment on function ai.retained_content(uuid, uuid) is
  'Returns a run''s content for as long as the workspace''s current policy keeps it, swept or not, and when it will be'
  ' deleted. Not granted to any role.';

comment on function ai.return_tokens(text, uuid, ai.rate_window_use, bigint) is
  'Removes the tokens of a call that another limit refused from a rate window. The request stays counted.';

comment on function ai.review_provider_invoice(uuid, uuid, uuid, jsonb) is
  'Returns ai.invoice_review for a member with use_ai_studio and an app linked to the workspace, otherwise { outcome: '
  'not_allowed or app_not_linked }.';

comment on function ai.roll_up_usage(integer) is
  'Maintains ai.usage_daily and ai.usage_labels_daily: at most max_days new days, changed days and days without '
  'details, one caller at a time. Returns how many days it summarized; 0 if there is nothing to do.';

comment on function ai.route_provider(jsonb, smallint) is
  'Returns the provider of the route at a position, regardless of the list''s order; if there is none, that of the '
  'first.';

comment on function ai.run_detail(ai.runs, boolean) is
  'Returns { run, steps, attempts, ledger, answeredBy }: a run''s summary, what it did, its requests to providers, its'
  ' ledger entries as credits charged, and the route that answered with its prices at that time. attempts and '
  'answeredBy are null if provider cost is hidden.';

comment on function ai.run_id(timestamptz) is 'Returns a UUID version 7 (RFC 9562, 5.7) for a time, in milliseconds.';

comment on function ai.run_summary(ai.runs, boolean) is
  'Returns a run as its workspace''s members see it. servedTier, provider and costUsd are null if the policy hides '
  'provider cost.';

comment on function ai.runs_may_exist_before(uuid, jsonb, timestamptz) is
  'Returns the time before which a workspace may have runs that match ai.list_runs'' filter, according to the daily '
  'sums: at most the given one; null if there are none.';

comment on function ai.seal_completed_usage_days(integer) is
  'Summarizes finished days in order, up to a limit. Returns how many.';

comment on function ai.session_caller(jsonb, uuid) is
  'Returns the person of a session''s verified claims, and why the gateway refuses them; nulls once the session or '
  'account has ended. Not granted to any role, because it trusts the claims.';

comment on function ai.set_budget(text, uuid, uuid, numeric, text) is
  'Sets the monthly budget of a workspace, or of an app, key lineage, member or label in it; null removes it. A new '
  'one begins with what the month''s settled runs have cost; runs in progress at that time count in no budget. Callers'
  ' hold ai.lock_policy.';

comment on function ai.settle_credits(ai.closed_run[]) is
  'Charges closed runs to their accounts, releases their reservations and writes one ledger entry per run. The '
  'accounts are locked.';

comment on function ai.settle_outcomes(jsonb, timestamptz) is
  'Settles a batch, or each of its runs separately if the batch cannot be booked: a bad run stays open, is logged and '
  'does not block the others. Lock timeouts are raised, so that the batch is sent again. Returns the runs that '
  'changed.';

comment on function ai.settle_runs(jsonb) is
  'Settles a batch of runs at their actual cost. Reporting a run again changes nothing, unless the sweep had estimated'
  ' it; then the actual cost posts one adjusting entry.';

comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Stores one reported cost, or returns why not: { outcome: stored, corrected, unchanged or stale } or { refused }. A '
  'newer observation corrects; one with the same time and different content is a conflict. A row of the same provider '
  'in another case is the same record. Workspace and app come from the caller''s credential; the record''s shape was '
  'checked before. Not granted to any role.';

comment on function ai.store_provider_invoice(uuid, uuid, jsonb) is
  'Stores one reviewed invoice in a book, or returns why not: { outcome: stored or unchanged, id } or { refused }. A '
  'different state of a stored invoice is a conflict, which names the stored one and what differs: { refused: '
  'invoice_conflict, id, differs }. Book and app were derived and the record''s shape checked before. Not granted to '
  'any role.';

comment on function ai.store_run_content(jsonb) is
  'Stores the content of a run, {created_at, id, prompt?, tools?, answer?}, if its workspace''s policy captures '
  'content. Keeps existing parts and adds missing ones.';

comment on function ai.sum_usage(uuid, timestamptz, timestamptz) is
  'Returns a workspace''s runs in a half-open range, including open ones, summarized as in ai.usage_daily.';

comment on function ai.sweep_budget_alerts(integer) is
  'Records which thresholds budgets have crossed and returns the crossings not emailed yet, oldest first. One sweep '
  'runs at a time; concurrent ones return none. refusing: not all is spent, but calls are refused. The amounts spent, '
  'held and left are null if the workspace hides provider cost.';

comment on function ai.token_limit_refusal(ai.caller, ai.token_use, bigint) is
  'Refuses a call that counts more tokens than the whole token limit of its key or workspace, since no later minute '
  'has room for it.';

comment on function ai.unknown_run_filter(uuid, jsonb) is
  'Returns the name of the first filter of ai.list_runs whose value does not exist, and provider if the workspace '
  'hides providers; null if all exist. Former members and apps of a workspace have runs, so they are known.';

comment on function ai.unlinked_deductions(uuid, uuid, timestamptz, timestamptz) is 'Returns the total of ai.unlinked_deductions_by_day.';

comment on function ai.unlinked_deductions_by_day(uuid, uuid, timestamptz, timestamptz) is
  'Returns credits that were deducted without a run, as positive numbers. What a run was billed is in the run.';

comment on function ai.usable_models(uuid, text, text[], text[], text[]) is
  'Returns the intersection of enabled catalogue, Studio defaults, workspace policy, plan or root grants, and the '
  'key''s list.';

comment on function ai.usage_key(ai.usage_daily, text, date, integer) is
  'Returns the key under which a part of usage is listed. A day''s key is its offset from the start of the range, so '
  'that two ranges can be compared; several days may share one.';

comment on function ai.usage_sums(numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric) is
  'Returns sums of usage for display; amountUsd is null if the workspace hides provider cost.';

comment on function ai.usage_window(timestamptz, timestamptz, integer, integer) is
  'Returns the requested half-open window, up to now if no end is given; fault describes what is wrong with it.';

comment on function ai.user_caller(ai.credential, text) is
  'Returns the person and limits of an app''s token or a session''s claims; nulls if they are not valid.';

comment on function ai.utc_text(timestamptz) is 'Returns a time as RFC 3339 in UTC with milliseconds.';

comment on function ai.utc_text_microseconds(timestamptz) is
  'Returns a time as ai.utc_text formats it, with its microseconds if it has any.';

comment on function ai.workspace_policy_summary(uuid) is
  'Returns a workspace''s policy as its members see it; the defaults if it has set none.';

comment on function ai.write_cost_file_day(uuid, uuid, uuid, ai.cost_file_day) is
  'Writes one day of an import. Raises serialization_failure if its record is no longer the one it was compared with. '
  'Not granted to any role.';

comment on function private.access_state(uuid, uuid) is
  'Returns when the owner last confirmed what can open the account, as in private.account_access, and the ids of the '
  'unconfirmed additions: { confirmedAt, unconfirmed: [id] }.';

comment on function private.account_access(uuid, uuid, integer) is
  'Lists what can open an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent, provider, '
  'addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }], otherSessions: { key, count, isNew } }. It '
  'lists the most_sessions sessions that were refreshed last, including the calling one; otherSessions are the rest, '
  'counted to 1,001. kind: password, identity, passkey, authenticator, session or app. isNew: added since the owner '
  'last confirmed the list, or since the account was created; in a session that began with a password reset or '
  'recovery, since such a session last confirmed it. Device and address are null if no event records where it was '
  'added. Null if the account doesn''t exist.';

comment on function private.account_authenticators(uuid) is
  'Returns the authenticator apps of an account, most recently used first: [{ id, name, verified, createdAt, '
  'lastUsedAt }], including those whose enrollment was never finished. Contains no secrets.';

comment on function private.account_of_link(text, text) is
  'Returns the account that a mailed link signs in to; no row for a used one. For definers; not granted to a role.';

comment on function private.account_overview(uuid) is
  'Returns an account as the console shows it: { id, email, displayName, singleSignOn, createdAt, confirmedAt, '
  'lastSignInAt, bannedUntil, infrastructureAdmin, methods (private.list_sign_in_methods), factors, sessions (the 50 '
  'refreshed last), sessionCount (to 1,001) }; null if there is none. Contains no secret.';

comment on function private.account_required_mfa_satisfied() is
  'The probe of every account_required_mfa policy. Only policies can run it, since callers have no usage on schema '
  'private.';

comment on function private.account_sessions(uuid, uuid, jsonb, integer) is
  'Returns a page of an account''s current sessions: the given one first, then the most recently refreshed. before: { '
  'createdAt, id }, refreshed_at and id of the last one on the previous page; without page_size, all of them.';

comment on function private.account_timeline(uuid, jsonb, integer) is
  'Returns what an account''s owner did and what admins did to it, newest first: [{ id, source: event | audit, kind, '
  'method, device, ip, reason, actorEmail, requestId, createdAt }]. before is { createdAt, id } of the last one on the'
  ' previous page.';

comment on function private.acting_user_id() is
  'Returns the actor of this transaction: the token''s user, or the user derived by a function from another credential'
  ' and set in gatehouse.actor_id.';

comment on function private.activate_account(jsonb) is
  'Completes a switch in one transaction: stores the target''s rotated session, as store_account_session does, and '
  'makes the account the active one: { leaseId, secret, nextHash (hex) } and the entry. Returns status: activated '
  '(rotated: the secret after the presented one is valid), changed (another rotation came first: current), lost '
  '(another holds the lease).';

comment on function private.active_login_override(text) is 'Returns the override under which an email may sign in now; null without one.';

comment on function private.active_recovery_override(text) is 'Returns the current override of an email, if there is one.';

comment on function private.add_account(jsonb) is
  'Stores a sign-in until the browser presents its secret, for 15 minutes: { deviceId, secret, secretHash (hex), '
  'userId, sessionId, sealed, keyId, tag } → { status: kept | unknown (device) | full }. Idempotent.';

comment on function private.add_account_event(uuid, text, uuid, uuid, jsonb) is
  'Adds an event to an account''s activity, queues the email about it, and returns its id; null if the account '
  'doesn''t exist. For definers that change an account, in their transaction.';

comment on function private.add_next_signing_key(text, jsonb, text, text) is
  'Publishes the next key, which signs from tomorrow; the previous one retires a day later, long after its last token '
  'has expired. Returns false if no key is due.';

comment on function private.add_openid_tokens(private.openid_grants, text[], bytea, bytea) is
  'Issues the next tokens of a login and describes them. For definers; not granted to any role.';

comment on function private.addition_event(uuid, uuid, text) is
  'Returns the event by which an identity, passkey or authenticator was added, or null. For definers; not granted to a'
  ' role.';

comment on function private.address_network(inet) is
  'Returns what counts as one visitor: an IPv4 address, or the /64 of an IPv6 address, as assigned to a household or '
  'server.';

comment on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) is
  'Call after a recovery has created its session: lets the same browser use the credential again, in case the response'
  ' is lost (private.is_recovery_open_to). Until then concurrent callers are refused.';

comment on function private.allows_device_grant(uuid) is
  'Returns whether an enabled client is currently registered for the device grant. For definers; not granted to any '
  'role.';

comment on function private.answer_approval_request(jsonb, uuid) is
  'Closes a workspace''s open request and queues an email to its owners and the requester. Does nothing if there is '
  'none.';

comment on function private.app_can_act_in_workspace(private.apps, uuid) is
  'Returns whether an app is currently registered as external and linked to the workspace.';

comment on function private.app_session_summary(private.app_sessions) is 'Returns what the web server signs into a session''s token.';

comment on function private.app_version(text) is 'Returns the version of an app: its last line in the audit log.';

comment on function private.app_was_ever_connected(uuid, text) is
  'Returns whether an app holds or held a person''s credentials. If private.connected_apps does not list it, it held '
  'them before.';

comment on function private.apps_ever_connected(uuid) is
  'Returns the apps that hold or held a person''s credentials, as far back as ended ones are kept. For definers; not '
  'granted to any role.';

comment on function private.attempt_buckets(text, text, cidr) is
  'Returns the buckets that an attempt takes from. Leaves out those for which it has no account or address.';

comment on function private.attempt_digest(text, text) is 'Returns the keyed digest under which a subject is counted.';

comment on function private.attempt_limits() is 'Returns the limits on attempts: attempts per window, and what happens when none is left.';

comment on function private.attempt_pair(text, cidr) is
  'Returns one account from one address, as a digest. The account is `email:…` in lower case, or `user:…` with its id.';

comment on function private.attempt_refusal(text, interval) is 'Returns the answer of begin_attempt for a refusal, with the number of seconds to wait.';

comment on function private.authenticate_app(text, bytea) is
  'Returns the enabled app for a name and a secret''s SHA-256; no row, without distinction, if it is unknown, wrong, '
  'expired or disabled. OpenID clients are not included. For definers; not granted to any role.';

comment on function private.authenticate_openid_client(text, bytea) is
  'Returns the enabled OpenID client for an id and a secret''s SHA-256; a public client has no secret. No row if it is'
  ' unknown, wrong, expired or disabled. For definers; not granted to any role.';

comment on function private.began_by_mail(uuid, uuid) is
  'Returns whether a session began with a password reset or recovery, which proves access to the account''s mailbox. '
  'For definers; not granted to a role.';

comment on function private.begin_account_switch(uuid, text, uuid, uuid) is
  'Takes the device''s lease for 10 s. Returns status: unknown (device), no_account, active (nothing to do), busy, '
  'begun.';

comment on function private.begin_attempt(jsonb) is
  'Counts an attempt before it is made: { action, address, email | userId, challenged, overridden, mail, code } gives '
  '{ allowed, attemptId, needsBotChallenge, repeated, mailWaitSeconds, mailPauseSeconds } or { allowed: false, reason:'
  ' limited | blocked, retryAfterSeconds }. A caller without an answer must not make the attempt. challenged: the '
  'attempt carries a bot challenge''s token, which the identity backend checks first. overridden: a recovery override '
  'replaces the email''s own limits with those of override_password; the address''s limits still apply. mail: the kind'
  ' of email that the attempt sends. If mailWaitSeconds is not null, the email must not be sent: another one is being '
  'sent, or its link is too recent to be replaced. code: the mailed code that is tried, stored only as a digest. If '
  'repeated is true, the code was tried before and must not be tried again.';

comment on function private.begin_login_challenge(jsonb) is
  'Begins a challenge: { id, kind, userId, sessionId, secretHash, pairCodeHash?, metadata }. Returns { outcome: begun,'
  ' expiresAt }, or { outcome: limited, retryAfterSeconds } after 20 of a kind in 15 minutes. The same session''s '
  'earlier challenge of that kind expires.';

comment on function private.begin_mfa_recovery(uuid, uuid, text) is
  'Uses a code, or resumes a recovery that failed midway: with the same code, or without one in the session that used '
  'it. Returns its id to one caller at a time, which holds it for 30 s; null to all others. Advances the boundary and '
  'marks the recovery in the account''s policy, which closes the account until end_mfa_recovery. Ends every other '
  'session, and all app sessions and app tokens.';

comment on function private.begin_oauth_attempt(jsonb) is
  'Begins a visit to a provider: { stateHash (hex), purpose, provider, userId, sessionId }. Returns when it expires.';

comment on function private.bind_mobile_approval(jsonb) is
  'Binds an approved challenge to the requesting session for 12 hours: { id, secretHash, claims, proofKey } → { '
  'status: bound, validUntil }, or status rejected if it would not satisfy the rule. The claims carry a proof by that '
  'key. Null if the challenge is not approved, or was bound before.';

comment on function private.block_duration(integer) is
  'Returns how long an address is blocked: long enough to make guessing pointless, short enough for the address''s '
  'next user.';

comment on function private.caller_claims() is
  'Returns the claims of a Data API caller, with the proof of a mobile approval that our server sends as a header.';

comment on function private.can_read_console(jsonb) is
  'Returns whether the session of verified claims still belongs to an infrastructure admin and has proved a second '
  'factor. Does not check how recently; that is checked where a change begins. Not granted to any role, because it '
  'trusts the claims it is given.';

comment on function private.can_rename_by_app_session(bytea, uuid) is
  'Returns whether private.rename_workspace_by_app_session would be refused, before the name is known: {} or '
  '{refused}.';

comment on function private.cancel_email_change(uuid) is
  'Cancels a pending email change, so that neither email''s link works any more. Returns true for the one caller that '
  'cancelled it.';

comment on function private.change_app(jsonb) is
  'Changes an app: { actor, name, version (as in private.read_app), step, reason, requestId, ip } and for edit '
  'displayName, scopes, origins, logoutUrl; for link and unlink workspace; for rotate secretHash as text of a bytea '
  'and overlapSeconds; enable and disable need nothing more. An OpenID client can only be enabled, disabled and given '
  'a new secret. → {} or { refused: forbidden | not_found | conflict (with last) | taken (an origin) | invalid | '
  'no_workspace }.';

comment on function private.change_model_route(jsonb) is
  'Adds, edits, moves or removes a route; the others keep their order, and positions count from 1: { actor, model, '
  'version (private.model_version), place (its current position, null to add one), route: { position, providerId, '
  'providerModel, enabled, trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds,'
  ' totalSeconds } or null to remove it, reason, requestId, ip } → {} or { refused: forbidden | not_found | '
  'route_taken | invalid | conflict (with last) }. The provider''s prices stay.';

comment on function private.change_openid_client(jsonb) is
  'Changes the given fields of an OpenID client: { actor, name, version, displayName, scopes, redirectUris, '
  'postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, reason, requestId, ip } → {} or { refused: forbidden | '
  'not_found | conflict (with last) | invalid }. Without version, any state is changed.';

comment on function private.change_required_mfa(jsonb) is
  'The only function by which an admin changes an account''s policy: { actor, subject, step, generation, reason, '
  'requestId, ip } → { policy } or { refused: forbidden | oneself | not_enforced | not_found | conflict | in_progress '
  '| unchanged | factors_left }. Steps: require, make_optional; begin_reset, which closes the account until its '
  'authenticators are deleted and finish_reset has found none left. generation is the one that the admin saw, 0 before'
  ' the first. Each change adds a line to the audit log and an event that is emailed to the owner, in the same '
  'transaction.';

comment on function private.check_recovery_credential(private.recovery_credentials, bytea) is
  'Returns good, or the reason for a refusal; a wrong code counts, and the fifth within 24 hours locks the codes of '
  'that email for 24 hours. The caller holds the locks on the email''s guesses and on the credential. For definers; '
  'not granted to any role.';

comment on function private.claim_due_mails(integer) is
  'Claims emails whose next attempt is due, each for one caller: with their text, or the event to write it from. After'
  ' twelve attempts an email is kept as a record for a week.';

comment on function private.claim_mfa_code(text, uuid) is
  'Claims a code, named by the hex of its HMAC, for one verification. Returns true to one of any number of callers.';

comment on function private.claim_outgoing_mails(integer) is
  'Claims emails whose next attempt is due, each for one caller. After twelve attempts an email is kept as a record '
  'for a week.';

comment on function private.claim_qr_challenge(jsonb) is
  'Claims an approved challenge for its requesting session: { id, secretHash, claims } → claimed for one caller, which'
  ' has 30 s, otherwise the public state, mfa_required or not_found. Rejects the challenge permanently if the approver'
  ' has been signed out or no longer satisfies the account''s policy.';

comment on function private.close_orphaned_workspaces() is
  'Closes the workspaces that a deleted person leaves empty, so that their keys end too and no name remains.';

comment on function private.complete_attempt(uuid, text) is
  'Records the outcome of an attempt. succeeded: it is refunded, and the account''s failures from this address are '
  'deleted; attempts that cost an email or a hash stay counted. failed: it counts against the address. void: it was '
  'not made, and is refunded. Returns false if it was already settled or is too old.';

comment on function private.complete_oauth_attempt(text, text, text, text) is
  'Completes an attempt, once: true for the one caller that did. sign_in leaves the code to be exchanged; link '
  'confirms the identity and voids the code; refuse voids it, and removes the account or the identity that it had just'
  ' created.';

comment on function private.complete_qr_challenge(jsonb) is
  'Completes a claim with the session minted for it: { id, claims, mintedSessionId } → consumed, and the session has '
  'the approver''s sign-in time; otherwise expired or rejected, and the session must not reach the browser.';

comment on function private.confirm_access(uuid, uuid, jsonb, text[]) is
  'Removes what the owner chose from the list of private.account_access, signs out what depends on it, and confirms '
  'the rest, in one transaction. removals: { listedAt, listed: [key], remove: [key], sessions: [key] }, where '
  'listedAt, listed and sessions (all in the list) are as the owner saw them; other_sessions in remove removes the '
  'sessions of that time that the list left out. Returns { outcome: confirmed, removed: [way], endedSessions: [{ id, '
  'device, userAgent }] }, or an outcome that changed nothing: last_method if no usable way to sign in would remain, '
  'last_of_required if the account must have an authenticator, insufficient_aal if the session has yet to prove one, '
  'not_found. The calling session stays.';

comment on function private.confirm_device_secret(uuid, text) is
  'Records that the browser has presented its new secret: the previous one expires, shortly afterwards for requests in'
  ' flight.';

comment on function private.connected_apps(uuid) is
  'Returns the apps that hold a person''s live credentials or consent: [{name, displayName, origins, session, login, '
  'consent, tokens}]. session and login summarize app sessions and logins by OpenID Connect, and each of tokens those '
  'for one workspace: {scopes, connectedAt, renewedAt, endsAt}, with the scopes now in force; tokens also have '
  'workspace, null if the gateway refuses the token. consent is {scopes, grantedAt}. All but tokens may be null.';

comment on function private.consume_attempt(bytea, text, text, interval, interval) is
  'Takes one attempt from a bucket. Returns null, or how long until one is available. Leaves an empty bucket '
  'unchanged.';

comment on function private.consume_cross_app_token(bytea, uuid, uuid, text) is
  'The one statement that redeems: one of many concurrent callers gets the id, the others null. The proof must be '
  'exactly the text that was checked. For definers; not granted to any role.';

comment on function private.consume_recovery_credential(jsonb) is
  'Consumes a credential: { tokenHash } or { email, codeHash } and browserHash, in hex, with ip, userAgent, requestId '
  '→ { outcome: consumed, credentialId, overrideId, email, userId or null, banned, confirmed, replacedPassword (by an '
  'earlier use), waitMs } to one of many callers, { outcome: rejected } to all others, without the reason, which is '
  'recorded. Ends every session, app session and app token of the account and moves its boundaries to this second; a '
  'session that counts is minted after waitMs.';

comment on function private.containing(text) is 'Returns a pattern for like: lower-case text that contains a term, with its special characters escaped.';

comment on function private.continue_account_session(jsonb) is
  'Replaces an account''s session with one that continues it without another sign-in, as a QR handoff does: { '
  'deviceId, secret, userId, sessionId, sealed, keyId, tag, inPlaceOf } → { status: kept | unknown (device) | over }. '
  'The device''s secret stays, so a browser that lost the response gets the session from the vault. over: the browser '
  'has signed out of the session that it continues, or has another one.';

comment on function private.count_account_sessions(uuid, integer) is
  'Returns the number of an account''s current sessions, counted up to most.';

comment on function private.count_failure(text, cidr) is
  'Counts a failure against an address, and blocks the address after too many: longer each time within a week.';

comment on function private.count_sign_in_methods(uuid, text[], uuid[], boolean, uuid[]) is
  'Returns how many usable ways to sign in an account has without these identities and passkeys. Unconfirmed '
  'identities count only if they are being confirmed. For definers; not granted to a role.';

comment on function private.create_profile_and_workspace() is
  'Creates a profile and a personal free workspace together with the user; a failed sign-up rolls them back.';

comment on function private.create_recovery_override(jsonb) is
  'Creates an override: { actor, email, reason, normalLogin, recoveryEmail, lifetimeSeconds = 7 days, ip, userAgent, '
  'requestId } → { overrideId, expiresAt } or { refused: forbidden | oneself | lifetime | active }.';

comment on function private.cross_app_token_proof(text, bytea, bytea) is
  'First half of a redemption, which changes nothing: returns the app, and the stored proof for the web server to '
  'check, or a null one; {refused: unauthenticated} if the app did not authenticate.';

comment on function private.decide_device_authorization(text, jsonb, boolean, jsonb) is
  'Records a person''s decision by their session''s verified claims, once: approved (with the event in their activity)'
  ' or denied; or not_found, expired, conflict (decided already), unauthenticated, mfa_required or unavailable. '
  'Callers check before whether the session is fresh.';

comment on function private.decide_mobile_approval(jsonb) is
  'Decides a request as the phone: { id, claims, approve, pairCodeHash?, device } → { outcome: approved, rejected, '
  'wrong_code with attemptsLeft, mfa_required, not_found, forbidden (the requesting session itself), expired or '
  'conflict }.';

comment on function private.decide_qr_challenge(jsonb) is
  'Decides a challenge as the phone: { id, secretHash, claims, approve, device } → approved, rejected, not_found, '
  'forbidden (not the requesting account, or the requesting session itself), mfa_required, expired or conflict '
  '(decided already).';

comment on function private.default_display_name(jsonb, text) is
  'Returns a name to display for a person who has not chosen one. What users send about themselves is treated as plain'
  ' text.';

comment on function private.delete_account(uuid, text) is
  'Deletes an account with its dependent rows, unless a workspace would be left without an owner: { deleted, blockers:'
  ' [{ workspaceId, name, members }] }. Runs, ledger, costs and invoices stay, with only the account''s id.';

comment on function private.delete_auth_user(uuid) is
  'Deletes a user. Returns false if there is none.';

comment on function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb) is
  'Removes an authenticator app from its account, and with the last one the recovery codes, which have nothing left to'
  ' recover, and notifies the owner (private.record_security_event): { outcome: deleted }, or outcome last_of_required'
  ' if the account must have one, insufficient_aal if the session has yet to prove one, not_found.';

comment on function private.delete_expired_attempts(integer) is
  'Deletes up to at_most each of full buckets, expired attempts, expired verified addresses, and blocks a month after '
  'they end. Returns their number; 0 while another deletion runs.';

comment on function private.delete_passkey(uuid, uuid, uuid, text[]) is
  'Removes a passkey from its account: deleted, or last_method if no way to sign in would remain, insufficient_aal if '
  'the session has yet to prove the account''s authenticator, not_found.';

comment on function private.delete_unused_auth_user(uuid, timestamptz) is
  'Deletes a user created at or after a time that has never signed in. Returns false if there is none.';

comment on function private.describe_account(auth.users) is
  'Returns an account for the console''s lists: { id, email, displayName, singleSignOn, admin, policy, banned, '
  'confirmed, deleted, authenticators, lastSignInAt, createdAt }.';

comment on function private.describe_address_block(private.address_blocks) is
  'Returns a block for the console: { id, address, action, level, blockedAt, blockedUntil, active, liftedAt, liftedBy,'
  ' liftReason }.';

comment on function private.describe_app(uuid) is
  'Returns an app for display, without secret hashes; secrets are those that still work, workspaces the first 50.';

comment on function private.describe_auth_triggers() is
  'Returns the tables of the schema auth, and every trigger on them, ours or not, with the function it runs.';

comment on function private.describe_database() is
  'Returns what the doctor and the hosted start compare with the release: the version of Postgres '
  '(server_version_num), the versions of the recorded migrations, private.describe_objects() and '
  'private.describe_auth_triggers().';

comment on function private.describe_objects() is
  'Returns each of our objects by name, with a hash of its definition; grants with their list, where * is a grant '
  'option.';

comment on function private.describe_openid_client(uuid) is
  'Returns an OpenID client for display, with the secrets that still work but without their hashes.';

comment on function private.describe_openid_tokens(private.openid_grants, private.openid_tokens) is
  'Returns what a token response and its ID token contain: {sid, sub, clientId, scopes, authTime, acr, amr, issuedAt, '
  'expiresAt, refreshable}, times in seconds since 1970.';

comment on function private.describe_price(ai.model_prices) is
  'Returns a price for the console. Amounts are text, so that no digit is lost.';

comment on function private.device_authorization_state(private.device_authorizations) is
  'Returns pending, approved, denied or expired, for display. A request of a disabled client is expired.';

comment on function private.device_secret_status(private.account_devices, text) is
  'Returns the status of a secret for a device: current; previous, valid for everything until the current one has '
  'arrived; spent, for a minute, for requests in flight when an account was added: it gives no access, but may add '
  'another account, which the browser then presents with the current secret, and may sign the browser out; or unknown.';

comment on function private.device_state(uuid, text) is
  'Returns a browser''s accounts to a caller with its secret: { secret: current | previous, arrived, old, active: { '
  'userId, sessionId, tag } | null, accounts }. Null for an unknown device.';

comment on function private.discard_account_session(uuid, uuid, text, boolean) is
  'Discards an account''s session that has ended, or whose row cannot be opened. listed: the account stays listed, to '
  'be signed in to again. Returns false if another rotation came first.';

comment on function private.discard_session(uuid, uuid) is
  'Ends a session that our server created but did not issue, such as one that checks a password, and removes its '
  'sign-in from the activity. Returns true if the session existed.';

comment on function private.disconnect_app(uuid, text, jsonb) is
  'Ends all of a person''s credentials at an app, including outstanding handoffs, and adds to the account''s log '
  '(private.record_security_event): disconnected; over if nothing was left to end; not_found if it never held any, or '
  'is not an app.';

comment on function private.effective_scopes(private.app_sessions) is
  'Returns the scopes that were granted and are still registered: they never widen, and narrow immediately.';

comment on function private.email_change_of_link(text) is
  'Returns the change that a mailed link confirms, with the account''s userId and the mailbox that the link was sent '
  'to; null if the link is used, replaced or unknown. The link was sent to one of the two addresses.';

comment on function private.email_of_link(text, text) is
  'Returns the email of the account that a mailed link signs in to, or null. link_type: signup, invite or recovery. '
  'Does not use up the link, and does not check its age.';

comment on function private.end_account_session(uuid, uuid) is
  'Ends one session of an account. Returns true for the one caller that ended it, and false if it had ended already or'
  ' is another account''s.';

comment on function private.end_account_switch(uuid, uuid) is 'Releases the lease of a switch that was not completed.';

comment on function private.end_additions(uuid, uuid[]) is
  'Ends the sign-ins of these accounts that a browser has not presented yet; null means all accounts. The caller has '
  'locked the accounts. Returns those that were alive: [{ userId, sessionId }].';

comment on function private.end_app_of_account(uuid, uuid) is
  'Revokes what one app holds for a user: sessions, tokens, OpenID logins, what is not redeemed yet, and the consent. '
  'Returns how many. For definers; not granted to a role.';

comment on function private.end_apps_of_account(uuid) is
  'Revokes everything that apps hold for a user: sessions, tokens, OpenID logins, and handoffs, codes and approvals '
  'that are not redeemed yet. Consents stay. For definers; not granted to a role.';

comment on function private.end_dependent_sessions(uuid, uuid, jsonb) is
  'Ends the sessions among the removed ways of private.account_access, and those that signed in with one of them. '
  'Returns [{ id, device, userAgent }]. For definers; not granted to a role.';

comment on function private.end_mfa_recovery(uuid, boolean) is
  'Ends what begin_mfa_recovery began: permanently if no factor is left, which opens the account again unless it was '
  'marked again since; otherwise so that it can be resumed immediately, while the account stays closed. Returns true '
  'if it is completed.';

comment on function private.end_openid_login(uuid, uuid) is
  'Ends a person''s login at an OpenID client. Returns false if it has ended before, or is not theirs.';

comment on function private.end_other_sessions(uuid, uuid) is
  'Ends every session of an account but one, records it, and notifies the owner. Returns how many sessions it ended; '
  'concurrent calls record one event.';

comment on function private.end_password_replacements() is
  'Lifts the restriction of private.require_password_replacement once the password has changed.';

comment on function private.exchange_cross_app_token is
  'Redeems a token once for an access token with its refresh token: {user, workspace, scopes, expiresAt}, or {refused:'
  ' unauthenticated | token | scope | workspace | unavailable}. A refusal does not use up the token.';

comment on function private.export_account_runs(uuid, jsonb, integer) is
  'Returns the AI runs that a person made themselves, newest first, without prompts and answers. costUsd is null if '
  'the workspace''s policy hides provider cost. before is the last row of the previous page.';

comment on function private.export_whole_part(uuid, text, boolean) is
  'Returns all records of a part of an export; [] unless requested. For definers; not granted to any role.';

comment on function private.find_accounts_exactly(text) is
  'Returns the accounts with the given id or full email, through their indexes. There may be several for an email, '
  'since single sign-on creates separate accounts.';

comment on function private.find_accounts_matching(text, integer) is
  'Returns accounts whose email or name contains a text, by email. One or two characters have no trigram, so a rare '
  'one reads all rows.';

comment on function private.find_app_by_origin(text) is
  'Returns the app with an exact origin, and its scopes, or null. Includes disabled apps, so that the page can explain'
  ' why the sign-in fails.';

comment on function private.find_app_caller(bytea, text) is
  'Returns the caller for the token of a central session or an OpenID client''s access token: refused is '
  'unauthenticated, mfa_required, unavailable, insufficient_scope or null. For definers; not granted to any role.';

comment on function private.find_recovery_link_email(bytea, bytea) is
  'Returns the email that a link would sign in, for the confirmation page; null if the link does not work in this '
  'browser. Changes nothing.';

comment on function private.find_renaming_caller(bytea, uuid) is
  'Like private.find_app_caller, for renaming the workspace; refused may also be not_found or forbidden. For definers;'
  ' not granted to any role.';

comment on function private.forget_used_recovery() is
  'Lets Auth send the next reset link or sign-in code immediately after the last one was used or voided. Links that '
  'our server generates and uses delay no email either.';

comment on function private.gateway_scopes(private.apps) is 'Returns the scopes that an app may request in a gateway token.';

comment on function private.guard_email() is
  'Refuses to change an account''s email to the address of an unconfirmed identity, or to null if that has none: '
  'password-reset emails would no longer reach the owner. Also refuses an address that no provider has verified: it '
  'may be another person''s, who could confirm it later.';

comment on function private.handoff_proof(jsonb) is 'Returns a handoff''s signed facts in the form in which its credentials'' rows store them.';

comment on function private.has_amr_between(jsonb, text[], bigint, bigint) is
  'Returns whether one of the methods was used after the first second and not after the last (RFC 8176 entries with a '
  'time).';

comment on function private.has_openid_consent(uuid, private.openid_clients, text[], text) is
  'Returns whether a person has granted the client all these scopes before. Never true for a public client on the '
  'person''s own device.';

comment on function private.has_unique_items(public.workspace_permission[]) is
  'Returns whether a list of permissions is one-dimensional and contains no duplicates and no null.';

comment on function private.hook_network(jsonb) is
  'Returns the account and address of an attempt that a hook received; null if the backend passes no address.';

comment on function private.hook_rejection() is 'Returns the hook''s answer for a refusal.';

comment on function private.import_costs_as_operator(uuid, uuid, jsonb, text) is
  'Calls ai.store_cost_file for the operator''s command, or returns { outcome: app_not_linked }. Without workspace and'
  ' app, uses the platform''s book, with a line in the audit log without an actor.';

comment on function private.import_platform_costs(jsonb) is
  'Calls ai.store_cost_file for the platform''s book on behalf of an infrastructure admin, with a line in the audit '
  'log. change: { actor, reason, requestId, ip, document, state }. A refusal also has refused: forbidden, conflict or '
  'invalid.';

comment on function private.index_account() is 'Maintains an account''s row in private.account_search.';

comment on function private.inspect_oauth_attempt(text, text, text) is
  'Returns the result of a visit, before it is acted on: { flow: { userId, email, closed, linkedTo, identity: { email,'
  ' issuer, confirmed } } }; flow is null if the code does not belong to it. Null once the attempt is used or has '
  'expired.';

comment on function private.introspect_app_session(text, bytea, bytea) is
  'Returns a session''s current state, for its own app only: {active, session, scopes, endsAt, profile} or {active: '
  'false}, or {refused: unauthenticated | unavailable}.';

comment on function private.introspect_openid_token(text, bytea, bytea) is
  'Returns a token''s current state to the confidential client that holds it (RFC 7662): {active, isAccess, sub, sid, '
  'scopes, issuedAt, expiresAt}, {active: false}, or {refused: unauthenticated | unavailable}.';

comment on function private.invalidate_recovery_credential(uuid) is 'Ends a credential whose email was not sent.';

comment on function private.is_announced(uuid, text) is 'Consumes an announcement. Returns true once.';

comment on function private.is_approval_proven(private.login_challenges, text) is
  'Returns whether a proof shows that our server saw the approval''s cookie within a minute: "<second>.<HMAC-SHA-256 '
  'in hex>", the HMAC by the approval''s key over "<session id> <second>".';

comment on function private.is_bucket_empty(bytea, interval, interval) is
  'Returns whether a bucket is empty now.';

comment on function private.is_loopback_origin(text) is 'Returns whether an origin is a loopback address, which is allowed for development only.';

comment on function private.is_loopback_redirect(text) is 'Returns whether a redirect URI leads to the browser''s own device.';

comment on function private.is_new_password(text, text) is
  'Returns whether the statement that replaced a stored hash set a new password. False if it encrypted the hash.';

comment on function private.is_new_place(public.security_events) is
  'Returns whether no other sign-in of the account came from this network with this program. False for the first '
  'sign-in.';

comment on function private.is_openid_redirect_uri(private.openid_clients, text) is
  'Returns whether a redirect URI is registered for the client, as an exact string. On a loopback address, a public '
  'client may use any port (RFC 8252 section 7.3).';

comment on function private.is_proof_intact(private.mfa_proof) is
  'Returns whether the account, session, factor and policy of a proof still exist. The change that removed one has '
  'queued its notice already. For definers; not granted to a role.';

comment on function private.is_proven_identity(auth.identities, auth.users) is
  'Returns whether a provider has verified that the identity has the account''s email.';

comment on function private.is_recovery_open_to(private.recovery_credentials, bytea) is
  'Returns whether a browser can use a recovery credential: any browser the first time, and then only the browser that'
  ' used it, until it presents the session it got or that session ends.';

comment on function private.is_told_by_mail(text) is
  'Returns whether the owner is emailed about events of this kind. A sign-in is emailed only from a new location.';

comment on function private.is_unconfirmed_identity(uuid) is
  'Returns whether an identity is unconfirmed: until our own link completes, or until the owner keeps a direct one.';

comment on function private.is_vault_entry_usable(private.account_vault_entries) is
  'Returns whether an account can be switched to without a new sign-in, as far as the database knows. It expires after'
  ' 30 days without use.';

comment on function private.is_workspace_member(uuid, uuid) is
  'For definers that have derived the user from a credential. Not granted to any role, because it trusts the id it is '
  'given.';

comment on function private.issue_app_token(ai.app_tokens) is
  'Stores the next token of a family, with its times. For definers; not granted to any role.';

comment on function private.issue_authorization_code(jsonb, text, text, text[], text, text, bytea, boolean, bigint) is
  'Issues a code for 60 seconds to the session of verified claims: {scopes}, or {refused: client | unauthenticated | '
  'mfa_required | unavailable | login_required | consent_required | scope}. consents: the person has just agreed, '
  'which is stored. authenticated_since: the second since which they must have signed in or confirmed it.';

comment on function private.issue_openid_tokens(private.openid_grants, bytea, bytea) is
  'Opens a login and issues its first tokens. login.ends_at may be null, which means 30 days; id and created_at are '
  'ignored. Returns what private.add_openid_tokens returns, with the nonce. For definers; not granted to any role.';

comment on function private.issue_recovery_credential(jsonb) is
  'Issues a credential: { actor, overrideId, reason, tokenHash, codeSalt, codeHash in hex, ip, userAgent, requestId } '
  '→ { credentialId, email, expiresAt } or { refused: forbidden | oneself | not_found | inactive | switched_off }, or '
  '{ refused: just_sent, retryAfterSeconds } while the last one is too recent to be replaced. Ends earlier ones of the'
  ' email.';

comment on function private.keep_email_identity(auth.users) is
  'Gives an account an identity of its own email before another one is removed. Otherwise Supabase Auth replaces the '
  'email with another identity''s. For definers; not granted to a role.';

comment on function private.keep_own_claims() is
  'Removes the sign-up''s metadata from an email identity, where it would survive the first confirmation.';

comment on function private.last_admin_action(text) is
  'Returns who last changed a target, and when: { actorEmail, at }. For a caller that lost a race to them.';

comment on function private.latest_amr_second(jsonb, text[]) is 'Returns when one of the methods was last used; null if never.';

comment on function private.limit_inviter() is
  'Counts invitations by their inviter across all workspaces, and refuses more than private.attempt_limits() allows '
  'with PT429, whose detail is the seconds until the next one.';

comment on function private.limit_workspace_invitations() is
  'Refuses more than 500 unaccepted invitations of one workspace with PT409.';

comment on function private.linked_workspaces(uuid, text[], integer) is
  'Returns a page of the workspaces that an app is linked to, by name. after: name and id of the last one on the '
  'previous page.';

comment on function private.list_account_deletion_blockers(uuid) is
  'Returns the workspaces with other members that this account alone owns. Each needs another owner before the account'
  ' may be deleted.';

comment on function private.list_apps(text, text, integer) is
  'Returns a page of the registry by name, with the first 50 linked workspaces of each app and without secret hashes. '
  'term is part of the name or display name. after is the last name of the previous page. Without page_size, returns '
  'all apps. OpenID clients are listed by private.list_openid_clients.';

comment on function private.list_catalogue_models(text, text, text[], integer) is
  'Returns a page of the models whose id or name contains a term, or one model, with its providers, in the order in '
  'which they are tried, and its prices: the current ones for a page, all for one model. Amounts are text, so that no '
  'digit is lost. after: sortsAs of the last one on the previous page; without page_size, all models.';

comment on function private.list_infrastructure_admins() is
  'Lists all infrastructure admins: [{ email, reason, createdAt, hasAuthenticator }]. The console requires an '
  'authenticator.';

comment on function private.list_passkeys(uuid) is
  'Returns an account''s passkeys, oldest first, each with its credential id in hexadecimal, the AAGUID of its '
  'provider, and the browser and system from which it was added, if known. For our server, which has the account from '
  'its session.';

comment on function private.list_platform_costs(date, jsonb, jsonb, integer) is
  'Returns ai.provider_costs_page of the platform''s book for the month of a day.';

comment on function private.list_platform_invoices(jsonb, integer, jsonb) is
  'Returns ai.provider_invoices_page of the platform''s book.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.list_provider_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, jsonb, integer)') is not null then
    comment on function private.list_provider_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, jsonb, integer) is
      'Returns ai.provider_costs_page for the session''s user, or {refused}.';
  end if;
end
$guard$;

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer)') is not null then
    comment on function private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer) is
      'Returns ai.provider_invoices_page for the session''s user, or {refused}.';
  end if;
end
$guard$;

comment on function private.list_provider_routes(text[], integer) is
  'Returns a page of the enabled models with their routes in order: whether they have the price that calls need '
  '(ai.open_prices), and what failed in the last seven days. after: sortsAs of the last one on the previous page; '
  'without page_size, all of them.';

comment on function private.list_provider_usage(date, date) is
  'Returns what providers served in all workspaces between two UTC days, inclusive, by provider and billing account, '
  'highest cost first: [{ provider, billingName, billingAccount, requests, failed, inputTokens, outputTokens, costUsd '
  '}].';

comment on function private.list_route_prices() is
  'Returns the routes of all models with their prices: [{ model, displayName, providerId, providerModel, prices: '
  '[private.describe_price and latest (private.latest_price)] }]. Each service tier and input size has one price: the '
  'current one, or else the next, or else the last.';

comment on function private.list_sign_in_methods(uuid) is
  'Returns the ways to sign in to an account: { password, passkeys, identities: [{ id, provider, email, createdAt, '
  'lastSignInAt, unconfirmed }] }, or null if there is no such account. unconfirmed: added by a direct call; our pages'
  ' accept no sign-in with it. Leaves out identities from one of our links in progress.';

comment on function private.list_skipped_routes(integer) is
  'Returns routes that runs of the last 15 minutes skipped because they were cooling down, latest first: [{ model, '
  'displayName, provider, providerModel, skipped (how often), lastAt }]. Cooldowns themselves exist only in the '
  'functions'' memory.';

comment on function private.list_workspaces_by_app_session(bytea, text[], integer) is
  'Returns a page of the workspaces of the session''s user as public.list_workspaces does, {workspaces: […]}, or '
  '{refused}; without page_size, all of them.';

comment on function private.live_app_session(bytea) is
  'Returns the session for a token''s hash, including the previous token within its grace period; does not check '
  'whether the proof is still valid. For definers; not granted to any role.';

comment on function private.live_openid_token(bytea) is
  'Returns an access token, its login, and the scopes that the registration still allows. Does not check the login''s '
  'proof. For definers; not granted to any role.';

comment on function private.lock_app_credentials(uuid) is
  'Serializes, per person, refreshes and revocations of app credentials before any of the person''s rows is read. '
  'Otherwise the successor from a refresh in progress would survive the revocation of its token. For definers; not '
  'granted to any role.';

comment on function private.log_workspace_change(uuid, text, uuid, text, jsonb) is 'Adds one line to the log.';

comment on function private.log_workspace_row() is 'Logs a change of one of a workspace''s rows.';

comment on function private.login_challenge_state(private.login_challenges) is
  'Returns the public state of a challenge: created, approved, consumed, bound, rejected, locked or expired.';

comment on function private.loopback_without_port(text) is 'Returns a loopback redirect URI without its port; null for any other URI.';

comment on function private.mail_pause() is
  'Returns how long the link in an email is protected from being replaced by another email of its kind: long enough to'
  ' receive, open and use it. The same as max_frequency in supabase/config.toml.';

comment on function private.mail_wait(text, text, uuid) is
  'Returns how long an account''s newest email of a kind is protected from being replaced; null if it is older than '
  'that, or there is none. Emails requested directly from the identity backend count too.';

comment on function private.may_be_unproven(auth.users) is
  'Returns whether a person other than the email''s owner may have created an unconfirmed account.';

comment on function private.may_change_access(uuid, uuid) is
  'Returns whether a session has proved enough to remove ways to open its account. For definers; not granted to a '
  'role.';

comment on function private.may_change_apps(jsonb) is
  'Returns whether the author of a change is an infrastructure admin, or the command line, which names none.';

comment on function private.may_review_authenticators(uuid, uuid) is
  'Returns whether a session may decide about authenticators that it can''t prove: all of the account''s are '
  'unconfirmed additions, none is required, and the session began with a password reset or recovery in the last ten '
  'minutes. Without this, an attacker who knew the password could lock the owner out by enrolling their own '
  'authenticator.';

comment on function private.mfa_claims(jsonb) is
  'Returns only the claims that the required-MFA rule reads from a token: what a challenge stores of its approver.';

comment on function private.mfa_recovery_state(uuid, uuid) is
  'Returns { left, createdAt, unfinished }: how many codes a user has left, since when, and whether the session used '
  'one whose recovery is not completed.';

comment on function private.mfa_verification_attempt(jsonb) is
  'Hook of the identity backend: { metadata, user_id, factor_id, factor_type, valid }. A rejection ends all sessions '
  'of the user, so it happens only under attack: after ten failures in 15 minutes, from any addresses.';

comment on function private.mint_cross_app_token(bytea, jsonb, text) is
  'Stores a token for the facts of required_mfa_proof, with the web server''s signature over them. Returns false if '
  'the app has been disabled since.';

comment on function private.my_assignable_role_ids() is
  'Returns the roles that the caller may assign and withdraw: none that allows more than their own, to prevent '
  'self-promotion; and an owner role only if the caller is an owner who proved their identity within ten minutes.';

comment on function private.my_coworker_ids() is 'Returns the people who share a workspace with the caller.';

comment on function private.my_owned_workspace_ids() is 'Returns the workspaces that the caller owns.';

comment on function private.my_workspace_ids() is
  'Returns the caller''s workspaces, without deleted ones.';

comment on function private.my_workspace_ids_with_permission(public.workspace_permission) is
  'Returns the workspaces in which the caller''s role has the permission.';

comment on function private.my_workspace_permissions() is 'Returns what the caller may do, by workspace.';

comment on function private.open_account_device(uuid, text) is
  'Returns device_state with the active account''s sealed session. Null for an unknown device.';

comment on function private.open_openid_authorization(text, text, text[], jsonb) is
  'Describes an authorization request without changing anything: {client: {name, displayName, enabled}, '
  'redirectAllowed, scopes, session: {authTime, consented} | null}, or null for an unknown client. session is null '
  'without claims, or if their session could not be issued a code.';

comment on function private.openid_authentication_of(jsonb, private.mfa_proof, boolean) is
  'Returns the claims auth_time, acr and amr (RFC 8176) of a session: its latest sign-in or second factor. '
  'by_approval: the second factor was proved on a phone.';

comment on function private.openid_scopes(uuid, text[]) is
  'Returns the requested scopes for which an OpenID client is registered; all others are dropped.';

comment on function private.own_claims(jsonb) is
  'Returns the members that Supabase Auth itself writes into metadata and into email identities.';

comment on function private.passkey_exists(text) is
  'Returns whether any account has this passkey, by its credential id in hexadecimal. The identity backend does not '
  'distinguish an unknown passkey from a wrong signature, and a browser that is wrongly told a passkey is unknown '
  'deletes one that works.';

comment on function private.password_verification_attempt(jsonb) is
  'Hook of the identity backend: { metadata, user_id, valid }. Admits attempts of our own routes, which were counted '
  'already, and limits direct ones by account and by account and address.';

comment on function private.pending_email_change(uuid) is
  'Returns an account''s pending email change: { email, newEmail, sentAt, agreed }, or null. agreed is the mailbox '
  'that has already confirmed: current, new, or null.';

comment on function private.pending_mobile_approvals(jsonb) is
  'Returns the requests waiting for a phone at AAL2: { outcome: listed, approvals: [{ id, createdAt, expiresAt, '
  'metadata }] }, or outcome mfa_required. Never includes the pair code, which is stored only as a hash.';

comment on function private.personal_workspace_name(text) is
  'Returns the name of a personal workspace until its owner renames it. For definers; not granted to a role.';

-- A database may lack the migration of required MFA, which alone defines this function.
do $guard$
begin
  if to_regprocedure('private.preserve_required_mfa_policy()') is not null then
    comment on function private.preserve_required_mfa_policy() is
      'The identity backend writes back metadata that it read without a lock, so a sign-in could undo a policy. Only the '
      'policy''s own function may write it, and sets gatehouse.required_mfa_writer in its transaction to do so.';
  end if;
end
$guard$;

comment on function private.preview_costs_as_operator(uuid, uuid, jsonb) is
  'Returns ai.describe_cost_file for the operator''s command, or { outcome: app_not_linked }. Without workspace and '
  'app, uses the platform''s book.';

comment on function private.preview_handoff(uuid) is
  'Returns the person that "Continue as …" names before a token is redeemed. The web server has the user from a proof '
  'that it checked.';

comment on function private.preview_platform_costs(jsonb) is 'Returns ai.describe_cost_file of the platform''s book, for the console.';

comment on function private.primary_methods() is 'Returns the methods of an amr entry that sign a person in.';

comment on function private.proof_status(private.mfa_proof) is
  'Returns good; over (session or account ended, policy changed, factor removed); mfa_required; or unavailable if the '
  'policy can''t be read. For definers; not granted to any role.';

comment on function private.protect_table(regclass) is
  'Adds row-level security and the restrictive policy to one table. Call it for each table or partition created later.';

comment on function private.proven_metadata(auth.users) is
  'Returns the metadata of a newly confirmed account: what a provider that verified the email reports, and Auth''s own'
  ' members.';

comment on function private.queue_event_mail(public.security_events, text) is
  'Queues the email to an account''s owner about an event. Does nothing without an address.';

comment on function private.read_address_block(uuid) is 'Returns a block as private.describe_address_block; null if there is none.';

comment on function private.read_app(text, text[], integer) is
  'Returns an app as private.describe_app does, with a page of its workspaces (private.linked_workspaces) and its '
  'version: its last line in the audit log.';

comment on function private.read_device_authorization(text, uuid) is
  'Returns a request for a page or a phone: {userCode, state: pending | approved | denied | expired, app, scopes, '
  'userAgent, address, place, createdAt, expiresAt}; null for an unknown code. Callers must apply the limits on '
  'guesses.';

comment on function private.read_login_challenge(jsonb) is
  'Returns the state of a challenge, for the session that began it and the one that it minted: { id, kind, secretHash,'
  ' sessionId } → { outcome: known, status, expiresAt, validUntil, mintedSessionId }, or outcome not_found (id or '
  'secret wrong) or forbidden (another session''s).';

comment on function private.read_model(text) is
  'Returns a model as private.list_catalogue_models does, with its version (private.model_version), settings, routes '
  'in order, all plans with whether they have it and their workspaces, counted up to 1,001, and the first 100 '
  'workspaces with a grant of their own.';

comment on function private.read_openid_logout(text, text, uuid, uuid) is
  'Describes a sign-out requested by a client: {displayName, redirectAllowed, ofSession}, or null for an unknown '
  'client. ofSession: the login of the ID token came from this very session.';

comment on function private.read_openid_userinfo(bytea) is
  'Returns the claims that an access token gives access to (OpenID Connect Core 1.0 section 5.3), or {refused: token |'
  ' scope | unavailable}.';

comment on function private.read_platform_cost_import(uuid) is
  'Returns ai.cost_import_receipt of the platform''s book, for the console.';

comment on function private.read_platform_invoice(uuid) is 'Returns ai.read_invoice of the platform''s book.';

comment on function private.read_qr_request(jsonb) is
  'Returns a QR challenge as a phone shows it before deciding: { id, secretHash, userId, sessionId } → { outcome: '
  'known, id, status, createdAt, expiresAt, metadata }, or outcome not_found (id or secret wrong) or forbidden (not '
  'the requesting account, or the requesting session itself).';

comment on function private.read_signing_keys() is
  'Returns the published keys, newest first: [{kid, publicJwk, sealedPrivateJwk, sealingKeyId, signs}]. At most one '
  'signs.';

comment on function private.read_workspace_by_app_session(bytea, uuid) is
  'Returns {workspace} if the session''s user is a member of it, or {refused: … | not_found}.';

comment on function private.recent_networks(uuid) is
  'Returns the networks of an account''s last 50 events and last 50 sessions.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.reconcile_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, text[], integer)') is not null then
    comment on function private.reconcile_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, text[], integer) is
      'Returns ai.reconciliation_page for the session''s user, or {refused}.';
  end if;
end
$guard$;

comment on function private.reconcile_platform(date) is
  'Returns ai.reconciliation_page of the platform''s book for the month of a day: { outcome: listed, month, totals, '
  'clashes, records }.';

comment on function private.record_account_change() is
  'Records a new password, a change of email, a ban and its end. A change of email is sent to both addresses.';

comment on function private.record_addition(uuid, text, uuid, boolean, jsonb) is
  'Records an added identity, passkey or authenticator, and marks it if our server did not announce it.';

comment on function private.record_admin_action(jsonb, jsonb) is
  'Adds one line to the audit log: change { actor, reason, requestId, ip }, act { action, targetUserId, target, '
  'before, after }. Runs in the transaction of the change it records.';

comment on function private.record_app_change(private.apps, text, text, uuid) is
  'Adds one line to the audit log about an app. Without an actor, it was the command line.';

comment on function private.record_authenticator_added() is 'Guards and records a newly verified factor.';

comment on function private.record_passkey_added() is 'Guards and records a newly registered passkey.';

comment on function private.record_platform_invoice(jsonb) is
  'Stores an invoice to the platform: { actor, record, reason, requestId, ip } → as ai.store_provider_invoice answers,'
  ' or { refused: forbidden }.';

comment on function private.record_recovery_event(jsonb) is
  'Records an event: { kind, outcome, email, overrideId, credentialId, userId, actor, ip, userAgent, requestId }, the '
  'last eight if known.';

comment on function private.record_removal() is
  'Records the removal of an authenticator, a passkey or an identity from an account in use.';

comment on function private.record_security_event(jsonb) is
  'Adds to an account''s activity, or describes what a trigger added: { userId, kind, method, sessionId, ip, '
  'userAgent, device, place, details } → { id, createdAt }, or null if the account doesn''t exist. The emails about it'
  ' become due.';

comment on function private.record_sign_in() is
  'Records a new session as a sign-in, and queues an email if it comes from a new location.';

comment on function private.record_sign_outs() is
  'Records sign-outs at the backend, one event per account and statement.';

comment on function private.record_unconfirmed_identity() is
  'Guards and records an identity that was added to an account in use. One with the account''s own verified address '
  'was linked by the backend at a sign-in, and is confirmed.';

comment on function private.record_verified_address(bytea) is
  'Records for 30 days that an account was signed in to from an address.';

comment on function private.recovery_actor_refusal(jsonb, text) is
  'Returns why the actor may not do this to that email: forbidden, oneself, or null; a refusal is recorded. For the '
  'functions below; not granted to any role.';

comment on function private.recovery_code_salt(text, bytea) is
  'Returns the salt, in hex, with which a code for an email is hashed before it is tried; made up if there is none to '
  'try, so that the answers are indistinguishable.';

comment on function private.recovery_overview(text) is
  'Returns what the console shows about an email: { email, account, overrides, events, codes, counters }, where '
  'counters are the limits by email only that are partly used. Never includes a link or a code.';

comment on function private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea) is
  'Redeems an authorization code once: returns what private.issue_openid_tokens returns, or {refused: unauthenticated '
  '| token | unavailable}. code_challenge is the hash of the verifier. A second use revokes the login of the first.';

comment on function private.redeem_device_code(text, bytea, bytea, bytea, bytea) is
  'Handles a device''s poll, which redeems an approved request once: returns what private.issue_openid_tokens returns,'
  ' or {refused: authorization_pending | slow_down (the interval grew by 5 s) | access_denied | expired_token | token '
  '(unknown, another client''s or redeemed) | unauthenticated | unauthorized_client | unavailable}.';

comment on function private.refresh_app_session(text, bytea, bytea, bytea) is
  'Replaces a token with its successor, once: {id, handoff, audience, user, factor, issuedAt, expiresAt}, the same for'
  ' all callers within 30 s, or {refused: unauthenticated | token | unavailable}. The web server derives the successor'
  ' from the token with a key, so all callers pass the same one.';

comment on function private.refresh_app_token is
  'Uses a refresh token once for the next pair: {user, workspace, scopes, expiresAt}, the same for all callers within '
  '30 s; later reuse revokes the family. Or {refused: unauthenticated | token | scope | workspace | unavailable}. The '
  'web server derives the next pair from the token with a key, so all callers pass the same one.';

comment on function private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea) is
  'Uses a refresh token once for its successor: returns what private.add_openid_tokens returns, the same for all '
  'callers within 30 seconds; a later use revokes the login. Or {refused: unauthenticated | token | scope | '
  'unavailable}. scopes may narrow those of the login for this access token. The web server derives the successor from'
  ' the token with a key.';

comment on function private.register_app is
  'Registers an app with its origins and first secret. The callers authorize it: the console and the command line run '
  'on our server.';

comment on function private.release_mfa_code(text, uuid, boolean) is
  'Releases a claim that ended without a successful verification: verified is false if the code was wrong, null if the'
  ' backend did not answer.';

comment on function private.release_mint_lease(uuid) is
  'Releases a lease, unless it has expired and another caller holds the new one.';

comment on function private.release_qr_challenge(uuid) is
  'Returns a challenge to approved, for the caller that claimed it and knows that nothing was minted.';

comment on function private.release_recovery_credential(uuid) is
  'Releases a consumption, by the request that holds it, if it certainly created no session. A repeated one can be '
  'used by its browser only.';

comment on function private.remove_identity(uuid) is
  'Removes an identity from its account, and from the application metadata. For definers of this schema only.';

comment on function private.remove_unproven_password(text, text) is
  'Removes the password of an unconfirmed account before a mailed link confirms it: otherwise the person who signed up'
  ' with the email could sign in as soon as it is confirmed.';

comment on function private.rename_workspace_by_app_session(bytea, uuid, text) is
  'Returns {workspace} under its new name if the session''s user may manage its settings, or {refused: … | not_found |'
  ' forbidden}.';

comment on function private.replace_invitation() is
  'Lets a new invitation replace an open one of the same workspace and email that the inviter could withdraw. The link'
  ' in one younger than private.mail_pause() stays valid: then the new one fails with 23505.';

comment on function private.replace_mfa_recovery_codes(uuid, text[]) is
  'Replaces all of a user''s codes with new ones, named by the hex of their hashes. An empty list removes them.';

comment on function private.replace_signing_key(text, jsonb, text, text, text) is
  'Adds a key that signs from now on: the first one, or a replacement for a key that cannot be opened (replaces). '
  'Earlier keys stay published for a day. Returns false if another caller was first.';

comment on function private.replace_workspaces(uuid) is
  'Closes the workspaces that an account alone owns, removes it from the others, revokes the keys it created, and '
  'creates a new personal workspace; does nothing if its only workspace is unused. For definers; not granted to a '
  'role.';

comment on function private.require_password_replacement(uuid, uuid) is
  'Restricts a session to replacing its account''s password until the password changes. Also removes the rows of '
  'sessions that have ended.';

comment on function private.required_mfa_generation(jsonb) is 'Returns the generation of the policy in force; null before the first.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.required_mfa_of(uuid)') is not null then
    comment on function private.required_mfa_of(uuid) is
      'Returns what the console shows about an account before its policy is changed: { id, email, state, policy, '
      'generation, authenticators, enforced, lastChange: { action, actorEmail, at } }; null if there is no such account.';
  end if;
end
$guard$;

comment on function private.required_mfa_proof(jsonb, text, integer) is
  'Returns what the session of verified claims has proved, for the web server to sign: {user, target, session, factor,'
  ' secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt}, with seconds since 1970 and times, or '
  '{refused: unauthenticated | mfa_required | unavailable | not_found}. validUntil is when what an approval '
  'contributed expires.';

comment on function private.required_mfa_state(jsonb) is
  'Returns optional, required, recovery_in_progress or malformed. The last two close the account to every session.';

comment on function private.reseal_signing_key(text, text, text, text) is
  'Replaces a private key''s sealed form with one sealed by the current secret. Returns false if it has been resealed '
  'since.';

comment on function private.review_platform_invoice(jsonb) is 'Returns ai.invoice_review of the platform''s book.';

comment on function private.revoke_app_credential(text, bytea, bytea) is
  'Revokes an app session, or an access or refresh token for the gateway, with everything from the same handoff; does '
  'nothing if the token is not the app''s (RFC 7009). Returns false if the app did not authenticate.';

comment on function private.revoke_app_credentials() is
  'Revokes all credentials of an app permanently: enabling it again restores none of them.';

comment on function private.revoke_cross_app_tokens(uuid) is
  'Revokes every outstanding token of a user and returns how many. The web server has the user from verified claims.';

comment on function private.revoke_openid_token(text, bytea, bytea) is
  'Revokes an access token or, with a refresh token, its login; does nothing for a token of another client (RFC 7009).'
  ' Returns false if the client did not authenticate.';

comment on function private.revoke_recovery_override(jsonb) is
  'Revokes an override: { actor, overrideId, reason, ip, userAgent, requestId } → {} or { refused: forbidden | oneself'
  ' | not_found | inactive }. Everything sent under it becomes void.';

comment on function private.revoke_user_app_credentials() is
  'Revokes all app credentials of a user permanently: lifting a ban does not restore them.';

comment on function private.rotate_app_secret is
  'Gives an app a new secret; the earlier ones expire after the overlap. Returns when, or null if the app doesn''t '
  'exist.';

comment on function private.satisfies_required_mfa(jsonb, jsonb, boolean, boolean, bigint, bigint) is
  'The rule itself, on facts only, so that test vectors can drive it. approval_second is null without a bound '
  'approval.';

comment on function private.save_model(jsonb) is
  'Edits a model, or adds a disabled one if version is null: { actor, model, version (private.model_version), '
  'displayName, ownedBy, studioDefault, contextWindow, outputLimit, voices, reason, requestId, ip }, to add also kind,'
  ' to edit also isDefault and defaultOfKind (the id of the default that it replaces, or null) → {} or { refused: '
  'forbidden | not_found | id_taken | invalid | default_changed | conflict (with last) }.';

comment on function private.search_accounts(text, integer) is
  'Returns the accounts with the given id or full email or, if there is none, those whose email or name contains the '
  'text: [private.describe_account].';

comment on function private.search_audit_log(jsonb, jsonb, jsonb, integer) is
  'Returns a page of the audit log, newest first; null if the reader, a token''s verified claims, may no longer read '
  'it. filters: action (its prefix), actor and target (parts of an email or name; for a target also the id of a user),'
  ' from and to (exclusive). before is { createdAt, id } of the last line on the previous page.';

comment on function private.search_workspaces(text, integer) is
  'Returns workspaces by id, or by a member''s full email or id; if there is none, by part of the name. For an empty '
  'text, returns those that may create keys: [{ id, name, plan, personalUserId, owners, members, liveKeys, approvedAt,'
  ' approvedBy, request: the open request, { requestedAt, requestedBy, note }, or null }].';

comment on function private.second_factor_methods() is 'Returns the methods of an amr entry that prove a second factor.';

comment on function private.secret_after_addition(text, text) is
  'Returns the device secret after an account was added. It is derived from both secrets, so planting either one is '
  'not enough.';

comment on function private.secret_hash(text) is 'Hashes a secret of 256 random bits, which need no slow hash.';

comment on function private.serialize_account_deletions() is
  'Serializes account deletions before they lock any row: two accounts may be named in each other''s rows, even in '
  'workspaces that one of them has left.';

comment on function private.session_facts(jsonb) is
  'Returns the database''s facts about a token''s session now: no row if it has ended or is another user''s. Includes '
  'a mobile approval only if the claims prove that the browser holds its cookie.';

comment on function private.session_is_fresh() is
  'Returns whether the caller proved their identity within ten minutes: with the second factor if one is enrolled, '
  'otherwise by a sign-in. This is the pages'' step-up, for changes that can be made without the pages.';

comment on function private.session_proof(jsonb) is
  'Returns what the session of verified claims has proved, as one row: refused is unauthenticated, mfa_required, '
  'unavailable or null. valid_until is when a mobile approval that the proof depends on expires, otherwise null. For '
  'definers; not granted to any role.';

comment on function private.session_satisfies_mfa(jsonb) is
  'For definers that hold verified claims. Not granted to any role, because it trusts the claims it is given.';

comment on function private.session_second_factor(jsonb) is
  'Returns the factor by which a session itself is at AAL2, and when it was proved: { factorId, second }; null for any'
  ' other session.';

comment on function private.session_used_method(uuid, text) is
  'Returns whether a session signed in by a method of Supabase Auth. For definers; not granted to a role.';

comment on function private.set_app_enabled is
  'Enables or disables an app; disabling revokes its credentials. Returns false if the app doesn''t exist.';

comment on function private.set_app_logout_url(text, text, text, uuid) is
  'Sets the URL that notifies an app of any kind about ended logins; null stops it. Returns false if there is no such '
  'app.';

comment on function private.set_app_workspace is
  'Links an app to a workspace or removes the link. Returns false if the app or workspace doesn''t exist.';

comment on function private.set_infrastructure_admin(text, boolean, text) is
  'Grants or withdraws access to the console: changed, unchanged or no_account. For the command line only: no page '
  'calls it, so admins can''t create other admins. Each change is logged in the audit log without an actor.';

comment on function private.set_model_enabled(jsonb) is
  'Opens a model to callers whose plans grant it, or closes it to all: { actor, model, enabled, reason, requestId, ip '
  '} → {} or { refused: forbidden | not_found | conflict (no change, with last) }.';

comment on function private.set_session_sign_in_time(uuid, timestamptz) is
  'Dates a minted session by the sign-in from which it was derived. Tokens issued for it from now on carry that time.';

comment on function private.set_updated_at() is
  'Sets updated_at on every write, so that callers need no grant on that column.';

comment on function private.sign_account_out(jsonb) is
  'Signs an account out of every device and app and notifies its owner: { actor, subject, reason, requestId, ip } → {}'
  ' or { refused: forbidden | not_found | oneself }. Idempotent.';

comment on function private.sign_in_account(jsonb) is
  'Adds a fresh sign-in to a browser''s accounts, or replaces the same account''s session with it, which ends; it '
  'becomes the active one, and the device gets a new secret: { deviceId, secret, nextHash, secondNextHash (hex), '
  'userId, sessionId, sealed, keyId, tag, inPlaceOf }; without secret the device is created. Returns { status: kept | '
  'unknown | full | over, successor }: which of the secrets after the presented one is valid. over: inPlaceOf names '
  'the session that the new one continues, and the browser has signed out of it or has another one now. A session that'
  ' continues another leaves active the account that the browser has switched to since.';

comment on function private.sign_in_event(uuid, uuid) is
  'Returns the event of the sign-in that began a session, or null. For definers; not granted to a role.';

comment on function private.sign_out_account(uuid, text, uuid) is
  'Signs one account out of a browser and ends its session there. next: the accounts that may be active after it, the '
  'last used first.';

comment on function private.sign_out_device(uuid, text) is
  'Signs a browser out of all its accounts: ends all their sessions and deletes the device. Returns the sessions that '
  'had not ended before: [{ userId, sessionId }]; null for an unknown device.';

comment on function private.sign_out_everywhere(uuid, uuid) is
  'Signs an account out of every device and app, records it, and notifies the owner. Returns how many sessions it '
  'ended; concurrent calls record one event.';

comment on function private.sign_out_scope(text) is
  'Returns the scope of a sign-out from the statement with which Supabase Auth ends sessions; null for every other '
  'statement, such as those that clean up or end sessions below a level of assurance.';

comment on function private.signing_key_is_due() is
  'Returns whether to publish the next key: a day before the newest one has signed for 90 days. False before the first'
  ' key.';

comment on function private.start_over() is
  'Resets an account at the first confirmation of its email to what a new account has, and removes what was added '
  'before: profile, sessions, passkeys, authenticators, identities that prove nothing, a pending email change, app '
  'sessions, workspaces and keys; also the password if it was used.';

comment on function private.store_account_session(jsonb) is
  'Replaces an account''s session with its rotated one: { deviceId, userId, sessionId, expectedTag, sealed, keyId, '
  'tag, lastRoute }. If another rotation came first, returns that one for the caller to adopt: { kept: false, current '
  '}. Without sealed, only records its use.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('private.studio_refusal(bytea, uuid)') is not null then
    comment on function private.studio_refusal(bytea, uuid) is
      'Returns why a satellite''s session may not read a workspace''s studio; null if it may. For definers; not granted to'
      ' any role.';
  end if;
end
$guard$;

comment on function private.sweep_account_devices() is
  'Ends sessions unused in a browser''s vault for 30 days and sign-ins that the browser never presented, and deletes '
  'accounts after 90 days, and devices that have expired or hold none. Returns the number of deleted devices.';

comment on function private.sweep_app_credentials(integer) is
  'Deletes up to at_most of each kind of app credentials a day after they end. Returns their number; 0 while another '
  'sweep runs.';

comment on function private.sweep_login_challenges(integer) is
  'Deletes up to at_most challenges an hour after they expired, and bound approvals once they are no longer valid. '
  'Returns their number; 0 while another sweep runs.';

comment on function private.sweep_oauth_attempts(integer) is
  'Deletes up to at_most expired attempts, and as many identities whose link was not completed. Returns their number; '
  '0 while another sweep runs.';

comment on function private.sweep_recoveries(integer) is
  'Deletes up to at_most of each: credentials a day after they expired, guesses that no longer count, and expired '
  'leases. Returns their number; 0 while another sweep runs.';

comment on function private.take_additions(uuid, text, text[]) is
  'Adds the sign-ins whose secrets a browser presents to its accounts; the newest becomes the active one, and the '
  'session it replaces ends. Returns { status, secret }: the device secret derived from the presented ones, and its '
  'status for the device (device_secret_status); only current takes anything. Idempotent, with the same answer.';

comment on function private.take_mint_lease(uuid) is
  'Takes the lease: { outcome: taken, leaseId, email } to one caller at a time, which holds it for 20 s, longer than '
  'link and verification may take together; or outcome busy, no_account, no_email. The email is the account''s own, '
  'because generating a link for an unknown one would create an account.';

comment on function private.truncate_address(inet) is
  'Returns the part of an address that identifies a location: all of an IPv4 address, the /64 of an IPv6 address.';

comment on function private.unlink_identity(uuid, uuid, text[]) is
  'Removes an identity from an account: { outcome: unlinked, provider, email }, or outcome last_method if no way to '
  'sign in would remain, not_unlinkable for the email and phone of the account itself, not_found.';

comment on function private.user_has_workspace_permission(uuid, uuid, public.workspace_permission) is
  'For definers that have derived the user from a credential. Not granted to any role, because it trusts the id it is '
  'given.';

comment on function private.user_workspaces(uuid) is
  'For definers that have derived the user from a credential. Not granted to any role, because it trusts the id it is '
  'given.';

comment on function private.uuid_or_null(text) is 'Returns null for a claim that is not a UUID, so that it matches no row instead of raising.';

comment on function private.verify_override_password(jsonb) is
  'Verifies a password: { email, password, ip, userAgent, requestId } → { outcome: proven, overrideId, userId, banned,'
  ' confirmed }, or outcome none (no override with normal login), wrong, limited, oneself or unconfirmed (the account '
  'is younger than the override, and its email was never confirmed). All but none are recorded, without the password.';

comment on function private.withdraw_logout(uuid) is
  'Removes the notices about a login: the app acknowledged them, refused them permanently, or ended the login itself.';

comment on function private.write_required_mfa_policy(auth.users, jsonb) is
  'Writes an account''s policy and returns it: applies changes (required, recovery, signInAgain), increments the '
  'generation, and moves the boundary forward to the current second; signInAgain moves the boundary of primary methods'
  ' too. For definers that hold the account''s row for update; not granted to any role.';

comment on function public.accept_workspace_invitation(text) is
  'Joins the workspace of an open invitation to the caller''s own confirmed email, once, and returns its id. Raises '
  'PT404 for every other token.';

comment on function public.count_role_members(uuid) is
  'Returns how many members each role of a workspace has, counted up to 1,001.';

comment on function public.create_workspace(text) is
  'Creates a workspace with the caller as owner and returns its id. Raises PT409 above 20 per founder; 23514 for a '
  'name of less than 1 or more than 80 characters.';

comment on function public.delete_workspace(uuid) is
  'Closes a workspace for all its members: its keys end and it can no longer be read. Runs, ledger and invoices stay. '
  'Raises PT404 for a non-member, PT403 without manage_workspace_settings or without a proof of identity within ten '
  'minutes.';

comment on function public.device_session_state(uuid, text) is
  'Returns session_state, and which account is active on the browser''s device: all that must be current on a request,'
  ' in one statement.';

comment on function public.list_member_emails(uuid) is
  'Returns emails of a workspace''s members that the caller may see: their own, and all if they manage members.';

comment on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) is
  'Returns a page of a workspace''s members, owners first, then by name: those whose name or visible email contains '
  'the search, with a role or an id if given. after: is_owner, sorts_as and user_id of the last one on the previous '
  'page.';

comment on function public.list_workspaces(text[], integer) is
  'Returns a page of the caller''s workspaces, their personal one first, then by name. after: personal, name and id of'
  ' the last one on the previous page.';

-- A database may lack the migration that alone defines this function.
do $guard$
begin
  if to_regprocedure('public.required_mfa_enforcement_version()') is not null then
    comment on function public.required_mfa_enforcement_version() is
      'Returns the capability: 1 if trigger, probe, their privileges and the policy on every table are in place, otherwise'
      ' 0. No policy may be changed before it is 1.';
  end if;
end
$guard$;

comment on function public.session_state() is
  'Returns what must be current on every request, in one statement: { alive, sessionId, notAfter, aal, '
  'hasVerifiedFactor, mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned, '
  'deleted }, policy: { state, required, satisfied, byApproval } }, or { alive: false } once the session has ended. '
  'state is optional, required, recovery_in_progress or malformed. byApproval: a mobile approval satisfies it and the '
  'session''s own proofs would not. For approvals of release 0.1.0 the server has to check the cookie.';

comment on function public.transfer_workspace_ownership(uuid, uuid) is
  'Makes another member the owner, and gives the caller, the previous owner, the next lower role. Raises PT403 if the '
  'caller does not own the workspace or last proved their identity more than ten minutes ago, PT404 for a non-member, '
  'PT409 for oneself.';

comment on function public.workspace_invitation(text) is
  'Returns what an invitation offers to the holder of its token (hex of its SHA-256), or null: { workspaceId, '
  'workspaceName, role, email, invitedBy, expiresAt, state: open | accepted | expired | withdrawn, forYou }.';

comment on view ai.cost_book_entries is
  'Imported costs of all books. provider is normalized; spelling is what was stored.';

comment on view ai.invoice_book_entries is
  'Reviewed invoices of all books. provider is normalized; spelling is what was stored.';

comment on trigger audit_change on public.workspace_invitations is 'Shows owners who was invited.';

comment on trigger audit_change on public.workspace_members is 'Shows owners who joined, who left and whose role changed.';

comment on trigger audit_change on public.workspace_roles is 'Shows owners when a role''s permissions changed.';

comment on trigger audit_change on public.workspaces is 'Shows owners what happened to their workspace.';

comment on trigger audit_definition on public.workspace_roles is 'Shows owners who created which role, and what it allows.';

comment on trigger close_orphaned_workspaces on public.profiles is 'Runs before the deletion, while the person''s memberships still exist.';

comment on trigger index_account on public.profiles is 'Lets the console find accounts by part of the name.';

comment on trigger limit_invitations on public.workspace_invitations is
  'Pages read all open invitations of a workspace together.';

comment on trigger limit_inviter on public.workspace_invitations is 'Prevents bulk email to strangers.';

comment on trigger limit_roles on public.workspace_roles is 'Pages read all roles of a workspace together.';

comment on trigger record_usage_addition on ai.runs is
  'For manual inserts by an operator: our own runs always begin now. The condition is kept short, because each '
  'statement reads it again.';

comment on trigger record_usage_change on ai.runs is 'Runs when a run of a finished day is settled.';

comment on trigger record_usage_deletion on ai.runs is 'For manual deletions by an operator: our own code never deletes runs.';

comment on trigger reject_cost_import_change on ai.cost_imports is 'Applies to every role, including the table''s owner.';

comment on trigger reject_credit_account_change on ai.credit_accounts is
  'Replaces the ledger''s foreign key, which would cost every settlement a lookup.';

comment on trigger reject_incomplete_settlement on ai.runs is 'The condition is never met by runs that a settlement closes.';

comment on trigger reject_invoice_change on ai.external_provider_invoices is 'Applies to every role, including the table''s owner.';

comment on trigger reject_invoice_change on ai.platform_provider_invoices is 'Applies to every role, including the table''s owner.';

comment on trigger reject_ledger_change on ai.credit_ledger is 'The ledger is append-only, even for its owner.';

comment on trigger replace_invitation on public.workspace_invitations is 'Makes only the newest email''s link work.';

comment on trigger require_workspace_owner on public.workspace_members is
  'An ownerless workspace could never get an owner again.';

comment on trigger revoke_app_credentials on private.apps is 'For credentials, disabling an app is the same as deleting it.';
