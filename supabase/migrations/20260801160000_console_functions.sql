-- Functions of the console and of operations.

-- schemas/console/admins.sql

-- Definer: accounts are the identity backend's, which the service role cannot read.
create or replace function private.set_infrastructure_admin(account_email text, admin boolean, reason text) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
begin
  select * into account
  from auth.users u
  where lower(u.email) = lower(account_email) and u.deleted_at is null and not u.is_sso_user;
  if not found then
    return 'no_account';
  end if;
  if admin then
    insert into private.infrastructure_admins (user_id, reason) values (account.id, set_infrastructure_admin.reason)
    on conflict do nothing;
  else
    delete from private.infrastructure_admins a where a.user_id = account.id;
  end if;
  if not found then
    return 'unchanged';
  end if;
  insert into private.admin_audit_log (action, target_user_id, target, reason)
  values (
    case when admin then 'admin.grant' else 'admin.revoke' end, account.id, account.email,
    set_infrastructure_admin.reason
  );
  return 'changed';
end
$$;
comment on function private.set_infrastructure_admin(text, boolean, text) is
  'Grants or takes away the console: changed, unchanged or no_account. For the command line: no page calls it, so that '
  'no admin makes another. Each change is a line of the audit log without an actor.';

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_infrastructure_admins() returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'email', u.email,
    'reason', a.reason,
    'createdAt', a.created_at,
    'hasAuthenticator', exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified')
  ) order by u.email), '[]')
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
$$;
comment on function private.list_infrastructure_admins() is
  'Everybody who may use the console: [{ email, reason, createdAt, hasAuthenticator }]. It opens to nobody without an '
  'authenticator.';

-- schemas/console/accounts.sql

-- Definer: accounts are the identity backend's, which the service role cannot read.
create or replace function private.search_accounts(term text, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  found_ids uuid[] := array(select private.find_accounts_exactly(term) limit page_size);
begin
  if found_ids = '{}' then
    found_ids := array(select private.find_accounts_matching(term, page_size));
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', u.id,
      'email', u.email,
      'displayName', p.display_name,
      'singleSignOn', u.is_sso_user,
      'policy', private.required_mfa_state(u.raw_app_meta_data),
      'banned', coalesce(u.banned_until > now(), false),
      'authenticators', (select count(*) from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
      'lastSignInAt', u.last_sign_in_at,
      'createdAt', u.created_at
    ) order by u.email, u.id), '[]')
    from auth.users u
    left join public.profiles p on p.id = u.id
    where u.id = any (found_ids)
  );
end
$$;
comment on function private.search_accounts(text, integer) is
  'The accounts whose id or whole email a text is; where there is none, those whose email or name contains it: '
  '[{ id, email, displayName, singleSignOn, policy, banned, authenticators, lastSignInAt, createdAt }].';

create or replace function private.find_accounts_exactly(term text) returns setof uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.id from auth.users a where a.id = private.uuid_or_null(term) and a.deleted_at is null
  union
  -- The backend keeps addresses in lower case, each once besides those of single sign-on.
  select a.id from auth.users a where a.email = lower(term) and not a.is_sso_user and a.deleted_at is null
  union
  -- Its own index of all addresses begins with the instance, of which there is one.
  select a.id
  from auth.users a
  where a.instance_id = '00000000-0000-0000-0000-000000000000' and lower(a.email) = lower(term) and a.is_sso_user
    and a.deleted_at is null
$$;
comment on function private.find_accounts_exactly(text) is
  'The accounts whose id or whole email a text is, by their indexes. Of an email they are several where single sign-on '
  'made accounts of their own with it.';

create or replace function private.find_accounts_matching(term text, most integer) returns setof uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.id
  from auth.users a
  left join public.profiles p on p.id = a.id
  where a.deleted_at is null
    and (position(lower(term) in lower(a.email)) > 0 or position(lower(term) in lower(p.display_name)) > 0)
  order by a.email, a.id
  limit most
$$;
comment on function private.find_accounts_matching(text, integer) is
  'Accounts whose email or name contains a text. It reads all accounts: the backend''s table takes no index of ours.';

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
        'device', coalesce(s.device, s.user_agent),
        'method', s.method,
        'aal', s.aal
      ) order by s.last_seen_at desc, s.id), '[]')
      from private.account_sessions(u.id) s
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;
comment on function private.account_overview(uuid) is
  'An account as the console shows it: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt, '
  'bannedUntil, infrastructureAdmin, methods (private.list_sign_in_methods), factors, sessions }; null where there is none. '
  'No secret.';

-- Definer: the admins' email addresses are in Supabase Auth's tables.
create or replace function private.account_timeline(subject_id uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
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
    select m.*
    from (
      (
        select e.id, 'event' as source, e.kind, e.method, e.device, e.ip, null as reason, null::uuid as actor_id,
          null as request_id, e.created_at
        from public.security_events e
        where e.user_id = subject_id
      )
      union all
      (
        select l.id, 'audit', l.action, null, null, l.ip, l.reason, l.actor_id, l.request_id, l.created_at
        from private.admin_audit_log l
        where l.target_user_id = subject_id
      )
    ) m
    where before is null
      or (m.created_at, m.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
    order by m.created_at desc, m.id desc
    limit page_size
  ) t
$$;
comment on function private.account_timeline(uuid, jsonb, integer) is
  'What an account''s owner did and what admins did to it, newest first: [{ id, source: event | audit, kind, method, '
  'device, ip, reason, actorEmail, requestId, createdAt }]. before is { createdAt, id } of the last one of the page before.';

-- schemas/console/audit-log.sql

create or replace function private.can_read_console(claims jsonb) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.session_satisfies_mfa(claims) and exists (
    select
    from private.session_facts(claims) f
    join private.infrastructure_admins a on a.user_id = f.user_id
    where f.session_factor_verified
  )
$$;
comment on function private.can_read_console(jsonb) is
  'Whether the session of verified claims is still an infrastructure admin''s who has proved a second factor on it. How '
  'long ago is asked where something begins, not here. Granted to nobody: it trusts the claims it is given.';

-- Definer: the admins' email addresses are in Supabase Auth's tables.
create or replace function private.search_audit_log(
  reader jsonb,
  filters jsonb,
  before jsonb default null,
  page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case when private.can_read_console(reader) then (
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
      where (filters ->> 'action' is null or starts_with(a.action, filters ->> 'action'))
        and (filters ->> 'actor' is null or position(lower(filters ->> 'actor') in lower(u.email)) > 0)
        and (
          filters ->> 'target' is null
          or position(lower(filters ->> 'target') in lower(a.target)) > 0
          or a.target_user_id::text = lower(filters ->> 'target')
        )
        and (filters ->> 'from' is null or a.created_at >= (filters ->> 'from')::timestamptz)
        and (filters ->> 'to' is null or a.created_at < (filters ->> 'to')::timestamptz)
        and (
          search_audit_log.before is null
          or (a.created_at, a.id)
            < ((search_audit_log.before ->> 'createdAt')::timestamptz, (search_audit_log.before ->> 'id')::uuid)
        )
      order by a.created_at desc, a.id desc
      limit page_size
    ) l
  ) end
$$;
comment on function private.search_audit_log(jsonb, jsonb, jsonb, integer) is
  'A page of the audit log, newest first; null where the reader, a token''s verified claims, may not read it any more. '
  'filters: action (how it begins), actor and target (parts of an email or name; for a target the id of a user too), '
  'from and to (excluded). before is { createdAt, id } of the last line before it.';

-- Definer: admins' addresses are the identity backend's, which the service role cannot read.
create or replace function private.last_admin_action(of_target text) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'actorEmail', (select u.email from auth.users u where u.id = l.actor_id),
    'at', l.created_at
  )
  from private.admin_audit_log l
  where l.target = of_target
  order by l.created_at desc, l.id desc
  limit 1
$$;
comment on function private.last_admin_action(text) is
  'Who did the last thing to a target, and when: { actorEmail, at }. For whoever lost a race to them.';

create or replace function private.record_admin_action(change jsonb, act jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.admin_audit_log (actor_id, action, target, reason, before, after, request_id, ip)
  values (
    (change ->> 'actor')::uuid, act ->> 'action', act ->> 'target', change ->> 'reason',
    nullif(act -> 'before', 'null'), nullif(act -> 'after', 'null'), change ->> 'requestId', (change ->> 'ip')::inet
  )
$$;
comment on function private.record_admin_action(jsonb, jsonb) is
  'One line of the audit log: change { actor, reason, requestId, ip }, act { action, target, before, after }. In the '
  'transaction of what it tells.';

-- schemas/console/key-approvals.sql

-- Definer: owners' and admins' addresses are the identity backend's, which the service role cannot read.
create or replace function private.search_workspaces(term text, page_size integer default 50) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
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
    where s.deleted_at is null
      and case
        when term = '' then a.workspace_id is not null
        else position(lower(term) in lower(s.name)) > 0
          or s.id::text = lower(term)
          or exists (
            select
            from public.workspace_members m
            join auth.users u on u.id = m.user_id
            where m.workspace_id = s.id and lower(u.email) = lower(term)
          )
      end
    order by s.name, s.id
    limit page_size
  ) w
$$;
comment on function private.search_workspaces(text, integer) is
  'Workspaces by a part of the name, by id, or by a member''s whole email; for an empty text those that may make keys: '
  '[{ id, name, plan, personalUserId, owners, members, liveKeys, approvedAt, approvedBy }].';

create or replace function private.set_key_approval(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  approve boolean := (change ->> 'approved')::boolean;
  workspace public.workspaces;
  known ai.key_approvals;
  made ai.key_approvals;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- Held to the end: of two at once the second sees what the first did.
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
  select * into known from ai.key_approvals a where a.workspace_id = workspace.id;
  if found = approve then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if approve then
    insert into ai.key_approvals (workspace_id, approved_by) values (workspace.id, actor) returning * into made;
  else
    delete from ai.key_approvals a where a.workspace_id = workspace.id;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when approve then 'ai_keys.approve' else 'ai_keys.withdraw' end,
    'target', target,
    'before', jsonb_build_object(
      'approved', not approve, 'approvedAt', known.approved_at, 'approvedBy', known.approved_by
    ),
    'after', jsonb_build_object('approved', approve, 'approvedAt', made.approved_at, 'approvedBy', made.approved_by)
  ));
  return '{}';
end
$$;
comment on function private.set_key_approval(jsonb) is
  'Lets a workspace make keys, or no more: { actor, workspace, approved, reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | oneself (the actor''s personal workspace) | conflict (it is so already, with last) }. Keys '
  'that exist keep working.';

-- schemas/console/apps.sql

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
  begin
    insert into private.apps (name, display_name, kind, scopes)
    values (
      change ->> 'name', change ->> 'displayName', change ->> 'kind',
      array(select jsonb_array_elements_text(change -> 'scopes'))
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
comment on function private.add_app(jsonb) is
  'Registers an app with its first secret: { actor, name, displayName, kind, origins, scopes, secretHash as text of a '
  'bytea, reason, requestId, ip } → {} or { refused: forbidden | taken (name or origin) | invalid }.';

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
    'before', known - 'version',
    'after', private.describe_app(app.id)
  ));
  return '{}';
end
$$;
comment on function private.change_app(jsonb) is
  'Changes an app: { actor, name, version (as private.read_app has it), step, reason, requestId, ip } and for edit '
  'displayName, scopes, origins; for link and unlink workspace; for rotate secretHash as text of a bytea and overlapSeconds; enable '
  'and disable take nothing → {} or { refused: forbidden | not_found | conflict (with last) | taken (an origin) | '
  'invalid | no_workspace }.';

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
      select jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name) order by w.name, w.id)
      from private.app_workspaces l
      join public.workspaces w on w.id = l.workspace_id
      where l.app_id = a.id
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
comment on function private.describe_app(uuid) is
  'An app as people read it: no hash of any secret; secrets are those that still work.';

create or replace function private.read_app(app_name text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.describe_app(a.id)
    || jsonb_build_object(
      'version', (select l.id from private.admin_audit_log l where l.target = 'app ' || a.name
        order by l.created_at desc, l.id desc limit 1)
    )
  from private.apps a
  where a.name = app_name
$$;
comment on function private.read_app(text) is
  'An app as private.describe_app has it, with its version: the last line of the audit log about it.';

-- schemas/console/models.sql

create or replace function private.list_catalogue_models() returns jsonb
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
  ) order by ai.model_order(m)), '[]')
  from ai.models m
$$;
comment on function private.list_catalogue_models() is
  'Every model with its providers, in the order in which they are asked, and prices, those of the past too; amounts are '
  'text, so that no digit is lost.';

create or replace function private.set_model_enabled(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  enable boolean := (change ->> 'enabled')::boolean;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
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
comment on function private.set_model_enabled(jsonb) is
  'Opens a model to those whose plans grant it, or shuts it for all: { actor, model, enabled, reason, requestId, ip } → '
  '{} or { refused: forbidden | not_found | conflict (it is so already, with last) }.';

create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  made ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- One price of a model at a time.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- What runs were charged at stays.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- The admin decided on the prices that they saw, of all service tiers.
  if change ->> 'latest' is distinct from (
    select max(p.id)::text
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
  returning * into made;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(made)
  ));
  return jsonb_build_object('from', lower(made.valid), 'until', upper(made.valid));
end
$$;
comment on function private.add_model_price(jsonb) is
  'Adds a price from a time on, now unless said; it closes the one before and ends where the next begins: { actor, model, '
  'providerId, serviceTier, minInputTokens, latest (id of the newest price seen, or null), from, inputUsd, cachedInputUsd, '
  'cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd, requestFeeUsd, reason, requestId, ip } → { from, until } or { refused: forbidden | not_found | '
  'no_route | past | taken | conflict (with last) }.';

-- schemas/operations/describe-database.sql

create or replace function private.describe_objects() returns jsonb
  language sql
  stable
  security invoker
  -- Everything that changes how Postgres prints a definition.
  set search_path = ''
  set quote_all_identifiers = off
  set timezone = 'UTC'
  set datestyle = 'ISO'
  set intervalstyle = 'postgres'
  set extra_float_digits = 1
as $$
  with schemas as (
    select n.oid, n.nspname as name, n.nspowner, n.nspacl
    from pg_namespace n where n.nspname in ('public', 'private', 'ai')
  ), of_extensions as (
    select d.classid, d.objid from pg_depend d where d.deptype = 'e'
  ), functions as (
    select p.oid, p.proowner, p.proacl, format(
        '%s %I.%I(%s)',
        case p.prokind when 'p' then 'procedure' else 'function' end, s.name, p.proname, oidvectortypes(p.proargtypes)
      ) as name
    from pg_proc p join schemas s on s.oid = p.pronamespace
    -- Hosted Supabase can keep an event trigger's function in public, to enable row-level security on new tables.
    where p.prokind <> 'a' and p.prorettype <> 'event_trigger'::regtype
      and not exists (select from of_extensions e where e.classid = 'pg_proc'::regclass and e.objid = p.oid)
  ), relations as (
    select c.oid, c.relkind, c.relispartition, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity,
      c.relpersistence, c.reloptions, s.oid as schema_oid, format('%I.%I', s.name, c.relname) as name
    from pg_class c join schemas s on s.oid = c.relnamespace
    where not exists (select from of_extensions e where e.classid = 'pg_class'::regclass and e.objid = c.oid)
  ), tables as (
    select r.* from relations r where r.relkind in ('r', 'p', 'f') and not r.relispartition
  ), policies as (
    select y.polrelid, format('policy %I on ', y.polname) as name, concat_ws(
        ' ', y.polpermissive, y.polcmd,
        (select string_agg(case g when 0 then 'public' else pg_get_userbyid(g) end, ',' order by g::regrole::text)
          from unnest(y.polroles) g),
        pg_get_expr(y.polqual, y.polrelid), 'check', pg_get_expr(y.polwithcheck, y.polrelid)
      ) as definition
    from pg_policy y
  ), privileges as (
    select f.name as target, a.privilege_type as privilege, null as attribute, a.grantee, a.is_grantable, f.proowner as owner
    from functions f, aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a
    union all
    select case r.relkind when 'S' then 'sequence ' else 'table ' end || r.name, a.privilege_type, null, a.grantee,
      a.is_grantable, r.relowner
    from relations r,
      aclexplode(coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's' else 'r' end::"char", r.relowner))) a
    where r.relkind in ('r', 'p', 'f', 'v', 'm', 'S')
    union all
    select 'table ' || r.name, a.privilege_type, t.attname, a.grantee, a.is_grantable, r.relowner
    from relations r join pg_attribute t on t.attrelid = r.oid and not t.attisdropped, aclexplode(t.attacl) a
    union all
    -- Hosted Supabase decides about the schema public.
    select format('schema %I', s.name), a.privilege_type, null, a.grantee, a.is_grantable, s.nspowner
    from schemas s, aclexplode(coalesce(s.nspacl, acldefault('n', s.nspowner))) a
    where s.name <> 'public'
  ), grants as (
    select p.target, case p.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(p.grantee)) end as grantee,
      string_agg(
        lower(p.privilege) || coalesce(' (' || quote_ident(p.attribute) || ')', '') || case when p.is_grantable then '*' else '' end,
        ',' order by lower(p.privilege), p.attribute
      ) as list
    from (select distinct target, privilege, attribute, grantee, is_grantable, owner from privileges) p
    where p.grantee <> p.owner
      -- The administrators of a project. By name, since a restored database can have another owner.
      and (p.grantee = 0 or pg_get_userbyid(p.grantee) not in ('postgres', 'supabase_admin', 'dashboard_user'))
    group by 1, 2
  ), definitions as (
    -- Without comments and without whitespace, except in strings and between two words.
    select f.name, regexp_replace(
        regexp_replace(
          pg_get_functiondef(f.oid),
          '(''(?:[^'']|'''')*'')|(?:\s|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/)+', e'\\1\x01', 'g'
        ), '(?<!\w)\x01|\x01(?!\w)', '', 'g'
      ) as definition
    from functions f
    union all
    select 'view ' || r.name, concat_ws(
        e'\n',
        (select string_agg(o, ',' order by o) from unnest(r.reloptions) o),
        (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
          from pg_attribute a where a.attrelid = r.oid and a.attnum > 0),
        pg_get_viewdef(r.oid)
      )
    from relations r where r.relkind in ('v', 'm')
    union all
    select format('trigger %I on %I.%I', t.tgname, n.nspname, c.relname), concat_ws(' ', t.tgenabled, pg_get_triggerdef(t.oid))
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_proc p on p.oid = t.tgfoid
    where not t.tgisinternal and t.tgparentid = 0
      and (n.oid in (select s.oid from schemas s) or p.pronamespace in (select s.oid from schemas s))
    union all
    select 'table ' || t.name, concat_ws(' ', t.relkind, t.relpersistence, pg_get_partkeydef(t.oid)) from tables t
    union all
    select 'row-level security on ' || t.name, t.relforcerowsecurity::text from tables t where t.relrowsecurity
    union all
    select format('column %s.%I', t.name, a.attname), concat_ws(
        ' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
        (select l.collname from pg_collation l where l.oid = a.attcollation), pg_get_expr(d.adbin, d.adrelid)
      )
    from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all
    select format('constraint %I on %s', k.conname, coalesce(t.name, k.contypid::regtype::text)),
      pg_get_constraintdef(k.oid)
    from pg_constraint k left join tables t on t.oid = k.conrelid
    where k.connamespace in (select s.oid from schemas s) and (t.oid is not null or k.contypid <> 0)
      -- Not null is the column's, and Postgres adds a foreign key's constraints of its own for each partition.
      and k.contype not in ('t', 'n') and k.conparentid = 0
    union all
    select 'unique index ' || r.name, pg_get_indexdef(i.indexrelid) || ' ' || i.indisvalid
    from tables t join pg_index i on i.indrelid = t.oid and i.indisunique join relations r on r.oid = i.indexrelid
    where not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = t.oid)
    union all
    select y.name || t.name, y.definition from policies y join tables t on t.oid = y.polrelid
    union all
    select 'type ' || format_type(y.oid, null), concat_ws(
        ' ', y.typtype, y.typnotnull, y.typdefault, format_type(nullif(y.typbasetype, 0), y.typtypmod),
        (select string_agg(quote_literal(e.enumlabel), ',' order by e.enumsortorder) from pg_enum e where e.enumtypid = y.oid),
        (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
          from pg_attribute a where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped)
      )
    from pg_type y join schemas s on s.oid = y.typnamespace left join relations r on r.oid = y.typrelid
    where (y.typtype in ('e', 'd') or r.relkind = 'c')
      and not exists (select from of_extensions e where e.classid = 'pg_type'::regclass and e.objid = y.oid)
    union all
    -- Their number and names depend on the date, and all of them are protected in the same way.
    select 'partitions of ' || p.name, string_agg(distinct p.protection, e'\n' order by p.protection)
    from (
      select parent.name, concat_ws(
          e'\n', r.relrowsecurity,
          (select string_agg(y.name || y.definition, e'\n' order by y.name) from policies y where y.polrelid = r.oid),
          (select string_agg(g.grantee || ' ' || g.list, e'\n' order by g.grantee) from grants g where g.target = 'table ' || r.name)
        ) as protection
      from relations r join pg_inherits h on h.inhrelid = r.oid join relations parent on parent.oid = h.inhparent
      where r.relispartition and r.relkind in ('r', 'p')
    ) p
    group by p.name
  )
  select jsonb_object_agg(d.name, left(encode(sha256(convert_to(d.definition, 'UTF8')), 'hex'), 16))
    || (
      select jsonb_object_agg(format('grants to %s on %s', g.grantee, g.target), g.list)
      from grants g
      where not exists (select from relations r where r.relispartition and g.target = 'table ' || r.name)
    )
  from definitions d
$$;
comment on function private.describe_objects() is
  'Every object of ours by name, with a hash of its definition; grants with their list, where * is a grant option.';

-- Definer: the service role cannot read the record of migrations.
create or replace function private.describe_database() returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  applied jsonb;
begin
  if to_regclass('supabase_migrations.schema_migrations') is not null then
    execute 'select jsonb_agg(m.version order by m.version) from supabase_migrations.schema_migrations m' into applied;
  end if;
  return jsonb_build_object(
    'postgres', current_setting('server_version_num')::integer,
    'migrations', coalesce(applied, '[]'),
    'objects', private.describe_objects()
  );
end
$$;
comment on function private.describe_database() is
  'What the doctor and the hosted start compare with the release: the version of Postgres (server_version_num), the '
  'versions of the migrations recorded, and private.describe_objects().';
