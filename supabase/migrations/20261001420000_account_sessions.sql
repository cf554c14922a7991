-- Where an account is signed in, and ending it there. The identity backend has no call for one session of several; it
-- ends one by deleting its row, and so does this.

-- Definer: sessions are the identity backend's, which the service role cannot read.
create function private.account_sessions(subject_id uuid)
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
revoke execute on function private.account_sessions(uuid) from public, anon, authenticated;
grant execute on function private.account_sessions(uuid) to service_role;

-- Definer: the API signs a user out by an access token of that user. Refresh tokens and AMR claims are deleted with
-- the row.
create function private.end_account_session(subject_id uuid, target_id uuid) returns boolean
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with ended as (
    delete from auth.sessions s where s.id = target_id and s.user_id = subject_id returning s.id
  )
  select exists (select from ended)
$$;
comment on function private.end_account_session(uuid, uuid) is
  'Ends one session of an account: true for the one caller who did. False where it was over, or is another account''s.';
revoke execute on function private.end_account_session(uuid, uuid) from public, anon, authenticated;
grant execute on function private.end_account_session(uuid, uuid) to service_role;

create index security_events_session_id_idx on public.security_events (session_id);
