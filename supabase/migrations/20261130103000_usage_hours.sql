-- What providers count by hour, for the comparison with the calls of that hour.
set lock_timeout = '500ms';

create table ai.usage_days (
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  day date not null,
  observed_at timestamptz not null default now(),
  primary key (provider, day)
);
comment on table ai.usage_days is 'The UTC days whose hours a provider has stated, at the request of a person.';
select private.protect_table('ai.usage_days');

create table ai.usage_hours (
  provider text not null,
  day date not null,
  hour timestamptz not null check (hour = date_trunc('hour', hour, 'UTC') and (hour at time zone 'UTC')::date = day),
  key_id text check (char_length(key_id) between 1 and 256),
  model text not null check (char_length(model) between 1 and 256),
  requests bigint check (requests >= 0),
  input_tokens bigint not null check (input_tokens >= 0),
  cached_input_tokens bigint not null check (cached_input_tokens >= 0),
  cache_write_tokens bigint not null check (cache_write_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  foreign key (provider, day) references ai.usage_days (provider, day) on delete cascade,
  unique nulls not distinct (provider, day, hour, key_id, model)
);
comment on table ai.usage_hours is 'What a provider counted in an hour, by its own API key and model. No row: nothing.';
comment on column ai.usage_hours.key_id is 'The provider''s id of its API key. Null: without a key, such as in its console.';
comment on column ai.usage_hours.requests is 'Null: the provider does not state it.';
comment on column ai.usage_hours.input_tokens is 'Includes cached tokens and cache writes, as in ai.runs.';
select private.protect_table('ai.usage_hours');

create table ai.gateway_provider_keys (
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  key_id text not null check (char_length(key_id) between 1 and 256),
  created_at timestamptz not null default now(),
  primary key (provider, key_id)
);
comment on table ai.gateway_provider_keys is
  'The providers'' API keys that only this gateway uses, as people marked them. Has ids, not keys.';
select private.protect_table('ai.gateway_provider_keys');

revoke insert, update, delete on ai.usage_days, ai.usage_hours, ai.gateway_provider_keys from service_role;
