-- What every credential of an app inherits from the web session that handed it over, and what ends it. The proof of
-- required MFA says: who, by which factor, when, under which generation of the policy. Whether it still holds is the
-- rule's to say (20260923120000), asked again at every use.

create type private.mfa_proof as (
  user_id uuid,
  session_id uuid,
  factor_id uuid,
  second_factor_second bigint,
  primary_second bigint,
  generation bigint
);
comment on type private.mfa_proof is
  'What a session had proved when it handed over. Without a session: the credential outlives sign-out.';

create function private.latest_amr_second(amr jsonb, methods text[]) returns bigint
  language sql
  immutable
  security invoker
as $$
  select max((entry ->> 'timestamp')::bigint)
  from jsonb_array_elements(case when jsonb_typeof(amr) = 'array' then amr else '[]' end) as entry
  where entry ->> 'method' = any (methods) and private.is_whole_number(entry -> 'timestamp')
$$;
comment on function private.latest_amr_second(jsonb, text[]) is 'When one of the methods was last used; null where never.';
revoke execute on function private.latest_amr_second(jsonb, text[]) from public, anon, authenticated;

create function private.proof_standing(proof private.mfa_proof) returns text
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
  if proof.generation is distinct from private.policy_generation(account.app_metadata)
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
comment on function private.proof_standing(private.mfa_proof) is
  'good; over (session or account ended, policy changed, factor gone); mfa_required; or unavailable, where the policy '
  'cannot be read. For definers; granted to nobody.';
revoke execute on function private.proof_standing(private.mfa_proof) from public, anon, authenticated;

create function private.hold_app_credentials(user_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- As an update of the account does by itself, so that a new password waits here, too, and is waited for.
  perform from auth.users u where u.id = hold_app_credentials.user_id for no key update;
end
$$;
comment on function private.hold_app_credentials(uuid) is
  'One at a time for each person, before any row of theirs is read: who refreshes and who ends what apps hold of them. '
  'Else the successor that a refresh under way is about to leave would outlive what ends its token. For definers; granted '
  'to nobody.';
revoke execute on function private.hold_app_credentials(uuid) from public, anon, authenticated;
