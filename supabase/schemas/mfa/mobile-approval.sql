-- Mobile MFA approval: a browser that needs a second factor sends a request. A phone at AAL2 approves the request with
-- the pair code. The browser's next poll then binds the approval to its session.
--
-- States: created → approved → bound. A request can also become rejected, or locked after the fifth wrong code.
-- private.session_facts reads bound approvals.

-- Returns { outcome: listed, approvals: [{ id, createdAt, expiresAt, metadata }] } with the account's requests that
-- wait for approval, or { outcome: mfa_required } if the phone's session is not at AAL2. Never includes the pair code,
-- which is stored only as a hash.
-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.pending_mobile_approvals(claims jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select case
    when private.session_second_factor(claims) is null then jsonb_build_object('outcome', 'mfa_required')
    else jsonb_build_object(
      'outcome', 'listed',
      'approvals', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', c.id, 'createdAt', c.created_at, 'expiresAt', c.expires_at, 'metadata', c.request_metadata
          )
          order by c.created_at desc
        )
        from private.login_challenges c
        join auth.sessions s on s.id = c.session_id
        where c.user_id = private.uuid_or_null(claims ->> 'sub')
          and c.session_id <> private.uuid_or_null(claims ->> 'session_id')
          and c.kind = 'mfa_mobile'
          and c.status = 'created'
          and c.expires_at > now()
      ), '[]')
    )
  end
$$;

-- Lets a phone approve or reject a browser's request. Takes { id, claims, approve, pairCodeHash?, device }. Returns {
-- outcome: approved | rejected | wrong_code (with attemptsLeft) | mfa_required | not_found | forbidden (called by the
-- requesting session itself) | expired | conflict }.
-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.decide_mobile_approval(decision jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  claims constant jsonb := decision -> 'claims';
  approved constant boolean := (decision ->> 'approve')::boolean;
  proof constant jsonb := private.session_second_factor(claims);
  challenge private.login_challenges;
  state text;
begin
  if proof is null then
    return jsonb_build_object('outcome', 'mfa_required');
  end if;
  select c.* into challenge
  from private.login_challenges c
  where c.id = private.uuid_or_null(decision ->> 'id')
    and c.kind = 'mfa_mobile'
    and c.user_id = (claims ->> 'sub')::uuid
  for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if challenge.session_id = (claims ->> 'session_id')::uuid then
    return jsonb_build_object('outcome', 'forbidden');
  end if;
  state := private.login_challenge_state(challenge);
  if state <> 'created' then
    return jsonb_build_object('outcome', case state when 'expired' then 'expired' else 'conflict' end);
  end if;

  if approved and challenge.pair_code_hash is distinct from (decision ->> 'pairCodeHash')::bytea then
    update private.login_challenges c
    set failed_attempts = c.failed_attempts + 1,
        status = case when c.failed_attempts + 1 >= 5 then 'locked' else c.status end
    where c.id = challenge.id;
    return jsonb_build_object('outcome', 'wrong_code', 'attemptsLeft', 4 - challenge.failed_attempts);
  end if;

  update private.login_challenges c
  set status = case when approved then 'approved' else 'rejected' end,
      approved_at = case when approved then now() end,
      approver_session_id = (claims ->> 'session_id')::uuid,
      approver_factor_id = (proof ->> 'factorId')::uuid,
      second_factor_at = to_timestamp((proof ->> 'second')::float8),
      approval_metadata = jsonb_build_object('device', decision -> 'device')
  where c.id = challenge.id;
  return jsonb_build_object('outcome', case when approved then 'approved' else 'rejected' end);
end
$$;

-- Binds an approved challenge to the requesting session for 12 hours. Takes { id, secretHash, claims, proofKey }; the
-- claims include a proof made with proofKey. Returns { status: bound, validUntil }, or { status: rejected } if the
-- session would still not satisfy required MFA. Returns null if the challenge is not approved or is already bound.
-- Definer: checks the requesting session against Supabase Auth's tables, which the service role cannot read.
create or replace function private.bind_mobile_approval(binding jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  claims constant jsonb := binding -> 'claims';
  challenge private.login_challenges;
begin
  update private.login_challenges c
  set status = 'bound',
      bound_session_id = c.session_id,
      bound_at = now(),
      valid_until = now() + interval '12 hours',
      proof_key = (binding ->> 'proofKey')::bytea,
      approval_metadata = c.approval_metadata || jsonb_build_object('sessionId', c.session_id)
  where c.id = private.uuid_or_null(binding ->> 'id')
    and c.kind = 'mfa_mobile'
    and c.secret_hash = (binding ->> 'secretHash')::bytea
    and c.session_id = (claims ->> 'session_id')::uuid
    and c.user_id = (claims ->> 'sub')::uuid
    and c.status = 'approved'
    and c.expires_at > now()
  returning c.* into challenge;
  if not found then
    return null;
  end if;
  -- Rejects the approval if the session's factor was removed in the meantime, or if the account requires a newer proof.
  if not private.session_satisfies_mfa(claims) then
    update private.login_challenges c
    set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
    where c.id = challenge.id
    returning c.* into challenge;
  end if;
  return jsonb_build_object('status', challenge.status, 'validUntil', challenge.valid_until);
end
$$;

-- Returns { factorId, second } if the session reached AAL2 with its own second factor. second is the Unix time of the
-- proof, in seconds. Returns null for any other session.
-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.session_second_factor(claims jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'factorId', f.session_factor_id,
    'second', private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
  )
  from private.session_facts(claims) f
  where f.session_factor_verified
    and not f.banned
    and not f.deleted
    -- Ignores approvals, so that a session approved by a phone can't approve another session.
    and private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, true, null, floor(extract(epoch from now()))::bigint
    )
    and claims ->> 'aal' = 'aal2'
    and private.latest_amr_second(claims -> 'amr', private.second_factor_methods()) <= extract(epoch from now())
$$;
