-- QR handoff: a signed-in browser creates a request, a phone that is signed in to the same account approves it, and the
-- browser's next poll returns a session.
--
-- States: created → approved → consuming → consumed. Only the caller that claimed a challenge can reset it from
-- consuming to approved.

-- Approves or rejects a QR challenge on behalf of a phone: { id, secretHash, claims, approve, device }. Returns
-- approved, rejected, not_found, forbidden, mfa_required, expired or conflict. forbidden: the phone is signed in to
-- another account, or its session is the one that requested the handoff. conflict: the challenge was already decided.
-- Definer: checks in Supabase Auth's tables whether the approver's session satisfies the account's MFA policy.
create or replace function private.decide_qr_challenge(decision jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  claims constant jsonb := private.mfa_claims(decision -> 'claims');
  approved constant boolean := (decision ->> 'approve')::boolean;
  challenge private.login_challenges;
  state text;
begin
  select c.* into challenge
  from private.login_challenges c
  where c.id = private.uuid_or_null(decision ->> 'id')
    and c.kind = 'qr'
    and c.secret_hash = (decision ->> 'secretHash')::bytea
  for update;
  if not found then
    return 'not_found';
  end if;
  if challenge.user_id <> (claims ->> 'sub')::uuid or challenge.session_id = (claims ->> 'session_id')::uuid then
    return 'forbidden';
  end if;
  if not private.session_satisfies_mfa(claims) then
    return 'mfa_required';
  end if;
  state := private.login_challenge_state(challenge);
  if state <> 'created' then
    return case state when 'expired' then 'expired' else 'conflict' end;
  end if;

  update private.login_challenges c
  set status = case when approved then 'approved' else 'rejected' end,
      approved_at = case when approved then now() end,
      approver_session_id = (claims ->> 'session_id')::uuid,
      approval_metadata = jsonb_build_object('device', decision -> 'device', 'claims', claims)
  where c.id = challenge.id;
  return case when approved then 'approved' else 'rejected' end;
end
$$;

-- Returns a QR challenge { id, secretHash, userId, sessionId } for display on the phone before the user decides.
-- Returns { outcome: known, id, status, createdAt, expiresAt, metadata }, { outcome: not_found } for a wrong id or
-- secret, or { outcome: forbidden } if the phone uses another account or the session that requested the handoff.
create or replace function private.read_qr_request(request jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce((
    select case
      when c.user_id <> (request ->> 'userId')::uuid or c.session_id = (request ->> 'sessionId')::uuid
        then jsonb_build_object('outcome', 'forbidden')
      else jsonb_build_object(
        'outcome', 'known',
        'id', c.id,
        'status', private.login_challenge_state(c),
        'createdAt', c.created_at,
        'expiresAt', c.expires_at,
        'metadata', c.request_metadata
      )
    end
    from private.login_challenges c
    where c.id = (request ->> 'id')::uuid and c.kind = 'qr' and c.secret_hash = (request ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;

-- Claims an approved challenge for the session that requested it: { id, secretHash, claims }. Only one caller gets the
-- result claimed, and must complete the challenge within 30 s. Other callers get the challenge's public state,
-- mfa_required or not_found. Rejects the challenge permanently if the approver has signed out or no longer satisfies
-- the account's policy.
-- Definer: checks in Supabase Auth's tables whether both sessions satisfy the account's MFA policy.
create or replace function private.claim_qr_challenge(claim jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  claims constant jsonb := claim -> 'claims';
  challenge private.login_challenges;
begin
  select c.* into challenge
  from private.login_challenges c
  where c.id = private.uuid_or_null(claim ->> 'id')
    and c.kind = 'qr'
    and c.secret_hash = (claim ->> 'secretHash')::bytea
    and c.session_id = (claims ->> 'session_id')::uuid
    and c.user_id = (claims ->> 'sub')::uuid
  for update;
  if not found then
    return 'not_found';
  end if;
  if challenge.status <> 'approved' or challenge.expires_at <= now() then
    return private.login_challenge_state(challenge);
  end if;
  if not private.session_satisfies_mfa(claims) then
    return 'mfa_required';
  end if;
  if not private.session_satisfies_mfa(challenge.approval_metadata -> 'claims') then
    update private.login_challenges c set status = 'rejected' where c.id = challenge.id;
    return 'rejected';
  end if;
  update private.login_challenges c
  set status = 'consuming', lease_expires_at = now() + interval '30 seconds'
  where c.id = challenge.id;
  return 'claimed';
end
$$;

-- Resets a claimed challenge to approved. Only the caller that claimed the challenge may call this, and only if no
-- session was minted.
create or replace function private.release_qr_challenge(challenge_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.login_challenges c
  set status = 'approved', lease_expires_at = null
  where c.id = challenge_id and c.kind = 'qr' and c.status = 'consuming'
$$;

-- Completes a claim with the session that was minted for it: { id, claims, mintedSessionId }. Returns consumed, expired
-- or rejected. If consumed, the session has the approver's sign-in time. Otherwise the session must not be sent to the
-- browser.
-- Definer: sessions and their proofs are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.complete_qr_challenge(completion jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  minted constant uuid := (completion ->> 'mintedSessionId')::uuid;
  challenge private.login_challenges;
  approver jsonb;
  signed_in_at timestamptz;
begin
  perform private.lock_accounts(array(
    select c.user_id from private.login_challenges c where c.id = (completion ->> 'id')::uuid
  ));
  select c.* into challenge
  from private.login_challenges c
  where c.id = (completion ->> 'id')::uuid and c.kind = 'qr' and c.status = 'consuming' and c.lease_expires_at > now()
  for update;
  if not found then
    return 'expired';
  end if;
  approver := challenge.approval_metadata -> 'claims';
  if not (
    private.session_satisfies_mfa(completion -> 'claims')
    and (completion -> 'claims' ->> 'session_id')::uuid = challenge.session_id
    and private.session_satisfies_mfa(approver)
    and exists (select from auth.sessions s where s.id = minted and s.user_id = challenge.user_id)
  ) then
    update private.login_challenges c set status = 'rejected' where c.id = challenge.id;
    return 'rejected';
  end if;

  -- Sets the session's sign-in time to the approver's, because approving a QR code does not count as a new sign-in.
  -- Every token that the backend issues for the session contains this time.
  signed_in_at := to_timestamp(coalesce(private.latest_amr_second(approver -> 'amr', private.primary_methods()), 0));
  perform private.set_session_sign_in_time(minted, signed_in_at);
  update private.login_challenges c
  set status = 'consumed',
      consumed_at = now(),
      approval_metadata = c.approval_metadata || jsonb_build_object('mintedSessionId', minted)
  where c.id = challenge.id;
  return 'consumed';
end
$$;
