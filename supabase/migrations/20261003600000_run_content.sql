-- Content capture: off, unless a workspace's policy asks for it, and then for as many days as it says.

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create function ai.keep_content(content jsonb) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  insert into ai.run_content as c (run_created_at, run_id, workspace_id, prompt, tools, answer)
  select r.created_at, r.id, r.workspace_id, content ->> 'prompt', content ->> 'tools', content ->> 'answer'
  from ai.runs r
  join public.workspaces s on s.id = r.workspace_id and s.deleted_at is null
  -- Asked of this moment: whoever has just switched it off means what is under way, too.
  join ai.workspace_policies w on w.workspace_id = r.workspace_id and w.content_capture
  where r.created_at = (content ->> 'created_at')::timestamptz and r.id = (content ->> 'id')::uuid
  on conflict (run_created_at, run_id) do update
  set
    prompt = coalesce(c.prompt, excluded.prompt),
    tools = coalesce(c.tools, excluded.tools),
    answer = coalesce(c.answer, excluded.answer)
$$;
comment on function ai.keep_content(jsonb) is
  'Keeps what was said in a run, {created_at, id, prompt?, tools?, answer?}, where its workspace''s policy captures content. '
  'What is there already stays; what is not is added.';
revoke execute on function ai.keep_content(jsonb) from public, anon, authenticated;
grant execute on function ai.keep_content(jsonb) to gateway;

-- Definer: the server's service role deletes nothing by itself.
create function ai.sweep_content(most integer default 5000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  swept integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_content', 0)) then
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
        -- A workspace that is closed keeps nothing, nor does one without a policy that would.
        and c.run_created_at < coalesce(now() - make_interval(days => w.content_retention_days), 'infinity')
      order by c.run_created_at
      limit most
    ) as c
    limit most
  )
  delete from ai.run_content c
  using over o
  where c.run_created_at = o.run_created_at and c.run_id = o.run_id;
  get diagnostics swept = row_count;
  delete from ai.idempotency_keys i
  where (i.workspace_id, i.principal_id, i.key) in (
    select o.workspace_id, o.principal_id, o.key
    from ai.idempotency_keys o
    where o.expires_at < now()
    order by o.expires_at
    limit most
    for update skip locked
  );
  return swept;
end
$$;
comment on function ai.sweep_content(integer) is
  'Deletes content whose days are over, by the policy of this moment, or whose workspace is closed, and idempotency keys '
  'past their 24 hours: so many of each at a time. Returns how many runs'' content it deleted. One sweeper at a time; '
  'others return 0.';
revoke execute on function ai.sweep_content(integer) from public, anon, authenticated;
grant execute on function ai.sweep_content(integer) to service_role;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-sweep-content', '* * * * *', 'select ai.sweep_content()');
  end if;
end
$$;
