-- Budgets that people get with their role in a workspace, such as 0 for a role that sees costs but calls no models.

-- Gives a person who joins, or whose role changes, the monthly budget of the new role. A monthly budget that the
-- person already has in the workspace stays as it is.
-- Definer: people who accept invitations or change members have no grant to write budgets.
create or replace function private.start_member_budget() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  role_budget_usd constant numeric := (select r.member_budget_usd from public.workspace_roles r where r.id = new.role_id);
begin
  if role_budget_usd is null then
    return null;
  end if;
  perform ai.lock_policy(new.workspace_id);
  perform from ai.budgets b
  where b.scope = 'member' and b.subject_id = new.user_id and b.workspace_id = new.workspace_id and b.period = 'month'
    and b.limit_usd is not null;
  if found then
    return null;
  end if;
  perform ai.set_budget('member', new.user_id, new.workspace_id, role_budget_usd);
  perform private.log_workspace_change(
    new.workspace_id, 'budget.changed', new.user_id, ai.budget_name('member', new.user_id, new.workspace_id),
    jsonb_build_object('scope', 'member', 'before', null, 'after', trim_scale(role_budget_usd)::text)
  );
  return null;
end
$$;

create or replace trigger start_member_budget after insert or update of role_id on public.workspace_members
  for each row execute function private.start_member_budget();
