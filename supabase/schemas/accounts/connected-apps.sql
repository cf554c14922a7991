-- Lists the apps that hold a person's credentials or consent, so that the person can disconnect them.

-- Returns the apps that hold a person's live credentials or consent: [{name, displayName, origins, session, login,
-- consent, tokens}]. session summarizes the app sessions, login summarizes the OpenID Connect logins, and each entry of
-- tokens summarizes the tokens for one workspace. A summary is {scopes, connectedAt, renewedAt, endsAt}, with the
-- scopes that are currently in force. An entry of tokens also has workspace, which is the name, or null if the gateway
-- refuses the tokens. consent is {scopes, grantedAt}. login and consent also have resources: the names of the apps that
-- the client may call. session, login and consent may be null.
-- Definer: reads the identity backend's tables and the registry, and calls functions that are not granted to any role.
create or replace function private.connected_apps(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with sessions as (
    select
      s.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(s.created_at),
        'renewedAt', max(s.issued_at),
        'endsAt', max(s.ends_at)
      ) as access
    from private.app_sessions s
    left join lateral unnest(private.effective_scopes(s)) as g (scope) on true
    where s.user_id = subject_id
      and s.revoked_at is null
      and s.expires_at > now()
      and s.ends_at > now()
      and private.proof_status(s.proof) <> 'over'
    group by s.app_id
  ),
  tokens as (
    select
      t.app_id,
      t.workspace_id,
      jsonb_build_object(
        'workspace', max(w.name),
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(t.handed_over_at),
        'renewedAt', max(t.created_at),
        'endsAt', max(e.ends_at)
      ) as access
    from ai.app_tokens t
    join private.apps a on a.id = t.app_id
    -- A token counts until its refresh token expires. Once the token has been refreshed, it counts only until its
    -- access token expires.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- Hides the workspace's name and the token's scopes if the app can no longer act in the workspace or the person has
    -- left it.
    left join public.workspaces w on w.id = t.workspace_id
      and exists (select from private.app_links(a, w.id))
      and exists (select from private.memberships_since(subject_id, w.id, t.handed_over_at))
    left join lateral unnest(t.scopes) as g (scope) on w.id is not null and g.scope = any (private.gateway_scopes(a))
    where t.user_id = subject_id
      and t.revoked_at is null
      and e.ends_at > now()
      and private.proof_status(t.proof) <> 'over'
    group by t.app_id, t.workspace_id
  ),
  logins as (
    select
      l.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(l.created_at),
        'renewedAt', max(coalesce(t.created_at, l.created_at)),
        'endsAt', max(l.ends_at),
        'resources', coalesce(jsonb_agg(distinct r.display_name) filter (where r.id is not null), '[]')
      ) as access
    from private.openid_grants l
    left join private.openid_tokens t on t.grant_id = l.id
    left join private.apps r on r.id = l.resource_id
    left join lateral unnest(private.openid_scopes(l.app_id, l.scopes, l.resource_id)) as g (scope) on true
    where l.user_id = subject_id
      and l.revoked_at is null
      and l.ends_at > now()
      and private.proof_status(l.proof) <> 'over'
    group by l.app_id
  ),
  consents as (
    select
      c.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'resources', coalesce(jsonb_agg(distinct r.display_name) filter (where r.id is not null), '[]'),
        'grantedAt', max(c.granted_at)
      ) as access
    from private.openid_consents c
    join private.apps a on a.id = c.app_id and a.enabled
    left join private.apps r on r.id = c.resource_id
    left join lateral unnest(private.openid_scopes(c.app_id, c.scopes, c.resource_id)) as g (scope) on true
    where c.user_id = subject_id
    group by c.app_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'name', a.name,
    'displayName', a.display_name,
    'origins', (
      select coalesce(jsonb_agg(o.origin order by o.origin), '[]') from private.app_origins o where o.app_id = a.id
    ),
    'session', s.access,
    'login', l.access,
    'consent', c.access,
    'tokens', (
      select coalesce(jsonb_agg(t.access order by t.access ->> 'workspace', t.workspace_id), '[]')
      from tokens t
      where t.app_id = a.id
    )
  ) order by lower(a.display_name), a.name), '[]')
  from private.apps a
  left join sessions s on s.app_id = a.id
  left join logins l on l.app_id = a.id
  left join consents c on c.app_id = a.id
  where coalesce(s.app_id, l.app_id, c.app_id) is not null or exists (select from tokens t where t.app_id = a.id)
$$;

-- Ends all of a person's credentials at an app, including outstanding handoffs, and adds the event to the account's log
-- (private.record_security_event). Returns disconnected, over or not_found. over means that no credential was left to
-- end. not_found means that the app never held a credential of this person, or is not an app.
-- Definer: lets callers end gateway tokens without access to the gateway's tables.
create or replace function private.disconnect_app(subject_id uuid, app_name text, event jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.apps_ever_connected(subject_id) a where a.name = disconnect_app.app_name;
  if not found then
    return 'not_found';
  end if;
  if private.end_app_of_account(subject_id, app.id) = 0 then
    return 'over';
  end if;
  perform private.record_security_event(
    event || jsonb_build_object('userId', subject_id, 'details', jsonb_build_object('app', app.display_name))
  );
  return 'disconnected';
end
$$;

-- Returns whether an app holds or ever held a person's credentials. If private.connected_apps does not list the app,
-- all of these credentials have ended.
-- Definer: see private.connected_apps.
create or replace function private.app_was_ever_connected(subject_id uuid, app_name text) returns boolean
  language sql stable security definer set search_path = ''
as $$
  select exists (select from private.apps_ever_connected(subject_id) a where a.name = app_was_ever_connected.app_name)
$$;

-- Returns the apps that hold or held a person's credentials. Ended credentials count until they are deleted. For
-- definers; not granted to any role.
create or replace function private.apps_ever_connected(subject_id uuid) returns setof private.apps
  language sql stable security invoker set search_path = ''
as $$
  select a.*
  from private.apps a
  where exists (select from private.app_sessions s where s.app_id = a.id and s.user_id = subject_id)
    or exists (select from ai.app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.cross_app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.openid_grants g where g.app_id = a.id and g.user_id = subject_id)
    or exists (select from private.authorization_codes c where c.app_id = a.id and c.user_id = subject_id)
    or exists (select from private.device_authorizations d where d.app_id = a.id and d.user_id = subject_id)
    or exists (select from private.openid_consents c where c.app_id = a.id and c.user_id = subject_id)
$$;
