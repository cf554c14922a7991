-- Everything that opens an account or acts for it. The access review, sign-outs, the export and the console read the
-- view account_credentials, and a catalog test fails if a table with credentials of an account is missing here.

-- Returns the credentials that are in Supabase Auth's tables or end with a row there, as account_credentials lists them.
-- A function, because a view that depends on these tables would fail Supabase Auth's own migrations. It sets no search
-- path, so that Postgres inlines it and a lookup by user_id uses indexes.
create or replace function private.auth_credentials() returns table (
  user_id uuid, kind text, id uuid, listed_as text, is_method boolean, app_id uuid, source_id uuid, session_id uuid,
  proof private.mfa_proof, name text, provider text, created_at timestamptz, added_at timestamptz,
  last_used_at timestamptz, ends_at timestamptz, is_active boolean, record jsonb
)
  language sql stable security invoker
as $$
select
  u.id as user_id,
  'password' as kind,
  u.id as id,
  'password' as listed_as,
  true as is_method,
  null::uuid as app_id,
  null::uuid as source_id,
  null::uuid as session_id,
  null::private.mfa_proof as proof,
  null::text as name,
  null::text as provider,
  u.created_at,
  u.created_at as added_at,
  null::timestamptz as last_used_at,
  null::timestamptz as ends_at,
  u.email_confirmed_at is not null as is_active,
  '{}'::jsonb as record
from auth.users u
where coalesce(u.encrypted_password, '') <> ''

union all
select
  i.user_id, 'identity', i.id, 'identity:' || i.id, true, null, null, null, null, i.email::text, i.provider::text,
  i.created_at, i.created_at, i.last_sign_in_at, null,
  -- Our pages are still linking it.
  not exists (select from private.unconfirmed_identities n where n.identity_id = i.id),
  jsonb_build_object(
    'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
  )
from auth.identities i

union all
select
  p.user_id, 'passkey', p.id, 'passkey:' || p.id, true, null, null, null, null, nullif(p.friendly_name::text, ''),
  p.aaguid::text, p.created_at, p.created_at, p.last_used_at, null, true,
  jsonb_build_object(
    'id', p.id, 'name', p.friendly_name, 'createdAt', p.created_at, 'lastUsedAt', p.last_used_at
  )
from auth.webauthn_credentials p

union all
select
  f.user_id, 'authenticator', f.id, 'authenticator:' || f.id, true, null, null, null, null,
  nullif(f.friendly_name::text, ''), null, f.created_at, f.created_at, f.last_challenged_at, null, f.status = 'verified',
  jsonb_build_object(
    'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
  )
from auth.mfa_factors f

union all
select
  u.id, 'recovery_mail', r.id, 'recovery_mail:' || r.id, true, null, null, null, null, null, null, r.created_at,
  r.created_at, null, r.expires_at, r.consumed_at is null and r.superseded_at is null, '{}'
from auth.users u
join private.recovery_credentials r on r.email = lower(u.email)

union all
select
  s.user_id, 'session', s.id, 'session:' || s.id, false, null, null, s.id, null, null, null, s.created_at,
  s.created_at, greatest(s.created_at, s.refreshed_at at time zone 'UTC'), s.not_after, true,
  jsonb_build_object(
    'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
    'userAgent', s.user_agent, 'aal', s.aal
  )
from auth.sessions s

union all
select
  c.user_id, 'phone_approval', c.id, 'phone_approval:' || c.id, false, null, null, c.session_id, null,
  c.approval_metadata -> 'device' ->> 'name', null, c.created_at, coalesce(c.approved_at, c.created_at), null,
  coalesce(c.valid_until, c.expires_at),
  c.status in ('approved', 'consuming', 'bound')
    and exists (select from auth.sessions s where s.id = c.session_id and s.user_id = c.user_id)
    and (
      c.approver_factor_id is null
      or exists (select from auth.mfa_factors f where f.id = c.approver_factor_id and f.status = 'verified')
    ),
  jsonb_build_object(
    'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
    'approvedAt', c.approved_at
  )
from private.login_challenges c
$$;

create or replace view private.account_credentials with (security_invoker = true) as
select
  c.*,
  c.kind || ':' || c.id as key,
  c.is_active
    and coalesce(c.ends_at > now(), true)
    and (c.proof is not distinct from null or private.proof_status(c.proof) <> 'over') as is_live
from (
  select a.* from private.auth_credentials() a

  union all
  select
    c.user_id, 'recovery_code', c.id, 'recovery_codes', true, null, null, null, null, null, null, c.created_at,
    c.created_at, c.used_at, null,
    c.completed_at is null and coalesce(c.used_at > now() - interval '24 hours', true),
    jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at)
  from private.mfa_recovery_codes c

  union all
  select
    t.user_id, 'app_handoff', t.id, 'app:' || a.name, false, a.id, null, null, null, a.display_name, null,
    t.created_at, t.created_at, null, t.expires_at, t.redeemed_at is null and t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
    )
  from private.cross_app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    s.user_id, 'app_session', s.id, 'app:' || a.name, false, a.id, s.handoff_id, (s.proof).session_id, s.proof,
    a.display_name, null, s.created_at, s.created_at, s.issued_at, least(s.expires_at, s.ends_at),
    s.revoked_at is null,
    jsonb_build_object(
      'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
      'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
    )
  from private.app_sessions s
  join private.apps a on a.id = s.app_id

  union all
  select
    t.user_id, 'app_token', t.id, 'app:' || a.name, false, a.id, t.family_id, (t.proof).session_id, t.proof,
    a.display_name, null, t.created_at, t.handed_over_at, t.created_at,
    case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end, t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
      'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
    )
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    c.user_id, 'openid_code', c.id, 'app:' || a.name, false, a.id, null, (c.proof).session_id, c.proof,
    a.display_name || coalesce(' for ' || r.display_name, ''), null, c.created_at, c.created_at, null, c.expires_at,
    c.redeemed_at is null and c.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'app', a.name, 'resource', r.resource_url, 'scopes', c.scopes, 'createdAt', c.created_at,
      'redeemedAt', c.redeemed_at, 'revokedAt', c.revoked_at
    )
  from private.authorization_codes c
  join private.apps a on a.id = c.app_id
  left join private.apps r on r.id = c.resource_id

  union all
  select
    d.user_id, 'device_request', d.id, 'device:' || d.id, false, a.id, null, null, d.proof, a.display_name, null,
    d.created_at, coalesce(d.approved_at, d.created_at), null, least(d.expires_at, d.valid_until),
    d.approved_at is not null and d.redeemed_at is null,
    jsonb_build_object(
      'id', d.id, 'app', a.name, 'scopes', d.scopes, 'ip', host(d.ip), 'userAgent', d.user_agent, 'place', d.place,
      'createdAt', d.created_at, 'approvedAt', d.approved_at, 'deniedAt', d.denied_at, 'redeemedAt', d.redeemed_at
    )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id

  union all
  -- Only the login of a device has no session.
  select
    g.user_id, 'openid_login', g.id,
    case when (g.proof).session_id is null then 'device:' || g.source_id else 'app:' || a.name end,
    false, a.id, g.source_id, (g.proof).session_id, g.proof,
    a.display_name || coalesce(' for ' || r.display_name, ''), null, g.created_at, g.created_at,
    (select max(t.created_at) from private.openid_tokens t where t.grant_id = g.id), g.ends_at, g.revoked_at is null,
    jsonb_build_object(
      'id', g.id, 'app', a.name, 'resource', r.resource_url, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
      'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
      'revokedAt', g.revoked_at
    )
  from private.openid_grants g
  join private.apps a on a.id = g.app_id
  left join private.apps r on r.id = g.resource_id

  union all
  select
    c.user_id, 'agent_connection', c.id, 'agent:' || c.id, false, null, c.login_id, (g.proof).session_id, g.proof,
    ai.agent_name(c.tool) || ' on ' || c.host, null, c.created_at, c.created_at,
    (select max(k.last_used_at) from ai.keys k where k.connection_id = c.id), g.ends_at,
    c.revoked_at is null and g.id is not null and g.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'workspaceId', c.workspace_id, 'tool', c.tool, 'host', c.host, 'createdAt', c.created_at,
      'revokedAt', c.revoked_at
    )
  from ai.agent_connections c
  left join private.openid_grants g on g.id = c.login_id

  union all
  -- Listed for the person who is responsible for it. Nothing that ends an account's access ends it, like a workspace's
  -- keys, because it is not the person's: production must not stop when somebody signs out.
  select
    s.created_by, 'service_account', s.id, 'service_account:' || s.id, false, null, null, null, null, s.name, null,
    s.created_at, s.created_at, s.last_used_at, s.expires_at, s.enabled and s.revoked_at is null,
    jsonb_build_object(
      'id', s.id, 'workspaceId', s.workspace_id, 'name', s.name, 'scopes', s.scopes, 'createdAt', s.created_at,
      'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
    )
  from private.service_accounts s
  where s.created_by is not null
) as c;
comment on view private.account_credentials is
  'One row for each credential, including ended ones. listed_as: the entry of the access review that the row belongs '
  'to. source_id: what the credential was derived from, such as a handoff, a code, a device''s request or a login. '
  'session_id: the session that the credential ends with; null if it outlives sessions. is_method: a way to sign in, to '
  'prove a second step or to recover, which a sign-out keeps. is_active: not revoked, redeemed or incomplete. is_live: '
  'it works now, or would after a second factor. record: the row''s entry in the account''s export.';
