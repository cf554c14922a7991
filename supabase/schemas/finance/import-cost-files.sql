-- Imports a provider's cost file as one total for each account and day. The document is parsed from the file:
-- - { provider, format, fileName, sha256, timeZone, rates: { EUR: "1.08" }, days: [{ accountId, day, amounts: [{
-- currency, amount }] }], clear }
-- The functions also take it as a JSON string of its text, which the web server can pass on without parsing it.
--
-- If clear is true, sets a day to 0 if an earlier file contained the day and this document does not. Affects only days
-- between the document's first and last day.

-- Returns the result of ai.describe_cost_file, ai.book_refusal or ai.app_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.preview_cost_import(member_id uuid, workspace uuid, app uuid, document jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(
    ai.book_refusal(member_id, workspace),
    ai.app_refusal(workspace, app),
    ai.describe_cost_file(workspace, app, ai.read_cost_document(document))
  )
$$;

-- Stores a cost file. Returns the result of ai.store_cost_file, ai.book_refusal or ai.app_refusal. For the platform's
-- book, the change is { reason, requestId, ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.import_cost_file(
  member_id uuid, workspace uuid, app uuid, document jsonb, state text, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
begin
  if refusal is not null then
    return refusal;
  end if;
  return ai.store_cost_file(
    workspace, app, ai.read_cost_document(document), state, change || jsonb_build_object('actor', member_id)
  );
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

-- Returns the result of ai.describe_cost_file to the operator's command line, or { outcome: app_not_linked }. Uses the
-- platform's book if workspace and app are null.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.preview_costs_as_operator(workspace uuid, app uuid, document jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.app_refusal(b.id, b.app_id), ai.describe_cost_file(b.id, b.app_id, document))
  from (select coalesce(workspace, ai.platform_book()) as id, coalesce(app, ai.platform_book()) as app_id) b
$$;

-- Stores a cost file for the operator's command line. Returns the result of ai.store_cost_file or { outcome:
-- app_not_linked }. Uses the platform's book if workspace and app are null.
-- Definer: the functions that read and store costs are not granted to the service role.
create or replace function private.import_costs_as_operator(workspace uuid, app uuid, document jsonb, state text default null)
  returns jsonb
  language sql volatile security definer set search_path = ''
as $$
  select coalesce(ai.app_refusal(b.id, b.app_id), ai.store_cost_file(
    b.id, b.app_id, document, state, '{"reason": "Imported with the operator''s command"}'
  ))
  from (select coalesce(workspace, ai.platform_book()) as id, coalesce(app, ai.platform_book()) as app_id) b
$$;
