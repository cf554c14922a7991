-- Issues, refreshes and reads the tokens of OpenID clients. A login (private.openid_grants) stores the facts that its
-- tokens share. Every use of a token checks that the login's proof is still valid.

-- Opens a login and issues its first tokens. If login.ends_at is null, the login lasts 30 days. login.id and
-- login.created_at are ignored. Returns the same result as private.add_openid_tokens, with the nonce added. For
-- definers; not granted to any role.
create or replace function private.issue_openid_tokens(login private.openid_grants, access_hash bytea, refresh_hash bytea)
  returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  opened private.openid_grants;
begin
  -- A client that registered itself is kept while people use it. A login ends within 30 days.
  update private.openid_clients c
  set expires_at = now() + interval '60 days'
  where c.app_id = login.app_id and c.expires_at < now() + interval '59 days';
  insert into private.openid_grants as g (
    source_id, app_id, resource_id, user_id, proof, authentication, scopes, nonce, id_token_claims, userinfo_claims, ends_at
  )
  values (
    login.source_id, login.app_id, login.resource_id, login.user_id, login.proof, login.authentication, login.scopes,
    login.nonce, coalesce(login.id_token_claims, '{}'), coalesce(login.userinfo_claims, '{}'),
    least(now() + interval '30 days', login.ends_at)
  )
  returning g.* into opened;
  return private.add_openid_tokens(opened, opened.scopes, issue_openid_tokens.access_hash, issue_openid_tokens.refresh_hash)
    || jsonb_build_object('nonce', opened.nonce);
end
$$;

-- Issues the next tokens of a login and returns their description from private.describe_openid_tokens. For definers;
-- not granted to any role.
create or replace function private.add_openid_tokens(
  login private.openid_grants, scopes text[], access_hash bytea, refresh_hash bytea
) returns jsonb
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.openid_tokens as t (grant_id, scopes, access_hash, access_expires_at, refresh_hash)
  values (
    login.id,
    add_openid_tokens.scopes,
    add_openid_tokens.access_hash,
    least(now() + case when login.resource_id is null then interval '1 hour' else interval '10 minutes' end, login.ends_at),
    -- Otherwise the only scope that allows a refresh token (OpenID Connect Core 1.0 section 11). Resources don't ask
    -- for that scope (MCP 2026-07-28, Refresh Tokens), and their access tokens are short.
    case when login.resource_id is not null or 'offline_access' = any (login.scopes)
      then add_openid_tokens.refresh_hash
    end
  )
  returning private.describe_openid_tokens(login, t)
$$;

-- Returns the contents of a token response and its ID token: {sid, sub, clientId, resource, scopes, authTime, acr, amr,
-- claims, issuedAt, expiresAt, refreshable}. resource is the audience of the access token, or null if it is for the
-- platform. claims are the ID token's claims about the person. Times are in seconds since 1970.
create or replace function private.describe_openid_tokens(login private.openid_grants, token private.openid_tokens)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'sid', login.id,
    'sub', login.user_id,
    'clientId', private.openid_client_id(login.app_id),
    'resource', (select r.resource_url from private.apps r where r.id = login.resource_id),
    'scopes', to_jsonb(token.scopes),
    'authTime', floor(extract(epoch from (login.authentication).auth_time))::bigint,
    'acr', (login.authentication).acr,
    'amr', to_jsonb((login.authentication).amr),
    'claims', private.openid_claims(
      login.user_id,
      login.app_id,
      case when c.claims_in_id_token then private.openid_scopes(login.app_id, token.scopes) else '{}' end,
      login.id_token_claims
    ),
    'issuedAt', floor(extract(epoch from token.created_at))::bigint,
    'expiresAt', floor(extract(epoch from token.access_expires_at))::bigint,
    'refreshable', token.refresh_hash is not null
  )
  from private.openid_clients c
  where c.app_id = login.app_id
$$;

-- Returns why tokens of a login must not be issued, or null: target if the client asks for another resource than the
-- person agreed to (RFC 8707 section 2), token if the resource is disabled or no longer registered.
create or replace function private.resource_refusal(resource_id uuid, requested text) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when resource_id is not null and r.id is null then 'token'
    when requested is distinct from r.resource_url and requested is not null then 'target'
  end
  from (values (null)) as one
  left join private.apps r on r.id = resource_id and r.enabled and r.resource_url is not null
$$;

-- Redeems an authorization code only once. Returns the same result as private.issue_openid_tokens, or {refused:
-- unauthenticated | token | target | unavailable}. code_challenge is the hash of the code verifier, null without one. A
-- second use is refused and revokes the login that the first use opened.
-- Definer: calls functions that check client secrets and proofs. No role may call those functions.
create or replace function private.redeem_authorization_code(
  client_id text,
  secret_hash bytea,
  code_hash bytea,
  redirect_uri text,
  code_challenge text,
  access_hash bytea,
  refresh_hash bytea,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  code private.authorization_codes;
  login private.openid_grants;
  proof_status text;
  refused text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_authorization_code.client_id, redeem_authorization_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(c.user_id)
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id;
  select * into code
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id
  for update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if code.redeemed_at is not null then
    -- RFC 6749 section 4.1.2: a second use means that a party other than the client has the code.
    update private.openid_grants g set revoked_at = now() where g.source_id = code.id and g.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  if code.revoked_at is not null
    or code.expires_at <= now()
    or code.valid_until <= now()
    or code.redirect_uri <> coalesce(redeem_authorization_code.redirect_uri, '')
    -- A verifier without a challenge is refused too: an attacker may have removed the challenge (RFC 9700 section 4.8.2).
    or code.code_challenge is distinct from redeem_authorization_code.code_challenge then
    return jsonb_build_object('refused', 'token');
  end if;
  refused := private.resource_refusal(code.resource_id, redeem_authorization_code.resource);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  perform private.hold_proof(code.proof);
  proof_status := private.proof_status(code.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  update private.authorization_codes c set redeemed_at = now() where c.id = code.id;
  login.source_id := code.id;
  login.app_id := code.app_id;
  login.resource_id := code.resource_id;
  login.user_id := code.user_id;
  login.proof := code.proof;
  login.authentication := code.authentication;
  login.scopes := code.scopes;
  login.nonce := code.nonce;
  login.id_token_claims := code.id_token_claims;
  login.userinfo_claims := code.userinfo_claims;
  login.ends_at := code.valid_until;
  return private.issue_openid_tokens(login, redeem_authorization_code.access_hash, redeem_authorization_code.refresh_hash);
end
$$;

-- Exchanges a refresh token for the next tokens. Returns the same result as private.add_openid_tokens, or {refused:
-- unauthenticated | token | target | scope | unavailable}. Within 30 seconds, repeated use returns the same result; later reuse
-- revokes the login. scopes may limit the new access token to some of the login's scopes. The web server derives the
-- next refresh token from the current one with a key.
-- Definer: calls functions that check client secrets and proofs. No role may call those functions.
create or replace function private.refresh_openid_tokens(
  client_id text,
  secret_hash bytea,
  refresh_hash bytea,
  scopes text[],
  access_hash bytea,
  successor_hash bytea,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  login private.openid_grants;
  token private.openid_tokens;
  granted text[];
  proof_status text;
  refused text;
begin
  select a.id into client
  from private.authenticate_openid_client(refresh_openid_tokens.client_id, refresh_openid_tokens.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where t.refresh_hash = refresh_openid_tokens.refresh_hash and g.app_id = client.id;
  select t.* into token from private.openid_tokens t where t.refresh_hash = refresh_openid_tokens.refresh_hash for update;
  select g.* into login
  from private.openid_grants g
  where g.id = token.grant_id and g.app_id = client.id and g.revoked_at is null and g.ends_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Reuse after the grace period means that a party other than the client has the token (RFC 9700 section 4.14.2).
    update private.openid_grants g set revoked_at = now() where g.id = login.id;
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status(login.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  refused := private.resource_refusal(login.resource_id, refresh_openid_tokens.resource);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  granted := private.openid_scopes(client.id, login.scopes, login.resource_id);
  if not coalesce(refresh_openid_tokens.scopes, granted) <@ granted or cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if token.refreshed_at is not null then
    -- A concurrent caller within the grace period receives the same successor.
    return coalesce(
      (
        select private.describe_openid_tokens(login, t)
        from private.openid_tokens t
        where t.access_hash = refresh_openid_tokens.access_hash and t.refresh_hash = successor_hash
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update private.openid_tokens t set refreshed_at = now() where t.id = token.id;
  return private.add_openid_tokens(
    login, coalesce(refresh_openid_tokens.scopes, granted), refresh_openid_tokens.access_hash, successor_hash
  );
end
$$;

-- Returns a valid access token for the platform with its login and the scopes that the client's registration still
-- allows. Never returns a token for another resource. Does not check the login's proof. Called only by security definer
-- functions; not granted to any role.
create or replace function private.live_openid_token(access_hash bytea)
  returns table (login private.openid_grants, token private.openid_tokens, scopes text[])
  language sql stable security invoker set search_path = ''
as $$
  select l.login, l.token, l.scopes
  from private.live_token_of_any_audience(live_openid_token.access_hash) l
  where (l.login).resource_id is null
$$;

-- Returns a valid access token of any audience. Only for introspection: everything else needs the
-- audience checked. Does not check the login's proof; not granted to any role.
create or replace function private.live_token_of_any_audience(access_hash bytea)
  returns table (login private.openid_grants, token private.openid_tokens, scopes text[])
  language sql stable security invoker set search_path = ''
as $$
  select g, t, private.openid_scopes(a.id, t.scopes, g.resource_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  join private.apps a on a.id = g.app_id and a.enabled
  where t.access_hash = live_token_of_any_audience.access_hash
    and t.access_expires_at > now()
    and g.revoked_at is null
    and g.ends_at > now()
    and private.resource_refusal(g.resource_id, null) is null
$$;

-- Returns the claims about a person that an access token allows its holder to read (OpenID Connect Core 1.0 section
-- 5.3), or {refused: token | scope | unavailable}.
-- Definer: calls functions for proofs, which are not granted to any role, and reads Supabase Auth's tables, which the
-- service role cannot read.
create or replace function private.read_openid_userinfo(access_hash bytea) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  live_token record;
  proof_status text;
begin
  select l.login, l.scopes into live_token
  from private.live_openid_token(read_openid_userinfo.access_hash) l;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status((live_token.login).proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if not 'openid' = any (live_token.scopes) then
    return jsonb_build_object('refused', 'scope');
  end if;
  return jsonb_build_object('sub', (live_token.login).user_id) || private.openid_claims(
    (live_token.login).user_id, (live_token.login).app_id, live_token.scopes, (live_token.login).userinfo_claims
  );
end
$$;

-- Returns the current state of a token to the confidential client that it was issued to (RFC 7662), or of an access
-- token to the app that is its audience, which authenticates with its own name and secret. Returns {active, isAccess,
-- sub, sid, clientId, resource, scopes, issuedAt, expiresAt}, {active: false} or {refused: unauthenticated |
-- unavailable}. For the audience, adds the claims that the scopes allow (private.openid_claims).
-- Definer: calls functions that check client secrets and proofs. No role may call those functions.
create or replace function private.introspect_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  client_app_id uuid;
  audience_id uuid;
  live_token record;
  proof_status text;
begin
  select a.id into client_app_id
  from private.authenticate_openid_client(introspect_openid_token.client_id, introspect_openid_token.secret_hash) a
  where not a.is_public;
  if not found then
    select a.id into audience_id
    from private.authenticate_app(introspect_openid_token.client_id, introspect_openid_token.secret_hash) a
    where a.resource_url is not null;
    if not found then
      return jsonb_build_object('refused', 'unauthenticated');
    end if;
  end if;
  select f.* into live_token
  from (
    select l.login, l.token, l.scopes, (l.token).access_expires_at as expires_at, true as is_access
    from private.live_token_of_any_audience(introspect_openid_token.token_hash) l
    union all
    select g, t, private.openid_scopes(g.app_id, g.scopes, g.resource_id), g.ends_at, false
    from private.openid_tokens t
    join private.openid_grants g on g.id = t.grant_id
    where t.refresh_hash = introspect_openid_token.token_hash
      and t.refreshed_at is null
      and g.revoked_at is null
      and g.ends_at > now()
  ) as f
  where (f.login).app_id = client_app_id or (f.is_access and (f.login).resource_id = audience_id);
  if not found then
    return jsonb_build_object('active', false);
  end if;
  proof_status := private.proof_status((live_token.login).proof);
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  return jsonb_build_object(
    'active', true,
    'isAccess', live_token.is_access,
    'sub', (live_token.login).user_id,
    'sid', (live_token.login).id,
    'clientId', private.openid_client_id((live_token.login).app_id),
    'resource', (select r.resource_url from private.apps r where r.id = (live_token.login).resource_id),
    'scopes', to_jsonb(live_token.scopes),
    'issuedAt', floor(extract(epoch from (live_token.token).created_at))::bigint,
    'expiresAt', floor(extract(epoch from live_token.expires_at))::bigint
  ) || case when audience_id is not null
    then private.openid_claims((live_token.login).user_id, (live_token.login).app_id, live_token.scopes, '{}')
    else '{}'
  end;
end
$$;

-- Revokes an access token or, if given a refresh token, the whole login (RFC 7009). Does nothing for another client's
-- token. Returns false if the client did not authenticate.
-- Definer: calls functions for client secrets, which are not granted to any role.
create or replace function private.revoke_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  revoked_id uuid;
begin
  select a.id into client
  from private.authenticate_openid_client(revoke_openid_token.client_id, revoke_openid_token.secret_hash) a;
  if not found then
    return false;
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where revoke_openid_token.token_hash in (t.access_hash, t.refresh_hash) and g.app_id = client.id;
  update private.openid_tokens t
  set access_expires_at = now()
  from private.openid_grants g
  where t.access_hash = revoke_openid_token.token_hash
    and t.access_expires_at > now()
    and g.id = t.grant_id
    and g.app_id = client.id;
  update private.openid_grants g
  set revoked_at = now()
  from private.openid_tokens t
  where t.refresh_hash = revoke_openid_token.token_hash
    and t.grant_id = g.id
    and g.app_id = client.id
    and g.revoked_at is null
  returning g.id into revoked_id;
  perform private.withdraw_logout(revoked_id);
  return true;
end
$$;
