-- Generated from supabase/schemas by npm run db:migration.

create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'email_changed', 'identity_linked',
    'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_used',
    'recovery_codes_created', 'session_revoked', 'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

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
    select coalesce(jsonb_agg(private.describe_account(u) order by u.email, u.id), '[]')
    from auth.users u
    where u.id = any (found_ids)
  );
end
$$;

-- Definer: accounts are the identity backend's, which the service role cannot read.
create or replace function private.list_accounts(before jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A plan for every position reads all accounts.
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

create or replace function private.describe_account(account auth.users) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', account.id,
    'email', account.email,
    'displayName', p.display_name,
    'singleSignOn', account.is_sso_user,
    'admin', exists (select from private.infrastructure_admins a where a.user_id = account.id),
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

-- Definer: sessions are Supabase Auth's, and app tokens the gateway's, which the service role cannot write.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  account record;
  ended integer;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = (change ->> 'subject')::uuid then
    return jsonb_build_object('refused', 'oneself');
  end if;
  select u.id, u.email into account from auth.users u where u.id = (change ->> 'subject')::uuid and u.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  ended := private.end_all_access(account.id);
  perform private.add_account_event(account.id, 'signed_out_by_admin') where ended > 0;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.sign_out',
    'targetUserId', account.id,
    'target', account.email,
    'before', jsonb_build_object('sessions', ended),
    'after', jsonb_build_object('sessions', 0)
  ));
  return '{}';
end
$$;

-- Definer: sessions and admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_address_blocks(
  of_address inet default null,
  subject_id uuid default null,
  page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  networks cidr[] := case
    when of_address is not null then array[private.address_network(of_address)]
    when subject_id is not null then private.recent_networks(subject_id)
  end;
begin
  return (
    select coalesce(jsonb_agg(private.describe_address_block(b) order by b.blocked_until desc, b.id), '[]')
    from (
      select *
      from private.address_blocks l
      where (networks is null or l.address = any (networks))
        -- An address that was searched for also shows the blocks of the past.
        and (of_address is not null or (l.blocked_until > now() and l.lifted_at is null))
      order by l.blocked_until desc, l.id
      limit page_size
    ) b
  );
end
$$;

create or replace function private.recent_networks(subject_id uuid) returns cidr[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(array_agg(distinct private.address_network(a.ip)), '{}')
  from (
    (
      select e.ip from public.security_events e
      where e.user_id = subject_id and e.ip is not null
      order by e.created_at desc
      limit 50
    )
    union all
    (
      select s.ip from auth.sessions s
      where s.user_id = subject_id and s.ip is not null
      order by s.refreshed_at desc nulls last
      limit 50
    )
  ) a
$$;

create or replace function private.describe_address_block(block private.address_blocks) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', block.id,
    -- As inet a single address has no mask.
    'address', block.address::inet,
    'action', block.action,
    'level', block.level,
    'blockedAt', block.blocked_at,
    'blockedUntil', block.blocked_until,
    'active', block.lifted_at is null and block.blocked_until > now(),
    'liftedAt', block.lifted_at,
    'liftedBy', (select u.email from auth.users u where u.id = block.lifted_by),
    'liftReason', block.lift_reason
  )
$$;

create or replace function private.lift_address_block(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  block private.address_blocks;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
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

-- Definer: as private.set_key_approval.
create or replace function private.decline_key_approval(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  workspace public.workspaces := private.lock_approvable_workspace(change);
  refusal jsonb := private.approval_refusal(change, workspace);
  answered ai.key_approval_requests;
begin
  if refusal is not null then
    return refusal;
  end if;
  if not private.lock_open_request(change, workspace.id) then
    return jsonb_build_object('refused', 'request_gone');
  end if;
  answered := private.answer_approval_request(change, workspace.id);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'ai_keys.decline',
    'target', 'workspace ' || workspace.id,
    'before', jsonb_build_object(
      'state', 'open', 'requestedAt', answered.requested_at, 'requestedBy', answered.requested_by, 'note', answered.note
    ),
    'after', jsonb_build_object('state', 'declined')
  ));
  return '{}';
end
$$;

create or replace function private.lock_open_request(change jsonb, workspace uuid) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform
  from ai.key_approval_requests q
  where q.workspace_id = workspace and q.state = 'open' and q.requested_at = (change ->> 'requestedAt')::timestamptz
  for no key update;
  return found;
end
$$;

create or replace function private.answer_approval_request(change jsonb, workspace uuid) returns ai.key_approval_requests
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  approved boolean := coalesce((change ->> 'approved')::boolean, false);
  answered ai.key_approval_requests;
begin
  update ai.key_approval_requests q
  set
    state = case when approved then 'approved' else 'declined' end,
    answered_at = now(),
    decline_reason = case when not approved then change ->> 'reason' end
  where q.workspace_id = workspace and q.state = 'open'
  returning * into answered;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, change #>> '{email,subject}', change #>> '{email,text}', now()
  from public.workspace_members m
  join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id
  join auth.users u on u.id = m.user_id
  where m.workspace_id = answered.workspace_id
    and (r.is_owner or m.user_id = answered.requested_by)
    and ai.can_be_emailed(u);
  return answered;
end
$$;

-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_approval_requests(after jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A plan for every position reads all open requests.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((after ->> 'createdAt')::timestamptz, '-infinity');
  last_id uuid := coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000');
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', q.workspace_id,
      'name', q.name,
      'plan', q.plan_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id and r.is_owner
        join auth.users u on u.id = m.user_id
        where m.workspace_id = q.workspace_id
      ),
      'createdAt', q.requested_at,
      'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
      'note', q.note
    ) order by q.requested_at, q.workspace_id), '[]')
    from (
      select o.*, w.name, w.plan_id
      from ai.key_approval_requests o
      join public.workspaces w on w.id = o.workspace_id and w.deleted_at is null
      where o.state = 'open' and (o.requested_at, o.workspace_id) > (last_at, last_id)
      order by o.requested_at, o.workspace_id
      limit page_size
    ) q
  );
end
$$;

create or replace function private.count_approval_requests(most integer default 1001) returns integer
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*)::integer
  from (
    select
    from ai.key_approval_requests q
    join public.workspaces w on w.id = q.workspace_id and w.deleted_at is null
    where q.state = 'open'
    limit most
  ) o
$$;

create or replace function private.record_admin_action(change jsonb, act jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, before, after, request_id, ip)
  values (
    (change ->> 'actor')::uuid, act ->> 'action', (act ->> 'targetUserId')::uuid, act ->> 'target', change ->> 'reason',
    nullif(act -> 'before', 'null'), nullif(act -> 'after', 'null'), change ->> 'requestId', (change ->> 'ip')::inet
  )
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
      'approvedBy', (select u.email from auth.users u where u.id = w.approved_by),
      'request', (
        select jsonb_build_object(
          'requestedAt', q.requested_at,
          'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
          'note', q.note
        )
        from ai.key_approval_requests q
        where q.workspace_id = w.id and q.state = 'open'
      )
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

-- Definer: answering a request writes ai.key_approval_requests, and reads Supabase Auth's email addresses.
create or replace function private.set_key_approval(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  approve boolean := (change ->> 'approved')::boolean;
  workspace public.workspaces;
  known ai.key_approvals;
  made ai.key_approvals;
  refusal jsonb;
  target text;
begin
  select * into workspace from private.lock_approvable_workspace(change);
  refusal := private.approval_refusal(change, workspace);
  if refusal is not null then
    return refusal;
  end if;
  target := 'workspace ' || workspace.id;
  select * into known from ai.key_approvals a where a.workspace_id = workspace.id;
  if found = approve then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if approve then
    if change ->> 'requestedAt' is not null and not private.lock_open_request(change, workspace.id) then
      return jsonb_build_object('refused', 'request_gone');
    end if;
    insert into ai.key_approvals (workspace_id, approved_by) values (workspace.id, actor) returning * into made;
    perform private.answer_approval_request(change, workspace.id);
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

create or replace function private.lock_approvable_workspace(change jsonb) returns public.workspaces
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- Held to the end, so that of two concurrent answers the second sees the first.
  select * from public.workspaces w where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null for no key update
$$;

create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid)
      then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when (workspace).personal_user_id = (change ->> 'actor')::uuid then jsonb_build_object('refused', 'oneself')
  end
$$;

-- Definer: functions about runs are not granted to the service role.
create or replace function private.list_provider_health() returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with failures as (
    select
      f.provider_id, f.failure, count(*) as failed, max(f.at) as last_at,
      count(*) filter (where f.at > now() - interval '1 hour') as last_hour
    from ai.failed_attempts f
    where f.at > now() - interval '24 hours'
    group by f.provider_id, f.failure
  ), answers as (
    -- The primary key of runs begins with their time.
    select ai.run_provider(r.routes, r.route) as provider_id, count(*) as answered, max(r.created_at) as last_at
    from ai.runs r
    where r.created_at > now() - interval '1 hour' and r.status = 'succeeded'
    group by 1
  ), routes as (
    select r.provider_id, count(*) as routes
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.id,
    'routes', coalesce(r.routes, 0),
    'answeredLastHour', coalesce(a.answered, 0),
    'lastAnswerAt', a.last_at,
    'failedLastHour', coalesce((select sum(f.last_hour) from failures f where f.provider_id = p.id), 0),
    'failures', (
      select coalesce(jsonb_agg(jsonb_build_object('failure', f.failure, 'failed', f.failed, 'lastAt', f.last_at)
        order by f.last_at desc, f.failure), '[]')
      from failures f
      where f.provider_id = p.id
    )
  ) order by p.id), '[]')
  from (
    select provider_id from routes union select provider_id from failures union select provider_id from answers
  ) as p (id)
  left join routes r on r.provider_id = p.id
  left join answers a on a.provider_id = p.id
  where p.id is not null
$$;

create or replace function private.list_skipped_routes(most integer default 50) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', s.model_id,
    'displayName', s.display_name,
    'provider', s.provider,
    'providerModel', s.provider_model,
    'skipped', s.skipped,
    'lastAt', s.last_at
  ) order by s.last_at desc, s.model_id, s.provider, s.provider_model), '[]')
  from (
    select r.model_id, max(m.display_name) as display_name, a.provider, a.model as provider_model, count(*) as skipped,
      max(r.created_at) as last_at
    from ai.runs r
    cross join lateral jsonb_to_recordset(r.attempts) as a (provider text, model text, failure text)
    left join ai.models m on m.id = r.model_id
    -- A cooldown takes at most five minutes, and its skipped attempts are stored when a run ends.
    where r.created_at > now() - interval '15 minutes' and r.attempts @> '[{"failure": "skipped"}]' and a.failure = 'skipped'
    group by r.model_id, a.provider, a.model
    order by last_at desc
    limit most
  ) s
$$;

-- Definer: as private.list_provider_health.
create or replace function private.list_provider_usage(first_day date, last_day date) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- Days are UTC's. A plan for every range reads all sums.
  set timezone = 'UTC'
  set plan_cache_mode = force_custom_plan
as $$
declare
  live_from date := (select s.before from ai.usage_sealed_days s);
  changed_days date[] := array(
    select distinct c.day from ai.usage_changed_days c where c.day between first_day and last_day and c.day < live_from
  );
begin
  return (
    with changed as (
      select distinct c.workspace_id, c.day
      from ai.usage_changed_days c
      where c.day = any (changed_days)
    ), parts as (
      -- Each part is grouped by itself: its groups are few, and are hashed rather than sorted.
      select u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd
      from ai.usage_daily u
      where u.day between first_day and least(last_day, live_from - 1) and u.day <> all (changed_days)
      group by u.provider_id, u.billing_name, u.billing_account
      union all
      select u.provider_id, u.billing_name, u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens),
        sum(u.output_tokens), sum(u.cost_usd)
      from ai.usage_daily u
      where u.day = any (changed_days) and (u.workspace_id, u.day) not in (select c.workspace_id, c.day from changed c)
      group by u.provider_id, u.billing_name, u.billing_account
      union all
      select s.provider_id, s.billing_name, s.billing_account, sum(s.requests), sum(s.failed), sum(s.input_tokens),
        sum(s.output_tokens), sum(s.cost_usd)
      from changed c
      cross join lateral ai.sum_usage(c.workspace_id, c.day::timestamptz, (c.day + 1)::timestamptz) as s
      group by s.provider_id, s.billing_name, s.billing_account
      union all
      select ai.run_provider(r.routes, r.route), r.billing_name, r.billing_account, count(*),
        count(*) filter (where r.status = 'failed'), sum(r.input_tokens), sum(r.output_tokens), sum(r.cost_usd)
      from ai.runs r
      where r.created_at >= greatest(first_day, live_from)::timestamptz and r.created_at < (last_day + 1)::timestamptz
      group by 1, 2, 3
    )
    select coalesce(jsonb_agg(jsonb_build_object(
      'provider', t.provider_id,
      'billingName', t.billing_name,
      'billingAccount', t.billing_account,
      'requests', t.requests,
      'failed', t.failed,
      'inputTokens', t.input_tokens,
      'outputTokens', t.output_tokens,
      'costUsd', trim_scale(t.cost_usd)::text
    ) order by t.cost_usd desc, t.provider_id, t.billing_name, t.billing_account), '[]')
    from (
      select p.provider_id, p.billing_name, p.billing_account, sum(p.requests) as requests, sum(p.failed) as failed,
        sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens, sum(p.cost_usd) as cost_usd
      from parts p
      group by p.provider_id, p.billing_name, p.billing_account
    ) t
  );
end
$$;

-- Definer: the service role writes no requests, and cannot read Supabase Auth's email addresses.
create or replace function ai.request_key_approval(member_id uuid, workspace uuid, note text, email jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  known ai.key_approval_requests;
  emails_admins boolean;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- One request of a member at a time: each counts the emails of those before it.
  perform pg_advisory_xact_lock(hashtextextended('ai.request_key_approval ' || member_id, 0));
  -- Approving and declining lock the workspace, too.
  perform from public.workspaces w where w.id = workspace and w.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select * into known from ai.key_approval_requests q where q.workspace_id = workspace;
  if known.state = 'open' or exists (select from ai.key_approvals a where a.workspace_id = workspace) then
    return ai.key_approval_state(workspace);
  end if;
  emails_admins := ai.may_email_admins(member_id, known);
  insert into ai.key_approval_requests as q (workspace_id, requested_by, note, admins_emailed_at)
  values (
    workspace, member_id, nullif(btrim(request_key_approval.note), ''),
    case when emails_admins then now() else known.admins_emailed_at end
  )
  on conflict (workspace_id) do update
  set
    requested_by = excluded.requested_by,
    requested_at = excluded.requested_at,
    note = excluded.note,
    state = 'open',
    answered_at = null,
    decline_reason = null,
    admins_emailed_at = excluded.admins_emailed_at;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_key_approval.email ->> 'subject', request_key_approval.email ->> 'text', now()
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
  where emails_admins and ai.can_be_emailed(u);
  return ai.key_approval_state(workspace);
end
$$;

-- Definer: the service role writes no requests.
create or replace function ai.withdraw_key_approval_request(member_id uuid, workspace uuid, requested_at timestamptz)
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  update ai.key_approval_requests q
  set state = 'withdrawn'
  where q.workspace_id = workspace and q.requested_at = withdraw_key_approval_request.requested_at and q.state = 'open';
  return ai.key_approval_state(workspace);
end
$$;

create or replace function ai.key_approval_state(workspace uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'request', (
      select jsonb_build_object(
        'state', q.state,
        'requestedAt', q.requested_at,
        'requestedBy', (select p.display_name from public.profiles p where p.id = q.requested_by),
        'note', q.note,
        'answeredAt', q.answered_at,
        'declineReason', q.decline_reason
      )
      from ai.key_approval_requests q
      where q.workspace_id = workspace
    )
  )
$$;

create or replace function ai.may_email_admins(member_id uuid, previous ai.key_approval_requests) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    not coalesce(previous.state = 'withdrawn' and previous.admins_emailed_at > now() - interval '24 hours', false)
    and (
      select count(*) < 5
      from ai.key_approval_requests q
      where q.requested_by = member_id and q.admins_emailed_at > now() - interval '24 hours'
    )
$$;

create or replace function ai.can_be_emailed(account auth.users) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    char_length(account.email) between 3 and 320
      and account.deleted_at is null
      and (account.banned_until is null or account.banned_until <= now()),
    false
  )
$$;

-- Definer: as private.list_address_blocks.
create or replace function private.read_address_block(block_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.describe_address_block(b) from private.address_blocks b where b.id = block_id
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_key_approval(member_id uuid, workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then ai.key_approval_state(workspace)
    else jsonb_build_object('outcome', 'not_allowed')
  end
$$;

comment on function private.record_admin_action(jsonb, jsonb) is
  'One line of the audit log: change { actor, reason, requestId, ip }, act { action, targetUserId, target, before, after }. In the '
  'transaction of what it tells.';

comment on function private.search_accounts(text, integer) is
  'The accounts whose id or whole email a text is; where there is none, those whose email or name contains it: '
  '[private.describe_account].';

comment on function private.search_workspaces(text, integer) is
  'Workspaces by id, or by a member''s whole email or id; where there is none, by a part of the name. For an empty text those '
  'that may make keys: '
  '[{ id, name, plan, personalUserId, owners, members, liveKeys, approvedAt, approvedBy, request: the open request, '
  '{ requestedAt, requestedBy, note }, or null }].';

comment on function private.set_key_approval(jsonb) is
  'Allows a workspace to create keys, or no longer: { actor, workspace, approved, reason, requestedAt, email, requestId, ip } → {} '
  'or { refused: forbidden | not_found | oneself (the actor''s personal workspace) | conflict (it is so already, with last) | '
  'request_gone (requestedAt names no open request) }. Approving answers an open request with email { subject, text }. '
  'Existing keys keep working.';

comment on function ai.can_be_emailed(auth.users) is 'Whether an account is active and has an email address.';

comment on function ai.key_approval_state(uuid) is
  'Whether a workspace is approved, and its latest request: { outcome: read, approved, request: { state: open | withdrawn | '
  'approved | declined, requestedAt, requestedBy, note, answeredAt, declineReason } or null }.';

comment on function ai.may_email_admins(uuid, ai.key_approval_requests) is
  'Whether a new request is emailed to infrastructure admins: not when it repeats one that was withdrawn, and at most five times '
  'a member in 24 hours. The queue lists every request.';

comment on function ai.read_key_approval(uuid, uuid) is
  'Returns ai.key_approval_state for a member with manage_ai_keys, or { outcome: not_allowed }.';

comment on function ai.request_key_approval(uuid, uuid, text, jsonb) is
  'Requests approval for a member with manage_ai_keys and queues one email { subject, text } for each infrastructure admin. '
  'Changes nothing if a request is open or the workspace is approved. Returns ai.key_approval_state or { outcome: not_allowed }.';

comment on function ai.withdraw_key_approval_request(uuid, uuid, timestamptz) is
  'Withdraws the open request made at a time. Changes nothing if it was answered or replaced. Returns ai.key_approval_state or '
  '{ outcome: not_allowed }.';

comment on function private.answer_approval_request(jsonb, uuid) is
  'Closes a workspace''s open request and queues an email to its owners and the requester. Does nothing without one.';

comment on function private.approval_refusal(jsonb, public.workspaces) is
  'Why an admin must not decide about a workspace''s approval; null if they may.';

comment on function private.count_approval_requests(integer) is 'How many requests are open, counted to a maximum.';

comment on function private.decline_key_approval(jsonb) is
  'Declines a workspace''s open request: { actor, workspace, requestedAt, reason, email, requestId, ip } → {} or { refused: forbidden | '
  'not_found | oneself | request_gone }. The workspace''s members see the reason.';

comment on function private.describe_account(auth.users) is
  'An account in the console''s lists: { id, email, displayName, singleSignOn, admin, policy, banned, confirmed, deleted, '
  'authenticators, lastSignInAt, createdAt }.';

comment on function private.describe_address_block(private.address_blocks) is
  'A block in the console: { id, address, action, level, blockedAt, blockedUntil, active, liftedAt, liftedBy, liftReason }.';

comment on function private.lift_address_block(jsonb) is
  'Lifts a block: { actor, block, reason, requestId, ip } → {} or { refused: forbidden | not_found | conflict (lifted already, with '
  'last) | expired }. Limits continue, and a lifted block does not lengthen the next one.';

comment on function private.list_accounts(jsonb, integer) is
  'A page of all accounts, newest first, deleted ones included: [private.describe_account]. before is { createdAt, id } of the '
  'last one of the page before.';

comment on function private.list_address_blocks(inet, uuid, integer) is
  'Address blocks as private.describe_address_block: all of an address''s network from the last 30 days, those in force of an '
  'account''s recent addresses, or all in force.';

comment on function private.list_approval_requests(jsonb, integer) is
  'A page of the open requests, oldest first: [{ id (of the workspace), name, plan, owners, createdAt, requestedBy, note }]. after '
  'is { createdAt, id } of the last one of the page before.';

comment on function private.list_provider_health() is
  'Each provider with enabled routes or recent calls: [{ provider, routes, answeredLastHour (runs), lastAnswerAt, failedLastHour '
  '(attempts), failures: of the last 24 hours by class, [{ failure, failed, lastAt }], latest class first }].';

comment on function private.list_provider_usage(date, date) is
  'What providers served over all workspaces from one UTC day to another, both included, by provider and billing account, highest '
  'cost first: [{ provider, billingName, billingAccount, requests, failed, inputTokens, outputTokens, costUsd }].';

comment on function private.list_skipped_routes(integer) is
  'Routes that runs of the last 15 minutes skipped because they were cooling down, latest first: [{ model, displayName, provider, '
  'providerModel, skipped (how often), lastAt }]. Cooldowns themselves are in the memory of the functions'' processes.';

comment on function private.lock_approvable_workspace(jsonb) is 'Locks the workspace of a change. Null if there is none.';

comment on function private.lock_open_request(jsonb, uuid) is
  'Locks the request that the admin saw, by its time. False if it is no longer open.';

comment on function private.read_address_block(uuid) is 'A block as private.describe_address_block; null if there is none.';

comment on function private.recent_networks(uuid) is
  'The networks of an account''s last 50 events and last 50 sessions.';

comment on function private.sign_account_out(jsonb) is
  'Signs an account out of every device and app and tells its owner: { actor, subject, reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | oneself }. Repeating it is harmless.';

grant execute on function ai.read_key_approval(uuid, uuid) to service_role;

grant execute on function ai.request_key_approval(uuid, uuid, text, jsonb) to service_role;

grant execute on function ai.withdraw_key_approval_request(uuid, uuid, timestamp with time zone) to service_role;

grant execute on function private.count_approval_requests(integer) to service_role;

grant execute on function private.decline_key_approval(jsonb) to service_role;

grant execute on function private.lift_address_block(jsonb) to service_role;

grant execute on function private.list_accounts(jsonb, integer) to service_role;

grant execute on function private.list_address_blocks(inet, uuid, integer) to service_role;

grant execute on function private.list_approval_requests(jsonb, integer) to service_role;

grant execute on function private.list_provider_health() to service_role;

grant execute on function private.list_provider_usage(date, date) to service_role;

grant execute on function private.list_skipped_routes(integer) to service_role;

grant execute on function private.read_address_block(uuid) to service_role;

grant execute on function private.sign_account_out(jsonb) to service_role;
