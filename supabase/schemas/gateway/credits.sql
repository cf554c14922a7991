-- Opens credit accounts, changes their balances and keeps their append-only ledger.

-- Returns a payer's credit account. Opens the account with the plan's initial credits if there is none. Concurrent
-- callers get the same account.
create or replace function ai.open_credit_account(payer text, owner_id uuid, initial_credits numeric) returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account_id uuid;
begin
  insert into ai.credit_accounts (workspace_id, user_id, balance)
  values (
    case payer when 'workspace' then owner_id end,
    case payer when 'member' then owner_id end,
    initial_credits
  )
  on conflict do nothing
  returning id into account_id;

  if account_id is null then
    select a.id into account_id
    from ai.credit_accounts a
    where case payer when 'workspace' then a.workspace_id = owner_id else a.user_id = owner_id end;
  elsif initial_credits > 0 then
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
    values (account_id, 'grant', initial_credits, initial_credits, 'Initial credits of the plan');
  end if;
  return account_id;
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

-- Rearms the warnings for levels that no longer apply after a top-up.
create or replace function ai.reset_credit_alert(account ai.credit_accounts) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.credit_alerts k
  set level = ai.credit_level(account, k.threshold), posted_at = coalesce(k.posted_at, now())
  where k.account_id = (account).id and ai.credit_level(account, k.threshold) < k.level
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

-- Rejects an account that does not have exactly one owner, and the deletion of an account with ledger entries.
create or replace function ai.reject_credit_account_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if tg_op <> 'DELETE' then
    raise exception 'an account is a workspace''s or a person''s' using errcode = 'check_violation';
  end if;
  if exists (select from ai.credit_ledger l where l.account_id = old.id) then
    raise exception 'an account with entries in the ledger stays' using errcode = 'restrict_violation';
  end if;
  return old;
end
$$;

-- Runs when an account is inserted or its owner changes, but not when its balance or reservation changes.
create or replace trigger has_one_owner after insert or update of workspace_id, user_id on ai.credit_accounts
  for each row when (num_nonnulls(new.workspace_id, new.user_id) <> 1) execute function ai.reject_credit_account_change();
-- Replaces the ledger's foreign key, which would cost every settlement a lookup.
create or replace trigger reject_credit_account_change before delete on ai.credit_accounts
  for each row execute function ai.reject_credit_account_change();

-- Rejects a usage or adjustment entry without a run, and any ledger entry that has only one of run_id and
-- run_created_at.
create or replace function ai.reject_incomplete_ledger_entry() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if num_nulls(new.run_id, new.run_created_at) = 1 or new.kind in ('usage', 'adjustment') then
    raise exception 'an entry is of a run, or of none and neither usage nor adjustment' using errcode = 'check_violation';
  end if;
  return null;
end
$$;

-- Replaces a check constraint. Does not run for entries with both run_id and run_created_at, because those entries are
-- always complete.
create or replace trigger reject_incomplete_ledger_entry after insert on ai.credit_ledger
  for each row when (new.run_id is null or new.run_created_at is null) execute function ai.reject_incomplete_ledger_entry();

-- Rejects changes of ledger entries. To correct a wrong entry, add another entry.
create or replace function ai.reject_ledger_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  raise exception 'the ledger is append-only' using errcode = 'restrict_violation';
end
$$;

-- The ledger is append-only, even for its owner.
create or replace trigger reject_ledger_change before update or delete on ai.credit_ledger
  for each row execute function ai.reject_ledger_change();

-- Credit references are append-only, like the ledger. A used reference can't be used again.
create or replace trigger reject_reference_change before update or delete on ai.credit_references
  for each row execute function ai.reject_ledger_change();
