-- Maintains the console's searchable copy of emails and names. auth.users can't have the necessary indexes.

-- Maintains an account's row in private.account_search.
-- Definer: the identity backend's role and signed-in users have no grant on private.account_search.
create or replace function private.index_account() returns trigger
  language plpgsql volatile security definer set search_path = ''
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

-- Lets the console find accounts by part of the name.
create or replace trigger index_account after insert or update of display_name on public.profiles
  for each row execute function private.index_account();
