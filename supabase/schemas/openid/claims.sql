-- The scopes of clients, and the claims about a person that clients may read (OpenID Connect Core 1.0 sections 5.1, 5.4
-- and 5.5).

-- Returns the scopes of private.allowed_openid_scopes.
create or replace function private.openid_scopes(app_id uuid, requested text[], resource_id uuid default null)
  returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select s.scopes from private.allowed_openid_scopes(app_id, requested, resource_id) s
$$;

-- Returns the requested scopes that are registered for an OpenID client or, if the tokens are for a resource, for that
-- app, as one row, so that a query can join it. Drops all others. Tokens for a resource never have scopes of the
-- platform's own APIs.
create or replace function private.allowed_openid_scopes(app_id uuid, requested text[], resource_id uuid)
  returns table (scopes text[])
  language sql stable security invoker
as $$
  select array(
    select unnest(requested)
    intersect
    select unnest(
      array['openid', 'offline_access']
      || case when 'profile' = any (a.scopes) then array['profile', 'email'] else '{}' end
      || case when resource_id is null
        then array(select unnest(a.scopes) intersect select unnest(array['workspaces:read', 'workspaces:write', 'studio:read', 'studio:keys']))
        else '{}'
      end
    )
    from private.apps a
    where a.id = coalesce(resource_id, app_id)
    order by 1
  )
$$;

-- Returns the claims and the scopes that allow each of them. A claim with two scopes needs both.
create or replace function private.openid_claim_scopes() returns table (claim text, scopes text[])
  language sql immutable security invoker set search_path = ''
as $$
  values
    ('name', array['profile']),
    ('picture', array['profile']),
    ('updated_at', array['profile']),
    -- The email, because accounts have no username.
    ('preferred_username', array['profile', 'email']),
    ('email', array['email']),
    ('email_verified', array['email']),
    ('groups', array['workspaces:read'])
$$;

-- Returns the scopes that a person has to consent to: the granted scopes, and the registered scopes of the claims that the
-- request names.
create or replace function private.openid_consent_scopes(app_id uuid, granted text[], requested_claims text[])
  returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select unnest(openid_consent_scopes.granted)
    union
    select unnest(private.openid_scopes(openid_consent_scopes.app_id, s.scopes))
    from private.openid_claim_scopes() s
    where s.claim = any (openid_consent_scopes.requested_claims)
    order by 1
  )
$$;

-- Returns those of the requested claims that a person has consented to. A login keeps only these, so that a scope that
-- the client is registered for later reveals nothing.
create or replace function private.consented_claims(requested text[], consent_scopes text[]) returns text[]
  language sql immutable security invoker set search_path = ''
as $$
  select array(
    select s.claim
    from private.openid_claim_scopes() s
    where s.claim = any (consented_claims.requested) and s.scopes <@ consented_claims.consent_scopes
    order by 1
  )
$$;

-- Returns a person's claims that these scopes allow, and those that the request named if the client is registered for
-- their scopes. Omits claims without a value. Reads auth.users, so only definers can call it.
create or replace function private.openid_claims(subject_id uuid, app_id uuid, scopes text[], requested_claims text[])
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_object_agg(c.key, c.value), '{}')
  from auth.users u
  left join public.profiles p on p.id = u.id
  left join private.openid_clients o on o.app_id = openid_claims.app_id
  cross join lateral jsonb_each(jsonb_strip_nulls(jsonb_build_object(
    'name', p.display_name,
    'picture', p.avatar_url,
    'updated_at', floor(extract(epoch from p.updated_at))::bigint,
    'preferred_username', u.email,
    'email', u.email,
    'email_verified', case when u.email is not null then u.email_confirmed_at is not null end,
    -- Only the roles of one workspace, which the operator chose: anybody can found a workspace and name its roles.
    'groups', case when o.groups_workspace_id is not null then to_jsonb(array(
      select r.name
      from public.workspace_members m
      join public.workspace_roles r on r.id = m.role_id
      join public.workspaces w on w.id = m.workspace_id and w.deleted_at is null
      where m.workspace_id = o.groups_workspace_id and m.user_id = u.id
    )) end
  ))) as c (key, value)
  join private.openid_claim_scopes() s on s.claim = c.key
  where u.id = openid_claims.subject_id
    and (
      s.scopes <@ openid_claims.scopes
      or (
        s.claim = any (openid_claims.requested_claims)
        and s.scopes <@ private.openid_scopes(openid_claims.app_id, s.scopes)
      )
    )
$$;
