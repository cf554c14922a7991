-- What OpenRouter charged for single calls.
set lock_timeout = '500ms';

create table ai.generation_costs (
  run_id uuid not null,
  generation_id text not null check (generation_id ~ '^gen-.' and char_length(generation_id) <= 128),
  cost_usd numeric check (cost_usd >= 0),
  own_key_usd numeric check (own_key_usd >= 0),
  observed_at timestamptz not null,
  primary key (run_id, generation_id),
  check (own_key_usd is null or cost_usd is not null)
);
comment on table ai.generation_costs is
  'The answers of OpenRouter about the cost of single calls (generations). Kept for good, like the runs.';
comment on column ai.generation_costs.cost_usd is
  'What OpenRouter charged, with all its decimals. Null if it did not know the generation.';
comment on column ai.generation_costs.own_key_usd is
  'What the model''s provider charged the operator''s own key. OpenRouter does not bill it. Null for calls with its key.';
select private.protect_table('ai.generation_costs');
revoke insert, update, delete on ai.generation_costs from service_role;
