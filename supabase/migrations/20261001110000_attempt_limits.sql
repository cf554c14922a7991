-- How often somebody may try: to sign in, to guess a code, to make us send a mail. Counted here, so that every server
-- and the identity backend's own hooks count together, by the database's clock.
--
-- Each limit is a bucket of so many attempts that fills up again evenly over its window. A bucket is one row with one
-- time in it, when it will be full again; a row whose time has passed is a full bucket, and needs no row.

create table private.attempt_secret (
  id boolean primary key default true check (id),
  secret bytea not null default extensions.gen_random_bytes(32) check (octet_length(secret) = 32)
);
comment on table private.attempt_secret is
  'The key of the digests under which attempts are counted, so that a leaked row names no email and no address.';
insert into private.attempt_secret default values;
select private.protect_table('private.attempt_secret');

create table private.rate_limits (
  subject bytea primary key check (octet_length(subject) = 32),
  action text not null,
  scope text not null,
  full_at timestamptz not null
);
comment on table private.rate_limits is
  'Buckets of attempts that are not full. Subject is a keyed digest of action, scope, and account, address or both; no '
  'email is kept here.';
comment on column private.rate_limits.full_at is 'When the bucket is full again, and the row of no more use.';
create index rate_limits_full_at_idx on private.rate_limits (full_at);
select private.protect_table('private.rate_limits');

create table private.address_blocks (
  id uuid primary key default gen_random_uuid(),
  address cidr not null,
  action text not null,
  level smallint not null check (level >= 1),
  blocked_at timestamptz not null default now(),
  blocked_until timestamptz not null check (blocked_until > blocked_at),
  lifted_at timestamptz,
  lifted_by uuid references auth.users (id) on delete set null,
  lift_reason text,
  constraint lifted_with_a_reason check ((lifted_at is null) = (lift_reason is null))
);
comment on table private.address_blocks is
  'Networks that failed so often that they may try nothing for a while, one row a block. Each block within a week of the '
  'last is longer; one that was lifted counts no more.';
comment on column private.address_blocks.address is 'One IPv4 address, or the /64 of an IPv6 one.';
comment on column private.address_blocks.action is 'What was being tried when it became too much.';
create index address_blocks_address_idx on private.address_blocks (address, blocked_until desc);
create index address_blocks_blocked_until_idx on private.address_blocks (blocked_until);
create index address_blocks_lifted_by_idx on private.address_blocks (lifted_by);
select private.protect_table('private.address_blocks');

create table private.open_attempts (
  id uuid primary key default gen_random_uuid(),
  action text not null,
  address cidr not null,
  pair bytea,
  charged bytea[] not null,
  password_checks smallint not null check (password_checks >= 0),
  expires_at timestamptz not null default now() + interval '2 minutes'
);
comment on table private.open_attempts is
  'Attempts under way at our own routes: what was counted for them, to be given back where they succeed, and how many '
  'password checks of the identity backend they stand for. One that is never settled stays counted.';
comment on column private.open_attempts.pair is 'Digest of account and address together.';
create index open_attempts_pair_idx on private.open_attempts (pair) where password_checks > 0;
create index open_attempts_expires_at_idx on private.open_attempts (expires_at);
select private.protect_table('private.open_attempts');

create table private.proven_addresses (
  pair bytea primary key check (octet_length(pair) = 32),
  proven_until timestamptz not null
);
comment on table private.proven_addresses is
  'Account and address, as one digest, where the password was right not long ago. Who attacks an account from elsewhere '
  'does not lock its owner out there.';
create index proven_addresses_proven_until_idx on private.proven_addresses (proven_until);
select private.protect_table('private.proven_addresses');

create function private.mail_pause() returns interval
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
revoke execute on function private.mail_pause() from public, anon, authenticated;

-- Every number of the abuse controls, and its reason. `address`: whoever comes from there. `pair`: one account from one
-- address. `account`: one account from anywhere. What happens when a bucket is empty:
--   refuse      429, with the time until the next attempt
--   challenge   a bot challenge is due; without one the attempt is slowed down, never refused
--   refuse_new  429, unless the attempt carries a bot challenge or the address is proven for this account
--   wait        no mail is sent, and the answer is the same
create function private.attempt_limits()
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
revoke execute on function private.attempt_limits() from public, anon, authenticated;

create function private.block_length(level integer) returns interval
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
comment on function private.block_length(integer) is
  'How long an address is blocked: long enough to make guessing pointless, short enough for whoever gets it next.';
revoke execute on function private.block_length(integer) from public, anon, authenticated;

create function private.address_network(address inet) returns cidr
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
revoke execute on function private.address_network(inet) from public, anon, authenticated;

create function private.attempt_digest(kind text, subject text) returns bytea
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select extensions.hmac(convert_to(kind || ':' || subject, 'UTF8'), s.secret, 'sha256') from private.attempt_secret s
$$;
comment on function private.attempt_digest(text, text) is 'The keyed digest under which something is counted.';
revoke execute on function private.attempt_digest(text, text) from public, anon, authenticated;

create function private.attempt_pair(account text, network cidr) returns bytea
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.attempt_digest('pair', network::text || ' ' || account)
$$;
comment on function private.attempt_pair(text, cidr) is
  'One account from one address, as a digest. The account is `email:…` in lower case, or `user:…` with its id.';
revoke execute on function private.attempt_pair(text, cidr) from public, anon, authenticated;

create function private.attempt_buckets(of_action text, account text, network cidr)
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
revoke execute on function private.attempt_buckets(text, text, cidr) from public, anon, authenticated;

create function private.take_attempt(bucket bytea, of_action text, of_scope text, step interval, per interval)
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
comment on function private.take_attempt(bytea, text, text, interval, interval) is
  'Takes one attempt from a bucket: null, or how long until there is one. An empty bucket is left as it was.';
revoke execute on function private.take_attempt(bytea, text, text, interval, interval) from public, anon, authenticated;
