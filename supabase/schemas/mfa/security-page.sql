-- Returns what an account's security page shows, except the log: { methods, passkeys, authenticators, recoveryCodes,
-- sessions, sessionCount, access }, each as the function that it is named after returns it. sessions is the page after
-- sessions_before.
create or replace function private.read_security_page(
  subject_id uuid,
  current_session_id uuid,
  sessions_before jsonb,
  sessions_page_size integer
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'methods', private.list_sign_in_methods(subject_id),
    'passkeys', (select coalesce(jsonb_agg(p), '[]') from private.list_passkeys(subject_id) p),
    'authenticators', private.account_authenticators(subject_id),
    'recoveryCodes', private.mfa_recovery_state(subject_id, current_session_id),
    'sessions', (
      select coalesce(jsonb_agg(s), '[]')
      from private.account_sessions(subject_id, current_session_id, sessions_before, sessions_page_size) s
    ),
    'sessionCount', private.count_account_sessions(subject_id),
    'access', private.access_state(subject_id, current_session_id)
  )
$$;
