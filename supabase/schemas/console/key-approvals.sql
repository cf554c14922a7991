-- Decides which workspaces may create gateway keys.

-- Finds workspaces by id, or by a member's full email address or id. If nothing matches, finds them by part of the
-- name. An empty term finds the workspaces that may create keys. Returns [{ id, name, plan, personalUserId, owners,
-- members, liveKeys, approvedAt, approvedBy, request }]. request is the open request, { requestedAt, requestedBy, note
-- }, or null.
-- Definer: the email addresses of owners and admins are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_workspaces(term text, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- The best index depends on the term. A term with many matches needs the index of names, and a term with few matches
  -- needs the trigram index.
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
      -- Uses an array, so that the query planner expects few accounts.
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
        join auth.users u on u.id = m.user_id
        where m.workspace_id = w.id
          -- Looks the owners up by role, instead of reading all members.
          and m.role_id = (select r.id from public.workspace_roles r where r.workspace_id = w.id and r.is_owner)
      ),
      'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
      'liveKeys', (
        select count(*)
        from ai.keys k
        where k.workspace_id = w.id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
      ),
      'approvedAt', w.approved_at,
      'approvedBy', (select u.email from auth.users u where u.id = w.approved_by),
      'request', (
        select jsonb_build_object(
          'requestedAt', q.requested_at,
          'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
          'note', q.note
        )
        from ai.key_approval_requests q
        where q.workspace_id = w.id and q.state = 'open'
      )
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

-- Allows a workspace to create keys, or withdraws the approval. The change is { actor, workspace, approved, reason,
-- requestedAt, email: { subject, text }, requestId, ip }. An approval also closes an open request and sends the email.
-- Existing keys keep working after a withdrawal. Returns {} or { refused: forbidden | not_found | oneself (the actor's
-- personal workspace) | conflict (nothing to change, with last) | request_gone (no open request has this requestedAt)
-- }.
-- Definer: answering a request writes ai.key_approval_requests and reads email addresses in Supabase Auth's tables.
create or replace function private.set_key_approval(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  approve boolean := (change ->> 'approved')::boolean;
  workspace public.workspaces;
  old_approval ai.key_approvals;
  new_approval ai.key_approvals;
  refusal jsonb;
  target text;
begin
  select * into workspace from private.lock_approvable_workspace(change);
  refusal := private.approval_refusal(change, workspace);
  if refusal is not null then
    return refusal;
  end if;
  target := 'workspace ' || workspace.id;
  select * into old_approval from ai.key_approvals a where a.workspace_id = workspace.id;
  if found = approve then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if approve then
    if change ->> 'requestedAt' is not null and not private.lock_open_request(change, workspace.id) then
      return jsonb_build_object('refused', 'request_gone');
    end if;
    insert into ai.key_approvals (workspace_id, approved_by) values (workspace.id, actor) returning * into new_approval;
    perform private.answer_approval_request(change, workspace.id);
  else
    delete from ai.key_approvals a where a.workspace_id = workspace.id;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when approve then 'ai_keys.approve' else 'ai_keys.withdraw' end,
    'target', target,
    'targetName', case when workspace.personal_user_id is null then workspace.name end,
    'before', jsonb_build_object(
      'approved', not approve, 'approvedAt', old_approval.approved_at, 'approvedBy', old_approval.approved_by
    ),
    'after', jsonb_build_object('approved', approve, 'approvedAt', new_approval.approved_at, 'approvedBy', new_approval.approved_by)
  ));
  return '{}';
end
$$;
