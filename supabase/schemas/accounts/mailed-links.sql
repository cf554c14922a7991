-- What a mailed link is for, before it is used.

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_of_link(token_hash text, link_type text) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select u.email
  from auth.one_time_tokens t
  join auth.users u on u.id = t.user_id and u.deleted_at is null
  where t.token_hash = email_of_link.token_hash
    and t.token_type::text = case email_of_link.link_type
      when 'signup' then 'confirmation_token'
      when 'invite' then 'confirmation_token'
      when 'recovery' then 'recovery_token'
    end
$$;
comment on function private.email_of_link(text, text) is
  'The email of the account that a mailed link signs in to, or null. link_type: signup, invite or recovery. Does not use '
  'the link up, and does not check its age.';
