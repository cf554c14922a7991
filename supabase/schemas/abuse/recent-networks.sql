-- The networks from which an account was used. The console and the operator look for blocks of them.

-- Returns the networks of an account's last 50 events and last 50 sessions.
create or replace function private.recent_networks(subject_id uuid) returns cidr[]
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(array_agg(distinct private.address_network(a.ip)), '{}')
  from (
    (
      select e.ip from public.security_events e
      where e.user_id = subject_id and e.ip is not null
      order by e.created_at desc
      limit 50
    )
    union all
    (
      select s.ip from auth.sessions s
      where s.user_id = subject_id and s.ip is not null
      order by s.refreshed_at desc nulls last
      limit 50
    )
  ) a
$$;
