-- Limits on attempts to sign in, guess codes and send email. All servers and the hooks of Supabase Auth share these
-- limits. Each limit is a bucket that refills evenly over its window. A bucket is stored as one row with the time when
-- the bucket will be full.

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

-- Returns the rate limit buckets that count an attempt. Omits buckets that need an account or an address if the attempt
-- has none.
create or replace function private.attempt_buckets(of_action text, account text, network cidr)
  returns table (scope text, subject bytea, step interval, per interval, when_empty text)
  language sql stable security invoker set search_path = ''
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

-- Puts one attempt back into each bucket.
create or replace function private.refund_attempts(buckets bytea[]) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform from private.rate_limits r where r.subject = any (buckets) order by r.subject for update;
  update private.rate_limits r
  set full_at = r.full_at - l.per / l.attempts
  from private.attempt_limits() l
  where r.subject = any (buckets) and l.action = r.action and l.scope = r.scope;
end
$$;

-- Returns whether a bucket is empty now.
create or replace function private.is_bucket_empty(bucket bytea, step interval, per interval) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select from private.rate_limits r where r.subject = bucket and r.full_at + step > now() + per
  )
$$;

-- Returns the keyed digest of a subject, such as an account or an address. Attempts are counted by this digest.
create or replace function private.attempt_digest(kind text, subject text) returns bytea
  language sql stable security invoker set search_path = ''
as $$
  select extensions.hmac(convert_to(kind || ':' || subject, 'UTF8'), s.secret, 'sha256') from private.attempt_secrets s
$$;

-- Returns the digest by which attempts on one account from one address are counted. The account is `email:` followed by
-- the email in lower case, or `user:` followed by the id.
create or replace function private.attempt_pair(account text, network cidr) returns bytea
  language sql stable security invoker set search_path = ''
as $$
  select private.attempt_digest('pair', network::text || ' ' || account)
$$;

-- Returns the digest by which an account's buckets of all actions and addresses are found. The account is named as for
-- private.attempt_pair.
create or replace function private.account_digest(account text) returns bytea
  language sql stable security invoker set search_path = ''
as $$
  select private.attempt_digest('account', account)
$$;

-- Returns the network that counts as one visitor: a single IPv4 address, or the /64 network of an IPv6 address. A
-- household or server is usually assigned a /64.
create or replace function private.address_network(address inet) returns cidr
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when family(address) = 4 then network(set_masklen(address, 32))
    when address << inet '::ffff:0.0.0.0/96'
      then network(set_masklen(inet '0.0.0.0' + (set_masklen(address, 128) - inet '::ffff:0.0.0.0'), 32))
    else network(set_masklen(address, 64))
  end
$$;

-- Returns how long an IP address stays blocked at a block level. Blocks make guessing pointless, but last at most 24
-- hours because another user may get the address.
create or replace function private.block_duration(level integer) returns interval
  language sql immutable security invoker set search_path = ''
as $$
  select case level
    when 1 then interval '15 minutes'
    when 2 then interval '1 hour'
    when 3 then interval '6 hours'
    else interval '24 hours'
  end
$$;

-- Counts a failure against an address. Blocks the address after too many failures. Each further block within a week
-- lasts longer.
create or replace function private.count_failure(of_action text, network cidr) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  bucket record;
  next_level integer;
begin
  select * into strict bucket from private.attempt_buckets('failure', null, network);
  if private.consume_attempt(bucket.subject, 'failure', bucket.scope, bucket.step, bucket.per) is null then
    return;
  end if;
  -- The row is locked until commit, so only one of several concurrent failures blocks the address. The others start a
  -- new count.
  delete from private.rate_limits r where r.subject = bucket.subject;
  select coalesce(max(b.level), 0) + 1 into next_level
  from private.address_blocks b
  where b.address = network and b.lifted_at is null and b.blocked_until > now() - interval '7 days';
  insert into private.address_blocks (address, action, level, blocked_until)
  values (network, of_action, next_level, now() + private.block_duration(next_level));
end
$$;
