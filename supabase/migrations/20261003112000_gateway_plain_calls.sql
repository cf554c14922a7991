-- Calls as nearly all are: by a key that stands for no app, of a model by its name, text in and text out, without an
-- idempotency key, and with room for them everywhere. Those of a batch are decided about together: found by one
-- statement, and written by one for each table. Whatever is not plainly so is left to ai.admit, which is the one that
-- refuses: this only admits, and only what ai.admit would.

create type ai.plain_call as (
  place integer,
  run_id uuid,
  request_id text,
  feature text,
  entity_id text,
  streamed boolean,
  workspace_id uuid,
  actor_id uuid,
  key_id uuid,
  lineage_id uuid,
  last_used_at timestamptz,
  key_requests integer,
  key_tokens bigint,
  workspace_requests integer,
  workspace_tokens bigint,
  budgets text[],
  account_id uuid,
  markup numeric(9, 6),
  cost_visible boolean,
  capture boolean,
  model_id text,
  routes jsonb,
  tokens bigint,
  dearest_usd numeric(24, 12)
);
comment on type ai.plain_call is
  'A call that may go on as far as its key, policy and model are concerned: at its place in the batch, with the limits '
  'and budgets that it has to fit, the account that pays, and the dearest that it can get.';

create type ai.lock_list as (
  keys uuid[],
  key_minutes uuid[],
  key_budgets uuid[],
  app_budgets uuid[],
  workspace_minutes uuid[],
  workspace_budgets uuid[],
  budget_workspaces uuid[],
  accounts uuid[],
  payers uuid[]
);
comment on type ai.lock_list is
  'Rows that calls of one batch need, in the order in which everything here locks them; each kind by id. Keys: those '
  'whose use is noted. Budget workspaces: in which the budgets are. Accounts: balances that pay; payers: workspaces and '
  'persons whose balances pay, of calls for which that is not known.';

create type ai.locked_rows as (
  minute_scopes text[],
  minute_subjects uuid[],
  minute_starts timestamptz[],
  minute_requests bigint[],
  minute_tokens bigint[],
  accounts uuid[],
  credits_left numeric[],
  payers_found bigint
);
comment on type ai.locked_rows is
  'Minutes and balances as they are once they are locked, which is as they stay until whoever has them changes them: what '
  'has been used of the minute that is under way, those of keys first; what is left of each balance beside what is held; '
  'and how many of the payers have one.';

create type ai.plain_calls as (calls ai.plain_call[], places integer[], locks ai.lock_list);
comment on type ai.plain_calls is 'The plain calls of a batch, their places in it, and the rows that they need.';

create function ai.may_pay_in(member uuid, workspace uuid) returns boolean
  language plpgsql
  stable
  security invoker
as $$
begin
  perform from public.workspace_members m where m.workspace_id = workspace and m.user_id = member;
  return found;
end
$$;
comment on function ai.may_pay_in(uuid, uuid) is
  'Whether somebody who pays for themselves is of the workspace. Apart from the query that asks, which is only for some.';
revoke execute on function ai.may_pay_in(uuid, uuid) from public, anon, authenticated;

create function ai.find_plain_calls(calls jsonb) returns ai.plain_calls
  language plpgsql
  volatile
  security invoker
as $$
declare
  plain ai.plain_calls;
  id_head text := left(ai.run_id(now())::text, 19);
begin
  -- One level of joins, and no subselect: what starts a statement costs more here than what it does.
  select
    array_agg(row(
      c.ordinality, (id_head || coalesce(c.run_tail, right(gen_random_uuid()::text, 17)))::uuid,
      c.request_id, c.feature, c.entity_id, coalesce(c.streamed, false),
      k.workspace_id, k.created_by, k.id, k.lineage_id, k.last_used_at,
      k.requests_per_minute, k.tokens_per_minute,
      least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
      held.budgets, a.id, p.markup, coalesce(w.provider_cost_visible, true), coalesce(w.content_capture, false),
      o.model_id, o.routes, t.input + t.output, ai.dearest_offered_usd(o, t.input, t.output)
    )::ai.plain_call order by c.ordinality),
    array_agg(c.ordinality),
    row(
      array_agg(k.id) filter (where k.last_used_at is null or k.last_used_at < now() - interval '1 minute'),
      array_agg(distinct k.lineage_id) filter (where num_nonnulls(k.requests_per_minute, k.tokens_per_minute) > 0),
      array_agg(k.lineage_id) filter (where 'key' = any (held.budgets)),
      null,
      array_agg(distinct k.workspace_id) filter (
        where num_nonnulls(p.requests_per_minute, w.requests_per_minute, p.tokens_per_minute, w.tokens_per_minute) > 0
      ),
      array_agg(k.workspace_id) filter (where 'workspace' = any (held.budgets)),
      array_agg(k.workspace_id) filter (where held.budgets is not null),
      array_agg(a.id),
      null
    )::ai.lock_list
  into plain
  from rows from (
    jsonb_to_recordset(calls) as (
      credential jsonb, address inet, workspace text, request_id text, feature text, entity_id text, run_tail text,
      idempotency_key text, kind text, streamed boolean, model text, voice text, providers jsonb, input_bytes bigint,
      images bigint, audio boolean, output_limit bigint, choices bigint
    )
  ) with ordinality as c
  -- As ai.key_caller finds them.
  join ai.keys k on k.secret_hash = decode(c.credential ->> 'hash', 'hex')
  join public.workspaces s on s.id = k.workspace_id
  join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = k.workspace_id
  join ai.credit_accounts a
    on coalesce(a.workspace_id, a.user_id) = case p.payer when 'workspace' then k.workspace_id else k.created_by end
  -- As ai.usable_models and ai.offers find them.
  join ai.model_offers o on o.model_id = c.model and o.holds_from <= now() and o.holds_until > now()
  cross join lateral (
    select
      (c.input_bytes + 2) / 3 + 1500 * coalesce(c.images, 0) as input,
      c.output_limit * coalesce(c.choices, 1) as output
  ) as t
  cross join lateral (
    select array_agg(b.scope order by b.scope) as budgets
    from ai.budgets b
    where b.workspace_id = k.workspace_id
      and b.subject_id = case b.scope when 'key' then k.lineage_id when 'workspace' then k.workspace_id end
  ) as held
  where c.credential ->> 'source' = 'key'
    and c.idempotency_key is null
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())
    and k.external_app_id is null
    and (k.allowed_addresses is null or c.address <<= any (k.allowed_addresses))
    and (c.workspace is null or c.workspace = k.workspace_id::text)
    and s.deleted_at is null
    and (p.payer = 'workspace' or ai.may_pay_in(k.created_by, k.workspace_id))
    and o.kind = c.kind
    and o.kind <> 'speech'
    and p.id = any (o.plans)
    and c.voice is null
    and not coalesce(c.audio, false)
    and (w.allowed_models is null or o.model_id = any (w.allowed_models))
    and not o.model_id = any (coalesce(w.denied_models, '{}'))
    and (k.allowed_models is null or o.model_id = any (k.allowed_models))
    and c.providers @> o.providers;
  return plain;
end
$$;
comment on function ai.find_plain_calls(jsonb) is
  'The calls of a batch that may go on, as far as their keys, policies and models are concerned, and that are plain enough '
  'for ai.admit_plain_calls. Says nothing about the others.';
revoke execute on function ai.find_plain_calls(jsonb) from public, anon, authenticated;
