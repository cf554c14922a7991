set lock_timeout = '500ms';

create type ai.cost_file_day as (
  account_id text,
  day date,
  external_run_id text,
  amount_usd numeric,
  original jsonb,
  stored_id uuid,
  stored_usd numeric,
  stored_revision integer,
  observed_before timestamptz,
  change text
);
comment on type ai.cost_file_day is
  'An account''s day of a cost file, the record that it is compared with, and the change: added, corrected or unchanged.';

create index if not exists external_provider_costs_name_idx
  on ai.external_provider_costs (workspace_id, app_id, lower(provider), external_run_id);
create index if not exists platform_provider_costs_name_idx
  on ai.platform_provider_costs (provider, external_run_id);
