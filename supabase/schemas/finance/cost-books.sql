-- The books of imported costs and invoices: one of each workspace, and one of the platform, whose book_id and app_id are
-- the nil UUID. Rules of what counts read these views, so that they hold for every book.

create or replace function ai.provider_name(name text) returns text
  language sql
  immutable
  security invoker
as $$
  select lower(name)
$$;
comment on function ai.provider_name(text) is
  'Returns the name under which a provider is stored and compared. Older rows keep the case that they were sent in. No '
  'search path is set, so that Postgres can inline it and use the indexes on lower(provider).';

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
comment on view ai.cost_book_entries is
  'Imported costs of all books. provider is normalised; spelling is what was stored.';

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
comment on view ai.invoice_book_entries is
  'Reviewed invoices of all books. provider is normalised; spelling is what was stored.';
