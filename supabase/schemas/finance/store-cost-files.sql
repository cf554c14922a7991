-- Stores a cost file in one transaction.

-- Stores all days of a cost file or none. Returns { outcome: imported, importId, added, corrected, cleared, unchanged
-- }, { outcome: changed } or { outcome: invalid, param, message }. importId is null if no day changes. The outcome is
-- changed if the given state (ai.cost_file_state) is no longer current, or if a concurrent import wrote one of the same
-- days. The change is { actor, reason, requestId, ip }. The workspace's activity log records its actor, and the audit log
-- records it for the platform's book. An import by an operator has no actor. Not granted to any role.
create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault jsonb := ai.cost_document_fault(document);
  days ai.cost_file_day[];
  item ai.cost_file_day;
  answer jsonb;
  new_id uuid := gen_random_uuid();
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
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
    id, workspace_id, app_id, provider, format, file_name, file_sha256, time_zone, rates, imported_by
  )
  values (
    new_id, book, app, ai.provider_name(document ->> 'provider'), document ->> 'format', document ->> 'fileName',
    decode(document ->> 'sha256', 'hex'), document ->> 'timeZone', coalesce(document -> 'rates', '{}'), (change ->> 'actor')::uuid
  );
  -- Writes days in the order in which ai.import_provider_costs writes records, so that concurrent imports can't
  -- deadlock.
  for item in
    select d.*
    from unnest(days) d
    where d.change not in ('unchanged', 'remaining')
    order by d.account_id collate "C", d.external_run_id collate "C"
  loop
    perform ai.write_cost_file_day(book, app, new_id, item);
  end loop;
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'costs.import',
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

-- Writes one day of a cost file. Raises serialization_failure if a concurrent import has changed or added the day's
-- stored record. Not granted to any role.
create or replace function ai.write_cost_file_day(book uuid, app uuid, new_import_id uuid, item ai.cost_file_day) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := (select i.provider from ai.cost_imports i where i.id = new_import_id);
  occurred timestamptz := item.day::timestamp at time zone 'UTC';
  recorded timestamptz := clock_timestamp();
  -- Importers' clocks may be up to 60 seconds ahead.
  observed timestamptz := greatest(recorded, item.observed_before + interval '1 microsecond');
begin
  if item.stored_id is null then
    insert into ai.external_provider_costs (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at,
      recorded_at, import_id, original
    )
    values (
      book, app, name, item.account_id, item.external_run_id, 'account_day', item.amount_usd, occurred, observed,
      recorded, new_import_id, item.original
    )
    on conflict do nothing;
  else
    update ai.external_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = item.amount_usd, occurred_at = occurred,
      observed_at = observed, recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id,
      original = item.original
    where c.id = item.stored_id and c.revision = item.stored_revision;
  end if;
  if not found then
    raise exception 'a concurrent import wrote %', item.external_run_id using errcode = 'serialization_failure';
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
