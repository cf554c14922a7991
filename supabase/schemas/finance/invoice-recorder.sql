-- Finds who recorded an invoice, and why.

-- Returns who recorded an invoice, according to the workspace's activity log or the console's audit log: { by: person |
-- app, name }. If the invoice was sent with a key, the app recorded it. An admin is named by email address. name is
-- null once the person or app is deleted.
create or replace function ai.invoice_recorder(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (invoice).book_id = ai.platform_book()
      then jsonb_build_object('by', 'person', 'name', private.last_admin_action('platform invoice ' || (invoice).id) ->> 'actorEmail')
    else (
      select jsonb_build_object(
        'by', case when l.actor_id is null then 'app' else 'person' end,
        'name', case
          when l.actor_id is null then ai.app_label((invoice).app_id)
          else private.actor_name(l.actor_id)
        end
      )
      from public.workspace_audit_log l
      where l.action = 'provider_invoice.recorded'
        and l.subject_id = (invoice).id
        and l.workspace_id = (invoice).book_id
    )
  end
$$;

-- Returns who recorded an invoice (ai.invoice_recorder), and the reason given for the console's audit log: { recordedBy,
-- reason }. recordedBy is null once the person or app is deleted. Invoices of a workspace's book need no reason.
create or replace function ai.invoice_entry(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'recordedBy', ai.invoice_recorder(invoice) ->> 'name',
    'reason', case when (invoice).book_id = ai.platform_book() then (
      select l.reason
      from private.admin_audit_log l
      where l.target = 'platform invoice ' || (invoice).id and l.action = 'books.record_invoice'
      order by l.created_at, l.id
      limit 1
    ) end
  )
$$;
