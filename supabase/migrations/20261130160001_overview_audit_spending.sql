-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

-- Adds an entry about an app to the audit log. If actor is null, the change was made from the command line.
create or replace function private.record_app_change(app private.apps, action text, reason text, actor uuid) returns void
  language sql volatile security invoker
as $$
  select private.record_admin_action(
    jsonb_build_object('actor', actor, 'reason', reason),
    jsonb_build_object(
      'action', action, 'target', 'app ' || (app).name, 'targetName', (app).display_name, 'after', to_jsonb(app)
    )
  )
$$;

-- Signs an account out of every device and app and notifies the account's owner. Takes { actor or serviceAccount,
-- subject, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself | protected (a service
-- account changes no account with a role in the console) }. Idempotent.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account record;
  sessions bigint;
  ended_count integer;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if private.responsible_person(change) = (change ->> 'subject')::uuid then
    return jsonb_build_object('refused', 'oneself');
  end if;
  select u.id, u.email into account from auth.users u where u.id = (change ->> 'subject')::uuid and u.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if change ->> 'serviceAccount' is not null and private.console_role(account.id) is not null then
    return jsonb_build_object('refused', 'protected');
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
      'actorEmail', coalesce((select a.email from auth.users a where a.id = t.actor_id), t.service_account_name),
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
  if not private.may_change_console(change, 'admin:accounts:write') then
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

-- Declines a workspace's open request. The change is { actor, workspace, requestedAt, reason, email, requestId, ip }.
-- The workspace's members see the reason. Returns {} or { refused: forbidden | not_found | oneself (the actor's
-- personal workspace) | request_gone }.
-- Definer: answering a request writes ai.key_approval_requests and reads email addresses in Supabase Auth's tables.
create or replace function private.decline_key_approval(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace public.workspaces := private.lock_approvable_workspace(change);
  refusal jsonb := private.approval_refusal(change, workspace);
  approval_request ai.key_approval_requests;
begin
  if refusal is not null then
    return refusal;
  end if;
  if not private.lock_open_request(change, workspace.id) then
    return jsonb_build_object('refused', 'request_gone');
  end if;
  approval_request := private.answer_approval_request(change, workspace.id);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'ai_keys.decline',
    'target', 'workspace ' || workspace.id,
    'targetName', case when workspace.personal_user_id is null then workspace.name end,
    'before', jsonb_build_object(
      'state', 'open', 'requestedAt', approval_request.requested_at, 'requestedBy', approval_request.requested_by, 'note', approval_request.note
    ),
    'after', jsonb_build_object('state', 'declined')
  ));
  return '{}';
end
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
  if not private.may_change_console(change, 'admin:apps:write') then
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
    'action', 'app.register', 'target', 'app ' || app.name, 'targetName', app.display_name,
    'after', private.describe_app(app.id)
  ));
  return '{}';
end
$$;

-- Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The step
-- edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has secretHash (the
-- text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client allows only enable,
-- disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is outdated; last is
-- private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace | oneself (the link of
-- the actor's personal workspace) }.
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
  if not private.may_change_console(change, 'admin:apps:write') then
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
    -- What a linked app uses costs the workspace no credits.
    if exists (
      select from public.workspaces w where w.id = linked and w.personal_user_id = private.responsible_person(change)
    ) then
      return jsonb_build_object('refused', 'oneself');
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
    'targetName', app.display_name,
    'before', old_app - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

-- Returns the budgets that are used up and refused a call in the last 24 hours, the latest refusal first. Envelopes are
-- excluded, because their owners decide about them. Finds the scopes by the primary key: an index of refused_at would
-- slow every call that changes a budget. Not granted to any role.
create or replace function private.used_up_budgets(max_rows integer) returns setof ai.budgets
  language sql stable security invoker set search_path = ''
as $$
  select (r.budget).*
  from (
    select b as budget
    from ai.budgets b
    where b.scope in ('key', 'app', 'member', 'label', 'workspace') and b.refused_at > now() - interval '24 hours'
    -- Otherwise, Postgres could apply the costly rule below to all budgets.
    offset 0
  ) r
  where ai.budget_refuses_calls(r.budget)
    and exists (select from public.workspaces w where w.id = (r.budget).workspace_id and w.deleted_at is null)
  order by (r.budget).refused_at desc, (r.budget).subject_id, (r.budget).period
  limit max_rows
$$;

-- Returns the balances that refused a call in the last seven days, were not topped up since, and have fewer credits left
-- than their plan calls low, or than 1,000 if the plan says 0. The latest refusal comes first. A call that was refused
-- with more left was simply very large. Not granted to any role.
create or replace function private.used_up_credits(max_rows integer) returns setof ai.credit_accounts
  language sql stable security invoker set search_path = ''
as $$
  with refused as materialized (
    select a.* from ai.credit_accounts a where a.refused_at > now() - interval '7 days'
  )
  select r.*
  from refused r
  -- Deleted owners have no plan.
  join ai.paying_plans(
    (select array_agg(w.workspace_id) from refused w), (select array_agg(m.user_id) from refused m)
  ) p on p.owner_id = coalesce(r.workspace_id, r.user_id)
  where r.balance - r.reserved < coalesce(nullif(ai.low_credits(p.plan), 0), 1000)
  order by r.refused_at desc, r.id
  limit max_rows
$$;

-- Returns the first days of those of the last twelve ended months (UTC) that have runs, or records in the platform's
-- book, and are not closed, oldest first. Not granted to any role.
create or replace function private.unreconciled_months() returns setof date
  language sql stable security invoker set search_path = '' set timezone = 'UTC'
as $$
  select m.first_day
  from (
    select (date_trunc('month', now()) - n * interval '1 month')::date as first_day,
      (date_trunc('month', now()) - (n - 1) * interval '1 month')::date as end_day
    from generate_series(1, 12) as n
  ) m
  where not exists (
    select from ai.book_statements s
    where s.book_id = ai.platform_book() and s.month = m.first_day and s.reopened_at is null
  ) and (
    exists (select from ai.usage_daily u where u.day >= m.first_day and u.day < m.end_day)
    or exists (select from ai.runs r where r.created_at >= m.first_day and r.created_at < m.end_day)
    or exists (
      select from ai.cost_book_entries e
      where e.book_id = ai.platform_book() and e.occurred_at >= m.first_day and e.occurred_at < m.end_day
    )
    or exists (
      select from ai.invoice_book_entries i
      where i.book_id = ai.platform_book()
        and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && daterange(m.first_day, m.end_day)
    )
  )
  order by m.first_day
$$;

-- Returns those of the providers' importers whose last attempts failed, or that missed days. The caller names the
-- providers that are configured, which the database does not know. Not granted to any role.
create or replace function private.failing_importers(providers text[])
  returns table (provider text, failures integer, last_error text, last_complete_day date, missed_days integer)
  language sql stable security invoker set search_path = ''
as $$
  select i.provider, i.failures, i.last_error, i.last_complete_day, m.days
  from ai.cost_importers i
  cross join lateral (
    select coalesce(sum(upper(r.days) - lower(r.days)), 0)::integer as days from unnest(ai.missed_days(i)) as r (days)
  ) m
  where i.provider = any (providers) and (i.failures > 0 or m.days > 0)
  order by i.provider
$$;

-- Returns the scheduled jobs that are behind: the sweep after 5 minutes, the sums of usage after 10, as the alerts of
-- monitoring. since is when a job last finished, or null if it never did. Not granted to any role.
create or replace function private.late_jobs() returns table (job text, since timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select j.job, nullif(j.done_until, '-infinity')
  from (
    select 'sweep', p.seen_until, interval '5 minutes' from ai.sweep_progress p
    union all
    select 'sums', u.summed_until, interval '10 minutes' from ai.usage_progress u
  ) as j (job, done_until, max_age)
  where j.done_until < now() - j.max_age
  order by j.job
$$;

-- Returns recoveries that are begun and not finished, the oldest first: resets of authenticators, which keep an account
-- closed until an admin finishes them, and active overrides that have not been used. ends_at is an override's. Reads the
-- log of the last 90 days, and only the accounts that it names. Not granted to any role.
create or replace function private.unfinished_recoveries(max_rows integer)
  returns table (kind text, user_id uuid, email text, since timestamptz, ends_at timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select 'reset', l.user_id, a.email, l.since, null::timestamptz
  from (
    select g.target_user_id as user_id, max(g.created_at) as since
    from private.admin_audit_log g
    where g.created_at > now() - interval '90 days' and g.action = 'required_mfa.begin_reset'
    group by g.target_user_id
  ) l
  cross join lateral (
    select u.email::text
    from auth.users u
    where u.id = l.user_id and u.deleted_at is null
      and private.required_mfa_state(u.raw_app_meta_data) = 'recovery_in_progress'
    -- Otherwise, Postgres could read all accounts.
    offset 0
  ) a
  union all
  select 'override', null, o.email, o.created_at, o.expires_at
  from private.recovery_overrides o
  where o.revoked_at is null and o.expires_at > now()
    and not exists (
      select from private.recovery_events e where e.override_id = o.id and e.kind in ('consume', 'login_bypass')
    )
  order by 4, 3
  limit max_rows
$$;

-- Returns the calls that were refused on a day (UTC). Looks up each workspace of the sums by its index, because there is
-- no index of days. Not granted to any role.
create or replace function private.refused_calls_of(of_day date) returns numeric
  language sql stable security invoker set search_path = ''
as $$
  with recursive workspaces as (
    (select d.workspace_id from ai.refused_daily d order by d.workspace_id limit 1)
    union all
    select (
      select d.workspace_id from ai.refused_daily d
      where d.workspace_id > w.workspace_id
      order by d.workspace_id
      limit 1
    )
    from workspaces w
    where w.workspace_id is not null
  )
  select coalesce(sum(r.refused), 0)
  from workspaces w
  cross join lateral (
    select d.refused from ai.refused_daily d where d.workspace_id = w.workspace_id and d.day = of_day offset 0
  ) r
$$;

-- Returns a page of the audit log, newest first. The reader is a token's verified claims; returns null if the reader
-- may no longer read the log. The filters are action (exact, or a prefix that ends with a dot), actor (part of an email
-- address), target (part of an email address, name or other target, or a user's id), from and to (exclusive). The
-- argument before is { createdAt, id } of the last line on the previous page. before and after of a line have numbers
-- as exact text. targetKind and targetId are kind and id of private.audit_target.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_audit_log(
  reader jsonb,
  filters jsonb,
  before jsonb default null,
  page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the whole log for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_action text := filters ->> 'action';
  of_actor text := lower(filters ->> 'actor');
  of_target text := lower(filters ->> 'target');
  named_targets text[];
  starts_at timestamptz := coalesce((filters ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filters ->> 'to')::timestamptz, 'infinity');
  last_at timestamptz := coalesce((search_audit_log.before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((search_audit_log.before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if not private.can_read_console(reader) then
    return null;
  end if;
  if of_target is not null then
    named_targets := private.targets_named(of_target);
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', l.id,
      'actorEmail', coalesce(l.actor_email, l.service_account_name),
      'action', l.action,
      'targetUserId', l.target_user_id,
      'target', l.target,
      'targetName', coalesce(l.target_name, t.name),
      'targetKind', t.kind,
      'targetId', t.id,
      'reason', l.reason,
      'before', private.with_exact_numbers(l.before),
      'after', private.with_exact_numbers(l.after),
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
        and (of_action is null or a.action = of_action or of_action like '%.' and starts_with(a.action, of_action))
        and (of_actor is null or position(of_actor in lower(coalesce(u.email, a.service_account_name))) > 0)
        and (
          of_target is null
          or position(of_target in lower(concat_ws(' ', a.target, a.target_name))) > 0
          or a.target_user_id::text = of_target
          or a.target = any (named_targets)
        )
      order by a.created_at desc, a.id desc
      limit page_size
    ) l
    left join lateral private.audit_target(l.target) t on true
  );
end
$$;

-- Returns what the console shows of a target now: the kind of page that it has, with the id in the page's address, and
-- its current name, for entries that keep none. Returns no row if it is deleted or has no page. Has no settings of its
-- own, so Postgres inlines it.
create or replace function private.audit_target(target text) returns table (kind text, id text, name text)
  language sql stable security invoker
as $$
  select f.kind, p.id, f.name
  from (
    select m[1] as kind, m[2] as id
    from regexp_match(
      target,
      '^((?:document of )?platform invoice|platform month|workspace|member|app|model|plan|provider|address) (.+)$'
    ) m
  ) p
  cross join lateral (
    select 'workspace', w.name::text
    from public.workspaces w
    where p.kind = 'workspace' and w.id = private.uuid_or_null(p.id) and w.deleted_at is null
    union all
    select 'member', u.email::text
    from auth.users u
    where p.kind = 'member' and u.id = private.uuid_or_null(p.id) and u.deleted_at is null
    union all
    select case a.kind when 'openid' then 'openid_client' else 'app' end, a.display_name
    from private.apps a
    where p.kind = 'app' and a.name = p.id
    union all
    select 'model', m.display_name from ai.models m where p.kind = 'model' and m.id = p.id
    union all
    select 'plan', l.name from ai.plans l where p.kind = 'plan' and l.id = p.id
    union all
    select 'platform_invoice', concat_ws(' ', i.provider, i.reference)
    from ai.invoice_book_entries i
    where p.kind like '%platform invoice' and i.id = private.uuid_or_null(p.id)
    union all
    select replace(p.kind, ' ', '_'), null where p.kind in ('provider', 'address', 'platform month')
  ) f (kind, name)
$$;

-- Returns the targets of existing workspaces and accounts whose name or email address contains a term, at most 100 of
-- each. Entries about them may have no name.
create or replace function private.targets_named(term text) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    (
      select 'workspace ' || w.id
      from public.workspaces w
      where lower(w.name) like private.containing(term) and w.deleted_at is null
      limit 100
    )
    union all
    select 'member ' || f from private.find_accounts_matching(term, 100) f
  )
$$;

-- Returns a JSON object with its numbers as text, because a reader's floats would round amounts. Returns anything else
-- unchanged.
create or replace function private.with_exact_numbers(state jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when jsonb_typeof(state) = 'object' then (
      select coalesce(jsonb_object_agg(
        f.key, case jsonb_typeof(f.value) when 'number' then to_jsonb(f.value #>> '{}') else f.value end
      ), '{}')
      from jsonb_each(state) f
    )
    else state
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
  payer text := change ->> 'payer';
  owner_id uuid := (change ->> 'ownerId')::uuid;
  amount numeric := (change ->> 'amount')::numeric;
  direction integer := case change ->> 'step' when 'grant' then 1 when 'withdraw' then -1 end;
  personal uuid;
  account uuid;
  changed jsonb;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
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
  if personal = private.responsible_person(change) then
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
    -- Never an email or a personal workspace, because the entry outlives the account.
    'targetName', (select w.name from public.workspaces w where w.id = owner_id and personal is null),
    'before', jsonb_build_object('balance', trim_scale((changed ->> 'balance')::numeric - direction * amount)::text),
    'after', jsonb_build_object(
      'balance', trim_scale((changed ->> 'balance')::numeric)::text, 'credits', trim_scale(direction * amount)::text,
      'reference', change ->> 'reference', 'description', change ->> 'description'
    )
  ));
  return '{}';
end
$$;

-- Allows a workspace to create keys, or withdraws the approval. The change is { actor, workspace, approved, reason,
-- requestedAt, email: { subject, text }, requestId, ip }. An approval also closes an open request and sends the email.
-- Existing keys keep working after a withdrawal. Returns {} or { refused: forbidden | not_found | oneself (the actor's
-- personal workspace) | conflict (nothing to change, with last) | request_gone (no open request has this requestedAt)
-- }.
-- Definer: answering a request writes ai.key_approval_requests and reads email addresses in Supabase Auth's tables.
create or replace function private.set_key_approval(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  approve boolean := (change ->> 'approved')::boolean;
  workspace public.workspaces;
  old_approval ai.key_approvals;
  new_approval ai.key_approvals;
  refusal jsonb;
  target text;
begin
  select * into workspace from private.lock_approvable_workspace(change);
  refusal := private.approval_refusal(change, workspace);
  if refusal is not null then
    return refusal;
  end if;
  target := 'workspace ' || workspace.id;
  select * into old_approval from ai.key_approvals a where a.workspace_id = workspace.id;
  if found = approve then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if approve then
    if change ->> 'requestedAt' is not null and not private.lock_open_request(change, workspace.id) then
      return jsonb_build_object('refused', 'request_gone');
    end if;
    insert into ai.key_approvals (workspace_id, approved_by) values (workspace.id, actor) returning * into new_approval;
    perform private.answer_approval_request(change, workspace.id);
  else
    delete from ai.key_approvals a where a.workspace_id = workspace.id;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when approve then 'ai_keys.approve' else 'ai_keys.withdraw' end,
    'target', target,
    'targetName', case when workspace.personal_user_id is null then workspace.name end,
    'before', jsonb_build_object(
      'approved', not approve, 'approvedAt', old_approval.approved_at, 'approvedBy', old_approval.approved_by
    ),
    'after', jsonb_build_object('approved', approve, 'approvedAt', new_approval.approved_at, 'approvedBy', new_approval.approved_by)
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if exists (select from public.workspaces w where w.id = workspace and w.personal_user_id = private.responsible_person(change)) then
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
    'targetName', model.display_name,
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
    'targetName', model.display_name,
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
    'targetName', saved_model.display_name,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(saved_model)
  ));
  if old_default.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || old_default.id,
      'targetName', old_default.display_name,
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
    'targetName', model.display_name,
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
    'action', 'model.delete', 'target', 'model ' || model.id, 'targetName', model.display_name, 'before', to_jsonb(model)
  ));
  return '{}';
end
$$;

-- Opens an outage for each provider of which an enabled route has failed for 60 seconds, updates those that last, and
-- ends those whose routes have not been failing for two minutes or are disabled. A route fails if ai.route_state() says
-- so. A failure that no other followed, and whose cooldown was shorter, opens nothing. Returns how many outages began or
-- ended; 0 while another call is running.
-- Definer: the service role cannot write outages.
create or replace function ai.record_provider_outages() returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  changed integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.record_provider_outages', 0)) then
    return 0;
  end if;
  with failing as materialized (
    select
      t.provider_id,
      min((t.health).failing_since) filter (
        where greatest((t.health).failed_at, least((t.health).skipped_until, now()))
          >= (t.health).failing_since + interval '60 seconds'
      ) as began_at,
      jsonb_path_query_array(
        jsonb_agg(
          jsonb_build_object('model', (t.health).provider_model, 'endpoint', (t.health).endpoint)
          order by (t.health).provider_model, (t.health).endpoint
        ),
        '$[0 to 19]'
      ) as routes,
      (array_agg((t.health).failure order by (t.health).failed_at desc nulls last))[1] as failure,
      (array_agg((t.health).status order by (t.health).failed_at desc nulls last))[1] as status
    from private.list_troubled_routes(now()) t
    group by t.provider_id
  ), updated as (
    update ai.provider_outages o
    set failing_at = now(), routes = f.routes, failure = f.failure, status = f.status
    from failing f
    where o.provider_id = f.provider_id and o.ended_at is null
  ), opened as (
    insert into ai.provider_outages (provider_id, began_at, routes, failure, status)
    select f.provider_id, f.began_at, f.routes, f.failure, f.status
    from failing f
    where f.began_at is not null
    on conflict (provider_id) where ended_at is null do nothing
    returning id
  ), ended as (
    update ai.provider_outages o
    set ended_at = greatest(o.began_at, case when e.enabled then o.failing_at else now() end)
    from ai.provider_outages p
    cross join lateral (select private.has_enabled_route(p) as enabled) as e
    where o.id = p.id and p.ended_at is null
      and not exists (select from failing f where f.provider_id = p.provider_id)
      and (p.failing_at <= now() - interval '2 minutes' or not e.enabled)
    returning o.id
  )
  select count(*) into changed from (select id from opened union all select id from ended) as c;
  return changed;
end
$$;

-- Returns whether an enabled model still uses one of the routes that failed in an outage.
create or replace function private.has_enabled_route(outage ai.provider_outages) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled and r.provider_id = (outage).provider_id
      and (outage).routes @> jsonb_build_array(jsonb_build_object('model', r.provider_model))
  )
$$;

-- Returns which email about an outage has not been queued: began, ended or null.
create or replace function ai.due_outage_mail(outage ai.provider_outages) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when (outage).began_mailed_at is null then case when (outage).ended_at is null then 'began' end
    when (outage).ended_at is not null and (outage).ended_mailed_at is null then 'ended'
  end
$$;

-- Returns whether a person gets emails about outages: an admin who has not turned them off, so that a new deployment is
-- not silent.
create or replace function private.is_emailed_about_outages(account_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.is_infrastructure_admin(account_id)
    and not exists (select from private.console_notices n where n.user_id = account_id and not n.outages)
$$;

-- Turns emails about outages on or off for the admin who asks: { actor, outages }. Returns {} or { refused: forbidden }.
-- Not in the console's log: like the settings of an account, it changes nothing for anybody else.
-- Definer: the service role cannot write the choices.
create or replace function private.set_outage_mails(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  insert into private.console_notices (user_id, outages)
  values ((change ->> 'actor')::uuid, (change ->> 'outages')::boolean)
  on conflict (user_id) do update set outages = excluded.outages;
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
    'targetName', saved.name,
    'before', case when change ->> 'seen' is not null then to_jsonb(old_plan) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;

-- Returns a workspace for the console, with its name, plan, owners, members, balance, this month's usage (UTC), keys and
-- key approval. Returns null for an unknown workspace.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.read_console_workspace(workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'id', w.id,
    'name', w.name,
    'createdAt', w.created_at,
    'personalUserId', w.personal_user_id,
    'planId', w.plan_id,
    'plan', (select private.list_plans(w.plan_id) -> 0),
    'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
    'owners', (
      select coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'email', u.email) order by u.email), '[]')
      from public.workspace_members m
      join auth.users u on u.id = m.user_id
      where m.workspace_id = w.id
        -- Looks the owners up by role, instead of reading all members.
        and m.role_id = (select r.id from public.workspace_roles r where r.workspace_id = w.id and r.is_owner)
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text
      )
      from ai.credit_accounts a
      where a.workspace_id = w.id
    ),
    'thisMonth', (
      select jsonb_build_object(
        'requests', coalesce(sum(u.requests), 0),
        'failed', coalesce(sum(u.failed), 0),
        'costUsd', trim_scale(coalesce(sum(u.cost_usd), 0))::text,
        'billedCredits', trim_scale(coalesce(sum(u.billed_credits), 0))::text
      )
      -- Ends tomorrow, so that runs that begin now count.
      from ai.usage_between(w.id, date_trunc('month', now(), 'UTC'), now() + interval '24 hours') u
    ),
    'approvedAt', k.approved_at,
    'approvedBy', (select u.email from auth.users u where u.id = k.approved_by),
    'liveKeys', (
      select count(*) from ai.keys l
      where l.workspace_id = w.id and l.revoked_at is null and (l.expires_at is null or l.expires_at > now())
    )
  )
  from public.workspaces w
  left join ai.key_approvals k on k.workspace_id = w.id
  where w.id = workspace and w.deleted_at is null
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
  workspace public.workspaces;
  target text;
begin
  if not private.may_change_console(change, 'admin:workspaces:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if workspace.personal_user_id = private.responsible_person(change) then
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
    'targetName', case when workspace.personal_user_id is null then workspace.name end,
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
    'targetName', model.display_name,
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
    'targetName', model.display_name,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;

-- Returns what callers got whose calls failed at a provider since a time, from its last 2,000 failed attempts: { calls,
-- answeredElsewhere, failed: [{ status, code, calls }] }.
create or replace function private.count_failed_callers(of_provider text, since timestamptz) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with attempts as (
    -- Uses the index by route.
    select a.run_created_at, a.run_id
    from (
      select distinct r.model_id, r.provider_model from ai.model_routes r where r.provider_id = of_provider
    ) as r
    cross join lateral (
      select f.run_created_at, f.run_id
      from ai.failed_attempts f
      where f.model_id = r.model_id and f.provider_id = of_provider and f.provider_model = r.provider_model
        and f.at >= since
      order by f.at desc
      limit 2000
    ) as a
    limit 2000
  ), calls as (
    select r.status, r.http_status, coalesce(r.error_code, r.status) as code
    from (select distinct a.run_created_at, a.run_id from attempts a) as a
    join ai.runs r on r.created_at = a.run_created_at and r.id = a.run_id
  )
  select jsonb_build_object(
    'calls', (select count(*) from calls),
    'answeredElsewhere', (select count(*) from calls c where c.status = 'succeeded'),
    'failed', (
      select coalesce(jsonb_agg(jsonb_build_object('status', f.http_status, 'code', f.code, 'calls', f.calls)
        order by f.calls desc, f.code), '[]')
      from (
        select c.http_status, c.code, count(*) as calls
        from calls c
        where c.status <> 'succeeded'
        group by c.http_status, c.code
      ) as f
    )
  )
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
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
      'targetName', concat_ws(' ', name, record ->> 'reference'),
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
      'targetName', concat_ws(' ', (invoice).provider, (invoice).reference),
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

-- Returns the usage of all workspaces from range_start to before range_end, in rows that callers group: the sums of the
-- days from first_day to before end_day, the changes since, and the runs outside of first_moment to end_moment. The
-- last four arguments are a result of ai.summed_range. Changes can make a group's requests 0; callers leave such groups
-- out. Not granted to any role.
-- Has no SET clause, so that Postgres inlines it. Callers run it with a custom plan, because a generic plan would read
-- all daily sums.
create or replace function ai.platform_parts(
  range_start timestamptz, range_end timestamptz, first_moment timestamptz, end_moment timestamptz, first_day date,
  end_day date
)
  returns setof ai.usage_daily
  language sql stable security invoker
as $$
  select u.*
  from ai.usage_daily u
  where u.day >= first_day and u.day < end_day
  union all
  select u.*
  from ai.usage_changes c
  cross join lateral ai.changed_usage(c) u
  where c.run_created_at >= first_moment and c.run_created_at < end_moment
  union all
  select u.*
  from ai.runs r
  cross join lateral ai.run_usage(r) u
  where r.created_at >= range_start and r.created_at < first_moment
  union all
  select u.*
  from ai.runs r
  cross join lateral ai.run_usage(r) u
  where r.created_at >= end_moment and r.created_at < range_end
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
  -- Hashes the rows instead of sorting them, although Postgres overestimates the number of groups.
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  summed record := ai.summed_range(first_day, last_day + 1, detailed);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return query
    select case when detailed then p.workspace_id end, case when detailed or by_day then p.day end, p.provider_id,
      p.billing_name, p.billing_account, sum(p.requests), sum(p.failed), sum(p.input_tokens), sum(p.output_tokens),
      sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from ai.platform_parts(
      range_start, range_end, summed.first_moment, summed.end_moment, summed.first_day, summed.end_day
    ) as p
    where not detailed or p.closed_runs <> 0 or ai.billing_provider(p.billing_name, p.provider_id) = of_provider
    group by 1, 2, p.provider_id, p.billing_name, p.billing_account
    having sum(p.requests) > 0;
end
$$;

-- Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by workspace or, if grouped_by is
-- account, by the member who called or who made the key: { totals: { owners, requests, failed, costUsd, billedCredits },
-- rows: [{ id, name, email, plan, isDeleted, requests, failed, costUsd, billedCredits, balance, available, lastDay,
-- value }] }. Amounts are text, and owners are those with runs. The row whose id is null has the runs without an account,
-- so that all rows add up to the cost of ai.platform_usage. balance and available are current, and null without a credit
-- account.
-- Rows are ordered by sorted_by (cost, runs, failed, credits, balance or id), highest value first, and then by id. after
-- is the value and the id of the last row of the page before. With with_balances, also lists owners without usage whose
-- balance is not 0.
-- Definer: email addresses are in Supabase Auth's tables, and functions that read runs are not granted to the service
-- role.
create or replace function private.list_spending(
  grouped_by text, first_day date, last_day date, sorted_by text, with_balances boolean, after jsonb, page_size integer
)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- Days are in UTC. A custom plan is required, because a generic plan would read all daily sums.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
declare
  by_account boolean := grouped_by = 'account';
  nil_id uuid := '00000000-0000-0000-0000-000000000000';
  -- Only detailed sums have accounts.
  summed record := ai.summed_range(first_day, last_day + 1, by_account);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return (
    with spent as (
      select
        case when by_account then p.actor_id else p.workspace_id end as id, sum(p.requests) as requests,
        sum(p.failed) as failed, sum(p.cost_usd) as cost_usd, sum(p.billed_credits) as billed_credits,
        max(p.day) filter (where p.requests > 0) as last_day
      from ai.platform_parts(
        range_start, range_end, summed.first_moment, summed.end_moment, summed.first_day, summed.end_day
      ) as p
      group by 1
      having sum(p.requests) > 0
    ), owners as materialized (
      select
        coalesce(s.id, a.owner_id) as id, coalesce(s.requests, 0) as requests, coalesce(s.failed, 0) as failed,
        coalesce(s.cost_usd, 0) as cost_usd, coalesce(s.billed_credits, 0) as billed_credits, s.last_day, a.balance,
        a.balance - a.reserved as available
      from spent s
      full join (
        select case when by_account then c.user_id else c.workspace_id end as owner_id, c.balance, c.reserved
        from ai.credit_accounts c
      ) a on a.owner_id = s.id
      where s.requests is not null or (with_balances and a.owner_id is not null and a.balance <> 0)
    ), listed as (
      select o.*,
        coalesce(o.id, nil_id) as place,
        case sorted_by
          when 'runs' then o.requests
          when 'failed' then o.failed
          when 'credits' then o.billed_credits
          when 'balance' then coalesce(o.balance, '-infinity')
          when 'id' then 0
          else o.cost_usd
        end as value
      from owners o
    ), page as (
      select l.*
      from listed l
      where after is null or l.value < (after ->> 'value')::numeric
        or (l.value = (after ->> 'value')::numeric and l.place > coalesce((after ->> 'id')::uuid, nil_id))
      order by l.value desc, l.place
      limit page_size
    )
    select jsonb_build_object(
      'totals', (
        select jsonb_build_object(
          'owners', count(o.id) filter (where o.requests > 0),
          'requests', coalesce(sum(o.requests), 0),
          'failed', coalesce(sum(o.failed), 0),
          'costUsd', trim_scale(coalesce(sum(o.cost_usd), 0))::text,
          'billedCredits', trim_scale(coalesce(sum(o.billed_credits), 0))::text
        )
        from owners o
      ),
      'rows', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'id', g.id,
          'name', case when by_account then f.display_name else w.name end,
          'email', u.email,
          'plan', coalesce(n.name, w.plan_id),
          'isDeleted', g.id is not null and case when by_account then u.id is null else w.id is null or w.deleted_at is not null end,
          'requests', g.requests,
          'failed', g.failed,
          'costUsd', trim_scale(g.cost_usd)::text,
          'billedCredits', trim_scale(g.billed_credits)::text,
          'balance', trim_scale(g.balance)::text,
          'available', trim_scale(g.available)::text,
          'lastDay', g.last_day,
          'value', trim_scale(g.value)::text
        ) order by g.value desc, g.place), '[]')
        from page g
        left join public.workspaces w on not by_account and w.id = g.id
        left join ai.plans n on n.id = w.plan_id
        left join auth.users u on by_account and u.id = g.id and u.deleted_at is null
        left join public.profiles f on f.id = u.id
      )
    )
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
      'targetName', to_char(lower(days), 'FMMonth YYYY'),
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
      'targetName', to_char(reopened.month, 'FMMonth YYYY'),
      'before', jsonb_build_object('statement', reopened.id, 'sha256', encode(reopened.sha256, 'hex'))
    )
  );
  return jsonb_build_object('outcome', 'reopened', 'month', to_char(reopened.month, 'YYYY-MM'));
end
$$;

-- Stores reports of a process: [{ provider, model, endpoint, answered_ms_ago, failing_ms_ago, failed_ms_ago, failures,
-- failure, status, cooldown_ms }]. A report has at most one entry for a route. failures counts those since the process's
-- last answer that it has not reported before, the first of which was failing_ms_ago. cooldown_ms is what is left of a
-- cooldown or, without failing_ms_ago, would be left of one that an answer ended. The members are ages and durations,
-- because clocks differ; an age may be that of a route without calls for months. Entries that no row can hold are left
-- out, so that they don't stop the others.
-- Definer: gateway has no grant on any table.
create or replace function ai.report_routes(reports jsonb) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- After a crash of Postgres, reports of its last moments may be missing. The next ones follow within seconds.
  perform set_config('synchronous_commit', 'off', true);
  insert into ai.route_health as h (
    provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status, failed_at, answered_at,
    skipped_until
  )
  select distinct on (r.provider, r.model, r.endpoint)
    r.provider, r.model, r.endpoint, ai.reported_moment(r.failing_ms_ago),
    case when r.failing_ms_ago is null then 0 else least(greatest(r.failures, 0), 1000000) end, r.failure, r.status,
    ai.reported_moment(r.failed_ms_ago), ai.reported_moment(r.answered_ms_ago),
    case when r.cooldown_ms is not null then now() + least(greatest(r.cooldown_ms, 0), 3600000) * interval '1 millisecond' end
  from jsonb_to_recordset(reports) as r (
    provider text, model text, endpoint text, answered_ms_ago double precision, failing_ms_ago double precision,
    failed_ms_ago double precision, failures integer, failure text, status smallint, cooldown_ms double precision
  )
  where char_length(r.model) <= 512
  -- The order in which all processes lock the rows.
  order by 1, 2, 3
  on conflict (provider_id, provider_model, endpoint) do update
  set (
    failing_since, failures_in_row, failure, status, failed_at, answered_at, skipped_until, reported_at
  ) = (
    select
      m.failing_since, m.failures_in_row, m.failure, m.status, m.failed_at, m.answered_at, m.skipped_until, m.reported_at
    from ai.merge_route_health(h, excluded) as m
  );
end
$$;

-- Returns the time that was age_ms milliseconds ago, within a year, because clocks may be wrong. Null for null.
create or replace function ai.reported_moment(age_ms double precision) returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select now() - least(greatest(age_ms, 0), 31622400000) * interval '1 millisecond' where age_ms is not null
$$;

-- Returns the health of a route from what is stored and a report. Reports of several processes come in any order, so a
-- time never moves back: the latest answer ends the failures before it, those after it count together, and a cooldown
-- holds until the latest end that a process stated. An answer ends only the cooldown of its own process, which is known
-- by its end, within the seconds that a report may take.
create or replace function ai.merge_route_health(stored ai.route_health, report ai.route_health) returns ai.route_health
  language plpgsql immutable security invoker set search_path = ''
as $$
declare
  merged ai.route_health := stored;
  part ai.route_health;
begin
  merged.reported_at := greatest(stored.reported_at, report.reported_at);
  merged.answered_at := greatest(stored.answered_at, report.answered_at);
  if report.failing_since is not null then
    merged.skipped_until := greatest(stored.skipped_until, report.skipped_until);
  elsif stored.skipped_until - report.skipped_until between interval '-5 seconds' and interval '5 seconds' then
    merged.skipped_until := least(stored.skipped_until, report.answered_at);
  end if;
  if report.failed_at >= stored.failed_at or stored.failed_at is null then
    merged.failed_at := report.failed_at;
    merged.failure := report.failure;
    merged.status := report.status;
  end if;
  merged.failing_since := null;
  merged.failures_in_row := 0;
  foreach part in array array[stored, report] loop
    continue when part.failing_since is null or part.failed_at <= merged.answered_at;
    if part.failing_since <= merged.answered_at then
      -- Another process was answered between these failures. Only the last one is known to be later.
      part.failing_since := part.failed_at;
      part.failures_in_row := least(part.failures_in_row, 1);
    end if;
    merged.failing_since := least(merged.failing_since, part.failing_since);
    merged.failures_in_row := least(merged.failures_in_row + part.failures_in_row, 1000000);
  end loop;
  if merged.failing_since is not null then
    -- A report that was sent again counts no failures.
    merged.failures_in_row := greatest(merged.failures_in_row, 1);
  end if;
  return merged;
end
$$;

-- Returns the state of a route at a time: skipped during a cooldown; failing if its last three calls, or a call that
-- began a cooldown, failed; working if it answered within an hour; otherwise quiet. Calls of more than an hour ago say
-- nothing about now.
create or replace function ai.route_state(h ai.route_health, at timestamptz) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when h.skipped_until > at then 'skipped'
    when at - h.failed_at < interval '1 hour' and (h.failures_in_row >= 3 or h.skipped_until >= h.failing_since)
      then 'failing'
    when at - h.answered_at < interval '1 hour' then 'working'
    else 'quiet'
  end
$$;

-- Deletes expired idempotency keys, rate windows older than an hour, failed attempts and refused calls older than
-- seven days, the health of routes that were not reported for 30 days, and outages of providers and envelopes 90
-- days after their end, up to at_most of each. Returns the total number of deleted rows; 0 while another deletion is
-- running.
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
  routes integer;
  outages integer;
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
  routes := private.delete_expired_rows('ai.route_health', 'reported_at', '30 days', at_most);
  outages := private.delete_expired_rows('ai.provider_outages', 'ended_at', '90 days', at_most);
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
  return keys + windows + attempts + histories + refused + routes + outages + envelopes;
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
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'required_mfa.' || step,
    'targetUserId', subject,
    'target', account.email,
    'before', account.raw_app_meta_data -> 'platform_required_mfa',
    'after', new_policy
  ));
  perform private.add_account_event(subject, event_kind)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, event_kind)
  where e.of_step = step;
  return jsonb_build_object('policy', new_policy);
end
$$;

-- Registers an OpenID client. Takes { actor, name, displayName, isPublic, scopes, redirectUris, postLogoutRedirectUris,
-- logoutUrl, allowsDeviceGrant, requiresPkce, claimsInIdToken, groupsWorkspaceId, secretHash, reason, requestId, ip }.
-- secretHash is the text of a bytea, or null for a
-- public client. Returns {} or { refused: forbidden | taken | invalid }.
create or replace function private.add_openid_client(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
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
      app_id, is_public, redirect_uris, post_logout_redirect_uris, allows_device_grant, requires_pkce,
      claims_in_id_token, groups_workspace_id
    )
    values (
      app.id, is_public, array(select jsonb_array_elements_text(change -> 'redirectUris')),
      array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris')),
      (change ->> 'allowsDeviceGrant')::boolean,
      coalesce((change ->> 'requiresPkce')::boolean, true),
      coalesce((change ->> 'claimsInIdToken')::boolean, false),
      (change ->> 'groupsWorkspaceId')::uuid
    );
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation or foreign_key_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  if not is_public then
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'targetName', app.display_name,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

-- Changes the given fields of an OpenID client. Takes { actor, name, version, displayName, scopes, redirectUris,
-- postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, requiresPkce, claimsInIdToken, groupsWorkspaceId, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict | invalid }. If version is given and the client has changed since that version, refuses with
-- conflict and returns the last change as last.
create or replace function private.change_openid_client(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  old_client jsonb;
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
  old_client := private.describe_openid_client(app.id);
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
      allows_device_grant = coalesce((change ->> 'allowsDeviceGrant')::boolean, c.allows_device_grant),
      requires_pkce = coalesce((change ->> 'requiresPkce')::boolean, c.requires_pkce),
      claims_in_id_token = coalesce((change ->> 'claimsInIdToken')::boolean, c.claims_in_id_token),
      groups_workspace_id = case
        when change ? 'groupsWorkspaceId' then (change ->> 'groupsWorkspaceId')::uuid else c.groups_workspace_id
      end
    where c.app_id = app.id;
  exception
    when check_violation or foreign_key_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.edit', 'target', 'app ' || app.name, 'targetName', app.display_name, 'before', old_client,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

-- Issues a recovery credential under an override. Takes { actor, overrideId, reason, tokenHash, codeSalt, codeHash, ip,
-- userAgent, requestId }; the hashes and the salt are in hex. Returns { credentialId, email, expiresAt } or { refused:
-- forbidden | oneself | not_found | inactive | switched_off }. Returns { refused: just_sent, retryAfterSeconds } if the
-- previous credential is too recent to be replaced. Voids the earlier credentials for the same email.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.issue_recovery_credential(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  override private.recovery_overrides;
  issued private.recovery_credentials;
  refused text;
  wait interval;
begin
  select * into override from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid for update;
  refused := coalesce(
    private.recovery_actor_refusal(request, override.email),
    case
      when override.id is null then 'not_found'
      when override.revoked_at is not null or override.expires_at <= now() then 'inactive'
      when not override.recovery_email then 'switched_off'
    end
  );
  if refused is null then
    select max(c.created_at) + private.mail_pause() - now() into wait
    from private.recovery_credentials c
    where c.override_id = override.id and c.consumed_at is null and c.superseded_at is null
      and c.created_at > now() - private.mail_pause();
    if wait is not null then
      return jsonb_build_object(
        'refused', 'just_sent', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer
      );
    end if;
  end if;
  if refused in ('inactive', 'switched_off') then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', refused, 'email', override.email)
    );
  end if;
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  -- Supersedes used credentials too. Otherwise release_recovery_credential could make an old credential valid alongside
  -- the new one.
  update private.recovery_credentials c
  set superseded_at = now()
  where c.email = override.email and c.superseded_at is null;
  insert into private.recovery_credentials (override_id, email, token_hash, code_salt, code_hash)
  values (
    override.id, override.email, decode(request ->> 'tokenHash', 'hex'), decode(request ->> 'codeSalt', 'hex'),
    decode(request ->> 'codeHash', 'hex')
  )
  returning * into issued;
  perform private.record_recovery_event(request || jsonb_build_object(
    'kind', 'send', 'outcome', 'issued', 'email', override.email, 'credentialId', issued.id
  ));
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.send',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = override.email limit 1),
    'target', override.email,
    'after', jsonb_build_object('overrideId', override.id, 'expiresAt', issued.expires_at)
  ));
  return jsonb_build_object('credentialId', issued.id, 'email', issued.email, 'expiresAt', issued.expires_at);
end
$$;

-- Creates an override. Takes { actor, email, reason, normalLogin, recoveryEmail, lifetimeSeconds, ip, userAgent,
-- requestId }. lifetimeSeconds is 7 days by default. Returns { overrideId, expiresAt } or { refused: forbidden |
-- oneself | lifetime | active }.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.create_recovery_override(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  for_email text := lower(trim(request ->> 'email'));
  lifetime interval := make_interval(secs => coalesce((request ->> 'lifetimeSeconds')::bigint, 7 * 86400));
  refused text := private.recovery_actor_refusal(request, for_email);
  new_override private.recovery_overrides;
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  if lifetime <= interval '0' or lifetime > interval '30 days' then
    return jsonb_build_object('refused', 'lifetime');
  end if;
  -- Concurrent calls for the same email run one after another.
  perform pg_advisory_xact_lock(hashtextextended('private.recovery_overrides ' || for_email, 0));
  if exists (select from private.active_recovery_override(for_email)) then
    return jsonb_build_object('refused', 'active');
  end if;
  insert into private.recovery_overrides (email, reason, normal_login, recovery_email, created_by, expires_at)
  values (
    for_email, request ->> 'reason', (request ->> 'normalLogin')::boolean, (request ->> 'recoveryEmail')::boolean,
    (request ->> 'actor')::uuid, now() + lifetime
  )
  returning * into new_override;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'create', 'outcome', 'created', 'email', for_email, 'overrideId', new_override.id)
  );
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.create',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = for_email limit 1),
    'target', for_email,
    'after', to_jsonb(new_override)
  ));
  return jsonb_build_object('overrideId', new_override.id, 'expiresAt', new_override.expires_at);
end
$$;

-- Revokes an override. Takes { actor, overrideId, reason, ip, userAgent, requestId }. Returns {} or { refused:
-- forbidden | oneself | not_found | inactive }. Every link and code that was sent under the override becomes invalid.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.revoke_recovery_override(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  old_override private.recovery_overrides;
  revoked_override private.recovery_overrides;
  refused text;
begin
  select * into old_override from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid;
  refused := private.recovery_actor_refusal(request, old_override.email);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  update private.recovery_overrides o
  set revoked_at = now(), revoked_by = (request ->> 'actor')::uuid
  where o.id = old_override.id and o.revoked_at is null and o.expires_at > now()
  returning * into revoked_override;
  if old_override.id is null then
    return '{"refused": "not_found"}';
  end if;
  if revoked_override.id is null then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', 'inactive', 'email', old_override.email)
    );
    return '{"refused": "inactive"}';
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'revoke', 'outcome', 'revoked', 'email', revoked_override.email)
  );
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.revoke',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = revoked_override.email limit 1),
    'target', revoked_override.email,
    'before', to_jsonb(old_override),
    'after', to_jsonb(revoked_override)
  ));
  return '{}';
end
$$;

-- Returns who last changed a target, and the time of the change: { actorEmail (or the name of a service account), at }. If
-- a change is refused as a conflict, the result names who made the earlier change.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.last_admin_action(of_target text) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'actorEmail', coalesce((select u.email from auth.users u where u.id = l.actor_id), l.service_account_name),
    'at', l.created_at
  )
  from private.admin_audit_log l
  where l.target = of_target
  order by l.created_at desc, l.id desc
  limit 1
$$;

-- Adds one line to the audit log in the transaction of the change. Arguments: change { actor or serviceAccount, reason,
-- requestId, ip } and act { action, targetUserId, target, targetName, before, after }. targetName is kept after the
-- target is deleted, so it must not name a personal workspace. The service account's name is kept as well.
create or replace function private.record_admin_action(change jsonb, act jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.admin_audit_log (
    actor_id, service_account_id, service_account_name, action, target_user_id, target, target_name, reason, before, after,
    request_id, ip
  )
  values (
    (change ->> 'actor')::uuid, (change ->> 'serviceAccount')::uuid,
    (select s.name from private.service_accounts s where s.id = (change ->> 'serviceAccount')::uuid),
    act ->> 'action', (act ->> 'targetUserId')::uuid, act ->> 'target', left(act ->> 'targetName', 320),
    change ->> 'reason', nullif(act -> 'before', 'null'), nullif(act -> 'after', 'null'), change ->> 'requestId',
    (change ->> 'ip')::inet
  )
$$;

-- Returns whether a service account of the platform is in force and has the scope.
create or replace function private.service_account_may(account_id uuid, scope text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from private.service_accounts s
    where s.id = account_id and s.workspace_id is null and s.enabled and s.revoked_at is null
      and s.expires_at > now() and scope = any (s.scopes)
  )
$$;

-- Returns the person who must not gain from a change: its actor, or the person who is responsible for the service
-- account. Null once that person's account is deleted.
create or replace function private.responsible_person(change jsonb) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (change ->> 'actor')::uuid,
    (select s.created_by from private.service_accounts s where s.id = (change ->> 'serviceAccount')::uuid)
  )
$$;

-- Advances the mark and adds changed runs to the sums, in steps. Also sums again older days whose sums lack details.
-- Passes the end of at most max_days days, and sums at most max_days older days. Begins no step after two seconds; the
-- next call continues. Only one caller works at a time; others return 0. Returns the number of days that it completed,
-- and at least 1 if it stopped early.
-- Definer: the service role may not write the sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  stop_at timestamptz := clock_timestamp() + interval '2 seconds';
  whole_until timestamptz;
  mark timestamptz;
  completed integer := 0;
  step_changes integer := 20000;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  whole_until := ai.advance_usage_fence();
  perform ai.count_events(whole_until);
  mark := ai.usage_mark_for_clock();
  while ai.add_usage_changes(step_changes) >= step_changes and clock_timestamp() < stop_at loop
  end loop;
  while mark < whole_until and completed < max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    mark := ai.sum_usage_until(whole_until);
    perform ai.record_hour();
    if mark = date_trunc('day', mark, 'UTC') then
      perform ai.seal_usage_day((mark at time zone 'UTC')::date - 1);
      completed := completed + 1;
    end if;
  end loop;
  for older_day in 1..max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    exit when ai.detail_older_usage_days(1) = 0;
    completed := completed + 1;
  end loop;
  return completed;
end
$$;

-- Stores the counters at the first roll-up that has counted all runs before an hour. Deletes hours that are more than 40
-- days old, and those that are ahead because the clock was set back.
create or replace function ai.record_hour() returns void
  language sql volatile security invoker set search_path = ''
as $$
  with latest as materialized (
    select date_trunc('hour', p.runs_counted_until, 'UTC') as hour from ai.usage_progress p
  ), deleted as (
    delete from ai.hourly_totals h using latest l where h.hour > l.hour or h.hour < l.hour - interval '40 days'
  )
  insert into ai.hourly_totals (hour, runs, failed_runs, refused_calls, cost_usd)
  select l.hour, t.runs, t.failed_runs, t.refused_calls, t.cost_usd
  from latest l
  cross join lateral (
    select
      coalesce(sum(c.total) filter (where c.figure = 'runs'), 0) as runs,
      coalesce(sum(c.total) filter (where c.figure = 'failed_runs'), 0) as failed_runs,
      coalesce(sum(c.total) filter (where c.figure = 'refused_calls'), 0) as refused_calls,
      coalesce(sum(c.total) filter (where c.figure = 'cost_usd'), 0) as cost_usd
    from ai.totals c
  ) as t
  where not exists (select from ai.hourly_totals h where h.hour = l.hour)
$$;

-- Returns what is usual from the beginning of a UTC day up to a time of it: { runs, failedRuns, refusedCalls, costUsd },
-- the mean of the last four days with the same weekday. Counts the current hour in proportion. Skips days without the
-- counters of an hour; null if no such day was counted.
create or replace function private.read_usual_day(at timestamptz default now()) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case when count(*) > 0 then jsonb_build_object(
    'runs', round(avg(d.runs)),
    'failedRuns', round(avg(d.failed_runs)),
    'refusedCalls', round(avg(d.refused_calls)),
    'costUsd', trim_scale(round(avg(d.cost_usd), 12))::text
  ) end
  from (
    select
      h.runs + (n.runs - h.runs) * m.share - s.runs as runs,
      h.failed_runs + (n.failed_runs - h.failed_runs) * m.share - s.failed_runs as failed_runs,
      h.refused_calls + (n.refused_calls - h.refused_calls) * m.share - s.refused_calls as refused_calls,
      h.cost_usd + (n.cost_usd - h.cost_usd) * m.share - s.cost_usd as cost_usd
    from generate_series(1, 4) as w (weeks)
    cross join lateral (
      select
        date_trunc('hour', at, 'UTC') - w.weeks * interval '168 hours' as hour,
        extract(epoch from at - date_trunc('hour', at, 'UTC')) / 3600 as share
    ) as m
    join ai.hourly_totals s on s.hour = date_trunc('day', m.hour, 'UTC')
    join ai.hourly_totals h on h.hour = m.hour
    join ai.hourly_totals n on n.hour = m.hour + interval '1 hour'
  ) as d
$$;

-- Returns the emails that are due, oldest outage first: [{ id, kind (began or ended), provider, beganAt, endedAt,
-- failure, status, routes: [{ model, endpoint }], ending, callers }]. An outage that ended before its first email has
-- none. ending says why it ended: answered, disabled or quiet (without an answer). callers is set if the outage began, as
-- private.count_failed_callers() returns it.
-- Definer: functions that read runs are not granted to the service role.
create or replace function ai.sweep_outage_mails(max_mails integer default 100) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', (d.o).id,
    'kind', d.kind,
    'provider', (d.o).provider_id,
    'beganAt', ai.utc_text((d.o).began_at),
    'endedAt', ai.utc_text((d.o).ended_at),
    'failure', (d.o).failure,
    'status', (d.o).status,
    'routes', (d.o).routes,
    'ending', case
      when d.kind = 'began' then null
      when not private.has_enabled_route(d.o) then 'disabled'
      when exists (
        select from ai.route_health h
        where h.provider_id = (d.o).provider_id and h.answered_at > (d.o).began_at
          and (d.o).routes @> jsonb_build_array(jsonb_build_object('model', h.provider_model, 'endpoint', h.endpoint))
      ) then 'answered'
      else 'quiet'
    end,
    'callers', case when d.kind = 'began' then private.count_failed_callers((d.o).provider_id, (d.o).began_at) end
  ) order by (d.o).began_at, (d.o).id), '[]')
  from (
    select o, k.kind
    from ai.provider_outages o
    cross join lateral (select ai.due_outage_mail(o) as kind) as k
    where k.kind is not null
    order by o.began_at, o.id
    limit max_mails
  ) as d
$$;

-- Queues an email of ai.sweep_outage_mails() for each recipient, and marks it as queued in the same statement, so that
-- concurrent callers queue it only once. Returns the number of emails; 0 if it was already queued, or if the outage
-- ended before its first email.
-- Definer: the service role cannot write outages or read Supabase Auth's email addresses.
create or replace function ai.queue_outage_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.provider_outages o
    set
      began_mailed_at = coalesce(o.began_mailed_at, now()),
      ended_mailed_at = case when alert ->> 'kind' = 'ended' then now() end
    where o.id = (alert ->> 'id')::uuid and ai.due_outage_mail(o) = alert ->> 'kind'
    returning o.id
  ), queued as (
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select u.email, queue_outage_mails.subject, queue_outage_mails.body, now()
    from marked
    cross join private.infrastructure_admins p
    join auth.users u on u.id = p.user_id
    where private.is_emailed_about_outages(p.user_id) and ai.can_be_emailed(u)
    returning id
  )
  select count(*)::integer from queued
$$;

-- Returns ai.route_state, but failing for a skipped route if no enabled model has another route: the gateway then calls it
-- during a cooldown, too.
create or replace function private.shown_route_state(health ai.route_health, at timestamptz) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when s.state = 'skipped' and not exists (
      select
      from ai.model_routes r
      join ai.models m on m.id = r.model_id and m.enabled
      join ai.model_routes other on other.model_id = r.model_id and other.enabled and other.position <> r.position
      where r.enabled and r.provider_id = (health).provider_id and r.provider_model = (health).provider_model
    ) then 'failing'
    else s.state
  end
  from (select ai.route_state(health, at) as state) as s
$$;

-- Returns the routes of enabled models that are failing or skipped at a time, with their state.
create or replace function private.list_troubled_routes(at timestamptz)
  returns table (provider_id text, state text, since timestamptz, health ai.route_health)
  language sql stable security invoker set search_path = ''
as $$
  select h.provider_id, s.state, coalesce(h.failing_since, h.failed_at, h.reported_at), h
  from ai.route_health h
  cross join lateral (select private.shown_route_state(h, at) as state) as s
  where s.state in ('failing', 'skipped')
    and exists (
      select from ai.model_routes r
      join ai.models m on m.id = r.model_id and m.enabled
      where r.enabled and r.provider_id = h.provider_id and r.provider_model = h.provider_model
    )
$$;

-- Returns the providers that have an open outage or troubled routes at a time, and since when.
create or replace function private.list_troubled_providers(at timestamptz)
  returns table (provider_id text, outage_since timestamptz, since timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select t.provider_id, min(t.outage_since), least(min(t.outage_since), min(t.since))
  from (
    select o.provider_id, o.began_at as outage_since, o.began_at as since
    from ai.provider_outages o
    where o.ended_at is null
    union all
    select r.provider_id, null, r.since
    from private.list_troubled_routes(at) r
  ) as t
  group by t.provider_id
$$;

-- Returns how many providers have an outage or a troubled route now.
-- Definer: ai.route_state is not granted to the service role.
create or replace function private.count_provider_trouble() returns integer
  language sql stable security definer set search_path = ''
as $$
  select count(*)::integer from private.list_troubled_providers(now())
$$;

-- Returns the providers that have an outage or a troubled route now, outages first, at most ten: [{ providerId,
-- outageSince, routes: [{ model (the provider's name), endpoint, state (failing or skipped), since, skippedUntil,
-- failure, status }] (at most 20), callers: { calls, answeredElsewhere, failed: [{ status, code, calls }] } }]. callers
-- counts the calls that failed at the provider since its trouble began, at most an hour ago, by what their callers got.
-- Definer: functions that read runs are not granted to the service role.
create or replace function private.read_provider_trouble() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'providerId', p.provider_id,
    'outageSince', p.outage_since,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'model', (r.health).provider_model,
        'endpoint', (r.health).endpoint,
        'state', r.state,
        'since', r.since,
        'skippedUntil', case when r.state = 'skipped' then (r.health).skipped_until end,
        'failure', (r.health).failure,
        'status', (r.health).status
      ) order by r.since, (r.health).provider_model, (r.health).endpoint), '[]')
      from (
        select * from private.list_troubled_routes(now()) t
        where t.provider_id = p.provider_id
        order by t.since, (t.health).provider_model, (t.health).endpoint
        limit 20
      ) as r
    ),
    'callers', private.count_failed_callers(p.provider_id, greatest(p.since, now() - interval '1 hour'))
  ) order by p.outage_since, p.since, p.provider_id), '[]')
  from (
    select * from private.list_troubled_providers(now()) t order by t.outage_since, t.since, t.provider_id limit 10
  ) as p
$$;

-- Returns { routes, count }: the enabled routes of enabled models by provider and its name of the model, those in trouble
-- first and those without recent calls last, at most max_rows, and how many there are. A route is { provider,
-- providerModel, models (display names), endpoint, state, since, skippedUntil, failure, status, failedAt, answeredAt }.
-- endpoint is null if the gateway has not reported the route. Reads no runs, of which there may be many in an hour.
-- Definer: ai.route_state is not granted to the service role.
create or replace function private.list_route_states(max_rows integer default 25) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with routes as (
    select
      r.provider_id, r.provider_model, (array_agg(distinct m.display_name order by m.display_name))[:3] as models
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id, r.provider_model
  ), states as (
    select r.*, h, coalesce(private.shown_route_state(h, now()), 'quiet') as state
    from routes r
    left join ai.route_health h on h.provider_id = r.provider_id and h.provider_model = r.provider_model
  ), listed as (
    select s.*, row_number() over (
      order by array_position(array['skipped', 'failing', 'working', 'quiet'], s.state),
        (now() - (s.h).failed_at < interval '1 hour') is not true, s.provider_id, s.provider_model, (s.h).endpoint
    ) as place
    from states s
    order by place
    limit max_rows
  )
  select jsonb_build_object(
    'count', (select count(*) from states),
    'routes', coalesce(jsonb_agg(jsonb_build_object(
      'provider', l.provider_id,
      'providerModel', l.provider_model,
      'models', l.models,
      'endpoint', (l.h).endpoint,
      'state', l.state,
      'since', case when l.state in ('skipped', 'failing') then coalesce((l.h).failing_since, (l.h).failed_at) end,
      'skippedUntil', case when l.state = 'skipped' then (l.h).skipped_until end,
      'failure', (l.h).failure,
      'status', (l.h).status,
      'failedAt', (l.h).failed_at,
      'answeredAt', (l.h).answered_at
    ) order by l.place), '[]')
  )
  from listed l
$$;

-- Returns whether a change in the console may be made. The change names either actor, an infrastructure admin, or
-- serviceAccount, a service account of the platform with the scope. Changes that only a person may make ask
-- private.is_infrastructure_admin instead.
create or replace function private.may_change_console(change jsonb, scope text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select case num_nonnulls(change ->> 'actor', change ->> 'serviceAccount')
    when 1 then private.is_infrastructure_admin((change ->> 'actor')::uuid)
      or private.service_account_may((change ->> 'serviceAccount')::uuid, scope)
    else false
  end
$$;

-- Returns why an admin must not approve or decline a workspace's keys. Returns null if the admin may.
create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when not private.may_change_console(change, 'admin:approvals:write') then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when (workspace).personal_user_id = private.responsible_person(change) then jsonb_build_object('refused', 'oneself')
  end
$$;

-- Returns how many rows of each kind need a person, up to 1,001, and since when: { approvals, months, importers,
-- recoveries, providers }, each { count, since }, and also { budgets, credits, mails, jobs } unless in_menu is set, since
-- the menu has no section for them. since is the earliest time or day, or null if it is unknown. cost_providers are the
-- providers whose costs are imported automatically.
-- Definer: functions that read budgets, runs, books and accounts are not granted to the service role.
create or replace function private.read_attention(cost_providers text[], in_menu boolean default false) returns jsonb
  language sql stable security definer set search_path = '' set jit = off
as $$
  select jsonb_build_object(
    'approvals', (
      select jsonb_build_object('count', private.count_approval_requests(), 'since', (
        select q.requested_at
        from ai.key_approval_requests q
        join public.workspaces w on w.id = q.workspace_id and w.deleted_at is null
        where q.state = 'open'
        order by q.requested_at
        limit 1
      ))
    ),
    'months', (
      select jsonb_build_object('count', count(*), 'since', min(m)) from private.unreconciled_months() m
    ),
    'importers', (
      select jsonb_build_object('count', count(*), 'since', null) from private.failing_importers(cost_providers)
    ),
    'recoveries', (
      select jsonb_build_object('count', count(*), 'since', min(r.since)) from private.unfinished_recoveries(1001) r
    ),
    'providers', (
      select jsonb_build_object('count', private.count_provider_trouble(), 'since', min(t.since))
      from private.list_troubled_providers(now()) t
    )
  ) || case when in_menu then '{}' else jsonb_build_object(
    'budgets', (
      select jsonb_build_object('count', count(*), 'since', min(b.refused_at)) from private.used_up_budgets(1001) b
    ),
    'credits', (
      select jsonb_build_object('count', count(*), 'since', min(a.refused_at)) from private.used_up_credits(1001) a
    ),
    'mails', (
      select jsonb_build_object('count', count(*), 'since', min(o.created_at))
      from (
        select m.created_at
        from private.outgoing_mails m
        where m.attempts >= 12 or m.next_attempt_at < now() - interval '15 minutes'
        order by m.created_at
        limit 1001
      ) o
    ),
    'jobs', (select jsonb_build_object('count', count(*), 'since', min(j.since)) from private.late_jobs() j)
  ) end
$$;

-- Returns what the console's overview shows: { attention, providers, approvals, budgets, credits, months, importers,
-- mails, jobs, recoveries, today, usual }. attention is private.read_attention, providers is
-- private.read_provider_trouble, usual is private.read_usual_day, and the lists have at most 10 rows. mails is { failed,
-- waiting }, each up to 1,001. today is { calls, failed, refused, costUsd } since midnight (UTC), as on the page about
-- providers.
-- Definer: functions that read budgets, runs, books and accounts are not granted to the service role.
create or replace function private.read_overview(cost_providers text[]) returns jsonb
  language sql stable security definer set search_path = '' set jit = off
as $$
  select jsonb_build_object(
    'attention', private.read_attention(cost_providers),
    'providers', private.read_provider_trouble(),
    'approvals', private.list_approval_requests(null, 10),
    'budgets', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'workspaceId', b.workspace_id,
        'workspace', w.name,
        'scope', b.scope,
        'subjectId', b.subject_id,
        'name', ai.budget_name(b.scope, b.subject_id, b.workspace_id),
        'period', b.period,
        'limitUsd', trim_scale(b.limit_usd)::text,
        'refusedAt', b.refused_at
      ) order by b.refused_at desc, b.subject_id, b.period), '[]')
      from private.used_up_budgets(10) b
      join public.workspaces w on w.id = b.workspace_id
    ),
    'credits', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'payer', case when a.workspace_id is null then 'member' else 'workspace' end,
        'ownerId', coalesce(a.workspace_id, a.user_id),
        'name', coalesce(
          (select w.name::text from public.workspaces w where w.id = a.workspace_id),
          (select u.email::text from auth.users u where u.id = a.user_id)
        ),
        'available', trim_scale(a.balance - a.reserved)::text,
        'refusedAt', a.refused_at
      ) order by a.refused_at desc, a.id), '[]')
      from private.used_up_credits(10) a
    ),
    'months', (
      select coalesce(jsonb_agg(to_char(m.day, 'YYYY-MM') order by m.day), '[]')
      from (select d as day from private.unreconciled_months() d limit 10) m
    ),
    'importers', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'failures', i.failures, 'lastError', i.last_error,
        'lastCompleteDay', i.last_complete_day, 'missedDays', i.missed_days
      )), '[]')
      from (select * from private.failing_importers(cost_providers) limit 10) i
    ),
    'mails', jsonb_build_object(
      'failed', (
        select count(*) from (select from private.outgoing_mails m where m.attempts >= 12 limit 1001) f
      ),
      'waiting', (
        select count(*) from (
          select from private.outgoing_mails m
          where m.attempts < 12 and m.next_attempt_at < now() - interval '15 minutes'
          limit 1001
        ) f
      )
    ),
    'jobs', (select coalesce(jsonb_agg(jsonb_build_object('job', j.job, 'since', j.since)), '[]') from private.late_jobs() j),
    'recoveries', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', r.kind, 'userId', r.user_id, 'email', r.email, 'since', r.since, 'endsAt', r.ends_at
      ) order by r.since, r.email), '[]')
      from private.unfinished_recoveries(10) r
    ),
    'today', (
      select jsonb_build_object(
        'calls', coalesce(sum(t.requests), 0),
        'failed', coalesce(sum(t.failed), 0),
        'refused', private.refused_calls_of(d.day),
        'costUsd', trim_scale(coalesce(sum(t.cost_usd), 0))::text
      )
      from (select (now() at time zone 'UTC')::date as day) d
      left join lateral ai.platform_usage(d.day, d.day) t on true
      group by d.day
    ),
    'usual', private.read_usual_day()
  )
$$;

-- Returns { models, states, limits, usage } for the page about providers. models is the page after the given model,
-- states are those of the routes, and usage covers the days.
create or replace function private.read_providers_state(
  after text[], page_size integer, first_day date, last_day date
)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'models', private.list_provider_routes(after, page_size),
    'states', private.list_route_states(),
    'limits', private.list_provider_limits(),
    'usage', private.list_provider_usage(first_day, last_day)
  )
$$;

-- Returns whether a change of apps may be made. A change that names neither an actor nor a service account comes from the
-- command line. All others must be allowed in the console.
create or replace function private.may_change_apps(change jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select num_nonnulls(change ->> 'actor', change ->> 'serviceAccount') = 0
    or private.may_change_console(change, 'admin:apps:write')
$$;

grant execute on function ai.queue_outage_mails(jsonb, text, text) to service_role;

grant execute on function ai.record_provider_outages() to service_role;

grant execute on function ai.report_routes(jsonb) to gateway;

grant execute on function ai.sweep_outage_mails(integer) to service_role;

grant execute on function private.count_provider_trouble() to service_role;

grant execute on function private.is_emailed_about_outages(uuid) to service_role;

grant execute on function private.list_route_states(integer) to service_role;

grant execute on function private.list_spending(text, date, date, text, boolean, jsonb, integer) to service_role;

grant execute on function private.may_change_console(jsonb, text) to service_role;

grant execute on function private.read_attention(text[], boolean) to service_role;

grant execute on function private.read_overview(text[]) to service_role;

grant execute on function private.read_provider_trouble() to service_role;

grant execute on function private.read_providers_state(text[], integer, date, date) to service_role;

grant execute on function private.read_usual_day(timestamp with time zone) to service_role;

grant execute on function private.responsible_person(jsonb) to service_role;

grant execute on function private.service_account_may(uuid, text) to service_role;

grant execute on function private.set_outage_mails(jsonb) to service_role;

notify pgrst, 'reload schema';
