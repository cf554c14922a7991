-- Separate: tables in use that most calls do not read, so that a wait for them delays few calls.
set lock_timeout = '500ms';
-- If pg_trgm is installed in another schema, its operator class is found there.
set search_path = extensions, public;

-- In the order in which sign-ins, apps and reports use them.
-- lock_timeout counts for each table, statement_timeout for all.
set statement_timeout = '1s';
do $$
begin
  lock table
    private.login_challenges, private.recovery_credentials, public.security_events, private.outgoing_mails,
    private.apps,
    ai.usage_daily, ai.external_provider_costs, ai.external_provider_invoices
  in access exclusive mode;
end
$$;
reset statement_timeout;

-- Accounts: their log and its emails, additions, and what can open them.

alter table public.security_events
  add column target_id uuid,
  add column place text,
  add constraint security_events_place_check check (char_length(place) between 1 and 120) not valid;
comment on column public.security_events.target_id is
  'The identity, passkey or authenticator that the event concerns. No foreign key: they are the identity backend''s.';
comment on column public.security_events.place is
  'City and country of the visitor ("Porto, Portugal"), as a header of a trusted proxy gave them; null without one.';

alter table private.outgoing_mails
  add column event_id uuid references public.security_events (id) on delete cascade,
  alter column subject drop not null,
  alter column body drop not null,
  add constraint text_or_event check ((event_id is null) = (subject is not null and body is not null)) not valid;
comment on column private.outgoing_mails.event_id is
  'The event that the mail tells the owner about. Our server writes the text when it sends the mail.';
create index if not exists outgoing_mails_event_id_idx on private.outgoing_mails (event_id);

alter table private.recovery_credentials
  add column repeatable_by bytea,
  add column repeatable_session_id uuid,
  add column replaced_password boolean not null default false;
comment on column private.recovery_credentials.repeatable_by is
  'The hash of a secret of the browser that used it. From then on, only that browser can use it.';
comment on column private.recovery_credentials.repeatable_session_id is
  'The session that it has made. It can be used again until that session ends or its browser shows it. No foreign '
  'key, as in private.account_additions.';
comment on column private.recovery_credentials.replaced_password is
  'Whether it replaced the password of an unconfirmed account, so that a repetition asks for a new one as well.';

alter table private.login_challenges add column proof_key bytea check (octet_length(proof_key) = 32);
comment on column private.login_challenges.proof_key is
  'Key of the proofs that our server sends for a browser that shows the cookie of a bound approval. Null for '
  'approvals that release 0.1.0 bound, which count without a proof.';

create index if not exists workspaces_name_id_idx on public.workspaces (name, id) where deleted_at is null;
create index if not exists workspaces_name_trgm_idx on public.workspaces using gin (lower(name) gin_trgm_ops)
  -- Searches would read what waits to be indexed, row by row.
  with (fastupdate = off)
  where deleted_at is null;

-- Apps and OpenID Connect.

alter table private.apps drop constraint apps_kind_check;
alter table private.apps add constraint apps_kind_check check (kind in ('internal', 'external', 'openid')) not valid;
alter table private.apps add column backchannel_logout_uri text;
alter table private.apps add constraint apps_backchannel_logout_uri_check check (
  char_length(backchannel_logout_uri) <= 2000
  and (
    backchannel_logout_uri ~ '^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[^#\s]*)?$'
    or backchannel_logout_uri ~ '^http://(localhost|([a-z0-9-]+\.)+localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/[^#\s]*)?$'
  )
) not valid;
comment on column private.apps.backchannel_logout_uri is
  'Where the platform posts a logout token when a login at the app ends (OpenID Connect Back-Channel Logout 1.0).';

alter table private.apps add column resource_url text unique;
alter table private.apps add constraint apps_resource_url_check check (
  kind = 'internal'
  and char_length(resource_url) <= 2000
  and (
    resource_url ~ '^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[^?#\s]+)?$'
    or resource_url ~ '^http://(localhost|([a-z0-9-]+\.)+localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/[^?#\s]+)?$'
  )
  or resource_url is null
) not valid;
comment on column private.apps.resource_url is
  'The URL of an MCP server or API that clients call with access tokens of their own (RFC 8707), as an audience.';

alter table private.apps drop constraint apps_scopes_check;
alter table private.apps add constraint apps_scopes_check check (
  scopes <@ array[
    'profile', 'workspaces:read', 'workspaces:write', 'studio:read', 'studio:keys', 'workspace:session', 'ai:use', 'tts:use'
  ]
) not valid;
alter table private.apps add constraint key_scope_is_for_openid_clients check (
  kind = 'openid' or not scopes @> array['studio:keys']
) not valid;

-- The console lists accounts by this: hosted Supabase allows no index of ours on auth.users.
create index if not exists profiles_created_at_id_idx on public.profiles (created_at desc, id desc);

-- Daily sums. ai.sum_usage returns rows of the table, so it changes with it.

alter table ai.usage_daily
  add column actor_id uuid,
  add column estimated_runs bigint not null default 0,
  add column closed_runs bigint not null default 0;
comment on column ai.usage_daily.actor_id is
  'The member who called, or who made the key. Null in sums of days before ai.usage_progress.detailed_from.';
comment on column ai.usage_daily.estimated_runs is
  'Runs whose usage was estimated in part or in whole. 0 in sums of days before ai.usage_progress.detailed_from.';
comment on column ai.usage_daily.closed_runs is
  'Runs that the sweep closed, which name no billing account. As estimated_runs, 0 in older sums.';

-- Returns whether at least a part of a run's usage was estimated. Returns false for runs that the sweep closed.
create or replace function ai.is_estimated(usage_source ai.usage_source, swept boolean) returns boolean
  language sql immutable security invoker parallel safe
as $$
  select usage_source in ('provider_partial', 'estimated_partial') and not swept
$$;

-- Returns sums of a workspace's runs in a half-open range, in the format of ai.usage_daily. Includes runs in progress.
-- Has no SET clause, so that Postgres inlines it into its callers' plans and applies their conditions to the runs.
create or replace function ai.sum_usage(workspace uuid, first_moment timestamptz, end_moment timestamptz) returns setof ai.usage_daily
  language sql stable security invoker
as $$
  select
    r.workspace_id, (r.created_at at time zone 'UTC')::date, r.app_id, r.key_lineage_id, ai.run_provider(r.routes, r.route),
    r.model_id, r.feature, r.execution_mode,
    count(*), count(*) filter (where r.status = 'failed'), sum(r.input_tokens)::bigint, sum(r.output_tokens)::bigint,
    sum(r.cost_usd), sum(r.billed_credits), sum(r.unmetered_credits),
    coalesce(sum(r.latency_ms), 0)::bigint, count(r.latency_ms),
    coalesce(sum(ai.latency_mark(r.latency_ms)), 0),
    coalesce(sum(ai.latency_mark(case when r.streamed then r.first_byte_ms end)), 0),
    r.billing_name, r.billing_account, r.actor_id,
    count(*) filter (where ai.is_estimated(r.usage_source, r.swept)),
    count(*) filter (where r.swept)
  from ai.runs r
  where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
  group by 1, 2, 3, 4, 5, 6, 7, 8, r.billing_name, r.billing_account, r.actor_id
$$;

-- One writer replaces a day's rows of a workspace; reports find them by workspace and day.
create index if not exists usage_daily_workspace_id_day_idx on ai.usage_daily (workspace_id, day, app_id);
alter table ai.usage_daily
  drop constraint usage_daily_workspace_id_day_app_id_key_lineage_id_provider_key;

-- Provider totals over all workspaces.
create index if not exists usage_daily_day_idx on ai.usage_daily (day);

-- Costs and invoices.

comment on column ai.external_provider_costs.workspace_id is 'The nil UUID: the platform''s book, which has no apps.';
comment on column ai.external_provider_invoices.workspace_id is 'The nil UUID: the platform''s book, which has no apps.';
alter table ai.external_provider_invoices
  add column if not exists kind text not null default 'invoice',
  add column if not exists replaces text;
alter table ai.external_provider_invoices
  add constraint external_provider_invoices_kind_check check (kind in ('invoice', 'credit_note')) not valid,
  add constraint external_provider_invoices_replaces_check check (replaces <> reference) not valid;
comment on column ai.external_provider_invoices.kind is 'The amount of a credit note is positive and is subtracted.';
comment on column ai.external_provider_invoices.replaces is
  'The reference of the invoice that this one corrects, which no longer counts.';

create unique index if not exists external_provider_invoices_one_replacement_idx
  on ai.external_provider_invoices (workspace_id, app_id, provider, replaces, account_id) nulls not distinct
  where replaces is not null;

alter table ai.external_provider_costs
  add column import_id uuid,
  add column original jsonb;
alter table ai.external_provider_costs
  drop constraint external_provider_costs_account_id_check,
  drop constraint external_provider_costs_external_run_id_check,
  drop constraint external_provider_costs_service_check,
  drop constraint external_provider_costs_amount_usd_check,
  add constraint external_provider_costs_account_id_form check (
    char_length(account_id) between 1 and 256 and account_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_costs_external_run_id_form check (
    char_length(external_run_id) between 1 and 256 and external_run_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_costs_service_form check (
    char_length(service) between 1 and 256 and service !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_costs_amount_sign check (amount_usd >= 0 or granularity = 'account_day') not valid,
  add constraint external_provider_costs_original_import check (original is null or import_id is not null) not valid,
  drop constraint external_provider_costs_check1,
  add constraint external_provider_costs_observed_at_check
    check (observed_at <= recorded_at + interval '5 minutes') not valid;
comment on column ai.external_provider_costs.amount_usd is
  'A day''s total is negative where refunds and credits exceed the cost.';
comment on column ai.external_provider_costs.import_id is
  'The import in ai.cost_imports that wrote the current state; null for the API.';
comment on column ai.external_provider_costs.original is
  'The amounts before conversion, [{ currency, amount }] as exact text. Null where all were USD.';

alter table ai.external_provider_invoices
  drop constraint external_provider_invoices_account_id_check,
  drop constraint external_provider_invoices_reference_check,
  add constraint external_provider_invoices_account_id_form check (
    char_length(account_id) between 1 and 256 and account_id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid,
  add constraint external_provider_invoices_reference_form check (
    char_length(reference) between 1 and 256 and reference !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
  ) not valid;

-- Provider names were once stored as they were sent. Comparisons use lower(provider).
create index if not exists external_provider_costs_spelling_idx
  on ai.external_provider_costs (workspace_id, app_id, external_run_id)
  where provider <> lower(provider);
create index if not exists external_provider_costs_account_day_name_idx
  on ai.external_provider_costs (workspace_id, app_id, lower(provider), account_id, occurred_at)
  where granularity = 'account_day';
create index if not exists external_provider_invoices_reference_idx
  on ai.external_provider_invoices (workspace_id, app_id, reference);
create index if not exists external_provider_invoices_replaces_idx
  on ai.external_provider_invoices (workspace_id, app_id, replaces)
  where replaces is not null;

create index if not exists external_provider_costs_name_idx
  on ai.external_provider_costs (workspace_id, app_id, lower(provider), external_run_id);

-- external_provider_costs_account_day_name_idx has taken its place.
drop index if exists ai.external_provider_costs_account_day_idx;

-- The next file copies existing accounts, so the triggers must exist before.

-- Maintains an account's row in private.account_search.
-- Definer: the identity backend's role and signed-in users have no grant on private.account_search.
create or replace function private.index_account() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  insert into private.account_search (user_id, email, terms)
  select u.id, u.email, lower(concat_ws(e'\n', u.email, p.display_name))
  from auth.users u
  left join public.profiles p on p.id = u.id
  where u.id = new.id
  on conflict (user_id) do update set email = excluded.email, terms = excluded.terms;
  return null;
end
$$;

-- Lets the console find accounts by part of the name.
create or replace trigger index_account after insert or update of display_name on public.profiles
  for each row execute function private.index_account();

-- Updates our search table when Auth changes an email. We can't add an index to Auth's own table.
create or replace trigger index_account after update of email on auth.users
  for each row when (old.email is distinct from new.email) execute function private.index_account();
