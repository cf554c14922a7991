-- Ends what opens an account or acts for it (accounts/credentials.sql). Sign-outs, changes of the MFA policy and removed
-- factors need no action here, because every use of a credential checks them. apps/end-credentials.sql has the order of
-- locks.

-- Revokes all app credentials of a user permanently. Lifting a ban does not restore them.
-- Definer: the identity backend changes its users, but has no rights in this schema.
create or replace function private.revoke_user_app_credentials() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.is_new_password(old.encrypted_password, new.encrypted_password)
    and old.banned_until is not distinct from new.banned_until
    and old.deleted_at is not distinct from new.deleted_at then
    return null;
  end if;
  perform private.end_apps_of_account(new.id);
  return null;
end
$$;

-- Ends credentials of an account by their keys in private.account_credentials, and those that were derived from them in
-- the meantime. Returns how many ended, without ways to sign in. Keys of other accounts match nothing. Service accounts
-- are not ended. Call private.lock_app_credentials before reading the keys. For definers; not granted to any role.
create or replace function private.end_credentials(subject_id uuid, keys text[]) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account auth.users;
  part integer;
  ended_count integer;
begin
  select * into account from auth.users u where u.id = subject_id for no key update;
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended_count
  from (
    select a.id from auth.sessions a where a.user_id = subject_id and 'session:' || a.id = any (keys) order by a.id
  ) as s;
  update private.login_challenges c
  set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
  where c.user_id = subject_id and 'phone_approval:' || c.id = any (keys) and c.status <> 'rejected';
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  -- Revokes handoff tokens before the credentials derived from them. This update waits for a redemption in progress,
  -- and the later updates also revoke the credentials that the redemption created.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and 'app_handoff:' || t.id = any (keys) and t.revoked_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id
    and s.revoked_at is null
    and ('app_session:' || s.id = any (keys) or 'app_handoff:' || s.handoff_id = any (keys));
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.revoked_at is null
    and ('app_token:' || t.id = any (keys) or 'app_handoff:' || t.family_id = any (keys));
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update private.authorization_codes c
  set revoked_at = now()
  where c.user_id = subject_id and 'openid_code:' || c.id = any (keys) and c.revoked_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  delete from private.device_authorizations d
  where d.user_id = subject_id and 'device_request:' || d.id = any (keys) and d.redeemed_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update private.openid_grants g
  set revoked_at = now()
  where g.user_id = subject_id and 'openid_login:' || g.id = any (keys) and g.revoked_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  select ended_count + count(*) filter (where ai.end_connection(c.id, subject_id))
  into ended_count
  from ai.agent_connections c
  where c.user_id = subject_id and 'agent_connection:' || c.id = any (keys);
  update private.recovery_credentials r
  set superseded_at = now()
  where r.email = lower(account.email)
    and 'recovery_mail:' || r.id = any (keys)
    and r.consumed_at is null
    and r.superseded_at is null;

  if exists (select from unnest(keys) as k (key) where k.key like 'identity:%') then
    perform private.keep_email_identity(account);
  end if;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = subject_id and 'identity:' || i.id = any (keys);
  perform private.delete_auth_passkey(p.id)
  from auth.webauthn_credentials p
  where p.user_id = subject_id and 'passkey:' || p.id = any (keys);
  perform private.delete_auth_factor(subject_id, f.id)
  from auth.mfa_factors f
  where f.user_id = subject_id and 'authenticator:' || f.id = any (keys);
  -- Without an authenticator, its recovery codes are of no use.
  delete from private.mfa_recovery_codes c
  where c.user_id = subject_id
    and (
      'recovery_code:' || c.id = any (keys)
      or not exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
        and exists (select from unnest(keys) as k (key) where k.key like 'authenticator:%')
    );
  if 'password:' || subject_id = any (keys) then
    perform private.remove_password(subject_id);
  end if;
  return ended_count;
end
$$;

-- Revokes everything that apps hold for a user: sessions, tokens, OpenID logins, and handoffs, codes and approvals that
-- are not redeemed yet. Consents remain. For definers; not granted to any role.
create or replace function private.end_apps_of_account(subject_id uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  perform private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id and c.app_id is not null and c.is_active
  ));
end
$$;

-- Revokes everything that one app holds for a user: sessions, tokens, OpenID logins, the consent, and handoffs, codes
-- and approvals that are not redeemed yet. Returns how many it revoked. For definers; not granted to any role.
create or replace function private.end_app_of_account(subject_id uuid, target_app_id uuid) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  consents integer;
begin
  perform private.lock_app_credentials(subject_id);
  delete from private.openid_consents c where c.user_id = subject_id and c.app_id = target_app_id;
  get diagnostics consents = row_count;
  return consents + private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.app_id = target_app_id
      and c.is_active
      -- A redemption that began before the expiry may still be in progress.
      and c.ends_at > now() - interval '1 minute'
  ));
end
$$;

-- Signs an account out: ends every session, app, device login and agent connection, and approvals that are not redeemed
-- yet. Keeps ways to sign in. Returns how many credentials ended. For definers; not granted to any role.
create or replace function private.end_all_access(subject_id uuid) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  return private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id and c.is_active and not c.is_method
  ));
end
$$;

-- Signs an account out of every device, app and agent, records the event, and notifies the owner. Returns how many
-- credentials ended. Concurrent calls record only one event.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_out_everywhere(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended_count integer := private.end_all_access(subject_id);
begin
  perform private.add_account_event(subject_id, 'all_sessions_revoked', session_id => actor_session_id)
  where ended_count > 0;
  return ended_count;
end
$$;

-- Ends every session of an account except the calling one, and every app, device login and agent connection that does
-- not end with the calling session. Records the event and notifies the owner. Returns how many credentials ended.
-- Concurrent calls record only one event.
-- Definer: the service role cannot write Supabase Auth's sessions. Auth's own sign-out does not report whether any
-- session ended.
create or replace function private.end_other_sessions(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended_count integer;
begin
  perform private.lock_app_credentials(subject_id);
  ended_count := private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.is_active
      and not c.is_method
      and c.session_id is distinct from actor_session_id
  ));
  perform private.add_account_event(subject_id, 'other_sessions_revoked', session_id => actor_session_id)
  where ended_count > 0;
  return ended_count;
end
$$;
