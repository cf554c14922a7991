-- Lists the sessions of an account.

-- Returns a page of an account's current sessions. The session first_session_id comes first, then the most recently
-- refreshed. before is { createdAt, id }: the refreshed_at and the id of the last session on the previous page. Without
-- page_size, returns all sessions.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_sessions(
  subject_id uuid, first_session_id uuid default null, before jsonb default null, page_size integer default null
)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    place text,
    method text,
    aal text,
    refreshed_at timestamptz
  )
  language sql stable security definer set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- The time of the session's last refresh, or of the owner's last event in the session if that event is later. A
    -- session in use refreshes about once an hour.
    greatest(s.refreshed, e.last_event_at),
    s.record ->> 'ip',
    -- Prefers the user agent of the sign-in event. For a sign-in on our pages, Supabase Auth records our server's user
    -- agent.
    coalesce(e.user_agent, s.record ->> 'userAgent'),
    e.device,
    e.place,
    e.method,
    s.record ->> 'aal',
    s.refreshed
  from (
    select l.user_id, l.id, l.created_at, l.last_used_at as refreshed, l.record
    from private.account_credentials l
    where l.user_id = subject_id
      and l.kind = 'session'
      and l.is_live
      and (
        before is null
        or l.id is distinct from first_session_id
          and (l.last_used_at, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, l.last_used_at desc, l.id desc
    limit page_size
  ) s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.place order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as place,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  order by s.id is not distinct from first_session_id desc, s.refreshed desc, s.id desc
$$;

-- Returns the number of an account's current sessions, up to the limit `most`.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.count_account_sessions(subject_id uuid, max_rows integer default 1001) returns bigint
  language sql stable security definer set search_path = ''
as $$
  select count(*)
  from (
    select
    from private.account_credentials c
    where c.user_id = subject_id and c.kind = 'session' and c.is_live
    limit max_rows
  ) as counted
$$;
