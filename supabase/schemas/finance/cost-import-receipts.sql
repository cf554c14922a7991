-- Reads the receipt of an imported cost file.

-- Returns an import of a book: { outcome: read, provider, sha256, appName, import, current }, { outcome: not_found } or
-- ai.book_refusal. current summarizes the daily totals that the import wrote and that were not corrected later.
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
      )
    )
    from ai.cost_imports i
    where i.id = read_cost_import.import_id and i.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;
