-- Generated from supabase/schemas by npm run db:migration.

create or replace function ai.invoice_review(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  kept ai.invoice_book_entries;
  replacement ai.invoice_book_entries := ai.find_replacement(book, app, record);
  refused jsonb := ai.refused_replacement(book, app, record);
begin
  if (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  kept := ai.find_invoice(book, app, record, record ->> 'reference');
  if refused is null and kept.id is null and replacement.id is not null then
    refused := ai.replaced_already(record, replacement);
  end if;
  if refused is not null then
    return jsonb_build_object('outcome', 'cannot_replace') || refused;
  end if;
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when kept.id is not null then ai.invoice_summary(kept) end,
    'differs', case when kept.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(kept, record || jsonb_build_object('reviewedAt', kept.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(book, record || jsonb_build_object('appId', app), kept.id)
  );
end
$$;

create or replace function ai.store_provider_invoice(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  refused jsonb := ai.refused_replacement(book, app, record);
  stored ai.invoice_book_entries;
  stored_id uuid;
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

  if refused is not null then
    return jsonb_build_object('refused', 'invalid_request') || refused;
  end if;

  -- Rows under an older spelling of the provider are not in the way of the unique keys.
  stored := ai.find_invoice(book, app, record, record ->> 'reference');
  if stored.id is null then
    stored := ai.find_replacement(book, app, record);
  end if;
  if stored.id is null then
    stored_id := ai.add_invoice(book, app, record);
    if stored_id is not null then
      return jsonb_build_object('outcome', 'stored', 'id', stored_id);
    end if;
    -- A concurrent call recorded this reference, or another replacement.
    stored := ai.find_invoice(book, app, record, record ->> 'reference');
    if stored.id is null then
      stored := ai.find_replacement(book, app, record);
    end if;
  end if;

  if stored.reference <> record ->> 'reference' then
    return jsonb_build_object(
      'refused', 'invoice_conflict', 'id', stored.id, 'differs', '["replaces"]'::jsonb
    ) || ai.replaced_already(record, stored);
  end if;
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;

create or replace function ai.refused_replacement(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  replaced ai.invoice_book_entries := ai.find_invoice(book, app, record, record ->> 'replaces');
begin
  if record ->> 'replaces' is not null and replaced.id is null then
    return jsonb_build_object('param', 'replaces', 'message', format(
      'No recorded invoice or credit note of this %sprovider and account has this reference.',
      case when book = ai.platform_book() then '' else 'app, ' end
    ));
  elsif replaced.kind <> coalesce(record ->> 'kind', 'invoice') then
    return jsonb_build_object(
      'param', 'kind', 'message', 'An invoice replaces an invoice, and a credit note replaces a credit note.'
    );
  end if;
  return null;
end
$$;

create or replace function ai.replaced_already(record jsonb, replacement ai.invoice_book_entries) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object('param', 'replaces', 'message', format(
    '%s is already replaced by %s. Replace that one instead.', record ->> 'replaces', (replacement).reference
  ))
$$;

comment on function ai.invoice_review(uuid, uuid, jsonb) is
  'What a person sees of an invoice before it is kept for good: the moment of the review, an invoice of the same key that '
  'is kept already and by what else than its review it differs, and ai.invoice_comparison. { outcome: reviewed, … }, '
  'not_issued_yet or { outcome: cannot_replace, param, message }. Writes nothing. Not granted to any role.';

comment on function ai.refused_replacement(uuid, uuid, jsonb) is
  'Returns why a record cannot replace what it names: { param, message }, or null if it can. Granted to nobody.';

comment on function ai.replaced_already(jsonb, ai.invoice_book_entries) is
  'Returns why a record cannot replace an invoice that has a replacement: { param, message }. Granted to nobody.';
