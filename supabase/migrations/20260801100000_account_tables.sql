-- Types and tables of accounts, workspaces and apps.

create domain public.readable_name as text
  constraint readable_name check (
    char_length(value) between 1 and 80
    and value ~ '[^[:space:]\u00a0\u00ad\u115f\u1160\u200c\u200d\u2800\u3164\uffa0]'
    and value !~ '[[:cntrl:]\u0080-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]'
  );
comment on domain public.readable_name is
  'As the web''s isReadable: one line that people see, of nothing that is unseen or turns what follows it around.';

create table public.profiles (
  id uuid primary key references auth.users (id) on delete cascade,
  display_name public.readable_name not null,
  avatar_url text check (avatar_url ~ '^https://' and char_length(avatar_url) <= 2048),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.profiles is
  'What other members may see of a person. The e-mail stays with the identity backend, so that it has one truth.';
alter table public.profiles enable row level security;

create type public.workspace_permission as enum (
  'manage_workspace_settings',
  'manage_members',
  'manage_ai_keys',
  'manage_ai_policy',
  'use_ai_studio'
);
comment on type public.workspace_permission is
  'The closed list of what a role may allow. A misspelt permission is an error, not a silent refusal.';

create table public.workspaces (
  id uuid primary key default gen_random_uuid(),
  name public.readable_name not null,
  plan_id text not null default 'free' check (plan_id ~ '^[a-z0-9_]{1,40}$'),
  personal_user_id uuid unique references public.profiles (id) on delete set null,
  created_by uuid references public.profiles (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
comment on table public.workspaces is
  'The tenant. A deleted one keeps its row, since runs, ledger and invoices refer to it for good.';
comment on column public.workspaces.plan_id is 'Row of ai.plans. In a free workspace each member pays for themselves.';
comment on column public.workspaces.personal_user_id is
  'Whose personal workspace it is; null where it was founded as a shared one.';
create index workspaces_created_by_idx on public.workspaces (created_by);
alter table public.workspaces enable row level security;

-- schemas/workspaces/permissions.sql

create or replace function private.has_unique_items(permissions public.workspace_permission[]) returns boolean
  language sql
  immutable
  security invoker
as $$
  select coalesce(array_ndims(permissions), 1) = 1
    and not exists (
      select from unnest(permissions) as permission group by permission having permission is null or count(*) > 1
    )
$$;
comment on function private.has_unique_items(public.workspace_permission[]) is
  'Whether a list of permissions is one plain list, of one dimension, and holds nothing twice and no null.';

create table public.workspace_roles (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  name public.readable_name not null check (char_length(name) <= 40),
  permissions public.workspace_permission[] not null default '{}',
  is_owner boolean not null default false,
  created_at timestamptz not null default now(),
  unique (workspace_id, name),
  unique (workspace_id, id),
  constraint trimmed_name check (name = btrim(name)),
  constraint permissions_named_once check (private.has_unique_items(permissions))
);
comment on table public.workspace_roles is
  'A named set of permissions within one workspace, so that a workspace may have roles of its own.';
comment on column public.workspace_roles.is_owner is
  'The owner''s role holds every permission, those of the future too, and only owners hand it on.';
create unique index workspace_roles_one_owner_role on public.workspace_roles (workspace_id) where is_owner;
-- "Owner" beside "owner" would pass for it.
create unique index workspace_roles_name_idx on public.workspace_roles (workspace_id, lower(name));
alter table public.workspace_roles enable row level security;

create table public.workspace_members (
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  user_id uuid not null references public.profiles (id) on delete cascade,
  role_id uuid not null,
  created_at timestamptz not null default now(),
  primary key (workspace_id, user_id),
  -- A role of another workspace can never be worn here; one in use cannot vanish. (No action rather than restrict: it
  -- waits for the end of the statement, so that a whole workspace may still be deleted.)
  foreign key (workspace_id, role_id) references public.workspace_roles (workspace_id, id) on delete no action
);
comment on table public.workspace_members is 'Who belongs to a workspace, and as what. One role each.';
create index workspace_members_user_id_idx on public.workspace_members (user_id);
create index workspace_members_role_id_idx on public.workspace_members (workspace_id, role_id);
alter table public.workspace_members enable row level security;

create table public.workspace_invitations (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  email text not null check (email = lower(email) and email like '%_@_%' and char_length(email) <= 254),
  role_id uuid not null,
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  invited_by uuid default auth.uid() references public.profiles (id) on delete set null,
  accepted_by uuid references public.profiles (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '7 days',
  accepted_at timestamptz,
  foreign key (workspace_id, role_id) references public.workspace_roles (workspace_id, id) on delete cascade
);
comment on table public.workspace_invitations is
  'Our own mails carry the token; only its SHA-256 is kept, so that a copy of this table invites nobody.';
create unique index workspace_invitations_one_open
  on public.workspace_invitations (workspace_id, email) where accepted_at is null;
create index workspace_invitations_role_id_idx on public.workspace_invitations (workspace_id, role_id);
create index workspace_invitations_invited_by_idx on public.workspace_invitations (invited_by);
create index workspace_invitations_accepted_by_idx on public.workspace_invitations (accepted_by);
alter table public.workspace_invitations enable row level security;

create table public.security_events (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null check (kind ~ '^[a-z][a-z_.]{0,63}$'),
  method text check (char_length(method) <= 64),
  session_id uuid,
  ip inet,
  user_agent text check (char_length(user_agent) <= 512),
  details jsonb not null default '{}' check (jsonb_typeof(details) = 'object'),
  created_at timestamptz not null default now(),
  device text check (char_length(device) between 1 and 100)
);
comment on table public.security_events is
  'What happened to an account, for its owner to read: what, when, where, by which method. Never a secret or a code.';
comment on column public.security_events.device is
  'Browser and system in words ("Chrome on macOS"), without versions, so that an update makes no new device.';
create index security_events_user_id_created_at_idx on public.security_events (user_id, created_at desc, id desc);
create index security_events_session_id_idx on public.security_events (session_id);
alter table public.security_events enable row level security;

create table private.infrastructure_admins (
  user_id uuid primary key references auth.users (id) on delete cascade,
  granted_by uuid references auth.users (id) on delete set null,
  reason text not null check (char_length(reason) between 1 and 500),
  created_at timestamptz not null default now()
);
comment on table private.infrastructure_admins is
  'Who may use the console. A row of ours and not a claim, so that it can be taken away at once.';
create index infrastructure_admins_granted_by_idx on private.infrastructure_admins (granted_by);
alter table private.infrastructure_admins enable row level security;

create table private.admin_audit_log (
  id uuid primary key default gen_random_uuid(),
  actor_id uuid references auth.users (id) on delete set null,
  action text not null check (action ~ '^[a-z][a-z_.]{0,63}$'),
  target_user_id uuid references auth.users (id) on delete set null,
  target text check (char_length(target) <= 320),
  reason text not null check (char_length(reason) between 1 and 500),
  before jsonb,
  after jsonb,
  request_id text check (char_length(request_id) <= 128),
  ip inet,
  created_at timestamptz not null default now()
);
comment on table private.admin_audit_log is
  'Every act of the console with its before and after. It outlives both actor and target.';
comment on column private.admin_audit_log.target is
  'What was acted on where it is no user, and the e-mail where the user may be gone.';
create index admin_audit_log_created_at_idx on private.admin_audit_log (created_at desc, id desc);
create index admin_audit_log_actor_id_idx on private.admin_audit_log (actor_id, created_at desc);
create index admin_audit_log_target_user_id_idx on private.admin_audit_log (target_user_id, created_at desc);
create index admin_audit_log_target_idx on private.admin_audit_log (target, created_at desc);
alter table private.admin_audit_log enable row level security;

create table private.login_challenges (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in ('qr', 'mfa_mobile')),
  status text not null default 'created'
    check (status in ('created', 'approved', 'consuming', 'consumed', 'bound', 'rejected', 'locked')),
  user_id uuid not null references auth.users (id) on delete cascade,
  session_id uuid not null,
  secret_hash bytea not null check (octet_length(secret_hash) = 32),
  pair_code_hash bytea check (octet_length(pair_code_hash) = 32),
  failed_attempts smallint not null default 0 check (failed_attempts between 0 and 5),
  request_metadata jsonb not null default '{}' check (jsonb_typeof(request_metadata) = 'object'),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  approved_at timestamptz,
  approver_session_id uuid,
  approver_factor_id uuid,
  second_factor_at timestamptz,
  approval_metadata jsonb not null default '{}' check (jsonb_typeof(approval_metadata) = 'object'),
  lease_expires_at timestamptz,
  consumed_at timestamptz,
  bound_session_id uuid,
  bound_at timestamptz,
  valid_until timestamptz,
  constraint lifetime check (
    expires_at > created_at
    and expires_at <= created_at + case kind when 'qr' then interval '2 minutes' else interval '5 minutes' end
  ),
  constraint pair_code_of_mobile_approvals check ((pair_code_hash is not null) = (kind = 'mfa_mobile')),
  constraint approval_is_whole check (
    status not in ('approved', 'consuming', 'consumed', 'bound')
    or (approved_at is not null and approver_session_id is not null)
  ),
  constraint bound_is_whole check (
    -- A check is satisfied by null, so each part must be there: is true says so.
    status <> 'bound'
    or (
      kind = 'mfa_mobile'
      and approver_factor_id is not null
      and second_factor_at <= approved_at
      and bound_session_id = session_id
      and approver_session_id <> session_id
      and bound_at is not null
      and valid_until <= bound_at + interval '12 hours'
    ) is true
  )
);
comment on table private.login_challenges is
  'QR handoffs and mobile MFA approvals. Secrets are kept as hashes only, and tokens of either side never.';
comment on column private.login_challenges.session_id is
  'Session of the asking browser. No foreign key: sessions come and go in the identity backend''s own schema.';
comment on column private.login_challenges.second_factor_at is
  'When the approver proved the second factor themselves, so that an approval is no fresher than its source.';
comment on column private.login_challenges.bound_session_id is
  'The one session that the approval counts for: the JWT''s session_id, taken when the asking browser polls.';
create index login_challenges_user_id_idx on private.login_challenges (user_id, created_at desc);
create index login_challenges_bound_session_id_idx
  on private.login_challenges (bound_session_id) where status = 'bound';
create index login_challenges_expires_at_idx on private.login_challenges (expires_at);
alter table private.login_challenges enable row level security;

create table private.attempt_secrets (
  id boolean primary key default true check (id),
  secret bytea not null default extensions.gen_random_bytes(32) check (octet_length(secret) = 32)
);
comment on table private.attempt_secrets is
  'The key of the digests under which attempts are counted, so that a leaked row names no email and no address.';
alter table private.attempt_secrets enable row level security;
insert into private.attempt_secrets default values;

create table private.rate_limits (
  subject bytea primary key check (octet_length(subject) = 32),
  action text not null,
  scope text not null,
  full_at timestamptz not null
);
comment on table private.rate_limits is
  'Buckets of attempts that are not full. Subject is a keyed digest of action, scope, and account, address or both; no '
  'email is kept here.';
comment on column private.rate_limits.full_at is 'When the bucket is full again, and the row of no more use.';
create index rate_limits_full_at_idx on private.rate_limits (full_at);
alter table private.rate_limits enable row level security;

create table private.address_blocks (
  id uuid primary key default gen_random_uuid(),
  address cidr not null,
  action text not null,
  level smallint not null check (level >= 1),
  blocked_at timestamptz not null default now(),
  blocked_until timestamptz not null check (blocked_until > blocked_at),
  lifted_at timestamptz,
  lifted_by uuid references auth.users (id) on delete set null,
  lift_reason text,
  constraint lifted_with_a_reason check ((lifted_at is null) = (lift_reason is null))
);
comment on table private.address_blocks is
  'Networks that failed so often that they may try nothing for a while, one row a block. Each block within a week of the '
  'last is longer; one that was lifted counts no more.';
comment on column private.address_blocks.address is 'One IPv4 address, or the /64 of an IPv6 one.';
comment on column private.address_blocks.action is 'What was being tried when it became too much.';
create index address_blocks_address_idx on private.address_blocks (address, blocked_until desc);
create index address_blocks_blocked_until_idx on private.address_blocks (blocked_until);
create index address_blocks_lifted_by_idx on private.address_blocks (lifted_by);
alter table private.address_blocks enable row level security;

create table private.open_attempts (
  id uuid primary key default gen_random_uuid(),
  action text not null,
  address cidr not null,
  pair bytea,
  charged bytea[] not null,
  password_checks smallint not null check (password_checks >= 0),
  expires_at timestamptz not null default now() + interval '2 minutes'
);
comment on table private.open_attempts is
  'Attempts under way at our own routes: what was counted for them, to be given back where they succeed, and how many '
  'password checks of the identity backend they stand for. One that is never settled stays counted.';
comment on column private.open_attempts.pair is 'Digest of account and address together.';
create index open_attempts_pair_idx on private.open_attempts (pair) where password_checks > 0;
create index open_attempts_expires_at_idx on private.open_attempts (expires_at);
alter table private.open_attempts enable row level security;

create table private.verified_addresses (
  pair bytea primary key check (octet_length(pair) = 32),
  verified_until timestamptz not null
);
comment on table private.verified_addresses is
  'Account and address, as one digest, where the password was right not long ago. Who attacks an account from elsewhere '
  'does not lock its owner out there.';
create index verified_addresses_proven_until_idx on private.verified_addresses (verified_until);
alter table private.verified_addresses enable row level security;

create table private.used_mfa_codes (
  code_hash bytea primary key check (octet_length(code_hash) = 32),
  session_id uuid not null,
  retry_allowed boolean not null default false,
  expires_at timestamptz not null default now() + interval '120 seconds'
);
comment on table private.used_mfa_codes is
  'Authenticator codes that were used, or are being verified. A code is good for 90 s at most, so 120 s outlive it.';
comment on column private.used_mfa_codes.session_id is
  'Whose claim it is. No foreign key: sessions come and go in the identity backend''s own schema.';
comment on column private.used_mfa_codes.retry_allowed is
  'The backend did not say what became of the code: the same session may try it once more, and no other.';
create index used_mfa_codes_expires_at_idx on private.used_mfa_codes (expires_at);
alter table private.used_mfa_codes enable row level security;

create table private.mfa_recovery_codes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  code_hash bytea not null check (octet_length(code_hash) = 32),
  created_at timestamptz not null default now(),
  used_at timestamptz,
  session_id uuid,
  lease_expires_at timestamptz,
  completed_at timestamptz,
  generation bigint,
  constraint mfa_recovery_codes_once unique (user_id, code_hash),
  constraint use_is_whole check (
    (used_at is null) = (session_id is null)
    and (used_at is not null or (lease_expires_at is null and completed_at is null))
  )
);
comment on table private.mfa_recovery_codes is
  'Hashes of recovery codes: SHA-256 over the user''s id and a code of 80 random bits. At that entropy neither a slow '
  'hash nor a secret key adds anything, and no rotation of a key can take the codes away from their owners.';
comment on column private.mfa_recovery_codes.session_id is
  'The session that used it, which may finish what failed half-way. No foreign key: sessions are the backend''s.';
comment on column private.mfa_recovery_codes.lease_expires_at is
  'Until then one request is removing authenticators by this code; a request that died gives it up by itself.';
comment on column private.mfa_recovery_codes.generation is
  'Of the policy whose recovery marker this use set: it clears that one and no newer one.';
alter table private.mfa_recovery_codes enable row level security;

create table private.oauth_attempts (
  state_hash bytea primary key check (octet_length(state_hash) = 32),
  purpose text not null check (purpose in ('sign_in', 'reauthenticate', 'link')),
  provider text not null check (char_length(provider) between 1 and 64),
  user_id uuid references auth.users (id) on delete cascade,
  session_id uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '10 minutes',
  used_at timestamptz,
  constraint bound_to_an_account_and_its_session check (
    (purpose = 'sign_in') = (user_id is null) and (user_id is null) = (session_id is null)
  ),
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '10 minutes')
);
comment on table private.oauth_attempts is
  'Visits to a provider''s page under way, by the hash of our own state. Each ends once; what it carries is signed.';
comment on column private.oauth_attempts.session_id is
  'The session that asked. No foreign key: sessions come and go in the identity backend''s own schema.';
create index oauth_attempts_user_id_idx on private.oauth_attempts (user_id);
create index oauth_attempts_expires_at_idx on private.oauth_attempts (expires_at);
alter table private.oauth_attempts enable row level security;

create table private.unconfirmed_identities (
  identity_id uuid primary key references auth.identities (id) on delete cascade,
  created_at timestamptz not null default now()
);
comment on table private.unconfirmed_identities is
  'Identities that joined an account in use by something else than its own verified address. The backend adds them in '
  'whatever browser comes from the provider: one that is lured there would give its identity to another''s account. '
  'They count for nothing until the account''s own browser has come back too.';
create index unconfirmed_identities_created_at_idx on private.unconfirmed_identities (created_at);
alter table private.unconfirmed_identities enable row level security;

create table private.outgoing_mails (
  id uuid primary key default gen_random_uuid(),
  recipient text not null check (char_length(recipient) between 3 and 320),
  subject text not null check (char_length(subject) between 1 and 200 and subject !~ '[\r\n]'),
  body text not null check (char_length(body) between 1 and 20000),
  attempts smallint not null default 1 check (attempts >= 1),
  next_attempt_at timestamptz not null default now() + interval '1 minute',
  created_at timestamptz not null default now()
);
comment on table private.outgoing_mails is
  'Mails that have not gone out yet; a sent one is deleted. Never one with a secret in it: those are sent or lost.';
comment on column private.outgoing_mails.attempts is 'Who adds a mail tries it at once, so it begins with one.';
comment on column private.outgoing_mails.next_attempt_at is 'Before this whoever took it last is at it.';
create index outgoing_mails_next_attempt_at_idx on private.outgoing_mails (next_attempt_at);
alter table private.outgoing_mails enable row level security;

create table private.apps (
  id uuid primary key default gen_random_uuid(),
  name text not null unique check (name ~ '^[a-z][a-z0-9-]{1,39}$' and name not in ('web', 'central')),
  display_name text not null check (char_length(display_name) between 1 and 80),
  kind text not null check (kind in ('internal', 'external')),
  scopes text[] not null default '{}' check (
    scopes <@ array[
      'profile', 'workspaces:read', 'workspaces:write', 'studio:read', 'workspace:session', 'ai:use', 'tts:use'
    ]
  ),
  enabled boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint gateway_scopes_are_for_external_apps check (
    kind = 'external' or not scopes && array['workspace:session', 'ai:use', 'tts:use']
  )
);
comment on table private.apps is
  'Registered apps. A disabled one keeps its row and its keys, and can do nothing.';
comment on column private.apps.name is 'What it names itself by, and is named by as a target. Never changes.';
comment on column private.apps.scopes is
  'The most that any credential of the app may do. Asked again at each use, so that narrowing it bites at once.';
alter table private.apps enable row level security;

-- schemas/apps/registry.sql

create or replace function private.is_loopback_origin(origin text) returns boolean
  language sql
  immutable
  security invoker
as $$
  select origin ~ '^https?://(localhost|([a-z0-9-]+\.)+localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?$'
$$;
comment on function private.is_loopback_origin(text) is 'Whether an origin is of this machine: good for development only.';

create table private.app_origins (
  origin text primary key,
  app_id uuid not null references private.apps (id) on delete cascade,
  created_at timestamptz not null default now(),
  constraint origin_is_exact check (
    char_length(origin) <= 255
    and (origin ~ '^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$' or private.is_loopback_origin(origin))
    and origin !~ '^https:.*:443$'
    and origin !~ '^http:.*:80$'
  )
);
comment on table private.app_origins is
  'Where an app lives: whole origins as browsers write them, no patterns, each of one app only. Sign-ins return to '
  'none else.';
create index app_origins_app_id_idx on private.app_origins (app_id);
alter table private.app_origins enable row level security;

create table private.app_secrets (
  id uuid primary key default gen_random_uuid(),
  app_id uuid not null references private.apps (id) on delete cascade,
  secret_hash bytea not null unique check (octet_length(secret_hash) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz
);
comment on table private.app_secrets is
  'SHA-256 of each secret by which an app proves itself. A rotation leaves the one before alive for its overlap.';
comment on column private.app_secrets.expires_at is 'Null: the current one.';
create index app_secrets_app_id_idx on private.app_secrets (app_id);
alter table private.app_secrets enable row level security;

create table private.app_workspaces (
  app_id uuid not null references private.apps (id) on delete cascade,
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  linked_by uuid references public.profiles (id) on delete set null,
  linked_at timestamptz not null default now(),
  primary key (app_id, workspace_id)
);
comment on table private.app_workspaces is
  'Workspaces that an external app may act in at the gateway, for members of theirs. Elsewhere its tokens and keys are '
  'refused.';
create index app_workspaces_workspace_id_idx on private.app_workspaces (workspace_id);
create index app_workspaces_linked_by_idx on private.app_workspaces (linked_by);
alter table private.app_workspaces enable row level security;

create type private.mfa_proof as (
  user_id uuid,
  session_id uuid,
  factor_id uuid,
  second_factor_second bigint,
  primary_second bigint,
  generation bigint
);
comment on type private.mfa_proof is
  'What a session had proved when it handed over. Without a session: the credential outlives sign-out.';

create table private.cross_app_tokens (
  id uuid primary key default gen_random_uuid(),
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  user_id uuid not null references auth.users (id) on delete cascade,
  app_id uuid not null references private.apps (id) on delete cascade,
  origin_app text not null default 'web' check (origin_app = 'web'),
  proof text not null check (char_length(proof) between 1 and 4096),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  redeemed_at timestamptz,
  revoked_at timestamptz,
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '300 seconds')
);
comment on table private.cross_app_tokens is
  'One-time tokens that hand a person over to one app. Only their SHA-256 is kept, and no session of theirs or ours.';
comment on column private.cross_app_tokens.proof is
  'The required-MFA proof, signed by the web server with a key of its own: a row that somebody else wrote redeems nothing.';
create index cross_app_tokens_user_id_idx on private.cross_app_tokens (user_id, created_at);
create index cross_app_tokens_app_id_idx on private.cross_app_tokens (app_id);
create index cross_app_tokens_expires_at_idx on private.cross_app_tokens (expires_at);
alter table private.cross_app_tokens enable row level security;

create table private.app_sessions (
  id uuid primary key default gen_random_uuid(),
  handoff_id uuid not null,
  app_id uuid not null references private.apps (id) on delete cascade,
  audience text not null check (audience in ('app', 'central')),
  scopes text[] not null,
  proof private.mfa_proof not null,
  user_id uuid not null references auth.users (id) on delete cascade,
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  issued_at timestamptz not null default now(),
  expires_at timestamptz not null,
  previous_hash bytea unique check (octet_length(previous_hash) = 32),
  previous_valid_until timestamptz,
  created_at timestamptz not null default now(),
  ends_at timestamptz not null,
  revoked_at timestamptz,
  unique (handoff_id, audience),
  constraint one_user check ((proof).user_id = user_id),
  constraint lifetime check (
    expires_at <= issued_at + interval '8 hours'
    and expires_at <= ends_at
    and ends_at <= created_at + interval '30 days'
  ),
  constraint previous_is_whole check ((previous_hash is null) = (previous_valid_until is null))
);
comment on table private.app_sessions is
  'Sessions of people in apps. Only the SHA-256 of each token''s own random part is kept.';
comment on column private.app_sessions.handoff_id is
  'The cross-app token that opened it; tokens are cleared away, so that nothing refers to their rows.';
comment on column private.app_sessions.proof is
  'Tied to the web session, the factor and the policy''s generation; each that goes ends this.';
comment on column private.app_sessions.previous_hash is 'The token before the last refresh, good until previous_valid_until.';
comment on column private.app_sessions.ends_at is 'Refreshing leads no further than here.';
create index app_sessions_app_id_idx on private.app_sessions (app_id);
create index app_sessions_user_id_idx on private.app_sessions (user_id);
create index app_sessions_ends_at_idx on private.app_sessions (ends_at);
alter table private.app_sessions enable row level security;

create type private.app_caller as (
  refused text,
  user_id uuid,
  app_id uuid,
  scopes text[]
);
comment on type private.app_caller is 'Who a central session stands for, or why it is refused.';

create table public.workspace_audit_log (
  id bigint generated always as identity primary key,
  workspace_id uuid not null,
  actor_id uuid,
  action text not null check (action ~ '^[a-z][a-z_.]{0,63}$'),
  subject_id uuid,
  subject text check (char_length(subject) <= 320),
  details jsonb not null default '{}' check (jsonb_typeof(details) = 'object'),
  created_at timestamptz not null default now()
);
comment on table public.workspace_audit_log is
  'Who changed what in a workspace. Triggers write it, so that no way of changing goes unseen. No foreign keys: it '
  'outlives people, and what is being deleted could not be referred to.';
comment on column public.workspace_audit_log.actor_id is 'The signed-in person; null where the service itself acted.';
comment on column public.workspace_audit_log.subject is 'A name to read: a role, an email, a key''s name.';
create index workspace_audit_log_workspace_id_idx on public.workspace_audit_log (workspace_id, id desc);
create index workspace_audit_log_recorded_invoice_idx on public.workspace_audit_log (subject_id)
  where action = 'provider_invoice.recorded';
alter table public.workspace_audit_log enable row level security;

create table private.account_devices (
  id uuid primary key,
  secret_hash bytea not null check (octet_length(secret_hash) = 32),
  previous_hash bytea check (octet_length(previous_hash) = 32),
  previous_for text check (previous_for in ('anything', 'sign_in')),
  previous_until timestamptz,
  rotated_at timestamptz not null default now(),
  active_user_id uuid references auth.users (id) on delete set null,
  active_session_id uuid,
  lease_id uuid,
  lease_expires_at timestamptz,
  created_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '90 days',
  constraint previous_is_whole check ((previous_hash is null) = (previous_for is null)),
  constraint lease_is_whole check ((lease_id is null) = (lease_expires_at is null)),
  constraint lifetime check (expires_at <= last_seen_at + interval '90 days')
);
comment on table private.account_devices is
  'Browsers that hold accounts, by the hash of their secret, and who is active in each: the authority on that, whatever '
  'auth cookie a request brings.';
comment on column private.account_devices.previous_hash is
  'The secret before this one. After a switch it stays good for anything until the new one has arrived, lest a lost '
  'answer lose a browser; after a sign-in it is good for the same sign-in sent twice, and for nothing else.';
comment on column private.account_devices.previous_until is 'Null while the secret in its place has yet to arrive.';
comment on column private.account_devices.active_session_id is
  'No foreign key: sessions come and go in the identity backend''s own schema.';
comment on column private.account_devices.lease_id is 'The switch under way. One at a time; a dead one''s lease runs out.';
create index account_devices_active_user_id_idx on private.account_devices (active_user_id);
create index account_devices_expires_at_idx on private.account_devices (expires_at);
alter table private.account_devices enable row level security;

create table private.account_vault_entries (
  device_id uuid not null references private.account_devices (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  session_id uuid not null,
  sealed text check (char_length(sealed) between 40 and 16384),
  key_id text check (char_length(key_id) between 1 and 64),
  token_tag text check (char_length(token_tag) between 16 and 64),
  last_route text,
  added_at timestamptz not null default now(),
  last_active_at timestamptz not null default now(),
  primary key (device_id, user_id),
  constraint seal_is_whole check (
    (sealed is null) = (key_id is null) and (sealed is null) = (token_tag is null)
  ),
  constraint last_route_leads_somewhere check (
    char_length(last_route) <= 2048
    and last_route ~ '^/([^/]|$)'
    and last_route !~* '^/(login|add-account|logout|auth|api)([/?#]|$)'
  )
);
comment on table private.account_vault_entries is
  'The accounts of a browser. Tokens are sealed with device, user and key as associated data, so that a row opens in '
  'its own place alone.';
comment on column private.account_vault_entries.sealed is
  'Null once the session is known to be over: the account stays listed, to be signed in to again.';
comment on column private.account_vault_entries.token_tag is
  'Keyed hash of the refresh token within, by which a cookie''s is known to be this one or an older one, and by which '
  'a write finds out that another came first.';
create index account_vault_entries_user_id_idx on private.account_vault_entries (user_id);
create index account_vault_entries_session_id_idx on private.account_vault_entries (session_id);
create index account_vault_entries_last_active_at_idx on private.account_vault_entries (last_active_at);
alter table private.account_vault_entries enable row level security;

create table private.mint_leases (
  user_id uuid primary key references auth.users (id) on delete cascade,
  lease_id uuid not null default gen_random_uuid(),
  expires_at timestamptz not null
);
comment on table private.mint_leases is
  'Who is minting a session for an account now. A server that died gives its lease up by the time.';
alter table private.mint_leases enable row level security;

create table private.recovery_overrides (
  id uuid primary key default gen_random_uuid(),
  email text not null check (email = lower(email) and char_length(email) between 3 and 254),
  reason text not null check (char_length(reason) between 1 and 500),
  normal_login boolean not null default true,
  recovery_email boolean not null default true,
  created_by uuid references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '7 days',
  revoked_at timestamptz,
  revoked_by uuid references auth.users (id) on delete set null,
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '30 days'),
  constraint something_is_on check (normal_login or recovery_email)
);
comment on table private.recovery_overrides is
  'By whom, why and until when an email is let past what blocks it. Ended ones stay, as the record of it.';
comment on column private.recovery_overrides.normal_login is
  'Email-scoped blocks and limits do not hold at the sign-in page, and a ban falls once the password is proven.';
comment on column private.recovery_overrides.recovery_email is 'A link and a code may be sent to the email.';
create index recovery_overrides_email_idx on private.recovery_overrides (email, created_at desc);
create index recovery_overrides_created_by_idx on private.recovery_overrides (created_by);
create index recovery_overrides_revoked_by_idx on private.recovery_overrides (revoked_by);
alter table private.recovery_overrides enable row level security;

create table private.recovery_events (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in (
    'create', 'revoke', 'send', 'consume', 'reject', 'unban_attempt', 'user_create_attempt', 'login_bypass'
  )),
  outcome text not null check (outcome ~ '^[a-z][a-z_]{0,39}$'),
  email text check (char_length(email) <= 254),
  override_id uuid references private.recovery_overrides (id) on delete set null,
  credential_id uuid,
  user_id uuid references auth.users (id) on delete set null,
  actor_id uuid references auth.users (id) on delete set null,
  ip inet,
  user_agent text check (char_length(user_agent) <= 512),
  request_id text check (char_length(request_id) <= 128),
  created_at timestamptz not null default now()
);
comment on table private.recovery_events is
  'What became of overrides and of what was sent under them, refusals included. Never a link, a code or a password.';
create index recovery_events_email_idx on private.recovery_events (email, created_at desc);
create index recovery_events_override_id_idx on private.recovery_events (override_id);
create index recovery_events_user_id_idx on private.recovery_events (user_id, created_at desc);
create index recovery_events_actor_id_idx on private.recovery_events (actor_id);
alter table private.recovery_events enable row level security;

create table private.recovery_credentials (
  id uuid primary key default gen_random_uuid(),
  override_id uuid not null references private.recovery_overrides (id) on delete cascade,
  email text not null,
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  code_salt bytea not null check (octet_length(code_salt) = 16),
  code_hash bytea not null check (octet_length(code_hash) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '15 minutes',
  consumed_at timestamptz,
  superseded_at timestamptz,
  constraint lifetime check (expires_at > created_at and expires_at <= created_at + interval '15 minutes')
);
comment on table private.recovery_credentials is
  'Links and codes of recovery mails, one row for both: using one kills the other.';
comment on column private.recovery_credentials.superseded_at is 'A later mail took its place, or its own never went out.';
create index recovery_credentials_override_id_idx on private.recovery_credentials (override_id);
create index recovery_credentials_email_idx on private.recovery_credentials (email, created_at desc);
alter table private.recovery_credentials enable row level security;

create table private.recovery_code_guesses (
  email text primary key,
  wrong smallint not null default 0 check (wrong between 0 and 5),
  last_wrong_at timestamptz,
  locked_until timestamptz
);
comment on table private.recovery_code_guesses is
  'Wrong codes of an email, whichever mail they were meant for and wherever they came from. Links are not concerned.';
alter table private.recovery_code_guesses enable row level security;
