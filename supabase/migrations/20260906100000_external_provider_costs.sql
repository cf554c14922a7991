-- Costs as providers report them, sent by registered external apps. They are evidence beside the metering: no import
-- ever changes a run or the ledger.

create table ai.external_provider_costs (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null,
  app_id uuid not null,
  provider text not null check (provider ~ '^[A-Za-z0-9._:-]{1,128}$'),
  account_id text check (account_id ~ '^[A-Za-z0-9._:-]{1,128}$'),
  external_run_id text not null check (external_run_id ~ '^[A-Za-z0-9._:-]{1,128}$'),
  granularity text not null default 'run' check (granularity in ('run', 'account_day')),
  service text check (service ~ '^[A-Za-z0-9._:-]{1,128}$'),
  amount_usd numeric(24, 12) not null check (amount_usd >= 0),
  occurred_at timestamptz not null,
  observed_at timestamptz not null,
  recorded_at timestamptz not null default now(),
  unique nulls not distinct (workspace_id, app_id, provider, account_id, external_run_id),
  check (occurred_at <= observed_at),
  check (observed_at <= recorded_at + interval '60 seconds'),
  check (granularity = 'run' or account_id is not null),
  check (granularity = 'run' or occurred_at = date_trunc('day', occurred_at, 'UTC'))
);
comment on table ai.external_provider_costs is
  'One record per workspace, app, provider, account and run. Retries reuse external_run_id; a newer observation '
  'corrects. Kept for good, so nothing refers to workspace or app by a foreign key.';
comment on column ai.external_provider_costs.account_id is 'Null is one account of its own, for providers without accounts.';
comment on column ai.external_provider_costs.granularity is
  'account_day: a day''s total of an account, which replaces that day''s runs in totals and leaves them for audit.';
create index external_provider_costs_workspace_id_occurred_at_idx
  on ai.external_provider_costs (workspace_id, occurred_at desc, id);

alter table ai.external_provider_costs enable row level security;
revoke all on ai.external_provider_costs from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.external_provider_costs from service_role;
