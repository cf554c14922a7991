-- Who may call the gateway: a workspace's policy and its ttr_ai_ keys.

-- Everyone may make temporary tables by default; gateway, which executes named functions, makes nothing.
do $$
begin
  execute format('revoke temporary on database %I from public', current_database());
end
$$;

create table ai.workspace_policies (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  allowed_models text[],
  denied_models text[] not null default '{}',
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute > 0),
  provider_cost_visible boolean not null default true,
  content_capture boolean not null default false,
  content_retention_days integer not null default 30 check (content_retention_days between 1 and 365),
  updated_at timestamptz not null default now(),
  updated_by uuid references public.profiles (id) on delete set null
);
comment on table ai.workspace_policies is
  'A workspace''s own rules, which narrow what its plan allows. A workspace without a row has none.';
comment on column ai.workspace_policies.allowed_models is 'Null: every model that the other lists allow.';
comment on column ai.workspace_policies.requests_per_minute is 'Can only narrow what the plan allows.';
create index workspace_policies_updated_by_idx on ai.workspace_policies (updated_by);

create table ai.key_approvals (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  approved_by uuid references public.profiles (id) on delete set null,
  approved_at timestamptz not null default now()
);
comment on table ai.key_approvals is
  'The standing approval of a platform admin, without which a workspace creates and rotates no key. Taking it away leaves existing keys as they are.';
create index key_approvals_approved_by_idx on ai.key_approvals (approved_by);

create table ai.keys (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  lineage_id uuid not null,
  name text not null check (char_length(name) between 1 and 100),
  environment text not null default 'production' check (environment ~ '^[a-z][a-z0-9-]{0,31}$'),
  lookup text not null unique check (lookup ~ '^[A-Za-z0-9]{12}$'),
  secret_hash bytea not null unique check (octet_length(secret_hash) = 32),
  created_by uuid references public.profiles (id) on delete set null,
  external_app_id uuid,
  allowed_models text[],
  allowed_addresses cidr[],
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute > 0),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  created_at timestamptz not null default now()
);
comment on table ai.keys is 'ttr_ai_ keys. Only the SHA-256 is kept: a secret has 256 bits of its own, so a slow hash would add nothing.';
comment on column ai.keys.lineage_id is
  'The first key of a chain of rotations: limits, budgets and idempotency belong to the chain, so that rotating resets none.';
comment on column ai.keys.lookup is 'The part of the text that is no secret: what people recognise a key by.';
comment on column ai.keys.external_app_id is 'The registered external app that the key is bound to.';
comment on column ai.keys.last_used_at is 'Within a minute: writing it on each call would make the row hot.';
create index keys_workspace_id_created_at_idx on ai.keys (workspace_id, created_at desc);
create index keys_created_by_idx on ai.keys (created_by);

create table ai.budgets (
  scope text not null check (scope in ('key', 'app', 'workspace')),
  subject_id uuid not null,
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  limit_usd numeric(24, 12) check (limit_usd >= 0),
  period_start date not null default date_trunc('month', now() at time zone 'UTC')::date,
  spent_usd numeric(24, 12) not null default 0,
  reserved_usd numeric(24, 12) not null default 0 check (reserved_usd >= 0),
  refused_at timestamptz,
  primary key (scope, subject_id, workspace_id)
) with (fillfactor = 70);
comment on table ai.budgets is
  'Monthly budgets (UTC) of a key''s lineage, an app within a workspace, or a workspace. What is reserved counts as spent until it settles.';
comment on column ai.budgets.limit_usd is
  'Null: no limit any more. The row stays, since runs under way hold a part of it, and counts on.';
comment on column ai.budgets.refused_at is
  'When a call last did not fit what was left, within a minute. Null: never, or not since the limit was raised.';
create index budgets_workspace_id_idx on ai.budgets (workspace_id);

create domain ai.rate_scope as text check (value in ('key', 'app', 'user', 'workspace'));
comment on domain ai.rate_scope is 'Whose calls a minute counts.';

create table ai.rate_windows (
  scope ai.rate_scope not null,
  subject_id uuid not null,
  window_start timestamptz not null,
  requests integer not null,
  tokens bigint not null,
  -- Whatever is looked for differs in its subject: what is compared first, and mostly alone.
  primary key (subject_id, scope)
) with (fillfactor = 50);
comment on table ai.rate_windows is
  'The current minute of each subject. One row a subject, overwritten as minutes pass; those of subjects that call no more are cleared away.';

create function ai.create_key(
  workspace_id uuid,
  created_by uuid,
  name text,
  lookup text,
  secret_hash bytea,
  environment text default 'production',
  allowed_models text[] default null,
  requests_per_minute integer default null,
  tokens_per_minute bigint default null,
  monthly_budget_usd numeric default null,
  expires_at timestamptz default null
) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
#variable_conflict use_column
declare
  key_id uuid := gen_random_uuid();
begin
  perform from ai.key_approvals a where a.workspace_id = create_key.workspace_id;
  if not found then
    raise exception 'the workspace has no approval to create keys' using errcode = 'insufficient_privilege';
  end if;

  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, environment, allowed_models,
    requests_per_minute, tokens_per_minute, expires_at
  )
  values (
    key_id, key_id, create_key.workspace_id, create_key.created_by, create_key.name, create_key.lookup,
    create_key.secret_hash, create_key.environment, create_key.allowed_models, create_key.requests_per_minute,
    create_key.tokens_per_minute, create_key.expires_at
  );

  if monthly_budget_usd is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', key_id, create_key.workspace_id, monthly_budget_usd);
  end if;
  return key_id;
end
$$;
comment on function ai.create_key is
  'Stores a new key and returns its id. The caller made the text and shows it once: only its lookup part and SHA-256 '
  'come here. Whether this caller may create one was decided before, so no role of the API may run it.';
revoke execute on function ai.create_key from public, anon, authenticated;

alter table ai.workspace_policies enable row level security;
alter table ai.key_approvals enable row level security;
alter table ai.keys enable row level security;
alter table ai.budgets enable row level security;
alter table ai.rate_windows enable row level security;
revoke all on ai.workspace_policies, ai.key_approvals, ai.keys, ai.budgets, ai.rate_windows from public, anon, authenticated;
