-- Generated from supabase/schemas by npm run db:migration. In a file of its own, since it is conditional.
set lock_timeout = '500ms';

do $guard$
begin
  if to_regclass('auth.sessions') is not null then
-- Sessions, factors and accounts end at the backend, and logins at apps end with them. Before the change, to find what it ends.
create or replace trigger queue_logouts before delete on auth.sessions
  for each row execute function private.queue_logouts_before_change();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.mfa_factors') is not null then
create or replace trigger queue_logouts_of_removed_factor before delete on auth.mfa_factors
  for each row when (old.status = 'verified')
  execute function private.queue_logouts_before_change();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.mfa_factors') is not null then
create or replace trigger queue_logouts_of_unverified_factor before update of status on auth.mfa_factors
  for each row when (old.status = 'verified' and new.status <> 'verified')
  execute function private.queue_logouts_before_change();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
create or replace trigger queue_logouts_of_deleted_account before delete on auth.users
  for each row execute function private.queue_logouts_before_change();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- By its name, it runs after preserve_required_mfa_policy.
create or replace trigger queue_logouts_of_new_policy before update of raw_app_meta_data on auth.users
  for each row
  when (
    (old.raw_app_meta_data -> 'platform_required_mfa' -> 'generation')
      is distinct from (new.raw_app_meta_data -> 'platform_required_mfa' -> 'generation')
  )
  execute function private.queue_logouts_before_change();
  end if;
end
$guard$;
