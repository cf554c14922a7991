set lock_timeout = '500ms';

alter table public.workspace_roles validate constraint workspace_roles_member_budget_usd_check;
