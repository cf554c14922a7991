set lock_timeout = '500ms';

alter table ai.external_provider_costs validate constraint external_provider_costs_observed_at_check;
