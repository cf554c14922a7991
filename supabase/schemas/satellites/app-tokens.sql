-- ttr_app_ tokens, which an external app uses to call the gateway for one person in one workspace. They survive
-- sign-out. They end when they are revoked, the password or the policy changes, the person is banned or leaves the
-- workspace, or the app is removed.

-- Redeems a handoff token once for an access token and a refresh token. Returns {user, workspace, scopes, expiresAt} or
-- {refused: unauthenticated | token | scope | workspace | unavailable}. A refusal does not use up the token.
-- Definer: the functions that check proofs and app secrets and consume tokens are not granted to any role.
create or replace function private.exchange_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  proof_status text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  token.user_id := (facts ->> 'user')::uuid;
  token.valid_until := (facts ->> 'validUntil')::timestamptz;
  proof_status := private.proof_status(private.handoff_proof(facts));
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' or token.valid_until <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  token.scopes := coalesce(exchange_cross_app_token.scopes, private.gateway_scopes(app));
  if not token.scopes <@ private.gateway_scopes(app) or cardinality(token.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  -- Checked before the token is consumed, so that a refusal leaves it valid.
  if not exists (select from private.app_links(app, exchange_cross_app_token.workspace_id))
    or not private.is_workspace_member(token.user_id, exchange_cross_app_token.workspace_id) then
    return jsonb_build_object('refused', 'workspace');
  end if;

  token.family_id := private.consume_cross_app_token(
    exchange_cross_app_token.token_hash, app.id, token.user_id, exchange_cross_app_token.proof
  );
  if token.family_id is null then
    return jsonb_build_object('refused', 'token');
  end if;
  token.app_id := app.id;
  token.workspace_id := exchange_cross_app_token.workspace_id;
  -- These tokens survive sign-out, so their proof names no session.
  token.proof := private.handoff_proof(facts - 'session');
  token.lookup := access_lookup;
  token.token_hash := access_hash;
  token.refresh_hash := exchange_cross_app_token.refresh_hash;
  return private.issue_app_token(token);
end
$$;

-- Exchanges a refresh token for the next token pair. Returns {user, workspace, scopes, expiresAt} or {refused:
-- unauthenticated | token | scope | workspace | unavailable}. Within 30 s, repeated use returns the same result; later
-- reuse revokes the token family. The web server derives the next pair from the refresh token and a secret key, so all
-- callers pass the same pair.
-- Definer: see exchange_cross_app_token.
create or replace function private.refresh_app_token(
  app_name text,
  secret_hash bytea,
  refresh_hash bytea,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  next ai.app_tokens;
  proof_status text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(t.user_id)
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash and t.app_id = app.id;
  select * into token
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash
    and t.app_id = app.id
    and t.revoked_at is null
    and t.refresh_expires_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Reuse after the grace period means that a party other than the app has the token (RFC 9700 §4.14.2).
    update ai.app_tokens t set revoked_at = now() where t.family_id = token.family_id and t.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status(token.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if token.workspace_id <> refresh_app_token.workspace_id
    or not exists (select from private.app_links(app, token.workspace_id))
    or not exists (select from private.memberships_since(token.user_id, token.workspace_id, token.handed_over_at)) then
    return jsonb_build_object('refused', 'workspace');
  end if;
  next := token;
  next.scopes := coalesce(
    refresh_app_token.scopes,
    array(select unnest(token.scopes) intersect select unnest(private.gateway_scopes(app)) order by 1)
  );
  if not next.scopes <@ token.scopes or not next.scopes <@ private.gateway_scopes(app) or cardinality(next.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;

  if token.refreshed_at is not null then
    -- A second caller within the grace period gets the same pair as the first.
    return coalesce(
      (
        select jsonb_build_object(
          'user', t.user_id, 'workspace', t.workspace_id, 'scopes', t.scopes, 'expiresAt', t.expires_at
        )
        from ai.app_tokens t
        where t.token_hash = access_hash and t.refresh_hash = successor_hash and t.revoked_at is null
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update ai.app_tokens t set refreshed_at = now() where t.id = token.id;
  next.lookup := access_lookup;
  next.token_hash := access_hash;
  next.refresh_hash := successor_hash;
  return private.issue_app_token(next);
end
$$;

-- Stores the next access and refresh token of a family, and sets their expiry. For definers; not granted to any role.
create or replace function private.issue_app_token(token ai.app_tokens) returns jsonb
  language sql volatile security invoker
as $$
  insert into ai.app_tokens as t (
    family_id, app_id, user_id, workspace_id, scopes, proof, valid_until, lookup, token_hash, expires_at, refresh_hash,
    refresh_expires_at, handed_over_at
  )
  values (
    token.family_id, token.app_id, token.user_id, token.workspace_id, token.scopes, token.proof, token.valid_until,
    token.lookup, token.token_hash, least(now() + interval '1 hour', token.valid_until), token.refresh_hash,
    least(now() + interval '30 days', token.valid_until), coalesce(token.handed_over_at, now())
  )
  returning jsonb_build_object(
    'user', t.user_id, 'workspace', t.workspace_id, 'scopes', t.scopes, 'expiresAt', t.expires_at
  )
$$;

-- Returns the scopes that an app may request in a gateway token, sorted.
create or replace function private.gateway_scopes(app private.apps) returns text[]
  -- Without a subquery, so that Postgres can inline the function.
  language sql immutable security invoker
as $$
  select array_remove(array[
    case when 'ai:use' = any ((app).scopes) then 'ai:use' end,
    case when 'tts:use' = any ((app).scopes) then 'tts:use' end,
    case when 'workspace:session' = any ((app).scopes) then 'workspace:session' end
  ], null)
$$;

-- Returns an app's link to a workspace in which it may act: the app is registered as external and enabled, and the
-- workspace is not deleted. Returns at most one row, so that a query can join it.
create or replace function private.app_links(app private.apps, workspace_id uuid) returns setof private.app_workspaces
  language sql stable security invoker
as $$
  select l.*
  from private.app_workspaces l
  join public.workspaces w on w.id = l.workspace_id and w.deleted_at is null
  where (app).enabled
    and (app).kind = 'external'
    and l.app_id = (app).id
    and l.workspace_id = app_links.workspace_id
$$;

-- Returns one row with the reason why the gateway refuses the requests that an app makes in a workspace, or null if it
-- accepts them. scopes are those of the app's token or bound key. Called only by definer functions; not granted to any
-- role.
create or replace function private.gateway_refusal(app private.apps, workspace_id uuid, scopes text[])
  returns table (refused text)
  language sql stable security invoker
as $$
  select case
    when not exists (select from private.app_links(app, gateway_refusal.workspace_id)) then 'app_not_allowed'
    when not scopes @> array['workspace:session', 'ai:use'] then 'insufficient_scope'
  end
$$;

-- Finds a ttr_app_ token by its SHA-256. Returns its person and workspace, the scopes that both the token and the app's
-- registration currently have, and the gateway's error code if the gateway refuses the token. Returns no row if the
-- token is unknown, expired or revoked. For definers; not granted to any role.
create or replace function ai.find_app_token(token_hash bytea)
  returns table (
    token_id uuid,
    app_id uuid,
    user_id uuid,
    workspace_id uuid,
    scopes text[],
    refused text
  )
  language sql stable security invoker
as $$
  select
    t.id, t.app_id, t.user_id, t.workspace_id, s.in_force,
    case
      when p.proof_status = 'unavailable' then 'AUTH_UNAVAILABLE'
      when p.proof_status = 'mfa_required' then 'MFA_REQUIRED'
      when p.proof_status <> 'good' then 'invalid_api_key'
      when not exists (select from private.memberships_since(t.user_id, t.workspace_id, t.handed_over_at))
        then 'app_not_allowed'
      else r.refused
    end
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id
  cross join lateral private.proof_statuses(t.proof) as p (proof_status)
  cross join lateral (
    select array(select unnest(t.scopes) intersect select unnest(private.gateway_scopes(a)) order by 1) as in_force
  ) as s
  cross join lateral private.gateway_refusal(a, t.workspace_id, s.in_force) as r
  where t.token_hash = find_app_token.token_hash
    and t.revoked_at is null
    and t.expires_at > now()
$$;

-- Returns whether a key bound to the app may be used in the workspace now: the app is registered, external, enabled and
-- linked. For definers; not granted to any role.
create or replace function ai.app_can_act_in_workspace(app_id uuid, workspace_id uuid) returns boolean
  language plpgsql stable security invoker
as $$
begin
  return exists (
    select
    from private.apps a
    cross join lateral private.app_links(a, app_can_act_in_workspace.workspace_id)
    where a.id = app_can_act_in_workspace.app_id
  );
end
$$;

-- Revokes an app session, or an access or refresh token for the gateway. Also revokes all other credentials that the
-- app received through the same handoff. Does nothing if the token does not belong to the app (RFC 7009). Returns false
-- if the app did not authenticate.
-- Definer: authenticate_app is not granted to any role.
create or replace function private.revoke_app_credential(app_name text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  handoff record;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return false;
  end if;
  -- These values can be read without a lock, because the person and the handoff of a credential never change.
  select h.user_id, h.handoff_id into handoff
  from (
    select s.user_id, s.handoff_id
    from private.app_sessions s
    where s.app_id = app.id
      and (s.token_hash = revoke_app_credential.token_hash or s.previous_hash = revoke_app_credential.token_hash)
    union all
    select t.user_id, t.family_id
    from ai.app_tokens t
    where t.app_id = app.id
      and (t.token_hash = revoke_app_credential.token_hash or t.refresh_hash = revoke_app_credential.token_hash)
  ) as h;
  if found then
    perform private.lock_app_credentials(handoff.user_id);
    update private.app_sessions s
    set revoked_at = now()
    where s.handoff_id = handoff.handoff_id and s.app_id = app.id and s.revoked_at is null;
    update ai.app_tokens t
    set revoked_at = now()
    where t.family_id = handoff.handoff_id and t.app_id = app.id and t.revoked_at is null;
    perform private.withdraw_logout(handoff.handoff_id);
  end if;
  return true;
end
$$;
