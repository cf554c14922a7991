-- Sessions that our server mints (QR handoff, recovery). Supabase Auth keeps one pending token per account, so only one
-- is minted at a time.

-- Definer: accounts and their emails are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.take_mint_lease(subject_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account_email text;
  taken uuid;
begin
  select coalesce(u.email, '') into account_email from auth.users u where u.id = subject_id and u.deleted_at is null;
  if not found then
    return jsonb_build_object('outcome', 'no_account');
  end if;
  if account_email = '' then
    return jsonb_build_object('outcome', 'no_email');
  end if;
  insert into private.mint_leases as l (user_id, expires_at)
  values (subject_id, now() + interval '20 seconds')
  on conflict (user_id) do update
    set lease_id = excluded.lease_id, expires_at = excluded.expires_at
    where l.expires_at <= now()
  returning l.lease_id into taken;
  if taken is null then
    return jsonb_build_object('outcome', 'busy');
  end if;
  return jsonb_build_object('outcome', 'taken', 'leaseId', taken, 'email', account_email);
end
$$;
comment on function private.take_mint_lease(uuid) is
  'Takes the lease: { outcome: taken, leaseId, email } to one caller at a time, which holds it for 20 s, longer than '
  'link and verification may take together; or outcome busy, no_account, no_email. The email is the account''s own, '
  'because generating a link for an unknown one would create an account.';

-- Definer: the service role cannot change accounts in Supabase Auth's tables.
create or replace function private.release_mint_lease(lease_id uuid) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  delete from private.mint_leases l where l.lease_id = release_mint_lease.lease_id
$$;
comment on function private.release_mint_lease(uuid) is
  'Releases a lease, unless it has expired and another caller holds the new one.';
