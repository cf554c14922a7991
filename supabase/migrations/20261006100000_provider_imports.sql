-- What registered apps report: costs as their providers state them, and invoices as people reviewed them. No import
-- executes, reserves or debits anything.

create function ai.app_caller(call jsonb) returns ai.caller
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  caller ai.caller := ai.credential_of(call);
begin
  if caller.source is null then
    caller.refused := 'invalid_api_key';
  elsif caller.source = 'session' or caller.app_id is null then
    caller.refused := 'credential_not_bound';
  elsif caller.refused is null and call ->> 'workspace' is null then
    caller.refused := 'workspace_header_required';
  end if;
  return caller;
end
$$;
comment on function ai.app_caller(jsonb) is
  'Who calls for a registered app, by the credential alone: an app''s token or a key bound to it, with the workspace '
  'named. refused says why not. Granted to nobody.';
revoke execute on function ai.app_caller(jsonb) from public, anon, authenticated;

create function ai.note_key_use(caller ai.caller) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update ai.keys k set last_used_at = now()
  where k.id = (caller).key_id and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
$$;
comment on function ai.note_key_use(ai.caller) is
  'Keeps keys.last_used_at within a minute of the truth for calls that are no runs.';
revoke execute on function ai.note_key_use(ai.caller) from public, anon, authenticated;

-- Definer: gateway holds no grant on any table. It trusts no id in the call: who calls comes from the credential.
create function ai.check_app_caller(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;
comment on function ai.check_app_caller(jsonb) is
  'For a call whose body is none: whether its credential may import and read usage at all. { workspace_id } or { refused }.';
revoke execute on function ai.check_app_caller(jsonb) from public, anon, authenticated;
grant execute on function ai.check_app_caller(jsonb) to gateway;

-- Definer: as check_app_caller.
create function ai.import_provider_costs(call jsonb) returns jsonb
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
  perform ai.note_key_use(caller);
  -- In one order whoever calls, so that batches cannot lock each other out.
  for item in
    select r.value as record, r.ordinality::integer as place
    from jsonb_array_elements(call -> 'records') with ordinality as r
    order by
      r.value ->> 'provider' collate "C", r.value ->> 'accountId' collate "C", r.value ->> 'externalRunId' collate "C",
      r.ordinality
  loop
    results[item.place] := ai.store_provider_cost(caller.workspace_id, caller.app_id, item.record);
  end loop;
  return jsonb_build_object('results', to_jsonb(results));
end
$$;
comment on function ai.import_provider_costs(jsonb) is
  'Stores the records of a call, each for itself: { results } in their order, as ai.store_provider_cost answers, or '
  '{ refused } where the credential is not good for it.';
revoke execute on function ai.import_provider_costs(jsonb) from public, anon, authenticated;
grant execute on function ai.import_provider_costs(jsonb) to gateway;

create function ai.log_provider_invoice(workspace uuid, app uuid, invoice_id uuid, record jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  select private.log_workspace_change(
    workspace, 'provider_invoice.recorded', invoice_id, concat_ws(' ', record ->> 'provider', record ->> 'reference'),
    jsonb_build_object('appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn')
  )
$$;
comment on function ai.log_provider_invoice(uuid, uuid, uuid, jsonb) is
  'An invoice is a person''s word about money, whoever brought it: the workspace''s owners read of it.';
revoke execute on function ai.log_provider_invoice(uuid, uuid, uuid, jsonb) from public, anon, authenticated;

-- Definer: as check_app_caller.
create function ai.import_provider_invoice(call jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  answer jsonb;
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  perform ai.note_key_use(caller);
  answer := ai.store_provider_invoice(caller.workspace_id, caller.app_id, call -> 'record');
  if answer ->> 'outcome' = 'stored' then
    perform set_config('gatehouse.actor_id', coalesce(case when caller.source = 'app_token' then caller.actor_id end::text, ''), true);
    perform ai.log_provider_invoice(caller.workspace_id, caller.app_id, (answer ->> 'id')::uuid, call -> 'record');
  end if;
  return answer;
end
$$;
comment on function ai.import_provider_invoice(jsonb) is
  'Keeps the invoice of a call, as ai.store_provider_invoice answers; or { refused } where the credential is not good for it.';
revoke execute on function ai.import_provider_invoice(jsonb) from public, anon, authenticated;
grant execute on function ai.import_provider_invoice(jsonb) to gateway;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create function ai.record_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('refused', 'not_allowed');
  end if;
  if not ai.app_may_act_in(app, workspace) then
    return jsonb_build_object('refused', 'app_not_linked');
  end if;
  answer := ai.store_provider_invoice(workspace, app, record);
  if answer ->> 'outcome' = 'stored' then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform ai.log_provider_invoice(workspace, app, (answer ->> 'id')::uuid, record);
  end if;
  return answer;
end
$$;
comment on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb) is
  'Keeps an invoice that a member with use_ai_studio enters for an app linked to the workspace: as '
  'ai.store_provider_invoice answers, or { refused: not_allowed or app_not_linked }.';
revoke execute on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb) from public, anon, authenticated;
grant execute on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb) to service_role;
