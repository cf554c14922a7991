-- Functions that QR handoffs and mobile MFA approvals share. They begin, read and delete challenges. Only our server
-- calls these functions, with claims that it has verified.

-- Begins a challenge { id, kind, userId, sessionId, secretHash, pairCodeHash?, metadata }. Returns { outcome: begun,
-- expiresAt }, or { outcome: limited, retryAfterSeconds } if the account began 20 challenges of this kind in the last
-- 15 minutes. Expires the session's earlier challenges of the same kind.
create or replace function private.begin_login_challenge(challenge jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  challenge_kind constant text := challenge ->> 'kind';
  owner_id constant uuid := (challenge ->> 'userId')::uuid;
  asking_session_id constant uuid := (challenge ->> 'sessionId')::uuid;
  opens_at timestamptz;
  ends_at timestamptz;
begin
  -- Serialized per account, so that concurrent callers can't exceed the limit.
  perform pg_advisory_xact_lock(hashtextextended('private.begin_login_challenge ' || owner_id, 0));
  select min(r.created_at) + interval '15 minutes'
  into opens_at
  from (
    select c.created_at
    from private.login_challenges c
    where c.user_id = owner_id
      and c.kind = challenge_kind
      and c.created_at > now() - interval '15 minutes'
    order by c.created_at desc
    limit 20
  ) r
  having count(*) = 20;
  if found then
    return jsonb_build_object(
      'outcome', 'limited',
      'retryAfterSeconds', greatest(1, ceil(extract(epoch from opens_at - now())))::integer
    );
  end if;

  -- Expires the session's earlier open challenges of this kind, because the browser waits only for the latest one.
  update private.login_challenges c
  set expires_at = greatest(now(), c.created_at + interval '1 microsecond')
  where c.user_id = owner_id
    and c.session_id = asking_session_id
    and c.kind = challenge_kind
    and c.status in ('created', 'approved')
    and c.expires_at > now();

  insert into private.login_challenges as c
    (id, kind, user_id, session_id, secret_hash, pair_code_hash, request_metadata, expires_at)
  values (
    (challenge ->> 'id')::uuid,
    challenge_kind,
    owner_id,
    asking_session_id,
    (challenge ->> 'secretHash')::bytea,
    (challenge ->> 'pairCodeHash')::bytea,
    challenge -> 'metadata',
    now() + case challenge_kind when 'qr' then interval '2 minutes' else interval '5 minutes' end
  )
  returning c.expires_at into ends_at;
  return jsonb_build_object('outcome', 'begun', 'expiresAt', ends_at);
end
$$;

-- Returns the state of the challenge { id, kind, secretHash, sessionId } to the session that began the challenge or to
-- the session that was minted for it. Returns { outcome: known, status, expiresAt, validUntil, mintedSessionId }, {
-- outcome: not_found } for a wrong id or secret, or { outcome: forbidden } for any other session.
create or replace function private.read_login_challenge(challenge jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce((
    select case
      when challenge ->> 'sessionId' not in (c.session_id::text, coalesce(c.approval_metadata ->> 'mintedSessionId', ''))
        then jsonb_build_object('outcome', 'forbidden')
      else jsonb_build_object(
        'outcome', 'known',
        'status', private.login_challenge_state(c),
        'expiresAt', c.expires_at,
        'validUntil', c.valid_until,
        'mintedSessionId', c.approval_metadata -> 'mintedSessionId'
      )
    end
    from private.login_challenges c
    where c.id = private.uuid_or_null(challenge ->> 'id')
      and c.kind = challenge ->> 'kind'
      and c.secret_hash = (challenge ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;

-- Returns the public state of a challenge: created, approved, consumed, bound, rejected, locked or expired.
create or replace function private.login_challenge_state(challenge private.login_challenges) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when challenge.status in ('consumed', 'bound', 'rejected', 'locked') then challenge.status
    -- The caller that claimed the challenge can complete it only while the caller's lease is valid.
    when challenge.status = 'consuming'
      then case when challenge.lease_expires_at > now() then 'approved' else 'expired' end
    when challenge.expires_at <= now() then 'expired'
    else challenge.status
  end
$$;

-- Returns only the token claims that the required-MFA rule reads. A challenge stores these claims of its approver.
create or replace function private.mfa_claims(claims jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'sub', claims -> 'sub', 'session_id', claims -> 'session_id', 'aal', claims -> 'aal', 'amr', claims -> 'amr'
  )
$$;

-- Deletes up to at_most challenges that expired more than an hour ago, except mobile approvals that are still valid.
-- Returns the number of deleted challenges, or 0 while another sweep runs.
create or replace function private.sweep_login_challenges(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted_count integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_login_challenges', 0)) then
    return 0;
  end if;
  delete from private.login_challenges c
  where c.id = any (array(
    select o.id
    from private.login_challenges o
    where o.expires_at < now() - interval '1 hour' and (o.valid_until is null or o.valid_until < now())
    order by o.expires_at
    limit at_most
    for update skip locked
  ));
  get diagnostics deleted_count = row_count;
  return deleted_count;
end
$$;
