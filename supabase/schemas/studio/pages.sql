-- What pages of the AI studio always read together. Each part is the answer of a function that checks what the member
-- may do.

-- Returns { overview, budgets, keys, approval } for the first page of a workspace: the usage by model, the first budgets,
-- the newest key, and the state of the keys' approval.
create or replace function ai.read_workspace_home(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, days_each integer, max_rows integer, max_budgets integer, budget_scopes text[]
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'overview', ai.read_overview(
      member_id, workspace, range_from, range_to, previous_from, previous_to, 'model', days_each, max_rows
    ),
    'budgets', ai.read_budgets(member_id, workspace, null, max_budgets, budget_scopes),
    'keys', ai.list_keys(member_id, workspace, null, 1),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Returns { page, filters }: a page of runs, and the values to filter them by.
create or replace function ai.read_runs_page(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'page', ai.list_runs(member_id, workspace, filter, before, page_size, scan_limit),
    'filters', ai.list_run_filters(member_id, workspace)
  )
$$;

-- Returns { run, content }: a run, and whether its content is stored.
create or replace function ai.read_run_page(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.read_run(member_id, workspace, run_id), 'content', ai.describe_run_content(member_id, workspace, run_id)
  )
$$;

-- Returns { keys, agents, approval }: a page of keys, the members with agents, and the state of the keys' approval.
create or replace function ai.read_keys_page(member_id uuid, workspace uuid, before jsonb, page_size integer)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'keys', ai.list_keys(member_id, workspace, before, page_size),
    'agents', ai.list_agent_access(member_id, workspace),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Returns { policy, options }: the workspace's policy, and what it can select.
create or replace function ai.read_policy_page(member_id uuid, workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'policy', ai.read_workspace_policy(member_id, workspace), 'options', ai.read_policy_options(member_id, workspace)
  )
$$;
