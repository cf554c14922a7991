-- Generated from supabase/schemas by npm run db:migration.

-- Definer: as complete_oauth_attempt.
create or replace function private.sweep_oauth_attempts() returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_oauth_attempts', 0)) then
    return;
  end if;
  delete from private.oauth_attempts a where a.expires_at < now();
  -- One step beyond the attempt's own lifetime, so that no link under way loses what it waits for.
  perform private.remove_identity(n.identity_id)
  from private.unconfirmed_identities n
  where n.created_at < now() - interval '15 minutes';
end
$$;
