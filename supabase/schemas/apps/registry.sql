-- The registry of apps: our own satellites (internal) and third-party apps (external). Every change writes to the audit
-- log.

-- Returns a page of the registry, sorted by name. Each app includes its first 50 linked workspaces, but no secret
-- hashes. term is a part of the name or display name. after is the last name of the previous page. If page_size is
-- null, returns all apps. Excludes OpenID clients, which private.list_openid_clients lists.
create or replace function private.list_apps(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql stable security invoker set search_path = ''
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

-- Returns a page of the workspaces that an app is linked to, sorted by name. after is the name and id of the last
-- workspace on the previous page.
create or replace function private.linked_workspaces(app_id uuid, after text[] default null, page_size integer default 50)
  returns table (id uuid, name text)
  language sql stable security invoker set search_path = ''
as $$
  select w.id, w.name
  from private.app_workspaces l
  join public.workspaces w on w.id = l.workspace_id
  where l.app_id = linked_workspaces.app_id and (after is null or (w.name, w.id) > (after[1], after[2]::uuid))
  order by w.name, w.id
  limit page_size
$$;

-- Returns the app that has exactly this origin, with the app's scopes; null if there is none. Includes disabled apps,
-- so that the page can explain why the sign-in fails.
create or replace function private.find_app_by_origin(origin text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'name', a.name, 'displayName', a.display_name, 'enabled', a.enabled, 'scopes', a.scopes
  )
  from private.app_origins o
  join private.apps a on a.id = o.app_id
  where o.origin = find_app_by_origin.origin and a.kind <> 'openid'
$$;

-- Returns the enabled app with this name and a secret with this SHA-256. Returns no row if the name is unknown, the
-- secret is wrong or expired, or the app is disabled; the caller can't distinguish these cases. Excludes OpenID
-- clients. For definers; not granted to any role.
create or replace function private.authenticate_app(app_name text, secret_hash bytea) returns setof private.apps
  language sql stable security invoker
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

-- Returns whether an origin is a loopback address, which is allowed for development only.
create or replace function private.is_loopback_origin(origin text) returns boolean
  language sql immutable security invoker
as $$
  select origin ~ '^https?://(localhost|([a-z0-9-]+\.)+localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?$'
$$;

-- Registers an app with its origins and first secret. Does not check permissions, because its callers do: the console
-- and the command line, which run on our server.
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
  language plpgsql volatile security invoker set search_path = ''
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

-- Gives an app a new secret. The earlier secrets expire after the overlap. Returns the time when they expire, or null
-- if the app doesn't exist.
create or replace function private.rotate_app_secret(
  app_name text,
  secret_hash bytea,
  overlap_seconds integer,
  reason text,
  actor uuid default null
) returns timestamptz
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  ends_at timestamptz := now() + make_interval(secs => overlap_seconds);
begin
  if overlap_seconds is null or overlap_seconds not between 0 and 86400 then
    raise exception 'the overlap is 0 to 86400 seconds' using errcode = 'check_violation';
  end if;
  -- Locks the app, so that concurrent rotations run one after the other.
  select * into app from private.apps a where a.name = app_name for no key update;
  if not found then
    return null;
  end if;
  if exists (select from private.openid_clients c where c.app_id = app.id and c.is_public) then
    raise exception 'a public client has no secret' using errcode = 'check_violation';
  end if;
  delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
  -- Never extends the life of a secret.
  update private.app_secrets s set expires_at = least(s.expires_at, ends_at) where s.app_id = app.id;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, rotate_app_secret.secret_hash);
  perform private.record_app_change(app, 'app.rotate_secret', reason, actor);
  return ends_at;
end
$$;

-- Enables or disables an app; disabling revokes its credentials. Returns false if the app doesn't exist.
create or replace function private.set_app_enabled(app_name text, enabled boolean, reason text, actor uuid default null)
  returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  update private.apps a set enabled = set_app_enabled.enabled where a.name = app_name returning * into app;
  if not found then
    return false;
  end if;
  perform private.record_app_change(app, case when enabled then 'app.enable' else 'app.disable' end, reason, actor);
  return true;
end
$$;

-- Links an app to a workspace or removes the link. Returns false if the app or workspace doesn't exist.
create or replace function private.set_app_workspace(
  app_name text,
  workspace_id uuid,
  linked boolean,
  reason text,
  actor uuid default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
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

-- Adds an entry about an app to the audit log. If actor is null, the change was made from the command line.
create or replace function private.record_app_change(app private.apps, action text, reason text, actor uuid) returns void
  language sql volatile security invoker
as $$
  select private.record_admin_action(
    jsonb_build_object('actor', actor, 'reason', reason),
    jsonb_build_object(
      'action', action, 'target', 'app ' || (app).name, 'targetName', (app).display_name, 'after', to_jsonb(app)
    )
  )
$$;

-- Returns an app's display name; null if the app was deleted.
create or replace function ai.app_label(app uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select a.display_name from private.apps a where a.id = app
$$;
