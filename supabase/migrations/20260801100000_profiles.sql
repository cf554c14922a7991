create domain public.readable_name as text
  constraint readable_name check (
    char_length(value) between 1 and 80
    and value ~ '[^[:space:]\u00a0\u00ad\u115f\u1160\u200c\u200d\u2800\u3164\uffa0]'
    and value !~ '[[:cntrl:]\u0080-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]'
  );
comment on domain public.readable_name is
  'As the web''s isReadable: one line that people see, of nothing that is unseen or turns what follows it around.';

create table public.profiles (
  id uuid primary key references auth.users (id) on delete cascade,
  display_name public.readable_name not null,
  avatar_url text check (avatar_url ~ '^https://' and char_length(avatar_url) <= 2048),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.profiles is
  'What other members may see of a person. The e-mail stays with the identity backend, so that it has one truth.';

create trigger set_updated_at before update on public.profiles
  for each row execute function private.set_updated_at();
comment on trigger set_updated_at on public.profiles is 'The time of a change is the database''s, not the caller''s.';

alter table public.profiles enable row level security;

create policy select_own on public.profiles
  for select to authenticated using (id = (select auth.uid()));
create policy update_own on public.profiles
  for update to authenticated using (id = (select auth.uid())) with check (id = (select auth.uid()));

grant select on public.profiles to authenticated;
grant update (display_name, avatar_url) on public.profiles to authenticated;
