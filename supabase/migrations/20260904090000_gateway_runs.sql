-- Runs: one row a call, from the moment it is admitted. The row is the metering record, and while it is open it is
-- also the reservation, so that nothing is lost when a function dies.

-- Closed lists as domains, whose checks a connection reads once; those of a table are read again by every statement.
create domain ai.credential_source as text check (value in ('key', 'app_token', 'session'));
comment on domain ai.credential_source is 'What a caller showed.';
create domain ai.execution_mode as text check (value in ('interactive', 'background'));
comment on domain ai.execution_mode is 'Whether a person waits: background is by a key.';
create domain ai.run_feature as text check (char_length(value) between 1 and 128 and value !~ '[^A-Za-z0-9._:-]');
comment on domain ai.run_feature is 'What a call was for: an audit label.';
create domain ai.run_status as text check (value in ('running', 'succeeded', 'failed', 'cancelled'));
comment on domain ai.run_status is 'How a run stands.';
create domain ai.usage_source as text
  check (value in ('provider', 'provider_partial', 'estimated_partial', 'unavailable'));
comment on domain ai.usage_source is 'How a run''s counts came about.';

create table ai.runs (
  id uuid not null,
  created_at timestamptz not null default now(),
  workspace_id uuid not null,
  actor_id uuid,
  app_id uuid,
  key_id uuid,
  key_lineage_id uuid,
  credential_source ai.credential_source not null,
  execution_mode ai.execution_mode not null,
  feature ai.run_feature not null,
  request_id text not null,
  entity_id text,
  idempotency_key text,
  streamed boolean not null default false,
  model_id text not null,
  routes jsonb not null,
  route smallint,
  markup numeric(9, 6) not null,
  status ai.run_status not null default 'running',
  http_status smallint,
  error_code text,
  usage_source ai.usage_source,
  input_tokens bigint not null default 0,
  cached_input_tokens bigint not null default 0,
  audio_input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  reasoning_tokens bigint not null default 0,
  audio_output_tokens bigint not null default 0,
  cost_usd numeric(24, 12) not null default 0,
  billed_credits numeric(24, 8) not null default 0,
  unmetered_credits numeric(24, 8) not null default 0,
  exempt boolean not null default false,
  account_id uuid,
  reserved_usd numeric(24, 12) not null,
  reserved_credits numeric(24, 8) not null,
  budget_scopes text[] not null default '{}',
  first_byte_ms integer,
  latency_ms integer,
  steps jsonb,
  touched_at timestamptz not null default now(),
  settled_at timestamptz,
  swept boolean not null default false,
  primary key (created_at, id)
) partition by range (created_at);
comment on table ai.runs is
  'Metering records, partitioned by month. Kept for good, so nothing here refers to a workspace, person or key by a '
  'foreign key: they may go, what they cost does not.';
comment on column ai.runs.settled_at is
  'Null as long as status is running; then usage_source is there, too, and no count is below zero. No check says so, '
  'which every statement would prepare anew: ai.sum_run, by which alone runs end, refuses what would break it, and '
  'is_whole what an operator''s hand would end by halves.';
comment on column ai.runs.id is 'UUID version 7 of created_at, so that an id alone finds its partition.';
comment on column ai.runs.routes is
  'The routes as offered when the run began, in order, each with its prices of that moment (exact decimals as text): what the run is charged at.';
comment on column ai.runs.route is 'The position of the route that answered and is charged.';
comment on column ai.runs.output_tokens is 'Includes reasoning and audio tokens, as input_tokens includes cached and audio ones.';
comment on column ai.runs.steps is
  'What the run did, in order, and nothing of what was said: [{ step, type, name, status, latency_ms }]. Null while it is '
  'open, and where it ended without its gateway''s word.';
comment on column ai.runs.http_status is 'What the client got; 499 when it had gone away.';
comment on column ai.runs.unmetered_credits is 'What was not billed: an exempt run''s credits, or the reservation of one that ended without any count.';
comment on column ai.runs.swept is 'Closed by the sweeper, without its gateway''s word; the truth may still come.';

create function ai.reject_half_ended_run() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.status <> 'running' or new.settled_at is not null then
    raise exception 'a run ends with its moment and the source of its counts, as ai.settle_runs ends it'
      using errcode = 'check_violation';
  end if;
  return null;
end
$$;
comment on function ai.reject_half_ended_run() is
  'Says no to a run that ends without what it was charged by: what is held for it would be held for good.';
revoke execute on function ai.reject_half_ended_run() from public, anon, authenticated;
create trigger is_whole after update of status on ai.runs
  for each row when (new.settled_at is null or new.usage_source is null) execute function ai.reject_half_ended_run();
comment on trigger is_whole on ai.runs is 'Its condition is the shortest that no run of a settlement meets.';

create index runs_workspace_id_created_at_idx on ai.runs (workspace_id, created_at desc);

create table ai.idempotency_keys (
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  principal_id uuid not null,
  key text not null check (char_length(key) between 1 and 255),
  fingerprint bytea not null check (octet_length(fingerprint) = 32),
  state text not null default 'running' check (state in ('running', 'finished')),
  run_created_at timestamptz not null,
  run_id uuid not null,
  expires_at timestamptz not null default now() + interval '24 hours',
  primary key (workspace_id, principal_id, key)
);
comment on table ai.idempotency_keys is
  'idempotency-key headers of the last 24 hours. A principal is a key''s lineage, an app or a person, so that tenants '
  'cannot meet here. The fingerprint is the SHA-256 of path and raw body.';
create index idempotency_keys_run_id_idx on ai.idempotency_keys (run_id);
create index idempotency_keys_expires_at_idx on ai.idempotency_keys (expires_at);

create table ai.run_content (
  run_created_at timestamptz not null,
  run_id uuid not null,
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  prompt text,
  tools text,
  answer text,
  primary key (run_created_at, run_id)
);
comment on table ai.run_content is
  'What was said in runs of workspaces whose policy captures content, for as many days as it says; of all others nothing. '
  'It is there for idempotent replay; the lists of runs never show it.';
comment on column ai.run_content.prompt is 'The body as it came. Null where it is too large to keep.';
comment on column ai.run_content.tools is 'JSON: the calls of server tools, in order, each with its arguments and its result.';
comment on column ai.run_content.answer is
  'The JSON that the client got; of a stream, what it would have got without one. Null where it did not come whole.';
create index run_content_workspace_id_idx on ai.run_content (workspace_id, run_created_at);

create function ai.run_id(moment timestamptz) returns uuid
  language sql
  volatile
  security invoker
  parallel safe
as $$
  select encode(
    set_byte(
      overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send(floor(extract(epoch from moment) * 1000)::bigint) from 3)
        from 1 for 6
      ),
      6,
      112 + floor(random() * 16)::integer
    ),
    'hex'
  )::uuid
$$;
comment on function ai.run_id(timestamptz) is 'A UUID version 7 (RFC 9562, 5.7) of a moment, in milliseconds.';
revoke execute on function ai.run_id(timestamptz) from public, anon, authenticated;

create function ai.create_run_partitions(months_ahead integer default 3) returns integer
  language plpgsql
  volatile
  security invoker
  -- The months' edges are UTC's, whatever the caller's time zone.
  set timezone = 'UTC'
  set search_path = ''
as $$
declare
  first_day timestamptz;
  partition text;
  created integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('ai.create_run_partitions', 0));
  for first_day in
    select generate_series(date_trunc('month', now()), date_trunc('month', now()) + months_ahead * interval '1 month', '1 month')
  loop
    partition := format('ai.runs_%s', to_char(first_day, 'YYYY_MM'));
    continue when to_regclass(partition) is not null;
    if exists (select from ai.runs_default r where r.created_at >= first_day and r.created_at < first_day + interval '1 month') then
      raise warning 'the default partition of ai.runs already holds runs of %, which stay there', to_char(first_day, 'YYYY-MM');
      continue;
    end if;
    execute format(
      -- A run is written twice, when it begins and when it ends: with room for that beside it, and as long as no index has
      -- what its end changes, its index entries stay as they are.
      'create table %s partition of ai.runs for values from (%L) to (%L) with (fillfactor = 45)',
      partition, first_day, first_day + interval '1 month'
    );
    perform ai.protect_partition(partition::regclass);
    created := created + 1;
  end loop;
  return created;
end
$$;
comment on function ai.create_run_partitions(integer) is
  'Makes the monthly partitions of ai.runs up to so many months ahead, each closed like its parent. Returns how many it made.';
revoke execute on function ai.create_run_partitions(integer) from public, anon, authenticated;

create function ai.protect_partition(target regclass) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  execute format('alter table %s enable row level security', target);
  execute format('revoke all on %s from public, anon, authenticated', target);
  execute format('revoke insert, update, delete, truncate on %s from service_role', target);
  -- Comes with 20260923130000_required_account_mfa.sql, which protects by itself what was made before it.
  if to_regprocedure('private.protect_table(regclass)') is not null then
    execute format('select private.protect_table(%L::regclass)', target);
  end if;
end
$$;
comment on function ai.protect_partition(regclass) is
  'A partition inherits neither row-level security nor policies nor grants: it gets them here.';
revoke execute on function ai.protect_partition(regclass) from public, anon, authenticated;

create table ai.runs_default partition of ai.runs default with (fillfactor = 45);
comment on table ai.runs_default is 'Catches runs of months without a partition, so that none is ever refused for it.';
select ai.protect_partition('ai.runs_default');
select ai.create_run_partitions();

alter table ai.runs enable row level security;
alter table ai.idempotency_keys enable row level security;
alter table ai.run_content enable row level security;
revoke all on ai.runs, ai.idempotency_keys, ai.run_content from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.runs, ai.run_content from service_role;
