-- Limits of the calls and tokens a minute of providers. Few rows, one of which changes with each call to a limited provider.
set lock_timeout = '500ms';

create table ai.provider_limits (
  provider_id text primary key check (provider_id ~ '^[a-z][a-z0-9_]{0,31}$'),
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute between 1 and 100000000000),
  requests_full_at timestamptz not null default now(),
  tokens_full_at timestamptz not null default now(),
  check (num_nonnulls(requests_per_minute, tokens_per_minute) > 0)
) with (fillfactor = 50);
comment on table ai.provider_limits is
  'Limits of a provider''s credential, which the calls of all workspaces share. Each limit is a token bucket.';
comment on column ai.provider_limits.tokens_per_minute is 'Counts the maximum input and the output limit of each call.';
comment on column ai.provider_limits.requests_full_at is 'When the bucket of requests will be full, or has become full.';
comment on column ai.provider_limits.tokens_full_at is 'When the bucket of tokens will be full, or has become full.';
select private.protect_table('ai.provider_limits');
