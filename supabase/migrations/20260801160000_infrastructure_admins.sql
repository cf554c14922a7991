create table private.infrastructure_admins (
  user_id uuid primary key references auth.users (id) on delete cascade,
  granted_by uuid references auth.users (id) on delete set null,
  reason text not null check (char_length(reason) between 1 and 500),
  created_at timestamptz not null default now()
);
comment on table private.infrastructure_admins is
  'Who may use the console. A row of ours and not a claim, so that it can be taken away at once.';
create index infrastructure_admins_granted_by_idx on private.infrastructure_admins (granted_by);

alter table private.infrastructure_admins enable row level security;

create table private.admin_audit_log (
  id uuid primary key default gen_random_uuid(),
  actor_id uuid references auth.users (id) on delete set null,
  action text not null check (action ~ '^[a-z][a-z_.]{0,63}$'),
  target_user_id uuid references auth.users (id) on delete set null,
  target text check (char_length(target) <= 320),
  reason text not null check (char_length(reason) between 1 and 500),
  before jsonb,
  after jsonb,
  request_id text check (char_length(request_id) <= 128),
  ip inet,
  created_at timestamptz not null default now()
);
comment on table private.admin_audit_log is
  'Every act of the console with its before and after. It outlives both actor and target.';
comment on column private.admin_audit_log.target is
  'What was acted on where it is no user, and the e-mail where the user may be gone.';
create index admin_audit_log_created_at_idx on private.admin_audit_log (created_at desc, id desc);
create index admin_audit_log_actor_id_idx on private.admin_audit_log (actor_id, created_at desc);
create index admin_audit_log_target_user_id_idx on private.admin_audit_log (target_user_id, created_at desc);

alter table private.admin_audit_log enable row level security;

-- A log is added to; even the service role does not rewrite it.
revoke update, delete on private.admin_audit_log from service_role;
