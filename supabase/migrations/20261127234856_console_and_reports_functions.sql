-- Generated from supabase/schemas by npm run db:migration.

drop function ai.budget_scopes(uuid, uuid, uuid);

drop function ai.budget_subject(text, uuid, uuid, uuid);

drop function ai.change_budget(uuid, uuid, text, uuid, text, text);

drop function ai.create_key(uuid, uuid, text, text, bytea, text, text[], integer, bigint, numeric, timestamp with time zone);

drop function ai.grant_credits(text, uuid, numeric, text);

-- Unused since 0.1.0: only other functions called it.
drop function ai.invoice_counts_on(ai.external_provider_invoices);

drop function ai.key_cost_since(ai.caller, timestamp with time zone);

drop function ai.key_summary(ai.keys);

drop function ai.read_budgets(uuid, uuid, text[], integer);

drop function ai.reserve_budget(text, uuid, uuid, numeric);

drop function ai.reserve_limits(ai.caller, bigint, integer, numeric, uuid, numeric);

drop function ai.set_budget(text, uuid, uuid, numeric);

drop function ai.usage_between(uuid, timestamp with time zone, timestamp with time zone);

drop function private.list_apps();

drop function ai.budget_subjects(uuid, boolean);

create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'email_changed', 'identity_linked',
    'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_used',
    'recovery_codes_created', 'session_revoked', 'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

create or replace function private.export_whole_part(subject_id uuid, part text, wanted boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(r.record order by r.place), '[]')
  from private.export_account_part(subject_id, part, page_size => null) with ordinality as r (record, place)
  where wanted
$$;

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if part = 'sessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      )
      from auth.sessions s
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'approvals' then
    return query
      select jsonb_build_object(
        'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      )
      from private.login_challenges c
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'appHandoffs' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      )
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'appSessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
        'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
      )
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'appTokens' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      )
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

create or replace function private.gateway_refusal(app private.apps, workspace_id uuid, scopes text[]) returns text
  language plpgsql
  stable
  security invoker
as $$
begin
  return case
    when not private.app_can_act_in_workspace(app, gateway_refusal.workspace_id) then 'app_not_allowed'
    when not scopes @> array['workspace:session', 'ai:use'] then 'insufficient_scope'
  end;
end
$$;

create or replace function ai.find_app_token(token_hash bytea)
  returns table (
    token_id uuid,
    app_id uuid,
    user_id uuid,
    workspace_id uuid,
    scopes text[],
    refused text
  )
  language sql
  stable
  security invoker
as $$
  select
    t.id, t.app_id, t.user_id, t.workspace_id, s.in_force,
    case
      when p.standing = 'unavailable' then 'AUTH_UNAVAILABLE'
      when p.standing = 'mfa_required' then 'MFA_REQUIRED'
      when p.standing <> 'good' then 'invalid_api_key'
      when not private.is_workspace_member(t.user_id, t.workspace_id) then 'app_not_allowed'
      else private.gateway_refusal(a, t.workspace_id, s.in_force)
    end
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id
  cross join lateral private.proof_status(t.proof) as p (standing)
  cross join lateral (
    select array(select unnest(t.scopes) intersect select unnest(private.gateway_scopes(a)) order by 1) as in_force
  ) as s
  where t.token_hash = find_app_token.token_hash
    and t.revoked_at is null
    and t.expires_at > now()
$$;

create or replace function private.list_apps(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', a.id,
      'name', a.name,
      'displayName', a.display_name,
      'kind', a.kind,
      'enabled', a.enabled,
      'scopes', a.scopes,
      'origins', coalesce((select jsonb_agg(o.origin order by o.origin) from private.app_origins o where o.app_id = a.id), '[]'),
      'workspaces', coalesce((
        select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id) l
      ), '[]'),
      'secrets', (
        select count(*) from private.app_secrets s where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
      ),
      'createdAt', a.created_at
    )
    order by a.name
  ), '[]')
  from (
    select l.*
    from private.apps l
    where (strpos(l.name, lower(term)) > 0 or strpos(lower(l.display_name), lower(term)) > 0)
      and (after is null or l.name > after)
    order by l.name
    limit page_size
  ) as a
$$;

-- Definer: accounts are the identity backend's, which the service role cannot read.
create or replace function private.search_accounts(term text, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  found_ids uuid[] := array(select private.find_accounts_exactly(term) limit page_size);
begin
  if found_ids = '{}' then
    found_ids := array(select private.find_accounts_matching(term, page_size));
  end if;
  return (
    select coalesce(jsonb_agg(private.describe_account(u) order by u.email, u.id), '[]')
    from auth.users u
    where u.id = any (found_ids)
  );
end
$$;

-- Definer: accounts are the identity backend's, which the service role cannot read.
create or replace function private.list_accounts(before jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A generic plan would read all accounts.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(private.describe_account(u) order by l.created_at desc, l.id desc), '[]')
    from (
      select p.id, p.created_at
      from public.profiles p
      where (p.created_at, p.id) < (last_at, last_id)
      order by p.created_at desc, p.id desc
      limit page_size
    ) l
    join auth.users u on u.id = l.id
  );
end
$$;

create or replace function private.describe_account(account auth.users) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', account.id,
    'email', account.email,
    'displayName', p.display_name,
    'singleSignOn', account.is_sso_user,
    'admin', exists (select from private.infrastructure_admins a where a.user_id = account.id),
    'policy', private.required_mfa_state(account.raw_app_meta_data),
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'deleted', account.deleted_at is not null,
    'authenticators', (
      select count(*) from auth.mfa_factors f where f.user_id = account.id and f.status = 'verified'
    ),
    'lastSignInAt', account.last_sign_in_at,
    'createdAt', coalesce(p.created_at, account.created_at)
  )
  from (values (account.id)) as a (id)
  left join public.profiles p on p.id = a.id
$$;

-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  account record;
  ended integer;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = (change ->> 'subject')::uuid then
    return jsonb_build_object('refused', 'oneself');
  end if;
  select u.id, u.email into account from auth.users u where u.id = (change ->> 'subject')::uuid and u.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  ended := private.end_all_access(account.id);
  perform private.add_account_event(account.id, 'signed_out_by_admin') where ended > 0;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.sign_out',
    'targetUserId', account.id,
    'target', account.email,
    'before', jsonb_build_object('sessions', ended),
    'after', jsonb_build_object('sessions', 0)
  ));
  return '{}';
end
$$;

-- Definer: sessions and admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_address_blocks(
  of_address inet default null,
  subject_id uuid default null,
  page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  networks cidr[] := case
    when of_address is not null then array[private.address_network(of_address)]
    when subject_id is not null then private.recent_networks(subject_id)
  end;
begin
  return (
    select coalesce(jsonb_agg(private.describe_address_block(b) order by b.blocked_until desc, b.id), '[]')
    from (
      select *
      from private.address_blocks l
      where (networks is null or l.address = any (networks))
        -- A search for an address also returns past blocks.
        and (of_address is not null or (l.blocked_until > now() and l.lifted_at is null))
      order by l.blocked_until desc, l.id
      limit page_size
    ) b
  );
end
$$;

create or replace function private.recent_networks(subject_id uuid) returns cidr[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(array_agg(distinct private.address_network(a.ip)), '{}')
  from (
    (
      select e.ip from public.security_events e
      where e.user_id = subject_id and e.ip is not null
      order by e.created_at desc
      limit 50
    )
    union all
    (
      select s.ip from auth.sessions s
      where s.user_id = subject_id and s.ip is not null
      order by s.refreshed_at desc nulls last
      limit 50
    )
  ) a
$$;

create or replace function private.describe_address_block(block private.address_blocks) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', block.id,
    -- Cast to inet to drop the mask of a single address.
    'address', block.address::inet,
    'action', block.action,
    'level', block.level,
    'blockedAt', block.blocked_at,
    'blockedUntil', block.blocked_until,
    'active', block.lifted_at is null and block.blocked_until > now(),
    'liftedAt', block.lifted_at,
    'liftedBy', (select u.email from auth.users u where u.id = block.lifted_by),
    'liftReason', block.lift_reason
  )
$$;

create or replace function private.lift_address_block(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  block private.address_blocks;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into block from private.address_blocks b where b.id = (change ->> 'block')::uuid for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  target := format('address %s', block.address::inet);
  if block.lifted_at is not null then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if block.blocked_until <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  update private.address_blocks b
  set lifted_at = now(), lifted_by = (change ->> 'actor')::uuid, lift_reason = change ->> 'reason'
  where b.id = block.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'address_block.lift',
    'target', target,
    'before', jsonb_build_object('blockedUntil', block.blocked_until, 'level', block.level),
    'after', jsonb_build_object('blockedUntil', null)
  ));
  return '{}';
end
$$;

-- Definer: as private.set_key_approval.
create or replace function private.decline_key_approval(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  workspace public.workspaces := private.lock_approvable_workspace(change);
  refusal jsonb := private.approval_refusal(change, workspace);
  answered ai.key_approval_requests;
begin
  if refusal is not null then
    return refusal;
  end if;
  if not private.lock_open_request(change, workspace.id) then
    return jsonb_build_object('refused', 'request_gone');
  end if;
  answered := private.answer_approval_request(change, workspace.id);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'ai_keys.decline',
    'target', 'workspace ' || workspace.id,
    'before', jsonb_build_object(
      'state', 'open', 'requestedAt', answered.requested_at, 'requestedBy', answered.requested_by, 'note', answered.note
    ),
    'after', jsonb_build_object('state', 'declined')
  ));
  return '{}';
end
$$;

create or replace function private.lock_open_request(change jsonb, workspace uuid) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform
  from ai.key_approval_requests q
  where q.workspace_id = workspace and q.state = 'open' and q.requested_at = (change ->> 'requestedAt')::timestamptz
  for no key update;
  return found;
end
$$;

create or replace function private.answer_approval_request(change jsonb, workspace uuid) returns ai.key_approval_requests
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  approved boolean := coalesce((change ->> 'approved')::boolean, false);
  answered ai.key_approval_requests;
begin
  update ai.key_approval_requests q
  set
    state = case when approved then 'approved' else 'declined' end,
    answered_at = now(),
    decline_reason = case when not approved then change ->> 'reason' end
  where q.workspace_id = workspace and q.state = 'open'
  returning * into answered;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, change #>> '{email,subject}', change #>> '{email,text}', now()
  from public.workspace_members m
  join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id
  join auth.users u on u.id = m.user_id
  where m.workspace_id = answered.workspace_id
    and (r.is_owner or m.user_id = answered.requested_by)
    and ai.can_be_emailed(u);
  return answered;
end
$$;

-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_approval_requests(after jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A generic plan would read all open requests.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((after ->> 'createdAt')::timestamptz, '-infinity');
  last_id uuid := coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000');
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', q.workspace_id,
      'name', q.name,
      'plan', q.plan_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id and r.is_owner
        join auth.users u on u.id = m.user_id
        where m.workspace_id = q.workspace_id
      ),
      'createdAt', q.requested_at,
      'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
      'note', q.note
    ) order by q.requested_at, q.workspace_id), '[]')
    from (
      select o.*, w.name, w.plan_id
      from ai.key_approval_requests o
      join public.workspaces w on w.id = o.workspace_id and w.deleted_at is null
      where o.state = 'open' and (o.requested_at, o.workspace_id) > (last_at, last_id)
      order by o.requested_at, o.workspace_id
      limit page_size
    ) q
  );
end
$$;

create or replace function private.count_approval_requests(most integer default 1001) returns integer
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*)::integer
  from (
    select
    from ai.key_approval_requests q
    join public.workspaces w on w.id = q.workspace_id and w.deleted_at is null
    where q.state = 'open'
    limit most
  ) o
$$;

create or replace function private.record_admin_action(change jsonb, act jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, before, after, request_id, ip)
  values (
    (change ->> 'actor')::uuid, act ->> 'action', (act ->> 'targetUserId')::uuid, act ->> 'target', change ->> 'reason',
    nullif(act -> 'before', 'null'), nullif(act -> 'after', 'null'), change ->> 'requestId', (change ->> 'ip')::inet
  )
$$;

-- Definer: the service role cannot change balances.
create or replace function private.change_credits(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  payer text := change ->> 'payer';
  owner_id uuid := (change ->> 'ownerId')::uuid;
  amount numeric := (change ->> 'amount')::numeric;
  direction integer := case change ->> 'step' when 'grant' then 1 when 'withdraw' then -1 end;
  personal uuid;
  account uuid;
  changed jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if direction is null or amount is null or amount <= 0 or coalesce(change ->> 'reference', '') = '' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  if payer = 'workspace' then
    select w.personal_user_id into personal from public.workspaces w where w.id = owner_id and w.deleted_at is null;
  else
    select u.id into personal from auth.users u where u.id = owner_id and u.deleted_at is null and payer = 'member';
  end if;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if personal = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if direction < 0 then
    select a.id into account from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = owner_id;
    if not found then
      return jsonb_build_object('refused', 'insufficient');
    end if;
  else
    account := ai.open_credit_account(payer, owner_id, coalesce((
      select p.initial_credits from ai.paying_plan(payer, owner_id) p
    ), 0));
  end if;
  changed := ai.change_credits(account, direction * amount, change ->> 'description', change ->> 'reference');
  if changed ->> 'outcome' = 'repeated' then
    return jsonb_build_object('repeated', true);
  elsif changed ->> 'outcome' <> 'changed' then
    return jsonb_build_object('refused', changed ->> 'outcome');
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when direction > 0 then 'credits.grant' else 'credits.withdraw' end,
    'target', payer || ' ' || owner_id,
    'before', jsonb_build_object('balance', trim_scale((changed ->> 'balance')::numeric - direction * amount)::text),
    'after', jsonb_build_object(
      'balance', trim_scale((changed ->> 'balance')::numeric)::text, 'credits', trim_scale(direction * amount)::text,
      'reference', change ->> 'reference', 'description', change ->> 'description'
    )
  ));
  return '{}';
end
$$;

-- Definer: owners' and admins' addresses are the identity backend's, which the service role cannot read.
create or replace function private.search_workspaces(term text, page_size integer default 50) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- Many matches come by the index of names until the page is full, few by that of trigrams.
  set plan_cache_mode = force_custom_plan
as $$
declare
  pattern text := private.containing(term);
  found_ids uuid[];
begin
  found_ids := case
    when term = '' then array(select a.workspace_id from ai.key_approvals a)
    else array(
      select s.id from public.workspaces s where s.id = private.uuid_or_null(term) and s.deleted_at is null
      union all
      select m.workspace_id
      from public.workspace_members m
      -- An array, so that the plan expects few accounts.
      where m.user_id = any (array(select private.find_accounts_exactly(term)))
    )
  end;
  if term <> '' and found_ids = '{}' then
    found_ids := array(
      select s.id
      from public.workspaces s
      where lower(s.name) like pattern and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    );
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'plan', w.plan_id,
      'personalUserId', w.personal_user_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id and r.is_owner
        join auth.users u on u.id = m.user_id
        where m.workspace_id = w.id
      ),
      'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
      'liveKeys', (
        select count(*)
        from ai.keys k
        where k.workspace_id = w.id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
      ),
      'approvedAt', w.approved_at,
      'approvedBy', (select u.email from auth.users u where u.id = w.approved_by),
      'request', (
        select jsonb_build_object(
          'requestedAt', q.requested_at,
          'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
          'note', q.note
        )
        from ai.key_approval_requests q
        where q.workspace_id = w.id and q.state = 'open'
      )
    ) order by w.name, w.id), '[]')
    from (
      select s.*, a.approved_at, a.approved_by
      from public.workspaces s
      left join ai.key_approvals a on a.workspace_id = s.id
      where s.id = any (found_ids) and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    ) w
  );
end
$$;

-- Definer: answering a request writes ai.key_approval_requests, and reads Supabase Auth's email addresses.
create or replace function private.set_key_approval(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  approve boolean := (change ->> 'approved')::boolean;
  workspace public.workspaces;
  known ai.key_approvals;
  made ai.key_approvals;
  refusal jsonb;
  target text;
begin
  select * into workspace from private.lock_approvable_workspace(change);
  refusal := private.approval_refusal(change, workspace);
  if refusal is not null then
    return refusal;
  end if;
  target := 'workspace ' || workspace.id;
  select * into known from ai.key_approvals a where a.workspace_id = workspace.id;
  if found = approve then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if approve then
    if change ->> 'requestedAt' is not null and not private.lock_open_request(change, workspace.id) then
      return jsonb_build_object('refused', 'request_gone');
    end if;
    insert into ai.key_approvals (workspace_id, approved_by) values (workspace.id, actor) returning * into made;
    perform private.answer_approval_request(change, workspace.id);
  else
    delete from ai.key_approvals a where a.workspace_id = workspace.id;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when approve then 'ai_keys.approve' else 'ai_keys.withdraw' end,
    'target', target,
    'before', jsonb_build_object(
      'approved', not approve, 'approvedAt', known.approved_at, 'approvedBy', known.approved_by
    ),
    'after', jsonb_build_object('approved', approve, 'approvedAt', made.approved_at, 'approvedBy', made.approved_by)
  ));
  return '{}';
end
$$;

create or replace function private.lock_approvable_workspace(change jsonb) returns public.workspaces
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- Held until commit, so that the second of two concurrent decisions sees the first.
  select * from public.workspaces w where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null for no key update
$$;

create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid)
      then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when (workspace).personal_user_id = (change ->> 'actor')::uuid then jsonb_build_object('refused', 'oneself')
  end
$$;

create or replace function private.granted_workspaces(model text, most integer default 100)
  returns table (id uuid, name text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name
  from ai.model_grants g
  join public.workspaces w on w.id = g.workspace_id and w.deleted_at is null
  where g.model_id = model
  order by w.name, w.id
  limit most
$$;

create or replace function private.set_model_grant(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  plan text := change ->> 'plan';
  workspace uuid := (change ->> 'workspace')::uuid;
  grants boolean := (change ->> 'granted')::boolean;
  grantee jsonb := jsonb_strip_nulls(jsonb_build_object('plan', plan, 'workspace', workspace));
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if exists (select from public.workspaces w where w.id = workspace and w.personal_user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if num_nonnulls(plan, workspace) <> 1
    or plan is not null and not exists (select from ai.plans p where p.id = plan)
    or workspace is not null and not exists (select from public.workspaces w where w.id = workspace and w.deleted_at is null)
  then
    return jsonb_build_object('refused', 'no_grantee');
  end if;
  if grants then
    insert into ai.model_grants (model_id, plan_id, workspace_id) values (model.id, plan, workspace) on conflict do nothing;
  else
    delete from ai.model_grants g
    where g.model_id = model.id and (g.plan_id, g.workspace_id) is not distinct from (plan, workspace);
  end if;
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when grants then 'model.grant' else 'model.withdraw' end,
    'target', 'model ' || model.id,
    'before', grantee || jsonb_build_object('granted', not grants),
    'after', grantee || jsonb_build_object('granted', grants)
  ));
  return '{}';
end
$$;

create or replace function private.change_model_route(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  place integer := (change ->> 'place')::integer;
  fields jsonb := nullif(change -> 'route', 'null');
  before jsonb;
  others jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  select to_jsonb(r) into before from ai.model_routes r where r.model_id = model.id and r.position = place;
  if (place is not null and before is null) or (place is null and fields is null) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select coalesce(jsonb_agg(to_jsonb(r) order by r.position), '[]') into others
  from ai.model_routes r
  where r.model_id = model.id and r.position is distinct from place;
  if jsonb_path_exists(
    others, '$[*] ? (@.provider_id == $provider && @.provider_model == $model)',
    jsonb_build_object('provider', fields -> 'providerId', 'model', fields -> 'providerModel')
  ) then
    return jsonb_build_object('refused', 'route_taken');
  end if;

  begin
    delete from ai.model_routes r where r.model_id = model.id;
    insert into ai.model_routes
    select made.*
    from (
      select o.route, row_number() over (order by o.at) as position
      from (
        -- The new route goes before the one that is at its position now.
        select l.route, 2 * l.number as at from jsonb_array_elements(others) with ordinality as l (route, number)
        union all
        select
          jsonb_build_object(
            'provider_id', fields -> 'providerId',
            'provider_model', fields -> 'providerModel',
            'enabled', fields -> 'enabled',
            'trusts_stated_cost', fields -> 'trustsStatedCost',
            'tier_multipliers', (
              select coalesce(jsonb_object_agg(t.key, t.value::numeric), '{}')
              from jsonb_each_text(fields -> 'tierMultipliers') as t
            ),
            'first_byte_seconds', fields -> 'firstByteSeconds',
            'idle_seconds', fields -> 'idleSeconds',
            'total_seconds', fields -> 'totalSeconds'
          ),
          2 * (fields ->> 'position')::integer - 1
        where fields is not null
      ) as o
    ) as n
    cross join jsonb_populate_record(
      null::ai.model_routes, n.route || jsonb_build_object('model_id', model.id, 'position', n.position)
    ) as made;
  exception
    when check_violation or not_null_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when before is null then 'model.add_route' when fields is null then 'model.remove_route' else 'model.edit_route' end,
    'target', 'model ' || model.id,
    'before', before,
    'after', (
      select to_jsonb(r)
      from ai.model_routes r
      where r.model_id = model.id and r.provider_id = fields ->> 'providerId' and r.provider_model = fields ->> 'providerModel'
    )
  ));
  return '{}';
end
$$;

create or replace function private.model_version(model text) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select md5(to_jsonb(m)::text || coalesce((
    select jsonb_agg(to_jsonb(r) order by r.position)::text from ai.model_routes r where r.model_id = m.id
  ), ''))
  from ai.models m
  where m.id = model
$$;

create or replace function private.was_never_enabled(model ai.models) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select not model.enabled and coalesce(
    bool_or(l.action = 'model.add') and not bool_or(l.action in ('model.enable', 'model.disable')), false
  )
  from private.admin_audit_log l
  where l.target = 'model ' || model.id
$$;

create or replace function private.save_model(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  made ai.models;
  former ai.models;
  all_voices text[] := nullif(array(select jsonb_array_elements_text(change -> 'voices')), '{}');
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'version' is not null then
    select * into model from ai.models m where m.id = change ->> 'model' for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model.id) <> change ->> 'version' then
      return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
    end if;
  end if;

  begin
    if model.id is null then
      insert into ai.models (id, kind, display_name, owned_by, enabled, studio_default, context_window, output_limit, voices)
      values (
        change ->> 'model', change ->> 'kind', change ->> 'displayName', change ->> 'ownedBy', false,
        (change ->> 'studioDefault')::boolean, (change ->> 'contextWindow')::integer, (change ->> 'outputLimit')::integer,
        all_voices
      )
      on conflict (id) do nothing
      returning * into made;
      if not found then
        return jsonb_build_object('refused', 'id_taken');
      end if;
    else
      -- Replaces only the default that the admin saw: any other violates the unique index.
      if (change ->> 'isDefault')::boolean then
        update ai.models m set is_default = false
        where m.id = change ->> 'defaultOfKind' and m.id <> model.id and m.kind = model.kind and m.is_default
        returning * into former;
      end if;
      update ai.models m
      set
        display_name = change ->> 'displayName',
        owned_by = change ->> 'ownedBy',
        studio_default = (change ->> 'studioDefault')::boolean,
        context_window = (change ->> 'contextWindow')::integer,
        output_limit = (change ->> 'outputLimit')::integer,
        voices = all_voices,
        is_default = (change ->> 'isDefault')::boolean
      where m.id = model.id
      returning * into made;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'default_changed');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when model.id is null then 'model.add' else 'model.edit' end,
    'target', 'model ' || made.id,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(made)
  ));
  if former.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || former.id,
      'before', jsonb_build_object('is_default', true),
      'after', jsonb_build_object('is_default', false)
    ));
  end if;
  return '{}';
end
$$;

create or replace function private.delete_model(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) <> change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if not private.was_never_enabled(model) then
    return jsonb_build_object('refused', 'used');
  end if;
  delete from ai.model_prices p where p.model_id = model.id;
  delete from ai.models m where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.delete', 'target', 'model ' || model.id, 'before', to_jsonb(model)
  ));
  return '{}';
end
$$;

create or replace function private.save_plan(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  plan_id text := change ->> 'plan';
  known ai.plans;
  saved ai.plans;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'seen' is null then
    insert into ai.plans (id, name, payer) values (plan_id, change ->> 'name', change ->> 'payer') on conflict do nothing;
    if not found then
      return jsonb_build_object('refused', 'taken');
    end if;
  end if;
  select * into known from ai.plans p where p.id = plan_id for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if md5(known::text) <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('plan ' || plan_id));
  end if;
  if known.payer <> change ->> 'payer' and ai.plan_has_payers(known) then
    return jsonb_build_object('refused', 'payer_fixed');
  end if;
  update ai.plans p
  set
    name = change ->> 'name',
    payer = change ->> 'payer',
    markup = (change ->> 'markup')::numeric,
    initial_credits = (change ->> 'initialCredits')::numeric,
    low_credits = (change ->> 'lowCredits')::numeric,
    requests_per_minute = (change ->> 'requestsPerMinute')::integer,
    tokens_per_minute = (change ->> 'tokensPerMinute')::bigint
  where p.id = plan_id
  returning * into saved;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when change ->> 'seen' is null then 'plan.add' else 'plan.edit' end,
    'target', 'plan ' || plan_id,
    'before', case when change ->> 'seen' is not null then to_jsonb(known) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;

create or replace function ai.plan_has_payers(plan ai.plans) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case (plan).payer
    when 'workspace' then exists (
      select
      from public.workspaces w
      join ai.credit_accounts a on a.workspace_id = w.id
      where w.plan_id = (plan).id and w.deleted_at is null
    )
    else exists (
      select
      from public.workspaces w
      join public.workspace_members m on m.workspace_id = w.id
      join ai.credit_accounts a on a.user_id = m.user_id
      where w.plan_id = (plan).id and w.deleted_at is null
    )
  end
$$;

create or replace function private.move_workspace(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  workspace public.workspaces;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if workspace.personal_user_id = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  target := 'workspace ' || workspace.id;
  if workspace.plan_id <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  -- Locked, so that its payer does not change meanwhile.
  perform from ai.plans p where p.id = change ->> 'plan' and p.id <> workspace.plan_id for share;
  if not found then
    return jsonb_build_object('refused', 'no_plan');
  end if;
  update public.workspaces w set plan_id = change ->> 'plan' where w.id = workspace.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'plan.move_workspace',
    'target', target,
    'before', jsonb_build_object('plan', workspace.plan_id),
    'after', jsonb_build_object('plan', change ->> 'plan')
  ));
  return '{}';
end
$$;

create or replace function private.add_proposed_prices(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  proposed jsonb;
  scope text;
  -- The newest price that the admin saw, by model, provider and number of input tokens.
  seen jsonb := '{}';
  newest text;
  answer jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if coalesce(jsonb_array_length(change -> 'prices'), 0) not between 1 and 500 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  -- Models are locked in one order, so that two admins cannot deadlock.
  perform from ai.models m
  where m.id in (select p.value ->> 'model' from jsonb_array_elements(change -> 'prices') as p)
  order by m.id
  for update;
  for proposed in select p.value from jsonb_array_elements(change -> 'prices') as p loop
    scope := jsonb_build_array(proposed -> 'model', proposed -> 'providerId', proposed -> 'minInputTokens')::text;
    newest := private.latest_price(
      proposed ->> 'model', proposed ->> 'providerId', (proposed ->> 'minInputTokens')::integer
    );
    -- The first price of a scope is compared with the price book, later ones with the first.
    if proposed ->> 'latest' is distinct from (case when seen ? scope then seen ->> scope else newest end) then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || (proposed ->> 'model')));
    elsif exists (
      select from ai.model_prices p
      where p.model_id = proposed ->> 'model' and p.provider_id = proposed ->> 'providerId'
        and p.service_tier = proposed ->> 'serviceTier' and p.min_input_tokens = (proposed ->> 'minInputTokens')::integer
        and lower(p.valid) > now()
    ) then
      answer := jsonb_build_object('refused', 'scheduled');
    else
      seen := seen || jsonb_build_object(scope, proposed -> 'latest');
      answer := private.add_model_price((change - 'prices') || proposed || jsonb_build_object('latest', newest));
    end if;
    if answer ? 'refused' then
      raise exception using errcode = 'GHP01', message = 'refused', detail = (
        answer || jsonb_build_object('model', proposed -> 'model')
      )::text;
    end if;
  end loop;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics scope = pg_exception_detail;
    return scope::jsonb;
end
$$;

create or replace function private.describe_price(price ai.model_prices) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', price.id,
    'providerId', price.provider_id,
    'serviceTier', price.service_tier,
    'minInputTokens', price.min_input_tokens,
    'from', lower(price.valid),
    'until', upper(price.valid),
    'current', price.valid @> now(),
    'inputUsd', price.input_usd_per_million::text,
    'cachedInputUsd', price.cached_input_usd_per_million::text,
    'cacheWriteUsd', price.cache_write_usd_per_million::text,
    'cacheWrite1hUsd', price.cache_write_1h_usd_per_million::text,
    'outputUsd', price.output_usd_per_million::text,
    'audioInputUsd', price.audio_input_usd_per_million::text,
    'audioOutputUsd', price.audio_output_usd_per_million::text,
    'imageInputUsd', price.image_input_usd_per_million::text,
    'requestFeeUsd', price.request_fee_usd::text
  )
$$;

create or replace function private.latest_price(model text, provider text, tier integer) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select max(p.id)::text
  from ai.model_prices p
  where p.model_id = model and p.provider_id = provider and p.min_input_tokens = tier
$$;

create or replace function private.list_route_prices() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'providerId', r.provider_id,
    'providerModel', r.provider_model,
    'prices', (
      select coalesce(jsonb_agg(
        private.describe_price(t)
          || jsonb_build_object('latest', private.latest_price(r.model_id, r.provider_id, t.min_input_tokens))
        order by t.service_tier <> 'default', t.service_tier, t.min_input_tokens
      ), '[]')
      from (
        select distinct on (p.service_tier, p.min_input_tokens) p.*
        from ai.model_prices p
        where p.model_id = r.model_id and p.provider_id = r.provider_id
        order by
          p.service_tier, p.min_input_tokens, p.valid @> now() desc, lower(p.valid) > now() desc,
          abs(extract(epoch from lower(p.valid) - now()))
      ) as t
    )
  ) order by m.id, r.provider_id, r.provider_model), '[]')
  from (select distinct l.model_id, l.provider_id, l.provider_model from ai.model_routes l) as r
  join ai.models m on m.id = r.model_id
$$;

create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  made ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- One price of a model at a time.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- Runs keep the prices they were charged at.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- The admin decided on the prices that they saw, of all service tiers. One of them may be cancelled, not the newest.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier)
    or (change ->> 'seen')::integer <> (
      select count(*)
      from ai.model_prices p
      where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier
    ) then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if lower(old.valid) = starts then
    return jsonb_build_object('refused', 'taken');
  end if;
  select min(lower(p.valid)) into ends
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and lower(p.valid) > starts;
  if old.id is not null then
    update ai.model_prices p set valid = tstzrange(lower(old.valid), starts) where p.id = old.id;
  end if;
  insert into ai.model_prices (
    model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million, cached_input_usd_per_million,
    cache_write_usd_per_million, cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million,
    audio_output_usd_per_million, image_input_usd_per_million, request_fee_usd
  )
  values (
    model.id, change ->> 'providerId', served, tier, tstzrange(starts, ends), (change ->> 'inputUsd')::numeric,
    (change ->> 'cachedInputUsd')::numeric, (change ->> 'cacheWriteUsd')::numeric, (change ->> 'cacheWrite1hUsd')::numeric,
    (change ->> 'outputUsd')::numeric, (change ->> 'audioInputUsd')::numeric, (change ->> 'audioOutputUsd')::numeric,
    (change ->> 'imageInputUsd')::numeric, (change ->> 'requestFeeUsd')::numeric
  )
  returning * into made;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(made)
  ));
  return jsonb_build_object('from', lower(made.valid), 'until', upper(made.valid));
end
$$;

create or replace function private.cancel_model_price(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  price ai.model_prices;
  old ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into price from ai.model_prices p where p.id = (change ->> 'price')::bigint and p.model_id = model.id;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = price.provider_id and p.service_tier = price.service_tier
    and p.min_input_tokens = price.min_input_tokens and upper(p.valid) = lower(price.valid);
  -- The admin decided on the prices before and after it.
  if price.id is null or old.id::text is distinct from change ->> 'previous'
    or upper(price.valid) is distinct from (change ->> 'until')::timestamptz then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  -- No call may be charged at it before this commits. now() is older than the wait for the lock.
  if lower_inf(price.valid) or lower(price.valid) <= clock_timestamp() + interval '1 minute' then
    return jsonb_build_object('refused', 'started');
  end if;
  delete from ai.model_prices p where p.id = price.id;
  update ai.model_prices p set valid = tstzrange(lower(old.valid), upper(price.valid)) where p.id = old.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.cancel_price',
    'target', 'model ' || model.id,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;

-- Definer: functions about runs are not granted to the service role.
create or replace function private.list_provider_health() returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with failures as (
    select
      f.provider_id, f.failure, count(*) as failed, max(f.at) as last_at,
      count(*) filter (where f.at > now() - interval '1 hour') as last_hour
    from ai.failed_attempts f
    where f.at > now() - interval '24 hours'
    group by f.provider_id, f.failure
  ), answers as (
    -- The primary key of runs begins with their time.
    select ai.run_provider(r.routes, r.route) as provider_id, count(*) as answered, max(r.created_at) as last_at
    from ai.runs r
    where r.created_at > now() - interval '1 hour' and r.status = 'succeeded'
    group by 1
  ), routes as (
    select r.provider_id, count(*) as routes
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.id,
    'routes', coalesce(r.routes, 0),
    'answeredLastHour', coalesce(a.answered, 0),
    'lastAnswerAt', a.last_at,
    'failedLastHour', coalesce((select sum(f.last_hour) from failures f where f.provider_id = p.id), 0),
    'failures', (
      select coalesce(jsonb_agg(jsonb_build_object('failure', f.failure, 'failed', f.failed, 'lastAt', f.last_at)
        order by f.last_at desc, f.failure), '[]')
      from failures f
      where f.provider_id = p.id
    )
  ) order by p.id), '[]')
  from (
    select provider_id from routes union select provider_id from failures union select provider_id from answers
  ) as p (id)
  left join routes r on r.provider_id = p.id
  left join answers a on a.provider_id = p.id
  where p.id is not null
$$;

create or replace function private.list_skipped_routes(most integer default 50) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', s.model_id,
    'displayName', s.display_name,
    'provider', s.provider,
    'providerModel', s.provider_model,
    'skipped', s.skipped,
    'lastAt', s.last_at
  ) order by s.last_at desc, s.model_id, s.provider, s.provider_model), '[]')
  from (
    select r.model_id, max(m.display_name) as display_name, a.provider, a.model as provider_model, count(*) as skipped,
      max(r.created_at) as last_at
    from ai.runs r
    cross join lateral jsonb_to_recordset(r.attempts) as a (provider text, model text, failure text)
    left join ai.models m on m.id = r.model_id
    -- A cooldown takes at most five minutes, and its skipped attempts are stored when a run ends.
    where r.created_at > now() - interval '15 minutes' and r.attempts @> '[{"failure": "skipped"}]' and a.failure = 'skipped'
    group by r.model_id, a.provider, a.model
    order by last_at desc
    limit most
  ) s
$$;

-- Definer: as private.list_provider_health.
create or replace function private.list_provider_usage(first_day date, last_day date) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- Days are in UTC. A generic plan would read all sums.
  set timezone = 'UTC'
  set plan_cache_mode = force_custom_plan
as $$
declare
  live_from date := (select s.before from ai.usage_sealed_days s);
  changed_days date[] := array(
    select distinct c.day from ai.usage_changed_days c where c.day between first_day and last_day and c.day < live_from
  );
begin
  return (
    with changed as (
      select distinct c.workspace_id, c.day
      from ai.usage_changed_days c
      where c.day = any (changed_days)
    ), parts as (
      -- Each part is grouped by itself: with few groups, Postgres hashes instead of sorting.
      select u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd
      from ai.usage_daily u
      where u.day between first_day and least(last_day, live_from - 1) and u.day <> all (changed_days)
      group by u.provider_id, u.billing_name, u.billing_account
      union all
      select u.provider_id, u.billing_name, u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens),
        sum(u.output_tokens), sum(u.cost_usd)
      from ai.usage_daily u
      where u.day = any (changed_days) and (u.workspace_id, u.day) not in (select c.workspace_id, c.day from changed c)
      group by u.provider_id, u.billing_name, u.billing_account
      union all
      select s.provider_id, s.billing_name, s.billing_account, sum(s.requests), sum(s.failed), sum(s.input_tokens),
        sum(s.output_tokens), sum(s.cost_usd)
      from changed c
      cross join lateral ai.sum_usage(c.workspace_id, c.day::timestamptz, (c.day + 1)::timestamptz) as s
      group by s.provider_id, s.billing_name, s.billing_account
      union all
      select ai.run_provider(r.routes, r.route), r.billing_name, r.billing_account, count(*),
        count(*) filter (where r.status = 'failed'), sum(r.input_tokens), sum(r.output_tokens), sum(r.cost_usd)
      from ai.runs r
      where r.created_at >= greatest(first_day, live_from)::timestamptz and r.created_at < (last_day + 1)::timestamptz
      group by 1, 2, 3
    )
    select coalesce(jsonb_agg(jsonb_build_object(
      'provider', t.provider_id,
      'billingName', t.billing_name,
      'billingAccount', t.billing_account,
      'requests', t.requests,
      'failed', t.failed,
      'inputTokens', t.input_tokens,
      'outputTokens', t.output_tokens,
      'costUsd', trim_scale(t.cost_usd)::text
    ) order by t.cost_usd desc, t.provider_id, t.billing_name, t.billing_account), '[]')
    from (
      select p.provider_id, p.billing_name, p.billing_account, sum(p.requests) as requests, sum(p.failed) as failed,
        sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens, sum(p.cost_usd) as cost_usd
      from parts p
      group by p.provider_id, p.billing_name, p.billing_account
    ) t
  );
end
$$;

create or replace function private.list_provider_routes(after text[] default null, page_size integer default null)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'sortsAs', m.sorts_as,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'provider', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'hasPrice', exists (
          select from ai.model_prices p
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.service_tier = 'default'
            and p.valid @> now()
        ),
        'failedLastHour', (
          select count(*)
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
            and f.at > now() - interval '1 hour'
        ),
        'lastFailure', (
          select jsonb_build_object(
            'at', f.at,
            'failure', f.failure,
            'status', f.status,
            'upstreamRequestId', f.upstream_request_id,
            'runId', f.run_id
          )
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
          order by f.at desc, f.id desc
          limit 1
        )
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where l.enabled and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

-- Definer: reads accounts and apps, which the service role cannot.
create or replace function private.read_run(run_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.run_detail(r, true) || jsonb_build_object(
    'workspace', jsonb_build_object('id', r.workspace_id, 'name', w.name),
    'billing', jsonb_build_object('name', r.billing_name, 'account', r.billing_account),
    'memberEmail', (select u.email from auth.users u where u.id = r.actor_id)
  )
  from ai.find_run(run_id) as r
  left join public.workspaces w on w.id = r.workspace_id
  where r.id is not null
$$;

-- Definer: as ai.list_linked_apps.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  kept ai.external_provider_invoices;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  if not ai.app_can_act_in_workspace(app, workspace) then
    return '{"outcome": "app_not_linked"}';
  end if;
  if (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  kept := ai.find_invoice(workspace, app, record, record ->> 'reference');
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when kept.id is not null then ai.invoice_summary(kept) end,
    'differs', case when kept.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(kept, record || jsonb_build_object('reviewedAt', kept.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(workspace, record || jsonb_build_object('appId', app), kept.id)
  );
end
$$;

create or replace function ai.invoice_comparison(workspace uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Longer than any report: such a period says nothing of what it compares with.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(workspace, window_from, window_to) c
  where c.counted
    and (c.cost).provider = record ->> 'provider'
    and (c.cost).account_id is not distinct from record ->> 'accountId';
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- The one that it replaces: references are unique within an app.
    and (i.app_id, i.reference) is distinct from ((record ->> 'appId')::uuid, record ->> 'replaces')
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(workspace) then (
      select trim_scale(coalesce(sum(u.cost_usd), 0))::text
      from ai.usage_between(workspace, window_from, window_to) u
      where ai.billing_provider(u) = record ->> 'provider'
        and coalesce(u.billing_account = record ->> 'accountId', true)
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
$$;

create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  written integer;
  stored ai.external_provider_costs;
begin
  if occurred > observed then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'occurredAt', 'message', 'occurredAt must not be later than observedAt.'
    );
  end if;
  if observed > now() + interval '60 seconds' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'observedAt', 'message', 'observedAt must not be in the future.'
    );
  end if;

  -- Of concurrent imports each waits for the one before, and compares with what that one left.
  insert into ai.external_provider_costs as c (
    workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at, observed_at
  )
  values (
    workspace, app, record ->> 'provider', record ->> 'accountId', record ->> 'externalRunId',
    coalesce(record ->> 'granularity', 'run'), record ->> 'service', amount, occurred, observed
  )
  on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
  set
    granularity = excluded.granularity,
    service = excluded.service,
    amount_usd = excluded.amount_usd,
    occurred_at = excluded.occurred_at,
    observed_at = excluded.observed_at,
    recorded_at = now(),
    revision = c.revision + 1
  where c.observed_at < excluded.observed_at
  returning c.revision into written;
  if found then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored
  from ai.external_provider_costs c
  where c.workspace_id = workspace
    and c.app_id = app
    and c.provider = record ->> 'provider'
    and c.account_id is not distinct from record ->> 'accountId'
    and c.external_run_id = record ->> 'externalRunId';
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif (stored.amount_usd, stored.occurred_at, stored.granularity) = (amount, occurred, coalesce(record ->> 'granularity', 'run'))
    and stored.service is not distinct from record ->> 'service' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
end
$$;

create or replace function ai.store_provider_invoice(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  replaced text := record ->> 'replaces';
  kind_of_replaced text := (ai.find_invoice(workspace, app, record, replaced)).kind;
  stored ai.external_provider_invoices;
  differing text[];
begin
  if reviewed > now() then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'reviewedAt must not be in the future.'
    );
  end if;
  if reviewed < issued::timestamp at time zone 'UTC' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'An invoice is reviewed after it was issued.'
    );
  end if;

  if replaced is not null and kind_of_replaced is null then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'replaces',
      'message', 'replaces must name an earlier reference of the same app, provider and account.'
    );
  elsif kind_of_replaced <> coalesce(record ->> 'kind', 'invoice') then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'kind',
      'message', 'An invoice replaces an invoice, and a credit note replaces a credit note.'
    );
  end if;

  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
    reviewed_at
  )
  values (
    workspace, app, record ->> 'provider', record ->> 'accountId', record ->> 'reference',
    coalesce(record ->> 'kind', 'invoice'), replaced, amount, issued, (record ->> 'periodStart')::date,
    (record ->> 'periodEnd')::date, reviewed
  )
  -- This reference is recorded, or the replaced one is replaced already.
  on conflict do nothing
  returning * into stored;
  if found then
    return jsonb_build_object('outcome', 'stored', 'id', stored.id);
  end if;

  stored := ai.find_invoice(workspace, app, record, record ->> 'reference');
  if stored.id is null then
    select * into strict stored
    from ai.external_provider_invoices i
    where i.workspace_id = workspace
      and i.app_id = app
      and i.provider = record ->> 'provider'
      and i.account_id is not distinct from record ->> 'accountId'
      and i.replaces = replaced;
    return jsonb_build_object(
      'refused', 'invoice_conflict', 'id', stored.id, 'differs', '["replaces"]'::jsonb, 'param', 'replaces',
      'message', format('%s is already replaced by %s. Replace that one instead.', replaced, stored.reference)
    );
  end if;
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;

create or replace function ai.find_invoice(workspace uuid, app uuid, record jsonb, of_reference text)
  returns ai.external_provider_invoices
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select i
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.app_id = app
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = of_reference
$$;

create or replace function ai.invoice_differences(kept ai.external_provider_invoices, record jsonb) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array_remove(
    array[
      case when (kept).kind <> coalesce(record ->> 'kind', 'invoice') then 'kind' end,
      case when (kept).replaces is distinct from record ->> 'replaces' then 'replaces' end,
      case when (kept).amount_usd <> (record ->> 'amountUsd')::numeric then 'amountUsd' end,
      case when (kept).issued_on <> (record ->> 'issuedOn')::date then 'issuedOn' end,
      case when (kept).period_start is distinct from (record ->> 'periodStart')::date then 'periodStart' end,
      case when (kept).period_end is distinct from (record ->> 'periodEnd')::date then 'periodEnd' end,
      case when (kept).reviewed_at <> (record ->> 'reviewedAt')::timestamptz then 'reviewedAt' end
    ],
    null
  )
$$;

create or replace function ai.record_invoice_activity(workspace uuid, app uuid, invoice_id uuid, record jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  select private.log_workspace_change(
    workspace, 'provider_invoice.recorded', invoice_id, concat_ws(' ', record ->> 'provider', record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces'
    ))
  )
$$;

create or replace function ai.provider_cost_records(
  workspace uuid, window_from timestamptz, window_to timestamptz, before jsonb, page_size integer, filter jsonb
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
  -- A plan for every filter and position reads the whole range for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_provider text := filter ->> 'provider';
  of_account text := filter ->> 'accountId';
  any_account boolean := not filter ? 'accountId';
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    with page as materialized (
      select *
      from ai.external_provider_costs c
      where c.workspace_id = workspace
        and c.occurred_at >= window_from
        and c.occurred_at < window_to
        and c.occurred_at <= last_at
        and (c.occurred_at, c.id) < (last_at, last_id)
        and (of_provider is null or c.provider = of_provider)
        and (any_account or c.account_id is not distinct from of_account)
      order by c.occurred_at desc, c.id desc
      limit page_size
    )
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'id', p.id,
        'appId', p.app_id,
        'appName', a.display_name,
        'provider', p.provider,
        'accountId', p.account_id,
        'externalRunId', p.external_run_id,
        'granularity', p.granularity,
        'service', p.service,
        'amountUsd', trim_scale(p.amount_usd)::text,
        'occurredAt', ai.utc_text_microseconds(p.occurred_at),
        'observedAt', ai.utc_text_microseconds(p.observed_at),
        'recordedAt', ai.utc_text_microseconds(p.recorded_at),
        'revision', p.revision,
        'counted', replaced.by_run_id is null,
        'replacedBy', replaced.by_run_id,
        -- The records that an account day replaces in totals: runs, its own earlier states, and a day total's services.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.external_provider_costs c
          where c.workspace_id = p.workspace_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and c.id <> p.id
            and (c.granularity = 'run' or p.service is null or c.service = p.service)
            and c.app_id = p.app_id
            and c.provider = p.provider
            and c.account_id = p.account_id
        ) end
      )
      order by p.occurred_at desc, p.id desc
    ), '[]')
    from page p
    left join private.apps a on a.id = p.app_id
    -- The account day that stands for it, by the rule of ai.provider_costs_in_totals.
    left join lateral (
      select d.external_run_id as by_run_id
      from ai.external_provider_costs d
      where d.granularity = 'account_day'
        and d.workspace_id = p.workspace_id
        and d.app_id = p.app_id
        and d.provider = p.provider
        and d.account_id = p.account_id
        and d.occurred_at = date_trunc('day', p.occurred_at, 'UTC')
        and (
          p.granularity = 'run'
          or (d.service is null and p.service is not null)
          or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
        )
      order by d.service is null desc, d.observed_at desc, d.id desc
      limit 1
    ) as replaced on true
  );
end
$$;

create or replace function ai.provider_costs_in_totals(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.external_provider_costs, counted boolean)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- The latest record of a service counts; a day's total replaces its services.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 and (
        d.service is null
        or not bool_or(d.service is null) over (partition by d.app_id, d.provider, d.account_id, d.occurred_at)
      ) as counted
    from ai.external_provider_costs d
    where d.granularity = 'account_day'
      and d.workspace_id = workspace
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
  ), covered as materialized (
    select distinct d.app_id, d.provider, d.account_id, d.occurred_at from days d
  )
  select c, case c.granularity when 'run' then v.app_id is null else d.counted end
  from ai.external_provider_costs c
  left join covered v on v.app_id = c.app_id
    and v.provider = c.provider
    and v.account_id = c.account_id
    and v.occurred_at = date_trunc('day', c.occurred_at, 'UTC')
  left join days d on d.id = c.id
  where c.workspace_id = workspace and c.occurred_at >= window_from and c.occurred_at < window_to
$$;

create or replace function ai.invoice_replacement(invoice ai.external_provider_invoices) returns text
  language sql
  stable
  security invoker
as $$
  select r.reference
  from ai.external_provider_invoices r
  where r.workspace_id = (invoice).workspace_id
    and r.app_id = (invoice).app_id
    and r.provider = (invoice).provider
    and r.replaces = (invoice).reference
    and r.account_id is not distinct from (invoice).account_id
$$;

create or replace function ai.invoice_amount(invoice ai.external_provider_invoices, within daterange default null) returns numeric
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  -- Shares are differences of rounded sums, so that adjacent ranges add up to the amount.
  select case (invoice).kind when 'credit_note' then -1 else 1 end
    * case
      when within is null then (invoice).amount_usd
      when isempty(d.days * within) then 0
      else
        round((invoice).amount_usd * (upper(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
        - round((invoice).amount_usd * (lower(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
    end
  from (select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) as days) d
$$;

create or replace function ai.month_days(month text) returns daterange
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select daterange(first_day, (first_day::timestamp + interval '1 month')::date)
  from (select (month || '-01')::date as first_day) m
  where month is not null
$$;

create or replace function ai.invoice_matches(invoice ai.external_provider_invoices, filter jsonb) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select (filter ->> 'provider' is null or filter ->> 'provider' = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (
      filter ->> 'month' is null
      or ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) && ai.month_days(filter ->> 'month')
    )
$$;

create or replace function ai.reconciliation_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, after text[], page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(workspace, asked.window_from, asked.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account)), '[]') as accounts
      from (
        -- One run without an account leaves open what the month's accounts were charged.
        select *, bool_and(q.account_id is not null) filter (where q.runs > 0) over (partition by q.month, q.provider)
          as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;

create or replace function ai.price_call(request ai.run_request, previous ai.priced_call) returns ai.priced_call
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller := ai.find_caller(request);
  offer ai.route_offer;
  refusal jsonb := ai.call_refusal(caller, request.kind);
  account uuid;
begin
  if refusal is null and caller.plan_id is null then
    refusal := ai.refusal('service_unavailable');
  end if;
  if refusal is null and request.entity_id <> caller.entity_id then
    refusal := ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}');
  end if;
  request.entity_id := coalesce(caller.entity_id, request.entity_id);
  if refusal is null then
    offer := ai.find_offer(request, caller, previous);
    refusal := offer.refusal;
  end if;
  if refusal is null then
    select a.id into account
    from ai.credit_accounts a
    where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller);
  end if;
  return row(refusal, request, caller, offer, account)::ai.priced_call;
end
$$;

create or replace function ai.admit_call(priced ai.priced_call) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  request ai.run_request := priced.request;
  caller ai.caller := priced.caller;
  offer ai.route_offer := priced.offer;
  principal uuid := ai.principal_id(caller);
  exempt boolean := ai.payer_id(caller) is null;
  maximum_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  earlier ai.idempotency_keys;
  run_id uuid;
begin
  if priced.refusal is not null then
    return priced.refusal;
  end if;
  if not exempt then
    maximum_credits := ai.usd_to_credits(offer.maximum_cost_usd, caller.markup);
  end if;
  if ai.is_key_use_due(caller) then
    perform ai.record_key_use(caller);
  end if;

  if request.idempotency_key is not null then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = request.idempotency_key
      and i.expires_at > now();
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    case when earlier.key is null then offer.reserved_tokens else 0 end
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  if earlier.key is not null then
    return ai.idempotent_refusal(earlier, decode(request.fingerprint, 'hex'));
  end if;
  held := ai.reserve_limits(
    caller, request.entity_id, offer.reserved_tokens, 1, offer.maximum_cost_usd, priced.account_id, maximum_credits
  );
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, offer.reserved_tokens);
    return ai.limit_refusal(held.refused, caller);
  end if;

  run_id := case
    when request.run_id_suffix is null then ai.run_id(now())
    else ai.new_run_id(request.run_id_suffix)
  end;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes,
    reserved_tokens, tokens_reserved_at
  )
  values (
    run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, request.feature, request.request_id,
    request.entity_id, request.idempotency_key, coalesce(request.streamed, false), offer.model_id, offer.routes,
    caller.markup, exempt, priced.account_id, offer.maximum_cost_usd, maximum_credits, held.budget_scopes,
    offer.reserved_tokens,
    case when offer.reserved_tokens is not null then greatest(key_window.started_at, (held.workspace_window).started_at) end
  );
  if request.idempotency_key is not null then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (caller.workspace_id, principal, request.idempotency_key, decode(request.fingerprint, 'hex'), now(), run_id)
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;

  -- As text: building JSON from values looks up how each type is written.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,"credits_per_usd":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s}',
    run_id,
    to_json(now()),
    caller.workspace_id,
    to_json(offer.model_id),
    coalesce(to_json(offer.context_window), 'null'),
    coalesce(to_json(offer.voice), 'null'),
    offer.routes,
    ai.credits_per_usd(caller.markup),
    exempt::text,
    offer.maximum_cost_usd,
    maximum_credits,
    coalesce(offer.reserved_tokens::text, 'null'),
    coalesce(offer.output_limit::text, 'null'),
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.call_limits(caller, key_window, held.workspace_window),
    coalesce(to_json(caller.key_name), 'null'),
    coalesce(caller.is_strict, false)::text
  );
end
$$;

create or replace function ai.find_caller(request ai.run_request) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  credential ai.credential := request.credential;
  caller ai.caller;
begin
  case credential.source
    when 'key' then
      caller := ai.key_caller(decode(credential.hash, 'hex'), request.address);
    when 'app_token', 'session' then
      caller := ai.user_caller(credential, request.workspace);
    else
      return null;
  end case;
  -- Most workspaces have no budget.
  perform from ai.budgets b where b.workspace_id = caller.workspace_id;
  if found then
    caller.budgets := ai.budget_scopes(caller, coalesce(caller.entity_id, request.entity_id));
  end if;
  if caller.refused is null then
    if request.workspace is null then
      if caller.source = 'app_token' then
        caller.refused := 'workspace_header_required';
      end if;
    elsif request.workspace <> caller.workspace_id::text then
      caller.refused := 'workspace_mismatch';
    end if;
  end if;
  return caller;
end
$$;

create or replace function ai.call_refusal(caller ai.caller, kind text default null) returns jsonb
  language plpgsql
  immutable
  security invoker
as $$
begin
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  elsif caller.refused is not null then
    return ai.refusal(caller.refused);
  elsif kind is not null and (
    caller.app_id is not null and kind = 'speech' and not 'tts:use' = any (caller.scopes)
    or caller.payer = 'member' and not caller.actor_is_member
  ) then
    return ai.refusal('insufficient_scope');
  end if;
  return null;
end
$$;

create or replace function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  key ai.keys;
  plan_id text;
  plan ai.plans;
  policy ai.workspace_policies;
  is_member boolean;
  app private.apps;
  scopes text[];
  refused text;
begin
  -- One row of one table by its key each: a join of them takes longer to start than all of these to run.
  select k.* into key
  from ai.keys k
  where k.secret_hash = key_caller.secret_hash
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
  if not found then
    return null;
  end if;
  select s.plan_id into plan_id from public.workspaces s where s.id = key.workspace_id and s.deleted_at is null;
  if not found then
    return null;
  end if;
  select p.* into plan from ai.plans p where p.id = plan_id;
  select w.* into policy from ai.workspace_policies w where w.workspace_id = key.workspace_id;
  if plan.payer = 'member' then
    perform from public.workspace_members m where m.workspace_id = key.workspace_id and m.user_id = key.created_by;
    is_member := found;
  end if;
  -- Without an address, a key with an address list is refused.
  if key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false) then
    refused := 'insufficient_scope';
  end if;
  if key.external_app_id is not null then
    select a.* into app from private.apps a where a.id = key.external_app_id;
    scopes := private.gateway_scopes(app);
    refused := coalesce(refused, private.gateway_refusal(app, key.workspace_id, scopes));
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, scopes,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, null, key.entity_id, key.name, key.is_strict
  )::ai.caller;
end
$$;

create or replace function ai.user_caller(credential ai.credential, workspace text) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
begin
  if credential.source = 'app_token' then
    select t.refused, t.workspace_id, t.user_id, t.app_id, t.scopes
    into caller.refused, caller.workspace_id, caller.actor_id, caller.app_id, caller.scopes
    from ai.find_app_token(decode(credential.hash, 'hex')) t
    where t.refused is distinct from 'invalid_api_key';
  else
    caller.workspace_id := workspace::uuid;
    select s.user_id, s.refused into caller.actor_id, caller.refused
    from ai.session_caller(credential.claims, caller.workspace_id) s;
  end if;
  if caller.actor_id is null then
    return null;
  end if;

  caller.source := credential.source;
  select
    p.id, p.payer, p.markup, p.initial_credits,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
    w.allowed_models, w.denied_models, coalesce(w.provider_cost_visible, true), coalesce(w.content_capture, false)
  into
    caller.plan_id, caller.payer, caller.markup, caller.initial_credits,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.workspace_models, caller.denied_models, caller.cost_visible, caller.capture
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  where s.id = caller.workspace_id and s.deleted_at is null;
  if not found then
    return case caller.source when 'session' then caller end;
  end if;
  caller.actor_is_member := private.is_workspace_member(caller.actor_id, caller.workspace_id);
  return caller;
end
$$;

create or replace function ai.budget_scopes(caller ai.caller, label text) returns text[]
  language plpgsql
  stable
  security invoker
as $$
begin
  return nullif(array(
    select s.scope
    from (
      values
        ('key', caller.lineage_id), ('app', caller.app_id), ('member', caller.actor_id), ('label', ai.label_id(label)),
        ('workspace', caller.workspace_id)
    ) as s (scope, subject_id)
    join ai.budgets b
      on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = caller.workspace_id
  ), '{}');
end
$$;

create or replace function ai.label_id(label text) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select left(
    overlay(overlay(encode(sha256(label::bytea), 'hex') placing '8' from 13) placing '8' from 17), 32
  )::uuid
$$;

create or replace function ai.grant_credits(
  payer text, owner_id uuid, amount numeric, description text, reference text default null
) returns numeric
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  changed jsonb := ai.change_credits(ai.open_credit_account(payer, owner_id, 0), amount, description, reference);
begin
  if changed ->> 'outcome' = 'reference_used' then
    raise exception 'the reference "%" was used for % credits', reference, changed ->> 'amount' using errcode = 'unique_violation';
  elsif changed ->> 'outcome' = 'insufficient' then
    raise exception 'only % credits are available', changed ->> 'available' using errcode = 'check_violation';
  end if;
  return (changed ->> 'balance')::numeric;
end
$$;

create or replace function ai.change_credits(account uuid, amount numeric, description text, reference text) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  held ai.credit_accounts;
  used numeric;
  entry bigint;
begin
  if amount is null or amount = 'NaN' or amount <> round(amount, 8) then
    raise exception 'credits are a number with at most 8 decimals' using errcode = 'check_violation';
  end if;
  -- Readers cannot tell composed from decomposed letters, or one kind of space from another.
  reference := btrim(regexp_replace(
    normalize(reference), '[\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+', ' ', 'g'
  ));
  -- Serializes changes of one account, so that only the first with a reference is made.
  select * into held from ai.credit_accounts a where a.id = account for no key update;
  select r.amount into used
  from ai.credit_references r
  where r.account_id = account and r.reference = change_credits.reference;
  if found then
    return jsonb_build_object(
      'outcome', case when used = amount then 'repeated' else 'reference_used' end,
      'amount', trim_scale(used)::text,
      'balance', held.balance::text
    );
  end if;
  if amount < 0 and held.balance - held.reserved + amount < 0 then
    return jsonb_build_object('outcome', 'insufficient', 'available', trim_scale(held.balance - held.reserved)::text);
  end if;
  update ai.credit_accounts a
  set balance = a.balance + amount, refused_at = case when amount > 0 then null else a.refused_at end
  where a.id = account
  returning * into held;
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
  values (account, 'grant', amount, held.balance, change_credits.description)
  returning id into entry;
  if reference is not null then
    insert into ai.credit_references (account_id, reference, amount, entry_id)
    values (account, change_credits.reference, amount, entry);
  end if;
  if amount > 0 then
    perform ai.reset_credit_alert(held);
  end if;
  return jsonb_build_object('outcome', 'changed', 'balance', held.balance::text);
end
$$;

-- Definer: as begin_run.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
  refusal jsonb := ai.call_refusal(caller);
  exempt boolean;
  cost_visible boolean;
begin
  if refusal is not null then
    return refusal;
  end if;
  exempt := caller.app_id is not null;
  cost_visible := exempt or caller.cost_visible;

  return jsonb_build_object(
    'source', caller.source,
    'workspaceId', caller.workspace_id,
    'userId', case when caller.source <> 'key' then caller.actor_id end,
    'key', (
      select jsonb_build_object(
        'id', k.id,
        'name', k.name,
        'prefix', 'ttr_ai_' || k.lookup,
        'environment', k.environment,
        'createdAt', ai.utc_text(k.created_at),
        'replaced', k.replaced_by is not null,
        'allowedModels', k.allowed_models,
        'allowedAddresses', k.allowed_addresses,
        'strict', k.is_strict,
        'entityId', k.entity_id
      )
      from ai.keys k where k.id = caller.key_id
    ),
    'app', (
      select jsonb_build_object('id', a.id, 'name', a.name, 'displayName', a.display_name)
      from private.apps a where a.id = caller.app_id
    ),
    'scopes', caller.scopes,
    'expiresAt', ai.utc_text(coalesce(
      (select k.expires_at from ai.keys k where k.id = caller.key_id),
      (
        select t.expires_at from ai.app_tokens t
        where caller.source = 'app_token' and t.token_hash = decode(call -> 'credential' ->> 'hash', 'hex')
      )
    )),
    'exempt', exempt,
    'limits', (
      select coalesce(jsonb_agg(l.value), '[]')
      from jsonb_array_elements(jsonb_build_array(
        ai.remaining_rate('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.remaining_rate(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- An app does not pay, and the holder of a key may not be the member who does.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller)
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;

create or replace function ai.cost_this_month(caller ai.caller, cost_visible boolean) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  month timestamptz := date_trunc('month', now(), 'UTC');
  spent record;
begin
  if caller.source = 'key' then
    select * into spent from ai.key_cost_since(caller.workspace_id, array[caller.lineage_id], month);
  else
    select * into spent from ai.user_cost_since(caller, month);
  end if;
  return jsonb_build_object(
    'since', ai.utc_text(month),
    'requests', coalesce(spent.requests, 0),
    'costUsd', case when cost_visible then trim_scale(coalesce(spent.cost_usd, 0)) end,
    'billedCredits', trim_scale(coalesce(spent.billed_credits, 0)),
    'unmeteredCredits', trim_scale(coalesce(spent.unmetered_credits, 0))
  );
end
$$;

create or replace function ai.key_cost_since(workspace uuid, lineages uuid[], month timestamptz)
  returns table (lineage_id uuid, requests numeric, cost_usd numeric, billed_credits numeric, unmetered_credits numeric)
  language plpgsql
  -- Stable: all its statements share one snapshot, so each run counts once.
  stable
  security invoker
  set search_path = ''
as $$
declare
  sealed_before date := (select s.before from ai.usage_sealed_days s);
  first_day date := (month at time zone 'UTC')::date;
  live_from timestamptz := greatest(month, sealed_before::timestamp at time zone 'UTC');
  changed_days date[] := array(
    select distinct c.day from ai.usage_changed_days c
    where c.workspace_id = workspace and c.day >= first_day and c.day < sealed_before
  );
begin
  return query
  select p.key_lineage_id, sum(p.requests), sum(p.cost_usd), sum(p.billed_credits), sum(p.unmetered_credits)
  from (
    select u.key_lineage_id, u.requests::numeric, u.cost_usd, u.billed_credits, u.unmetered_credits
    from ai.usage_daily u
    where u.workspace_id = workspace
      and u.day >= first_day
      and u.day < sealed_before
      and u.key_lineage_id = any (lineages)
      and not u.day = any (changed_days)
    union all
    select r.key_lineage_id, 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from ai.runs r
    where r.workspace_id = workspace and r.created_at >= live_from and r.key_lineage_id = any (lineages)
    union all
    select r.key_lineage_id, 1, r.cost_usd, r.billed_credits, r.unmetered_credits
    from unnest(changed_days) as d (day)
    cross join lateral (
      select x.*
      from ai.runs x
      where x.workspace_id = workspace
        and x.created_at >= d.day::timestamp at time zone 'UTC'
        and x.created_at < (d.day + 1)::timestamp at time zone 'UTC'
        and x.key_lineage_id = any (lineages)
      offset 0
    ) as r
  ) as p
  group by p.key_lineage_id;
end
$$;

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- As in begin_run.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  most ai.token_use := ai.maximum_use(request);
  run ai.runs;
  caller ai.caller;
  key_is_over boolean;
  refused text;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  used_tokens bigint;
  step_tokens bigint;
  token_limit bigint;
  tokens bigint;
  minute timestamptz;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.entity_id, k.revoked_at is not null or k.expires_at <= now(), k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute)
  into
    caller.entity_id, key_is_over, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_over then
    return ai.refusal('invalid_api_key');
  end if;
  if run.app_id is not null then
    select private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) into refused
    from private.apps a
    where a.id = run.app_id;
    if not found or refused is not null then
      return ai.refusal(coalesce(refused, 'app_not_allowed'));
    end if;
  end if;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  caller.budgets := run.budget_scopes;
  request.entity_id := run.entity_id;

  step_usd := ai.maximum_cost_usd(run.routes, most, request.service_tier);
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  token_limit := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    step_tokens := ai.reserved_tokens(request, most, token_limit);
    if step_tokens > token_limit then
      return ai.token_limit_refusal(caller, most, step_tokens);
    end if;
  end if;

  perform ai.lock_rows(ai.collect_locks(array[row(null, request, caller, null, run.account_id)::ai.priced_call]));
  if token_limit is not null then
    minute := greatest(
      (ai.current_window('key', caller.lineage_id)).started_at, (ai.current_window('workspace', caller.workspace_id)).started_at
    );
    -- The steps before count what they used. In a new minute they count nothing, and so does settlement.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    tokens := step_tokens + used_tokens - case when run.tokens_reserved_at = minute then run.reserved_tokens else used_tokens end;
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute, tokens, 0
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  held := ai.reserve_limits(caller, run.entity_id, tokens, 0, step_usd, run.account_id, total_credits - run.reserved_credits);
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, tokens);
    return ai.limit_refusal(held.refused, caller);
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + step_tokens, r.reserved_tokens),
    tokens_reserved_at = coalesce(minute, r.tokens_reserved_at),
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;

create or replace function ai.collect_locks(calls ai.priced_call[]) returns ai.lock_list
  language plpgsql
  stable
  security invoker
as $$
declare
  call ai.priced_call;
  caller ai.caller;
  scope text;
  locks ai.lock_list;
begin
  foreach call in array calls loop
    continue when call.refusal is not null;
    caller := call.caller;
    if (call.request).idempotency_key is not null then
      locks.idempotency_keys := locks.idempotency_keys || hashtextextended(
        concat_ws(' ', caller.workspace_id, ai.principal_id(caller), (call.request).idempotency_key), 0
      );
      locks.workspaces := locks.workspaces || caller.workspace_id;
    end if;
    if ai.is_key_use_due(caller) then
      locks.keys := locks.keys || caller.key_id;
    end if;
    if num_nonnulls(caller.key_requests_per_minute, caller.key_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('key', caller.lineage_id, null)::ai.limit_subject;
    end if;
    if num_nonnulls(caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('workspace', caller.workspace_id, null)::ai.limit_subject;
    end if;
    if caller.budgets is not null then
      foreach scope in array caller.budgets loop
        locks.budgets := locks.budgets || row(
          scope,
          ai.budget_subject(
            scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, (call.request).entity_id
          ),
          caller.workspace_id
        )::ai.limit_subject;
      end loop;
    end if;
    if call.account_id is not null then
      locks.accounts := locks.accounts || call.account_id;
    end if;
  end loop;
  return locks;
end
$$;

create or replace function ai.reserve_limits(
  caller ai.caller, label text, tokens bigint, requests integer, amount_usd numeric, account uuid, credits numeric
) returns ai.reservation
  language plpgsql
  volatile
  security invoker
as $$
declare
  scope text;
  held ai.reservation;
begin
  held.budget_scopes := '{}';
  foreach scope in array array['key', 'app', 'member', 'label', 'workspace'] loop
    if scope = 'workspace' then
      held.workspace_window := ai.consume_rate_limit(
        'workspace', caller.workspace_id, caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute, tokens,
        requests
      );
      if not (held.workspace_window).admitted then
        held.refused := 'rate_limit_exceeded';
        exit;
      end if;
    end if;
    continue when caller.budgets is null or not scope = any (caller.budgets);
    if not ai.reserve_budget(
      scope,
      ai.budget_subject(scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, label),
      caller.workspace_id,
      amount_usd,
      -- A label from the caller only annotates the call. Only a key's own label can refuse it.
      scope <> 'label' or caller.entity_id is not null
    ) then
      held.refused := 'budget_exceeded';
      exit;
    end if;
    held.budget_scopes := held.budget_scopes || scope;
  end loop;
  if held.refused is null and (account is not null or credits > 0) then
    update ai.credit_accounts a set reserved = a.reserved + credits
    where a.id = account and a.balance - a.reserved >= credits;
    if not found then
      held.refused := 'insufficient_credits';
      -- At most one refusal a minute is written.
      update ai.credit_accounts a set refused_at = now()
      where a.id = account and (a.refused_at is null or a.refused_at < now() - interval '1 minute');
    end if;
  end if;
  if held.refused is not null then
    perform ai.return_tokens('workspace', caller.workspace_id, held.workspace_window, tokens);
  end if;
  if held.refused is not null and held.budget_scopes <> '{}' then
    update ai.budgets b set reserved_usd = greatest(b.reserved_usd - amount_usd, 0)
    from unnest(held.budget_scopes) as s (scope)
    where b.scope = s.scope
      and b.subject_id = ai.budget_subject(
        s.scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, reserve_limits.label
      )
      and b.workspace_id = caller.workspace_id;
  end if;
  return held;
end
$$;

create or replace function ai.reserve_budget(
  scope text, subject uuid, workspace uuid, amount_usd numeric, enforced boolean
) returns boolean
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  update ai.budgets b
  set
    reserved_usd = b.reserved_usd + amount_usd,
    spent_usd = case when b.period_start < month then 0 else b.spent_usd end,
    period_start = greatest(b.period_start, month)
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and (
      not enforced
      or b.limit_usd is null
      -- A budget of 0 refuses free calls, too.
      or b.limit_usd > 0
        and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
    );
  if found then
    return true;
  end if;
  -- Of many concurrent refusals the first writes it.
  update ai.budgets b set refused_at = now()
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end > b.limit_usd
    and (
      b.refused_at is null
      or b.refused_at < greatest(now() - interval '1 minute', month::timestamp at time zone 'UTC')
    );
  return false;
end
$$;

create or replace function ai.unknown_models(names text[]) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select nullif(array(
    select n.name
    from unnest(names) with ordinality as n (name, place)
    where not exists (select from ai.models m where m.id = n.name)
    order by n.place
  ), '{}')
$$;

create or replace function ai.open_prices(providers text[]) returns table (
  model_id text, place smallint, provider_id text, provider_model text, tier_multipliers jsonb,
  trusts_stated_cost boolean, first_byte_seconds smallint, idle_seconds smallint, total_seconds smallint,
  sorts_as text, min_input_tokens integer, as_offered jsonb
)
  language sql
  stable
  security invoker
as $$
  select
    r.model_id, r.position, r.provider_id, r.provider_model, r.tier_multipliers,
    r.trusts_stated_cost, r.first_byte_seconds, r.idle_seconds, r.total_seconds,
    nullif(t.service_tier, 'default'), t.min_input_tokens, t.as_offered
  from ai.model_routes r
  join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id
  where r.enabled and r.provider_id = any (providers) and t.valid @> now()
    -- Settlement charges a service tier without prices of its own at the default tier's.
    and exists (
      select
      from ai.model_prices b
      where b.model_id = r.model_id and b.provider_id = r.provider_id and b.service_tier = 'default' and b.valid @> now()
    )
$$;

create or replace function ai.lock_outcomes(outcomes jsonb) returns ai.run_report[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  reports ai.run_report[] := ai.lock_runs(outcomes);
  report ai.run_report;
  run ai.runs;
  scope text;
  locks ai.lock_list;
begin
  foreach report in array reports loop
    run := report.run;
    if run.tokens_reserved_at >= date_trunc('minute', now()) then
      locks.rate_windows := locks.rate_windows || row('workspace', run.workspace_id, null)::ai.limit_subject;
      if run.key_lineage_id is not null then
        locks.rate_windows := locks.rate_windows || row('key', run.key_lineage_id, null)::ai.limit_subject;
      end if;
    end if;
    foreach scope in array run.budget_scopes loop
      locks.budgets := locks.budgets || row(
        scope,
        ai.budget_subject(scope, run.workspace_id, run.key_lineage_id, run.app_id, run.actor_id, run.entity_id),
        run.workspace_id
      )::ai.limit_subject;
    end loop;
    if run.account_id is not null then
      locks.accounts := locks.accounts || run.account_id;
    end if;
  end loop;
  perform ai.lock_rows(locks);
  return reports;
end
$$;

create or replace function ai.settle_budgets(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  update ai.budgets b
  set
    -- A budget that was deleted and set again holds no reservation of earlier runs.
    reserved_usd = greatest(b.reserved_usd - due.released, 0),
    spent_usd = b.spent_usd + due.spent
  from (
    select
      x.scope, x.subject_id, x.workspace_id, sum(c.usd_released) as released,
      -- A run counts in the month in which it began.
      coalesce(sum(c.cost_due_usd) filter (where (c.run).created_at >= x.period_start::timestamp at time zone 'UTC'), 0) as spent
    from unnest(closed) c
    cross join unnest((c.run).budget_scopes) as t (scope)
    join ai.budgets x
      on x.scope = t.scope
      and x.workspace_id = (c.run).workspace_id
      and x.subject_id = ai.budget_subject(
        t.scope, (c.run).workspace_id, (c.run).key_lineage_id, (c.run).app_id, (c.run).actor_id, (c.run).entity_id
      )
    group by x.scope, x.subject_id, x.workspace_id
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;

-- Definer: the service role writes no alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- One at a time, and each reads the budgets after the one before it is through: a limit that was just raised is seen.
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_budget_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'scope', a.scope,
        'subjectId', a.subject_id,
        'subject', ai.budget_name(a.scope, a.subject_id, a.workspace_id),
        'workspaceId', a.workspace_id,
        'workspace', w.name,
        'month', a.month,
        'endsAt', ai.utc_text((a.month + interval '1 month') at time zone 'UTC'),
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      )
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id
    ), '[]')
    from (
      select * from ai.budget_alerts p where p.posted_at is null order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
  );
end
$$;

create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case scope
    when 'key' then (
      select k.name from ai.keys k
      where k.lineage_id = subject and k.workspace_id = workspace
      order by k.created_at desc limit 1
    )
    when 'app' then ai.app_label(subject)
    when 'member' then (select p.display_name from public.profiles p where p.id = subject)
    when 'label' then (
      select b.label from ai.budgets b
      where b.scope = 'label' and b.subject_id = subject and b.workspace_id = workspace
    )
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[] default null, page_size integer default 50,
  -- The previous release refuses any other scope.
  scopes text[] default '{workspace,app,key}'
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy');
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            when visible then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.month = this_month::date and a.threshold > 0 and a.posted_at is not null
              and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select s.*, b as budget, x.spent, o.position
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace and b.limit_usd is not null
        cross join lateral (select case when b.period_start < this_month::date then 0 else b.spent_usd end as spent) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or (b.limit_usd is not null and x.spent > 0))
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Definer: as ai.read_budgets; and the service role writes no budgets.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  standing numeric;
  wanted numeric := change_budget.limit_usd::numeric;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  select b.limit_usd into standing
  from ai.budgets b
  where b.scope = change_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if standing is distinct from read_limit_usd::numeric then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'limitUsd', trim_scale(standing)::text);
  end if;
  if wanted is not distinct from standing then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform ai.set_budget(scope, subject, workspace, wanted, label);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object('scope', scope, 'before', trim_scale(standing)::text, 'after', trim_scale(wanted)::text)
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null
) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  if limit_usd is null then
    update ai.budgets b set limit_usd = null
    where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    -- What did not fit before a raise may fit now.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if found then
    perform ai.reset_budget_alert(set_budget.scope, subject, workspace);
    return;
  end if;
  insert into ai.budgets as b (scope, subject_id, workspace_id, label, limit_usd, period_start, spent_usd)
  select
    set_budget.scope, subject, workspace, set_budget.label, set_budget.limit_usd, month,
    coalesce(sum(r.cost_usd), 0)
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= month::timestamp at time zone 'UTC'
    and case set_budget.scope
      when 'workspace' then true
      when 'app' then r.app_id = subject
      when 'member' then r.actor_id = subject
      when 'label' then r.entity_id = set_budget.label
      else r.key_lineage_id = subject
    end;
end
$$;

create or replace function ai.budget_subjects(workspace uuid, with_keys boolean)
  returns table (scope text, subject_id uuid, live boolean, since timestamptz, label text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select 'workspace', workspace, true, null::timestamptz, null::text
  union all
  select 'app', s.app_id, ai.app_can_act_in_workspace(s.app_id, workspace), (
    select a.created_at from private.apps a where a.id = s.app_id
  ), null
  from (
    select l.app_id from private.app_workspaces l join private.apps a on a.id = l.app_id and a.kind = 'external'
    where l.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'app' and b.limit_usd is not null
  ) as s (app_id)
  union all
  select 'key', k.lineage_id, bool_or(k.revoked_at is null and (k.expires_at is null or k.expires_at > now())),
    min(k.created_at), null
  from ai.keys k
  where with_keys and k.workspace_id = workspace
  group by k.lineage_id
  union all
  select 'member', s.user_id, private.is_workspace_member(s.user_id, workspace), (
    select p.created_at from public.profiles p where p.id = s.user_id
  ), null
  from (
    select m.user_id from public.workspace_members m where m.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'member' and b.limit_usd is not null
  ) as s (user_id)
  union all
  select 'label', ai.label_id(s.label), true, null, s.label
  from (
    select k.entity_id from ai.keys k
    where k.workspace_id = workspace and k.entity_id is not null and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
    union
    select b.label from ai.budgets b where b.workspace_id = workspace and b.scope = 'label' and b.limit_usd is not null
  ) as s (label)
$$;

create or replace function ai.is_label_enforced(label text, workspace uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select from ai.keys k
    where k.workspace_id = workspace and k.entity_id = is_label_enforced.label and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
  )
$$;

-- Definer: the service role writes no alerts.
create or replace function ai.sweep_credit_alerts(max_alerts integer default 100) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_credit_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_credit_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'accountId', k.id,
        'payer', case when k.workspace_id is null then 'member' else 'workspace' end,
        'workspaceId', k.shown_id,
        'workspace', k.shown_name,
        'level', k.level,
        'crossedAt', ai.utc_text_microseconds(k.crossed_at),
        'balance', trim_scale(k.balance)::text,
        'reserved', trim_scale(k.reserved)::text,
        'available', trim_scale(k.balance - k.reserved)::text,
        'threshold', trim_scale(k.threshold)::text
      )
      order by k.crossed_at, k.id
    ), '[]')
    from (
      select a.*, p.level, p.threshold, p.crossed_at, w.shown_id, w.shown_name
      from ai.credit_alerts p
      join ai.credit_accounts a on a.id = p.account_id
      -- The workspace to link to: the one that pays, or one where the member pays.
      cross join lateral (
        select s.id as shown_id, s.name as shown_name
        from public.workspaces s
        join ai.plans l on l.id = s.plan_id and l.payer = 'workspace'
        where s.id = a.workspace_id and s.deleted_at is null
        union all
        (
          select s.id, s.name
          from public.workspace_members m
          join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
          join ai.plans l on l.id = s.plan_id and l.payer = 'member'
          where m.user_id = a.user_id
          order by s.personal_user_id is not distinct from a.user_id desc, s.created_at, s.id
          limit 1
        )
      ) w
      where p.posted_at is null
      order by p.crossed_at
      limit max_alerts
    ) k
  );
end
$$;

create or replace function ai.credit_level(account ai.credit_accounts, threshold numeric) returns ai.credit_level
  language sql
  stable
  security invoker
  parallel safe
as $$
  select case
    when (account).balance <= 0 then 'empty'
    when (account).refused_at > now() - interval '1 hour'
      and (account).balance - (account).reserved < case when threshold > 0 then threshold else 1000 end then 'empty'
    when (account).balance < threshold then 'low'
    else 'funded'
  end::ai.credit_level
$$;

create or replace function ai.low_credits(plan ai.plans) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select coalesce((plan).low_credits, case when (plan).initial_credits > 0 then (plan).initial_credits * 0.1 else 10000 end)
$$;

create or replace function ai.paying_plans(workspaces uuid[], members uuid[]) returns table (owner_id uuid, plan ai.plans)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select distinct on (w.owner_id) w.owner_id, p
  from (
    select s.id as owner_id, s.plan_id, 'workspace' as payer
    from unnest(workspaces) as u (id)
    join public.workspaces s on s.id = u.id and s.deleted_at is null
    union all
    select m.user_id, s.plan_id, 'member'
    from unnest(members) as u (id)
    join public.workspace_members m on m.user_id = u.id
    join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
  ) w
  join ai.plans p on p.id = w.plan_id and p.payer = w.payer
  order by w.owner_id, p.initial_credits desc, p.id
$$;

create or replace function ai.paying_plan(payer text, owner_id uuid) returns setof ai.plans
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select (p.plan).*
  from ai.paying_plans(
    case payer when 'workspace' then array[paying_plan.owner_id] end, case payer when 'member' then array[paying_plan.owner_id] end
  ) as p
$$;

create or replace function ai.credit_recipients(workspace uuid, member_id uuid) returns setof text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select r.email from ai.budget_recipients('workspace', workspace) as r (email)
  union all
  select u.email
  from auth.users u
  where u.id = member_id
    and char_length(u.email) between 3 and 320
    and u.deleted_at is null
    and (u.banned_until is null or u.banned_until <= now())
$$;

-- Definer: as ai.read_usage.
create or replace function ai.read_credit_notice(member_id uuid, workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object('level', x.level, 'available', trim_scale(greatest((o.a).balance - (o.a).reserved, 0))::text)
  from public.workspaces w
  join ai.plans p on p.id = w.plan_id
  cross join lateral (
    select a from ai.credit_accounts a
    where case p.payer when 'workspace' then a.workspace_id = w.id else a.user_id = member_id end
    union all
    -- The first call opens the account.
    select jsonb_populate_record(null::ai.credit_accounts, jsonb_build_object('balance', p.initial_credits, 'reserved', 0))
    where not exists (
      select from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = case p.payer when 'workspace' then w.id else member_id end
    )
  ) o
  cross join lateral (
    select ai.credit_level(
      o.a,
      case p.payer
        when 'member' then (select ai.low_credits(m) from ai.paying_plan('member', member_id) as m)
        else ai.low_credits(p)
      end
    ) as level
  ) x
  where w.id = workspace and w.deleted_at is null and x.level > 'funded'
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;

-- Definer: the service role writes no requests, and cannot read Supabase Auth's email addresses.
create or replace function ai.request_key_approval(member_id uuid, workspace uuid, note text, email jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  known ai.key_approval_requests;
  emails_admins boolean;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Serializes a member's requests: each counts the emails of earlier ones.
  perform pg_advisory_xact_lock(hashtextextended('ai.request_key_approval ' || member_id, 0));
  -- Approving and declining lock the workspace too.
  perform from public.workspaces w where w.id = workspace and w.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select * into known from ai.key_approval_requests q where q.workspace_id = workspace;
  if known.state = 'open' or exists (select from ai.key_approvals a where a.workspace_id = workspace) then
    return ai.key_approval_state(workspace);
  end if;
  emails_admins := ai.may_email_admins(member_id, known);
  insert into ai.key_approval_requests as q (workspace_id, requested_by, note, admins_emailed_at, admins_emailed_for)
  values (
    workspace, member_id, nullif(btrim(request_key_approval.note), ''),
    case when emails_admins then now() else known.admins_emailed_at end,
    case when emails_admins then member_id else known.admins_emailed_for end
  )
  on conflict (workspace_id) do update
  set
    requested_by = excluded.requested_by,
    requested_at = excluded.requested_at,
    note = excluded.note,
    state = 'open',
    answered_at = null,
    decline_reason = null,
    admins_emailed_at = excluded.admins_emailed_at,
    admins_emailed_for = excluded.admins_emailed_for;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_key_approval.email ->> 'subject', request_key_approval.email ->> 'text', now()
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
  where emails_admins and ai.can_be_emailed(u);
  return ai.key_approval_state(workspace);
end
$$;

-- Definer: the service role writes no requests.
create or replace function ai.withdraw_key_approval_request(member_id uuid, workspace uuid, requested_at timestamptz)
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  update ai.key_approval_requests q
  set state = 'withdrawn'
  where q.workspace_id = workspace and q.requested_at = withdraw_key_approval_request.requested_at and q.state = 'open';
  return ai.key_approval_state(workspace);
end
$$;

create or replace function ai.key_approval_state(workspace uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'request', (
      select jsonb_build_object(
        'state', q.state,
        'requestedAt', q.requested_at,
        'requestedBy', (select p.display_name from public.profiles p where p.id = q.requested_by),
        'note', q.note,
        'answeredAt', q.answered_at,
        'declineReason', q.decline_reason
      )
      from ai.key_approval_requests q
      where q.workspace_id = workspace
    )
  )
$$;

create or replace function ai.may_email_admins(member_id uuid, previous ai.key_approval_requests) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    not coalesce(previous.state = 'withdrawn' and previous.admins_emailed_at > now() - interval '24 hours', false)
    and (
      select count(*) < 5
      from ai.key_approval_requests q
      where q.admins_emailed_for = member_id and q.admins_emailed_at > now() - interval '24 hours'
    )
$$;

create or replace function ai.can_be_emailed(account auth.users) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    char_length(account.email) between 3 and 320
      and account.deleted_at is null
      and (account.banned_until is null or account.banned_until <= now()),
    false
  )
$$;

create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (key).id,
    'name', (key).name,
    'prefix', 'ttr_ai_' || (key).lookup,
    'environment', (key).environment,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', (key).last_used_at,
    'expiresAt', (key).expires_at,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'entityId', (key).entity_id,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
    'spentThisMonthUsd', case when ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text end,
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when not ai.cost_visible(b.workspace_id) then null
          when b.period_start = date_trunc('month', now() at time zone 'UTC')::date then trim_scale(b.spent_usd)::text
          else '0'
        end
      )
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.limit_usd is not null
    )
  )
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_keys(member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', ai.key_summaries(workspace, array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Definer: as ai.list_keys.
create or replace function ai.read_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  found_keys ai.keys[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  found_keys := array(select k from ai.keys k where k.id = read_key.key_id and k.workspace_id = workspace);
  if found_keys = '{}' then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'key', ai.key_summaries(workspace, found_keys) -> 0
  );
end
$$;

-- Definer: the service role writes no keys, so that none is made past these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  allowed text[] := ai.text_list(key -> 'allowedModels');
  unknown text[] := ai.unknown_models(allowed);
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if (
    select count(*) >= 200 from ai.keys k
    where k.workspace_id = workspace and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
  ) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  select
    id, id, workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'), issue_key.lookup,
    decode(issue_key.secret_hash, 'hex'), app, allowed, ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId'
  from (select gen_random_uuid() as id) as made_id
  returning * into made;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', made.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  perform private.log_workspace_change(workspace, 'key.created', made.id, made.name);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made, 0));
end
$$;

create or replace function ai.text_list(list jsonb) returns text[]
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case when jsonb_typeof(list) = 'array' then array(select jsonb_array_elements_text(list)) end
$$;

-- Definer: as ai.issue_key.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  -- The new key will refer to the workspace, and an account's deletion locks that before its keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- One rotation of a key at a time; the second finds it replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into made;
  update ai.keys k
  set
    replaced_by = made.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', made.id, made.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[made]) -> 0);
end
$$;

create or replace function ai.create_key(
  workspace_id uuid,
  created_by uuid,
  name text,
  lookup text,
  secret_hash bytea,
  environment text default 'production',
  allowed_models text[] default null,
  requests_per_minute integer default null,
  tokens_per_minute bigint default null,
  monthly_budget_usd numeric default null,
  expires_at timestamptz default null,
  entity_id text default null
) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
#variable_conflict use_column
declare
  key_id uuid := gen_random_uuid();
begin
  perform from ai.key_approvals a where a.workspace_id = create_key.workspace_id;
  if not found then
    raise exception 'the workspace has no approval to create keys' using errcode = 'insufficient_privilege';
  end if;
  if ai.unknown_models(allowed_models) is not null then
    raise exception 'unknown models: %', array_to_string(ai.unknown_models(allowed_models), ', ')
      using errcode = 'invalid_parameter_value';
  end if;

  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, environment, allowed_models,
    requests_per_minute, tokens_per_minute, expires_at, entity_id
  )
  values (
    key_id, key_id, create_key.workspace_id, create_key.created_by, create_key.name, create_key.lookup,
    create_key.secret_hash, create_key.environment, create_key.allowed_models, create_key.requests_per_minute,
    create_key.tokens_per_minute, create_key.expires_at, create_key.entity_id
  );

  if monthly_budget_usd is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', key_id, create_key.workspace_id, monthly_budget_usd);
  end if;
  return key_id;
end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_overview(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, grouped_by text default 'day', days_each integer default 1, max_rows integer default 500
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
  -- Planned once a connection.
  set plan_cache_mode = force_generic_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  fault text := coalesce(
    (ai.usage_window(range_from, range_to, 30)).fault, (ai.usage_window(previous_from, previous_to, 30)).fault
  );
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', fault);
  end if;
  return (
    with current as materialized (
      select * from ai.usage_by_key(workspace, range_from, range_to, grouped_by, days_each, visible)
    ), previous as materialized (
      select * from ai.usage_by_key(workspace, previous_from, previous_to, grouped_by, days_each, visible)
    ), deducted as materialized (
      select ((d.day - range_from::date) / days_each * days_each)::text as key, d.credits
      from ai.unlinked_deductions_by_day(member_id, workspace, range_from, range_to) d
    ), listed as (
      select coalesce(c.key, p.key) as key, c.sums, p.sums as previous_sums, c.cost_usd, c.billed_credits, c.requests
      from (select * from current where key is not null) c
      full join (select * from previous where key is not null) p on p.key = c.key
    ), shown as (
      select l.*, row_number() over (
        order by
          case when grouped_by = 'day' then l.key::integer end desc,
          case when visible then l.cost_usd else l.billed_credits end desc nulls last,
          l.requests desc nulls last,
          l.key collate "C"
      ) as place
      from listed l
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'everUsed', exists (select from ai.runs r where r.workspace_id = workspace),
      'totals', t.sums || jsonb_build_object(
        'otherDeductions', trim_scale(o.credits)::text,
        'usedCredits', trim_scale(o.credits + coalesce(t.billed_credits, 0))::text
      ),
      'previous', b.sums || jsonb_build_object(
        'usedCredits', trim_scale(
          ai.unlinked_deductions(member_id, workspace, previous_from, previous_to) + coalesce(b.billed_credits, 0)
        )::text
      ),
      'rows', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'key', s.key,
            'name', case grouped_by
              when 'key' then (
                select k.name from ai.keys k
                where k.lineage_id = nullif(s.key, '')::uuid and k.workspace_id = workspace
                order by k.created_at desc limit 1
              )
              when 'app' then ai.app_label(nullif(s.key, '')::uuid)
              when 'member' then ai.member_label(workspace, nullif(s.key, '')::uuid)
            end,
            'now', s.sums,
            'before', s.previous_sums
          )
          order by s.place
        ), '[]')
        from shown s
        where s.place <= max_rows
      ),
      'series', case when grouped_by = 'model' then (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'day', m.day,
            'model', m.model,
            'requests', m.requests,
            'failed', m.failed,
            'tokens', m.tokens,
            'amountUsd', case when visible then trim_scale(m.cost_usd)::text end,
            'billedCredits', trim_scale(m.billed_credits)::text
          )
          order by m.day, m.place
        ), '[]')
        from ai.model_usage_by_day(
          workspace, range_from, range_to, days_each,
          array(select s.key from shown s where s.cost_usd is not null order by s.place limit 6)
        ) m
      ) end,
      'leftOut', (select count(*) from shown s where s.place > max_rows),
      'deductions', (
        select coalesce(jsonb_object_agg(x.key, trim_scale(x.credits)::text), '{}')
        from (select d.key, sum(d.credits) as credits from deducted d group by d.key) x
      )
    )
    from (select * from current where key is null) t
    cross join (select * from previous where key is null) b
    cross join (select coalesce(sum(d.credits), 0) as credits from deducted d) o
  );
end
$$;

create or replace function ai.usage_key(part ai.usage_daily, grouped_by text, first_day date, days_each integer) returns text
  language sql
  immutable
  security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then (part).model_id
    when 'feature' then (part).feature
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
    when 'member' then coalesce((part).actor_id::text, '')
    else ''
  end
$$;

-- Definer: as ai.read_workspace_policy; and the service role writes no budgets.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels');
  foreach param in array array['allowedModels', 'deniedModels'] loop
    unknown := ai.unknown_models(array(
      select n.name from unnest(ai.text_list(changes -> param)) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
  where p.workspace_id = workspace;
  -- Apps before the workspace: the order of the locks.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

-- Definer: as ai.read_budgets.
create or replace function ai.read_policy_options(member_id uuid, workspace uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
    and not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return (
    select jsonb_build_object(
      'outcome', 'read',
      'plan', p.name,
      'requestsPerMinute', p.requests_per_minute,
      'tokensPerMinute', p.tokens_per_minute,
      'models', (
        select coalesce(
          jsonb_agg(
            jsonb_build_object(
              'id', m.id, 'name', m.display_name, 'kind', m.kind,
              'granted', exists (
                select from ai.model_grants g
                where g.model_id = m.id and (g.plan_id = w.plan_id or g.workspace_id = w.id)
              ),
              'permitted', coalesce(m.id = any (r.allowed_models), true) and not m.id = any (coalesce(r.denied_models, '{}'))
            )
            order by ai.model_order(m)
          ),
          '[]'
        )
        from ai.models m
        where m.enabled and m.studio_default
      )
    )
    from public.workspaces w
    left join ai.plans p on p.id = w.plan_id
    left join ai.workspace_policies r on r.workspace_id = w.id
    where w.id = workspace
  );
end
$$;

create or replace function ai.run_summary(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (run).id,
    'requestId', (run).request_id,
    'createdAt', (run).created_at,
    'settledAt', (run).settled_at,
    'model', (run).model_id,
    'feature', (run).feature,
    'entityId', (run).entity_id,
    'credentialSource', (run).credential_source,
    'executionMode', (run).execution_mode,
    'keyId', (run).key_id,
    'keyName', (select k.name from ai.keys k where k.id = (run).key_id),
    'appId', (run).app_id,
    'appName', (select a.display_name from private.apps a where a.id = (run).app_id),
    'memberId', (run).actor_id,
    'memberName', (select p.display_name from public.profiles p where p.id = (run).actor_id),
    'userId', case when (run).credential_source <> 'key' then (run).actor_id end,
    'streamed', (run).streamed,
    'status', (run).status,
    'httpStatus', (run).http_status,
    'errorCode', (run).error_code,
    'usageSource', (run).usage_source,
    'inputTokens', (run).input_tokens,
    'cachedInputTokens', (run).cached_input_tokens,
    'outputTokens', (run).output_tokens,
    'reasoningTokens', (run).reasoning_tokens,
    'audioInputTokens', (run).audio_input_tokens,
    'audioOutputTokens', (run).audio_output_tokens,
    'cacheWriteTokens', (run).cache_write_tokens + (run).cache_write_1h_tokens,
    'imageInputTokens', (run).image_input_tokens,
    'feeRequests', (run).fee_requests,
    'servedTier', case when cost_visible then (run).served_tier end,
    'marks', (run).marks,
    'billedCredits', trim_scale((run).billed_credits)::text,
    'unmeteredCredits', trim_scale((run).unmetered_credits)::text,
    'costUsd', case when cost_visible then trim_scale((run).cost_usd)::text end,
    'firstByteMs', (run).first_byte_ms,
    'latencyMs', (run).latency_ms,
    'provider', case when cost_visible then ai.run_provider((run).routes, (run).route) end
  )
$$;

create or replace function ai.run_pricing_facts(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  -- Without a search path or a subselect, Postgres inlines it into its caller's plan.
as $$
  select jsonb_build_object('priced', jsonb_build_object(
    'cacheWrite1hTokens', (run).cache_write_1h_tokens,
    'exempt', (run).exempt,
    'swept', (run).swept,
    'idempotent', (run).idempotency_key is not null,
    'askedProvider', jsonb_path_exists(coalesce((run).steps, '[]'), '$[*] ? (@.type == "model" || @.type == "retry")'),
    'reservedCredits', case when (run).status = 'running' then trim_scale((run).reserved_credits)::text end
  ) || case when cost_visible then jsonb_build_object(
    'markup', trim_scale((run).markup)::text,
    'creditsPerUsd', trim_scale(ai.credits_per_usd((run).markup))::text,
    'route', (run).route,
    'routes', case
      when jsonb_path_exists((run).attempts, '$[*].charged') then (run).routes
      else jsonb_path_query_array(
        (run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route)
      )
    end,
    'attempts', coalesce((run).attempts, '[]')
  ) else '{}' end)
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_runs(
  member_id uuid,
  workspace uuid,
  filter jsonb default '{}',
  before jsonb default null,
  page_size integer default 50,
  scan_limit integer default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A plan for every filter uses no index and reads every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  -- A comparison of rows, (created_at, id) < (last_at, last_id), would prune no partition.
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_app uuid := (filter ->> 'appId')::uuid;
  of_member uuid := (filter ->> 'memberId')::uuid;
  of_provider text := filter ->> 'provider';
  of_entity text := filter ->> 'entityId';
  of_request text := filter ->> 'requestId';
  unknown_name text;
  scanned_to record;
  older_than timestamptz;
  found_runs jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  unknown_name := ai.unknown_run_filter(workspace, filter);
  -- A deleted app or account can still have runs.
  if unknown_name in ('provider', 'keyId') then
    return jsonb_build_object('outcome', 'listed', 'runs', '[]'::jsonb, 'unknown', unknown_name);
  end if;
  -- A request id has an index. The other filters have none, which every call would pay for.
  if of_request is not null
    or num_nonnulls(of_model, of_feature, of_status, of_key, of_app, of_member, of_provider, of_entity) = 0
  then
    scan_limit := null;
  end if;
  select coalesce(jsonb_agg(
    -- Not in ai.run_summary, which would plan it again for each run.
    ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible) order by r.created_at desc, r.id desc
  ), '[]') into found_runs
  from (
    select *
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      limit scan_limit
    ) as scanned
    where (of_model is null or scanned.model_id = of_model)
      and (of_feature is null or scanned.feature = of_feature)
      and (of_status is null or scanned.status = of_status)
      and (of_key is null or scanned.key_id = of_key)
      and (of_app is null or scanned.app_id = of_app)
      and (of_member is null or scanned.actor_id = of_member)
      and (of_provider is null or ai.run_provider(scanned.routes, scanned.route) = of_provider)
      and (of_entity is null or scanned.entity_id = of_entity)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  ) r;
  if scan_limit is null or jsonb_array_length(found_runs) >= page_size then
    return jsonb_build_object(
      'outcome', 'listed',
      'runs', found_runs,
      'unknown', case when before is null and found_runs = '[]' then unknown_name end
    );
  end if;
  select r.created_at, r.id into scanned_to
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= starts_at
    and r.created_at < ends_at
    and not (r.created_at = last_at and r.id >= last_id)
  order by r.created_at desc, r.id desc
  offset scan_limit - 1
  limit 1;
  older_than := ai.runs_may_exist_before(workspace, filter, scanned_to.created_at);
  return jsonb_build_object(
    'outcome', 'listed',
    'runs', found_runs,
    'unknown', case when before is null and found_runs = '[]' and older_than is null then unknown_name end,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;

create or replace function ai.unknown_run_filter(workspace uuid, filter jsonb) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when filter ? 'provider' and not (
      ai.cost_visible(workspace) and exists (select from ai.model_prices p where p.provider_id = filter ->> 'provider')
    ) then 'provider'
    when filter ? 'keyId' and not exists (
      select from ai.keys k where k.id = (filter ->> 'keyId')::uuid and k.workspace_id = workspace
    ) then 'keyId'
    when filter ? 'appId' and not exists (select from private.apps a where a.id = (filter ->> 'appId')::uuid) then 'appId'
    when filter ? 'memberId' and not exists (
      select from public.profiles p where p.id = (filter ->> 'memberId')::uuid
    ) then 'memberId'
  end
$$;

-- Definer: as ai.list_runs.
create or replace function ai.list_run_filters(member_id uuid, workspace uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'ended', k.revoked_at is not null or coalesce(k.expires_at <= now(), false)
      ) order by k.created_at desc, k.id), '[]')
      from (
        select * from ai.keys o where o.workspace_id = workspace order by o.created_at desc, o.id limit 100
      ) k
    ),
    'apps', (
      select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id), '[]')
      from (
        select o.id, o.display_name
        from private.app_workspaces l
        join private.apps o on o.id = l.app_id
        where l.workspace_id = workspace
        order by o.display_name, o.id
        limit 100
      ) a
    ),
    'members', (
      select coalesce(jsonb_agg(jsonb_build_object('id', m.user_id, 'name', m.name)), '[]')
      from public.list_workspace_members(workspace, page_size => 100) m
    ),
    'providers', case when ai.cost_visible(workspace) then (
      select coalesce(jsonb_agg(p.id order by p.id), '[]')
      from (
        select distinct r.provider_id as id
        from ai.model_routes r
        join ai.model_grants g on g.model_id = r.model_id
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
        order by 1
        limit 100
      ) p
    ) end
  );
end
$$;

create or replace function ai.runs_may_exist_before(workspace uuid, filter jsonb, moment timestamptz) returns timestamptz
  language plpgsql
  stable
  security invoker
  set search_path = ''
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_day date := (moment at time zone 'UTC')::date;
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_app uuid := (filter ->> 'appId')::uuid;
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_lineage uuid := (select k.lineage_id from ai.keys k where k.id = of_key);
  of_provider text := filter ->> 'provider';
  day date;
begin
  -- Sums do not count open runs apart, and today has none.
  if moment is null or of_status = 'running' or last_day >= (select s.before from ai.usage_sealed_days s) then
    return moment;
  end if;
  select greatest(
    (
      select u.day
      from ai.usage_daily u
      where u.workspace_id = workspace
        and u.day <= last_day
        and (of_model is null or u.model_id = of_model)
        and (of_feature is null or u.feature = of_feature)
        and (of_app is null or u.app_id = of_app)
        and (of_key is null or u.key_lineage_id = of_lineage)
        and (of_provider is null or u.provider_id = of_provider)
        and (of_status is null or case of_status when 'failed' then u.failed > 0 else u.requests > u.failed end)
      order by u.day desc
      limit 1
    ),
    -- Days that changed since they were summed.
    (select max(c.day) from ai.usage_changed_days c where c.workspace_id = workspace and c.day <= last_day)
  ) into day;
  if day is null or day < (starts_at at time zone 'UTC')::date then
    return null;
  end if;
  return least(moment, (day + 1)::timestamp at time zone 'UTC');
end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.usage_between(workspace, asked.window_from, asked.window_to, by_member)
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) and visible then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- Servers of the previous release continue with seven parts.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed
      from parts u
      where not by_label
      group by 1
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed)
      from ai.label_usage_between(workspace, asked.window_from, asked.window_to) l
      where by_label
      group by 1
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.utc_text_microseconds(asked.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'day', nullif(p.key[1], ''),
            'model', nullif(p.key[2], ''),
            'feature', nullif(p.key[3], ''),
            'executionMode', nullif(p.key[4], ''),
            'provider', nullif(p.key[5], ''),
            'keyId', nullif(p.key[6], ''),
            'keyName', (
              select k.name from ai.keys k
              where k.lineage_id = nullif(p.key[6], '')::uuid and k.workspace_id = workspace
              order by k.created_at desc limit 1
            ),
            'appId', nullif(p.key[7], ''),
            'appName', ai.app_label(nullif(p.key[7], '')::uuid),
            'memberId', case when by_member then nullif(p.key[8], '') end,
            'memberName', case when by_member then ai.member_label(workspace, nullif(p.key[8], '')::uuid) end,
            'label', case when by_label then nullif(p.key[8], '') end,
            'position', p.key
          )
          order by p.key collate "C"
        ), '[]')
        from (
          select * from grouped g
          where after is null or g.key collate "C" > after collate "C"
          order by g.key collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

create or replace function ai.member_label(workspace uuid, member uuid) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    (
      select coalesce(p.display_name, 'Unknown')
      from public.workspace_members m
      left join public.profiles p on p.id = m.user_id
      where m.workspace_id = workspace and m.user_id = member
    ),
    'Former member'
  )
  where member is not null
$$;

create or replace function ai.latency_mark(ms integer) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Concatenates text only: || with a number is not immutable, so Postgres would not inline the function.
  select ('1e' || (12 * ai.latency_bucket(ms))::text)::numeric
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.live_usage_ranges(
  workspace uuid, window_from timestamptz, window_to timestamptz, detailed boolean
) returns table (first_moment timestamptz, end_moment timestamptz, first_day date, last_day date)
  language sql
  stable
  security invoker
as $$
  with bounds as (
    select
      s.before,
      case when detailed then least(s.detailed_from, s.before) else '-infinity' end as sums_from,
      (window_from at time zone 'UTC')::date as first_day,
      (window_to at time zone 'UTC')::date as last_day
    from ai.usage_sealed_days s
  ), days as (
    select c.day
    from bounds b
    join ai.usage_changed_days c on c.workspace_id = workspace and c.day between b.first_day and b.last_day
    where c.day >= b.sums_from and c.day < b.before
    union
    -- Days that the window cuts.
    select e.day
    from bounds b
    cross join lateral (values (b.first_day, window_from), (b.last_day, window_to)) as e (day, edge)
    where e.day >= b.sums_from and e.day < b.before and e.edge <> e.day::timestamp at time zone 'UTC'
  ), ranges as (
    select d.day::timestamp at time zone 'UTC' as first_moment, (d.day + 1)::timestamp at time zone 'UTC' as end_moment
    from days d
    union all
    select '-infinity', b.sums_from::timestamp at time zone 'UTC' from bounds b
    union all
    select b.before::timestamp at time zone 'UTC', 'infinity' from bounds b
  )
  select
    c.first_moment, c.end_moment, (c.first_moment at time zone 'UTC')::date,
    ((c.end_moment - interval '1 microsecond') at time zone 'UTC')::date
  from ranges r
  cross join lateral (
    select greatest(window_from, r.first_moment) as first_moment, least(window_to, r.end_moment) as end_moment
  ) c
  where c.first_moment < c.end_moment
$$;

-- Definer: the server's service role holds no grant to write sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  return ai.seal_completed_usage_days(max_days) + ai.rebuild_changed_usage_days(max_days) + ai.detail_older_usage_days(max_days);
end
$$;

create or replace function ai.seal_completed_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  -- A call of yesterday has long committed: the gateway's statements take 10 seconds at most.
  last_end date := ((now() - interval '15 minutes') at time zone 'UTC')::date;
  next_day date;
  sealed integer := 0;
begin
  select s.before into next_day from ai.usage_sealed_days s;
  while next_day < last_end and sealed < max_days loop
    perform ai.rebuild_usage_day(next_day, ai.workspaces_used_on(next_day));
    next_day := next_day + 1;
    sealed := sealed + 1;
  end loop;
  if sealed > 0 then
    update ai.usage_sealed_days s
    set before = next_day, detailed_from = coalesce(s.detailed_from, next_day - sealed)
    where s.singleton;
  end if;
  return sealed;
end
$$;

create or replace function ai.detail_older_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  next_day date := (select least(s.detailed_from, s.before) from ai.usage_sealed_days s);
  first_run date;
  summed integer := 0;
begin
  if next_day = '-infinity' then
    return 0;
  end if;
  select (min(r.created_at) at time zone 'UTC')::date into first_run from ai.runs r;
  while next_day > first_run and summed < max_days loop
    next_day := next_day - 1;
    perform ai.rebuild_usage_day(next_day, ai.workspaces_used_on(next_day));
    summed := summed + 1;
  end loop;
  update ai.usage_sealed_days s
  set detailed_from = case when next_day > first_run then next_day else '-infinity' end
  where s.singleton;
  return summed;
end
$$;

create or replace function ai.workspaces_used_on(day date) returns uuid[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array(
    select distinct r.workspace_id
    from ai.runs r
    where r.created_at >= day::timestamp at time zone 'UTC' and r.created_at < (day + 1)::timestamp at time zone 'UTC'
  )
$$;

-- As ai.sum_usage.
create or replace function ai.sum_labels(workspace uuid, first_moment timestamptz, end_moment timestamptz)
  returns setof ai.usage_labels_daily
  language sql
  stable
  security invoker
as $$
  select
    workspace, n.day, n.label,
    sum(n.requests)::bigint, sum(n.failed)::bigint, sum(n.input_tokens)::bigint, sum(n.output_tokens)::bigint,
    sum(n.cost_usd), sum(n.billed_credits), sum(n.unmetered_credits), sum(n.latency_ms)::bigint, sum(n.timed)::bigint
  from (
    select
      g.*,
      case
        when g.entity_id is null then ''
        when row_number() over (
          partition by g.day
          order by g.entity_id is null, g.cost_usd desc, g.requests desc, g.entity_id collate "C"
        ) <= 10000 then g.entity_id
        else '*'
      end as label
    from (
      select
        (r.created_at at time zone 'UTC')::date as day, r.entity_id, count(*) as requests,
        count(*) filter (where r.status = 'failed') as failed, sum(r.input_tokens) as input_tokens,
        sum(r.output_tokens) as output_tokens, sum(r.cost_usd) as cost_usd, sum(r.billed_credits) as billed_credits,
        sum(r.unmetered_credits) as unmetered_credits, coalesce(sum(r.latency_ms), 0) as latency_ms,
        count(r.latency_ms) as timed
      from ai.runs r
      where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
      group by 1, 2
    ) g
  ) n
  group by n.day, n.label
$$;

-- Definer: no role may call its parts.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens'
    ]) as p (part)
  )
$$;

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_proper(subject_id uuid, with_parts boolean) returns jsonb
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
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'credits', (
      select jsonb_build_object('balance', a.balance::text, 'ledger', private.export_whole_part(u.id, 'ledger', with_parts))
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

-- Definer: as private.list_address_blocks.
create or replace function private.read_address_block(block_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.describe_address_block(b) from private.address_blocks b where b.id = block_id
$$;

-- Definer: the service role cannot read the identity backend's email addresses.
create or replace function private.read_credit_account(
  payer text, owner_id uuid, before_id bigint default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
  -- A generic plan would read the whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
  select jsonb_build_object(
    'payer', payer,
    'id', o.id,
    'name', o.name,
    'personalUserId', o.personal_user_id,
    -- The plan that the account pays for now.
    'plan', (
      select jsonb_build_object(
        'id', p.id, 'name', p.name, 'initialCredits', trim_scale(p.initial_credits)::text,
        'lowCredits', trim_scale(ai.low_credits(p))::text
      )
      from ai.paying_plan(payer, o.id) p
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text,
        'refusedAt', a.refused_at
      )
      from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = o.id
    ),
    'entries', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', e.id::text,
        'createdAt', ai.utc_text_microseconds(e.created_at),
        'kind', e.kind,
        'amount', trim_scale(e.amount)::text,
        'balanceAfter', trim_scale(e.balance_after)::text,
        'runId', e.run_id,
        'description', e.description,
        'reference', r.reference
      ) order by e.id desc), '[]')
      from (
        select l.*
        from ai.credit_accounts a
        join ai.credit_ledger l on l.account_id = a.id
        where coalesce(a.workspace_id, a.user_id) = o.id and (before_id is null or l.id < before_id)
        order by l.id desc
        limit page_size
      ) e
      left join ai.credit_references r on r.account_id = e.account_id and r.entry_id = e.id
    )
  )
  from (
    select w.id, w.name::text, w.personal_user_id
    from public.workspaces w
    where payer = 'workspace' and w.id = owner_id and w.deleted_at is null
    union all
    select u.id, coalesce(u.email, u.id::text), u.id
    from auth.users u
    where payer = 'member' and u.id = owner_id and u.deleted_at is null
  ) o
$$;

create or replace function private.list_catalogue_models(
  term text default '', only_id text default null, after text[] default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'studioDefault', m.studio_default,
    'sortsAs', m.sorts_as,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- By the rule of calls, as if every provider were connected.
    'hasPrice', ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) is not null,
    'hasGrant', exists (
      select
      from ai.model_grants g
      left join public.workspaces w on w.id = g.workspace_id
      where g.model_id = m.id and (g.plan_id is not null or w.deleted_at is null)
    ),
    -- As calls go: open routes first, in their order.
    'providers', (
      select coalesce(jsonb_agg(p.provider_id order by p.is_shut, p.position), '[]')
      from (
        select distinct on (r.provider_id) r.provider_id, not r.enabled as is_shut, r.position
        from ai.model_routes r
        where r.model_id = m.id
        order by r.provider_id, r.enabled desc, r.position
      ) as p
    ),
    'prices', (
      select coalesce(jsonb_agg(private.describe_price(p)
        order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id and (page_size is null or p.valid @> now())
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where (only_id is null or l.id = only_id)
      and (position(lower(term) in lower(l.id)) > 0 or position(lower(term) in lower(l.display_name)) > 0)
      and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

create or replace function private.read_model(model text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select (private.list_catalogue_models(only_id => m.id) -> 0) || jsonb_build_object(
    'version', private.model_version(m.id),
    'contextWindow', m.context_window,
    'outputLimit', m.output_limit,
    'voices', coalesce(to_jsonb(m.voices), '[]'),
    'isDefault', m.is_default,
    'defaultOfKind', (select d.id from ai.models d where d.kind = m.kind and d.is_default),
    'canDelete', private.was_never_enabled(m),
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'providerId', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'trustsStatedCost', r.trusts_stated_cost,
        'tierMultipliers', (
          select coalesce(jsonb_object_agg(t.key, t.value), '{}') from jsonb_each_text(r.tier_multipliers) as t
        ),
        'firstByteSeconds', r.first_byte_seconds,
        'idleSeconds', r.idle_seconds,
        'totalSeconds', r.total_seconds
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    ),
    'plans', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'name', p.name,
        'granted', exists (select from ai.model_grants g where g.model_id = m.id and g.plan_id = p.id),
        'workspaces', (
          select count(*)
          from (select from public.workspaces w where w.plan_id = p.id and w.deleted_at is null limit 1001) as w
        )
      ) order by p.name, p.id), '[]')
      from ai.plans p
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name) order by w.name, w.id), '[]')
      from private.granted_workspaces(m.id) w
    )
  )
  from ai.models m
  where m.id = model
$$;

create or replace function private.list_plans(only_id text default null) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', p.id,
    'name', p.name,
    'payer', p.payer,
    'markup', trim_scale(p.markup)::text,
    'initialCredits', trim_scale(p.initial_credits)::text,
    'lowCredits', trim_scale(p.low_credits)::text,
    'warnsBelow', trim_scale(ai.low_credits(p))::text,
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'workspaces', (select count(*) from public.workspaces w where w.plan_id = p.id and w.deleted_at is null),
    'models', (select count(*) from ai.model_grants g where g.plan_id = p.id),
    'payerFixed', ai.plan_has_payers(p),
    'version', md5(p::text)
  ) order by p.id), '[]')
  from ai.plans p
  where only_id is null or p.id = only_id
$$;

-- Definer: the service role cannot read the identity backend's email addresses.
create or replace function private.read_console_workspace(workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', w.id,
    'name', w.name,
    'createdAt', w.created_at,
    'personalUserId', w.personal_user_id,
    'planId', w.plan_id,
    'plan', (select private.list_plans(w.plan_id) -> 0),
    'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
    'owners', (
      select coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'email', u.email) order by u.email), '[]')
      from public.workspace_members m
      join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id and r.is_owner
      join auth.users u on u.id = m.user_id
      where m.workspace_id = w.id
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text
      )
      from ai.credit_accounts a
      where a.workspace_id = w.id
    ),
    'approvedAt', k.approved_at,
    'approvedBy', (select u.email from auth.users u where u.id = k.approved_by),
    'liveKeys', (
      select count(*) from ai.keys l
      where l.workspace_id = w.id and l.revoked_at is null and (l.expires_at is null or l.expires_at > now())
    )
  )
  from public.workspaces w
  left join ai.key_approvals k on k.workspace_id = w.id
  where w.id = workspace and w.deleted_at is null
$$;

create or replace function ai.provider_invoices_page(
  workspace uuid, before jsonb, page_size integer, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum(ai.invoice_amount(i, m.days)) filter (where r.by_reference is null), 0))::text,
        'records', count(*),
        'replacedRecords', count(r.by_reference)
      )
      from ai.external_provider_invoices i
      cross join lateral (select ai.month_days(filter ->> 'month') as days) m
      cross join lateral (select ai.invoice_replacement(i) as by_reference) r
      where i.workspace_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p)
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.external_provider_invoices i
        where i.workspace_id = workspace
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  )
$$;

create or replace function ai.invoice_summary(invoice ai.external_provider_invoices) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'kind', (invoice).kind,
    'replaces', (invoice).replaces,
    'replacedBy', ai.invoice_replacement(invoice),
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;

create or replace function ai.budget_subject(
  scope text, workspace uuid, lineage uuid, app uuid, actor uuid, label text
) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select case scope
    when 'key' then lineage
    when 'app' then app
    when 'member' then actor
    when 'label' then ai.label_id(label)
    else workspace
  end
$$;

create or replace function ai.remaining_budgets(caller ai.caller, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'limitUsd', trim_scale(b.limit_usd),
        'spentUsd', case when cost_visible then trim_scale(x.spent) end,
        'reservedUsd', case when cost_visible then trim_scale(b.reserved_usd) end,
        'remainingUsd', case when cost_visible then trim_scale(greatest(b.limit_usd - x.spent - b.reserved_usd, 0)) end,
        'resetsAt', ai.utc_text((m.month + interval '1 month') at time zone 'UTC')
      )
      order by array_position(array['key', 'app', 'member', 'label', 'workspace'], b.scope)
    ),
    '[]'
  )
  from (select date_trunc('month', now() at time zone 'UTC') as month) as m
  cross join unnest((caller).budgets) as s (scope)
  join ai.budgets b
    on b.scope = s.scope
    and b.workspace_id = (caller).workspace_id
    and b.limit_usd is not null
    and b.subject_id = ai.budget_subject(
      s.scope, (caller).workspace_id, (caller).lineage_id, (caller).app_id, (caller).actor_id, (caller).entity_id
    )
  cross join lateral (select case when b.period_start < m.month then 0 else b.spent_usd end as spent) as x
$$;

-- Definer: the service role cannot write alerts or read the identity backend's addresses.
create or replace function ai.queue_credit_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with posted as (
    update ai.credit_alerts k
    set
      posted_at = now(),
      -- Credits were added between the sweep and this call.
      level = least(k.level, ai.credit_level(a, k.threshold))
    from ai.credit_accounts a
    where a.id = k.account_id
      and k.account_id = (alert ->> 'accountId')::uuid
      and k.level = (alert ->> 'level')::ai.credit_level
      and k.crossed_at = (alert ->> 'crossedAt')::timestamptz
      and k.posted_at is null
    returning a.workspace_id, a.user_id, k.level
  ), kept as (
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_credit_alert_mails.subject, queue_credit_alert_mails.body, now()
    from posted p
    cross join lateral ai.credit_recipients(p.workspace_id, p.user_id) as r (email)
    where p.level = (alert ->> 'level')::ai.credit_level
    returning id
  )
  select count(*)::integer from kept
$$;

create or replace function ai.record_credit_alerts() returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with candidates as materialized (
    select a, a.workspace_id, a.user_id, k.threshold as known_threshold
    from ai.credit_accounts a
    left join ai.credit_alerts k on k.account_id = a.id
    -- Rules out most accounts before their plan is looked up.
    where case
      when a.balance <= 0 then k.level is distinct from 'empty'
      else k.level <> 'funded' or a.balance - a.reserved < (select greatest(max(ai.low_credits(p)), 1000) from ai.plans p)
    end
  )
  insert into ai.credit_alerts as k (account_id, level, threshold)
  select (c.a).id, x.level, x.threshold
  from ai.paying_plans(
    array(select o.workspace_id from candidates o where o.workspace_id is not null),
    array(select o.user_id from candidates o where o.user_id is not null)
  ) as p
  join candidates c on coalesce(c.workspace_id, c.user_id) = p.owner_id
  cross join lateral (
    select ai.low_credits(p.plan) as threshold, ai.credit_level(c.a, ai.low_credits(p.plan)) as level
  ) as x
  where x.level > 'funded' or c.known_threshold <> x.threshold
  on conflict (account_id) do update
  set
    threshold = excluded.threshold,
    level = case when excluded.threshold < k.threshold then excluded.level else greatest(k.level, excluded.level) end,
    crossed_at = case when excluded.level > k.level then now() else k.crossed_at end,
    posted_at = case
      when excluded.level > k.level then null
      when excluded.level < k.level and excluded.threshold < k.threshold then coalesce(k.posted_at, now())
      else k.posted_at
    end
  where excluded.level > k.level or excluded.threshold <> k.threshold
$$;

create or replace function ai.reset_credit_alert(account ai.credit_accounts) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update ai.credit_alerts k
  set level = ai.credit_level(account, k.threshold), posted_at = coalesce(k.posted_at, now())
  where k.account_id = (account).id and ai.credit_level(account, k.threshold) < k.level
$$;

-- Definer: the service role cannot read a member's permissions.
create or replace function ai.read_key_approval(member_id uuid, workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then ai.key_approval_state(workspace)
    else jsonb_build_object('outcome', 'not_allowed')
  end
$$;

create or replace function ai.key_summaries(workspace uuid, listed ai.keys[]) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(ai.key_summary(k, c.cost_usd) order by k.created_at desc, k.id desc), '[]')
  from unnest(listed) as k
  left join ai.key_cost_since(
    workspace, array(select l.lineage_id from unnest(listed) as l), date_trunc('month', now(), 'UTC')
  ) c on c.lineage_id = k.lineage_id
$$;

create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible) || ai.run_pricing_facts(run, cost_visible),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'step', s.step, 'type', s.type, 'name', s.name, 'status', s.status, 'latencyMs', s.latency_ms
      ) order by s.step), '[]')
      from jsonb_to_recordset((run).steps) as s (step smallint, type text, name text, status text, latency_ms integer)
    ),
    'attempts', case when cost_visible then (
      select coalesce(jsonb_agg(jsonb_build_object(
        'route', a.route,
        'provider', a.provider,
        'model', a.model,
        'status', a.status,
        'failure', a.failure,
        'upstreamRequestId', a.upstream_request_id,
        'mayHaveCharged', coalesce(a.may_have_charged, false),
        'latencyMs', a.latency_ms
      ) order by a.position), '[]')
      from rows from (jsonb_to_recordset((run).attempts) as (
        route smallint, provider text, model text, status smallint, failure text, upstream_request_id text,
        may_have_charged boolean, latency_ms integer
      )) with ordinality as a (
        route, provider, model, status, failure, upstream_request_id, may_have_charged, latency_ms, position
      )
    ) end,
    'ledger', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', l.kind, 'credits', trim_scale(-l.amount)::text, 'createdAt', l.created_at
      ) order by l.id), '[]')
      from ai.credit_ledger l
      where l.run_id = (run).id
    ),
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end
  )
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.usage_between(
  workspace uuid, window_from timestamptz, window_to timestamptz, by_member boolean default false
)
  returns setof ai.usage_daily
  language sql
  stable
  security invoker
as $$
  with live as materialized (
    select * from ai.live_usage_ranges(workspace, window_from, window_to, by_member)
  )
  select u.*
  from ai.usage_daily u
  where u.workspace_id = workspace
    and u.day >= (window_from at time zone 'UTC')::date
    and u.day < (window_to at time zone 'UTC')::date
    and not exists (select from live l where u.day between l.first_day and l.last_day)
  union all
  select s.*
  from live l
  cross join lateral ai.sum_usage(workspace, l.first_moment, l.end_moment) as s
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.label_usage_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.usage_labels_daily
  language sql
  stable
  security invoker
as $$
  with live as materialized (
    select * from ai.live_usage_ranges(workspace, window_from, window_to, true)
  )
  select u.*
  from ai.usage_labels_daily u
  where u.workspace_id = workspace
    and u.day >= (window_from at time zone 'UTC')::date
    and u.day < (window_to at time zone 'UTC')::date
    and not exists (select from live l where u.day between l.first_day and l.last_day)
  union all
  select s.*
  from live l
  cross join lateral ai.sum_labels(workspace, l.first_moment, l.end_moment) as s
$$;

create or replace function ai.rebuild_usage_day(day date, workspaces uuid[]) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from ai.usage_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_daily
  select s.*
  from unnest(workspaces) as w (id)
  cross join lateral ai.sum_usage(
    w.id, rebuild_usage_day.day::timestamp at time zone 'UTC', (rebuild_usage_day.day + 1)::timestamp at time zone 'UTC'
  ) as s;
  delete from ai.usage_labels_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_labels_daily
  select s.*
  from unnest(workspaces) as w (id)
  cross join lateral ai.sum_labels(
    w.id, rebuild_usage_day.day::timestamp at time zone 'UTC', (rebuild_usage_day.day + 1)::timestamp at time zone 'UTC'
  ) as s
$$;

create or replace function ai.reconciled_costs(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (
    month date, provider text, account_id text, metered numeric, imported numeric, invoiced numeric, runs numeric,
    records bigint, invoices bigint
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select s.month, s.provider, s.account_id, coalesce(sum(s.metered), 0), coalesce(sum(s.imported), 0), coalesce(sum(s.invoiced), 0),
    coalesce(sum(s.requests), 0), count(s.imported), count(s.invoiced)
  from (
    select date_trunc('month', u.day::timestamp)::date as month, ai.billing_provider(u) as provider,
      u.billing_account as account_id, u.cost_usd as metered, null::numeric as imported, null::numeric as invoiced,
      u.requests
    from ai.usage_between(workspace, window_from, window_to) u
    union all
    select date_trunc('month', (c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id,
      null, (c.cost).amount_usd, null, null
    from ai.provider_costs_in_totals(workspace, window_from, window_to) c
    where c.counted
    union all
    select m.first_day::date, i.provider, i.account_id, null, null,
      ai.invoice_amount(i, daterange(m.first_day::date, (m.first_day + interval '1 month')::date) * w.days), null
    from ai.external_provider_invoices i
    cross join (
      -- The days that begin in the window.
      select daterange(
        ((window_from + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date,
        ((window_to + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date
      ) as days
    ) w
    cross join lateral (select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * w.days as days) d
    cross join lateral generate_series(
      date_trunc('month', lower(d.days)::timestamp), upper(d.days) - interval '1 day', interval '1 month'
    ) as m (first_day)
    where i.workspace_id = workspace and not isempty(d.days) and ai.invoice_replacement(i) is null
  ) as s
  group by s.month, s.provider, s.account_id
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer, cost_visible boolean
) returns table (key text, sums jsonb, cost_usd numeric, billed_credits numeric, requests numeric)
  language sql
  stable
  security invoker
as $$
  select
    g.key,
    ai.usage_sums(
      g.requests, g.failed, g.input_tokens, g.output_tokens, case when cost_visible then coalesce(g.cost_usd, 0) end,
      g.billed_credits, g.unmetered_credits, g.latency_ms, g.timed
    ) || jsonb_build_object(
      'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
    ),
    g.cost_usd, g.billed_credits, g.requests
  from (
    -- The row without a key is all of it.
    select
      u.key, sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
      sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
      sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed,
      sum(u.latency_marks) as latency_marks, sum(u.first_token_marks) as first_token_marks
    from (
      select ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.*
      from ai.usage_between(workspace, window_from, window_to, grouped_by = 'member') p
    ) u
    group by grouping sets ((u.key), ())
  ) g
  cross join lateral ai.latency_quantiles(g.latency_marks) as l
  cross join lateral ai.latency_quantiles(g.first_token_marks) as f
  -- By label, only the sums of the whole range.
  where g.key is null or grouped_by <> 'label'
  union all
  select
    b.label,
    ai.usage_sums(
      sum(b.requests), sum(b.failed), sum(b.input_tokens), sum(b.output_tokens), case when cost_visible then sum(b.cost_usd) end,
      sum(b.billed_credits), sum(b.unmetered_credits), sum(b.latency_ms), sum(b.timed)
    ) || '{"latencyP50Ms": null, "latencyP95Ms": null, "firstTokenP50Ms": null, "firstTokenP95Ms": null}',
    sum(b.cost_usd), sum(b.billed_credits), sum(b.requests)
  from ai.label_usage_between(workspace, window_from, window_to) b
  where grouped_by = 'label'
  group by b.label
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.model_usage_by_day(
  workspace uuid, window_from timestamptz, window_to timestamptz, days_each integer, models text[]
) returns table (
  day integer, model text, place integer, requests numeric, failed numeric, tokens numeric, cost_usd numeric,
  billed_credits numeric
)
  language sql
  stable
  security invoker
as $$
  select
    (u.day - (window_from at time zone 'UTC')::date) / days_each * days_each, models[o.place], o.place, sum(u.requests),
    sum(u.failed), sum(u.input_tokens + u.output_tokens), sum(u.cost_usd), sum(u.billed_credits)
  from ai.usage_between(workspace, window_from, window_to) u
  cross join lateral (select array_position(models, u.model_id) as place) o
  group by 1, o.place
$$;

comment on function ai.budget_name(text, uuid, uuid) is 'Returns the name of a budget''s key, app, member, label or workspace.';

comment on function ai.change_workspace_policy(uuid, uuid, jsonb) is
  'Changes what it names of a workspace''s rules, for a member with manage_ai_policy: allowedModels, deniedModels, '
  'requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, '
  'appBudgets [{ appId, monthlyBudgetUsd }]; null takes a limit away. readAt is the updatedAt of the rules that the '
  'member had before them: where they are others by now, nothing changes. Outcomes: changed and changed_meanwhile (with '
  'policy), not_allowed, app_not_linked, unknown_models (with param and models: names in neither list before). Each change '
  'is a line of the workspace''s log.';

comment on function ai.extend_run(jsonb) is
  'Reserves the maximum cost of another provider call of an open run, where limits, budgets and balance allow it and its key '
  'and its app''s registration are still good. Returns what the run then holds, or {refused: code, …}.';

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'What was metered of an invoice''s provider, without other accounts'' runs, and imported of its account in its days '
  '(ai.invoice_days), the other invoices of its account that count in these days, and the difference between all of '
  'them and the import; a replaced invoice does not count. Null for more than 366 days. Not granted to any role.';

comment on function ai.invoice_matches(ai.external_provider_invoices, jsonb) is
  'Whether an invoice is of what a filter names: any of provider, accountId, where a null names those without an account, '
  'and month, YYYY-MM, that has days of it.';

comment on function ai.issue_key(uuid, uuid, jsonb, text, text) is
  'Stores a new key, whose text the caller made and shows once: lookup part and hex of its SHA-256 come here. Outcomes: '
  'issued (with key), not_allowed, not_approved, app_not_linked, unknown_models (with param and models), too_many (200 '
  'live keys in a workspace).';

comment on function ai.key_caller(bytea, inet) is
  'Returns whose key it is by the SHA-256 of its text, and its limits; nulls when it is unknown, revoked, expired or of a '
  'deleted workspace. A key that is bound to an app has the gateway scopes of the app''s registration. Nearly every call '
  'asks it.';

comment on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) is
  'A page of a workspace''s runs, newest first, for a member with use_ai_studio: { outcome: listed, runs, continueBefore } '
  'or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature, status, keyId, appId, memberId, '
  'provider, entityId, requestId; unknown names a filter whose value does not exist. '
  'With scan_limit, a filter without an index looks at that many runs; continueBefore is then the position to continue '
  'from, and null when no older run can match.';

comment on function ai.lock_rows(ai.lock_list) is
  'Locks what admissions, extensions and settlements change, in the one order that they share: idempotency keys, keys, rate '
  'windows, budgets, balances; each kind sorted, so budgets of apps, keys, labels, members and workspaces. Runs are locked '
  'before, and new accounts are opened before.';

comment on function ai.open_prices(text[]) is
  'The prices of now of the routes that lead to a provider of the list, each with its route. A route without a price of the '
  'default tier has none. Within a route prices are sorted by sorts_as, the default tier''s first, and '
  'min_input_tokens.';

comment on function ai.price_call(ai.run_request, ai.priced_call) is
  'Returns a call with its caller, label, model, maximum cost and paying account, or why it is refused. Locks nothing.';

comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Imported costs of a half-open range, and whether each counts in totals. A run does not when its account''s day is '
  'known, within the range or not, so that adjacent ranges add up. A service''s day does not when the account''s day has a total.';

comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'Returns a page of a workspace''s invoices, latest issued first, and the total of those that count. With a month in the '
  'filter, the total has the shares of its days. Not granted to any role.';

comment on function ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer) is
  'What a workspace used in a range, for a member with use_ai_studio: totals, those of the previous range, and rows by '
  'day (key: how many days of the range come before), model, feature, key (its lineage), app, member or label (empty: '
  'none, *: the others), largest first, days newest first. series: by model, daily usage of the six largest and of all '
  'others together (null). Credits deducted without a run are separate, by day in deductions.';

comment on function ai.read_policy_options(uuid, uuid) is
  'Returns the choices for a workspace''s policy and keys, for a member with use_ai_studio or manage_ai_keys: the models of '
  'the catalogue, whether the plan or the workspace''s own grant allows them (granted) and whether the policy does (permitted), '
  'and the plan''s rate limits.';

comment on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) is
  'A workspace''s usage for a member with use_ai_studio, grouped by any of day, model, feature, executionMode, provider, '
  'key (its lineage), app and member, or by label, alone or with day: a page of rows, totals of the whole window, and credits '
  'deducted without a run. provider is null where the workspace hides what providers charge. By default the last 30 days. after is the position of the last row on the previous page.';

comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Metered, imported and invoiced cost by month, provider and account. Runs count for ai.billing_provider and the account '
  'that they name, if any. An invoice is spread over its days (ai.invoice_days), and a replaced one does not count.';

comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'A page of months and providers, the latest month first, each with its accounts and differences: imported less metered, '
  'and invoiced less imported. The window as of ai.reconciled_window. meteredUsd is null where the workspace hides it, and '
  'of accounts unless all runs of the month and provider name theirs. Where it is hidden, only providers with imports or '
  'invoices are listed.';

comment on function ai.remaining_budgets(ai.caller, boolean) is
  'Returns the monthly budgets that can refuse a caller, narrowest first. Amounts are left out where the workspace hides '
  'provider costs.';

comment on function ai.roll_up_usage(integer) is
  'Keeps ai.usage_daily and ai.usage_labels_daily: at most max_days new days, changed days and days without details, one '
  'caller at a time. Returns how many days it summed; 0 if there is nothing to do.';

comment on function ai.run_detail(ai.runs, boolean) is
  'Returns { run, steps, attempts, ledger, answeredBy }: a run''s summary, what it did, its requests to providers, its ledger '
  'entries as credits charged, and the route that answered with its prices at that time. attempts and answeredBy are null '
  'where provider cost is hidden.';

comment on function ai.run_summary(ai.runs, boolean) is
  'Returns a run as its workspace''s members see it. servedTier, provider and costUsd are null if the policy hides what '
  'providers charge.';

comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Writes one reported cost, or says why not: { outcome: stored, corrected, unchanged or stale } or { refused }. A newer '
  'observation corrects; one of the same time with any other content is a conflict. Workspace and app come from the '
  'caller''s credential; the record''s shape was checked before. Granted to nobody.';

comment on function ai.usage_by_key(uuid, timestamptz, timestamptz, text, integer, boolean) is
  'Returns a range''s sums and quantiles by ai.usage_key or label; the row with a null key has the whole range. Amounts in '
  'sums are exact text. Labels have no quantiles.';

comment on function private.add_model_price(jsonb) is
  'Adds a price that begins at a time, by default now. It ends the previous price, and ends when the next begins: { actor, model, '
  'providerId, serviceTier, minInputTokens, latest (id of the newest price seen, or null), seen (how many), from, inputUsd, cachedInputUsd, '
  'cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd, requestFeeUsd, reason, requestId, ip } → { from, until } or { refused: forbidden | not_found | '
  'no_route | past | taken | conflict (with last) }.';

comment on function private.export_account(uuid, boolean) is
  'Returns everything held about an account except its AI runs, without secrets, hashes or codes; null without an account. '
  'Without parts, the lists of private.export_account_part are empty.';

comment on function private.export_account_part(uuid, text, jsonb, integer) is
  'Returns a page of a list of private.export_account, oldest first: sessions, securityEvents, approvals, workspaces, '
  'invitations, keys, appHandoffs, appSessions, appTokens or ledger (of credits). after is the last record of the page '
  'before; all records without page_size.';

comment on function private.export_account_proper(uuid, boolean) is
  'Returns the part of private.export_account that does not grow with use, and the credits.';

comment on function private.list_catalogue_models(text, text, text[], integer) is
  'A page of the models whose id or name contains a term, or one model, with its providers, in the order in which they are '
  'asked, and its prices: of a page those of now, else all. Amounts are text, so that no digit is lost. after: sortsAs of the '
  'last one of the page before; all models without page_size.';

comment on function private.list_provider_routes(text[], integer) is
  'Returns a page of the enabled models with their routes in order: whether they have the price that calls need '
  '(ai.open_prices), and what failed in the last seven days. after: sortsAs of the last one of the page before; all of them without page_size.';

comment on function private.read_run(uuid) is
  'Returns ai.run_detail of any run with its workspace, member''s email and billing account, including what the workspace '
  'hides from its members; null if the run does not exist.';

comment on function private.record_admin_action(jsonb, jsonb) is
  'One line of the audit log: change { actor, reason, requestId, ip }, act { action, targetUserId, target, before, after }. In the '
  'transaction of what it tells.';

comment on function private.search_accounts(text, integer) is
  'The accounts whose id or whole email a text is; where there is none, those whose email or name contains it: '
  '[private.describe_account].';

comment on function private.search_workspaces(text, integer) is
  'Workspaces by id, or by a member''s whole email or id; where there is none, by a part of the name. For an empty text those '
  'that may make keys: '
  '[{ id, name, plan, personalUserId, owners, members, liveKeys, approvedAt, approvedBy, request: the open request, '
  '{ requestedAt, requestedBy, note }, or null }].';

comment on function private.set_key_approval(jsonb) is
  'Approves a workspace''s keys, or withdraws the approval: { actor, workspace, approved, reason, requestedAt, email, requestId, ip } → {} '
  'or { refused: forbidden | not_found | oneself (the actor''s personal workspace) | conflict (no change, with last) | '
  'request_gone (requestedAt is not of an open request) }. Approving closes an open request and sends email { subject, text }. '
  'Existing keys keep working.';

comment on trigger reject_reference_change on ai.credit_references is 'Append-only like the ledger: a used reference stays used.';

comment on function ai.budget_scopes(ai.caller, text) is
  'Returns the scopes of the budgets that count a call with a label, or null. Looks each up by its key, since a workspace '
  'may have budgets for many members and labels.';

comment on function ai.budget_subject(text, uuid, uuid, uuid, uuid, text) is 'Returns the subject of a run''s budget in a scope.';

comment on function ai.budget_subjects(uuid, boolean) is
  'Returns what can have a budget in a workspace: itself, its external apps, key lineages and members, and labels with a '
  'budget or a live key. live: whether it can still make calls; since: when it was created, which never changes.';

comment on function ai.can_be_emailed(auth.users) is 'Returns whether an account is active and has an email address.';

comment on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) is
  'Sets one monthly budget, or removes it with null. Requires manage_ai_policy, for a key manage_ai_keys. Scope '
  'label takes the label itself; its subject follows. '
  'read_limit_usd is the limit that the member had before them: where it is another by now, nothing changes. Outcomes: '
  'changed, unchanged, changed_meanwhile (with limitUsd), not_allowed, not_found. Each change is a line of the log.';

comment on function ai.change_credits(uuid, numeric, text, text) is
  'Grants credits to an account, or withdraws them: { outcome: changed | repeated (the reference was used for this amount) | '
  'reference_used (for another amount) | insufficient (more than the balance less what calls hold), balance, amount, '
  'available }. Serialized per account. References that only differ in spaces or in Unicode composition are the same; case '
  'counts.';

comment on function ai.create_key is
  'Stores a new key and returns its id. The caller made the text and shows it once: only its lookup part and SHA-256 '
  'come here. Whether this caller may create one was decided before, so no role of the API may run it.';

comment on function ai.credit_level(ai.credit_accounts, numeric) is
  'Returns empty if nothing is left, or if less than the threshold (1,000 where that is 0) is available and a call was refused '
  'in the last hour. Above the threshold, only a very large call is refused. Returns low if the balance is below the threshold.';

comment on function ai.credit_recipients(uuid, uuid) is
  'Returns who is warned about a balance: owners of the workspace that pays and members with manage_ai_policy, or the member '
  'who pays.';

comment on function ai.detail_older_usage_days(integer) is
  'Sums sealed days again that have no members and labels yet, newest first, at most max_days. Returns their number.';

comment on function ai.find_invoice(uuid, uuid, jsonb, text) is
  'Returns the invoice with a reference from a record''s provider and account, or nulls.';

comment on function ai.grant_credits(text, uuid, numeric, text, text) is
  'Adds credits to the balance of a workspace or a member (payer as in ai.plans) and returns the balance; a negative amount '
  'withdraws at most what is available. With a reference, repeating the call changes nothing, and a different amount is '
  'an error. Without one, every call grants. For operators: no API role may run it.';

comment on function ai.invoice_amount(ai.external_provider_invoices, daterange) is
  'Returns what an invoice adds to totals in USD, in whole or for some of its days; negative for a credit note.';

comment on function ai.invoice_replacement(ai.external_provider_invoices) is
  'Returns the reference that replaces an invoice, which then no longer counts; null if it counts.';

comment on function ai.is_label_enforced(text, uuid) is
  'Returns whether a live key carries a label. Only such keys'' calls can be refused for the label''s budget.';

comment on function ai.key_approval_state(uuid) is
  'Returns whether a workspace is approved, and its latest request: { outcome: read, approved, request: { state: open | withdrawn | '
  'approved | declined, requestedAt, requestedBy, note, answeredAt, declineReason } or null }.';

comment on function ai.key_cost_since(uuid, uuid[], timestamptz) is
  'Returns what each lineage used since the start of a UTC day, from daily sums where they are up to date, else from '
  'runs. A lineage without runs has no row.';

comment on function ai.key_summaries(uuid, ai.keys[]) is 'Returns what may be shown of keys of one workspace, newest first.';

comment on function ai.key_summary(ai.keys, numeric) is
  'Returns what may be shown of a key: never its secret, of which only a hash is kept. Amounts are exact text. Spending '
  'is for the current UTC month, including the keys that it replaced.';

comment on function ai.label_id(text) is
  'Returns the subject of a label''s budget: a UUID version 8 (RFC 9562, 5.8) of its SHA-256. Callers choose labels, so '
  'they must not be able to find a collision. Labels have no backslash, which the cast to bytea would read as an escape.';

comment on function ai.label_usage_between(uuid, timestamptz, timestamptz) is
  'Like ai.usage_between, by label.';

comment on function ai.list_run_filters(uuid, uuid) is
  'Returns values to filter a workspace''s runs by, at most 100 of each, for a member with use_ai_studio: { outcome: listed, keys '
  '(newest first), apps, members, providers } or { outcome: not_allowed }. providers is null if the workspace hides them.';

comment on function ai.live_usage_ranges(uuid, timestamptz, timestamptz, boolean) is
  'Returns the parts of a window that are read from runs: days that are not sealed, changed since, only partly in the window, '
  'or, for members and labels, not summed with them yet.';

comment on function ai.low_credits(ai.plans) is
  'Returns the balance below which a plan''s payers are warned: by default a tenth of the initial credits, or 10,000 without any.';

comment on function ai.may_email_admins(uuid, ai.key_approval_requests) is
  'Returns whether a new request is emailed to infrastructure admins: not if it repeats a withdrawn one, and at most five times '
  'per member in 24 hours. The queue lists every request.';

comment on function ai.member_label(uuid, uuid) is
  'Returns the name of a workspace''s member; Former member for anyone else, null for null.';

comment on function ai.model_usage_by_day(uuid, timestamptz, timestamptz, integer, text[]) is
  'Returns the usage of some models by day (days since the start of the range), and of all others together (null).';

comment on function ai.month_days(text) is 'Returns the days of a month, YYYY-MM; null for null.';

comment on function ai.paying_plan(text, uuid) is 'Returns the ai.paying_plans row of one workspace or member, if any.';

comment on function ai.paying_plans(uuid[], uuid[]) is
  'Returns the plans that workspaces and members pay for; no row where none charges the account. For a member who pays in '
  'several workspaces, the plan with the most initial credits.';

comment on function ai.plan_has_payers(ai.plans) is 'Returns whether a credit account pays for a plan, so that its payer cannot change.';

comment on function ai.queue_credit_alert_mails(jsonb, text, text) is
  'Queues an email about a crossing to each recipient and marks the crossing, in one statement, so that only one caller does. '
  'Returns the number of emails; 0 if they are already queued or credits were added since.';

comment on function ai.read_budgets(uuid, uuid, text[], integer, text[]) is
  'A page of a workspace''s budgets and what they have used in the current UTC month, for a member with use_ai_studio: '
  '{ outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Those of keys are for '
  'members with manage_ai_keys or manage_ai_policy. Ordered by scope, then labels by text and others by the '
  'creation of their subject; after is the position of the last one on the previous page. Amounts are exact texts, null where there is no limit or it '
  'is hidden. usedUp: all of it is spent, or calls are refused for it as ai.budget_refuses_calls has it. '
  'enforced: whether it can refuse calls.';

comment on function ai.read_credit_notice(uuid, uuid) is
  'Returns whether the balance for a member''s calls in a workspace is low or empty: { level, available }; null otherwise, or '
  'without use_ai_studio.';

comment on function ai.read_key(uuid, uuid, uuid) is
  'Returns one key of a workspace as ai.list_keys has it, for a member with manage_ai_keys, and whether the workspace may '
  'rotate it: { outcome: read, approved, key }, or outcome not_allowed or not_found.';

comment on function ai.read_key_approval(uuid, uuid) is
  'Returns ai.key_approval_state for a member with manage_ai_keys, or { outcome: not_allowed }.';

comment on function ai.record_credit_alerts() is
  'Records the level that each balance has reached. Reads ai.credit_accounts without a lock. A level is reached once until '
  'credits are added, or until the plan''s threshold falls below the balance.';

comment on function ai.request_key_approval(uuid, uuid, text, jsonb) is
  'Requests approval for a member with manage_ai_keys and queues one email { subject, text } for each infrastructure admin. '
  'Changes nothing if a request is open or the workspace is approved. Returns ai.key_approval_state or { outcome: not_allowed }.';

comment on function ai.reserve_budget(text, uuid, uuid, numeric, boolean) is
  'Reserves an amount of a monthly budget. If the budget is enforced, refuses when that would exceed the limit or the limit is 0. '
  'Writes the time of a refusal to the budget: the first of a month, then at most one a minute.';

comment on function ai.reserve_limits(ai.caller, text, bigint, integer, numeric, uuid, numeric) is
  'Reserves a provider call in the budgets, the workspace''s rate window and the balance, or says in refused which of them '
  'has no room and reserves none of the amounts. The rows are locked.';

comment on function ai.reset_credit_alert(ai.credit_accounts) is
  'Called after a top-up: rearms the warnings of levels that the balance is above again.';

comment on function ai.run_pricing_facts(ai.runs, boolean) is
  'Returns { priced }, from which the web server explains a run''s cost: whether credits were due and, if provider cost is '
  'visible, the markup, the prices of the charged routes, and the requests to providers.';

comment on function ai.set_budget(text, uuid, uuid, numeric, text) is
  'Sets the monthly budget of a workspace, or of an app, key lineage, member or label in it; null removes it. '
  'A first one begins '
  'with what the month''s settled runs have cost; runs that are under way at that moment are in no budget. Callers hold '
  'ai.lock_policy.';

comment on function ai.sum_labels(uuid, timestamptz, timestamptz) is
  'Returns a workspace''s runs in a half-open range by day and label (X-Platform-Entity-Id), as in ai.usage_labels_daily: the '
  '10,000 most expensive labels of each day, and the others together.';

comment on function ai.sweep_credit_alerts(integer) is
  'Records balances that became low or empty, and returns those whose emails are not queued, oldest first. One sweep runs at '
  'a time; concurrent ones return an empty list.';

comment on function ai.text_list(jsonb) is 'Returns the texts of a JSON array; null for anything else.';

comment on function ai.unknown_models(text[]) is
  'Returns the names that are not ids of catalogue models, enabled or not; null if all are. Ids are compared exactly, as in '
  'calls. Checks lists of models before they are saved.';

comment on function ai.unknown_run_filter(uuid, jsonb) is
  'Returns the name of the first filter of ai.list_runs whose value does not exist, and provider where the workspace hides '
  'providers; null when all exist. Former members and apps of a workspace have runs, so they are known.';

comment on function ai.usage_between(uuid, timestamptz, timestamptz, boolean) is
  'Returns a workspace''s usage in a half-open window, in parts that callers group: daily sums of sealed, unchanged days that '
  'are wholly in the window, and runs for the rest. One statement sees each run once. by_member: whether callers group by '
  'actor_id, which the sums of some days may not have yet.';

comment on function ai.withdraw_key_approval_request(uuid, uuid, timestamptz) is
  'Withdraws the open request made at a time. Changes nothing if it was answered or replaced. Returns ai.key_approval_state or '
  '{ outcome: not_allowed }.';

comment on function ai.workspaces_used_on(date) is 'Returns the workspaces with runs on a UTC day.';

comment on function private.add_proposed_prices(jsonb) is
  'Adds prices by the rule of private.add_model_price, all or none: { actor, from, prices: [{ model, providerId, serviceTier, '
  'minInputTokens, latest, inputUsd, … }], reason, requestId, ip } → {} or { refused: too_many (1 to 500) | scheduled (a later '
  'price of the same row) | as private.add_model_price, model }.';

comment on function private.answer_approval_request(jsonb, uuid) is
  'Closes a workspace''s open request and queues an email to its owners and the requester. Does nothing without one.';

comment on function private.approval_refusal(jsonb, public.workspaces) is
  'Returns why an admin must not decide on a workspace''s approval; null if they may.';

comment on function private.cancel_model_price(jsonb) is
  'Cancels a price up to a minute before it begins. The previous price stays in force until the next begins: { actor, model, price, '
  'previous (id of the price before it as seen, or null), until (its end as seen), reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | started | conflict (with last) }.';

comment on function private.change_credits(jsonb) is
  'Grants credits to a workspace or member, or withdraws them: { actor, payer, ownerId, step: grant | withdraw, amount, '
  'reference, description (shown to members in the ledger), reason, requestId, ip } → {}, { repeated: true } if the '
  'reference was already used for this amount, or { refused: forbidden | invalid | not_found | oneself | reference_used (for another '
  'amount) | insufficient (less is available) }. A grant opens a missing account with the plan''s initial credits first.';

comment on function private.change_model_route(jsonb) is
  'Adds, edits, moves or removes a route; the others keep their order, and positions count from 1: { actor, model, version '
  '(private.model_version), place (its position so far, null to add one), route: { position, providerId, providerModel, enabled, '
  'trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds } or null to remove '
  'it, reason, requestId, ip } → {} or { refused: forbidden | not_found | route_taken | invalid | conflict (with last) }. '
  'Prices of the provider stay.';

comment on function private.count_approval_requests(integer) is 'Counts open requests, up to a maximum.';

comment on function private.decline_key_approval(jsonb) is
  'Declines a workspace''s open request: { actor, workspace, requestedAt, reason, email, requestId, ip } → {} or { refused: forbidden | '
  'not_found | oneself | request_gone }. The workspace''s members see the reason.';

comment on function private.delete_model(jsonb) is
  'Deletes a model that was never enabled, with its routes, prices and grants: { actor, model, version, reason, requestId, ip } '
  '→ {} or { refused: forbidden | not_found | used | conflict (with last) }.';

comment on function private.describe_account(auth.users) is
  'An account in the console''s lists: { id, email, displayName, singleSignOn, admin, policy, banned, confirmed, deleted, '
  'authenticators, lastSignInAt, createdAt }.';

comment on function private.describe_address_block(private.address_blocks) is
  'A block in the console: { id, address, action, level, blockedAt, blockedUntil, active, liftedAt, liftedBy, liftReason }.';

comment on function private.describe_price(ai.model_prices) is
  'Returns a price as the console has it. Amounts are text, so that no digit is lost.';

comment on function private.export_whole_part(uuid, text, boolean) is
  'Returns all records of a part of an export; [] unless wanted. For definers; not granted to any role.';

comment on function private.gateway_refusal(private.apps, uuid, text[]) is
  'Returns why the gateway refuses an app that calls in a workspace with a token or a bound key of these scopes; null if '
  'it does not. For definers; not granted to any role.';

comment on function private.granted_workspaces(text, integer) is
  'Returns the first workspaces, by name, that have a grant of their own for a model.';

comment on function private.latest_price(text, text, integer) is
  'Returns the id of a model''s newest price at a provider for inputs from a number of tokens, in any service tier, or null. '
  'A new price names the newest one that the admin saw.';

comment on function private.lift_address_block(jsonb) is
  'Lifts a block: { actor, block, reason, requestId, ip } → {} or { refused: forbidden | not_found | conflict (already lifted, with '
  'last) | expired }. Rate limits still apply, and a lifted block does not lengthen the next one.';

comment on function private.list_accounts(jsonb, integer) is
  'Returns a page of all accounts, newest first, including deleted ones: [private.describe_account]. before is { createdAt, id } '
  'of the last one on the previous page.';

comment on function private.list_address_blocks(inet, uuid, integer) is
  'Returns address blocks as private.describe_address_block: those of an address''s network in the last 30 days, or the active '
  'ones of an account''s recent addresses, or all active ones.';

comment on function private.list_approval_requests(jsonb, integer) is
  'Returns a page of open requests, oldest first: [{ id (of the workspace), name, plan, owners, createdAt, requestedBy, note }]. '
  'after is { createdAt, id } of the last one on the previous page.';

comment on function private.list_apps(text, text, integer) is
  'Returns a page of the registry by name, with the first 50 linked workspaces of each app and without secret hashes. term '
  'is a part of the name or display name. after is the last name of the previous page. Without page_size, returns all apps.';

comment on function private.list_plans(text) is
  'Returns plans with their numbers of workspaces and granted models. Amounts are text. version changes with the plan.';

comment on function private.list_provider_health() is
  'Returns each provider with enabled routes or recent calls: [{ provider, routes, answeredLastHour (runs), lastAnswerAt, failedLastHour '
  '(attempts), failures: of the last 24 hours by class, [{ failure, failed, lastAt }], latest class first }].';

comment on function private.list_provider_usage(date, date) is
  'Returns what providers served in all workspaces between two UTC days, both included, by provider and billing account, highest '
  'cost first: [{ provider, billingName, billingAccount, requests, failed, inputTokens, outputTokens, costUsd }].';

comment on function private.list_route_prices() is
  'Returns the routes of all models with their prices: [{ model, displayName, providerId, providerModel, prices: '
  '[private.describe_price and latest (private.latest_price)] }]. Each service tier and input '
  'size has one price: the current one, else the next, else the last.';

comment on function private.list_skipped_routes(integer) is
  'Returns routes that runs of the last 15 minutes skipped because they were cooling down, latest first: [{ model, displayName, provider, '
  'providerModel, skipped (how often), lastAt }]. Cooldowns themselves are only in the functions'' memory.';

comment on function private.lock_approvable_workspace(jsonb) is 'Locks and returns the workspace of a change, or null.';

comment on function private.lock_open_request(jsonb, uuid) is
  'Locks the request that the admin saw, identified by its time. Returns false if it is no longer open.';

comment on function private.model_version(text) is
  'Returns a digest of a model''s settings and routes. A change names the version that the admin saw.';

comment on function private.move_workspace(jsonb) is
  'Moves a workspace to another plan: { actor, workspace, seen (its plan as seen), plan, reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | oneself (the actor''s personal workspace) | no_plan (unknown, or its own) | conflict (with last) }. '
  'Balances stay with their owners. Calls in progress keep the account that they began with.';

comment on function private.read_address_block(uuid) is 'A block as private.describe_address_block; null if there is none.';

comment on function private.read_console_workspace(uuid) is
  'Returns a workspace as the console shows it: name, plan, owners, members, balance, keys and their approval; null if unknown.';

comment on function private.read_credit_account(text, uuid, bigint, integer) is
  'Returns the credit account of a workspace or member and a page of its ledger, newest first: { payer, id, name, '
  'personalUserId, plan, account, entries }; null for an unknown owner. plan is null if no plan charges the account now, '
  'account if it is not open yet.';

comment on function private.read_model(text) is
  'Returns a model as private.list_catalogue_models has it, with its version (private.model_version), settings, routes in '
  'order, all plans with whether they have it and their workspaces, counted up to 1,001, and the first 100 '
  'workspaces that have a grant of their own.';

comment on function private.recent_networks(uuid) is
  'The networks of an account''s last 50 events and last 50 sessions.';

comment on function private.save_model(jsonb) is
  'Edits a model, or adds a disabled one where version is null: { actor, model, version (private.model_version), displayName, '
  'ownedBy, studioDefault, contextWindow, outputLimit, voices, reason, requestId, ip } and to add one kind, to edit one '
  'isDefault and defaultOfKind (the id of the default that it replaces, or null) → {} or { refused: forbidden | not_found | '
  'id_taken | invalid | default_changed | conflict (with last) }.';

comment on function private.save_plan(jsonb) is
  'Adds a plan or edits one: { actor, plan, seen (the version seen; null adds), name, payer, markup, initialCredits, lowCredits, '
  'requestsPerMinute, tokensPerMinute, reason, requestId, ip } → {} or { refused: forbidden | not_found | taken | payer_fixed '
  '(accounts pay for it) | conflict (with last) }. Runs keep the markup that they began with.';

comment on function private.set_model_grant(jsonb) is
  'Grants a model to a plan or to one workspace, or withdraws the grant: { actor, model, plan or workspace, granted, reason, '
  'requestId, ip } → {} or { refused: forbidden | not_found | no_grantee | oneself (the actor''s personal workspace) | conflict '
  '(no change, with last) }.';

comment on function private.sign_account_out(jsonb) is
  'Signs an account out of every device and app and tells its owner: { actor, subject, reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | oneself }. Repeating it is harmless.';

comment on function private.was_never_enabled(ai.models) is
  'Returns whether a model was added in the console and never enabled, so that no run used it.';

revoke delete, insert, update on table ai.credit_alerts from service_role;

revoke delete, insert, update on table ai.credit_references from service_role;

revoke delete, insert, update on table ai.usage_labels_daily from service_role;

grant execute on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) to service_role;

grant execute on function ai.key_summary(ai.keys, numeric) to service_role;

grant execute on function ai.list_run_filters(uuid, uuid) to service_role;

grant execute on function ai.low_credits(ai.plans) to service_role;

grant execute on function ai.plan_has_payers(ai.plans) to service_role;

grant execute on function ai.queue_credit_alert_mails(jsonb, text, text) to service_role;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[]) to service_role;

grant execute on function ai.read_credit_notice(uuid, uuid) to service_role;

grant execute on function ai.read_key(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_key_approval(uuid, uuid) to service_role;

grant execute on function ai.request_key_approval(uuid, uuid, text, jsonb) to service_role;

grant execute on function ai.sweep_credit_alerts(integer) to service_role;

grant execute on function ai.withdraw_key_approval_request(uuid, uuid, timestamp with time zone) to service_role;

grant execute on function private.add_proposed_prices(jsonb) to service_role;

grant execute on function private.cancel_model_price(jsonb) to service_role;

grant execute on function private.change_credits(jsonb) to service_role;

grant execute on function private.change_model_route(jsonb) to service_role;

grant execute on function private.count_approval_requests(integer) to service_role;

grant execute on function private.decline_key_approval(jsonb) to service_role;

grant execute on function private.delete_model(jsonb) to service_role;

grant execute on function private.describe_price(ai.model_prices) to service_role;

grant execute on function private.granted_workspaces(text, integer) to service_role;

grant execute on function private.latest_price(text, text, integer) to service_role;

grant execute on function private.lift_address_block(jsonb) to service_role;

grant execute on function private.list_accounts(jsonb, integer) to service_role;

grant execute on function private.list_address_blocks(inet, uuid, integer) to service_role;

grant execute on function private.list_approval_requests(jsonb, integer) to service_role;

grant execute on function private.list_apps(text, text, integer) to service_role;

grant execute on function private.list_plans(text) to service_role;

grant execute on function private.list_provider_health() to service_role;

grant execute on function private.list_provider_usage(date, date) to service_role;

grant execute on function private.list_route_prices() to service_role;

grant execute on function private.list_skipped_routes(integer) to service_role;

grant execute on function private.model_version(text) to service_role;

grant execute on function private.move_workspace(jsonb) to service_role;

grant execute on function private.read_address_block(uuid) to service_role;

grant execute on function private.read_console_workspace(uuid) to service_role;

grant execute on function private.read_credit_account(text, uuid, bigint, integer) to service_role;

grant execute on function private.read_model(text) to service_role;

grant execute on function private.save_model(jsonb) to service_role;

grant execute on function private.save_plan(jsonb) to service_role;

grant execute on function private.set_model_grant(jsonb) to service_role;

grant execute on function private.sign_account_out(jsonb) to service_role;

grant execute on function private.was_never_enabled(ai.models) to service_role;
