-- The security log of an account, and the mail that tells its owner.

-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
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
        private.truncate_address(s.ip) is not distinct from private.truncate_address((event ->> 'ip')::inet)
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

create or replace function private.truncate_address(address inet) returns inet
  language sql
  immutable
  security invoker
as $$
  -- A home or a phone changes the last half of its IPv6 address as it likes.
  select case when family(address) = 6 then network(set_masklen(address, 64))::inet else address end
$$;
comment on function private.truncate_address(inet) is
  'What stays of an address that one place keeps: IPv4 whole, IPv6 its /64.';

create or replace function private.notify_owner(event jsonb, mail jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  owner_email text := private.record_security_event(event) ->> 'email';
  kept_id uuid;
begin
  if owner_email is not null and jsonb_typeof(mail) = 'object' then
    insert into private.outgoing_mails (recipient, subject, body)
    values (owner_email, mail ->> 'subject', mail ->> 'body')
    returning id into kept_id;
  end if;
  return jsonb_build_object('mailId', kept_id, 'recipient', owner_email);
end
$$;
comment on function private.notify_owner(jsonb, jsonb) is
  'Adds to an account''s log (private.record_security_event) and keeps the mail { subject, body } that tells its owner, '
  'where there is one: { mailId, recipient }. For functions that change credentials, in their transaction: whoever loses '
  'their answer has told the owner all the same. The one who gets it tries the mail at once.';
