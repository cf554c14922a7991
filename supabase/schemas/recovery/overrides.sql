-- With a recovery override, an infrastructure admin lifts the blocks on one email, for a limited time and with a stated
-- reason. An override never proves an identity. The email does not need to have an account yet.

-- Creates an override. Takes { actor, email, reason, normalLogin, recoveryEmail, singleUse, lifetimeSeconds, ip,
-- userAgent, requestId }. singleUse is true if the override ends when it is used. lifetimeSeconds is 7 days by default,
-- or 30 days if singleUse is true. Returns { overrideId, expiresAt } or { refused: forbidden | oneself | lifetime |
-- active }.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.create_recovery_override(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  for_email text := lower(trim(request ->> 'email'));
  for_one_use boolean := coalesce((request ->> 'singleUse')::boolean, false);
  lifetime interval := coalesce(
    make_interval(secs => (request ->> 'lifetimeSeconds')::bigint),
    case when for_one_use then interval '30 days' else interval '7 days' end
  );
  refused text := private.recovery_actor_refusal(request, for_email);
  new_override private.recovery_overrides;
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  if lifetime <= interval '0' or lifetime > interval '30 days' then
    return jsonb_build_object('refused', 'lifetime');
  end if;
  -- Concurrent calls for the same email run one after another.
  perform pg_advisory_xact_lock(hashtextextended('private.recovery_overrides ' || for_email, 0));
  if exists (select from private.active_recovery_override(for_email)) then
    return jsonb_build_object('refused', 'active');
  end if;
  insert into private.recovery_overrides (
    email, reason, normal_login, recovery_email, single_use, created_by, expires_at
  )
  values (
    for_email, request ->> 'reason', (request ->> 'normalLogin')::boolean, (request ->> 'recoveryEmail')::boolean,
    for_one_use, (request ->> 'actor')::uuid, now() + lifetime
  )
  returning * into new_override;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'create', 'outcome', 'created', 'email', for_email, 'overrideId', new_override.id)
  );
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.create',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = for_email limit 1),
    'target', for_email,
    'after', to_jsonb(new_override)
  ));
  return jsonb_build_object('overrideId', new_override.id, 'expiresAt', new_override.expires_at);
end
$$;

-- Revokes an override. Takes { actor, overrideId, reason, ip, userAgent, requestId }. Returns {} or { refused:
-- forbidden | oneself | not_found | inactive }. Every link and code that was sent under the override becomes invalid.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.revoke_recovery_override(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  old_override private.recovery_overrides;
  revoked_override private.recovery_overrides;
  refused text;
begin
  select * into old_override from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid;
  refused := private.recovery_actor_refusal(request, old_override.email);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  update private.recovery_overrides o
  set revoked_at = now(), revoked_by = (request ->> 'actor')::uuid
  where o.id = old_override.id and o.revoked_at is null and o.expires_at > now()
  returning * into revoked_override;
  if old_override.id is null then
    return '{"refused": "not_found"}';
  end if;
  if revoked_override.id is null then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', 'inactive', 'email', old_override.email)
    );
    return '{"refused": "inactive"}';
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'revoke', 'outcome', 'revoked', 'email', revoked_override.email)
  );
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.revoke',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = revoked_override.email limit 1),
    'target', revoked_override.email,
    'before', to_jsonb(old_override),
    'after', to_jsonb(revoked_override)
  ));
  return '{}';
end
$$;

-- Returns why the actor may not change an email's recovery: forbidden if the actor is not an infrastructure admin,
-- oneself if the email is the actor's own. Returns null if the change is allowed. Records each refusal. Not granted to
-- any role: only security definer functions call it.
-- Definer: emails, including the admins' own, are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.recovery_actor_refusal(request jsonb, of_email text) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (request ->> 'actor')::uuid;
  refused text;
begin
  if not private.is_infrastructure_admin(actor) then
    refused := 'forbidden';
  elsif exists (select from auth.users u where u.id = actor and lower(u.email) = lower(of_email)) then
    refused := 'oneself';
  else
    return null;
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'reject', 'outcome', refused, 'email', of_email)
  );
  return refused;
end
$$;

-- Marks an override as used when it is first used. Returns whether the caller may use it: of concurrent callers, one may
-- use an override that ends with its first use.
create or replace function private.mark_override_used(override_id uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  update private.recovery_overrides o
  set used_at = now()
  where o.id = mark_override_used.override_id and o.used_at is null;
  return found or exists (
    select from private.recovery_overrides o where o.id = mark_override_used.override_id and not o.single_use
  );
end
$$;

-- Records an event: { kind, outcome, email, overrideId, credentialId, userId, actor, ip, userAgent, requestId }. Only
-- kind and outcome are required. A sign-in for which the override lifted limits is a use of it.
create or replace function private.record_recovery_event(event jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select private.mark_override_used((event ->> 'overrideId')::uuid)
  where event ->> 'kind' = 'login_bypass' and event ->> 'outcome' = 'signed_in';
  insert into private.recovery_events (
    kind, outcome, email, override_id, credential_id, user_id, actor_id, ip, user_agent, request_id
  )
  values (
    event ->> 'kind', event ->> 'outcome', lower(event ->> 'email'), (event ->> 'overrideId')::uuid,
    (event ->> 'credentialId')::uuid, (event ->> 'userId')::uuid, (event ->> 'actor')::uuid,
    (event ->> 'ip')::inet, event ->> 'userAgent', event ->> 'requestId'
  )
$$;

-- Deletes credentials that expired more than a day ago, guesses that no longer count, and expired leases, up to at_most
-- of each. Returns the total number of deleted rows; 0 while another sweep is running.
create or replace function private.sweep_recoveries(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted_count integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_recoveries', 0)) then
    return 0;
  end if;
  -- Credentials are kept for a day after they expire, so that the page can say that a link has expired, and the log can
  -- name the email.
  deleted_count := deleted_count + private.delete_expired_rows('private.recovery_credentials', 'expires_at', '1 day', at_most);
  -- A wrong guess counts for 24 hours, and a lock lasts 24 hours.
  delete from private.recovery_code_guesses g
  where g.email = any (array(
    select o.email
    from private.recovery_code_guesses o
    where coalesce(o.last_wrong_at < now() - interval '24 hours', true)
      and coalesce(o.locked_until <= now(), true)
      and not exists (select from private.recovery_credentials c where c.email = o.email and c.expires_at > now())
    limit at_most
    for update skip locked
  ));
  get diagnostics batch = row_count;
  deleted_count := deleted_count + batch;
  return deleted_count + private.delete_expired_rows('private.mint_leases', 'expires_at', '0', at_most);
end
$$;
