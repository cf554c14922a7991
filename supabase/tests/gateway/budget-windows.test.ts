import fc from "fast-check";
import { describe, expect } from "vitest";
import { one, test } from "../database.ts";
import vectors from "./budget-window-vectors.json" with { type: "json" };
import { admitAll, chatCall, createTenant } from "./fixtures.ts";

type Vector = { name: string; period: string; timeZone: string; at: string; start: string; end: string };

/** Each line is a period, a time zone, an instant, and the start and end of its window. Made with Python's `zoneinfo`. */
const lines = Object.entries(vectors).map(([name, line]): Vector => {
  const [period = "", timeZone = "", at = "", start = "", end = ""] = line.split(" ");
  return { name, period, timeZone, at, start, end };
});

const dayMs = 86_400_000;
const minuteMs = 60_000;
const formats = new Map<string, Intl.DateTimeFormat>();
const firstInstants = new Map<string, number>();

/** Returns the local date, such as 2026-03-29. */
function localDate(timeZone: string, ms: number): string {
  // Swedes write dates as ISO 8601 does.
  const format = formats.get(timeZone) ?? new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short" });
  formats.set(timeZone, format);
  return format.format(ms);
}

/** Returns the first instant of a local day, in ms. If the date was skipped, returns that of the next day. */
function firstInstant(timeZone: string, date: string): number {
  const known = firstInstants.get(`${timeZone} ${date}`);
  if (known !== undefined) return known;
  const middle = Date.parse(date);
  let [before, from] = [(middle - dayMs) / minuteMs, (middle + dayMs) / minuteMs];
  while (from - before > 1) {
    const between = Math.floor((before + from) / 2);
    if (localDate(timeZone, between * minuteMs) < date) before = between;
    else from = between;
  }
  firstInstants.set(`${timeZone} ${date}`, from * minuteMs);
  return from * minuteMs;
}

/** Returns the window of an instant, as a second implementation that shares nothing with SQL. */
function windowOf({ period, timeZone, ms }: { period: string; timeZone: string; ms: number }): [number, number] {
  if (period === "total") return [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  const [year = 0, month = 0, day = 0] = localDate(timeZone, ms).split("-").map(Number);
  const first = (y: number, m: number, d: number) =>
    firstInstant(timeZone, new Date(Date.UTC(y, m - 1, d)).toISOString().slice(0, 10));
  if (period === "month") return [first(year, month, 1), first(year, month + 1, 1)];
  const monday = day - ((new Date(Date.UTC(year, month - 1, day)).getUTCDay() + 6) % 7);
  return period === "week"
    ? [first(year, month, monday), first(year, month, monday + 7)]
    : [first(year, month, day), first(year, month, day + 1)];
}

/** Returns an instant in whole ms. Drops microseconds, since windows begin at whole minutes. */
function milliseconds(instant: string): number {
  if (instant.endsWith("infinity"))
    return instant.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Date.parse(instant);
}

describe("the window of a budget", () => {
  test("is that of each written example", async ({ db }) => {
    expect(lines.length).toBeGreaterThan(80);
    const wrong = await db.query(
      `select v.name, w.starts_at::text, w.ends_at::text
       from jsonb_to_recordset($1) as v (name text, period text, "timeZone" text, at timestamptz, start timestamptz, "end" timestamptz)
       cross join lateral ai.budget_window(v.period, v."timeZone", v.at) as w
       where (w.starts_at, w.ends_at) is distinct from (v.start, v."end")`,
      [JSON.stringify(lines)],
    );
    expect(wrong).toEqual([]);
  });

  test("computed with Intl is that of each written example too", () => {
    const wrong = lines.filter(({ period, timeZone, at, start, end }) => {
      const window = windowOf({ period, timeZone, ms: milliseconds(at) });
      return String(window) !== String([milliseconds(start), milliseconds(end)]);
    });
    expect(wrong).toEqual([]);
  });

  test("agrees with Intl for random instants, without gaps or overlaps", async ({ db }) => {
    // Most clocks change in the months that begin here. Windows begin at quarter hours: a third of the instants is just
    // before one, and a third at one.
    const months = [2, 8, 9].flatMap((month) => [2026, 2027, 2028, 2029].map((year) => Date.UTC(year, month)));
    const instants = fc
      .sample(
        fc.record({
          month: fc.constantFrom(...months),
          minute: fc.nat(40 * 24 * 60),
          side: fc.constantFrom("before", "at", "after"),
        }),
        { seed: 88, numRuns: 2_000 },
      )
      .map(({ month, minute, side }, at) => {
        const boundary = month + Math.floor(minute / 15) * 15 * minuteMs;
        const us =
          side === "after" ? (month + minute * minuteMs) * 1_000 + 1 : boundary * 1_000 - (side === "at" ? 0 : 1);
        return { period: ["day", "week", "month"][at % 3], us };
      });
    const { windows } = await one<{
      windows: {
        zone: string;
        period: string;
        start: number;
        end: number;
        first: number;
        last: number;
        isTiled: boolean;
      }[];
    }>(db, {
      sql: `with instants as materialized (
              select z.zone, i.period, 'epoch'::timestamptz + i.us * interval '1 microsecond' as at
              from unnest($1::text[]) as z (zone) cross join jsonb_to_recordset($2) as i (period text, us bigint)
            ), windows as (
              select i.zone, i.period, w.starts_at, w.ends_at, min(i.at) as first, max(i.at) as last
              from instants i cross join lateral ai.budget_window(i.period, i.zone, i.at) as w
              group by 1, 2, 3, 4
            )
            select json_agg(json_build_object(
              'zone', w.zone, 'period', w.period,
              'start', extract(epoch from w.starts_at) * 1000, 'end', extract(epoch from w.ends_at) * 1000,
              'first', floor(extract(epoch from w.first) * 1000), 'last', floor(extract(epoch from w.last) * 1000),
              'isTiled', w.starts_at <= w.first and w.last < w.ends_at
                and (ai.budget_window(w.period, w.zone, w.ends_at)).starts_at = w.ends_at
                and (ai.budget_window(w.period, w.zone, w.starts_at - interval '1 microsecond')).ends_at = w.starts_at
            )) as windows
            from windows w`,
      values: [zones, JSON.stringify(instants)],
    });
    const wrong = windows.filter(({ zone, period, start, end, first, last, isTiled }) =>
      [first, last].some((ms) => !isTiled || String(windowOf({ period, timeZone: zone, ms })) !== String([start, end])),
    );
    expect(windows.length).toBeGreaterThan(10_000);
    expect(wrong).toEqual([]);
  });
});

/** Zones of every kind: half hours, no midnight, two midnights, and clocks that change twice within weeks. */
const zones = [
  ...["UTC", "Etc/GMT+12", "Etc/GMT-14", "Pacific/Kiritimati", "Pacific/Apia", "Pacific/Chatham", "Pacific/Auckland"],
  ...["Pacific/Honolulu", "Pacific/Easter", "Pacific/Norfolk", "Australia/Lord_Howe", "Australia/Sydney"],
  ...["Australia/Adelaide", "Australia/Eucla", "Asia/Tokyo", "Asia/Shanghai", "Asia/Kathmandu", "Asia/Kolkata"],
  ...[
    "Asia/Kabul",
    "Asia/Tehran",
    "Asia/Dubai",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Africa/Cairo",
    "Africa/Johannesburg",
  ],
  ...["Asia/Karachi", "Africa/Lagos", "Europe/Berlin", "Europe/Dublin", "Europe/London", "Europe/Chisinau"],
  ...["Atlantic/Azores", "America/Nuuk", "America/St_Johns", "America/Sao_Paulo", "America/Asuncion"],
  ...["America/Santiago", "America/Havana", "America/New_York", "Antarctica/Troll"],
];

test("a time zone that Postgres no longer knows counts as UTC, and fails neither its calls nor others of the batch", async ({
  db,
}) => {
  const tenant = await createTenant(db, { credits: "1000" });
  const other = await createTenant(db, { credits: "1000" });
  await db.query("select ai.set_budget('workspace', $1, $1, 5, period => 'day')", [tenant.workspaceId]);
  await db.query(
    `update ai.budgets
     set time_zone = 'US/Removed', spent_usd = 5, starts_at = now() - interval '3 days', ends_at = now() - interval '2 days'
     where workspace_id = $1`,
    [tenant.workspaceId],
  );
  const answers = await admitAll(db, [chatCall(tenant), chatCall(other)]);
  expect(answers.map(({ refused }) => refused)).toEqual([undefined, undefined]);
  const window = await one(db, {
    sql: `select starts_at = date_trunc('day', now(), 'UTC') as today, spent_usd::int as spent from ai.budgets
          where workspace_id = $1`,
    values: [tenant.workspaceId],
  });
  expect(window).toEqual({ today: true, spent: 0 });
  await db.query("update ai.budgets set spent_usd = 5 where workspace_id = $1", [tenant.workspaceId]);
  const { alerts } = await one<{ alerts: object[] }>(db, {
    sql: "select ai.sweep_budget_alerts(1000, true) as alerts",
  });
  expect(alerts).toContainEqual(expect.objectContaining({ workspaceId: tenant.workspaceId, timeZone: "UTC" }));
});
