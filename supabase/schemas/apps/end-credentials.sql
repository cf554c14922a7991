-- Ends the credentials of an app that is disabled or whose URL changes, and deletes ended ones.
--
-- Locks are taken in this order: the app, the account (private.lock_app_credentials), handoffs, app sessions, app
-- tokens, authorization codes, device authorizations, OpenID logins. A row of an account is locked before the rows that
-- are derived from it.

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

-- Deletes app credentials a day after they end, expired authorization requests, expired tokens and assertions of service
-- accounts, and clients that registered themselves once they expire, up to at_most of each kind. Returns how many it
-- deleted; 0 while another sweep runs.
create or replace function private.sweep_app_credentials(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted_count integer := 0;
  part integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- Disabling an app and closing an account lock these rows in another order, so locked ones are left to the next
  -- sweep.
  deleted_count := deleted_count + private.delete_expired_rows('private.cross_app_tokens', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.app_sessions', 'ends_at', '1 day', at_most);
  -- A used refresh token is kept until it would have expired, so that its reuse is detected.
  deleted_count := deleted_count + private.delete_expired_rows('ai.app_tokens', 'refresh_expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.authorization_requests', 'expires_at', '0', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.authorization_codes', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.device_authorizations', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.service_tokens', 'expires_at', '0', at_most);
  -- The hour covers servers whose clocks are behind: one could accept the assertion again.
  deleted_count := deleted_count + private.delete_expired_rows('private.used_assertions', 'expires_at', '1 hour', at_most);
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
  deleted_count := deleted_count + part;
  -- Tokens are deleted together with their grant. Until then, used refresh tokens are kept so that their reuse is
  -- detected.
  return deleted_count + private.delete_expired_rows('private.openid_grants', 'ends_at', '1 day', at_most);
end
$$;
