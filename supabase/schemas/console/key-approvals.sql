-- Which workspaces may create gateway keys.

-- Definer: owners' and admins' addresses are the identity backend's, which the service role cannot read.
create or replace function private.search_workspaces(term text, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- Many matches come by the index of names until the page is full, few by that of trigrams.
  set plan_cache_mode = force_custom_plan
as $$
declare
  pattern text := private.containing(term);
  found_ids uuid[];
begin
  found_ids := case
    when term = '' then array(select a.workspace_id from ai.key_approvals a)
    else array(
      select s.id from public.workspaces s where s.id = private.uuid_or_null(term) and s.deleted_at is null
      union all
      select m.workspace_id
      from public.workspace_members m
      -- An array, so that the plan expects few accounts.
      where m.user_id = any (array(select private.find_accounts_exactly(term)))
    )
  end;
  if term <> '' and found_ids = '{}' then
    found_ids := array(
      select s.id
      from public.workspaces s
      where lower(s.name) like pattern and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    );
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'plan', w.plan_id,
      'personalUserId', w.personal_user_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id and r.is_owner
        join auth.users u on u.id = m.user_id
        where m.workspace_id = w.id
      ),
      'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
      'liveKeys', (
        select count(*)
        from ai.keys k
        where k.workspace_id = w.id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
      ),
      'approvedAt', w.approved_at,
      'approvedBy', (select u.email from auth.users u where u.id = w.approved_by)
    ) order by w.name, w.id), '[]')
    from (
      select s.*, a.approved_at, a.approved_by
      from public.workspaces s
      left join ai.key_approvals a on a.workspace_id = s.id
      where s.id = any (found_ids) and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    ) w
  );
end
$$;
comment on function private.search_workspaces(text, integer) is
  'Workspaces by id, or by a member''s whole email or id; where there is none, by a part of the name. For an empty text those '
  'that may make keys: '
  '[{ id, name, plan, personalUserId, owners, members, liveKeys, approvedAt, approvedBy }].';

create or replace function private.set_key_approval(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  approve boolean := (change ->> 'approved')::boolean;
  workspace public.workspaces;
  known ai.key_approvals;
  made ai.key_approvals;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- Held to the end: of two at once the second sees what the first did.
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if workspace.personal_user_id = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  target := 'workspace ' || workspace.id;
  select * into known from ai.key_approvals a where a.workspace_id = workspace.id;
  if found = approve then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if approve then
    insert into ai.key_approvals (workspace_id, approved_by) values (workspace.id, actor) returning * into made;
  else
    delete from ai.key_approvals a where a.workspace_id = workspace.id;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when approve then 'ai_keys.approve' else 'ai_keys.withdraw' end,
    'target', target,
    'before', jsonb_build_object(
      'approved', not approve, 'approvedAt', known.approved_at, 'approvedBy', known.approved_by
    ),
    'after', jsonb_build_object('approved', approve, 'approvedAt', made.approved_at, 'approvedBy', made.approved_by)
  ));
  return '{}';
end
$$;
comment on function private.set_key_approval(jsonb) is
  'Lets a workspace make keys, or no more: { actor, workspace, approved, reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | oneself (the actor''s personal workspace) | conflict (it is so already, with last) }. Keys '
  'that exist keep working.';
