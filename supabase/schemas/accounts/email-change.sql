-- Reads pending email changes. Supabase Auth stores them, but its API has no call to read them.

-- Returns an account's pending email change, { email, newEmail, sentAt, agreed }, or null. agreed is the mailbox that
-- has already confirmed the change: current, new, or null.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.pending_email_change(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'email', u.email,
    'newEmail', u.email_change,
    'sentAt', u.email_change_sent_at,
    'agreed', case
      when u.email_change_confirm_status = 0 then null
      when u.email_change_token_current = '' then 'current'
      else 'new'
    end
  )
  from auth.users u
  where u.id = subject_id
    and coalesce(u.email_change, '') <> ''
    -- Requires a link, because a new password deletes the links of an email change but leaves the email_change columns
    -- in auth.users unchanged.
    and exists (
      select from auth.one_time_tokens t
      where t.user_id = u.id
        and t.token_type::text in ('email_change_token_current', 'email_change_token_new')
    )
$$;

-- Returns the email change that a mailed link confirms, with the account's userId and the mailbox (current or new) that
-- received the link. Returns null if the link is used, replaced or unknown.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_change_of_link(token_hash text) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.pending_email_change(t.user_id) || jsonb_build_object(
    'userId', t.user_id,
    'mailbox', case t.token_type::text when 'email_change_token_current' then 'current' else 'new' end
  )
  from auth.one_time_tokens t
  where t.token_hash = email_change_of_link.token_hash
    and t.token_type::text in ('email_change_token_current', 'email_change_token_new')
$$;
