-- Separate: admissions lock ai.runs after the other tables of a call, and settlements before them, so that a file that
-- locks both would wait for calls that wait for it.
set lock_timeout = '500ms';

-- One index for a workspace's list and for the console, which knows no workspace. Dropping the old one first takes the
-- stronger lock first: calls that wait for a weaker one would deadlock with it.
drop index if exists ai.runs_request_id_idx;
create index if not exists runs_request_id_workspace_id_idx on ai.runs (request_id, workspace_id);

alter table ai.runs
  add column attempts jsonb,
  add column reserved_tokens bigint,
  add column tokens_reserved_at timestamptz;
comment on column ai.runs.attempts is
  'The requests to providers in order, one object each: route, provider, model, status, failure, upstream_request_id,'
  ' may_have_charged and latency_ms. Null while the run is open.';
comment on column ai.runs.reserved_tokens is
  'Tokens that the run reserved in the rate windows of tokens_reserved_at. Null without a token limit.';
comment on column ai.runs.tokens_reserved_at is 'The start of the rate window that holds reserved_tokens.';

alter type ai.run_request
  add attribute output_limit_assumed boolean,
  add attribute fee_requests bigint,
  add attribute session_label text,
  add attribute input_reads bigint,
  add attribute expected_tokens bigint,
  add attribute hour_writes boolean,
  add attribute is_free boolean;
alter type ai.run_outcome add attribute attempts jsonb;
