-- App sessions: what a satellite holds instead of a session of the identity backend. Each token is signed by the web
-- server; the row behind it can be revoked, and carries what the handoff had proved. A handoff opens one for the app
-- itself and, where the app may call the central API, one for that.

create table private.app_sessions (
  id uuid primary key default gen_random_uuid(),
  handoff_id uuid not null,
  app_id uuid not null references private.apps (id) on delete cascade,
  audience text not null check (audience in ('app', 'central')),
  scopes text[] not null,
  proof private.mfa_proof not null,
  user_id uuid not null references auth.users (id) on delete cascade,
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  issued_at timestamptz not null default now(),
  expires_at timestamptz not null,
  previous_hash bytea unique check (octet_length(previous_hash) = 32),
  previous_valid_until timestamptz,
  created_at timestamptz not null default now(),
  ends_at timestamptz not null,
  revoked_at timestamptz,
  unique (handoff_id, audience),
  constraint one_user check ((proof).user_id = user_id),
  constraint lifetime check (
    expires_at <= issued_at + interval '8 hours'
    and expires_at <= ends_at
    and ends_at <= created_at + interval '30 days'
  ),
  constraint previous_is_whole check ((previous_hash is null) = (previous_valid_until is null))
);
comment on table private.app_sessions is
  'Sessions of people in apps. Only the SHA-256 of each token''s own random part is kept.';
comment on column private.app_sessions.handoff_id is
  'The cross-app token that opened it; tokens are cleared away, so that nothing refers to their rows.';
comment on column private.app_sessions.proof is
  'Tied to the web session, the factor and the policy''s generation; each that goes ends this.';
comment on column private.app_sessions.previous_hash is 'The token before the last refresh, good until previous_valid_until.';
comment on column private.app_sessions.ends_at is 'Refreshing leads no further than here.';
create index app_sessions_app_id_idx on private.app_sessions (app_id);
create index app_sessions_user_id_idx on private.app_sessions (user_id);
create index app_sessions_ends_at_idx on private.app_sessions (ends_at);

select private.protect_table('private.app_sessions');

create function private.app_session_summary(session private.app_sessions) returns jsonb
  language sql
  stable
  security invoker
as $$
  select jsonb_build_object(
    'id', session.id,
    'audience', session.audience,
    'user', session.user_id,
    'factor', (session.proof).factor_id,
    'issuedAt', session.issued_at,
    'expiresAt', session.expires_at
  )
$$;
comment on function private.app_session_summary(private.app_sessions) is 'What the web server signs into a session''s token.';
revoke execute on function private.app_session_summary(private.app_sessions) from public, anon, authenticated;

-- Definer: proofs, apps' secrets and consumption are granted to nobody.
create function private.redeem_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  app_hash bytea,
  central_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  standing text;
  handoff uuid;
  session_end timestamptz := least(now() + interval '30 days', (facts ->> 'validUntil')::timestamptz);
  opened jsonb;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  standing := private.proof_standing(private.proof_of(facts));
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or session_end <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  handoff := private.consume_cross_app_token(
    redeem_cross_app_token.token_hash, app.id, (facts ->> 'user')::uuid, redeem_cross_app_token.proof
  );
  if handoff is null then
    return jsonb_build_object('refused', 'token');
  end if;

  with sessions as (
    insert into private.app_sessions as s (
      handoff_id, app_id, audience, scopes, proof, user_id, token_hash, expires_at, ends_at
    )
    select
      handoff, app.id, o.audience, app.scopes, private.proof_of(facts), (facts ->> 'user')::uuid, o.hash,
      least(now() + interval '8 hours', session_end), session_end
    from (values ('app', app_hash), ('central', central_hash)) as o (audience, hash)
    -- The central API is for apps that have something to do there.
    where o.audience = 'app' or app.scopes && array['workspaces:read', 'workspaces:write', 'studio:read']
    returning s.audience, private.app_session_summary(s) as summary
  )
  select jsonb_object_agg(s.audience, s.summary) into opened from sessions s;
  return opened;
end
$$;
comment on function private.redeem_cross_app_token is
  'Redeems a token once and opens its sessions: {app, central?}, each {id, audience, user, factor, issuedAt, expiresAt}; '
  'or {refused: unauthenticated | token | unavailable}. The facts are those of the proof, whose signature the web '
  'server has checked.';
revoke execute on function private.redeem_cross_app_token from public, anon, authenticated;
grant execute on function private.redeem_cross_app_token to service_role;

create function private.live_app_session(token_hash bytea) returns setof private.app_sessions
  language sql
  stable
  security invoker
as $$
  select s.*
  from private.app_sessions s
  join private.apps a on a.id = s.app_id and a.enabled
  where (
      (s.token_hash = live_app_session.token_hash and s.expires_at > now())
      or (s.previous_hash = live_app_session.token_hash and s.previous_valid_until > now())
    )
    and s.revoked_at is null
    and s.ends_at > now()
$$;
comment on function private.live_app_session(bytea) is
  'The session of a token by its hash, the one before a refresh included for its grace; not yet whether its proof holds. '
  'For definers; granted to nobody.';
revoke execute on function private.live_app_session(bytea) from public, anon, authenticated;

create function private.scopes_in_force(session private.app_sessions) returns text[]
  language sql
  stable
  security invoker
as $$
  select array(
    select unnest(session.scopes)
    intersect
    select unnest(a.scopes) from private.apps a where a.id = session.app_id
    order by 1
  )
$$;
comment on function private.scopes_in_force(private.app_sessions) is
  'What was granted and is still registered: scopes never widen, and narrow at once.';
revoke execute on function private.scopes_in_force(private.app_sessions) from public, anon, authenticated;

-- Definer: proofs and apps' secrets are granted to nobody, and the identity backend's tables are not the service role's.
create function private.introspect_app_session(app_name text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  standing text;
  granted text[];
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select * into session from private.live_app_session(introspect_app_session.token_hash) s where s.app_id = app.id;
  if not found then
    return jsonb_build_object('active', false);
  end if;
  standing := private.proof_standing(session.proof);
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  granted := private.scopes_in_force(session);
  return jsonb_build_object(
    'active', true,
    'session', private.app_session_summary(session),
    'scopes', granted,
    'endsAt', session.ends_at,
    'profile', case when 'profile' = any (granted) then (
      select jsonb_build_object('name', p.display_name, 'email', u.email, 'picture', p.avatar_url)
      from auth.users u
      left join public.profiles p on p.id = u.id
      where u.id = session.user_id
    ) end
  );
end
$$;
comment on function private.introspect_app_session(text, bytea, bytea) is
  'What a session is worth now, to its own app alone: {active, session, scopes, endsAt, profile} or {active: false}, or '
  '{refused: unauthenticated | unavailable}.';
revoke execute on function private.introspect_app_session(text, bytea, bytea) from public, anon, authenticated;
grant execute on function private.introspect_app_session(text, bytea, bytea) to service_role;
