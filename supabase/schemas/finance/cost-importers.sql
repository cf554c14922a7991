-- Imports providers' daily costs into the platform's book from their APIs. A web server that has a provider's key claims
-- the provider's importer, reads the provider's report, stores the days that are complete, and finishes the attempt.

-- Claims a provider's importer for five minutes if its next attempt is due and no attempt is in progress. Returns {
-- lease, lastCompleteDay } or null.
create or replace function private.claim_cost_import(of_provider text) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  claimed jsonb;
begin
  insert into ai.cost_importers (provider) values (of_provider) on conflict do nothing;
  update ai.cost_importers i
  set lease = gen_random_uuid(), leased_until = now() + interval '5 minutes', last_attempt_at = now()
  where i.provider = of_provider and i.next_attempt_at <= now() and coalesce(i.leased_until <= now(), true)
  returning jsonb_build_object('lease', i.lease, 'lastCompleteDay', i.last_complete_day) into claimed;
  return claimed;
end
$$;

-- Stores the costs of a range of days, both inclusive, which the provider has answered completely, and advances the
-- importer to the last one. The document is that of a cost file (import-cost-files.sql), but may have no days. Returns {
-- outcome: stored }, { outcome: lost } if the importer was claimed again, or { outcome: changed } or { outcome: invalid }
-- of ai.store_cost_file. Anything but stored leaves the importer as it is.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.store_imported_costs(
  of_provider text, held_lease uuid, first_day date, last_day date, document jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  days jsonb;
  answer jsonb;
begin
  perform from ai.cost_importers i where i.provider = of_provider and i.lease = held_lease for update;
  if not found then
    return '{"outcome": "lost"}';
  end if;
  days := (document -> 'days') || ai.uncharged_days(of_provider, first_day, last_day, document);
  if days <> '[]' then
    answer := ai.store_cost_file(
      ai.platform_book(), ai.platform_book(), document || jsonb_build_object('days', days), null,
      '{"action": "costs.import_automatically", "reason": "Imported from the provider''s API"}'
    );
    if answer ->> 'outcome' <> 'imported' then
      return answer;
    end if;
  end if;
  update ai.cost_importers i
  set
    missed = case
      when first_day > i.last_complete_day + 1 then i.missed + datemultirange(daterange(i.last_complete_day + 1, first_day))
      else i.missed
    end,
    last_complete_day = greatest(i.last_complete_day, last_day),
    leased_until = now() + interval '5 minutes'
  where i.provider = of_provider;
  return '{"outcome": "stored"}';
end
$$;

-- Returns the days of a range that have a cost in the platform's book and none in the document, as days of a document
-- that set them to 0 and have no services. Only accounts that the document's format has imported before count, so costs
-- that come from files under other account names stay. Not granted to any role.
create or replace function ai.uncharged_days(of_provider text, first_day date, last_day date, document jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'accountId', c.account_id, 'day', c.day, 'amounts', '[{"currency": "USD", "amount": "0"}]'::jsonb,
    'parts', '[]'::jsonb
  )), '[]')
  from (
    select distinct e.account_id, (e.occurred_at at time zone 'UTC')::date as day
    from ai.cost_book_entries e
    where e.book_id = ai.platform_book()
      and e.app_id = ai.platform_book()
      and e.provider = of_provider
      and e.granularity = 'account_day'
      and e.service is null
      and e.amount_usd <> 0
      and e.occurred_at >= first_day::timestamp at time zone 'UTC'
      and e.occurred_at < (last_day + 1)::timestamp at time zone 'UTC'
  ) c
  where exists (
    select
    from ai.cost_book_entries e
    join ai.cost_imports i on i.id = e.import_id
    where e.book_id = ai.platform_book()
      and e.app_id = ai.platform_book()
      and e.provider = of_provider
      and e.granularity = 'account_day'
      and e.account_id = c.account_id
      and i.format = document ->> 'format'
  ) and (c.account_id, c.day) not in (
    select d.value ->> 'accountId', (d.value ->> 'day')::date from jsonb_array_elements(document -> 'days') d
  )
$$;

-- Ends an attempt and sets the time of the next one: in six hours after a success, in an hour if the provider has not
-- answered a completed day yet, and otherwise after a wait that doubles from a minute to six hours and is at least what
-- the provider asked for. An attempt that a person requested meanwhile stays due. Does nothing if the importer was
-- claimed again.
create or replace function private.finish_cost_import(
  of_provider text, held_lease uuid, error text default null, is_late boolean default false, retry_after_seconds integer default 0
) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.cost_importers i
  set
    lease = null,
    leased_until = null,
    last_error = left(error, 500),
    failures = case when error is null or is_late then 0 else i.failures + 1 end,
    next_attempt_at = case
      when i.next_attempt_at > i.last_attempt_at then i.next_attempt_at
      when error is null then now() + interval '6 hours'
      when is_late then now() + interval '1 hour'
      else now() + greatest(
        least(interval '1 minute' * 2 ^ least(i.failures, 9), interval '6 hours'),
        make_interval(secs => least(retry_after_seconds, 86400))
      )
    end
  where i.provider = of_provider and i.lease = held_lease
$$;

-- Returns the days that an importer missed and that the platform's book has no cost for, as ranges. Not granted to any
-- role.
create or replace function ai.missed_days(importer ai.cost_importers) returns datemultirange
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(range_agg(daterange(d.day::date, d.day::date + 1)), '{}')
  from unnest((importer).missed) as r (days)
  cross join generate_series(lower(r.days), upper(r.days) - 1, '1 day') as d (day)
  where not exists (
    select
    from ai.cost_book_entries e
    where e.book_id = ai.platform_book()
      and e.provider = (importer).provider
      and e.occurred_at >= d.day::timestamp at time zone 'UTC'
      and e.occurred_at < (d.day + interval '1 day')::timestamp at time zone 'UTC'
  )
$$;

-- Returns the state of all importers: [{ provider, lastCompleteDay, missed: [{ from, to }], nextAttemptAt, lastAttemptAt,
-- lastError, failures, isRunning }].
-- Definer: functions that read books are not granted to the service role.
create or replace function private.read_cost_importers() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', i.provider,
    'lastCompleteDay', i.last_complete_day,
    'missed', (
      select coalesce(jsonb_agg(jsonb_build_object('from', lower(r.days), 'to', upper(r.days) - 1) order by r.days), '[]')
      from unnest(ai.missed_days(i)) as r (days)
    ),
    'nextAttemptAt', i.next_attempt_at,
    'lastAttemptAt', i.last_attempt_at,
    'lastError', i.last_error,
    'failures', i.failures,
    'isRunning', coalesce(i.leased_until > now(), false)
  ) order by i.provider), '[]')
  from ai.cost_importers i
$$;

-- Records that the days that an importer missed, up to a day, had no costs, for a person who may use the platform's book,
-- and records it in the audit log. The change is { provider, actor, lastDay, reason, requestId, ip }. Returns {} or {
-- refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.confirm_missed_days(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  confirmed datemultirange;
  importer ai.cost_importers;
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  select * into importer from ai.cost_importers i where i.provider = change ->> 'provider' for update;
  confirmed := ai.missed_days(importer) * datemultirange(daterange(null, (change ->> 'lastDay')::date, '[]'));
  if isempty(confirmed) is not false then
    return '{}';
  end if;
  update ai.cost_importers i set missed = i.missed - confirmed where i.provider = importer.provider;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.confirm_missed_days', 'target', 'costs ' || importer.provider,
    'after', jsonb_build_object('daysWithoutCosts', confirmed::text)
  ));
  return '{}';
end
$$;

-- Makes an importer's next attempt due now, for a person who may use the platform's book, and records it in the audit
-- log. The change is { provider, actor, reason, requestId, ip }. Returns {} or { refused: forbidden }.
-- Definer: the service role cannot check who may use a book.
create or replace function private.request_cost_import(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if ai.book_refusal((change ->> 'actor')::uuid, ai.platform_book()) is not null then
    return '{"refused": "forbidden"}';
  end if;
  insert into ai.cost_importers (provider) values (change ->> 'provider')
  on conflict (provider) do update set next_attempt_at = now();
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'costs.request_import', 'target', 'costs ' || (change ->> 'provider')
  ));
  return '{}';
end
$$;
