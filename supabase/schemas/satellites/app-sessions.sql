-- App sessions, which a satellite holds instead of a Supabase Auth session. The web server signs each token, and the
-- session's row can be revoked. A handoff opens a session for the app. If the app may call the central API, the handoff
-- opens another session for the API.

-- Redeems a handoff token once and opens sessions for its app. Returns {app, central?}, each {id, handoff, audience,
-- user, factor, issuedAt, expiresAt}, or {refused: unauthenticated | token | unavailable}. central is absent if the app
-- has no scope for the central API. facts is the content of the proof, whose signature the web server has checked.
-- Definer: the functions that check proofs and app secrets, and those that consume tokens, are not granted to any role.
create or replace function private.redeem_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  app_hash bytea,
  central_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  proof_status text;
  handoff uuid;
  session_end timestamptz := least(now() + interval '30 days', (facts ->> 'validUntil')::timestamptz);
  opened jsonb;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.hold_proof(private.handoff_proof(facts));
  proof_status := private.proof_status(private.handoff_proof(facts));
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' or session_end <= now() or (facts ->> 'targetId')::uuid <> app.id then
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
      handoff, app.id, o.audience, app.scopes, private.handoff_proof(facts), (facts ->> 'user')::uuid, o.hash,
      least(now() + interval '8 hours', session_end), session_end
    from (values ('app', app_hash), ('central', central_hash)) as o (audience, hash)
    -- The central API is only for apps with a scope for it.
    where o.audience = 'app' or app.scopes && array['workspaces:read', 'workspaces:write', 'studio:read']
    returning s.audience, private.app_session_summary(s) as summary
  )
  select jsonb_object_agg(s.audience, s.summary) into opened from sessions s;
  return opened;
end
$$;

-- Returns the current state of a session to the session's own app: {active: true, session, scopes, endsAt, profile} or
-- {active: false}, or {refused: unauthenticated | unavailable}.
-- Definer: the functions that check proofs and app secrets are not granted to any role, and the service role can't read
-- the identity backend's tables.
create or replace function private.introspect_app_session(app_name text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  proof_status text;
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
  proof_status := private.proof_status(session.proof);
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  granted := private.effective_scopes(session);
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

-- Replaces a session's token with its successor. Returns {id, handoff, audience, user, factor, issuedAt, expiresAt} or
-- {refused: unauthenticated | token | unavailable}. Within 30 s, repeated use returns the same result. The web server
-- derives the successor from the token with a key, so all callers pass the same successor.
-- Definer: see introspect_app_session.
create or replace function private.refresh_app_session(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  proof_status text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select s.* into session
  from private.live_app_session(refresh_app_session.token_hash) l
  join private.app_sessions s on s.id = l.id
  where s.app_id = app.id
  for no key update of s;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status(session.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;

  update private.app_sessions s
  set
    previous_hash = refresh_app_session.token_hash,
    previous_valid_until = least(now() + interval '30 seconds', s.expires_at),
    token_hash = successor_hash,
    issued_at = now(),
    expires_at = least(now() + interval '8 hours', s.ends_at)
  where s.id = session.id
    and s.token_hash = refresh_app_session.token_hash
    and s.expires_at > now()
    and s.revoked_at is null
  returning * into session;
  if not found then
    -- A second caller with the same token, within the grace period, gets the same successor.
    select s.* into session
    from private.app_sessions s
    where s.previous_hash = refresh_app_session.token_hash
      and s.previous_valid_until > now()
      and s.token_hash = successor_hash
      and s.app_id = app.id
      and s.revoked_at is null;
    if not found then
      return jsonb_build_object('refused', 'token');
    end if;
  end if;
  return private.app_session_summary(session);
end
$$;

-- Returns the session for a token's hash. Also accepts the previous token within its grace period. Does not check the
-- session's proof (private.proof_status). Not granted to any role.
create or replace function private.live_app_session(token_hash bytea) returns setof private.app_sessions
  language sql stable security invoker
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

-- Returns the scopes that were granted to a session and are still registered for its app. Scopes that are registered
-- later are not included, and scopes that are removed are lost immediately.
create or replace function private.effective_scopes(session private.app_sessions) returns text[]
  language sql stable security invoker
as $$
  select array(
    select unnest(session.scopes)
    intersect
    select unnest(a.scopes) from private.apps a where a.id = session.app_id
    order by 1
  )
$$;

-- Returns the facts about a session that the web server signs into the session's token.
create or replace function private.app_session_summary(session private.app_sessions) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'id', session.id,
    'handoff', session.handoff_id,
    'audience', session.audience,
    'user', session.user_id,
    'factor', (session.proof).factor_id,
    'issuedAt', session.issued_at,
    'expiresAt', session.expires_at
  )
$$;
