-- Reading what was said in a run, where its workspace captures that. Who may choose that content is kept may read it, and
-- each reading is written into the workspace's log, which its owners see.

create function ai.readable_content(workspace uuid, run_id uuid) returns table (content ai.run_content, deleted_from timestamptz)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c, c.run_created_at + make_interval(days => w.content_retention_days)
  from (
    -- The id is a UUID version 7 of its creation.
    select to_timestamp(('x' || substr(replace(readable_content.run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
      as moment
  ) as begun
  join ai.run_content c on c.run_created_at >= begun.moment - interval '1 second'
    and c.run_created_at < begun.moment + interval '1 second'
  join ai.workspace_policies w on w.workspace_id = c.workspace_id and w.content_capture
  where c.workspace_id = workspace
    and c.run_id = readable_content.run_id
    and c.run_created_at >= now() - make_interval(days => w.content_retention_days)
$$;
comment on function ai.readable_content(uuid, uuid) is
  'A run''s content as long as the workspace''s policy of this moment keeps it, swept or not, and from when on it is '
  'deleted. Granted to nobody.';
revoke execute on function ai.readable_content(uuid, uuid) from public, anon, authenticated;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create function ai.describe_run_content(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return '{"outcome": "not_allowed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'kept',
    'deletedFrom', ai.exact_text(r.deleted_from)
  )
  into answer
  from ai.readable_content(workspace, describe_run_content.run_id) r;
  return coalesce(answer, '{"outcome": "none"}');
end
$$;
comment on function ai.describe_run_content(uuid, uuid, uuid) is
  'Whether what was said in a run is kept, for a member with manage_ai_policy, without a word of it: '
  '{ outcome: kept, deletedFrom }, none or not_allowed.';
revoke execute on function ai.describe_run_content(uuid, uuid, uuid) from public, anon, authenticated;
grant execute on function ai.describe_run_content(uuid, uuid, uuid) to service_role;

-- Definer: as ai.describe_run_content; and it writes the log.
create function ai.open_run_content(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return '{"outcome": "not_allowed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'opened',
    'deletedFrom', ai.exact_text(r.deleted_from),
    'prompt', (r.content).prompt,
    'tools', (r.content).tools,
    'answer', (r.content).answer
  )
  into answer
  from ai.readable_content(workspace, open_run_content.run_id) r;
  if answer is null then
    return '{"outcome": "none"}';
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(workspace, 'run_content.read', open_run_content.run_id, open_run_content.run_id::text);
  return answer;
end
$$;
comment on function ai.open_run_content(uuid, uuid, uuid) is
  'What was said in a run, for a member with manage_ai_policy, and a line of the workspace''s log that they read it: '
  '{ outcome: opened, deletedFrom, prompt, tools, answer }, none or not_allowed.';
revoke execute on function ai.open_run_content(uuid, uuid, uuid) from public, anon, authenticated;
grant execute on function ai.open_run_content(uuid, uuid, uuid) to service_role;
