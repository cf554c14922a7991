-- The original documents of invoices: one PDF for each invoice. A document is never changed or deleted.

-- Attaches a document, sent as base64, to an invoice of a book. Returns { outcome: attached }, { outcome: unchanged } if
-- this document is already attached, { outcome: has_document | not_found }, { outcome: storage_full, maxBytes } or
-- ai.book_refusal. The caller has validated the document. For the platform's book, the change is { reason, requestId,
-- ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.attach_invoice_document(
  member_id uuid, workspace uuid, invoice_id uuid, file_name text, content text, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace);
  bytes bytea := decode(attach_invoice_document.content, 'base64');
  invoice ai.invoice_book_entries;
  stored ai.invoice_documents;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- One document of a book at a time, because the limit is for their total size.
  perform pg_advisory_xact_lock(hashtextextended('ai.attach_invoice_document ' || workspace, 0));
  select * into invoice
  from ai.invoice_book_entries i
  where i.id = attach_invoice_document.invoice_id and i.book_id = workspace;
  if invoice.id is null then
    return '{"outcome": "not_found"}';
  end if;
  select * into stored from ai.invoice_documents d where d.invoice_id = invoice.id;
  if stored.invoice_id is not null then
    return jsonb_build_object('outcome', case stored.sha256 when sha256(bytes) then 'unchanged' else 'has_document' end);
  end if;
  if octet_length(bytes) > ai.max_book_document_bytes() - (
    select coalesce(sum(d.size_bytes), 0) from ai.invoice_documents d where d.workspace_id = workspace
  ) then
    return jsonb_build_object('outcome', 'storage_full', 'maxBytes', ai.max_book_document_bytes());
  end if;
  insert into ai.invoice_documents (invoice_id, workspace_id, file_name, sha256, content, attached_by)
  values (invoice.id, workspace, attach_invoice_document.file_name, sha256(bytes), bytes, member_id);
  perform ai.log_attached_document(invoice, change || jsonb_build_object('actor', member_id));
  return '{"outcome": "attached"}';
end
$$;

-- Returns the maximum total size of a book's documents: 500 MiB.
create or replace function ai.max_book_document_bytes() returns bigint
  language sql immutable security invoker set search_path = ''
as $$
  select 500 * 1024 * 1024::bigint
$$;

-- Logs an attached document in the workspace's activity log, or in the audit log for the platform's book. Not granted
-- to any role.
create or replace function ai.log_attached_document(invoice ai.invoice_book_entries, change jsonb) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  document jsonb := ai.invoice_document_summary((invoice).id) - 'attachedAt';
begin
  if (invoice).book_id = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.attach_document',
      'target', 'document of platform invoice ' || (invoice).id,
      'targetName', concat_ws(' ', (invoice).provider, (invoice).reference),
      'after', document || jsonb_build_object('provider', (invoice).provider, 'reference', (invoice).reference)
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', change ->> 'actor', true);
  perform private.log_workspace_change(
    (invoice).book_id, 'provider_invoice.document_attached', (invoice).id,
    concat_ws(' ', (invoice).provider, (invoice).reference), document
  );
end
$$;

-- Returns an invoice's document with its content as base64: { outcome: read, fileName, content }, { outcome: not_found }
-- or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_invoice_document(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'read', 'fileName', d.file_name, 'content', encode(d.content, 'base64'))
    from ai.invoice_documents d
    where d.invoice_id = read_invoice_document.invoice_id and d.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns an invoice's document without its content, or null: { fileName, sizeBytes, sha256, attachedAt }.
create or replace function ai.invoice_document_summary(of_invoice_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'fileName', d.file_name,
    'sizeBytes', d.size_bytes,
    'sha256', encode(d.sha256, 'hex'),
    'attachedAt', ai.utc_text_microseconds(d.attached_at)
  )
  from ai.invoice_documents d
  where d.invoice_id = of_invoice_id
$$;

-- Returns who attached an invoice's document. An admin is named by email address. Returns null without a document, and
-- once the person is deleted.
create or replace function ai.document_attacher(invoice ai.invoice_book_entries) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (invoice).book_id = ai.platform_book()
      then private.last_admin_action('document of platform invoice ' || (invoice).id) ->> 'actorEmail'
    else (
      select p.display_name
      from ai.invoice_documents d
      join public.profiles p on p.id = d.attached_by
      where d.invoice_id = (invoice).id
    )
  end
$$;

-- Applies to every role, including the table's owner.
create or replace trigger reject_document_change before update or delete on ai.invoice_documents
  for each row execute function ai.reject_invoice_change();
-- Prevents every role, including the table's owner, from truncating the table.
create or replace trigger reject_document_truncate before truncate on ai.invoice_documents
  for each statement execute function ai.reject_invoice_change();
