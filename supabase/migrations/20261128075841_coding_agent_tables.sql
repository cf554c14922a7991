set lock_timeout = '500ms';

alter table private.apps drop constraint apps_scopes_check;
alter table private.apps add constraint apps_scopes_check check (
  scopes <@ array[
    'profile', 'workspaces:read', 'workspaces:write', 'studio:read', 'studio:keys', 'workspace:session', 'ai:use', 'tts:use'
  ]
) not valid;
alter table private.apps add constraint key_scope_is_for_openid_clients check (
  kind = 'openid' or not scopes @> array['studio:keys']
) not valid;

create table ai.agent_access (
  workspace_id uuid not null,
  user_id uuid not null,
  state text not null default 'open' check (state in ('open', 'approved', 'declined', 'withdrawn')),
  tool text not null check (tool in ('claude', 'codex', 'opencode')),
  host text not null check (char_length(host) between 1 and 64),
  requested_at timestamptz not null default now(),
  answered_at timestamptz,
  answered_by uuid references public.profiles (id) on delete set null,
  emailed_at timestamptz,
  primary key (workspace_id, user_id),
  constraint agent_access_member_fkey foreign key (workspace_id, user_id)
    references public.workspace_members (workspace_id, user_id) on delete cascade,
  constraint answered_with_a_time check ((answered_at is null) = (state = 'open'))
);
comment on table ai.agent_access is
  'Requests of members without manage_ai_keys to connect coding agents, one per member and workspace, and their answers. An '
  'approval holds until it is withdrawn or the member leaves.';
comment on column ai.agent_access.tool is 'The coding agent that the request came from. An approval covers all of them.';
comment on column ai.agent_access.emailed_at is
  'When key managers were last emailed about this member. Null if never.';
create index agent_access_user_id_idx on ai.agent_access (user_id);
create index agent_access_answered_by_idx on ai.agent_access (answered_by);
alter table ai.agent_access enable row level security;

create table ai.agent_connections (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  user_id uuid not null references public.profiles (id) on delete cascade,
  login_id uuid references private.openid_grants (id) on delete set null,
  tool text not null check (tool in ('claude', 'codex', 'opencode')),
  host text not null check (char_length(host) between 1 and 64),
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
comment on table ai.agent_connections is
  'Coding agents that get short-lived keys for a workspace, each through a member''s login. Ending either ends the keys.';
comment on column ai.agent_connections.login_id is 'Null once the login has ended and was deleted: the connection gives no keys.';
create unique index agent_connections_login_id_idx on ai.agent_connections (login_id, workspace_id, tool)
  where revoked_at is null;
create index agent_connections_workspace_id_idx on ai.agent_connections (workspace_id);
create index agent_connections_user_id_idx on ai.agent_connections (user_id);
alter table ai.agent_connections enable row level security;

alter table ai.keys add column connection_id uuid;
alter table ai.keys add constraint keys_connection_id_fkey
  foreign key (connection_id) references ai.agent_connections (id) on delete set null not valid;
comment on column ai.keys.connection_id is
  'The coding agent that the key was made for. Such a key lives for 8 hours at most, and no longer than the agent''s login.';
alter table ai.keys add constraint agent_keys_are_short_lived check (
  connection_id is null
  or expires_at is not null and expires_at <= created_at + interval '8 hours'
) not valid;
create index if not exists keys_connection_id_idx on ai.keys (connection_id) where connection_id is not null;

select private.protect_table('ai.agent_access');
select private.protect_table('ai.agent_connections');
revoke insert, update, delete on ai.agent_access from service_role;
revoke insert, update, delete on ai.agent_connections from service_role;
