set lock_timeout = '500ms';
set search_path = extensions, public;

create table private.account_search (
  user_id uuid primary key references auth.users (id) on delete cascade,
  email text,
  terms text not null
);
comment on table private.account_search is
  'What the console searches accounts by. Hosted Supabase allows no index of ours on auth.users, so triggers keep a copy.';
comment on column private.account_search.terms is 'Email and name, in lower case, a line each.';
create index account_search_email_user_id_idx on private.account_search (email, user_id);
create index account_search_terms_trgm_idx on private.account_search using gin (terms gin_trgm_ops) with (fastupdate = off);
alter table private.account_search enable row level security;
select private.protect_table('private.account_search');

-- schemas/accounts/account-search.sql. The triggers are there before the next file copies what exists.

create or replace function private.index_account() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  insert into private.account_search (user_id, email, terms)
  select u.id, u.email, lower(concat_ws(e'\n', u.email, p.display_name))
  from auth.users u
  left join public.profiles p on p.id = u.id
  where u.id = new.id
  on conflict (user_id) do update set email = excluded.email, terms = excluded.terms;
  return null;
end
$$;
comment on function private.index_account() is 'Keeps an account''s row of private.account_search.';

create or replace trigger index_account after insert or update of display_name on public.profiles
  for each row execute function private.index_account();
comment on trigger index_account on public.profiles is 'The console finds accounts by a part of the name.';

create or replace trigger index_account after update of email on auth.users
  for each row when (old.email is distinct from new.email) execute function private.index_account();
