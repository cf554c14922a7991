-- Returns the state of a session. Every request reads the state in one statement.

-- Returns the facts that must be current on every request, read in one statement: { alive, sessionId, notAfter, aal,
-- hasVerifiedFactor, mustReplacePassword, consoleRole, user: { id, email, displayName, avatarUrl, banned,
-- deleted }, policy: { state, required, since, satisfied } }. Returns { alive: false } if the session has
-- ended. policy.since is the Unix time from which required MFA accepts proofs, or null if MFA is optional.
-- policy.state is optional, required, recovery_in_progress or malformed. consoleRole is admin, finance or null.
-- Until 0.5.0: servers of release 0.3.0 require infrastructureAdmin.
-- Definer: the caller cannot read Supabase Auth's tables. A session must learn its state even if its second factor is
-- missing or its account is closed, so required MFA does not apply here. Returns facts only about the caller's own
-- token.
create or replace function public.session_state() returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  claims jsonb := private.caller_claims();
begin
  return coalesce((
    select jsonb_build_object(
      'alive', true,
      'sessionId', f.session_id,
      'notAfter', f.not_after,
      'aal', claims ->> 'aal',
      'user', jsonb_build_object(
        'id', f.user_id,
        'email', f.email,
        'displayName', p.display_name,
        'avatarUrl', p.avatar_url,
        'banned', f.banned,
        'deleted', f.deleted
      ),
      'hasVerifiedFactor', f.has_verified_factor,
      'policy', jsonb_build_object(
        'state', m.state,
        'required', m.state <> 'optional',
        'since', case when m.state in ('required', 'recovery_in_progress') then
          f.app_metadata #> '{platform_required_mfa,boundary}'
        end,
        'satisfied', not f.banned and not f.deleted and v.satisfied
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'consoleRole', private.console_role(f.user_id),
      'infrastructureAdmin', private.is_infrastructure_admin(f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second,
      floor(extract(epoch from now()))::bigint
    ) as v (satisfied)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

-- Returns the result of session_state and the active account of the browser's device, read in one statement.
-- Definer: the caller can read neither Supabase Auth's tables nor the devices. Returns facts only about the caller's
-- own token and about the device with the presented 256-bit secret.
create or replace function public.device_session_state(device_id uuid, device_secret text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return public.session_state() || jsonb_build_object(
    'device', private.device_state(device_session_state.device_id, device_session_state.device_secret)
  );
end
$$;

-- Returns whether the caller proved their identity within the last ten minutes: with the second factor if one is
-- enrolled, otherwise by a sign-in. Our pages have the same step-up rule. This function applies it to changes that can
-- be made without our pages.
-- Definer: the caller cannot read Supabase Auth's tables. Reads only facts about the caller's own token.
create or replace function private.session_is_fresh() returns boolean
  language plpgsql stable security definer set search_path = ''
as $$
declare
  current_second bigint := floor(extract(epoch from now()))::bigint;
begin
  return coalesce((
    select private.has_amr_between(
      auth.jwt() -> 'amr',
      case when f.has_verified_factor then private.second_factor_methods() else private.primary_methods() end,
      current_second - 601,
      -- The backend's clock may be slightly ahead of ours.
      current_second + 60
    )
    from private.session_facts(auth.jwt()) f
  ), false);
end
$$;
