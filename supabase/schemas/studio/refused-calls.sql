-- Lists the calls of a workspace that the gateway refused before a run began, for its members.

-- Returns a page of refused calls, newest first, for a member with use_ai_studio: { outcome: listed, calls,
-- continueBefore } or { outcome: not_allowed }. Takes the filters of ai.list_runs. Examines at most scan_limit calls; if
-- that fills no page, continueBefore is the position to continue from.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_refused_calls(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns jsonb
  language plpgsql stable security definer set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  with scanned as (
    select c.*
    from ai.refused_calls c
    where c.workspace_id = workspace
      and c.created_at >= starts_at
      and c.created_at < ends_at
      and not (c.created_at = last_at and c.id >= last_id)
      and (filter ->> 'requestId' is null or c.request_id = filter ->> 'requestId')
    order by c.created_at desc, c.id desc
    limit scan_limit
  ), page as (
    select s.*
    from scanned s
    where (filter ->> 'model' is null or s.model_id = filter ->> 'model')
      and (filter ->> 'feature' is null or s.feature = filter ->> 'feature')
      and (filter ->> 'keyId' is null or s.key_id = (filter ->> 'keyId')::uuid)
      and (filter ->> 'appId' is null or s.app_id = (filter ->> 'appId')::uuid)
      and (filter ->> 'memberId' is null or s.actor_id = (filter ->> 'memberId')::uuid)
      and (filter ->> 'entityId' is null or s.entity_id = filter ->> 'entityId')
      -- Refused calls reached no provider.
      and not filter ? 'provider'
    order by s.created_at desc, s.id desc
    limit page_size
  )
  select jsonb_build_object(
    'outcome', 'listed',
    'calls', coalesce(
      (
        select jsonb_agg(
          ai.refused_call_summary(row(p.*)::ai.refused_calls, r.reader) order by p.created_at desc, p.id desc
        )
        from page p
        cross join (select ai.refusal_reader(member_id, workspace) as reader) as r
      ),
      '[]'
    ),
    'continueBefore', (
      select jsonb_build_object('createdAt', s.created_at, 'id', s.id)
      from scanned s
      where (select count(*) from page) < page_size
      order by s.created_at desc, s.id desc
      offset scan_limit - 1
      limit 1
    )
  )
  into answer;
  return answer;
end
$$;

-- Returns a refused call of a workspace for a member with use_ai_studio, or null.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_refused_call(member_id uuid, workspace uuid, call_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.refused_call_summary(c, ai.refusal_reader(member_id, workspace))
  from ai.refused_calls c, ai.time_of_id(call_id) as call_time
  where c.id = call_id
    and c.created_at >= call_time - interval '1 second'
    and c.created_at < call_time + interval '1 second'
    and c.workspace_id = workspace
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;

-- Returns what decides which details of refused calls a member sees: { memberId, costVisible, keysVisible }. keysVisible
-- is as in ai.read_budgets.
create or replace function ai.refusal_reader(member_id uuid, workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'memberId', member_id,
    'costVisible', ai.cost_visible(workspace),
    'keysVisible', private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
      or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
  )
$$;

-- Returns a refused call for its workspace's members. reader is what ai.refusal_reader returns.
create or replace function ai.refused_call_summary(call ai.refused_calls, reader jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (call).id,
    'requestId', (call).request_id,
    'createdAt', (call).created_at,
    'model', (call).model_id,
    'endpoint', (call).endpoint,
    'feature', (call).feature,
    'entityId', (call).entity_id,
    'credentialSource', (call).credential_source,
    'keyId', (call).key_id,
    'keyName', (select k.name from ai.keys k where k.id = (call).key_id),
    'appId', (call).app_id,
    'appName', (select a.display_name from private.apps a where a.id = (call).app_id),
    'memberId', (call).actor_id,
    'memberName', (select p.display_name from public.profiles p where p.id = (call).actor_id),
    'streamed', (call).streamed,
    'httpStatus', (call).http_status,
    'errorCode', (call).error_code,
    'param', (call).param,
    'details', ai.visible_details(call, reader)
  )
$$;

-- Returns the details of a refused call that a reader may see. Only members see their own balance, also when they pay
-- for the calls of a key. The fitting output limit would tell it, too. What a key's budget has left, and the address
-- from which a key was used, are for those who see the budgets of keys.
create or replace function ai.visible_details(call ai.refused_calls, reader jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when r.reached @> '{"kind": "balance", "payer": "member"}' and (call).actor_id::text is distinct from reader ->> 'memberId'
      then r.details - '{need,fitting_output_limit}'::text[] || jsonb_build_object(
        'limit', r.reached - '{balance_credits,reserved_credits,remaining_credits}'::text[]
      )
    when (reader ->> 'keysVisible')::boolean then r.details
    when r.reached @> '{"kind": "budget", "scope": "key"}' then ai.without_amounts(r.details) - 'fitting_output_limit'
    when r.details @> '{"missing": {"kind": "address"}}' then null
    else r.details
  end
  from (
    select d.details, d.details -> 'limit' as reached
    from (
      select case when (reader ->> 'costVisible')::boolean then (call).details else ai.without_amounts((call).details) end
    ) as d (details)
  ) as r
$$;

-- Returns the members of an object, also of nested objects, except amounts in dollars.
create or replace function ai.without_amounts(details jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_object_agg(
      d.key, case jsonb_typeof(d.value) when 'object' then ai.without_amounts(d.value) else d.value end
    ),
    '{}'
  )
  from jsonb_each(details) d
  where d.key !~* 'usd'
$$;
