set lock_timeout = '500ms';

alter table public.security_events
  add column place text,
  add constraint security_events_place_check check (char_length(place) between 1 and 120) not valid;
comment on column public.security_events.place is
  'City and country of the visitor ("Porto, Portugal"), as a header of a trusted proxy gave them; null without one.';
