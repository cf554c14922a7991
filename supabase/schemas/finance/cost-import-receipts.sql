-- Reads the receipt of an imported cost file.

-- Returns ai.cost_import_receipt if the member has the permission use_ai_studio, otherwise { outcome: not_allowed }.
-- Definer: the service role cannot check the permissions of members.
create or replace function ai.read_cost_import(member_id uuid, workspace uuid, import_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.cost_import_receipt(workspace, import_id)
    else '{"outcome": "not_allowed"}'
  end
$$;

-- Returns ai.cost_import_receipt for the platform's book. Used by the console.
-- Definer: the service role may not call the functions that read and write books.
create or replace function private.read_platform_cost_import(import_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.cost_import_receipt(ai.platform_book(), import_id)
$$;

-- Returns an import of a book: { outcome: read, provider, sha256, appName, import, current } or { outcome: not_found }.
-- current summarizes the daily totals that the import wrote and that were not corrected later. Not granted to any role.
create or replace function ai.cost_import_receipt(book uuid, of_import_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce((
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
        where c.book_id = book
          and c.app_id = coalesce(i.app_id, ai.platform_book())
          and c.provider = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
      )
    )
    from ai.cost_imports i
    where i.id = of_import_id and coalesce(i.workspace_id, ai.platform_book()) = book
  ), '{"outcome": "not_found"}')
$$;
