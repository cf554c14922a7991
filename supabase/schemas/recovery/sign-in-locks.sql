-- What keeps the owner of an email from signing in.

-- Returns what limits sign-ins with an email and its account: [{ kind, until }, …]. until is when the next attempt is
-- possible; null if it is possible now. What locks comes first. kind is
-- - ban: the account is banned
-- - codes, with { wrong }: wrong codes of recovery emails
-- - block, with { blockId, address }: one of the account's recent networks is blocked
-- - limit, with { action, scope, used, attempts, perSeconds, whenEmpty }: a limit of private.attempt_limits() that is
--   partly or fully used. A limit that asks for a bot challenge never locks, nor does one that an override lifts. A
--   limit for each address appears for each address that it locks, or else for the one that has used most of it,
--   without the address, which is not stored.
-- Not granted to any role.
create or replace function private.list_recovery_locks(of_email text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with account as (
    select u.id, u.banned_until
    from auth.users u
    where lower(u.email) = lower(of_email) and u.deleted_at is null and not u.is_sso_user
  ),
  limits as (
    select
      l.*,
      l.per / l.attempts as step,
      r.full_at,
      l.when_empty in ('refuse', 'refuse_new') and r.full_at + l.per / l.attempts > now() + l.per
        and not (o.is_lifting and l.action in ('password', 'sign_in_code')) as is_locked,
      row_number() over (partition by l.action, l.scope order by r.full_at desc) as place
    from private.rate_limits r
    join private.attempt_limits() l on l.action = r.action and l.scope = r.scope
    cross join (select private.active_login_override(of_email) is not null as is_lifting) o
    where r.account = any (array(
        select private.account_digest(n.account)
        from (
          select 'email:' || lower(of_email) as account
          union all
          select 'user:' || a.id from account a
        ) n
      ))
      and r.full_at > now() and l.when_empty not in ('wait', 'repeat')
  ),
  locks (place, lock, until) as (
    select 1, jsonb_build_object('kind', 'ban'), a.banned_until
    from account a
    where a.banned_until > now()
    union all
    select
      2, jsonb_build_object('kind', 'codes', 'wrong', g.wrong),
      case when g.locked_until > now() then g.locked_until end
    from private.recovery_code_guesses g
    where g.email = lower(of_email)
      and (g.locked_until > now() or g.wrong > 0 and g.last_wrong_at > now() - interval '24 hours')
    union all
    select
      3, jsonb_build_object('kind', 'block', 'blockId', b.id, 'address', b.address::inet), b.blocked_until
    from account a
    join private.address_blocks b on b.address = any (private.recent_networks(a.id))
    where b.blocked_until > now() and b.lifted_at is null
    union all
    select
      4,
      jsonb_build_object(
        'kind', 'limit',
        'action', l.action,
        'scope', l.scope,
        'used', ceil(extract(epoch from l.full_at - now()) / extract(epoch from l.step)),
        'attempts', l.attempts,
        'perSeconds', extract(epoch from l.per)::integer,
        'whenEmpty', l.when_empty
      ),
      case when l.is_locked then l.full_at + l.step - l.per end
    from limits l
    where l.is_locked or l.place = 1
  )
  select coalesce(
    jsonb_agg(
      k.lock || jsonb_build_object('until', k.until)
      order by k.until is null, k.place, k.until desc, k.lock ->> 'action', k.lock ->> 'scope'
    ),
    '[]'
  )
  from (select * from locks l order by l.until is null, l.place, l.until desc limit 50) k
$$;
