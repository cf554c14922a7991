-- Compares a cost file with a book. A person sees the result as a preview before the file is stored.

-- Returns what an import of a cost file would change: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay,
-- days, dates, accountCount, accounts, added, unchanged, corrected, replaced, remaining, cleared, state, closedMonths } or
-- { outcome: invalid, param, message }. days is the number of daily totals in the file, and dates that of their different
-- days. accounts has the first 50 accounts, and corrected.list the first 100 corrected totals. remaining and cleared count
-- imported days that are missing from the file. Not granted to any role.
create or replace function ai.describe_cost_file(book uuid, app uuid, document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  fault jsonb := coalesce(ai.cost_document_fault(document), ai.cost_services_fault(document));
  days ai.cost_file_day[];
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  return jsonb_build_object(
    'outcome', 'previewed',
    'byCurrency', (
      select jsonb_agg(
        jsonb_build_object(
          'currency', c.currency, 'amount', trim_scale(c.amount)::text, 'amountUsd', trim_scale(round(c.amount_usd, 12))::text
        )
        order by c.currency <> 'USD', c.currency collate "C"
      )
      from (
        select a.currency, sum(a.amount) as amount, sum(a.amount * a.rate) as amount_usd
        from ai.cost_document_amounts(document) a
        group by a.currency
      ) c
    ),
    'replaced', ai.costs_replaced_by_file(book, app, document, days),
    'state', ai.cost_file_state(book, app, document, days),
    'closedMonths', ai.months_closed_to_file(book, days)
  ) || (
    select jsonb_object_agg(k.change, jsonb_build_object(
      'days', (select count(*) from unnest(days) d where d.change = k.change),
      'amountUsd', trim_scale(coalesce((select sum(d.stored_usd) from unnest(days) d where d.change = k.change), 0))::text
    ))
    from unnest('{remaining,cleared}'::text[]) k (change)
  ) || (
    select jsonb_build_object(
      'totalUsd', trim_scale(sum(d.amount_usd))::text,
      'firstDay', min(d.day),
      'lastDay', max(d.day),
      'days', count(*),
      'dates', count(distinct d.day),
      'added', jsonb_build_object(
        'days', count(*) filter (where d.change = 'added'),
        'amountUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'added'), 0))::text
      ),
      'unchanged', jsonb_build_object('days', count(*) filter (where d.change = 'unchanged')),
      'corrected', jsonb_build_object(
        'days', count(*) filter (where d.change = 'corrected'),
        'fromUsd', trim_scale(coalesce(sum(d.stored_usd) filter (where d.change = 'corrected'), 0))::text,
        'toUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'corrected'), 0))::text,
        'list', (
          select coalesce(jsonb_agg(
            jsonb_build_object(
              'accountId', l.account_id, 'day', l.day,
              'fromUsd', trim_scale(l.stored_usd)::text, 'toUsd', trim_scale(l.amount_usd)::text
            )
            order by l.day, l.account_id collate "C"
          ), '[]')
          from (
            select *
            from unnest(days) c
            where c.change = 'corrected'
            order by c.day, c.account_id collate "C"
            limit 100
          ) l
        )
      )
    )
    from unnest(days) d
    where d.change not in ('remaining', 'cleared')
  ) || (
    select jsonb_build_object(
      'accountCount', max(a.account_count),
      'accounts', jsonb_agg(
        jsonb_build_object('accountId', a.account_id, 'days', a.days, 'amountUsd', trim_scale(a.amount_usd)::text)
        order by a.account_id collate "C"
      )
    )
    from (
      select d.account_id, count(*) as days, sum(d.amount_usd) as amount_usd, count(*) over () as account_count
      from unnest(days) d
      where d.change not in ('remaining', 'cleared')
      group by d.account_id
      order by d.account_id collate "C"
      limit 50
    ) a
  );
end
$$;

-- Compares the daily totals of a valid document, by account and day, with the stored records that they correct. Also
-- returns the days in the document's range that earlier files had and the document lacks. The change of such a day is
-- "cleared" if the document's clear is true, and "remaining" otherwise. Not granted to any role.
create or replace function ai.compare_cost_file(book uuid, app uuid, document jsonb) returns ai.cost_file_day[]
  language plpgsql stable security invoker set search_path = ''
  -- Without recent statistics the planner expects one record, and would use a nested loop that compares every day with
  -- every record.
  set enable_nestloop = off set jit = off
as $$
declare
  name text := ai.provider_name(document ->> 'provider');
begin
  return (
    with amounts as (
      select a.account_id, a.day, a.currency, a.rate, sum(a.amount) as amount
      from ai.cost_document_amounts(document) a
      group by a.account_id, a.day, a.currency, a.rate
    ), totals as materialized (
      select
        a.account_id, a.day, ai.account_day_run_id(name, a.account_id, a.day) as external_run_id,
        round(sum(a.amount * a.rate), 12) as amount_usd,
        case when bool_or(a.currency <> 'USD') then jsonb_agg(
          jsonb_build_object('currency', a.currency, 'amount', trim_scale(a.amount)::text) order by a.currency collate "C"
        ) end as original
      from amounts a
      group by a.account_id, a.day
    ), stored as (
      -- Selects the last observed record of each account and run id, as ai.find_cost does.
      select distinct on (e.account_id, e.external_run_id) e.*
      from ai.cost_book_entries e
      where e.book_id = book
        and e.app_id = app
        and e.provider = name
        and e.external_run_id = any (array(select t.external_run_id from totals t))
      order by e.account_id, e.external_run_id, e.observed_at desc, e.id desc
    ), services as materialized (
      select * from ai.cost_document_services(document)
    ), counted as (
      select distinct on (d.account_id, d.occurred_at)
        d.id, d.account_id, d.occurred_at, d.observed_at, d.external_run_id, d.amount_usd, d.revision, d.import_id
      from ai.cost_book_entries d
      where d.book_id = book
        and d.app_id = app
        and d.provider = name
        and d.granularity = 'account_day'
        and d.service is null
        and d.occurred_at >= (select min(t.day) from totals t)::timestamp at time zone 'UTC'
        and d.occurred_at <= (select max(t.day) from totals t)::timestamp at time zone 'UTC'
      order by d.account_id, d.occurred_at, d.observed_at desc, d.id desc
    ), missing as (
      -- Days of this period that an earlier import stated and this file lacks. Such a file may name a wrong account or
      -- leave out services.
      select c.*, (c.occurred_at at time zone 'UTC')::date as day
      from counted c
      where c.import_id is not null
        and c.amount_usd <> 0
        and (c.account_id, c.occurred_at) not in (select t.account_id, t.day::timestamp at time zone 'UTC' from totals t)
    ), compared as (
      select
        row(
          t.account_id, t.day, t.external_run_id, t.amount_usd, t.original, s.id, s.amount_usd, s.revision,
          greatest(s.observed_at, c.observed_at),
          case
            when s.id is null then 'added'
            -- A record is unchanged if it has the same values as the file and is the newest record of its day. A file
            -- without services leaves the record's services as they are.
            when s.id = c.id
              and s.amount_usd = t.amount_usd
              and s.original is not distinct from t.original
              and (f.services is null or f.services is not distinct from k.services) then 'unchanged'
            else 'corrected'
          end
        )::ai.cost_file_day as item
      from totals t
      left join stored s on s.account_id = t.account_id and s.external_run_id = t.external_run_id
      left join counted c
        on c.account_id = t.account_id and c.occurred_at = t.day::timestamp at time zone 'UTC'
      left join services f on f.account_id = t.account_id and f.day = t.day
      left join ai.cost_services k on k.cost_id = s.id and k.revision = s.revision
      union all
      select
        row(
          l.account_id, l.day, l.external_run_id, 0, null, l.id, l.amount_usd, l.revision, l.observed_at,
          case document ->> 'clear' when 'true' then 'cleared' else 'remaining' end
        )::ai.cost_file_day
      from missing l
    )
    select array_agg(o.item order by (o.item).account_id collate "C", (o.item).day) from compared o
  );
end
$$;

-- Returns a hash of the result of ai.compare_cost_file. The hash changes if the file changes, or if the records that
-- the file corrects or replaces change. Not granted to any role.
create or replace function ai.cost_file_state(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns text
  language sql stable security invoker set search_path = ''
as $$
  select encode(sha256(convert_to(concat_ws(
    e'\n', book, app, ai.provider_name(document ->> 'provider'), document -> 'rates',
    ai.costs_replaced_by_file(book, app, document, days),
    document -> 'services', document -> 'serviceCategories',
    case when document ? 'services' then jsonb_path_query_array(document, '$.days[*].parts') end,
    to_jsonb(array(select d from unnest(days) d where d.change <> 'remaining'))
  ), 'UTF8')), 'hex')
$$;

-- Returns the number and the sum of the records that stop counting when a file is imported, because the file's daily
-- totals replace them: { records, amountUsd }. Not granted to any role.
create or replace function ai.costs_replaced_by_file(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns jsonb
  language plpgsql stable security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
declare
  first_day date := (select min(d.day) from unnest(days) d);
  last_day date := (select max(d.day) from unnest(days) d);
begin
  return (
    select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd), 0))::text)
    from ai.provider_costs_in_totals(
      book, first_day::timestamp at time zone 'UTC', (last_day + 1)::timestamp at time zone 'UTC'
    ) t
    join unnest(days) d
      on d.account_id = (t.cost).account_id and d.day = ((t.cost).occurred_at at time zone 'UTC')::date
    where t.counted
      and (t.cost).app_id = app
      and (t.cost).provider = ai.provider_name(document ->> 'provider')
      and d.change <> 'remaining'
      and (t.cost).id is distinct from d.stored_id
  );
end
$$;

-- Returns the external run id of an account's daily total. A long account id is hashed, because an external id has at
-- most 256 characters.
create or replace function ai.account_day_run_id(provider text, account_id text, day date) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when char_length(account_id) + char_length(provider) <= 238 then format('%s-costs:%s:%s', provider, account_id, day)
    else format('%s-costs:sha256-%s:%s', provider, encode(sha256(convert_to(account_id, 'UTF8')), 'hex'), day)
  end
$$;
