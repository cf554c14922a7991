set lock_timeout = '500ms';

-- external_provider_costs_account_day_name_idx has taken its place.
drop index if exists ai.external_provider_costs_account_day_idx;
