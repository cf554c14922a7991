-- Removes what only release 0.1.0 used.
set lock_timeout = '500ms';

-- Unused since 0.2.0.
drop table ai.usage_changed_days;

-- Unused since 0.2.0.
drop table ai.usage_sealed_days;

alter table private.login_challenges
  add constraint approvals_have_a_key check (kind <> 'mfa_mobile' or status <> 'bound' or proof_key is not null) not valid;
