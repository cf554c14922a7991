-- Changes registered apps from the console.

-- Registers an app with its first secret, or without one. The change is { actor, name, displayName, kind, origins,
-- scopes, logoutUrl, secretHash (the text of a bytea, or null), reason, requestId, ip }. Returns {} or { refused:
-- forbidden | taken (the name or an origin) | invalid }.
create or replace function private.add_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  if not private.may_change_console(change, 'admin:apps:write') then
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
  insert into private.app_secrets (app_id, secret_hash)
  select app.id, (change ->> 'secretHash')::bytea where change ->> 'secretHash' is not null;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'targetName', app.display_name,
    'after', private.describe_app(app.id)
  ));
  return '{}';
end
$$;

-- Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The step
-- edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has secretHash (the
-- text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client allows only enable,
-- disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is outdated; last is
-- private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace | oneself (the link of
-- the actor's personal workspace) }.
create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  old_app jsonb;
begin
  if not private.may_change_console(change, 'admin:apps:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: an admin who saw another state of the app must decide again.
  old_app := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if old_app ->> 'version' is distinct from change ->> 'version' then
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
        backchannel_logout_uri = change ->> 'logoutUrl'
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
    -- What a linked app uses costs the workspace no credits.
    if exists (
      select from public.workspaces w where w.id = linked and private.is_responsible(change, w.personal_user_id)
    ) then
      return jsonb_build_object('refused', 'oneself');
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
    -- Never extends the life of a secret.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'targetName', app.display_name,
    'before', old_app - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

-- Returns an app as private.describe_app does, with a page of its workspaces (private.linked_workspaces) and its
-- version. The version is the id of the app's latest entry in the audit log.
create or replace function private.read_app(app_name text, after text[] default null, page_size integer default 50)
  returns jsonb
  language sql stable security invoker set search_path = ''
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

-- Returns an app for display, without secret hashes. secrets has only the secrets that still work, and workspaces has
-- the first 50.
create or replace function private.describe_app(app_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'kind', a.kind,
    'enabled', a.enabled,
    'scopes', a.scopes,
    'logoutUrl', a.backchannel_logout_uri,
    'resourceUrl', a.resource_url,
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
