-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

drop function ai.book_settlements(ai.settlement[], ai.run_outcome[], timestamp with time zone, timestamp with time zone, boolean);

drop function ai.budget_subject(text, uuid, uuid, uuid, uuid, text);

drop function ai.change_budget(uuid, uuid, text, uuid, text, text, text);

drop function ai.find_runs_of_page(uuid, uuid, jsonb, jsonb, integer, integer);

drop function ai.fits_budget(ai.claim, ai.budgets, date);

drop function ai.key_summaries(uuid, ai.keys[]);

drop function ai.latency_quantiles(numeric);

drop function ai.latency_summary(numeric, numeric);

drop function ai.list_keys(uuid, uuid, jsonb, integer);

drop function ai.list_run_rows(uuid, uuid, jsonb, jsonb, integer, integer);

drop function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer);

drop function ai.platform_usage(date, date, text);

drop function ai.price_refusal(ai.run_request, ai.caller, ai.models, jsonb, numeric, bigint, bigint, bigint);

drop function ai.rate_limit_headers(timestamp with time zone, bigint[]);

drop function ai.read_budgets(uuid, uuid, text[], integer, text[]);

drop function ai.read_keys_page(uuid, uuid, jsonb, integer);

drop function ai.read_run(uuid, uuid, uuid);

drop function ai.read_run_page(uuid, uuid, uuid);

drop function ai.read_runs_page(uuid, uuid, jsonb, jsonb, integer, integer);

drop function ai.read_workspace_home(uuid, uuid, timestamp with time zone, timestamp with time zone, timestamp with time zone, timestamp with time zone, integer, integer, integer, text[]);

drop function ai.reset_budget_alert(text, uuid, uuid);

drop function ai.set_budget(text, uuid, uuid, numeric, text);

drop function ai.spent_since(ai.budgets, date);

drop function ai.sweep_budget_alerts(integer);

drop function ai.token_limit_refusal(ai.caller, bigint, bigint);

drop function ai.write_cost_file_day(uuid, uuid, uuid, ai.cost_file_day);

drop function private.connect_agent(bytea, uuid, text, text, jsonb);

drop function public.list_workspace_roles(uuid);

-- Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent,
-- provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed, proven }], otherSessions: { key,
-- count, isNew } }. Returns null if the account doesn't exist. The entries come from private.account_credentials; an
-- app and a device's login have one entry each. ways contains at most max_sessions sessions: the calling session, then
-- the most recently refreshed. otherSessions counts the remaining sessions, up to 1,001. kind is password, identity,
-- passkey, authenticator, recovery_codes, recovery_mail, session, phone_approval, app, device or agent. isNew is true
-- if the entry was added after the owner last confirmed the list or, without a confirmation, after the account was
-- created. In a session that began with a password reset or recovery, only confirmations by such sessions count. proven
-- is true for the authenticator whose code the calling session entered, which shows that the caller has that app.
-- device and address are null if no event records where the entry was added.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, max_sessions integer default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- A session that began with a password reset or recovery counts only confirmations by such sessions. An intruder
    -- who knew the password could have confirmed their own additions in any other session.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      c.listed_as as key,
      split_part(c.listed_as, ':', 1) as kind,
      nullif(split_part(c.listed_as, ':', 2), '') as id,
      -- A client may act for the account at several resources.
      string_agg(distinct c.name, ', ') as name,
      null::text as user_agent,
      null::text as address,
      max(c.provider) as provider,
      -- An app that was connected several times counts as added at its latest connection.
      max(case
        -- Supabase Auth creates a new account and its first identity in one call, but reads the clock twice.
        when c.kind = 'identity' and c.added_at < a.created_at + interval '500 milliseconds' then a.created_at
        else c.added_at
      end) as added_at,
      max(case when c.kind = 'password' then (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) else c.last_used_at end) as last_used_at,
      (array_agg(case
        when c.kind = 'password' then (
          select v.id
          from public.security_events v
          where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
          order by v.created_at desc, v.id
          limit 1
        )
        when c.kind = 'identity' then private.addition_event(a.id, c.id, 'identity_linked')
        when c.kind = 'passkey' then private.addition_event(a.id, c.id, 'passkey_added')
        when c.kind = 'authenticator' then private.addition_event(a.id, c.id, 'authenticator_added')
        when c.kind = 'device_request' then private.addition_event(a.id, c.id, 'device_approved')
        when c.session_id is null then private.addition_event(a.id, c.source_id, 'device_approved')
        else private.sign_in_event(a.id, c.session_id)
      end order by c.added_at desc, c.id))[1] as event_id
    from account a
    join private.account_credentials c on c.user_id = a.id
    where c.kind <> 'session'
      and c.is_live
      and (c.kind <> 'identity' or c.provider not in ('email', 'phone'))
      -- An approval of the calling session is part of that session.
      and (c.kind <> 'phone_approval' or c.session_id is distinct from actor_session_id)
    group by c.listed_as

    union all
    select
      'session:' || s.id, 'session', s.id::text, s.device, s.user_agent, s.ip, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => max_sessions) s
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', w.key,
        'kind', w.kind,
        'id', w.id,
        'name', case w.kind
          when 'device' then w.name || coalesce(' (' || (e.details ->> 'requester') || ')', '')
          else w.name
        end,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then w.address else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null,
        'proven', w.kind = 'authenticator' and exists (
          select
          from auth.sessions s
          where s.id = actor_session_id and s.user_id = a.id and s.aal = 'aal2' and s.factor_id::text = w.id
        )
      ) order by array_position(array[
        'password', 'identity', 'passkey', 'authenticator', 'recovery_codes', 'recovery_mail', 'session',
        'phone_approval', 'app', 'device', 'agent'
      ], w.kind), d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- The row may be older than the addition: an authenticator's row dates from the start of enrolment, a link's from
      -- the visit to the provider, and a copied session's from the original sign-in.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, max_sessions),
        'isNew', exists (
          select
          from private.account_credentials c
          where c.user_id = a.id and c.kind = 'session' and c.is_live and c.added_at > a.since
            and c.listed_as not in (select w.key from ways w)
        )
      )
      from private.count_account_sessions(a.id, max_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

-- Gives a new account the name that its owner typed at sign-up, and its personal workspace the name that follows.
-- Definer: the service role cannot update profiles.
create or replace function private.name_new_account(subject_id uuid, display_name text) returns void
  language sql volatile security definer set search_path = ''
as $$
  update public.profiles p set display_name = name_new_account.display_name where p.id = subject_id;
  update public.workspaces w
  set name = private.personal_workspace_name(name_new_account.display_name)
  where w.personal_user_id = subject_id;
$$;

-- Returns whether the owner is emailed about events of this kind. Excludes sign-ins, which are emailed only if they
-- come from a new location.
create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'device_approved', 'email_changed',
    'identity_linked', 'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_sign_in',
    'recovery_code_used', 'recovery_codes_created', 'session_revoked', 'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

-- Signs an account out of every device and app and notifies the account's owner. Takes { actor, subject, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself }. Idempotent.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  account record;
  sessions bigint;
  ended_count integer;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = (change ->> 'subject')::uuid then
    return jsonb_build_object('refused', 'oneself');
  end if;
  select u.id, u.email into account from auth.users u where u.id = (change ->> 'subject')::uuid and u.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform private.lock_app_credentials(account.id);
  sessions := private.count_account_sessions(account.id);
  ended_count := private.end_all_access(account.id);
  perform private.add_account_event(account.id, 'signed_out_by_admin') where ended_count > 0;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.sign_out',
    'targetUserId', account.id,
    'target', account.email,
    'before', jsonb_build_object('sessions', sessions),
    'after', jsonb_build_object('sessions', 0)
  ));
  return '{}';
end
$$;

-- Lifts an address block. Takes { actor, block, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found
-- | conflict | expired }. If the block was already lifted, returns { refused: conflict, last: { actorEmail, at } },
-- where last describes the latest change that an admin made to the address. Rate limits still apply, and a lifted block
-- does not lengthen the next one.
create or replace function private.lift_address_block(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  block private.address_blocks;
  target text;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into block from private.address_blocks b where b.id = (change ->> 'block')::uuid for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  target := format('address %s', block.address::inet);
  if block.lifted_at is not null then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if block.blocked_until <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  update private.address_blocks b
  set lifted_at = now(), lifted_by = (change ->> 'actor')::uuid, lift_reason = change ->> 'reason'
  where b.id = block.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'address_block.lift',
    'target', target,
    'before', jsonb_build_object('blockedUntil', block.blocked_until, 'level', block.level),
    'after', jsonb_build_object('blockedUntil', null)
  ));
  return '{}';
end
$$;

-- Gives an account a role in the console, admin or finance, instead of any role that it has. Without a role, withdraws
-- the account's access. Returns changed, unchanged or no_account. Only the operator's command line calls this function,
-- so admins cannot create other admins. Writes each change to the audit log without an actor.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.set_console_role(account_email text, role text, reason text) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  old_role text;
begin
  if role not in ('admin', 'finance') then
    raise exception 'unknown role %', role using errcode = 'invalid_parameter_value';
  end if;
  select * into account
  from auth.users u
  where lower(u.email) = lower(account_email) and u.deleted_at is null and not u.is_sso_user;
  if not found then
    return 'no_account';
  end if;
  -- One change at a time, so that an account never has two roles.
  perform pg_advisory_xact_lock(hashtextextended('console role ' || account.id, 0));
  old_role := private.console_role(account.id);
  if old_role is not distinct from role then
    return 'unchanged';
  end if;
  delete from private.infrastructure_admins a where a.user_id = account.id;
  delete from private.finance_people f where f.user_id = account.id;
  if role = 'admin' then
    insert into private.infrastructure_admins (user_id, reason) values (account.id, set_console_role.reason);
  elsif role = 'finance' then
    insert into private.finance_people (user_id, reason) values (account.id, set_console_role.reason);
  end if;
  insert into private.admin_audit_log (action, target_user_id, target, reason, created_at)
  select c.action, account.id, account.email, set_console_role.reason, clock_timestamp()
  from (values (1, old_role || '.revoke'), (2, role || '.grant')) as c (place, action)
  where c.action is not null
  order by c.place;
  return 'changed';
end
$$;

-- Returns everybody with a role in the console, by email: [{ email, role, reason, createdAt, hasAuthenticator }].
-- Without an authenticator, the console cannot be used.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_console_people() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'email', u.email,
    'role', p.role,
    'reason', p.reason,
    'createdAt', p.created_at,
    'hasAuthenticator', exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified')
  ) order by u.email), '[]')
  from (
    select a.user_id, 'admin' as role, a.reason, a.created_at from private.infrastructure_admins a
    union all
    select f.user_id, 'finance', f.reason, f.created_at from private.finance_people f
  ) p
  join auth.users u on u.id = p.user_id
$$;

-- Grants the role admin, or withdraws any role. Until 0.5.0: the command line of release 0.3.0 calls it.
create or replace function private.set_infrastructure_admin(account_email text, admin boolean, reason text) returns text
  language sql volatile security invoker set search_path = ''
as $$
  select private.set_console_role(account_email, case when admin then 'admin' end, reason)
$$;

-- Returns the infrastructure admins as list_console_people does. Until 0.5.0: the command line and the doctor of release
-- 0.3.0 call it.
create or replace function private.list_infrastructure_admins() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(p order by p ->> 'email'), '[]')
  from jsonb_array_elements(private.list_console_people()) as p
  where p ->> 'role' = 'admin'
$$;

-- Registers an app with its first secret. The change is { actor, name, displayName, kind, origins, scopes, logoutUrl,
-- secretHash (the text of a bytea), reason, requestId, ip }. Returns {} or { refused: forbidden | taken (the name or an
-- origin) | invalid }.
create or replace function private.add_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
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

-- Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The step
-- edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has secretHash (the
-- text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client allows only enable,
-- disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is outdated; last is
-- private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace }.
create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  old_app jsonb;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: an admin who saw another state of the app must decide again.
  old_app := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if old_app ->> 'version' is distinct from change ->> 'version' then
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
        backchannel_logout_uri = change ->> 'logoutUrl'
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
    -- Never extends the life of a secret.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'before', old_app - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

-- Grants credits to a workspace or member, or withdraws credits. A grant first opens a missing account with the plan's
-- initial credits. The change is { actor, payer, ownerId, step: grant | withdraw, amount, reference, description (shown
-- to members in the ledger), reason, requestId, ip }. Returns {}, { repeated: true } if the reference was already used
-- for this amount, or { refused: forbidden | invalid | not_found | oneself | reference_used (for another amount) |
-- insufficient (less is available) }.
-- Definer: the service role cannot change balances.
create or replace function private.change_credits(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  payer text := change ->> 'payer';
  owner_id uuid := (change ->> 'ownerId')::uuid;
  amount numeric := (change ->> 'amount')::numeric;
  direction integer := case change ->> 'step' when 'grant' then 1 when 'withdraw' then -1 end;
  personal uuid;
  account uuid;
  changed jsonb;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if direction is null or amount is null or amount <= 0 or coalesce(change ->> 'reference', '') = '' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  if payer = 'workspace' then
    select w.personal_user_id into personal from public.workspaces w where w.id = owner_id and w.deleted_at is null;
  else
    select u.id into personal from auth.users u where u.id = owner_id and u.deleted_at is null and payer = 'member';
  end if;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if personal = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if direction < 0 then
    select a.id into account from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = owner_id;
    if not found then
      return jsonb_build_object('refused', 'insufficient');
    end if;
  else
    account := ai.open_credit_account(payer, owner_id, coalesce((
      select p.initial_credits from ai.paying_plan(payer, owner_id) p
    ), 0));
  end if;
  changed := ai.change_credits(account, direction * amount, change ->> 'description', change ->> 'reference');
  if changed ->> 'outcome' = 'repeated' then
    return jsonb_build_object('repeated', true);
  elsif changed ->> 'outcome' <> 'changed' then
    return jsonb_build_object('refused', changed ->> 'outcome');
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when direction > 0 then 'credits.grant' else 'credits.withdraw' end,
    'target', payer || ' ' || owner_id,
    'before', jsonb_build_object('balance', trim_scale((changed ->> 'balance')::numeric - direction * amount)::text),
    'after', jsonb_build_object(
      'balance', trim_scale((changed ->> 'balance')::numeric)::text, 'credits', trim_scale(direction * amount)::text,
      'reference', change ->> 'reference', 'description', change ->> 'description'
    )
  ));
  return '{}';
end
$$;

-- Grants a model to a plan or to one workspace, or withdraws the grant. The change is { actor, model, plan or
-- workspace, granted, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | no_grantee | oneself
-- (the actor's personal workspace) | conflict (nothing to change, with last) }.
create or replace function private.set_model_grant(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  plan text := change ->> 'plan';
  workspace uuid := (change ->> 'workspace')::uuid;
  grants boolean := (change ->> 'granted')::boolean;
  grantee jsonb := jsonb_strip_nulls(jsonb_build_object('plan', plan, 'workspace', workspace));
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if exists (select from public.workspaces w where w.id = workspace and w.personal_user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if num_nonnulls(plan, workspace) <> 1
    or plan is not null and not exists (select from ai.plans p where p.id = plan)
    or workspace is not null and not exists (select from public.workspaces w where w.id = workspace and w.deleted_at is null)
  then
    return jsonb_build_object('refused', 'no_grantee');
  end if;
  if grants then
    insert into ai.model_grants (model_id, plan_id, workspace_id) values (model.id, plan, workspace) on conflict do nothing;
  else
    delete from ai.model_grants g
    where g.model_id = model.id and (g.plan_id, g.workspace_id) is not distinct from (plan, workspace);
  end if;
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when grants then 'model.grant' else 'model.withdraw' end,
    'target', 'model ' || model.id,
    'before', grantee || jsonb_build_object('granted', not grants),
    'after', grantee || jsonb_build_object('granted', grants)
  ));
  return '{}';
end
$$;

-- Adds, edits, moves or removes a route. The other routes keep their order. Positions count from 1. The change is {
-- actor, model, version (private.model_version), place (the route's current position, or null to add a route), route,
-- reason, requestId, ip }. route is null to remove the route, otherwise { position, providerId, providerModel, enabled,
-- trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds }. Does not
-- change the provider's prices. Returns {} or { refused: forbidden | not_found | route_taken | invalid }, or { refused:
-- conflict, last (private.last_admin_action) }.
create or replace function private.change_model_route(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  place integer := (change ->> 'place')::integer;
  fields jsonb := nullif(change -> 'route', 'null');
  before jsonb;
  other_routes jsonb;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  select to_jsonb(r) into before from ai.model_routes r where r.model_id = model.id and r.position = place;
  if (place is not null and before is null) or (place is null and fields is null) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select coalesce(jsonb_agg(to_jsonb(r) order by r.position), '[]') into other_routes
  from ai.model_routes r
  where r.model_id = model.id and r.position is distinct from place;
  if jsonb_path_exists(
    other_routes, '$[*] ? (@.provider_id == $provider && @.provider_model == $model)',
    jsonb_build_object('provider', fields -> 'providerId', 'model', fields -> 'providerModel')
  ) then
    return jsonb_build_object('refused', 'route_taken');
  end if;

  begin
    delete from ai.model_routes r where r.model_id = model.id;
    insert into ai.model_routes
    select new_route.*
    from (
      select o.route, row_number() over (order by o.at) as position
      from (
        -- Inserts the route before the other route that holds the requested position.
        select l.route, 2 * l.number as at from jsonb_array_elements(other_routes) with ordinality as l (route, number)
        union all
        select
          jsonb_build_object(
            'provider_id', fields -> 'providerId',
            'provider_model', fields -> 'providerModel',
            'enabled', fields -> 'enabled',
            'trusts_stated_cost', fields -> 'trustsStatedCost',
            'tier_multipliers', (
              select coalesce(jsonb_object_agg(t.key, t.value::numeric), '{}')
              from jsonb_each_text(fields -> 'tierMultipliers') as t
            ),
            'first_byte_seconds', fields -> 'firstByteSeconds',
            'idle_seconds', fields -> 'idleSeconds',
            'total_seconds', fields -> 'totalSeconds'
          ),
          2 * (fields ->> 'position')::integer - 1
        where fields is not null
      ) as o
    ) as n
    cross join jsonb_populate_record(
      null::ai.model_routes, n.route || jsonb_build_object('model_id', model.id, 'position', n.position)
    ) as new_route;
  exception
    when check_violation or not_null_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when before is null then 'model.add_route' when fields is null then 'model.remove_route' else 'model.edit_route' end,
    'target', 'model ' || model.id,
    'before', before,
    'after', (
      select to_jsonb(r)
      from ai.model_routes r
      where r.model_id = model.id and r.provider_id = fields ->> 'providerId' and r.provider_model = fields ->> 'providerModel'
    )
  ));
  return '{}';
end
$$;

-- Edits a model, or adds a disabled model if version is null. The change is { actor, model, version
-- (private.model_version), displayName, ownedBy, studioDefault, contextWindow, outputLimit, defaultOutputLimit, voices, reason, requestId,
-- ip }. A new model also has kind. An edit also has isDefault and defaultOfKind. defaultOfKind is the id of the default
-- model that the admin saw, or null. Returns {} or { refused: forbidden | not_found | id_taken | invalid |
-- default_changed | conflict (with last) }.
create or replace function private.save_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  saved_model ai.models;
  old_default ai.models;
  all_voices text[] := nullif(array(select jsonb_array_elements_text(change -> 'voices')), '{}');
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'version' is not null then
    select * into model from ai.models m where m.id = change ->> 'model' for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model.id) <> change ->> 'version' then
      return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
    end if;
  end if;

  begin
    if model.id is null then
      insert into ai.models (
        id, kind, display_name, owned_by, enabled, studio_default, context_window, output_limit, default_output_limit, voices
      )
      values (
        change ->> 'model', change ->> 'kind', change ->> 'displayName', change ->> 'ownedBy', false,
        (change ->> 'studioDefault')::boolean, (change ->> 'contextWindow')::integer, (change ->> 'outputLimit')::integer,
        (change ->> 'defaultOutputLimit')::integer, all_voices
      )
      on conflict (id) do nothing
      returning * into saved_model;
      if not found then
        return jsonb_build_object('refused', 'id_taken');
      end if;
    else
      -- Unsets only the default that the admin saw. If another model has become the default, the update below violates
      -- the unique index.
      if (change ->> 'isDefault')::boolean then
        update ai.models m set is_default = false
        where m.id = change ->> 'defaultOfKind' and m.id <> model.id and m.kind = model.kind and m.is_default
        returning * into old_default;
      end if;
      update ai.models m
      set
        display_name = change ->> 'displayName',
        owned_by = change ->> 'ownedBy',
        studio_default = (change ->> 'studioDefault')::boolean,
        context_window = (change ->> 'contextWindow')::integer,
        output_limit = (change ->> 'outputLimit')::integer,
        default_output_limit = (change ->> 'defaultOutputLimit')::integer,
        voices = all_voices,
        is_default = (change ->> 'isDefault')::boolean
      where m.id = model.id
      returning * into saved_model;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'default_changed');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when model.id is null then 'model.add' else 'model.edit' end,
    'target', 'model ' || saved_model.id,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(saved_model)
  ));
  if old_default.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || old_default.id,
      'before', jsonb_build_object('is_default', true),
      'after', jsonb_build_object('is_default', false)
    ));
  end if;
  return '{}';
end
$$;

-- Enables a model for callers with a plan that grants it, or disables it for all callers. The change is { actor, model,
-- enabled, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict }. conflict means that
-- there is nothing to change. It comes with last, the last admin action on the model.
create or replace function private.set_model_enabled(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  enable boolean := (change ->> 'enabled')::boolean;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if model.enabled = enable then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  update ai.models m set enabled = enable where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when enable then 'model.enable' else 'model.disable' end,
    'target', 'model ' || model.id,
    'before', jsonb_build_object('enabled', model.enabled),
    'after', jsonb_build_object('enabled', enable)
  ));
  return '{}';
end
$$;

-- Deletes a model that was never enabled, with its routes, prices and grants. The change is { actor, model, version,
-- reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | used | conflict }. conflict comes with
-- last, the last admin action on the model.
create or replace function private.delete_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) <> change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if not private.was_never_enabled(model) then
    return jsonb_build_object('refused', 'used');
  end if;
  delete from ai.model_prices p where p.model_id = model.id;
  delete from ai.models m where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.delete', 'target', 'model ' || model.id, 'before', to_jsonb(model)
  ));
  return '{}';
end
$$;

-- Adds or edits a plan. The change is { actor, plan, seen (the version that the admin saw, or null to add a plan),
-- name, payer, markup, initialCredits, lowCredits, requestsPerMinute, tokensPerMinute, reason, requestId, ip }. Runs in
-- progress keep the markup with which they began. Returns {} or { refused: forbidden | not_found | taken | payer_fixed
-- (a credit account already pays for the plan) | conflict (with last) }.
create or replace function private.save_plan(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  plan_id text := change ->> 'plan';
  old_plan ai.plans;
  saved ai.plans;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'seen' is null then
    insert into ai.plans (id, name, payer) values (plan_id, change ->> 'name', change ->> 'payer') on conflict do nothing;
    if not found then
      return jsonb_build_object('refused', 'taken');
    end if;
  end if;
  select * into old_plan from ai.plans p where p.id = plan_id for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if md5(old_plan::text) <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('plan ' || plan_id));
  end if;
  if old_plan.payer <> change ->> 'payer' and ai.plan_has_payers(old_plan) then
    return jsonb_build_object('refused', 'payer_fixed');
  end if;
  update ai.plans p
  set
    name = change ->> 'name',
    payer = change ->> 'payer',
    markup = (change ->> 'markup')::numeric,
    initial_credits = (change ->> 'initialCredits')::numeric,
    low_credits = (change ->> 'lowCredits')::numeric,
    requests_per_minute = (change ->> 'requestsPerMinute')::integer,
    tokens_per_minute = (change ->> 'tokensPerMinute')::bigint
  where p.id = plan_id
  returning * into saved;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when change ->> 'seen' is null then 'plan.add' else 'plan.edit' end,
    'target', 'plan ' || plan_id,
    'before', case when change ->> 'seen' is not null then to_jsonb(old_plan) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;

-- Moves a workspace to another plan. Each credit account keeps its balance, and calls in progress are charged to the
-- account with which they began. The change is { actor, workspace, seen (the plan that the admin saw), plan, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself (the actor's personal workspace) | no_plan
-- (the plan is unknown, or is already the workspace's plan) | conflict (another admin changed the plan; last is
-- private.last_admin_action) }.
create or replace function private.move_workspace(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  workspace public.workspaces;
  target text;
begin
  if not private.is_infrastructure_admin(actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if workspace.personal_user_id = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  target := 'workspace ' || workspace.id;
  if workspace.plan_id <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  -- Locks the new plan, so that the plan's payer does not change before the workspace moves.
  perform from ai.plans p where p.id = change ->> 'plan' and p.id <> workspace.plan_id for share;
  if not found then
    return jsonb_build_object('refused', 'no_plan');
  end if;
  update public.workspaces w set plan_id = change ->> 'plan' where w.id = workspace.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'plan.move_workspace',
    'target', target,
    'before', jsonb_build_object('plan', workspace.plan_id),
    'after', jsonb_build_object('plan', change ->> 'plan')
  ));
  return '{}';
end
$$;

-- Adds all of the given prices with private.add_model_price, or none of them. The change is { actor, from, prices: [{
-- model, providerId, serviceTier, minInputTokens, latest, inputUsd, … }], reason, requestId, ip }. Returns {} or {
-- refused, model }. refused is too_many (there must be 1 to 500 prices), scheduled (a later price already exists for
-- the same model, provider, service tier and input size) or a refusal of private.add_model_price.
create or replace function private.add_proposed_prices(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  proposed jsonb;
  scope text;
  -- The newest price that the admin saw, by model, provider and number of input tokens.
  seen jsonb := '{}';
  newest text;
  answer jsonb;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if coalesce(jsonb_array_length(change -> 'prices'), 0) not between 1 and 500 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  -- Models are locked in one order, so that two admins cannot deadlock.
  perform from ai.models m
  where m.id in (select p.value ->> 'model' from jsonb_array_elements(change -> 'prices') as p)
  order by m.id
  for update;
  for proposed in select p.value from jsonb_array_elements(change -> 'prices') as p loop
    scope := jsonb_build_array(proposed -> 'model', proposed -> 'providerId', proposed -> 'minInputTokens')::text;
    newest := private.latest_price(
      proposed ->> 'model', proposed ->> 'providerId', (proposed ->> 'minInputTokens')::integer
    );
    -- The first price of a scope must have been based on the newest price in the price book. Adding that first price
    -- changes the newest price, so every later price of the scope must have the same `latest` as the first.
    if proposed ->> 'latest' is distinct from (case when seen ? scope then seen ->> scope else newest end) then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || (proposed ->> 'model')));
    elsif exists (
      select from ai.model_prices p
      where p.model_id = proposed ->> 'model' and p.provider_id = proposed ->> 'providerId'
        and p.service_tier = proposed ->> 'serviceTier' and p.min_input_tokens = (proposed ->> 'minInputTokens')::integer
        and lower(p.valid) > now()
    ) then
      answer := jsonb_build_object('refused', 'scheduled');
    else
      seen := seen || jsonb_build_object(scope, proposed -> 'latest');
      answer := private.add_model_price((change - 'prices') || proposed || jsonb_build_object('latest', newest));
    end if;
    if answer ? 'refused' then
      raise exception using errcode = 'GHP01', message = 'refused', detail = (
        answer || jsonb_build_object('model', proposed -> 'model')
      )::text;
    end if;
  end loop;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics scope = pg_exception_detail;
    return scope::jsonb;
end
$$;

-- Adds a price, which begins immediately unless from has a later time. The new price ends the previous price, and ends
-- when the next price begins. The change is { actor, model, providerId, serviceTier, minInputTokens, latest (id of the
-- newest price that the admin saw, or null), seen (number of prices that the admin saw), from, inputUsd,
-- cachedInputUsd, cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd,
-- requestFeeUsd, reason, requestId, ip }. Returns { from, until } or { refused: forbidden | not_found | no_route | past
-- | taken | conflict (with last) }.
create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  new_price ai.model_prices;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- Serializes price changes of a model.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- A price can't start in the past, because runs keep the prices they were charged at.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- Refuses the change if prices of any service tier have changed since the admin saw them. Also compares the number of
  -- prices, because cancelling an older price leaves the newest one the same.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier)
    or (change ->> 'seen')::integer <> (
      select count(*)
      from ai.model_prices p
      where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier
    ) then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if lower(old.valid) = starts then
    return jsonb_build_object('refused', 'taken');
  end if;
  select min(lower(p.valid)) into ends
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and lower(p.valid) > starts;
  if old.id is not null then
    update ai.model_prices p set valid = tstzrange(lower(old.valid), starts) where p.id = old.id;
  end if;
  insert into ai.model_prices (
    model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million, cached_input_usd_per_million,
    cache_write_usd_per_million, cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million,
    audio_output_usd_per_million, image_input_usd_per_million, request_fee_usd
  )
  values (
    model.id, change ->> 'providerId', served, tier, tstzrange(starts, ends), (change ->> 'inputUsd')::numeric,
    (change ->> 'cachedInputUsd')::numeric, (change ->> 'cacheWriteUsd')::numeric, (change ->> 'cacheWrite1hUsd')::numeric,
    (change ->> 'outputUsd')::numeric, (change ->> 'audioInputUsd')::numeric, (change ->> 'audioOutputUsd')::numeric,
    (change ->> 'imageInputUsd')::numeric, (change ->> 'requestFeeUsd')::numeric
  )
  returning * into new_price;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(new_price)
  ));
  return jsonb_build_object('from', lower(new_price.valid), 'until', upper(new_price.valid));
end
$$;

-- Cancels a price that begins in more than a minute. The previous price then stays in force until the next price
-- begins. The change is { actor, model, price, previous (id of the previous price that the admin saw, or null), until
-- (the end of the price that the admin saw), reason, requestId, ip }. Returns {} or { refused: forbidden | not_found |
-- started | conflict (with last) }.
create or replace function private.cancel_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  price ai.model_prices;
  old ai.model_prices;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into price from ai.model_prices p where p.id = (change ->> 'price')::bigint and p.model_id = model.id;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = price.provider_id and p.service_tier = price.service_tier
    and p.min_input_tokens = price.min_input_tokens and upper(p.valid) = lower(price.valid);
  -- The admin decided based on the prices before and after this price, so neither may have changed since.
  if price.id is null or old.id::text is distinct from change ->> 'previous'
    or upper(price.valid) is distinct from (change ->> 'until')::timestamptz then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  -- Refuses to cancel a price that begins within a minute, because calls could be charged that price before the
  -- cancellation commits. Uses clock_timestamp(), because now() is the time before the wait for the lock.
  if lower_inf(price.valid) or lower(price.valid) <= clock_timestamp() + interval '1 minute' then
    return jsonb_build_object('refused', 'started');
  end if;
  delete from ai.model_prices p where p.id = price.id;
  update ai.model_prices p set valid = tstzrange(lower(old.valid), upper(price.valid)) where p.id = old.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.cancel_price',
    'target', 'model ' || model.id,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;

-- Returns a text that differs after each change of a provider's limits, so that a change made from an older state can be
-- refused.
create or replace function private.provider_limit_version(limits ai.provider_limits) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(concat_ws(' ', coalesce((limits).requests_per_minute, 0), coalesce((limits).tokens_per_minute, 0)))
$$;

-- Sets or removes a provider's limits. The change is { actor, provider, seen (the version that the admin saw),
-- requestsPerMinute, tokensPerMinute, reason, requestId, ip }; null removes a limit. What was taken of a limit stays
-- taken. Returns {} or { refused: forbidden | not_found | conflict (with last) }.
create or replace function private.save_provider_limit(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  provider text := change ->> 'provider';
  requests integer := (change ->> 'requestsPerMinute')::integer;
  tokens bigint := (change ->> 'tokensPerMinute')::bigint;
  before ai.provider_limits;
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- One change at a time, because the row may not exist yet.
  perform pg_advisory_xact_lock(hashtextextended('provider limit ' || provider, 0));
  if jsonb_array_length(private.list_provider_limits(provider)) = 0 then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into before from ai.provider_limits l where l.provider_id = provider;
  if private.provider_limit_version(before) is distinct from change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('provider ' || provider));
  end if;
  if num_nonnulls(requests, tokens) = 0 then
    delete from ai.provider_limits l where l.provider_id = provider;
  else
    insert into ai.provider_limits as l (provider_id, requests_per_minute, tokens_per_minute)
    values (provider, requests, tokens)
    on conflict (provider_id) do update
    set requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'provider.limit',
    'target', 'provider ' || provider,
    'before', jsonb_build_object(
      'requests_per_minute', before.requests_per_minute, 'tokens_per_minute', before.tokens_per_minute
    ),
    'after', jsonb_build_object('requests_per_minute', requests, 'tokens_per_minute', tokens)
  ));
  return '{}';
end
$$;

-- Returns the envelope that holds a call with the given label: one that a person opened for all of the principal's calls,
-- otherwise the one of the label. An envelope without a label holds only the calls that name an envelope.
create or replace function ai.find_envelope(workspace uuid, principal uuid, label text, names_envelope boolean)
  returns setof ai.envelopes
  language sql stable security invoker
as $$
  -- Each lookup has the whole unique key, so that a principal's other envelopes and wrong statistics cost nothing.
  select e.*
  from (values (''), (nullif(find_envelope.label, ''))) as l (label)
  cross join lateral (
    select c.*
    from ai.envelopes c
    where c.principal_id = principal and c.workspace_id = workspace and c.label = l.label and c.superseded_at is null
    offset 0
  ) as e
  where e.label <> '' or e.holds_all or names_envelope and coalesce(find_envelope.label, '') = ''
  order by e.holds_all desc
  limit 1
$$;

-- Returns the number of a principal's open envelopes, at most 1,000. Reads only the newest 2,000, so that many expired ones
-- don't make it slow.
create or replace function ai.open_envelope_count(workspace uuid, principal uuid) returns bigint
  language sql stable security invoker
as $$
  select least(count(*), 1000)
  from (
    select e.id
    from ai.envelopes e
    where e.principal_id = principal and e.workspace_id = workspace and e.superseded_at is null and e.ended_at is null
    order by e.opened_at desc
    limit 2000
  ) as e
  -- Finds each budget by the envelope's id, even if the statistics are wrong: a condition on the workspace could lead to
  -- reading all its budgets.
  cross join lateral (
    select b.ends_at from ai.budgets b where b.scope = 'envelope' and b.subject_id = e.id offset 0
  ) as b
  where b.ends_at > now()
$$;

-- Opens an envelope for a person, for the calls of a key's lineage or for their own. Without a label, it holds all calls
-- of the principal. Takes the place of an envelope that has ended. Returns { outcome: opened | exists | too_many, id }.
-- Callers have checked what the person may do.
create or replace function ai.open_envelope(
  workspace uuid, principal uuid, label text, envelope jsonb, opened_by uuid, key_lineage uuid default null,
  owner uuid default null, ends_at timestamptz default null
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
#variable_conflict use_column
declare
  existing ai.envelopes;
  opened ai.envelopes;
  new_label text := coalesce(open_envelope.label, '');
begin
  -- Serializes people who open one for the same principal. A call that opens the same one waits at the unique key.
  perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'ai.open_envelope', workspace, principal), 0));
  select * into existing
  from ai.envelopes e
  where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null
  for update;
  if found then
    perform from ai.budgets b
    where b.scope = 'envelope' and b.subject_id = existing.id and b.workspace_id = workspace and b.ends_at > now();
    if found then
      return jsonb_build_object('outcome', 'exists', 'id', existing.id);
    end if;
    update ai.envelopes e set superseded_at = now() where e.id = existing.id;
  end if;
  if ai.open_envelope_count(workspace, principal) >= 1000 then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  insert into ai.envelopes (
    workspace_id, principal_id, label, holds_all, key_lineage_id, actor_id, opened_usd, opened_calls, ttl_seconds, opened_by
  )
  values (
    workspace, principal, new_label, new_label = '', key_lineage, coalesce(owner, open_envelope.opened_by),
    (envelope ->> 'usd')::numeric, (envelope ->> 'calls')::bigint, (envelope ->> 'ttl_seconds')::integer,
    open_envelope.opened_by
  )
  on conflict do nothing
  returning * into opened;
  if not found then
    -- A call has opened it since it was read.
    select * into existing
    from ai.envelopes e
    where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null;
    return jsonb_build_object('outcome', 'exists', 'id', existing.id);
  end if;
  insert into ai.budgets (scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at, thresholds)
  values (
    'envelope', opened.id, workspace, 'total', opened.opened_usd, opened.opened_calls, '-infinity',
    coalesce(
      open_envelope.ends_at,
      opened.opened_at + coalesce(opened.ttl_seconds * interval '1 second', interval '30 days')
    ),
    '{100}'
  );
  return jsonb_build_object('outcome', 'opened', 'id', opened.id);
end
$$;

-- Returns open, ended by a person, or expired.
create or replace function ai.envelope_state(envelope ai.envelopes, budget ai.budgets) returns text
  language sql stable security invoker
as $$
  select case
    when (envelope).ended_at is not null then 'ended'
    when (budget).ends_at <= now() then 'expired'
    else 'open'
  end
$$;

-- Returns what an envelope allows and what is left of it. Amounts only if the reader may see cost.
create or replace function ai.envelope_room(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'limit_usd', case when cost_visible then trim_scale((budget).limit_usd) end,
    'spent_usd', case when cost_visible then trim_scale((budget).spent_usd) end,
    'reserved_usd', case when cost_visible then trim_scale((budget).reserved_usd) end,
    'remaining_usd', case
      when cost_visible then trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))
    end,
    'max_calls', (budget).max_calls,
    'calls', (budget).calls,
    'remaining_calls', case when (budget).max_calls is not null then greatest((budget).max_calls - (budget).calls, 0) end,
    'ends_at', ai.utc_text((budget).ends_at)
  ))
$$;

-- Returns an envelope: { id, label, state } and what is left of it.
create or replace function ai.envelope_summary(envelope ai.envelopes, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('id', (envelope).id, 'label', (envelope).label, 'state', ai.envelope_state(envelope, b))
    || ai.envelope_room(b, cost_visible)
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = (envelope).id and b.workspace_id = (envelope).workspace_id
$$;

create or replace view ai.invoice_book_entries with (security_invoker = true) as
  select
    i.workspace_id as book_id, i.app_id, i.id, ai.provider_name(i.provider) as provider, i.provider as spelling,
    i.account_id, i.reference, i.kind, i.replaces, i.amount_usd, i.issued_on, i.period_start, i.period_end,
    i.reviewed_at, i.recorded_at, i.currency, i.exchange_rate, i.net_amount, i.tax_amount, i.total_amount
  from ai.external_provider_invoices i;

-- Returns what an import of a cost file would change: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay,
-- days, dates, accountCount, accounts, added, unchanged, corrected, replaced, remaining, cleared, state, closedMonths } or
-- { outcome: invalid, param, message }. days is the number of daily totals in the file, and dates that of their different
-- days. accounts has the first 50 accounts, and corrected.list the first 100 corrected totals. remaining and cleared count
-- imported days that are missing from the file. Not granted to any role.
create or replace function ai.describe_cost_file(book uuid, app uuid, document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  fault jsonb := coalesce(ai.cost_document_fault(document), ai.cost_services_fault(document));
  days ai.cost_file_day[];
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  return jsonb_build_object(
    'outcome', 'previewed',
    'byCurrency', (
      select jsonb_agg(
        jsonb_build_object(
          'currency', c.currency, 'amount', trim_scale(c.amount)::text, 'amountUsd', trim_scale(round(c.amount_usd, 12))::text
        )
        order by c.currency <> 'USD', c.currency collate "C"
      )
      from (
        select a.currency, sum(a.amount) as amount, sum(a.amount * a.rate) as amount_usd
        from ai.cost_document_amounts(document) a
        group by a.currency
      ) c
    ),
    'replaced', ai.costs_replaced_by_file(book, app, document, days),
    'state', ai.cost_file_state(book, app, document, days),
    'closedMonths', ai.months_closed_to_file(book, days)
  ) || (
    select jsonb_object_agg(k.change, jsonb_build_object(
      'days', (select count(*) from unnest(days) d where d.change = k.change),
      'amountUsd', trim_scale(coalesce((select sum(d.stored_usd) from unnest(days) d where d.change = k.change), 0))::text
    ))
    from unnest('{remaining,cleared}'::text[]) k (change)
  ) || (
    select jsonb_build_object(
      'totalUsd', trim_scale(sum(d.amount_usd))::text,
      'firstDay', min(d.day),
      'lastDay', max(d.day),
      'days', count(*),
      'dates', count(distinct d.day),
      'added', jsonb_build_object(
        'days', count(*) filter (where d.change = 'added'),
        'amountUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'added'), 0))::text
      ),
      'unchanged', jsonb_build_object('days', count(*) filter (where d.change = 'unchanged')),
      'corrected', jsonb_build_object(
        'days', count(*) filter (where d.change = 'corrected'),
        'fromUsd', trim_scale(coalesce(sum(d.stored_usd) filter (where d.change = 'corrected'), 0))::text,
        'toUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'corrected'), 0))::text,
        'list', (
          select coalesce(jsonb_agg(
            jsonb_build_object(
              'accountId', l.account_id, 'day', l.day,
              'fromUsd', trim_scale(l.stored_usd)::text, 'toUsd', trim_scale(l.amount_usd)::text
            )
            order by l.day, l.account_id collate "C"
          ), '[]')
          from (
            select *
            from unnest(days) c
            where c.change = 'corrected'
            order by c.day, c.account_id collate "C"
            limit 100
          ) l
        )
      )
    )
    from unnest(days) d
    where d.change not in ('remaining', 'cleared')
  ) || (
    select jsonb_build_object(
      'accountCount', max(a.account_count),
      'accounts', jsonb_agg(
        jsonb_build_object('accountId', a.account_id, 'days', a.days, 'amountUsd', trim_scale(a.amount_usd)::text)
        order by a.account_id collate "C"
      )
    )
    from (
      select d.account_id, count(*) as days, sum(d.amount_usd) as amount_usd, count(*) over () as account_count
      from unnest(days) d
      where d.change not in ('remaining', 'cleared')
      group by d.account_id
      order by d.account_id collate "C"
      limit 50
    ) a
  );
end
$$;

-- Compares the daily totals of a valid document, by account and day, with the stored records that they correct. Also
-- returns the days in the document's range that earlier files had and the document lacks. The change of such a day is
-- "cleared" if the document's clear is true, and "remaining" otherwise. Not granted to any role.
create or replace function ai.compare_cost_file(book uuid, app uuid, document jsonb) returns ai.cost_file_day[]
  language plpgsql stable security invoker set search_path = ''
  -- Without recent statistics the planner expects one record, and would use a nested loop that compares every day with
  -- every record.
  set enable_nestloop = off set jit = off
as $$
declare
  name text := ai.provider_name(document ->> 'provider');
begin
  return (
    with amounts as (
      select a.account_id, a.day, a.currency, a.rate, sum(a.amount) as amount
      from ai.cost_document_amounts(document) a
      group by a.account_id, a.day, a.currency, a.rate
    ), totals as materialized (
      select
        a.account_id, a.day, ai.account_day_run_id(name, a.account_id, a.day) as external_run_id,
        round(sum(a.amount * a.rate), 12) as amount_usd,
        case when bool_or(a.currency <> 'USD') then jsonb_agg(
          jsonb_build_object('currency', a.currency, 'amount', trim_scale(a.amount)::text) order by a.currency collate "C"
        ) end as original
      from amounts a
      group by a.account_id, a.day
    ), stored as (
      -- Selects the last observed record of each account and run id, as ai.find_cost does.
      select distinct on (e.account_id, e.external_run_id) e.*
      from ai.cost_book_entries e
      where e.book_id = book
        and e.app_id = app
        and e.provider = name
        and e.external_run_id = any (array(select t.external_run_id from totals t))
      order by e.account_id, e.external_run_id, e.observed_at desc, e.id desc
    ), services as materialized (
      select * from ai.cost_document_services(document)
    ), counted as (
      select distinct on (d.account_id, d.occurred_at)
        d.id, d.account_id, d.occurred_at, d.observed_at, d.external_run_id, d.amount_usd, d.revision, d.import_id
      from ai.cost_book_entries d
      where d.book_id = book
        and d.app_id = app
        and d.provider = name
        and d.granularity = 'account_day'
        and d.service is null
        and d.occurred_at >= (select min(t.day) from totals t)::timestamp at time zone 'UTC'
        and d.occurred_at <= (select max(t.day) from totals t)::timestamp at time zone 'UTC'
      order by d.account_id, d.occurred_at, d.observed_at desc, d.id desc
    ), missing as (
      -- Days of this period that an earlier import stated and this file lacks. Such a file may name a wrong account or
      -- leave out services.
      select c.*, (c.occurred_at at time zone 'UTC')::date as day
      from counted c
      where c.import_id is not null
        and c.amount_usd <> 0
        and (c.account_id, c.occurred_at) not in (select t.account_id, t.day::timestamp at time zone 'UTC' from totals t)
    ), compared as (
      select
        row(
          t.account_id, t.day, t.external_run_id, t.amount_usd, t.original, s.id, s.amount_usd, s.revision,
          greatest(s.observed_at, c.observed_at),
          case
            when s.id is null then 'added'
            -- A record is unchanged if it has the same values as the file and is the newest record of its day. A file
            -- without services leaves the record's services as they are.
            when s.id = c.id
              and s.amount_usd = t.amount_usd
              and s.original is not distinct from t.original
              and (f.services is null or f.services is not distinct from k.services) then 'unchanged'
            else 'corrected'
          end
        )::ai.cost_file_day as item
      from totals t
      left join stored s on s.account_id = t.account_id and s.external_run_id = t.external_run_id
      left join counted c
        on c.account_id = t.account_id and c.occurred_at = t.day::timestamp at time zone 'UTC'
      left join services f on f.account_id = t.account_id and f.day = t.day
      left join ai.cost_services k on k.cost_id = s.id and k.revision = s.revision
      union all
      select
        row(
          l.account_id, l.day, l.external_run_id, 0, null, l.id, l.amount_usd, l.revision, l.observed_at,
          case document ->> 'clear' when 'true' then 'cleared' else 'remaining' end
        )::ai.cost_file_day
      from missing l
    )
    select array_agg(o.item order by (o.item).account_id collate "C", (o.item).day) from compared o
  );
end
$$;

-- Returns a hash of the result of ai.compare_cost_file. The hash changes if the file changes, or if the records that
-- the file corrects or replaces change. Not granted to any role.
create or replace function ai.cost_file_state(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns text
  language sql stable security invoker set search_path = ''
as $$
  select encode(sha256(convert_to(concat_ws(
    e'\n', book, app, ai.provider_name(document ->> 'provider'), document -> 'rates',
    ai.costs_replaced_by_file(book, app, document, days),
    document -> 'services', document -> 'serviceCategories',
    case when document ? 'services' then jsonb_path_query_array(document, '$.days[*].parts') end,
    to_jsonb(array(select d from unnest(days) d where d.change <> 'remaining'))
  ), 'UTF8')), 'hex')
$$;

-- Returns the services of an import's current daily totals: { list: [{ service, amountUsd }], others: { services,
-- amountUsd } }. list has the 50 largest amounts, and others the rest, so both add up to the totals. Returns null if the
-- totals have no services. A null service has the lines that name none. Not granted to any role.
create or replace function ai.imported_services(import ai.cost_imports) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with services as (
    select nullif(v.key, '') as service, sum(v.value::numeric) as amount_usd
    from ai.external_provider_costs c
    join ai.cost_services s on s.cost_id = c.id and s.revision = c.revision
    cross join jsonb_each_text(s.services) v
    where c.workspace_id = (import).workspace_id
      and c.app_id = (import).app_id
      and ai.provider_name(c.provider) = (import).provider
      and c.granularity = 'account_day'
      and c.import_id = (import).id
    group by v.key
  ), ranked as (
    select *, row_number() over (order by abs(s.amount_usd) desc, s.service collate "C") as place from services s
  )
  select jsonb_build_object(
    'list', jsonb_agg(
      jsonb_build_object('service', r.service, 'amountUsd', trim_scale(r.amount_usd)::text) order by r.place
    ) filter (where r.place <= 50),
    'others', jsonb_build_object(
      'services', count(*) filter (where r.place > 50),
      'amountUsd', trim_scale(coalesce(sum(r.amount_usd) filter (where r.place > 50), 0))::text
    )
  )
  from ranked r
  having count(*) > 0
$$;

-- Claims a provider's importer for five minutes if its next attempt is due and no attempt is in progress. Returns {
-- lease, lastCompleteDay } or null.
create or replace function private.claim_cost_import(of_provider text) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  claimed jsonb;
begin
  insert into ai.cost_importers (provider) values (of_provider) on conflict do nothing;
  update ai.cost_importers i
  set lease = gen_random_uuid(), leased_until = now() + interval '5 minutes', last_attempt_at = now()
  where i.provider = of_provider and i.next_attempt_at <= now() and coalesce(i.leased_until <= now(), true)
  returning jsonb_build_object('lease', i.lease, 'lastCompleteDay', i.last_complete_day) into claimed;
  return claimed;
end
$$;

-- Stores the costs of a range of days, both inclusive, which the provider has answered completely, and advances the
-- importer to the last one. The document is that of a cost file (import-cost-files.sql), but may have no days. Returns {
-- outcome: stored }, { outcome: lost } if the importer was claimed again, or { outcome: changed } or { outcome: invalid }
-- of ai.store_cost_file. Anything but stored leaves the importer as it is.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.store_imported_costs(
  of_provider text, held_lease uuid, first_day date, last_day date, document jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  days jsonb;
  answer jsonb;
begin
  perform from ai.cost_importers i where i.provider = of_provider and i.lease = held_lease for update;
  if not found then
    return '{"outcome": "lost"}';
  end if;
  days := (document -> 'days') || ai.uncharged_days(of_provider, first_day, last_day, document);
  if days <> '[]' then
    answer := ai.store_cost_file(
      ai.platform_book(), ai.platform_book(), document || jsonb_build_object('days', days), null,
      '{"action": "costs.import_automatically", "reason": "Imported from the provider''s API"}'
    );
    if answer ->> 'outcome' <> 'imported' then
      return answer;
    end if;
  end if;
  update ai.cost_importers i
  set
    missed = case
      when first_day > i.last_complete_day + 1 then i.missed + datemultirange(daterange(i.last_complete_day + 1, first_day))
      else i.missed
    end,
    last_complete_day = greatest(i.last_complete_day, last_day),
    leased_until = now() + interval '5 minutes'
  where i.provider = of_provider;
  return '{"outcome": "stored"}';
end
$$;

-- Returns the days of a range that have a cost in the platform's book and none in the document, as days of a document
-- that set them to 0 and have no services. Only accounts that the document's format has imported before count, so costs
-- that come from files under other account names stay. Not granted to any role.
create or replace function ai.uncharged_days(of_provider text, first_day date, last_day date, document jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'accountId', c.account_id, 'day', c.day, 'amounts', '[{"currency": "USD", "amount": "0"}]'::jsonb,
    'parts', '[]'::jsonb
  )), '[]')
  from (
    select distinct e.account_id, (e.occurred_at at time zone 'UTC')::date as day
    from ai.cost_book_entries e
    where e.book_id = ai.platform_book()
      and e.app_id = ai.platform_book()
      and e.provider = of_provider
      and e.granularity = 'account_day'
      and e.service is null
      and e.amount_usd <> 0
      and e.occurred_at >= first_day::timestamp at time zone 'UTC'
      and e.occurred_at < (last_day + 1)::timestamp at time zone 'UTC'
  ) c
  where exists (
    select
    from ai.cost_book_entries e
    join ai.cost_imports i on i.id = e.import_id
    where e.book_id = ai.platform_book()
      and e.app_id = ai.platform_book()
      and e.provider = of_provider
      and e.granularity = 'account_day'
      and e.account_id = c.account_id
      and i.format = document ->> 'format'
  ) and (c.account_id, c.day) not in (
    select d.value ->> 'accountId', (d.value ->> 'day')::date from jsonb_array_elements(document -> 'days') d
  )
$$;

-- Ends an attempt and sets the time of the next one: in six hours after a success, in an hour if the provider has not
-- answered a completed day yet, and otherwise after a wait that doubles from a minute to six hours and is at least what
-- the provider asked for. An attempt that a person requested meanwhile stays due. Does nothing if the importer was
-- claimed again.
create or replace function private.finish_cost_import(
  of_provider text, held_lease uuid, error text default null, is_late boolean default false, retry_after_seconds integer default 0
) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.cost_importers i
  set
    lease = null,
    leased_until = null,
    last_error = left(error, 500),
    failures = case when error is null or is_late then 0 else i.failures + 1 end,
    next_attempt_at = case
      when i.next_attempt_at > i.last_attempt_at then i.next_attempt_at
      when error is null then now() + interval '6 hours'
      when is_late then now() + interval '1 hour'
      else now() + greatest(
        least(interval '1 minute' * 2 ^ least(i.failures, 9), interval '6 hours'),
        make_interval(secs => least(retry_after_seconds, 86400))
      )
    end
  where i.provider = of_provider and i.lease = held_lease
$$;

-- Returns the days that an importer missed and that the platform's book has no cost for, as ranges. Not granted to any
-- role.
create or replace function ai.missed_days(importer ai.cost_importers) returns datemultirange
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(range_agg(daterange(d.day::date, d.day::date + 1)), '{}')
  from unnest((importer).missed) as r (days)
  cross join generate_series(lower(r.days), upper(r.days) - 1, '1 day') as d (day)
  where not exists (
    select
    from ai.cost_book_entries e
    where e.book_id = ai.platform_book()
      and e.provider = (importer).provider
      and e.occurred_at >= d.day::timestamp at time zone 'UTC'
      and e.occurred_at < (d.day + interval '1 day')::timestamp at time zone 'UTC'
  )
$$;

-- Returns the state of all importers: [{ provider, lastCompleteDay, missed: [{ from, to }], nextAttemptAt, lastAttemptAt,
-- lastError, failures, isRunning }].
-- Definer: functions that read books are not granted to the service role.
create or replace function private.read_cost_importers() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', i.provider,
    'lastCompleteDay', i.last_complete_day,
    'missed', (
      select coalesce(jsonb_agg(jsonb_build_object('from', lower(r.days), 'to', upper(r.days) - 1) order by r.days), '[]')
      from unnest(ai.missed_days(i)) as r (days)
    ),
    'nextAttemptAt', i.next_attempt_at,
    'lastAttemptAt', i.last_attempt_at,
    'lastError', i.last_error,
    'failures', i.failures,
    'isRunning', coalesce(i.leased_until > now(), false)
  ) order by i.provider), '[]')
  from ai.cost_importers i
$$;

-- Records that the days that an importer missed, up to a day, had no costs, for a person who may use the platform's book,
-- and records it in the audit log. The change is { provider, actor, lastDay, reason, requestId, ip }. Returns {} or {
-- refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.confirm_missed_days(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  confirmed datemultirange;
  importer ai.cost_importers;
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  select * into importer from ai.cost_importers i where i.provider = change ->> 'provider' for update;
  confirmed := ai.missed_days(importer) * datemultirange(daterange(null, (change ->> 'lastDay')::date, '[]'));
  if isempty(confirmed) is not false then
    return '{}';
  end if;
  update ai.cost_importers i set missed = i.missed - confirmed where i.provider = importer.provider;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.confirm_missed_days', 'target', 'costs ' || importer.provider,
    'after', jsonb_build_object('daysWithoutCosts', confirmed::text)
  ));
  return '{}';
end
$$;

-- Makes an importer's next attempt due now, for a person who may use the platform's book, and records it in the audit
-- log. The change is { provider, actor, reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.request_cost_import(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  insert into ai.cost_importers (provider) values (change ->> 'provider')
  on conflict (provider) do update set next_attempt_at = now();
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.request_import', 'target', 'costs ' || (change ->> 'provider')
  ));
  return '{}';
end
$$;

-- Returns the first error in the services of a document whose other fields are valid, or null if they are valid or if the
-- document has none. The parts of a day add up to its amounts in each currency. Not granted to any role.
create or replace function ai.cost_services_fault(document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  found_fault record;
  parts jsonb;
  service_count integer;
begin
  if not document ? 'services' then
    return null;
  elsif jsonb_typeof(document -> 'services') <> 'array'
    or jsonb_array_length(document -> 'services') not between 1 and 5000 then
    return ai.cost_fault('services', 'A file has 1 to 5,000 services.');
  end if;
  select s.value as name into found_fault
  from jsonb_array_elements(document -> 'services') s
  where jsonb_typeof(s.value) <> 'string' or not (s.value = '""' or ai.is_external_id(s.value #>> '{}'))
  limit 1;
  if found then
    return ai.cost_fault('services', format('This is not a service: %s', left(found_fault.name::text, 200)));
  end if;
  if jsonb_typeof(coalesce(document -> 'serviceCategories', '{}')) <> 'object' then
    return ai.cost_fault('serviceCategories', 'Categories name a service each.');
  end if;
  select c.key into found_fault
  from jsonb_each(coalesce(document -> 'serviceCategories', '{}')) c
  where jsonb_typeof(c.value) <> 'string' or char_length(c.value #>> '{}') > 64 or not document -> 'services' ? c.key
  limit 1;
  if found then
    return ai.cost_fault('serviceCategories', format('This is not a service with a category: %s', left(found_fault.key, 200)));
  end if;
  select d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where jsonb_typeof(d.value -> 'parts') is distinct from 'array'
  limit 1;
  if found then
    return ai.cost_fault('days', format('%s has no parts by service.', found_fault.day));
  end if;
  parts := jsonb_path_query_array(document, '$.days[*].parts[*]');
  service_count := jsonb_array_length(document -> 'services');
  if jsonb_array_length(parts) > 100000 then
    return ai.cost_fault('services', 'A file has at most 100,000 parts by service. Import a shorter range.');
  end if;
  select p.value as part into found_fault
  from jsonb_array_elements(parts) p
  where not coalesce(
    p.value ->> 0 ~ '^[0-9]{1,5}$'
      and (p.value ->> 0)::integer < service_count
      and p.value ->> 1 ~ '^[A-Z]{3}$'
      and p.value ->> 2 ~ '^-?[0-9]{1,15}(\.[0-9]{1,40})?$',
    false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not the part of a service: %s', left(found_fault.part::text, 200)));
  end if;
  select s.day into found_fault
  from (
    select a.account_id, a.day, a.currency, a.amount
    from ai.cost_document_amounts(document) a
    union all
    select p.account_id, p.day, p.currency, -p.amount
    from ai.cost_document_parts(document) p
  ) s
  group by s.account_id, s.day, s.currency
  having sum(s.amount) <> 0
  limit 1;
  if found then
    return ai.cost_fault('days', format('The services of %s do not add up to its amounts.', found_fault.day));
  end if;
  return null;
end
$$;

-- Returns the parts by service of a valid document, each with the position of its service and the exchange rate from its
-- currency to USD. Returns none if the document has no services. Not granted to any role.
create or replace function ai.cost_document_parts(document jsonb)
  returns table (account_id text, day date, service_at integer, currency text, amount numeric, rate numeric)
  language sql stable security invoker set search_path = ''
as $$
  -- Takes what it needs out of the document once, because each access to a large document reads it again.
  with rates as materialized (
    select document -> 'rates' as of_currency where document ? 'services'
  ), days as materialized (
    select d.value ->> 'accountId' as account_id, (d.value ->> 'day')::date as day, d.value -> 'parts' as parts
    from jsonb_array_elements(document -> 'days') d
  )
  select
    d.account_id, d.day, (p.value ->> 0)::integer, p.value ->> 1, (p.value ->> 2)::numeric,
    case p.value ->> 1 when 'USD' then 1 else (r.of_currency ->> (p.value ->> 1))::numeric end
  from rates r
  cross join days d
  cross join jsonb_array_elements(d.parts) p
$$;

-- Returns the services of each account and day of a valid document, with amounts in USD that add up to the day's total.
-- Each amount is rounded to 12 decimals, as the total is, and the service with the largest amount takes what rounding
-- leaves. Not granted to any role.
create or replace function ai.cost_document_services(document jsonb)
  returns table (account_id text, day date, services jsonb)
  language sql stable security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
  with parts as materialized (
    select p.account_id, p.day, p.service_at, sum(p.amount * p.rate) as exact
    from ai.cost_document_parts(document) p
    group by p.account_id, p.day, p.service_at
  ), remainders as materialized (
    select
      p.account_id, p.day, round(sum(p.exact), 12) - sum(round(p.exact, 12)) as amount_usd,
      (array_agg(p.service_at order by abs(p.exact) desc, p.service_at))[1] as service_at
    from parts p
    group by p.account_id, p.day
  )
  select
    p.account_id, p.day,
    jsonb_object_agg(n.name, trim_scale(
      round(p.exact, 12) + case p.service_at when r.service_at then r.amount_usd else 0 end
    ))
  from parts p
  join remainders r on r.account_id = p.account_id and r.day = p.day
  join jsonb_array_elements_text(document -> 'services') with ordinality n (name, position)
    on n.position = p.service_at + 1
  group by p.account_id, p.day
$$;

-- Stores the services of the days that an import wrote. Not granted to any role.
create or replace function ai.store_cost_services(book uuid, app uuid, new_import_id uuid, document jsonb) returns void
  language sql volatile security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
  insert into ai.cost_services as s (cost_id, revision, services)
  select c.id, c.revision, d.services
  from ai.cost_document_services(document) d
  join ai.external_provider_costs c
    on c.account_id = d.account_id and c.occurred_at = d.day::timestamp at time zone 'UTC'
  -- No index has import_id. These conditions match the index of daily totals.
  where c.workspace_id = book
    and c.app_id = app
    and ai.provider_name(c.provider) = ai.provider_name(document ->> 'provider')
    and c.granularity = 'account_day'
    and c.import_id = new_import_id
  on conflict (cost_id) do update set revision = excluded.revision, services = excluded.services
$$;

-- Rejects services that do not add up to the total that they belong to.
create or replace function ai.reject_wrong_cost_services() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if not exists (
    select
    from ai.external_provider_costs c
    where c.id = new.cost_id
      and c.revision = new.revision
      and c.granularity = 'account_day'
      and c.amount_usd = (select sum(s.value::numeric) from jsonb_each_text(new.services) s)
  ) then
    raise exception 'the services of cost % do not add up to its amount', new.cost_id using errcode = 'check_violation';
  end if;
  return null;
end
$$;

-- Returns the services of imported daily totals, without totals that have none: { outcome: listed, records: [{ id,
-- services: [{ service, category, amountUsd }] }] } or ai.book_refusal. The service is null for lines that name none, and
-- the category is null if the file states none. The amounts of a record add up to its amountUsd.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_cost_services(member_id uuid, workspace uuid, cost_ids uuid[]) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'listed', 'records', coalesce(jsonb_agg(
      jsonb_build_object(
        'id', c.id,
        'services', (
          select jsonb_agg(
            jsonb_build_object(
              'service', nullif(v.key, ''), 'category', i.service_categories ->> v.key, 'amountUsd', v.value
            )
            order by v.key collate "C"
          )
          from jsonb_each_text(s.services) v
        )
      )
    ), '[]'))
    from ai.external_provider_costs c
    join ai.cost_services s on s.cost_id = c.id and s.revision = c.revision
    left join ai.cost_imports i on i.id = c.import_id
    where c.workspace_id = workspace and c.id = any (cost_ids)
  ))
$$;

-- Compares an invoice with a book, for a person to review before the invoice is stored permanently. Returns { outcome:
-- reviewed, reviewedAt, appName, kept, differs, comparison }, { outcome: not_issued_yet }, { outcome: month_closed,
-- months }, { outcome: cannot_replace, param, message }, ai.book_refusal or ai.app_refusal. kept is the stored invoice with the same key, if any. differs
-- lists the fields in which kept is different, except for the time of the review. comparison is ai.invoice_comparison.
-- Writes nothing.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  stored ai.invoice_book_entries;
  replacement ai.invoice_book_entries;
  closed text[];
  fault jsonb;
begin
  if refusal is not null then
    return refusal;
  elsif (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  stored := ai.find_invoice(workspace, app, record, record ->> 'reference');
  replacement := ai.find_replacement(workspace, app, record);
  fault := ai.refused_replacement(workspace, app, record);
  if fault is null and stored.id is null and replacement.id is not null then
    fault := ai.replaced_already(record, replacement);
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'cannot_replace') || fault;
  end if;
  closed := ai.months_closed_to_invoice(workspace, app, record);
  if closed <> '{}' then
    return jsonb_build_object('outcome', 'month_closed', 'months', closed);
  end if;
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when stored.id is not null then ai.invoice_summary(stored) end,
    'differs', case when stored.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(stored, record || jsonb_build_object('reviewedAt', stored.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(workspace, record || jsonb_build_object('appId', app), stored.id)
  );
end
$$;

-- Compares an invoice with its provider's metered and imported cost for the days that the invoice covers
-- (ai.invoice_days), in the scope of ai.reconcile_costs: an invoice with an account is compared with that account, and
-- one without an account with all accounts of the provider. An account's meteredUsd is null if a run of the provider
-- has a cost but names no account. Also returns the total of the scope's other invoices for these days, and the
-- difference between all of the scope's invoices and the imported cost. Ignores replaced invoices. Returns null if the
-- invoice covers more than 366 days. Not granted to any role.
create or replace function ai.invoice_comparison(book uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  of_provider text := ai.provider_name(record ->> 'provider');
  of_account text := record ->> 'accountId';
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Compares no period of more than 366 days, because no report covers such a period.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
    and (c.cost).provider = of_provider
    and (of_account is null or (c.cost).account_id = of_account);
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.provider = of_provider
    and (of_account is null or i.account_id = of_account)
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- Excludes the invoice that the record replaces. The record names that invoice's reference in `replaces`, and both
    -- belong to the same app and account.
    and (i.app_id, i.account_id, i.reference) is distinct from (
      coalesce((record ->> 'appId')::uuid, ai.platform_book()), of_account, record ->> 'replaces'
    )
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(book) then (
      select case
        when of_account is null or coalesce(bool_and(m.account_id is not null) filter (where m.metered <> 0), true)
          then trim_scale(coalesce(sum(m.metered) filter (where of_account is null or m.account_id = of_account), 0))::text
      end
      from (
        select c.account_id, sum(c.metered) as metered
        from ai.metered_costs(book, window_from, window_to) c
        where c.provider = of_provider
        group by c.account_id
      ) m
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
$$;

-- Returns the exchange rate of the latest cost file with which days of an invoice's provider and period were imported,
-- and that file: { outcome: found, rate, import }. The record is { provider, currency, issuedOn, periodStart,
-- periodEnd }. Returns { outcome: none } if no such file has a rate for the currency, or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.find_import_rate(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'found', 'rate', i.rates ->> (record ->> 'currency'), 'import', ai.cost_import_summary(i.id)
    )
    from ai.cost_imports i
    cross join lateral (
      select ai.invoice_days(
        (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
      ) as days
    ) d
    where i.workspace_id = workspace
      and i.app_id = app
      and i.provider = ai.provider_name(record ->> 'provider')
      and i.rates ? (record ->> 'currency')
      and exists (
        select
        from ai.external_provider_costs c
        where c.workspace_id = workspace
          and c.app_id = app
          and ai.provider_name(c.provider) = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
          and c.occurred_at >= lower(d.days)::timestamp at time zone 'UTC'
          and c.occurred_at < upper(d.days)::timestamp at time zone 'UTC'
      )
    order by i.imported_at desc, i.id desc
    limit 1
  ), '{"outcome": "none"}')
$$;

-- Stores the records of a call, each independently of the others. Returns { results }, which has a result of
-- ai.store_provider_cost for each record in the order of the call, or { refused } if the credential does not allow
-- imports.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.import_provider_costs(call jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  item record;
  results jsonb[] := '{}';
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  perform ai.record_key_use(array[caller.key_id]);
  -- Stores the records in a fixed order, so that concurrent batches cannot deadlock.
  for item in
    select r.value as record, r.ordinality::integer as place
    from jsonb_array_elements(call -> 'records') with ordinality as r
    order by
      ai.provider_name(r.value ->> 'provider') collate "C", r.value ->> 'accountId' collate "C",
      r.value ->> 'externalRunId' collate "C", r.ordinality
  loop
    results[item.place] := ai.store_provider_cost(caller.workspace_id, caller.app_id, item.record);
  end loop;
  return jsonb_build_object('results', to_jsonb(results));
end
$$;

-- Stores an invoice that an app sends. Returns the result of ai.store_provider_invoice, or { refused } if the
-- credential does not allow imports.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.import_provider_invoice(call jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  answer jsonb;
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  perform ai.record_key_use(array[caller.key_id]);
  answer := ai.store_provider_invoice(caller.workspace_id, caller.app_id, call -> 'record');
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      caller.workspace_id, caller.app_id, call -> 'record' || jsonb_build_object('id', answer -> 'id'),
      jsonb_build_object('actor', case when caller.source = 'app_token' then caller.actor_id end)
    );
  end if;
  return answer;
end
$$;

-- Stores an invoice that a person enters. Returns the result of ai.store_provider_invoice or { refused: not_allowed |
-- app_not_linked | month_closed }. For the platform's book, the change is { reason, requestId, ip }, which the audit log
-- records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.record_provider_invoice(
  member_id uuid, workspace uuid, app uuid, record jsonb, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  closed text[];
  answer jsonb;
begin
  if refusal is not null then
    return jsonb_build_object('refused', refusal ->> 'outcome');
  end if;
  perform ai.hold_open_months(workspace);
  closed := ai.months_closed_to_invoice(workspace, app, record);
  if closed <> '{}' then
    return jsonb_build_object('refused', 'month_closed', 'months', closed);
  end if;
  answer := ai.store_provider_invoice(workspace, app, record);
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      workspace, app, record || jsonb_build_object('id', answer -> 'id'), change || jsonb_build_object('actor', member_id)
    );
  end if;
  return answer;
end
$$;

-- Adds an invoice to a book. Returns the invoice's id, or null if another invoice already has one of its unique keys: this
-- reference is recorded, or the invoice to replace is already replaced.
create or replace function ai.add_invoice(book uuid, app uuid, record jsonb) returns uuid
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
    reviewed_at, currency, exchange_rate, net_amount, tax_amount, total_amount
  )
  select book, app, r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start,
    r.period_end, r.reviewed_at, r.currency, r.exchange_rate, r.net_amount, r.tax_amount, r.total_amount
  from ai.invoice_of(record) r
  on conflict do nothing
  returning id
$$;

-- Returns a record in the form in which it is stored, with defaults and a normalized provider name. Without a net amount,
-- only the USD amount is known and no currency is stored.
create or replace function ai.invoice_of(record jsonb) returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select r
  from jsonb_populate_record(null::ai.invoice_book_entries, jsonb_build_object(
    'provider', ai.provider_name(record ->> 'provider'),
    'account_id', record ->> 'accountId',
    'reference', record ->> 'reference',
    'kind', coalesce(record ->> 'kind', 'invoice'),
    'replaces', record ->> 'replaces',
    'amount_usd', record -> 'amountUsd',
    'issued_on', record ->> 'issuedOn',
    'period_start', record ->> 'periodStart',
    'period_end', record ->> 'periodEnd',
    'reviewed_at', record ->> 'reviewedAt'
  ) || case when record ->> 'netAmount' is null then '{}' else jsonb_build_object(
    'currency', coalesce(record ->> 'currency', 'USD'),
    'exchange_rate', coalesce(record ->> 'exchangeRate', '1'),
    'net_amount', record -> 'netAmount',
    'tax_amount', record -> 'taxAmount',
    'total_amount', record -> 'totalAmount'
  ) end) r
$$;

-- Returns the fields in which a record differs from the stored invoice with the same key. Returns none for an identical
-- retry.
create or replace function ai.invoice_differences(stored ai.invoice_book_entries, record jsonb) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array_remove(
    array[
      case when (stored).kind <> r.kind then 'kind' end,
      case when (stored).replaces is distinct from r.replaces then 'replaces' end,
      -- A record with only the USD amount differs by amountUsd from an invoice that also states its currency.
      -- Until 0.5.0: servers of 0.3.0 don't know the other names.
      case
        when (stored).amount_usd <> r.amount_usd or r.net_amount is null and (stored).net_amount is not null
        then 'amountUsd'
      end,
      case when r.net_amount is not null and (stored).currency is distinct from r.currency then 'currency' end,
      case when r.net_amount is not null and (stored).exchange_rate is distinct from r.exchange_rate then 'exchangeRate' end,
      case when r.net_amount is not null and (stored).net_amount is distinct from r.net_amount then 'netAmount' end,
      case when r.net_amount is not null and (stored).tax_amount is distinct from r.tax_amount then 'taxAmount' end,
      case when r.net_amount is not null and (stored).total_amount is distinct from r.total_amount then 'totalAmount' end,
      case when (stored).issued_on <> r.issued_on then 'issuedOn' end,
      case when (stored).period_start is distinct from r.period_start then 'periodStart' end,
      case when (stored).period_end is distinct from r.period_end then 'periodEnd' end,
      case when (stored).reviewed_at <> r.reviewed_at then 'reviewedAt' end
    ],
    null
  )
  from ai.invoice_of(record) r
$$;

-- Logs a recorded invoice, whose record has its id: in the workspace's activity log, or in the audit log for the
-- platform's book. The change is { actor, reason, requestId, ip }. An invoice that an app sent has no actor.
create or replace function ai.log_recorded_invoice(book uuid, app uuid, record jsonb, change jsonb) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
begin
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.record_invoice',
      'target', 'platform invoice ' || (record ->> 'id'),
      'after', jsonb_strip_nulls(record - 'id') || jsonb_build_object('provider', name)
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
  perform private.log_workspace_change(
    book, 'provider_invoice.recorded', (record ->> 'id')::uuid, concat_ws(' ', name, record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces',
      'totalAmount', record ->> 'totalAmount',
      'currency', case when record ->> 'totalAmount' is not null then coalesce(record ->> 'currency', 'USD') end
    ))
  );
end
$$;

-- Attaches a document, sent as base64, to an invoice of a book. Returns { outcome: attached }, { outcome: unchanged } if
-- this document is already attached, { outcome: has_document | not_found }, { outcome: storage_full, maxBytes } or
-- ai.book_refusal. The caller has validated the document. For the platform's book, the change is { reason, requestId,
-- ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.attach_invoice_document(
  member_id uuid, workspace uuid, invoice_id uuid, file_name text, content text, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace);
  bytes bytea := decode(attach_invoice_document.content, 'base64');
  invoice ai.invoice_book_entries;
  stored ai.invoice_documents;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- One document of a book at a time, because the limit is for their total size.
  perform pg_advisory_xact_lock(hashtextextended('ai.attach_invoice_document ' || workspace, 0));
  select * into invoice
  from ai.invoice_book_entries i
  where i.id = attach_invoice_document.invoice_id and i.book_id = workspace;
  if invoice.id is null then
    return '{"outcome": "not_found"}';
  end if;
  select * into stored from ai.invoice_documents d where d.invoice_id = invoice.id;
  if stored.invoice_id is not null then
    return jsonb_build_object('outcome', case stored.sha256 when sha256(bytes) then 'unchanged' else 'has_document' end);
  end if;
  if octet_length(bytes) > ai.max_book_document_bytes() - (
    select coalesce(sum(d.size_bytes), 0) from ai.invoice_documents d where d.workspace_id = workspace
  ) then
    return jsonb_build_object('outcome', 'storage_full', 'maxBytes', ai.max_book_document_bytes());
  end if;
  insert into ai.invoice_documents (invoice_id, workspace_id, file_name, sha256, content, attached_by)
  values (invoice.id, workspace, attach_invoice_document.file_name, sha256(bytes), bytes, member_id);
  perform ai.log_attached_document(invoice, change || jsonb_build_object('actor', member_id));
  return '{"outcome": "attached"}';
end
$$;

-- Returns the maximum total size of a book's documents: 500 MiB.
create or replace function ai.max_book_document_bytes() returns bigint
  language sql immutable security invoker set search_path = ''
as $$
  select 500 * 1024 * 1024::bigint
$$;

-- Logs an attached document in the workspace's activity log, or in the audit log for the platform's book. Not granted
-- to any role.
create or replace function ai.log_attached_document(invoice ai.invoice_book_entries, change jsonb) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  document jsonb := ai.invoice_document_summary((invoice).id) - 'attachedAt';
begin
  if (invoice).book_id = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.attach_document',
      'target', 'document of platform invoice ' || (invoice).id,
      'after', document || jsonb_build_object('provider', (invoice).provider, 'reference', (invoice).reference)
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', change ->> 'actor', true);
  perform private.log_workspace_change(
    (invoice).book_id, 'provider_invoice.document_attached', (invoice).id,
    concat_ws(' ', (invoice).provider, (invoice).reference), document
  );
end
$$;

-- Returns an invoice's document with its content as base64: { outcome: read, fileName, content }, { outcome: not_found }
-- or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_invoice_document(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'read', 'fileName', d.file_name, 'content', encode(d.content, 'base64'))
    from ai.invoice_documents d
    where d.invoice_id = read_invoice_document.invoice_id and d.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns an invoice's document without its content, or null: { fileName, sizeBytes, sha256, attachedAt }.
create or replace function ai.invoice_document_summary(of_invoice_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'fileName', d.file_name,
    'sizeBytes', d.size_bytes,
    'sha256', encode(d.sha256, 'hex'),
    'attachedAt', ai.utc_text_microseconds(d.attached_at)
  )
  from ai.invoice_documents d
  where d.invoice_id = of_invoice_id
$$;

-- Returns who attached an invoice's document. An admin is named by email address. Returns null without a document, and
-- once the person is deleted.
create or replace function ai.document_attacher(invoice ai.invoice_book_entries) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (invoice).book_id = ai.platform_book()
      then private.last_admin_action('document of platform invoice ' || (invoice).id) ->> 'actorEmail'
    else (
      select p.display_name
      from ai.invoice_documents d
      join public.profiles p on p.id = d.attached_by
      where d.invoice_id = (invoice).id
    )
  end
$$;

-- Returns who recorded an invoice (ai.invoice_recorder), and the reason given for the console's audit log: { recordedBy,
-- reason }. recordedBy is null once the person or app is deleted. Invoices of a workspace's book need no reason.
create or replace function ai.invoice_entry(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'recordedBy', ai.invoice_recorder(invoice) ->> 'name',
    'reason', case when (invoice).book_id = ai.platform_book() then (
      select l.reason
      from private.admin_audit_log l
      where l.target = 'platform invoice ' || (invoice).id and l.action = 'books.record_invoice'
      order by l.created_at, l.id
      limit 1
    ) end
  )
$$;

-- Returns what one of an invoice's amounts adds to totals, like ai.invoice_amount.
create or replace function ai.invoice_part(invoice ai.invoice_book_entries, amount numeric, within daterange) returns numeric
  language sql immutable security invoker set search_path = ''
as $$
  -- Computes a range's share as the difference of two rounded running totals, so that the shares of adjacent ranges add
  -- up to the amount.
  select case (invoice).kind when 'credit_note' then -1 else 1 end
    * case
      when within is null then amount
      when isempty(d.days * within) then 0
      else
        round(amount * (upper(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
        - round(amount * (lower(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
    end
  from (select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) as days) d
$$;

-- Returns the calls of a day's ended runs that OpenRouter may have charged. generation_id is null if the gateway received
-- none. metered_usd is the run's cost in the books of OpenRouter: 0 if the run is billed by another provider. Not granted
-- to any role.
create or replace function ai.generation_calls(of_day date) returns table (
  run_id uuid, created_at timestamptz, workspace_id uuid, model_id text, metered_usd numeric, generation_id text
)
  language sql stable security invoker set search_path = ''
as $$
  with ended as not materialized (
    select r.id, r.created_at, r.workspace_id, r.model_id, r.cost_usd, r.swept, r.attempts, p.id as provider_id,
      ai.billing_provider(r.billing_name, p.id) = 'openrouter' as is_billed
    from ai.runs r
    cross join lateral (select ai.run_provider(r.routes, r.route) as id) p
    where r.created_at >= of_day::timestamp at time zone 'UTC'
      and r.created_at < (of_day + 1)::timestamp at time zone 'UTC'
      and r.status <> 'running'
  ), providers as (
    select e.provider_id as id from ended e where e.is_billed
    union
    -- The provider of failed attempts, if no run of the day ended with it.
    select 'openrouter' where not exists (select from ended e where e.provider_id = 'openrouter')
  )
  select distinct on (e.created_at, e.id, coalesce(i.generation_id, a.place::text))
    e.id, e.created_at, e.workspace_id, e.model_id, case when e.is_billed then e.cost_usd else 0 end, i.generation_id
  from ended e
  left join lateral rows from (jsonb_to_recordset(e.attempts) as (
    provider text, failure text, upstream_request_id text, may_have_charged boolean
  )) with ordinality as a (provider, failure, upstream_request_id, may_have_charged, place)
    on a.provider in (select p.id from providers p) and a.failure is distinct from 'skipped'
  cross join lateral (
    select case when a.upstream_request_id ~ '^gen-.' then a.upstream_request_id end as generation_id
  ) i
  where i.generation_id is not null
    or a.provider is not null and (
      a.failure is null or a.may_have_charged or a.failure in ('cancelled', 'timeout', 'connection_lost')
    )
    or a.provider is null and e.is_billed and e.cost_usd > 0
    -- Runs that the sweep closed state no billing name.
    or a.provider is null and e.swept and e.provider_id in (select p.id from providers p)
$$;

-- Returns a day's runs at OpenRouter with what OpenRouter answered about their calls. A run with several calls is
-- compared as a whole, because its cost is. state is pending (not all calls have an answer), unnamed (a call has no
-- generation id), unknown (OpenRouter doesn't know a call), differs or equal. Not granted to any role.
create or replace function ai.compare_generations(of_day date) returns table (
  run_id uuid, created_at timestamptz, workspace_id uuid, model_id text, metered_usd numeric, charged_usd numeric,
  own_key_usd numeric, calls bigint, unnamed bigint, pending bigint, unknown bigint, state text
)
  language sql stable security invoker set search_path = ''
as $$
  select s.*, case
    when s.pending > 0 then 'pending'
    when s.unnamed > 0 then 'unnamed'
    -- Runs are stored with 12 decimals.
    when abs(s.charged_usd - s.metered_usd) < 0.000000000001 then 'equal'
    when s.unknown > 0 then 'unknown'
    else 'differs'
  end
  from (
    select c.run_id, c.created_at, c.workspace_id, c.model_id, c.metered_usd,
      coalesce(sum(g.cost_usd), 0) as charged_usd, sum(g.own_key_usd) as own_key_usd, count(*) as calls,
      count(*) filter (where c.generation_id is null) as unnamed,
      count(*) filter (where c.generation_id is not null and g.run_id is null) as pending,
      count(*) filter (where g.run_id is not null and g.cost_usd is null) as unknown
    from ai.generation_calls(of_day) c
    left join ai.generation_costs g on g.run_id = c.run_id and g.generation_id = c.generation_id
    group by c.run_id, c.created_at, c.workspace_id, c.model_id, c.metered_usd
  ) s
$$;

-- Stores OpenRouter's answers about calls: [{ runId, generationId, costUsd (null: not known), ownKeyUsd }]. A cost stays
-- if OpenRouter no longer knows the call. The change is { reason, requestId, ip }, which the audit log records. Returns {
-- outcome: stored } or ai.statement_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.store_generation_costs(
  member_id uuid, workspace uuid, of_day date, answers jsonb, change jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
begin
  if refusal is not null then
    return refusal;
  end if;
  insert into ai.generation_costs as g (run_id, generation_id, cost_usd, own_key_usd, observed_at)
  select a."runId", a."generationId", a."costUsd", a."ownKeyUsd", clock_timestamp()
  from jsonb_to_recordset(answers) as a ("runId" uuid, "generationId" text, "costUsd" numeric, "ownKeyUsd" numeric)
  -- Concurrent calls lock the rows in the same order.
  order by a."runId", a."generationId"
  on conflict (run_id, generation_id) do update set
    cost_usd = coalesce(excluded.cost_usd, g.cost_usd),
    own_key_usd = case when excluded.cost_usd is null then g.own_key_usd else excluded.own_key_usd end,
    observed_at = excluded.observed_at;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'costs.request_generations',
      'target', 'costs openrouter ' || of_day,
      'after', jsonb_build_object('calls', jsonb_array_length(answers))
    )
  );
  return '{"outcome": "stored"}';
end
$$;

-- Compares a day's runs with OpenRouter's answers: { outcome: compared, asOf, states: [{ state, runs, calls, named,
-- pending, unknown, meteredUsd, chargedUsd, ownKeyUsd }], runs: [{ runId, createdAt, workspaceId, workspaceName (null
-- once deleted), modelId, state, calls, meteredUsd, chargedUsd, differenceUsd, ownKeyUsd }], total } or
-- ai.statement_refusal. runs is a part of the total runs that are neither equal nor pending, the largest difference first
-- within a state. ownKeyUsd is null without calls that another provider charged.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_generation_costs(
  member_id uuid, workspace uuid, of_day date, max_runs integer, skipped_runs integer default 0
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
begin
  if refusal is not null then
    return refusal;
  end if;
  return (
    with compared as materialized (
      select * from ai.compare_generations(of_day)
    ), page as (
      select c.*, array_position(array['differs', 'unknown', 'unnamed'], c.state) as rank
      from compared c
      where c.state in ('differs', 'unknown', 'unnamed')
      order by rank, abs(c.charged_usd - c.metered_usd) desc, c.run_id
      limit max_runs offset skipped_runs
    )
    select jsonb_build_object(
      'outcome', 'compared',
      'asOf', now(),
      'total', (select count(*) from compared c where c.state in ('differs', 'unknown', 'unnamed')),
      'states', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'state', s.state,
          'runs', s.runs,
          'calls', s.calls,
          'named', s.calls - s.unnamed,
          'pending', s.pending,
          'unknown', s.unknown,
          'meteredUsd', trim_scale(s.metered_usd)::text,
          'chargedUsd', trim_scale(s.charged_usd)::text,
          'ownKeyUsd', trim_scale(s.own_key_usd)::text
        ) order by array_position(array['differs', 'unknown', 'unnamed', 'pending', 'equal'], s.state)), '[]')
        from (
          select c.state, count(*) as runs, sum(c.calls) as calls, sum(c.unnamed) as unnamed, sum(c.pending) as pending,
            sum(c.unknown) as unknown, sum(c.metered_usd) as metered_usd, sum(c.charged_usd) as charged_usd,
            sum(c.own_key_usd) as own_key_usd
          from compared c
          group by c.state
        ) s
      ),
      'runs', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'runId', p.run_id,
          'createdAt', p.created_at,
          'workspaceId', p.workspace_id,
          'workspaceName', w.name,
          'modelId', p.model_id,
          'state', p.state,
          'calls', p.calls,
          'meteredUsd', trim_scale(p.metered_usd)::text,
          'chargedUsd', trim_scale(p.charged_usd)::text,
          'differenceUsd', trim_scale(p.charged_usd - p.metered_usd)::text,
          'ownKeyUsd', trim_scale(p.own_key_usd)::text
        ) order by p.rank, abs(p.charged_usd - p.metered_usd) desc, p.run_id), '[]')
        from page p
        left join public.workspaces w on w.id = p.workspace_id
      )
    )
  );
end
$$;

-- Replaces the hours of a provider's UTC day. hours are [{ hour, keyId, model, requests, inputTokens, cachedInputTokens,
-- cacheWriteTokens, outputTokens }], of which those of the same hour, key and model are added up. The change is { actor,
-- reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.store_usage_hours(of_provider text, of_day date, hours jsonb, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  -- Locks the day, so that concurrent answers replace each other.
  insert into ai.usage_days (provider, day) values (of_provider, of_day)
  on conflict (provider, day) do update set observed_at = now();
  delete from ai.usage_hours h where h.provider = of_provider and h.day = of_day;
  insert into ai.usage_hours (
    provider, day, hour, key_id, model, requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens
  )
  select of_provider, of_day, h."hour", h."keyId", h."model", sum(h."requests"), sum(h."inputTokens"),
    sum(h."cachedInputTokens"), sum(h."cacheWriteTokens"), sum(h."outputTokens")
  from jsonb_to_recordset(hours) as h (
    "hour" timestamptz, "keyId" text, "model" text, "requests" bigint, "inputTokens" bigint, "cachedInputTokens" bigint,
    "cacheWriteTokens" bigint, "outputTokens" bigint
  )
  group by h."hour", h."keyId", h."model";
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.fetch_usage_hours', 'target', format('usage %s %s', of_provider, of_day)
  ));
  return '{}';
end
$$;

-- Marks a provider's API key as used only by this gateway, or removes the mark, and records it in the audit log. The
-- change is { actor, reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.mark_gateway_key(of_provider text, of_key text, marked boolean, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  if marked then
    insert into ai.gateway_provider_keys (provider, key_id) values (of_provider, of_key) on conflict do nothing;
  else
    delete from ai.gateway_provider_keys k where k.provider = of_provider and k.key_id = of_key;
  end if;
  if found then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', case when marked then 'costs.mark_gateway_key' else 'costs.unmark_gateway_key' end,
      'target', format('provider key %s %s', of_provider, of_key)
    ));
  end if;
  return '{}';
end
$$;

-- Returns the calls that the gateway made to a provider (a result of ai.billing_provider) in runs that began in a range,
-- one row for each run and provider model. requests are those whose tokens are counted. note is closed, estimated,
-- uncounted if a failed request may have been charged without counts, or null. Not granted to any role.
create or replace function ai.provider_calls(of_provider text, range_start timestamptz, range_end timestamptz)
  returns table (
    run_id uuid, created_at timestamptz, workspace_id uuid, model text, cost_usd numeric, note text, requests bigint,
    input_tokens bigint, cached_input_tokens bigint, cache_write_tokens bigint, output_tokens bigint
  )
  language sql stable security invoker set search_path = ''
as $$
  with found_runs as materialized (
    select r.id, r.created_at, r.workspace_id, r.cost_usd, r.billing_name, r.swept, r.usage_source, r.input_tokens,
      r.cached_input_tokens, r.cache_write_tokens + r.cache_write_1h_tokens as cache_write_tokens, r.output_tokens,
      ai.run_provider(r.routes, r.route) as provider_id,
      coalesce(
        case when (r.routes -> (r.route - 1) ->> 'position')::smallint = r.route then r.routes -> (r.route - 1) ->> 'model' end,
        jsonb_path_query_first(
          r.routes, '$[*] ? (@.position == $position).model', jsonb_build_object('position', coalesce(r.route, 1))
        ) #>> '{}',
        r.model_id
      ) as model,
      r.input_tokens + r.output_tokens > 0
        or coalesce(r.attempts @? '$[*] ? (@.status == 200 && !exists(@.failure))', false) as is_counted,
      coalesce(r.attempts @? '$[*].charged', false) as is_split,
      -- Most runs need no attempts, which are large.
      case when r.attempts @? '$[*] ? (exists(@.charged) || exists(@.may_have_charged))' then r.attempts end as attempts
    from ai.runs r
    where r.created_at >= range_start and r.created_at < range_end
  ), provider_ids as (
    -- Runs that the sweep closed, and requests before the last one, state no billing name.
    select of_provider as id
    union
    select r.provider_id
    from found_runs r
    where r.billing_name is not null and ai.provider_name(r.billing_name) = of_provider
  ), counted as (
    select r.id, r.provider_id, r.model, 1 as requests, r.input_tokens, r.cached_input_tokens, r.cache_write_tokens,
      r.output_tokens, false as is_uncounted
    from found_runs r
    where not r.is_split and r.is_counted
    union all
    select r.id, a.provider, a.model, case when a.charged is null then 0 else 1 end,
      coalesce((a.charged ->> 'input_tokens')::bigint, 0), coalesce((a.charged ->> 'cached_input_tokens')::bigint, 0),
      coalesce((a.charged ->> 'cache_write_tokens')::bigint, 0) + coalesce((a.charged ->> 'cache_write_1h_tokens')::bigint, 0),
      coalesce((a.charged ->> 'output_tokens')::bigint, 0), a.charged is null
    from found_runs r
    cross join lateral rows from (
      jsonb_to_recordset(r.attempts) as (provider text, model text, charged jsonb, may_have_charged boolean)
    ) with ordinality as a (provider, model, charged, may_have_charged, place)
    where a.charged is not null
      or a.may_have_charged
        and (a.place < jsonb_array_length(r.attempts) or not r.is_split and r.input_tokens + r.output_tokens = 0)
  )
  select r.id, r.created_at, r.workspace_id, c.model, r.cost_usd,
    case
      when r.swept then 'closed'
      when ai.is_estimated(r.usage_source, r.swept) then 'estimated'
      when bool_or(c.is_uncounted) then 'uncounted'
    end,
    sum(c.requests)::bigint, sum(c.input_tokens)::bigint, sum(c.cached_input_tokens)::bigint,
    sum(c.cache_write_tokens)::bigint, sum(c.output_tokens)::bigint
  from found_runs r
  join counted c on c.id = r.id
  where case
    when r.billing_name is not null and c.provider_id = r.provider_id then ai.provider_name(r.billing_name) = of_provider
    else c.provider_id in (select p.id from provider_ids p)
  end
  group by r.id, r.created_at, r.workspace_id, c.model, r.cost_usd, r.swept, r.usage_source
$$;

-- Returns the name of ours under which a provider's model was called: the same name, otherwise the longest one that the
-- provider's name continues with a date, with or without -latest. Returns null if there is none. Not granted to any role.
create or replace function ai.match_model(name text, names text[]) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select n.name
  from (select o as name, regexp_replace(o, '-latest$', '') as base from unnest(names) o) n
  where n.name = match_model.name
    or starts_with(match_model.name, n.base || '-')
      and substr(match_model.name, length(n.base) + 2) ~ '^(\d{4}|\d{8}|\d{4}-\d{2}-\d{2})$'
  order by n.name = match_model.name desc, length(n.base) desc, length(n.name)
  limit 1
$$;

-- Compares a provider's UTC day by hour and model: { observedAt, keys: [{ keyId, isMarked, isCounted,
-- inputTokens, outputTokens }], lines: [{ hour, model, isKnown, differs, calls, stated, metered, keys }], calls: { hour, model, total,
-- records } }, or { refused: forbidden }. observedAt is null if the provider was not asked. If keys are marked, stated is
-- the sum of marked keys only. isKnown says whether a call of the day used the model. calls lists at most page_size calls
-- of a line: the given one, otherwise the differing line with calls and the largest difference.
-- Definer: the service role cannot check who may use a book.
create or replace function private.compare_usage_hours(
  actor uuid, of_provider text, of_day date, of_hour timestamptz default null, of_model text default null,
  skip integer default 0, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- Days are in UTC.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
declare
  answer jsonb;
begin
  if ai.book_refusal(actor, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  with calls as materialized (
    select date_trunc('hour', c.created_at) as hour, c.*
    from ai.provider_calls(of_provider, of_day::timestamptz, (of_day + 1)::timestamptz) c
  ), known as materialized (
    select array(select distinct c.model from calls c) as names
  ), models as materialized (
    select h.model, ai.match_model(h.model, k.names) as own_model
    from (select distinct h.model from ai.usage_hours h where h.provider = of_provider and h.day = of_day) h
    cross join known k
  ), aliases as materialized (
    -- Our names whose calls the provider counts under a dated name that belongs to another name of ours.
    select a.name, max(m.own_model collate "C") as model
    from known k
    cross join unnest(k.names) as a (name)
    join models m on m.own_model is not null and ai.match_model(m.model, array[a.name]) is not null
    where not exists (select from models o where o.own_model = a.name)
    group by a.name
  ), matched as materialized (
    select h.*, o.own_model, m.key_id is not null as is_marked,
      m.key_id is not null or not exists (select from ai.gateway_provider_keys g where g.provider = of_provider) as is_counted
    from ai.usage_hours h
    join models o on o.model = h.model
    left join ai.gateway_provider_keys m on m.provider = h.provider and m.key_id = h.key_id
    where h.provider = of_provider and h.day = of_day
  ), stated as (
    select s.hour, coalesce(s.own_model, s.model) as model, bool_or(s.is_counted) as is_counted,
      ai.usage_counts(
        sum(s.requests) filter (where s.is_counted), sum(s.input_tokens) filter (where s.is_counted),
        sum(s.cached_input_tokens) filter (where s.is_counted), sum(s.cache_write_tokens) filter (where s.is_counted),
        sum(s.output_tokens) filter (where s.is_counted)
      ) as counts,
      jsonb_agg(jsonb_build_object(
        'keyId', s.key_id, 'model', s.model, 'isCounted', s.is_counted, 'requests', s.requests,
        'inputTokens', s.input_tokens, 'outputTokens', s.output_tokens
      ) order by s.input_tokens + s.output_tokens desc, s.key_id collate "C", s.model collate "C") as keys
    from matched s
    group by 1, 2
  ), metered as (
    select c.hour, coalesce(a.model, c.model) as model, count(*) as calls, ai.usage_counts(
      sum(c.requests), sum(c.input_tokens), sum(c.cached_input_tokens), sum(c.cache_write_tokens), sum(c.output_tokens)
    ) as counts
    from calls c
    left join aliases a on a.name = c.model
    group by 1, 2
  ), lines as materialized (
    select hour, model, coalesce(m.calls, 0) as calls, model = any (k.names) as is_known, coalesce(s.keys, '[]') as keys,
      coalesce(s.counts, e.counts || '{"requests": null}') as stated, coalesce(m.counts, e.counts) as metered
    from stated s
    full join metered m using (hour, model)
    cross join known k
    cross join (select ai.usage_counts(0, 0, 0, 0, 0) as counts) e
  ), compared as materialized (
    -- Requests are compared only if the provider states them.
    select l.*, l.stated is distinct from case
        when l.stated -> 'requests' = 'null' then l.metered || '{"requests": null}' else l.metered
      end as differs,
      abs((l.stated ->> 'inputTokens')::bigint - (l.metered ->> 'inputTokens')::bigint)
        + abs((l.stated ->> 'outputTokens')::bigint - (l.metered ->> 'outputTokens')::bigint) as difference
    from lines l
  ), chosen as materialized (
    select c.hour, c.model, c.calls
    from compared c
    where case when of_hour is null then c.differs and c.calls > 0 else c.hour = of_hour and c.model = of_model end
    order by c.difference desc, c.hour, c.model collate "C"
    limit 1
  )
  select jsonb_build_object(
    'observedAt', (select d.observed_at from ai.usage_days d where d.provider = of_provider and d.day = of_day),
    'keys', (
      -- Marked keys are listed first and even if they were not used on the day, so that the mark can be removed.
      select coalesce(jsonb_agg(k.key order by k.is_marked desc, k.tokens desc, k.key_id collate "C"), '[]')
      from (
        select u.key_id, bool_or(u.is_marked) as is_marked,
          coalesce(sum(m.input_tokens + m.output_tokens), 0) as tokens, jsonb_build_object(
          'keyId', u.key_id, 'isMarked', bool_or(u.is_marked), 'isCounted', coalesce(bool_or(m.is_counted), true),
          'inputTokens', coalesce(sum(m.input_tokens), 0), 'outputTokens', coalesce(sum(m.output_tokens), 0)
        ) as key
        from (
          select x.key_id, x.is_marked from matched x
          union
          select g.key_id, true from ai.gateway_provider_keys g where g.provider = of_provider
        ) u
        left join matched m on m.key_id is not distinct from u.key_id
        group by u.key_id
      ) k
    ),
    'lines', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'hour', ai.utc_text_microseconds(c.hour), 'model', c.model, 'isKnown', c.is_known, 'differs', c.differs,
        'calls', c.calls, 'stated', c.stated, 'metered', c.metered, 'keys', c.keys
      ) order by c.hour, c.model collate "C"), '[]')
      from compared c
    ),
    'calls', (
      select jsonb_build_object('hour', ai.utc_text_microseconds(h.hour), 'model', h.model, 'total', h.calls, 'records', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'runId', c.run_id, 'createdAt', ai.utc_text_microseconds(c.created_at), 'workspaceId', c.workspace_id,
          'workspaceName', w.name, 'requests', c.requests, 'inputTokens', c.input_tokens,
          'cachedInputTokens', c.cached_input_tokens, 'outputTokens', c.output_tokens,
          'costUsd', trim_scale(c.cost_usd)::text, 'note', c.note
        ) order by c.created_at, c.run_id), '[]')
        from (
          select o.* from calls o
          left join aliases a on a.name = o.model
          where o.hour = h.hour and coalesce(a.model, o.model) = h.model
          order by o.created_at, o.run_id
          limit page_size offset skip
        ) c
        left join public.workspaces w on w.id = c.workspace_id
      ))
      from chosen h
    )
  ) into answer;
  return answer;
end
$$;

-- Returns the counts of an hour as JSON. Missing token counts are 0. Not granted to any role.
create or replace function ai.usage_counts(
  requests numeric, input_tokens numeric, cached_input_tokens numeric, cache_write_tokens numeric, output_tokens numeric
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'requests', requests, 'inputTokens', coalesce(input_tokens, 0), 'cachedInputTokens', coalesce(cached_input_tokens, 0),
    'cacheWriteTokens', coalesce(cache_write_tokens, 0), 'outputTokens', coalesce(output_tokens, 0)
  )
$$;

-- Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by provider and billing account.
-- With of_provider (a result of ai.billing_provider), returns only that provider's usage, also grouped by workspace and
-- day. Runs closed by the sweep name no billing provider, so the usage of every of_provider includes all of them.
-- Without of_provider, workspace_id is null, and day is null unless by_day is set. Not granted to any role.
create or replace function ai.platform_usage(
  first_day date, last_day date, of_provider text default null, by_day boolean default false
)
  returns table (
    workspace_id uuid, day date, provider_id text, billing_name text, billing_account text, requests numeric, failed numeric,
    input_tokens numeric, output_tokens numeric, cost_usd numeric, estimated_runs numeric, closed_runs numeric
  )
  language plpgsql stable security invoker set search_path = ''
  -- Days are in UTC. A custom plan is required, because a generic plan would read all daily sums.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  summed record := ai.summed_range(first_day, last_day + 1, detailed);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return query
    with parts as (
      -- Groups each part separately, so that Postgres can hash the rows of a small part instead of sorting them.
      select case when detailed then u.workspace_id end as workspace_id, case when detailed or by_day then u.day end as day,
        u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd,
        sum(u.estimated_runs) as estimated_runs, sum(u.closed_runs) as closed_runs
      from ai.usage_daily u
      where u.day >= summed.first_day and u.day < summed.end_day
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then c.workspace_id end, case when detailed or by_day then c.day end, c.provider_id, c.billing_name,
        c.billing_account, sum(c.requests), sum(c.failed), sum(c.input_tokens), sum(c.output_tokens), sum(c.cost_usd),
        sum(c.estimated_runs), sum(c.closed_runs)
      from ai.usage_changes c
      where c.run_created_at >= summed.first_moment and c.run_created_at < summed.end_moment
        and (not detailed or c.closed_runs <> 0 or ai.billing_provider(c.billing_name, c.provider_id) = of_provider)
      group by 1, 2, c.provider_id, c.billing_name, c.billing_account
      union all
      select case when detailed then u.workspace_id end, case when detailed or by_day then u.day end, u.provider_id, u.billing_name,
        u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd),
        sum(u.estimated_runs), sum(u.closed_runs)
      from (
        select * from ai.runs b where b.created_at >= range_start and b.created_at < summed.first_moment
        union all
        select * from ai.runs a where a.created_at >= summed.end_moment and a.created_at < range_end
      ) as r
      cross join lateral ai.run_usage(r) u
      where not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
    )
    select p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account, sum(p.requests), sum(p.failed),
      sum(p.input_tokens), sum(p.output_tokens), sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from parts p
    group by p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account
    having sum(p.requests) > 0;
end
$$;

-- Returns a page of a book's invoices, latest issued first, and the total of the invoices that count. If the filter
-- (ai.invoice_matches) has a month, each invoice also has its share of that month (ai.invoice_share), and the total is
-- the sum of these shares. Returns { outcome: listed, … } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, filter jsonb default '{}',
  token_hash bytea default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace, token_hash), jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum(ai.invoice_amount(i, m.days)) filter (where r.by_reference is null), 0))::text,
        'records', count(*),
        'replacedRecords', count(r.by_reference)
      )
      from ai.invoice_book_entries i
      cross join lateral (select ai.month_days(filter ->> 'month') as days) m
      cross join lateral (select ai.invoice_replacement(i) as by_reference) r
      where i.book_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p) || ai.invoice_entry(p) || coalesce(ai.invoice_share(p, filter ->> 'month'), '{}')
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.invoice_book_entries i
        where i.book_id = workspace
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  ))
$$;

-- Returns an invoice as JSON. In the platform's book, appId is ai.platform_book() and appName is null.
create or replace function ai.invoice_summary(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'kind', (invoice).kind,
    'replaces', (invoice).replaces,
    'replacedBy', ai.invoice_replacement(invoice),
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'currency', (invoice).currency,
    'exchangeRate', trim_scale((invoice).exchange_rate)::text,
    'netAmount', trim_scale((invoice).net_amount)::text,
    'taxAmount', trim_scale((invoice).tax_amount)::text,
    'totalAmount', trim_scale((invoice).total_amount)::text,
    'document', ai.invoice_document_summary((invoice).id),
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;

-- Returns a page of a book's months and providers in the window of ai.reconciled_window, the latest month first. Each
-- row has the provider's accounts and two differences: imported less metered, and invoiced less imported. If the
-- workspace hides provider cost, every meteredUsd is null, and only providers with imports or invoices are listed. An
-- account's meteredUsd is also null if a run of the same month and provider has a cost but names no account; without
-- runs it is 0. clashes is the result of ai.book_clashes. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.reconcile_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50, token_hash bytea default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace, token_hash);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(workspace, dates.window_from, dates.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (
          where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account and p.account_id is not null)
        ), '[]') as accounts
      from (
        -- A single run without an account makes the metered cost of the month's accounts unknown, unless the run cost
        -- nothing. Failed calls and calls closed by the sweep often name no account.
        select *, coalesce(
          bool_and(q.account_id is not null) filter (where q.metered <> 0) over (partition by q.month, q.provider), true
        ) as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(dates.window_from),
      'to', ai.utc_text_microseconds(dates.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'clashes', ai.book_clashes(workspace, dates.window_from, dates.window_to),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;

-- Returns a page of a book's providers by name, or only one provider, each with its metered and imported cost in a
-- range, and the totals of all providers. importedRecords tells an imported cost of 0 from a missing one. Leaves out
-- providers without metered or imported cost. meteredUsd is null if the workspace hides provider cost. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.compare_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  of_provider text default null, after text default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with providers as materialized (
      select p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.records) as records
      from ai.reconciled_costs(workspace, dates.window_from, dates.window_to) p
      where of_provider is null or p.provider = ai.provider_name(of_provider)
      group by p.provider
      having sum(p.records) > 0 or (visible and sum(p.metered) <> 0)
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(p.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(p.imported), 0))::text,
          'importedRecords', coalesce(sum(p.records), 0),
          'providers', count(*)
        )
        from providers p
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'provider', p.provider,
            'meteredUsd', case when visible then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'importedRecords', p.records
          )
          order by p.provider collate "C"
        ), '[]')
        from (
          select *
          from providers p
          where after is null or p.provider collate "C" > after collate "C"
          order by p.provider collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

-- Returns the closed months of a book (YYYY-MM) that have at least one of the days.
create or replace function ai.closed_months(book uuid, first_day date, last_day date) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select to_char(s.month, 'YYYY-MM')
    from ai.book_statements s
    where s.book_id = book
      and s.reopened_at is null
      and s.month <= last_day
      and s.month >= date_trunc('month', first_day::timestamp)::date
    order by s.month
  )
$$;

-- Returns the closed months in which a cost file would add, correct or clear a day. Not granted to any role.
create or replace function ai.months_closed_to_file(book uuid, days ai.cost_file_day[]) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select to_char(s.month, 'YYYY-MM')
    from ai.book_statements s
    where s.book_id = book
      and s.reopened_at is null
      and exists (
        select from unnest(days) d
        where d.change not in ('unchanged', 'remaining') and date_trunc('month', d.day::timestamp)::date = s.month
      )
    order by s.month
  )
$$;

-- Keeps a book's months from being closed until the transaction ends, so that a person's change and a close exclude
-- each other. The caller checks afterwards, in another statement, whether a month is closed. Not granted to any role.
create or replace function ai.hold_open_months(book uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock_shared(hashtextextended('ai.book_statements ' || book, 0))
$$;

-- Waits for changes of a book by people and for other closes of its months, and excludes them until the transaction
-- ends. Not granted to any role.
create or replace function ai.lock_months(book uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('ai.book_statements ' || book, 0))
$$;

-- Rejects every change of a statement except its reopening, which happens once.
create or replace function ai.reject_statement_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' then
    if old.reopened_at is null
      and new.reopened_at is not null
      and to_jsonb(new) - '{reopened_by,reopened_at,reopen_reason}'::text[]
        = to_jsonb(old) - '{reopened_by,reopened_at,reopen_reason}'::text[] then
      return new;
    end if;
  end if;
  raise exception 'a statement is immutable' using errcode = 'restrict_violation';
end
$$;

-- Returns the records that count in a month of the platform's book: the metered sum of each UTC day, provider and
-- account, each imported cost, and each invoice with its share of the month. The amount of a credit note is negative.
-- record is the external run id of a cost, or the reference of an invoice. Not granted to any role.
create or replace function ai.month_records(of_month date) returns table (
  kind text, first_day date, last_day date, provider text, account_id text, record text, service text, runs numeric,
  amount_usd numeric
)
  language sql stable security invoker set search_path = ''
as $$
  select 'metered', u.day, u.day, m.provider, u.billing_account, null::text, null::text, sum(u.requests), sum(u.cost_usd)
  from ai.platform_usage(of_month, (of_month::timestamp + interval '1 month - 1 day')::date, by_day => true) u
  cross join lateral (select ai.billing_provider(u.billing_name, u.provider_id) as provider) m
  group by u.day, m.provider, u.billing_account
  having sum(u.requests) > 0
  union all
  select 'cost', o.day, o.day, (c.cost).provider, (c.cost).account_id, (c.cost).external_run_id, (c.cost).service, null,
    (c.cost).amount_usd
  from ai.provider_costs_in_totals(
    ai.platform_book(), of_month::timestamp at time zone 'UTC', (of_month::timestamp + interval '1 month') at time zone 'UTC'
  ) c
  cross join lateral (select ((c.cost).occurred_at at time zone 'UTC')::date as day) o
  where c.counted
  union all
  select i.kind, lower(d.days), upper(d.days) - 1, i.provider, i.account_id, i.reference, null, null,
    ai.invoice_amount(i, d.days)
  from ai.invoice_book_entries i
  cross join lateral (
    select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * ai.month_days(to_char(of_month, 'YYYY-MM')) as days
  ) d
  where i.book_id = ai.platform_book() and not isempty(d.days) and ai.invoice_replacement(i) is null
$$;

-- Returns a month's records as text, their SHA-256, and the figures by provider and account, all from one snapshot. In
-- records, each record is a line of nine fields separated by tabs: kind, first day, last day, provider, account, record,
-- service, runs and amount in USD. A missing value is empty, each line ends with a line feed, and the lines are sorted by
-- their bytes in UTF-8. Not granted to any role.
create or replace function ai.summarize_month(of_month date, out records text, out sha256 bytea, out figures jsonb)
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  with counted as materialized (
    select * from ai.month_records(of_month)
  ), accounts as (
    select
      c.provider, c.account_id,
      coalesce(sum(c.amount_usd) filter (where c.kind = 'metered'), 0) as metered,
      coalesce(sum(c.amount_usd) filter (where c.kind = 'cost'), 0) as imported,
      coalesce(sum(c.amount_usd) filter (where c.kind in ('invoice', 'credit_note')), 0) as invoiced,
      coalesce(sum(c.runs), 0) as runs,
      count(*) filter (where c.kind = 'cost') as records,
      count(*) filter (where c.kind in ('invoice', 'credit_note')) as invoices
    from counted c
    group by c.provider, c.account_id
  )
  select
    (
      select coalesce(string_agg(l.line || e'\n', '' order by l.line collate "C"), '')
      from (
        select array_to_string(
          array[
            c.kind, c.first_day::text, c.last_day::text, c.provider, c.account_id, c.record, c.service, c.runs::text,
            trim_scale(c.amount_usd)::text
          ],
          e'\t', ''
        ) as line
        from counted c
      ) l
    ),
    (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'provider', a.provider,
          'accountId', a.account_id,
          'meteredUsd', trim_scale(a.metered)::text,
          'importedUsd', trim_scale(a.imported)::text,
          'invoicedUsd', trim_scale(a.invoiced)::text,
          'runs', a.runs,
          'importedRecords', a.records,
          'invoices', a.invoices
        )
        order by a.provider collate "C", a.account_id collate "C" nulls first
      ), '[]')
      from accounts a
    )
  into records, figures;
  sha256 := sha256(convert_to(records, 'UTF8'));
end
$$;

-- Returns by how much a month's figures differ from the figures of its statement, by provider and account, leaving out
-- accounts without a difference: [{ provider, accountId, meteredUsd, importedUsd, invoicedUsd, runs, importedRecords,
-- invoices }]. Not granted to any role.
create or replace function ai.figures_difference(figures jsonb, closed_figures jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'provider', d.provider, 'accountId', d.account_id, 'meteredUsd', trim_scale(d.metered)::text,
      'importedUsd', trim_scale(d.imported)::text, 'invoicedUsd', trim_scale(d.invoiced)::text, 'runs', d.runs,
      'importedRecords', d.records, 'invoices', d.invoices
    )
    order by d.provider collate "C", d.account_id collate "C" nulls first
  ), '[]')
  from (
    select s.figure ->> 'provider' as provider, s.figure ->> 'accountId' as account_id,
      sum(s.sign * (s.figure ->> 'meteredUsd')::numeric) as metered,
      sum(s.sign * (s.figure ->> 'importedUsd')::numeric) as imported,
      sum(s.sign * (s.figure ->> 'invoicedUsd')::numeric) as invoiced, sum(s.sign * (s.figure ->> 'runs')::numeric) as runs,
      sum(s.sign * (s.figure ->> 'importedRecords')::numeric) as records,
      sum(s.sign * (s.figure ->> 'invoices')::numeric) as invoices
    from (
      select 1 as sign, f as figure from jsonb_array_elements(figures) f
      union all
      select -1, f from jsonb_array_elements(closed_figures) f
    ) s
    group by 1, 2
  ) d
  where (d.metered, d.imported, d.invoiced, d.runs, d.records, d.invoices) <> (0, 0, 0, 0, 0, 0)
$$;

-- Returns why a person may not close or read the months of a book, or null if they may. Only the platform's book has
-- statements. Not granted to any role.
create or replace function ai.statement_refusal(member_id uuid, book uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    case when book <> ai.platform_book() then '{"outcome": "not_allowed"}'::jsonb end, ai.book_refusal(member_id, book)
  )
$$;

-- Returns what closing a month (YYYY-MM) needs: { outcome: listed, state, figures, earlier }, { outcome: not_ended },
-- { outcome: already_closed, id } or ai.book_refusal. state identifies the records. earlier has the exceptions of the
-- month's last statement, which was reopened.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_close_checklist(member_id uuid, workspace uuid, of_month text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  days daterange := ai.month_days(of_month);
  closed uuid := (
    select s.id
    from ai.book_statements s
    where s.book_id = workspace and s.month = lower(days) and s.reopened_at is null
  );
  summary record;
begin
  if refusal is not null then
    return refusal;
  elsif closed is not null then
    return jsonb_build_object('outcome', 'already_closed', 'id', closed);
  elsif upper(days) > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_ended"}';
  end if;
  summary := ai.summarize_month(lower(days));
  return jsonb_build_object(
    'outcome', 'listed',
    'state', encode(summary.sha256, 'hex'),
    'figures', summary.figures,
    'earlier', coalesce((
      select s.exceptions
      from ai.book_statements s
      where s.book_id = workspace and s.month = lower(days)
      order by s.version desc
      limit 1
    ), '[]')
  );
end
$$;

-- Closes a month (YYYY-MM). exceptions has what is open in the figures of state, each with a reason: [{ provider, kind,
-- meteredUsd, importedUsd, invoicedUsd, amountUsd, reason }]. The server decides what is open, as its pages do
-- (remix-app/studio/costs/reconciliation.ts). Returns { outcome: closed, id }, { outcome: changed } if the records are
-- not those of state, { outcome: reasons_missing }, { outcome: not_ended }, { outcome: already_closed, id } or
-- ai.book_refusal. The change is { reason, requestId, ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.close_month(
  member_id uuid, workspace uuid, of_month text, state text, exceptions jsonb, change jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  days daterange := ai.month_days(of_month);
  closed uuid;
  summary record;
begin
  if refusal is not null then
    return refusal;
  elsif upper(days) > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_ended"}';
  end if;
  perform ai.lock_months(workspace);
  select s.id into closed
  from ai.book_statements s
  where s.book_id = workspace and s.month = lower(days) and s.reopened_at is null;
  if closed is not null then
    return jsonb_build_object('outcome', 'already_closed', 'id', closed);
  end if;
  summary := ai.summarize_month(lower(days));
  if encode(summary.sha256, 'hex') is distinct from state then
    return '{"outcome": "changed"}';
  end if;
  if exists (
    select from jsonb_array_elements(exceptions) e
    where char_length(coalesce(e ->> 'reason', '')) not between 1 and 500
  ) then
    return '{"outcome": "reasons_missing"}';
  end if;
  insert into ai.book_statements (book_id, month, version, closed_by, figures, exceptions, records, sha256)
  select workspace, lower(days), coalesce(max(s.version), 0) + 1, member_id, summary.figures, close_month.exceptions,
    summary.records, summary.sha256
  from ai.book_statements s
  where s.book_id = workspace and s.month = lower(days)
  returning id into closed;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'books.close_month',
      'target', 'platform month ' || of_month,
      'after', jsonb_build_object('statement', closed, 'sha256', state, 'exceptions', exceptions)
    )
  );
  return jsonb_build_object('outcome', 'closed', 'id', closed);
end
$$;

-- Reopens the month of a statement. Returns { outcome: reopened, month }, { outcome: not_closed } if it was reopened
-- before, { outcome: not_found } or ai.book_refusal. The change is { reason, requestId, ip }.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.reopen_month(member_id uuid, workspace uuid, statement_id uuid, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  reopened ai.book_statements;
begin
  if refusal is not null then
    return refusal;
  end if;
  update ai.book_statements s
  set reopened_by = member_id, reopened_at = now(), reopen_reason = change ->> 'reason'
  where s.id = statement_id and s.book_id = workspace and s.reopened_at is null
  returning * into reopened;
  if reopened.id is null then
    return jsonb_build_object('outcome', case
      when exists (select from ai.book_statements s where s.id = statement_id and s.book_id = workspace) then 'not_closed'
      else 'not_found'
    end);
  end if;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'books.reopen_month',
      'target', 'platform month ' || to_char(reopened.month, 'YYYY-MM'),
      'before', jsonb_build_object('statement', reopened.id, 'sha256', encode(reopened.sha256, 'hex'))
    )
  );
  return jsonb_build_object('outcome', 'reopened', 'month', to_char(reopened.month, 'YYYY-MM'));
end
$$;

-- Returns a statement: { outcome: read, statement, figures, exceptions, records, after }, { outcome: not_found } or
-- ai.book_refusal. records are the lines of ai.summarize_month. after says what the records of a closed month are now:
-- { sha256, differences }, with ai.figures_difference. It is null once the month was reopened, and with with_records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_statement(
  member_id uuid, workspace uuid, statement_id uuid, with_records boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  stored ai.book_statements;
  summary record;
  after jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  select * into stored from ai.book_statements s where s.id = statement_id and s.book_id = workspace;
  if stored.id is null then
    return '{"outcome": "not_found"}';
  end if;
  if not with_records and stored.reopened_at is null then
    summary := ai.summarize_month(stored.month);
    after := jsonb_build_object(
      'sha256', encode(summary.sha256, 'hex'),
      'differences', ai.figures_difference(summary.figures, stored.figures)
    );
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'statement', ai.statement_summary(stored),
    'figures', stored.figures,
    'exceptions', stored.exceptions,
    'records', case when with_records then stored.records end,
    'after', after
  );
end
$$;

-- Returns what lists show of a statement. Names are email addresses, and null once the account is deleted. Not granted
-- to any role.
create or replace function ai.statement_summary(stored ai.book_statements) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (stored).id,
    'month', to_char((stored).month, 'YYYY-MM'),
    'version', (stored).version,
    'closedBy', (select u.email from auth.users u where u.id = (stored).closed_by),
    'closedAt', ai.utc_text_microseconds((stored).closed_at),
    'sha256', encode((stored).sha256, 'hex'),
    'exceptions', jsonb_array_length((stored).exceptions),
    'reopened', case when (stored).reopened_at is not null then jsonb_build_object(
      'by', (select u.email from auth.users u where u.id = (stored).reopened_by),
      'at', ai.utc_text_microseconds((stored).reopened_at),
      'reason', (stored).reopen_reason
    ) end
  )
$$;

-- Stores all days of a cost file or none. Returns { outcome: imported, importId, added, corrected, cleared, unchanged
-- }, { outcome: changed }, { outcome: month_closed, months } or { outcome: invalid, param, message }. importId is null if
-- no day changes. The outcome is changed if the given state (ai.cost_file_state) is no longer current, or if a concurrent
-- import wrote one of the same days, and month_closed if a person's file would change a day of a closed month. The change
-- is { actor, reason, requestId, ip, action }. The workspace's activity log records its actor, and the audit log records
-- it for the platform's book, by default as costs.import. An import by an operator or by the system has no actor. Not
-- granted to any role.
create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault jsonb := coalesce(ai.cost_document_fault(document), ai.cost_services_fault(document));
  -- Only people are refused. What is imported automatically appears after the close.
  by_person boolean := change ->> 'action' is distinct from 'costs.import_automatically';
  days ai.cost_file_day[];
  batch ai.cost_file_day[];
  answer jsonb;
  new_id uuid := gen_random_uuid();
begin
  if fault is not null then
    return fault;
  end if;
  if by_person then
    perform ai.hold_open_months(book);
  end if;
  days := ai.compare_cost_file(book, app, document);
  if by_person and ai.months_closed_to_file(book, days) <> '{}' then
    return jsonb_build_object('outcome', 'month_closed', 'months', ai.months_closed_to_file(book, days));
  end if;
  if state <> ai.cost_file_state(book, app, document, days) then
    return '{"outcome": "changed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'imported',
    'importId', case when bool_or(d.change not in ('unchanged', 'remaining')) then new_id end,
    'added', count(*) filter (where d.change = 'added'),
    'corrected', count(*) filter (where d.change = 'corrected'),
    'cleared', count(*) filter (where d.change = 'cleared'),
    'unchanged', count(*) filter (where d.change = 'unchanged')
  ) into answer
  from unnest(days) d;
  if answer ->> 'importId' is null then
    return answer;
  end if;
  insert into ai.cost_imports (
    id, workspace_id, app_id, provider, format, file_name, file_sha256, time_zone, rates, service_categories, imported_by
  )
  values (
    new_id, book, app, ai.provider_name(document ->> 'provider'), document ->> 'format', document ->> 'fileName',
    decode(document ->> 'sha256', 'hex'), document ->> 'timeZone', coalesce(document -> 'rates', '{}'),
    coalesce(document -> 'serviceCategories', '{}'), (change ->> 'actor')::uuid
  );
  -- Writes days in the order in which ai.import_provider_costs writes records, so that concurrent imports can't
  -- deadlock. Consecutive days that are all new, or that all correct a record, are one batch.
  for batch in
    select array_agg(b.item order by b.place)
    from (
      select o.*, o.place - row_number() over (partition by o.is_new order by o.place) as batch_number
      from (
        select
          d as item, d.stored_id is null as is_new,
          row_number() over (order by d.account_id collate "C", d.external_run_id collate "C") as place
        from unnest(days) d
        where d.change not in ('unchanged', 'remaining')
      ) o
    ) b
    group by b.is_new, b.batch_number
    order by min(b.place)
  loop
    perform ai.write_cost_file_days(book, app, new_id, batch);
  end loop;
  perform ai.store_cost_services(book, app, new_id, document);
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', coalesce(change ->> 'action', 'costs.import'),
      'target', 'costs ' || ai.provider_name(document ->> 'provider'),
      'after', ai.cost_import_details(new_id) || answer
    ));
  else
    perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
    perform private.log_workspace_change(
      book, 'provider_costs.imported', new_id,
      concat_ws(' ', ai.provider_name(document ->> 'provider'), document ->> 'fileName'),
      ai.cost_import_details(new_id) || jsonb_build_object(
        'appId', app, 'days', (select count(*) from unnest(days) d where d.change <> 'remaining'),
        'totalUsd', (select trim_scale(sum(d.amount_usd))::text from unnest(days) d)
      )
    );
  end if;
  return answer;
exception
  -- A concurrent import wrote one of the same days, so this import stores nothing.
  when serialization_failure then
    return '{"outcome": "changed"}';
end
$$;

-- Writes days of a cost file that are all new, or that all correct a stored record, in their order. Raises
-- serialization_failure if a concurrent import has changed or added the stored record of a day. Not granted to any role.
create or replace function ai.write_cost_file_days(book uuid, app uuid, new_import_id uuid, days ai.cost_file_day[]) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  recorded timestamptz := clock_timestamp();
  -- A day is observed after the record that it corrects, whose importer's clock may be up to 60 seconds ahead.
  tick interval := '1 microsecond';
  written integer;
begin
  if (days[1]).stored_id is null then
    insert into ai.external_provider_costs (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at,
      recorded_at, import_id, original
    )
    select
      book, app, i.provider, d.account_id, d.external_run_id, 'account_day', d.amount_usd,
      d.day::timestamp at time zone 'UTC', greatest(recorded, d.observed_before + tick), recorded, i.id, d.original
    from unnest(days) with ordinality d
    cross join ai.cost_imports i
    where i.id = new_import_id
    order by d.ordinality
    on conflict do nothing;
  else
    -- An update locks its rows in any order.
    perform 1
    from unnest(days) with ordinality d
    join ai.external_provider_costs c on c.id = d.stored_id
    order by d.ordinality
    for update of c;
    update ai.external_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = d.amount_usd,
      occurred_at = d.day::timestamp at time zone 'UTC', observed_at = greatest(recorded, d.observed_before + tick),
      recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id, original = d.original
    from unnest(days) d
    where c.id = d.stored_id and c.revision = d.stored_revision;
  end if;
  get diagnostics written = row_count;
  if written <> cardinality(days) then
    raise exception 'a concurrent import wrote one of % days', cardinality(days) using errcode = 'serialization_failure';
  end if;
end
$$;

-- Prices the calls, reserves their maximum costs and opens the runs of those that fit. Returns the results of
-- ai.begin_runs, in the order of the calls.
create or replace function ai.admit_calls(calls jsonb) returns text[]
  language plpgsql volatile security invoker
  -- Every query finds its rows by key. These settings force index lookups in a generic plan, so that wrong statistics
  -- can't lead to a slow plan, and avoid hash tables, which are slow to create for a few rows.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_material = off set enable_hashagg = off set enable_memoize = off set jit = off
as $$
declare
  claims ai.claim[] := ai.price_calls(calls);
  claim ai.claim;
  opens_accounts boolean := false;
  opens_envelopes boolean := false;
  stores_keys boolean := false;
  answers text[] := '{}';
  -- Many refusals in one batch are a storm. Suggestions for all of them would hold the locks of admitted calls for long.
  max_suggestions constant integer := 4;
  suggestions integer := 0;
begin
  foreach claim in array claims loop
    opens_accounts := opens_accounts
      or claim.refusal is null and claim.account_id is null and ai.payer_id(claim.caller) is not null;
    opens_envelopes := opens_envelopes
      or claim.refusal is null and claim.envelope_id is null and (claim.request).envelope is not null
        and (claim.request).is_free is not true;
    stores_keys := stores_keys or (claim.request).idempotency_key is not null;
  end loop;
  if opens_envelopes then
    perform ai.open_named_envelopes(claims);
  end if;
  if opens_accounts then
    -- In the order of their owners' ids, so that two batches can't deadlock.
    perform ai.open_credit_account(o.payer, o.id, o.initial_credits)
    from (
      select distinct (c.caller).payer, ai.payer_id(c.caller) as id, (c.caller).initial_credits
      from unnest(claims) as c
      where c.refusal is null and c.account_id is null and ai.payer_id(c.caller) is not null
      order by 2
    ) as o;
  end if;
  if opens_accounts or opens_envelopes then
    claims := ai.price_calls(calls);
  end if;
  if opens_envelopes then
    claims := ai.refuse_unopened_envelopes(claims);
  end if;
  claims := ai.reserve(claims);
  for place in 1..cardinality(claims) loop
    if claims[place].refusal is not null then
      claims[place].refusal := ai.explain_refusal(claims[place], with_suggestions => suggestions < max_suggestions);
      suggestions := suggestions + 1;
    end if;
    answers[place] := claims[place].refusal::text;
  end loop;
  if array_position(answers, null) is null then
    return answers;
  end if;
  with opened as (
    insert into ai.runs (
      id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits,
      budget_scopes, envelope_id, reserved_tokens, tokens_reserved_at, expected_usd, expected_scopes
    )
    select
      c.run_id, (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, case (c.caller).source when 'key' then 'background' else 'interactive' end,
      (c.request).feature, (c.request).request_id, c.label, (c.request).idempotency_key,
      coalesce((c.request).streamed, false), c.model_id, c.routes, (c.caller).markup, ai.payer_id(c.caller) is null,
      c.account_id, c.cost_usd, c.credits, c.budget_scopes, c.envelope_id, c.tokens, case when c.tokens is not null then c.minute end,
      case when c.expected_scopes is not null then c.expected_usd end, c.expected_scopes
    from unnest(claims) as c
    where c.refusal is null
  )
  select
    -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
    array_agg(coalesce(c.refusal::text, format(
      '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,'
      '"credits_per_usd":"%s","exempt":%s,"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,'
      '"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s,'
      '"envelope":%s,"expected_output":%s}',
      c.run_id, to_json(now()), (c.caller).workspace_id, to_json(c.model_id), coalesce(c.context_window::text, 'null'),
      coalesce(to_json(c.voice), 'null'), c.routes, ai.credits_per_usd((c.caller).markup),
      (ai.payer_id(c.caller) is null)::text, c.cost_usd, c.credits, coalesce(c.tokens::text, 'null'),
      coalesce(c.output_limit::text, 'null'), (ai.payer_id(c.caller) is null or (c.caller).cost_visible)::text,
      (c.caller).capture::text, c.limits, coalesce(to_json((c.caller).key_name), 'null'),
      coalesce((c.caller).is_strict, false)::text, coalesce(c.envelope::text, 'null'),
      coalesce(case when c.expected_scopes is not null then c.expected_output end::text, 'null')
    )) order by c.ordinality)
  into answers
  from unnest(claims) with ordinality as c;
  if stores_keys then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    select
      (c.caller).workspace_id, ai.principal_id(c.caller), (c.request).idempotency_key,
      decode((c.request).fingerprint, 'hex'), now(), c.run_id
    from unnest(claims) as c
    where c.refusal is null and (c.request).idempotency_key is not null
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;
  return answers;
end
$$;

-- Returns what a budget reserves for a call: its maximum cost, or the cost of its expected output if the budget reserves
-- that and there is one. A further step of a run has none.
create or replace function ai.budget_need(claim ai.claim, budget ai.budgets) returns numeric
  language sql immutable security invoker
as $$
  select case
    when (budget).reserves_expected then coalesce((claim).expected_usd, (claim).cost_usd)
    else (claim).cost_usd
  end
$$;

-- Returns whether a call fits a budget as it counts now. A budget of 0 refuses free calls too. An ended envelope refuses
-- every call. Enforces a label's budget only if the key sets the label. A label that the caller sends never causes a
-- refusal by a budget.
create or replace function ai.fits_budget(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or ((budget).max_calls is null or (claim).requests = 0 or (budget).calls + (claim).requests <= (budget).max_calls)
      and (
        (budget).limit_usd is null
        or (budget).limit_usd > 0 and (budget).reserved_usd + ai.budget_need(claim, budget) + (budget).spent_usd <= (budget).limit_usd
      )
      and ((budget).scope <> 'envelope' or now() < (budget).ends_at),
    false
  )
$$;

-- Returns whether a call would fit a budget in which no call reserves anything. In the last minute of a window, the
-- budget counts as unspent.
create or replace function ai.fits_when_settled(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or case
      when (budget).period = 'concurrent' then (budget).max_calls > 0
      when (budget).scope = 'envelope' and now() >= (budget).ends_at then false
      else ((budget).max_calls is null or (budget).calls < (budget).max_calls)
        and (budget).limit_usd > 0
        and ai.budget_need(claim, budget) + case
          when (budget).scope <> 'envelope' and now() + interval '1 minute' >= (budget).ends_at then 0
          else (budget).spent_usd
        end <= (budget).limit_usd
    end,
    true
  )
$$;

-- Returns what a budget has left for a call: null if the budget can't refuse it for its maximum cost, less than nothing if
-- it refuses every call.
create or replace function ai.budget_room(claim ai.claim, budget ai.budgets) returns numeric
  language sql stable security invoker
as $$
  select case
    when (budget).scope = 'label' and ((claim).caller).entity_id is null then null
    -- The expected cost fits with any output limit.
    when (budget).reserves_expected and (claim).expected_usd is not null and ai.fits_budget(claim, budget) then null
    when (budget).limit_usd = 0 or (claim).requests > 0 and (budget).calls >= (budget).max_calls then -1
    when (budget).scope = 'envelope' and now() >= (budget).ends_at then -1
    else (budget).limit_usd - (budget).reserved_usd - (budget).spent_usd
  end
$$;

-- Returns the code of a refusal by a budget.
create or replace function ai.budget_refusal_code(budget ai.budgets) returns text
  language sql immutable security invoker
as $$
  select case
    when (budget).scope = 'envelope' then 'envelope_exhausted'
    when (budget).period = 'concurrent' then 'rate_limit_exceeded'
    else 'budget_exceeded'
  end
$$;

-- Returns a budget as a refusal states it. ai.explain_refusal completes it for the caller.
create or replace function ai.budget_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'kind', 'budget', 'scope', (budget).scope, 'window', (budget).period, 'time_zone', (budget).time_zone,
    'resets_at', ai.utc_text(nullif((budget).ends_at, 'infinity')),
    'limit_usd', trim_scale((budget).limit_usd),
    'spent_usd', trim_scale((budget).spent_usd),
    'reserved_usd', trim_scale((budget).reserved_usd),
    'remaining_usd', trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))
  ))
$$;

-- Returns a limit of concurrent calls as a refusal states it. It is unknown when a call ends, so a client tries again
-- after a second.
create or replace function ai.concurrency_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'concurrent', 'scope', (budget).scope, 'limit', (budget).max_calls, 'used', (budget).calls, 'reset_seconds', 1
  )
$$;

-- Returns the window of a period that contains the given time. Weeks begin on Monday. Periods without windows (total,
-- concurrent) last from -infinity to infinity.
create or replace function ai.budget_window(
  period text, time_zone text, at timestamptz, out starts_at timestamptz, out ends_at timestamptz
)
  language plpgsql stable security invoker
as $$
declare
  first_day date;
begin
  if period not in ('day', 'week', 'month') then
    starts_at := '-infinity';
    ends_at := 'infinity';
    return;
  end if;
  time_zone := ai.known_time_zone(time_zone);
  first_day := date_trunc(period, at at time zone time_zone)::date;
  starts_at := ai.start_of_day(first_day, time_zone);
  ends_at := ai.start_of_day((first_day + ('1 ' || period)::interval)::date, time_zone);
end
$$;

-- Returns a time zone, or UTC if Postgres doesn't know it. Systems differ in the names that they have, so an upgrade or a
-- restore elsewhere can lose one, and one budget's zone must not fail the calls of a batch.
create or replace function ai.known_time_zone(time_zone text) returns text
  language plpgsql stable security invoker
as $$
begin
  perform now() at time zone time_zone;
  return time_zone;
exception when invalid_parameter_value then
  return 'UTC';
end
$$;

-- Returns the first instant of a local day. If clocks skip midnight, the day begins when they are changed. If midnight
-- occurs twice, the day begins at the first one.
create or replace function ai.start_of_day(day date, time_zone text) returns timestamptz
  language sql stable security invoker
as $$
  select coalesce(
    (
      -- Midnight by the offsets that apply half a day before and after. Two of them are midnight if it occurs twice.
      select min(c.at)
      from (values (n.noon_before), (n.noon)) as o (reference)
      cross join lateral (
        select (day::timestamp - ((o.reference at time zone time_zone) - (o.reference at time zone 'UTC'))) at time zone 'UTC' as at
      ) as c
      where c.at at time zone time_zone = day::timestamp
    ),
    -- A skipped midnight is read with the offset before the change.
    day::timestamp at time zone time_zone
  )
  from (
    select
      (day::timestamp - interval '12 hours') at time zone time_zone as noon_before,
      (day::timestamp + interval '12 hours') at time zone time_zone as noon
  ) as n
$$;

-- Returns a budget as it counts at the given time: in a window that begins after the budget's, nothing is spent. An
-- envelope ends at ends_at and has no other window. Until 0.5.0: a budget without starts_at has not changed since 0.3.0,
-- and its window is the UTC month of period_start.
create or replace function ai.current_budget(budget ai.budgets, at timestamptz) returns ai.budgets
  language plpgsql stable security invoker
as $$
begin
  if budget.starts_at is null then
    budget.starts_at := budget.period_start::timestamp at time zone 'UTC';
    budget.ends_at := (budget.period_start + interval '1 month') at time zone 'UTC';
  end if;
  if at >= budget.ends_at and budget.scope <> 'envelope' then
    select w.starts_at, w.ends_at into budget.starts_at, budget.ends_at
    from ai.budget_window(budget.period, budget.time_zone, at) as w;
    budget.spent_usd := 0;
  end if;
  return budget;
end
$$;

-- Returns the entry of a budget in a run's list of budgets.
create or replace function ai.budget_entry(scope text, period text) returns text
  language sql immutable security invoker parallel safe
as $$
  select case period when 'month' then scope else scope || '/' || period end
$$;

-- Returns the period of an entry in a run's list of budgets.
create or replace function ai.entry_period(entry text) returns text
  language sql immutable security invoker parallel safe
as $$
  select case when entry like '%/%' then split_part(entry, '/', 2) else 'month' end
$$;

-- Returns each of the calls with its place and its caller: the one that the call's credential belongs to. If the caller
-- may not make calls, refused has the reason. The caller is null if the credential is unknown, revoked or expired, if its
-- workspace is deleted, or if it belongs to a coding agent whose connection or login has ended. A key or token is given
-- as the SHA-256 of its text, and a session as claims that the gateway has verified. people is what ai.user_callers
-- returns for the calls. A key that is bound to an app has the gateway scopes of the app's registration. Imports need no
-- ai:use, so a bound key is not refused for it here but in ai.call_refusal. budgets has every scope and period if
-- the workspace has any budget.
create or replace function ai.find_callers(calls jsonb, people ai.caller[])
  returns table (place bigint, request ai.run_request, caller ai.caller)
  language sql stable security invoker
as $$
  with requests as materialized (
    select e.place, r as request, k.key
    from jsonb_array_elements(calls) with ordinality as e (call, place)
    cross join lateral jsonb_populate_record(null::ai.run_request, e.call) as r
    left join lateral (
      select k
      from ai.keys k
      where (r.credential).source = 'key'
        and k.secret_hash = decode((r.credential).hash, 'hex')
        and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > now())
      offset 0
    ) as k (key) on true
  )
  select r.place, r.request, c.caller
  from requests r
  left join lateral (
    select row(
      i.source,
      coalesce(i.refused, case
        when (r.request).workspace is null then case i.source when 'app_token' then 'workspace_header_required' end
        when (r.request).workspace <> i.workspace_id::text then 'workspace_mismatch'
      end),
      (i.key).id, (i.key).lineage_id, i.workspace_id, i.actor_id, i.app_id, i.scopes,
      (i.key).allowed_models, (i.key).requests_per_minute, (i.key).tokens_per_minute, (i.key).last_used_at,
      (p.plan).id, (p.plan).payer, (p.plan).markup, (p.plan).initial_credits,
      least((p.plan).requests_per_minute, (w.policy).requests_per_minute),
      least((p.plan).tokens_per_minute, (w.policy).tokens_per_minute),
      (w.policy).allowed_models, (w.policy).denied_models, coalesce((w.policy).provider_cost_visible, true),
      coalesce((w.policy).content_capture, false),
      case (p.plan).payer when 'member' then
        exists (select from public.workspace_members m where m.user_id = i.actor_id and m.workspace_id = i.workspace_id)
      end,
      -- Most workspaces have no budget.
      case when (select true from ai.budgets b where b.workspace_id = i.workspace_id limit 1)
        then '{key/*,app/*,member/*,label/*,workspace/*}'::text[]
      end,
      (i.key).entity_id, (i.key).name, (i.key).is_strict, (w.policy).allowed_regions,
      (w.policy).model_limits
    )::ai.caller as caller
    from (
      select
        'key' as source,
        coalesce(
          case a.status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end,
          -- Without an address, a key with an address list is refused.
          case when not coalesce(
            (r.request).address <<= any ((r.key).allowed_addresses), (r.key).allowed_addresses is null
          ) then 'insufficient_scope' end,
          b.refused
        ) as refused,
        (r.key).workspace_id, (r.key).created_by as actor_id, (r.key).external_app_id as app_id, b.scopes, r.key
      from (select) as one
      left join lateral (
        select f.refused, private.gateway_scopes(a) as scopes
        from private.apps a
        cross join lateral private.gateway_refusal(
          a, (r.key).workspace_id, private.gateway_scopes(a) || array['ai:use']
        ) f
        where a.id = (r.key).external_app_id
        offset 0
      ) as b on true
      cross join lateral (
        select case when (r.key).connection_id is not null then
          -- Runs once for all the calls, and only if a key among them belongs to an agent.
          (select ai.agent_key_statuses(array_agg(distinct (k.key).connection_id)) from requests k)
            ->> (r.key).connection_id::text
        end as status
        offset 0
      ) as a
      where (r.key).id is not null and a.status is distinct from 'over'
      union all
      select
        ((r.request).credential).source, u.refused, u.workspace_id, u.actor_id, u.app_id, u.scopes, null::ai.keys
      from (select (people[r.place]).* offset 0) as u
      where ((r.request).credential).source in ('app_token', 'session') and u.actor_id is not null
    ) as i
    -- The offsets keep lookups by key, even if the statistics are wrong.
    left join lateral (
      select s.id, s.plan_id from public.workspaces s where s.id = i.workspace_id and s.deleted_at is null offset 0
    ) as s on true
    left join lateral (select p as plan from ai.plans p where p.id = s.plan_id offset 0) as p on true
    left join lateral (
      select w as policy from ai.workspace_policies w where w.workspace_id = i.workspace_id offset 0
    ) as w on true
    where s.id is not null or i.source = 'session'
  ) as c on true
$$;

-- Returns those of the required scopes that a caller lacks.
create or replace function ai.missing_scopes(caller ai.caller, required text[]) returns jsonb
  language sql immutable security invoker
as $$
  select jsonb_build_object(
    'kind', 'scope',
    'scopes', array(select s.scope from unnest(required) as s (scope) where not s.scope = any (coalesce((caller).scopes, '{}')))
  )
$$;

-- Returns the id of a budget's subject for a run. The scope states whether the subject is the key lineage, the app, the
-- member, the label, the envelope or the workspace.
create or replace function ai.budget_subject(
  scope text, workspace uuid, lineage uuid, app uuid, actor uuid, label text, envelope uuid
) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case scope
    when 'key' then lineage
    when 'app' then app
    when 'member' then actor
    when 'label' then ai.label_id(label)
    when 'envelope' then envelope
    else workspace
  end
$$;

-- Returns the models that a credential may use now, in OpenAI's format and in the order of ai.model_order, or {refused:
-- code}. A model is left out if no provider can serve it or its calls have no price. If the call has model, returns
-- only that model. If the call has paths, [{ path, kind, providers }], returns the list as text and adds endpoints.
-- endpoints has, for each model, the paths of the model's kind that at least one of its providers serves. regions has the
-- regions of a model's providers, and unknown for a provider without one. credits_per_usd is what one USD of provider
-- cost takes from the balance, null if the calls are free of credits.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  credits_per_usd numeric := case
    when ai.payer_id(caller) is not null then trim_scale(ai.credits_per_usd(caller.markup))
  end;
  usable_providers text[] := case
    when caller.allowed_regions is null then request.providers
    else ai.providers_in_regions(request.providers, request.regions, caller.allowed_regions)
  end;
  -- The models as JSON text, because building one jsonb from all models would be slow.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- Reads all models in one pass. With a large catalogue, calling a function for each model would take most of the
  -- query's time.
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
        'prices', (
          select jsonb_agg(ai.listed_price(t.price) order by t.place)
          from jsonb_array_elements(p.prices) with ordinality as t (price, place)
        )
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_routes(usable_providers) p
    where request.model is null or p.model_id = request.model
  ),
  served as (
    select
      r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers,
      jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown')) as regions
    from routes r
    group by r.model_id
  ),
  paths as materialized (
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
        'default_output_limit', u.default_output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end,
        'regions', s.regions
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case
        when shows_prices then jsonb_build_object('routes', s.routes, 'credits_per_usd', credits_per_usd)
        else jsonb '{}'
      end
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
    return ai.refusal('model_not_found', ai.missing_model(request, caller));
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

-- Returns a credential's kind, limits, budgets, cost in this month and remaining amounts, or {refused: code}.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  exempt boolean;
  cost_visible boolean;
begin
  if refusal is not null then
    return refusal;
  end if;
  exempt := caller.app_id is not null;
  cost_visible := exempt or caller.cost_visible;

  return jsonb_build_object(
    'source', caller.source,
    'workspaceId', caller.workspace_id,
    'userId', case when caller.source <> 'key' then caller.actor_id end,
    'key', (
      select jsonb_build_object(
        'id', k.id,
        'name', k.name,
        'prefix', 'ttr_ai_' || k.lookup,
        'environment', k.environment,
        'createdAt', ai.utc_text(k.created_at),
        'replaced', k.replaced_by is not null,
        'allowedModels', k.allowed_models,
        'allowedAddresses', k.allowed_addresses,
        'strict', k.is_strict,
        'entityId', k.entity_id
      )
      from ai.keys k where k.id = caller.key_id
    ),
    'app', (
      select jsonb_build_object('id', a.id, 'name', a.name, 'displayName', a.display_name)
      from private.apps a where a.id = caller.app_id
    ),
    'scopes', caller.scopes,
    'expiresAt', ai.utc_text(coalesce(
      (select k.expires_at from ai.keys k where k.id = caller.key_id),
      (
        select t.expires_at from ai.app_tokens t
        where caller.source = 'app_token' and t.token_hash = decode(call -> 'credential' ->> 'hash', 'hex')
      )
    )),
    'exempt', exempt,
    'limits', (
      select coalesce(jsonb_agg(l.value), '[]')
      from jsonb_array_elements(jsonb_build_array(
        ai.remaining_rate('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.remaining_rate(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'modelLimits', (
      select coalesce(jsonb_agg(
        ai.remaining_rate(
          'model', ai.model_window_id(caller.workspace_id, m.key), (m.value ->> 'requests')::integer,
          (m.value ->> 'tokens')::bigint
        ) - 'scope' || jsonb_build_object('model', m.key)
        order by m.key
      ), '[]')
      from jsonb_each(caller.model_limits) as m
    ),
    'concurrentCalls', ai.remaining_concurrent_calls(caller),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'envelope', (
      select ai.envelope_summary(e, cost_visible)
      from ai.find_envelope(caller.workspace_id, ai.envelope_principal(caller), caller.entity_id, true) e
    ),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- Null for apps, which pay no credits, and for keys if members pay, because the key's holder may be someone else
    -- than the member who pays.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller)
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;

-- Returns the budgets of all periods that count a caller's calls, as they are now.
create or replace function ai.caller_budgets(caller ai.caller) returns setof ai.budgets
  language sql stable security invoker set search_path = ''
as $$
  select c.*
  from unnest((caller).budgets) as s (entry)
  cross join lateral (select split_part(s.entry, '/', 1) as scope) as e
  join ai.budgets b
    on b.scope = e.scope
    and b.workspace_id = (caller).workspace_id
    and b.subject_id = ai.budget_subject(
      e.scope, (caller).workspace_id, (caller).lineage_id, (caller).app_id, (caller).actor_id, (caller).entity_id, null
    )
  cross join lateral ai.current_budget(b, now()) as c
$$;

-- Returns the principal whose envelopes hold a caller's calls: the lineage of its key, the person, or for a person's calls
-- through an app an id made of both, so that one app's envelopes don't hold the calls of others.
create or replace function ai.envelope_principal(caller ai.caller) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case
    when (caller).lineage_id is not null then (caller).lineage_id
    when (caller).app_id is not null then ai.label_id((caller).app_id::text || '/' || (caller).actor_id::text)
    else (caller).actor_id
  end
$$;

-- Opens the envelopes that calls name and that don't exist yet. A call whose principal has 1,000 open envelopes opens
-- none. In the order of the unique key, so that two batches can't deadlock.
create or replace function ai.open_named_envelopes(claims ai.claim[]) returns void
  language sql volatile security invoker
as $$
  with named as (
    select distinct on (n.principal_id, n.workspace_id, n.label) n.*
    from (
      select
        ai.envelope_principal(c.caller) as principal_id, (c.caller).workspace_id, coalesce(c.label, '') as label,
        (c.caller).lineage_id, (c.caller).actor_id, ((c.request).envelope ->> 'usd')::numeric as usd,
        ((c.request).envelope ->> 'calls')::bigint as max_calls,
        ((c.request).envelope ->> 'ttl_seconds')::integer as ttl_seconds,
        c.ordinality
      from unnest(claims) with ordinality as c
      where c.refusal is null and c.envelope_id is null and (c.request).envelope is not null
    ) as n
    order by n.principal_id, n.workspace_id, n.label, n.ordinality
  ),
  principals as materialized (
    select p.principal_id, p.workspace_id, ai.open_envelope_count(p.workspace_id, p.principal_id) as open
    from (select distinct n.principal_id, n.workspace_id from named n) as p
  ),
  opened as (
    insert into ai.envelopes (
      workspace_id, principal_id, label, key_lineage_id, actor_id, opened_usd, opened_calls, ttl_seconds
    )
    select n.workspace_id, n.principal_id, n.label, n.lineage_id, n.actor_id, n.usd, n.max_calls, n.ttl_seconds
    from named n
    join principals p on p.principal_id = n.principal_id and p.workspace_id = n.workspace_id and p.open < 1000
    order by n.principal_id, n.workspace_id, n.label
    on conflict (principal_id, workspace_id, label) where superseded_at is null do nothing
    returning *
  )
  insert into ai.budgets (
    scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at, thresholds
  )
  select
    -- Without a start, so that a run counts whose transaction began before the one that opened the envelope.
    'envelope', o.id, o.workspace_id, 'total', o.opened_usd, o.opened_calls, '-infinity',
    o.opened_at + coalesce(o.ttl_seconds * interval '1 second', interval '30 days'), '{100}'
  from opened o
$$;

-- Refuses the calls that name an envelope which could not be opened.
create or replace function ai.refuse_unopened_envelopes(claims ai.claim[]) returns ai.claim[]
  language plpgsql stable security invoker
as $$
begin
  for place in 1..cardinality(claims) loop
    if claims[place].refusal is null and claims[place].envelope_id is null
      and (claims[place].request).envelope is not null and (claims[place].request).is_free is not true then
      claims[place].refusal := ai.refusal(
        'invalid_request', '{"param": "X-Platform-Envelope", "envelope": {"open": 1000}}'
      );
    end if;
  end loop;
  return claims;
end
$$;

-- Returns the refusal of a call that names other amounts than its envelope was opened with, or for which no envelope
-- could be opened; otherwise null.
create or replace function ai.named_envelope_refusal(request ai.run_request, envelope ai.envelopes) returns jsonb
  language sql stable security invoker
as $$
  -- Without a condition of its own, so that Postgres inlines it into the query that prices a batch.
  select case
    when (request).envelope is not null and (
      ((request).envelope ->> 'usd')::numeric is distinct from (envelope).opened_usd
      or ((request).envelope ->> 'calls')::bigint is distinct from (envelope).opened_calls
      or ((request).envelope ->> 'ttl_seconds')::integer is distinct from (envelope).ttl_seconds
    ) then ai.refusal('invalid_request', jsonb_build_object('param', 'X-Platform-Envelope', 'envelope', jsonb_strip_nulls(
      jsonb_build_object(
        'id', (envelope).id, 'usd', trim_scale((envelope).opened_usd), 'calls', (envelope).opened_calls,
        'ttl_seconds', (envelope).ttl_seconds
      )
    )))
  end
$$;

-- Returns an envelope as a refusal states it. ai.explain_refusal completes it for the caller.
create or replace function ai.envelope_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'envelope',
    'workspace_id', (budget).workspace_id,
    'state', (select ai.envelope_state(e, budget) from ai.envelopes e where e.id = (budget).subject_id)
  ) || ai.envelope_room(budget, true)
$$;

-- Returns the envelopes with the given ids, for calls that wait for them or run in them. Unknown ids are left out.
-- Definer: gateway has no grant on any table. begin_runs returned the ids.
create or replace function ai.read_envelopes(ids jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(ai.envelope_summary(e, true)), '[]')
  from jsonb_array_elements_text(ids) as i (id)
  join ai.envelopes e on e.id = i.id::uuid
$$;

-- Returns the envelope with the id in the call's envelope_id, for a caller that is its principal, or {refused: code}.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.read_own_envelope(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
begin
  return coalesce(
    refusal,
    (
      select ai.envelope_summary(e, caller.app_id is not null or caller.cost_visible)
      from ai.envelopes e
      where e.id = (call ->> 'envelope_id')::uuid and e.workspace_id = caller.workspace_id
        and e.principal_id = ai.envelope_principal(caller)
    ),
    ai.refusal('envelope_not_found')
  );
end
$$;

-- Returns the calls with the output that is expected of them, and what they cost at most with that output: the output
-- that 95% of the last runs of their kind had at most. Leaves out kinds with fewer than 20 runs, and calls that the
-- gateway can't stop at each of their routes, so that only what was delivered is charged.
create or replace function ai.expect_outputs(claims ai.claim[]) returns ai.claim[]
  language plpgsql stable security invoker
as $$
declare
  place bigint;
  tokens bigint;
  usd numeric;
begin
  for place, tokens, usd in
    select c.ordinality, u.tokens, least(c.cost_usd, x.usd)
    from unnest(claims) with ordinality as c
    cross join lateral (
      select percentile_disc(0.95) within group (order by o) as tokens
      from ai.output_histories h
      cross join lateral unnest(h.outputs) as o
      where h.workspace_id = (c.caller).workspace_id and h.model_id = c.model_id and h.feature = (c.request).feature
        and cardinality(h.outputs) >= 20 and h.updated_at > now() - interval '30 days'
    ) as u
    cross join lateral ai.input_tokens((c.request).input_bytes, (c.request).images, (c.request).audio_seconds) as i
    cross join lateral ai.maximum_cost(
      c.routes, least(i.text_tokens, c.context_window * (c.request).input_reads), i.image_tokens, i.audio_tokens, u.tokens,
      (c.request).hour_writes, (c.request).service_tier, (c.request).fee_requests, false
    ) as x
    where c.refusal is null and c.requests > 0 and u.tokens < c.output_limit * coalesce((c.request).choices, 1)
      and (c.request).streamed and (c.request).stoppable_providers is not null
      and not exists (
        select from jsonb_array_elements(c.routes) as r
        where not r ->> 'provider' = any ((c.request).stoppable_providers)
      )
  loop
    claims[place].expected_output := tokens;
    claims[place].expected_usd := usd;
  end loop;
  return claims;
end
$$;

-- Records the output of succeeded runs in the given workspaces, of which the last 100 of a kind count. Reasoning is not
-- in the stream, so that a stream can't be stopped at what it costs: a run with reasoning begins the history again. A
-- workspace has at most 1,000 kinds.
create or replace function ai.record_outputs(
  due ai.settlement[], outcomes ai.run_outcome[], workspaces uuid[]
) returns void
  language sql volatile security invoker
as $$
  insert into ai.output_histories as h (workspace_id, model_id, feature, outputs)
  select
    d.workspace_id, d.model_id, d.feature,
    case when bool_or(d.reasoning_tokens > 0) then '{}' else array_agg(d.output_tokens order by d.created_at) end
  from unnest(due, outcomes) as d
  where d.workspace_id = any (workspaces) and d.kind = 'usage' and d.status = 'succeeded' and d.usage_source = 'provider'
    and d.output_tokens > 0
    and (
      exists (
        select from ai.output_histories o
        where o.workspace_id = d.workspace_id and o.model_id = d.model_id and o.feature = d.feature
      )
      or (select count(*) from ai.output_histories o where o.workspace_id = d.workspace_id) < 1000
    )
  group by 1, 2, 3
  -- In the order of the key, so that two batches can't deadlock.
  order by 1, 2, 3
  on conflict (workspace_id, model_id, feature) do update
  set
    outputs = case
      when excluded.outputs = '{}' then '{}'
      else (h.outputs || excluded.outputs)[greatest(cardinality(h.outputs || excluded.outputs) - 99, 1):]
    end,
    updated_at = now()
$$;

-- Reserves the maximum cost of another provider call of an open run. Requires that the run's key is not revoked, that
-- its app's registration is still valid, and that rate limits, budgets and balance have room. A key that expires
-- meanwhile does not end a run, which ends with the longest call at the latest. Returns everything that is reserved for
-- the run, or {refused: code, …}.
-- With {"output": {"from", "to", "limit"}}, reserves further output of the current call instead, in tokens, in the
-- budgets that reserved only the expected output. from is the output that is reserved already.
-- Definer: gateway has no grant on any table. A run is identified by the id that begin_runs returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
  -- A generic plan fits every call.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  run ai.runs;
  caller ai.caller;
  claim ai.claim;
  key_is_revoked boolean;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  used_tokens bigint;
  input_tokens bigint;
  token_limit bigint;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.entity_id, k.revoked_at is not null, k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
    k.name, p.id, p.payer, coalesce(w.provider_cost_visible, true), w.model_limits
  into
    caller.entity_id, key_is_revoked, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.key_name, caller.plan_id, caller.payer, caller.cost_visible, caller.model_limits
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_revoked and not step ? 'output' then
    return ai.refusal('invalid_api_key');
  end if;
  caller.source := run.credential_source;
  caller.markup := run.markup;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  claim.model_id := run.model_id;
  claim.model_requests_per_minute := (caller.model_limits -> run.model_id ->> 'requests')::integer;
  claim.model_tokens_per_minute := (caller.model_limits -> run.model_id ->> 'tokens')::bigint;
  if step ? 'output' then
    return ai.extend_output(run, caller, step -> 'output');
  end if;
  if run.app_id is not null then
    select r.refused, private.gateway_scopes(a) into caller.refused, caller.scopes
    from private.apps a
    cross join lateral private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) r
    where a.id = run.app_id;
    if not found or caller.refused is not null then
      -- Only the app's registration is checked, as for its tokens.
      caller.source := 'app_token';
      caller.refused := coalesce(caller.refused, 'app_not_allowed');
      return ai.call_refusal(caller);
    end if;
  end if;

  select x.usd, i.text_tokens + i.image_tokens + i.audio_tokens into step_usd, input_tokens
  from ai.input_tokens(request.input_bytes, request.images, request.audio_seconds) as i
  cross join lateral ai.maximum_cost(
    run.routes, i.text_tokens, i.image_tokens, i.audio_tokens, request.output_limit * coalesce(request.choices, 1),
    request.hour_writes, request.service_tier, null, false
  ) as x;
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  claim.caller := caller;
  claim.request := request;
  claim.request.kind := 'chat';
  claim.request.entity_id := run.entity_id;
  claim.routes := run.routes;
  claim.output_limit := request.output_limit;

  token_limit := least(caller.key_tokens_per_minute, claim.model_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    claim.tokens := ai.reserved_tokens(
      input_tokens, request.output_limit, request.choices, request.output_limit_assumed, token_limit
    );
    if claim.tokens > token_limit then
      claim.refusal := ai.token_limit_refusal(caller, claim.model_tokens_per_minute, input_tokens, claim.tokens);
      return ai.explain_refusal(claim, run);
    end if;
    -- In the minute of the last reservation, replaces the reserved tokens with those that the earlier steps used. In a
    -- new minute, reserves only this step's tokens.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    claim.minute := run.tokens_reserved_at;
    claim.replaced_tokens := run.reserved_tokens - used_tokens;
  end if;
  claim.requests := 0;
  claim.budget_scopes := run.budget_scopes;
  claim.envelope_id := run.envelope_id;
  if run.envelope_id is not null then
    claim.envelope := jsonb_build_object('id', run.envelope_id, 'label', coalesce(
      (select e.label from ai.envelopes e where e.id = run.envelope_id), ''
    ));
  end if;
  claim.cost_usd := step_usd;
  claim.account_id := run.account_id;
  claim.credits := total_credits - run.reserved_credits;
  claim := (ai.reserve(array[claim]))[1];
  if claim.refusal is not null then
    -- Without `frees`: the run itself holds part of the room, and a retry would pay for its earlier steps again.
    return ai.explain_refusal(claim, run) - 'frees';
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    expected_usd = r.expected_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + claim.tokens, r.reserved_tokens),
    tokens_reserved_at = case when claim.tokens is not null then claim.minute else r.tokens_reserved_at end,
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;

-- Reserves further output of a run's current call in the budgets that reserved only the expected output. Its cost is
-- that share of what the maximum cost is above the reserved one, which is never less than what the output costs, because
-- the maximum cost is the highest of several linear functions. Returns what extend_run returns.
create or replace function ai.extend_output(run ai.runs, caller ai.caller, output jsonb) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  reserved bigint := (output ->> 'from')::bigint;
  output_limit bigint := (output ->> 'limit')::bigint;
  step_tokens bigint := greatest(least((output ->> 'to')::bigint, output_limit) - reserved, 0);
  rest_usd numeric := run.reserved_usd - run.expected_usd;
  claim ai.claim;
begin
  if run.expected_scopes is not null then
    -- The call took its place in the rate windows when it began, with its whole output.
    caller.key_requests_per_minute := null;
    caller.key_tokens_per_minute := null;
    caller.workspace_requests_per_minute := null;
    caller.workspace_tokens_per_minute := null;
    claim.caller := caller;
    claim.request.kind := 'chat';
    claim.request.entity_id := run.entity_id;
    claim.model_id := run.model_id;
    claim.requests := 0;
    claim.budget_scopes := run.expected_scopes;
    claim.credits := 0;
    claim.cost_usd := case
      when reserved + step_tokens >= output_limit then rest_usd
      else least(ceil(rest_usd * step_tokens / (output_limit - reserved) * 1e12) / 1e12, rest_usd)
    end;
    claim := (ai.reserve(array[claim]))[1];
    if claim.refusal is not null then
      return ai.explain_refusal(claim, run, with_suggestions => false) - 'frees';
    end if;
    update ai.runs r
    set expected_usd = r.expected_usd + claim.cost_usd, touched_at = now()
    where r.created_at = run.created_at and r.id = run.id;
  end if;
  return jsonb_build_object(
    'reserved_usd', run.reserved_usd::text, 'reserved_credits', run.reserved_credits::text
  );
end
$$;

-- Locks the rows that admissions, extensions and settlements change. All of them use this order: idempotency keys,
-- keys, rate windows, budgets, balances. Rows of one kind are sorted, so budgets of apps are locked before budgets of
-- envelopes, keys, labels, members and workspaces. Callers of this function first lock runs and open new accounts and
-- envelopes. Returns the budgets of all periods of the listed subjects, and the balances, locked. Rate windows can be
-- read by the next statement.
create or replace function ai.lock_rows(locks ai.lock_list, out budgets ai.budgets[], out accounts ai.credit_accounts[])
  language plpgsql volatile security invoker
as $$
begin
  if locks.idempotency_keys is not null then
    perform pg_advisory_xact_lock(k.key) from (select distinct u.key from unnest(locks.idempotency_keys) as u (key) order by 1) as k;
    -- Storing an idempotency key would later lock its workspace through the foreign key. Locks the workspace now,
    -- because an account deletion also locks workspaces before API keys.
    perform from public.workspaces s where s.id = any (locks.workspaces) order by s.id for key share;
  end if;
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.rate_windows is not null then
    -- Opens missing windows and restarts expired ones. The `on conflict` clause also locks windows that are still
    -- current.
    insert into ai.rate_windows as w (scope, subject_id, window_start, requests, tokens)
    select distinct s.scope, s.subject_id, date_trunc('minute', now()), 0, 0 from unnest(locks.rate_windows) as s order by 1, 2
    on conflict (subject_id, scope) do update
    set window_start = excluded.window_start, requests = 0, tokens = 0
    where w.window_start < excluded.window_start;
  end if;
  if locks.budgets is not null then
    budgets := array(
      select b from ai.budgets b
      where (b.scope, b.subject_id, b.workspace_id) in (
        select s.scope, s.subject_id, s.workspace_id from unnest(locks.budgets) as s
      )
      order by b.scope, b.subject_id, b.workspace_id, b.period
      for no key update
    );
  end if;
  if locks.accounts is not null then
    accounts := array(
      select a from ai.credit_accounts a where a.id = any (locks.accounts) order by a.id for no key update
    );
  end if;
end
$$;

-- Returns the rows that the calls must lock. A refused call locks no rows.
create or replace function ai.collect_locks(claims ai.claim[]) returns ai.lock_list
  language plpgsql stable security invoker
as $$
declare
  claim ai.claim;
  entry text;
  locks ai.lock_list;
begin
  foreach claim in array claims loop
    continue when claim.refusal is not null;
    if (claim.request).idempotency_key is not null then
      locks.idempotency_keys := locks.idempotency_keys || hashtextextended(
        concat_ws(' ', (claim.caller).workspace_id, ai.principal_id(claim.caller), (claim.request).idempotency_key), 0
      );
      locks.workspaces := locks.workspaces || (claim.caller).workspace_id;
    end if;
    if ai.is_key_use_due(claim.caller) then
      locks.keys := locks.keys || (claim.caller).key_id;
    end if;
    if num_nonnulls((claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('key', (claim.caller).lineage_id, null)::ai.limit_subject;
    end if;
    if num_nonnulls(claim.model_requests_per_minute, claim.model_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows
        || row('model', ai.model_window_id((claim.caller).workspace_id, claim.model_id), null)::ai.limit_subject;
    end if;
    if num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('workspace', (claim.caller).workspace_id, null)::ai.limit_subject;
    end if;
    if claim.budget_scopes is not null then
      foreach entry in array claim.budget_scopes loop
        locks.budgets := locks.budgets || ai.claimed_budget(claim, split_part(entry, '/', 1));
      end loop;
    end if;
    if claim.account_id is not null then
      locks.accounts := locks.accounts || claim.account_id;
    end if;
  end loop;
  return locks;
end
$$;

-- Returns the subject of a call's budgets of the given scope. A label that a session sets has no budget.
create or replace function ai.claimed_budget(claim ai.claim, scope text) returns ai.limit_subject
  language sql immutable security invoker
as $$
  select row(
    scope,
    ai.budget_subject(
      scope, ((claim).caller).workspace_id, ((claim).caller).lineage_id, ((claim).caller).app_id,
      ((claim).caller).actor_id, coalesce(((claim).caller).entity_id, ((claim).request).entity_id), (claim).envelope_id
    ),
    ((claim).caller).workspace_id
  )::ai.limit_subject
$$;

-- Reserves provider calls in the rate windows, budgets and balances that they share, in the order of the calls. A call
-- that a limit refuses reserves nothing, but counts as a request in the rate windows before that limit. Returns the calls
-- with their limits and the start of their windows, or with the refusal, whose limit and room ai.explain_refusal turns
-- into what the caller may read. Not granted to any role, because it trusts its caller.
create or replace function ai.reserve(claims ai.claim[]) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  locks ai.lock_list := ai.collect_locks(claims);
  locked record := ai.lock_rows(locks);
  -- The locked rows, which the loop changes and the end writes.
  windows ai.rate_windows[];
  budgets ai.budgets[] := locked.budgets;
  accounts ai.credit_accounts[] := locked.accounts;
  window_ids uuid[];
  budget_subjects uuid[] := '{}';
  budget_entries text[];
  budget ai.budgets;
  limited ai.limit_subject;
  account_ids uuid[];
  claim ai.claim;
  -- The places of a call's rows, which are null for limits that it does not have.
  of_key integer;
  of_model integer;
  of_workspace integer;
  of_budgets integer[];
  entries text[];
  of_account integer;
  of_budget integer;
  of_envelope integer;
  room jsonb;
  full_budget integer;
  entry text;
  earlier ai.idempotency_keys;
  tokens bigint;
  refused_by text;
  frees boolean;
  room_usd numeric;
  reserves_expected boolean := false;
  has_counted boolean := false;
  has_reserved boolean := false;
  has_refused boolean := false;
begin
  if locks.rate_windows is not null then
    windows := array(
      select w
      from ai.rate_windows w
      where w.subject_id = any (array(select s.subject_id from unnest(locks.rate_windows) as s))
    );
  end if;
  for place in 1..coalesce(cardinality(windows), 0) loop
    window_ids[place] := windows[place].subject_id;
  end loop;
  for place in 1..coalesce(cardinality(budgets), 0) loop
    budget := budgets[place];
    if budget.ends_at <= now() or budget.starts_at is null then
      budget := ai.current_budget(budget, now());
      budgets[place] := budget;
    end if;
    reserves_expected := reserves_expected or budget.reserves_expected;
    budget_subjects[place] := budget.subject_id;
    budget_entries[place] := ai.budget_entry(budget.scope, budget.period);
  end loop;
  for place in 1..coalesce(cardinality(accounts), 0) loop
    account_ids[place] := accounts[place].id;
  end loop;
  if reserves_expected then
    claims := ai.expect_outputs(claims);
  end if;

  -- Decides in memory, because a call must find what the calls before it have left of every limit.
  for place in 1..cardinality(claims) loop
    claim := claims[place];
    continue when claim.refusal is not null;
    earlier := null;
    if (claim.request).idempotency_key is not null then
      select i.* into earlier
      from ai.idempotency_keys i
      where i.workspace_id = (claim.caller).workspace_id
        and i.principal_id = ai.principal_id(claim.caller)
        and i.key = (claim.request).idempotency_key
        and i.expires_at > now();
    end if;
    of_key := case
      when num_nonnulls((claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).lineage_id), 0)
    end;
    of_model := case
      when num_nonnulls(claim.model_requests_per_minute, claim.model_tokens_per_minute) > 0 then coalesce(
        array_position(window_ids, ai.model_window_id((claim.caller).workspace_id, claim.model_id)), 0
      )
    end;
    of_workspace := case
      when num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).workspace_id), 0)
    end;
    of_account := case
      when claim.account_id is not null and (claim.request).is_free is not true then coalesce(array_position(account_ids, claim.account_id), 0)
    end;
    of_budgets := '{}';
    entries := '{}';
    of_envelope := null;
    full_budget := null;
    if budgets is not null and claim.budget_scopes is not null then
      foreach entry in array claim.budget_scopes loop
        limited := ai.claimed_budget(claim, split_part(entry, '/', 1));
        foreach of_budget in array array_positions(budget_subjects, limited.subject_id) loop
          -- A call that begins is held by the budgets of all periods, a step by those that held its run's first call.
          continue when entry not like '%/*' and entry <> budget_entries[of_budget];
          budget := budgets[of_budget];
          continue when budget.scope <> limited.scope or budget.workspace_id <> limited.workspace_id;
          of_budgets := of_budgets || of_budget;
          entries := entries || budget_entries[of_budget];
          if budget.scope = 'envelope' then
            of_envelope := of_budget;
          end if;
          if full_budget is null and not ai.fits_budget(claim, budget) then
            full_budget := of_budget;
          end if;
        end loop;
      end loop;
    end if;
    claim.budget_scopes := entries;
    -- In the window of the run's last reservation, replaces the tokens that earlier steps reserved and did not use.
    tokens := claim.tokens - case
      when claim.minute = greatest(
        windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start
      )
        then claim.replaced_tokens
      else 0
    end;
    refused_by := case
      when of_key is not null and not ai.fits_window(
        windows[of_key], claim.requests, case when earlier.key is null then tokens else 0 end,
        (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
      ) then 'key_window'
      when earlier.key is not null then 'idempotency'
      when budgets[full_budget].scope <> 'workspace' then 'budget'
      when of_model is not null and not ai.fits_window(
        windows[of_model], claim.requests, tokens, claim.model_requests_per_minute, claim.model_tokens_per_minute
      ) then 'model_window'
      when of_workspace is not null and not ai.fits_window(
        windows[of_workspace], claim.requests, tokens,
        (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
      ) then 'workspace_window'
      when full_budget is not null then 'workspace_budget'
      when not coalesce(accounts[of_account].balance - accounts[of_account].reserved >= claim.credits, of_account is null)
        then 'balance'
    end;

    has_counted := has_counted or refused_by is distinct from 'key_window';
    if of_key is not null and refused_by is distinct from 'key_window' then
      windows[of_key].requests := windows[of_key].requests + claim.requests;
    end if;
    if of_model is not null and coalesce(refused_by in ('workspace_window', 'workspace_budget', 'balance'), true) then
      windows[of_model].requests := windows[of_model].requests + claim.requests;
    end if;
    if of_workspace is not null and coalesce(refused_by in ('workspace_budget', 'balance'), true) then
      windows[of_workspace].requests := windows[of_workspace].requests + claim.requests;
    end if;
    if refused_by is null then
      has_reserved := true;
      if of_key is not null then
        windows[of_key].tokens := windows[of_key].tokens + coalesce(tokens, 0);
      end if;
      if of_model is not null then
        windows[of_model].tokens := windows[of_model].tokens + coalesce(tokens, 0);
      end if;
      if of_workspace is not null then
        windows[of_workspace].tokens := windows[of_workspace].tokens + coalesce(tokens, 0);
      end if;
      foreach of_budget in array of_budgets loop
        budget := budgets[of_budget];
        if budget.period <> 'concurrent' then
          budget.reserved_usd := budget.reserved_usd + ai.budget_need(claim, budget);
          if budget.reserves_expected and claim.expected_usd is not null then
            claim.expected_scopes := claim.expected_scopes || budget_entries[of_budget];
          end if;
        end if;
        if budget.period = 'concurrent' or of_budget = of_envelope then
          budget.calls := budget.calls + claim.requests;
        end if;
        budgets[of_budget] := budget;
      end loop;
      if of_envelope is not null then
        room := ai.envelope_room(budgets[of_envelope], ai.payer_id(claim.caller) is null or (claim.caller).cost_visible);
        -- The gateway computes with what is left, so it is an exact decimal in text.
        claim.envelope := claim.envelope || room
          || jsonb_strip_nulls(jsonb_build_object('remaining_usd', room ->> 'remaining_usd'));
      end if;
      if of_account is not null then
        accounts[of_account].reserved := accounts[of_account].reserved + claim.credits;
      end if;
    elsif refused_by in ('budget', 'workspace_budget') then
      -- Stores the time of the window's first refusal, and of later refusals at most once a minute. An envelope whose
      -- running calls only reserve too much hasn't stopped its run.
      if (
          full_budget = of_envelope and not ai.fits_when_settled(claim, budgets[full_budget])
          or full_budget is distinct from of_envelope
            and budgets[full_budget].reserved_usd + ai.budget_need(claim, budgets[full_budget])
              + budgets[full_budget].spent_usd > budgets[full_budget].limit_usd
        )
        and coalesce(
          budgets[full_budget].refused_at < greatest(now() - interval '1 minute', budgets[full_budget].starts_at), true
        ) then
        budgets[full_budget].refused_at := now();
        has_refused := true;
      end if;
    elsif refused_by = 'balance' and of_account > 0 then
      if coalesce(accounts[of_account].refused_at < now() - interval '1 minute', true) then
        accounts[of_account].refused_at := now();
        has_refused := true;
      end if;
    end if;

    claim.minute := greatest(
      windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start
    );
    claim.limits := ai.rate_limit_headers(
      coalesce(windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start), array[
        (claim.caller).key_requests_per_minute, windows[of_key].requests,
        (claim.caller).key_tokens_per_minute, windows[of_key].tokens,
        (claim.caller).workspace_requests_per_minute, windows[of_workspace].requests,
        (claim.caller).workspace_tokens_per_minute, windows[of_workspace].tokens
      ], case when of_model is not null then array[
        claim.model_requests_per_minute, windows[of_model].requests, claim.model_tokens_per_minute, windows[of_model].tokens
      ] end
    );
    if refused_by = 'idempotency' then
      claim.refusal := ai.idempotent_refusal(earlier, decode((claim.request).fingerprint, 'hex'));
    elsif refused_by is not null then
      -- Whether the budgets and the balance had room if no other call reserved anything. If so, the call may be admitted
      -- as soon as running calls are settled.
      frees := refused_by in ('budget', 'workspace_budget', 'balance')
        and coalesce(accounts[of_account].balance >= claim.credits, claim.credits = 0);
      room_usd := null;
      foreach of_budget in array of_budgets loop
        frees := frees and ai.fits_when_settled(claim, budgets[of_budget]);
        room_usd := least(room_usd, ai.budget_room(claim, budgets[of_budget]));
      end loop;
      claim.refusal := ai.refusal(
        case refused_by
          when 'balance' then 'insufficient_credits'
          when 'budget' then ai.budget_refusal_code(budgets[full_budget])
          when 'workspace_budget' then ai.budget_refusal_code(budgets[full_budget])
          else 'rate_limit_exceeded'
        end,
        case
          when coalesce(of_key, of_model, of_workspace) is not null then jsonb_build_object('limits', claim.limits::json, 'at', now())
          else '{}'
        end || case when frees then jsonb '{"frees": true}' else '{}' end || jsonb_build_object(
          'limit', case
            when refused_by = 'key_window' then ai.window_limit(
              'key', windows[of_key], claim.requests, tokens,
              (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
            )
            when refused_by = 'model_window' then ai.window_limit(
              'model', windows[of_model], claim.requests, tokens,
              claim.model_requests_per_minute, claim.model_tokens_per_minute
            )
            when refused_by = 'workspace_window' then ai.window_limit(
              'workspace', windows[of_workspace], claim.requests, tokens,
              (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
            )
            when refused_by = 'balance' then ai.balance_limit(accounts[of_account])
            when full_budget = of_envelope then claim.envelope || ai.envelope_limit(budgets[full_budget])
            when budgets[full_budget].period = 'concurrent' then ai.concurrency_limit(budgets[full_budget])
            else ai.budget_limit(budgets[full_budget])
          end,
          'room', jsonb_build_object(
            'usd', room_usd,
            'credits', accounts[of_account].balance - accounts[of_account].reserved,
            'tokens', claim.tokens - tokens + least(
              (claim.caller).key_tokens_per_minute - windows[of_key].tokens,
              claim.model_tokens_per_minute - windows[of_model].tokens,
              (claim.caller).workspace_tokens_per_minute - windows[of_workspace].tokens
            )
          ),
          'need', case
            when refused_by in ('key_window', 'model_window', 'workspace_window') then jsonb_strip_nulls(jsonb_build_object('tokens', tokens))
            when refused_by = 'balance' then jsonb_build_object('credits', claim.credits)
            when budgets[full_budget].period = 'concurrent' then '{}'
            -- With tokens if the amount is that of the usual output, of so many tokens.
            else jsonb_strip_nulls(jsonb_build_object(
              'usd', ai.budget_need(claim, budgets[full_budget]),
              'tokens', case when budgets[full_budget].reserves_expected then claim.expected_output end
            ))
          end
        )
      );
    end if;
    claims[place] := claim;
  end loop;

  if locks.keys is not null then
    perform ai.record_key_use(locks.keys);
  end if;
  if windows is not null and has_counted then
    update ai.rate_windows w set requests = n.requests, tokens = n.tokens
    from unnest(windows) as n
    where w.subject_id = any (window_ids) and w.subject_id = n.subject_id and w.scope = n.scope
      and (w.requests, w.tokens) <> (n.requests, n.tokens);
  end if;
  if budgets is not null and (has_reserved or has_refused) then
    update ai.budgets b
    set reserved_usd = n.reserved_usd, spent_usd = n.spent_usd, starts_at = n.starts_at, ends_at = n.ends_at,
      calls = n.calls, refused_at = n.refused_at
    from unnest(budgets) as n
    where b.scope = n.scope and b.subject_id = n.subject_id and b.workspace_id = n.workspace_id and b.period = n.period
      and (b.reserved_usd, b.calls, b.refused_at) is distinct from (n.reserved_usd, n.calls, n.refused_at);
  end if;
  if accounts is not null and (has_reserved or has_refused) then
    update ai.credit_accounts a set reserved = n.reserved, refused_at = n.refused_at
    from unnest(accounts) as n
    where a.id = any (account_ids) and a.id = n.id and a is distinct from n;
  end if;
  return claims;
end
$$;

-- Returns a balance as a refusal states it.
create or replace function ai.balance_limit(account ai.credit_accounts) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'balance',
    'balance_credits', trim_scale((account).balance),
    'reserved_credits', trim_scale((account).reserved),
    'remaining_credits', trim_scale(greatest((account).balance - (account).reserved, 0))
  )
$$;

-- Returns each call with its caller, its routes and its maximum cost, or with the reason why it is refused, in the order
-- of the calls. Locks nothing. If the caller stated no output limit, the model's own default replaces the assumed limit.
-- It is lowered to the model's limit (2,048 if both are unknown) and to the room left in the context window. A free call
-- reserves nothing.
create or replace function ai.price_calls(calls jsonb) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  people ai.caller[] := ai.user_callers(calls);
begin
  return (
    -- Each subquery with `offset 0` computes its columns once, for all the expressions that read them.
    with named as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        case
          when (c.caller).allowed_regions is null then (c.request).providers
          else ai.providers_in_regions((c.request).providers, (c.request).regions, (c.caller).allowed_regions)
        end as providers
      from ai.find_callers(calls, people) c
    ),
    requests as materialized (
      select
        n.*, l.model_requests, l.model_tokens,
        least((n.caller).key_tokens_per_minute, l.model_tokens, (n.caller).workspace_tokens_per_minute) as token_limit,
        coalesce((n.caller).entity_id, (n.request).entity_id, (n.request).session_label) as label
      from named n
      -- Most workspaces have no limits by model.
      cross join lateral (
        select
          ((n.caller).model_limits -> n.model_id ->> 'requests')::integer as model_requests,
          ((n.caller).model_limits -> n.model_id ->> 'tokens')::bigint as model_tokens
        offset 0
      ) as l
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, d.regions, p.routes
      from (select distinct r.model_id, r.providers, (r.request).regions from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers, d.regions) as p
    )
    select coalesce(array_agg(row(
      coalesce(
        ai.price_refusal(
          r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens, r.model_tokens
        ),
        case when (e.envelope).id is not null then ai.named_envelope_refusal(r.request, e.envelope) end
      ),
      r.request, r.caller, r.label,
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd,
      case
        when (r.request).is_free then null
        when (e.envelope).id is not null then '{envelope/*}'::text[] || (r.caller).budgets
        else (r.caller).budgets
      end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null, r.model_requests, r.model_tokens, (e.envelope).id,
      case when (e.envelope).id is not null then
        jsonb_build_object('id', (e.envelope).id, 'label', (e.envelope).label)
      end, null, null, null
    )::ai.claim order by r.place), '{}')
    from requests r
    left join lateral (
      select m as model
      from ai.usable_models(
        (r.caller).workspace_id, (r.caller).plan_id, (r.caller).workspace_models, (r.caller).denied_models,
        (r.caller).key_models
      ) m
      where m.id = r.model_id and m.kind = (r.request).kind
      offset 0
    ) as m on true
    left join offers o on o.model_id = (m.model).id and o.providers = r.providers
      and o.regions is not distinct from (r.request).regions
    cross join lateral (
      select
        i.image_tokens, i.audio_tokens,
        -- No reading exceeds the context window.
        least(i.text_tokens, (m.model).context_window * (r.request).input_reads) as text_tokens,
        least(
          case when (r.request).output_limit_assumed then
            coalesce((m.model).default_output_limit, (r.request).output_limit)
          else (r.request).output_limit end,
          (m.model).output_limit,
          case when (r.request).output_limit_assumed then ai.assumed_output_limit(
            m.model, least((r.request).expected_tokens, i.text_tokens + i.image_tokens + i.audio_tokens)
          ) end
        ) as output_limit
      from ai.input_tokens((r.request).input_bytes, (r.request).images, (r.request).audio_seconds) as i
      offset 0
    ) as u
    cross join lateral (
      select case when (r.request).is_free then 0 else x.usd end::numeric(24, 12) as usd
      from ai.maximum_cost(
        o.routes, u.text_tokens, u.image_tokens, u.audio_tokens, u.output_limit * coalesce((r.request).choices, 1),
        (r.request).hour_writes, (r.request).service_tier, (r.request).fee_requests, (r.request).kind = 'speech'
      ) as x
      offset 0
    ) as x
    cross join lateral (
      select
        i.input_tokens,
        case when r.token_limit is not null then ai.reserved_tokens(
          i.input_tokens, u.output_limit, (r.request).choices, (r.request).output_limit_assumed, r.token_limit
        ) end as reserved_tokens
      from (
        -- Token limits count one reading, of average size: few calls use a server tool as often as they may.
        select u.text_tokens / coalesce((r.request).input_reads, 1) + u.image_tokens / coalesce((r.request).input_reads, 1)
          + u.audio_tokens as input_tokens
      ) as i
      offset 0
    ) as t
    left join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = ai.payer_id(r.caller) offset 0
    ) as a on true
    -- An envelope has a budget, so a workspace without budgets has no envelope.
    left join lateral (
      select e as envelope
      from ai.find_envelope(
        (r.caller).workspace_id, ai.envelope_principal(r.caller), r.label, (r.request).envelope is not null
      ) e
      where (r.caller).budgets is not null and (r.request).is_free is not true
      offset 0
    ) as e on true
  );
end
$$;

-- Returns the refusal of a call for a usable model that has no route. If the model has one outside the allowed regions,
-- the refusal says so.
create or replace function ai.route_refusal(model text, request ai.run_request, allowed_regions text[]) returns jsonb
  language sql stable security invoker
as $$
  select case
    when allowed_regions is not null
      and exists (select from ai.open_routes((request).providers) r where r.model_id = model)
      then ai.refusal('region_not_allowed', '{"param": "model"}')
    else ai.refusal('model_not_found')
  end
$$;

-- Returns a model's routes to the given providers in order, with their current prices and the providers' regions, in
-- the form in which runs store them. Returns null if there is none. A run uses no other routes.
create or replace function ai.priced_routes(model text, providers text[], regions jsonb) returns table (routes jsonb)
  language sql stable security invoker
as $$
  select jsonb_agg(
    jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.prices)
    || case when regions ? r.provider_id then jsonb_build_object('region', regions -> r.provider_id) else jsonb '{}' end
    || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
    || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
    || case
      when exists (select from ai.provider_limits l where l.provider_id = r.provider_id) then jsonb '{"limited": true}'
      else jsonb '{}'
    end
    || case
      when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
      else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
        'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
      )))
    end
    order by r.place
  )
  from ai.open_routes(providers) r
  where r.model_id = model
$$;

-- Takes provider calls from the buckets of their providers, in the order of the calls. A call is {"provider",
-- "input_bytes", "images", "audio_seconds", "output_tokens", "context_window", "wait_ms"}. Its tokens are its maximum
-- input plus its output limit, as OpenAI counts them (https://platform.openai.com/docs/guides/rate-limits). Returns for
-- each call {"taken", "wait_ms"}: the call was taken and may be made after wait_ms, which is at most the wait_ms that it
-- accepts; or it was not taken and fits after wait_ms, which is null if the call alone exceeds the limit.
-- Definer: gateway has no grant on any table.
create or replace function ai.take_provider_calls(calls jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- After a crash of Postgres, calls of its last moments may be missing in the buckets.
  perform set_config('synchronous_commit', 'off', true);
  return ai.take_calls(calls);
end
$$;

-- Takes provider calls like ai.take_provider_calls, at a given time in tests.
create or replace function ai.take_calls(calls jsonb, fixed_time timestamptz default null) returns jsonb
  language plpgsql volatile security invoker
  set plan_cache_mode = force_generic_plan
as $$
declare
  provider text;
  limits ai.provider_limits;
  started_at timestamptz;
  call record;
  -- In microseconds from started_at: when each bucket is full, and when the call fits into both.
  requests_full bigint;
  tokens_full bigint;
  fits bigint;
  is_taken boolean;
  has_taken boolean;
  answers jsonb[];
begin
  for provider in select distinct c ->> 'provider' from jsonb_array_elements(calls) as c order by 1 loop
    select * into limits from ai.provider_limits l where l.provider_id = provider for no key update;
    -- The time is read after the wait for the lock, so that calls don't count as earlier than they are.
    started_at := coalesce(fixed_time, clock_timestamp());
    requests_full := ai.microseconds_until(limits.requests_full_at, started_at);
    tokens_full := ai.microseconds_until(limits.tokens_full_at, started_at);
    has_taken := false;
    for call in
      select
        c.ordinality::integer as place, coalesce((c.value ->> 'wait_ms')::bigint, 0) as wait_ms,
        least(i.text_tokens, (c.value ->> 'context_window')::bigint) + i.image_tokens + i.audio_tokens
          + (c.value ->> 'output_tokens')::bigint as tokens
      from jsonb_array_elements(calls) with ordinality as c
      cross join lateral ai.input_tokens(
        (c.value ->> 'input_bytes')::bigint, (c.value ->> 'images')::bigint,
        coalesce((c.value ->> 'audio_seconds')::bigint, 0)
      ) as i
      where c.value ->> 'provider' = provider
      order by c.ordinality
    loop
      fits := greatest(
        0,
        requests_full + ai.refill_time(1 - ai.bucket_size(limits.requests_per_minute), limits.requests_per_minute),
        tokens_full + ai.refill_time(call.tokens - ai.bucket_size(limits.tokens_per_minute), limits.tokens_per_minute)
      );
      if call.tokens > limits.tokens_per_minute then
        fits := null;
      end if;
      is_taken := coalesce(fits / 1000 <= call.wait_ms, false);
      if is_taken then
        has_taken := true;
        requests_full := greatest(requests_full, fits) + ai.refill_time(1, limits.requests_per_minute);
        tokens_full := greatest(tokens_full, fits) + ai.refill_time(call.tokens, limits.tokens_per_minute);
      end if;
      answers[call.place] := jsonb_build_object('taken', is_taken, 'wait_ms', fits / 1000);
    end loop;
    if has_taken then
      update ai.provider_limits l
      set
        requests_full_at = coalesce(started_at + requests_full * interval '1 microsecond', l.requests_full_at),
        tokens_full_at = coalesce(started_at + tokens_full * interval '1 microsecond', l.tokens_full_at)
      where l.provider_id = provider;
    end if;
  end loop;
  return coalesce(to_jsonb(answers), '[]');
end
$$;

-- Returns the size of a limit's bucket: a tenth of the limit, at least 1. Null without a limit.
create or replace function ai.bucket_size(per_minute bigint) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select greatest(per_minute / 10, 1)
$$;

-- Returns the microseconds in which a limit's bucket refills by an amount, rounded up.
--
-- A call of n tokens at time a fits if the bucket has been full for the time in which it would refill by n minus its
-- size, which is negative for a small call. So n tokens are also taken from an empty bucket that is full n later:
-- full[i] = max(full[i-1], a[i]) + time(n[i]), and full[k-1] <= a[k] + time(size - n[k]). From call i to call k, the
-- first gives time(n[i] + … + n[k-1]) <= full[k-1] - a[i], and the second then time(n[i] + … + n[k] - size) <=
-- a[k] - a[i]. With a refill of limit + 1 - size in 61 seconds, all calls in less than 61 seconds have less than
-- limit + 1 tokens. The additional second allows for waits that are
-- rounded down to milliseconds, and for calls that reach the provider later than others.
create or replace function ai.refill_time(amount bigint, per_minute bigint) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select ceil(amount * 61000000.0 / (per_minute + 1 - greatest(per_minute / 10, 1)))::bigint
$$;

-- Returns the microseconds from one time to another. If the clock was set back, at most two minutes.
create or replace function ai.microseconds_until(until timestamptz, since timestamptz) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select least(extract(epoch from until - since), 120)::numeric * 1000000
$$;

-- Returns how much of a limit is left in its bucket now.
create or replace function ai.bucket_level(full_at timestamptz, per_minute bigint) returns bigint
  language sql stable strict security invoker
as $$
  select greatest(0, least(s.size, s.size - ceil(
    ai.microseconds_until(full_at, now())::numeric * (per_minute + 1 - s.size) / 61000000
  )))::bigint
  from (select ai.bucket_size(per_minute) as size) as s
$$;

-- Returns the subject of the rate window of a model in a workspace.
create or replace function ai.model_window_id(workspace uuid, model text) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select ai.label_id(workspace::text || '/' || replace(model, '\', '\\'))
$$;

-- Returns a rate limit as a refusal states it: the limit of requests if that one is reached, otherwise that of tokens.
create or replace function ai.window_limit(
  scope text, counted ai.rate_windows, requests integer, tokens bigint, request_limit integer, token_limit bigint
) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'rate', 'scope', scope, 'unit', l.unit, 'window', 'minute',
    'resets_at', ai.utc_text(w.resets_at),
    'reset_seconds', greatest(ceil(extract(epoch from w.resets_at - now())), 1),
    'limit', l.maximum, 'used', l.used, 'remaining', greatest(l.maximum - l.used, 0)
  )
  from (select coalesce((counted).window_start, date_trunc('minute', now())) + interval '1 minute' as resets_at) as w
  cross join lateral (
    select 'requests' as unit, request_limit::bigint as maximum, coalesce((counted).requests, 0)::bigint as used
    where request_limit is not null and requests > 0 and (counted).requests + requests > request_limit
    union all
    select 'tokens', token_limit, coalesce((counted).tokens, 0) where token_limit is not null
    limit 1
  ) as l
$$;

-- Returns the refusal of a call whose token count exceeds the per-minute limit of its key, its workspace or its model in
-- the workspace. The call would not fit in any later minute either.
create or replace function ai.token_limit_refusal(
  caller ai.caller, model_limit bigint, input_tokens bigint, tokens bigint
) returns jsonb
  language sql stable security invoker parallel safe
as $$
  select ai.refusal('invalid_request', jsonb_build_object('token_limit', jsonb_build_object(
    'scope', l.scope, 'limit', l.maximum, 'input', input_tokens, 'counted', tokens
  )))
  from (
    values ('key', (caller).key_tokens_per_minute, 1), ('model', model_limit, 2), ('workspace', (caller).workspace_tokens_per_minute, 3)
  ) as l (scope, maximum, place)
  order by l.maximum nulls last, l.place
  limit 1
$$;

-- Returns the limits of a call as JSON text: {"minute", "counts", "model"}. minute is the start of the rate window. counts
-- is a flat list of four pairs, each a limit and a count: the key's requests, the key's tokens, the workspace's requests
-- and the workspace's tokens. model has the two pairs of the call's model, if it has limits. A limit is null if there is
-- none.
create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[], model_counts bigint[]) returns text
  language sql stable security invoker parallel safe
as $$
  select format('{"minute":%s,"counts":%s', coalesce(to_json(minute), 'null'), array_to_json(counts))
    || coalesce(',"model":' || array_to_json(model_counts), '') || '}'
$$;

-- Returns a call's refusal with what its caller may know about it. Amounts are left out if GET /v1/key would not show
-- them to this caller. fitting_output_limit is the highest output limit with which the same call fits all limits now, or
-- null if no limit does. run is the run that an extension belongs to. Without suggestions, says neither what would fit nor
-- which models and regions there are, because that takes longer than everything else.
create or replace function ai.explain_refusal(
  claim ai.claim, run ai.runs default null, with_suggestions boolean default true
) returns jsonb
  language plpgsql stable security invoker
as $$
declare
  caller ai.caller := claim.caller;
  request ai.run_request := claim.request;
  refusal jsonb := claim.refusal - 'room';
  room jsonb := claim.refusal -> 'room';
  reached jsonb := claim.refusal -> 'limit';
  token_limit jsonb := claim.refusal -> 'token_limit';
  is_exempt boolean := ai.payer_id(caller) is null;
  hides_balance boolean := caller.payer = 'member' and caller.source = 'key' and not is_exempt;
  fits bigint;
begin
  if refusal ->> 'refused' = 'model_not_found' then
    return refusal || case
      when with_suggestions then ai.missing_model(request, caller)
      else jsonb_strip_nulls(jsonb_build_object('model', request.model))
    end;
  elsif refusal ->> 'refused' = 'region_not_allowed' and with_suggestions then
    return refusal || jsonb_build_object(
      'allowed_regions', caller.allowed_regions,
      'regions', (
        select jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown'))
        from ai.open_routes(request.providers) r
        where r.model_id = claim.model_id
      )
    );
  elsif refusal #>> '{missing,kind}' = 'address' then
    return jsonb_set(refusal, '{missing,address}', coalesce(to_jsonb(host(request.address)), 'null'));
  elsif refusal ? 'model_output_limit' then
    return refusal || jsonb_build_object(
      'limit', jsonb_build_object('kind', 'model_output', 'limit', refusal -> 'model_output_limit'),
      'need', jsonb_build_object('tokens', request.output_limit),
      'fitting_output_limit', refusal -> 'model_output_limit'
    );
  elsif token_limit is not null then
    reached := jsonb_build_object(
      'kind', 'rate', 'scope', token_limit -> 'scope', 'unit', 'tokens', 'window', 'minute', 'limit', token_limit -> 'limit'
    );
    refusal := refusal || jsonb_build_object(
      'need', jsonb_build_object('tokens', token_limit -> 'counted', 'input_tokens', token_limit -> 'input')
    );
    if request.kind = 'chat' then
      refusal := refusal || jsonb_build_object('fitting_output_limit', nullif(greatest(
        ((token_limit ->> 'limit')::bigint - (token_limit ->> 'input')::bigint) / coalesce(request.choices, 1), 0
      ), 0));
    end if;
  elsif reached is null then
    return refusal;
  elsif with_suggestions and request.kind = 'chat' and reached ->> 'unit' is distinct from 'requests'
    and reached ->> 'kind' <> 'concurrent' then
    fits := case when not (hides_balance and reached ->> 'kind' = 'balance') then ai.fitting_output_limit(claim, room, run) end;
    -- With prices, an output limit that a balance determines would tell what another person has left.
    if not hides_balance or reached ->> 'kind' <> 'balance'
      and fits is not distinct from ai.fitting_output_limit(claim, room - 'credits', run) then
      refusal := refusal || jsonb_build_object('fitting_output_limit', fits);
    end if;
  end if;

  if run.id is not null then
    refusal := refusal || jsonb '{"is_step": true}';
  end if;
  if reached ->> 'kind' = 'envelope' then
    if not (is_exempt or caller.cost_visible) then
      reached := reached - array['limit_usd', 'spent_usd', 'reserved_usd', 'remaining_usd'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'kind' in ('budget', 'concurrent') then
    reached := reached || jsonb_strip_nulls(jsonb_build_object('name', case reached ->> 'scope'
      when 'key' then caller.key_name
      when 'app' then (select a.display_name from private.apps a where a.id = caller.app_id)
      when 'label' then caller.entity_id
    end)) || case
      when reached ->> 'scope' = 'member' and caller.source <> 'key' then jsonb '{"is_caller": true}'
      else '{}'
    end;
    if not (is_exempt or caller.cost_visible) then
      reached := reached - array['limit_usd', 'spent_usd', 'reserved_usd', 'remaining_usd'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'kind' = 'balance' then
    reached := reached || jsonb_build_object('payer', caller.payer) || case
      when caller.payer = 'member' and caller.source <> 'key' then jsonb '{"is_caller": true}'
      else '{}'
    end;
    if not (caller.cost_visible and (caller.payer = 'workspace' or caller.source = 'session')) then
      reached := reached - array['balance_credits', 'reserved_credits', 'remaining_credits'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'scope' = 'key' then
    reached := reached || jsonb_build_object('name', caller.key_name);
  elsif reached ->> 'scope' = 'model' then
    reached := reached || jsonb_build_object('name', claim.model_id);
  elsif reached ->> 'scope' = 'workspace' and (
    select case reached ->> 'unit' when 'requests' then p.requests_per_minute else p.tokens_per_minute end
    from ai.plans p
    where p.id = caller.plan_id
  ) = (reached ->> 'limit')::bigint then
    reached := reached || jsonb '{"scope": "plan"}';
  end if;
  return refusal || jsonb_build_object('limit', reached);
end
$$;

-- Returns the highest output limit with which a refused call, or the refused step of a run, would fit into what is left
-- of its limits (room has usd, credits and tokens, each null without such a limit). Returns null if none fits. A call
-- that states its output limit counts it in full. If the call stated none, the field that states it lengthens the input.
create or replace function ai.fitting_output_limit(claim ai.claim, room jsonb, run ai.runs) returns bigint
  language plpgsql stable security invoker
as $$
declare
  request ai.run_request := claim.request;
  caller ai.caller := claim.caller;
  choices bigint := coalesce(request.choices, 1);
  reads bigint := coalesce(request.input_reads, 1);
  stated_bytes bigint := case when request.output_limit_assumed then 48 else 0 end;
  room_usd numeric := (room ->> 'usd')::numeric;
  room_credits numeric := (room ->> 'credits')::numeric;
  spare_usd numeric;
  input record;
  fits bigint := 1;
  exceeds bigint := claim.output_limit;
  guess bigint;
  low numeric;
  high numeric;
  cost numeric(24, 12);
begin
  select least(i.text_tokens, claim.context_window * reads) as text_tokens, i.image_tokens, i.audio_tokens into input
  from ai.input_tokens(request.input_bytes + stated_bytes, request.images, request.audio_seconds) as i;
  exceeds := least(exceeds, 1 + (
    (room ->> 'tokens')::bigint - input.text_tokens / reads - input.image_tokens / reads - input.audio_tokens
  ) / choices);
  -- Credits as dollars, to choose the next guess. Whether it fits is decided in credits.
  spare_usd := least(
    room_usd, (room_credits + coalesce(run.reserved_credits, 0)) / ai.credits_per_usd(caller.markup) - coalesce(run.reserved_usd, 0)
  );

  -- Tries 1, the highest limit that the tokens allow, and then what lies on the line between the nearest known costs. A
  -- cost is the highest of several lines, one for each price, so few guesses are needed. Every fourth one halves the
  -- rest, so that no price can need many.
  for attempt in 0..200 loop
    exit when exceeds - fits <= 1 and attempt > 0;
    if exceeds <= 1 then
      return null;
    end if;
    guess := case
      when attempt = 0 then 1
      when attempt = 1 then exceeds - 1
      when attempt % 4 = 0 or high is null or high <= low then (fits + exceeds) / 2
      else least(greatest(fits + floor((spare_usd - low) / (high - low) * (exceeds - fits))::bigint, fits + 1), exceeds - 1)
    end;
    select x.usd into cost
    from ai.maximum_cost(
      claim.routes, input.text_tokens, input.image_tokens, input.audio_tokens, guess * choices, request.hour_writes,
      request.service_tier, request.fee_requests, false
    ) as x;
    if coalesce(cost <= room_usd, true) and coalesce(
      ai.usd_to_credits(coalesce(run.reserved_usd, 0) + cost, caller.markup) - coalesce(run.reserved_credits, 0) <= room_credits,
      true
    ) then
      fits := guess;
      low := cost;
    elsif attempt = 0 then
      return null;
    else
      exceeds := guess;
      high := cost;
    end if;
  end loop;
  return fits;
end
$$;

-- Returns the requested model of a call that does not find it, and the ids of at most three models that the caller may use
-- and whose ids resemble the requested one, closest first. Whether the requested model exists makes no difference.
create or replace function ai.missing_model(request ai.run_request, caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'model', (request).model, 'similar_models', jsonb_agg(s.id order by s.similarity desc, s.id)
  ))
  from (
    select m.id, u.similarity
    from ai.usable_models(
      (caller).workspace_id, (caller).plan_id, (caller).workspace_models, (caller).denied_models, (caller).key_models
    ) m
    cross join lateral (select extensions.similarity(m.id, left((request).model, 128)) as similarity) as u
    where (m.kind = (request).kind or (request).kind is null)
      and m.id <> (request).model
      and u.similarity >= 0.4
      and exists (
        select
        from ai.open_routes(case
          when (caller).allowed_regions is null then (request).providers
          else ai.providers_in_regions((request).providers, (request).regions, (caller).allowed_regions)
        end) r
        where r.model_id = m.id
      )
    order by u.similarity desc, m.id
    limit 3
  ) as s
$$;

-- Records refused calls that the gateway gathered, by caller: { callers: [{ credential, workspace, age_ms, calls,
-- counts }] }. calls has the first calls of a minute in full, and counts the number of all of them by model, feature and
-- code. Adds all to the daily sums, and stores at most 20 calls a caller and minute. Ignores callers whose credential is
-- unknown by now, and sessions of people who are not members of the workspace that they name. Returns false, and records
-- nothing, while another process is recording: waiting would hold a connection of the gateway.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.record_refused_calls(batch jsonb) returns boolean
  language plpgsql volatile security definer set search_path = ''
  -- Partitions and sums are small when a plan is made and large when it is used. Lookups are subselects and lateral
  -- joins, which these settings leave as they are. All other joins are between sets of any size.
  set enable_seqscan = off set enable_nestloop = off set jit = off
as $$
declare
  max_calls constant integer := 20;
  max_combinations constant integer := 20;
  people ai.caller[];
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.record_refused_calls', 0)) then
    return false;
  end if;
  people := ai.user_callers(batch -> 'callers');
  with callers as materialized (
    select
      (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, (c.caller).entity_id, b.value as refused
    from ai.find_callers(batch -> 'callers', people) as c
    join jsonb_array_elements(batch -> 'callers') with ordinality as b (value, place) on b.place = c.place
    where (select true from public.workspaces w where w.id = (c.caller).workspace_id and w.deleted_at is null)
      and ((c.caller).source <> 'session' or (
        select true from public.workspace_members m
        where m.user_id = (c.caller).actor_id and m.workspace_id = (c.caller).workspace_id
      ))
  ), calls as materialized (
    select
      c.*, e.*, m.created_at, date_trunc('minute', m.created_at) as minute,
      row_number() over (
        partition by c.workspace_id, c.actor_id, c.app_id, c.key_id, date_trunc('minute', m.created_at)
        order by m.created_at
      ) as place
    from callers c
    cross join lateral jsonb_to_recordset(c.refused -> 'calls') as e (
      age_ms double precision, request_id text, endpoint text, feature text, label text, model text, streamed boolean,
      status smallint, code text, param text, details jsonb
    )
    cross join lateral (select ai.moment_before(e.age_ms) as created_at) as m
  ), earlier as materialized (
    -- Reads each minute of a workspace once, for all its callers.
    select s.workspace_id, m.minute, row(s.actor_id, s.app_id, s.key_id)::text as caller, count(*) as calls
    from (select distinct c.workspace_id, c.minute from calls c) as m
    cross join lateral (
      select *
      from ai.refused_calls r
      where r.workspace_id = m.workspace_id
        and r.created_at >= m.minute and r.created_at < m.minute + interval '1 minute'
      offset 0
    ) as s
    group by 1, 2, 3
  ), stored as (
    insert into ai.refused_calls (
      id, created_at, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, feature, entity_id,
      request_id, model_id, endpoint, streamed, http_status, error_code, param, details
    )
    select
      ai.run_id(c.created_at), c.created_at, c.workspace_id, c.actor_id, c.app_id, c.key_id, c.lineage_id, c.source,
      c.feature, coalesce(c.entity_id, c.label), c.request_id, left(c.model, 128), c.endpoint,
      coalesce(c.streamed, false), c.status, c.code, left(c.param, 256), c.details
    from calls c
    left join earlier e
      on e.workspace_id = c.workspace_id and e.minute = c.minute
      and e.caller = row(c.actor_id, c.app_id, c.key_id)::text
    where coalesce(e.calls, 0) + c.place <= max_calls
  ), counted as materialized (
    select
      c.workspace_id, (ai.moment_before((c.refused ->> 'age_ms')::double precision) at time zone 'UTC')::date as day,
      c.app_id, c.lineage_id, c.actor_id,
      (select m.id from ai.models m where m.id = n.model) as model_id, n.feature,
      case c.source when 'key' then 'background' else 'interactive' end as execution_mode, n.code,
      sum(n.count)::bigint as refused
    from callers c
    cross join lateral jsonb_to_recordset(c.refused -> 'counts') as n (
      model text, feature text, code text, count bigint
    )
    where n.count > 0
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9
  ), totals as (
    insert into ai.totals as t (figure, label, total)
    select 'refused_calls', c.code, sum(c.refused)
    from counted c
    group by c.code
    on conflict (figure, label) do update set total = t.total + excluded.total
  ), summed as materialized (
    select
      c.workspace_id, c.day, c.app_id, c.lineage_id, c.actor_id, c.model_id, c.feature, c.execution_mode,
      row(c.app_id, c.lineage_id, c.actor_id, c.execution_mode)::text as caller,
      row(c.model_id, c.feature)::text as combination, sum(c.refused) as refused
    from counted c
    group by 1, 2, 3, 4, 5, 6, 7, 8
  ), known as materialized (
    -- Reads each day of a workspace once, for all its callers.
    select
      d.workspace_id, d.day, row(d.app_id, d.key_lineage_id, d.actor_id, d.execution_mode)::text as caller,
      row(d.model_id, d.feature)::text as combination
    from (select distinct s.workspace_id, s.day from summed s) as w
    cross join lateral (
      select * from ai.refused_daily r where r.workspace_id = w.workspace_id and r.day = w.day offset 0
    ) as d
  ), bounded as (
    select
      s.*,
      k.combination is not null or coalesce(n.combinations, 0) + row_number() over (
        partition by s.workspace_id, s.day, s.caller, k.combination is null
      ) <= max_combinations as has_row
    from summed s
    left join known k
      on k.workspace_id = s.workspace_id and k.day = s.day and k.caller = s.caller and k.combination = s.combination
    left join (select workspace_id, day, caller, count(*) as combinations from known group by 1, 2, 3) as n
      on n.workspace_id = s.workspace_id and n.day = s.day and n.caller = s.caller
  )
  insert into ai.refused_daily as d (
    workspace_id, day, app_id, key_lineage_id, actor_id, model_id, feature, execution_mode, refused
  )
  select
    b.workspace_id, b.day, b.app_id, b.lineage_id, b.actor_id, case when b.has_row then b.model_id end,
    case when b.has_row then b.feature end, b.execution_mode, sum(b.refused)
  from bounded b
  group by 1, 2, 3, 4, 5, 6, 7, 8
  on conflict (workspace_id, day, app_id, key_lineage_id, actor_id, model_id, feature, execution_mode)
    do update set refused = d.refused + excluded.refused;
  return true;
end
$$;

-- Returns the time that was age_ms milliseconds ago, at most an hour. The gateway sends ages, because its clock may
-- differ from the database's.
create or replace function ai.moment_before(age_ms double precision) returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select now() - least(greatest(age_ms, 0), 3600000) * interval '1 millisecond'
$$;

-- Creates the partitions of ai.refused_calls for today and the next two days, and drops those of days that ended more
-- than seven days ago. Waits only briefly for the lock on the table, because recording and reading then wait too; the
-- next call tries again. Returns the number of partitions that it created or dropped.
create or replace function ai.rotate_refused_call_partitions() returns integer
  language plpgsql volatile security invoker
  -- Partitions cover UTC days, regardless of the caller's time zone.
  set timezone = 'UTC' set search_path = '' set lock_timeout = '100ms'
as $$
declare
  day date;
  partition text;
  changed integer := 0;
begin
  for day in select now()::date + n from generate_series(0, 2) as n loop
    partition := format('ai.refused_calls_%s', to_char(day, 'YYYY_MM_DD'));
    continue when to_regclass(partition) is not null;
    -- Rows in the default partition stay there.
    continue when exists (
      select from ai.refused_calls_default c where c.created_at >= day and c.created_at < day + 1
    );
    execute format(
      'create table %s partition of ai.refused_calls for values from (%L) to (%L)',
      partition, day::timestamptz, (day + 1)::timestamptz
    );
    perform ai.protect_partition(partition::regclass);
    changed := changed + 1;
  end loop;
  for partition in
    select i.inhrelid::regclass::text
    from pg_catalog.pg_inherits i
    join pg_catalog.pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'ai.refused_calls'::regclass
      and c.relname ~ '^refused_calls_\d{4}_\d\d_\d\d$'
      and to_date(right(c.relname, 10), 'YYYY_MM_DD') + 8 <= now()::date
  loop
    execute format('drop table %s', partition);
    changed := changed + 1;
  end loop;
  return changed;
exception when lock_not_available then
  return 0;
end
$$;

-- Settles a batch of runs and returns the runs that changed. If idle_since is given, only open runs without a heartbeat
-- since then change. A report that cannot be booked does not block the others: its run stays open, and it is logged.
-- Lock timeouts are raised, so that the caller sends the batch again.
create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
  -- Forces plans that find rows by key, regardless of the table statistics. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  parsed ai.run_outcome[];
  due ai.settlement[];
  outcomes_due ai.run_outcome[];
  batch record;
  locks ai.lock_list;
  locked record;
  budget ai.budgets;
  learning uuid[];
  -- The places of the settlements that were booked one by one.
  booked integer[];
  changed jsonb := '[]';
  last_changed uuid;
begin
  -- Validating each report first would parse it twice.
  begin
    parsed := array(select jsonb_populate_record(null::ai.run_outcome, e.value) from jsonb_array_elements(outcomes) as e);
  exception when data_exception or integrity_constraint_violation then
    -- Of a report that can't be parsed, only the run that it names is read.
    parsed := array(
      select jsonb_populate_record(null::ai.run_outcome, case
        when jsonb_typeof(e.value) = 'object' and jsonb_populate_record_valid(null::ai.run_outcome, e.value) then e.value
        when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') and pg_input_is_valid(e.value ->> 'id', 'uuid')
          then jsonb_build_object('created_at', e.value -> 'created_at', 'id', e.value -> 'id')
      end)
      from jsonb_array_elements(outcomes) as e
    );
  end;

  select
    array_agg(s.due) filter (where s.is_valid) as due,
    array_agg(s.outcome) filter (where s.is_valid) as outcomes,
    array_agg(s.id) filter (where not s.is_valid) as invalid_ids,
    bool_or(s.budget_scopes <> '{}') as has_budgets,
    array_agg(row('workspace', s.workspace_id, null)::ai.limit_subject) filter (where s.window_start is not null)
      || array_agg(row('key', s.key_lineage_id, null)::ai.limit_subject)
        filter (where s.window_start is not null and s.key_lineage_id is not null)
      || array_agg(row('model', ai.model_window_id(s.workspace_id, s.model_id), null)::ai.limit_subject)
        filter (where s.window_start is not null and s.has_model_limit) as rate_windows,
    array_agg(s.account_id) filter (where s.account_id is not null) as accounts
  into batch
  from (
    select
      row(
        r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, r.budget_scopes, r.request_id,
        r.model_id, r.has_key, k.kind, b.billed_credits - k.billed_credits, k.reserved_credits, b.cost_usd - k.cost_usd,
        k.reserved_usd,
        case
          -- The sweep closes the run without known usage, so its reservation is shown but not charged.
          when idle_since is not null and o.usage_source = 'unavailable' then ai.usd_to_credits(r.reserved_usd, r.markup)
          when r.exempt then b.credits
          else 0
        end,
        b.billed_credits, r.window_start, r.counted_tokens,
        jsonb_build_object('id', r.id, 'kind', k.kind, 'billed_credits', b.billed_credits::text), r.envelope_id,
        r.feature, case when r.is_open then r.expected_usd else 0 end, r.expected_scopes
      )::ai.settlement as due,
      r.outcome,
      r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.budget_scopes, r.window_start, r.model_id,
      case when r.window_start is not null then exists (
        select from ai.workspace_policies p where p.workspace_id = r.workspace_id and p.model_limits ? r.model_id
      ) end as has_model_limit,
      (o.usage_source is not null and o.status <> 'running'
        and (o.usage_source = 'unavailable' or num_nulls(o.cost_usd, o.credits) = 0)
        and least(o.cost_usd, o.credits, 0) >= 0 and greatest(o.cost_usd, o.credits, 0) < 'Infinity'
        and least(
          o.input_tokens, o.cached_input_tokens, o.audio_input_tokens, o.output_tokens, o.reasoning_tokens,
          o.audio_output_tokens, o.cache_write_tokens, o.cache_write_1h_tokens, o.image_input_tokens, o.fee_requests, 0
        ) >= 0) is true as is_valid
    from (
      select
        r.created_at, r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id,
        r.budget_scopes, r.request_id, r.model_id, r.idempotency_key is not null as has_key, r.status = 'running' as is_open,
        r.swept, r.touched_at, r.exempt, r.markup, r.reserved_credits, r.reserved_usd, r.billed_credits, r.cost_usd,
        case when r.tokens_reserved_at >= date_trunc('minute', now()) then r.tokens_reserved_at end as window_start,
        case r.status when 'running' then r.reserved_tokens else r.input_tokens + r.output_tokens end as counted_tokens,
        r.envelope_id, r.feature, r.expected_usd, r.expected_scopes, n.outcome
      from (
        select p.place, parsed[p.place] as outcome from generate_subscripts(parsed, 1) as p (place) offset 0
      ) as n
      -- Without a range of created_at, with which Postgres would read all the runs between the oldest and the newest.
      join ai.runs r
        on r.created_at = (n.outcome).created_at and r.id = (n.outcome).id
      order by r.account_id, r.id, n.place
      for update of r
    ) as r
    cross join lateral (select (r.outcome).*) as o
    cross join lateral (
      select
        case when r.is_open then 'usage' else 'adjustment' end as kind,
        case when r.is_open then 0 else r.billed_credits end as billed_credits,
        case when r.is_open then 0 else r.cost_usd end as cost_usd,
        case when r.is_open then r.reserved_credits else 0 end as reserved_credits,
        case when r.is_open then r.reserved_usd else 0 end as reserved_usd
    ) as k
    cross join lateral (
      select
        round(coalesce(o.cost_usd, 0), 12) as cost_usd, round(coalesce(o.credits, 0), 8) as credits,
        round(case when r.exempt then 0 else coalesce(o.credits, 0) end, 8) as billed_credits
    ) as b
    -- A run can change if it is open, or if the sweep closed it before the provider's token counts arrived.
    where case
      when r.is_open then (r.touched_at >= idle_since) is not true
      else idle_since is null and r.swept and o.usage_source in ('provider', 'provider_partial') and o.estimated is not true
    end
  ) as s;
  if batch.invalid_ids is not null then
    raise warning 'run % cannot be booked: a run ends with a status, a usage source, a cost and counts of at least 0',
      array_to_string(batch.invalid_ids, ', ') using errcode = 'check_violation';
  end if;
  if batch.due is null then
    return '[]';
  end if;
  due := batch.due;
  outcomes_due := batch.outcomes;
  locks.rate_windows := batch.rate_windows;
  locks.accounts := batch.accounts;
  if batch.has_budgets then
    select array_agg(row(
      split_part(t.entry, '/', 1),
      ai.budget_subject(split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id),
      d.workspace_id
    )::ai.limit_subject)
    into locks.budgets
    from unnest(due) as d
    cross join unnest(d.budget_scopes) as t (entry);
  end if;
  -- An assignment, because `perform` would be one more statement.
  locked := ai.lock_rows(locks);
  -- A report that can't be booked may be the only one of a run with budgets.
  if locked.budgets is not null then
    foreach budget in array locked.budgets loop
      if budget.reserves_expected then
        learning := learning || budget.workspace_id;
      end if;
    end loop;
  end if;

  begin
    return ai.book_settlements(due, outcomes_due, idle_since is not null, learning);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for place in 1..cardinality(due) loop
    -- A run changes only once, even if it is reported several times.
    continue when outcomes_due[place].id = last_changed;
    begin
      changed := changed || ai.book_settlements(due[place:place], outcomes_due[place:place], idle_since is not null, null);
      last_changed := outcomes_due[place].id;
      booked := booked || place;
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcomes_due[place].id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  if learning is not null then
    -- In one statement, because two batches that record one run after another could deadlock.
    perform ai.record_outputs(
      array(select due[b.place] from unnest(booked) as b (place)),
      array(select outcomes_due[b.place] from unnest(booked) as b (place)), learning
    );
  end if;
  return changed;
end
$$;

-- Closes and charges runs, and returns them. learning are the workspaces whose usual output is recorded. Raises
-- unique_violation if a run has several settlements. The caller has locked the runs and their rate windows, budgets and
-- accounts. Idempotency keys are last in the lock order.
create or replace function ai.book_settlements(
  due ai.settlement[], outcomes ai.run_outcome[], is_sweep boolean, learning uuid[]
) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  closed_runs bigint;
  changed jsonb[];
  has_windows boolean;
  has_budgets boolean;
  has_failures boolean;
  has_keys boolean;
begin
  with closed as (
    update ai.runs r
    set
      status = d.status,
      http_status = d.http_status,
      error_code = d.error_code,
      usage_source = d.usage_source,
      route = coalesce(d.route, r.route),
      input_tokens = coalesce(d.input_tokens, 0),
      cached_input_tokens = coalesce(d.cached_input_tokens, 0),
      audio_input_tokens = coalesce(d.audio_input_tokens, 0),
      output_tokens = coalesce(d.output_tokens, 0),
      reasoning_tokens = coalesce(d.reasoning_tokens, 0),
      audio_output_tokens = coalesce(d.audio_output_tokens, 0),
      cache_write_tokens = coalesce(d.cache_write_tokens, 0),
      cache_write_1h_tokens = coalesce(d.cache_write_1h_tokens, 0),
      image_input_tokens = coalesce(d.image_input_tokens, 0),
      fee_requests = coalesce(d.fee_requests, 0),
      served_tier = d.served_tier,
      marks = coalesce(d.marks, '{}'),
      billing_name = d.billing_name,
      billing_account = d.billing_account,
      cost_usd = coalesce(d.cost_usd, 0),
      billed_credits = d.billed_credits,
      unmetered_credits = d.unmetered_credits,
      first_byte_ms = coalesce(d.first_byte_ms, r.first_byte_ms),
      latency_ms = d.latency_ms,
      steps = d.steps,
      attempts = d.attempts,
      touched_at = now(),
      settled_at = now(),
      swept = is_sweep
    from unnest(due, outcomes) as d
    where r.created_at = d.created_at and r.id = d.id
    returning r.id
  ), paid as (
    update ai.credit_accounts a
    set balance = a.balance - p.credits, reserved = a.reserved - p.released
    from (
      select d.account_id as id, sum(d.credits_due) as credits, sum(d.credits_released) as released
      from unnest(due, outcomes) as d
      group by 1
    ) as p
    where a.id = p.id
    returning a.id, a.balance
  ), charged as (
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
    select
      d.account_id, d.kind, -d.credits_due, p.balance + coalesce(sum(d.credits_due) over later, 0), d.created_at, d.id
    from unnest(due, outcomes) as d
    left join paid p on p.id = d.account_id
    where d.credits_due <> 0
    window later as (partition by d.account_id order by d.id desc rows between unbounded preceding and 1 preceding)
    order by d.account_id, d.id
  )
  select
    (select count(*) from closed), array_agg(d.answer), bool_or(d.window_start is not null),
    bool_or(d.budget_scopes <> '{}'), bool_or(d.has_key), bool_or(jsonb_path_exists(d.attempts, '$[*].failure'))
  into closed_runs, changed, has_windows, has_budgets, has_keys, has_failures
  from unnest(due, outcomes) as d;
  if closed_runs < cardinality(due) then
    raise exception 'a run is reported several times' using errcode = 'unique_violation';
  end if;

  if has_windows then
    update ai.rate_windows w
    set tokens = greatest(w.tokens + c.tokens, 0)
    from (
      select
        s.scope, s.subject_id, d.window_start,
        sum(coalesce(d.input_tokens, 0) + coalesce(d.output_tokens, 0) - d.counted_tokens) as tokens
      from unnest(due, outcomes) as d
      cross join lateral (
        values
          ('key', d.key_lineage_id), ('model', ai.model_window_id(d.workspace_id, d.model_id)), ('workspace', d.workspace_id)
      ) as s (scope, subject_id)
      where d.window_start is not null
      group by 1, 2, 3
    ) as c
    -- A window that began after the run's tokens were reserved is not changed.
    where w.scope = c.scope and w.subject_id = c.subject_id and w.window_start <= c.window_start;
  end if;
  if has_budgets then
    update ai.budgets b
    set
      -- A budget that was deleted and set again holds no reservation of earlier runs.
      reserved_usd = greatest(b.reserved_usd - c.released, 0),
      spent_usd = b.spent_usd + (
        -- A run counts in the window in which it began.
        select coalesce(sum(m.cost_usd), 0)
        from unnest(c.begun, c.costs_usd) as m (begun, cost_usd)
        where m.begun >= coalesce(b.starts_at, b.period_start::timestamp at time zone 'UTC')
      ),
      calls = greatest(b.calls - c.ended_calls, 0)
    from (
      select
        split_part(t.entry, '/', 1) as scope, ai.entry_period(t.entry) as period, d.workspace_id,
        ai.budget_subject(
          split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id
        ) as subject_id,
        coalesce(sum(
          case when t.entry = any (d.expected_scopes) then d.expected_usd else d.usd_released end
        ) filter (where t.entry not like '%/concurrent'), 0) as released,
        array_agg(d.created_at) as begun,
        array_agg(d.cost_due_usd) filter (where t.entry not like '%/concurrent') as costs_usd,
        count(*) filter (where t.entry like '%/concurrent' and d.kind = 'usage') as ended_calls
      from unnest(due, outcomes) as d
      cross join unnest(d.budget_scopes) as t (entry)
      group by 1, 2, 3, 4
    ) as c
    where b.scope = c.scope and b.subject_id = c.subject_id and b.workspace_id = c.workspace_id and b.period = c.period;
  end if;
  if has_failures then
    insert into ai.failed_attempts (
      run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
      upstream_request_id
    )
    select
      d.created_at, d.id, d.request_id, d.workspace_id, d.model_id, a.provider, a.model, a.route, a.status, a.failure,
      a.upstream_request_id
    from unnest(due, outcomes) as d
    cross join lateral jsonb_to_recordset(d.attempts) as a (
      route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
    )
    -- A skipped route was not called, and a client that disconnected is not a failure of the provider.
    where a.failure not in ('skipped', 'cancelled');
  end if;
  if learning is not null then
    perform ai.record_outputs(due, outcomes, learning);
  end if;
  if has_keys then
    delete from ai.idempotency_keys i
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key and d.key_unused));
    update ai.idempotency_keys i
    set state = 'finished'
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key));
  end if;
  return to_jsonb(changed);
end
$$;

-- Deletes expired idempotency keys, rate windows older than an hour, failed attempts and refused calls older than
-- seven days, and envelopes 90 days after their end, up to at_most of each. Returns the total number of deleted rows; 0 while another deletion is running.
-- Definer: the server's service role has no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
  histories integer;
  refused integer;
  envelopes integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  keys := private.delete_expired_rows('ai.idempotency_keys', 'expires_at', '0', at_most);

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

  attempts := private.delete_expired_rows('ai.failed_attempts', 'at', '7 days', at_most);
  histories := private.delete_expired_rows('ai.output_histories', 'updated_at', '30 days', at_most);
  refused := private.delete_expired_rows('ai.refused_calls_default', 'created_at', '7 days', at_most);
  with old as (
    select e.id, e.workspace_id
    from ai.envelopes e
    join ai.budgets b on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id
    where e.opened_at < now() - interval '90 days' and b.ends_at < now() - interval '90 days'
    order by e.opened_at
    limit at_most
  ), budgets as (
    delete from ai.budgets b using old
    where b.scope = 'envelope' and b.subject_id = old.id and b.workspace_id = old.workspace_id
  ), alerts as (
    delete from ai.budget_alerts a using old
    where a.scope = 'envelope' and a.subject_id = old.id and a.workspace_id = old.workspace_id
  )
  delete from ai.envelopes e using old where e.id = old.id;
  get diagnostics envelopes = row_count;
  -- Last, because this locks ai.refused_calls until the transaction ends.
  perform ai.rotate_refused_call_partitions();
  return keys + windows + attempts + histories + refused + envelopes;
end
$$;

-- Returns the usage report of the calling app for a window of at most 365 days, or { refused }. Amounts are exact
-- decimals. A row's refused calls are those of the whole day. notes_use: the request counts as a use of the key.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.report_usage(call jsonb) returns json
  language plpgsql volatile security definer set search_path = ''
  -- Days of the report are UTC days.
  set timezone = 'UTC'
  -- Sorts a year's groups in memory, and plans the query only once per connection.
  set work_mem = '32MB' set plan_cache_mode = force_generic_plan
as $$
declare
  caller ai.caller := ai.app_caller(call);
  report_window record := ai.usage_window((call ->> 'from')::timestamptz, (call ->> 'to')::timestamptz, 365);
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  if report_window.fault is not null then
    return ai.refusal('invalid_request', jsonb_build_object('param', 'from', 'message', report_window.fault));
  end if;
  if (call -> 'notes_use')::boolean then
    perform ai.record_key_use(array[caller.key_id]);
  end if;
  return (
    select json_build_object(
      'currency', 'USD',
      'source', 'platform_ai_metering',
      'workspaceId', caller.workspace_id,
      'appId', caller.app_id,
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', case when ai.has_usage_before(caller.workspace_id, caller.app_id, report_window.window_from) then json_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ) end,
      'rows', coalesce(json_agg(d), '[]')
    )
    from (
      select
        u.day,
        u.model_id as model,
        u.feature,
        u.execution_mode as "executionMode",
        trim_scale(sum(u.cost_usd)) as "amountUsd",
        sum(u.requests) as requests,
        sum(u.failed) as failed,
        sum(u.input_tokens) as "inputTokens",
        sum(u.output_tokens) as "outputTokens",
        trim_scale(sum(u.billed_credits)) as "billedCredits",
        trim_scale(sum(u.unmetered_credits)) as "unmeteredCredits",
        sum(u.refused) as refused
      from (
        select
          b.day, b.model_id, b.feature, b.execution_mode, b.cost_usd, b.requests, b.failed, b.input_tokens,
          b.output_tokens, b.billed_credits, b.unmetered_credits, 0 as refused
        from ai.usage_between(caller.workspace_id, report_window.window_from, report_window.window_to) b
        where b.app_id = caller.app_id
        union all
        select
          r.day, coalesce(r.model_id, 'unknown'), coalesce(r.feature, 'unknown'), r.execution_mode, 0, 0, 0, 0, 0, 0, 0,
          r.refused
        from ai.refused_between(caller.workspace_id, report_window.window_from, report_window.window_to) r
        where r.app_id = caller.app_id
      ) as u
      group by u.day, u.model_id, u.feature, u.execution_mode
      having sum(u.requests) > 0 or sum(u.refused) > 0
      order by u.day, u.model_id collate "C", u.feature collate "C", u.execution_mode collate "C"
    ) as d
  );
end
$$;

-- Checks whether a credential may import costs and read usage. Used if the request body is invalid. Returns {
-- workspace_id } or { refused }.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.check_app_caller(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;

-- Revokes a connection and its keys, and ends its envelope. Returns false if the connection does not exist or was already revoked.
create or replace function ai.end_connection(connection_id uuid, actor uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  ended_connection ai.agent_connections;
  key ai.keys;
begin
  -- Locks in the same order as private.issue_agent_key: the workspace, the connection, its keys. The envelope comes last.
  perform
  from public.workspaces w
  where w.id = (select c.workspace_id from ai.agent_connections c where c.id = end_connection.connection_id)
  for key share;
  update ai.agent_connections c
  set revoked_at = now()
  where c.id = end_connection.connection_id and c.revoked_at is null
  returning * into ended_connection;
  if not found then
    return false;
  end if;
  update ai.keys k set revoked_at = now() where k.connection_id = ended_connection.id and k.revoked_at is null;
  perform ai.end_connection_envelope(ended_connection, actor);
  select * into key from ai.keys k where k.connection_id = ended_connection.id and k.replaced_by is null;
  if found then
    perform set_config('gatehouse.actor_id', coalesce(actor::text, ''), true);
    perform private.log_workspace_change(ended_connection.workspace_id, 'key.revoked', key.id, key.name);
  end if;
  return true;
end
$$;

-- Returns the lineage of a connection's keys. The first key gets the id of its connection, so that a connection can have
-- an envelope before it has a key.
create or replace function ai.connection_lineage(connection ai.agent_connections) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (select k.lineage_id from ai.keys k where k.connection_id = (connection).id limit 1), (connection).id
  )
$$;

-- Returns the current envelope of a lineage of an agent's keys, or null. It may have ended.
create or replace function ai.lineage_envelope(lineage uuid, workspace uuid) returns ai.envelopes
  language sql stable security invoker set search_path = ''
as $$
  select e
  from ai.envelopes e
  where e.principal_id = lineage and e.workspace_id = workspace and e.label = '' and e.superseded_at is null and e.holds_all
$$;

-- Returns { id, state: open | ended | expired, limitUsd, spentUsd, reservedUsd, maxCalls, calls, endsAt }, or null without
-- an envelope. Amounts are exact text, or null if the workspace hides costs.
create or replace function ai.describe_agent_envelope(envelope ai.envelopes) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (envelope).id,
    'state', ai.envelope_state(envelope, b),
    'limitUsd', case when v.visible then trim_scale(b.limit_usd)::text end,
    'spentUsd', case when v.visible then trim_scale(b.spent_usd)::text end,
    'reservedUsd', case when v.visible then trim_scale(b.reserved_usd)::text end,
    'maxCalls', b.max_calls,
    'calls', b.calls,
    'endsAt', b.ends_at
  )
  from ai.budgets b
  cross join (select ai.cost_visible((envelope).workspace_id) as visible) as v
  where b.scope = 'envelope' and b.subject_id = (envelope).id and b.workspace_id = (envelope).workspace_id
$$;

-- Gives a connection an envelope for all its calls, { usd, calls? }. Keeps an open one with the same amounts. Returns null,
-- or why it was refused, for only a person may change or replace an open one in the studio: { reason: differs | used_up |
-- too_many, id, usd, calls }, with the amounts with which the open envelope was opened.
create or replace function ai.limit_connection(connection ai.agent_connections, envelope jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  lineage constant uuid := ai.connection_lineage(connection);
  opened jsonb;
  found_envelope ai.envelopes;
  budget ai.budgets;
begin
  opened := ai.open_envelope(
    connection.workspace_id, lineage, '', envelope, connection.user_id, key_lineage => lineage
  );
  if opened ->> 'outcome' = 'opened' then
    return null;
  end if;
  if opened ->> 'outcome' = 'too_many' then
    return jsonb_build_object('reason', 'too_many');
  end if;
  select * into found_envelope from ai.envelopes e where e.id = (opened ->> 'id')::uuid;
  select * into budget
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = found_envelope.id and b.workspace_id = found_envelope.workspace_id;
  if not found_envelope.holds_all
    or found_envelope.opened_usd <> (envelope ->> 'usd')::numeric
    or found_envelope.opened_calls is distinct from (envelope ->> 'calls')::bigint then
    opened := jsonb_build_object('reason', 'differs');
  elsif budget.spent_usd >= budget.limit_usd or budget.calls >= budget.max_calls then
    opened := jsonb_build_object('reason', 'used_up');
  else
    return null;
  end if;
  return opened || jsonb_build_object(
    'id', found_envelope.id,
    'usd', trim_scale(found_envelope.opened_usd)::text,
    'calls', found_envelope.opened_calls
  );
end
$$;

-- Ends the envelope of a connection that has ended, so that it is not listed as open.
create or replace function ai.end_connection_envelope(connection ai.agent_connections, actor uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  envelope constant ai.envelopes := ai.lineage_envelope(ai.connection_lineage(connection), connection.workspace_id);
begin
  -- In the order of ai.change_envelope. A call that waits for the lock compares with its own now(), which is earlier.
  update ai.budgets b
  set ends_at = least(b.ends_at, now() - interval '1 minute')
  where b.scope = 'envelope' and b.subject_id = envelope.id and b.workspace_id = envelope.workspace_id
    and b.period = 'total';
  update ai.envelopes e set ended_at = now(), ended_by = actor where e.id = envelope.id and e.ended_at is null;
end
$$;

-- Creates the next key of an agent connection. The key works for at most 8 hours and not longer than the connection's
-- login. The previous key works for at most 15 more minutes. Outcomes: issued (with expiresAt), revoked, not_allowed,
-- not_approved, too_many. too_many: the connection has 20 live keys, or the workspace has 200. Returns { refused } if
-- the login is refused (ai.find_agent_login) or the connection is not_found.
-- Definer: reads memberships and writes keys, but only for the token's user.
create or replace function private.issue_agent_key(
  token_hash bytea, workspace_id uuid, connection_id uuid, lookup text, secret_hash text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  issue_permission text;
  previous ai.keys;
  new_key ai.keys;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = issue_agent_key.workspace_id and w.deleted_at is null for key share;
  -- Locks the connection, so that a concurrent revocation either comes first or revokes this key too.
  select * into connection
  from ai.agent_connections c
  where c.id = issue_agent_key.connection_id
    and c.workspace_id = issue_agent_key.workspace_id
    and c.login_id = caller.login_id
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if connection.revoked_at is not null then
    return jsonb_build_object('outcome', 'revoked');
  end if;
  issue_permission := ai.key_issue_permission(caller.user_id, connection.workspace_id, for_agent => true);
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  select * into previous
  from ai.keys k
  where k.connection_id = connection.id and k.replaced_by is null;
  -- Also counts replaced keys that still work, so that a loop of renewals can't create keys without limit.
  if (select count(*) >= 20 from ai.keys k where k.connection_id = connection.id and k.expires_at > now())
    or (previous.id is null and ai.has_too_many_keys(connection.workspace_id)) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  new_key := ai.store_key(
    caller.user_id, connection.workspace_id,
    jsonb_build_object(
      'name', ai.agent_name(connection.tool) || ' on ' || connection.host,
      'expiresAt', least(now() + interval '8 hours', caller.ends_at)
    ),
    issue_agent_key.lookup, issue_agent_key.secret_hash, lineage => ai.connection_lineage(connection), connection_id => connection.id
  );
  -- Programs that have already read the old key can use it for another 15 minutes.
  update ai.keys k
  set replaced_by = new_key.id, expires_at = least(k.expires_at, now() + interval '15 minutes')
  where k.id = previous.id;
  return jsonb_build_object('outcome', 'issued', 'expiresAt', new_key.expires_at);
end
$$;

-- Returns a connection's details for its member: { id, tool, host, createdAt, state: connected | revoked, keyExpiresAt,
-- envelope }.
create or replace function ai.describe_connection(connection ai.agent_connections) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (connection).id,
    'tool', (connection).tool,
    'host', (connection).host,
    'createdAt', (connection).created_at,
    'state', case when (connection).revoked_at is null then 'connected' else 'revoked' end,
    'keyExpiresAt', (
      select max(k.expires_at) from ai.keys k where k.connection_id = (connection).id and k.revoked_at is null
    ),
    'envelope', ai.describe_agent_envelope(
      ai.lineage_envelope(ai.connection_lineage(connection), (connection).workspace_id)
    )
  )
$$;

-- Connects a coding agent to a workspace. Returns { state: connected, connection }; a repeated call returns the same
-- connection. If the member needs an approval, opens a request, queues emails to members with manage_ai_keys, and
-- returns { state: requested }. With an envelope, { usd, calls? }, limits the connection, or returns { state:
-- limit_refused, limit } (ai.limit_connection). Refusals are { refused: … | not_found | forbidden }. forbidden: the
-- member lacks use_ai_studio.
-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.connect_agent(
  token_hash bytea, workspace_id uuid, tool text, host text, email jsonb, envelope jsonb default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  refused_limit jsonb;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Serializes a member's calls, so that a second call finds the connection of the first.
  perform private.lock_app_credentials(caller.user_id);
  perform
  from private.user_workspaces(caller.user_id) u
  join public.workspaces w on w.id = u.id
  where w.id = connect_agent.workspace_id
  for key share of w;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not ai.may_connect_agents(caller.user_id, connect_agent.workspace_id) then
    if not private.user_has_workspace_permission(caller.user_id, connect_agent.workspace_id, 'use_ai_studio') then
      return jsonb_build_object('refused', 'forbidden');
    end if;
    return jsonb_build_object('state', ai.request_agent_access(
      caller.user_id, connect_agent.workspace_id, connect_agent.tool, connect_agent.host, connect_agent.email
    ));
  end if;
  -- A new login of the same member, agent and host continues the connection of a login that has ended.
  update ai.agent_connections c
  set login_id = caller.login_id
  where c.id = (
    select o.id
    from ai.agent_connections o
    where o.workspace_id = connect_agent.workspace_id
      and o.user_id = caller.user_id
      and o.tool = connect_agent.tool
      and o.revoked_at is null
      and (o.login_id = caller.login_id or (o.host = connect_agent.host and ai.agent_login_end(o.login_id) is null))
    order by o.login_id is not distinct from caller.login_id desc, o.created_at desc
    limit 1
  )
  returning * into connection;
  if not found then
    insert into ai.agent_connections as c (workspace_id, user_id, login_id, tool, host)
    values (
      connect_agent.workspace_id, caller.user_id, caller.login_id, connect_agent.tool, connect_agent.host
    )
    returning c.* into connection;
    perform private.add_account_event(
      caller.user_id, 'agent_connected',
      details => jsonb_build_object('agent', ai.agent_name(connection.tool) || ' on ' || connection.host)
    );
  end if;
  if envelope is not null then
    refused_limit := ai.limit_connection(connection, envelope);
    if refused_limit is not null then
      return jsonb_build_object('state', 'limit_refused', 'limit', refused_limit);
    end if;
  end if;
  return jsonb_build_object('state', 'connected', 'connection', ai.describe_connection(connection));
end
$$;

-- Stores a new key. The caller must have checked ai.key_issue_permission. Logs only the creation of the first key of a
-- lineage. connection_id is the coding agent's connection if the key belongs to an
-- agent.
create or replace function ai.store_key(
  member_id uuid,
  workspace uuid,
  key jsonb,
  lookup text,
  secret_hash text,
  lineage uuid default null,
  connection_id uuid default null
) returns ai.keys
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  new_key ai.keys;
begin
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id, connection_id
  )
  select
    id, coalesce(lineage, id), workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'),
    store_key.lookup, decode(store_key.secret_hash, 'hex'), (key ->> 'externalAppId')::uuid,
    ai.text_list(key -> 'allowedModels'), ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId', store_key.connection_id
  from (select gen_random_uuid() as id) as made_id
  returning * into new_key;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', new_key.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  if lineage is null
    or lineage = store_key.connection_id
    and not exists (select from ai.keys k where k.connection_id = lineage and k.id <> new_key.id) then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.created', new_key.id, new_key.name);
  end if;
  return new_key;
end
$$;

-- Changes an account's policy for an admin; no other function does. Takes { actor, subject, step, generation, reason,
-- requestId, ip } and returns { policy } or { refused: forbidden | oneself | not_enforced | not_found | conflict |
-- in_progress | unchanged | factors_left }. step is require, make_optional, begin_reset or finish_reset. begin_reset
-- closes the account. finish_reset opens it again, but only after all authenticators are deleted. generation is the
-- policy generation that the admin saw, 0 if there was none. Each step adds an entry to the audit log. Each step except
-- begin_reset also adds an event, which is emailed to the owner.
-- Definer: the policy is in Supabase Auth's table, which the service role cannot write. The actor's id can be trusted:
-- only our server has the service role, and it takes the id from a verified session. Our server also checks
-- REQUIRED_MFA_POLICY_ENABLED before it calls this function. The database does not know this setting and enforces
-- policies regardless of it.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  new_policy jsonb;
begin
  if not private.is_infrastructure_admin(actor) then
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
  -- Compare and swap: if the policy has changed since the admin saw it, the admin must decide again.
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
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.delete_auth_sessions(subject);
    -- Deletes all of the user's recovery codes, so that no code can end the reset. This includes a code that has
    -- already begun a recovery.
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

  new_policy := private.write_required_mfa_policy(account, changes);
  insert into private.admin_audit_log (
    actor_id, action, target_user_id, target, reason, before, after, request_id, ip
  )
  values (
    actor, 'required_mfa.' || step, subject, account.email, change ->> 'reason',
    account.raw_app_meta_data -> 'platform_required_mfa', new_policy, change ->> 'requestId', (change ->> 'ip')::inet
  );
  perform private.add_account_event(subject, event_kind)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, event_kind)
  where e.of_step = step;
  return jsonb_build_object('policy', new_policy);
end
$$;

-- Signs one session in with a recovery code and keeps the authenticators. The code becomes an approval of that session,
-- like the one of a phone: it satisfies required MFA for 12 hours, only for that session and browser, only with a proof
-- made with the key, and never for a step-up. It ends with the account's oldest authenticator, whose code it replaces.
-- Takes { claims, codeHash, proofKey }; the claims include a proof made with proofKey. Returns { validUntil }, or null if
-- no unused code matches or the session would still not satisfy required MFA. The code is then not used.
-- Definer: the authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.sign_in_with_recovery_code(sign_in jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  claims constant jsonb := sign_in -> 'claims';
  subject constant uuid := private.uuid_or_null(claims ->> 'sub');
  session constant uuid := private.uuid_or_null(claims ->> 'session_id');
  code_id uuid;
  approval private.login_challenges;
begin
  -- Locks the account before the code, as begin_mfa_recovery does.
  perform from auth.users u where u.id = subject for no key update;
  select c.id into code_id
  from private.mfa_recovery_codes c
  where c.user_id = subject and c.code_hash = decode(sign_in ->> 'codeHash', 'hex') and c.used_at is null
  for update;
  insert into private.login_challenges (
    kind, status, user_id, session_id, secret_hash, pair_code_hash, expires_at, approved_at, approver_session_id,
    approver_factor_id, second_factor_at, approval_metadata, bound_session_id, bound_at, valid_until, proof_key
  )
  -- The code stands for the approving session. The hashes are random, because no phone presents a code.
  select
    'mfa_mobile', 'bound', subject, session, sha256(gen_random_uuid()::text::bytea),
    sha256(gen_random_uuid()::text::bytea), now() + interval '5 minutes', now(), code_id, f.id, now(),
    jsonb_build_object(
      'method', 'recovery_code', 'device', jsonb_build_object('name', 'Recovery code'), 'sessionId', session
    ), session, now(), now() + interval '12 hours', (sign_in ->> 'proofKey')::bytea
  from auth.mfa_factors f
  where f.user_id = subject and f.status = 'verified' and code_id is not null
  order by f.created_at, f.id
  limit 1
  returning * into approval;
  if not found then
    return null;
  end if;
  if not private.session_satisfies_mfa(claims) then
    delete from private.login_challenges c where c.id = approval.id;
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = now(), session_id = session, completed_at = now()
  where c.id = code_id;
  perform private.add_account_event(subject, 'recovery_code_sign_in', session_id => session);
  return jsonb_build_object('validUntil', approval.valid_until);
end
$$;

-- Issues an authorization code, valid for 60 seconds, to the session with these verified claims. Returns {scopes} or
-- {refused: client | unauthenticated | mfa_required | unavailable | login_required | acr | consent_required | scope |
-- request}. If consents is true, the person has just agreed, and the consent is stored. If authenticated_since is given,
-- an authentication before that second is refused with login_required. If essential_acr is given, the login states one of
-- these values or is refused with acr. request_hash is the handle of a kept request, which this call answers: it is
-- refused with request if another call has answered it. id_token_claims and userinfo_claims are the names in the request's
-- parameter claims. With a resource, the tokens are for that app only; clients that registered themselves must name one.
-- Definer: the service role can neither read Supabase Auth's tables nor apply the rule of required MFA.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null,
  essential_acr text[] default null,
  id_token_claims text[] default '{}',
  userinfo_claims text[] default '{}',
  request_hash bytea default null,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  resource_id uuid;
  session_check record;
  authentication private.openid_authentication;
  granted text[];
  consent_scopes text[];
begin
  -- Locks the app. A transaction that disables the app either commits first, or waits until the authorization code is
  -- stored and then revokes the code. Apps are locked before accounts.
  select * into app
  from private.apps a
  where a.id = private.openid_client_app(issue_authorization_code.client_id) and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri)
    or (client.requires_pkce and issue_authorization_code.code_challenge is null) then
    return jsonb_build_object('refused', 'client');
  end if;
  select a.id into resource_id
  from private.apps a
  where a.resource_url = issue_authorization_code.resource and a.enabled
  for share;
  if resource_id is null and (client.registration <> 'operator' or issue_authorization_code.resource is not null) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into session_check from private.session_proof(issue_authorization_code.claims);
  if session_check.refused is not null then
    return jsonb_build_object('refused', session_check.refused);
  end if;
  -- Issues no code for a session that may only replace the password.
  if exists (select from private.password_replacements r where r.session_id = (session_check.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, session_check.proof, session_check.valid_until is not null
  );
  if authenticated_since is not null
    and (extract(epoch from authentication.auth_time) >= authenticated_since) is not true then
    return jsonb_build_object('refused', 'login_required');
  end if;
  authentication.acr := private.stated_acr(authentication.acr, essential_acr);
  if authentication.acr is null then
    return jsonb_build_object('refused', 'acr');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes, resource_id);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  consent_scopes := private.openid_consent_scopes(
    app.id, granted, issue_authorization_code.id_token_claims || issue_authorization_code.userinfo_claims
  );
  if not consents
    and not private.has_openid_consent(
      (session_check.proof).user_id, client, consent_scopes, issue_authorization_code.redirect_uri, resource_id
    ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  if request_hash is not null and not private.end_authorization_request(request_hash) then
    return jsonb_build_object('refused', 'request');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, resource_id, scopes)
    values ((session_check.proof).user_id, app.id, resource_id, consent_scopes)
    on conflict on constraint openid_consents_key do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
    perform private.add_account_event(
      (session_check.proof).user_id, 'app_connected', session_id => (session_check.proof).session_id,
      details => jsonb_build_object('app', app.display_name)
    );
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, resource_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce,
    id_token_claims, userinfo_claims, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, resource_id, (session_check.proof).user_id, session_check.proof, session_check.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    private.consented_claims(issue_authorization_code.id_token_claims, consent_scopes),
    private.consented_claims(issue_authorization_code.userinfo_claims, consent_scopes),
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

-- Returns the claims auth_time, acr and amr (RFC 8176) of a session. auth_time is the time of the latest sign-in or
-- second factor. by_approval is true if the second factor was proved on a phone or by a recovery code. Only the first
-- is an approval on another channel (mca).
create or replace function private.openid_authentication_of(claims jsonb, proof private.mfa_proof, by_approval boolean)
  returns private.openid_authentication
  language sql stable security invoker set search_path = ''
as $$
  select row(
    to_timestamp(greatest(proof.primary_second, proof.second_factor_second)),
    case when proof.second_factor_second is null then 'aal1' else 'aal2' end,
    array(
      select distinct m.value
      from (
        -- Omits the identity backend's `otp`, which may stand for an emailed link or for approval on a phone. Omits
        -- sign-ins with an identity provider, because the registry of `amr` values (RFC 8176) has no value for such
        -- sign-ins.
        select case e.entry ->> 'method' when 'password' then 'pwd' when 'passkey' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        union all
        select case e.entry ->> 'method' when 'totp' then 'otp' when 'mfa/phone' then 'sms' when 'mfa/webauthn' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        where proof.second_factor_second is not null and not by_approval
        union all
        select case when by_approval and not exists (
          select
          from private.login_challenges c
          where c.bound_session_id = proof.session_id
            and c.status = 'bound'
            and floor(extract(epoch from c.second_factor_at)) = proof.second_factor_second
            and c.approval_metadata ->> 'method' = 'recovery_code'
        ) then 'mca' end
        union all
        select case when proof.second_factor_second is not null then 'mfa' end
      ) as m (value)
      where m.value is not null
      order by m.value
    )
  )::private.openid_authentication
$$;

-- Returns why the actor may not change an email's recovery: forbidden if the actor is not an infrastructure admin,
-- oneself if the email is the actor's own. Returns null if the change is allowed. Records each refusal. Not granted to
-- any role: only security definer functions call it.
-- Definer: emails, including the admins' own, are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.recovery_actor_refusal(request jsonb, of_email text) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (request ->> 'actor')::uuid;
  refused text;
begin
  if not private.is_infrastructure_admin(actor) then
    refused := 'forbidden';
  elsif exists (select from auth.users u where u.id = actor and lower(u.email) = lower(of_email)) then
    refused := 'oneself';
  else
    return null;
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'reject', 'outcome', refused, 'email', of_email)
  );
  return refused;
end
$$;

-- Returns the accounts of a browser that presents a valid device secret: { secret: current | previous, arrived, old,
-- active: { userId, sessionId, tag } | null, accounts }. arrived is true if the browser has presented its current
-- secret. old is true if the secret was rotated more than 30 days ago. Returns null for an unknown device.
-- Definer: reads emails from Supabase Auth's tables, which the service role cannot read.
create or replace function private.device_state(device_id uuid, secret text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return (
    select jsonb_build_object(
      'secret', secret_status,
      'arrived', d.previous_hash is null or d.previous_until is not null,
      'old', d.rotated_at < now() - interval '30 days',
      'active', (
        select jsonb_build_object('userId', e.user_id, 'sessionId', e.session_id, 'tag', e.token_tag)
        from private.account_vault_entries e
        where e.device_id = d.id and e.user_id = d.active_user_id and e.session_id = d.active_session_id
          and private.is_vault_entry_usable(e)
      ),
      'accounts', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', e.user_id,
            'email', u.email,
            'displayName', p.display_name,
            'avatarUrl', p.avatar_url,
            -- The comparison is null if the browser has no active account.
            'active', coalesce(usable and e.user_id = d.active_user_id and e.session_id = d.active_session_id, false),
            'requiresReauth', not usable,
            'endReason', case when not usable then private.session_end_reason(e) end,
            'lastRoute', e.last_route,
            'lastActiveAt', e.last_active_at,
            'addedAt', e.added_at
          )
          order by (usable and e.user_id = d.active_user_id) desc nulls last, e.last_active_at desc, e.user_id
        )
        from private.account_vault_entries e
        join auth.users u on u.id = e.user_id
        left join public.profiles p on p.id = e.user_id
        cross join lateral private.is_vault_entry_usable(e) as usable
        where e.device_id = d.id
      ), '[]')
    )
    from private.account_devices d
    cross join lateral private.device_secret_status(d, device_state.secret) as secret_status
    where d.id = device_state.device_id and secret_status in ('current', 'previous')
  );
end
$$;

-- Returns why an entry's session has ended: the kind of the first event since the browser last used it that ended every
-- other session or this one. Without such an event, session_revoked if a session of the account was revoked, which may
-- have been this one, or idle after 30 days without use. Returns null if the reason is unknown. Only for a browser that
-- presented its device's secret.
create or replace function private.session_end_reason(entry private.account_vault_entries) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (
      select v.kind
      from public.security_events v
      where v.user_id = entry.user_id
        and v.created_at >= entry.last_active_at
        and case v.kind
          when 'sign_out' then v.session_id = entry.session_id
          -- The session in which a change was made stays signed in.
          when 'all_sessions_revoked' then true
          else v.session_id is distinct from entry.session_id
            and v.kind in (
              'session_revoked', 'other_sessions_revoked', 'signed_out_by_admin', 'authenticators_reset', 'account_banned',
              'password_changed', 'password_added', 'recovery_code_used', 'account_recovered'
            )
        end
      order by v.kind = 'session_revoked', v.created_at, v.id
      limit 1
    ),
    case when entry.last_active_at <= now() - interval '30 days' then 'idle' end
  )
$$;

-- Returns the facts that must be current on every request, read in one statement: { alive, sessionId, notAfter, aal,
-- hasVerifiedFactor, mustReplacePassword, consoleRole, user: { id, email, displayName, avatarUrl, banned,
-- deleted }, policy: { state, required, since, satisfied } }. Returns { alive: false } if the session has
-- ended. policy.since is the Unix time from which required MFA accepts proofs, or null if MFA is optional.
-- policy.state is optional, required, recovery_in_progress or malformed. consoleRole is admin, finance or null.
-- Until 0.5.0: servers of release 0.3.0 require infrastructureAdmin.
-- Definer: the caller cannot read Supabase Auth's tables. A session must learn its state even if its second factor is
-- missing or its account is closed, so required MFA does not apply here. Returns facts only about the caller's own
-- token.
create or replace function public.session_state() returns jsonb
  language plpgsql stable security definer set search_path = ''
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
        'since', case when m.state in ('required', 'recovery_in_progress') then
          f.app_metadata #> '{platform_required_mfa,boundary}'
        end,
        'satisfied', not f.banned and not f.deleted and v.satisfied
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'consoleRole', private.console_role(f.user_id),
      'infrastructureAdmin', private.is_infrastructure_admin(f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second,
      floor(extract(epoch from now()))::bigint
    ) as v (satisfied)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

-- Begins a switch to another account and takes the device's lease for 10 s. Returns status: unknown (the device is
-- unknown), no_account, active (the account is already active), busy (another switch holds the lease) or begun.
create or replace function private.begin_account_switch(device_id uuid, secret text, target_id uuid, lease uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  device private.account_devices;
  target private.account_vault_entries;
  usable boolean;
begin
  select d.* into device from private.account_devices d where d.id = begin_account_switch.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  select e.* into target
  from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  usable := private.is_vault_entry_usable(target);
  if usable and device.active_user_id = target.user_id and device.active_session_id = target.session_id then
    return jsonb_build_object('status', 'active', 'lastRoute', target.last_route);
  end if;
  if device.lease_id is not null and device.lease_id <> lease and device.lease_expires_at > now() then
    return jsonb_build_object('status', 'busy');
  end if;
  update private.account_devices d
  set lease_id = lease, lease_expires_at = now() + interval '10 seconds'
  where d.id = device.id;
  return jsonb_build_object(
    'status', 'begun',
    'usable', usable,
    'lastRoute', target.last_route,
    'target', private.vault_entry_view(target)
  );
end
$$;

-- Returns an entry for our server: { userId, sessionId, sealed, keyId, tag, approvedUntil }. approvedUntil is when the
-- approval that a phone gave this session expires, or null. It lets the server set the approval's cookie again when the
-- session becomes active; private.session_facts still checks that cookie on every request.
-- Definer: authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.vault_entry_view(entry private.account_vault_entries) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'userId', entry.user_id,
    'sessionId', entry.session_id,
    'sealed', entry.sealed,
    'keyId', entry.key_id,
    'tag', entry.token_tag,
    'approvedUntil', (
      select max(c.valid_until)
      from private.login_challenges c
      join auth.mfa_factors f on f.id = c.approver_factor_id and f.user_id = c.user_id
      where c.bound_session_id = entry.session_id
        and c.user_id = entry.user_id
        and c.kind = 'mfa_mobile'
        and c.status = 'bound'
        and c.valid_until > now()
        and f.status = 'verified'
    )
  )
$$;

-- Replaces an account's stored session with its rotated session. Takes { deviceId, userId, sessionId, expectedTag,
-- sealed, keyId, tag, lastRoute }. Without sealed, records only that the session was used. Returns { kept: true }, or {
-- kept: false, current } if another rotation came first. The caller then adopts current.
create or replace function private.store_account_session(entry jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored_entry private.account_vault_entries;
begin
  -- Locks the device before its entry, like every function here that locks both.
  perform from private.account_devices d where d.id = (entry ->> 'deviceId')::uuid for update;
  select e.* into stored_entry
  from private.account_vault_entries e
  where e.device_id = (entry ->> 'deviceId')::uuid and e.user_id = (entry ->> 'userId')::uuid
  for update;
  if not found then
    return jsonb_build_object('kept', false, 'current', null);
  end if;
  if stored_entry.session_id <> (entry ->> 'sessionId')::uuid
    or stored_entry.token_tag is distinct from entry ->> 'expectedTag' then
    return jsonb_build_object('kept', false, 'current', private.vault_entry_view(stored_entry));
  end if;
  update private.account_vault_entries e
  set sealed = coalesce(entry ->> 'sealed', e.sealed),
      key_id = coalesce(entry ->> 'keyId', e.key_id),
      token_tag = coalesce(entry ->> 'tag', e.token_tag),
      last_route = coalesce(entry ->> 'lastRoute', e.last_route),
      last_active_at = now()
  where e.device_id = stored_entry.device_id and e.user_id = stored_entry.user_id;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = stored_entry.device_id;
  return jsonb_build_object('kept', true);
end
$$;

-- Returns whether an account is an infrastructure admin, who may use the whole console. Sets no search_path, so Postgres
-- can inline the function.
create or replace function private.is_infrastructure_admin(account_id uuid) returns boolean
  language sql stable security invoker
as $$
  select exists (select from private.infrastructure_admins a where a.user_id = account_id)
$$;

-- Returns an account's role in the console: admin, finance or null. The role finance opens only the platform's books.
-- Sets no search_path, so Postgres can inline the function.
create or replace function private.console_role(account_id uuid) returns text
  language sql stable security invoker
as $$
  select case
    when private.is_infrastructure_admin(account_id) then 'admin'
    when exists (select from private.finance_people f where f.user_id = account_id) then 'finance'
  end
$$;

-- Returns a time as RFC 3339 in UTC with milliseconds. Has no settings of its own, so Postgres inlines it.
create or replace function ai.utc_text(moment timestamptz) returns text
  language sql stable security invoker
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Records which thresholds budgets have crossed. Returns the crossings that are not emailed yet, oldest first. Only one
-- sweep runs at a time; a concurrent sweep returns an empty list. month: the local date on which the window began.
-- refusing: the budget refuses calls although it is not fully spent. spentUsd, reservedUsd and leftUsd are null if the
-- workspace hides provider cost. An envelope also has its owner's name, maxCalls and calls.
-- Until 0.5.0, for servers of 0.3.0: without all_periods, returns only monthly budgets.
-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100, all_periods boolean default false) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Runs one sweep at a time. Each sweep reads the budgets after the previous one has finished, so that it sees limits
  -- that were raised meanwhile.
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_budget_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'scope', a.scope,
        'subjectId', a.subject_id,
        'subject', ai.budget_name(a.scope, a.subject_id, a.workspace_id),
        'workspaceId', a.workspace_id,
        'workspace', w.name,
        'period', a.period,
        'timeZone', z.time_zone,
        'month', a.month,
        'endsAt', case when a.period in ('day', 'week', 'month') then ai.utc_text(
          (ai.budget_window(a.period, z.time_zone, ai.start_of_day(a.month, z.time_zone))).ends_at
        ) end,
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      ) || case when a.scope = 'envelope' then jsonb_build_object(
        'owner', ai.envelope_owner_name(a.subject_id), 'maxCalls', b.max_calls, 'calls', b.calls
      ) else '{}' end
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id, a.period
    ), '[]')
    from (
      select * from ai.budget_alerts p
      where p.posted_at is null and (all_periods or p.period = 'month')
      order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    left join ai.budgets b
      on b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id and b.period = a.period
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
    cross join lateral (select ai.known_time_zone(coalesce(b.time_zone, 'UTC')) as time_zone) as z
  );
end
$$;

-- Records the highest threshold that each budget has crossed since the last sweep. Reads ai.budgets without a lock.
-- Records each threshold at most once in a window, unless a raised limit puts the spend below the threshold and the
-- budget then crosses it again. Callers must hold the sweep's lock.
create or replace function ai.record_budget_alerts() returns void
  language sql volatile security invoker set search_path = ''
as $$
  merge into ai.budget_alerts as a
  using (
    select
      b.scope, b.subject_id, b.workspace_id, b.period, b.limit_usd, b.spent_usd, b.reserved_usd, x.threshold,
      (c.starts_at at time zone ai.known_time_zone(c.time_zone))::date as month
    from ai.budgets b
    join public.workspaces w on w.id = b.workspace_id and w.deleted_at is null
    left join ai.budget_alerts k
      on k.scope = b.scope and k.subject_id = b.subject_id and k.workspace_id = b.workspace_id and k.period = b.period
    cross join lateral (select ai.budget_threshold(b) as threshold) as x
    -- The window that the row counts, even if it has ended.
    cross join lateral ai.current_budget(b, '-infinity') as c
    -- A budget of zero blocks all calls on purpose, so it needs no warning.
    where b.limit_usd > 0
      -- Reads the lowest threshold first, because the function costs more.
      and (b.spent_usd * 100 >= b.limit_usd * b.thresholds[1] or b.refused_at is not null or k.threshold > 0)
      and (x.threshold > 0 or k.threshold > 0)
      -- In the first hour of a window, also includes budgets that are still in the previous window, because no call has
      -- reset them yet.
      and c.ends_at > now() - interval '1 hour'
  ) as n
  on a.scope = n.scope and a.subject_id = n.subject_id and a.workspace_id = n.workspace_id and a.period = n.period
  when matched and (
    case
      when a.month <> n.month then n.threshold > 0
      else a.threshold < n.threshold or a.limit_usd <> n.limit_usd or (a.scope = 'envelope' and a.threshold > n.threshold)
    end
  ) then update set
    month = n.month,
    limit_usd = n.limit_usd,
    spent_usd = n.spent_usd,
    reserved_usd = n.reserved_usd,
    threshold = case
      when a.month <> n.month or a.limit_usd < n.limit_usd or a.scope = 'envelope' then n.threshold
      else greatest(a.threshold, n.threshold)
    end,
    crossed_at = case when a.month <> n.month or a.threshold < n.threshold then now() else a.crossed_at end,
    posted_at = case
      when a.month <> n.month or a.threshold < n.threshold then null
      -- Marks the unsent warning as emailed, so that it is never sent: the raised limit put the spend below its
      -- threshold.
      when a.threshold > n.threshold and (a.limit_usd < n.limit_usd or a.scope = 'envelope') then coalesce(a.posted_at, now())
      else a.posted_at
    end
  when not matched and n.threshold > 0 then
    insert (scope, subject_id, workspace_id, period, month, limit_usd, spent_usd, reserved_usd, threshold)
    values (
      n.scope, n.subject_id, n.workspace_id, n.period, n.month, n.limit_usd, n.spent_usd, n.reserved_usd, n.threshold
    )
$$;

-- Rearms the thresholds above the current spend after a budget is raised, so that crossing them again sends a new
-- warning. The sweep also detects a raise, but not if the thresholds are crossed again before the sweep runs.
create or replace function ai.reset_budget_alert(scope text, subject uuid, workspace uuid, period text default 'month')
  returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.budget_alerts a
  set
    limit_usd = b.limit_usd,
    spent_usd = b.spent_usd,
    reserved_usd = b.reserved_usd,
    threshold = x.threshold,
    posted_at = case when x.threshold < a.threshold then coalesce(a.posted_at, now()) else a.posted_at end
  from ai.budgets b
  cross join lateral (select ai.budget_threshold(b) as threshold) as x
  cross join lateral ai.current_budget(b, '-infinity') as c
  where a.scope = reset_budget_alert.scope and a.subject_id = subject and a.workspace_id = workspace
    and a.period = reset_budget_alert.period
    and b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id and b.period = a.period
    and (c.starts_at at time zone ai.known_time_zone(c.time_zone))::date = a.month
    -- Another maximum number of calls also raises an envelope.
    and (b.limit_usd > a.limit_usd or b.scope = 'envelope')
    and x.threshold <= a.threshold
$$;

-- Returns whether a budget is effectively used up. This is the case if the budget refused a call in the current window,
-- and at least 80 percent of the limit is spent or reserved. Below 80 percent, the refused call was simply too large, and
-- other calls may still fit.
create or replace function ai.budget_refuses_calls(budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select case
    when budget.refused_at is null or (budget.spent_usd + budget.reserved_usd) * 5 < budget.limit_usd * 4 then false
    else (
      -- Until the first call of a window is admitted, the amount held belongs to the previous window and will be released.
      select coalesce(budget.limit_usd > 0 and budget.refused_at >= c.starts_at and c.ends_at > now(), false)
      from ai.current_budget(budget, '-infinity') as c
    )
  end
$$;

-- Returns whether an envelope has refused a call since it was opened or raised, and is still open.
create or replace function ai.envelope_refuses_calls(budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select budget.refused_at is not null and budget.ends_at > now() and exists (
    select from ai.envelopes e where e.id = budget.subject_id and e.ended_at is null and e.superseded_at is null
  )
$$;

-- Returns the name of the newest key of a lineage.
create or replace function ai.latest_key_name(lineage uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select k.name from ai.keys k
  where k.lineage_id = lineage and k.workspace_id = workspace
  order by k.created_at desc limit 1
$$;

-- Returns the email addresses that receive an alert about a budget. An envelope's alert goes to its owner or, if that
-- account is gone, banned or no member any more, to members with manage_ai_policy or manage_ai_keys.
create or replace function ai.alert_recipients(scope text, subject uuid, workspace uuid) returns setof text
  language sql stable security invoker set search_path = ''
as $$
  with envelope_owner as (
    select u.email
    from ai.envelopes e
    join public.workspace_members m on m.workspace_id = e.workspace_id and m.user_id = e.actor_id
    join auth.users u on u.id = m.user_id
    where alert_recipients.scope = 'envelope' and e.id = subject
      and char_length(u.email) between 3 and 320
      and u.deleted_at is null
      and (u.banned_until is null or u.banned_until <= now())
  )
  select o.email from envelope_owner o
  union all
  select r.email
  from ai.budget_recipients(
    case alert_recipients.scope when 'envelope' then 'key' else alert_recipients.scope end, workspace
  ) as r (email)
  where not exists (select from envelope_owner)
$$;

-- Sets one budget; null removes it. A budget of period concurrent has max_calls instead of an amount. Requires
-- manage_ai_policy or, for a key's budget, manage_ai_keys. For the scope label, takes the label's text and derives the
-- subject from it. time_zone, thresholds and reserves_expected stay the same if they are null. The arguments that begin
-- with read are what the member saw; read_time_zone, read_thresholds and read_reserves_expected are compared only if
-- given. If one of them has changed since, nothing is changed. Outcomes: changed, unchanged, changed_meanwhile (with the
-- current settings), invalid (with param and message), not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null,
  period text default 'month', time_zone text default null, thresholds smallint[] default null,
  max_calls bigint default null, read_time_zone text default null, read_thresholds smallint[] default null,
  read_max_calls bigint default null, reserves_expected boolean default null,
  read_reserves_expected boolean default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  new_limit numeric := change_budget.limit_usd::numeric;
  fault record;
  old ai.budgets;
  current ai.budgets;
  differences jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  fault := ai.budget_fault(scope, period, time_zone, thresholds, new_limit, max_calls, reserves_expected);
  if fault.param is not null then
    return jsonb_build_object('outcome', 'invalid', 'param', fault.param, 'message', fault.message);
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  old := ai.find_budget(scope, subject, workspace, period);
  if old.limit_usd is distinct from read_limit_usd::numeric
    or old.max_calls is distinct from read_max_calls
    or old.time_zone <> read_time_zone
    or old.thresholds <> ai.sorted_thresholds(read_thresholds)
    or old.reserves_expected <> read_reserves_expected then
    return jsonb_build_object('outcome', 'changed_meanwhile') || ai.budget_settings(old);
  end if;
  perform ai.set_budget(
    scope, subject, workspace, new_limit, label, period, time_zone, thresholds, max_calls, reserves_expected
  );
  current := ai.find_budget(scope, subject, workspace, period);
  select coalesce(jsonb_object_agg(n.key, jsonb_build_object('before', o.value, 'after', n.value)), '{}') into differences
  from jsonb_each(ai.budget_settings(current)) n
  join jsonb_each(ai.budget_settings(old)) o using (key)
  where n.value <> o.value and (current.scope is not null or n.key in ('limitUsd', 'maxCalls'));
  if differences = '{}' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object(
      'scope', scope, 'before', trim_scale(old.limit_usd)::text, 'after', trim_scale(current.limit_usd)::text
    ) || case when period <> 'month' then jsonb_build_object('period', period) else '{}' end || differences - 'limitUsd'
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

-- Sets the budget of a workspace, or of one of its apps, key lineages, members or labels, for one period. A limit of null
-- removes the budget; the row stays and counts on, and reserves maximum costs if it is set again. A period of concurrent
-- takes max_calls instead of a limit. time_zone, thresholds and reserves_expected default to those that the budget had,
-- or else to UTC, {50,80,100} and false. A new budget starts with the cost of the window's settled runs. Runs that are in
-- progress when the budget is created are not counted in it. Another time zone recomputes the window and what was spent
-- in it, and keeps what is reserved. Raises an exception if an argument is invalid. Callers must hold ai.lock_policy.
create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null, period text default 'month',
  time_zone text default null, thresholds smallint[] default null, max_calls bigint default null,
  reserves_expected boolean default null
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault record := ai.budget_fault(scope, period, time_zone, thresholds, limit_usd, max_calls, reserves_expected);
  old ai.budgets;
  new_zone text;
  count_from timestamptz;
  count_to timestamptz;
begin
  if fault.param is not null then
    raise exception '%', fault.message using errcode = 'invalid_parameter_value';
  end if;
  -- Locks the budget first, so that a run that is settled meanwhile is either in the sum below or added to it later.
  select * into old from ai.budgets b
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace and b.period = set_budget.period
  for no key update;
  if num_nonnulls(limit_usd, max_calls) = 0 then
    update ai.budgets b set limit_usd = null, max_calls = null, reserves_expected = false
    where b.scope = old.scope and b.subject_id = old.subject_id and b.workspace_id = old.workspace_id and b.period = old.period;
    return;
  end if;
  new_zone := coalesce(set_budget.time_zone, old.time_zone, 'UTC');
  if new_zone is distinct from old.time_zone then
    select w.starts_at, w.ends_at into count_from, count_to from ai.budget_window(set_budget.period, new_zone, now()) w;
  end if;
  if old.scope is null then
    insert into ai.budgets as b (
      scope, subject_id, workspace_id, period, label, limit_usd, max_calls, time_zone, thresholds, reserves_expected, starts_at, ends_at,
      spent_usd
    )
    values (
      set_budget.scope, subject, workspace, set_budget.period, set_budget.label, set_budget.limit_usd, set_budget.max_calls,
      new_zone, coalesce(ai.sorted_thresholds(set_budget.thresholds), '{50,80,100}'),
      coalesce(set_budget.reserves_expected, false), count_from, count_to,
      case
        when set_budget.period = 'concurrent' then 0
        else ai.recorded_cost(set_budget.scope, subject, workspace, set_budget.label, count_from)
      end
    );
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    max_calls = set_budget.max_calls,
    thresholds = coalesce(ai.sorted_thresholds(set_budget.thresholds), b.thresholds),
    reserves_expected = coalesce(set_budget.reserves_expected, b.reserves_expected),
    time_zone = new_zone,
    starts_at = coalesce(count_from, b.starts_at),
    ends_at = coalesce(count_to, b.ends_at),
    spent_usd = case
      when count_from is null or b.period = 'concurrent' then b.spent_usd
      else ai.recorded_cost(b.scope, b.subject_id, b.workspace_id, b.label, count_from)
    end,
    -- Raising the limit clears the refusal, because the refused call may now fit.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = old.scope and b.subject_id = old.subject_id and b.workspace_id = old.workspace_id and b.period = old.period;
  perform ai.reset_budget_alert(set_budget.scope, subject, workspace, set_budget.period);
end
$$;

-- Returns which argument of a budget is invalid and why, or nulls.
create or replace function ai.budget_fault(
  scope text, period text, time_zone text, thresholds smallint[], limit_usd numeric, max_calls bigint,
  reserves_expected boolean, out param text, out message text
)
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  if coalesce(period not in ('day', 'week', 'month', 'total', 'concurrent'), true) then
    param := 'period';
    message := 'The period must be day, week, month, total or concurrent.';
  elsif period = 'concurrent' and scope not in ('workspace', 'member', 'key') then
    param := 'period';
    message := 'Only a workspace, a member or a key can have a limit of concurrent calls.';
  elsif period = 'concurrent' and limit_usd is not null then
    param := 'limitUsd';
    message := 'A limit of concurrent calls has no amount.';
  elsif period = 'concurrent' and reserves_expected then
    param := 'reservesExpected';
    message := 'A limit of concurrent calls reserves no amount.';
  elsif limit_usd < 0 then
    param := 'limitUsd';
    message := 'The limit must not be negative.';
  elsif period <> 'concurrent' and max_calls is not null or max_calls < 0 then
    param := 'maxCalls';
    message := 'Only a limit of concurrent calls has a maximum number of calls, of at least 0.';
  elsif cardinality(thresholds) > 5 or not 0 < all (thresholds) or not 100 >= all (thresholds)
    or array_position(thresholds, null) is not null then
    param := 'thresholds';
    message := 'There can be at most 5 thresholds, from 1 to 100 percent.';
  -- Postgres also reads abbreviations, offsets and any case, which other programs don't. Its view of all zones is slow.
  elsif time_zone <> 'UTC' and not exists (
    select from pg_catalog.pg_timezone_names z
    where z.name = time_zone and z.name ~ '^[A-Z]' and z.name <> 'Factory'
  ) then
    param := 'timeZone';
    message := format('The time zone %s is unknown. Use an IANA name, such as Europe/Berlin.', time_zone);
  end if;
end
$$;

-- Returns thresholds in ascending order without duplicates, or null.
create or replace function ai.sorted_thresholds(thresholds smallint[]) returns smallint[]
  language sql immutable security invoker set search_path = ''
as $$
  select case when thresholds is not null then array(select distinct t from unnest(thresholds) t order by t) end
$$;

-- Returns a budget, with nulls if there is none or its limit was removed.
create or replace function ai.find_budget(scope text, subject uuid, workspace uuid, period text) returns ai.budgets
  language sql stable security invoker set search_path = ''
as $$
  select b from ai.budgets b
  where b.scope = find_budget.scope and b.subject_id = subject and b.workspace_id = workspace
    and b.period = find_budget.period and num_nonnulls(b.limit_usd, b.max_calls) > 0
$$;

-- Returns what can be changed of a budget.
create or replace function ai.budget_settings(budget ai.budgets) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'timeZone', coalesce((budget).time_zone, 'UTC'),
    'thresholds', coalesce((budget).thresholds, '{50,80,100}'),
    'maxCalls', (budget).max_calls,
    'reservesExpected', coalesce((budget).reserves_expected, false)
  )
$$;

-- Returns the cost of the settled runs of a budget's subject since the given time, which can be -infinity.
create or replace function ai.recorded_cost(
  scope text, subject uuid, workspace uuid, label text, since timestamptz
) returns numeric
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  if scope = 'label' then
    -- Sums may count a label as one of many (*).
    return (
      select coalesce(sum(r.cost_usd), 0)
      from ai.runs r
      where r.workspace_id = workspace and r.entity_id = recorded_cost.label and r.created_at >= since
    );
  end if;
  return (
    select coalesce(sum(u.cost_usd), 0)
    from ai.usage_between(workspace, since, 'infinity', recorded_cost.scope = 'member') u
    where case recorded_cost.scope
      when 'workspace' then true
      when 'app' then u.app_id = subject
      when 'member' then u.actor_id = subject
      else u.key_lineage_id = subject
    end
  );
end
$$;

-- Returns a page of a workspace's budgets and their use in their current windows, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy. Sorts budgets by scope, labels by their text, other
-- subjects by when they were created, and budgets of a subject by their period. A subject without a budget appears once,
-- as a monthly budget without a limit. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. startsAt and endsAt are null for budgets without
-- windows. maxCalls and calls are the maximum and the number of concurrent calls. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Until 0.5.0, for servers of 0.3.0: month and endsAt of the answer are those of the UTC month, and without all_periods,
-- only monthly budgets are returned.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[], page_size integer, scopes text[], all_periods boolean default false
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy');
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'period', p.period,
          'timeZone', coalesce((p.budget).time_zone, 'UTC'),
          'startsAt', case when isfinite(p.starts_at) then ai.utc_text(p.starts_at) end,
          'endsAt', case when isfinite(p.ends_at) then ai.utc_text(p.ends_at) end,
          'thresholds', coalesce((p.budget).thresholds, '{50,80,100}'),
          'reservesExpected', coalesce((p.budget).reserves_expected, false),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            -- greatest(null, 0) is 0, so a missing limit needs its own case.
            when visible and (p.budget).limit_usd is not null then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'maxCalls', (p.budget).max_calls,
          'calls', case when p.period = 'concurrent' then (p.budget).calls end,
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.period = p.period and a.month = (p.starts_at at time zone ai.known_time_zone((p.budget).time_zone))::date
              and a.threshold > 0 and a.posted_at is not null and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select
          s.*, b as budget, x.period, c.spent_usd as spent, o.position,
          case when b.scope is null then this_month at time zone 'UTC' else c.starts_at end as starts_at,
          case when b.scope is null then (this_month + interval '1 month') at time zone 'UTC' else c.ends_at end as ends_at
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace
            and num_nonnulls(b.limit_usd, b.max_calls) > 0 and (all_periods or b.period = 'month')
        cross join lateral ai.current_budget(b, now()) as c
        cross join lateral (select coalesce(b.period, 'month') as period) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] || case
            when all_periods then array[array_position(array['day', 'week', 'month', 'total', 'concurrent'], x.period)::text]
          end as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or c.spent_usd > 0)
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns a budget's limit and its spend in the current window, as exact text. The spend is null if the workspace hides
-- provider cost.
create or replace function ai.budget_summary(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'spentUsd', case when cost_visible then trim_scale(c.spent_usd)::text end
  )
  from ai.current_budget(budget, now()) c
$$;

-- Returns the statement of a month (YYYY-MM), for members who may see credits: { outcome: listed, month, from, to,
-- workspace, accounts, paidByMembers }. A month in progress ends now. accounts are those of ai.credit_accounts_of, each
-- with its opening balance, additions, deductions, use by model and member, corrections of runs, use in the payer's
-- other workspaces and closing balance. unexplained is what these lines leave open, which is 0 unless the ledger is
-- damaged. paidByMembers are credits that runs of this workspace took from other balances, for example before its plan
-- changed. Returns { outcome: bad_window, fault } for a month that has not begun.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credit_statement(member_id uuid, workspace uuid, of_month text) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  window_from timestamptz := (of_month || '-01')::date;
  month_end timestamptz := (of_month || '-01')::date + interval '1 month';
  window_to timestamptz := least(month_end, now());
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  elsif window_from >= now() then
    return jsonb_build_object('outcome', 'bad_window', 'fault', 'The month has not begun.');
  end if;
  return (
    with shown as materialized (
      select a.id, a.workspace_id, ai.last_entry_before(a.id, window_from) as first_id,
        ai.last_entry_before(a.id, window_to) as last_id
      from ai.credit_accounts_of(member_id, workspace) a
    ), entries as materialized (
      select l.*, r.workspace_id as run_workspace, r.model_id, r.actor_id
      from shown a
      join ai.credit_ledger l on l.account_id = a.id and l.id > a.first_id and l.id <= a.last_id
      left join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    ), sums as (
      -- Reads the balances from the ledger, as ai.balance_changes does, so that a missing entry is noticed.
      select
        a.id,
        coalesce((
          select l.balance_after from ai.credit_ledger l where l.account_id = a.id and l.id = a.first_id
        ), 0) as opening,
        coalesce((
          select l.balance_after from ai.credit_ledger l where l.account_id = a.id and l.id = a.last_id
        ), 0) as closing,
        coalesce(sum(e.amount) filter (where e.run_id is null), 0) as changed,
        -coalesce(sum(e.amount) filter (
          where e.kind = 'usage' and e.run_id is not null and coalesce(e.run_workspace, workspace) = workspace
        ), 0) as used,
        coalesce(sum(e.amount) filter (
          where e.kind <> 'usage' and e.run_id is not null and coalesce(e.run_workspace, workspace) = workspace
        ), 0) as corrected,
        -coalesce(sum(e.amount) filter (where e.run_id is not null and e.run_workspace <> workspace), 0) as elsewhere
      from shown a
      left join entries e on e.account_id = a.id
      group by a.id, a.first_id, a.last_id
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'month', of_month,
      'from', ai.utc_text_microseconds(window_from),
      'to', ai.utc_text_microseconds(window_to),
      'isEnded', month_end <= now(),
      'workspace', (select jsonb_build_object('id', w.id, 'name', w.name) from public.workspaces w where w.id = workspace),
      'paidByMembers', (
        select trim_scale(coalesce(sum(r.billed_credits), 0))::text
        from ai.runs r
        where r.workspace_id = workspace
          and r.created_at >= window_from
          and r.created_at < window_to
          and r.billed_credits <> 0
          and r.account_id not in (select a.id from shown a)
      ),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', case when a.workspace_id is null then 'member' else 'workspace' end,
            'opening', trim_scale(s.opening)::text,
            'added', (
              select trim_scale(coalesce(sum(e.amount), 0))::text
              from entries e
              where e.account_id = a.id and e.run_id is null and e.amount > 0
            ),
            'deducted', (
              select trim_scale(coalesce(-sum(e.amount), 0))::text
              from entries e
              where e.account_id = a.id and e.run_id is null and e.amount < 0
            ),
            'used', trim_scale(s.used)::text,
            'corrected', trim_scale(s.corrected)::text,
            'usedElsewhere', trim_scale(s.elsewhere)::text,
            'unexplained', trim_scale(
              s.closing - s.opening - s.changed + s.used - s.corrected + s.elsewhere
            )::text,
            'closing', trim_scale(s.closing)::text,
            'changes', ai.credit_statement_changes(a.id, a.first_id, a.last_id),
            'use', (
              select coalesce(jsonb_agg(
                jsonb_build_object(
                  'model', u.model_id, 'memberId', u.actor_id, 'member', u.name, 'requests', u.requests,
                  'credits', trim_scale(u.credits)::text
                )
                order by u.credits desc, u.model_id collate "C", u.actor_id
              ), '[]')
              from (
                select e.model_id, e.actor_id, ai.member_label(workspace, e.actor_id) as name, count(*) as requests,
                  -sum(e.amount) as credits
                from entries e
                where e.account_id = a.id and e.kind = 'usage' and e.run_id is not null
                  and coalesce(e.run_workspace, workspace) = workspace
                group by e.model_id, e.actor_id
              ) u
            )
          )
          order by a.workspace_id is null
        ), '[]')
        from shown a
        join sums s on s.id = a.id
      )
    )
  );
end
$$;

-- Returns the additions to an account and the deductions from it without a run, from after first_id to last_id, oldest
-- first, each with its description and reference. Not granted to any role.
create or replace function ai.credit_statement_changes(account uuid, first_id bigint, last_id bigint) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', l.id::text, 'at', ai.utc_text_microseconds(l.created_at), 'kind', l.kind,
      'credits', trim_scale(l.amount)::text, 'description', l.description, 'reference', r.reference
    )
    order by l.id
  ), '[]')
  from ai.credit_ledger l
  left join ai.credit_references r on r.account_id = l.account_id and r.entry_id = l.id
  where l.account_id = account and l.run_id is null and l.id > first_id and l.id <= last_id
$$;

-- Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and the credits used in
-- the window. The default window is the last 30 days. Used credits are credits billed for runs and credits deducted
-- without a run. availableUsd is the provider cost that a balance pays for at the plan's markup. Each account has the
-- changes of its balance in the window (ai.balance_changes). elsewhere has the credits of the window's runs that no
-- account shown paid in the window, so that runCredits less these credits is what the accounts paid, and whether members'
-- own balances paid part of them. With with_totals = false, returns only the page, for an export that reads page by page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50, with_totals boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  last_id bigint := coalesce(before_id, 9223372036854775807);
  -- Null if the workspace hides provider cost, or if its calls are free.
  credits_per_usd numeric := case when ai.cost_visible(workspace) then (
    select nullif(ai.credits_per_usd(p.markup), 0)
    from public.workspaces w
    join ai.plans p on p.id = w.plan_id
    where w.id = workspace
  ) end;
  listed jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(report_window.window_from),
    'to', ai.utc_text_microseconds(report_window.window_to),
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
            and l.created_at >= report_window.window_from
            and l.created_at < report_window.window_to
            and l.id < last_id
            -- A member's balance pays for runs in all of their free workspaces, but only this workspace's runs are
            -- listed here.
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
      select
        a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer,
        ai.balance_changes(a, workspace, report_window.window_from, report_window.window_to) as changes
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select
        coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered,
        coalesce(sum(u.billed_credits), 0)
          - coalesce((select sum((a.changes ->> 'runs')::numeric) from accounts a), 0) as elsewhere
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to) u
    ), unlinked as (
      select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits
    )
    select jsonb_build_object(
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text,
            'availableUsd', trim_scale(round((a.balance - a.reserved) / credits_per_usd, 12))::text,
            'changes', a.changes
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'elsewhere', (
        select jsonb_build_object(
          'credits', trim_scale(r.elsewhere)::text,
          'membersPaid', case r.elsewhere when 0 then false else ai.members_paid(workspace) end
        )
        from runs r
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
              and l.created_at >= report_window.window_from and l.created_at < report_window.window_to
          ))::text
        )
        from runs r cross join unlinked o
      )
    )
  );
end
$$;

-- Returns how an account's balance changed in a half-open window: { opening, added, deducted, runs, otherRuns, closing }.
-- opening + added - deducted - runs - otherRuns = closing. added and deducted are entries without a run. otherRuns were
-- made in other workspaces, whose runs a member's own balance also pays.
create or replace function ai.balance_changes(
  account ai.credit_accounts, workspace uuid, window_from timestamptz, window_to timestamptz
) returns jsonb
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  first_id bigint := ai.last_entry_before((account).id, window_from);
  last_id bigint := ai.last_entry_before((account).id, window_to);
  opening numeric := coalesce((
    select l.balance_after from ai.credit_ledger l where l.account_id = (account).id and l.id = first_id
  ), 0);
  closing numeric := coalesce((
    select l.balance_after from ai.credit_ledger l where l.account_id = (account).id and l.id = last_id
  ), 0);
  unlinked record;
  runs numeric;
  other_runs numeric := 0;
begin
  select
    coalesce(sum(l.amount) filter (where l.amount > 0), 0) as added,
    coalesce(-sum(l.amount) filter (where l.amount < 0), 0) as deducted
  into unlinked
  from ai.credit_ledger l
  where l.account_id = (account).id and l.run_id is null and l.id > first_id and l.id <= last_id;
  if (account).user_id is null then
    -- Saves reading the entries of all runs of a busy workspace.
    runs := opening + unlinked.added - unlinked.deducted - closing;
  else
    select
      coalesce(-sum(l.amount) filter (where r.id is not null), 0),
      coalesce(-sum(l.amount) filter (where r.id is null), 0)
    into runs, other_runs
    from ai.credit_ledger l
    left join ai.runs r
      on r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = balance_changes.workspace
    where l.account_id = (account).id and l.run_id is not null and l.id > first_id and l.id <= last_id;
  end if;
  return jsonb_build_object(
    'opening', trim_scale(opening)::text,
    'added', trim_scale(unlinked.added)::text,
    'deducted', trim_scale(unlinked.deducted)::text,
    'runs', trim_scale(runs)::text,
    'otherRuns', trim_scale(other_runs)::text,
    'closing', trim_scale(closing)::text
  );
end
$$;

-- Returns the id of an account's last ledger entry before a moment, or 0 if there is none. Entries are numbered in the
-- order of their balances, so a binary search finds the entry without reading the ledger.
create or replace function ai.last_entry_before(account uuid, moment timestamptz) returns bigint
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  -- All entries up to low are before the moment, and no entry after high is.
  low bigint := 0;
  high bigint;
  middle bigint;
  entry record;
begin
  select l.id, l.created_at into entry from ai.credit_ledger l where l.account_id = account order by l.id desc limit 1;
  if not found or entry.created_at < moment then
    return coalesce(entry.id, 0);
  end if;
  high := entry.id;
  while low < high loop
    middle := (low + high) / 2;
    select l.id, l.created_at into entry
    from ai.credit_ledger l
    where l.account_id = account and l.id > middle
    order by l.id
    limit 1;
    if entry.created_at < moment then
      low := entry.id;
    else
      high := middle;
    end if;
  end loop;
  return coalesce((
    select l.id from ai.credit_ledger l where l.account_id = account and l.id <= low order by l.id desc limit 1
  ), 0);
end
$$;

-- Returns whether members' own balances have paid for runs of a workspace: all runs cost more than the workspace's
-- balance has paid.
create or replace function ai.members_paid(workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(sum(u.billed_credits), 0) <> coalesce((
    select (
      select coalesce(sum(l.amount), 0) from ai.credit_ledger l where l.account_id = a.id and l.run_id is null
    ) - a.balance
    from ai.credit_accounts a
    where a.workspace_id = members_paid.workspace
  ), 0)
  from ai.usage_between(workspace, '2000-01-01', now() + interval '1 day') u
$$;

-- Returns which envelopes of a workspace a member sees and changes: all with manage_ai_policy or manage_ai_keys, own
-- with use_ai_studio (those of their keys, agents and sessions), or null.
create or replace function ai.envelope_access(member_id uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
      or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then 'all'
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then 'own'
  end
$$;

-- Returns a page of a workspace's envelopes in the given states (open, ended, expired), newest first. Returns { outcome:
-- read, costVisible, envelopes } or { outcome: not_allowed }. before is the position of the last envelope on the previous
-- page. waiting selects only envelopes that wait for a decision (true) or that don't (false).
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_envelopes(
  member_id uuid, workspace uuid, states text[], before jsonb, page_size integer, waiting boolean default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  before_at timestamptz := (before ->> 'createdAt')::timestamptz;
  before_id uuid := (before ->> 'id')::uuid;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'costVisible', visible,
    'envelopes', (
      select coalesce(
        jsonb_agg(ai.envelope_details(p.envelope, p.budget, visible) order by (p.envelope).opened_at desc, (p.envelope).id),
        '[]'
      )
      from (
        select e as envelope, b as budget
        from ai.envelopes e
        join ai.budgets b
          on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id and b.period = 'total'
        cross join lateral (select ai.envelope_state(e, b) as state) as s
        where e.workspace_id = workspace
          and (access = 'all' or e.actor_id = member_id)
          and s.state = any (states)
          and (list_envelopes.waiting is null or (s.state = 'open' and b.refused_at is not null) = list_envelopes.waiting)
          and (before is null or (e.opened_at <= before_at and (e.opened_at < before_at or e.id > before_id)))
        order by e.opened_at desc, e.id
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns the page of a workspace's envelopes: those that wait for a decision, the other open ones, and past ones in the
-- given states. With keys, also the keys for which the member can open one.
-- Definer: as ai.list_envelopes.
create or replace function ai.read_envelopes_page(
  member_id uuid, workspace uuid, past_states text[], open_before jsonb, past_before jsonb, page_size integer,
  with_keys boolean
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
begin
  return jsonb_build_object(
    'seesAll', coalesce(access = 'all', false),
    'waiting', ai.list_envelopes(member_id, workspace, '{open}', null, page_size, true),
    'open', ai.list_envelopes(member_id, workspace, '{open}', open_before, page_size, false),
    'past', ai.list_envelopes(member_id, workspace, past_states, past_before, page_size),
    'keys', case
      when with_keys and access is not null then (
        select coalesce(jsonb_agg(jsonb_build_object('id', k.lineage_id, 'name', k.name) order by k.name, k.lineage_id), '[]')
        from (
          select distinct on (k.lineage_id) k.lineage_id, k.name
          from ai.keys k
          where k.workspace_id = workspace and (access = 'all' or k.created_by = member_id) and ai.has_calling_key(k)
          order by k.lineage_id, k.created_at desc
        ) as k
      )
      else '[]'
    end
  );
end
$$;

-- Returns whether a key can make calls, or its coding agent can renew it.
create or replace function ai.has_calling_key(key ai.keys) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select (key).revoked_at is null
    and ((key).connection_id is not null or (key).expires_at is null or (key).expires_at > now())
$$;

-- Returns one envelope with its history: { outcome: read, costVisible, envelope, history }, not_allowed, or not_found,
-- which includes envelopes of other members that this member may not see.
-- Definer: as ai.list_envelopes.
create or replace function ai.read_envelope(member_id uuid, workspace uuid, envelope_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  details jsonb;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select ai.envelope_details(e, b, visible) into details
  from ai.envelopes e
  join ai.budgets b
    on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id and b.period = 'total'
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'costVisible', visible,
    'envelope', details,
    'history', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', l.id,
        'actorId', l.actor_id,
        'actor', (select p.display_name from public.profiles p where p.id = l.actor_id),
        'action', l.action,
        'subjectId', l.subject_id,
        'subject', l.subject,
        'details', l.details,
        'at', ai.utc_text(l.created_at)
      ) order by l.id desc), '[]')
      from (
        select l.*
        from public.workspace_audit_log l
        where l.workspace_id = workspace and l.subject_id = envelope_id and l.action like 'envelope.%'
        order by l.id desc
        limit 50
      ) as l
    )
  );
end
$$;

-- Changes one envelope. changes may have limitUsd, calls and endsAt, or ended: true, which ends the envelope for good. A
-- later endsAt resumes an expired one. Raising an amount or extending the end requires a recent proof of identity
-- (is_fresh). read_version is the version that the member saw; ending ignores it. Outcomes: changed, unchanged,
-- changed_meanwhile and ended (all with the envelope), step_up_required, bad_end, not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes envelopes, which the service role can't do itself.
create or replace function ai.change_envelope(
  member_id uuid, workspace uuid, envelope_id uuid, changes jsonb, read_version text, is_fresh boolean
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  ends boolean := coalesce((changes ->> 'ended')::boolean, false);
  envelope ai.envelopes;
  old_budget ai.budgets;
  new_budget ai.budgets;
  raises boolean;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform from ai.envelopes e
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The order of ai.lock_rows holds: one budget, then the envelope, which calls and ai.open_envelope don't lock before a
  -- budget.
  select * into old_budget
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  for no key update;
  select * into envelope from ai.envelopes e where e.id = envelope_id for no key update;
  if old_budget.subject_id is null or envelope.id is null then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if envelope.ended_at is not null or envelope.superseded_at is not null then
    return jsonb_build_object(
      'outcome', case when ends and envelope.ended_at is not null then 'unchanged' else 'ended' end,
      'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  if not ends and read_version is distinct from ai.envelope_version(envelope, old_budget) then
    return jsonb_build_object(
      'outcome', 'changed_meanwhile', 'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  new_budget := old_budget;
  if ends then
    -- A call that waits for the lock compares with its own now(), which is earlier.
    new_budget.ends_at := least(old_budget.ends_at, now() - interval '1 minute');
  else
    if changes ? 'limitUsd' then
      new_budget.limit_usd := (changes ->> 'limitUsd')::numeric;
    end if;
    if changes ? 'calls' then
      new_budget.max_calls := (changes ->> 'calls')::bigint;
    end if;
    if changes ? 'endsAt' then
      new_budget.ends_at := (changes ->> 'endsAt')::timestamptz;
    end if;
    if new_budget = old_budget then
      return jsonb_build_object('outcome', 'unchanged', 'envelope', ai.envelope_details(envelope, old_budget, visible));
    end if;
    if new_budget.ends_at <> old_budget.ends_at and not ai.is_envelope_end(new_budget.ends_at) then
      return jsonb_build_object('outcome', 'bad_end');
    end if;
  end if;
  raises := new_budget.limit_usd > old_budget.limit_usd
    or (new_budget.max_calls is null and old_budget.max_calls is not null)
    or coalesce(new_budget.max_calls > old_budget.max_calls, false)
    or new_budget.ends_at > old_budget.ends_at;
  if raises and not is_fresh then
    return jsonb_build_object('outcome', 'step_up_required');
  end if;
  update ai.budgets b
  set
    limit_usd = new_budget.limit_usd,
    max_calls = new_budget.max_calls,
    ends_at = new_budget.ends_at,
    -- The refused call may now fit.
    refused_at = case when not raises then b.refused_at end
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  returning * into new_budget;
  if ends then
    update ai.envelopes e set ended_at = now(), ended_by = member_id where e.id = envelope_id returning * into envelope;
  elsif raises then
    perform ai.reset_budget_alert('envelope', envelope_id, workspace, 'total');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, case when ends then 'envelope.ended' else 'envelope.changed' end, envelope_id, ai.envelope_name(envelope),
    case
      when ends then '{}'
      else jsonb_build_object('before', ai.envelope_limits(old_budget), 'after', ai.envelope_limits(new_budget))
    end
  );
  return jsonb_build_object('outcome', 'changed', 'envelope', ai.envelope_details(envelope, new_budget, visible));
end
$$;

-- Opens an envelope for a key's calls or, without a key, for the member's own calls. limits has limitUsd and optionally
-- calls and endsAt. Without a label, it holds every call of the key or member. Replaces an ended or expired one. The
-- caller must have checked that the proof of identity is recent. Outcomes: opened and exists (both with the envelope),
-- too_many, bad_end, bad_label, not_active, not_allowed, not_found. Logs the opening.
-- Definer: as ai.change_envelope.
create or replace function ai.open_envelope_for_member(
  member_id uuid, workspace uuid, key_id uuid, label text, limits jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  end_time timestamptz := (limits ->> 'endsAt')::timestamptz;
  key ai.keys;
  opening jsonb;
  envelope ai.envelopes;
  budget ai.budgets;
begin
  if access is null or (key_id is null and not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if key_id is not null then
    select * into key
    from ai.keys k
    where k.id = key_id and k.workspace_id = workspace and (access = 'all' or k.created_by = member_id);
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
    if not exists (select from ai.keys k where k.lineage_id = key.lineage_id and ai.has_calling_key(k)) then
      return jsonb_build_object('outcome', 'not_active');
    end if;
    -- Every call of the key has the key's label, so an envelope with another one would hold nothing.
    if key.entity_id is not null and label not in ('', key.entity_id) then
      return jsonb_build_object('outcome', 'bad_label');
    end if;
  end if;
  if not coalesce(ai.is_envelope_end(end_time), true) then
    return jsonb_build_object('outcome', 'bad_end');
  end if;
  opening := ai.open_envelope(
    workspace, coalesce(key.lineage_id, member_id), label,
    jsonb_build_object('usd', limits ->> 'limitUsd', 'calls', limits -> 'calls'),
    opened_by => member_id, key_lineage => key.lineage_id, owner => key.created_by, ends_at => end_time
  );
  if opening ->> 'outcome' = 'too_many' then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  select * into envelope from ai.envelopes e where e.id = (opening ->> 'id')::uuid;
  select * into budget from ai.budgets b where b.scope = 'envelope' and b.subject_id = envelope.id;
  if opening ->> 'outcome' = 'opened' then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(
      workspace, 'envelope.opened', envelope.id, ai.envelope_name(envelope),
      jsonb_build_object('after', ai.envelope_limits(budget))
    );
  end if;
  return jsonb_build_object(
    'outcome', opening ->> 'outcome', 'envelope', ai.envelope_details(envelope, budget, visible)
  );
end
$$;

-- Returns whether an envelope may be made to end at a time: within a year from now. Null without a time.
create or replace function ai.is_envelope_end(end_time timestamptz) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select end_time > now() and end_time <= now() + interval '366 days'
$$;

-- Returns the key or person whose calls an envelope holds: { kind, id, name }. The name is null once it is deleted.
create or replace function ai.principal_of_envelope(envelope ai.envelopes) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'kind', x.kind, 'id', (envelope).principal_id,
    'name', ai.budget_name(x.kind, (envelope).principal_id, (envelope).workspace_id)
  )
  from (select case when (envelope).key_lineage_id is null then 'member' else 'key' end as kind) as x
$$;

-- Returns the limits of an envelope for its history, as exact text.
create or replace function ai.envelope_limits(budget ai.budgets) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'calls', (budget).max_calls,
    'endsAt', ai.utc_text_microseconds((budget).ends_at)
  )
$$;

-- Returns a text that differs after each change of an envelope's limits or state, so that a change made from an older
-- state can be refused.
create or replace function ai.envelope_version(envelope ai.envelopes, budget ai.budgets) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(ai.envelope_limits(budget)::text || coalesce((envelope).ended_at::text, ''))
$$;

-- Returns an envelope for members. Amounts are exact text. What was spent is null if the workspace hides provider cost.
-- waiting: a call was refused since the limits were last raised.
create or replace function ai.envelope_details(envelope ai.envelopes, budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.envelope_limits(budget) || jsonb_build_object(
    'id', (envelope).id,
    'version', ai.envelope_version(envelope, budget),
    'state', s.state,
    'waiting', s.state = 'open' and (budget).refused_at is not null,
    'principal', ai.principal_of_envelope(envelope),
    'keyId', (
      select k.id from ai.keys k
      where k.lineage_id = (envelope).key_lineage_id and k.workspace_id = (envelope).workspace_id
      order by k.created_at desc, k.id desc limit 1
    ),
    'owner', (select p.display_name from public.profiles p where p.id = (envelope).actor_id),
    'label', (envelope).label,
    'holdsAll', (envelope).holds_all,
    'openedUsd', trim_scale((envelope).opened_usd)::text,
    'openedCalls', (envelope).opened_calls,
    'openedAt', ai.utc_text_microseconds((envelope).opened_at),
    'openedBy', (select p.display_name from public.profiles p where p.id = (envelope).opened_by),
    'endedAt', ai.utc_text((envelope).ended_at),
    'endedBy', (select p.display_name from public.profiles p where p.id = (envelope).ended_by),
    'replaced', (envelope).superseded_at is not null,
    'lastRefusedAt', ai.utc_text((budget).refused_at),
    'usedCalls', (budget).calls,
    'remainingCalls', greatest((budget).max_calls - (budget).calls, case when (budget).max_calls is not null then 0 end),
    'spentUsd', case when cost_visible then trim_scale((budget).spent_usd)::text end,
    'reservedUsd', case when cost_visible then trim_scale((budget).reserved_usd)::text end,
    'remainingUsd', case
      when cost_visible then trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))::text
    end
  )
  from (select ai.envelope_state(envelope, budget) as state) as s
$$;

-- Returns the details of the latest 20 keys that a key replaced, newest first. Follows the rotations back from the key.
create or replace function ai.replaced_keys(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with recursive chain as (
    select k.id, k as replaced, 1 as place from ai.keys k where k.replaced_by = (key).id and (key).connection_id is null
    union all
    select k.id, k, c.place + 1 from chain c join ai.keys k on k.replaced_by = c.id where c.place < 20
  )
  select coalesce(jsonb_agg(ai.key_summary(c.replaced, null) order by c.place), '[]') from chain c
$$;

-- Returns the settings of a key that ai.change_key can change, except the budget.
create or replace function ai.key_settings(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'name', (key).name,
    'environment', (key).environment,
    'expiresAt', ai.utc_text_microseconds((key).expires_at),
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute
  )
$$;

-- Returns the monthly budget of a key and of the keys that it replaced, or null.
create or replace function ai.key_budget(key ai.keys) returns numeric
  language sql stable security invoker set search_path = ''
as $$
  select b.limit_usd from ai.budgets b
  where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id and b.period = 'month'
$$;

-- Returns a key with the given changes of its settings.
create or replace function ai.apply_key_changes(key ai.keys, changes jsonb) returns ai.keys
  language plpgsql immutable security invoker set search_path = ''
as $$
begin
  key.name := coalesce(changes ->> 'name', key.name);
  key.environment := coalesce(changes ->> 'environment', key.environment);
  key.is_strict := coalesce((changes ->> 'strict')::boolean, key.is_strict);
  if changes ? 'expiresAt' then
    key.expires_at := (changes ->> 'expiresAt')::timestamptz;
  end if;
  if changes ? 'allowedModels' then
    key.allowed_models := ai.text_list(changes -> 'allowedModels');
  end if;
  if changes ? 'allowedAddresses' then
    key.allowed_addresses := ai.text_list(changes -> 'allowedAddresses')::cidr[];
  end if;
  if changes ? 'requestsPerMinute' then
    key.requests_per_minute := (changes ->> 'requestsPerMinute')::integer;
  end if;
  if changes ? 'tokensPerMinute' then
    key.tokens_per_minute := (changes ->> 'tokensPerMinute')::bigint;
  end if;
  return key;
end
$$;

-- Returns whether a key could be used for anything for which another version of it could not: longer, for other models,
-- from other addresses, more often, or with what strict mode refuses.
create or replace function ai.key_allows_more(key ai.keys, than ai.keys) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce((key).expires_at, 'infinity') > coalesce((than).expires_at, 'infinity')
    or (than).allowed_models is not null and coalesce(not (key).allowed_models <@ (than).allowed_models, true)
    or (than).allowed_addresses is not null and (
      (key).allowed_addresses is null
      or exists (select from unnest((key).allowed_addresses) as a where not coalesce(a <<= any ((than).allowed_addresses), false))
    )
    or coalesce((key).requests_per_minute, 'infinity'::numeric) > coalesce((than).requests_per_minute, 'infinity'::numeric)
    or coalesce((key).tokens_per_minute, 'infinity'::numeric) > coalesce((than).tokens_per_minute, 'infinity'::numeric)
    or (than).is_strict and not (key).is_strict
$$;

-- Returns the coding agent that renews a key: { tool, host, status, endsAt, envelope }. status is what the gateway answers to the
-- agent (ai.agent_key_statuses). endsAt is the time at which the agent's login ends, or null with the status over.
-- Returns null if no agent renews the key.
create or replace function ai.agent_of_key(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'tool', c.tool,
    'host', c.host,
    'status', s.status,
    'endsAt', case when s.status <> 'over' then ai.agent_login_end(c.login_id) end,
    'envelope', ai.describe_agent_envelope(ai.lineage_envelope((key).lineage_id, c.workspace_id))
  )
  from ai.agent_connections c
  cross join lateral (select ai.agent_key_statuses(array[c.id]) ->> c.id::text as status) s
  where c.id = (key).connection_id
$$;

-- Returns a page of a workspace's keys, newest first, for a member with manage_ai_keys. Returns { outcome: listed,
-- approval, keys } or { outcome: not_allowed }. before is { createdAt, id } of the last key on the previous page. Keys
-- are listed even if the workspace is not approved. With nested, replaced keys are not in the list: each key has its
-- latest replaced keys in replaced.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, nested boolean default false
) returns jsonb
  language plpgsql stable security definer set search_path = ''
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
    'keys', ai.key_summaries(workspace, nested => nested, listed => array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        -- Lists only the latest key of a coding agent's connection.
        and (k.replaced_by is null or (k.connection_id is null and not nested))
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Changes the given settings of a key that works; null removes a limit. Requires manage_ai_keys and, if the key could
-- then be used for more than before, what creating a key requires. read_version is the version that the member saw, or
-- null. The budget follows the rules of ai.change_budget. Outcomes: changed and changed_meanwhile (with key),
-- not_allowed, not_approved, not_found, not_active, agent_key, unknown_models (with param and models).
-- Definer: the service role cannot write keys, so every change passes these checks.
create or replace function ai.change_key(
  member_id uuid, workspace uuid, key_id uuid, changes jsonb, read_version text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text;
  old ai.keys;
  new_key ai.keys;
  unknown text[];
  differences jsonb;
begin
  -- Budgets are compared and changed under this lock, and it comes before the locks of rows.
  perform ai.lock_policy(workspace);
  issue_permission := ai.key_issue_permission(member_id, workspace);
  if issue_permission = 'not_allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  -- Logging refers to the workspace. Deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = workspace for key share;
  select * into old from ai.keys k where k.id = change_key.key_id and k.workspace_id = workspace for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.connection_id is not null then
    return jsonb_build_object('outcome', 'agent_key');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  if read_version <> ai.key_version(old) then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'key', ai.key_summaries(workspace, array[old]) -> 0);
  end if;
  new_key := ai.apply_key_changes(old, changes);
  -- Models that the key already has may have left the catalogue.
  unknown := ai.unknown_models(array(
    select m from unnest(new_key.allowed_models) as m where m <> all (coalesce(old.allowed_models, '{}'))
  ));
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if issue_permission <> 'allowed' and ai.key_allows_more(new_key, old) then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  select jsonb_object_agg(n.key, jsonb_build_object('before', o.value, 'after', n.value)) into differences
  from jsonb_each(ai.key_settings(new_key)) n
  join jsonb_each(ai.key_settings(old)) o using (key)
  where n.value <> o.value;
  if differences is not null then
    update ai.keys k
    set
      name = new_key.name,
      environment = new_key.environment,
      expires_at = new_key.expires_at,
      allowed_models = new_key.allowed_models,
      allowed_addresses = new_key.allowed_addresses,
      requests_per_minute = new_key.requests_per_minute,
      tokens_per_minute = new_key.tokens_per_minute,
      is_strict = new_key.is_strict
    where k.id = old.id;
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.changed', old.id, new_key.name, differences);
  end if;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.change_budget(
      member_id, workspace, 'key', old.lineage_id, changes ->> 'monthlyBudgetUsd', ai.key_budget(old)::text
    );
  end if;
  return jsonb_build_object('outcome', 'changed', 'key', ai.key_summaries(workspace, array[new_key]) -> 0);
end
$$;

-- Returns the key of the row to which a daily sum of refused calls belongs, as ai.usage_key does.
create or replace function ai.refused_key(part ai.refused_daily, grouped_by text, first_day date, days_each integer)
  returns text
  language sql immutable security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then coalesce((part).model_id, '')
    when 'feature' then coalesce((part).feature, '')
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
    when 'member' then coalesce((part).actor_id::text, '')
    else ''
  end
$$;

-- Estimates the median and 95th percentile of run durations, in ms, from a histogram (a sum of ai.latency_mark) and, if
-- known, the sum of the durations. Each estimate is in the same bucket as the exact value, so its error is at most the
-- width of a bucket, 19%. No estimate exceeds the longest duration: in the highest bucket, it is the lowest mean that the
-- sum allows, or the bucket's first millisecond. So the estimates of equal durations with a sum are exact. Returns nulls
-- if the histogram contains no run.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.latency_quantiles(marks numeric, total_ms numeric default null)
  returns table (p50 integer, p95 integer)
  language sql immutable security invoker parallel safe
as $$
  with d as materialized (
    -- A byte at a position can be read directly, while a character of a text is found only by counting.
    select lpad(marks::text, 12 * 81, '0')::bytea as digits
  ), b as materialized (
    select
      c.*,
      (sum(c.runs) over (order by c.bucket) - c.runs)::double precision as before,
      (sum(c.runs) over ())::double precision as total
    from (
      select
        n as bucket,
        encode(substr(d.digits, 12 * (80 - n) + 1, 12), 'escape')::bigint as runs,
        case n when 0 then 0 else 2 ^ ((n - 1) / 4.0::double precision) end as low,
        2 ^ (n / 4.0::double precision) as high
      from d
      cross join generate_series(0, 80) as n
    ) c
    where c.runs > 0
  ), longest as (
    select t.bucket, greatest(ceil(t.low), (total_ms - s.below_ms) / t.runs) as ms
    from (select * from b order by bucket desc limit 1) t
    cross join (
      select coalesce(sum(runs * (ceil(high) - 1)), 0) as below_ms from b where bucket < (select max(bucket) from b)
    ) s
  ), e as (
    select
      q.part,
      case when b.bucket < l.bucket then b.low + (b.high - b.low) * (q.part * b.total - b.before) / b.runs else l.ms end
        as ms
    from b
    cross join longest l
    cross join (values (0.5), (0.95)) as q (part)
    where b.before < q.part * b.total and b.before + b.runs >= q.part * b.total
  )
  select
    max(round(e.ms)) filter (where e.part = 0.5)::integer, max(round(e.ms)) filter (where e.part = 0.95)::integer
  from e
$$;

-- Returns { overview, budgets, keys, approval } for the first page of a workspace: the usage by model, the first budgets,
-- the newest key, and the state of the keys' approval.
-- Until 0.5.0, for servers of 0.3.0: without all_periods, returns only monthly budgets.
create or replace function ai.read_workspace_home(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, days_each integer, max_rows integer, max_budgets integer, budget_scopes text[],
  all_periods boolean default false
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'overview', ai.read_overview(
      member_id, workspace, range_from, range_to, previous_from, previous_to, 'model', days_each, max_rows
    ),
    'budgets', ai.read_budgets(member_id, workspace, null, max_budgets, budget_scopes, all_periods),
    'keys', ai.list_keys(member_id, workspace, null, 1),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Returns { keys, agents, approval }: a page of keys, the members with agents, and the state of the keys' approval.
create or replace function ai.read_keys_page(
  member_id uuid, workspace uuid, before jsonb, page_size integer, nested boolean default false
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'keys', ai.list_keys(member_id, workspace, before, page_size, nested),
    'agents', ai.list_agent_access(member_id, workspace),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Changes the given fields of a workspace's policy, for a member with manage_ai_policy: allowedModels, deniedModels,
-- allowedRegions, requestsPerMinute, tokensPerMinute, modelLimits [{ model, requestsPerMinute, tokensPerMinute }],
-- providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, appBudgets [{ appId, monthlyBudgetUsd }].
-- null removes a limit. readAt is the updatedAt of the
-- policy that the member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy),
-- changed_meanwhile (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are
-- already in one of the lists are never unknown. Each change adds an entry to the workspace's audit log.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels')
    || ai.limited_models(before -> 'modelLimits');
  foreach param in array array['allowedModels', 'deniedModels', 'modelLimits'] loop
    unknown := ai.unknown_models(array(
      select n.name
      from unnest(
        case param when 'modelLimits' then ai.limited_models(changes -> param) else ai.text_list(changes -> param) end
      ) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    allowed_regions = case
      when changes ? 'allowedRegions' then ai.text_list(changes -> 'allowedRegions') else p.allowed_regions
    end,
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    model_limits = case when changes ? 'modelLimits' then ai.model_limits(changes -> 'modelLimits') else p.model_limits end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
  where p.workspace_id = workspace;
  -- Locks apps before the workspace, which is the common lock order.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

-- Returns a workspace's policy as its members see it, or the defaults if the workspace has not set a policy.
create or replace function ai.workspace_policy_summary(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'allowedModels', to_jsonb(p.allowed_models),
    'deniedModels', coalesce(to_jsonb(p.denied_models), '[]'),
    'allowedRegions', to_jsonb(p.allowed_regions),
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'modelLimits', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('model', l.key, 'requestsPerMinute', l.value -> 'requests', 'tokensPerMinute', l.value -> 'tokens')
          order by l.key
        ),
        '[]'
      )
      from jsonb_each(p.model_limits) as l
    ),
    'providerCostVisible', coalesce(p.provider_cost_visible, true),
    'contentCapture', coalesce(p.content_capture, false),
    'contentRetentionDays', coalesce(p.content_retention_days, 30),
    'budget', (
      select ai.budget_summary(b, ai.cost_visible(w.id)) from ai.budgets b
      where b.scope = 'workspace' and b.subject_id = w.id and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
    ),
    'appBudgets', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('appId', a.id, 'app', a.display_name) || ai.budget_summary(b, ai.cost_visible(w.id))
          order by a.display_name, a.id
        ),
        '[]'
      )
      from ai.budgets b
      join private.apps a on a.id = b.subject_id
      where b.scope = 'app' and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
    ),
    'updatedAt', p.updated_at,
    'updatedBy', (select u.display_name from public.profiles u where u.id = p.updated_by)
  )
  from (select workspace as id) w
  left join ai.workspace_policies p on p.workspace_id = w.id
$$;

-- Returns limits of models, such as [{"model": "gpt-5", "requestsPerMinute": 10, "tokensPerMinute": null}], as a policy
-- stores them, or null if there are none.
create or replace function ai.model_limits(limits jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_object_agg(l ->> 'model', jsonb_strip_nulls(jsonb_build_object(
    'requests', l -> 'requestsPerMinute', 'tokens', l -> 'tokensPerMinute'
  )))
  from jsonb_array_elements(limits) as l
$$;

-- Returns the models of a list of limits, in their order.
create or replace function ai.limited_models(limits jsonb) returns text[]
  language sql immutable security invoker set search_path = ''
as $$
  select array(select l.value ->> 'model' from jsonb_array_elements(limits) with ordinality as l order by l.ordinality)
$$;

-- Returns a page of refused calls, newest first, for a member with use_ai_studio: { outcome: listed, calls,
-- continueBefore } or { outcome: not_allowed }. Takes the filters of ai.list_runs. Examines at most scan_limit calls; if
-- that fills no page, continueBefore is the position to continue from.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_refused_calls(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns jsonb
  language plpgsql stable security definer set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  with scanned as (
    select c.*
    from ai.refused_calls c
    where c.workspace_id = workspace
      and c.created_at >= starts_at
      and c.created_at < ends_at
      and not (c.created_at = last_at and c.id >= last_id)
      and (filter ->> 'requestId' is null or c.request_id = filter ->> 'requestId')
    order by c.created_at desc, c.id desc
    limit scan_limit
  ), page as (
    select s.*
    from scanned s
    where (filter ->> 'model' is null or s.model_id = filter ->> 'model')
      and (filter ->> 'feature' is null or s.feature = filter ->> 'feature')
      and (filter ->> 'keyId' is null or s.key_id = (filter ->> 'keyId')::uuid)
      and (filter ->> 'appId' is null or s.app_id = (filter ->> 'appId')::uuid)
      and (filter ->> 'memberId' is null or s.actor_id = (filter ->> 'memberId')::uuid)
      and (filter ->> 'entityId' is null or s.entity_id = filter ->> 'entityId')
      -- Refused calls reached no provider.
      and not filter ? 'provider'
    order by s.created_at desc, s.id desc
    limit page_size
  )
  select jsonb_build_object(
    'outcome', 'listed',
    'calls', coalesce(
      (
        select jsonb_agg(
          ai.refused_call_summary(row(p.*)::ai.refused_calls, r.reader) order by p.created_at desc, p.id desc
        )
        from page p
        cross join (select ai.refusal_reader(member_id, workspace) as reader) as r
      ),
      '[]'
    ),
    'continueBefore', (
      select jsonb_build_object('createdAt', s.created_at, 'id', s.id)
      from scanned s
      where (select count(*) from page) < page_size
      order by s.created_at desc, s.id desc
      offset scan_limit - 1
      limit 1
    )
  )
  into answer;
  return answer;
end
$$;

-- Returns what decides which details of refused calls a member sees: { memberId, costVisible, keysVisible }. keysVisible
-- is as in ai.read_budgets.
create or replace function ai.refusal_reader(member_id uuid, workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'memberId', member_id,
    'costVisible', ai.cost_visible(workspace),
    'keysVisible', private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
      or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
  )
$$;

-- Returns the members of an object, also of nested objects, except amounts in dollars.
create or replace function ai.without_amounts(details jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_object_agg(
      d.key, case jsonb_typeof(d.value) when 'object' then ai.without_amounts(d.value) else d.value end
    ),
    '{}'
  )
  from jsonb_each(details) d
  where d.key !~* 'usd'
$$;

-- Gives a person who joins, or whose role changes, the monthly budget of the new role. A monthly budget that the
-- person already has in the workspace stays as it is.
-- Definer: people who accept invitations or change members have no grant to write budgets.
create or replace function private.start_member_budget() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  role_budget_usd constant numeric := (select r.member_budget_usd from public.workspace_roles r where r.id = new.role_id);
begin
  if role_budget_usd is null then
    return null;
  end if;
  perform ai.lock_policy(new.workspace_id);
  perform from ai.budgets b
  where b.scope = 'member' and b.subject_id = new.user_id and b.workspace_id = new.workspace_id and b.period = 'month'
    and b.limit_usd is not null;
  if found then
    return null;
  end if;
  perform ai.set_budget('member', new.user_id, new.workspace_id, role_budget_usd);
  perform private.log_workspace_change(
    new.workspace_id, 'budget.changed', new.user_id, ai.budget_name('member', new.user_id, new.workspace_id),
    jsonb_build_object('scope', 'member', 'before', null, 'after', trim_scale(role_budget_usd)::text)
  );
  return null;
end
$$;

-- Returns a run for a member with use_ai_studio: { outcome: read } merged with the fields of ai.run_detail, or {
-- outcome: not_found | not_allowed }. With a filter, also returns adjacent, its neighbours in the list of runs, unless it
-- filters by a provider that the workspace hides.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_run(
  member_id uuid, workspace uuid, run_id uuid, filter jsonb default null, sort text default 'time',
  scan_limit integer default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_run ai.runs := ai.find_run(run_id);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if found_run.workspace_id is distinct from workspace then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object('outcome', 'read') || ai.run_detail(found_run, visible) || case
    when filter is null or filter ? 'provider' and not visible then '{}'
    else jsonb_build_object('adjacent', ai.find_adjacent_runs(found_run, filter, sort, scan_limit, visible))
  end;
end
$$;

-- Returns the time that a UUIDv7 contains, which determines the partition of its row.
create or replace function ai.time_of_id(id uuid) returns timestamptz
  language sql immutable security invoker parallel safe
as $$
  select to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$$;

-- Returns the budgets that count a run, in the order in which the run lists them, with their current limits. limitUsd is
-- null if provider cost is hidden, and for budgets that were removed since.
create or replace function ai.run_budgets(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'scope', e.scope,
    'period', e.period,
    'subjectId', s.id,
    'name', case e.scope when 'label' then (run).entity_id else ai.budget_name(e.scope, s.id, (run).workspace_id) end,
    'isSet', num_nonnulls(b.limit_usd, b.max_calls) > 0,
    'limitUsd', case when cost_visible then trim_scale(b.limit_usd)::text end,
    'maxCalls', b.max_calls
  ) order by t.position), '[]')
  from unnest((run).budget_scopes) with ordinality as t (entry, position)
  cross join lateral (select split_part(t.entry, '/', 1) as scope, ai.entry_period(t.entry) as period) as e
  cross join lateral (
    select ai.budget_subject(
      e.scope, (run).workspace_id, (run).key_lineage_id, (run).app_id, (run).actor_id, (run).entity_id, (run).envelope_id
    ) as id
  ) as s
  left join ai.budgets b
    on b.scope = e.scope and b.subject_id = s.id and b.workspace_id = (run).workspace_id and b.period = e.period
$$;

-- Returns whether a run matches the filters of ai.list_runs, except its range.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.matches_run_filter(run ai.runs, filter jsonb) returns boolean
  language sql stable security invoker
as $$
  select (filter ->> 'model' is null or (run).model_id = filter ->> 'model')
    and (filter ->> 'feature' is null or (run).feature = filter ->> 'feature')
    and (filter ->> 'status' is null or (run).status = filter ->> 'status')
    and (filter ->> 'keyId' is null or (run).key_id = (filter ->> 'keyId')::uuid)
    and (filter ->> 'appId' is null or (run).app_id = (filter ->> 'appId')::uuid)
    and (filter ->> 'memberId' is null or (run).actor_id = (filter ->> 'memberId')::uuid)
    and (filter ->> 'provider' is null or ai.run_provider((run).routes, (run).route) = filter ->> 'provider')
    and (filter ->> 'entityId' is null or (run).entity_id = filter ->> 'entityId')
    and (filter ->> 'requestId' is null or (run).request_id = filter ->> 'requestId')
$$;

-- Returns values by which a workspace's runs can be filtered, at most 100 of each kind, for a member with
-- use_ai_studio, and all models that it may call. Returns { outcome: listed, models, keys (newest first), apps, members,
-- providers } or { outcome: not_allowed }. providers is null if the workspace hides providers.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_filters(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'models', (
      select coalesce(jsonb_agg(m.id order by m.id), '[]')
      from (
        select distinct g.model_id as id
        from ai.model_grants g
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
      ) m
    ),
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'ended', k.revoked_at is not null or coalesce(k.expires_at <= now(), false)
      ) order by k.created_at desc, k.id), '[]')
      from (
        select * from ai.keys o where o.workspace_id = workspace order by o.created_at desc, o.id limit 100
      ) k
    ),
    'apps', (
      select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id), '[]')
      from (
        select o.id, o.display_name
        from private.app_workspaces l
        join private.apps o on o.id = l.app_id
        where l.workspace_id = workspace
        order by o.display_name, o.id
        limit 100
      ) a
    ),
    'members', (
      select coalesce(jsonb_agg(jsonb_build_object('id', m.user_id, 'name', m.name)), '[]')
      from public.list_workspace_members(workspace, page_size => 100) m
    ),
    'providers', case when ai.cost_visible(workspace) then (
      select coalesce(jsonb_agg(p.id order by p.id), '[]')
      from (
        select distinct r.provider_id as id
        from ai.model_routes r
        join ai.model_grants g on g.model_id = r.model_id
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
        order by 1
        limit 100
      ) p
    ) end
  );
end
$$;

-- Returns the value by which ai.list_runs sorts a run, or null if it sorts by time. Runs without a latency come last.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.run_sort_value(run ai.runs, sort text, cost_visible boolean) returns numeric
  language sql immutable security invoker
as $$
  select case sort
    when 'cost' then case when cost_visible then (run).cost_usd else (run).billed_credits end
    when 'tokens' then ((run).input_tokens + (run).output_tokens)::numeric
    when 'latency' then coalesce((run).latency_ms, -1)::numeric
  end
$$;

-- Returns whether a workspace has more than most runs in a range. Reads at most one more. Sorting has no index, because
-- each index slows down every gateway call.
create or replace function ai.has_more_runs_than(most integer, workspace uuid, starts_at timestamptz, ends_at timestamptz)
  returns boolean
  language sql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
  select count(*) > most
  from (
    select
    from ai.runs r
    where r.workspace_id = workspace and r.created_at >= starts_at and r.created_at < ends_at
    limit most + 1
  ) as counted
$$;

-- Returns { previous, next }, the ids of the runs before and after a run in the list that ai.list_runs returns for these
-- filters, or nulls. Searches at most scan_limit runs in each direction.
create or replace function ai.find_adjacent_runs(
  run ai.runs, filter jsonb, sort text, scan_limit integer, cost_visible boolean
) returns jsonb
  language plpgsql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  workspace uuid := run.workspace_id;
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filter ->> 'to')::timestamptz, 'infinity');
  run_value numeric;
  found_ids record;
begin
  if sort <> 'time' and ai.has_more_runs_than(scan_limit, workspace, starts_at, ends_at) then
    sort := 'time';
  end if;
  if sort <> 'time' then
    run_value := ai.run_sort_value(run, sort, cost_visible);
    select
      (array_agg(s.id order by s.value, s.created_at, s.id)
        filter (where (s.value, s.created_at, s.id) > (run_value, run.created_at, run.id)))[1] as previous,
      (array_agg(s.id order by s.value desc, s.created_at desc, s.id desc)
        filter (where (s.value, s.created_at, s.id) < (run_value, run.created_at, run.id)))[1] as next
    into found_ids
    from (
      select r.id, r.created_at, ai.run_sort_value(r, sort, cost_visible) as value
      from ai.runs r
      where r.workspace_id = workspace and r.created_at >= starts_at and r.created_at < ends_at
        and ai.matches_run_filter(r, filter)
    ) s;
  else
    select (
      select scanned.id
      from (
        select *
        from ai.runs r
        where r.workspace_id = workspace and r.created_at >= greatest(starts_at, run.created_at) and r.created_at < ends_at
          and not (r.created_at = run.created_at and r.id <= run.id)
        order by r.created_at, r.id
        limit scan_limit
      ) as scanned
      where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
      order by scanned.created_at, scanned.id
      limit 1
    ) as previous, (
      select scanned.id
      from (
        select *
        from ai.runs r
        where r.workspace_id = workspace and r.created_at >= starts_at
          and r.created_at < least(ends_at, run.created_at + interval '1 microsecond')
          and not (r.created_at = run.created_at and r.id >= run.id)
        order by r.created_at desc, r.id desc
        limit scan_limit
      ) as scanned
      where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
      order by scanned.created_at desc, scanned.id desc
      limit 1
    ) as next
    into found_ids;
  end if;
  return jsonb_build_object('previous', found_ids.previous, 'next', found_ids.next);
end
$$;

-- Returns a page of a workspace's runs for a member with use_ai_studio: { outcome: listed, runs, sort, sortValue,
-- unknown, continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature, status,
-- keyId, appId, memberId, provider, entityId, requestId. unknown names a filter with a value that does not exist.
-- sort is time (newest first) or cost, tokens or latency (largest first). If the range has more than scan_limit runs,
-- the answer is sorted by time, as its sort says. sortValue is that of the last run before the page's additional one,
-- and continues the list together with the run's createdAt and id. With scan_limit, a filter without an index examines
-- at most that many runs. In this case continueBefore is the position to continue from, or null if no older run can
-- match.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_runs(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit, sort, visible);
  sorted_by text := page.answer ->> 'sort';
begin
  return page.answer || case when page.runs is null then '{}' else jsonb_build_object('runs', (
    select coalesce(jsonb_agg(
      -- Calls ai.run_pricing_facts directly. A call inside ai.run_summary would make Postgres plan ai.run_pricing_facts
      -- again for each run.
      ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible)
      order by ai.run_sort_value(r, sorted_by, visible) desc, r.created_at desc, r.id desc
    ), '[]')
    from unnest(page.runs) r
  )) end;
end
$$;

-- Returns a page of runs like ai.list_runs, for files of many thousand runs: each run is an array of the values that
-- ai.run_summary and ai.run_pricing_facts return, in the order of remix-app/studio/runs/run-file.ts. A run's routes are
-- JSON text, which its reader need not parse again for the next run.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_rows(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns json
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit, sort, visible);
  sorted_by text := page.answer ->> 'sort';
begin
  return json_build_object(
    'outcome', page.answer -> 'outcome',
    'unknown', page.answer -> 'unknown',
    'continueBefore', page.answer -> 'continueBefore',
    'sort', page.answer -> 'sort',
    'sortValue', page.answer -> 'sortValue',
    'runs', (
      select coalesce(json_agg(json_build_array(
        r.id, r.request_id, r.created_at, r.settled_at, r.model_id, r.feature, r.entity_id, r.credential_source,
        r.execution_mode, r.key_id, k.name, r.app_id, a.display_name, r.actor_id, p.display_name,
        case when r.credential_source <> 'key' then r.actor_id end,
        case when visible then ai.run_provider(r.routes, r.route) end,
        r.streamed, r.status, r.http_status, r.error_code, r.usage_source, r.input_tokens, r.cached_input_tokens,
        r.output_tokens, r.reasoning_tokens, r.audio_input_tokens, r.audio_output_tokens,
        r.cache_write_tokens + r.cache_write_1h_tokens, r.image_input_tokens, r.fee_requests,
        case when visible then r.served_tier end, r.marks, trim_scale(r.billed_credits)::text,
        trim_scale(r.unmetered_credits)::text, case when visible then trim_scale(r.cost_usd)::text end, r.first_byte_ms,
        r.latency_ms, r.cache_write_1h_tokens, r.exempt, r.swept, r.idempotency_key is not null,
        ai.has_provider_call(r.steps), case when r.status = 'running' then trim_scale(r.reserved_credits)::text end,
        case when visible then trim_scale(r.markup)::text end, case when visible then r.route end,
        case when visible then ai.charged_routes(r.routes, r.route, r.attempts)::text end,
        case when visible then r.attempts end
      ) order by ai.run_sort_value(r, sorted_by, visible) desc, r.created_at desc, r.id desc), '[]')
      from unnest(page.runs) r
      left join ai.keys k on k.id = r.key_id
      left join private.apps a on a.id = r.app_id
      left join public.profiles p on p.id = r.actor_id
    )
  );
end
$$;

-- Returns the runs of a page, and the other fields of ai.list_runs as answer. runs is null if the member may not see
-- them.
create or replace function ai.find_runs_of_page(
  member_id uuid,
  workspace uuid,
  filter jsonb,
  before jsonb,
  page_size integer,
  scan_limit integer,
  sort text,
  cost_visible boolean,
  out answer jsonb,
  out runs ai.runs[]
)
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would use no index and read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filter ->> 'to')::timestamptz, 'infinity');
  of_request text := filter ->> 'requestId';
  has_outer_filter boolean := filter - '{from,to,requestId}'::text[] <> '{}';
  last_value numeric := (before ->> 'value')::numeric;
  last_at timestamptz;
  last_id uuid;
  unknown_name text;
  scanned_to record;
  older_than timestamptz;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    answer := '{"outcome": "not_allowed"}';
    return;
  end if;
  runs := '{}';
  if sort <> 'time' and ai.has_more_runs_than(scan_limit, workspace, starts_at, ends_at) then
    sort := 'time';
  end if;
  -- Starts over if the position belongs to another order, because the range now has more runs.
  if (sort = 'time') = (last_value is null) then
    last_at := (before ->> 'createdAt')::timestamptz;
    last_id := (before ->> 'id')::uuid;
  end if;
  last_at := coalesce(last_at, 'infinity');
  answer := jsonb_build_object('outcome', 'listed', 'sort', sort);
  unknown_name := ai.unknown_run_filter(workspace, filter);
  -- Continues for an unknown app or member, because a deleted app or account can still have runs.
  if unknown_name in ('provider', 'keyId') then
    answer := answer || jsonb_build_object('unknown', unknown_name);
    return;
  end if;
  if sort <> 'time' then
    runs := array(
      select row(r.*)::ai.runs
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and ai.matches_run_filter(r, filter)
        and (
          last_id is null
          or (ai.run_sort_value(r, sort, cost_visible), r.created_at, r.id) < (last_value, last_at, last_id)
        )
      order by ai.run_sort_value(r, sort, cost_visible) desc, r.created_at desc, r.id desc
      limit page_size
    );
    answer := answer || jsonb_build_object(
      'sortValue', ai.run_sort_value(runs[page_size - 1], sort, cost_visible)::text,
      'unknown', case when before is null and runs = '{}' then unknown_name end
    );
    return;
  end if;
  -- Compares created_at separately, because the row comparison (created_at, id) < (last_at, last_id) would prune no
  -- partition.
  ends_at := least(ends_at, last_at + interval '1 microsecond');
  -- The request id has an index. The other filters have none, because each index slows down every gateway call.
  if of_request is not null or not has_outer_filter then
    scan_limit := null;
  end if;
  runs := array(
    select row(scanned.*)::ai.runs
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      -- Without a limit here, Postgres would plan to read all runs, because the outer limit does not reach this query.
      limit case when has_outer_filter then scan_limit else page_size end
    ) as scanned
    where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  );
  if scan_limit is null or cardinality(runs) >= page_size then
    answer := answer || jsonb_build_object('unknown', case when before is null and runs = '{}' then unknown_name end);
    return;
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
  answer := answer || jsonb_build_object(
    'unknown', case when before is null and runs = '{}' and older_than is null then unknown_name end,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;

-- Returns a workspace's usage for a member with use_ai_studio: a page of rows, the totals of the whole window, and the
-- credits deducted without a run. Rows are grouped by any of day, model, feature, executionMode, provider, key (its
-- lineage), app and member. Alternatively they are grouped by label, or by label and day. provider is null if the
-- workspace hides provider cost. refused counts the refused calls of all days that overlap the window; it is null in
-- rows by label. The default window is the last 30 days. after is the position of the last row on the previous page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  return (
    with parts as materialized (
      select
        u.day, u.model_id, u.feature, u.execution_mode, u.provider_id, u.key_lineage_id, u.app_id, u.actor_id,
        u.requests, u.failed, u.input_tokens, u.output_tokens, u.cost_usd, u.billed_credits, u.unmetered_credits,
        u.latency_ms, u.timed, 0 as refused
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to, by_member) u
      union all
      select
        r.day, coalesce(r.model_id, ''), coalesce(r.feature, ''), r.execution_mode, null, r.key_lineage_id, r.app_id,
        r.actor_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, r.refused
      from ai.refused_between(workspace, report_window.window_from, report_window.window_to) r
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) and visible then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- A key has an eighth part only when grouping by member or label.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed,
        sum(u.refused) as refused
      from parts u
      where not by_label
      group by 1
      having sum(u.requests) > 0 or sum(u.refused) > 0
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed), null
      from ai.label_usage_between(workspace, report_window.window_from, report_window.window_to) l
      where by_label
      group by 1
      having sum(l.requests) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'refused', coalesce(sum(u.refused), 0),
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'refused', p.refused,
            'day', nullif(p.key[1], ''),
            'model', nullif(p.key[2], ''),
            'feature', nullif(p.key[3], ''),
            'executionMode', nullif(p.key[4], ''),
            'provider', nullif(p.key[5], ''),
            'keyId', nullif(p.key[6], ''),
            'keyName', (
              select k.name from ai.keys k
              where k.lineage_id = nullif(p.key[6], '')::uuid and k.workspace_id = workspace
              order by k.created_at desc limit 1
            ),
            'appId', nullif(p.key[7], ''),
            'appName', ai.app_label(nullif(p.key[7], '')::uuid),
            'memberId', case when by_member then nullif(p.key[8], '') end,
            'memberName', case when by_member then ai.member_label(workspace, nullif(p.key[8], '')::uuid) end,
            'label', case when by_label then nullif(p.key[8], '') end,
            'position', p.key
          )
          order by p.key collate "C"
        ), '[]')
        from (
          select * from grouped g
          where after is null or g.key collate "C" > after collate "C"
          order by g.key collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

-- Returns whether a workspace's book is in use: an app is linked, or costs or invoices were recorded. False for callers
-- who may not read the book, and without the required MFA.
-- Definer: users cannot read links and records.
create or replace function public.uses_cost_book(workspace_id uuid) returns boolean
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return private.account_required_mfa_satisfied()
    and private.user_has_workspace_permission(auth.uid(), uses_cost_book.workspace_id, 'use_ai_studio')
    and (
      exists (select from private.app_workspaces l where l.workspace_id = uses_cost_book.workspace_id)
      or exists (select from ai.external_provider_costs c where c.workspace_id = uses_cost_book.workspace_id)
      or exists (select from ai.external_provider_invoices i where i.workspace_id = uses_cost_book.workspace_id)
    );
end
$$;

-- Returns { workspace } or, with the frame, { workspace, others, creditNotice, usesCostBook }. Returns null if row-level
-- security does not show the workspace to the caller as a member. workspace is { id, name, planId, personal, createdAt,
-- role, isOwner, permissions }. personal tells whether it is the caller's own. others lists up to eight workspaces to
-- switch to.
create or replace function public.read_workspace(workspace_id uuid, with_frame boolean default false) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  workspace jsonb := (
    select jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'planId', w.plan_id,
      'personal', w.personal_user_id is not distinct from m.user_id,
      'createdAt', w.created_at,
      'role', r.name,
      'isOwner', r.is_owner,
      'permissions', r.permissions
    )
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.workspace_id = read_workspace.workspace_id and m.user_id = (select auth.uid())
  );
begin
  if workspace is null then
    return null;
  end if;
  if not with_frame then
    return jsonb_build_object('workspace', workspace);
  end if;
  return jsonb_build_object(
    'workspace', workspace,
    'others', (
      select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'name', o.name) order by o.place), '[]')
      from (
        select l.id, l.name, l.place
        from public.list_workspaces(null, 9) with ordinality as l (id, name, plan_id, personal, role, place)
        where l.id <> read_workspace.workspace_id
        order by l.place
        limit 8
      ) o
    ),
    'creditNotice', public.read_credit_notice(read_workspace.workspace_id),
    'usesCostBook', public.uses_cost_book(read_workspace.workspace_id)
  );
end
$$;

-- Returns a workspace's refused calls on all days that overlap a half-open window.
-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.refused_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.refused_daily
  language sql stable security invoker
as $$
  select r.*
  from ai.refused_daily r
  where r.workspace_id = workspace
    and r.day >= (window_from at time zone 'UTC')::date
    and r.day <= ((window_to - interval '1 microsecond') at time zone 'UTC')::date
$$;

-- Logs a change to a row that belongs to a workspace.
-- Definer, like the triggers below: the roles that change these rows have no grant to write the log.
create or replace function private.log_workspace_row() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  row_before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  row_after jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  subject_row jsonb := coalesce(row_after, row_before);
  verb text := case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'changed' else 'deleted' end;
begin
  if tg_table_name = 'workspaces' then
    if tg_op = 'INSERT' then
      perform private.log_workspace_change(new.id, 'workspace.created', new.id, new.name);
    elsif old.deleted_at is null and new.deleted_at is not null then
      perform private.log_workspace_change(new.id, 'workspace.deleted', new.id, old.name);
    elsif new.name is distinct from old.name or new.plan_id is distinct from old.plan_id then
      perform private.log_workspace_change(new.id, 'workspace.changed', new.id, new.name, jsonb_build_object(
        'before', jsonb_build_object('name', old.name, 'plan', old.plan_id),
        'after', jsonb_build_object('name', new.name, 'plan', new.plan_id)
      ));
    end if;
  elsif tg_table_name = 'workspace_members' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'member.' || case tg_op when 'INSERT' then 'joined' when 'UPDATE' then 'role_changed' else 'left' end,
      (subject_row ->> 'user_id')::uuid,
      (select p.display_name from public.profiles p where p.id = (subject_row ->> 'user_id')::uuid),
      jsonb_strip_nulls(jsonb_build_object(
        'before', (select r.name from public.workspace_roles r where r.id = (row_before ->> 'role_id')::uuid),
        'after', (select r.name from public.workspace_roles r where r.id = (row_after ->> 'role_id')::uuid)
      ))
    );
  elsif tg_table_name = 'workspace_roles' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid, 'role.' || verb, (subject_row ->> 'id')::uuid, subject_row ->> 'name',
      jsonb_strip_nulls(jsonb_build_object('before', row_before -> 'permissions', 'after', row_after -> 'permissions'))
        || case
          when row_before ->> 'member_budget_usd' is distinct from row_after ->> 'member_budget_usd' then jsonb_build_object(
            'budgetBefore', row_before ->> 'member_budget_usd', 'budgetAfter', row_after ->> 'member_budget_usd'
          )
          else '{}'
        end
    );
  elsif tg_table_name = 'workspace_invitations' then
    if tg_op = 'UPDATE' and new.accepted_at is null then
      return null;
    end if;
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'invitation.' || case tg_op when 'INSERT' then 'sent' when 'UPDATE' then 'accepted' else 'withdrawn' end,
      (subject_row ->> 'id')::uuid, subject_row ->> 'email'
    );
  end if;
  return null;
end
$$;

-- Returns a workspace's roles, each with its number of members. Stops counting at 1,001.
create or replace function public.list_workspace_roles(workspace_id uuid)
  returns table (
    id uuid,
    name text,
    is_owner boolean,
    permissions public.workspace_permission[],
    members bigint,
    member_budget_usd numeric
  )
  language sql stable security invoker set search_path = ''
as $$
  select
    r.id, r.name, r.is_owner, r.permissions,
    (
      select count(*)
      from (
        select from public.workspace_members m where m.workspace_id = r.workspace_id and m.role_id = r.id limit 1001
      ) as counted
    ),
    r.member_budget_usd
  from public.workspace_roles r
  where r.workspace_id = list_workspace_roles.workspace_id
$$;

-- Returns an account for the console's lists: { id, email, displayName, singleSignOn, consoleRole, policy, banned,
-- confirmed, deleted, authenticators, lastSignInAt, createdAt }. Until 0.5.0: servers of release 0.3.0 require admin.
create or replace function private.describe_account(account auth.users) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', account.id,
    'email', account.email,
    'displayName', p.display_name,
    'singleSignOn', account.is_sso_user,
    'consoleRole', private.console_role(account.id),
    'admin', private.is_infrastructure_admin(account.id),
    'policy', private.required_mfa_state(account.raw_app_meta_data),
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'deleted', account.deleted_at is not null,
    'authenticators', (
      select count(*) from auth.mfa_factors f where f.user_id = account.id and f.status = 'verified'
    ),
    'lastSignInAt', account.last_sign_in_at,
    'createdAt', coalesce(p.created_at, account.created_at)
  )
  from (values (account.id)) as a (id)
  left join public.profiles p on p.id = a.id
$$;

-- Returns an account for the console: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt,
-- bannedUntil, consoleRole, methods, factors, sessions, sessionCount, others }; null if the account doesn't
-- exist. methods comes from private.list_sign_in_methods. sessions contains the 50 sessions that were refreshed last,
-- and sessionCount counts up to 1,001. others contains apps, devices, agents and everything else that acts for the
-- account, as private.account_access lists it. Contains no secret. Until 0.5.0: servers of release 0.3.0 require
-- infrastructureAdmin.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
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
    'consoleRole', private.console_role(u.id),
    'infrastructureAdmin', private.is_infrastructure_admin(u.id),
    'methods', private.list_sign_in_methods(u.id),
    'factors', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id,
        'name', c.name,
        'type', c.record -> 'type',
        'verified', c.is_active,
        'createdAt', c.created_at,
        'lastUsedAt', c.last_used_at
      ) order by c.created_at, c.id), '[]')
      from private.account_credentials c
      where c.user_id = u.id and c.kind = 'authenticator'
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
    'sessionCount', private.count_account_sessions(u.id),
    'others', (
      select coalesce(jsonb_agg(w order by w ->> 'addedAt' desc, w ->> 'key'), '[]')
      from jsonb_array_elements(private.account_access(u.id, null, 0) -> 'ways') as w
      where w ->> 'kind' not in ('password', 'identity', 'passkey', 'authenticator')
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

-- Returns why an admin must not approve or decline a workspace's keys. Returns null if the admin may.
create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when not private.is_infrastructure_admin((change ->> 'actor')::uuid)
      then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when (workspace).personal_user_id = (change ->> 'actor')::uuid then jsonb_build_object('refused', 'oneself')
  end
$$;

-- Returns whether a session still belongs to an infrastructure admin and has passed a second factor. Takes the
-- session's verified claims. Does not check how long ago the second factor was passed, because each change checks that
-- before it begins. Not granted to any role, because it trusts the claims.
create or replace function private.can_read_console(claims jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.session_satisfies_mfa(claims) and exists (
    select
    from private.session_facts(claims) f
    where f.session_factor_verified and private.is_infrastructure_admin(f.user_id)
  )
$$;

-- Returns the providers that have a route or a limit, each with its limits, what is left in their buckets now and the
-- buckets' sizes. Every change of the limits changes the version.
create or replace function private.list_provider_limits(only_id text default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.provider_id,
    'requestsPerMinute', l.requests_per_minute,
    'tokensPerMinute', l.tokens_per_minute,
    'requests', case when l.requests_per_minute is not null then jsonb_build_object(
      'size', ai.bucket_size(l.requests_per_minute), 'left', ai.bucket_level(l.requests_full_at, l.requests_per_minute)
    ) end,
    'tokens', case when l.tokens_per_minute is not null then jsonb_build_object(
      'size', ai.bucket_size(l.tokens_per_minute), 'left', ai.bucket_level(l.tokens_full_at, l.tokens_per_minute)
    ) end,
    'version', private.provider_limit_version(l)
  ) order by p.provider_id), '[]')
  from (
    select r.provider_id from ai.model_routes r where only_id is null or r.provider_id = only_id
    union
    select o.provider_id from ai.provider_limits o where only_id is null or o.provider_id = only_id
  ) as p
  left join ai.provider_limits l using (provider_id)
$$;

-- Returns why a person or a satellite's session may not use a book, or null if they may. A workspace's book is for
-- members with the permission use_ai_studio, and the platform's for the console's roles admin and finance: { outcome:
-- not_allowed }. A session opens only workspaces' books: { refused } (private.studio_refusal). Not granted to any role.
create or replace function ai.book_refusal(member_id uuid, book uuid, token_hash bytea default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when token_hash is not null then (
      select jsonb_build_object('refused', s.reason)
      from private.studio_refusal(token_hash, book) as s (reason)
      where s.reason is not null
    )
    when book = ai.platform_book() and private.console_role(member_id) in ('admin', 'finance') then null
    when private.user_has_workspace_permission(member_id, book, 'use_ai_studio') then null
    else '{"outcome": "not_allowed"}'::jsonb
  end
$$;

-- Returns an import of a book: { outcome: read, provider, sha256, appName, import, current, services }, { outcome:
-- not_found } or ai.book_refusal. current summarizes the daily totals that the import wrote and that were not corrected
-- later, and services names what they consist of (ai.imported_services).
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_cost_import(member_id uuid, workspace uuid, import_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'provider', i.provider,
      'sha256', encode(i.file_sha256, 'hex'),
      'appName', ai.app_label(i.app_id),
      'import', ai.cost_import_summary(i.id),
      'current', (
        select jsonb_build_object(
          'days', count(*),
          'accounts', count(distinct c.account_id),
          'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text,
          'firstDay', min((c.occurred_at at time zone 'UTC')::date),
          'lastDay', max((c.occurred_at at time zone 'UTC')::date)
        )
        from ai.cost_book_entries c
        where c.book_id = workspace
          and c.app_id = i.app_id
          and c.provider = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
      ),
      'services', ai.imported_services(i)
    )
    from ai.cost_imports i
    where i.id = read_cost_import.import_id and i.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns one invoice of a book, with its recorder (ai.invoice_recorder), who attached its document
-- (ai.document_attacher), and its comparison (ai.invoice_comparison): { outcome: read, invoice, recorded, attachedBy,
-- comparison }, { outcome: not_found } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_provider_invoice(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'invoice', ai.invoice_summary(i),
      'recorded', ai.invoice_recorder(i),
      'attachedBy', ai.document_attacher(i),
      'comparison', ai.invoice_comparison(workspace, ai.invoice_summary(i), i.id)
    )
    from ai.invoice_book_entries i
    where i.id = invoice_id and i.book_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns the closed months that a person's invoice would change: those of its days, and of the days of the invoice that
-- it replaces. Returns none for a recorded invoice, because nothing is stored. Not granted to any role.
create or replace function ai.months_closed_to_invoice(book uuid, app uuid, record jsonb) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select distinct m.month
    from (
      select ai.invoice_days(r.period_start, r.period_end, r.issued_on) as days from ai.invoice_of(record) r
      union all
      select ai.invoice_days((i).period_start, (i).period_end, (i).issued_on)
      from ai.find_invoice(book, app, record, record ->> 'replaces') i
      where (i).id is not null
    ) d
    cross join lateral unnest(ai.closed_months(book, lower(d.days), upper(d.days) - 1)) as m (month)
    where (ai.find_invoice(book, app, record, record ->> 'reference')).id is null
    order by m.month
  )
$$;

-- Returns the share of an invoice that belongs to a month (YYYY-MM), with the first and last day of that share: {
-- inMonth: { amountUsd, netAmount, taxAmount, firstDay, lastDay } }. The net amount and the tax are in the invoice's
-- currency, and null if it has none. The invoice's days must overlap the month. The amounts of a credit note are
-- negative. Returns null if the month is null. Not granted to any role.
create or replace function ai.invoice_share(invoice ai.invoice_book_entries, month text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'inMonth', jsonb_build_object(
      'amountUsd', trim_scale(ai.invoice_amount(invoice, d.days))::text,
      'netAmount', trim_scale(ai.invoice_part(invoice, (invoice).net_amount, d.days))::text,
      'taxAmount', trim_scale(ai.invoice_part(invoice, (invoice).tax_amount, d.days))::text,
      'firstDay', lower(d.days),
      'lastDay', upper(d.days) - 1
    )
  )
  from (
    select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) * ai.month_days(month) as days
  ) d
  where month is not null
$$;

-- Returns the amount in USD that an invoice adds to totals, for all of its days or only for those within a range. The
-- amount of a credit note is negative.
create or replace function ai.invoice_amount(invoice ai.invoice_book_entries, within daterange default null) returns numeric
  language sql immutable security invoker set search_path = ''
as $$
  select ai.invoice_part(invoice, (invoice).amount_usd, within)
$$;

-- Returns the calls of a day to ask OpenRouter about, those never asked first: { outcome: listed, calls: [{ runId,
-- generationId }], remaining } or ai.statement_refusal. These are calls without a known cost or, with asked_before, all
-- calls without an answer since then. remaining is how many the limit leaves out.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_unmatched_generations(
  member_id uuid, workspace uuid, of_day date, asked_before timestamptz, max_calls integer
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.statement_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'listed',
      'calls', coalesce(jsonb_agg(jsonb_build_object('runId', c.run_id, 'generationId', c.generation_id) order by c.place)
        filter (where c.place <= max_calls), '[]'),
      'remaining', count(*) filter (where c.place > max_calls)
    )
    from (
      select c.run_id, c.generation_id,
        row_number() over (order by g.observed_at nulls first, c.created_at, c.generation_id) as place
      from ai.generation_calls(of_day) c
      left join ai.generation_costs g on g.run_id = c.run_id and g.generation_id = c.generation_id
      where c.generation_id is not null
        and (g.observed_at is null or case when asked_before is null then g.cost_usd is null else g.observed_at < asked_before end)
    ) c
  ))
$$;

-- Returns a page of a book's statements, the latest month first, and whether a month is closed: { outcome: listed,
-- isClosed, records } or ai.book_refusal. after is the month and the version of the last statement of the page before.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_statements(
  member_id uuid, workspace uuid, of_month text, after text[] default null, page_size integer default 13
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.statement_refusal(member_id, workspace), jsonb_build_object(
    'outcome', 'listed',
    'isClosed', ai.closed_months(workspace, lower(ai.month_days(of_month)), lower(ai.month_days(of_month))) <> '{}',
    'records', (
      select coalesce(jsonb_agg(ai.statement_summary(s) order by s.month desc, s.version desc), '[]')
      from (
        select *
        from ai.book_statements t
        where t.book_id = workspace
          and (after is null or (t.month, t.version) < ((after[1] || '-01')::date, after[2]::integer))
        order by t.month desc, t.version desc
        limit page_size
      ) s
    )
  ))
$$;

-- Returns what a caller lacks whose credential is refused as insufficient_scope or app_not_allowed: scopes, an address,
-- a permission, the app's link to the workspace or the person's membership.
create or replace function ai.missing_right(caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object('missing', case
    when (caller).refused = 'app_not_allowed' then jsonb_build_object('kind', case
      when ai.app_can_act_in_workspace((caller).app_id, (caller).workspace_id) then 'membership'
      else 'app_link'
    end)
    when (caller).source = 'session' then jsonb '{"kind": "permission", "permission": "use_ai_studio"}'
    when (caller).source = 'app_token' then ai.missing_scopes(caller, '{workspace:session,ai:use}')
    when (caller).app_id is not null and not 'workspace:session' = any ((caller).scopes)
      then ai.missing_scopes(caller, '{workspace:session}')
    else jsonb '{"kind": "address"}'
  end)
$$;

-- Returns the budgets that can refuse a caller's calls, narrowest and shortest first. Leaves out the amounts if the
-- workspace hides provider cost. resetsAt is null if the budget never resets.
create or replace function ai.remaining_budgets(caller ai.caller, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'window', b.period,
        'timeZone', b.time_zone,
        'limitUsd', trim_scale(b.limit_usd),
        'spentUsd', case when cost_visible then trim_scale(b.spent_usd) end,
        'reservedUsd', case when cost_visible then trim_scale(b.reserved_usd) end,
        'remainingUsd', case when cost_visible then
          trim_scale(greatest(b.limit_usd - b.spent_usd - b.reserved_usd, 0))
        end,
        'resetsAt', ai.utc_text(nullif(b.ends_at, 'infinity'))
      )
      order by array_position(array['key', 'app', 'member', 'label', 'workspace'], b.scope),
        array_position(array['day', 'week', 'month', 'total'], b.period)
    ),
    '[]'
  )
  from ai.caller_budgets(caller) as b
  where b.limit_usd is not null
$$;

-- Returns the limits of concurrent calls that can refuse a caller's calls, narrowest first, and the calls in progress.
create or replace function ai.remaining_concurrent_calls(caller ai.caller) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'limit', b.max_calls,
        'remaining', greatest(b.max_calls - b.calls, 0)
      )
      order by array_position(array['key', 'member', 'workspace'], b.scope)
    ),
    '[]'
  )
  from ai.caller_budgets(caller) as b
  where b.period = 'concurrent' and b.max_calls is not null
$$;

-- Returns the reason why a call is refused before its limits are checked, or null.
create or replace function ai.price_refusal(
  request ai.run_request, caller ai.caller, model ai.models, routes jsonb, cost_usd numeric, audio_tokens bigint,
  input_tokens bigint, tokens bigint, model_tokens_per_minute bigint
) returns jsonb
  language sql stable security invoker
as $$
  select coalesce(
    ai.call_refusal(caller, (request).kind),
    case
      when (caller).plan_id is null then ai.refusal('service_unavailable')
      when (request).entity_id <> (caller).entity_id then ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}')
      when (model).id is null then ai.refusal('model_not_found')
      when not coalesce((request).voice = any ((model).voices), (request).voice is null)
        then ai.refusal('invalid_request', '{"param": "voice"}')
      when (request).kind = 'chat' and (request).output_limit > (model).output_limit
        and (request).output_limit_assumed is not true
        then ai.refusal('invalid_request', jsonb_build_object('model_output_limit', (model).output_limit))
      when routes is null then ai.route_refusal((model).id, request, (caller).allowed_regions)
      when (audio_tokens > 0 or (request).audio) and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.audio_input))')
        then ai.refusal('unsupported_parameter', '{"param": "messages"}')
      when (request).fee_requests > 0 and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.request_fee))')
        then ai.refusal('unsupported_parameter', '{"param": "tools"}')
      when not ai.is_tier_priced(routes, (request).service_tier)
        then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
      when cost_usd is null then ai.refusal('service_unavailable')
      when tokens > least((caller).key_tokens_per_minute, model_tokens_per_minute, (caller).workspace_tokens_per_minute)
        then ai.token_limit_refusal(caller, model_tokens_per_minute, input_tokens, tokens)
    end
  )
$$;

-- Returns whether change.actor may change apps. The actor must be an infrastructure admin, or null for the command
-- line.
create or replace function private.may_change_apps(change jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select change ->> 'actor' is null
    or private.is_infrastructure_admin((change ->> 'actor')::uuid)
$$;

-- Returns the result of device_state, with the active account's encrypted session added. Returns null for an unknown
-- device.
create or replace function private.open_account_device(device_id uuid, secret text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select state.device || jsonb_build_object(
    'vault', (
      select private.vault_entry_view(e)
      from private.account_vault_entries e
      where e.device_id = open_account_device.device_id
        and e.user_id = (state.device #>> '{active,userId}')::uuid
        and e.sealed is not null
    )
  )
  from (select private.device_state(open_account_device.device_id, open_account_device.secret)) as state (device)
$$;

-- Queues one email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so
-- that concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or
-- the crossing no longer applies.
-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_budget_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.budget_alerts a
    set posted_at = now()
    where a.scope = alert ->> 'scope'
      and a.subject_id = (alert ->> 'subjectId')::uuid
      and a.workspace_id = (alert ->> 'workspaceId')::uuid
      -- Until 0.5.0: alerts that a server of 0.3.0 read before the upgrade have no period.
      and a.period = coalesce(alert ->> 'period', 'month')
      and a.month = (alert ->> 'month')::date
      and a.threshold = (alert ->> 'threshold')::smallint
      and a.limit_usd = (alert ->> 'limitUsd')::numeric
      and a.posted_at is null
    returning a.scope, a.subject_id, a.workspace_id
  ), queued as (
    -- Makes the email due immediately. By default, an email becomes due after a minute.
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_budget_alert_mails.subject, queue_budget_alert_mails.body, now()
    from marked p
    cross join lateral ai.alert_recipients(p.scope, p.subject_id, p.workspace_id) as r (email)
    returning id
  )
  select count(*)::integer from queued
$$;

-- Returns the highest of a budget's thresholds, in percent, that its spend has reached, or 0. Percentages are not
-- rounded. A budget that refuses calls also counts as 100 percent, even if a remainder too small for another call is
-- left. An envelope has only the threshold of 100 percent, which it reaches when it has refused a call.
create or replace function ai.budget_threshold(budget ai.budgets) returns smallint
  language sql stable security invoker
as $$
  select case
    when budget.scope = 'envelope' then case when ai.envelope_refuses_calls(budget) then 100 else 0 end
    else (
      select coalesce(max(t.threshold), 0)
      from unnest(budget.thresholds) as t (threshold)
      where budget.spent_usd * 100 >= budget.limit_usd * t.threshold
        or t.threshold = 100 and ai.budget_refuses_calls(budget)
    )
  end::smallint
$$;

-- Returns the name of the key whose calls an envelope holds, or of the person.
create or replace function ai.envelope_owner_name(envelope uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when e.key_lineage_id is null then (select p.display_name from public.profiles p where p.id = e.actor_id)
    else ai.latest_key_name(e.key_lineage_id, e.workspace_id)
  end
  from ai.envelopes e
  where e.id = envelope
$$;

-- Returns an envelope's name for lists and the activity: its label, else the name of the key or person.
create or replace function ai.envelope_name(envelope ai.envelopes) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(nullif((envelope).label, ''), ai.principal_of_envelope(envelope) ->> 'name')
$$;

-- Returns the details of a workspace's keys, newest first. With nested, each has the details of its replaced keys.
create or replace function ai.key_summaries(workspace uuid, listed ai.keys[], nested boolean default false) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    ai.key_summary(k, c.cost_usd) || case when nested then jsonb_build_object('replaced', ai.replaced_keys(k)) else '{}' end
    order by k.created_at desc, k.id desc
  ), '[]')
  from unnest(listed) as k
  left join (
    select u.key_lineage_id, sum(u.cost_usd) as cost_usd
    from ai.usage_between(workspace, date_trunc('month', now(), 'UTC'), 'infinity') u
    where u.key_lineage_id in (select l.lineage_id from unnest(listed) as l)
    group by u.key_lineage_id
  ) c on c.key_lineage_id = k.lineage_id
$$;

-- Returns a text that differs after each change of a key's settings or monthly budget, so that a change made from an older
-- state can be refused.
create or replace function ai.key_version(key ai.keys) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(ai.key_settings(key)::text || coalesce(ai.key_budget(key)::text, ''))
$$;

-- Returns a range's sums (the argument of ai.overview_sums), grouped by ai.usage_key or by label. The row with a null key
-- covers the whole range. Rows of labels have neither histograms nor refused calls.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer
) returns table (key text, sums numeric[], cost_usd numeric, billed_credits numeric, requests numeric)
  language sql stable security invoker
as $$
  select
    u.key,
    array[
      sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd), sum(u.billed_credits),
      sum(u.unmetered_credits), sum(u.latency_ms), sum(u.timed), sum(u.latency_marks), sum(u.first_token_marks),
      coalesce(sum(u.refused), 0)
    ],
    sum(u.cost_usd), sum(u.billed_credits), sum(u.requests)
  from (
    select
      ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.requests, p.failed,
      p.input_tokens, p.output_tokens, p.cost_usd, p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed,
      p.latency_marks, p.first_token_marks, 0 as refused
    from ai.usage_between(workspace, window_from, window_to, grouped_by = 'member') p
    union all
    select
      ai.refused_key(r, grouped_by, (window_from at time zone 'UTC')::date, days_each), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      r.refused
    from ai.refused_between(workspace, window_from, window_to) r
  ) u
  group by grouping sets ((u.key), ())
  -- For labels, keeps only the row for the whole range. The rows of labels come from ai.label_usage_between.
  having u.key is null or (grouped_by <> 'label' and (sum(u.requests) > 0 or sum(u.refused) > 0))
  union all
  select
    b.label,
    array[
      sum(b.requests), sum(b.failed), sum(b.input_tokens), sum(b.output_tokens), sum(b.cost_usd), sum(b.billed_credits),
      sum(b.unmetered_credits), sum(b.latency_ms), sum(b.timed)
    ],
    sum(b.cost_usd), sum(b.billed_credits), sum(b.requests)
  from ai.label_usage_between(workspace, window_from, window_to) b
  where grouped_by = 'label'
  group by b.label
  having sum(b.requests) > 0
$$;

-- Formats the quantiles of a histogram of durations, with their sum, and of one of times to the first token.
create or replace function ai.latency_summary(latency_marks numeric, first_token_marks numeric, latency_ms numeric)
  returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
  )
  from ai.latency_quantiles(latency_marks, latency_ms) as l
  cross join ai.latency_quantiles(first_token_marks) as f
$$;

-- Returns { page, filters, refused }: a page of runs, the values to filter them by, and a page of refused calls. The
-- status refused lists only these, and a request id without a status lists both. Otherwise refused is null.
create or replace function ai.read_runs_page(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'page', case when filter ->> 'status' = 'refused' then '{"outcome": "listed", "runs": []}'
      else ai.list_runs(member_id, workspace, filter, before, page_size, scan_limit, sort) end,
    'filters', ai.list_run_filters(member_id, workspace),
    'refused', case when coalesce(filter ->> 'status' = 'refused', filter ? 'requestId' and before is null)
      then ai.list_refused_calls(member_id, workspace, filter, before, page_size, scan_limit) end
  )
$$;

-- Returns the details of a refused call that a reader may see. Only members see their own balance, also when they pay
-- for the calls of a key. The fitting output limit would tell it, too. What a key's budget has left, and the address
-- from which a key was used, are for those who see the budgets of keys.
create or replace function ai.visible_details(call ai.refused_calls, reader jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when r.reached @> '{"kind": "balance", "payer": "member"}' and (call).actor_id::text is distinct from reader ->> 'memberId'
      then r.details - '{need,fitting_output_limit}'::text[] || jsonb_build_object(
        'limit', r.reached - '{balance_credits,reserved_credits,remaining_credits}'::text[]
      )
    when (reader ->> 'keysVisible')::boolean then r.details
    when r.reached @> '{"kind": "budget", "scope": "key"}' then ai.without_amounts(r.details) - 'fitting_output_limit'
    when r.details @> '{"missing": {"kind": "address"}}' then null
    else r.details
  end
  from (
    select d.details, d.details -> 'limit' as reached
    from (
      select case when (reader ->> 'costVisible')::boolean then (call).details else ai.without_amounts((call).details) end
    ) as d (details)
  ) as r
$$;

-- Returns the run with this id, in any workspace. Returns a row of nulls if the run does not exist.
create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql stable security invoker set search_path = ''
as $$
  select r
  from ai.runs r, ai.time_of_id(run_id) as run_time
  where r.id = run_id and r.created_at >= run_time - interval '1 second' and r.created_at < run_time + interval '1 second'
$$;

-- Returns the details of a run: { run, modelKind, steps, attempts, ledger, answeredBy, envelopeId, budgets }. run is the
-- summary. modelKind is null if the model is no longer in the catalogue. attempts are the
-- requests to providers. ledger contains the ledger entries, with charged credits as positive amounts. answeredBy is
-- the route that answered, with its prices at that time. attempts and answeredBy are null if provider cost is hidden.
create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible) || ai.run_pricing_facts(run, cost_visible),
    'modelKind', (select m.kind from ai.models m where m.id = (run).model_id),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'step', s.step, 'type', s.type, 'name', s.name, 'status', s.status, 'latencyMs', s.latency_ms
      ) order by s.step), '[]')
      from jsonb_to_recordset((run).steps) as s (step smallint, type text, name text, status text, latency_ms integer)
    ),
    'attempts', case when cost_visible then (
      select coalesce(jsonb_agg(jsonb_build_object(
        'route', a.route,
        'provider', a.provider,
        'model', a.model,
        'region', jsonb_path_query_first(
          (run).routes, '$[*] ? (@.position == $position).region', jsonb_build_object('position', a.route)
        ),
        'status', a.status,
        'failure', a.failure,
        'upstreamRequestId', a.upstream_request_id,
        'mayHaveCharged', coalesce(a.may_have_charged, false),
        'latencyMs', a.latency_ms
      ) order by a.position), '[]')
      from rows from (jsonb_to_recordset((run).attempts) as (
        route smallint, provider text, model text, status smallint, failure text, upstream_request_id text,
        may_have_charged boolean, latency_ms integer
      )) with ordinality as a (
        route, provider, model, status, failure, upstream_request_id, may_have_charged, latency_ms, position
      )
    ) end,
    'ledger', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', l.kind, 'credits', trim_scale(-l.amount)::text, 'createdAt', l.created_at
      ) order by l.id), '[]')
      from ai.credit_ledger l
      where l.run_id = (run).id
    ),
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end,
    'envelopeId', (run).envelope_id,
    'budgets', ai.run_budgets(run, cost_visible)
  )
$$;

-- Returns { models, failing, health, skipped, limits, usage } for the page about providers. models is the page after the given
-- model, and usage covers the days.
create or replace function private.read_providers_page(after text[], page_size integer, first_day date, last_day date)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'models', private.list_provider_routes(after, page_size),
    'failing', private.list_failing_models(),
    'health', private.list_provider_health(),
    'skipped', private.list_skipped_routes(),
    'limits', private.list_provider_limits(),
    'usage', private.list_provider_usage(first_day, last_day)
  )
$$;

-- Returns the refusal of a caller whose credential may not be used, with what the caller lacks.
create or replace function ai.credential_refusal(caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select ai.refusal((caller).refused, case
    when (caller).refused in ('insufficient_scope', 'app_not_allowed') then ai.missing_right(caller)
  end)
$$;

-- Returns the name of the key, app, member, label or workspace that a budget limits. An envelope has the name of its
-- label, or else of its owner.
create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case scope
    when 'key' then ai.latest_key_name(subject, workspace)
    when 'app' then ai.app_label(subject)
    when 'envelope' then coalesce(
      (select nullif(e.label, '') from ai.envelopes e where e.id = subject), ai.envelope_owner_name(subject)
    )
    when 'member' then (select p.display_name from public.profiles p where p.id = subject)
    when 'label' then (
      select b.label from ai.budgets b
      where b.scope = 'label' and b.subject_id = subject and b.workspace_id = workspace
      limit 1
    )
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;

-- Returns a key's details without its secret, which is stored only as a hash. Amounts are exact text. spentThisMonthUsd is
-- for the current UTC month. budget is the key's monthly budget. Spend includes the keys that this key replaced. A replaced key has no spend of its own, so that a sum
-- over keys counts each amount once. For an agent's key, the last use is the latest use of any key of the agent.
create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.key_settings(key) || jsonb_build_object(
    'id', (key).id,
    'lineageId', (key).lineage_id,
    'version', ai.key_version(key),
    'prefix', 'ttr_ai_' || (key).lookup,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', case
      when (key).connection_id is null then (key).last_used_at
      else (select max(k.last_used_at) from ai.keys k where k.connection_id = (key).connection_id)
    end,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).connection_id is not null
        then case when ai.agent_of_key(key) ->> 'status' = 'good' then 'active' else 'expired' end
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'entityId', (key).entity_id,
    'spentThisMonthUsd', case
      when (key).replaced_by is null and ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text
    end,
    'agent', ai.agent_of_key(key),
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select ai.budget_summary(b, (key).replaced_by is null and ai.cost_visible(b.workspace_id))
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.period = 'month' and b.limit_usd is not null
    )
  )
$$;

-- Formats sums of ai.usage_by_key for display, with latency quantiles. Returns null for null. Called only for displayed
-- rows, because a day may have thousands of labels.
-- Has no `set` clause and no subselect, so that Postgres can inline it into its callers' plans.
create or replace function ai.overview_sums(sums numeric[], cost_visible boolean) returns jsonb
  language sql immutable security invoker
as $$
  select case when sums is not null then
    ai.usage_sums(
      sums[1], sums[2], sums[3], sums[4], case when cost_visible then coalesce(sums[5], 0) end, sums[6], sums[7], sums[8],
      sums[9]
    ) || jsonb_build_object('refused', sums[12]) || case
      when sums[10] > 0 then ai.latency_summary(sums[10], sums[11], sums[8])
      else '{"latencyP50Ms": null, "latencyP95Ms": null, "firstTokenP50Ms": null, "firstTokenP95Ms": null}'
    end
  end
$$;

-- Returns a refused call for its workspace's members. reader is what ai.refusal_reader returns.
create or replace function ai.refused_call_summary(call ai.refused_calls, reader jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (call).id,
    'requestId', (call).request_id,
    'createdAt', (call).created_at,
    'model', (call).model_id,
    'endpoint', (call).endpoint,
    'feature', (call).feature,
    'entityId', (call).entity_id,
    'credentialSource', (call).credential_source,
    'keyId', (call).key_id,
    'keyName', (select k.name from ai.keys k where k.id = (call).key_id),
    'appId', (call).app_id,
    'appName', (select a.display_name from private.apps a where a.id = (call).app_id),
    'memberId', (call).actor_id,
    'memberName', (select p.display_name from public.profiles p where p.id = (call).actor_id),
    'streamed', (call).streamed,
    'httpStatus', (call).http_status,
    'errorCode', (call).error_code,
    'param', (call).param,
    'details', ai.visible_details(call, reader)
  )
$$;

-- Returns the refusal of a caller that may not make calls, otherwise null. If a kind is given, also checks that the
-- caller may make calls of that kind.
create or replace function ai.call_refusal(caller ai.caller, kind text default null) returns jsonb
  language sql stable security invoker
as $$
  select case
    when (caller).source is null then ai.refusal('invalid_api_key')
    when (caller).refused is not null then ai.credential_refusal(caller)
    when (caller).app_id is not null and not 'ai:use' = any ((caller).scopes)
      or kind is not null and (
        (caller).app_id is not null and kind = 'speech' and not 'tts:use' = any ((caller).scopes)
        or (caller).payer = 'member' and not (caller).actor_is_member
      ) then ai.refusal('insufficient_scope', jsonb_build_object('missing', case
        when (caller).app_id is not null and not 'ai:use' = any ((caller).scopes) then ai.missing_scopes(caller, '{ai:use}')
        when (caller).app_id is not null and kind = 'speech' and not 'tts:use' = any ((caller).scopes)
          then ai.missing_scopes(caller, '{tts:use}')
        else jsonb '{"kind": "membership"}'
      end))
  end
$$;

-- Returns a refused call of a workspace for a member with use_ai_studio, or null.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_refused_call(member_id uuid, workspace uuid, call_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.refused_call_summary(c, ai.refusal_reader(member_id, workspace))
  from ai.refused_calls c, ai.time_of_id(call_id) as call_time
  where c.id = call_id
    and c.created_at >= call_time - interval '1 second'
    and c.created_at < call_time + interval '1 second'
    and c.workspace_id = workspace
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;

-- Returns { run, content, refused }: a run, its neighbours in the list with this filter and order, and whether its content
-- is stored. If no run has the id, refused is the refused call that has it.
create or replace function ai.read_run_page(
  member_id uuid, workspace uuid, run_id uuid, filter jsonb default '{}', sort text default 'time',
  scan_limit integer default 10000
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.read_run(member_id, workspace, run_id, filter, sort, scan_limit),
    'content', ai.describe_run_content(member_id, workspace, run_id),
    'refused', ai.read_refused_call(member_id, workspace, run_id)
  )
$$;

create or replace trigger reject_wrong_cost_services after insert or update on ai.cost_services
  for each row execute function ai.reject_wrong_cost_services();

-- Applies to every role, including the table's owner.
create or replace trigger reject_document_change before update or delete on ai.invoice_documents
  for each row execute function ai.reject_invoice_change();

-- Prevents every role, including the table's owner, from truncating the table.
create or replace trigger reject_document_truncate before truncate on ai.invoice_documents
  for each statement execute function ai.reject_invoice_change();

-- Applies to every role, including the table's owner.
create or replace trigger reject_statement_change before update or delete on ai.book_statements
  for each row execute function ai.reject_statement_change();

-- Rejects TRUNCATE for every role, including the table's owner.
create or replace trigger reject_statement_truncate before truncate on ai.book_statements
  for each statement execute function ai.reject_statement_change();

create or replace trigger start_member_budget after insert or update of role_id on public.workspace_members
  for each row execute function private.start_member_budget();

grant execute on function ai.attach_invoice_document(uuid, uuid, uuid, text, text, jsonb) to service_role;

grant execute on function ai.bucket_level(timestamp with time zone, bigint) to service_role;

grant execute on function ai.bucket_size(bigint) to service_role;

grant execute on function ai.change_budget(uuid, uuid, text, uuid, text, text, text, text, text, smallint[], bigint, text, smallint[], bigint, boolean, boolean) to service_role;

grant execute on function ai.change_envelope(uuid, uuid, uuid, jsonb, text, boolean) to service_role;

grant execute on function ai.change_key(uuid, uuid, uuid, jsonb, text) to service_role;

grant execute on function ai.close_month(uuid, uuid, text, text, jsonb, jsonb) to service_role;

grant execute on function ai.find_import_rate(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function ai.list_cost_services(uuid, uuid, uuid[]) to service_role;

grant execute on function ai.list_envelopes(uuid, uuid, text[], jsonb, integer, boolean) to service_role;

grant execute on function ai.list_keys(uuid, uuid, jsonb, integer, boolean) to service_role;

grant execute on function ai.list_refused_calls(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.list_run_rows(uuid, uuid, jsonb, jsonb, integer, integer, text) to service_role;

grant execute on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer, text) to service_role;

grant execute on function ai.list_statements(uuid, uuid, text, text[], integer) to service_role;

grant execute on function ai.list_unmatched_generations(uuid, uuid, date, timestamp with time zone, integer) to service_role;

grant execute on function ai.microseconds_until(timestamp with time zone, timestamp with time zone) to service_role;

grant execute on function ai.open_envelope_for_member(uuid, uuid, uuid, text, jsonb) to service_role;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[], boolean) to service_role;

grant execute on function ai.read_close_checklist(uuid, uuid, text) to service_role;

grant execute on function ai.read_credit_statement(uuid, uuid, text) to service_role;

grant execute on function ai.read_envelope(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_envelopes(jsonb) to gateway;

grant execute on function ai.read_envelopes_page(uuid, uuid, text[], jsonb, jsonb, integer, boolean) to service_role;

grant execute on function ai.read_generation_costs(uuid, uuid, date, integer, integer) to service_role;

grant execute on function ai.read_invoice_document(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_keys_page(uuid, uuid, jsonb, integer, boolean) to service_role;

grant execute on function ai.read_own_envelope(jsonb) to gateway;

grant execute on function ai.read_refused_call(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_run(uuid, uuid, uuid, jsonb, text, integer) to service_role;

grant execute on function ai.read_run_page(uuid, uuid, uuid, jsonb, text, integer) to service_role;

grant execute on function ai.read_runs_page(uuid, uuid, jsonb, jsonb, integer, integer, text) to service_role;

grant execute on function ai.read_statement(uuid, uuid, uuid, boolean) to service_role;

grant execute on function ai.read_workspace_home(uuid, uuid, timestamp with time zone, timestamp with time zone, timestamp with time zone, timestamp with time zone, integer, integer, integer, text[], boolean) to service_role;

grant execute on function ai.record_refused_calls(jsonb) to gateway;

grant execute on function ai.reopen_month(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function ai.store_generation_costs(uuid, uuid, date, jsonb, jsonb) to service_role;

grant execute on function ai.sweep_budget_alerts(integer, boolean) to service_role;

grant execute on function ai.take_provider_calls(jsonb) to gateway;

grant execute on function ai.time_of_id(uuid) to service_role;

grant execute on function private.claim_cost_import(text) to service_role;

grant execute on function private.compare_usage_hours(uuid, text, date, timestamp with time zone, text, integer, integer) to service_role;

grant execute on function private.confirm_missed_days(jsonb) to service_role;

grant execute on function private.connect_agent(bytea, uuid, text, text, jsonb, jsonb) to service_role;

grant execute on function private.console_role(uuid) to service_role;

grant execute on function private.finish_cost_import(text, uuid, text, boolean, integer) to service_role;

grant execute on function private.is_infrastructure_admin(uuid) to service_role;

grant execute on function private.list_console_people() to service_role;

grant execute on function private.list_provider_limits(text) to service_role;

grant execute on function private.mark_gateway_key(text, text, boolean, jsonb) to service_role;

grant execute on function private.name_new_account(uuid, text) to service_role;

grant execute on function private.provider_limit_version(ai.provider_limits) to service_role;

grant execute on function private.read_cost_importers() to service_role;

grant execute on function private.request_cost_import(jsonb) to service_role;

grant execute on function private.save_provider_limit(jsonb) to service_role;

grant execute on function private.set_console_role(text, text, text) to service_role;

grant execute on function private.sign_in_with_recovery_code(jsonb) to service_role;

grant execute on function private.store_imported_costs(text, uuid, date, date, jsonb) to service_role;

grant execute on function private.store_usage_hours(text, date, jsonb, jsonb) to service_role;

grant execute on function private.vault_entry_view(private.account_vault_entries) to service_role;

grant execute on function public.list_workspace_roles(uuid) to authenticated;

grant execute on function public.uses_cost_book(uuid) to authenticated;

notify pgrst, 'reload schema';
