-- Types and tables of the gateway.

create table ai.models (
  id text primary key check (id ~ '^[A-Za-z0-9._:/-]{1,128}$'),
  kind text not null check (kind in ('chat', 'embedding', 'speech')),
  display_name text not null,
  owned_by text not null,
  enabled boolean not null default true,
  studio_default boolean not null default true,
  context_window integer check (context_window > 0),
  output_limit integer check (output_limit > 0),
  voices text[] check (cardinality(voices) > 0),
  is_default boolean not null default false,
  created_at timestamptz not null default now(),
  check ((kind = 'speech') = (voices is not null))
);
comment on table ai.models is
  'The catalogue of models by the name that clients send. Only what stands here can be asked for.';
comment on column ai.models.enabled is 'The globally enabled catalogue: off means no one reaches the model.';
comment on column ai.models.studio_default is
  'The global Studio defaults: off keeps a catalogued model from every workspace.';
comment on column ai.models.voices is 'What a speech model can speak with; the first one is used where a call names none.';
comment on column ai.models.is_default is
  'The model of its kind that calls get which may leave it out: speech and the legacy endpoint.';
create unique index models_one_default_a_kind on ai.models (kind) where is_default;
alter table ai.models enable row level security;

create table ai.model_routes (
  model_id text not null references ai.models (id) on update cascade on delete cascade,
  position smallint not null check (position >= 1),
  provider_id text not null check (provider_id ~ '^[a-z][a-z0-9_]{0,31}$'),
  provider_model text not null,
  enabled boolean not null default true,
  tier_multipliers jsonb not null default '{}' check (
    jsonb_typeof(tier_multipliers) = 'object'
    and not jsonb_path_exists(tier_multipliers, '$.* ? (@.type() != "number" || @ < 0)')
  ),
  trusts_stated_cost boolean not null default false,
  primary key (model_id, position)
);
comment on table ai.model_routes is
  'Where a model is asked for, in order. A provider is named by its id alone: addresses and keys live in the '
  'environment, so that no row can send a request elsewhere.';
comment on column ai.model_routes.tier_multipliers is
  'What a service tier costs, as a multiple of the default prices: {"priority": 2}. Tiers with prices of their own have '
  'rows in ai.model_prices.';
comment on column ai.model_routes.trusts_stated_cost is 'The cost of a run is the cost that the provider states in its answer.';
alter table ai.model_routes enable row level security;

-- schemas/gateway/money.sql

create or replace function ai.price_tier(
  service_tier text, min_input_tokens integer, input numeric, cached_input numeric, cache_write numeric,
  cache_write_1h numeric, output numeric, audio_input numeric, audio_output numeric, image_input numeric, request_fee numeric
) returns jsonb
  language sql
  -- jsonb_build_object is only stable because the text of some types depends on settings; none of these do.
  immutable
  security invoker
  parallel safe
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'service_tier', nullif(service_tier, 'default'),
    'min_input_tokens', min_input_tokens,
    'input', input::text,
    'cached_input', cached_input::text,
    'cache_write', cache_write::text,
    'cache_write_1h', cache_write_1h::text,
    'output', output::text,
    'audio_input', audio_input::text,
    'audio_output', audio_output::text,
    'image_input', image_input::text,
    'request_fee', request_fee::text
  ))
$$;
comment on function ai.price_tier is 'Returns a price as runs keep it: exact decimals as text, without those that are null.';

create table ai.model_prices (
  id bigint generated always as identity primary key,
  model_id text not null references ai.models (id) on update cascade on delete restrict,
  provider_id text not null,
  min_input_tokens integer not null default 0 check (min_input_tokens >= 0),
  valid tstzrange not null default tstzrange(now(), null) check (not isempty(valid) and lower_inc(valid) and not upper_inc(valid)),
  input_usd_per_million numeric(18, 6) not null check (input_usd_per_million >= 0),
  cached_input_usd_per_million numeric(18, 6) check (cached_input_usd_per_million >= 0),
  output_usd_per_million numeric(18, 6) not null check (output_usd_per_million >= 0),
  audio_input_usd_per_million numeric(18, 6) check (audio_input_usd_per_million >= 0),
  audio_output_usd_per_million numeric(18, 6) check (audio_output_usd_per_million >= 0),
  service_tier text not null default 'default' check (service_tier ~ '^[a-z][a-z0-9_-]{0,31}$'),
  cache_write_usd_per_million numeric(18, 6) check (cache_write_usd_per_million >= 0),
  cache_write_1h_usd_per_million numeric(18, 6) check (cache_write_1h_usd_per_million >= 0),
  image_input_usd_per_million numeric(18, 6) check (image_input_usd_per_million >= 0),
  request_fee_usd numeric(18, 6) check (request_fee_usd >= 0),
  as_offered jsonb not null generated always as (ai.price_tier(
    service_tier, min_input_tokens, input_usd_per_million, cached_input_usd_per_million, cache_write_usd_per_million,
    cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million, audio_output_usd_per_million,
    image_input_usd_per_million, request_fee_usd
  )) stored,
  constraint model_prices_one_at_a_time exclude using gist
    (model_id with =, provider_id with =, service_tier with =, min_input_tokens with =, valid with &&)
);
comment on table ai.model_prices is
  'The price book, versioned by time. A price never changes: a new one closes the old one''s range. Two prices of one '
  'tier cannot hold at once.';
comment on column ai.model_prices.min_input_tokens is
  'A tier: the row with the largest value that the input reaches is the one charged.';
comment on column ai.model_prices.input_usd_per_million is
  'USD for a million tokens, six decimals at most, so that tokens times price is exact in the twelve decimals of an amount.';
comment on column ai.model_prices.cached_input_usd_per_million is 'Null: cached input costs what input costs.';
comment on column ai.model_prices.service_tier is 'The tier that the provider''s answer names; default where it names none.';
comment on column ai.model_prices.cache_write_usd_per_million is 'Null: writing to a cache costs what input costs.';
comment on column ai.model_prices.cache_write_1h_usd_per_million is 'For an hour. Null: what other cache writes cost.';
comment on column ai.model_prices.image_input_usd_per_million is 'Null: images cost what input costs.';
comment on column ai.model_prices.request_fee_usd is 'For each request with a fee that the provider counts, such as a web search. Null: none.';
comment on column ai.model_prices.as_offered is
  'The price as begin_run hands it out, put together once and not at every call.';
comment on column ai.model_prices.audio_input_usd_per_million is 'Null: audio has no price, and is refused.';
alter table ai.model_prices enable row level security;

create table ai.plans (
  id text primary key check (id ~ '^[a-z][a-z0-9_]{0,31}$'),
  name text not null,
  payer text not null check (payer in ('member', 'workspace')),
  markup numeric(9, 6) not null default 1 check (markup >= 0),
  initial_credits numeric(24, 8) not null default 0 check (initial_credits >= 0),
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute > 0)
);
comment on table ai.plans is 'What a workspace pays with and how much it may use. public.workspaces.plan_id names its plan.';
comment on column ai.plans.payer is
  'member: a session pays from its member''s personal balance, a key from its creator''s. workspace: all pay from the '
  'workspace''s balance.';
comment on column ai.plans.markup is 'Credits are USD / 0.0001, times this.';
comment on column ai.plans.initial_credits is 'Granted once, when the paying account is opened.';
alter table ai.plans enable row level security;

create table ai.model_grants (
  id bigint generated always as identity primary key,
  model_id text not null references ai.models (id) on update cascade on delete cascade,
  plan_id text references ai.plans (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  check (num_nonnulls(plan_id, workspace_id) = 1),
  unique nulls not distinct (model_id, plan_id, workspace_id)
);
comment on table ai.model_grants is
  'Plan grants (plan_id) and root grants of a single workspace (workspace_id) to use a model.';
create index model_grants_workspace_id_idx on ai.model_grants (workspace_id) where workspace_id is not null;
create index model_grants_plan_id_idx on ai.model_grants (plan_id) where plan_id is not null;
alter table ai.model_grants enable row level security;

create table ai.workspace_policies (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  allowed_models text[],
  denied_models text[] not null default '{}',
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute > 0),
  provider_cost_visible boolean not null default true,
  content_capture boolean not null default false,
  content_retention_days integer not null default 30 check (content_retention_days between 1 and 365),
  updated_at timestamptz not null default now(),
  updated_by uuid references public.profiles (id) on delete set null
);
comment on table ai.workspace_policies is
  'A workspace''s own rules, which narrow what its plan allows. A workspace without a row has none.';
comment on column ai.workspace_policies.allowed_models is 'Null: every model that the other lists allow.';
comment on column ai.workspace_policies.requests_per_minute is 'Can only narrow what the plan allows.';
create index workspace_policies_updated_by_idx on ai.workspace_policies (updated_by);
alter table ai.workspace_policies enable row level security;

create table ai.key_approvals (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  approved_by uuid references public.profiles (id) on delete set null,
  approved_at timestamptz not null default now()
);
comment on table ai.key_approvals is
  'The standing approval of a platform admin, without which a workspace creates and rotates no key. Taking it away '
  'leaves existing keys as they are.';
create index key_approvals_approved_by_idx on ai.key_approvals (approved_by);
alter table ai.key_approvals enable row level security;

create table ai.keys (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  lineage_id uuid not null,
  name text not null check (char_length(name) between 1 and 100),
  environment text not null default 'production' check (environment ~ '^[a-z][a-z0-9-]{0,31}$'),
  lookup text not null unique check (lookup ~ '^[A-Za-z0-9]{12}$'),
  secret_hash bytea not null unique check (octet_length(secret_hash) = 32),
  created_by uuid references public.profiles (id) on delete set null,
  external_app_id uuid,
  allowed_models text[],
  allowed_addresses cidr[],
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute > 0),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  created_at timestamptz not null default now(),
  replaced_by uuid references ai.keys (id) on delete set null,
  -- A key of an app that is gone must not become an ordinary one: apps with keys are disabled, never deleted.
  constraint keys_external_app_id_fkey foreign key (external_app_id) references private.apps (id) on delete restrict
);
comment on table ai.keys is
  'ttr_ai_ keys. Only the SHA-256 is kept: a secret has 256 bits of its own, so a slow hash would add nothing.';
comment on column ai.keys.lineage_id is
  'The first key of a chain of rotations: limits, budgets and idempotency belong to the chain, so that rotating resets none.';
comment on column ai.keys.lookup is 'The part of the text that is no secret: what people recognise a key by.';
comment on column ai.keys.external_app_id is 'The registered external app that the key is bound to.';
comment on column ai.keys.last_used_at is 'Within a minute: writing it on each call would make the row hot.';
comment on column ai.keys.replaced_by is 'The key that a rotation put in its place. A key is rotated once.';
create index keys_workspace_id_created_at_idx on ai.keys (workspace_id, created_at desc);
create index keys_created_by_idx on ai.keys (created_by);
create index keys_external_app_id_idx on ai.keys (external_app_id);
create index keys_replaced_by_idx on ai.keys (replaced_by);
alter table ai.keys enable row level security;

create table ai.budgets (
  scope text not null check (scope in ('key', 'app', 'workspace')),
  subject_id uuid not null,
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  limit_usd numeric(24, 12) check (limit_usd >= 0),
  period_start date not null default date_trunc('month', now() at time zone 'UTC')::date,
  spent_usd numeric(24, 12) not null default 0,
  reserved_usd numeric(24, 12) not null default 0 check (reserved_usd >= 0),
  refused_at timestamptz,
  primary key (scope, subject_id, workspace_id)
) with (fillfactor = 70);
comment on table ai.budgets is
  'Monthly budgets (UTC) of a key''s lineage, an app within a workspace, or a workspace. What is reserved counts as '
  'spent until it settles.';
comment on column ai.budgets.limit_usd is
  'Null: no limit any more. The row stays, since runs under way hold a part of it, and counts on.';
comment on column ai.budgets.refused_at is
  'When a call last did not fit what was left, within a minute. Null: never, or not since the limit was raised.';
create index budgets_workspace_id_idx on ai.budgets (workspace_id);
alter table ai.budgets enable row level security;

create domain ai.rate_scope as text check (value in ('key', 'app', 'user', 'workspace'));
comment on domain ai.rate_scope is 'Whose calls a minute counts.';

create table ai.rate_windows (
  scope ai.rate_scope not null,
  subject_id uuid not null,
  window_start timestamptz not null,
  requests integer not null,
  tokens bigint not null,
  -- Whatever is looked for differs in its subject: what is compared first, and mostly alone.
  primary key (subject_id, scope)
) with (fillfactor = 50);
comment on table ai.rate_windows is
  'The current minute of each subject. One row a subject, overwritten as minutes pass; those of subjects that call no more are cleared away.';
alter table ai.rate_windows enable row level security;

-- What is true of a row stands in domains and in triggers of the columns that it is about, as far as it can: a table's
-- checks are read and prepared anew by every statement, which costs more than changing a balance.
create domain ai.reserved_credits as numeric(24, 8) check (value >= 0);
comment on domain ai.reserved_credits is 'Held of a balance.';

create table ai.credit_accounts (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid unique,
  user_id uuid unique,
  balance numeric(24, 8) not null default 0,
  reserved ai.reserved_credits not null default 0,
  created_at timestamptz not null default now()
) with (fillfactor = 50);
comment on table ai.credit_accounts is
  'Balances: of a workspace, or of a person who pays for themselves. No foreign key to either, since accounts and their '
  'ledger outlive them.';
comment on column ai.credit_accounts.balance is
  'The sum of the account''s ledger. Settling at true cost may take it below zero; a reservation never does.';
comment on column ai.credit_accounts.reserved is 'Held by runs that have not settled yet.';
create unique index credit_accounts_owner_idx on ai.credit_accounts (coalesce(workspace_id, user_id));
alter table ai.credit_accounts enable row level security;

create domain ai.ledger_kind as text check (value in ('grant', 'purchase', 'usage', 'adjustment', 'refund'));
comment on domain ai.ledger_kind is 'What changed a balance.';

create table ai.credit_ledger (
  id bigint generated always as identity,
  account_id uuid not null,
  kind ai.ledger_kind not null,
  amount numeric(24, 8) not null,
  balance_after numeric(24, 8) not null,
  run_created_at timestamptz,
  run_id uuid,
  description text,
  created_at timestamptz not null default now(),
  primary key (account_id, id)
);
comment on table ai.credit_ledger is
  'Every change of every balance, append-only. What is not linked to a run was deducted or given by other means. An '
  'account is never gone: ai.credit_accounts sees to it, since a foreign key would look it up for every entry again.';
create unique index credit_ledger_one_entry_a_run on ai.credit_ledger (run_id, kind);
create index credit_ledger_unlinked_idx on ai.credit_ledger (account_id, created_at) where run_id is null;
alter table ai.credit_ledger enable row level security;

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
  cost_so_far_usd numeric(24, 12) not null default 0,
  cache_write_tokens bigint not null default 0,
  cache_write_1h_tokens bigint not null default 0,
  image_input_tokens bigint not null default 0,
  fee_requests bigint not null default 0,
  served_tier text,
  marks text[] not null default '{}',
  billing_name text,
  billing_account text,
  primary key (created_at, id)
) partition by range (created_at);
comment on table ai.runs is
  'Metering records, partitioned by month. Kept for good, so nothing here refers to a workspace, person or key by a '
  'foreign key: they may go, what they cost does not.';
comment on column ai.runs.settled_at is
  'Null as long as status is running; then usage_source is there, too, and no count is below zero. No check says so, '
  'which every statement would prepare anew: ai.compute_settlement, by which alone runs end, refuses what would break it, and '
  'the trigger reject_incomplete_settlement what an operator''s hand would end by halves.';
comment on column ai.runs.id is 'UUID version 7 of created_at, so that an id alone finds its partition.';
comment on column ai.runs.routes is
  'The routes as offered when the run began, in order, each with its prices of that moment (exact decimals as text): '
  'what the run is charged at.';
comment on column ai.runs.route is 'The position of the route that answered and is charged.';
comment on column ai.runs.marks is
  'What an operator should look at: above_context_window, above_output_limit, implausible, unpriced_tier.';
comment on column ai.runs.billing_name is 'Who bills the run''s provider call, and to which account: for reconciliation.';
comment on column ai.runs.cost_so_far_usd is
  'What an open run''s calls cost as far as is known, by its latest heartbeat: charged where its function dies.';
comment on column ai.runs.output_tokens is
  'Includes reasoning and audio tokens, as input_tokens includes cached and audio ones.';
comment on column ai.runs.steps is
  'What the run did, in order, and nothing of what was said: [{ step, type, name, status, latency_ms }]. Null while it is '
  'open, and where it ended without its gateway''s word.';
comment on column ai.runs.http_status is 'What the client got; 499 when it had gone away.';
comment on column ai.runs.unmetered_credits is
  'What was not billed: an exempt run''s credits, or the reservation of one that ended without any count.';
comment on column ai.runs.swept is 'Closed by the sweeper, without its gateway''s word; the truth may still come.';
create index runs_workspace_id_created_at_idx on ai.runs (workspace_id, created_at desc);
-- Runs by key are a program's, and many: only what people asked for themselves carries this index.
create index runs_actor_id_created_at_idx on ai.runs (actor_id, created_at desc, id desc)
  where credential_source <> 'key';
create index runs_request_id_idx on ai.runs (workspace_id, request_id);
alter table ai.runs enable row level security;

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
alter table ai.idempotency_keys enable row level security;

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
comment on column ai.run_content.tools is
  'JSON: the calls of server tools, in order, each with its arguments and its result.';
comment on column ai.run_content.answer is
  'The JSON that the client got; of a stream, what it would have got without one. Null where it did not come whole.';
create index run_content_workspace_id_idx on ai.run_content (workspace_id, run_created_at);
alter table ai.run_content enable row level security;

create table ai.runs_default partition of ai.runs default with (fillfactor = 45);
comment on table ai.runs_default is 'Catches runs of months without a partition, so that none is ever refused for it.';

create table ai.app_tokens (
  id uuid primary key default gen_random_uuid(),
  family_id uuid not null,
  app_id uuid not null references private.apps (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  scopes text[] not null check (scopes <@ array['workspace:session', 'ai:use', 'tts:use']),
  proof private.mfa_proof not null,
  valid_until timestamptz,
  lookup text not null check (lookup ~ '^[A-Za-z0-9]{12}$'),
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  expires_at timestamptz not null,
  refresh_hash bytea not null unique check (octet_length(refresh_hash) = 32),
  refresh_expires_at timestamptz not null,
  refreshed_at timestamptz,
  handed_over_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  constraint one_user check ((proof).user_id = user_id),
  constraint lifetime check (
    expires_at <= created_at + interval '1 hour' and refresh_expires_at <= created_at + interval '30 days'
  )
);
comment on table ai.app_tokens is
  'Access tokens of external apps, each with the refresh token that leads to the next. Only SHA-256 of either is kept.';
comment on column ai.app_tokens.family_id is 'The handoff that all of a chain of refreshes come from; it ends as one.';
comment on column ai.app_tokens.proof is 'Without a session, since these tokens outlive sign-out.';
comment on column ai.app_tokens.valid_until is 'Where the second factor was lent by an approval, its end; the chain leads no further.';
comment on column ai.app_tokens.handed_over_at is
  'When its chain began: refreshed on and on, it outlives the rows of its beginning.';
comment on column ai.app_tokens.refreshed_at is 'When its refresh token was used; 30 seconds later another use ends the family.';
create index app_tokens_family_id_idx on ai.app_tokens (family_id);
create index app_tokens_app_id_idx on ai.app_tokens (app_id, workspace_id);
create index app_tokens_user_id_idx on ai.app_tokens (user_id);
create index app_tokens_workspace_id_idx on ai.app_tokens (workspace_id);
create index app_tokens_refresh_expires_at_idx on ai.app_tokens (refresh_expires_at);
alter table ai.app_tokens enable row level security;

create type ai.caller as (
  source text,
  refused text,
  key_id uuid,
  lineage_id uuid,
  workspace_id uuid,
  actor_id uuid,
  app_id uuid,
  scopes text[],
  key_models text[],
  key_requests_per_minute integer,
  key_tokens_per_minute bigint,
  last_used_at timestamptz,
  plan_id text,
  payer text,
  markup numeric(9, 6),
  initial_credits numeric(24, 8),
  workspace_requests_per_minute integer,
  workspace_tokens_per_minute bigint,
  workspace_models text[],
  denied_models text[],
  cost_visible boolean,
  capture boolean,
  actor_is_member boolean,
  budgets text[]
);
comment on type ai.caller is
  'Who calls, by their credential alone: a key, an app''s token for a person, or a person''s own session; and what plan '
  'and policy of the workspace say together. refused says why it is good for nothing here. Of a key, actor_is_member is '
  'asked where members pay for themselves.';

create type ai.rate_window_use as (admitted boolean, started_at timestamptz, requests bigint, tokens bigint);
comment on type ai.rate_window_use is
  'Whether a subject''s rate window had room for a call, and what it counts, including the call if it had.';

create type ai.credential as (source text, hash text, claims jsonb);
comment on type ai.credential is
  'What a caller shows: the SHA-256 of a key or of an app''s token, or the verified claims of a session.';

create type ai.run_request as (
  credential ai.credential,
  workspace text,
  address inet,
  request_id text,
  feature text,
  entity_id text,
  run_id_suffix text,
  idempotency_key text,
  fingerprint text,
  kind text,
  streamed boolean,
  model text,
  voice text,
  providers text[],
  input_bytes bigint,
  images bigint,
  audio boolean,
  audio_seconds bigint,
  service_tier text,
  output_limit bigint,
  choices bigint
);
comment on type ai.run_request is 'A call as the gateway describes it to ai.begin_run. Other reads of a credential send parts of it.';

create type ai.token_use as (text bigint, image bigint, audio bigint, output bigint);
comment on type ai.token_use is 'Tokens of a call: input by class, and output.';

create type ai.route_offer as (
  refusal jsonb,
  model_id text,
  voice text,
  routes jsonb,
  context_window integer,
  reserved_tokens bigint,
  maximum_cost_usd numeric(24, 12)
);
comment on type ai.route_offer is 'A model with its routes and prices, and the maximum tokens and cost of a call; or why there is none.';

create type ai.priced_call as (
  refusal jsonb,
  request ai.run_request,
  caller ai.caller,
  offer ai.route_offer,
  account_id uuid
);
comment on type ai.priced_call is 'A call with its caller, offer and paying account, before anything is locked; or why it is refused.';

create type ai.limit_subject as (scope text, subject_id uuid, workspace_id uuid);
comment on type ai.limit_subject is 'A rate window or a budget.';

create type ai.lock_list as (
  idempotency_keys bigint[],
  workspaces uuid[],
  keys uuid[],
  rate_windows ai.limit_subject[],
  budgets ai.limit_subject[],
  accounts uuid[]
);
comment on type ai.lock_list is
  'What ai.lock_rows locks. Idempotency keys are advisory locks; workspaces are those of idempotency keys; keys are those '
  'whose last use is written.';

create type ai.reservation as (refused text, workspace_window ai.rate_window_use, budget_scopes text[]);
comment on type ai.reservation is
  'What a provider call has reserved, or which limit refused it.';

create type ai.run_outcome as (
  created_at timestamptz,
  id uuid,
  status text,
  http_status smallint,
  error_code text,
  usage_source text,
  route smallint,
  estimated boolean,
  input_tokens bigint,
  cached_input_tokens bigint,
  audio_input_tokens bigint,
  output_tokens bigint,
  reasoning_tokens bigint,
  audio_output_tokens bigint,
  cache_write_tokens bigint,
  cache_write_1h_tokens bigint,
  image_input_tokens bigint,
  fee_requests bigint,
  served_tier text,
  marks text[],
  billing_name text,
  billing_account text,
  cost_usd numeric,
  credits numeric,
  first_byte_ms integer,
  latency_ms integer,
  steps jsonb,
  key_unused boolean
);
comment on type ai.run_outcome is
  'How a run ended, as the gateway reports it: the usage and cost of all its provider calls together.';

create type ai.run_report as (run ai.runs, outcome jsonb);
comment on type ai.run_report is 'A locked run, and what the gateway reported of it.';

create type ai.closed_run as (
  run ai.runs,
  kind text,
  credits_due numeric(24, 8),
  credits_released numeric(24, 8),
  cost_due_usd numeric(24, 12),
  usd_released numeric(24, 12),
  key_unused boolean
);
comment on type ai.closed_run is
  'A run as it is when it is closed, and what that changes elsewhere: credits and cost that become due, what its '
  'reservation returns to account and budgets, and whether its idempotency key is free again.';

-- Open runs are not looked for by an index of their own: each run would enter it and leave it, and its end would change
-- an indexed column, so that all of the run's index entries would be written anew.
create table ai.long_running_runs (
  run_created_at timestamptz not null,
  run_id uuid not null,
  primary key (run_created_at, run_id)
);
comment on table ai.long_running_runs is
  'Runs that were still open when the sweeper came by, 45 seconds after they began or later: of all runs the few that it '
  'looks at again. Those that have ended since go when it comes again.';
alter table ai.long_running_runs enable row level security;

create table ai.sweep_progress (
  singleton boolean primary key default true check (singleton),
  seen_until timestamptz not null default '-infinity',
  sure_until timestamptz not null default '-infinity',
  marked_at timestamptz not null default '-infinity',
  marked_xid xid8 not null default '0',
  check (sure_until <= seen_until)
);
comment on table ai.sweep_progress is
  'How far the sweeper has looked through the runs in the order in which they began. To have all of them looked through '
  'again, set both moments back.';
comment on column ai.sweep_progress.seen_until is
  'Of runs that began by then, those that were there and open are in ai.long_running_runs.';
comment on column ai.sweep_progress.sure_until is
  'By then all runs were there. What lies between is looked through once more: a begin may have been waiting for its '
  'commit, for the disk or a replica.';
comment on column ai.sweep_progress.marked_xid is
  'All begins of before marked_at are of transactions before this one, and over once none of these is under way.';
alter table ai.sweep_progress enable row level security;
insert into ai.sweep_progress default values;

create table ai.usage_daily (
  workspace_id uuid not null,
  day date not null,
  app_id uuid,
  key_lineage_id uuid,
  provider_id text,
  model_id text not null,
  feature text not null,
  execution_mode text not null,
  requests bigint not null,
  failed bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_usd numeric(36, 12) not null,
  billed_credits numeric(36, 8) not null,
  unmetered_credits numeric(36, 8) not null,
  latency_ms bigint not null,
  timed bigint not null,
  latency_marks numeric not null,
  first_token_marks numeric not null,
  billing_name text,
  billing_account text,
  unique nulls not distinct (
    workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, billing_name, billing_account
  )
);
comment on table ai.usage_daily is
  'Runs summed by the UTC day that they began in. Never the truth itself: ai.roll_up_usage() makes it from ai.runs again. '
  'No foreign keys, as runs have none.';
comment on column ai.usage_daily.timed is 'How many runs latency_ms is the sum of.';
comment on column ai.usage_daily.latency_marks is
  'The sum of its runs'' ai.latency_mark: a histogram, for quantiles of any range and group.';
comment on column ai.usage_daily.first_token_marks is 'As latency_marks, of the time to the first token of streams.';
alter table ai.usage_daily enable row level security;

create table ai.usage_changed_days (
  id bigint generated always as identity primary key,
  workspace_id uuid not null,
  day date not null
);
comment on table ai.usage_changed_days is
  'Days of a workspace whose runs changed after they were over. A queue without a unique key, so that settlements never '
  'wait for each other here.';
create index usage_changed_days_workspace_id_day_idx on ai.usage_changed_days (workspace_id, day);
alter table ai.usage_changed_days enable row level security;

create table ai.usage_sealed_days (
  singleton boolean primary key default true check (singleton),
  before date not null
);
comment on table ai.usage_sealed_days is 'ai.usage_daily holds the days before this one.';
alter table ai.usage_sealed_days enable row level security;
insert into ai.usage_sealed_days (before)
select coalesce((min(r.created_at) at time zone 'UTC')::date, (now() at time zone 'UTC')::date) from ai.runs r;

create table ai.budget_alerts (
  scope text not null check (scope in ('key', 'app', 'workspace')),
  subject_id uuid not null,
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  month date not null,
  limit_usd numeric(24, 12) not null check (limit_usd > 0),
  spent_usd numeric(24, 12) not null,
  reserved_usd numeric(24, 12) not null default 0,
  threshold smallint not null check (threshold in (0, 50, 80, 100)),
  crossed_at timestamptz not null default now(),
  posted_at timestamptz,
  primary key (scope, subject_id, workspace_id)
);
comment on table ai.budget_alerts is
  'The highest threshold (percent of the limit) that a budget has crossed in a month, and whether the mails about it are '
  'on their way. One row a budget, beside ai.budgets and without a foreign key to it, which would take locks on rows that '
  'calls wait for.';
comment on column ai.budget_alerts.threshold is
  'Only grows within a month, whatever corrections do to what was spent; another limit that is higher lets it fall.';
comment on column ai.budget_alerts.posted_at is 'Null: the mails about this threshold are still to be written.';
create index budget_alerts_workspace_id_idx on ai.budget_alerts (workspace_id);
create index budget_alerts_unposted_idx on ai.budget_alerts (crossed_at) where posted_at is null;
alter table ai.budget_alerts enable row level security;
