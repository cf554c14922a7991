-- Tables and types since 0.1.0, and comments. Locks no table that calls read. Their foreign keys lock auth.users against
-- writes until the file is applied.
set lock_timeout = '500ms';
-- If pg_trgm is installed in another schema, its operator class is found there.
set search_path = extensions, public;

-- Writes would wait while a later file builds an index on a large table. So this file ends the upgrade, before it has
-- changed anything, if an index is missing on more than 8 MB of rows, or invalid since its build failed.
do $$
declare
  missing text;
begin
  select string_agg(i.name, ', ' order by i.name) into missing
  from (
    select w.name, pg_relation_size(w.relation::regclass) as size, x.indisvalid
    from (values
      ('public.workspaces', 'public.workspaces_name_id_idx'),
      ('public.workspaces', 'public.workspaces_name_trgm_idx'),
      ('public.profiles', 'public.profiles_created_at_id_idx'),
      ('ai.usage_daily', 'ai.usage_daily_day_idx'),
      ('ai.usage_daily', 'ai.usage_daily_workspace_id_day_idx'),
      ('ai.external_provider_costs', 'ai.external_provider_costs_name_idx'),
      ('ai.external_provider_costs', 'ai.external_provider_costs_account_day_name_idx'),
      ('ai.external_provider_costs', 'ai.external_provider_costs_spelling_idx'),
      ('ai.external_provider_invoices', 'ai.external_provider_invoices_reference_idx')
    ) as w (relation, name)
    left join pg_catalog.pg_index x on x.indexrelid = to_regclass(w.name)
    union all
    select
      format('(request_id, workspace_id) on %s', p.inhrelid::regclass), pg_relation_size(p.inhrelid),
      -- False if one of the indexes is invalid, since it could be the one that is attached. Null if there is none.
      bool_and(x.indisvalid) filter (where pg_get_indexdef(x.indexrelid) like '%(request_id, workspace_id)')
    from pg_catalog.pg_inherits p
    left join pg_catalog.pg_index x on x.indrelid = p.inhrelid
    where p.inhparent = 'ai.runs'::regclass
    group by p.inhrelid
  ) i
  where not i.indisvalid or i.indisvalid is null and i.size > 8 * 1024 * 1024;
  if missing is not null then
    raise exception 'Nothing was changed. First build the indexes that are missing or invalid: %', missing
      using hint = 'CHANGELOG.md has the statements under "Indexes to build first". Drop an invalid index before you build it again.';
  end if;
end
$$;

create extension if not exists pg_trgm with schema extensions;

create table private.unconfirmed_additions (
  target_id uuid primary key,
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null check (kind in ('identity', 'passkey', 'authenticator')),
  created_at timestamptz not null default now()
);
comment on table private.unconfirmed_additions is
  'Identities, passkeys and authenticators that a direct call of the identity backend added, until the owner keeps '
  'them. No foreign key to them: they are the identity backend''s.';
create index unconfirmed_additions_user_id_idx on private.unconfirmed_additions (user_id);
select private.protect_table('private.unconfirmed_additions');

create table private.announced_additions (
  target text primary key check (char_length(target) between 1 and 2048),
  user_id uuid not null references auth.users (id) on delete cascade,
  expires_at timestamptz not null default now() + interval '1 minute'
);
comment on table private.announced_additions is
  'Authenticators (by id) and passkeys (by credential id in hexadecimal) that our server is about to add, after '
  'step-up.';
create index announced_additions_user_id_idx on private.announced_additions (user_id);
select private.protect_table('private.announced_additions');

create table private.access_confirmations (
  user_id uuid primary key references auth.users (id) on delete cascade,
  confirmed_at timestamptz not null,
  confirmed_by_mail_at timestamptz
);
comment on table private.access_confirmations is 'When an owner last confirmed the list of what can open the account.';
comment on column private.access_confirmations.confirmed_by_mail_at is
  'When a session that began with a password reset or recovery last did so. Others may have known the password alone.';
select private.protect_table('private.access_confirmations');

create table private.account_additions (
  secret_hash bytea primary key check (octet_length(secret_hash) = 32),
  device_id uuid not null references private.account_devices (id) on delete cascade,
  user_id uuid references auth.users (id) on delete cascade,
  session_id uuid not null,
  sealed text check (char_length(sealed) between 40 and 16384),
  key_id text check (char_length(key_id) between 1 and 64),
  token_tag text check (char_length(token_tag) between 16 and 64),
  taken_from bytea check (octet_length(taken_from) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '15 minutes',
  constraint sealed_until_taken check (
    (sealed is null) = (taken_from is not null)
    and (sealed is null) = (user_id is null)
    and (sealed is null) = (key_id is null)
    and (sealed is null) = (token_tag is null)
  )
);
comment on table private.account_additions is
  'Sign-ins on a known browser, by the hash of a secret that only their response carries. A sign-in joins the '
  'browser''s accounts when the browser shows that secret.';
comment on column private.account_additions.user_id is
  'Null once the account has joined: a browser that lost that response keeps its other accounts when this one is '
  'deleted.';
comment on column private.account_additions.session_id is
  'No foreign key: sessions come and go in the identity backend''s own schema.';
comment on column private.account_additions.taken_from is
  'The hash of the device secret that was shown when the account joined; null before. The row then leads a browser '
  'that lost that response from this secret to the next one.';
create index account_additions_device_id_idx on private.account_additions (device_id);
create index account_additions_user_id_idx on private.account_additions (user_id);
create index account_additions_expires_at_idx on private.account_additions (expires_at);
select private.protect_table('private.account_additions');

create table private.password_replacements (
  session_id uuid primary key,
  user_id uuid not null references auth.users (id) on delete cascade,
  created_at timestamptz not null default now()
);
comment on table private.password_replacements is
  'Sessions that began with a password that is easy to guess: they may replace it or sign out, and nothing else. No '
  'foreign key to the session: it is the identity backend''s.';
create index password_replacements_user_id_idx on private.password_replacements (user_id);
select private.protect_table('private.password_replacements');

-- Search by the console. The triggers are here, because they must exist before the next file copies existing accounts.

create table private.account_search (
  user_id uuid primary key references auth.users (id) on delete cascade,
  email text,
  terms text not null
);
comment on table private.account_search is
  'What the console searches accounts by. Hosted Supabase allows no index of ours on auth.users, so triggers keep a '
  'copy.';
comment on column private.account_search.terms is 'Email and name, in lower case, a line each.';
create index account_search_email_user_id_idx on private.account_search (email, user_id);
create index account_search_terms_trgm_idx on private.account_search using gin (terms gin_trgm_ops) with (fastupdate = off);
alter table private.account_search enable row level security;
select private.protect_table('private.account_search');

create table private.openid_clients (
  app_id uuid primary key references private.apps (id) on delete cascade,
  is_public boolean not null,
  redirect_uris text[] not null default '{}' check (cardinality(redirect_uris) <= 20),
  post_logout_redirect_uris text[] not null default '{}' check (cardinality(post_logout_redirect_uris) <= 20),
  allows_device_grant boolean not null default false,
  registration text not null default 'operator' check (registration in ('operator', 'document', 'dynamic')),
  metadata_url text unique check (char_length(metadata_url) <= 2000),
  metadata_expires_at timestamptz,
  expires_at timestamptz,
  requires_pkce boolean not null default true,
  claims_in_id_token boolean not null default false,
  groups_workspace_id uuid references public.workspaces (id) on delete set null,
  created_at timestamptz not null default now(),
  constraint public_clients_use_pkce check (requires_pkce or not is_public),
  constraint self_registered_clients_are_public check (registration = 'operator' or is_public),
  constraint self_registered_clients_expire check ((registration = 'operator') = (expires_at is null)),
  constraint only_document_clients_have_a_url check (
    (registration = 'document') = (metadata_url is not null)
    and (metadata_url is null) = (metadata_expires_at is null)
  )
);
create index openid_clients_groups_workspace_id_idx on private.openid_clients (groups_workspace_id);
comment on table private.openid_clients is 'Settings of apps that are OpenID Connect clients.';
comment on column private.openid_clients.registration is
  'operator: registered in the console or by the command line. document: by its metadata document, whose URL is the '
  'client id. dynamic: by itself (RFC 7591). The last two get tokens for a resource only.';
comment on column private.openid_clients.metadata_expires_at is 'When the document must be fetched again before a sign-in.';
comment on column private.openid_clients.expires_at is 'When a client that registered itself is deleted unless it is used.';
create index openid_clients_expires_at_idx on private.openid_clients (expires_at);
comment on column private.openid_clients.is_public is
  'A client without a secret, such as a single-page or command-line app. It proves itself by PKCE alone.';
comment on column private.openid_clients.redirect_uris is
  'Compared as exact strings, except for the port of a public client''s loopback address (RFC 8252 section 7.3).';
comment on column private.openid_clients.requires_pkce is
  'Whether authorization requests need a code challenge (RFC 7636). Only a client with a secret may go without one.';
comment on column private.openid_clients.claims_in_id_token is
  'Whether the ID token has the claims that the scopes allow, as userinfo has. For clients that do not call userinfo.';
comment on column private.openid_clients.groups_workspace_id is
  'The workspace whose role is the person''s only group, in the claim groups. Null: the client gets no groups.';
alter table private.openid_clients enable row level security;

create table private.signing_keys (
  kid text primary key check (char_length(kid) between 8 and 64),
  public_jwk jsonb not null check (jsonb_typeof(public_jwk) = 'object' and not public_jwk ? 'd'),
  sealed_private_jwk text not null check (char_length(sealed_private_jwk) between 40 and 16384),
  sealing_key_id text not null check (char_length(sealing_key_id) between 1 and 64),
  created_at timestamptz not null default now(),
  signs_from timestamptz not null,
  retires_at timestamptz
);
comment on table private.signing_keys is
  'RSA keys for RS256. Published from their creation; sign from signs_from until the next one does.';
comment on column private.signing_keys.sealed_private_jwk is
  'Encrypted by the web server with a key derived from APP_SESSION_SECRET, with the kid as associated data.';
comment on column private.signing_keys.retires_at is 'When it is no longer published; null while it may still sign.';
alter table private.signing_keys enable row level security;

create table private.openid_consents (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  app_id uuid not null references private.apps (id) on delete cascade,
  resource_id uuid references private.apps (id) on delete cascade,
  scopes text[] not null,
  granted_at timestamptz not null default now(),
  constraint openid_consents_key unique nulls not distinct (user_id, app_id, resource_id)
);
comment on table private.openid_consents is
  'The scopes that a person has granted a client, so that it is not asked again.';
comment on column private.openid_consents.resource_id is 'The app that the client may call; null for the platform itself.';
create index openid_consents_app_id_idx on private.openid_consents (app_id);
create index openid_consents_resource_id_idx on private.openid_consents (resource_id);
alter table private.openid_consents enable row level security;

create type private.openid_authentication as (
  auth_time timestamptz,
  acr text,
  amr text[]
);
comment on type private.openid_authentication is
  'How and when a person signed in: the claims auth_time, acr and amr (OpenID Connect Core 1.0 section 2).';

create table private.authorization_requests (
  id uuid primary key default gen_random_uuid(),
  handle_hash bytea not null unique check (octet_length(handle_hash) = 32),
  app_id uuid references private.apps (id) on delete cascade,
  client_url text check (char_length(client_url) <= 2000),
  parameters text not null check (char_length(parameters) <= 8192),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  constraint one_client check ((app_id is null) = (client_url is not null)),
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '10 minutes')
);
comment on table private.authorization_requests is
  'Authorization requests of people who are signing in, and those that clients pushed (RFC 9126). Deleted when they are '
  'answered. The handle is kept as its SHA-256.';
comment on column private.authorization_requests.client_url is
  'The client id of a client whose metadata document is fetched once the person has signed in.';
comment on column private.authorization_requests.parameters is 'The parameters in form encoding, as the client sent them.';
create index authorization_requests_app_id_idx on private.authorization_requests (app_id);
create index authorization_requests_expires_at_idx on private.authorization_requests (expires_at);
alter table private.authorization_requests enable row level security;

create table private.authorization_codes (
  id uuid primary key default gen_random_uuid(),
  code_hash bytea not null unique check (octet_length(code_hash) = 32),
  app_id uuid not null references private.apps (id) on delete cascade,
  resource_id uuid references private.apps (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  proof private.mfa_proof not null,
  valid_until timestamptz,
  authentication private.openid_authentication not null,
  redirect_uri text not null check (char_length(redirect_uri) <= 2000),
  scopes text[] not null,
  nonce text check (char_length(nonce) <= 512),
  id_token_claims text[] not null default '{}',
  userinfo_claims text[] not null default '{}',
  code_challenge text check (code_challenge ~ '^[A-Za-z0-9_-]{43}$'),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  redeemed_at timestamptz,
  revoked_at timestamptz,
  constraint one_user check ((proof).user_id = user_id),
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '60 seconds')
);
comment on table private.authorization_codes is
  'Authorization codes (RFC 6749 section 4.1) by their SHA-256, each bound to its client, redirect URI and S256 '
  'challenge.';
comment on column private.authorization_codes.code_challenge is 'Null if the client does not use PKCE.';
comment on column private.authorization_codes.id_token_claims is
  'The claims that the request named for the ID token (OpenID Connect Core 1.0 section 5.5), like userinfo_claims.';
comment on column private.authorization_codes.valid_until is 'When what a mobile approval lent ends; else null.';
create index authorization_codes_user_id_idx on private.authorization_codes (user_id);
create index authorization_codes_app_id_idx on private.authorization_codes (app_id);
create index authorization_codes_resource_id_idx on private.authorization_codes (resource_id);
create index authorization_codes_expires_at_idx on private.authorization_codes (expires_at);
alter table private.authorization_codes enable row level security;

create table private.device_authorizations (
  id uuid primary key default gen_random_uuid(),
  device_code_hash bytea not null unique check (octet_length(device_code_hash) = 32),
  user_code text not null unique check (user_code ~ '^[BCDFGHJKLMNPQRSTVWXZ]{8}$'),
  app_id uuid not null references private.apps (id) on delete cascade,
  scopes text[] not null,
  ip inet,
  user_agent text check (char_length(user_agent) <= 512),
  place jsonb check (jsonb_typeof(place) = 'object'),
  interval_seconds smallint not null default 5 check (interval_seconds between 5 and 60),
  polled_at timestamptz,
  user_id uuid references auth.users (id) on delete cascade,
  proof private.mfa_proof,
  valid_until timestamptz,
  authentication private.openid_authentication,
  approved_at timestamptz,
  denied_at timestamptz,
  redeemed_at timestamptz,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  constraint approval_is_whole check (
    -- A composite is only "not null" if all of its fields are, and the proof of a device's login has no session.
    approved_at is null
    or (user_id is not null and proof is distinct from null and authentication is distinct from null)
  ),
  constraint one_decision check (approved_at is null or denied_at is null),
  constraint one_user check ((proof).user_id is not distinct from user_id),
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '10 minutes')
);
comment on table private.device_authorizations is
  'Device authorization requests (RFC 8628). The device code is kept as its SHA-256; the user code is what a person '
  'types.';
create index device_authorizations_app_id_idx on private.device_authorizations (app_id);
create index device_authorizations_user_id_idx on private.device_authorizations (user_id);
create index device_authorizations_expires_at_idx on private.device_authorizations (expires_at);
alter table private.device_authorizations enable row level security;

create table private.openid_grants (
  id uuid primary key default gen_random_uuid(),
  source_id uuid not null unique,
  app_id uuid not null references private.apps (id) on delete cascade,
  resource_id uuid references private.apps (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  proof private.mfa_proof not null,
  authentication private.openid_authentication not null,
  scopes text[] not null,
  nonce text check (char_length(nonce) <= 512),
  id_token_claims text[] not null default '{}',
  userinfo_claims text[] not null default '{}',
  created_at timestamptz not null default now(),
  ends_at timestamptz not null,
  revoked_at timestamptz,
  constraint one_user check ((proof).user_id = user_id),
  constraint lifetime check (ends_at > created_at and ends_at <= created_at + interval '30 days')
);
comment on table private.openid_grants is
  'Logins at OpenID clients. The id is the claim sid; all tokens of a login end with it.';
comment on column private.openid_grants.source_id is
  'The authorization code or device authorization that it came from; these are deleted after a day.';
comment on column private.openid_grants.proof is
  'Without a session for a device: such a login outlives the sign-out of the browser that approved it.';
create index openid_grants_user_id_idx on private.openid_grants (user_id);
comment on column private.openid_grants.resource_id is
  'The app whose URL is the audience of the access tokens (RFC 8707); null if they are for the platform itself.';
create index openid_grants_app_id_idx on private.openid_grants (app_id);
create index openid_grants_resource_id_idx on private.openid_grants (resource_id);
create index openid_grants_ends_at_idx on private.openid_grants (ends_at);
alter table private.openid_grants enable row level security;

create table private.openid_tokens (
  id uuid primary key default gen_random_uuid(),
  grant_id uuid not null references private.openid_grants (id) on delete cascade,
  scopes text[] not null,
  access_hash bytea not null unique check (octet_length(access_hash) = 32),
  access_expires_at timestamptz not null,
  refresh_hash bytea unique check (octet_length(refresh_hash) = 32),
  refreshed_at timestamptz,
  created_at timestamptz not null default now(),
  constraint lifetime check (access_expires_at <= created_at + interval '1 hour')
);
comment on table private.openid_tokens is
  'Access tokens of a login, each with the refresh token issued next to it. Only their SHA-256 is kept.';
comment on column private.openid_tokens.refreshed_at is
  'When the refresh token was used. A use more than 30 seconds later revokes the login (RFC 9700 section 4.14.2).';
create index openid_tokens_grant_id_idx on private.openid_tokens (grant_id);
alter table private.openid_tokens enable row level security;

create table private.logout_notices (
  id uuid primary key default gen_random_uuid(),
  app_id uuid not null references private.apps (id) on delete cascade,
  user_id uuid not null,
  sid uuid not null,
  attempts smallint not null default 0,
  next_attempt_at timestamptz not null default now(),
  created_at timestamptz not null default now()
);
comment on table private.logout_notices is
  'Logouts that apps have yet to acknowledge: sub and sid of the logout token. No foreign key to the account, which '
  'may be deleted before. A sid can repeat: on a unique index, two transactions of Supabase Auth that end one login '
  'could deadlock.';
create index logout_notices_sid_idx on private.logout_notices (sid);
create index logout_notices_app_id_idx on private.logout_notices (app_id);
create index logout_notices_next_attempt_at_idx on private.logout_notices (next_attempt_at);
alter table private.logout_notices enable row level security;

select private.protect_table(t.name)
from unnest(array[
  'private.openid_clients', 'private.signing_keys', 'private.openid_consents', 'private.authorization_requests',
  'private.authorization_codes', 'private.device_authorizations', 'private.openid_grants', 'private.openid_tokens',
  'private.logout_notices'
]::regclass[]) as t (name);

create table ai.failed_attempts (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  run_created_at timestamptz not null,
  run_id uuid not null,
  request_id text not null,
  workspace_id uuid not null,
  model_id text not null,
  provider_id text not null,
  provider_model text not null,
  route smallint not null,
  status smallint,
  failure text not null,
  upstream_request_id text
);
comment on table ai.failed_attempts is
  'The failed requests to providers of the last seven days, for the console. Copied from ai.runs.attempts when a run '
  'is settled. Like ai.runs, it has no foreign key: workspaces and models may be deleted.';
create index failed_attempts_at_idx on ai.failed_attempts (at);
create index failed_attempts_route_idx on ai.failed_attempts (model_id, provider_id, provider_model, at);
alter table ai.failed_attempts enable row level security;
select private.protect_table('ai.failed_attempts');
revoke insert, update, delete on ai.failed_attempts from service_role;

-- Keys: coding agents, requests for approval, and the caller that a key stands for.

create table ai.agent_access (
  workspace_id uuid not null,
  user_id uuid not null,
  state text not null default 'open' check (state in ('open', 'approved', 'declined', 'withdrawn')),
  tool text not null check (tool in ('claude', 'codex', 'opencode')),
  host text not null check (char_length(host) between 1 and 64),
  requested_at timestamptz not null default now(),
  answered_at timestamptz,
  answered_by uuid references public.profiles (id) on delete set null,
  emailed_at timestamptz,
  primary key (workspace_id, user_id),
  constraint agent_access_member_fkey foreign key (workspace_id, user_id)
    references public.workspace_members (workspace_id, user_id) on delete cascade,
  constraint answered_with_a_time check ((answered_at is null) = (state = 'open'))
);
comment on table ai.agent_access is
  'Requests of members without manage_ai_keys to connect coding agents, one per member and workspace, and their '
  'answers. An approval holds until it is withdrawn or the member leaves.';
comment on column ai.agent_access.tool is
  'The coding agent that the request came from. An approval covers all of them.';
comment on column ai.agent_access.emailed_at is 'When key managers were last emailed about this member. Null if never.';
create index agent_access_user_id_idx on ai.agent_access (user_id);
create index agent_access_answered_by_idx on ai.agent_access (answered_by);
alter table ai.agent_access enable row level security;

create table ai.agent_connections (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  user_id uuid not null references public.profiles (id) on delete cascade,
  login_id uuid references private.openid_grants (id) on delete set null,
  tool text not null check (tool in ('claude', 'codex', 'opencode')),
  host text not null check (char_length(host) between 1 and 64),
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
comment on table ai.agent_connections is
  'Coding agents that get short-lived keys for a workspace, each through a member''s login. Ending either ends the '
  'keys.';
comment on column ai.agent_connections.login_id is
  'Null once the login has ended and was deleted: the connection gives no keys.';
create unique index agent_connections_login_id_idx on ai.agent_connections (login_id, workspace_id, tool)
  where revoked_at is null;
create index agent_connections_workspace_id_idx on ai.agent_connections (workspace_id);
create index agent_connections_user_id_idx on ai.agent_connections (user_id);
alter table ai.agent_connections enable row level security;

select private.protect_table('ai.agent_access');
select private.protect_table('ai.agent_connections');
revoke insert, update, delete on ai.agent_access from service_role;
revoke insert, update, delete on ai.agent_connections from service_role;

create table ai.key_approval_requests (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  requested_by uuid references public.profiles (id) on delete set null,
  requested_at timestamptz not null default now(),
  note text check (char_length(note) between 1 and 500),
  state text not null default 'open' check (state in ('open', 'withdrawn', 'approved', 'declined')),
  answered_at timestamptz,
  decline_reason text check (char_length(decline_reason) between 1 and 500),
  admins_emailed_at timestamptz,
  admins_emailed_for uuid references public.profiles (id) on delete set null,
  constraint answered_with_a_time check ((answered_at is not null) = (state in ('approved', 'declined'))),
  constraint declined_with_a_reason check ((decline_reason is not null) = (state = 'declined'))
);
comment on table ai.key_approval_requests is
  'The latest request of each workspace for the approval to create keys. Answers are also in private.admin_audit_log.';
comment on column ai.key_approval_requests.note is 'What the keys are for, in the requester''s words.';
comment on column ai.key_approval_requests.admins_emailed_at is
  'When infrastructure admins were last emailed about this workspace. Null if never.';
comment on column ai.key_approval_requests.admins_emailed_for is
  'Whose request that email was about. A later request of somebody else may have sent none.';
create index key_approval_requests_open_idx on ai.key_approval_requests (requested_at, workspace_id) where state = 'open';
create index key_approval_requests_requested_by_idx on ai.key_approval_requests (requested_by);
create index key_approval_requests_admins_emailed_for_idx on ai.key_approval_requests (admins_emailed_for);
alter table ai.key_approval_requests enable row level security;
select private.protect_table('ai.key_approval_requests');
revoke insert, update, delete on ai.key_approval_requests from service_role;

create table ai.credit_references (
  account_id uuid not null,
  reference text not null check (char_length(reference) between 1 and 120 and reference !~ '[[:cntrl:]]'),
  amount numeric(24, 8) not null,
  entry_id bigint not null,
  created_at timestamptz not null default now(),
  primary key (account_id, reference)
);
comment on table ai.credit_references is
  'The references of grants and withdrawals: each is used once per account. Apart from ai.credit_ledger, so that the '
  'entries of settlements pay for no further index. Append-only; no foreign keys, as in the ledger.';
comment on column ai.credit_references.amount is 'As in the ledger entry. Negative: a withdrawal.';
create unique index credit_references_entry_idx on ai.credit_references (account_id, entry_id);
select private.protect_table('ai.credit_references');
create trigger reject_reference_change before update or delete on ai.credit_references
  for each row execute function ai.reject_ledger_change();

create type ai.credit_level as enum ('funded', 'low', 'empty');
comment on type ai.credit_level is 'How much is left of a balance, in the order of urgency.';

create table ai.credit_alerts (
  account_id uuid primary key,
  level ai.credit_level not null,
  threshold numeric not null,
  crossed_at timestamptz not null default now(),
  posted_at timestamptz
);
comment on table ai.credit_alerts is
  'The most urgent level that a balance has reached since its last top-up, and whether the emails about it are '
  'queued. No foreign key to ai.credit_accounts, which would lock rows that calls wait for.';
comment on column ai.credit_alerts.threshold is 'In credits, as it was when the level was recorded.';
comment on column ai.credit_alerts.posted_at is 'Null: the emails about this level are not queued yet.';
create index credit_alerts_unposted_idx on ai.credit_alerts (crossed_at) where posted_at is null;
select private.protect_table('ai.credit_alerts');

create table ai.usage_labels_daily (
  workspace_id uuid not null,
  day date not null,
  label text not null,
  requests bigint not null,
  failed bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_usd numeric(36, 12) not null,
  billed_credits numeric(36, 8) not null,
  unmetered_credits numeric(36, 8) not null,
  latency_ms bigint not null,
  timed bigint not null,
  primary key (workspace_id, day, label)
);
comment on table ai.usage_labels_daily is
  'Runs summed by UTC day and label (X-Platform-Entity-Id), made from ai.runs by ai.roll_up_usage(). At most 10,002 '
  'rows a workspace and day. No foreign keys, as runs have none.';
comment on column ai.usage_labels_daily.label is
  'Empty for runs without a label; * for all labels of the day beyond the 10,000 most expensive. A label is never '
  'either.';
select private.protect_table('ai.usage_labels_daily');

create table ai.usage_progress (
  singleton boolean primary key default true check (singleton),
  summed_until timestamptz not null,
  detailed_from date not null,
  marked_at timestamptz not null default '-infinity',
  marked_xid xid8 not null default '0'
);
comment on table ai.usage_progress is
  'How far ai.roll_up_usage() has summed runs. Empty until its first call. To build all sums again from the runs, set '
  'summed_until to -infinity.';
comment on column ai.usage_progress.summed_until is
  'ai.usage_daily and ai.usage_labels_daily, with ai.usage_changes, contain exactly the runs that began before this.';
comment on column ai.usage_progress.detailed_from is
  'Sums of this day and later ones have members and labels; -infinity when all have. Earlier days are read from runs '
  'for reports by member or label until ai.roll_up_usage() has summed them again.';
comment on column ai.usage_progress.marked_xid is
  'A transaction of marked_at. Once all transactions before it have ended, all writes of before marked_at are visible.';
select private.protect_table('ai.usage_progress');

create table ai.usage_changes (
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
  actor_id uuid,
  estimated_runs bigint not null,
  closed_runs bigint not null,
  run_created_at timestamptz not null,
  label text
);
comment on table ai.usage_changes is
  'What a run that changed late adds to the sums, and, as negative numbers, what it added before. Counts if the run began '
  'before ai.usage_progress.summed_until. ai.roll_up_usage() adds the rows to the sums and deletes them.';
create index usage_changes_workspace_id_run_created_at_idx on ai.usage_changes (workspace_id, run_created_at);
select private.protect_table('ai.usage_changes');

create table ai.cost_imports (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null,
  app_id uuid not null,
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  format text not null check (char_length(format) between 1 and 64 and format !~ '[[:cntrl:]]'),
  file_name text not null check (char_length(file_name) between 1 and 255 and file_name !~ '[[:cntrl:]]'),
  file_sha256 bytea not null check (octet_length(file_sha256) = 32),
  time_zone text not null check (char_length(time_zone) between 1 and 64 and time_zone !~ '[[:cntrl:]]'),
  rates jsonb not null default '{}' check (jsonb_typeof(rates) = 'object'),
  imported_by uuid,
  imported_at timestamptz not null default now()
);
comment on table ai.cost_imports is
  'Imported cost files. Append-only. No foreign keys, so that a record outlives its workspace, its app and the '
  'person.';
comment on column ai.cost_imports.workspace_id is 'The nil UUID: the platform''s book, which has no apps.';
comment on column ai.cost_imports.time_zone is
  'The zone of the provider''s calendar days, which are stored at midnight UTC.';
comment on column ai.cost_imports.rates is 'USD for one unit of each other currency, as the person entered it.';
comment on column ai.cost_imports.imported_by is
  'Who imported the file and entered the rates. Null: the operator''s command.';
select private.protect_table('ai.cost_imports');
revoke insert, update, delete on ai.cost_imports from service_role;

create type ai.cost_file_day as (
  account_id text,
  day date,
  external_run_id text,
  amount_usd numeric,
  original jsonb,
  stored_id uuid,
  stored_usd numeric,
  stored_revision integer,
  observed_before timestamptz,
  change text
);
comment on type ai.cost_file_day is
  'An account''s day of a cost file, the record that it is compared with, and the change: added, corrected or '
  'unchanged.';

create type ai.platform_part as (
  kind text,
  workspace_id uuid,
  day date,
  account_id text,
  metered numeric,
  runs numeric,
  estimated_runs numeric,
  closed_runs numeric,
  imported numeric,
  invoiced numeric
);
comment on type ai.platform_part is
  'A part of a provider''s month. kind: metered (what a workspace''s runs cost), booked (a record of the platform''s '
  'book) or own (a record of a workspace''s own book, which never adds to the platform''s).';

-- The foreign key locks auth.users for a moment.
create table private.review_drafts (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null check (kind in ('cost_file', 'prices')),
  contents text not null check (octet_length(contents) <= 4 * 1024 * 1024),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null default now() + interval '15 minutes'
);
comment on table private.review_drafts is
  'What a review page shows before a change is confirmed, such as a parsed cost file. An account has at most five, for '
  '15 minutes each.';
create index review_drafts_user_id_created_at_idx on private.review_drafts (user_id, created_at);
create index review_drafts_expires_at_idx on private.review_drafts (expires_at);
alter table private.review_drafts enable row level security;
select private.protect_table('private.review_drafts');

create type ai.settlement as (
  account_id uuid,
  workspace_id uuid,
  key_lineage_id uuid,
  app_id uuid,
  actor_id uuid,
  entity_id text,
  budget_scopes text[],
  request_id text,
  model_id text,
  has_key boolean,
  kind text,
  credits_due numeric,
  credits_released numeric,
  cost_due_usd numeric,
  usd_released numeric,
  unmetered_credits numeric,
  billed_credits numeric,
  window_start timestamptz,
  counted_tokens bigint,
  answer jsonb
);
comment on type ai.settlement is
  'What an outcome changes elsewhere than in its run: the credits and cost that become due, and what the reservation '
  'returns to the account, the budgets and the rate windows that start at window_start. answer is for the gateway.';

-- Reworded comments of 0.1.0.
comment on type ai.credential is
  'What a caller presents: the SHA-256 of a key or of an app''s token, or the verified claims of a session.';
comment on type ai.lock_list is
  'The rows and locks that ai.lock_rows takes. Idempotency keys are advisory locks of the listed workspaces. The '
  'listed keys are those whose last use is updated.';
comment on column ai.model_prices.cache_write_1h_usd_per_million is
  'The price of writing input to a cache for one hour. If null, these writes cost the price of other cache writes.';
comment on column ai.model_prices.cache_write_usd_per_million is
  'The price of writing input to a cache. If null, cache writes cost the input price.';
comment on column ai.model_prices.image_input_usd_per_million is
  'The price of image input. If null, image input costs the input price.';
comment on column ai.model_prices.request_fee_usd is
  'The fee for each billable action that the provider counts in a call, such as a web search. Null if there is no '
  'fee.';
comment on column ai.model_prices.service_tier is
  'The service tier that the provider''s answer states; default if it states none.';
comment on column ai.model_routes.tier_multipliers is
  'Multiples of the default prices by service tier, such as {"priority": 2}. Tiers that have prices of their own have'
  ' rows in ai.model_prices.';
comment on column ai.model_routes.trusts_stated_cost is
  'If true, the cost of a run is the cost that the provider states in its answer.';
comment on column ai.runs.settled_at is
  'Null while the run is open. A settlement sets it with usage_source and rejects counts below zero. No check constraint '
  'requires this, because every statement would prepare the check.';
comment on type ai.run_outcome is
  'How a run ended, as the gateway reports it, with the usage and cost of all its provider calls together.';
comment on type ai.run_request is
  'A call as the gateway describes it to ai.begin_run. Functions that only read a credential receive some of the '
  'fields.';
comment on column ai.runs.billing_name is
  'The company that bills the run''s provider call. Used for reconciliation, together with the account.';
comment on column ai.runs.cost_so_far_usd is
  'The cost of an open run''s provider calls at its latest heartbeat. Charged if the function that runs it crashes.';
comment on column ai.runs.marks is
  'Reasons for an operator to check the run: above_context_window, above_output_limit, implausible, '
  'unattributed_cache_writes, unmeasured_document, unpriced_tier.';
