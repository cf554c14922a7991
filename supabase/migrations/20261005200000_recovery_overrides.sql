-- Bringing somebody back who cannot get in: an infrastructure admin overrides what blocks one email, for a while and for
-- a reason, and nothing that proves who they are. An override may be of an email that has no account yet.

create table private.recovery_overrides (
  id uuid primary key default gen_random_uuid(),
  email text not null check (email = lower(email) and char_length(email) between 3 and 254),
  reason text not null check (char_length(reason) between 1 and 500),
  normal_login boolean not null default true,
  recovery_email boolean not null default true,
  created_by uuid references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '7 days',
  revoked_at timestamptz,
  revoked_by uuid references auth.users (id) on delete set null,
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '30 days'),
  constraint something_is_on check (normal_login or recovery_email)
);
comment on table private.recovery_overrides is
  'By whom, why and until when an email is let past what blocks it. Ended ones stay, as the record of it.';
comment on column private.recovery_overrides.normal_login is
  'Email-scoped blocks and limits do not hold at the sign-in page, and a ban falls once the password is proven.';
comment on column private.recovery_overrides.recovery_email is 'A link and a code may be sent to the email.';
create index recovery_overrides_email_idx on private.recovery_overrides (email, created_at desc);
create index recovery_overrides_created_by_idx on private.recovery_overrides (created_by);
create index recovery_overrides_revoked_by_idx on private.recovery_overrides (revoked_by);
select private.protect_table('private.recovery_overrides');

create table private.recovery_events (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in (
    'create', 'revoke', 'send', 'consume', 'reject', 'unban_attempt', 'user_create_attempt', 'login_bypass'
  )),
  outcome text not null check (outcome ~ '^[a-z][a-z_]{0,39}$'),
  email text check (char_length(email) <= 254),
  override_id uuid references private.recovery_overrides (id) on delete set null,
  credential_id uuid,
  user_id uuid references auth.users (id) on delete set null,
  actor_id uuid references auth.users (id) on delete set null,
  ip inet,
  user_agent text check (char_length(user_agent) <= 512),
  request_id text check (char_length(request_id) <= 128),
  created_at timestamptz not null default now()
);
comment on table private.recovery_events is
  'What became of overrides and of what was sent under them, refusals included. Never a link, a code or a password.';
create index recovery_events_email_idx on private.recovery_events (email, created_at desc);
create index recovery_events_override_id_idx on private.recovery_events (override_id);
create index recovery_events_user_id_idx on private.recovery_events (user_id, created_at desc);
create index recovery_events_actor_id_idx on private.recovery_events (actor_id);
select private.protect_table('private.recovery_events');
-- A log is added to; even the service role does not rewrite it.
revoke update, delete on private.recovery_events from service_role;

create function private.record_recovery_event(event jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.recovery_events (
    kind, outcome, email, override_id, credential_id, user_id, actor_id, ip, user_agent, request_id
  )
  values (
    event ->> 'kind', event ->> 'outcome', lower(event ->> 'email'), (event ->> 'overrideId')::uuid,
    (event ->> 'credentialId')::uuid, (event ->> 'userId')::uuid, (event ->> 'actor')::uuid,
    (event ->> 'ip')::inet, event ->> 'userAgent', event ->> 'requestId'
  )
$$;
comment on function private.record_recovery_event(jsonb) is
  '{ kind, outcome, email, overrideId, credentialId, userId, actor, ip, userAgent, requestId }, the last eight if known.';
revoke execute on function private.record_recovery_event(jsonb) from public, anon, authenticated;
grant execute on function private.record_recovery_event(jsonb) to service_role;

create function private.active_recovery_override(of_email text) returns setof private.recovery_overrides
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select o.*
  from private.recovery_overrides o
  where o.email = lower(of_email) and o.revoked_at is null and o.expires_at > now()
  order by o.created_at desc
  limit 1
$$;
comment on function private.active_recovery_override(text) is 'The override of an email at this moment, if there is one.';
revoke execute on function private.active_recovery_override(text) from public, anon, authenticated;
grant execute on function private.active_recovery_override(text) to service_role;

-- Definer: emails and admins' own addresses are the identity backend's, which the service role cannot read.
create function private.recovery_actor_refusal(request jsonb, of_email text) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (request ->> 'actor')::uuid;
  refused text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
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
comment on function private.recovery_actor_refusal(jsonb, text) is
  'Why the actor may not do this to that email: forbidden, oneself, or null; a refusal is recorded. For the functions '
  'below; granted to nobody.';
revoke execute on function private.recovery_actor_refusal(jsonb, text) from public, anon, authenticated;

-- Definer: asks recovery_actor_refusal, which is granted to nobody.
create function private.create_recovery_override(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  for_email text := lower(trim(request ->> 'email'));
  lifetime interval := make_interval(secs => coalesce((request ->> 'lifetimeSeconds')::bigint, 7 * 86400));
  refused text := private.recovery_actor_refusal(request, for_email);
  made private.recovery_overrides;
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  if lifetime <= interval '0' or lifetime > interval '30 days' then
    return jsonb_build_object('refused', 'lifetime');
  end if;
  -- One at a time for each email.
  perform pg_advisory_xact_lock(hashtextextended('private.recovery_overrides ' || for_email, 0));
  if exists (select from private.active_recovery_override(for_email)) then
    return jsonb_build_object('refused', 'active');
  end if;
  insert into private.recovery_overrides (email, reason, normal_login, recovery_email, created_by, expires_at)
  values (
    for_email, request ->> 'reason', (request ->> 'normalLogin')::boolean, (request ->> 'recoveryEmail')::boolean,
    (request ->> 'actor')::uuid, now() + lifetime
  )
  returning * into made;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'create', 'outcome', 'created', 'email', for_email, 'overrideId', made.id)
  );
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, after, request_id, ip)
  values (
    made.created_by, 'recovery.create', (select u.id from auth.users u where lower(u.email) = for_email limit 1),
    for_email, made.reason, to_jsonb(made), request ->> 'requestId', (request ->> 'ip')::inet
  );
  return jsonb_build_object('overrideId', made.id, 'expiresAt', made.expires_at);
end
$$;
comment on function private.create_recovery_override(jsonb) is
  '{ actor, email, reason, normalLogin, recoveryEmail, lifetimeSeconds = 7 days, ip, userAgent, requestId } → '
  '{ overrideId, expiresAt } or { refused: forbidden | oneself | lifetime | active }.';
revoke execute on function private.create_recovery_override(jsonb) from public, anon, authenticated;
grant execute on function private.create_recovery_override(jsonb) to service_role;

-- Definer: asks recovery_actor_refusal, which is granted to nobody.
create function private.revoke_recovery_override(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  known private.recovery_overrides;
  ended private.recovery_overrides;
  refused text;
begin
  select * into known from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid;
  refused := private.recovery_actor_refusal(request, known.email);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  update private.recovery_overrides o
  set revoked_at = now(), revoked_by = (request ->> 'actor')::uuid
  where o.id = known.id and o.revoked_at is null and o.expires_at > now()
  returning * into ended;
  if known.id is null then
    return '{"refused": "not_found"}';
  end if;
  if ended.id is null then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', 'inactive', 'email', known.email)
    );
    return '{"refused": "inactive"}';
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'revoke', 'outcome', 'revoked', 'email', ended.email)
  );
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, before, after, request_id, ip)
  values (
    ended.revoked_by, 'recovery.revoke', (select u.id from auth.users u where lower(u.email) = ended.email limit 1),
    ended.email, request ->> 'reason', to_jsonb(known), to_jsonb(ended), request ->> 'requestId',
    (request ->> 'ip')::inet
  );
  return '{}';
end
$$;
comment on function private.revoke_recovery_override(jsonb) is
  '{ actor, overrideId, reason, ip, userAgent, requestId } → {} or { refused: forbidden | oneself | not_found | inactive }. '
  'What was sent under it is worth nothing from then on.';
revoke execute on function private.revoke_recovery_override(jsonb) from public, anon, authenticated;
grant execute on function private.revoke_recovery_override(jsonb) to service_role;
