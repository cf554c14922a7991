-- Hands a signed-in person over to an app. The web server signs what the session has proved, and stores the signed
-- proof with the hash of a new token. The app redeems the token only once, and the proof is then checked again.

-- Stores a handoff token. facts are the result of private.required_mfa_proof, and proof is the web server's signature
-- over them. Returns false if the app has been disabled since the facts were read.
create or replace function private.mint_cross_app_token(token_hash bytea, facts jsonb, proof text) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with target as (
    -- Locks the app against being disabled at the same time. If this statement locks the app first, disabling the app
    -- also ends this token. Otherwise, this token is not stored.
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

-- Performs the first half of a redemption, which changes nothing. Returns {app, proof}, where proof is the stored proof
-- for the web server to check, or null if the token is not valid for the app. Returns {refused: unauthenticated} if the
-- app did not authenticate.
-- Definer: authenticate_app is not granted to any role, because it would reveal which names and secrets exist.
create or replace function private.cross_app_token_proof(app_name text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  return jsonb_build_object(
    'app', jsonb_build_object('id', app.id, 'name', app.name, 'kind', app.kind, 'scopes', app.scopes),
    'proof', (
      select t.proof
      from private.cross_app_tokens t
      where t.token_hash = cross_app_token_proof.token_hash
        and t.app_id = app.id
        and t.redeemed_at is null
        and t.revoked_at is null
        and t.expires_at > now()
    )
  );
end
$$;

-- Redeems a handoff token in one statement. Of many concurrent callers, one gets the token's id, and the others get
-- null. proof must be exactly the stored text that the web server checked. For definers; not granted to any role.
create or replace function private.consume_cross_app_token(token_hash bytea, app_id uuid, user_id uuid, proof text) returns uuid
  language sql volatile security invoker set search_path = ''
as $$
  -- Locks the account before the token, in the same order as a deletion of the account, to prevent deadlocks. Without
  -- this lock, the caller's inserts would lock the account after the token.
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

-- Returns the name and email that "Continue as …" shows before a token is redeemed. The web server passes the user id
-- from a proof that it has verified.
-- Definer: reads the identity backend's tables.
create or replace function private.preview_handoff(user_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object('name', p.display_name, 'email', u.email)
  from auth.users u
  left join public.profiles p on p.id = u.id
  where u.id = preview_handoff.user_id
$$;

-- Revokes all outstanding handoff tokens of a user. Returns how many it revoked. The web server takes the user from
-- verified claims.
-- Definer: locks an account in the identity backend's tables.
create or replace function private.revoke_cross_app_tokens(user_id uuid) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  revoked integer;
begin
  perform private.lock_app_credentials(revoke_cross_app_tokens.user_id);
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = revoke_cross_app_tokens.user_id
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now();
  get diagnostics revoked = row_count;
  return revoked;
end
$$;
