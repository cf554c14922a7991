-- Generated from supabase/schemas by npm run db:migration.

drop function ai.list_runs(uuid, uuid, jsonb, jsonb, integer);

drop function ai.read_credits(uuid, uuid, timestamp with time zone, timestamp with time zone, bigint, integer);

drop function private.delete_expired_attempts();

drop function private.sweep_app_credentials();

drop function private.sweep_login_challenges();

drop function private.sweep_oauth_attempts();

drop function private.sweep_recoveries();

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

comment on function private.find_accounts_matching(text, integer) is
  'Accounts whose email or name contains a text, by email. One or two characters have no trigram, so rare ones read all rows.';

comment on function private.search_workspaces(text, integer) is
  'Workspaces by id, or by a member''s whole email or id; where there is none, by a part of the name. For an empty text those '
  'that may make keys: '
  '[{ id, name, plan, personalUserId, owners, members, liveKeys, approvedAt, approvedBy }].';

comment on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) is
  'A page of a workspace''s runs, newest first, for a member with use_ai_studio: { outcome: listed, runs, continueBefore } '
  'or { outcome: not_allowed }. filter names any of from, to (half-open), model, feature, status, keyId, appId, requestId. '
  'With scan_limit, a filter without an index looks at that many runs; continueBefore is then the position to continue '
  'from, and null when no older run can match.';

comment on function ai.read_credits(uuid, uuid, timestamptz, timestamptz, bigint, integer, boolean) is
  'What a member with use_ai_studio reads of credits: balances, a page of the ledger, and what was used in the window, '
  'which is what runs were billed and what was deducted without one. By default the last 30 days. A file, which is read '
  'page by page, asks for no totals and no balances.';

comment on function ai.runs_may_exist_before(uuid, jsonb, timestamptz) is
  'Returns the moment before which a workspace may have runs that ai.list_runs'' filter names, by the sums of days: at most '
  'the given one; null when there are none.';

comment on function private.containing(text) is 'A pattern for like: lower-case text that contains a term, whatever characters it has.';

comment on function private.delete_expired_attempts(integer) is
  'Removes up to at_most each of full buckets, expired attempts, expired verified addresses, and blocks a month after their '
  'end. Returns their number; 0 while another removal runs.';

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

grant execute on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.read_credits(uuid, uuid, timestamp with time zone, timestamp with time zone, bigint, integer, boolean) to service_role;

grant execute on function private.delete_expired_attempts(integer) to service_role;

grant execute on function private.sweep_app_credentials(integer) to service_role;

grant execute on function private.sweep_login_challenges(integer) to service_role;

grant execute on function private.sweep_oauth_attempts(integer) to service_role;

grant execute on function private.sweep_recoveries(integer) to service_role;
