-- Keeps the services of an imported daily total: { "Amazon Bedrock": 1.5, "": 0.25 }. The empty name has the lines that
-- name no service. Services only explain a total. The total is the one record that counts.

-- Returns the first error in the services of a document whose other fields are valid, or null if they are valid or if the
-- document has none. The parts of a day add up to its amounts in each currency. Not granted to any role.
create or replace function ai.cost_services_fault(document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  found_fault record;
  parts jsonb;
  service_count integer;
begin
  if not document ? 'services' then
    return null;
  elsif jsonb_typeof(document -> 'services') <> 'array'
    or jsonb_array_length(document -> 'services') not between 1 and 5000 then
    return ai.cost_fault('services', 'A file has 1 to 5,000 services.');
  end if;
  select s.value as name into found_fault
  from jsonb_array_elements(document -> 'services') s
  where jsonb_typeof(s.value) <> 'string' or not (s.value = '""' or ai.is_external_id(s.value #>> '{}'))
  limit 1;
  if found then
    return ai.cost_fault('services', format('This is not a service: %s', left(found_fault.name::text, 200)));
  end if;
  if jsonb_typeof(coalesce(document -> 'serviceCategories', '{}')) <> 'object' then
    return ai.cost_fault('serviceCategories', 'Categories name a service each.');
  end if;
  select c.key into found_fault
  from jsonb_each(coalesce(document -> 'serviceCategories', '{}')) c
  where jsonb_typeof(c.value) <> 'string' or char_length(c.value #>> '{}') > 64 or not document -> 'services' ? c.key
  limit 1;
  if found then
    return ai.cost_fault('serviceCategories', format('This is not a service with a category: %s', left(found_fault.key, 200)));
  end if;
  select d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where jsonb_typeof(d.value -> 'parts') is distinct from 'array'
  limit 1;
  if found then
    return ai.cost_fault('days', format('%s has no parts by service.', found_fault.day));
  end if;
  parts := jsonb_path_query_array(document, '$.days[*].parts[*]');
  service_count := jsonb_array_length(document -> 'services');
  if jsonb_array_length(parts) > 100000 then
    return ai.cost_fault('services', 'A file has at most 100,000 parts by service. Import a shorter range.');
  end if;
  select p.value as part into found_fault
  from jsonb_array_elements(parts) p
  where not coalesce(
    p.value ->> 0 ~ '^[0-9]{1,5}$'
      and (p.value ->> 0)::integer < service_count
      and p.value ->> 1 ~ '^[A-Z]{3}$'
      and p.value ->> 2 ~ '^-?[0-9]{1,15}(\.[0-9]{1,40})?$',
    false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not the part of a service: %s', left(found_fault.part::text, 200)));
  end if;
  select s.day into found_fault
  from (
    select a.account_id, a.day, a.currency, a.amount
    from ai.cost_document_amounts(document) a
    union all
    select p.account_id, p.day, p.currency, -p.amount
    from ai.cost_document_parts(document) p
  ) s
  group by s.account_id, s.day, s.currency
  having sum(s.amount) <> 0
  limit 1;
  if found then
    return ai.cost_fault('days', format('The services of %s do not add up to its amounts.', found_fault.day));
  end if;
  return null;
end
$$;

-- Returns the parts by service of a valid document, each with the position of its service and the exchange rate from its
-- currency to USD. Returns none if the document has no services. Not granted to any role.
create or replace function ai.cost_document_parts(document jsonb)
  returns table (account_id text, day date, service_at integer, currency text, amount numeric, rate numeric)
  language sql stable security invoker set search_path = ''
as $$
  -- Takes what it needs out of the document once, because each access to a large document reads it again.
  with rates as materialized (
    select document -> 'rates' as of_currency where document ? 'services'
  ), days as materialized (
    select d.value ->> 'accountId' as account_id, (d.value ->> 'day')::date as day, d.value -> 'parts' as parts
    from jsonb_array_elements(document -> 'days') d
  )
  select
    d.account_id, d.day, (p.value ->> 0)::integer, p.value ->> 1, (p.value ->> 2)::numeric,
    case p.value ->> 1 when 'USD' then 1 else (r.of_currency ->> (p.value ->> 1))::numeric end
  from rates r
  cross join days d
  cross join jsonb_array_elements(d.parts) p
$$;

-- Returns the services of each account and day of a valid document, with amounts in USD that add up to the day's total.
-- Each amount is rounded to 12 decimals, as the total is, and the service with the largest amount takes what rounding
-- leaves. Not granted to any role.
create or replace function ai.cost_document_services(document jsonb)
  returns table (account_id text, day date, services jsonb)
  language sql stable security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
  with parts as materialized (
    select p.account_id, p.day, p.service_at, sum(p.amount * p.rate) as exact
    from ai.cost_document_parts(document) p
    group by p.account_id, p.day, p.service_at
  ), remainders as materialized (
    select
      p.account_id, p.day, round(sum(p.exact), 12) - sum(round(p.exact, 12)) as amount_usd,
      (array_agg(p.service_at order by abs(p.exact) desc, p.service_at))[1] as service_at
    from parts p
    group by p.account_id, p.day
  )
  select
    p.account_id, p.day,
    jsonb_object_agg(n.name, trim_scale(
      round(p.exact, 12) + case p.service_at when r.service_at then r.amount_usd else 0 end
    ))
  from parts p
  join remainders r on r.account_id = p.account_id and r.day = p.day
  join jsonb_array_elements_text(document -> 'services') with ordinality n (name, position)
    on n.position = p.service_at + 1
  group by p.account_id, p.day
$$;

-- Stores the services of the days that an import wrote. Not granted to any role.
create or replace function ai.store_cost_services(book uuid, app uuid, new_import_id uuid, document jsonb) returns void
  language sql volatile security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
  insert into ai.cost_services as s (cost_id, revision, services)
  select c.id, c.revision, d.services
  from ai.cost_document_services(document) d
  join ai.external_provider_costs c
    on c.account_id = d.account_id and c.occurred_at = d.day::timestamp at time zone 'UTC'
  -- No index has import_id. These conditions match the index of daily totals.
  where c.workspace_id = book
    and c.app_id = app
    and ai.provider_name(c.provider) = ai.provider_name(document ->> 'provider')
    and c.granularity = 'account_day'
    and c.import_id = new_import_id
  on conflict (cost_id) do update set revision = excluded.revision, services = excluded.services
$$;

-- Rejects services that do not add up to the total that they belong to.
create or replace function ai.reject_wrong_cost_services() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if not exists (
    select
    from ai.external_provider_costs c
    where c.id = new.cost_id
      and c.revision = new.revision
      and c.granularity = 'account_day'
      and c.amount_usd = (select sum(s.value::numeric) from jsonb_each_text(new.services) s)
  ) then
    raise exception 'the services of cost % do not add up to its amount', new.cost_id using errcode = 'check_violation';
  end if;
  return null;
end
$$;

create or replace trigger reject_wrong_cost_services after insert or update on ai.cost_services
  for each row execute function ai.reject_wrong_cost_services();

-- Returns the services of imported daily totals, without totals that have none: { outcome: listed, records: [{ id,
-- services: [{ service, category, amountUsd }] }] } or ai.book_refusal. The service is null for lines that name none, and
-- the category is null if the file states none. The amounts of a record add up to its amountUsd.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_cost_services(member_id uuid, workspace uuid, cost_ids uuid[]) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'listed', 'records', coalesce(jsonb_agg(
      jsonb_build_object(
        'id', c.id,
        'services', (
          select jsonb_agg(
            jsonb_build_object(
              'service', nullif(v.key, ''), 'category', i.service_categories ->> v.key, 'amountUsd', v.value
            )
            order by v.key collate "C"
          )
          from jsonb_each_text(s.services) v
        )
      )
    ), '[]'))
    from ai.external_provider_costs c
    join ai.cost_services s on s.cost_id = c.id and s.revision = c.revision
    left join ai.cost_imports i on i.id = c.import_id
    where c.workspace_id = workspace and c.id = any (cost_ids)
  ))
$$;
