-- Checks whether ttr_ai_ keys may be created, and stores them. Used by the studio and by coding agents.

-- Stores a new key. The caller must have checked ai.key_issue_permission. Logs only the creation of the first key of a
-- lineage. connection_id is the coding agent's connection if the key belongs to an
-- agent.
create or replace function ai.store_key(
  member_id uuid,
  workspace uuid,
  key jsonb,
  lookup text,
  secret_hash text,
  lineage uuid default null,
  connection_id uuid default null
) returns ai.keys
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  new_key ai.keys;
begin
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id, connection_id,
    service_account_id
  )
  select
    id, coalesce(lineage, id), workspace, private.person_or_null(member_id), key ->> 'name',
    coalesce(key ->> 'environment', 'production'),
    store_key.lookup, decode(store_key.secret_hash, 'hex'), (key ->> 'externalAppId')::uuid,
    ai.text_list(key -> 'allowedModels'), ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId', store_key.connection_id,
    private.service_account_or_null(member_id)
  from (select gen_random_uuid() as id) as made_id
  returning * into new_key;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', new_key.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  if lineage is null
    or lineage = store_key.connection_id
    and not exists (select from ai.keys k where k.connection_id = lineage and k.id <> new_key.id) then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.created', new_key.id, new_key.name);
  end if;
  return new_key;
end
$$;

-- Returns whether a key's calls would have no payer: a service account creates it, and members pay on the workspace's
-- plan.
create or replace function ai.key_has_no_payer(creator_id uuid, workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.service_account_or_null(creator_id) is not null and exists (
    select
    from public.workspaces w
    join ai.plans p on p.id = w.plan_id
    where w.id = workspace and p.payer = 'member'
  )
$$;

-- Returns whether a workspace has reached its limit of 200 live keys. For a coding agent, counts only the latest key of
-- each connection.
create or replace function ai.has_too_many_keys(workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select count(*) >= 200
  from ai.keys k
  where k.workspace_id = workspace
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())
    -- Replaced keys of agents don't count. Otherwise renewals by one member's agent could use up the workspace's limit.
    and (k.connection_id is null or k.replaced_by is null)
$$;

-- Returns the elements of a JSON array as texts, or null if the value is not an array.
create or replace function ai.text_list(list jsonb) returns text[]
  language sql immutable security invoker set search_path = ''
as $$
  select case when jsonb_typeof(list) = 'array' then array(select jsonb_array_elements_text(list)) end
$$;

-- Returns allowed, not_allowed or not_approved. not_allowed: the member lacks manage_ai_keys. For an agent's key,
-- ai.may_connect_agents is sufficient. not_approved: no platform admin has approved the workspace.
create or replace function ai.key_issue_permission(member_id uuid, workspace uuid, for_agent boolean default false)
  returns text
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    and not (for_agent and ai.may_connect_agents(member_id, workspace)) then
    return 'not_allowed';
  end if;
  -- Locks the approval, so that it cannot be withdrawn before the key is stored.
  perform from ai.key_approvals a where a.workspace_id = workspace for key share;
  return case when found then 'allowed' else 'not_approved' end;
end
$$;
