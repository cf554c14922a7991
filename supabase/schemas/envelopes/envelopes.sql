-- Envelopes: hard limits of one task, session or label. Calls open and join them; only people raise and end them.

-- Returns the envelope that holds a call with the given label: one that a person opened for all of the principal's calls,
-- otherwise the one of the label. An envelope without a label holds only the calls that name an envelope.
create or replace function ai.find_envelope(workspace uuid, principal uuid, label text, names_envelope boolean)
  returns setof ai.envelopes
  language sql stable security invoker
as $$
  -- Each lookup has the whole unique key, so that a principal's other envelopes and wrong statistics cost nothing.
  select e.*
  from (values (''), (nullif(find_envelope.label, ''))) as l (label)
  cross join lateral (
    select c.*
    from ai.envelopes c
    where c.principal_id = principal and c.workspace_id = workspace and c.label = l.label and c.superseded_at is null
    offset 0
  ) as e
  where e.label <> '' or e.holds_all or names_envelope and coalesce(find_envelope.label, '') = ''
  order by e.holds_all desc
  limit 1
$$;

-- Returns the number of a principal's open envelopes, at most 1,000. Reads only the newest 2,000, so that many expired ones
-- don't make it slow.
create or replace function ai.open_envelope_count(workspace uuid, principal uuid) returns bigint
  language sql stable security invoker
as $$
  select least(count(*), 1000)
  from (
    select e.id
    from ai.envelopes e
    where e.principal_id = principal and e.workspace_id = workspace and e.superseded_at is null and e.ended_at is null
    order by e.opened_at desc
    limit 2000
  ) as e
  -- Finds each budget by the envelope's id, even if the statistics are wrong: a condition on the workspace could lead to
  -- reading all its budgets.
  cross join lateral (
    select b.ends_at from ai.budgets b where b.scope = 'envelope' and b.subject_id = e.id offset 0
  ) as b
  where b.ends_at > now()
$$;

-- Opens an envelope for a person or service account, for the calls of a key's lineage or for a person's own. Without a
-- label, it holds all calls of the principal. Takes the place of an envelope that has ended. Returns { outcome: opened |
-- exists | too_many, id }. Callers have checked what the person or service account may do.
create or replace function ai.open_envelope(
  workspace uuid, principal uuid, label text, envelope jsonb, opened_by uuid, key_lineage uuid default null,
  owner uuid default null, ends_at timestamptz default null
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
#variable_conflict use_column
declare
  existing ai.envelopes;
  opened ai.envelopes;
  new_label text := coalesce(open_envelope.label, '');
  person uuid := private.person_or_null(open_envelope.opened_by);
begin
  -- Serializes people who open one for the same principal. A call that opens the same one waits at the unique key.
  perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'ai.open_envelope', workspace, principal), 0));
  select * into existing
  from ai.envelopes e
  where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null
  for update;
  if found then
    perform from ai.budgets b
    where b.scope = 'envelope' and b.subject_id = existing.id and b.workspace_id = workspace and b.ends_at > now();
    if found then
      return jsonb_build_object('outcome', 'exists', 'id', existing.id);
    end if;
    update ai.envelopes e set superseded_at = now() where e.id = existing.id;
  end if;
  if ai.open_envelope_count(workspace, principal) >= 1000 then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  insert into ai.envelopes (
    workspace_id, principal_id, label, holds_all, key_lineage_id, actor_id, opened_usd, opened_calls, ttl_seconds,
    opened_by, service_account_id
  )
  values (
    workspace, principal, new_label, new_label = '', key_lineage, coalesce(owner, person),
    (envelope ->> 'usd')::numeric, (envelope ->> 'calls')::bigint, (envelope ->> 'ttl_seconds')::integer, person,
    private.service_account_or_null(open_envelope.opened_by)
  )
  on conflict do nothing
  returning * into opened;
  if not found then
    -- A call has opened it since it was read.
    select * into existing
    from ai.envelopes e
    where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null;
    return jsonb_build_object('outcome', 'exists', 'id', existing.id);
  end if;
  insert into ai.budgets (scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at, thresholds)
  values (
    'envelope', opened.id, workspace, 'total', opened.opened_usd, opened.opened_calls, '-infinity',
    coalesce(
      open_envelope.ends_at,
      opened.opened_at + coalesce(opened.ttl_seconds * interval '1 second', interval '30 days')
    ),
    '{100}'
  );
  return jsonb_build_object('outcome', 'opened', 'id', opened.id);
end
$$;

-- Returns open, ended by a person, or expired.
create or replace function ai.envelope_state(envelope ai.envelopes, budget ai.budgets) returns text
  language sql stable security invoker
as $$
  select case
    when (envelope).ended_at is not null then 'ended'
    when (budget).ends_at <= now() then 'expired'
    else 'open'
  end
$$;

-- Returns what an envelope allows and what is left of it. Amounts only if the reader may see cost.
create or replace function ai.envelope_room(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'limit_usd', case when cost_visible then trim_scale((budget).limit_usd) end,
    'spent_usd', case when cost_visible then trim_scale((budget).spent_usd) end,
    'reserved_usd', case when cost_visible then trim_scale((budget).reserved_usd) end,
    'remaining_usd', case
      when cost_visible then trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))
    end,
    'max_calls', (budget).max_calls,
    'calls', (budget).calls,
    'remaining_calls', case when (budget).max_calls is not null then greatest((budget).max_calls - (budget).calls, 0) end,
    'ends_at', ai.utc_text((budget).ends_at)
  ))
$$;

-- Returns an envelope: { id, label, state } and what is left of it.
create or replace function ai.envelope_summary(envelope ai.envelopes, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('id', (envelope).id, 'label', (envelope).label, 'state', ai.envelope_state(envelope, b))
    || ai.envelope_room(b, cost_visible)
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = (envelope).id and b.workspace_id = (envelope).workspace_id
$$;
