-- Leases for minting sessions on our server (QR handoff, recovery). Supabase Auth keeps only one pending token per
-- account, so sessions of the same account are minted one at a time.

-- Takes the account's lease for minting a session. Returns { outcome: taken, leaseId, email } to only one caller at a
-- time, or { outcome: busy | no_account | no_email }. A lease lasts 20 s, which is longer than generating and verifying
-- a link can take. The caller must use the returned email, because generating a link for an unknown address would
-- create an account.
-- Definer: accounts and their emails are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.take_mint_lease(subject_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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

-- Releases a lease. Does nothing if the lease has expired and another caller has taken a new one.
-- Definer: the service role cannot change accounts in Supabase Auth's tables.
create or replace function private.release_mint_lease(lease_id uuid) returns void
  language sql volatile security definer set search_path = ''
as $$
  delete from private.mint_leases l where l.lease_id = release_mint_lease.lease_id
$$;
