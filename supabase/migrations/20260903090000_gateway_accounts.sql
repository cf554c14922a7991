-- Money. Amounts are USD in numeric(24, 12), credits numeric(24, 8); nothing here passes through a float, and rounding
-- happens once a run, half to even. supabase/functions/_shared/money-vectors.json holds this and money.ts to one result.

create function ai.round_half_even(amount numeric, scale integer) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
as $$
declare
  shifted numeric := amount * ('1e' || scale)::numeric;
begin
  -- round() goes away from zero at a tie; only a tie over an even digit differs.
  if abs(shifted - trunc(shifted)) = 0.5 and mod(trunc(shifted), 2) = 0 then
    return trunc(amount, scale);
  end if;
  return round(amount, scale);
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

create function ai.usage_cost_usd(prices jsonb, usage jsonb) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
  set search_path = ''
as $$
declare
  input numeric := coalesce((usage ->> 'input_tokens')::numeric, 0);
  cached numeric := least(coalesce((usage ->> 'cached_input_tokens')::numeric, 0), input);
  audio_input numeric := least(coalesce((usage ->> 'audio_input_tokens')::numeric, 0), input - cached);
  output numeric := coalesce((usage ->> 'output_tokens')::numeric, 0);
  audio_output numeric := least(coalesce((usage ->> 'audio_output_tokens')::numeric, 0), output);
  tier jsonb := prices -> 0;
begin
  -- Tiers stand in ascending order.
  for place in 1..jsonb_array_length(prices) - 1 loop
    exit when (prices -> place ->> 'min_input_tokens')::numeric > input;
    tier := prices -> place;
  end loop;
  return (
    (input - cached - audio_input) * (tier ->> 'input')::numeric
    + cached * coalesce(tier ->> 'cached_input', tier ->> 'input')::numeric
    + audio_input * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
    + (output - audio_output) * (tier ->> 'output')::numeric
    + audio_output * coalesce(tier ->> 'audio_output', tier ->> 'output')::numeric
  ) * 0.000001;
end
$$;
comment on function ai.usage_cost_usd(jsonb, jsonb) is
  'What usage costs at a route''s prices (tiers, USD per million tokens): exact, with at most twelve decimals. Cached '
  'and audio tokens are parts of the input, reasoning and audio tokens parts of the output, as OpenAI counts them.';
revoke execute on function ai.usage_cost_usd(jsonb, jsonb) from public, anon, authenticated;

create table ai.credit_accounts (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid unique,
  user_id uuid unique,
  balance numeric(24, 8) not null default 0,
  reserved numeric(24, 8) not null default 0 check (reserved >= 0),
  created_at timestamptz not null default now(),
  check (num_nonnulls(workspace_id, user_id) = 1)
) with (fillfactor = 50);
comment on table ai.credit_accounts is
  'Balances: of a workspace, or of a person who pays for themselves. No foreign key to either, since accounts and their '
  'ledger outlive them.';
comment on column ai.credit_accounts.balance is
  'The sum of the account''s ledger. Settling at true cost may take it below zero; a reservation never does.';
comment on column ai.credit_accounts.reserved is 'Held by runs that have not settled yet.';

create unique index credit_accounts_owner_idx on ai.credit_accounts (coalesce(workspace_id, user_id));

create table ai.credit_ledger (
  id bigint generated always as identity primary key,
  account_id uuid not null references ai.credit_accounts (id) on delete restrict,
  kind text not null check (kind in ('grant', 'purchase', 'usage', 'adjustment', 'refund')),
  amount numeric(24, 8) not null,
  balance_after numeric(24, 8) not null,
  run_created_at timestamptz,
  run_id uuid,
  description text,
  created_at timestamptz not null default now(),
  check (num_nulls(run_created_at, run_id) in (0, 2)),
  check (kind not in ('usage', 'adjustment') or run_id is not null)
);
comment on table ai.credit_ledger is
  'Every change of every balance, append-only. What is not linked to a run was deducted or given by other means.';
create unique index credit_ledger_one_entry_a_run on ai.credit_ledger (run_id, kind) where run_id is not null;
create index credit_ledger_account_id_idx on ai.credit_ledger (account_id, id desc);

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
