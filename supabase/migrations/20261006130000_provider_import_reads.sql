-- What members, and satellites for them, read of imported costs and invoices, and how these compare with what was
-- metered. Amounts leave as exact text.

create function ai.counted_costs(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.external_provider_costs, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- A day of an account has one total of a service, whatever it was called by.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 as latest
    from ai.external_provider_costs d
    where d.granularity = 'account_day'
      and d.workspace_id = workspace
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
  ), covered as materialized (
    select distinct d.app_id, d.provider, d.account_id, d.occurred_at from days d
  )
  select c, case c.granularity when 'run' then v.app_id is null else d.latest end
  from ai.external_provider_costs c
  left join covered v on v.app_id = c.app_id
    and v.provider = c.provider
    and v.account_id = c.account_id
    and v.occurred_at = date_trunc('day', c.occurred_at, 'UTC')
  left join days d on d.id = c.id
  where c.workspace_id = workspace and c.occurred_at >= window_from and c.occurred_at < window_to
$$;
comment on function ai.counted_costs(uuid, timestamptz, timestamptz) is
  'Imported costs of a half-open range, and whether each counts in totals: a run does not where its account''s day is '
  'known, within the range or not, so that adjacent ranges add up.';
revoke execute on function ai.counted_costs(uuid, timestamptz, timestamptz) from public, anon, authenticated;

create function ai.cost_replaced_by(cost ai.external_provider_costs) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select d.external_run_id
  from ai.external_provider_costs d
  where d.granularity = 'account_day'
    and d.workspace_id = (cost).workspace_id
    and d.app_id = (cost).app_id
    and d.provider = (cost).provider
    and d.account_id = (cost).account_id
    and d.occurred_at = date_trunc('day', (cost).occurred_at, 'UTC')
    and (
      (cost).granularity = 'run'
      or (d.service is not distinct from (cost).service and (d.observed_at, d.id) > ((cost).observed_at, (cost).id))
    )
  order by d.observed_at desc, d.id desc
  limit 1
$$;
comment on function ai.cost_replaced_by(ai.external_provider_costs) is
  'Which account day stands for a cost, by its externalRunId; null for one that counts, by the rule of ai.counted_costs.';
revoke execute on function ai.cost_replaced_by(ai.external_provider_costs) from public, anon, authenticated;

create function ai.cost_replaces(cost ai.external_provider_costs) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text
  )
  from ai.external_provider_costs c
  where c.workspace_id = (cost).workspace_id
    and c.occurred_at >= (cost).occurred_at
    and c.occurred_at < (cost).occurred_at + interval '24 hours'
    and c.granularity = 'run'
    and c.app_id = (cost).app_id
    and c.provider = (cost).provider
    and c.account_id = (cost).account_id
$$;
comment on function ai.cost_replaces(ai.external_provider_costs) is
  'For how many runs an account day stands, and what these come to.';
revoke execute on function ai.cost_replaces(ai.external_provider_costs) from public, anon, authenticated;

create function ai.app_label(app uuid) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.display_name from private.apps a where a.id = app
$$;
comment on function ai.app_label(uuid) is 'An app''s name to read; null once it is gone.';
revoke execute on function ai.app_label(uuid) from public, anon, authenticated;

create function ai.provider_costs_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, before jsonb, page_size integer, filter jsonb default '{}'
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'from', ai.exact_text(asked.window_from),
    'to', ai.exact_text(asked.window_to),
    'totals', (
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where t.counted), 0))::text,
        'records', count(*),
        'replacedRecords', count(*) filter (where not t.counted),
        'replacedUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where not t.counted), 0))::text
      )
      from ai.counted_costs(workspace, asked.window_from, asked.window_to) t
      where (filter ->> 'provider' is null or (t.cost).provider = filter ->> 'provider')
        and (not filter ? 'accountId' or (t.cost).account_id is not distinct from filter ->> 'accountId')
    ),
    'records', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id,
          'appId', p.app_id,
          'appName', ai.app_label(p.app_id),
          'provider', p.provider,
          'accountId', p.account_id,
          'externalRunId', p.external_run_id,
          'granularity', p.granularity,
          'service', p.service,
          'amountUsd', trim_scale(p.amount_usd)::text,
          'occurredAt', ai.exact_text(p.occurred_at),
          'observedAt', ai.exact_text(p.observed_at),
          'recordedAt', ai.exact_text(p.recorded_at),
          'revision', p.revision,
          'counted', p.replaced_by is null,
          'replacedBy', p.replaced_by,
          'replaces', case when p.granularity = 'account_day' and p.replaced_by is null then ai.cost_replaces(p.cost) end
        )
        order by p.occurred_at desc, p.id desc
      ), '[]')
      from (
        select c.*, c as cost, ai.cost_replaced_by(c) as replaced_by
        from (
          select *
          from ai.external_provider_costs c
          where c.workspace_id = workspace
            and c.occurred_at >= asked.window_from
            and c.occurred_at < asked.window_to
            and (filter ->> 'provider' is null or c.provider = filter ->> 'provider')
            and (not filter ? 'accountId' or c.account_id is not distinct from filter ->> 'accountId')
            and (
              before is null
              or (c.occurred_at, c.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
            )
          order by c.occurred_at desc, c.id desc
          limit page_size
        ) as f
        join ai.external_provider_costs c on c.id = f.id
      ) as p
    )
  );
end
$$;
comment on function ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'A page of imported costs, newest first, and totals of the whole range, in which account days stand for the runs that '
  'they cover. By default the last 30 days. { outcome: listed, … } or { outcome: bad_window, fault }. Granted to nobody.';
revoke execute on function ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) from public, anon, authenticated;

create function ai.invoice_summary(invoice ai.external_provider_invoices) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.exact_text((invoice).reviewed_at),
    'recordedAt', ai.exact_text((invoice).recorded_at)
  )
$$;
comment on function ai.invoice_summary(ai.external_provider_invoices) is 'An invoice for its workspace''s members.';
revoke execute on function ai.invoice_summary(ai.external_provider_invoices) from public, anon, authenticated;

create function ai.invoice_days(period_start date, period_end date, issued_on date) returns daterange
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select daterange(
    coalesce(period_start, month.first_day),
    coalesce(period_end, (month.first_day::timestamp + interval '1 month - 1 day')::date),
    '[]'
  )
  from (
    select date_trunc('month', coalesce(period_start, period_end, issued_on)::timestamp)::date as first_day
  ) as month
$$;
comment on function ai.invoice_days(date, date, date) is
  'The days that an invoice is of: its period; where an edge is missing, to the edge of the other''s month; without any, '
  'the month that it was issued in.';
revoke execute on function ai.invoice_days(date, date, date) from public, anon, authenticated;

create function ai.invoice_counts_on(invoice ai.external_provider_invoices) returns date
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select coalesce((invoice).period_start, (invoice).period_end, (invoice).issued_on)
$$;
comment on function ai.invoice_counts_on(ai.external_provider_invoices) is
  'The day in whose month an invoice counts, the month that ai.invoice_days begins in: its period''s first, else its last, '
  'else that it was issued on.';
revoke execute on function ai.invoice_counts_on(ai.external_provider_invoices) from public, anon, authenticated;

create function ai.invoice_matches(invoice ai.external_provider_invoices, filter jsonb) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select (filter ->> 'provider' is null or filter ->> 'provider' = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (filter ->> 'month' is null or filter ->> 'month' = to_char(ai.invoice_counts_on(invoice), 'YYYY-MM'))
$$;
comment on function ai.invoice_matches(ai.external_provider_invoices, jsonb) is
  'Whether an invoice is of what a filter names: any of provider, accountId, where a null names those without an account, '
  'and month, YYYY-MM, in which it counts.';
revoke execute on function ai.invoice_matches(ai.external_provider_invoices, jsonb) from public, anon, authenticated;

create function ai.provider_invoices_page(
  workspace uuid, before jsonb, page_size integer, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object('amountUsd', trim_scale(coalesce(sum(i.amount_usd), 0))::text, 'records', count(*))
      from ai.external_provider_invoices i
      where i.workspace_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p)
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.external_provider_invoices i
        where i.workspace_id = workspace
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  )
$$;
comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'A page of a workspace''s invoices, the latest issued first, and the total of all of them. Granted to nobody.';
revoke execute on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) from public, anon, authenticated;

create function ai.reconciled_costs(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (
    month date, provider text, account_id text, metered numeric, imported numeric, invoiced numeric, runs numeric,
    records bigint, invoices bigint
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select s.month, s.provider, s.account_id, coalesce(sum(s.metered), 0), coalesce(sum(s.imported), 0), coalesce(sum(s.invoiced), 0),
    coalesce(sum(s.requests), 0), count(s.imported), count(s.invoiced)
  from (
    select date_trunc('month', u.day::timestamp)::date as month, coalesce(u.provider_id, 'unknown') as provider,
      null::text as account_id, u.cost_usd as metered, null::numeric as imported, null::numeric as invoiced,
      u.requests
    from ai.usage_between(workspace, window_from, window_to) u
    union all
    select date_trunc('month', (c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id,
      null, (c.cost).amount_usd, null, null
    from ai.counted_costs(workspace, window_from, window_to) c
    where c.counted
    union all
    select date_trunc('month', ai.invoice_counts_on(i)::timestamp)::date, i.provider, i.account_id,
      null, null, i.amount_usd, null
    from ai.external_provider_invoices i
    where i.workspace_id = workspace
      and ai.invoice_counts_on(i)::timestamp at time zone 'UTC' >= window_from
      and ai.invoice_counts_on(i)::timestamp at time zone 'UTC' < window_to
  ) as s
  group by s.month, s.provider, s.account_id
$$;
comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Metered, imported and invoiced cost side by side. The gateway''s runs know no provider''s account, so that they stand '
  'with none; an invoice counts in the month that its days begin in (ai.invoice_days).';
revoke execute on function ai.reconciled_costs(uuid, timestamptz, timestamptz) from public, anon, authenticated;

create function ai.reconciliation_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, after text[], page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  -- Twelve months may be those of a leap year.
  asked record := ai.usage_window(given_from, given_to, 365, 366);
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
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (where p.records > 0 or p.invoices > 0), '[]') as accounts
      from parts p
      group by p.month, p.provider
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.exact_text(asked.window_from),
      'to', ai.exact_text(asked.window_to),
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
comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'A page of months and providers, the latest month first, each with its accounts and differences: imported less metered, '
  'and invoiced less imported. By default the last 365 days. meteredUsd is null where the workspace hides it.';
revoke execute on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) from public, anon, authenticated;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create function ai.list_provider_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before jsonb default null, page_size integer default 50, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.provider_costs_page(workspace, given_from, given_to, before, page_size, filter)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'ai.provider_costs_page for a member with use_ai_studio, else { outcome: not_allowed }. filter names any of '
  'provider and accountId, where a null names those without an account.';
revoke execute on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb) from public, anon, authenticated;
grant execute on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer, jsonb) to service_role;

-- Definer: as ai.list_provider_costs.
create function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.provider_invoices_page(workspace, before, page_size, filter)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb) is
  'ai.provider_invoices_page for a member with use_ai_studio, else { outcome: not_allowed }. filter as of '
  'ai.invoice_matches.';
revoke execute on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb) from public, anon, authenticated;
grant execute on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb) to service_role;

-- Definer: as ai.list_provider_costs.
create function ai.reconcile_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.reconciliation_page(workspace, given_from, given_to, after, page_size)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer) is
  'ai.reconciliation_page for a member with use_ai_studio, else { outcome: not_allowed }.';
revoke execute on function ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer) from public, anon, authenticated;
grant execute on function ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer) to service_role;

create function private.studio_refusal(token_hash bytea, workspace_id uuid) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  caller private.app_caller := private.app_caller_of(token_hash, 'studio:read');
begin
  return case
    when caller.refused is not null then caller.refused
    when not private.is_member(caller.user_id, studio_refusal.workspace_id) then 'not_found'
    when not private.user_has_workspace_permission(caller.user_id, studio_refusal.workspace_id, 'use_ai_studio') then 'forbidden'
  end;
end
$$;
comment on function private.studio_refusal(bytea, uuid) is
  'Why a satellite''s session may not read a workspace''s studio; null where it may. For definers; granted to nobody.';
revoke execute on function private.studio_refusal(bytea, uuid) from public, anon, authenticated;

-- Definer: reads for the user of the credential alone.
create function private.list_provider_costs_by_app_session(
  token_hash bytea, workspace_id uuid, given_from timestamptz default null, given_to timestamptz default null,
  before jsonb default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  refused text := private.studio_refusal(token_hash, workspace_id);
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  return ai.provider_costs_page(workspace_id, given_from, given_to, before, page_size);
end
$$;
comment on function private.list_provider_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, jsonb, integer) is
  'ai.provider_costs_page for the session''s user, or {refused}.';
revoke execute on function private.list_provider_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, jsonb, integer)
  from public, anon, authenticated;
grant execute on function private.list_provider_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, jsonb, integer)
  to service_role;

-- Definer: as private.list_provider_costs_by_app_session.
create function private.list_provider_invoices_by_app_session(
  token_hash bytea, workspace_id uuid, before jsonb default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  refused text := private.studio_refusal(token_hash, workspace_id);
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  return ai.provider_invoices_page(workspace_id, before, page_size);
end
$$;
comment on function private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer) is
  'ai.provider_invoices_page for the session''s user, or {refused}.';
revoke execute on function private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer) from public, anon, authenticated;
grant execute on function private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer) to service_role;

-- Definer: as private.list_provider_costs_by_app_session.
create function private.reconcile_costs_by_app_session(
  token_hash bytea, workspace_id uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  refused text := private.studio_refusal(token_hash, workspace_id);
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  return ai.reconciliation_page(workspace_id, given_from, given_to, after, page_size);
end
$$;
comment on function private.reconcile_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, text[], integer) is
  'ai.reconciliation_page for the session''s user, or {refused}.';
revoke execute on function private.reconcile_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, text[], integer)
  from public, anon, authenticated;
grant execute on function private.reconcile_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, text[], integer)
  to service_role;
