insert into private.account_search (user_id, email, terms)
select u.id, u.email, lower(concat_ws(e'\n', u.email, p.display_name))
from auth.users u
left join public.profiles p on p.id = u.id
on conflict (user_id) do nothing;
