create type public.workspace_permission as enum (
  'manage_workspace_settings',
  'manage_members',
  'manage_ai_keys',
  'manage_ai_policy',
  'use_ai_studio'
);
comment on type public.workspace_permission is
  'The closed list of what a role may allow. A misspelt permission is an error, not a silent refusal.';

create table public.workspaces (
  id uuid primary key default gen_random_uuid(),
  name public.readable_name not null,
  plan_id text not null default 'free' check (plan_id ~ '^[a-z0-9_]{1,40}$'),
  personal_user_id uuid unique references public.profiles (id) on delete set null,
  created_by uuid references public.profiles (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
comment on table public.workspaces is
  'The tenant. A deleted one keeps its row, since runs, ledger and invoices refer to it for good.';
comment on column public.workspaces.plan_id is 'Row of ai.plans. In a free workspace each member pays for themselves.';
comment on column public.workspaces.personal_user_id is
  'Whose personal workspace it is; null where it was founded as a shared one.';
create index workspaces_created_by_idx on public.workspaces (created_by);

create table public.workspace_roles (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  name public.readable_name not null check (char_length(name) <= 40),
  permissions public.workspace_permission[] not null default '{}',
  is_owner boolean not null default false,
  created_at timestamptz not null default now(),
  unique (workspace_id, name),
  unique (workspace_id, id)
);
comment on table public.workspace_roles is
  'A named set of permissions within one workspace, so that a workspace may have roles of its own.';
comment on column public.workspace_roles.is_owner is
  'The owner''s role holds every permission, those of the future too, and only owners hand it on.';
create unique index workspace_roles_one_owner_role on public.workspace_roles (workspace_id) where is_owner;

create table public.workspace_members (
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  user_id uuid not null references public.profiles (id) on delete cascade,
  role_id uuid not null,
  created_at timestamptz not null default now(),
  primary key (workspace_id, user_id),
  -- A role of another workspace can never be worn here; one in use cannot vanish. (No action rather than restrict: it
  -- waits for the end of the statement, so that a whole workspace may still be deleted.)
  foreign key (workspace_id, role_id) references public.workspace_roles (workspace_id, id) on delete no action
);
comment on table public.workspace_members is 'Who belongs to a workspace, and as what. One role each.';
create index workspace_members_user_id_idx on public.workspace_members (user_id);
create index workspace_members_role_id_idx on public.workspace_members (workspace_id, role_id);

create trigger set_updated_at before update on public.workspaces
  for each row execute function private.set_updated_at();
comment on trigger set_updated_at on public.workspaces is 'The time of a change is the database''s, not the caller''s.';
