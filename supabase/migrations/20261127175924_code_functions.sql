-- Generated from supabase/schemas by npm run db:migration.

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
  repeated boolean := false;
  new_id uuid;
begin
  if of_action is null or of_action not in (
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff'
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
    -- Under an override the sign-in is made again once what blocked it is lifted.
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
  elsif settled.action in ('password', 'code', 'sign_in_code', 'passkey') then
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

    -- Mailed sign-in codes. Anybody can ask for one, so strangers must not be able to lock the owner out, as with
    -- passwords. Guessing is hopeless: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    ('sign_in_code', 'account_cap', 100, interval '1 hour', 'refuse_new'),
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

comment on function private.begin_attempt(jsonb) is
  'Counts an attempt before it is made: { action, address, email | userId, challenged, overridden, mail, code } gives { '
  'allowed, attemptId, needsBotChallenge, repeated, mailWaitSeconds, mailPauseSeconds } or { allowed: false, reason: '
  'limited | blocked, retryAfterSeconds }. Whoever gets no answer must not try. challenged: the attempt carries a bot challenge''s '
  'token, which the identity backend checks first. overridden: a recovery override lets the email past its own limits, '
  'to those of override_password; those of the address hold. mail: the kind of mail that the attempt sends. Where '
  'mailWaitSeconds is not null, it must not be sent: another one is on its way, or its link is too young to be replaced. code: the mailed code '
  'that is tried, which only a digest is kept of. Where repeated is true, it was tried before and must not be again.';
