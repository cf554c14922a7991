-- A workspace as its member sees it, with what surrounds the content of its pages. A request reads it together with the
-- state of its session.

-- Returns the credit notice for the caller in a workspace, as ai.read_credit_notice does. Null also without the required
-- MFA.
-- Definer: users cannot read balances. Reads only the notice of the caller.
create or replace function public.read_credit_notice(workspace_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.account_required_mfa_satisfied() then
    return null;
  end if;
  return ai.read_credit_notice(auth.uid(), read_credit_notice.workspace_id);
end
$$;

-- Returns whether a workspace's book is in use: an app is linked, or costs or invoices were recorded. False for callers
-- who may not read the book, and without the required MFA.
-- Definer: users cannot read links and records.
create or replace function public.uses_cost_book(workspace_id uuid) returns boolean
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return private.account_required_mfa_satisfied()
    and private.user_has_workspace_permission(auth.uid(), uses_cost_book.workspace_id, 'use_ai_studio')
    and (
      exists (select from private.app_workspaces l where l.workspace_id = uses_cost_book.workspace_id)
      or exists (select from ai.external_provider_costs c where c.workspace_id = uses_cost_book.workspace_id)
      or exists (select from ai.external_provider_invoices i where i.workspace_id = uses_cost_book.workspace_id)
    );
end
$$;

-- Returns { workspace } or, with the frame, { workspace, others, creditNotice, usesCostBook }. Returns null if row-level
-- security does not show the workspace to the caller as a member. workspace is { id, name, planId, personal, createdAt,
-- role, isOwner, permissions }. personal tells whether it is the caller's own. others lists up to eight workspaces to
-- switch to.
create or replace function public.read_workspace(workspace_id uuid, with_frame boolean default false) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  workspace jsonb := (
    select jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'planId', w.plan_id,
      'personal', w.personal_user_id is not distinct from m.user_id,
      'createdAt', w.created_at,
      'role', r.name,
      'isOwner', r.is_owner,
      'permissions', r.permissions
    )
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.workspace_id = read_workspace.workspace_id and m.user_id = (select auth.uid())
  );
begin
  if workspace is null then
    return null;
  end if;
  if not with_frame then
    return jsonb_build_object('workspace', workspace);
  end if;
  return jsonb_build_object(
    'workspace', workspace,
    'others', (
      select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'name', o.name) order by o.place), '[]')
      from (
        select l.id, l.name, l.place
        from public.list_workspaces(null, 9) with ordinality as l (id, name, plan_id, personal, role, place)
        where l.id <> read_workspace.workspace_id
        order by l.place
        limit 8
      ) o
    ),
    'creditNotice', public.read_credit_notice(read_workspace.workspace_id),
    'usesCostBook', public.uses_cost_book(read_workspace.workspace_id)
  );
end
$$;

-- Returns the state of a session and, if a device is given, of the browser's device, as public.session_state and
-- public.device_session_state do, with the result of public.read_workspace for the same caller as workspaceRead.
create or replace function public.workspace_session_state(
  workspace_id uuid,
  with_frame boolean,
  device_id uuid default null,
  device_secret text default null
) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  return case
      when workspace_session_state.device_id is null then public.session_state()
      else public.device_session_state(workspace_session_state.device_id, workspace_session_state.device_secret)
    end
    || jsonb_build_object(
      'workspaceRead',
      public.read_workspace(workspace_session_state.workspace_id, workspace_session_state.with_frame)
    );
end
$$;
