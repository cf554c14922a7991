-- The queue of outgoing emails. Each attempt to send an email is made by only one caller.

-- Claims the emails that are due for an attempt, so that no other caller sends them. Returns the text of each email, or
-- the event from which the caller writes the text. After twelve attempts, an email is kept as a record for a week.
create or replace function private.claim_due_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, event jsonb, attempts smallint)
  language sql volatile security invoker set search_path = ''
as $$
  with expired as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  ), claimed as (
    update private.outgoing_mails m
    -- Waits 4, 16, 64 and 256 minutes between attempts, then 12 hours. The last attempt is about three days after the
    -- first.
    set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
    -- The array subquery runs only once. With a join, Postgres could run the limited query several times and claim more
    -- than max_mails emails.
    where m.id = any (array(
      select due.id
      from private.outgoing_mails due
      join (
        select w.id, row_number() over (partition by w.recipient order by w.next_attempt_at) as position_in_queue
        from private.outgoing_mails w
        where w.next_attempt_at <= now() and w.attempts < 12 and w.created_at >= now() - interval '7 days'
      ) queued on queued.id = due.id
      -- Checks the due time again, because a concurrent caller may have claimed the email.
      where due.next_attempt_at <= now()
      -- Alternates between recipients, so that many emails to one recipient don't delay the others.
      order by queued.position_in_queue, due.next_attempt_at
      limit max_mails
      for update of due skip locked
    ))
    returning m.*
  )
  select c.id, c.recipient, c.subject, c.body,
    case when e.id is not null then jsonb_build_object(
      'kind', e.kind,
      'method', e.method,
      'ip', host(e.ip),
      'userAgent', e.user_agent,
      'device', e.device,
      'details', e.details,
      'createdAt', e.created_at,
      'unconfirmed', exists (select from private.unconfirmed_additions a where a.target_id = e.target_id)
    ) end,
    c.attempts
  from claimed c
  left join public.security_events e on e.id = c.event_id
$$;

-- Returns whether an account is active and has an email address.
create or replace function ai.can_be_emailed(account auth.users) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    char_length(account.email) between 3 and 320
      and account.deleted_at is null
      and (account.banned_until is null or account.banned_until <= now()),
    false
  )
$$;
