-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

drop function ai.admit_call(ai.priced_call);

drop function ai.begin_calls(jsonb);

drop function ai.begin_run_0_1(jsonb);

drop function ai.begin_runs_0_1(jsonb);

drop function ai.billing_provider(ai.usage_daily);

drop function ai.budget_scopes(uuid, uuid, uuid);

drop function ai.budget_subject(text, uuid, uuid, uuid);

drop function ai.call_limits(ai.caller, ai.rate_window_use, ai.rate_window_use);

drop function ai.change_budget(uuid, uuid, text, uuid, text, text);

drop function ai.check_app_caller_0_1(jsonb);

drop function ai.check_credential_0_1(jsonb);

drop function ai.collect_locks(ai.priced_call[]);

drop function ai.complete_idempotency_keys(ai.closed_run[]);

drop function ai.compute_settlement(ai.run_outcome, ai.runs, timestamp with time zone);

drop function ai.consume_rate_limit(text, uuid, integer, bigint, bigint, integer);

drop function ai.cost_comparison_page(uuid, timestamp with time zone, timestamp with time zone, text, text, integer);

drop function ai.create_key(uuid, uuid, text, text, bytea, text, text[], integer, bigint, numeric, timestamp with time zone);

drop function ai.describe_credential_0_1(jsonb);

drop function ai.exceeds_caller_timeout();

drop function ai.extend_run_0_1(jsonb);

drop function ai.find_caller(ai.run_request);

drop function ai.find_offer(ai.run_request, ai.caller, ai.priced_call);

drop function ai.grant_credits(text, uuid, numeric, text);

drop function ai.import_provider_costs_0_1(jsonb);

drop function ai.import_provider_invoice_0_1(jsonb);

drop function ai.invoice_counts_on(ai.external_provider_invoices);

drop function ai.invoice_differences(ai.external_provider_invoices, jsonb);

drop function ai.invoice_matches(ai.external_provider_invoices, jsonb);

drop function ai.invoice_recorder(ai.external_provider_invoices);

drop function ai.invoice_summary(ai.external_provider_invoices);

drop function ai.key_caller(bytea, inet);

drop function ai.key_cost_since(ai.caller, timestamp with time zone);

drop function ai.key_issue_permission(uuid, uuid);

drop function ai.key_summary(ai.keys);

drop function ai.limit_refusal(text, text);

drop function ai.linked_apps(uuid);

drop function ai.list_models_0_1(jsonb);

drop function ai.list_provider_costs(uuid, uuid, timestamp with time zone, timestamp with time zone, jsonb, integer, jsonb, boolean);

drop function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb);

drop function ai.list_runs(uuid, uuid, jsonb, jsonb, integer);

drop function ai.lock_outcomes(jsonb);

drop function ai.lock_runs(jsonb);

drop function ai.maximum_cost_usd(jsonb, ai.token_use, text, boolean);

drop function ai.maximum_use(ai.run_request);

drop function ai.model_listing(ai.models, jsonb);

drop function ai.open_missing_accounts(ai.priced_call[]);

drop function ai.price_call(ai.run_request, ai.priced_call);

drop function ai.provider_costs_page(uuid, timestamp with time zone, timestamp with time zone, jsonb, integer, jsonb, boolean);

drop function ai.provider_invoices_page(uuid, jsonb, integer, jsonb);

drop function ai.read_budgets(uuid, uuid, text[], integer);

drop function ai.read_credits(uuid, uuid, timestamp with time zone, timestamp with time zone, bigint, integer);

drop function ai.rebuild_changed_usage_days(integer);

drop function ai.reconcile_costs(uuid, uuid, timestamp with time zone, timestamp with time zone, text[], integer);

drop function ai.reconciliation_page(uuid, timestamp with time zone, timestamp with time zone, text[], integer);

drop function ai.record_invoice_activity(uuid, uuid, uuid, jsonb);

drop function ai.record_key_use(ai.caller);

drop function ai.record_provider_invoice(uuid, uuid, uuid, jsonb);

drop function ai.release_orphaned_runs_0_1(jsonb);

drop function ai.report_usage_0_1(jsonb);

drop function ai.reserve_budget(text, uuid, uuid, numeric);

drop function ai.reserve_limits(ai.caller, bigint, integer, numeric, uuid, numeric);

drop function ai.seal_completed_usage_days(integer);

drop function ai.set_budget(text, uuid, uuid, numeric);

drop function ai.settle_batch(ai.run_report[], timestamp with time zone);

drop function ai.settle_budgets(ai.closed_run[]);

drop function ai.settle_credits(ai.closed_run[]);

drop function ai.settle_runs_0_1(jsonb);

drop function ai.usage_between(uuid, timestamp with time zone, timestamp with time zone);

drop function ai.usage_by_key(uuid, timestamp with time zone, timestamp with time zone, text, integer, boolean);

drop function ai.user_caller(ai.credential, text);

drop function ai.user_cost_since(ai.caller, timestamp with time zone);

drop function private.account_sessions(uuid);

drop function private.app_can_act_in_workspace(private.apps, uuid);

drop function private.clear_recovery_sent_at(uuid);

drop function private.delete_expired_attempts();

drop function private.export_account(uuid);

drop function private.export_account_proper(uuid);

drop function private.find_recovery_link_email(bytea);

drop function private.list_apps();

drop function private.list_catalogue_models();

drop function private.list_workspaces_by_app_session(bytea);

drop function private.notify_owner(jsonb, jsonb);

drop function private.read_app(text);

drop function private.recovery_code_salt(text);

drop function private.sweep_app_credentials();

drop function private.sweep_login_challenges();

drop function private.sweep_oauth_attempts();

drop function private.sweep_recoveries();

drop function ai.reconciled_costs(uuid, timestamp with time zone, timestamp with time zone);

drop function ai.provider_costs_in_totals(uuid, timestamp with time zone, timestamp with time zone);

drop function ai.invoice_comparison(uuid, jsonb, uuid);

drop function ai.store_provider_invoice(uuid, uuid, jsonb);

drop function ai.session_caller(jsonb, uuid);

drop function ai.lock_rows(ai.lock_list);

drop function ai.priced_routes(text, text[]);

drop function private.list_passkeys(uuid);

drop function ai.budget_subjects(uuid, boolean);

-- Counts an attempt before it is made. Takes { action, address, email | userId, challenged, allowOverride, mail,
-- code }. Returns { allowed, attemptId, needsBotChallenge, overrideId, repeated, mailWaitSeconds, mailPauseSeconds }
-- or { allowed: false, reason: limited | blocked, retryAfterSeconds }. A caller that receives no answer must not make
-- the attempt. challenged is true if the attempt carries a bot challenge's token, which the identity backend checks
-- first. allowOverride is true if the email's recovery override applies: the limits of override_password then replace
-- the email's own limits, but the address's limits still apply. overrideId is that override, or null. mail is the kind
-- of email that the attempt sends. If mailWaitSeconds is not null, the email must not be sent, because another email of
-- its kind is being sent or has a link that is too recent to be replaced. code is the mailed code that is tried; only
-- its digest is stored. If repeated is true, the code was tried before and must not be tried again.
-- Definer: every role, even the service role, may change buckets only through begin_attempt and complete_attempt.
create or replace function private.begin_attempt(attempt jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  of_action text := attempt ->> 'action';
  network cidr := private.address_network((attempt ->> 'address')::inet);
  account text := case
    when attempt ->> 'email' is not null then 'email:' || lower(attempt ->> 'email')
    when attempt ->> 'userId' is not null then 'user:' || (attempt ->> 'userId')::uuid
  end;
  challenged boolean := coalesce((attempt ->> 'challenged')::boolean, false);
  override_id uuid;
  overridden boolean;
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
    'password', 'code', 'sign_in_code', 'mail', 'sign_up', 'passkey', 'oauth', 'credential', 'app_secret', 'handoff',
    'user_code', 'client_registration', 'client_document'
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

  if (attempt ->> 'allowOverride')::boolean then
    override_id := private.active_login_override(attempt ->> 'email');
  end if;
  -- Until 0.3.0: servers of release 0.1.0 look up the override themselves and pass overridden.
  overridden := override_id is not null or coalesce((attempt ->> 'overridden')::boolean, false);
  proven := exists (select from private.verified_addresses p where p.pair = account_pair and p.verified_until > now());
  if mail is not null then
    mail_wait := private.mail_wait(mail, lower(attempt ->> 'email'), (attempt ->> 'userId')::uuid);
  end if;
  -- All callers take buckets in the same order, which prevents deadlocks.
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
    -- Under a recovery override, the server may lift a block and then check the password a second time.
    case when of_action in ('password', 'sign_up') then 1 + overridden::integer else 0 end
  )
  returning id into new_id;
  return jsonb_build_object(
    'allowed', true,
    'attemptId', new_id,
    'needsBotChallenge', challenge_due,
    'overrideId', override_id,
    'repeated', repeated,
    'mailWaitSeconds', ceil(extract(epoch from mail_wait))::integer,
    'mailPauseSeconds', extract(epoch from private.mail_pause())::integer
  );
end
$$;

-- Records the outcome of an attempt: succeeded, failed, or void if the attempt was not made. Refunds void attempts and
-- successful sign-ins. A successful sign-in also deletes the account's failures from this address. Other successful
-- attempts stay counted. A failed attempt counts against the address. Returns false if the outcome was already recorded
-- or the attempt is too old.
-- Definer: every role, even the service role, may change buckets only through begin_attempt and complete_attempt.
create or replace function private.complete_attempt(attempt_id uuid, outcome text) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  settled private.open_attempts;
begin
  if outcome is null or outcome not in ('succeeded', 'failed', 'void') then
    raise exception 'an attempt is succeeded, failed or void' using errcode = 'invalid_parameter_value';
  end if;
  -- Only the caller that deletes the row settles the attempt, so it is settled only once.
  delete from private.open_attempts o where o.id = attempt_id and o.expires_at > now() returning * into settled;
  if not found then
    return false;
  end if;
  if outcome = 'void' then
    perform private.refund_attempts(settled.charged);
  elsif outcome = 'failed' then
    perform private.count_failure(settled.action, settled.address);
  elsif settled.action in ('password', 'code', 'sign_in_code', 'passkey') then
    -- Refunds one attempt in each bucket and keeps the address's other attempts. Otherwise a person could attack other
    -- accounts and reset the count by signing in to their own account.
    perform private.refund_attempts(settled.charged);
    delete from private.rate_limits r where r.subject = any (settled.charged) and r.scope = 'pair';
    if settled.pair is not null then
      perform private.record_verified_address(settled.pair);
    end if;
  end if;
  return true;
end
$$;

-- Deletes up to at_most rows of each kind: full buckets, expired attempts, expired verified addresses, expired review
-- drafts, and blocks that ended a month ago. Returns how many rows it deleted; 0 while another deletion runs.
create or replace function private.delete_expired_attempts(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  cleared integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.delete_expired_attempts', 0)) then
    return 0;
  end if;
  -- Skips rows locked by an attempt; the next run deletes them.
  cleared := cleared + private.delete_expired_rows('private.rate_limits', 'full_at', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.open_attempts', 'expires_at', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.verified_addresses', 'verified_until', '0', at_most);
  cleared := cleared + private.delete_expired_rows('private.review_drafts', 'expires_at', '0', at_most);
  -- Ended blocks are kept for a month, to explain to people why they could not sign in.
  return cleared + private.delete_expired_rows('private.address_blocks', 'blocked_until', '30 days', at_most);
end
$$;

-- Hook that the identity backend calls after each check of a second factor, with { metadata, user_id, factor_id,
-- factor_type, valid }. A rejection ends all of the user's sessions, so the hook rejects only after ten failures of the
-- user's account in 15 minutes, counted across all addresses. For an addition that the database would refuse, returns an
-- error instead, which Supabase Auth passes on with its status and without ending a session
-- (internal/hooks/hookserrors of github.com/supabase/auth).
-- Definer: Supabase Auth's role may call the hook, but may not read our tables.
create or replace function private.mfa_verification_attempt(event jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account text := 'user:' || (event ->> 'user_id')::uuid;
  valid boolean := (event ->> 'valid')::boolean;
  bucket record;
begin
  if account is null or valid is null then
    raise exception 'the hook needs user_id and valid' using errcode = 'invalid_parameter_value';
  end if;
  select * into strict bucket from private.attempt_buckets('direct_code', account, null);
  if valid then
    if private.is_bucket_empty(bucket.subject, bucket.step, bucket.per) then
      return private.hook_rejection();
    end if;
  elsif private.consume_attempt(bucket.subject, 'direct_code', bucket.scope, bucket.step, bucket.per) is not null then
    return private.hook_rejection();
  end if;
  if valid and private.is_refused_authenticator((event ->> 'user_id')::uuid, (event ->> 'factor_id')::uuid) then
    return jsonb_build_object('error', jsonb_build_object(
      'http_code', 403, 'message', 'This account accepts additions only on its security page.'
    ));
  end if;
  return '{"decision": "continue"}';
end
$$;

-- Returns whether private.record_authenticator_added would refuse to verify a factor that an app enrolled.
create or replace function private.is_refused_authenticator(subject_id uuid, factor_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
      select from auth.mfa_factors f
      where f.id = is_refused_authenticator.factor_id and f.user_id = subject_id and f.status <> 'verified'
    )
    and exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
    and not exists (
      select from private.announced_additions a
      where a.target = is_refused_authenticator.factor_id::text and a.user_id = subject_id and a.expires_at > now()
    )
$$;

-- Returns the network of the address in a hook's event; null if the backend passes no valid address.
create or replace function private.hook_network(event jsonb) returns cidr
  language sql stable security invoker set search_path = ''
as $$
  select private.address_network((case when pg_input_is_valid(a.text, 'inet') then a.text end)::inet)
  from (select event #>> '{metadata,ip_address}' as text) as a
$$;

-- Returns the limits on attempts: how many attempts are allowed per window, and what happens when none is left.
-- Every number of the abuse controls, with its reason. `address`: all attempts from one address. `pair`: one account
-- from one address. `account`: one account from any address. What happens when a bucket is empty:
-- - refuse: 429, with the time until the next attempt
-- - challenge: requires a bot challenge; without one the attempt is slowed down, never refused
-- - refuse_new: 429, unless the attempt carries a bot challenge or the address is verified for this account
-- - wait: sends no email, but gives the same answer
-- - repeat: does not try a code a second time, and answers as for a wrong code
create or replace function private.attempt_limits()
  returns table (action text, scope text, attempts integer, per interval, when_empty text)
  language sql immutable security invoker set search_path = ''
as $$
  values
    -- Enough for an office behind one address to sign in within minutes, including typing errors. Successes are
    -- refunded.
    ('password', 'address', 60, interval '10 minutes', 'refuse'),
    -- Ten attempts let a person try every password that they may have chosen. The bucket then refills at 40 an hour.
    ('password', 'pair', 10, interval '15 minutes', 'refuse'),
    -- Slows attacks on one account from many addresses. A challenge still lets the owner sign in from anywhere.
    ('password', 'account', 20, interval '1 hour', 'challenge'),
    -- Beyond this limit, an attempt needs a bot challenge, or an address that the account recently signed in from. NIST
    -- SP 800-63B allows 100 failures in a row.
    ('password', 'account_cap', 100, interval '1 hour', 'refuse_new'),

    ('code', 'address', 60, interval '10 minutes', 'refuse'),
    -- A code has six digits, and three codes are valid at any time. Allows five guesses, then twenty an hour.
    ('code', 'pair', 5, interval '15 minutes', 'refuse'),
    -- Only a person who knows the password is asked for a code. The limit is lower than the limit of the backend's
    -- hook, because a rejection by the hook ends all of the user's sessions.
    ('code', 'account', 8, interval '15 minutes', 'refuse'),

    -- Mailed sign-in codes. They have no account_cap, because strangers could use it to lock the owner out. No cap is
    -- needed: the code has ten digits.
    ('sign_in_code', 'address', 60, interval '10 minutes', 'refuse'),
    ('sign_in_code', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_in_code', 'account', 20, interval '1 hour', 'challenge'),
    -- One attempt per code and account. Otherwise the identity backend would start a session for each concurrent
    -- request that uses the same code.
    ('redemption', 'account', 1, interval '1 hour', 'repeat'),

    -- Every email affects our reputation as a sender. The limit lets a class of thirty sign up in one lesson.
    ('mail', 'address', 30, interval '1 hour', 'refuse'),
    ('mail', 'pair', 5, interval '15 minutes', 'refuse'),
    ('mail', 'account', 10, interval '1 hour', 'challenge'),
    -- Strangers must not be able to flood a mailbox.
    ('mail', 'account_cap', 30, interval '1 hour', 'refuse_new'),
    ('sign_up', 'address', 30, interval '1 hour', 'refuse'),
    ('sign_up', 'pair', 5, interval '15 minutes', 'refuse'),
    ('sign_up', 'account', 10, interval '1 hour', 'challenge'),
    ('sign_up', 'account_cap', 30, interval '1 hour', 'refuse_new'),

    -- Allows one email of each kind at a time. The identity backend records an email only after its mail server has
    -- accepted it, which can take seconds. A second request during that time would replace the link in the first email.
    ('sign_up_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('confirmation_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('recovery_mail', 'account', 1, interval '30 seconds', 'wait'),
    ('email_change_mail', 'account', 1, interval '30 seconds', 'wait'),

    -- Per inviter, across workspaces: enough for a team, but not for bulk email to strangers.
    ('invitation', 'account', 10, interval '10 minutes', 'refuse'),
    ('invitation', 'account_cap', 50, interval '1 day', 'refuse'),

    -- Passkeys can't be guessed. This limits the load on the identity backend.
    ('passkey', 'address', 60, interval '10 minutes', 'refuse'),
    -- Every visit to an OAuth provider counts when it begins, even if the sign-in then succeeds.
    ('oauth', 'address', 120, interval '10 minutes', 'refuse'),
    -- A signed-in person's changes of password or email address. Each hashes a password or sends an email.
    ('credential', 'address', 60, interval '10 minutes', 'refuse'),
    ('credential', 'pair', 20, interval '1 hour', 'refuse'),

    -- Under a recovery override, these limits replace the limits on passwords per email. Guesses made before the
    -- override do not count, but later guesses stay limited.
    ('override_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('override_password', 'account', 100, interval '1 hour', 'refuse'),

    -- Wrong app secrets. A 256-bit secret can't be guessed, so this only limits the load on the database.
    ('app_secret', 'address', 60, interval '10 minutes', 'refuse'),
    -- Sign-ins to apps. Each adds a row that is kept for a day.
    ('handoff', 'account', 120, interval '10 minutes', 'refuse'),

    -- Clients that register themselves, and metadata documents that we fetch for a signed-in person. Each adds rows.
    ('client_registration', 'address', 20, interval '1 hour', 'refuse'),
    ('client_document', 'address', 60, interval '10 minutes', 'refuse'),
    ('client_document', 'account', 30, interval '10 minutes', 'refuse'),
    -- Authorization requests that are kept for ten minutes: from browsers and public clients by address, enough for an
    -- office whose people all sign in; pushed by a client with a secret by client, ten a second.
    ('authorization_request', 'address', 300, interval '10 minutes', 'refuse'),
    ('authorization_request', 'account', 6000, interval '10 minutes', 'refuse'),

    -- A device's requests for a user code (RFC 8628). Each adds a row that is kept for a day.
    ('device_authorization', 'address', 60, interval '10 minutes', 'refuse'),
    -- User codes have 34 bits and live for 10 minutes (RFC 8628 section 5.1). A correct code does not use up an
    -- attempt.
    ('user_code', 'address', 30, interval '10 minutes', 'refuse'),
    ('user_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Direct calls to the identity backend, past our routes. Only failures count.
    ('direct_password', 'pair', 10, interval '15 minutes', 'refuse'),
    ('direct_password', 'account', 30, interval '1 hour', 'refuse_new'),
    -- The backend ends all of the user's sessions when this bucket is empty, which must happen only under attack
    -- (docs/abuse.md).
    ('direct_code', 'account', 10, interval '15 minutes', 'refuse'),

    -- Failures of any kind, and attempts made despite a refusal. The address is blocked when this bucket is empty.
    ('failure', 'address', 100, interval '1 hour', 'block')
$$;

-- Returns the id of the event that recorded the sign-in of a session; null if there is none. For definers; not granted
-- to any role.
create or replace function private.sign_in_event(subject_id uuid, signed_in_id uuid) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select v.id
  from public.security_events v
  where v.user_id = subject_id and v.session_id = signed_in_id and v.kind = 'sign_in'
  order by v.created_at desc, v.id
  limit 1
$$;

-- Removes the entries that the owner chose from the list of private.account_access, ends the sessions that depend on
-- these entries, and confirms the rest of the list, in one transaction. removals is { listedAt, listed: [key], remove:
-- [key], sessions: [key] }. listed contains the keys that the owner saw at listedAt, and sessions the keys of the
-- listed sessions. In remove, other_sessions means the sessions that existed at listedAt but were not listed. Returns {
-- outcome: confirmed, removed: [way], endedSessions: [{ id, device, userAgent }] }. Every other outcome changes
-- nothing: last_method (no usable way to sign in would remain), last_of_required (the account must have an
-- authenticator), insufficient_aal (the session has yet to prove an authenticator) or not_found. Never ends the calling
-- session.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.confirm_access(
  subject_id uuid,
  actor_session_id uuid,
  removals jsonb,
  usable_providers text[]
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  access jsonb;
  removed jsonb;
  passwords boolean;
  methods uuid[];
  authenticators uuid[];
  methods_removed boolean;
  confirmed_ids uuid[];
  ended_sessions jsonb;
begin
  -- Serializes changes to an account's credentials, so that each one sees the result of the one before.
  select u.* into account from auth.users u where u.id = subject_id and u.deleted_at is null for no key update;
  if not found or not exists (select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id) then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if not private.may_change_access(subject_id, actor_session_id) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;

  access := private.account_access(subject_id, actor_session_id);
  -- Keys of other accounts, and of deleted entries, match nothing.
  select
    coalesce(jsonb_agg(w), '[]'),
    coalesce(bool_or(w ->> 'kind' = 'password'), false),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' in ('identity', 'passkey')), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'authenticator'), '{}'),
    coalesce(bool_or(w ->> 'kind' in ('password', 'identity', 'passkey')), false)
  into removed, passwords, methods, authenticators, methods_removed
  from jsonb_array_elements(access -> 'ways') as w
  where w ->> 'key' <> 'session:' || actor_session_id
    and (
      removals -> 'remove' ? (w ->> 'key')
      or removals -> 'remove' ? 'other_sessions'
        and w ->> 'kind' = 'session'
        and (w ->> 'addedAt')::timestamptz <= (removals ->> 'listedAt')::timestamptz
        and not coalesce(removals -> 'sessions' ? (w ->> 'key'), false)
    );

  select coalesce(array_agg((w ->> 'id')::uuid), '{}')
  into confirmed_ids
  from jsonb_array_elements(access -> 'ways') as w
  where (w ->> 'unconfirmed')::boolean
    and removals -> 'listed' ? (w ->> 'key')
    and not removals -> 'remove' ? (w ->> 'key');

  if methods_removed
    and private.count_sign_in_methods(
      subject_id, usable_providers, without => methods, without_password => passwords, confirming => confirmed_ids
    ) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;
  if authenticators <> '{}'
    and private.required_mfa_state(account.raw_app_meta_data) <> 'optional'
    and not exists (
      select from auth.mfa_factors f
      where f.user_id = subject_id and f.status = 'verified' and f.id <> all (authenticators)
    ) then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  ended_sessions := private.end_dependent_sessions(subject_id, actor_session_id, removed);
  perform private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.is_active
      and c.kind <> 'session'
      and c.listed_as in (select w ->> 'key' from jsonb_array_elements(removed) as w)
  ));
  delete from private.openid_consents c
  using private.apps a
  where c.user_id = subject_id
    and a.id = c.app_id
    and 'app:' || a.name in (select w ->> 'key' from jsonb_array_elements(removed) as w);
  -- Triggers record the removed identities, passkeys and authenticators.
  perform private.add_account_event(
    subject_id, 'app_disconnected', session_id => actor_session_id, details => jsonb_build_object('app', w -> 'name')
  )
  from jsonb_array_elements(removed) as w
  where w ->> 'kind' in ('app', 'device', 'agent');
  if passwords then
    perform private.add_account_event(subject_id, 'password_removed', session_id => actor_session_id);
  end if;
  if ended_sessions <> '[]' then
    perform private.add_account_event(subject_id, 'session_revoked', session_id => actor_session_id);
  end if;

  -- Records the time at which the owner saw the list. Entries added after that time stay new.
  insert into private.access_confirmations as c (user_id, confirmed_at, confirmed_by_mail_at)
  select subject_id, l.seen_at, case when private.began_by_mail(subject_id, actor_session_id) then l.seen_at end
  from (select least((removals ->> 'listedAt')::timestamptz, now()) as seen_at) l
  on conflict (user_id) do update
  set confirmed_at = greatest(c.confirmed_at, excluded.confirmed_at),
      confirmed_by_mail_at = greatest(c.confirmed_by_mail_at, excluded.confirmed_by_mail_at);
  perform private.add_account_event(subject_id, 'access_confirmed', session_id => actor_session_id);
  delete from private.unconfirmed_additions n where n.user_id = subject_id and n.target_id = any (confirmed_ids);
  return jsonb_build_object('outcome', 'confirmed', 'removed', removed, 'endedSessions', ended_sessions);
end
$$;

-- Returns whether a session began with a password reset or recovery, which proves access to the account's mailbox. For
-- definers; not granted to any role.
create or replace function private.began_by_mail(subject_id uuid, actor_session_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from public.security_events v
    where v.user_id = subject_id
      and v.session_id = actor_session_id
      and v.kind = 'sign_in'
      and v.method in ('password_reset', 'recovery')
  )
$$;

-- Ends the sessions that the owner removed from the list of private.account_access, and the sessions that signed in
-- with a removed method. Returns [{ id, device, userAgent }] of the ended sessions. Not granted to any role, so only
-- security definer functions can call it.
create or replace function private.end_dependent_sessions(subject_id uuid, kept_session_id uuid, removed jsonb)
  returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  ended_sessions jsonb;
  others_left boolean;
begin
  -- Supabase Auth does not record which passkey or provider account a session signed in with, so all sessions of that
  -- method are signed out.
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', s.id, 'device', e.device, 'userAgent', s.user_agent
  )), '[]')
  into ended_sessions
  from auth.sessions s
  left join public.security_events e on e.id = private.sign_in_event(subject_id, s.id)
  where s.user_id = subject_id
    and s.id <> kept_session_id
    and exists (
      select
      from jsonb_array_elements(removed) as w
      where case w ->> 'kind'
        when 'session' then w ->> 'id' = s.id::text
        when 'authenticator' then w ->> 'id' = s.factor_id::text
        -- Sign-ins on our pages record the provider. A sign-in recorded without a provider may have used any, so its
        -- session is ended too.
        when 'identity' then private.session_used_method(s.id, 'oauth')
          and coalesce(e.method not like 'oauth:%' or e.method = 'oauth:' || (w ->> 'provider'), true)
        when 'passkey' then private.session_used_method(s.id, 'passkey')
        when 'password' then private.session_used_method(s.id, 'password')
        else false
      end
    );
  perform private.end_account_session(subject_id, (x ->> 'id')::uuid) from jsonb_array_elements(ended_sessions) as x;
  return ended_sessions;
end
$$;

-- Returns whether a session signed in with the given method of Supabase Auth. Not granted to any role, so only security
-- definer functions can call it.
create or replace function private.session_used_method(target_id uuid, method text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from auth.mfa_amr_claims c
    where c.session_id = target_id and c.authentication_method = session_used_method.method
  )
$$;

-- Ends all of a person's credentials at an app, including outstanding handoffs, and adds the event to the account's log
-- (private.record_security_event). Returns disconnected, over or not_found. over means that no credential was left to
-- end. not_found means that the app never held a credential of this person, or is not an app.
-- Definer: lets callers end gateway tokens without access to the gateway's tables.
create or replace function private.disconnect_app(subject_id uuid, app_name text, event jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.apps_ever_connected(subject_id) a where a.name = disconnect_app.app_name;
  if not found then
    return 'not_found';
  end if;
  if private.end_app_of_account(subject_id, app.id) = 0 then
    return 'over';
  end if;
  perform private.record_security_event(
    event || jsonb_build_object('userId', subject_id, 'details', jsonb_build_object('app', app.display_name))
  );
  return 'disconnected';
end
$$;

-- Returns the apps that hold or held a person's credentials. Ended credentials count until they are deleted. For
-- definers; not granted to any role.
create or replace function private.apps_ever_connected(subject_id uuid) returns setof private.apps
  language sql stable security invoker set search_path = ''
as $$
  select a.*
  from private.apps a
  where exists (select from private.app_sessions s where s.app_id = a.id and s.user_id = subject_id)
    or exists (select from ai.app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.cross_app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.openid_grants g where g.app_id = a.id and g.user_id = subject_id)
    or exists (select from private.authorization_codes c where c.app_id = a.id and c.user_id = subject_id)
    or exists (select from private.device_authorizations d where d.app_id = a.id and d.user_id = subject_id)
    or exists (select from private.openid_consents c where c.app_id = a.id and c.user_id = subject_id)
$$;

-- Returns the credentials that are in Supabase Auth's tables or end with a row there, as account_credentials lists them.
-- A function, because a view that depends on these tables would fail Supabase Auth's own migrations. It sets no search
-- path, so that Postgres inlines it and a lookup by user_id uses indexes.
create or replace function private.auth_credentials() returns table (
  user_id uuid, kind text, id uuid, listed_as text, is_method boolean, app_id uuid, source_id uuid, session_id uuid,
  proof private.mfa_proof, name text, provider text, created_at timestamptz, added_at timestamptz,
  last_used_at timestamptz, ends_at timestamptz, is_active boolean, record jsonb
)
  language sql stable security invoker
as $$
select
  u.id as user_id,
  'password' as kind,
  u.id as id,
  'password' as listed_as,
  true as is_method,
  null::uuid as app_id,
  null::uuid as source_id,
  null::uuid as session_id,
  null::private.mfa_proof as proof,
  null::text as name,
  null::text as provider,
  u.created_at,
  u.created_at as added_at,
  null::timestamptz as last_used_at,
  null::timestamptz as ends_at,
  u.email_confirmed_at is not null as is_active,
  '{}'::jsonb as record
from auth.users u
where coalesce(u.encrypted_password, '') <> ''

union all
select
  i.user_id, 'identity', i.id, 'identity:' || i.id, true, null, null, null, null, i.email::text, i.provider::text,
  i.created_at, i.created_at, i.last_sign_in_at, null,
  -- Our pages are still linking it.
  not exists (select from private.unconfirmed_identities n where n.identity_id = i.id),
  jsonb_build_object(
    'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
  )
from auth.identities i

union all
select
  p.user_id, 'passkey', p.id, 'passkey:' || p.id, true, null, null, null, null, nullif(p.friendly_name::text, ''),
  p.aaguid::text, p.created_at, p.created_at, p.last_used_at, null, true,
  jsonb_build_object(
    'id', p.id, 'name', p.friendly_name, 'createdAt', p.created_at, 'lastUsedAt', p.last_used_at
  )
from auth.webauthn_credentials p

union all
select
  f.user_id, 'authenticator', f.id, 'authenticator:' || f.id, true, null, null, null, null,
  nullif(f.friendly_name::text, ''), null, f.created_at, f.created_at, f.last_challenged_at, null, f.status = 'verified',
  jsonb_build_object(
    'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
  )
from auth.mfa_factors f

union all
select
  u.id, 'recovery_mail', r.id, 'recovery_mail:' || r.id, true, null, null, null, null, null, null, r.created_at,
  r.created_at, null, r.expires_at, r.consumed_at is null and r.superseded_at is null, '{}'
from auth.users u
join private.recovery_credentials r on r.email = lower(u.email)

union all
select
  s.user_id, 'session', s.id, 'session:' || s.id, false, null, null, s.id, null, null, null, s.created_at,
  s.created_at, greatest(s.created_at, s.refreshed_at at time zone 'UTC'), s.not_after, true,
  jsonb_build_object(
    'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
    'userAgent', s.user_agent, 'aal', s.aal
  )
from auth.sessions s

union all
select
  c.user_id, 'phone_approval', c.id, 'phone_approval:' || c.id, false, null, null, c.session_id, null,
  c.approval_metadata -> 'device' ->> 'name', null, c.created_at, coalesce(c.approved_at, c.created_at), null,
  coalesce(c.valid_until, c.expires_at),
  c.status in ('approved', 'consuming', 'bound')
    and exists (select from auth.sessions s where s.id = c.session_id and s.user_id = c.user_id)
    and (
      c.approver_factor_id is null
      or exists (select from auth.mfa_factors f where f.id = c.approver_factor_id and f.status = 'verified')
    ),
  jsonb_build_object(
    'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
    'approvedAt', c.approved_at
  )
from private.login_challenges c
$$;

-- Returns the workspaces that have other members but no other owner than this account. Each workspace needs another
-- owner before the account may be deleted.
create or replace function private.list_account_deletion_blockers(subject_id uuid)
  returns table (workspace_id uuid, name text, members integer)
  language sql stable security invoker set search_path = ''
as $$
  select w.id, w.name, (select count(*)::integer from public.workspace_members m where m.workspace_id = w.id)
  from public.workspace_members membership
  join public.workspace_roles r on r.id = membership.role_id and r.is_owner
  join public.workspaces w on w.id = membership.workspace_id and w.deleted_at is null
  where membership.user_id = subject_id
    and exists (
      select from public.workspace_members other
      where other.workspace_id = w.id and other.user_id <> subject_id
    )
    and not exists (
      select
      from public.workspace_members other
      join public.workspace_roles other_role on other_role.id = other.role_id
      where other.workspace_id = w.id and other.user_id <> subject_id and other_role.is_owner
    )
  order by w.name, w.id
$$;

-- Revokes all app credentials of a user permanently. Lifting a ban does not restore them.
-- Definer: the identity backend changes its users, but has no rights in this schema.
create or replace function private.revoke_user_app_credentials() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.is_new_password(old.encrypted_password, new.encrypted_password)
    and old.banned_until is not distinct from new.banned_until
    and old.deleted_at is not distinct from new.deleted_at then
    return null;
  end if;
  perform private.end_apps_of_account(new.id);
  return null;
end
$$;

-- Ends credentials of an account by their keys in private.account_credentials, and those that were derived from them in
-- the meantime. Returns how many ended, without ways to sign in. Keys of other accounts match nothing. Call private.lock_app_credentials before
-- reading the keys. For definers; not granted to any role.
create or replace function private.end_credentials(subject_id uuid, keys text[]) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account auth.users;
  part integer;
  ended_count integer;
begin
  select * into account from auth.users u where u.id = subject_id for no key update;
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended_count
  from (
    select a.id from auth.sessions a where a.user_id = subject_id and 'session:' || a.id = any (keys) order by a.id
  ) as s;
  update private.login_challenges c
  set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
  where c.user_id = subject_id and 'phone_approval:' || c.id = any (keys) and c.status <> 'rejected';
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  -- Revokes handoff tokens before the credentials derived from them. This update waits for a redemption in progress,
  -- and the later updates also revoke the credentials that the redemption created.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and 'app_handoff:' || t.id = any (keys) and t.revoked_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id
    and s.revoked_at is null
    and ('app_session:' || s.id = any (keys) or 'app_handoff:' || s.handoff_id = any (keys));
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.revoked_at is null
    and ('app_token:' || t.id = any (keys) or 'app_handoff:' || t.family_id = any (keys));
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update private.authorization_codes c
  set revoked_at = now()
  where c.user_id = subject_id and 'openid_code:' || c.id = any (keys) and c.revoked_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  delete from private.device_authorizations d
  where d.user_id = subject_id and 'device_request:' || d.id = any (keys) and d.redeemed_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  update private.openid_grants g
  set revoked_at = now()
  where g.user_id = subject_id and 'openid_login:' || g.id = any (keys) and g.revoked_at is null;
  get diagnostics part = row_count;
  ended_count := ended_count + part;
  select ended_count + count(*) filter (where ai.end_connection(c.id, subject_id))
  into ended_count
  from ai.agent_connections c
  where c.user_id = subject_id and 'agent_connection:' || c.id = any (keys);
  update private.recovery_credentials r
  set superseded_at = now()
  where r.email = lower(account.email)
    and 'recovery_mail:' || r.id = any (keys)
    and r.consumed_at is null
    and r.superseded_at is null;

  if exists (select from unnest(keys) as k (key) where k.key like 'identity:%') then
    perform private.keep_email_identity(account);
  end if;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = subject_id and 'identity:' || i.id = any (keys);
  perform private.delete_auth_passkey(p.id)
  from auth.webauthn_credentials p
  where p.user_id = subject_id and 'passkey:' || p.id = any (keys);
  perform private.delete_auth_factor(subject_id, f.id)
  from auth.mfa_factors f
  where f.user_id = subject_id and 'authenticator:' || f.id = any (keys);
  -- Without an authenticator, its recovery codes are of no use.
  delete from private.mfa_recovery_codes c
  where c.user_id = subject_id
    and (
      'recovery_code:' || c.id = any (keys)
      or not exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
        and exists (select from unnest(keys) as k (key) where k.key like 'authenticator:%')
    );
  if 'password:' || subject_id = any (keys) then
    perform private.remove_password(subject_id);
  end if;
  return ended_count;
end
$$;

-- Revokes everything that apps hold for a user: sessions, tokens, OpenID logins, and handoffs, codes and approvals that
-- are not redeemed yet. Consents remain. For definers; not granted to any role.
create or replace function private.end_apps_of_account(subject_id uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  perform private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id and c.app_id is not null and c.is_active
  ));
end
$$;

-- Revokes everything that one app holds for a user: sessions, tokens, OpenID logins, the consent, and handoffs, codes
-- and approvals that are not redeemed yet. Returns how many it revoked. For definers; not granted to any role.
create or replace function private.end_app_of_account(subject_id uuid, target_app_id uuid) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  consents integer;
begin
  perform private.lock_app_credentials(subject_id);
  delete from private.openid_consents c where c.user_id = subject_id and c.app_id = target_app_id;
  get diagnostics consents = row_count;
  return consents + private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.app_id = target_app_id
      and c.is_active
      -- A redemption that began before the expiry may still be in progress.
      and c.ends_at > now() - interval '1 minute'
  ));
end
$$;

-- Signs an account out: ends every session, app, device login and agent connection, and approvals that are not redeemed
-- yet. Keeps ways to sign in. Returns how many credentials ended. For definers; not granted to any role.
create or replace function private.end_all_access(subject_id uuid) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  return private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id and c.is_active and not c.is_method
  ));
end
$$;

-- Signs an account out of every device, app and agent, records the event, and notifies the owner. Returns how many
-- credentials ended. Concurrent calls record only one event.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_out_everywhere(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended_count integer := private.end_all_access(subject_id);
begin
  perform private.add_account_event(subject_id, 'all_sessions_revoked', session_id => actor_session_id)
  where ended_count > 0;
  return ended_count;
end
$$;

-- Ends every session of an account except the calling one, and every app, device login and agent connection that does
-- not end with the calling session. Records the event and notifies the owner. Returns how many credentials ended.
-- Concurrent calls record only one event.
-- Definer: the service role cannot write Supabase Auth's sessions. Auth's own sign-out does not report whether any
-- session ended.
create or replace function private.end_other_sessions(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended_count integer;
begin
  perform private.lock_app_credentials(subject_id);
  ended_count := private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.is_active
      and not c.is_method
      and c.session_id is distinct from actor_session_id
  ));
  perform private.add_account_event(subject_id, 'other_sessions_revoked', session_id => actor_session_id)
  where ended_count > 0;
  return ended_count;
end
$$;

-- Returns a page of one list of private.export_account, oldest record first. part names the list: sessions,
-- securityEvents, approvals, workspaces, invitations, keys, appHandoffs, appSessions, appTokens, openidLogins,
-- openidCodes, deviceLogins, openidConsents, agentConnections, agentAccess or ledger (of credits). after is the last
-- record of the previous page. If page_size is null, returns all records. Credentials come from
-- private.account_credentials; linkedAccounts, authenticators, recoveryCodes and passkeys can't be paged.
-- Definer: the service role may not read the identity backend's tables.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  credential_kind text := case part
    when 'linkedAccounts' then 'identity'
    when 'authenticators' then 'authenticator'
    when 'recoveryCodes' then 'recovery_code'
    when 'passkeys' then 'passkey'
    when 'sessions' then 'session'
    when 'approvals' then 'phone_approval'
    when 'appHandoffs' then 'app_handoff'
    when 'appSessions' then 'app_session'
    when 'appTokens' then 'app_token'
    when 'openidLogins' then 'openid_login'
    when 'openidCodes' then 'openid_code'
    when 'deviceLogins' then 'device_request'
    when 'agentConnections' then 'agent_connection'
  end;
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if credential_kind is not null then
    return query
      select c.record
      from private.account_credentials c
      where c.user_id = subject_id
        and c.kind = credential_kind
        and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'place', e.place, 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'openidConsents' then
    return query
      select jsonb_build_object(
        'id', c.id, 'app', a.name, 'resource', r.resource_url, 'scopes', c.scopes, 'createdAt', c.granted_at
      )
      from private.openid_consents c
      join private.apps a on a.id = c.app_id
      left join private.apps r on r.id = c.resource_id
      where c.user_id = subject_id and (c.granted_at, c.id) > (last_at, last_id)
      order by c.granted_at, c.id
      limit page_size;
  elsif part = 'agentAccess' then
    return query
      select jsonb_build_object(
        'id', a.workspace_id, 'state', a.state, 'tool', a.tool, 'host', a.host, 'createdAt', a.requested_at,
        'answeredAt', a.answered_at
      )
      from ai.agent_access a
      where a.user_id = subject_id and (a.requested_at, a.workspace_id) > (last_at, last_id)
      order by a.requested_at, a.workspace_id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

-- Returns a page of the AI runs that a person made themselves, newest first, without prompts and answers. costUsd is
-- null if the workspace's policy hides provider costs. before is the last run of the previous page.
create or replace function private.export_account_runs(subject_id uuid, before jsonb default null, page_size integer default 500)
  returns setof jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', r.id, 'createdAt', r.created_at, 'workspaceId', r.workspace_id, 'appId', r.app_id, 'model', r.model_id,
    'feature', r.feature, 'requestId', r.request_id, 'status', r.status, 'inputTokens', r.input_tokens,
    'outputTokens', r.output_tokens, 'billedCredits', r.billed_credits::text,
    'costUsd', case when coalesce(p.provider_cost_visible, true) then r.cost_usd::text end
  )
  from ai.runs r
  left join ai.workspace_policies p on p.workspace_id = r.workspace_id
  where r.actor_id = subject_id
    and r.credential_source <> 'key'
    -- Lets Postgres prune partitions. The row comparison below does not.
    and r.created_at <= coalesce((before ->> 'createdAt')::timestamptz, 'infinity')
    and (r.created_at, r.id) < (
      coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
      coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )
  order by r.created_at desc, r.id desc
  limit page_size
$$;

-- When an account's email is first confirmed, removes metadata that the owner of the email did not write.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.clear_unproven_metadata() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if old.email_confirmed_at is null and new.email_confirmed_at is not null and private.may_be_unproven(new) then
    perform set_config('gatehouse.first_confirmation', new.id::text, true);
  end if;
  -- Supabase Auth may write back metadata that it read before the confirmation. The trigger therefore removes this
  -- metadata in every update of the account in this transaction.
  if current_setting('gatehouse.first_confirmation', true) = new.id::text then
    new.raw_user_meta_data := private.proven_metadata(new);
  end if;
  return new;
end
$$;

-- Returns whether an account may have been created by a person other than the email's owner. Used when the email is
-- confirmed.
create or replace function private.may_be_unproven(account auth.users) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(account.email, '') <> ''
    -- Excludes accounts created and confirmed in one transaction, by an administrator or by a provider that has
    -- verified the email.
    and not exists (select from public.profiles p where p.id = account.id and p.created_at = now())
    -- Excludes accounts created by an administrator's invitation. Auth sets the two times separately, so they may
    -- differ slightly.
    and (account.invited_at < account.created_at + interval '500 milliseconds') is not true
    -- Excludes accounts whose email was changed in this transaction, because they were in use before they got this
    -- email.
    and not exists (
      select from public.security_events e
      where e.user_id = account.id and e.kind = 'email_changed' and e.created_at = now()
    )
$$;

-- Returns whether an identity has the account's email and its provider has verified that email.
create or replace function private.is_proven_identity(identity auth.identities, account auth.users) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select identity.provider <> 'email'
    and identity.identity_data -> 'email_verified' = 'true'::jsonb
    and lower(identity.identity_data ->> 'email') = lower(account.email)
$$;

-- Returns the fields that Supabase Auth itself writes into metadata and into email identities.
create or replace function private.own_claims(data jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(jsonb_object_agg(m.key, m.value), '{}')
  from jsonb_each(case when jsonb_typeof(data) = 'object' then data else '{}' end) m
  where m.key in ('sub', 'email', 'email_verified', 'phone_verified')
$$;

-- Removes the sign-up's metadata from an email identity, so that the metadata does not survive the first confirmation.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.keep_own_claims() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  new.identity_data := private.own_claims(new.identity_data);
  return new;
end
$$;

-- Resets an account to the state of a new account when its email is confirmed for the first time. Removes everything
-- that was added earlier: sessions, passkeys, authenticators, unproven identities, a pending email change, app sessions
-- and keys. Resets the profile and replaces used workspaces. Removes the password only if someone had signed in to the
-- account before the confirmation.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.start_over() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  shown_name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  if current_setting('gatehouse.first_confirmation', true) is distinct from new.id::text then
    return null;
  end if;

  perform private.delete_auth_sessions(new.id);
  perform private.delete_auth_factor(new.id, f.id) from auth.mfa_factors f where f.user_id = new.id;
  perform private.delete_auth_passkey(c.id) from auth.webauthn_credentials c where c.user_id = new.id;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = new.id and i.provider <> 'email' and not private.is_proven_identity(i, new);
  if found then
    perform private.keep_email_identity(new);
  end if;
  delete from private.unconfirmed_additions a where a.user_id = new.id;
  delete from private.mfa_recovery_codes c where c.user_id = new.id;
  delete from private.account_vault_entries v where v.user_id = new.id;
  perform private.cancel_email_change(new.id);
  -- Removes the password if someone signed in before the confirmation, because the password may be another person's.
  -- Otherwise, keeps the password, because the owner may have chosen it.
  if old.last_sign_in_at is not null then
    perform private.remove_password(new.id);
  end if;
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

-- Closes the workspaces that have no other owner, removes the account from all other workspaces, revokes the keys that
-- it created, and creates a new personal workspace. Does nothing if the account has only its personal workspace and
-- never used it. For definers; not granted to any role.
create or replace function private.replace_workspaces(subject_id uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  left_behind uuid[];
begin
  -- Keeps the personal workspace if the account was never used and has no other workspace.
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
  -- Locks rows in the same order as private.delete_account.
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

-- Returns the account that a mailed link signs in to, or no row if the link was used. For security definer functions;
-- not granted to any role.
create or replace function private.account_of_link(token_hash text, link_type text) returns setof auth.users
  language sql stable security invoker set search_path = ''
as $$
  select u.*
  from auth.one_time_tokens t
  join auth.users u on u.id = t.user_id and u.deleted_at is null
  where t.token_hash = account_of_link.token_hash
    and t.token_type::text = case account_of_link.link_type
      when 'signup' then 'confirmation_token'
      when 'invite' then 'confirmation_token'
      when 'recovery' then 'recovery_token'
    end
$$;

-- Returns the email of the account that a mailed link signs in to, or null. link_type is signup, invite or recovery.
-- Does not use up the link or check its age.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.email_of_link(token_hash text, link_type text) returns text
  language sql stable security definer set search_path = ''
as $$
  select u.email from private.account_of_link(email_of_link.token_hash, email_of_link.link_type) u
$$;

-- Returns { email, change } of a mailed link, or null if the link was used or replaced, and completes the attempt at the
-- link: a link that leads to nothing counts as failed. change is the result of private.email_change_of_link.
create or replace function private.find_mailed_link(token_hash text, link_type text, attempt_id uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  change jsonb := case when link_type = 'email_change' then private.email_change_of_link(find_mailed_link.token_hash) end;
  email text := coalesce(change ->> 'email', private.email_of_link(find_mailed_link.token_hash, link_type));
  is_found boolean := change is not null or email is not null;
begin
  perform private.complete_attempt(find_mailed_link.attempt_id, case when is_found then 'succeeded' else 'failed' end);
  return case when is_found then jsonb_build_object('email', email, 'change', change) end;
end
$$;

-- Creates a profile and a personal workspace on the free plan in the transaction that creates the user. A failed
-- sign-up rolls back all of them.
-- Definer: the identity backend inserts users, but has no grant on profiles or workspaces.
create or replace function private.create_profile_and_workspace() returns trigger
  language plpgsql volatile security definer set search_path = ''
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

-- Returns the initial name of a personal workspace. Its owner can change the name. For definers; not granted to any
-- role.
create or replace function private.personal_workspace_name(display_name text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select left(display_name, 60) || '''s workspace'
$$;

-- Returns whether the owner is emailed about events of this kind. Excludes sign-ins, which are emailed only if they
-- come from a new location.
create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'device_approved', 'email_changed',
    'identity_linked', 'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_used',
    'recovery_codes_created', 'session_revoked', 'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

-- Queues the email to an account's owner about an event. Does nothing if the owner has no email address.
create or replace function private.queue_event_mail(event public.security_events, recipient text) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.outgoing_mails (recipient, event_id, next_attempt_at)
  -- The 15 seconds let our server add its details to the event before the email is sent
  -- (private.record_security_event).
  select queue_event_mail.recipient, (event).id, now() + interval '15 seconds'
  where char_length(queue_event_mail.recipient) between 3 and 320
$$;

-- Adds an event to an account's activity, queues the email about the event, and returns the event's id. Returns null if
-- the account doesn't exist. For definers that change an account in the same transaction.
create or replace function private.add_account_event(
  subject_id uuid,
  kind text,
  target_id uuid default null,
  session_id uuid default null,
  details jsonb default '{}'
) returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account record;
  added public.security_events;
begin
  select u.email into account from auth.users u where u.id = subject_id and u.deleted_at is null;
  if not found then
    return null;
  end if;
  insert into public.security_events (user_id, kind, session_id, target_id, details)
  values (subject_id, add_account_event.kind, add_account_event.session_id, add_account_event.target_id, details)
  returning * into added;
  if private.is_told_by_mail(added.kind) then
    perform private.queue_event_mail(added, account.email);
  end if;
  return added.id;
end
$$;

-- Returns whether a sign-in is the account's first from this network with this program. Returns false for the very
-- first sign-in of an account.
create or replace function private.is_new_place(event public.security_events) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select count(*) > 0 and not coalesce(bool_or(
    private.truncate_address(s.ip) is not distinct from private.truncate_address((event).ip)
    -- Ignores version numbers, so that a sign-in after a browser update does not count as a new location.
    and regexp_replace(coalesce(s.user_agent, ''), '[0-9._]+', '', 'g')
      = regexp_replace(coalesce((event).user_agent, ''), '[0-9._]+', '', 'g')
  ), false)
  from public.security_events s
  where s.user_id = (event).user_id and s.kind = 'sign_in' and s.id <> (event).id
$$;

-- Records a new session as a sign-in. Queues an email to the owner if the sign-in comes from a new location.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_sign_in() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  session record;
  added public.security_events;
begin
  if exists (
    select from auth.mfa_amr_claims a where a.session_id = new.session_id and a.id <> new.id
  ) or exists (
    select from public.security_events e where e.session_id = new.session_id and e.kind = 'sign_in'
  ) then
    return null;
  end if;
  select s.user_id, s.ip, s.user_agent, u.email
  into session
  from auth.sessions s
  join auth.users u on u.id = s.user_id and u.deleted_at is null
  where s.id = new.session_id;
  if not found then
    return null;
  end if;
  insert into public.security_events (user_id, kind, method, session_id, ip, user_agent)
  values (
    session.user_id, 'sign_in', left(new.authentication_method, 64), new.session_id, session.ip,
    left(session.user_agent, 512)
  )
  returning * into added;
  if private.is_new_place(added) then
    perform private.queue_event_mail(added, session.email);
  end if;
  return null;
exception when others then
  raise warning 'a sign-in was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Returns the scope of a sign-out (local, others or global), derived from the statement with which Supabase Auth ends
-- sessions. Returns null for every other statement, such as a cleanup or one that ends sessions below an assurance
-- level.
create or replace function private.sign_out_scope(statement text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case regexp_replace(
      regexp_replace(lower(statement), '\$[0-9]+|''[^'']*''', '?', 'g'),
      '"|auth\.|;|\s', '', 'g'
    )
    when 'deletefromsessionswhereid=?' then 'local'
    when 'deletefromsessionswhereid!=?anduser_id=?' then 'others'
    when 'deletefromsessionswhereuser_id=?' then 'global'
  end
$$;

-- Records the sign-outs that Supabase Auth performs. Adds one event per account and statement.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_sign_outs() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  scope text := private.sign_out_scope(current_query());
  account record;
begin
  -- Skips deletions by a cascade, which run inside a trigger, and by our own functions, which record their own events.
  if pg_trigger_depth() > 1 or scope is null then
    return null;
  end if;
  for account in
    select e.user_id, (array_agg(e.id))[1] as session_id
    from ended e
    -- The change that ended the sessions, such as a new password, already has an event.
    where not exists (
      select from public.security_events s
      where s.user_id = e.user_id and s.created_at = now() and s.kind <> 'sign_in'
    )
    group by e.user_id
  loop
    case scope
      when 'local' then
        perform private.add_account_event(account.user_id, 'sign_out', session_id => account.session_id);
      when 'others' then
        perform private.add_account_event(account.user_id, 'other_sessions_revoked');
      else
        perform private.add_account_event(account.user_id, 'all_sessions_revoked');
    end case;
  end loop;
  return null;
exception when others then
  raise warning 'a sign-out was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Ends a session that our server created but no browser received, such as the session that a password check creates.
-- Also removes the session's sign-in from the account's activity. Returns true if the session existed.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.discard_session(subject_id uuid, target_id uuid) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  delete from public.security_events e
  where e.user_id = subject_id and e.session_id = discard_session.target_id and e.kind = 'sign_in' and e.device is null
    and e.created_at > now() - interval '2 minutes';
  return private.end_account_session(subject_id, discard_session.target_id);
end
$$;

-- Records a new password, a requested or completed change of email, a ban, and the end of a ban. A completed change of
-- email is announced to both addresses.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_account_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  event_id uuid;
begin
  -- Before its address is confirmed, an account has no owner; a deleted account has none any more.
  if new.deleted_at is not null or old.email_confirmed_at is null and old.last_sign_in_at is null then
    return null;
  end if;

  if coalesce(new.encrypted_password, '') <> '' and private.is_new_password(old.encrypted_password, new.encrypted_password) then
    perform private.add_account_event(
      new.id, case when coalesce(old.encrypted_password, '') = '' then 'password_added' else 'password_changed' end
    );
  end if;

  if coalesce(new.email_change, '') not in ('', coalesce(old.email_change, '')) then
    perform private.add_account_event(
      new.id, 'email_change_requested', details => jsonb_build_object('to', new.email_change)
    );
  end if;
  if lower(coalesce(new.email, '')) <> lower(coalesce(old.email, '')) then
    event_id := private.add_account_event(
      new.id, 'email_changed', details => jsonb_strip_nulls(jsonb_build_object(
        'from', nullif(old.email, ''), 'to', nullif(new.email, '')
      ))
    );
    perform private.queue_event_mail(e, old.email) from public.security_events e where e.id = event_id;
  end if;

  if (old.banned_until > now()) is not true and new.banned_until > now() then
    perform private.add_account_event(new.id, 'account_banned');
  elsif old.banned_until > now() and (new.banned_until > now()) is not true then
    perform private.add_account_event(new.id, 'account_unbanned');
  end if;
  return null;
exception when others then
  raise warning 'an account''s change was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Announces that an authenticator or passkey will be added to an account. The announcement is valid for one minute.
-- target is the authenticator's id, or the passkey's credential id in hexadecimal. Call this after step-up, before the
-- backend makes the addition.
create or replace function private.announce_addition(subject_id uuid, target text) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from private.announced_additions a where a.expires_at < now();
  insert into private.announced_additions (target, user_id)
  values (announce_addition.target, subject_id)
  on conflict on constraint announced_additions_pkey do update
  set user_id = excluded.user_id, expires_at = excluded.expires_at
$$;

-- Returns whether private.announce_addition announced this authenticator or passkey and the announcement is still
-- valid. Deletes the announcement.
create or replace function private.is_announced(subject_id uuid, target text) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with announced as (
    delete from private.announced_additions a
    where a.target = is_announced.target and a.user_id = subject_id and a.expires_at > now()
    returning a.target
  )
  select exists (select from announced)
$$;

-- Raises an error if the account already has a verified factor other than except_factor. Call this for additions that
-- were not announced with private.announce_addition.
create or replace function private.guard_addition(subject_id uuid, except_factor uuid default null) returns void
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  if exists (
    select from auth.mfa_factors f
    where f.user_id = subject_id and f.status = 'verified' and f.id is distinct from except_factor
  ) then
    raise exception 'this account accepts additions only on its security page'
      using errcode = 'insufficient_privilege';
  end if;
end
$$;

-- Records an added identity, passkey or authenticator. Marks the addition as unconfirmed if our server did not announce
-- it.
create or replace function private.record_addition(
  subject_id uuid,
  addition text,
  target_id uuid,
  announced boolean,
  details jsonb
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if not announced then
    insert into private.unconfirmed_additions (target_id, user_id, kind) values (record_addition.target_id, subject_id, addition);
  end if;
  perform private.add_account_event(
    subject_id,
    case addition when 'identity' then 'identity_linked' else addition || '_added' end,
    record_addition.target_id,
    details => jsonb_strip_nulls(details)
  );
exception when others then
  raise warning 'an addition was not recorded: % %', sqlstate, sqlerrm;
end
$$;

-- Records a newly verified factor. If the account already has another verified factor, rejects a factor that our server
-- did not announce.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_authenticator_added() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  announced boolean := private.is_announced(new.user_id, new.id::text);
begin
  if not announced then
    perform private.guard_addition(new.user_id, except_factor => new.id);
  end if;
  perform private.record_addition(
    new.user_id, 'authenticator', new.id, announced, jsonb_build_object('name', left(new.friendly_name, 120))
  );
  return null;
end
$$;

-- Records a newly registered passkey. If the account has a verified factor, rejects a passkey that our server did not
-- announce.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_passkey_added() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  announced boolean := private.is_announced(new.user_id, encode(new.credential_id, 'hex'));
begin
  if not announced then
    perform private.guard_addition(new.user_id);
  end if;
  perform private.record_addition(
    new.user_id, 'passkey', new.id, announced, jsonb_build_object('passkey', left(new.friendly_name, 120))
  );
  return null;
end
$$;

-- Records a provider identity that was added to an account that has signed in before. The identity is confirmed if its
-- verified email is the account's own, because the backend links such an identity at a sign-in. Any other identity that
-- our pages did not link is rejected if the account has a verified factor.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_unconfirmed_identity() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account record;
  is_own_address boolean;
begin
  if new.provider in ('email', 'phone') or new.provider like 'sso:%' then
    return null;
  end if;
  select u.last_sign_in_at, u.email_confirmed_at, lower(u.email) as email
  into account
  from auth.users u
  where u.id = new.user_id;
  -- Linking an identity requires a sign-in. An account that has never signed in is still being created or has no owner
  -- yet.
  if account.last_sign_in_at is null then
    return null;
  end if;
  -- The backend applies the same rule when it links an identity to an existing account during a sign-in.
  is_own_address := new.identity_data -> 'email_verified' = 'true'::jsonb and (
    (account.email_confirmed_at is not null and account.email = new.email)
    or exists (
      select from auth.identities i
      where i.user_id = new.user_id
        and i.id <> new.id
        and i.email = new.email
        and i.identity_data -> 'email_verified' = 'true'::jsonb
        and not private.is_unconfirmed_identity(i.id)
    )
  );
  if is_own_address is not true then
    -- Does not record a link that our pages began. private.complete_oauth_attempt confirms and records the link when
    -- the account's own browser completes it.
    if exists (
      select from private.oauth_attempts a
      where a.user_id = new.user_id and a.purpose = 'link' and a.provider = new.provider
        and a.used_at is null and a.expires_at > now()
    ) then
      insert into private.unconfirmed_identities (identity_id) values (new.id);
      return null;
    end if;
    perform private.guard_addition(new.user_id);
  end if;
  perform private.record_addition(
    new.user_id, 'identity', new.id, is_own_address is true,
    jsonb_build_object('provider', new.provider, 'email', new.email)
  );
  return null;
end
$$;

-- Returns whether an identity is unconfirmed. An identity linked through our pages is confirmed when the link
-- completes. An identity linked directly at the backend is confirmed when the owner keeps it.
create or replace function private.is_unconfirmed_identity(of_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (select from private.unconfirmed_identities n where n.identity_id = of_id)
    or exists (select from private.unconfirmed_additions a where a.target_id = of_id)
$$;

-- Rejects a new email for an account if the only identities with that address are unconfirmed or unverified, because
-- password-reset emails could then reach another person. Also rejects removing the email if an unconfirmed identity has
-- no address.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.guard_email() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if new.deleted_at is null and exists (
    select from auth.identities i
    where i.user_id = new.id
      and coalesce(i.email, '') = lower(coalesce(new.email, ''))
      and (
        private.is_unconfirmed_identity(i.id)
        or (i.email <> '' and i.identity_data -> 'email_verified' is distinct from 'true'::jsonb)
      )
  ) and not exists (
    select from auth.identities i
    where i.user_id = new.id
      and i.email = lower(new.email)
      and (
        -- The email identity already has an address that an administrator set, or that was confirmed from both the old
        -- and the new mailbox.
        i.provider = 'email'
        or (i.identity_data -> 'email_verified' = 'true'::jsonb and not private.is_unconfirmed_identity(i.id))
      )
  ) then
    raise exception 'an unconfirmed identity cannot give its address to the account'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;

-- Records the removal of an authenticator, a passkey or an identity. Skips accounts that have neither a confirmed email
-- nor a sign-in.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_removal() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  removed jsonb := to_jsonb(old);
  is_pending boolean := tg_table_name = 'identities'
    and exists (select from private.unconfirmed_identities n where n.identity_id = old.id);
begin
  delete from private.unconfirmed_additions a where a.target_id = old.id;
  -- Records nothing if a cascade deletes the row (cascades run inside a trigger). Records nothing for an account
  -- without a confirmed address, because the account is being cleaned up and has no owner yet.
  if pg_trigger_depth() > 1 or is_pending or not exists (
    select from auth.users u
    where u.id = old.user_id and (u.email_confirmed_at < now() or u.last_sign_in_at is not null)
  ) then
    return old;
  end if;
  if tg_table_name = 'mfa_factors' then
    -- Skips authenticators that a recovery removes, because the recovery has its own event.
    if removed ->> 'status' = 'verified' and not exists (
      select from auth.users u
      where u.id = old.user_id and private.required_mfa_state(u.raw_app_meta_data) = 'recovery_in_progress'
    ) then
      perform private.add_account_event(
        old.user_id, 'authenticator_removed', old.id,
        details => jsonb_strip_nulls(jsonb_build_object('name', left(removed ->> 'friendly_name', 120)))
      );
    end if;
  elsif tg_table_name = 'webauthn_credentials' then
    perform private.add_account_event(
      old.user_id, 'passkey_removed', old.id,
      details => jsonb_strip_nulls(jsonb_build_object('passkey', left(removed ->> 'friendly_name', 120)))
    );
  elsif removed ->> 'provider' not in ('email', 'phone')
    -- Records nothing for a new identity that a refused sign-in added, because the event that recorded the addition is
    -- deleted too.
    and current_setting('gatehouse.takes_back', true) is distinct from 'on' then
    perform private.add_account_event(
      old.user_id, 'identity_unlinked', old.id,
      details => jsonb_strip_nulls(jsonb_build_object('provider', removed ->> 'provider', 'email', removed ->> 'email'))
    );
  end if;
  return old;
exception when others then
  raise warning 'a removal was not recorded: % %', sqlstate, sqlerrm;
  return old;
end
$$;

-- Records a passkey's new name.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_passkey_renamed() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  perform private.add_account_event(
    new.user_id, 'passkey_renamed', new.id,
    details => jsonb_strip_nulls(jsonb_build_object('from', left(old.friendly_name, 120), 'to', left(new.friendly_name, 120)))
  );
  return null;
exception when others then
  raise warning 'a new name was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Returns the id of the event that recorded the addition of an identity, passkey or authenticator; null if there is
-- none. For definers; not granted to any role.
create or replace function private.addition_event(subject_id uuid, added_id uuid, added_kind text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select v.id
  from public.security_events v
  where v.user_id = subject_id and v.target_id = added_id and v.kind = added_kind
  order by v.created_at desc, v.id
  limit 1
$$;

-- Claims the emails that are due for an attempt, so that no other caller sends them. Returns the text of each email, or
-- the event from which the caller writes the text. After twelve attempts, an email is kept as a record for a week.
create or replace function private.claim_due_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, event jsonb, attempts smallint)
  language sql volatile security invoker set search_path = ''
as $$
  with expired as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  ), claimed as (
    update private.outgoing_mails m
    -- Waits 4, 16, 64 and 256 minutes between attempts, then 12 hours. The last attempt is about three days after the
    -- first.
    set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
    -- The array subquery runs only once. With a join, Postgres could run the limited query several times and claim more
    -- than max_mails emails.
    where m.id = any (array(
      select due.id
      from private.outgoing_mails due
      join (
        select w.id, row_number() over (partition by w.recipient order by w.next_attempt_at) as position_in_queue
        from private.outgoing_mails w
        where w.next_attempt_at <= now() and w.attempts < 12 and w.created_at >= now() - interval '7 days'
      ) queued on queued.id = due.id
      -- Checks the due time again, because a concurrent caller may have claimed the email.
      where due.next_attempt_at <= now()
      -- Alternates between recipients, so that many emails to one recipient don't delay the others.
      order by queued.position_in_queue, due.next_attempt_at
      limit max_mails
      for update of due skip locked
    ))
    returning m.*
  )
  select c.id, c.recipient, c.subject, c.body,
    case when e.id is not null then jsonb_build_object(
      'kind', e.kind,
      'method', e.method,
      'ip', host(e.ip),
      'userAgent', e.user_agent,
      'device', e.device,
      'details', e.details,
      'createdAt', e.created_at,
      'unconfirmed', exists (select from private.unconfirmed_additions a where a.target_id = e.target_id)
    ) end,
    c.attempts
  from claimed c
  left join public.security_events e on e.id = c.event_id
$$;

-- Claims the emails that are due for an attempt, so that no other caller sends them. After twelve attempts, an email is
-- kept as a record for a week.
-- Unused since 0.2.0, goes in 0.3.0. Servers of release 0.1.0 call it and support only emails that have a text.
create or replace function private.claim_outgoing_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, attempts smallint)
  language sql volatile security invoker set search_path = ''
as $$
  with expired as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  )
  update private.outgoing_mails m
  -- Retries after 4, 16, 64 and 256 minutes, then every 12 hours. The last attempt is about three days after the first.
  set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
  where m.id = any (array(
    select due.id
    from private.outgoing_mails due
    where due.event_id is null and due.next_attempt_at <= now() and due.attempts < 12 and due.created_at >= now() - interval '7 days'
    order by due.next_attempt_at
    limit max_mails
    for update skip locked
  ))
  returning m.id, m.recipient, m.subject, m.body, m.attempts
$$;

-- Returns whether an account is active and has an email address.
create or replace function ai.can_be_emailed(account auth.users) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    char_length(account.email) between 3 and 320
      and account.deleted_at is null
      and (account.banned_until is null or account.banned_until <= now()),
    false
  )
$$;

-- Adds an event to an account's activity, or completes an event that a trigger added. Takes { userId, kind, method,
-- sessionId, targetId, ip, userAgent, device, place, details }. Returns { id, createdAt }, or null if the account doesn't
-- exist. Emails about the event can be sent from then on.
-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  subject uuid := (event ->> 'userId')::uuid;
  session uuid := (event ->> 'sessionId')::uuid;
  owner_email text;
  recorded public.security_events;
begin
  select u.email into owner_email from auth.users u where u.id = subject and u.deleted_at is null;
  if not found then
    return null;
  end if;

  -- If a trigger has already recorded this event, adds the address and the device of the request.
  update public.security_events s
  set kind = event ->> 'kind',
      method = coalesce(event ->> 'method', s.method),
      session_id = coalesce(session, s.session_id),
      ip = (event ->> 'ip')::inet,
      user_agent = event ->> 'userAgent',
      device = event ->> 'device',
      place = event ->> 'place',
      details = s.details || coalesce(event -> 'details', '{}')
  where s.id = (
    select e.id
    from public.security_events e
    where e.user_id = subject
      and e.created_at > now() - interval '2 minutes'
      and e.device is null
      and case event ->> 'kind'
        when 'sign_in' then e.kind = 'sign_in' and e.session_id = session
        -- The backend records a recovery as a sign-in.
        when 'account_recovered' then e.kind = 'sign_in' and e.session_id = session
        when 'sign_out' then e.kind = 'sign_out' and e.session_id = session
        else e.kind = event ->> 'kind'
      end
    order by e.created_at desc, e.id
    limit 1
    for update
  )
  returning s.* into recorded;
  if not found then
    insert into public.security_events (
      user_id, kind, method, session_id, target_id, ip, user_agent, device, place, details
    )
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'targetId')::uuid,
      (event ->> 'ip')::inet,
      event ->> 'userAgent',
      event ->> 'device',
      event ->> 'place',
      coalesce(event -> 'details', '{}')
    )
    returning * into recorded;
  end if;

  if recorded.kind = 'sign_in' and (
    not private.is_new_place(recorded)
    -- The email about the recovery covers this sign-in.
    or exists (
      select from public.security_events r where r.session_id = recorded.session_id and r.kind = 'account_recovered'
    )
  ) then
    delete from private.outgoing_mails m where m.event_id = recorded.id;
  elsif (recorded.kind = 'sign_in' or private.is_told_by_mail(recorded.kind))
    and not exists (select from private.outgoing_mails m where m.event_id = recorded.id) then
    perform private.queue_event_mail(recorded, owner_email);
  end if;

  -- The event is complete, so its emails can be sent.
  update private.outgoing_mails m set next_attempt_at = now() where m.event_id = recorded.id and m.attempts = 1;

  return jsonb_build_object(
    'id', recorded.id,
    'createdAt', recorded.created_at,
    -- Until 0.3.0: null keeps servers of release 0.1.0 from sending a second email.
    'email', null,
    'newPlace', false
  );
end
$$;

-- Revokes all credentials of an app permanently. Enabling the app again does not restore them.
-- Definer: roles that write the registry need no access to the gateway's tables.
create or replace function private.revoke_app_credentials() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Locks all users of the app first, in order of their id. Takes the same lock as private.lock_app_credentials. So a
  -- concurrent refresh or disconnection waits before either side holds a row that the other needs.
  perform
  from auth.users u
  where u.id in (
    select t.user_id from private.cross_app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select s.user_id from private.app_sessions s where s.app_id = new.id and s.revoked_at is null
    union
    select t.user_id from ai.app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select c.user_id
    from private.authorization_codes c
    where new.id in (c.app_id, c.resource_id) and c.revoked_at is null
    union
    select d.user_id from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null
    union
    select g.user_id from private.openid_grants g where new.id in (g.app_id, g.resource_id) and g.revoked_at is null
  )
  order by u.id
  for no key update;
  -- Revokes each credential before those derived from it. If a credential is being redeemed, its update waits. A later
  -- update then also revokes the credential that the redemption created.
  update private.cross_app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.app_id = new.id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.authorization_codes c
  set revoked_at = now()
  where new.id in (c.app_id, c.resource_id) and c.revoked_at is null;
  delete from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null;
  update private.openid_grants g set revoked_at = now() where new.id in (g.app_id, g.resource_id) and g.revoked_at is null;
  return null;
end
$$;

-- Revokes the codes and logins for a resource whose URL changes. Otherwise its tokens for the former URL would work until
-- they expire, and could be renewed for a URL that the client never asked for.
-- Definer: see private.revoke_app_credentials.
create or replace function private.revoke_resource_credentials() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- See private.revoke_app_credentials for the order of locks.
  perform
  from auth.users u
  where u.id in (
    select c.user_id from private.authorization_codes c where c.resource_id = new.id and c.revoked_at is null
    union
    select g.user_id from private.openid_grants g where g.resource_id = new.id and g.revoked_at is null
  )
  order by u.id
  for no key update;
  update private.authorization_codes c set revoked_at = now() where c.resource_id = new.id and c.revoked_at is null;
  update private.openid_grants g set revoked_at = now() where g.resource_id = new.id and g.revoked_at is null;
  return null;
end
$$;

-- Deletes app credentials a day after they end, expired authorization requests, and clients that registered themselves
-- once they expire, up to at_most of each kind. Returns how many it deleted; 0 while another sweep runs.
create or replace function private.sweep_app_credentials(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted_count integer := 0;
  part integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- Disabling an app and closing an account lock these rows in another order, so locked ones are left to the next
  -- sweep.
  deleted_count := deleted_count + private.delete_expired_rows('private.cross_app_tokens', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.app_sessions', 'ends_at', '1 day', at_most);
  -- A used refresh token is kept until it would have expired, so that its reuse is detected.
  deleted_count := deleted_count + private.delete_expired_rows('ai.app_tokens', 'refresh_expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.authorization_requests', 'expires_at', '0', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.authorization_codes', 'expires_at', '1 day', at_most);
  deleted_count := deleted_count + private.delete_expired_rows('private.device_authorizations', 'expires_at', '1 day', at_most);
  -- A disabled client is kept, so that it can't register again.
  delete from private.apps a
  where a.id in (
    select c.app_id
    from private.openid_clients c
    join private.apps o on o.id = c.app_id and o.enabled
    where c.expires_at < now()
    order by c.expires_at
    limit at_most
    for update of o skip locked
  );
  get diagnostics part = row_count;
  deleted_count := deleted_count + part;
  -- Tokens are deleted together with their grant. Until then, used refresh tokens are kept so that their reuse is
  -- detected.
  return deleted_count + private.delete_expired_rows('private.openid_grants', 'ends_at', '1 day', at_most);
end
$$;

-- Returns whether a login's proof still holds: its account, session and factor exist, and the account's MFA policy has
-- not changed. If the proof no longer holds, the change that ended it has already queued the logout notice. For
-- definers; not granted to any role.
create or replace function private.is_proof_intact(proof private.mfa_proof) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from auth.users u
    where u.id = proof.user_id
      and proof.generation is not distinct from private.required_mfa_generation(u.raw_app_meta_data)
      and (
        proof.session_id is null
        or exists (select from auth.sessions s where s.id = proof.session_id and s.user_id = u.id)
      )
      and (
        proof.factor_id is null
        or exists (
          select from auth.mfa_factors f where f.id = proof.factor_id and f.user_id = u.id and f.status = 'verified'
        )
      )
  )
$$;

-- Queues notices for the logins that a change to a session, a factor or an account is about to end.
-- Definer: Supabase Auth runs this trigger, and its role has no rights in these schemas.
create or replace function private.queue_logouts_before_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  outcome record := case tg_op when 'DELETE' then old else new end;
begin
  case tg_table_name
    when 'sessions' then perform private.queue_logouts(old.user_id, session_id => old.id);
    when 'mfa_factors' then perform private.queue_logouts(old.user_id, factor_id => old.id);
    else perform private.queue_logouts(old.id);
  end case;
  return outcome;
exception when others then
  raise warning 'a logout notice was not queued: % %', sqlstate, sqlerrm;
  return outcome;
end
$$;

-- Queues a notice for a revoked login. The trigger's argument names the column that contains the login's sid.
-- Definer: reads Supabase Auth's tables, which the service role cannot read.
create or replace function private.queue_revoked_login() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  insert into private.logout_notices (app_id, user_id, sid)
  select a.id, new.user_id, (to_jsonb(new) ->> tg_argv[0])::uuid
  from private.apps a
  where a.id = new.app_id and a.backchannel_logout_uri is not null and private.is_proof_intact(new.proof);
  return null;
end
$$;

-- Removes the notices about a login. Called after the app has acknowledged a notice, refused it permanently, or ended
-- the login itself.
create or replace function private.withdraw_logout(ended_sid uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from private.logout_notices n where n.sid = ended_sid
$$;

-- Locks the account, session and factor that an MFA proof names. Call it before private.proof_status when opening a
-- login. A concurrent sign-out or factor removal then waits until the login exists, and queues a notice for it. For
-- definers; not granted to any role.
create or replace function private.hold_proof(proof private.mfa_proof) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(proof.user_id);
  perform from auth.sessions s where s.id = proof.session_id for key share;
  perform from auth.mfa_factors f where f.id = proof.factor_id for key share;
end
$$;

-- Claims the notices that are due, each for only one caller. Schedules the retries after 5 seconds, 30 seconds, 2
-- minutes and 10 minutes, and then every hour. is_last is true if the notice is at least a day old, so this attempt is
-- its last.
create or replace function private.claim_logout_notices(max_notices integer)
  returns table (id uuid, app text, uri text, user_id uuid, sid uuid, attempts smallint, is_last boolean)
  language sql volatile security invoker set search_path = ''
as $$
  with unneeded as (
    delete from private.logout_notices n
    using private.apps a
    where n.next_attempt_at <= now()
      and a.id = n.app_id
      and (
        a.backchannel_logout_uri is null
        or exists (select from private.logout_notices o where o.sid = n.sid and o.id < n.id)
      )
  ), claimed as (
    update private.logout_notices n
    set
      attempts = n.attempts + 1,
      next_attempt_at = now() + case n.attempts
        when 0 then interval '5 seconds'
        when 1 then interval '30 seconds'
        when 2 then interval '2 minutes'
        when 3 then interval '10 minutes'
        else interval '1 hour'
      end
    -- Postgres evaluates the array only once. In a join, it could run the subquery again and exceed the limit.
    where n.id = any (array(
      select due.id
      from private.logout_notices due
      join (
        select w.id, row_number() over (partition by w.app_id order by w.next_attempt_at) as position_in_queue
        from private.logout_notices w
        join private.apps a on a.id = w.app_id and a.backchannel_logout_uri is not null
        where w.next_attempt_at <= now()
          and not exists (select from private.logout_notices o where o.sid = w.sid and o.id < w.id)
      ) queued on queued.id = due.id
      -- Checks the due time again, because another caller may have claimed the notice since the subquery read it.
      where due.next_attempt_at <= now()
      -- Alternates between apps, so that an app that does not answer can't delay other apps' notices.
      order by queued.position_in_queue, due.next_attempt_at
      limit max_notices
      for update of due skip locked
    ))
    returning n.*
  )
  select
    c.id, a.name, a.backchannel_logout_uri, c.user_id, c.sid, c.attempts, c.created_at <= now() - interval '1 day'
  from claimed c
  join private.apps a on a.id = c.app_id
$$;

-- Returns one row with what a session has proved, given the session's verified claims. refused is unauthenticated,
-- mfa_required, unavailable or null. If the proof depends on a mobile approval, valid_until is when the approval
-- expires; otherwise it is null. For definers; not granted to any role.
create or replace function private.session_proof(claims jsonb)
  returns table (refused text, proof private.mfa_proof, valid_until timestamptz)
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  facts record;
  -- own_second: the Unix time at which the session verified its own second factor. by_approval: whether the proof is
  -- the bound mobile approval, which is used if it is newer than own_second or if own_second is null.
  own_second bigint;
  by_approval boolean;
begin
  select * into facts from private.session_facts(claims);
  if not found or facts.banned or facts.deleted then
    refused := 'unauthenticated';
  elsif private.required_mfa_state(facts.app_metadata) = 'malformed' then
    refused := 'unavailable';
  elsif not private.satisfies_required_mfa(
    facts.app_metadata, claims, facts.has_verified_factor, facts.session_factor_verified, facts.approval_second,
    floor(extract(epoch from now()))::bigint
  ) then
    refused := 'mfa_required';
  else
    own_second := case
      when facts.session_factor_verified and claims ->> 'aal' = 'aal2'
        then private.latest_amr_second(claims -> 'amr', private.second_factor_methods())
    end;
    by_approval := coalesce(facts.approval_second > own_second, facts.approval_second is not null);
    proof := row(
      facts.user_id,
      facts.session_id,
      case when by_approval then facts.approval_factor_id when own_second is not null then facts.session_factor_id end,
      case when by_approval then facts.approval_second else own_second end,
      private.latest_amr_second(claims -> 'amr', private.primary_methods()),
      private.required_mfa_generation(facts.app_metadata)
    )::private.mfa_proof;
    valid_until := case when by_approval then facts.approval_valid_until end;
  end if;
  return next;
end
$$;

-- Returns the proofs of the session with the given verified claims. The web server signs the result. Returns {user,
-- target, targetId, session, factor, secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt} or
-- {refused: unauthenticated | mfa_required | unavailable | not_found}. secondFactorAt and primaryAt are in seconds
-- since 1970; validUntil, issuedAt and expiresAt are timestamps. If the proof depends on a mobile approval, validUntil
-- is when the approval expires; otherwise it is null.
-- Definer: the service role may not read the identity backend's tables or apply the MFA rule.
create or replace function private.required_mfa_proof(claims jsonb, target_app text, lifetime_seconds integer) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  session_check record;
  app private.apps;
begin
  select * into session_check from private.session_proof(claims);
  if session_check.refused is not null then
    return jsonb_build_object('refused', session_check.refused);
  end if;
  select * into app
  from private.apps a
  where a.name = target_app and a.kind in ('internal', 'external') and a.enabled;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'user', (session_check.proof).user_id,
    'target', app.name,
    'targetId', app.id,
    'session', (session_check.proof).session_id,
    'factor', (session_check.proof).factor_id,
    'secondFactorAt', (session_check.proof).second_factor_second,
    'primaryAt', (session_check.proof).primary_second,
    'generation', (session_check.proof).generation,
    'validUntil', session_check.valid_until,
    'issuedAt', now(),
    'expiresAt', now() + make_interval(secs => lifetime_seconds)
  );
end
$$;

-- Returns the status of a proof, as private.proof_statuses does. Not granted to any role.
create or replace function private.proof_status(proof private.mfa_proof) returns text
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  return (select s.status from private.proof_statuses(proof) s);
end
$$;

-- Returns one row, so that a query can join it: good, over, mfa_required or unavailable. over means that the session or
-- account ended, the policy changed, or the factor was removed. unavailable means that the policy can't be read. For
-- security definer functions; not granted to any role.
create or replace function private.proof_statuses(proof private.mfa_proof) returns table (status text)
  language sql stable security invoker
as $$
  select case
    when u.id is null or u.banned_until > now() or u.deleted_at is not null
      or p.session_id is not null and not exists (
        select
        from auth.sessions s
        where s.id = p.session_id and s.user_id = u.id and (s.not_after is null or s.not_after > now())
      ) then 'over'
    when private.required_mfa_state(u.raw_app_meta_data) = 'malformed' then 'unavailable'
    -- Every policy change starts a new generation, and proofs of earlier generations don't count. A proof by a factor
    -- also ends when the factor is removed, even if the account no longer requires MFA.
    when p.generation is distinct from private.required_mfa_generation(u.raw_app_meta_data)
      or p.factor_id is not null and not f.is_verified then 'over'
    -- Presents the second factor to the rule as a mobile approval at the same time. Presents the sign-in as a password
    -- sign-in, because the rule accepts any primary method.
    when not private.satisfies_required_mfa(
      u.raw_app_meta_data,
      jsonb_build_object('amr', jsonb_build_array(
        jsonb_build_object('method', 'password', 'timestamp', p.primary_second)
      )),
      exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified'),
      false,
      case when f.is_verified then p.second_factor_second end,
      floor(extract(epoch from now()))::bigint
    ) then 'mfa_required'
    else 'good'
  end
  from (select (proof).* offset 0) as p
  left join auth.users u on u.id = p.user_id
  cross join lateral (
    select exists (
      select from auth.mfa_factors f where f.id = p.factor_id and f.user_id = u.id and f.status = 'verified'
    ) as is_verified
    offset 0
  ) as f
$$;

-- Returns a page of the workspaces that an app is linked to, sorted by name. after is the name and id of the last
-- workspace on the previous page.
create or replace function private.linked_workspaces(app_id uuid, after text[] default null, page_size integer default 50)
  returns table (id uuid, name text)
  language sql stable security invoker set search_path = ''
as $$
  select w.id, w.name
  from private.app_workspaces l
  join public.workspaces w on w.id = l.workspace_id
  where l.app_id = linked_workspaces.app_id and (after is null or (w.name, w.id) > (after[1], after[2]::uuid))
  order by w.name, w.id
  limit page_size
$$;

-- Returns the app that has exactly this origin, with the app's scopes; null if there is none. Includes disabled apps,
-- so that the page can explain why the sign-in fails.
create or replace function private.find_app_by_origin(origin text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'name', a.name, 'displayName', a.display_name, 'enabled', a.enabled, 'scopes', a.scopes
  )
  from private.app_origins o
  join private.apps a on a.id = o.app_id
  where o.origin = find_app_by_origin.origin and a.kind <> 'openid'
$$;

-- Returns the enabled app with this name and a secret with this SHA-256. Returns no row if the name is unknown, the
-- secret is wrong or expired, or the app is disabled; the caller can't distinguish these cases. Excludes OpenID
-- clients. For definers; not granted to any role.
create or replace function private.authenticate_app(app_name text, secret_hash bytea) returns setof private.apps
  language sql stable security invoker
as $$
  select a.*
  from private.app_secrets s
  join private.apps a on a.id = s.app_id
  where s.secret_hash = authenticate_app.secret_hash
    and (s.expires_at is null or s.expires_at > now())
    and a.name = app_name
    and a.kind <> 'openid'
    and a.enabled
$$;

-- Registers an app with its origins and first secret. Does not check permissions, because its callers do: the console
-- and the command line, which run on our server.
create or replace function private.register_app(
  app_name text,
  display_name text,
  kind text,
  origins text[],
  scopes text[],
  secret_hash bytea,
  reason text,
  actor uuid default null
) returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  if kind = 'openid' then
    raise exception 'OpenID clients are registered by add_openid_client' using errcode = 'check_violation';
  end if;
  insert into private.apps (name, display_name, kind, scopes)
  values (app_name, register_app.display_name, register_app.kind, register_app.scopes)
  returning * into app;
  insert into private.app_origins (origin, app_id) select o, app.id from unnest(origins) as o;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, register_app.secret_hash);
  perform private.record_app_change(app, 'app.register', reason, actor);
  return app.id;
end
$$;

-- Gives an app a new secret. The earlier secrets expire after the overlap. Returns the time when they expire, or null
-- if the app doesn't exist.
create or replace function private.rotate_app_secret(
  app_name text,
  secret_hash bytea,
  overlap_seconds integer,
  reason text,
  actor uuid default null
) returns timestamptz
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  ends_at timestamptz := now() + make_interval(secs => overlap_seconds);
begin
  if overlap_seconds is null or overlap_seconds not between 0 and 86400 then
    raise exception 'the overlap is 0 to 86400 seconds' using errcode = 'check_violation';
  end if;
  -- Locks the app, so that concurrent rotations run one after the other.
  select * into app from private.apps a where a.name = app_name for no key update;
  if not found then
    return null;
  end if;
  if exists (select from private.openid_clients c where c.app_id = app.id and c.is_public) then
    raise exception 'a public client has no secret' using errcode = 'check_violation';
  end if;
  delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
  -- Never extends the life of a secret.
  update private.app_secrets s set expires_at = least(s.expires_at, ends_at) where s.app_id = app.id;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, rotate_app_secret.secret_hash);
  perform private.record_app_change(app, 'app.rotate_secret', reason, actor);
  return ends_at;
end
$$;

-- Links an app to a workspace or removes the link. Returns false if the app or workspace doesn't exist.
create or replace function private.set_app_workspace(
  app_name text,
  workspace_id uuid,
  linked boolean,
  reason text,
  actor uuid default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.apps a where a.name = app_name and a.kind <> 'openid' for no key update;
  if not found
    or not exists (select from public.workspaces w where w.id = set_app_workspace.workspace_id and w.deleted_at is null)
  then
    return false;
  end if;
  if linked then
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, set_app_workspace.workspace_id, actor)
    on conflict do nothing;
  else
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = set_app_workspace.workspace_id;
  end if;
  perform private.record_app_change(
    app,
    case when linked then 'app.link_workspace' else 'app.unlink_workspace' end,
    reason || ' (workspace ' || workspace_id || ')',
    actor
  );
  return true;
end
$$;

-- Returns the accounts whose id or full email equals the search term. If there are none, returns the accounts whose
-- email or name contains the term. Each account is returned as [private.describe_account].
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_accounts(term text, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_ids uuid[] := array(select private.find_accounts_exactly(term) limit page_size);
begin
  if found_ids = '{}' then
    found_ids := array(select private.find_accounts_matching(term, page_size));
  end if;
  return (
    select coalesce(jsonb_agg(private.describe_account(u) order by u.email, u.id), '[]')
    from auth.users u
    where u.id = any (found_ids)
  );
end
$$;

-- Returns a page of all accounts, newest first, including deleted ones, as [private.describe_account]. before is {
-- createdAt, id } of the last account on the previous page.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_accounts(before jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read all accounts.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(private.describe_account(u) order by l.created_at desc, l.id desc), '[]')
    from (
      select p.id, p.created_at
      from public.profiles p
      where (p.created_at, p.id) < (last_at, last_id)
      order by p.created_at desc, p.id desc
      limit page_size
    ) l
    join auth.users u on u.id = l.id
  );
end
$$;

-- Returns an account for the console's lists: { id, email, displayName, singleSignOn, admin, policy, banned, confirmed,
-- deleted, authenticators, lastSignInAt, createdAt }.
create or replace function private.describe_account(account auth.users) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', account.id,
    'email', account.email,
    'displayName', p.display_name,
    'singleSignOn', account.is_sso_user,
    'admin', exists (select from private.infrastructure_admins a where a.user_id = account.id),
    'policy', private.required_mfa_state(account.raw_app_meta_data),
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'deleted', account.deleted_at is not null,
    'authenticators', (
      select count(*) from auth.mfa_factors f where f.user_id = account.id and f.status = 'verified'
    ),
    'lastSignInAt', account.last_sign_in_at,
    'createdAt', coalesce(p.created_at, account.created_at)
  )
  from (values (account.id)) as a (id)
  left join public.profiles p on p.id = a.id
$$;

-- Returns the accounts whose email or name contains the term, sorted by email. A search for one or two characters may
-- read all rows, because such a term has no trigram.
create or replace function private.find_accounts_matching(term text, most integer) returns setof uuid
  language plpgsql stable security invoker set search_path = ''
  -- The best index depends on the term. If many accounts match, it is the index of emails; if few match, the trigram
  -- index.
  set plan_cache_mode = force_custom_plan
as $$
declare
  pattern text := private.containing(term);
begin
  return query
    select s.user_id
    from private.account_search s
    join auth.users a on a.id = s.user_id
    where s.terms like pattern and a.deleted_at is null
    order by s.email, s.user_id
    limit most;
end
$$;

-- Returns a pattern for `like` that matches lower-case text containing the term. Escapes special characters in the
-- term.
create or replace function private.containing(term text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select '%' || regexp_replace(lower(term), '([%_\\])', '\\\1', 'g') || '%'
$$;

-- Signs an account out of every device and app and notifies the account's owner. Takes { actor, subject, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself }. Idempotent.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  account record;
  sessions bigint;
  ended_count integer;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = (change ->> 'subject')::uuid then
    return jsonb_build_object('refused', 'oneself');
  end if;
  select u.id, u.email into account from auth.users u where u.id = (change ->> 'subject')::uuid and u.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform private.lock_app_credentials(account.id);
  sessions := private.count_account_sessions(account.id);
  ended_count := private.end_all_access(account.id);
  perform private.add_account_event(account.id, 'signed_out_by_admin') where ended_count > 0;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.sign_out',
    'targetUserId', account.id,
    'target', account.email,
    'before', jsonb_build_object('sessions', sessions),
    'after', jsonb_build_object('sessions', 0)
  ));
  return '{}';
end
$$;

-- Returns a page of what an account's owner did and what admins did to the account, newest first: [{ id, source: event
-- | audit, kind, method, device, ip, reason, actorEmail, requestId, createdAt }]. before is { createdAt, id } of the
-- last entry on the previous page.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_timeline(subject_id uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the account's entire history.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', t.id,
      'source', t.source,
      'kind', t.kind,
      'method', t.method,
      'device', t.device,
      'ip', host(t.ip),
      'reason', t.reason,
      'actorEmail', (select a.email from auth.users a where a.id = t.actor_id),
      'requestId', t.request_id,
      'createdAt', t.created_at
    ) order by t.created_at desc, t.id desc), '[]')
    from (
      (
        select e.id, 'event' as source, e.kind, e.method, e.device, e.ip, null as reason, null::uuid as actor_id,
          null as request_id, e.created_at
        from public.security_events e
        where e.user_id = subject_id and (e.created_at, e.id) < (last_at, last_id)
        order by e.created_at desc, e.id desc
        limit page_size
      )
      union all
      (
        select l.id, 'audit', l.action, null, null, l.ip, l.reason, l.actor_id, l.request_id, l.created_at
        from private.admin_audit_log l
        where l.target_user_id = subject_id and (l.created_at, l.id) < (last_at, last_id)
        order by l.created_at desc, l.id desc
        limit page_size
      )
      order by created_at desc, id desc
      limit page_size
    ) t
  );
end
$$;

-- Returns address blocks in the format of private.describe_address_block. For an address, returns all blocks of its
-- network in the last 30 days. For an account, returns the active blocks of its recent networks. Otherwise returns all
-- active blocks.
-- Definer: sessions and admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_address_blocks(
  of_address inet default null,
  subject_id uuid default null,
  page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  networks cidr[] := case
    when of_address is not null then array[private.address_network(of_address)]
    when subject_id is not null then private.recent_networks(subject_id)
  end;
begin
  return (
    select coalesce(jsonb_agg(private.describe_address_block(b) order by b.blocked_until desc, b.id), '[]')
    from (
      select *
      from private.address_blocks l
      where (networks is null or l.address = any (networks))
        -- A search for an address also returns past blocks.
        and (of_address is not null or (l.blocked_until > now() and l.lifted_at is null))
      order by l.blocked_until desc, l.id
      limit page_size
    ) b
  );
end
$$;

-- Returns the networks of an account's last 50 events and last 50 sessions.
create or replace function private.recent_networks(subject_id uuid) returns cidr[]
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(array_agg(distinct private.address_network(a.ip)), '{}')
  from (
    (
      select e.ip from public.security_events e
      where e.user_id = subject_id and e.ip is not null
      order by e.created_at desc
      limit 50
    )
    union all
    (
      select s.ip from auth.sessions s
      where s.user_id = subject_id and s.ip is not null
      order by s.refreshed_at desc nulls last
      limit 50
    )
  ) a
$$;

-- Returns a block for the console: { id, address, action, level, blockedAt, blockedUntil, active, liftedAt, liftedBy,
-- liftReason }.
create or replace function private.describe_address_block(block private.address_blocks) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', block.id,
    -- Cast to inet to drop the mask of a single address.
    'address', block.address::inet,
    'action', block.action,
    'level', block.level,
    'blockedAt', block.blocked_at,
    'blockedUntil', block.blocked_until,
    'active', block.lifted_at is null and block.blocked_until > now(),
    'liftedAt', block.lifted_at,
    'liftedBy', (select u.email from auth.users u where u.id = block.lifted_by),
    'liftReason', block.lift_reason
  )
$$;

-- Lifts an address block. Takes { actor, block, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found
-- | conflict | expired }. If the block was already lifted, returns { refused: conflict, last: { actorEmail, at } },
-- where last describes the latest change that an admin made to the address. Rate limits still apply, and a lifted block
-- does not lengthen the next one.
create or replace function private.lift_address_block(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  block private.address_blocks;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into block from private.address_blocks b where b.id = (change ->> 'block')::uuid for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  target := format('address %s', block.address::inet);
  if block.lifted_at is not null then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if block.blocked_until <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  update private.address_blocks b
  set lifted_at = now(), lifted_by = (change ->> 'actor')::uuid, lift_reason = change ->> 'reason'
  where b.id = block.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'address_block.lift',
    'target', target,
    'before', jsonb_build_object('blockedUntil', block.blocked_until, 'level', block.level),
    'after', jsonb_build_object('blockedUntil', null)
  ));
  return '{}';
end
$$;

-- Declines a workspace's open request. The change is { actor, workspace, requestedAt, reason, email, requestId, ip }.
-- The workspace's members see the reason. Returns {} or { refused: forbidden | not_found | oneself (the actor's
-- personal workspace) | request_gone }.
-- Definer: answering a request writes ai.key_approval_requests and reads email addresses in Supabase Auth's tables.
create or replace function private.decline_key_approval(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace public.workspaces := private.lock_approvable_workspace(change);
  refusal jsonb := private.approval_refusal(change, workspace);
  approval_request ai.key_approval_requests;
begin
  if refusal is not null then
    return refusal;
  end if;
  if not private.lock_open_request(change, workspace.id) then
    return jsonb_build_object('refused', 'request_gone');
  end if;
  approval_request := private.answer_approval_request(change, workspace.id);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'ai_keys.decline',
    'target', 'workspace ' || workspace.id,
    'before', jsonb_build_object(
      'state', 'open', 'requestedAt', approval_request.requested_at, 'requestedBy', approval_request.requested_by, 'note', approval_request.note
    ),
    'after', jsonb_build_object('state', 'declined')
  ));
  return '{}';
end
$$;

-- Locks the workspace's open request that was made at requestedAt. Returns false if that request is no longer open.
create or replace function private.lock_open_request(change jsonb, workspace uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform
  from ai.key_approval_requests q
  where q.workspace_id = workspace and q.state = 'open' and q.requested_at = (change ->> 'requestedAt')::timestamptz
  for no key update;
  return found;
end
$$;

-- Closes a workspace's open request and queues an email to the workspace's owners and to the requester. Does nothing if
-- the workspace has no open request.
create or replace function private.answer_approval_request(change jsonb, workspace uuid) returns ai.key_approval_requests
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  approved boolean := coalesce((change ->> 'approved')::boolean, false);
  approval_request ai.key_approval_requests;
begin
  update ai.key_approval_requests q
  set
    state = case when approved then 'approved' else 'declined' end,
    answered_at = now(),
    decline_reason = case when not approved then change ->> 'reason' end
  where q.workspace_id = workspace and q.state = 'open'
  returning * into approval_request;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, change #>> '{email,subject}', change #>> '{email,text}', now()
  from public.workspace_members m
  join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id
  join auth.users u on u.id = m.user_id
  where m.workspace_id = approval_request.workspace_id
    and (r.is_owner or m.user_id = approval_request.requested_by)
    and ai.can_be_emailed(u);
  return approval_request;
end
$$;

-- Returns a page of open requests, oldest first: [{ id (of the workspace), name, plan, owners, createdAt, requestedBy,
-- note }]. To read the next page, pass { createdAt, id } of the last request as after.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_approval_requests(after jsonb default null, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read all open requests for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((after ->> 'createdAt')::timestamptz, '-infinity');
  last_id uuid := coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000');
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', q.workspace_id,
      'name', q.name,
      'plan', q.plan_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join auth.users u on u.id = m.user_id
        where m.workspace_id = q.workspace_id
          -- Looks the owners up by role, instead of reading all members.
          and m.role_id = (select r.id from public.workspace_roles r where r.workspace_id = q.workspace_id and r.is_owner)
      ),
      'createdAt', q.requested_at,
      'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
      'note', q.note
    ) order by q.requested_at, q.workspace_id), '[]')
    from (
      select o.*, w.name, w.plan_id
      from ai.key_approval_requests o
      join public.workspaces w on w.id = o.workspace_id and w.deleted_at is null
      where o.state = 'open' and (o.requested_at, o.workspace_id) > (last_at, last_id)
      order by o.requested_at, o.workspace_id
      limit page_size
    ) q
  );
end
$$;

-- Counts open requests, but stops at a maximum.
create or replace function private.count_approval_requests(max_rows integer default 1001) returns integer
  language sql stable security invoker set search_path = ''
as $$
  select count(*)::integer
  from (
    select
    from ai.key_approval_requests q
    join public.workspaces w on w.id = q.workspace_id and w.deleted_at is null
    where q.state = 'open'
    limit max_rows
  ) o
$$;

-- Locks the workspace that a change names, and returns it. Returns null if there is none.
create or replace function private.lock_approvable_workspace(change jsonb) returns public.workspaces
  language sql volatile security invoker set search_path = ''
as $$
  -- Locks the row until commit, so that the second of two concurrent decisions sees the first.
  select * from public.workspaces w where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null for no key update
$$;

-- Returns why an admin must not approve or decline a workspace's keys. Returns null if the admin may.
create or replace function private.approval_refusal(change jsonb, workspace public.workspaces) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid)
      then jsonb_build_object('refused', 'forbidden')
    when (workspace).id is null then jsonb_build_object('refused', 'not_found')
    when (workspace).personal_user_id = (change ->> 'actor')::uuid then jsonb_build_object('refused', 'oneself')
  end
$$;

-- Registers an app with its first secret. The change is { actor, name, displayName, kind, origins, scopes, logoutUrl,
-- secretHash (the text of a bytea), reason, requestId, ip }. Returns {} or { refused: forbidden | taken (the name or an
-- origin) | invalid }.
create or replace function private.add_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'kind' = 'openid' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', change ->> 'kind',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.app_origins (origin, app_id)
    select o, app.id from jsonb_array_elements_text(change -> 'origins') as o;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'after', private.describe_app(app.id)
  ));
  return '{}';
end
$$;

-- Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The step
-- edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has secretHash (the
-- text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client allows only enable,
-- disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is outdated; last is
-- private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace }.
create or replace function private.change_app(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  step text := change ->> 'step';
  linked uuid := (change ->> 'workspace')::uuid;
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  old_app jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  -- Compare and swap: an admin who saw another state of the app must decide again.
  old_app := coalesce(private.describe_openid_client(app.id), private.describe_app(app.id))
    || jsonb_build_object('version', private.app_version(app.name));
  if old_app ->> 'version' is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;

  if app.kind = 'openid' and step not in ('enable', 'disable', 'rotate') then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if step = 'edit' then
    begin
      update private.apps a
      set
        display_name = change ->> 'displayName',
        scopes = array(select jsonb_array_elements_text(change -> 'scopes')),
        -- Until 0.3.0: servers of 0.1.0 send no logoutUrl.
        backchannel_logout_uri = case
          when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
        end
      where a.id = app.id;
      delete from private.app_origins o
      where o.app_id = app.id and o.origin not in (select jsonb_array_elements_text(change -> 'origins'));
      insert into private.app_origins (origin, app_id)
      select n, app.id from jsonb_array_elements_text(change -> 'origins') as n
      where not exists (select from private.app_origins o where o.app_id = app.id and o.origin = n);
    exception
      when unique_violation then
        return jsonb_build_object('refused', 'taken');
      when check_violation then
        return jsonb_build_object('refused', 'invalid');
    end;
  elsif step in ('enable', 'disable') then
    update private.apps a set enabled = step = 'enable' where a.id = app.id;
  elsif step = 'link' then
    if app.kind <> 'external' or not exists (
      select from public.workspaces w where w.id = linked and w.deleted_at is null
    ) then
      return jsonb_build_object('refused', 'no_workspace');
    end if;
    insert into private.app_workspaces (app_id, workspace_id, linked_by)
    values (app.id, linked, (change ->> 'actor')::uuid)
    on conflict do nothing;
  elsif step = 'unlink' then
    delete from private.app_workspaces l where l.app_id = app.id and l.workspace_id = linked;
  elsif step = 'rotate' then
    if overlap is null or overlap not between interval '0' and interval '24 hours'
      or exists (select from private.openid_clients c where c.app_id = app.id and c.is_public)
    then
      return jsonb_build_object('refused', 'invalid');
    end if;
    delete from private.app_secrets s where s.app_id = app.id and s.expires_at <= now();
    -- Never extends the life of a secret.
    update private.app_secrets s set expires_at = least(s.expires_at, now() + overlap) where s.app_id = app.id;
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case step when 'link' then 'app.link_workspace' when 'unlink' then 'app.unlink_workspace'
      when 'rotate' then 'app.rotate_secret' else 'app.' || step end,
    'target', 'app ' || app.name,
    'before', old_app - 'version' || case step when 'unlink' then jsonb_build_object('unlinked', linked) else '{}' end,
    'after', coalesce(private.describe_openid_client(app.id), private.describe_app(app.id)) || case step when 'link' then jsonb_build_object('linked', linked) else '{}' end
  ));
  return '{}';
end
$$;

-- Returns an app for display, without secret hashes. secrets has only the secrets that still work, and workspaces has
-- the first 50.
create or replace function private.describe_app(app_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'kind', a.kind,
    'enabled', a.enabled,
    'scopes', a.scopes,
    'logoutUrl', a.backchannel_logout_uri,
    'resourceUrl', a.resource_url,
    'origins', coalesce(
      (select jsonb_agg(o.origin order by o.origin) from private.app_origins o where o.app_id = a.id), '[]'
    ),
    'workspaces', coalesce((
      select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id) l
    ), '[]'),
    'secrets', coalesce((
      select jsonb_agg(
        jsonb_build_object('createdAt', s.created_at, 'expiresAt', s.expires_at) order by s.created_at desc, s.id
      )
      from private.app_secrets s
      where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
    ), '[]'),
    'createdAt', a.created_at
  )
  from private.apps a
  where a.id = describe_app.app_id
$$;

-- Returns a page of the audit log, newest first. The reader is a token's verified claims; returns null if the reader
-- may no longer read the log. The filters are action (a prefix of the action), actor (part of an email address), target
-- (part of an email address or name, or a user's id), from and to (exclusive). The argument before is { createdAt, id }
-- of the last line on the previous page.
-- Definer: the admins' email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_audit_log(
  reader jsonb,
  filters jsonb,
  before jsonb default null,
  page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read the whole log for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_action text := filters ->> 'action';
  of_actor text := lower(filters ->> 'actor');
  of_target text := lower(filters ->> 'target');
  starts_at timestamptz := coalesce((filters ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filters ->> 'to')::timestamptz, 'infinity');
  last_at timestamptz := coalesce((search_audit_log.before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((search_audit_log.before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  if not private.can_read_console(reader) then
    return null;
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', l.id,
      'actorEmail', l.actor_email,
      'action', l.action,
      'targetUserId', l.target_user_id,
      'target', l.target,
      'reason', l.reason,
      'before', l.before,
      'after', l.after,
      'requestId', l.request_id,
      'ip', host(l.ip),
      'createdAt', l.created_at
    ) order by l.created_at desc, l.id desc), '[]')
    from (
      select a.*, u.email as actor_email
      from private.admin_audit_log a
      left join auth.users u on u.id = a.actor_id
      where a.created_at >= starts_at
        and a.created_at < ends_at
        and (a.created_at, a.id) < (last_at, last_id)
        and (of_action is null or starts_with(a.action, of_action))
        and (of_actor is null or position(of_actor in lower(u.email)) > 0)
        and (of_target is null or position(of_target in lower(a.target)) > 0 or a.target_user_id::text = of_target)
      order by a.created_at desc, a.id desc
      limit page_size
    ) l
  );
end
$$;

-- Grants credits to a workspace or member, or withdraws credits. A grant first opens a missing account with the plan's
-- initial credits. The change is { actor, payer, ownerId, step: grant | withdraw, amount, reference, description (shown
-- to members in the ledger), reason, requestId, ip }. Returns {}, { repeated: true } if the reference was already used
-- for this amount, or { refused: forbidden | invalid | not_found | oneself | reference_used (for another amount) |
-- insufficient (less is available) }.
-- Definer: the service role cannot change balances.
create or replace function private.change_credits(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  payer text := change ->> 'payer';
  owner_id uuid := (change ->> 'ownerId')::uuid;
  amount numeric := (change ->> 'amount')::numeric;
  direction integer := case change ->> 'step' when 'grant' then 1 when 'withdraw' then -1 end;
  personal uuid;
  account uuid;
  changed jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if direction is null or amount is null or amount <= 0 or coalesce(change ->> 'reference', '') = '' then
    return jsonb_build_object('refused', 'invalid');
  end if;
  if payer = 'workspace' then
    select w.personal_user_id into personal from public.workspaces w where w.id = owner_id and w.deleted_at is null;
  else
    select u.id into personal from auth.users u where u.id = owner_id and u.deleted_at is null and payer = 'member';
  end if;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if personal = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if direction < 0 then
    select a.id into account from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = owner_id;
    if not found then
      return jsonb_build_object('refused', 'insufficient');
    end if;
  else
    account := ai.open_credit_account(payer, owner_id, coalesce((
      select p.initial_credits from ai.paying_plan(payer, owner_id) p
    ), 0));
  end if;
  changed := ai.change_credits(account, direction * amount, change ->> 'description', change ->> 'reference');
  if changed ->> 'outcome' = 'repeated' then
    return jsonb_build_object('repeated', true);
  elsif changed ->> 'outcome' <> 'changed' then
    return jsonb_build_object('refused', changed ->> 'outcome');
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when direction > 0 then 'credits.grant' else 'credits.withdraw' end,
    'target', payer || ' ' || owner_id,
    'before', jsonb_build_object('balance', trim_scale((changed ->> 'balance')::numeric - direction * amount)::text),
    'after', jsonb_build_object(
      'balance', trim_scale((changed ->> 'balance')::numeric)::text, 'credits', trim_scale(direction * amount)::text,
      'reference', change ->> 'reference', 'description', change ->> 'description'
    )
  ));
  return '{}';
end
$$;

-- Finds workspaces by id, or by a member's full email address or id. If nothing matches, finds them by part of the
-- name. An empty term finds the workspaces that may create keys. Returns [{ id, name, plan, personalUserId, owners,
-- members, liveKeys, approvedAt, approvedBy, request }]. request is the open request, { requestedAt, requestedBy, note
-- }, or null.
-- Definer: the email addresses of owners and admins are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.search_workspaces(term text, page_size integer default 50) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- The best index depends on the term. A term with many matches needs the index of names, and a term with few matches
  -- needs the trigram index.
  set plan_cache_mode = force_custom_plan
as $$
declare
  pattern text := private.containing(term);
  found_ids uuid[];
begin
  found_ids := case
    when term = '' then array(select a.workspace_id from ai.key_approvals a)
    else array(
      select s.id from public.workspaces s where s.id = private.uuid_or_null(term) and s.deleted_at is null
      union all
      select m.workspace_id
      from public.workspace_members m
      -- Uses an array, so that the query planner expects few accounts.
      where m.user_id = any (array(select private.find_accounts_exactly(term)))
    )
  end;
  if term <> '' and found_ids = '{}' then
    found_ids := array(
      select s.id
      from public.workspaces s
      where lower(s.name) like pattern and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    );
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'plan', w.plan_id,
      'personalUserId', w.personal_user_id,
      'owners', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]')
        from public.workspace_members m
        join auth.users u on u.id = m.user_id
        where m.workspace_id = w.id
          -- Looks the owners up by role, instead of reading all members.
          and m.role_id = (select r.id from public.workspace_roles r where r.workspace_id = w.id and r.is_owner)
      ),
      'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
      'liveKeys', (
        select count(*)
        from ai.keys k
        where k.workspace_id = w.id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
      ),
      'approvedAt', w.approved_at,
      'approvedBy', (select u.email from auth.users u where u.id = w.approved_by),
      'request', (
        select jsonb_build_object(
          'requestedAt', q.requested_at,
          'requestedBy', (select u.email from auth.users u where u.id = q.requested_by),
          'note', q.note
        )
        from ai.key_approval_requests q
        where q.workspace_id = w.id and q.state = 'open'
      )
    ) order by w.name, w.id), '[]')
    from (
      select s.*, a.approved_at, a.approved_by
      from public.workspaces s
      left join ai.key_approvals a on a.workspace_id = s.id
      where s.id = any (found_ids) and s.deleted_at is null
      order by s.name, s.id
      limit page_size
    ) w
  );
end
$$;

-- Allows a workspace to create keys, or withdraws the approval. The change is { actor, workspace, approved, reason,
-- requestedAt, email: { subject, text }, requestId, ip }. An approval also closes an open request and sends the email.
-- Existing keys keep working after a withdrawal. Returns {} or { refused: forbidden | not_found | oneself (the actor's
-- personal workspace) | conflict (nothing to change, with last) | request_gone (no open request has this requestedAt)
-- }.
-- Definer: answering a request writes ai.key_approval_requests and reads email addresses in Supabase Auth's tables.
create or replace function private.set_key_approval(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  approve boolean := (change ->> 'approved')::boolean;
  workspace public.workspaces;
  old_approval ai.key_approvals;
  new_approval ai.key_approvals;
  refusal jsonb;
  target text;
begin
  select * into workspace from private.lock_approvable_workspace(change);
  refusal := private.approval_refusal(change, workspace);
  if refusal is not null then
    return refusal;
  end if;
  target := 'workspace ' || workspace.id;
  select * into old_approval from ai.key_approvals a where a.workspace_id = workspace.id;
  if found = approve then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  if approve then
    if change ->> 'requestedAt' is not null and not private.lock_open_request(change, workspace.id) then
      return jsonb_build_object('refused', 'request_gone');
    end if;
    insert into ai.key_approvals (workspace_id, approved_by) values (workspace.id, actor) returning * into new_approval;
    perform private.answer_approval_request(change, workspace.id);
  else
    delete from ai.key_approvals a where a.workspace_id = workspace.id;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when approve then 'ai_keys.approve' else 'ai_keys.withdraw' end,
    'target', target,
    'before', jsonb_build_object(
      'approved', not approve, 'approvedAt', old_approval.approved_at, 'approvedBy', old_approval.approved_by
    ),
    'after', jsonb_build_object('approved', approve, 'approvedAt', new_approval.approved_at, 'approvedBy', new_approval.approved_by)
  ));
  return '{}';
end
$$;

-- Returns the workspaces that were granted a model separately from their plan, sorted by name. The parameter "most"
-- limits the number of workspaces.
create or replace function private.granted_workspaces(model text, max_rows integer default 100)
  returns table (id uuid, name text)
  language sql stable security invoker set search_path = ''
as $$
  select w.id, w.name
  from ai.model_grants g
  join public.workspaces w on w.id = g.workspace_id and w.deleted_at is null
  where g.model_id = model
  order by w.name, w.id
  limit max_rows
$$;

-- Grants a model to a plan or to one workspace, or withdraws the grant. The change is { actor, model, plan or
-- workspace, granted, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | no_grantee | oneself
-- (the actor's personal workspace) | conflict (nothing to change, with last) }.
create or replace function private.set_model_grant(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  plan text := change ->> 'plan';
  workspace uuid := (change ->> 'workspace')::uuid;
  grants boolean := (change ->> 'granted')::boolean;
  grantee jsonb := jsonb_strip_nulls(jsonb_build_object('plan', plan, 'workspace', workspace));
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if exists (select from public.workspaces w where w.id = workspace and w.personal_user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if num_nonnulls(plan, workspace) <> 1
    or plan is not null and not exists (select from ai.plans p where p.id = plan)
    or workspace is not null and not exists (select from public.workspaces w where w.id = workspace and w.deleted_at is null)
  then
    return jsonb_build_object('refused', 'no_grantee');
  end if;
  if grants then
    insert into ai.model_grants (model_id, plan_id, workspace_id) values (model.id, plan, workspace) on conflict do nothing;
  else
    delete from ai.model_grants g
    where g.model_id = model.id and (g.plan_id, g.workspace_id) is not distinct from (plan, workspace);
  end if;
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when grants then 'model.grant' else 'model.withdraw' end,
    'target', 'model ' || model.id,
    'before', grantee || jsonb_build_object('granted', not grants),
    'after', grantee || jsonb_build_object('granted', grants)
  ));
  return '{}';
end
$$;

-- Adds, edits, moves or removes a route. The other routes keep their order. Positions count from 1. The change is {
-- actor, model, version (private.model_version), place (the route's current position, or null to add a route), route,
-- reason, requestId, ip }. route is null to remove the route, otherwise { position, providerId, providerModel, enabled,
-- trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds }. Does not
-- change the provider's prices. Returns {} or { refused: forbidden | not_found | route_taken | invalid }, or { refused:
-- conflict, last (private.last_admin_action) }.
create or replace function private.change_model_route(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  place integer := (change ->> 'place')::integer;
  fields jsonb := nullif(change -> 'route', 'null');
  before jsonb;
  other_routes jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  select to_jsonb(r) into before from ai.model_routes r where r.model_id = model.id and r.position = place;
  if (place is not null and before is null) or (place is null and fields is null) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select coalesce(jsonb_agg(to_jsonb(r) order by r.position), '[]') into other_routes
  from ai.model_routes r
  where r.model_id = model.id and r.position is distinct from place;
  if jsonb_path_exists(
    other_routes, '$[*] ? (@.provider_id == $provider && @.provider_model == $model)',
    jsonb_build_object('provider', fields -> 'providerId', 'model', fields -> 'providerModel')
  ) then
    return jsonb_build_object('refused', 'route_taken');
  end if;

  begin
    delete from ai.model_routes r where r.model_id = model.id;
    insert into ai.model_routes
    select new_route.*
    from (
      select o.route, row_number() over (order by o.at) as position
      from (
        -- Inserts the route before the other route that holds the requested position.
        select l.route, 2 * l.number as at from jsonb_array_elements(other_routes) with ordinality as l (route, number)
        union all
        select
          jsonb_build_object(
            'provider_id', fields -> 'providerId',
            'provider_model', fields -> 'providerModel',
            'enabled', fields -> 'enabled',
            'trusts_stated_cost', fields -> 'trustsStatedCost',
            'tier_multipliers', (
              select coalesce(jsonb_object_agg(t.key, t.value::numeric), '{}')
              from jsonb_each_text(fields -> 'tierMultipliers') as t
            ),
            'first_byte_seconds', fields -> 'firstByteSeconds',
            'idle_seconds', fields -> 'idleSeconds',
            'total_seconds', fields -> 'totalSeconds'
          ),
          2 * (fields ->> 'position')::integer - 1
        where fields is not null
      ) as o
    ) as n
    cross join jsonb_populate_record(
      null::ai.model_routes, n.route || jsonb_build_object('model_id', model.id, 'position', n.position)
    ) as new_route;
  exception
    when check_violation or not_null_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when before is null then 'model.add_route' when fields is null then 'model.remove_route' else 'model.edit_route' end,
    'target', 'model ' || model.id,
    'before', before,
    'after', (
      select to_jsonb(r)
      from ai.model_routes r
      where r.model_id = model.id and r.provider_id = fields ->> 'providerId' and r.provider_model = fields ->> 'providerModel'
    )
  ));
  return '{}';
end
$$;

-- Returns a digest of a model's settings and routes. A change to the settings or routes includes the digest that the
-- admin saw, so that a concurrent change is detected.
create or replace function private.model_version(model text) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(to_jsonb(m)::text || coalesce((
    select jsonb_agg(to_jsonb(r) order by r.position)::text from ai.model_routes r where r.model_id = m.id
  ), ''))
  from ai.models m
  where m.id = model
$$;

-- Returns whether a model was added in the console and never enabled. Such a model was never used by a run.
create or replace function private.was_never_enabled(model ai.models) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select not model.enabled and coalesce(
    bool_or(l.action = 'model.add') and not bool_or(l.action in ('model.enable', 'model.disable')), false
  )
  from private.admin_audit_log l
  where l.target = 'model ' || model.id
$$;

-- Edits a model, or adds a disabled model if version is null. The change is { actor, model, version
-- (private.model_version), displayName, ownedBy, studioDefault, contextWindow, outputLimit, defaultOutputLimit, voices, reason, requestId,
-- ip }. A new model also has kind. An edit also has isDefault and defaultOfKind. defaultOfKind is the id of the default
-- model that the admin saw, or null. Returns {} or { refused: forbidden | not_found | id_taken | invalid |
-- default_changed | conflict (with last) }.
create or replace function private.save_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  saved_model ai.models;
  old_default ai.models;
  all_voices text[] := nullif(array(select jsonb_array_elements_text(change -> 'voices')), '{}');
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'version' is not null then
    select * into model from ai.models m where m.id = change ->> 'model' for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model.id) <> change ->> 'version' then
      return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
    end if;
  end if;

  begin
    if model.id is null then
      insert into ai.models (
        id, kind, display_name, owned_by, enabled, studio_default, context_window, output_limit, default_output_limit, voices
      )
      values (
        change ->> 'model', change ->> 'kind', change ->> 'displayName', change ->> 'ownedBy', false,
        (change ->> 'studioDefault')::boolean, (change ->> 'contextWindow')::integer, (change ->> 'outputLimit')::integer,
        (change ->> 'defaultOutputLimit')::integer, all_voices
      )
      on conflict (id) do nothing
      returning * into saved_model;
      if not found then
        return jsonb_build_object('refused', 'id_taken');
      end if;
    else
      -- Unsets only the default that the admin saw. If another model has become the default, the update below violates
      -- the unique index.
      if (change ->> 'isDefault')::boolean then
        update ai.models m set is_default = false
        where m.id = change ->> 'defaultOfKind' and m.id <> model.id and m.kind = model.kind and m.is_default
        returning * into old_default;
      end if;
      update ai.models m
      set
        display_name = change ->> 'displayName',
        owned_by = change ->> 'ownedBy',
        studio_default = (change ->> 'studioDefault')::boolean,
        context_window = (change ->> 'contextWindow')::integer,
        output_limit = (change ->> 'outputLimit')::integer,
        -- Until 0.3.0: servers of release 0.1.0 omit it, and may lower the output limit below it.
        default_output_limit = case
          when change ? 'defaultOutputLimit' then (change ->> 'defaultOutputLimit')::integer
          when m.default_output_limit is not null then
            least(m.default_output_limit, (change ->> 'outputLimit')::integer)
        end,
        voices = all_voices,
        is_default = (change ->> 'isDefault')::boolean
      where m.id = model.id
      returning * into saved_model;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'default_changed');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when model.id is null then 'model.add' else 'model.edit' end,
    'target', 'model ' || saved_model.id,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(saved_model)
  ));
  if old_default.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || old_default.id,
      'before', jsonb_build_object('is_default', true),
      'after', jsonb_build_object('is_default', false)
    ));
  end if;
  return '{}';
end
$$;

-- Deletes a model that was never enabled, with its routes, prices and grants. The change is { actor, model, version,
-- reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | used | conflict }. conflict comes with
-- last, the last admin action on the model.
create or replace function private.delete_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) <> change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if not private.was_never_enabled(model) then
    return jsonb_build_object('refused', 'used');
  end if;
  delete from ai.model_prices p where p.model_id = model.id;
  delete from ai.models m where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.delete', 'target', 'model ' || model.id, 'before', to_jsonb(model)
  ));
  return '{}';
end
$$;

-- Returns { accounts, waiting } for the console's first page: the accounts that match the term, or the page of all
-- accounts before the given one if the term is empty, and how many workspaces wait for approval.
create or replace function private.read_accounts_page(term text, before jsonb, page_size integer) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'accounts', case
      when term = '' then private.list_accounts(before, page_size)
      else private.search_accounts(term, page_size)
    end,
    'waiting', private.count_approval_requests()
  )
$$;

-- Returns { workspaces, waiting }: the workspaces that match the term, and how many wait for approval.
create or replace function private.read_workspaces_page(term text, page_size integer) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'workspaces', private.search_workspaces(term, page_size), 'waiting', private.count_approval_requests()
  )
$$;

-- Returns { requests, count }: a page of the requests for approval, and how many there are.
create or replace function private.read_approvals_page(after jsonb, page_size integer) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'requests', private.list_approval_requests(after, page_size), 'count', private.count_approval_requests()
  )
$$;

-- Returns { account, policy }, both null if the account doesn't exist.
create or replace function private.read_subject(subject_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'account', private.account_overview(subject_id), 'policy', private.required_mfa_of(subject_id)
  )
$$;

-- Returns the result of read_subject with { timeline, blocks }: a page of the account's timeline, and the active blocks
-- of its recent addresses.
create or replace function private.read_account_page(
  subject_id uuid, timeline_before jsonb, timeline_page_size integer, block_page_size integer
)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select private.read_subject(subject_id) || jsonb_build_object(
    'timeline', private.account_timeline(subject_id, timeline_before, timeline_page_size),
    'blocks', private.list_address_blocks(subject_id => read_account_page.subject_id, page_size => block_page_size)
  )
$$;

-- Adds or edits a plan. The change is { actor, plan, seen (the version that the admin saw, or null to add a plan),
-- name, payer, markup, initialCredits, lowCredits, requestsPerMinute, tokensPerMinute, reason, requestId, ip }. Runs in
-- progress keep the markup with which they began. Returns {} or { refused: forbidden | not_found | taken | payer_fixed
-- (a credit account already pays for the plan) | conflict (with last) }.
create or replace function private.save_plan(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  plan_id text := change ->> 'plan';
  old_plan ai.plans;
  saved ai.plans;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'seen' is null then
    insert into ai.plans (id, name, payer) values (plan_id, change ->> 'name', change ->> 'payer') on conflict do nothing;
    if not found then
      return jsonb_build_object('refused', 'taken');
    end if;
  end if;
  select * into old_plan from ai.plans p where p.id = plan_id for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if md5(old_plan::text) <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('plan ' || plan_id));
  end if;
  if old_plan.payer <> change ->> 'payer' and ai.plan_has_payers(old_plan) then
    return jsonb_build_object('refused', 'payer_fixed');
  end if;
  update ai.plans p
  set
    name = change ->> 'name',
    payer = change ->> 'payer',
    markup = (change ->> 'markup')::numeric,
    initial_credits = (change ->> 'initialCredits')::numeric,
    low_credits = (change ->> 'lowCredits')::numeric,
    requests_per_minute = (change ->> 'requestsPerMinute')::integer,
    tokens_per_minute = (change ->> 'tokensPerMinute')::bigint
  where p.id = plan_id
  returning * into saved;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when change ->> 'seen' is null then 'plan.add' else 'plan.edit' end,
    'target', 'plan ' || plan_id,
    'before', case when change ->> 'seen' is not null then to_jsonb(old_plan) end,
    'after', to_jsonb(saved)
  ));
  return '{}';
end
$$;

-- Returns whether a credit account pays for a plan. If so, the plan's payer cannot change.
create or replace function ai.plan_has_payers(plan ai.plans) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select case (plan).payer
    when 'workspace' then exists (
      select
      from public.workspaces w
      join ai.credit_accounts a on a.workspace_id = w.id
      where w.plan_id = (plan).id and w.deleted_at is null
    )
    else exists (
      select
      from public.workspaces w
      join public.workspace_members m on m.workspace_id = w.id
      join ai.credit_accounts a on a.user_id = m.user_id
      where w.plan_id = (plan).id and w.deleted_at is null
    )
  end
$$;

-- Moves a workspace to another plan. Each credit account keeps its balance, and calls in progress are charged to the
-- account with which they began. The change is { actor, workspace, seen (the plan that the admin saw), plan, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself (the actor's personal workspace) | no_plan
-- (the plan is unknown, or is already the workspace's plan) | conflict (another admin changed the plan; last is
-- private.last_admin_action) }.
create or replace function private.move_workspace(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  workspace public.workspaces;
  target text;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into workspace
  from public.workspaces w
  where w.id = (change ->> 'workspace')::uuid and w.deleted_at is null
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if workspace.personal_user_id = actor then
    return jsonb_build_object('refused', 'oneself');
  end if;
  target := 'workspace ' || workspace.id;
  if workspace.plan_id <> change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(target));
  end if;
  -- Locks the new plan, so that the plan's payer does not change before the workspace moves.
  perform from ai.plans p where p.id = change ->> 'plan' and p.id <> workspace.plan_id for share;
  if not found then
    return jsonb_build_object('refused', 'no_plan');
  end if;
  update public.workspaces w set plan_id = change ->> 'plan' where w.id = workspace.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'plan.move_workspace',
    'target', target,
    'before', jsonb_build_object('plan', workspace.plan_id),
    'after', jsonb_build_object('plan', change ->> 'plan')
  ));
  return '{}';
end
$$;

-- Adds all of the given prices with private.add_model_price, or none of them. The change is { actor, from, prices: [{
-- model, providerId, serviceTier, minInputTokens, latest, inputUsd, … }], reason, requestId, ip }. Returns {} or {
-- refused, model }. refused is too_many (there must be 1 to 500 prices), scheduled (a later price already exists for
-- the same model, provider, service tier and input size) or a refusal of private.add_model_price.
create or replace function private.add_proposed_prices(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  proposed jsonb;
  scope text;
  -- The newest price that the admin saw, by model, provider and number of input tokens.
  seen jsonb := '{}';
  newest text;
  answer jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if coalesce(jsonb_array_length(change -> 'prices'), 0) not between 1 and 500 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  -- Models are locked in one order, so that two admins cannot deadlock.
  perform from ai.models m
  where m.id in (select p.value ->> 'model' from jsonb_array_elements(change -> 'prices') as p)
  order by m.id
  for update;
  for proposed in select p.value from jsonb_array_elements(change -> 'prices') as p loop
    scope := jsonb_build_array(proposed -> 'model', proposed -> 'providerId', proposed -> 'minInputTokens')::text;
    newest := private.latest_price(
      proposed ->> 'model', proposed ->> 'providerId', (proposed ->> 'minInputTokens')::integer
    );
    -- The first price of a scope must have been based on the newest price in the price book. Adding that first price
    -- changes the newest price, so every later price of the scope must have the same `latest` as the first.
    if proposed ->> 'latest' is distinct from (case when seen ? scope then seen ->> scope else newest end) then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || (proposed ->> 'model')));
    elsif exists (
      select from ai.model_prices p
      where p.model_id = proposed ->> 'model' and p.provider_id = proposed ->> 'providerId'
        and p.service_tier = proposed ->> 'serviceTier' and p.min_input_tokens = (proposed ->> 'minInputTokens')::integer
        and lower(p.valid) > now()
    ) then
      answer := jsonb_build_object('refused', 'scheduled');
    else
      seen := seen || jsonb_build_object(scope, proposed -> 'latest');
      answer := private.add_model_price((change - 'prices') || proposed || jsonb_build_object('latest', newest));
    end if;
    if answer ? 'refused' then
      raise exception using errcode = 'GHP01', message = 'refused', detail = (
        answer || jsonb_build_object('model', proposed -> 'model')
      )::text;
    end if;
  end loop;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics scope = pg_exception_detail;
    return scope::jsonb;
end
$$;

-- Returns a price for the console. Amounts are text, so no digit is lost.
create or replace function private.describe_price(price ai.model_prices) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', price.id,
    'providerId', price.provider_id,
    'serviceTier', price.service_tier,
    'minInputTokens', price.min_input_tokens,
    'from', lower(price.valid),
    'until', upper(price.valid),
    'current', price.valid @> now(),
    'inputUsd', price.input_usd_per_million::text,
    'cachedInputUsd', price.cached_input_usd_per_million::text,
    'cacheWriteUsd', price.cache_write_usd_per_million::text,
    'cacheWrite1hUsd', price.cache_write_1h_usd_per_million::text,
    'outputUsd', price.output_usd_per_million::text,
    'audioInputUsd', price.audio_input_usd_per_million::text,
    'audioOutputUsd', price.audio_output_usd_per_million::text,
    'imageInputUsd', price.image_input_usd_per_million::text,
    'requestFeeUsd', price.request_fee_usd::text
  )
$$;

-- Returns the id of a model's newest price at a provider for a minimum number of input tokens, in any service tier.
-- Returns null if there is none. A request to add a price names the newest price that the admin saw, so a concurrent
-- change is detected.
create or replace function private.latest_price(model text, provider text, tier integer) returns text
  language sql stable security invoker set search_path = ''
as $$
  select max(p.id)::text
  from ai.model_prices p
  where p.model_id = model and p.provider_id = provider and p.min_input_tokens = tier
$$;

-- Returns the routes of all models with their prices: [{ model, displayName, limits, providerId, providerModel, prices
-- }]. limits is null unless the model is for chats. For each service tier and input size, prices has the current price,
-- or else the next price, or else the last price. Each price has the fields of private.describe_price and a field
-- latest, the result of private.latest_price.
create or replace function private.list_route_prices() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'limits', case m.kind when 'chat' then jsonb_build_object(
      'contextWindow', m.context_window, 'outputLimit', m.output_limit, 'defaultOutputLimit', m.default_output_limit
    ) end,
    'providerId', r.provider_id,
    'providerModel', r.provider_model,
    'prices', (
      select coalesce(jsonb_agg(
        private.describe_price(t)
          || jsonb_build_object('latest', private.latest_price(r.model_id, r.provider_id, t.min_input_tokens))
        order by t.service_tier <> 'default', t.service_tier, t.min_input_tokens
      ), '[]')
      from (
        select distinct on (p.service_tier, p.min_input_tokens) p.*
        from ai.model_prices p
        where p.model_id = r.model_id and p.provider_id = r.provider_id
        order by
          p.service_tier, p.min_input_tokens, p.valid @> now() desc, lower(p.valid) > now() desc,
          abs(extract(epoch from lower(p.valid) - now()))
      ) as t
    )
  ) order by m.id, r.provider_id, r.provider_model), '[]')
  from (select distinct l.model_id, l.provider_id, l.provider_model from ai.model_routes l) as r
  join ai.models m on m.id = r.model_id
$$;

-- Adds a price, which begins immediately unless from has a later time. The new price ends the previous price, and ends
-- when the next price begins. The change is { actor, model, providerId, serviceTier, minInputTokens, latest (id of the
-- newest price that the admin saw, or null), seen (number of prices that the admin saw), from, inputUsd,
-- cachedInputUsd, cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd,
-- requestFeeUsd, reason, requestId, ip }. Returns { from, until } or { refused: forbidden | not_found | no_route | past
-- | taken | conflict (with last) }.
create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  new_price ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- Serializes price changes of a model.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- A price can't start in the past, because runs keep the prices they were charged at.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- Refuses the change if prices of any service tier have changed since the admin saw them. Also compares the number of
  -- prices, because cancelling an older price leaves the newest one the same.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier)
    or (change ->> 'seen')::integer <> (
      select count(*)
      from ai.model_prices p
      where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier
    ) then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if lower(old.valid) = starts then
    return jsonb_build_object('refused', 'taken');
  end if;
  select min(lower(p.valid)) into ends
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and lower(p.valid) > starts;
  if old.id is not null then
    update ai.model_prices p set valid = tstzrange(lower(old.valid), starts) where p.id = old.id;
  end if;
  insert into ai.model_prices (
    model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million, cached_input_usd_per_million,
    cache_write_usd_per_million, cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million,
    audio_output_usd_per_million, image_input_usd_per_million, request_fee_usd
  )
  values (
    model.id, change ->> 'providerId', served, tier, tstzrange(starts, ends), (change ->> 'inputUsd')::numeric,
    (change ->> 'cachedInputUsd')::numeric, (change ->> 'cacheWriteUsd')::numeric, (change ->> 'cacheWrite1hUsd')::numeric,
    (change ->> 'outputUsd')::numeric, (change ->> 'audioInputUsd')::numeric, (change ->> 'audioOutputUsd')::numeric,
    (change ->> 'imageInputUsd')::numeric, (change ->> 'requestFeeUsd')::numeric
  )
  returning * into new_price;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(new_price)
  ));
  return jsonb_build_object('from', lower(new_price.valid), 'until', upper(new_price.valid));
end
$$;

-- Cancels a price that begins in more than a minute. The previous price then stays in force until the next price
-- begins. The change is { actor, model, price, previous (id of the previous price that the admin saw, or null), until
-- (the end of the price that the admin saw), reason, requestId, ip }. Returns {} or { refused: forbidden | not_found |
-- started | conflict (with last) }.
create or replace function private.cancel_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  price ai.model_prices;
  old ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into price from ai.model_prices p where p.id = (change ->> 'price')::bigint and p.model_id = model.id;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = price.provider_id and p.service_tier = price.service_tier
    and p.min_input_tokens = price.min_input_tokens and upper(p.valid) = lower(price.valid);
  -- The admin decided based on the prices before and after this price, so neither may have changed since.
  if price.id is null or old.id::text is distinct from change ->> 'previous'
    or upper(price.valid) is distinct from (change ->> 'until')::timestamptz then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  -- Refuses to cancel a price that begins within a minute, because calls could be charged that price before the
  -- cancellation commits. Uses clock_timestamp(), because now() is the time before the wait for the lock.
  if lower_inf(price.valid) or lower(price.valid) <= clock_timestamp() + interval '1 minute' then
    return jsonb_build_object('refused', 'started');
  end if;
  delete from ai.model_prices p where p.id = price.id;
  update ai.model_prices p set valid = tstzrange(lower(old.valid), upper(price.valid)) where p.id = old.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.cancel_price',
    'target', 'model ' || model.id,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;

-- Returns the providers that have enabled routes or recent calls: [{ provider, routes, answeredLastHour (runs),
-- lastAnswerAt, failedLastHour (attempts), failures }]. failures has one row for each class of failure in the last 24
-- hours, latest first: [{ failure, failed, lastAt }].
-- Definer: functions that read runs are not granted to the service role.
create or replace function private.list_provider_health() returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with failures as (
    select
      f.provider_id, f.failure, count(*) as failed, max(f.at) as last_at,
      count(*) filter (where f.at > now() - interval '1 hour') as last_hour
    from ai.failed_attempts f
    where f.at > now() - interval '24 hours'
    group by f.provider_id, f.failure
  ), answers as (
    -- Uses the primary key of runs, which begins with their time.
    select ai.run_provider(r.routes, r.route) as provider_id, count(*) as answered, max(r.created_at) as last_at
    from ai.runs r
    where r.created_at > now() - interval '1 hour' and r.status = 'succeeded'
    group by 1
  ), routes as (
    select r.provider_id, count(*) as routes
    from ai.model_routes r
    join ai.models m on m.id = r.model_id and m.enabled
    where r.enabled
    group by r.provider_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.id,
    'routes', coalesce(r.routes, 0),
    'answeredLastHour', coalesce(a.answered, 0),
    'lastAnswerAt', a.last_at,
    'failedLastHour', coalesce((select sum(f.last_hour) from failures f where f.provider_id = p.id), 0),
    'failures', (
      select coalesce(jsonb_agg(jsonb_build_object('failure', f.failure, 'failed', f.failed, 'lastAt', f.last_at)
        order by f.last_at desc, f.failure), '[]')
      from failures f
      where f.provider_id = p.id
    )
  ) order by p.id), '[]')
  from (
    select provider_id from routes union select provider_id from failures union select provider_id from answers
  ) as p (id)
  left join routes r on r.provider_id = p.id
  left join answers a on a.provider_id = p.id
  where p.id is not null
$$;

-- Returns the routes that runs of the last 15 minutes skipped during a cooldown, latest first: [{ model, displayName,
-- provider, providerModel, skipped (number of times), lastAt }]. Derived from runs, because only the memory of the
-- gateway's functions holds the cooldowns.
create or replace function private.list_skipped_routes(max_rows integer default 50) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', s.model_id,
    'displayName', s.display_name,
    'provider', s.provider,
    'providerModel', s.provider_model,
    'skipped', s.skipped,
    'lastAt', s.last_at
  ) order by s.last_at desc, s.model_id, s.provider, s.provider_model), '[]')
  from (
    select r.model_id, max(m.display_name) as display_name, a.provider, a.model as provider_model, count(*) as skipped,
      max(r.created_at) as last_at
    from ai.runs r
    cross join lateral jsonb_to_recordset(r.attempts) as a (provider text, model text, failure text)
    left join ai.models m on m.id = r.model_id
    -- Runs store skipped attempts only when they end, so the window is longer than the longest cooldown (five minutes).
    where r.created_at > now() - interval '15 minutes' and r.attempts @> '[{"failure": "skipped"}]' and a.failure = 'skipped'
    group by r.model_id, a.provider, a.model
    order by last_at desc
    limit max_rows
  ) s
$$;

-- Returns a page of the enabled models, each with its routes in order. hasPrice is whether a route has the price that
-- calls need (ai.open_routes). failedLastHour and lastFailure describe failed attempts, which are kept for seven days.
-- For the next page, pass the sortsAs of the last model as after. Without page_size, returns all models.
create or replace function private.list_provider_routes(after text[] default null, page_size integer default null)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'sortsAs', m.sorts_as,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'provider', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'hasPrice', exists (
          select from ai.model_prices p
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.service_tier = 'default'
            and p.valid @> now()
        ),
        'failedLastHour', (
          select count(*)
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
            and f.at > now() - interval '1 hour'
        ),
        'lastFailure', (
          select jsonb_build_object(
            'at', f.at,
            'failure', f.failure,
            'status', f.status,
            'upstreamRequestId', f.upstream_request_id,
            'runId', f.run_id
          )
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
          order by f.at desc, f.id desc
          limit 1
        )
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where l.enabled and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

-- Returns the enabled models with the most failed attempts on their routes in the last hour: [{ displayName, failed }].
create or replace function private.list_failing_models(max_rows integer default 20) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object('displayName', f.display_name, 'failed', f.failed)
    order by f.failed desc, f.display_name), '[]')
  from (
    select m.display_name, count(*) as failed
    from ai.failed_attempts a
    join ai.model_routes r using (model_id, provider_id, provider_model)
    join ai.models m on m.id = a.model_id
    where a.at > now() - interval '1 hour' and m.enabled
    group by m.id, m.display_name
    order by failed desc, m.display_name
    limit max_rows
  ) f
$$;

-- Returns a provider's name in lower case, as names are stored and compared. Older rows still contain the name exactly
-- as it was sent. Sets no search_path, so Postgres can inline the function and use the indexes on lower(provider).
create or replace function ai.provider_name(name text) returns text
  language sql immutable security invoker
as $$
  select lower(name)
$$;

create or replace view ai.cost_book_entries with (security_invoker = true) as
  select
    c.workspace_id as book_id, c.app_id, c.id, ai.provider_name(c.provider) as provider, c.provider as spelling,
    c.account_id, c.external_run_id, c.granularity, c.service, c.amount_usd, c.occurred_at, c.observed_at, c.recorded_at,
    c.revision, c.import_id, c.original
  from ai.external_provider_costs c;

create or replace view ai.invoice_book_entries with (security_invoker = true) as
  select
    i.workspace_id as book_id, i.app_id, i.id, ai.provider_name(i.provider) as provider, i.provider as spelling,
    i.account_id, i.reference, i.kind, i.replaces, i.amount_usd, i.issued_on, i.period_start, i.period_end,
    i.reviewed_at, i.recorded_at
  from ai.external_provider_invoices i;

-- Returns the nil UUID, which is the book_id and app_id of the platform's records. Sets no search_path, so Postgres can
-- inline the function.
create or replace function ai.platform_book() returns uuid
  language sql immutable security invoker
as $$
  select '00000000-0000-0000-0000-000000000000'::uuid
$$;

-- Returns the cost with the given normalized provider name, account and external run id. If several rows differ only in
-- the case of the provider's name, returns the last observed. Sets no search_path, so Postgres can inline the function.
create or replace function ai.find_cost(book uuid, app uuid, name text, account text, run_id text)
  returns setof ai.cost_book_entries
  language sql stable security invoker
as $$
  select *
  from ai.cost_book_entries e
  where e.book_id = book
    and e.app_id = app
    and e.provider = name
    and e.external_run_id = run_id
    and e.account_id is not distinct from account
  order by e.observed_at desc, e.id desc
  limit 1
$$;

-- Returns a book's costs that are stored more than once, under different spellings of the provider's name. Only the
-- most recently observed row of each cost counts. Not granted to any role.
create or replace function ai.cost_clashes(book uuid) returns table (
  provider text, spellings text[], account_id text, external_run_id text, from_day date, to_day date
)
  language sql stable security invoker set search_path = ''
as $$
  select c.provider, array_agg(c.spelling order by c.spelling collate "C"), c.account_id, c.external_run_id,
    (min(c.occurred_at) at time zone 'UTC')::date, (max(c.occurred_at) at time zone 'UTC')::date
  from ai.cost_book_entries c
  where c.book_id = book and exists (
    -- The comparison with lower(o.provider) matches a partial index.
    select
    from ai.external_provider_costs o
    where o.workspace_id = book
      and o.app_id = c.app_id
      and o.external_run_id = c.external_run_id
      and o.provider <> lower(o.provider)
      and ai.provider_name(o.provider) = c.provider
      and o.account_id is not distinct from c.account_id
  )
  group by c.app_id, c.provider, c.account_id, c.external_run_id
  having count(*) > 1
$$;

-- Returns whether a text is a valid external id of an account, service, run or reference: 1 to 256 characters, without
-- control characters and without white space at either end.
create or replace function ai.is_external_id(id text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select char_length(id) between 1 and 256 and id !~ '[[:cntrl:]]|^[[:space:]]|[[:space:]]$'
$$;

-- Returns why a person or a satellite's session may not use a book, or null if they may. A workspace's book is for
-- members with the permission use_ai_studio, and the platform's for infrastructure admins: { outcome: not_allowed }. A
-- session opens only workspaces' books: { refused } (private.studio_refusal). Not granted to any role.
create or replace function ai.book_refusal(member_id uuid, book uuid, token_hash bytea default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when token_hash is not null then (
      select jsonb_build_object('refused', s.reason)
      from private.studio_refusal(token_hash, book) as s (reason)
      where s.reason is not null
    )
    when book = ai.platform_book() and exists (
      select from private.infrastructure_admins a where a.user_id = member_id
    ) then null
    when private.user_has_workspace_permission(member_id, book, 'use_ai_studio') then null
    else '{"outcome": "not_allowed"}'::jsonb
  end
$$;

-- Returns { outcome: app_not_linked } if a book can't have records of an app, otherwise null. A workspace's book has
-- records of its linked apps. The platform's records belong to no app, so their app is the nil UUID. Not granted to any
-- role.
create or replace function ai.app_refusal(book uuid, app uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select '{"outcome": "app_not_linked"}'::jsonb
  where not coalesce(
    case book when ai.platform_book() then app = ai.platform_book() else ai.app_can_act_in_workspace(app, book) end,
    false
  )
$$;

-- Returns the first error in a document as { outcome: invalid, param, message }, or null if the document is valid. Not
-- granted to any role.
create or replace function ai.cost_document_fault(document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  zone text := document ->> 'timeZone';
  found_fault record;
begin
  if coalesce(document ->> 'provider', '') !~ '^[A-Za-z0-9._:-]{1,128}$' then
    return ai.cost_fault('provider', 'A provider''s name takes 1 to 128 of A-Z a-z 0-9 . _ : -');
  elsif coalesce(char_length(document ->> 'format'), 0) not between 1 and 64 or document ->> 'format' ~ '[[:cntrl:]]' then
    return ai.cost_fault('format', 'The format is missing.');
  elsif coalesce(char_length(document ->> 'fileName'), 0) not between 1 and 255
    or document ->> 'fileName' ~ '[[:cntrl:]]' then
    return ai.cost_fault('fileName', 'A file''s name has 1 to 255 characters.');
  elsif coalesce(document ->> 'sha256', '') !~ '^[0-9a-f]{64}$' then
    return ai.cost_fault('sha256', 'The file''s SHA-256 is missing.');
  elsif jsonb_typeof(coalesce(document -> 'rates', '{}')) <> 'object' then
    return ai.cost_fault('rates', 'Rates name a currency each.');
  elsif jsonb_typeof(coalesce(document -> 'clear', 'false')) <> 'boolean' then
    return ai.cost_fault('clear', 'clear is true or false.');
  end if;
  -- IANA names, such as America/Los_Angeles. Postgres also accepts offsets, which have no summer time.
  begin
    if coalesce(zone, '') !~ '^[A-Za-z]+([/_+-][A-Za-z0-9_+-]+)*$' or char_length(zone) > 64 or now() at time zone zone is null then
      return ai.cost_fault('timeZone', 'The time zone of the provider''s days has a name such as America/Los_Angeles.');
    end if;
  exception
    when invalid_parameter_value then
      return ai.cost_fault('timeZone', format('%s is not a known time zone.', zone));
  end;
  select r.key into found_fault
  from jsonb_each(coalesce(document -> 'rates', '{}')) r
  where r.key !~ '^[A-Z]{3}$'
    or r.key = 'USD'
    or jsonb_typeof(r.value) <> 'string'
    or r.value #>> '{}' !~ '^[0-9]{1,12}(\.[0-9]{1,12})?$'
    or r.value #>> '{}' ~ '^[0.]+$'
  limit 1;
  if found then
    return ai.cost_fault(
      'rates', format('The rate of %s is the USD for one unit: above 0, with at most 12 decimals.', found_fault.key)
    );
  end if;
  if jsonb_typeof(document -> 'days') is distinct from 'array'
    or jsonb_array_length(document -> 'days') not between 1 and 20000 then
    return ai.cost_fault('days', 'A file has 1 to 20,000 days of accounts.');
  end if;
  select d.value as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where not coalesce(
    ai.is_external_id(d.value ->> 'accountId')
      and d.value ->> 'day' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'
      and pg_input_is_valid(d.value ->> 'day', 'date')
      and jsonb_typeof(d.value -> 'amounts') = 'array'
      and jsonb_array_length(case jsonb_typeof(d.value -> 'amounts') when 'array' then d.value -> 'amounts' else '[]' end) > 0,
    false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an account''s day: %s', left(found_fault.day::text, 200)));
  end if;
  select d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  where (d.value ->> 'day')::date > (now() at time zone 'UTC')::date
  limit 1;
  if found then
    return ai.cost_fault('days', format('%s has not begun in UTC. Import the file without it.', found_fault.day));
  end if;
  select a.value as amount, d.value ->> 'day' as day into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where not coalesce(
    a.value ->> 'currency' ~ '^[A-Z]{3}$' and a.value ->> 'amount' ~ '^-?[0-9]{1,15}(\.[0-9]{1,40})?$', false
  )
  limit 1;
  if found then
    return ai.cost_fault('days', format('This is not an amount of %s: %s', found_fault.day, left(found_fault.amount::text, 200)));
  end if;
  select a.value ->> 'currency' as currency into found_fault
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
  where a.value ->> 'currency' <> 'USD' and not coalesce(document -> 'rates' ? (a.value ->> 'currency'), false)
  limit 1;
  if found then
    return ai.cost_fault('rates', format('The file has amounts in %1$s: enter the USD for one %1$s.', found_fault.currency));
  end if;
  -- Amounts must fit the column.
  select a.day into found_fault
  from ai.cost_document_amounts(document) a
  group by a.account_id, a.day
  having abs(round(sum(a.amount * a.rate), 12)) >= 1e12
  limit 1;
  if found then
    return ai.cost_fault('days', format('The amount of %s is too large.', found_fault.day));
  end if;
  return null;
end
$$;

-- Returns { outcome: invalid, param, message }. Not granted to any role.
create or replace function ai.cost_fault(param text, message text) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object('outcome', 'invalid', 'param', param, 'message', message)
$$;

-- Returns the amounts of a valid document, each with the exchange rate from its currency to USD. Not granted to any
-- role.
create or replace function ai.cost_document_amounts(document jsonb)
  returns table (account_id text, day date, currency text, amount numeric, rate numeric)
  language sql stable security invoker set search_path = ''
as $$
  select
    d.value ->> 'accountId', (d.value ->> 'day')::date, a.value ->> 'currency', (a.value ->> 'amount')::numeric,
    case a.value ->> 'currency' when 'USD' then 1 else (document -> 'rates' ->> (a.value ->> 'currency'))::numeric end
  from jsonb_array_elements(document -> 'days') d
  cross join jsonb_array_elements(d.value -> 'amounts') a
$$;

-- Returns what an import of a cost file would change: { outcome: previewed, totalUsd, byCurrency, firstDay, lastDay,
-- days, accountCount, accounts, added, unchanged, corrected, replaced, remaining, cleared, state } or { outcome:
-- invalid, param, message }. days is the number of daily totals in the file. accounts has the first 50 accounts, and
-- corrected.list the first 100 corrected totals. remaining and cleared count imported days that are missing from the
-- file. Not granted to any role.
create or replace function ai.describe_cost_file(book uuid, app uuid, document jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  fault jsonb := ai.cost_document_fault(document);
  days ai.cost_file_day[];
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  return jsonb_build_object(
    'outcome', 'previewed',
    'byCurrency', (
      select jsonb_agg(
        jsonb_build_object(
          'currency', c.currency, 'amount', trim_scale(c.amount)::text, 'amountUsd', trim_scale(round(c.amount_usd, 12))::text
        )
        order by c.currency <> 'USD', c.currency collate "C"
      )
      from (
        select a.currency, sum(a.amount) as amount, sum(a.amount * a.rate) as amount_usd
        from ai.cost_document_amounts(document) a
        group by a.currency
      ) c
    ),
    'replaced', ai.costs_replaced_by_file(book, app, document, days),
    'state', ai.cost_file_state(book, app, document, days)
  ) || (
    select jsonb_object_agg(k.change, jsonb_build_object(
      'days', (select count(*) from unnest(days) d where d.change = k.change),
      'amountUsd', trim_scale(coalesce((select sum(d.stored_usd) from unnest(days) d where d.change = k.change), 0))::text
    ))
    from unnest('{remaining,cleared}'::text[]) k (change)
  ) || (
    select jsonb_build_object(
      'totalUsd', trim_scale(sum(d.amount_usd))::text,
      'firstDay', min(d.day),
      'lastDay', max(d.day),
      'days', count(*),
      'added', jsonb_build_object(
        'days', count(*) filter (where d.change = 'added'),
        'amountUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'added'), 0))::text
      ),
      'unchanged', jsonb_build_object('days', count(*) filter (where d.change = 'unchanged')),
      'corrected', jsonb_build_object(
        'days', count(*) filter (where d.change = 'corrected'),
        'fromUsd', trim_scale(coalesce(sum(d.stored_usd) filter (where d.change = 'corrected'), 0))::text,
        'toUsd', trim_scale(coalesce(sum(d.amount_usd) filter (where d.change = 'corrected'), 0))::text,
        'list', (
          select coalesce(jsonb_agg(
            jsonb_build_object(
              'accountId', l.account_id, 'day', l.day,
              'fromUsd', trim_scale(l.stored_usd)::text, 'toUsd', trim_scale(l.amount_usd)::text
            )
            order by l.day, l.account_id collate "C"
          ), '[]')
          from (
            select *
            from unnest(days) c
            where c.change = 'corrected'
            order by c.day, c.account_id collate "C"
            limit 100
          ) l
        )
      )
    )
    from unnest(days) d
    where d.change not in ('remaining', 'cleared')
  ) || (
    select jsonb_build_object(
      'accountCount', max(a.account_count),
      'accounts', jsonb_agg(
        jsonb_build_object('accountId', a.account_id, 'days', a.days, 'amountUsd', trim_scale(a.amount_usd)::text)
        order by a.account_id collate "C"
      )
    )
    from (
      select d.account_id, count(*) as days, sum(d.amount_usd) as amount_usd, count(*) over () as account_count
      from unnest(days) d
      where d.change not in ('remaining', 'cleared')
      group by d.account_id
      order by d.account_id collate "C"
      limit 50
    ) a
  );
end
$$;

-- Compares the daily totals of a valid document, by account and day, with the stored records that they correct. Also
-- returns the days in the document's range that earlier files had and the document lacks. The change of such a day is
-- "cleared" if the document's clear is true, and "remaining" otherwise. Not granted to any role.
create or replace function ai.compare_cost_file(book uuid, app uuid, document jsonb) returns ai.cost_file_day[]
  language plpgsql stable security invoker set search_path = ''
  -- Without recent statistics the planner expects one record, and would use a nested loop that compares every day with
  -- every record.
  set enable_nestloop = off set jit = off
as $$
declare
  name text := ai.provider_name(document ->> 'provider');
begin
  return (
    with amounts as (
      select a.account_id, a.day, a.currency, a.rate, sum(a.amount) as amount
      from ai.cost_document_amounts(document) a
      group by a.account_id, a.day, a.currency, a.rate
    ), totals as materialized (
      select
        a.account_id, a.day, ai.account_day_run_id(name, a.account_id, a.day) as external_run_id,
        round(sum(a.amount * a.rate), 12) as amount_usd,
        case when bool_or(a.currency <> 'USD') then jsonb_agg(
          jsonb_build_object('currency', a.currency, 'amount', trim_scale(a.amount)::text) order by a.currency collate "C"
        ) end as original
      from amounts a
      group by a.account_id, a.day
    ), stored as (
      -- Selects the last observed record of each account and run id, as ai.find_cost does.
      select distinct on (e.account_id, e.external_run_id) e.*
      from ai.cost_book_entries e
      where e.book_id = book
        and e.app_id = app
        and e.provider = name
        and e.external_run_id = any (array(select t.external_run_id from totals t))
      order by e.account_id, e.external_run_id, e.observed_at desc, e.id desc
    ), counted as (
      select distinct on (d.account_id, d.occurred_at)
        d.id, d.account_id, d.occurred_at, d.observed_at, d.external_run_id, d.amount_usd, d.revision, d.import_id
      from ai.cost_book_entries d
      where d.book_id = book
        and d.app_id = app
        and d.provider = name
        and d.granularity = 'account_day'
        and d.service is null
        and d.occurred_at >= (select min(t.day) from totals t)::timestamp at time zone 'UTC'
        and d.occurred_at <= (select max(t.day) from totals t)::timestamp at time zone 'UTC'
      order by d.account_id, d.occurred_at, d.observed_at desc, d.id desc
    ), missing as (
      -- Days of this period that an earlier import stated and this file lacks. Such a file may name a wrong account or
      -- leave out services.
      select c.*, (c.occurred_at at time zone 'UTC')::date as day
      from counted c
      where c.import_id is not null
        and c.amount_usd <> 0
        and (c.account_id, c.occurred_at) not in (select t.account_id, t.day::timestamp at time zone 'UTC' from totals t)
    ), compared as (
      select
        row(
          t.account_id, t.day, t.external_run_id, t.amount_usd, t.original, s.id, s.amount_usd, s.revision,
          greatest(s.observed_at, c.observed_at),
          case
            when s.id is null then 'added'
            -- A record is unchanged if it has the same values as the file and is the newest record of its day.
            when s.id = c.id and s.amount_usd = t.amount_usd and s.original is not distinct from t.original then 'unchanged'
            else 'corrected'
          end
        )::ai.cost_file_day as item
      from totals t
      left join stored s on s.account_id = t.account_id and s.external_run_id = t.external_run_id
      left join counted c
        on c.account_id = t.account_id and c.occurred_at = t.day::timestamp at time zone 'UTC'
      union all
      select
        row(
          l.account_id, l.day, l.external_run_id, 0, null, l.id, l.amount_usd, l.revision, l.observed_at,
          case document ->> 'clear' when 'true' then 'cleared' else 'remaining' end
        )::ai.cost_file_day
      from missing l
    )
    select array_agg(o.item order by (o.item).account_id collate "C", (o.item).day) from compared o
  );
end
$$;

-- Returns the number and the sum of the records that stop counting when a file is imported, because the file's daily
-- totals replace them: { records, amountUsd }. Not granted to any role.
create or replace function ai.costs_replaced_by_file(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns jsonb
  language plpgsql stable security invoker set search_path = ''
  -- Prevents a slow nested loop, as in ai.compare_cost_file.
  set enable_nestloop = off set jit = off
as $$
declare
  first_day date := (select min(d.day) from unnest(days) d);
  last_day date := (select max(d.day) from unnest(days) d);
begin
  return (
    select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd), 0))::text)
    from ai.provider_costs_in_totals(
      book, first_day::timestamp at time zone 'UTC', (last_day + 1)::timestamp at time zone 'UTC'
    ) t
    join unnest(days) d
      on d.account_id = (t.cost).account_id and d.day = ((t.cost).occurred_at at time zone 'UTC')::date
    where t.counted
      and (t.cost).app_id = app
      and (t.cost).provider = ai.provider_name(document ->> 'provider')
      and d.change <> 'remaining'
      and (t.cost).id is distinct from d.stored_id
  );
end
$$;

-- Returns the external run id of an account's daily total. The commands that import from providers' APIs use the same
-- format. A long account id is hashed, because an external id has at most 256 characters.
create or replace function ai.account_day_run_id(provider text, account_id text, day date) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when char_length(account_id) + char_length(provider) <= 238 then format('%s-costs:%s:%s', provider, account_id, day)
    else format('%s-costs:sha256-%s:%s', provider, encode(sha256(convert_to(account_id, 'UTF8')), 'hex'), day)
  end
$$;

-- Returns a book's imported costs of a half-open range, and whether each cost counts in totals. The cost of a run does
-- not count if its account has a daily record for the day of the run, even if the record begins before the range. The
-- totals of adjacent ranges therefore add up. A daily record of a service does not count if the account has a total for
-- that day. Of rows that differ only in the case of the provider's name, the last observed counts.
create or replace function ai.provider_costs_in_totals(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.cost_book_entries, counted boolean)
  language sql stable security invoker set search_path = ''
as $$
  with superseded as materialized (
    select e.id
    from ai.cost_book_entries e
    cross join lateral ai.find_cost(e.book_id, e.app_id, e.provider, e.account_id, e.external_run_id) f
    where
      -- Postgres evaluates this condition once per query. A partial index contains only the costs whose provider name
      -- is not in lower case.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and e.book_id = book
      and e.occurred_at >= date_trunc('day', window_from, 'UTC')
      and e.occurred_at < window_to
      and f.id <> e.id
  ), days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- If the day has a total, counts only its latest record. Otherwise counts the latest record of each service.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 and (
        d.service is null
        or not bool_or(d.service is null) over (partition by d.app_id, d.provider, d.account_id, d.occurred_at)
      ) as counted
    from ai.cost_book_entries d
    where d.granularity = 'account_day'
      and d.book_id = book
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
      and d.id not in (select s.id from superseded s)
  )
  -- Uses subqueries instead of joins. Postgres hashes the result of such a subquery even if it expects few rows, and it
  -- expects too few for a book that has just grown.
  select c, c.id not in (select s.id from superseded s) and case c.granularity
    when 'run' then not coalesce(
      (c.app_id, c.provider, c.account_id, date_trunc('day', c.occurred_at, 'UTC'))
        in (select d.app_id, d.provider, d.account_id, d.occurred_at from days d),
      false
    )
    else c.id in (select d.id from days d where d.counted)
  end
  from ai.cost_book_entries c
  where c.book_id = book and c.occurred_at >= window_from and c.occurred_at < window_to
$$;

-- Returns whether the same cost was observed later under another spelling of the provider's name.
create or replace function ai.is_superseded_cost(entry ai.cost_book_entries) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  -- Two rows can be for the same cost only if the provider name of at least one of them is not normalized. Looks for
  -- such names first, because the partial index contains only rows with such names.
  select exists (
    select
    from ai.external_provider_costs o
    where o.workspace_id = (entry).book_id
      and o.app_id = (entry).app_id
      and o.external_run_id = (entry).external_run_id
      and o.provider <> lower(o.provider)
  ) and exists (
    select
    from ai.find_cost((entry).book_id, (entry).app_id, (entry).provider, (entry).account_id, (entry).external_run_id) f
    where f.id <> (entry).id
  )
$$;

-- Compares an invoice with a book, for a person to review before the invoice is stored permanently. Returns { outcome:
-- reviewed, reviewedAt, appName, kept, differs, comparison }, { outcome: not_issued_yet }, { outcome: cannot_replace,
-- param, message }, ai.book_refusal or ai.app_refusal. kept is the stored invoice with the same key, if any. differs
-- lists the fields in which kept is different, except for the time of the review. comparison is ai.invoice_comparison.
-- Writes nothing.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  stored ai.invoice_book_entries;
  replacement ai.invoice_book_entries;
  fault jsonb;
begin
  if refusal is not null then
    return refusal;
  elsif (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  stored := ai.find_invoice(workspace, app, record, record ->> 'reference');
  replacement := ai.find_replacement(workspace, app, record);
  fault := ai.refused_replacement(workspace, app, record);
  if fault is null and stored.id is null and replacement.id is not null then
    fault := ai.replaced_already(record, replacement);
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'cannot_replace') || fault;
  end if;
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when stored.id is not null then ai.invoice_summary(stored) end,
    'differs', case when stored.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(stored, record || jsonb_build_object('reviewedAt', stored.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(workspace, record || jsonb_build_object('appId', app), stored.id)
  );
end
$$;

-- Compares an invoice with its provider's metered and imported cost for the days that the invoice covers
-- (ai.invoice_days). Imported cost is only that of the invoice's account. Metered cost leaves out runs that name
-- another account. Also returns the total of the account's other invoices for these days, and the difference between
-- all of the account's invoices and the imported cost. Ignores replaced invoices. Returns null if the invoice covers
-- more than 366 days. Not granted to any role.
create or replace function ai.invoice_comparison(book uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  of_provider text := ai.provider_name(record ->> 'provider');
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Compares no period of more than 366 days, because no report covers such a period.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
    and (c.cost).provider = of_provider
    and (c.cost).account_id is not distinct from record ->> 'accountId';
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.provider = of_provider
    and i.account_id is not distinct from record ->> 'accountId'
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- Excludes the invoice that the record replaces. The record names that invoice's reference in `replaces`, and both
    -- belong to the same app.
    and (i.app_id, i.reference) is distinct from (
      coalesce((record ->> 'appId')::uuid, ai.platform_book()), record ->> 'replaces'
    )
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(book) then (
      select trim_scale(coalesce(sum(m.metered), 0))::text
      from ai.metered_costs(book, window_from, window_to) m
      where m.provider = of_provider and coalesce(m.account_id = record ->> 'accountId', true)
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
$$;

-- Returns who recorded an invoice, according to the workspace's activity log or the console's audit log: { by: person |
-- app, name }. If the invoice was sent with a key, the app recorded it. An admin is named by email address. name is
-- null once the person or app is deleted.
create or replace function ai.invoice_recorder(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when (invoice).book_id = ai.platform_book()
      then jsonb_build_object('by', 'person', 'name', private.last_admin_action('platform invoice ' || (invoice).id) ->> 'actorEmail')
    else (
      select jsonb_build_object(
        'by', case when l.actor_id is null then 'app' else 'person' end,
        'name', case
          when l.actor_id is null then ai.app_label((invoice).app_id)
          else (select p.display_name from public.profiles p where p.id = l.actor_id)
        end
      )
      from public.workspace_audit_log l
      where l.action = 'provider_invoice.recorded'
        and l.subject_id = (invoice).id
        and l.workspace_id = (invoice).book_id
    )
  end
$$;

-- Returns { outcome: listed, apps } or ai.book_refusal. apps are the enabled external apps that are linked to a
-- workspace. The workspace may have costs and invoices for these apps.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_linked_apps(member_id uuid, workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'listed', 'apps', coalesce(jsonb_agg(
      jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id
    ), '[]'))
    from private.app_workspaces l
    join private.apps a on a.id = l.app_id
    where l.workspace_id = workspace and ai.app_can_act_in_workspace(a.id, workspace)
  ))
$$;

-- Stores a cost file. Returns the result of ai.store_cost_file, ai.book_refusal or ai.app_refusal. For the platform's
-- book, the change is { reason, requestId, ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.import_cost_file(
  member_id uuid, workspace uuid, app uuid, document jsonb, state text, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
begin
  if refusal is not null then
    return refusal;
  end if;
  return ai.store_cost_file(
    workspace, app, ai.read_cost_document(document), state, change || jsonb_build_object('actor', member_id)
  );
end
$$;

-- Returns a document that may be given as a JSON string. Not granted to any role.
create or replace function ai.read_cost_document(document jsonb) returns jsonb
  language plpgsql immutable security invoker set search_path = ''
as $$
begin
  return case jsonb_typeof(document) when 'string' then (document #>> '{}')::jsonb else document end;
end
$$;

-- Returns the result of ai.describe_cost_file to the operator's command line, or { outcome: app_not_linked }. Uses the
-- platform's book if workspace and app are null.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.preview_costs_as_operator(workspace uuid, app uuid, document jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.app_refusal(b.id, b.app_id), ai.describe_cost_file(b.id, b.app_id, document))
  from (select coalesce(workspace, ai.platform_book()) as id, coalesce(app, ai.platform_book()) as app_id) b
$$;

-- Stores the records of a call, each independently of the others. Returns { results }, which has a result of
-- ai.store_provider_cost for each record in the order of the call, or { refused } if the credential does not allow
-- imports.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.import_provider_costs(call jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  item record;
  results jsonb[] := '{}';
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  perform ai.record_key_use(array[caller.key_id]);
  -- Stores the records in a fixed order, so that concurrent batches cannot deadlock.
  for item in
    select r.value as record, r.ordinality::integer as place
    from jsonb_array_elements(call -> 'records') with ordinality as r
    order by
      ai.provider_name(r.value ->> 'provider') collate "C", r.value ->> 'accountId' collate "C",
      r.value ->> 'externalRunId' collate "C", r.ordinality
  loop
    results[item.place] := ai.store_provider_cost(caller.workspace_id, caller.app_id, item.record);
  end loop;
  return jsonb_build_object('results', to_jsonb(results));
end
$$;

-- Stores one reported cost. Returns { outcome: stored | corrected | unchanged | stale } or { refused }. A record with a
-- newer observation time corrects the stored record. A record with the same observation time and different content is
-- refused as a conflict. Finds the stored record regardless of the case of the provider's name. The caller derives
-- workspace and app from the credential and has validated the record. Not granted to any role.
create or replace function ai.store_provider_cost(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
  occurred timestamptz := (record ->> 'occurredAt')::timestamptz;
  observed timestamptz := (record ->> 'observedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  kind text := coalesce(record ->> 'granularity', 'run');
  written integer;
  stored ai.cost_book_entries;
begin
  if occurred > observed then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'occurredAt', 'message', 'occurredAt must not be later than observedAt.'
    );
  end if;
  if observed > now() + interval '5 minutes' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'observedAt',
      'message', 'observedAt must not be more than five minutes in the future.'
    );
  end if;

  select * into stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  -- Both the update and the insert wait for a concurrent import of the same record, and then compare the observation
  -- times.
  if stored.spelling <> name then
    update ai.external_provider_costs c
    set
      granularity = kind, service = record ->> 'service', amount_usd = amount, occurred_at = occurred,
      observed_at = observed, recorded_at = now(), revision = c.revision + 1, import_id = null, original = null
    where c.id = stored.id and c.observed_at < observed
    returning c.revision into written;
  else
    insert into ai.external_provider_costs as c (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, service, amount_usd, occurred_at,
      observed_at
    )
    values (
      workspace, app, name, record ->> 'accountId', record ->> 'externalRunId', kind, record ->> 'service', amount,
      occurred, observed
    )
    on conflict (workspace_id, app_id, provider, account_id, external_run_id) do update
    set
      granularity = excluded.granularity,
      service = excluded.service,
      amount_usd = excluded.amount_usd,
      occurred_at = excluded.occurred_at,
      observed_at = excluded.observed_at,
      recorded_at = now(),
      revision = c.revision + 1,
      import_id = null,
      original = null
    where c.observed_at < excluded.observed_at
    returning c.revision into written;
  end if;
  if written is not null then
    return jsonb_build_object('outcome', case written when 1 then 'stored' else 'corrected' end);
  end if;

  select * into strict stored from ai.find_cost(workspace, app, name, record ->> 'accountId', record ->> 'externalRunId');
  if stored.observed_at > observed then
    return jsonb_build_object('outcome', 'stale');
  elsif (stored.amount_usd, stored.occurred_at, stored.granularity) = (amount, occurred, kind)
    and stored.service is not distinct from record ->> 'service' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  return jsonb_build_object('refused', 'cost_conflict');
end
$$;

-- Stores an invoice that an app sends. Returns the result of ai.store_provider_invoice, or { refused } if the
-- credential does not allow imports.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.import_provider_invoice(call jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  answer jsonb;
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  perform ai.record_key_use(array[caller.key_id]);
  answer := ai.store_provider_invoice(caller.workspace_id, caller.app_id, call -> 'record');
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      caller.workspace_id, caller.app_id, call -> 'record' || jsonb_build_object('id', answer -> 'id'),
      jsonb_build_object('actor', case when caller.source = 'app_token' then caller.actor_id end)
    );
  end if;
  return answer;
end
$$;

-- Stores an invoice that a person enters. Returns the result of ai.store_provider_invoice or { refused: not_allowed |
-- app_not_linked }. For the platform's book, the change is { reason, requestId, ip }, which the audit log records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.record_provider_invoice(
  member_id uuid, workspace uuid, app uuid, record jsonb, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  answer jsonb;
begin
  if refusal is not null then
    return jsonb_build_object('refused', refusal ->> 'outcome');
  end if;
  answer := ai.store_provider_invoice(workspace, app, record);
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      workspace, app, record || jsonb_build_object('id', answer -> 'id'), change || jsonb_build_object('actor', member_id)
    );
  end if;
  return answer;
end
$$;

-- Stores a reviewed invoice in a book. Returns { outcome: stored | unchanged, id } or { refused }. If the stored
-- invoice with the same key has different content, returns { refused: invoice_conflict, id, differs }: the id of the
-- stored invoice and the fields that differ. The caller has derived the book and the app and validated the record. Not
-- granted to any role.
create or replace function ai.store_provider_invoice(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  refused jsonb := ai.refused_replacement(book, app, record);
  stored ai.invoice_book_entries;
  stored_id uuid;
  differing text[];
begin
  if reviewed > now() then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'reviewedAt must not be in the future.'
    );
  end if;
  if reviewed < issued::timestamp at time zone 'UTC' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'An invoice is reviewed after it was issued.'
    );
  end if;

  if refused is not null then
    return jsonb_build_object('refused', 'invalid_request') || refused;
  end if;

  -- Searches before inserting, because the unique keys don't cover older rows whose provider name is not normalized.
  stored := ai.find_invoice(book, app, record, record ->> 'reference');
  if stored.id is null then
    stored := ai.find_replacement(book, app, record);
  end if;
  if stored.id is null then
    stored_id := ai.add_invoice(book, app, record);
    if stored_id is not null then
      return jsonb_build_object('outcome', 'stored', 'id', stored_id);
    end if;
    -- A concurrent call recorded this reference, or another replacement of the same invoice.
    stored := ai.find_invoice(book, app, record, record ->> 'reference');
    if stored.id is null then
      stored := ai.find_replacement(book, app, record);
    end if;
  end if;

  if stored.reference <> record ->> 'reference' then
    return jsonb_build_object(
      'refused', 'invoice_conflict', 'id', stored.id, 'differs', '["replaces"]'::jsonb
    ) || ai.replaced_already(record, stored);
  end if;
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;

-- If a record cannot replace the invoice that it names in replaces, returns the error { param, message }. Returns null
-- otherwise. Not granted to any role.
create or replace function ai.refused_replacement(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  replaced ai.invoice_book_entries := ai.find_invoice(book, app, record, record ->> 'replaces');
begin
  if record ->> 'replaces' is not null and replaced.id is null then
    return jsonb_build_object('param', 'replaces', 'message', format(
      'No recorded invoice or credit note of this %sprovider and account has this reference.',
      case when book = ai.platform_book() then '' else 'app, ' end
    ));
  elsif replaced.kind <> coalesce(record ->> 'kind', 'invoice') then
    return jsonb_build_object(
      'param', 'kind', 'message', 'An invoice replaces an invoice, and a credit note replaces a credit note.'
    );
  end if;
  return null;
end
$$;

-- Returns the error { param, message } of a record that would replace an invoice that already has a replacement. Not
-- granted to any role.
create or replace function ai.replaced_already(record jsonb, replacement ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('param', 'replaces', 'message', format(
    '%s is already replaced by %s. Replace that one instead.', record ->> 'replaces', (replacement).reference
  ))
$$;

-- Returns a record in the form in which it is stored, with defaults and a normalized provider name.
create or replace function ai.invoice_of(record jsonb) returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select r
  from jsonb_populate_record(null::ai.invoice_book_entries, jsonb_build_object(
    'provider', ai.provider_name(record ->> 'provider'),
    'account_id', record ->> 'accountId',
    'reference', record ->> 'reference',
    'kind', coalesce(record ->> 'kind', 'invoice'),
    'replaces', record ->> 'replaces',
    'amount_usd', record -> 'amountUsd',
    'issued_on', record ->> 'issuedOn',
    'period_start', record ->> 'periodStart',
    'period_end', record ->> 'periodEnd',
    'reviewed_at', record ->> 'reviewedAt'
  )) r
$$;

-- Returns the invoice with the given reference and the record's provider and account, or nulls. If there are several,
-- returns the first recorded.
create or replace function ai.find_invoice(book uuid, app uuid, record jsonb, of_reference text)
  returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select i
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.app_id = app
    and i.provider = ai.provider_name(record ->> 'provider')
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = of_reference
  order by i.recorded_at, i.id
  limit 1
$$;

-- Returns the first recorded invoice whose provider, account and replaces equal the record's. Returns nulls if there is
-- none.
create or replace function ai.find_replacement(book uuid, app uuid, record jsonb) returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select i
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.app_id = app
    and i.provider = ai.provider_name(record ->> 'provider')
    and i.account_id is not distinct from record ->> 'accountId'
    and i.replaces = record ->> 'replaces'
  order by i.recorded_at, i.id
  limit 1
$$;

-- Returns the fields in which a record differs from the stored invoice with the same key. Returns none for an identical
-- retry.
create or replace function ai.invoice_differences(stored ai.invoice_book_entries, record jsonb) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array_remove(
    array[
      case when (stored).kind <> r.kind then 'kind' end,
      case when (stored).replaces is distinct from r.replaces then 'replaces' end,
      case when (stored).amount_usd <> r.amount_usd then 'amountUsd' end,
      case when (stored).issued_on <> r.issued_on then 'issuedOn' end,
      case when (stored).period_start is distinct from r.period_start then 'periodStart' end,
      case when (stored).period_end is distinct from r.period_end then 'periodEnd' end,
      case when (stored).reviewed_at <> r.reviewed_at then 'reviewedAt' end
    ],
    null
  )
  from ai.invoice_of(record) r
$$;

-- Logs a recorded invoice, whose record has its id: in the workspace's activity log, or in the audit log for the
-- platform's book. The change is { actor, reason, requestId, ip }. An invoice that an app sent has no actor.
create or replace function ai.log_recorded_invoice(book uuid, app uuid, record jsonb, change jsonb) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
begin
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.record_invoice',
      'target', 'platform invoice ' || (record ->> 'id'),
      'after', jsonb_strip_nulls(record - 'id') || jsonb_build_object('provider', name)
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
  perform private.log_workspace_change(
    book, 'provider_invoice.recorded', (record ->> 'id')::uuid, concat_ws(' ', name, record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces'
    ))
  );
end
$$;

-- Returns the amount in USD that an invoice adds to totals, for all of its days or only for those within a range. The
-- amount of a credit note is negative.
create or replace function ai.invoice_amount(invoice ai.invoice_book_entries, within daterange default null) returns numeric
  language sql immutable security invoker set search_path = ''
as $$
  -- Computes a range's share as the difference of two rounded running totals, so that the shares of adjacent ranges add
  -- up to the amount.
  select case (invoice).kind when 'credit_note' then -1 else 1 end
    * case
      when within is null then (invoice).amount_usd
      when isempty(d.days * within) then 0
      else
        round((invoice).amount_usd * (upper(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
        - round((invoice).amount_usd * (lower(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
    end
  from (select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) as days) d
$$;

-- Returns the days of a month (YYYY-MM), or null if the month is null.
create or replace function ai.month_days(month text) returns daterange
  language sql immutable security invoker set search_path = ''
as $$
  select daterange(first_day, (first_day::timestamp + interval '1 month')::date)
  from (select (month || '-01')::date as first_day) m
  where month is not null
$$;

-- Returns the workspaces that have runs with the given account, at most 100. For a null account, returns workspaces
-- with any runs: [{ workspaceId, name, meteredUsd, daysWithoutRuns }]. daysWithoutRuns lists the days on which the
-- account's bill exceeds its metered cost, but the workspace has no matching runs. The workspaces with the most of
-- these days come first.
create or replace function ai.account_workspaces(parts ai.platform_part[], of_account text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with days as materialized (
    select p.day, coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) as amount
    from unnest(parts) p
    where p.kind in ('metered', 'booked') and (of_account is null or p.account_id = of_account)
    group by p.day
    having coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) >= 0.005
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'workspaceId', s.workspace_id, 'name', w.name, 'meteredUsd', trim_scale(s.metered)::text, 'daysWithoutRuns', g.days
    )
    order by cardinality(g.days) desc, s.metered desc, s.workspace_id
  ), '[]')
  from (
    select p.workspace_id, sum(p.metered) as metered, array_agg(p.day) filter (where p.runs > 0) as used
    from unnest(parts) p
    where p.kind = 'metered' and (of_account is null or p.account_id = of_account)
    group by p.workspace_id
    having sum(p.runs) > 0
    order by sum(p.metered) desc
    limit 100
  ) s
  cross join lateral (
    select array(select d.day from days d where d.day <> all (s.used) order by d.day) as days
  ) g
  left join public.workspaces w on w.id = s.workspace_id
$$;

-- Explains a provider's costs in the platform's book for one month: { outcome: explained, month, provider, workspaces
-- (ai.platform_workspaces), days: [{ day, accountId, meteredUsd, importedUsd }], causes (ai.platform_causes) }.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.explain_platform_month(month date, provider text) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- Days are in UTC.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
declare
  first_day date := date_trunc('month', month::timestamp);
  end_day date := first_day + interval '1 month';
  of_provider text := ai.provider_name(provider);
  parts ai.platform_part[];
begin
  parts := array(
    select p from ai.platform_month_parts(first_day, end_day, of_provider) p
  );
  return jsonb_build_object(
    'outcome', 'explained',
    'month', to_char(first_day, 'YYYY-MM'),
    'provider', of_provider,
    'workspaces', ai.platform_workspaces(parts),
    'days', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'day', d.day,
        'accountId', d.account_id,
        'meteredUsd', trim_scale(d.metered)::text,
        'importedUsd', trim_scale(d.imported)::text
      ) order by d.day, d.account_id collate "C" nulls first), '[]')
      from (
        select p.day, p.account_id, coalesce(sum(p.metered), 0) as metered, coalesce(sum(p.imported), 0) as imported
        from unnest(parts) p
        where p.kind in ('metered', 'booked') and (p.metered is not null or p.imported is not null)
        group by p.day, p.account_id
      ) d
    ),
    'causes', ai.platform_causes(parts)
  );
end
$$;

-- Returns the workspaces whose own books contain imported costs or invoices.
create or replace function ai.workspaces_with_books() returns setof uuid
  language sql stable security invoker set search_path = ''
as $$
  -- Finds each workspace with one index lookup, because reading all records would become slower as the tables grow.
  -- Begins after the nil UUID, which is the platform's book and comes before all others.
  with recursive with_costs (id) as (
    select ai.platform_book()
    union all
    select (
      select c.workspace_id from ai.external_provider_costs c where c.workspace_id > w.id order by c.workspace_id limit 1
    )
    from with_costs w
    where w.id is not null
  ), with_invoices (id) as (
    select ai.platform_book()
    union all
    select (
      select i.workspace_id from ai.external_provider_invoices i where i.workspace_id > w.id order by i.workspace_id limit 1
    )
    from with_invoices w
    where w.id is not null
  )
  select id from with_costs where id <> ai.platform_book()
  union
  select id from with_invoices where id <> ai.platform_book()
$$;

-- Returns a provider's figures for a month by workspace and provider account, the largest difference first: [{
-- workspaceId, name (null once deleted), accountId (null for runs that name no account), meteredUsd, runs,
-- estimatedRuns, closedRuns, importedUsd, invoicedUsd, differenceUsd }]. importedUsd and invoicedUsd are from the
-- workspace's own book. differenceUsd is the imported cost minus the metered cost, or null if the workspace has no
-- imports.
create or replace function ai.platform_workspaces(parts ai.platform_part[]) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  -- Uses window functions instead of joins, because Postgres can't estimate the number of elements in `parts`.
  with sums as (
    select p.kind, p.workspace_id, p.account_id, coalesce(sum(p.metered), 0) as metered, coalesce(sum(p.runs), 0) as runs,
      coalesce(sum(p.estimated_runs), 0) as estimated_runs, coalesce(sum(p.closed_runs), 0) as closed_runs,
      sum(p.imported) as imported, coalesce(sum(p.invoiced), 0) as invoiced
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.kind, p.workspace_id, p.account_id
  ), placed as (
    select s.*,
      bool_or(s.kind = 'metered') over (partition by s.workspace_id, s.account_id) as is_named,
      bool_or(s.kind = 'metered' and s.account_id is null) over (partition by s.workspace_id) as has_unnamed
    from sums s
  ), figures as (
    select p.workspace_id,
      -- If none of the workspace's runs names the account, groups the account's records with the runs that name no
      -- account.
      case when p.is_named or not p.has_unnamed then p.account_id end as account_id,
      sum(p.metered) as metered, sum(p.runs) as runs, sum(p.estimated_runs) as estimated_runs,
      sum(p.closed_runs) as closed_runs, sum(p.imported) as imported, sum(p.invoiced) as invoiced
    from placed p
    group by 1, 2
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'workspaceId', f.workspace_id,
    'name', w.name,
    'accountId', f.account_id,
    'meteredUsd', trim_scale(f.metered)::text,
    'runs', f.runs,
    'estimatedRuns', f.estimated_runs,
    'closedRuns', f.closed_runs,
    'importedUsd', trim_scale(coalesce(f.imported, 0))::text,
    'invoicedUsd', trim_scale(f.invoiced)::text,
    'differenceUsd', trim_scale(f.imported - f.metered)::text
  ) order by abs(f.imported - f.metered) desc nulls last, f.metered desc, f.workspace_id, f.account_id collate "C"), '[]')
  from figures f
  left join public.workspaces w on w.id = f.workspace_id
$$;

-- Returns the normalized provider name under which a run is compared with imported costs and invoices. Uses the run's
-- billing name, or the provider's id if the run has no billing name.
create or replace function ai.billing_provider(billing_name text, provider_id text) returns text
  language sql immutable security invoker
as $$
  select ai.provider_name(coalesce(billing_name, provider_id, 'unknown'))
$$;

-- Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by provider and billing account.
-- With of_provider (a result of ai.billing_provider), returns only that provider's usage, also grouped by workspace and
-- day. Runs closed by the sweep name no billing provider, so the usage of every of_provider includes all of them.
-- Without of_provider, workspace_id and day are null. Not granted to any role.
create or replace function ai.platform_usage(first_day date, last_day date, of_provider text default null)
  returns table (
    workspace_id uuid, day date, provider_id text, billing_name text, billing_account text, requests numeric, failed numeric,
    input_tokens numeric, output_tokens numeric, cost_usd numeric, estimated_runs numeric, closed_runs numeric
  )
  language plpgsql stable security invoker set search_path = ''
  -- Days are in UTC. A custom plan is required, because a generic plan would read all daily sums.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  summed record := ai.summed_range(first_day, last_day + 1, detailed);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return query
    with parts as (
      -- Groups each part separately, so that Postgres can hash the rows of a small part instead of sorting them.
      select case when detailed then u.workspace_id end as workspace_id, case when detailed then u.day end as day,
        u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd,
        sum(u.estimated_runs) as estimated_runs, sum(u.closed_runs) as closed_runs
      from ai.usage_daily u
      where u.day >= summed.first_day and u.day < summed.end_day
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then c.workspace_id end, case when detailed then c.day end, c.provider_id, c.billing_name,
        c.billing_account, sum(c.requests), sum(c.failed), sum(c.input_tokens), sum(c.output_tokens), sum(c.cost_usd),
        sum(c.estimated_runs), sum(c.closed_runs)
      from ai.usage_changes c
      where c.run_created_at >= summed.first_moment and c.run_created_at < summed.end_moment
        and (not detailed or c.closed_runs <> 0 or ai.billing_provider(c.billing_name, c.provider_id) = of_provider)
      group by 1, 2, c.provider_id, c.billing_name, c.billing_account
      union all
      select case when detailed then u.workspace_id end, case when detailed then u.day end, u.provider_id, u.billing_name,
        u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd),
        sum(u.estimated_runs), sum(u.closed_runs)
      from (
        select * from ai.runs b where b.created_at >= range_start and b.created_at < summed.first_moment
        union all
        select * from ai.runs a where a.created_at >= summed.end_moment and a.created_at < range_end
      ) as r
      cross join lateral ai.run_usage(r) u
      where not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
    )
    select p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account, sum(p.requests), sum(p.failed),
      sum(p.input_tokens), sum(p.output_tokens), sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from parts p
    group by p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account
    having sum(p.requests) > 0;
end
$$;

-- Returns a page of a book's costs (ai.provider_cost_records) with the totals of the whole range. An export reads all
-- pages and does not request totals. The default range is the last 30 days. Returns { outcome: listed, … }, { outcome:
-- bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_provider_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before jsonb default null, page_size integer default 50, filter jsonb default '{}', with_totals boolean default true,
  token_hash bytea default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace, token_hash);
  dates record := ai.usage_window(given_from, given_to, 30);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(dates.window_from),
    'to', ai.utc_text_microseconds(dates.window_to),
    'records', ai.provider_cost_records(workspace, dates.window_from, dates.window_to, before, page_size, filter)
  ) || case when with_totals
    then jsonb_build_object('totals', ai.provider_cost_totals(workspace, dates.window_from, dates.window_to, filter))
    else '{}'
  end;
end
$$;

-- Unused since 0.2.0, goes in 0.3.0. Servers of release 0.1.0 call it for satellites.
-- Definer: see ai.list_provider_costs.
create or replace function private.list_provider_costs_by_app_session(
  token_hash bytea, workspace_id uuid, given_from timestamptz default null, given_to timestamptz default null,
  before jsonb default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.list_provider_costs(null, workspace_id, given_from, given_to, before, page_size, token_hash => token_hash)
$$;

-- Returns a page of imported costs of a half-open range, newest first. Each cost has its file and its amount before
-- currency conversion. replacedBy is the externalRunId of the record that counts instead, or null. replaces is the
-- number and amount of the records that a daily total replaces. The filter may have provider and accountId. A null
-- accountId selects costs without an account.
create or replace function ai.provider_cost_records(
  workspace uuid, window_from timestamptz, window_to timestamptz, before jsonb, page_size integer, filter jsonb
) returns jsonb
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would read the whole range for each page.
  set plan_cache_mode = force_custom_plan
as $$
declare
  of_provider text := ai.provider_name(filter ->> 'provider');
  of_account text := filter ->> 'accountId';
  any_account boolean := not filter ? 'accountId';
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    with page as materialized (
      select *
      from ai.cost_book_entries c
      where c.book_id = workspace
        and c.occurred_at >= window_from
        and c.occurred_at < window_to
        and c.occurred_at <= last_at
        and (c.occurred_at, c.id) < (last_at, last_id)
        and (of_provider is null or c.provider = of_provider)
        and (any_account or c.account_id is not distinct from of_account)
      order by c.occurred_at desc, c.id desc
      limit page_size
    )
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'id', p.id,
        'appId', p.app_id,
        'appName', a.display_name,
        'provider', p.provider,
        'accountId', p.account_id,
        'externalRunId', p.external_run_id,
        'granularity', p.granularity,
        'service', p.service,
        'amountUsd', trim_scale(p.amount_usd)::text,
        'occurredAt', ai.utc_text_microseconds(p.occurred_at),
        'observedAt', ai.utc_text_microseconds(p.observed_at),
        'recordedAt', ai.utc_text_microseconds(p.recorded_at),
        'revision', p.revision,
        'counted', replaced.by_run_id is null,
        'replacedBy', replaced.by_run_id,
        -- Sums the records that this daily total replaces: runs, earlier totals and, if it covers all services, totals
        -- of single services.
        'replaces', case when p.granularity = 'account_day' and replaced.by_run_id is null then (
          select jsonb_build_object('records', count(*), 'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text)
          from ai.cost_book_entries c
          where c.book_id = p.book_id
            and c.occurred_at >= p.occurred_at
            and c.occurred_at < p.occurred_at + interval '24 hours'
            and c.id <> p.id
            and (c.granularity = 'run' or p.service is null or c.service = p.service)
            and c.app_id = p.app_id
            and c.provider = p.provider
            and c.account_id = p.account_id
        ) end,
        'original', p.original,
        'import', case when p.import_id is not null then ai.cost_import_summary(p.import_id) end
      )
      order by p.occurred_at desc, p.id desc
    ), '[]')
    from page p
    left join private.apps a on a.id = p.app_id
    -- The daily total that counts instead of this record, by the rule of ai.provider_costs_in_totals.
    left join lateral (
      select d.external_run_id as by_run_id
      from ai.cost_book_entries d
      where d.granularity = 'account_day'
        and d.book_id = p.book_id
        and d.app_id = p.app_id
        and d.provider = p.provider
        and d.account_id = p.account_id
        and d.occurred_at = date_trunc('day', p.occurred_at, 'UTC')
        and (
          p.granularity = 'run'
          or (d.service is null and p.service is not null)
          or (d.service is not distinct from p.service and (d.observed_at, d.id) > (p.observed_at, p.id))
        )
        and not ai.is_superseded_cost(d)
      order by d.service is null desc, d.observed_at desc, d.id desc
      limit 1
    ) as day on true
    -- A record is also replaced if the same cost was observed later under another spelling of the provider's name.
    cross join lateral (
      select case when ai.is_superseded_cost(p) then p.external_run_id else day.by_run_id end as by_run_id
    ) as replaced
  );
end
$$;

-- Returns the total of the imported costs in a half-open range. Records that a daily total replaces are not part of the
-- total, and are summed separately.
create or replace function ai.provider_cost_totals(workspace uuid, window_from timestamptz, window_to timestamptz, filter jsonb)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'amountUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where t.counted), 0))::text,
    'records', count(*),
    'replacedRecords', count(*) filter (where not t.counted),
    'replacedUsd', trim_scale(coalesce(sum((t.cost).amount_usd) filter (where not t.counted), 0))::text
  )
  from ai.provider_costs_in_totals(workspace, window_from, window_to) t
  where (filter ->> 'provider' is null or (t.cost).provider = ai.provider_name(filter ->> 'provider'))
    and (not filter ? 'accountId' or (t.cost).account_id is not distinct from filter ->> 'accountId')
$$;

-- Returns the file that a record was imported with, the file's exchange rates, and who imported the file. by is person
-- or operator. name is null for the operator and for a deleted account. Not granted to any role.
create or replace function ai.cost_import_summary(of_import_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', i.id,
    'file', i.file_name,
    'format', i.format,
    'timeZone', i.time_zone,
    'rates', i.rates,
    'by', case when i.imported_by is null then 'operator' else 'person' end,
    'name', (select p.display_name from public.profiles p where p.id = i.imported_by),
    'importedAt', ai.utc_text_microseconds(i.imported_at)
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

-- Returns null if an invoice counts in totals. Otherwise returns the reference of the invoice that counts in its place.
-- This is the invoice that replaces it, or the same invoice recorded earlier under another spelling of the provider's
-- name.
create or replace function ai.invoice_replacement(invoice ai.invoice_book_entries) returns text
  language sql stable security invoker
as $$
  select r.reference
  from ai.invoice_book_entries r
  where r.book_id = (invoice).book_id
    and r.app_id = (invoice).app_id
    and r.provider = (invoice).provider
    and r.account_id is not distinct from (invoice).account_id
    and (
      r.replaces = (invoice).reference
      -- The invoice was recorded twice, under two spellings of the provider. The first record counts.
      or (r.reference = (invoice).reference and (r.recorded_at, r.id) < ((invoice).recorded_at, (invoice).id))
    )
  order by r.replaces is not distinct from (invoice).reference desc, r.recorded_at, r.id
  limit 1
$$;

-- Returns whether an invoice matches a filter. The filter may have provider, accountId and month (YYYY-MM). A null
-- accountId selects invoices without an account. A month selects invoices with days in that month (ai.invoice_days).
create or replace function ai.invoice_matches(invoice ai.invoice_book_entries, filter jsonb) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select (filter ->> 'provider' is null or ai.provider_name(filter ->> 'provider') = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (
      filter ->> 'month' is null
      or ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) && ai.month_days(filter ->> 'month')
    )
$$;

-- Returns a page of a book's months and providers in the window of ai.reconciled_window, the latest month first. Each
-- row has the provider's accounts and two differences: imported less metered, and invoiced less imported. If the
-- workspace hides provider cost, every meteredUsd is null, and only providers with imports or invoices are listed. An
-- account's meteredUsd is also null if a run of the same month and provider has a cost but names no account. clashes is
-- the result of ai.book_clashes. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.reconcile_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50, token_hash bytea default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace, token_hash);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(workspace, dates.window_from, dates.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (
          where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account and p.account_id is not null)
        ), '[]') as accounts
      from (
        -- A single run without an account makes the metered cost of the month's accounts unknown, unless the run cost
        -- nothing. Failed calls and calls closed by the sweep often name no account.
        select *, coalesce(
          bool_and(q.account_id is not null) filter (where q.metered <> 0) over (partition by q.month, q.provider),
          bool_and(q.account_id is not null) filter (where q.runs > 0) over (partition by q.month, q.provider)
        ) as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(dates.window_from),
      'to', ai.utc_text_microseconds(dates.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'clashes', ai.book_clashes(workspace, dates.window_from, dates.window_to),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;

-- Unused since 0.2.0, goes in 0.3.0. Servers of release 0.1.0 call it for satellites.
-- Definer: see ai.reconcile_costs.
create or replace function private.reconcile_costs_by_app_session(
  token_hash bytea, workspace_id uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.reconcile_costs(null, workspace_id, given_from, given_to, after, page_size, token_hash)
$$;

-- Returns a page of a book's providers by name, or only one provider, each with its metered and imported cost in a
-- range, and the totals of all providers. Leaves out providers without metered or imported cost. meteredUsd is null if
-- the workspace hides provider cost. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.compare_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  of_provider text default null, after text default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with providers as materialized (
      select p.provider, sum(p.metered) as metered, sum(p.imported) as imported
      from ai.reconciled_costs(workspace, dates.window_from, dates.window_to) p
      where of_provider is null or p.provider = ai.provider_name(of_provider)
      group by p.provider
      having sum(p.records) > 0 or (visible and sum(p.metered) <> 0)
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(p.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(p.imported), 0))::text,
          'providers', count(*)
        )
        from providers p
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'provider', p.provider,
            'meteredUsd', case when visible then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text
          )
          order by p.provider collate "C"
        ), '[]')
        from (
          select *
          from providers p
          where after is null or p.provider collate "C" > after collate "C"
          order by p.provider collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

-- Stores all days of a cost file or none. Returns { outcome: imported, importId, added, corrected, cleared, unchanged
-- }, { outcome: changed } or { outcome: invalid, param, message }. importId is null if no day changes. The outcome is
-- changed if the given state (ai.cost_file_state) is no longer current, or if a concurrent import wrote one of the same
-- days. The change is { actor, reason, requestId, ip }. The workspace's activity log records its actor, and the audit log
-- records it for the platform's book. An import by an operator has no actor. Not granted to any role.
create or replace function ai.store_cost_file(book uuid, app uuid, document jsonb, state text, change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault jsonb := ai.cost_document_fault(document);
  days ai.cost_file_day[];
  item ai.cost_file_day;
  answer jsonb;
  new_id uuid := gen_random_uuid();
begin
  if fault is not null then
    return fault;
  end if;
  days := ai.compare_cost_file(book, app, document);
  if state <> ai.cost_file_state(book, app, document, days) then
    return '{"outcome": "changed"}';
  end if;
  select jsonb_build_object(
    'outcome', 'imported',
    'importId', case when bool_or(d.change not in ('unchanged', 'remaining')) then new_id end,
    'added', count(*) filter (where d.change = 'added'),
    'corrected', count(*) filter (where d.change = 'corrected'),
    'cleared', count(*) filter (where d.change = 'cleared'),
    'unchanged', count(*) filter (where d.change = 'unchanged')
  ) into answer
  from unnest(days) d;
  if answer ->> 'importId' is null then
    return answer;
  end if;
  insert into ai.cost_imports (
    id, workspace_id, app_id, provider, format, file_name, file_sha256, time_zone, rates, imported_by
  )
  values (
    new_id, book, app, ai.provider_name(document ->> 'provider'), document ->> 'format', document ->> 'fileName',
    decode(document ->> 'sha256', 'hex'), document ->> 'timeZone', coalesce(document -> 'rates', '{}'), (change ->> 'actor')::uuid
  );
  -- Writes days in the order in which ai.import_provider_costs writes records, so that concurrent imports can't
  -- deadlock.
  for item in
    select d.*
    from unnest(days) d
    where d.change not in ('unchanged', 'remaining')
    order by d.account_id collate "C", d.external_run_id collate "C"
  loop
    perform ai.write_cost_file_day(book, app, new_id, item);
  end loop;
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'costs.import',
      'target', 'costs ' || ai.provider_name(document ->> 'provider'),
      'after', ai.cost_import_details(new_id) || answer
    ));
  else
    perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
    perform private.log_workspace_change(
      book, 'provider_costs.imported', new_id,
      concat_ws(' ', ai.provider_name(document ->> 'provider'), document ->> 'fileName'),
      ai.cost_import_details(new_id) || jsonb_build_object(
        'appId', app, 'days', (select count(*) from unnest(days) d where d.change <> 'remaining'),
        'totalUsd', (select trim_scale(sum(d.amount_usd))::text from unnest(days) d)
      )
    );
  end if;
  return answer;
exception
  -- A concurrent import wrote one of the same days, so this import stores nothing.
  when serialization_failure then
    return '{"outcome": "changed"}';
end
$$;

-- Writes one day of a cost file. Raises serialization_failure if a concurrent import has changed or added the day's
-- stored record. Not granted to any role.
create or replace function ai.write_cost_file_day(book uuid, app uuid, new_import_id uuid, item ai.cost_file_day) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := (select i.provider from ai.cost_imports i where i.id = new_import_id);
  occurred timestamptz := item.day::timestamp at time zone 'UTC';
  recorded timestamptz := clock_timestamp();
  -- Importers' clocks may be up to 60 seconds ahead.
  observed timestamptz := greatest(recorded, item.observed_before + interval '1 microsecond');
begin
  if item.stored_id is null then
    insert into ai.external_provider_costs (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at,
      recorded_at, import_id, original
    )
    values (
      book, app, name, item.account_id, item.external_run_id, 'account_day', item.amount_usd, occurred, observed,
      recorded, new_import_id, item.original
    )
    on conflict do nothing;
  else
    update ai.external_provider_costs c
    set
      granularity = 'account_day', service = null, amount_usd = item.amount_usd, occurred_at = occurred,
      observed_at = observed, recorded_at = recorded, revision = c.revision + 1, import_id = new_import_id,
      original = item.original
    where c.id = item.stored_id and c.revision = item.stored_revision;
  end if;
  if not found then
    raise exception 'a concurrent import wrote %', item.external_run_id using errcode = 'serialization_failure';
  end if;
end
$$;

-- Returns details of an import for the activity log and the audit log. Not granted to any role.
create or replace function ai.cost_import_details(of_import_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'provider', i.provider, 'format', i.format, 'file', i.file_name, 'sha256', encode(i.file_sha256, 'hex'),
    'timeZone', i.time_zone, 'rates', i.rates
  )
  from ai.cost_imports i
  where i.id = of_import_id
$$;

-- Rejects changes, because ai.cost_imports is append-only.
create or replace function ai.reject_cost_import_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  raise exception 'a cost import is immutable' using errcode = 'restrict_violation';
end
$$;

-- Admits or refuses a call. Reserves the maximum cost of an admitted call and opens its run. Returns the run with its
-- routes and prices, or {refused: code, …}, as JSON text. Until 0.3.0: only gateways of release 0.1.0
-- call it.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential, never from an id in the
-- call.
create or replace function ai.begin_run(call jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
  set lock_timeout = '1s'
as $$
begin
  return (ai.begin_calls(jsonb_build_array(call), interval '1.2 seconds'))[1];
end
$$;

-- Admits or refuses several calls independently. Takes {"calls": [call], "wait_ms": number, "lock_wait_ms": number}.
-- wait_ms is how long the gateway waits for the result. lock_wait_ms limits the wait for each lock; without it, the
-- limit of the role applies. Returns a JSON array with the result of begin_run for each call, in the order of the calls.
-- Atomic: if the function raises an error, it reserves nothing and opens no run. Raises cardinality_violation if two
-- calls that fit have the same idempotency key; the gateway then sends them apart.
-- Until 0.3.0: gateways of release 0.1.0 pass only the array of calls, and wait for 1.5 s.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.begin_runs(calls jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  batch jsonb := case jsonb_typeof(calls)
    when 'array' then jsonb_build_object('calls', calls, 'wait_ms', 1200, 'lock_wait_ms', 100)
    else calls
  end;
  lock_limit text := set_config(
    'lock_timeout', coalesce(batch ->> 'lock_wait_ms', current_setting('lock_timeout')), true
  );
begin
  return '[' || array_to_string(
    ai.begin_calls(batch -> 'calls', (batch ->> 'wait_ms')::integer * interval '1 millisecond'), ','
  ) || ']';
end
$$;

-- Admits calls with ai.admit_calls. Raises query_canceled if that took so long that the gateway no longer waits for the
-- result.
create or replace function ai.begin_calls(calls jsonb, wait_limit interval) returns text[]
  language plpgsql volatile security invoker
as $$
declare
  -- Gets the transaction's id before any lock is waited for. The sweep knows by this id whether a run that began earlier
  -- may still appear, and allows 5 seconds between the start of the transaction and its id.
  transaction_id xid8 := pg_current_xact_id();
  answers text[];
begin
  if clock_timestamp() - now() > interval '4 seconds' then
    raise exception 'too late for a transaction to begin a run' using errcode = 'query_canceled';
  end if;
  -- Locks each run until the transaction ends. ai.release_orphaned_runs tries the same locks to see which runs may
  -- still begin.
  perform pg_advisory_xact_lock(s.key)
  from (select hashtextextended(c ->> 'run_id_suffix', 1) as key from jsonb_array_elements(calls) as c order by key) as s;
  answers := ai.admit_calls(calls);
  if clock_timestamp() - statement_timestamp() > wait_limit then
    raise exception 'too late for a run to begin' using errcode = 'query_canceled';
  end if;
  return answers;
end
$$;

-- Prices the calls, reserves their maximum costs and opens the runs of those that fit. Returns the result of
-- ai.begin_run for each call, in the order of the calls.
create or replace function ai.admit_calls(calls jsonb) returns text[]
  language plpgsql volatile security invoker
  -- Every query finds its rows by key. These settings force index lookups in a generic plan, so that wrong statistics
  -- can't lead to a slow plan, and avoid hash tables, which are slow to create for a few rows.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_material = off set enable_hashagg = off set enable_memoize = off set jit = off
as $$
declare
  claims ai.claim[] := ai.price_calls(calls);
  claim ai.claim;
  opens_accounts boolean := false;
  stores_keys boolean := false;
  answers text[] := '{}';
begin
  foreach claim in array claims loop
    opens_accounts := opens_accounts
      or claim.refusal is null and claim.account_id is null and ai.payer_id(claim.caller) is not null;
    stores_keys := stores_keys or (claim.request).idempotency_key is not null;
  end loop;
  if opens_accounts then
    -- In the order of their owners' ids, so that two batches can't deadlock.
    perform ai.open_credit_account(o.payer, o.id, o.initial_credits)
    from (
      select distinct (c.caller).payer, ai.payer_id(c.caller) as id, (c.caller).initial_credits
      from unnest(claims) as c
      where c.refusal is null and c.account_id is null and ai.payer_id(c.caller) is not null
      order by 2
    ) as o;
    claims := ai.price_calls(calls);
  end if;
  claims := ai.reserve(claims);
  for place in 1..cardinality(claims) loop
    answers[place] := claims[place].refusal::text;
  end loop;
  if array_position(answers, null) is null then
    return answers;
  end if;
  with opened as (
    insert into ai.runs (
      id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits,
      budget_scopes, reserved_tokens, tokens_reserved_at
    )
    select
      c.run_id, (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, case (c.caller).source when 'key' then 'background' else 'interactive' end,
      (c.request).feature, (c.request).request_id, c.label, (c.request).idempotency_key,
      coalesce((c.request).streamed, false), c.model_id, c.routes, (c.caller).markup, ai.payer_id(c.caller) is null,
      c.account_id, c.cost_usd, c.credits, c.budget_scopes, c.tokens, case when c.tokens is not null then c.minute end
    from unnest(claims) as c
    where c.refusal is null
  )
  select
    -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
    array_agg(coalesce(c.refusal::text, format(
      '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,'
      '"credits_per_usd":"%s","exempt":%s,"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,'
      '"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s}',
      c.run_id, to_json(now()), (c.caller).workspace_id, to_json(c.model_id), coalesce(c.context_window::text, 'null'),
      coalesce(to_json(c.voice), 'null'), c.routes, ai.credits_per_usd((c.caller).markup),
      (ai.payer_id(c.caller) is null)::text, c.cost_usd, c.credits, coalesce(c.tokens::text, 'null'),
      coalesce(c.output_limit::text, 'null'), (ai.payer_id(c.caller) is null or (c.caller).cost_visible)::text,
      (c.caller).capture::text, c.limits, coalesce(to_json((c.caller).key_name), 'null'),
      coalesce((c.caller).is_strict, false)::text
    )) order by c.ordinality)
  into answers
  from unnest(claims) with ordinality as c;
  if stores_keys then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    select
      (c.caller).workspace_id, ai.principal_id(c.caller), (c.request).idempotency_key,
      decode((c.request).fingerprint, 'hex'), now(), c.run_id
    from unnest(claims) as c
    where c.refusal is null and (c.request).idempotency_key is not null
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;
  return answers;
end
$$;

-- Returns the caller of a call, as ai.find_callers does.
create or replace function ai.find_caller(call jsonb) returns ai.caller
  language plpgsql stable security invoker
as $$
declare
  calls jsonb := jsonb_build_array(call);
  people ai.caller[] := ai.user_callers(calls);
begin
  return (select c.caller from ai.find_callers(calls, people) c);
end
$$;

-- Returns the refusal of a caller that may not make calls, otherwise null. If a kind is given, also checks that the
-- caller may make calls of that kind.
create or replace function ai.call_refusal(caller ai.caller, kind text default null) returns jsonb
  language sql stable security invoker
as $$
  select case
    when (caller).source is null then ai.refusal('invalid_api_key')
    when (caller).refused is not null then ai.refusal((caller).refused)
    when (caller).app_id is not null and not 'ai:use' = any ((caller).scopes)
      or kind is not null and (
        (caller).app_id is not null and kind = 'speech' and not 'tts:use' = any ((caller).scopes)
        or (caller).payer = 'member' and not (caller).actor_is_member
      ) then ai.refusal('insufficient_scope')
  end
$$;

-- Returns the person that belongs to an app's token or to the claims of a session, for each of the calls, and the reason
-- if the gateway refuses the person's calls. Returns null for keys, and for a token or claims that are not valid.
-- The gateway recognizes this function's name in an error, and then answers AUTH_UNAVAILABLE.
create or replace function ai.user_callers(calls jsonb) returns ai.caller[]
  language plpgsql stable security invoker
as $$
declare
  callers ai.caller[];
  caller ai.caller;
  place integer;
begin
  if not jsonb_path_exists(calls, '$[*].credential.source ? (@ == "app_token" || @ == "session")') then
    return callers;
  end if;
  for place, caller.refused, caller.workspace_id, caller.actor_id, caller.app_id, caller.scopes in
    select e.place, u.*
    from jsonb_array_elements(calls) with ordinality as e (call, place)
    cross join lateral (
      select r.credential, case (r.credential).source when 'session' then r.workspace::uuid end as workspace
      from jsonb_to_record(e.call) as r (credential ai.credential, workspace text)
      offset 0
    ) as r
    cross join lateral (
      select t.refused, t.workspace_id, t.user_id, t.app_id, t.scopes
      from ai.find_app_token(decode((r.credential).hash, 'hex')) t
      where (r.credential).source = 'app_token' and t.refused is distinct from 'invalid_api_key'
      union all
      select s.refused, r.workspace, s.user_id, null, null
      from ai.session_caller((r.credential).claims, r.workspace) s
      where (r.credential).source = 'session'
    ) as u
  loop
    callers[place] := caller;
  end loop;
  return callers;
end
$$;

-- Returns the id that represents a label in budgets: a UUID version 8 (RFC 9562, 5.8) made from the label's SHA-256.
-- Callers choose labels, so they must not be able to find a collision. A label cannot contain a backslash, which the
-- cast to bytea would read as an escape.
create or replace function ai.label_id(label text) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select left(
    overlay(overlay(encode(sha256(label::bytea), 'hex') placing '8' from 13) placing '8' from 17), 32
  )::uuid
$$;

-- Updates the last_used_at of keys, at most once a minute.
create or replace function ai.record_key_use(key_ids uuid[]) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  update ai.keys k set last_used_at = now()
  where k.id = any (key_ids) and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute');
end
$$;

-- Returns a refusal with a code from the gateway's closed list of errors. Stable as jsonb_build_object is, so that the
-- planner inlines it; it would compute an immutable function of a constant code each time that it plans a statement.
create or replace function ai.refusal(code text, details jsonb default '{}') returns jsonb
  language sql stable security invoker parallel safe
as $$
  select jsonb_build_object('refused', code) || coalesce(details, '{}')
$$;

-- Checks the credential of a call with an invalid or large body. A caller without a valid credential, or without
-- permission for this kind of call, is refused before any error in the body is reported. Returns the credential's owner
-- or {refused: code}.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.check_credential(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller, call ->> 'kind');
begin
  if refusal is not null then
    return refusal;
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;

-- Returns the models that a credential may use now, in OpenAI's format and in the order of ai.model_order, or {refused:
-- code}. A model is left out if no provider can serve it or its calls have no price. If the call has model, returns
-- only that model. If the call has paths, [{ path, kind, providers }], returns the list as text and adds endpoints.
-- endpoints has, for each model, the paths of the model's kind that at least one of its providers serves.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  -- The models as JSON text, because building one jsonb from all models would be slow.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- Reads all models in one pass. With a large catalogue, calling a function for each model would take most of the
  -- query's time.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', (
          select jsonb_agg(ai.listed_price(t.price) order by t.place)
          from jsonb_array_elements(p.prices) with ordinality as t (price, place)
        )
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_routes(request.providers) p
    where request.model is null or p.model_id = request.model
  ),
  served as (
    select r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers
    from routes r
    group by r.model_id
  ),
  paths as materialized (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'default_output_limit', u.default_output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case when shows_prices then jsonb_build_object('routes', s.routes) else jsonb '{}' end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found');
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

-- Adds credits to the balance of a workspace or member (payer as in ai.plans) and returns the balance. A negative
-- amount withdraws credits, and raises an error if less is available. If a reference is given, a repeated call changes
-- nothing, and a call with a different amount raises an error. Without a reference, every call changes the balance.
-- Only operators can run it, because no API role is granted it.
create or replace function ai.grant_credits(
  payer text, owner_id uuid, amount numeric, description text, reference text default null
) returns numeric
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  changed jsonb := ai.change_credits(ai.open_credit_account(payer, owner_id, 0), amount, description, reference);
begin
  if changed ->> 'outcome' = 'reference_used' then
    raise exception 'the reference "%" was used for % credits', reference, changed ->> 'amount' using errcode = 'unique_violation';
  elsif changed ->> 'outcome' = 'insufficient' then
    raise exception 'only % credits are available', changed ->> 'available' using errcode = 'check_violation';
  end if;
  return (changed ->> 'balance')::numeric;
end
$$;

-- Adds credits to an account, or withdraws credits if the amount is negative. Returns { outcome, balance, amount,
-- available }. The outcome is changed, repeated (the reference was already used for this amount), reference_used (the
-- reference was used for another amount) or insufficient (the amount exceeds the balance less reservations). Two
-- references are the same if they differ only in spaces or Unicode composition. Case matters. Concurrent changes of an
-- account wait for each other.
create or replace function ai.change_credits(account uuid, amount numeric, description text, reference text) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  held ai.credit_accounts;
  used numeric;
  entry bigint;
begin
  if amount is null or amount = 'NaN' or amount <> round(amount, 8) then
    raise exception 'credits are a number with at most 8 decimals' using errcode = 'check_violation';
  end if;
  -- People can't distinguish composed from decomposed letters, or one kind of space from another.
  reference := btrim(regexp_replace(
    normalize(reference), '[\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+', ' ', 'g'
  ));
  -- Locks the account, so that concurrent changes with the same reference are made only once.
  select * into held from ai.credit_accounts a where a.id = account for no key update;
  select r.amount into used
  from ai.credit_references r
  where r.account_id = account and r.reference = change_credits.reference;
  if found then
    return jsonb_build_object(
      'outcome', case when used = amount then 'repeated' else 'reference_used' end,
      'amount', trim_scale(used)::text,
      'balance', held.balance::text
    );
  end if;
  if amount < 0 and held.balance - held.reserved + amount < 0 then
    return jsonb_build_object('outcome', 'insufficient', 'available', trim_scale(held.balance - held.reserved)::text);
  end if;
  update ai.credit_accounts a
  set balance = a.balance + amount, refused_at = case when amount > 0 then null else a.refused_at end
  where a.id = account
  returning * into held;
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
  values (account, 'grant', amount, held.balance, change_credits.description)
  returning id into entry;
  if reference is not null then
    insert into ai.credit_references (account_id, reference, amount, entry_id)
    values (account, change_credits.reference, amount, entry);
  end if;
  if amount > 0 then
    perform ai.reset_credit_alert(held);
  end if;
  return jsonb_build_object('outcome', 'changed', 'balance', held.balance::text);
end
$$;

-- Returns empty, low or funded. empty: the balance is used up, or a call was refused in the last hour and the available
-- credits are below the threshold, or below 1,000 if the threshold is 0. A call that is refused with more credits
-- available was simply very large. low: the balance is below the threshold. funded: any other balance.
create or replace function ai.credit_level(account ai.credit_accounts, threshold numeric) returns ai.credit_level
  language sql stable security invoker parallel safe
as $$
  select case
    when (account).balance <= 0 then 'empty'
    when (account).refused_at > now() - interval '1 hour'
      and (account).balance - (account).reserved < case when threshold > 0 then threshold else 1000 end then 'empty'
    when (account).balance < threshold then 'low'
    else 'funded'
  end::ai.credit_level
$$;

-- Returns a credential's kind, limits, budgets, cost in this month and remaining amounts, or {refused: code}.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  exempt boolean;
  cost_visible boolean;
begin
  if refusal is not null then
    return refusal;
  end if;
  exempt := caller.app_id is not null;
  cost_visible := exempt or caller.cost_visible;

  return jsonb_build_object(
    'source', caller.source,
    'workspaceId', caller.workspace_id,
    'userId', case when caller.source <> 'key' then caller.actor_id end,
    'key', (
      select jsonb_build_object(
        'id', k.id,
        'name', k.name,
        'prefix', 'ttr_ai_' || k.lookup,
        'environment', k.environment,
        'createdAt', ai.utc_text(k.created_at),
        'replaced', k.replaced_by is not null,
        'allowedModels', k.allowed_models,
        'allowedAddresses', k.allowed_addresses,
        'strict', k.is_strict,
        'entityId', k.entity_id
      )
      from ai.keys k where k.id = caller.key_id
    ),
    'app', (
      select jsonb_build_object('id', a.id, 'name', a.name, 'displayName', a.display_name)
      from private.apps a where a.id = caller.app_id
    ),
    'scopes', caller.scopes,
    'expiresAt', ai.utc_text(coalesce(
      (select k.expires_at from ai.keys k where k.id = caller.key_id),
      (
        select t.expires_at from ai.app_tokens t
        where caller.source = 'app_token' and t.token_hash = decode(call -> 'credential' ->> 'hash', 'hex')
      )
    )),
    'exempt', exempt,
    'limits', (
      select coalesce(jsonb_agg(l.value), '[]')
      from jsonb_array_elements(jsonb_build_array(
        ai.remaining_rate('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.remaining_rate(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- Null for apps, which pay no credits, and for keys if members pay, because the key's holder may be someone else
    -- than the member who pays.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller)
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;

-- Reserves the maximum cost of another provider call of an open run. Requires that the run's key is not revoked, that
-- its app's registration is still valid, and that rate limits, budgets and balance have room. A key that expires
-- meanwhile does not end a run, which ends with the longest call at the latest. Returns everything that is reserved for
-- the run, or {refused: code, …}.
-- Definer: gateway has no grant on any table. A run is identified by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
  -- A generic plan fits every call.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  run ai.runs;
  caller ai.caller;
  claim ai.claim;
  key_is_revoked boolean;
  refused text;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  used_tokens bigint;
  input_tokens bigint;
  token_limit bigint;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.entity_id, k.revoked_at is not null, k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute)
  into
    caller.entity_id, key_is_revoked, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_revoked then
    return ai.refusal('invalid_api_key');
  end if;
  if run.app_id is not null then
    select r.refused into refused
    from private.apps a
    cross join lateral private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) r
    where a.id = run.app_id;
    if not found or refused is not null then
      return ai.refusal(coalesce(refused, 'app_not_allowed'));
    end if;
  end if;

  select x.usd, i.text_tokens + i.image_tokens + i.audio_tokens into step_usd, input_tokens
  from ai.input_tokens(request.input_bytes, request.images, request.audio_seconds) as i
  cross join lateral ai.maximum_cost(
    run.routes, i.text_tokens, i.image_tokens, i.audio_tokens, request.output_limit * coalesce(request.choices, 1),
    request.hour_writes, request.service_tier, null, false
  ) as x;
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  token_limit := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    claim.tokens := ai.reserved_tokens(
      input_tokens, request.output_limit, request.choices, request.output_limit_assumed, token_limit
    );
    if claim.tokens > token_limit then
      return ai.token_limit_refusal(caller, input_tokens, claim.tokens);
    end if;
    -- In the minute of the last reservation, replaces the reserved tokens with those that the earlier steps used. In a
    -- new minute, reserves only this step's tokens.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    claim.minute := run.tokens_reserved_at;
    claim.replaced_tokens := run.reserved_tokens - used_tokens;
  end if;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  claim.caller := caller;
  claim.request.entity_id := run.entity_id;
  claim.requests := 0;
  claim.budget_scopes := run.budget_scopes;
  claim.cost_usd := step_usd;
  claim.account_id := run.account_id;
  claim.credits := total_credits - run.reserved_credits;
  claim := (ai.reserve(array[claim]))[1];
  if claim.refusal is not null then
    -- Without `frees`: the run itself holds part of the room, and a retry would pay for its earlier steps again.
    return claim.refusal - 'frees';
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + claim.tokens, r.reserved_tokens),
    tokens_reserved_at = case when claim.tokens is not null then claim.minute else r.tokens_reserved_at end,
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;

-- Locks the rows that admissions, extensions and settlements change. All of them use this order: idempotency keys,
-- keys, rate windows, budgets, balances. Rows of one kind are sorted, so budgets of apps are locked before budgets of
-- keys, labels, members and workspaces. Callers of this function first lock runs and open new accounts. Returns the
-- locked budgets and balances. Rate windows can be read by the next statement.
create or replace function ai.lock_rows(locks ai.lock_list, out budgets ai.budgets[], out accounts ai.credit_accounts[])
  language plpgsql volatile security invoker
as $$
begin
  if locks.idempotency_keys is not null then
    perform pg_advisory_xact_lock(k.key) from (select distinct u.key from unnest(locks.idempotency_keys) as u (key) order by 1) as k;
    -- Storing an idempotency key would later lock its workspace through the foreign key. Locks the workspace now,
    -- because an account deletion also locks workspaces before API keys.
    perform from public.workspaces s where s.id = any (locks.workspaces) order by s.id for key share;
  end if;
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.rate_windows is not null then
    -- Opens missing windows and restarts expired ones. The `on conflict` clause also locks windows that are still
    -- current.
    insert into ai.rate_windows as w (scope, subject_id, window_start, requests, tokens)
    select distinct s.scope, s.subject_id, date_trunc('minute', now()), 0, 0 from unnest(locks.rate_windows) as s order by 1, 2
    on conflict (subject_id, scope) do update
    set window_start = excluded.window_start, requests = 0, tokens = 0
    where w.window_start < excluded.window_start;
  end if;
  if locks.budgets is not null then
    budgets := array(
      select b from ai.budgets b
      where (b.scope, b.subject_id, b.workspace_id) in (
        select s.scope, s.subject_id, s.workspace_id from unnest(locks.budgets) as s
      )
      order by b.scope, b.subject_id, b.workspace_id
      for no key update
    );
  end if;
  if locks.accounts is not null then
    accounts := array(
      select a from ai.credit_accounts a where a.id = any (locks.accounts) order by a.id for no key update
    );
  end if;
end
$$;

-- Returns the rows that the calls must lock. A refused call locks no rows.
create or replace function ai.collect_locks(claims ai.claim[]) returns ai.lock_list
  language plpgsql stable security invoker
as $$
declare
  claim ai.claim;
  scope text;
  locks ai.lock_list;
begin
  foreach claim in array claims loop
    continue when claim.refusal is not null;
    if (claim.request).idempotency_key is not null then
      locks.idempotency_keys := locks.idempotency_keys || hashtextextended(
        concat_ws(' ', (claim.caller).workspace_id, ai.principal_id(claim.caller), (claim.request).idempotency_key), 0
      );
      locks.workspaces := locks.workspaces || (claim.caller).workspace_id;
    end if;
    if ai.is_key_use_due(claim.caller) then
      locks.keys := locks.keys || (claim.caller).key_id;
    end if;
    if num_nonnulls((claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('key', (claim.caller).lineage_id, null)::ai.limit_subject;
    end if;
    if num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('workspace', (claim.caller).workspace_id, null)::ai.limit_subject;
    end if;
    if claim.budget_scopes is not null then
      foreach scope in array claim.budget_scopes loop
        locks.budgets := locks.budgets || ai.claimed_budget(claim, scope);
      end loop;
    end if;
    if claim.account_id is not null then
      locks.accounts := locks.accounts || claim.account_id;
    end if;
  end loop;
  return locks;
end
$$;

-- Reserves provider calls in the rate windows, budgets and balances that they share, in the order of the calls. A call
-- that a limit refuses reserves nothing, but counts as a request in the rate windows before that limit. Returns the calls
-- with their limits and the start of their windows, or with the refusal. Not granted to any role, because it trusts its
-- caller.
create or replace function ai.reserve(claims ai.claim[]) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
  locks ai.lock_list := ai.collect_locks(claims);
  locked record := ai.lock_rows(locks);
  -- The locked rows, which the loop changes and the end writes.
  windows ai.rate_windows[];
  budgets ai.budgets[] := locked.budgets;
  accounts ai.credit_accounts[] := locked.accounts;
  window_ids uuid[];
  budget_ids ai.limit_subject[];
  account_ids uuid[];
  claim ai.claim;
  -- The places of a call's rows, which are null for limits that it does not have.
  of_key integer;
  of_workspace integer;
  of_budgets integer[];
  scopes text[];
  of_account integer;
  of_budget integer;
  full_budget integer;
  full_scope text;
  scope text;
  earlier ai.idempotency_keys;
  tokens bigint;
  refused_by text;
  frees boolean;
  has_counted boolean := false;
  has_reserved boolean := false;
  has_refused boolean := false;
begin
  if locks.rate_windows is not null then
    windows := array(
      select w
      from ai.rate_windows w
      where w.subject_id = any (array(select s.subject_id from unnest(locks.rate_windows) as s))
    );
  end if;
  for place in 1..coalesce(cardinality(windows), 0) loop
    window_ids[place] := windows[place].subject_id;
  end loop;
  for place in 1..coalesce(cardinality(budgets), 0) loop
    budget_ids[place] := row(budgets[place].scope, budgets[place].subject_id, budgets[place].workspace_id)::ai.limit_subject;
  end loop;
  for place in 1..coalesce(cardinality(accounts), 0) loop
    account_ids[place] := accounts[place].id;
  end loop;

  -- Decides in memory, because a call must find what the calls before it have left of every limit.
  for place in 1..cardinality(claims) loop
    claim := claims[place];
    continue when claim.refusal is not null;
    earlier := null;
    if (claim.request).idempotency_key is not null then
      select i.* into earlier
      from ai.idempotency_keys i
      where i.workspace_id = (claim.caller).workspace_id
        and i.principal_id = ai.principal_id(claim.caller)
        and i.key = (claim.request).idempotency_key
        and i.expires_at > now();
    end if;
    of_key := case
      when num_nonnulls((claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).lineage_id), 0)
    end;
    of_workspace := case
      when num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).workspace_id), 0)
    end;
    of_account := case
      when claim.account_id is not null and (claim.request).is_free is not true then coalesce(array_position(account_ids, claim.account_id), 0)
    end;
    of_budgets := '{}';
    scopes := '{}';
    full_budget := null;
    full_scope := null;
    if budgets is not null and claim.budget_scopes is not null then
      foreach scope in array claim.budget_scopes loop
        of_budget := array_position(budget_ids, ai.claimed_budget(claim, scope));
        continue when of_budget is null;
        of_budgets := of_budgets || of_budget;
        scopes := scopes || scope;
        if full_scope is null and not ai.fits_budget(claim, budgets[of_budget], month) then
          full_budget := of_budget;
          full_scope := scope;
        end if;
      end loop;
    end if;
    claim.budget_scopes := scopes;
    -- In the window of the run's last reservation, replaces the tokens that earlier steps reserved and did not use.
    tokens := claim.tokens - case
      when claim.minute = greatest(windows[of_key].window_start, windows[of_workspace].window_start)
        then claim.replaced_tokens
      else 0
    end;
    refused_by := case
      when of_key is not null and not ai.fits_window(
        windows[of_key], claim.requests, case when earlier.key is null then tokens else 0 end,
        (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
      ) then 'key_window'
      when earlier.key is not null then 'idempotency'
      when full_scope <> 'workspace' then 'budget'
      when of_workspace is not null and not ai.fits_window(
        windows[of_workspace], claim.requests, tokens,
        (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
      ) then 'workspace_window'
      when full_scope is not null then 'workspace_budget'
      when not coalesce(accounts[of_account].balance - accounts[of_account].reserved >= claim.credits, of_account is null)
        then 'balance'
    end;

    has_counted := has_counted or refused_by is distinct from 'key_window';
    if of_key is not null and refused_by is distinct from 'key_window' then
      windows[of_key].requests := windows[of_key].requests + claim.requests;
    end if;
    if of_workspace is not null and coalesce(refused_by in ('workspace_budget', 'balance'), true) then
      windows[of_workspace].requests := windows[of_workspace].requests + claim.requests;
    end if;
    if refused_by is null then
      has_reserved := true;
      if of_key is not null then
        windows[of_key].tokens := windows[of_key].tokens + coalesce(tokens, 0);
      end if;
      if of_workspace is not null then
        windows[of_workspace].tokens := windows[of_workspace].tokens + coalesce(tokens, 0);
      end if;
      foreach of_budget in array of_budgets loop
        budgets[of_budget].spent_usd := ai.spent_since(budgets[of_budget], month);
        budgets[of_budget].period_start := greatest(budgets[of_budget].period_start, month);
        budgets[of_budget].reserved_usd := budgets[of_budget].reserved_usd + claim.cost_usd;
      end loop;
      if of_account is not null then
        accounts[of_account].reserved := accounts[of_account].reserved + claim.credits;
      end if;
    elsif refused_by in ('budget', 'workspace_budget') then
      -- Stores the time of the month's first refusal, and of later refusals at most once a minute.
      if budgets[full_budget].reserved_usd + claim.cost_usd + ai.spent_since(budgets[full_budget], month)
          > budgets[full_budget].limit_usd
        and coalesce(
          budgets[full_budget].refused_at < greatest(now() - interval '1 minute', month::timestamp at time zone 'UTC'), true
        ) then
        budgets[full_budget].refused_at := now();
        has_refused := true;
      end if;
    elsif refused_by = 'balance' and of_account > 0 then
      if coalesce(accounts[of_account].refused_at < now() - interval '1 minute', true) then
        accounts[of_account].refused_at := now();
        has_refused := true;
      end if;
    end if;

    claim.minute := greatest(windows[of_key].window_start, windows[of_workspace].window_start);
    claim.limits := ai.rate_limit_headers(
      coalesce(windows[of_key].window_start, windows[of_workspace].window_start), array[
        (claim.caller).key_requests_per_minute, windows[of_key].requests,
        (claim.caller).key_tokens_per_minute, windows[of_key].tokens,
        (claim.caller).workspace_requests_per_minute, windows[of_workspace].requests,
        (claim.caller).workspace_tokens_per_minute, windows[of_workspace].tokens
      ]
    );
    if refused_by = 'idempotency' then
      claim.refusal := ai.idempotent_refusal(earlier, decode((claim.request).fingerprint, 'hex'));
    elsif refused_by is not null then
      -- Whether the budgets and the balance had room if no other call reserved anything. If so, the call may be admitted
      -- as soon as running calls are settled.
      frees := refused_by in ('budget', 'workspace_budget', 'balance')
        and coalesce(accounts[of_account].balance >= claim.credits, claim.credits = 0);
      foreach of_budget in array of_budgets loop
        frees := frees and ai.fits_when_settled(claim, budgets[of_budget]);
      end loop;
      claim.refusal := ai.refusal(
        case refused_by
          when 'key_window' then 'rate_limit_exceeded'
          when 'workspace_window' then 'rate_limit_exceeded'
          when 'balance' then 'insufficient_credits'
          else 'budget_exceeded'
        end,
        case
          when coalesce(of_key, of_workspace) is not null then jsonb_build_object('limits', claim.limits::json, 'at', now())
          else '{}'
        end || case when frees then jsonb '{"frees": true}' else '{}' end
      );
    end if;
    claims[place] := claim;
  end loop;

  if locks.keys is not null then
    perform ai.record_key_use(locks.keys);
  end if;
  if windows is not null and has_counted then
    update ai.rate_windows w set requests = n.requests, tokens = n.tokens
    from unnest(windows) as n
    where w.subject_id = any (window_ids) and w.subject_id = n.subject_id and w.scope = n.scope
      and (w.requests, w.tokens) <> (n.requests, n.tokens);
  end if;
  if budgets is not null and (has_reserved or has_refused) then
    update ai.budgets b
    set reserved_usd = n.reserved_usd, spent_usd = n.spent_usd, period_start = n.period_start, refused_at = n.refused_at
    from unnest(budgets) as n
    where b.scope = n.scope and b.subject_id = n.subject_id and b.workspace_id = n.workspace_id
      and b is distinct from n;
  end if;
  if accounts is not null and (has_reserved or has_refused) then
    update ai.credit_accounts a set reserved = n.reserved, refused_at = n.refused_at
    from unnest(accounts) as n
    where a.id = any (account_ids) and a.id = n.id and a is distinct from n;
  end if;
  return claims;
end
$$;

-- Returns whether a rate window has room for a call. Extending a run's reservation adds tokens but no request.
create or replace function ai.fits_window(
  counted ai.rate_windows, requests integer, tokens bigint, request_limit integer, token_limit bigint
) returns boolean
  language sql immutable security invoker
as $$
  select coalesce(
    (request_limit is null or requests = 0 or (counted).requests + requests <= request_limit)
    and (token_limit is null or (counted).tokens + tokens <= token_limit)
    and (counted).subject_id is not null,
    false
  )
$$;

-- Returns what was spent of a budget since the start of the given month, which is the current month.
create or replace function ai.spent_since(budget ai.budgets, month date) returns numeric
  language sql immutable security invoker
as $$
  select case when (budget).period_start < month then 0 else (budget).spent_usd end
$$;

-- Returns the tokens that a call adds to its rate windows until it is settled: its maximum input plus its output limit.
-- Without a stated output limit, the output is at most 500 tokens per choice and no more than fits in the token limit.
create or replace function ai.reserved_tokens(
  input_tokens bigint, output_limit bigint, choices bigint, output_limit_assumed boolean, token_limit bigint
) returns bigint
  language sql immutable security invoker parallel safe
as $$
  select case
    when output_limit_assumed is not true then input_tokens + output_limit * coalesce(choices, 1)
    else greatest(input_tokens, least(input_tokens + least(output_limit, 500) * coalesce(choices, 1), token_limit))
  end
$$;

-- Returns the refusal of a call whose token count exceeds the per-minute limit of its key or workspace. The call would
-- not fit in any later minute either.
create or replace function ai.token_limit_refusal(caller ai.caller, input_tokens bigint, tokens bigint) returns jsonb
  language sql stable security invoker parallel safe
as $$
  select ai.refusal('invalid_request', jsonb_build_object('token_limit', jsonb_build_object(
    'scope', case
      when (caller).key_tokens_per_minute <= (caller).workspace_tokens_per_minute
        or (caller).workspace_tokens_per_minute is null then 'key'
      else 'workspace'
    end,
    'limit', least((caller).key_tokens_per_minute, (caller).workspace_tokens_per_minute),
    'input', input_tokens,
    'counted', tokens
  )))
$$;

-- Converts a price from ai.price_tier to the form shown in the list of models. Amounts are numbers in full precision,
-- and each field name contains the unit.
create or replace function ai.listed_price(tier jsonb) returns jsonb
  -- Stable like jsonb_build_object, so that Postgres can inline it.
  language sql stable security invoker parallel safe
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'min_input_tokens', tier -> 'min_input_tokens',
    'service_tier', tier -> 'service_tier',
    'input_usd_per_million', trim_scale((tier ->> 'input')::numeric),
    'cached_input_usd_per_million', trim_scale((tier ->> 'cached_input')::numeric),
    'cache_write_usd_per_million', trim_scale((tier ->> 'cache_write')::numeric),
    'cache_write_1h_usd_per_million', trim_scale((tier ->> 'cache_write_1h')::numeric),
    'output_usd_per_million', trim_scale((tier ->> 'output')::numeric),
    'audio_input_usd_per_million', trim_scale((tier ->> 'audio_input')::numeric),
    'audio_output_usd_per_million', trim_scale((tier ->> 'audio_output')::numeric),
    'image_input_usd_per_million', trim_scale((tier ->> 'image_input')::numeric),
    'request_fee_usd', trim_scale((tier ->> 'request_fee')::numeric)
  ))
$$;

-- Returns each call with its caller, its routes and its maximum cost, or with the reason why it is refused, in the order
-- of the calls. Locks nothing. If the caller stated no output limit, the model's own default replaces the assumed limit.
-- It is lowered to the model's limit (2,048 if both are unknown) and to the room left in the context window. A free call
-- reserves nothing.
create or replace function ai.price_calls(calls jsonb) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  people ai.caller[] := ai.user_callers(calls);
begin
  return (
    -- Each subquery with `offset 0` computes its columns once, for all the expressions that read them.
    with requests as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        least((c.caller).key_tokens_per_minute, (c.caller).workspace_tokens_per_minute) as token_limit
      from ai.find_callers(calls, people) c
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, p.routes
      from (select distinct r.model_id, (r.request).providers from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers) as p
    )
    select coalesce(array_agg(row(
      ai.price_refusal(r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens),
      r.request, r.caller, coalesce((r.caller).entity_id, (r.request).entity_id, (r.request).session_label),
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd, case when (r.request).is_free is not true then (r.caller).budgets end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null
    )::ai.claim order by r.place), '{}')
    from requests r
    left join lateral (
      select m as model
      from ai.usable_models(
        (r.caller).workspace_id, (r.caller).plan_id, (r.caller).workspace_models, (r.caller).denied_models,
        (r.caller).key_models
      ) m
      where m.id = r.model_id and m.kind = (r.request).kind
      offset 0
    ) as m on true
    left join offers o on o.model_id = (m.model).id and o.providers = (r.request).providers
    cross join lateral (
      select
        i.image_tokens, i.audio_tokens,
        -- No reading exceeds the context window.
        least(i.text_tokens, (m.model).context_window * (r.request).input_reads) as text_tokens,
        least(
          case when (r.request).output_limit_assumed then
            coalesce((m.model).default_output_limit, (r.request).output_limit)
          else (r.request).output_limit end,
          (m.model).output_limit,
          case when (r.request).output_limit_assumed then ai.assumed_output_limit(
            m.model, least((r.request).expected_tokens, i.text_tokens + i.image_tokens + i.audio_tokens)
          ) end
        ) as output_limit
      from ai.input_tokens((r.request).input_bytes, (r.request).images, (r.request).audio_seconds) as i
      offset 0
    ) as u
    cross join lateral (
      select case when (r.request).is_free then 0 else x.usd end::numeric(24, 12) as usd
      from ai.maximum_cost(
        o.routes, u.text_tokens, u.image_tokens, u.audio_tokens, u.output_limit * coalesce((r.request).choices, 1),
        (r.request).hour_writes, (r.request).service_tier, (r.request).fee_requests, (r.request).kind = 'speech'
      ) as x
      offset 0
    ) as x
    cross join lateral (
      select
        i.input_tokens,
        case when r.token_limit is not null then ai.reserved_tokens(
          i.input_tokens, u.output_limit, (r.request).choices, (r.request).output_limit_assumed, r.token_limit
        ) end as reserved_tokens
      from (
        -- Token limits count one reading, of average size: few calls use a server tool as often as they may.
        select u.text_tokens / coalesce((r.request).input_reads, 1) + u.image_tokens / coalesce((r.request).input_reads, 1)
          + u.audio_tokens as input_tokens
      ) as i
      offset 0
    ) as t
    left join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = ai.payer_id(r.caller) offset 0
    ) as a on true
  );
end
$$;

-- Returns the highest output limit of a call that states none: the model's limit (2,048 if the model has none), and the
-- room left in the context window.
create or replace function ai.assumed_output_limit(model ai.models, input_tokens bigint) returns bigint
  language sql immutable security invoker parallel safe
as $$
  select least(
    coalesce((model).output_limit, (model).default_output_limit, 2048),
    case when (model).context_window is not null then greatest(2048, (model).context_window - input_tokens) end
  )
$$;

-- Returns the reason why a call is refused before its limits are checked, or null.
create or replace function ai.price_refusal(
  request ai.run_request, caller ai.caller, model ai.models, routes jsonb, cost_usd numeric, audio_tokens bigint,
  input_tokens bigint, tokens bigint
) returns jsonb
  language sql stable security invoker
as $$
  select coalesce(
    ai.call_refusal(caller, (request).kind),
    case
      when (caller).plan_id is null then ai.refusal('service_unavailable')
      when (request).entity_id <> (caller).entity_id then ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}')
      when (model).id is null then ai.refusal('model_not_found')
      when not coalesce((request).voice = any ((model).voices), (request).voice is null)
        then ai.refusal('invalid_request', '{"param": "voice"}')
      when (request).kind = 'chat' and (request).output_limit > (model).output_limit
        and (request).output_limit_assumed is not true
        then ai.refusal('invalid_request', jsonb_build_object('model_output_limit', (model).output_limit))
      when routes is null then ai.refusal('model_not_found')
      when (audio_tokens > 0 or (request).audio) and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.audio_input))')
        then ai.refusal('unsupported_parameter', '{"param": "messages"}')
      when (request).fee_requests > 0 and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.request_fee))')
        then ai.refusal('unsupported_parameter', '{"param": "tools"}')
      when not ai.is_tier_priced(routes, (request).service_tier)
        then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
      when cost_usd is null then ai.refusal('service_unavailable')
      when tokens > least((caller).key_tokens_per_minute, (caller).workspace_tokens_per_minute)
        then ai.token_limit_refusal(caller, input_tokens, tokens)
    end
  )
$$;

-- Returns the models that are enabled in the catalogue and in the Studio defaults, allowed by the workspace's policy
-- and by the key, and granted to the plan or to the workspace.
create or replace function ai.usable_models(workspace uuid, plan text, workspace_models text[], denied_models text[], key_models text[])
  returns setof ai.models
  language sql stable security invoker
as $$
  select m.*
  from ai.models m
  where m.enabled
    and m.studio_default
    and (workspace_models is null or m.id = any (workspace_models))
    and not m.id = any (coalesce(denied_models, '{}'))
    and (key_models is null or m.id = any (key_models))
    -- Looks the grants up by model.
    and (
      select true from ai.model_grants g where g.model_id = m.id and (g.plan_id = plan or g.workspace_id = workspace) limit 1
    )
$$;

-- Returns the names that match no model id in the catalogue; null if every name matches. Disabled models count as
-- matches. Ids are compared exactly, the same as for calls. Use it to check a list of models before saving the list.
create or replace function ai.unknown_models(names text[]) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select nullif(array(
    select n.name
    from unnest(names) with ordinality as n (name, place)
    where not exists (select from ai.models m where m.id = n.name)
    order by n.place
  ), '{}')
$$;

-- Returns all enabled routes to the given providers with their current prices: the default tier's prices first, and those
-- of a tier by min_input_tokens. Omits routes without a default-tier price.
create or replace function ai.open_routes(providers text[]) returns table (
  model_id text, place smallint, provider_id text, provider_model text, tier_multipliers jsonb,
  trusts_stated_cost boolean, first_byte_seconds smallint, idle_seconds smallint, total_seconds smallint, prices jsonb
)
  language sql stable security invoker
as $$
  select
    r.model_id, r.position, r.provider_id, r.provider_model, r.tier_multipliers,
    r.trusts_stated_cost, r.first_byte_seconds, r.idle_seconds, r.total_seconds, p.prices
  from ai.model_routes r
  cross join lateral (
    select jsonb_agg(t.as_offered order by nullif(t.service_tier, 'default') nulls first, t.min_input_tokens) as prices
    from ai.model_prices t
    where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
    -- Settlement charges the default tier's price for a service tier without its own price, so every route needs a
    -- default price.
    having bool_or(t.service_tier = 'default')
  ) as p
  where r.enabled and r.provider_id = any (providers)
$$;

-- Returns a model's routes to the given providers in order, with their current prices, in the form in which runs store
-- them. Returns null if there is none.
create or replace function ai.priced_routes(model text, providers text[]) returns table (routes jsonb)
  language sql stable security invoker
as $$
  select jsonb_agg(
    jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.prices)
    || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
    || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
    || case
      when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
      else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
        'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
      )))
    end
    order by r.place
  )
  from ai.open_routes(providers) r
  where r.model_id = model
$$;

-- Returns the maximum number of input tokens of a call: one for every three bytes of input (media excluded), 1,500 per
-- image, and 50 per second of audio (Gemini counts 32, OpenAI 10).
create or replace function ai.input_tokens(input_bytes bigint, images bigint, audio_seconds bigint)
  returns table (text_tokens bigint, image_tokens bigint, audio_tokens bigint)
  language sql immutable security invoker parallel safe
as $$
  select (input_bytes + 2) / 3, 1500 * coalesce(images, 0), 50 * coalesce(audio_seconds, 0)
$$;

-- Returns the highest cost that a provider call can have, over all routes and all price tiers that the input can reach.
-- Assumes the whole output limit, no cached input, the higher of the input and cache-write prices, and all request fees
-- that the call may cause. Until 0.3.0: servers of release 0.1.0 don't say whether a request caches for an hour
-- (hour_writes).
create or replace function ai.maximum_cost(
  routes jsonb, text_tokens bigint, image_tokens bigint, audio_tokens bigint, output_tokens bigint, hour_writes boolean,
  service_tier text, fee_requests bigint, is_speech boolean
) returns table (usd numeric)
  language sql immutable security invoker parallel safe
as $$
  select
    max(
      (
        text_tokens * greatest(
          (tier ->> 'input')::numeric, (tier ->> 'cache_write')::numeric,
          case when hour_writes is not false then (tier ->> 'cache_write_1h')::numeric end
        )
        + image_tokens * greatest((tier ->> 'input')::numeric, (tier ->> 'image_input')::numeric)
        + audio_tokens * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
        + output_tokens * coalesce(case when is_speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
      * greatest(1, (route -> 'tier_multipliers' ->> service_tier)::numeric)
      + coalesce((tier ->> 'request_fee')::numeric, 0)
    ) filter (
      where (tier ->> 'min_input_tokens')::bigint <= text_tokens + image_tokens + audio_tokens
        and coalesce(tier ->> 'service_tier', 'default') in ('default', service_tier)
    )
    + greatest(coalesce(fee_requests, 0) - 1, 0) * coalesce(max((tier ->> 'request_fee')::numeric), 0)
  from jsonb_array_elements(routes) as route
  cross join jsonb_array_elements(route -> 'prices') as tier
$$;

-- Returns whether every route has a price for the requested service tier. Always true for auto and default.
create or replace function ai.is_tier_priced(routes jsonb, service_tier text) returns boolean
  language sql stable security invoker parallel safe
as $$
  select coalesce(service_tier, 'auto') in ('auto', 'default') or not jsonb_path_exists(
    routes,
    '$[*] ? (!exists (@.prices[*] ? (@.service_tier == $tier)) && !exists (@.tier_multipliers.keyvalue() ? (@.key == $tier)))',
    jsonb_build_object('tier', service_tier)
  )
$$;

-- Settles a batch of runs at their actual cost. Reporting a run again has no effect, unless the sweep had closed the
-- run at an estimate. In that case, one ledger entry corrects the charge to the actual cost.
-- Definer: gateway has no grant on any table. Callers identify a run by the id that begin_run returned.
create or replace function ai.settle_runs(runs jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  return ai.settle_outcomes(runs);
end
$$;

-- Settles a batch of runs and returns the runs that changed. If idle_since is given, only open runs without a heartbeat
-- since then change. A report that cannot be booked does not block the others: its run stays open, and it is logged.
-- Lock timeouts are raised, so that the caller sends the batch again.
create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
  -- Forces plans that find rows by key, regardless of the table statistics. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  parsed ai.run_outcome[];
  outcome ai.run_outcome;
  first_begun timestamptz;
  last_begun timestamptz;
  due ai.settlement[];
  outcomes_due ai.run_outcome[];
  batch record;
  locks ai.lock_list;
  locked record;
  changed jsonb := '[]';
  last_changed uuid;
begin
  -- Validating each report first would parse it twice.
  begin
    parsed := array(select jsonb_populate_record(null::ai.run_outcome, e.value) from jsonb_array_elements(outcomes) as e);
  exception when data_exception or integrity_constraint_violation then
    -- Of a report that can't be parsed, only the run that it names is read.
    parsed := array(
      select jsonb_populate_record(null::ai.run_outcome, case
        when jsonb_typeof(e.value) = 'object' and jsonb_populate_record_valid(null::ai.run_outcome, e.value) then e.value
        when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') and pg_input_is_valid(e.value ->> 'id', 'uuid')
          then jsonb_build_object('created_at', e.value -> 'created_at', 'id', e.value -> 'id')
      end)
      from jsonb_array_elements(outcomes) as e
    );
  end;
  foreach outcome in array parsed loop
    first_begun := least(first_begun, outcome.created_at);
    last_begun := greatest(last_begun, outcome.created_at);
  end loop;

  select
    array_agg(s.due) filter (where s.is_valid) as due,
    array_agg(s.outcome) filter (where s.is_valid) as outcomes,
    array_agg(s.id) filter (where not s.is_valid) as invalid_ids,
    bool_or(s.budget_scopes <> '{}') as has_budgets,
    array_agg(row('workspace', s.workspace_id, null)::ai.limit_subject) filter (where s.window_start is not null)
      || array_agg(row('key', s.key_lineage_id, null)::ai.limit_subject)
        filter (where s.window_start is not null and s.key_lineage_id is not null) as rate_windows,
    array_agg(s.account_id) filter (where s.account_id is not null) as accounts
  into batch
  from (
    select
      row(
        r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, r.budget_scopes, r.request_id,
        r.model_id, r.has_key, k.kind, b.billed_credits - k.billed_credits, k.reserved_credits, b.cost_usd - k.cost_usd,
        k.reserved_usd,
        case
          -- The sweep closes the run without known usage, so its reservation is shown but not charged.
          when idle_since is not null and o.usage_source = 'unavailable' then ai.usd_to_credits(r.reserved_usd, r.markup)
          when r.exempt then b.credits
          else 0
        end,
        b.billed_credits, r.window_start, r.counted_tokens,
        jsonb_build_object('id', r.id, 'kind', k.kind, 'billed_credits', b.billed_credits::text)
      )::ai.settlement as due,
      r.outcome,
      r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.budget_scopes, r.window_start,
      (o.usage_source is not null and o.status <> 'running'
        and (o.usage_source = 'unavailable' or num_nulls(o.cost_usd, o.credits) = 0)
        and least(o.cost_usd, o.credits, 0) >= 0 and greatest(o.cost_usd, o.credits, 0) < 'Infinity'
        and least(
          o.input_tokens, o.cached_input_tokens, o.audio_input_tokens, o.output_tokens, o.reasoning_tokens,
          o.audio_output_tokens, o.cache_write_tokens, o.cache_write_1h_tokens, o.image_input_tokens, o.fee_requests, 0
        ) >= 0) is true as is_valid
    from (
      select
        r.created_at, r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id,
        r.budget_scopes, r.request_id, r.model_id, r.idempotency_key is not null as has_key, r.status = 'running' as is_open,
        r.swept, r.touched_at, r.exempt, r.markup, r.reserved_credits, r.reserved_usd, r.billed_credits, r.cost_usd,
        case when r.tokens_reserved_at >= date_trunc('minute', now()) then r.tokens_reserved_at end as window_start,
        case r.status when 'running' then r.reserved_tokens else r.input_tokens + r.output_tokens end as counted_tokens,
        n.outcome
      from (
        select p.place, parsed[p.place] as outcome from generate_subscripts(parsed, 1) as p (place) offset 0
      ) as n
      -- The range lets the planner skip partitions of other months.
      join ai.runs r
        on r.created_at = (n.outcome).created_at and r.id = (n.outcome).id and r.created_at >= first_begun and r.created_at <= last_begun
      order by r.account_id, r.id, n.place
      for update of r
    ) as r
    cross join lateral (select (r.outcome).*) as o
    cross join lateral (
      select
        case when r.is_open then 'usage' else 'adjustment' end as kind,
        case when r.is_open then 0 else r.billed_credits end as billed_credits,
        case when r.is_open then 0 else r.cost_usd end as cost_usd,
        case when r.is_open then r.reserved_credits else 0 end as reserved_credits,
        case when r.is_open then r.reserved_usd else 0 end as reserved_usd
    ) as k
    cross join lateral (
      select
        round(coalesce(o.cost_usd, 0), 12) as cost_usd, round(coalesce(o.credits, 0), 8) as credits,
        round(case when r.exempt then 0 else coalesce(o.credits, 0) end, 8) as billed_credits
    ) as b
    -- A run can change if it is open, or if the sweep closed it before the provider's token counts arrived.
    where case
      when r.is_open then (r.touched_at >= idle_since) is not true
      else idle_since is null and r.swept and o.usage_source in ('provider', 'provider_partial') and o.estimated is not true
    end
  ) as s;
  if batch.invalid_ids is not null then
    raise warning 'run % cannot be booked: a run ends with a status, a usage source, a cost and counts of at least 0',
      array_to_string(batch.invalid_ids, ', ') using errcode = 'check_violation';
  end if;
  if batch.due is null then
    return '[]';
  end if;
  due := batch.due;
  outcomes_due := batch.outcomes;
  locks.rate_windows := batch.rate_windows;
  locks.accounts := batch.accounts;
  if batch.has_budgets then
    select array_agg(row(
      t.scope, ai.budget_subject(t.scope, d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id), d.workspace_id
    )::ai.limit_subject)
    into locks.budgets
    from unnest(due) as d cross join unnest(d.budget_scopes) as t (scope);
  end if;
  -- An assignment, because `perform` would be one more statement.
  locked := ai.lock_rows(locks);

  begin
    return ai.book_settlements(due, outcomes_due, first_begun, last_begun, idle_since is not null);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for place in 1..cardinality(due) loop
    -- A run changes only once, even if it is reported several times.
    continue when outcomes_due[place].id = last_changed;
    begin
      changed := changed || ai.book_settlements(
        due[place:place], outcomes_due[place:place], first_begun, last_begun, idle_since is not null
      );
      last_changed := outcomes_due[place].id;
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcomes_due[place].id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return changed;
end
$$;

-- Closes and charges runs that began between the two times, and returns them. Raises unique_violation if a run has
-- several settlements. The caller has locked the runs and their rate windows, budgets and accounts. Idempotency keys are
-- last in the lock order.
create or replace function ai.book_settlements(
  due ai.settlement[], outcomes ai.run_outcome[], first_begun timestamptz, last_begun timestamptz, is_sweep boolean
) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  closed_runs bigint;
  changed jsonb[];
  has_windows boolean;
  has_budgets boolean;
  has_failures boolean;
  has_keys boolean;
begin
  with closed as (
    update ai.runs r
    set
      status = d.status,
      http_status = d.http_status,
      error_code = d.error_code,
      usage_source = d.usage_source,
      route = coalesce(d.route, r.route),
      input_tokens = coalesce(d.input_tokens, 0),
      cached_input_tokens = coalesce(d.cached_input_tokens, 0),
      audio_input_tokens = coalesce(d.audio_input_tokens, 0),
      output_tokens = coalesce(d.output_tokens, 0),
      reasoning_tokens = coalesce(d.reasoning_tokens, 0),
      audio_output_tokens = coalesce(d.audio_output_tokens, 0),
      cache_write_tokens = coalesce(d.cache_write_tokens, 0),
      cache_write_1h_tokens = coalesce(d.cache_write_1h_tokens, 0),
      image_input_tokens = coalesce(d.image_input_tokens, 0),
      fee_requests = coalesce(d.fee_requests, 0),
      served_tier = d.served_tier,
      marks = coalesce(d.marks, '{}'),
      billing_name = d.billing_name,
      billing_account = d.billing_account,
      cost_usd = coalesce(d.cost_usd, 0),
      billed_credits = d.billed_credits,
      unmetered_credits = d.unmetered_credits,
      first_byte_ms = coalesce(d.first_byte_ms, r.first_byte_ms),
      latency_ms = d.latency_ms,
      steps = d.steps,
      attempts = d.attempts,
      touched_at = now(),
      settled_at = now(),
      swept = is_sweep
    from unnest(due, outcomes) as d
    where r.created_at = d.created_at and r.id = d.id and r.created_at >= first_begun and r.created_at <= last_begun
    returning r.id
  ), paid as (
    update ai.credit_accounts a
    set balance = a.balance - p.credits, reserved = a.reserved - p.released
    from (
      select d.account_id as id, sum(d.credits_due) as credits, sum(d.credits_released) as released
      from unnest(due, outcomes) as d
      group by 1
    ) as p
    where a.id = p.id
    returning a.id, a.balance
  ), charged as (
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
    select
      d.account_id, d.kind, -d.credits_due, p.balance + coalesce(sum(d.credits_due) over later, 0), d.created_at, d.id
    from unnest(due, outcomes) as d
    left join paid p on p.id = d.account_id
    where d.credits_due <> 0
    window later as (partition by d.account_id order by d.id desc rows between unbounded preceding and 1 preceding)
    order by d.account_id, d.id
  )
  select
    (select count(*) from closed), array_agg(d.answer), bool_or(d.window_start is not null),
    bool_or(d.budget_scopes <> '{}'), bool_or(d.has_key), bool_or(jsonb_path_exists(d.attempts, '$[*].failure'))
  into closed_runs, changed, has_windows, has_budgets, has_keys, has_failures
  from unnest(due, outcomes) as d;
  if closed_runs < cardinality(due) then
    raise exception 'a run is reported several times' using errcode = 'unique_violation';
  end if;

  if has_windows then
    update ai.rate_windows w
    set tokens = greatest(w.tokens + c.tokens, 0)
    from (
      select
        s.scope, s.subject_id, d.window_start,
        sum(coalesce(d.input_tokens, 0) + coalesce(d.output_tokens, 0) - d.counted_tokens) as tokens
      from unnest(due, outcomes) as d
      cross join lateral (values ('key', d.key_lineage_id), ('workspace', d.workspace_id)) as s (scope, subject_id)
      where d.window_start is not null
      group by 1, 2, 3
    ) as c
    -- A window that began after the run's tokens were reserved is not changed.
    where w.scope = c.scope and w.subject_id = c.subject_id and w.window_start <= c.window_start;
  end if;
  if has_budgets then
    update ai.budgets b
    set
      -- A budget that was deleted and set again holds no reservation of earlier runs.
      reserved_usd = greatest(b.reserved_usd - c.released, 0),
      spent_usd = b.spent_usd + (
        -- A run counts in the month in which it began.
        select coalesce(sum(m.cost_usd), 0)
        from unnest(c.begun, c.costs_usd) as m (begun, cost_usd)
        where m.begun >= b.period_start::timestamp at time zone 'UTC'
      )
    from (
      select
        t.scope, d.workspace_id,
        ai.budget_subject(t.scope, d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id) as subject_id,
        sum(d.usd_released) as released, array_agg(d.created_at) as begun, array_agg(d.cost_due_usd) as costs_usd
      from unnest(due, outcomes) as d
      cross join unnest(d.budget_scopes) as t (scope)
      group by 1, 2, 3
    ) as c
    where b.scope = c.scope and b.subject_id = c.subject_id and b.workspace_id = c.workspace_id;
  end if;
  if has_failures then
    insert into ai.failed_attempts (
      run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
      upstream_request_id
    )
    select
      d.created_at, d.id, d.request_id, d.workspace_id, d.model_id, a.provider, a.model, a.route, a.status, a.failure,
      a.upstream_request_id
    from unnest(due, outcomes) as d
    cross join lateral jsonb_to_recordset(d.attempts) as a (
      route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
    )
    -- A skipped route was not called, and a client that disconnected is not a failure of the provider.
    where a.failure not in ('skipped', 'cancelled');
  end if;
  if has_keys then
    delete from ai.idempotency_keys i
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key and d.key_unused));
    update ai.idempotency_keys i
    set state = 'finished'
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key));
  end if;
  return to_jsonb(changed);
end
$$;

-- Records a heartbeat of each open run, with its token counts and its cost so far.
-- Definer: gateway has no grant on any table. Callers identify a run by the id that begin_run returned.
create or replace function ai.heartbeat_runs(runs jsonb) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  with open_runs as materialized (
    select r.created_at, r.id, o.route, o.input_tokens, o.output_tokens, o.cost_usd
    from jsonb_to_recordset(runs) as o (
      created_at timestamptz, id uuid, route smallint, input_tokens bigint, output_tokens bigint, cost_usd numeric
    )
    join ai.runs r on r.created_at = o.created_at and r.id = o.id and r.status = 'running'
    order by r.account_id, r.id
    for update of r
  )
  update ai.runs r
  set
    touched_at = now(),
    route = coalesce(o.route, r.route),
    input_tokens = greatest(r.input_tokens, o.input_tokens),
    output_tokens = greatest(r.output_tokens, o.output_tokens),
    -- The sweep charges at most the reserved amount. Without this cap, a cost too large for the column would fail the
    -- heartbeats of the whole batch.
    cost_so_far_usd = greatest(r.cost_so_far_usd, least(coalesce(o.cost_usd, 0), r.reserved_usd))
  from open_runs as o
  where r.created_at = o.created_at and r.id = o.id and r.status = 'running';
end
$$;

-- Releases runs if the response to their admission was lost. The callers got 503 and no provider was called, so the
-- runs end at no cost and their idempotency keys are free again. Takes {"tails": [text], "asked_ms_ago": integer}.
-- tails are suffixes of run ids, and asked_ms_ago is the age of the oldest request. Returns the tails for which
-- admission is still in progress.
-- Definer: gateway has no grant on any table. Each run is identified by the id suffix that the gateway chose for it.
create or replace function ai.release_orphaned_runs(lost jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
  -- Forces a search by created_at through an index, even if the table was small when the plan was made.
  set enable_seqscan = off
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  if jsonb_typeof(lost -> 'tails') is distinct from 'array' or (lost ->> 'asked_ms_ago')::integer is null then
    raise exception 'orphaned runs are {"tails": [text], "asked_ms_ago": integer}' using errcode = 'invalid_parameter_value';
  end if;
  for tail in select t.value from jsonb_array_elements_text(lost -> 'tails') as t order by t.value loop
    if pg_try_advisory_xact_lock(hashtextextended(tail, 1)) then
      decided := array_append(decided, tail);
    else
      under_way := array_append(under_way, tail);
    end if;
  end loop;
  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 503,
    'error_code', 'service_unavailable',
    'usage_source', 'unavailable',
    'latency_ms', floor(extract(epoch from clock_timestamp() - r.created_at) * 1000),
    'steps', '[]'::jsonb,
    'key_unused', true
  )) into outcomes
  from ai.runs r
  where r.status = 'running'
    -- Looks back 15 seconds further than asked_ms_ago, because this call took time to arrive.
    and r.created_at > now() - interval '15 seconds' - (lost ->> 'asked_ms_ago')::integer * interval '1 millisecond'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.settle_outcomes(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;

-- Deletes expired idempotency keys, rate windows older than an hour, and failed attempts older than seven days, up to
-- at_most of each. Returns the total number of deleted rows; 0 while another deletion is running.
-- Definer: the server's service role has no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  keys := private.delete_expired_rows('ai.idempotency_keys', 'expires_at', '0', at_most);

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;

  attempts := private.delete_expired_rows('ai.failed_attempts', 'at', '7 days', at_most);
  return keys + windows + attempts;
end
$$;

-- Returns the usage report of the calling app for a window of at most 365 days, or { refused }. Amounts are exact
-- decimals. notes_use: the request counts as a use of the key.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.report_usage(call jsonb) returns json
  language plpgsql volatile security definer set search_path = ''
  -- Days of the report are UTC days.
  set timezone = 'UTC'
  -- Sorts a year's groups in memory, and plans the query only once per connection.
  set work_mem = '32MB' set plan_cache_mode = force_generic_plan
as $$
declare
  caller ai.caller := ai.app_caller(call);
  report_window record := ai.usage_window((call ->> 'from')::timestamptz, (call ->> 'to')::timestamptz, 365);
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  if report_window.fault is not null then
    return ai.refusal('invalid_request', jsonb_build_object('param', 'from', 'message', report_window.fault));
  end if;
  if (call -> 'notes_use')::boolean then
    perform ai.record_key_use(array[caller.key_id]);
  end if;
  return (
    select json_build_object(
      'currency', 'USD',
      'source', 'platform_ai_metering',
      'workspaceId', caller.workspace_id,
      'appId', caller.app_id,
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', case when ai.has_usage_before(caller.workspace_id, caller.app_id, report_window.window_from) then json_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ) end,
      'rows', coalesce(json_agg(d), '[]')
    )
    from (
      select
        u.day,
        u.model_id as model,
        u.feature,
        u.execution_mode as "executionMode",
        trim_scale(sum(u.cost_usd)) as "amountUsd",
        sum(u.requests) as requests,
        sum(u.failed) as failed,
        sum(u.input_tokens) as "inputTokens",
        sum(u.output_tokens) as "outputTokens",
        trim_scale(sum(u.billed_credits)) as "billedCredits",
        trim_scale(sum(u.unmetered_credits)) as "unmeteredCredits"
      from ai.usage_between(caller.workspace_id, report_window.window_from, report_window.window_to) u
      where u.app_id = caller.app_id
      group by u.day, u.model_id, u.feature, u.execution_mode
      having sum(u.requests) > 0
      order by u.day, u.model_id collate "C", u.feature collate "C", u.execution_mode collate "C"
    ) as d
  );
end
$$;

-- Returns the caller of a request that a registered app sends. The credential must be an app's token or a key that is
-- bound to an app, and the request must name the workspace. The app is derived only from the credential. refused is the
-- reason why the call is refused, or null. Not granted to any role.
create or replace function ai.app_caller(call jsonb) returns ai.caller
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
begin
  if caller.source is null then
    caller.refused := 'invalid_api_key';
  elsif caller.source = 'session' or caller.app_id is null then
    caller.refused := 'credential_not_bound';
  elsif caller.refused is null and call ->> 'workspace' is null then
    caller.refused := 'workspace_header_required';
  end if;
  return caller;
end
$$;

-- Checks whether a credential may import costs and read usage. Used if the request body is invalid. Returns {
-- workspace_id } or { refused }.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.check_app_caller(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;

-- Opens a member's request to connect coding agents, unless a request is already open or approved. Queues one email {
-- subject, text } for each of up to 20 members with manage_ai_keys, but at most once in 24 hours for the same
-- requester.
create or replace function ai.request_agent_access(member_id uuid, workspace uuid, tool text, host text, email jsonb)
  returns text
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  old_access ai.agent_access;
  is_emailed boolean;
begin
  -- The caller has locked the member's account, so the member's other calls wait.
  select * into old_access from ai.agent_access a where a.workspace_id = workspace and a.user_id = member_id;
  if old_access.state in ('open', 'approved') then
    return 'requested';
  end if;
  is_emailed := coalesce(old_access.emailed_at < now() - interval '24 hours', true);
  insert into ai.agent_access as a (workspace_id, user_id, tool, host, emailed_at)
  values (workspace, member_id, request_agent_access.tool, request_agent_access.host, now())
  on conflict (workspace_id, user_id) do update
  set
    state = 'open',
    tool = excluded.tool,
    host = excluded.host,
    requested_at = excluded.requested_at,
    answered_at = null,
    answered_by = null,
    emailed_at = case when is_emailed then excluded.emailed_at else a.emailed_at end;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_agent_access.email ->> 'subject', request_agent_access.email ->> 'text', now()
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id and (r.is_owner or 'manage_ai_keys' = any (r.permissions))
  join auth.users u on u.id = m.user_id
  where m.workspace_id = workspace and is_emailed and ai.can_be_emailed(u)
  order by m.user_id
  limit 20;
  return 'requested';
end
$$;

-- Returns the members of a workspace who have an open or approved request to connect coding agents, open requests
-- first. Requires manage_ai_keys. Returns { outcome: listed, members: [{ userId, name, state: open | approved, tool,
-- host, requestedAt, answeredAt }] } or { outcome: not_allowed }.
-- Definer: the service role cannot read a member's permissions.
create or replace function ai.list_agent_access(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object('outcome', 'listed', 'members', coalesce((
    select jsonb_agg(
      jsonb_build_object(
        'userId', a.user_id,
        'name', p.display_name,
        'state', a.state,
        'tool', a.tool,
        'host', a.host,
        'requestedAt', a.requested_at,
        'answeredAt', a.answered_at
      )
      order by a.state <> 'open', a.requested_at, a.user_id
    )
    from ai.agent_access a
    join public.profiles p on p.id = a.user_id
    join public.workspace_members m on m.workspace_id = a.workspace_id and m.user_id = a.user_id
    where a.workspace_id = workspace and a.state in ('open', 'approved')
  ), '[]'));
end
$$;

-- Approves or declines the open request that a member made at requested_at, or withdraws an approval, which revokes the
-- keys of that member's agents. Outcomes: done, answered, not_allowed. answered: another manager answered first, or the
-- member has made a later request.
-- Definer: the service role can't update access requests.
create or replace function ai.answer_agent_access(
  member_id uuid, workspace uuid, requester_id uuid, requested_at timestamptz, answer text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  new_access ai.agent_access;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Locks the workspace first, because deleting an account locks its workspaces before these rows.
  perform from public.workspaces w where w.id = workspace for key share;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.agent_access a
  set
    state = case answer when 'approve' then 'approved' when 'decline' then 'declined' else 'withdrawn' end,
    answered_at = now(),
    answered_by = member_id
  where a.workspace_id = workspace
    and a.user_id = requester_id
    and a.requested_at = answer_agent_access.requested_at
    and a.state = case when answer in ('approve', 'decline') then 'open' else 'approved' end
  returning * into new_access;
  if not found then
    return jsonb_build_object('outcome', 'answered');
  end if;
  perform private.log_workspace_change(
    workspace, 'agent_access.' || new_access.state, requester_id,
    (select p.display_name from public.profiles p where p.id = requester_id)
  );
  return jsonb_build_object('outcome', 'done');
end
$$;

-- Revokes the connections and keys of members who may no longer connect agents, for good: a member who gets the right
-- back connects again.
-- Definer: the roles that change members and their rights can't write connections.
create or replace function ai.end_unauthorized_connections() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace constant uuid := (to_jsonb(old) ->> 'workspace_id')::uuid;
  connection ai.agent_connections;
begin
  for connection in
    select *
    from ai.agent_connections c
    where c.workspace_id = workspace
      and c.revoked_at is null
      and (tg_table_name = 'workspace_roles' or c.user_id = (to_jsonb(old) ->> 'user_id')::uuid)
      and not ai.may_connect_agents(c.user_id, workspace)
    order by c.id
  loop
    perform ai.end_connection(connection.id, private.acting_user_id());
  end loop;
  return null;
end
$$;

-- Returns a coding agent's display name.
create or replace function ai.agent_name(tool text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case tool when 'claude' then 'Claude Code' when 'codex' then 'Codex' else 'opencode' end
$$;

-- Returns the member and the login to which an access token with the scope studio:keys belongs, or the reason for which
-- private.find_app_caller refuses the token.
create or replace function ai.find_agent_login(
  token_hash bytea, out refused text, out user_id uuid, out login_id uuid, out ends_at timestamptz
)
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'studio:keys');
begin
  refused := caller.refused;
  user_id := caller.user_id;
  select (l.login).id, (l.login).ends_at
  into login_id, ends_at
  from private.live_openid_token(find_agent_login.token_hash) l;
end
$$;

-- Revokes a connection and its keys. Returns false if the connection does not exist or was already revoked.
create or replace function ai.end_connection(connection_id uuid, actor uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  ended_connection ai.agent_connections;
  key ai.keys;
begin
  -- Locks in the same order as private.issue_agent_key: the workspace, the connection, its keys.
  perform
  from public.workspaces w
  where w.id = (select c.workspace_id from ai.agent_connections c where c.id = end_connection.connection_id)
  for key share;
  update ai.agent_connections c
  set revoked_at = now()
  where c.id = end_connection.connection_id and c.revoked_at is null
  returning * into ended_connection;
  if not found then
    return false;
  end if;
  update ai.keys k set revoked_at = now() where k.connection_id = ended_connection.id and k.revoked_at is null;
  select * into key from ai.keys k where k.connection_id = ended_connection.id and k.replaced_by is null;
  if found then
    perform set_config('gatehouse.actor_id', coalesce(actor::text, ''), true);
    perform private.log_workspace_change(ended_connection.workspace_id, 'key.revoked', key.id, key.name);
  end if;
  return true;
end
$$;

-- Returns whether the keys of connections work, as an object with the status of each connection's id: good, over,
-- mfa_required or unavailable. over: the connection was revoked, its login or MFA proof is no longer valid, or its
-- member has left or lost the permission. mfa_required and unavailable are described at private.proof_statuses.
create or replace function ai.agent_key_statuses(connection_ids uuid[]) returns jsonb
  language plpgsql stable security invoker
as $$
begin
  return (
    select jsonb_object_agg(i.id, coalesce(s.status, 'over'))
    from unnest(connection_ids) as i (id)
    left join lateral (
      select p.status
      from ai.agent_connections c
      cross join lateral ai.live_agent_logins(c.login_id) as l
      cross join lateral private.proof_statuses(l.proof) as p
      where c.id = i.id
        and c.revoked_at is null
        and exists (select from ai.agent_memberships(c.user_id, c.workspace_id))
      offset 0
    ) as s on true
    where i.id is not null
  );
end
$$;

-- Creates the next key of an agent connection. The key works for at most 8 hours and not longer than the connection's
-- login. The previous key works for at most 15 more minutes. Outcomes: issued (with expiresAt), revoked, not_allowed,
-- not_approved, too_many. too_many: the connection has 20 live keys, or the workspace has 200. Returns { refused } if
-- the login is refused (ai.find_agent_login) or the connection is not_found.
-- Definer: reads memberships and writes keys, but only for the token's user.
create or replace function private.issue_agent_key(
  token_hash bytea, workspace_id uuid, connection_id uuid, lookup text, secret_hash text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  issue_permission text;
  previous ai.keys;
  new_key ai.keys;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = issue_agent_key.workspace_id and w.deleted_at is null for key share;
  -- Locks the connection, so that a concurrent revocation either comes first or revokes this key too.
  select * into connection
  from ai.agent_connections c
  where c.id = issue_agent_key.connection_id
    and c.workspace_id = issue_agent_key.workspace_id
    and c.login_id = caller.login_id
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if connection.revoked_at is not null then
    return jsonb_build_object('outcome', 'revoked');
  end if;
  issue_permission := ai.key_issue_permission(caller.user_id, connection.workspace_id, for_agent => true);
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  select * into previous
  from ai.keys k
  where k.connection_id = connection.id and k.replaced_by is null;
  -- Also counts replaced keys that still work, so that a loop of renewals can't create keys without limit.
  if (select count(*) >= 20 from ai.keys k where k.connection_id = connection.id and k.expires_at > now())
    or (previous.id is null and ai.has_too_many_keys(connection.workspace_id)) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  new_key := ai.store_key(
    caller.user_id, connection.workspace_id,
    jsonb_build_object(
      'name', ai.agent_name(connection.tool) || ' on ' || connection.host,
      'expiresAt', least(now() + interval '8 hours', caller.ends_at)
    ),
    issue_agent_key.lookup, issue_agent_key.secret_hash, lineage => previous.lineage_id, connection_id => connection.id
  );
  -- Programs that have already read the old key can use it for another 15 minutes.
  update ai.keys k
  set replaced_by = new_key.id, expires_at = least(k.expires_at, now() + interval '15 minutes')
  where k.id = previous.id;
  return jsonb_build_object('outcome', 'issued', 'expiresAt', new_key.expires_at);
end
$$;

-- Revokes the keys of a connection that is deleted together with its member's account, or that moves to another login,
-- so that a key never outlives the login that it was issued for. Removes the name of the computer from the keys of a
-- deleted connection.
-- Definer: Supabase Auth deletes accounts and has no grant to change keys.
create or replace function ai.revoke_keys_of_connection() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  update ai.keys k
  set
    revoked_at = coalesce(k.revoked_at, now()),
    name = case when tg_op = 'DELETE' then ai.agent_name(old.tool) else k.name end
  where k.connection_id = old.id;
  return case tg_op when 'DELETE' then old else new end;
end
$$;

-- Returns a connection's details for its member: { id, tool, host, createdAt, state: connected | revoked, keyExpiresAt
-- }.
create or replace function ai.describe_connection(connection ai.agent_connections) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (connection).id,
    'tool', (connection).tool,
    'host', (connection).host,
    'createdAt', (connection).created_at,
    'state', case when (connection).revoked_at is null then 'connected' else 'revoked' end,
    'keyExpiresAt', (
      select max(k.expires_at) from ai.keys k where k.connection_id = (connection).id and k.revoked_at is null
    )
  )
$$;

-- Returns a login's connections in a workspace, and whether the user of the login may create more. Returns { access:
-- approved | open | declined | withdrawn | none, connections } or { refused: … | not_found }.
-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.list_agents(token_hash bytea, workspace_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller record;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  if not exists (select from private.user_workspaces(caller.user_id) w where w.id = list_agents.workspace_id) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'access', case
      when private.user_has_workspace_permission(caller.user_id, list_agents.workspace_id, 'manage_ai_keys') then 'approved'
      else coalesce(
        (
          select a.state from ai.agent_access a
          where a.workspace_id = list_agents.workspace_id and a.user_id = caller.user_id
        ),
        'none'
      )
    end,
    'connections', coalesce((
      select jsonb_agg(ai.describe_connection(c) order by c.created_at, c.id)
      from ai.agent_connections c
      where c.login_id = caller.login_id and c.workspace_id = list_agents.workspace_id
    ), '[]')
  );
end
$$;

-- Connects a coding agent to a workspace. Returns { state: connected, connection }; a repeated call returns the same
-- connection. If the member needs an approval, opens a request, queues emails to members with manage_ai_keys, and
-- returns { state: requested }. Refusals are { refused: … | not_found | forbidden }. forbidden: the member lacks
-- use_ai_studio.
-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.connect_agent(
  token_hash bytea, workspace_id uuid, tool text, host text, email jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Serializes a member's calls, so that a second call finds the connection of the first.
  perform private.lock_app_credentials(caller.user_id);
  perform
  from private.user_workspaces(caller.user_id) u
  join public.workspaces w on w.id = u.id
  where w.id = connect_agent.workspace_id
  for key share of w;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not ai.may_connect_agents(caller.user_id, connect_agent.workspace_id) then
    if not private.user_has_workspace_permission(caller.user_id, connect_agent.workspace_id, 'use_ai_studio') then
      return jsonb_build_object('refused', 'forbidden');
    end if;
    return jsonb_build_object('state', ai.request_agent_access(
      caller.user_id, connect_agent.workspace_id, connect_agent.tool, connect_agent.host, connect_agent.email
    ));
  end if;
  -- A new login of the same member, agent and host continues the connection of a login that has ended.
  update ai.agent_connections c
  set login_id = caller.login_id
  where c.id = (
    select o.id
    from ai.agent_connections o
    where o.workspace_id = connect_agent.workspace_id
      and o.user_id = caller.user_id
      and o.tool = connect_agent.tool
      and o.revoked_at is null
      and (o.login_id = caller.login_id or (o.host = connect_agent.host and ai.agent_login_end(o.login_id) is null))
    order by o.login_id is not distinct from caller.login_id desc, o.created_at desc
    limit 1
  )
  returning * into connection;
  if not found then
    insert into ai.agent_connections as c (workspace_id, user_id, login_id, tool, host)
    values (
      connect_agent.workspace_id, caller.user_id, caller.login_id, connect_agent.tool, connect_agent.host
    )
    returning c.* into connection;
  end if;
  return jsonb_build_object('state', 'connected', 'connection', ai.describe_connection(connection));
end
$$;

-- Revokes a connection that was made with the token's login, and the connection's keys. Returns {}, also if the
-- connection was already revoked, or { refused }. refused is not_found, or comes from ai.find_agent_login.
-- Definer: reads memberships and connections, but only for the token's user.
create or replace function private.disconnect_agent(token_hash bytea, workspace_id uuid, connection_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  perform
  from ai.agent_connections c
  where c.id = disconnect_agent.connection_id
    and c.workspace_id = disconnect_agent.workspace_id
    and c.login_id = caller.login_id;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform ai.end_connection(disconnect_agent.connection_id, caller.user_id);
  return '{}';
end
$$;

-- Stores a new key. The caller must have checked ai.key_issue_permission. If the key replaces an earlier key, lineage
-- is given and the creation is not logged. connection_id is the coding agent's connection if the key belongs to an
-- agent.
create or replace function ai.store_key(
  member_id uuid,
  workspace uuid,
  key jsonb,
  lookup text,
  secret_hash text,
  lineage uuid default null,
  connection_id uuid default null
) returns ai.keys
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  new_key ai.keys;
begin
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id, connection_id
  )
  select
    id, coalesce(lineage, id), workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'),
    store_key.lookup, decode(store_key.secret_hash, 'hex'), (key ->> 'externalAppId')::uuid,
    ai.text_list(key -> 'allowedModels'), ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId', store_key.connection_id
  from (select gen_random_uuid() as id) as made_id
  returning * into new_key;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', new_key.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  if lineage is null then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.created', new_key.id, new_key.name);
  end if;
  return new_key;
end
$$;

-- Returns whether a workspace has reached its limit of 200 live keys. For a coding agent, counts only the latest key of
-- each connection.
create or replace function ai.has_too_many_keys(workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select count(*) >= 200
  from ai.keys k
  where k.workspace_id = workspace
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())
    -- Replaced keys of agents don't count. Otherwise renewals by one member's agent could use up the workspace's limit.
    and (k.connection_id is null or k.replaced_by is null)
$$;

-- Returns the elements of a JSON array as texts, or null if the value is not an array.
create or replace function ai.text_list(list jsonb) returns text[]
  language sql immutable security invoker set search_path = ''
as $$
  select case when jsonb_typeof(list) = 'array' then array(select jsonb_array_elements_text(list)) end
$$;

-- Returns allowed, not_allowed or not_approved. not_allowed: the member lacks manage_ai_keys. For an agent's key,
-- ai.may_connect_agents is sufficient. not_approved: no platform admin has approved the workspace.
create or replace function ai.key_issue_permission(member_id uuid, workspace uuid, for_agent boolean default false)
  returns text
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    and not (for_agent and ai.may_connect_agents(member_id, workspace)) then
    return 'not_allowed';
  end if;
  -- Locks the approval, so that it cannot be withdrawn before the key is stored.
  perform from ai.key_approvals a where a.workspace_id = workspace for key share;
  return case when found then 'allowed' else 'not_approved' end;
end
$$;

-- Removes an authenticator app from an account and notifies the owner (private.record_security_event). If no
-- authenticator is left, also deletes the account's recovery codes. Returns { outcome: deleted | last_of_required (the
-- account must keep one) | insufficient_aal (the session is not at AAL2) | not_found }.
-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.delete_authenticator(
  subject_id uuid,
  actor_session_id uuid,
  target_id uuid,
  event jsonb,
  mail jsonb default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  target auth.mfa_factors;
  last boolean;
begin
  -- Locks the account, as every change of its MFA policy does, so that concurrent changes run one after another.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- Like the identity backend, requires a session in which an authenticator of the account was used.
  if not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;
  last := not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.id <> target_id and f.status = 'verified'
  );
  if last and private.required_mfa_state(account.raw_app_meta_data) <> 'optional' then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  perform private.delete_auth_factor(subject_id, target_id);
  if last then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  -- Until 0.3.0: servers of release 0.1.0 pass an email in the argument mail, which is ignored, and read mailId from the
  -- result.
  perform private.record_security_event(event);
  return '{"outcome": "deleted", "mailId": null, "recipient": null}';
end
$$;

-- Changes an account's policy for an admin; no other function does. Takes { actor, subject, step, generation, reason,
-- requestId, ip } and returns { policy } or { refused: forbidden | oneself | not_enforced | not_found | conflict |
-- in_progress | unchanged | factors_left }. step is require, make_optional, begin_reset or finish_reset. begin_reset
-- closes the account. finish_reset opens it again, but only after all authenticators are deleted. generation is the
-- policy generation that the admin saw, 0 if there was none. Each step adds an entry to the audit log. Each step except
-- begin_reset also adds an event, which is emailed to the owner.
-- Definer: the policy is in Supabase Auth's table, which the service role cannot write. The actor's id can be trusted:
-- only our server has the service role, and it takes the id from a verified session. Our server also checks
-- REQUIRED_MFA_POLICY_ENABLED before it calls this function. The database does not know this setting and enforces
-- policies regardless of it.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  new_policy jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = subject then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if public.required_mfa_enforcement_version() <> 1 then
    return jsonb_build_object('refused', 'not_enforced');
  end if;
  select * into account from auth.users u where u.id = subject and u.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  state := private.required_mfa_state(account.raw_app_meta_data);
  -- Compare and swap: if the policy has changed since the admin saw it, the admin must decide again.
  if (change ->> 'generation')::bigint
    is distinct from coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) then
    return jsonb_build_object('refused', 'conflict');
  end if;

  if step in ('require', 'make_optional') then
    if state = 'recovery_in_progress' then
      return jsonb_build_object('refused', 'in_progress');
    end if;
    if (state = 'required') = (step = 'require') and state <> 'malformed' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    changes := jsonb_build_object('required', step = 'require');
  elsif step = 'begin_reset' then
    changes := '{"recovery": "in_progress", "signInAgain": true}';
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.delete_auth_sessions(subject);
    -- Deletes all of the user's recovery codes, so that no code can end the reset. This includes a code that has
    -- already begun a recovery.
    delete from private.mfa_recovery_codes c where c.user_id = subject;
  elsif step = 'finish_reset' then
    if state <> 'recovery_in_progress' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    if exists (select from auth.mfa_factors f where f.user_id = subject) then
      return jsonb_build_object('refused', 'factors_left');
    end if;
    changes := '{"recovery": "none"}';
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  new_policy := private.write_required_mfa_policy(account, changes);
  insert into private.admin_audit_log (
    actor_id, action, target_user_id, target, reason, before, after, request_id, ip
  )
  values (
    actor, 'required_mfa.' || step, subject, account.email, change ->> 'reason',
    account.raw_app_meta_data -> 'platform_required_mfa', new_policy, change ->> 'requestId', (change ->> 'ip')::inet
  );
  perform private.add_account_event(subject, event_kind)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, event_kind)
  where e.of_step = step;
  return jsonb_build_object('policy', new_policy);
end
$$;

-- Binds an approved challenge to the requesting session for 12 hours. Takes { id, secretHash, claims, proofKey }; the
-- claims include a proof made with proofKey. Returns { status: bound, validUntil }, or { status: rejected } if the
-- session would still not satisfy required MFA. Returns null if the challenge is not approved or is already bound.
-- Definer: checks the requesting session against Supabase Auth's tables, which the service role cannot read.
create or replace function private.bind_mobile_approval(binding jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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
  -- Rejects the approval if the session's factor was removed in the meantime, or if the account requires a newer proof.
  if not private.session_satisfies_mfa(claims) then
    update private.login_challenges c
    set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
    where c.id = challenge.id
    returning c.* into challenge;
  end if;
  return jsonb_build_object('status', challenge.status, 'validUntil', challenge.valid_until);
end
$$;

-- Begins an MFA recovery with a code. To resume a recovery that failed midway, pass the same code. The session that
-- used the code may pass null instead. Returns the code's id. Returns null if no code matches, the policy is malformed,
-- or another caller began within the last 30 s. Marks the recovery in the account's policy, which blocks the account
-- until end_mfa_recovery is called. Advances the policy's boundary. Ends all other sessions, all app sessions and all
-- app tokens.
-- Definer: the policy is in Supabase Auth's table, which the service role cannot write.
create or replace function private.begin_mfa_recovery(subject_id uuid, current_session_id uuid, code_hash text default null)
  returns uuid
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  code_id uuid;
begin
  -- Locks the account first, as every policy change does, so that concurrent changes can't deadlock.
  select * into account from auth.users u where u.id = subject_id for no key update;
  -- An unreadable policy must be repaired by an admin.
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
  returning c.id into code_id;
  if code_id is not null then
    -- A session waiting for the second factor must not be admitted once the factor is deleted.
    perform private.end_account_session(subject_id, s.id)
    from auth.sessions s
    where s.user_id = subject_id and s.id <> current_session_id;
    perform private.end_apps_of_account(subject_id);
    -- Omits signInAgain, so that the remaining session stays valid. The user signed in with it to use this code.
    update private.mfa_recovery_codes c
    set generation = (private.write_required_mfa_policy(account, '{"recovery": "in_progress"}') ->> 'generation')::bigint
    where c.id = code_id;
  end if;
  return code_id;
end
$$;

-- Stores a request that a client pushed, which must authenticate. Returns the same result as
-- private.store_authorization_request, or {refused: unauthenticated | redirect_uri (not registered) | pkce (required)}. Limits a client with a secret by client, because all
-- of its people share the address of its server.
-- Definer: calls private.authenticate_openid_client, which is not granted to any role.
create or replace function private.push_authorization_request(
  client_id text,
  secret_hash bytea,
  redirect_uri text,
  uses_pkce boolean,
  parameters text,
  handle_hash bytea,
  address inet
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  registration private.openid_clients;
begin
  select a.id, a.name, a.is_public into client
  from private.authenticate_openid_client(push_authorization_request.client_id, push_authorization_request.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select * into registration from private.openid_clients c where c.app_id = client.id;
  if not private.is_openid_redirect_uri(registration, push_authorization_request.redirect_uri) then
    return jsonb_build_object('refused', 'redirect_uri');
  end if;
  if registration.requires_pkce and not uses_pkce then
    return jsonb_build_object('refused', 'pkce');
  end if;
  return private.add_authorization_request(
    client.id,
    null,
    push_authorization_request.parameters,
    push_authorization_request.handle_hash,
    case when not client.is_public then client.name end,
    case when client.is_public then private.address_network(push_authorization_request.address) end
  );
end
$$;

-- Stores a request, and counts it for a client or for a network. See private.store_authorization_request.
create or replace function private.add_authorization_request(
  app_id uuid, client_url text, parameters text, handle_hash bytea, client_name text, network cidr
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  bucket record;
  wait interval;
begin
  if add_authorization_request.app_id is null and client_url is null then
    return jsonb_build_object('refused', 'client');
  end if;
  select b.* into strict bucket from private.attempt_buckets('authorization_request', client_name, network) b;
  wait := private.consume_attempt(bucket.subject, 'authorization_request', bucket.scope, bucket.step, bucket.per);
  if wait is not null then
    return jsonb_build_object('refused', 'limited', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer);
  end if;
  insert into private.authorization_requests (app_id, client_url, parameters, handle_hash, expires_at)
  values (
    add_authorization_request.app_id,
    case when add_authorization_request.app_id is null then add_authorization_request.client_url end,
    add_authorization_request.parameters,
    add_authorization_request.handle_hash,
    now() + interval '10 minutes'
  );
  return jsonb_build_object('expiresInSeconds', 600);
end
$$;

-- Ends a kept request, because it is being answered. Returns whether it was still open: of concurrent callers, only one
-- gets true.
create or replace function private.end_authorization_request(handle_hash bytea) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  delete from private.authorization_requests r
  where r.handle_hash = end_authorization_request.handle_hash and r.expires_at > now();
  return found;
end
$$;

-- Describes an authorization request without changing anything. Returns {client: {name, displayName, enabled,
-- requiresPkce, registration, isStale}, resource: {displayName, url} | null, redirectAllowed, scopes, consentScopes,
-- session: {authTime, acr, consented} | null}, or null for an unknown client. isStale is true if the client's metadata
-- document must be fetched again. resource is null if no enabled app has the requested resource URL. session is null
-- without claims, or if private.session_proof refuses the session of the claims. requested_claims are the names in the
-- request's parameter claims; consentScopes are the scopes and the scopes of these. session.acr is the acr that the login
-- would state, null if the session can't meet essential_acr.
-- Definer: the service role can neither read Supabase Auth's tables nor apply the rule of required MFA.
create or replace function private.open_openid_authorization(
  client_id text, redirect_uri text, scopes text[], claims jsonb default null,
  requested_claims text[] default '{}', essential_acr text[] default null, resource text default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  resource_app private.apps;
  session_check record;
  authentication private.openid_authentication;
  granted text[];
  consent_scopes text[];
begin
  select * into app from private.apps a where a.id = private.openid_client_app(open_openid_authorization.client_id);
  if not found then
    return null;
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  select * into resource_app
  from private.apps a
  where a.resource_url = open_openid_authorization.resource and a.enabled;
  granted := private.openid_scopes(app.id, open_openid_authorization.scopes, resource_app.id);
  consent_scopes := private.openid_consent_scopes(app.id, granted, open_openid_authorization.requested_claims);
  -- Treats null claims as no session.
  select * into session_check from private.session_proof(coalesce(open_openid_authorization.claims, '{}'));
  authentication := private.openid_authentication_of(
    open_openid_authorization.claims, session_check.proof, session_check.valid_until is not null
  );
  return jsonb_build_object(
    'client', jsonb_build_object(
      'name', app.name,
      'displayName', app.display_name,
      'enabled', app.enabled,
      'requiresPkce', client.requires_pkce,
      'registration', client.registration,
      'isStale', coalesce(client.metadata_expires_at <= now(), false)
    ),
    'resource', case when resource_app.id is not null then jsonb_build_object(
      'displayName', resource_app.display_name, 'url', resource_app.resource_url
    ) end,
    'redirectAllowed', private.is_openid_redirect_uri(client, open_openid_authorization.redirect_uri),
    'scopes', to_jsonb(granted),
    'consentScopes', to_jsonb(consent_scopes),
    'session', case when session_check.refused is null then jsonb_build_object(
      'authTime', floor(extract(epoch from authentication.auth_time))::bigint,
      'acr', private.stated_acr(authentication.acr, essential_acr),
      'consented', private.has_openid_consent(
        (session_check.proof).user_id, client, consent_scopes, open_openid_authorization.redirect_uri, resource_app.id
      )
    ) end
  );
end
$$;

-- Issues an authorization code, valid for 60 seconds, to the session with these verified claims. Returns {scopes} or
-- {refused: client | unauthenticated | mfa_required | unavailable | login_required | acr | consent_required | scope |
-- request}. If consents is true, the person has just agreed, and the consent is stored. If authenticated_since is given,
-- an authentication before that second is refused with login_required. If essential_acr is given, the login states one of
-- these values or is refused with acr. request_hash is the handle of a kept request, which this call answers: it is
-- refused with request if another call has answered it. id_token_claims and userinfo_claims are the names in the request's
-- parameter claims. With a resource, the tokens are for that app only; clients that registered themselves must name one.
-- Definer: the service role can neither read Supabase Auth's tables nor apply the rule of required MFA.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null,
  essential_acr text[] default null,
  id_token_claims text[] default '{}',
  userinfo_claims text[] default '{}',
  request_hash bytea default null,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  resource_id uuid;
  session_check record;
  authentication private.openid_authentication;
  granted text[];
  consent_scopes text[];
begin
  -- Locks the app. A transaction that disables the app either commits first, or waits until the authorization code is
  -- stored and then revokes the code. Apps are locked before accounts.
  select * into app
  from private.apps a
  where a.id = private.openid_client_app(issue_authorization_code.client_id) and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri)
    or (client.requires_pkce and issue_authorization_code.code_challenge is null) then
    return jsonb_build_object('refused', 'client');
  end if;
  select a.id into resource_id
  from private.apps a
  where a.resource_url = issue_authorization_code.resource and a.enabled
  for share;
  if resource_id is null and (client.registration <> 'operator' or issue_authorization_code.resource is not null) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into session_check from private.session_proof(issue_authorization_code.claims);
  if session_check.refused is not null then
    return jsonb_build_object('refused', session_check.refused);
  end if;
  -- Issues no code for a session that may only replace the password.
  if exists (select from private.password_replacements r where r.session_id = (session_check.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, session_check.proof, session_check.valid_until is not null
  );
  if authenticated_since is not null
    and (extract(epoch from authentication.auth_time) >= authenticated_since) is not true then
    return jsonb_build_object('refused', 'login_required');
  end if;
  authentication.acr := private.stated_acr(authentication.acr, essential_acr);
  if authentication.acr is null then
    return jsonb_build_object('refused', 'acr');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes, resource_id);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  consent_scopes := private.openid_consent_scopes(
    app.id, granted, issue_authorization_code.id_token_claims || issue_authorization_code.userinfo_claims
  );
  if not consents
    and not private.has_openid_consent(
      (session_check.proof).user_id, client, consent_scopes, issue_authorization_code.redirect_uri, resource_id
    ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  if request_hash is not null and not private.end_authorization_request(request_hash) then
    return jsonb_build_object('refused', 'request');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, resource_id, scopes)
    values ((session_check.proof).user_id, app.id, resource_id, consent_scopes)
    on conflict on constraint openid_consents_key do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, resource_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce,
    id_token_claims, userinfo_claims, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, resource_id, (session_check.proof).user_id, session_check.proof, session_check.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    private.consented_claims(issue_authorization_code.id_token_claims, consent_scopes),
    private.consented_claims(issue_authorization_code.userinfo_claims, consent_scopes),
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

-- Returns the claims auth_time, acr and amr (RFC 8176) of a session. auth_time is the time of the latest sign-in or
-- second factor. by_approval is true if the second factor was proved on a phone.
create or replace function private.openid_authentication_of(claims jsonb, proof private.mfa_proof, by_approval boolean)
  returns private.openid_authentication
  language sql immutable security invoker set search_path = ''
as $$
  select row(
    to_timestamp(greatest(proof.primary_second, proof.second_factor_second)),
    case when proof.second_factor_second is null then 'aal1' else 'aal2' end,
    array(
      select distinct m.value
      from (
        -- Omits the identity backend's `otp`, which may stand for an emailed link or for approval on a phone. Omits
        -- sign-ins with an identity provider, because the registry of `amr` values (RFC 8176) has no value for such
        -- sign-ins.
        select case e.entry ->> 'method' when 'password' then 'pwd' when 'passkey' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        union all
        select case e.entry ->> 'method' when 'totp' then 'otp' when 'mfa/phone' then 'sms' when 'mfa/webauthn' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        where proof.second_factor_second is not null and not by_approval
        union all
        select case when by_approval then 'mca' end
        union all
        select case when proof.second_factor_second is not null then 'mfa' end
      ) as m (value)
      where m.value is not null
      order by m.value
    )
  )::private.openid_authentication
$$;

-- Returns the acr that a login states, or null if the session meets none of the essential values (OpenID Connect Core 1.0
-- section 5.5.1.1). Without essential values it is the session's own. Two factors also meet one, if only that is accepted.
create or replace function private.stated_acr(acr text, essential text[]) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when essential is null or acr = any (essential) then acr
    when acr = 'aal2' and 'aal1' = any (essential) then 'aal1'
  end
$$;

-- Returns whether a redirect URI is a loopback address, which leads to the browser's own device.
create or replace function private.is_loopback_redirect(uri text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select uri ~ '^https?://(localhost|([a-z0-9-]+\.)+localhost|127\.[0-9]+\.[0-9]+\.[0-9]+|\[::1\])(:[0-9]+)?(/|\?|$)'
$$;

-- Returns the requested scopes that are registered for an OpenID client or, if the tokens are for a resource, for that
-- app, as one row, so that a query can join it. Drops all others. Tokens for a resource never have scopes of the
-- platform's own APIs.
create or replace function private.allowed_openid_scopes(app_id uuid, requested text[], resource_id uuid)
  returns table (scopes text[])
  language sql stable security invoker
as $$
  select array(
    select unnest(requested)
    intersect
    select unnest(
      array['openid', 'offline_access']
      || case when 'profile' = any (a.scopes) then array['profile', 'email'] else '{}' end
      || case when resource_id is null
        then array(select unnest(a.scopes) intersect select unnest(array['workspaces:read', 'workspaces:write', 'studio:read', 'studio:keys']))
        else '{}'
      end
    )
    from private.apps a
    where a.id = coalesce(resource_id, app_id)
    order by 1
  )
$$;

-- Returns the claims and the scopes that allow each of them. A claim with two scopes needs both.
create or replace function private.openid_claim_scopes() returns table (claim text, scopes text[])
  language sql immutable security invoker set search_path = ''
as $$
  values
    ('name', array['profile']),
    ('picture', array['profile']),
    ('updated_at', array['profile']),
    -- The email, because accounts have no username.
    ('preferred_username', array['profile', 'email']),
    ('email', array['email']),
    ('email_verified', array['email']),
    ('groups', array['workspaces:read'])
$$;

-- Returns those of the requested claims that a person has consented to. A login keeps only these, so that a scope that
-- the client is registered for later reveals nothing.
create or replace function private.consented_claims(requested text[], consent_scopes text[]) returns text[]
  language sql immutable security invoker set search_path = ''
as $$
  select array(
    select s.claim
    from private.openid_claim_scopes() s
    where s.claim = any (consented_claims.requested) and s.scopes <@ consented_claims.consent_scopes
    order by 1
  )
$$;

-- Returns the app with an OpenID client id, or null. The id of a client with a metadata document is the document's URL,
-- and any other client's id is its name. Leaves out clients that registered themselves and have expired.
create or replace function private.openid_client_app(client_id text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select a.id
  from private.apps a
  left join private.openid_clients c on c.app_id = a.id
  where a.name = client_id
    and a.kind = 'openid'
    and c.metadata_url is null
    and (c.expires_at is null or c.expires_at > now())
  union all
  select c.app_id from private.openid_clients c where c.metadata_url = client_id and c.expires_at > now()
$$;

-- Returns the enabled OpenID client for a client id and the SHA-256 of its secret. A public client has no secret.
-- Returns no row if the client is unknown or disabled, or if the secret is wrong or expired. For definers; not granted
-- to any role.
create or replace function private.authenticate_openid_client(client_id text, secret_hash bytea)
  returns table (id uuid, name text, scopes text[], is_public boolean)
  language sql stable security invoker set search_path = ''
as $$
  select a.id, a.name, a.scopes, c.is_public
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.id = private.openid_client_app(authenticate_openid_client.client_id)
    and a.enabled
    and case
      when c.is_public then authenticate_openid_client.secret_hash is null
      else exists (
        select
        from private.app_secrets s
        where s.app_id = a.id
          and s.secret_hash = authenticate_openid_client.secret_hash
          and (s.expires_at is null or s.expires_at > now())
      )
    end
$$;

-- Returns a loopback redirect URI without its port; null for any other URI. Names localhost only if by_name is true.
create or replace function private.loopback_without_port(uri text, by_name boolean) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when uri ~ '^http://(127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/|$)' or by_name and uri ~ '^http://localhost(:[0-9]{1,5})?(/|$)'
      then regexp_replace(uri, '^(http://(127\.0\.0\.1|\[::1\]|localhost))(:[0-9]{1,5})?', '\1')
  end
$$;

-- Returns the id by which a client knows itself: the URL of its metadata document, or its name.
create or replace function private.openid_client_id(app_id uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(c.metadata_url, a.name)
  from private.apps a
  left join private.openid_clients c on c.app_id = a.id
  where a.id = openid_client_id.app_id
$$;

-- Returns an OpenID client for display, with its valid secrets but without their hashes.
create or replace function private.describe_openid_client(app_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'enabled', a.enabled,
    'isPublic', c.is_public,
    'registration', c.registration,
    'metadataUrl', c.metadata_url,
    'scopes', a.scopes,
    'redirectUris', c.redirect_uris,
    'postLogoutRedirectUris', c.post_logout_redirect_uris,
    'logoutUrl', a.backchannel_logout_uri,
    'allowsDeviceGrant', c.allows_device_grant,
    'requiresPkce', c.requires_pkce,
    'claimsInIdToken', c.claims_in_id_token,
    'groupsWorkspaceId', c.groups_workspace_id,
    'secrets', coalesce((
      select jsonb_agg(
        jsonb_build_object('createdAt', s.created_at, 'expiresAt', s.expires_at) order by s.created_at desc, s.id
      )
      from private.app_secrets s
      where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
    ), '[]'),
    'createdAt', a.created_at
  )
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.id = describe_openid_client.app_id and a.kind = 'openid'
$$;

-- Returns a page of OpenID clients, sorted by name. term filters by a part of the name or display name. after is the
-- last name on the previous page. Without page_size, returns all clients.
create or replace function private.list_openid_clients(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(private.describe_openid_client(p.id) order by p.name), '[]')
  from (
    select a.id, a.name
    from private.apps a
    where a.kind = 'openid'
      and (strpos(a.name, lower(term)) > 0 or strpos(lower(a.display_name), lower(term)) > 0)
      and (after is null or a.name > after)
    order by a.name
    limit page_size
  ) as p
$$;

-- Registers an OpenID client. Takes { actor, name, displayName, isPublic, scopes, redirectUris, postLogoutRedirectUris,
-- logoutUrl, allowsDeviceGrant, requiresPkce, claimsInIdToken, groupsWorkspaceId, secretHash, reason, requestId, ip }.
-- secretHash is the text of a bytea, or null for a
-- public client. Returns {} or { refused: forbidden | taken | invalid }.
create or replace function private.add_openid_client(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  is_public boolean := (change ->> 'isPublic')::boolean;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if is_public is distinct from (change ->> 'secretHash' is null) then
    raise exception 'a confidential client has a secret, a public client has none' using errcode = 'check_violation';
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', 'openid',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.openid_clients (
      app_id, is_public, redirect_uris, post_logout_redirect_uris, allows_device_grant, requires_pkce,
      claims_in_id_token, groups_workspace_id
    )
    values (
      app.id, is_public, array(select jsonb_array_elements_text(change -> 'redirectUris')),
      array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris')),
      (change ->> 'allowsDeviceGrant')::boolean,
      coalesce((change ->> 'requiresPkce')::boolean, true),
      coalesce((change ->> 'claimsInIdToken')::boolean, false),
      (change ->> 'groupsWorkspaceId')::uuid
    );
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation or foreign_key_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  if not is_public then
    insert into private.app_secrets (app_id, secret_hash) values (app.id, (change ->> 'secretHash')::bytea);
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

-- Changes the given fields of an OpenID client. Takes { actor, name, version, displayName, scopes, redirectUris,
-- postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, requiresPkce, claimsInIdToken, groupsWorkspaceId, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict | invalid }. If version is given and the client has changed since that version, refuses with
-- conflict and returns the last change as last.
create or replace function private.change_openid_client(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  old_client jsonb;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' and a.kind = 'openid' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if change ? 'version' and private.app_version(app.name)::text is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;
  old_client := private.describe_openid_client(app.id);
  begin
    update private.apps a
    set
      display_name = coalesce(change ->> 'displayName', a.display_name),
      scopes = case
        when change ? 'scopes' then array(select jsonb_array_elements_text(change -> 'scopes')) else a.scopes
      end,
      backchannel_logout_uri = case
        when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
      end
    where a.id = app.id;
    update private.openid_clients c
    set
      redirect_uris = case
        when change ? 'redirectUris' then array(select jsonb_array_elements_text(change -> 'redirectUris'))
        else c.redirect_uris
      end,
      post_logout_redirect_uris = case
        when change ? 'postLogoutRedirectUris'
          then array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris'))
        else c.post_logout_redirect_uris
      end,
      allows_device_grant = coalesce((change ->> 'allowsDeviceGrant')::boolean, c.allows_device_grant),
      requires_pkce = coalesce((change ->> 'requiresPkce')::boolean, c.requires_pkce),
      claims_in_id_token = coalesce((change ->> 'claimsInIdToken')::boolean, c.claims_in_id_token),
      groups_workspace_id = case
        when change ? 'groupsWorkspaceId' then (change ->> 'groupsWorkspaceId')::uuid else c.groups_workspace_id
      end
    where c.app_id = app.id;
  exception
    when check_violation or foreign_key_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.edit', 'target', 'app ' || app.name, 'before', old_client,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

-- Registers a client at its own request, or updates it from its metadata document. Takes { name, displayName,
-- redirectUris, metadataUrl, freshSeconds }. metadataUrl is null for dynamic registration. Without a login within a day,
-- the client is deleted. Of each kind, the newest 1,000 clients may wait for a login. A changed name or redirect URI
-- withdraws the consents, because people agreed to what the document said before; logins stay.
-- Definer: writes tables that the service role can only read.
create or replace function private.save_self_registered_client(client jsonb) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  url text := client ->> 'metadataUrl';
  method text := case when url is null then 'dynamic' else 'document' end;
  uris text[] := array(select jsonb_array_elements_text(client -> 'redirectUris'));
  fresh_until timestamptz := now() + make_interval(secs => (client ->> 'freshSeconds')::integer);
  app private.apps;
  old_client private.openid_clients;
begin
  -- Serializes registrations, so that the maximum below holds.
  perform pg_advisory_xact_lock(hashtextextended('private.save_self_registered_client', 0));
  select * into old_client from private.openid_clients c where c.metadata_url = url;
  if found then
    select * into app from private.apps a where a.id = old_client.app_id for no key update;
    if app.display_name <> client ->> 'displayName' or not (old_client.redirect_uris @> uris and old_client.redirect_uris <@ uris) then
      delete from private.openid_consents c where c.app_id = app.id;
      update private.apps a set display_name = client ->> 'displayName' where a.id = app.id;
    end if;
    update private.openid_clients c
    set
      redirect_uris = uris,
      metadata_expires_at = fresh_until,
      expires_at = greatest(c.expires_at, now() + interval '1 day')
    where c.app_id = app.id;
    return;
  end if;
  -- The oldest make room: if new clients were refused instead, a flood would keep everybody else out.
  delete from private.apps a
  where a.id in (
    select c.app_id
    from private.openid_clients c
    join private.apps o on o.id = c.app_id and o.enabled
    where c.registration = method and c.expires_at > now() and c.expires_at <= now() + interval '1 day'
    order by c.expires_at desc, c.app_id
    offset 999
  );
  insert into private.apps (name, display_name, kind)
  values (client ->> 'name', client ->> 'displayName', 'openid')
  returning * into app;
  insert into private.openid_clients (
    app_id, is_public, redirect_uris, registration, metadata_url, metadata_expires_at, expires_at
  )
  values (
    app.id, true, uris, method, url, case when url is not null then fresh_until end, now() + interval '1 day'
  );
end
$$;

-- Sets the URL of an app at which clients call it with tokens of their own, or null. Logins for the former URL end
-- (private.revoke_resource_credentials). Returns false if no internal app has this name.
create or replace function private.set_app_resource_url(
  app_name text, resource_url text, reason text, actor uuid default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  update private.apps a
  set resource_url = set_app_resource_url.resource_url
  where a.name = app_name and a.kind = 'internal'
  returning * into app;
  if not found then
    return false;
  end if;
  perform private.record_app_change(app, 'app.edit', reason, actor);
  return true;
end
$$;

-- Sets the URL that is called when a login at an app has ended. Works for every kind of app. Null turns these calls
-- off. Returns false for an unknown app.
create or replace function private.set_app_logout_url(
  app_name text, logout_url text, reason text, actor uuid default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  update private.apps a set backchannel_logout_uri = logout_url where a.name = app_name returning * into app;
  if not found then
    return false;
  end if;
  perform private.record_app_change(app, 'app.edit', reason, actor);
  return true;
end
$$;

-- Returns whether change.actor may change apps. The actor must be an infrastructure admin, or null for the command
-- line.
create or replace function private.may_change_apps(change jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select change ->> 'actor' is null
    or exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid)
$$;

-- Returns the version of an app, which is the id of its last entry in the audit log.
create or replace function private.app_version(app_name text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select l.id
  from private.admin_audit_log l
  where l.target = 'app ' || app_name
  order by l.created_at desc, l.id desc
  limit 1
$$;

-- Stores a device's request under the first of the given user codes that is not in use. Returns {userCode,
-- expiresInSeconds, intervalSeconds} or {refused: unauthenticated | unauthorized_client | scope (no requested scope is
-- registered) | limited (with retryAfterSeconds) | unavailable (all given codes are in use)}.
-- Definer: calls private.authenticate_openid_client, which is not granted to any role.
create or replace function private.begin_device_authorization(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
  user_codes text[],
  scopes text[],
  address inet,
  user_agent text,
  place text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  bucket record;
  wait interval;
  granted text[];
  candidate text;
  new_authorization private.device_authorizations;
begin
  select a.id into client
  from private.authenticate_openid_client(begin_device_authorization.client_id, begin_device_authorization.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  if not private.allows_device_grant(client.id) then
    return jsonb_build_object('refused', 'unauthorized_client');
  end if;
  granted := private.openid_scopes(client.id, begin_device_authorization.scopes);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  select b.* into strict bucket
  from private.attempt_buckets('device_authorization', null, private.address_network(begin_device_authorization.address)) b;
  wait := private.consume_attempt(bucket.subject, 'device_authorization', bucket.scope, bucket.step, bucket.per);
  if wait is not null then
    return jsonb_build_object('refused', 'limited', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer);
  end if;

  foreach candidate in array user_codes loop
    insert into private.device_authorizations as d
      (device_code_hash, user_code, app_id, scopes, ip, user_agent, place, expires_at)
    values (
      begin_device_authorization.device_code_hash,
      candidate,
      client.id,
      granted,
      begin_device_authorization.address,
      nullif(begin_device_authorization.user_agent, ''),
      case when begin_device_authorization.place is not null
        then jsonb_build_object('name', begin_device_authorization.place)
      end,
      now() + interval '10 minutes'
    )
    on conflict (user_code) do nothing
    returning d.* into new_authorization;
    exit when new_authorization.id is not null;
  end loop;
  if new_authorization.id is null then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  return jsonb_build_object(
    'userCode', new_authorization.user_code,
    'expiresInSeconds', extract(epoch from new_authorization.expires_at - new_authorization.created_at)::integer,
    'intervalSeconds', new_authorization.interval_seconds
  );
end
$$;

-- Returns whether an app is an enabled OpenID client that is currently registered for the device grant. Not granted to
-- any role, so only security definer functions can call it.
create or replace function private.allows_device_grant(client_app_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from private.openid_clients c
    join private.apps a on a.id = c.app_id
    where c.app_id = client_app_id and c.allows_device_grant and a.enabled
  )
$$;

-- Returns the state of a request for display: pending, approved, denied or expired. If the client is disabled, its
-- pending requests are shown as expired.
create or replace function private.device_authorization_state(request private.device_authorizations) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when request.denied_at is not null then 'denied'
    when request.approved_at is not null then 'approved'
    when request.expires_at <= now() then 'expired'
    when not private.allows_device_grant(request.app_id) then 'expired'
    else 'pending'
  end
$$;

-- Returns a device authorization request, as a page or a phone shows it: {userCode, state: pending | approved | denied
-- | expired, app, scopes, userAgent, address, place, createdAt, expiresAt}. Returns null for an unknown code. Callers
-- must limit the number of guesses.
-- Definer: calls functions for client registrations, which are not granted to any role.
create or replace function private.read_device_authorization(user_code text, reader_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'userCode', d.user_code,
    -- Another person's decision is not shown.
    'state', case when d.user_id <> reader_id then 'expired' else private.device_authorization_state(d) end,
    'app', jsonb_build_object('name', a.name, 'displayName', a.display_name),
    'scopes', to_jsonb(d.scopes),
    'userAgent', coalesce(d.user_agent, ''),
    'address', host(d.ip),
    'place', d.place ->> 'name',
    'createdAt', d.created_at,
    'expiresAt', d.expires_at
  )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id
  where d.user_code = read_device_authorization.user_code
$$;

-- Returns the result of private.read_device_authorization, and completes the attempt at the code: a wrong code counts as
-- failed.
create or replace function private.find_device_authorization(user_code text, reader_id uuid, attempt_id uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  found_request jsonb := private.read_device_authorization(
    find_device_authorization.user_code, find_device_authorization.reader_id
  );
begin
  perform private.complete_attempt(
    find_device_authorization.attempt_id, case when found_request is null then 'failed' else 'void' end
  );
  return found_request;
end
$$;

-- Records a person's decision about a device's request. Returns approved, denied, not_found, expired, conflict (already
-- decided), unauthenticated, mfa_required or unavailable. An approval also adds an event to the person's activity.
-- Callers must first check that the session is fresh.
-- Definer: reads the proofs of the session from Supabase Auth's tables.
create or replace function private.decide_device_authorization(
  user_code text,
  claims jsonb,
  approve boolean,
  event jsonb default null
) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  session_check record;
  request private.device_authorizations;
  state text;
begin
  -- Locks the account before reading anything, so that a concurrent change of the password either waits for this
  -- approval and revokes it, or completes first.
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into session_check from private.session_proof(decide_device_authorization.claims);
  if session_check.refused is not null then
    return session_check.refused;
  end if;
  -- Sessions that may only replace the account's password can't decide device requests.
  if exists (select from private.password_replacements r where r.session_id = (session_check.proof).session_id) then
    return 'unauthenticated';
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.user_code = decide_device_authorization.user_code
  for no key update;
  if not found then
    return 'not_found';
  end if;
  state := private.device_authorization_state(request);
  if state <> 'pending' then
    return case state when 'expired' then 'expired' else 'conflict' end;
  end if;
  if not approve then
    update private.device_authorizations d set denied_at = now() where d.id = request.id;
    return 'denied';
  end if;
  update private.device_authorizations d
  set approved_at = now(),
      user_id = (session_check.proof).user_id,
      -- The login survives the sign-out of the browser or phone that approves it.
      proof = row(
        (session_check.proof).user_id,
        null,
        (session_check.proof).factor_id,
        (session_check.proof).second_factor_second,
        (session_check.proof).primary_second,
        (session_check.proof).generation
      )::private.mfa_proof,
      valid_until = session_check.valid_until,
      authentication = private.openid_authentication_of(
        decide_device_authorization.claims, session_check.proof, session_check.valid_until is not null
      )
  where d.id = request.id;
  perform private.record_security_event(
    event || jsonb_build_object('userId', (session_check.proof).user_id, 'targetId', request.id)
  );
  return 'approved';
end
$$;

-- Handles a device's poll. Redeems an approved request only once and returns the same result as
-- private.issue_openid_tokens. Otherwise returns {refused: authorization_pending | slow_down (the interval has grown by
-- 5 s) | access_denied | expired_token | token (the code is unknown, already redeemed or another client's) |
-- unauthenticated | unauthorized_client | unavailable}.
-- Definer: calls functions for client secrets and proofs, which are not granted to any role.
create or replace function private.redeem_device_code(
  client_id text,
  secret_hash bytea,
  device_code_hash bytea,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  request private.device_authorizations;
  login private.openid_grants;
  locked_user uuid;
  proof_status text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_device_code.client_id, redeem_device_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select d.user_id into locked_user
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  -- Locks the client's app before the account. A concurrent change that disables the client either waits and then
  -- revokes these tokens, or is complete before this call continues.
  perform from private.apps a where a.id = client.id for share;
  if locked_user is not null then
    perform private.lock_app_credentials(locked_user);
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.device_code_hash = redeem_device_code.device_code_hash and d.app_id = client.id
  for no key update;
  if not found or request.redeemed_at is not null then
    return jsonb_build_object('refused', 'token');
  end if;
  if not private.allows_device_grant(client.id) then
    return jsonb_build_object('refused', 'unauthorized_client');
  end if;
  if request.denied_at is not null then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  if request.expires_at <= now() then
    return jsonb_build_object('refused', 'expired_token');
  end if;
  if request.polled_at + make_interval(secs => request.interval_seconds) > now() then
    update private.device_authorizations d
    set polled_at = now(), interval_seconds = least(60, d.interval_seconds + 5)
    where d.id = request.id;
    return jsonb_build_object('refused', 'slow_down');
  end if;
  update private.device_authorizations d set polled_at = now() where d.id = request.id;
  -- If the request was approved after locked_user was read, this call has not locked the account's credentials. The
  -- next poll then redeems the request.
  if request.approved_at is null or locked_user is null then
    return jsonb_build_object('refused', 'authorization_pending');
  end if;

  perform private.hold_proof(request.proof);
  proof_status := private.proof_status(request.proof);
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' or request.valid_until <= now() then
    return jsonb_build_object('refused', 'access_denied');
  end if;
  update private.device_authorizations d set redeemed_at = now() where d.id = request.id;
  login.source_id := request.id;
  login.app_id := request.app_id;
  login.user_id := request.user_id;
  login.proof := request.proof;
  login.authentication := request.authentication;
  login.scopes := request.scopes;
  login.ends_at := request.valid_until;
  return private.issue_openid_tokens(login, redeem_device_code.access_hash, redeem_device_code.refresh_hash);
end
$$;

-- Describes a sign-out that a client requests. Returns {displayName, redirectAllowed, ofSession}, or null for an
-- unknown client. ofSession is true if sid identifies one of the client's logins, and that login began in the given
-- session.
-- Definer: calls functions for logins, which are not granted to any role.
create or replace function private.read_openid_logout(
  client_id text, post_logout_redirect_uri text, sid uuid, session_id uuid
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'displayName', a.display_name,
    'redirectAllowed', a.enabled and exists (
      select
      from unnest(c.post_logout_redirect_uris) as r (uri)
      where r.uri = read_openid_logout.post_logout_redirect_uri
    ),
    'ofSession', exists (
      select
      from private.openid_grants g
      where g.id = read_openid_logout.sid
        and g.app_id = a.id
        and (g.proof).session_id = read_openid_logout.session_id
    )
  )
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.id = private.openid_client_app(read_openid_logout.client_id)
$$;

-- Ends a person's login at an OpenID client. Returns false if the login has already ended or belongs to another person.
-- Definer: calls functions for logins, which are not granted to any role.
create or replace function private.end_openid_login(user_id uuid, sid uuid) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  perform private.lock_app_credentials(end_openid_login.user_id);
  update private.openid_grants g
  set revoked_at = now()
  where g.id = end_openid_login.sid and g.user_id = end_openid_login.user_id and g.revoked_at is null;
  return found;
end
$$;

-- Returns the kid of the key that signs now; null if no key exists yet.
create or replace function private.current_signing_key() returns text
  language sql stable security invoker set search_path = ''
as $$
  select k.kid
  from private.signing_keys k
  where k.signs_from <= clock_timestamp()
  order by k.signs_from desc, k.kid
  limit 1
$$;

-- Adds a key that signs from now on. `replaces` names the current key, which the caller could not decrypt. Null adds
-- the first key. Earlier keys stay published for one day. Returns false if another caller has added a key first.
create or replace function private.replace_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text, replaces text default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  from_time timestamptz;
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if private.current_signing_key() is distinct from replaces then
    return false;
  end if;
  from_time := clock_timestamp();
  -- Deletes keys whose signing period is yet to begin. Such a key would later replace the new key, and the server may
  -- be unable to decrypt it.
  delete from private.signing_keys k where k.signs_from > from_time;
  -- Keeps only the five newest keys. Otherwise, servers that do not share a secret could add keys without limit by
  -- replacing each other's key.
  delete from private.signing_keys k
  where k.kid not in (select n.kid from private.signing_keys n order by n.signs_from desc limit 5);
  update private.signing_keys k
  set retires_at = from_time + interval '1 day'
  where k.retires_at is null or k.retires_at > from_time + interval '1 day';
  insert into private.signing_keys (kid, public_jwk, sealed_private_jwk, sealing_key_id, created_at, signs_from)
  values (
    replace_signing_key.kid, replace_signing_key.public_jwk, replace_signing_key.sealed_private_jwk,
    replace_signing_key.sealing_key_id, from_time, from_time
  );
  return true;
end
$$;

-- Returns whether to publish the next key, which is due 89 days after the newest key has begun to sign. False if no key
-- exists yet.
create or replace function private.signing_key_is_due() returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(max(k.signs_from) <= now() - interval '89 days', false) from private.signing_keys k
$$;

-- Publishes the next key, which begins to sign tomorrow. The previous key retires 31 days after that, so that the ID
-- token of a live login can always be verified at sign-out. Returns false if no key is due.
create or replace function private.add_next_signing_key(
  kid text, public_jwk jsonb, sealed_private_jwk text, sealing_key_id text
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  takes_over_at timestamptz := now() + interval '1 day';
begin
  perform pg_advisory_xact_lock(hashtextextended('private.signing_keys', 0));
  if not private.signing_key_is_due() then
    return false;
  end if;
  update private.signing_keys k
  -- Keeps the key a day longer than a login lasts, because a sign-out verifies the login's ID token.
  set retires_at = takes_over_at + interval '31 days'
  where k.retires_at is null;
  insert into private.signing_keys (kid, public_jwk, sealed_private_jwk, sealing_key_id, signs_from)
  values (
    add_next_signing_key.kid, add_next_signing_key.public_jwk, add_next_signing_key.sealed_private_jwk,
    add_next_signing_key.sealing_key_id, takes_over_at
  );
  return true;
end
$$;

-- Stores a private key that was encrypted again with the current secret. Returns false if another caller has already
-- replaced the stored key.
create or replace function private.reseal_signing_key(
  kid text, sealed_private_jwk text, sealing_key_id text, expected_sealing_key_id text
) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with resealed as (
    update private.signing_keys k
    set sealed_private_jwk = reseal_signing_key.sealed_private_jwk, sealing_key_id = reseal_signing_key.sealing_key_id
    where k.kid = reseal_signing_key.kid and k.sealing_key_id = reseal_signing_key.expected_sealing_key_id
    returning 1
  )
  select exists (select from resealed)
$$;

-- Deletes the keys that are no longer published. Returns the number of deleted keys.
create or replace function private.delete_retired_signing_keys() returns integer
  language sql volatile security invoker set search_path = ''
as $$
  with deleted as (
    delete from private.signing_keys k where k.retires_at <= now() returning 1
  )
  select count(*)::integer from deleted
$$;

-- Opens a login and issues its first tokens. If login.ends_at is null, the login lasts 30 days. login.id and
-- login.created_at are ignored. Returns the same result as private.add_openid_tokens, with the nonce added. For
-- definers; not granted to any role.
create or replace function private.issue_openid_tokens(login private.openid_grants, access_hash bytea, refresh_hash bytea)
  returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  opened private.openid_grants;
begin
  -- A client that registered itself is kept while people use it. A login ends within 30 days.
  update private.openid_clients c
  set expires_at = now() + interval '60 days'
  where c.app_id = login.app_id and c.expires_at < now() + interval '59 days';
  insert into private.openid_grants as g (
    source_id, app_id, resource_id, user_id, proof, authentication, scopes, nonce, id_token_claims, userinfo_claims, ends_at
  )
  values (
    login.source_id, login.app_id, login.resource_id, login.user_id, login.proof, login.authentication, login.scopes,
    login.nonce, coalesce(login.id_token_claims, '{}'), coalesce(login.userinfo_claims, '{}'),
    least(now() + interval '30 days', login.ends_at)
  )
  returning g.* into opened;
  return private.add_openid_tokens(opened, opened.scopes, issue_openid_tokens.access_hash, issue_openid_tokens.refresh_hash)
    || jsonb_build_object('nonce', opened.nonce);
end
$$;

-- Returns why tokens of a login must not be issued, or null: target if the client asks for another resource than the
-- person agreed to (RFC 8707 section 2), token if the resource is disabled or no longer registered.
create or replace function private.resource_refusal(resource_id uuid, requested text) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when resource_id is not null and r.id is null then 'token'
    when requested is distinct from r.resource_url and requested is not null then 'target'
  end
  from (values (null)) as one
  left join private.apps r on r.id = resource_id and r.enabled and r.resource_url is not null
$$;

-- Redeems an authorization code only once. Returns the same result as private.issue_openid_tokens, or {refused:
-- unauthenticated | token | target | unavailable}. code_challenge is the hash of the code verifier, null without one. A
-- second use is refused and revokes the login that the first use opened.
-- Definer: calls functions that check client secrets and proofs. No role may call those functions.
create or replace function private.redeem_authorization_code(
  client_id text,
  secret_hash bytea,
  code_hash bytea,
  redirect_uri text,
  code_challenge text,
  access_hash bytea,
  refresh_hash bytea,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  code private.authorization_codes;
  login private.openid_grants;
  proof_status text;
  refused text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_authorization_code.client_id, redeem_authorization_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(c.user_id)
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id;
  select * into code
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id
  for update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if code.redeemed_at is not null then
    -- RFC 6749 section 4.1.2: a second use means that a party other than the client has the code.
    update private.openid_grants g set revoked_at = now() where g.source_id = code.id and g.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  if code.revoked_at is not null
    or code.expires_at <= now()
    or code.valid_until <= now()
    or code.redirect_uri <> coalesce(redeem_authorization_code.redirect_uri, '')
    -- A verifier without a challenge is refused too: an attacker may have removed the challenge (RFC 9700 section 4.8.2).
    or code.code_challenge is distinct from redeem_authorization_code.code_challenge then
    return jsonb_build_object('refused', 'token');
  end if;
  refused := private.resource_refusal(code.resource_id, redeem_authorization_code.resource);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  perform private.hold_proof(code.proof);
  proof_status := private.proof_status(code.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  update private.authorization_codes c set redeemed_at = now() where c.id = code.id;
  login.source_id := code.id;
  login.app_id := code.app_id;
  login.resource_id := code.resource_id;
  login.user_id := code.user_id;
  login.proof := code.proof;
  login.authentication := code.authentication;
  login.scopes := code.scopes;
  login.nonce := code.nonce;
  login.id_token_claims := code.id_token_claims;
  login.userinfo_claims := code.userinfo_claims;
  login.ends_at := code.valid_until;
  return private.issue_openid_tokens(login, redeem_authorization_code.access_hash, redeem_authorization_code.refresh_hash);
end
$$;

-- Exchanges a refresh token for the next tokens. Returns the same result as private.add_openid_tokens, or {refused:
-- unauthenticated | token | target | scope | unavailable}. Within 30 seconds, repeated use returns the same result; later reuse
-- revokes the login. scopes may limit the new access token to some of the login's scopes. The web server derives the
-- next refresh token from the current one with a key.
-- Definer: calls functions that check client secrets and proofs. No role may call those functions.
create or replace function private.refresh_openid_tokens(
  client_id text,
  secret_hash bytea,
  refresh_hash bytea,
  scopes text[],
  access_hash bytea,
  successor_hash bytea,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  login private.openid_grants;
  token private.openid_tokens;
  granted text[];
  proof_status text;
  refused text;
begin
  select a.id into client
  from private.authenticate_openid_client(refresh_openid_tokens.client_id, refresh_openid_tokens.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where t.refresh_hash = refresh_openid_tokens.refresh_hash and g.app_id = client.id;
  select t.* into token from private.openid_tokens t where t.refresh_hash = refresh_openid_tokens.refresh_hash for update;
  select g.* into login
  from private.openid_grants g
  where g.id = token.grant_id and g.app_id = client.id and g.revoked_at is null and g.ends_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Reuse after the grace period means that a party other than the client has the token (RFC 9700 section 4.14.2).
    update private.openid_grants g set revoked_at = now() where g.id = login.id;
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status(login.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  refused := private.resource_refusal(login.resource_id, refresh_openid_tokens.resource);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  granted := private.openid_scopes(client.id, login.scopes, login.resource_id);
  if not coalesce(refresh_openid_tokens.scopes, granted) <@ granted or cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if token.refreshed_at is not null then
    -- A concurrent caller within the grace period receives the same successor.
    return coalesce(
      (
        select private.describe_openid_tokens(login, t)
        from private.openid_tokens t
        where t.access_hash = refresh_openid_tokens.access_hash and t.refresh_hash = successor_hash
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update private.openid_tokens t set refreshed_at = now() where t.id = token.id;
  return private.add_openid_tokens(
    login, coalesce(refresh_openid_tokens.scopes, granted), refresh_openid_tokens.access_hash, successor_hash
  );
end
$$;

-- Returns the claims about a person that an access token allows its holder to read (OpenID Connect Core 1.0 section
-- 5.3), or {refused: token | scope | unavailable}.
-- Definer: calls functions for proofs, which are not granted to any role, and reads Supabase Auth's tables, which the
-- service role cannot read.
create or replace function private.read_openid_userinfo(access_hash bytea) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  live_token record;
  proof_status text;
begin
  select l.login, l.scopes into live_token
  from private.live_openid_token(read_openid_userinfo.access_hash) l;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status((live_token.login).proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if not 'openid' = any (live_token.scopes) then
    return jsonb_build_object('refused', 'scope');
  end if;
  return jsonb_build_object('sub', (live_token.login).user_id) || private.openid_claims(
    (live_token.login).user_id, (live_token.login).app_id, live_token.scopes, (live_token.login).userinfo_claims
  );
end
$$;

-- Returns the current state of a token to the confidential client that it was issued to (RFC 7662), or of an access
-- token to the app that is its audience, which authenticates with its own name and secret. Returns {active, isAccess,
-- sub, sid, clientId, resource, scopes, issuedAt, expiresAt}, {active: false} or {refused: unauthenticated |
-- unavailable}. For the audience, adds the claims that the scopes allow (private.openid_claims).
-- Definer: calls functions that check client secrets and proofs. No role may call those functions.
create or replace function private.introspect_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  client_app_id uuid;
  audience_id uuid;
  live_token record;
  proof_status text;
begin
  select a.id into client_app_id
  from private.authenticate_openid_client(introspect_openid_token.client_id, introspect_openid_token.secret_hash) a
  where not a.is_public;
  if not found then
    select a.id into audience_id
    from private.authenticate_app(introspect_openid_token.client_id, introspect_openid_token.secret_hash) a
    where a.resource_url is not null;
    if not found then
      return jsonb_build_object('refused', 'unauthenticated');
    end if;
  end if;
  select f.* into live_token
  from (
    select l.login, l.token, l.scopes, (l.token).access_expires_at as expires_at, true as is_access
    from private.live_token_of_any_audience(introspect_openid_token.token_hash) l
    union all
    select g, t, private.openid_scopes(g.app_id, g.scopes, g.resource_id), g.ends_at, false
    from private.openid_tokens t
    join private.openid_grants g on g.id = t.grant_id
    where t.refresh_hash = introspect_openid_token.token_hash
      and t.refreshed_at is null
      and g.revoked_at is null
      and g.ends_at > now()
  ) as f
  where (f.login).app_id = client_app_id or (f.is_access and (f.login).resource_id = audience_id);
  if not found then
    return jsonb_build_object('active', false);
  end if;
  proof_status := private.proof_status((live_token.login).proof);
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  return jsonb_build_object(
    'active', true,
    'isAccess', live_token.is_access,
    'sub', (live_token.login).user_id,
    'sid', (live_token.login).id,
    'clientId', private.openid_client_id((live_token.login).app_id),
    'resource', (select r.resource_url from private.apps r where r.id = (live_token.login).resource_id),
    'scopes', to_jsonb(live_token.scopes),
    'issuedAt', floor(extract(epoch from (live_token.token).created_at))::bigint,
    'expiresAt', floor(extract(epoch from live_token.expires_at))::bigint
  ) || case when audience_id is not null
    then private.openid_claims((live_token.login).user_id, (live_token.login).app_id, live_token.scopes, '{}')
    else '{}'
  end;
end
$$;

-- Revokes an access token or, if given a refresh token, the whole login (RFC 7009). Does nothing for another client's
-- token. Returns false if the client did not authenticate.
-- Definer: calls functions for client secrets, which are not granted to any role.
create or replace function private.revoke_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  revoked_id uuid;
begin
  select a.id into client
  from private.authenticate_openid_client(revoke_openid_token.client_id, revoke_openid_token.secret_hash) a;
  if not found then
    return false;
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where revoke_openid_token.token_hash in (t.access_hash, t.refresh_hash) and g.app_id = client.id;
  update private.openid_tokens t
  set access_expires_at = now()
  from private.openid_grants g
  where t.access_hash = revoke_openid_token.token_hash
    and t.access_expires_at > now()
    and g.id = t.grant_id
    and g.app_id = client.id;
  update private.openid_grants g
  set revoked_at = now()
  from private.openid_tokens t
  where t.refresh_hash = revoke_openid_token.token_hash
    and t.grant_id = g.id
    and g.app_id = client.id
    and g.revoked_at is null
  returning g.id into revoked_id;
  perform private.withdraw_logout(revoked_id);
  return true;
end
$$;

-- Returns the tables of the schema auth and every trigger on them, including triggers that are not ours, with the
-- function that each trigger runs.
create or replace function private.describe_auth_triggers() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with tables as (
    select c.oid, c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'auth' and c.relkind in ('r', 'p')
  ), triggers as (
    select c.name as table_name, t.tgname as name, t.tgenabled in ('O', 'A') as enabled,
      format('%I.%I', n.nspname, p.proname) as function
    from pg_trigger t join tables c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
      join pg_namespace n on n.oid = p.pronamespace
    where not t.tgisinternal and t.tgparentid = 0
  )
  select jsonb_build_object(
    'tables', (select coalesce(jsonb_agg(c.name order by c.name), '[]') from tables c),
    'triggers', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('table', t.table_name, 'name', t.name, 'enabled', t.enabled, 'function', t.function)
          order by t.table_name, t.name
        ),
        '[]'
      )
      from triggers t
    )
  )
$$;

-- Returns the facts that the doctor compares with the release: the version of Postgres (server_version_num), the
-- versions of the recorded migrations, private.describe_objects() and private.describe_auth_triggers(). The stack makes
-- the same comparison when it starts with a hosted database.
-- Definer: the service role cannot read the migration history.
create or replace function private.describe_database() returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  applied jsonb;
begin
  if to_regclass('supabase_migrations.schema_migrations') is not null then
    execute 'select jsonb_agg(m.version order by m.version) from supabase_migrations.schema_migrations m' into applied;
  end if;
  return jsonb_build_object(
    'postgres', current_setting('server_version_num')::integer,
    'migrations', coalesce(applied, '[]'),
    'objects', private.describe_objects(),
    'auth', private.describe_auth_triggers()
  );
end
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
  check_result text;
  account auth.users;
  new_policy jsonb;
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
    -- Requests with a link and requests with a code both lock the email before the credential, so that concurrent
    -- requests cannot deadlock.
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  credential.consumed_at := case
    when not private.is_recovery_open_to(credential, decode(request ->> 'browserHash', 'hex'))
      then coalesce(credential.consumed_at, now())
  end;
  check_result := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
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

-- Creates an override. Takes { actor, email, reason, normalLogin, recoveryEmail, lifetimeSeconds, ip, userAgent,
-- requestId }. lifetimeSeconds is 7 days by default. Returns { overrideId, expiresAt } or { refused: forbidden |
-- oneself | lifetime | active }.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.create_recovery_override(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  for_email text := lower(trim(request ->> 'email'));
  lifetime interval := make_interval(secs => coalesce((request ->> 'lifetimeSeconds')::bigint, 7 * 86400));
  refused text := private.recovery_actor_refusal(request, for_email);
  new_override private.recovery_overrides;
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  if lifetime <= interval '0' or lifetime > interval '30 days' then
    return jsonb_build_object('refused', 'lifetime');
  end if;
  -- Concurrent calls for the same email run one after another.
  perform pg_advisory_xact_lock(hashtextextended('private.recovery_overrides ' || for_email, 0));
  if exists (select from private.active_recovery_override(for_email)) then
    return jsonb_build_object('refused', 'active');
  end if;
  insert into private.recovery_overrides (email, reason, normal_login, recovery_email, created_by, expires_at)
  values (
    for_email, request ->> 'reason', (request ->> 'normalLogin')::boolean, (request ->> 'recoveryEmail')::boolean,
    (request ->> 'actor')::uuid, now() + lifetime
  )
  returning * into new_override;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'create', 'outcome', 'created', 'email', for_email, 'overrideId', new_override.id)
  );
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, after, request_id, ip)
  values (
    new_override.created_by, 'recovery.create', (select u.id from auth.users u where lower(u.email) = for_email limit 1),
    for_email, new_override.reason, to_jsonb(new_override), request ->> 'requestId', (request ->> 'ip')::inet
  );
  return jsonb_build_object('overrideId', new_override.id, 'expiresAt', new_override.expires_at);
end
$$;

-- Revokes an override. Takes { actor, overrideId, reason, ip, userAgent, requestId }. Returns {} or { refused:
-- forbidden | oneself | not_found | inactive }. Every link and code that was sent under the override becomes invalid.
-- Definer: calls recovery_actor_refusal, which is not granted to any role.
create or replace function private.revoke_recovery_override(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  old_override private.recovery_overrides;
  revoked_override private.recovery_overrides;
  refused text;
begin
  select * into old_override from private.recovery_overrides o where o.id = (request ->> 'overrideId')::uuid;
  refused := private.recovery_actor_refusal(request, old_override.email);
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  update private.recovery_overrides o
  set revoked_at = now(), revoked_by = (request ->> 'actor')::uuid
  where o.id = old_override.id and o.revoked_at is null and o.expires_at > now()
  returning * into revoked_override;
  if old_override.id is null then
    return '{"refused": "not_found"}';
  end if;
  if revoked_override.id is null then
    perform private.record_recovery_event(
      request || jsonb_build_object('kind', 'reject', 'outcome', 'inactive', 'email', old_override.email)
    );
    return '{"refused": "inactive"}';
  end if;
  perform private.record_recovery_event(
    request || jsonb_build_object('kind', 'revoke', 'outcome', 'revoked', 'email', revoked_override.email)
  );
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, before, after, request_id, ip)
  values (
    revoked_override.revoked_by, 'recovery.revoke', (select u.id from auth.users u where lower(u.email) = revoked_override.email limit 1),
    revoked_override.email, request ->> 'reason', to_jsonb(old_override), to_jsonb(revoked_override), request ->> 'requestId',
    (request ->> 'ip')::inet
  );
  return '{}';
end
$$;

-- Deletes credentials that expired more than a day ago, guesses that no longer count, and expired leases, up to at_most
-- of each. Returns the total number of deleted rows; 0 while another sweep is running.
create or replace function private.sweep_recoveries(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted_count integer := 0;
  batch integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_recoveries', 0)) then
    return 0;
  end if;
  -- Credentials are kept for a day after they expire, so that the page can say that a link has expired, and the log can
  -- name the email.
  deleted_count := deleted_count + private.delete_expired_rows('private.recovery_credentials', 'expires_at', '1 day', at_most);
  -- A wrong guess counts for 24 hours, and a lock lasts 24 hours.
  delete from private.recovery_code_guesses g
  where g.email = any (array(
    select o.email
    from private.recovery_code_guesses o
    where coalesce(o.last_wrong_at < now() - interval '24 hours', true)
      and coalesce(o.locked_until <= now(), true)
      and not exists (select from private.recovery_credentials c where c.email = o.email and c.expires_at > now())
    limit at_most
    for update skip locked
  ));
  get diagnostics batch = row_count;
  deleted_count := deleted_count + batch;
  return deleted_count + private.delete_expired_rows('private.mint_leases', 'expires_at', '0', at_most);
end
$$;

-- Returns {workspaces: […]} or {refused}. The list is a page of the workspaces of the session's user, in the format of
-- public.list_workspaces. If page_size is null, the list contains all of them.
-- Definer: safe because it reads only the memberships of the credential's user.
create or replace function private.list_workspaces_by_app_session(
  token_hash bytea, after text[] default null, page_size integer default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'workspaces:read');
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  return jsonb_build_object('workspaces', coalesce((
    select jsonb_agg(p.workspace order by p.shared, p.name, p.id)
    from (
      select w.*, k.*
      from private.user_workspaces(caller.user_id) w
      cross join lateral (
        select not (w.workspace ->> 'personal')::boolean as shared, w.workspace ->> 'name' as name
      ) k
      where after is null or (k.shared, k.name, w.id) > (not after[1]::boolean, after[2], after[3]::uuid)
      order by k.shared, k.name, w.id
      limit page_size
    ) p
  ), '[]'));
end
$$;

-- Returns the caller that a token identifies. The token is the token of a central session or the access token of an
-- OpenID client. refused is unauthenticated, mfa_required, unavailable, insufficient_scope or null. For definers; not
-- granted to any role.
create or replace function private.find_app_caller(token_hash bytea, needed_scope text) returns private.app_caller
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  credential record;
  caller private.app_caller;
  proof_status text;
begin
  select c.* into credential
  from (
    select s.user_id, s.app_id, s.proof, private.effective_scopes(s) as scopes
    from private.live_app_session(find_app_caller.token_hash) s
    where s.audience = 'central'
    union all
    select (l.login).user_id, (l.login).app_id, (l.login).proof, l.scopes
    from private.live_openid_token(find_app_caller.token_hash) l
  ) as c;
  if not found then
    caller.refused := 'unauthenticated';
    return caller;
  end if;
  proof_status := private.proof_status(credential.proof);
  caller.scopes := credential.scopes;
  caller.refused := case
    when proof_status = 'over' then 'unauthenticated'
    when proof_status <> 'good' then proof_status
    when not needed_scope = any (caller.scopes) then 'insufficient_scope'
  end;
  caller.user_id := credential.user_id;
  caller.app_id := credential.app_id;
  return caller;
end
$$;

-- Redeems a handoff token once and opens sessions for its app. Returns {app, central?}, each {id, handoff, audience,
-- user, factor, issuedAt, expiresAt}, or {refused: unauthenticated | token | unavailable}. central is absent if the app
-- has no scope for the central API. facts is the content of the proof, whose signature the web server has checked.
-- Definer: the functions that check proofs and app secrets, and those that consume tokens, are not granted to any role.
create or replace function private.redeem_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  app_hash bytea,
  central_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  proof_status text;
  handoff uuid;
  session_end timestamptz := least(now() + interval '30 days', (facts ->> 'validUntil')::timestamptz);
  opened jsonb;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.hold_proof(private.handoff_proof(facts));
  proof_status := private.proof_status(private.handoff_proof(facts));
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' or session_end <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  handoff := private.consume_cross_app_token(
    redeem_cross_app_token.token_hash, app.id, (facts ->> 'user')::uuid, redeem_cross_app_token.proof
  );
  if handoff is null then
    return jsonb_build_object('refused', 'token');
  end if;

  with sessions as (
    insert into private.app_sessions as s (
      handoff_id, app_id, audience, scopes, proof, user_id, token_hash, expires_at, ends_at
    )
    select
      handoff, app.id, o.audience, app.scopes, private.handoff_proof(facts), (facts ->> 'user')::uuid, o.hash,
      least(now() + interval '8 hours', session_end), session_end
    from (values ('app', app_hash), ('central', central_hash)) as o (audience, hash)
    -- The central API is only for apps with a scope for it.
    where o.audience = 'app' or app.scopes && array['workspaces:read', 'workspaces:write', 'studio:read']
    returning s.audience, private.app_session_summary(s) as summary
  )
  select jsonb_object_agg(s.audience, s.summary) into opened from sessions s;
  return opened;
end
$$;

-- Returns the current state of a session to the session's own app: {active: true, session, scopes, endsAt, profile} or
-- {active: false}, or {refused: unauthenticated | unavailable}.
-- Definer: the functions that check proofs and app secrets are not granted to any role, and the service role can't read
-- the identity backend's tables.
create or replace function private.introspect_app_session(app_name text, secret_hash bytea, token_hash bytea) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  proof_status text;
  granted text[];
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select * into session from private.live_app_session(introspect_app_session.token_hash) s where s.app_id = app.id;
  if not found then
    return jsonb_build_object('active', false);
  end if;
  proof_status := private.proof_status(session.proof);
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' then
    return jsonb_build_object('active', false);
  end if;
  granted := private.effective_scopes(session);
  return jsonb_build_object(
    'active', true,
    'session', private.app_session_summary(session),
    'scopes', granted,
    'endsAt', session.ends_at,
    'profile', case when 'profile' = any (granted) then (
      select jsonb_build_object('name', p.display_name, 'email', u.email, 'picture', p.avatar_url)
      from auth.users u
      left join public.profiles p on p.id = u.id
      where u.id = session.user_id
    ) end
  );
end
$$;

-- Replaces a session's token with its successor. Returns {id, handoff, audience, user, factor, issuedAt, expiresAt} or
-- {refused: unauthenticated | token | unavailable}. Within 30 s, repeated use returns the same result. The web server
-- derives the successor from the token with a key, so all callers pass the same successor.
-- Definer: see introspect_app_session.
create or replace function private.refresh_app_session(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  session private.app_sessions;
  proof_status text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select s.* into session
  from private.live_app_session(refresh_app_session.token_hash) l
  join private.app_sessions s on s.id = l.id
  where s.app_id = app.id
  for no key update of s;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status(session.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;

  update private.app_sessions s
  set
    previous_hash = refresh_app_session.token_hash,
    previous_valid_until = least(now() + interval '30 seconds', s.expires_at),
    token_hash = successor_hash,
    issued_at = now(),
    expires_at = least(now() + interval '8 hours', s.ends_at)
  where s.id = session.id
    and s.token_hash = refresh_app_session.token_hash
    and s.expires_at > now()
    and s.revoked_at is null
  returning * into session;
  if not found then
    -- A second caller with the same token, within the grace period, gets the same successor.
    select s.* into session
    from private.app_sessions s
    where s.previous_hash = refresh_app_session.token_hash
      and s.previous_valid_until > now()
      and s.token_hash = successor_hash
      and s.app_id = app.id
      and s.revoked_at is null;
    if not found then
      return jsonb_build_object('refused', 'token');
    end if;
  end if;
  return private.app_session_summary(session);
end
$$;

-- Returns the facts about a session that the web server signs into the session's token.
create or replace function private.app_session_summary(session private.app_sessions) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'id', session.id,
    'handoff', session.handoff_id,
    'audience', session.audience,
    'user', session.user_id,
    'factor', (session.proof).factor_id,
    'issuedAt', session.issued_at,
    'expiresAt', session.expires_at
  )
$$;

-- Redeems a handoff token once for an access token and a refresh token. Returns {user, workspace, scopes, expiresAt} or
-- {refused: unauthenticated | token | scope | workspace | unavailable}. A refusal does not use up the token.
-- Definer: the functions that check proofs and app secrets and consume tokens are not granted to any role.
create or replace function private.exchange_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  proof_status text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  token.user_id := (facts ->> 'user')::uuid;
  token.valid_until := (facts ->> 'validUntil')::timestamptz;
  proof_status := private.proof_status(private.handoff_proof(facts));
  if proof_status = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if proof_status <> 'good' or token.valid_until <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  token.scopes := coalesce(exchange_cross_app_token.scopes, private.gateway_scopes(app));
  if not token.scopes <@ private.gateway_scopes(app) or cardinality(token.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  -- Checked before the token is consumed, so that a refusal leaves it valid.
  if not exists (select from private.app_links(app, exchange_cross_app_token.workspace_id))
    or not private.is_workspace_member(token.user_id, exchange_cross_app_token.workspace_id) then
    return jsonb_build_object('refused', 'workspace');
  end if;

  token.family_id := private.consume_cross_app_token(
    exchange_cross_app_token.token_hash, app.id, token.user_id, exchange_cross_app_token.proof
  );
  if token.family_id is null then
    return jsonb_build_object('refused', 'token');
  end if;
  token.app_id := app.id;
  token.workspace_id := exchange_cross_app_token.workspace_id;
  -- These tokens survive sign-out, so their proof names no session.
  token.proof := private.handoff_proof(facts - 'session');
  token.lookup := access_lookup;
  token.token_hash := access_hash;
  token.refresh_hash := exchange_cross_app_token.refresh_hash;
  return private.issue_app_token(token);
end
$$;

-- Exchanges a refresh token for the next token pair. Returns {user, workspace, scopes, expiresAt} or {refused:
-- unauthenticated | token | scope | workspace | unavailable}. Within 30 s, repeated use returns the same result; later
-- reuse revokes the token family. The web server derives the next pair from the refresh token and a secret key, so all
-- callers pass the same pair.
-- Definer: see exchange_cross_app_token.
create or replace function private.refresh_app_token(
  app_name text,
  secret_hash bytea,
  refresh_hash bytea,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  next ai.app_tokens;
  proof_status text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(t.user_id)
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash and t.app_id = app.id;
  select * into token
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash
    and t.app_id = app.id
    and t.revoked_at is null
    and t.refresh_expires_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Reuse after the grace period means that a party other than the app has the token (RFC 9700 §4.14.2).
    update ai.app_tokens t set revoked_at = now() where t.family_id = token.family_id and t.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  proof_status := private.proof_status(token.proof);
  if proof_status <> 'good' then
    return jsonb_build_object('refused', case when proof_status = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if token.workspace_id <> refresh_app_token.workspace_id
    or not exists (select from private.app_links(app, token.workspace_id))
    or not exists (select from private.memberships_since(token.user_id, token.workspace_id, token.handed_over_at)) then
    return jsonb_build_object('refused', 'workspace');
  end if;
  next := token;
  next.scopes := coalesce(
    refresh_app_token.scopes,
    array(select unnest(token.scopes) intersect select unnest(private.gateway_scopes(app)) order by 1)
  );
  if not next.scopes <@ token.scopes or not next.scopes <@ private.gateway_scopes(app) or cardinality(next.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;

  if token.refreshed_at is not null then
    -- A second caller within the grace period gets the same pair as the first.
    return coalesce(
      (
        select jsonb_build_object(
          'user', t.user_id, 'workspace', t.workspace_id, 'scopes', t.scopes, 'expiresAt', t.expires_at
        )
        from ai.app_tokens t
        where t.token_hash = access_hash and t.refresh_hash = successor_hash and t.revoked_at is null
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update ai.app_tokens t set refreshed_at = now() where t.id = token.id;
  next.lookup := access_lookup;
  next.token_hash := access_hash;
  next.refresh_hash := successor_hash;
  return private.issue_app_token(next);
end
$$;

-- Returns the scopes that an app may request in a gateway token, sorted.
create or replace function private.gateway_scopes(app private.apps) returns text[]
  -- Without a subquery, so that Postgres can inline the function.
  language sql immutable security invoker
as $$
  select array_remove(array[
    case when 'ai:use' = any ((app).scopes) then 'ai:use' end,
    case when 'tts:use' = any ((app).scopes) then 'tts:use' end,
    case when 'workspace:session' = any ((app).scopes) then 'workspace:session' end
  ], null)
$$;

-- Returns an app's link to a workspace in which it may act: the app is registered as external and enabled, and the
-- workspace is not deleted. Returns at most one row, so that a query can join it.
create or replace function private.app_links(app private.apps, workspace_id uuid) returns setof private.app_workspaces
  language sql stable security invoker
as $$
  select l.*
  from private.app_workspaces l
  join public.workspaces w on w.id = l.workspace_id and w.deleted_at is null
  where (app).enabled
    and (app).kind = 'external'
    and l.app_id = (app).id
    and l.workspace_id = app_links.workspace_id
$$;

-- Returns one row with the reason why the gateway refuses the requests that an app makes in a workspace, or null if it
-- accepts them. scopes are those of the app's token or bound key. Called only by definer functions; not granted to any
-- role.
create or replace function private.gateway_refusal(app private.apps, workspace_id uuid, scopes text[])
  returns table (refused text)
  language sql stable security invoker
as $$
  select case
    when not exists (select from private.app_links(app, gateway_refusal.workspace_id)) then 'app_not_allowed'
    when not scopes @> array['workspace:session', 'ai:use'] then 'insufficient_scope'
  end
$$;

-- Returns whether a key bound to the app may be used in the workspace now: the app is registered, external, enabled and
-- linked. For definers; not granted to any role.
create or replace function ai.app_can_act_in_workspace(app_id uuid, workspace_id uuid) returns boolean
  language plpgsql stable security invoker
as $$
begin
  return exists (
    select
    from private.apps a
    cross join lateral private.app_links(a, app_can_act_in_workspace.workspace_id)
    where a.id = app_can_act_in_workspace.app_id
  );
end
$$;

-- Revokes an app session, or an access or refresh token for the gateway. Also revokes all other credentials that the
-- app received through the same handoff. Does nothing if the token does not belong to the app (RFC 7009). Returns false
-- if the app did not authenticate.
-- Definer: authenticate_app is not granted to any role.
create or replace function private.revoke_app_credential(app_name text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  handoff record;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return false;
  end if;
  -- These values can be read without a lock, because the person and the handoff of a credential never change.
  select h.user_id, h.handoff_id into handoff
  from (
    select s.user_id, s.handoff_id
    from private.app_sessions s
    where s.app_id = app.id
      and (s.token_hash = revoke_app_credential.token_hash or s.previous_hash = revoke_app_credential.token_hash)
    union all
    select t.user_id, t.family_id
    from ai.app_tokens t
    where t.app_id = app.id
      and (t.token_hash = revoke_app_credential.token_hash or t.refresh_hash = revoke_app_credential.token_hash)
  ) as h;
  if found then
    perform private.lock_app_credentials(handoff.user_id);
    update private.app_sessions s
    set revoked_at = now()
    where s.handoff_id = handoff.handoff_id and s.app_id = app.id and s.revoked_at is null;
    update ai.app_tokens t
    set revoked_at = now()
    where t.family_id = handoff.handoff_id and t.app_id = app.id and t.revoked_at is null;
    perform private.withdraw_logout(handoff.handoff_id);
  end if;
  return true;
end
$$;

-- Stores a handoff token. facts are the result of private.required_mfa_proof, and proof is the web server's signature
-- over them. Returns false if the app has been disabled since the facts were read.
create or replace function private.mint_cross_app_token(token_hash bytea, facts jsonb, proof text) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with target as (
    -- Locks the app against being disabled at the same time. If this statement locks the app first, disabling the app
    -- also ends this token. Otherwise, this token is not stored.
    select a.id
    from private.apps a
    where a.id = (facts ->> 'targetId')::uuid and a.kind <> 'openid' and a.enabled
    for share
  ),
  minted as (
    insert into private.cross_app_tokens (token_hash, user_id, app_id, proof, created_at, expires_at)
    select
      mint_cross_app_token.token_hash,
      (facts ->> 'user')::uuid,
      t.id,
      mint_cross_app_token.proof,
      (facts ->> 'issuedAt')::timestamptz,
      (facts ->> 'expiresAt')::timestamptz
    from target t
    returning id
  )
  select exists (select from minted)
$$;

-- Stores a sign-in for at most 15 minutes, until the browser presents the sign-in's secret. Takes { deviceId, secret,
-- secretHash (hex), userId, sessionId, sealed, keyId, tag }. Returns { status: kept | unknown (the device is unknown) |
-- full (the device has 10 other accounts) }. Idempotent.
create or replace function private.add_account(addition jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (addition ->> 'userId')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (addition ->> 'deviceId')::uuid for update;
  -- Accepts a spent secret too: another tab may have added an account while this request was in flight.
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
    ) current_secret
    where current_secret.user_id <> subject_id
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

-- Returns the device secret that applies after an account is added. It is derived from the previous device secret and
-- the sign-in's secret, so an attacker who plants only one of them cannot compute it.
create or replace function private.secret_after_addition(secret text, added text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select translate(encode(sha256(convert_to(secret || ' ' || added, 'UTF8')), 'base64'), '+/=', '-_')
$$;

-- Adds sign-ins to a browser's accounts, given the secrets of the sign-ins. The account of the newest sign-in becomes
-- active. If the browser already had an account, its earlier session ends. Returns { status, secret }: secret is the
-- device secret derived from the presented secrets, and status is that secret's status (private.device_secret_status).
-- Adds accounts only if the status is current. Idempotent: a repeated call returns the same result.
-- Definer: the replaced session is in Supabase Auth's tables, and is ended by deleting its row.
create or replace function private.take_additions(device_id uuid, secret text, added text[]) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  addition record;
  shown text;
  current_secret text := secret;
  secret_status text;
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

  -- Derives the device secret again for sign-ins that an earlier request has added. The browser may not have received
  -- the response to that request.
  loop
    select s.secret into shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = device.id and a.taken_from = private.secret_hash(current_secret)
    limit 1;
    exit when not found;
    current_secret := private.secret_after_addition(current_secret, shown);
  end loop;
  secret_status := private.device_secret_status(device, current_secret);
  if secret_status <> 'current' then
    return jsonb_build_object('status', secret_status, 'secret', current_secret);
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
    -- Keeps the row for as long as the accounts can be used without another sign-in.
    update private.account_additions a
    set taken_from = private.secret_hash(current_secret), user_id = null, sealed = null, key_id = null, token_tag = null,
        expires_at = now() + interval '30 days'
    where a.secret_hash = addition.secret_hash;
    current_secret := private.secret_after_addition(current_secret, addition.shown);
    joined := joined || addition.user_id;
    newest_session_id := addition.session_id;
  end loop;

  if cardinality(joined) > 0 then
    perform private.end_additions(device.id, joined);
    update private.account_devices d
    set secret_hash = private.secret_hash(current_secret),
        -- From now on, the previous secret can only add another account or sign the browser out.
        previous_hash = d.secret_hash,
        previous_for = 'sign_in',
        previous_until = now() + interval '60 seconds',
        rotated_at = now(),
        active_user_id = joined[cardinality(joined)],
        active_session_id = newest_session_id,
        -- Ends the lease of a switch in progress, so that the switch can't replace the new active account.
        lease_id = null,
        lease_expires_at = null,
        last_seen_at = now(),
        expires_at = now() + interval '90 days'
    where d.id = device.id;
  end if;
  return jsonb_build_object('status', 'current', 'secret', current_secret);
end
$$;

-- Ends a browser's pending sign-ins to the given accounts, or to all accounts if user_ids is null. A sign-in is pending
-- until the browser presents its secret. The caller must have locked the accounts. Returns the sessions that were still
-- alive: [{ userId, sessionId }].
-- Definer: ends sessions, which are in Supabase Auth's tables.
create or replace function private.end_additions(device_id uuid, user_ids uuid[]) returns jsonb
  language sql volatile security definer set search_path = ''
as $$
  with deleted as (
    delete from private.account_additions a
    where a.device_id = end_additions.device_id and a.taken_from is null
      and (user_ids is null or a.user_id = any (user_ids))
    returning a.user_id, a.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  from deleted g
  where private.end_account_session(g.user_id, g.session_id)
$$;

-- Replaces an account's session with a new session that needs no other sign-in, for example after a QR handoff. Takes {
-- deviceId, secret, userId, sessionId, sealed, keyId, tag, inPlaceOf }. Returns { status: kept | unknown | over }.
-- unknown means that the device is unknown. over means that the browser has signed out of the session to replace, or
-- already has a different session for the account. The device's secret does not change, so a browser that lost the
-- response still gets the new session from the vault.
-- Definer: ends a replaced session by deleting its row in Supabase Auth's tables.
create or replace function private.continue_account_session(continuation jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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
    -- The entry already has the new session if the response to an earlier attempt was lost.
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

-- Returns the accounts of a browser that presents a valid device secret: { secret: current | previous, arrived, old,
-- active: { userId, sessionId, tag } | null, accounts }. arrived is true if the browser has presented its current
-- secret. old is true if the secret was rotated more than 30 days ago. Returns null for an unknown device.
-- Definer: reads emails from Supabase Auth's tables, which the service role cannot read.
create or replace function private.device_state(device_id uuid, secret text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return (
    select jsonb_build_object(
      'secret', secret_status,
      'arrived', d.previous_hash is null or d.previous_until is not null,
      'old', d.rotated_at < now() - interval '30 days',
      'active', (
        select jsonb_build_object('userId', e.user_id, 'sessionId', e.session_id, 'tag', e.token_tag)
        from private.account_vault_entries e
        where e.device_id = d.id and e.user_id = d.active_user_id and e.session_id = d.active_session_id
          and private.is_vault_entry_usable(e)
      ),
      'accounts', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', e.user_id,
            'email', u.email,
            'displayName', p.display_name,
            'avatarUrl', p.avatar_url,
            -- The comparison is null if the browser has no active account.
            'active', coalesce(usable and e.user_id = d.active_user_id and e.session_id = d.active_session_id, false),
            'requiresReauth', not usable,
            'lastRoute', e.last_route,
            'lastActiveAt', e.last_active_at,
            'addedAt', e.added_at
          )
          order by (usable and e.user_id = d.active_user_id) desc nulls last, e.last_active_at desc, e.user_id
        )
        from private.account_vault_entries e
        join auth.users u on u.id = e.user_id
        left join public.profiles p on p.id = e.user_id
        cross join lateral private.is_vault_entry_usable(e) as usable
        where e.device_id = d.id
      ), '[]')
    )
    from private.account_devices d
    cross join lateral private.device_secret_status(d, device_state.secret) as secret_status
    where d.id = device_state.device_id and secret_status in ('current', 'previous')
  );
end
$$;

-- Returns the status of a device secret: current, previous, spent or unknown. A previous secret stays valid for
-- everything until 30 seconds after the browser first presents the current one. After a sign-in replaces a secret, the
-- old secret is spent for one minute. A spent secret gives no access, but requests in flight may use it to add another
-- account or to sign the browser out.
-- Uses PL/pgSQL, which plans only the expressions that it reaches. Nearly every request presents the current secret, so
-- the function usually returns at the second check.
create or replace function private.device_secret_status(device private.account_devices, secret text) returns text
  language plpgsql stable security invoker set search_path = ''
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
  -- A secret that an added account replaced stays spent for 60 seconds, even if the device secret has been replaced
  -- again since then.
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

-- Locks accounts, so that changes to the same account run one after another. Lock accounts before their browsers,
-- challenges and sessions.
-- Definer: the service role cannot lock rows of Supabase Auth's tables.
create or replace function private.lock_accounts(user_ids uuid[]) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Takes the same lock as private.lock_app_credentials. "for update" would deadlock with a sign-out at Supabase Auth.
  -- The sign-out locks the session first. It then records an event, whose foreign key locks the account for key share.
  perform from auth.users u where u.id = any (user_ids) order by u.id for no key update;
end
$$;

-- Ends sessions that a browser has not used for 30 days, and sessions of sign-ins that the browser never used. Removes
-- accounts from a vault after 90 days. Deletes devices that have expired or hold no account. Returns the number of
-- deleted devices.
-- Definer: locks accounts, whose rows are in Supabase Auth's tables.
create or replace function private.sweep_account_devices() returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  idle record;
  deleted_count integer;
begin
  -- One sweeper at a time; others do nothing.
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
  get diagnostics deleted_count = row_count;
  return deleted_count;
end
$$;

-- Restricts a session to replacing its account's password. The restriction ends when the password changes. Also deletes
-- the rows of ended sessions.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.require_password_replacement(subject_id uuid, target_id uuid) returns void
  language sql volatile security definer set search_path = ''
as $$
  delete from private.password_replacements r
  where not exists (select from auth.sessions s where s.id = r.session_id);
  insert into private.password_replacements (session_id, user_id)
  select s.id, s.user_id
  from auth.sessions s
  where s.id = target_id and s.user_id = subject_id
  on conflict (session_id) do nothing
$$;

-- When an account's password changes, lifts the restriction set by private.require_password_replacement.
-- Definer: Supabase Auth runs this trigger, and its role has no rights in these schemas.
create or replace function private.end_password_replacements() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if private.is_new_password(old.encrypted_password, new.encrypted_password) then
    delete from private.password_replacements r where r.user_id = new.id;
  end if;
  return null;
end
$$;

-- Returns the facts that must be current on every request, read in one statement: { alive, sessionId, notAfter, aal,
-- hasVerifiedFactor, mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned,
-- deleted }, policy: { state, required, satisfied, byApproval } }. Returns { alive: false } if the session has ended.
-- policy.state is optional, required, recovery_in_progress or malformed. policy.byApproval is true if the session
-- satisfies the policy only because of a mobile approval. Until 0.3.0: for an approval by release 0.1.0, the server must
-- also check the cookie.
-- Definer: the caller cannot read Supabase Auth's tables. A session must learn its state even if its second factor is
-- missing or its account is closed, so required MFA does not apply here. Returns facts only about the caller's own
-- token.
create or replace function public.session_state() returns jsonb
  language plpgsql stable security definer set search_path = ''
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

-- Completes a switch in one transaction: stores the account's rotated session with store_account_session and makes the
-- account active. Takes { leaseId, secret, nextHash (hex) } and the fields that store_account_session takes. Returns {
-- status: activated, rotated }, { status: changed, current } if another rotation came first, or { status: lost } if the
-- switch no longer holds the lease. rotated is true if the given secret is now the device's previous secret and still
-- accepted.
create or replace function private.activate_account(switch jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  device private.account_devices;
  stored jsonb;
  secret_status text;
  rotates boolean;
begin
  perform private.lock_accounts(array[(switch ->> 'userId')::uuid]);
  select d.* into device from private.account_devices d where d.id = (switch ->> 'deviceId')::uuid for update;
  if not found or device.lease_id is distinct from (switch ->> 'leaseId')::uuid then
    return jsonb_build_object('status', 'lost');
  end if;
  stored := private.store_account_session(switch);
  if not (stored ->> 'kept')::boolean then
    return jsonb_build_object('status', 'changed', 'current', stored -> 'current');
  end if;
  secret_status := private.device_secret_status(device, switch ->> 'secret');
  -- Does not rotate again while the previous secret is still valid. Otherwise, a late response could leave the browser
  -- with a secret that is no longer valid.
  rotates := secret_status = 'current' and (
    device.previous_hash is null
    or device.previous_for = 'sign_in'
    or coalesce(device.previous_until <= now(), false)
  );
  update private.account_devices d
  set active_user_id = (switch ->> 'userId')::uuid,
      active_session_id = (switch ->> 'sessionId')::uuid,
      secret_hash = case when rotates then decode(switch ->> 'nextHash', 'hex') else d.secret_hash end,
      previous_hash = case when rotates then d.secret_hash else d.previous_hash end,
      previous_for = case when rotates then 'anything' else d.previous_for end,
      previous_until = case when rotates then null else d.previous_until end,
      rotated_at = case when rotates then now() else d.rotated_at end,
      lease_id = null,
      lease_expires_at = null
  where d.id = device.id;
  return jsonb_build_object('status', 'activated', 'rotated', rotates or secret_status = 'previous');
end
$$;

-- Signs one account out of a browser and ends its session there. The result's next lists the accounts that can become
-- active, last used first.
-- Definer: ends a session by deleting its row in Supabase Auth's table. The same transaction deletes the vault entry,
-- and Supabase Auth doesn't need to be reachable.
create or replace function private.sign_out_account(device_id uuid, secret text, target_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  ended_session_id uuid;
begin
  perform private.lock_accounts(array[target_id]);
  select d.* into device from private.account_devices d where d.id = sign_out_account.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  delete from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id
  returning e.session_id into ended_session_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  perform private.end_account_session(target_id, ended_session_id);
  perform private.end_additions(device.id, array[target_id]);
  update private.account_devices d
  set active_user_id = null, active_session_id = null
  where d.id = device.id and d.active_user_id = target_id;
  return jsonb_build_object(
    'status', 'signed_out',
    'sessionId', ended_session_id,
    'wasActive', device.active_user_id is not distinct from target_id,
    'next', coalesce((
      select jsonb_agg(e.user_id order by e.last_active_at desc, e.user_id)
      from private.account_vault_entries e
      where e.device_id = device.id and private.is_vault_entry_usable(e)
    ), '[]')
  );
end
$$;

-- Signs a browser out of all its accounts: ends all their sessions and deletes the device. Returns the sessions that
-- were still alive: [{ userId, sessionId }]. Returns null for an unknown device.
-- Definer: ends the browser's sessions in the transaction that deletes its vault entries. Supabase Auth has no call
-- that does this.
create or replace function private.sign_out_device(device_id uuid, secret text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  ended_sessions jsonb;
begin
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.device_id = sign_out_device.device_id
    union
    select a.user_id from private.account_additions a where a.device_id = sign_out_device.device_id
  ));
  select d.* into device from private.account_devices d where d.id = sign_out_device.device_id for update;
  -- Accepts a spent secret too, because a sign-in may have replaced the secret while this request was in flight.
  if not found or private.device_secret_status(device, secret) = 'unknown' then
    return null;
  end if;
  with deleted as (
    delete from private.account_vault_entries e where e.device_id = device.id returning e.user_id, e.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  into ended_sessions
  from deleted g
  where private.end_account_session(g.user_id, g.session_id);
  ended_sessions := ended_sessions || private.end_additions(device.id, null);
  delete from private.account_devices d where d.id = device.id;
  return ended_sessions;
end
$$;

-- Adds a sign-in to a browser's accounts and makes the account active. Takes { deviceId, secret, nextHash,
-- secondNextHash (hex), userId, sessionId, sealed, keyId, tag, inPlaceOf }. Creates the device if secret is null, and
-- otherwise gives the device a new secret. If the browser already has the account, replaces its session and ends the
-- old session. If inPlaceOf is given, the new session continues that session. The account then does not become active
-- if the browser has switched to another account. Returns { status: kept | unknown | full | over, successor }. The
-- status over means that the browser no longer has session inPlaceOf. successor is 1 if nextHash is now the hash of the
-- device's secret, or 2 if secondNextHash is.
-- Our servers use this function to register new devices. Until 0.3.0: servers of release 0.1.0 also use it to add
-- accounts to known devices.
--
-- Definer: the replaced session is in Supabase Auth's tables, and is ended by deleting its row.
create or replace function private.sign_in_account(sign_in jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  secret_status text;
  subject_id uuid := (sign_in ->> 'userId')::uuid;
  replaced_id uuid;
  successor smallint := 1;
  stays_active boolean;
begin
  perform private.lock_accounts(array[subject_id]);
  if sign_in ->> 'secret' is null then
    insert into private.account_devices (id, secret_hash)
    values ((sign_in ->> 'deviceId')::uuid, decode(sign_in ->> 'nextHash', 'hex'))
    returning * into device;
  else
    select d.* into device from private.account_devices d where d.id = (sign_in ->> 'deviceId')::uuid for update;
    if not found then
      return jsonb_build_object('status', 'unknown');
    end if;
    secret_status := private.device_secret_status(device, sign_in ->> 'secret');
    if secret_status = 'unknown' or (secret_status = 'spent' and device.active_user_id is distinct from subject_id) then
      return jsonb_build_object('status', 'unknown');
    end if;
  end if;

  select e.session_id into replaced_id
  from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = subject_id;
  if not found and (select count(*) from private.account_vault_entries e where e.device_id = device.id) >= 10 then
    return jsonb_build_object('status', 'full');
  end if;
  -- If an earlier response was lost, the vault may already store the new session.
  if sign_in ->> 'inPlaceOf' is not null
    and replaced_id is distinct from (sign_in ->> 'inPlaceOf')::uuid
    and replaced_id is distinct from (sign_in ->> 'sessionId')::uuid then
    return jsonb_build_object('status', 'over');
  end if;

  insert into private.account_vault_entries as e (device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    device.id, subject_id, (sign_in ->> 'sessionId')::uuid,
    sign_in ->> 'sealed', sign_in ->> 'keyId', sign_in ->> 'tag'
  )
  on conflict (device_id, user_id) do update
    set session_id = excluded.session_id, sealed = excluded.sealed, key_id = excluded.key_id,
        token_tag = excluded.token_tag, last_active_at = now();
  if replaced_id <> (sign_in ->> 'sessionId')::uuid then
    perform private.end_account_session(subject_id, replaced_id);
  end if;

  if secret_status = 'previous' then
    successor := 2;
  end if;
  -- A session that continues an earlier session is not a new sign-in, so it does not replace the active account.
  stays_active := sign_in ->> 'inPlaceOf' is not null and coalesce(device.active_user_id <> subject_id, false);
  update private.account_devices d
  set secret_hash = case
        when secret_status = 'current' then decode(sign_in ->> 'nextHash', 'hex')
        when secret_status = 'previous' then decode(sign_in ->> 'secondNextHash', 'hex')
        else d.secret_hash
      end,
      -- Marks the current secret as spent, so that it gives no access after the sign-in.
      previous_hash = case when secret_status in ('current', 'previous') then d.secret_hash else d.previous_hash end,
      previous_for = case when secret_status in ('current', 'previous') then 'sign_in' else d.previous_for end,
      previous_until = case
        when secret_status in ('current', 'previous') then now() + interval '60 seconds' else d.previous_until
      end,
      rotated_at = case when secret_status in ('current', 'previous') then now() else d.rotated_at end,
      active_user_id = case when stays_active then d.active_user_id else subject_id end,
      active_session_id = case when stays_active then d.active_session_id else (sign_in ->> 'sessionId')::uuid end,
      -- A switch that began before this sign-in must not replace the active account.
      lease_id = null,
      lease_expires_at = null,
      last_seen_at = now(),
      expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept', 'successor', successor);
end
$$;

-- Replaces an account's stored session with its rotated session. Takes { deviceId, userId, sessionId, expectedTag,
-- sealed, keyId, tag, lastRoute }. Without sealed, records only that the session was used. Returns { kept: true }, or {
-- kept: false, current } if another rotation came first. The caller then adopts current.
create or replace function private.store_account_session(entry jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored_entry private.account_vault_entries;
begin
  -- Locks the device before its entry, like every function here that locks both.
  perform from private.account_devices d where d.id = (entry ->> 'deviceId')::uuid for update;
  select e.* into stored_entry
  from private.account_vault_entries e
  where e.device_id = (entry ->> 'deviceId')::uuid and e.user_id = (entry ->> 'userId')::uuid
  for update;
  if not found then
    return jsonb_build_object('kept', false, 'current', null);
  end if;
  if stored_entry.session_id <> (entry ->> 'sessionId')::uuid
    or stored_entry.token_tag is distinct from entry ->> 'expectedTag' then
    return jsonb_build_object('kept', false, 'current', jsonb_build_object(
      'userId', stored_entry.user_id, 'sessionId', stored_entry.session_id, 'sealed', stored_entry.sealed, 'keyId', stored_entry.key_id,
      'tag', stored_entry.token_tag
    ));
  end if;
  update private.account_vault_entries e
  set sealed = coalesce(entry ->> 'sealed', e.sealed),
      key_id = coalesce(entry ->> 'keyId', e.key_id),
      token_tag = coalesce(entry ->> 'tag', e.token_tag),
      last_route = coalesce(entry ->> 'lastRoute', e.last_route),
      last_active_at = now()
  where e.device_id = stored_entry.device_id and e.user_id = stored_entry.user_id;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = stored_entry.device_id;
  return jsonb_build_object('kept', true);
end
$$;

-- Discards an account's session that has ended or cannot be decrypted. If listed is true, the account stays in the list
-- and requires a new sign-in. Returns false if another request rotated the session first.
-- Definer: the session is in Supabase Auth's tables, and is ended by deleting its row.
create or replace function private.discard_account_session(device_id uuid, user_id uuid, expected_tag text, listed boolean)
  returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended_session_id uuid;
begin
  perform private.lock_accounts(array[discard_account_session.user_id]);
  if listed then
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.device_id = discard_account_session.device_id
      and e.user_id = discard_account_session.user_id
      and e.token_tag = expected_tag
    returning e.session_id into ended_session_id;
  else
    delete from private.account_vault_entries e
    where e.device_id = discard_account_session.device_id
      and e.user_id = discard_account_session.user_id
      and e.token_tag is not distinct from expected_tag
    returning e.session_id into ended_session_id;
  end if;
  -- Ends the session, because the vault no longer holds its tokens.
  perform private.end_account_session(discard_account_session.user_id, ended_session_id);
  return ended_session_id is not null;
end
$$;

-- Adds one line to the audit log in the transaction of the change. Arguments: change { actor, reason, requestId, ip }
-- and act { action, targetUserId, target, before, after }.
create or replace function private.record_admin_action(change jsonb, act jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason, before, after, request_id, ip)
  values (
    (change ->> 'actor')::uuid, act ->> 'action', (act ->> 'targetUserId')::uuid, act ->> 'target', change ->> 'reason',
    nullif(act -> 'before', 'null'), nullif(act -> 'after', 'null'), change ->> 'requestId', (change ->> 'ip')::inet
  )
$$;

-- Writes an account's MFA policy and returns it. Applies changes (required, recovery, signInAgain), increments the
-- generation, and moves the boundary forward to the current second, so that earlier proofs no longer count. signInAgain
-- also moves the boundary of primary methods. The caller must hold the account's row for update. Not granted to any
-- role.
create or replace function private.write_required_mfa_policy(account auth.users, changes jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  old_policy jsonb := account.raw_app_meta_data -> 'platform_required_mfa';
  readable boolean := private.required_mfa_state(account.raw_app_meta_data) <> 'malformed';
  -- Uses the clock rather than the transaction's start, since this transaction may have waited for an earlier one.
  second bigint := floor(extract(epoch from clock_timestamp()));
  new_policy jsonb;
begin
  new_policy := jsonb_build_object(
    'version', 1,
    -- An unreadable policy may have required MFA, so it is treated as one that did.
    'required', case when readable then coalesce(old_policy -> 'required', 'false') else 'true' end,
    'boundary', greatest(
      case when private.is_integer(old_policy -> 'boundary') then (old_policy -> 'boundary')::bigint end,
      second
    ),
    'primaryBoundary', case
      when private.is_integer(old_policy -> 'primaryBoundary') then old_policy -> 'primaryBoundary'
      else 'null'
    end,
    'recovery', case when readable then coalesce(old_policy -> 'recovery', '"none"') else '"none"' end,
    'generation', coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) + 1
  );
  if changes ? 'signInAgain' then
    new_policy := new_policy || jsonb_build_object(
      'primaryBoundary', greatest((new_policy ->> 'primaryBoundary')::bigint, second)
    );
  end if;
  new_policy := new_policy || (changes - 'signInAgain');

  perform set_config('gatehouse.required_mfa_writer', 'on', true);
  update auth.users u
  set raw_app_meta_data =
    coalesce(u.raw_app_meta_data, '{}') || jsonb_build_object('platform_required_mfa', new_policy)
  where u.id = account.id;
  perform set_config('gatehouse.required_mfa_writer', 'off', true);
  return new_policy;
end
$$;

-- Returns true if a stored hash was replaced because a new password was set, and false if the same hash was only
-- encrypted.
-- With database encryption, Auth may encrypt a stored hash at a sign-in. This changes the column although the password
-- stays the same. Only the statement that sets a new password mentions recovery_token.
create or replace function private.is_new_password(stored text, hash text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select hash is distinct from stored and not (coalesce(hash, '') like '{%' and current_query() not like '%recovery_token%')
$$;

-- Lets Auth send the next reset link or sign-in code as soon as the previous one was used or voided, even if our server
-- generated and used the previous link itself.
create or replace function private.forget_used_recovery() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  new.recovery_sent_at := null;
  return new;
end
$$;

-- Removes a user's password. Supabase Auth itself stores an empty hash for a user without a password.
-- Supabase Auth's API can change a password, but can't remove it.
create or replace function private.remove_password(subject_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update auth.users u set encrypted_password = '', updated_at = now() where u.id = subject_id
$$;

-- Converts a claim to a UUID. Returns null for a claim that is not a UUID, so that it matches no row and raises no
-- error.
create or replace function private.uuid_or_null(value text) returns uuid
  -- Stable like pg_input_is_valid, so that Postgres can inline it.
  language sql stable security invoker
as $$
  -- The cast is outside, because a planner that knows the value evaluates casts within branches before the condition.
  select (case when pg_input_is_valid(value, 'uuid') then value end)::uuid
$$;

-- Deletes the oldest rows whose time is more than an age ago, at most max_rows, and returns their number. Skips rows
-- that other transactions have locked, and leaves them to the next call.
create or replace function private.delete_expired_rows(relation regclass, time_column name, age interval, max_rows integer)
  returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted integer;
begin
  execute format(
    'delete from %1$s where ctid = any (array(
      select o.ctid from %1$s o where o.%2$I < now() - $1 order by o.%2$I limit $2 for update skip locked
    ))',
    relation, time_column
  ) using age, max_rows;
  get diagnostics deleted = row_count;
  return deleted;
end
$$;

-- Returns whether the caller's session satisfies required MFA. Every account_required_mfa policy calls this function.
-- Callers cannot call it directly, because they have no usage on schema private.
-- Definer: the caller cannot read Supabase Auth's tables. Reads only facts about the caller's own token.
create or replace function private.account_required_mfa_satisfied() returns boolean
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return private.session_satisfies_mfa(private.caller_claims());
end
$$;

-- Returns whether a proof shows that our server saw the approval's cookie within the last minute. The proof is
-- "<second>.<HMAC-SHA-256 in hex>". The HMAC is computed with the approval's key over "<session id> <second>".
create or replace function private.is_approval_proven(approval private.login_challenges, proof text) returns boolean
  language sql stable security invoker
as $$
  select case
    -- Until 0.3.0: release 0.1.0 binds approvals without a key, and its servers check the cookie themselves.
    when (approval).proof_key is null then true
    when proof ~ '^[0-9]{10}[.][0-9a-f]{64}$' then
      left(proof, 10)::bigint
        between floor(extract(epoch from now()))::bigint - 60 and floor(extract(epoch from now()))::bigint + 60
      -- Hashes are compared, so that the timing reveals nothing about the expected value.
      and sha256(decode(right(proof, 64), 'hex')) = sha256(extensions.hmac(
        convert_to((approval).bound_session_id || ' ' || left(proof, 10), 'UTF8'), (approval).proof_key, 'sha256'
      ))
    else false
  end
$$;

-- Returns the claims of a Data API caller, plus the proof of a mobile approval that our server sends as a header.
-- PostgREST stores a request's headers in request.headers, with their names in lower case.
create or replace function private.caller_claims() returns jsonb
  language sql stable security invoker
as $$
  select auth.jwt() || jsonb_build_object(
    'approval_proof', nullif(current_setting('request.headers', true), '')::jsonb -> 'x-mfa-approval'
  )
$$;

-- Returns whether the amr claim (RFC 8176) contains one of the methods with a time after after_second and at or before
-- until_second.
create or replace function private.has_amr_between(amr jsonb, methods text[], after_second bigint, until_second bigint)
  returns boolean
  -- A path instead of a subquery, so that Postgres can inline the function. Stable like jsonb_build_object.
  language sql stable security invoker
as $$
  select coalesce(
    jsonb_path_exists(
      amr,
      -- A strict path finds nothing in an entry of another form. The numbers are those of private.is_integer.
      'strict $[*] ? (
        @.method == $methods[*] && @.timestamp == @.timestamp.floor()
        && @.timestamp >= 0 && @.timestamp <= 9007199254740991 && @.timestamp > $after && @.timestamp <= $until
      )',
      jsonb_build_object('methods', methods, 'after', after_second, 'until', until_second),
      silent => true
    ),
    false
  )
$$;

-- Stores a draft for 15 minutes and returns its id. An account keeps its five newest drafts.
create or replace function private.store_review_draft(account_id uuid, review_kind text, draft_contents text)
  returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored uuid;
begin
  -- Serializes the calls of an account, so that they don't exceed its limit together.
  perform pg_advisory_xact_lock(hashtextextended('private.store_review_draft ' || account_id, 0));
  perform private.delete_expired_rows('private.review_drafts', 'expires_at', '0', 100);
  insert into private.review_drafts (user_id, kind, contents)
  values (account_id, review_kind, draft_contents)
  returning id into stored;
  delete from private.review_drafts d
  where d.id in (
    select o.id from private.review_drafts o where o.user_id = account_id order by o.created_at desc, o.id offset 5
  );
  return stored;
end
$$;

-- Returns the contents of an account's draft of one kind, or null if there is none or it has expired.
create or replace function private.read_review_draft(account_id uuid, review_kind text, draft_id uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select d.contents
  from private.review_drafts d
  where d.id = draft_id and d.user_id = account_id and d.kind = review_kind and d.expires_at > now()
$$;

-- Begins a challenge { id, kind, userId, sessionId, secretHash, pairCodeHash?, metadata }. Returns { outcome: begun,
-- expiresAt }, or { outcome: limited, retryAfterSeconds } if the account began 20 challenges of this kind in the last
-- 15 minutes. Expires the session's earlier challenges of the same kind.
create or replace function private.begin_login_challenge(challenge jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  challenge_kind constant text := challenge ->> 'kind';
  owner_id constant uuid := (challenge ->> 'userId')::uuid;
  asking_session_id constant uuid := (challenge ->> 'sessionId')::uuid;
  opens_at timestamptz;
  ends_at timestamptz;
begin
  -- Serialized per account, so that concurrent callers can't exceed the limit.
  perform pg_advisory_xact_lock(hashtextextended('private.begin_login_challenge ' || owner_id, 0));
  select min(r.created_at) + interval '15 minutes'
  into opens_at
  from (
    select c.created_at
    from private.login_challenges c
    where c.user_id = owner_id
      and c.kind = challenge_kind
      and c.created_at > now() - interval '15 minutes'
    order by c.created_at desc
    limit 20
  ) r
  having count(*) = 20;
  if found then
    return jsonb_build_object(
      'outcome', 'limited',
      'retryAfterSeconds', greatest(1, ceil(extract(epoch from opens_at - now())))::integer
    );
  end if;

  -- Expires the session's earlier open challenges of this kind, because the browser waits only for the latest one.
  update private.login_challenges c
  set expires_at = greatest(now(), c.created_at + interval '1 microsecond')
  where c.user_id = owner_id
    and c.session_id = asking_session_id
    and c.kind = challenge_kind
    and c.status in ('created', 'approved')
    and c.expires_at > now();

  insert into private.login_challenges as c
    (id, kind, user_id, session_id, secret_hash, pair_code_hash, request_metadata, expires_at)
  values (
    (challenge ->> 'id')::uuid,
    challenge_kind,
    owner_id,
    asking_session_id,
    (challenge ->> 'secretHash')::bytea,
    (challenge ->> 'pairCodeHash')::bytea,
    challenge -> 'metadata',
    now() + case challenge_kind when 'qr' then interval '2 minutes' else interval '5 minutes' end
  )
  returning c.expires_at into ends_at;
  return jsonb_build_object('outcome', 'begun', 'expiresAt', ends_at);
end
$$;

-- Returns the state of the challenge { id, kind, secretHash, sessionId } to the session that began the challenge or to
-- the session that was minted for it. Returns { outcome: known, status, expiresAt, validUntil, mintedSessionId }, {
-- outcome: not_found } for a wrong id or secret, or { outcome: forbidden } for any other session.
create or replace function private.read_login_challenge(challenge jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
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
    where c.id = private.uuid_or_null(challenge ->> 'id')
      and c.kind = challenge ->> 'kind'
      and c.secret_hash = (challenge ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;

-- Deletes up to at_most challenges that expired more than an hour ago, except mobile approvals that are still valid.
-- Returns the number of deleted challenges, or 0 while another sweep runs.
create or replace function private.sweep_login_challenges(at_most integer default 1000) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  deleted_count integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_login_challenges', 0)) then
    return 0;
  end if;
  delete from private.login_challenges c
  where c.id = any (array(
    select o.id
    from private.login_challenges o
    where o.expires_at < now() - interval '1 hour' and (o.valid_until is null or o.valid_until < now())
    order by o.expires_at
    limit at_most
    for update skip locked
  ));
  get diagnostics deleted_count = row_count;
  return deleted_count;
end
$$;

-- Returns an account's ways to sign in: { password, passkeys, identities: [{ id, provider, email, createdAt,
-- lastSignInAt, unconfirmed }] }, or null if the account does not exist. unconfirmed: the identity was added by a
-- direct call to Supabase Auth, so our pages don't accept it for sign-in. Excludes identities that our pages are still
-- linking.
-- Definer: passwords, passkeys and identities are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_sign_in_methods(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'password', coalesce(u.encrypted_password, '') <> '' and u.email_confirmed_at is not null,
    'passkeys', (select count(*) from auth.webauthn_credentials c where c.user_id = u.id),
    'identities', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', i.id,
        'provider', i.provider,
        'email', i.email,
        'createdAt', i.created_at,
        'lastSignInAt', i.last_sign_in_at,
        'unconfirmed', exists (select from private.unconfirmed_additions a where a.target_id = i.id)
      ) order by i.created_at, i.id), '[]')
      from auth.identities i
      where i.user_id = u.id
        and not exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

-- Returns the number of usable sign-in methods that an account would have without the given identities, passkeys and
-- password. Counts an unconfirmed identity only if its id is in confirming. Called only by security definer functions.
-- Not granted to any role.
create or replace function private.count_sign_in_methods(
  subject_id uuid,
  usable_providers text[],
  without uuid[],
  without_password boolean default false,
  confirming uuid[] default '{}'
) returns bigint
  language sql stable security invoker set search_path = ''
as $$
  select (methods -> 'password' = 'true'::jsonb and not without_password)::integer
    + (select count(*) from auth.webauthn_credentials c where c.user_id = subject_id and c.id <> all (without))
    + (
      select count(*)
      from jsonb_to_recordset(methods -> 'identities') as i (id uuid, provider text, unconfirmed boolean)
      where i.provider = any (usable_providers)
        and i.id <> all (without)
        and (not i.unconfirmed or i.id = any (confirming))
    )
  from private.list_sign_in_methods(subject_id) as methods
$$;

-- Removes an identity from an account. Returns { outcome: unlinked, provider, email } or { outcome: last_method |
-- not_unlinkable | not_found }. last_method: no way to sign in would remain. not_unlinkable: the identity is the
-- account's own email or phone.
-- Definer: identities are in Supabase Auth's tables. Supabase Auth's own endpoint is not used. It refuses to remove the
-- last identity even if a password or a passkey remains, does not check whether the remaining identity is usable, and
-- replaces the account's email with another identity's. Another way to sign in could also be removed between our count
-- and the endpoint's deletion.
create or replace function private.unlink_identity(subject_id uuid, target_id uuid, usable_providers text[]) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  target record;
begin
  -- Locks the account, so that concurrent changes to its sign-in methods run one after the other.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select m.id, m.provider, m.email
  into target
  from jsonb_to_recordset(private.list_sign_in_methods(subject_id) -> 'identities') as m (
    id uuid, provider text, email text
  )
  where m.id = target_id;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if target.provider in ('email', 'phone') then
    return jsonb_build_object('outcome', 'not_unlinkable');
  end if;
  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target.id]) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;

  perform private.keep_email_identity(account);
  perform private.remove_identity(target.id);
  return jsonb_build_object('outcome', 'unlinked', 'provider', target.provider, 'email', target.email);
end
$$;

-- Adds an identity for the account's own confirmed email if the account has no email identity. Called before another
-- identity is removed, because Supabase Auth would otherwise replace the account's email with that of a remaining
-- identity. Called only by definer functions, so it is not granted to any role.
create or replace function private.keep_email_identity(account auth.users) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if account.email_confirmed_at is not null and not exists (
    select from auth.identities i where i.user_id = account.id and i.provider = 'email'
  ) then
    perform private.add_email_identity(account);
  end if;
end
$$;

-- Releases a lease. Does nothing if the lease has expired and another caller has taken a new one.
-- Definer: the service role cannot change accounts in Supabase Auth's tables.
create or replace function private.release_mint_lease(lease_id uuid) returns void
  language sql volatile security definer set search_path = ''
as $$
  delete from private.mint_leases l where l.lease_id = release_mint_lease.lease_id
$$;

-- Returns the result of an attempt, before the server acts on the result: { flow: { userId, email, closed, linkedTo,
-- identity: { email, issuer, confirmed, addedByApp } } }. flow is null if the code does not belong to the attempt. Returns null if
-- the attempt was used or has expired.
-- Definer: flows and identities are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.inspect_oauth_attempt(attempt_hash text, code text, challenge text) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'flow', (
      select jsonb_build_object(
        'userId', u.id,
        'email', u.email,
        'closed', u.deleted_at is not null or coalesce(u.banned_until > now(), false),
        'linkedTo', f.linking_target_id,
        'identity', jsonb_build_object(
          'email', i.email,
          'issuer', i.identity_data ->> 'iss',
          'confirmed', not private.is_unconfirmed_identity(i.id),
          'addedByApp', exists (select from private.unconfirmed_additions n where n.target_id = i.id)
        )
      )
      from auth.flow_state f
      join auth.users u on u.id = f.user_id
      -- Supabase Auth completes a flow and writes the flow's identity in one transaction, so both rows have the same
      -- xmin.
      join auth.identities i on i.user_id = f.user_id and i.provider = f.provider_type and i.xmin = f.xmin
      where f.auth_code = inspect_oauth_attempt.code
        and f.code_challenge = inspect_oauth_attempt.challenge
        and f.provider_type = a.provider
    )
  )
  from private.oauth_attempts a
  where a.state_hash = decode(attempt_hash, 'hex') and a.used_at is null and a.expires_at > now()
$$;

-- Completes an attempt with a verdict. Returns true to only one caller. sign_in keeps the code valid, so that it can be
-- exchanged. link confirms the identity and voids the code. refuse voids the code, and removes the account or the
-- identity that the attempt created.
-- Definer: reverts changes in Supabase Auth's tables, which the service role cannot write.
create or replace function private.complete_oauth_attempt(attempt_hash text, code text, challenge text, verdict text) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  attempt private.oauth_attempts;
  flow record;
  identity record;
begin
  update private.oauth_attempts a
  set used_at = now()
  where a.state_hash = decode(attempt_hash, 'hex')
    and a.used_at is null
    and a.expires_at > now()
    and verdict = any (case a.purpose when 'link' then array['link', 'refuse'] else array['sign_in', 'refuse'] end)
  returning a.* into attempt;
  if not found then
    return false;
  end if;
  if verdict = 'sign_in' then
    return true;
  end if;

  select f.id, f.xmin as written_by, f.user_id, f.linking_target_id, f.provider_type, f.created_at
  into flow
  from auth.flow_state f
  where f.auth_code = code and f.code_challenge = challenge and f.provider_type = attempt.provider
  for update;
  if not found then
    return verdict = 'refuse';
  end if;
  select i.id, i.provider, i.email,
    -- An identity that a direct call to Supabase Auth linked during the flow does not count as new. Its event is kept.
    i.created_at >= flow.created_at
      and not exists (select from private.unconfirmed_additions a where a.target_id = i.id) as is_new,
    -- Keeps an identity that an app linked. Only the owner confirms or removes it, in the access review.
    not exists (select from private.unconfirmed_additions a where a.target_id = i.id)
      and (
        i.created_at >= flow.created_at
        or exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
      ) as may_go
  into identity
  from auth.identities i
  where i.user_id = flow.user_id and i.provider = flow.provider_type and i.xmin = flow.written_by;

  -- Deletes the flow, so that its code cannot be exchanged for a session. Neither a link nor a refused sign-in needs a
  -- session.
  perform private.delete_auth_flow(flow.id);

  if verdict = 'link' then
    if identity.id is null or flow.linking_target_id is distinct from attempt.user_id then
      return false;
    end if;
    delete from private.unconfirmed_identities n where n.identity_id = identity.id;
    if found then
      perform private.record_addition(
        attempt.user_id, 'identity', identity.id, true,
        jsonb_build_object('provider', identity.provider, 'email', identity.email)
      );
    end if;
    return true;
  end if;

  if not private.delete_unused_auth_user(flow.user_id, flow.created_at) and identity.may_go then
    delete from public.security_events e
    where e.target_id = identity.id and e.created_at >= flow.created_at and identity.is_new;
    perform set_config('gatehouse.takes_back', case when identity.is_new then 'on' else 'off' end, true);
    perform private.remove_identity(identity.id);
    perform set_config('gatehouse.takes_back', 'off', true);
  end if;
  return true;
end
$$;

-- Deletes up to at_most expired attempts, and up to at_most identities of links that were never completed. Returns the
-- number of deleted rows, or 0 if another sweep is running.
-- Definer: removes identities from Supabase Auth's tables, which the service role cannot write.
create or replace function private.sweep_oauth_attempts(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  deleted_count integer;
  removed integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_oauth_attempts', 0)) then
    return 0;
  end if;
  deleted_count := private.delete_expired_rows('private.oauth_attempts', 'expires_at', '0', at_most);
  -- Keeps unconfirmed identities for a little longer than an attempt's lifetime, because a link may still be in
  -- progress.
  perform private.remove_identity(n.identity_id)
  from (
    select o.identity_id from private.unconfirmed_identities o
    where o.created_at < now() - interval '15 minutes' order by o.created_at limit at_most
  ) as n;
  get diagnostics removed = row_count;
  return deleted_count + removed;
end
$$;

-- Returns an account's passkeys, oldest first. Each has its credential id in hexadecimal, its provider's AAGUID and, if
-- known, the browser and system from which it was added. Only for our server, which takes the account from the session.
-- Definer: the service role cannot read Supabase Auth's tables.
create or replace function private.list_passkeys(user_id uuid)
  returns table (
    id uuid,
    credential_id text,
    name text,
    aaguid uuid,
    device text,
    created_at timestamptz,
    last_used_at timestamptz
  )
  language sql stable security definer set search_path = ''
as $$
  select c.id, encode(c.credential_id, 'hex'), c.friendly_name, c.aaguid, e.device, c.created_at, c.last_used_at
  from auth.webauthn_credentials c
  left join public.security_events e on e.id = private.addition_event(c.user_id, c.id, 'passkey_added')
  where c.user_id = list_passkeys.user_id
  order by c.created_at, c.id
$$;

-- Removes a passkey from an account. Returns deleted, last_method, insufficient_aal or not_found. last_method: no way
-- to sign in would remain. insufficient_aal: the account has an authenticator that the session has not used yet.
-- Definer: passkeys are in Supabase Auth's tables, which the service role cannot read. Supabase Auth's own endpoint
-- would delete an account's last way to sign in. Counting the other ways before a call to the endpoint is not enough,
-- because one of them could be removed before the endpoint deletes the passkey.
create or replace function private.delete_passkey(subject_id uuid, actor_session_id uuid, target_id uuid, usable_providers text[])
  returns text
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Serialized per account, like private.unlink_identity, so that each change sees the result of the one before.
  perform from auth.users u where u.id = subject_id for update;
  if not exists (
    select from auth.webauthn_credentials c where c.id = target_id and c.user_id = subject_id
  ) then
    return 'not_found';
  end if;
  -- The backend has the same rule: an account's authenticator must have been used in this session.
  if exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) and not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return 'insufficient_aal';
  end if;

  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target_id]) = 0 then
    return 'last_method';
  end if;
  perform private.delete_auth_passkey(target_id);
  return 'deleted';
end
$$;

-- Returns a QR challenge { id, secretHash, userId, sessionId } for display on the phone before the user decides.
-- Returns { outcome: known, id, status, createdAt, expiresAt, metadata }, { outcome: not_found } for a wrong id or
-- secret, or { outcome: forbidden } if the phone uses another account or the session that requested the handoff.
create or replace function private.read_qr_request(request jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce((
    select case
      when c.user_id <> (request ->> 'userId')::uuid or c.session_id = (request ->> 'sessionId')::uuid
        then jsonb_build_object('outcome', 'forbidden')
      else jsonb_build_object(
        'outcome', 'known',
        'id', c.id,
        'status', private.login_challenge_state(c),
        'createdAt', c.created_at,
        'expiresAt', c.expires_at,
        'metadata', c.request_metadata
      )
    end
    from private.login_challenges c
    where c.id = (request ->> 'id')::uuid and c.kind = 'qr' and c.secret_hash = (request ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;

-- Completes a claim with the session that was minted for it: { id, claims, mintedSessionId }. Returns consumed, expired
-- or rejected. If consumed, the session has the approver's sign-in time. Otherwise the session must not be sent to the
-- browser.
-- Definer: sessions and their proofs are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.complete_qr_challenge(completion jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
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

  -- Sets the session's sign-in time to the approver's, because approving a QR code does not count as a new sign-in.
  -- Every token that the backend issues for the session contains this time.
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

-- Records which thresholds budgets have crossed. Returns the crossings that are not emailed yet, oldest first. Only one
-- sweep runs at a time; a concurrent sweep returns an empty list. refusing: the budget refuses calls although it is not
-- fully spent. spentUsd, reservedUsd and leftUsd are null if the workspace hides provider cost.
-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Runs one sweep at a time. Each sweep reads the budgets after the previous one has finished, so that it sees limits
  -- that were raised meanwhile.
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_budget_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'scope', a.scope,
        'subjectId', a.subject_id,
        'subject', ai.budget_name(a.scope, a.subject_id, a.workspace_id),
        'workspaceId', a.workspace_id,
        'workspace', w.name,
        'month', a.month,
        'endsAt', ai.utc_text((a.month + interval '1 month') at time zone 'UTC'),
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      )
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id
    ), '[]')
    from (
      select * from ai.budget_alerts p where p.posted_at is null order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
  );
end
$$;

-- Queues one email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so
-- that concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or
-- the crossing no longer applies.
-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_budget_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.budget_alerts a
    set posted_at = now()
    where a.scope = alert ->> 'scope'
      and a.subject_id = (alert ->> 'subjectId')::uuid
      and a.workspace_id = (alert ->> 'workspaceId')::uuid
      and a.month = (alert ->> 'month')::date
      and a.threshold = (alert ->> 'threshold')::smallint
      and a.limit_usd = (alert ->> 'limitUsd')::numeric
      and a.posted_at is null
    returning a.scope, a.workspace_id
  ), queued as (
    -- Makes the email due immediately. By default, an email becomes due after a minute.
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_budget_alert_mails.subject, queue_budget_alert_mails.body, now()
    from marked p
    cross join lateral ai.budget_recipients(p.scope, p.workspace_id) as r (email)
    returning id
  )
  select count(*)::integer from queued
$$;

-- Returns the name of the key, app, member, label or workspace that a budget limits.
create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case scope
    when 'key' then (
      select k.name from ai.keys k
      where k.lineage_id = subject and k.workspace_id = workspace
      order by k.created_at desc limit 1
    )
    when 'app' then ai.app_label(subject)
    when 'member' then (select p.display_name from public.profiles p where p.id = subject)
    when 'label' then (
      select b.label from ai.budgets b
      where b.scope = 'label' and b.subject_id = subject and b.workspace_id = workspace
    )
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;

-- Returns whether any live key has the label. A label's budget can refuse only calls with such a key.
create or replace function ai.is_label_enforced(label text, workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select from ai.keys k
    where k.workspace_id = workspace and k.entity_id = is_label_enforced.label and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
  )
$$;

-- Returns a page of a workspace's budgets and their use in the current UTC month, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy. Sorts budgets by scope, labels by their text, and other
-- subjects by when they were created. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[] default null, page_size integer default 50,
  -- Until 0.3.0: servers of release 0.1.0 omit this argument and reject budgets with a scope that is not in the default.
  scopes text[] default '{workspace,app,key}'
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy');
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            -- greatest(null, 0) is 0, so a missing limit needs its own case.
            when visible and (p.budget).limit_usd is not null then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.month = this_month::date and a.threshold > 0 and a.posted_at is not null
              and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select s.*, b as budget, x.spent, o.position
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace and b.limit_usd is not null
        cross join lateral (select case when b.period_start < this_month::date then 0 else b.spent_usd end as spent) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or (b.limit_usd is not null and x.spent > 0))
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Sets one monthly budget; null removes it. Requires manage_ai_policy or, for a key's budget, manage_ai_keys. For the
-- scope label, takes the label's text and derives the subject from it. read_limit_usd is the limit that the member saw.
-- If the limit has changed since, nothing is changed. Outcomes: changed, unchanged, changed_meanwhile (with limitUsd),
-- not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  old_limit numeric;
  new_limit numeric := change_budget.limit_usd::numeric;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  select b.limit_usd into old_limit
  from ai.budgets b
  where b.scope = change_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if old_limit is distinct from read_limit_usd::numeric then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'limitUsd', trim_scale(old_limit)::text);
  end if;
  if new_limit is not distinct from old_limit then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform ai.set_budget(scope, subject, workspace, new_limit, label);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object('scope', scope, 'before', trim_scale(old_limit)::text, 'after', trim_scale(new_limit)::text)
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

-- Sets the monthly budget of a workspace, or of one of its apps, key lineages, members or labels; null removes the
-- budget. A new budget starts with the cost of this month's settled runs. Runs that are in progress when the budget is
-- created are not counted in it. Callers must hold ai.lock_policy.
create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  if limit_usd is null then
    update ai.budgets b set limit_usd = null
    where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    -- Raising the limit clears the refusal, because the refused call may now fit.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if found then
    perform ai.reset_budget_alert(set_budget.scope, subject, workspace);
    return;
  end if;
  insert into ai.budgets as b (scope, subject_id, workspace_id, label, limit_usd, period_start, spent_usd)
  select
    set_budget.scope, subject, workspace, set_budget.label, set_budget.limit_usd, month,
    case
      -- Sums may count a label as one of many (*).
      when set_budget.scope = 'label' then (
        select coalesce(sum(r.cost_usd), 0)
        from ai.runs r
        where r.workspace_id = workspace and r.entity_id = set_budget.label
          and r.created_at >= month::timestamp at time zone 'UTC'
      )
      else (
        select coalesce(sum(u.cost_usd), 0)
        from ai.usage_between(workspace, month::timestamp at time zone 'UTC', 'infinity', set_budget.scope = 'member') u
        where case set_budget.scope
          when 'workspace' then true
          when 'app' then u.app_id = subject
          when 'member' then u.actor_id = subject
          else u.key_lineage_id = subject
        end
      )
    end;
end
$$;

-- Returns everything in a workspace that can have a budget: the workspace itself, its external apps, key lineages and
-- members, and labels that have a budget or a live key. live: the subject can still make calls. since: when the subject
-- was created.
create or replace function ai.budget_subjects(workspace uuid, with_keys boolean)
  returns table (scope text, subject_id uuid, live boolean, since timestamptz, label text)
  language sql stable security invoker set search_path = ''
as $$
  select 'workspace', workspace, true, null::timestamptz, null::text
  union all
  select 'app', s.app_id, ai.app_can_act_in_workspace(s.app_id, workspace), (
    select a.created_at from private.apps a where a.id = s.app_id
  ), null
  from (
    select l.app_id from private.app_workspaces l join private.apps a on a.id = l.app_id and a.kind = 'external'
    where l.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'app' and b.limit_usd is not null
  ) as s (app_id)
  union all
  select 'key', k.lineage_id, bool_or(k.revoked_at is null and (k.expires_at is null or k.expires_at > now())),
    min(k.created_at), null
  from ai.keys k
  where with_keys and k.workspace_id = workspace
  group by k.lineage_id
  union all
  select 'member', s.user_id, private.is_workspace_member(s.user_id, workspace), (
    select p.created_at from public.profiles p where p.id = s.user_id
  ), null
  from (
    select m.user_id from public.workspace_members m where m.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'member' and b.limit_usd is not null
  ) as s (user_id)
  union all
  select 'label', ai.label_id(s.label), true, null, s.label
  from (
    select k.entity_id from ai.keys k
    where k.workspace_id = workspace and k.entity_id is not null and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
    union
    select b.label from ai.budgets b where b.workspace_id = workspace and b.scope = 'label' and b.limit_usd is not null
  ) as s (label)
$$;

-- Records balances that became low or empty. Returns those for which no emails are queued yet, oldest first. Only one
-- sweep runs at a time; a concurrent sweep returns an empty list.
-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_credit_alerts(max_alerts integer default 100) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_credit_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_credit_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'accountId', k.id,
        'payer', case when k.workspace_id is null then 'member' else 'workspace' end,
        'workspaceId', k.shown_id,
        'workspace', k.shown_name,
        'level', k.level,
        'crossedAt', ai.utc_text_microseconds(k.crossed_at),
        'balance', trim_scale(k.balance)::text,
        'reserved', trim_scale(k.reserved)::text,
        'available', trim_scale(k.balance - k.reserved)::text,
        'threshold', trim_scale(k.threshold)::text
      )
      order by k.crossed_at, k.id
    ), '[]')
    from (
      select a.*, p.level, p.threshold, p.crossed_at, w.shown_id, w.shown_name
      from ai.credit_alerts p
      join ai.credit_accounts a on a.id = p.account_id
      -- Selects the workspace that the warning links to. For a member's credits, selects a workspace whose plan charges
      -- the member.
      cross join lateral (
        select s.id as shown_id, s.name as shown_name
        from public.workspaces s
        join ai.plans l on l.id = s.plan_id and l.payer = 'workspace'
        where s.id = a.workspace_id and s.deleted_at is null
        union all
        (
          select s.id, s.name
          from public.workspace_members m
          join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
          join ai.plans l on l.id = s.plan_id and l.payer = 'member'
          where m.user_id = a.user_id
          order by s.personal_user_id is not distinct from a.user_id desc, s.created_at, s.id
          limit 1
        )
      ) w
      where p.posted_at is null
      order by p.crossed_at
      limit max_alerts
    ) k
  );
end
$$;

-- Returns the balance below which a plan's payers are warned. The default is a tenth of the plan's initial credits, or
-- 10,000 if the plan has no initial credits.
create or replace function ai.low_credits(plan ai.plans) returns numeric
  language sql immutable security invoker parallel safe
as $$
  select coalesce((plan).low_credits, case when (plan).initial_credits > 0 then (plan).initial_credits * 0.1 else 10000 end)
$$;

-- Returns the plan under which each workspace or member pays. Returns no row for a workspace or member that no plan
-- charges. For a member who pays in several workspaces, returns the plan with the most initial credits.
create or replace function ai.paying_plans(workspaces uuid[], members uuid[]) returns table (owner_id uuid, plan ai.plans)
  language sql stable security invoker set search_path = ''
as $$
  select distinct on (w.owner_id) w.owner_id, p
  from (
    select s.id as owner_id, s.plan_id, 'workspace' as payer
    from unnest(workspaces) as u (id)
    join public.workspaces s on s.id = u.id and s.deleted_at is null
    union all
    select m.user_id, s.plan_id, 'member'
    from unnest(members) as u (id)
    join public.workspace_members m on m.user_id = u.id
    join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
  ) w
  join ai.plans p on p.id = w.plan_id and p.payer = w.payer
  order by w.owner_id, p.initial_credits desc, p.id
$$;

-- Returns the plan under which a workspace or a member pays, or no row if no plan charges them.
create or replace function ai.paying_plan(payer text, owner_id uuid) returns setof ai.plans
  language sql stable security invoker set search_path = ''
as $$
  select (p.plan).*
  from ai.paying_plans(
    case payer when 'workspace' then array[paying_plan.owner_id] end, case payer when 'member' then array[paying_plan.owner_id] end
  ) as p
$$;

-- Returns the email addresses that receive warnings about a balance. If the workspace pays, these are its owners and
-- its members with manage_ai_policy; otherwise the member who pays.
create or replace function ai.credit_recipients(workspace uuid, member_id uuid) returns setof text
  language sql stable security invoker set search_path = ''
as $$
  select r.email from ai.budget_recipients('workspace', workspace) as r (email)
  union all
  select u.email
  from auth.users u
  where u.id = member_id
    and char_length(u.email) between 3 and 320
    and u.deleted_at is null
    and (u.banned_until is null or u.banned_until <= now())
$$;

-- Returns { level, available } if the balance that pays for a member's calls in a workspace is low or empty. Returns
-- null otherwise, or if the member lacks use_ai_studio.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credit_notice(member_id uuid, workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object('level', x.level, 'available', trim_scale(greatest((o.a).balance - (o.a).reserved, 0))::text)
  from public.workspaces w
  join ai.plans p on p.id = w.plan_id
  cross join lateral (
    select a from ai.credit_accounts a
    where case p.payer when 'workspace' then a.workspace_id = w.id else a.user_id = member_id end
    union all
    -- If no credit account exists yet, uses the plan's initial credits.
    select jsonb_populate_record(null::ai.credit_accounts, jsonb_build_object('balance', p.initial_credits, 'reserved', 0))
    where not exists (
      select from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = case p.payer when 'workspace' then w.id else member_id end
    )
  ) o
  cross join lateral (
    select ai.credit_level(
      o.a,
      case p.payer
        when 'member' then (select ai.low_credits(m) from ai.paying_plan('member', member_id) as m)
        else ai.low_credits(p)
      end
    ) as level
  ) x
  where w.id = workspace and w.deleted_at is null and x.level > 'funded'
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;

-- Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and the credits used in
-- the window. The default window is the last 30 days. Used credits are credits billed for runs and credits deducted
-- without a run. With with_totals = false, returns only the page, for an export that reads page by page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50, with_totals boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  last_id bigint := coalesce(before_id, 9223372036854775807);
  listed jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(report_window.window_from),
    'to', ai.utc_text_microseconds(report_window.window_to),
    'entries', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id::text,
          'createdAt', ai.utc_text_microseconds(p.created_at),
          'payer', p.payer,
          'kind', p.kind,
          'amount', trim_scale(p.amount)::text,
          'balanceAfter', trim_scale(p.balance_after)::text,
          'runId', p.run_id,
          'description', p.description
        )
        order by p.id desc
      ), '[]')
      from (
        select case when a.workspace_id is null then 'member' else 'workspace' end as payer, e.*
        from ai.credit_accounts_of(member_id, workspace) a
        cross join lateral (
          select *
          from ai.credit_ledger l
          where l.account_id = a.id
            and l.created_at >= report_window.window_from
            and l.created_at < report_window.window_to
            and l.id < last_id
            -- A member's balance pays for runs in all of their free workspaces, but only this workspace's runs are
            -- listed here.
            and (
              a.workspace_id is not null
              or l.run_id is null
              or exists (
                select from ai.runs r
                where r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = workspace
              )
            )
          order by l.id desc
          limit page_size
        ) as e
        order by e.id desc
        limit page_size
      ) p
    )
  );
  if not with_totals then
    return listed;
  end if;
  return listed || (
    with accounts as materialized (
      select a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to) u
    ), unlinked as (
      select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits
    )
    select jsonb_build_object(
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'totals', (
        select jsonb_build_object(
          'runCredits', trim_scale(r.billed)::text,
          'otherDeductions', trim_scale(o.credits)::text,
          'usedCredits', trim_scale(r.billed + o.credits)::text,
          'unmeteredCredits', trim_scale(r.unmetered)::text,
          'addedCredits', trim_scale((
            select coalesce(sum(l.amount), 0)
            from accounts a
            join ai.credit_ledger l on l.account_id = a.id
            where l.run_id is null and l.amount > 0
              and l.created_at >= report_window.window_from and l.created_at < report_window.window_to
          ))::text
        )
        from runs r cross join unlinked o
      )
    )
  );
end
$$;

-- Requests approval for a workspace on behalf of a member with manage_ai_keys. Queues one email { subject, text } for
-- each infrastructure admin. Changes nothing if a request is open or the workspace is approved. Returns
-- ai.key_approval_state or { outcome: not_allowed }.
-- Definer: the service role cannot write requests or read Supabase Auth's email addresses.
create or replace function ai.request_key_approval(member_id uuid, workspace uuid, note text, email jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  old_request ai.key_approval_requests;
  emails_admins boolean;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Serializes a member's requests, because the limit on emails counts the member's earlier requests.
  perform pg_advisory_xact_lock(hashtextextended('ai.request_key_approval ' || member_id, 0));
  -- Approving and declining lock the workspace too.
  perform from public.workspaces w where w.id = workspace and w.deleted_at is null for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select * into old_request from ai.key_approval_requests q where q.workspace_id = workspace;
  if old_request.state = 'open' or exists (select from ai.key_approvals a where a.workspace_id = workspace) then
    return ai.key_approval_state(workspace);
  end if;
  emails_admins := ai.may_email_admins(member_id, old_request);
  insert into ai.key_approval_requests as q (workspace_id, requested_by, note, admins_emailed_at, admins_emailed_for)
  values (
    workspace, member_id, nullif(btrim(request_key_approval.note), ''),
    case when emails_admins then now() else old_request.admins_emailed_at end,
    case when emails_admins then member_id else old_request.admins_emailed_for end
  )
  on conflict (workspace_id) do update
  set
    requested_by = excluded.requested_by,
    requested_at = excluded.requested_at,
    note = excluded.note,
    state = 'open',
    answered_at = null,
    decline_reason = null,
    admins_emailed_at = excluded.admins_emailed_at,
    admins_emailed_for = excluded.admins_emailed_for;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_key_approval.email ->> 'subject', request_key_approval.email ->> 'text', now()
  from private.infrastructure_admins a
  join auth.users u on u.id = a.user_id
  where emails_admins and ai.can_be_emailed(u);
  return ai.key_approval_state(workspace);
end
$$;

-- Withdraws the open request that was made at requested_at. Changes nothing if that request was answered or replaced.
-- Returns ai.key_approval_state or { outcome: not_allowed }.
-- Definer: the service role cannot write requests.
create or replace function ai.withdraw_key_approval_request(member_id uuid, workspace uuid, requested_at timestamptz)
  returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  update ai.key_approval_requests q
  set state = 'withdrawn'
  where q.workspace_id = workspace and q.requested_at = withdraw_key_approval_request.requested_at and q.state = 'open';
  return ai.key_approval_state(workspace);
end
$$;

-- Returns whether a workspace is approved, and its latest request. Returns { outcome: read, approved, request: { state:
-- open | withdrawn | approved | declined, requestedAt, requestedBy, note, answeredAt, declineReason } }, where request
-- is null if there is none.
create or replace function ai.key_approval_state(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'request', (
      select jsonb_build_object(
        'state', q.state,
        'requestedAt', q.requested_at,
        'requestedBy', (select p.display_name from public.profiles p where p.id = q.requested_by),
        'note', q.note,
        'answeredAt', q.answered_at,
        'declineReason', q.decline_reason
      )
      from ai.key_approval_requests q
      where q.workspace_id = workspace
    )
  )
$$;

-- Returns whether infrastructure admins receive an email about a new request. They receive none if the previous request
-- was withdrawn and they were emailed about it in the last 24 hours. They also receive none if they were emailed about
-- five requests by the same member in the last 24 hours. The admins' queue lists every request.
create or replace function ai.may_email_admins(member_id uuid, previous ai.key_approval_requests) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select
    not coalesce(previous.state = 'withdrawn' and previous.admins_emailed_at > now() - interval '24 hours', false)
    and (
      select count(*) < 5
      from ai.key_approval_requests q
      where q.admins_emailed_for = member_id and q.admins_emailed_at > now() - interval '24 hours'
    )
$$;

-- Returns a page of a workspace's keys, newest first, for a member with manage_ai_keys. Returns { outcome: listed,
-- approval, keys } or { outcome: not_allowed }. before is { createdAt, id } of the last key on the previous page. Keys
-- are listed even if the workspace is not approved.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys(member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', ai.key_summaries(workspace, array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        -- Lists only the latest key of a coding agent's connection.
        and (k.connection_id is null or k.replaced_by is null)
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Returns the keys of a workspace that a person made and that still work, newest first: { outcome: listed, count, keys:
-- [{ id, name, lookup, lastUsedAt }] }, or { outcome: not_allowed }. Leaves out keys of coding agents, which end when
-- the person leaves. count is for members with manage_members or manage_ai_keys, and for the person. keys is empty for
-- callers without manage_ai_keys.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys_of_creator(
  member_id uuid, workspace uuid, creator_id uuid, page_size integer default 30
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  manages_keys constant boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys');
begin
  if not manages_keys
    and not private.user_has_workspace_permission(member_id, workspace, 'manage_members')
    and not (member_id = creator_id and private.is_workspace_member(member_id, workspace)) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return (
    select jsonb_build_object(
      'outcome', 'listed',
      'count', count(*),
      'keys', coalesce(jsonb_agg(
        jsonb_build_object('id', k.id, 'name', k.name, 'lookup', k.lookup, 'lastUsedAt', k.last_used_at)
        order by k.place
      ) filter (where manages_keys and k.place <= page_size), '[]')
    )
    from (
      select a.*, row_number() over (order by a.created_at desc, a.id desc) as place
      from ai.keys a
      where a.workspace_id = workspace
        and a.created_by = creator_id
        and a.connection_id is null
        and a.revoked_at is null
        and (a.expires_at is null or a.expires_at > now())
    ) as k
  );
end
$$;

-- Returns one key of a workspace in the format of ai.list_keys, for a member with manage_ai_keys. approved: the
-- workspace may rotate the key. Returns { outcome: read, approved, key } or { outcome: not_allowed | not_found }.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_keys ai.keys[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  found_keys := array(select k from ai.keys k where k.id = read_key.key_id and k.workspace_id = workspace);
  if found_keys = '{}' then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'approved', exists (select from ai.key_approvals a where a.workspace_id = workspace),
    'key', ai.key_summaries(workspace, found_keys) -> 0
  );
end
$$;

-- Stores a new key. The caller has generated the key's text and shows it once, and passes only the lookup part and the
-- SHA-256 hash in hexadecimal. Outcomes: issued (with key), not_allowed, not_approved, app_not_linked, unknown_models
-- (with param and models), too_many. too_many: the workspace has 200 live keys.
-- Definer: the service role cannot write keys, so every key passes these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  unknown text[] := ai.unknown_models(ai.text_list(key -> 'allowedModels'));
  new_key ai.keys;
begin
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if ai.has_too_many_keys(workspace) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  new_key := ai.store_key(member_id, workspace, key, issue_key.lookup, issue_key.secret_hash);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(new_key, 0));
end
$$;

-- Replaces a key with a new one. The new key keeps all limits and bindings. The spend of both keys is counted together.
-- The old key works until the overlap ends. Outcomes: issued (with key), not_allowed, not_approved, not_found,
-- not_active, agent_key. agent_key: only the coding agent can renew this key.
-- Definer: the service role cannot write keys, so every key passes these checks.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  new_key ai.keys;
begin
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- Makes a concurrent rotation of the key wait. The later rotation then finds the key replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.connection_id is not null then
    return jsonb_build_object('outcome', 'agent_key');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace,
    -- Keeps the key's creator, because calls in a free workspace are charged to the creator's credits. If the creator
    -- has left, their key would not work in a free workspace, so the member who rotates the key becomes its creator.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into new_key;
  update ai.keys k
  set
    replaced_by = new_key.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', new_key.id, new_key.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[new_key]) -> 0);
end
$$;

-- Revokes a key. For a coding agent's key, revokes the agent's connection. Idempotent. Requires manage_ai_keys, but the
-- workspace need not be approved. Outcomes: revoked, not_allowed, not_found.
-- Definer: the service role cannot write keys, so every revocation passes these checks.
create or replace function ai.revoke_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  revoked_key ai.keys;
  agent uuid;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select k.connection_id into agent from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  if agent is not null then
    -- A key manager who revokes another member's agent also withdraws that member's approval.
    if ai.end_connection(agent, member_id) then
      update ai.agent_access a
      set state = 'withdrawn', answered_at = now(), answered_by = member_id
      from ai.agent_connections c
      where c.id = agent
        and c.user_id <> member_id
        and a.workspace_id = c.workspace_id
        and a.user_id = c.user_id
        and a.state = 'approved';
    end if;
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.keys k set revoked_at = now()
  where k.id = revoke_key.key_id and k.workspace_id = workspace and k.revoked_at is null
  returning * into revoked_key;
  if found then
    perform private.log_workspace_change(workspace, 'key.revoked', revoked_key.id, revoked_key.name);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  return jsonb_build_object('outcome', case when found then 'revoked' else 'not_found' end);
end
$$;

-- Stores a new key and returns its id. The caller has generated the key's text and shows it once, and passes only the
-- lookup part and the SHA-256 hash. Not granted to any API role, because this function does not check whether the
-- caller may create a key.
create or replace function ai.create_key(
  workspace_id uuid,
  created_by uuid,
  name text,
  lookup text,
  secret_hash bytea,
  environment text default 'production',
  allowed_models text[] default null,
  requests_per_minute integer default null,
  tokens_per_minute bigint default null,
  monthly_budget_usd numeric default null,
  expires_at timestamptz default null,
  entity_id text default null
) returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
#variable_conflict use_column
declare
  key_id uuid := gen_random_uuid();
begin
  perform from ai.key_approvals a where a.workspace_id = create_key.workspace_id;
  if not found then
    raise exception 'the workspace has no approval to create keys' using errcode = 'insufficient_privilege';
  end if;
  if ai.unknown_models(allowed_models) is not null then
    raise exception 'unknown models: %', array_to_string(ai.unknown_models(allowed_models), ', ')
      using errcode = 'invalid_parameter_value';
  end if;

  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, environment, allowed_models,
    requests_per_minute, tokens_per_minute, expires_at, entity_id
  )
  values (
    key_id, key_id, create_key.workspace_id, create_key.created_by, create_key.name, create_key.lookup,
    create_key.secret_hash, create_key.environment, create_key.allowed_models, create_key.requests_per_minute,
    create_key.tokens_per_minute, create_key.expires_at, create_key.entity_id
  );

  if monthly_budget_usd is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', key_id, create_key.workspace_id, monthly_budget_usd);
  end if;
  return key_id;
end
$$;

-- Returns a workspace's usage in a range, for a member with use_ai_studio: totals, the totals of the previous range,
-- and rows by day, model, feature, key, app, member or label. Days are sorted newest first. All other rows are sorted
-- by amount, the largest first. A day's key is the number of days since the start of the range. An API key's key is its
-- lineage. For labels, the key is empty for runs without a label and * for the labels beyond the 10,000 most expensive
-- of a day. For models, series contains the daily usage of the six largest models and, with model null, of all other
-- models together. deductions contains the credits deducted without a run, by day.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_overview(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, grouped_by text default 'day', days_each integer default 1, max_rows integer default 500
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- Plans this query only once per connection.
  set plan_cache_mode = force_generic_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  fault text := coalesce(
    (ai.usage_window(range_from, range_to, 30)).fault, (ai.usage_window(previous_from, previous_to, 30)).fault
  );
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', fault);
  end if;
  return (
    with current as materialized (
      select * from ai.usage_by_key(workspace, range_from, range_to, grouped_by, days_each)
    ), previous as materialized (
      select * from ai.usage_by_key(workspace, previous_from, previous_to, grouped_by, days_each)
    ), deducted as materialized (
      select ((d.day - range_from::date) / days_each * days_each)::text as key, d.credits
      from ai.unlinked_deductions_by_day(member_id, workspace, range_from, range_to) d
    ), listed as (
      select coalesce(c.key, p.key) as key, c.sums, p.sums as previous_sums, c.cost_usd, c.billed_credits, c.requests
      from (select * from current where key is not null) c
      full join (select * from previous where key is not null) p on p.key = c.key
    ), shown as (
      select l.*, row_number() over (
        order by
          case when grouped_by = 'day' then l.key::integer end desc,
          case when visible then l.cost_usd else l.billed_credits end desc nulls last,
          l.requests desc nulls last,
          l.key collate "C"
      ) as place
      from listed l
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'everUsed', exists (select from ai.runs r where r.workspace_id = workspace),
      'totals', ai.overview_sums(t.sums, visible) || jsonb_build_object(
        'otherDeductions', trim_scale(o.credits)::text,
        'usedCredits', trim_scale(o.credits + coalesce(t.billed_credits, 0))::text
      ),
      'previous', ai.overview_sums(b.sums, visible) || jsonb_build_object(
        'usedCredits', trim_scale(
          ai.unlinked_deductions(member_id, workspace, previous_from, previous_to) + coalesce(b.billed_credits, 0)
        )::text
      ),
      'rows', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'key', s.key,
            'name', case grouped_by
              when 'key' then (
                select k.name from ai.keys k
                where k.lineage_id = nullif(s.key, '')::uuid and k.workspace_id = workspace
                order by k.created_at desc limit 1
              )
              when 'app' then ai.app_label(nullif(s.key, '')::uuid)
              when 'member' then ai.member_label(workspace, nullif(s.key, '')::uuid)
            end,
            'now', ai.overview_sums(s.sums, visible),
            'before', ai.overview_sums(s.previous_sums, visible)
          )
          order by s.place
        ), '[]')
        from shown s
        where s.place <= max_rows
      ),
      'series', case when grouped_by = 'model' then (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'day', m.day,
            'model', m.model,
            'requests', m.requests,
            'failed', m.failed,
            'tokens', m.tokens,
            'amountUsd', case when visible then trim_scale(m.cost_usd)::text end,
            'billedCredits', trim_scale(m.billed_credits)::text
          )
          order by m.day, m.place
        ), '[]')
        from ai.model_usage_by_day(
          workspace, range_from, range_to, days_each,
          array(select s.key from shown s where s.cost_usd is not null order by s.place limit 6)
        ) m
      ) end,
      'leftOut', (select count(*) from shown s where s.place > max_rows),
      'deductions', (
        select coalesce(jsonb_object_agg(x.key, trim_scale(x.credits)::text), '{}')
        from (select d.key, sum(d.credits) as credits from deducted d group by d.key) x
      )
    )
    from (select * from current where key is null) t
    cross join (select * from previous where key is null) b
    cross join (select coalesce(sum(d.credits), 0) as credits from deducted d) o
  );
end
$$;

-- Formats the quantiles of a histogram of durations and of one of times to the first token.
create or replace function ai.latency_summary(latency_marks numeric, first_token_marks numeric) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
  )
  from ai.latency_quantiles(latency_marks) as l
  cross join ai.latency_quantiles(first_token_marks) as f
$$;

-- Returns the key of the row to which a daily sum belongs. For rows by day, the key is the number of days since the
-- start of the range, so that two ranges can be compared. One row covers days_each days.
create or replace function ai.usage_key(part ai.usage_daily, grouped_by text, first_day date, days_each integer) returns text
  language sql immutable security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then (part).model_id
    when 'feature' then (part).feature
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
    when 'member' then coalesce((part).actor_id::text, '')
    else ''
  end
$$;

-- Returns { run, content }: a run, and whether its content is stored.
create or replace function ai.read_run_page(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.read_run(member_id, workspace, run_id), 'content', ai.describe_run_content(member_id, workspace, run_id)
  )
$$;

-- Returns { policy, options }: the workspace's policy, and what it can select.
create or replace function ai.read_policy_page(member_id uuid, workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'policy', ai.read_workspace_policy(member_id, workspace), 'options', ai.read_policy_options(member_id, workspace)
  )
$$;

-- Changes the given fields of a workspace's policy, for a member with manage_ai_policy: allowedModels, deniedModels,
-- requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd,
-- appBudgets [{ appId, monthlyBudgetUsd }]. null removes a limit. readAt is the updatedAt of the policy that the member
-- saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy), changed_meanwhile (with
-- policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are already in either list
-- are never unknown. Each change adds an entry to the workspace's audit log.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels');
  foreach param in array array['allowedModels', 'deniedModels'] loop
    unknown := ai.unknown_models(array(
      select n.name from unnest(ai.text_list(changes -> param)) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
  where p.workspace_id = workspace;
  -- Locks apps before the workspace, which is the common lock order.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

-- Returns what a member with use_ai_studio or manage_ai_keys can choose from in a workspace's policy and keys: the
-- catalogue's models and the plan's rate limits. granted is true for a model that the plan or the workspace's own grant
-- allows. permitted is true for a model that the workspace's policy allows.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_policy_options(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
    and not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return (
    select jsonb_build_object(
      'outcome', 'read',
      'plan', p.name,
      'requestsPerMinute', p.requests_per_minute,
      'tokensPerMinute', p.tokens_per_minute,
      'models', (
        select coalesce(
          jsonb_agg(
            jsonb_build_object(
              'id', m.id, 'name', m.display_name, 'kind', m.kind,
              'granted', exists (
                select from ai.model_grants g
                where g.model_id = m.id and (g.plan_id = w.plan_id or g.workspace_id = w.id)
              ),
              'permitted', coalesce(m.id = any (r.allowed_models), true) and not m.id = any (coalesce(r.denied_models, '{}'))
            )
            order by ai.model_order(m)
          ),
          '[]'
        )
        from ai.models m
        where m.enabled and m.studio_default
      )
    )
    from public.workspaces w
    left join ai.plans p on p.id = w.plan_id
    left join ai.workspace_policies r on r.workspace_id = w.id
    where w.id = workspace
  );
end
$$;

-- Returns a run's content and the time of its deletion, but only if the workspace's current policy still keeps the
-- content. The result does not depend on when the sweep last ran. Not granted to any role.
create or replace function ai.retained_content(workspace uuid, run_id uuid) returns table (content ai.run_content, deleted_from timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select c, c.run_created_at + make_interval(days => w.content_retention_days)
  from (
    -- The id is a UUIDv7, which contains the time of its creation.
    select to_timestamp(('x' || substr(replace(retained_content.run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
      as moment
  ) as run_time
  join ai.run_content c on c.run_created_at >= run_time.moment - interval '1 second'
    and c.run_created_at < run_time.moment + interval '1 second'
  join ai.workspace_policies w on w.workspace_id = c.workspace_id and w.content_capture
  where c.workspace_id = workspace
    and c.run_id = retained_content.run_id
    and c.run_created_at >= now() - make_interval(days => w.content_retention_days)
$$;

-- Deletes content that the workspace's current policy no longer keeps, content of closed workspaces, and expired
-- idempotency keys. The limit applies separately to runs and to keys. Returns the number of runs whose content it
-- deleted. Returns 0 if another call is in progress.
-- Definer: the service role has no grant to delete these rows.
create or replace function ai.delete_expired_content(most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  deleted_count integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired_content', 0)) then
    return 0;
  end if;
  with recursive owners as (
    (select c.workspace_id from ai.run_content c order by c.workspace_id limit 1)
    union all
    select (
      select c.workspace_id from ai.run_content c where c.workspace_id > o.workspace_id order by c.workspace_id limit 1
    )
    from owners o
    where o.workspace_id is not null
  ), over as (
    select c.run_created_at, c.run_id
    from owners o
    left join public.workspaces s on s.id = o.workspace_id and s.deleted_at is null
    left join ai.workspace_policies w on w.workspace_id = s.id and w.content_capture
    cross join lateral (
      select c.run_created_at, c.run_id
      from ai.run_content c
      where c.workspace_id = o.workspace_id
        -- Deletes all content of a workspace that is closed or whose policy doesn't capture content.
        and c.run_created_at < coalesce(now() - make_interval(days => w.content_retention_days), 'infinity')
      order by c.run_created_at
      limit most
    ) as c
    limit most
  )
  delete from ai.run_content c
  using over o
  where c.run_created_at = o.run_created_at and c.run_id = o.run_id;
  get diagnostics deleted_count = row_count;
  perform private.delete_expired_rows('ai.idempotency_keys', 'expires_at', '0', most);
  return deleted_count;
end
$$;

-- Returns a run for a member with use_ai_studio: { outcome: read } merged with the fields of ai.run_detail, or {
-- outcome: not_found | not_allowed }.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_run(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_run ai.runs := ai.find_run(run_id);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if found_run.workspace_id is distinct from workspace then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object('outcome', 'read') || ai.run_detail(found_run, ai.cost_visible(workspace));
end
$$;

-- Returns the run with this id, in any workspace. Returns a row of nulls if the run does not exist.
create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql stable security invoker set search_path = ''
as $$
  select r
  from ai.runs r,
    -- The id is a UUIDv7, which contains the time of its creation and so determines the partition.
    to_timestamp(('x' || substr(replace(run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) as run_time
  where r.id = run_id and r.created_at >= run_time - interval '1 second' and r.created_at < run_time + interval '1 second'
$$;

-- Returns a run's summary for its workspace's members. servedTier, provider and costUsd are null if the policy hides
-- provider cost.
create or replace function ai.run_summary(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (run).id,
    'requestId', (run).request_id,
    'createdAt', (run).created_at,
    'settledAt', (run).settled_at,
    'model', (run).model_id,
    'feature', (run).feature,
    'entityId', (run).entity_id,
    'credentialSource', (run).credential_source,
    'executionMode', (run).execution_mode,
    'keyId', (run).key_id,
    'keyName', (select k.name from ai.keys k where k.id = (run).key_id),
    'appId', (run).app_id,
    'appName', (select a.display_name from private.apps a where a.id = (run).app_id),
    'memberId', (run).actor_id,
    'memberName', (select p.display_name from public.profiles p where p.id = (run).actor_id),
    'userId', case when (run).credential_source <> 'key' then (run).actor_id end,
    'streamed', (run).streamed,
    'status', (run).status,
    'httpStatus', (run).http_status,
    'errorCode', (run).error_code,
    'usageSource', (run).usage_source,
    'inputTokens', (run).input_tokens,
    'cachedInputTokens', (run).cached_input_tokens,
    'outputTokens', (run).output_tokens,
    'reasoningTokens', (run).reasoning_tokens,
    'audioInputTokens', (run).audio_input_tokens,
    'audioOutputTokens', (run).audio_output_tokens,
    'cacheWriteTokens', (run).cache_write_tokens + (run).cache_write_1h_tokens,
    'imageInputTokens', (run).image_input_tokens,
    'feeRequests', (run).fee_requests,
    'servedTier', case when cost_visible then (run).served_tier end,
    'marks', (run).marks,
    'billedCredits', trim_scale((run).billed_credits)::text,
    'unmeteredCredits', trim_scale((run).unmetered_credits)::text,
    'costUsd', case when cost_visible then trim_scale((run).cost_usd)::text end,
    'firstByteMs', (run).first_byte_ms,
    'latencyMs', (run).latency_ms,
    'provider', case when cost_visible then ai.run_provider((run).routes, (run).route) end
  )
$$;

-- Returns whether a run made a request to a provider.
create or replace function ai.has_provider_call(steps jsonb) returns boolean
  language sql immutable security invoker parallel safe
as $$
  select jsonb_path_exists(coalesce(steps, '[]'), '$[*] ? (@.type == "model" || @.type == "retry")')
$$;

-- Returns the routes by which a run is priced: all if its attempts were charged separately, else the run's own.
create or replace function ai.charged_routes(routes jsonb, route smallint, attempts jsonb) returns jsonb
  -- Stable like jsonb_build_object, so that Postgres inlines it.
  language sql stable security invoker
as $$
  select case
    when jsonb_path_exists(attempts, '$[*].charged') then routes
    else jsonb_path_query_array(routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', route))
  end
$$;

-- Returns a page of a workspace's runs, newest first, for a member with use_ai_studio: { outcome: listed, runs,
-- unknown, continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature,
-- status, keyId, appId, memberId, provider, entityId, requestId. unknown names a filter with a value that does not
-- exist. With scan_limit, a filter without an index examines at most that many runs. In this case continueBefore is the
-- position to continue from, or null if no older run can match. Until 0.3.0: servers of release 0.1.0 omit scan_limit,
-- and take a short page for the last one.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_runs(
  member_id uuid,
  workspace uuid,
  filter jsonb default '{}',
  before jsonb default null,
  page_size integer default 50,
  scan_limit integer default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit);
begin
  return page.answer || case when page.runs is null then '{}' else jsonb_build_object('runs', (
    select coalesce(jsonb_agg(
      -- Calls ai.run_pricing_facts directly. A call inside ai.run_summary would make Postgres plan ai.run_pricing_facts
      -- again for each run.
      ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible) order by r.created_at desc, r.id desc
    ), '[]')
    from unnest(page.runs) r
  )) end;
end
$$;

-- Returns a page of runs like ai.list_runs, for files of many thousand runs: each run is an array of the values that
-- ai.run_summary and ai.run_pricing_facts return, in the order of remix-app/studio/runs/run-file.ts. A run's routes are
-- JSON text, which its reader need not parse again for the next run.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_rows(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns json
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit);
begin
  return json_build_object(
    'outcome', page.answer -> 'outcome',
    'unknown', page.answer -> 'unknown',
    'continueBefore', page.answer -> 'continueBefore',
    'runs', (
      select coalesce(json_agg(json_build_array(
        r.id, r.request_id, r.created_at, r.settled_at, r.model_id, r.feature, r.entity_id, r.credential_source,
        r.execution_mode, r.key_id, k.name, r.app_id, a.display_name, r.actor_id, p.display_name,
        case when r.credential_source <> 'key' then r.actor_id end,
        case when visible then ai.run_provider(r.routes, r.route) end,
        r.streamed, r.status, r.http_status, r.error_code, r.usage_source, r.input_tokens, r.cached_input_tokens,
        r.output_tokens, r.reasoning_tokens, r.audio_input_tokens, r.audio_output_tokens,
        r.cache_write_tokens + r.cache_write_1h_tokens, r.image_input_tokens, r.fee_requests,
        case when visible then r.served_tier end, r.marks, trim_scale(r.billed_credits)::text,
        trim_scale(r.unmetered_credits)::text, case when visible then trim_scale(r.cost_usd)::text end, r.first_byte_ms,
        r.latency_ms, r.cache_write_1h_tokens, r.exempt, r.swept, r.idempotency_key is not null,
        ai.has_provider_call(r.steps), case when r.status = 'running' then trim_scale(r.reserved_credits)::text end,
        case when visible then trim_scale(r.markup)::text end, case when visible then r.route end,
        case when visible then ai.charged_routes(r.routes, r.route, r.attempts)::text end,
        case when visible then r.attempts end
      ) order by r.created_at desc, r.id desc), '[]')
      from unnest(page.runs) r
      left join ai.keys k on k.id = r.key_id
      left join private.apps a on a.id = r.app_id
      left join public.profiles p on p.id = r.actor_id
    )
  );
end
$$;

-- Returns the runs of a page, and the other fields of ai.list_runs as answer. runs is null if the member may not see
-- them.
create or replace function ai.find_runs_of_page(
  member_id uuid,
  workspace uuid,
  filter jsonb,
  before jsonb,
  page_size integer,
  scan_limit integer,
  out answer jsonb,
  out runs ai.runs[]
)
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would use no index and read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  -- Compares created_at separately, because the row comparison (created_at, id) < (last_at, last_id) would prune no
  -- partition.
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_app uuid := (filter ->> 'appId')::uuid;
  of_member uuid := (filter ->> 'memberId')::uuid;
  of_provider text := filter ->> 'provider';
  of_entity text := filter ->> 'entityId';
  of_request text := filter ->> 'requestId';
  outer_filters integer;
  unknown_name text;
  scanned_to record;
  older_than timestamptz;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    answer := '{"outcome": "not_allowed"}';
    return;
  end if;
  runs := '{}';
  unknown_name := ai.unknown_run_filter(workspace, filter);
  -- Continues for an unknown app or member, because a deleted app or account can still have runs.
  if unknown_name in ('provider', 'keyId') then
    answer := jsonb_build_object('outcome', 'listed', 'unknown', unknown_name);
    return;
  end if;
  -- The request id has an index. The other filters have none, because each index slows down every gateway call.
  outer_filters := num_nonnulls(of_model, of_feature, of_status, of_key, of_app, of_member, of_provider, of_entity);
  if of_request is not null or outer_filters = 0 then
    scan_limit := null;
  end if;
  runs := array(
    select row(scanned.*)::ai.runs
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      -- Without a limit here, Postgres would plan to read all runs, because the outer limit does not reach this query.
      limit case when outer_filters = 0 then page_size else scan_limit end
    ) as scanned
    where (of_model is null or scanned.model_id = of_model)
      and (of_feature is null or scanned.feature = of_feature)
      and (of_status is null or scanned.status = of_status)
      and (of_key is null or scanned.key_id = of_key)
      and (of_app is null or scanned.app_id = of_app)
      and (of_member is null or scanned.actor_id = of_member)
      and (of_provider is null or ai.run_provider(scanned.routes, scanned.route) = of_provider)
      and (of_entity is null or scanned.entity_id = of_entity)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  );
  if scan_limit is null or cardinality(runs) >= page_size then
    answer := jsonb_build_object(
      'outcome', 'listed', 'unknown', case when before is null and runs = '{}' then unknown_name end
    );
    return;
  end if;
  select r.created_at, r.id into scanned_to
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= starts_at
    and r.created_at < ends_at
    and not (r.created_at = last_at and r.id >= last_id)
  order by r.created_at desc, r.id desc
  offset scan_limit - 1
  limit 1;
  older_than := ai.runs_may_exist_before(workspace, filter, scanned_to.created_at);
  answer := jsonb_build_object(
    'outcome', 'listed',
    'unknown', case when before is null and runs = '{}' and older_than is null then unknown_name end,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;

-- Checks the filters of ai.list_runs and returns the name of the first filter whose value does not exist. Returns null
-- if all values exist. Treats every provider as unknown if the workspace hides providers. Treats former members and
-- apps of the workspace as known, because they can have runs.
create or replace function ai.unknown_run_filter(workspace uuid, filter jsonb) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when filter ? 'provider' and not (
      ai.cost_visible(workspace) and exists (select from ai.model_prices p where p.provider_id = filter ->> 'provider')
    ) then 'provider'
    when filter ? 'keyId' and not exists (
      select from ai.keys k where k.id = (filter ->> 'keyId')::uuid and k.workspace_id = workspace
    ) then 'keyId'
    when filter ? 'appId' and not exists (select from private.apps a where a.id = (filter ->> 'appId')::uuid) then 'appId'
    when filter ? 'memberId' and not exists (
      select from public.profiles p where p.id = (filter ->> 'memberId')::uuid
    ) then 'memberId'
  end
$$;

-- Returns values by which a workspace's runs can be filtered, at most 100 of each kind, for a member with
-- use_ai_studio. Returns { outcome: listed, keys (newest first), apps, members, providers } or { outcome: not_allowed
-- }. providers is null if the workspace hides providers.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_filters(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'ended', k.revoked_at is not null or coalesce(k.expires_at <= now(), false)
      ) order by k.created_at desc, k.id), '[]')
      from (
        select * from ai.keys o where o.workspace_id = workspace order by o.created_at desc, o.id limit 100
      ) k
    ),
    'apps', (
      select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id), '[]')
      from (
        select o.id, o.display_name
        from private.app_workspaces l
        join private.apps o on o.id = l.app_id
        where l.workspace_id = workspace
        order by o.display_name, o.id
        limit 100
      ) a
    ),
    'members', (
      select coalesce(jsonb_agg(jsonb_build_object('id', m.user_id, 'name', m.name)), '[]')
      from public.list_workspace_members(workspace, page_size => 100) m
    ),
    'providers', case when ai.cost_visible(workspace) then (
      select coalesce(jsonb_agg(p.id order by p.id), '[]')
      from (
        select distinct r.provider_id as id
        from ai.model_routes r
        join ai.model_grants g on g.model_id = r.model_id
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
        order by 1
        limit 100
      ) p
    ) end
  );
end
$$;

-- Uses the daily sums to find where ai.list_runs can start to search backwards for runs that match its filter and are
-- older than the given moment. Returns a time that is not later than the moment, or null if no earlier run can match.
create or replace function ai.runs_may_exist_before(workspace uuid, filter jsonb, moment timestamptz) returns timestamptz
  language plpgsql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_day date := (moment at time zone 'UTC')::date;
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_app uuid := (filter ->> 'appId')::uuid;
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_lineage uuid := (select k.lineage_id from ai.keys k where k.id = of_key);
  of_provider text := filter ->> 'provider';
  day date;
begin
  -- Sums don't count open runs separately, and don't include all runs of the mark's day.
  if moment is null or of_status = 'running' or last_day >= (ai.usage_mark() at time zone 'UTC')::date then
    return moment;
  end if;
  select greatest(
    (
      select u.day
      from ai.usage_daily u
      where u.workspace_id = workspace
        and u.day <= last_day
        and (of_model is null or u.model_id = of_model)
        and (of_feature is null or u.feature = of_feature)
        and (of_app is null or u.app_id = of_app)
        and (of_key is null or u.key_lineage_id = of_lineage)
        and (of_provider is null or u.provider_id = of_provider)
        and (of_status is null or case of_status when 'failed' then u.failed > 0 else u.requests > u.failed end)
      order by u.day desc
      limit 1
    ),
    -- Days with changes that the sums don't include yet.
    (select max(c.day) from ai.usage_changes c where c.workspace_id = workspace and c.day <= last_day)
  ) into day;
  if day is null or day < (starts_at at time zone 'UTC')::date then
    return null;
  end if;
  return least(moment, (day + 1)::timestamp at time zone 'UTC');
end
$$;

-- Returns a workspace's usage for a member with use_ai_studio: a page of rows, the totals of the whole window, and the
-- credits deducted without a run. Rows are grouped by any of day, model, feature, executionMode, provider, key (its
-- lineage), app and member. Alternatively they are grouped by label, or by label and day. provider is null if the
-- workspace hides provider cost. The default window is the last 30 days. after is the position of the last row on the
-- previous page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.usage_between(workspace, report_window.window_from, report_window.window_to, by_member)
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) and visible then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- Until 0.3.0: servers of release 0.1.0 expect a key of seven parts, so the member is added only when grouping
        -- by member.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed
      from parts u
      where not by_label
      group by 1
      having sum(u.requests) > 0
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed)
      from ai.label_usage_between(workspace, report_window.window_from, report_window.window_to) l
      where by_label
      group by 1
      having sum(l.requests) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'day', nullif(p.key[1], ''),
            'model', nullif(p.key[2], ''),
            'feature', nullif(p.key[3], ''),
            'executionMode', nullif(p.key[4], ''),
            'provider', nullif(p.key[5], ''),
            'keyId', nullif(p.key[6], ''),
            'keyName', (
              select k.name from ai.keys k
              where k.lineage_id = nullif(p.key[6], '')::uuid and k.workspace_id = workspace
              order by k.created_at desc limit 1
            ),
            'appId', nullif(p.key[7], ''),
            'appName', ai.app_label(nullif(p.key[7], '')::uuid),
            'memberId', case when by_member then nullif(p.key[8], '') end,
            'memberName', case when by_member then ai.member_label(workspace, nullif(p.key[8], '')::uuid) end,
            'label', case when by_label then nullif(p.key[8], '') end,
            'position', p.key
          )
          order by p.key collate "C"
        ), '[]')
        from (
          select * from grouped g
          where after is null or g.key collate "C" > after collate "C"
          order by g.key collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

-- Returns the display name of a workspace's member. Returns Former member if the person is no longer a member, or null
-- if the id is null.
create or replace function ai.member_label(workspace uuid, member uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (
      select coalesce(p.display_name, 'Unknown')
      from public.workspace_members m
      left join public.profiles p on p.id = m.user_id
      where m.workspace_id = workspace and m.user_id = member
    ),
    'Former member'
  )
  where member is not null
$$;

-- Returns the credit notice for the caller in a workspace, as ai.read_credit_notice does. Null also without the required
-- MFA.
-- Definer: users cannot read balances. Reads only the notice of the caller.
create or replace function public.read_credit_notice(workspace_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.account_required_mfa_satisfied() then
    return null;
  end if;
  return ai.read_credit_notice(auth.uid(), read_credit_notice.workspace_id);
end
$$;

-- Returns { workspace } or, with the frame, { workspace, others, creditNotice }. Returns null if row-level security does
-- not show the workspace to the caller as a member. workspace is { id, name, planId, personal, createdAt, role, isOwner,
-- permissions }. personal tells whether it is the caller's own. others lists up to eight workspaces to switch to.
create or replace function public.read_workspace(workspace_id uuid, with_frame boolean default false) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  workspace jsonb := (
    select jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'planId', w.plan_id,
      'personal', w.personal_user_id is not distinct from m.user_id,
      'createdAt', w.created_at,
      'role', r.name,
      'isOwner', r.is_owner,
      'permissions', r.permissions
    )
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.workspace_id = read_workspace.workspace_id and m.user_id = (select auth.uid())
  );
begin
  if workspace is null then
    return null;
  end if;
  if not with_frame then
    return jsonb_build_object('workspace', workspace);
  end if;
  return jsonb_build_object(
    'workspace', workspace,
    'others', (
      select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'name', o.name) order by o.place), '[]')
      from (
        select l.id, l.name, l.place
        from public.list_workspaces(null, 9) with ordinality as l (id, name, plan_id, personal, role, place)
        where l.id <> read_workspace.workspace_id
        order by l.place
        limit 8
      ) o
    ),
    'creditNotice', public.read_credit_notice(read_workspace.workspace_id)
  );
end
$$;

-- Returns the state of a session and, if a device is given, of the browser's device, as public.session_state and
-- public.device_session_state do, with the result of public.read_workspace for the same caller as workspaceRead.
create or replace function public.workspace_session_state(
  workspace_id uuid,
  with_frame boolean,
  device_id uuid default null,
  device_secret text default null
) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  return case
      when workspace_session_state.device_id is null then public.session_state()
      else public.device_session_state(workspace_session_state.device_id, workspace_session_state.device_secret)
    end
    || jsonb_build_object(
      'workspaceRead',
      public.read_workspace(workspace_session_state.workspace_id, workspace_session_state.with_frame)
    );
end
$$;

-- Encodes a run's duration as a number that has twelve digits for each bucket and a 1 in the run's bucket. The sum of
-- these numbers is a histogram. Adding numbers is the fastest aggregation in Postgres. Returns null if the run has no
-- duration.
create or replace function ai.latency_mark(ms integer) returns numeric
  language sql immutable security invoker parallel safe
as $$
  -- Concatenates text only: || with a number is not immutable, so Postgres would not inline the function.
  select ('1e' || (12 * ai.latency_bucket(ms))::text)::numeric
$$;

-- Advances the mark and adds changed runs to the sums, in steps. Also sums again older days whose sums lack details.
-- Passes the end of at most max_days days, and sums at most max_days older days. Begins no step after two seconds; the
-- next call continues. Only one caller works at a time; others return 0. Returns the number of days that it completed,
-- and at least 1 if it stopped early.
-- Definer: the service role may not write the sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  stop_at timestamptz := clock_timestamp() + interval '2 seconds';
  whole_until timestamptz;
  mark timestamptz;
  completed integer := 0;
  step_changes integer := 20000;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  whole_until := ai.advance_usage_fence();
  mark := ai.usage_mark_for_clock();
  while ai.add_usage_changes(step_changes) >= step_changes and clock_timestamp() < stop_at loop
  end loop;
  while mark < whole_until and completed < max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    mark := ai.sum_usage_until(whole_until);
    if mark = date_trunc('day', mark, 'UTC') then
      perform ai.seal_usage_day((mark at time zone 'UTC')::date - 1);
      completed := completed + 1;
    end if;
  end loop;
  for older_day in 1..max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    exit when ai.detail_older_usage_days(1) = 0;
    completed := completed + 1;
  end loop;
  return completed;
end
$$;

-- Returns a time up to which all runs are visible, less the time for which changes of a run are not recorded. Returns
-- -infinity while a transaction from before the last fence is still open. Otherwise sets a new fence.
create or replace function ai.advance_usage_fence() returns timestamptz
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  snapshot pg_snapshot := pg_current_snapshot();
  progress ai.usage_progress;
begin
  -- Until 0.3.0: release 0.1.0 summed whole days and kept a list of changed days.
  insert into ai.usage_progress (summed_until, detailed_from)
  select
    coalesce(d.day::timestamp at time zone 'UTC', '-infinity'), coalesce(d.day, '-infinity')
  from (
    select least((select s.before from ai.usage_sealed_days s), (select min(c.day) from ai.usage_changed_days c)) as day
  ) d
  on conflict do nothing;
  select * into strict progress from ai.usage_progress;
  -- The clock was set back since the last fence, so runs before the mark may have changed without a record. Another
  -- roll-up whose transaction began later may be a few seconds ahead.
  if progress.marked_at > now() + interval '10 seconds' then
    update ai.usage_progress p
    set summed_until = least(p.summed_until, date_trunc('day', now() - interval '24 hours', 'UTC'))
    where p.singleton;
  end if;
  -- A later transaction id was assigned after marked_at, so its changes are at most 30 seconds older than marked_at, or
  -- recorded. The second condition holds after a restore into another cluster.
  if pg_snapshot_xmin(snapshot) < progress.marked_xid and pg_snapshot_xmax(snapshot) >= progress.marked_xid then
    return '-infinity';
  end if;
  update ai.usage_progress p set marked_at = now(), marked_xid = pg_current_xact_id() where p.singleton;
  -- The clock may have been set back. Another 30 seconds allow for small steps of the clock.
  return case when progress.marked_at <= now() then progress.marked_at - interval '1 minute' else '-infinity' end;
end
$$;

-- Returns the time up to which runs are summed. The stored mark cannot be used if the clock was set back beyond it,
-- because runs before it may have changed without a record; returns the start of yesterday then. Returns -infinity if
-- no sums exist.
create or replace function ai.usage_mark() returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select case
    when p.summed_until > statement_timestamp() - interval '30 seconds'
      then date_trunc('day', statement_timestamp() - interval '24 hours', 'UTC')
    else coalesce(p.summed_until, '-infinity')
  end
  from (select) as always
  left join ai.usage_progress p on true
$$;

-- Returns the mark. Sets it to the first day of all runs if it is -infinity, which builds all sums again. Sets it back by
-- at least a day if the clock was set back beyond it, because runs before the mark may have changed without a record.
create or replace function ai.usage_mark_for_clock() returns timestamptz
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored timestamptz := (select p.summed_until from ai.usage_progress p);
  mark timestamptz := ai.usage_mark();
begin
  if mark = '-infinity' then
    mark := date_trunc('day', least((select min(r.created_at) from ai.runs r), now() - interval '24 hours'), 'UTC');
  end if;
  if mark <> stored then
    update ai.usage_progress p set summed_until = mark where p.singleton;
  end if;
  return mark;
end
$$;

-- Sums the runs that follow the mark and moves the mark forward: to whole_until, but at most to the end of the day, and
-- to ten minutes after the first run. Returns the new mark. The caller holds the roll-up's lock.
create or replace function ai.sum_usage_until(whole_until timestamptz) returns timestamptz
  language plpgsql volatile security invoker set search_path = '' set work_mem = '32MB'
  -- Each stretch of time has its own plan, because generic plans would read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  mark timestamptz := (select p.summed_until from ai.usage_progress p);
  first_day date := (mark at time zone 'UTC')::date;
  next_mark timestamptz := least(
    whole_until,
    date_trunc('day', mark, 'UTC') + interval '24 hours',
    (
      select r.created_at from ai.runs r
      where r.created_at >= mark and r.created_at < whole_until
      order by r.created_at
      limit 1
    ) + interval '10 minutes'
  );
  parts record;
begin
  if next_mark <= mark then
    return mark;
  end if;
  -- In one statement, and so in one snapshot: changes that are visible are part of the runs that are summed.
  with changed as (
    delete from ai.usage_changes c where c.run_created_at >= mark and c.run_created_at < next_mark
  ), used as materialized (
    select distinct r.workspace_id as id from ai.runs r where r.created_at >= mark and r.created_at < next_mark
  )
  select
    array(select s from used w cross join lateral ai.sum_usage(w.id, mark, next_mark) s) as usage,
    array(select s from used w cross join lateral ai.sum_labels(w.id, mark, next_mark) s) as labels
  into parts;
  -- The day has sums already if the mark was set back.
  if mark = date_trunc('day', mark, 'UTC') then
    delete from ai.usage_labels_daily l
    using (select distinct u.workspace_id from ai.usage_daily u where u.day = first_day) w
    where l.workspace_id = w.workspace_id and l.day = first_day;
    delete from ai.usage_daily u where u.day = first_day;
  end if;
  perform ai.add_usage(parts.usage);
  perform ai.add_label_usage(parts.labels);
  update ai.usage_progress p set summed_until = next_mark where p.singleton;
  return next_mark;
end
$$;

-- Moves about max_changes recorded changes of runs before the mark into the sums. Changes of later runs are part of
-- these runs when the mark passes them. Changes of days whose sums lack details stay until these days are summed again.
-- Returns the number of changes. The caller holds the roll-up's lock.
create or replace function ai.add_usage_changes(max_changes integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  parts record;
begin
  with due as materialized (
    select c.ctid as place
    from ai.usage_progress p
    join ai.usage_changes c on c.run_created_at < p.summed_until and c.day >= p.detailed_from
    -- Moves all changes of a run together. A part of them may cancel a row's requests, but not its amounts.
    order by c.workspace_id, c.run_created_at
    fetch first max_changes rows with ties
  ), changed as (
    delete from ai.usage_changes c using due d where c.ctid = d.place returning c
  )
  select
    array(select u from changed r cross join lateral ai.changed_usage(r.c) u) as usage,
    array(select u from changed r cross join lateral ai.changed_label_usage(r.c) u) as labels
  into parts;
  if parts.usage <> '{}' then
    perform ai.add_usage(parts.usage);
    perform ai.add_label_usage(parts.labels);
  end if;
  return cardinality(parts.usage);
end
$$;

-- Adds parts to ai.usage_daily. Only the roll-up writes that table, so it needs no unique key of its eleven dimensions.
create or replace function ai.add_usage(parts ai.usage_daily[]) returns void
  language sql volatile security invoker set search_path = ''
  -- Statistics of today's rows are always old. This setting makes every plan find rows by workspace and day.
  set enable_seqscan = off
as $$
  merge into ai.usage_daily u
  using (
    -- Groups stored rows with the parts instead of joining them, because Postgres can't estimate the number of parts.
    select
      p.workspace_id, p.day, p.app_id, p.key_lineage_id, p.provider_id, p.model_id, p.feature, p.execution_mode,
      p.billing_name, p.billing_account, p.actor_id, max(p.place) as place, sum(p.requests) as requests,
      sum(p.failed) as failed, sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens,
      sum(p.cost_usd) as cost_usd, sum(p.billed_credits) as billed_credits, sum(p.unmetered_credits) as unmetered_credits,
      sum(p.latency_ms) as latency_ms, sum(p.timed) as timed, sum(p.latency_marks) as latency_marks,
      sum(p.first_token_marks) as first_token_marks, sum(p.estimated_runs) as estimated_runs,
      sum(p.closed_runs) as closed_runs
    from (
      select null::tid as place, n.* from unnest(parts) n
      union all
      select
        s.ctid, s.workspace_id, s.day, s.app_id, s.key_lineage_id, s.provider_id, s.model_id, s.feature, s.execution_mode,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, s.billing_name, s.billing_account, s.actor_id, 0, 0
      from (select distinct n.workspace_id, n.day from unnest(parts) n) w
      join ai.usage_daily s on s.workspace_id = w.workspace_id and s.day = w.day
    ) p
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    having count(*) > count(p.place) and (max(p.place) is not null or sum(p.requests) <> 0)
  ) d
  on u.ctid = d.place
  when matched and u.requests + d.requests = 0 then delete
  when matched then update set
    requests = u.requests + d.requests,
    failed = u.failed + d.failed,
    input_tokens = u.input_tokens + d.input_tokens,
    output_tokens = u.output_tokens + d.output_tokens,
    cost_usd = u.cost_usd + d.cost_usd,
    billed_credits = u.billed_credits + d.billed_credits,
    unmetered_credits = u.unmetered_credits + d.unmetered_credits,
    latency_ms = u.latency_ms + d.latency_ms,
    timed = u.timed + d.timed,
    latency_marks = u.latency_marks + d.latency_marks,
    first_token_marks = u.first_token_marks + d.first_token_marks,
    estimated_runs = u.estimated_runs + d.estimated_runs,
    closed_runs = u.closed_runs + d.closed_runs
  when not matched then insert (
    workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, requests, failed,
    input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks,
    first_token_marks, billing_name, billing_account, actor_id, estimated_runs, closed_runs
  ) values (
    d.workspace_id, d.day, d.app_id, d.key_lineage_id, d.provider_id, d.model_id, d.feature, d.execution_mode, d.requests,
    d.failed, d.input_tokens, d.output_tokens, d.cost_usd, d.billed_credits, d.unmetered_credits, d.latency_ms, d.timed,
    d.latency_marks, d.first_token_marks, d.billing_name, d.billing_account, d.actor_id, d.estimated_runs, d.closed_runs
  )
$$;

-- Adds parts to ai.usage_labels_daily. Once a workspace has 10,000 labels on a day, further labels go to the row *.
create or replace function ai.add_label_usage(parts ai.usage_labels_daily[]) returns void
  language sql volatile security invoker set search_path = '' set enable_seqscan = off
as $$
  with due as materialized (
    select
      p.workspace_id, p.day, p.label, sum(p.requests) as requests, sum(p.failed) as failed,
      sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens, sum(p.cost_usd) as cost_usd,
      sum(p.billed_credits) as billed_credits, sum(p.unmetered_credits) as unmetered_credits,
      sum(p.latency_ms) as latency_ms, sum(p.timed) as timed,
      p.label in ('', '*') or exists (
        select from ai.usage_labels_daily l where l.workspace_id = p.workspace_id and l.day = p.day and l.label = p.label
      ) as is_stored
    from unnest(parts) p
    group by p.workspace_id, p.day, p.label
  ), ranked as (
    -- A day's number of labels is one more row, because Postgres can't estimate the number of parts for a join.
    select d.*,
      max(d.stored_labels) over (partition by d.workspace_id, d.day) + row_number() over (
        partition by d.workspace_id, d.day, d.is_stored
        order by d.requests <= 0, d.cost_usd desc, d.requests desc, d.label collate "C"
      ) as rank
    from (
      select e.*, null::bigint as stored_labels from due e
      union all
      select w.workspace_id, w.day, null, null, null, null, null, null, null, null, null, null, null, (
        select count(*) from ai.usage_labels_daily l
        where l.workspace_id = w.workspace_id and l.day = w.day and l.label not in ('', '*')
      )
      from (select distinct e.workspace_id, e.day from due e where not e.is_stored) w
    ) d
  )
  insert into ai.usage_labels_daily as l (
    workspace_id, day, label, requests, failed, input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits,
    latency_ms, timed
  )
  select
    r.workspace_id, r.day,
    -- A change without a new run is of a run that is already part of the row *.
    case when r.is_stored or (r.requests > 0 and r.rank <= 10000) then r.label else '*' end,
    sum(r.requests), sum(r.failed), sum(r.input_tokens), sum(r.output_tokens), sum(r.cost_usd), sum(r.billed_credits),
    sum(r.unmetered_credits), sum(r.latency_ms), sum(r.timed)
  from ranked r
  where r.is_stored is not null
  group by 1, 2, 3
  on conflict (workspace_id, day, label) do update set
    requests = l.requests + excluded.requests,
    failed = l.failed + excluded.failed,
    input_tokens = l.input_tokens + excluded.input_tokens,
    output_tokens = l.output_tokens + excluded.output_tokens,
    cost_usd = l.cost_usd + excluded.cost_usd,
    billed_credits = l.billed_credits + excluded.billed_credits,
    unmetered_credits = l.unmetered_credits + excluded.unmetered_credits,
    latency_ms = l.latency_ms + excluded.latency_ms,
    timed = l.timed + excluded.timed;
  -- Rows whose last run was deleted or got another label.
  delete from ai.usage_labels_daily l
  using (
    select distinct p.workspace_id, p.day, n.label
    from unnest(parts) p
    cross join lateral (values (p.label), ('*')) as n (label)
    where p.requests <= 0
  ) p
  where l.workspace_id = p.workspace_id and l.day = p.day and l.label = p.label and l.requests = 0
$$;

-- Sums the labels of a finished day again for workspaces with more than 10,000, so that the most expensive have rows. If
-- that takes longer than the caller's statement timeout, the labels that came first keep the rows.
create or replace function ai.seal_usage_day(day date) returns void
  language plpgsql volatile security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  day_start timestamptz := seal_usage_day.day::timestamp at time zone 'UTC';
  day_end timestamptz := day_start + interval '24 hours';
  workspaces uuid[] := array(
    select l.workspace_id
    from (select distinct u.workspace_id from ai.usage_daily u where u.day = seal_usage_day.day) w
    join ai.usage_labels_daily l on l.workspace_id = w.workspace_id and l.day = seal_usage_day.day and l.label = '*'
  );
  parts record;
begin
  -- In one statement, and so in one snapshot: changes that are visible are part of the runs.
  with changed as (
    delete from ai.usage_changes c
    where c.workspace_id = any (workspaces) and c.run_created_at >= day_start and c.run_created_at < day_end
    returning c
  )
  select
    array(select u from changed r cross join lateral ai.changed_usage(r.c) u) as usage,
    array(select s from unnest(workspaces) as w (id) cross join lateral ai.sum_labels(w.id, day_start, day_end) s) as labels
  into parts;
  perform ai.add_usage(parts.usage);
  delete from ai.usage_labels_daily l where l.workspace_id = any (workspaces) and l.day = seal_usage_day.day;
  insert into ai.usage_labels_daily select p.* from unnest(parts.labels) p;
exception when query_canceled then
  raise warning 'the most expensive labels of % are not known: %', seal_usage_day.day, sqlerrm;
end
$$;

-- Sums days again if their sums lack details (members, labels, estimated and closed runs), newest first, at most
-- max_days. Returns the number of summed days. If that takes longer than the caller's statement timeout, returns 0.
create or replace function ai.detail_older_usage_days(max_days integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  next_day date := (select p.detailed_from from ai.usage_progress p);
  first_run date;
  summed integer := 0;
begin
  if next_day = '-infinity' then
    return 0;
  end if;
  select (min(r.created_at) at time zone 'UTC')::date into first_run from ai.runs r;
  while next_day > first_run and summed < max_days loop
    next_day := next_day - 1;
    perform ai.rebuild_usage_day(next_day, ai.workspaces_used_on(next_day));
    summed := summed + 1;
  end loop;
  update ai.usage_progress p
  set detailed_from = case when next_day > first_run then next_day else '-infinity' end
  where p.singleton;
  return summed;
exception when query_canceled then
  raise warning 'details before % are not summed yet: %', (select p.detailed_from from ai.usage_progress p), sqlerrm;
  return 0;
end
$$;

-- Returns the workspaces that have runs on a UTC day.
create or replace function ai.workspaces_used_on(day date) returns uuid[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select distinct r.workspace_id
    from ai.runs r
    where r.created_at >= day::timestamp at time zone 'UTC' and r.created_at < (day + 1)::timestamp at time zone 'UTC'
  )
$$;

-- Replaces the sums of a day before the mark for the given workspaces. The caller holds the roll-up's lock.
create or replace function ai.rebuild_usage_day(day date, workspaces uuid[]) returns void
  language plpgsql volatile security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  day_start timestamptz := rebuild_usage_day.day::timestamp at time zone 'UTC';
  day_end timestamptz := day_start + interval '24 hours';
  parts record;
begin
  -- In one statement, and so in one snapshot: changes that are visible are part of the runs.
  with changed as (
    delete from ai.usage_changes c
    where c.workspace_id = any (workspaces) and c.run_created_at >= day_start and c.run_created_at < day_end
  )
  select
    array(select s from unnest(workspaces) as w (id) cross join lateral ai.sum_usage(w.id, day_start, day_end) s) as usage,
    array(select s from unnest(workspaces) as w (id) cross join lateral ai.sum_labels(w.id, day_start, day_end) s) as labels
  into parts;
  delete from ai.usage_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  delete from ai.usage_labels_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_daily select p.* from unnest(parts.usage) p;
  insert into ai.usage_labels_daily select p.* from unnest(parts.labels) p;
end
$$;

-- Returns what one run adds to the sums, in the format of ai.usage_daily. Includes a run in progress.
-- Returns a set of one row and has no SET clause, so that Postgres inlines it.
create or replace function ai.run_usage(run ai.runs) returns setof ai.usage_daily
  language sql immutable security invoker parallel safe
as $$
  select
    run.workspace_id, (run.created_at at time zone 'UTC')::date, run.app_id, run.key_lineage_id,
    ai.run_provider(run.routes, run.route), run.model_id, run.feature::text, run.execution_mode::text,
    1::bigint, case when run.status = 'failed' then 1 else 0 end::bigint, run.input_tokens, run.output_tokens,
    run.cost_usd::numeric, run.billed_credits::numeric, run.unmetered_credits::numeric,
    coalesce(run.latency_ms, 0)::bigint, case when run.latency_ms is not null then 1 else 0 end::bigint,
    coalesce(ai.latency_mark(run.latency_ms), 0),
    coalesce(ai.latency_mark(case when run.streamed then run.first_byte_ms end), 0),
    run.billing_name, run.billing_account, run.actor_id,
    case when ai.is_estimated(run.usage_source, run.swept) then 1 else 0 end::bigint,
    case when run.swept then 1 else 0 end::bigint
$$;

-- Returns sums of a workspace's runs in a half-open range, in the format of ai.usage_daily. Includes runs in progress.
-- Has no SET clause, so that Postgres inlines it into its callers' plans and applies their conditions to the runs.
create or replace function ai.sum_usage(workspace uuid, first_moment timestamptz, end_moment timestamptz) returns setof ai.usage_daily
  language sql stable security invoker
as $$
  select
    u.workspace_id, u.day, u.app_id, u.key_lineage_id, u.provider_id, u.model_id, u.feature, u.execution_mode,
    sum(u.requests)::bigint, sum(u.failed)::bigint, sum(u.input_tokens)::bigint, sum(u.output_tokens)::bigint,
    sum(u.cost_usd), sum(u.billed_credits), sum(u.unmetered_credits), sum(u.latency_ms)::bigint, sum(u.timed)::bigint,
    sum(u.latency_marks), sum(u.first_token_marks), u.billing_name, u.billing_account, u.actor_id,
    sum(u.estimated_runs)::bigint, sum(u.closed_runs)::bigint
  from ai.runs r
  cross join lateral ai.run_usage(r) u
  where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
  group by 1, 2, 3, 4, 5, 6, 7, 8, u.billing_name, u.billing_account, u.actor_id
$$;

-- Sums a workspace's runs in a half-open time range. Groups them by day and label (X-Platform-Entity-Id), in the format
-- of ai.usage_labels_daily. For each day, returns the 10,000 most expensive labels and one sum for all others.
-- Sets no search_path, so Postgres can inline this function into its callers' plans.
create or replace function ai.sum_labels(workspace uuid, first_moment timestamptz, end_moment timestamptz)
  returns setof ai.usage_labels_daily
  language sql stable security invoker
as $$
  select
    workspace, n.day, n.label,
    sum(n.requests)::bigint, sum(n.failed)::bigint, sum(n.input_tokens)::bigint, sum(n.output_tokens)::bigint,
    sum(n.cost_usd), sum(n.billed_credits), sum(n.unmetered_credits), sum(n.latency_ms)::bigint, sum(n.timed)::bigint
  from (
    select
      g.*,
      case
        when g.entity_id is null then ''
        when row_number() over (
          partition by g.day
          order by g.entity_id is null, g.cost_usd desc, g.requests desc, g.entity_id collate "C"
        ) <= 10000 then g.entity_id
        else '*'
      end as label
    from (
      select
        (r.created_at at time zone 'UTC')::date as day, r.entity_id, count(*) as requests,
        count(*) filter (where r.status = 'failed') as failed, sum(r.input_tokens) as input_tokens,
        sum(r.output_tokens) as output_tokens, sum(r.cost_usd) as cost_usd, sum(r.billed_credits) as billed_credits,
        sum(r.unmetered_credits) as unmetered_credits, coalesce(sum(r.latency_ms), 0) as latency_ms,
        count(r.latency_ms) as timed
      from ai.runs r
      where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
      group by 1, 2
    ) g
  ) n
  group by n.day, n.label
$$;

-- Returns a recorded change in the format of ai.usage_daily.
create or replace function ai.changed_usage(change ai.usage_changes) returns setof ai.usage_daily
  language sql immutable security invoker
as $$
  select
    change.workspace_id, change.day, change.app_id, change.key_lineage_id, change.provider_id, change.model_id,
    change.feature, change.execution_mode, change.requests, change.failed, change.input_tokens, change.output_tokens,
    change.cost_usd, change.billed_credits, change.unmetered_credits, change.latency_ms, change.timed,
    change.latency_marks, change.first_token_marks, change.billing_name, change.billing_account, change.actor_id,
    change.estimated_runs, change.closed_runs
$$;

-- Returns a recorded change in the format of ai.usage_labels_daily.
create or replace function ai.changed_label_usage(change ai.usage_changes) returns setof ai.usage_labels_daily
  language sql immutable security invoker
as $$
  select
    change.workspace_id, change.day, coalesce(change.label, ''), change.requests, change.failed, change.input_tokens,
    change.output_tokens, change.cost_usd, change.billed_credits, change.unmetered_credits, change.latency_ms, change.timed
$$;

-- Records how a run changes the sums: what it added before, as negative numbers, and what it adds now. Records only the
-- difference of a heartbeat, which changes nothing but token counts. Has no shared row or unique key, so settlements
-- never wait for each other here.
-- Definer: the role that settles a run cannot write the changes.
create or replace function ai.record_usage_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' and (
    old.created_at, old.workspace_id, old.app_id, old.key_lineage_id, old.routes, old.route, old.model_id, old.feature,
    old.execution_mode, old.status, old.cost_usd, old.billed_credits, old.unmetered_credits, old.latency_ms, old.streamed,
    old.first_byte_ms, old.billing_name, old.billing_account, old.actor_id, old.usage_source, old.swept, old.entity_id
  ) is not distinct from (
    new.created_at, new.workspace_id, new.app_id, new.key_lineage_id, new.routes, new.route, new.model_id, new.feature,
    new.execution_mode, new.status, new.cost_usd, new.billed_credits, new.unmetered_credits, new.latency_ms, new.streamed,
    new.first_byte_ms, new.billing_name, new.billing_account, new.actor_id, new.usage_source, new.swept, new.entity_id
  ) then
    if old.input_tokens <> new.input_tokens or old.output_tokens <> new.output_tokens then
      insert into ai.usage_changes (
        workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, requests, failed,
        input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks,
        first_token_marks, billing_name, billing_account, actor_id, estimated_runs, closed_runs, run_created_at, label
      ) values (
        new.workspace_id, (new.created_at at time zone 'UTC')::date, new.app_id, new.key_lineage_id,
        ai.run_provider(new.routes, new.route), new.model_id, new.feature, new.execution_mode, 0, 0,
        new.input_tokens - old.input_tokens, new.output_tokens - old.output_tokens, 0, 0, 0, 0, 0, 0, 0,
        new.billing_name, new.billing_account, new.actor_id, 0, 0, new.created_at, new.entity_id
      );
    end if;
    return null;
  end if;
  insert into ai.usage_changes (
    workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, requests, failed,
    input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks,
    first_token_marks, billing_name, billing_account, actor_id, estimated_runs, closed_runs, run_created_at, label
  )
  select
    u.workspace_id, u.day, u.app_id, u.key_lineage_id, u.provider_id, u.model_id, u.feature, u.execution_mode,
    -u.requests, -u.failed, -u.input_tokens, -u.output_tokens, -u.cost_usd, -u.billed_credits, -u.unmetered_credits,
    -u.latency_ms, -u.timed, -u.latency_marks, -u.first_token_marks, u.billing_name, u.billing_account, u.actor_id,
    -u.estimated_runs, -u.closed_runs, old.created_at, old.entity_id
  from ai.run_usage(old) u
  where tg_op <> 'INSERT'
  union all
  select u.*, new.created_at, new.entity_id
  from ai.run_usage(new) u
  where tg_op <> 'DELETE';
  return null;
end
$$;

-- Returns the part of a window that is read from sums: from first_moment to end_moment, and the days of these sums from
-- first_day to before end_day. Days that are only partly in the window are read from runs, except that the sums of the
-- mark's day end at the mark. If detailed, days whose sums lack members and labels are read from runs too. Returns an
-- empty range at the window's end if no sums can be used.
-- This function has no SET clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.summed_range(window_from timestamptz, window_to timestamptz, detailed boolean)
  returns table (first_moment timestamptz, end_moment timestamptz, first_day date, end_day date)
  language sql stable security invoker
as $$
  select
    r.first_moment, r.end_moment, (r.first_moment at time zone 'UTC')::date,
    case
      when r.first_moment < r.end_moment then ((r.end_moment - interval '1 microsecond') at time zone 'UTC')::date + 1
      else '-infinity'
    end
  from (
    select
      case when b.first_moment < b.end_moment then b.first_moment else window_to end as first_moment,
      case when b.first_moment < b.end_moment then b.end_moment else window_to end as end_moment
    from (
      select
        greatest(
          date_trunc('day', window_from + interval '23:59:59.999999', 'UTC'),
          case when detailed then (select p.detailed_from::timestamp at time zone 'UTC' from ai.usage_progress p) end
        ) as first_moment,
        case when window_to < m.mark then date_trunc('day', window_to, 'UTC') else m.mark end as end_moment
      from (select ai.usage_mark() as mark offset 0) m
    ) b
  ) r
$$;

-- Returns the details of the invitation with this token, or null if there is none. token_hash is the token's SHA-256 in
-- hexadecimal. Returns { workspaceId, workspaceName, role, email, invitedBy, expiresAt, state: open | accepted |
-- expired | withdrawn, forYou }.
-- Definer: an invited person is not a member yet, and may see only these details of the workspace.
create or replace function public.workspace_invitation(token_hash text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  return (
    select jsonb_build_object(
      'workspaceId', w.id,
      'workspaceName', w.name,
      'role', r.name,
      'email', i.email,
      'invitedBy', p.display_name,
      'expiresAt', i.expires_at,
      'state', case
        when w.deleted_at is not null then 'withdrawn'
        when i.accepted_at is not null then 'accepted'
        when not exists (select from private.assignable_roles(i.invited_by) a where a.id = i.role_id) then 'withdrawn'
        when i.expires_at <= now() then 'expired'
        else 'open'
      end,
      'forYou', exists (
        select from auth.users u
        where u.id = auth.uid() and lower(u.email) = i.email and u.email_confirmed_at is not null
      )
    )
    from public.workspace_invitations i
    join public.workspaces w on w.id = i.workspace_id
    join public.workspace_roles r on r.id = i.role_id
    left join public.profiles p on p.id = i.invited_by
    where i.token_hash = case
      when workspace_invitation.token_hash ~ '^[0-9a-f]{64}$' then decode(workspace_invitation.token_hash, 'hex')
    end
  );
end
$$;

-- Accepts the open invitation with this token. The invitation must have been sent to the caller's confirmed email, by a
-- member who may still give its role.
-- Returns the workspace's id. Raises PT404 if the caller has no such invitation.
-- Definer: an invited person has no grant to write memberships.
create or replace function public.accept_workspace_invitation(token_hash text) returns uuid
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  joined public.workspace_invitations;
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  update public.workspace_invitations i
  set accepted_at = now(), accepted_by = auth.uid()
  from auth.users u, public.workspaces w
  where i.token_hash = case
      when accept_workspace_invitation.token_hash ~ '^[0-9a-f]{64}$'
        then decode(accept_workspace_invitation.token_hash, 'hex')
    end
    and i.accepted_at is null
    and i.expires_at > now()
    and u.id = auth.uid()
    and lower(u.email) = i.email
    and u.email_confirmed_at is not null
    and w.id = i.workspace_id
    and w.deleted_at is null
    and exists (select from private.assignable_roles(i.invited_by) r where r.id = i.role_id)
  returning i.* into joined;
  if not found then
    raise exception 'no open invitation of this account' using errcode = 'PT404';
  end if;
  -- An existing member keeps their role.
  insert into public.workspace_members (workspace_id, user_id, role_id)
  values (joined.workspace_id, auth.uid(), joined.role_id)
  on conflict do nothing;
  return joined.workspace_id;
end
$$;

-- Removes a member, or lets the caller leave, and revokes the given keys that the person made, if the caller has
-- manage_ai_keys. A refused removal revokes no key. Raises PT403 without the required MFA, PT404 if the caller may not
-- remove the person, or PT409 if the last owner would leave.
-- Definer: members cannot write keys directly. The condition on the role is that of the policies on memberships.
create or replace function public.remove_workspace_member(workspace_id uuid, user_id uuid, key_ids uuid[] default '{}')
  returns void
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  -- Read first, because somebody who has left has no permission.
  manages_keys constant boolean :=
    remove_workspace_member.workspace_id in (select private.my_workspace_ids_with_permission('manage_ai_keys'));
  revoked_key record;
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  delete from public.workspace_members m
  where m.workspace_id = remove_workspace_member.workspace_id
    and m.user_id = remove_workspace_member.user_id
    and m.workspace_id in (select private.my_workspace_ids())
    and (m.user_id = (select auth.uid()) or m.role_id in (select private.my_assignable_role_ids()));
  if not found then
    raise exception 'no such member' using errcode = 'PT404';
  end if;
  if not manages_keys then
    return;
  end if;
  for revoked_key in
    update ai.keys k set revoked_at = now()
    where k.workspace_id = remove_workspace_member.workspace_id
      and k.created_by = remove_workspace_member.user_id
      and k.id = any (key_ids)
      and k.connection_id is null
      and k.revoked_at is null
    returning k.id, k.name
  loop
    perform private.log_workspace_change(
      remove_workspace_member.workspace_id, 'key.revoked', revoked_key.id, revoked_key.name
    );
  end loop;
end
$$;

-- Makes another member the owner, and gives the caller the role with the most permissions below owner. Raises PT403 if
-- the caller does not own the workspace or has not proved their identity in the last ten minutes, PT404 if the new
-- owner is not a member, or PT409 if the new owner is the caller.
-- Definer: changes two roles together, while the policies would check each change separately.
create or replace function public.transfer_workspace_ownership(workspace_id uuid, new_owner_id uuid) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  owner_role uuid;
  admin_role uuid;
begin
  if not private.account_required_mfa_satisfied()
    or (transfer_workspace_ownership.workspace_id in (select private.my_owned_workspace_ids())) is not true then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if not private.session_is_fresh() then
    raise exception 'prove again who you are' using errcode = 'PT403';
  end if;
  if new_owner_id = auth.uid() then
    raise exception 'they own it already' using errcode = 'PT409';
  end if;
  -- Locks the memberships before their workspace, in the same order as leaving a workspace.
  perform from public.workspace_members m
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id in (auth.uid(), new_owner_id)
  order by m.user_id
  for update;
  perform from public.workspaces w where w.id = transfer_workspace_ownership.workspace_id for no key update;
  -- Checks ownership again under the lock, because a concurrent transfer may have committed first.
  if transfer_workspace_ownership.workspace_id not in (select private.my_owned_workspace_ids()) then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  select r.id into owner_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and r.is_owner;
  -- Chooses the role with the most permissions, except owner roles.
  select r.id into admin_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and not r.is_owner
  order by cardinality(r.permissions) desc, r.name = 'admin' desc, r.name
  limit 1;

  update public.workspace_members m set role_id = owner_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = new_owner_id;
  if not found then
    raise exception 'the new owner is not a member' using errcode = 'PT404';
  end if;
  update public.workspace_members m set role_id = admin_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = auth.uid() and admin_role is not null;
end
$$;

-- Withdraws the open invitations that their senders may no longer give, because they were removed or demoted, or
-- because a role changed.
-- Definer: a person who changes members or roles may not delete every invitation.
create or replace function private.withdraw_unauthorized_invitations() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  delete from public.workspace_invitations i
  where i.workspace_id = (to_jsonb(old) ->> 'workspace_id')::uuid
    and i.accepted_at is null
    and (tg_table_name = 'workspace_roles' or i.invited_by = (to_jsonb(old) ->> 'user_id')::uuid)
    and not exists (select from private.assignable_roles(i.invited_by) r where r.id = i.role_id);
  return null;
end
$$;

-- Returns a page of the caller's workspaces: the personal workspace first, then the others by name. after contains
-- personal, name and id of the last workspace on the previous page.
create or replace function public.list_workspaces(after text[] default null, page_size integer default 50)
  returns table (id uuid, name text, plan_id text, personal boolean, role text)
  language sql stable security invoker set search_path = ''
as $$
  select w.id, w.name, w.plan_id, p.personal, r.name
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles r on r.id = m.role_id
  cross join lateral (select w.personal_user_id is not distinct from m.user_id as personal) p
  where m.user_id = (select auth.uid())
    and (after is null or (not p.personal, w.name, w.id) > (not after[1]::boolean, after[2], after[3]::uuid))
  order by not p.personal, w.name, w.id
  limit page_size
$$;

-- Returns the email addresses of a workspace's members that the caller may see: only the caller's own or, if the caller
-- manages members, all.
-- Definer: email addresses are in Supabase Auth's table. Members who manage members may see these addresses, because
-- invitations are sent by email.
create or replace function public.list_member_emails(workspace_id uuid) returns table (user_id uuid, email text)
  language sql stable security definer set search_path = ''
as $$
  select m.user_id, u.email::text
  from public.workspace_members m
  join auth.users u on u.id = m.user_id
  where m.workspace_id = list_member_emails.workspace_id
    and u.email <> ''
    and private.account_required_mfa_satisfied()
    and (
      m.user_id = (select auth.uid())
      or m.workspace_id in (select private.my_workspace_ids_with_permission('manage_members'))
    )
$$;

-- Returns a page of a workspace's members: owners first, then by name. The search text matches part of the name or of a
-- visible email. A role or user id restricts the list further. after contains is_owner, sorts_as and user_id of the
-- last member on the previous page.
create or replace function public.list_workspace_members(
  workspace_id uuid,
  search text default '',
  of_role uuid default null,
  member_id uuid default null,
  after text[] default null,
  page_size integer default 50
)
  returns table (
    user_id uuid,
    name text,
    role_id uuid,
    role text,
    is_owner boolean,
    joined_at timestamptz,
    sorts_as text,
    email text
  )
  language sql stable security invoker set search_path = ''
as $$
  select m.user_id, n.name, r.id, r.name, r.is_owner, m.created_at, lower(n.name), v.email
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id
  left join public.profiles p on p.id = m.user_id
  left join public.list_member_emails(list_workspace_members.workspace_id) v on v.user_id = m.user_id
  cross join lateral (select coalesce(p.display_name, 'Unknown') as name) n
  where m.workspace_id = list_workspace_members.workspace_id
    and (of_role is null or m.role_id = of_role)
    and (member_id is null or m.user_id = member_id)
    and (position(lower(search) in lower(n.name)) > 0 or position(lower(search) in lower(v.email)) > 0)
    and (
      after is null or (not r.is_owner, lower(n.name), m.user_id) > (not after[1]::boolean, after[2], after[3]::uuid)
    )
  order by not r.is_owner, lower(n.name), m.user_id
  limit page_size
$$;

-- Returns a workspace's roles, each with its number of members. Stops counting at 1,001.
create or replace function public.list_workspace_roles(workspace_id uuid)
  returns table (id uuid, name text, is_owner boolean, permissions public.workspace_permission[], members bigint)
  language sql stable security invoker set search_path = ''
as $$
  select
    r.id, r.name, r.is_owner, r.permissions,
    (
      select count(*)
      from (
        select from public.workspace_members m where m.workspace_id = r.workspace_id and m.role_id = r.id limit 1001
      ) as counted
    )
  from public.workspace_roles r
  where r.workspace_id = list_workspace_roles.workspace_id
$$;

-- Returns the roles that a person may assign to members and withdraw from them. Excludes roles with permissions that the
-- person's own role lacks, to prevent self-promotion. Not granted to any role, because it does not check that the id is
-- the caller's.
create or replace function private.assignable_roles(user_id uuid) returns setof public.workspace_roles
  language sql stable security invoker set search_path = ''
as $$
  select other.*
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles own_role on own_role.id = m.role_id
  join public.workspace_roles other on other.workspace_id = m.workspace_id
  where m.user_id = assignable_roles.user_id
    and w.deleted_at is null
    and (
      own_role.is_owner
      or (
        'manage_members'::public.workspace_permission = any (own_role.permissions)
        and not other.is_owner
        and other.permissions <@ own_role.permissions
      )
    )
$$;

-- Returns the ids of the roles that the caller may assign to members and withdraw from them. Includes the owner role
-- only if the caller is an owner who proved their identity in the last ten minutes.
-- Definer: bypasses the policy on memberships, but reads only the caller's memberships.
create or replace function private.my_assignable_role_ids() returns setof uuid
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select r.id
    from private.assignable_roles((select auth.uid())) r
    where not r.is_owner or private.session_is_fresh();
end
$$;

-- Returns a user's membership in a workspace if it has the permission, as at most one row, so that a query can join it.
-- Not granted to any role, like private.user_has_workspace_permission.
create or replace function private.memberships_with_permission(
  user_id uuid, workspace_id uuid, permission public.workspace_permission
) returns setof public.workspace_members
  language sql stable security invoker
as $$
  select m.*
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles r on r.id = m.role_id
  where m.user_id = memberships_with_permission.user_id
    and m.workspace_id = memberships_with_permission.workspace_id
    and w.deleted_at is null
    and (r.is_owner or permission = any (r.permissions))
$$;

-- Returns a user's membership in a workspace if it has lasted without a break since the given time, as at most one row,
-- so that a query can join it. A credential of an earlier membership stays refused when the person is invited again. Not
-- granted to any role, like private.is_workspace_member.
create or replace function private.memberships_since(user_id uuid, workspace_id uuid, since timestamptz)
  returns setof public.workspace_members
  language sql stable security invoker
as $$
  select m.*
  from public.workspace_members m
  where m.user_id = memberships_since.user_id
    and m.workspace_id = memberships_since.workspace_id
    and m.created_at <= since
$$;

-- Raises check_violation of recognizable_name if a new or changed name has invisible characters outside emoji, or
-- full-width, mathematical or enclosed letters, or a word that mixes Latin letters with those of a script that looks
-- like it, or a word that looks like owner, admin or member without being it. A name that stays is not checked, so that
-- the permissions of every existing role can change.
create or replace function private.require_recognizable_name() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  emoji constant text := '[\u00a9\u00ae\u203c\u2049\u2122\u2190-\u21ff\u2300-\u2379\u237b-\u23ff\u25a0-\u27bf\u2900-\u297f'
    '\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff\U0001f1e6-\U0001f1ff\U0001f200-\U0001faff][\ufe0e\ufe0f]?';
  separator constant text := '[\s\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b\u007d\u007e\u00a1-\u00a9\u00ab-\u00b4'
    '\u00b6-\u00b9\u00bb-\u00bf\u2000-\u206f\u3000-\u3006\u3008-\u303f]+';
  latin constant text := '[A-Za-z\u00aa\u00ba\u00c0-\u02af\u1d00-\u1d7f\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff]';
  -- Greek, Coptic, Cyrillic, Armenian, Cherokee, Canadian syllabics, Tifinagh, Lisu, and old scripts.
  similar_scripts constant text := '[\u0370-\u058f\u13a0-\u167f\u1c80-\u1c8f\u1f00-\u1fff\u2c80-\u2cff\u2d30-\u2d7f\u2de0-\u2dff'
    '\ua4d0-\ua4ff\ua640-\ua69f\uab70-\uabbf\U00010280-\U000104ff]';
  shown text;
  word text;
  plain text;
  letter text;
  lookalikes text;
begin
  if tg_op = 'UPDATE' and new.name = old.name then
    return new;
  end if;
  -- Emoji that are letters count as letters. Other emoji, with what joins them, separate words.
  shown := regexp_replace(new.name, '([\u2139\u24c2\U0001f170\U0001f171\U0001f17e\U0001f17f])\ufe0f', '\1', 'g');
  shown := regexp_replace(
    shown,
    '\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f|[0-9#*]\ufe0f?\u20e3|' || emoji || '(\u200d?' || emoji || ')*',
    ' ', 'g'
  );
  if shown ~ ('[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164'
      '\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff'
      '\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7cb\U0001f130-\U0001f169\U0001f172-\U0001f17d\U0001f180-\U0001f189]') then
    raise check_violation using message = 'the name is not recognizable', constraint = 'recognizable_name';
  end if;
  for word in select regexp_split_to_table(shown, separator) loop
    plain := regexp_replace(
      normalize(word, nfkd), '[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]', '', 'g'
    );
    for letter, lookalikes in
      values
        ('a', '[\u0251\u0391\u03b1\u0410\u0430\u13aa\u15c5\u1d00\u237a\u2c80\u2c81\ua4ee\U0001f170]'),
        ('b', '[\u0180\u0184\u0253\u0299\u0392\u03b2\u0412\u0432\u042c\u044c\u13cf\u13f4\u1472\u15af\u15f7\u2c82\u2c83'
          '\ua4d0\U0001f171]'),
        ('d', '[\u00d0\u00f0\u0110\u0111\u0189\u0256\u0257\u0500\u0501\u13a0\u13e7\u146f\u15de\u1d05\ua4d3]'),
        ('e', '[\u0246\u0247\u025b\u0395\u03b5\u0415\u0435\u0454\u04bc\u04bd\u13ac\u1d07\u212e\u2c88\u2c89\ua4f0]'),
        ('i', '[1l|\u0131\u0196\u01c0\u0268\u0269\u026a\u0399\u03b9\u0406\u0456\u04c0\u04cf\u05c0\u05d5\u05df\u0627\u0661'
          '\u06f1\u07ca\u13a5\u2223\u2c92\u2c93\u2d4f\ua4f2]'),
        ('m', '[\u0271\u039c\u03fa\u041c\u043c\u13b7\u15f0\u1d0d\u2c98\u2c99\ua4df]'),
        ('n', '[\u014a\u014b\u0274\u039d\u03b7\u041f\u043f\u0578\u057c\u2c9a\ua4e0]'),
        ('o', '[0\u00d8\u00f8\u0275\u039f\u03bf\u03c3\u041e\u043e\u04e8\u04e9\u0555\u0585\u05e1\u0647\u0665\u06be\u06c1'
          '\u06d5\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c66\u0ce6\u0d20\u0d66\u0e50\u0ed0\u101d\u1040\u10ff'
          '\u12d0\u1d0f\u1d11\u2c9e\u2c9f\u2d54\u3007\ua4f3\U00010404\U0001042c\U000104c2\U000104ea\U0001f17e]'),
        ('r', '[\u027c\u027e\u0280\u0433\u0491\u13a1\u13d2\u1d26\u2c85\ua4e3\uab47\uab48\uab81]'),
        ('w', '[\u026f\u03c9\u0428\u0448\u0460\u0461\u051c\u051d\u0561\u13b3\u13d4\u1d21\u2cb1\ua4ea]')
    loop
      plain := regexp_replace(plain, lookalikes, letter, 'g');
    end loop;
    if word ~ latin and word ~ similar_scripts
      or lower(word) not in ('owner', 'admin', 'member')
        and replace(replace(lower(plain), 'rn', 'm'), 'vv', 'w') in ('owner', 'admin', 'member') then
      raise check_violation using message = 'the name is not recognizable', constraint = 'recognizable_name';
    end if;
  end loop;
  return new;
end
$$;

-- Returns whether a session may keep or remove authenticators without using one first. This is allowed if the account
-- need not have an authenticator, all its authenticators are additions that the owner has yet to confirm, and the
-- session began with a password reset or recovery in the last ten minutes. Without this exception, an attacker who knew
-- the password could lock the owner out by enrolling an authenticator.
-- Definer: authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.may_review_authenticators(subject_id uuid, actor_session_id uuid) returns boolean
  language sql stable security definer set search_path = ''
as $$
  select exists (
    select
    from auth.users u
    join auth.mfa_factors f on f.user_id = u.id and f.status = 'verified'
    left join private.unconfirmed_additions n on n.target_id = f.id
    where u.id = subject_id and private.required_mfa_state(u.raw_app_meta_data) = 'optional'
    having count(*) > 0 and count(*) = count(n.target_id)
  ) and exists (
    select
    from auth.sessions s
    where s.id = actor_session_id and s.user_id = subject_id and s.created_at > now() - interval '10 minutes'
  ) and private.began_by_mail(subject_id, actor_session_id)
$$;

create or replace view private.account_credentials with (security_invoker = true) as
select
  c.*,
  c.kind || ':' || c.id as key,
  c.is_active
    and coalesce(c.ends_at > now(), true)
    and (c.proof is not distinct from null or private.proof_status(c.proof) <> 'over') as is_live
from (
  select a.* from private.auth_credentials() a

  union all
  select
    c.user_id, 'recovery_code', c.id, 'recovery_codes', true, null, null, null, null, null, null, c.created_at,
    c.created_at, c.used_at, null,
    c.completed_at is null and coalesce(c.used_at > now() - interval '24 hours', true),
    jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at)
  from private.mfa_recovery_codes c

  union all
  select
    t.user_id, 'app_handoff', t.id, 'app:' || a.name, false, a.id, null, null, null, a.display_name, null,
    t.created_at, t.created_at, null, t.expires_at, t.redeemed_at is null and t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
    )
  from private.cross_app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    s.user_id, 'app_session', s.id, 'app:' || a.name, false, a.id, s.handoff_id, (s.proof).session_id, s.proof,
    a.display_name, null, s.created_at, s.created_at, s.issued_at, least(s.expires_at, s.ends_at),
    s.revoked_at is null,
    jsonb_build_object(
      'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
      'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
    )
  from private.app_sessions s
  join private.apps a on a.id = s.app_id

  union all
  select
    t.user_id, 'app_token', t.id, 'app:' || a.name, false, a.id, t.family_id, (t.proof).session_id, t.proof,
    a.display_name, null, t.created_at, t.handed_over_at, t.created_at,
    case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end, t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
      'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
    )
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    c.user_id, 'openid_code', c.id, 'app:' || a.name, false, a.id, null, (c.proof).session_id, c.proof,
    a.display_name || coalesce(' for ' || r.display_name, ''), null, c.created_at, c.created_at, null, c.expires_at,
    c.redeemed_at is null and c.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'app', a.name, 'resource', r.resource_url, 'scopes', c.scopes, 'createdAt', c.created_at,
      'redeemedAt', c.redeemed_at, 'revokedAt', c.revoked_at
    )
  from private.authorization_codes c
  join private.apps a on a.id = c.app_id
  left join private.apps r on r.id = c.resource_id

  union all
  select
    d.user_id, 'device_request', d.id, 'device:' || d.id, false, a.id, null, null, d.proof, a.display_name, null,
    d.created_at, coalesce(d.approved_at, d.created_at), null, least(d.expires_at, d.valid_until),
    d.approved_at is not null and d.redeemed_at is null,
    jsonb_build_object(
      'id', d.id, 'app', a.name, 'scopes', d.scopes, 'ip', host(d.ip), 'userAgent', d.user_agent, 'place', d.place,
      'createdAt', d.created_at, 'approvedAt', d.approved_at, 'deniedAt', d.denied_at, 'redeemedAt', d.redeemed_at
    )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id

  union all
  -- Only the login of a device has no session.
  select
    g.user_id, 'openid_login', g.id,
    case when (g.proof).session_id is null then 'device:' || g.source_id else 'app:' || a.name end,
    false, a.id, g.source_id, (g.proof).session_id, g.proof,
    a.display_name || coalesce(' for ' || r.display_name, ''), null, g.created_at, g.created_at,
    (select max(t.created_at) from private.openid_tokens t where t.grant_id = g.id), g.ends_at, g.revoked_at is null,
    jsonb_build_object(
      'id', g.id, 'app', a.name, 'resource', r.resource_url, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
      'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
      'revokedAt', g.revoked_at
    )
  from private.openid_grants g
  join private.apps a on a.id = g.app_id
  left join private.apps r on r.id = g.resource_id

  union all
  select
    c.user_id, 'agent_connection', c.id, 'agent:' || c.id, false, null, c.login_id, (g.proof).session_id, g.proof,
    ai.agent_name(c.tool) || ' on ' || c.host, null, c.created_at, c.created_at,
    (select max(k.last_used_at) from ai.keys k where k.connection_id = c.id), g.ends_at,
    c.revoked_at is null and g.id is not null and g.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'workspaceId', c.workspace_id, 'tool', c.tool, 'host', c.host, 'createdAt', c.created_at,
      'revokedAt', c.revoked_at
    )
  from ai.agent_connections c
  left join private.openid_grants g on g.id = c.login_id
) as c;

-- Returns all records of one list of an export, or [] if they are not requested. Not granted to any role, so only
-- security definer functions can call it.
create or replace function private.export_whole_part(subject_id uuid, part text, is_included boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(r.record order by r.place), '[]')
  from private.export_account_part(subject_id, part, page_size => null) with ordinality as r (record, place)
  where is_included
$$;

-- Returns the metadata for a newly confirmed account: the data of an identity whose provider verified the email, and
-- the fields that Supabase Auth writes itself.
create or replace function private.proven_metadata(account auth.users) returns jsonb
  language sql stable security invoker set search_path = ''
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

-- Removes the password of an unconfirmed account before a mailed link confirms the account. Otherwise, once the email's
-- owner confirms the account, the person who signed up with the email could sign in with that password.
-- Definer: see email_of_link.
create or replace function private.remove_unproven_password(token_hash text, link_type text) returns void
  language sql volatile security definer set search_path = ''
as $$
  select private.remove_password(u.id)
  from private.account_of_link(remove_unproven_password.token_hash, remove_unproven_password.link_type) u
  where u.email_confirmed_at is null
    and u.encrypted_password <> ''
    -- Auth refuses older links (otp_expiry), so they confirm nothing.
    and case remove_unproven_password.link_type when 'recovery' then u.recovery_sent_at else u.confirmation_sent_at end
      > now() - interval '1 hour'
$$;

-- Queues a notice for each live login of an account. If a session or factor is given, includes only logins that depend
-- on it. Call it before the change that ends the logins. For definers; not granted to any role.
create or replace function private.queue_logouts(
  subject_id uuid, session_id uuid default null, factor_id uuid default null
) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.logout_notices (app_id, user_id, sid)
  select l.app_id, subject_id, l.sid
  from (
    select s.app_id, s.handoff_id as sid, s.proof
    from private.app_sessions s
    where s.user_id = subject_id and s.audience = 'app' and s.revoked_at is null and s.expires_at > now()
    union all
    select g.app_id, g.id, g.proof
    from private.openid_grants g
    where g.user_id = subject_id and g.revoked_at is null and g.ends_at > now()
  ) as l
  join private.apps a on a.id = l.app_id
  where a.backchannel_logout_uri is not null
    and (queue_logouts.session_id is null or (l.proof).session_id = queue_logouts.session_id)
    and (queue_logouts.factor_id is null or (l.proof).factor_id = queue_logouts.factor_id)
    and private.is_proof_intact(l.proof)
$$;

-- Returns a page of the registry, sorted by name. Each app includes its first 50 linked workspaces, but no secret
-- hashes. term is a part of the name or display name. after is the last name of the previous page. If page_size is
-- null, returns all apps. Excludes OpenID clients, which private.list_openid_clients lists.
create or replace function private.list_apps(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'id', a.id,
      'name', a.name,
      'displayName', a.display_name,
      'kind', a.kind,
      'enabled', a.enabled,
      'scopes', a.scopes,
      'origins', coalesce((select jsonb_agg(o.origin order by o.origin) from private.app_origins o where o.app_id = a.id), '[]'),
      'workspaces', coalesce((
        select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id) l
      ), '[]'),
      'secrets', (
        select count(*) from private.app_secrets s where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
      ),
      'createdAt', a.created_at
    )
    order by a.name
  ), '[]')
  from (
    select l.*
    from private.apps l
    where l.kind <> 'openid'
      and (strpos(l.name, lower(term)) > 0 or strpos(lower(l.display_name), lower(term)) > 0)
      and (after is null or l.name > after)
    order by l.name
    limit page_size
  ) as a
$$;

-- Returns a block in the format of private.describe_address_block; null if the block doesn't exist.
-- Definer: see private.list_address_blocks.
create or replace function private.read_address_block(block_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.describe_address_block(b) from private.address_blocks b where b.id = block_id
$$;

-- Returns an app as private.describe_app does, with a page of its workspaces (private.linked_workspaces) and its
-- version. The version is the id of the app's latest entry in the audit log.
create or replace function private.read_app(app_name text, after text[] default null, page_size integer default 50)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select private.describe_app(a.id)
    || jsonb_build_object(
      'workspaces', coalesce((
        select jsonb_agg(to_jsonb(l) order by l.name, l.id) from private.linked_workspaces(a.id, after, page_size) l
      ), '[]'),
      'version', private.app_version(a.name)
    )
  from private.apps a
  where a.name = app_name and a.kind <> 'openid'
$$;

-- Returns the credit account of a workspace or member with a page of its ledger, newest first: { payer, id, name,
-- personalUserId, plan, account, entries }. Returns null for an unknown owner. plan is null if no plan currently
-- charges the account, and account is null if it is not open yet.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.read_credit_account(
  payer text, owner_id uuid, before_id bigint default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
  -- A generic plan would read the whole ledger for each page.
  set plan_cache_mode = force_custom_plan
as $$
  select jsonb_build_object(
    'payer', payer,
    'id', o.id,
    'name', o.name,
    'personalUserId', o.personal_user_id,
    -- The plan that the account pays for now.
    'plan', (
      select jsonb_build_object(
        'id', p.id, 'name', p.name, 'initialCredits', trim_scale(p.initial_credits)::text,
        'lowCredits', trim_scale(ai.low_credits(p))::text
      )
      from ai.paying_plan(payer, o.id) p
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text,
        'refusedAt', a.refused_at
      )
      from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = o.id
    ),
    'entries', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', e.id::text,
        'createdAt', ai.utc_text_microseconds(e.created_at),
        'kind', e.kind,
        'amount', trim_scale(e.amount)::text,
        'balanceAfter', trim_scale(e.balance_after)::text,
        'runId', e.run_id,
        'description', e.description,
        'reference', r.reference
      ) order by e.id desc), '[]')
      from (
        select l.*
        from ai.credit_accounts a
        join ai.credit_ledger l on l.account_id = a.id
        where coalesce(a.workspace_id, a.user_id) = o.id and (before_id is null or l.id < before_id)
        order by l.id desc
        limit page_size
      ) e
      left join ai.credit_references r on r.account_id = e.account_id and r.entry_id = e.id
    )
  )
  from (
    select w.id, w.name::text, w.personal_user_id
    from public.workspaces w
    where payer = 'workspace' and w.id = owner_id and w.deleted_at is null
    union all
    select u.id, coalesce(u.email, u.id::text), u.id
    from auth.users u
    where payer = 'member' and u.id = owner_id and u.deleted_at is null
  ) o
$$;

-- Returns a page of the models whose id or name contains the term, or only the model only_id. Each model has its
-- prices, and its providers in the order in which calls try them. Amounts are text, so no digit is lost. With
-- page_size, each model has only its current prices. Without page_size, returns all models with all their prices. To
-- read the next page, pass the sortsAs of the last model as after.
create or replace function private.list_catalogue_models(
  term text default '', only_id text default null, after text[] default null, page_size integer default null
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'studioDefault', m.studio_default,
    'sortsAs', m.sorts_as,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- Checks prices like a call does, but assumes that every provider is connected.
    'hasPrice', (
      select p.routes is not null
      from ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) p
    ),
    'hasGrant', exists (
      select
      from ai.model_grants g
      left join public.workspaces w on w.id = g.workspace_id
      where g.model_id = m.id and (g.plan_id is not null or w.deleted_at is null)
    ),
    -- In the order in which calls try them: open routes first.
    'providers', (
      select coalesce(jsonb_agg(p.provider_id order by p.is_shut, p.position), '[]')
      from (
        select distinct on (r.provider_id) r.provider_id, not r.enabled as is_shut, r.position
        from ai.model_routes r
        where r.model_id = m.id
        order by r.provider_id, r.enabled desc, r.position
      ) as p
    ),
    'prices', (
      select coalesce(jsonb_agg(private.describe_price(p)
        order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id and (page_size is null or p.valid @> now())
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where (only_id is null or l.id = only_id)
      and (position(lower(term) in lower(l.id)) > 0 or position(lower(term) in lower(l.display_name)) > 0)
      and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

-- Returns one model: its fields from private.list_catalogue_models, and its version (private.model_version), settings,
-- routes in order, plans and workspaces. plans has all plans, whether each is granted the model, and the number of its
-- workspaces, counted up to 1,001. workspaces has the first 100 workspaces that were granted the model separately from
-- their plan.
create or replace function private.read_model(model text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select (private.list_catalogue_models(only_id => m.id) -> 0) || jsonb_build_object(
    'version', private.model_version(m.id),
    'contextWindow', m.context_window,
    'outputLimit', m.output_limit,
    'defaultOutputLimit', m.default_output_limit,
    'voices', coalesce(to_jsonb(m.voices), '[]'),
    'isDefault', m.is_default,
    'defaultOfKind', (select d.id from ai.models d where d.kind = m.kind and d.is_default),
    'canDelete', private.was_never_enabled(m),
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'providerId', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'trustsStatedCost', r.trusts_stated_cost,
        'tierMultipliers', (
          select coalesce(jsonb_object_agg(t.key, t.value), '{}') from jsonb_each_text(r.tier_multipliers) as t
        ),
        'firstByteSeconds', r.first_byte_seconds,
        'idleSeconds', r.idle_seconds,
        'totalSeconds', r.total_seconds
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    ),
    'plans', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'name', p.name,
        'granted', exists (select from ai.model_grants g where g.model_id = m.id and g.plan_id = p.id),
        'workspaces', (
          select count(*)
          from (select from public.workspaces w where w.plan_id = p.id and w.deleted_at is null limit 1001) as w
        )
      ) order by p.name, p.id), '[]')
      from ai.plans p
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name) order by w.name, w.id), '[]')
      from private.granted_workspaces(m.id) w
    )
  )
  from ai.models m
  where m.id = model
$$;

-- Returns { apps, clients }: a page of the apps and a page of the OpenID clients whose names contain the term.
create or replace function private.read_apps_page(term text, after_app text, after_client text, page_size integer)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'apps', private.list_apps(term, after_app, page_size),
    'clients', private.list_openid_clients(term, after_client, page_size)
  )
$$;

-- Returns plans, each with the number of its workspaces and of its granted models. Amounts are text. Every change of a
-- plan changes its version.
create or replace function private.list_plans(only_id text default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', p.id,
    'name', p.name,
    'payer', p.payer,
    'markup', trim_scale(p.markup)::text,
    'initialCredits', trim_scale(p.initial_credits)::text,
    'lowCredits', trim_scale(p.low_credits)::text,
    'warnsBelow', trim_scale(ai.low_credits(p))::text,
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'workspaces', (select count(*) from public.workspaces w where w.plan_id = p.id and w.deleted_at is null),
    'models', (select count(*) from ai.model_grants g where g.plan_id = p.id),
    'payerFixed', ai.plan_has_payers(p),
    'version', md5(p::text)
  ) order by p.id), '[]')
  from ai.plans p
  where only_id is null or p.id = only_id
$$;

-- Returns a workspace for the console, with its name, plan, owners, members, balance, keys and key approval. Returns
-- null for an unknown workspace.
-- Definer: email addresses are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.read_console_workspace(workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'id', w.id,
    'name', w.name,
    'createdAt', w.created_at,
    'personalUserId', w.personal_user_id,
    'planId', w.plan_id,
    'plan', (select private.list_plans(w.plan_id) -> 0),
    'members', (select count(*) from public.workspace_members m where m.workspace_id = w.id),
    'owners', (
      select coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'email', u.email) order by u.email), '[]')
      from public.workspace_members m
      join auth.users u on u.id = m.user_id
      where m.workspace_id = w.id
        -- Looks the owners up by role, instead of reading all members.
        and m.role_id = (select r.id from public.workspace_roles r where r.workspace_id = w.id and r.is_owner)
    ),
    'account', (
      select jsonb_build_object(
        'balance', trim_scale(a.balance)::text,
        'reserved', trim_scale(a.reserved)::text,
        'available', trim_scale(a.balance - a.reserved)::text
      )
      from ai.credit_accounts a
      where a.workspace_id = w.id
    ),
    'approvedAt', k.approved_at,
    'approvedBy', (select u.email from auth.users u where u.id = k.approved_by),
    'liveKeys', (
      select count(*) from ai.keys l
      where l.workspace_id = w.id and l.revoked_at is null and (l.expires_at is null or l.expires_at > now())
    )
  )
  from public.workspaces w
  left join ai.key_approvals k on k.workspace_id = w.id
  where w.id = workspace and w.deleted_at is null
$$;

-- Returns the usage of each provider and billing account in all workspaces between two UTC days, inclusive, highest
-- cost first: [{ provider, billingName, billingAccount, requests, failed, inputTokens, outputTokens, costUsd }].
-- Definer: functions that read runs are not granted to the service role.
create or replace function private.list_provider_usage(first_day date, last_day date) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', t.provider_id,
    'billingName', t.billing_name,
    'billingAccount', t.billing_account,
    'requests', t.requests,
    'failed', t.failed,
    'inputTokens', t.input_tokens,
    'outputTokens', t.output_tokens,
    'costUsd', trim_scale(t.cost_usd)::text
  ) order by t.cost_usd desc, t.provider_id, t.billing_name, t.billing_account), '[]')
  from ai.platform_usage(first_day, last_day) t
$$;

-- Returns the run with the given id, and the newest 20 runs of the last 31 days with the given request id.
create or replace function private.find_runs(term text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', r.id,
    'createdAt', r.created_at,
    'workspaceId', r.workspace_id,
    'workspaceName', w.name,
    'model', r.model_id,
    'status', r.status,
    'errorCode', r.error_code
  ) order by r.created_at desc, r.id desc), '[]')
  from (
    select f.* from ai.find_run(private.uuid_or_null(term)) as f where f.id is not null
    union
    (
      select * from ai.runs q
      where q.request_id = term and q.created_at > now() - interval '31 days'
      order by q.created_at desc
      limit 20
    )
  ) as r
  left join public.workspaces w on w.id = r.workspace_id
$$;

-- Returns the imported and invoiced costs that count in a book. An imported cost is one row with its UTC day. An
-- invoice has one row for each month that it covers, with the first day of the month and the amount for the month's
-- days (ai.invoice_days). Replaced invoices do not count.
-- Sets no search_path, so Postgres can inline this function into its callers' plans.
create or replace function ai.booked_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (day date, provider text, account_id text, imported numeric, invoiced numeric)
  language sql stable security invoker
as $$
  select ((c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id, (c.cost).amount_usd,
    null::numeric
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
  union all
  select m.first_day::date, i.provider, i.account_id, null,
    ai.invoice_amount(i, daterange(m.first_day::date, (m.first_day + interval '1 month')::date) * w.days)
  from ai.invoice_book_entries i
  cross join (
    -- The days that begin in the window.
    select daterange(
      ((window_from + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date,
      ((window_to + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date
    ) as days
  ) w
  cross join lateral (select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * w.days as days) d
  cross join lateral generate_series(
    date_trunc('month', lower(d.days)::timestamp), upper(d.days) - interval '1 day', interval '1 month'
  ) as m (first_day)
  where i.book_id = book and not isempty(d.days) and ai.invoice_replacement(i) is null
$$;

-- Returns at most 100 records of a window that are stored in several copies, each with a different spelling of the
-- provider's name: [{ kind: cost or invoice, provider, spellings, accountId, externalRunId or reference }]. Only one
-- copy counts: the last observed copy of a cost, or the first recorded copy of an invoice.
create or replace function ai.book_clashes(book uuid, window_from timestamptz, window_to timestamptz) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with dates as (
    select daterange(
      (window_from at time zone 'UTC')::date, ((window_to - interval '1 microsecond') at time zone 'UTC')::date, '[]'
    ) as days
  ), clashes as (
    select 'cost' as kind, c.provider, c.spellings, c.account_id, c.external_run_id as name
    from dates w
    cross join ai.cost_clashes(book) c
    where
      -- Runs once per query, on an index that holds only costs whose provider is not in lower case. Without such costs,
      -- no record is read.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and daterange(c.from_day, c.to_day, '[]') && w.days
    union all
    select 'invoice', i.provider, array_agg(i.spelling order by i.spelling collate "C"), i.account_id, i.reference
    from ai.invoice_book_entries i
    cross join dates w
    where i.book_id = book
    group by i.app_id, i.provider, i.account_id, i.reference, w.days
    having count(*) > 1 and bool_or(ai.invoice_days(i.period_start, i.period_end, i.issued_on) && w.days)
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'kind', c.kind,
      'provider', c.provider,
      'spellings', c.spellings,
      'accountId', c.account_id,
      case c.kind when 'cost' then 'externalRunId' else 'reference' end, c.name
    )
    order by c.kind, c.provider collate "C", c.account_id collate "C", c.name collate "C"
  ), '[]')
  from (select * from clashes limit 100) c
$$;

-- Returns a hash of the result of ai.compare_cost_file. The hash changes if the file changes, or if the records that
-- the file corrects or replaces change. Not granted to any role.
create or replace function ai.cost_file_state(book uuid, app uuid, document jsonb, days ai.cost_file_day[]) returns text
  language sql stable security invoker set search_path = ''
as $$
  select encode(sha256(convert_to(concat_ws(
    e'\n', book, app, ai.provider_name(document ->> 'provider'), document -> 'rates',
    ai.costs_replaced_by_file(book, app, document, days),
    to_jsonb(array(select d from unnest(days) d where d.change <> 'remaining'))
  ), 'UTF8')), 'hex')
$$;

-- Returns an import of a book: { outcome: read, provider, sha256, appName, import, current }, { outcome: not_found } or
-- ai.book_refusal. current summarizes the daily totals that the import wrote and that were not corrected later.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_cost_import(member_id uuid, workspace uuid, import_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'provider', i.provider,
      'sha256', encode(i.file_sha256, 'hex'),
      'appName', ai.app_label(i.app_id),
      'import', ai.cost_import_summary(i.id),
      'current', (
        select jsonb_build_object(
          'days', count(*),
          'accounts', count(distinct c.account_id),
          'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text,
          'firstDay', min((c.occurred_at at time zone 'UTC')::date),
          'lastDay', max((c.occurred_at at time zone 'UTC')::date)
        )
        from ai.cost_book_entries c
        where c.book_id = workspace
          and c.app_id = i.app_id
          and c.provider = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
      )
    )
    from ai.cost_imports i
    where i.id = read_cost_import.import_id and i.workspace_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns the result of ai.describe_cost_file, ai.book_refusal or ai.app_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.preview_cost_import(member_id uuid, workspace uuid, app uuid, document jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(
    ai.book_refusal(member_id, workspace),
    ai.app_refusal(workspace, app),
    ai.describe_cost_file(workspace, app, ai.read_cost_document(document))
  )
$$;

-- Stores a cost file for the operator's command line. Returns the result of ai.store_cost_file or { outcome:
-- app_not_linked }. Uses the platform's book if workspace and app are null.
-- Definer: the functions that read and store costs are not granted to the service role.
create or replace function private.import_costs_as_operator(workspace uuid, app uuid, document jsonb, state text default null)
  returns jsonb
  language sql volatile security definer set search_path = ''
as $$
  select coalesce(ai.app_refusal(b.id, b.app_id), ai.store_cost_file(
    b.id, b.app_id, document, state, '{"reason": "Imported with the operator''s command"}'
  ))
  from (select coalesce(workspace, ai.platform_book()) as id, coalesce(app, ai.platform_book()) as app_id) b
$$;

-- Adds an invoice to a book. Returns the invoice's id, or null if another invoice already has one of its unique keys: this
-- reference is recorded, or the invoice to replace is already replaced.
create or replace function ai.add_invoice(book uuid, app uuid, record jsonb) returns uuid
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
    reviewed_at
  )
  select book, app, r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start,
    r.period_end, r.reviewed_at
  from ai.invoice_of(record) r
  on conflict do nothing
  returning id
$$;

-- Returns the share of an invoice that belongs to a month (YYYY-MM), with the first and last day of that share: {
-- inMonth: { amountUsd, firstDay, lastDay } }. The invoice's days must overlap the month. The amount of a credit note
-- is negative. Returns null if the month is null. Not granted to any role.
create or replace function ai.invoice_share(invoice ai.invoice_book_entries, month text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'inMonth', jsonb_build_object(
      'amountUsd', trim_scale(ai.invoice_amount(invoice, d.days))::text,
      'firstDay', lower(d.days),
      'lastDay', upper(d.days) - 1
    )
  )
  from (
    select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) * ai.month_days(month) as days
  ) d
  where month is not null
$$;

-- Returns likely causes of a difference between a provider's bill and the metered cost, the likeliest first: [{ kind,
-- amountUsd, … }]. Returns the 20 largest causes of each kind. amountUsd is the cause's share of the difference (billed
-- minus metered), or null if unknown. The kinds are workspace_costs_above_metered { workspaceId, name, days: [{ day,
-- amountUsd }] }, account_not_metered { accountId }, days_not_metered and days_not_imported { accountId, days },
-- account_not_imported and account_differs { accountId, workspaces (ai.account_workspaces) }, workspace_runs_closed and
-- workspace_runs_estimated { workspaceId, name, runs }, and invoice_share (the invoiced cost that other causes do not
-- explain). If a run or record names no account, all accounts are compared as one and accountId is null.
create or replace function ai.platform_causes(parts ai.platform_part[]) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with totals as (
    select
      coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.imported) filter (where p.kind = 'booked'), 0) as imported,
      coalesce(sum(p.invoiced) filter (where p.kind = 'booked'), 0) as invoiced,
      count(p.imported) filter (where p.kind = 'booked') > 0 as has_costs,
      count(p.invoiced) filter (where p.kind = 'booked') > 0 as has_invoices,
      -- A cost without an account may belong to any account. If there is such a cost, all accounts are compared as one.
      coalesce(bool_or(p.account_id is null and (p.metered <> 0 or (p.kind = 'booked' and p.imported <> 0))), false) as pooled
    from unnest(parts) p
  ), days as (
    select case when not t.pooled then p.account_id end as account_id, p.day, coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.runs), 0) as runs, coalesce(sum(p.imported), 0) as imported, count(p.imported) as records
    from unnest(parts) p
    cross join totals t
    where t.has_costs and p.kind in ('metered', 'booked') and (p.imported is not null or p.runs > 0)
    group by 1, 2
  ), accounts as (
    select d.account_id, sum(d.metered) as metered, sum(d.imported) as imported, sum(d.runs) as runs, sum(d.records) as records
    from days d
    group by d.account_id
  ), spaces as (
    -- How far the costs in a workspace's own book exceed its metered cost. The costs are the workspace's imports or,
    -- without any, its invoices.
    select p.workspace_id, coalesce(sum(p.imported), sum(p.invoiced)) - coalesce(sum(p.metered), 0) as amount,
      sum(p.estimated_runs) as estimated_runs, sum(p.closed_runs) as closed_runs
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.workspace_id
  ), differing as (
    select t.*, case when t.has_costs then t.imported when t.has_invoices then t.invoiced end - t.metered as amount
    from totals t
  ), causes as (
    select 1 as rank, 'workspace_costs_above_metered' as kind, s.workspace_id, null::text as account_id, s.amount,
      jsonb_build_object('days', (
        select coalesce(jsonb_agg(jsonb_build_object('day', o.day, 'amountUsd', trim_scale(o.amount)::text) order by o.day), '[]')
        from (
          select p.day, coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) as amount
          from unnest(parts) p
          where p.workspace_id = s.workspace_id and p.invoiced is null
          group by p.day
          having count(p.imported) > 0 and abs(coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0)) >= 0.005
        ) o
      )) as details
    from (select * from spaces o where o.amount >= 0.005 order by o.amount desc limit 20) s
    union all
    select 2, 'account_not_metered', null, a.account_id, a.imported, '{}'
    from (select * from accounts o where o.runs = 0 and abs(o.imported) >= 0.005 order by abs(o.imported) desc limit 20) a
    union all
    select 3, 'days_not_metered', null, d.account_id, sum(d.imported), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.runs = 0 and abs(d.imported) >= 0.005 and a.runs > 0
    group by d.account_id
    union all
    select 4, 'days_not_imported', null, d.account_id, -sum(d.metered), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.records = 0 and d.metered >= 0.005 and a.records > 0
    group by d.account_id
    union all
    select 5, 'account_not_imported', null, a.account_id, -a.metered, '{}'
    from (select * from accounts o where o.records = 0 and o.metered >= 0.005 order by o.metered desc limit 20) a
    union all
    select 6, 'account_differs', null, a.account_id, a.imported - a.metered, '{}'
    from (
      select * from accounts o
      where o.records > 0 and o.runs > 0 and abs(o.imported - o.metered) >= 0.005
      order by abs(o.imported - o.metered) desc limit 20
    ) a
    union all
    select 7, 'workspace_runs_closed', s.workspace_id, null, null, jsonb_build_object('runs', s.closed_runs)
    from (select * from spaces o where o.closed_runs > 0 order by o.closed_runs desc limit 20) s
    union all
    select 8, 'workspace_runs_estimated', s.workspace_id, null, null, jsonb_build_object('runs', s.estimated_runs)
    from (select * from spaces o where o.estimated_runs > 0 order by o.estimated_runs desc limit 20) s
  ), rest as (
    select case
      when d.has_costs then d.invoiced - d.imported
      else d.amount - coalesce((select sum(c.amount) from causes c where c.kind = 'workspace_costs_above_metered'), 0)
    end as amount
    from differing d
    where d.has_invoices
  ), listed as (
    select c.*
    from causes c
    cross join differing d
    where abs(d.amount) >= 0.005 or exists (select from causes o where o.rank between 2 and 6)
    union all
    select 9, 'invoice_share', null, null, r.amount, '{}'
    from rest r
    where abs(r.amount) >= 0.005
  )
  select coalesce(jsonb_agg(
    jsonb_build_object('kind', l.kind, 'amountUsd', trim_scale(l.amount)::text)
      || case when l.workspace_id is not null then jsonb_build_object('workspaceId', l.workspace_id, 'name', w.name) else '{}' end
      || case when l.rank between 2 and 6 then jsonb_build_object('accountId', l.account_id) else '{}' end
      || case when l.rank in (5, 6) then jsonb_build_object('workspaces', ai.account_workspaces(parts, l.account_id)) else '{}' end
      || l.details
    -- Causes that would explain the difference come first.
    order by coalesce(sign(l.amount) = sign(d.amount) and l.rank < 9, false) desc, l.rank, abs(l.amount) desc nulls last,
      (l.details ->> 'runs')::numeric desc, l.workspace_id, l.account_id collate "C"
  ), '[]')
  from listed l
  cross join differing d
  left join public.workspaces w on w.id = l.workspace_id
$$;

-- Returns the parts that add up to a provider's figures for a month, from all workspaces and from the platform's book.
-- Not granted to any role.
create or replace function ai.platform_month_parts(first_day date, end_day date, of_provider text)
  returns setof ai.platform_part
  language sql stable security invoker set search_path = '' set timezone = 'UTC'
as $$
  with usage as materialized (
    select u.*, ai.billing_provider(u.billing_name, u.provider_id) as billed_by
    from ai.platform_usage(first_day, end_day - 1, of_provider) u
  )
  select 'metered', u.workspace_id, u.day, u.billing_account,
    coalesce(sum(u.cost_usd) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.requests) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.estimated_runs) filter (where u.billed_by = of_provider), 0),
    sum(u.closed_runs), null::numeric, null::numeric
  from usage u
  -- Runs that the sweep closed have no billing provider. They are counted for the billing provider of other runs with
  -- the same provider id.
  where u.billed_by = of_provider
    or (u.billing_name is null and u.provider_id in (select b.provider_id from usage b where b.billed_by = of_provider))
  group by u.workspace_id, u.day, u.billing_account
  union all
  select 'booked', null, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.booked_costs(ai.platform_book(), first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
  union all
  select 'own', w.id, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.workspaces_with_books() as w (id)
  cross join lateral ai.booked_costs(w.id, first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
$$;

-- Returns an invoice as JSON. In the platform's book, appId is ai.platform_book() and appName is null.
create or replace function ai.invoice_summary(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'kind', (invoice).kind,
    'replaces', (invoice).replaces,
    'replacedBy', ai.invoice_replacement(invoice),
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;

-- Returns each of the calls with its place and its caller: the one that the call's credential belongs to. If the caller
-- may not make calls, refused has the reason. The caller is null if the credential is unknown, revoked or expired, if its
-- workspace is deleted, or if it belongs to a coding agent whose connection or login has ended. A key or token is given
-- as the SHA-256 of its text, and a session as claims that the gateway has verified. people is what ai.user_callers
-- returns for the calls. A key that is bound to an app has the gateway scopes of the app's registration. Imports need no
-- ai:use, so a bound key is not refused for it here but in ai.call_refusal. budgets has every scope if the workspace has
-- any budget.
create or replace function ai.find_callers(calls jsonb, people ai.caller[])
  returns table (place bigint, request ai.run_request, caller ai.caller)
  language sql stable security invoker
as $$
  with requests as materialized (
    select e.place, r as request, k.key
    from jsonb_array_elements(calls) with ordinality as e (call, place)
    cross join lateral jsonb_populate_record(null::ai.run_request, e.call) as r
    left join lateral (
      select k
      from ai.keys k
      where (r.credential).source = 'key'
        and k.secret_hash = decode((r.credential).hash, 'hex')
        and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > now())
      offset 0
    ) as k (key) on true
  )
  select r.place, r.request, c.caller
  from requests r
  left join lateral (
    select row(
      i.source,
      coalesce(i.refused, case
        when (r.request).workspace is null then case i.source when 'app_token' then 'workspace_header_required' end
        when (r.request).workspace <> i.workspace_id::text then 'workspace_mismatch'
      end),
      (i.key).id, (i.key).lineage_id, i.workspace_id, i.actor_id, i.app_id, i.scopes,
      (i.key).allowed_models, (i.key).requests_per_minute, (i.key).tokens_per_minute, (i.key).last_used_at,
      (p.plan).id, (p.plan).payer, (p.plan).markup, (p.plan).initial_credits,
      least((p.plan).requests_per_minute, (w.policy).requests_per_minute),
      least((p.plan).tokens_per_minute, (w.policy).tokens_per_minute),
      (w.policy).allowed_models, (w.policy).denied_models, coalesce((w.policy).provider_cost_visible, true),
      coalesce((w.policy).content_capture, false),
      case (p.plan).payer when 'member' then
        exists (select from public.workspace_members m where m.user_id = i.actor_id and m.workspace_id = i.workspace_id)
      end,
      -- Most workspaces have no budget.
      case when (select true from ai.budgets b where b.workspace_id = i.workspace_id limit 1)
        then '{key,app,member,label,workspace}'::text[]
      end,
      (i.key).entity_id, (i.key).name, (i.key).is_strict
    )::ai.caller as caller
    from (
      select
        'key' as source,
        coalesce(
          case a.status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end,
          -- Without an address, a key with an address list is refused.
          case when not coalesce(
            (r.request).address <<= any ((r.key).allowed_addresses), (r.key).allowed_addresses is null
          ) then 'insufficient_scope' end,
          b.refused
        ) as refused,
        (r.key).workspace_id, (r.key).created_by as actor_id, (r.key).external_app_id as app_id, b.scopes, r.key
      from (select) as one
      left join lateral (
        select f.refused, private.gateway_scopes(a) as scopes
        from private.apps a
        cross join lateral private.gateway_refusal(
          a, (r.key).workspace_id, private.gateway_scopes(a) || array['ai:use']
        ) f
        where a.id = (r.key).external_app_id
        offset 0
      ) as b on true
      cross join lateral (
        select case when (r.key).connection_id is not null then
          -- Runs once for all the calls, and only if a key among them belongs to an agent.
          (select ai.agent_key_statuses(array_agg(distinct (k.key).connection_id)) from requests k)
            ->> (r.key).connection_id::text
        end as status
        offset 0
      ) as a
      where (r.key).id is not null and a.status is distinct from 'over'
      union all
      select
        ((r.request).credential).source, u.refused, u.workspace_id, u.actor_id, u.app_id, u.scopes, null::ai.keys
      from (select (people[r.place]).* offset 0) as u
      where ((r.request).credential).source in ('app_token', 'session') and u.actor_id is not null
    ) as i
    -- The offsets keep lookups by key, even if the statistics are wrong.
    left join lateral (
      select s.id, s.plan_id from public.workspaces s where s.id = i.workspace_id and s.deleted_at is null offset 0
    ) as s on true
    left join lateral (select p as plan from ai.plans p where p.id = s.plan_id offset 0) as p on true
    left join lateral (
      select w as policy from ai.workspace_policies w where w.workspace_id = i.workspace_id offset 0
    ) as w on true
    where s.id is not null or i.source = 'session'
  ) as c on true
$$;

-- Returns the person of a session and, if the gateway refuses the person's calls, the reason. Takes the session's
-- verified claims. Returns no row once the session has ended or the account is suspended or deleted. Not granted to any
-- role, because it trusts the claims.
create or replace function ai.session_caller(claims jsonb, workspace uuid) returns table (user_id uuid, refused text)
  language sql stable security invoker
as $$
  select
    f.user_id,
    case
      when private.required_mfa_state(f.app_metadata) = 'malformed' then 'AUTH_UNAVAILABLE'
      when not private.satisfies_required_mfa(
        f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second,
        floor(extract(epoch from now()))::bigint
      ) then 'MFA_REQUIRED'
      when workspace is null then 'workspace_header_required'
      when not exists (select from private.memberships_with_permission(f.user_id, workspace, 'use_ai_studio'))
        then 'insufficient_scope'
    end
  from private.session_facts(claims) f
  where not f.banned and not f.deleted
$$;

-- Returns the id of a budget's subject for a run. The scope states whether the subject is the key lineage, the app, the
-- member, the label or the workspace.
create or replace function ai.budget_subject(
  scope text, workspace uuid, lineage uuid, app uuid, actor uuid, label text
) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case scope
    when 'key' then lineage
    when 'app' then app
    when 'member' then actor
    when 'label' then ai.label_id(label)
    else workspace
  end
$$;

-- Rearms the warnings for levels that no longer apply after a top-up.
create or replace function ai.reset_credit_alert(account ai.credit_accounts) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.credit_alerts k
  set level = ai.credit_level(account, k.threshold), posted_at = coalesce(k.posted_at, now())
  where k.account_id = (account).id and ai.credit_level(account, k.threshold) < k.level
$$;

-- Returns the monthly budgets that can refuse a caller's calls, narrowest first. Leaves out the amounts if the
-- workspace hides provider cost.
create or replace function ai.remaining_budgets(caller ai.caller, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'limitUsd', trim_scale(b.limit_usd),
        'spentUsd', case when cost_visible then trim_scale(x.spent) end,
        'reservedUsd', case when cost_visible then trim_scale(b.reserved_usd) end,
        'remainingUsd', case when cost_visible then trim_scale(greatest(b.limit_usd - x.spent - b.reserved_usd, 0)) end,
        'resetsAt', ai.utc_text((m.month + interval '1 month') at time zone 'UTC')
      )
      order by array_position(array['key', 'app', 'member', 'label', 'workspace'], b.scope)
    ),
    '[]'
  )
  from (select date_trunc('month', now() at time zone 'UTC') as month) as m
  cross join unnest((caller).budgets) as s (scope)
  join ai.budgets b
    on b.scope = s.scope
    and b.workspace_id = (caller).workspace_id
    and b.limit_usd is not null
    and b.subject_id = ai.budget_subject(
      s.scope, (caller).workspace_id, (caller).lineage_id, (caller).app_id, (caller).actor_id, (caller).entity_id
    )
  cross join lateral (select case when b.period_start < m.month then 0 else b.spent_usd end as spent) as x
$$;

-- Returns the key of a call's budget of the given scope. A label that a session sets has no budget.
create or replace function ai.claimed_budget(claim ai.claim, scope text) returns ai.limit_subject
  language sql immutable security invoker
as $$
  select row(
    scope,
    ai.budget_subject(
      scope, ((claim).caller).workspace_id, ((claim).caller).lineage_id, ((claim).caller).app_id,
      ((claim).caller).actor_id, coalesce(((claim).caller).entity_id, ((claim).request).entity_id)
    ),
    ((claim).caller).workspace_id
  )::ai.limit_subject
$$;

-- Returns whether a call fits a budget. A budget of 0 refuses free calls too. Enforces a label's budget only if the key
-- sets the label. A label that the caller sends never causes a refusal.
create or replace function ai.fits_budget(claim ai.claim, budget ai.budgets, month date) returns boolean
  language sql immutable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or (budget).limit_usd is null
    or (budget).limit_usd > 0
      and (budget).reserved_usd + (claim).cost_usd + ai.spent_since(budget, month) <= (budget).limit_usd,
    false
  )
$$;

-- Returns whether a call would fit a budget in which no call reserves anything. In the last minute of a month, budgets
-- count as unspent.
create or replace function ai.fits_when_settled(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or (budget).limit_usd > 0 and (claim).cost_usd + ai.spent_since(
      budget, date_trunc('month', (now() + interval '1 minute') at time zone 'UTC')::date
    ) <= (budget).limit_usd,
    true
  )
$$;

-- Returns a member's membership in a workspace if the member's coding agents may have keys for it, so that a query can
-- join it. Called when a key is created and on each request with the key.
create or replace function ai.agent_memberships(member_id uuid, workspace uuid) returns setof public.workspace_members
  language sql stable security invoker
as $$
  select m.* from private.memberships_with_permission(member_id, workspace, 'manage_ai_keys') m
  union
  select m.*
  from private.memberships_with_permission(member_id, workspace, 'use_ai_studio') m
  join ai.agent_access a on a.workspace_id = m.workspace_id and a.user_id = m.user_id and a.state = 'approved'
$$;

-- Returns a login that has not ended and may have keys, as at most one row, so that a query can join it. Does not check
-- the login's MFA proof.
create or replace function ai.live_agent_logins(login_id uuid) returns setof private.openid_grants
  language sql stable security invoker
as $$
  select g.*
  from private.openid_grants g
  join private.apps a on a.id = g.app_id and a.enabled
  cross join lateral private.allowed_openid_scopes(a.id, g.scopes, null) as s
  where g.id = login_id
    and g.revoked_at is null
    and g.ends_at > now()
    and 'studio:keys' = any (s.scopes)
$$;

-- Stores an authorization request for ten minutes. parameters are in form encoding. The web server has checked them.
-- A client that is known by a URL may register with its metadata document later, once the person has signed in. Returns
-- {expiresInSeconds} or {refused: client | limited (with retryAfterSeconds)}.
-- Definer: calls functions for limits, which are not granted to any role.
create or replace function private.store_authorization_request(
  client_id text, parameters text, handle_hash bytea, address inet
) returns jsonb
  language sql volatile security definer set search_path = ''
as $$
  select private.add_authorization_request(
    private.openid_client_app(store_authorization_request.client_id),
    case when store_authorization_request.client_id ~ '^https?://' then store_authorization_request.client_id end,
    store_authorization_request.parameters,
    store_authorization_request.handle_hash,
    null,
    private.address_network(store_authorization_request.address)
  )
$$;

-- Returns {clientId, parameters} of a kept request, or null if there is none, it has expired or it was answered.
create or replace function private.read_authorization_request(handle_hash bytea) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'clientId', coalesce(r.client_url, private.openid_client_id(r.app_id)), 'parameters', r.parameters
  )
  from private.authorization_requests r
  where r.handle_hash = read_authorization_request.handle_hash and r.expires_at > now()
$$;

-- Returns whether a person has already consented to all these scopes for the client. Always false if the client is
-- public and the redirect URI leads to a program on the person's own device.
create or replace function private.has_openid_consent(
  user_id uuid, client private.openid_clients, scopes text[], redirect_uri text, resource_id uuid default null
) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select not (
      -- Asks for consent every time, because another program on the same computer can impersonate the client (RFC 8252
      -- section 8.6).
      client.is_public
      and (has_openid_consent.redirect_uri !~ '^https?://' or private.is_loopback_redirect(has_openid_consent.redirect_uri))
    )
    and exists (
      select
      from private.openid_consents c
      where c.user_id = has_openid_consent.user_id
        and c.app_id = client.app_id
        and c.resource_id is not distinct from has_openid_consent.resource_id
        and c.scopes @> has_openid_consent.scopes
    )
$$;

-- Returns the scopes of private.allowed_openid_scopes.
create or replace function private.openid_scopes(app_id uuid, requested text[], resource_id uuid default null)
  returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select s.scopes from private.allowed_openid_scopes(app_id, requested, resource_id) s
$$;

-- Returns the scopes that a person has to consent to: the granted scopes, and the registered scopes of the claims that the
-- request names.
create or replace function private.openid_consent_scopes(app_id uuid, granted text[], requested_claims text[])
  returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select unnest(openid_consent_scopes.granted)
    union
    select unnest(private.openid_scopes(openid_consent_scopes.app_id, s.scopes))
    from private.openid_claim_scopes() s
    where s.claim = any (openid_consent_scopes.requested_claims)
    order by 1
  )
$$;

-- Returns a person's claims that these scopes allow, and those that the request named if the client is registered for
-- their scopes. Omits claims without a value. Reads auth.users, so only definers can call it.
create or replace function private.openid_claims(subject_id uuid, app_id uuid, scopes text[], requested_claims text[])
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_object_agg(c.key, c.value), '{}')
  from auth.users u
  left join public.profiles p on p.id = u.id
  left join private.openid_clients o on o.app_id = openid_claims.app_id
  cross join lateral jsonb_each(jsonb_strip_nulls(jsonb_build_object(
    'name', p.display_name,
    'picture', p.avatar_url,
    'updated_at', floor(extract(epoch from p.updated_at))::bigint,
    'preferred_username', u.email,
    'email', u.email,
    'email_verified', case when u.email is not null then u.email_confirmed_at is not null end,
    -- Only the roles of one workspace, which the operator chose: anybody can found a workspace and name its roles.
    'groups', case when o.groups_workspace_id is not null then to_jsonb(array(
      select r.name
      from public.workspace_members m
      join public.workspace_roles r on r.id = m.role_id
      join public.workspaces w on w.id = m.workspace_id and w.deleted_at is null
      where m.workspace_id = o.groups_workspace_id and m.user_id = u.id
    )) end
  ))) as c (key, value)
  join private.openid_claim_scopes() s on s.claim = c.key
  where u.id = openid_claims.subject_id
    and (
      s.scopes <@ openid_claims.scopes
      or (
        s.claim = any (openid_claims.requested_claims)
        and s.scopes <@ private.openid_scopes(openid_claims.app_id, s.scopes)
      )
    )
$$;

-- Returns whether a redirect URI is exactly one of the client's registered URIs. A public client may use any port on a
-- loopback address (RFC 8252 section 7.3), and a client that registered itself also on localhost, as editors do.
create or replace function private.is_openid_redirect_uri(client private.openid_clients, uri text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select exists (
    select
    from unnest(client.redirect_uris) as r (registered)
    where r.registered = uri
      or (
        client.is_public
        and private.loopback_without_port(r.registered, client.registration <> 'operator')
          = private.loopback_without_port(uri, client.registration <> 'operator')
      )
  )
$$;

-- Returns an OpenID client with its version, or null. A request to change the client must name the version that was
-- read, so that a concurrent change is detected.
create or replace function private.read_openid_client(client_id text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select private.describe_openid_client(a.id) || jsonb_build_object('version', private.app_version(a.name))
  from private.apps a
  where a.name = client_id and a.kind = 'openid'
$$;

-- Returns the published keys, newest first: [{kid, publicJwk, sealedPrivateJwk, sealingKeyId, signs}]. signs is true
-- for at most one key.
create or replace function private.read_signing_keys() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'kid', k.kid,
      'publicJwk', k.public_jwk,
      'sealedPrivateJwk', k.sealed_private_jwk,
      'sealingKeyId', k.sealing_key_id,
      'signs', k.kid is not distinct from private.current_signing_key()
    )
    order by k.signs_from desc, k.kid
  ), '[]')
  from private.signing_keys k
  where k.retires_at is null or k.retires_at > now()
$$;

-- Returns the contents of a token response and its ID token: {sid, sub, clientId, resource, scopes, authTime, acr, amr,
-- claims, issuedAt, expiresAt, refreshable}. resource is the audience of the access token, or null if it is for the
-- platform. claims are the ID token's claims about the person. Times are in seconds since 1970.
create or replace function private.describe_openid_tokens(login private.openid_grants, token private.openid_tokens)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'sid', login.id,
    'sub', login.user_id,
    'clientId', private.openid_client_id(login.app_id),
    'resource', (select r.resource_url from private.apps r where r.id = login.resource_id),
    'scopes', to_jsonb(token.scopes),
    'authTime', floor(extract(epoch from (login.authentication).auth_time))::bigint,
    'acr', (login.authentication).acr,
    'amr', to_jsonb((login.authentication).amr),
    'claims', private.openid_claims(
      login.user_id,
      login.app_id,
      case when c.claims_in_id_token then private.openid_scopes(login.app_id, token.scopes) else '{}' end,
      login.id_token_claims
    ),
    'issuedAt', floor(extract(epoch from token.created_at))::bigint,
    'expiresAt', floor(extract(epoch from token.access_expires_at))::bigint,
    'refreshable', token.refresh_hash is not null
  )
  from private.openid_clients c
  where c.app_id = login.app_id
$$;

-- Returns a valid access token of any audience. Only for introspection: everything else needs the
-- audience checked. Does not check the login's proof; not granted to any role.
create or replace function private.live_token_of_any_audience(access_hash bytea)
  returns table (login private.openid_grants, token private.openid_tokens, scopes text[])
  language sql stable security invoker set search_path = ''
as $$
  select g, t, private.openid_scopes(a.id, t.scopes, g.resource_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  join private.apps a on a.id = g.app_id and a.enabled
  where t.access_hash = live_token_of_any_audience.access_hash
    and t.access_expires_at > now()
    and g.revoked_at is null
    and g.ends_at > now()
    and private.resource_refusal(g.resource_id, null) is null
$$;

-- Finds a ttr_app_ token by its SHA-256. Returns its person and workspace, the scopes that both the token and the app's
-- registration currently have, and the gateway's error code if the gateway refuses the token. Returns no row if the
-- token is unknown, expired or revoked. For definers; not granted to any role.
create or replace function ai.find_app_token(token_hash bytea)
  returns table (
    token_id uuid,
    app_id uuid,
    user_id uuid,
    workspace_id uuid,
    scopes text[],
    refused text
  )
  language sql stable security invoker
as $$
  select
    t.id, t.app_id, t.user_id, t.workspace_id, s.in_force,
    case
      when p.proof_status = 'unavailable' then 'AUTH_UNAVAILABLE'
      when p.proof_status = 'mfa_required' then 'MFA_REQUIRED'
      when p.proof_status <> 'good' then 'invalid_api_key'
      when not exists (select from private.memberships_since(t.user_id, t.workspace_id, t.handed_over_at))
        then 'app_not_allowed'
      else r.refused
    end
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id
  cross join lateral private.proof_statuses(t.proof) as p (proof_status)
  cross join lateral (
    select array(select unnest(t.scopes) intersect select unnest(private.gateway_scopes(a)) order by 1) as in_force
  ) as s
  cross join lateral private.gateway_refusal(a, t.workspace_id, s.in_force) as r
  where t.token_hash = find_app_token.token_hash
    and t.revoked_at is null
    and t.expires_at > now()
$$;

-- Returns the current facts about a token's session. Returns no row if the session has ended or belongs to another
-- user. Includes a mobile approval only if the claims prove that the browser holds the approval's cookie.
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
  language sql stable security invoker
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

-- Queues an email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so that
-- concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or credits
-- were added since the sweep.
-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_credit_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.credit_alerts k
    set
      posted_at = now(),
      -- Computes the level again, because credits may have been added since the sweep.
      level = least(k.level, ai.credit_level(a, k.threshold))
    from ai.credit_accounts a
    where a.id = k.account_id
      and k.account_id = (alert ->> 'accountId')::uuid
      and k.level = (alert ->> 'level')::ai.credit_level
      and k.crossed_at = (alert ->> 'crossedAt')::timestamptz
      and k.posted_at is null
    returning a.workspace_id, a.user_id, k.level
  ), queued as (
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_credit_alert_mails.subject, queue_credit_alert_mails.body, now()
    from marked p
    cross join lateral ai.credit_recipients(p.workspace_id, p.user_id) as r (email)
    where p.level = (alert ->> 'level')::ai.credit_level
    returning id
  )
  select count(*)::integer from queued
$$;

-- Records the level (low or empty) that each balance has reached. Reads ai.credit_accounts without a lock. Records the
-- same level again only after credits were added, or after the plan's threshold fell below the balance.
create or replace function ai.record_credit_alerts() returns void
  language sql volatile security invoker set search_path = ''
as $$
  with candidates as materialized (
    select a, a.workspace_id, a.user_id, k.threshold as known_threshold
    from ai.credit_accounts a
    left join ai.credit_alerts k on k.account_id = a.id
    -- Rules out most accounts before their plan is looked up.
    where case
      when a.balance <= 0 then k.level is distinct from 'empty'
      else k.level <> 'funded' or a.balance - a.reserved < (select greatest(max(ai.low_credits(p)), 1000) from ai.plans p)
    end
  )
  insert into ai.credit_alerts as k (account_id, level, threshold)
  select (c.a).id, x.level, x.threshold
  from ai.paying_plans(
    array(select o.workspace_id from candidates o where o.workspace_id is not null),
    array(select o.user_id from candidates o where o.user_id is not null)
  ) as p
  join candidates c on coalesce(c.workspace_id, c.user_id) = p.owner_id
  cross join lateral (
    select ai.low_credits(p.plan) as threshold, ai.credit_level(c.a, ai.low_credits(p.plan)) as level
  ) as x
  where x.level > 'funded' or c.known_threshold <> x.threshold
  on conflict (account_id) do update
  set
    threshold = excluded.threshold,
    level = case when excluded.threshold < k.threshold then excluded.level else greatest(k.level, excluded.level) end,
    crossed_at = case when excluded.level > k.level then now() else k.crossed_at end,
    posted_at = case
      when excluded.level > k.level then null
      when excluded.level < k.level and excluded.threshold < k.threshold then coalesce(k.posted_at, now())
      else k.posted_at
    end
  where excluded.level > k.level or excluded.threshold <> k.threshold
$$;

-- Returns ai.key_approval_state (whether the workspace is approved, and its latest request) for a member with
-- manage_ai_keys, or { outcome: not_allowed }.
-- Definer: the service role cannot read a member's permissions.
create or replace function ai.read_key_approval(member_id uuid, workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then ai.key_approval_state(workspace)
    else jsonb_build_object('outcome', 'not_allowed')
  end
$$;

-- Formats sums of ai.usage_by_key for display, with latency quantiles. Returns null for null. Called only for displayed
-- rows, because a day may have thousands of labels.
-- Has no `set` clause and no subselect, so that Postgres can inline it into its callers' plans.
create or replace function ai.overview_sums(sums numeric[], cost_visible boolean) returns jsonb
  language sql immutable security invoker
as $$
  select case when sums is not null then
    ai.usage_sums(
      sums[1], sums[2], sums[3], sums[4], case when cost_visible then coalesce(sums[5], 0) end, sums[6], sums[7], sums[8],
      sums[9]
    ) || case
      when sums[10] > 0 then ai.latency_summary(sums[10], sums[11])
      else '{"latencyP50Ms": null, "latencyP95Ms": null, "firstTokenP50Ms": null, "firstTokenP95Ms": null}'
    end
  end
$$;

-- Returns { overview, budgets, keys, approval } for the first page of a workspace: the usage by model, the first budgets,
-- the newest key, and the state of the keys' approval.
create or replace function ai.read_workspace_home(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, days_each integer, max_rows integer, max_budgets integer, budget_scopes text[]
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'overview', ai.read_overview(
      member_id, workspace, range_from, range_to, previous_from, previous_to, 'model', days_each, max_rows
    ),
    'budgets', ai.read_budgets(member_id, workspace, null, max_budgets, budget_scopes),
    'keys', ai.list_keys(member_id, workspace, null, 1),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Returns { page, filters }: a page of runs, and the values to filter them by.
create or replace function ai.read_runs_page(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'page', ai.list_runs(member_id, workspace, filter, before, page_size, scan_limit),
    'filters', ai.list_run_filters(member_id, workspace)
  )
$$;

-- Returns { keys, agents, approval }: a page of keys, the members with agents, and the state of the keys' approval.
create or replace function ai.read_keys_page(member_id uuid, workspace uuid, before jsonb, page_size integer)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'keys', ai.list_keys(member_id, workspace, before, page_size),
    'agents', ai.list_agent_access(member_id, workspace),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Returns { priced }, the facts from which the web server explains a run's cost: whether credits were due and, if
-- provider cost is visible, the markup, the prices of the charged routes, and the requests to providers.
create or replace function ai.run_pricing_facts(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker
  -- Sets no search path and has no subselect, so that Postgres inlines it into its callers' plans.
as $$
  select jsonb_build_object('priced', jsonb_build_object(
    'cacheWrite1hTokens', (run).cache_write_1h_tokens,
    'exempt', (run).exempt,
    'swept', (run).swept,
    'idempotent', (run).idempotency_key is not null,
    'askedProvider', ai.has_provider_call((run).steps),
    'reservedCredits', case when (run).status = 'running' then trim_scale((run).reserved_credits)::text end
  ) || case when cost_visible then jsonb_build_object(
    'markup', trim_scale((run).markup)::text,
    'creditsPerUsd', trim_scale(ai.credits_per_usd((run).markup))::text,
    'route', (run).route,
    'routes', ai.charged_routes((run).routes, (run).route, (run).attempts),
    'attempts', coalesce((run).attempts, '[]')
  ) else '{}' end)
$$;

-- Returns a workspace's usage in a half-open window, in rows that callers group. Reads the sums of days that are in the
-- window up to the mark, the changes since, and runs for the rest. One statement reads all of them, so that each run
-- counts exactly once. Changes can make a group's requests 0; callers leave such groups out. by_member is for callers that group by actor_id: days whose sums lack actor_id are then read
-- from runs.
-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.usage_between(
  workspace uuid, window_from timestamptz, window_to timestamptz, by_member boolean default false
)
  returns setof ai.usage_daily
  language sql stable security invoker
as $$
  with summed as materialized (
    select * from ai.summed_range(window_from, window_to, by_member)
  )
  select u.*
  from summed s
  join ai.usage_daily u on u.workspace_id = workspace and u.day >= s.first_day and u.day < s.end_day
  -- Repeats the range, so that every plan of the join can use the index.
  where u.day >= (window_from at time zone 'UTC')::date and u.day <= (window_to at time zone 'UTC')::date
  union all
  select u.*
  from summed s
  join ai.usage_changes c
    on c.workspace_id = workspace and c.run_created_at >= s.first_moment and c.run_created_at < s.end_moment
  cross join lateral ai.changed_usage(c) u
  union all
  select u.*
  from summed s
  cross join lateral (values (window_from, s.first_moment), (s.end_moment, window_to)) as r (first_moment, end_moment)
  cross join lateral ai.sum_usage(workspace, r.first_moment, r.end_moment) u
$$;

-- Returns a workspace's usage by label in a half-open window, from the same sources as ai.usage_between. On a day with
-- a row *, changes and runs with a label that has no row count as *.
-- This function has no SET clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.label_usage_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.usage_labels_daily
  language sql stable security invoker
as $$
  with summed as materialized (
    select * from ai.summed_range(window_from, window_to, true)
  )
  select u.*
  from summed s
  join ai.usage_labels_daily u on u.workspace_id = workspace and u.day >= s.first_day and u.day < s.end_day
  -- Repeats the range, so that every plan of the join can use the index.
  where u.day >= (window_from at time zone 'UTC')::date and u.day <= (window_to at time zone 'UTC')::date
  union all
  select
    p.workspace_id, p.day,
    case
      when exists (
        select from ai.usage_labels_daily l where l.workspace_id = workspace and l.day = p.day and l.label = '*'
      ) and not exists (
        select from ai.usage_labels_daily l where l.workspace_id = workspace and l.day = p.day and l.label = p.label
      ) then '*'
      else p.label
    end,
    p.requests, p.failed, p.input_tokens, p.output_tokens, p.cost_usd, p.billed_credits, p.unmetered_credits,
    p.latency_ms, p.timed
  from (
    select u.*
    from summed s
    join ai.usage_changes c
      on c.workspace_id = workspace and c.run_created_at >= s.first_moment and c.run_created_at < s.end_moment
    cross join lateral ai.changed_label_usage(c) u
    union all
    select u.*
    from summed s
    cross join lateral (values (window_from, s.first_moment), (s.end_moment, window_to)) as r (first_moment, end_moment)
    cross join lateral ai.sum_labels(workspace, r.first_moment, r.end_moment) u
  ) p
$$;

-- Returns whether an app has any run in a workspace before the given time.
create or replace function ai.has_usage_before(workspace uuid, app uuid, moment timestamptz) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select
    exists (
      select from ai.usage_daily u
      where u.workspace_id = workspace and u.app_id = app and u.day < (moment at time zone 'UTC')::date
    )
    or exists (
      select from ai.usage_changes c
      where c.workspace_id = workspace and c.app_id = app and c.run_created_at < moment and c.requests > 0
    )
    or exists (
      select
      from ai.usage_between(workspace, least(ai.usage_mark(), date_trunc('day', moment, 'UTC')), moment) as u
      where u.app_id = app
    )
$$;

-- Returns whether a user has a permission in a workspace. For definers that have derived the user from a credential.
-- Not granted to any role, because it does not check that the id is the caller's.
create or replace function private.user_has_workspace_permission(
  user_id uuid,
  workspace_id uuid,
  permission public.workspace_permission
) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select from private.memberships_with_permission(
      user_has_workspace_permission.user_id, user_has_workspace_permission.workspace_id, permission
    )
  )
$$;

-- Returns { confirmedAt, unconfirmed: [id], others }. confirmedAt is when the owner last confirmed the list that
-- private.account_access returns. unconfirmed contains the ids of the unconfirmed additions. others is the number of
-- apps, devices and agents that act for the account and don't end with the given session.
-- Definer: row-level security hides the account's confirmations and unconfirmed additions.
create or replace function private.access_state(subject_id uuid, actor_session_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'confirmedAt', (
      select case when private.began_by_mail(subject_id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
      from private.access_confirmations c
      where c.user_id = subject_id
    ),
    'unconfirmed', (
      select coalesce(jsonb_agg(n.target_id order by n.created_at, n.target_id), '[]')
      from private.unconfirmed_additions n
      where n.user_id = subject_id
    ),
    'others', (
      select count(distinct c.listed_as)
      from private.account_credentials c
      where c.user_id = subject_id
        and c.kind <> 'session'
        and not c.is_method
        and c.session_id is distinct from actor_session_id
        and c.is_live
    )
  )
$$;

-- Returns whether a session's authentication is strong enough to remove entries from the list of
-- private.account_access. Not granted to any role, so only security definer functions can call it.
create or replace function private.may_change_access(subject_id uuid, actor_session_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  -- Supabase Auth has the same rule: an account's authenticator must be proved in the session.
  select not exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
    or exists (
      select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
    )
    or private.may_review_authenticators(subject_id, actor_session_id)
$$;

-- Returns a page of an account's current sessions. The session first_session_id comes first, then the most recently
-- refreshed. before is { createdAt, id }: the refreshed_at and the id of the last session on the previous page. Without
-- page_size, returns all sessions.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_sessions(
  subject_id uuid, first_session_id uuid default null, before jsonb default null, page_size integer default null
)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    place text,
    method text,
    aal text,
    refreshed_at timestamptz
  )
  language sql stable security definer set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- The time of the session's last refresh, or of the owner's last event in the session if that event is later. A
    -- session in use refreshes about once an hour.
    greatest(s.refreshed, e.last_event_at),
    s.record ->> 'ip',
    -- Prefers the user agent of the sign-in event. For a sign-in on our pages, Supabase Auth records our server's user
    -- agent.
    coalesce(e.user_agent, s.record ->> 'userAgent'),
    e.device,
    e.place,
    e.method,
    s.record ->> 'aal',
    s.refreshed
  from (
    select l.user_id, l.id, l.created_at, l.last_used_at as refreshed, l.record
    from private.account_credentials l
    where l.user_id = subject_id
      and l.kind = 'session'
      and l.is_live
      and (
        before is null
        or l.id is distinct from first_session_id
          and (l.last_used_at, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, l.last_used_at desc, l.id desc
    limit page_size
  ) s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.place order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as place,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  order by s.id is not distinct from first_session_id desc, s.refreshed desc, s.id desc
$$;

-- Returns the number of an account's current sessions, up to the limit `most`.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.count_account_sessions(subject_id uuid, max_rows integer default 1001) returns bigint
  language sql stable security definer set search_path = ''
as $$
  select count(*)
  from (
    select
    from private.account_credentials c
    where c.user_id = subject_id and c.kind = 'session' and c.is_live
    limit max_rows
  ) as counted
$$;

-- Returns the apps that hold a person's live credentials or consent: [{name, displayName, origins, session, login,
-- consent, tokens}]. session summarizes the app sessions, login summarizes the OpenID Connect logins, and each entry of
-- tokens summarizes the tokens for one workspace. A summary is {scopes, connectedAt, renewedAt, endsAt}, with the
-- scopes that are currently in force. An entry of tokens also has workspace, which is the name, or null if the gateway
-- refuses the tokens. consent is {scopes, grantedAt}. login and consent also have resources: the names of the apps that
-- the client may call. session, login and consent may be null.
-- Definer: reads the identity backend's tables and the registry, and calls functions that are not granted to any role.
create or replace function private.connected_apps(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with sessions as (
    select
      s.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(s.created_at),
        'renewedAt', max(s.issued_at),
        'endsAt', max(s.ends_at)
      ) as access
    from private.app_sessions s
    left join lateral unnest(private.effective_scopes(s)) as g (scope) on true
    where s.user_id = subject_id
      and s.revoked_at is null
      and s.expires_at > now()
      and s.ends_at > now()
      and private.proof_status(s.proof) <> 'over'
    group by s.app_id
  ),
  tokens as (
    select
      t.app_id,
      t.workspace_id,
      jsonb_build_object(
        'workspace', max(w.name),
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(t.handed_over_at),
        'renewedAt', max(t.created_at),
        'endsAt', max(e.ends_at)
      ) as access
    from ai.app_tokens t
    join private.apps a on a.id = t.app_id
    -- A token counts until its refresh token expires. Once the token has been refreshed, it counts only until its
    -- access token expires.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- Hides the workspace's name and the token's scopes if the app can no longer act in the workspace or the person has
    -- left it.
    left join public.workspaces w on w.id = t.workspace_id
      and exists (select from private.app_links(a, w.id))
      and exists (select from private.memberships_since(subject_id, w.id, t.handed_over_at))
    left join lateral unnest(t.scopes) as g (scope) on w.id is not null and g.scope = any (private.gateway_scopes(a))
    where t.user_id = subject_id
      and t.revoked_at is null
      and e.ends_at > now()
      and private.proof_status(t.proof) <> 'over'
    group by t.app_id, t.workspace_id
  ),
  logins as (
    select
      l.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(l.created_at),
        'renewedAt', max(coalesce(t.created_at, l.created_at)),
        'endsAt', max(l.ends_at),
        'resources', coalesce(jsonb_agg(distinct r.display_name) filter (where r.id is not null), '[]')
      ) as access
    from private.openid_grants l
    left join private.openid_tokens t on t.grant_id = l.id
    left join private.apps r on r.id = l.resource_id
    left join lateral unnest(private.openid_scopes(l.app_id, l.scopes, l.resource_id)) as g (scope) on true
    where l.user_id = subject_id
      and l.revoked_at is null
      and l.ends_at > now()
      and private.proof_status(l.proof) <> 'over'
    group by l.app_id
  ),
  consents as (
    select
      c.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'resources', coalesce(jsonb_agg(distinct r.display_name) filter (where r.id is not null), '[]'),
        'grantedAt', max(c.granted_at)
      ) as access
    from private.openid_consents c
    join private.apps a on a.id = c.app_id and a.enabled
    left join private.apps r on r.id = c.resource_id
    left join lateral unnest(private.openid_scopes(c.app_id, c.scopes, c.resource_id)) as g (scope) on true
    where c.user_id = subject_id
    group by c.app_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'name', a.name,
    'displayName', a.display_name,
    'origins', (
      select coalesce(jsonb_agg(o.origin order by o.origin), '[]') from private.app_origins o where o.app_id = a.id
    ),
    'session', s.access,
    'login', l.access,
    'consent', c.access,
    'tokens', (
      select coalesce(jsonb_agg(t.access order by t.access ->> 'workspace', t.workspace_id), '[]')
      from tokens t
      where t.app_id = a.id
    )
  ) order by lower(a.display_name), a.name), '[]')
  from private.apps a
  left join sessions s on s.app_id = a.id
  left join logins l on l.app_id = a.id
  left join consents c on c.app_id = a.id
  where coalesce(s.app_id, l.app_id, c.app_id) is not null or exists (select from tokens t where t.app_id = a.id)
$$;

-- Returns the fields of private.export_account whose size does not grow with use, and the credits with their ledger.
-- Definer: the service role may not read the identity backend's tables.
create or replace function private.export_account_proper(subject_id uuid, with_parts boolean) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'account', jsonb_build_object(
      'id', u.id,
      'email', u.email,
      'newEmail', nullif(u.email_change, ''),
      'phone', nullif(u.phone, ''),
      'createdAt', u.created_at,
      'emailConfirmedAt', u.email_confirmed_at,
      'lastSignInAt', u.last_sign_in_at,
      'bannedUntil', u.banned_until,
      'hasPassword', coalesce(u.encrypted_password, '') <> '',
      'userMetadata', u.raw_user_meta_data,
      'appMetadata', u.raw_app_meta_data
    ),
    'profile', (
      select jsonb_build_object('displayName', p.display_name, 'avatarUrl', p.avatar_url, 'createdAt', p.created_at)
      from public.profiles p where p.id = u.id
    ),
    'linkedAccounts', private.export_whole_part(u.id, 'linkedAccounts', true),
    'authenticators', private.export_whole_part(u.id, 'authenticators', true),
    'recoveryCodes', private.export_whole_part(u.id, 'recoveryCodes', true),
    'passkeys', private.export_whole_part(u.id, 'passkeys', true),
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'credits', (
      select jsonb_build_object('balance', a.balance::text, 'ledger', private.export_whole_part(u.id, 'ledger', with_parts))
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

-- Returns { models, failing, health, skipped, usage } for the page about providers. models is the page after the given
-- model, and usage covers the days.
create or replace function private.read_providers_page(after text[], page_size integer, first_day date, last_day date)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'models', private.list_provider_routes(after, page_size),
    'failing', private.list_failing_models(),
    'health', private.list_provider_health(),
    'skipped', private.list_skipped_routes(),
    'usage', private.list_provider_usage(first_day, last_day)
  )
$$;

-- Returns the metered cost of a book's runs, in rows that the caller must sum. A workspace's book covers the
-- workspace's runs, and the platform's book covers all runs. The platform's book is read by whole UTC days, and all of
-- its costs get the month of window_from. Each row names the provider (ai.billing_provider) and, if the runs name one,
-- the billing account.
-- Sets no search_path, so Postgres can inline this function into its callers' plans.
create or replace function ai.metered_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (month date, provider text, account_id text, metered numeric, runs numeric)
  language sql stable security invoker
as $$
  select date_trunc('month', u.day::timestamp)::date, ai.billing_provider(u.billing_name, u.provider_id), u.billing_account,
    u.cost_usd, u.requests
  from ai.usage_between(book, window_from, window_to) u
  union all
  select date_trunc('month', window_from at time zone 'UTC')::date, ai.billing_provider(p.billing_name, p.provider_id),
    p.billing_account, p.cost_usd, p.requests
  from ai.platform_usage(
    (window_from at time zone 'UTC')::date, ((window_to - interval '1 microsecond') at time zone 'UTC')::date
  ) p
  where book = ai.platform_book()
$$;

-- Returns the metered, imported and invoiced cost of a book by month, provider and account. Sums the rows of
-- ai.metered_costs and ai.booked_costs.
create or replace function ai.reconciled_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (
    month date, provider text, account_id text, metered numeric, imported numeric, invoiced numeric, runs numeric,
    records bigint, invoices bigint
  )
  language sql stable security invoker set search_path = ''
as $$
  select s.month, s.provider, s.account_id, coalesce(sum(s.metered), 0), coalesce(sum(s.imported), 0), coalesce(sum(s.invoiced), 0),
    coalesce(sum(s.runs), 0), count(s.imported), count(s.invoiced)
  from (
    select m.month, m.provider, m.account_id, m.metered, null::numeric as imported, null::numeric as invoiced, m.runs
    from ai.metered_costs(book, window_from, window_to) m
    union all
    select date_trunc('month', b.day::timestamp)::date, b.provider, b.account_id, null, b.imported, b.invoiced, null
    from ai.booked_costs(book, window_from, window_to) b
  ) as s
  group by s.month, s.provider, s.account_id
  having sum(s.runs) > 0 or count(s.imported) > 0 or count(s.invoiced) > 0
$$;

-- Returns one invoice of a book, with its recorder (ai.invoice_recorder) and its comparison (ai.invoice_comparison): {
-- outcome: read, invoice, recorded, comparison }, { outcome: not_found } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_provider_invoice(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'invoice', ai.invoice_summary(i),
      'recorded', ai.invoice_recorder(i),
      'comparison', ai.invoice_comparison(workspace, ai.invoice_summary(i), i.id)
    )
    from ai.invoice_book_entries i
    where i.id = invoice_id and i.book_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Returns a page of a book's invoices, latest issued first, and the total of the invoices that count. If the filter
-- (ai.invoice_matches) has a month, each invoice also has its share of that month (ai.invoice_share), and the total is
-- the sum of these shares. Returns { outcome: listed, … } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, filter jsonb default '{}',
  token_hash bytea default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace, token_hash), jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum(ai.invoice_amount(i, m.days)) filter (where r.by_reference is null), 0))::text,
        'records', count(*),
        'replacedRecords', count(r.by_reference)
      )
      from ai.invoice_book_entries i
      cross join lateral (select ai.month_days(filter ->> 'month') as days) m
      cross join lateral (select ai.invoice_replacement(i) as by_reference) r
      where i.book_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p) || coalesce(ai.invoice_share(p, filter ->> 'month'), '{}')
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.invoice_book_entries i
        where i.book_id = workspace
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  ))
$$;

-- Unused since 0.2.0, goes in 0.3.0. Servers of release 0.1.0 call it for satellites.
-- Definer: see ai.list_provider_invoices.
create or replace function private.list_provider_invoices_by_app_session(
  token_hash bytea, workspace_id uuid, before jsonb default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.list_provider_invoices(null, workspace_id, before, page_size, token_hash => token_hash)
$$;

-- Returns the cost of a caller's runs in the current UTC month: of a key's lineage (all keys rotated from one another),
-- or of a person's own calls, or of a person's calls through an app. Includes open runs. A run counts in the month in
-- which it began.
create or replace function ai.cost_this_month(caller ai.caller, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'since', ai.utc_text(m.month),
    'requests', coalesce(sum(u.requests), 0),
    'costUsd', case when cost_visible then trim_scale(coalesce(sum(u.cost_usd), 0)) end,
    'billedCredits', trim_scale(coalesce(sum(u.billed_credits), 0)),
    'unmeteredCredits', trim_scale(coalesce(sum(u.unmetered_credits), 0))
  )
  from (select date_trunc('month', now(), 'UTC') as month) m
  left join lateral ai.usage_between((caller).workspace_id, m.month, 'infinity', (caller).source <> 'key') u on
    case
      when (caller).source = 'key' then u.key_lineage_id = (caller).lineage_id
      -- Only runs of keys have a lineage.
      else u.key_lineage_id is null and u.actor_id = (caller).actor_id and u.app_id is not distinct from (caller).app_id
    end
  group by m.month
$$;

-- Returns whether a member's coding agents may have keys for a workspace.
create or replace function ai.may_connect_agents(member_id uuid, workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (select from ai.agent_memberships(member_id, workspace))
$$;

-- Returns the time at which a login ends, or null if the login has ended or may no longer have keys. Does not check the
-- login's MFA proof.
create or replace function ai.agent_login_end(login_id uuid) returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select l.ends_at from ai.live_agent_logins(login_id) l
$$;

-- Returns what an account's security page shows, except the log: { methods, passkeys, authenticators, recoveryCodes,
-- sessions, sessionCount, access }, each as the function that it is named after returns it. sessions is the page after
-- sessions_before.
create or replace function private.read_security_page(
  subject_id uuid,
  current_session_id uuid,
  sessions_before jsonb,
  sessions_page_size integer
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'methods', private.list_sign_in_methods(subject_id),
    'passkeys', (select coalesce(jsonb_agg(p), '[]') from private.list_passkeys(subject_id) p),
    'authenticators', private.account_authenticators(subject_id),
    'recoveryCodes', private.mfa_recovery_state(subject_id, current_session_id),
    'sessions', (
      select coalesce(jsonb_agg(s), '[]')
      from private.account_sessions(subject_id, current_session_id, sessions_before, sessions_page_size) s
    ),
    'sessionCount', private.count_account_sessions(subject_id),
    'access', private.access_state(subject_id, current_session_id)
  )
$$;

-- Issues the next tokens of a login and returns their description from private.describe_openid_tokens. For definers;
-- not granted to any role.
create or replace function private.add_openid_tokens(
  login private.openid_grants, scopes text[], access_hash bytea, refresh_hash bytea
) returns jsonb
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.openid_tokens as t (grant_id, scopes, access_hash, access_expires_at, refresh_hash)
  values (
    login.id,
    add_openid_tokens.scopes,
    add_openid_tokens.access_hash,
    least(now() + case when login.resource_id is null then interval '1 hour' else interval '10 minutes' end, login.ends_at),
    -- Otherwise the only scope that allows a refresh token (OpenID Connect Core 1.0 section 11). Resources don't ask
    -- for that scope (MCP 2026-07-28, Refresh Tokens), and their access tokens are short.
    case when login.resource_id is not null or 'offline_access' = any (login.scopes)
      then add_openid_tokens.refresh_hash
    end
  )
  returning private.describe_openid_tokens(login, t)
$$;

-- Returns a valid access token for the platform with its login and the scopes that the client's registration still
-- allows. Never returns a token for another resource. Does not check the login's proof. Called only by security definer
-- functions; not granted to any role.
create or replace function private.live_openid_token(access_hash bytea)
  returns table (login private.openid_grants, token private.openid_tokens, scopes text[])
  language sql stable security invoker set search_path = ''
as $$
  select l.login, l.token, l.scopes
  from private.live_token_of_any_audience(live_openid_token.access_hash) l
  where (l.login).resource_id is null
$$;

-- Returns the coding agent that renews a key: { tool, host, endsAt }. endsAt is the time at which the agent's login
-- ends, or null if the login has already ended. Returns null if no agent renews the key.
create or replace function ai.agent_of_key(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('tool', c.tool, 'host', c.host, 'endsAt', ai.agent_login_end(c.login_id))
  from ai.agent_connections c
  where c.id = (key).connection_id
$$;

-- Returns a range's sums (the argument of ai.overview_sums), grouped by ai.usage_key or by label. The row with a null key
-- covers the whole range. Rows of labels have no histograms.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer
) returns table (key text, sums numeric[], cost_usd numeric, billed_credits numeric, requests numeric)
  language sql stable security invoker
as $$
  select
    u.key,
    array[
      sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd), sum(u.billed_credits),
      sum(u.unmetered_credits), sum(u.latency_ms), sum(u.timed), sum(u.latency_marks), sum(u.first_token_marks)
    ],
    sum(u.cost_usd), sum(u.billed_credits), sum(u.requests)
  from (
    select ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.*
    from ai.usage_between(workspace, window_from, window_to, grouped_by = 'member') p
  ) u
  group by grouping sets ((u.key), ())
  -- For labels, keeps only the row for the whole range. The rows of labels come from ai.label_usage_between.
  having u.key is null or (grouped_by <> 'label' and sum(u.requests) > 0)
  union all
  select
    b.label,
    array[
      sum(b.requests), sum(b.failed), sum(b.input_tokens), sum(b.output_tokens), sum(b.cost_usd), sum(b.billed_credits),
      sum(b.unmetered_credits), sum(b.latency_ms), sum(b.timed)
    ],
    sum(b.cost_usd), sum(b.billed_credits), sum(b.requests)
  from ai.label_usage_between(workspace, window_from, window_to) b
  where grouped_by = 'label'
  group by b.label
  having sum(b.requests) > 0
$$;

-- Returns the daily usage of the given models and, with model null, of all other models together. day is the number of
-- days since the start of the range.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.model_usage_by_day(
  workspace uuid, window_from timestamptz, window_to timestamptz, days_each integer, models text[]
) returns table (
  day integer, model text, place integer, requests numeric, failed numeric, tokens numeric, cost_usd numeric,
  billed_credits numeric
)
  language sql stable security invoker
as $$
  select
    (u.day - (window_from at time zone 'UTC')::date) / days_each * days_each, models[o.place], o.place, sum(u.requests),
    sum(u.failed), sum(u.input_tokens + u.output_tokens), sum(u.cost_usd), sum(u.billed_credits)
  from ai.usage_between(workspace, window_from, window_to) u
  cross join lateral (select array_position(models, u.model_id) as place) o
  group by 1, o.place
$$;

-- Returns the details of a run: { run, steps, attempts, ledger, answeredBy }. run is the summary. attempts are the
-- requests to providers. ledger contains the ledger entries, with charged credits as positive amounts. answeredBy is
-- the route that answered, with its prices at that time. attempts and answeredBy are null if provider cost is hidden.
create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible) || ai.run_pricing_facts(run, cost_visible),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'step', s.step, 'type', s.type, 'name', s.name, 'status', s.status, 'latencyMs', s.latency_ms
      ) order by s.step), '[]')
      from jsonb_to_recordset((run).steps) as s (step smallint, type text, name text, status text, latency_ms integer)
    ),
    'attempts', case when cost_visible then (
      select coalesce(jsonb_agg(jsonb_build_object(
        'route', a.route,
        'provider', a.provider,
        'model', a.model,
        'status', a.status,
        'failure', a.failure,
        'upstreamRequestId', a.upstream_request_id,
        'mayHaveCharged', coalesce(a.may_have_charged, false),
        'latencyMs', a.latency_ms
      ) order by a.position), '[]')
      from rows from (jsonb_to_recordset((run).attempts) as (
        route smallint, provider text, model text, status smallint, failure text, upstream_request_id text,
        may_have_charged boolean, latency_ms integer
      )) with ordinality as a (
        route, provider, model, status, failure, upstream_request_id, may_have_charged, latency_ms, position
      )
    ) end,
    'ledger', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', l.kind, 'credits', trim_scale(-l.amount)::text, 'createdAt', l.created_at
      ) order by l.id), '[]')
      from ai.credit_ledger l
      where l.run_id = (run).id
    ),
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end
  )
$$;

-- Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent,
-- provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }], otherSessions: { key, count, isNew
-- } }. Returns null if the account doesn't exist. The entries come from private.account_credentials; an app and a
-- device's login have one entry each. ways contains at most max_sessions sessions: the calling session, then the most
-- recently refreshed. otherSessions counts the remaining sessions, up to 1,001. kind is password, identity, passkey,
-- authenticator, recovery_codes, recovery_mail, session, phone_approval, app, device or agent. isNew is true if the
-- entry was added after the owner last confirmed the list or, without a confirmation, after the account was created. In
-- a session that began with a password reset or recovery, only confirmations by such sessions count. device and address
-- are null if no event records where the entry was added.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, max_sessions integer default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- A session that began with a password reset or recovery counts only confirmations by such sessions. An intruder
    -- who knew the password could have confirmed their own additions in any other session.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      c.listed_as as key,
      split_part(c.listed_as, ':', 1) as kind,
      nullif(split_part(c.listed_as, ':', 2), '') as id,
      -- A client may act for the account at several resources.
      string_agg(distinct c.name, ', ') as name,
      null::text as user_agent,
      null::text as address,
      max(c.provider) as provider,
      -- An app that was connected several times counts as added at its latest connection.
      max(case
        -- Supabase Auth creates a new account and its first identity in one call, but reads the clock twice.
        when c.kind = 'identity' and c.added_at < a.created_at + interval '500 milliseconds' then a.created_at
        else c.added_at
      end) as added_at,
      max(case when c.kind = 'password' then (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) else c.last_used_at end) as last_used_at,
      (array_agg(case
        when c.kind = 'password' then (
          select v.id
          from public.security_events v
          where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
          order by v.created_at desc, v.id
          limit 1
        )
        when c.kind = 'identity' then private.addition_event(a.id, c.id, 'identity_linked')
        when c.kind = 'passkey' then private.addition_event(a.id, c.id, 'passkey_added')
        when c.kind = 'authenticator' then private.addition_event(a.id, c.id, 'authenticator_added')
        when c.kind = 'device_request' then private.addition_event(a.id, c.id, 'device_approved')
        when c.session_id is null then private.addition_event(a.id, c.source_id, 'device_approved')
        else private.sign_in_event(a.id, c.session_id)
      end order by c.added_at desc, c.id))[1] as event_id
    from account a
    join private.account_credentials c on c.user_id = a.id
    where c.kind <> 'session'
      and c.is_live
      and (c.kind <> 'identity' or c.provider not in ('email', 'phone'))
      -- An approval of the calling session is part of that session.
      and (c.kind <> 'phone_approval' or c.session_id is distinct from actor_session_id)
    group by c.listed_as

    union all
    select
      'session:' || s.id, 'session', s.id::text, s.device, s.user_agent, s.ip, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => max_sessions) s
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', w.key,
        'kind', w.kind,
        'id', w.id,
        'name', case w.kind
          when 'device' then w.name || coalesce(' (' || (e.details ->> 'requester') || ')', '')
          else w.name
        end,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then w.address else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null
      ) order by array_position(array[
        'password', 'identity', 'passkey', 'authenticator', 'recovery_codes', 'recovery_mail', 'session',
        'phone_approval', 'app', 'device', 'agent'
      ], w.kind), d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- The row may be older than the addition: an authenticator's row dates from the start of enrolment, a link's from
      -- the visit to the provider, and a copied session's from the original sign-in.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, max_sessions),
        'isNew', exists (
          select
          from private.account_credentials c
          where c.user_id = a.id and c.kind = 'session' and c.is_live and c.added_at > a.since
            and c.listed_as not in (select w.key from ways w)
        )
      )
      from private.count_account_sessions(a.id, max_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

-- Returns everything stored about an account except its AI runs, without secrets, hashes or codes. Returns null if the
-- account doesn't exist. If with_parts is false, the lists that private.export_account_part can return are empty.
-- Definer: the functions that it calls are not granted to any role.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens', 'openidLogins', 'openidCodes', 'deviceLogins', 'openidConsents', 'agentConnections', 'agentAccess'
    ]) as p (part)
  )
$$;

-- Returns an account for the console: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt,
-- bannedUntil, infrastructureAdmin, methods, factors, sessions, sessionCount, others }; null if the account doesn't
-- exist. methods comes from private.list_sign_in_methods. sessions contains the 50 sessions that were refreshed last,
-- and sessionCount counts up to 1,001. others contains apps, devices, agents and everything else that acts for the
-- account, as private.account_access lists it. Contains no secret.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'id', u.id,
    'email', u.email,
    'displayName', (select p.display_name from public.profiles p where p.id = u.id),
    'singleSignOn', u.is_sso_user,
    'createdAt', u.created_at,
    'confirmedAt', u.email_confirmed_at,
    'lastSignInAt', u.last_sign_in_at,
    'bannedUntil', case when u.banned_until > now() then u.banned_until end,
    'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = u.id),
    'methods', private.list_sign_in_methods(u.id),
    'factors', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id,
        'name', c.name,
        'type', c.record -> 'type',
        'verified', c.is_active,
        'createdAt', c.created_at,
        'lastUsedAt', c.last_used_at
      ) order by c.created_at, c.id), '[]')
      from private.account_credentials c
      where c.user_id = u.id and c.kind = 'authenticator'
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id,
        'createdAt', s.created_at,
        'lastSeenAt', s.last_seen_at,
        'ip', s.ip,
        'device', s.device,
        'userAgent', s.user_agent,
        'method', s.method,
        'aal', s.aal
      ) order by s.last_seen_at desc, s.id), '[]')
      from private.account_sessions(u.id, page_size => 50) s
    ),
    'sessionCount', private.count_account_sessions(u.id),
    'others', (
      select coalesce(jsonb_agg(w order by w ->> 'addedAt' desc, w ->> 'key'), '[]')
      from jsonb_array_elements(private.account_access(u.id, null, 0) -> 'ways') as w
      where w ->> 'kind' not in ('password', 'identity', 'passkey', 'authenticator')
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

-- Returns ai.run_detail of a run in any workspace, with the workspace, the member's email address and the billing
-- account. Includes what the workspace hides from its members. Returns null if the run does not exist.
-- Definer: reads accounts and apps, which the service role cannot read.
create or replace function private.read_run(run_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.run_detail(r, true) || jsonb_build_object(
    'workspace', jsonb_build_object('id', r.workspace_id, 'name', w.name),
    'billing', jsonb_build_object('name', r.billing_name, 'account', r.billing_account),
    'memberEmail', (select u.email from auth.users u where u.id = r.actor_id)
  )
  from ai.find_run(run_id) as r
  left join public.workspaces w on w.id = r.workspace_id
  where r.id is not null
$$;

-- Returns a key's details without its secret, which is stored only as a hash. Amounts are exact text. Spend is for the
-- current UTC month and includes the keys that this key replaced. For an agent's key, the last use is the latest use of
-- any key of the agent.
create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (key).id,
    'name', (key).name,
    'prefix', 'ttr_ai_' || (key).lookup,
    'environment', (key).environment,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', case
      when (key).connection_id is null then (key).last_used_at
      else (select max(k.last_used_at) from ai.keys k where k.connection_id = (key).connection_id)
    end,
    'expiresAt', (key).expires_at,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).connection_id is not null
        then case when ai.agent_of_key(key) ->> 'endsAt' is null then 'expired' else 'active' end
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'entityId', (key).entity_id,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
    'spentThisMonthUsd', case when ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text end,
    'agent', ai.agent_of_key(key),
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when not ai.cost_visible(b.workspace_id) then null
          when b.period_start = date_trunc('month', now() at time zone 'UTC')::date then trim_scale(b.spent_usd)::text
          else '0'
        end
      )
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.limit_usd is not null
    )
  )
$$;

-- Returns the details of a workspace's keys, newest first.
create or replace function ai.key_summaries(workspace uuid, listed ai.keys[]) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(ai.key_summary(k, c.cost_usd) order by k.created_at desc, k.id desc), '[]')
  from unnest(listed) as k
  left join (
    select u.key_lineage_id, sum(u.cost_usd) as cost_usd
    from ai.usage_between(workspace, date_trunc('month', now(), 'UTC'), 'infinity') u
    where u.key_lineage_id in (select l.lineage_id from unnest(listed) as l)
    group by u.key_lineage_id
  ) c on c.key_lineage_id = k.lineage_id
$$;

create or replace trigger revoke_resource_credentials after update of resource_url on private.apps
  for each row when (old.resource_url is not null and old.resource_url is distinct from new.resource_url)
  execute function private.revoke_resource_credentials();

-- Queues a logout notice for the app. If the app ended the login itself, private.withdraw_logout removes the notice.
create or replace trigger queue_revoked_login after update of revoked_at on private.app_sessions
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.audience = 'app' and new.expires_at > now())
  execute function private.queue_revoked_login('handoff_id');

-- Notifies the client when a login is revoked. If the client ended the login itself, private.withdraw_logout removes
-- the notice.
create or replace trigger queue_revoked_login after update of revoked_at on private.openid_grants
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.ends_at > now())
  execute function private.queue_revoked_login('id');

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Anyone can call Supabase Auth directly to sign up with another person's email and with any metadata.
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

do $guard$
begin
  if to_regclass('auth.mfa_amr_claims') is not null then
-- Every account change is recorded and emailed, even if it was made without our server (activity/account-events.sql).
create or replace trigger record_sign_in after insert on auth.mfa_amr_claims
  for each row execute function private.record_sign_in();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.sessions') is not null then
create or replace trigger record_sign_outs after delete on auth.sessions
  referencing old table as ended
  for each statement execute function private.record_sign_outs();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
create or replace trigger record_account_change
  after update of encrypted_password, email, email_change, banned_until on auth.users
  for each row execute function private.record_account_change();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Unlinking the identity that has the account's email makes Auth replace that email with another identity's email.
create or replace trigger guard_email before update of email on auth.users
  for each row when (old.email is distinct from new.email) execute function private.guard_email();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.mfa_factors') is not null then
create or replace trigger record_authenticator_added after update of status on auth.mfa_factors
  for each row when (new.status = 'verified' and old.status <> 'verified')
  execute function private.record_authenticator_added();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.mfa_factors') is not null then
create or replace trigger record_authenticator_removed before delete on auth.mfa_factors
  for each row execute function private.record_removal();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.identities') is not null then
create or replace trigger record_identity_removed before delete on auth.identities
  for each row execute function private.record_removal();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.webauthn_credentials') is not null then
create or replace trigger record_passkey_added after insert on auth.webauthn_credentials
  for each row execute function private.record_passkey_added();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.webauthn_credentials') is not null then
create or replace trigger record_passkey_renamed after update of friendly_name on auth.webauthn_credentials
  for each row when (old.friendly_name is distinct from new.friendly_name)
  execute function private.record_passkey_renamed();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.webauthn_credentials') is not null then
create or replace trigger record_passkey_removed before delete on auth.webauthn_credentials
  for each row execute function private.record_removal();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.sessions') is not null then
-- Deleting a session, a factor or an account also ends logins at apps. These triggers run before the change, while the
-- logins can still be found.
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
-- Triggers run in the order of their names, so this one runs after preserve_required_mfa_policy.
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

-- Applies to every role, including the table's owner.
create or replace trigger reject_cost_import_change before update or delete on ai.cost_imports
  for each row execute function ai.reject_cost_import_change();

-- Rejects TRUNCATE for every role, including the table's owner.
create or replace trigger reject_cost_import_truncate before truncate on ai.cost_imports
  for each statement execute function ai.reject_cost_import_change();

create or replace trigger end_unauthorized_connections after update of state or delete on ai.agent_access
  for each row when (old.state = 'approved') execute function ai.end_unauthorized_connections();

create or replace trigger end_unauthorized_connections after update of role_id or delete on public.workspace_members
  for each row execute function ai.end_unauthorized_connections();

create or replace trigger end_unauthorized_connections after update of permissions on public.workspace_roles
  for each row when (not old.permissions <@ new.permissions) execute function ai.end_unauthorized_connections();

-- Without this trigger, deleting a connection would turn its keys into ordinary keys.
create or replace trigger revoke_keys_of_connection before delete on ai.agent_connections
  for each row execute function ai.revoke_keys_of_connection();

create or replace trigger revoke_keys_of_login before update of login_id on ai.agent_connections
  for each row when (old.login_id is distinct from new.login_id) execute function ai.revoke_keys_of_connection();

-- Changes of younger runs need no record, because the mark stays behind them. Uses the time of the write, because the
-- start of its transaction may be long ago. The condition is short because Postgres reads it again for each statement.
create or replace trigger record_usage_change after update on ai.runs
  for each row when (least(old.created_at, new.created_at) < clock_timestamp() - interval '30 seconds')
  execute function ai.record_usage_change();

-- Fires if a transaction inserts its run long after it began, or an operator inserts a run by hand.
create or replace trigger record_usage_addition after insert on ai.runs
  for each row when (new.created_at < clock_timestamp() - interval '30 seconds')
  execute function ai.record_usage_change();

-- Fires when an operator deletes a run by hand. Our own code never deletes runs.
create or replace trigger record_usage_deletion after delete on ai.runs
  for each row when (old.created_at < clock_timestamp() - interval '30 seconds')
  execute function ai.record_usage_change();

-- Triggers run in the order of their names. Invitations are locked before their workspace, so these run before
-- end_unauthorized_connections and require_workspace_owner, which lock it.
create or replace trigger adjust_invitations after update of role_id or delete on public.workspace_members
  for each row execute function private.withdraw_unauthorized_invitations();

create or replace trigger adjust_invitations after update of permissions on public.workspace_roles
  for each row execute function private.withdraw_unauthorized_invitations();

create or replace trigger require_recognizable_name before insert or update of name on public.workspace_roles
  for each row execute function private.require_recognizable_name();

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Passwords can also be changed through Supabase Auth's API, without our server.
create or replace trigger end_password_replacements after update of encrypted_password on auth.users
  for each row when (old.encrypted_password is distinct from new.encrypted_password)
  execute function private.end_password_replacements();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Lets Auth send another reset link or sign-in code once the newest one was used. Otherwise, Auth would make the person
-- wait for minutes.
create or replace trigger forget_used_recovery before update of recovery_token on auth.users
  for each row when (old.recovery_token <> '' and new.recovery_token = '')
  execute function private.forget_used_recovery();
  end if;
end
$guard$;

comment on view ai.cost_book_entries is
  'Imported costs of all books. provider is the normalized name, and spelling is the stored name.';

comment on view ai.invoice_book_entries is
  'Reviewed invoices of all books. provider is the normalized name, and spelling is the stored name.';

comment on view private.account_credentials is
  'One row for each credential, including ended ones. listed_as: the entry of the access review that the row belongs '
  'to. source_id: what the credential was derived from, such as a handoff, a code, a device''s request or a login. '
  'session_id: the session that the credential ends with; null if it outlives sessions. is_method: a way to sign in, to '
  'prove a second step or to recover, which a sign-out keeps. is_active: not revoked, redeemed or incomplete. is_live: '
  'it works now, or would after a second factor. record: the row''s entry in the account''s export.';

revoke delete, insert, update on table ai.cost_book_entries from service_role;

revoke delete, insert, update on table ai.credit_alerts from service_role;

revoke delete, insert, update on table ai.credit_references from service_role;

revoke delete, insert, update on table ai.invoice_book_entries from service_role;

revoke delete, insert, update on table ai.usage_changes from service_role;

revoke delete, insert, update on table ai.usage_labels_daily from service_role;

revoke delete, insert, update on table ai.usage_progress from service_role;

grant execute on function ai.answer_agent_access(uuid, uuid, uuid, timestamp with time zone, text) to service_role;

grant execute on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) to service_role;

grant execute on function ai.charged_routes(jsonb, smallint, jsonb) to service_role;

grant execute on function ai.find_run(uuid) to service_role;

grant execute on function ai.has_provider_call(jsonb) to service_role;

grant execute on function ai.import_cost_file(uuid, uuid, uuid, jsonb, text, jsonb) to service_role;

grant execute on function ai.key_summary(ai.keys, numeric) to service_role;

grant execute on function ai.list_agent_access(uuid, uuid) to service_role;

grant execute on function ai.list_keys_of_creator(uuid, uuid, uuid, integer) to service_role;

grant execute on function ai.list_provider_costs(uuid, uuid, timestamp with time zone, timestamp with time zone, jsonb, integer, jsonb, boolean, bytea) to service_role;

grant execute on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb, bytea) to service_role;

grant execute on function ai.list_run_filters(uuid, uuid) to service_role;

grant execute on function ai.list_run_rows(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.listed_price(jsonb) to service_role;

grant execute on function ai.low_credits(ai.plans) to service_role;

grant execute on function ai.open_routes(text[]) to service_role;

grant execute on function ai.plan_has_payers(ai.plans) to service_role;

grant execute on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) to service_role;

grant execute on function ai.priced_routes(text, text[]) to service_role;

grant execute on function ai.queue_credit_alert_mails(jsonb, text, text) to service_role;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[]) to service_role;

grant execute on function ai.read_cost_import(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_credit_notice(uuid, uuid) to service_role;

grant execute on function ai.read_credits(uuid, uuid, timestamp with time zone, timestamp with time zone, bigint, integer, boolean) to service_role;

grant execute on function ai.read_key(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_key_approval(uuid, uuid) to service_role;

grant execute on function ai.read_keys_page(uuid, uuid, jsonb, integer) to service_role;

grant execute on function ai.read_policy_page(uuid, uuid) to service_role;

grant execute on function ai.read_run_page(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_runs_page(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.read_workspace_home(uuid, uuid, timestamp with time zone, timestamp with time zone, timestamp with time zone, timestamp with time zone, integer, integer, integer, text[]) to service_role;

grant execute on function ai.reconcile_costs(uuid, uuid, timestamp with time zone, timestamp with time zone, text[], integer, bytea) to service_role;

grant execute on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb, jsonb) to service_role;

grant execute on function ai.request_key_approval(uuid, uuid, text, jsonb) to service_role;

grant execute on function ai.run_detail(ai.runs, boolean) to service_role;

grant execute on function ai.run_summary(ai.runs, boolean) to service_role;

grant execute on function ai.sweep_credit_alerts(integer) to service_role;

grant execute on function ai.withdraw_key_approval_request(uuid, uuid, timestamp with time zone) to service_role;

grant execute on function private.access_state(uuid, uuid) to service_role;

grant execute on function private.account_access(uuid, uuid, integer) to service_role;

grant execute on function private.account_sessions(uuid, uuid, jsonb, integer) to service_role;

grant execute on function private.add_account(jsonb) to service_role;

grant execute on function private.add_next_signing_key(text, jsonb, text, text) to service_role;

grant execute on function private.add_openid_client(jsonb) to service_role;

grant execute on function private.add_proposed_prices(jsonb) to service_role;

grant execute on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) to service_role;

grant execute on function private.announce_addition(uuid, text) to service_role;

grant execute on function private.app_version(text) to service_role;

grant execute on function private.begin_device_authorization(text, bytea, bytea, text[], text[], inet, text, text) to service_role;

grant execute on function private.cancel_model_price(jsonb) to service_role;

grant execute on function private.change_credits(jsonb) to service_role;

grant execute on function private.change_model_route(jsonb) to service_role;

grant execute on function private.change_openid_client(jsonb) to service_role;

grant execute on function private.claim_due_mails(integer) to service_role;

grant execute on function private.claim_logout_notices(integer) to service_role;

grant execute on function private.confirm_access(uuid, uuid, jsonb, text[]) to service_role;

grant execute on function private.connect_agent(bytea, uuid, text, text, jsonb) to service_role;

grant execute on function private.continue_account_session(jsonb) to service_role;

grant execute on function private.count_account_sessions(uuid, integer) to service_role;

grant execute on function private.count_approval_requests(integer) to service_role;

grant execute on function private.current_signing_key() to service_role;

grant execute on function private.decide_device_authorization(text, jsonb, boolean, jsonb) to service_role;

grant execute on function private.decline_key_approval(jsonb) to service_role;

grant execute on function private.delete_expired_attempts(integer) to service_role;

grant execute on function private.delete_expired_rows(regclass, name, interval, integer) to service_role;

grant execute on function private.delete_model(jsonb) to service_role;

grant execute on function private.delete_retired_signing_keys() to service_role;

grant execute on function private.describe_openid_client(uuid) to service_role;

grant execute on function private.describe_price(ai.model_prices) to service_role;

grant execute on function private.discard_session(uuid, uuid) to service_role;

grant execute on function private.disconnect_agent(bytea, uuid, uuid) to service_role;

grant execute on function private.email_of_link(text, text) to service_role;

grant execute on function private.end_authorization_request(bytea) to service_role;

grant execute on function private.end_openid_login(uuid, uuid) to service_role;

grant execute on function private.end_other_sessions(uuid, uuid) to service_role;

grant execute on function private.explain_platform_month(date, text) to service_role;

grant execute on function private.export_account(uuid, boolean) to service_role;

grant execute on function private.export_account_part(uuid, text, jsonb, integer) to service_role;

grant execute on function private.find_device_authorization(text, uuid, uuid) to service_role;

grant execute on function private.find_mailed_link(text, text, uuid) to service_role;

grant execute on function private.find_recovery_link_email(bytea, bytea) to service_role;

grant execute on function private.find_runs(text) to service_role;

grant execute on function private.granted_workspaces(text, integer) to service_role;

grant execute on function private.import_costs_as_operator(uuid, uuid, jsonb, text) to service_role;

grant execute on function private.introspect_openid_token(text, bytea, bytea) to service_role;

grant execute on function private.is_recovery_open_to(private.recovery_credentials, bytea) to service_role;

grant execute on function private.issue_agent_key(bytea, uuid, uuid, text, text) to service_role;

grant execute on function private.issue_authorization_code(jsonb, text, text, text[], text, text, bytea, boolean, bigint, text[], text[], text[], bytea, text) to service_role;

grant execute on function private.latest_price(text, text, integer) to service_role;

grant execute on function private.lift_address_block(jsonb) to service_role;

grant execute on function private.linked_workspaces(uuid, text[], integer) to service_role;

grant execute on function private.list_accounts(jsonb, integer) to service_role;

grant execute on function private.list_address_blocks(inet, uuid, integer) to service_role;

grant execute on function private.list_agents(bytea, uuid) to service_role;

grant execute on function private.list_approval_requests(jsonb, integer) to service_role;

grant execute on function private.list_apps(text, text, integer) to service_role;

grant execute on function private.list_catalogue_models(text, text, text[], integer) to service_role;

grant execute on function private.list_failing_models(integer) to service_role;

grant execute on function private.list_openid_clients(text, text, integer) to service_role;

grant execute on function private.list_passkeys(uuid) to service_role;

grant execute on function private.list_plans(text) to service_role;

grant execute on function private.list_provider_health() to service_role;

grant execute on function private.list_provider_routes(text[], integer) to service_role;

grant execute on function private.list_provider_usage(date, date) to service_role;

grant execute on function private.list_route_prices() to service_role;

grant execute on function private.list_skipped_routes(integer) to service_role;

grant execute on function private.list_workspaces_by_app_session(bytea, text[], integer) to service_role;

grant execute on function private.may_change_apps(jsonb) to service_role;

grant execute on function private.may_review_authenticators(uuid, uuid) to service_role;

grant execute on function private.model_version(text) to service_role;

grant execute on function private.move_workspace(jsonb) to service_role;

grant execute on function private.open_openid_authorization(text, text, text[], jsonb, text[], text[], text) to service_role;

grant execute on function private.openid_client_id(uuid) to service_role;

grant execute on function private.preview_costs_as_operator(uuid, uuid, jsonb) to service_role;

grant execute on function private.push_authorization_request(text, bytea, text, boolean, text, bytea, inet) to service_role;

grant execute on function private.read_account_page(uuid, jsonb, integer, integer) to service_role;

grant execute on function private.read_accounts_page(text, jsonb, integer) to service_role;

grant execute on function private.read_address_block(uuid) to service_role;

grant execute on function private.read_app(text, text[], integer) to service_role;

grant execute on function private.read_approvals_page(jsonb, integer) to service_role;

grant execute on function private.read_apps_page(text, text, text, integer) to service_role;

grant execute on function private.read_authorization_request(bytea) to service_role;

grant execute on function private.read_console_workspace(uuid) to service_role;

grant execute on function private.read_credit_account(text, uuid, bigint, integer) to service_role;

grant execute on function private.read_device_authorization(text, uuid) to service_role;

grant execute on function private.read_model(text) to service_role;

grant execute on function private.read_openid_client(text) to service_role;

grant execute on function private.read_openid_logout(text, text, uuid, uuid) to service_role;

grant execute on function private.read_openid_userinfo(bytea) to service_role;

grant execute on function private.read_providers_page(text[], integer, date, date) to service_role;

grant execute on function private.read_qr_request(jsonb) to service_role;

grant execute on function private.read_review_draft(uuid, text, uuid) to service_role;

grant execute on function private.read_run(uuid) to service_role;

grant execute on function private.read_security_page(uuid, uuid, jsonb, integer) to service_role;

grant execute on function private.read_signing_keys() to service_role;

grant execute on function private.read_subject(uuid) to service_role;

grant execute on function private.read_workspaces_page(text, integer) to service_role;

grant execute on function private.recovery_code_salt(text, bytea) to service_role;

grant execute on function private.redeem_authorization_code(text, bytea, bytea, text, text, bytea, bytea, text) to service_role;

grant execute on function private.redeem_device_code(text, bytea, bytea, bytea, bytea) to service_role;

grant execute on function private.refresh_openid_tokens(text, bytea, bytea, text[], bytea, bytea, text) to service_role;

grant execute on function private.remove_unproven_password(text, text) to service_role;

grant execute on function private.replace_signing_key(text, jsonb, text, text, text) to service_role;

grant execute on function private.require_password_replacement(uuid, uuid) to service_role;

grant execute on function private.reseal_signing_key(text, text, text, text) to service_role;

grant execute on function private.revoke_openid_token(text, bytea, bytea) to service_role;

grant execute on function private.save_model(jsonb) to service_role;

grant execute on function private.save_plan(jsonb) to service_role;

grant execute on function private.save_self_registered_client(jsonb) to service_role;

grant execute on function private.set_app_logout_url(text, text, text, uuid) to service_role;

grant execute on function private.set_app_resource_url(text, text, text, uuid) to service_role;

grant execute on function private.set_model_grant(jsonb) to service_role;

grant execute on function private.sign_account_out(jsonb) to service_role;

grant execute on function private.sign_out_everywhere(uuid, uuid) to service_role;

grant execute on function private.signing_key_is_due() to service_role;

grant execute on function private.store_authorization_request(text, text, bytea, inet) to service_role;

grant execute on function private.store_review_draft(uuid, text, text) to service_role;

grant execute on function private.sweep_app_credentials(integer) to service_role;

grant execute on function private.sweep_login_challenges(integer) to service_role;

grant execute on function private.sweep_oauth_attempts(integer) to service_role;

grant execute on function private.sweep_recoveries(integer) to service_role;

grant execute on function private.take_additions(uuid, text, text[]) to service_role;

grant execute on function private.uuid_or_null(text) to service_role;

grant execute on function private.was_never_enabled(ai.models) to service_role;

grant execute on function private.withdraw_logout(uuid) to service_role;

grant execute on function public.list_member_emails(uuid) to authenticated;

grant execute on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) to authenticated;

grant execute on function public.list_workspace_roles(uuid) to authenticated;

grant execute on function public.list_workspaces(text[], integer) to authenticated;

grant execute on function public.read_credit_notice(uuid) to authenticated;

grant execute on function public.read_workspace(uuid, boolean) to authenticated;

grant execute on function public.remove_workspace_member(uuid, uuid, uuid[]) to authenticated;

grant execute on function public.workspace_session_state(uuid, boolean, uuid, text) to authenticated;

notify pgrst, 'reload schema';
