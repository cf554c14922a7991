-- Recovery codes of ours, for accounts that lost their authenticator: one of them removes the authenticators and is no
-- second factor itself. What a row goes through: unused → used (being worked off, under a lease) → completed.

create table private.mfa_recovery_codes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  code_hash bytea not null check (octet_length(code_hash) = 32),
  created_at timestamptz not null default now(),
  used_at timestamptz,
  session_id uuid,
  lease_expires_at timestamptz,
  completed_at timestamptz,
  generation bigint,
  constraint mfa_recovery_codes_once unique (user_id, code_hash),
  constraint use_is_whole check (
    (used_at is null) = (session_id is null)
    and (used_at is not null or (lease_expires_at is null and completed_at is null))
  )
);
comment on table private.mfa_recovery_codes is
  'Hashes of recovery codes: SHA-256 over the user''s id and a code of 80 random bits. At that entropy neither a slow '
  'hash nor a secret key adds anything, and no rotation of a key can take the codes away from their owners.';
comment on column private.mfa_recovery_codes.session_id is
  'The session that used it, which may finish what failed half-way. No foreign key: sessions are the backend''s.';
comment on column private.mfa_recovery_codes.lease_expires_at is
  'Until then one request is removing authenticators by this code; a request that died gives it up by itself.';
comment on column private.mfa_recovery_codes.generation is
  'Of the policy whose recovery marker this use set: it clears that one and no newer one.';

alter table private.mfa_recovery_codes enable row level security;
select private.protect_table('private.mfa_recovery_codes');

create function private.replace_mfa_recovery_codes(subject_id uuid, code_hashes text[]) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  -- Two replacements at once would leave both sets.
  perform pg_advisory_xact_lock(hashtextextended('private.mfa_recovery_codes ' || subject_id, 0));
  delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  insert into private.mfa_recovery_codes (user_id, code_hash)
  select subject_id, decode(hash, 'hex') from unnest(code_hashes) as hash;
end
$$;
comment on function private.replace_mfa_recovery_codes(uuid, text[]) is
  'Puts new codes, named by the hex of their hashes, in the place of all that a user had. An empty list removes them.';
revoke execute on function private.replace_mfa_recovery_codes(uuid, text[]) from public, anon, authenticated;
grant execute on function private.replace_mfa_recovery_codes(uuid, text[]) to service_role;

create function private.mfa_recovery_state(subject_id uuid, current_session_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'left', count(*) filter (where c.used_at is null),
    'createdAt', max(c.created_at),
    'unfinished', coalesce(
      bool_or(
        c.session_id = current_session_id and c.completed_at is null and c.used_at > now() - interval '24 hours'
      ),
      false
    )
  )
  from private.mfa_recovery_codes c
  where c.user_id = subject_id
$$;
comment on function private.mfa_recovery_state(uuid, uuid) is
  '{ left, createdAt, unfinished }: how many codes a user has left, since when, and whether the session used one whose '
  'work is not done.';
revoke execute on function private.mfa_recovery_state(uuid, uuid) from public, anon, authenticated;
grant execute on function private.mfa_recovery_state(uuid, uuid) to service_role;

-- Definer: the policy is in the identity backend's table, which the service role may not write.
create function private.begin_mfa_recovery(subject_id uuid, current_session_id uuid, code_hash text default null)
  returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  begun uuid;
begin
  -- First the account, as every change of a policy does, so that no two wait for each other.
  select * into account from auth.users u where u.id = subject_id for update;
  -- A policy that nobody can read is an admin's to mend.
  if not found or private.required_mfa_state(account.raw_app_meta_data) = 'malformed' then
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = coalesce(c.used_at, now()),
      session_id = current_session_id,
      lease_expires_at = now() + interval '30 seconds'
  where c.user_id = subject_id
    and c.completed_at is null
    and (c.used_at is null or c.used_at > now() - interval '24 hours')
    and (c.lease_expires_at is null or c.lease_expires_at <= now())
    and c.id = (
      select d.id
      from private.mfa_recovery_codes d
      where d.user_id = subject_id
        and d.completed_at is null
        and case
          when begin_mfa_recovery.code_hash is null then d.used_at is not null and d.session_id = current_session_id
          else d.code_hash = decode(begin_mfa_recovery.code_hash, 'hex')
        end
      order by d.used_at desc nulls last
      limit 1
    )
  returning c.id into begun;
  if begun is not null then
    -- No signInAgain: this session signed in to use the code, and every other one is ended.
    update private.mfa_recovery_codes c
    set generation = (private.write_required_mfa_policy(account, '{"recovery": "in_progress"}') ->> 'generation')::bigint
    where c.id = begun;
  end if;
  return begun;
end
$$;
comment on function private.begin_mfa_recovery(uuid, uuid, text) is
  'Uses a code, or takes up again what failed half-way: by the same code, or without one by the session that used it. '
  'Answers its id to one caller at a time, who holds it for 30 s; null to all others. It advances the boundary and marks '
  'the recovery in the account''s policy, which closes the account until end_mfa_recovery.';
revoke execute on function private.begin_mfa_recovery(uuid, uuid, text) from public, anon, authenticated;
grant execute on function private.begin_mfa_recovery(uuid, uuid, text) to service_role;

-- Definer: the policy is in Supabase Auth's table, which the service role cannot write.
create function private.end_mfa_recovery(code_id uuid, completed boolean) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  used private.mfa_recovery_codes;
  done boolean;
begin
  select u.* into account
  from auth.users u
  where u.id = (select c.user_id from private.mfa_recovery_codes c where c.id = code_id)
  for update;
  select * into used
  from private.mfa_recovery_codes c
  where c.id = code_id and c.used_at is not null and c.completed_at is null
  for update;
  if not found then
    return false;
  end if;
  done := completed and not exists (select from auth.mfa_factors f where f.user_id = account.id);
  update private.mfa_recovery_codes c
  set lease_expires_at = null, completed_at = case when done then now() end
  where c.id = code_id;
  if done and used.generation = private.policy_generation(account.raw_app_meta_data) then
    perform private.write_required_mfa_policy(account, '{"recovery": "none"}');
  end if;
  return done;
end
$$;
comment on function private.end_mfa_recovery(uuid, boolean) is
  'Ends what begin_mfa_recovery began: for good where no factor is left, which opens the account again unless somebody '
  'marked it since; else so that it can be taken up again at once, and the account stays closed. True where it is done.';
revoke execute on function private.end_mfa_recovery(uuid, boolean) from public, anon, authenticated;
grant execute on function private.end_mfa_recovery(uuid, boolean) to service_role;
