-- Requests of a workspace's members for approval to create keys.

-- Requests approval for a workspace on behalf of a person with manage_ai_keys. Queues one email { subject, text } for
-- each infrastructure admin. Changes nothing if a request is open or the workspace is approved. Returns
-- ai.key_approval_state or { outcome: not_allowed }.
-- Definer: the service role cannot write requests or read Supabase Auth's email addresses.
create or replace function ai.request_key_approval(member_id uuid, workspace uuid, note text, email jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  old_request ai.key_approval_requests;
  emails_admins boolean;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.person_or_null(member_id) is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Serializes a member's requests, because the limit on emails counts the member's earlier requests.
  perform pg_advisory_xact_lock(hashtextextended('ai.request_key_approval ' || member_id, 0));
  -- Approving and declining lock the workspace too.
  perform from public.workspaces w where w.id = workspace and w.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select * into old_request from ai.key_approval_requests q where q.workspace_id = workspace;
  if old_request.state = 'open' or exists (select from ai.key_approvals a where a.workspace_id = workspace) then
    return ai.key_approval_state(workspace);
  end if;
  emails_admins := ai.may_email_admins(member_id, old_request);
  insert into ai.key_approval_requests as q (workspace_id, requested_by, note, admins_emailed_at, admins_emailed_for)
  values (
    workspace, member_id, nullif(btrim(request_key_approval.note), ''),
    case when emails_admins then now() else old_request.admins_emailed_at end,
    case when emails_admins then member_id else old_request.admins_emailed_for end
  )
  on conflict (workspace_id) do update
  set
    requested_by = excluded.requested_by,
    requested_at = excluded.requested_at,
    note = excluded.note,
    state = 'open',
    answered_at = null,
    decline_reason = null,
    admins_emailed_at = excluded.admins_emailed_at,
    admins_emailed_for = excluded.admins_emailed_for;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_key_approval.email ->> 'subject', request_key_approval.email ->> 'text', now()
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
  where emails_admins and ai.can_be_emailed(u);
  return ai.key_approval_state(workspace);
end
$$;

-- Withdraws the open request that was made at requested_at. Changes nothing if that request was answered or replaced.
-- Returns ai.key_approval_state or { outcome: not_allowed }.
-- Definer: the service role cannot write requests.
create or replace function ai.withdraw_key_approval_request(member_id uuid, workspace uuid, requested_at timestamptz)
  returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  update ai.key_approval_requests q
  set state = 'withdrawn'
  where q.workspace_id = workspace and q.requested_at = withdraw_key_approval_request.requested_at and q.state = 'open';
  return ai.key_approval_state(workspace);
end
$$;

-- Returns ai.key_approval_state (whether the workspace is approved, and its latest request) for a member with
-- manage_ai_keys, or { outcome: not_allowed }.
-- Definer: the service role cannot read a member's permissions.
create or replace function ai.read_key_approval(member_id uuid, workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then ai.key_approval_state(workspace)
    else jsonb_build_object('outcome', 'not_allowed')
  end
$$;

-- Returns whether a workspace is approved, and its latest request. Returns { outcome: read, approved, request: { state:
-- open | withdrawn | approved | declined, requestedAt, requestedBy, note, answeredAt, declineReason } }, where request
-- is null if there is none.
create or replace function ai.key_approval_state(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'request', (
      select jsonb_build_object(
        'state', q.state,
        'requestedAt', q.requested_at,
        'requestedBy', (select p.display_name from public.profiles p where p.id = q.requested_by),
        'note', q.note,
        'answeredAt', q.answered_at,
        'declineReason', q.decline_reason
      )
      from ai.key_approval_requests q
      where q.workspace_id = workspace
    )
  )
$$;

-- Returns whether infrastructure admins receive an email about a new request. They receive none if the previous request
-- was withdrawn and they were emailed about it in the last 24 hours. They also receive none if they were emailed about
-- five requests by the same member in the last 24 hours. The admins' queue lists every request.
create or replace function ai.may_email_admins(member_id uuid, previous ai.key_approval_requests) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select
    not coalesce(previous.state = 'withdrawn' and previous.admins_emailed_at > now() - interval '24 hours', false)
    and (
      select count(*) < 5
      from ai.key_approval_requests q
      where q.admins_emailed_for = member_id and q.admins_emailed_at > now() - interval '24 hours'
    )
$$;
