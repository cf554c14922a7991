-- The identity backend remembers no used TOTP step (RFC 6238 §5.2 wants it refused): our server claims a code before it
-- has it verified. What is stored is an HMAC of factor and code under a key that the database does not hold.

create table private.used_mfa_codes (
  code_hash bytea primary key check (octet_length(code_hash) = 32),
  session_id uuid not null,
  retry_allowed boolean not null default false,
  expires_at timestamptz not null default now() + interval '120 seconds'
);
comment on table private.used_mfa_codes is
  'Authenticator codes that were used, or are being verified. A code is good for 90 s at most, so 120 s outlive it.';
comment on column private.used_mfa_codes.session_id is
  'Whose claim it is. No foreign key: sessions come and go in the identity backend''s own schema.';
comment on column private.used_mfa_codes.retry_allowed is
  'The backend did not say what became of the code: the same session may try it once more, and no other.';
create index used_mfa_codes_expires_at_idx on private.used_mfa_codes (expires_at);

alter table private.used_mfa_codes enable row level security;
select private.protect_table('private.used_mfa_codes');

create function private.claim_mfa_code(code_hash text, session_id uuid) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  delete from private.used_mfa_codes u
  where u.code_hash in (
    select e.code_hash from private.used_mfa_codes e where e.expires_at <= now() limit 100 for update skip locked
  );
  insert into private.used_mfa_codes as u (code_hash, session_id)
  values (decode(claim_mfa_code.code_hash, 'hex'), claim_mfa_code.session_id)
  on conflict on constraint used_mfa_codes_pkey do update
  set session_id = excluded.session_id, retry_allowed = false, expires_at = excluded.expires_at
  where u.expires_at <= now() or (u.retry_allowed and u.session_id = excluded.session_id);
  return found;
end
$$;
comment on function private.claim_mfa_code(text, uuid) is
  'Claims a code, named by the hex of its HMAC, for one verification: true to one of any number of callers.';
revoke execute on function private.claim_mfa_code(text, uuid) from public, anon, authenticated;
grant execute on function private.claim_mfa_code(text, uuid) to service_role;

create function private.release_mfa_code(code_hash text, session_id uuid, verified boolean) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if verified is null then
    update private.used_mfa_codes u
    set retry_allowed = true
    where u.code_hash = decode(release_mfa_code.code_hash, 'hex') and u.session_id = release_mfa_code.session_id;
  elsif not verified then
    -- One that was wrong was not used: it may be good half a minute later.
    delete from private.used_mfa_codes u
    where u.code_hash = decode(release_mfa_code.code_hash, 'hex') and u.session_id = release_mfa_code.session_id;
  end if;
end
$$;
comment on function private.release_mfa_code(text, uuid, boolean) is
  'Gives a claim back that came to nothing: false where the code was wrong, null where the backend did not answer.';
revoke execute on function private.release_mfa_code(text, uuid, boolean) from public, anon, authenticated;
grant execute on function private.release_mfa_code(text, uuid, boolean) to service_role;
