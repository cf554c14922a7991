set lock_timeout = '500ms';

alter table ai.runs
  add column attempts jsonb,
  add column reserved_tokens bigint,
  add column tokens_reserved_at timestamptz;
comment on column ai.runs.attempts is
  'The requests to providers in order, one object each: route, provider, model, status, failure, upstream_request_id, '
  'may_have_charged and latency_ms. Null while the run is open.';
comment on column ai.runs.reserved_tokens is
  'Tokens that the run reserved in the rate windows of tokens_reserved_at. Null without a token limit.';
comment on column ai.runs.tokens_reserved_at is 'The start of the rate window that holds reserved_tokens.';

alter type ai.run_outcome add attribute attempts jsonb;
alter type ai.run_request add attribute output_limit_assumed boolean;

alter table ai.model_routes
  add column first_byte_seconds smallint check (first_byte_seconds between 1 and 140),
  add column idle_seconds smallint check (idle_seconds between 1 and 140),
  add column total_seconds smallint check (total_seconds between 1 and 400);
comment on column ai.model_routes.first_byte_seconds is
  'How long a stream of this route may take until its first byte. Null: the provider''s setting.';
comment on column ai.model_routes.idle_seconds is 'How long a stream of this route may pause. Null: the provider''s setting.';
comment on column ai.model_routes.total_seconds is 'How long a call of this route may take. Null: the provider''s setting.';
