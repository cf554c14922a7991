-- Sends notices to apps about logins that have ended (OpenID Connect Back-Channel Logout 1.0). A login is either an app
-- session, with the id of its handoff as sid, or a login of an OpenID client.
--
-- Triggers queue a notice in the transaction that ends the login. They only insert rows and never wait for a lock,
-- because Supabase Auth locks sessions, factors and accounts in its own order. Two concurrent changes can queue two
-- notices for the same login, but private.claim_logout_notices sends only one.

-- Queues a notice for each live login of an account. If a session or factor is given, includes only logins that depend
-- on it. Call it before the change that ends the logins. For definers; not granted to any role.
create or replace function private.queue_logouts(
  subject_id uuid, session_id uuid default null, factor_id uuid default null
) returns void
  language sql volatile security invoker set search_path = ''
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

-- Returns whether a login's proof still holds: its account, session and factor exist, and the account's MFA policy has
-- not changed. If the proof no longer holds, the change that ended it has already queued the logout notice. For
-- definers; not granted to any role.
create or replace function private.is_proof_intact(proof private.mfa_proof) returns boolean
  language sql stable security invoker set search_path = ''
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

-- Queues notices for the logins that a change to a session, a factor or an account is about to end.
-- Definer: Supabase Auth runs this trigger, and its role has no rights in these schemas.
create or replace function private.queue_logouts_before_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
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

-- Queues a notice for a revoked login. The trigger's argument names the column that contains the login's sid.
-- Definer: reads Supabase Auth's tables, which the service role cannot read.
create or replace function private.queue_revoked_login() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  insert into private.logout_notices (app_id, user_id, sid)
  select a.id, new.user_id, (to_jsonb(new) ->> tg_argv[0])::uuid
  from private.apps a
  where a.id = new.app_id and a.backchannel_logout_uri is not null and private.is_proof_intact(new.proof);
  return null;
end
$$;

-- Queues a logout notice for the app. If the app ended the login itself, private.withdraw_logout removes the notice.
create or replace trigger queue_revoked_login after update of revoked_at on private.app_sessions
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.audience = 'app' and new.expires_at > now())
  execute function private.queue_revoked_login('handoff_id');

-- Notifies the client when a login is revoked. If the client ended the login itself, private.withdraw_logout removes
-- the notice.
create or replace trigger queue_revoked_login after update of revoked_at on private.openid_grants
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.ends_at > now())
  execute function private.queue_revoked_login('id');

-- Removes the notices about a login. Called after the app has acknowledged a notice, refused it permanently, or ended
-- the login itself.
create or replace function private.withdraw_logout(ended_sid uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from private.logout_notices n where n.sid = ended_sid
$$;

-- Locks the account, session and factor that an MFA proof names. Call it before private.proof_status when opening a
-- login. A concurrent sign-out or factor removal then waits until the login exists, and queues a notice for it. For
-- definers; not granted to any role.
create or replace function private.hold_proof(proof private.mfa_proof) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(proof.user_id);
  perform from auth.sessions s where s.id = proof.session_id for key share;
  perform from auth.mfa_factors f where f.id = proof.factor_id for key share;
end
$$;

-- Claims the notices that are due, each for only one caller. Schedules the retries after 5 seconds, 30 seconds, 2
-- minutes and 10 minutes, and then every hour. is_last is true if the notice is at least a day old, so this attempt is
-- its last.
create or replace function private.claim_logout_notices(max_notices integer)
  returns table (id uuid, app text, uri text, user_id uuid, sid uuid, attempts smallint, is_last boolean)
  language sql volatile security invoker set search_path = ''
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
    -- Postgres evaluates the array only once. In a join, it could run the subquery again and exceed the limit.
    where n.id = any (array(
      select due.id
      from private.logout_notices due
      join (
        select w.id, row_number() over (partition by w.app_id order by w.next_attempt_at) as position_in_queue
        from private.logout_notices w
        join private.apps a on a.id = w.app_id and a.backchannel_logout_uri is not null
        where w.next_attempt_at <= now()
          and not exists (select from private.logout_notices o where o.sid = w.sid and o.id < w.id)
      ) queued on queued.id = due.id
      -- Checks the due time again, because another caller may have claimed the notice since the subquery read it.
      where due.next_attempt_at <= now()
      -- Alternates between apps, so that an app that does not answer can't delay other apps' notices.
      order by queued.position_in_queue, due.next_attempt_at
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
