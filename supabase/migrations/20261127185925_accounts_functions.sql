-- Generated from supabase/schemas by npm run db:migration.

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

comment on function private.session_facts(jsonb) is
  'What the database knows of a token''s session at this moment: no row where it has ended or is another user''s. A mobile '
  'approval is among it only if the claims prove that the browser holds its cookie.';

comment on function public.session_state() is
  'What must be fresh on every request, in one statement: { alive, sessionId, notAfter, aal, hasVerifiedFactor, '
  'mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned, deleted }, '
  'policy: { state, required, satisfied, byApproval } }, or { alive: false } once the session is over. '
  'state is optional, required, recovery_in_progress or malformed. byApproval: a mobile approval satisfies it and the '
  'session''s own proofs would not. For approvals of release 0.1.0 the server has to check the cookie.';

comment on function private.caller_claims() is
  'The claims of a caller of the Data API, with the proof of a mobile approval that our server sends as a header.';

comment on function private.clear_unproven_metadata() is
  'Begins the first confirmation of an email, and removes metadata that its owner did not write.';

comment on function private.email_of_link(text, text) is
  'The email of the account that a mailed link signs in to, or null. link_type: signup, invite or recovery. Does not use '
  'the link up, and does not check its age.';

comment on function private.end_password_replacements() is
  'Lifts the restriction of private.require_password_replacement once the password is another one.';

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

comment on function private.replace_workspaces(uuid) is
  'Closes the workspaces that an account alone owns, takes it out of the others, revokes the keys that it made, and gives it '
  'a new personal workspace; does nothing while its only workspace is as it was made. For definers; not granted to a role.';

comment on function private.require_password_replacement(uuid, uuid) is
  'Restricts a session to the replacement of its account''s password, until that is changed. Also '
  'removes the rows of sessions that have ended.';

comment on function private.start_over() is
  'Gives an account at the first confirmation of its email what a new account has, and removes what was added before: '
  'profile, sessions, passkeys, authenticators, identities that prove nothing, app sessions, workspaces and keys.';

grant execute on function private.email_of_link(text, text) to service_role;

grant execute on function private.require_password_replacement(uuid, uuid) to service_role;
