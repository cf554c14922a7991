-- The device authorization grant (RFC 8628). A device without a browser sends a request. A person approves the request
-- with the user code, in a browser or in the mobile app. The device's next poll then redeems the device code.

-- Stores a device's request under the first of the given user codes that is not in use. Returns {userCode,
-- expiresInSeconds, intervalSeconds} or {refused: unauthenticated | unauthorized_client | scope (no requested scope is
-- registered) | limited (with retryAfterSeconds) | unavailable (all given codes are in use)}.
-- Definer: calls private.authenticate_openid_client, which is not granted to any role.
create or replace function private.begin_device_authorization(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
  user_codes text[],
  scopes text[],
  address inet,
  user_agent text,
  place text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  bucket record;
  wait interval;
  granted text[];
  candidate text;
  new_authorization private.device_authorizations;
begin
  select a.id into client
  from private.authenticate_openid_client(begin_device_authorization.client_id, begin_device_authorization.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  if not private.allows_device_grant(client.id) then
    return jsonb_build_object('refused', 'unauthorized_client');
  end if;
  granted := private.openid_scopes(client.id, begin_device_authorization.scopes);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  select b.* into strict bucket
  from private.attempt_buckets('device_authorization', null, private.address_network(begin_device_authorization.address)) b;
  wait := private.consume_attempt(bucket.subject, 'device_authorization', bucket.scope, bucket.step, bucket.per);
  if wait is not null then
    return jsonb_build_object('refused', 'limited', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer);
  end if;

  foreach candidate in array user_codes loop
    insert into private.device_authorizations as d
      (device_code_hash, user_code, app_id, scopes, ip, user_agent, place, expires_at)
    values (
      begin_device_authorization.device_code_hash,
      candidate,
      client.id,
      granted,
      begin_device_authorization.address,
      nullif(begin_device_authorization.user_agent, ''),
      case when begin_device_authorization.place is not null
        then jsonb_build_object('name', begin_device_authorization.place)
      end,
      now() + interval '10 minutes'
    )
    on conflict (user_code) do nothing
    returning d.* into new_authorization;
    exit when new_authorization.id is not null;
  end loop;
  if new_authorization.id is null then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  return jsonb_build_object(
    'userCode', new_authorization.user_code,
    'expiresInSeconds', extract(epoch from new_authorization.expires_at - new_authorization.created_at)::integer,
    'intervalSeconds', new_authorization.interval_seconds
  );
end
$$;

-- Returns whether an app is an enabled OpenID client that is currently registered for the device grant. Not granted to
-- any role, so only security definer functions can call it.
create or replace function private.allows_device_grant(client_app_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from private.openid_clients c
    join private.apps a on a.id = c.app_id
    where c.app_id = client_app_id and c.allows_device_grant and a.enabled
  )
$$;

-- Returns the state of a request for display: pending, approved, denied or expired. If the client is disabled, its
-- pending requests are shown as expired.
create or replace function private.device_authorization_state(request private.device_authorizations) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when request.denied_at is not null then 'denied'
    when request.approved_at is not null then 'approved'
    when request.expires_at <= now() then 'expired'
    when not private.allows_device_grant(request.app_id) then 'expired'
    else 'pending'
  end
$$;

-- Returns a device authorization request, as a page or a phone shows it: {userCode, state: pending | approved | denied
-- | expired, app, scopes, userAgent, address, place, createdAt, expiresAt}. Returns null for an unknown code. Callers
-- must limit the number of guesses.
-- Definer: calls functions for client registrations, which are not granted to any role.
create or replace function private.read_device_authorization(user_code text, reader_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'userCode', d.user_code,
    -- Another person's decision is not shown.
    'state', case when d.user_id <> reader_id then 'expired' else private.device_authorization_state(d) end,
    'app', jsonb_build_object('name', a.name, 'displayName', a.display_name),
    'scopes', to_jsonb(d.scopes),
    'userAgent', coalesce(d.user_agent, ''),
    'address', host(d.ip),
    'place', d.place ->> 'name',
    'createdAt', d.created_at,
    'expiresAt', d.expires_at
  )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id
  where d.user_code = read_device_authorization.user_code
$$;

-- Returns the result of private.read_device_authorization, and completes the attempt at the code: a wrong code counts as
-- failed.
create or replace function private.find_device_authorization(user_code text, reader_id uuid, attempt_id uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  found_request jsonb := private.read_device_authorization(
    find_device_authorization.user_code, find_device_authorization.reader_id
  );
begin
  perform private.complete_attempt(
    find_device_authorization.attempt_id, case when found_request is null then 'failed' else 'void' end
  );
  return found_request;
end
$$;

-- Records a person's decision about a device's request. Returns approved, denied, not_found, expired, conflict (already
-- decided), unauthenticated, mfa_required or unavailable. An approval also adds an event to the person's activity.
-- Callers must first check that the session is fresh.
-- Definer: reads the proofs of the session from Supabase Auth's tables.
create or replace function private.decide_device_authorization(
  user_code text,
  claims jsonb,
  approve boolean,
  event jsonb default null
) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  session_check record;
  request private.device_authorizations;
  state text;
begin
  -- Locks the account before reading anything, so that a concurrent change of the password either waits for this
  -- approval and revokes it, or completes first.
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into session_check from private.session_proof(decide_device_authorization.claims);
  if session_check.refused is not null then
    return session_check.refused;
  end if;
  -- Sessions that may only replace the account's password can't decide device requests.
  if exists (select from private.password_replacements r where r.session_id = (session_check.proof).session_id) then
    return 'unauthenticated';
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.user_code = decide_device_authorization.user_code
  for no key update;
  if not found then
    return 'not_found';
  end if;
  state := private.device_authorization_state(request);
  if state <> 'pending' then
    return case state when 'expired' then 'expired' else 'conflict' end;
  end if;
  if not approve then
    update private.device_authorizations d set denied_at = now() where d.id = request.id;
    return 'denied';
  end if;
  update private.device_authorizations d
  set approved_at = now(),
      user_id = (session_check.proof).user_id,
      -- The login survives the sign-out of the browser or phone that approves it.
      proof = row(
        (session_check.proof).user_id,
        null,
        (session_check.proof).factor_id,
        (session_check.proof).second_factor_second,
        (session_check.proof).primary_second,
        (session_check.proof).generation
      )::private.mfa_proof,
      valid_until = session_check.valid_until,
      authentication = private.openid_authentication_of(
        decide_device_authorization.claims, session_check.proof, session_check.valid_until is not null
      )
  where d.id = request.id;
  perform private.record_security_event(
    event || jsonb_build_object('userId', (session_check.proof).user_id, 'targetId', request.id)
  );
  return 'approved';
end
$$;

-- Handles a device's poll. Redeems an approved request only once and returns the same result as
-- private.issue_openid_tokens. Otherwise returns {refused: authorization_pending | slow_down (the interval has grown by
-- 5 s) | access_denied | expired_token | token (the code is unknown, already redeemed or another client's) |
-- unauthenticated | unauthorized_client | unavailable}.
-- Definer: calls functions for client secrets and proofs, which are not granted to any role.
create or replace function private.redeem_device_code(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  request private.device_authorizations;
  login private.openid_grants;
  locked_user uuid;
  proof_status text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_device_code.client_id, redeem_device_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select d.user_id into locked_user
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  -- Locks the client's app before the account. A concurrent change that disables the client either waits and then
  -- revokes these tokens, or is complete before this call continues.
  perform from private.apps a where a.id = client.id for share;
  if locked_user is not null then
    perform private.lock_app_credentials(locked_user);
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id
  for no key update;
  if not found or request.redeemed_at is not null then
    return jsonb_build_object('refused', 'token');
  end if;
  if not private.allows_device_grant(client.id) then
    return jsonb_build_object('refused', 'unauthorized_client');
  end if;
  if request.denied_at is not null then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  if request.expires_at <= now() then
    return jsonb_build_object('refused', 'expired_token');
  end if;
  if request.polled_at + make_interval(secs => request.interval_seconds) > now() then
    update private.device_authorizations d
    set polled_at = now(), interval_seconds = least(60, d.interval_seconds + 5)
    where d.id = request.id;
    return jsonb_build_object('refused', 'slow_down');
  end if;
  update private.device_authorizations d set polled_at = now() where d.id = request.id;
  -- If the request was approved after locked_user was read, this call has not locked the account's credentials. The
  -- next poll then redeems the request.
  if request.approved_at is null or locked_user is null then
    return jsonb_build_object('refused', 'authorization_pending');
  end if;

  perform private.hold_proof(request.proof);
  proof_status := private.proof_status(request.proof);
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' or request.valid_until <= now() then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  update private.device_authorizations d set redeemed_at = now() where d.id = request.id;
  login.source_id := request.id;
  login.app_id := request.app_id;
  login.user_id := request.user_id;
  login.proof := request.proof;
  login.authentication := request.authentication;
  login.scopes := request.scopes;
  login.ends_at := request.valid_until;
  return private.issue_openid_tokens(login, redeem_device_code.access_hash, redeem_device_code.refresh_hash);
end
$$;
