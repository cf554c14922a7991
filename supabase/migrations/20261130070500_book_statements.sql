-- Statements of the platform's closed months.
set lock_timeout = '500ms';

create table ai.book_statements (
  id uuid primary key default gen_random_uuid(),
  book_id uuid not null,
  month date not null check (extract(day from month) = 1),
  version integer not null check (version > 0),
  closed_by uuid not null,
  closed_at timestamptz not null default now(),
  figures jsonb not null,
  exceptions jsonb not null,
  records text not null,
  sha256 bytea not null check (octet_length(sha256) = 32),
  reopened_by uuid,
  reopened_at timestamptz,
  reopen_reason text check (char_length(reopen_reason) between 1 and 500),
  check (num_nonnulls(reopened_by, reopened_at, reopen_reason) in (0, 3)),
  unique (book_id, month, version)
);
comment on table ai.book_statements is
  'Statements of closed months, append-only: only a reopening is added, once. Kept for good, so nothing refers to a book '
  'or a person by a foreign key.';
comment on column ai.book_statements.figures is
  'Metered, imported and invoiced amounts by provider and account, as exact decimals in text.';
comment on column ai.book_statements.exceptions is 'What was open when the month was closed, each with its reason.';
comment on column ai.book_statements.records is 'The lines of the records that counted (ai.month_records), sorted by byte.';
comment on column ai.book_statements.sha256 is 'The SHA-256 of records in UTF-8.';
create unique index book_statements_closed_idx on ai.book_statements (book_id, month) where reopened_at is null;
alter table ai.book_statements enable row level security;
select private.protect_table('ai.book_statements');
revoke insert, update, delete on ai.book_statements from service_role;
