-- The keys that sign ID tokens and logout tokens. The web server encrypts the private keys before it stores them here.

-- Returns the published keys, newest first: [{kid, publicJwk, sealedPrivateJwk, sealingKeyId, signs}]. signs is true
-- for at most one key.
create or replace function private.read_signing_keys() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'kid', k.kid,
      'publicJwk', k.public_jwk,
      'sealedPrivateJwk', k.sealed_private_jwk,
      'sealingKeyId', k.sealing_key_id,
      'signs', k.kid is not distinct from private.current_signing_key()
    )
    order by k.signs_from desc, k.kid
  ), '[]')
  from private.signing_keys k
  where k.retires_at is null or k.retires_at > now()
$$;

-- Returns the kid of the key that signs now; null if no key exists yet.
create or replace function private.current_signing_key() returns text
  language sql stable security invoker set search_path = ''
as $$
  select k.kid
  from private.signing_keys k
  where k.signs_from <= clock_timestamp()
  order by k.signs_from desc, k.kid
  limit 1
$$;

-- Adds a key that signs from now on. `replaces` names the current key, which the caller could not decrypt. Null adds
-- the first key. Earlier keys stay published for one day. Returns false if another caller has added a key first.
create or replace function private.replace_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text, replaces text default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  from_time timestamptz;
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if private.current_signing_key() is distinct from replaces then
    return false;
  end if;
  from_time := clock_timestamp();
  -- Deletes keys whose signing period is yet to begin. Such a key would later replace the new key, and the server may
  -- be unable to decrypt it.
  delete from private.signing_keys k where k.signs_from > from_time;
  -- Keeps only the five newest keys. Otherwise, servers that do not share a secret could add keys without limit by
  -- replacing each other's key.
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

-- Returns whether to publish the next key, which is due 89 days after the newest key has begun to sign. False if no key
-- exists yet.
create or replace function private.signing_key_is_due() returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(max(k.signs_from) <= now() - interval '89 days', false) from private.signing_keys k
$$;

-- Publishes the next key, which begins to sign tomorrow. The previous key retires 31 days after that, so that the ID
-- token of a live login can always be verified at sign-out. Returns false if no key is due.
create or replace function private.add_next_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  takes_over_at timestamptz := now() + interval '1 day';
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if not private.signing_key_is_due() then
    return false;
  end if;
  update private.signing_keys k
  -- Keeps the key a day longer than a login lasts, because a sign-out verifies the login's ID token.
  set retires_at = takes_over_at + interval '31 days'
  where k.retires_at is null;
  insert into private.signing_keys (kid, public_jwk, sealed_private_jwk, sealing_key_id, signs_from)
  values (
    add_next_signing_key.kid, add_next_signing_key.public_jwk, add_next_signing_key.sealed_private_jwk,
    add_next_signing_key.sealing_key_id, takes_over_at
  );
  return true;
end
$$;

-- Stores a private key that was encrypted again with the current secret. Returns false if another caller has already
-- replaced the stored key.
create or replace function private.reseal_signing_key(
  kid text, sealed_private_jwk text, sealing_key_id text, expected_sealing_key_id text
) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with resealed as (
    update private.signing_keys k
    set sealed_private_jwk = reseal_signing_key.sealed_private_jwk, sealing_key_id = reseal_signing_key.sealing_key_id
    where k.kid = reseal_signing_key.kid and k.sealing_key_id = reseal_signing_key.expected_sealing_key_id
    returning 1
  )
  select exists (select from resealed)
$$;

-- Deletes the keys that are no longer published. Returns the number of deleted keys.
create or replace function private.delete_retired_signing_keys() returns integer
  language sql volatile security invoker set search_path = ''
as $$
  with deleted as (
    delete from private.signing_keys k where k.retires_at <= now() returning 1
  )
  select count(*)::integer from deleted
$$;
