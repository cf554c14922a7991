-- Lists and answers requests for approval to create gateway keys, and locks the workspaces that may be approved.

-- Declines a workspace's open request. The change is { actor, workspace, requestedAt, reason, email, requestId, ip }.
-- The workspace's members see the reason. Returns {} or { refused: forbidden | not_found | oneself (the actor's
-- personal workspace) | request_gone }.
-- Definer: answering a request writes ai.key_approval_requests and reads email addresses in Supabase Auth's tables.
create or replace function private.decline_key_approval(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace public.workspaces := private.lock_approvable_workspace(change);
  refusal jsonb := private.approval_refusal(change, workspace);
  approval_request ai.key_approval_requests;
begin
  if refusal is not null then
    return refusal;
  end if;
  if not private.lock_open_request(change, workspace.id) then
    return jsonb_build_object('refused', 'request_gone');
  end if;
  approval_request := private.answer_approval_request(change, workspace.id);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'ai_keys.decline',
    'target', 'workspace ' || workspace.id,
    'targetName', case when workspace.personal_user_id is null then workspace.name end,
    'before', jsonb_build_object(
      'state', 'open', 'requestedAt', approval_request.requested_at, 'requestedBy', approval_request.requested_by, 'note', approval_request.note
    ),
    'after', jsonb_build_object('state', 'declined')
  ));
  return '{}';
end
$$;

-- Locks the workspace's open request that was made at requestedAt. Returns false if that request is no longer open.
create or replace function private.lock_open_request(change jsonb, workspace uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform
  from ai.key_approval_requests q
  where q.workspace_id = workspace and q.state = 'open' and q.requested_at = (change ->> 'requestedAt')::timestamptz
  for no key update;
  return found;
end
$$;

-- Closes a workspace's open request and queues an email to the workspace's owners and to the requester. Does nothing if
-- the workspace has no open request.
create or replace function private.answer_approval_request(change jsonb, workspace uuid) returns ai.key_approval_requests
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  approved boolean := coalesce((change ->> 'approved')::boolean, false);
  approval_request ai.key_approval_requests;
begin
  update ai.key_approval_requests q
  set
    state = case when approved then 'approved' else 'declined' end,
    answered_at = now(),
    decline_reason = case when not approved then change ->> 'reason' end
  where q.workspace_id = workspace and q.state = 'open'
  returning * into approval_request;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, change #>> '{email,subject}', change #>> '{email,text}', now()
  from public.workspace_members m
  join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id
  join auth.users u on u.id = m.user_id
  where m.workspace_id = approval_request.workspace_id
    and (r.is_owner or m.user_id = approval_request.requested_by)
    and ai.can_be_emailed(u);
  return approval_request;
end
$$;

-- Returns a page of open requests, oldest first: [{ id (of the workspace), name, plan, owners, createdAt, requestedBy,
-- note }]. To read the next page, pass { createdAt, id } of the last request as after.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_approval_requests(after jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read all open requests for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((after ->> 'createdAt')::timestamptz, '-infinity');
  last_id uuid := coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000');
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', q.workspace_id,
      'name', q.name,
      'plan', q.plan_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join auth.users u on u.id = m.user_id
        where m.workspace_id = q.workspace_id
          -- Looks the owners up by role, instead of reading all members.
          and m.role_id = (select r.id from public.workspace_roles r where r.workspace_id = q.workspace_id and r.is_owner)
      ),
      'createdAt', q.requested_at,
      'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
      'note', q.note
    ) order by q.requested_at, q.workspace_id), '[]')
    from (
      select o.*, w.name, w.plan_id
      from ai.key_approval_requests o
      join public.workspaces w on w.id = o.workspace_id and w.deleted_at is null
      where o.state = 'open' and (o.requested_at, o.workspace_id) > (last_at, last_id)
      order by o.requested_at, o.workspace_id
      limit page_size
    ) q
  );
end
$$;

-- Counts open requests, but stops at a maximum.
create or replace function private.count_approval_requests(max_rows integer default 1001) returns integer
  language sql stable security invoker set search_path = ''
as $$
  select count(*)::integer
  from (
    select
    from ai.key_approval_requests q
    join public.workspaces w on w.id = q.workspace_id and w.deleted_at is null
    where q.state = 'open'
    limit max_rows
  ) o
$$;

-- Locks the workspace that a change names, and returns it. Returns null if there is none.
create or replace function private.lock_approvable_workspace(change jsonb) returns public.workspaces
  language sql volatile security invoker set search_path = ''
as $$
  -- Locks the row until commit, so that the second of two concurrent decisions sees the first.
  select * from public.workspaces w where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null for no key update
$$;

-- Returns why an admin must not approve or decline a workspace's keys. Returns null if the admin may.
create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when not private.may_change_console(change, 'admin:approvals:write') then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when private.is_responsible(change, (workspace).personal_user_id) then jsonb_build_object('refused', 'oneself')
  end
$$;
