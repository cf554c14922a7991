set lock_timeout = '500ms';

alter table private.device_authorizations validate constraint approval_is_whole;
