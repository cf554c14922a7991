-- Generated from supabase/schemas by npm run db:migration.

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create or replace function private.begin_attempt(attempt jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  of_action text := attempt ->> 'action';
  network cidr := private.address_network((attempt ->> 'address')::inet);
  account text := case
    when attempt ->> 'email' is not null then 'email:' || lower(attempt ->> 'email')
    when attempt ->> 'userId' is not null then 'user:' || (attempt ->> 'userId')::uuid
  end;
  challenged boolean := coalesce((attempt ->> 'challenged')::boolean, false);
  overridden boolean := coalesce((attempt ->> 'overridden')::boolean, false);
  mail text := attempt ->> 'mail';
  mail_wait interval;
  account_pair bytea := private.attempt_pair(account, network);
  blocked_for interval;
  proven boolean;
  bucket record;
  wait interval;
  longest interval;
  charged bytea[] := '{}';
  challenge_due boolean := false;
  repeated boolean := false;
  new_id uuid;
begin
  if of_action is null or of_action not in (
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff',
    'user_code'
  ) then
    raise exception 'there is no such action' using errcode = 'invalid_parameter_value';
  end if;
  if mail not in ('sign_up_mail', 'confirmation_mail', 'recovery_mail', 'email_change_mail') then
    raise exception 'there is no such mail' using errcode = 'invalid_parameter_value';
  end if;
  if network is null then
    raise exception 'an attempt comes from an address' using errcode = 'null_value_not_allowed';
  end if;
  select max(b.blocked_until) - now() into blocked_for
  from private.address_blocks b
  where b.address = network and b.blocked_until > now() and b.lifted_at is null;
  if blocked_for is not null then
    return private.attempt_refusal('blocked', blocked_for);
  end if;

  proven := exists (select from private.verified_addresses p where p.pair = account_pair and p.verified_until > now());
  if mail is not null then
    mail_wait := private.mail_wait(mail, lower(attempt ->> 'email'), (attempt ->> 'userId')::uuid);
  end if;
  -- In one order for everybody, so that no two wait for each other.
  for bucket in
    select of_action as action, b.*
    from private.attempt_buckets(of_action, account, network) b
    where not overridden or b.scope = 'address'
    union all
    select 'override_password', b.*
    from private.attempt_buckets('override_password', account, network) b
    where overridden
    union all
    select mail, b.*
    from private.attempt_buckets(mail, account, null) b
    where mail_wait is null
    union all
    select 'redemption', b.*
    from private.attempt_buckets('redemption', account || ' ' || (attempt ->> 'code'), null) b
    order by subject
  loop
    continue when bucket.when_empty = 'challenge' and proven;
    continue when bucket.when_empty = 'refuse_new' and (proven or challenged);
    wait := private.consume_attempt(bucket.subject, bucket.action, bucket.scope, bucket.step, bucket.per);
    if wait is null then
      charged := charged || bucket.subject;
    elsif bucket.when_empty = 'challenge' then
      challenge_due := not challenged;
    elsif bucket.when_empty = 'wait' then
      mail_wait := wait;
    elsif bucket.when_empty = 'repeat' then
      repeated := true;
    else
      longest := greatest(longest, wait);
    end if;
  end loop;
  if longest is not null then
    perform private.refund_attempts(charged);
    perform private.count_failure(of_action, network);
    return private.attempt_refusal('limited', longest);
  end if;

  insert into private.open_attempts (action, address, pair, charged, password_checks)
  values (
    of_action, network, account_pair, charged,
    -- Under an override the sign-in is made again once what blocked it is lifted.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'repeated', repeated,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;

-- Every number of the abuse controls, and its reason. `address`: whoever comes from there. `pair`: one account from one
-- address. `account`: one account from anywhere. What happens when a bucket is empty:
--   refuse      429, with the time until the next attempt
--   challenge   a bot challenge is due; without one the attempt is slowed down, never refused
--   refuse_new  429, unless the attempt carries a bot challenge or the address is proven for this account
--   wait        no mail is sent, and the answer is the same
--   repeat      the same code was tried before: it is not tried again, and the answer is that of a wrong one
create or replace function private.attempt_limits()
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

    -- Mailed sign-in codes. Anybody can ask for one, so strangers must not be able to lock the owner out. The identity
    -- backend checks no bot challenge with a code, so nothing could let the owner past a cap for the account. It needs
    -- none: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    -- One code of one account. The identity backend would start a session for each concurrent request with it.
    ('redemption', 'account', 1, interval '1 hour', 'repeat'),

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

    -- Requests of devices for a user code (RFC 8628), each a row that lives for a day.
    ('device_authorization', 'address', 60, interval '10 minutes', 'refuse'),
    -- User codes have 34 bits and live for 10 minutes (RFC 8628 section 5.1). A right one is given back.
    ('user_code', 'address', 30, interval '10 minutes', 'refuse'),
    ('user_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- At the identity backend itself, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this is empty: only under attack (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts that came in spite of a refusal: then the address is blocked.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'device_approved', 'email_changed',
    'identity_linked', 'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_used',
    'recovery_codes_created', 'session_revoked', 'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

-- Definer: clients' secrets are granted to nobody.
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
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  bucket record;
  wait interval;
  granted text[];
  candidate text;
  begun private.device_authorizations;
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
    returning d.* into begun;
    exit when begun.id is not null;
  end loop;
  if begun.id is null then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  return jsonb_build_object(
    'userCode', begun.user_code,
    'expiresInSeconds', extract(epoch from begun.expires_at - begun.created_at)::integer,
    'intervalSeconds', begun.interval_seconds
  );
end
$$;

create or replace function private.allows_device_grant(client_app_id uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from private.openid_clients c
    join private.apps a on a.id = c.app_id
    where c.app_id = client_app_id and c.allows_device_grant and a.enabled
  )
$$;

create or replace function private.device_authorization_state(request private.device_authorizations) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when request.denied_at is not null then 'denied'
    when request.approved_at is not null then 'approved'
    when request.expires_at <= now() then 'expired'
    when not private.allows_device_grant(request.app_id) then 'expired'
    else 'pending'
  end
$$;

-- Definer: registrations of clients are granted to nobody.
create or replace function private.read_device_authorization(user_code text, reader_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'userCode', d.user_code,
    -- Another person's answer is not shown.
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

-- Definer: asks the identity backend's tables what the session has proved.
create or replace function private.decide_device_authorization(
  user_code text,
  claims jsonb,
  approve boolean,
  event jsonb default null
) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  proved record;
  request private.device_authorizations;
  state text;
begin
  -- Before anything is read, so that a new password waits for this approval and ends it, or is waited for.
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(decide_device_authorization.claims);
  if proved.refused is not null then
    return proved.refused;
  end if;
  -- A session that may only replace its password approves nothing.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
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
      user_id = (proved.proof).user_id,
      -- The login outlives the sign-out of the browser or phone that approves it.
      proof = row(
        (proved.proof).user_id,
        null,
        (proved.proof).factor_id,
        (proved.proof).second_factor_second,
        (proved.proof).primary_second,
        (proved.proof).generation
      )::private.mfa_proof,
      valid_until = proved.valid_until,
      authentication = private.openid_authentication_of(
        decide_device_authorization.claims, proved.proof, proved.valid_until is not null
      )
  where d.id = request.id;
  perform private.record_security_event(event || jsonb_build_object('userId', (proved.proof).user_id));
  return 'approved';
end
$$;

-- Definer: clients' secrets and proofs are granted to nobody.
create or replace function private.redeem_device_code(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
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
  request private.device_authorizations;
  login private.openid_grants;
  locked_user uuid;
  standing text;
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
  -- Turning the client off waits for these tokens and revokes them, or is waited for. Apps are locked before accounts.
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
  -- Approved since the account was looked up, so the account is not locked yet: the next poll redeems it.
  if request.approved_at is null or locked_user is null then
    return jsonb_build_object('refused', 'authorization_pending');
  end if;

  standing := private.proof_status(request.proof);
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or request.valid_until <= now() then
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

comment on function private.allows_device_grant(uuid) is
  'Whether an enabled client is registered for the device grant now. For definers; granted to nobody.';

comment on function private.begin_device_authorization(text, bytea, bytea, text[], text[], inet, text, text) is
  'Begins a request with the first user code that is not in use: {userCode, expiresInSeconds, intervalSeconds}, or '
  '{refused: unauthenticated | unauthorized_client | scope (none of them is registered) | limited (with '
  'retryAfterSeconds) | unavailable (all codes in use)}.';

comment on function private.decide_device_authorization(text, jsonb, boolean, jsonb) is
  'A person''s answer by their session''s verified claims, once: approved (with the event in their activity) or denied; '
  'or not_found, expired, conflict (answered already), unauthenticated, mfa_required or unavailable. Whether the session '
  'is fresh is checked before.';

comment on function private.device_authorization_state(private.device_authorizations) is
  'pending, approved, denied or expired, as the person sees it. A request of a client that was turned off is expired.';

comment on function private.read_device_authorization(text, uuid) is
  'A request as a page or a phone shows it: {userCode, state: pending | approved | denied | expired, app, scopes, '
  'userAgent, address, place, createdAt, expiresAt}; null for an unknown code. To be called within the limits on guesses.';

comment on function private.redeem_device_code(text, bytea, bytea, bytea, bytea) is
  'A device''s poll, which redeems an approved request once: what private.issue_openid_tokens returns, or {refused: '
  'authorization_pending | slow_down (the interval grew by 5 s) | access_denied | expired_token | token (unknown, another '
  'client''s or redeemed) | unauthenticated | unauthorized_client | unavailable}.';

grant execute on function private.begin_device_authorization(text, bytea, bytea, text[], text[], inet, text, text) to service_role;

grant execute on function private.decide_device_authorization(text, jsonb, boolean, jsonb) to service_role;

grant execute on function private.read_device_authorization(text, uuid) to service_role;

grant execute on function private.redeem_device_code(text, bytea, bytea, bytea, bytea) to service_role;
