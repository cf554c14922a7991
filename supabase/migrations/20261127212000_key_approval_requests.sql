set lock_timeout = '500ms';

create table ai.key_approval_requests (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  requested_by uuid references public.profiles (id) on delete set null,
  requested_at timestamptz not null default now(),
  note text check (char_length(note) between 1 and 500),
  state text not null default 'open' check (state in ('open', 'withdrawn', 'approved', 'declined')),
  answered_at timestamptz,
  decline_reason text check (char_length(decline_reason) between 1 and 500),
  admins_emailed_at timestamptz,
  admins_emailed_for uuid references public.profiles (id) on delete set null,
  constraint answered_with_a_time check ((answered_at is not null) = (state in ('approved', 'declined'))),
  constraint declined_with_a_reason check ((decline_reason is not null) = (state = 'declined'))
);
comment on table ai.key_approval_requests is
  'The latest request of each workspace for the approval to create keys. Answers are also in private.admin_audit_log.';
comment on column ai.key_approval_requests.note is 'What the keys are for, in the requester''s words.';
comment on column ai.key_approval_requests.admins_emailed_at is
  'When infrastructure admins were last emailed about this workspace. Null if never.';
comment on column ai.key_approval_requests.admins_emailed_for is
  'Whose request that email was about. A later request of somebody else may have sent none.';
create index key_approval_requests_open_idx on ai.key_approval_requests (requested_at, workspace_id) where state = 'open';
create index key_approval_requests_requested_by_idx on ai.key_approval_requests (requested_by);
create index key_approval_requests_admins_emailed_for_idx on ai.key_approval_requests (admins_emailed_for);
alter table ai.key_approval_requests enable row level security;
select private.protect_table('ai.key_approval_requests');
revoke insert, update, delete on ai.key_approval_requests from service_role;

-- The console lists accounts by this: hosted Supabase allows no index of ours on auth.users.
create index if not exists profiles_created_at_id_idx on public.profiles (created_at desc, id desc);

-- Provider totals over all workspaces.
create index if not exists usage_daily_day_idx on ai.usage_daily (day);
