-- What apps hold of a person belongs into the export of their account.

alter function private.export_account(uuid) rename to export_account_proper;
comment on function private.export_account_proper(uuid) is 'The account''s part of private.export_account.';
revoke execute on function private.export_account_proper(uuid) from service_role;

-- Definer: its first part is granted to nobody.
create function private.export_account(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id) || jsonb_build_object(
    'appHandoffs', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      ) order by t.created_at), '[]')
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id
    ),
    'appSessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at, 'expiresAt', s.expires_at,
        'revokedAt', s.revoked_at
      ) order by s.created_at, s.audience), '[]')
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id
    ),
    'appTokens', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      ) order by t.created_at), '[]')
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id
    )
  )
$$;
comment on function private.export_account(uuid) is
  'Everything held about an account but its AI runs, without secrets, hashes or codes; null where there is no account.';
revoke execute on function private.export_account(uuid) from public, anon, authenticated;
grant execute on function private.export_account(uuid) to service_role;
