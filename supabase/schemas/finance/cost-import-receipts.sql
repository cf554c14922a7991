-- Reads the receipt of an imported cost file.

-- Returns an import of a book: { outcome: read, provider, sha256, appName, import, current, services }, { outcome:
-- not_found } or ai.book_refusal. current summarizes the daily totals that the import wrote and that were not corrected
-- later, and services names what they consist of (ai.imported_services).
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_cost_import(member_id uuid, workspace uuid, import_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'provider', i.provider,
      'sha256', encode(i.file_sha256, 'hex'),
      'appName', ai.app_label(i.app_id),
      'import', ai.cost_import_summary(i.id),
      'current', (
        select jsonb_build_object(
          'days', count(*),
          'accounts', count(distinct c.account_id),
          'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text,
          'firstDay', min((c.occurred_at at time zone 'UTC')::date),
          'lastDay', max((c.occurred_at at time zone 'UTC')::date)
        )
        from ai.cost_book_entries c
        where c.book_id = workspace
          and c.app_id = i.app_id
          and c.provider = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
      ),
      'services', ai.imported_services(i)
    )
    from ai.cost_imports i
    where i.id = read_cost_import.import_id and i.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns the services of an import's current daily totals: { list: [{ service, amountUsd }], others: { services,
-- amountUsd } }. list has the 50 largest amounts, and others the rest, so both add up to the totals. Returns null if the
-- totals have no services. A null service has the lines that name none. Not granted to any role.
create or replace function ai.imported_services(import ai.cost_imports) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with services as (
    select nullif(v.key, '') as service, sum(v.value::numeric) as amount_usd
    from ai.external_provider_costs c
    join ai.cost_services s on s.cost_id = c.id and s.revision = c.revision
    cross join jsonb_each_text(s.services) v
    where c.workspace_id = (import).workspace_id
      and c.app_id = (import).app_id
      and ai.provider_name(c.provider) = (import).provider
      and c.granularity = 'account_day'
      and c.import_id = (import).id
    group by v.key
  ), ranked as (
    select *, row_number() over (order by abs(s.amount_usd) desc, s.service collate "C") as place from services s
  )
  select jsonb_build_object(
    'list', jsonb_agg(
      jsonb_build_object('service', r.service, 'amountUsd', trim_scale(r.amount_usd)::text) order by r.place
    ) filter (where r.place <= 50),
    'others', jsonb_build_object(
      'services', count(*) filter (where r.place > 50),
      'amountUsd', trim_scale(coalesce(sum(r.amount_usd) filter (where r.place > 50), 0))::text
    )
  )
  from ranked r
  having count(*) > 0
$$;
