-- Reading invoices, for members and for satellites. Amounts are exact text.

-- Definer: as ai.list_provider_costs.
create or replace function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.provider_invoices_page(workspace, before, page_size, filter)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb) is
  'ai.provider_invoices_page for a member with use_ai_studio, else { outcome: not_allowed }. filter as of '
  'ai.invoice_matches.';

-- Definer: as private.list_provider_costs_by_app_session.
create or replace function private.list_provider_invoices_by_app_session(
  token_hash bytea, workspace_id uuid, before jsonb default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  refused text := private.studio_refusal(token_hash, workspace_id);
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  return ai.provider_invoices_page(workspace_id, before, page_size);
end
$$;
comment on function private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer) is
  'ai.provider_invoices_page for the session''s user, or {refused}.';

create or replace function ai.provider_invoices_page(
  workspace uuid, before jsonb, page_size integer, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object('amountUsd', trim_scale(coalesce(sum(i.amount_usd), 0))::text, 'records', count(*))
      from ai.external_provider_invoices i
      where i.workspace_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p)
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.external_provider_invoices i
        where i.workspace_id = workspace
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
comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'A page of a workspace''s invoices, the latest issued first, and the total of all of them. Granted to nobody.';

create or replace function ai.invoice_summary(invoice ai.external_provider_invoices) returns jsonb
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
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;
comment on function ai.invoice_summary(ai.external_provider_invoices) is 'An invoice for its workspace''s members.';

create or replace function ai.invoice_days(period_start date, period_end date, issued_on date) returns daterange
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select daterange(
    coalesce(period_start, month.first_day),
    coalesce(period_end, (month.first_day::timestamp + interval '1 month - 1 day')::date),
    '[]'
  )
  from (
    select date_trunc('month', coalesce(period_start, period_end, issued_on)::timestamp)::date as first_day
  ) as month
$$;
comment on function ai.invoice_days(date, date, date) is
  'The days that an invoice is of: its period; where an edge is missing, to the edge of the other''s month; without any, '
  'the month that it was issued in.';

create or replace function ai.invoice_counts_on(invoice ai.external_provider_invoices) returns date
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select coalesce((invoice).period_start, (invoice).period_end, (invoice).issued_on)
$$;
comment on function ai.invoice_counts_on(ai.external_provider_invoices) is
  'The day in whose month an invoice counts, the month that ai.invoice_days begins in: its period''s first, else its last, '
  'else that it was issued on.';

create or replace function ai.invoice_matches(invoice ai.external_provider_invoices, filter jsonb) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select (filter ->> 'provider' is null or filter ->> 'provider' = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (filter ->> 'month' is null or filter ->> 'month' = to_char(ai.invoice_counts_on(invoice), 'YYYY-MM'))
$$;
comment on function ai.invoice_matches(ai.external_provider_invoices, jsonb) is
  'Whether an invoice is of what a filter names: any of provider, accountId, where a null names those without an account, '
  'and month, YYYY-MM, in which it counts.';
