-- Pages that show a signed-in person's authenticators need no call of the identity backend for it.

-- Definer: authenticators are the identity backend's, which the service role cannot read.
create function private.account_authenticators(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', f.id,
    'name', f.friendly_name,
    'verified', f.status = 'verified',
    'createdAt', f.created_at,
    'lastUsedAt', f.last_challenged_at
  ) order by f.last_challenged_at desc nulls last, f.created_at, f.id), '[]')
  from auth.mfa_factors f
  where f.user_id = subject_id and f.factor_type = 'totp'
$$;
comment on function private.account_authenticators(uuid) is
  'The authenticator apps of an account, the one that was used last first: [{ id, name, verified, createdAt, '
  'lastUsedAt }]; those whose enrollment was never finished too. No secret of them.';
revoke execute on function private.account_authenticators(uuid) from public, anon, authenticated;
grant execute on function private.account_authenticators(uuid) to service_role;
