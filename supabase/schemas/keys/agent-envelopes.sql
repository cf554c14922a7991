-- The envelope of a coding agent's connection, which holds all calls of its keys.

-- Returns the lineage of a connection's keys. The first key gets the id of its connection, so that a connection can have
-- an envelope before it has a key.
create or replace function ai.connection_lineage(connection ai.agent_connections) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (select k.lineage_id from ai.keys k where k.connection_id = (connection).id limit 1), (connection).id
  )
$$;

-- Returns the current envelope of a lineage of an agent's keys, or null. It may have ended.
create or replace function ai.lineage_envelope(lineage uuid, workspace uuid) returns ai.envelopes
  language sql stable security invoker set search_path = ''
as $$
  select e
  from ai.envelopes e
  where e.principal_id = lineage and e.workspace_id = workspace and e.label = '' and e.superseded_at is null and e.holds_all
$$;

-- Returns { id, state: open | ended | expired, limitUsd, spentUsd, reservedUsd, maxCalls, calls, endsAt }, or null without
-- an envelope. Amounts are exact text, or null if the workspace hides costs.
create or replace function ai.describe_agent_envelope(envelope ai.envelopes) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (envelope).id,
    'state', ai.envelope_state(envelope, b),
    'limitUsd', case when v.visible then trim_scale(b.limit_usd)::text end,
    'spentUsd', case when v.visible then trim_scale(b.spent_usd)::text end,
    'reservedUsd', case when v.visible then trim_scale(b.reserved_usd)::text end,
    'maxCalls', b.max_calls,
    'calls', b.calls,
    'endsAt', b.ends_at
  )
  from ai.budgets b
  cross join (select ai.cost_visible((envelope).workspace_id) as visible) as v
  where b.scope = 'envelope' and b.subject_id = (envelope).id and b.workspace_id = (envelope).workspace_id
$$;

-- Gives a connection an envelope for all its calls, { usd, calls? }. Keeps an open one with the same amounts. Returns null,
-- or why it was refused, for only a person may change or replace an open one in the studio: { reason: differs | used_up |
-- too_many, id, usd, calls }, with the amounts with which the open envelope was opened.
create or replace function ai.limit_connection(connection ai.agent_connections, envelope jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  lineage constant uuid := ai.connection_lineage(connection);
  opened jsonb;
  found_envelope ai.envelopes;
  budget ai.budgets;
begin
  opened := ai.open_envelope(
    connection.workspace_id, lineage, '', envelope, connection.user_id, key_lineage => lineage
  );
  if opened ->> 'outcome' = 'opened' then
    return null;
  end if;
  if opened ->> 'outcome' = 'too_many' then
    return jsonb_build_object('reason', 'too_many');
  end if;
  select * into found_envelope from ai.envelopes e where e.id = (opened ->> 'id')::uuid;
  select * into budget
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = found_envelope.id and b.workspace_id = found_envelope.workspace_id;
  if not found_envelope.holds_all
    or found_envelope.opened_usd <> (envelope ->> 'usd')::numeric
    or found_envelope.opened_calls is distinct from (envelope ->> 'calls')::bigint then
    opened := jsonb_build_object('reason', 'differs');
  elsif budget.spent_usd >= budget.limit_usd or budget.calls >= budget.max_calls then
    opened := jsonb_build_object('reason', 'used_up');
  else
    return null;
  end if;
  return opened || jsonb_build_object(
    'id', found_envelope.id,
    'usd', trim_scale(found_envelope.opened_usd)::text,
    'calls', found_envelope.opened_calls
  );
end
$$;

-- Ends the envelope of a connection that has ended, so that it is not listed as open.
create or replace function ai.end_connection_envelope(connection ai.agent_connections, actor uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  envelope constant ai.envelopes := ai.lineage_envelope(ai.connection_lineage(connection), connection.workspace_id);
begin
  -- In the order of ai.change_envelope. A call that waits for the lock compares with its own now(), which is earlier.
  update ai.budgets b
  set ends_at = least(b.ends_at, now() - interval '1 minute')
  where b.scope = 'envelope' and b.subject_id = envelope.id and b.workspace_id = envelope.workspace_id
    and b.period = 'total';
  update ai.envelopes e
  set ended_at = now(), ended_by = private.person_or_null(actor)
  where e.id = envelope.id and e.ended_at is null;
end
$$;
