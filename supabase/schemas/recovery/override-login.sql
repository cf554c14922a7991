-- The second check of a password under a recovery override, and what the console shows about an email address.

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
