alter table public.security_events add column device text check (char_length(device) between 1 and 100);
comment on column public.security_events.device is
  'Browser and system in words ("Chrome on macOS"), without versions, so that an update makes no new device.';

create function private.address_block(address inet) returns inet
  language sql
  immutable
  security invoker
as $$
  -- A home or a phone changes the last half of its IPv6 address as it likes.
  select case when family(address) = 6 then network(set_masklen(address, 64))::inet else address end
$$;
comment on function private.address_block(inet) is 'What stays of an address that one place keeps: IPv4 whole, IPv6 its /64.';
revoke execute on function private.address_block(inet) from public, anon, authenticated;

-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create function private.record_security_event(event jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  recorded public.security_events;
  owner_email text;
  first_sign_in boolean;
  known_place boolean;
begin
  select u.email into owner_email from auth.users u where u.id = (event ->> 'userId')::uuid and u.deleted_at is null;
  if not found then
    return null;
  end if;

  if event ->> 'kind' = 'sign_in' then
    select
      count(*) = 0,
      coalesce(bool_or(
        private.address_block(s.ip) is not distinct from private.address_block((event ->> 'ip')::inet)
        and s.device is not distinct from event ->> 'device'
      ), false)
    into first_sign_in, known_place
    from public.security_events s
    where s.user_id = (event ->> 'userId')::uuid and s.kind = 'sign_in';
  end if;

  insert into public.security_events (user_id, kind, method, session_id, ip, user_agent, device, details)
  values (
    (event ->> 'userId')::uuid,
    event ->> 'kind',
    event ->> 'method',
    (event ->> 'sessionId')::uuid,
    (event ->> 'ip')::inet,
    event ->> 'userAgent',
    event ->> 'device',
    coalesce(event -> 'details', '{}')
  )
  returning * into recorded;

  return jsonb_build_object(
    'id', recorded.id,
    'createdAt', recorded.created_at,
    'email', nullif(owner_email, ''),
    'newPlace', coalesce(not first_sign_in and not known_place, false)
  );
end
$$;
comment on function private.record_security_event(jsonb) is
  'Adds to an account''s log: { userId, kind, method, sessionId, ip, userAgent, device, details } → { id, createdAt, '
  'email, newPlace }, or null where there is no such account. newPlace: a sign-in with a device and address that no '
  'earlier one of this account had; never the first one.';
revoke execute on function private.record_security_event(jsonb) from public, anon, authenticated;
grant execute on function private.record_security_event(jsonb) to service_role;
