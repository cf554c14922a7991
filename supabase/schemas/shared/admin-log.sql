-- Writes the console's audit log, and finds the last change of a target.

-- Returns who last changed a target, and the time of the change: { actorEmail (or a service account's label), at }. If
-- a change is refused as a conflict, the result names who made the earlier change.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.last_admin_action(of_target text) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'actorEmail', coalesce(
      (select u.email from auth.users u where u.id = l.actor_id),
      private.service_account_label(l.service_account_name)
    ),
    'at', l.created_at
  )
  from private.admin_audit_log l
  where l.target = of_target
  order by l.created_at desc, l.id desc
  limit 1
$$;

-- Adds one line to the audit log in the transaction of the change. Arguments: change { actor or serviceAccount, reason,
-- requestId, ip } and act { action, targetUserId, target, targetName, before, after }. targetName is kept after the
-- target is deleted, so it must not name a personal workspace. The service account's name is kept as well. Functions of
-- the books name a service account as actor, like a member.
create or replace function private.record_admin_action(change jsonb, act jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.admin_audit_log (
    actor_id, service_account_id, service_account_name, action, target_user_id, target, target_name, reason, before, after,
    request_id, ip
  )
  select
    case when s.id is null then c.id end, s.id, s.name, act ->> 'action', (act ->> 'targetUserId')::uuid,
    act ->> 'target', left(act ->> 'targetName', 320), change ->> 'reason', nullif(act -> 'before', 'null'),
    nullif(act -> 'after', 'null'), change ->> 'requestId', (change ->> 'ip')::inet
  from (values (coalesce(change ->> 'actor', change ->> 'serviceAccount')::uuid)) as c (id)
  left join private.service_accounts s on s.id = c.id
$$;
