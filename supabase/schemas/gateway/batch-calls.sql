-- Finding the plain calls of a batch: by a key of no app, text in and out, without an idempotency key, and with room in
-- every limit. They are admitted together; ai.admit_call decides about all others, and is the only one that refuses.

create or replace function ai.find_batch_calls(calls jsonb) returns ai.batch_calls
  language plpgsql
  volatile
  security invoker
as $$
declare
  plain ai.batch_calls;
  id_head text := left(ai.run_id(now())::text, 19);
begin
  -- One level of joins, and no subselect: what starts a statement costs more here than what it does.
  select
    array_agg(row(
      c.ordinality, (id_head || coalesce(c.run_id_suffix, right(gen_random_uuid()::text, 17)))::uuid,
      c.request_id, c.feature, c.entity_id, coalesce(c.streamed, false),
      k.workspace_id, k.created_by, k.id, k.lineage_id, k.last_used_at,
      k.requests_per_minute, k.tokens_per_minute,
      least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
      held.budgets, a.id, p.markup, coalesce(w.provider_cost_visible, true), coalesce(w.content_capture, false),
      o.model_id, o.routes, t.input + t.output, ai.offer_maximum_cost_usd(o, t.input, t.output)
    )::ai.batch_call order by c.ordinality),
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
      credential jsonb, address inet, workspace text, request_id text, feature text, entity_id text, run_id_suffix text,
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
  join ai.model_offers o on o.model_id = c.model and o.valid_from <= now() and o.valid_until > now()
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
    and (p.payer = 'workspace' or ai.is_paying_member(k.created_by, k.workspace_id))
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
comment on function ai.find_batch_calls(jsonb) is
  'The calls of a batch that may go on, as far as their keys, policies and models are concerned, and that are plain enough '
  'for ai.admit_batch_calls. Says nothing about the others.';

create or replace function ai.is_paying_member(member uuid, workspace uuid) returns boolean
  language plpgsql
  stable
  security invoker
as $$
begin
  perform from public.workspace_members m where m.workspace_id = workspace and m.user_id = member;
  return found;
end
$$;
comment on function ai.is_paying_member(uuid, uuid) is
  'Whether somebody who pays for themselves is of the workspace. Apart from the query that asks, which is only for some.';

create or replace function ai.admit_batch_calls(
  plain ai.batch_call[], locked ai.locked_rows, has_budgets boolean, out places integer[], out answers text[]
)
  language plpgsql
  volatile
  security invoker
as $$
declare
  over_budget integer[] := '{}';
  held ai.reserved_calls;
  opened record;
begin
  if has_budgets then
    over_budget := ai.batch_calls_over_budget(plain);
  end if;
  held := ai.reserve_rates_and_credits(plain, over_budget, locked);
  opened := ai.open_batch_runs(plain, held);
  places := opened.places;
  answers := opened.answers;
  if has_budgets and places is not null then
    perform ai.reserve_budgets(plain, places);
  end if;
end
$$;
comment on function ai.admit_batch_calls(ai.batch_call[], ai.locked_rows, boolean) is
  'Admits those of some plain calls that all limits, budgets and balances have room for: reserves, opens their runs '
  'and answers as ai.admit_call does, each at its place. The rows that they need are locked. The others are for '
  'ai.admit_call to decide.';

create or replace function ai.batch_calls_over_budget(plain ai.batch_call[]) returns integer[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
  places integer[];
begin
  select array_agg(b.place) into places
  from (
    select
      c.place, x.limit_usd,
      x.reserved_usd + case when x.period_start < month then 0 else x.spent_usd end
        + sum(c.maximum_cost_usd) over (partition by x.scope, x.subject_id, x.workspace_id order by c.place) as used_usd,
      x.scope is null as gone
    from unnest(plain) as c
    cross join unnest(c.budgets) as t (scope)
    left join ai.budgets x
      on x.scope = t.scope
      and x.subject_id = ai.budget_subject(t.scope, c.lineage_id, null, c.workspace_id)
      and x.workspace_id = c.workspace_id
  ) as b
  where b.gone or b.used_usd > b.limit_usd or b.limit_usd = 0;
  return coalesce(places, '{}');
end
$$;
comment on function ai.batch_calls_over_budget(ai.batch_call[]) is
  'The places of calls that some budget has no room for after those before them. Budgets are locked.';
