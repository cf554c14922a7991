-- Closes months of the platform's book, reopens them, and reads their statements.

-- Returns why a person may not close or read the months of a book, or null if they may. Only the platform's book has
-- statements. Not granted to any role.
create or replace function ai.statement_refusal(member_id uuid, book uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    case when book <> ai.platform_book() then '{"outcome": "not_allowed"}'::jsonb end, ai.book_refusal(member_id, book)
  )
$$;

-- Returns what closing a month (YYYY-MM) needs: { outcome: listed, state, figures, earlier }, { outcome: not_ended },
-- { outcome: already_closed, id } or ai.book_refusal. state identifies the records. earlier has the exceptions of the
-- month's last statement, which was reopened.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_close_checklist(member_id uuid, workspace uuid, of_month text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  days daterange := ai.month_days(of_month);
  closed uuid := (
    select s.id
    from ai.book_statements s
    where s.book_id = workspace and s.month = lower(days) and s.reopened_at is null
  );
  summary record;
begin
  if refusal is not null then
    return refusal;
  elsif closed is not null then
    return jsonb_build_object('outcome', 'already_closed', 'id', closed);
  elsif upper(days) > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_ended"}';
  end if;
  summary := ai.summarize_month(lower(days));
  return jsonb_build_object(
    'outcome', 'listed',
    'state', encode(summary.sha256, 'hex'),
    'figures', summary.figures,
    'earlier', coalesce((
      select s.exceptions
      from ai.book_statements s
      where s.book_id = workspace and s.month = lower(days)
      order by s.version desc
      limit 1
    ), '[]')
  );
end
$$;

-- Closes a month (YYYY-MM). exceptions has what is open in the figures of state, each with a reason: [{ provider, kind,
-- meteredUsd, importedUsd, invoicedUsd, amountUsd, reason }]. The server decides what is open, as its pages do
-- (remix-app/studio/costs/reconciliation.ts). Returns { outcome: closed, id }, { outcome: changed } if the records are
-- not those of state, { outcome: reasons_missing }, { outcome: not_ended }, { outcome: already_closed, id } or
-- ai.book_refusal. The change is { reason, requestId, ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.close_month(
  member_id uuid, workspace uuid, of_month text, state text, exceptions jsonb, change jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  days daterange := ai.month_days(of_month);
  closed uuid;
  summary record;
begin
  if refusal is not null then
    return refusal;
  elsif upper(days) > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_ended"}';
  end if;
  perform ai.lock_months(workspace);
  select s.id into closed
  from ai.book_statements s
  where s.book_id = workspace and s.month = lower(days) and s.reopened_at is null;
  if closed is not null then
    return jsonb_build_object('outcome', 'already_closed', 'id', closed);
  end if;
  summary := ai.summarize_month(lower(days));
  if encode(summary.sha256, 'hex') is distinct from state then
    return '{"outcome": "changed"}';
  end if;
  if exists (
    select from jsonb_array_elements(exceptions) e
    where char_length(coalesce(e ->> 'reason', '')) not between 1 and 500
  ) then
    return '{"outcome": "reasons_missing"}';
  end if;
  insert into ai.book_statements (book_id, month, version, closed_by, figures, exceptions, records, sha256)
  select workspace, lower(days), coalesce(max(s.version), 0) + 1, member_id, summary.figures, close_month.exceptions,
    summary.records, summary.sha256
  from ai.book_statements s
  where s.book_id = workspace and s.month = lower(days)
  returning id into closed;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'books.close_month',
      'target', 'platform month ' || of_month,
      'targetName', to_char(lower(days), 'FMMonth YYYY'),
      'after', jsonb_build_object('statement', closed, 'sha256', state, 'exceptions', exceptions)
    )
  );
  return jsonb_build_object('outcome', 'closed', 'id', closed);
end
$$;

-- Reopens the month of a statement. Returns { outcome: reopened, month }, { outcome: not_closed } if it was reopened
-- before, { outcome: not_found } or ai.book_refusal. The change is { reason, requestId, ip }.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.reopen_month(member_id uuid, workspace uuid, statement_id uuid, change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  reopened ai.book_statements;
begin
  if refusal is not null then
    return refusal;
  end if;
  update ai.book_statements s
  set reopened_by = member_id, reopened_at = now(), reopen_reason = change ->> 'reason'
  where s.id = statement_id and s.book_id = workspace and s.reopened_at is null
  returning * into reopened;
  if reopened.id is null then
    return jsonb_build_object('outcome', case
      when exists (select from ai.book_statements s where s.id = statement_id and s.book_id = workspace) then 'not_closed'
      else 'not_found'
    end);
  end if;
  perform private.record_admin_action(
    change || jsonb_build_object('actor', member_id),
    jsonb_build_object(
      'action', 'books.reopen_month',
      'target', 'platform month ' || to_char(reopened.month, 'YYYY-MM'),
      'targetName', to_char(reopened.month, 'FMMonth YYYY'),
      'before', jsonb_build_object('statement', reopened.id, 'sha256', encode(reopened.sha256, 'hex'))
    )
  );
  return jsonb_build_object('outcome', 'reopened', 'month', to_char(reopened.month, 'YYYY-MM'));
end
$$;

-- Returns a page of a book's statements, the latest month first, and whether a month is closed: { outcome: listed,
-- isClosed, records } or ai.book_refusal. after is the month and the version of the last statement of the page before.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_statements(
  member_id uuid, workspace uuid, of_month text, after text[] default null, page_size integer default 13
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.statement_refusal(member_id, workspace), jsonb_build_object(
    'outcome', 'listed',
    'isClosed', ai.closed_months(workspace, lower(ai.month_days(of_month)), lower(ai.month_days(of_month))) <> '{}',
    'records', (
      select coalesce(jsonb_agg(ai.statement_summary(s) order by s.month desc, s.version desc), '[]')
      from (
        select *
        from ai.book_statements t
        where t.book_id = workspace
          and (after is null or (t.month, t.version) < ((after[1] || '-01')::date, after[2]::integer))
        order by t.month desc, t.version desc
        limit page_size
      ) s
    )
  ))
$$;

-- Returns a statement: { outcome: read, statement, figures, exceptions, records, after }, { outcome: not_found } or
-- ai.book_refusal. records are the lines of ai.summarize_month. after says what the records of a closed month are now:
-- { sha256, differences }, with ai.figures_difference. It is null once the month was reopened, and with with_records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_statement(
  member_id uuid, workspace uuid, statement_id uuid, with_records boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.statement_refusal(member_id, workspace);
  stored ai.book_statements;
  summary record;
  after jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  select * into stored from ai.book_statements s where s.id = statement_id and s.book_id = workspace;
  if stored.id is null then
    return '{"outcome": "not_found"}';
  end if;
  if not with_records and stored.reopened_at is null then
    summary := ai.summarize_month(stored.month);
    after := jsonb_build_object(
      'sha256', encode(summary.sha256, 'hex'),
      'differences', ai.figures_difference(summary.figures, stored.figures)
    );
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'statement', ai.statement_summary(stored),
    'figures', stored.figures,
    'exceptions', stored.exceptions,
    'records', case when with_records then stored.records end,
    'after', after
  );
end
$$;

-- Returns the email address of the person, or the label of the service account, that closed or reopened a month. Null
-- once it is deleted. Not granted to any role.
create or replace function ai.closer_name(caller_id uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (select u.email from auth.users u where u.id = caller_id),
    (select private.service_account_label(s.name) from private.service_accounts s where s.id = caller_id)
  )
$$;

-- Returns what lists show of a statement. Names are email addresses or those of service accounts, and null once these
-- are deleted. Not granted to any role.
create or replace function ai.statement_summary(stored ai.book_statements) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (stored).id,
    'month', to_char((stored).month, 'YYYY-MM'),
    'version', (stored).version,
    'closedBy', ai.closer_name((stored).closed_by),
    'closedAt', ai.utc_text_microseconds((stored).closed_at),
    'sha256', encode((stored).sha256, 'hex'),
    'exceptions', jsonb_array_length((stored).exceptions),
    'reopened', case when (stored).reopened_at is not null then jsonb_build_object(
      'by', ai.closer_name((stored).reopened_by),
      'at', ai.utc_text_microseconds((stored).reopened_at),
      'reason', (stored).reopen_reason
    ) end
  )
$$;
