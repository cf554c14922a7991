set lock_timeout = '500ms';

-- Names of existing roles are not checked, so that the migration cannot fail.
alter table public.workspace_roles
  add constraint recognizable_name check (
    -- A name as it looks: no full-width or mathematical letters, and nothing invisible.
    name = normalize(name, nfkc)
    and name !~ '[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u200c\u200d\u2800\u3164\ufe00-\ufe0f\uffa0]'
    -- No word mixes Latin letters with those of a script that looks like it: Greek, Cyrillic, Armenian, Cherokee.
    and name !~ '[A-Za-z\u00c0-\u024f][\u0370-\u058f\u13a0-\u13fd\uab70-\uabbf]'
    and name !~ '[\u0370-\u058f\u13a0-\u13fd\uab70-\uabbf][A-Za-z\u00c0-\u024f]'
  ) not valid;
