-- Validates the document of a cost file and returns its amounts.

-- Returns the first error in a document as { outcome: invalid, param, message }, or null if the document is valid. Not
-- granted to any role.
create or replace function ai.cost_document_fault(document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  zone text := document ->> 'timeZone';
  found_fault record;
begin
  if coalesce(document ->> 'provider', '') !~ '^[A-Za-z0-9._:-]{1,128}$' then
    return ai.cost_fault('provider', 'A provider''s name takes 1 to 128 of A-Z a-z 0-9 . _ : -');
  elsif coalesce(char_length(document ->> 'format'), 0) not between 1 and 64 or document ->> 'format' ~ '[[:cntrl:]]' then
    return ai.cost_fault('format', 'The format is missing.');
  elsif coalesce(char_length(document ->> 'fileName'), 0) not between 1 and 255
    or document ->> 'fileName' ~ '[[:cntrl:]]' then
    return ai.cost_fault('fileName', 'A file''s name has 1 to 255 characters.');
  elsif coalesce(document ->> 'sha256', '') !~ '^[0-9a-f]{64}$' then
    return ai.cost_fault('sha256', 'The file''s SHA-256 is missing.');
  elsif jsonb_typeof(coalesce(document -> 'rates', '{}')) <> 'object' then
    return ai.cost_fault('rates', 'Rates name a currency each.');
  elsif jsonb_typeof(coalesce(document -> 'clear', 'false')) <> 'boolean' then
    return ai.cost_fault('clear', 'clear is true or false.');
  end if;
  -- IANA names, such as America/Los_Angeles. Postgres also accepts offsets, which have no summer time.
  begin
    if coalesce(zone, '') !~ '^[A-Za-z]+([/_+-][A-Za-z0-9_+-]+)*$' or char_length(zone) > 64 or now() at time zone zone is null then
      return ai.cost_fault('timeZone', 'The time zone of the provider''s days has a name such as America/Los_Angeles.');
    end if;
  exception
    when invalid_parameter_value then
      return ai.cost_fault('timeZone', format('%s is not a known time zone.', zone));
  end;
  select r.key into found_fault
  from jsonb_each(coalesce(document -> 'rates', '{}')) r
  where r.key !~ '^[A-Z]{3}$'
    or r.key = 'USD'
    or jsonb_typeof(r.value) <> 'string'
    or r.value #>> '{}' !~ '^[0-9]{1,12}(\.[0-9]{1,12})?$'
    or r.value #>> '{}' ~ '^[0.]+$'
  limit 1;
  if found then
    return ai.cost_fault(
      'rates', format('The rate of %s is the USD for one unit: above 0, with at most 12 decimals.', found_fault.key)
    );
  end if;
  if jsonb_typeof(document -> 'days') is distinct from 'array'
    or jsonb_array_length(document -> 'days') not between 1 and 20000 then
    return ai.cost_fault('days', 'A file has 1 to 20,000 days of accounts.');
  end if;
  select d.value as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where not coalesce(
    ai.is_external_id(d.value ->> 'accountId')
      and d.value ->> 'day' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'
      and pg_input_is_valid(d.value ->> 'day', 'date')
      and jsonb_typeof(d.value -> 'amounts') = 'array'
      and jsonb_array_length(case jsonb_typeof(d.value -> 'amounts') when 'array' then d.value -> 'amounts' else '[]' end) > 0,
    false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an account''s day: %s', left(found_fault.day::text, 200)));
  end if;
  select d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where (d.value ->> 'day')::date > (now() at time zone 'UTC')::date
  limit 1;
  if found then
    return ai.cost_fault('days', format('%s has not begun in UTC. Import the file without it.', found_fault.day));
  end if;
  select a.value as amount, d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where not coalesce(
    a.value ->> 'currency' ~ '^[A-Z]{3}$' and a.value ->> 'amount' ~ '^-?[0-9]{1,15}(\.[0-9]{1,40})?$', false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an amount of %s: %s', found_fault.day, left(found_fault.amount::text, 200)));
  end if;
  select a.value ->> 'currency' as currency into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where a.value ->> 'currency' <> 'USD' and not coalesce(document -> 'rates' ? (a.value ->> 'currency'), false)
  limit 1;
  if found then
    return ai.cost_fault('rates', format('The file has amounts in %1$s: enter the USD for one %1$s.', found_fault.currency));
  end if;
  -- Amounts must fit the column.
  select a.day into found_fault
  from ai.cost_document_amounts(document) a
  group by a.account_id, a.day
  having abs(round(sum(a.amount * a.rate), 12)) >= 1e12
  limit 1;
  if found then
    return ai.cost_fault('days', format('The amount of %s is too large.', found_fault.day));
  end if;
  return null;
end
$$;

-- Returns { outcome: invalid, param, message }. Not granted to any role.
create or replace function ai.cost_fault(param text, message text) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object('outcome', 'invalid', 'param', param, 'message', message)
$$;

-- Returns the amounts of a valid document, each with the exchange rate from its currency to USD. Not granted to any
-- role.
create or replace function ai.cost_document_amounts(document jsonb)
  returns table (account_id text, day date, currency text, amount numeric, rate numeric)
  language sql stable security invoker set search_path = ''
as $$
  select
    d.value ->> 'accountId', (d.value ->> 'day')::date, a.value ->> 'currency', (a.value ->> 'amount')::numeric,
    case a.value ->> 'currency' when 'USD' then 1 else (document -> 'rates' ->> (a.value ->> 'currency'))::numeric end
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
$$;
