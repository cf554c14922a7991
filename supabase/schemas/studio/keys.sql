-- Creating, rotating and revoking ttr_ai_ keys. The server has checked that the sign-in is fresh; permissions are checked
-- here.

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_keys(member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
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
    'keys', ai.key_summaries(workspace, array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
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
comment on function ai.list_keys(uuid, uuid, jsonb, integer) is
  'A page of a workspace''s keys, newest first, for a member with manage_ai_keys: { outcome: listed, approval, keys } or '
  '{ outcome: not_allowed }. before is { createdAt, id } of the last key of the page before. Listing needs no approval.';

-- Definer: as ai.list_keys.
create or replace function ai.read_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
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
comment on function ai.read_key(uuid, uuid, uuid) is
  'Returns one key of a workspace as ai.list_keys has it, for a member with manage_ai_keys, and whether the workspace may '
  'rotate it: { outcome: read, approved, key }, or outcome not_allowed or not_found.';

-- Definer: the service role writes no keys, so that none is made past these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  allowed text[] := ai.text_list(key -> 'allowedModels');
  unknown text[] := ai.unknown_models(allowed);
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if (
    select count(*) >= 200 from ai.keys k
    where k.workspace_id = workspace and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
  ) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  select
    id, id, workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'), issue_key.lookup,
    decode(issue_key.secret_hash, 'hex'), app, allowed, ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId'
  from (select gen_random_uuid() as id) as made_id
  returning * into made;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', made.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  perform private.log_workspace_change(workspace, 'key.created', made.id, made.name);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made, 0));
end
$$;
comment on function ai.issue_key(uuid, uuid, jsonb, text, text) is
  'Stores a new key, whose text the caller made and shows once: lookup part and hex of its SHA-256 come here. Outcomes: '
  'issued (with key), not_allowed, not_approved, app_not_linked, unknown_models (with param and models), too_many (200 '
  'live keys in a workspace).';

create or replace function ai.text_list(list jsonb) returns text[]
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case when jsonb_typeof(list) = 'array' then array(select jsonb_array_elements_text(list)) end
$$;
comment on function ai.text_list(jsonb) is 'Returns the texts of a JSON array; null for anything else.';

-- Definer: as ai.issue_key.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  -- The new key will refer to the workspace, and an account's deletion locks that before its keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- One rotation of a key at a time; the second finds it replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into made;
  update ai.keys k
  set
    replaced_by = made.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', made.id, made.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[made]) -> 0);
end
$$;
comment on function ai.rotate_key(uuid, uuid, uuid, integer, text, text) is
  'Puts a new key in another''s place with every limit, binding and spent amount, which belong to the lineage; the old '
  'one lives on for the overlap. Outcomes: issued (with key), not_allowed, not_approved, not_found, not_active.';

-- Definer: as ai.issue_key.
create or replace function ai.revoke_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  ended ai.keys;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.keys k set revoked_at = now()
  where k.id = revoke_key.key_id and k.workspace_id = workspace and k.revoked_at is null
  returning * into ended;
  if found then
    perform private.log_workspace_change(workspace, 'key.revoked', ended.id, ended.name);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  return jsonb_build_object('outcome', case when found then 'revoked' else 'not_found' end);
end
$$;
comment on function ai.revoke_key(uuid, uuid, uuid) is
  'Ends a key at once; asked again it changes nothing. Needs manage_ai_keys and no approval. Outcomes: revoked, '
  'not_allowed, not_found.';

create or replace function ai.key_issue_permission(member_id uuid, workspace uuid) returns text
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return 'not_allowed';
  end if;
  -- Held until the key is stored: an approval taken away at the same moment comes before or after it, not between.
  perform from ai.key_approvals a where a.workspace_id = workspace for key share;
  return case when found then 'allowed' else 'not_approved' end;
end
$$;
comment on function ai.key_issue_permission(uuid, uuid) is
  'allowed, not_allowed (no manage_ai_keys) or not_approved (no standing approval of a platform admin).';

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
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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
comment on function ai.create_key is
  'Stores a new key and returns its id. The caller made the text and shows it once: only its lookup part and SHA-256 '
  'come here. Whether this caller may create one was decided before, so no role of the API may run it.';
