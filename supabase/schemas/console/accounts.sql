-- Functions for the console's pages about accounts. Only our server calls them, on behalf of an infrastructure admin.

-- Returns the accounts whose id or full email equals the search term. If there are none, returns the accounts whose
-- email or name contains the term. Each account is returned as [private.describe_account].
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_accounts(term text, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_ids uuid[] := array(select private.find_accounts_exactly(term) limit page_size);
begin
  if found_ids = '{}' then
    found_ids := array(select private.find_accounts_matching(term, page_size));
  end if;
  return (
    select coalesce(jsonb_agg(private.describe_account(u) order by u.email, u.id), '[]')
    from auth.users u
    where u.id = any (found_ids)
  );
end
$$;

-- Returns a page of all accounts, newest first, including deleted ones, as [private.describe_account]. before is {
-- createdAt, id } of the last account on the previous page.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_accounts(before jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read all accounts.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(private.describe_account(u) order by l.created_at desc, l.id desc), '[]')
    from (
      select p.id, p.created_at
      from public.profiles p
      where (p.created_at, p.id) < (last_at, last_id)
      order by p.created_at desc, p.id desc
      limit page_size
    ) l
    join auth.users u on u.id = l.id
  );
end
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

-- Returns the accounts with the given id or full email. Every lookup uses an index. Several accounts may have the same
-- email, because single sign-on creates separate accounts.
create or replace function private.find_accounts_exactly(term text) returns setof uuid
  language sql stable security invoker set search_path = ''
as $$
  select a.id from auth.users a where a.id = private.uuid_or_null(term) and a.deleted_at is null
  union
  -- The backend stores each address only once and in lower case, except for those from single sign-on.
  select a.id from auth.users a where a.email = lower(term) and not a.is_sso_user and a.deleted_at is null
  union
  -- Uses the backend's index on (instance_id, lower(email)). There is only one instance.
  select a.id
  from auth.users a
  where a.instance_id = '00000000-0000-0000-0000-000000000000' and lower(a.email) = lower(term) and a.is_sso_user
    and a.deleted_at is null
$$;

-- Returns the accounts whose email or name contains the term, sorted by email. A search for one or two characters may
-- read all rows, because such a term has no trigram.
create or replace function private.find_accounts_matching(term text, most integer) returns setof uuid
  language plpgsql stable security invoker set search_path = ''
  -- The best index depends on the term. If many accounts match, it is the index of emails; if few match, the trigram
  -- index.
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

-- Returns a pattern for `like` that matches lower-case text containing the term. Escapes special characters in the
-- term.
create or replace function private.containing(term text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select '%' || regexp_replace(lower(term), '([%_\\])', '\\\1', 'g') || '%'
$$;

-- Returns an account for the console: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt,
-- bannedUntil, deletion, consoleRole, methods, factors, sessions, sessionCount, others }; null if the account doesn't
-- exist. deletion is { dueAt, reason, blockers } if its deletion is scheduled. methods comes from
-- private.list_sign_in_methods. sessions contains the 50 sessions that were refreshed last, and sessionCount counts up to
-- 1,001. others contains apps, devices, agents and everything else that acts for the account, as private.account_access
-- lists it. Contains no secret. Until 0.5.0: servers of release 0.3.0 require infrastructureAdmin.
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
    'deletion', (
      select jsonb_build_object('dueAt', d.due_at, 'reason', d.reason, 'blockers', coalesce(d.last_blockers, '[]'))
      from private.account_deletions d
      where d.user_id = u.id
    ),
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

-- Signs an account out of every device and app and notifies the account's owner. Takes { actor or serviceAccount,
-- subject, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself | protected (a service
-- account changes no account with a role in the console) }. Idempotent.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  sessions bigint;
  ended_count integer;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
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

-- Returns a page of what an account's owner did and what admins did to the account, newest first: [{ id, source: event
-- | audit, kind, method, device, ip, reason, actorEmail, requestId, createdAt }]. before is { createdAt, id } of the
-- last entry on the previous page.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_timeline(subject_id uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the account's entire history.
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
      'actorEmail', coalesce(
        (select a.email from auth.users a where a.id = t.actor_id),
        private.service_account_label(t.service_account_name)
      ),
      'requestId', t.request_id,
      'createdAt', t.created_at
    ) order by t.created_at desc, t.id desc), '[]')
    from (
      (
        select e.id, 'event' as source, e.kind, e.method, e.device, e.ip, null as reason, null::uuid as actor_id,
          null as service_account_name, null as request_id, e.created_at
        from public.security_events e
        where e.user_id = subject_id and (e.created_at, e.id) < (last_at, last_id)
        order by e.created_at desc, e.id desc
        limit page_size
      )
      union all
      (
        select l.id, 'audit', l.action, null, null, l.ip, l.reason, l.actor_id, l.service_account_name, l.request_id,
          l.created_at
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
