-- Reads imported costs. Amounts are text, so no digit is lost.

-- Returns a page of a book's costs (ai.provider_cost_records) with the totals of the whole range. An export reads all
-- pages and does not request totals. The default range is the last 30 days. Returns { outcome: listed, … }, { outcome:
-- bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_provider_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before jsonb default null, page_size integer default 50, filter jsonb default '{}', with_totals boolean default true,
  token_hash bytea default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace, token_hash);
  dates record := ai.usage_window(given_from, given_to, 30);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(dates.window_from),
    'to', ai.utc_text_microseconds(dates.window_to),
    'records', ai.provider_cost_records(workspace, dates.window_from, dates.window_to, before, page_size, filter)
  ) || case when with_totals
    then jsonb_build_object('totals', ai.provider_cost_totals(workspace, dates.window_from, dates.window_to, filter))
    else '{}'
  end;
end
$$;

-- Returns a page of imported costs of a half-open range, newest first. Each cost has its file and its amount before
-- currency conversion. replacedBy is the externalRunId of the record that counts instead, or null. replaces is the
-- number and amount of the records that a daily total replaces. The filter may have provider and accountId. A null
-- accountId selects costs without an account.
create or replace function ai.provider_cost_records(
  workspace uuid, window_from timestamptz, window_to timestamptz, before jsonb, page_size integer, filter jsonb
) returns jsonb
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would read the whole range for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_provider text := ai.provider_name(filter ->> 'provider');
  of_account text := filter ->> 'accountId';
  any_account boolean := not filter ? 'accountId';
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    with page as materialized (
      select *
      from ai.cost_book_entries c
      where c.book_id = workspace
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
        -- Sums the records that this daily total replaces: runs, earlier totals and, if it covers all services, totals
        -- of single services.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.cost_book_entries c
          where c.book_id = p.book_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and c.id <> p.id
            and (c.granularity = 'run' or p.service is null or c.service = p.service)
            and c.app_id = p.app_id
            and c.provider = p.provider
            and c.account_id = p.account_id
        ) end,
        'original', p.original,
        'import', case when p.import_id is not null then ai.cost_import_summary(p.import_id) end
      )
      order by p.occurred_at desc, p.id desc
    ), '[]')
    from page p
    left join private.apps a on a.id = p.app_id
    -- The daily total that counts instead of this record, by the rule of ai.provider_costs_in_totals.
    left join lateral (
      select d.external_run_id as by_run_id
      from ai.cost_book_entries d
      where d.granularity = 'account_day'
        and d.book_id = p.book_id
        and d.app_id = p.app_id
        and d.provider = p.provider
        and d.account_id = p.account_id
        and d.occurred_at = date_trunc('day', p.occurred_at, 'UTC')
        and (
          p.granularity = 'run'
          or (d.service is null and p.service is not null)
          or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
        )
        and not ai.is_superseded_cost(d)
      order by d.service is null desc, d.observed_at desc, d.id desc
      limit 1
    ) as day on true
    -- A record is also replaced if the same cost was observed later under another spelling of the provider's name.
    cross join lateral (
      select case when ai.is_superseded_cost(p) then p.external_run_id else day.by_run_id end as by_run_id
    ) as replaced
  );
end
$$;

-- Returns the total of the imported costs in a half-open range. Records that a daily total replaces are not part of the
-- total, and are summed separately.
create or replace function ai.provider_cost_totals(workspace uuid, window_from timestamptz, window_to timestamptz, filter jsonb)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where t.counted), 0))::text,
    'records', count(*),
    'replacedRecords', count(*) filter (where not t.counted),
    'replacedUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where not t.counted), 0))::text
  )
  from ai.provider_costs_in_totals(workspace, window_from, window_to) t
  where (filter ->> 'provider' is null or (t.cost).provider = ai.provider_name(filter ->> 'provider'))
    and (not filter ? 'accountId' or (t.cost).account_id is not distinct from filter ->> 'accountId')
$$;

-- Returns the file that a record was imported with, the file's exchange rates, and who imported the file. by is person
-- or operator. name is null for the operator and for a deleted account. Not granted to any role.
create or replace function ai.cost_import_summary(of_import_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', i.id,
    'file', i.file_name,
    'format', i.format,
    'timeZone', i.time_zone,
    'rates', i.rates,
    'by', case when i.imported_by is null then 'operator' else 'person' end,
    'name', private.actor_name(i.imported_by),
    'importedAt', ai.utc_text_microseconds(i.imported_at)
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;
