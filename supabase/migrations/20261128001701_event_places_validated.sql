set lock_timeout = '500ms';

alter table public.security_events validate constraint security_events_place_check;
