-- Separate: adds a column to ai.cost_imports, and a foreign key to ai.external_provider_costs.
set lock_timeout = '500ms';

alter table ai.cost_imports
  add column service_categories jsonb not null default '{}' check (jsonb_typeof(service_categories) = 'object');
comment on column ai.cost_imports.service_categories is
  'The FOCUS service category of each service, as the file states it. Empty if the file has no categories.';

create table ai.cost_services (
  cost_id uuid primary key references ai.external_provider_costs (id) on delete cascade,
  revision integer not null,
  services jsonb not null check (jsonb_typeof(services) = 'object')
);
comment on table ai.cost_services is
  'The services of an imported daily total. Their amounts add up to the total, which alone counts. A total that was '
  'written later has another revision, and these services no longer belong to it.';
comment on column ai.cost_services.services is
  'The amount in USD of each service by name. The empty name has the lines that name no service.';
select private.protect_table('ai.cost_services');
revoke insert, update, delete on ai.cost_services from service_role;
