-- The proof that an app's credential inherits from the web session that made the handoff. Every use checks that the
-- proof is still valid.

-- Returns one row with what a session has proved, given the session's verified claims. refused is unauthenticated,
-- mfa_required, unavailable or null. If the proof depends on a mobile approval, valid_until is when the approval
-- expires; otherwise it is null. For definers; not granted to any role.
create or replace function private.session_proof(claims jsonb)
  returns table (refused text, proof private.mfa_proof, valid_until timestamptz)
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  facts record;
  -- own_second: the Unix time at which the session verified its own second factor. by_approval: whether the proof is
  -- the bound mobile approval, which is used if it is newer than own_second or if own_second is null.
  own_second bigint;
  by_approval boolean;
begin
  select * into facts from private.session_facts(claims);
  if not found or facts.banned or facts.deleted then
    refused := 'unauthenticated';
  elsif private.required_mfa_state(facts.app_metadata) = 'malformed' then
    refused := 'unavailable';
  elsif not private.satisfies_required_mfa(
    facts.app_metadata, claims, facts.has_verified_factor, facts.session_factor_verified, facts.approval_second,
    floor(extract(epoch from now()))::bigint
  ) then
    refused := 'mfa_required';
  else
    own_second := case
      when facts.session_factor_verified and claims ->> 'aal' = 'aal2'
        then private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
    end;
    by_approval := coalesce(facts.approval_second > own_second, facts.approval_second is not null);
    proof := row(
      facts.user_id,
      facts.session_id,
      case when by_approval then facts.approval_factor_id when own_second is not null then facts.session_factor_id end,
      case when by_approval then facts.approval_second else own_second end,
      private.latest_amr_second(claims -> 'amr', private.primary_methods()),
      private.required_mfa_generation(facts.app_metadata)
    )::private.mfa_proof;
    valid_until := case when by_approval then facts.approval_valid_until end;
  end if;
  return next;
end
$$;

-- Returns the proofs of the session with the given verified claims. The web server signs the result. Returns {user,
-- target, targetId, session, factor, secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt} or
-- {refused: unauthenticated | mfa_required | unavailable | not_found}. secondFactorAt and primaryAt are in seconds
-- since 1970; validUntil, issuedAt and expiresAt are timestamps. If the proof depends on a mobile approval, validUntil
-- is when the approval expires; otherwise it is null.
-- Definer: the service role may not read the identity backend's tables or apply the MFA rule.
create or replace function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  session_check record;
  app private.apps;
begin
  select * into session_check from private.session_proof(claims);
  if session_check.refused is not null then
    return jsonb_build_object('refused', session_check.refused);
  end if;
  select * into app
  from private.apps a
  where a.name = target_app and a.kind in ('internal', 'external') and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'user', (session_check.proof).user_id,
    'target', app.name,
    'targetId', app.id,
    'session', (session_check.proof).session_id,
    'factor', (session_check.proof).factor_id,
    'secondFactorAt', (session_check.proof).second_factor_second,
    'primaryAt', (session_check.proof).primary_second,
    'generation', (session_check.proof).generation,
    'validUntil', session_check.valid_until,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;

-- Converts the signed facts of a handoff (private.required_mfa_proof) to the proof that the handoff's sessions and
-- tokens store.
create or replace function private.handoff_proof(facts jsonb) returns private.mfa_proof
  language sql immutable security invoker
as $$
  select row(
    (facts ->> 'user')::uuid,
    (facts ->> 'session')::uuid,
    (facts ->> 'factor')::uuid,
    (facts ->> 'secondFactorAt')::bigint,
    (facts ->> 'primaryAt')::bigint,
    (facts ->> 'generation')::bigint
  )::private.mfa_proof
$$;

-- Returns the status of a proof, as private.proof_statuses does. Not granted to any role.
create or replace function private.proof_status(proof private.mfa_proof) returns text
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  return (select s.status from private.proof_statuses(proof) s);
end
$$;

-- Returns one row, so that a query can join it: good, over, mfa_required or unavailable. over means that the session or
-- account ended, the policy changed, or the factor was removed. unavailable means that the policy can't be read. For
-- security definer functions; not granted to any role.
create or replace function private.proof_statuses(proof private.mfa_proof) returns table (status text)
  language sql stable security invoker
as $$
  select case
    when u.id is null or u.banned_until > now() or u.deleted_at is not null
      or p.session_id is not null and not exists (
        select
        from auth.sessions s
        where s.id = p.session_id and s.user_id = u.id and (s.not_after is null or s.not_after > now())
      ) then 'over'
    when private.required_mfa_state(u.raw_app_meta_data) = 'malformed' then 'unavailable'
    -- Every policy change starts a new generation, and proofs of earlier generations don't count. A proof by a factor
    -- also ends when the factor is removed, even if the account no longer requires MFA.
    when p.generation is distinct from private.required_mfa_generation(u.raw_app_meta_data)
      or p.factor_id is not null and not f.is_verified then 'over'
    -- Presents the second factor to the rule as a mobile approval at the same time. Presents the sign-in as a password
    -- sign-in, because the rule accepts any primary method.
    when not private.satisfies_required_mfa(
      u.raw_app_meta_data,
      jsonb_build_object('amr', jsonb_build_array(
        jsonb_build_object('method', 'password', 'timestamp', p.primary_second)
      )),
      exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
      false,
      case when f.is_verified then p.second_factor_second end,
      floor(extract(epoch from now()))::bigint
    ) then 'mfa_required'
    else 'good'
  end
  from (select (proof).* offset 0) as p
  left join auth.users u on u.id = p.user_id
  cross join lateral (
    select exists (
      select from auth.mfa_factors f where f.id = p.factor_id and f.user_id = u.id and f.status = 'verified'
    ) as is_verified
    offset 0
  ) as f
$$;

-- Locks a person's account, so that refreshes and revocations of the person's app credentials run one after another.
-- Call it before reading any of these credentials. Otherwise, a refresh in progress could create a token that survives
-- the revocation. For definers; not granted to any role.
create or replace function private.lock_app_credentials(user_id uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  -- Takes the lock that an update of the account takes, so that a caller and a password change wait for each other.
  perform from auth.users u where u.id = lock_app_credentials.user_id for no key update;
end
$$;
