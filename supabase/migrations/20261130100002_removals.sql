-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

-- Unused since 0.2.0.
drop function ai.begin_run(jsonb);

-- Unused since 0.2.0.
drop function private.claim_outgoing_mails(integer);

drop function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb);

-- Unused since 0.2.0.
drop function private.list_provider_costs_by_app_session(bytea, uuid, timestamp with time zone, timestamp with time zone, jsonb, integer);

-- Unused since 0.2.0.
drop function private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer);

-- Unused since 0.2.0.
drop function private.reconcile_costs_by_app_session(bytea, uuid, timestamp with time zone, timestamp with time zone, text[], integer);

drop function ai.read_budgets(uuid, uuid, text[], integer, text[]);

drop function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer);

-- Counts an attempt before it is made. Takes { action, address, email | userId, challenged, allowOverride, mail,
-- code }. Returns { allowed, attemptId, needsBotChallenge, overrideId, repeated, mailWaitSeconds, mailPauseSeconds }
-- or { allowed: false, reason: limited | blocked, retryAfterSeconds }. A caller that receives no answer must not make
-- the attempt. challenged is true if the attempt carries a bot challenge's token, which the identity backend checks
-- first. allowOverride is true if the email's recovery override applies: the limits of override_password then replace
-- the email's own limits, but the address's limits still apply. overrideId is that override, or null. mail is the kind
-- of email that the attempt sends. If mailWaitSeconds is not null, the email must not be sent, because another email of
-- its kind is being sent or has a link that is too recent to be replaced. code is the mailed code that is tried; only
-- its digest is stored. If repeated is true, the code was tried before and must not be tried again.
-- Definer: every role, even the service role, may change buckets only through begin_attempt and complete_attempt.
create or replace function private.begin_attempt(attempt jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  of_action text := attempt ->> 'action';
  network cidr := private.address_network((attempt ->> 'address')::inet);
  account text := case
    when attempt ->> 'email' is not null then 'email:' || lower(attempt ->> 'email')
    when attempt ->> 'userId' is not null then 'user:' || (attempt ->> 'userId')::uuid
  end;
  challenged boolean := coalesce((attempt ->> 'challenged')::boolean, false);
  override_id uuid;
  overridden boolean;
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
    'user_code', 'client_registration', 'client_document'
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

  if (attempt ->> 'allowOverride')::boolean then
    override_id := private.active_login_override(attempt ->> 'email');
  end if;
  overridden := override_id is not null;
  proven := exists (select from private.verified_addresses p where p.pair = account_pair and p.verified_until > now());
  if mail is not null then
    mail_wait := private.mail_wait(mail, lower(attempt ->> 'email'), (attempt ->> 'userId')::uuid);
  end if;
  -- All callers take buckets in the same order, which prevents deadlocks.
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
    -- Under a recovery override, the server may lift a block and then check the password a second time.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'overrideId', override_id,
    'repeated', repeated,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;

-- Adds an event to an account's activity, or completes an event that a trigger added. Takes { userId, kind, method,
-- sessionId, targetId, ip, userAgent, device, place, details }. Returns { id, createdAt }, or null if the account doesn't
-- exist. Emails about the event can be sent from then on.
-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  subject uuid := (event ->> 'userId')::uuid;
  session uuid := (event ->> 'sessionId')::uuid;
  owner_email text;
  recorded public.security_events;
begin
  select u.email into owner_email from auth.users u where u.id = subject and u.deleted_at is null;
  if not found then
    return null;
  end if;

  -- If a trigger has already recorded this event, adds the address and the device of the request.
  update public.security_events s
  set kind = event ->> 'kind',
      method = coalesce(event ->> 'method', s.method),
      session_id = coalesce(session, s.session_id),
      ip = (event ->> 'ip')::inet,
      user_agent = event ->> 'userAgent',
      device = event ->> 'device',
      place = event ->> 'place',
      details = s.details || coalesce(event -> 'details', '{}')
  where s.id = (
    select e.id
    from public.security_events e
    where e.user_id = subject
      and e.created_at > now() - interval '2 minutes'
      and e.device is null
      and case event ->> 'kind'
        when 'sign_in' then e.kind = 'sign_in' and e.session_id = session
        -- The backend records a recovery as a sign-in.
        when 'account_recovered' then e.kind = 'sign_in' and e.session_id = session
        when 'sign_out' then e.kind = 'sign_out' and e.session_id = session
        else e.kind = event ->> 'kind'
      end
    order by e.created_at desc, e.id
    limit 1
    for update
  )
  returning s.* into recorded;
  if not found then
    insert into public.security_events (
      user_id, kind, method, session_id, target_id, ip, user_agent, device, place, details
    )
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'targetId')::uuid,
      (event ->> 'ip')::inet,
      event ->> 'userAgent',
      event ->> 'device',
      event ->> 'place',
      coalesce(event -> 'details', '{}')
    )
    returning * into recorded;
  end if;

  if recorded.kind = 'sign_in' and (
    not private.is_new_place(recorded)
    -- The email about the recovery covers this sign-in.
    or exists (
      select from public.security_events r where r.session_id = recorded.session_id and r.kind = 'account_recovered'
    )
  ) then
    delete from private.outgoing_mails m where m.event_id = recorded.id;
  elsif (recorded.kind = 'sign_in' or private.is_told_by_mail(recorded.kind))
    and not exists (select from private.outgoing_mails m where m.event_id = recorded.id) then
    perform private.queue_event_mail(recorded, owner_email);
  end if;

  -- The event is complete, so its emails can be sent.
  update private.outgoing_mails m set next_attempt_at = now() where m.event_id = recorded.id and m.attempts = 1;

  return jsonb_build_object('id', recorded.id, 'createdAt', recorded.created_at);
end
$$;

-- Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The step
-- edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has secretHash (the
-- text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client allows only enable,
-- disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is outdated; last is
-- private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace }.
create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  old_app jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: an admin who saw another state of the app must decide again.
  old_app := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if old_app ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if app.kind = 'openid' and step not in ('enable', 'disable', 'rotate') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes')),
        backchannel_logout_uri = change ->> 'logoutUrl'
      where a.id = app.id;
      delete from private.app_origins o
      where o.app_id = app.id and o.origin not in (select jsonb_array_elements_text(change -> 'origins'));
      insert into private.app_origins (origin, app_id)
      select n, app.id from jsonb_array_elements_text(change -> 'origins') as n
      where not exists (select from private.app_origins o where o.app_id = app.id and o.origin = n);
    exception
      when unique_violation then
        return jsonb_build_object('refused', 'taken');
      when check_violation then
        return jsonb_build_object('refused', 'invalid');
    end;
  elsif step in ('enable', 'disable') then
    update private.apps a set enabled = step = 'enable' where a.id = app.id;
  elsif step = 'link' then
    if app.kind <> 'external' or not exists (
      select from public.workspaces w where w.id = linked and w.deleted_at is null
    ) then
      return jsonb_build_object('refused', 'no_workspace');
    end if;
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, linked, (change ->> 'actor')::uuid)
    on conflict do nothing;
  elsif step = 'unlink' then
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = linked;
  elsif step = 'rotate' then
    if overlap is null or overlap not between interval '0' and interval '24 hours'
      or exists (select from private.openid_clients c where c.app_id = app.id and c.is_public)
    then
      return jsonb_build_object('refused', 'invalid');
    end if;
    delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
    -- Never extends the life of a secret.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'before', old_app - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

-- Edits a model, or adds a disabled model if version is null. The change is { actor, model, version
-- (private.model_version), displayName, ownedBy, studioDefault, contextWindow, outputLimit, defaultOutputLimit, voices, reason, requestId,
-- ip }. A new model also has kind. An edit also has isDefault and defaultOfKind. defaultOfKind is the id of the default
-- model that the admin saw, or null. Returns {} or { refused: forbidden | not_found | id_taken | invalid |
-- default_changed | conflict (with last) }.
create or replace function private.save_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  saved_model ai.models;
  old_default ai.models;
  all_voices text[] := nullif(array(select jsonb_array_elements_text(change -> 'voices')), '{}');
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'version' is not null then
    select * into model from ai.models m where m.id = change ->> 'model' for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model.id) <> change ->> 'version' then
      return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
    end if;
  end if;

  begin
    if model.id is null then
      insert into ai.models (
        id, kind, display_name, owned_by, enabled, studio_default, context_window, output_limit, default_output_limit, voices
      )
      values (
        change ->> 'model', change ->> 'kind', change ->> 'displayName', change ->> 'ownedBy', false,
        (change ->> 'studioDefault')::boolean, (change ->> 'contextWindow')::integer, (change ->> 'outputLimit')::integer,
        (change ->> 'defaultOutputLimit')::integer, all_voices
      )
      on conflict (id) do nothing
      returning * into saved_model;
      if not found then
        return jsonb_build_object('refused', 'id_taken');
      end if;
    else
      -- Unsets only the default that the admin saw. If another model has become the default, the update below violates
      -- the unique index.
      if (change ->> 'isDefault')::boolean then
        update ai.models m set is_default = false
        where m.id = change ->> 'defaultOfKind' and m.id <> model.id and m.kind = model.kind and m.is_default
        returning * into old_default;
      end if;
      update ai.models m
      set
        display_name = change ->> 'displayName',
        owned_by = change ->> 'ownedBy',
        studio_default = (change ->> 'studioDefault')::boolean,
        context_window = (change ->> 'contextWindow')::integer,
        output_limit = (change ->> 'outputLimit')::integer,
        default_output_limit = (change ->> 'defaultOutputLimit')::integer,
        voices = all_voices,
        is_default = (change ->> 'isDefault')::boolean
      where m.id = model.id
      returning * into saved_model;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'default_changed');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when model.id is null then 'model.add' else 'model.edit' end,
    'target', 'model ' || saved_model.id,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(saved_model)
  ));
  if old_default.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || old_default.id,
      'before', jsonb_build_object('is_default', true),
      'after', jsonb_build_object('is_default', false)
    ));
  end if;
  return '{}';
end
$$;

-- Admits or refuses calls independently. Reserves the maximum cost of each admitted call and opens its run. Takes {"calls": [call], "wait_ms": number, "lock_wait_ms": number}.
-- wait_ms is how long the gateway waits for the result. lock_wait_ms limits the wait for each lock; without it, the
-- limit of the role applies. Returns a JSON array in the order of the calls: each run with its routes and prices, or
-- {refused: code, …}.
-- Atomic: if the function raises an error, it reserves nothing and opens no run. Raises cardinality_violation if two
-- calls that fit have the same idempotency key; the gateway then sends them apart.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential, never from an id in the
-- call.
create or replace function ai.begin_runs(calls jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  lock_limit text := set_config(
    'lock_timeout', coalesce(calls ->> 'lock_wait_ms', current_setting('lock_timeout')), true
  );
begin
  return '[' || array_to_string(
    ai.begin_calls(calls -> 'calls', (calls ->> 'wait_ms')::integer * interval '1 millisecond'), ','
  ) || ']';
end
$$;

-- Returns the highest cost that a provider call can have, over all routes and all price tiers that the input can reach.
-- Assumes the whole output limit, no cached input, the higher of the input and cache-write prices, and all request fees
-- that the call may cause. hour_writes is whether the request caches its input for an hour.
create or replace function ai.maximum_cost(
  routes jsonb, text_tokens bigint, image_tokens bigint, audio_tokens bigint, output_tokens bigint, hour_writes boolean,
  service_tier text, fee_requests bigint, is_speech boolean
) returns table (usd numeric)
  language sql immutable security invoker parallel safe
as $$
  select
    max(
      (
        text_tokens * greatest(
          (tier ->> 'input')::numeric, (tier ->> 'cache_write')::numeric,
          case when hour_writes then (tier ->> 'cache_write_1h')::numeric end
        )
        + image_tokens * greatest((tier ->> 'input')::numeric, (tier ->> 'image_input')::numeric)
        + audio_tokens * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
        + output_tokens * coalesce(case when is_speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
      * greatest(1, (route -> 'tier_multipliers' ->> service_tier)::numeric)
      + coalesce((tier ->> 'request_fee')::numeric, 0)
    ) filter (
      where (tier ->> 'min_input_tokens')::bigint <= text_tokens + image_tokens + audio_tokens
        and coalesce(tier ->> 'service_tier', 'default') in ('default', service_tier)
    )
    + greatest(coalesce(fee_requests, 0) - 1, 0) * coalesce(max((tier ->> 'request_fee')::numeric), 0)
  from jsonb_array_elements(routes) as route
  cross join jsonb_array_elements(route -> 'prices') as tier
$$;

-- Removes an authenticator app from an account and notifies the owner (private.record_security_event). If no
-- authenticator is left, also deletes the account's recovery codes. Returns { outcome: deleted | last_of_required (the
-- account must keep one) | insufficient_aal (the session is not at AAL2) | not_found }.
-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.delete_authenticator(
  subject_id uuid, actor_session_id uuid, target_id uuid, event jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  target auth.mfa_factors;
  last boolean;
begin
  -- Locks the account, as every change of its MFA policy does, so that concurrent changes run one after another.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- Like the identity backend, requires a session in which an authenticator of the account was used.
  if not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;
  last := not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.id <> target_id and f.status = 'verified'
  );
  if last and private.required_mfa_state(account.raw_app_meta_data) <> 'optional' then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  perform private.delete_auth_factor(subject_id, target_id);
  if last then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  perform private.record_security_event(event);
  return '{"outcome": "deleted"}';
end
$$;

-- Returns the facts that must be current on every request, read in one statement: { alive, sessionId, notAfter, aal,
-- hasVerifiedFactor, mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned,
-- deleted }, policy: { state, required, satisfied, byApproval } }. Returns { alive: false } if the session has ended.
-- policy.state is optional, required, recovery_in_progress or malformed. Until 0.4.0: servers of release 0.2.0
-- require policy.byApproval.
-- Definer: the caller cannot read Supabase Auth's tables. A session must learn its state even if its second factor is
-- missing or its account is closed, so required MFA does not apply here. Returns facts only about the caller's own
-- token.
create or replace function public.session_state() returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  claims jsonb := private.caller_claims();
begin
  return coalesce((
    select jsonb_build_object(
      'alive', true,
      'sessionId', f.session_id,
      'notAfter', f.not_after,
      'aal', claims ->> 'aal',
      'user', jsonb_build_object(
        'id', f.user_id,
        'email', f.email,
        'displayName', p.display_name,
        'avatarUrl', p.avatar_url,
        'banned', f.banned,
        'deleted', f.deleted
      ),
      'hasVerifiedFactor', f.has_verified_factor,
      'policy', jsonb_build_object(
        'state', m.state,
        'required', m.state <> 'optional',
        'satisfied', not f.banned and not f.deleted and v.satisfied,
        'byApproval', false
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second,
      floor(extract(epoch from now()))::bigint
    ) as v (satisfied)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

-- Registers a browser's device with its first account, which becomes active. Takes { deviceId, nextHash (the hex hash of
-- its secret), userId, sessionId, sealed, keyId, tag }. Returns { status: kept }. A known device uses
-- private.add_account.
create or replace function private.sign_in_account(sign_in jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  subject_id constant uuid := (sign_in ->> 'userId')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  insert into private.account_devices (id, secret_hash, active_user_id, active_session_id)
  values (
    (sign_in ->> 'deviceId')::uuid, decode(sign_in ->> 'nextHash', 'hex'), subject_id, (sign_in ->> 'sessionId')::uuid
  );
  insert into private.account_vault_entries (device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    (sign_in ->> 'deviceId')::uuid, subject_id, (sign_in ->> 'sessionId')::uuid,
    sign_in ->> 'sealed', sign_in ->> 'keyId', sign_in ->> 'tag'
  );
  return '{"status": "kept"}';
end
$$;

-- Returns whether a proof shows that our server saw the approval's cookie within the last minute. The proof is
-- "<second>.<HMAC-SHA-256 in hex>". The HMAC is computed with the approval's key over "<session id> <second>".
create or replace function private.is_approval_proven(approval private.login_challenges, proof text) returns boolean
  language sql stable security invoker
as $$
  select case
    when proof ~ '^[0-9]{10}[.][0-9a-f]{64}$' then
      left(proof, 10)::bigint
        between floor(extract(epoch from now()))::bigint - 60 and floor(extract(epoch from now()))::bigint + 60
      -- Hashes are compared, so that the timing reveals nothing about the expected value.
      and sha256(decode(right(proof, 64), 'hex')) = sha256(extensions.hmac(
        convert_to((approval).bound_session_id || ' ' || left(proof, 10), 'UTF8'), (approval).proof_key, 'sha256'
      ))
    else false
  end
$$;

-- Returns a page of a workspace's budgets and their use in the current UTC month, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy. Sorts budgets by scope, labels by their text, and other
-- subjects by when they were created. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[], page_size integer, scopes text[]
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy');
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            -- greatest(null, 0) is 0, so a missing limit needs its own case.
            when visible and (p.budget).limit_usd is not null then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.month = this_month::date and a.threshold > 0 and a.posted_at is not null
              and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select s.*, b as budget, x.spent, o.position
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace and b.limit_usd is not null
        cross join lateral (select case when b.period_start < this_month::date then 0 else b.spent_usd end as spent) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or (b.limit_usd is not null and x.spent > 0))
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns a page of a workspace's runs, newest first, for a member with use_ai_studio: { outcome: listed, runs,
-- unknown, continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature,
-- status, keyId, appId, memberId, provider, entityId, requestId. unknown names a filter with a value that does not
-- exist. With scan_limit, a filter without an index examines at most that many runs. In this case continueBefore is the
-- position to continue from, or null if no older run can match.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_runs(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit);
begin
  return page.answer || case when page.runs is null then '{}' else jsonb_build_object('runs', (
    select coalesce(jsonb_agg(
      -- Calls ai.run_pricing_facts directly. A call inside ai.run_summary would make Postgres plan ai.run_pricing_facts
      -- again for each run.
      ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible) order by r.created_at desc, r.id desc
    ), '[]')
    from unnest(page.runs) r
  )) end;
end
$$;

-- Returns a time up to which all runs are visible, less the time for which changes of a run are not recorded. Returns
-- -infinity while a transaction from before the last fence is still open. Otherwise sets a new fence.
create or replace function ai.advance_usage_fence() returns timestamptz
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  snapshot pg_snapshot := pg_current_snapshot();
  progress ai.usage_progress;
begin
  insert into ai.usage_progress (summed_until, detailed_from) values ('-infinity', '-infinity') on conflict do nothing;
  select * into strict progress from ai.usage_progress;
  -- The clock was set back since the last fence, so runs before the mark may have changed without a record. Another
  -- roll-up whose transaction began later may be a few seconds ahead.
  if progress.marked_at > now() + interval '10 seconds' then
    update ai.usage_progress p
    set summed_until = least(p.summed_until, date_trunc('day', now() - interval '24 hours', 'UTC'))
    where p.singleton;
  end if;
  -- A later transaction id was assigned after marked_at, so its changes are at most 30 seconds older than marked_at, or
  -- recorded. The second condition holds after a restore into another cluster.
  if pg_snapshot_xmin(snapshot) < progress.marked_xid and pg_snapshot_xmax(snapshot) >= progress.marked_xid then
    return '-infinity';
  end if;
  update ai.usage_progress p
  set
    marked_at = now(),
    marked_xid = pg_current_xact_id(),
    -- Without this, the counters would stand still after the clock was set back, until it is where it was.
    runs_counted_until = least(p.runs_counted_until, now()),
    events_counted_until = least(p.events_counted_until, now())
  where p.singleton;
  -- The clock may have been set back. Another 30 seconds allow for small steps of the clock.
  return case when progress.marked_at <= now() then progress.marked_at - interval '1 minute' else '-infinity' end;
end
$$;

revoke execute on function private.active_login_override(text) from service_role;

grant execute on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[]) to service_role;

grant execute on function private.delete_authenticator(uuid, uuid, uuid, jsonb) to service_role;

notify pgrst, 'reload schema';
