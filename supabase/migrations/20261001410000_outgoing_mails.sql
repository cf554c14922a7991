create table private.outgoing_mails (
  id uuid primary key default gen_random_uuid(),
  recipient text not null check (char_length(recipient) between 3 and 320),
  subject text not null check (char_length(subject) between 1 and 200 and subject !~ '[\r\n]'),
  body text not null check (char_length(body) between 1 and 20000),
  attempts smallint not null default 1 check (attempts >= 1),
  next_attempt_at timestamptz not null default now() + interval '1 minute',
  created_at timestamptz not null default now()
);
comment on table private.outgoing_mails is
  'Mails that have not gone out yet; a sent one is deleted. Never one with a secret in it: those are sent or lost.';
comment on column private.outgoing_mails.attempts is 'Who adds a mail tries it at once, so it begins with one.';
comment on column private.outgoing_mails.next_attempt_at is 'Before this whoever took it last is at it.';
create index outgoing_mails_next_attempt_at_idx on private.outgoing_mails (next_attempt_at);

alter table private.outgoing_mails enable row level security;
select private.protect_table('private.outgoing_mails');

create function private.claim_outgoing_mails(max_mails integer)
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
revoke execute on function private.claim_outgoing_mails(integer) from public, anon, authenticated;
grant execute on function private.claim_outgoing_mails(integer) to service_role;
