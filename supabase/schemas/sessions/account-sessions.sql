-- Where an account is signed in.

-- Definer: sessions are the identity backend's, which the service role cannot read.
create or replace function private.account_sessions(subject_id uuid)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    method text,
    aal text
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- Its refreshes, once an hour or so, and what its owner did with it.
    greatest(s.created_at, s.refreshed_at at time zone 'UTC', e.last_event_at),
    host(s.ip),
    -- A sign-in by our pages reaches the backend through our server, which names itself there.
    coalesce(e.user_agent, s.user_agent),
    e.device,
    e.method,
    s.aal::text
  from auth.sessions s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  where s.user_id = subject_id and (s.not_after is null or s.not_after > now())
  order by 3 desc, s.id
$$;
comment on function private.account_sessions(uuid) is
  'The sessions of an account that are not over, the one seen last first.';
