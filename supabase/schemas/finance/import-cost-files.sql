-- Imports a provider's cost file as one total for each account and day. The document is parsed from the file:
-- - { provider, format, fileName, sha256, timeZone, rates: { EUR: "1.08" }, days: [{ accountId, day, amounts: [{
-- currency, amount }] }], clear }
-- The functions also take it as a JSON string of its text, which the web server can pass on without parsing it.
--
-- If clear is true, sets a day to 0 if an earlier file contained the day and this document does not. Affects only days
-- between the document's first and last day.

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

-- Returns why a member may not import costs for an app in a workspace: { outcome: not_allowed } or { outcome:
-- app_not_linked }. Returns null if the member may. Not granted to any role.
create or replace function ai.cost_import_refusal(member_id uuid, workspace uuid, app uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then '{"outcome": "not_allowed"}'::jsonb
    when not ai.app_can_act_in_workspace(app, workspace) then '{"outcome": "app_not_linked"}'
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

-- Returns the result of ai.describe_cost_file to the operator's command line, or { outcome: app_not_linked }. Uses the
-- platform's book if workspace and app are null.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.preview_costs_as_operator(workspace uuid, app uuid, document jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(
    ai.operator_import_refusal(workspace, app),
    ai.describe_cost_file(coalesce(workspace, ai.platform_book()), coalesce(app, ai.platform_book()), document)
  )
$$;

-- Stores a cost file for the operator's command line. Returns the result of ai.store_cost_file or { outcome:
-- app_not_linked }. If workspace and app are null, uses the platform's book and adds a line without an actor to the
-- audit log.
-- Definer: the functions that read and store costs are not granted to the service role.
create or replace function private.import_costs_as_operator(workspace uuid, app uuid, document jsonb, state text default null)
  returns jsonb
  language plpgsql volatile security definer set search_path = ''
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

-- Returns null if the app may act in the workspace, or if workspace and app are both null. Otherwise returns { outcome:
-- app_not_linked }. Not granted to any role.
create or replace function ai.operator_import_refusal(workspace uuid, app uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select '{"outcome": "app_not_linked"}'::jsonb
  where num_nulls(workspace, app) <> 2 and not coalesce(ai.app_can_act_in_workspace(app, workspace), false)
$$;
