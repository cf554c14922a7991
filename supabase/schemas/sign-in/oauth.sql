-- Signs in with an OAuth provider, or links a provider's identity to an account. An attempt begins on our server and is
-- completed only once, in the same browser. Supabase Auth creates or links the identity before the browser returns, so
-- our server inspects the result before it exchanges the code.

-- Begins an attempt to sign in with a provider or to link one: { stateHash (hex), purpose, provider, userId, sessionId
-- }. Returns when the attempt expires.
create or replace function private.begin_oauth_attempt(attempt jsonb) returns timestamptz
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.oauth_attempts (state_hash, purpose, provider, user_id, session_id)
  values (
    decode(attempt ->> 'stateHash', 'hex'),
    attempt ->> 'purpose',
    attempt ->> 'provider',
    (attempt ->> 'userId')::uuid,
    (attempt ->> 'sessionId')::uuid
  )
  returning expires_at
$$;

-- Returns the result of an attempt, before the server acts on the result: { flow: { userId, email, closed, linkedTo,
-- identity: { email, issuer, confirmed, addedByApp } } }. flow is null if the code does not belong to the attempt. Returns null if
-- the attempt was used or has expired.
-- Definer: flows and identities are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.inspect_oauth_attempt(attempt_hash text, code text, challenge text) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'flow', (
      select jsonb_build_object(
        'userId', u.id,
        'email', u.email,
        'closed', u.deleted_at is not null or coalesce(u.banned_until > now(), false),
        'linkedTo', f.linking_target_id,
        'identity', jsonb_build_object(
          'email', i.email,
          'issuer', i.identity_data ->> 'iss',
          'confirmed', not private.is_unconfirmed_identity(i.id),
          'addedByApp', exists (select from private.unconfirmed_additions n where n.target_id = i.id)
        )
      )
      from auth.flow_state f
      join auth.users u on u.id = f.user_id
      -- Supabase Auth completes a flow and writes the flow's identity in one transaction, so both rows have the same
      -- xmin.
      join auth.identities i on i.user_id = f.user_id and i.provider = f.provider_type and i.xmin = f.xmin
      where f.auth_code = inspect_oauth_attempt.code
        and f.code_challenge = inspect_oauth_attempt.challenge
        and f.provider_type = a.provider
    )
  )
  from private.oauth_attempts a
  where a.state_hash = decode(attempt_hash, 'hex') and a.used_at is null and a.expires_at > now()
$$;

-- Completes an attempt with a verdict. Returns true to only one caller. sign_in keeps the code valid, so that it can be
-- exchanged. link confirms the identity and voids the code. refuse voids the code, and removes the account or the
-- identity that the attempt created.
-- Definer: reverts changes in Supabase Auth's tables, which the service role cannot write.
create or replace function private.complete_oauth_attempt(attempt_hash text, code text, challenge text, verdict text) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  attempt private.oauth_attempts;
  flow record;
  identity record;
begin
  update private.oauth_attempts a
  set used_at = now()
  where a.state_hash = decode(attempt_hash, 'hex')
    and a.used_at is null
    and a.expires_at > now()
    and verdict = any (case a.purpose when 'link' then array['link', 'refuse'] else array['sign_in', 'refuse'] end)
  returning a.* into attempt;
  if not found then
    return false;
  end if;
  if verdict = 'sign_in' then
    return true;
  end if;

  select f.id, f.xmin as written_by, f.user_id, f.linking_target_id, f.provider_type, f.created_at
  into flow
  from auth.flow_state f
  where f.auth_code = code and f.code_challenge = challenge and f.provider_type = attempt.provider
  for update;
  if not found then
    return verdict = 'refuse';
  end if;
  select i.id, i.provider, i.email,
    -- An identity that a direct call to Supabase Auth linked during the flow does not count as new. Its event is kept.
    i.created_at >= flow.created_at
      and not exists (select from private.unconfirmed_additions a where a.target_id = i.id) as is_new,
    -- Keeps an identity that an app linked. Only the owner confirms or removes it, in the access review.
    not exists (select from private.unconfirmed_additions a where a.target_id = i.id)
      and (
        i.created_at >= flow.created_at
        or exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
      ) as may_go
  into identity
  from auth.identities i
  where i.user_id = flow.user_id and i.provider = flow.provider_type and i.xmin = flow.written_by;

  -- Deletes the flow, so that its code cannot be exchanged for a session. Neither a link nor a refused sign-in needs a
  -- session.
  perform private.delete_auth_flow(flow.id);

  if verdict = 'link' then
    if identity.id is null or flow.linking_target_id is distinct from attempt.user_id then
      return false;
    end if;
    delete from private.unconfirmed_identities n where n.identity_id = identity.id;
    if found then
      perform private.record_addition(
        attempt.user_id, 'identity', identity.id, true,
        jsonb_build_object('provider', identity.provider, 'email', identity.email)
      );
    end if;
    return true;
  end if;

  if not private.delete_unused_auth_user(flow.user_id, flow.created_at) and identity.may_go then
    delete from public.security_events e
    where e.target_id = identity.id and e.created_at >= flow.created_at and identity.is_new;
    perform set_config('gatehouse.takes_back', case when identity.is_new then 'on' else 'off' end, true);
    perform private.remove_identity(identity.id);
    perform set_config('gatehouse.takes_back', 'off', true);
  end if;
  return true;
end
$$;

-- Deletes up to at_most expired attempts, and up to at_most identities of links that were never completed. Returns the
-- number of deleted rows, or 0 if another sweep is running.
-- Definer: removes identities from Supabase Auth's tables, which the service role cannot write.
create or replace function private.sweep_oauth_attempts(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  deleted_count integer;
  removed integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_oauth_attempts', 0)) then
    return 0;
  end if;
  deleted_count := private.delete_expired_rows('private.oauth_attempts', 'expires_at', '0', at_most);
  -- Keeps unconfirmed identities for a little longer than an attempt's lifetime, because a link may still be in
  -- progress.
  perform private.remove_identity(n.identity_id)
  from (
    select o.identity_id from private.unconfirmed_identities o
    where o.created_at < now() - interval '15 minutes' order by o.created_at limit at_most
  ) as n;
  get diagnostics removed = row_count;
  return deleted_count + removed;
end
$$;
