-- Stores a cost file in one transaction.

-- Stores all days of a cost file or none. Returns { outcome: imported, importId, added, corrected, cleared, unchanged
-- }, { outcome: changed }, { outcome: month_closed, months } or { outcome: invalid, param, message }. importId is null if
-- no day changes. The outcome is changed if the given state (ai.cost_file_state) is no longer current, or if a concurrent
-- import wrote one of the same days, and month_closed if a person's file would change a day of a closed month. The change
-- is { actor, reason, requestId, ip, action }. The workspace's activity log records its actor, and the audit log records
-- it for the platform's book, by default as costs.import. An import by an operator or by the system has no actor. Not
-- granted to any role.
create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault jsonb := coalesce(ai.cost_document_fault(document), ai.cost_services_fault(document));
  -- Only people are refused. What is imported automatically appears after the close.
  by_person boolean := change ->> 'action' is distinct from 'costs.import_automatically';
  days ai.cost_file_day[];
  batch ai.cost_file_day[];
  answer jsonb;
  new_id uuid := gen_random_uuid();
begin
  if fault is not null then
    return fault;
  end if;
  if by_person then
    perform ai.hold_open_months(book);
  end if;
  days := ai.compare_cost_file(book, app, document);
  if by_person and ai.months_closed_to_file(book, days) <> '{}' then
    return jsonb_build_object('outcome', 'month_closed', 'months', ai.months_closed_to_file(book, days));
  end if;
  if state <> ai.cost_file_state(book, app, document, days) then
    return '{"outcome": "changed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'imported',
    'importId', case when bool_or(d.change not in ('unchanged', 'remaining')) then new_id end,
    'added', count(*) filter (where d.change = 'added'),
    'corrected', count(*) filter (where d.change = 'corrected'),
    'cleared', count(*) filter (where d.change = 'cleared'),
    'unchanged', count(*) filter (where d.change = 'unchanged')
  ) into answer
  from unnest(days) d;
  if answer ->> 'importId' is null then
    return answer;
  end if;
  insert into ai.cost_imports (
    id, workspace_id, app_id, provider, format, file_name, file_sha256, time_zone, rates, service_categories, imported_by
  )
  values (
    new_id, book, app, ai.provider_name(document ->> 'provider'), document ->> 'format', document ->> 'fileName',
    decode(document ->> 'sha256', 'hex'), document ->> 'timeZone', coalesce(document -> 'rates', '{}'),
    coalesce(document -> 'serviceCategories', '{}'), (change ->> 'actor')::uuid
  );
  -- Writes days in the order in which ai.import_provider_costs writes records, so that concurrent imports can't
  -- deadlock. Consecutive days that are all new, or that all correct a record, are one batch.
  for batch in
    select array_agg(b.item order by b.place)
    from (
      select o.*, o.place - row_number() over (partition by o.is_new order by o.place) as batch_number
      from (
        select
          d as item, d.stored_id is null as is_new,
          row_number() over (order by d.account_id collate "C", d.external_run_id collate "C") as place
        from unnest(days) d
        where d.change not in ('unchanged', 'remaining')
      ) o
    ) b
    group by b.is_new, b.batch_number
    order by min(b.place)
  loop
    perform ai.write_cost_file_days(book, app, new_id, batch);
  end loop;
  perform ai.store_cost_services(book, app, new_id, document);
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', coalesce(change ->> 'action', 'costs.import'),
      'target', 'costs ' || ai.provider_name(document ->> 'provider'),
      'after', ai.cost_import_details(new_id) || answer
    ));
  else
    perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
    perform private.log_workspace_change(
      book, 'provider_costs.imported', new_id,
      concat_ws(' ', ai.provider_name(document ->> 'provider'), document ->> 'fileName'),
      ai.cost_import_details(new_id) || jsonb_build_object(
        'appId', app, 'days', (select count(*) from unnest(days) d where d.change <> 'remaining'),
        'totalUsd', (select trim_scale(sum(d.amount_usd))::text from unnest(days) d)
      )
    );
  end if;
  return answer;
exception
  -- A concurrent import wrote one of the same days, so this import stores nothing.
  when serialization_failure then
    return '{"outcome": "changed"}';
end
$$;

-- Writes days of a cost file that are all new, or that all correct a stored record, in their order. Raises
-- serialization_failure if a concurrent import has changed or added the stored record of a day. Not granted to any role.
create or replace function ai.write_cost_file_days(book uuid, app uuid, new_import_id uuid, days ai.cost_file_day[]) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  recorded timestamptz := clock_timestamp();
  -- A day is observed after the record that it corrects, whose importer's clock may be up to 60 seconds ahead.
  tick interval := '1 microsecond';
  written integer;
begin
  if (days[1]).stored_id is null then
    insert into ai.external_provider_costs (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at,
      recorded_at, import_id, original
    )
    select
      book, app, i.provider, d.account_id, d.external_run_id, 'account_day', d.amount_usd,
      d.day::timestamp at time zone 'UTC', greatest(recorded, d.observed_before + tick), recorded, i.id, d.original
    from unnest(days) with ordinality d
    cross join ai.cost_imports i
    where i.id = new_import_id
    order by d.ordinality
    on conflict do nothing;
  else
    -- An update locks its rows in any order.
    perform 1
    from unnest(days) with ordinality d
    join ai.external_provider_costs c on c.id = d.stored_id
    order by d.ordinality
    for update of c;
    update ai.external_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = d.amount_usd,
      occurred_at = d.day::timestamp at time zone 'UTC', observed_at = greatest(recorded, d.observed_before + tick),
      recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id, original = d.original
    from unnest(days) d
    where c.id = d.stored_id and c.revision = d.stored_revision;
  end if;
  get diagnostics written = row_count;
  if written <> cardinality(days) then
    raise exception 'a concurrent import wrote one of % days', cardinality(days) using errcode = 'serialization_failure';
  end if;
end
$$;

-- Returns details of an import for the activity log and the audit log. Not granted to any role.
create or replace function ai.cost_import_details(of_import_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'provider', i.provider, 'format', i.format, 'file', i.file_name, 'sha256', encode(i.file_sha256, 'hex'),
    'timeZone', i.time_zone, 'rates', i.rates
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

-- Rejects changes, because ai.cost_imports is append-only.
create or replace function ai.reject_cost_import_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  raise exception 'a cost import is immutable' using errcode = 'restrict_violation';
end
$$;

-- Applies to every role, including the table's owner.
create or replace trigger reject_cost_import_change before update or delete on ai.cost_imports
  for each row execute function ai.reject_cost_import_change();
-- Rejects TRUNCATE for every role, including the table's owner.
create or replace trigger reject_cost_import_truncate before truncate on ai.cost_imports
  for each statement execute function ai.reject_cost_import_change();
