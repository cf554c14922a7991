-- Recovery emails contain a link and a six-digit code, both valid for 15 minutes. Using either one voids both. The
-- database stores only their HMACs.

-- Issues a recovery credential under an override. Takes { actor, overrideId, reason, tokenHash, codeSalt, codeHash, ip,
-- userAgent, requestId }; the hashes and the salt are in hex. Returns { credentialId, email, expiresAt } or { refused:
-- forbidden | oneself | not_found | inactive | switched_off }. Returns { refused: just_sent, retryAfterSeconds } if the
-- previous credential is too recent to be replaced. Voids the earlier credentials for the same email.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.issue_recovery_credential(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  override private.recovery_overrides;
  issued private.recovery_credentials;
  refused text;
  wait interval;
begin
  select * into override from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid for update;
  refused := coalesce(
    private.recovery_actor_refusal(request, override.email),
    case
      when override.id is null then 'not_found'
      when not private.is_override_active(override) then 'inactive'
      when not override.recovery_email then 'switched_off'
    end
  );
  if refused is null then
    select max(c.created_at) + private.mail_pause() - now() into wait
    from private.recovery_credentials c
    where c.override_id = override.id and c.consumed_at is null and c.superseded_at is null
      and c.created_at > now() - private.mail_pause();
    if wait is not null then
      return jsonb_build_object(
        'refused', 'just_sent', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer
      );
    end if;
  end if;
  if refused in ('inactive', 'switched_off') then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', refused, 'email', override.email)
    );
  end if;
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  -- Supersedes used credentials too. Otherwise release_recovery_credential could make an old credential valid alongside
  -- the new one.
  update private.recovery_credentials c
  set superseded_at = now()
  where c.email = override.email and c.superseded_at is null;
  insert into private.recovery_credentials (override_id, email, token_hash, code_salt, code_hash)
  values (
    override.id, override.email, decode(request ->> 'tokenHash', 'hex'), decode(request ->> 'codeSalt', 'hex'),
    decode(request ->> 'codeHash', 'hex')
  )
  returning * into issued;
  perform private.record_recovery_event(request || jsonb_build_object(
    'kind', 'send', 'outcome', 'issued', 'email', override.email, 'credentialId', issued.id
  ));
  perform private.record_admin_action(request, jsonb_build_object(
    'action', 'recovery.send',
    'targetUserId', (select u.id from auth.users u where lower(u.email) = override.email limit 1),
    'target', override.email,
    'after', jsonb_build_object('overrideId', override.id, 'expiresAt', issued.expires_at)
  ));
  return jsonb_build_object('credentialId', issued.id, 'email', issued.email, 'expiresAt', issued.expires_at);
end
$$;

-- Voids a credential because its email was not sent.
create or replace function private.invalidate_recovery_credential(credential_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  with voided as (
    update private.recovery_credentials c
    set superseded_at = now()
    where c.id = invalidate_recovery_credential.credential_id and c.consumed_at is null and c.superseded_at is null
    returning c.*
  )
  select private.record_recovery_event(jsonb_build_object(
    'kind', 'send', 'outcome', 'failed', 'email', v.email, 'overrideId', v.override_id, 'credentialId', v.id
  ))
  from voided v
$$;

-- Returns whether a browser can use a recovery credential. Any browser can be the first to use it. After that, only the
-- same browser can use the credential again, and only until it presents its new session or the session ends.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.is_recovery_open_to(credential private.recovery_credentials, browser_hash bytea)
  returns boolean
  language sql stable security definer set search_path = ''
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

-- Returns the email address that a link would sign in, for the confirmation page. Returns null if the link does not
-- work in this browser. Does not use up the link.
create or replace function private.find_recovery_link_email(token_hash bytea, browser_hash bytea default null)
  returns text
  language sql stable security invoker set search_path = ''
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
    -- The browser that has used up the override with this link can open the link again.
    and (private.is_override_active(o) or c.repeatable_by is not null)
$$;

-- Returns the salt, in hex, for hashing a code that was entered for an email. If the email has no valid code, returns a
-- made-up salt, so that the responses are indistinguishable.
-- Definer: if an email has no code, derives the salt from a key that no role has a grant on.
create or replace function private.recovery_code_salt(of_email text, browser_hash bytea default null) returns text
  language sql stable security definer set search_path = ''
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

-- Consumes a credential. Takes { tokenHash } or { email, codeHash }, with browserHash, ip, userAgent and requestId;
-- hashes are in hex. Of many concurrent calls, only one returns { outcome: consumed, credentialId, overrideId, email,
-- userId or null, banned, confirmed, replacedPassword, waitMs }. All others return { outcome: rejected }. The reason
-- for a rejection is recorded but not returned. replacedPassword is true if an earlier use replaced the password. Ends
-- every session, app session and app token of the account. The account's MFA policy then accepts a new session only if
-- it is created after waitMs.
-- Definer: accounts and their policies are in Supabase Auth's tables, which the service role can neither read nor
-- write.
create or replace function private.consume_recovery_credential(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  credential private.recovery_credentials;
  found_id uuid;
  of_email text;
  of_override uuid;
  check_result text;
  account auth.users;
  new_policy jsonb;
begin
  select c.id, c.email, c.override_id into found_id, of_email, of_override
  from private.recovery_credentials c
  where case
    when request ? 'tokenHash' then c.token_hash = decode(request ->> 'tokenHash', 'hex')
    else c.email = lower(request ->> 'email')
  end
  order by c.consumed_at is null and c.superseded_at is null desc, c.created_at desc
  limit 1;
  if found then
    -- All requests lock the override first, as issue_recovery_credential does, then the email, then the credential, so
    -- that concurrent requests cannot deadlock.
    perform from private.recovery_overrides o where o.id = of_override for no key update;
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  credential.consumed_at := case
    when not private.is_recovery_open_to(credential, decode(request ->> 'browserHash', 'hex'))
      then coalesce(credential.consumed_at, now())
  end;
  check_result := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  -- A browser that repeats its use has used the override already.
  if check_result = 'good' and credential.repeatable_by is null then
    check_result := case when private.mark_override_used(credential.override_id) then 'good' else 'override_used' end;
  end if;
  if check_result <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', check_result, 'email', of_email, 'overrideId', credential.override_id,
      'credentialId', credential.id
    ));
    return '{"outcome": "rejected"}';
  end if;

  update private.recovery_credentials c set consumed_at = now(), repeatable_session_id = null where c.id = credential.id;
  -- A link proves access to the mailbox, but does not lift a lock caused by wrong codes.
  delete from private.recovery_code_guesses g
  where g.email = of_email and (g.locked_until is null or g.locked_until <= now());
  select * into account
  from auth.users u
  where lower(u.email) = of_email and u.deleted_at is null and not u.is_sso_user
  for no key update;
  perform private.record_recovery_event((request - 'email') || jsonb_build_object(
    'kind', 'consume', 'outcome', case when request ? 'tokenHash' then 'by_link' else 'by_code' end,
    'email', of_email, 'overrideId', credential.override_id, 'credentialId', credential.id, 'userId', account.id
  ));
  perform private.end_all_access(account.id);
  -- Invalidates all earlier proofs of identity, so that the person must sign in again. Skips an unreadable policy,
  -- which an admin must repair.
  if account.id is not null and private.required_mfa_state(account.raw_app_meta_data) <> 'malformed' then
    new_policy := private.write_required_mfa_policy(account, '{"signInAgain": true}');
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
      0, ceil(((new_policy ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
end
$$;

-- Returns good, or the reason for the refusal. Counts a wrong code. The fifth wrong code within 24 hours blocks all
-- codes for the email for 24 hours. The caller must have locked the email's row in recovery_code_guesses and the
-- credential's row. Called only by definer functions; not granted to any role.
create or replace function private.check_recovery_credential(credential private.recovery_credentials, code_hash bytea)
  returns text
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  guesses private.recovery_code_guesses;
  wrong_now integer;
  override private.recovery_overrides;
begin
  if credential.id is null then
    return 'unknown';
  end if;
  if credential.consumed_at is not null then
    return 'used';
  end if;
  if credential.superseded_at is not null then
    return 'superseded';
  end if;
  if credential.expires_at <= now() then
    return 'expired';
  end if;
  select * into override from private.recovery_overrides o where o.id = credential.override_id;
  if override.revoked_at is not null or override.expires_at <= now() then
    return 'inactive';
  end if;
  if not override.recovery_email then
    return 'switched_off';
  end if;
  -- The override's creator may have changed their own email to this one after they created the override.
  if exists (select from auth.users u where u.id = override.created_by and lower(u.email) = override.email) then
    return 'oneself';
  end if;
  if code_hash is null then
    return 'good';
  end if;

  select * into strict guesses from private.recovery_code_guesses g where g.email = credential.email;
  if guesses.locked_until > now() then
    return 'locked';
  end if;
  if code_hash = credential.code_hash then
    return 'good';
  end if;
  wrong_now := case when guesses.last_wrong_at > now() - interval '24 hours' then guesses.wrong % 5 else 0 end + 1;
  update private.recovery_code_guesses g
  set wrong = wrong_now,
      last_wrong_at = now(),
      locked_until = case when wrong_now = 5 then now() + interval '24 hours' end
  where g.email = credential.email;
  return 'wrong_code';
end
$$;

-- Makes a consumed credential usable again. Only the request that consumed the credential may call this, and only if
-- that request is certain to have created no session. After an earlier use, only the same browser can use the
-- credential. If that request was the first use of the override, the override counts as unused again.
create or replace function private.release_recovery_credential(credential_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  -- The override is locked first, as in consume_recovery_credential.
  update private.recovery_overrides o
  set used_at = null
  from private.recovery_credentials c
  where c.id = release_recovery_credential.credential_id and c.consumed_at > now() - interval '2 minutes'
    and c.repeatable_by is null and o.id = c.override_id and o.used_at = c.consumed_at;
  update private.recovery_credentials c
  set consumed_at = null
  where c.id = release_recovery_credential.credential_id and c.consumed_at > now() - interval '2 minutes'
$$;

-- Lets the same browser use a consumed credential again if the response was lost (private.is_recovery_open_to). Call
-- this function after a recovery has created its session. Before the call, concurrent callers are refused.
create or replace function private.allow_recovery_repeat(
  credential_id uuid, browser_hash bytea, session_id uuid, replaced_password boolean
)
  returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.recovery_credentials c
  set repeatable_by = browser_hash,
      repeatable_session_id = session_id,
      replaced_password = allow_recovery_repeat.replaced_password
  where c.id = credential_id and c.consumed_at is not null
$$;
