-- Generated from supabase/schemas by npm run db:migration.

create or replace function private.mint_cross_app_token(token_hash bytea, facts jsonb, proof text) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with target as (
    -- Held: whoever turns the app off waits, and ends this token with the others, or is waited for, and it is not stored.
    select a.id
    from private.apps a
    where a.id = (facts ->> 'targetId')::uuid and a.kind <> 'openid' and a.enabled
    for share
  ),
  minted as (
    insert into private.cross_app_tokens (token_hash, user_id, app_id, proof, created_at, expires_at)
    select
      mint_cross_app_token.token_hash,
      (facts ->> 'user')::uuid,
      t.id,
      mint_cross_app_token.proof,
      (facts ->> 'issuedAt')::timestamptz,
      (facts ->> 'expiresAt')::timestamptz
    from target t
    returning id
  )
  select exists (select from minted)
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
    where l.kind <> 'openid'
      and (strpos(l.name, lower(term)) > 0 or strpos(lower(l.display_name), lower(term)) > 0)
      and (after is null or l.name > after)
    order by l.name
    limit page_size
  ) as a
$$;

create or replace function private.find_app_by_origin(origin text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'name', a.name, 'displayName', a.display_name, 'enabled', a.enabled, 'scopes', a.scopes
  )
  from private.app_origins o
  join private.apps a on a.id = o.app_id
  where o.origin = find_app_by_origin.origin and a.kind <> 'openid'
$$;

create or replace function private.authenticate_app(app_name text, secret_hash bytea) returns setof private.apps
  language sql
  stable
  security invoker
as $$
  select a.*
  from private.app_secrets s
  join private.apps a on a.id = s.app_id
  where s.secret_hash = authenticate_app.secret_hash
    and (s.expires_at is null or s.expires_at > now())
    and a.name = app_name
    and a.kind <> 'openid'
    and a.enabled
$$;

create or replace function private.register_app(
  app_name text,
  display_name text,
  kind text,
  origins text[],
  scopes text[],
  secret_hash bytea,
  reason text,
  actor uuid default null
) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  if kind = 'openid' then
    raise exception 'OpenID clients are registered by add_openid_client' using errcode = 'check_violation';
  end if;
  insert into private.apps (name, display_name, kind, scopes)
  values (app_name, register_app.display_name, register_app.kind, register_app.scopes)
  returning * into app;
  insert into private.app_origins (origin, app_id) select o, app.id from unnest(origins) as o;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, register_app.secret_hash);
  perform private.record_app_change(app, 'app.register', reason, actor);
  return app.id;
end
$$;

create or replace function private.rotate_app_secret(
  app_name text,
  secret_hash bytea,
  overlap_seconds integer,
  reason text,
  actor uuid default null
) returns timestamptz
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  ends_at timestamptz := now() + make_interval(secs => overlap_seconds);
begin
  if overlap_seconds is null or overlap_seconds not between 0 and 86400 then
    raise exception 'the overlap is 0 to 86400 seconds' using errcode = 'check_violation';
  end if;
  -- Locked, so that two rotations at once leave one current secret.
  select * into app from private.apps a where a.name = app_name for no key update;
  if not found then
    return null;
  end if;
  if exists (select from private.openid_clients c where c.app_id = app.id and c.is_public) then
    raise exception 'a public client has no secret' using errcode = 'check_violation';
  end if;
  delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
  -- Never later than it was to end already.
  update private.app_secrets s set expires_at = least(s.expires_at, ends_at) where s.app_id = app.id;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, rotate_app_secret.secret_hash);
  perform private.record_app_change(app, 'app.rotate_secret', reason, actor);
  return ends_at;
end
$$;

create or replace function private.set_app_workspace(
  app_name text,
  workspace_id uuid,
  linked boolean,
  reason text,
  actor uuid default null
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.apps a where a.name = app_name and a.kind <> 'openid' for no key update;
  if not found
    or not exists (select from public.workspaces w where w.id = set_app_workspace.workspace_id and w.deleted_at is null)
  then
    return false;
  end if;
  if linked then
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, set_app_workspace.workspace_id, actor)
    on conflict do nothing;
  else
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = set_app_workspace.workspace_id;
  end if;
  perform private.record_app_change(
    app,
    case when linked then 'app.link_workspace' else 'app.unlink_workspace' end,
    reason || ' (workspace ' || workspace_id || ')',
    actor
  );
  return true;
end
$$;

create or replace function private.add_app(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'kind' = 'openid' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', change ->> 'kind',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.app_origins (origin, app_id)
    select o, app.id from jsonb_array_elements_text(change -> 'origins') as o;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'after', private.describe_app(app.id)
  ));
  return '{}';
end
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
  known := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if known ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if app.kind = 'openid' and step not in ('enable', 'disable', 'rotate') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes')),
        -- Servers of 0.1.0 name none.
        backchannel_logout_uri = case
          when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
        end
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
    if overlap is null or overlap not between interval '0' and interval '24 hours'
      or exists (select from private.openid_clients c where c.app_id = app.id and c.is_public)
    then
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
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
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
    'logoutUrl', a.backchannel_logout_uri,
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

create or replace function private.describe_openid_client(app_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'enabled', a.enabled,
    'isPublic', c.is_public,
    'scopes', a.scopes,
    'redirectUris', c.redirect_uris,
    'postLogoutRedirectUris', c.post_logout_redirect_uris,
    'logoutUrl', a.backchannel_logout_uri,
    'allowsDeviceGrant', c.allows_device_grant,
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
  join private.openid_clients c on c.app_id = a.id
  where a.id = describe_openid_client.app_id and a.kind = 'openid'
$$;

create or replace function private.list_openid_clients(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(private.describe_openid_client(p.id) order by p.name), '[]')
  from (
    select a.id, a.name
    from private.apps a
    where a.kind = 'openid'
      and (strpos(a.name, lower(term)) > 0 or strpos(lower(a.display_name), lower(term)) > 0)
      and (after is null or a.name > after)
    order by a.name
    limit page_size
  ) as p
$$;

create or replace function private.add_openid_client(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  is_public boolean := (change ->> 'isPublic')::boolean;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if is_public is distinct from (change ->> 'secretHash' is null) then
    raise exception 'a confidential client has a secret, a public client has none' using errcode = 'check_violation';
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', 'openid',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.openid_clients (
      app_id, is_public, redirect_uris, post_logout_redirect_uris, allows_device_grant
    )
    values (
      app.id, is_public, array(select jsonb_array_elements_text(change -> 'redirectUris')),
      array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris')),
      (change ->> 'allowsDeviceGrant')::boolean
    );
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  if not is_public then
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

create or replace function private.change_openid_client(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
  known jsonb;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' and a.kind = 'openid' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if change ? 'version' and private.app_version(app.name)::text is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;
  known := private.describe_openid_client(app.id);
  begin
    update private.apps a
    set
      display_name = coalesce(change ->> 'displayName', a.display_name),
      scopes = case
        when change ? 'scopes' then array(select jsonb_array_elements_text(change -> 'scopes')) else a.scopes
      end,
      backchannel_logout_uri = case
        when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
      end
    where a.id = app.id;
    update private.openid_clients c
    set
      redirect_uris = case
        when change ? 'redirectUris' then array(select jsonb_array_elements_text(change -> 'redirectUris'))
        else c.redirect_uris
      end,
      post_logout_redirect_uris = case
        when change ? 'postLogoutRedirectUris'
          then array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris'))
        else c.post_logout_redirect_uris
      end,
      allows_device_grant = coalesce((change ->> 'allowsDeviceGrant')::boolean, c.allows_device_grant)
    where c.app_id = app.id;
  exception
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.edit', 'target', 'app ' || app.name, 'before', known,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

create or replace function private.set_app_logout_url(
  app_name text, logout_url text, reason text, actor uuid default null
) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  app private.apps;
begin
  update private.apps a set backchannel_logout_uri = logout_url where a.name = app_name returning * into app;
  if not found then
    return false;
  end if;
  perform private.record_app_change(app, 'app.edit', reason, actor);
  return true;
end
$$;

create or replace function private.may_change_apps(change jsonb) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select change ->> 'actor' is null
    or exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid)
$$;

create or replace function private.app_version(app_name text) returns uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select l.id
  from private.admin_audit_log l
  where l.target = 'app ' || app_name
  order by l.created_at desc, l.id desc
  limit 1
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
      'version', private.app_version(a.name)
    )
  from private.apps a
  where a.name = app_name and a.kind <> 'openid'
$$;

create or replace function private.read_openid_client(client_id text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.describe_openid_client(a.id) || jsonb_build_object('version', private.app_version(a.name))
  from private.apps a
  where a.name = client_id and a.kind = 'openid'
$$;

comment on function private.add_app(jsonb) is
  'Registers an app with its first secret: { actor, name, displayName, kind, origins, scopes, logoutUrl, secretHash as '
  'text of a bytea, reason, requestId, ip } → {} or { refused: forbidden | taken (name or origin) | invalid }.';

comment on function private.authenticate_app(text, bytea) is
  'The enabled app that a name and a secret''s SHA-256 stand for; no row for unknown, wrong, expired or disabled: one '
  'answer. OpenID clients are not apps here. For definers; granted to nobody.';

comment on function private.change_app(jsonb) is
  'Changes an app: { actor, name, version (as private.read_app has it), step, reason, requestId, ip } and for edit '
  'displayName, scopes, origins, logoutUrl; an OpenID client is only enabled, disabled and given a new secret by it; for link and unlink workspace; for rotate secretHash as text of a bytea and overlapSeconds; enable '
  'and disable take nothing → {} or { refused: forbidden | not_found | conflict (with last) | taken (an origin) | '
  'invalid | no_workspace }.';

comment on function private.list_apps(text, text, integer) is
  'Returns a page of the registry by name, with the first 50 linked workspaces of each app and without secret hashes. term '
  'is a part of the name or display name. after is the last name of the previous page. Without page_size, returns all apps. '
  'OpenID clients are listed by private.list_openid_clients.';

comment on function private.add_openid_client(jsonb) is
  'Registers an OpenID client: { actor, name, displayName, isPublic, scopes, redirectUris, postLogoutRedirectUris, logoutUrl, '
  'allowsDeviceGrant, secretHash as text of a bytea or null for a public client, reason, requestId, ip } → {} or { refused: '
  'forbidden | taken | invalid }.';

comment on function private.app_version(text) is 'Returns the version of an app: the last line of the audit log about it.';

comment on function private.change_openid_client(jsonb) is
  'Changes what is named of an OpenID client: { actor, name, version, displayName, scopes, redirectUris, '
  'postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, reason, requestId, ip } → {} or { refused: forbidden | not_found | '
  'conflict (with last) | invalid }. Without version, any state is changed.';

comment on function private.describe_openid_client(uuid) is
  'Returns an OpenID client as people read it, with the secrets that still work and no hash of any.';

comment on function private.list_openid_clients(text, text, integer) is
  'Returns a page of the OpenID clients by name. term is a part of the name or display name, after the last name of the '
  'previous page. Without page_size, returns all.';

comment on function private.may_change_apps(jsonb) is
  'Whether the author of a change is an infrastructure admin, or the command line, which names none.';

comment on function private.read_openid_client(text) is
  'Returns an OpenID client with its version, or null. A change names the version that its author saw.';

comment on function private.set_app_logout_url(text, text, text, uuid) is
  'Sets where an app of any kind learns of ended logins; null stops it. False if there is no such app.';

grant execute on function private.add_openid_client(jsonb) to service_role;

grant execute on function private.app_version(text) to service_role;

grant execute on function private.change_openid_client(jsonb) to service_role;

grant execute on function private.describe_openid_client(uuid) to service_role;

grant execute on function private.list_openid_clients(text, text, integer) to service_role;

grant execute on function private.may_change_apps(jsonb) to service_role;

grant execute on function private.read_openid_client(text) to service_role;

grant execute on function private.set_app_logout_url(text, text, text, uuid) to service_role;
