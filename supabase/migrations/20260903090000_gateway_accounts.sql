-- Money. Amounts are USD in numeric(24, 12), credits numeric(24, 8); nothing here passes through a float, and rounding
-- happens once a run, half to even. supabase/functions/_shared/money-vectors.json holds this and money.ts to one result.

create function ai.round_half_even(amount numeric, scale integer) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
as $$
declare
  rounded numeric := round(amount, scale);
  shifted numeric;
begin
  if rounded = amount then
    return rounded;
  end if;
  shifted := amount * ('1e' || scale)::numeric;
  -- round() goes away from zero at a tie; only a tie over an even digit differs.
  if abs(shifted - trunc(shifted)) = 0.5 and mod(trunc(shifted), 2) = 0 then
    return trunc(amount, scale);
  end if;
  return rounded;
end
$$;
comment on function ai.round_half_even(numeric, integer) is
  'Rounds to scale decimals, ties to the even digit (IEEE 754 roundTiesToEven), exactly.';
revoke execute on function ai.round_half_even(numeric, integer) from public, anon, authenticated;

create function ai.usd_to_credits(amount_usd numeric, markup numeric) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ai.round_half_even(amount_usd * 10000 * markup, 8)
$$;
comment on function ai.usd_to_credits(numeric, numeric) is '1 credit is USD 0.0001 before the plan''s markup.';
revoke execute on function ai.usd_to_credits(numeric, numeric) from public, anon, authenticated;

create function ai.tokens_cost_usd(
  prices jsonb, input numeric, cached_input numeric, audio_input numeric, output numeric, audio_output numeric
) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
as $$
declare
  cached numeric := least(cached_input, input);
  heard numeric := least(audio_input, input - cached);
  spoken numeric := least(audio_output, output);
  tier jsonb := prices -> 0;
begin
  -- Tiers stand in ascending order.
  for place in 1..jsonb_array_length(prices) - 1 loop
    exit when (prices -> place ->> 'min_input_tokens')::numeric > input;
    tier := prices -> place;
  end loop;
  return (
    (input - cached - heard) * (tier ->> 'input')::numeric
    + cached * coalesce(tier ->> 'cached_input', tier ->> 'input')::numeric
    + heard * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
    + (output - spoken) * (tier ->> 'output')::numeric
    + spoken * coalesce(tier ->> 'audio_output', tier ->> 'output')::numeric
  ) * 0.000001;
end
$$;
comment on function ai.tokens_cost_usd(jsonb, numeric, numeric, numeric, numeric, numeric) is
  'What tokens cost at a route''s prices (tiers, USD per million tokens): exact, with at most twelve decimals. Cached '
  'and audio tokens are parts of the input, reasoning and audio tokens parts of the output, as OpenAI counts them.';
revoke execute on function ai.tokens_cost_usd(jsonb, numeric, numeric, numeric, numeric, numeric)
  from public, anon, authenticated;

create function ai.usage_cost_usd(prices jsonb, usage jsonb) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ai.tokens_cost_usd(
    prices,
    coalesce((usage ->> 'input_tokens')::numeric, 0),
    coalesce((usage ->> 'cached_input_tokens')::numeric, 0),
    coalesce((usage ->> 'audio_input_tokens')::numeric, 0),
    coalesce((usage ->> 'output_tokens')::numeric, 0),
    coalesce((usage ->> 'audio_output_tokens')::numeric, 0)
  )
$$;
comment on function ai.usage_cost_usd(jsonb, jsonb) is 'As ai.tokens_cost_usd, of usage as a provider call is told with it.';
revoke execute on function ai.usage_cost_usd(jsonb, jsonb) from public, anon, authenticated;

-- What is true of a row stands in domains and in triggers of the columns that it is about, as far as it can: a table's
-- checks are read and prepared anew by every statement, which costs more than changing a balance.
create domain ai.reserved_credits as numeric(24, 8) check (value >= 0);
comment on domain ai.reserved_credits is 'Held of a balance.';

create table ai.credit_accounts (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid unique,
  user_id uuid unique,
  balance numeric(24, 8) not null default 0,
  reserved ai.reserved_credits not null default 0,
  created_at timestamptz not null default now()
) with (fillfactor = 50);
comment on table ai.credit_accounts is
  'Balances: of a workspace, or of a person who pays for themselves. No foreign key to either, since accounts and their '
  'ledger outlive them.';
comment on column ai.credit_accounts.balance is
  'The sum of the account''s ledger. Settling at true cost may take it below zero; a reservation never does.';
comment on column ai.credit_accounts.reserved is 'Held by runs that have not settled yet.';

create function ai.reject_account() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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
comment on function ai.reject_account() is 'Says no to what no account may be, and to losing one that has been booked on.';
revoke execute on function ai.reject_account() from public, anon, authenticated;
create trigger has_one_owner after insert or update of workspace_id, user_id on ai.credit_accounts
  for each row when (num_nonnulls(new.workspace_id, new.user_id) <> 1) execute function ai.reject_account();
comment on trigger has_one_owner on ai.credit_accounts is 'Asked of none of the updates that calls make.';
create trigger stays_with_its_entries before delete on ai.credit_accounts
  for each row execute function ai.reject_account();
comment on trigger stays_with_its_entries on ai.credit_accounts is
  'The half of a foreign key of the ledger that could ever fail: entries are written for accounts that were just changed.';

create unique index credit_accounts_owner_idx on ai.credit_accounts (coalesce(workspace_id, user_id));

create domain ai.ledger_kind as text check (value in ('grant', 'purchase', 'usage', 'adjustment', 'refund'));
comment on domain ai.ledger_kind is 'What changed a balance.';

create table ai.credit_ledger (
  id bigint generated always as identity,
  account_id uuid not null,
  kind ai.ledger_kind not null,
  amount numeric(24, 8) not null,
  balance_after numeric(24, 8) not null,
  run_created_at timestamptz,
  run_id uuid,
  description text,
  created_at timestamptz not null default now(),
  primary key (account_id, id)
);
comment on table ai.credit_ledger is
  'Every change of every balance, append-only. What is not linked to a run was deducted or given by other means. An '
  'account is never gone: ai.credit_accounts sees to it, since a foreign key would look it up for every entry again.';
create unique index credit_ledger_one_entry_a_run on ai.credit_ledger (run_id, kind);

create function ai.reject_ledger_entry() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if num_nulls(new.run_id, new.run_created_at) = 1 or new.kind in ('usage', 'adjustment') then
    raise exception 'an entry is of a run, or of none and neither usage nor adjustment' using errcode = 'check_violation';
  end if;
  return null;
end
$$;
comment on function ai.reject_ledger_entry() is 'Says no to an entry that is only half a run''s.';
revoke execute on function ai.reject_ledger_entry() from public, anon, authenticated;
create trigger is_whole after insert on ai.credit_ledger
  for each row when (new.run_id is null or new.run_created_at is null) execute function ai.reject_ledger_entry();
comment on trigger is_whole on ai.credit_ledger is
  'In place of a check: its condition is the shortest that no entry of a settlement meets.';

create function ai.reject_ledger_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'the ledger is append-only' using errcode = 'restrict_violation';
end
$$;
comment on function ai.reject_ledger_change() is 'A wrong entry is righted by another entry.';
revoke execute on function ai.reject_ledger_change() from public, anon, authenticated;
create trigger reject_ledger_change before update or delete on ai.credit_ledger
  for each row execute function ai.reject_ledger_change();
comment on trigger reject_ledger_change on ai.credit_ledger is 'Append-only for everyone, its owner too.';

create function ai.open_credit_account(payer text, owner_id uuid, initial_credits numeric) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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
comment on function ai.open_credit_account(text, uuid, numeric) is
  'The account of a payer, opened with its plan''s credits where there was none. Of many concurrent callers one opens it.';
revoke execute on function ai.open_credit_account(text, uuid, numeric) from public, anon, authenticated;

create function ai.grant_credits(payer text, owner_id uuid, amount numeric, description text) returns numeric
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  account uuid := ai.open_credit_account(payer, owner_id, 0);
  new_balance numeric;
begin
  update ai.credit_accounts a set balance = a.balance + amount where a.id = account returning a.balance into new_balance;
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
  values (account, 'grant', amount, new_balance, grant_credits.description);
  return new_balance;
end
$$;
comment on function ai.grant_credits(text, uuid, numeric, text) is
  'Adds credits to the balance of a workspace or a member (payer as in ai.plans) and returns the new balance. For the '
  'operator: no role of the API may run it.';
revoke execute on function ai.grant_credits(text, uuid, numeric, text) from public, anon, authenticated;

alter table ai.credit_accounts enable row level security;
alter table ai.credit_ledger enable row level security;
revoke all on ai.credit_accounts, ai.credit_ledger from public, anon, authenticated;
-- The server reads balances; only the functions here move them.
revoke insert, update, delete, truncate on ai.credit_accounts, ai.credit_ledger from service_role;
