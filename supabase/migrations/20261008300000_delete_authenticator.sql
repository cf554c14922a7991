-- Taking an authenticator from an account. The identity backend's own call knows no account that must have one; and
-- between a count of ours and its deletion the other one could be taken away.

-- Definer: factors and sessions are the identity backend's, which the service role cannot write.
create function private.delete_authenticator(subject_id uuid, actor_session_id uuid, target_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target auth.mfa_factors;
  last boolean;
begin
  -- One at a time for each account, as every change of its policy: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The backend's own rule: who has an authenticator has used it in this session.
  if not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;
  last := not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.id <> target_id and f.status = 'verified'
  );
  if last and private.required_mfa_state(account.raw_app_meta_data) <> 'optional' then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  -- As the backend does: sessions that it raised lose what it had proven.
  delete from auth.mfa_amr_claims a
  where a.authentication_method = 'totp'
    and a.session_id in (select s.id from auth.sessions s where s.user_id = subject_id and s.factor_id = target_id);
  update auth.sessions s set aal = 'aal1', factor_id = null, updated_at = now()
  where s.user_id = subject_id and s.factor_id = target_id;
  delete from auth.mfa_factors f where f.id = target_id;
  if last then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  return jsonb_build_object('outcome', 'deleted', 'name', target.friendly_name);
end
$$;
comment on function private.delete_authenticator(uuid, uuid, uuid) is
  'Takes an authenticator app from its account, and with the last one the recovery codes, which have nothing left to '
  'recover: { outcome: deleted, name }, or outcome last_of_required where the account must have one, insufficient_aal '
  'where the session has yet to prove one, not_found.';
revoke execute on function private.delete_authenticator(uuid, uuid, uuid) from public, anon, authenticated;
grant execute on function private.delete_authenticator(uuid, uuid, uuid) to service_role;
