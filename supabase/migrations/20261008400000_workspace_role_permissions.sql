-- A role allows a thing or does not: its permissions are one plain list that names each of them once. The pages read
-- them so, and the widest role is told by their number.

create function private.names_each_once(permissions public.workspace_permission[]) returns boolean
  language sql
  immutable
  security invoker
as $$
  select coalesce(array_ndims(permissions), 1) = 1
    and not exists (
      select from unnest(permissions) as permission group by permission having permission is null or count(*) > 1
    )
$$;
comment on function private.names_each_once(public.workspace_permission[]) is
  'Whether a list of permissions is one plain list, of one dimension, and holds nothing twice and no null.';
revoke execute on function private.names_each_once(public.workspace_permission[]) from public, anon, authenticated;
-- Checks run with the rights of whoever writes the row.
grant execute on function private.names_each_once(public.workspace_permission[]) to authenticated, service_role;

update public.workspace_roles
set permissions = array(select distinct p from unnest(permissions) as p where p is not null order by p)
where not private.names_each_once(permissions);

alter table public.workspace_roles
  add constraint permissions_named_once check (private.names_each_once(permissions));
