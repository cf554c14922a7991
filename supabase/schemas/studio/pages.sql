-- What pages of the AI studio always read together. Each part is the answer of a function that checks what the member
-- may do.

-- Returns { overview, budgets, keys, approval } for the first page of a workspace: the usage by model, the first budgets,
-- the newest key, and the state of the keys' approval.
-- Until 0.5.0, for servers of 0.3.0: without all_periods, returns only monthly budgets.
create or replace function ai.read_workspace_home(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, days_each integer, max_rows integer, max_budgets integer, budget_scopes text[],
  all_periods boolean default false
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'overview', ai.read_overview(
      member_id, workspace, range_from, range_to, previous_from, previous_to, 'model', days_each, max_rows
    ),
    'budgets', ai.read_budgets(member_id, workspace, null, max_budgets, budget_scopes, all_periods),
    'keys', ai.list_keys(member_id, workspace, null, 1),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Returns { page, filters, refused }: a page of runs, the values to filter them by, and a page of refused calls. The
-- status refused lists only these, and a request id without a status lists both. Otherwise refused is null.
create or replace function ai.read_runs_page(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'page', case when filter ->> 'status' = 'refused' then '{"outcome": "listed", "runs": []}'
      else ai.list_runs(member_id, workspace, filter, before, page_size, scan_limit, sort) end,
    'filters', ai.list_run_filters(member_id, workspace),
    'refused', case when coalesce(filter ->> 'status' = 'refused', filter ? 'requestId' and before is null)
      then ai.list_refused_calls(member_id, workspace, filter, before, page_size, scan_limit) end
  )
$$;

-- Returns { run, content, refused }: a run, its neighbours in the list with this filter and order, and whether its content
-- is stored. If no run has the id, refused is the refused call that has it.
create or replace function ai.read_run_page(
  member_id uuid, workspace uuid, run_id uuid, filter jsonb default '{}', sort text default 'time',
  scan_limit integer default 10000
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.read_run(member_id, workspace, run_id, filter, sort, scan_limit),
    'content', ai.describe_run_content(member_id, workspace, run_id),
    'refused', ai.read_refused_call(member_id, workspace, run_id)
  )
$$;

-- Returns { keys, agents, approval }: a page of keys, the members with agents, and the state of the keys' approval.
create or replace function ai.read_keys_page(
  member_id uuid, workspace uuid, before jsonb, page_size integer, nested boolean default false
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'keys', ai.list_keys(member_id, workspace, before, page_size, nested),
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
