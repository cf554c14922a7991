-- What members, and satellites for them, read of imported costs and invoices, and how these compare with what was
-- metered. Amounts leave as exact text.

create function ai.counted_costs(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.external_provider_costs, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    c,
    case c.granularity
      when 'run' then not exists (
        select from ai.external_provider_costs d
        where d.granularity = 'account_day'
          and d.workspace_id = c.workspace_id
          and d.app_id = c.app_id
          and d.provider = c.provider
          and d.account_id = c.account_id
          and d.occurred_at = date_trunc('day', c.occurred_at, 'UTC')
      )
      -- A day of an account has one total of a service, whatever it was called by.
      else not exists (
        select from ai.external_provider_costs d
        where d.granularity = 'account_day'
          and d.workspace_id = c.workspace_id
          and d.app_id = c.app_id
          and d.provider = c.provider
          and d.account_id = c.account_id
          and d.occurred_at = c.occurred_at
          and d.service is not distinct from c.service
          and (d.observed_at, d.id) > (c.observed_at, c.id)
      )
    end
  from ai.external_provider_costs c
  where c.workspace_id = workspace and c.occurred_at >= window_from and c.occurred_at < window_to
$$;
comment on function ai.counted_costs(uuid, timestamptz, timestamptz) is
  'Imported costs of a half-open range, and whether each counts in totals: a run does not where its account''s day is '
  'known, within the range or not, so that adjacent ranges add up.';
revoke execute on function ai.counted_costs(uuid, timestamptz, timestamptz) from public, anon, authenticated;

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
  workspace uuid, given_from timestamptz, given_to timestamptz, before jsonb, page_size integer
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
    ),
    'records', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', (p.cost).id,
          'appId', (p.cost).app_id,
          'appName', ai.app_label((p.cost).app_id),
          'provider', (p.cost).provider,
          'accountId', (p.cost).account_id,
          'externalRunId', (p.cost).external_run_id,
          'granularity', (p.cost).granularity,
          'service', (p.cost).service,
          'amountUsd', trim_scale((p.cost).amount_usd)::text,
          'occurredAt', ai.exact_text((p.cost).occurred_at),
          'observedAt', ai.exact_text((p.cost).observed_at),
          'recordedAt', ai.exact_text((p.cost).recorded_at),
          'revision', (p.cost).revision,
          'counted', p.counted
        )
        order by (p.cost).occurred_at desc, (p.cost).id desc
      ), '[]')
      from (
        select *
        from ai.counted_costs(workspace, asked.window_from, asked.window_to) c
        where before is null
          or ((c.cost).occurred_at, (c.cost).id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
        order by (c.cost).occurred_at desc, (c.cost).id desc
        limit page_size
      ) p
    )
  );
end
$$;
comment on function ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer) is
  'A page of imported costs, newest first, and totals of the whole range, in which account days stand for the runs that '
  'they cover. By default the last 30 days. { outcome: listed, … } or { outcome: bad_window, fault }. Granted to nobody.';
revoke execute on function ai.provider_costs_page(uuid, timestamptz, timestamptz, jsonb, integer) from public, anon, authenticated;

create function ai.provider_invoices_page(workspace uuid, before jsonb, page_size integer) returns jsonb
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
      where i.workspace_id = workspace
    ),
    'records', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id,
          'appId', p.app_id,
          'appName', ai.app_label(p.app_id),
          'provider', p.provider,
          'accountId', p.account_id,
          'reference', p.reference,
          'amountUsd', trim_scale(p.amount_usd)::text,
          'issuedOn', p.issued_on,
          'periodStart', p.period_start,
          'periodEnd', p.period_end,
          'reviewedAt', ai.exact_text(p.reviewed_at),
          'recordedAt', ai.exact_text(p.recorded_at)
        )
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.external_provider_invoices i
        where i.workspace_id = workspace
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
comment on function ai.provider_invoices_page(uuid, jsonb, integer) is
  'A page of a workspace''s invoices, the latest issued first, and the total of all of them. Granted to nobody.';
revoke execute on function ai.provider_invoices_page(uuid, jsonb, integer) from public, anon, authenticated;

create function ai.reconciled_costs(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (month date, provider text, account_id text, metered numeric, imported numeric, invoiced numeric)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select s.month, s.provider, s.account_id, coalesce(sum(s.metered), 0), coalesce(sum(s.imported), 0), coalesce(sum(s.invoiced), 0)
  from (
    select date_trunc('month', u.day::timestamp)::date as month, coalesce(u.provider_id, 'unknown') as provider,
      null::text as account_id, u.cost_usd as metered, null::numeric as imported, null::numeric as invoiced
    from ai.usage_between(workspace, window_from, window_to) u
    union all
    select date_trunc('month', (c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id,
      null, (c.cost).amount_usd, null
    from ai.counted_costs(workspace, window_from, window_to) c
    where c.counted
    union all
    select date_trunc('month', coalesce(i.period_start, i.issued_on)::timestamp)::date, i.provider, i.account_id,
      null, null, i.amount_usd
    from ai.external_provider_invoices i
    where i.workspace_id = workspace
      and coalesce(i.period_start, i.issued_on)::timestamp at time zone 'UTC' >= window_from
      and coalesce(i.period_start, i.issued_on)::timestamp at time zone 'UTC' < window_to
  ) as s
  group by s.month, s.provider, s.account_id
$$;
comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Metered, imported and invoiced cost side by side. The gateway''s runs know no provider''s account, so that they stand '
  'with none; an invoice counts in the month that its period begins in, else that it was issued in.';
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
  asked record := ai.usage_window(given_from, given_to, 365);
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
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text
          )
          order by p.account_id collate "C" nulls first
        ) filter (where p.account_id is not null or p.imported <> 0 or p.invoiced <> 0), '[]') as accounts
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
  before jsonb default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.provider_costs_page(workspace, given_from, given_to, before, page_size)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer) is
  'ai.provider_costs_page for a member with use_ai_studio, else { outcome: not_allowed }.';
revoke execute on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer) from public, anon, authenticated;
grant execute on function ai.list_provider_costs(uuid, uuid, timestamptz, timestamptz, jsonb, integer) to service_role;

-- Definer: as ai.list_provider_costs.
create function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.provider_invoices_page(workspace, before, page_size)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_provider_invoices(uuid, uuid, jsonb, integer) is
  'ai.provider_invoices_page for a member with use_ai_studio, else { outcome: not_allowed }.';
revoke execute on function ai.list_provider_invoices(uuid, uuid, jsonb, integer) from public, anon, authenticated;
grant execute on function ai.list_provider_invoices(uuid, uuid, jsonb, integer) to service_role;

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
