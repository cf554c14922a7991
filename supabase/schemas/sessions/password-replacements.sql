-- Restricts sessions to replacing a password that is easy to guess.

-- Restricts a session to replacing its account's password. The restriction ends when the password changes. Also deletes
-- the rows of ended sessions.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.require_password_replacement(subject_id uuid, target_id uuid) returns void
  language sql volatile security definer set search_path = ''
as $$
  delete from private.password_replacements r
  where not exists (select from auth.sessions s where s.id = r.session_id);
  insert into private.password_replacements (session_id, user_id)
  select s.id, s.user_id
  from auth.sessions s
  where s.id = target_id and s.user_id = subject_id
  on conflict (session_id) do nothing
$$;

-- When an account's password changes, lifts the restriction set by private.require_password_replacement.
-- Definer: Supabase Auth runs this trigger, and its role has no rights in these schemas.
create or replace function private.end_password_replacements() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if private.is_new_password(old.encrypted_password, new.encrypted_password) then
    delete from private.password_replacements r where r.user_id = new.id;
  end if;
  return null;
end
$$;
