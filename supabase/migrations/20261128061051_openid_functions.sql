-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create or replace function private.begin_attempt(attempt jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  of_action text := attempt ->> 'action';
  network cidr := private.address_network((attempt ->> 'address')::inet);
  account text := case
    when attempt ->> 'email' is not null then 'email:' || lower(attempt ->> 'email')
    when attempt ->> 'userId' is not null then 'user:' || (attempt ->> 'userId')::uuid
  end;
  challenged boolean := coalesce((attempt ->> 'challenged')::boolean, false);
  overridden boolean := coalesce((attempt ->> 'overridden')::boolean, false);
  mail text := attempt ->> 'mail';
  mail_wait interval;
  account_pair bytea := private.attempt_pair(account, network);
  blocked_for interval;
  proven boolean;
  bucket record;
  wait interval;
  longest interval;
  charged bytea[] := '{}';
  challenge_due boolean := false;
  repeated boolean := false;
  new_id uuid;
begin
  if of_action is null or of_action not in (
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff',
    'user_code'
  ) then
    raise exception 'there is no such action' using errcode = 'invalid_parameter_value';
  end if;
  if mail not in ('sign_up_mail', 'confirmation_mail', 'recovery_mail', 'email_change_mail') then
    raise exception 'there is no such mail' using errcode = 'invalid_parameter_value';
  end if;
  if network is null then
    raise exception 'an attempt comes from an address' using errcode = 'null_value_not_allowed';
  end if;
  select max(b.blocked_until) - now() into blocked_for
  from private.address_blocks b
  where b.address = network and b.blocked_until > now() and b.lifted_at is null;
  if blocked_for is not null then
    return private.attempt_refusal('blocked', blocked_for);
  end if;

  proven := exists (select from private.verified_addresses p where p.pair = account_pair and p.verified_until > now());
  if mail is not null then
    mail_wait := private.mail_wait(mail, lower(attempt ->> 'email'), (attempt ->> 'userId')::uuid);
  end if;
  -- In one order for everybody, so that no two wait for each other.
  for bucket in
    select of_action as action, b.*
    from private.attempt_buckets(of_action, account, network) b
    where not overridden or b.scope = 'address'
    union all
    select 'override_password', b.*
    from private.attempt_buckets('override_password', account, network) b
    where overridden
    union all
    select mail, b.*
    from private.attempt_buckets(mail, account, null) b
    where mail_wait is null
    union all
    select 'redemption', b.*
    from private.attempt_buckets('redemption', account || ' ' || (attempt ->> 'code'), null) b
    order by subject
  loop
    continue when bucket.when_empty = 'challenge' and proven;
    continue when bucket.when_empty = 'refuse_new' and (proven or challenged);
    wait := private.consume_attempt(bucket.subject, bucket.action, bucket.scope, bucket.step, bucket.per);
    if wait is null then
      charged := charged || bucket.subject;
    elsif bucket.when_empty = 'challenge' then
      challenge_due := not challenged;
    elsif bucket.when_empty = 'wait' then
      mail_wait := wait;
    elsif bucket.when_empty = 'repeat' then
      repeated := true;
    else
      longest := greatest(longest, wait);
    end if;
  end loop;
  if longest is not null then
    perform private.refund_attempts(charged);
    perform private.count_failure(of_action, network);
    return private.attempt_refusal('limited', longest);
  end if;

  insert into private.open_attempts (action, address, pair, charged, password_checks)
  values (
    of_action, network, account_pair, charged,
    -- Under an override the sign-in is made again once what blocked it is lifted.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'repeated', repeated,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;

-- Every number of the abuse controls, and its reason. `address`: whoever comes from there. `pair`: one account from one
-- address. `account`: one account from anywhere. What happens when a bucket is empty:
--   refuse      429, with the time until the next attempt
--   challenge   a bot challenge is due; without one the attempt is slowed down, never refused
--   refuse_new  429, unless the attempt carries a bot challenge or the address is proven for this account
--   wait        no mail is sent, and the answer is the same
--   repeat      the same code was tried before: it is not tried again, and the answer is that of a wrong one
create or replace function private.attempt_limits()
  returns table (action text, scope text, attempts integer, per interval, when_empty text)
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  values
    -- An office behind one address signs in within minutes, some with typing errors; what succeeds is given back.
    ('password', 'address', 60, interval '10 minutes', 'refuse'),
    -- More than anybody needs to remember which password it was; 40 an hour at most afterwards.
    ('password', 'pair', 10, interval '15 minutes', 'refuse'),
    -- Many addresses at one account are an attack. The owner, who may come from anywhere, must still get in.
    ('password', 'account', 20, interval '1 hour', 'challenge'),
    -- Without a bot challenge something has to end it: NIST SP 800-63B allows 100 failures in a row.
    ('password', 'account_cap', 100, interval '1 hour', 'refuse_new'),

    ('code', 'address', 60, interval '10 minutes', 'refuse'),
    -- A code of six digits, of which three are right at any time: five guesses, then twenty an hour.
    ('code', 'pair', 5, interval '15 minutes', 'refuse'),
    -- Who is asked for a code knew the password. Stays below the backend's hook, whose refusal ends all sessions.
    ('code', 'account', 8, interval '15 minutes', 'refuse'),

    -- Mailed sign-in codes. Anybody can ask for one, so strangers must not be able to lock the owner out. The identity
    -- backend checks no bot challenge with a code, so nothing could let the owner past a cap for the account. It needs
    -- none: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    -- One code of one account. The identity backend would start a session for each concurrent request with it.
    ('redemption', 'account', 1, interval '1 hour', 'repeat'),

    -- Mails cost reputation. A class of thirty signs up in one lesson.
    ('mail', 'address', 30, interval '1 hour', 'refuse'),
    ('mail', 'pair', 5, interval '15 minutes', 'refuse'),
    ('mail', 'account', 10, interval '1 hour', 'challenge'),
    -- Nobody's mailbox is to be filled by others.
    ('mail', 'account_cap', 30, interval '1 hour', 'refuse_new'),
    ('sign_up', 'address', 30, interval '1 hour', 'refuse'),
    ('sign_up', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_up', 'account', 10, interval '1 hour', 'challenge'),
    ('sign_up', 'account_cap', 30, interval '1 hour', 'refuse_new'),

    -- One at a time of each kind: the identity backend notes a mail when its mail server has taken it, and a second
    -- request within those seconds would replace the link in the first mail.
    ('sign_up_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('confirmation_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('recovery_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('email_change_mail', 'account', 1, interval '30 seconds', 'wait'),

    -- Of one inviter, whatever the workspace: a team in one go, and never a mailing to strangers.
    ('invitation', 'account', 10, interval '10 minutes', 'refuse'),
    ('invitation', 'account_cap', 50, interval '1 day', 'refuse'),

    -- Nothing to guess here; this spares the identity backend.
    ('passkey', 'address', 60, interval '10 minutes', 'refuse'),
    -- Visits to providers, counted where they begin: none is given back when somebody returns.
    ('oauth', 'address', 120, interval '10 minutes', 'refuse'),
    -- Changes by somebody who is signed in: each hashes a password or sends a mail.
    ('credential', 'address', 60, interval '10 minutes', 'refuse'),
    ('credential', 'pair', 20, interval '1 hour', 'refuse'),

    -- Under a recovery override these hold in the place of the password's own by email: for the owner afresh, and for
    -- those who guess as before.
    ('override_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('override_password', 'account', 100, interval '1 hour', 'refuse'),

    -- Nobody guesses a secret of 256 bits: this spares the database. Only wrong ones count.
    ('app_secret', 'address', 60, interval '10 minutes', 'refuse'),
    -- Signing in to apps; each is a row that lives for a day.
    ('handoff', 'account', 120, interval '10 minutes', 'refuse'),

    -- Requests of devices for a user code (RFC 8628), each a row that lives for a day.
    ('device_authorization', 'address', 60, interval '10 minutes', 'refuse'),
    -- User codes have 34 bits and live for 10 minutes (RFC 8628 section 5.1). A right one is given back.
    ('user_code', 'address', 30, interval '10 minutes', 'refuse'),
    ('user_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- At the identity backend itself, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this is empty: only under attack (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts that came in spite of a refusal: then the address is blocked.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'device_approved', 'email_changed',
    'identity_linked', 'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_used',
    'recovery_codes_created', 'session_revoked', 'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

-- Definer: no role may call its parts.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens', 'openidLogins', 'openidCodes', 'deviceLogins', 'openidConsents'
    ]) as p (part)
  )
$$;

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if part = 'sessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      )
      from auth.sessions s
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'place', e.place, 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'approvals' then
    return query
      select jsonb_build_object(
        'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      )
      from private.login_challenges c
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'appHandoffs' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      )
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'appSessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
        'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
      )
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'appTokens' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      )
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'openidLogins' then
    return query
      select jsonb_build_object(
        'id', g.id, 'app', a.name, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
        'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
        'revokedAt', g.revoked_at
      )
      from private.openid_grants g join private.apps a on a.id = g.app_id
      where g.user_id = subject_id and (g.created_at, g.id) > (last_at, last_id)
      order by g.created_at, g.id
      limit page_size;
  elsif part = 'openidCodes' then
    return query
      select jsonb_build_object(
        'id', c.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.created_at, 'redeemedAt', c.redeemed_at,
        'revokedAt', c.revoked_at
      )
      from private.authorization_codes c join private.apps a on a.id = c.app_id
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'deviceLogins' then
    return query
      select jsonb_build_object(
        'id', d.id, 'app', a.name, 'scopes', d.scopes, 'ip', host(d.ip), 'userAgent', d.user_agent, 'place', d.place,
        'createdAt', d.created_at, 'approvedAt', d.approved_at, 'deniedAt', d.denied_at, 'redeemedAt', d.redeemed_at
      )
      from private.device_authorizations d join private.apps a on a.id = d.app_id
      where d.user_id = subject_id and (d.created_at, d.id) > (last_at, last_id)
      order by d.created_at, d.id
      limit page_size;
  elsif part = 'openidConsents' then
    return query
      select jsonb_build_object('id', a.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.granted_at)
      from private.openid_consents c join private.apps a on a.id = c.app_id
      where c.user_id = subject_id and (c.granted_at, a.id) > (last_at, last_id)
      order by c.granted_at, a.id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

create or replace function private.find_app_caller(token_hash bytea, needed_scope text) returns private.app_caller
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  held record;
  caller private.app_caller;
  standing text;
begin
  select c.* into held
  from (
    select s.user_id, s.app_id, s.proof, private.effective_scopes(s) as scopes
    from private.live_app_session(find_app_caller.token_hash) s
    where s.audience = 'central'
    union all
    select (l.login).user_id, (l.login).app_id, (l.login).proof, l.scopes
    from private.live_openid_token(find_app_caller.token_hash) l
  ) as c;
  if not found then
    caller.refused := 'unauthenticated';
    return caller;
  end if;
  standing := private.proof_status(held.proof);
  caller.scopes := held.scopes;
  caller.refused := case
    when standing = 'over' then 'unauthenticated'
    when standing <> 'good' then standing
    when not needed_scope = any (caller.scopes) then 'insufficient_scope'
  end;
  caller.user_id := held.user_id;
  caller.app_id := held.app_id;
  return caller;
end
$$;

-- Definer: proofs, apps' secrets and consumption are granted to nobody.
create or replace function private.redeem_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  app_hash bytea,
  central_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  standing text;
  handoff uuid;
  session_end timestamptz := least(now() + interval '30 days', (facts ->> 'validUntil')::timestamptz);
  opened jsonb;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.hold_proof(private.handoff_proof(facts));
  standing := private.proof_status(private.handoff_proof(facts));
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or session_end <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  handoff := private.consume_cross_app_token(
    redeem_cross_app_token.token_hash, app.id, (facts ->> 'user')::uuid, redeem_cross_app_token.proof
  );
  if handoff is null then
    return jsonb_build_object('refused', 'token');
  end if;

  with sessions as (
    insert into private.app_sessions as s (
      handoff_id, app_id, audience, scopes, proof, user_id, token_hash, expires_at, ends_at
    )
    select
      handoff, app.id, o.audience, app.scopes, private.handoff_proof(facts), (facts ->> 'user')::uuid, o.hash,
      least(now() + interval '8 hours', session_end), session_end
    from (values ('app', app_hash), ('central', central_hash)) as o (audience, hash)
    -- The central API is for apps that have something to do there.
    where o.audience = 'app' or app.scopes && array['workspaces:read', 'workspaces:write', 'studio:read']
    returning s.audience, private.app_session_summary(s) as summary
  )
  select jsonb_object_agg(s.audience, s.summary) into opened from sessions s;
  return opened;
end
$$;

create or replace function private.app_session_summary(session private.app_sessions) returns jsonb
  language sql
  stable
  security invoker
as $$
  select jsonb_build_object(
    'id', session.id,
    'handoff', session.handoff_id,
    'audience', session.audience,
    'user', session.user_id,
    'factor', (session.proof).factor_id,
    'issuedAt', session.issued_at,
    'expiresAt', session.expires_at
  )
$$;

create or replace function private.apps_ever_connected(subject_id uuid) returns setof private.apps
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.*
  from private.apps a
  where exists (select from private.app_sessions s where s.app_id = a.id and s.user_id = subject_id)
    or exists (select from ai.app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.cross_app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.openid_grants g where g.app_id = a.id and g.user_id = subject_id)
    or exists (select from private.authorization_codes c where c.app_id = a.id and c.user_id = subject_id)
    or exists (select from private.device_authorizations d where d.app_id = a.id and d.user_id = subject_id)
    or exists (select from private.openid_consents c where c.app_id = a.id and c.user_id = subject_id)
$$;

create or replace function private.mint_cross_app_token(token_hash bytea, facts jsonb, proof text) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with target as (
    -- Held: whoever turns the app off waits, and ends this token with the others, or is waited for, and it is not stored.
    select a.id
    from private.apps a
    where a.id = (facts ->> 'targetId')::uuid and a.kind <> 'openid' and a.enabled
    for share
  ),
  minted as (
    insert into private.cross_app_tokens (token_hash, user_id, app_id, proof, created_at, expires_at)
    select
      mint_cross_app_token.token_hash,
      (facts ->> 'user')::uuid,
      t.id,
      mint_cross_app_token.proof,
      (facts ->> 'issuedAt')::timestamptz,
      (facts ->> 'expiresAt')::timestamptz
    from target t
    returning id
  )
  select exists (select from minted)
$$;

-- Definer: authenticate_app is not granted to a role.
create or replace function private.revoke_app_credential(app_name text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  held record;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return false;
  end if;
  -- Of whom it is and what it came of never changes.
  select h.user_id, h.handoff_id into held
  from (
    select s.user_id, s.handoff_id
    from private.app_sessions s
    where s.app_id = app.id
      and (s.token_hash = revoke_app_credential.token_hash or s.previous_hash = revoke_app_credential.token_hash)
    union all
    select t.user_id, t.family_id
    from ai.app_tokens t
    where t.app_id = app.id
      and (t.token_hash = revoke_app_credential.token_hash or t.refresh_hash = revoke_app_credential.token_hash)
  ) as h;
  if found then
    perform private.lock_app_credentials(held.user_id);
    update private.app_sessions s
    set revoked_at = now()
    where s.handoff_id = held.handoff_id and s.app_id = app.id and s.revoked_at is null;
    update ai.app_tokens t
    set revoked_at = now()
    where t.family_id = held.handoff_id and t.app_id = app.id and t.revoked_at is null;
    perform private.withdraw_logout(held.handoff_id);
  end if;
  return true;
end
$$;

create or replace function private.end_apps_of_account(subject_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  update private.cross_app_tokens t set revoked_at = now() where t.user_id = subject_id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.user_id = subject_id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.user_id = subject_id and t.revoked_at is null;
  update private.authorization_codes c set revoked_at = now() where c.user_id = subject_id and c.revoked_at is null;
  delete from private.device_authorizations d where d.user_id = subject_id and d.redeemed_at is null;
  update private.openid_grants g set revoked_at = now() where g.user_id = subject_id and g.revoked_at is null;
end
$$;

create or replace function private.end_app_of_account(subject_id uuid, ended_app_id uuid) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  part integer;
  ended integer := 0;
begin
  perform private.lock_app_credentials(subject_id);
  -- In the order in which one is made from the other, so that a redemption under way is waited for and its result is
  -- found next. One that began just before its token expired, or renewed it, is included.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.app_id = ended_app_id
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id and s.app_id = ended_app_id and s.revoked_at is null and s.ends_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and t.app_id = ended_app_id and t.revoked_at is null and t.refresh_expires_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  update private.authorization_codes c
  set revoked_at = now()
  where c.user_id = subject_id
    and c.app_id = ended_app_id
    and c.redeemed_at is null
    and c.revoked_at is null
    and c.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.device_authorizations d
  where d.user_id = subject_id
    and d.app_id = ended_app_id
    and d.redeemed_at is null
    and d.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  update private.openid_grants g
  set revoked_at = now()
  where g.user_id = subject_id and g.app_id = ended_app_id and g.revoked_at is null and g.ends_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.openid_consents c where c.user_id = subject_id and c.app_id = ended_app_id;
  get diagnostics part = row_count;
  return ended + part;
end
$$;

-- Definer: whoever may write the registry need not reach the gateway's tables.
create or replace function private.revoke_app_credentials() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- All of its people first, and in one order, as private.lock_app_credentials does for one of them: whoever refreshes or
  -- disconnects at this moment is waited for, or waits, before either has a row that the other wants.
  perform
  from auth.users u
  where u.id in (
    select t.user_id from private.cross_app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select s.user_id from private.app_sessions s where s.app_id = new.id and s.revoked_at is null
    union
    select t.user_id from ai.app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select c.user_id from private.authorization_codes c where c.app_id = new.id and c.revoked_at is null
    union
    select d.user_id from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null
    union
    select g.user_id from private.openid_grants g where g.app_id = new.id and g.revoked_at is null
  )
  order by u.id
  for no key update;
  -- In the order in which one comes of the other: a redemption under way is waited for, and what it made is seen next.
  update private.cross_app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.app_id = new.id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.authorization_codes c set revoked_at = now() where c.app_id = new.id and c.revoked_at is null;
  delete from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null;
  update private.openid_grants g set revoked_at = now() where g.app_id = new.id and g.revoked_at is null;
  return null;
end
$$;

create or replace function private.sweep_app_credentials(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer := 0;
  part integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- Disabling an app and closing an account lock these rows in another order, so locked ones stay for the next sweep.
  delete from private.cross_app_tokens t
  where t.id = any (array(
    select o.id from private.cross_app_tokens o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.app_sessions s
  where s.id = any (array(
    select o.id from private.app_sessions o
    where o.ends_at < now() - interval '1 day' order by o.ends_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  -- A used refresh token stays until it would have expired, so that its reuse is noticed.
  delete from ai.app_tokens t
  where t.id = any (array(
    select o.id from ai.app_tokens o
    where o.refresh_expires_at < now() - interval '1 day' order by o.refresh_expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.authorization_codes c
  where c.id = any (array(
    select o.id from private.authorization_codes o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.device_authorizations d
  where d.id = any (array(
    select o.id from private.device_authorizations o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  -- With their tokens: a used refresh token stays as long, so that its reuse is noticed.
  delete from private.openid_grants g
  where g.id = any (array(
    select o.id from private.openid_grants o
    where o.ends_at < now() - interval '1 day' order by o.ends_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  return swept + part;
end
$$;

create or replace function private.session_proof(claims jsonb)
  returns table (refused text, proof private.mfa_proof, valid_until timestamptz)
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  facts record;
  -- Whichever second factor is the later one: of the session itself, or of the approval that is bound to it.
  own_second bigint;
  by_approval boolean;
begin
  select * into facts from private.session_facts(claims);
  if not found or facts.banned or facts.deleted then
    refused := 'unauthenticated';
  elsif private.required_mfa_state(facts.app_metadata) = 'malformed' then
    refused := 'unavailable';
  elsif not private.satisfies_required_mfa(
    facts.app_metadata, claims, facts.has_verified_factor, facts.session_factor_verified, facts.approval_second,
    floor(extract(epoch from now()))::bigint
  ) then
    refused := 'mfa_required';
  else
    own_second := case
      when facts.session_factor_verified and claims ->> 'aal' = 'aal2'
        then private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
    end;
    by_approval := coalesce(facts.approval_second > own_second, facts.approval_second is not null);
    proof := row(
      facts.user_id,
      facts.session_id,
      case when by_approval then facts.approval_factor_id when own_second is not null then facts.session_factor_id end,
      case when by_approval then facts.approval_second else own_second end,
      private.latest_amr_second(claims -> 'amr', private.primary_methods()),
      private.required_mfa_generation(facts.app_metadata)
    )::private.mfa_proof;
    valid_until := case when by_approval then facts.approval_valid_until end;
  end if;
  return next;
end
$$;

-- Definer: asks the identity backend's tables and the rule, which the service role may not.
create or replace function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  proved record;
  app private.apps;
begin
  select * into proved from private.session_proof(claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  select * into app
  from private.apps a
  where a.name = target_app and a.kind in ('internal', 'external') and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'user', (proved.proof).user_id,
    'target', app.name,
    'targetId', app.id,
    'session', (proved.proof).session_id,
    'factor', (proved.proof).factor_id,
    'secondFactorAt', (proved.proof).second_factor_second,
    'primaryAt', (proved.proof).primary_second,
    'generation', (proved.proof).generation,
    'validUntil', proved.valid_until,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;

create or replace function private.list_apps(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', a.id,
      'name', a.name,
      'displayName', a.display_name,
      'kind', a.kind,
      'enabled', a.enabled,
      'scopes', a.scopes,
      'origins', coalesce((select jsonb_agg(o.origin order by o.origin) from private.app_origins o where o.app_id = a.id), '[]'),
      'workspaces', coalesce((
        select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id) l
      ), '[]'),
      'secrets', (
        select count(*) from private.app_secrets s where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
      ),
      'createdAt', a.created_at
    )
    order by a.name
  ), '[]')
  from (
    select l.*
    from private.apps l
    where l.kind <> 'openid'
      and (strpos(l.name, lower(term)) > 0 or strpos(lower(l.display_name), lower(term)) > 0)
      and (after is null or l.name > after)
    order by l.name
    limit page_size
  ) as a
$$;

create or replace function private.find_app_by_origin(origin text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'name', a.name, 'displayName', a.display_name, 'enabled', a.enabled, 'scopes', a.scopes
  )
  from private.app_origins o
  join private.apps a on a.id = o.app_id
  where o.origin = find_app_by_origin.origin and a.kind <> 'openid'
$$;

create or replace function private.authenticate_app(app_name text, secret_hash bytea) returns setof private.apps
  language sql
  stable
  security invoker
as $$
  select a.*
  from private.app_secrets s
  join private.apps a on a.id = s.app_id
  where s.secret_hash = authenticate_app.secret_hash
    and (s.expires_at is null or s.expires_at > now())
    and a.name = app_name
    and a.kind <> 'openid'
    and a.enabled
$$;

create or replace function private.register_app(
  app_name text,
  display_name text,
  kind text,
  origins text[],
  scopes text[],
  secret_hash bytea,
  reason text,
  actor uuid default null
) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  if kind = 'openid' then
    raise exception 'OpenID clients are registered by add_openid_client' using errcode = 'check_violation';
  end if;
  insert into private.apps (name, display_name, kind, scopes)
  values (app_name, register_app.display_name, register_app.kind, register_app.scopes)
  returning * into app;
  insert into private.app_origins (origin, app_id) select o, app.id from unnest(origins) as o;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, register_app.secret_hash);
  perform private.record_app_change(app, 'app.register', reason, actor);
  return app.id;
end
$$;

create or replace function private.rotate_app_secret(
  app_name text,
  secret_hash bytea,
  overlap_seconds integer,
  reason text,
  actor uuid default null
) returns timestamptz
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  ends_at timestamptz := now() + make_interval(secs => overlap_seconds);
begin
  if overlap_seconds is null or overlap_seconds not between 0 and 86400 then
    raise exception 'the overlap is 0 to 86400 seconds' using errcode = 'check_violation';
  end if;
  -- Locked, so that two rotations at once leave one current secret.
  select * into app from private.apps a where a.name = app_name for no key update;
  if not found then
    return null;
  end if;
  if exists (select from private.openid_clients c where c.app_id = app.id and c.is_public) then
    raise exception 'a public client has no secret' using errcode = 'check_violation';
  end if;
  delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
  -- Never later than it was to end already.
  update private.app_secrets s set expires_at = least(s.expires_at, ends_at) where s.app_id = app.id;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, rotate_app_secret.secret_hash);
  perform private.record_app_change(app, 'app.rotate_secret', reason, actor);
  return ends_at;
end
$$;

create or replace function private.set_app_workspace(
  app_name text,
  workspace_id uuid,
  linked boolean,
  reason text,
  actor uuid default null
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.apps a where a.name = app_name and a.kind <> 'openid' for no key update;
  if not found
    or not exists (select from public.workspaces w where w.id = set_app_workspace.workspace_id and w.deleted_at is null)
  then
    return false;
  end if;
  if linked then
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, set_app_workspace.workspace_id, actor)
    on conflict do nothing;
  else
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = set_app_workspace.workspace_id;
  end if;
  perform private.record_app_change(
    app,
    case when linked then 'app.link_workspace' else 'app.unlink_workspace' end,
    reason || ' (workspace ' || workspace_id || ')',
    actor
  );
  return true;
end
$$;

create or replace function private.add_app(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'kind' = 'openid' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', change ->> 'kind',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.app_origins (origin, app_id)
    select o, app.id from jsonb_array_elements_text(change -> 'origins') as o;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'after', private.describe_app(app.id)
  ));
  return '{}';
end
$$;

create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  known jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: whoever decided on another state of the app decides anew.
  known := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if known ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if app.kind = 'openid' and step not in ('enable', 'disable', 'rotate') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes')),
        -- Servers of 0.1.0 name none.
        backchannel_logout_uri = case
          when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
        end
      where a.id = app.id;
      delete from private.app_origins o
      where o.app_id = app.id and o.origin not in (select jsonb_array_elements_text(change -> 'origins'));
      insert into private.app_origins (origin, app_id)
      select n, app.id from jsonb_array_elements_text(change -> 'origins') as n
      where not exists (select from private.app_origins o where o.app_id = app.id and o.origin = n);
    exception
      when unique_violation then
        return jsonb_build_object('refused', 'taken');
      when check_violation then
        return jsonb_build_object('refused', 'invalid');
    end;
  elsif step in ('enable', 'disable') then
    update private.apps a set enabled = step = 'enable' where a.id = app.id;
  elsif step = 'link' then
    if app.kind <> 'external' or not exists (
      select from public.workspaces w where w.id = linked and w.deleted_at is null
    ) then
      return jsonb_build_object('refused', 'no_workspace');
    end if;
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, linked, (change ->> 'actor')::uuid)
    on conflict do nothing;
  elsif step = 'unlink' then
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = linked;
  elsif step = 'rotate' then
    if overlap is null or overlap not between interval '0' and interval '24 hours'
      or exists (select from private.openid_clients c where c.app_id = app.id and c.is_public)
    then
      return jsonb_build_object('refused', 'invalid');
    end if;
    delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
    -- Never later than it was to end already.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'before', known - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

create or replace function private.describe_app(app_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'kind', a.kind,
    'enabled', a.enabled,
    'scopes', a.scopes,
    'logoutUrl', a.backchannel_logout_uri,
    'origins', coalesce(
      (select jsonb_agg(o.origin order by o.origin) from private.app_origins o where o.app_id = a.id), '[]'
    ),
    'workspaces', coalesce((
      select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id) l
    ), '[]'),
    'secrets', coalesce((
      select jsonb_agg(
        jsonb_build_object('createdAt', s.created_at, 'expiresAt', s.expires_at) order by s.created_at desc, s.id
      )
      from private.app_secrets s
      where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
    ), '[]'),
    'createdAt', a.created_at
  )
  from private.apps a
  where a.id = describe_app.app_id
$$;

-- Definer: asks the identity backend's tables and the rule of required MFA, which the service role may not.
create or replace function private.open_openid_authorization(
  client_id text, redirect_uri text, scopes text[], claims jsonb default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  granted text[];
begin
  select * into app from private.apps a where a.name = open_openid_authorization.client_id and a.kind = 'openid';
  if not found then
    return null;
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  granted := private.openid_scopes(app.id, open_openid_authorization.scopes);
  -- Claims of nobody name no session.
  select * into proved from private.session_proof(coalesce(open_openid_authorization.claims, '{}'));
  return jsonb_build_object(
    'client', jsonb_build_object('name', app.name, 'displayName', app.display_name, 'enabled', app.enabled),
    'redirectAllowed', private.is_openid_redirect_uri(client, open_openid_authorization.redirect_uri),
    'scopes', to_jsonb(granted),
    'session', case when proved.refused is null then jsonb_build_object(
      'authTime', floor(extract(epoch from (
        private.openid_authentication_of(open_openid_authorization.claims, proved.proof, proved.valid_until is not null)
      ).auth_time))::bigint,
      'consented', private.has_openid_consent(
        (proved.proof).user_id, client, granted, open_openid_authorization.redirect_uri
      )
    ) end
  );
end
$$;

-- Definer: as open_openid_authorization.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  authentication private.openid_authentication;
  granted text[];
begin
  -- Held, so that turning the app off waits for this code and revokes it, or is waited for. Apps are locked before
  -- accounts.
  select * into app
  from private.apps a
  where a.name = issue_authorization_code.client_id and a.kind = 'openid' and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(issue_authorization_code.claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  -- A session that may only replace its password gets nothing else.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, proved.proof, proved.valid_until is not null
  );
  if authenticated_since is not null
    and (extract(epoch from authentication.auth_time) >= authenticated_since) is not true then
    return jsonb_build_object('refused', 'login_required');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, scopes)
    values ((proved.proof).user_id, app.id, granted)
    on conflict (user_id, app_id) do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
  elsif not private.has_openid_consent(
    (proved.proof).user_id, client, granted, issue_authorization_code.redirect_uri
  ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, (proved.proof).user_id, proved.proof, proved.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

create or replace function private.openid_authentication_of(claims jsonb, proof private.mfa_proof, by_approval boolean)
  returns private.openid_authentication
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select row(
    to_timestamp(greatest(proof.primary_second, proof.second_factor_second)),
    case when proof.second_factor_second is null then 'aal1' else 'aal2' end,
    array(
      select distinct m.value
      from (
        -- The identity backend's `otp` is a mailed code, a mailed link or a phone's approval, and the registry has no
        -- value for an identity provider.
        select case e.entry ->> 'method' when 'password' then 'pwd' when 'passkey' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        union all
        select case e.entry ->> 'method' when 'totp' then 'otp' when 'mfa/phone' then 'sms' when 'mfa/webauthn' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        where proof.second_factor_second is not null and not by_approval
        union all
        select case when by_approval then 'mca' end
        union all
        select case when proof.second_factor_second is not null then 'mfa' end
      ) as m (value)
      where m.value is not null
      order by m.value
    )
  )::private.openid_authentication
$$;

create or replace function private.openid_scopes(app_id uuid, requested text[]) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array(
    select unnest(requested)
    intersect
    select unnest(
      array['openid', 'offline_access']
      || case when 'profile' = any (a.scopes) then array['profile', 'email'] else '{}' end
      || array(select unnest(a.scopes) intersect select unnest(array['workspaces:read', 'workspaces:write', 'studio:read']))
    )
    from private.apps a
    where a.id = openid_scopes.app_id
    order by 1
  )
$$;

create or replace function private.loopback_without_port(uri text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case
    when uri ~ '^http://(127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/|$)'
      then regexp_replace(uri, '^(http://(127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?', '\1')
  end
$$;

create or replace function private.is_loopback_redirect(uri text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select uri ~ '^https?://(localhost|([a-z0-9-]+\.)+localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/|\?|$)'
$$;

create or replace function private.authenticate_openid_client(client_id text, secret_hash bytea)
  returns table (id uuid, name text, scopes text[], is_public boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.id, a.name, a.scopes, c.is_public
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.name = authenticate_openid_client.client_id
    and a.kind = 'openid'
    and a.enabled
    and case
      when c.is_public then authenticate_openid_client.secret_hash is null
      else exists (
        select
        from private.app_secrets s
        where s.app_id = a.id
          and s.secret_hash = authenticate_openid_client.secret_hash
          and (s.expires_at is null or s.expires_at > now())
      )
    end
$$;

create or replace function private.describe_openid_client(app_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'enabled', a.enabled,
    'isPublic', c.is_public,
    'scopes', a.scopes,
    'redirectUris', c.redirect_uris,
    'postLogoutRedirectUris', c.post_logout_redirect_uris,
    'logoutUrl', a.backchannel_logout_uri,
    'allowsDeviceGrant', c.allows_device_grant,
    'secrets', coalesce((
      select jsonb_agg(
        jsonb_build_object('createdAt', s.created_at, 'expiresAt', s.expires_at) order by s.created_at desc, s.id
      )
      from private.app_secrets s
      where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
    ), '[]'),
    'createdAt', a.created_at
  )
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.id = describe_openid_client.app_id and a.kind = 'openid'
$$;

create or replace function private.list_openid_clients(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(private.describe_openid_client(p.id) order by p.name), '[]')
  from (
    select a.id, a.name
    from private.apps a
    where a.kind = 'openid'
      and (strpos(a.name, lower(term)) > 0 or strpos(lower(a.display_name), lower(term)) > 0)
      and (after is null or a.name > after)
    order by a.name
    limit page_size
  ) as p
$$;

create or replace function private.add_openid_client(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  is_public boolean := (change ->> 'isPublic')::boolean;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if is_public is distinct from (change ->> 'secretHash' is null) then
    raise exception 'a confidential client has a secret, a public client has none' using errcode = 'check_violation';
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', 'openid',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.openid_clients (
      app_id, is_public, redirect_uris, post_logout_redirect_uris, allows_device_grant
    )
    values (
      app.id, is_public, array(select jsonb_array_elements_text(change -> 'redirectUris')),
      array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris')),
      (change ->> 'allowsDeviceGrant')::boolean
    );
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  if not is_public then
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

create or replace function private.change_openid_client(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  known jsonb;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' and a.kind = 'openid' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if change ? 'version' and private.app_version(app.name)::text is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;
  known := private.describe_openid_client(app.id);
  begin
    update private.apps a
    set
      display_name = coalesce(change ->> 'displayName', a.display_name),
      scopes = case
        when change ? 'scopes' then array(select jsonb_array_elements_text(change -> 'scopes')) else a.scopes
      end,
      backchannel_logout_uri = case
        when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
      end
    where a.id = app.id;
    update private.openid_clients c
    set
      redirect_uris = case
        when change ? 'redirectUris' then array(select jsonb_array_elements_text(change -> 'redirectUris'))
        else c.redirect_uris
      end,
      post_logout_redirect_uris = case
        when change ? 'postLogoutRedirectUris'
          then array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris'))
        else c.post_logout_redirect_uris
      end,
      allows_device_grant = coalesce((change ->> 'allowsDeviceGrant')::boolean, c.allows_device_grant)
    where c.app_id = app.id;
  exception
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.edit', 'target', 'app ' || app.name, 'before', known,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

create or replace function private.set_app_logout_url(
  app_name text, logout_url text, reason text, actor uuid default null
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  update private.apps a set backchannel_logout_uri = logout_url where a.name = app_name returning * into app;
  if not found then
    return false;
  end if;
  perform private.record_app_change(app, 'app.edit', reason, actor);
  return true;
end
$$;

create or replace function private.may_change_apps(change jsonb) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select change ->> 'actor' is null
    or exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid)
$$;

create or replace function private.app_version(app_name text) returns uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select l.id
  from private.admin_audit_log l
  where l.target = 'app ' || app_name
  order by l.created_at desc, l.id desc
  limit 1
$$;

-- Definer: clients' secrets are granted to nobody.
create or replace function private.begin_device_authorization(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
  user_codes text[],
  scopes text[],
  address inet,
  user_agent text,
  place text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  bucket record;
  wait interval;
  granted text[];
  candidate text;
  begun private.device_authorizations;
begin
  select a.id into client
  from private.authenticate_openid_client(begin_device_authorization.client_id, begin_device_authorization.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  if not private.allows_device_grant(client.id) then
    return jsonb_build_object('refused', 'unauthorized_client');
  end if;
  granted := private.openid_scopes(client.id, begin_device_authorization.scopes);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  select b.* into strict bucket
  from private.attempt_buckets('device_authorization', null, private.address_network(begin_device_authorization.address)) b;
  wait := private.consume_attempt(bucket.subject, 'device_authorization', bucket.scope, bucket.step, bucket.per);
  if wait is not null then
    return jsonb_build_object('refused', 'limited', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer);
  end if;

  foreach candidate in array user_codes loop
    insert into private.device_authorizations as d
      (device_code_hash, user_code, app_id, scopes, ip, user_agent, place, expires_at)
    values (
      begin_device_authorization.device_code_hash,
      candidate,
      client.id,
      granted,
      begin_device_authorization.address,
      nullif(begin_device_authorization.user_agent, ''),
      case when begin_device_authorization.place is not null
        then jsonb_build_object('name', begin_device_authorization.place)
      end,
      now() + interval '10 minutes'
    )
    on conflict (user_code) do nothing
    returning d.* into begun;
    exit when begun.id is not null;
  end loop;
  if begun.id is null then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  return jsonb_build_object(
    'userCode', begun.user_code,
    'expiresInSeconds', extract(epoch from begun.expires_at - begun.created_at)::integer,
    'intervalSeconds', begun.interval_seconds
  );
end
$$;

create or replace function private.allows_device_grant(client_app_id uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from private.openid_clients c
    join private.apps a on a.id = c.app_id
    where c.app_id = client_app_id and c.allows_device_grant and a.enabled
  )
$$;

create or replace function private.device_authorization_state(request private.device_authorizations) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when request.denied_at is not null then 'denied'
    when request.approved_at is not null then 'approved'
    when request.expires_at <= now() then 'expired'
    when not private.allows_device_grant(request.app_id) then 'expired'
    else 'pending'
  end
$$;

-- Definer: registrations of clients are granted to nobody.
create or replace function private.read_device_authorization(user_code text, reader_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'userCode', d.user_code,
    -- Another person's answer is not shown.
    'state', case when d.user_id <> reader_id then 'expired' else private.device_authorization_state(d) end,
    'app', jsonb_build_object('name', a.name, 'displayName', a.display_name),
    'scopes', to_jsonb(d.scopes),
    'userAgent', coalesce(d.user_agent, ''),
    'address', host(d.ip),
    'place', d.place ->> 'name',
    'createdAt', d.created_at,
    'expiresAt', d.expires_at
  )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id
  where d.user_code = read_device_authorization.user_code
$$;

-- Definer: asks the identity backend's tables what the session has proved.
create or replace function private.decide_device_authorization(
  user_code text,
  claims jsonb,
  approve boolean,
  event jsonb default null
) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  proved record;
  request private.device_authorizations;
  state text;
begin
  -- Before anything is read, so that a new password waits for this approval and ends it, or is waited for.
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(decide_device_authorization.claims);
  if proved.refused is not null then
    return proved.refused;
  end if;
  -- A session that may only replace its password approves nothing.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
    return 'unauthenticated';
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.user_code = decide_device_authorization.user_code
  for no key update;
  if not found then
    return 'not_found';
  end if;
  state := private.device_authorization_state(request);
  if state <> 'pending' then
    return case state when 'expired' then 'expired' else 'conflict' end;
  end if;
  if not approve then
    update private.device_authorizations d set denied_at = now() where d.id = request.id;
    return 'denied';
  end if;
  update private.device_authorizations d
  set approved_at = now(),
      user_id = (proved.proof).user_id,
      -- The login outlives the sign-out of the browser or phone that approves it.
      proof = row(
        (proved.proof).user_id,
        null,
        (proved.proof).factor_id,
        (proved.proof).second_factor_second,
        (proved.proof).primary_second,
        (proved.proof).generation
      )::private.mfa_proof,
      valid_until = proved.valid_until,
      authentication = private.openid_authentication_of(
        decide_device_authorization.claims, proved.proof, proved.valid_until is not null
      )
  where d.id = request.id;
  perform private.record_security_event(event || jsonb_build_object('userId', (proved.proof).user_id));
  return 'approved';
end
$$;

-- Definer: clients' secrets and proofs are granted to nobody.
create or replace function private.redeem_device_code(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  request private.device_authorizations;
  login private.openid_grants;
  locked_user uuid;
  standing text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_device_code.client_id, redeem_device_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select d.user_id into locked_user
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  -- Turning the client off waits for these tokens and revokes them, or is waited for. Apps are locked before accounts.
  perform from private.apps a where a.id = client.id for share;
  if locked_user is not null then
    perform private.lock_app_credentials(locked_user);
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id
  for no key update;
  if not found or request.redeemed_at is not null then
    return jsonb_build_object('refused', 'token');
  end if;
  if not private.allows_device_grant(client.id) then
    return jsonb_build_object('refused', 'unauthorized_client');
  end if;
  if request.denied_at is not null then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  if request.expires_at <= now() then
    return jsonb_build_object('refused', 'expired_token');
  end if;
  if request.polled_at + make_interval(secs => request.interval_seconds) > now() then
    update private.device_authorizations d
    set polled_at = now(), interval_seconds = least(60, d.interval_seconds + 5)
    where d.id = request.id;
    return jsonb_build_object('refused', 'slow_down');
  end if;
  update private.device_authorizations d set polled_at = now() where d.id = request.id;
  -- Approved since the account was looked up, so the account is not locked yet: the next poll redeems it.
  if request.approved_at is null or locked_user is null then
    return jsonb_build_object('refused', 'authorization_pending');
  end if;

  perform private.hold_proof(request.proof);
  standing := private.proof_status(request.proof);
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or request.valid_until <= now() then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  update private.device_authorizations d set redeemed_at = now() where d.id = request.id;
  login.source_id := request.id;
  login.app_id := request.app_id;
  login.user_id := request.user_id;
  login.proof := request.proof;
  login.authentication := request.authentication;
  login.scopes := request.scopes;
  login.ends_at := request.valid_until;
  return private.issue_openid_tokens(login, redeem_device_code.access_hash, redeem_device_code.refresh_hash);
end
$$;

create or replace function private.is_proof_intact(proof private.mfa_proof) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from auth.users u
    where u.id = proof.user_id
      and proof.generation is not distinct from private.required_mfa_generation(u.raw_app_meta_data)
      and (
        proof.session_id is null
        or exists (select from auth.sessions s where s.id = proof.session_id and s.user_id = u.id)
      )
      and (
        proof.factor_id is null
        or exists (
          select from auth.mfa_factors f where f.id = proof.factor_id and f.user_id = u.id and f.status = 'verified'
        )
      )
  )
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.queue_logouts_before_change() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  outcome record := case tg_op when 'DELETE' then old else new end;
begin
  case tg_table_name
    when 'sessions' then perform private.queue_logouts(old.user_id, session_id => old.id);
    when 'mfa_factors' then perform private.queue_logouts(old.user_id, factor_id => old.id);
    else perform private.queue_logouts(old.id);
  end case;
  return outcome;
exception when others then
  raise warning 'a logout notice was not queued: % %', sqlstate, sqlerrm;
  return outcome;
end
$$;

-- Definer: reads Supabase Auth's tables.
create or replace function private.queue_revoked_login() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  insert into private.logout_notices (app_id, user_id, sid)
  select a.id, new.user_id, (to_jsonb(new) ->> tg_argv[0])::uuid
  from private.apps a
  where a.id = new.app_id and a.backchannel_logout_uri is not null and private.is_proof_intact(new.proof);
  return null;
end
$$;

create or replace trigger queue_revoked_login after update of revoked_at on private.app_sessions
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.audience = 'app' and new.expires_at > now())
  execute function private.queue_revoked_login('handoff_id');

create or replace trigger queue_revoked_login after update of revoked_at on private.openid_grants
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.ends_at > now())
  execute function private.queue_revoked_login('id');

create or replace function private.withdraw_logout(ended_sid uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from private.logout_notices n where n.sid = ended_sid
$$;

create or replace function private.hold_proof(proof private.mfa_proof) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform private.lock_app_credentials(proof.user_id);
  perform from auth.sessions s where s.id = proof.session_id for key share;
  perform from auth.mfa_factors f where f.id = proof.factor_id for key share;
end
$$;

create or replace function private.claim_logout_notices(max_notices integer)
  returns table (id uuid, app text, uri text, user_id uuid, sid uuid, attempts smallint, is_last boolean)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with unneeded as (
    delete from private.logout_notices n
    using private.apps a
    where n.next_attempt_at <= now()
      and a.id = n.app_id
      and (
        a.backchannel_logout_uri is null
        or exists (select from private.logout_notices o where o.sid = n.sid and o.id < n.id)
      )
  ), claimed as (
    update private.logout_notices n
    set
      attempts = n.attempts + 1,
      next_attempt_at = now() + case n.attempts
        when 0 then interval '5 seconds'
        when 1 then interval '30 seconds'
        when 2 then interval '2 minutes'
        when 3 then interval '10 minutes'
        else interval '1 hour'
      end
    -- An array is read once. A join could run the limited query more often than that.
    where n.id = any (array(
      select due.id
      from private.logout_notices due
      join (
        select w.id, row_number() over (partition by w.app_id order by w.next_attempt_at) as turn
        from private.logout_notices w
        join private.apps a on a.id = w.app_id and a.backchannel_logout_uri is not null
        where w.next_attempt_at <= now()
          and not exists (select from private.logout_notices o where o.sid = w.sid and o.id < w.id)
      ) waiting on waiting.id = due.id
      -- Again, since another caller may have claimed it in between.
      where due.next_attempt_at <= now()
      -- In turns, so that an app that does not answer cannot delay the notices of others.
      order by waiting.turn, due.next_attempt_at
      limit max_notices
      for update of due skip locked
    ))
    returning n.*
  )
  select
    c.id, a.name, a.backchannel_logout_uri, c.user_id, c.sid, c.attempts, c.created_at <= now() - interval '1 day'
  from claimed c
  join private.apps a on a.id = c.app_id
$$;

-- Definer: logins are granted to nobody.
create or replace function private.read_openid_logout(
  client_id text, post_logout_redirect_uri text, sid uuid, session_id uuid
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'displayName', a.display_name,
    'redirectAllowed', a.enabled and exists (
      select
      from unnest(c.post_logout_redirect_uris) as r (uri)
      where r.uri = read_openid_logout.post_logout_redirect_uri
    ),
    'ofSession', exists (
      select
      from private.openid_grants g
      where g.id = read_openid_logout.sid
        and g.app_id = a.id
        and (g.proof).session_id = read_openid_logout.session_id
    )
  )
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.name = read_openid_logout.client_id and a.kind = 'openid'
$$;

-- Definer: as read_openid_logout.
create or replace function private.end_openid_login(user_id uuid, sid uuid) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  perform private.lock_app_credentials(end_openid_login.user_id);
  update private.openid_grants g
  set revoked_at = now()
  where g.id = end_openid_login.sid and g.user_id = end_openid_login.user_id and g.revoked_at is null;
  return found;
end
$$;

create or replace function private.current_signing_key() returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select k.kid
  from private.signing_keys k
  where k.signs_from <= clock_timestamp()
  order by k.signs_from desc, k.kid
  limit 1
$$;

create or replace function private.replace_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text, replaces text default null
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  from_time timestamptz;
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if private.current_signing_key() is distinct from replaces then
    return false;
  end if;
  from_time := clock_timestamp();
  -- A key that has yet to sign could take over from this one, and may not open either.
  delete from private.signing_keys k where k.signs_from > from_time;
  -- Servers that do not share a secret replace each other's keys: the published set stays small.
  delete from private.signing_keys k
  where k.kid not in (select n.kid from private.signing_keys n order by n.signs_from desc limit 5);
  update private.signing_keys k
  set retires_at = from_time + interval '1 day'
  where k.retires_at is null or k.retires_at > from_time + interval '1 day';
  insert into private.signing_keys (kid, public_jwk, sealed_private_jwk, sealing_key_id, created_at, signs_from)
  values (
    replace_signing_key.kid, replace_signing_key.public_jwk, replace_signing_key.sealed_private_jwk,
    replace_signing_key.sealing_key_id, from_time, from_time
  );
  return true;
end
$$;

create or replace function private.signing_key_is_due() returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(max(k.signs_from) <= now() - interval '89 days', false) from private.signing_keys k
$$;

create or replace function private.add_next_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  takes_over_at timestamptz := now() + interval '1 day';
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if not private.signing_key_is_due() then
    return false;
  end if;
  update private.signing_keys k
  set retires_at = takes_over_at + interval '1 day'
  where k.retires_at is null;
  insert into private.signing_keys (kid, public_jwk, sealed_private_jwk, sealing_key_id, signs_from)
  values (
    add_next_signing_key.kid, add_next_signing_key.public_jwk, add_next_signing_key.sealed_private_jwk,
    add_next_signing_key.sealing_key_id, takes_over_at
  );
  return true;
end
$$;

create or replace function private.reseal_signing_key(
  kid text, sealed_private_jwk text, sealing_key_id text, expected_sealing_key_id text
) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with resealed as (
    update private.signing_keys k
    set sealed_private_jwk = reseal_signing_key.sealed_private_jwk, sealing_key_id = reseal_signing_key.sealing_key_id
    where k.kid = reseal_signing_key.kid and k.sealing_key_id = reseal_signing_key.expected_sealing_key_id
    returning 1
  )
  select exists (select from resealed)
$$;

create or replace function private.delete_retired_signing_keys() returns integer
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with deleted as (
    delete from private.signing_keys k where k.retires_at <= now() returning 1
  )
  select count(*)::integer from deleted
$$;

create or replace function private.issue_openid_tokens(login private.openid_grants, access_hash bytea, refresh_hash bytea)
  returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  opened private.openid_grants;
begin
  insert into private.openid_grants as g (source_id, app_id, user_id, proof, authentication, scopes, nonce, ends_at)
  values (
    login.source_id, login.app_id, login.user_id, login.proof, login.authentication, login.scopes, login.nonce,
    least(now() + interval '30 days', login.ends_at)
  )
  returning g.* into opened;
  return private.add_openid_tokens(opened, opened.scopes, issue_openid_tokens.access_hash, issue_openid_tokens.refresh_hash)
    || jsonb_build_object('nonce', opened.nonce);
end
$$;

create or replace function private.describe_openid_tokens(login private.openid_grants, token private.openid_tokens)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'sid', login.id,
    'sub', login.user_id,
    'clientId', a.name,
    'scopes', to_jsonb(token.scopes),
    'authTime', floor(extract(epoch from (login.authentication).auth_time))::bigint,
    'acr', (login.authentication).acr,
    'amr', to_jsonb((login.authentication).amr),
    'issuedAt', floor(extract(epoch from token.created_at))::bigint,
    'expiresAt', floor(extract(epoch from token.access_expires_at))::bigint,
    'refreshable', token.refresh_hash is not null
  )
  from private.apps a
  where a.id = login.app_id
$$;

-- Definer: clients' secrets and proofs are granted to nobody.
create or replace function private.redeem_authorization_code(
  client_id text,
  secret_hash bytea,
  code_hash bytea,
  redirect_uri text,
  code_challenge text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  code private.authorization_codes;
  login private.openid_grants;
  standing text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_authorization_code.client_id, redeem_authorization_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(c.user_id)
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id;
  select * into code
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id
  for update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if code.redeemed_at is not null then
    -- RFC 6749 section 4.1.2: one of the two users is not the client.
    update private.openid_grants g set revoked_at = now() where g.source_id = code.id and g.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  if code.revoked_at is not null
    or code.expires_at <= now()
    or code.valid_until <= now()
    or code.redirect_uri <> coalesce(redeem_authorization_code.redirect_uri, '')
    or code.code_challenge <> coalesce(redeem_authorization_code.code_challenge, '') then
    return jsonb_build_object('refused', 'token');
  end if;
  perform private.hold_proof(code.proof);
  standing := private.proof_status(code.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  update private.authorization_codes c set redeemed_at = now() where c.id = code.id;
  login.source_id := code.id;
  login.app_id := code.app_id;
  login.user_id := code.user_id;
  login.proof := code.proof;
  login.authentication := code.authentication;
  login.scopes := code.scopes;
  login.nonce := code.nonce;
  login.ends_at := code.valid_until;
  return private.issue_openid_tokens(login, redeem_authorization_code.access_hash, redeem_authorization_code.refresh_hash);
end
$$;

-- Definer: as redeem_authorization_code.
create or replace function private.refresh_openid_tokens(
  client_id text,
  secret_hash bytea,
  refresh_hash bytea,
  scopes text[],
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  login private.openid_grants;
  token private.openid_tokens;
  granted text[];
  standing text;
begin
  select a.id into client
  from private.authenticate_openid_client(refresh_openid_tokens.client_id, refresh_openid_tokens.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where t.refresh_hash = refresh_openid_tokens.refresh_hash and g.app_id = client.id;
  select t.* into token from private.openid_tokens t where t.refresh_hash = refresh_openid_tokens.refresh_hash for update;
  select g.* into login
  from private.openid_grants g
  where g.id = token.grant_id and g.app_id = client.id and g.revoked_at is null and g.ends_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Used again after its grace: one of the two users is not the client (RFC 9700 section 4.14.2).
    update private.openid_grants g set revoked_at = now() where g.id = login.id;
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(login.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  granted := private.openid_scopes(client.id, login.scopes);
  if not coalesce(refresh_openid_tokens.scopes, granted) <@ granted or cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if token.refreshed_at is not null then
    -- A concurrent caller within the grace receives the same successor.
    return coalesce(
      (
        select private.describe_openid_tokens(login, t)
        from private.openid_tokens t
        where t.access_hash = refresh_openid_tokens.access_hash and t.refresh_hash = successor_hash
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update private.openid_tokens t set refreshed_at = now() where t.id = token.id;
  return private.add_openid_tokens(
    login, coalesce(refresh_openid_tokens.scopes, granted), refresh_openid_tokens.access_hash, successor_hash
  );
end
$$;

create or replace function private.live_openid_token(access_hash bytea)
  returns table (login private.openid_grants, token private.openid_tokens, scopes text[])
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select g, t, private.openid_scopes(a.id, t.scopes)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  join private.apps a on a.id = g.app_id and a.enabled
  where t.access_hash = live_openid_token.access_hash
    and t.access_expires_at > now()
    and g.revoked_at is null
    and g.ends_at > now()
$$;

-- Definer: proofs are granted to nobody, and the identity backend's tables are not the service role's.
create or replace function private.read_openid_userinfo(access_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  held record;
  standing text;
begin
  select (l.login).user_id, (l.login).proof, l.scopes into held
  from private.live_openid_token(read_openid_userinfo.access_hash) l;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(held.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if not 'openid' = any (held.scopes) then
    return jsonb_build_object('refused', 'scope');
  end if;
  return (
    select jsonb_strip_nulls(
      jsonb_build_object('sub', u.id)
      || case when 'profile' = any (held.scopes)
        then jsonb_build_object('name', p.display_name, 'picture', p.avatar_url)
        else '{}'
      end
      || case when 'email' = any (held.scopes) and u.email is not null
        then jsonb_build_object('email', u.email, 'email_verified', u.email_confirmed_at is not null)
        else '{}'
      end
    )
    from auth.users u
    left join public.profiles p on p.id = u.id
    where u.id = held.user_id
  );
end
$$;

-- Definer: as read_openid_userinfo.
create or replace function private.introspect_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  client record;
  held record;
  standing text;
begin
  select a.id, a.is_public into client
  from private.authenticate_openid_client(introspect_openid_token.client_id, introspect_openid_token.secret_hash) a;
  if not found or client.is_public then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select f.* into held
  from (
    select l.login, l.token, l.scopes, (l.token).access_expires_at as expires_at, true as is_access
    from private.live_openid_token(introspect_openid_token.token_hash) l
    union all
    select g, t, private.openid_scopes(g.app_id, g.scopes), g.ends_at, false
    from private.openid_tokens t
    join private.openid_grants g on g.id = t.grant_id
    where t.refresh_hash = introspect_openid_token.token_hash
      and t.refreshed_at is null
      and g.revoked_at is null
      and g.ends_at > now()
  ) as f
  where (f.login).app_id = client.id;
  if not found then
    return jsonb_build_object('active', false);
  end if;
  standing := private.proof_status((held.login).proof);
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  return jsonb_build_object(
    'active', true,
    'isAccess', held.is_access,
    'sub', (held.login).user_id,
    'sid', (held.login).id,
    'scopes', to_jsonb(held.scopes),
    'issuedAt', floor(extract(epoch from (held.token).created_at))::bigint,
    'expiresAt', floor(extract(epoch from held.expires_at))::bigint
  );
end
$$;

-- Definer: as redeem_authorization_code.
create or replace function private.revoke_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  revoked_id uuid;
begin
  select a.id into client
  from private.authenticate_openid_client(revoke_openid_token.client_id, revoke_openid_token.secret_hash) a;
  if not found then
    return false;
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where revoke_openid_token.token_hash in (t.access_hash, t.refresh_hash) and g.app_id = client.id;
  update private.openid_tokens t
  set access_expires_at = now()
  from private.openid_grants g
  where t.access_hash = revoke_openid_token.token_hash
    and t.access_expires_at > now()
    and g.id = t.grant_id
    and g.app_id = client.id;
  update private.openid_grants g
  set revoked_at = now()
  from private.openid_tokens t
  where t.refresh_hash = revoke_openid_token.token_hash
    and t.grant_id = g.id
    and g.app_id = client.id
    and g.revoked_at is null
  returning g.id into revoked_id;
  perform private.withdraw_logout(revoked_id);
  return true;
end
$$;

-- Definer: asks what is granted to nobody, of the identity backend's tables and of the registry.
create or replace function private.connected_apps(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with sessions as (
    select
      s.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(s.created_at),
        'renewedAt', max(s.issued_at),
        'endsAt', max(s.ends_at)
      ) as held
    from private.app_sessions s
    left join lateral unnest(private.effective_scopes(s)) as g (scope) on true
    where s.user_id = subject_id
      and s.revoked_at is null
      and s.expires_at > now()
      and s.ends_at > now()
      and private.proof_status(s.proof) <> 'over'
    group by s.app_id
  ),
  tokens as (
    select
      t.app_id,
      t.workspace_id,
      jsonb_build_object(
        'workspace', max(w.name),
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(t.handed_over_at),
        'renewedAt', max(t.created_at),
        'endsAt', max(e.ends_at)
      ) as held
    from ai.app_tokens t
    join private.apps a on a.id = t.app_id
    -- Its refresh token's end, until that was used: from then on its successor has a line of its own.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- Where the gateway refuses the token, it may do nothing; and who has left a workspace learns no name of it.
    left join public.workspaces w on w.id = t.workspace_id
      and private.app_can_act_in_workspace(a, w.id)
      and private.is_workspace_member(subject_id, w.id)
    left join lateral unnest(t.scopes) as g (scope) on w.id is not null and g.scope = any (private.gateway_scopes(a))
    where t.user_id = subject_id
      and t.revoked_at is null
      and e.ends_at > now()
      and private.proof_status(t.proof) <> 'over'
    group by t.app_id, t.workspace_id
  ),
  logins as (
    select
      l.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(l.created_at),
        'renewedAt', max(coalesce(t.created_at, l.created_at)),
        'endsAt', max(l.ends_at)
      ) as held
    from private.openid_grants l
    left join private.openid_tokens t on t.grant_id = l.id
    left join lateral unnest(private.openid_scopes(l.app_id, l.scopes)) as g (scope) on true
    where l.user_id = subject_id
      and l.revoked_at is null
      and l.ends_at > now()
      and private.proof_status(l.proof) <> 'over'
    group by l.app_id
  ),
  consents as (
    select
      c.app_id,
      jsonb_build_object('scopes', private.openid_scopes(c.app_id, c.scopes), 'grantedAt', c.granted_at) as held
    from private.openid_consents c
    join private.apps a on a.id = c.app_id and a.enabled
    where c.user_id = subject_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'name', a.name,
    'displayName', a.display_name,
    'origins', (
      select coalesce(jsonb_agg(o.origin order by o.origin), '[]') from private.app_origins o where o.app_id = a.id
    ),
    'session', s.held,
    'login', l.held,
    'consent', c.held,
    'tokens', (
      select coalesce(jsonb_agg(t.held order by t.held ->> 'workspace', t.workspace_id), '[]')
      from tokens t
      where t.app_id = a.id
    )
  ) order by lower(a.display_name), a.name), '[]')
  from private.apps a
  left join sessions s on s.app_id = a.id
  left join logins l on l.app_id = a.id
  left join consents c on c.app_id = a.id
  where coalesce(s.app_id, l.app_id, c.app_id) is not null or exists (select from tokens t where t.app_id = a.id)
$$;

create or replace function private.read_app(app_name text, after text[] default null, page_size integer default 50)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.describe_app(a.id)
    || jsonb_build_object(
      'workspaces', coalesce((
        select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id, after, page_size) l
      ), '[]'),
      'version', private.app_version(a.name)
    )
  from private.apps a
  where a.name = app_name and a.kind <> 'openid'
$$;

create or replace function private.is_openid_redirect_uri(client private.openid_clients, uri text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from unnest(client.redirect_uris) as r (registered)
    where r.registered = uri
      or (client.is_public and private.loopback_without_port(r.registered) = private.loopback_without_port(uri))
  )
$$;

create or replace function private.has_openid_consent(
  user_id uuid, client private.openid_clients, scopes text[], redirect_uri text
) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select not (
      -- Another program of the same computer can pretend to be the client (RFC 8252 section 8.6).
      client.is_public
      and (has_openid_consent.redirect_uri !~ '^https?://' or private.is_loopback_redirect(has_openid_consent.redirect_uri))
    )
    and exists (
      select
      from private.openid_consents c
      where c.user_id = has_openid_consent.user_id
        and c.app_id = client.app_id
        and c.scopes @> has_openid_consent.scopes
    )
$$;

create or replace function private.read_openid_client(client_id text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.describe_openid_client(a.id) || jsonb_build_object('version', private.app_version(a.name))
  from private.apps a
  where a.name = client_id and a.kind = 'openid'
$$;

create or replace function private.queue_logouts(
  subject_id uuid, session_id uuid default null, factor_id uuid default null
) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.logout_notices (app_id, user_id, sid)
  select l.app_id, subject_id, l.sid
  from (
    select s.app_id, s.handoff_id as sid, s.proof
    from private.app_sessions s
    where s.user_id = subject_id and s.audience = 'app' and s.revoked_at is null and s.expires_at > now()
    union all
    select g.app_id, g.id, g.proof
    from private.openid_grants g
    where g.user_id = subject_id and g.revoked_at is null and g.ends_at > now()
  ) as l
  join private.apps a on a.id = l.app_id
  where a.backchannel_logout_uri is not null
    and (queue_logouts.session_id is null or (l.proof).session_id = queue_logouts.session_id)
    and (queue_logouts.factor_id is null or (l.proof).factor_id = queue_logouts.factor_id)
    and private.is_proof_intact(l.proof)
$$;

create or replace function private.read_signing_keys() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'kid', k.kid,
      'publicJwk', k.public_jwk,
      'sealedPrivateJwk', k.sealed_private_jwk,
      'sealingKeyId', k.sealing_key_id,
      'signs', k.kid is not distinct from private.current_signing_key()
    )
    order by k.signs_from desc, k.kid
  ), '[]')
  from private.signing_keys k
  where k.retires_at is null or k.retires_at > now()
$$;

create or replace function private.add_openid_tokens(
  login private.openid_grants, scopes text[], access_hash bytea, refresh_hash bytea
) returns jsonb
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.openid_tokens as t (grant_id, scopes, access_hash, access_expires_at, refresh_hash)
  values (
    login.id,
    add_openid_tokens.scopes,
    add_openid_tokens.access_hash,
    least(now() + interval '1 hour', login.ends_at),
    -- The only scope that stands for a refresh token (OpenID Connect Core 1.0 section 11).
    case when 'offline_access' = any (login.scopes) then add_openid_tokens.refresh_hash end
  )
  returning private.describe_openid_tokens(login, t)
$$;

comment on function private.add_app(jsonb) is
  'Registers an app with its first secret: { actor, name, displayName, kind, origins, scopes, logoutUrl, secretHash as '
  'text of a bytea, reason, requestId, ip } → {} or { refused: forbidden | taken (name or origin) | invalid }.';

comment on function private.authenticate_app(text, bytea) is
  'The enabled app that a name and a secret''s SHA-256 stand for; no row for unknown, wrong, expired or disabled: one '
  'answer. OpenID clients are not apps here. For definers; granted to nobody.';

comment on function private.change_app(jsonb) is
  'Changes an app: { actor, name, version (as private.read_app has it), step, reason, requestId, ip } and for edit '
  'displayName, scopes, origins, logoutUrl; an OpenID client is only enabled, disabled and given a new secret by it; for link and unlink workspace; for rotate secretHash as text of a bytea and overlapSeconds; enable '
  'and disable take nothing → {} or { refused: forbidden | not_found | conflict (with last) | taken (an origin) | '
  'invalid | no_workspace }.';

comment on function private.connected_apps(uuid) is
  'Apps that hold live credentials or a consent of a person: [{name, displayName, origins, session, login, consent, '
  'tokens}]. session and login sum up app sessions and logins by OpenID Connect, and each of tokens those for one workspace: '
  '{scopes, connectedAt, renewedAt, endsAt}, with scopes as they are in force now; tokens also have workspace, null if the '
  'gateway refuses the token. consent is {scopes, grantedAt}. All but tokens may be null.';

comment on function private.end_app_of_account(uuid, uuid) is
  'Revokes what one app holds of a user: sessions, tokens, OpenID logins, what is not redeemed yet, and the consent. Returns '
  'how many. For definers; not granted to a role.';

comment on function private.end_apps_of_account(uuid) is
  'Revokes all that apps hold of a user: sessions, tokens, OpenID logins, and handoffs, codes and approvals that are not '
  'redeemed yet. Consents stay. For definers; not granted to a role.';

comment on function private.export_account_part(uuid, text, jsonb, integer) is
  'Returns a page of a list of private.export_account, oldest first: sessions, securityEvents, approvals, workspaces, '
  'invitations, keys, appHandoffs, appSessions, appTokens, openidLogins, openidCodes, deviceLogins, openidConsents or '
  'ledger (of credits). after is the last record of the previous page. Without page_size, returns all records.';

comment on function private.find_app_caller(bytea, text) is
  'The caller by the token of a central session or an OpenID client''s access token: refused is unauthenticated, '
  'mfa_required, unavailable, insufficient_scope or null. For definers; granted to nobody.';

comment on function private.list_apps(text, text, integer) is
  'Returns a page of the registry by name, with the first 50 linked workspaces of each app and without secret hashes. term '
  'is a part of the name or display name. after is the last name of the previous page. Without page_size, returns all apps. '
  'OpenID clients are listed by private.list_openid_clients.';

comment on function private.redeem_cross_app_token is
  'Redeems a token once and opens its sessions: {app, central?}, each {id, handoff, audience, user, factor, issuedAt, expiresAt}; '
  'or {refused: unauthenticated | token | unavailable}. The facts are those of the proof, whose signature the web '
  'server has checked.';

comment on function private.refresh_app_session(text, bytea, bytea, bytea) is
  'Puts the successor in a token''s place, once: {id, handoff, audience, user, factor, issuedAt, expiresAt}, the same to everyone '
  'who asks within 30 s, or {refused: unauthenticated | token | unavailable}. The successor follows from the token by '
  'a key of the web server''s, so that all callers bring the same.';

comment on function private.add_next_signing_key(text, jsonb, text, text) is
  'Publishes the next key, which signs from tomorrow; the one before retires a day later, long after its last token has '
  'expired. False if no key is due.';

comment on function private.add_openid_client(jsonb) is
  'Registers an OpenID client: { actor, name, displayName, isPublic, scopes, redirectUris, postLogoutRedirectUris, logoutUrl, '
  'allowsDeviceGrant, secretHash as text of a bytea or null for a public client, reason, requestId, ip } → {} or { refused: '
  'forbidden | taken | invalid }.';

comment on function private.add_openid_tokens(private.openid_grants, text[], bytea, bytea) is
  'Issues the next tokens of a login and describes them. For definers; granted to nobody.';

comment on function private.allows_device_grant(uuid) is
  'Whether an enabled client is registered for the device grant now. For definers; granted to nobody.';

comment on function private.app_version(text) is 'Returns the version of an app: the last line of the audit log about it.';

comment on function private.authenticate_openid_client(text, bytea) is
  'The enabled OpenID client that an id and a secret''s SHA-256 stand for; a public client has no secret. No row for '
  'unknown, wrong, expired or disabled. For definers; granted to nobody.';

comment on function private.begin_device_authorization(text, bytea, bytea, text[], text[], inet, text, text) is
  'Begins a request with the first user code that is not in use: {userCode, expiresInSeconds, intervalSeconds}, or '
  '{refused: unauthenticated | unauthorized_client | scope (none of them is registered) | limited (with '
  'retryAfterSeconds) | unavailable (all codes in use)}.';

comment on function private.change_openid_client(jsonb) is
  'Changes what is named of an OpenID client: { actor, name, version, displayName, scopes, redirectUris, '
  'postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, reason, requestId, ip } → {} or { refused: forbidden | not_found | '
  'conflict (with last) | invalid }. Without version, any state is changed.';

comment on function private.claim_logout_notices(integer) is
  'Claims notices whose next attempt is due, each for one caller: 5 seconds, 30 seconds, 2 minutes and 10 minutes apart, then '
  'hourly. The first attempt after a day is the last.';

comment on function private.current_signing_key() is 'Returns the kid of the key that signs now, or null before the first one.';

comment on function private.decide_device_authorization(text, jsonb, boolean, jsonb) is
  'A person''s answer by their session''s verified claims, once: approved (with the event in their activity) or denied; '
  'or not_found, expired, conflict (answered already), unauthenticated, mfa_required or unavailable. Whether the session '
  'is fresh is checked before.';

comment on function private.delete_retired_signing_keys() is 'Deletes the keys that are no longer published. Returns how many.';

comment on function private.describe_openid_client(uuid) is
  'Returns an OpenID client as people read it, with the secrets that still work and no hash of any.';

comment on function private.describe_openid_tokens(private.openid_grants, private.openid_tokens) is
  'What a token response and its ID token say: {sid, sub, clientId, scopes, authTime, acr, amr, issuedAt, expiresAt, '
  'refreshable}, times in seconds since 1970.';

comment on function private.device_authorization_state(private.device_authorizations) is
  'pending, approved, denied or expired, as the person sees it. A request of a client that was turned off is expired.';

comment on function private.end_openid_login(uuid, uuid) is
  'Ends a person''s login at an OpenID client. False if it has ended before, or is not theirs.';

comment on function private.has_openid_consent(uuid, private.openid_clients, text[], text) is
  'Whether a person has granted the client all these scopes before. Never for a public client on the person''s own device.';

comment on function private.hold_proof(private.mfa_proof) is
  'Call it before private.proof_status when opening a login. A concurrent sign-out or removal of the factor waits, then '
  'finds the login and queues its notice. For definers; not granted to a role.';

comment on function private.introspect_openid_token(text, bytea, bytea) is
  'What a token is worth now, to the confidential client that holds it (RFC 7662): {active, isAccess, sub, sid, scopes, '
  'issuedAt, expiresAt}, {active: false}, or {refused: unauthenticated | unavailable}.';

comment on function private.is_loopback_redirect(text) is 'Whether a redirect URI leads to the device of the browser.';

comment on function private.is_openid_redirect_uri(private.openid_clients, text) is
  'Whether a redirect URI is registered for the client, as an exact string. On a loopback address, a public client may use '
  'any port (RFC 8252 section 7.3).';

comment on function private.is_proof_intact(private.mfa_proof) is
  'Whether the account, session, factor and policy of a proof are still there. The change that removed one has queued its '
  'notice already. For definers; not granted to a role.';

comment on function private.issue_authorization_code(jsonb, text, text, text[], text, text, bytea, boolean, bigint) is
  'Issues a code for 60 seconds to the session of verified claims: {scopes}, or {refused: client | unauthenticated | '
  'mfa_required | unavailable | login_required | consent_required | scope}. consents: the person has agreed just now, which '
  'is remembered. authenticated_since: the second since which they must have signed in or confirmed it.';

comment on function private.issue_openid_tokens(private.openid_grants, bytea, bytea) is
  'Opens a login and issues its first tokens. login.ends_at may be null, which means 30 days; id and created_at are '
  'ignored. Returns what private.add_openid_tokens returns, with the nonce. For definers; granted to nobody.';

comment on function private.list_openid_clients(text, text, integer) is
  'Returns a page of the OpenID clients by name. term is a part of the name or display name, after the last name of the '
  'previous page. Without page_size, returns all.';

comment on function private.live_openid_token(bytea) is
  'An access token, its login, and the scopes that the registration still allows. Does not check the login''s proof. For '
  'definers; granted to nobody.';

comment on function private.loopback_without_port(text) is 'A loopback redirect URI without its port; null for any other URI.';

comment on function private.may_change_apps(jsonb) is
  'Whether the author of a change is an infrastructure admin, or the command line, which names none.';

comment on function private.open_openid_authorization(text, text, text[], jsonb) is
  'What an authorization request meets, changing nothing: {client: {name, displayName, enabled}, redirectAllowed, scopes, '
  'session: {authTime, consented} | null}, or null for an unknown client. session is null without claims, and where their '
  'session could not be issued a code.';

comment on function private.openid_authentication_of(jsonb, private.mfa_proof, boolean) is
  'The claims auth_time, acr and amr (RFC 8176) of a session: its latest sign-in or second factor. by_approval: the second '
  'factor was proved on a phone.';

comment on function private.openid_scopes(uuid, text[]) is
  'Of the requested scopes those that an OpenID client is registered for; all others are dropped.';

comment on function private.queue_logouts(uuid, uuid, uuid) is
  'Queues a notice for each live login of an account, or for those that depend on a session or factor. Call it before the '
  'change that ends them. For definers; not granted to a role.';

comment on function private.queue_logouts_before_change() is
  'Queues notices for the logins that a change of a session, a factor or an account is about to end.';

comment on function private.queue_revoked_login() is
  'Queues a notice for a login that was revoked. The argument is the column that holds its sid.';

comment on function private.read_device_authorization(text, uuid) is
  'A request as a page or a phone shows it: {userCode, state: pending | approved | denied | expired, app, scopes, '
  'userAgent, address, place, createdAt, expiresAt}; null for an unknown code. To be called within the limits on guesses.';

comment on function private.read_openid_client(text) is
  'Returns an OpenID client with its version, or null. A change names the version that its author saw.';

comment on function private.read_openid_logout(text, text, uuid, uuid) is
  'What a sign-out at a client''s wish meets: {displayName, redirectAllowed, ofSession}, or null for an unknown client. '
  'ofSession: the login of the ID token came of this very session.';

comment on function private.read_openid_userinfo(bytea) is
  'The claims that an access token opens (OpenID Connect Core 1.0 section 5.3), or {refused: token | scope | unavailable}.';

comment on function private.read_signing_keys() is
  'Returns the published keys, the newest first: [{kid, publicJwk, sealedPrivateJwk, sealingKeyId, signs}]. One at most signs.';

comment on function private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea) is
  'Redeems an authorization code once: what private.issue_openid_tokens returns, or {refused: unauthenticated | token | '
  'unavailable}. code_challenge is what the verifier hashes to. A second use revokes the login of the first.';

comment on function private.redeem_device_code(text, bytea, bytea, bytea, bytea) is
  'A device''s poll, which redeems an approved request once: what private.issue_openid_tokens returns, or {refused: '
  'authorization_pending | slow_down (the interval grew by 5 s) | access_denied | expired_token | token (unknown, another '
  'client''s or redeemed) | unauthenticated | unauthorized_client | unavailable}.';

comment on function private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea) is
  'Uses a refresh token once for its successor: what private.add_openid_tokens returns, the same for all callers within '
  '30 seconds; a later use revokes the login. Or {refused: unauthenticated | token | scope | unavailable}. scopes may '
  'narrow those of the login for this access token. The successor is derived from the token by a key of the web server.';

comment on function private.replace_signing_key(text, jsonb, text, text, text) is
  'Adds a key that signs from now on: the first one, or one in place of a key that cannot be opened (replaces). Earlier keys '
  'stay published for a day. False if another caller was first.';

comment on function private.reseal_signing_key(text, text, text, text) is
  'Keeps a private key sealed by the current secret in place of an earlier one''s. False if it is sealed otherwise by now.';

comment on function private.revoke_openid_token(text, bytea, bytea) is
  'Revokes an access token, or with a refresh token its login; does nothing for a token of another client (RFC 7009). '
  'False if the client did not authenticate.';

comment on function private.session_proof(jsonb) is
  'What the session of verified claims has proved, as one row: refused is unauthenticated, mfa_required, unavailable or '
  'null. valid_until is when a mobile approval that the proof rests on expires, else null. For definers; granted to nobody.';

comment on function private.set_app_logout_url(text, text, text, uuid) is
  'Sets where an app of any kind learns of ended logins; null stops it. False if there is no such app.';

comment on function private.signing_key_is_due() is
  'Whether the next key is to be published: a day before the newest one has signed for 90 days. False before the first key.';

comment on function private.withdraw_logout(uuid) is
  'Removes the notices about a login: the app acknowledged them, refused them for good, or ended the login itself.';

comment on trigger queue_revoked_login on private.app_sessions is
  'Notifies the app. A login that the app ended by its own call is withdrawn by private.withdraw_logout.';

comment on trigger queue_revoked_login on private.openid_grants is
  'Notifies the client. A login that the client ended by its own call is withdrawn by private.withdraw_logout.';

grant execute on function private.add_next_signing_key(text, jsonb, text, text) to service_role;

grant execute on function private.add_openid_client(jsonb) to service_role;

grant execute on function private.app_version(text) to service_role;

grant execute on function private.begin_device_authorization(text, bytea, bytea, text[], text[], inet, text, text) to service_role;

grant execute on function private.change_openid_client(jsonb) to service_role;

grant execute on function private.claim_logout_notices(integer) to service_role;

grant execute on function private.current_signing_key() to service_role;

grant execute on function private.decide_device_authorization(text, jsonb, boolean, jsonb) to service_role;

grant execute on function private.delete_retired_signing_keys() to service_role;

grant execute on function private.describe_openid_client(uuid) to service_role;

grant execute on function private.end_openid_login(uuid, uuid) to service_role;

grant execute on function private.introspect_openid_token(text, bytea, bytea) to service_role;

grant execute on function private.issue_authorization_code(jsonb, text, text, text[], text, text, bytea, boolean, bigint) to service_role;

grant execute on function private.list_openid_clients(text, text, integer) to service_role;

grant execute on function private.may_change_apps(jsonb) to service_role;

grant execute on function private.open_openid_authorization(text, text, text[], jsonb) to service_role;

grant execute on function private.read_device_authorization(text, uuid) to service_role;

grant execute on function private.read_openid_client(text) to service_role;

grant execute on function private.read_openid_logout(text, text, uuid, uuid) to service_role;

grant execute on function private.read_openid_userinfo(bytea) to service_role;

grant execute on function private.read_signing_keys() to service_role;

grant execute on function private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea) to service_role;

grant execute on function private.redeem_device_code(text, bytea, bytea, bytea, bytea) to service_role;

grant execute on function private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea) to service_role;

grant execute on function private.replace_signing_key(text, jsonb, text, text, text) to service_role;

grant execute on function private.reseal_signing_key(text, text, text, text) to service_role;

grant execute on function private.revoke_openid_token(text, bytea, bytea) to service_role;

grant execute on function private.set_app_logout_url(text, text, text, uuid) to service_role;

grant execute on function private.signing_key_is_due() to service_role;

grant execute on function private.withdraw_logout(uuid) to service_role;
