-- Creates run ids and the monthly partitions of ai.runs.

-- Returns a UUID version 7 (RFC 9562 section 5.7) for the given time, in milliseconds.
create or replace function ai.run_id(moment timestamptz) returns uuid
  language sql volatile security invoker parallel safe
as $$
  select encode(
    set_byte(
      overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send(floor(extract(epoch from moment) * 1000)::bigint) from 3)
        from 1 for 6
      ),
      6,
      112 + floor(random() * 16)::integer
    ),
    'hex'
  )::uuid
$$;

-- Returns a UUID version 7 for a run that begins now. The gateway chooses the random part, so that it can find the run
-- if the response from ai.begin_runs is lost. The time in milliseconds has eleven hexadecimal digits until the year
-- 2527.
create or replace function ai.new_run_id(run_id_suffix text) returns uuid
  language sql volatile security invoker
as $$
  select ('0' || to_hex(floor(extract(epoch from now()) * 1000)::bigint) || '7000' || run_id_suffix)::uuid
$$;

-- Creates the missing monthly partitions of ai.runs, up to months_ahead months from now. Protects each partition in the
-- same way as ai.runs. Returns the number of partitions created.
create or replace function ai.create_run_partitions(months_ahead integer default 3) returns integer
  language plpgsql volatile security invoker
  -- Partitions cover UTC months, regardless of the caller's time zone.
  set timezone = 'UTC' set search_path = ''
as $$
declare
  first_day timestamptz;
  partition text;
  created integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('ai.create_run_partitions', 0));
  for first_day in
    select generate_series(date_trunc('month', now()), date_trunc('month', now()) + months_ahead * interval '1 month', '1 month')
  loop
    partition := format('ai.runs_%s', to_char(first_day, 'YYYY_MM'));
    continue when to_regclass(partition) is not null;
    if exists (select from ai.runs_default r where r.created_at >= first_day and r.created_at < first_day + interval '1 month') then
      raise warning 'the default partition of ai.runs already holds runs of %, which stay there', to_char(first_day, 'YYYY-MM');
      continue;
    end if;
    execute format(
      -- A run is written when it begins and when it ends. Free space on the page makes the second write a heap-only
      -- update.
      'create table %s partition of ai.runs for values from (%L) to (%L) with (fillfactor = 45)',
      partition, first_day, first_day + interval '1 month'
    );
    perform ai.protect_partition(partition::regclass);
    created := created + 1;
  end loop;
  return created;
end
$$;

-- Gives a partition of ai.runs the row-level security, policies and grants that partitions do not inherit.
create or replace function ai.protect_partition(target regclass) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  execute format('alter table %s enable row level security', target);
  execute format('revoke all on %s from public, anon, authenticated', target);
  execute format('revoke insert, update, delete, truncate on %s from service_role', target);
  -- The migration 20260923130000_required_account_mfa.sql creates this function and protects the partitions that exist
  -- by then.
  if to_regprocedure('private.protect_table(regclass)') is not null then
    execute format('select private.protect_table(%L::regclass)', target);
  end if;
end
$$;

-- Rejects a change that ends a run without a settlement. The run's reservation would never be released.
create or replace function ai.reject_incomplete_settlement() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if new.status <> 'running' or new.settled_at is not null then
    raise exception 'a run ends with settled_at and usage_source: use ai.settle_runs'
      using errcode = 'check_violation';
  end if;
  return null;
end
$$;

-- Runs the check only if settled_at or usage_source is null. A settlement always sets both columns.
create or replace trigger reject_incomplete_settlement after update of status on ai.runs
  for each row when (new.settled_at is null or new.usage_source is null) execute function ai.reject_incomplete_settlement();
