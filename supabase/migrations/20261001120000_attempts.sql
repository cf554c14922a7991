-- What our own routes call before and after each attempt, through the Data API with the service role's key.

create function private.count_failure(of_action text, network cidr) returns void
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
  if private.take_attempt(bucket.subject, 'failure', bucket.scope, bucket.step, bucket.per) is null then
    return;
  end if;
  -- The row is ours until the end: of those who fail at the same moment one blocks, and the others begin to count anew.
  delete from private.rate_limits r where r.subject = bucket.subject;
  select coalesce(max(b.level), 0) + 1 into next_level
  from private.address_blocks b
  where b.address = network and b.lifted_at is null and b.blocked_until > now() - interval '7 days';
  insert into private.address_blocks (address, action, level, blocked_until)
  values (network, of_action, next_level, now() + private.block_length(next_level));
end
$$;
comment on function private.count_failure(text, cidr) is
  'Counts a failure against an address, and blocks it where there were too many: longer each time within a week.';
revoke execute on function private.count_failure(text, cidr) from public, anon, authenticated;

create function private.return_attempts(buckets bytea[]) returns void
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
comment on function private.return_attempts(bytea[]) is 'Puts one attempt back into each bucket.';
revoke execute on function private.return_attempts(bytea[]) from public, anon, authenticated;

create function private.attempt_refusal(reason text, wait interval) returns jsonb
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
revoke execute on function private.attempt_refusal(text, interval) from public, anon, authenticated;

create function private.prove_address(proven bytea) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.proven_addresses as p (pair, proven_until) values (proven, now() + interval '30 days')
  on conflict (pair) do update set proven_until = excluded.proven_until
$$;
comment on function private.prove_address(bytea) is
  'Remembers for 30 days that an account was entered from an address.';
revoke execute on function private.prove_address(bytea) from public, anon, authenticated;

create function private.mail_wait(kind text, of_email text, of_user uuid) returns interval
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
revoke execute on function private.mail_wait(text, text, uuid) from public, anon, authenticated;

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create function private.begin_attempt(attempt jsonb) returns jsonb
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

  proven := exists (select from private.proven_addresses p where p.pair = account_pair and p.proven_until > now());
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
    wait := private.take_attempt(bucket.subject, bucket.action, bucket.scope, bucket.step, bucket.per);
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
    perform private.return_attempts(charged);
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
revoke execute on function private.begin_attempt(jsonb) from public, anon, authenticated;
grant execute on function private.begin_attempt(jsonb) to service_role;

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create function private.settle_attempt(attempt_id uuid, outcome text) returns boolean
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
    perform private.return_attempts(settled.charged);
  elsif outcome = 'failed' then
    perform private.count_failure(settled.action, settled.address);
  elsif settled.action in ('password', 'code', 'passkey') then
    -- One each, and not the address's whole count: who has an account would else guess at others between sign-ins.
    perform private.return_attempts(settled.charged);
    delete from private.rate_limits r where r.subject = any (settled.charged) and r.scope = 'pair';
    if settled.pair is not null then
      perform private.prove_address(settled.pair);
    end if;
  end if;
  return true;
end
$$;
comment on function private.settle_attempt(uuid, text) is
  'Says what became of an attempt. succeeded: it is given back, and the account''s failures from this address are '
  'forgotten; what costs a mail or a hash stays counted. failed: it counts against the address. void: it was never '
  'made, and is given back. False where it was settled already or is too old.';
revoke execute on function private.settle_attempt(uuid, text) from public, anon, authenticated;
grant execute on function private.settle_attempt(uuid, text) to service_role;

create function private.clear_expired_attempts() returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  cleared integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.clear_expired_attempts', 0)) then
    return 0;
  end if;
  delete from private.rate_limits r where r.full_at < now();
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.open_attempts o where o.expires_at < now();
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.proven_addresses p where p.proven_until < now();
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  -- Kept a month, for whoever asks why they could not get in.
  delete from private.address_blocks b where b.blocked_until < now() - interval '30 days';
  get diagnostics batch = row_count;
  return cleared + batch;
end
$$;
comment on function private.clear_expired_attempts() is
  'Removes what has passed: full buckets, old attempts, and blocks a month after their end. One at a time; others get 0.';
revoke execute on function private.clear_expired_attempts() from public, anon, authenticated;
grant execute on function private.clear_expired_attempts() to service_role;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('clear-expired-attempts', '*/5 * * * *', 'select private.clear_expired_attempts()');
  end if;
end
$$;
