-- Records an account's activity, as reported by our server.

-- Adds an event to an account's activity, or completes an event that a trigger added. Takes { userId, kind, method,
-- sessionId, targetId, ip, userAgent, device, place, details }. Returns { id, createdAt }, or null if the account doesn't
-- exist. Emails about the event can be sent from then on.
-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  subject uuid := (event ->> 'userId')::uuid;
  session uuid := (event ->> 'sessionId')::uuid;
  owner_email text;
  recorded public.security_events;
begin
  select u.email into owner_email from auth.users u where u.id = subject and u.deleted_at is null;
  if not found then
    return null;
  end if;

  -- If a trigger has already recorded this event, adds the address and the device of the request.
  update public.security_events s
  set kind = event ->> 'kind',
      method = coalesce(event ->> 'method', s.method),
      session_id = coalesce(session, s.session_id),
      ip = (event ->> 'ip')::inet,
      user_agent = event ->> 'userAgent',
      device = event ->> 'device',
      place = event ->> 'place',
      details = s.details || coalesce(event -> 'details', '{}')
  where s.id = (
    select e.id
    from public.security_events e
    where e.user_id = subject
      and e.created_at > now() - interval '2 minutes'
      and e.device is null
      and case event ->> 'kind'
        when 'sign_in' then e.kind = 'sign_in' and e.session_id = session
        -- The backend records a recovery as a sign-in.
        when 'account_recovered' then e.kind = 'sign_in' and e.session_id = session
        when 'sign_out' then e.kind = 'sign_out' and e.session_id = session
        else e.kind = event ->> 'kind'
      end
    order by e.created_at desc, e.id
    limit 1
    for update
  )
  returning s.* into recorded;
  if not found then
    insert into public.security_events (
      user_id, kind, method, session_id, target_id, ip, user_agent, device, place, details
    )
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'targetId')::uuid,
      (event ->> 'ip')::inet,
      event ->> 'userAgent',
      event ->> 'device',
      event ->> 'place',
      coalesce(event -> 'details', '{}')
    )
    returning * into recorded;
  end if;

  if recorded.kind = 'sign_in' and (
    not private.is_new_place(recorded)
    -- The email about the recovery covers this sign-in.
    or exists (
      select from public.security_events r where r.session_id = recorded.session_id and r.kind = 'account_recovered'
    )
  ) then
    delete from private.outgoing_mails m where m.event_id = recorded.id;
  elsif (recorded.kind = 'sign_in' or private.is_told_by_mail(recorded.kind))
    and not exists (select from private.outgoing_mails m where m.event_id = recorded.id) then
    perform private.queue_event_mail(recorded, owner_email);
  end if;

  -- The event is complete, so its emails can be sent.
  update private.outgoing_mails m set next_attempt_at = now() where m.event_id = recorded.id and m.attempts = 1;

  return jsonb_build_object('id', recorded.id, 'createdAt', recorded.created_at);
end
$$;
