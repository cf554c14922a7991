-- Separate: after the functions that record uses.
set lock_timeout = '500ms';

update private.recovery_overrides o
set used_at = u.used_at
from (
  select e.override_id, min(e.created_at) as used_at
  from private.recovery_events e
  where e.kind in ('consume', 'login_bypass')
  group by e.override_id
) u
where o.id = u.override_id and not o.single_use;
