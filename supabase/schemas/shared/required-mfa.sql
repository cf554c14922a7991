-- The rule of required MFA decides whether the proofs of a session are sufficient. Row-level security, the web server
-- and the gateway all call these functions. The test vectors in supabase/tests/shared/required-mfa-vectors.json define
-- the expected results.
--
-- The policy is platform_required_mfa in auth.users.raw_app_meta_data:
-- - { version: 1, required, boundary, primaryBoundary, recovery: "none" | "in_progress", generation }
--
-- Boundaries are whole seconds. The policy is read from the row, because a token may be older than the policy.

-- Returns whether the session with these verified claims satisfies required MFA. Not granted to any role, because it
-- trusts the claims.
create or replace function private.session_satisfies_mfa(claims jsonb) returns boolean
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  -- No row (session ended, account deleted) yields null, which counts as false.
  return coalesce((
    select not f.banned
      and not f.deleted
      and private.satisfies_required_mfa(
        f.app_metadata,
        claims,
        f.has_verified_factor,
        f.session_factor_verified,
        f.approval_second,
        floor(extract(epoch from now()))::bigint
      )
    from private.session_facts(claims) f
  ), false);
end
$$;

-- Returns the current facts about a token's session. Returns no row if the session has ended or belongs to another
-- user. Includes a mobile approval only if the claims prove that the browser holds the approval's cookie.
create or replace function private.session_facts(claims jsonb)
  returns table (
    user_id uuid,
    session_id uuid,
    not_after timestamptz,
    email text,
    banned boolean,
    deleted boolean,
    app_metadata jsonb,
    has_verified_factor boolean,
    session_factor_verified boolean,
    session_factor_id uuid,
    approval_second bigint,
    approval_factor_id uuid,
    approval_valid_until timestamptz
  )
  language sql stable security invoker
as $$
  select
    u.id,
    s.id,
    s.not_after,
    u.email::text,
    coalesce(u.banned_until > now(), false),
    u.deleted_at is not null,
    u.raw_app_meta_data,
    exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
    exists (
      select from auth.mfa_factors f where f.id = s.factor_id and f.user_id = u.id and f.status = 'verified'
    ),
    s.factor_id,
    floor(extract(epoch from a.second_factor_at))::bigint,
    a.approver_factor_id,
    a.valid_until
  from auth.sessions s
  join auth.users u on u.id = s.user_id
  left join lateral (
    select c.second_factor_at, c.approver_factor_id, c.valid_until
    from private.login_challenges c
    join auth.mfa_factors f on f.id = c.approver_factor_id
    where c.bound_session_id = s.id
      and c.user_id = u.id
      and c.kind = 'mfa_mobile'
      and c.status = 'bound'
      and c.valid_until > now()
      and private.is_approval_proven(c, claims ->> 'approval_proof')
      and f.user_id = u.id
      and f.status = 'verified'
    order by c.second_factor_at desc
    limit 1
  ) a on true
  where s.id = private.uuid_or_null(claims ->> 'session_id')
    and u.id = private.uuid_or_null(claims ->> 'sub')
    and (s.not_after is null or s.not_after > now())
$$;

-- Returns whether a proof shows that our server saw the approval's cookie within the last minute. The proof is
-- "<second>.<HMAC-SHA-256 in hex>". The HMAC is computed with the approval's key over "<session id> <second>".
create or replace function private.is_approval_proven(approval private.login_challenges, proof text) returns boolean
  language sql stable security invoker
as $$
  select case
    when proof ~ '^[0-9]{10}[.][0-9a-f]{64}$' then
      left(proof, 10)::bigint
        between floor(extract(epoch from now()))::bigint - 60 and floor(extract(epoch from now()))::bigint + 60
      -- Hashes are compared, so that the timing reveals nothing about the expected value.
      and sha256(decode(right(proof, 64), 'hex')) = sha256(extensions.hmac(
        convert_to((approval).bound_session_id || ' ' || left(proof, 10), 'UTF8'), (approval).proof_key, 'sha256'
      ))
    else false
  end
$$;

-- Returns the claims of a Data API caller, plus the proof of a mobile approval that our server sends as a header.
-- PostgREST stores a request's headers in request.headers, with their names in lower case.
create or replace function private.caller_claims() returns jsonb
  language sql stable security invoker
as $$
  select auth.jwt() || jsonb_build_object(
    'approval_proof', nullif(current_setting('request.headers', true), '')::jsonb -> 'x-mfa-approval'
  )
$$;

-- Returns whether the given facts satisfy required MFA. Reads no tables, so that tests can call it with test vectors
-- alone. approval_second is null if no approval is bound to the session.
create or replace function private.satisfies_required_mfa(
  app_metadata jsonb,
  claims jsonb,
  has_verified_factor boolean,
  session_factor_verified boolean,
  approval_second bigint,
  current_second bigint
) returns boolean
  language plpgsql immutable security invoker set search_path = ''
as $$
declare
  state text := private.required_mfa_state(app_metadata);
  policy jsonb := app_metadata -> 'platform_required_mfa';
  -- If no policy requires MFA, a proof of any age counts, but never one from the future.
  boundary bigint := -1;
  second_factor boolean;
begin
  if state in ('malformed', 'recovery_in_progress') then
    return false;
  end if;
  if state = 'optional' and not has_verified_factor then
    return true;
  end if;
  if state = 'required' then
    boundary := (policy -> 'boundary')::bigint;
  end if;

  second_factor :=
    session_factor_verified
    and claims ->> 'aal' = 'aal2'
    and private.has_amr_between(claims -> 'amr', private.second_factor_methods(), boundary, current_second);
  if second_factor is not true
    and (approval_second > boundary and approval_second <= current_second) is not true then
    return false;
  end if;

  if state = 'required' and private.is_integer(policy -> 'primaryBoundary') then
    return private.has_amr_between(
      claims -> 'amr',
      private.primary_methods(),
      (policy -> 'primaryBoundary')::bigint,
      current_second
    );
  end if;
  return true;
end
$$;

-- Returns the state of an account's policy: optional, required, recovery_in_progress or malformed. In the last two
-- states, every session is refused.
create or replace function private.required_mfa_state(app_metadata jsonb) returns text
  language plpgsql immutable security invoker set search_path = ''
as $$
declare
  policy jsonb := app_metadata -> 'platform_required_mfa';
begin
  if policy is null then
    return 'optional';
  end if;

  if (
    jsonb_typeof(policy) = 'object'
    and policy -> 'version' = '1'
    and jsonb_typeof(policy -> 'required') = 'boolean'
    and private.is_integer(policy -> 'boundary')
    and (
      coalesce(policy -> 'primaryBoundary', 'null') = 'null'
      or private.is_integer(policy -> 'primaryBoundary')
    )
    and policy ->> 'recovery' in ('none', 'in_progress')
    and private.is_integer(policy -> 'generation')
  ) is not true then
    return 'malformed';
  end if;

  if policy ->> 'recovery' = 'in_progress' then
    return 'recovery_in_progress';
  end if;
  return case when (policy -> 'required')::boolean then 'required' else 'optional' end;
end
$$;

-- Returns the generation of the account's current policy; null before the first policy.
create or replace function private.required_mfa_generation(app_metadata jsonb) returns bigint
  language sql immutable security invoker
as $$
  select case
    when private.is_integer(app_metadata -> 'platform_required_mfa' -> 'generation')
      then (app_metadata -> 'platform_required_mfa' -> 'generation')::bigint
  end
$$;

-- Returns whether the amr claim (RFC 8176) contains one of the methods with a time after after_second and at or before
-- until_second.
create or replace function private.has_amr_between(amr jsonb, methods text[], after_second bigint, until_second bigint)
  returns boolean
  -- A path instead of a subquery, so that Postgres can inline the function. Stable like jsonb_build_object.
  language sql stable security invoker
as $$
  select coalesce(
    jsonb_path_exists(
      amr,
      -- A strict path finds nothing in an entry of another form. The numbers are those of private.is_integer.
      'strict $[*] ? (
        @.method == $methods[*] && @.timestamp == @.timestamp.floor()
        && @.timestamp >= 0 && @.timestamp <= 9007199254740991 && @.timestamp > $after && @.timestamp <= $until
      )',
      jsonb_build_object('methods', methods, 'after', after_second, 'until', until_second),
      silent => true
    ),
    false
  )
$$;

-- Returns the latest time at which one of the methods was used, in Unix seconds; null if none was used.
create or replace function private.latest_amr_second(amr jsonb, methods text[]) returns bigint
  language sql immutable security invoker
as $$
  select max((entry ->> 'timestamp')::bigint)
  from jsonb_array_elements(case when jsonb_typeof(amr) = 'array' then amr else '[]' end) as entry
  where entry ->> 'method' = any (methods) and private.is_integer(entry -> 'timestamp')
$$;

-- Returns the amr methods that prove a second factor.
create or replace function private.second_factor_methods() returns text[]
  language sql immutable security invoker
as $$
  select array['totp', 'mfa/phone', 'mfa/webauthn']
$$;

-- Returns the amr methods that sign a person in.
create or replace function private.primary_methods() returns text[]
  language sql immutable security invoker
as $$
  select array[
    'password', 'oauth', 'otp', 'magiclink', 'recovery', 'invite', 'passkey', 'sso/saml', 'web3', 'email/signup',
    'email_change'
  ]
$$;

-- Returns whether a value is a non-negative integer. Call it before each cast, so that malformed metadata cannot raise
-- an error.
create or replace function private.is_integer(value jsonb) returns boolean
  language sql immutable security invoker
as $$
  -- The limit is the largest integer that JavaScript represents exactly, because JavaScript code reads the same
  -- numbers.
  select case
    when jsonb_typeof(value) = 'number'
      then value::numeric between 0 and 9007199254740991 and value::numeric = trunc(value::numeric)
    else false
  end
$$;
