-- The gateway's catalogue: which models exist, through which providers they are reached, what those charge, and which
-- plans may use them. Rows are data of the operator; supabase/seed.sql brings the demo's.

create extension if not exists btree_gist with schema extensions;

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
comment on table ai.models is 'The catalogue of models by the name that clients send. Only what stands here can be asked for.';
comment on column ai.models.enabled is 'The globally enabled catalogue: off means no one reaches the model.';
comment on column ai.models.studio_default is 'The global Studio defaults: off keeps a catalogued model from every workspace.';

comment on column ai.models.voices is 'What a speech model can speak with; the first one is used where a call names none.';
comment on column ai.models.is_default is 'The model of its kind that calls get which may leave it out: speech and the legacy endpoint.';
create unique index models_one_default_a_kind on ai.models (kind) where is_default;

create function ai.model_order(model ai.models) returns text[]
  language sql
  immutable
  security invoker
as $$
  -- The names of the kinds happen to sort well: chat, embedding, speech.
  select array[model.kind, case when model.is_default then '' else lower(model.display_name) end, model.id]
$$;
comment on function ai.model_order(ai.models) is
  'Sorts every list of models: by kind, the default of each kind first, then by name.';
revoke execute on function ai.model_order(ai.models) from public, anon, authenticated;
grant execute on function ai.model_order(ai.models) to service_role;

create table ai.model_routes (
  model_id text not null references ai.models (id) on update cascade on delete cascade,
  position smallint not null check (position >= 1),
  provider_id text not null check (provider_id ~ '^[a-z][a-z0-9_]{0,31}$'),
  provider_model text not null,
  enabled boolean not null default true,
  primary key (model_id, position)
);
comment on table ai.model_routes is
  'Where a model is asked for, in order. A provider is named by its id alone: addresses and keys live in the environment, so that no row can send a request elsewhere.';

create function ai.price_tier(
  min_input_tokens integer, input numeric, cached_input numeric, output numeric, audio_input numeric, audio_output numeric
) returns jsonb
  language sql
  -- jsonb_build_object is stable for the sake of types whose text depends on settings; of these none does.
  immutable
  security invoker
  parallel safe
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'min_input_tokens', min_input_tokens,
    'input', input::text,
    'cached_input', cached_input::text,
    'output', output::text,
    'audio_input', audio_input::text,
    'audio_output', audio_output::text
  ))
$$;
comment on function ai.price_tier is 'A price as runs keep it: exact decimals as text, absent ones left out.';
revoke execute on function ai.price_tier from public, anon, authenticated;
-- Generated columns are made with the rights of whoever writes the row.
grant execute on function ai.price_tier to service_role;

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
  as_offered jsonb not null generated always as (ai.price_tier(
    min_input_tokens, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million,
    audio_input_usd_per_million, audio_output_usd_per_million
  )) stored,
  constraint model_prices_one_at_a_time exclude using gist
    (model_id with =, provider_id with =, min_input_tokens with =, valid with &&)
);
comment on table ai.model_prices is
  'The price book, versioned by time. A price never changes: a new one closes the old one''s range. Two prices of one tier cannot hold at once.';
comment on column ai.model_prices.min_input_tokens is 'A tier: the row with the largest value that the input reaches is the one charged.';
comment on column ai.model_prices.input_usd_per_million is
  'USD for a million tokens, six decimals at most, so that tokens times price is exact in the twelve decimals of an amount.';
comment on column ai.model_prices.cached_input_usd_per_million is 'Null: cached input costs what input costs.';
comment on column ai.model_prices.as_offered is 'The price as begin_run hands it out, put together once and not at every call.';
comment on column ai.model_prices.audio_input_usd_per_million is 'Null: audio has no price, and is refused.';

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
  'member: a session pays from its member''s personal balance, a key from its creator''s. workspace: all pay from the workspace''s balance.';
comment on column ai.plans.markup is 'Credits are USD / 0.0001, times this.';
comment on column ai.plans.initial_credits is 'Granted once, when the paying account is opened.';

create table ai.model_grants (
  id bigint generated always as identity primary key,
  model_id text not null references ai.models (id) on update cascade on delete cascade,
  plan_id text references ai.plans (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  check (num_nonnulls(plan_id, workspace_id) = 1),
  unique nulls not distinct (model_id, plan_id, workspace_id)
);
comment on table ai.model_grants is 'Plan grants (plan_id) and root grants of a single workspace (workspace_id) to use a model.';
create index model_grants_workspace_id_idx on ai.model_grants (workspace_id) where workspace_id is not null;
create index model_grants_plan_id_idx on ai.model_grants (plan_id) where plan_id is not null;

create function ai.reject_price_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.valid is distinct from old.valid
    and (lower(new.valid) is distinct from lower(old.valid) or (upper(old.valid) is not null and upper(old.valid) <= now())) then
    raise exception 'a price''s past cannot be rewritten' using errcode = 'restrict_violation';
  end if;
  -- What is generated is not there yet.
  if (to_jsonb(new) - array['valid', 'as_offered']) is distinct from (to_jsonb(old) - array['valid', 'as_offered']) then
    raise exception 'a price never changes: close its range and add a new one' using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;
comment on function ai.reject_price_change() is 'Keeps the price book true to what runs were charged at.';
revoke execute on function ai.reject_price_change() from public, anon, authenticated;
create trigger reject_price_change before update on ai.model_prices
  for each row execute function ai.reject_price_change();

alter table ai.models enable row level security;
alter table ai.model_routes enable row level security;
alter table ai.model_prices enable row level security;
alter table ai.plans enable row level security;
alter table ai.model_grants enable row level security;
revoke all on ai.models, ai.model_routes, ai.model_prices, ai.plans, ai.model_grants from public, anon, authenticated;
