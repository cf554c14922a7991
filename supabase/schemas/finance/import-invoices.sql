-- Storing reviewed provider invoices: sent by an app, or entered by a member. An invoice is an immutable snapshot.

-- Definer: as check_app_caller.
create or replace function ai.import_provider_invoice(call jsonb) returns jsonb
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
  perform ai.record_key_use(caller);
  answer := ai.store_provider_invoice(caller.workspace_id, caller.app_id, call -> 'record');
  if answer ->> 'outcome' = 'stored' then
    perform set_config('gatehouse.actor_id', coalesce(case when caller.source = 'app_token' then caller.actor_id end::text, ''), true);
    perform ai.record_invoice_activity(caller.workspace_id, caller.app_id, (answer ->> 'id')::uuid, call -> 'record');
  end if;
  return answer;
end
$$;
comment on function ai.import_provider_invoice(jsonb) is
  'Keeps the invoice of a call, as ai.store_provider_invoice answers; or { refused } where the credential is not good for it.';

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.record_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
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
  if not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('refused', 'app_not_linked');
  end if;
  answer := ai.store_provider_invoice(workspace, app, record);
  if answer ->> 'outcome' = 'stored' then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform ai.record_invoice_activity(workspace, app, (answer ->> 'id')::uuid, record);
  end if;
  return answer;
end
$$;
comment on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb) is
  'Keeps an invoice that a member with use_ai_studio enters for an app linked to the workspace: as '
  'ai.store_provider_invoice answers, or { refused: not_allowed or app_not_linked }.';

create or replace function ai.store_provider_invoice(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  replaced text := record ->> 'replaces';
  kind_of_replaced text := (ai.find_invoice(workspace, app, record, replaced)).kind;
  stored ai.external_provider_invoices;
  differing text[];
begin
  if reviewed > now() then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'reviewedAt must not be in the future.'
    );
  end if;
  if reviewed < issued::timestamp at time zone 'UTC' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'An invoice is reviewed after it was issued.'
    );
  end if;

  if replaced is not null and kind_of_replaced is null then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'replaces',
      'message', 'replaces must name an earlier reference of the same app, provider and account.'
    );
  elsif kind_of_replaced <> coalesce(record ->> 'kind', 'invoice') then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'kind',
      'message', 'An invoice replaces an invoice, and a credit note replaces a credit note.'
    );
  end if;

  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
    reviewed_at
  )
  values (
    workspace, app, record ->> 'provider', record ->> 'accountId', record ->> 'reference',
    coalesce(record ->> 'kind', 'invoice'), replaced, amount, issued, (record ->> 'periodStart')::date,
    (record ->> 'periodEnd')::date, reviewed
  )
  -- This reference is recorded, or the replaced one is replaced already.
  on conflict do nothing
  returning * into stored;
  if found then
    return jsonb_build_object('outcome', 'stored', 'id', stored.id);
  end if;

  stored := ai.find_invoice(workspace, app, record, record ->> 'reference');
  if stored.id is null then
    select * into strict stored
    from ai.external_provider_invoices i
    where i.workspace_id = workspace
      and i.app_id = app
      and i.provider = record ->> 'provider'
      and i.account_id is not distinct from record ->> 'accountId'
      and i.replaces = replaced;
    return jsonb_build_object(
      'refused', 'invoice_conflict', 'id', stored.id, 'differs', '["replaces"]'::jsonb, 'param', 'replaces',
      'message', format('%s is already replaced by %s. Replace that one instead.', replaced, stored.reference)
    );
  end if;
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;
comment on function ai.store_provider_invoice(uuid, uuid, jsonb) is
  'Keeps one reviewed invoice, or says why not: { outcome: stored or unchanged, id } or { refused }. Another state of one '
  'that is kept is a conflict, which names the kept one and what differs: { refused: invoice_conflict, id, differs }. '
  'Workspace and app were derived and the record''s shape checked before. Granted to nobody.';

create or replace function ai.find_invoice(workspace uuid, app uuid, record jsonb, of_reference text)
  returns ai.external_provider_invoices
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select i
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.app_id = app
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = of_reference
$$;
comment on function ai.find_invoice(uuid, uuid, jsonb, text) is
  'Returns the invoice with a reference from a record''s provider and account, or nulls.';

create or replace function ai.invoice_differences(kept ai.external_provider_invoices, record jsonb) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array_remove(
    array[
      case when (kept).kind <> coalesce(record ->> 'kind', 'invoice') then 'kind' end,
      case when (kept).replaces is distinct from record ->> 'replaces' then 'replaces' end,
      case when (kept).amount_usd <> (record ->> 'amountUsd')::numeric then 'amountUsd' end,
      case when (kept).issued_on <> (record ->> 'issuedOn')::date then 'issuedOn' end,
      case when (kept).period_start is distinct from (record ->> 'periodStart')::date then 'periodStart' end,
      case when (kept).period_end is distinct from (record ->> 'periodEnd')::date then 'periodEnd' end,
      case when (kept).reviewed_at <> (record ->> 'reviewedAt')::timestamptz then 'reviewedAt' end
    ],
    null
  )
$$;
comment on function ai.invoice_differences(ai.external_provider_invoices, jsonb) is
  'By which fields a record of the same key is another state of an invoice; none for an identical retry.';

create or replace function ai.record_invoice_activity(workspace uuid, app uuid, invoice_id uuid, record jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  select private.log_workspace_change(
    workspace, 'provider_invoice.recorded', invoice_id, concat_ws(' ', record ->> 'provider', record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces'
    ))
  )
$$;
comment on function ai.record_invoice_activity(uuid, uuid, uuid, jsonb) is
  'An invoice is a person''s word about money, whoever brought it: the workspace''s owners read of it.';

create or replace function ai.reject_invoice_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'an invoice snapshot is immutable' using errcode = 'restrict_violation';
end
$$;
comment on function ai.reject_invoice_change() is 'Another state of an invoice is a conflict, never a correction.';

create or replace trigger reject_invoice_change before update or delete on ai.external_provider_invoices
  for each row execute function ai.reject_invoice_change();
comment on trigger reject_invoice_change on ai.external_provider_invoices is 'For everyone, the table''s owner too.';
create or replace trigger reject_invoice_truncate before truncate on ai.external_provider_invoices
  for each statement execute function ai.reject_invoice_change();
comment on trigger reject_invoice_truncate on ai.external_provider_invoices is 'As reject_invoice_change.';
