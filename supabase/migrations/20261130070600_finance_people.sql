-- Who may use the platform's books in the console without being an infrastructure admin.
set lock_timeout = '500ms';

create table private.finance_people (
  user_id uuid primary key references auth.users (id) on delete cascade,
  reason text not null check (char_length(reason) between 1 and 500),
  created_at timestamptz not null default now()
);
comment on table private.finance_people is
  'Who may use the platform''s books, and nothing else of the console. A row, not a claim, so withdrawing it takes effect at once.';
alter table private.finance_people enable row level security;
select private.protect_table('private.finance_people');
