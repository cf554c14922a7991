-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

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
    a.display_name, null, c.created_at, c.created_at, null, c.expires_at,
    c.redeemed_at is null and c.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.created_at, 'redeemedAt', c.redeemed_at,
      'revokedAt', c.revoked_at
    )
  from private.authorization_codes c
  join private.apps a on a.id = c.app_id

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
    false, a.id, g.source_id, (g.proof).session_id, g.proof, a.display_name, null, g.created_at, g.created_at,
    (select max(t.created_at) from private.openid_tokens t where t.grant_id = g.id), g.ends_at, g.revoked_at is null,
    jsonb_build_object(
      'id', g.id, 'app', a.name, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
      'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
      'revokedAt', g.revoked_at
    )
  from private.openid_grants g
  join private.apps a on a.id = g.app_id

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
) as c;

-- Completes an attempt with a verdict. Returns true to only one caller. sign_in keeps the code valid, so that it can be
-- exchanged. link confirms the identity and voids the code. refuse voids the code, and removes the account or the
-- identity that the attempt created.
-- Definer: reverts changes in Supabase Auth's tables, which the service role cannot write.
create or replace function private.complete_oauth_attempt(attempt_hash text, code text, challenge text, verdict text) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  attempt private.oauth_attempts;
  flow record;
  identity record;
begin
  update private.oauth_attempts a
  set used_at = now()
  where a.state_hash = decode(attempt_hash, 'hex')
    and a.used_at is null
    and a.expires_at > now()
    and verdict = any (case a.purpose when 'link' then array['link', 'refuse'] else array['sign_in', 'refuse'] end)
  returning a.* into attempt;
  if not found then
    return false;
  end if;
  if verdict = 'sign_in' then
    return true;
  end if;

  select f.id, f.xmin as written_by, f.user_id, f.linking_target_id, f.provider_type, f.created_at
  into flow
  from auth.flow_state f
  where f.auth_code = code and f.code_challenge = challenge and f.provider_type = attempt.provider
  for update;
  if not found then
    return verdict = 'refuse';
  end if;
  select i.id, i.provider, i.email,
    -- An identity that a direct call to Supabase Auth linked during the flow does not count as new. Its event is kept.
    i.created_at >= flow.created_at
      and not exists (select from private.unconfirmed_additions a where a.target_id = i.id) as is_new,
    -- Keeps an identity that an app linked. Only the owner confirms or removes it, in the access review.
    not exists (select from private.unconfirmed_additions a where a.target_id = i.id)
      and (
        i.created_at >= flow.created_at
        or exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
      ) as may_go
  into identity
  from auth.identities i
  where i.user_id = flow.user_id and i.provider = flow.provider_type and i.xmin = flow.written_by;

  -- Deletes the flow, so that its code cannot be exchanged for a session. Neither a link nor a refused sign-in needs a
  -- session.
  perform private.delete_auth_flow(flow.id);

  if verdict = 'link' then
    if identity.id is null or flow.linking_target_id is distinct from attempt.user_id then
      return false;
    end if;
    delete from private.unconfirmed_identities n where n.identity_id = identity.id;
    if found then
      perform private.record_addition(
        attempt.user_id, 'identity', identity.id, true,
        jsonb_build_object('provider', identity.provider, 'email', identity.email)
      );
    end if;
    return true;
  end if;

  if not private.delete_unused_auth_user(flow.user_id, flow.created_at) and identity.may_go then
    delete from public.security_events e
    where e.target_id = identity.id and e.created_at >= flow.created_at and identity.is_new;
    perform set_config('gatehouse.takes_back', case when identity.is_new then 'on' else 'off' end, true);
    perform private.remove_identity(identity.id);
    perform set_config('gatehouse.takes_back', 'off', true);
  end if;
  return true;
end
$$;

-- Removes a member, or lets the caller leave, and revokes the given keys that the person made, if the caller has
-- manage_ai_keys. A refused removal revokes no key. Raises PT403 without the required MFA, PT404 if the caller may not
-- remove the person, or PT409 if the last owner would leave.
-- Definer: members cannot write keys directly. The condition on the role is that of the policies on memberships.
create or replace function public.remove_workspace_member(workspace_id uuid, user_id uuid, key_ids uuid[] default '{}')
  returns void
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  -- Read first, because somebody who has left has no permission.
  manages_keys constant boolean :=
    remove_workspace_member.workspace_id in (select private.my_workspace_ids_with_permission('manage_ai_keys'));
  ended record;
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  delete from public.workspace_members m
  where m.workspace_id = remove_workspace_member.workspace_id
    and m.user_id = remove_workspace_member.user_id
    and m.workspace_id in (select private.my_workspace_ids())
    and (m.user_id = (select auth.uid()) or m.role_id in (select private.my_assignable_role_ids()));
  if not found then
    raise exception 'no such member' using errcode = 'PT404';
  end if;
  if not manages_keys then
    return;
  end if;
  for ended in
    update ai.keys k set revoked_at = now()
    where k.workspace_id = remove_workspace_member.workspace_id
      and k.created_by = remove_workspace_member.user_id
      and k.id = any (key_ids)
      and k.connection_id is null
      and k.revoked_at is null
    returning k.id, k.name
  loop
    perform private.log_workspace_change(
      remove_workspace_member.workspace_id, 'key.revoked', ended.id, ended.name
    );
  end loop;
end
$$;

-- Raises check_violation of recognizable_name if a new or changed name has invisible characters outside emoji, or
-- full-width, mathematical or enclosed letters, or a word that mixes Latin letters with those of a script that looks
-- like it, or a word that looks like owner, admin or member without being it. A name that stays is not checked, so that
-- the permissions of every existing role can change.
create or replace function private.require_recognizable_name() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  emoji constant text := '[\u00a9\u00ae\u203c\u2049\u2122\u2190-\u21ff\u2300-\u2379\u237b-\u23ff\u25a0-\u27bf\u2900-\u297f'
    '\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff\U0001f1e6-\U0001f1ff\U0001f200-\U0001faff][\ufe0e\ufe0f]?';
  separator constant text := '[\s\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b\u007d\u007e\u00a1-\u00a9\u00ab-\u00b4'
    '\u00b6-\u00b9\u00bb-\u00bf\u2000-\u206f\u3000-\u3006\u3008-\u303f]+';
  latin constant text := '[A-Za-z\u00aa\u00ba\u00c0-\u02af\u1d00-\u1d7f\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff]';
  -- Greek, Coptic, Cyrillic, Armenian, Cherokee, Canadian syllabics, Tifinagh, Lisu, and old scripts.
  alike constant text := '[\u0370-\u058f\u13a0-\u167f\u1c80-\u1c8f\u1f00-\u1fff\u2c80-\u2cff\u2d30-\u2d7f\u2de0-\u2dff'
    '\ua4d0-\ua4ff\ua640-\ua69f\uab70-\uabbf\U00010280-\U000104ff]';
  shown text;
  word text;
  plain text;
  letter text;
  lookalikes text;
begin
  if tg_op = 'UPDATE' and new.name = old.name then
    return new;
  end if;
  -- Emoji that are letters count as letters. Other emoji, with what joins them, separate words.
  shown := regexp_replace(new.name, '([\u2139\u24c2\U0001f170\U0001f171\U0001f17e\U0001f17f])\ufe0f', '\1', 'g');
  shown := regexp_replace(
    shown,
    '\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f|[0-9#*]\ufe0f?\u20e3|' || emoji || '(\u200d?' || emoji || ')*',
    ' ', 'g'
  );
  if shown ~ ('[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164'
      '\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff'
      '\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7cb\U0001f130-\U0001f169\U0001f172-\U0001f17d\U0001f180-\U0001f189]') then
    raise check_violation using message = 'the name is not recognizable', constraint = 'recognizable_name';
  end if;
  for word in select regexp_split_to_table(shown, separator) loop
    plain := regexp_replace(
      normalize(word, nfkd), '[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]', '', 'g'
    );
    for letter, lookalikes in
      values
        ('a', '[\u0251\u0391\u03b1\u0410\u0430\u13aa\u15c5\u1d00\u237a\u2c80\u2c81\ua4ee\U0001f170]'),
        ('b', '[\u0180\u0184\u0253\u0299\u0392\u03b2\u0412\u0432\u042c\u044c\u13cf\u13f4\u1472\u15af\u15f7\u2c82\u2c83'
          '\ua4d0\U0001f171]'),
        ('d', '[\u00d0\u00f0\u0110\u0111\u0189\u0256\u0257\u0500\u0501\u13a0\u13e7\u146f\u15de\u1d05\ua4d3]'),
        ('e', '[\u0246\u0247\u025b\u0395\u03b5\u0415\u0435\u0454\u04bc\u04bd\u13ac\u1d07\u212e\u2c88\u2c89\ua4f0]'),
        ('i', '[1l|\u0131\u0196\u01c0\u0268\u0269\u026a\u0399\u03b9\u0406\u0456\u04c0\u04cf\u05c0\u05d5\u05df\u0627\u0661'
          '\u06f1\u07ca\u13a5\u2223\u2c92\u2c93\u2d4f\ua4f2]'),
        ('m', '[\u0271\u039c\u03fa\u041c\u043c\u13b7\u15f0\u1d0d\u2c98\u2c99\ua4df]'),
        ('n', '[\u014a\u014b\u0274\u039d\u03b7\u041f\u043f\u0578\u057c\u2c9a\ua4e0]'),
        ('o', '[0\u00d8\u00f8\u0275\u039f\u03bf\u03c3\u041e\u043e\u04e8\u04e9\u0555\u0585\u05e1\u0647\u0665\u06be\u06c1'
          '\u06d5\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c66\u0ce6\u0d20\u0d66\u0e50\u0ed0\u101d\u1040\u10ff'
          '\u12d0\u1d0f\u1d11\u2c9e\u2c9f\u2d54\u3007\ua4f3\U00010404\U0001042c\U000104c2\U000104ea\U0001f17e]'),
        ('r', '[\u027c\u027e\u0280\u0433\u0491\u13a1\u13d2\u1d26\u2c85\ua4e3\uab47\uab48\uab81]'),
        ('w', '[\u026f\u03c9\u0428\u0448\u0460\u0461\u051c\u051d\u0561\u13b3\u13d4\u1d21\u2cb1\ua4ea]')
    loop
      plain := regexp_replace(plain, lookalikes, letter, 'g');
    end loop;
    if word ~ latin and word ~ alike
      or lower(word) not in ('owner', 'admin', 'member')
        and replace(replace(lower(plain), 'rn', 'm'), 'vv', 'w') in ('owner', 'admin', 'member') then
      raise check_violation using message = 'the name is not recognizable', constraint = 'recognizable_name';
    end if;
  end loop;
  return new;
end
$$;

create or replace trigger require_recognizable_name before insert or update of name on public.workspace_roles
  for each row execute function private.require_recognizable_name();

grant execute on function public.remove_workspace_member(uuid, uuid, uuid[]) to authenticated;
