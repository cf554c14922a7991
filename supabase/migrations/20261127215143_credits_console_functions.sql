-- Generated from supabase/schemas by npm run db:migration.

drop function ai.grant_credits(text, uuid, numeric, text);

-- Definer: the service role moves no credits.
create or replace function private.change_credits(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
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
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
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

create or replace function private.save_plan(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  plan_id text := change ->> 'plan';
  known ai.plans;
  saved ai.plans;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'seen' is null then
    insert into ai.plans (id, name, payer) values (plan_id, change ->> 'name', change ->> 'payer') on conflict do nothing;
    if not found then
      return jsonb_build_object('refused', 'taken');
    end if;
  end if;
  select * into known from ai.plans p where p.id = plan_id for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if md5(known::text) <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('plan ' || plan_id));
  end if;
  if known.payer <> change ->> 'payer' and ai.plan_has_payers(known) then
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
    'before', case when change ->> 'seen' is not null then to_jsonb(known) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;

create or replace function ai.plan_has_payers(plan ai.plans) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case (plan).payer
    when 'workspace' then exists (
      select
      from public.workspaces w
      join ai.credit_accounts a on a.workspace_id = w.id
      where w.plan_id = (plan).id and w.deleted_at is null
    )
    else exists (
      select
      from public.workspaces w
      join public.workspace_members m on m.workspace_id = w.id
      join ai.credit_accounts a on a.user_id = m.user_id
      where w.plan_id = (plan).id and w.deleted_at is null
    )
  end
$$;

create or replace function private.move_workspace(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  workspace public.workspaces;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
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
  -- Held, so that its payer does not change meanwhile.
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

create or replace function ai.grant_credits(
  payer text, owner_id uuid, amount numeric, description text, reference text default null
) returns numeric
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  changed jsonb := ai.change_credits(ai.open_credit_account(payer, owner_id, 0), amount, description, reference);
begin
  if changed ->> 'outcome' = 'reference_used' then
    raise exception 'the reference "%" was used for % credits', reference, changed ->> 'amount' using errcode = 'unique_violation';
  elsif changed ->> 'outcome' = 'insufficient' then
    raise exception 'only % credits are available', changed ->> 'available' using errcode = 'check_violation';
  end if;
  return (changed ->> 'balance')::numeric;
end
$$;

create or replace function ai.change_credits(account uuid, amount numeric, description text, reference text) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  held ai.credit_accounts;
  used numeric;
  entry bigint;
begin
  if amount is null or amount = 'NaN' or amount <> round(amount, 8) then
    raise exception 'credits are a number with at most 8 decimals' using errcode = 'check_violation';
  end if;
  -- Serializes the changes of one account: of many with one reference, the first is made.
  select * into held from ai.credit_accounts a where a.id = account for no key update;
  select r.amount into used
  from ai.credit_references r
  where r.account_id = account and r.reference = change_credits.reference;
  if found then
    return jsonb_build_object(
      'outcome', case when used = amount then 'repeated' else 'reference_used' end,
      'amount', trim_scale(used)::text,
      'balance', held.balance::text
    );
  end if;
  if amount < 0 and held.balance - held.reserved + amount < 0 then
    return jsonb_build_object('outcome', 'insufficient', 'available', trim_scale(held.balance - held.reserved)::text);
  end if;
  update ai.credit_accounts a
  set balance = a.balance + amount, refused_at = case when amount > 0 then null else a.refused_at end
  where a.id = account
  returning * into held;
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
  values (account, 'grant', amount, held.balance, change_credits.description)
  returning id into entry;
  if reference is not null then
    insert into ai.credit_references (account_id, reference, amount, entry_id)
    values (account, change_credits.reference, amount, entry);
  end if;
  if amount > 0 then
    perform ai.reset_credit_alert(held);
  end if;
  return jsonb_build_object('outcome', 'changed', 'balance', held.balance::text);
end
$$;

create or replace function ai.reserve_limits(
  caller ai.caller, tokens bigint, requests integer, amount_usd numeric, account uuid, credits numeric
) returns ai.reservation
  language plpgsql
  volatile
  security invoker
as $$
declare
  scope text;
  held ai.reservation;
begin
  held.budget_scopes := '{}';
  foreach scope in array array['key', 'app', 'workspace'] loop
    if scope = 'workspace' then
      held.workspace_window := ai.consume_rate_limit(
        'workspace', caller.workspace_id, caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute, tokens,
        requests
      );
      if not (held.workspace_window).admitted then
        held.refused := 'rate_limit_exceeded';
        exit;
      end if;
    end if;
    continue when caller.budgets is null or not scope = any (caller.budgets);
    if not ai.reserve_budget(
      scope, ai.budget_subject(scope, caller.lineage_id, caller.app_id, caller.workspace_id), caller.workspace_id, amount_usd
    ) then
      held.refused := 'budget_exceeded';
      exit;
    end if;
    held.budget_scopes := held.budget_scopes || scope;
  end loop;
  if held.refused is null and (account is not null or credits > 0) then
    update ai.credit_accounts a set reserved = a.reserved + credits
    where a.id = account and a.balance - a.reserved >= credits;
    if not found then
      held.refused := 'insufficient_credits';
      -- Of many refusals, one a minute writes.
      update ai.credit_accounts a set refused_at = now()
      where a.id = account and (a.refused_at is null or a.refused_at < now() - interval '1 minute');
    end if;
  end if;
  if held.refused is not null then
    perform ai.return_tokens('workspace', caller.workspace_id, held.workspace_window, tokens);
  end if;
  if held.refused is not null and held.budget_scopes <> '{}' then
    update ai.budgets b set reserved_usd = greatest(b.reserved_usd - amount_usd, 0)
    where b.workspace_id = caller.workspace_id
      and b.scope = any (held.budget_scopes)
      and b.subject_id = ai.budget_subject(b.scope, caller.lineage_id, caller.app_id, caller.workspace_id);
  end if;
  return held;
end
$$;

-- Definer: the service role writes no alerts.
create or replace function ai.sweep_credit_alerts(max_alerts integer default 100) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_credit_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_credit_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'accountId', k.id,
        'payer', case when k.workspace_id is null then 'member' else 'workspace' end,
        'workspaceId', k.shown_id,
        'workspace', k.shown_name,
        'level', k.level,
        'crossedAt', ai.utc_text_microseconds(k.crossed_at),
        'balance', trim_scale(k.balance)::text,
        'reserved', trim_scale(k.reserved)::text,
        'available', trim_scale(k.balance - k.reserved)::text,
        'threshold', trim_scale(k.threshold)::text
      )
      order by k.crossed_at, k.id
    ), '[]')
    from (
      select a.*, p.level, p.threshold, p.crossed_at, w.shown_id, w.shown_name
      from ai.credit_alerts p
      join ai.credit_accounts a on a.id = p.account_id
      -- Where the reader sees the balance: the workspace that pays, or one in which the member does.
      cross join lateral (
        select s.id as shown_id, s.name as shown_name
        from public.workspaces s
        where s.id = a.workspace_id and s.deleted_at is null
        union all
        (
          select s.id, s.name
          from public.workspace_members m
          join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
          join ai.plans l on l.id = s.plan_id and l.payer = 'member'
          where m.user_id = a.user_id
          order by s.personal_user_id is not distinct from a.user_id desc, s.created_at, s.id
          limit 1
        )
      ) w
      where p.posted_at is null
      order by p.crossed_at
      limit max_alerts
    ) k
  );
end
$$;

create or replace function ai.credit_level(account ai.credit_accounts, threshold numeric) returns ai.credit_level
  language sql
  stable
  security invoker
  parallel safe
as $$
  select case
    when (account).balance <= 0 then 'empty'
    when (account).refused_at > now() - interval '1 hour'
      and (account).balance - (account).reserved < case when threshold > 0 then threshold else 1000 end then 'empty'
    when (account).balance < threshold then 'low'
    else 'funded'
  end::ai.credit_level
$$;

create or replace function ai.low_credits(plan ai.plans) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select coalesce((plan).low_credits, case when (plan).initial_credits > 0 then (plan).initial_credits * 0.1 else 10000 end)
$$;

create or replace function ai.paying_plans(workspaces uuid[], members uuid[]) returns table (owner_id uuid, plan ai.plans)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select distinct on (w.owner_id) w.owner_id, p
  from (
    select s.id as owner_id, s.plan_id, 'workspace' as payer
    from unnest(workspaces) as u (id)
    join public.workspaces s on s.id = u.id and s.deleted_at is null
    union all
    select m.user_id, s.plan_id, 'member'
    from unnest(members) as u (id)
    join public.workspace_members m on m.user_id = u.id
    join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
  ) w
  join ai.plans p on p.id = w.plan_id and p.payer = w.payer
  order by w.owner_id, p.initial_credits desc, p.id
$$;

create or replace function ai.paying_plan(payer text, owner_id uuid) returns setof ai.plans
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select (p.plan).*
  from ai.paying_plans(
    case payer when 'workspace' then array[paying_plan.owner_id] end, case payer when 'member' then array[paying_plan.owner_id] end
  ) as p
$$;

create or replace function ai.credit_recipients(workspace uuid, member_id uuid) returns setof text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select r.email from ai.budget_recipients('workspace', workspace) as r (email)
  union all
  select u.email
  from auth.users u
  where u.id = member_id
    and char_length(u.email) between 3 and 320
    and u.deleted_at is null
    and (u.banned_until is null or u.banned_until <= now())
$$;

-- Definer: as ai.read_usage.
create or replace function ai.read_credit_notice(member_id uuid, workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object('level', x.level, 'available', trim_scale(greatest((o.a).balance - (o.a).reserved, 0))::text)
  from public.workspaces w
  join ai.plans p on p.id = w.plan_id
  cross join lateral (
    select a from ai.credit_accounts a
    where case p.payer when 'workspace' then a.workspace_id = w.id else a.user_id = member_id end
    union all
    -- The first call opens the account.
    select jsonb_populate_record(null::ai.credit_accounts, jsonb_build_object('balance', p.initial_credits, 'reserved', 0))
    where not exists (
      select from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = case p.payer when 'workspace' then w.id else member_id end
    )
  ) o
  cross join lateral (
    select ai.credit_level(
      o.a,
      case p.payer
        when 'member' then (select ai.low_credits(m) from ai.paying_plan('member', member_id) as m)
        else ai.low_credits(p)
      end
    ) as level
  ) x
  where w.id = workspace and w.deleted_at is null and x.level > 'funded'
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;

-- Definer: addresses are the identity backend's, which the service role cannot read.
create or replace function private.read_credit_account(
  payer text, owner_id uuid, before_id bigint default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
  -- A plan for every account reads the whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
  select jsonb_build_object(
    'payer', payer,
    'id', o.id,
    'name', o.name,
    'personalUserId', o.personal_user_id,
    -- The plan by which the account pays now.
    'plan', (
      select jsonb_build_object(
        'id', p.id, 'name', p.name, 'initialCredits', trim_scale(p.initial_credits)::text,
        'lowCredits', trim_scale(ai.low_credits(p))::text
      )
      from ai.paying_plan(payer, o.id) p
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text,
        'refusedAt', a.refused_at
      )
      from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = o.id
    ),
    'entries', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', e.id::text,
        'createdAt', ai.utc_text_microseconds(e.created_at),
        'kind', e.kind,
        'amount', trim_scale(e.amount)::text,
        'balanceAfter', trim_scale(e.balance_after)::text,
        'runId', e.run_id,
        'description', e.description,
        'reference', r.reference
      ) order by e.id desc), '[]')
      from (
        select l.*
        from ai.credit_accounts a
        join ai.credit_ledger l on l.account_id = a.id
        where coalesce(a.workspace_id, a.user_id) = o.id and (before_id is null or l.id < before_id)
        order by l.id desc
        limit page_size
      ) e
      left join ai.credit_references r on r.account_id = e.account_id and r.entry_id = e.id
    )
  )
  from (
    select w.id, w.name::text, w.personal_user_id
    from public.workspaces w
    where payer = 'workspace' and w.id = owner_id and w.deleted_at is null
    union all
    select u.id, coalesce(u.email, u.id::text), u.id
    from auth.users u
    where payer = 'member' and u.id = owner_id and u.deleted_at is null
  ) o
$$;

create or replace function private.list_plans(only_id text default null) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', p.id,
    'name', p.name,
    'payer', p.payer,
    'markup', trim_scale(p.markup)::text,
    'initialCredits', trim_scale(p.initial_credits)::text,
    'lowCredits', trim_scale(p.low_credits)::text,
    'warnsBelow', trim_scale(ai.low_credits(p))::text,
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'workspaces', (select count(*) from public.workspaces w where w.plan_id = p.id and w.deleted_at is null),
    'models', (select count(*) from ai.model_grants g where g.plan_id = p.id),
    'payerFixed', ai.plan_has_payers(p),
    'version', md5(p::text)
  ) order by p.id), '[]')
  from ai.plans p
  where only_id is null or p.id = only_id
$$;

-- Definer: owners' addresses are the identity backend's, which the service role cannot read.
create or replace function private.read_console_workspace(workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
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
      join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id and r.is_owner
      join auth.users u on u.id = m.user_id
      where m.workspace_id = w.id
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

-- Definer: the service role writes no alerts, and cannot read the identity backend's addresses.
create or replace function ai.queue_credit_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with posted as (
    update ai.credit_alerts k
    set
      posted_at = now(),
      -- A top-up between the sweep and this call.
      level = least(k.level, ai.credit_level(a, k.threshold))
    from ai.credit_accounts a
    where a.id = k.account_id
      and k.account_id = (alert ->> 'accountId')::uuid
      and k.level = (alert ->> 'level')::ai.credit_level
      and k.crossed_at = (alert ->> 'crossedAt')::timestamptz
      and k.posted_at is null
    returning a.workspace_id, a.user_id, k.level
  ), kept as (
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_credit_alert_mails.subject, queue_credit_alert_mails.body, now()
    from posted p
    cross join lateral ai.credit_recipients(p.workspace_id, p.user_id) as r (email)
    where p.level = (alert ->> 'level')::ai.credit_level
    returning id
  )
  select count(*)::integer from kept
$$;

create or replace function ai.record_credit_alerts() returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with candidates as materialized (
    select a, a.workspace_id, a.user_id, k.threshold as known_threshold
    from ai.credit_accounts a
    left join ai.credit_alerts k on k.account_id = a.id
    -- Most accounts are left out by this, before their plan is looked up.
    where case
      when a.balance <= 0 then k.level is distinct from 'empty'
      else k.level <> 'funded' or a.balance - a.reserved < (select greatest(max(ai.low_credits(p)), 1000) from ai.plans p)
    end
  )
  insert into ai.credit_alerts as k (account_id, level, threshold)
  select (c.a).id, x.level, x.threshold
  from ai.paying_plans(
    array(select o.workspace_id from candidates o where o.workspace_id is not null),
    array(select o.user_id from candidates o where o.user_id is not null)
  ) as p
  join candidates c on coalesce(c.workspace_id, c.user_id) = p.owner_id
  cross join lateral (
    select ai.low_credits(p.plan) as threshold, ai.credit_level(c.a, ai.low_credits(p.plan)) as level
  ) as x
  where x.level > 'funded' or c.known_threshold <> x.threshold
  on conflict (account_id) do update
  set
    threshold = excluded.threshold,
    level = case when excluded.threshold < k.threshold then excluded.level else greatest(k.level, excluded.level) end,
    crossed_at = case when excluded.level > k.level then now() else k.crossed_at end,
    posted_at = case
      when excluded.level > k.level then null
      when excluded.level < k.level and excluded.threshold < k.threshold then coalesce(k.posted_at, now())
      else k.posted_at
    end
  where excluded.level > k.level or excluded.threshold <> k.threshold
$$;

create or replace function ai.reset_credit_alert(account ai.credit_accounts) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update ai.credit_alerts k
  set level = ai.credit_level(account, k.threshold), posted_at = coalesce(k.posted_at, now())
  where k.account_id = (account).id and ai.credit_level(account, k.threshold) < k.level
$$;

comment on function ai.change_credits(uuid, numeric, text, text) is
  'Grants credits to an account, or withdraws them: { outcome: changed | repeated (the reference was used for this amount) | '
  'reference_used (for another amount) | insufficient (more than the balance less what calls hold), balance, amount, '
  'available }. Serialized per account.';

comment on function ai.credit_level(ai.credit_accounts, numeric) is
  'empty: nothing is left, or what is available is below the threshold (1,000 where that is 0) and a call of the last hour did '
  'not fit it. Above the threshold a refused call was too large, and others go through. low: the balance is below the threshold.';

comment on function ai.credit_recipients(uuid, uuid) is
  'Who is warned about a balance: the owners of the workspace that pays and its members with manage_ai_policy, or the member '
  'who pays.';

comment on function ai.grant_credits(text, uuid, numeric, text, text) is
  'Adds credits to the balance of a workspace or a member (payer as in ai.plans) and returns the balance; a negative amount '
  'withdraws them, at most what is available. With a reference, repeating the call changes nothing, and another amount is an '
  'error. Without one, each call is a grant of its own. For the operator: no role of the API may run it.';

comment on function ai.low_credits(ai.plans) is
  'Below which balance the payers of a plan are warned; by default a tenth of the initial credits, or 10,000 without any.';

comment on function ai.paying_plan(text, uuid) is 'The one of ai.paying_plans of a workspace or a member, or no row.';

comment on function ai.paying_plans(uuid[], uuid[]) is
  'The plans by which workspaces and members pay; none for those whose account pays for nothing. A member pays in several '
  'workspaces: theirs is the plan with the most initial credits.';

comment on function ai.plan_has_payers(ai.plans) is 'Whether a credit account pays by a plan, so that its payer stays.';

comment on function ai.queue_credit_alert_mails(jsonb, text, text) is
  'Queues the emails about a crossing, one for each recipient, and marks it, in one statement: of many callers one does. '
  'Returns how many emails; 0 where they are queued already, or credits were added since.';

comment on function ai.read_credit_notice(uuid, uuid) is
  'Whether the balance that pays for a member''s calls in a workspace is low or empty: { level, available }; null otherwise, '
  'and for those without use_ai_studio.';

comment on function ai.record_credit_alerts() is
  'Records the level that each balance has reached. Reads ai.credit_accounts without a lock. A level is reached once until '
  'credits are added, or until the plan''s threshold falls below the balance.';

comment on function ai.reset_credit_alert(ai.credit_accounts) is
  'After a top-up: levels that the balance is above again are warned about the next time.';

comment on function ai.sweep_credit_alerts(integer) is
  'Records which balances became low or empty and returns those whose emails are not queued, oldest first. One sweeper at a '
  'time; the others get an empty list.';

comment on function private.change_credits(jsonb) is
  'Grants credits to a workspace or a member, or withdraws them: { actor, payer, ownerId, step: grant | withdraw, amount, '
  'reference, description (members read it in the ledger), reason, requestId, ip } → {}, { repeated: true } where the '
  'reference was used for this amount, or { refused: forbidden | invalid | not_found | oneself | reference_used (for another '
  'amount) | insufficient (less is available) }. A grant opens a missing account with the plan''s initial credits first.';

comment on function private.list_plans(text) is
  'Plans with how many workspaces have them and how many models they grant; amounts are text. version changes with the plan.';

comment on function private.move_workspace(jsonb) is
  'Gives a workspace another plan: { actor, workspace, seen (its plan as seen), plan, reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | oneself (the actor''s personal workspace) | no_plan (unknown, or its own) | conflict (with last) }. '
  'Balances stay with their owners; calls under way are settled as they began.';

comment on function private.read_console_workspace(uuid) is
  'A workspace as the console shows it: name, plan, owners, members, balance, keys and their approval; null where there is none.';

comment on function private.read_credit_account(text, uuid, bigint, integer) is
  'What a workspace or a member has to pay with, and a page of its ledger, newest first: { payer, id, name, personalUserId, '
  'plan, account, entries }; null for an unknown owner. plan is null where the account pays for nothing now, account where '
  'it is not open yet.';

comment on function private.save_plan(jsonb) is
  'Adds a plan or edits one: { actor, plan, seen (the version seen; null adds), name, payer, markup, initialCredits, lowCredits, '
  'requestsPerMinute, tokensPerMinute, reason, requestId, ip } → {} or { refused: forbidden | not_found | taken | payer_fixed '
  '(accounts pay by it) | conflict (with last) }. Runs keep the markup that they began with.';

revoke delete, insert, update on table ai.credit_alerts from service_role;

revoke delete, insert, update on table ai.credit_references from service_role;

grant execute on function ai.low_credits(ai.plans) to service_role;

grant execute on function ai.plan_has_payers(ai.plans) to service_role;

grant execute on function ai.queue_credit_alert_mails(jsonb, text, text) to service_role;

grant execute on function ai.read_credit_notice(uuid, uuid) to service_role;

grant execute on function ai.sweep_credit_alerts(integer) to service_role;

grant execute on function private.change_credits(jsonb) to service_role;

grant execute on function private.list_plans(text) to service_role;

grant execute on function private.move_workspace(jsonb) to service_role;

grant execute on function private.read_console_workspace(uuid) to service_role;

grant execute on function private.read_credit_account(text, uuid, bigint, integer) to service_role;

grant execute on function private.save_plan(jsonb) to service_role;
