-- Lists, creates, changes, rotates and revokes ttr_ai_ keys. The server has already checked that the sign-in is fresh; these
-- functions check permissions.

-- Returns a page of a workspace's keys, newest first, for a member with manage_ai_keys. Returns { outcome: listed,
-- approval, keys } or { outcome: not_allowed }. before is { createdAt, id } of the last key on the previous page. Keys
-- are listed even if the workspace is not approved. With nested, replaced keys are not in the list: each key has its
-- latest replaced keys in replaced.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, nested boolean default false
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', ai.key_summaries(workspace, nested => nested, listed => array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        -- Lists only the latest key of a coding agent's connection.
        and (k.replaced_by is null or (k.connection_id is null and not nested))
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Returns the keys of a workspace that a person made and that still work, newest first: { outcome: listed, count, keys:
-- [{ id, name, lookup, lastUsedAt }] }, or { outcome: not_allowed }. Leaves out keys of coding agents, which end when
-- the person leaves. count is for members with manage_members or manage_ai_keys, and for the person. keys is empty for
-- callers without manage_ai_keys.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys_of_creator(
  member_id uuid, workspace uuid, creator_id uuid, page_size integer default 30
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  manages_keys constant boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys');
begin
  if not manages_keys
    and not private.user_has_workspace_permission(member_id, workspace, 'manage_members')
    and not (member_id = creator_id and private.is_workspace_member(member_id, workspace)) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return (
    select jsonb_build_object(
      'outcome', 'listed',
      'count', count(*),
      'keys', coalesce(jsonb_agg(
        jsonb_build_object('id', k.id, 'name', k.name, 'lookup', k.lookup, 'lastUsedAt', k.last_used_at)
        order by k.place
      ) filter (where manages_keys and k.place <= page_size), '[]')
    )
    from (
      select a.*, row_number() over (order by a.created_at desc, a.id desc) as place
      from ai.keys a
      where a.workspace_id = workspace
        and a.created_by = creator_id
        and a.connection_id is null
        and a.revoked_at is null
        and (a.expires_at is null or a.expires_at > now())
    ) as k
  );
end
$$;

-- Returns one key of a workspace in the format of ai.list_keys, for a member with manage_ai_keys. approved: the
-- workspace may rotate the key. Returns { outcome: read, approved, key } or { outcome: not_allowed | not_found }.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_keys ai.keys[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  found_keys := array(select k from ai.keys k where k.id = read_key.key_id and k.workspace_id = workspace);
  if found_keys = '{}' then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'key', ai.key_summaries(workspace, found_keys) -> 0
  );
end
$$;

-- Stores a new key. The caller has generated the key's text and shows it once, and passes only the lookup part and the
-- SHA-256 hash in hexadecimal. Outcomes: issued (with key), not_allowed, not_approved, no_payer, app_not_linked,
-- unknown_models (with param and models), too_many. too_many: the workspace has 200 live keys. no_payer: the caller is a
-- service account, and members pay for their own keys.
-- Definer: the service role cannot write keys, so every key passes these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  unknown text[] := ai.unknown_models(ai.text_list(key -> 'allowedModels'));
  new_key ai.keys;
begin
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  if ai.key_has_no_payer(member_id, workspace) then
    return jsonb_build_object('outcome', 'no_payer');
  end if;
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if ai.has_too_many_keys(workspace) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  new_key := ai.store_key(member_id, workspace, key, issue_key.lookup, issue_key.secret_hash);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(new_key, 0));
end
$$;

-- Changes the given settings of a key that works; null removes a limit. Requires manage_ai_keys and, if the key could
-- then be used for more than before, what creating a key requires. read_version is the version that the member saw, or
-- null. The budget follows the rules of ai.change_budget. Outcomes: changed and changed_meanwhile (with key),
-- not_allowed, not_approved, not_found, not_active, agent_key, unknown_models (with param and models).
-- Definer: the service role cannot write keys, so every change passes these checks.
create or replace function ai.change_key(
  member_id uuid, workspace uuid, key_id uuid, changes jsonb, read_version text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text;
  old ai.keys;
  new_key ai.keys;
  unknown text[];
  differences jsonb;
begin
  -- Budgets are compared and changed under this lock, and it comes before the locks of rows.
  perform ai.lock_policy(workspace);
  issue_permission := ai.key_issue_permission(member_id, workspace);
  if issue_permission = 'not_allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  -- Logging refers to the workspace. Deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = workspace for key share;
  select * into old from ai.keys k where k.id = change_key.key_id and k.workspace_id = workspace for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.connection_id is not null then
    return jsonb_build_object('outcome', 'agent_key');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  if read_version <> ai.key_version(old) then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'key', ai.key_summaries(workspace, array[old]) -> 0);
  end if;
  new_key := ai.apply_key_changes(old, changes);
  -- Models that the key already has may have left the catalogue.
  unknown := ai.unknown_models(array(
    select m from unnest(new_key.allowed_models) as m where m <> all (coalesce(old.allowed_models, '{}'))
  ));
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if issue_permission <> 'allowed' and ai.key_allows_more(new_key, old) then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  select jsonb_object_agg(n.key, jsonb_build_object('before', o.value, 'after', n.value)) into differences
  from jsonb_each(ai.key_settings(new_key)) n
  join jsonb_each(ai.key_settings(old)) o using (key)
  where n.value <> o.value;
  if differences is not null then
    update ai.keys k
    set
      name = new_key.name,
      environment = new_key.environment,
      expires_at = new_key.expires_at,
      allowed_models = new_key.allowed_models,
      allowed_addresses = new_key.allowed_addresses,
      requests_per_minute = new_key.requests_per_minute,
      tokens_per_minute = new_key.tokens_per_minute,
      is_strict = new_key.is_strict
    where k.id = old.id;
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.changed', old.id, new_key.name, differences);
  end if;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.change_budget(
      member_id, workspace, 'key', old.lineage_id, changes ->> 'monthlyBudgetUsd', ai.key_budget(old)::text
    );
  end if;
  return jsonb_build_object('outcome', 'changed', 'key', ai.key_summaries(workspace, array[new_key]) -> 0);
end
$$;

-- Replaces a key with a new one. The new key keeps all limits and bindings. The spend of both keys is counted together.
-- The old key works until the overlap ends. Outcomes: issued (with key), not_allowed, not_approved, no_payer, not_found,
-- not_active, agent_key. agent_key: only the coding agent can renew this key. no_payer: as in ai.issue_key, because a
-- service account would get the text of a key whose calls a member pays for.
-- Definer: the service role cannot write keys, so every key passes these checks.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  new_key ai.keys;
  creator uuid;
begin
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- Makes a concurrent rotation of the key wait. The later rotation then finds the key replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.connection_id is not null then
    return jsonb_build_object('outcome', 'agent_key');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  -- Keeps the key's creator, because calls in a free workspace are charged to the creator's credits. If the creator has
  -- left, their key would not work in a free workspace, so the caller becomes its creator.
  creator := case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end;
  if ai.key_has_no_payer(member_id, workspace) or ai.key_has_no_payer(creator, workspace) then
    return jsonb_build_object('outcome', 'no_payer');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, service_account_id, name, environment, lookup, secret_hash, external_app_id,
    allowed_models, allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace, private.person_or_null(creator), private.service_account_or_null(creator), old.name,
    old.environment, rotate_key.lookup, decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models,
    old.allowed_addresses, old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into new_key;
  update ai.keys k
  set
    replaced_by = new_key.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', new_key.id, new_key.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[new_key]) -> 0);
end
$$;

-- Revokes a key. For a coding agent's key, revokes the agent's connection. Idempotent. Requires manage_ai_keys, but the
-- workspace need not be approved. Outcomes: revoked, not_allowed, not_found.
-- Definer: the service role cannot write keys, so every revocation passes these checks.
create or replace function ai.revoke_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  revoked_key ai.keys;
  agent uuid;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select k.connection_id into agent from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  if agent is not null then
    -- A key manager who revokes another member's agent also withdraws that member's approval.
    if ai.end_connection(agent, member_id) then
      update ai.agent_access a
      set state = 'withdrawn', answered_at = now(), answered_by = private.person_or_null(member_id)
      from ai.agent_connections c
      where c.id = agent
        and c.user_id <> member_id
        and a.workspace_id = c.workspace_id
        and a.user_id = c.user_id
        and a.state = 'approved';
    end if;
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.keys k set revoked_at = now()
  where k.id = revoke_key.key_id and k.workspace_id = workspace and k.revoked_at is null
  returning * into revoked_key;
  if found then
    perform private.log_workspace_change(workspace, 'key.revoked', revoked_key.id, revoked_key.name);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  return jsonb_build_object('outcome', case when found then 'revoked' else 'not_found' end);
end
$$;

-- Stores a new key and returns its id. The caller has generated the key's text and shows it once, and passes only the
-- lookup part and the SHA-256 hash. Not granted to any API role, because this function does not check whether the
-- caller may create a key.
create or replace function ai.create_key(
  workspace_id uuid,
  created_by uuid,
  name text,
  lookup text,
  secret_hash bytea,
  environment text default 'production',
  allowed_models text[] default null,
  requests_per_minute integer default null,
  tokens_per_minute bigint default null,
  monthly_budget_usd numeric default null,
  expires_at timestamptz default null,
  entity_id text default null
) returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
#variable_conflict use_column
declare
  key_id uuid := gen_random_uuid();
begin
  perform from ai.key_approvals a where a.workspace_id = create_key.workspace_id;
  if not found then
    raise exception 'the workspace has no approval to create keys' using errcode = 'insufficient_privilege';
  end if;
  if ai.unknown_models(allowed_models) is not null then
    raise exception 'unknown models: %', array_to_string(ai.unknown_models(allowed_models), ', ')
      using errcode = 'invalid_parameter_value';
  end if;

  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, environment, allowed_models,
    requests_per_minute, tokens_per_minute, expires_at, entity_id
  )
  values (
    key_id, key_id, create_key.workspace_id, create_key.created_by, create_key.name, create_key.lookup,
    create_key.secret_hash, create_key.environment, create_key.allowed_models, create_key.requests_per_minute,
    create_key.tokens_per_minute, create_key.expires_at, create_key.entity_id
  );

  if monthly_budget_usd is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', key_id, create_key.workspace_id, monthly_budget_usd);
  end if;
  return key_id;
end
$$;
