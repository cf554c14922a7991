-- Removes what only release 0.1.0 used.
set lock_timeout = '500ms';

-- Unused since 0.2.0.
drop table ai.usage_changed_days;

-- Unused since 0.2.0.
drop table ai.usage_sealed_days;
reset all;
set lock_timeout = '500ms';

alter table private.login_challenges validate constraint approvals_have_a_key;
