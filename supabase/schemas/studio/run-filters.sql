-- The filters of a workspace's runs and refused calls.

-- Returns whether a run matches the filters of ai.list_runs, except its range.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.matches_run_filter(run ai.runs, filter jsonb) returns boolean
  language sql stable security invoker
as $$
  select (filter ->> 'model' is null or (run).model_id = filter ->> 'model')
    and (filter ->> 'feature' is null or (run).feature = filter ->> 'feature')
    and (filter ->> 'status' is null or (run).status = filter ->> 'status')
    and (filter ->> 'keyId' is null or (run).key_id = (filter ->> 'keyId')::uuid)
    and (filter ->> 'appId' is null or (run).app_id = (filter ->> 'appId')::uuid)
    and (filter ->> 'memberId' is null or (run).actor_id = (filter ->> 'memberId')::uuid)
    and (filter ->> 'provider' is null or ai.run_provider((run).routes, (run).route) = filter ->> 'provider')
    and (filter ->> 'entityId' is null or (run).entity_id = filter ->> 'entityId')
    and (filter ->> 'requestId' is null or (run).request_id = filter ->> 'requestId')
$$;

-- Checks the filters of ai.list_runs and returns the name of the first filter whose value does not exist. Returns null
-- if all values exist. Treats every provider as unknown if the workspace hides providers. Treats former members and
-- apps of the workspace as known, because they can have runs.
create or replace function ai.unknown_run_filter(workspace uuid, filter jsonb) returns text
  language sql stable security invoker set search_path = ''
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

-- Returns values by which a workspace's runs can be filtered, at most 100 of each kind, for a member with
-- use_ai_studio, and all models that it may call. Returns { outcome: listed, models, keys (newest first), apps, members,
-- providers } or { outcome: not_allowed }. providers is null if the workspace hides providers.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_filters(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'models', (
      select coalesce(jsonb_agg(m.id order by m.id), '[]')
      from (
        select distinct g.model_id as id
        from ai.model_grants g
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
      ) m
    ),
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

-- Uses the daily sums to find where ai.list_runs can start to search backwards for runs that match its filter and are
-- older than the given moment. Returns a time that is not later than the moment, or null if no earlier run can match.
create or replace function ai.runs_may_exist_before(workspace uuid, filter jsonb, moment timestamptz) returns timestamptz
  language plpgsql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
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
  -- Sums don't count open runs separately, and don't include all runs of the mark's day.
  if moment is null or of_status = 'running' or last_day >= (ai.usage_mark() at time zone 'UTC')::date then
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
    -- Days with changes that the sums don't include yet.
    (select max(c.day) from ai.usage_changes c where c.workspace_id = workspace and c.day <= last_day)
  ) into day;
  if day is null or day < (starts_at at time zone 'UTC')::date then
    return null;
  end if;
  return least(moment, (day + 1)::timestamp at time zone 'UTC');
end
$$;
