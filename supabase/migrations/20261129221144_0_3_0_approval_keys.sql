-- Separate: sign-ins with a phone's approval use this table, and calls of models don't.
set lock_timeout = '500ms';

alter table private.login_challenges
  add constraint approvals_have_a_key check (kind <> 'mfa_mobile' or status <> 'bound' or proof_key is not null) not valid;
