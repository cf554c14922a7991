-- Generated from supabase/schemas by npm run db:migration.

-- Definer: as ai.list_linked_apps.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  kept ai.external_provider_invoices;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  if not ai.app_can_act_in_workspace(app, workspace) then
    return '{"outcome": "app_not_linked"}';
  end if;
  if (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  kept := ai.find_invoice(workspace, app, record, record ->> 'reference');
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when kept.id is not null then ai.invoice_summary(kept) end,
    'differs', case when kept.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(kept, record || jsonb_build_object('reviewedAt', kept.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(workspace, record || jsonb_build_object('appId', app), kept.id)
  );
end
$$;

create or replace function ai.invoice_comparison(workspace uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Longer than any report: such a period says nothing of what it compares with.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(workspace, window_from, window_to) c
  where c.counted
    and (c.cost).provider = record ->> 'provider'
    and (c.cost).account_id is not distinct from record ->> 'accountId';
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- The one that it replaces: references are unique within an app.
    and (i.app_id, i.reference) is distinct from ((record ->> 'appId')::uuid, record ->> 'replaces')
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(workspace) then (
      select trim_scale(coalesce(sum(u.cost_usd), 0))::text
      from ai.usage_between(workspace, window_from, window_to) u
      where ai.billing_provider(u) = record ->> 'provider'
        and coalesce(u.billing_account = record ->> 'accountId', true)
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
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
        -- The records that an account day stands for: runs, its own earlier states, and a total's services.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.external_provider_costs c
          where c.workspace_id = p.workspace_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and c.id <> p.id
            and (c.granularity = 'run' or p.service is null or c.service = p.service)
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
          or (d.service is null and p.service is not null)
          or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
        )
      order by d.service is null desc, d.observed_at desc, d.id desc
      limit 1
    ) as replaced on true
  );
end
$$;

create or replace function ai.reconciliation_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, after text[], page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(workspace, asked.window_from, asked.window_to)
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
        ) filter (where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account)), '[]') as accounts
      from (
        -- One run without an account leaves open what the month's accounts were charged.
        select *, bool_and(q.account_id is not null) filter (where q.runs > 0) over (partition by q.month, q.provider)
          as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
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
  -- The same to a reader: composed or decomposed letters, and spaces of any kind and number.
  reference := btrim(regexp_replace(
    normalize(reference), '[\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+', ' ', 'g'
  ));
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

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- As in begin_run.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  most ai.token_use := ai.maximum_use(request);
  run ai.runs;
  caller ai.caller;
  key_is_over boolean;
  refused text;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  used_tokens bigint;
  step_tokens bigint;
  token_limit bigint;
  tokens bigint;
  minute timestamptz;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.entity_id, k.revoked_at is not null or k.expires_at <= now(), k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute)
  into
    caller.entity_id, key_is_over, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_over then
    return ai.refusal('invalid_api_key');
  end if;
  if run.app_id is not null then
    select private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) into refused
    from private.apps a
    where a.id = run.app_id;
    if not found or refused is not null then
      return ai.refusal(coalesce(refused, 'app_not_allowed'));
    end if;
  end if;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  caller.budgets := run.budget_scopes;
  request.entity_id := run.entity_id;

  step_usd := ai.maximum_cost_usd(run.routes, most, request.service_tier);
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  token_limit := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    step_tokens := ai.reserved_tokens(request, most, token_limit);
    if step_tokens > token_limit then
      return ai.token_limit_refusal(caller, most, step_tokens);
    end if;
  end if;

  perform ai.lock_rows(ai.collect_locks(array[row(null, request, caller, null, run.account_id)::ai.priced_call]));
  if token_limit is not null then
    minute := greatest(
      (ai.current_window('key', caller.lineage_id)).started_at, (ai.current_window('workspace', caller.workspace_id)).started_at
    );
    -- The steps before count what they used. In a new minute they count nothing, and so does settlement.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    tokens := step_tokens + used_tokens - case when run.tokens_reserved_at = minute then run.reserved_tokens else used_tokens end;
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute, tokens, 0
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  held := ai.reserve_limits(caller, run.entity_id, tokens, 0, step_usd, run.account_id, total_credits - run.reserved_credits);
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, tokens);
    return ai.limit_refusal(held.refused, caller);
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + step_tokens, r.reserved_tokens),
    tokens_reserved_at = coalesce(minute, r.tokens_reserved_at),
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
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
        join ai.plans l on l.id = s.plan_id and l.payer = 'workspace'
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
  insert into ai.key_approval_requests as q (workspace_id, requested_by, note, admins_emailed_at, admins_emailed_for)
  values (
    workspace, member_id, nullif(btrim(request_key_approval.note), ''),
    case when emails_admins then now() else known.admins_emailed_at end,
    case when emails_admins then member_id else known.admins_emailed_for end
  )
  on conflict (workspace_id) do update
  set
    requested_by = excluded.requested_by,
    requested_at = excluded.requested_at,
    note = excluded.note,
    state = 'open',
    answered_at = null,
    decline_reason = null,
    admins_emailed_at = excluded.admins_emailed_at,
    admins_emailed_for = excluded.admins_emailed_for;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_key_approval.email ->> 'subject', request_key_approval.email ->> 'text', now()
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
  where emails_admins and ai.can_be_emailed(u);
  return ai.key_approval_state(workspace);
end
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
      where q.admins_emailed_for = member_id and q.admins_emailed_at > now() - interval '24 hours'
    )
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.usage_between(workspace, asked.window_from, asked.window_to, by_member)
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          -- Runs hide their provider where they hide its cost.
          case when 'provider' = any (group_by) and visible then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- Servers of the release before continue with seven parts.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed
      from parts u
      where not by_label
      group by 1
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed)
      from ai.label_usage_between(workspace, asked.window_from, asked.window_to) l
      where by_label
      group by 1
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.utc_text_microseconds(asked.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
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

comment on function ai.change_credits(uuid, numeric, text, text) is
  'Grants credits to an account, or withdraws them: { outcome: changed | repeated (the reference was used for this amount) | '
  'reference_used (for another amount) | insufficient (more than the balance less what calls hold), balance, amount, '
  'available }. Serialized per account. References that only differ in spaces or in Unicode composition are the same; case '
  'counts.';

comment on function ai.extend_run(jsonb) is
  'Reserves the maximum cost of another provider call of an open run, where limits, budgets and balance allow it and its key '
  'and its app''s registration are still good. Returns what the run then holds, or {refused: code, …}.';

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'What was metered of an invoice''s provider, without other accounts'' runs, and imported of its account in its days '
  '(ai.invoice_days), the other invoices of its account that count in these days, and what all that count differ from the '
  'import by: not the invoice itself once it is replaced. Null for more than 366 days. Granted to nobody.';

comment on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) is
  'A workspace''s usage for a member with use_ai_studio, grouped by any of day, model, feature, executionMode, provider, '
  'key (its lineage), app and member, or by label, alone or with day: a page of rows, with totals of the whole window and credits deducted without a run beside '
  'them. By default the last 30 days. after is the position of the last row of the page before. Where the workspace hides '
  'what providers charge, rows name no provider.';

comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'A page of months and providers, the latest month first, each with its accounts and differences: imported less metered, '
  'and invoiced less imported. The window as of ai.reconciled_window. meteredUsd is null where the workspace hides it, and '
  'of accounts unless all runs of the month and provider name theirs. Where it is hidden, only providers with imports or '
  'invoices are listed.';
