-- Generated from supabase/schemas by npm run db:migration.

create or replace function private.add_next_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  takes_over_at timestamptz := now() + interval '1 day';
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if not private.signing_key_is_due() then
    return false;
  end if;
  update private.signing_keys k
  -- A day longer than a login, whose ID token identifies it at sign-out.
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

comment on function private.add_next_signing_key(text, jsonb, text, text) is
  'Publishes the next key, which signs from tomorrow; the previous one retires 31 days later, so that the ID token of a '
  'live login always verifies as a hint. Returns false if no key is due.';
