-- Envelopes: limits of one task, which its owner can raise or end while it runs.
set lock_timeout = '500ms';

create table ai.envelopes (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  principal_id uuid not null,
  label text not null default '' check (label ~ '^[A-Za-z0-9._:-]{0,128}$'),
  holds_all boolean not null default false,
  key_lineage_id uuid,
  actor_id uuid,
  opened_usd numeric(24, 12) not null check (opened_usd > 0),
  opened_calls bigint check (opened_calls > 0),
  ttl_seconds integer check (ttl_seconds > 0),
  opened_at timestamptz not null default now(),
  opened_by uuid references auth.users (id) on delete set null,
  ended_at timestamptz,
  ended_by uuid references auth.users (id) on delete set null,
  superseded_at timestamptz
);
comment on table ai.envelopes is
  'Limits of one session, task or label of a key or person. The amounts and counts are in ai.budgets with scope envelope.';
comment on column ai.envelopes.principal_id is
  'The lineage of the key whose calls the envelope holds, or the person whose own calls it holds.';
comment on column ai.envelopes.label is
  'The label or session of the calls that it holds. Empty: calls that name the envelope, or all of the principal''s with holds_all.';
comment on column ai.envelopes.holds_all is 'Whether a person opened it for all calls of the principal, with any label or none.';
comment on column ai.envelopes.actor_id is 'The creator of the key, or the person: the owner, who may raise and end it.';
comment on column ai.envelopes.opened_usd is
  'The amount with which it was opened. A call that joins it must name this amount, even after it was raised.';
comment on column ai.envelopes.opened_by is 'The person who opened it. Null if a call did.';
comment on column ai.envelopes.ended_at is 'When a person ended it. Its end time is in ai.budgets.ends_at.';
comment on column ai.envelopes.superseded_at is 'When a person opened another one in its place.';
create unique index envelopes_current_idx on ai.envelopes (principal_id, workspace_id, label) where superseded_at is null;
create index envelopes_workspace_id_opened_at_idx on ai.envelopes (workspace_id, opened_at desc, id);
create index envelopes_opened_at_idx on ai.envelopes (opened_at);
create index envelopes_opened_by_idx on ai.envelopes (opened_by);
create index envelopes_ended_by_idx on ai.envelopes (ended_by);
select private.protect_table('ai.envelopes');
revoke insert, update, delete, truncate on ai.envelopes from service_role;
