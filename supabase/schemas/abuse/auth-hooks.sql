-- Applies the limits on attempts to callers that use Supabase Auth's API directly with the publishable key. Supabase
-- Auth calls these hooks after it has checked the password or code, and before it responds.

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

-- Returns whether private.record_authenticator_added would refuse to verify a factor that an app enrolled.
create or replace function private.is_refused_authenticator(subject_id uuid, factor_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
      select from auth.mfa_factors f
      where f.id = is_refused_authenticator.factor_id and f.user_id = subject_id and f.status <> 'verified'
    )
    and exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
    and not exists (
      select from private.announced_additions a
      where a.target = is_refused_authenticator.factor_id::text and a.user_id = subject_id and a.expires_at > now()
    )
$$;

-- Returns the network of the address in a hook's event; null if the backend passes no valid address.
create or replace function private.hook_network(event jsonb) returns cidr
  language sql stable security invoker set search_path = ''
as $$
  select private.address_network((case when pg_input_is_valid(a.text, 'inet') then a.text end)::inet)
  from (select event #>> '{metadata,ip_address}' as text) as a
$$;

-- Returns the answer with which a hook rejects an attempt.
create or replace function private.hook_rejection() returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select '{"decision": "reject", "message": "Too many attempts. Wait a few minutes, then try again."}'::jsonb
$$;
