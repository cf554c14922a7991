-- Generated from supabase/schemas by npm run db:migration.

drop function ai.list_runs(uuid, uuid, jsonb, jsonb, integer);

-- Unused since 0.1.0: only other functions called it.
drop function ai.listed_prices(jsonb);

-- Unused since 0.1.0: only other functions called it.
drop function ai.model_listing(ai.models, jsonb);

drop function ai.read_credits(uuid, uuid, timestamp with time zone, timestamp with time zone, bigint, integer);

drop function private.account_access(uuid, uuid);

drop function private.account_sessions(uuid);

-- Unused since 0.1.0: only other functions called it.
drop function private.clear_recovery_sent_at(uuid);

drop function private.delete_expired_attempts();

drop function private.export_account(uuid);

-- Unused since 0.1.0: only other functions called it.
drop function private.export_account_proper(uuid);

drop function private.find_recovery_link_email(bytea);

drop function private.list_catalogue_models();

drop function private.list_provider_routes();

drop function private.list_workspaces_by_app_session(bytea);

drop function private.read_app(text);

drop function private.recovery_code_salt(text);

drop function private.sweep_app_credentials();

drop function private.sweep_login_challenges();

drop function private.sweep_oauth_attempts();

drop function private.sweep_recoveries();

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
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff'
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

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create or replace function private.complete_attempt(attempt_id uuid, outcome text) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  settled private.open_attempts;
begin
  if outcome is null or outcome not in ('succeeded', 'failed', 'void') then
    raise exception 'an attempt is succeeded, failed or void' using errcode = 'invalid_parameter_value';
  end if;
  -- Who deletes the row settles: once, however many try.
  delete from private.open_attempts o where o.id = attempt_id and o.expires_at > now() returning * into settled;
  if not found then
    return false;
  end if;
  if outcome = 'void' then
    perform private.refund_attempts(settled.charged);
  elsif outcome = 'failed' then
    perform private.count_failure(settled.action, settled.address);
  elsif settled.action in ('password', 'code', 'sign_in_code', 'passkey') then
    -- One each, and not the address's whole count: who has an account would else guess at others between sign-ins.
    perform private.refund_attempts(settled.charged);
    delete from private.rate_limits r where r.subject = any (settled.charged) and r.scope = 'pair';
    if settled.pair is not null then
      perform private.record_verified_address(settled.pair);
    end if;
  end if;
  return true;
end
$$;

create or replace function private.delete_expired_attempts(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  cleared integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.delete_expired_attempts', 0)) then
    return 0;
  end if;
  -- Rows that an attempt has locked stay for the next run.
  delete from private.rate_limits r
  where r.subject = any (array(
    select o.subject from private.rate_limits o where o.full_at < now() order by o.full_at limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.open_attempts a
  where a.id = any (array(
    select o.id from private.open_attempts o
    where o.expires_at < now() order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  delete from private.verified_addresses p
  where p.pair = any (array(
    select o.pair from private.verified_addresses o
    where o.verified_until < now() order by o.verified_until limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  cleared := cleared + batch;
  -- Kept a month, to explain to people why they could not get in.
  delete from private.address_blocks b
  where b.id = any (array(
    select o.id from private.address_blocks o
    where o.blocked_until < now() - interval '30 days' order by o.blocked_until limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  return cleared + batch;
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

    -- At the identity backend itself, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this is empty: only under attack (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts that came in spite of a refusal: then the address is blocked.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

-- Definer: reads the log and the unconfirmed additions of an account past row-level security.
create or replace function private.access_state(subject_id uuid, actor_session_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'confirmedAt', (
      select case when private.began_by_mail(subject_id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
      from private.access_confirmations c
      where c.user_id = subject_id
    ),
    'unconfirmed', (
      select coalesce(jsonb_agg(n.target_id order by n.created_at, n.target_id), '[]')
      from private.unconfirmed_additions n
      where n.user_id = subject_id
    )
  )
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot write.
create or replace function private.confirm_access(
  subject_id uuid,
  actor_session_id uuid,
  removals jsonb,
  usable_providers text[]
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  access jsonb;
  removed jsonb;
  passwords boolean;
  identities uuid[];
  passkeys uuid[];
  authenticators uuid[];
  methods_removed boolean;
  kept uuid[];
  ended jsonb;
begin
  -- One change of an account's credentials at a time: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id and u.deleted_at is null for update;
  if not found or not exists (select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id) then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if not private.may_change_access(subject_id, actor_session_id) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;

  access := private.account_access(subject_id, actor_session_id);
  -- Keys of other accounts, and of what is gone, match nothing.
  select
    coalesce(jsonb_agg(w), '[]'),
    coalesce(bool_or(w ->> 'kind' = 'password'), false),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'identity'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'passkey'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'authenticator'), '{}'),
    coalesce(bool_or(w ->> 'kind' in ('password', 'identity', 'passkey')), false)
  into removed, passwords, identities, passkeys, authenticators, methods_removed
  from jsonb_array_elements(access -> 'ways') as w
  where w ->> 'key' <> 'session:' || actor_session_id
    and (
      removals -> 'remove' ? (w ->> 'key')
      or removals -> 'remove' ? 'other_sessions'
        and w ->> 'kind' = 'session'
        and (w ->> 'addedAt')::timestamptz <= (removals ->> 'listedAt')::timestamptz
        and not coalesce(removals -> 'sessions' ? (w ->> 'key'), false)
    );

  select coalesce(array_agg((w ->> 'id')::uuid), '{}')
  into kept
  from jsonb_array_elements(access -> 'ways') as w
  where (w ->> 'unconfirmed')::boolean
    and removals -> 'listed' ? (w ->> 'key')
    and not removals -> 'remove' ? (w ->> 'key');

  if methods_removed
    and private.count_sign_in_methods(
      subject_id, usable_providers, without => identities || passkeys, without_password => passwords, confirming => kept
    ) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;
  if authenticators <> '{}'
    and private.required_mfa_state(account.raw_app_meta_data) <> 'optional'
    and not exists (
      select from auth.mfa_factors f
      where f.user_id = subject_id and f.status = 'verified' and f.id <> all (authenticators)
    ) then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  ended := private.end_dependent_sessions(subject_id, actor_session_id, removed);
  if identities <> '{}' then
    perform private.keep_email_identity(account);
    perform private.remove_identity(i.id) from unnest(identities) as i (id);
  end if;
  perform private.delete_auth_passkey(p.id) from unnest(passkeys) as p (id);
  perform private.delete_auth_factor(subject_id, f.id) from unnest(authenticators) as f (id);
  if authenticators <> '{}' and not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  if passwords then
    perform private.remove_password(subject_id);
  end if;
  perform private.end_app_of_account(subject_id, a.id)
  from private.apps a
  where a.name in (select w ->> 'id' from jsonb_array_elements(removed) as w where w ->> 'kind' = 'app');
  -- Triggers record the identities, passkeys and authenticators that went.
  perform private.add_account_event(
    subject_id, 'app_disconnected', session_id => actor_session_id, details => jsonb_build_object('app', w -> 'name')
  )
  from jsonb_array_elements(removed) as w
  where w ->> 'kind' = 'app';
  if passwords then
    perform private.add_account_event(subject_id, 'password_removed', session_id => actor_session_id);
  end if;
  if ended <> '[]' then
    perform private.add_account_event(subject_id, 'session_revoked', session_id => actor_session_id);
  end if;

  -- As of the moment of the list that the owner saw: what was added since then is new the next time, too.
  insert into private.access_confirmations as c (user_id, confirmed_at, confirmed_by_mail_at)
  select subject_id, l.seen_at, case when private.began_by_mail(subject_id, actor_session_id) then l.seen_at end
  from (select least((removals ->> 'listedAt')::timestamptz, now()) as seen_at) l
  on conflict (user_id) do update
  set confirmed_at = greatest(c.confirmed_at, excluded.confirmed_at),
      confirmed_by_mail_at = greatest(c.confirmed_by_mail_at, excluded.confirmed_by_mail_at);
  perform private.add_account_event(subject_id, 'access_confirmed', session_id => actor_session_id);
  delete from private.unconfirmed_additions n where n.user_id = subject_id and n.target_id = any (kept);
  return jsonb_build_object('outcome', 'confirmed', 'removed', removed, 'endedSessions', ended);
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.guard_email() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if new.deleted_at is null and exists (
    select from auth.identities i
    where i.user_id = new.id
      and coalesce(i.email, '') = lower(coalesce(new.email, ''))
      and (
        private.is_unconfirmed_identity(i.id)
        or (i.email <> '' and i.identity_data -> 'email_verified' is distinct from 'true'::jsonb)
      )
  ) and not exists (
    select from auth.identities i
    where i.user_id = new.id
      and i.email = lower(new.email)
      and (
        -- An address that both mailboxes or an administrator agreed to is the email identity's first.
        i.provider = 'email'
        or (i.identity_data -> 'email_verified' = 'true'::jsonb and not private.is_unconfirmed_identity(i.id))
      )
  ) then
    raise exception 'an unconfirmed identity cannot give its address to the account'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_proper(subject_id uuid, with_parts boolean) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'account', jsonb_build_object(
      'id', u.id,
      'email', u.email,
      'newEmail', nullif(u.email_change, ''),
      'phone', nullif(u.phone, ''),
      'createdAt', u.created_at,
      'emailConfirmedAt', u.email_confirmed_at,
      'lastSignInAt', u.last_sign_in_at,
      'bannedUntil', u.banned_until,
      'hasPassword', coalesce(u.encrypted_password, '') <> '',
      'userMetadata', u.raw_user_meta_data,
      'appMetadata', u.raw_app_meta_data
    ),
    'profile', (
      select jsonb_build_object('displayName', p.display_name, 'avatarUrl', p.avatar_url, 'createdAt', p.created_at)
      from public.profiles p where p.id = u.id
    ),
    'linkedAccounts', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
      ) order by i.created_at), '[]')
      from auth.identities i where i.user_id = u.id
    ),
    'authenticators', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
      ) order by f.created_at), '[]')
      from auth.mfa_factors f where f.user_id = u.id
    ),
    'recoveryCodes', (
      select coalesce(jsonb_agg(
        jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at) order by c.created_at, c.id
      ), '[]')
      from private.mfa_recovery_codes c where c.user_id = u.id
    ),
    'passkeys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id, 'name', c.friendly_name, 'createdAt', c.created_at, 'lastUsedAt', c.last_used_at
      ) order by c.created_at), '[]')
      from auth.webauthn_credentials c where c.user_id = u.id
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      ) order by s.created_at), '[]')
      from auth.sessions s where s.user_id = u.id and with_parts
    ),
    'securityEvents', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent, 'details', e.details,
        'createdAt', e.created_at
      ) order by e.created_at), '[]')
      from public.security_events e where e.user_id = u.id and with_parts
    ),
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'approvals', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      ) order by c.created_at), '[]')
      from private.login_challenges c where c.user_id = u.id
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from u.id,
        'joinedAt', m.created_at
      ) order by m.created_at), '[]')
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = u.id
    ),
    'invitations', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'workspaceId', n.workspace_id, 'email', n.email, 'sentByYou', n.invited_by is not distinct from u.id,
        'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      ) order by n.created_at), '[]')
      from public.workspace_invitations n
      where n.invited_by = u.id or n.accepted_by = u.id or n.email = lower(u.email)
    ),
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      ) order by k.created_at), '[]')
      from ai.keys k where k.created_by = u.id
    ),
    'credits', (
      select jsonb_build_object(
        'balance', a.balance::text,
        'ledger', (
          select coalesce(jsonb_agg(jsonb_build_object(
            'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
            'description', l.description, 'createdAt', l.created_at
          ) order by l.id), '[]')
          from ai.credit_ledger l where l.account_id = a.id and with_parts
        )
      )
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
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
  last_at timestamptz := coalesce((after ->> 'createdAt')::timestamptz, '-infinity');
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
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent,
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
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

create or replace function private.export_account_runs(subject_id uuid, before jsonb default null, page_size integer default 500)
  returns setof jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', r.id, 'createdAt', r.created_at, 'workspaceId', r.workspace_id, 'appId', r.app_id, 'model', r.model_id,
    'feature', r.feature, 'requestId', r.request_id, 'status', r.status, 'inputTokens', r.input_tokens,
    'outputTokens', r.output_tokens, 'billedCredits', r.billed_credits::text,
    'costUsd', case when coalesce(p.provider_cost_visible, true) then r.cost_usd::text end
  )
  from ai.runs r
  left join ai.workspace_policies p on p.workspace_id = r.workspace_id
  where r.actor_id = subject_id
    and r.credential_source <> 'key'
    -- Prunes partitions, which the comparison of rows does not.
    and r.created_at <= coalesce((before ->> 'createdAt')::timestamptz, 'infinity')
    and (r.created_at, r.id) < (
      coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
      coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )
  order by r.created_at desc, r.id desc
  limit page_size
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.clear_unproven_metadata() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if old.email_confirmed_at is null and new.email_confirmed_at is not null and private.may_be_unproven(new) then
    perform set_config('gatehouse.first_confirmation', new.id::text, true);
  end if;
  -- Auth writes the metadata that it read before, in later statements of the transaction too.
  if current_setting('gatehouse.first_confirmation', true) = new.id::text then
    new.raw_user_meta_data := private.proven_metadata(new);
  end if;
  return new;
end
$$;

create or replace function private.may_be_unproven(account auth.users) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(account.email, '') <> ''
    -- Created and confirmed at once, by an administrator or by a provider that has verified the email.
    and not exists (select from public.profiles p where p.id = account.id and p.created_at = now())
    -- Created by an administrator's invitation. Auth reads its clock twice in that call.
    and (account.invited_at < account.created_at + interval '500 milliseconds') is not true
    -- In use before it got this email, which the same transaction confirms as a change.
    and not exists (
      select from public.security_events e
      where e.user_id = account.id and e.kind = 'email_changed' and e.created_at = now()
    )
$$;

create or replace function private.is_proven_identity(identity auth.identities, account auth.users) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select identity.provider <> 'email'
    and identity.identity_data -> 'email_verified' = 'true'::jsonb
    and lower(identity.identity_data ->> 'email') = lower(account.email)
$$;

create or replace function private.own_claims(data jsonb) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_object_agg(m.key, m.value), '{}')
  from jsonb_each(case when jsonb_typeof(data) = 'object' then data else '{}' end) m
  where m.key in ('sub', 'email', 'email_verified', 'phone_verified')
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.keep_own_claims() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  new.identity_data := private.own_claims(new.identity_data);
  return new;
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.start_over() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  shown_name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  if current_setting('gatehouse.first_confirmation', true) is distinct from new.id::text then
    return null;
  end if;

  perform private.delete_auth_sessions(new.id);
  perform private.delete_auth_factor(new.id, f.id) from auth.mfa_factors f where f.user_id = new.id;
  perform private.delete_auth_passkey(c.id) from auth.webauthn_credentials c where c.user_id = new.id;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = new.id and i.provider <> 'email' and not private.is_proven_identity(i, new);
  if found then
    perform private.keep_email_identity(new);
  end if;
  delete from private.unconfirmed_additions a where a.user_id = new.id;
  delete from private.mfa_recovery_codes c where c.user_id = new.id;
  delete from private.account_vault_entries v where v.user_id = new.id;
  perform private.cancel_email_change(new.id);
  -- A new account's password may be its owner's. One that has signed in was somebody else's.
  if old.last_sign_in_at is not null then
    perform private.remove_password(new.id);
  end if;
  perform private.end_apps_of_account(new.id);
  perform private.replace_workspaces(new.id);

  update public.profiles p
  set display_name = shown_name,
      avatar_url = case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end
  where p.id = new.id;
  update public.workspaces w
  set name = private.personal_workspace_name(shown_name)
  where w.personal_user_id = new.id;
  return null;
end
$$;

create or replace function private.replace_workspaces(subject_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  left_behind uuid[];
begin
  -- A workspace that is as it was made can stay.
  if not exists (select from public.security_events e where e.user_id = subject_id)
    and not exists (select from ai.keys k where k.created_by = subject_id)
    and not exists (select from public.workspace_invitations i where i.invited_by = subject_id)
    and not exists (
      select
      from public.workspaces w
      where w.personal_user_id is distinct from subject_id
        and (
          w.created_by = subject_id
          or w.id in (select m.workspace_id from public.workspace_members m where m.user_id = subject_id)
        )
    ) then
    return;
  end if;
  -- Rows are locked in the order of private.delete_account.
  perform from public.workspace_members m where m.user_id = subject_id order by m.workspace_id for update;
  delete from public.workspace_invitations i where i.invited_by = subject_id and i.accepted_at is null;
  select coalesce(array_agg(w.id order by w.id), '{}')
  into left_behind
  from public.workspaces w
  join public.workspace_members m on m.workspace_id = w.id and m.user_id = subject_id
  where w.deleted_at is null and not exists (
    select
    from public.workspace_members other
    join public.workspace_roles r on r.id = other.role_id and r.is_owner
    where other.workspace_id = w.id and other.user_id <> subject_id
  );
  delete from public.workspace_invitations i where i.workspace_id = any (left_behind) and i.accepted_at is null;
  update public.workspaces w
  set deleted_at = now(), personal_user_id = null, name = 'Deleted workspace'
  where w.id = any (left_behind);
  update ai.keys k
  set revoked_at = now()
  where (k.workspace_id = any (left_behind) or k.created_by = subject_id) and k.revoked_at is null;
  delete from public.workspace_members m where m.user_id = subject_id;
  insert into public.workspaces (name, personal_user_id, created_by)
  values (private.personal_workspace_name('New user'), subject_id, subject_id);
end
$$;

create or replace function private.account_of_link(token_hash text, link_type text) returns setof auth.users
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select u.*
  from auth.one_time_tokens t
  join auth.users u on u.id = t.user_id and u.deleted_at is null
  where t.token_hash = account_of_link.token_hash
    and t.token_type::text = case account_of_link.link_type
      when 'signup' then 'confirmation_token'
      when 'invite' then 'confirmation_token'
      when 'recovery' then 'recovery_token'
    end
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_of_link(token_hash text, link_type text) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select u.email from private.account_of_link(email_of_link.token_hash, email_of_link.link_type) u
$$;

-- Definer: as email_of_link.
create or replace function private.remove_unproven_password(token_hash text, link_type text) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  select private.remove_password(u.id)
  from private.account_of_link(remove_unproven_password.token_hash, remove_unproven_password.link_type) u
  where u.email_confirmed_at is null
    and u.encrypted_password <> ''
    -- Auth refuses older links (otp_expiry), so they confirm nothing.
    and case remove_unproven_password.link_type when 'recovery' then u.recovery_sent_at else u.confirmation_sent_at end
      > now() - interval '1 hour'
$$;

-- Definer: the identity backend inserts users, and holds no grant on profiles or workspaces.
create or replace function private.create_profile_and_workspace() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  insert into public.profiles (id, display_name, avatar_url)
  values (new.id, name, case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end);

  insert into public.workspaces (name, personal_user_id, created_by)
  values (private.personal_workspace_name(name), new.id, new.id);
  return null;
end
$$;

create or replace function private.personal_workspace_name(display_name text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select left(display_name, 60) || '''s workspace'
$$;

-- Definer: reads memberships for the credential's user alone.
create or replace function private.list_workspaces_by_app_session(
  token_hash bytea, after text[] default null, page_size integer default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'workspaces:read');
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  return jsonb_build_object('workspaces', coalesce((
    select jsonb_agg(p.workspace order by p.shared, p.name, p.id)
    from (
      select w.*, k.*
      from private.user_workspaces(caller.user_id) w
      cross join lateral (
        select not (w.workspace ->> 'personal')::boolean as shared, w.workspace ->> 'name' as name
      ) k
      where after is null or (k.shared, k.name, w.id) > (not after[1]::boolean, after[2], after[3]::uuid)
      order by k.shared, k.name, w.id
      limit page_size
    ) p
  ), '[]'));
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
  return swept + part;
end
$$;

create or replace function private.linked_workspaces(app_id uuid, after text[] default null, page_size integer default 50)
  returns table (id uuid, name text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name
  from private.app_workspaces l
  join public.workspaces w on w.id = l.workspace_id
  where l.app_id = linked_workspaces.app_id and (after is null or (w.name, w.id) > (after[1], after[2]::uuid))
  order by w.name, w.id
  limit page_size
$$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Anybody can sign up with anybody's email, also without our server.
create or replace trigger clear_unproven_metadata before update of email_confirmed_at, raw_user_meta_data on auth.users
  for each row
  when (
    (old.email_confirmed_at is null and new.email_confirmed_at is not null)
    or current_setting('gatehouse.first_confirmation', true) = new.id::text
  )
  execute function private.clear_unproven_metadata();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
create or replace trigger start_over after update of email_confirmed_at on auth.users
  for each row when (old.email_confirmed_at is null and new.email_confirmed_at is not null)
  execute function private.start_over();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.identities') is not null then
create or replace trigger keep_own_claims before insert or update of identity_data on auth.identities
  for each row when (new.provider = 'email')
  execute function private.keep_own_claims();
  end if;
end
$guard$;

create or replace function private.forget_used_recovery() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  new.recovery_sent_at := null;
  return new;
end
$$;

create or replace function private.find_accounts_matching(term text, most integer) returns setof uuid
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- Many matches come by the index of emails until the page is full, few by that of trigrams.
  set plan_cache_mode = force_custom_plan
as $$
declare
  pattern text := private.containing(term);
begin
  return query
    select s.user_id
    from private.account_search s
    join auth.users a on a.id = s.user_id
    where s.terms like pattern and a.deleted_at is null
    order by s.email, s.user_id
    limit most;
end
$$;

create or replace function private.containing(term text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select '%' || regexp_replace(lower(term), '([%_\\])', '\\\1', 'g') || '%'
$$;

-- Definer: the admins' email addresses are in Supabase Auth's tables.
create or replace function private.account_timeline(subject_id uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A plan for every position reads all that ever happened to the account.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', t.id,
      'source', t.source,
      'kind', t.kind,
      'method', t.method,
      'device', t.device,
      'ip', host(t.ip),
      'reason', t.reason,
      'actorEmail', (select a.email from auth.users a where a.id = t.actor_id),
      'requestId', t.request_id,
      'createdAt', t.created_at
    ) order by t.created_at desc, t.id desc), '[]')
    from (
      (
        select e.id, 'event' as source, e.kind, e.method, e.device, e.ip, null as reason, null::uuid as actor_id,
          null as request_id, e.created_at
        from public.security_events e
        where e.user_id = subject_id and (e.created_at, e.id) < (last_at, last_id)
        order by e.created_at desc, e.id desc
        limit page_size
      )
      union all
      (
        select l.id, 'audit', l.action, null, null, l.ip, l.reason, l.actor_id, l.request_id, l.created_at
        from private.admin_audit_log l
        where l.target_user_id = subject_id and (l.created_at, l.id) < (last_at, last_id)
        order by l.created_at desc, l.id desc
        limit page_size
      )
      order by created_at desc, id desc
      limit page_size
    ) t
  );
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
  known := private.read_app(app.name);
  if known ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes'))
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
    if overlap is null or overlap not between interval '0' and interval '24 hours' then
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
    'after', private.describe_app(app.id) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
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
      'version', (select l.id from private.admin_audit_log l where l.target = 'app ' || a.name
        order by l.created_at desc, l.id desc limit 1)
    )
  from private.apps a
  where a.name = app_name
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

-- Definer: the admins' email addresses are in Supabase Auth's tables.
create or replace function private.search_audit_log(
  reader jsonb,
  filters jsonb,
  before jsonb default null,
  page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A plan for every filter reads the whole log.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_action text := filters ->> 'action';
  of_actor text := lower(filters ->> 'actor');
  of_target text := lower(filters ->> 'target');
  starts_at timestamptz := coalesce((filters ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filters ->> 'to')::timestamptz, 'infinity');
  last_at timestamptz := coalesce((search_audit_log.before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((search_audit_log.before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if not private.can_read_console(reader) then
    return null;
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', l.id,
      'actorEmail', l.actor_email,
      'action', l.action,
      'targetUserId', l.target_user_id,
      'target', l.target,
      'reason', l.reason,
      'before', l.before,
      'after', l.after,
      'requestId', l.request_id,
      'ip', host(l.ip),
      'createdAt', l.created_at
    ) order by l.created_at desc, l.id desc), '[]')
    from (
      select a.*, u.email as actor_email
      from private.admin_audit_log a
      left join auth.users u on u.id = a.actor_id
      where a.created_at >= starts_at
        and a.created_at < ends_at
        and (a.created_at, a.id) < (last_at, last_id)
        and (of_action is null or starts_with(a.action, of_action))
        and (of_actor is null or position(of_actor in lower(u.email)) > 0)
        and (of_target is null or position(of_target in lower(a.target)) > 0 or a.target_user_id::text = of_target)
      order by a.created_at desc, a.id desc
      limit page_size
    ) l
  );
end
$$;

-- Definer: owners' and admins' addresses are the identity backend's, which the service role cannot read.
create or replace function private.search_workspaces(term text, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- Many matches come by the index of names until the page is full, few by that of trigrams.
  set plan_cache_mode = force_custom_plan
as $$
declare
  pattern text := private.containing(term);
  found_ids uuid[];
begin
  found_ids := case
    when term = '' then array(select a.workspace_id from ai.key_approvals a)
    else array(
      select s.id from public.workspaces s where s.id = private.uuid_or_null(term) and s.deleted_at is null
      union all
      select m.workspace_id
      from public.workspace_members m
      -- An array, so that the plan expects few accounts.
      where m.user_id = any (array(select private.find_accounts_exactly(term)))
    )
  end;
  if term <> '' and found_ids = '{}' then
    found_ids := array(
      select s.id
      from public.workspaces s
      where lower(s.name) like pattern and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    );
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'plan', w.plan_id,
      'personalUserId', w.personal_user_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id and r.is_owner
        join auth.users u on u.id = m.user_id
        where m.workspace_id = w.id
      ),
      'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
      'liveKeys', (
        select count(*)
        from ai.keys k
        where k.workspace_id = w.id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
      ),
      'approvedAt', w.approved_at,
      'approvedBy', (select u.email from auth.users u where u.id = w.approved_by)
    ) order by w.name, w.id), '[]')
    from (
      select s.*, a.approved_at, a.approved_by
      from public.workspaces s
      left join ai.key_approvals a on a.workspace_id = s.id
      where s.id = any (found_ids) and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    ) w
  );
end
$$;

create or replace function private.list_catalogue_models(
  term text default '', only_id text default null, after text[] default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'sortsAs', m.sorts_as,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- By the rule of calls, as if every provider were connected.
    'hasPrice', ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) is not null,
    -- As calls go: open routes first, in their order.
    'providers', (
      select coalesce(jsonb_agg(p.provider_id order by p.is_shut, p.position), '[]')
      from (
        select distinct on (r.provider_id) r.provider_id, not r.enabled as is_shut, r.position
        from ai.model_routes r
        where r.model_id = m.id
        order by r.provider_id, r.enabled desc, r.position
      ) as p
    ),
    'prices', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'providerId', p.provider_id,
        'serviceTier', p.service_tier,
        'minInputTokens', p.min_input_tokens,
        'from', lower(p.valid),
        'until', upper(p.valid),
        'current', p.valid @> now(),
        'inputUsd', p.input_usd_per_million::text,
        'cachedInputUsd', p.cached_input_usd_per_million::text,
        'cacheWriteUsd', p.cache_write_usd_per_million::text,
        'cacheWrite1hUsd', p.cache_write_1h_usd_per_million::text,
        'outputUsd', p.output_usd_per_million::text,
        'audioInputUsd', p.audio_input_usd_per_million::text,
        'audioOutputUsd', p.audio_output_usd_per_million::text,
        'imageInputUsd', p.image_input_usd_per_million::text,
        'requestFeeUsd', p.request_fee_usd::text
      ) order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where (only_id is null or l.id = only_id)
      and (position(lower(term) in lower(l.id)) > 0 or position(lower(term) in lower(l.display_name)) > 0)
      and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

create or replace function private.list_provider_routes(after text[] default null, page_size integer default null)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'sortsAs', m.sorts_as,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'provider', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'hasPrice', exists (
          select from ai.model_prices p
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.valid @> now()
        ),
        'failedLastHour', (
          select count(*)
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
            and f.at > now() - interval '1 hour'
        ),
        'lastFailure', (
          select jsonb_build_object(
            'at', f.at,
            'failure', f.failure,
            'status', f.status,
            'upstreamRequestId', f.upstream_request_id,
            'runId', f.run_id
          )
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
          order by f.at desc, f.id desc
          limit 1
        )
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where l.enabled and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

create or replace function private.list_failing_models(most integer default 20) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object('displayName', f.display_name, 'failed', f.failed)
    order by f.failed desc, f.display_name), '[]')
  from (
    select m.display_name, count(*) as failed
    from ai.failed_attempts a
    join ai.model_routes r using (model_id, provider_id, provider_model)
    join ai.models m on m.id = a.model_id
    where a.at > now() - interval '1 hour' and m.enabled
    group by m.id, m.display_name
    order by failed desc, m.display_name
    limit most
  ) f
$$;

create or replace function private.find_runs(term text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', r.id,
    'createdAt', r.created_at,
    'workspaceId', r.workspace_id,
    'workspaceName', w.name,
    'model', r.model_id,
    'status', r.status,
    'errorCode', r.error_code
  ) order by r.created_at desc, r.id desc), '[]')
  from (
    select f.* from ai.find_run(private.uuid_or_null(term)) as f where f.id is not null
    union
    (
      select * from ai.runs q
      where q.request_id = term and q.created_at > now() - interval '31 days'
      order by q.created_at desc
      limit 20
    )
  ) as r
  left join public.workspaces w on w.id = r.workspace_id
$$;

create or replace function ai.provider_cost_records(
  workspace uuid, window_from timestamptz, window_to timestamptz, before jsonb, page_size integer, filter jsonb
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- A plan for every filter and position reads the whole range for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_provider text := filter ->> 'provider';
  of_account text := filter ->> 'accountId';
  any_account boolean := not filter ? 'accountId';
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    with page as materialized (
      select *
      from ai.external_provider_costs c
      where c.workspace_id = workspace
        and c.occurred_at >= window_from
        and c.occurred_at < window_to
        and c.occurred_at <= last_at
        and (c.occurred_at, c.id) < (last_at, last_id)
        and (of_provider is null or c.provider = of_provider)
        and (any_account or c.account_id is not distinct from of_account)
      order by c.occurred_at desc, c.id desc
      limit page_size
    )
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'id', p.id,
        'appId', p.app_id,
        'appName', a.display_name,
        'provider', p.provider,
        'accountId', p.account_id,
        'externalRunId', p.external_run_id,
        'granularity', p.granularity,
        'service', p.service,
        'amountUsd', trim_scale(p.amount_usd)::text,
        'occurredAt', ai.utc_text_microseconds(p.occurred_at),
        'observedAt', ai.utc_text_microseconds(p.observed_at),
        'recordedAt', ai.utc_text_microseconds(p.recorded_at),
        'revision', p.revision,
        'counted', replaced.by_run_id is null,
        'replacedBy', replaced.by_run_id,
        -- For how many runs an account day stands, and what these come to.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.external_provider_costs c
          where c.workspace_id = p.workspace_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and c.granularity = 'run'
            and c.app_id = p.app_id
            and c.provider = p.provider
            and c.account_id = p.account_id
        ) end
      )
      order by p.occurred_at desc, p.id desc
    ), '[]')
    from page p
    left join private.apps a on a.id = p.app_id
    -- The account day that stands for it, by the rule of ai.provider_costs_in_totals.
    left join lateral (
      select d.external_run_id as by_run_id
      from ai.external_provider_costs d
      where d.granularity = 'account_day'
        and d.workspace_id = p.workspace_id
        and d.app_id = p.app_id
        and d.provider = p.provider
        and d.account_id = p.account_id
        and d.occurred_at = date_trunc('day', p.occurred_at, 'UTC')
        and (
          p.granularity = 'run'
          or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
        )
      order by d.observed_at desc, d.id desc
      limit 1
    ) as replaced on true
  );
end
$$;

-- Definer: as begin_run.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(request);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  -- The text of a jsonb, which would be slow to build from all models.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- One pass over all models: a function called for each would be most of the time of a large catalogue.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', jsonb_agg(ai.listed_price(p.as_offered) order by p.sorts_as nulls first, p.min_input_tokens)
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_prices(request.providers) p
    where request.model is null or p.model_id = request.model
    group by p.model_id, p.place, p.provider_id, p.provider_model, p.tier_multipliers
  ),
  served as (
    select r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers
    from routes r
    group by r.model_id
  ),
  paths as (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case when shows_prices then jsonb_build_object('routes', s.routes) else jsonb '{}' end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found');
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

create or replace function ai.listed_price(tier jsonb) returns jsonb
  language sql
  -- As ai.price_tier.
  immutable
  security invoker
  parallel safe
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'min_input_tokens', tier -> 'min_input_tokens',
    'service_tier', tier -> 'service_tier',
    'input_usd_per_million', trim_scale((tier ->> 'input')::numeric),
    'cached_input_usd_per_million', trim_scale((tier ->> 'cached_input')::numeric),
    'cache_write_usd_per_million', trim_scale((tier ->> 'cache_write')::numeric),
    'cache_write_1h_usd_per_million', trim_scale((tier ->> 'cache_write_1h')::numeric),
    'output_usd_per_million', trim_scale((tier ->> 'output')::numeric),
    'audio_input_usd_per_million', trim_scale((tier ->> 'audio_input')::numeric),
    'audio_output_usd_per_million', trim_scale((tier ->> 'audio_output')::numeric),
    'image_input_usd_per_million', trim_scale((tier ->> 'image_input')::numeric),
    'request_fee_usd', trim_scale((tier ->> 'request_fee')::numeric)
  ))
$$;

create or replace function ai.open_prices(providers text[]) returns table (
  model_id text, place smallint, provider_id text, provider_model text, tier_multipliers jsonb,
  trusts_stated_cost boolean, first_byte_seconds smallint, idle_seconds smallint, total_seconds smallint,
  sorts_as text, min_input_tokens integer, as_offered jsonb
)
  language sql
  stable
  security invoker
as $$
  select
    r.model_id, r.position, r.provider_id, r.provider_model, r.tier_multipliers,
    r.trusts_stated_cost, r.first_byte_seconds, r.idle_seconds, r.total_seconds,
    nullif(t.service_tier, 'default'), t.min_input_tokens, t.as_offered
  from ai.model_routes r
  join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id
  where r.enabled and r.provider_id = any (providers) and t.valid @> now()
$$;

create or replace function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql
  stable
  security invoker
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.tiers)
      || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
      || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
      || case
        when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
        else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
          'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
        )))
      end
      order by r.place
    )
    from (
      select
        p.place, p.provider_id, p.provider_model, p.tier_multipliers, p.trusts_stated_cost,
        p.first_byte_seconds, p.idle_seconds, p.total_seconds,
        jsonb_agg(p.as_offered order by p.sorts_as nulls first, p.min_input_tokens) as tiers
      from ai.open_prices(providers) p
      where p.model_id = model
      group by
        p.place, p.provider_id, p.provider_model, p.tier_multipliers, p.trusts_stated_cost,
        p.first_byte_seconds, p.idle_seconds, p.total_seconds
    ) r
  );
end
$$;

-- Definer: the server's service role holds no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  -- Rows that are in use stay.
  delete from ai.idempotency_keys i
  using (
    select e.workspace_id, e.principal_id, e.key
    from ai.idempotency_keys e
    where e.expires_at <= now()
    order by e.expires_at
    limit at_most
    for update skip locked
  ) as expired
  where i.workspace_id = expired.workspace_id and i.principal_id = expired.principal_id and i.key = expired.key;
  get diagnostics keys = row_count;

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;

  delete from ai.failed_attempts f
  using (
    select o.id
    from ai.failed_attempts o
    where o.at < now() - interval '7 days'
    order by o.at
    limit at_most
    for update skip locked
  ) as old
  where f.id = old.id;
  get diagnostics attempts = row_count;
  return keys + windows + attempts;
end
$$;

-- Definer: asks the identity backend's tables, which the caller must not read, about the caller's own token alone.
create or replace function private.account_required_mfa_satisfied() returns boolean
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return private.session_satisfies_mfa(private.caller_claims());
end
$$;

-- Definer: asks the rule of required MFA about the asking session.
create or replace function private.bind_mobile_approval(binding jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  claims constant jsonb := binding -> 'claims';
  challenge private.login_challenges;
begin
  update private.login_challenges c
  set status = 'bound',
      bound_session_id = c.session_id,
      bound_at = now(),
      valid_until = now() + interval '12 hours',
      proof_key = (binding ->> 'proofKey')::bytea,
      approval_metadata = c.approval_metadata || jsonb_build_object('sessionId', c.session_id)
  where c.id = private.uuid_or_null(binding ->> 'id')
    and c.kind = 'mfa_mobile'
    and c.secret_hash = (binding ->> 'secretHash')::bytea
    and c.session_id = (claims ->> 'session_id')::uuid
    and c.user_id = (claims ->> 'sub')::uuid
    and c.status = 'approved'
    and c.expires_at > now()
  returning c.* into challenge;
  if not found then
    return null;
  end if;
  -- As where its factor was removed since, or the account demands a newer proof.
  if not private.session_satisfies_mfa(claims) then
    update private.login_challenges c
    set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
    where c.id = challenge.id
    returning c.* into challenge;
  end if;
  return jsonb_build_object('status', challenge.status, 'validUntil', challenge.valid_until);
end
$$;

create or replace function private.is_approval_proven(approval private.login_challenges, proof text) returns boolean
  language sql
  stable
  security invoker
as $$
  select case
    -- Release 0.1.0 binds approvals without a key. Its servers check the cookie themselves.
    when (approval).proof_key is null then true
    when proof ~ '^[0-9]{10}[.][0-9a-f]{64}$' then
      left(proof, 10)::bigint
        between floor(extract(epoch from now()))::bigint - 60 and floor(extract(epoch from now()))::bigint + 60
      -- Hashes are compared, so that the time it takes says nothing about the expected value.
      and sha256(decode(right(proof, 64), 'hex')) = sha256(extensions.hmac(
        convert_to((approval).bound_session_id || ' ' || left(proof, 10), 'UTF8'), (approval).proof_key, 'sha256'
      ))
    else false
  end
$$;

-- PostgREST keeps a request's headers in request.headers, with their names in lower case.
create or replace function private.caller_claims() returns jsonb
  language sql
  stable
  security invoker
as $$
  select auth.jwt() || jsonb_build_object(
    'approval_proof', nullif(current_setting('request.headers', true), '')::jsonb -> 'x-mfa-approval'
  )
$$;

-- Definer: sessions are Supabase Auth's, which the service role cannot read.
create or replace function private.is_recovery_open_to(credential private.recovery_credentials, browser_hash bytea)
  returns boolean
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when credential.repeatable_by is null then credential.consumed_at is null
    else coalesce(credential.repeatable_by = browser_hash, false) and (
      credential.consumed_at is null
      or exists (
        select
        from auth.sessions s
        where s.id = credential.repeatable_session_id
          and not exists (
            select
            from private.account_vault_entries e
            join private.account_additions a on a.device_id = e.device_id and a.session_id = e.session_id
            where e.user_id = s.user_id and e.session_id = s.id and a.taken_from is not null
          )
      )
    )
  end
$$;

create or replace function private.find_recovery_link_email(token_hash bytea, browser_hash bytea default null)
  returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c.email
  from private.recovery_credentials c
  join private.recovery_overrides o on o.id = c.override_id
  where c.token_hash = find_recovery_link_email.token_hash
    and private.is_recovery_open_to(c, browser_hash)
    and c.superseded_at is null
    and c.expires_at > now()
    and o.revoked_at is null
    and o.expires_at > now()
    and o.recovery_email
$$;

-- Definer: the key of the made-up salts is granted to nobody.
create or replace function private.recovery_code_salt(of_email text, browser_hash bytea default null) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select encode(coalesce(
    (
      select c.code_salt
      from private.recovery_credentials c
      where c.email = lower(of_email)
        and private.is_recovery_open_to(c, browser_hash)
        and c.superseded_at is null
        and c.expires_at > now()
      order by c.created_at desc
      limit 1
    ),
    substr(private.attempt_digest('recovery code salt', lower(of_email)), 1, 16)
  ), 'hex')
$$;

-- Definer: accounts and their policies are the identity backend's, which the service role can neither read nor write.
create or replace function private.consume_recovery_credential(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  credential private.recovery_credentials;
  found_id uuid;
  of_email text;
  verdict text;
  account auth.users;
  written jsonb;
begin
  select c.id, c.email into found_id, of_email
  from private.recovery_credentials c
  where case
    when request ? 'tokenHash' then c.token_hash = decode(request ->> 'tokenHash', 'hex')
    else c.email = lower(request ->> 'email')
  end
  order by c.consumed_at is null and c.superseded_at is null desc, c.created_at desc
  limit 1;
  if found then
    -- The email first, then the credential, by link and by code, so that no two wait for each other.
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  credential.consumed_at := case
    when not private.is_recovery_open_to(credential, decode(request ->> 'browserHash', 'hex'))
      then coalesce(credential.consumed_at, now())
  end;
  verdict := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  if verdict <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', verdict, 'email', of_email, 'overrideId', credential.override_id,
      'credentialId', credential.id
    ));
    return '{"outcome": "rejected"}';
  end if;

  update private.recovery_credentials c set consumed_at = now(), repeatable_session_id = null where c.id = credential.id;
  -- A link proves the mailbox, and does not open what guesses at the codes have locked.
  delete from private.recovery_code_guesses g
  where g.email = of_email and (g.locked_until is null or g.locked_until <= now());
  select * into account
  from auth.users u
  where lower(u.email) = of_email and u.deleted_at is null and not u.is_sso_user
  for update;
  perform private.record_recovery_event((request - 'email') || jsonb_build_object(
    'kind', 'consume', 'outcome', case when request ? 'tokenHash' then 'by_link' else 'by_code' end,
    'email', of_email, 'overrideId', credential.override_id, 'credentialId', credential.id, 'userId', account.id
  ));
  perform private.end_all_access(account.id);
  -- Whoever comes back proves everything anew. A policy that nobody can read is an admin's to mend.
  if account.id is not null and private.required_mfa_state(account.raw_app_meta_data) <> 'malformed' then
    written := private.write_required_mfa_policy(account, '{"signInAgain": true}');
  end if;
  return jsonb_build_object(
    'outcome', 'consumed',
    'credentialId', credential.id,
    'overrideId', credential.override_id,
    'email', of_email,
    'userId', account.id,
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'replacedPassword', credential.replaced_password,
    'waitMs', coalesce(greatest(
      0, ceil(((written ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
end
$$;

create or replace function private.allow_recovery_repeat(
  credential_id uuid, browser_hash bytea, session_id uuid, replaced_password boolean
)
  returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update private.recovery_credentials c
  set repeatable_by = browser_hash,
      repeatable_session_id = session_id,
      replaced_password = allow_recovery_repeat.replaced_password
  where c.id = credential_id and c.consumed_at is not null
$$;

create or replace function private.sweep_recoveries(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_recoveries', 0)) then
    return 0;
  end if;
  -- For a day the page can explain that a link has expired, and the log can name the mail.
  delete from private.recovery_credentials c
  where c.id = any (array(
    select o.id from private.recovery_credentials o
    where o.expires_at < now() - interval '1 day' limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  swept := swept + batch;
  -- No guess counts after 24 hours, and no lock lasts longer.
  delete from private.recovery_code_guesses g
  where g.email = any (array(
    select o.email
    from private.recovery_code_guesses o
    where coalesce(o.last_wrong_at < now() - interval '24 hours', true)
      and coalesce(o.locked_until <= now(), true)
      and not exists (select from private.recovery_credentials c where c.email = o.email and c.expires_at > now())
    limit at_most
    for update skip locked
  ));
  get diagnostics batch = row_count;
  swept := swept + batch;
  delete from private.mint_leases l
  where l.user_id = any (array(
    select o.user_id from private.mint_leases o where o.expires_at < now() limit at_most for update skip locked
  ));
  get diagnostics batch = row_count;
  return swept + batch;
end
$$;

-- Definer: sessions are the identity backend's, which the service role cannot read.
create or replace function private.account_sessions(
  subject_id uuid, first_session_id uuid default null, before jsonb default null, page_size integer default null
)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    method text,
    aal text,
    refreshed_at timestamptz
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- Its refreshes, once an hour or so, and what its owner did with it.
    greatest(s.refreshed, e.last_event_at),
    host(s.ip),
    -- A sign-in by our pages reaches the backend through our server, which names itself there.
    coalesce(e.user_agent, s.user_agent),
    e.device,
    e.method,
    s.aal::text,
    s.refreshed
  from (
    select l.*, r.refreshed
    from auth.sessions l
    cross join lateral (select greatest(l.created_at, l.refreshed_at at time zone 'UTC') as refreshed) r
    where l.user_id = subject_id
      and (l.not_after is null or l.not_after > now())
      and (
        before is null
        or l.id is distinct from first_session_id
          and (r.refreshed, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, r.refreshed desc, l.id desc
    limit page_size
  ) s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  order by s.id is not distinct from first_session_id desc, s.refreshed desc, s.id desc
$$;

-- Definer: as private.account_sessions.
create or replace function private.count_account_sessions(subject_id uuid, most integer default 1001) returns bigint
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select count(*)
  from (
    select
    from auth.sessions s
    where s.user_id = subject_id and (s.not_after is null or s.not_after > now())
    limit most
  ) as counted
$$;

create or replace function private.add_account(addition jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (addition ->> 'userId')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (addition ->> 'deviceId')::uuid for update;
  -- A spent secret too: another tab may have added an account while this request was on its way.
  if not found or private.device_secret_status(device, addition ->> 'secret') = 'unknown' then
    return jsonb_build_object('status', 'unknown');
  end if;
  if (
    select count(*)
    from (
      select e.user_id from private.account_vault_entries e where e.device_id = device.id
      union
      select a.user_id
      from private.account_additions a
      where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    ) held
    where held.user_id <> subject_id
  ) >= 10 then
    return jsonb_build_object('status', 'full');
  end if;
  insert into private.account_additions (secret_hash, device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    decode(addition ->> 'secretHash', 'hex'), device.id, subject_id, (addition ->> 'sessionId')::uuid,
    addition ->> 'sealed', addition ->> 'keyId', addition ->> 'tag'
  )
  on conflict (secret_hash) do nothing;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;

create or replace function private.secret_after_addition(secret text, added text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select translate(encode(sha256(convert_to(secret || ' ' || added, 'UTF8')), 'base64'), '+/=', '-_')
$$;

-- Definer: the replaced session is the identity backend's, which ends one by deleting its row.
create or replace function private.take_additions(device_id uuid, secret text, added text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  addition record;
  shown text;
  held text := secret;
  standing text;
  replaced_id uuid;
  joined uuid[] := '{}';
  newest_session_id uuid;
begin
  perform private.lock_accounts(array(
    select a.user_id
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = take_additions.device_id and a.taken_from is null
  ));
  select d.* into device from private.account_devices d where d.id = take_additions.device_id for update;
  if not found then
    return jsonb_build_object('status', 'unknown');
  end if;

  -- Earlier requests may have taken some of these, and their responses may be lost or still on the way.
  loop
    select s.secret into shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = device.id and a.taken_from = private.secret_hash(held)
    limit 1;
    exit when not found;
    held := private.secret_after_addition(held, shown);
  end loop;
  standing := private.device_secret_status(device, held);
  if standing <> 'current' then
    return jsonb_build_object('status', standing, 'secret', held);
  end if;

  for addition in
    select a.*, s.secret as shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    join auth.sessions live on live.id = a.session_id and live.user_id = a.user_id
    where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    order by a.created_at, a.secret_hash
  loop
    select e.session_id into replaced_id
    from private.account_vault_entries e
    where e.device_id = device.id and e.user_id = addition.user_id;
    insert into private.account_vault_entries as e (device_id, user_id, session_id, sealed, key_id, token_tag)
    values (
      device.id, addition.user_id, addition.session_id, addition.sealed, addition.key_id, addition.token_tag
    )
    on conflict on constraint account_vault_entries_pkey do update
      set session_id = excluded.session_id, sealed = excluded.sealed, key_id = excluded.key_id,
          token_tag = excluded.token_tag, last_active_at = now();
    if replaced_id <> addition.session_id then
      perform private.end_account_session(addition.user_id, replaced_id);
    end if;
    -- As long as the accounts can be used without another sign-in.
    update private.account_additions a
    set taken_from = private.secret_hash(held), user_id = null, sealed = null, key_id = null, token_tag = null,
        expires_at = now() + interval '30 days'
    where a.secret_hash = addition.secret_hash;
    held := private.secret_after_addition(held, addition.shown);
    joined := joined || addition.user_id;
    newest_session_id := addition.session_id;
  end loop;

  if cardinality(joined) > 0 then
    perform private.end_additions(device.id, joined);
    update private.account_devices d
    set secret_hash = private.secret_hash(held),
        -- The secret before it opens nothing from now on.
        previous_hash = d.secret_hash,
        previous_for = 'sign_in',
        previous_until = now() + interval '60 seconds',
        rotated_at = now(),
        active_user_id = joined[cardinality(joined)],
        active_session_id = newest_session_id,
        -- A switch that began before does not activate over it.
        lease_id = null,
        lease_expires_at = null,
        last_seen_at = now(),
        expires_at = now() + interval '90 days'
    where d.id = device.id;
  end if;
  return jsonb_build_object('status', 'current', 'secret', held);
end
$$;

-- Definer: ends sessions, which are the identity backend's.
create or replace function private.end_additions(device_id uuid, user_ids uuid[]) returns jsonb
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with gone as (
    delete from private.account_additions a
    where a.device_id = end_additions.device_id and a.taken_from is null
      and (user_ids is null or a.user_id = any (user_ids))
    returning a.user_id, a.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  from gone g
  where private.end_account_session(g.user_id, g.session_id)
$$;

-- Definer: as take_additions.
create or replace function private.continue_account_session(continuation jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (continuation ->> 'userId')::uuid;
  made_id constant uuid := (continuation ->> 'sessionId')::uuid;
  replaced_id constant uuid := (continuation ->> 'inPlaceOf')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (continuation ->> 'deviceId')::uuid for update;
  if not found or private.device_secret_status(device, continuation ->> 'secret') not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  update private.account_vault_entries e
  set session_id = made_id, sealed = continuation ->> 'sealed', key_id = continuation ->> 'keyId',
      token_tag = continuation ->> 'tag', last_active_at = now()
  where e.device_id = device.id and e.user_id = subject_id
    -- The new one is there already if the answer to the same call was lost.
    and e.session_id in (replaced_id, made_id);
  if not found then
    return jsonb_build_object('status', 'over');
  end if;
  perform private.end_account_session(subject_id, replaced_id);
  update private.account_devices d
  set active_session_id = case when d.active_user_id = subject_id then made_id else d.active_session_id end,
      last_seen_at = now(),
      expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;

-- In PL/pgSQL, which plans only the expressions that it reaches: nearly every request shows the current secret.
create or replace function private.device_secret_status(device private.account_devices, secret text) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  if device.expires_at <= now() then
    return 'unknown';
  end if;
  if device.secret_hash = private.secret_hash(secret) then
    return 'current';
  end if;
  if device.previous_hash = private.secret_hash(secret)
    and (device.previous_until is null or device.previous_until > now()) then
    return case device.previous_for when 'anything' then 'previous' else 'spent' end;
  end if;
  -- Other accounts may have joined, or the browser may have switched, since this one was spent.
  if exists (
    select
    from private.account_additions a
    where a.device_id = device.id
      and a.taken_from = private.secret_hash(secret)
      and a.expires_at > now() + interval '30 days' - interval '60 seconds'
  ) then
    return 'spent';
  end if;
  return 'unknown';
end
$$;

-- Definer: locks accounts, whose rows are Supabase Auth's.
create or replace function private.sweep_account_devices() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  idle record;
  swept integer;
begin
  -- One sweeper at a time; the others find nothing to do.
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_account_devices', 0)) then
    return 0;
  end if;
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.last_active_at <= now() - interval '30 days'
    union
    select a.user_id from private.account_additions a where a.expires_at <= now()
  ));
  for idle in
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.sealed is not null and e.last_active_at <= now() - interval '30 days'
    returning e.user_id, e.session_id
  loop
    perform private.end_account_session(idle.user_id, idle.session_id);
  end loop;
  for idle in
    delete from private.account_additions a where a.expires_at <= now() returning a.user_id, a.session_id, a.taken_from
  loop
    if idle.taken_from is null then
      perform private.end_account_session(idle.user_id, idle.session_id);
    end if;
  end loop;
  delete from private.account_vault_entries e where e.last_active_at <= now() - interval '90 days';
  delete from private.account_devices d
  where d.expires_at <= now()
    or (
      d.last_seen_at < now() - interval '1 day'
      and not exists (select from private.account_vault_entries e where e.device_id = d.id)
    );
  get diagnostics swept = row_count;
  return swept;
end
$$;

-- Definer: sessions are Supabase Auth's, which the service role cannot read.
create or replace function private.require_password_replacement(subject_id uuid, target_id uuid) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  delete from private.password_replacements r
  where not exists (select from auth.sessions s where s.id = r.session_id);
  insert into private.password_replacements (session_id, user_id)
  select s.id, s.user_id
  from auth.sessions s
  where s.id = target_id and s.user_id = subject_id
  on conflict (session_id) do nothing
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.end_password_replacements() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if private.is_new_password(old.encrypted_password, new.encrypted_password) then
    delete from private.password_replacements r where r.user_id = new.id;
  end if;
  return null;
end
$$;

-- Definer: a session that has yet to prove its second factor, or whose account is closed, must still be told so, and
-- the identity backend's tables are not the caller's to read. It answers about the caller's own token alone.
create or replace function public.session_state() returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  claims jsonb := private.caller_claims();
begin
  return coalesce((
    select jsonb_build_object(
      'alive', true,
      'sessionId', f.session_id,
      'notAfter', f.not_after,
      'aal', claims ->> 'aal',
      'user', jsonb_build_object(
        'id', f.user_id,
        'email', f.email,
        'displayName', p.display_name,
        'avatarUrl', p.avatar_url,
        'banned', f.banned,
        'deleted', f.deleted
      ),
      'hasVerifiedFactor', f.has_verified_factor,
      'policy', jsonb_build_object(
        'state', m.state,
        'required', m.state <> 'optional',
        'satisfied', not f.banned and not f.deleted and v.satisfied,
        'byApproval', v.satisfied and not v.alone
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral (
      select
        private.satisfies_required_mfa(
          f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second, s.now
        ),
        private.satisfies_required_mfa(
          f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, null, s.now
        )
      from (select floor(extract(epoch from now()))::bigint) as s (now)
    ) as v (satisfied, alone)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

-- Definer: the identity backend ends a session by deleting its row, and so does this: in one transaction with the entry,
-- whether the backend answers or not.
create or replace function private.sign_out_account(device_id uuid, secret text, target_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  ended_id uuid;
begin
  perform private.lock_accounts(array[target_id]);
  select d.* into device from private.account_devices d where d.id = sign_out_account.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  delete from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id
  returning e.session_id into ended_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  perform private.end_account_session(target_id, ended_id);
  perform private.end_additions(device.id, array[target_id]);
  update private.account_devices d
  set active_user_id = null, active_session_id = null
  where d.id = device.id and d.active_user_id = target_id;
  return jsonb_build_object(
    'status', 'signed_out',
    'sessionId', ended_id,
    'wasActive', device.active_user_id is not distinct from target_id,
    'next', coalesce((
      select jsonb_agg(e.user_id order by e.last_active_at desc, e.user_id)
      from private.account_vault_entries e
      where e.device_id = device.id and private.is_vault_entry_usable(e)
    ), '[]')
  );
end
$$;

-- Definer: Supabase Auth has no call that ends these sessions in the transaction that removes their entries.
create or replace function private.sign_out_device(device_id uuid, secret text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  ended jsonb;
begin
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.device_id = sign_out_device.device_id
    union
    select a.user_id from private.account_additions a where a.device_id = sign_out_device.device_id
  ));
  select d.* into device from private.account_devices d where d.id = sign_out_device.device_id for update;
  -- Signing out is good for the spent secret, too: whoever shows it held the browser a moment ago.
  if not found or private.device_secret_status(device, secret) = 'unknown' then
    return null;
  end if;
  with gone as (
    delete from private.account_vault_entries e where e.device_id = device.id returning e.user_id, e.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  into ended
  from gone g
  where private.end_account_session(g.user_id, g.session_id);
  ended := ended || private.end_additions(device.id, null);
  delete from private.account_devices d where d.id = device.id;
  return ended;
end
$$;

create or replace function private.read_login_challenge(challenge jsonb) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce((
    select case
      when challenge ->> 'sessionId' not in (c.session_id::text, coalesce(c.approval_metadata ->> 'mintedSessionId', ''))
        then jsonb_build_object('outcome', 'forbidden')
      else jsonb_build_object(
        'outcome', 'known',
        'status', private.login_challenge_state(c),
        'expiresAt', c.expires_at,
        'validUntil', c.valid_until,
        'mintedSessionId', c.approval_metadata -> 'mintedSessionId'
      )
    end
    from private.login_challenges c
    where c.id = case when pg_input_is_valid(challenge ->> 'id', 'uuid') then (challenge ->> 'id')::uuid end
      and c.kind = challenge ->> 'kind'
      and c.secret_hash = (challenge ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;

create or replace function private.sweep_login_challenges(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_login_challenges', 0)) then
    return 0;
  end if;
  delete from private.login_challenges c
  where c.id = any (array(
    select o.id
    from private.login_challenges o
    where o.expires_at < now() - interval '1 hour' and (o.valid_until is null or o.valid_until < now())
    order by o.expires_at
    limit at_most
    for update skip locked
  ));
  get diagnostics swept = row_count;
  return swept;
end
$$;

-- Definer: the service role cannot change accounts of the identity backend.
create or replace function private.release_mint_lease(lease_id uuid) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  delete from private.mint_leases l where l.lease_id = release_mint_lease.lease_id
$$;

-- Definer: as complete_oauth_attempt.
create or replace function private.sweep_oauth_attempts(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  swept integer;
  removed integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_oauth_attempts', 0)) then
    return 0;
  end if;
  delete from private.oauth_attempts a
  where a.state_hash = any (array(
    select o.state_hash from private.oauth_attempts o
    where o.expires_at < now() order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics swept = row_count;
  -- One step longer than an attempt lives, so that a link in progress keeps the identity it waits for.
  perform private.remove_identity(n.identity_id)
  from (
    select o.identity_id from private.unconfirmed_identities o
    where o.created_at < now() - interval '15 minutes' order by o.created_at limit at_most
  ) as n;
  get diagnostics removed = row_count;
  return swept + removed;
end
$$;

-- Definer: sessions and their proofs are the identity backend's, which the service role cannot write.
create or replace function private.complete_qr_challenge(completion jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  minted constant uuid := (completion ->> 'mintedSessionId')::uuid;
  challenge private.login_challenges;
  approver jsonb;
  signed_in_at timestamptz;
begin
  perform private.lock_accounts(array(
    select c.user_id from private.login_challenges c where c.id = (completion ->> 'id')::uuid
  ));
  select c.* into challenge
  from private.login_challenges c
  where c.id = (completion ->> 'id')::uuid and c.kind = 'qr' and c.status = 'consuming' and c.lease_expires_at > now()
  for update;
  if not found then
    return 'expired';
  end if;
  approver := challenge.approval_metadata -> 'claims';
  if not (
    private.session_satisfies_mfa(completion -> 'claims')
    and (completion -> 'claims' ->> 'session_id')::uuid = challenge.session_id
    and private.session_satisfies_mfa(approver)
    and exists (select from auth.sessions s where s.id = minted and s.user_id = challenge.user_id)
  ) then
    update private.login_challenges c set status = 'rejected' where c.id = challenge.id;
    return 'rejected';
  end if;

  -- Nobody has signed in here: the session is as old as the approver's own sign-in, for boundaries and for step-up, in
  -- every token that the backend issues for it from now on.
  signed_in_at := to_timestamp(coalesce(private.latest_amr_second(approver -> 'amr', private.primary_methods()), 0));
  perform private.set_session_sign_in_time(minted, signed_in_at);
  update private.login_challenges c
  set status = 'consumed',
      consumed_at = now(),
      approval_metadata = c.approval_metadata || jsonb_build_object('mintedSessionId', minted)
  where c.id = challenge.id;
  return 'consumed';
end
$$;

-- Definer: as ai.read_usage.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50, with_totals boolean default true
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
  -- A plan for every range and position reads an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  last_id bigint := coalesce(before_id, 9223372036854775807);
  listed jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(asked.window_from),
    'to', ai.utc_text_microseconds(asked.window_to),
    'entries', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id::text,
          'createdAt', ai.utc_text_microseconds(p.created_at),
          'payer', p.payer,
          'kind', p.kind,
          'amount', trim_scale(p.amount)::text,
          'balanceAfter', trim_scale(p.balance_after)::text,
          'runId', p.run_id,
          'description', p.description
        )
        order by p.id desc
      ), '[]')
      from (
        select case when a.workspace_id is null then 'member' else 'workspace' end as payer, e.*
        from ai.credit_accounts_of(member_id, workspace) a
        cross join lateral (
          select *
          from ai.credit_ledger l
          where l.account_id = a.id
            and l.created_at >= asked.window_from
            and l.created_at < asked.window_to
            and l.id < last_id
            -- A member's balance pays in each of their free workspaces: only this one's runs belong here.
            and (
              a.workspace_id is not null
              or l.run_id is null
              or exists (
                select from ai.runs r
                where r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = workspace
              )
            )
          order by l.id desc
          limit page_size
        ) as e
        order by e.id desc
        limit page_size
      ) p
    )
  );
  if not with_totals then
    return listed;
  end if;
  return listed || (
    with accounts as materialized (
      select a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered
      from ai.usage_between(workspace, asked.window_from, asked.window_to) u
    ), others as (
      select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits
    )
    select jsonb_build_object(
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'totals', (
        select jsonb_build_object(
          'runCredits', trim_scale(r.billed)::text,
          'otherDeductions', trim_scale(o.credits)::text,
          'usedCredits', trim_scale(r.billed + o.credits)::text,
          'unmeteredCredits', trim_scale(r.unmetered)::text,
          'addedCredits', trim_scale((
            select coalesce(sum(l.amount), 0)
            from accounts a
            join ai.credit_ledger l on l.account_id = a.id
            where l.run_id is null and l.amount > 0
              and l.created_at >= asked.window_from and l.created_at < asked.window_to
          ))::text
        )
        from runs r cross join others o
      )
    )
  );
end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_keys(member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', (
      select coalesce(jsonb_agg(ai.key_summary(k) order by k.created_at desc, k.id desc), '[]')
      from (
        select *
        from ai.keys k
        where k.workspace_id = workspace
          and (k.created_at, k.id) < (
            coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
            coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
          )
        order by k.created_at desc, k.id desc
        limit page_size
      ) k
    )
  );
end
$$;

-- Definer: the server's service role deletes nothing by itself.
create or replace function ai.delete_expired_content(most integer default 1000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  swept integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired_content', 0)) then
    return 0;
  end if;
  with recursive owners as (
    (select c.workspace_id from ai.run_content c order by c.workspace_id limit 1)
    union all
    select (
      select c.workspace_id from ai.run_content c where c.workspace_id > o.workspace_id order by c.workspace_id limit 1
    )
    from owners o
    where o.workspace_id is not null
  ), over as (
    select c.run_created_at, c.run_id
    from owners o
    left join public.workspaces s on s.id = o.workspace_id and s.deleted_at is null
    left join ai.workspace_policies w on w.workspace_id = s.id and w.content_capture
    cross join lateral (
      select c.run_created_at, c.run_id
      from ai.run_content c
      where c.workspace_id = o.workspace_id
        -- A workspace that is closed keeps nothing, nor does one without a policy that would.
        and c.run_created_at < coalesce(now() - make_interval(days => w.content_retention_days), 'infinity')
      order by c.run_created_at
      limit most
    ) as c
    limit most
  )
  delete from ai.run_content c
  using over o
  where c.run_created_at = o.run_created_at and c.run_id = o.run_id;
  get diagnostics swept = row_count;
  delete from ai.idempotency_keys i
  where (i.workspace_id, i.principal_id, i.key) in (
    select o.workspace_id, o.principal_id, o.key
    from ai.idempotency_keys o
    where o.expires_at < now()
    order by o.expires_at
    limit most
    for update skip locked
  );
  return swept;
end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_runs(
  member_id uuid,
  workspace uuid,
  filter jsonb default '{}',
  before jsonb default null,
  page_size integer default 50,
  scan_limit integer default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A plan for every filter uses no index and reads every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  -- A comparison of rows, (created_at, id) < (last_at, last_id), would prune no partition.
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_app uuid := (filter ->> 'appId')::uuid;
  of_request text := filter ->> 'requestId';
  scanned_to record;
  older_than timestamptz;
  found_runs jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- A request id has an index. The other filters have none, which every call would pay for.
  if of_request is not null or num_nonnulls(of_model, of_feature, of_status, of_key, of_app) = 0 then
    scan_limit := null;
  end if;
  select coalesce(jsonb_agg(ai.run_summary(r, visible) order by r.created_at desc, r.id desc), '[]') into found_runs
  from (
    select *
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      limit scan_limit
    ) as scanned
    where (of_model is null or scanned.model_id = of_model)
      and (of_feature is null or scanned.feature = of_feature)
      and (of_status is null or scanned.status = of_status)
      and (of_key is null or scanned.key_id = of_key)
      and (of_app is null or scanned.app_id = of_app)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  ) r;
  if scan_limit is null or jsonb_array_length(found_runs) >= page_size then
    return jsonb_build_object('outcome', 'listed', 'runs', found_runs);
  end if;
  select r.created_at, r.id into scanned_to
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= starts_at
    and r.created_at < ends_at
    and not (r.created_at = last_at and r.id >= last_id)
  order by r.created_at desc, r.id desc
  offset scan_limit - 1
  limit 1;
  older_than := ai.runs_may_exist_before(workspace, filter, scanned_to.created_at);
  return jsonb_build_object(
    'outcome', 'listed',
    'runs', found_runs,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;

create or replace function ai.runs_may_exist_before(workspace uuid, filter jsonb, moment timestamptz) returns timestamptz
  language plpgsql
  stable
  security invoker
  set search_path = ''
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_day date := (moment at time zone 'UTC')::date;
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_app uuid := (filter ->> 'appId')::uuid;
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_lineage uuid := (select k.lineage_id from ai.keys k where k.id = of_key);
  day date;
begin
  -- Sums do not count open runs apart, and today has none.
  if moment is null or of_status = 'running' or last_day >= (select s.before from ai.usage_sealed_days s) then
    return moment;
  end if;
  select greatest(
    (
      select u.day
      from ai.usage_daily u
      where u.workspace_id = workspace
        and u.day <= last_day
        and (of_model is null or u.model_id = of_model)
        and (of_feature is null or u.feature = of_feature)
        and (of_app is null or u.app_id = of_app)
        and (of_key is null or u.key_lineage_id = of_lineage)
        and (of_status is null or case of_status when 'failed' then u.failed > 0 else u.requests > u.failed end)
      order by u.day desc
      limit 1
    ),
    -- Days that changed since they were summed.
    (select max(c.day) from ai.usage_changed_days c where c.workspace_id = workspace and c.day <= last_day)
  ) into day;
  if day is null or day < (starts_at at time zone 'UTC')::date then
    return null;
  end if;
  return least(moment, (day + 1)::timestamp at time zone 'UTC');
end
$$;

create or replace function public.list_workspaces(after text[] default null, page_size integer default 50)
  returns table (id uuid, name text, plan_id text, personal boolean, role text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name, w.plan_id, p.personal, r.name
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles r on r.id = m.role_id
  cross join lateral (select w.personal_user_id is not distinct from m.user_id as personal) p
  where m.user_id = (select auth.uid())
    and (after is null or (not p.personal, w.name, w.id) > (not after[1]::boolean, after[2], after[3]::uuid))
  order by not p.personal, w.name, w.id
  limit page_size
$$;

create or replace function public.list_workspace_members(
  workspace_id uuid,
  search text default '',
  of_role uuid default null,
  member_id uuid default null,
  after text[] default null,
  page_size integer default 50
)
  returns table (
    user_id uuid, name text, role_id uuid, role text, is_owner boolean, joined_at timestamptz, sorts_as text
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select m.user_id, n.name, r.id, r.name, r.is_owner, m.created_at, lower(n.name)
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id
  left join public.profiles p on p.id = m.user_id
  cross join lateral (select coalesce(p.display_name, 'Unknown') as name) n
  where m.workspace_id = list_workspace_members.workspace_id
    and (of_role is null or m.role_id = of_role)
    and (member_id is null or m.user_id = member_id)
    and position(lower(search) in lower(n.name)) > 0
    and (
      after is null or (not r.is_owner, lower(n.name), m.user_id) > (not after[1]::boolean, after[2], after[3]::uuid)
    )
  order by not r.is_owner, lower(n.name), m.user_id
  limit page_size
$$;

create or replace function public.count_role_members(workspace_id uuid) returns table (role_id uuid, members bigint)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    r.id,
    (
      select count(*)
      from (
        select from public.workspace_members m where m.workspace_id = r.workspace_id and m.role_id = r.id limit 1001
      ) as counted
    )
  from public.workspace_roles r
  where r.workspace_id = count_role_members.workspace_id
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, most_sessions integer default null
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since,
      private.list_sign_in_methods(u.id) as methods
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- Somebody who knew the password could have confirmed their own additions.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      1 as position,
      'password' as kind,
      null::text as id,
      null::text as name,
      null::text as user_agent,
      null::text as provider,
      coalesce(e.created_at, a.created_at) as added_at,
      (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) as last_used_at,
      e.id as event_id
    from account a
    left join lateral (
      select v.id, v.created_at
      from public.security_events v
      where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
      order by v.created_at desc, v.id
      limit 1
    ) e on true
    where a.methods -> 'password' = 'true'::jsonb

    union all
    select
      2, 'identity', i.id::text, i.email, null, i.provider,
      -- Supabase Auth makes a new account and its first identity in one call, at two readings of the clock.
      case when i."createdAt" < a.created_at + interval '500 milliseconds' then a.created_at else i."createdAt" end,
      i."lastSignInAt",
      private.addition_event(a.id, i.id, 'identity_linked')
    from account a
    cross join lateral jsonb_to_recordset(a.methods -> 'identities') as i (
      id uuid, provider text, email text, "createdAt" timestamptz, "lastSignInAt" timestamptz
    )
    where i.provider not in ('email', 'phone')

    union all
    select
      3, 'passkey', p.id::text, nullif(p.name, ''), null, null, p.created_at, p.last_used_at,
      private.addition_event(a.id, p.id, 'passkey_added')
    from account a
    cross join lateral private.list_passkeys(a.id) p

    union all
    select
      4, 'authenticator', f.id::text, nullif(f.friendly_name, ''), null, null, f.created_at, f.last_challenged_at,
      private.addition_event(a.id, f.id, 'authenticator_added')
    from account a
    join auth.mfa_factors f on f.user_id = a.id and f.status = 'verified'

    union all
    select
      5, 'session', s.id::text, s.device, s.user_agent, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => most_sessions) s

    union all
    -- An app that was connected again is as new as its newest credential.
    select
      6, 'app', p.name, p.display_name, null, null, max(h.connected_at), max(h.renewed_at),
      (array_agg(private.sign_in_event(a.id, h.session_id) order by h.connected_at desc))[1]
    from account a
    cross join lateral (
      select s.app_id, s.created_at as connected_at, s.issued_at as renewed_at, (s.proof).session_id
      from private.app_sessions s
      where s.user_id = a.id
        and s.revoked_at is null
        and s.expires_at > now()
        and s.ends_at > now()
        and private.proof_status(s.proof) <> 'over'
      union all
      select t.app_id, t.handed_over_at, t.created_at, (t.proof).session_id
      from ai.app_tokens t
      where t.user_id = a.id
        and t.revoked_at is null
        and case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end > now()
        and private.proof_status(t.proof) <> 'over'
    ) h
    join private.apps p on p.id = h.app_id
    group by p.name, p.display_name
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', concat_ws(':', w.kind, w.id),
        'kind', w.kind,
        'id', w.id,
        'name', w.name,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then s.ip else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null
      ) order by w.position, d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- Its row may be older: of an authenticator since its enrolment began, of a link since the visit to the provider, of a
      -- copied session since the sign-in it was copied from.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
      left join lateral (select host(l.ip) as ip from auth.sessions l where w.kind = 'session' and l.id::text = w.id) s
        on true
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, most_sessions),
        'isNew', exists (
          select
          from auth.sessions l
          where l.user_id = a.id and l.created_at > a.since and (l.not_after is null or l.not_after > now())
            and l.id::text not in (select w.id from ways w where w.kind = 'session')
        )
      )
      from private.count_account_sessions(a.id, most_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

-- Definer: its first part is granted to nobody.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || jsonb_build_object(
    'appHandoffs', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      ) order by t.created_at), '[]')
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id
    ),
    'appSessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at, 'expiresAt', s.expires_at,
        'revokedAt', s.revoked_at
      ) order by s.created_at, s.audience), '[]')
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id
    ),
    'appTokens', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      ) order by t.created_at), '[]')
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id
    )
  )
$$;

create or replace function private.proven_metadata(account auth.users) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    (
      select i.identity_data
      from auth.identities i
      where i.user_id = account.id and private.is_proven_identity(i, account)
      order by i.created_at desc
      limit 1
    ),
    '{}'
  ) || private.own_claims(account.raw_user_meta_data)
$$;

create or replace function private.list_apps() returns jsonb
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
  from private.apps a
$$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- The password changes through the API as well.
create or replace trigger end_password_replacements after update of encrypted_password on auth.users
  for each row when (old.encrypted_password is distinct from new.encrypted_password)
  execute function private.end_password_replacements();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Auth notes when it sent the newest reset link or sign-in code, and mails no other for minutes, also once it was used.
create or replace trigger forget_used_recovery before update of recovery_token on auth.users
  for each row when (old.recovery_token <> '' and new.recovery_token = '')
  execute function private.forget_used_recovery();
  end if;
end
$guard$;

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', u.id,
    'email', u.email,
    'displayName', (select p.display_name from public.profiles p where p.id = u.id),
    'singleSignOn', u.is_sso_user,
    'createdAt', u.created_at,
    'confirmedAt', u.email_confirmed_at,
    'lastSignInAt', u.last_sign_in_at,
    'bannedUntil', case when u.banned_until > now() then u.banned_until end,
    'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = u.id),
    'methods', private.list_sign_in_methods(u.id),
    'factors', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id,
        'name', f.friendly_name,
        'type', f.factor_type,
        'verified', f.status = 'verified',
        'createdAt', f.created_at,
        'lastUsedAt', f.last_challenged_at
      ) order by f.created_at, f.id), '[]')
      from auth.mfa_factors f
      where f.user_id = u.id
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id,
        'createdAt', s.created_at,
        'lastSeenAt', s.last_seen_at,
        'ip', s.ip,
        'device', s.device,
        'userAgent', s.user_agent,
        'method', s.method,
        'aal', s.aal
      ) order by s.last_seen_at desc, s.id), '[]')
      from private.account_sessions(u.id, page_size => 50) s
    ),
    'sessionCount', private.count_account_sessions(u.id)
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

create or replace function private.session_facts(claims jsonb)
  returns table (
    user_id uuid,
    session_id uuid,
    not_after timestamptz,
    email text,
    banned boolean,
    deleted boolean,
    app_metadata jsonb,
    has_verified_factor boolean,
    session_factor_verified boolean,
    session_factor_id uuid,
    approval_second bigint,
    approval_factor_id uuid,
    approval_valid_until timestamptz
  )
  language sql
  stable
  security invoker
as $$
  select
    u.id,
    s.id,
    s.not_after,
    u.email::text,
    coalesce(u.banned_until > now(), false),
    u.deleted_at is not null,
    u.raw_app_meta_data,
    exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
    exists (
      select from auth.mfa_factors f where f.id = s.factor_id and f.user_id = u.id and f.status = 'verified'
    ),
    s.factor_id,
    floor(extract(epoch from a.second_factor_at))::bigint,
    a.approver_factor_id,
    a.valid_until
  from auth.sessions s
  join auth.users u on u.id = s.user_id
  left join lateral (
    select c.second_factor_at, c.approver_factor_id, c.valid_until
    from private.login_challenges c
    join auth.mfa_factors f on f.id = c.approver_factor_id
    where c.bound_session_id = s.id
      and c.user_id = u.id
      and c.kind = 'mfa_mobile'
      and c.status = 'bound'
      and c.valid_until > now()
      and private.is_approval_proven(c, claims ->> 'approval_proof')
      and f.user_id = u.id
      and f.status = 'verified'
    order by c.second_factor_at desc
    limit 1
  ) a on true
  where s.id = private.uuid_or_null(claims ->> 'session_id')
    and u.id = private.uuid_or_null(claims ->> 'sub')
    and (s.not_after is null or s.not_after > now())
$$;

comment on function ai.list_models(jsonb) is
  'The models that a credential may use and that can be reached and charged now, as OpenAI lists them, in the order of '
  'ai.model_order; with model in the call that one alone; or {refused: code}. With paths in the call, [{ path, kind, '
  'providers }], the listing is a text, and endpoints has the paths that serve each of its models: those of its kind that '
  'one of its providers serves.';

comment on function private.account_overview(uuid) is
  'An account as the console shows it: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt, '
  'bannedUntil, infrastructureAdmin, methods (private.list_sign_in_methods), factors, sessions (the 50 refreshed last), '
  'sessionCount (to 1,001) }; null where there is none. No secret.';

comment on function private.begin_attempt(jsonb) is
  'Counts an attempt before it is made: { action, address, email | userId, challenged, overridden, mail, code } gives { '
  'allowed, attemptId, needsBotChallenge, repeated, mailWaitSeconds, mailPauseSeconds } or { allowed: false, reason: '
  'limited | blocked, retryAfterSeconds }. Whoever gets no answer must not try. challenged: the attempt carries a bot challenge''s '
  'token, which the identity backend checks first. overridden: a recovery override lets the email past its own limits, '
  'to those of override_password; those of the address hold. mail: the kind of mail that the attempt sends. Where '
  'mailWaitSeconds is not null, it must not be sent: another one is on its way, or its link is too young to be replaced. code: the mailed code '
  'that is tried, which only a digest is kept of. Where repeated is true, it was tried before and must not be again.';

comment on function private.bind_mobile_approval(jsonb) is
  'Binds an approved challenge to the session that asked, for 12 hours: { id, secretHash, claims, proofKey } → '
  '{ status: bound, validUntil }, or status rejected where it would not help. The claims bring a proof by that key. '
  'Null where it is not approved, or was bound before.';

comment on function private.confirm_access(uuid, uuid, jsonb, text[]) is
  'Removes what the owner chose from the list of private.account_access, signs out what depends on it, and confirms the '
  'rest, in one transaction. removals: { listedAt, listed: [key], remove: [key], sessions: [key] }, listedAt, listed and '
  'sessions (all that the list had) as the owner saw them; other_sessions in remove removes the sessions of that moment '
  'that the list did not have. Answers { outcome: confirmed, removed: [way], endedSessions: [{ id, device, userAgent }] }, or an outcome that '
  'changed nothing: last_method where no usable way to sign in would be left, last_of_required where the account must have an '
  'authenticator, insufficient_aal where the session has yet to prove one, not_found. The session that asks stays.';

comment on function private.consume_recovery_credential(jsonb) is
  '{ tokenHash } or { email, codeHash } and browserHash, in hex, with ip, userAgent, requestId → { outcome: consumed, '
  'credentialId, overrideId, email, userId or null, banned, confirmed, replacedPassword (by an earlier use), waitMs } to '
  'one of many callers, { outcome: rejected } to all others, for every reason, which is recorded. Ends every session, app session and app token of the account and moves '
  'its boundaries to this second; a session that counts is minted after waitMs.';

comment on function private.describe_app(uuid) is
  'An app as people read it: no hash of any secret; secrets are those that still work, workspaces the first 50.';

comment on function private.device_secret_status(private.account_devices, text) is
  'What a secret is to a device: current; previous, good for anything until the current one has arrived; spent, for a '
  'minute, for requests that were on their way when an account was added: it opens nothing, but may add another account, '
  'which the browser then shows with the current secret, and sign the browser out; or unknown.';

comment on function private.find_accounts_matching(text, integer) is
  'Accounts whose email or name contains a text, by email. One or two characters have no trigram, so rare ones read all rows.';

comment on function private.guard_email() is
  'Refuses a change of an account''s email to the address of an unconfirmed identity, or to none where that has none: '
  'mails that reset the password would no longer reach the owner. Also refuses an address that no provider has verified: '
  'it may be somebody else''s, who would confirm it later.';

comment on function private.list_apps() is
  'The registry as people read it, with the first 50 linked workspaces of each app: no hash of any secret.';

comment on function private.read_login_challenge(jsonb) is
  'The state of a challenge, for the session that began it and the one that it minted: { id, kind, secretHash, '
  'sessionId } → { outcome: known, status, expiresAt, validUntil, mintedSessionId }, or outcome not_found (id or secret '
  'wrong) or forbidden (another session''s).';

comment on function private.release_mint_lease(uuid) is
  'Gives a lease back; one that expired and is another''s now stays.';

comment on function private.release_recovery_credential(uuid) is
  'Gives a consumption back to its mail, by the request that has it, if it certainly made no session. A repetition goes '
  'back to its browser only.';

comment on function private.search_workspaces(text, integer) is
  'Workspaces by id, or by a member''s whole email or id; where there is none, by a part of the name. For an empty text those '
  'that may make keys: '
  '[{ id, name, plan, personalUserId, owners, members, liveKeys, approvedAt, approvedBy }].';

comment on function private.session_facts(jsonb) is
  'What the database knows of a token''s session at this moment: no row where it has ended or is another user''s. A mobile '
  'approval is among it only if the claims prove that the browser holds its cookie.';

comment on function private.sweep_account_devices() is
  'Ends sessions that lay in a browser''s vault for 30 days without use and sign-ins whose browser never showed them, '
  'forgets accounts after 90 days, and devices that have expired or hold none. Answers how many devices went.';

comment on function public.session_state() is
  'What must be fresh on every request, in one statement: { alive, sessionId, notAfter, aal, hasVerifiedFactor, '
  'mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned, deleted }, '
  'policy: { state, required, satisfied, byApproval } }, or { alive: false } once the session is over. '
  'state is optional, required, recovery_in_progress or malformed. byApproval: a mobile approval satisfies it and the '
  'session''s own proofs would not. For approvals of release 0.1.0 the server has to check the cookie.';

comment on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) is
  'A page of a workspace''s runs, newest first, for a member with use_ai_studio: { outcome: listed, runs, continueBefore } '
  'or { outcome: not_allowed }. filter names any of from, to (half-open), model, feature, status, keyId, appId, requestId. '
  'With scan_limit, a filter without an index looks at that many runs; continueBefore is then the position to continue '
  'from, and null when no older run can match.';

comment on function ai.listed_price(jsonb) is
  'Returns a price of ai.price_tier as the list of models has it: numbers with all their digits, and their unit in the name.';

comment on function ai.open_prices(text[]) is
  'The prices of now of the routes that lead to a provider of the list, each with its route. Within a route prices are '
  'sorted by sorts_as, the default tier''s first, and min_input_tokens.';

comment on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer, boolean) is
  'What a member with use_ai_studio reads of credits: balances, a page of the ledger, and what was used in the window, '
  'which is what runs were billed and what was deducted without one. By default the last 30 days. A file, which is read '
  'page by page, asks for no totals and no balances.';

comment on function ai.runs_may_exist_before(uuid, jsonb, timestamptz) is
  'Returns the moment before which a workspace may have runs that ai.list_runs'' filter names, by the sums of days: at most '
  'the given one; null when there are none.';

comment on function private.access_state(uuid, uuid) is
  'When the owner last confirmed what can open the account, as private.account_access has it, and the ids of the '
  'unconfirmed additions: { confirmedAt, unconfirmed: [id] }.';

comment on function private.account_access(uuid, uuid, integer) is
  'Lists what can open an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent, provider, '
  'addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }], otherSessions: { key, count, isNew } }. It lists the '
  'most_sessions sessions that were refreshed last, the one that asks among them; otherSessions are the rest, counted to '
  '1,001. kind: password, identity, passkey, authenticator, '
  'session or app. isNew: added since the owner last confirmed the list, or since the account was created; for a session that began with '
  'a password reset or recovery, since such a session last did. Device and '
  'address are null where no event says where it was added. Null without the account.';

comment on function private.account_of_link(text, text) is
  'The account that a mailed link signs in to; no row for a used one. For definers; not granted to a role.';

comment on function private.account_sessions(uuid, uuid, jsonb, integer) is
  'A page of the sessions of an account that are not over: the given one first, then the one refreshed last. before: '
  '{ createdAt, id }, refreshed_at and id of the last one of the page before; all of them without page_size.';

comment on function private.add_account(jsonb) is
  'Keeps a sign-in until the browser shows its secret, for 15 minutes: { deviceId, secret, secretHash (hex), userId, '
  'sessionId, sealed, keyId, tag } → { status: kept | unknown (device) | full }. Idempotent.';

comment on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) is
  'After a recovery has made its session: lets the same browser use the credential again, in case the response is lost '
  '(private.is_recovery_open_to). Until then concurrent callers are refused.';

comment on function private.caller_claims() is
  'The claims of a caller of the Data API, with the proof of a mobile approval that our server sends as a header.';

comment on function private.clear_unproven_metadata() is
  'Begins the first confirmation of an email, and removes metadata that its owner did not write.';

comment on function private.containing(text) is 'A pattern for like: lower-case text that contains a term, with its special characters escaped.';

comment on function private.continue_account_session(jsonb) is
  'Replaces an account''s session by one that continues it without another sign-in, as a QR handoff does: { deviceId, '
  'secret, userId, sessionId, sealed, keyId, tag, inPlaceOf } → { status: kept | unknown (device) | over }. The device''s '
  'secret stays, so a browser that lost the response gets the session from the vault. over: the browser has signed out of '
  'the session that it continues, or has another one.';

comment on function private.count_account_sessions(uuid, integer) is
  'How many sessions of an account are not over, counted as far as most.';

comment on function private.delete_expired_attempts(integer) is
  'Removes up to at_most each of full buckets, expired attempts, expired verified addresses, and blocks a month after their '
  'end. Returns their number; 0 while another removal runs.';

comment on function private.email_of_link(text, text) is
  'The email of the account that a mailed link signs in to, or null. link_type: signup, invite or recovery. Does not use '
  'the link up, and does not check its age.';

comment on function private.end_additions(uuid, uuid[]) is
  'Ends the sign-ins of these accounts that a browser has not shown yet; of all accounts where null. The caller has '
  'locked the accounts. Answers those that were alive: [{ userId, sessionId }].';

comment on function private.end_password_replacements() is
  'Lifts the restriction of private.require_password_replacement once the password is another one.';

comment on function private.export_account(uuid, boolean) is
  'Everything held about an account but its AI runs, without secrets, hashes or codes; null where there is no account. '
  'Without parts, the lists of private.export_account_part are empty.';

comment on function private.export_account_part(uuid, text, jsonb, integer) is
  'A page of a list of private.export_account, oldest first: sessions, securityEvents or ledger (of credits). after is the '
  'last record of the page before.';

comment on function private.export_account_proper(uuid, boolean) is 'The account''s part of private.export_account.';

comment on function private.find_recovery_link_email(bytea, bytea) is
  'The email that a link would sign in, for the page that asks first; null if the link does not work in this browser. It '
  'changes nothing.';

comment on function private.forget_used_recovery() is
  'Lets Auth send the next reset link or sign-in code at once, after the last one was used or voided. Links that our server '
  'generates and uses delay no mail either.';

comment on function private.is_approval_proven(private.login_challenges, text) is
  'Whether a proof shows that our server saw the approval''s cookie within a minute: "<second>.<HMAC-SHA-256 in hex>", the '
  'HMAC by the approval''s key over "<session id> <second>".';

comment on function private.is_proven_identity(auth.identities, auth.users) is
  'Whether a provider has verified that the identity has the account''s email.';

comment on function private.is_recovery_open_to(private.recovery_credentials, bytea) is
  'Whether a browser can use a recovery credential: any browser the first time, and then only the browser that used it, '
  'until it shows the session that it got or that session ends.';

comment on function private.keep_own_claims() is
  'Leaves out of an email identity what the sign-up sent as metadata: it would outlive the first confirmation.';

comment on function private.linked_workspaces(uuid, text[], integer) is
  'A page of the workspaces that an app is linked to, by name. after: name and id of the last one of the page before.';

comment on function private.list_catalogue_models(text, text, text[], integer) is
  'A page of the models whose id or name contains a term, or one model, with its providers, in the order in which they are '
  'asked, and prices, those of the past too; amounts are text, so that no digit is lost. after: sortsAs of the last one of '
  'the page before; all of them without page_size.';

comment on function private.list_failing_models(integer) is
  'Returns the enabled models with the most failed requests at their routes in the last hour: [{ displayName, failed }].';

comment on function private.list_provider_routes(text[], integer) is
  'Returns a page of the enabled models with their routes in order: whether they have a current price, and what failed in the '
  'last seven days. after: sortsAs of the last one of the page before; all of them without page_size.';

comment on function private.list_workspaces_by_app_session(bytea, text[], integer) is
  'A page of the workspaces of the session''s user as public.list_workspaces has it, {workspaces: […]}, or {refused}; all '
  'of them without page_size.';

comment on function private.may_be_unproven(auth.users) is
  'Whether somebody other than the owner of its email may have made an account that was not confirmed yet.';

comment on function private.own_claims(jsonb) is
  'The members that Supabase Auth itself writes into metadata and into email identities.';

comment on function private.personal_workspace_name(text) is
  'What a personal workspace is called until its owner renames it. For definers; not granted to a role.';

comment on function private.proven_metadata(auth.users) is
  'Metadata of an account that was just confirmed: what a provider that verified the email says, and Auth''s own members.';

comment on function private.read_app(text, text[], integer) is
  'An app as private.describe_app has it, with a page of its workspaces (private.linked_workspaces) and its version: the '
  'last line of the audit log about it.';

comment on function private.recovery_code_salt(text, bytea) is
  'The salt under which a code of an email is hashed before it is tried, in hex; made up where there is none to try, so '
  'that the answer is one.';

comment on function private.remove_unproven_password(text, text) is
  'Removes the password of an unconfirmed account before a mailed link confirms it: whoever signed up with the email could '
  'sign in the moment it is confirmed.';

comment on function private.replace_workspaces(uuid) is
  'Closes the workspaces that an account alone owns, takes it out of the others, revokes the keys that it made, and gives it '
  'a new personal workspace; does nothing while its only workspace is as it was made. For definers; not granted to a role.';

comment on function private.require_password_replacement(uuid, uuid) is
  'Restricts a session to the replacement of its account''s password, until that is changed. Also '
  'removes the rows of sessions that have ended.';

comment on function private.secret_after_addition(text, text) is
  'The device secret after an account was added. It takes both secrets: a planted one of either kind is not enough.';

comment on function private.start_over() is
  'Gives an account at the first confirmation of its email what a new account has, and removes what was added before: '
  'profile, sessions, passkeys, authenticators, identities that prove nothing, a pending change of email, app sessions, '
  'workspaces and keys; also the password if it was used.';

comment on function private.sweep_app_credentials(integer) is
  'Removes up to at_most of each kind of app credentials a day after their end. Returns their number; 0 while another sweep '
  'runs.';

comment on function private.sweep_login_challenges(integer) is
  'Removes up to at_most challenges an hour after they expired, and bound approvals once they are no longer valid. Returns '
  'their number; 0 while another sweep runs.';

comment on function private.sweep_oauth_attempts(integer) is
  'Removes up to at_most expired attempts, and as many identities whose link was not finished. Returns their '
  'number; 0 while another sweep runs.';

comment on function private.sweep_recoveries(integer) is
  'Removes up to at_most of each: credentials a day after they expired, guesses that no longer count, and expired leases. '
  'Returns their number; 0 while another sweep runs.';

comment on function private.take_additions(uuid, text, text[]) is
  'Adds the sign-ins whose secrets a browser shows to its accounts; the newest becomes the active one, and the session '
  'that it replaces ends. Answers { status, secret }: the device secret that the shown ones lead to, and what it is to '
  'the device (device_secret_status); only current takes anything. The same call again has the same answer.';

comment on function public.count_role_members(uuid) is
  'How many members each role of a workspace has, counted to 1,001.';

comment on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) is
  'A page of a workspace''s members, owners first, then by name: those whose name contains the search, with a role or an '
  'id where one is given. after: is_owner, sorts_as and user_id of the last one of the page before.';

comment on function public.list_workspaces(text[], integer) is
  'A page of the caller''s workspaces, their personal one first, then by name. after: personal, name and id of the last '
  'one of the page before.';

grant execute on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.listed_price(jsonb) to service_role;

grant execute on function ai.open_prices(text[]) to service_role;

grant execute on function ai.read_credits(uuid, uuid, timestamp with time zone, timestamp with time zone, bigint, integer, boolean) to service_role;

grant execute on function private.access_state(uuid, uuid) to service_role;

grant execute on function private.account_access(uuid, uuid, integer) to service_role;

grant execute on function private.account_sessions(uuid, uuid, jsonb, integer) to service_role;

grant execute on function private.add_account(jsonb) to service_role;

grant execute on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) to service_role;

grant execute on function private.continue_account_session(jsonb) to service_role;

grant execute on function private.count_account_sessions(uuid, integer) to service_role;

grant execute on function private.delete_expired_attempts(integer) to service_role;

grant execute on function private.email_of_link(text, text) to service_role;

grant execute on function private.export_account(uuid, boolean) to service_role;

grant execute on function private.export_account_part(uuid, text, jsonb, integer) to service_role;

grant execute on function private.find_recovery_link_email(bytea, bytea) to service_role;

grant execute on function private.is_recovery_open_to(private.recovery_credentials, bytea) to service_role;

grant execute on function private.linked_workspaces(uuid, text[], integer) to service_role;

grant execute on function private.list_catalogue_models(text, text, text[], integer) to service_role;

grant execute on function private.list_failing_models(integer) to service_role;

grant execute on function private.list_provider_routes(text[], integer) to service_role;

grant execute on function private.list_workspaces_by_app_session(bytea, text[], integer) to service_role;

grant execute on function private.read_app(text, text[], integer) to service_role;

grant execute on function private.recovery_code_salt(text, bytea) to service_role;

grant execute on function private.remove_unproven_password(text, text) to service_role;

grant execute on function private.require_password_replacement(uuid, uuid) to service_role;

grant execute on function private.sweep_app_credentials(integer) to service_role;

grant execute on function private.sweep_login_challenges(integer) to service_role;

grant execute on function private.sweep_oauth_attempts(integer) to service_role;

grant execute on function private.sweep_recoveries(integer) to service_role;

grant execute on function private.take_additions(uuid, text, text[]) to service_role;

grant execute on function public.count_role_members(uuid) to authenticated;

grant execute on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) to authenticated;

grant execute on function public.list_workspaces(text[], integer) to authenticated;
