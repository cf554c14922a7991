set lock_timeout = '500ms';

create table ai.cost_imports (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid,
  app_id uuid,
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  format text not null check (char_length(format) between 1 and 64 and format !~ '[[:cntrl:]]'),
  file_name text not null check (char_length(file_name) between 1 and 255 and file_name !~ '[[:cntrl:]]'),
  file_sha256 bytea not null check (octet_length(file_sha256) = 32),
  time_zone text not null check (char_length(time_zone) between 1 and 64 and time_zone !~ '[[:cntrl:]]'),
  rates jsonb not null default '{}' check (jsonb_typeof(rates) = 'object'),
  imported_by uuid,
  imported_at timestamptz not null default now(),
  constraint cost_imports_book check ((workspace_id is null) = (app_id is null))
);
comment on table ai.cost_imports is
  'Imported cost files. Append-only. No foreign keys, so that a record outlives its workspace, its app and the person.';
comment on column ai.cost_imports.workspace_id is 'Null: the platform''s book.';
comment on column ai.cost_imports.time_zone is 'The zone of the provider''s calendar days, which are stored at midnight UTC.';
comment on column ai.cost_imports.rates is 'USD for one unit of each other currency, as the person entered it.';
comment on column ai.cost_imports.imported_by is 'Who imported the file and entered the rates. Null: the operator''s command.';
select private.protect_table('ai.cost_imports');
revoke insert, update, delete on ai.cost_imports from service_role;

create table ai.platform_provider_costs (
  id uuid primary key default gen_random_uuid(),
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  account_id text check (
    char_length(account_id) between 1 and 256 and account_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ),
  external_run_id text not null check (
    char_length(external_run_id) between 1 and 256 and external_run_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ),
  granularity text not null default 'run' check (granularity in ('run', 'account_day')),
  service text check (char_length(service) between 1 and 256 and service !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'),
  amount_usd numeric(24, 12) not null,
  occurred_at timestamptz not null,
  observed_at timestamptz not null,
  recorded_at timestamptz not null default now(),
  revision integer not null default 1,
  import_id uuid,
  original jsonb,
  unique nulls not distinct (provider, account_id, external_run_id),
  check (amount_usd >= 0 or granularity = 'account_day'),
  check (occurred_at <= observed_at),
  check (observed_at <= recorded_at + interval '60 seconds'),
  check (granularity = 'run' or account_id is not null),
  check (granularity = 'run' or occurred_at = date_trunc('day', occurred_at, 'UTC')),
  check (original is null or import_id is not null)
);
comment on table ai.platform_provider_costs is
  'Costs that providers report to the platform: columns and rules as of ai.external_provider_costs, whose records never add to these.';
comment on column ai.platform_provider_costs.import_id is 'The import in ai.cost_imports that wrote the current state; null for none.';
comment on column ai.platform_provider_costs.original is
  'The amounts before conversion, [{ currency, amount }] as exact text. Null where all were USD.';
create index platform_provider_costs_occurred_at_idx on ai.platform_provider_costs (occurred_at desc, id);
create index platform_provider_costs_account_day_idx
  on ai.platform_provider_costs (provider, account_id, occurred_at)
  where granularity = 'account_day';
select private.protect_table('ai.platform_provider_costs');
revoke insert, update, delete on ai.platform_provider_costs from service_role;

create table ai.platform_provider_invoices (
  id uuid primary key default gen_random_uuid(),
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  account_id text check (
    char_length(account_id) between 1 and 256 and account_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ),
  reference text not null check (
    char_length(reference) between 1 and 256 and reference !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ),
  kind text not null default 'invoice' check (kind in ('invoice', 'credit_note')),
  replaces text check (replaces <> reference),
  amount_usd numeric(24, 12) not null check (amount_usd >= 0),
  issued_on date not null,
  period_start date,
  period_end date,
  reviewed_at timestamptz not null,
  recorded_at timestamptz not null default now(),
  unique nulls not distinct (provider, account_id, reference),
  check (reviewed_at <= recorded_at),
  check (reviewed_at >= issued_on::timestamp at time zone 'UTC'),
  check (period_start <= period_end)
);
comment on table ai.platform_provider_invoices is
  'Reviewed invoices to the platform: columns and rules as of ai.external_provider_invoices, which never add to these.';
comment on column ai.platform_provider_invoices.kind is 'The amount of a credit note is positive and is subtracted.';
comment on column ai.platform_provider_invoices.replaces is
  'The reference of the invoice that this one corrects, which no longer counts.';
create index platform_provider_invoices_issued_on_idx on ai.platform_provider_invoices (issued_on desc, id);
create unique index platform_provider_invoices_one_replacement_idx
  on ai.platform_provider_invoices (provider, replaces, account_id) nulls not distinct
  where replaces is not null;
select private.protect_table('ai.platform_provider_invoices');
revoke insert, update, delete on ai.platform_provider_invoices from service_role;

alter table ai.external_provider_costs
  add column import_id uuid,
  add column original jsonb;
alter table ai.external_provider_costs
  drop constraint external_provider_costs_account_id_check,
  drop constraint external_provider_costs_external_run_id_check,
  drop constraint external_provider_costs_service_check,
  drop constraint external_provider_costs_amount_usd_check,
  add constraint external_provider_costs_account_id_form check (
    char_length(account_id) between 1 and 256 and account_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_costs_external_run_id_form check (
    char_length(external_run_id) between 1 and 256 and external_run_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_costs_service_form check (
    char_length(service) between 1 and 256 and service !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_costs_amount_sign check (amount_usd >= 0 or granularity = 'account_day') not valid,
  add constraint external_provider_costs_original_import check (original is null or import_id is not null) not valid;
comment on column ai.external_provider_costs.amount_usd is 'A day''s total is negative where refunds and credits exceed the cost.';
comment on column ai.external_provider_costs.import_id is 'The import in ai.cost_imports that wrote the current state; null for the API.';
comment on column ai.external_provider_costs.original is
  'The amounts before conversion, [{ currency, amount }] as exact text. Null where all were USD.';

alter table ai.external_provider_invoices
  drop constraint external_provider_invoices_account_id_check,
  drop constraint external_provider_invoices_reference_check,
  add constraint external_provider_invoices_account_id_form check (
    char_length(account_id) between 1 and 256 and account_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_invoices_reference_form check (
    char_length(reference) between 1 and 256 and reference !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid;

-- Provider names were once stored as they were sent. Comparisons use lower(provider).
create index if not exists external_provider_costs_spelling_idx
  on ai.external_provider_costs (workspace_id, app_id, external_run_id)
  where provider <> lower(provider);
create index if not exists external_provider_costs_account_day_name_idx
  on ai.external_provider_costs (workspace_id, app_id, lower(provider), account_id, occurred_at)
  where granularity = 'account_day';
create index if not exists external_provider_invoices_reference_idx
  on ai.external_provider_invoices (workspace_id, app_id, reference);
create index if not exists external_provider_invoices_replaces_idx
  on ai.external_provider_invoices (workspace_id, app_id, replaces)
  where replaces is not null;
