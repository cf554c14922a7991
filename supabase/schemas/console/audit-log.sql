-- Reads the console's audit log, which shared/admin-log.sql writes.

-- Returns a page of the audit log, newest first. The reader is a token's verified claims; returns null if the reader
-- may no longer read the log. The filters are action (a prefix of the action), actor (part of an email address), target
-- (part of an email address or name, or a user's id), from and to (exclusive). The argument before is { createdAt, id }
-- of the last line on the previous page.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_audit_log(
  reader jsonb,
  filters jsonb,
  before jsonb default null,
  page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the whole log for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_action text := filters ->> 'action';
  of_actor text := lower(filters ->> 'actor');
  of_target text := lower(filters ->> 'target');
  starts_at timestamptz := coalesce((filters ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filters ->> 'to')::timestamptz, 'infinity');
  last_at timestamptz := coalesce((search_audit_log.before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((search_audit_log.before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if not private.can_read_console(reader) then
    return null;
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', l.id,
      'actorEmail', l.actor_email,
      'action', l.action,
      'targetUserId', l.target_user_id,
      'target', l.target,
      'reason', l.reason,
      'before', l.before,
      'after', l.after,
      'requestId', l.request_id,
      'ip', host(l.ip),
      'createdAt', l.created_at
    ) order by l.created_at desc, l.id desc), '[]')
    from (
      select a.*, u.email as actor_email
      from private.admin_audit_log a
      left join auth.users u on u.id = a.actor_id
      where a.created_at >= starts_at
        and a.created_at < ends_at
        and (a.created_at, a.id) < (last_at, last_id)
        and (of_action is null or starts_with(a.action, of_action))
        and (of_actor is null or position(of_actor in lower(u.email)) > 0)
        and (of_target is null or position(of_target in lower(a.target)) > 0 or a.target_user_id::text = of_target)
      order by a.created_at desc, a.id desc
      limit page_size
    ) l
  );
end
$$;

-- Returns whether a session still belongs to an infrastructure admin and has passed a second factor. Takes the
-- session's verified claims. Does not check how long ago the second factor was passed, because each change checks that
-- before it begins. Not granted to any role, because it trusts the claims.
create or replace function private.can_read_console(claims jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select private.session_satisfies_mfa(claims) and exists (
    select
    from private.session_facts(claims) f
    where f.session_factor_verified and private.is_infrastructure_admin(f.user_id)
  )
$$;
