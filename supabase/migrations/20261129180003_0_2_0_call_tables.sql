-- Separate: every call reads these tables, so this file locks them at once and is short.
set lock_timeout = '500ms';

-- In the order in which admissions read them.
-- lock_timeout counts for each table, statement_timeout for all.
set statement_timeout = '1s';
do $$
begin
  lock table ai.keys, ai.plans, ai.budgets, ai.budget_alerts, ai.models, ai.model_routes, ai.credit_accounts in access exclusive mode;
end
$$;
reset statement_timeout;

alter table ai.models
  add column default_output_limit integer check (
    default_output_limit is null
    or kind = 'chat' and default_output_limit between 1 and 32768 and default_output_limit <= output_limit
  );
comment on column ai.models.default_output_limit is
  'The output limit of calls that state none. Null: the default of the platform.';

alter table ai.model_routes
  add column first_byte_seconds smallint check (first_byte_seconds between 1 and 14400),
  add column idle_seconds smallint check (idle_seconds between 1 and 14400),
  add column total_seconds smallint check (total_seconds between 1 and 14400);
comment on column ai.model_routes.first_byte_seconds is
  'How long a stream of this route may take until its first byte. Null: the provider''s setting.';
comment on column ai.model_routes.idle_seconds is
  'How long a stream of this route may pause. Null: the provider''s setting.';
comment on column ai.model_routes.total_seconds is
  'How long a call of this route may take. Null: the provider''s setting.';

alter table ai.keys
  add column is_strict boolean not null default false,
  add column entity_id text,
  add constraint keys_entity_id_check
    check (char_length(entity_id) between 1 and 128 and entity_id !~ '[^A-Za-z0-9._:-]') not valid,
  add column connection_id uuid,
  add constraint keys_connection_id_fkey
    foreign key (connection_id) references ai.agent_connections (id) on delete set null not valid,
  add constraint agent_keys_are_short_lived
    check (connection_id is null or expires_at is not null and expires_at <= created_at + interval '8 hours') not valid;
comment on column ai.keys.is_strict is
  'Calls with members or tools that the provider would not get are refused. Otherwise these are left out and named in'
  ' the answer.';
comment on column ai.keys.entity_id is
  'The entity label of all runs of the key; null: runs have the label of their X-Platform-Entity-Id. Set when the key'
  ' is created, and kept by rotation.';
comment on column ai.keys.connection_id is
  'The coding agent that the key was made for. Such a key lives for 8 hours at most, and no longer than the agent''s '
  'login.';
create index if not exists keys_connection_id_idx on ai.keys (connection_id) where connection_id is not null;

alter type ai.caller add attribute entity_id text, add attribute key_name text, add attribute is_strict boolean;

create type ai.claim as (
  refusal jsonb,
  request ai.run_request,
  caller ai.caller,
  label text,
  run_id uuid,
  model_id text,
  voice text,
  context_window integer,
  output_limit bigint,
  routes jsonb,
  cost_usd numeric(24, 12),
  budget_scopes text[],
  account_id uuid,
  credits numeric(24, 8),
  requests integer,
  tokens bigint,
  replaced_tokens bigint,
  minute timestamptz,
  limits text
);
comment on type ai.claim is
  'A priced call: its caller, the model and routes that it may use, what it reserves, and the limits that it must fit; or '
  'the reason why it is refused.';

-- The function of 0.1.0 with three more values, since it builds the type by position. The file of functions replaces it.
create or replace function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  key ai.keys;
  plan_id text;
  plan ai.plans;
  policy ai.workspace_policies;
  is_member boolean;
  budgets text[];
  refused text;
begin
  -- One row of one table by its key each: a join of them takes longer to start than all of these to run.
  select k.* into key
  from ai.keys k
  where k.secret_hash = key_caller.secret_hash
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
  if not found then
    return null;
  end if;
  select s.plan_id into plan_id from public.workspaces s where s.id = key.workspace_id and s.deleted_at is null;
  if not found then
    return null;
  end if;
  select p.* into plan from ai.plans p where p.id = plan_id;
  select w.* into policy from ai.workspace_policies w where w.workspace_id = key.workspace_id;
  if plan.payer = 'member' then
    perform from public.workspace_members m where m.workspace_id = key.workspace_id and m.user_id = key.created_by;
    is_member := found;
  end if;
  -- Few workspaces have any.
  perform from ai.budgets b where b.workspace_id = key.workspace_id;
  if found then
    budgets := ai.budget_scopes(key.workspace_id, key.lineage_id, key.external_app_id);
  end if;
  if key.allowed_addresses is not null or key.external_app_id is not null then
    refused := case
      -- No address told, no address allowed.
      when key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false)
        then 'insufficient_scope'
      -- A bound key stands for its app.
      when key.external_app_id is not null and not ai.app_can_act_in_workspace(key.external_app_id, key.workspace_id)
        then 'app_not_allowed'
    end;
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, null,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, budgets, null, null, null
  )::ai.caller;
end
$$;

-- Budgets and credits.

alter table ai.budgets
  add column label text,
  drop constraint budgets_scope_check,
  add constraint budgets_scope_check check (
    scope in ('key', 'app', 'member', 'workspace') and label is null
    or scope = 'label' and char_length(label) between 1 and 128 and label !~ '[^A-Za-z0-9._:-]' and label is not null
  ) not valid;
comment on table ai.budgets is
  'Monthly budgets (UTC) of a workspace, or of a key''s lineage, an app, a member or an entity label in it. What is '
  'reserved counts as spent until it settles.';
comment on column ai.budgets.label is
  'The text of an entity label, of which subject_id is ai.label_id. Null for other scopes.';

alter table ai.budget_alerts
  drop constraint budget_alerts_scope_check,
  add constraint budget_alerts_scope_check check (scope in ('key', 'app', 'member', 'label', 'workspace')) not valid;

alter table ai.plans add column low_credits numeric(24, 8);
alter table ai.plans add constraint plans_low_credits_check check (low_credits >= 0) not valid;
comment on column ai.plans.low_credits is
  'Below this balance a payer is warned. 0: never. Null: a tenth of the initial credits, or 10,000 where there are '
  'none.';

alter table ai.credit_accounts add column refused_at timestamptz;
comment on column ai.credit_accounts.refused_at is
  'When a call was last refused for lack of credits, to the minute. Null after a top-up.';
