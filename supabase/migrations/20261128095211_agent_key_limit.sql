-- Generated from supabase/schemas by npm run db:migration.

create or replace function ai.has_too_many_keys(workspace uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*) >= 200
  from ai.keys k
  where k.workspace_id = workspace
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())
    -- A member's agent could otherwise fill the workspace with the keys that its renewals replace.
    and (k.connection_id is null or k.replaced_by is null)
$$;

comment on function ai.has_too_many_keys(uuid) is
  'Whether a workspace has 200 live keys, and gets no further one. Of a coding agent''s keys the latest counts.';
