-- Content capture. The content of runs is stored only if the workspace's policy enables capture, and for as many days
-- as the policy sets. Each read is logged.

-- Stores a run's content {created_at, id, prompt?, tools?, answer?} if the workspace's policy captures content. Keeps
-- parts that are already stored and adds missing ones.
-- Definer: gateway has no grant on any table. Callers identify a run by the id that begin_runs returned.
create or replace function ai.store_run_content(content jsonb) returns void
  language sql volatile security definer set search_path = ''
as $$
  insert into ai.run_content as c (run_created_at, run_id, workspace_id, prompt, tools, answer)
  select r.created_at, r.id, r.workspace_id, content ->> 'prompt', content ->> 'tools', content ->> 'answer'
  from ai.runs r
  join public.workspaces s on s.id = r.workspace_id and s.deleted_at is null
  -- Checks the current policy: switching capture off applies to runs in progress too.
  join ai.workspace_policies w on w.workspace_id = r.workspace_id and w.content_capture
  where r.created_at = (content ->> 'created_at')::timestamptz and r.id = (content ->> 'id')::uuid
  on conflict (run_created_at, run_id) do update
  set
    prompt = coalesce(c.prompt, excluded.prompt),
    tools = coalesce(c.tools, excluded.tools),
    answer = coalesce(c.answer, excluded.answer)
$$;

-- For a member with manage_ai_policy, returns whether a run's content is stored, but not the content itself. Returns {
-- outcome: kept, deletedFrom } or { outcome: none | not_allowed }.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.describe_run_content(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return '{"outcome": "not_allowed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'kept',
    'deletedFrom', ai.utc_text_microseconds(r.deleted_from)
  )
  into answer
  from ai.retained_content(workspace, describe_run_content.run_id) r;
  return coalesce(answer, '{"outcome": "none"}');
end
$$;

-- Returns a run's content to a member with manage_ai_policy, and logs in the workspace that the member read it. Returns
-- { outcome: opened, deletedFrom, prompt, tools, answer } or { outcome: none | not_allowed }.
-- Definer: checks what a member may do and writes the audit log, which the service role can't do itself.
create or replace function ai.read_run_content(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return '{"outcome": "not_allowed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'opened',
    'deletedFrom', ai.utc_text_microseconds(r.deleted_from),
    'prompt', (r.content).prompt,
    'tools', (r.content).tools,
    'answer', (r.content).answer
  )
  into answer
  from ai.retained_content(workspace, read_run_content.run_id) r;
  if answer is null then
    return '{"outcome": "none"}';
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(workspace, 'run_content.read', read_run_content.run_id, read_run_content.run_id::text);
  return answer;
end
$$;

-- Returns a run's content and the time of its deletion, but only if the workspace's current policy still keeps the
-- content. The result does not depend on when the sweep last ran. Not granted to any role.
create or replace function ai.retained_content(workspace uuid, run_id uuid) returns table (content ai.run_content, deleted_from timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select c, c.run_created_at + make_interval(days => w.content_retention_days)
  from (
    -- The id is a UUIDv7, which contains the time of its creation.
    select to_timestamp(('x' || substr(replace(retained_content.run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
      as moment
  ) as run_time
  join ai.run_content c on c.run_created_at >= run_time.moment - interval '1 second'
    and c.run_created_at < run_time.moment + interval '1 second'
  join ai.workspace_policies w on w.workspace_id = c.workspace_id and w.content_capture
  where c.workspace_id = workspace
    and c.run_id = retained_content.run_id
    and c.run_created_at >= now() - make_interval(days => w.content_retention_days)
$$;

-- Deletes content that the workspace's current policy no longer keeps, content of closed workspaces, and expired
-- idempotency keys. The limit applies separately to runs and to keys. Returns the number of runs whose content it
-- deleted. Returns 0 if another call is in progress.
-- Definer: the service role has no grant to delete these rows.
create or replace function ai.delete_expired_content(most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  deleted_count integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired_content', 0)) then
    return 0;
  end if;
  with recursive owners as (
    (select c.workspace_id from ai.run_content c order by c.workspace_id limit 1)
    union all
    select (
      select c.workspace_id from ai.run_content c where c.workspace_id > o.workspace_id order by c.workspace_id limit 1
    )
    from owners o
    where o.workspace_id is not null
  ), over as (
    select c.run_created_at, c.run_id
    from owners o
    left join public.workspaces s on s.id = o.workspace_id and s.deleted_at is null
    left join ai.workspace_policies w on w.workspace_id = s.id and w.content_capture
    cross join lateral (
      select c.run_created_at, c.run_id
      from ai.run_content c
      where c.workspace_id = o.workspace_id
        -- Deletes all content of a workspace that is closed or whose policy doesn't capture content.
        and c.run_created_at < coalesce(now() - make_interval(days => w.content_retention_days), 'infinity')
      order by c.run_created_at
      limit most
    ) as c
    limit most
  )
  delete from ai.run_content c
  using over o
  where c.run_created_at = o.run_created_at and c.run_id = o.run_id;
  get diagnostics deleted_count = row_count;
  perform private.delete_expired_rows('ai.idempotency_keys', 'expires_at', '0', most);
  return deleted_count;
end
$$;
