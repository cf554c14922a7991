-- The name of an audit log entry's target. Functions read and write it.
set lock_timeout = '500ms';

alter table private.admin_audit_log add column target_name text check (char_length(target_name) <= 320);
comment on column private.admin_audit_log.target_name is
  'The target''s name at the time of the change. Null if the target identifies itself, or is a personal workspace or '
  'deleted account, whose name is not kept.';
