-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

drop function ai.provider_costs_in_totals(uuid, timestamp with time zone, timestamp with time zone);

create or replace function ai.provider_name(name text) returns text
  language sql
  immutable
  security invoker
as $$
  select lower(name)
$$;

create or replace view ai.cost_book_entries with (security_invoker = true) as
  select
    c.workspace_id as book_id, c.app_id, c.id, ai.provider_name(c.provider) as provider, c.provider as spelling,
    c.account_id, c.external_run_id, c.granularity, c.service, c.amount_usd, c.occurred_at, c.observed_at, c.recorded_at,
    c.revision, c.import_id, c.original
  from ai.external_provider_costs c
  union all
  select
    '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', p.id, p.provider, p.provider,
    p.account_id, p.external_run_id, p.granularity, p.service, p.amount_usd, p.occurred_at, p.observed_at, p.recorded_at,
    p.revision, p.import_id, p.original
  from ai.platform_provider_costs p;

create or replace view ai.invoice_book_entries with (security_invoker = true) as
  select
    i.workspace_id as book_id, i.app_id, i.id, ai.provider_name(i.provider) as provider, i.provider as spelling,
    i.account_id, i.reference, i.kind, i.replaces, i.amount_usd, i.issued_on, i.period_start, i.period_end,
    i.reviewed_at, i.recorded_at
  from ai.external_provider_invoices i
  union all
  select
    '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', p.id, p.provider, p.provider,
    p.account_id, p.reference, p.kind, p.replaces, p.amount_usd, p.issued_on, p.period_start, p.period_end,
    p.reviewed_at, p.recorded_at
  from ai.platform_provider_invoices p;

create or replace function ai.platform_book() returns uuid
  language sql
  immutable
  security invoker
as $$
  select '00000000-0000-0000-0000-000000000000'::uuid
$$;

create or replace function ai.find_cost(book uuid, app uuid, name text, account text, run_id text)
  returns setof ai.cost_book_entries
  language sql
  stable
  security invoker
as $$
  select *
  from ai.cost_book_entries e
  where e.book_id = book
    and e.app_id = app
    and e.provider = name
    and e.external_run_id = run_id
    and e.account_id is not distinct from account
  order by e.observed_at desc, e.id desc
  limit 1
$$;

create or replace function ai.cost_clashes(book uuid) returns table (
  provider text, spellings text[], account_id text, external_run_id text, from_day date, to_day date
)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c.provider, array_agg(c.spelling order by c.spelling collate "C"), c.account_id, c.external_run_id,
    (min(c.occurred_at) at time zone 'UTC')::date, (max(c.occurred_at) at time zone 'UTC')::date
  from ai.cost_book_entries c
  where c.book_id = book and exists (
    -- Only workspaces have such rows. The partial index holds nothing else.
    select
    from ai.external_provider_costs o
    where o.workspace_id = book
      and o.app_id = c.app_id
      and o.external_run_id = c.external_run_id
      and o.provider <> lower(o.provider)
      and ai.provider_name(o.provider) = c.provider
      and o.account_id is not distinct from c.account_id
  )
  group by c.app_id, c.provider, c.account_id, c.external_run_id
  having count(*) > 1
$$;

create or replace function ai.is_external_id(id text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select char_length(id) between 1 and 256 and id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
$$;

create or replace function ai.cost_document_fault(document jsonb) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  zone text := document ->> 'timeZone';
  found_fault record;
begin
  if coalesce(document ->> 'provider', '') !~ '^[A-Za-z0-9._:-]{1,128}$' then
    return ai.cost_fault('provider', 'A provider''s name takes 1 to 128 of A-Z a-z 0-9 . _ : -');
  elsif coalesce(char_length(document ->> 'format'), 0) not between 1 and 64 or document ->> 'format' ~ '[[:cntrl:]]' then
    return ai.cost_fault('format', 'The format is missing.');
  elsif coalesce(char_length(document ->> 'fileName'), 0) not between 1 and 255
    or document ->> 'fileName' ~ '[[:cntrl:]]' then
    return ai.cost_fault('fileName', 'A file''s name has 1 to 255 characters.');
  elsif coalesce(document ->> 'sha256', '') !~ '^[0-9a-f]{64}$' then
    return ai.cost_fault('sha256', 'The file''s SHA-256 is missing.');
  elsif jsonb_typeof(coalesce(document -> 'rates', '{}')) <> 'object' then
    return ai.cost_fault('rates', 'Rates name a currency each.');
  end if;
  -- Names of IANA, such as America/Los_Angeles. Postgres also takes offsets, which have no summer time.
  begin
    if coalesce(zone, '') !~ '^[A-Za-z]+([/_+-][A-Za-z0-9_+-]+)*$' or char_length(zone) > 64 or now() at time zone zone is null then
      return ai.cost_fault('timeZone', 'The time zone of the provider''s days has a name such as America/Los_Angeles.');
    end if;
  exception
    when invalid_parameter_value then
      return ai.cost_fault('timeZone', format('%s is not a known time zone.', zone));
  end;
  select r.key into found_fault
  from jsonb_each(coalesce(document -> 'rates', '{}')) r
  where r.key !~ '^[A-Z]{3}$'
    or r.key = 'USD'
    or jsonb_typeof(r.value) <> 'string'
    or r.value #>> '{}' !~ '^[0-9]{1,12}(\.[0-9]{1,12})?$'
    or r.value #>> '{}' ~ '^[0.]+$'
  limit 1;
  if found then
    return ai.cost_fault(
      'rates', format('The rate of %s is the USD for one unit: above 0, with at most 12 decimals.', found_fault.key)
    );
  end if;
  if jsonb_typeof(document -> 'days') is distinct from 'array'
    or jsonb_array_length(document -> 'days') not between 1 and 20000 then
    return ai.cost_fault('days', 'A file has 1 to 20,000 days of accounts.');
  end if;
  select d.value as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where not coalesce(
    ai.is_external_id(d.value ->> 'accountId')
      and d.value ->> 'day' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'
      and pg_input_is_valid(d.value ->> 'day', 'date')
      and jsonb_typeof(d.value -> 'amounts') = 'array'
      and jsonb_array_length(case jsonb_typeof(d.value -> 'amounts') when 'array' then d.value -> 'amounts' else '[]' end) > 0,
    false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an account''s day: %s', left(found_fault.day::text, 200)));
  end if;
  select d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where (d.value ->> 'day')::date > (now() at time zone 'UTC')::date
  limit 1;
  if found then
    return ai.cost_fault('days', format('%s has not begun in UTC. Import the file without it.', found_fault.day));
  end if;
  select a.value as amount, d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where not coalesce(
    a.value ->> 'currency' ~ '^[A-Z]{3}$' and a.value ->> 'amount' ~ '^-?[0-9]{1,15}(\.[0-9]{1,40})?$', false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an amount of %s: %s', found_fault.day, left(found_fault.amount::text, 200)));
  end if;
  select a.value ->> 'currency' as currency into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where a.value ->> 'currency' <> 'USD' and not coalesce(document -> 'rates' ? (a.value ->> 'currency'), false)
  limit 1;
  if found then
    return ai.cost_fault('rates', format('The file has amounts in %1$s: enter the USD for one %1$s.', found_fault.currency));
  end if;
  -- As the column holds.
  select a.day into found_fault
  from ai.cost_document_amounts(document) a
  group by a.account_id, a.day
  having abs(round(sum(a.amount * a.rate), 12)) >= 1e12
  limit 1;
  if found then
    return ai.cost_fault('days', format('The amount of %s is too large.', found_fault.day));
  end if;
  return null;
end
$$;

create or replace function ai.cost_fault(param text, message text) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object('outcome', 'invalid', 'param', param, 'message', message)
$$;

create or replace function ai.cost_document_amounts(document jsonb)
  returns table (account_id text, day date, currency text, amount numeric, rate numeric)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    d.value ->> 'accountId', (d.value ->> 'day')::date, a.value ->> 'currency', (a.value ->> 'amount')::numeric,
    case a.value ->> 'currency' when 'USD' then 1 else (document -> 'rates' ->> (a.value ->> 'currency'))::numeric end
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
$$;

create or replace function ai.describe_cost_file(book uuid, app uuid, document jsonb) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  fault jsonb := ai.cost_document_fault(document);
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
    'state', ai.cost_file_state(book, app, document, days)
  ) || (
    select jsonb_build_object(
      'totalUsd', trim_scale(sum(d.amount_usd))::text,
      'firstDay', min(d.day),
      'lastDay', max(d.day),
      'days', count(*),
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
  ) || (
    select jsonb_build_object('accounts', jsonb_agg(
      jsonb_build_object('accountId', a.account_id, 'days', a.days, 'amountUsd', trim_scale(a.amount_usd)::text)
      order by a.account_id collate "C"
    ))
    from (
      select d.account_id, count(*) as days, sum(d.amount_usd) as amount_usd from unnest(days) d group by d.account_id
    ) a
  );
end
$$;

create or replace function ai.compare_cost_file(book uuid, app uuid, document jsonb) returns ai.cost_file_day[]
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- Without recent statistics the planner expects one record, and would compare every day with every record.
  set enable_nestloop = off
  set jit = off
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
      -- As ai.find_cost.
      select distinct on (e.account_id, e.external_run_id) e.*
      from ai.cost_book_entries e
      where e.book_id = book
        and e.app_id = app
        and e.provider = name
        and e.external_run_id = any (array(select t.external_run_id from totals t))
      order by e.account_id, e.external_run_id, e.observed_at desc, e.id desc
    ), counted as (
      select distinct on (d.account_id, d.occurred_at) d.id, d.account_id, d.occurred_at, d.observed_at
      from ai.cost_book_entries d
      where d.book_id = book
        and d.app_id = app
        and d.provider = name
        and d.granularity = 'account_day'
        and d.service is null
        and d.occurred_at >= (select min(t.day) from totals t)::timestamp at time zone 'UTC'
        and d.occurred_at <= (select max(t.day) from totals t)::timestamp at time zone 'UTC'
      order by d.account_id, d.occurred_at, d.observed_at desc, d.id desc
    )
    select array_agg(
      row(
        t.account_id, t.day, t.external_run_id, t.amount_usd, t.original, s.id, s.amount_usd, s.revision,
        greatest(s.observed_at, c.observed_at),
        case
          when s.id is null then 'added'
          -- It must count, and say the same.
          when s.id = c.id and s.amount_usd = t.amount_usd and s.original is not distinct from t.original then 'unchanged'
          else 'corrected'
        end
      )::ai.cost_file_day
      order by t.account_id collate "C", t.day
    )
    from totals t
    left join stored s on s.account_id = t.account_id and s.external_run_id = t.external_run_id
    left join counted c
      on c.account_id = t.account_id and c.occurred_at = t.day::timestamp at time zone 'UTC'
  );
end
$$;

create or replace function ai.costs_replaced_by_file(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- As ai.compare_cost_file.
  set enable_nestloop = off
  set jit = off
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
      and (t.cost).id is distinct from d.stored_id
  );
end
$$;

create or replace function ai.account_day_run_id(provider text, account_id text, day date) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case
    when char_length(account_id) + char_length(provider) <= 238 then format('%s-costs:%s:%s', provider, account_id, day)
    else format('%s-costs:sha256-%s:%s', provider, encode(sha256(convert_to(account_id, 'UTF8')), 'hex'), day)
  end
$$;

create or replace function ai.provider_costs_in_totals(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.cost_book_entries, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with superseded as materialized (
    select e.id
    from ai.cost_book_entries e
    cross join lateral ai.find_cost(e.book_id, e.app_id, e.provider, e.account_id, e.external_run_id) f
    where
      -- Once a query, on an index of such rows alone. Only workspaces have any.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and e.book_id = book
      and e.occurred_at >= date_trunc('day', window_from, 'UTC')
      and e.occurred_at < window_to
      and f.id <> e.id
  ), days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- The latest record of a service counts; a day's total replaces its services.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 and (
        d.service is null
        or not bool_or(d.service is null) over (partition by d.app_id, d.provider, d.account_id, d.occurred_at)
      ) as counted
    from ai.cost_book_entries d
    where d.granularity = 'account_day'
      and d.book_id = book
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
      and d.id not in (select s.id from superseded s)
  )
  -- Subqueries and no joins: they are hashed, however few rows the planner expects of a book that has just grown.
  select c, c.id not in (select s.id from superseded s) and case c.granularity
    when 'run' then not coalesce(
      (c.app_id, c.provider, c.account_id, date_trunc('day', c.occurred_at, 'UTC'))
        in (select d.app_id, d.provider, d.account_id, d.occurred_at from days d),
      false
    )
    else c.id in (select d.id from days d where d.counted)
  end
  from ai.cost_book_entries c
  where c.book_id = book and c.occurred_at >= window_from and c.occurred_at < window_to
$$;

create or replace function ai.is_superseded_cost(entry ai.cost_book_entries) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- The partial index holds only rows whose providers are not normalised. Without one, no other row can be the same record.
  select exists (
    select
    from ai.external_provider_costs o
    where o.workspace_id = (entry).book_id
      and o.app_id = (entry).app_id
      and o.external_run_id = (entry).external_run_id
      and o.provider <> lower(o.provider)
  ) and exists (
    select
    from ai.find_cost((entry).book_id, (entry).app_id, (entry).provider, (entry).account_id, (entry).external_run_id) f
    where f.id <> (entry).id
  )
$$;

-- Definer: as ai.preview_cost_import.
create or replace function ai.import_cost_file(member_id uuid, workspace uuid, app uuid, document jsonb, state text)
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  refusal jsonb := ai.cost_import_refusal(member_id, workspace, app);
begin
  if refusal is not null then
    return refusal;
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  return ai.store_cost_file(workspace, app, document, state, member_id);
end
$$;

create or replace function ai.cost_import_refusal(member_id uuid, workspace uuid, app uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then '{"outcome": "not_allowed"}'::jsonb
    when not ai.app_can_act_in_workspace(app, workspace) then '{"outcome": "app_not_linked"}'
  end
$$;

-- Definer: functions of the books are not granted to the service role.
create or replace function private.preview_platform_costs(document jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.describe_cost_file(ai.platform_book(), ai.platform_book(), document)
$$;

-- Definer: as private.preview_platform_costs.
create or replace function private.import_platform_costs(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  admin uuid := (change ->> 'actor')::uuid;
  subject text := 'costs ' || ai.provider_name(change #>> '{document,provider}');
  answer jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = admin) then
    return '{"outcome": "not_allowed", "refused": "forbidden"}';
  end if;
  answer := ai.store_cost_file(ai.platform_book(), ai.platform_book(), change -> 'document', change ->> 'state', admin);
  if answer ->> 'outcome' = 'changed' then
    return answer || jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(subject));
  elsif answer ->> 'outcome' = 'invalid' then
    return answer || '{"refused": "invalid"}';
  end if;
  if answer ->> 'importId' is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'costs.import', 'target', subject, 'after', ai.cost_import_details((answer ->> 'importId')::uuid) || answer
    ));
  end if;
  return answer;
end
$$;

-- Definer: as private.preview_platform_costs.
create or replace function private.import_costs_as_operator(workspace uuid, app uuid, document jsonb, state text default null)
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  answer jsonb := ai.operator_import_refusal(workspace, app);
begin
  if answer is not null then
    return answer;
  end if;
  answer := ai.store_cost_file(
    coalesce(workspace, ai.platform_book()), coalesce(app, ai.platform_book()), document, state, null
  );
  if workspace is null and answer ->> 'importId' is not null then
    insert into private.admin_audit_log (action, target, reason, after)
    values (
      'costs.import', 'costs ' || ai.provider_name(document ->> 'provider'), 'Imported with the operator''s command',
      ai.cost_import_details((answer ->> 'importId')::uuid) || answer
    );
  end if;
  return answer;
end
$$;

create or replace function ai.operator_import_refusal(workspace uuid, app uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select '{"outcome": "app_not_linked"}'::jsonb
  where num_nulls(workspace, app) <> 2 and not coalesce(ai.app_can_act_in_workspace(app, workspace), false)
$$;

-- Definer: as check_app_caller.
create or replace function ai.import_provider_costs(call jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  item record;
  results jsonb[] := '{}';
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  perform ai.record_key_use(caller);
  -- In one order whoever calls, so that batches cannot lock each other out.
  for item in
    select r.value as record, r.ordinality::integer as place
    from jsonb_array_elements(call -> 'records') with ordinality as r
    order by
      ai.provider_name(r.value ->> 'provider') collate "C", r.value ->> 'accountId' collate "C",
      r.value ->> 'externalRunId' collate "C", r.ordinality
  loop
    results[item.place] := ai.store_provider_cost(caller.workspace_id, caller.app_id, item.record);
  end loop;
  return jsonb_build_object('results', to_jsonb(results));
end
$$;

create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  kind text := coalesce(record ->> 'granularity', 'run');
  written integer;
  stored ai.cost_book_entries;
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

  select * into stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  -- Of concurrent imports each waits for the one before, and compares with what that one left.
  if stored.spelling <> name then
    update ai.external_provider_costs c
    set
      granularity = kind, service = record ->> 'service', amount_usd = amount, occurred_at = occurred,
      observed_at = observed, recorded_at = now(), revision = c.revision + 1, import_id = null, original = null
    where c.id = stored.id and c.observed_at < observed
    returning c.revision into written;
  else
    insert into ai.external_provider_costs as c (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at,
      observed_at
    )
    values (
      workspace, app, name, record ->> 'accountId', record ->> 'externalRunId', kind, record ->> 'service', amount,
      occurred, observed
    )
    on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
    set
      granularity = excluded.granularity,
      service = excluded.service,
      amount_usd = excluded.amount_usd,
      occurred_at = excluded.occurred_at,
      observed_at = excluded.observed_at,
      recorded_at = now(),
      revision = c.revision + 1,
      import_id = null,
      original = null
    where c.observed_at < excluded.observed_at
    returning c.revision into written;
  end if;
  if written is not null then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif (stored.amount_usd, stored.occurred_at, stored.granularity) = (amount, occurred, kind)
    and stored.service is not distinct from record ->> 'service' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
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
        -- The records that an account day replaces in totals: runs, its own earlier states, and a day total's services.
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
    -- The account day that stands for it, by the rule of ai.provider_costs_in_totals.
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
    -- Or the same record in another spelling of the provider.
    cross join lateral (
      select case when ai.is_superseded_cost(p) then p.external_run_id else day.by_run_id end as by_run_id
    ) as replaced
  );
end
$$;

create or replace function ai.provider_cost_totals(workspace uuid, window_from timestamptz, window_to timestamptz, filter jsonb)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
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

create or replace function ai.cost_import_summary(of_import_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', i.id,
    'file', i.file_name,
    'format', i.format,
    'timeZone', i.time_zone,
    'rates', i.rates,
    'by', case when i.imported_by is null then 'operator' else 'person' end,
    'name', (select p.display_name from public.profiles p where p.id = i.imported_by),
    'importedAt', ai.utc_text_microseconds(i.imported_at)
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, person_id uuid) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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
    'importId', case when bool_or(d.change <> 'unchanged') then new_id end,
    'added', count(*) filter (where d.change = 'added'),
    'corrected', count(*) filter (where d.change = 'corrected'),
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
    new_id, nullif(book, ai.platform_book()), nullif(app, ai.platform_book()), ai.provider_name(document ->> 'provider'),
    document ->> 'format', document ->> 'fileName', decode(document ->> 'sha256', 'hex'), document ->> 'timeZone',
    coalesce(document -> 'rates', '{}'), person_id
  );
  -- In the order of ai.import_provider_costs, so that imports cannot lock each other out.
  for item in
    select d.*
    from unnest(days) d
    where d.change <> 'unchanged'
    order by d.account_id collate "C", d.external_run_id collate "C"
  loop
    perform ai.write_cost_file_day(book, app, new_id, item);
  end loop;
  if book <> ai.platform_book() then
    perform private.log_workspace_change(
      book, 'provider_costs.imported', new_id,
      concat_ws(' ', ai.provider_name(document ->> 'provider'), document ->> 'fileName'),
      ai.cost_import_details(new_id) || jsonb_build_object(
        'appId', app, 'days', cardinality(days),
        'totalUsd', (select trim_scale(sum(d.amount_usd))::text from unnest(days) d)
      )
    );
  end if;
  return answer;
exception
  -- A concurrent import wrote one of the days. Nothing of this one is kept.
  when serialization_failure then
    return '{"outcome": "changed"}';
end
$$;

create or replace function ai.write_cost_file_day(book uuid, app uuid, new_import_id uuid, item ai.cost_file_day) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  name text := (select i.provider from ai.cost_imports i where i.id = new_import_id);
  occurred timestamptz := item.day::timestamp at time zone 'UTC';
  recorded timestamptz := clock_timestamp();
  -- Importers' clocks may be up to 60 seconds ahead.
  observed timestamptz := greatest(recorded, item.observed_before + interval '1 microsecond');
begin
  if book = ai.platform_book() and item.stored_id is null then
    insert into ai.platform_provider_costs (
      provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at, recorded_at, import_id,
      original
    )
    values (
      name, item.account_id, item.external_run_id, 'account_day', item.amount_usd, occurred, observed, recorded,
      new_import_id, item.original
    )
    on conflict do nothing;
  elsif book = ai.platform_book() then
    update ai.platform_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = item.amount_usd, occurred_at = occurred,
      observed_at = observed, recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id,
      original = item.original
    where c.id = item.stored_id and c.revision = item.stored_revision;
  elsif item.stored_id is null then
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

create or replace function ai.cost_import_details(of_import_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'provider', i.provider, 'format', i.format, 'file', i.file_name, 'sha256', encode(i.file_sha256, 'hex'),
    'timeZone', i.time_zone, 'rates', i.rates
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

create or replace function ai.reject_cost_import_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'a cost import is immutable' using errcode = 'restrict_violation';
end
$$;

create or replace trigger reject_cost_import_change before update or delete on ai.cost_imports
  for each row execute function ai.reject_cost_import_change();

create or replace trigger reject_cost_import_truncate before truncate on ai.cost_imports
  for each statement execute function ai.reject_cost_import_change();

create or replace function ai.cost_file_state(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select encode(sha256(convert_to(concat_ws(
    e'\n', book, app, ai.provider_name(document ->> 'provider'), document -> 'rates',
    ai.costs_replaced_by_file(book, app, document, days), to_jsonb(days)
  ), 'UTF8')), 'hex')
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.preview_cost_import(member_id uuid, workspace uuid, app uuid, document jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(
    ai.cost_import_refusal(member_id, workspace, app),
    ai.describe_cost_file(workspace, app, document)
  )
$$;

-- Definer: as private.preview_platform_costs.
create or replace function private.preview_costs_as_operator(workspace uuid, app uuid, document jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(
    ai.operator_import_refusal(workspace, app),
    ai.describe_cost_file(coalesce(workspace, ai.platform_book()), coalesce(app, ai.platform_book()), document)
  )
$$;

comment on function ai.provider_cost_records(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'Returns a page of imported costs of a half-open range, newest first, each with the account day that replaces it or the '
  'records that it replaces, its amounts before conversion, and its file. filter names any of provider and accountId, where a null names those without an account.';

comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Writes one reported cost, or says why not: { outcome: stored, corrected, unchanged or stale } or { refused }. A newer '
  'observation corrects; one of the same time with any other content is a conflict. A row of the same provider in another '
  'case is the same record. Workspace and app come from the caller''s credential; the record''s shape was checked before. '
  'Not granted to any role.';

comment on function ai.account_day_run_id(text, text, date) is
  'Returns the external run id of an account''s daily total, as the commands that import from providers'' APIs write it. '
  'A long account is hashed: ids have at most 256 characters.';

comment on function ai.compare_cost_file(uuid, uuid, jsonb) is
  'Returns the account days of a valid document, by account and day, with the records that they correct. '
  'Not granted to any role.';

comment on function ai.cost_clashes(uuid) is
  'Returns the costs of a book that are recorded under several spellings of one provider, of which the last observed '
  'counts. Not granted to any role.';

comment on function ai.cost_document_amounts(jsonb) is
  'Returns the amounts of a valid document with the USD for one unit of their currency. Not granted to any role.';

comment on function ai.cost_document_fault(jsonb) is
  'Returns what is wrong with a document, { outcome: invalid, param, message }, or null. Not granted to any role.';

comment on function ai.cost_fault(text, text) is 'Returns { outcome: invalid, param, message }. Not granted to any role.';

comment on function ai.cost_file_state(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns a hash of a comparison: it changes with the file, the records that it corrects and those that it replaces. '
  'Not granted to any role.';

comment on function ai.cost_import_details(uuid) is 'Returns an import as logs have it. Not granted to any role.';

comment on function ai.cost_import_refusal(uuid, uuid, uuid) is
  'Returns why a member may not import costs for an app of a workspace; null if they may. Not granted to any role.';

comment on function ai.cost_import_summary(uuid) is
  'Returns the file of a record, its rates and who entered them: by is person or operator, and name is null for the '
  'operator and for deleted accounts. Not granted to any role.';

comment on function ai.costs_replaced_by_file(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns the records that count now and that the totals of a file replace: { records, amountUsd }. Not granted to any role.';

comment on function ai.describe_cost_file(uuid, uuid, jsonb) is
  'Returns what an import of a cost file would do: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay, days, '
  'accounts, added, unchanged, corrected, replaced, state } or { outcome: invalid, param, message }. days counts account '
  'days, and corrected.list has the first 100. Not granted to any role.';

comment on function ai.find_cost(uuid, uuid, text, text, text) is
  'Returns the record of a provider''s normalised name, account and run: of older rows whose providers differ only in '
  'case, the last observed. No search path is set, so that Postgres can inline it.';

comment on function ai.import_cost_file(uuid, uuid, uuid, jsonb, text) is
  'ai.store_cost_file for a member with use_ai_studio, { outcome: not_allowed } or { outcome: app_not_linked }.';

comment on function ai.is_external_id(text) is
  'Whether a text may be an account, service, run or reference as a provider writes it: 1 to 256 characters, no control '
  'characters, no white space at either end.';

comment on function ai.is_superseded_cost(ai.cost_book_entries) is
  'Whether the same record was observed later under another spelling of its provider.';

comment on function ai.operator_import_refusal(uuid, uuid) is
  'Returns { outcome: app_not_linked } unless an app may act in a workspace or neither is named. Not granted to any role.';

comment on function ai.platform_book() is
  'Returns the book_id and app_id of the platform''s records. No search path is set, so that Postgres can inline it.';

comment on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) is
  'ai.describe_cost_file for a member with use_ai_studio, { outcome: not_allowed } or { outcome: app_not_linked }.';

comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Returns a book''s imported costs of a half-open range, and whether each counts in totals. A run does not when its '
  'account''s day is known, within the range or not, so that adjacent ranges add up. A service''s day does not when the '
  'account''s day has a total. Of older rows that differ only in the case of the provider, the last observed counts.';

comment on function ai.provider_name(text) is
  'Returns the name under which a provider is stored and compared. Older rows keep the case that they were sent in. No '
  'search path is set, so that Postgres can inline it and use the indexes on lower(provider).';

comment on function ai.reject_cost_import_change() is 'Keeps ai.cost_imports append-only.';

comment on function ai.store_cost_file(uuid, uuid, jsonb, text, uuid) is
  'Stores the days of a cost file, all or none: { outcome: imported, importId, added, corrected, unchanged }, importId '
  'null if all days are unchanged; { outcome: changed } if a state is given and no longer holds, or a concurrent import '
  'wrote one of the days; or { outcome: invalid, param, message }. Not granted to any role.';

comment on function ai.write_cost_file_day(uuid, uuid, uuid, ai.cost_file_day) is
  'Writes one day of an import. Raises serialization_failure if its record is no longer the one that it was compared '
  'with. Not granted to any role.';

comment on function private.import_costs_as_operator(uuid, uuid, jsonb, text) is
  'ai.store_cost_file for the operator''s command, or { outcome: app_not_linked }. Without workspace and app: the '
  'platform''s book, with a line in the audit log that has no actor.';

comment on function private.import_platform_costs(jsonb) is
  'ai.store_cost_file of the platform''s book for an infrastructure admin, with a line in the audit log. change: { actor, '
  'reason, requestId, ip, document, state }. A refusal also has refused: forbidden, conflict or invalid.';

comment on function private.preview_costs_as_operator(uuid, uuid, jsonb) is
  'ai.describe_cost_file for the operator''s command, or { outcome: app_not_linked }. Without workspace and app: the '
  'platform''s book.';

comment on function private.preview_platform_costs(jsonb) is 'ai.describe_cost_file of the platform''s book, for the console.';

comment on view ai.cost_book_entries is
  'Imported costs of all books. provider is normalised; spelling is what was stored.';

comment on view ai.invoice_book_entries is
  'Reviewed invoices of all books. provider is normalised; spelling is what was stored.';

comment on trigger reject_cost_import_change on ai.cost_imports is 'For every role, including the table''s owner.';

comment on trigger reject_cost_import_truncate on ai.cost_imports is 'As reject_cost_import_change.';

revoke delete, insert, update on table ai.cost_book_entries from service_role;

revoke delete, insert, update on table ai.invoice_book_entries from service_role;

grant execute on function ai.import_cost_file(uuid, uuid, uuid, jsonb, text) to service_role;

grant execute on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function private.import_costs_as_operator(uuid, uuid, jsonb, text) to service_role;

grant execute on function private.import_platform_costs(jsonb) to service_role;

grant execute on function private.preview_costs_as_operator(uuid, uuid, jsonb) to service_role;

grant execute on function private.preview_platform_costs(jsonb) to service_role;
