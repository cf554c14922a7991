create table private.password_replacements (
  session_id uuid primary key,
  user_id uuid not null references auth.users (id) on delete cascade,
  created_at timestamptz not null default now()
);
comment on table private.password_replacements is
  'Sessions that began with a password that is easy to guess: they may replace it or sign out, and nothing else. No foreign '
  'key to the session: it is the identity backend''s.';
create index password_replacements_user_id_idx on private.password_replacements (user_id);
select private.protect_table('private.password_replacements');
