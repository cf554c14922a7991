-- Describes service accounts for display, without hashes of secrets, and records their changes.

-- Returns what can be edited of a service account.
create or replace function private.service_account_settings(account private.service_accounts) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'name', (account).name,
    'scopes', (account).scopes,
    'allowedAddresses', to_jsonb((account).allowed_addresses),
    'enabled', (account).enabled,
    'expiresAt', ai.utc_text_microseconds((account).expires_at)
  )
$$;

-- Returns a text that differs after each edit of a service account, so that an edit of an older state can be refused.
create or replace function private.service_account_version(account private.service_accounts) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(private.service_account_settings(account)::text)
$$;

-- Returns the id by which a service account requests tokens.
create or replace function private.service_account_client_id(account_id uuid) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select 'svc_' || account_id::text
$$;

-- Returns the service account with a client id, or null for any other text.
create or replace function private.service_account_of_client(client_id text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select private.uuid_or_null(substring(client_id from '^svc_([0-9a-f-]{36})$'))
$$;

-- Returns the name under which a responsible person is shown: an email address for the platform, a display name for a
-- workspace.
create or replace function private.responsible_person_name(account private.service_accounts, person uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (account).workspace_id is null then (select u.email from auth.users u where u.id = person)
    else private.actor_name(person)
  end
$$;

-- Returns a service account for display: its settings and { id, clientId, workspaceId, state: active | disabled |
-- expired | revoked, createdAt, createdBy, revokedAt, lastUsedAt, lastUsedIp, credentials: [{ id, kind: secret | key,
-- kid, algorithm, createdAt, createdBy, expiresAt, lastUsedAt }], version }. credentials has only those that work.
-- createdBy is the person who is responsible for it, or who added the credential: an email address for the platform, a
-- display name for a workspace.
create or replace function private.describe_service_account(account_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select private.service_account_settings(s) || jsonb_build_object(
    'id', s.id,
    'clientId', private.service_account_client_id(s.id),
    'workspaceId', s.workspace_id,
    'state', case
      when s.revoked_at is not null then 'revoked'
      when not s.enabled then 'disabled'
      when s.expires_at <= now() then 'expired'
      else 'active'
    end,
    'createdAt', s.created_at,
    'createdBy', private.responsible_person_name(s, s.created_by),
    'revokedAt', s.revoked_at,
    'lastUsedAt', s.last_used_at,
    'lastUsedIp', host(s.last_used_ip),
    'credentials', coalesce((
      select jsonb_agg(jsonb_build_object(
        'id', c.id,
        'kind', case when c.public_jwk is null then 'secret' else 'key' end,
        'kid', c.kid,
        'algorithm', c.public_jwk -> 'alg',
        'createdAt', c.created_at,
        'createdBy', private.responsible_person_name(s, c.created_by),
        'expiresAt', c.expires_at,
        'lastUsedAt', c.last_used_at
      ) order by c.created_at desc, c.id)
      from private.service_account_credentials c
      where c.service_account_id = s.id and (c.expires_at is null or c.expires_at > now())
    ), '[]'),
    'version', private.service_account_version(s)
  )
  from private.service_accounts s
  where s.id = account_id
$$;

-- Returns a page of the service accounts of a workspace, or of the platform if workspace is null, sorted by name. after
-- is the name and id of the last one on the previous page. Includes revoked ones. Does not check permissions, because
-- its callers, our pages and API, do.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_service_accounts(
  workspace uuid, after text[] default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(private.describe_service_account(p.id) order by p.name, p.id), '[]')
  from (
    select l.id, l.name
    from (
      select s.id, s.name from private.service_accounts s where s.workspace_id = workspace
      union all
      select s.id, s.name from private.service_accounts s where workspace is null and s.workspace_id is null
    ) l
    where after is null or (l.name, l.id) > (after[1], after[2]::uuid)
    order by l.name, l.id
    limit page_size
  ) p
$$;

-- Returns a service account of a workspace, or of the platform if workspace is null, as
-- private.describe_service_account does, or null. Does not check permissions, like private.list_service_accounts.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.read_service_account(workspace uuid, account_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.describe_service_account(s.id)
  from private.service_accounts s
  where s.id = account_id and s.workspace_id is not distinct from workspace
$$;

-- Records a change of a service account, of the platform in the console's log, and of a workspace in the workspace's.
-- The act is { action, before, after }, where action is add, edit, enable, disable, rotate_secret, add_key,
-- remove_credential or revoke.
create or replace function private.record_service_account_change(
  change jsonb, account private.service_accounts, act jsonb
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  action constant text := act ->> 'action';
begin
  if account.workspace_id is null then
    perform private.record_admin_action(change, act || jsonb_build_object(
      'action', 'service_account.' || action, 'target', 'service account ' || account.id, 'targetName', account.name
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', change ->> 'actor', true);
  perform private.log_workspace_change(
    account.workspace_id,
    'service_account.' || case action
      when 'add' then 'created'
      when 'rotate_secret' then 'secret_rotated'
      when 'add_key' then 'key_added'
      when 'remove_credential' then 'credential_removed'
      when 'revoke' then 'revoked'
      else 'changed'
    end,
    account.id, account.name, act - 'action'
  );
end
$$;
