-- Admits or refuses calls, reserves their maximum cost and opens their runs. Refusals are returned and never raised.

-- Admits or refuses calls independently. Reserves the maximum cost of each admitted call and opens its run. Takes {"calls": [call], "wait_ms": number, "lock_wait_ms": number}.
-- wait_ms is how long the gateway waits for the result. lock_wait_ms limits the wait for each lock; without it, the
-- limit of the role applies. Returns a JSON array in the order of the calls: each run with its routes and prices, or
-- {refused: code, …}.
-- Atomic: if the function raises an error, it reserves nothing and opens no run. Raises cardinality_violation if two
-- calls that fit have the same idempotency key; the gateway then sends them apart.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential, never from an id in the
-- call.
create or replace function ai.begin_runs(calls jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  lock_limit text := set_config(
    'lock_timeout', coalesce(calls ->> 'lock_wait_ms', current_setting('lock_timeout')), true
  );
begin
  return '[' || array_to_string(
    ai.begin_calls(calls -> 'calls', (calls ->> 'wait_ms')::integer * interval '1 millisecond'), ','
  ) || ']';
end
$$;

-- Admits calls with ai.admit_calls. Raises query_canceled if that took so long that the gateway no longer waits for the
-- result.
create or replace function ai.begin_calls(calls jsonb, wait_limit interval) returns text[]
  language plpgsql volatile security invoker
as $$
declare
  -- Gets the transaction's id before any lock is waited for. The sweep knows by this id whether a run that began earlier
  -- may still appear, and allows 5 seconds between the start of the transaction and its id.
  transaction_id xid8 := pg_current_xact_id();
  answers text[];
begin
  if clock_timestamp() - now() > interval '4 seconds' then
    raise exception 'too late for a transaction to begin a run' using errcode = 'query_canceled';
  end if;
  -- Locks each run until the transaction ends. ai.release_orphaned_runs tries the same locks to see which runs may
  -- still begin.
  perform pg_advisory_xact_lock(s.key)
  from (select hashtextextended(c ->> 'run_id_suffix', 1) as key from jsonb_array_elements(calls) as c order by key) as s;
  answers := ai.admit_calls(calls);
  if clock_timestamp() - statement_timestamp() > wait_limit then
    raise exception 'too late for a run to begin' using errcode = 'query_canceled';
  end if;
  return answers;
end
$$;

-- Prices the calls, reserves their maximum costs and opens the runs of those that fit. Returns the results of
-- ai.begin_runs, in the order of the calls.
create or replace function ai.admit_calls(calls jsonb) returns text[]
  language plpgsql volatile security invoker
  -- Every query finds its rows by key. These settings force index lookups in a generic plan, so that wrong statistics
  -- can't lead to a slow plan, and avoid hash tables, which are slow to create for a few rows.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_material = off set enable_hashagg = off set enable_memoize = off set jit = off
as $$
declare
  claims ai.claim[] := ai.price_calls(calls);
  claim ai.claim;
  opens_accounts boolean := false;
  opens_envelopes boolean := false;
  stores_keys boolean := false;
  answers text[] := '{}';
  -- Many refusals in one batch are a storm. Suggestions for all of them would hold the locks of admitted calls for long.
  max_suggestions constant integer := 4;
  suggestions integer := 0;
begin
  foreach claim in array claims loop
    opens_accounts := opens_accounts
      or claim.refusal is null and claim.account_id is null and ai.payer_id(claim.caller) is not null;
    opens_envelopes := opens_envelopes
      or claim.refusal is null and claim.envelope_id is null and (claim.request).envelope is not null
        and (claim.request).is_free is not true;
    stores_keys := stores_keys or (claim.request).idempotency_key is not null;
  end loop;
  if opens_envelopes then
    perform ai.open_named_envelopes(claims);
  end if;
  if opens_accounts then
    -- In the order of their owners' ids, so that two batches can't deadlock.
    perform ai.open_credit_account(o.payer, o.id, o.initial_credits)
    from (
      select distinct (c.caller).payer, ai.payer_id(c.caller) as id, (c.caller).initial_credits
      from unnest(claims) as c
      where c.refusal is null and c.account_id is null and ai.payer_id(c.caller) is not null
      order by 2
    ) as o;
  end if;
  if opens_accounts or opens_envelopes then
    claims := ai.price_calls(calls);
  end if;
  if opens_envelopes then
    claims := ai.refuse_unopened_envelopes(claims);
  end if;
  claims := ai.reserve(claims);
  for place in 1..cardinality(claims) loop
    if claims[place].refusal is not null then
      claims[place].refusal := ai.explain_refusal(claims[place], with_suggestions => suggestions < max_suggestions);
      suggestions := suggestions + 1;
    end if;
    answers[place] := claims[place].refusal::text;
  end loop;
  if array_position(answers, null) is null then
    return answers;
  end if;
  with opened as (
    insert into ai.runs (
      id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits,
      budget_scopes, envelope_id, reserved_tokens, tokens_reserved_at, expected_usd, expected_scopes
    )
    select
      c.run_id, (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, case (c.caller).source when 'key' then 'background' else 'interactive' end,
      (c.request).feature, (c.request).request_id, c.label, (c.request).idempotency_key,
      coalesce((c.request).streamed, false), c.model_id, c.routes, (c.caller).markup, ai.payer_id(c.caller) is null,
      c.account_id, c.cost_usd, c.credits, c.budget_scopes, c.envelope_id, c.tokens, case when c.tokens is not null then c.minute end,
      case when c.expected_scopes is not null then c.expected_usd end, c.expected_scopes
    from unnest(claims) as c
    where c.refusal is null
  )
  select
    -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
    array_agg(coalesce(c.refusal::text, format(
      '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,'
      '"credits_per_usd":"%s","exempt":%s,"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,'
      '"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s,'
      '"envelope":%s,"expected_output":%s}',
      c.run_id, to_json(now()), (c.caller).workspace_id, to_json(c.model_id), coalesce(c.context_window::text, 'null'),
      coalesce(to_json(c.voice), 'null'), c.routes, ai.credits_per_usd((c.caller).markup),
      (ai.payer_id(c.caller) is null)::text, c.cost_usd, c.credits, coalesce(c.tokens::text, 'null'),
      coalesce(c.output_limit::text, 'null'), (ai.payer_id(c.caller) is null or (c.caller).cost_visible)::text,
      (c.caller).capture::text, c.limits, coalesce(to_json((c.caller).key_name), 'null'),
      coalesce((c.caller).is_strict, false)::text, coalesce(c.envelope::text, 'null'),
      coalesce(case when c.expected_scopes is not null then c.expected_output end::text, 'null')
    )) order by c.ordinality)
  into answers
  from unnest(claims) with ordinality as c;
  if stores_keys then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    select
      (c.caller).workspace_id, ai.principal_id(c.caller), (c.request).idempotency_key,
      decode((c.request).fingerprint, 'hex'), now(), c.run_id
    from unnest(claims) as c
    where c.refusal is null and (c.request).idempotency_key is not null
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;
  return answers;
end
$$;
