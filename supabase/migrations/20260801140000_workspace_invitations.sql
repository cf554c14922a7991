create table public.workspace_invitations (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  email text not null check (email = lower(email) and email like '%_@_%' and char_length(email) <= 254),
  role_id uuid not null,
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  invited_by uuid default auth.uid() references public.profiles (id) on delete set null,
  accepted_by uuid references public.profiles (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '7 days',
  accepted_at timestamptz,
  foreign key (workspace_id, role_id) references public.workspace_roles (workspace_id, id) on delete cascade
);
comment on table public.workspace_invitations is
  'Our own mails carry the token; only its SHA-256 is kept, so that a copy of this table invites nobody.';
create unique index workspace_invitations_one_open
  on public.workspace_invitations (workspace_id, email) where accepted_at is null;
create index workspace_invitations_role_id_idx on public.workspace_invitations (workspace_id, role_id);
create index workspace_invitations_invited_by_idx on public.workspace_invitations (invited_by);
create index workspace_invitations_accepted_by_idx on public.workspace_invitations (accepted_by);

alter table public.workspace_invitations enable row level security;

create policy select_with_permission on public.workspace_invitations
  for select to authenticated
  using (workspace_id in (select private.my_workspace_ids_with('manage_members')));
create policy insert_with_permission on public.workspace_invitations
  for insert to authenticated
  with check (invited_by = (select auth.uid()) and role_id in (select private.my_assignable_role_ids()));
create policy delete_with_permission on public.workspace_invitations
  for delete to authenticated using (role_id in (select private.my_assignable_role_ids()));

-- Without token_hash: what is written is never read back.
grant select (
  id, workspace_id, email, role_id, invited_by, accepted_by, created_at, expires_at, accepted_at
) on public.workspace_invitations to authenticated;
grant insert (workspace_id, email, role_id, token_hash) on public.workspace_invitations to authenticated;
grant delete on public.workspace_invitations to authenticated;
