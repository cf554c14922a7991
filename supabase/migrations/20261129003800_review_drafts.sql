-- The foreign key locks auth.users for a moment.
set lock_timeout = '500ms';

create table private.review_drafts (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null check (kind in ('cost_file', 'prices')),
  contents text not null check (octet_length(contents) <= 4 * 1024 * 1024),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null default now() + interval '15 minutes'
);
comment on table private.review_drafts is
  'What a review page shows before a change is confirmed, such as a parsed cost file. An account has at most five, for '
  '15 minutes each.';
create index review_drafts_user_id_created_at_idx on private.review_drafts (user_id, created_at);
create index review_drafts_expires_at_idx on private.review_drafts (expires_at);
alter table private.review_drafts enable row level security;
select private.protect_table('private.review_drafts');
