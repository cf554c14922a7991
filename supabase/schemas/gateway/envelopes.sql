-- The envelopes that calls open and join, and what their callers may read of them.

-- Returns the principal whose envelopes hold a caller's calls: the lineage of its key, the person, or for a person's calls
-- through an app an id made of both, so that one app's envelopes don't hold the calls of others.
create or replace function ai.envelope_principal(caller ai.caller) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case
    when (caller).lineage_id is not null then (caller).lineage_id
    when (caller).app_id is not null then ai.label_id((caller).app_id::text || '/' || (caller).actor_id::text)
    else (caller).actor_id
  end
$$;

-- Opens the envelopes that calls name and that don't exist yet. A call whose principal has 1,000 open envelopes opens
-- none. In the order of the unique key, so that two batches can't deadlock.
create or replace function ai.open_named_envelopes(claims ai.claim[]) returns void
  language sql volatile security invoker
as $$
  with named as (
    select distinct on (n.principal_id, n.workspace_id, n.label) n.*
    from (
      select
        ai.envelope_principal(c.caller) as principal_id, (c.caller).workspace_id, coalesce(c.label, '') as label,
        (c.caller).lineage_id, (c.caller).actor_id, ((c.request).envelope ->> 'usd')::numeric as usd,
        ((c.request).envelope ->> 'calls')::bigint as max_calls,
        ((c.request).envelope ->> 'ttl_seconds')::integer as ttl_seconds,
        c.ordinality
      from unnest(claims) with ordinality as c
      where c.refusal is null and c.envelope_id is null and (c.request).envelope is not null
    ) as n
    order by n.principal_id, n.workspace_id, n.label, n.ordinality
  ),
  principals as materialized (
    select p.principal_id, p.workspace_id, ai.open_envelope_count(p.workspace_id, p.principal_id) as open
    from (select distinct n.principal_id, n.workspace_id from named n) as p
  ),
  opened as (
    insert into ai.envelopes (
      workspace_id, principal_id, label, key_lineage_id, actor_id, opened_usd, opened_calls, ttl_seconds
    )
    select n.workspace_id, n.principal_id, n.label, n.lineage_id, n.actor_id, n.usd, n.max_calls, n.ttl_seconds
    from named n
    join principals p on p.principal_id = n.principal_id and p.workspace_id = n.workspace_id and p.open < 1000
    order by n.principal_id, n.workspace_id, n.label
    on conflict (principal_id, workspace_id, label) where superseded_at is null do nothing
    returning *
  )
  insert into ai.budgets (
    scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at, thresholds
  )
  select
    -- Without a start, so that a run counts whose transaction began before the one that opened the envelope.
    'envelope', o.id, o.workspace_id, 'total', o.opened_usd, o.opened_calls, '-infinity',
    o.opened_at + coalesce(o.ttl_seconds * interval '1 second', interval '30 days'), '{100}'
  from opened o
$$;

-- Refuses the calls that name an envelope which could not be opened.
create or replace function ai.refuse_unopened_envelopes(claims ai.claim[]) returns ai.claim[]
  language plpgsql stable security invoker
as $$
begin
  for place in 1..cardinality(claims) loop
    if claims[place].refusal is null and claims[place].envelope_id is null
      and (claims[place].request).envelope is not null and (claims[place].request).is_free is not true then
      claims[place].refusal := ai.refusal(
        'invalid_request', '{"param": "X-Platform-Envelope", "envelope": {"open": 1000}}'
      );
    end if;
  end loop;
  return claims;
end
$$;

-- Returns the refusal of a call that names other amounts than its envelope was opened with, or for which no envelope
-- could be opened; otherwise null.
create or replace function ai.named_envelope_refusal(request ai.run_request, envelope ai.envelopes) returns jsonb
  language sql stable security invoker
as $$
  -- Without a condition of its own, so that Postgres inlines it into the query that prices a batch.
  select case
    when (request).envelope is not null and (
      ((request).envelope ->> 'usd')::numeric is distinct from (envelope).opened_usd
      or ((request).envelope ->> 'calls')::bigint is distinct from (envelope).opened_calls
      or ((request).envelope ->> 'ttl_seconds')::integer is distinct from (envelope).ttl_seconds
    ) then ai.refusal('invalid_request', jsonb_build_object('param', 'X-Platform-Envelope', 'envelope', jsonb_strip_nulls(
      jsonb_build_object(
        'id', (envelope).id, 'usd', trim_scale((envelope).opened_usd), 'calls', (envelope).opened_calls,
        'ttl_seconds', (envelope).ttl_seconds
      )
    )))
  end
$$;

-- Returns an envelope as a refusal states it. ai.explain_refusal completes it for the caller.
create or replace function ai.envelope_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'envelope',
    'workspace_id', (budget).workspace_id,
    'state', (select ai.envelope_state(e, budget) from ai.envelopes e where e.id = (budget).subject_id)
  ) || ai.envelope_room(budget, true)
$$;

-- Returns the envelopes with the given ids, for calls that wait for them or run in them. Unknown ids are left out.
-- Definer: gateway has no grant on any table. begin_runs returned the ids.
create or replace function ai.read_envelopes(ids jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(ai.envelope_summary(e, true)), '[]')
  from jsonb_array_elements_text(ids) as i (id)
  join ai.envelopes e on e.id = i.id::uuid
$$;

-- Returns the envelope with the id in the call's envelope_id, for a caller that is its principal, or {refused: code}.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.read_own_envelope(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
begin
  return coalesce(
    refusal,
    (
      select ai.envelope_summary(e, caller.app_id is not null or caller.cost_visible)
      from ai.envelopes e
      where e.id = (call ->> 'envelope_id')::uuid and e.workspace_id = caller.workspace_id
        and e.principal_id = ai.envelope_principal(caller)
    ),
    ai.refusal('envelope_not_found')
  );
end
$$;
