-- Envelopes for people: who sees them, and how they are opened, raised and ended. The gateway's part is in
-- gateway/envelopes.sql. Pages call an envelope a task limit.

-- Returns which envelopes of a workspace a member sees and changes: all with manage_ai_policy or manage_ai_keys, own
-- with use_ai_studio (those of their keys, agents and sessions), or null.
create or replace function ai.envelope_access(member_id uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
      or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then 'all'
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then 'own'
  end
$$;

-- Returns a page of a workspace's envelopes in the given states (open, ended, expired), newest first. Returns { outcome:
-- read, costVisible, envelopes } or { outcome: not_allowed }. before is the position of the last envelope on the previous
-- page. waiting selects only envelopes that wait for a decision (true) or that don't (false).
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_envelopes(
  member_id uuid, workspace uuid, states text[], before jsonb, page_size integer, waiting boolean default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  before_at timestamptz := (before ->> 'createdAt')::timestamptz;
  before_id uuid := (before ->> 'id')::uuid;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'costVisible', visible,
    'envelopes', (
      select coalesce(
        jsonb_agg(ai.envelope_details(p.envelope, p.budget, visible) order by (p.envelope).opened_at desc, (p.envelope).id),
        '[]'
      )
      from (
        select e as envelope, b as budget
        from ai.envelopes e
        join ai.budgets b
          on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id and b.period = 'total'
        cross join lateral (select ai.envelope_state(e, b) as state) as s
        where e.workspace_id = workspace
          and (access = 'all' or e.actor_id = member_id)
          and s.state = any (states)
          and (list_envelopes.waiting is null or (s.state = 'open' and b.refused_at is not null) = list_envelopes.waiting)
          and (before is null or (e.opened_at <= before_at and (e.opened_at < before_at or e.id > before_id)))
        order by e.opened_at desc, e.id
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns the page of a workspace's envelopes: those that wait for a decision, the other open ones, and past ones in the
-- given states. With keys, also the keys for which the member can open one.
-- Definer: as ai.list_envelopes.
create or replace function ai.read_envelopes_page(
  member_id uuid, workspace uuid, past_states text[], open_before jsonb, past_before jsonb, page_size integer,
  with_keys boolean
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
begin
  return jsonb_build_object(
    'seesAll', coalesce(access = 'all', false),
    'waiting', ai.list_envelopes(member_id, workspace, '{open}', null, page_size, true),
    'open', ai.list_envelopes(member_id, workspace, '{open}', open_before, page_size, false),
    'past', ai.list_envelopes(member_id, workspace, past_states, past_before, page_size),
    'keys', case
      when with_keys and access is not null then (
        select coalesce(jsonb_agg(jsonb_build_object('id', k.lineage_id, 'name', k.name) order by k.name, k.lineage_id), '[]')
        from (
          select distinct on (k.lineage_id) k.lineage_id, k.name
          from ai.keys k
          where k.workspace_id = workspace and (access = 'all' or k.created_by = member_id) and ai.has_calling_key(k)
          order by k.lineage_id, k.created_at desc
        ) as k
      )
      else '[]'
    end
  );
end
$$;

-- Returns whether a key can make calls, or its coding agent can renew it.
create or replace function ai.has_calling_key(key ai.keys) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select (key).revoked_at is null
    and ((key).connection_id is not null or (key).expires_at is null or (key).expires_at > now())
$$;

-- Returns one envelope with its history: { outcome: read, costVisible, envelope, history }, not_allowed, or not_found,
-- which includes envelopes of other members that this member may not see.
-- Definer: as ai.list_envelopes.
create or replace function ai.read_envelope(member_id uuid, workspace uuid, envelope_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  details jsonb;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select ai.envelope_details(e, b, visible) into details
  from ai.envelopes e
  join ai.budgets b
    on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id and b.period = 'total'
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'costVisible', visible,
    'envelope', details,
    'history', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', l.id,
        'actorId', l.actor_id,
        'actor', private.actor_name(l.actor_id),
        'action', l.action,
        'subjectId', l.subject_id,
        'subject', l.subject,
        'details', l.details,
        'at', ai.utc_text(l.created_at)
      ) order by l.id desc), '[]')
      from (
        select l.*
        from public.workspace_audit_log l
        where l.workspace_id = workspace and l.subject_id = envelope_id and l.action like 'envelope.%'
        order by l.id desc
        limit 50
      ) as l
    )
  );
end
$$;

-- Changes one envelope. changes may have limitUsd, calls and endsAt, or ended: true, which ends the envelope for good. A
-- later endsAt resumes an expired one. Raising an amount or extending the end requires a recent proof of identity
-- (is_fresh). read_version is the version that the member saw; ending ignores it. Outcomes: changed, unchanged,
-- changed_meanwhile and ended (all with the envelope), step_up_required, bad_end, not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes envelopes, which the service role can't do itself.
create or replace function ai.change_envelope(
  member_id uuid, workspace uuid, envelope_id uuid, changes jsonb, read_version text, is_fresh boolean
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  ends boolean := coalesce((changes ->> 'ended')::boolean, false);
  envelope ai.envelopes;
  old_budget ai.budgets;
  new_budget ai.budgets;
  raises boolean;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform from ai.envelopes e
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The order of ai.lock_rows holds: one budget, then the envelope, which calls and ai.open_envelope don't lock before a
  -- budget.
  select * into old_budget
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  for no key update;
  select * into envelope from ai.envelopes e where e.id = envelope_id for no key update;
  if old_budget.subject_id is null or envelope.id is null then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if envelope.ended_at is not null or envelope.superseded_at is not null then
    return jsonb_build_object(
      'outcome', case when ends and envelope.ended_at is not null then 'unchanged' else 'ended' end,
      'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  if not ends and read_version is distinct from ai.envelope_version(envelope, old_budget) then
    return jsonb_build_object(
      'outcome', 'changed_meanwhile', 'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  new_budget := old_budget;
  if ends then
    -- A call that waits for the lock compares with its own now(), which is earlier.
    new_budget.ends_at := least(old_budget.ends_at, now() - interval '1 minute');
  else
    if changes ? 'limitUsd' then
      new_budget.limit_usd := (changes ->> 'limitUsd')::numeric;
    end if;
    if changes ? 'calls' then
      new_budget.max_calls := (changes ->> 'calls')::bigint;
    end if;
    if changes ? 'endsAt' then
      new_budget.ends_at := (changes ->> 'endsAt')::timestamptz;
    end if;
    if new_budget = old_budget then
      return jsonb_build_object('outcome', 'unchanged', 'envelope', ai.envelope_details(envelope, old_budget, visible));
    end if;
    if new_budget.ends_at <> old_budget.ends_at and not ai.is_envelope_end(new_budget.ends_at) then
      return jsonb_build_object('outcome', 'bad_end');
    end if;
  end if;
  raises := new_budget.limit_usd > old_budget.limit_usd
    or (new_budget.max_calls is null and old_budget.max_calls is not null)
    or coalesce(new_budget.max_calls > old_budget.max_calls, false)
    or new_budget.ends_at > old_budget.ends_at;
  if raises and not is_fresh then
    return jsonb_build_object('outcome', 'step_up_required');
  end if;
  update ai.budgets b
  set
    limit_usd = new_budget.limit_usd,
    max_calls = new_budget.max_calls,
    ends_at = new_budget.ends_at,
    -- The refused call may now fit.
    refused_at = case when not raises then b.refused_at end
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  returning * into new_budget;
  if ends then
    update ai.envelopes e set ended_at = now(), ended_by = private.person_or_null(member_id) where e.id = envelope_id
    returning * into envelope;
  elsif raises then
    perform ai.reset_budget_alert('envelope', envelope_id, workspace, 'total');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, case when ends then 'envelope.ended' else 'envelope.changed' end, envelope_id, ai.envelope_name(envelope),
    case
      when ends then '{}'
      else jsonb_build_object('before', ai.envelope_limits(old_budget), 'after', ai.envelope_limits(new_budget))
    end
  );
  return jsonb_build_object('outcome', 'changed', 'envelope', ai.envelope_details(envelope, new_budget, visible));
end
$$;

-- Opens an envelope for a key's calls or, without a key, for the member's own calls. limits has limitUsd and optionally
-- calls and endsAt. Without a label, it holds every call of the key or member. Replaces an ended or expired one. The
-- caller must have checked that the proof of identity is recent. Outcomes: opened and exists (both with the envelope),
-- too_many, bad_end, bad_label, not_active, not_allowed, not_found. Logs the opening.
-- Definer: as ai.change_envelope.
create or replace function ai.open_envelope_for_member(
  member_id uuid, workspace uuid, key_id uuid, label text, limits jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  end_time timestamptz := (limits ->> 'endsAt')::timestamptz;
  key ai.keys;
  opening jsonb;
  envelope ai.envelopes;
  budget ai.budgets;
begin
  -- A service account makes no calls of its own.
  if access is null or key_id is null and (
    not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
    or private.person_or_null(member_id) is null
  ) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if key_id is not null then
    select * into key
    from ai.keys k
    where k.id = key_id and k.workspace_id = workspace and (access = 'all' or k.created_by = member_id);
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
    if not exists (select from ai.keys k where k.lineage_id = key.lineage_id and ai.has_calling_key(k)) then
      return jsonb_build_object('outcome', 'not_active');
    end if;
    -- Every call of the key has the key's label, so an envelope with another one would hold nothing.
    if key.entity_id is not null and label not in ('', key.entity_id) then
      return jsonb_build_object('outcome', 'bad_label');
    end if;
  end if;
  if not coalesce(ai.is_envelope_end(end_time), true) then
    return jsonb_build_object('outcome', 'bad_end');
  end if;
  opening := ai.open_envelope(
    workspace, coalesce(key.lineage_id, member_id), label,
    jsonb_build_object('usd', limits ->> 'limitUsd', 'calls', limits -> 'calls'),
    opened_by => member_id, key_lineage => key.lineage_id, owner => key.created_by, ends_at => end_time
  );
  if opening ->> 'outcome' = 'too_many' then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  select * into envelope from ai.envelopes e where e.id = (opening ->> 'id')::uuid;
  select * into budget from ai.budgets b where b.scope = 'envelope' and b.subject_id = envelope.id;
  if opening ->> 'outcome' = 'opened' then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(
      workspace, 'envelope.opened', envelope.id, ai.envelope_name(envelope),
      jsonb_build_object('after', ai.envelope_limits(budget))
    );
  end if;
  return jsonb_build_object(
    'outcome', opening ->> 'outcome', 'envelope', ai.envelope_details(envelope, budget, visible)
  );
end
$$;

-- Returns whether an envelope may be made to end at a time: within a year from now. Null without a time.
create or replace function ai.is_envelope_end(end_time timestamptz) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select end_time > now() and end_time <= now() + interval '366 days'
$$;

-- Returns an envelope's name for lists and the activity: its label, else the name of the key or person.
create or replace function ai.envelope_name(envelope ai.envelopes) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(nullif((envelope).label, ''), ai.principal_of_envelope(envelope) ->> 'name')
$$;

-- Returns the key or person whose calls an envelope holds: { kind, id, name }. The name is null once it is deleted.
create or replace function ai.principal_of_envelope(envelope ai.envelopes) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'kind', x.kind, 'id', (envelope).principal_id,
    'name', ai.budget_name(x.kind, (envelope).principal_id, (envelope).workspace_id)
  )
  from (select case when (envelope).key_lineage_id is null then 'member' else 'key' end as kind) as x
$$;

-- Returns the limits of an envelope for its history, as exact text.
create or replace function ai.envelope_limits(budget ai.budgets) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'calls', (budget).max_calls,
    'endsAt', ai.utc_text_microseconds((budget).ends_at)
  )
$$;

-- Returns a text that differs after each change of an envelope's limits or state, so that a change made from an older
-- state can be refused.
create or replace function ai.envelope_version(envelope ai.envelopes, budget ai.budgets) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(ai.envelope_limits(budget)::text || coalesce((envelope).ended_at::text, ''))
$$;

-- Returns an envelope for members. Amounts are exact text. What was spent is null if the workspace hides provider cost.
-- waiting: a call was refused since the limits were last raised.
create or replace function ai.envelope_details(envelope ai.envelopes, budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.envelope_limits(budget) || jsonb_build_object(
    'id', (envelope).id,
    'version', ai.envelope_version(envelope, budget),
    'state', s.state,
    'waiting', s.state = 'open' and (budget).refused_at is not null,
    'principal', ai.principal_of_envelope(envelope),
    'keyId', (
      select k.id from ai.keys k
      where k.lineage_id = (envelope).key_lineage_id and k.workspace_id = (envelope).workspace_id
      order by k.created_at desc, k.id desc limit 1
    ),
    'owner', (select p.display_name from public.profiles p where p.id = (envelope).actor_id),
    'label', (envelope).label,
    'holdsAll', (envelope).holds_all,
    'openedUsd', trim_scale((envelope).opened_usd)::text,
    'openedCalls', (envelope).opened_calls,
    'openedAt', ai.utc_text_microseconds((envelope).opened_at),
    'openedBy', private.actor_name(coalesce((envelope).opened_by, (envelope).service_account_id)),
    'endedAt', ai.utc_text((envelope).ended_at),
    'endedBy', (select p.display_name from public.profiles p where p.id = (envelope).ended_by),
    'replaced', (envelope).superseded_at is not null,
    'lastRefusedAt', ai.utc_text((budget).refused_at),
    'usedCalls', (budget).calls,
    'remainingCalls', greatest((budget).max_calls - (budget).calls, case when (budget).max_calls is not null then 0 end),
    'spentUsd', case when cost_visible then trim_scale((budget).spent_usd)::text end,
    'reservedUsd', case when cost_visible then trim_scale((budget).reserved_usd)::text end,
    'remainingUsd', case
      when cost_visible then trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))::text
    end
  )
  from (select ai.envelope_state(envelope, budget) as state) as s
$$;
