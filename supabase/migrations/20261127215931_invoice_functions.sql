-- Generated from supabase/schemas by npm run db:migration.

drop function ai.invoice_counts_on(ai.external_provider_invoices);

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
    'comparison', ai.invoice_comparison(workspace, record, kept.id)
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
  own_amount numeric := (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end;
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
    and i.reference is distinct from record ->> 'replaces'
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

create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  written integer;
  stored ai.external_provider_costs;
begin
  if occurred > observed then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'occurredAt', 'message', 'occurredAt must not be later than observedAt.'
    );
  end if;
  if observed > now() + interval '60 seconds' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'observedAt', 'message', 'observedAt must not be in the future.'
    );
  end if;

  -- Of concurrent imports each waits for the one before, and compares with what that one left.
  insert into ai.external_provider_costs as c (
    workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at, observed_at
  )
  values (
    workspace, app, record ->> 'provider', record ->> 'accountId', record ->> 'externalRunId',
    coalesce(record ->> 'granularity', 'run'), record ->> 'service', amount, occurred, observed
  )
  on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
  set
    granularity = excluded.granularity,
    service = excluded.service,
    amount_usd = excluded.amount_usd,
    occurred_at = excluded.occurred_at,
    observed_at = excluded.observed_at,
    recorded_at = now(),
    revision = c.revision + 1
  where c.observed_at < excluded.observed_at
  returning c.revision into written;
  if found then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored
  from ai.external_provider_costs c
  where c.workspace_id = workspace
    and c.app_id = app
    and c.provider = record ->> 'provider'
    and c.account_id is not distinct from record ->> 'accountId'
    and c.external_run_id = record ->> 'externalRunId';
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif (stored.amount_usd, stored.occurred_at, stored.granularity) = (amount, occurred, coalesce(record ->> 'granularity', 'run'))
    and stored.service is not distinct from record ->> 'service' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
end
$$;

create or replace function ai.store_provider_invoice(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  replaced text := record ->> 'replaces';
  kind_of_replaced text := (ai.find_invoice(workspace, app, record, replaced)).kind;
  stored ai.external_provider_invoices;
  differing text[];
begin
  if reviewed > now() then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'reviewedAt must not be in the future.'
    );
  end if;
  if reviewed < issued::timestamp at time zone 'UTC' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'An invoice is reviewed after it was issued.'
    );
  end if;

  if replaced is not null and kind_of_replaced is null then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'replaces',
      'message', 'replaces must name an earlier reference of the same app, provider and account.'
    );
  elsif kind_of_replaced <> coalesce(record ->> 'kind', 'invoice') then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'kind',
      'message', 'An invoice replaces an invoice, and a credit note replaces a credit note.'
    );
  end if;

  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
    reviewed_at
  )
  values (
    workspace, app, record ->> 'provider', record ->> 'accountId', record ->> 'reference',
    coalesce(record ->> 'kind', 'invoice'), replaced, amount, issued, (record ->> 'periodStart')::date,
    (record ->> 'periodEnd')::date, reviewed
  )
  -- The reference is taken, or the replaced one is.
  on conflict do nothing
  returning * into stored;
  if found then
    return jsonb_build_object('outcome', 'stored', 'id', stored.id);
  end if;

  stored := ai.find_invoice(workspace, app, record, record ->> 'reference');
  if stored.id is null then
    select * into strict stored
    from ai.external_provider_invoices i
    where i.workspace_id = workspace
      and i.app_id = app
      and i.provider = record ->> 'provider'
      and i.account_id is not distinct from record ->> 'accountId'
      and i.replaces = replaced;
    return jsonb_build_object(
      'refused', 'invoice_conflict', 'id', stored.id, 'differs', '["replaces"]'::jsonb, 'param', 'replaces',
      'message', format('%s is already replaced by %s. Replace that one instead.', replaced, stored.reference)
    );
  end if;
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;

create or replace function ai.find_invoice(workspace uuid, app uuid, record jsonb, of_reference text)
  returns ai.external_provider_invoices
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select i
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.app_id = app
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = of_reference
$$;

create or replace function ai.invoice_differences(kept ai.external_provider_invoices, record jsonb) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array_remove(
    array[
      case when (kept).kind <> coalesce(record ->> 'kind', 'invoice') then 'kind' end,
      case when (kept).replaces is distinct from record ->> 'replaces' then 'replaces' end,
      case when (kept).amount_usd <> (record ->> 'amountUsd')::numeric then 'amountUsd' end,
      case when (kept).issued_on <> (record ->> 'issuedOn')::date then 'issuedOn' end,
      case when (kept).period_start is distinct from (record ->> 'periodStart')::date then 'periodStart' end,
      case when (kept).period_end is distinct from (record ->> 'periodEnd')::date then 'periodEnd' end,
      case when (kept).reviewed_at <> (record ->> 'reviewedAt')::timestamptz then 'reviewedAt' end
    ],
    null
  )
$$;

create or replace function ai.record_invoice_activity(workspace uuid, app uuid, invoice_id uuid, record jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  select private.log_workspace_change(
    workspace, 'provider_invoice.recorded', invoice_id, concat_ws(' ', record ->> 'provider', record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces'
    ))
  )
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
        -- The records that an account day stands for: runs, and a total's services.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.external_provider_costs c
          where c.workspace_id = p.workspace_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and (c.granularity = 'run' or (p.service is null and c.service is not null))
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

create or replace function ai.provider_costs_in_totals(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.external_provider_costs, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- The latest record of a service counts, and a total stands for the services of its day.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 and (
        d.service is null
        or not bool_or(d.service is null) over (partition by d.app_id, d.provider, d.account_id, d.occurred_at)
      ) as counted
    from ai.external_provider_costs d
    where d.granularity = 'account_day'
      and d.workspace_id = workspace
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
  ), covered as materialized (
    select distinct d.app_id, d.provider, d.account_id, d.occurred_at from days d
  )
  select c, case c.granularity when 'run' then v.app_id is null else d.counted end
  from ai.external_provider_costs c
  left join covered v on v.app_id = c.app_id
    and v.provider = c.provider
    and v.account_id = c.account_id
    and v.occurred_at = date_trunc('day', c.occurred_at, 'UTC')
  left join days d on d.id = c.id
  where c.workspace_id = workspace and c.occurred_at >= window_from and c.occurred_at < window_to
$$;

create or replace function ai.invoice_replacement(invoice ai.external_provider_invoices) returns text
  language sql
  stable
  security invoker
as $$
  select r.reference
  from ai.external_provider_invoices r
  where r.workspace_id = (invoice).workspace_id
    and r.app_id = (invoice).app_id
    and r.provider = (invoice).provider
    and r.replaces = (invoice).reference
    and r.account_id is not distinct from (invoice).account_id
$$;

create or replace function ai.invoice_amount(invoice ai.external_provider_invoices, within daterange default null) returns numeric
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  -- Shares are differences of rounded sums, so that those of adjacent ranges add up to the amount.
  select case (invoice).kind when 'credit_note' then -1 else 1 end
    * case
      when within is null then (invoice).amount_usd
      when isempty(d.days * within) then 0
      else
        round((invoice).amount_usd * (upper(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
        - round((invoice).amount_usd * (lower(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
    end
  from (select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) as days) d
$$;

create or replace function ai.month_days(month text) returns daterange
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select daterange(first_day, (first_day::timestamp + interval '1 month')::date)
  from (select (month || '-01')::date as first_day) m
  where month is not null
$$;

create or replace function ai.invoice_matches(invoice ai.external_provider_invoices, filter jsonb) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select (filter ->> 'provider' is null or filter ->> 'provider' = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (
      filter ->> 'month' is null
      or ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) && ai.month_days(filter ->> 'month')
    )
$$;

create or replace function ai.reconciled_costs(workspace uuid, window_from timestamptz, window_to timestamptz)
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
    select date_trunc('month', u.day::timestamp)::date as month, ai.billing_provider(u) as provider,
      u.billing_account as account_id, u.cost_usd as metered, null::numeric as imported, null::numeric as invoiced,
      u.requests
    from ai.usage_between(workspace, window_from, window_to) u
    union all
    select date_trunc('month', (c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id,
      null, (c.cost).amount_usd, null, null
    from ai.provider_costs_in_totals(workspace, window_from, window_to) c
    where c.counted
    union all
    select m.first_day::date, i.provider, i.account_id, null, null,
      ai.invoice_amount(i, daterange(m.first_day::date, (m.first_day + interval '1 month')::date) * w.days), null
    from ai.external_provider_invoices i
    cross join (
      -- The days that begin in the window.
      select daterange(
        ((window_from + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date,
        ((window_to + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date
      ) as days
    ) w
    cross join lateral (select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * w.days as days) d
    cross join lateral generate_series(
      date_trunc('month', lower(d.days)::timestamp), upper(d.days) - interval '1 day', interval '1 month'
    ) as m (first_day)
    where i.workspace_id = workspace and not isempty(d.days) and ai.invoice_replacement(i) is null
  ) as s
  group by s.month, s.provider, s.account_id
$$;

create or replace function ai.provider_invoices_page(
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
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum(ai.invoice_amount(i, m.days)) filter (where r.by_reference is null), 0))::text,
        'records', count(*),
        'replacedRecords', count(r.by_reference)
      )
      from ai.external_provider_invoices i
      cross join lateral (select ai.month_days(filter ->> 'month') as days) m
      cross join lateral (select ai.invoice_replacement(i) as by_reference) r
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

create or replace function ai.invoice_summary(invoice ai.external_provider_invoices) returns jsonb
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
    'kind', (invoice).kind,
    'replaces', (invoice).replaces,
    'replacedBy', ai.invoice_replacement(invoice),
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'What was metered of an invoice''s provider, without other accounts'' runs, and imported of its account in its days '
  '(ai.invoice_days), the other invoices of its account that count in these days, and what all of them differ from the '
  'import by. Null for more than 366 days. Granted to nobody.';

comment on function ai.invoice_matches(ai.external_provider_invoices, jsonb) is
  'Whether an invoice is of what a filter names: any of provider, accountId, where a null names those without an account, '
  'and month, YYYY-MM, that has days of it.';

comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Imported costs of a half-open range, and whether each counts in totals. A run does not when its account''s day is '
  'known, within the range or not, so that adjacent ranges add up. A service''s day does not when the account''s day has a total.';

comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'A page of a workspace''s invoices, the latest issued first, and the total of those that count: of a month that the '
  'filter names, the shares of its days. Granted to nobody.';

comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Metered, imported and invoiced cost by month, provider and account. Runs count for ai.billing_provider and the account '
  'that they name, if any. An invoice is spread over its days (ai.invoice_days), and a replaced one does not count.';

comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Writes one reported cost, or says why not: { outcome: stored, corrected, unchanged or stale } or { refused }. A newer '
  'observation corrects; one of the same time with any other content is a conflict. Workspace and app come from the '
  'caller''s credential; the record''s shape was checked before. Granted to nobody.';

comment on function ai.find_invoice(uuid, uuid, jsonb, text) is
  'Returns the invoice with a reference, of the provider and account that a record names, or nulls.';

comment on function ai.invoice_amount(ai.external_provider_invoices, daterange) is
  'What an invoice adds in USD, negative for a credit note: all of it, or the share of some of its days.';

comment on function ai.invoice_replacement(ai.external_provider_invoices) is
  'The reference that replaces an invoice, which then no longer counts; null when it counts.';

comment on function ai.month_days(text) is 'The days of a month, YYYY-MM; null for null.';
