-- Recovery overrides that lift an email's own limits. The folder recovery/ creates and revokes them.

-- Returns whether an override is in force: neither revoked nor expired, nor used if it ends with its first use.
create or replace function private.is_override_active(override private.recovery_overrides) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select override.revoked_at is null and override.expires_at > now()
    and not (override.single_use and override.used_at is not null)
$$;

-- Returns the current override of an email; no row if there is none.
create or replace function private.active_recovery_override(of_email text) returns setof private.recovery_overrides
  language sql stable security invoker set search_path = ''
as $$
  select o.*
  from private.recovery_overrides o
  where o.email = lower(of_email) and private.is_override_active(o)
  order by o.created_at desc
  limit 1
$$;

-- Returns the override that currently lifts the limits on sign-ins with an email; null if there is none.
-- Definer: account emails are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.active_login_override(of_email text) returns uuid
  language sql stable security definer set search_path = ''
as $$
  select o.id
  from private.active_recovery_override(of_email) o
  -- Excludes an override whose creator now has this email: after creating the override, the creator may have taken over
  -- the email.
  where o.normal_login
    and not exists (select from auth.users u where u.id = o.created_by and lower(u.email) = o.email)
$$;
