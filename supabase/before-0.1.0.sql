-- Renames the objects of a database from before release 0.1.0, and drops the functions that `create or replace` cannot
-- change. docs/upgrading.md says how to use it. No data is lost: the only dropped table is ai.model_offers, which was
-- derived from the catalogue.
set local check_function_bodies = off;

-- Drops the functions of admission and settlement. They hold no data and are created again afterwards.
do $$
declare
  gone regprocedure;
begin
  for gone in
    select p.oid from pg_catalog.pg_proc p
    where p.pronamespace = 'ai'::regnamespace and p.proname in (
      'add_locks', 'admit', 'admit_plain_calls', 'admit_together', 'catalogued_offer', 'close_runs',
      'credential_of', 'dearest_offered_usd', 'dearest_usd', 'end_bookable_runs', 'end_run', 'end_runs', 'find_plain_calls',
      'finish_keys', 'full_minute', 'hold_budgets', 'hold_credits', 'hold_minutes_and_credits', 'lock_and_sum',
      'lock_budgets', 'lock_ending', 'lock_minutes', 'may_pay_in', 'note_use', 'offer_for', 'offers',
      'open_payers', 'open_plain_runs', 'person_caller', 'prices_of', 'plain_calls_over_budget', 'prepare_changed_offers', 'prepare_offers',
      'read_outcomes', 'refuse', 'release_budgets', 'reserve_credits', 'reserved_input_tokens', 'spend_budgets',
      'round_half_even', 'spend_credits', 'sum_calls', 'sum_run', 'tell_closed', 'tokens_cost_usd', 'usage_cost_usd'
    )
  loop
    execute format('drop function %s cascade', gone);
  end loop;
end
$$;
drop table ai.model_offers;
drop type ai.offered, ai.plain_calls, ai.plain_call, ai.held_calls, ai.settling_run, ai.closed_batch, ai.closed_run,
  ai.outcome, ai.lock_list, ai.locked_rows cascade;

alter table ai.lasting_runs rename to long_running_runs;
alter type ai.minute rename to rate_window_use;
alter table ai.usage_sealed rename to usage_sealed_days;
alter table ai.usage_changes rename to usage_changed_days;
alter table private.proven_addresses rename to verified_addresses;
alter table private.attempt_secret rename to attempt_secrets;
alter function ai.app_may_act_in(uuid,uuid) rename to app_can_act_in_workspace;
alter function ai.app_token_of(bytea) rename to find_app_token;
alter function ai.budgets_left(ai.caller,boolean) rename to remaining_budgets;
alter function ai.budgets_of(uuid,uuid,uuid) rename to budget_scopes;
alter function ai.counted_costs(uuid,timestamp with time zone,timestamp with time zone) rename to provider_costs_in_totals;
alter function ai.exact_text(timestamp with time zone) rename to utc_text_microseconds;
alter function ai.forget_expired(integer) rename to delete_expired;
alter function ai.give_back_runs(jsonb) rename to release_orphaned_runs;
alter function ai.is_late() rename to exceeds_caller_timeout;
alter function ai.keep_content(jsonb) rename to store_run_content;
alter function ai.key_spent_since(ai.caller,timestamp with time zone) rename to key_cost_since;
alter function ai.listed_provider(jsonb,smallint) rename to route_provider;
alter function ai.log_provider_invoice(uuid,uuid,uuid,jsonb) rename to record_invoice_activity;
alter function ai.look_for_open_runs(timestamp with time zone) rename to find_long_running_runs;
alter function ai.note_open_runs(timestamp with time zone,timestamp with time zone) rename to record_long_running_runs;
alter function ai.mark_usage_change() rename to record_usage_change;
alter function ai.may_issue_key(uuid,uuid) rename to key_issue_permission;
alter function ai.minute_left(text,uuid,integer,bigint) rename to remaining_rate;
alter function ai.note_budget_alerts() rename to record_budget_alerts;
alter function ai.note_key_use(ai.caller) rename to record_key_use;
alter function ai.open_run_content(uuid,uuid,uuid) rename to read_run_content;
alter function ai.person_spent_since(ai.caller,timestamp with time zone) rename to user_cost_since;
alter function ai.post_budget_alert(jsonb,text,text) rename to queue_budget_alert_mails;
alter function ai.provider_of(jsonb,smallint) rename to run_provider;
alter function ai.readable_content(uuid,uuid) rename to retained_content;
alter function ai.read_policy_frame(uuid,uuid) rename to read_policy_options;
alter function ai.rearm_budget_alert(text,uuid,uuid) rename to reset_budget_alert;
alter function ai.reject_half_ended_run() rename to reject_incomplete_settlement;
alter function ai.reject_account() rename to reject_credit_account_change;
alter function ai.reject_ledger_entry() rename to reject_incomplete_ledger_entry;
alter function ai.seal_usage_days(integer) rename to seal_completed_usage_days;
alter function ai.spent_this_month(ai.caller,boolean) rename to cost_this_month;
alter function ai.sum_changed_days(integer) rename to rebuild_changed_usage_days;
alter function ai.sum_usage_day(date,uuid[]) rename to rebuild_usage_day;
alter function ai.sweep_content(integer) rename to delete_expired_content;
alter function ai.take_rate(text,uuid,integer,bigint,bigint,integer) rename to consume_rate_limit;
alter function ai.tell_limits(timestamp with time zone,bigint[]) rename to rate_limit_headers;
alter function ai.touch_runs(jsonb) rename to heartbeat_runs;
alter function private.my_fellow_ids() rename to my_coworker_ids;
alter function private.my_workspace_ids_with(workspace_permission) rename to my_workspace_ids_with_permission;
alter function private.found_workspace() rename to create_workspace_defaults;
alter function private.keep_an_owner() rename to require_workspace_owner;
alter function private.end_workspaces_of_profile() rename to close_orphaned_workspaces;
alter function private.display_name_of(jsonb,text) rename to default_display_name;
alter function private.welcome_new_user() rename to create_profile_and_workspace;
alter function private.end_one_account_at_a_time() rename to serialize_account_deletions;
alter function private.is_whole_number(jsonb) rename to is_integer;
alter function private.policy_generation(jsonb) rename to required_mfa_generation;
alter function private.amr_within(jsonb,text[],bigint,bigint) rename to has_amr_between;
alter function private.keep_required_mfa_policy() rename to preserve_required_mfa_policy;
alter function private.block_length(integer) rename to block_duration;
alter function private.take_attempt(bytea,text,text,interval,interval) rename to consume_attempt;
alter function private.return_attempts(bytea[]) rename to refund_attempts;
alter function private.prove_address(bytea) rename to record_verified_address;
alter function private.settle_attempt(uuid,text) rename to complete_attempt;
alter function private.clear_expired_attempts() rename to delete_expired_attempts;
alter function private.bucket_is_empty(bytea,interval,interval) rename to is_bucket_empty;
alter function private.settle_oauth_attempt(text,text,text,text) rename to complete_oauth_attempt;
alter function private.passkeys_of(uuid) rename to list_passkeys;
alter function private.sign_in_methods(uuid) rename to list_sign_in_methods;
alter function private.app_of_origin(text) rename to find_app_by_origin;
alter function private.app_by_name(text) rename to read_app;
alter function private.hold_app_credentials(uuid) rename to lock_app_credentials;
alter function private.hold_accounts(uuid[]) rename to lock_accounts;
alter function private.proof_of(jsonb) rename to handoff_proof;
alter function private.proof_standing(private.mfa_proof) rename to proof_status;
alter function private.scopes_in_force(private.app_sessions) rename to effective_scopes;
alter function private.app_may_act_in(private.apps,uuid) rename to app_can_act_in_workspace;
alter function private.is_member(uuid,uuid) rename to is_workspace_member;
alter function private.app_caller_of(bytea,text) rename to find_app_caller;
alter function private.workspaces_of(uuid) rename to user_workspaces;
alter function private.renaming_caller_of(bytea,uuid) rename to find_renaming_caller;
alter function private.may_rename_by_app_session(bytea,uuid) rename to can_rename_by_app_session;
alter function private.apps_that_held(uuid) rename to apps_ever_connected;
alter function private.app_has_held(uuid,text) rename to app_was_ever_connected;
alter function private.device_standing(private.account_devices,text) rename to device_secret_status;
alter function private.vault_entry_usable(private.account_vault_entries) rename to is_vault_entry_usable;
alter function private.device_secret_arrived(uuid,text) rename to confirm_device_secret;
alter function private.keep_account_session(jsonb) rename to store_account_session;
alter function private.lose_account_session(uuid,uuid,text,boolean) rename to discard_account_session;
alter function private.caller_claims(jsonb) rename to mfa_claims;
alter function private.own_second_factor(jsonb) rename to session_second_factor;
alter function private.void_recovery_credential(uuid) rename to invalidate_recovery_credential;
alter function private.judge_recovery_credential(private.recovery_credentials,bytea) rename to check_recovery_credential;
alter function private.prove_override_password(jsonb) rename to verify_override_password;
alter function private.login_override(text) rename to active_login_override;
alter function private.recovery_link_email(bytea) rename to find_recovery_link_email;
alter function private.accounts_named(text) rename to find_accounts_exactly;
alter function private.accounts_like(text,integer) rename to find_accounts_matching;
alter function private.record_admin_act(jsonb,jsonb) rename to record_admin_action;
alter function private.last_admin_act(text) rename to last_admin_action;
alter function private.may_read_console(jsonb) rename to can_read_console;
drop function private.tell_owner(jsonb,jsonb);
alter function private.names_each_once(workspace_permission[]) rename to has_unique_items;
alter function private.end_app_credentials_of_user() rename to revoke_user_app_credentials;
alter function private.end_credentials_of_app() rename to revoke_app_credentials;
alter function private.model_catalogue() rename to list_catalogue_models;
alter function private.account_deletion_blockers(uuid) rename to list_account_deletion_blockers;
alter function private.mark_unconfirmed_identity() rename to record_unconfirmed_identity;
alter function private.address_block(inet) rename to truncate_address;
alter function private.event_network(jsonb) rename to hook_network;
alter table private.verified_addresses rename column proven_until to verified_until;
alter trigger mark_usage_change on ai.runs rename to record_usage_change;
alter trigger found_workspace on workspaces rename to create_workspace_defaults;
alter trigger keep_an_owner on workspace_members rename to require_workspace_owner;
alter trigger mark_usage_addition on ai.runs rename to record_usage_addition;
alter trigger mark_usage_deletion on ai.runs rename to record_usage_deletion;
alter trigger is_whole on ai.runs rename to reject_incomplete_settlement;
alter trigger is_whole on ai.credit_ledger rename to reject_incomplete_ledger_entry;
alter trigger stays_with_its_entries on ai.credit_accounts rename to reject_credit_account_change;
alter trigger end_workspaces on profiles rename to close_orphaned_workspaces;
alter trigger end_credentials on private.apps rename to revoke_app_credentials;
alter table private.attempt_secrets rename constraint attempt_secret_id_check to attempt_secrets_id_check;
alter table private.attempt_secrets rename constraint attempt_secret_secret_check to attempt_secrets_secret_check;
alter table private.attempt_secrets rename constraint attempt_secret_pkey to attempt_secrets_pkey;
alter table private.verified_addresses rename constraint proven_addresses_pair_check to verified_addresses_pair_check;
alter table private.verified_addresses rename constraint proven_addresses_pkey to verified_addresses_pkey;
alter table ai.long_running_runs rename constraint lasting_runs_pkey to long_running_runs_pkey;
alter table ai.usage_changed_days rename constraint usage_changes_pkey to usage_changed_days_pkey;
alter table ai.usage_sealed_days rename constraint usage_sealed_singleton_check to usage_sealed_days_singleton_check;
alter table ai.usage_sealed_days rename constraint usage_sealed_pkey to usage_sealed_days_pkey;
alter index private.proven_addresses_proven_until_idx rename to verified_addresses_proven_until_idx;
alter index ai.usage_changes_workspace_id_day_idx rename to usage_changed_days_workspace_id_day_idx;
alter sequence ai.usage_changes_id_seq rename to usage_changed_days_id_seq;

drop function public.has_workspace_permission(uuid, public.workspace_permission);
drop function ai.new_run_id(text);
drop function private.serialize_account_deletions() cascade;
drop function private.preserve_required_mfa_policy() cascade;
drop function private.record_unconfirmed_identity() cascade;
drop function private.create_profile_and_workspace() cascade;

alter table ai.runs
  add column cost_so_far_usd numeric(24, 12) not null default 0,
  add column cache_write_tokens bigint not null default 0,
  add column cache_write_1h_tokens bigint not null default 0,
  add column image_input_tokens bigint not null default 0,
  add column fee_requests bigint not null default 0,
  add column served_tier text,
  add column marks text[] not null default '{}',
  add column billing_name text,
  add column billing_account text;

alter table ai.usage_daily
  drop constraint usage_daily_workspace_id_day_app_id_key_lineage_id_provider_key,
  add column billing_name text,
  add column billing_account text,
  add unique nulls not distinct (
    workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, billing_name, billing_account
  );

alter table ai.model_routes
  add column tier_multipliers jsonb not null default '{}' check (
    jsonb_typeof(tier_multipliers) = 'object'
    and not jsonb_path_exists(tier_multipliers, '$.* ? (@.type() != "number" || @ < 0)')
  ),
  add column trusts_stated_cost boolean not null default false;
alter table ai.model_prices drop constraint model_prices_one_at_a_time, drop column as_offered;
drop function ai.price_tier(integer, numeric, numeric, numeric, numeric, numeric);
create or replace function ai.price_tier(
  service_tier text, min_input_tokens integer, input numeric, cached_input numeric, cache_write numeric,
  cache_write_1h numeric, output numeric, audio_input numeric, audio_output numeric, image_input numeric, request_fee numeric
) returns jsonb
  language sql
  -- jsonb_build_object is only stable, because the text of some types depends on settings. The types used here have the
  -- same text with any settings.
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
alter table ai.model_prices
  add column service_tier text not null default 'default' check (service_tier ~ '^[a-z][a-z0-9_-]{0,31}$'),
  add column cache_write_usd_per_million numeric(18, 6) check (cache_write_usd_per_million >= 0),
  add column cache_write_1h_usd_per_million numeric(18, 6) check (cache_write_1h_usd_per_million >= 0),
  add column image_input_usd_per_million numeric(18, 6) check (image_input_usd_per_million >= 0),
  add column request_fee_usd numeric(18, 6) check (request_fee_usd >= 0);
alter table ai.model_prices
  add column as_offered jsonb not null generated always as (ai.price_tier(
    service_tier, min_input_tokens, input_usd_per_million, cached_input_usd_per_million, cache_write_usd_per_million,
    cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million, audio_output_usd_per_million,
    image_input_usd_per_million, request_fee_usd
  )) stored,
  add constraint model_prices_one_at_a_time exclude using gist
    (model_id with =, provider_id with =, service_tier with =, min_input_tokens with =, valid with &&);
comment on column ai.model_routes.tier_multipliers is
  'Multiples of the default prices by service tier, such as {"priority": 2}. Tiers that have prices of their own '
  'have rows in ai.model_prices.';
comment on column ai.model_routes.trusts_stated_cost is
  'If true, the cost of a run is the cost that the provider states in its answer.';
comment on column ai.model_prices.service_tier is
  'The service tier that the provider''s answer states; default if it states none.';
comment on column ai.model_prices.cache_write_usd_per_million is
  'The price of writing input to a cache. If null, cache writes cost the input price.';
comment on column ai.model_prices.cache_write_1h_usd_per_million is
  'The price of writing input to a cache for one hour. If null, these writes cost the price of other cache writes.';
comment on column ai.model_prices.image_input_usd_per_million is
  'The price of image input. If null, image input costs the input price.';
comment on column ai.model_prices.request_fee_usd is
  'The fee for each billable action that the provider counts in a call, such as a web search. Null if there is no '
  'fee.';
comment on column ai.model_prices.as_offered is
  'The price in the form that begin_run returns, computed once instead of on every call.';
comment on column ai.runs.marks is
  'Reasons for an operator to check the run: above_context_window, above_output_limit, implausible, unpriced_tier.';
comment on column ai.runs.billing_name is
  'The company that bills the run''s provider call. Used for reconciliation, together with the account.';
comment on column ai.runs.cost_so_far_usd is
  'The cost of an open run''s provider calls at its latest heartbeat. Charged if the function that runs it crashes.';

create type ai.credential as (source text, hash text, claims jsonb);
comment on type ai.credential is
  'What a caller presents: the SHA-256 of a key or of an app''s token, or the verified claims of a session.';

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
comment on type ai.run_request is
  'A call as the gateway describes it to ai.begin_run. Functions that only read a credential receive some of the '
  'fields.';

create type ai.route_offer as (
  refusal jsonb,
  model_id text,
  voice text,
  routes jsonb,
  context_window integer,
  reserved_tokens bigint,
  maximum_cost_usd numeric(24, 12)
);
comment on type ai.route_offer is
  'A model with its routes and prices, and the maximum tokens and cost of a call; or the reason why there is none.';

create type ai.priced_call as (
  refusal jsonb,
  request ai.run_request,
  caller ai.caller,
  offer ai.route_offer,
  account_id uuid
);
comment on type ai.priced_call is
  'A call with its caller, offer and paying account, before anything is locked; or the reason why it is refused.';

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
  'The rows and locks that ai.lock_rows takes. Idempotency keys are advisory locks of the listed workspaces. The '
  'listed keys are those whose last use is updated.';

create type ai.reservation as (refused text, workspace_window ai.rate_window_use, budget_scopes text[]);
comment on type ai.reservation is 'What a provider call has reserved, or the limit that refused it.';

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
  'How a run ended, as the gateway reports it, with the usage and cost of all its provider calls together.';

create type ai.token_use as (text bigint, image bigint, audio bigint, output bigint);
comment on type ai.token_use is 'The tokens of a call: input by class, and output.';

create type ai.run_report as (run ai.runs, outcome jsonb);
comment on type ai.run_report is 'A locked run, and what the gateway reported about it.';

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
  'A run in its closed state, and the resulting changes: the credits and cost that become due, what its reservation'
  ' returns to the account and the budgets, and whether its idempotency key is free again.';

-- We cannot rename triggers on Supabase Auth's tables, so supabase/schemas creates them again. Their functions must
-- exist by then, so these stubs define them.
create function private.serialize_account_deletions() returns trigger language plpgsql as 'begin return new; end';
create function private.preserve_required_mfa_policy() returns trigger language plpgsql as 'begin return new; end';
create function private.record_unconfirmed_identity() returns trigger language plpgsql as 'begin return new; end';
create function private.create_profile_and_workspace() returns trigger language plpgsql as 'begin return new; end';

-- Redefines these policies, because they select a function's result column by the function's old name.
alter policy select_shared_workspace on public.profiles using (id in (select private.my_coworker_ids()));
alter policy update_with_permission on public.workspaces
  using (id in (select private.my_workspace_ids_with_permission('manage_workspace_settings')))
  with check (id in (select private.my_workspace_ids_with_permission('manage_workspace_settings')));
alter policy select_with_permission on public.workspace_invitations
  using (workspace_id in (select private.my_workspace_ids_with_permission('manage_members')));
