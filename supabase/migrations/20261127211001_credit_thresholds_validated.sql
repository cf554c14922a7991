set lock_timeout = '500ms';

alter table ai.plans validate constraint plans_low_credits_check;
