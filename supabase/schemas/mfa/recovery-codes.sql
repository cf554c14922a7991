-- Recovery codes for people who don't have their authenticator. A code either removes the account's authenticators, or
-- signs one session in for up to 12 hours and removes nothing.
--
-- States: unused → used → completed. A code that signs in becomes completed directly. A used code has a lease, so that
-- only one caller at a time can resume its recovery.

-- Replaces all recovery codes of a user. The new codes are given as hex hashes. An empty list deletes all codes.
create or replace function private.replace_mfa_recovery_codes(subject_id uuid, code_hashes text[]) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  -- Serializes replacements. Otherwise, two concurrent replacements would leave both sets of codes.
  perform pg_advisory_xact_lock(hashtextextended('private.mfa_recovery_codes ' || subject_id, 0));
  delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  insert into private.mfa_recovery_codes (user_id, code_hash)
  select subject_id, decode(hash, 'hex') from unnest(code_hashes) as hash;
end
$$;

-- Returns { left, createdAt, unfinished }: the number of unused codes of a user, when the codes were created, and
-- whether the session has used a code without completing the recovery.
create or replace function private.mfa_recovery_state(subject_id uuid, current_session_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'left', count(*) filter (where c.used_at is null),
    'createdAt', max(c.created_at),
    'unfinished', coalesce(
      bool_or(
        c.session_id = current_session_id and c.completed_at is null and c.used_at > now() - interval '24 hours'
      ),
      false
    )
  )
  from private.mfa_recovery_codes c
  where c.user_id = subject_id
$$;

-- Signs one session in with a recovery code and keeps the authenticators. The code becomes an approval of that session,
-- like the one of a phone: it satisfies required MFA for 12 hours, only for that session and browser, only with a proof
-- made with the key, and never for a step-up. It ends with the account's oldest authenticator, whose code it replaces.
-- Takes { claims, codeHash, proofKey }; the claims include a proof made with proofKey. Returns { validUntil }, or null if
-- no unused code matches or the session would still not satisfy required MFA. The code is then not used.
-- Definer: the authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.sign_in_with_recovery_code(sign_in jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  claims constant jsonb := sign_in -> 'claims';
  subject constant uuid := private.uuid_or_null(claims ->> 'sub');
  session constant uuid := private.uuid_or_null(claims ->> 'session_id');
  code_id uuid;
  approval private.login_challenges;
begin
  -- Locks the account before the code, as begin_mfa_recovery does.
  perform from auth.users u where u.id = subject for no key update;
  select c.id into code_id
  from private.mfa_recovery_codes c
  where c.user_id = subject and c.code_hash = decode(sign_in ->> 'codeHash', 'hex') and c.used_at is null
  for update;
  insert into private.login_challenges (
    kind, status, user_id, session_id, secret_hash, pair_code_hash, expires_at, approved_at, approver_session_id,
    approver_factor_id, second_factor_at, approval_metadata, bound_session_id, bound_at, valid_until, proof_key
  )
  -- The code stands for the approving session. The hashes are random, because no phone presents a code.
  select
    'mfa_mobile', 'bound', subject, session, sha256(gen_random_uuid()::text::bytea),
    sha256(gen_random_uuid()::text::bytea), now() + interval '5 minutes', now(), code_id, f.id, now(),
    jsonb_build_object(
      'method', 'recovery_code', 'device', jsonb_build_object('name', 'Recovery code'), 'sessionId', session
    ), session, now(), now() + interval '12 hours', (sign_in ->> 'proofKey')::bytea
  from auth.mfa_factors f
  where f.user_id = subject and f.status = 'verified' and code_id is not null
  order by f.created_at, f.id
  limit 1
  returning * into approval;
  if not found then
    return null;
  end if;
  if not private.session_satisfies_mfa(claims) then
    delete from private.login_challenges c where c.id = approval.id;
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = now(), session_id = session, completed_at = now()
  where c.id = code_id;
  perform private.add_account_event(subject, 'recovery_code_sign_in', session_id => session);
  return jsonb_build_object('validUntil', approval.valid_until);
end
$$;

-- Begins an MFA recovery with a code. To resume a recovery that failed midway, pass the same code. The session that
-- used the code may pass null instead. Returns the code's id. Returns null if no code matches, the policy is malformed,
-- or another caller began within the last 30 s. Marks the recovery in the account's policy, which blocks the account
-- until end_mfa_recovery is called. Advances the policy's boundary. Ends all other sessions, all app sessions and all
-- app tokens.
-- Definer: the policy is in Supabase Auth's table, which the service role cannot write.
create or replace function private.begin_mfa_recovery(subject_id uuid, current_session_id uuid, code_hash text default null)
  returns uuid
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  code_id uuid;
begin
  -- Locks the account first, as every policy change does, so that concurrent changes can't deadlock.
  select * into account from auth.users u where u.id = subject_id for no key update;
  -- An unreadable policy must be repaired by an admin.
  if not found or private.required_mfa_state(account.raw_app_meta_data) = 'malformed' then
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = coalesce(c.used_at, now()),
      session_id = current_session_id,
      lease_expires_at = now() + interval '30 seconds'
  where c.user_id = subject_id
    and c.completed_at is null
    and (c.used_at is null or c.used_at > now() - interval '24 hours')
    and (c.lease_expires_at is null or c.lease_expires_at <= now())
    and c.id = (
      select d.id
      from private.mfa_recovery_codes d
      where d.user_id = subject_id
        and d.completed_at is null
        and case
          when begin_mfa_recovery.code_hash is null then d.used_at is not null and d.session_id = current_session_id
          else d.code_hash = decode(begin_mfa_recovery.code_hash, 'hex')
        end
      order by d.used_at desc nulls last
      limit 1
    )
  returning c.id into code_id;
  if code_id is not null then
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.end_account_session(subject_id, s.id)
    from auth.sessions s
    where s.user_id = subject_id and s.id <> current_session_id;
    perform private.end_apps_of_account(subject_id);
    -- Omits signInAgain, so that the remaining session stays valid. The user signed in with it to use this code.
    update private.mfa_recovery_codes c
    set generation = (private.write_required_mfa_policy(account, '{"recovery": "in_progress"}') ->> 'generation')::bigint
    where c.id = code_id;
  end if;
  return code_id;
end
$$;

-- Ends a recovery that begin_mfa_recovery began. If completed is true and the account has no factor left, completes the
-- recovery, and unblocks the account unless its MFA policy changed during the recovery. Otherwise, the account stays
-- blocked and the recovery can be resumed immediately. Returns whether the recovery is completed.
-- Definer: the policy is in Supabase Auth's table, which the service role cannot write.
create or replace function private.end_mfa_recovery(code_id uuid, completed boolean) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  used private.mfa_recovery_codes;
  done boolean;
begin
  select u.* into account
  from auth.users u
  where u.id = (select c.user_id from private.mfa_recovery_codes c where c.id = code_id)
  for update;
  select * into used
  from private.mfa_recovery_codes c
  where c.id = code_id and c.used_at is not null and c.completed_at is null
  for update;
  if not found then
    return false;
  end if;
  done := completed and not exists (select from auth.mfa_factors f where f.user_id = account.id);
  update private.mfa_recovery_codes c
  set lease_expires_at = null, completed_at = case when done then now() end
  where c.id = code_id;
  if done and used.generation = private.required_mfa_generation(account.raw_app_meta_data) then
    perform private.write_required_mfa_policy(account, '{"recovery": "none"}');
  end if;
  return done;
end
$$;
