-- Ends the credentials that apps hold. Sign-outs, changes of the MFA policy and removed factors need no action here,
-- because every use of a credential checks them.
--
-- Locks are taken in this order: the app, the account (private.lock_app_credentials), handoffs, app sessions, app
-- tokens, authorization codes, device authorizations, OpenID logins. A row of an account is locked before the rows that
-- are derived from it.

-- Revokes an app session, or an access or refresh token for the gateway. Also revokes all other credentials that the
-- app received through the same handoff. Does nothing if the token does not belong to the app (RFC 7009). Returns false
-- if the app did not authenticate.
-- Definer: authenticate_app is not granted to any role.
create or replace function private.revoke_app_credential(app_name text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  held record;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return false;
  end if;
  -- These values can be read without a lock, because the person and the handoff of a credential never change.
  select h.user_id, h.handoff_id into held
  from (
    select s.user_id, s.handoff_id
    from private.app_sessions s
    where s.app_id = app.id
      and (s.token_hash = revoke_app_credential.token_hash or s.previous_hash = revoke_app_credential.token_hash)
    union all
    select t.user_id, t.family_id
    from ai.app_tokens t
    where t.app_id = app.id
      and (t.token_hash = revoke_app_credential.token_hash or t.refresh_hash = revoke_app_credential.token_hash)
  ) as h;
  if found then
    perform private.lock_app_credentials(held.user_id);
    update private.app_sessions s
    set revoked_at = now()
    where s.handoff_id = held.handoff_id and s.app_id = app.id and s.revoked_at is null;
    update ai.app_tokens t
    set revoked_at = now()
    where t.family_id = held.handoff_id and t.app_id = app.id and t.revoked_at is null;
    perform private.withdraw_logout(held.handoff_id);
  end if;
  return true;
end
$$;

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
-- the meantime. Returns how many ended, without ways to sign in. Keys of other accounts match nothing. Call private.lock_app_credentials before
-- reading the keys. For definers; not granted to any role.
create or replace function private.end_credentials(subject_id uuid, keys text[]) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account auth.users;
  part integer;
  ended integer;
begin
  select * into account from auth.users u where u.id = subject_id for no key update;
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended
  from (
    select a.id from auth.sessions a where a.user_id = subject_id and 'session:' || a.id = any (keys) order by a.id
  ) as s;
  update private.login_challenges c
  set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
  where c.user_id = subject_id and 'phone_approval:' || c.id = any (keys) and c.status <> 'rejected';
  get diagnostics part = row_count;
  ended := ended + part;
  -- Revokes handoff tokens before the credentials derived from them. This update waits for a redemption in progress,
  -- and the later updates also revoke the credentials that the redemption created.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and 'app_handoff:' || t.id = any (keys) and t.revoked_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id
    and s.revoked_at is null
    and ('app_session:' || s.id = any (keys) or 'app_handoff:' || s.handoff_id = any (keys));
  get diagnostics part = row_count;
  ended := ended + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.revoked_at is null
    and ('app_token:' || t.id = any (keys) or 'app_handoff:' || t.family_id = any (keys));
  get diagnostics part = row_count;
  ended := ended + part;
  update private.authorization_codes c
  set revoked_at = now()
  where c.user_id = subject_id and 'openid_code:' || c.id = any (keys) and c.revoked_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.device_authorizations d
  where d.user_id = subject_id and 'device_request:' || d.id = any (keys) and d.redeemed_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  update private.openid_grants g
  set revoked_at = now()
  where g.user_id = subject_id and 'openid_login:' || g.id = any (keys) and g.revoked_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  select ended + count(*) filter (where ai.end_connection(c.id, subject_id))
  into ended
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
  return ended;
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
create or replace function private.end_app_of_account(subject_id uuid, ended_app_id uuid) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  consents integer;
begin
  perform private.lock_app_credentials(subject_id);
  delete from private.openid_consents c where c.user_id = subject_id and c.app_id = ended_app_id;
  get diagnostics consents = row_count;
  return consents + private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.app_id = ended_app_id
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
  ended integer := private.end_all_access(subject_id);
begin
  perform private.add_account_event(subject_id, 'all_sessions_revoked', session_id => actor_session_id)
  where ended > 0;
  return ended;
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
  ended integer;
begin
  perform private.lock_app_credentials(subject_id);
  ended := private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.is_active
      and not c.is_method
      and c.session_id is distinct from actor_session_id
  ));
  perform private.add_account_event(subject_id, 'other_sessions_revoked', session_id => actor_session_id)
  where ended > 0;
  return ended;
end
$$;

-- Revokes all credentials of an app permanently. Enabling the app again does not restore them.
-- Definer: roles that write the registry need no access to the gateway's tables.
create or replace function private.revoke_app_credentials() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Locks all users of the app first, in order of their id. Takes the same lock as private.lock_app_credentials. So a
  -- concurrent refresh or disconnection waits before either side holds a row that the other needs.
  perform
  from auth.users u
  where u.id in (
    select t.user_id from private.cross_app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select s.user_id from private.app_sessions s where s.app_id = new.id and s.revoked_at is null
    union
    select t.user_id from ai.app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select c.user_id
    from private.authorization_codes c
    where new.id in (c.app_id, c.resource_id) and c.revoked_at is null
    union
    select d.user_id from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null
    union
    select g.user_id from private.openid_grants g where new.id in (g.app_id, g.resource_id) and g.revoked_at is null
  )
  order by u.id
  for no key update;
  -- Revokes each credential before those derived from it. If a credential is being redeemed, its update waits. A later
  -- update then also revokes the credential that the redemption created.
  update private.cross_app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.app_id = new.id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.authorization_codes c
  set revoked_at = now()
  where new.id in (c.app_id, c.resource_id) and c.revoked_at is null;
  delete from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null;
  update private.openid_grants g set revoked_at = now() where new.id in (g.app_id, g.resource_id) and g.revoked_at is null;
  return null;
end
$$;

-- For credentials, disabling an app is the same as deleting it.
create or replace trigger revoke_app_credentials after update of enabled on private.apps
  for each row when (old.enabled and not new.enabled)
  execute function private.revoke_app_credentials();

-- Revokes the codes and logins for a resource whose URL changes. Otherwise its tokens for the former URL would work until
-- they expire, and could be renewed for a URL that the client never asked for.
-- Definer: see private.revoke_app_credentials.
create or replace function private.revoke_resource_credentials() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- See private.revoke_app_credentials for the order of locks.
  perform
  from auth.users u
  where u.id in (
    select c.user_id from private.authorization_codes c where c.resource_id = new.id and c.revoked_at is null
    union
    select g.user_id from private.openid_grants g where g.resource_id = new.id and g.revoked_at is null
  )
  order by u.id
  for no key update;
  update private.authorization_codes c set revoked_at = now() where c.resource_id = new.id and c.revoked_at is null;
  update private.openid_grants g set revoked_at = now() where g.resource_id = new.id and g.revoked_at is null;
  return null;
end
$$;

create or replace trigger revoke_resource_credentials after update of resource_url on private.apps
  for each row when (old.resource_url is not null and old.resource_url is distinct from new.resource_url)
  execute function private.revoke_resource_credentials();

-- Deletes app credentials a day after they end, expired authorization requests, and clients that registered themselves
-- once they expire, up to at_most of each kind. Returns how many it deleted; 0 while another sweep runs.
create or replace function private.sweep_app_credentials(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  swept integer := 0;
  part integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- Disabling an app and closing an account lock these rows in another order, so locked ones are left to the next
  -- sweep.
  swept := swept + private.delete_expired_rows('private.cross_app_tokens', 'expires_at', '1 day', at_most);
  swept := swept + private.delete_expired_rows('private.app_sessions', 'ends_at', '1 day', at_most);
  -- A used refresh token is kept until it would have expired, so that its reuse is detected.
  swept := swept + private.delete_expired_rows('ai.app_tokens', 'refresh_expires_at', '1 day', at_most);
  swept := swept + private.delete_expired_rows('private.authorization_requests', 'expires_at', '0', at_most);
  swept := swept + private.delete_expired_rows('private.authorization_codes', 'expires_at', '1 day', at_most);
  swept := swept + private.delete_expired_rows('private.device_authorizations', 'expires_at', '1 day', at_most);
  -- A disabled client is kept, so that it can't register again.
  delete from private.apps a
  where a.id in (
    select c.app_id
    from private.openid_clients c
    join private.apps o on o.id = c.app_id and o.enabled
    where c.expires_at < now()
    order by c.expires_at
    limit at_most
    for update of o skip locked
  );
  get diagnostics part = row_count;
  swept := swept + part;
  -- Tokens are deleted together with their grant. Until then, used refresh tokens are kept so that their reuse is
  -- detected.
  return swept + private.delete_expired_rows('private.openid_grants', 'ends_at', '1 day', at_most);
end
$$;
