set lock_timeout = '500ms';

alter table private.apps validate constraint apps_kind_check;
alter table private.apps validate constraint apps_backchannel_logout_uri_check;
