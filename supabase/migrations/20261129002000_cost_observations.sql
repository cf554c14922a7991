set lock_timeout = '500ms';

alter table ai.external_provider_costs
  drop constraint external_provider_costs_check1,
  add constraint external_provider_costs_observed_at_check
    check (observed_at <= recorded_at + interval '5 minutes') not valid;
