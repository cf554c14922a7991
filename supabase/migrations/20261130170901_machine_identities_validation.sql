set lock_timeout = '500ms';

alter table private.service_accounts validate constraint service_accounts_known_scopes;
