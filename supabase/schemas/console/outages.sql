-- Outages of providers, and the emails about their beginning and end. The server writes the emails. One statement queues
-- an email and marks it as queued, so a crash neither repeats nor loses it.

-- Opens an outage for each provider of which an enabled route has failed for 60 seconds, updates those that last, and
-- ends those whose routes have not been failing for two minutes or are disabled. A route fails if ai.route_state() says
-- so. A failure that no other followed, and whose cooldown was shorter, opens nothing. Returns how many outages began or
-- ended; 0 while another call is running.
-- Definer: the service role cannot write outages.
create or replace function ai.record_provider_outages() returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  changed integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.record_provider_outages', 0)) then
    return 0;
  end if;
  with failing as materialized (
    select
      t.provider_id,
      min((t.health).failing_since) filter (
        where greatest((t.health).failed_at, least((t.health).skipped_until, now()))
          >= (t.health).failing_since + interval '60 seconds'
      ) as began_at,
      jsonb_path_query_array(
        jsonb_agg(
          jsonb_build_object('model', (t.health).provider_model, 'endpoint', (t.health).endpoint)
          order by (t.health).provider_model, (t.health).endpoint
        ),
        '$[0 to 19]'
      ) as routes,
      (array_agg((t.health).failure order by (t.health).failed_at desc nulls last))[1] as failure,
      (array_agg((t.health).status order by (t.health).failed_at desc nulls last))[1] as status
    from private.list_troubled_routes(now()) t
    group by t.provider_id
  ), updated as (
    update ai.provider_outages o
    set failing_at = now(), routes = f.routes, failure = f.failure, status = f.status
    from failing f
    where o.provider_id = f.provider_id and o.ended_at is null
  ), opened as (
    insert into ai.provider_outages (provider_id, began_at, routes, failure, status)
    select f.provider_id, f.began_at, f.routes, f.failure, f.status
    from failing f
    where f.began_at is not null
    on conflict (provider_id) where ended_at is null do nothing
    returning id
  ), ended as (
    update ai.provider_outages o
    set ended_at = greatest(o.began_at, case when e.enabled then o.failing_at else now() end)
    from ai.provider_outages p
    cross join lateral (select private.has_enabled_route(p) as enabled) as e
    where o.id = p.id and p.ended_at is null
      and not exists (select from failing f where f.provider_id = p.provider_id)
      and (p.failing_at <= now() - interval '2 minutes' or not e.enabled)
    returning o.id
  )
  select count(*) into changed from (select id from opened union all select id from ended) as c;
  return changed;
end
$$;

-- Returns whether an enabled model still uses one of the routes that failed in an outage.
create or replace function private.has_enabled_route(outage ai.provider_outages) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled and r.provider_id = (outage).provider_id
      and (outage).routes @> jsonb_build_array(jsonb_build_object('model', r.provider_model))
  )
$$;

-- Returns the emails that are due, oldest outage first: [{ id, kind (began or ended), provider, beganAt, endedAt,
-- failure, status, routes: [{ model, endpoint }], ending, callers }]. An outage that ended before its first email has
-- none. ending says why it ended: answered, disabled or quiet (without an answer). callers is set if the outage began, as
-- private.count_failed_callers() returns it.
-- Definer: functions that read runs are not granted to the service role.
create or replace function ai.sweep_outage_mails(max_mails integer default 100) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', (d.o).id,
    'kind', d.kind,
    'provider', (d.o).provider_id,
    'beganAt', ai.utc_text((d.o).began_at),
    'endedAt', ai.utc_text((d.o).ended_at),
    'failure', (d.o).failure,
    'status', (d.o).status,
    'routes', (d.o).routes,
    'ending', case
      when d.kind = 'began' then null
      when not private.has_enabled_route(d.o) then 'disabled'
      when exists (
        select from ai.route_health h
        where h.provider_id = (d.o).provider_id and h.answered_at > (d.o).began_at
          and (d.o).routes @> jsonb_build_array(jsonb_build_object('model', h.provider_model, 'endpoint', h.endpoint))
      ) then 'answered'
      else 'quiet'
    end,
    'callers', case when d.kind = 'began' then private.count_failed_callers((d.o).provider_id, (d.o).began_at) end
  ) order by (d.o).began_at, (d.o).id), '[]')
  from (
    select o, k.kind
    from ai.provider_outages o
    cross join lateral (select ai.due_outage_mail(o) as kind) as k
    where k.kind is not null
    order by o.began_at, o.id
    limit max_mails
  ) as d
$$;

-- Returns which email about an outage has not been queued: began, ended or null.
create or replace function ai.due_outage_mail(outage ai.provider_outages) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when (outage).began_mailed_at is null then case when (outage).ended_at is null then 'began' end
    when (outage).ended_at is not null and (outage).ended_mailed_at is null then 'ended'
  end
$$;

-- Queues an email of ai.sweep_outage_mails() for each recipient, and marks it as queued in the same statement, so that
-- concurrent callers queue it only once. Returns the number of emails; 0 if it was already queued, or if the outage
-- ended before its first email.
-- Definer: the service role cannot write outages or read Supabase Auth's email addresses.
create or replace function ai.queue_outage_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.provider_outages o
    set
      began_mailed_at = coalesce(o.began_mailed_at, now()),
      ended_mailed_at = case when alert ->> 'kind' = 'ended' then now() end
    where o.id = (alert ->> 'id')::uuid and ai.due_outage_mail(o) = alert ->> 'kind'
    returning o.id
  ), queued as (
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select u.email, queue_outage_mails.subject, queue_outage_mails.body, now()
    from marked
    cross join private.infrastructure_admins p
    join auth.users u on u.id = p.user_id
    where private.is_emailed_about_outages(p.user_id) and ai.can_be_emailed(u)
    returning id
  )
  select count(*)::integer from queued
$$;

-- Returns whether a person gets emails about outages: an admin who has not turned them off, so that a new deployment is
-- not silent.
create or replace function private.is_emailed_about_outages(account_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.is_infrastructure_admin(account_id)
    and not exists (select from private.console_notices n where n.user_id = account_id and not n.outages)
$$;

-- Turns emails about outages on or off for the admin who asks: { actor, outages }. Returns {} or { refused: forbidden }.
-- Not in the console's log: like the settings of an account, it changes nothing for anybody else.
-- Definer: the service role cannot write the choices.
create or replace function private.set_outage_mails(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.is_infrastructure_admin((change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  insert into private.console_notices (user_id, outages)
  values ((change ->> 'actor')::uuid, (change ->> 'outages')::boolean)
  on conflict (user_id) do update set outages = excluded.outages;
  return '{}';
end
$$;
