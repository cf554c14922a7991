-- The registry of apps: satellites of ours (internal) and apps of others (external). An app proves itself by a secret
-- of which only the SHA-256 is kept; it has 256 bits of its own, so a slow hash would add nothing, and comparing hashes
-- tells nothing of the secret by its time.

create table private.apps (
  id uuid primary key default gen_random_uuid(),
  name text not null unique check (name ~ '^[a-z][a-z0-9-]{1,39}$' and name not in ('web', 'central')),
  display_name text not null check (char_length(display_name) between 1 and 80),
  kind text not null check (kind in ('internal', 'external')),
  scopes text[] not null default '{}' check (
    scopes <@ array[
      'profile', 'workspaces:read', 'workspaces:write', 'studio:read', 'workspace:session', 'ai:use', 'tts:use'
    ]
  ),
  enabled boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint gateway_scopes_are_for_external_apps check (
    kind = 'external' or not scopes && array['workspace:session', 'ai:use', 'tts:use']
  )
);
comment on table private.apps is
  'Registered apps. A disabled one keeps its row and its keys, and can do nothing.';
comment on column private.apps.name is 'What it names itself by, and is named by as a target. Never changes.';
comment on column private.apps.scopes is
  'The most that any credential of the app may do. Asked again at each use, so that narrowing it bites at once.';

create trigger set_updated_at before update on private.apps
  for each row execute function private.set_updated_at();
comment on trigger set_updated_at on private.apps is 'The time of a change is the database''s, not the caller''s.';

create function private.is_loopback_origin(origin text) returns boolean
  language sql
  immutable
  security invoker
as $$
  select origin ~ '^https?://(localhost|([a-z0-9-]+\.)+localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?$'
$$;
comment on function private.is_loopback_origin(text) is 'Whether an origin is of this machine: good for development only.';
revoke execute on function private.is_loopback_origin(text) from public, anon, authenticated;
-- Checks run with the rights of whoever writes the row.
grant execute on function private.is_loopback_origin(text) to service_role;

create table private.app_origins (
  origin text primary key,
  app_id uuid not null references private.apps (id) on delete cascade,
  created_at timestamptz not null default now(),
  constraint origin_is_exact check (
    char_length(origin) <= 255
    and (origin ~ '^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$' or private.is_loopback_origin(origin))
    and origin !~ '^https:.*:443$'
    and origin !~ '^http:.*:80$'
  )
);
comment on table private.app_origins is
  'Where an app lives: whole origins as browsers write them, no patterns, each of one app only. Sign-ins return to none else.';
create index app_origins_app_id_idx on private.app_origins (app_id);

create table private.app_secrets (
  id uuid primary key default gen_random_uuid(),
  app_id uuid not null references private.apps (id) on delete cascade,
  secret_hash bytea not null unique check (octet_length(secret_hash) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz
);
comment on table private.app_secrets is
  'SHA-256 of each secret by which an app proves itself. A rotation leaves the one before alive for its overlap.';
comment on column private.app_secrets.expires_at is 'Null: the current one.';
create index app_secrets_app_id_idx on private.app_secrets (app_id);

create table private.app_workspaces (
  app_id uuid not null references private.apps (id) on delete cascade,
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  linked_by uuid references public.profiles (id) on delete set null,
  linked_at timestamptz not null default now(),
  primary key (app_id, workspace_id)
);
comment on table private.app_workspaces is
  'Workspaces that an external app may act in at the gateway, for members of theirs. Elsewhere its tokens and keys are refused.';
create index app_workspaces_workspace_id_idx on private.app_workspaces (workspace_id);
create index app_workspaces_linked_by_idx on private.app_workspaces (linked_by);

select private.protect_table('private.apps');
select private.protect_table('private.app_origins');
select private.protect_table('private.app_secrets');
select private.protect_table('private.app_workspaces');

-- A key of an app that is gone must not become an ordinary one: apps with keys are disabled, never deleted.
alter table ai.keys
  add constraint keys_external_app_id_fkey foreign key (external_app_id) references private.apps (id) on delete restrict;
create index keys_external_app_id_idx on ai.keys (external_app_id);

create function private.authenticate_app(app_name text, secret_hash bytea) returns setof private.apps
  language sql
  stable
  security invoker
as $$
  select a.*
  from private.app_secrets s
  join private.apps a on a.id = s.app_id
  where s.secret_hash = authenticate_app.secret_hash
    and (s.expires_at is null or s.expires_at > now())
    and a.name = app_name
    and a.enabled
$$;
comment on function private.authenticate_app(text, bytea) is
  'The enabled app that a name and a secret''s SHA-256 stand for; no row for unknown, wrong, expired or disabled: one '
  'answer. For definers; granted to nobody.';
revoke execute on function private.authenticate_app(text, bytea) from public, anon, authenticated;
