-- What an app's credential inherits from the web session that handed it over. Whether it still holds is asked at every use.

create or replace function private.session_proof(claims jsonb)
  returns table (refused text, proof private.mfa_proof, valid_until timestamptz)
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  facts record;
  -- Whichever second factor is the later one: of the session itself, or of the approval that is bound to it.
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
comment on function private.session_proof(jsonb) is
  'What the session of verified claims has proved, as one row: refused is unauthenticated, mfa_required, unavailable or '
  'null. valid_until is when a mobile approval that the proof rests on expires, else null. For definers; granted to nobody.';

-- Definer: asks the identity backend's tables and the rule, which the service role may not.
create or replace function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  proved record;
  app private.apps;
begin
  select * into proved from private.session_proof(claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  select * into app
  from private.apps a
  where a.name = target_app and a.kind in ('internal', 'external') and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'user', (proved.proof).user_id,
    'target', app.name,
    'targetId', app.id,
    'session', (proved.proof).session_id,
    'factor', (proved.proof).factor_id,
    'secondFactorAt', (proved.proof).second_factor_second,
    'primaryAt', (proved.proof).primary_second,
    'generation', (proved.proof).generation,
    'validUntil', proved.valid_until,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;
comment on function private.required_mfa_proof(jsonb, text, integer) is
  'What the session of verified claims has proved, for the web server to sign: {user, target, session, factor, '
  'secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt}, seconds since 1970 and times, or '
  '{refused: unauthenticated | mfa_required | unavailable | not_found}. validUntil ends what an approval lent.';

create or replace function private.handoff_proof(facts jsonb) returns private.mfa_proof
  language sql
  immutable
  security invoker
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
comment on function private.handoff_proof(jsonb) is 'The signed facts of a handoff as the rows of its credentials keep them.';

create or replace function private.proof_status(proof private.mfa_proof) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  account record;
begin
  select
    u.raw_app_meta_data as app_metadata,
    coalesce(u.banned_until > now(), false) or u.deleted_at is not null as closed,
    exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified') as has_verified_factor,
    exists (
      select from auth.mfa_factors f where f.id = proof.factor_id and f.user_id = u.id and f.status = 'verified'
    ) as factor_verified,
    proof.session_id is null or exists (
      select
      from auth.sessions s
      where s.id = proof.session_id and s.user_id = u.id and (s.not_after is null or s.not_after > now())
    ) as session_alive
  into account
  from auth.users u
  where u.id = proof.user_id;

  if not found or account.closed or not account.session_alive then
    return 'over';
  end if;
  if private.required_mfa_state(account.app_metadata) = 'malformed' then
    return 'unavailable';
  end if;
  -- Every change of the policy moves its boundary, and no proof of before it counts. A proof is tied to its factor
  -- even where the account needs none any more.
  if proof.generation is distinct from private.required_mfa_generation(account.app_metadata)
    or (proof.factor_id is not null and not account.factor_verified) then
    return 'over';
  end if;
  -- For the rule it is a second factor proved elsewhere, as a bound approval is; it knows when someone signed in, and
  -- any primary method's name will do.
  if not private.satisfies_required_mfa(
    account.app_metadata,
    jsonb_build_object('amr', jsonb_build_array(
      jsonb_build_object('method', 'password', 'timestamp', proof.primary_second)
    )),
    account.has_verified_factor,
    false,
    case when account.factor_verified then proof.second_factor_second end,
    floor(extract(epoch from now()))::bigint
  ) then
    return 'mfa_required';
  end if;
  return 'good';
end
$$;
comment on function private.proof_status(private.mfa_proof) is
  'good; over (session or account ended, policy changed, factor gone); mfa_required; or unavailable, where the policy '
  'cannot be read. For definers; granted to nobody.';

create or replace function private.lock_app_credentials(user_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- As an update of the account does by itself, so that a new password waits here, too, and is waited for.
  perform from auth.users u where u.id = lock_app_credentials.user_id for no key update;
end
$$;
comment on function private.lock_app_credentials(uuid) is
  'One at a time for each person, before any row of theirs is read: who refreshes and who ends what apps hold of them. '
  'Else the successor that a refresh under way is about to leave would outlive what ends its token. For definers; granted '
  'to nobody.';
