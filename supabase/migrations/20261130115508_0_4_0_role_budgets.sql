-- Separate: it alters a table in use, for roles whose members start with a monthly budget.
set lock_timeout = '500ms';

alter table public.workspace_roles
  add column member_budget_usd numeric(24, 12),
  add constraint workspace_roles_member_budget_usd_check check (member_budget_usd >= 0 and member_budget_usd < 'NaN') not valid;
comment on column public.workspace_roles.member_budget_usd is
  'The monthly budget that a person without one gets with this role, or null.';

grant insert (member_budget_usd), update (member_budget_usd) on public.workspace_roles to authenticated;
