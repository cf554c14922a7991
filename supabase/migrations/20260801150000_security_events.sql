create table public.security_events (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null check (kind ~ '^[a-z][a-z_.]{0,63}$'),
  method text check (char_length(method) <= 64),
  session_id uuid,
  ip inet,
  user_agent text check (char_length(user_agent) <= 512),
  details jsonb not null default '{}' check (jsonb_typeof(details) = 'object'),
  created_at timestamptz not null default now()
);
comment on table public.security_events is
  'What happened to an account, for its owner to read: what, when, where, by which method. Never a secret or a code.';
create index security_events_user_id_created_at_idx on public.security_events (user_id, created_at desc, id desc);

alter table public.security_events enable row level security;

create policy select_own on public.security_events
  for select to authenticated using (user_id = (select auth.uid()));

grant select on public.security_events to authenticated;

-- A log is added to; even the service role does not rewrite it.
revoke update, delete, truncate on public.security_events from service_role;
