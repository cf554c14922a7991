set lock_timeout = '500ms';

alter table private.login_challenges validate constraint approvals_have_a_key;
