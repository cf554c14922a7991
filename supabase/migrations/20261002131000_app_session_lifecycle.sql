-- How a session goes on.

-- Definer: as introspect_app_session.
create function private.refresh_app_session(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  standing text;
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
  standing := private.proof_standing(session.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
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
    -- Who comes second with the same token, within its grace, gets the same successor.
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
comment on function private.refresh_app_session(text, bytea, bytea, bytea) is
  'Puts the successor in a token''s place, once: {id, audience, user, factor, issuedAt, expiresAt}, the same to everyone '
  'who asks within 30 s, or {refused: unauthenticated | token | unavailable}. The successor follows from the token by '
  'a key of the web server''s, so that all callers bring the same.';
revoke execute on function private.refresh_app_session(text, bytea, bytea, bytea) from public, anon, authenticated;
grant execute on function private.refresh_app_session(text, bytea, bytea, bytea) to service_role;
