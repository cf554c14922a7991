-- Who may call the gateway: a workspace's policy and its ttr_ai_ keys.

create table ai.workspace_policies (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  plan_id text not null default 'free' references ai.plans (id) on delete restrict,
  allowed_models text[],
  denied_models text[] not null default '{}',
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute > 0),
  provider_cost_visible boolean not null default true,
  content_capture boolean not null default false,
  content_retention_days integer not null default 30 check (content_retention_days between 1 and 365),
  updated_at timestamptz not null default now(),
  updated_by uuid references auth.users (id) on delete set null
);
comment on table ai.workspace_policies is
  'A workspace''s plan and its own rules. A workspace without a row is on the free plan and has no rule of its own.';
comment on column ai.workspace_policies.allowed_models is 'Null: every model that the other lists allow.';
comment on column ai.workspace_policies.requests_per_minute is 'Can only narrow what the plan allows.';
create index workspace_policies_plan_id_idx on ai.workspace_policies (plan_id);
create index workspace_policies_updated_by_idx on ai.workspace_policies (updated_by);

create table ai.key_approvals (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  approved_by uuid references auth.users (id) on delete set null,
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
  created_by uuid references auth.users (id) on delete set null,
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
  limit_usd numeric(24, 12) not null check (limit_usd >= 0),
  period_start date not null default date_trunc('month', now() at time zone 'UTC')::date,
  spent_usd numeric(24, 12) not null default 0,
  reserved_usd numeric(24, 12) not null default 0 check (reserved_usd >= 0),
  primary key (scope, subject_id, workspace_id)
) with (fillfactor = 70);
comment on table ai.budgets is
  'Monthly budgets (UTC) of a key''s lineage, an app within a workspace, or a workspace. What is reserved counts as spent until it settles.';
create index budgets_workspace_id_idx on ai.budgets (workspace_id);

create table ai.rate_windows (
  scope text not null check (scope in ('key', 'app', 'user', 'workspace')),
  subject_id uuid not null,
  window_start timestamptz not null,
  requests integer not null,
  tokens bigint not null,
  primary key (scope, subject_id)
) with (fillfactor = 50);
comment on table ai.rate_windows is
  'The current minute of each subject. One row a subject, overwritten as minutes pass, so that nothing needs clearing away.';

create function ai.create_key(
  p_workspace_id uuid,
  p_created_by uuid,
  p_name text,
  p_lookup text,
  p_secret_hash bytea,
  p_environment text default 'production',
  p_allowed_models text[] default null,
  p_requests_per_minute integer default null,
  p_tokens_per_minute bigint default null,
  p_monthly_budget_usd numeric default null,
  p_expires_at timestamptz default null
) returns uuid
language plpgsql
volatile
set search_path = ''
as $$
declare
  v_id uuid := gen_random_uuid();
begin
  perform 1 from ai.key_approvals where workspace_id = p_workspace_id;
  if not found then
    raise exception 'the workspace has no approval to create keys' using errcode = 'insufficient_privilege';
  end if;
  insert into ai.keys (id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, environment, allowed_models,
    requests_per_minute, tokens_per_minute, expires_at)
  values (v_id, v_id, p_workspace_id, p_created_by, p_name, p_lookup, p_secret_hash, p_environment, p_allowed_models,
    p_requests_per_minute, p_tokens_per_minute, p_expires_at);
  if p_monthly_budget_usd is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', v_id, p_workspace_id, p_monthly_budget_usd);
  end if;
  return v_id;
end
$$;
comment on function ai.create_key is
  'Stores a new key. The caller made the text and shows it once; only its lookup part and SHA-256 come here. Whether the caller may create one is decided before: no API role may run this.';

alter table ai.workspace_policies enable row level security;
alter table ai.key_approvals enable row level security;
alter table ai.keys enable row level security;
alter table ai.budgets enable row level security;
alter table ai.rate_windows enable row level security;
revoke all on ai.workspace_policies, ai.key_approvals, ai.keys, ai.budgets, ai.rate_windows from public, anon, authenticated;
revoke execute on all functions in schema ai from public, anon, authenticated;
