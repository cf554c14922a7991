-- Generated from supabase/schemas by npm run db:migration.

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
  select u.* into account from auth.users u where u.id = subject_id and u.deleted_at is null for no key update;
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

create or replace function private.end_all_access(subject_id uuid) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  ended integer;
begin
  perform private.lock_app_credentials(subject_id);
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended
  from (select a.id from auth.sessions a where a.user_id = subject_id order by a.id) as s;
  perform private.end_apps_of_account(subject_id);
  return ended;
end
$$;

-- Definer: sessions are Supabase Auth's, which the service role cannot write. Its own sign-out does not say whether it
-- ended any.
create or replace function private.end_other_sessions(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  ended integer;
begin
  perform private.lock_app_credentials(subject_id);
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended
  from (
    select a.id from auth.sessions a where a.user_id = subject_id and a.id <> actor_session_id order by a.id
  ) as s;
  perform private.add_account_event(subject_id, 'other_sessions_revoked', session_id => actor_session_id)
  where ended > 0;
  return ended;
end
$$;

-- Definer: the policy is in the identity backend's table, which the service role cannot write. The actor's id comes from
-- a session that our server verified: the service role is our server alone. So is the switch
-- REQUIRED_MFA_POLICY_ENABLED, which it asks before it calls; nothing in the database knows of it, and enforcement never.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  written jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = subject then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if public.required_mfa_enforcement_version() <> 1 then
    return jsonb_build_object('refused', 'not_enforced');
  end if;
  select * into account from auth.users u where u.id = subject and u.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  state := private.required_mfa_state(account.raw_app_meta_data);
  -- Compare and swap: whoever decided on another policy than this one decides anew.
  if (change ->> 'generation')::bigint
    is distinct from coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) then
    return jsonb_build_object('refused', 'conflict');
  end if;

  if step in ('require', 'make_optional') then
    if state = 'recovery_in_progress' then
      return jsonb_build_object('refused', 'in_progress');
    end if;
    if (state = 'required') = (step = 'require') and state <> 'malformed' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    changes := jsonb_build_object('required', step = 'require');
  elsif step = 'begin_reset' then
    changes := '{"recovery": "in_progress", "signInAgain": true}';
    -- One that waits at the challenge must not open by the challenge's going away.
    perform private.delete_auth_sessions(subject);
    -- Nor may a recovery code, half-used or not, of who was locked out here end the reset.
    delete from private.mfa_recovery_codes c where c.user_id = subject;
  elsif step = 'finish_reset' then
    if state <> 'recovery_in_progress' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    if exists (select from auth.mfa_factors f where f.user_id = subject) then
      return jsonb_build_object('refused', 'factors_left');
    end if;
    changes := '{"recovery": "none"}';
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  written := private.write_required_mfa_policy(account, changes);
  insert into private.admin_audit_log (
    actor_id, action, target_user_id, target, reason, before, after, request_id, ip
  )
  values (
    actor, 'required_mfa.' || step, subject, account.email, change ->> 'reason',
    account.raw_app_meta_data -> 'platform_required_mfa', written, change ->> 'requestId', (change ->> 'ip')::inet
  );
  perform private.add_account_event(subject, told)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, told)
  where e.of_step = step;
  return jsonb_build_object('policy', written);
end
$$;

-- Definer: the policy is in the identity backend's table, which the service role may not write.
create or replace function private.begin_mfa_recovery(subject_id uuid, current_session_id uuid, code_hash text default null)
  returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  begun uuid;
begin
  -- First the account, as every change of a policy does, so that no two wait for each other.
  select * into account from auth.users u where u.id = subject_id for no key update;
  -- A policy that nobody can read is an admin's to mend.
  if not found or private.required_mfa_state(account.raw_app_meta_data) = 'malformed' then
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = coalesce(c.used_at, now()),
      session_id = current_session_id,
      lease_expires_at = now() + interval '30 seconds'
  where c.user_id = subject_id
    and c.completed_at is null
    and (c.used_at is null or c.used_at > now() - interval '24 hours')
    and (c.lease_expires_at is null or c.lease_expires_at <= now())
    and c.id = (
      select d.id
      from private.mfa_recovery_codes d
      where d.user_id = subject_id
        and d.completed_at is null
        and case
          when begin_mfa_recovery.code_hash is null then d.used_at is not null and d.session_id = current_session_id
          else d.code_hash = decode(begin_mfa_recovery.code_hash, 'hex')
        end
      order by d.used_at desc nulls last
      limit 1
    )
  returning c.id into begun;
  if begun is not null then
    -- A session that was stuck at the challenge must not open when the challenge is gone.
    perform private.end_account_session(subject_id, s.id)
    from auth.sessions s
    where s.user_id = subject_id and s.id <> current_session_id;
    perform private.end_apps_of_account(subject_id);
    -- No signInAgain: this session signed in to use the code, and every other one is ended.
    update private.mfa_recovery_codes c
    set generation = (private.write_required_mfa_policy(account, '{"recovery": "in_progress"}') ->> 'generation')::bigint
    where c.id = begun;
  end if;
  return begun;
end
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
  for no key update;
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

-- Definer: the identity backend's tables are not the service role's to lock.
create or replace function private.lock_accounts(user_ids uuid[]) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- As private.lock_app_credentials. Not "for update": Supabase Auth's sign-out locks a session, and then its event's
  -- foreign key locks the account for key share, so the two would deadlock.
  perform from auth.users u where u.id = any (user_ids) order by u.id for no key update;
end
$$;

comment on function private.lock_accounts(uuid[]) is
  'Locks accounts before their browsers, challenges and sessions, so that changes of one account follow each other.';
