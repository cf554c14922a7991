-- Functions of workspaces and apps.

-- schemas/workspaces/permissions.sql

-- Definer: reads memberships past their own policy, for the caller only.
create or replace function private.my_workspace_ids() returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    where m.user_id = (select auth.uid()) and w.deleted_at is null;
end
$$;
comment on function private.my_workspace_ids() is
  'Workspaces that the caller belongs to; deleted ones are gone at once.';

-- Definer: reads memberships past their own policy, for the caller only.
create or replace function private.my_workspace_ids_with_permission(permission public.workspace_permission) returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = (select auth.uid())
      and w.deleted_at is null
      and (r.is_owner or my_workspace_ids_with_permission.permission = any (r.permissions));
end
$$;
comment on function private.my_workspace_ids_with_permission(public.workspace_permission) is
  'Workspaces in which the caller''s role carries the permission.';

-- Definer: reads memberships past their own policy, for the caller only.
create or replace function private.my_owned_workspace_ids() returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = (select auth.uid()) and w.deleted_at is null and r.is_owner;
end
$$;
comment on function private.my_owned_workspace_ids() is 'Workspaces that the caller owns.';

-- Definer: reads memberships past their own policy, for the caller only.
create or replace function private.my_coworker_ids() returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.user_id
    from public.workspace_members m
    where m.workspace_id in (select private.my_workspace_ids());
end
$$;
comment on function private.my_coworker_ids() is 'People who share a workspace with the caller.';

-- Definer: reads memberships past their own policy, for the caller only.
create or replace function private.my_assignable_role_ids() returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select other.id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles mine on mine.id = m.role_id
    join public.workspace_roles other on other.workspace_id = m.workspace_id
    where m.user_id = (select auth.uid())
      and w.deleted_at is null
      and (
        (mine.is_owner and (not other.is_owner or private.session_is_fresh()))
        or (
          'manage_members'::public.workspace_permission = any (mine.permissions)
          and not other.is_owner
          and other.permissions <@ mine.permissions
        )
      );
end
$$;
comment on function private.my_assignable_role_ids() is
  'Roles that the caller may give and take: none that allows more than their own, so that nobody promotes themselves; '
  'and an owner''s by an owner who has proved within ten minutes who they are.';

-- Definer: reads memberships past their own policy, for the caller only.
create or replace function private.my_workspace_permissions() returns table (
  workspace_id uuid,
  permissions public.workspace_permission[]
)
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.workspace_id, case when r.is_owner then enum_range(null::public.workspace_permission) else r.permissions end
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = (select auth.uid()) and w.deleted_at is null;
end
$$;
comment on function private.my_workspace_permissions() is 'What the caller may do, by workspace.';

create or replace function private.user_has_workspace_permission(
  user_id uuid,
  workspace_id uuid,
  permission public.workspace_permission
) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = user_has_workspace_permission.user_id
      and m.workspace_id = user_has_workspace_permission.workspace_id
      and w.deleted_at is null
      and (r.is_owner or user_has_workspace_permission.permission = any (r.permissions))
  )
$$;
comment on function private.user_has_workspace_permission(uuid, uuid, public.workspace_permission) is
  'For definers that have derived the user from a credential. Granted to nobody: it trusts the id it is given.';

create or replace function private.is_workspace_member(user_id uuid, workspace_id uuid) returns boolean
  language plpgsql
  stable
  security invoker
as $$
begin
  return exists (
    select
    from public.workspace_members m
    where m.user_id = is_workspace_member.user_id and m.workspace_id = is_workspace_member.workspace_id
  );
end
$$;
comment on function private.is_workspace_member(uuid, uuid) is
  'For definers that have derived the user from a credential. Granted to nobody: it trusts the id it is given.';

-- schemas/workspaces/lifecycle.sql

-- Definer: founders hold no grant to write roles or memberships.
create or replace function private.create_workspace_defaults() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  owner_role_id uuid;
begin
  insert into public.workspace_roles (workspace_id, name, permissions, is_owner)
  values (new.id, 'owner', enum_range(null::public.workspace_permission), true)
  returning id into owner_role_id;

  insert into public.workspace_roles (workspace_id, name, permissions)
  values
    (new.id, 'admin', enum_range(null::public.workspace_permission)),
    (new.id, 'member', array['use_ai_studio']::public.workspace_permission[]),
    (new.id, 'viewer', '{}');

  if new.created_by is not null then
    insert into public.workspace_members (workspace_id, user_id, role_id)
    values (new.id, new.created_by, owner_role_id);
  end if;
  return null;
end
$$;
comment on function private.create_workspace_defaults() is
  'Gives a new workspace its roles and makes its founder the owner, in the same statement.';

-- Definer: must count owners, and lock the workspace, whatever the caller may see.
create or replace function private.require_workspace_owner() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not (select r.is_owner from public.workspace_roles r where r.id = old.role_id) then
    return null;
  end if;

  -- One departure at a time, or two owners could leave each other behind.
  perform from public.workspaces w where w.id = old.workspace_id and w.deleted_at is null for no key update;
  if not found then
    return null;
  end if;

  -- A person whose account is erased goes in any case.
  if not exists (select from public.profiles p where p.id = old.user_id) then
    return null;
  end if;

  if not exists (
    select
    from public.workspace_members m
    join public.workspace_roles r on r.id = m.role_id
    where m.workspace_id = old.workspace_id and r.is_owner
  ) then
    raise exception 'a workspace needs an owner' using errcode = 'PT409';
  end if;
  return null;
end
$$;
comment on function private.require_workspace_owner() is
  'Refuses the last owner''s departure or demotion with PT409, which the Data API answers as 409.';

-- Definer: the identity backend erases users, and holds no grant on workspaces.
create or replace function private.close_orphaned_workspaces() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- One departure at a time, or the last two would each leave the workspace to the other. Memberships before workspaces,
  -- as who leaves has them locked.
  perform from public.workspace_members m where m.user_id = old.id order by m.workspace_id for update;
  perform
  from public.workspaces w
  where w.deleted_at is null
    and w.id in (select m.workspace_id from public.workspace_members m where m.user_id = old.id)
  order by w.id
  for no key update;
  update public.workspaces w
  set
    deleted_at = pg_catalog.now(),
    name = case when w.personal_user_id = old.id then 'Deleted workspace' else w.name end
  where w.deleted_at is null
    and w.id in (select m.workspace_id from public.workspace_members m where m.user_id = old.id)
    and not exists (
      select
      from public.workspace_members m
      join public.workspace_roles r on r.id = m.role_id
      where m.workspace_id = w.id
        and m.user_id <> old.id
        -- A personal one lives on only with who owns it too.
        and (r.is_owner or w.personal_user_id is distinct from old.id)
    );
  return old;
end
$$;
comment on function private.close_orphaned_workspaces() is
  'Closes the workspaces that an erased person leaves empty, so that their keys end too and no name stays behind.';

-- Definer: all of them count, whatever the writer may read.
create or replace function private.limit_workspace_roles() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if exists (
    select from public.workspace_roles r
    where r.workspace_id in (select i.workspace_id from inserted i)
    group by r.workspace_id having count(*) > 100
  ) then
    raise exception 'too many roles' using errcode = 'PT409';
  end if;
  return null;
end
$$;
comment on function private.limit_workspace_roles() is 'Refuses more than 100 roles of one workspace with PT409.';

-- schemas/workspaces/invitations.sql

-- Definer: authenticated has no usage of the schema private. Whose invitations it replaces is what the policy
-- delete_with_permission says.
create or replace function private.replace_invitation() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  delete from public.workspace_invitations v
  where v.workspace_id = new.workspace_id
    and v.email = new.email
    and v.accepted_at is null
    and v.role_id in (select private.my_assignable_role_ids())
    and v.created_at <= now() - private.mail_pause();
  return new;
end
$$;
comment on function private.replace_invitation() is
  'Lets a new invitation take the place of an open one of the same workspace and email that the inviter could withdraw. '
  'The link in one that is younger than private.mail_pause() stays good: then the new one fails with 23505.';

-- Definer: as above, and nobody takes from buckets.
create or replace function private.limit_inviter() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  bucket record;
  longest interval;
  seconds integer;
begin
  for bucket in
    select * from private.attempt_buckets('invitation', 'user:' || new.invited_by, null) b order by b.subject
  loop
    longest := greatest(
      longest, private.consume_attempt(bucket.subject, 'invitation', bucket.scope, bucket.step, bucket.per)
    );
  end loop;
  if longest is not null then
    seconds := ceil(extract(epoch from longest));
    raise exception 'too many invitations by one inviter: try again in % seconds', seconds
      using errcode = 'PT429', detail = seconds;
  end if;
  return null;
end
$$;
comment on function private.limit_inviter() is
  'Counts invitations by their inviter in all workspaces together, and refuses more than private.attempt_limits() allows '
  'with PT429, whose detail is the seconds until the next one.';

-- Definer: all of them count, whatever the writer may read.
create or replace function private.limit_workspace_invitations() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if exists (
    select from public.workspace_invitations v
    where v.workspace_id in (select i.workspace_id from inserted i) and v.accepted_at is null
    group by v.workspace_id having count(*) > 500
  ) then
    raise exception 'too many invitations' using errcode = 'PT409';
  end if;
  return null;
end
$$;
comment on function private.limit_workspace_invitations() is
  'Refuses more than 500 invitations of one workspace that nobody has accepted, with PT409.';

-- schemas/workspaces/administration.sql

-- Definer: founders hold no grant to insert workspaces, whose other columns are not theirs to choose.
create or replace function public.create_workspace(name text) returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  founder uuid := auth.uid();
  created uuid;
begin
  if founder is null or not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  -- One founding at a time a person, or many at once would all count too few.
  perform pg_advisory_xact_lock(hashtextextended('create_workspace ' || founder::text, 0));
  if (
    select count(*) >= 20
    from public.workspaces w
    where w.created_by = founder and w.deleted_at is null
  ) then
    raise exception 'too many workspaces' using errcode = 'PT409';
  end if;
  insert into public.workspaces (name, created_by) values (btrim(create_workspace.name), founder)
  returning id into created;
  return created;
end
$$;
comment on function public.create_workspace(text) is
  'Founds a workspace with the caller as owner and returns its id. PT409 above 20 of one founder; 23514 for a name of '
  'less than 1 or more than 80 characters.';

-- Definer: who is invited is no member yet and may see nothing of the workspace but this.
create or replace function public.workspace_invitation(token_hash text) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  return (
    select jsonb_build_object(
      'workspaceId', w.id,
      'workspaceName', w.name,
      'role', r.name,
      'email', i.email,
      'invitedBy', p.display_name,
      'expiresAt', i.expires_at,
      'state', case
        when w.deleted_at is not null then 'withdrawn'
        when i.accepted_at is not null then 'accepted'
        when i.expires_at <= now() then 'expired'
        else 'open'
      end,
      'forYou', exists (
        select from auth.users u
        where u.id = auth.uid() and lower(u.email) = i.email and u.email_confirmed_at is not null
      )
    )
    from public.workspace_invitations i
    join public.workspaces w on w.id = i.workspace_id
    join public.workspace_roles r on r.id = i.role_id
    left join public.profiles p on p.id = i.invited_by
    where i.token_hash = case
      when workspace_invitation.token_hash ~ '^[0-9a-f]{64}$' then decode(workspace_invitation.token_hash, 'hex')
    end
  );
end
$$;
comment on function public.workspace_invitation(text) is
  'What an invitation offers, to whoever holds its token (hex of its SHA-256), or null: { workspaceId, workspaceName, '
  'role, email, invitedBy, expiresAt, state: open | accepted | expired | withdrawn, forYou }.';

-- Definer: who is invited holds no grant to write memberships.
create or replace function public.accept_workspace_invitation(token_hash text) returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  joined public.workspace_invitations;
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  update public.workspace_invitations i
  set accepted_at = now(), accepted_by = auth.uid()
  from auth.users u, public.workspaces w
  where i.token_hash = case
      when accept_workspace_invitation.token_hash ~ '^[0-9a-f]{64}$'
        then decode(accept_workspace_invitation.token_hash, 'hex')
    end
    and i.accepted_at is null
    and i.expires_at > now()
    and u.id = auth.uid()
    and lower(u.email) = i.email
    and u.email_confirmed_at is not null
    and w.id = i.workspace_id
    and w.deleted_at is null
  returning i.* into joined;
  if not found then
    raise exception 'no open invitation of this account' using errcode = 'PT404';
  end if;
  -- Who is in already keeps their role.
  insert into public.workspace_members (workspace_id, user_id, role_id)
  values (joined.workspace_id, auth.uid(), joined.role_id)
  on conflict do nothing;
  return joined.workspace_id;
end
$$;
comment on function public.accept_workspace_invitation(text) is
  'Joins the workspace that an open invitation to the caller''s own confirmed email offers, once, and returns its id. '
  'PT404 for every other token.';

-- Definer: the change makes two roles swap in one moment, which the policies would judge one by one.
create or replace function public.transfer_workspace_ownership(workspace_id uuid, new_owner_id uuid) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
#variable_conflict use_column
declare
  owner_role uuid;
  admin_role uuid;
begin
  if not private.account_required_mfa_satisfied()
    or (transfer_workspace_ownership.workspace_id in (select private.my_owned_workspace_ids())) is not true then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if not private.session_is_fresh() then
    raise exception 'prove again who you are' using errcode = 'PT403';
  end if;
  if new_owner_id = auth.uid() then
    raise exception 'they own it already' using errcode = 'PT409';
  end if;
  -- Members before their workspace, as who leaves has them locked.
  perform from public.workspace_members m
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id in (auth.uid(), new_owner_id)
  order by m.user_id
  for update;
  perform from public.workspaces w where w.id = transfer_workspace_ownership.workspace_id for no key update;
  -- Asked again under the lock: another transfer may have been first.
  if transfer_workspace_ownership.workspace_id not in (select private.my_owned_workspace_ids()) then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  select r.id into owner_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and r.is_owner;
  -- The widest role that is none of an owner's.
  select r.id into admin_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and not r.is_owner
  order by cardinality(r.permissions) desc, r.name = 'admin' desc, r.name
  limit 1;

  update public.workspace_members m set role_id = owner_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = new_owner_id;
  if not found then
    raise exception 'they are no member' using errcode = 'PT404';
  end if;
  update public.workspace_members m set role_id = admin_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = auth.uid() and admin_role is not null;
end
$$;
comment on function public.transfer_workspace_ownership(uuid, uuid) is
  'Makes another member the owner, and the caller, who owned it, what comes next below. PT403 for who does not own it '
  'or proved longer than ten minutes ago who they are, '
  'PT404 for who is no member, PT409 for oneself.';

-- Definer: members hold no grant on deleted_at, nor on keys.
create or replace function public.delete_workspace(workspace_id uuid) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
#variable_conflict use_column
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if (delete_workspace.workspace_id in (select private.my_workspace_ids())) is not true then
    raise exception 'no such workspace' using errcode = 'PT404';
  end if;
  if delete_workspace.workspace_id not in (select private.my_workspace_ids_with_permission('manage_workspace_settings')) then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if not private.session_is_fresh() then
    raise exception 'prove again who you are' using errcode = 'PT403';
  end if;
  -- Invitations before their workspace, as who accepts one, or ends the account that sent it, has them locked.
  delete from public.workspace_invitations i
  where i.workspace_id = delete_workspace.workspace_id and i.accepted_at is null;
  update public.workspaces w set deleted_at = now()
  where w.id = delete_workspace.workspace_id and w.deleted_at is null;
  update ai.keys k set revoked_at = now()
  where k.workspace_id = delete_workspace.workspace_id and k.revoked_at is null;
end
$$;
comment on function public.delete_workspace(uuid) is
  'Closes a workspace for everyone in it: its keys end and nobody reads it any more. Runs, ledger and invoices stay. '
  'PT404 for who is no member, PT403 without manage_workspace_settings or a proof within ten minutes of who one is.';

-- schemas/workspaces/audit-log.sql

-- Definer, as are the triggers below: whoever changes a row holds no grant to write the log.
create or replace function private.log_workspace_row() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  row_before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  row_after jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  subject_row jsonb := coalesce(row_after, row_before);
  verb text := case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'changed' else 'deleted' end;
begin
  if tg_table_name = 'workspaces' then
    if tg_op = 'INSERT' then
      perform private.log_workspace_change(new.id, 'workspace.created', new.id, new.name);
    elsif old.deleted_at is null and new.deleted_at is not null then
      perform private.log_workspace_change(new.id, 'workspace.deleted', new.id, old.name);
    elsif new.name is distinct from old.name or new.plan_id is distinct from old.plan_id then
      perform private.log_workspace_change(new.id, 'workspace.changed', new.id, new.name, jsonb_build_object(
        'before', jsonb_build_object('name', old.name, 'plan', old.plan_id),
        'after', jsonb_build_object('name', new.name, 'plan', new.plan_id)
      ));
    end if;
  elsif tg_table_name = 'workspace_members' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'member.' || case tg_op when 'INSERT' then 'joined' when 'UPDATE' then 'role_changed' else 'left' end,
      (subject_row ->> 'user_id')::uuid,
      (select p.display_name from public.profiles p where p.id = (subject_row ->> 'user_id')::uuid),
      jsonb_strip_nulls(jsonb_build_object(
        'before', (select r.name from public.workspace_roles r where r.id = (row_before ->> 'role_id')::uuid),
        'after', (select r.name from public.workspace_roles r where r.id = (row_after ->> 'role_id')::uuid)
      ))
    );
  elsif tg_table_name = 'workspace_roles' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid, 'role.' || verb, (subject_row ->> 'id')::uuid, subject_row ->> 'name',
      jsonb_strip_nulls(jsonb_build_object('before', row_before -> 'permissions', 'after', row_after -> 'permissions'))
    );
  elsif tg_table_name = 'workspace_invitations' then
    if tg_op = 'UPDATE' and new.accepted_at is null then
      return null;
    end if;
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'invitation.' || case tg_op when 'INSERT' then 'sent' when 'UPDATE' then 'accepted' else 'withdrawn' end,
      (subject_row ->> 'id')::uuid, subject_row ->> 'email'
    );
  end if;
  return null;
end
$$;
comment on function private.log_workspace_row() is 'Writes the log''s line for a row of a workspace that changed.';

create or replace function private.acting_user_id() returns uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(auth.uid(), private.uuid_or_null(nullif(current_setting('gatehouse.actor_id', true), '')))
$$;
comment on function private.acting_user_id() is
  'Who acts in this transaction: the token''s user, or whom a function derived from another credential and named in '
  'gatehouse.actor_id.';

create or replace function private.log_workspace_change(
  workspace_id uuid,
  action text,
  subject_id uuid default null,
  subject text default null,
  details jsonb default '{}'
) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into public.workspace_audit_log (workspace_id, actor_id, action, subject_id, subject, details)
  values (workspace_id, private.acting_user_id(), action, subject_id, left(subject, 320), details)
$$;
comment on function private.log_workspace_change(uuid, text, uuid, text, jsonb) is 'One line of the log.';

-- schemas/apps/registry.sql

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
        select jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name) order by w.name, w.id)
        from private.app_workspaces l
        join public.workspaces w on w.id = l.workspace_id
        where l.app_id = a.id
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
comment on function private.list_apps() is 'The registry as people read it: no hash of any secret.';

create or replace function private.find_app_by_origin(origin text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object('name', a.name, 'displayName', a.display_name, 'enabled', a.enabled)
  from private.app_origins o
  join private.apps a on a.id = o.app_id
  where o.origin = find_app_by_origin.origin
$$;
comment on function private.find_app_by_origin(text) is
  'Whose an origin is, exactly; null where nobody''s. Disabled apps too, so that people are told why they cannot go on.';

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
    and a.enabled
$$;
comment on function private.authenticate_app(text, bytea) is
  'The enabled app that a name and a secret''s SHA-256 stand for; no row for unknown, wrong, expired or disabled: one '
  'answer. For definers; granted to nobody.';

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
  insert into private.apps (name, display_name, kind, scopes)
  values (app_name, register_app.display_name, register_app.kind, register_app.scopes)
  returning * into app;
  insert into private.app_origins (origin, app_id) select o, app.id from unnest(origins) as o;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, register_app.secret_hash);
  perform private.record_app_change(app, 'app.register', reason, actor);
  return app.id;
end
$$;
comment on function private.register_app is
  'Registers an app with its origins and first secret. Whether this caller may is decided before: the console and the '
  'command line are the server''s.';

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
  delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
  -- Never later than it was to end already.
  update private.app_secrets s set expires_at = least(s.expires_at, ends_at) where s.app_id = app.id;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, rotate_app_secret.secret_hash);
  perform private.record_app_change(app, 'app.rotate_secret', reason, actor);
  return ends_at;
end
$$;
comment on function private.rotate_app_secret is
  'Gives an app a new secret; those before end after the overlap. Returns when, or null where there is no such app.';

create or replace function private.set_app_enabled(app_name text, enabled boolean, reason text, actor uuid default null)
  returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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
comment on function private.set_app_enabled is
  'Lets an app in or shuts it out; shutting out ends what it holds. False where there is no such app.';

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
  select * into app from private.apps a where a.name = app_name for no key update;
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
comment on function private.set_app_workspace is
  'Links an app to a workspace or takes the link away. False where there is no such app or workspace.';

create or replace function private.record_app_change(app private.apps, action text, reason text, actor uuid) returns void
  language sql
  volatile
  security invoker
as $$
  insert into private.admin_audit_log (actor_id, action, target, reason, after)
  values (actor, action, 'app ' || (app).name, reason, to_jsonb(app))
$$;
comment on function private.record_app_change(private.apps, text, text, uuid) is
  'One line of the audit log about an app. Without an actor: the command line.';

-- schemas/apps/proof.sql

-- Definer: asks the identity backend's tables and the rule, which the service role may not.
create or replace function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  facts record;
  app private.apps;
  -- Whichever second factor is the later one: of the session itself, or of the approval that is bound to it.
  own_second bigint;
  by_approval boolean;
  current_second bigint := floor(extract(epoch from now()));
begin
  select * into facts from private.session_facts(claims);
  if not found or facts.banned or facts.deleted then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  if private.required_mfa_state(facts.app_metadata) = 'malformed' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if not private.satisfies_required_mfa(
    facts.app_metadata, claims, facts.has_verified_factor, facts.session_factor_verified, facts.approval_second,
    current_second
  ) then
    return jsonb_build_object('refused', 'mfa_required');
  end if;
  select * into app from private.apps a where a.name = target_app and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;

  own_second := case
    when facts.session_factor_verified and claims ->> 'aal' = 'aal2'
      then private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
  end;
  by_approval := coalesce(facts.approval_second > own_second, facts.approval_second is not null);
  return jsonb_build_object(
    'user', facts.user_id,
    'target', app.name,
    'targetId', app.id,
    'session', facts.session_id,
    'factor', case when by_approval then facts.approval_factor_id when own_second is not null then facts.session_factor_id end,
    'secondFactorAt', case when by_approval then facts.approval_second else own_second end,
    'primaryAt', private.latest_amr_second(claims -> 'amr', private.primary_methods()),
    'generation', private.required_mfa_generation(facts.app_metadata),
    'validUntil', case when by_approval then facts.approval_valid_until end,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;
comment on function private.required_mfa_proof(jsonb, text, integer) is
  'What the session of verified claims has proved, for the web server to sign: {user, target, session, factor, '
  'secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt}, seconds since 1970 and times, or '
  '{refused: unauthenticated | mfa_required | unavailable | not_found}. validUntil ends what an approval lent.';

create or replace function private.handoff_proof(facts jsonb) returns private.mfa_proof
  language sql
  immutable
  security invoker
as $$
  select row(
    (facts ->> 'user')::uuid,
    (facts ->> 'session')::uuid,
    (facts ->> 'factor')::uuid,
    (facts ->> 'secondFactorAt')::bigint,
    (facts ->> 'primaryAt')::bigint,
    (facts ->> 'generation')::bigint
  )::private.mfa_proof
$$;
comment on function private.handoff_proof(jsonb) is 'The signed facts of a handoff as the rows of its credentials keep them.';

create or replace function private.proof_status(proof private.mfa_proof) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  account record;
begin
  select
    u.raw_app_meta_data as app_metadata,
    coalesce(u.banned_until > now(), false) or u.deleted_at is not null as closed,
    exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified') as has_verified_factor,
    exists (
      select from auth.mfa_factors f where f.id = proof.factor_id and f.user_id = u.id and f.status = 'verified'
    ) as factor_verified,
    proof.session_id is null or exists (
      select
      from auth.sessions s
      where s.id = proof.session_id and s.user_id = u.id and (s.not_after is null or s.not_after > now())
    ) as session_alive
  into account
  from auth.users u
  where u.id = proof.user_id;

  if not found or account.closed or not account.session_alive then
    return 'over';
  end if;
  if private.required_mfa_state(account.app_metadata) = 'malformed' then
    return 'unavailable';
  end if;
  -- Every change of the policy moves its boundary, and no proof of before it counts. A proof is tied to its factor
  -- even where the account needs none any more.
  if proof.generation is distinct from private.required_mfa_generation(account.app_metadata)
    or (proof.factor_id is not null and not account.factor_verified) then
    return 'over';
  end if;
  -- For the rule it is a second factor proved elsewhere, as a bound approval is; it knows when someone signed in, and
  -- any primary method's name will do.
  if not private.satisfies_required_mfa(
    account.app_metadata,
    jsonb_build_object('amr', jsonb_build_array(
      jsonb_build_object('method', 'password', 'timestamp', proof.primary_second)
    )),
    account.has_verified_factor,
    false,
    case when account.factor_verified then proof.second_factor_second end,
    floor(extract(epoch from now()))::bigint
  ) then
    return 'mfa_required';
  end if;
  return 'good';
end
$$;
comment on function private.proof_status(private.mfa_proof) is
  'good; over (session or account ended, policy changed, factor gone); mfa_required; or unavailable, where the policy '
  'cannot be read. For definers; granted to nobody.';

create or replace function private.lock_app_credentials(user_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- As an update of the account does by itself, so that a new password waits here, too, and is waited for.
  perform from auth.users u where u.id = lock_app_credentials.user_id for no key update;
end
$$;
comment on function private.lock_app_credentials(uuid) is
  'One at a time for each person, before any row of theirs is read: who refreshes and who ends what apps hold of them. '
  'Else the successor that a refresh under way is about to leave would outlive what ends its token. For definers; granted '
  'to nobody.';

-- schemas/apps/cross-app-tokens.sql

create or replace function private.mint_cross_app_token(token_hash bytea, facts jsonb, proof text) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with target as (
    -- Held: whoever turns the app off waits, and ends this token with the others, or is waited for, and it is not stored.
    select a.id from private.apps a where a.id = (facts ->> 'targetId')::uuid and a.enabled for share
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
comment on function private.mint_cross_app_token(bytea, jsonb, text) is
  'Stores a token for the facts of required_mfa_proof, with the web server''s signature over them. False where the app '
  'has been turned off since.';

-- Definer: authenticate_app, which would tell names and secrets apart, is granted to nobody.
create or replace function private.cross_app_token_proof(app_name text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  return jsonb_build_object(
    'app', jsonb_build_object('id', app.id, 'name', app.name, 'kind', app.kind, 'scopes', app.scopes),
    'proof', (
      select t.proof
      from private.cross_app_tokens t
      where t.token_hash = cross_app_token_proof.token_hash
        and t.app_id = app.id
        and t.redeemed_at is null
        and t.revoked_at is null
        and t.expires_at > now()
    )
  );
end
$$;
comment on function private.cross_app_token_proof(text, bytea, bytea) is
  'First half of a redemption, which changes nothing: the app, and the stored proof for the web server to check, or a '
  'null one; {refused: unauthenticated} where the app did not prove itself.';

create or replace function private.consume_cross_app_token(token_hash bytea, app_id uuid, user_id uuid, proof text) returns uuid
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- Whose it is first, as what is stored for them next would: whoever deletes the account comes by them, too, before they
  -- want this token.
  select from auth.users u where u.id = consume_cross_app_token.user_id for key share;
  update private.cross_app_tokens t
  set redeemed_at = now()
  where t.token_hash = consume_cross_app_token.token_hash
    and t.app_id = consume_cross_app_token.app_id
    and t.user_id = consume_cross_app_token.user_id
    and t.proof = consume_cross_app_token.proof
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now()
  returning t.id
$$;
comment on function private.consume_cross_app_token(bytea, uuid, uuid, text) is
  'The one statement that redeems: of many callers at once one gets the id, the others null. The proof must be the very '
  'text that was checked. For definers; granted to nobody.';

-- Definer: asks the identity backend's tables.
create or replace function private.preview_handoff(user_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object('name', p.display_name, 'email', u.email)
  from auth.users u
  left join public.profiles p on p.id = u.id
  where u.id = preview_handoff.user_id
$$;
comment on function private.preview_handoff(uuid) is
  'Whom "Continue as …" names before a token is redeemed. The web server has the user from a proof that it checked.';

-- Definer: accounts, of which one is held, are the identity backend's.
create or replace function private.revoke_cross_app_tokens(user_id uuid) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  revoked integer;
begin
  perform private.lock_app_credentials(revoke_cross_app_tokens.user_id);
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = revoke_cross_app_tokens.user_id
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now();
  get diagnostics revoked = row_count;
  return revoked;
end
$$;
comment on function private.revoke_cross_app_tokens(uuid) is
  'Ends every outstanding token of a user and says how many. The web server has the user from verified claims.';

-- schemas/apps/app-sessions.sql

-- Definer: proofs, apps' secrets and consumption are granted to nobody.
create or replace function private.redeem_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  app_hash bytea,
  central_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  standing text;
  handoff uuid;
  session_end timestamptz := least(now() + interval '30 days', (facts ->> 'validUntil')::timestamptz);
  opened jsonb;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  standing := private.proof_status(private.handoff_proof(facts));
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or session_end <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  handoff := private.consume_cross_app_token(
    redeem_cross_app_token.token_hash, app.id, (facts ->> 'user')::uuid, redeem_cross_app_token.proof
  );
  if handoff is null then
    return jsonb_build_object('refused', 'token');
  end if;

  with sessions as (
    insert into private.app_sessions as s (
      handoff_id, app_id, audience, scopes, proof, user_id, token_hash, expires_at, ends_at
    )
    select
      handoff, app.id, o.audience, app.scopes, private.handoff_proof(facts), (facts ->> 'user')::uuid, o.hash,
      least(now() + interval '8 hours', session_end), session_end
    from (values ('app', app_hash), ('central', central_hash)) as o (audience, hash)
    -- The central API is for apps that have something to do there.
    where o.audience = 'app' or app.scopes && array['workspaces:read', 'workspaces:write', 'studio:read']
    returning s.audience, private.app_session_summary(s) as summary
  )
  select jsonb_object_agg(s.audience, s.summary) into opened from sessions s;
  return opened;
end
$$;
comment on function private.redeem_cross_app_token is
  'Redeems a token once and opens its sessions: {app, central?}, each {id, audience, user, factor, issuedAt, expiresAt}; '
  'or {refused: unauthenticated | token | unavailable}. The facts are those of the proof, whose signature the web '
  'server has checked.';

-- Definer: proofs and apps' secrets are granted to nobody, and the identity backend's tables are not the service role's.
create or replace function private.introspect_app_session(app_name text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  standing text;
  granted text[];
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select * into session from private.live_app_session(introspect_app_session.token_hash) s where s.app_id = app.id;
  if not found then
    return jsonb_build_object('active', false);
  end if;
  standing := private.proof_status(session.proof);
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  granted := private.effective_scopes(session);
  return jsonb_build_object(
    'active', true,
    'session', private.app_session_summary(session),
    'scopes', granted,
    'endsAt', session.ends_at,
    'profile', case when 'profile' = any (granted) then (
      select jsonb_build_object('name', p.display_name, 'email', u.email, 'picture', p.avatar_url)
      from auth.users u
      left join public.profiles p on p.id = u.id
      where u.id = session.user_id
    ) end
  );
end
$$;
comment on function private.introspect_app_session(text, bytea, bytea) is
  'What a session is worth now, to its own app alone: {active, session, scopes, endsAt, profile} or {active: false}, or '
  '{refused: unauthenticated | unavailable}.';

-- Definer: as introspect_app_session.
create or replace function private.refresh_app_session(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  standing text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select s.* into session
  from private.live_app_session(refresh_app_session.token_hash) l
  join private.app_sessions s on s.id = l.id
  where s.app_id = app.id
  for no key update of s;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(session.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;

  update private.app_sessions s
  set
    previous_hash = refresh_app_session.token_hash,
    previous_valid_until = least(now() + interval '30 seconds', s.expires_at),
    token_hash = successor_hash,
    issued_at = now(),
    expires_at = least(now() + interval '8 hours', s.ends_at)
  where s.id = session.id
    and s.token_hash = refresh_app_session.token_hash
    and s.expires_at > now()
    and s.revoked_at is null
  returning * into session;
  if not found then
    -- Who comes second with the same token, within its grace, gets the same successor.
    select s.* into session
    from private.app_sessions s
    where s.previous_hash = refresh_app_session.token_hash
      and s.previous_valid_until > now()
      and s.token_hash = successor_hash
      and s.app_id = app.id
      and s.revoked_at is null;
    if not found then
      return jsonb_build_object('refused', 'token');
    end if;
  end if;
  return private.app_session_summary(session);
end
$$;
comment on function private.refresh_app_session(text, bytea, bytea, bytea) is
  'Puts the successor in a token''s place, once: {id, audience, user, factor, issuedAt, expiresAt}, the same to everyone '
  'who asks within 30 s, or {refused: unauthenticated | token | unavailable}. The successor follows from the token by '
  'a key of the web server''s, so that all callers bring the same.';

create or replace function private.live_app_session(token_hash bytea) returns setof private.app_sessions
  language sql
  stable
  security invoker
as $$
  select s.*
  from private.app_sessions s
  join private.apps a on a.id = s.app_id and a.enabled
  where (
      (s.token_hash = live_app_session.token_hash and s.expires_at > now())
      or (s.previous_hash = live_app_session.token_hash and s.previous_valid_until > now())
    )
    and s.revoked_at is null
    and s.ends_at > now()
$$;
comment on function private.live_app_session(bytea) is
  'The session of a token by its hash, the one before a refresh included for its grace; not yet whether its proof holds. '
  'For definers; granted to nobody.';

create or replace function private.effective_scopes(session private.app_sessions) returns text[]
  language sql
  stable
  security invoker
as $$
  select array(
    select unnest(session.scopes)
    intersect
    select unnest(a.scopes) from private.apps a where a.id = session.app_id
    order by 1
  )
$$;
comment on function private.effective_scopes(private.app_sessions) is
  'What was granted and is still registered: scopes never widen, and narrow at once.';

create or replace function private.app_session_summary(session private.app_sessions) returns jsonb
  language sql
  stable
  security invoker
as $$
  select jsonb_build_object(
    'id', session.id,
    'audience', session.audience,
    'user', session.user_id,
    'factor', (session.proof).factor_id,
    'issuedAt', session.issued_at,
    'expiresAt', session.expires_at
  )
$$;
comment on function private.app_session_summary(private.app_sessions) is 'What the web server signs into a session''s token.';

-- schemas/apps/app-session-access.sql

-- Definer: reads memberships for the credential's user alone.
create or replace function private.list_workspaces_by_app_session(token_hash bytea) returns jsonb
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
    select jsonb_agg(w.workspace order by (w.workspace ->> 'personal')::boolean desc, w.workspace ->> 'name', w.id)
    from private.user_workspaces(caller.user_id) w
  ), '[]'));
end
$$;
comment on function private.list_workspaces_by_app_session(bytea) is
  '{workspaces: […]} of the session''s user, or {refused}.';

-- Definer: as list_workspaces_by_app_session.
create or replace function private.read_workspace_by_app_session(token_hash bytea, workspace_id uuid) returns jsonb
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
  return coalesce(
    (
      select jsonb_build_object('workspace', w.workspace)
      from private.user_workspaces(caller.user_id) w
      where w.id = read_workspace_by_app_session.workspace_id
    ),
    jsonb_build_object('refused', 'not_found')
  );
end
$$;
comment on function private.read_workspace_by_app_session(bytea, uuid) is
  '{workspace} that the session''s user belongs to, or {refused: … | not_found}.';

-- Definer: as list_workspaces_by_app_session.
create or replace function private.can_rename_by_app_session(token_hash bytea, workspace_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller private.app_caller := private.find_renaming_caller(token_hash, can_rename_by_app_session.workspace_id);
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  return '{}';
end
$$;
comment on function private.can_rename_by_app_session(bytea, uuid) is
  'Whether private.rename_workspace_by_app_session would be refused, before the name is known: {} or {refused}.';

-- Definer: as list_workspaces_by_app_session.
create or replace function private.rename_workspace_by_app_session(token_hash bytea, workspace_id uuid, name text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller private.app_caller := private.find_renaming_caller(token_hash, rename_workspace_by_app_session.workspace_id);
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- For the workspace's own log, which finds no token's user here.
  perform set_config('gatehouse.actor_id', caller.user_id::text, true);
  update public.workspaces w
  set name = rename_workspace_by_app_session.name
  where w.id = rename_workspace_by_app_session.workspace_id and w.deleted_at is null;
  return coalesce(
    (
      select jsonb_build_object('workspace', w.workspace)
      from private.user_workspaces(caller.user_id) w
      where w.id = rename_workspace_by_app_session.workspace_id
    ),
    jsonb_build_object('refused', 'not_found')
  );
end
$$;
comment on function private.rename_workspace_by_app_session(bytea, uuid, text) is
  '{workspace} under its new name, where the session''s user may manage its settings, or {refused: … | not_found | '
  'forbidden}.';

create or replace function private.find_renaming_caller(token_hash bytea, workspace_id uuid) returns private.app_caller
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'workspaces:write');
begin
  if caller.refused is null then
    caller.refused := case
      when not exists (
        select from private.user_workspaces(caller.user_id) w where w.id = find_renaming_caller.workspace_id
      ) then 'not_found'
      when not private.user_has_workspace_permission(
        caller.user_id, find_renaming_caller.workspace_id, 'manage_workspace_settings'
      ) then 'forbidden'
    end;
  end if;
  return caller;
end
$$;
comment on function private.find_renaming_caller(bytea, uuid) is
  'As private.find_app_caller, for a change of the workspace''s name; refused may be not_found or forbidden, too. For '
  'definers; granted to nobody.';

create or replace function private.find_app_caller(token_hash bytea, needed_scope text) returns private.app_caller
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  session private.app_sessions;
  caller private.app_caller;
  standing text;
begin
  select * into session from private.live_app_session(find_app_caller.token_hash) s where s.audience = 'central';
  if not found then
    caller.refused := 'unauthenticated';
    return caller;
  end if;
  standing := private.proof_status(session.proof);
  caller.scopes := private.effective_scopes(session);
  caller.refused := case
    when standing = 'over' then 'unauthenticated'
    when standing <> 'good' then standing
    when not needed_scope = any (caller.scopes) then 'insufficient_scope'
  end;
  caller.user_id := session.user_id;
  caller.app_id := session.app_id;
  return caller;
end
$$;
comment on function private.find_app_caller(bytea, text) is
  'The caller by a central session''s token: refused is unauthenticated, mfa_required, unavailable, insufficient_scope or '
  'null. For definers; granted to nobody.';

create or replace function private.user_workspaces(user_id uuid) returns table (id uuid, workspace jsonb)
  language sql
  stable
  security invoker
as $$
  select w.id, jsonb_build_object(
    'id', w.id,
    'name', w.name,
    'planId', w.plan_id,
    'personal', w.personal_user_id is not distinct from user_workspaces.user_id,
    'role', r.name,
    'permissions', case
      when r.is_owner then to_jsonb(enum_range(null::public.workspace_permission))
      else to_jsonb(r.permissions)
    end
  )
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles r on r.id = m.role_id
  where m.user_id = user_workspaces.user_id and w.deleted_at is null
$$;
comment on function private.user_workspaces(uuid) is
  'For definers that have derived the user from a credential. Granted to nobody: it trusts the id it is given.';

-- schemas/apps/app-tokens.sql

-- Definer: proofs, apps' secrets and consumption are granted to nobody.
create or replace function private.exchange_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  standing text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  token.user_id := (facts ->> 'user')::uuid;
  token.valid_until := (facts ->> 'validUntil')::timestamptz;
  standing := private.proof_status(private.handoff_proof(facts));
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or token.valid_until <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  token.scopes := coalesce(exchange_cross_app_token.scopes, private.gateway_scopes(app));
  if not token.scopes <@ private.gateway_scopes(app) or cardinality(token.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  -- Before the token is used up, so that a refusal leaves it.
  if not private.app_can_act_in_workspace(app, exchange_cross_app_token.workspace_id)
    or not private.is_workspace_member(token.user_id, exchange_cross_app_token.workspace_id) then
    return jsonb_build_object('refused', 'workspace');
  end if;

  token.family_id := private.consume_cross_app_token(
    exchange_cross_app_token.token_hash, app.id, token.user_id, exchange_cross_app_token.proof
  );
  if token.family_id is null then
    return jsonb_build_object('refused', 'token');
  end if;
  token.app_id := app.id;
  token.workspace_id := exchange_cross_app_token.workspace_id;
  -- These tokens outlive sign-out, so their proof names no session.
  token.proof := private.handoff_proof(facts - 'session');
  token.lookup := access_lookup;
  token.token_hash := access_hash;
  token.refresh_hash := exchange_cross_app_token.refresh_hash;
  return private.issue_app_token(token);
end
$$;
comment on function private.exchange_cross_app_token is
  'Redeems a token once for an access token with its refresh token: {user, workspace, scopes, expiresAt}, or {refused: '
  'unauthenticated | token | scope | workspace | unavailable}. Refusals but the last redemption leave the token as it is.';

-- Definer: as exchange_cross_app_token.
create or replace function private.refresh_app_token(
  app_name text,
  secret_hash bytea,
  refresh_hash bytea,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  next ai.app_tokens;
  standing text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(t.user_id)
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash and t.app_id = app.id;
  select * into token
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash
    and t.app_id = app.id
    and t.revoked_at is null
    and t.refresh_expires_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Used again after its grace: one of the two users is not the app (RFC 9700 §4.14.2).
    update ai.app_tokens t set revoked_at = now() where t.family_id = token.family_id and t.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(token.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if token.workspace_id <> refresh_app_token.workspace_id
    or not private.app_can_act_in_workspace(app, token.workspace_id)
    or not private.is_workspace_member(token.user_id, token.workspace_id) then
    return jsonb_build_object('refused', 'workspace');
  end if;
  next := token;
  next.scopes := coalesce(
    refresh_app_token.scopes,
    array(select unnest(token.scopes) intersect select unnest(private.gateway_scopes(app)) order by 1)
  );
  if not next.scopes <@ token.scopes or not next.scopes <@ private.gateway_scopes(app) or cardinality(next.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;

  if token.refreshed_at is not null then
    -- Who comes second within the grace gets what the first got.
    return coalesce(
      (
        select jsonb_build_object(
          'user', t.user_id, 'workspace', t.workspace_id, 'scopes', t.scopes, 'expiresAt', t.expires_at
        )
        from ai.app_tokens t
        where t.token_hash = access_hash and t.refresh_hash = successor_hash and t.revoked_at is null
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update ai.app_tokens t set refreshed_at = now() where t.id = token.id;
  next.lookup := access_lookup;
  next.token_hash := access_hash;
  next.refresh_hash := successor_hash;
  return private.issue_app_token(next);
end
$$;
comment on function private.refresh_app_token is
  'Uses a refresh token once for the next pair: {user, workspace, scopes, expiresAt}, the same to everyone who asks '
  'within 30 s; after that the family ends. Or {refused: unauthenticated | token | scope | workspace | unavailable}. '
  'The next pair follows from the token by a key of the web server''s, so that all callers bring the same.';

create or replace function private.issue_app_token(token ai.app_tokens) returns jsonb
  language sql
  volatile
  security invoker
as $$
  insert into ai.app_tokens as t (
    family_id, app_id, user_id, workspace_id, scopes, proof, valid_until, lookup, token_hash, expires_at, refresh_hash,
    refresh_expires_at, handed_over_at
  )
  values (
    token.family_id, token.app_id, token.user_id, token.workspace_id, token.scopes, token.proof, token.valid_until,
    token.lookup, token.token_hash, least(now() + interval '1 hour', token.valid_until), token.refresh_hash,
    least(now() + interval '30 days', token.valid_until), coalesce(token.handed_over_at, now())
  )
  returning jsonb_build_object(
    'user', t.user_id, 'workspace', t.workspace_id, 'scopes', t.scopes, 'expiresAt', t.expires_at
  )
$$;
comment on function private.issue_app_token(ai.app_tokens) is
  'Stores the next token of a family, with its times. For definers; granted to nobody.';

create or replace function private.gateway_scopes(app private.apps) returns text[]
  language sql
  stable
  security invoker
as $$
  select array(select s from unnest((app).scopes) as s where s in ('workspace:session', 'ai:use', 'tts:use') order by s)
$$;
comment on function private.gateway_scopes(private.apps) is 'What an app may ask for in a token for the gateway.';

create or replace function private.app_can_act_in_workspace(app private.apps, workspace_id uuid) returns boolean
  language plpgsql
  stable
  security invoker
as $$
begin
  return (app).enabled
    and (app).kind = 'external'
    and exists (
      select
      from private.app_workspaces l
      join public.workspaces w on w.id = l.workspace_id and w.deleted_at is null
      where l.app_id = (app).id and l.workspace_id = app_can_act_in_workspace.workspace_id
    );
end
$$;
comment on function private.app_can_act_in_workspace(private.apps, uuid) is
  'Whether an app is a registered external one that is linked to the workspace, at this moment.';

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
      when not private.app_can_act_in_workspace(a, t.workspace_id) then 'app_not_allowed'
      when not private.is_workspace_member(t.user_id, t.workspace_id) then 'app_not_allowed'
      when not s.in_force @> array['workspace:session', 'ai:use'] then 'insufficient_scope'
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
comment on function ai.find_app_token(bytea) is
  'Whom a ttr_app_ token stands for by its SHA-256, with the scopes that token and registration share now, and why the '
  'gateway refuses it, by its own code; no row for unknown, expired or revoked. For definers; granted to nobody.';

create or replace function ai.app_can_act_in_workspace(app_id uuid, workspace_id uuid) returns boolean
  language plpgsql
  stable
  security invoker
as $$
begin
  return coalesce(
    (select private.app_can_act_in_workspace(a, app_can_act_in_workspace.workspace_id) from private.apps a where a.id = app_can_act_in_workspace.app_id),
    false
  );
end
$$;
comment on function ai.app_can_act_in_workspace(uuid, uuid) is
  'Whether a key that is bound to the app is good in the workspace now: registered, external, enabled, linked. For '
  'definers; granted to nobody.';

-- schemas/apps/end-credentials.sql

-- Definer: authenticate_app is granted to nobody.
create or replace function private.revoke_app_credential(app_name text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  held record;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return false;
  end if;
  -- Of whom it is and what it came of never changes.
  select h.user_id, h.handoff_id into held
  from (
    select s.user_id, s.handoff_id
    from private.app_sessions s
    where s.app_id = app.id
      and (s.token_hash = revoke_app_credential.token_hash or s.previous_hash = revoke_app_credential.token_hash)
    union all
    select t.user_id, t.family_id
    from ai.app_tokens t
    where t.app_id = app.id
      and (t.token_hash = revoke_app_credential.token_hash or t.refresh_hash = revoke_app_credential.token_hash)
  ) as h;
  if found then
    perform private.lock_app_credentials(held.user_id);
    update private.app_sessions s
    set revoked_at = now()
    where s.handoff_id = held.handoff_id and s.app_id = app.id and s.revoked_at is null;
    update ai.app_tokens t
    set revoked_at = now()
    where t.family_id = held.handoff_id and t.app_id = app.id and t.revoked_at is null;
  end if;
  return true;
end
$$;
comment on function private.revoke_app_credential(text, bytea, bytea) is
  'Ends an app session, or an access or refresh token for the gateway, with all that came of the same handoff; nothing '
  'where the token is none of the app''s (RFC 7009). False where the app did not prove itself.';

-- Definer: the identity backend changes its users, and holds no grant here.
create or replace function private.revoke_user_app_credentials() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  update private.cross_app_tokens t set revoked_at = now() where t.user_id = new.id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.user_id = new.id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.user_id = new.id and t.revoked_at is null;
  return null;
end
$$;
comment on function private.revoke_user_app_credentials() is
  'Ends whatever apps hold of a person, for good: lifting a ban brings none of it back.';

-- Definer: whoever may write the registry need not reach the gateway's tables.
create or replace function private.revoke_app_credentials() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- All of its people first, and in one order, as private.lock_app_credentials does for one of them: whoever refreshes or
  -- disconnects at this moment is waited for, or waits, before either has a row that the other wants.
  perform
  from auth.users u
  where u.id in (
    select t.user_id from private.cross_app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select s.user_id from private.app_sessions s where s.app_id = new.id and s.revoked_at is null
    union
    select t.user_id from ai.app_tokens t where t.app_id = new.id and t.revoked_at is null
  )
  order by u.id
  for no key update;
  -- In the order in which one comes of the other: a redemption under way is waited for, and what it made is seen next.
  update private.cross_app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.app_id = new.id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  return null;
end
$$;
comment on function private.revoke_app_credentials() is
  'Ends whatever an app holds, for good: enabling it again brings none of it back.';

create or replace function private.sweep_app_credentials() returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer := 0;
  part integer;
begin
  -- One sweeper at a time; the others find nothing to do.
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- What somebody else holds is left for the next sweep: whoever turns an app off or closes an account ends what is long
  -- over with the rest, and comes by it in another order.
  delete from private.cross_app_tokens t
  where t.id in (
    select o.id from private.cross_app_tokens o where o.expires_at < now() - interval '1 day' for update skip locked
  );
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.app_sessions s
  where s.id in (
    select o.id from private.app_sessions o where o.ends_at < now() - interval '1 day' for update skip locked
  );
  get diagnostics part = row_count;
  swept := swept + part;
  -- A used refresh token stays until it would have expired, so that its reuse is noticed.
  delete from ai.app_tokens t
  where t.id in (
    select o.id from ai.app_tokens o where o.refresh_expires_at < now() - interval '1 day' for update skip locked
  );
  get diagnostics part = row_count;
  return swept + part;
end
$$;
comment on function private.sweep_app_credentials() is 'Removes credentials of apps a day after their end; returns how many.';

-- schemas/apps/connected-apps.sql

-- Definer: asks what is granted to nobody, of the identity backend's tables and of the registry.
create or replace function private.connected_apps(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with sessions as (
    select
      s.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(s.created_at),
        'renewedAt', max(s.issued_at),
        'endsAt', max(s.ends_at)
      ) as held
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
      ) as held
    from ai.app_tokens t
    join private.apps a on a.id = t.app_id
    -- Its refresh token's end, until that was used: from then on its successor has a line of its own.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- Where the gateway refuses the token, it may do nothing; and who has left a workspace learns no name of it.
    left join public.workspaces w on w.id = t.workspace_id
      and private.app_can_act_in_workspace(a, w.id)
      and private.is_workspace_member(subject_id, w.id)
    left join lateral unnest(t.scopes) as g (scope) on w.id is not null and g.scope = any (private.gateway_scopes(a))
    where t.user_id = subject_id
      and t.revoked_at is null
      and e.ends_at > now()
      and private.proof_status(t.proof) <> 'over'
    group by t.app_id, t.workspace_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'name', a.name,
    'displayName', a.display_name,
    'origins', (
      select coalesce(jsonb_agg(o.origin order by o.origin), '[]') from private.app_origins o where o.app_id = a.id
    ),
    'session', s.held,
    'tokens', (
      select coalesce(jsonb_agg(t.held order by t.held ->> 'workspace', t.workspace_id), '[]')
      from tokens t
      where t.app_id = a.id
    )
  ) order by lower(a.display_name), a.name), '[]')
  from private.apps a
  left join sessions s on s.app_id = a.id
  where s.app_id is not null or exists (select from tokens t where t.app_id = a.id)
$$;
comment on function private.connected_apps(uuid) is
  'Apps that hold something of a person which is not over: [{name, displayName, origins, session, tokens}]. Session, or '
  'null, sums up the app sessions, and each of tokens what is held for one workspace: {scopes, connectedAt, renewedAt, '
  'endsAt}, scopes as they are in force now; with workspace, null where the gateway refuses the token.';

-- Definer: whoever ends sessions need not reach the gateway's tables.
create or replace function private.disconnect_app(subject_id uuid, app_name text, event jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  part integer;
  ended integer := 0;
begin
  select * into app from private.apps_ever_connected(subject_id) a where a.name = disconnect_app.app_name;
  if not found then
    return 'not_found';
  end if;
  perform private.lock_app_credentials(subject_id);
  -- In the order in which one comes of the other: a redemption under way is waited for, and what it made is seen next.
  -- One that began in the last moment of what it redeems, or renews, is looked for after that moment, too: of a row that
  -- is not asked for by its last state, whoever changes it is not waited for.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.app_id = app.id
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id and s.app_id = app.id and s.revoked_at is null and s.ends_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and t.app_id = app.id and t.revoked_at is null and t.refresh_expires_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  if ended = 0 then
    return 'over';
  end if;
  perform private.record_security_event(
    event || jsonb_build_object('userId', subject_id, 'details', jsonb_build_object('app', app.display_name))
  );
  return 'disconnected';
end
$$;
comment on function private.disconnect_app(uuid, text, jsonb) is
  'Ends all that an app holds of a person, handoffs on their way included, and adds to the log of the account '
  '(private.record_security_event): disconnected; over where nothing was left to end; not_found where it never held '
  'anything of theirs, or is no app.';

create or replace function private.apps_ever_connected(subject_id uuid) returns setof private.apps
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.*
  from private.apps a
  where exists (select from private.app_sessions s where s.app_id = a.id and s.user_id = subject_id)
    or exists (select from ai.app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.cross_app_tokens t where t.app_id = a.id and t.user_id = subject_id)
$$;
comment on function private.apps_ever_connected(uuid) is
  'Apps that hold something of a person, or held it, as far back as what is over is kept. For definers; granted to nobody.';

-- Definer: as private.connected_apps.
create or replace function private.app_was_ever_connected(subject_id uuid, app_name text) returns boolean
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select exists (select from private.apps_ever_connected(subject_id) a where a.name = app_was_ever_connected.app_name)
$$;
comment on function private.app_was_ever_connected(uuid, text) is
  'Whether an app holds something of a person, or held it: where it is none of private.connected_apps, it was.';

create or replace function ai.app_label(app uuid) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.display_name from private.apps a where a.id = app
$$;
comment on function ai.app_label(uuid) is 'An app''s name to read; null once it is gone.';
