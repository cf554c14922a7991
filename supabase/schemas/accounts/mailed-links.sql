-- Finds the account and email of a mailed link before the link is used.

-- Returns the account that a mailed link signs in to, or no row if the link was used. For security definer functions;
-- not granted to any role.
create or replace function private.account_of_link(token_hash text, link_type text) returns setof auth.users
  language sql stable security invoker set search_path = ''
as $$
  select u.*
  from auth.one_time_tokens t
  join auth.users u on u.id = t.user_id and u.deleted_at is null
  where t.token_hash = account_of_link.token_hash
    and t.token_type::text = case account_of_link.link_type
      when 'signup' then 'confirmation_token'
      when 'invite' then 'confirmation_token'
      when 'recovery' then 'recovery_token'
    end
$$;

-- Returns the email of the account that a mailed link signs in to, or null. link_type is signup, invite or recovery.
-- Does not use up the link or check its age.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_of_link(token_hash text, link_type text) returns text
  language sql stable security definer set search_path = ''
as $$
  select u.email from private.account_of_link(email_of_link.token_hash, email_of_link.link_type) u
$$;

-- Returns { email, change } of a mailed link, or null if the link was used or replaced, and completes the attempt at the
-- link: a link that leads to nothing counts as failed. change is the result of private.email_change_of_link.
create or replace function private.find_mailed_link(token_hash text, link_type text, attempt_id uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  change jsonb := case when link_type = 'email_change' then private.email_change_of_link(find_mailed_link.token_hash) end;
  email text := coalesce(change ->> 'email', private.email_of_link(find_mailed_link.token_hash, link_type));
  is_found boolean := change is not null or email is not null;
begin
  perform private.complete_attempt(find_mailed_link.attempt_id, case when is_found then 'succeeded' else 'failed' end);
  return case when is_found then jsonb_build_object('email', email, 'change', change) end;
end
$$;

-- Removes the password of an unconfirmed account before a mailed link confirms the account. Otherwise, once the email's
-- owner confirms the account, the person who signed up with the email could sign in with that password.
-- Definer: see email_of_link.
create or replace function private.remove_unproven_password(token_hash text, link_type text) returns void
  language sql volatile security definer set search_path = ''
as $$
  select private.remove_password(u.id)
  from private.account_of_link(remove_unproven_password.token_hash, remove_unproven_password.link_type) u
  where u.email_confirmed_at is null
    and u.encrypted_password <> ''
    -- Auth refuses older links (otp_expiry), so they confirm nothing.
    and case remove_unproven_password.link_type when 'recovery' then u.recovery_sent_at else u.confirmation_sent_at end
      > now() - interval '1 hour'
$$;
