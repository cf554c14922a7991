-- The studio's overview: the usage of a date range, grouped by one dimension and compared with the previous range.

-- Returns a workspace's usage in a range, for a member with use_ai_studio: totals, the totals of the previous range,
-- and rows by day, model, feature, key, app, member or label. Days are sorted newest first. All other rows are sorted
-- by amount, the largest first. A day's key is the number of days since the start of the range. An API key's key is its
-- lineage. For labels, the key is empty for runs without a label and * for the labels beyond the 10,000 most expensive
-- of a day. For models, series contains the daily usage of the six largest models and, with model null, of all other
-- models together. deductions contains the credits deducted without a run, by day.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_overview(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, grouped_by text default 'day', days_each integer default 1, max_rows integer default 500
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- Plans this query only once per connection.
  set plan_cache_mode = force_generic_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  fault text := coalesce(
    (ai.usage_window(range_from, range_to, 30)).fault, (ai.usage_window(previous_from, previous_to, 30)).fault
  );
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', fault);
  end if;
  return (
    with current as materialized (
      select * from ai.usage_by_key(workspace, range_from, range_to, grouped_by, days_each)
    ), previous as materialized (
      select * from ai.usage_by_key(workspace, previous_from, previous_to, grouped_by, days_each)
    ), deducted as materialized (
      select ((d.day - range_from::date) / days_each * days_each)::text as key, d.credits
      from ai.unlinked_deductions_by_day(member_id, workspace, range_from, range_to) d
    ), listed as (
      select coalesce(c.key, p.key) as key, c.sums, p.sums as previous_sums, c.cost_usd, c.billed_credits, c.requests
      from (select * from current where key is not null) c
      full join (select * from previous where key is not null) p on p.key = c.key
    ), shown as (
      select l.*, row_number() over (
        order by
          case when grouped_by = 'day' then l.key::integer end desc,
          case when visible then l.cost_usd else l.billed_credits end desc nulls last,
          l.requests desc nulls last,
          l.key collate "C"
      ) as place
      from listed l
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'everUsed', exists (select from ai.runs r where r.workspace_id = workspace),
      'totals', ai.overview_sums(t.sums, visible) || jsonb_build_object(
        'otherDeductions', trim_scale(o.credits)::text,
        'usedCredits', trim_scale(o.credits + coalesce(t.billed_credits, 0))::text
      ),
      'previous', ai.overview_sums(b.sums, visible) || jsonb_build_object(
        'usedCredits', trim_scale(
          ai.unlinked_deductions(member_id, workspace, previous_from, previous_to) + coalesce(b.billed_credits, 0)
        )::text
      ),
      'rows', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'key', s.key,
            'name', case grouped_by
              when 'key' then (
                select k.name from ai.keys k
                where k.lineage_id = nullif(s.key, '')::uuid and k.workspace_id = workspace
                order by k.created_at desc limit 1
              )
              when 'app' then ai.app_label(nullif(s.key, '')::uuid)
              when 'member' then ai.member_label(workspace, nullif(s.key, '')::uuid)
            end,
            'now', ai.overview_sums(s.sums, visible),
            'before', ai.overview_sums(s.previous_sums, visible)
          )
          order by s.place
        ), '[]')
        from shown s
        where s.place <= max_rows
      ),
      'series', case when grouped_by = 'model' then (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'day', m.day,
            'model', m.model,
            'requests', m.requests,
            'failed', m.failed,
            'tokens', m.tokens,
            'amountUsd', case when visible then trim_scale(m.cost_usd)::text end,
            'billedCredits', trim_scale(m.billed_credits)::text
          )
          order by m.day, m.place
        ), '[]')
        from ai.model_usage_by_day(
          workspace, range_from, range_to, days_each,
          array(select s.key from shown s where s.cost_usd is not null order by s.place limit 6)
        ) m
      ) end,
      'leftOut', (select count(*) from shown s where s.place > max_rows),
      'deductions', (
        select coalesce(jsonb_object_agg(x.key, trim_scale(x.credits)::text), '{}')
        from (select d.key, sum(d.credits) as credits from deducted d group by d.key) x
      )
    )
    from (select * from current where key is null) t
    cross join (select * from previous where key is null) b
    cross join (select coalesce(sum(d.credits), 0) as credits from deducted d) o
  );
end
$$;

-- Returns a range's sums (the argument of ai.overview_sums), grouped by ai.usage_key or by label. The row with a null key
-- covers the whole range. Rows of labels have neither histograms nor refused calls.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer
) returns table (key text, sums numeric[], cost_usd numeric, billed_credits numeric, requests numeric)
  language sql stable security invoker
as $$
  select
    u.key,
    array[
      sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd), sum(u.billed_credits),
      sum(u.unmetered_credits), sum(u.latency_ms), sum(u.timed), sum(u.latency_marks), sum(u.first_token_marks),
      coalesce(sum(u.refused), 0)
    ],
    sum(u.cost_usd), sum(u.billed_credits), sum(u.requests)
  from (
    select
      ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.requests, p.failed,
      p.input_tokens, p.output_tokens, p.cost_usd, p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed,
      p.latency_marks, p.first_token_marks, 0 as refused
    from ai.usage_between(workspace, window_from, window_to, grouped_by = 'member') p
    union all
    select
      ai.refused_key(r, grouped_by, (window_from at time zone 'UTC')::date, days_each), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      r.refused
    from ai.refused_between(workspace, window_from, window_to) r
  ) u
  group by grouping sets ((u.key), ())
  -- For labels, keeps only the row for the whole range. The rows of labels come from ai.label_usage_between.
  having u.key is null or (grouped_by <> 'label' and (sum(u.requests) > 0 or sum(u.refused) > 0))
  union all
  select
    b.label,
    array[
      sum(b.requests), sum(b.failed), sum(b.input_tokens), sum(b.output_tokens), sum(b.cost_usd), sum(b.billed_credits),
      sum(b.unmetered_credits), sum(b.latency_ms), sum(b.timed)
    ],
    sum(b.cost_usd), sum(b.billed_credits), sum(b.requests)
  from ai.label_usage_between(workspace, window_from, window_to) b
  where grouped_by = 'label'
  group by b.label
  having sum(b.requests) > 0
$$;

-- Formats sums of ai.usage_by_key for display, with latency quantiles. Returns null for null. Called only for displayed
-- rows, because a day may have thousands of labels.
-- Has no `set` clause and no subselect, so that Postgres can inline it into its callers' plans.
create or replace function ai.overview_sums(sums numeric[], cost_visible boolean) returns jsonb
  language sql immutable security invoker
as $$
  select case when sums is not null then
    ai.usage_sums(
      sums[1], sums[2], sums[3], sums[4], case when cost_visible then coalesce(sums[5], 0) end, sums[6], sums[7], sums[8],
      sums[9]
    ) || jsonb_build_object('refused', sums[12]) || case
      when sums[10] > 0 then ai.latency_summary(sums[10], sums[11], sums[8])
      else '{"latencyP50Ms": null, "latencyP95Ms": null, "firstTokenP50Ms": null, "firstTokenP95Ms": null}'
    end
  end
$$;

-- Formats the quantiles of a histogram of durations, with their sum, and of one of times to the first token.
create or replace function ai.latency_summary(latency_marks numeric, first_token_marks numeric, latency_ms numeric)
  returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
  )
  from ai.latency_quantiles(latency_marks, latency_ms) as l
  cross join ai.latency_quantiles(first_token_marks) as f
$$;

-- Returns the daily usage of the given models and, with model null, of all other models together. day is the number of
-- days since the start of the range.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.model_usage_by_day(
  workspace uuid, window_from timestamptz, window_to timestamptz, days_each integer, models text[]
) returns table (
  day integer, model text, place integer, requests numeric, failed numeric, tokens numeric, cost_usd numeric,
  billed_credits numeric
)
  language sql stable security invoker
as $$
  select
    (u.day - (window_from at time zone 'UTC')::date) / days_each * days_each, models[o.place], o.place, sum(u.requests),
    sum(u.failed), sum(u.input_tokens + u.output_tokens), sum(u.cost_usd), sum(u.billed_credits)
  from ai.usage_between(workspace, window_from, window_to) u
  cross join lateral (select array_position(models, u.model_id) as place) o
  group by 1, o.place
$$;

-- Returns the key of the row to which a daily sum belongs. For rows by day, the key is the number of days since the
-- start of the range, so that two ranges can be compared. One row covers days_each days.
create or replace function ai.usage_key(part ai.usage_daily, grouped_by text, first_day date, days_each integer) returns text
  language sql immutable security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then (part).model_id
    when 'feature' then (part).feature
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
    when 'member' then coalesce((part).actor_id::text, '')
    else ''
  end
$$;

-- Returns the key of the row to which a daily sum of refused calls belongs, as ai.usage_key does.
create or replace function ai.refused_key(part ai.refused_daily, grouped_by text, first_day date, days_each integer)
  returns text
  language sql immutable security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then coalesce((part).model_id, '')
    when 'feature' then coalesce((part).feature, '')
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
    when 'member' then coalesce((part).actor_id::text, '')
    else ''
  end
$$;

-- Estimates the median and 95th percentile of run durations, in ms, from a histogram (a sum of ai.latency_mark) and, if
-- known, the sum of the durations. Each estimate is in the same bucket as the exact value, so its error is at most the
-- width of a bucket, 19%. No estimate exceeds the longest duration: in the highest bucket, it is the lowest mean that the
-- sum allows, or the bucket's first millisecond. So the estimates of equal durations with a sum are exact. Returns nulls
-- if the histogram contains no run.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.latency_quantiles(marks numeric, total_ms numeric default null)
  returns table (p50 integer, p95 integer)
  language sql immutable security invoker parallel safe
as $$
  with d as materialized (
    -- A byte at a position can be read directly, while a character of a text is found only by counting.
    select lpad(marks::text, 12 * 81, '0')::bytea as digits
  ), b as materialized (
    select
      c.*,
      (sum(c.runs) over (order by c.bucket) - c.runs)::double precision as before,
      (sum(c.runs) over ())::double precision as total
    from (
      select
        n as bucket,
        encode(substr(d.digits, 12 * (80 - n) + 1, 12), 'escape')::bigint as runs,
        case n when 0 then 0 else 2 ^ ((n - 1) / 4.0::double precision) end as low,
        2 ^ (n / 4.0::double precision) as high
      from d
      cross join generate_series(0, 80) as n
    ) c
    where c.runs > 0
  ), longest as (
    select t.bucket, greatest(ceil(t.low), (total_ms - s.below_ms) / t.runs) as ms
    from (select * from b order by bucket desc limit 1) t
    cross join (
      select coalesce(sum(runs * (ceil(high) - 1)), 0) as below_ms from b where bucket < (select max(bucket) from b)
    ) s
  ), e as (
    select
      q.part,
      case when b.bucket < l.bucket then b.low + (b.high - b.low) * (q.part * b.total - b.before) / b.runs else l.ms end
        as ms
    from b
    cross join longest l
    cross join (values (0.5), (0.95)) as q (part)
    where b.before < q.part * b.total and b.before + b.runs >= q.part * b.total
  )
  select
    max(round(e.ms)) filter (where e.part = 0.5)::integer, max(round(e.ms)) filter (where e.part = 0.95)::integer
  from e
$$;
