-- Counts attempts, such as sign-ins and guesses of a code. Our routes call begin_attempt before each attempt and
-- complete_attempt after it.

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

-- Records the outcome of an attempt: succeeded, failed, or void if the attempt was not made. Refunds void attempts and
-- successful sign-ins. A successful sign-in also deletes the account's failures from this address. Other successful
-- attempts stay counted. A failed attempt counts against the address. Returns false if the outcome was already recorded
-- or the attempt is too old.
-- Definer: every role, even the service role, may change buckets only through begin_attempt and complete_attempt.
create or replace function private.complete_attempt(attempt_id uuid, outcome text) returns boolean
  language plpgsql volatile security definer set search_path = ''
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
    -- Refunds one attempt in each bucket and keeps the address's other attempts. Otherwise a person could attack other
    -- accounts and reset the count by signing in to their own account.
    perform private.refund_attempts(settled.charged);
    delete from private.rate_limits r where r.subject = any (settled.charged) and r.scope = 'pair';
    if settled.pair is not null then
      perform private.record_verified_address(settled.pair);
    end if;
  end if;
  return true;
end
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

-- Returns begin_attempt's answer for a refused attempt: { allowed: false, reason, retryAfterSeconds }.
create or replace function private.attempt_refusal(reason text, wait interval) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'allowed', false,
    'reason', reason,
    'retryAfterSeconds', greatest(1, ceil(extract(epoch from wait)))::integer
  )
$$;

-- Returns how long an account must still wait before another email of a kind may replace the link in its previous one.
-- Returns null if the account need not wait. Includes emails requested directly from the identity backend.
create or replace function private.mail_wait(kind text, of_email text, of_user uuid) returns interval
  language sql stable security invoker set search_path = ''
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

-- Returns how long the link in an email is protected from being replaced by a newer email of the same kind. The time is
-- long enough to receive the email, open it and use the link. Must equal max_frequency in supabase/config.toml.
create or replace function private.mail_pause() returns interval
  language sql immutable security invoker set search_path = ''
as $$
  select interval '3 minutes'
$$;

-- Records that an account signed in from an address. The record is valid for 30 days.
create or replace function private.record_verified_address(proven bytea) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.verified_addresses as p (pair, verified_until) values (proven, now() + interval '30 days')
  on conflict (pair) do update set verified_until = excluded.verified_until
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
