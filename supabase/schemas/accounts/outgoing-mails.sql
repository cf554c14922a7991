-- Mails that wait to be sent. Each attempt belongs to one caller.

create or replace function private.claim_outgoing_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, attempts smallint)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with forgotten as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  )
  update private.outgoing_mails m
  -- 4 minutes, 16, 64, 256, then twice a day: the last attempt comes after some three days.
  set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
  where m.id in (
    select due.id
    from private.outgoing_mails due
    where due.next_attempt_at <= now() and due.attempts < 12 and due.created_at >= now() - interval '7 days'
    order by due.next_attempt_at
    limit max_mails
    for update skip locked
  )
  returning m.id, m.recipient, m.subject, m.body, m.attempts
$$;
comment on function private.claim_outgoing_mails(integer) is
  'Takes mails whose next attempt is due, each for one caller. After twelve attempts a mail is left as a record, for a week.';
