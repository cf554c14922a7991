-- Lists a person's workspaces, and the members of a workspace, in pages. Row-level security decides which rows are
-- visible.

-- Returns a page of the caller's workspaces: the personal workspace first, then the others by name. after contains
-- personal, name and id of the last workspace on the previous page.
create or replace function public.list_workspaces(after text[] default null, page_size integer default 50)
  returns table (id uuid, name text, plan_id text, personal boolean, role text)
  language sql stable security invoker set search_path = ''
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

-- Returns the email addresses of a workspace's members that the caller may see: only the caller's own or, if the caller
-- manages members, all.
-- Definer: email addresses are in Supabase Auth's table. Members who manage members may see these addresses, because
-- invitations are sent by email.
create or replace function public.list_member_emails(workspace_id uuid) returns table (user_id uuid, email text)
  language sql stable security definer set search_path = ''
as $$
  select m.user_id, u.email::text
  from public.workspace_members m
  join auth.users u on u.id = m.user_id
  where m.workspace_id = list_member_emails.workspace_id
    and u.email <> ''
    and private.account_required_mfa_satisfied()
    and (
      m.user_id = (select auth.uid())
      or m.workspace_id in (select private.my_workspace_ids_with_permission('manage_members'))
    )
$$;

-- Returns a page of a workspace's members: owners first, then by name. The search text matches part of the name or of a
-- visible email. A role or user id restricts the list further. after contains is_owner, sorts_as and user_id of the
-- last member on the previous page.
create or replace function public.list_workspace_members(
  workspace_id uuid,
  search text default '',
  of_role uuid default null,
  member_id uuid default null,
  after text[] default null,
  page_size integer default 50
)
  returns table (
    user_id uuid,
    name text,
    role_id uuid,
    role text,
    is_owner boolean,
    joined_at timestamptz,
    sorts_as text,
    email text
  )
  language sql stable security invoker set search_path = ''
as $$
  select m.user_id, n.name, r.id, r.name, r.is_owner, m.created_at, lower(n.name), v.email
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id
  left join public.profiles p on p.id = m.user_id
  left join public.list_member_emails(list_workspace_members.workspace_id) v on v.user_id = m.user_id
  cross join lateral (select coalesce(p.display_name, 'Unknown') as name) n
  where m.workspace_id = list_workspace_members.workspace_id
    and (of_role is null or m.role_id = of_role)
    and (member_id is null or m.user_id = member_id)
    and (position(lower(search) in lower(n.name)) > 0 or position(lower(search) in lower(v.email)) > 0)
    and (
      after is null or (not r.is_owner, lower(n.name), m.user_id) > (not after[1]::boolean, after[2], after[3]::uuid)
    )
  order by not r.is_owner, lower(n.name), m.user_id
  limit page_size
$$;

-- Returns a workspace's roles, each with its number of members. Stops counting at 1,001.
create or replace function public.list_workspace_roles(workspace_id uuid)
  returns table (
    id uuid,
    name text,
    is_owner boolean,
    permissions public.workspace_permission[],
    members bigint,
    member_budget_usd numeric
  )
  language sql stable security invoker set search_path = ''
as $$
  select
    r.id, r.name, r.is_owner, r.permissions,
    (
      select count(*)
      from (
        select from public.workspace_members m where m.workspace_id = r.workspace_id and m.role_id = r.id limit 1001
      ) as counted
    ),
    r.member_budget_usd
  from public.workspace_roles r
  where r.workspace_id = list_workspace_roles.workspace_id
$$;
