set lock_timeout = '500ms';

alter table private.outgoing_mails validate constraint text_or_event;
