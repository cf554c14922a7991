-- Measures the whole deployment, for monitoring.

-- Returns the figures that docs/operating.md lists under "Figures of the deployment". Reads counters, open runs and
-- short queues, and never more than the runs of the last two minutes.
create or replace function private.measure_deployment() returns jsonb
  language sql stable security invoker set search_path = ''
  -- A partition may be empty when statistics are collected and large when the plan is used. Runs are found by their key.
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
  with progress as materialized (
    select p.seen_until from ai.sweep_progress p
  ), long_running as materialized (
    select r.created_at, r.reserved_usd, r.reserved_credits
    from ai.long_running_runs l
    cross join lateral (
      select * from ai.runs o
      where o.created_at = l.run_created_at and o.id = l.run_id and o.status = 'running'
      -- Otherwise, Postgres could read all runs and look up each of them in the short table.
      offset 0
    ) r
  ), open_runs as (
    select * from long_running
    union all
    -- The sweep has recorded all earlier open runs in ai.long_running_runs.
    select r.created_at, r.reserved_usd, r.reserved_credits
    from progress p
    join ai.runs r on r.created_at > p.seen_until
    where r.created_at > now() - interval '2 minutes' and r.status = 'running'
  )
  select jsonb_build_object(
    'totals', (
      select coalesce(jsonb_agg(jsonb_build_object('figure', t.figure, 'label', t.label, 'total', trim_scale(t.total)::text)), '[]')
      from ai.totals t
    ),
    'openRuns', (select count(*) from open_runs),
    'longRunningRuns', (select count(*) from long_running),
    'oldestOpenRunSeconds', (select coalesce(extract(epoch from now() - min(o.created_at)), 0) from open_runs o),
    'reservedUsd', (select trim_scale(coalesce(sum(o.reserved_usd), 0))::text from open_runs o),
    'reservedCredits', (select trim_scale(coalesce(sum(o.reserved_credits), 0))::text from open_runs o),
    -- Null before the first sweep and the first sum. JSON has no infinity.
    'sweepAgeSeconds', (
      select extract(epoch from now() - nullif(p.seen_until, '-infinity')) from progress p
    ),
    'usageAgeSeconds', (
      select extract(epoch from now() - nullif(u.summed_until, '-infinity')) from ai.usage_progress u
    ),
    'blockedAddresses', (
      select count(*) from private.address_blocks b where b.blocked_until > now() and b.lifted_at is null
    )
  ) || (
    select jsonb_build_object(
      'mailsWaiting', count(*) filter (where m.attempts < 12),
      'mailsFailed', count(*) filter (where m.attempts >= 12),
      'mailsDueSeconds', coalesce(extract(epoch from now() - min(m.next_attempt_at) filter (where m.attempts < 12)), 0)
    )
    from private.outgoing_mails m
  )
$$;
