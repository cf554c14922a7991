-- Generated from supabase/schemas by npm run db:migration.

drop function private.find_recovery_link_email(bytea);

drop function private.recovery_code_salt(text);

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create or replace function private.begin_attempt(attempt jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  of_action text := attempt ->> 'action';
  network cidr := private.address_network((attempt ->> 'address')::inet);
  account text := case
    when attempt ->> 'email' is not null then 'email:' || lower(attempt ->> 'email')
    when attempt ->> 'userId' is not null then 'user:' || (attempt ->> 'userId')::uuid
  end;
  challenged boolean := coalesce((attempt ->> 'challenged')::boolean, false);
  overridden boolean := coalesce((attempt ->> 'overridden')::boolean, false);
  mail text := attempt ->> 'mail';
  mail_wait interval;
  account_pair bytea := private.attempt_pair(account, network);
  blocked_for interval;
  proven boolean;
  bucket record;
  wait interval;
  longest interval;
  charged bytea[] := '{}';
  challenge_due boolean := false;
  repeated boolean := false;
  new_id uuid;
begin
  if of_action is null or of_action not in (
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff'
  ) then
    raise exception 'there is no such action' using errcode = 'invalid_parameter_value';
  end if;
  if mail not in ('sign_up_mail', 'confirmation_mail', 'recovery_mail', 'email_change_mail') then
    raise exception 'there is no such mail' using errcode = 'invalid_parameter_value';
  end if;
  if network is null then
    raise exception 'an attempt comes from an address' using errcode = 'null_value_not_allowed';
  end if;
  select max(b.blocked_until) - now() into blocked_for
  from private.address_blocks b
  where b.address = network and b.blocked_until > now() and b.lifted_at is null;
  if blocked_for is not null then
    return private.attempt_refusal('blocked', blocked_for);
  end if;

  proven := exists (select from private.verified_addresses p where p.pair = account_pair and p.verified_until > now());
  if mail is not null then
    mail_wait := private.mail_wait(mail, lower(attempt ->> 'email'), (attempt ->> 'userId')::uuid);
  end if;
  -- In one order for everybody, so that no two wait for each other.
  for bucket in
    select of_action as action, b.*
    from private.attempt_buckets(of_action, account, network) b
    where not overridden or b.scope = 'address'
    union all
    select 'override_password', b.*
    from private.attempt_buckets('override_password', account, network) b
    where overridden
    union all
    select mail, b.*
    from private.attempt_buckets(mail, account, null) b
    where mail_wait is null
    union all
    select 'redemption', b.*
    from private.attempt_buckets('redemption', account || ' ' || (attempt ->> 'code'), null) b
    order by subject
  loop
    continue when bucket.when_empty = 'challenge' and proven;
    continue when bucket.when_empty = 'refuse_new' and (proven or challenged);
    wait := private.consume_attempt(bucket.subject, bucket.action, bucket.scope, bucket.step, bucket.per);
    if wait is null then
      charged := charged || bucket.subject;
    elsif bucket.when_empty = 'challenge' then
      challenge_due := not challenged;
    elsif bucket.when_empty = 'wait' then
      mail_wait := wait;
    elsif bucket.when_empty = 'repeat' then
      repeated := true;
    else
      longest := greatest(longest, wait);
    end if;
  end loop;
  if longest is not null then
    perform private.refund_attempts(charged);
    perform private.count_failure(of_action, network);
    return private.attempt_refusal('limited', longest);
  end if;

  insert into private.open_attempts (action, address, pair, charged, password_checks)
  values (
    of_action, network, account_pair, charged,
    -- Under an override the sign-in is made again once what blocked it is lifted.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'repeated', repeated,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;

-- Definer: nobody, the service role included, takes from a bucket or puts back but through begin and settle.
create or replace function private.complete_attempt(attempt_id uuid, outcome text) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  settled private.open_attempts;
begin
  if outcome is null or outcome not in ('succeeded', 'failed', 'void') then
    raise exception 'an attempt is succeeded, failed or void' using errcode = 'invalid_parameter_value';
  end if;
  -- Who deletes the row settles: once, however many try.
  delete from private.open_attempts o where o.id = attempt_id and o.expires_at > now() returning * into settled;
  if not found then
    return false;
  end if;
  if outcome = 'void' then
    perform private.refund_attempts(settled.charged);
  elsif outcome = 'failed' then
    perform private.count_failure(settled.action, settled.address);
  elsif settled.action in ('password', 'code', 'sign_in_code', 'passkey') then
    -- One each, and not the address's whole count: who has an account would else guess at others between sign-ins.
    perform private.refund_attempts(settled.charged);
    delete from private.rate_limits r where r.subject = any (settled.charged) and r.scope = 'pair';
    if settled.pair is not null then
      perform private.record_verified_address(settled.pair);
    end if;
  end if;
  return true;
end
$$;

-- Every number of the abuse controls, and its reason. `address`: whoever comes from there. `pair`: one account from one
-- address. `account`: one account from anywhere. What happens when a bucket is empty:
--   refuse      429, with the time until the next attempt
--   challenge   a bot challenge is due; without one the attempt is slowed down, never refused
--   refuse_new  429, unless the attempt carries a bot challenge or the address is proven for this account
--   wait        no mail is sent, and the answer is the same
--   repeat      the same code was tried before: it is not tried again, and the answer is that of a wrong one
create or replace function private.attempt_limits()
  returns table (action text, scope text, attempts integer, per interval, when_empty text)
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  values
    -- An office behind one address signs in within minutes, some with typing errors; what succeeds is given back.
    ('password', 'address', 60, interval '10 minutes', 'refuse'),
    -- More than anybody needs to remember which password it was; 40 an hour at most afterwards.
    ('password', 'pair', 10, interval '15 minutes', 'refuse'),
    -- Many addresses at one account are an attack. The owner, who may come from anywhere, must still get in.
    ('password', 'account', 20, interval '1 hour', 'challenge'),
    -- Without a bot challenge something has to end it: NIST SP 800-63B allows 100 failures in a row.
    ('password', 'account_cap', 100, interval '1 hour', 'refuse_new'),

    ('code', 'address', 60, interval '10 minutes', 'refuse'),
    -- A code of six digits, of which three are right at any time: five guesses, then twenty an hour.
    ('code', 'pair', 5, interval '15 minutes', 'refuse'),
    -- Who is asked for a code knew the password. Stays below the backend's hook, whose refusal ends all sessions.
    ('code', 'account', 8, interval '15 minutes', 'refuse'),

    -- Mailed sign-in codes. Anybody can ask for one, so strangers must not be able to lock the owner out, as with
    -- passwords. Guessing is hopeless: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    ('sign_in_code', 'account_cap', 100, interval '1 hour', 'refuse_new'),
    -- One code of one account. The identity backend would start a session for each concurrent request with it.
    ('redemption', 'account', 1, interval '1 hour', 'repeat'),

    -- Mails cost reputation. A class of thirty signs up in one lesson.
    ('mail', 'address', 30, interval '1 hour', 'refuse'),
    ('mail', 'pair', 5, interval '15 minutes', 'refuse'),
    ('mail', 'account', 10, interval '1 hour', 'challenge'),
    -- Nobody's mailbox is to be filled by others.
    ('mail', 'account_cap', 30, interval '1 hour', 'refuse_new'),
    ('sign_up', 'address', 30, interval '1 hour', 'refuse'),
    ('sign_up', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_up', 'account', 10, interval '1 hour', 'challenge'),
    ('sign_up', 'account_cap', 30, interval '1 hour', 'refuse_new'),

    -- One at a time of each kind: the identity backend notes a mail when its mail server has taken it, and a second
    -- request within those seconds would replace the link in the first mail.
    ('sign_up_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('confirmation_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('recovery_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('email_change_mail', 'account', 1, interval '30 seconds', 'wait'),

    -- Of one inviter, whatever the workspace: a team in one go, and never a mailing to strangers.
    ('invitation', 'account', 10, interval '10 minutes', 'refuse'),
    ('invitation', 'account_cap', 50, interval '1 day', 'refuse'),

    -- Nothing to guess here; this spares the identity backend.
    ('passkey', 'address', 60, interval '10 minutes', 'refuse'),
    -- Visits to providers, counted where they begin: none is given back when somebody returns.
    ('oauth', 'address', 120, interval '10 minutes', 'refuse'),
    -- Changes by somebody who is signed in: each hashes a password or sends a mail.
    ('credential', 'address', 60, interval '10 minutes', 'refuse'),
    ('credential', 'pair', 20, interval '1 hour', 'refuse'),

    -- Under a recovery override these hold in the place of the password's own by email: for the owner afresh, and for
    -- those who guess as before.
    ('override_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('override_password', 'account', 100, interval '1 hour', 'refuse'),

    -- Nobody guesses a secret of 256 bits: this spares the database. Only wrong ones count.
    ('app_secret', 'address', 60, interval '10 minutes', 'refuse'),
    -- Signing in to apps; each is a row that lives for a day.
    ('handoff', 'account', 120, interval '10 minutes', 'refuse'),

    -- At the identity backend itself, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this is empty: only under attack (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts that came in spite of a refusal: then the address is blocked.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.clear_unproven_metadata() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if old.email_confirmed_at is null and new.email_confirmed_at is not null and private.may_be_unproven(new) then
    perform set_config('gatehouse.first_confirmation', new.id::text, true);
  end if;
  -- Auth writes the metadata that it read before, in later statements of the transaction too.
  if current_setting('gatehouse.first_confirmation', true) = new.id::text then
    new.raw_user_meta_data := private.proven_metadata(new);
  end if;
  return new;
end
$$;

create or replace function private.may_be_unproven(account auth.users) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(account.email, '') <> ''
    -- Created and confirmed at once, by an administrator or by a provider that has verified the email.
    and not exists (select from public.profiles p where p.id = account.id and p.created_at = now())
    -- Created by an administrator's invitation. Auth reads its clock twice in that call.
    and (account.invited_at < account.created_at + interval '500 milliseconds') is not true
    -- In use before it got this email, which was confirmed as a change.
    and not exists (
      select from public.security_events e where e.user_id = account.id and e.kind = 'email_changed'
    )
$$;

create or replace function private.is_proven_identity(identity auth.identities, account auth.users) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select identity.provider <> 'email'
    and identity.identity_data -> 'email_verified' = 'true'::jsonb
    and lower(identity.identity_data ->> 'email') = lower(account.email)
$$;

create or replace function private.own_claims(data jsonb) returns jsonb
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_object_agg(m.key, m.value), '{}')
  from jsonb_each(case when jsonb_typeof(data) = 'object' then data else '{}' end) m
  where m.key in ('sub', 'email', 'email_verified', 'phone_verified')
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.keep_own_claims() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  new.identity_data := private.own_claims(new.identity_data);
  return new;
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.start_over() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  shown_name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  if current_setting('gatehouse.first_confirmation', true) is distinct from new.id::text then
    return null;
  end if;

  delete from auth.sessions s where s.user_id = new.id;
  delete from auth.mfa_factors f where f.user_id = new.id;
  delete from auth.webauthn_credentials c where c.user_id = new.id;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = new.id and i.provider <> 'email' and not private.is_proven_identity(i, new);
  if found then
    perform private.keep_email_identity(new);
  end if;
  delete from private.unconfirmed_additions a where a.user_id = new.id;
  delete from private.mfa_recovery_codes c where c.user_id = new.id;
  delete from private.account_vault_entries v where v.user_id = new.id;
  perform private.end_apps_of_account(new.id);
  perform private.replace_workspaces(new.id);

  update public.profiles p
  set display_name = shown_name,
      avatar_url = case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end
  where p.id = new.id;
  update public.workspaces w
  set name = private.personal_workspace_name(shown_name)
  where w.personal_user_id = new.id;
  return null;
end
$$;

create or replace function private.replace_workspaces(subject_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  left_behind uuid[];
begin
  -- A workspace that is as it was made can stay.
  if not exists (select from public.security_events e where e.user_id = subject_id)
    and not exists (select from ai.keys k where k.created_by = subject_id)
    and not exists (select from public.workspace_invitations i where i.invited_by = subject_id)
    and not exists (
      select
      from public.workspaces w
      where w.personal_user_id is distinct from subject_id
        and (
          w.created_by = subject_id
          or w.id in (select m.workspace_id from public.workspace_members m where m.user_id = subject_id)
        )
    ) then
    return;
  end if;
  -- Rows are locked in the order of private.delete_account.
  perform from public.workspace_members m where m.user_id = subject_id order by m.workspace_id for update;
  delete from public.workspace_invitations i where i.invited_by = subject_id and i.accepted_at is null;
  select coalesce(array_agg(w.id order by w.id), '{}')
  into left_behind
  from public.workspaces w
  join public.workspace_members m on m.workspace_id = w.id and m.user_id = subject_id
  where w.deleted_at is null and not exists (
    select
    from public.workspace_members other
    join public.workspace_roles r on r.id = other.role_id and r.is_owner
    where other.workspace_id = w.id and other.user_id <> subject_id
  );
  delete from public.workspace_invitations i where i.workspace_id = any (left_behind) and i.accepted_at is null;
  update public.workspaces w
  set deleted_at = now(), personal_user_id = null, name = 'Deleted workspace'
  where w.id = any (left_behind);
  update ai.keys k
  set revoked_at = now()
  where (k.workspace_id = any (left_behind) or k.created_by = subject_id) and k.revoked_at is null;
  delete from public.workspace_members m where m.user_id = subject_id;
  insert into public.workspaces (name, personal_user_id, created_by)
  values (private.personal_workspace_name('New user'), subject_id, subject_id);
end
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_of_link(token_hash text, link_type text) returns text
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select u.email
  from auth.one_time_tokens t
  join auth.users u on u.id = t.user_id and u.deleted_at is null
  where t.token_hash = email_of_link.token_hash
    and t.token_type::text = case email_of_link.link_type
      when 'signup' then 'confirmation_token'
      when 'invite' then 'confirmation_token'
      when 'recovery' then 'recovery_token'
    end
$$;

-- Definer: the identity backend inserts users, and holds no grant on profiles or workspaces.
create or replace function private.create_profile_and_workspace() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  insert into public.profiles (id, display_name, avatar_url)
  values (new.id, name, case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end);

  insert into public.workspaces (name, personal_user_id, created_by)
  values (private.personal_workspace_name(name), new.id, new.id);
  return null;
end
$$;

create or replace function private.personal_workspace_name(display_name text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select left(display_name, 60) || '''s workspace'
$$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Anybody can sign up with anybody's email, also without our server.
create or replace trigger clear_unproven_metadata before update of email_confirmed_at, raw_user_meta_data on auth.users
  for each row
  when (
    (old.email_confirmed_at is null and new.email_confirmed_at is not null)
    or current_setting('gatehouse.first_confirmation', true) = new.id::text
  )
  execute function private.clear_unproven_metadata();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
create or replace trigger start_over after update of email_confirmed_at on auth.users
  for each row when (old.email_confirmed_at is null and new.email_confirmed_at is not null)
  execute function private.start_over();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.identities') is not null then
create or replace trigger keep_own_claims before insert or update of identity_data on auth.identities
  for each row when (new.provider = 'email')
  execute function private.keep_own_claims();
  end if;
end
$guard$;

-- Definer: asks the identity backend's tables, which the caller must not read, about the caller's own token alone.
create or replace function private.account_required_mfa_satisfied() returns boolean
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return private.session_satisfies_mfa(private.caller_claims());
end
$$;

-- Definer: asks the rule of required MFA about the asking session.
create or replace function private.bind_mobile_approval(binding jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  claims constant jsonb := binding -> 'claims';
  challenge private.login_challenges;
begin
  update private.login_challenges c
  set status = 'bound',
      bound_session_id = c.session_id,
      bound_at = now(),
      valid_until = now() + interval '12 hours',
      proof_key = (binding ->> 'proofKey')::bytea,
      approval_metadata = c.approval_metadata || jsonb_build_object('sessionId', c.session_id)
  where c.id = private.uuid_or_null(binding ->> 'id')
    and c.kind = 'mfa_mobile'
    and c.secret_hash = (binding ->> 'secretHash')::bytea
    and c.session_id = (claims ->> 'session_id')::uuid
    and c.user_id = (claims ->> 'sub')::uuid
    and c.status = 'approved'
    and c.expires_at > now()
  returning c.* into challenge;
  if not found then
    return null;
  end if;
  -- As where its factor was removed since, or the account demands a newer proof.
  if not private.session_satisfies_mfa(claims) then
    update private.login_challenges c
    set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
    where c.id = challenge.id
    returning c.* into challenge;
  end if;
  return jsonb_build_object('status', challenge.status, 'validUntil', challenge.valid_until);
end
$$;

create or replace function private.is_approval_proven(approval private.login_challenges, proof text) returns boolean
  language sql
  stable
  security invoker
as $$
  select case
    -- Release 0.1.0 binds approvals without a key. Its servers check the cookie themselves.
    when (approval).proof_key is null then true
    when proof ~ '^[0-9]{10}[.][0-9a-f]{64}$' then
      left(proof, 10)::bigint
        between floor(extract(epoch from now()))::bigint - 60 and floor(extract(epoch from now()))::bigint + 60
      -- Hashes are compared, so that the time it takes says nothing about the expected value.
      and sha256(decode(right(proof, 64), 'hex')) = sha256(extensions.hmac(
        convert_to((approval).bound_session_id || ' ' || left(proof, 10), 'UTF8'), (approval).proof_key, 'sha256'
      ))
    else false
  end
$$;

-- PostgREST keeps a request's headers in request.headers, with their names in lower case.
create or replace function private.caller_claims() returns jsonb
  language sql
  stable
  security invoker
as $$
  select auth.jwt() || jsonb_build_object(
    'approval_proof', nullif(current_setting('request.headers', true), '')::jsonb -> 'x-mfa-approval'
  )
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
    and (c.consumed_at is null or c.repeatable_by = browser_hash)
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
        and (c.consumed_at is null or c.repeatable_by = browser_hash)
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
  -- The browser that used it has not received the response.
  if credential.repeatable_by = decode(request ->> 'browserHash', 'hex') then
    credential.consumed_at := null;
  end if;
  verdict := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  if verdict <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', verdict, 'email', of_email, 'overrideId', credential.override_id,
      'credentialId', credential.id
    ));
    return '{"outcome": "rejected"}';
  end if;

  update private.recovery_credentials c set consumed_at = now(), repeatable_by = null where c.id = credential.id;
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
    'waitMs', coalesce(greatest(
      0, ceil(((written ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
end
$$;

create or replace function private.allow_recovery_repeat(credential_id uuid, browser_hash bytea) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update private.recovery_credentials c
  set repeatable_by = browser_hash
  where c.id = credential_id and c.consumed_at is not null
$$;

create or replace function private.add_account(addition jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (addition ->> 'userId')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (addition ->> 'deviceId')::uuid for update;
  -- A spent secret too: another tab may have added an account while this request was on its way.
  if not found or private.device_secret_status(device, addition ->> 'secret') = 'unknown' then
    return jsonb_build_object('status', 'unknown');
  end if;
  if (
    select count(*)
    from (
      select e.user_id from private.account_vault_entries e where e.device_id = device.id
      union
      select a.user_id
      from private.account_additions a
      where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    ) held
    where held.user_id <> subject_id
  ) >= 10 then
    return jsonb_build_object('status', 'full');
  end if;
  insert into private.account_additions (secret_hash, device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    decode(addition ->> 'secretHash', 'hex'), device.id, subject_id, (addition ->> 'sessionId')::uuid,
    addition ->> 'sealed', addition ->> 'keyId', addition ->> 'tag'
  )
  on conflict (secret_hash) do nothing;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;

create or replace function private.secret_after_addition(secret text, added text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select translate(encode(sha256(convert_to(secret || ' ' || added, 'UTF8')), 'base64'), '+/=', '-_')
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
    set taken_from = private.secret_hash(held), sealed = null, key_id = null, token_tag = null,
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

-- Definer: ends sessions, which are the identity backend's.
create or replace function private.end_additions(device_id uuid, user_ids uuid[]) returns jsonb
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  with gone as (
    delete from private.account_additions a
    where a.device_id = end_additions.device_id and a.taken_from is null
      and (user_ids is null or a.user_id = any (user_ids))
    returning a.user_id, a.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  from gone g
  where private.end_account_session(g.user_id, g.session_id)
$$;

-- Definer: as take_additions.
create or replace function private.continue_account_session(continuation jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (continuation ->> 'userId')::uuid;
  made_id constant uuid := (continuation ->> 'sessionId')::uuid;
  replaced_id constant uuid := (continuation ->> 'inPlaceOf')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (continuation ->> 'deviceId')::uuid for update;
  if not found or private.device_secret_status(device, continuation ->> 'secret') not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  update private.account_vault_entries e
  set session_id = made_id, sealed = continuation ->> 'sealed', key_id = continuation ->> 'keyId',
      token_tag = continuation ->> 'tag', last_active_at = now()
  where e.device_id = device.id and e.user_id = subject_id
    -- The new one is there already if the answer to the same call was lost.
    and e.session_id in (replaced_id, made_id);
  if not found then
    return jsonb_build_object('status', 'over');
  end if;
  perform private.end_account_session(subject_id, replaced_id);
  update private.account_devices d
  set active_session_id = case when d.active_user_id = subject_id then made_id else d.active_session_id end,
      last_seen_at = now(),
      expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;

-- Definer: locks accounts, whose rows are Supabase Auth's.
create or replace function private.sweep_account_devices() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  idle record;
  swept integer;
begin
  -- One sweeper at a time; the others find nothing to do.
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_account_devices', 0)) then
    return 0;
  end if;
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.last_active_at <= now() - interval '30 days'
    union
    select a.user_id from private.account_additions a where a.expires_at <= now()
  ));
  for idle in
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.sealed is not null and e.last_active_at <= now() - interval '30 days'
    returning e.user_id, e.session_id
  loop
    perform private.end_account_session(idle.user_id, idle.session_id);
  end loop;
  for idle in
    delete from private.account_additions a where a.expires_at <= now() returning a.user_id, a.session_id, a.taken_from
  loop
    if idle.taken_from is null then
      perform private.end_account_session(idle.user_id, idle.session_id);
    end if;
  end loop;
  delete from private.account_vault_entries e where e.last_active_at <= now() - interval '90 days';
  delete from private.account_devices d
  where d.expires_at <= now()
    or (
      d.last_seen_at < now() - interval '1 day'
      and not exists (select from private.account_vault_entries e where e.device_id = d.id)
    );
  get diagnostics swept = row_count;
  return swept;
end
$$;

-- Definer: sessions are Supabase Auth's, which the service role cannot read.
create or replace function private.require_password_replacement(subject_id uuid, target_id uuid) returns void
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  delete from private.password_replacements r
  where not exists (select from auth.sessions s where s.id = r.session_id);
  insert into private.password_replacements (session_id, user_id)
  select s.id, s.user_id
  from auth.sessions s
  where s.id = target_id and s.user_id = subject_id
  on conflict (session_id) do nothing
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.end_password_replacements() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if private.is_new_password(old.encrypted_password, new.encrypted_password) then
    delete from private.password_replacements r where r.user_id = new.id;
  end if;
  return null;
end
$$;

-- Definer: a session that has yet to prove its second factor, or whose account is closed, must still be told so, and
-- the identity backend's tables are not the caller's to read. It answers about the caller's own token alone.
create or replace function public.session_state() returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  claims jsonb := private.caller_claims();
begin
  return coalesce((
    select jsonb_build_object(
      'alive', true,
      'sessionId', f.session_id,
      'notAfter', f.not_after,
      'aal', claims ->> 'aal',
      'user', jsonb_build_object(
        'id', f.user_id,
        'email', f.email,
        'displayName', p.display_name,
        'avatarUrl', p.avatar_url,
        'banned', f.banned,
        'deleted', f.deleted
      ),
      'hasVerifiedFactor', f.has_verified_factor,
      'policy', jsonb_build_object(
        'state', m.state,
        'required', m.state <> 'optional',
        'satisfied', not f.banned and not f.deleted and v.satisfied,
        'byApproval', v.satisfied and not v.alone
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral (
      select
        private.satisfies_required_mfa(
          f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second, s.now
        ),
        private.satisfies_required_mfa(
          f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, null, s.now
        )
      from (select floor(extract(epoch from now()))::bigint) as s (now)
    ) as v (satisfied, alone)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

-- Definer: the identity backend ends a session by deleting its row, and so does this: in one transaction with the entry,
-- whether the backend answers or not.
create or replace function private.sign_out_account(device_id uuid, secret text, target_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  ended_id uuid;
begin
  perform private.lock_accounts(array[target_id]);
  select d.* into device from private.account_devices d where d.id = sign_out_account.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  delete from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id
  returning e.session_id into ended_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  perform private.end_account_session(target_id, ended_id);
  perform private.end_additions(device.id, array[target_id]);
  update private.account_devices d
  set active_user_id = null, active_session_id = null
  where d.id = device.id and d.active_user_id = target_id;
  return jsonb_build_object(
    'status', 'signed_out',
    'sessionId', ended_id,
    'wasActive', device.active_user_id is not distinct from target_id,
    'next', coalesce((
      select jsonb_agg(e.user_id order by e.last_active_at desc, e.user_id)
      from private.account_vault_entries e
      where e.device_id = device.id and private.is_vault_entry_usable(e)
    ), '[]')
  );
end
$$;

-- Definer: Supabase Auth has no call that ends these sessions in the transaction that removes their entries.
create or replace function private.sign_out_device(device_id uuid, secret text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  device private.account_devices;
  ended jsonb;
begin
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.device_id = sign_out_device.device_id
    union
    select a.user_id from private.account_additions a where a.device_id = sign_out_device.device_id
  ));
  select d.* into device from private.account_devices d where d.id = sign_out_device.device_id for update;
  -- Signing out is good for the spent secret, too: whoever shows it held the browser a moment ago.
  if not found or private.device_secret_status(device, secret) = 'unknown' then
    return null;
  end if;
  with gone as (
    delete from private.account_vault_entries e where e.device_id = device.id returning e.user_id, e.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  into ended
  from gone g
  where private.end_account_session(g.user_id, g.session_id);
  ended := ended || private.end_additions(device.id, null);
  delete from private.account_devices d where d.id = device.id;
  return ended;
end
$$;

create or replace function private.read_login_challenge(challenge jsonb) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce((
    select case
      when challenge ->> 'sessionId' not in (c.session_id::text, coalesce(c.approval_metadata ->> 'mintedSessionId', ''))
        then jsonb_build_object('outcome', 'forbidden')
      else jsonb_build_object(
        'outcome', 'known',
        'status', private.login_challenge_state(c),
        'expiresAt', c.expires_at,
        'validUntil', c.valid_until,
        'mintedSessionId', c.approval_metadata -> 'mintedSessionId'
      )
    end
    from private.login_challenges c
    where c.id = case when pg_input_is_valid(challenge ->> 'id', 'uuid') then (challenge ->> 'id')::uuid end
      and c.kind = challenge ->> 'kind'
      and c.secret_hash = (challenge ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;

-- Definer: sessions and their proofs are the identity backend's, which the service role cannot write.
create or replace function private.complete_qr_challenge(completion jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  minted constant uuid := (completion ->> 'mintedSessionId')::uuid;
  challenge private.login_challenges;
  approver jsonb;
  signed_in_at timestamptz;
begin
  perform private.lock_accounts(array(
    select c.user_id from private.login_challenges c where c.id = (completion ->> 'id')::uuid
  ));
  select c.* into challenge
  from private.login_challenges c
  where c.id = (completion ->> 'id')::uuid and c.kind = 'qr' and c.status = 'consuming' and c.lease_expires_at > now()
  for update;
  if not found then
    return 'expired';
  end if;
  approver := challenge.approval_metadata -> 'claims';
  if not (
    private.session_satisfies_mfa(completion -> 'claims')
    and (completion -> 'claims' ->> 'session_id')::uuid = challenge.session_id
    and private.session_satisfies_mfa(approver)
    and exists (select from auth.sessions s where s.id = minted and s.user_id = challenge.user_id)
  ) then
    update private.login_challenges c set status = 'rejected' where c.id = challenge.id;
    return 'rejected';
  end if;

  -- Nobody has signed in here: the session is as old as the approver's own sign-in, for boundaries and for step-up, in
  -- every token that the backend issues for it from now on.
  signed_in_at := to_timestamp(coalesce(private.latest_amr_second(approver -> 'amr', private.primary_methods()), 0));
  perform private.set_session_sign_in_time(minted, signed_in_at);
  update private.login_challenges c
  set status = 'consumed',
      consumed_at = now(),
      approval_metadata = c.approval_metadata || jsonb_build_object('mintedSessionId', minted)
  where c.id = challenge.id;
  return 'consumed';
end
$$;

create or replace function private.proven_metadata(account auth.users) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    (
      select i.identity_data
      from auth.identities i
      where i.user_id = account.id and private.is_proven_identity(i, account)
      order by i.created_at desc
      limit 1
    ),
    '{}'
  ) || private.own_claims(account.raw_user_meta_data)
$$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- The password changes through the API as well.
create or replace trigger end_password_replacements after update of encrypted_password on auth.users
  for each row when (old.encrypted_password is distinct from new.encrypted_password)
  execute function private.end_password_replacements();
  end if;
end
$guard$;

create or replace function private.session_facts(claims jsonb)
  returns table (
    user_id uuid,
    session_id uuid,
    not_after timestamptz,
    email text,
    banned boolean,
    deleted boolean,
    app_metadata jsonb,
    has_verified_factor boolean,
    session_factor_verified boolean,
    session_factor_id uuid,
    approval_second bigint,
    approval_factor_id uuid,
    approval_valid_until timestamptz
  )
  language sql
  stable
  security invoker
as $$
  select
    u.id,
    s.id,
    s.not_after,
    u.email::text,
    coalesce(u.banned_until > now(), false),
    u.deleted_at is not null,
    u.raw_app_meta_data,
    exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
    exists (
      select from auth.mfa_factors f where f.id = s.factor_id and f.user_id = u.id and f.status = 'verified'
    ),
    s.factor_id,
    floor(extract(epoch from a.second_factor_at))::bigint,
    a.approver_factor_id,
    a.valid_until
  from auth.sessions s
  join auth.users u on u.id = s.user_id
  left join lateral (
    select c.second_factor_at, c.approver_factor_id, c.valid_until
    from private.login_challenges c
    join auth.mfa_factors f on f.id = c.approver_factor_id
    where c.bound_session_id = s.id
      and c.user_id = u.id
      and c.kind = 'mfa_mobile'
      and c.status = 'bound'
      and c.valid_until > now()
      and private.is_approval_proven(c, claims ->> 'approval_proof')
      and f.user_id = u.id
      and f.status = 'verified'
    order by c.second_factor_at desc
    limit 1
  ) a on true
  where s.id = private.uuid_or_null(claims ->> 'session_id')
    and u.id = private.uuid_or_null(claims ->> 'sub')
    and (s.not_after is null or s.not_after > now())
$$;

comment on function private.begin_attempt(jsonb) is
  'Counts an attempt before it is made: { action, address, email | userId, challenged, overridden, mail, code } gives { '
  'allowed, attemptId, needsBotChallenge, repeated, mailWaitSeconds, mailPauseSeconds } or { allowed: false, reason: '
  'limited | blocked, retryAfterSeconds }. Whoever gets no answer must not try. challenged: the attempt carries a bot challenge''s '
  'token, which the identity backend checks first. overridden: a recovery override lets the email past its own limits, '
  'to those of override_password; those of the address hold. mail: the kind of mail that the attempt sends. Where '
  'mailWaitSeconds is not null, it must not be sent: another one is on its way, or its link is too young to be replaced. code: the mailed code '
  'that is tried, which only a digest is kept of. Where repeated is true, it was tried before and must not be again.';

comment on function private.bind_mobile_approval(jsonb) is
  'Binds an approved challenge to the session that asked, for 12 hours: { id, secretHash, claims, proofKey } → '
  '{ status: bound, validUntil }, or status rejected where it would not help. The claims bring a proof by that key. '
  'Null where it is not approved, or was bound before.';

comment on function private.consume_recovery_credential(jsonb) is
  '{ tokenHash } or { email, codeHash } and browserHash, in hex, with ip, userAgent, requestId → { outcome: consumed, '
  'credentialId, overrideId, email, userId or null, banned, confirmed, waitMs } to one of many callers, { outcome: rejected } to all '
  'others, for every reason, which is recorded. Ends every session, app session and app token of the account and moves '
  'its boundaries to this second; a session that counts is minted after waitMs.';

comment on function private.device_secret_status(private.account_devices, text) is
  'What a secret is to a device: current; previous, good for anything until the current one has arrived; spent, for '
  'requests that were on their way when an account was added: it opens nothing, but may add another account, which the '
  'browser then shows with the current secret, and sign the browser out; or unknown.';

comment on function private.read_login_challenge(jsonb) is
  'The state of a challenge, for the session that began it and the one that it minted: { id, kind, secretHash, '
  'sessionId } → { outcome: known, status, expiresAt, validUntil, mintedSessionId }, or outcome not_found (id or secret '
  'wrong) or forbidden (another session''s).';

comment on function private.session_facts(jsonb) is
  'What the database knows of a token''s session at this moment: no row where it has ended or is another user''s. A mobile '
  'approval is among it only if the claims prove that the browser holds its cookie.';

comment on function private.sweep_account_devices() is
  'Ends sessions that lay in a browser''s vault for 30 days without use and sign-ins whose browser never showed them, '
  'forgets accounts after 90 days, and devices that have expired or hold none. Answers how many devices went.';

comment on function public.session_state() is
  'What must be fresh on every request, in one statement: { alive, sessionId, notAfter, aal, hasVerifiedFactor, '
  'mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned, deleted }, '
  'policy: { state, required, satisfied, byApproval } }, or { alive: false } once the session is over. '
  'state is optional, required, recovery_in_progress or malformed. byApproval: a mobile approval satisfies it and the '
  'session''s own proofs would not. For approvals of release 0.1.0 the server has to check the cookie.';

comment on function private.add_account(jsonb) is
  'Keeps a sign-in until the browser shows its secret, for 15 minutes: { deviceId, secret, secretHash (hex), userId, '
  'sessionId, sealed, keyId, tag } → { status: kept | unknown (device) | full }. Idempotent.';

comment on function private.allow_recovery_repeat(uuid, bytea) is
  'After a recovery has made its session: lets the same browser use the credential again until it expires, in case the '
  'response is lost. Until then concurrent callers are refused.';

comment on function private.caller_claims() is
  'The claims of a caller of the Data API, with the proof of a mobile approval that our server sends as a header.';

comment on function private.clear_unproven_metadata() is
  'Begins the first confirmation of an email, and removes metadata that its owner did not write.';

comment on function private.continue_account_session(jsonb) is
  'Replaces an account''s session by one that continues it without another sign-in, as a QR handoff does: { deviceId, '
  'secret, userId, sessionId, sealed, keyId, tag, inPlaceOf } → { status: kept | unknown (device) | over }. The device''s '
  'secret stays, so a browser that lost the response gets the session from the vault. over: the browser has signed out of '
  'the session that it continues, or has another one.';

comment on function private.email_of_link(text, text) is
  'The email of the account that a mailed link signs in to, or null. link_type: signup, invite or recovery. Does not use '
  'the link up, and does not check its age.';

comment on function private.end_additions(uuid, uuid[]) is
  'Ends the sign-ins of these accounts that a browser has not shown yet; of all accounts where null. The caller has '
  'locked the accounts. Answers those that were alive: [{ userId, sessionId }].';

comment on function private.end_password_replacements() is
  'Lifts the restriction of private.require_password_replacement once the password is another one.';

comment on function private.find_recovery_link_email(bytea, bytea) is
  'The email that a link would sign in, for the page that asks first; null if the link does not work in this browser. It '
  'changes nothing.';

comment on function private.is_approval_proven(private.login_challenges, text) is
  'Whether a proof shows that our server saw the approval''s cookie within a minute: "<second>.<HMAC-SHA-256 in hex>", the '
  'HMAC by the approval''s key over "<session id> <second>".';

comment on function private.is_proven_identity(auth.identities, auth.users) is
  'Whether a provider has verified that the identity has the account''s email.';

comment on function private.keep_own_claims() is
  'Leaves out of an email identity what the sign-up sent as metadata: it would outlive the first confirmation.';

comment on function private.may_be_unproven(auth.users) is
  'Whether somebody other than the owner of its email may have made an account that was not confirmed yet.';

comment on function private.own_claims(jsonb) is
  'The members that Supabase Auth itself writes into metadata and into email identities.';

comment on function private.personal_workspace_name(text) is
  'What a personal workspace is called until its owner renames it. For definers; not granted to a role.';

comment on function private.proven_metadata(auth.users) is
  'Metadata of an account that was just confirmed: what a provider that verified the email says, and Auth''s own members.';

comment on function private.recovery_code_salt(text, bytea) is
  'The salt under which a code of an email is hashed before it is tried, in hex; made up where there is none to try, so '
  'that the answer is one.';

comment on function private.replace_workspaces(uuid) is
  'Closes the workspaces that an account alone owns, takes it out of the others, revokes the keys that it made, and gives it '
  'a new personal workspace; does nothing while its only workspace is as it was made. For definers; not granted to a role.';

comment on function private.require_password_replacement(uuid, uuid) is
  'Restricts a session to the replacement of its account''s password, until that is changed. Also '
  'removes the rows of sessions that have ended.';

comment on function private.secret_after_addition(text, text) is
  'The device secret after an account was added. It takes both secrets: a planted one of either kind is not enough.';

comment on function private.start_over() is
  'Gives an account at the first confirmation of its email what a new account has, and removes what was added before: '
  'profile, sessions, passkeys, authenticators, identities that prove nothing, app sessions, workspaces and keys.';

comment on function private.take_additions(uuid, text, text[]) is
  'Adds the sign-ins whose secrets a browser shows to its accounts; the newest becomes the active one, and the session '
  'that it replaces ends. Answers { status, secret }: the device secret that the shown ones lead to, and what it is to '
  'the device (device_secret_status); only current takes anything. The same call again has the same answer.';

grant execute on function private.add_account(jsonb) to service_role;

grant execute on function private.allow_recovery_repeat(uuid, bytea) to service_role;

grant execute on function private.continue_account_session(jsonb) to service_role;

grant execute on function private.email_of_link(text, text) to service_role;

grant execute on function private.find_recovery_link_email(bytea, bytea) to service_role;

grant execute on function private.recovery_code_salt(text, bytea) to service_role;

grant execute on function private.require_password_replacement(uuid, uuid) to service_role;

grant execute on function private.take_additions(uuid, text, text[]) to service_role;
