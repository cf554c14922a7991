-- Generated from supabase/schemas by npm run db:migration.

set lock_timeout = '500ms';

drop function ai.billing_provider(ai.usage_daily);

drop function ai.invoice_amount(ai.external_provider_invoices, daterange);

drop function ai.invoice_differences(ai.external_provider_invoices, jsonb);

drop function ai.invoice_matches(ai.external_provider_invoices, jsonb);

drop function ai.invoice_recorder(ai.external_provider_invoices);

drop function ai.invoice_replacement(ai.external_provider_invoices);

drop function ai.invoice_summary(ai.external_provider_invoices);

drop function ai.reconciled_costs(uuid, timestamp with time zone, timestamp with time zone);

drop function ai.provider_costs_in_totals(uuid, timestamp with time zone, timestamp with time zone);

drop function ai.invoice_comparison(uuid, jsonb, uuid);

drop function ai.store_provider_invoice(uuid, uuid, jsonb);

drop function ai.find_invoice(uuid, uuid, jsonb, text);

drop function ai.provider_invoices_page(uuid, jsonb, integer, jsonb);

drop function ai.reconciliation_page(uuid, timestamp with time zone, timestamp with time zone, text[], integer);

drop function private.account_sessions(uuid, uuid, jsonb, integer);

drop function private.list_passkeys(uuid);

drop function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer);

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if part = 'sessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      )
      from auth.sessions s
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'place', e.place, 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'approvals' then
    return query
      select jsonb_build_object(
        'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      )
      from private.login_challenges c
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'appHandoffs' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      )
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'appSessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
        'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
      )
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'appTokens' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      )
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  subject uuid := (event ->> 'userId')::uuid;
  session uuid := (event ->> 'sessionId')::uuid;
  owner_email text;
  recorded public.security_events;
begin
  select u.email into owner_email from auth.users u where u.id = subject and u.deleted_at is null;
  if not found then
    return null;
  end if;

  -- A trigger may have recorded the change already: then the event learns where our server was asked for it.
  update public.security_events s
  set kind = event ->> 'kind',
      method = coalesce(event ->> 'method', s.method),
      session_id = coalesce(session, s.session_id),
      ip = (event ->> 'ip')::inet,
      user_agent = event ->> 'userAgent',
      device = event ->> 'device',
      place = event ->> 'place',
      details = s.details || coalesce(event -> 'details', '{}')
  where s.id = (
    select e.id
    from public.security_events e
    where e.user_id = subject
      and e.created_at > now() - interval '2 minutes'
      and e.device is null
      and case event ->> 'kind'
        when 'sign_in' then e.kind = 'sign_in' and e.session_id = session
        -- The backend sees a recovery as a sign-in.
        when 'account_recovered' then e.kind = 'sign_in' and e.session_id = session
        when 'sign_out' then e.kind = 'sign_out' and e.session_id = session
        else e.kind = event ->> 'kind'
      end
    order by e.created_at desc, e.id
    limit 1
    for update
  )
  returning s.* into recorded;
  if not found then
    insert into public.security_events (user_id, kind, method, session_id, ip, user_agent, device, place, details)
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'ip')::inet,
      event ->> 'userAgent',
      event ->> 'device',
      event ->> 'place',
      coalesce(event -> 'details', '{}')
    )
    returning * into recorded;
  end if;

  if recorded.kind = 'sign_in' and (
    not private.is_new_place(recorded)
    -- The mail about the recovery says it.
    or exists (
      select from public.security_events r where r.session_id = recorded.session_id and r.kind = 'account_recovered'
    )
  ) then
    delete from private.outgoing_mails m where m.event_id = recorded.id;
  elsif (recorded.kind = 'sign_in' or private.is_told_by_mail(recorded.kind))
    and not exists (select from private.outgoing_mails m where m.event_id = recorded.id) then
    perform private.queue_event_mail(recorded, owner_email);
  end if;

  -- The event is complete: its mails can go out.
  update private.outgoing_mails m set next_attempt_at = now() where m.event_id = recorded.id and m.attempts = 1;

  return jsonb_build_object(
    'id', recorded.id,
    'createdAt', recorded.created_at,
    -- Servers of release 0.1.0 send a mail of their own to this address.
    'email', null,
    'newPlace', false
  );
end
$$;

create or replace function ai.provider_name(name text) returns text
  language sql
  immutable
  security invoker
as $$
  select lower(name)
$$;

create or replace view ai.cost_book_entries with (security_invoker = true) as
  select
    c.workspace_id as book_id, c.app_id, c.id, ai.provider_name(c.provider) as provider, c.provider as spelling,
    c.account_id, c.external_run_id, c.granularity, c.service, c.amount_usd, c.occurred_at, c.observed_at, c.recorded_at,
    c.revision, c.import_id, c.original
  from ai.external_provider_costs c
  union all
  select
    '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', p.id, p.provider, p.provider,
    p.account_id, p.external_run_id, p.granularity, p.service, p.amount_usd, p.occurred_at, p.observed_at, p.recorded_at,
    p.revision, p.import_id, p.original
  from ai.platform_provider_costs p;

create or replace view ai.invoice_book_entries with (security_invoker = true) as
  select
    i.workspace_id as book_id, i.app_id, i.id, ai.provider_name(i.provider) as provider, i.provider as spelling,
    i.account_id, i.reference, i.kind, i.replaces, i.amount_usd, i.issued_on, i.period_start, i.period_end,
    i.reviewed_at, i.recorded_at
  from ai.external_provider_invoices i
  union all
  select
    '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', p.id, p.provider, p.provider,
    p.account_id, p.reference, p.kind, p.replaces, p.amount_usd, p.issued_on, p.period_start, p.period_end,
    p.reviewed_at, p.recorded_at
  from ai.platform_provider_invoices p;

create or replace function ai.platform_book() returns uuid
  language sql
  immutable
  security invoker
as $$
  select '00000000-0000-0000-0000-000000000000'::uuid
$$;

create or replace function ai.find_cost(book uuid, app uuid, name text, account text, run_id text)
  returns setof ai.cost_book_entries
  language sql
  stable
  security invoker
as $$
  select *
  from ai.cost_book_entries e
  where e.book_id = book
    and e.app_id = app
    and e.provider = name
    and e.external_run_id = run_id
    and e.account_id is not distinct from account
  order by e.observed_at desc, e.id desc
  limit 1
$$;

create or replace function ai.cost_clashes(book uuid) returns table (
  provider text, spellings text[], account_id text, external_run_id text, from_day date, to_day date
)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c.provider, array_agg(c.spelling order by c.spelling collate "C"), c.account_id, c.external_run_id,
    (min(c.occurred_at) at time zone 'UTC')::date, (max(c.occurred_at) at time zone 'UTC')::date
  from ai.cost_book_entries c
  where c.book_id = book and exists (
    -- Only workspaces have such rows. The partial index holds nothing else.
    select
    from ai.external_provider_costs o
    where o.workspace_id = book
      and o.app_id = c.app_id
      and o.external_run_id = c.external_run_id
      and o.provider <> lower(o.provider)
      and ai.provider_name(o.provider) = c.provider
      and o.account_id is not distinct from c.account_id
  )
  group by c.app_id, c.provider, c.account_id, c.external_run_id
  having count(*) > 1
$$;

create or replace function ai.is_external_id(id text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select char_length(id) between 1 and 256 and id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
$$;

create or replace function ai.cost_document_fault(document jsonb) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
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
  -- Names of IANA, such as America/Los_Angeles. Postgres also takes offsets, which have no summer time.
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
  -- As the column holds.
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

create or replace function ai.cost_fault(param text, message text) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object('outcome', 'invalid', 'param', param, 'message', message)
$$;

create or replace function ai.cost_document_amounts(document jsonb)
  returns table (account_id text, day date, currency text, amount numeric, rate numeric)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    d.value ->> 'accountId', (d.value ->> 'day')::date, a.value ->> 'currency', (a.value ->> 'amount')::numeric,
    case a.value ->> 'currency' when 'USD' then 1 else (document -> 'rates' ->> (a.value ->> 'currency'))::numeric end
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
$$;

create or replace function ai.describe_cost_file(book uuid, app uuid, document jsonb) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  fault jsonb := ai.cost_document_fault(document);
  days ai.cost_file_day[];
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  return jsonb_build_object(
    'outcome', 'previewed',
    'byCurrency', (
      select jsonb_agg(
        jsonb_build_object(
          'currency', c.currency, 'amount', trim_scale(c.amount)::text, 'amountUsd', trim_scale(round(c.amount_usd, 12))::text
        )
        order by c.currency <> 'USD', c.currency collate "C"
      )
      from (
        select a.currency, sum(a.amount) as amount, sum(a.amount * a.rate) as amount_usd
        from ai.cost_document_amounts(document) a
        group by a.currency
      ) c
    ),
    'replaced', ai.costs_replaced_by_file(book, app, document, days),
    'state', ai.cost_file_state(book, app, document, days)
  ) || (
    select jsonb_object_agg(k.change, jsonb_build_object(
      'days', (select count(*) from unnest(days) d where d.change = k.change),
      'amountUsd', trim_scale(coalesce((select sum(d.stored_usd) from unnest(days) d where d.change = k.change), 0))::text
    ))
    from unnest('{remaining,cleared}'::text[]) k (change)
  ) || (
    select jsonb_build_object(
      'totalUsd', trim_scale(sum(d.amount_usd))::text,
      'firstDay', min(d.day),
      'lastDay', max(d.day),
      'days', count(*),
      'added', jsonb_build_object(
        'days', count(*) filter (where d.change = 'added'),
        'amountUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'added'), 0))::text
      ),
      'unchanged', jsonb_build_object('days', count(*) filter (where d.change = 'unchanged')),
      'corrected', jsonb_build_object(
        'days', count(*) filter (where d.change = 'corrected'),
        'fromUsd', trim_scale(coalesce(sum(d.stored_usd) filter (where d.change = 'corrected'), 0))::text,
        'toUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'corrected'), 0))::text,
        'list', (
          select coalesce(jsonb_agg(
            jsonb_build_object(
              'accountId', l.account_id, 'day', l.day,
              'fromUsd', trim_scale(l.stored_usd)::text, 'toUsd', trim_scale(l.amount_usd)::text
            )
            order by l.day, l.account_id collate "C"
          ), '[]')
          from (
            select *
            from unnest(days) c
            where c.change = 'corrected'
            order by c.day, c.account_id collate "C"
            limit 100
          ) l
        )
      )
    )
    from unnest(days) d
    where d.change not in ('remaining', 'cleared')
  ) || (
    select jsonb_build_object('accounts', jsonb_agg(
      jsonb_build_object('accountId', a.account_id, 'days', a.days, 'amountUsd', trim_scale(a.amount_usd)::text)
      order by a.account_id collate "C"
    ))
    from (
      select d.account_id, count(*) as days, sum(d.amount_usd) as amount_usd
      from unnest(days) d
      where d.change not in ('remaining', 'cleared')
      group by d.account_id
    ) a
  );
end
$$;

create or replace function ai.compare_cost_file(book uuid, app uuid, document jsonb) returns ai.cost_file_day[]
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- Without recent statistics the planner expects one record, and would compare every day with every record.
  set enable_nestloop = off
  set jit = off
as $$
declare
  name text := ai.provider_name(document ->> 'provider');
begin
  return (
    with amounts as (
      select a.account_id, a.day, a.currency, a.rate, sum(a.amount) as amount
      from ai.cost_document_amounts(document) a
      group by a.account_id, a.day, a.currency, a.rate
    ), totals as materialized (
      select
        a.account_id, a.day, ai.account_day_run_id(name, a.account_id, a.day) as external_run_id,
        round(sum(a.amount * a.rate), 12) as amount_usd,
        case when bool_or(a.currency <> 'USD') then jsonb_agg(
          jsonb_build_object('currency', a.currency, 'amount', trim_scale(a.amount)::text) order by a.currency collate "C"
        ) end as original
      from amounts a
      group by a.account_id, a.day
    ), stored as (
      -- As ai.find_cost.
      select distinct on (e.account_id, e.external_run_id) e.*
      from ai.cost_book_entries e
      where e.book_id = book
        and e.app_id = app
        and e.provider = name
        and e.external_run_id = any (array(select t.external_run_id from totals t))
      order by e.account_id, e.external_run_id, e.observed_at desc, e.id desc
    ), counted as (
      select distinct on (d.account_id, d.occurred_at)
        d.id, d.account_id, d.occurred_at, d.observed_at, d.external_run_id, d.amount_usd, d.revision, d.import_id
      from ai.cost_book_entries d
      where d.book_id = book
        and d.app_id = app
        and d.provider = name
        and d.granularity = 'account_day'
        and d.service is null
        and d.occurred_at >= (select min(t.day) from totals t)::timestamp at time zone 'UTC'
        and d.occurred_at <= (select max(t.day) from totals t)::timestamp at time zone 'UTC'
      order by d.account_id, d.occurred_at, d.observed_at desc, d.id desc
    ), lacking as (
      -- What files stated of this time and this one does not: a wrong account, or services that it leaves out.
      select c.*, (c.occurred_at at time zone 'UTC')::date as day
      from counted c
      where c.import_id is not null
        and c.amount_usd <> 0
        and (c.account_id, c.occurred_at) not in (select t.account_id, t.day::timestamp at time zone 'UTC' from totals t)
    ), compared as (
      select
        row(
          t.account_id, t.day, t.external_run_id, t.amount_usd, t.original, s.id, s.amount_usd, s.revision,
          greatest(s.observed_at, c.observed_at),
          case
            when s.id is null then 'added'
            -- It must count, and say the same.
            when s.id = c.id and s.amount_usd = t.amount_usd and s.original is not distinct from t.original then 'unchanged'
            else 'corrected'
          end
        )::ai.cost_file_day as item
      from totals t
      left join stored s on s.account_id = t.account_id and s.external_run_id = t.external_run_id
      left join counted c
        on c.account_id = t.account_id and c.occurred_at = t.day::timestamp at time zone 'UTC'
      union all
      select
        row(
          l.account_id, l.day, l.external_run_id, 0, null, l.id, l.amount_usd, l.revision, l.observed_at,
          case document ->> 'clear' when 'true' then 'cleared' else 'remaining' end
        )::ai.cost_file_day
      from lacking l
    )
    select array_agg(o.item order by (o.item).account_id collate "C", (o.item).day) from compared o
  );
end
$$;

create or replace function ai.costs_replaced_by_file(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- As ai.compare_cost_file.
  set enable_nestloop = off
  set jit = off
as $$
declare
  first_day date := (select min(d.day) from unnest(days) d);
  last_day date := (select max(d.day) from unnest(days) d);
begin
  return (
    select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd), 0))::text)
    from ai.provider_costs_in_totals(
      book, first_day::timestamp at time zone 'UTC', (last_day + 1)::timestamp at time zone 'UTC'
    ) t
    join unnest(days) d
      on d.account_id = (t.cost).account_id and d.day = ((t.cost).occurred_at at time zone 'UTC')::date
    where t.counted
      and (t.cost).app_id = app
      and (t.cost).provider = ai.provider_name(document ->> 'provider')
      and d.change <> 'remaining'
      and (t.cost).id is distinct from d.stored_id
  );
end
$$;

create or replace function ai.account_day_run_id(provider text, account_id text, day date) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case
    when char_length(account_id) + char_length(provider) <= 238 then format('%s-costs:%s:%s', provider, account_id, day)
    else format('%s-costs:sha256-%s:%s', provider, encode(sha256(convert_to(account_id, 'UTF8')), 'hex'), day)
  end
$$;

create or replace function ai.provider_costs_in_totals(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.cost_book_entries, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with superseded as materialized (
    select e.id
    from ai.cost_book_entries e
    cross join lateral ai.find_cost(e.book_id, e.app_id, e.provider, e.account_id, e.external_run_id) f
    where
      -- Once a query, on an index of such rows alone. Only workspaces have any.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and e.book_id = book
      and e.occurred_at >= date_trunc('day', window_from, 'UTC')
      and e.occurred_at < window_to
      and f.id <> e.id
  ), days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- The latest record of a service counts; a day's total replaces its services.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 and (
        d.service is null
        or not bool_or(d.service is null) over (partition by d.app_id, d.provider, d.account_id, d.occurred_at)
      ) as counted
    from ai.cost_book_entries d
    where d.granularity = 'account_day'
      and d.book_id = book
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
      and d.id not in (select s.id from superseded s)
  )
  -- Subqueries and no joins: they are hashed, however few rows the planner expects of a book that has just grown.
  select c, c.id not in (select s.id from superseded s) and case c.granularity
    when 'run' then not coalesce(
      (c.app_id, c.provider, c.account_id, date_trunc('day', c.occurred_at, 'UTC'))
        in (select d.app_id, d.provider, d.account_id, d.occurred_at from days d),
      false
    )
    else c.id in (select d.id from days d where d.counted)
  end
  from ai.cost_book_entries c
  where c.book_id = book and c.occurred_at >= window_from and c.occurred_at < window_to
$$;

create or replace function ai.is_superseded_cost(entry ai.cost_book_entries) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- The partial index holds only rows whose providers are not normalised. Without one, no other row can be the same record.
  select exists (
    select
    from ai.external_provider_costs o
    where o.workspace_id = (entry).book_id
      and o.app_id = (entry).app_id
      and o.external_run_id = (entry).external_run_id
      and o.provider <> lower(o.provider)
  ) and exists (
    select
    from ai.find_cost((entry).book_id, (entry).app_id, (entry).provider, (entry).account_id, (entry).external_run_id) f
    where f.id <> (entry).id
  )
$$;

-- Definer: as ai.list_linked_apps.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  if not ai.app_can_act_in_workspace(app, workspace) then
    return '{"outcome": "app_not_linked"}';
  end if;
  return ai.invoice_review(workspace, app, record);
end
$$;

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

create or replace function ai.read_invoice(book uuid, invoice_id uuid) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  kept ai.invoice_book_entries;
begin
  select * into kept from ai.invoice_book_entries i where i.id = invoice_id and i.book_id = book;
  if not found then
    return '{"outcome": "not_found"}';
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'invoice', ai.invoice_summary(kept),
    'recorded', ai.invoice_recorder(kept),
    'comparison', ai.invoice_comparison(book, ai.invoice_summary(kept), kept.id)
  );
end
$$;

create or replace function ai.invoice_comparison(book uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  of_provider text := ai.provider_name(record ->> 'provider');
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Longer than any report: such a period says nothing of what it compares with.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
    and (c.cost).provider = of_provider
    and (c.cost).account_id is not distinct from record ->> 'accountId';
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.provider = of_provider
    and i.account_id is not distinct from record ->> 'accountId'
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- The one that it replaces: references are unique within an app.
    and (i.app_id, i.reference) is distinct from (
      coalesce((record ->> 'appId')::uuid, ai.platform_book()), record ->> 'replaces'
    )
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(book) then (
      select trim_scale(coalesce(sum(m.metered), 0))::text
      from ai.metered_costs(book, window_from, window_to) m
      where m.provider = of_provider and coalesce(m.account_id = record ->> 'accountId', true)
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
$$;

create or replace function ai.invoice_recorder(invoice ai.invoice_book_entries) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when (invoice).book_id = ai.platform_book()
      then jsonb_build_object('by', 'person', 'name', private.last_admin_action('platform invoice ' || (invoice).id) ->> 'actorEmail')
    else (
      select jsonb_build_object(
        'by', case when l.actor_id is null then 'app' else 'person' end,
        'name', case
          when l.actor_id is null then ai.app_label((invoice).app_id)
          else (select p.display_name from public.profiles p where p.id = l.actor_id)
        end
      )
      from public.workspace_audit_log l
      where l.action = 'provider_invoice.recorded'
        and l.subject_id = (invoice).id
        and l.workspace_id = (invoice).book_id
    )
  end
$$;

-- Definer: as ai.preview_cost_import.
create or replace function ai.import_cost_file(member_id uuid, workspace uuid, app uuid, document jsonb, state text)
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  refusal jsonb := ai.cost_import_refusal(member_id, workspace, app);
begin
  if refusal is not null then
    return refusal;
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  return ai.store_cost_file(workspace, app, document, state, member_id);
end
$$;

create or replace function ai.cost_import_refusal(member_id uuid, workspace uuid, app uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then '{"outcome": "not_allowed"}'::jsonb
    when not ai.app_can_act_in_workspace(app, workspace) then '{"outcome": "app_not_linked"}'
  end
$$;

-- Definer: functions of the books are not granted to the service role.
create or replace function private.preview_platform_costs(document jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.describe_cost_file(ai.platform_book(), ai.platform_book(), document)
$$;

-- Definer: as private.preview_platform_costs.
create or replace function private.import_platform_costs(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  admin uuid := (change ->> 'actor')::uuid;
  subject text := 'costs ' || ai.provider_name(change #>> '{document,provider}');
  answer jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = admin) then
    return '{"outcome": "not_allowed", "refused": "forbidden"}';
  end if;
  answer := ai.store_cost_file(ai.platform_book(), ai.platform_book(), change -> 'document', change ->> 'state', admin);
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

-- Definer: as private.preview_platform_costs.
create or replace function private.import_costs_as_operator(workspace uuid, app uuid, document jsonb, state text default null)
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
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

create or replace function ai.operator_import_refusal(workspace uuid, app uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select '{"outcome": "app_not_linked"}'::jsonb
  where num_nulls(workspace, app) <> 2 and not coalesce(ai.app_can_act_in_workspace(app, workspace), false)
$$;

-- Definer: as check_app_caller.
create or replace function ai.import_provider_costs(call jsonb) returns jsonb
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
  perform ai.record_key_use(caller);
  -- Always in the same order, so that concurrent batches cannot deadlock.
  for item in
    select r.value as record, r.ordinality::integer as place
    from jsonb_array_elements(call -> 'records') with ordinality as r
    order by
      ai.provider_name(r.value ->> 'provider') collate "C", r.value ->> 'accountId' collate "C",
      r.value ->> 'externalRunId' collate "C", r.ordinality
  loop
    results[item.place] := ai.store_provider_cost(caller.workspace_id, caller.app_id, item.record);
  end loop;
  return jsonb_build_object('results', to_jsonb(results));
end
$$;

create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  kind text := coalesce(record ->> 'granularity', 'run');
  written integer;
  stored ai.cost_book_entries;
begin
  if occurred > observed then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'occurredAt', 'message', 'occurredAt must not be later than observedAt.'
    );
  end if;
  if observed > now() + interval '60 seconds' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'observedAt', 'message', 'observedAt must not be in the future.'
    );
  end if;

  select * into stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  -- Of concurrent imports each waits for the one before, and compares with what that one left.
  if stored.spelling <> name then
    update ai.external_provider_costs c
    set
      granularity = kind, service = record ->> 'service', amount_usd = amount, occurred_at = occurred,
      observed_at = observed, recorded_at = now(), revision = c.revision + 1, import_id = null, original = null
    where c.id = stored.id and c.observed_at < observed
    returning c.revision into written;
  else
    insert into ai.external_provider_costs as c (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at,
      observed_at
    )
    values (
      workspace, app, name, record ->> 'accountId', record ->> 'externalRunId', kind, record ->> 'service', amount,
      occurred, observed
    )
    on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
    set
      granularity = excluded.granularity,
      service = excluded.service,
      amount_usd = excluded.amount_usd,
      occurred_at = excluded.occurred_at,
      observed_at = excluded.observed_at,
      recorded_at = now(),
      revision = c.revision + 1,
      import_id = null,
      original = null
    where c.observed_at < excluded.observed_at
    returning c.revision into written;
  end if;
  if written is not null then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif (stored.amount_usd, stored.occurred_at, stored.granularity) = (amount, occurred, kind)
    and stored.service is not distinct from record ->> 'service' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
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

create or replace function ai.add_invoice(book uuid, app uuid, record jsonb) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  added uuid;
begin
  -- Nothing is added where this reference is recorded, or the replaced one is replaced already.
  if book = ai.platform_book() then
    insert into ai.platform_provider_invoices (
      provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end, reviewed_at
    )
    select r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start, r.period_end,
      r.reviewed_at
    from ai.invoice_of(record) r
    on conflict do nothing
    returning id into added;
  else
    insert into ai.external_provider_invoices (
      workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
      reviewed_at
    )
    select book, app, r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start,
      r.period_end, r.reviewed_at
    from ai.invoice_of(record) r
    on conflict do nothing
    returning id into added;
  end if;
  return added;
end
$$;

create or replace function ai.invoice_of(record jsonb) returns ai.invoice_book_entries
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select r
  from jsonb_populate_record(null::ai.invoice_book_entries, jsonb_build_object(
    'provider', ai.provider_name(record ->> 'provider'),
    'account_id', record ->> 'accountId',
    'reference', record ->> 'reference',
    'kind', coalesce(record ->> 'kind', 'invoice'),
    'replaces', record ->> 'replaces',
    'amount_usd', record -> 'amountUsd',
    'issued_on', record ->> 'issuedOn',
    'period_start', record ->> 'periodStart',
    'period_end', record ->> 'periodEnd',
    'reviewed_at', record ->> 'reviewedAt'
  )) r
$$;

create or replace function ai.find_invoice(book uuid, app uuid, record jsonb, of_reference text)
  returns ai.invoice_book_entries
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select i
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.app_id = app
    and i.provider = ai.provider_name(record ->> 'provider')
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = of_reference
  order by i.recorded_at, i.id
  limit 1
$$;

create or replace function ai.find_replacement(book uuid, app uuid, record jsonb) returns ai.invoice_book_entries
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select i
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.app_id = app
    and i.provider = ai.provider_name(record ->> 'provider')
    and i.account_id is not distinct from record ->> 'accountId'
    and i.replaces = record ->> 'replaces'
  order by i.recorded_at, i.id
  limit 1
$$;

create or replace function ai.invoice_differences(kept ai.invoice_book_entries, record jsonb) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array_remove(
    array[
      case when (kept).kind <> r.kind then 'kind' end,
      case when (kept).replaces is distinct from r.replaces then 'replaces' end,
      case when (kept).amount_usd <> r.amount_usd then 'amountUsd' end,
      case when (kept).issued_on <> r.issued_on then 'issuedOn' end,
      case when (kept).period_start is distinct from r.period_start then 'periodStart' end,
      case when (kept).period_end is distinct from r.period_end then 'periodEnd' end,
      case when (kept).reviewed_at <> r.reviewed_at then 'reviewedAt' end
    ],
    null
  )
  from ai.invoice_of(record) r
$$;

create or replace function ai.record_invoice_activity(workspace uuid, app uuid, invoice_id uuid, record jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  select private.log_workspace_change(
    workspace, 'provider_invoice.recorded', invoice_id, concat_ws(' ', ai.provider_name(record ->> 'provider'), record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces'
    ))
  )
$$;

create or replace trigger reject_invoice_change before update or delete on ai.platform_provider_invoices
  for each row execute function ai.reject_invoice_change();

create or replace trigger reject_invoice_truncate before truncate on ai.platform_provider_invoices
  for each statement execute function ai.reject_invoice_change();

-- Definer: as private.reconcile_platform.
create or replace function private.list_platform_costs(
  month date, filter jsonb default '{}', before jsonb default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.provider_costs_page(
    ai.platform_book(), m.first_day::timestamp at time zone 'UTC',
    (m.first_day::timestamp + interval '1 month') at time zone 'UTC', before, page_size, filter
  )
  from (select date_trunc('month', month::timestamp)::date as first_day) m
$$;

-- Definer: as private.reconcile_platform.
create or replace function private.read_platform_invoice(invoice_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.read_invoice(ai.platform_book(), invoice_id)
$$;

-- Definer: as private.reconcile_platform.
create or replace function private.review_platform_invoice(record jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.invoice_review(ai.platform_book(), ai.platform_book(), record)
$$;

-- Definer: the service role cannot write invoices.
create or replace function private.record_platform_invoice(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  record jsonb := change -> 'record';
  answer jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  answer := ai.store_provider_invoice(ai.platform_book(), ai.platform_book(), record);
  if answer ->> 'outcome' = 'stored' then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.record_invoice',
      'target', 'platform invoice ' || (answer ->> 'id'),
      'after', jsonb_strip_nulls(record) || jsonb_build_object('provider', ai.provider_name(record ->> 'provider'))
    ));
  end if;
  return answer;
end
$$;

create or replace function ai.account_workspaces(parts ai.platform_part[], of_account text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with days as materialized (
    select p.day, coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) as amount
    from unnest(parts) p
    where p.kind in ('metered', 'booked') and (of_account is null or p.account_id = of_account)
    group by p.day
    having coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) >= 0.005
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'workspaceId', s.workspace_id, 'name', w.name, 'meteredUsd', trim_scale(s.metered)::text, 'daysWithoutRuns', g.days
    )
    order by cardinality(g.days) desc, s.metered desc, s.workspace_id
  ), '[]')
  from (
    select p.workspace_id, sum(p.metered) as metered, array_agg(p.day) filter (where p.runs > 0) as used
    from unnest(parts) p
    where p.kind = 'metered' and (of_account is null or p.account_id = of_account)
    group by p.workspace_id
    having sum(p.runs) > 0
    order by sum(p.metered) desc
    limit 100
  ) s
  cross join lateral (
    select array(select d.day from days d where d.day <> all (s.used) order by d.day) as days
  ) g
  left join public.workspaces w on w.id = s.workspace_id
$$;

-- Definer: as private.reconcile_platform.
create or replace function private.explain_platform_month(month date, provider text) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- Days are in UTC.
  set timezone = 'UTC'
  set plan_cache_mode = force_custom_plan
as $$
declare
  first_day date := date_trunc('month', month::timestamp);
  end_day date := first_day + interval '1 month';
  of_provider text := ai.provider_name(provider);
  parts ai.platform_part[];
begin
  parts := array(
    select p from ai.platform_month_parts(first_day, end_day, of_provider) p
  );
  return jsonb_build_object(
    'outcome', 'explained',
    'month', to_char(first_day, 'YYYY-MM'),
    'provider', of_provider,
    'workspaces', ai.platform_workspaces(parts),
    'days', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'day', d.day,
        'accountId', d.account_id,
        'meteredUsd', trim_scale(d.metered)::text,
        'importedUsd', trim_scale(d.imported)::text
      ) order by d.day, d.account_id collate "C" nulls first), '[]')
      from (
        select p.day, p.account_id, coalesce(sum(p.metered), 0) as metered, coalesce(sum(p.imported), 0) as imported
        from unnest(parts) p
        where p.kind in ('metered', 'booked') and (p.metered is not null or p.imported is not null)
        group by p.day, p.account_id
      ) d
    ),
    'causes', ai.platform_causes(parts)
  );
end
$$;

create or replace function ai.workspaces_with_books() returns setof uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- One step in an index for each workspace: reading all records would take longer the more there are.
  with recursive with_costs (id) as (
    (select c.workspace_id from ai.external_provider_costs c order by c.workspace_id limit 1)
    union all
    select (
      select c.workspace_id from ai.external_provider_costs c where c.workspace_id > w.id order by c.workspace_id limit 1
    )
    from with_costs w
    where w.id is not null
  ), with_invoices (id) as (
    (select i.workspace_id from ai.external_provider_invoices i order by i.workspace_id limit 1)
    union all
    select (
      select i.workspace_id from ai.external_provider_invoices i where i.workspace_id > w.id order by i.workspace_id limit 1
    )
    from with_invoices w
    where w.id is not null
  )
  select id from with_costs where id is not null
  union
  select id from with_invoices where id is not null
$$;

create or replace function ai.platform_workspaces(parts ai.platform_part[]) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- Windows in place of joins: Postgres does not know how many parts there are.
  with sums as (
    select p.kind, p.workspace_id, p.account_id, coalesce(sum(p.metered), 0) as metered, coalesce(sum(p.runs), 0) as runs,
      coalesce(sum(p.estimated_runs), 0) as estimated_runs, coalesce(sum(p.closed_runs), 0) as closed_runs,
      sum(p.imported) as imported, coalesce(sum(p.invoiced), 0) as invoiced
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.kind, p.workspace_id, p.account_id
  ), placed as (
    select s.*,
      bool_or(s.kind = 'metered') over (partition by s.workspace_id, s.account_id) as is_named,
      bool_or(s.kind = 'metered' and s.account_id is null) over (partition by s.workspace_id) as has_unnamed
    from sums s
  ), figures as (
    select p.workspace_id,
      -- Its own records of accounts that none of its runs name are compared with its runs that name none.
      case when p.is_named or not p.has_unnamed then p.account_id end as account_id,
      sum(p.metered) as metered, sum(p.runs) as runs, sum(p.estimated_runs) as estimated_runs,
      sum(p.closed_runs) as closed_runs, sum(p.imported) as imported, sum(p.invoiced) as invoiced
    from placed p
    group by 1, 2
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'workspaceId', f.workspace_id,
    'name', w.name,
    'accountId', f.account_id,
    'meteredUsd', trim_scale(f.metered)::text,
    'runs', f.runs,
    'estimatedRuns', f.estimated_runs,
    'closedRuns', f.closed_runs,
    'importedUsd', trim_scale(coalesce(f.imported, 0))::text,
    'invoicedUsd', trim_scale(f.invoiced)::text,
    'differenceUsd', trim_scale(f.imported - f.metered)::text
  ) order by abs(f.imported - f.metered) desc nulls last, f.metered desc, f.workspace_id, f.account_id collate "C"), '[]')
  from figures f
  left join public.workspaces w on w.id = f.workspace_id
$$;

create or replace function ai.provider_cost_records(
  workspace uuid, window_from timestamptz, window_to timestamptz, before jsonb, page_size integer, filter jsonb
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- A plan for every filter and position reads the whole range for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_provider text := ai.provider_name(filter ->> 'provider');
  of_account text := filter ->> 'accountId';
  any_account boolean := not filter ? 'accountId';
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    with page as materialized (
      select *
      from ai.cost_book_entries c
      where c.book_id = workspace
        and c.occurred_at >= window_from
        and c.occurred_at < window_to
        and c.occurred_at <= last_at
        and (c.occurred_at, c.id) < (last_at, last_id)
        and (of_provider is null or c.provider = of_provider)
        and (any_account or c.account_id is not distinct from of_account)
      order by c.occurred_at desc, c.id desc
      limit page_size
    )
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'id', p.id,
        'appId', p.app_id,
        'appName', a.display_name,
        'provider', p.provider,
        'accountId', p.account_id,
        'externalRunId', p.external_run_id,
        'granularity', p.granularity,
        'service', p.service,
        'amountUsd', trim_scale(p.amount_usd)::text,
        'occurredAt', ai.utc_text_microseconds(p.occurred_at),
        'observedAt', ai.utc_text_microseconds(p.observed_at),
        'recordedAt', ai.utc_text_microseconds(p.recorded_at),
        'revision', p.revision,
        'counted', replaced.by_run_id is null,
        'replacedBy', replaced.by_run_id,
        -- The records that an account day replaces in totals: runs, its own earlier states, and a day total's services.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.cost_book_entries c
          where c.book_id = p.book_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and c.id <> p.id
            and (c.granularity = 'run' or p.service is null or c.service = p.service)
            and c.app_id = p.app_id
            and c.provider = p.provider
            and c.account_id = p.account_id
        ) end,
        'original', p.original,
        'import', case when p.import_id is not null then ai.cost_import_summary(p.import_id) end
      )
      order by p.occurred_at desc, p.id desc
    ), '[]')
    from page p
    left join private.apps a on a.id = p.app_id
    -- The account day that stands for it, by the rule of ai.provider_costs_in_totals.
    left join lateral (
      select d.external_run_id as by_run_id
      from ai.cost_book_entries d
      where d.granularity = 'account_day'
        and d.book_id = p.book_id
        and d.app_id = p.app_id
        and d.provider = p.provider
        and d.account_id = p.account_id
        and d.occurred_at = date_trunc('day', p.occurred_at, 'UTC')
        and (
          p.granularity = 'run'
          or (d.service is null and p.service is not null)
          or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
        )
        and not ai.is_superseded_cost(d)
      order by d.service is null desc, d.observed_at desc, d.id desc
      limit 1
    ) as day on true
    -- Or the same record in another spelling of the provider.
    cross join lateral (
      select case when ai.is_superseded_cost(p) then p.external_run_id else day.by_run_id end as by_run_id
    ) as replaced
  );
end
$$;

create or replace function ai.provider_cost_totals(workspace uuid, window_from timestamptz, window_to timestamptz, filter jsonb)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where t.counted), 0))::text,
    'records', count(*),
    'replacedRecords', count(*) filter (where not t.counted),
    'replacedUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where not t.counted), 0))::text
  )
  from ai.provider_costs_in_totals(workspace, window_from, window_to) t
  where (filter ->> 'provider' is null or (t.cost).provider = ai.provider_name(filter ->> 'provider'))
    and (not filter ? 'accountId' or (t.cost).account_id is not distinct from filter ->> 'accountId')
$$;

create or replace function ai.cost_import_summary(of_import_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', i.id,
    'file', i.file_name,
    'format', i.format,
    'timeZone', i.time_zone,
    'rates', i.rates,
    'by', case when i.imported_by is null then 'operator' else 'person' end,
    'name', (select p.display_name from public.profiles p where p.id = i.imported_by),
    'importedAt', ai.utc_text_microseconds(i.imported_at)
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

create or replace function ai.invoice_replacement(invoice ai.invoice_book_entries) returns text
  language sql
  stable
  security invoker
as $$
  select r.reference
  from ai.invoice_book_entries r
  where r.book_id = (invoice).book_id
    and r.app_id = (invoice).app_id
    and r.provider = (invoice).provider
    and r.account_id is not distinct from (invoice).account_id
    and (
      r.replaces = (invoice).reference
      -- Recorded twice under two spellings of the provider: the first counts.
      or (r.reference = (invoice).reference and (r.recorded_at, r.id) < ((invoice).recorded_at, (invoice).id))
    )
  order by r.replaces is not distinct from (invoice).reference desc, r.recorded_at, r.id
  limit 1
$$;

create or replace function ai.invoice_amount(invoice ai.invoice_book_entries, within daterange default null) returns numeric
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  -- Shares are differences of rounded sums, so that adjacent ranges add up to the amount.
  select case (invoice).kind when 'credit_note' then -1 else 1 end
    * case
      when within is null then (invoice).amount_usd
      when isempty(d.days * within) then 0
      else
        round((invoice).amount_usd * (upper(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
        - round((invoice).amount_usd * (lower(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
    end
  from (select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) as days) d
$$;

create or replace function ai.invoice_matches(invoice ai.invoice_book_entries, filter jsonb) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select (filter ->> 'provider' is null or ai.provider_name(filter ->> 'provider') = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (
      filter ->> 'month' is null
      or ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) && ai.month_days(filter ->> 'month')
    )
$$;

create or replace function ai.reconciliation_page(
  book uuid, given_from timestamptz, given_to timestamptz, after text[], page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(book);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(book, asked.window_from, asked.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (
          where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account and p.account_id is not null)
        ), '[]') as accounts
      from (
        -- One run without an account leaves open what the month's accounts were charged, unless it cost nothing: failed
        -- calls and those that the sweep closed often name none.
        select *, coalesce(
          bool_and(q.account_id is not null) filter (where q.metered <> 0) over (partition by q.month, q.provider),
          bool_and(q.account_id is not null) filter (where q.runs > 0) over (partition by q.month, q.provider)
        ) as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'clashes', ai.book_clashes(book, asked.window_from, asked.window_to),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;

create or replace function ai.cost_comparison_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, of_provider text, after text, page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with providers as materialized (
      select p.provider, sum(p.metered) as metered, sum(p.imported) as imported
      from ai.reconciled_costs(workspace, asked.window_from, asked.window_to) p
      where of_provider is null or p.provider = ai.provider_name(of_provider)
      group by p.provider
      having sum(p.records) > 0 or (visible and sum(p.metered) <> 0)
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(p.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(p.imported), 0))::text,
          'providers', count(*)
        )
        from providers p
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'provider', p.provider,
            'meteredUsd', case when visible then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text
          )
          order by p.provider collate "C"
        ), '[]')
        from (
          select *
          from providers p
          where after is null or p.provider collate "C" > after collate "C"
          order by p.provider collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, person_id uuid) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  fault jsonb := ai.cost_document_fault(document);
  days ai.cost_file_day[];
  item ai.cost_file_day;
  answer jsonb;
  new_id uuid := gen_random_uuid();
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  if state <> ai.cost_file_state(book, app, document, days) then
    return '{"outcome": "changed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'imported',
    'importId', case when bool_or(d.change not in ('unchanged', 'remaining')) then new_id end,
    'added', count(*) filter (where d.change = 'added'),
    'corrected', count(*) filter (where d.change = 'corrected'),
    'cleared', count(*) filter (where d.change = 'cleared'),
    'unchanged', count(*) filter (where d.change = 'unchanged')
  ) into answer
  from unnest(days) d;
  if answer ->> 'importId' is null then
    return answer;
  end if;
  insert into ai.cost_imports (
    id, workspace_id, app_id, provider, format, file_name, file_sha256, time_zone, rates, imported_by
  )
  values (
    new_id, nullif(book, ai.platform_book()), nullif(app, ai.platform_book()), ai.provider_name(document ->> 'provider'),
    document ->> 'format', document ->> 'fileName', decode(document ->> 'sha256', 'hex'), document ->> 'timeZone',
    coalesce(document -> 'rates', '{}'), person_id
  );
  -- In the order of ai.import_provider_costs, so that imports cannot lock each other out.
  for item in
    select d.*
    from unnest(days) d
    where d.change not in ('unchanged', 'remaining')
    order by d.account_id collate "C", d.external_run_id collate "C"
  loop
    perform ai.write_cost_file_day(book, app, new_id, item);
  end loop;
  if book <> ai.platform_book() then
    perform private.log_workspace_change(
      book, 'provider_costs.imported', new_id,
      concat_ws(' ', ai.provider_name(document ->> 'provider'), document ->> 'fileName'),
      ai.cost_import_details(new_id) || jsonb_build_object(
        'appId', app, 'days', (select count(*) from unnest(days) d where d.change <> 'remaining'),
        'totalUsd', (select trim_scale(sum(d.amount_usd))::text from unnest(days) d)
      )
    );
  end if;
  return answer;
exception
  -- A concurrent import wrote one of the days. Nothing of this one is kept.
  when serialization_failure then
    return '{"outcome": "changed"}';
end
$$;

create or replace function ai.write_cost_file_day(book uuid, app uuid, new_import_id uuid, item ai.cost_file_day) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  name text := (select i.provider from ai.cost_imports i where i.id = new_import_id);
  occurred timestamptz := item.day::timestamp at time zone 'UTC';
  recorded timestamptz := clock_timestamp();
  -- Importers' clocks may be up to 60 seconds ahead.
  observed timestamptz := greatest(recorded, item.observed_before + interval '1 microsecond');
begin
  if book = ai.platform_book() and item.stored_id is null then
    insert into ai.platform_provider_costs (
      provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at, recorded_at, import_id,
      original
    )
    values (
      name, item.account_id, item.external_run_id, 'account_day', item.amount_usd, occurred, observed, recorded,
      new_import_id, item.original
    )
    on conflict do nothing;
  elsif book = ai.platform_book() then
    update ai.platform_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = item.amount_usd, occurred_at = occurred,
      observed_at = observed, recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id,
      original = item.original
    where c.id = item.stored_id and c.revision = item.stored_revision;
  elsif item.stored_id is null then
    insert into ai.external_provider_costs (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at,
      recorded_at, import_id, original
    )
    values (
      book, app, name, item.account_id, item.external_run_id, 'account_day', item.amount_usd, occurred, observed,
      recorded, new_import_id, item.original
    )
    on conflict do nothing;
  else
    update ai.external_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = item.amount_usd, occurred_at = occurred,
      observed_at = observed, recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id,
      original = item.original
    where c.id = item.stored_id and c.revision = item.stored_revision;
  end if;
  if not found then
    raise exception 'a concurrent import wrote %', item.external_run_id using errcode = 'serialization_failure';
  end if;
end
$$;

create or replace function ai.cost_import_details(of_import_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'provider', i.provider, 'format', i.format, 'file', i.file_name, 'sha256', encode(i.file_sha256, 'hex'),
    'timeZone', i.time_zone, 'rates', i.rates
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

create or replace function ai.reject_cost_import_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'a cost import is immutable' using errcode = 'restrict_violation';
end
$$;

create or replace trigger reject_cost_import_change before update or delete on ai.cost_imports
  for each row execute function ai.reject_cost_import_change();

create or replace trigger reject_cost_import_truncate before truncate on ai.cost_imports
  for each statement execute function ai.reject_cost_import_change();

-- Definer: sessions are the identity backend's, which the service role cannot read.
create or replace function private.account_sessions(
  subject_id uuid, first_session_id uuid default null, before jsonb default null, page_size integer default null
)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    place text,
    method text,
    aal text,
    refreshed_at timestamptz
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- Its refreshes, once an hour or so, and what its owner did with it.
    greatest(s.refreshed, e.last_event_at),
    host(s.ip),
    -- A sign-in by our pages reaches the backend through our server, which names itself there.
    coalesce(e.user_agent, s.user_agent),
    e.device,
    e.place,
    e.method,
    s.aal::text,
    s.refreshed
  from (
    select l.*, r.refreshed
    from auth.sessions l
    cross join lateral (select greatest(l.created_at, l.refreshed_at at time zone 'UTC') as refreshed) r
    where l.user_id = subject_id
      and (l.not_after is null or l.not_after > now())
      and (
        before is null
        or l.id is distinct from first_session_id
          and (r.refreshed, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, r.refreshed desc, l.id desc
    limit page_size
  ) s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.place order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as place,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  order by s.id is not distinct from first_session_id desc, s.refreshed desc, s.id desc
$$;

-- Definer: the identity backend's tables are not the service role's to read.
create or replace function private.list_passkeys(user_id uuid)
  returns table (
    id uuid,
    credential_id text,
    name text,
    aaguid uuid,
    device text,
    created_at timestamptz,
    last_used_at timestamptz
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select c.id, encode(c.credential_id, 'hex'), c.friendly_name, c.aaguid, e.device, c.created_at, c.last_used_at
  from auth.webauthn_credentials c
  left join public.security_events e on e.id = private.addition_event(c.user_id, c.id, 'passkey_added')
  where c.user_id = list_passkeys.user_id
  order by c.created_at, c.id
$$;

create or replace function ai.platform_usage(first_day date, last_day date, of_provider text default null)
  returns table (
    workspace_id uuid, day date, provider_id text, billing_name text, billing_account text, requests numeric, failed numeric,
    input_tokens numeric, output_tokens numeric, cost_usd numeric, estimated_runs numeric, closed_runs numeric
  )
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- Days are in UTC. A generic plan would read all sums.
  set timezone = 'UTC'
  set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  live_from date := (select s.before from ai.usage_sealed_days s);
  sums_from date := case
    when detailed then (select least(s.detailed_from, s.before) from ai.usage_sealed_days s) else '-infinity'
  end;
  live_start timestamptz := greatest(first_day, live_from);
  summed_start timestamptz := least(last_day + 1, sums_from);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
  changed_days date[] := array(
    select distinct c.day
    from ai.usage_changed_days c
    where c.day between first_day and last_day and c.day >= sums_from and c.day < live_from
  );
begin
  return query
    with changed as (
      select distinct c.workspace_id, c.day
      from ai.usage_changed_days c
      where c.day = any (changed_days)
    ), parts as (
      -- Each part is grouped by itself: with few groups, Postgres hashes instead of sorting.
      select case when detailed then u.workspace_id end as workspace_id, case when detailed then u.day end as day,
        u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd,
        sum(u.estimated_runs) as estimated_runs, sum(u.closed_runs) as closed_runs
      from ai.usage_daily u
      where u.day between greatest(first_day, sums_from) and least(last_day, live_from - 1) and u.day <> all (changed_days)
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then u.workspace_id end, case when detailed then u.day end, u.provider_id, u.billing_name,
        u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd),
        sum(u.estimated_runs), sum(u.closed_runs)
      from ai.usage_daily u
      where u.day = any (changed_days) and (u.workspace_id, u.day) not in (select c.workspace_id, c.day from changed c)
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then s.workspace_id end, case when detailed then s.day end, s.provider_id, s.billing_name,
        s.billing_account, sum(s.requests), sum(s.failed), sum(s.input_tokens), sum(s.output_tokens), sum(s.cost_usd),
        sum(s.estimated_runs), sum(s.closed_runs)
      from changed c
      cross join lateral ai.sum_usage(c.workspace_id, c.day::timestamptz, (c.day + 1)::timestamptz) as s
      where not detailed or s.closed_runs > 0 or ai.billing_provider(s.billing_name, s.provider_id) = of_provider
      group by 1, 2, s.provider_id, s.billing_name, s.billing_account
      union all
      select case when detailed then r.workspace_id end, case when detailed then r.created_at::date end,
        ai.run_provider(r.routes, r.route), r.billing_name, r.billing_account, count(*),
        count(*) filter (where r.status = 'failed'), sum(r.input_tokens), sum(r.output_tokens), sum(r.cost_usd),
        count(*) filter (where ai.is_estimated(r.usage_source, r.swept)), count(*) filter (where r.swept)
      from (
        select * from ai.runs l where l.created_at >= live_start and l.created_at < range_end
        union all
        select * from ai.runs o where o.created_at >= range_start and o.created_at < summed_start
      ) as r
      where not detailed or r.swept or ai.billing_provider(r.billing_name, ai.run_provider(r.routes, r.route)) = of_provider
      group by 1, 2, 3, r.billing_name, r.billing_account
    )
    select p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account, sum(p.requests), sum(p.failed),
      sum(p.input_tokens), sum(p.output_tokens), sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from parts p
    group by p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account;
end
$$;

-- Definer: addresses are in the identity backend's table. The caller's own address, and those of members of workspaces
-- in which the caller manages members: who invites people by email may see it.
create or replace function public.list_member_emails(workspace_id uuid) returns table (user_id uuid, email text)
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select m.user_id, u.email::text
  from public.workspace_members m
  join auth.users u on u.id = m.user_id
  where m.workspace_id = list_member_emails.workspace_id
    and u.email <> ''
    and private.account_required_mfa_satisfied()
    and (
      m.user_id = (select auth.uid())
      or m.workspace_id in (select private.my_workspace_ids_with_permission('manage_members'))
    )
$$;

create or replace function public.list_workspace_members(
  workspace_id uuid,
  search text default '',
  of_role uuid default null,
  member_id uuid default null,
  after text[] default null,
  page_size integer default 50
)
  returns table (
    user_id uuid,
    name text,
    role_id uuid,
    role text,
    is_owner boolean,
    joined_at timestamptz,
    sorts_as text,
    email text
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select m.user_id, n.name, r.id, r.name, r.is_owner, m.created_at, lower(n.name), v.email
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id
  left join public.profiles p on p.id = m.user_id
  left join public.list_member_emails(list_workspace_members.workspace_id) v on v.user_id = m.user_id
  cross join lateral (select coalesce(p.display_name, 'Unknown') as name) n
  where m.workspace_id = list_workspace_members.workspace_id
    and (of_role is null or m.role_id = of_role)
    and (member_id is null or m.user_id = member_id)
    and (position(lower(search) in lower(n.name)) > 0 or position(lower(search) in lower(v.email)) > 0)
    and (
      after is null or (not r.is_owner, lower(n.name), m.user_id) > (not after[1]::boolean, after[2], after[3]::uuid)
    )
  order by not r.is_owner, lower(n.name), m.user_id
  limit page_size
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, most_sessions integer default null
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since,
      private.list_sign_in_methods(u.id) as methods
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- Somebody who knew the password could have confirmed their own additions.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      1 as position,
      'password' as kind,
      null::text as id,
      null::text as name,
      null::text as user_agent,
      null::text as provider,
      coalesce(e.created_at, a.created_at) as added_at,
      (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) as last_used_at,
      e.id as event_id
    from account a
    left join lateral (
      select v.id, v.created_at
      from public.security_events v
      where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
      order by v.created_at desc, v.id
      limit 1
    ) e on true
    where a.methods -> 'password' = 'true'::jsonb

    union all
    select
      2, 'identity', i.id::text, i.email, null, i.provider,
      -- Supabase Auth makes a new account and its first identity in one call, at two readings of the clock.
      case when i."createdAt" < a.created_at + interval '500 milliseconds' then a.created_at else i."createdAt" end,
      i."lastSignInAt",
      private.addition_event(a.id, i.id, 'identity_linked')
    from account a
    cross join lateral jsonb_to_recordset(a.methods -> 'identities') as i (
      id uuid, provider text, email text, "createdAt" timestamptz, "lastSignInAt" timestamptz
    )
    where i.provider not in ('email', 'phone')

    union all
    select
      3, 'passkey', p.id::text, nullif(p.name, ''), null, p.aaguid::text, p.created_at, p.last_used_at,
      private.addition_event(a.id, p.id, 'passkey_added')
    from account a
    cross join lateral private.list_passkeys(a.id) p

    union all
    select
      4, 'authenticator', f.id::text, nullif(f.friendly_name, ''), null, null, f.created_at, f.last_challenged_at,
      private.addition_event(a.id, f.id, 'authenticator_added')
    from account a
    join auth.mfa_factors f on f.user_id = a.id and f.status = 'verified'

    union all
    select
      5, 'session', s.id::text, s.device, s.user_agent, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => most_sessions) s

    union all
    -- An app that was connected again is as new as its newest credential.
    select
      6, 'app', p.name, p.display_name, null, null, max(h.connected_at), max(h.renewed_at),
      (array_agg(private.sign_in_event(a.id, h.session_id) order by h.connected_at desc))[1]
    from account a
    cross join lateral (
      select s.app_id, s.created_at as connected_at, s.issued_at as renewed_at, (s.proof).session_id
      from private.app_sessions s
      where s.user_id = a.id
        and s.revoked_at is null
        and s.expires_at > now()
        and s.ends_at > now()
        and private.proof_status(s.proof) <> 'over'
      union all
      select t.app_id, t.handed_over_at, t.created_at, (t.proof).session_id
      from ai.app_tokens t
      where t.user_id = a.id
        and t.revoked_at is null
        and case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end > now()
        and private.proof_status(t.proof) <> 'over'
    ) h
    join private.apps p on p.id = h.app_id
    group by p.name, p.display_name
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', concat_ws(':', w.kind, w.id),
        'kind', w.kind,
        'id', w.id,
        'name', w.name,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then s.ip else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null
      ) order by w.position, d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- Its row may be older: of an authenticator since its enrolment began, of a link since the visit to the provider, of a
      -- copied session since the sign-in it was copied from.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
      left join lateral (select host(l.ip) as ip from auth.sessions l where w.kind = 'session' and l.id::text = w.id) s
        on true
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, most_sessions),
        'isNew', exists (
          select
          from auth.sessions l
          where l.user_id = a.id and l.created_at > a.since and (l.not_after is null or l.not_after > now())
            and l.id::text not in (select w.id from ways w where w.kind = 'session')
        )
      )
      from private.count_account_sessions(a.id, most_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

-- Definer: as private.list_provider_health.
create or replace function private.list_provider_usage(first_day date, last_day date) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', t.provider_id,
    'billingName', t.billing_name,
    'billingAccount', t.billing_account,
    'requests', t.requests,
    'failed', t.failed,
    'inputTokens', t.input_tokens,
    'outputTokens', t.output_tokens,
    'costUsd', trim_scale(t.cost_usd)::text
  ) order by t.cost_usd desc, t.provider_id, t.billing_name, t.billing_account), '[]')
  from ai.platform_usage(first_day, last_day) t
$$;

create or replace function ai.billing_provider(billing_name text, provider_id text) returns text
  language sql
  immutable
  security invoker
as $$
  select ai.provider_name(coalesce(billing_name, provider_id, 'unknown'))
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.metered_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (month date, provider text, account_id text, metered numeric, runs numeric)
  language sql
  stable
  security invoker
as $$
  select date_trunc('month', u.day::timestamp)::date, ai.billing_provider(u.billing_name, u.provider_id), u.billing_account,
    u.cost_usd, u.requests
  from ai.usage_between(book, window_from, window_to) u
  union all
  select date_trunc('month', window_from at time zone 'UTC')::date, ai.billing_provider(p.billing_name, p.provider_id),
    p.billing_account, p.cost_usd, p.requests
  from ai.platform_usage(
    (window_from at time zone 'UTC')::date, ((window_to - interval '1 microsecond') at time zone 'UTC')::date
  ) p
  where book = ai.platform_book()
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.booked_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (day date, provider text, account_id text, imported numeric, invoiced numeric)
  language sql
  stable
  security invoker
as $$
  select ((c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id, (c.cost).amount_usd,
    null::numeric
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
  union all
  select m.first_day::date, i.provider, i.account_id, null,
    ai.invoice_amount(i, daterange(m.first_day::date, (m.first_day + interval '1 month')::date) * w.days)
  from ai.invoice_book_entries i
  cross join (
    -- The days that begin in the window.
    select daterange(
      ((window_from + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date,
      ((window_to + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date
    ) as days
  ) w
  cross join lateral (select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * w.days as days) d
  cross join lateral generate_series(
    date_trunc('month', lower(d.days)::timestamp), upper(d.days) - interval '1 day', interval '1 month'
  ) as m (first_day)
  where i.book_id = book and not isempty(d.days) and ai.invoice_replacement(i) is null
$$;

create or replace function ai.reconciled_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (
    month date, provider text, account_id text, metered numeric, imported numeric, invoiced numeric, runs numeric,
    records bigint, invoices bigint
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select s.month, s.provider, s.account_id, coalesce(sum(s.metered), 0), coalesce(sum(s.imported), 0), coalesce(sum(s.invoiced), 0),
    coalesce(sum(s.runs), 0), count(s.imported), count(s.invoiced)
  from (
    select m.month, m.provider, m.account_id, m.metered, null::numeric as imported, null::numeric as invoiced, m.runs
    from ai.metered_costs(book, window_from, window_to) m
    union all
    select date_trunc('month', b.day::timestamp)::date, b.provider, b.account_id, null, b.imported, b.invoiced, null
    from ai.booked_costs(book, window_from, window_to) b
  ) as s
  group by s.month, s.provider, s.account_id
$$;

create or replace function ai.book_clashes(book uuid, window_from timestamptz, window_to timestamptz) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with asked as (
    select daterange(
      (window_from at time zone 'UTC')::date, ((window_to - interval '1 microsecond') at time zone 'UTC')::date, '[]'
    ) as days
  ), clashes as (
    select 'cost' as kind, c.provider, c.spellings, c.account_id, c.external_run_id as name
    from asked a
    cross join ai.cost_clashes(book) c
    where
      -- Once a query, on an index of such rows alone. Without any, no record is read.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and daterange(c.from_day, c.to_day, '[]') && a.days
    union all
    select 'invoice', i.provider, array_agg(i.spelling order by i.spelling collate "C"), i.account_id, i.reference
    from ai.invoice_book_entries i
    cross join asked a
    where i.book_id = book
    group by i.app_id, i.provider, i.account_id, i.reference, a.days
    having count(*) > 1 and bool_or(ai.invoice_days(i.period_start, i.period_end, i.issued_on) && a.days)
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'kind', c.kind,
      'provider', c.provider,
      'spellings', c.spellings,
      'accountId', c.account_id,
      case c.kind when 'cost' then 'externalRunId' else 'reference' end, c.name
    )
    order by c.kind, c.provider collate "C", c.account_id collate "C", c.name collate "C"
  ), '[]')
  from (select * from clashes limit 100) c
$$;

create or replace function ai.cost_file_state(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select encode(sha256(convert_to(concat_ws(
    e'\n', book, app, ai.provider_name(document ->> 'provider'), document -> 'rates',
    ai.costs_replaced_by_file(book, app, document, days),
    to_jsonb(array(select d from unnest(days) d where d.change <> 'remaining'))
  ), 'UTF8')), 'hex')
$$;

create or replace function ai.cost_import_receipt(book uuid, of_import_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
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

-- Definer: as ai.list_linked_apps.
create or replace function ai.read_provider_invoice(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.read_invoice(workspace, invoice_id)
    else '{"outcome": "not_allowed"}'
  end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.preview_cost_import(member_id uuid, workspace uuid, app uuid, document jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(
    ai.cost_import_refusal(member_id, workspace, app),
    ai.describe_cost_file(workspace, app, document)
  )
$$;

-- Definer: as private.preview_platform_costs.
create or replace function private.preview_costs_as_operator(workspace uuid, app uuid, document jsonb) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(
    ai.operator_import_refusal(workspace, app),
    ai.describe_cost_file(coalesce(workspace, ai.platform_book()), coalesce(app, ai.platform_book()), document)
  )
$$;

create or replace function ai.invoice_share(invoice ai.invoice_book_entries, month text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'inMonth', jsonb_build_object(
      'amountUsd', trim_scale(ai.invoice_amount(invoice, d.days))::text,
      'firstDay', lower(d.days),
      'lastDay', upper(d.days) - 1
    )
  )
  from (
    select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) * ai.month_days(month) as days
  ) d
  where month is not null
$$;

-- Definer: functions about runs and books are not granted to the service role.
create or replace function private.reconcile_platform(month date) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select (page - 'from' - 'to') || jsonb_build_object('month', to_char(m.first_day, 'YYYY-MM'))
  from (select date_trunc('month', month::timestamp)::date as first_day) m
  cross join lateral ai.reconciliation_page(
    ai.platform_book(), m.first_day::timestamp at time zone 'UTC',
    (m.first_day::timestamp + interval '1 month') at time zone 'UTC', null, null
  ) as page
$$;

create or replace function ai.platform_causes(parts ai.platform_part[]) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with totals as (
    select
      coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.imported) filter (where p.kind = 'booked'), 0) as imported,
      coalesce(sum(p.invoiced) filter (where p.kind = 'booked'), 0) as invoiced,
      count(p.imported) filter (where p.kind = 'booked') > 0 as has_costs,
      count(p.invoiced) filter (where p.kind = 'booked') > 0 as has_invoices,
      -- Runs and records without an account may belong to any account, so accounts are not compared.
      coalesce(bool_or(p.account_id is null and (p.metered <> 0 or (p.kind = 'booked' and p.imported <> 0))), false) as pooled
    from unnest(parts) p
  ), days as (
    select case when not t.pooled then p.account_id end as account_id, p.day, coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.runs), 0) as runs, coalesce(sum(p.imported), 0) as imported, count(p.imported) as records
    from unnest(parts) p
    cross join totals t
    where t.has_costs and p.kind in ('metered', 'booked') and (p.imported is not null or p.runs > 0)
    group by 1, 2
  ), accounts as (
    select d.account_id, sum(d.metered) as metered, sum(d.imported) as imported, sum(d.runs) as runs, sum(d.records) as records
    from days d
    group by d.account_id
  ), spaces as (
    -- What its own book says that its runs cost: its imports, or without any its invoices.
    select p.workspace_id, coalesce(sum(p.imported), sum(p.invoiced)) - coalesce(sum(p.metered), 0) as amount,
      sum(p.estimated_runs) as estimated_runs, sum(p.closed_runs) as closed_runs
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.workspace_id
  ), differing as (
    select t.*, case when t.has_costs then t.imported when t.has_invoices then t.invoiced end - t.metered as amount
    from totals t
  ), causes as (
    select 1 as rank, 'workspace_costs_above_metered' as kind, s.workspace_id, null::text as account_id, s.amount,
      jsonb_build_object('days', (
        select coalesce(jsonb_agg(jsonb_build_object('day', o.day, 'amountUsd', trim_scale(o.amount)::text) order by o.day), '[]')
        from (
          select p.day, coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) as amount
          from unnest(parts) p
          where p.workspace_id = s.workspace_id and p.invoiced is null
          group by p.day
          having count(p.imported) > 0 and abs(coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0)) >= 0.005
        ) o
      )) as details
    from (select * from spaces o where o.amount >= 0.005 order by o.amount desc limit 20) s
    union all
    select 2, 'account_not_metered', null, a.account_id, a.imported, '{}'
    from (select * from accounts o where o.runs = 0 and abs(o.imported) >= 0.005 order by abs(o.imported) desc limit 20) a
    union all
    select 3, 'days_not_metered', null, d.account_id, sum(d.imported), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.runs = 0 and abs(d.imported) >= 0.005 and a.runs > 0
    group by d.account_id
    union all
    select 4, 'days_not_imported', null, d.account_id, -sum(d.metered), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.records = 0 and d.metered >= 0.005 and a.records > 0
    group by d.account_id
    union all
    select 5, 'account_not_imported', null, a.account_id, -a.metered, '{}'
    from (select * from accounts o where o.records = 0 and o.metered >= 0.005 order by o.metered desc limit 20) a
    union all
    select 6, 'account_differs', null, a.account_id, a.imported - a.metered, '{}'
    from (
      select * from accounts o
      where o.records > 0 and o.runs > 0 and abs(o.imported - o.metered) >= 0.005
      order by abs(o.imported - o.metered) desc limit 20
    ) a
    union all
    select 7, 'workspace_runs_closed', s.workspace_id, null, null, jsonb_build_object('runs', s.closed_runs)
    from (select * from spaces o where o.closed_runs > 0 order by o.closed_runs desc limit 20) s
    union all
    select 8, 'workspace_runs_estimated', s.workspace_id, null, null, jsonb_build_object('runs', s.estimated_runs)
    from (select * from spaces o where o.estimated_runs > 0 order by o.estimated_runs desc limit 20) s
  ), rest as (
    select case
      when d.has_costs then d.invoiced - d.imported
      else d.amount - coalesce((select sum(c.amount) from causes c where c.kind = 'workspace_costs_above_metered'), 0)
    end as amount
    from differing d
    where d.has_invoices
  ), listed as (
    select c.*
    from causes c
    cross join differing d
    where abs(d.amount) >= 0.005 or exists (select from causes o where o.rank between 2 and 6)
    union all
    select 9, 'invoice_share', null, null, r.amount, '{}'
    from rest r
    where abs(r.amount) >= 0.005
  )
  select coalesce(jsonb_agg(
    jsonb_build_object('kind', l.kind, 'amountUsd', trim_scale(l.amount)::text)
      || case when l.workspace_id is not null then jsonb_build_object('workspaceId', l.workspace_id, 'name', w.name) else '{}' end
      || case when l.rank between 2 and 6 then jsonb_build_object('accountId', l.account_id) else '{}' end
      || case when l.rank in (5, 6) then jsonb_build_object('workspaces', ai.account_workspaces(parts, l.account_id)) else '{}' end
      || l.details
    -- What would explain the difference comes first.
    order by coalesce(sign(l.amount) = sign(d.amount) and l.rank < 9, false) desc, l.rank, abs(l.amount) desc nulls last,
      (l.details ->> 'runs')::numeric desc, l.workspace_id, l.account_id collate "C"
  ), '[]')
  from listed l
  cross join differing d
  left join public.workspaces w on w.id = l.workspace_id
$$;

create or replace function ai.platform_month_parts(first_day date, end_day date, of_provider text)
  returns setof ai.platform_part
  language sql
  stable
  security invoker
  set search_path = ''
  set timezone = 'UTC'
as $$
  with usage as materialized (
    select u.*, ai.billing_provider(u.billing_name, u.provider_id) as billed_by
    from ai.platform_usage(first_day, end_day - 1, of_provider) u
  )
  select 'metered', u.workspace_id, u.day, u.billing_account,
    coalesce(sum(u.cost_usd) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.requests) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.estimated_runs) filter (where u.billed_by = of_provider), 0),
    sum(u.closed_runs), null::numeric, null::numeric
  from usage u
  -- Runs that the sweep closed name no billing provider: they are of those whose id others name it for.
  where u.billed_by = of_provider
    or (u.billing_name is null and u.provider_id in (select b.provider_id from usage b where b.billed_by = of_provider))
  group by u.workspace_id, u.day, u.billing_account
  union all
  select 'booked', null, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.booked_costs(ai.platform_book(), first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
  union all
  select 'own', w.id, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.workspaces_with_books() as w (id)
  cross join lateral ai.booked_costs(w.id, first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
$$;

create or replace function ai.invoice_summary(invoice ai.invoice_book_entries) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'kind', (invoice).kind,
    'replaces', (invoice).replaces,
    'replacedBy', ai.invoice_replacement(invoice),
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;

-- Definer: as ai.list_provider_costs.
create or replace function ai.read_cost_import(member_id uuid, workspace uuid, import_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.cost_import_receipt(workspace, import_id)
    else '{"outcome": "not_allowed"}'
  end
$$;

-- Definer: functions of the books are not granted to the service role.
create or replace function private.read_platform_cost_import(import_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.cost_import_receipt(ai.platform_book(), import_id)
$$;

create or replace function ai.provider_invoices_page(
  book uuid, before jsonb, page_size integer, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum(ai.invoice_amount(i, m.days)) filter (where r.by_reference is null), 0))::text,
        'records', count(*),
        'replacedRecords', count(r.by_reference)
      )
      from ai.invoice_book_entries i
      cross join lateral (select ai.month_days(filter ->> 'month') as days) m
      cross join lateral (select ai.invoice_replacement(i) as by_reference) r
      where i.book_id = book and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p) || coalesce(ai.invoice_share(p, filter ->> 'month'), '{}')
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.invoice_book_entries i
        where i.book_id = book
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  )
$$;

-- Definer: as private.reconcile_platform.
create or replace function private.list_platform_invoices(
  before jsonb default null, page_size integer default 50, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.provider_invoices_page(ai.platform_book(), before, page_size, filter)
$$;

comment on function ai.detail_older_usage_days(integer) is
  'Sums sealed days again that have no details (members, labels, estimated and closed runs) yet, newest first, at most '
  'max_days. Returns their number.';

comment on function ai.provider_cost_records(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'Returns a page of imported costs of a half-open range, newest first, each with the account day that replaces it or the '
  'records that it replaces, its amounts before conversion, and its file. filter names any of provider and accountId, where a null names those without an account.';

comment on function ai.read_provider_invoice(uuid, uuid, uuid) is
  'ai.read_invoice for a member with use_ai_studio, else { outcome: not_allowed }.';

comment on function ai.review_provider_invoice(uuid, uuid, uuid, jsonb) is
  'ai.invoice_review for a member with use_ai_studio and an app linked to the workspace, else { outcome: not_allowed or '
  'app_not_linked }.';

comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Writes one reported cost, or says why not: { outcome: stored, corrected, unchanged or stale } or { refused }. A newer '
  'observation corrects; one of the same time with any other content is a conflict. A row of the same provider in another '
  'case is the same record. Workspace and app come from the caller''s credential; the record''s shape was checked before. '
  'Not granted to any role.';

comment on function private.record_security_event(jsonb) is
  'Adds to an account''s activity, or describes what a trigger added: { userId, kind, method, sessionId, ip, userAgent, '
  'device, place, details } → { id, createdAt }, or null without such an account. The mails about it become due.';

comment on function ai.account_day_run_id(text, text, date) is
  'Returns the external run id of an account''s daily total, as the commands that import from providers'' APIs write it. '
  'A long account is hashed: ids have at most 256 characters.';

comment on function ai.account_workspaces(ai.platform_part[], text) is
  'The workspaces whose runs name an account, or all for null, at most 100: [{ workspaceId, name, meteredUsd, '
  'daysWithoutRuns }], first those without runs on most of the days whose bill is above what was metered.';

comment on function ai.add_invoice(uuid, uuid, jsonb) is
  'Adds an invoice to a book unless its unique keys are taken. Returns its id or null.';

comment on function ai.billing_provider(text, text) is
  'The provider''s name in imported costs and invoices: the billing name of the runs, else the provider''s id, normalised.';

comment on function ai.book_clashes(uuid, timestamptz, timestamptz) is
  'Records of a window that were stored under several spellings of their provider, at most 100: [{ kind: cost or invoice, '
  'provider, spellings, accountId, externalRunId or reference }]. Of costs the last observed counts, of invoices the '
  'first recorded.';

comment on function ai.booked_costs(uuid, timestamptz, timestamptz) is
  'Imported and invoiced cost that counts in a book: a row for each cost with its UTC day, and for each invoice and month '
  'with the first day of the month. An invoice is spread over its days (ai.invoice_days), and a replaced one does not count.';

comment on function ai.compare_cost_file(uuid, uuid, jsonb) is
  'Returns the account days of a valid document, by account and day, with the records that they correct; and the days '
  'between its first and its last that other files stated and this one lacks: remaining, or cleared if the document says '
  'clear. Not granted to any role.';

comment on function ai.cost_clashes(uuid) is
  'Returns the costs of a book that are recorded under several spellings of one provider, of which the last observed '
  'counts. Not granted to any role.';

comment on function ai.cost_document_amounts(jsonb) is
  'Returns the amounts of a valid document with the USD for one unit of their currency. Not granted to any role.';

comment on function ai.cost_document_fault(jsonb) is
  'Returns what is wrong with a document, { outcome: invalid, param, message }, or null. Not granted to any role.';

comment on function ai.cost_fault(text, text) is 'Returns { outcome: invalid, param, message }. Not granted to any role.';

comment on function ai.cost_file_state(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns a hash of a comparison: it changes with the file, the records that it corrects and those that it replaces. '
  'Not granted to any role.';

comment on function ai.cost_import_details(uuid) is 'Returns an import as logs have it. Not granted to any role.';

comment on function ai.cost_import_receipt(uuid, uuid) is
  'Returns an import of a book, and the account days that it wrote and that nothing has corrected since: { outcome: read, '
  'provider, sha256, appName, import, current } or { outcome: not_found }. Not granted to any role.';

comment on function ai.cost_import_refusal(uuid, uuid, uuid) is
  'Returns why a member may not import costs for an app of a workspace; null if they may. Not granted to any role.';

comment on function ai.cost_import_summary(uuid) is
  'Returns the file of a record, its rates and who entered them: by is person or operator, and name is null for the '
  'operator and for deleted accounts. Not granted to any role.';

comment on function ai.costs_replaced_by_file(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns the records that count now and that the totals of a file replace: { records, amountUsd }. Not granted to any role.';

comment on function ai.describe_cost_file(uuid, uuid, jsonb) is
  'Returns what an import of a cost file would do: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay, days, '
  'accounts, added, unchanged, corrected, replaced, remaining, cleared, state } or { outcome: invalid, param, message }. '
  'days counts the file''s account days, and corrected.list has the first 100. remaining and cleared are the imported days '
  'that the file lacks. Not granted to any role.';

comment on function ai.find_cost(uuid, uuid, text, text, text) is
  'Returns the record of a provider''s normalised name, account and run: of older rows whose providers differ only in '
  'case, the last observed. No search path is set, so that Postgres can inline it.';

comment on function ai.find_invoice(uuid, uuid, jsonb, text) is
  'Returns the invoice with a reference from a record''s provider and account, the first recorded of several, or nulls.';

comment on function ai.find_replacement(uuid, uuid, jsonb) is
  'Returns the invoice that replaces what a record would replace, or nulls.';

comment on function ai.import_cost_file(uuid, uuid, uuid, jsonb, text) is
  'ai.store_cost_file for a member with use_ai_studio, { outcome: not_allowed } or { outcome: app_not_linked }.';

comment on function ai.invoice_amount(ai.invoice_book_entries, daterange) is
  'Returns what an invoice adds to totals in USD, in whole or for some of its days; negative for a credit note.';

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'What was metered of an invoice''s provider, without other accounts'' runs, and imported of its account in its days '
  '(ai.invoice_days), the other invoices of its account that count in these days, and the difference between all of '
  'them and the import; a replaced invoice does not count. Null for more than 366 days. Not granted to any role.';

comment on function ai.invoice_differences(ai.invoice_book_entries, jsonb) is
  'By which fields a record of the same key is another state of an invoice; none for an identical retry.';

comment on function ai.invoice_matches(ai.invoice_book_entries, jsonb) is
  'Whether an invoice is of what a filter names: any of provider, accountId, where a null names those without an account, '
  'and month, YYYY-MM, that has days of it.';

comment on function ai.invoice_of(jsonb) is 'Returns a record as it is stored: defaults filled in, the provider''s name normalised.';

comment on function ai.invoice_recorder(ai.invoice_book_entries) is
  'Who recorded an invoice, as the workspace''s or the console''s log has it: { by: person | app, name }. A key says which '
  'app sent it, and no person; an admin is named by email address. The name is null once person or app are gone.';

comment on function ai.invoice_replacement(ai.invoice_book_entries) is
  'Returns the reference that counts in place of an invoice: the one that replaces it, or its own if it was recorded '
  'before under another spelling of the provider. Null if the invoice counts.';

comment on function ai.invoice_review(uuid, uuid, jsonb) is
  'What a person sees of an invoice before it is kept for good: the moment of the review, an invoice of the same key that '
  'is kept already and by what else than its review it differs, and ai.invoice_comparison. { outcome: reviewed, … }, '
  'not_issued_yet or { outcome: cannot_replace, param, message }. Writes nothing. Not granted to any role.';

comment on function ai.invoice_share(ai.invoice_book_entries, text) is
  'Returns the amount and the days of an invoice within a month, YYYY-MM, that it has days of: { inMonth: { amountUsd, '
  'firstDay, lastDay } }; the amount of a credit note is negative. Null without a month. Not granted to any role.';

comment on function ai.invoice_summary(ai.invoice_book_entries) is
  'An invoice for those who may read its book. In the platform''s, appId is ai.platform_book() and appName null.';

comment on function ai.is_estimated(ai.usage_source, boolean) is
  'Whether a run''s usage was estimated in part or in whole, other than by the sweep.';

comment on function ai.is_external_id(text) is
  'Whether a text may be an account, service, run or reference as a provider writes it: 1 to 256 characters, no control '
  'characters, no white space at either end.';

comment on function ai.is_superseded_cost(ai.cost_book_entries) is
  'Whether the same record was observed later under another spelling of its provider.';

comment on function ai.metered_costs(uuid, timestamptz, timestamptz) is
  'What the runs of a book cost, in parts that callers sum: a workspace''s own, or all workspaces'' for the platform''s, '
  'whose window is of whole days and counts for its first month. Runs count for ai.billing_provider and the account that '
  'they name, if any.';

comment on function ai.operator_import_refusal(uuid, uuid) is
  'Returns { outcome: app_not_linked } unless an app may act in a workspace or neither is named. Not granted to any role.';

comment on function ai.platform_book() is
  'Returns the book_id and app_id of the platform''s records. No search path is set, so that Postgres can inline it.';

comment on function ai.platform_causes(ai.platform_part[]) is
  'Why a provider''s bill differs from what was metered, the likeliest first: [{ kind, amountUsd, … }], the 20 largest of '
  'each kind. amountUsd is billed less metered, null where it is unknown. Kinds: workspace_costs_above_metered { workspaceId, name, days: [{ day, '
  'amountUsd }] }, account_not_metered { accountId }, days_not_metered and days_not_imported { accountId, days }, '
  'account_not_imported and account_differs { accountId, workspaces (ai.account_workspaces) }, workspace_runs_closed and '
  'workspace_runs_estimated { workspaceId, name, runs }, invoice_share (what the invoice has beyond that). accountId is null '
  'where accounts are compared together, because runs or records name none.';

comment on function ai.platform_month_parts(date, date, text) is
  'What a provider''s figures of a month are made of, in all workspaces and the platform''s book. Not granted to any role.';

comment on function ai.platform_usage(date, date, text) is
  'Returns the usage of all workspaces between two UTC days, both included, by provider and billing account. Of one provider '
  '(ai.billing_provider), also by workspace and day, with all runs that the sweep closed, which name no billing provider. '
  'workspace_id and day are null otherwise. Not granted to any role.';

comment on function ai.platform_workspaces(ai.platform_part[]) is
  'The workspaces behind a provider''s month, by account of their runs, the largest difference first: [{ workspaceId, name '
  '(null once it is gone), accountId (null: the runs name none), meteredUsd, runs, estimatedRuns, closedRuns, importedUsd, '
  'invoicedUsd, differenceUsd }]. Imported and invoiced are the workspace''s own records; differenceUsd is imported less '
  'metered, null without own imports.';

comment on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) is
  'ai.describe_cost_file for a member with use_ai_studio, { outcome: not_allowed } or { outcome: app_not_linked }.';

comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Returns a book''s imported costs of a half-open range, and whether each counts in totals. A run does not when its '
  'account''s day is known, within the range or not, so that adjacent ranges add up. A service''s day does not when the '
  'account''s day has a total. Of older rows that differ only in the case of the provider, the last observed counts.';

comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'Returns a page of a book''s invoices, latest issued first, and the total of those that count. With a month in the '
  'filter, the total has the shares of its days, and each invoice its own (ai.invoice_share). Not granted to any role.';

comment on function ai.provider_name(text) is
  'Returns the name under which a provider is stored and compared. Older rows keep the case that they were sent in. No '
  'search path is set, so that Postgres can inline it and use the indexes on lower(provider).';

comment on function ai.read_cost_import(uuid, uuid, uuid) is
  'ai.cost_import_receipt for a member with use_ai_studio, else { outcome: not_allowed }.';

comment on function ai.read_invoice(uuid, uuid) is
  'One invoice of a book, ai.invoice_recorder and ai.invoice_comparison: { outcome: read, invoice, recorded, comparison } '
  'or not_found. Not granted to any role.';

comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Metered, imported and invoiced cost of a book by month, provider and account: ai.metered_costs and ai.booked_costs.';

comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'A page of months and providers, the latest month first, each with its accounts and differences: imported less metered, '
  'and invoiced less imported. The window as of ai.reconciled_window. meteredUsd is null where the workspace hides it, and '
  'of accounts unless all runs of the month and provider that cost something name theirs. Where it is hidden, only providers with imports or '
  'invoices are listed. clashes as of ai.book_clashes.';

comment on function ai.refused_replacement(uuid, uuid, jsonb) is
  'Returns why a record cannot replace what it names: { param, message }, or null if it can. Granted to nobody.';

comment on function ai.reject_cost_import_change() is 'Keeps ai.cost_imports append-only.';

comment on function ai.replaced_already(jsonb, ai.invoice_book_entries) is
  'Returns why a record cannot replace an invoice that has a replacement: { param, message }. Granted to nobody.';

comment on function ai.store_cost_file(uuid, uuid, jsonb, text, uuid) is
  'Stores the days of a cost file, all or none: { outcome: imported, importId, added, corrected, cleared, unchanged }, importId '
  'null if all days are unchanged; { outcome: changed } if a state is given and no longer holds, or a concurrent import '
  'wrote one of the days; or { outcome: invalid, param, message }. Not granted to any role.';

comment on function ai.store_provider_invoice(uuid, uuid, jsonb) is
  'Keeps one reviewed invoice in a book, or says why not: { outcome: stored or unchanged, id } or { refused }. Another '
  'state of one that is kept is a conflict, which names the kept one and what differs: { refused: invoice_conflict, id, '
  'differs }. Book and app were derived and the record''s shape checked before. Granted to nobody.';

comment on function ai.workspaces_with_books() is 'Returns the workspaces that have imported costs or invoices of their own.';

comment on function ai.write_cost_file_day(uuid, uuid, uuid, ai.cost_file_day) is
  'Writes one day of an import. Raises serialization_failure if its record is no longer the one that it was compared '
  'with. Not granted to any role.';

comment on function private.account_sessions(uuid, uuid, jsonb, integer) is
  'A page of the sessions of an account that are not over: the given one first, then the one refreshed last. before: '
  '{ createdAt, id }, refreshed_at and id of the last one of the page before; all of them without page_size.';

comment on function private.explain_platform_month(date, text) is
  'Explains a provider''s month in the platform''s book: { outcome: explained, month, provider, workspaces '
  '(ai.platform_workspaces), days: [{ day, accountId, meteredUsd, importedUsd }], causes (ai.platform_causes) }.';

comment on function private.import_costs_as_operator(uuid, uuid, jsonb, text) is
  'ai.store_cost_file for the operator''s command, or { outcome: app_not_linked }. Without workspace and app: the '
  'platform''s book, with a line in the audit log that has no actor.';

comment on function private.import_platform_costs(jsonb) is
  'ai.store_cost_file of the platform''s book for an infrastructure admin, with a line in the audit log. change: { actor, '
  'reason, requestId, ip, document, state }. A refusal also has refused: forbidden, conflict or invalid.';

comment on function private.list_passkeys(uuid) is
  'An account''s passkeys, oldest first, each with its credential id in hexadecimal, the AAGUID of its provider, and the '
  'browser and system that it was added from, where known. For our server, which knows the account from its session.';

comment on function private.list_platform_costs(date, jsonb, jsonb, integer) is
  'ai.provider_costs_page of the platform''s book for the month of a day.';

comment on function private.list_platform_invoices(jsonb, integer, jsonb) is
  'ai.provider_invoices_page of the platform''s book.';

comment on function private.preview_costs_as_operator(uuid, uuid, jsonb) is
  'ai.describe_cost_file for the operator''s command, or { outcome: app_not_linked }. Without workspace and app: the '
  'platform''s book.';

comment on function private.preview_platform_costs(jsonb) is 'ai.describe_cost_file of the platform''s book, for the console.';

comment on function private.read_platform_cost_import(uuid) is
  'ai.cost_import_receipt of the platform''s book, for the console.';

comment on function private.read_platform_invoice(uuid) is 'ai.read_invoice of the platform''s book.';

comment on function private.reconcile_platform(date) is
  'ai.reconciliation_page of the platform''s book for the month of a day: { outcome: listed, month, totals, clashes, records }.';

comment on function private.record_platform_invoice(jsonb) is
  'Keeps an invoice to the platform: { actor, record, reason, requestId, ip } → as ai.store_provider_invoice answers, or '
  '{ refused: forbidden }.';

comment on function private.review_platform_invoice(jsonb) is 'ai.invoice_review of the platform''s book.';

comment on function public.list_member_emails(uuid) is
  'Emails of a workspace''s members that the caller may see: their own, and all where they manage members.';

comment on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) is
  'A page of a workspace''s members, owners first, then by name: those whose name or visible email contains the search, '
  'with a role or an id where one is given. after: is_owner, sorts_as and user_id of the last one of the page before.';

comment on view ai.cost_book_entries is
  'Imported costs of all books. provider is normalised; spelling is what was stored.';

comment on view ai.invoice_book_entries is
  'Reviewed invoices of all books. provider is normalised; spelling is what was stored.';

comment on trigger reject_cost_import_change on ai.cost_imports is 'For every role, including the table''s owner.';

comment on trigger reject_cost_import_truncate on ai.cost_imports is 'As reject_cost_import_change.';

comment on trigger reject_invoice_change on ai.platform_provider_invoices is 'For everyone, the table''s owner too.';

comment on trigger reject_invoice_truncate on ai.platform_provider_invoices is 'As reject_invoice_change.';

revoke delete, insert, update on table ai.cost_book_entries from service_role;

revoke delete, insert, update on table ai.invoice_book_entries from service_role;

grant execute on function ai.import_cost_file(uuid, uuid, uuid, jsonb, text) to service_role;

grant execute on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function ai.read_cost_import(uuid, uuid, uuid) to service_role;

grant execute on function private.account_sessions(uuid, uuid, jsonb, integer) to service_role;

grant execute on function private.explain_platform_month(date, text) to service_role;

grant execute on function private.import_costs_as_operator(uuid, uuid, jsonb, text) to service_role;

grant execute on function private.import_platform_costs(jsonb) to service_role;

grant execute on function private.list_passkeys(uuid) to service_role;

grant execute on function private.list_platform_costs(date, jsonb, jsonb, integer) to service_role;

grant execute on function private.list_platform_invoices(jsonb, integer, jsonb) to service_role;

grant execute on function private.preview_costs_as_operator(uuid, uuid, jsonb) to service_role;

grant execute on function private.preview_platform_costs(jsonb) to service_role;

grant execute on function private.read_platform_cost_import(uuid) to service_role;

grant execute on function private.read_platform_invoice(uuid) to service_role;

grant execute on function private.reconcile_platform(date) to service_role;

grant execute on function private.record_platform_invoice(jsonb) to service_role;

grant execute on function private.review_platform_invoice(jsonb) to service_role;

grant execute on function public.list_member_emails(uuid) to authenticated;

grant execute on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) to authenticated;
