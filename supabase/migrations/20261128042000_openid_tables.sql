set lock_timeout = '500ms';

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

create table private.openid_clients (
  app_id uuid primary key references private.apps (id) on delete cascade,
  is_public boolean not null,
  redirect_uris text[] not null default '{}' check (cardinality(redirect_uris) <= 20),
  post_logout_redirect_uris text[] not null default '{}' check (cardinality(post_logout_redirect_uris) <= 20),
  allows_device_grant boolean not null default false,
  created_at timestamptz not null default now()
);
comment on table private.openid_clients is 'OpenID Connect clients: what private.apps says of no other kind of app.';
comment on column private.openid_clients.is_public is
  'A client without a secret, such as a single-page or command-line app. It proves itself by PKCE alone.';
comment on column private.openid_clients.redirect_uris is
  'Compared as exact strings, except for the port of a public client''s loopback address (RFC 8252 section 7.3).';
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
  user_id uuid not null references auth.users (id) on delete cascade,
  app_id uuid not null references private.apps (id) on delete cascade,
  scopes text[] not null,
  granted_at timestamptz not null default now(),
  primary key (user_id, app_id)
);
comment on table private.openid_consents is 'The scopes that a person has granted a client, so that it is not asked again.';
create index openid_consents_app_id_idx on private.openid_consents (app_id);
alter table private.openid_consents enable row level security;

create type private.openid_authentication as (
  auth_time timestamptz,
  acr text,
  amr text[]
);
comment on type private.openid_authentication is
  'How and when a person signed in: the claims auth_time, acr and amr (OpenID Connect Core 1.0 section 2).';

create table private.authorization_codes (
  id uuid primary key default gen_random_uuid(),
  code_hash bytea not null unique check (octet_length(code_hash) = 32),
  app_id uuid not null references private.apps (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  proof private.mfa_proof not null,
  valid_until timestamptz,
  authentication private.openid_authentication not null,
  redirect_uri text not null check (char_length(redirect_uri) <= 2000),
  scopes text[] not null,
  nonce text check (char_length(nonce) <= 512),
  code_challenge text not null check (code_challenge ~ '^[A-Za-z0-9_-]{43}$'),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  redeemed_at timestamptz,
  revoked_at timestamptz,
  constraint one_user check ((proof).user_id = user_id),
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '60 seconds')
);
comment on table private.authorization_codes is
  'Authorization codes (RFC 6749 section 4.1) by their SHA-256, each bound to its client, redirect URI and S256 challenge.';
comment on column private.authorization_codes.valid_until is 'When what a mobile approval lent ends; else null.';
create index authorization_codes_user_id_idx on private.authorization_codes (user_id);
create index authorization_codes_app_id_idx on private.authorization_codes (app_id);
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
  'Device authorization requests (RFC 8628). The device code is kept as its SHA-256; the user code is what a person types.';
create index device_authorizations_app_id_idx on private.device_authorizations (app_id);
create index device_authorizations_user_id_idx on private.device_authorizations (user_id);
create index device_authorizations_expires_at_idx on private.device_authorizations (expires_at);
alter table private.device_authorizations enable row level security;

create table private.openid_grants (
  id uuid primary key default gen_random_uuid(),
  source_id uuid not null unique,
  app_id uuid not null references private.apps (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  proof private.mfa_proof not null,
  authentication private.openid_authentication not null,
  scopes text[] not null,
  nonce text check (char_length(nonce) <= 512),
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
create index openid_grants_app_id_idx on private.openid_grants (app_id);
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
  'Logouts that apps have yet to acknowledge: sub and sid of the logout token. No foreign key to the account, which may '
  'be deleted before. A sid can repeat: on a unique index, two transactions of Supabase Auth that end one login could '
  'deadlock.';
create index logout_notices_sid_idx on private.logout_notices (sid);
create index logout_notices_app_id_idx on private.logout_notices (app_id);
create index logout_notices_next_attempt_at_idx on private.logout_notices (next_attempt_at);
alter table private.logout_notices enable row level security;

select private.protect_table(t.name)
from unnest(array[
  'private.openid_clients', 'private.signing_keys', 'private.openid_consents', 'private.authorization_codes',
  'private.device_authorizations', 'private.openid_grants', 'private.openid_tokens', 'private.logout_notices'
]::regclass[]) as t (name);
