-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

-- Returns what an import of a cost file would change: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay,
-- days, accountCount, accounts, added, unchanged, corrected, replaced, remaining, cleared, state } or { outcome:
-- invalid, param, message }. days is the number of daily totals in the file. accounts has the first 50 accounts, and
-- corrected.list the first 100 corrected totals. remaining and cleared count imported days that are missing from the
-- file. Not granted to any role.
create or replace function ai.describe_cost_file(book uuid, app uuid, document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
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

-- Stores a cost file for a member and returns the result of ai.store_cost_file. Returns { outcome: not_allowed } if the
-- member lacks the permission use_ai_studio, or { outcome: app_not_linked } if the app is not linked to the workspace.
-- Definer: the service role cannot check the permissions of members.
create or replace function ai.import_cost_file(member_id uuid, workspace uuid, app uuid, document jsonb, state text)
  returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.cost_import_refusal(member_id, workspace, app);
begin
  if refusal is not null then
    return refusal;
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  return ai.store_cost_file(workspace, app, ai.read_cost_document(document), state, member_id);
end
$$;

-- Returns a document that may be given as a JSON string. Not granted to any role.
create or replace function ai.read_cost_document(document jsonb) returns jsonb
  language plpgsql immutable security invoker set search_path = ''
as $$
begin
  return case jsonb_typeof(document) when 'string' then (document #>> '{}')::jsonb else document end;
end
$$;

-- Returns what importing a cost file into the platform's book would change (ai.describe_cost_file).
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.preview_platform_costs(document jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.describe_cost_file(ai.platform_book(), ai.platform_book(), ai.read_cost_document(document))
$$;

-- Stores a cost file in the platform's book for an infrastructure admin, and adds a line to the audit log. The change
-- is { actor, reason, requestId, ip, document, state }. Returns the result of ai.store_cost_file. If the import is
-- refused, the result also has refused: forbidden | conflict (with last) | invalid.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.import_platform_costs(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  admin uuid := (change ->> 'actor')::uuid;
  document jsonb := ai.read_cost_document(change -> 'document');
  subject text := 'costs ' || ai.provider_name(document ->> 'provider');
  answer jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = admin) then
    return '{"outcome": "not_allowed", "refused": "forbidden"}';
  end if;
  answer := ai.store_cost_file(ai.platform_book(), ai.platform_book(), document, change ->> 'state', admin);
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

-- Returns the result of ai.describe_cost_file. Returns { outcome: not_allowed } if the member lacks the permission
-- use_ai_studio, or { outcome: app_not_linked } if the app is not linked to the workspace.
-- Definer: the service role cannot check the permissions of members.
create or replace function ai.preview_cost_import(member_id uuid, workspace uuid, app uuid, document jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(
    ai.cost_import_refusal(member_id, workspace, app),
    ai.describe_cost_file(workspace, app, ai.read_cost_document(document))
  )
$$;
