-- What people may ask of us about their account: everything that we hold about it, and its end. Both are called by our
-- server for the user it has authenticated, and by nobody else.

create function private.account_deletion_blockers(subject_id uuid)
  returns table (workspace_id uuid, name text, members integer)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name, (select count(*)::integer from public.workspace_members m where m.workspace_id = w.id)
  from public.workspace_members mine
  join public.workspace_roles r on r.id = mine.role_id and r.is_owner
  join public.workspaces w on w.id = mine.workspace_id and w.deleted_at is null
  where mine.user_id = subject_id
    and exists (
      select from public.workspace_members other
      where other.workspace_id = w.id and other.user_id <> subject_id
    )
    and not exists (
      select
      from public.workspace_members other
      join public.workspace_roles other_role on other_role.id = other.role_id
      where other.workspace_id = w.id and other.user_id <> subject_id and other_role.is_owner
    )
  order by w.name, w.id
$$;
comment on function private.account_deletion_blockers(uuid) is
  'Workspaces that others are in and that this account alone owns: each needs another owner before the account may go.';
revoke execute on function private.account_deletion_blockers(uuid) from public, anon, authenticated;
grant execute on function private.account_deletion_blockers(uuid) to service_role;

-- Definer: the service role may not delete from the identity backend's tables, and the check and the deletion must be
-- one transaction, which the backend's own API cannot give.
create function private.delete_account(subject_id uuid, request_id text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  blockers jsonb;
begin
  -- As the deletion itself will, by private.end_one_account_at_a_time: before any row.
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  -- The account before all that hangs on it, as whoever changes its sessions, or what apps hold of it.
  perform from auth.users u where u.id = subject_id for update;
  -- Memberships and invitations before their workspaces, as who leaves, is given another role or accepts has them locked.
  perform from public.workspace_members m where m.user_id = subject_id order by m.workspace_id for update;
  perform
  from public.workspace_invitations i
  where subject_id in (i.invited_by, i.accepted_by)
  order by i.id
  for update;
  -- Nobody joins or leaves these workspaces between the question and the deletion.
  perform
  from public.workspaces w
  where w.id in (select m.workspace_id from public.workspace_members m where m.user_id = subject_id)
  order by w.id
  for update;

  select jsonb_agg(jsonb_build_object('workspaceId', b.workspace_id, 'name', b.name, 'members', b.members))
  into blockers
  from private.account_deletion_blockers(subject_id) b;
  if blockers is not null then
    return jsonb_build_object('deleted', false, 'blockers', blockers);
  end if;

  if not private.delete_auth_user(subject_id) then
    return jsonb_build_object('deleted', false, 'blockers', '[]'::jsonb);
  end if;
  insert into private.admin_audit_log (action, target, reason, request_id)
  values ('account.deleted', subject_id::text, 'Deleted by its owner', delete_account.request_id);
  return jsonb_build_object('deleted', true, 'blockers', '[]'::jsonb);
end
$$;
comment on function private.delete_account(uuid, text) is
  'Ends an account with everything that hangs on it, unless a workspace would be left without an owner: '
  '{ deleted, blockers: [{ workspaceId, name, members }] }. Runs, ledger, costs and invoices stay, by its id alone.';
revoke execute on function private.delete_account(uuid, text) from public, anon, authenticated;
grant execute on function private.delete_account(uuid, text) to service_role;

-- Definer: reads the identity backend's tables, which the service role may not.
create function private.export_account(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'account', jsonb_build_object(
      'id', u.id,
      'email', u.email,
      'newEmail', nullif(u.email_change, ''),
      'phone', nullif(u.phone, ''),
      'createdAt', u.created_at,
      'emailConfirmedAt', u.email_confirmed_at,
      'lastSignInAt', u.last_sign_in_at,
      'bannedUntil', u.banned_until,
      'hasPassword', coalesce(u.encrypted_password, '') <> '',
      'userMetadata', u.raw_user_meta_data,
      'appMetadata', u.raw_app_meta_data
    ),
    'profile', (
      select jsonb_build_object('displayName', p.display_name, 'avatarUrl', p.avatar_url, 'createdAt', p.created_at)
      from public.profiles p where p.id = u.id
    ),
    'linkedAccounts', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
      ) order by i.created_at), '[]')
      from auth.identities i where i.user_id = u.id
    ),
    'authenticators', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
      ) order by f.created_at), '[]')
      from auth.mfa_factors f where f.user_id = u.id
    ),
    'recoveryCodes', (
      select coalesce(jsonb_agg(
        jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at) order by c.created_at, c.id
      ), '[]')
      from private.mfa_recovery_codes c where c.user_id = u.id
    ),
    'passkeys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id, 'name', c.friendly_name, 'createdAt', c.created_at, 'lastUsedAt', c.last_used_at
      ) order by c.created_at), '[]')
      from auth.webauthn_credentials c where c.user_id = u.id
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      ) order by s.created_at), '[]')
      from auth.sessions s where s.user_id = u.id
    ),
    'securityEvents', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent, 'details', e.details,
        'createdAt', e.created_at
      ) order by e.created_at), '[]')
      from public.security_events e where e.user_id = u.id
    ),
    'approvals', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      ) order by c.created_at), '[]')
      from private.login_challenges c where c.user_id = u.id
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from u.id,
        'joinedAt', m.created_at
      ) order by m.created_at), '[]')
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = u.id
    ),
    'invitations', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'workspaceId', n.workspace_id, 'email', n.email, 'sentByYou', n.invited_by is not distinct from u.id,
        'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      ) order by n.created_at), '[]')
      from public.workspace_invitations n
      where n.invited_by = u.id or n.accepted_by = u.id or n.email = lower(u.email)
    ),
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      ) order by k.created_at), '[]')
      from ai.keys k where k.created_by = u.id
    ),
    'credits', (
      select jsonb_build_object(
        'balance', a.balance::text,
        'ledger', (
          select coalesce(jsonb_agg(jsonb_build_object(
            'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
            'description', l.description, 'createdAt', l.created_at
          ) order by l.id), '[]')
          from ai.credit_ledger l where l.account_id = a.id
        )
      )
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
$$;
comment on function private.export_account(uuid) is
  'Everything held about an account but its AI runs, without secrets, hashes or codes; null where there is no account.';
revoke execute on function private.export_account(uuid) from public, anon, authenticated;
grant execute on function private.export_account(uuid) to service_role;

-- Runs by key are a program's, and many: only what people asked for themselves carries this index.
create index runs_actor_id_created_at_idx on ai.runs (actor_id, created_at desc, id desc)
  where credential_source <> 'key';

create function private.export_account_runs(subject_id uuid, before jsonb default null, page_size integer default 500)
  returns setof jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', r.id, 'createdAt', r.created_at, 'workspaceId', r.workspace_id, 'appId', r.app_id, 'model', r.model_id,
    'feature', r.feature, 'requestId', r.request_id, 'status', r.status, 'inputTokens', r.input_tokens,
    'outputTokens', r.output_tokens, 'billedCredits', r.billed_credits::text,
    'costUsd', case when coalesce(p.provider_cost_visible, true) then r.cost_usd::text end
  )
  from ai.runs r
  left join ai.workspace_policies p on p.workspace_id = r.workspace_id
  where r.actor_id = subject_id
    and r.credential_source <> 'key'
    and (
      before is null
      or (r.created_at, r.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
    )
  order by r.created_at desc, r.id desc
  limit page_size
$$;
comment on function private.export_account_runs(uuid, jsonb, integer) is
  'The AI runs that a person made themselves, newest first, without prompts and answers. costUsd is null where the '
  'workspace''s policy hides what providers charge. before is the last row of the page before.';
revoke execute on function private.export_account_runs(uuid, jsonb, integer) from public, anon, authenticated;
grant execute on function private.export_account_runs(uuid, jsonb, integer) to service_role;
