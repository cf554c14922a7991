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
