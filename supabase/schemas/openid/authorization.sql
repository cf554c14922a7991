-- Functions for the OpenID authorization endpoint: they describe the client's request, look up earlier consent and
-- issue the code.

-- Describes an authorization request without changing anything. Returns {client: {name, displayName, enabled,
-- requiresPkce, registration, isStale}, resource: {displayName, url} | null, redirectAllowed, scopes, consentScopes,
-- session: {authTime, acr, consented} | null}, or null for an unknown client. isStale is true if the client's metadata
-- document must be fetched again. resource is null if no enabled app has the requested resource URL. session is null
-- without claims, or if private.session_proof refuses the session of the claims. requested_claims are the names in the
-- request's parameter claims; consentScopes are the scopes and the scopes of these. session.acr is the acr that the login
-- would state, null if the session can't meet essential_acr.
-- Definer: the service role can neither read Supabase Auth's tables nor apply the rule of required MFA.
create or replace function private.open_openid_authorization(
  client_id text, redirect_uri text, scopes text[], claims jsonb default null,
  requested_claims text[] default '{}', essential_acr text[] default null, resource text default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  resource_app private.apps;
  session_check record;
  authentication private.openid_authentication;
  granted text[];
  consent_scopes text[];
begin
  select * into app from private.apps a where a.id = private.openid_client_app(open_openid_authorization.client_id);
  if not found then
    return null;
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  select * into resource_app
  from private.apps a
  where a.resource_url = open_openid_authorization.resource and a.enabled;
  granted := private.openid_scopes(app.id, open_openid_authorization.scopes, resource_app.id);
  consent_scopes := private.openid_consent_scopes(app.id, granted, open_openid_authorization.requested_claims);
  -- Treats null claims as no session.
  select * into session_check from private.session_proof(coalesce(open_openid_authorization.claims, '{}'));
  authentication := private.openid_authentication_of(
    open_openid_authorization.claims, session_check.proof, session_check.valid_until is not null
  );
  return jsonb_build_object(
    'client', jsonb_build_object(
      'name', app.name,
      'displayName', app.display_name,
      'enabled', app.enabled,
      'requiresPkce', client.requires_pkce,
      'registration', client.registration,
      'isStale', coalesce(client.metadata_expires_at <= now(), false)
    ),
    'resource', case when resource_app.id is not null then jsonb_build_object(
      'displayName', resource_app.display_name, 'url', resource_app.resource_url
    ) end,
    'redirectAllowed', private.is_openid_redirect_uri(client, open_openid_authorization.redirect_uri),
    'scopes', to_jsonb(granted),
    'consentScopes', to_jsonb(consent_scopes),
    'session', case when session_check.refused is null then jsonb_build_object(
      'authTime', floor(extract(epoch from authentication.auth_time))::bigint,
      'acr', private.stated_acr(authentication.acr, essential_acr),
      'consented', private.has_openid_consent(
        (session_check.proof).user_id, client, consent_scopes, open_openid_authorization.redirect_uri, resource_app.id
      )
    ) end
  );
end
$$;

-- Issues an authorization code, valid for 60 seconds, to the session with these verified claims. Returns {scopes} or
-- {refused: client | unauthenticated | mfa_required | unavailable | login_required | acr | consent_required | scope |
-- request}. If consents is true, the person has just agreed, and the consent is stored. If authenticated_since is given,
-- an authentication before that second is refused with login_required. If essential_acr is given, the login states one of
-- these values or is refused with acr. request_hash is the handle of a kept request, which this call answers: it is
-- refused with request if another call has answered it. id_token_claims and userinfo_claims are the names in the request's
-- parameter claims. With a resource, the tokens are for that app only; clients that registered themselves must name one.
-- Definer: the service role can neither read Supabase Auth's tables nor apply the rule of required MFA.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null,
  essential_acr text[] default null,
  id_token_claims text[] default '{}',
  userinfo_claims text[] default '{}',
  request_hash bytea default null,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  resource_id uuid;
  session_check record;
  authentication private.openid_authentication;
  granted text[];
  consent_scopes text[];
begin
  -- Locks the app. A transaction that disables the app either commits first, or waits until the authorization code is
  -- stored and then revokes the code. Apps are locked before accounts.
  select * into app
  from private.apps a
  where a.id = private.openid_client_app(issue_authorization_code.client_id) and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri)
    or (client.requires_pkce and issue_authorization_code.code_challenge is null) then
    return jsonb_build_object('refused', 'client');
  end if;
  select a.id into resource_id
  from private.apps a
  where a.resource_url = issue_authorization_code.resource and a.enabled
  for share;
  if resource_id is null and (client.registration <> 'operator' or issue_authorization_code.resource is not null) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into session_check from private.session_proof(issue_authorization_code.claims);
  if session_check.refused is not null then
    return jsonb_build_object('refused', session_check.refused);
  end if;
  -- Issues no code for a session that may only replace the password.
  if exists (select from private.password_replacements r where r.session_id = (session_check.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, session_check.proof, session_check.valid_until is not null
  );
  if authenticated_since is not null
    and (extract(epoch from authentication.auth_time) >= authenticated_since) is not true then
    return jsonb_build_object('refused', 'login_required');
  end if;
  authentication.acr := private.stated_acr(authentication.acr, essential_acr);
  if authentication.acr is null then
    return jsonb_build_object('refused', 'acr');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes, resource_id);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  consent_scopes := private.openid_consent_scopes(
    app.id, granted, issue_authorization_code.id_token_claims || issue_authorization_code.userinfo_claims
  );
  if not consents
    and not private.has_openid_consent(
      (session_check.proof).user_id, client, consent_scopes, issue_authorization_code.redirect_uri, resource_id
    ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  if request_hash is not null and not private.end_authorization_request(request_hash) then
    return jsonb_build_object('refused', 'request');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, resource_id, scopes)
    values ((session_check.proof).user_id, app.id, resource_id, consent_scopes)
    on conflict on constraint openid_consents_key do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
    perform private.add_account_event(
      (session_check.proof).user_id, 'app_connected', session_id => (session_check.proof).session_id,
      details => jsonb_build_object('app', app.display_name)
    );
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, resource_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce,
    id_token_claims, userinfo_claims, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, resource_id, (session_check.proof).user_id, session_check.proof, session_check.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    private.consented_claims(issue_authorization_code.id_token_claims, consent_scopes),
    private.consented_claims(issue_authorization_code.userinfo_claims, consent_scopes),
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

-- Returns the claims auth_time, acr and amr (RFC 8176) of a session. auth_time is the time of the latest sign-in or
-- second factor. by_approval is true if the second factor was proved on a phone or by a recovery code. Only the first
-- is an approval on another channel (mca).
create or replace function private.openid_authentication_of(claims jsonb, proof private.mfa_proof, by_approval boolean)
  returns private.openid_authentication
  language sql stable security invoker set search_path = ''
as $$
  select row(
    to_timestamp(greatest(proof.primary_second, proof.second_factor_second)),
    case when proof.second_factor_second is null then 'aal1' else 'aal2' end,
    array(
      select distinct m.value
      from (
        -- Omits the identity backend's `otp`, which may stand for an emailed link or for approval on a phone. Omits
        -- sign-ins with an identity provider, because the registry of `amr` values (RFC 8176) has no value for such
        -- sign-ins.
        select case e.entry ->> 'method' when 'password' then 'pwd' when 'passkey' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        union all
        select case e.entry ->> 'method' when 'totp' then 'otp' when 'mfa/phone' then 'sms' when 'mfa/webauthn' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        where proof.second_factor_second is not null and not by_approval
        union all
        select case when by_approval and not exists (
          select
          from private.login_challenges c
          where c.bound_session_id = proof.session_id
            and c.status = 'bound'
            and floor(extract(epoch from c.second_factor_at)) = proof.second_factor_second
            and c.approval_metadata ->> 'method' = 'recovery_code'
        ) then 'mca' end
        union all
        select case when proof.second_factor_second is not null then 'mfa' end
      ) as m (value)
      where m.value is not null
      order by m.value
    )
  )::private.openid_authentication
$$;

-- Returns the acr that a login states, or null if the session meets none of the essential values (OpenID Connect Core 1.0
-- section 5.5.1.1). Without essential values it is the session's own. Two factors also meet one, if only that is accepted.
create or replace function private.stated_acr(acr text, essential text[]) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when essential is null or acr = any (essential) then acr
    when acr = 'aal2' and 'aal1' = any (essential) then 'aal1'
  end
$$;

-- Returns whether a person has already consented to all these scopes for the client. Always false if the client is
-- public and the redirect URI leads to a program on the person's own device.
create or replace function private.has_openid_consent(
  user_id uuid, client private.openid_clients, scopes text[], redirect_uri text, resource_id uuid default null
) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select not (
      -- Asks for consent every time, because another program on the same computer can impersonate the client (RFC 8252
      -- section 8.6).
      client.is_public
      and (has_openid_consent.redirect_uri !~ '^https?://' or private.is_loopback_redirect(has_openid_consent.redirect_uri))
    )
    and exists (
      select
      from private.openid_consents c
      where c.user_id = has_openid_consent.user_id
        and c.app_id = client.app_id
        and c.resource_id is not distinct from has_openid_consent.resource_id
        and c.scopes @> has_openid_consent.scopes
    )
$$;

-- Returns whether a redirect URI is a loopback address, which leads to the browser's own device.
create or replace function private.is_loopback_redirect(uri text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select uri ~ '^https?://(localhost|([a-z0-9-]+\.)+localhost|127\.[0-9]+\.[0-9]+\.[0-9]+|\[::1\])(:[0-9]+)?(/|\?|$)'
$$;
