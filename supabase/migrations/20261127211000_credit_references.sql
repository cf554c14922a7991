set lock_timeout = '500ms';

create table ai.credit_references (
  account_id uuid not null,
  reference text not null check (char_length(reference) between 1 and 120 and reference !~ '[[:cntrl:]]'),
  amount numeric(24, 8) not null,
  entry_id bigint not null,
  created_at timestamptz not null default now(),
  primary key (account_id, reference)
);
comment on table ai.credit_references is
  'The references of grants and withdrawals: each is used once per account. Apart from ai.credit_ledger, so that the '
  'entries of settlements pay for no further index. Append-only; no foreign keys, as in the ledger.';
comment on column ai.credit_references.amount is 'As in the ledger entry. Negative: a withdrawal.';
create unique index credit_references_entry_idx on ai.credit_references (account_id, entry_id);
select private.protect_table('ai.credit_references');
create trigger reject_reference_change before update or delete on ai.credit_references
  for each row execute function ai.reject_ledger_change();
comment on trigger reject_reference_change on ai.credit_references is 'Append-only, as the ledger: a reference stays used.';

create type ai.credit_level as enum ('funded', 'low', 'empty');
comment on type ai.credit_level is 'How much is left of a balance, in the order of urgency.';

create table ai.credit_alerts (
  account_id uuid primary key,
  level ai.credit_level not null,
  threshold numeric not null,
  crossed_at timestamptz not null default now(),
  posted_at timestamptz
);
comment on table ai.credit_alerts is
  'The most urgent level that a balance has reached since its last top-up, and whether the emails about it are queued. No '
  'foreign key to ai.credit_accounts, which would lock rows that calls wait for.';
comment on column ai.credit_alerts.threshold is 'In credits, as it was when the level was recorded.';
comment on column ai.credit_alerts.posted_at is 'Null: the emails about this level are not queued yet.';
create index credit_alerts_unposted_idx on ai.credit_alerts (crossed_at) where posted_at is null;
select private.protect_table('ai.credit_alerts');

alter table ai.plans add column low_credits numeric(24, 8);
alter table ai.plans add constraint plans_low_credits_check check (low_credits >= 0) not valid;
comment on column ai.plans.low_credits is
  'Below this balance a payer is warned. 0: never. Null: a tenth of the initial credits, or 10,000 where there are none.';

alter table ai.credit_accounts add column refused_at timestamptz;
comment on column ai.credit_accounts.refused_at is
  'When a call was last refused for lack of credits, to the minute. Null after a top-up.';
