-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

-- Unused since 0.2.0.
drop function ai.begin_run(jsonb);

drop function ai.priced_routes(text, text[]);

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

-- Records a new password, a requested or completed change of email, a ban, and the end of a ban. A completed change of
-- email is announced to both addresses.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_account_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  event_id uuid;
begin
  -- Before its address is confirmed, an account has no owner; a deleted account has none any more.
  if new.deleted_at is not null or old.email_confirmed_at is null and old.last_sign_in_at is null then
    return null;
  end if;

  if coalesce(new.encrypted_password, '') <> '' and private.is_new_password(old.encrypted_password, new.encrypted_password) then
    perform private.add_account_event(
      new.id, case when coalesce(old.encrypted_password, '') = '' then 'password_added' else 'password_changed' end
    );
  end if;

  if coalesce(new.email_change, '') not in ('', coalesce(old.email_change, '')) then
    perform private.add_account_event(
      new.id, 'email_change_requested', details => jsonb_build_object('to', new.email_change)
    );
  end if;
  if lower(coalesce(new.email, '')) <> lower(coalesce(old.email, '')) then
    event_id := private.add_account_event(
      new.id, 'email_changed', details => jsonb_strip_nulls(jsonb_build_object(
        'from', nullif(old.email, ''), 'to', nullif(new.email, '')
      ))
    );
    perform private.queue_event_mail(e, old.email) from public.security_events e where e.id = event_id;
  end if;

  if (old.banned_until > now()) is not true and new.banned_until > now() then
    -- An account that is created banned, such as an imported one, was never in use: its owner needs no mail.
    if not exists (select from public.profiles p where p.id = new.id and p.created_at = now()) then
      perform private.add_account_event(new.id, 'account_banned');
    end if;
  elsif old.banned_until > now() and (new.banned_until > now()) is not true then
    perform private.add_account_event(new.id, 'account_unbanned');
  end if;
  return null;
exception when others then
  raise warning 'an account''s change was not recorded: % %', sqlstate, sqlerrm;
  return null;
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

-- Returns the models that a credential may use now, in OpenAI's format and in the order of ai.model_order, or {refused:
-- code}. A model is left out if no provider can serve it or its calls have no price. If the call has model, returns
-- only that model. If the call has paths, [{ path, kind, providers }], returns the list as text and adds endpoints.
-- endpoints has, for each model, the paths of the model's kind that at least one of its providers serves. regions has the
-- regions of a model's providers, and unknown for a provider without one. Until 0.4.0: gateways of release 0.2.0
-- state no regions.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  usable_providers text[] := case
    when caller.allowed_regions is null then request.providers
    else ai.providers_in_regions(request.providers, request.regions, caller.allowed_regions)
  end;
  -- The models as JSON text, because building one jsonb from all models would be slow.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- Reads all models in one pass. With a large catalogue, calling a function for each model would take most of the
  -- query's time.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', (
          select jsonb_agg(ai.listed_price(t.price) order by t.place)
          from jsonb_array_elements(p.prices) with ordinality as t (price, place)
        )
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_routes(usable_providers) p
    where request.model is null or p.model_id = request.model
  ),
  served as (
    select
      r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers,
      jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown')) as regions
    from routes r
    group by r.model_id
  ),
  paths as materialized (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'default_output_limit', u.default_output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when request.regions is null then jsonb '{}' else jsonb_build_object('regions', s.regions) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case when shows_prices then jsonb_build_object('routes', s.routes) else jsonb '{}' end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found');
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

-- Returns each call with its caller, its routes and its maximum cost, or with the reason why it is refused, in the order
-- of the calls. Locks nothing. If the caller stated no output limit, the model's own default replaces the assumed limit.
-- It is lowered to the model's limit (2,048 if both are unknown) and to the room left in the context window. A free call
-- reserves nothing.
create or replace function ai.price_calls(calls jsonb) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  people ai.caller[] := ai.user_callers(calls);
begin
  return (
    -- Each subquery with `offset 0` computes its columns once, for all the expressions that read them.
    with requests as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        least((c.caller).key_tokens_per_minute, (c.caller).workspace_tokens_per_minute) as token_limit,
        case
          when (c.caller).allowed_regions is null then (c.request).providers
          else ai.providers_in_regions((c.request).providers, (c.request).regions, (c.caller).allowed_regions)
        end as providers
      from ai.find_callers(calls, people) c
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, d.regions, p.routes
      from (select distinct r.model_id, r.providers, (r.request).regions from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers, d.regions) as p
    )
    select coalesce(array_agg(row(
      ai.price_refusal(r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens),
      r.request, r.caller, coalesce((r.caller).entity_id, (r.request).entity_id, (r.request).session_label),
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd, case when (r.request).is_free is not true then (r.caller).budgets end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null
    )::ai.claim order by r.place), '{}')
    from requests r
    left join lateral (
      select m as model
      from ai.usable_models(
        (r.caller).workspace_id, (r.caller).plan_id, (r.caller).workspace_models, (r.caller).denied_models,
        (r.caller).key_models
      ) m
      where m.id = r.model_id and m.kind = (r.request).kind
      offset 0
    ) as m on true
    left join offers o on o.model_id = (m.model).id and o.providers = r.providers
      and o.regions is not distinct from (r.request).regions
    cross join lateral (
      select
        i.image_tokens, i.audio_tokens,
        -- No reading exceeds the context window.
        least(i.text_tokens, (m.model).context_window * (r.request).input_reads) as text_tokens,
        least(
          case when (r.request).output_limit_assumed then
            coalesce((m.model).default_output_limit, (r.request).output_limit)
          else (r.request).output_limit end,
          (m.model).output_limit,
          case when (r.request).output_limit_assumed then ai.assumed_output_limit(
            m.model, least((r.request).expected_tokens, i.text_tokens + i.image_tokens + i.audio_tokens)
          ) end
        ) as output_limit
      from ai.input_tokens((r.request).input_bytes, (r.request).images, (r.request).audio_seconds) as i
      offset 0
    ) as u
    cross join lateral (
      select case when (r.request).is_free then 0 else x.usd end::numeric(24, 12) as usd
      from ai.maximum_cost(
        o.routes, u.text_tokens, u.image_tokens, u.audio_tokens, u.output_limit * coalesce((r.request).choices, 1),
        (r.request).hour_writes, (r.request).service_tier, (r.request).fee_requests, (r.request).kind = 'speech'
      ) as x
      offset 0
    ) as x
    cross join lateral (
      select
        i.input_tokens,
        case when r.token_limit is not null then ai.reserved_tokens(
          i.input_tokens, u.output_limit, (r.request).choices, (r.request).output_limit_assumed, r.token_limit
        ) end as reserved_tokens
      from (
        -- Token limits count one reading, of average size: few calls use a server tool as often as they may.
        select u.text_tokens / coalesce((r.request).input_reads, 1) + u.image_tokens / coalesce((r.request).input_reads, 1)
          + u.audio_tokens as input_tokens
      ) as i
      offset 0
    ) as t
    left join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = ai.payer_id(r.caller) offset 0
    ) as a on true
  );
end
$$;

-- Returns those of the given providers that are in an allowed region. A provider without a region is in none.
create or replace function ai.providers_in_regions(providers text[], regions jsonb, allowed_regions text[]) returns text[]
  language sql immutable security invoker parallel safe
as $$
  select array(select p.id from unnest(providers) as p (id) where regions ->> p.id = any (allowed_regions))
$$;

-- Returns the refusal of a call for a usable model that has no route. If the model has one outside the allowed regions,
-- the refusal says so. Until 0.4.0: gateways of release 0.2.0 state no regions, and don't know that refusal.
create or replace function ai.route_refusal(model text, request ai.run_request, allowed_regions text[]) returns jsonb
  language sql stable security invoker
as $$
  select case
    when allowed_regions is not null and (request).regions is not null
      and exists (select from ai.open_routes((request).providers) r where r.model_id = model)
      then ai.refusal('region_not_allowed', '{"param": "model"}')
    else ai.refusal('model_not_found')
  end
$$;

-- Returns a model's routes to the given providers in order, with their current prices and the providers' regions, in
-- the form in which runs store them. Returns null if there is none. A run uses no other routes.
create or replace function ai.priced_routes(model text, providers text[], regions jsonb) returns table (routes jsonb)
  language sql stable security invoker
as $$
  select jsonb_agg(
    jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.prices)
    || case when regions ? r.provider_id then jsonb_build_object('region', regions -> r.provider_id) else jsonb '{}' end
    || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
    || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
    || case
      when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
      else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
        'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
      )))
    end
    order by r.place
  )
  from ai.open_routes(providers) r
  where r.model_id = model
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

-- Returns the figures that docs/operating.md lists under "Figures of the deployment". Reads counters, open runs and
-- short queues, and never more than the runs of the last two minutes.
create or replace function private.measure_deployment() returns jsonb
  language sql stable security invoker set search_path = ''
  -- A partition may be empty when statistics are collected and large when the plan is used. Runs are found by their key.
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
  with progress as materialized (
    select p.seen_until from ai.sweep_progress p
  ), long_running as materialized (
    select r.created_at, r.reserved_usd, r.reserved_credits
    from ai.long_running_runs l
    cross join lateral (
      select * from ai.runs o
      where o.created_at = l.run_created_at and o.id = l.run_id and o.status = 'running'
      -- Otherwise, Postgres could read all runs and look up each of them in the short table.
      offset 0
    ) r
  ), open_runs as (
    select * from long_running
    union all
    -- The sweep has recorded all earlier open runs in ai.long_running_runs.
    select r.created_at, r.reserved_usd, r.reserved_credits
    from progress p
    join ai.runs r on r.created_at > p.seen_until
    where r.created_at > now() - interval '2 minutes' and r.status = 'running'
  )
  select jsonb_build_object(
    'totals', (
      select coalesce(jsonb_agg(jsonb_build_object('figure', t.figure, 'label', t.label, 'total', trim_scale(t.total)::text)), '[]')
      from ai.totals t
    ),
    'openRuns', (select count(*) from open_runs),
    'longRunningRuns', (select count(*) from long_running),
    'oldestOpenRunSeconds', (select coalesce(extract(epoch from now() - min(o.created_at)), 0) from open_runs o),
    'reservedUsd', (select trim_scale(coalesce(sum(o.reserved_usd), 0))::text from open_runs o),
    'reservedCredits', (select trim_scale(coalesce(sum(o.reserved_credits), 0))::text from open_runs o),
    -- Null before the first sweep and the first sum. JSON has no infinity.
    'sweepAgeSeconds', (
      select extract(epoch from now() - nullif(p.seen_until, '-infinity')) from progress p
    ),
    'usageAgeSeconds', (
      select extract(epoch from now() - nullif(u.summed_until, '-infinity')) from ai.usage_progress u
    ),
    'blockedAddresses', (
      select count(*) from private.address_blocks b where b.blocked_until > now() and b.lifted_at is null
    )
  ) || (
    select jsonb_build_object(
      'mailsWaiting', count(*) filter (where m.attempts < 12),
      'mailsFailed', count(*) filter (where m.attempts >= 12),
      'mailsDueSeconds', coalesce(extract(epoch from now() - min(m.next_attempt_at) filter (where m.attempts < 12)), 0)
    )
    from private.outgoing_mails m
  )
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

-- Changes the given fields of a workspace's policy, for a member with manage_ai_policy: allowedModels, deniedModels,
-- allowedRegions, requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays,
-- monthlyBudgetUsd, appBudgets [{ appId, monthlyBudgetUsd }]. null removes a limit. readAt is the updatedAt of the
-- policy that the member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy),
-- changed_meanwhile (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are
-- already in either list are never unknown. Each change adds an entry to the workspace's audit log.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels');
  foreach param in array array['allowedModels', 'deniedModels'] loop
    unknown := ai.unknown_models(array(
      select n.name from unnest(ai.text_list(changes -> param)) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    allowed_regions = case
      when changes ? 'allowedRegions' then ai.text_list(changes -> 'allowedRegions') else p.allowed_regions
    end,
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
  where p.workspace_id = workspace;
  -- Locks apps before the workspace, which is the common lock order.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

-- Returns a workspace's policy as its members see it, or the defaults if the workspace has not set a policy.
create or replace function ai.workspace_policy_summary(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'allowedModels', to_jsonb(p.allowed_models),
    'deniedModels', coalesce(to_jsonb(p.denied_models), '[]'),
    'allowedRegions', to_jsonb(p.allowed_regions),
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'providerCostVisible', coalesce(p.provider_cost_visible, true),
    'contentCapture', coalesce(p.content_capture, false),
    'contentRetentionDays', coalesce(p.content_retention_days, 30),
    'budget', (
      select ai.budget_summary(b, ai.cost_visible(w.id)) from ai.budgets b
      where b.scope = 'workspace' and b.subject_id = w.id and b.workspace_id = w.id and b.limit_usd is not null
    ),
    'appBudgets', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('appId', a.id, 'app', a.display_name) || ai.budget_summary(b, ai.cost_visible(w.id))
          order by a.display_name, a.id
        ),
        '[]'
      )
      from ai.budgets b
      join private.apps a on a.id = b.subject_id
      where b.scope = 'app' and b.workspace_id = w.id and b.limit_usd is not null
    ),
    'updatedAt', p.updated_at,
    'updatedBy', (select u.display_name from public.profiles u where u.id = p.updated_by)
  )
  from (select workspace as id) w
  left join ai.workspace_policies p on p.workspace_id = w.id
$$;

-- Returns the details of a run: { run, steps, attempts, ledger, answeredBy }. run is the summary. attempts are the
-- requests to providers. ledger contains the ledger entries, with charged credits as positive amounts. answeredBy is
-- the route that answered, with its prices at that time. attempts and answeredBy are null if provider cost is hidden.
create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible) || ai.run_pricing_facts(run, cost_visible),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'step', s.step, 'type', s.type, 'name', s.name, 'status', s.status, 'latencyMs', s.latency_ms
      ) order by s.step), '[]')
      from jsonb_to_recordset((run).steps) as s (step smallint, type text, name text, status text, latency_ms integer)
    ),
    'attempts', case when cost_visible then (
      select coalesce(jsonb_agg(jsonb_build_object(
        'route', a.route,
        'provider', a.provider,
        'model', a.model,
        'region', jsonb_path_query_first(
          (run).routes, '$[*] ? (@.position == $position).region', jsonb_build_object('position', a.route)
        ),
        'status', a.status,
        'failure', a.failure,
        'upstreamRequestId', a.upstream_request_id,
        'mayHaveCharged', coalesce(a.may_have_charged, false),
        'latencyMs', a.latency_ms
      ) order by a.position), '[]')
      from rows from (jsonb_to_recordset((run).attempts) as (
        route smallint, provider text, model text, status smallint, failure text, upstream_request_id text,
        may_have_charged boolean, latency_ms integer
      )) with ordinality as a (
        route, provider, model, status, failure, upstream_request_id, may_have_charged, latency_ms, position
      )
    ) end,
    'ledger', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', l.kind, 'credits', trim_scale(-l.amount)::text, 'createdAt', l.created_at
      ) order by l.id), '[]')
      from ai.credit_ledger l
      where l.run_id = (run).id
    ),
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end
  )
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

-- Advances the mark and adds changed runs to the sums, in steps. Also sums again older days whose sums lack details.
-- Passes the end of at most max_days days, and sums at most max_days older days. Begins no step after two seconds; the
-- next call continues. Only one caller works at a time; others return 0. Returns the number of days that it completed,
-- and at least 1 if it stopped early.
-- Definer: the service role may not write the sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  stop_at timestamptz := clock_timestamp() + interval '2 seconds';
  whole_until timestamptz;
  mark timestamptz;
  completed integer := 0;
  step_changes integer := 20000;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  whole_until := ai.advance_usage_fence();
  perform ai.count_events(whole_until);
  mark := ai.usage_mark_for_clock();
  while ai.add_usage_changes(step_changes) >= step_changes and clock_timestamp() < stop_at loop
  end loop;
  while mark < whole_until and completed < max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    mark := ai.sum_usage_until(whole_until);
    if mark = date_trunc('day', mark, 'UTC') then
      perform ai.seal_usage_day((mark at time zone 'UTC')::date - 1);
      completed := completed + 1;
    end if;
  end loop;
  for older_day in 1..max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    exit when ai.detail_older_usage_days(1) = 0;
    completed := completed + 1;
  end loop;
  return completed;
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

-- Sums the runs that follow the mark and moves the mark forward: to whole_until, but at most to the end of the day, and
-- to ten minutes after the first run. Returns the new mark. The caller holds the roll-up's lock.
create or replace function ai.sum_usage_until(whole_until timestamptz) returns timestamptz
  language plpgsql volatile security invoker set search_path = '' set work_mem = '32MB'
  -- Each stretch of time has its own plan, because generic plans would read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  mark timestamptz := (select p.summed_until from ai.usage_progress p);
  counted_until timestamptz := (select p.runs_counted_until from ai.usage_progress p);
  first_day date := (mark at time zone 'UTC')::date;
  next_mark timestamptz := least(
    whole_until,
    date_trunc('day', mark, 'UTC') + interval '24 hours',
    (
      select r.created_at from ai.runs r
      where r.created_at >= mark and r.created_at < whole_until
      order by r.created_at
      limit 1
    ) + interval '10 minutes'
  );
  parts record;
begin
  if next_mark <= mark then
    return mark;
  end if;
  -- In one statement, and so in one snapshot: changes that are visible are part of the runs that are summed.
  with changed as (
    delete from ai.usage_changes c where c.run_created_at >= mark and c.run_created_at < next_mark
  ), used as materialized (
    select distinct r.workspace_id as id from ai.runs r where r.created_at >= mark and r.created_at < next_mark
  )
  select
    array(select s from used w cross join lateral ai.sum_usage(w.id, mark, next_mark) s) as usage,
    array(select s from used w cross join lateral ai.sum_labels(w.id, mark, next_mark) s) as labels
  into parts;
  -- The day has sums already if the mark was set back.
  if mark = date_trunc('day', mark, 'UTC') then
    delete from ai.usage_labels_daily l
    using (select distinct u.workspace_id from ai.usage_daily u where u.day = first_day) w
    where l.workspace_id = w.workspace_id and l.day = first_day;
    delete from ai.usage_daily u where u.day = first_day;
  end if;
  perform ai.add_usage(parts.usage);
  perform ai.add_label_usage(parts.labels);
  if mark >= counted_until then
    perform ai.count_usage(parts.usage);
  end if;
  update ai.usage_progress p
  set summed_until = next_mark, runs_counted_until = greatest(p.runs_counted_until, next_mark)
  where p.singleton;
  return next_mark;
end
$$;

-- Moves about max_changes recorded changes of runs before the mark into the sums. Changes of later runs are part of
-- these runs when the mark passes them. Changes of days whose sums lack details stay until these days are summed again.
-- Returns the number of changes. The caller holds the roll-up's lock.
create or replace function ai.add_usage_changes(max_changes integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  parts record;
begin
  with due as materialized (
    select c.ctid as place
    from ai.usage_progress p
    join ai.usage_changes c on c.run_created_at < p.summed_until and c.day >= p.detailed_from
    -- Moves all changes of a run together. A part of them may cancel a row's requests, but not its amounts.
    order by c.workspace_id, c.run_created_at
    fetch first max_changes rows with ties
  ), changed as (
    delete from ai.usage_changes c using due d where c.ctid = d.place returning c
  )
  select
    array(select u from changed r cross join lateral ai.changed_usage(r.c) u) as usage,
    array(select u from changed r cross join lateral ai.changed_label_usage(r.c) u) as labels
  into parts;
  if parts.usage <> '{}' then
    perform ai.add_usage(parts.usage);
    perform ai.add_label_usage(parts.labels);
    perform ai.count_usage(parts.usage);
  end if;
  return cardinality(parts.usage);
end
$$;

-- Adds sums of runs to the counters. Skips amounts that a correction lowered, because a counter must not fall.
create or replace function ai.count_usage(parts ai.usage_daily[]) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.totals as t (figure, label, total)
  select f.figure, s.provider_id, f.amount
  from (
    select
      coalesce(p.provider_id, '') as provider_id, sum(p.requests) as requests, sum(p.failed) as failed,
      sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens, sum(p.cost_usd) as cost_usd
    from unnest(parts) p
    group by 1
  ) s
  cross join lateral (values
    ('runs', s.requests), ('failed_runs', s.failed), ('input_tokens', s.input_tokens),
    ('output_tokens', s.output_tokens), ('cost_usd', s.cost_usd)
  ) as f (figure, amount)
  where f.amount > 0
  on conflict (figure, label) do update set total = t.total + excluded.total
$$;

-- Adds the failed attempts and sign-ins since the last count to the counters, up to whole_until. The caller holds the
-- roll-up's lock and has made sure that all of them are visible.
create or replace function ai.count_events(whole_until timestamptz) returns void
  language sql volatile security invoker set search_path = ''
as $$
  with due as materialized (
    update ai.usage_progress p set events_counted_until = whole_until
    from (select q.events_counted_until as since from ai.usage_progress q) o
    where p.singleton and o.since < whole_until
    returning o.since
  )
  insert into ai.totals as t (figure, label, total)
  select 'failed_attempts', f.provider_id, count(*)
  from due d
  join ai.failed_attempts f on f.at >= d.since and f.at < whole_until
  group by f.provider_id
  union all
  select 'sign_ins', coalesce(e.method, ''), count(*)
  from due d
  join public.security_events e on e.kind = 'sign_in' and e.created_at >= d.since and e.created_at < whole_until
  group by 2
  on conflict (figure, label) do update set total = t.total + excluded.total
$$;

-- Returns a page of the models whose id or name contains the term, or only the model only_id. Each model has its
-- prices, and its providers in the order in which calls try them. Amounts are text, so no digit is lost. With
-- page_size, each model has only its current prices. Without page_size, returns all models with all their prices. To
-- read the next page, pass the sortsAs of the last model as after.
create or replace function private.list_catalogue_models(
  term text default '', only_id text default null, after text[] default null, page_size integer default null
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'studioDefault', m.studio_default,
    'sortsAs', m.sorts_as,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- Checks prices like a call does, but assumes that every provider is connected.
    'hasPrice', (
      select p.routes is not null
      from ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id), null) p
    ),
    'hasGrant', exists (
      select
      from ai.model_grants g
      left join public.workspaces w on w.id = g.workspace_id
      where g.model_id = m.id and (g.plan_id is not null or w.deleted_at is null)
    ),
    -- In the order in which calls try them: open routes first.
    'providers', (
      select coalesce(jsonb_agg(p.provider_id order by p.is_shut, p.position), '[]')
      from (
        select distinct on (r.provider_id) r.provider_id, not r.enabled as is_shut, r.position
        from ai.model_routes r
        where r.model_id = m.id
        order by r.provider_id, r.enabled desc, r.position
      ) as p
    ),
    'prices', (
      select coalesce(jsonb_agg(private.describe_price(p)
        order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id and (page_size is null or p.valid @> now())
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where (only_id is null or l.id = only_id)
      and (position(lower(term) in lower(l.id)) > 0 or position(lower(term) in lower(l.display_name)) > 0)
      and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

-- Returns the reason why a call is refused before its limits are checked, or null.
create or replace function ai.price_refusal(
  request ai.run_request, caller ai.caller, model ai.models, routes jsonb, cost_usd numeric, audio_tokens bigint,
  input_tokens bigint, tokens bigint
) returns jsonb
  language sql stable security invoker
as $$
  select coalesce(
    ai.call_refusal(caller, (request).kind),
    case
      when (caller).plan_id is null then ai.refusal('service_unavailable')
      when (request).entity_id <> (caller).entity_id then ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}')
      when (model).id is null then ai.refusal('model_not_found')
      when not coalesce((request).voice = any ((model).voices), (request).voice is null)
        then ai.refusal('invalid_request', '{"param": "voice"}')
      when (request).kind = 'chat' and (request).output_limit > (model).output_limit
        and (request).output_limit_assumed is not true
        then ai.refusal('invalid_request', jsonb_build_object('model_output_limit', (model).output_limit))
      when routes is null then ai.route_refusal((model).id, request, (caller).allowed_regions)
      when (audio_tokens > 0 or (request).audio) and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.audio_input))')
        then ai.refusal('unsupported_parameter', '{"param": "messages"}')
      when (request).fee_requests > 0 and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.request_fee))')
        then ai.refusal('unsupported_parameter', '{"param": "tools"}')
      when not ai.is_tier_priced(routes, (request).service_tier)
        then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
      when cost_usd is null then ai.refusal('service_unavailable')
      when tokens > least((caller).key_tokens_per_minute, (caller).workspace_tokens_per_minute)
        then ai.token_limit_refusal(caller, input_tokens, tokens)
    end
  )
$$;

revoke execute on function private.active_login_override(text) from service_role;

grant delete, insert, update on table ai.usage_changed_days to service_role;

grant delete, insert, update on table ai.usage_sealed_days to service_role;

grant execute on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.priced_routes(text, text[], jsonb) to service_role;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[]) to service_role;

grant execute on function private.delete_authenticator(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function private.measure_deployment() to service_role;

notify pgrst, 'reload schema';
