-- Finds runs of any workspace for the console. Runs contain no prompts or answers.

-- Returns the run with the given id, and the newest 20 runs of the last 31 days with the given request id.
create or replace function private.find_runs(term text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', r.id,
    'createdAt', r.created_at,
    'workspaceId', r.workspace_id,
    'workspaceName', w.name,
    'model', r.model_id,
    'status', r.status,
    'errorCode', r.error_code
  ) order by r.created_at desc, r.id desc), '[]')
  from (
    select f.* from ai.find_run(private.uuid_or_null(term)) as f where f.id is not null
    union
    (
      select * from ai.runs q
      where q.request_id = term and q.created_at > now() - interval '31 days'
      order by q.created_at desc
      limit 20
    )
  ) as r
  left join public.workspaces w on w.id = r.workspace_id
$$;

-- Returns ai.run_detail of a run in any workspace, with the workspace, the member's email address and the billing
-- account. Includes what the workspace hides from its members. Returns null if the run does not exist.
-- Definer: reads accounts and apps, which the service role cannot read.
create or replace function private.read_run(run_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.run_detail(r, true) || jsonb_build_object(
    'workspace', jsonb_build_object('id', r.workspace_id, 'name', w.name),
    'billing', jsonb_build_object('name', r.billing_name, 'account', r.billing_account),
    'memberEmail', (select u.email from auth.users u where u.id = r.actor_id)
  )
  from ai.find_run(run_id) as r
  left join public.workspaces w on w.id = r.workspace_id
  where r.id is not null
$$;
