-- A book holds imported costs and invoices. Each workspace has a book. The platform also has one, with the nil UUID as
-- its book_id and app_id. All functions that choose the records to count use these views, so they treat all books
-- alike. The functions of our web server take a book in the argument workspace: the workspace's id, or
-- ai.platform_book(). member_id is then a member of the workspace or a person with a role in the console.

-- Returns a provider's name in lower case, as names are stored and compared. Older rows still contain the name exactly
-- as it was sent. Sets no search_path, so Postgres can inline the function and use the indexes on lower(provider).
create or replace function ai.provider_name(name text) returns text
  language sql immutable security invoker
as $$
  select lower(name)
$$;

create or replace view ai.cost_book_entries with (security_invoker = true) as
  select
    c.workspace_id as book_id, c.app_id, c.id, ai.provider_name(c.provider) as provider, c.provider as spelling,
    c.account_id, c.external_run_id, c.granularity, c.service, c.amount_usd, c.occurred_at, c.observed_at, c.recorded_at,
    c.revision, c.import_id, c.original
  from ai.external_provider_costs c;
comment on view ai.cost_book_entries is
  'Imported costs of all books. provider is the normalized name, and spelling is the stored name.';

create or replace view ai.invoice_book_entries with (security_invoker = true) as
  select
    i.workspace_id as book_id, i.app_id, i.id, ai.provider_name(i.provider) as provider, i.provider as spelling,
    i.account_id, i.reference, i.kind, i.replaces, i.amount_usd, i.issued_on, i.period_start, i.period_end,
    i.reviewed_at, i.recorded_at, i.currency, i.exchange_rate, i.net_amount, i.tax_amount, i.total_amount
  from ai.external_provider_invoices i;
comment on view ai.invoice_book_entries is
  'Reviewed invoices of all books. provider is the normalized name, and spelling is the stored name.';

-- Returns the nil UUID, which is the book_id and app_id of the platform's records. Sets no search_path, so Postgres can
-- inline the function.
create or replace function ai.platform_book() returns uuid
  language sql immutable security invoker
as $$
  select '00000000-0000-0000-0000-000000000000'::uuid
$$;

-- Returns the cost with the given normalized provider name, account and external run id. If several rows differ only in
-- the case of the provider's name, returns the last observed. Sets no search_path, so Postgres can inline the function.
create or replace function ai.find_cost(book uuid, app uuid, name text, account text, run_id text)
  returns setof ai.cost_book_entries
  language sql stable security invoker
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

-- Returns a book's costs that are stored more than once, under different spellings of the provider's name. Only the
-- most recently observed row of each cost counts. Not granted to any role.
create or replace function ai.cost_clashes(book uuid) returns table (
  provider text, spellings text[], account_id text, external_run_id text, from_day date, to_day date
)
  language sql stable security invoker set search_path = ''
as $$
  select c.provider, array_agg(c.spelling order by c.spelling collate "C"), c.account_id, c.external_run_id,
    (min(c.occurred_at) at time zone 'UTC')::date, (max(c.occurred_at) at time zone 'UTC')::date
  from ai.cost_book_entries c
  where c.book_id = book and exists (
    -- The comparison with lower(o.provider) matches a partial index.
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

-- Returns whether a text is a valid external id of an account, service, run or reference: 1 to 256 characters, without
-- control characters and without white space at either end.
create or replace function ai.is_external_id(id text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select char_length(id) between 1 and 256 and id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
$$;

-- Returns why a person, a service account or a satellite's session may not use a book, or null if they may. A
-- workspace's book is for members with the permission use_ai_studio. The platform's is for the console's roles admin and
-- finance, and for service accounts of the platform with the scope admin:books: { outcome: not_allowed }. A session opens
-- only workspaces' books: { refused } (private.studio_refusal). Not granted to any role.
create or replace function ai.book_refusal(member_id uuid, book uuid, token_hash bytea default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when token_hash is not null then (
      select jsonb_build_object('refused', s.reason)
      from private.studio_refusal(token_hash, book) as s (reason)
      where s.reason is not null
    )
    when book = ai.platform_book() and (
      private.console_role(member_id) in ('admin', 'finance') or private.service_account_may(member_id, 'admin:books')
    ) then null
    when private.user_has_workspace_permission(member_id, book, 'use_ai_studio') then null
    else '{"outcome": "not_allowed"}'::jsonb
  end
$$;

-- Returns why a satellite's session may not read a workspace's AI Studio. Returns null if it may. Called only by
-- definer functions; not granted to any role.
create or replace function private.studio_refusal(token_hash bytea, workspace_id uuid) returns text
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'studio:read');
begin
  return case
    when caller.refused is not null then caller.refused
    when not private.is_workspace_member(caller.user_id, studio_refusal.workspace_id) then 'not_found'
    when not private.user_has_workspace_permission(caller.user_id, studio_refusal.workspace_id, 'use_ai_studio') then 'forbidden'
  end;
end
$$;

-- Returns { outcome: app_not_linked } if a book can't have records of an app, otherwise null. A workspace's book has
-- records of its linked apps. The platform's records belong to no app, so their app is the nil UUID. Not granted to any
-- role.
create or replace function ai.app_refusal(book uuid, app uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select '{"outcome": "app_not_linked"}'::jsonb
  where not coalesce(
    case book when ai.platform_book() then app = ai.platform_book() else ai.app_can_act_in_workspace(app, book) end,
    false
  )
$$;
