-- Whether a workspace shows its members what calls cost.

-- Returns whether a workspace's members can see provider cost. The default is true.
create or replace function ai.cost_visible(workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce((select p.provider_cost_visible from ai.workspace_policies p where p.workspace_id = workspace), true)
$$;
