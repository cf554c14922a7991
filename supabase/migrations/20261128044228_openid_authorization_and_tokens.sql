-- Generated from supabase/schemas by npm run db:migration.

create or replace function private.find_app_caller(token_hash bytea, needed_scope text) returns private.app_caller
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  held record;
  caller private.app_caller;
  standing text;
begin
  select c.* into held
  from (
    select s.user_id, s.app_id, s.proof, private.effective_scopes(s) as scopes
    from private.live_app_session(find_app_caller.token_hash) s
    where s.audience = 'central'
    union all
    select (l.login).user_id, (l.login).app_id, (l.login).proof, l.scopes
    from private.live_openid_token(find_app_caller.token_hash) l
  ) as c;
  if not found then
    caller.refused := 'unauthenticated';
    return caller;
  end if;
  standing := private.proof_status(held.proof);
  caller.scopes := held.scopes;
  caller.refused := case
    when standing = 'over' then 'unauthenticated'
    when standing <> 'good' then standing
    when not needed_scope = any (caller.scopes) then 'insufficient_scope'
  end;
  caller.user_id := held.user_id;
  caller.app_id := held.app_id;
  return caller;
end
$$;

create or replace function private.session_proof(claims jsonb)
  returns table (refused text, proof private.mfa_proof, valid_until timestamptz)
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  facts record;
  -- Whichever second factor is the later one: of the session itself, or of the approval that is bound to it.
  own_second bigint;
  by_approval boolean;
begin
  select * into facts from private.session_facts(claims);
  if not found or facts.banned or facts.deleted then
    refused := 'unauthenticated';
  elsif private.required_mfa_state(facts.app_metadata) = 'malformed' then
    refused := 'unavailable';
  elsif not private.satisfies_required_mfa(
    facts.app_metadata, claims, facts.has_verified_factor, facts.session_factor_verified, facts.approval_second,
    floor(extract(epoch from now()))::bigint
  ) then
    refused := 'mfa_required';
  else
    own_second := case
      when facts.session_factor_verified and claims ->> 'aal' = 'aal2'
        then private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
    end;
    by_approval := coalesce(facts.approval_second > own_second, facts.approval_second is not null);
    proof := row(
      facts.user_id,
      facts.session_id,
      case when by_approval then facts.approval_factor_id when own_second is not null then facts.session_factor_id end,
      case when by_approval then facts.approval_second else own_second end,
      private.latest_amr_second(claims -> 'amr', private.primary_methods()),
      private.required_mfa_generation(facts.app_metadata)
    )::private.mfa_proof;
    valid_until := case when by_approval then facts.approval_valid_until end;
  end if;
  return next;
end
$$;

-- Definer: asks the identity backend's tables and the rule, which the service role may not.
create or replace function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  proved record;
  app private.apps;
begin
  select * into proved from private.session_proof(claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  select * into app from private.apps a where a.name = target_app and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'user', (proved.proof).user_id,
    'target', app.name,
    'targetId', app.id,
    'session', (proved.proof).session_id,
    'factor', (proved.proof).factor_id,
    'secondFactorAt', (proved.proof).second_factor_second,
    'primaryAt', (proved.proof).primary_second,
    'generation', (proved.proof).generation,
    'validUntil', proved.valid_until,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;

-- Definer: asks the identity backend's tables and the rule of required MFA, which the service role may not.
create or replace function private.open_openid_authorization(
  client_id text, redirect_uri text, scopes text[], claims jsonb default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  granted text[];
begin
  select * into app from private.apps a where a.name = open_openid_authorization.client_id and a.kind = 'openid';
  if not found then
    return null;
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  granted := private.openid_scopes(app.id, open_openid_authorization.scopes);
  if open_openid_authorization.claims is not null then
    select * into proved from private.session_proof(open_openid_authorization.claims);
  end if;
  return jsonb_build_object(
    'client', jsonb_build_object('name', app.name, 'displayName', app.display_name, 'enabled', app.enabled),
    'redirectAllowed', private.is_openid_redirect_uri(client, open_openid_authorization.redirect_uri),
    'scopes', to_jsonb(granted),
    'session', case when open_openid_authorization.claims is not null and proved.refused is null then jsonb_build_object(
      'authTime', floor(extract(epoch from (
        private.openid_authentication_of(open_openid_authorization.claims, proved.proof, proved.valid_until is not null)
      ).auth_time))::bigint,
      'consented', private.has_openid_consent(
        (proved.proof).user_id, client, granted, open_openid_authorization.redirect_uri
      )
    ) end
  );
end
$$;

-- Definer: as open_openid_authorization.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  authentication private.openid_authentication;
  granted text[];
begin
  -- Held, so that turning the app off waits for this code and revokes it, or is waited for. Apps are locked before
  -- accounts.
  select * into app
  from private.apps a
  where a.name = issue_authorization_code.client_id and a.kind = 'openid' and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(issue_authorization_code.claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  -- A session that may only replace its password gets nothing else.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, proved.proof, proved.valid_until is not null
  );
  if extract(epoch from authentication.auth_time) < issue_authorization_code.authenticated_since then
    return jsonb_build_object('refused', 'login_required');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, scopes)
    values ((proved.proof).user_id, app.id, granted)
    on conflict (user_id, app_id) do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
  elsif not private.has_openid_consent(
    (proved.proof).user_id, client, granted, issue_authorization_code.redirect_uri
  ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, (proved.proof).user_id, proved.proof, proved.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

create or replace function private.openid_authentication_of(claims jsonb, proof private.mfa_proof, by_approval boolean)
  returns private.openid_authentication
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select row(
    to_timestamp(greatest(proof.primary_second, proof.second_factor_second)),
    case when proof.second_factor_second is null then 'aal1' else 'aal2' end,
    array(
      select distinct m.value
      from (
        -- The identity backend's `otp` is a mailed code, a mailed link or a phone's approval, and the registry has no
        -- value for an identity provider.
        select case e.entry ->> 'method' when 'password' then 'pwd' when 'passkey' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        union all
        select case e.entry ->> 'method' when 'totp' then 'otp' when 'mfa/phone' then 'sms' when 'mfa/webauthn' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        where proof.second_factor_second is not null and not by_approval
        union all
        select case when by_approval then 'mca' end
        union all
        select case when proof.second_factor_second is not null then 'mfa' end
      ) as m (value)
      where m.value is not null
      order by m.value
    )
  )::private.openid_authentication
$$;

create or replace function private.openid_scopes(app_id uuid, requested text[]) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array(
    select unnest(requested)
    intersect
    select unnest(
      array['openid', 'offline_access']
      || case when 'profile' = any (a.scopes) then array['profile', 'email'] else '{}' end
      || array(select unnest(a.scopes) intersect select unnest(array['workspaces:read', 'workspaces:write', 'studio:read']))
    )
    from private.apps a
    where a.id = openid_scopes.app_id
    order by 1
  )
$$;

create or replace function private.loopback_without_port(uri text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case
    when uri ~ '^http://(127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/|$)'
      then regexp_replace(uri, '^(http://(127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?', '\1')
  end
$$;

create or replace function private.is_loopback_redirect(uri text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select uri ~ '^https?://(localhost|([a-z0-9-]+\.)+localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/|\?|$)'
$$;

create or replace function private.authenticate_openid_client(client_id text, secret_hash bytea)
  returns table (id uuid, name text, scopes text[], is_public boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.id, a.name, a.scopes, c.is_public
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.name = authenticate_openid_client.client_id
    and a.kind = 'openid'
    and a.enabled
    and case
      when c.is_public then authenticate_openid_client.secret_hash is null
      else exists (
        select
        from private.app_secrets s
        where s.app_id = a.id
          and s.secret_hash = authenticate_openid_client.secret_hash
          and (s.expires_at is null or s.expires_at > now())
      )
    end
$$;

create or replace function private.issue_openid_tokens(login private.openid_grants, access_hash bytea, refresh_hash bytea)
  returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  opened private.openid_grants;
begin
  insert into private.openid_grants as g (source_id, app_id, user_id, proof, authentication, scopes, nonce, ends_at)
  values (
    login.source_id, login.app_id, login.user_id, login.proof, login.authentication, login.scopes, login.nonce,
    least(now() + interval '30 days', login.ends_at)
  )
  returning g.* into opened;
  return private.add_openid_tokens(opened, opened.scopes, issue_openid_tokens.access_hash, issue_openid_tokens.refresh_hash)
    || jsonb_build_object('nonce', opened.nonce);
end
$$;

create or replace function private.describe_openid_tokens(login private.openid_grants, token private.openid_tokens)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'sid', login.id,
    'sub', login.user_id,
    'clientId', a.name,
    'scopes', to_jsonb(token.scopes),
    'authTime', floor(extract(epoch from (login.authentication).auth_time))::bigint,
    'acr', (login.authentication).acr,
    'amr', to_jsonb((login.authentication).amr),
    'issuedAt', floor(extract(epoch from token.created_at))::bigint,
    'expiresAt', floor(extract(epoch from token.access_expires_at))::bigint,
    'refreshable', token.refresh_hash is not null
  )
  from private.apps a
  where a.id = login.app_id
$$;

-- Definer: clients' secrets and proofs are granted to nobody.
create or replace function private.redeem_authorization_code(
  client_id text,
  secret_hash bytea,
  code_hash bytea,
  redirect_uri text,
  code_challenge text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  code private.authorization_codes;
  login private.openid_grants;
  standing text;
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
    -- RFC 6749 section 4.1.2: one of the two users is not the client.
    update private.openid_grants g set revoked_at = now() where g.source_id = code.id and g.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  if code.revoked_at is not null
    or code.expires_at <= now()
    or code.valid_until <= now()
    or code.redirect_uri <> coalesce(redeem_authorization_code.redirect_uri, '')
    or code.code_challenge <> coalesce(redeem_authorization_code.code_challenge, '') then
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(code.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  update private.authorization_codes c set redeemed_at = now() where c.id = code.id;
  login.source_id := code.id;
  login.app_id := code.app_id;
  login.user_id := code.user_id;
  login.proof := code.proof;
  login.authentication := code.authentication;
  login.scopes := code.scopes;
  login.nonce := code.nonce;
  login.ends_at := code.valid_until;
  return private.issue_openid_tokens(login, redeem_authorization_code.access_hash, redeem_authorization_code.refresh_hash);
end
$$;

-- Definer: as redeem_authorization_code.
create or replace function private.refresh_openid_tokens(
  client_id text,
  secret_hash bytea,
  refresh_hash bytea,
  scopes text[],
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  login private.openid_grants;
  token private.openid_tokens;
  granted text[];
  standing text;
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
    -- Used again after its grace: one of the two users is not the client (RFC 9700 section 4.14.2).
    update private.openid_grants g set revoked_at = now() where g.id = login.id;
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(login.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  granted := private.openid_scopes(client.id, login.scopes);
  if not coalesce(refresh_openid_tokens.scopes, granted) <@ granted or cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if token.refreshed_at is not null then
    -- A concurrent caller within the grace receives the same successor.
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

create or replace function private.live_openid_token(access_hash bytea)
  returns table (login private.openid_grants, token private.openid_tokens, scopes text[])
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select g, t, private.openid_scopes(a.id, t.scopes)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  join private.apps a on a.id = g.app_id and a.enabled
  where t.access_hash = live_openid_token.access_hash
    and t.access_expires_at > now()
    and g.revoked_at is null
    and g.ends_at > now()
$$;

-- Definer: proofs are granted to nobody, and the identity backend's tables are not the service role's.
create or replace function private.read_openid_userinfo(access_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  held record;
  standing text;
begin
  select (l.login).user_id, (l.login).proof, l.scopes into held
  from private.live_openid_token(read_openid_userinfo.access_hash) l;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(held.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if not 'openid' = any (held.scopes) then
    return jsonb_build_object('refused', 'scope');
  end if;
  return (
    select jsonb_strip_nulls(
      jsonb_build_object('sub', u.id)
      || case when 'profile' = any (held.scopes)
        then jsonb_build_object('name', p.display_name, 'picture', p.avatar_url)
        else '{}'
      end
      || case when 'email' = any (held.scopes) and u.email is not null
        then jsonb_build_object('email', u.email, 'email_verified', u.email_confirmed_at is not null)
        else '{}'
      end
    )
    from auth.users u
    left join public.profiles p on p.id = u.id
    where u.id = held.user_id
  );
end
$$;

-- Definer: as read_openid_userinfo.
create or replace function private.introspect_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  client record;
  held record;
  standing text;
begin
  select a.id, a.is_public into client
  from private.authenticate_openid_client(introspect_openid_token.client_id, introspect_openid_token.secret_hash) a;
  if not found or client.is_public then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select f.* into held
  from (
    select l.login, l.token, l.scopes, (l.token).access_expires_at as expires_at, true as is_access
    from private.live_openid_token(introspect_openid_token.token_hash) l
    union all
    select g, t, private.openid_scopes(g.app_id, g.scopes), g.ends_at, false
    from private.openid_tokens t
    join private.openid_grants g on g.id = t.grant_id
    where t.refresh_hash = introspect_openid_token.token_hash
      and t.refreshed_at is null
      and g.revoked_at is null
      and g.ends_at > now()
  ) as f
  where (f.login).app_id = client.id;
  if not found then
    return jsonb_build_object('active', false);
  end if;
  standing := private.proof_status((held.login).proof);
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  return jsonb_build_object(
    'active', true,
    'isAccess', held.is_access,
    'sub', (held.login).user_id,
    'sid', (held.login).id,
    'scopes', to_jsonb(held.scopes),
    'issuedAt', floor(extract(epoch from (held.token).created_at))::bigint,
    'expiresAt', floor(extract(epoch from held.expires_at))::bigint
  );
end
$$;

-- Definer: as redeem_authorization_code.
create or replace function private.revoke_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
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
    and g.revoked_at is null;
  return true;
end
$$;

create or replace function private.is_openid_redirect_uri(client private.openid_clients, uri text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select uri is not null and (
    uri = any (client.redirect_uris)
    or (
      client.is_public
      and private.loopback_without_port(uri) in (
        select private.loopback_without_port(r.uri) from unnest(client.redirect_uris) as r (uri)
      )
    )
  )
$$;

create or replace function private.has_openid_consent(
  user_id uuid, client private.openid_clients, scopes text[], redirect_uri text
) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select not (
      -- Another program of the same computer can pretend to be the client (RFC 8252 section 8.6).
      client.is_public
      and (has_openid_consent.redirect_uri !~ '^https?://' or private.is_loopback_redirect(has_openid_consent.redirect_uri))
    )
    and exists (
      select
      from private.openid_consents c
      where c.user_id = has_openid_consent.user_id
        and c.app_id = client.app_id
        and c.scopes @> has_openid_consent.scopes
    )
$$;

create or replace function private.add_openid_tokens(
  login private.openid_grants, scopes text[], access_hash bytea, refresh_hash bytea
) returns jsonb
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.openid_tokens as t (grant_id, scopes, access_hash, access_expires_at, refresh_hash)
  values (
    login.id,
    add_openid_tokens.scopes,
    add_openid_tokens.access_hash,
    least(now() + interval '1 hour', login.ends_at),
    -- The only scope that stands for a refresh token (OpenID Connect Core 1.0 section 11).
    case when 'offline_access' = any (login.scopes) then add_openid_tokens.refresh_hash end
  )
  returning private.describe_openid_tokens(login, t)
$$;

comment on function private.find_app_caller(bytea, text) is
  'The caller by the token of a central session or an OpenID client''s access token: refused is unauthenticated, '
  'mfa_required, unavailable, insufficient_scope or null. For definers; granted to nobody.';

comment on function private.add_openid_tokens(private.openid_grants, text[], bytea, bytea) is
  'Issues the next tokens of a login and describes them. For definers; granted to nobody.';

comment on function private.authenticate_openid_client(text, bytea) is
  'The enabled OpenID client that an id and a secret''s SHA-256 stand for; a public client has no secret. No row for '
  'unknown, wrong, expired or disabled. For definers; granted to nobody.';

comment on function private.describe_openid_tokens(private.openid_grants, private.openid_tokens) is
  'What a token response and its ID token say: {sid, sub, clientId, scopes, authTime, acr, amr, issuedAt, expiresAt, '
  'refreshable}, times in seconds since 1970.';

comment on function private.has_openid_consent(uuid, private.openid_clients, text[], text) is
  'Whether a person has granted the client all these scopes before. Never for a public client on the person''s own device.';

comment on function private.introspect_openid_token(text, bytea, bytea) is
  'What a token is worth now, to the confidential client that holds it (RFC 7662): {active, isAccess, sub, sid, scopes, '
  'issuedAt, expiresAt}, {active: false}, or {refused: unauthenticated | unavailable}.';

comment on function private.is_loopback_redirect(text) is 'Whether a redirect URI leads to the device of the browser.';

comment on function private.is_openid_redirect_uri(private.openid_clients, text) is
  'Whether a redirect URI is registered for the client, as an exact string. On a loopback address, a public client may use '
  'any port (RFC 8252 section 7.3).';

comment on function private.issue_authorization_code(jsonb, text, text, text[], text, text, bytea, boolean, bigint) is
  'Issues a code for 60 seconds to the session of verified claims: {scopes}, or {refused: client | unauthenticated | '
  'mfa_required | unavailable | login_required | consent_required | scope}. consents: the person has agreed just now, which '
  'is remembered. authenticated_since: the second since which they must have signed in or confirmed it.';

comment on function private.issue_openid_tokens(private.openid_grants, bytea, bytea) is
  'Opens a login and issues its first tokens. login.ends_at may be null, which means 30 days; id and created_at are '
  'ignored. Returns what private.add_openid_tokens returns, with the nonce. For definers; granted to nobody.';

comment on function private.live_openid_token(bytea) is
  'An access token, its login, and the scopes that the registration still allows. Does not check the login''s proof. For '
  'definers; granted to nobody.';

comment on function private.loopback_without_port(text) is 'A loopback redirect URI without its port; null for any other URI.';

comment on function private.open_openid_authorization(text, text, text[], jsonb) is
  'What an authorization request meets, changing nothing: {client: {name, displayName, enabled}, redirectAllowed, scopes, '
  'session: {authTime, consented} | null}, or null for an unknown client. session is null without claims, and where their '
  'session could not be issued a code.';

comment on function private.openid_authentication_of(jsonb, private.mfa_proof, boolean) is
  'The claims auth_time, acr and amr (RFC 8176) of a session: its latest sign-in or second factor. by_approval: the second '
  'factor was proved on a phone.';

comment on function private.openid_scopes(uuid, text[]) is
  'Of the requested scopes those that an OpenID client is registered for; all others are dropped.';

comment on function private.read_openid_userinfo(bytea) is
  'The claims that an access token opens (OpenID Connect Core 1.0 section 5.3), or {refused: token | scope | unavailable}.';

comment on function private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea) is
  'Redeems an authorization code once: what private.issue_openid_tokens returns, or {refused: unauthenticated | token | '
  'unavailable}. code_challenge is what the verifier hashes to. A second use revokes the login of the first.';

comment on function private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea) is
  'Uses a refresh token once for its successor: what private.add_openid_tokens returns, the same for all callers within '
  '30 seconds; a later use revokes the login. Or {refused: unauthenticated | token | scope | unavailable}. scopes may '
  'narrow those of the login for this access token. The successor is derived from the token by a key of the web server.';

comment on function private.revoke_openid_token(text, bytea, bytea) is
  'Revokes an access token, or with a refresh token its login; does nothing for a token of another client (RFC 7009). '
  'False if the client did not authenticate.';

comment on function private.session_proof(jsonb) is
  'What the session of verified claims has proved, as one row: refused is unauthenticated, mfa_required, unavailable or '
  'null. valid_until is when a mobile approval that the proof rests on expires, else null. For definers; granted to nobody.';

grant execute on function private.introspect_openid_token(text, bytea, bytea) to service_role;

grant execute on function private.issue_authorization_code(jsonb, text, text, text[], text, text, bytea, boolean, bigint) to service_role;

grant execute on function private.open_openid_authorization(text, text, text[], jsonb) to service_role;

grant execute on function private.read_openid_userinfo(bytea) to service_role;

grant execute on function private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea) to service_role;

grant execute on function private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea) to service_role;

grant execute on function private.revoke_openid_token(text, bytea, bytea) to service_role;
