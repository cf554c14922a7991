-- Generated from supabase/schemas by npm run db:migration.

-- Unused since 0.1.0: only other functions called it.
drop function ai.listed_prices(jsonb);

-- Unused since 0.1.0: only other functions called it.
drop function ai.model_listing(ai.models, jsonb);

drop function private.account_access(uuid, uuid);

drop function private.account_sessions(uuid);

drop function private.export_account(uuid);

-- Unused since 0.1.0: only other functions called it.
drop function private.export_account_proper(uuid);

drop function private.list_catalogue_models();

drop function private.list_provider_routes();

drop function private.list_workspaces_by_app_session(bytea);

drop function private.read_app(text);

-- Definer: reads the log and the unconfirmed additions of an account past row-level security.
create or replace function private.access_state(subject_id uuid, actor_session_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'confirmedAt', (
      select case when private.began_by_mail(subject_id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
      from private.access_confirmations c
      where c.user_id = subject_id
    ),
    'unconfirmed', (
      select coalesce(jsonb_agg(n.target_id order by n.created_at, n.target_id), '[]')
      from private.unconfirmed_additions n
      where n.user_id = subject_id
    )
  )
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot write.
create or replace function private.confirm_access(
  subject_id uuid,
  actor_session_id uuid,
  removals jsonb,
  usable_providers text[]
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  access jsonb;
  removed jsonb;
  passwords boolean;
  identities uuid[];
  passkeys uuid[];
  authenticators uuid[];
  methods_removed boolean;
  kept uuid[];
  ended jsonb;
begin
  -- One change of an account's credentials at a time: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id and u.deleted_at is null for update;
  if not found or not exists (select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id) then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if not private.may_change_access(subject_id, actor_session_id) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;

  access := private.account_access(subject_id, actor_session_id);
  -- Keys of other accounts, and of what is gone, match nothing.
  select
    coalesce(jsonb_agg(w), '[]'),
    coalesce(bool_or(w ->> 'kind' = 'password'), false),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'identity'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'passkey'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'authenticator'), '{}'),
    coalesce(bool_or(w ->> 'kind' in ('password', 'identity', 'passkey')), false)
  into removed, passwords, identities, passkeys, authenticators, methods_removed
  from jsonb_array_elements(access -> 'ways') as w
  where w ->> 'key' <> 'session:' || actor_session_id
    and (
      removals -> 'remove' ? (w ->> 'key')
      or removals -> 'remove' ? 'other_sessions'
        and w ->> 'kind' = 'session'
        and (w ->> 'addedAt')::timestamptz <= (removals ->> 'listedAt')::timestamptz
        and not coalesce(removals -> 'sessions' ? (w ->> 'key'), false)
    );

  select coalesce(array_agg((w ->> 'id')::uuid), '{}')
  into kept
  from jsonb_array_elements(access -> 'ways') as w
  where (w ->> 'unconfirmed')::boolean
    and removals -> 'listed' ? (w ->> 'key')
    and not removals -> 'remove' ? (w ->> 'key');

  if methods_removed
    and private.count_sign_in_methods(
      subject_id, usable_providers, without => identities || passkeys, without_password => passwords, confirming => kept
    ) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;
  if authenticators <> '{}'
    and private.required_mfa_state(account.raw_app_meta_data) <> 'optional'
    and not exists (
      select from auth.mfa_factors f
      where f.user_id = subject_id and f.status = 'verified' and f.id <> all (authenticators)
    ) then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  ended := private.end_dependent_sessions(subject_id, actor_session_id, removed);
  if identities <> '{}' then
    perform private.keep_email_identity(account);
    perform private.remove_identity(i.id) from unnest(identities) as i (id);
  end if;
  perform private.delete_auth_passkey(p.id) from unnest(passkeys) as p (id);
  perform private.delete_auth_factor(subject_id, f.id) from unnest(authenticators) as f (id);
  if authenticators <> '{}' and not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  if passwords then
    perform private.remove_password(subject_id);
  end if;
  perform private.end_app_of_account(subject_id, a.id)
  from private.apps a
  where a.name in (select w ->> 'id' from jsonb_array_elements(removed) as w where w ->> 'kind' = 'app');
  -- Triggers record the identities, passkeys and authenticators that went.
  perform private.add_account_event(
    subject_id, 'app_disconnected', session_id => actor_session_id, details => jsonb_build_object('app', w -> 'name')
  )
  from jsonb_array_elements(removed) as w
  where w ->> 'kind' = 'app';
  if passwords then
    perform private.add_account_event(subject_id, 'password_removed', session_id => actor_session_id);
  end if;
  if ended <> '[]' then
    perform private.add_account_event(subject_id, 'session_revoked', session_id => actor_session_id);
  end if;

  -- As of the moment of the list that the owner saw: what was added since then is new the next time, too.
  insert into private.access_confirmations as c (user_id, confirmed_at, confirmed_by_mail_at)
  select subject_id, l.seen_at, case when private.began_by_mail(subject_id, actor_session_id) then l.seen_at end
  from (select least((removals ->> 'listedAt')::timestamptz, now()) as seen_at) l
  on conflict (user_id) do update
  set confirmed_at = greatest(c.confirmed_at, excluded.confirmed_at),
      confirmed_by_mail_at = greatest(c.confirmed_by_mail_at, excluded.confirmed_by_mail_at);
  perform private.add_account_event(subject_id, 'access_confirmed', session_id => actor_session_id);
  delete from private.unconfirmed_additions n where n.user_id = subject_id and n.target_id = any (kept);
  return jsonb_build_object('outcome', 'confirmed', 'removed', removed, 'endedSessions', ended);
end
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
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      ) order by s.created_at), '[]')
      from auth.sessions s where s.user_id = u.id and with_parts
    ),
    'securityEvents', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent, 'details', e.details,
        'createdAt', e.created_at
      ) order by e.created_at), '[]')
      from public.security_events e where e.user_id = u.id and with_parts
    ),
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
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
          from ai.credit_ledger l where l.account_id = a.id and with_parts
        )
      )
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
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
  last_at timestamptz := coalesce((after ->> 'createdAt')::timestamptz, '-infinity');
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
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

-- Definer: reads memberships for the credential's user alone.
create or replace function private.list_workspaces_by_app_session(
  token_hash bytea, after text[] default null, page_size integer default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'workspaces:read');
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  return jsonb_build_object('workspaces', coalesce((
    select jsonb_agg(p.workspace order by p.shared, p.name, p.id)
    from (
      select w.*, k.*
      from private.user_workspaces(caller.user_id) w
      cross join lateral (
        select not (w.workspace ->> 'personal')::boolean as shared, w.workspace ->> 'name' as name
      ) k
      where after is null or (k.shared, k.name, w.id) > (not after[1]::boolean, after[2], after[3]::uuid)
      order by k.shared, k.name, w.id
      limit page_size
    ) p
  ), '[]'));
end
$$;

create or replace function private.linked_workspaces(app_id uuid, after text[] default null, page_size integer default 50)
  returns table (id uuid, name text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name
  from private.app_workspaces l
  join public.workspaces w on w.id = l.workspace_id
  where l.app_id = linked_workspaces.app_id and (after is null or (w.name, w.id) > (after[1], after[2]::uuid))
  order by w.name, w.id
  limit page_size
$$;

create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  known jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: whoever decided on another state of the app decides anew.
  known := private.read_app(app.name);
  if known ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes'))
      where a.id = app.id;
      delete from private.app_origins o
      where o.app_id = app.id and o.origin not in (select jsonb_array_elements_text(change -> 'origins'));
      insert into private.app_origins (origin, app_id)
      select n, app.id from jsonb_array_elements_text(change -> 'origins') as n
      where not exists (select from private.app_origins o where o.app_id = app.id and o.origin = n);
    exception
      when unique_violation then
        return jsonb_build_object('refused', 'taken');
      when check_violation then
        return jsonb_build_object('refused', 'invalid');
    end;
  elsif step in ('enable', 'disable') then
    update private.apps a set enabled = step = 'enable' where a.id = app.id;
  elsif step = 'link' then
    if app.kind <> 'external' or not exists (
      select from public.workspaces w where w.id = linked and w.deleted_at is null
    ) then
      return jsonb_build_object('refused', 'no_workspace');
    end if;
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, linked, (change ->> 'actor')::uuid)
    on conflict do nothing;
  elsif step = 'unlink' then
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = linked;
  elsif step = 'rotate' then
    if overlap is null or overlap not between interval '0' and interval '24 hours' then
      return jsonb_build_object('refused', 'invalid');
    end if;
    delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
    -- Never later than it was to end already.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'before', known - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', private.describe_app(app.id) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

create or replace function private.read_app(app_name text, after text[] default null, page_size integer default 50)
  returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.describe_app(a.id)
    || jsonb_build_object(
      'workspaces', coalesce((
        select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id, after, page_size) l
      ), '[]'),
      'version', (select l.id from private.admin_audit_log l where l.target = 'app ' || a.name
        order by l.created_at desc, l.id desc limit 1)
    )
  from private.apps a
  where a.name = app_name
$$;

create or replace function private.describe_app(app_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'kind', a.kind,
    'enabled', a.enabled,
    'scopes', a.scopes,
    'origins', coalesce(
      (select jsonb_agg(o.origin order by o.origin) from private.app_origins o where o.app_id = a.id), '[]'
    ),
    'workspaces', coalesce((
      select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id) l
    ), '[]'),
    'secrets', coalesce((
      select jsonb_agg(
        jsonb_build_object('createdAt', s.created_at, 'expiresAt', s.expires_at) order by s.created_at desc, s.id
      )
      from private.app_secrets s
      where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
    ), '[]'),
    'createdAt', a.created_at
  )
  from private.apps a
  where a.id = describe_app.app_id
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
    'sortsAs', m.sorts_as,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- By the rule of calls, as if every provider were connected.
    'hasPrice', ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) is not null,
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
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'providerId', p.provider_id,
        'serviceTier', p.service_tier,
        'minInputTokens', p.min_input_tokens,
        'from', lower(p.valid),
        'until', upper(p.valid),
        'current', p.valid @> now(),
        'inputUsd', p.input_usd_per_million::text,
        'cachedInputUsd', p.cached_input_usd_per_million::text,
        'cacheWriteUsd', p.cache_write_usd_per_million::text,
        'cacheWrite1hUsd', p.cache_write_1h_usd_per_million::text,
        'outputUsd', p.output_usd_per_million::text,
        'audioInputUsd', p.audio_input_usd_per_million::text,
        'audioOutputUsd', p.audio_output_usd_per_million::text,
        'imageInputUsd', p.image_input_usd_per_million::text,
        'requestFeeUsd', p.request_fee_usd::text
      ) order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id
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
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.valid @> now()
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

create or replace function private.list_failing_models(most integer default 20) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object('displayName', f.display_name, 'failed', f.failed)
    order by f.failed desc, f.display_name), '[]')
  from (
    select m.display_name, count(*) as failed
    from ai.failed_attempts a
    join ai.model_routes r using (model_id, provider_id, provider_model)
    join ai.models m on m.id = a.model_id
    where a.at > now() - interval '1 hour' and m.enabled
    group by m.id, m.display_name
    order by failed desc, m.display_name
    limit most
  ) f
$$;

-- Definer: as begin_run.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(request);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  -- The text of a jsonb, which would be slow to build from all models.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- One pass over all models: a function called for each would be most of the time of a large catalogue.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', jsonb_agg(p.as_listed order by p.sorts_as nulls first, p.min_input_tokens)
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_prices(request.providers) p
    where request.model is null or p.model_id = request.model
    group by p.model_id, p.place, p.provider_id, p.provider_model, p.tier_multipliers
  ),
  served as (
    select r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers
    from routes r
    group by r.model_id
  ),
  paths as (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case when shows_prices then jsonb_build_object('routes', s.routes) else jsonb '{}' end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found');
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

create or replace function ai.open_prices(providers text[]) returns table (
  model_id text, place smallint, provider_id text, provider_model text, tier_multipliers jsonb,
  trusts_stated_cost boolean, first_byte_seconds smallint, idle_seconds smallint, total_seconds smallint,
  sorts_as text, min_input_tokens integer, as_offered jsonb, as_listed jsonb
)
  language sql
  stable
  security invoker
as $$
  select
    r.model_id, r.position, r.provider_id, r.provider_model, r.tier_multipliers,
    r.trusts_stated_cost, r.first_byte_seconds, r.idle_seconds, r.total_seconds,
    nullif(t.service_tier, 'default'), t.min_input_tokens, t.as_offered, t.as_listed
  from ai.model_routes r
  join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id
  where r.enabled and r.provider_id = any (providers) and t.valid @> now()
$$;

create or replace function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql
  stable
  security invoker
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.tiers)
      || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
      || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
      || case
        when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
        else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
          'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
        )))
      end
      order by r.place
    )
    from (
      select
        p.place, p.provider_id, p.provider_model, p.tier_multipliers, p.trusts_stated_cost,
        p.first_byte_seconds, p.idle_seconds, p.total_seconds,
        jsonb_agg(p.as_offered order by p.sorts_as nulls first, p.min_input_tokens) as tiers
      from ai.open_prices(providers) p
      where p.model_id = model
      group by
        p.place, p.provider_id, p.provider_model, p.tier_multipliers, p.trusts_stated_cost,
        p.first_byte_seconds, p.idle_seconds, p.total_seconds
    ) r
  );
end
$$;

-- Definer: sessions are the identity backend's, which the service role cannot read.
create or replace function private.account_sessions(
  subject_id uuid, first_session_id uuid default null, before jsonb default null, page_size integer default null
)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    method text,
    aal text,
    refreshed_at timestamptz
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- Its refreshes, once an hour or so, and what its owner did with it.
    greatest(s.refreshed, e.last_event_at),
    host(s.ip),
    -- A sign-in by our pages reaches the backend through our server, which names itself there.
    coalesce(e.user_agent, s.user_agent),
    e.device,
    e.method,
    s.aal::text,
    s.refreshed
  from (
    select l.*, r.refreshed
    from auth.sessions l
    cross join lateral (select greatest(l.created_at, l.refreshed_at at time zone 'UTC') as refreshed) r
    where l.user_id = subject_id
      and (l.not_after is null or l.not_after > now())
      and (
        before is null
        or l.id is distinct from first_session_id
          and (r.refreshed, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, r.refreshed desc, l.id desc
    limit page_size
  ) s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  order by s.id is not distinct from first_session_id desc, s.refreshed desc, s.id desc
$$;

-- Definer: as private.account_sessions.
create or replace function private.count_account_sessions(subject_id uuid, most integer default 1001) returns bigint
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select count(*)
  from (
    select
    from auth.sessions s
    where s.user_id = subject_id and (s.not_after is null or s.not_after > now())
    limit most
  ) as counted
$$;

create or replace function public.list_workspaces(after text[] default null, page_size integer default 50)
  returns table (id uuid, name text, plan_id text, personal boolean, role text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name, w.plan_id, p.personal, r.name
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles r on r.id = m.role_id
  cross join lateral (select w.personal_user_id is not distinct from m.user_id as personal) p
  where m.user_id = (select auth.uid())
    and (after is null or (not p.personal, w.name, w.id) > (not after[1]::boolean, after[2], after[3]::uuid))
  order by not p.personal, w.name, w.id
  limit page_size
$$;

create or replace function public.list_workspace_members(
  workspace_id uuid,
  search text default '',
  of_role uuid default null,
  member_id uuid default null,
  after text[] default null,
  page_size integer default 50
)
  returns table (
    user_id uuid, name text, role_id uuid, role text, is_owner boolean, joined_at timestamptz, sorts_as text
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select m.user_id, n.name, r.id, r.name, r.is_owner, m.created_at, lower(n.name)
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id
  left join public.profiles p on p.id = m.user_id
  cross join lateral (select coalesce(p.display_name, 'Unknown') as name) n
  where m.workspace_id = list_workspace_members.workspace_id
    and (of_role is null or m.role_id = of_role)
    and (member_id is null or m.user_id = member_id)
    and position(lower(search) in lower(n.name)) > 0
    and (
      after is null or (not r.is_owner, lower(n.name), m.user_id) > (not after[1]::boolean, after[2], after[3]::uuid)
    )
  order by not r.is_owner, lower(n.name), m.user_id
  limit page_size
$$;

create or replace function public.count_role_members(workspace_id uuid) returns table (role_id uuid, members bigint)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select
    r.id,
    (
      select count(*)
      from (
        select from public.workspace_members m where m.workspace_id = r.workspace_id and m.role_id = r.id limit 1001
      ) as counted
    )
  from public.workspace_roles r
  where r.workspace_id = count_role_members.workspace_id
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, most_sessions integer default null
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since,
      private.list_sign_in_methods(u.id) as methods
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- Somebody who knew the password could have confirmed their own additions.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      1 as position,
      'password' as kind,
      null::text as id,
      null::text as name,
      null::text as user_agent,
      null::text as provider,
      coalesce(e.created_at, a.created_at) as added_at,
      (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) as last_used_at,
      e.id as event_id
    from account a
    left join lateral (
      select v.id, v.created_at
      from public.security_events v
      where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
      order by v.created_at desc, v.id
      limit 1
    ) e on true
    where a.methods -> 'password' = 'true'::jsonb

    union all
    select
      2, 'identity', i.id::text, i.email, null, i.provider,
      -- Supabase Auth makes a new account and its first identity in one call, at two readings of the clock.
      case when i."createdAt" < a.created_at + interval '500 milliseconds' then a.created_at else i."createdAt" end,
      i."lastSignInAt",
      private.addition_event(a.id, i.id, 'identity_linked')
    from account a
    cross join lateral jsonb_to_recordset(a.methods -> 'identities') as i (
      id uuid, provider text, email text, "createdAt" timestamptz, "lastSignInAt" timestamptz
    )
    where i.provider not in ('email', 'phone')

    union all
    select
      3, 'passkey', p.id::text, nullif(p.name, ''), null, null, p.created_at, p.last_used_at,
      private.addition_event(a.id, p.id, 'passkey_added')
    from account a
    cross join lateral private.list_passkeys(a.id) p

    union all
    select
      4, 'authenticator', f.id::text, nullif(f.friendly_name, ''), null, null, f.created_at, f.last_challenged_at,
      private.addition_event(a.id, f.id, 'authenticator_added')
    from account a
    join auth.mfa_factors f on f.user_id = a.id and f.status = 'verified'

    union all
    select
      5, 'session', s.id::text, s.device, s.user_agent, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => most_sessions) s

    union all
    -- An app that was connected again is as new as its newest credential.
    select
      6, 'app', p.name, p.display_name, null, null, max(h.connected_at), max(h.renewed_at),
      (array_agg(private.sign_in_event(a.id, h.session_id) order by h.connected_at desc))[1]
    from account a
    cross join lateral (
      select s.app_id, s.created_at as connected_at, s.issued_at as renewed_at, (s.proof).session_id
      from private.app_sessions s
      where s.user_id = a.id
        and s.revoked_at is null
        and s.expires_at > now()
        and s.ends_at > now()
        and private.proof_status(s.proof) <> 'over'
      union all
      select t.app_id, t.handed_over_at, t.created_at, (t.proof).session_id
      from ai.app_tokens t
      where t.user_id = a.id
        and t.revoked_at is null
        and case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end > now()
        and private.proof_status(t.proof) <> 'over'
    ) h
    join private.apps p on p.id = h.app_id
    group by p.name, p.display_name
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', concat_ws(':', w.kind, w.id),
        'kind', w.kind,
        'id', w.id,
        'name', w.name,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then s.ip else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null
      ) order by w.position, d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- Its row may be older: of an authenticator since its enrolment began, of a link since the visit to the provider, of a
      -- copied session since the sign-in it was copied from.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
      left join lateral (select host(l.ip) as ip from auth.sessions l where w.kind = 'session' and l.id::text = w.id) s
        on true
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, most_sessions),
        'isNew', exists (
          select
          from auth.sessions l
          where l.user_id = a.id and l.created_at > a.since and (l.not_after is null or l.not_after > now())
            and l.id::text not in (select w.id from ways w where w.kind = 'session')
        )
      )
      from private.count_account_sessions(a.id, most_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

-- Definer: its first part is granted to nobody.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || jsonb_build_object(
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

create or replace function private.list_apps() returns jsonb
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
  from private.apps a
$$;

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', u.id,
    'email', u.email,
    'displayName', (select p.display_name from public.profiles p where p.id = u.id),
    'singleSignOn', u.is_sso_user,
    'createdAt', u.created_at,
    'confirmedAt', u.email_confirmed_at,
    'lastSignInAt', u.last_sign_in_at,
    'bannedUntil', case when u.banned_until > now() then u.banned_until end,
    'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = u.id),
    'methods', private.list_sign_in_methods(u.id),
    'factors', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id,
        'name', f.friendly_name,
        'type', f.factor_type,
        'verified', f.status = 'verified',
        'createdAt', f.created_at,
        'lastUsedAt', f.last_challenged_at
      ) order by f.created_at, f.id), '[]')
      from auth.mfa_factors f
      where f.user_id = u.id
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id,
        'createdAt', s.created_at,
        'lastSeenAt', s.last_seen_at,
        'ip', s.ip,
        'device', s.device,
        'userAgent', s.user_agent,
        'method', s.method,
        'aal', s.aal
      ) order by s.last_seen_at desc, s.id), '[]')
      from private.account_sessions(u.id, page_size => 50) s
    ),
    'sessionCount', private.count_account_sessions(u.id)
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

comment on function ai.list_models(jsonb) is
  'The models that a credential may use and that can be reached and charged now, as OpenAI lists them, in the order of '
  'ai.model_order; with model in the call that one alone; or {refused: code}. With paths in the call, [{ path, kind, '
  'providers }], the listing is a text, and endpoints has the paths that serve each of its models: those of its kind that '
  'one of its providers serves.';

comment on function private.account_overview(uuid) is
  'An account as the console shows it: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt, '
  'bannedUntil, infrastructureAdmin, methods (private.list_sign_in_methods), factors, sessions (the 50 refreshed last), '
  'sessionCount (to 1,001) }; null where there is none. No secret.';

comment on function private.confirm_access(uuid, uuid, jsonb, text[]) is
  'Removes what the owner chose from the list of private.account_access, signs out what depends on it, and confirms the '
  'rest, in one transaction. removals: { listedAt, listed: [key], remove: [key], sessions: [key] }, listedAt, listed and '
  'sessions (all that the list had) as the owner saw them; other_sessions in remove removes the sessions of that moment '
  'that the list did not have. Answers { outcome: confirmed, removed: [way], endedSessions: [{ id, device, userAgent }] }, or an outcome that '
  'changed nothing: last_method where no usable way to sign in would be left, last_of_required where the account must have an '
  'authenticator, insufficient_aal where the session has yet to prove one, not_found. The session that asks stays.';

comment on function private.describe_app(uuid) is
  'An app as people read it: no hash of any secret; secrets are those that still work, workspaces the first 50.';

comment on function private.list_apps() is
  'The registry as people read it, with the first 50 linked workspaces of each app: no hash of any secret.';

comment on function ai.listed_price(jsonb) is
  'Returns a price of ai.price_tier as the list of models has it: numbers with all their digits, and their unit in the name.';

comment on function ai.open_prices(text[]) is
  'The prices of now of the routes that lead to a provider of the list, each with its route. Within a route prices are '
  'sorted by sorts_as, the default tier''s first, and min_input_tokens.';

comment on function private.access_state(uuid, uuid) is
  'When the owner last confirmed what can open the account, as private.account_access has it, and the ids of the '
  'unconfirmed additions: { confirmedAt, unconfirmed: [id] }.';

comment on function private.account_access(uuid, uuid, integer) is
  'Lists what can open an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent, provider, '
  'addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }], otherSessions: { key, count, isNew } }. It lists the '
  'most_sessions sessions that were refreshed last, the one that asks among them; otherSessions are the rest, counted to '
  '1,001. kind: password, identity, passkey, authenticator, '
  'session or app. isNew: added since the owner last confirmed the list, or since the account was created; for a session that began with '
  'a password reset or recovery, since such a session last did. Device and '
  'address are null where no event says where it was added. Null without the account.';

comment on function private.account_sessions(uuid, uuid, jsonb, integer) is
  'A page of the sessions of an account that are not over: the given one first, then the one refreshed last. before: '
  '{ createdAt, id }, refreshed_at and id of the last one of the page before; all of them without page_size.';

comment on function private.count_account_sessions(uuid, integer) is
  'How many sessions of an account are not over, counted as far as most.';

comment on function private.export_account(uuid, boolean) is
  'Everything held about an account but its AI runs, without secrets, hashes or codes; null where there is no account. '
  'Without parts, the lists of private.export_account_part are empty.';

comment on function private.export_account_part(uuid, text, jsonb, integer) is
  'A page of a list of private.export_account, oldest first: sessions, securityEvents or ledger (of credits). after is the '
  'last record of the page before.';

comment on function private.export_account_proper(uuid, boolean) is 'The account''s part of private.export_account.';

comment on function private.linked_workspaces(uuid, text[], integer) is
  'A page of the workspaces that an app is linked to, by name. after: name and id of the last one of the page before.';

comment on function private.list_catalogue_models(text, text, text[], integer) is
  'A page of the models whose id or name contains a term, or one model, with its providers, in the order in which they are '
  'asked, and prices, those of the past too; amounts are text, so that no digit is lost. after: sortsAs of the last one of '
  'the page before; all of them without page_size.';

comment on function private.list_failing_models(integer) is
  'Returns the enabled models with the most failed requests at their routes in the last hour: [{ displayName, failed }].';

comment on function private.list_provider_routes(text[], integer) is
  'Returns a page of the enabled models with their routes in order: whether they have a current price, and what failed in the '
  'last seven days. after: sortsAs of the last one of the page before; all of them without page_size.';

comment on function private.list_workspaces_by_app_session(bytea, text[], integer) is
  'A page of the workspaces of the session''s user as public.list_workspaces has it, {workspaces: […]}, or {refused}; all '
  'of them without page_size.';

comment on function private.read_app(text, text[], integer) is
  'An app as private.describe_app has it, with a page of its workspaces (private.linked_workspaces) and its version: the '
  'last line of the audit log about it.';

comment on function public.count_role_members(uuid) is
  'How many members each role of a workspace has, counted to 1,001.';

comment on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) is
  'A page of a workspace''s members, owners first, then by name: those whose name contains the search, with a role or an '
  'id where one is given. after: is_owner, sorts_as and user_id of the last one of the page before.';

comment on function public.list_workspaces(text[], integer) is
  'A page of the caller''s workspaces, their personal one first, then by name. after: personal, name and id of the last '
  'one of the page before.';

grant execute on function ai.listed_price(jsonb) to service_role;

grant execute on function ai.open_prices(text[]) to service_role;

grant execute on function private.access_state(uuid, uuid) to service_role;

grant execute on function private.account_access(uuid, uuid, integer) to service_role;

grant execute on function private.account_sessions(uuid, uuid, jsonb, integer) to service_role;

grant execute on function private.count_account_sessions(uuid, integer) to service_role;

grant execute on function private.export_account(uuid, boolean) to service_role;

grant execute on function private.export_account_part(uuid, text, jsonb, integer) to service_role;

grant execute on function private.linked_workspaces(uuid, text[], integer) to service_role;

grant execute on function private.list_catalogue_models(text, text, text[], integer) to service_role;

grant execute on function private.list_failing_models(integer) to service_role;

grant execute on function private.list_provider_routes(text[], integer) to service_role;

grant execute on function private.list_workspaces_by_app_session(bytea, text[], integer) to service_role;

grant execute on function private.read_app(text, text[], integer) to service_role;

grant execute on function public.count_role_members(uuid) to authenticated;

grant execute on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) to authenticated;

grant execute on function public.list_workspaces(text[], integer) to authenticated;
