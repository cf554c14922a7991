-- State of the automatic imports of providers' costs.
set lock_timeout = '500ms';

create table ai.cost_importers (
  provider text primary key check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  last_complete_day date,
  missed datemultirange not null default '{}',
  next_attempt_at timestamptz not null default now(),
  last_attempt_at timestamptz,
  last_error text check (char_length(last_error) between 1 and 500),
  failures integer not null default 0 check (failures >= 0),
  lease uuid,
  leased_until timestamptz,
  check (num_nulls(lease, leased_until) in (0, 2))
);
comment on table ai.cost_importers is
  'How far each provider''s costs were imported into the platform''s book from its API. Has no keys.';
comment on column ai.cost_importers.last_complete_day is
  'The last UTC day up to which the provider answered every day. Null: nothing was imported yet.';
comment on column ai.cost_importers.missed is
  'The days that the provider no longer reported when the import continued after them.';
comment on column ai.cost_importers.failures is 'The failed attempts since the last successful one.';
comment on column ai.cost_importers.lease is 'Identifies the attempt in progress. Only its server may store days.';
comment on column ai.cost_importers.leased_until is 'When another server may begin an attempt.';
select private.protect_table('ai.cost_importers');
