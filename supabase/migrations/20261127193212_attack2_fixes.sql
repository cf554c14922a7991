-- Generated from supabase/schemas by npm run db:migration.

drop function private.allow_recovery_repeat(uuid, bytea);

-- Definer: sessions are Supabase Auth's, which the service role cannot read.
create or replace function private.is_recovery_open_to(credential private.recovery_credentials, browser_hash bytea)
  returns boolean
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when credential.repeatable_by is null then credential.consumed_at is null
    else coalesce(credential.repeatable_by = browser_hash, false) and (
      credential.consumed_at is null
      or exists (
        select
        from auth.sessions s
        where s.id = credential.repeatable_session_id
          and not exists (
            select
            from private.account_vault_entries e
            join private.account_additions a on a.device_id = e.device_id and a.session_id = e.session_id
            where e.user_id = s.user_id and e.session_id = s.id and a.taken_from is not null
          )
      )
    )
  end
$$;

create or replace function private.find_recovery_link_email(token_hash bytea, browser_hash bytea default null)
  returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select c.email
  from private.recovery_credentials c
  join private.recovery_overrides o on o.id = c.override_id
  where c.token_hash = find_recovery_link_email.token_hash
    and private.is_recovery_open_to(c, browser_hash)
    and c.superseded_at is null
    and c.expires_at > now()
    and o.revoked_at is null
    and o.expires_at > now()
    and o.recovery_email
$$;

-- Definer: the key of the made-up salts is granted to nobody.
create or replace function private.recovery_code_salt(of_email text, browser_hash bytea default null) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select encode(coalesce(
    (
      select c.code_salt
      from private.recovery_credentials c
      where c.email = lower(of_email)
        and private.is_recovery_open_to(c, browser_hash)
        and c.superseded_at is null
        and c.expires_at > now()
      order by c.created_at desc
      limit 1
    ),
    substr(private.attempt_digest('recovery code salt', lower(of_email)), 1, 16)
  ), 'hex')
$$;

-- Definer: accounts and their policies are the identity backend's, which the service role can neither read nor write.
create or replace function private.consume_recovery_credential(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  credential private.recovery_credentials;
  found_id uuid;
  of_email text;
  verdict text;
  account auth.users;
  written jsonb;
begin
  select c.id, c.email into found_id, of_email
  from private.recovery_credentials c
  where case
    when request ? 'tokenHash' then c.token_hash = decode(request ->> 'tokenHash', 'hex')
    else c.email = lower(request ->> 'email')
  end
  order by c.consumed_at is null and c.superseded_at is null desc, c.created_at desc
  limit 1;
  if found then
    -- The email first, then the credential, by link and by code, so that no two wait for each other.
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  credential.consumed_at := case
    when not private.is_recovery_open_to(credential, decode(request ->> 'browserHash', 'hex'))
      then coalesce(credential.consumed_at, now())
  end;
  verdict := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  if verdict <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', verdict, 'email', of_email, 'overrideId', credential.override_id,
      'credentialId', credential.id
    ));
    return '{"outcome": "rejected"}';
  end if;

  update private.recovery_credentials c set consumed_at = now(), repeatable_session_id = null where c.id = credential.id;
  -- A link proves the mailbox, and does not open what guesses at the codes have locked.
  delete from private.recovery_code_guesses g
  where g.email = of_email and (g.locked_until is null or g.locked_until <= now());
  select * into account
  from auth.users u
  where lower(u.email) = of_email and u.deleted_at is null and not u.is_sso_user
  for update;
  perform private.record_recovery_event((request - 'email') || jsonb_build_object(
    'kind', 'consume', 'outcome', case when request ? 'tokenHash' then 'by_link' else 'by_code' end,
    'email', of_email, 'overrideId', credential.override_id, 'credentialId', credential.id, 'userId', account.id
  ));
  perform private.end_all_access(account.id);
  -- Whoever comes back proves everything anew. A policy that nobody can read is an admin's to mend.
  if account.id is not null and private.required_mfa_state(account.raw_app_meta_data) <> 'malformed' then
    written := private.write_required_mfa_policy(account, '{"signInAgain": true}');
  end if;
  return jsonb_build_object(
    'outcome', 'consumed',
    'credentialId', credential.id,
    'overrideId', credential.override_id,
    'email', of_email,
    'userId', account.id,
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'replacedPassword', credential.replaced_password,
    'waitMs', coalesce(greatest(
      0, ceil(((written ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
end
$$;

create or replace function private.allow_recovery_repeat(
  credential_id uuid, browser_hash bytea, session_id uuid, replaced_password boolean
)
  returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update private.recovery_credentials c
  set repeatable_by = browser_hash,
      repeatable_session_id = session_id,
      replaced_password = allow_recovery_repeat.replaced_password
  where c.id = credential_id and c.consumed_at is not null
$$;

-- Definer: the replaced session is the identity backend's, which ends one by deleting its row.
create or replace function private.take_additions(device_id uuid, secret text, added text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  addition record;
  shown text;
  held text := secret;
  standing text;
  replaced_id uuid;
  joined uuid[] := '{}';
  newest_session_id uuid;
begin
  perform private.lock_accounts(array(
    select a.user_id
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = take_additions.device_id and a.taken_from is null
  ));
  select d.* into device from private.account_devices d where d.id = take_additions.device_id for update;
  if not found then
    return jsonb_build_object('status', 'unknown');
  end if;

  -- Earlier requests may have taken some of these, and their responses may be lost or still on the way.
  loop
    select s.secret into shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = device.id and a.taken_from = private.secret_hash(held)
    limit 1;
    exit when not found;
    held := private.secret_after_addition(held, shown);
  end loop;
  standing := private.device_secret_status(device, held);
  if standing <> 'current' then
    return jsonb_build_object('status', standing, 'secret', held);
  end if;

  for addition in
    select a.*, s.secret as shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    join auth.sessions live on live.id = a.session_id and live.user_id = a.user_id
    where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    order by a.created_at, a.secret_hash
  loop
    select e.session_id into replaced_id
    from private.account_vault_entries e
    where e.device_id = device.id and e.user_id = addition.user_id;
    insert into private.account_vault_entries as e (device_id, user_id, session_id, sealed, key_id, token_tag)
    values (
      device.id, addition.user_id, addition.session_id, addition.sealed, addition.key_id, addition.token_tag
    )
    on conflict on constraint account_vault_entries_pkey do update
      set session_id = excluded.session_id, sealed = excluded.sealed, key_id = excluded.key_id,
          token_tag = excluded.token_tag, last_active_at = now();
    if replaced_id <> addition.session_id then
      perform private.end_account_session(addition.user_id, replaced_id);
    end if;
    -- As long as the accounts can be used without another sign-in.
    update private.account_additions a
    set taken_from = private.secret_hash(held), user_id = null, sealed = null, key_id = null, token_tag = null,
        expires_at = now() + interval '30 days'
    where a.secret_hash = addition.secret_hash;
    held := private.secret_after_addition(held, addition.shown);
    joined := joined || addition.user_id;
    newest_session_id := addition.session_id;
  end loop;

  if cardinality(joined) > 0 then
    perform private.end_additions(device.id, joined);
    update private.account_devices d
    set secret_hash = private.secret_hash(held),
        -- The secret before it opens nothing from now on.
        previous_hash = d.secret_hash,
        previous_for = 'sign_in',
        previous_until = now() + interval '60 seconds',
        rotated_at = now(),
        active_user_id = joined[cardinality(joined)],
        active_session_id = newest_session_id,
        -- A switch that began before does not activate over it.
        lease_id = null,
        lease_expires_at = null,
        last_seen_at = now(),
        expires_at = now() + interval '90 days'
    where d.id = device.id;
  end if;
  return jsonb_build_object('status', 'current', 'secret', held);
end
$$;

-- In PL/pgSQL, which plans only the expressions that it reaches: nearly every request shows the current secret.
create or replace function private.device_secret_status(device private.account_devices, secret text) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  if device.expires_at <= now() then
    return 'unknown';
  end if;
  if device.secret_hash = private.secret_hash(secret) then
    return 'current';
  end if;
  if device.previous_hash = private.secret_hash(secret)
    and (device.previous_until is null or device.previous_until > now()) then
    return case device.previous_for when 'anything' then 'previous' else 'spent' end;
  end if;
  -- Other accounts may have joined, or the browser may have switched, since this one was spent.
  if exists (
    select
    from private.account_additions a
    where a.device_id = device.id
      and a.taken_from = private.secret_hash(secret)
      and a.expires_at > now() + interval '30 days' - interval '60 seconds'
  ) then
    return 'spent';
  end if;
  return 'unknown';
end
$$;

comment on function private.consume_recovery_credential(jsonb) is
  '{ tokenHash } or { email, codeHash } and browserHash, in hex, with ip, userAgent, requestId → { outcome: consumed, '
  'credentialId, overrideId, email, userId or null, banned, confirmed, replacedPassword (by an earlier use), waitMs } to '
  'one of many callers, { outcome: rejected } to all others, for every reason, which is recorded. Ends every session, app session and app token of the account and moves '
  'its boundaries to this second; a session that counts is minted after waitMs.';

comment on function private.device_secret_status(private.account_devices, text) is
  'What a secret is to a device: current; previous, good for anything until the current one has arrived; spent, for a '
  'minute, for requests that were on their way when an account was added: it opens nothing, but may add another account, '
  'which the browser then shows with the current secret, and sign the browser out; or unknown.';

comment on function private.release_recovery_credential(uuid) is
  'Gives a consumption back to its mail, by the request that has it, if it certainly made no session. A repetition goes '
  'back to its browser only.';

comment on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) is
  'After a recovery has made its session: lets the same browser use the credential again, in case the response is lost '
  '(private.is_recovery_open_to). Until then concurrent callers are refused.';

comment on function private.is_recovery_open_to(private.recovery_credentials, bytea) is
  'Whether a browser can use a recovery credential: any browser the first time, and then only the browser that used it, '
  'until it shows the session that it got or that session ends.';

grant execute on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) to service_role;

grant execute on function private.is_recovery_open_to(private.recovery_credentials, bytea) to service_role;
